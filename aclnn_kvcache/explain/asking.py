# SPDX-License-Identifier: Apache-2.0
"""Finds out what is asked: a number, a name, a message code, or a text with any of these in it."""

from __future__ import annotations

import operator
import re
from difflib import get_close_matches
from typing import SupportsIndex

from aclnn_kvcache import status
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.explain.explanation import LONGEST_TEXT, Explanation, of_message, of_report, of_status
from aclnn_kvcache.explain.messages import known_messages
from aclnn_kvcache.explain.reports import known_reports
from aclnn_kvcache.explain.text import find

_NUMBER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})")
_MESSAGE = re.compile(r"[A-Z][A-Z0-9][0-9]{4}", re.IGNORECASE)
_NAME = re.compile(r"[A-Z]\w*_\w+", re.IGNORECASE)
_STATUS_NAME = re.compile(r"\bACL(NN)?_ERR\w*", re.IGNORECASE)


def explained(what: str | SupportsIndex) -> Explanation:
    """See ``explain``."""
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
    names = {known.upper(): known for known in (*status.names(), *known_messages(), *known_reports())}
    holding = [known for known in names if name.upper() in known][:5]
    return tuple(names[known] for known in holding or get_close_matches(name.upper(), names, n=3, cutoff=0.75))
