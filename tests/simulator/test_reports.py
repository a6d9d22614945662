# SPDX-License-Identifier: Apache-2.0
"""Reports of the checks as Python sees them."""

from __future__ import annotations

import ctypes
import json
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from test_lifetimes import output, scatter_arguments

import aclnn_kvcache as kv
from aclnn_kvcache.runtime.reports import take_reports

UNINITIALISED = "init: uninitialised_read"


@pytest.mark.usefixtures("reports")
def test_what_a_kernel_did_wrong_is_a_record(session: kv.Session) -> None:
    arrays = scatter_arguments(session, 2)
    arrays[0] = session.empty(arrays[0].shape, arrays[0].dtype)
    assert session.reports() == []
    session.scatter_pa_kv_cache_with_k_scale(*arrays)
    session.stream.synchronize()
    (report,) = session.reports()
    assert (report.check, report.kind, report.function) == (
        "init",
        "uninitialised_read",
        "aclnnScatterPaKvCacheWithKScale",
    )
    assert (report.device, report.thread) == (0, threading.get_native_id())
    assert report.stream is not None
    assert report.text.startswith("token ")
    assert "of tensor key was never written" in report.text
    assert str(report) == f"{UNINITIALISED} in aclnnScatterPaKvCacheWithKScale: {report.text}"
    assert session.reports() == []


@pytest.mark.usefixtures("reports")
def test_the_oldest_comes_first_and_nothing_is_counted_twice(session: kv.Session) -> None:
    handles = (1, 2, 3)
    with session.bound():
        for handle in handles:
            session.library.aclrtStreamQuery(handle << 12, ctypes.byref(ctypes.c_int()))
        session.library.aclGetRecentErrMsg()
    found = session.reports()
    first = found[0].sequence
    assert [(r.sequence - first, r.check, r.kind) for r in found] == [(n, "api", "unknown_handle") for n in range(3)]
    assert [f"{handle << 12:#x}" in report.text for handle, report in zip(handles, found, strict=True)] == [True] * 3
    assert {(report.device, report.stream) for report in found} == {(None, None)}


def test_records_have_what_the_file_has_and_leaks_come_after_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACLSIM_REPORT", str(tmp_path / "reports.jsonl"))
    printed = output("""
        import json
        with kv.Session("simulator") as s:
            pointer = ctypes.c_void_p()
            with s.bound(): s.library.aclrtMalloc(ctypes.byref(pointer), 64, 0)
        print(json.dumps([report._asdict() for report in s.reports()]))
    """)
    lines = [json.loads(line) for line in (tmp_path / "reports.jsonl").read_text("utf-8").splitlines()]
    assert json.loads(printed) == lines[1:]
    assert [(line["check"], line["kind"]) for line in lines[1:]] == [("leak", "leaked_device_memory")]


@pytest.mark.parametrize(
    ("variable", "later", "found"),
    [("", "", []), ("", "init", [UNINITIALISED]), ("init", "", [UNINITIALISED]), ("race,sync", "", [])],
)
def test_checks_are_turned_on_before_the_first_session_or_by_the_library(
    monkeypatch: pytest.MonkeyPatch, variable: str, later: str, found: list[str]
) -> None:
    monkeypatch.setenv("ACLSIM_CHECK", variable)
    printed = output(
        f"""
        with kv.Session("simulator") as s:
            if {later!r}: s.library.aclsim_set_checks({later!r}.encode())
            d = {{name: s.array(a) for name, a in arrays().items()}}
            d["key"] = s.empty(d["key"].shape, d["key"].dtype)
            s.scatter_pa_kv_cache_with_k_scale(**d)
        print([f"{{report.check}}: {{report.kind}}" for report in s.reports()])
    """,
        *found,
    )
    assert printed == str(found)


def test_cann_has_none() -> None:
    class Cann:
        def exports(self, name: str) -> bool:
            assert name == "aclsim_next_report"
            return False

    assert take_reports(cast("Any", Cann())) == []


@pytest.mark.usefixtures("reports")
def test_threads_that_ask_at_once_share_the_reports(session: kv.Session) -> None:
    with session.bound():
        for _ in range(400):
            session.library.aclrtStreamQuery(4096, ctypes.byref(ctypes.c_int()))
        session.library.aclGetRecentErrMsg()
    found: list[list[kv.Report]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(session.reports())) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = sorted(report.sequence for mine in found for report in mine)
    assert np.diff(numbers).tolist() == [1] * 399
