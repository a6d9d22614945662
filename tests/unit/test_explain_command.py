# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache explain``: codes, pasted text, logs and rules; text, JSON and exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from aclnn_kvcache.cli import main
from aclnn_kvcache.explain import plog
from aclnn_kvcache.rules.contracts import CONTRACTS, contract
from aclnn_kvcache.rules.predict import RISKS

LINE = "[ERROR] RUNTIME(7,python3):2026-08-01-10:11:12.123.456 [api.cc:12]34 rtX: error code is 507015\n"
SCATTER, FUSED = "scatter_pa_kv_cache_with_k_scale", "qkv_rms_norm_rope_cache_with_k_scale"


@pytest.fixture
def run(capsys, monkeypatch):
    def call(*arguments, stdin=None):
        standard_input = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", standard_input)
        code = main(["explain", *arguments])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def logs(tmp_path, monkeypatch):
    folder = tmp_path / "debug" / "plog"
    folder.mkdir(parents=True)
    (folder / "plog-7_1.log").write_text(LINE * 2)
    os.utime(folder / "plog-7_1.log", (1000, 1000))
    (folder / "plog-8_1.log").write_text(LINE.replace("ERROR", "INFO"))
    for name in ("ASCEND_WORK_PATH", "ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path))
    return tmp_path


def test_one_code(run):
    code, out, err = run("107002")
    assert (code, err) == (0, "")
    assert out == (
        "107002 ACL_ERROR_RT_CONTEXT_NULL: calling thread has no current context\n"
        "  usual cause: the calling thread never set a device\n"
        "  what to do:  use the session's methods, which bind it, in each thread\n"
    )


def test_several_codes_are_explained_one_by_one(run):
    code, out, _ = run("561107", "ez0025", "aclnn_err_param_nullptr")
    assert code == 0
    assert [part.split(" ")[0] for part in out.split("\n\n")] == ["561107", "EZ0025", "161001"]


def test_words_are_one_text(run):
    code, out, _ = run("error", "code", "is", "507777")
    assert code == 0
    assert out.startswith("507777 UNKNOWN: a code that no header of CANN 9.1 lists; by its number an internal failure")
    assert "  in:          error code is 507777\n" in out


def test_an_unknown_code_is_no_failure(run):
    code, out, _ = run("EZ0099")
    assert (code, out.splitlines()[0]) == (0, "EZ0099: an operator refused an argument")
    assert run("561999")[0] == 0


@pytest.mark.parametrize(
    ("what", "first"),
    [
        ("nonsense", "nothing known in: nonsense"),
        ("ACL_ERROR_XYZZY", "nothing known in: ACL_ERROR_XYZZY"),
        ("42", "42 UNKNOWN: a code that no header of CANN 9.1 lists; its number is in no family of CANN's"),
    ],
)
def test_what_nothing_is_known_of_has_an_exit_code_of_its_own(run, what, first):
    code, out, err = run(what)
    assert (code, out.splitlines()[0], err) == (1, first, "")
    # Beside something known too.
    if what != "nonsense":
        assert run("161002", what)[0] == 1
    assert json.loads(run(what, "--json")[1])["exit_code"] == 1


def test_an_end_that_was_looked_at_is_said_to_be_one(run):
    code, out, _ = run(stdin=b"ret=161002\n" + b"x\n" * (2 << 20) + b"ret=561002\n")
    assert code == 0
    assert out.splitlines()[0].startswith("561002 ")
    assert "161002" not in out
    assert out.endswith("\n\nonly the end was looked at: 21 characters before it were not\n")


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input(run, arguments):
    code, out, _ = run(*arguments, stdin=b"bad \xff bytes\naclnnStatus=561002\n")
    assert (code, out.splitlines()[0]) == (0, "561002 ACLNN_ERR_INNER_TILING_ERROR: tiling failed")


@pytest.mark.parametrize("stdin", [None, b"", b" \n"])
def test_nothing_to_explain_is_wrong_usage(run, stdin):
    code, out, err = run(stdin=stdin)
    assert (code, out) == (2, "")
    assert err == "WHAT: expected a code or a text, got nothing; pass one, or send a text to standard input\n"


def test_a_terminal_is_not_waited_for(monkeypatch, capsys):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"561002")))
    assert main(["explain"]) == 2
    assert "got nothing" in capsys.readouterr().err
    # Unless it is asked for.
    assert main(["explain", "-"]) == 0
    assert capsys.readouterr().out.startswith("561002 ")


def test_standard_input_is_left_alone_where_something_else_was_asked_for(run, logs):
    assert "561002" not in run("161002", stdin=b"561002")[1]
    assert "561002" not in run("--plog", stdin=b"561002")[1]
    assert "561002" not in run("--rules", SCATTER, stdin=b"561002")[1]


def test_json(run):
    code, out, err = run("--json", "161002", "EZ0099")
    document = json.loads(out)
    first, second = document.pop("explanations")
    assert document == {
        "schema": 1,
        "command": "explain",
        "log": None,
        "rules": None,
        "error": "",
        "exit_code": 0,
    }
    assert first["unread"] == 0
    assert (code, err, first["what"], second["what"]) == (0, "", "161002", "EZ0099")
    (cause,) = first["causes"]
    action = "compare the argument named in the message with the operator's contract"
    assert cause.pop("action").startswith(action)
    assert cause == {
        "kind": "status",
        "code": "161002",
        "name": "ACLNN_ERR_PARAM_INVALID",
        "meaning": "an argument is invalid (dtype, shape, format, size, workspace too small, list index)",
        "causes": "dtype, rank, shape, format or an attribute is outside what the operator takes",
        "telling": "",
        "aliases": [],
        "known": True,
        "line": "",
        "noise": False,
    }
    assert second["causes"][0]["known"] is False


def test_json_of_wrong_usage(run):
    code, out, err = run("--json")
    assert code == json.loads(out)["exit_code"] == 2
    assert json.loads(out)["error"] + "\n" == err


def test_the_log_of_a_process(run, logs):
    code, out, err = run("--plog", "--pid", "7")
    assert (code, err) == (0, "")
    assert out.splitlines()[:6] == [
        f"logs  {logs} (by ASCEND_PROCESS_LOG_PATH)",
        f"file  {logs}/debug/plog/plog-7_1.log",
        "",
        "2026-08-01-10:11:12.123.456 ERROR RUNTIME: rtX: error code is 507015 ... x 2",
        "",
        "507015 ACL_ERROR_RT_AICORE_EXCEPTION: AI Core exception",
    ]


def test_the_newest_log_without_errors(run, logs):
    code, out, _ = run("--plog")
    assert code == 0
    assert out.splitlines()[1:] == [f"file  {logs}/debug/plog/plog-8_1.log", "no error in the log of process 8"]


def test_what_is_left_out_of_a_log_is_said(run, logs):
    many = "".join(LINE.replace("rtX", f"rt{n}") for n in range(50))
    (logs / "debug" / "plog" / "plog-9_1.log").write_text(many + LINE.replace("rtX", "ctx is NULL") * 3)
    _, out, _ = run("--plog", "--pid", "9")
    assert "\n10 older lines are left out\n" in out
    assert "\n3 lines of usual noise are left out\n" in out


def test_no_log(run, logs):
    code, out, _ = run("--plog", "--pid", "123")
    assert (code, out.splitlines()[-1]) == (3, "no log of process 123 there")
    code, out, _ = run("--plog", "--log-dir", str(logs / "none"))
    assert (code, out) == (
        3,
        f"logs  {logs}/none (by --log-dir), where no folder is\nno log of any process there\n",
    )


def test_logs_that_go_to_standard_output_are_said_to(run, logs, monkeypatch):
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    _, out, _ = run("--plog")
    assert out.splitlines()[0].endswith("; but ASCEND_SLOG_PRINT_TO_STDOUT sends them to standard output")


def test_a_log_that_cannot_be_read_is_a_failure(run, logs, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    code, out, _ = run("--plog")
    assert code == 4
    assert f"cannot be read: {logs}/debug/plog: Permission denied" in out


def test_the_log_in_json(run, logs):
    code, out, _ = run("--plog", "--json", "--log-dir", str(logs), "--pid", "7")
    log = json.loads(out)["log"]
    assert code == 0
    assert [cause["code"] for cause in log.pop("causes")] == ["507015"]
    assert log == {
        "place": {"path": str(logs), "variable": "--log-dir", "exists": True, "to_stdout": ""},
        "pid": 7,
        "files": [f"{logs}/debug/plog/plog-7_1.log"],
        "lines": [
            {
                "level": "ERROR",
                "module": "RUNTIME",
                "time": "2026-08-01-10:11:12.123.456",
                "text": "rtX: error code is 507015",
                "repeats": 2,
            }
        ],
        "noise": 0,
        "older": 0,
        "problems": [],
        "unread": 0,
        "recognised": 2,
    }


@pytest.mark.parametrize("option", [("--pid", "7"), ("--log-dir", "x")])
def test_options_of_the_log_need_it(run, option):
    code, _, err = run("161002", *option)
    assert (code, err) == (2, "--pid and --log-dir: expected --plog beside them, got them alone; add --plog\n")


def test_what_was_not_read_of_a_log_is_said(run, logs, monkeypatch):
    monkeypatch.setattr(plog, "TAIL", 4 * len(LINE) + 3)
    lines = [LINE.replace("rtX", f"rt{n}") for n in range(9)]
    path = logs / "debug" / "plog" / "plog-9_1.log"
    path.write_text("".join(lines))
    _, out, _ = run("--plog", "--pid", "9")
    assert f"\n{sum(map(len, lines[:5]))} bytes before the last 0 MiB were not read\n" in out
    assert "older lines" not in out
    # Files before the one that takes all there is to read count too.
    (logs / "debug" / "plog" / "plog-9_0.log").write_text("x" * 1000)
    log = plog.read(str(logs), 9)
    assert (log.unread, len(log.lines)) == (sum(map(len, lines[:5])) + 1000, 4)


def test_a_file_that_is_no_log_is_said_to_be_none(run, logs):
    (logs / "debug" / "plog" / "plog-77_1.log").write_bytes(bytes(range(256)) * 9)
    code, out, _ = run("--plog", "--pid", "77")
    assert (code, out.splitlines()[-1]) == (0, "no line of CANN's form in the log of process 77")


def test_a_file_in_the_place_of_the_folder(run, logs):
    file = logs / "debug" / "plog" / "plog-7_1.log"
    code, out, _ = run("--plog", "--log-dir", str(file))
    assert (code, out.splitlines()[0]) == (3, f"logs  {file} (by --log-dir), where no folder is")


@pytest.mark.parametrize("pid", ["0", "-1", "x"])
def test_a_process_is_a_number_above_0(pid, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["explain", "--plog", f"--pid={pid}"])
    assert stopped.value.code == 2
    assert f"argument --pid: {pid!r} is not the number of a process" in capsys.readouterr().err


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=lambda contract: contract.name)
def test_rules_of_an_operator(run, contract):
    code, out, _ = run("--rules", contract.api)
    assert (code, run("--rules", contract.name.upper())[1]) == (0, out)
    lines = out.splitlines()
    assert lines[0] == f"{contract.api}, {contract.name}: {len(contract.rules)} rules, in CANN's order of checks"
    listed = [line.split() for line in lines if line.startswith("  ")]
    rows = [*contract.rules, *RISKS[contract.name]]
    assert [words[0] for words in listed] == [row.id for row in rows]
    for words, rule in zip(listed, rows, strict=True):
        assert " ".join(words[1:]) == f"{rule.expected} [{', '.join(rule.arguments)}]"


def test_rules_say_what_cann_answers(run):
    headings = [line for line in run("--rules", SCATTER)[1].splitlines()[1:] if line and not line.startswith("  ")]
    assert headings[0] == "161001 ACLNN_ERR_PARAM_NULLPTR (phase 1 of CANN, decision 2)"
    assert "561103 ACLNN_ERR_INNER_NULLPTR, EZ0015 (phase 1 of CANN, decision 11)" in headings
    assert headings[-3].startswith("not checked by CANN (")
    assert headings[-2:] == [
        "risks: CANN goes on, but the session refuses the call (phase 1 of CANN copies strided tensors unless every "
        "last axis is dense)",
        "risks: CANN goes on, but the session refuses the call (the kernel computes in 32 bits for few tokens)",
    ]


def test_rules_in_json(run):
    rules = json.loads(run("--rules", SCATTER, "--json")[1])["rules"]
    assert (rules["name"], rules["api"]) == (SCATTER, "aclnnScatterPaKvCacheWithKScale")
    rows = {rule["id"]: rule for rule in rules["rules"]}
    assert list(rows) == [rule.id for rule in CONTRACTS[SCATTER].rules]
    row = rows["required.key"]
    assert (row["arguments"], row["status"], row["ez"]) == (["key"], 161001, None)
    assert row["answer"] == "161001 ACLNN_ERR_PARAM_NULLPTR"
    assert {risk["id"]: risk["arguments"] for risk in rules["risks"]}["whole_cache_copy.key_cache"] == ["key_cache"]
    assert {rule["answer"] for rule in rules["rules"] if not rule["status"]} == {"not checked by CANN"}


@pytest.mark.parametrize("revision", ["B", "C"])
def test_rules_of_a_revision(run, revision):
    known = contract(FUSED, revision)
    code, out, _ = run("--rules", FUSED, "--qkv-abi", revision)
    first, *lines = out.splitlines()
    assert code == 0
    assert first == f"{known.api}, {FUSED}, revision {revision}: {len(known.rules)} rules, in CANN's order of checks"
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [rule.id for rule in known.rules]
    document = json.loads(run("--rules", FUSED, "--qkv-abi", revision, "--json")[1])["rules"]
    assert document["revision"] == revision
    assert [rule["id"] for rule in document["rules"]] == [rule.id for rule in known.rules]
    # Scatter has one table.
    assert run("--rules", SCATTER, "--qkv-abi", revision) == run("--rules", SCATTER)


def test_what_a_revision_has_not_stands_below_its_rules(run):
    assert [run("--rules", FUSED, "--qkv-abi", revision)[1].splitlines()[-1] for revision in "AB"] == [
        f"k_quant_mode must be None with revision {revision} of the operator: it came with revision C"
        for revision in "AB"
    ]


def test_rules_of_an_operator_that_does_not_exist(run):
    code, out, err = run("--rules", "scatter_pa_kv_cache")
    assert (code, out) == (2, "")
    assert err == (
        f"operator: expected one of {', '.join(CONTRACTS)}, got 'scatter_pa_kv_cache'; did you mean {SCATTER}?\n"
    )


def test_as_a_process():
    command = [sys.executable, "-m", "aclnn_kvcache", "explain"]
    ran = subprocess.run(command, input="ret:507033", capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (
        0,
        "507033 ACL_ERROR_RT_DEV_SETUP_ERROR: device start-up failed",
    )
