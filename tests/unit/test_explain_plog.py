# SPDX-License-Identifier: Apache-2.0
"""CANN's log files: where they are, which are taken, and which lines of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aclnn_kvcache.explain import plog
from aclnn_kvcache.explain.plog import LogLine, LogPlace, log_folder, read

TIME = "2026-08-01-10:11:12.123.456"


def line(text, level="ERROR", module="RUNTIME", pid=7, place="[api.cc:12]34 "):
    return f"[{level}] {module}({pid},python3):{TIME} {place}{text}\n"


def write(folder, pid, text, stamp=20260801101112123, modified=None):
    path = folder / "debug" / "plog" / f"plog-{pid}_{stamp}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if modified is not None:
        os.utime(path, (modified, modified))
    return str(path)


def texts(log):
    return [record.text for record in log.lines]


@pytest.mark.parametrize(
    ("environ", "path", "variable"),
    [
        ({"ASCEND_PROCESS_LOG_PATH": "/a", "ASCEND_WORK_PATH": "/b", "HOME": "/c"}, "/a", "ASCEND_PROCESS_LOG_PATH"),
        ({"ASCEND_WORK_PATH": "/b", "HOME": "/c"}, "/b/log", "ASCEND_WORK_PATH"),
        ({"ASCEND_PROCESS_LOG_PATH": "", "ASCEND_WORK_PATH": "", "HOME": "/c"}, "/c/ascend/log", "HOME"),
        ({}, "", "HOME"),
    ],
)
def test_the_folder_by_cann_s_variables(environ, path, variable):
    assert log_folder(environ) == LogPlace(path, variable, False, "")


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({}, ""),
        ({"ASCEND_SLOG_PRINT_TO_STDOUT": "0"}, ""),
        ({"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}, "ASCEND_SLOG_PRINT_TO_STDOUT"),
        ({"ASCEND_LOG_PRINT_TO_STDOUT": "1"}, "ASCEND_LOG_PRINT_TO_STDOUT"),
    ],
)
def test_logs_that_go_to_standard_output(tmp_path, extra, name):
    place = log_folder({"HOME": str(tmp_path), **extra})
    assert place.to_stdout == name
    sends = f"; but {name} sends them to standard output" if name else ""
    assert str(place) == f"{tmp_path}/ascend/log (by HOME), where no folder is{sends}"


def test_a_folder_that_exists_and_none_at_all(tmp_path):
    place = log_folder({"ASCEND_PROCESS_LOG_PATH": str(tmp_path)})
    assert place.exists
    assert str(place) == f"{tmp_path} (by ASCEND_PROCESS_LOG_PATH)"
    assert str(log_folder({})) == "no folder for CANN's logs: HOME is not set"
    assert not log_folder({"HOME": "\0"}).exists


def test_errors_without_time_process_and_place_in_order(tmp_path):
    path = write(tmp_path, 7, line("rtA: first") + line("rtB: noted", "INFO") + line("second", module="OP", place=""))
    log = read(str(tmp_path))
    assert log == plog.Log(
        7,
        (path,),
        (LogLine("ERROR", "RUNTIME", TIME, "rtA: first"), LogLine("ERROR", "OP", TIME, "second")),
        0,
        0,
        (),
        0,
        3,
    )
    assert [str(record) for record in log.lines] == [f"{TIME} ERROR RUNTIME: rtA: first", f"{TIME} ERROR OP: second"]


def test_warnings_only_about_our_operators(tmp_path):
    operators = ["aclnnScatterPaKvCacheWithKScale", "QkvRmsNormRopeCacheWithKScale"]
    write(tmp_path, 7, "".join(line(f"{name} x", "WARNING", "OP") for name in [*operators, "aclnnAdd"]))
    assert texts(read(str(tmp_path))) == [f"{name} x" for name in operators]


def test_continued_lines_belong_to_the_line_before(tmp_path):
    text = line("it failed:") + "        TraceBack\n       error code is 507015\n" + line("i", "INFO") + "of the info\n"
    write(tmp_path, 7, text)
    assert texts(read(str(tmp_path))) == ["it failed: TraceBack error code is 507015"]


def test_repeats_are_folded(tmp_path):
    write(tmp_path, 7, line("a") * 12 + line("b") + line("a", module="OP") + line("a"))
    log = read(str(tmp_path))
    assert [(r.module, r.text, r.repeats) for r in log.lines] == [
        ("RUNTIME", "a", 13),
        ("RUNTIME", "b", 1),
        ("OP", "a", 1),
    ]
    assert str(log.lines[0]).endswith("RUNTIME: a ... x 13")


def test_noise_is_dropped_and_counted_unless_it_is_all(tmp_path):
    write(tmp_path, 7, line("ctx is NULL") * 3 + line("ret 507033"))
    log = read(str(tmp_path))
    assert (texts(log), log.noise) == (["ret 507033"], 3)
    write(tmp_path, 7, line("ctx is NULL") * 3)
    log = read(str(tmp_path))
    assert (texts(log), log.noise) == (["ctx is NULL"], 0)


def test_only_the_last_lines_are_kept(tmp_path):
    write(tmp_path, 7, "".join(line(f"error {n}") for n in range(100)))
    log = read(str(tmp_path))
    assert texts(log) == [f"error {n}" for n in range(60, 100)]
    assert log.older == 60


def test_long_lines_are_cut(tmp_path):
    write(tmp_path, 7, line("y" * 50_000) + "z" * 50_000)
    (record,) = read(str(tmp_path)).lines
    assert len(record.text) < 5000
    assert str(record).endswith("y…")
    assert len(str(record)) < 500


def test_the_process_that_wrote_last_or_the_one_that_is_named(tmp_path):
    old = write(tmp_path, 7, line("old"), stamp=20260801101112125, modified=1000)
    new = write(tmp_path, 8, line("new", pid=8), modified=2000)
    write(tmp_path, 77, line("other"), modified=1500)
    (tmp_path / "debug" / "plog" / "plog-9_1.log.swp").write_text(line("no log"))
    (tmp_path / "debug" / "plog" / "plog-9_1.log").mkdir()
    assert (read(str(tmp_path)).pid, read(str(tmp_path)).files) == (8, (new,))
    log = read(str(tmp_path), 7)
    assert (log.pid, log.files, texts(log)) == (7, (old,), ["old"])
    assert read(str(tmp_path), 9) == plog.Log(None, (), (), 0, 0, ())


def test_all_files_of_one_process_oldest_first(tmp_path):
    files = [write(tmp_path, 7, line(f"{n}"), stamp=20260801101112000 + n, modified=9 - n) for n in range(3)]
    log = read(str(tmp_path))
    assert (log.files, texts(log)) == (tuple(files), ["0", "1", "2"])


@pytest.mark.parametrize("below", [".", "debug", "debug/plog"])
def test_the_folder_may_be_the_one_with_the_files(tmp_path, below):
    write(tmp_path, 7, line("a"))
    assert texts(read(str(tmp_path / below))) == ["a"]


def test_no_folder_is_not_the_working_directory(tmp_path, monkeypatch):
    write(tmp_path, 7, line("a"))
    monkeypatch.chdir(tmp_path)
    assert read("").files == ()
    assert texts(read(".")) == ["a"]


def test_bad_bytes_and_half_lines(tmp_path):
    write(tmp_path, 7, b"of a lost line 507015\n" + line("bad \xff\xfe").encode("latin-1") + line("half")[:-4].encode())
    assert texts(read(str(tmp_path))) == ["bad \ufffd\ufffd", "h"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\0" * 1000, b"no log\nat all"])
def test_files_without_a_line_of_a_log(tmp_path, data):
    path = write(tmp_path, 7, data)
    assert read(str(tmp_path)) == plog.Log(7, (path,), (), 0, 0, ())


def test_huge_files_are_read_from_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(plog, "TAIL", 10 * len(line("error 10")))
    write(tmp_path, 7, line("of an older file"), stamp=1)
    write(tmp_path, 7, "".join(line(f"error {n}") for n in range(10, 99)), stamp=2)
    # The first of the ten is cut in two only if the limit falls inside of it; it is dropped as it cannot be told.
    assert texts(read(str(tmp_path))) == [f"error {n}" for n in range(90, 99)]


def test_a_sparse_file_of_a_terabyte(tmp_path):
    path = write(tmp_path, 7, line("first"))
    try:
        os.truncate(path, 2**40)
    except OSError:
        pytest.skip("the file system has no such files")
    with open(path, "ab") as file:
        file.write(b"\n" + line("last").encode())
    assert texts(read(str(tmp_path))) == ["last"]


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    good, bad = write(tmp_path, 7, line("good"), stamp=1), write(tmp_path, 7, line("bad"), stamp=2)
    opened = Path.open

    def guarded(self, *arguments, **options):
        if str(self) == bad:
            raise PermissionError(13, "Permission denied", bad)
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", guarded)
    log = read(str(tmp_path))
    assert (log.files, texts(log)) == ((good, bad), ["good"])
    assert log.problems == (f"{bad}: Permission denied",)


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    write(tmp_path, 7, line("a"))
    plogs = tmp_path / "debug" / "plog"

    def refuse(path):
        if path == plogs:
            raise PermissionError(13, "Permission denied", str(path))
        raise FileNotFoundError(2, "No such file", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert read(str(tmp_path)) == plog.Log(None, (), (), 0, 0, (f"{plogs}: Permission denied",))


def test_codes_of_a_log_are_explained_the_most_telling_first(tmp_path):
    errors = [
        line("[NNOP][Run][34] errno[561103] OpName:[X] failed", module="OP", place="[op.cpp:5]"),
        line("EZ9999: Parse dynamic kernel config fail", module="OP"),
        line("ctx is NULL, ret 107002"),
    ]
    write(tmp_path, 7, "".join(errors))
    causes = plog.causes(read(str(tmp_path)))
    assert [cause.code for cause in causes] == ["Parse dynamic kernel config fail", "EZ9999", "561103"]
    assert causes[2].line == "errno[561103] OpName:[X] failed"
