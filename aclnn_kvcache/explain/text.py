# SPDX-License-Identifier: Apache-2.0
"""Finds what is known in a pasted text: statuses, their names, message codes and phrases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from aclnn_kvcache import status
from aclnn_kvcache.explain.explanation import Cause, of_message, of_report, of_status
from aclnn_kvcache.explain.messages import describe_message
from aclnn_kvcache.explain.phrases import Phrase, is_noise, matches
from aclnn_kvcache.explain.reports import reports_in

LONGEST_LINE = 2000

_DECORATION = re.compile(
    r"^\[[A-Z]+\] *\w+\(\d+,[^)]*\):"  # level, module, process of a log line
    r"|\[(PID|THREAD|FUNC|FILE|LINE):[^\]]*\]"
    r"|\d{4}-\d\d-\d\d[-T ]\d\d:\d\d:\d\d[.,\d]*"
    r"|\[NNOP\]\[\w+\]\[\d+\]"  # function and thread
    r"|\[[\w./-]+\.(cc|cpp|c|h|py):\d+\]\d*"  # source place of a log line, and the thread behind it
)
_NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-f]{5}|[1235](?:00|07|45|48|61)\d{3})(?!\w|\.\d)", re.IGNORECASE)
_SAYS_ERROR = re.compile(r"(err|code|status|ret|result|fail|answered|\brc\b)[^\d]*$", re.IGNORECASE)
"""What stands before a number that is a status and not a size or a process."""
_SAYS_OTHER = re.compile(r"\b(p?pid|tid|process|thread|took|elapsed|size|port|line|offset)\W*$", re.IGNORECASE)
_UNIT = re.compile(r"\s?([mun]?s|sec\w*|bytes?|[kmgt]i?b|tokens|elements|%)\b", re.IGNORECASE)
"""What stands before and behind a number that is no status, unless something says that it is one."""
_NAME = re.compile(r"\bACL(?:NN)?_\w+", re.IGNORECASE)
_MESSAGE = re.compile(r"\bE[A-Z0-9]\d{4}\b")

_VAGUE = {361001, 500000, 500001, 500003, 507000, 507899, 561000, 561001, 561002, 561103}
"""Statuses beside which almost any other code says more."""
_NO_CONTEXT = 107002


def clean(line: str) -> str:
    """A line without times, process numbers and source places."""
    return " ".join(_DECORATION.sub(" ", line[:LONGEST_LINE]).split())


def find(text: str) -> tuple[Cause, ...]:
    """What is known in the text, each once, the most telling first and noise last."""
    found: dict[tuple[str, str], Cause] = {}
    for line in dict.fromkeys(map(clean, text.splitlines())):
        phrases = list(matches(line))
        noise = any(phrase.noise for phrase, _ in phrases)
        for key, cause in _in_line(line, phrases):
            # A code that also stands on a line of its own is no noise.
            if key not in found or (found[key].noise and not noise):
                found[key] = cause()._replace(noise=noise)
    causes = [cause._replace(noise=cause.noise and _follows(cause, found.values())) for cause in found.values()]
    return tuple(sorted(causes, key=_rank))


def _in_line(line: str, phrases: Iterable[tuple[Phrase, str]]) -> Iterator[tuple[tuple[str, str], Callable[[], Cause]]]:
    """What is in a line: a key, and how to make the cause, which is done once for many lines."""
    for kind in reports_in(line):
        yield ("report", kind), partial(of_report, kind, line)
    for phrase, text in phrases:
        about = (phrase.meaning, phrase.causes, phrase.action)
        yield ("phrase", phrase.pattern), partial(Cause, "phrase", text, "", *about, line=line)
    for code in _MESSAGE.findall(line):
        yield ("message", code), partial(of_message, code, line)
    for value in [*_numbers(line), *_named(line)]:
        yield ("status", str(value)), partial(of_status, value, line)


def _numbers(line: str) -> Iterator[int]:
    for match in _NUMBER.finditer(line):
        value = int(match[1], 0)
        before = line[max(0, match.start() - 30) : match.start()]
        said = _SAYS_ERROR.search(before)
        if not said and (_SAYS_OTHER.search(before) or _UNIT.match(line, match.end())):
            continue
        known, is_round = value in status.statuses(), value % 100_000 == 0
        in_hexadecimal = match[1][:2].lower() == "0x"
        if (known and not is_round and not in_hexadecimal) or (said and (known or not in_hexadecimal)):
            yield value


def _named(line: str) -> Iterator[int]:
    for name in _NAME.findall(line):
        known = status.named(name)
        if known is not None and known.value != 0:
            yield known.value


def _follows(cause: Cause, others: Iterable[Cause]) -> bool:
    """Whether a cause found on lines of noise only is explained by something that is not."""
    if cause.kind == "phrase" and not _is_vague(cause):
        return False
    real = [other for other in others if not other.noise]
    if not real:  # all in one line: the statuses are what it is about, and the rest its wording
        return cause.kind != "status" and _is_vague(cause) and any(other.kind == "status" for other in others)
    if cause.code == str(_NO_CONTEXT):
        # It is what makes an operator fail inside in a thread without a device.
        real = [other for other in real if not _is_vague(other)]
    return bool(real)


def _is_vague(cause: Cause) -> bool:
    if cause.kind == "message":
        return describe_message(cause.code).vague
    if cause.kind == "phrase":
        return is_noise(cause.code)
    if cause.kind == "report":
        return False
    return not cause.known or int(cause.code) in _VAGUE


def _rank(cause: Cause) -> tuple[bool, bool, bool, bool]:
    return cause.noise, cause.kind != "report", _is_vague(cause), cause.kind == "status"
