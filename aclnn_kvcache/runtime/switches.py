# SPDX-License-Identifier: Apache-2.0
"""Options of a session that an environment variable can turn on too."""

from __future__ import annotations

import os

from aclnn_kvcache.errors import ArgumentError


def switch(argument: str, value: object, variable: str) -> bool:
    """The value, or where it is None what the environment variable says: 1, 0 or nothing. Raises ArgumentError."""
    if value is None:
        text = os.environ.get(variable, "")
        if text not in ("", "0", "1"):
            raise ArgumentError(f"environment variable {variable}", "1, 0 or nothing", repr(text))
        return text == "1"
    if not isinstance(value, bool):
        raise ArgumentError(argument, f"True, False, or None for what {variable} says", repr(value))
    return value
