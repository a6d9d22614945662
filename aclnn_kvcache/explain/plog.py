# SPDX-License-Identifier: Apache-2.0
"""CANN's log files on the host (plog): where they are, which belong to a process, and the lines in them that matter."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aclnn_kvcache.explain.explanation import Cause
from aclnn_kvcache.explain.phrases import is_noise
from aclnn_kvcache.explain.text import LONGEST_LINE, clean, find

TAIL = 4 * 2**20
"""Bytes that are read of one process's files, from their end."""
MOST_LINES = 40
LONGEST_PRINTED = 400

_FILE = re.compile(r"plog-(\d{1,10})_(\d+)\.log")
_LINE = re.compile(r"\[(DEBUG|INFO|WARNING|ERROR|EVENT)\] *(\w+)\(\d+,[^)]*\):(\S+) ?(.*)")
_OPERATORS = re.compile(r"(ScatterPaKvCache|QkvRmsNormRopeCache)WithKScale", re.IGNORECASE)


class LogPlace(NamedTuple):
    """Where CANN writes its logs."""

    path: str
    """The folder that holds debug/, run/ and security/; empty if HOME is not set either."""
    variable: str
    """The environment variable that decides: ASCEND_PROCESS_LOG_PATH, ASCEND_WORK_PATH or HOME."""
    exists: bool
    to_stdout: str
    """The variable that sends the logs to standard output, in which case files stay empty; else empty."""

    def __str__(self) -> str:
        if not self.path:
            return "no folder for CANN's logs: HOME is not set"
        missing = "" if self.exists else ", where no folder is"
        stdout = f"; but {self.to_stdout} sends them to standard output" if self.to_stdout else ""
        return f"{self.path} (by {self.variable}){missing}{stdout}"


class LogLine(NamedTuple):
    """A line of a log, with those that continue it."""

    level: str
    module: str
    time: str
    text: str
    """Without time, process and source place."""
    repeats: int = 1
    """How often it stood there."""

    def __str__(self) -> str:
        text = self.text if len(self.text) <= LONGEST_PRINTED else f"{self.text[:LONGEST_PRINTED]}…"
        return f"{self.time} {self.level} {self.module}: {text}" + (
            f" ... x {self.repeats}" if self.repeats > 1 else ""
        )


class Log(NamedTuple):
    """What matters in the log of one process."""

    pid: int | None
    """None if there is no file."""
    files: tuple[str, ...]
    """Oldest first."""
    lines: tuple[LogLine, ...]
    """Errors, and warnings about the operators of this package; oldest first, repeats folded."""
    noise: int
    """Lines left out because they only follow from others."""
    older: int
    """Different lines left out because there are too many, of those that were read."""
    problems: tuple[str, ...]
    """Files and folders that could not be read, with the reason."""
    unread: int = 0
    """Bytes before what was read."""
    recognised: int = 0
    """Lines that are of CANN's form, whatever they say."""


def log_folder(environ: Mapping[str, str]) -> LogPlace:
    """The folder of CANN's logs by its own variables. Reads no file and never raises."""
    stdout = next((name for name in _TO_STDOUT if environ.get(name) == "1"), "")
    for variable, below in _FOLDERS:
        if environ.get(variable):
            path = os.path.join(environ[variable], below) if below else environ[variable]
            return LogPlace(path, variable, os.path.isdir(path), stdout)
    return LogPlace("", "HOME", False, stdout)


_FOLDERS = (("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", "log"), ("HOME", "ascend/log"))
"""In CANN's order, with the part of the path below the variable's."""
_TO_STDOUT = ("ASCEND_LOG_PRINT_TO_STDOUT", "ASCEND_SLOG_PRINT_TO_STDOUT")


def read(folder: str, pid: int | None = None) -> Log:
    """What matters in the log of a process, or of the one that wrote last.

    folder: the one that log_folder names, or the one with the plog files themselves. Never raises for what is missing
    or cannot be read: that stands in ``problems``. Reads at most the last 4 MiB, and returns at most 40 lines.
    """
    problems: list[str] = []
    files = _files(folder, pid, problems)
    records: list[LogLine] = []
    budget, unread = TAIL, 0
    for path in reversed(files):
        data, skipped = _tail(path, budget, problems)
        budget = 0 if skipped else budget - len(data)
        unread += skipped
        records[:0] = _records(data.decode("utf-8", "replace").splitlines())
    important = [record for record in records if _matters(record)]
    telling = [record for record in important if not is_noise(record.text)] or important
    folded = _fold(telling)
    return Log(
        _pid(files[-1]) if files else None,
        tuple(map(str, files)),
        tuple(folded[-MOST_LINES:]),
        len(important) - len(telling),
        max(len(folded) - MOST_LINES, 0),
        tuple(problems),
        unread,
        len(records),
    )


def causes(log: Log) -> tuple[Cause, ...]:
    """What is known in the lines that matter, the most telling first."""
    return find("\n".join(line.text for line in log.lines))


def _files(folder: str, pid: int | None, problems: list[str]) -> list[Path]:
    """The files of one process, oldest first."""
    found: list[tuple[float, str, Path]] = []
    # An empty name stands for no folder, and must not become the working directory.
    for place in (Path(folder, "debug", "plog"), Path(folder, "plog"), Path(folder)) if folder else ():
        try:
            with os.scandir(place) as entries:
                found = [(_written(entry), entry.name, Path(entry.path)) for entry in entries if _is_log(entry)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            problems.append(_reason(str(place), error))
        if found:
            break
    if pid is None and found:
        pid = _pid(max(found)[2])
    return sorted((path for *_, path in found if _pid(path) == pid), key=lambda path: path.name)


def _is_log(entry: os.DirEntry[str]) -> bool:
    return _FILE.fullmatch(entry.name) is not None and entry.is_file()


def _written(entry: os.DirEntry[str]) -> float:
    """When it was written last; CANN may remove files at any time."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _pid(path: Path) -> int:
    match = _FILE.fullmatch(path.name)
    assert match
    return int(match[1])


def _tail(path: Path, limit: int, problems: list[str]) -> tuple[bytes, int]:
    """The end of a file, from the start of a line, and how many bytes are before it."""
    try:
        with path.open("rb") as file:
            start = max(file.seek(0, os.SEEK_END) - limit, 0)
            file.seek(start)
            data = file.read(limit)
    except OSError as error:
        problems.append(_reason(str(path), error))
        return b"", 0
    if start:
        lost, newline, data = data.partition(b"\n")
        start += len(lost + newline)
    return data, start


def _reason(path: str, error: Exception) -> str:
    return f"{path}: {getattr(error, 'strerror', None) or error}"


def _records(lines: Iterable[str]) -> Iterator[LogLine]:
    """Lines of the log, each with what continues it; what stands before the first is the end of a lost one."""
    current: LogLine | None = None
    for line in lines:
        match = _LINE.match(line[:LONGEST_LINE])
        if match:
            if current:
                yield current
            level, module, time, text = match.groups()
            current = LogLine(level, module, time, clean(text))
        elif current and len(current.text) < LONGEST_LINE:
            current = current._replace(text=f"{current.text} {clean(line)}".rstrip())
    if current:
        yield current


def _matters(record: LogLine) -> bool:
    return record.level == "ERROR" or (record.level == "WARNING" and _OPERATORS.search(record.text) is not None)


def _fold(records: Iterable[LogLine]) -> list[LogLine]:
    folded: dict[tuple[str, str, str], LogLine] = {}
    for record in records:
        key = (record.level, record.module, record.text)
        first = folded.get(key)
        folded[key] = first._replace(repeats=first.repeats + 1) if first else record
    return list(folded.values())
