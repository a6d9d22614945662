# SPDX-License-Identifier: Apache-2.0
"""The report as text, JSON and exit code; examinations where nothing is installed; processes that hang or crash."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import aclnn_kvcache
from aclnn_kvcache import doctor
from aclnn_kvcache.doctor import Line, Report, examination, examine, native_facts
from aclnn_kvcache.doctor.native_facts import NativeFacts, gather
from aclnn_kvcache.errors import ArgumentError

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(CC is None, reason="no C compiler")

GOOD = Line("python", "ok", "Python 3")
ODD = Line("logs", "warning", "odd", "unset IT")
BAD = Line("kernels", "problem", "no kernels. Nowhere\nsearched here", "install them")
ABSENT = Line("devices", "problem", "no NPU", "find one")


# --- the report


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([], 0),
        ([GOOD, ODD], 0),
        ([GOOD, BAD], 4),
        ([BAD, ABSENT], 3),
        ([BAD, Line("backend", "problem", "none", "x")], 3),
        ([Line("devices", "ok", "2"), Line("backend", "ok", "cann"), BAD], 4),
    ],
)
def test_exit_codes(lines: list[Line], code: int) -> None:
    assert Report("cann", tuple(lines)).exit_code == code


def test_the_summary_is_one_sentence() -> None:
    assert Report("cann", (GOOD, ODD, BAD, ABSENT)).summary == "not ready: no kernels"
    assert Report("cann", (GOOD, ODD)).summary == "ready: both operators run on backend cann; warnings: 1"


def test_the_report_as_text() -> None:
    assert str(Report("simulator", (GOOD, ODD, BAD))).splitlines() == [
        "backend: simulator (no NPU is involved)",
        "",
        "ok       python       Python 3",
        "warning  logs         odd",
        "                      cure: unset IT",
        "problem  kernels      no kernels. Nowhere",
        "                      searched here",
        "                      cure: install them",
        "",
        "not ready: no kernels",
    ]
    assert str(Report("none", ())).startswith("backend: none: no libraries could be opened\n")


def test_the_report_as_json() -> None:
    assert json.loads(Report("cann", (GOOD, ODD, BAD)).as_json()) == {
        "schema": 1,
        "command": "doctor",
        "backend": "cann",
        "lines": [
            {"topic": "python", "verdict": "ok", "text": "Python 3", "cure": ""},
            {"topic": "logs", "verdict": "warning", "text": "odd", "cure": "unset IT"},
            {
                "topic": "kernels",
                "verdict": "problem",
                "text": "no kernels. Nowhere\nsearched here",
                "cure": "install them",
            },
        ],
        "summary": "not ready: no kernels",
        "exit_code": 4,
    }


# --- examinations


def verdicts(report: Report) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in report.lines:
        assert line.verdict in ("ok", "warning", "problem")
        assert bool(line.cure) == (line.verdict != "ok"), line
        found.setdefault(line.topic, set()).add(line.verdict)
    return found


@pytest.mark.parametrize("backend", ["auto", "cann"])
def test_nothing_installed_and_an_empty_environment(backend: str, tmp_path: Path) -> None:
    report = examine(backend, tmp_path, environ={}, root=tmp_path)
    assert (report.backend, report.exit_code) == ("none", 3)
    found = verdicts(report)
    found.pop("simulator")
    assert found == {
        "backend": {"problem"},
        "process": {"ok"},
        "python": {"ok"},
        "platform": {"ok"},
        "search": {"ok"},
        "driver": {"problem"},
        "devices": {"problem"},
        "visible": {"ok"},
        "logs": {"ok", "warning"},
    }
    assert report.lines[0].text == (
        f"The folder {tmp_path} holds no libraries of backend {backend!r}. It comes from the library_dir argument, and "
        "nothing else was searched"
    )
    assert report.summary == f"not ready: The folder {tmp_path} holds no libraries of backend {backend!r}"
    absent = examine(backend, str(tmp_path / "absent"), environ={"HOME": str(tmp_path)}, root=tmp_path)
    assert absent.lines[0].text.startswith(
        f"There is no folder {tmp_path}/absent to take the libraries of backend {backend!r} from. It comes from"
    )


def test_the_simulator_is_examined_without_npu(tmp_path: Path) -> None:
    report = examine("simulator", str(tmp_path), environ={}, root=tmp_path)
    assert (report.backend, report.exit_code) == ("none", 3)
    found = verdicts(report)
    assert found["driver"] == found["nodes"] == {"ok"}
    assert "devices" not in found


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"backend": "gpu"}, "backend"),
        ({"library_dir": 5}, "library_dir"),
        ({"device": -1}, "device"),
        ({"device": True}, "device"),
        ({"device": "0"}, "device"),
    ],
)
def test_arguments_that_cannot_be_meant(arguments: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        examine(**arguments)
    assert caught.value.argument == argument


def test_a_wrong_revision_is_a_problem_of_the_settings(tmp_path: Path) -> None:
    environ = {"ACLNN_KVCACHE_QKV_ABI": "D"}
    report = examine("simulator", str(tmp_path), environ=environ, root=tmp_path)
    assert verdicts(report)["environment"] == {"problem"}


def test_a_check_that_fails_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(subject: Any) -> Any:
        yield Line("x", "ok", "before")
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(examination, "gather", lambda *arguments: NativeFacts({}))
    monkeypatch.setattr(examination, "CHECKS", {"first": fail, "second": lambda subject: iter([GOOD])})
    assert examine().lines == (
        Line("x", "ok", "before"),
        Line(
            "doctor",
            "problem",
            "the check 'first' failed by itself: ZeroDivisionError: division by zero",
            "report this as a defect of aclnn_kvcache, with this whole report",
        ),
        GOOD,
    )


def test_the_command_tells_by_exit_code_and_document(tmp_path: Path) -> None:
    packages = os.pathsep.join(str(Path(path).parent) for path in aclnn_kvcache.__path__)
    command = [sys.executable, "-m", "aclnn_kvcache", "doctor", "--library-dir", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": packages})
    assert (done.returncode, done.stderr) == (3, "")
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "command", "backend", "lines", "summary", "exit_code"]
    assert (document["schema"], document["command"], document["backend"]) == (1, "doctor", "none")
    assert document["exit_code"] == 3
    assert all(list(line) == ["topic", "verdict", "text", "cure"] for line in document["lines"])
    assert all(isinstance(value, str) for line in document["lines"] for value in line.values())
    done = subprocess.run(command[:-1], capture_output=True, text=True, check=False, env={"PYTHONPATH": packages})
    assert done.stdout.splitlines()[0] == "backend: none: no libraries could be opened"
    assert done.stdout.splitlines()[-1] == document["summary"]


@pytest.mark.parametrize("words", [["--device", "-1"], ["--device", "x"], ["--timeout", "0"], ["--backend", "gpu"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from aclnn_kvcache.cli import main

    with pytest.raises(SystemExit) as caught:
        main(["doctor", *words])
    assert caught.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_help_states_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    from aclnn_kvcache.cli import main

    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "exit code 0: can run, 3: no such backend or device, 4: another problem" in text


def test_public_names() -> None:
    assert set(doctor.__all__) == {"examine", "Report", "Line"}


# --- the process that opens libraries

REQUEST = {"backend": "cann", "library_dir": "/nowhere", "qkv_abi": None, "device": 0}


def told(program: str, monkeypatch: pytest.MonkeyPatch, timeout: float = 60) -> NativeFacts:
    monkeypatch.setattr(native_facts, "PROGRAM", f"{program}  # {{path!r}} {{request!r}}")
    return gather(REQUEST, {}, timeout)


ANSWER = """print('{{"stage": "libraries", "error": "", "x": 1}}', flush=True)"""


def test_what_was_found_before_a_crash_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = told(f"import os; {ANSWER}; print('half', end='', flush=True); os.abort()", monkeypatch)
    assert facts.stages == {"libraries": {"error": "", "x": 1}}
    assert facts.stopped == "was ended by signal 6 (Aborted)"
    assert facts.stopped_while == "looking for the operators"


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"import os, sys, time; {ANSWER}; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(600)"
    facts = told(program, monkeypatch, timeout=5)
    assert facts.stopped == "did not end within 5 s"
    assert facts.stages == {"libraries": {"error": "", "x": 1}}
    with pytest.raises(ProcessLookupError):
        os.kill(int(facts.said), 0)


def test_a_process_that_cannot_be_ended_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: ended.append(pid))
    monkeypatch.setattr(native_facts, "PATIENCE", 0.01)
    program = "import time; time.sleep(3)"
    with pytest.warns(ResourceWarning, match="still running"):
        assert told(program, monkeypatch, timeout=0.5).stopped == "did not end within 0.5 s"
    assert len(ended) == 1
    os.waitpid(ended[0], 0)


def test_a_process_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = told("import sys; sys.stderr.write('x' * 5000 + 'the end'); sys.exit(7)", monkeypatch)
    assert facts.stopped == "ended with exit code 7"
    assert facts.said == "x" * 1993 + "the end"
    assert (facts.stages, facts.stopped_while) == ({}, "opening the libraries")


def test_a_process_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    facts = gather(REQUEST, {}, 60)
    assert facts.stages == {}
    assert facts.stopped.startswith("could not be started: [Errno 2] ")


def fake(folder: Path, constructor: str) -> Path:
    """A runtime library that does that when it is opened."""
    source = (
        f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) void start(void) {{ {constructor} }}"
    )
    command = [str(CC), "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / "libascendcl.so")]
    subprocess.run(command, input=source, text=True, check=True)
    return folder


@needs_compiler
@pytest.mark.parametrize(
    ("constructor", "how", "timeout"),
    [
        ("sleep(600);", "did not end within 3 s", 3.0),
        ("abort();", "was ended by signal 6 (Aborted)", 60.0),
        ("exit(5);", "ended with exit code 5", 60.0),
    ],
)
def test_libraries_that_hang_or_crash(tmp_path: Path, constructor: str, how: str, timeout: float) -> None:
    report = examine("cann", fake(tmp_path, constructor), environ={}, root=tmp_path, timeout=timeout)
    [line] = [line for line in report.lines if line.topic == "process"]
    assert line.verdict == "problem"
    assert line.text.startswith(f"the process that opens libraries and device {how} while opening the libraries")
    assert report.problems[0] == line
    assert report.backend == "none"


@needs_compiler
def test_what_libraries_print_does_not_disturb(tmp_path: Path) -> None:
    report = examine("cann", fake(tmp_path, 'write(1, "{}\\n", 3);'), environ={}, root=tmp_path)
    assert [line.verdict for line in report.lines if line.topic == "process"] == ["ok"]
    assert report.lines[0].text.startswith("The folder ")
    assert "holds no libraries of backend 'cann'." in report.lines[0].text
