# SPDX-License-Identifier: Apache-2.0
"""What all commands have in common: where their output goes, and what is said where it cannot go there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aclnn_kvcache.cli import COMMANDS, main

WORDS = {
    "explain": ["161002"],
    "check": ["none"],
    "replay": ["none"],
    "repro": ["none", "--lang", "c"],
}


def run(*words: str, redirect: str = "", stdin: bytes = b"", **environment: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-m", "aclnn_kvcache", *words],
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_standard_output(command: str) -> None:
    code, out, err = run(command, *WORDS.get(command, []), redirect=">&-")
    assert (code, out) == (4, b"")
    assert err == b"standard output is closed, so that there is no place for a report\n"


def test_a_closed_standard_error_leaves_the_document_alone() -> None:
    assert run("check", "none", redirect="2>&-") == (2, b"", b"")


def test_a_full_standard_output() -> None:
    code, _, err = run("explain", "161002", redirect=">/dev/full")
    assert (code, err) == (4, b"the report cannot be written: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=["locale", "variable"],
)
def test_text_that_the_terminal_cannot_show(environment: dict[str, str]) -> None:
    code, out, err = run("explain", stdin="é 161002\n".encode(), **environment)
    assert (code, err) == (0, b"")
    assert b"\\xe9 161002" in out


def test_a_report_file_that_cannot_be_made(tmp_path, capsys) -> None:
    """The file is to blame, and is named; not the report."""
    name = tmp_path / ("x" * 300)
    assert main(["repro", str(tmp_path / "none"), "--lang", "c", "-o", str(name)]) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}/none: ")


def test_the_program_says_what_it_is(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "Runs, checks and debugs calls of the aclnn KV-cache operators of CANN." in text
    assert "one module per" not in text
    assert "1 results differ, a call is not legal (check), nothing is known (explain)" in text
