# SPDX-License-Identifier: Apache-2.0
"""What a status, a message code or a pasted error text means, its usual causes, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

if TYPE_CHECKING:
    from aclnn_kvcache.explain.explanation import Explanation

__all__ = ["explain"]


def explain(what: str | SupportsIndex) -> Explanation:
    """What is known about `what`, with causes and what to do; no library and no device is needed.

    what: a status as a number (161002, "0x274ea"), its C name in any case ("ACLNN_ERR_PARAM_INVALID"), a code of
    CANN's messages ("EZ0028"), a kind of report of the simulator ("use_after_free"), or a text with any of these in it:
    an error message, a traceback, a piece of a log. Of a text the most telling is explained first; what usually follows
    from something else is marked as noise. Of more than 4 Mi characters only the last are looked at, and the
    explanation says so.

    A code that no table has is explained by its family; a name that is not known gets the names most like it.
    Raises ArgumentError for an empty text and for what is neither a number nor a text.
    """
    from aclnn_kvcache.explain.asking import explained  # here, since most processes never ask

    return explained(what)
