# SPDX-License-Identifier: Apache-2.0
"""What a status, a message code or a pasted error text means, its usual causes, and what to do about it."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

from aclnn_kvcache import status
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.explain.explanation import LONGEST_TEXT, Cause, Explanation, of_message, of_report, of_status
from aclnn_kvcache.explain.messages import known_messages
from aclnn_kvcache.explain.reports import known_reports

__all__ = ["Cause", "Explanation", "explain", "is_code"]

_NUMBER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})")
_MESSAGE = re.compile(r"[A-Z][A-Z0-9][0-9]{4}", re.IGNORECASE)
_NAME = re.compile(r"[A-Z]\w*_\w+", re.IGNORECASE)
_STATUS_NAME = re.compile(r"\bACL(NN)?_ERR\w*", re.IGNORECASE)


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
    if not isinstance(what, str):
        return _of_number(what)
    text = what.strip()
    if not text:
        raise ArgumentError("what", _WANTED, "an empty text")
    if _NUMBER.fullmatch(text):
        return Explanation(text, (of_status(_integer(text)),))
    if _MESSAGE.fullmatch(text):
        return Explanation(text, (of_message(text.upper()),))
    named = status.named(text)
    if named:
        return Explanation(text, (of_status(named.value),))
    if text in known_reports():
        return Explanation(text, (of_report(text),))
    from aclnn_kvcache.explain.text import find  # here, as its patterns would make importing the package slow

    unread = max(len(text) - LONGEST_TEXT, 0)
    text = text[unread:]
    causes = find(text)
    unknown = _NAME.fullmatch(text) or _STATUS_NAME.search(text)
    return Explanation(text, causes, _similar(unknown[0]) if unknown and not causes else (), unread)


def is_code(text: str) -> bool:
    """Whether a word is a code or a name by its form, and not a piece of a text."""
    return any(form.fullmatch(text) for form in (_NUMBER, _MESSAGE, _NAME))


_WANTED = "a status as a number or C name, a message code, a report of the simulator, or a text that has one in it"


def _of_number(what: SupportsIndex) -> Explanation:
    try:
        value = None if isinstance(what, bool) else operator.index(what)
    except TypeError:
        value = None
    if value is None:
        raise ArgumentError("what", _WANTED, type(what).__name__, "pass str(error) to explain an exception")
    if not -(2**63) <= value < 2**64:
        raise ArgumentError("what", _WANTED, "a number of more than 64 bits")
    return Explanation(str(value), (of_status(value),))


def _integer(text: str) -> int:
    return int(text, 16) if "x" in text.lower() else int(text)


def _similar(name: str) -> tuple[str, ...]:
    """Known names that hold this one or that differ from it little."""
    from difflib import get_close_matches  # here for the same reason

    names = {known.upper(): known for known in (*status.names(), *known_messages(), *known_reports())}
    holding = [known for known in names if name.upper() in known][:5]
    return tuple(names[known] for known in holding or get_close_matches(name.upper(), names, n=3, cutoff=0.75))
