# SPDX-License-Identifier: Apache-2.0
"""Every smoke case, recorded and made again: by replay, and by the stand-alone programs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import edit, example

import aclnn_kvcache as kv
from aclnn_kvcache.bundle.reading import read_bundle
from aclnn_kvcache.cli import main
from aclnn_kvcache.native.library import load
from aclnn_kvcache.replay.repro import program
from aclnn_kvcache.smoke.cases import CASES, names_of
from aclnn_kvcache.smoke.runner import run_cases

INCLUDE = Path(kv.__file__).parent / "include"
FAILING = ("a wrong dtype", "a fault on the device", "a slot out of range")


def record_failing(session: kv.Session, name: str) -> None:
    prepared = CASES["qkv-allocated" if name == "a fault on the device" else "host"].prepare(np.random.default_rng(0))
    call: dict[str, Any] = prepared.arguments(prepared.before)
    if name == "a wrong dtype":
        call["key_scale"] = np.ones(call["key_scale"].shape, np.float16)
    elif name == "a slot out of range":
        call["slot_mapping"][3] = 16 * 16
    else:
        call["slot_mapping"] = call["slot_mapping"] + 2**30
        call = {name: session.array(array) for name, array in call.items()}
    method = getattr(session, CASES["qkv-allocated" if name == "a fault on the device" else "host"].operator)
    with pytest.raises(kv.AclError):
        method(**call, **prepared.options)


@pytest.fixture(scope="module")
def recorded(sim: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The bundle of each smoke case, and of some calls that fail, by name."""
    folder = tmp_path_factory.mktemp("calls")
    found: dict[str, Path] = {}
    with kv.Session("simulator", record=folder) as session:
        for name in (*names_of("A"), *FAILING):
            before = set(folder.iterdir())
            if name in CASES:
                (result,) = run_cases(session, [name], 0, lambda: 100.0, "")
                assert result.verdict == "pass"
            else:
                record_failing(session, name)
            (found[name],) = set(folder.iterdir()) - before
    return found


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        return (code, *self._capsys.readouterr())


@pytest.fixture
def command(nothing_left_alive: None, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def replayed(command: Command, bundle: Path, exit_code: int) -> dict[str, Any]:
    code, out, _ = command("replay", bundle, "--backend", "simulator", "--json")
    assert code == exit_code, out
    document: dict[str, Any] = json.loads(out)
    assert document["exit_code"] == exit_code
    return document


@pytest.mark.parametrize("name", names_of("A"))
def test_every_smoke_case_replays_byte_by_byte(
    command: Command,
    recorded: dict[str, Path],
    name: str,
    reports: Any,  # the first test gets those of the recorded faults
) -> None:
    document = replayed(command, recorded[name], 0)
    assert document["same_target"]
    assert document["as_recorded"]
    assert document["oracle_refuses"] == ""
    written = read_bundle(recorded[name]).manifest.written
    assert set(written) <= set(document["oracle"])
    assert {tensor.storage for tensor in written.values()} == set(document["bytes"])
    assert all(part["ok"] for part in (*document["oracle"].values(), *document["bytes"].values()))
    place = {storage.place for storage in read_bundle(recorded[name]).manifest.call.storages.values()}
    assert place == {"host" if CASES[name].on_host else "device"}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_failed_fails_again(command: Command, recorded: dict[str, Path], name: str, reports: Any) -> None:
    document = replayed(command, recorded[name], 0)
    status = {"a wrong dtype": 161002, "a fault on the device": 507015, "a slot out of range": 0}[name]
    assert document["recorded"]["status"] == document["replayed"]["status"] == status
    assert document["recorded"]["error"] == document["replayed"]["error"]
    assert document["oracle"] == document["bytes"] == {}
    code, out, _ = command("replay", recorded[name], "--backend", "simulator")
    assert code == 0
    ending = "fails" if name == "a fault on the device" else "refused"
    assert out.splitlines()[-1] == f"good: {ending} as recorded"


def copied(bundle: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    return edit(Path(shutil.copytree(bundle, folder / "copy")), change)


def test_another_ending_differs(command: Command, recorded: dict[str, Path], tmp_path: Path) -> None:
    bundle = copied(recorded["a wrong dtype"], tmp_path, lambda d: d["outcome"].update(status=561103))
    document = replayed(command, bundle, 1)
    assert (document["recorded"]["status"], document["replayed"]["status"]) == (561103, 161002)
    code, out, _ = command("replay", bundle, "--backend", "simulator")
    assert code == 1
    assert "key_scale" in out
    assert out.splitlines()[-1] == "DIFFERS: not as recorded"


def rewrite(bundle: Path, storage: str, moment: str, data: np.ndarray[Any, Any]) -> None:
    """Other contents, with their checksum."""
    (bundle / f"{storage}-{moment}.bin").write_bytes(data.tobytes())
    digest = hashlib.sha256(data.tobytes()).hexdigest()
    edit(bundle, lambda d: d["storages"][storage][moment].update(sha256=digest))


def test_other_bytes_differ_where_nothing_excuses_them(command: Command, tmp_path: Path) -> None:
    bundle = example(tmp_path)
    assert replayed(command, bundle, 0)["as_recorded"]
    after = read_bundle(bundle).contents("after")["key_cache"]
    after[5] ^= 1
    rewrite(bundle, "key_cache", "after", after)
    document = replayed(command, bundle, 1)
    assert not document["bytes"]["key_cache"]["ok"]
    assert document["bytes"]["key_scale_cache"]["ok"]
    assert all(part["ok"] for part in document["oracle"].values())
    # Recorded elsewhere, the oracle alone decides.
    edit(bundle, lambda d: d["target"].update(backend="cann"))
    document = replayed(command, bundle, 0)
    assert not document["same_target"]
    assert not document["as_recorded"]
    code, out, _ = command("replay", bundle, "--backend", "simulator")
    assert code == 0
    assert "good: not as recorded, as may be on another backend, CANN or SoC" in out


@pytest.mark.provokes("race:duplicate_slot")
def test_where_the_oracle_says_nothing_every_byte_must_be_as_recorded(command: Command, tmp_path: Path) -> None:
    bundle = edit(example(tmp_path, "device"), lambda d: d["target"].update(backend="cann"))
    rewrite(bundle, "slot_mapping", "before", np.array([0, 0, 3], np.int32))
    document = replayed(command, bundle, 1)
    assert "twice" in document["oracle_refuses"] or "duplicate" in document["oracle_refuses"]
    assert not document["as_recorded"]


@pytest.mark.parametrize("place", ["host", "device"])
def test_the_example_made_by_hand(command: Command, tmp_path: Path, place: str) -> None:
    assert replayed(command, example(tmp_path, place), 0)["oracle"]["key_cache"]["summary"].startswith("exact: ok")


def test_outputs_of_another_shape_than_the_call_makes(
    command: Command, recorded: dict[str, Path], tmp_path: Path
) -> None:
    bundle = copied(recorded["qkv-allocated"], tmp_path, lambda d: d["returned"]["q_scale"].update(shape=[4, 48]))
    edit(bundle, lambda d: d["returned"]["q_scale"].update(strides=[48, 1]))
    code, _, err = command("replay", bundle, "--backend", "simulator")
    assert code == 2
    assert "returned.q_scale: expected float32 (16, 12), got FLOAT [4, 48]" in err


def test_the_report_for_people(command: Command, recorded: dict[str, Path]) -> None:
    code, out, err = command("replay", recorded["qkv-host"], "--backend", "simulator")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("operator   qkv_rms_norm_rope_cache_with_k_scale, recorded 20")
    assert lines[1] == "recorded   simulator, Ascend950PR_9599, CANN 9.1.0: succeeds"
    assert lines[2].startswith("replayed   simulator (simulated: no NPU is involved)")
    assert any(line.startswith("oracle     k_cache: fp8: ok") for line in lines)
    assert lines[-1] == "good: as recorded, byte by byte"


def test_exit_codes(command: Command, recorded: dict[str, Path], tmp_path: Path) -> None:
    good = recorded["decode"]
    assert command("replay", tmp_path)[0] == 2
    omitted = copied(good, tmp_path, lambda d: d.update(omitted="2000000000 bytes are more than 1073741824"))
    code, _, err = command("replay", omitted, "--backend", "simulator")
    assert code == 2
    assert "expected a call recorded with its contents, got '2000000000 bytes are more than" in err
    code, out, err = command("replay", good, "--backend", "simulator", "--device", "7", "--json")
    assert code == 3
    assert "107001" in json.loads(out)["error"]
    with pytest.raises(SystemExit) as stopped:
        command("replay", good, "--backend", "simulator", "--device", "-1")
    assert stopped.value.code == 2


# ---- stand-alone programs ----


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler")
    return found


LIBRARIES = ("-lascendcl", "-lnnopbase", "-lopapi")
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def make(bundle: Path, language: str, folder: Path, compiler: str, command: Command) -> list[str]:
    """The command that runs the program."""
    source = folder / f"repro.{'c' if language == 'c' else 'py'}"
    code, out, err = command("repro", bundle, "--lang", language, "-o", source)
    assert (code, out, err) == (0, "", "")
    if language == "python":
        return [sys.executable, "-I", "-S", str(source)]  # neither this package nor any other
    library = str(Path(load("simulator").paths[0]).parent)
    binary = str(folder / "repro")
    words = [compiler, *STRICT, "-I", str(INCLUDE), str(source), "-L", library, *LIBRARIES, "-o", binary]
    built = subprocess.run(words, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return [binary]


def run(words: list[str], *arguments: object) -> tuple[int, str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(Path(load("simulator").paths[0]).parent)}
    done = subprocess.run(
        [*words, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    return done.returncode, done.stderr + done.stdout


PROGRAMS = (
    "interleaved",
    "host-padded",
    "transposed-scales",
    "no-tokens",
    "padding",
    "qkv-allocated",
    "qkv-host",
    "qkv-transposed",
    "a wrong dtype",
    "a fault on the device",
)


@pytest.mark.parametrize("language", ["c", "python"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_end_as_recorded(
    command: Command, recorded: dict[str, Path], tmp_path: Path, compiler: str, name: str, language: str
) -> None:
    words = make(recorded[name], language, tmp_path, compiler, command)
    code, out = run(words, recorded[name], 1)
    assert code == 0, out
    assert "GetWorkspaceSize answers " in out
    if name in FAILING:
        status = {"a wrong dtype": 161002, "a fault on the device": 507015}[name]
        assert f"answers {status}\n" in out
        assert out.splitlines()[-1] == f"AS RECORDED: expected status {status}"
    else:
        assert "_cache: 0 of " in out
        assert out.splitlines()[-1] == "AS RECORDED"


@pytest.mark.parametrize("language", ["c", "python"])
def test_programs_say_what_differs(command: Command, tmp_path: Path, compiler: str, language: str) -> None:
    bundle = example(tmp_path)
    assert run(make(bundle, language, tmp_path, compiler, command), bundle)[0] == 0
    rewrite(bundle, "key", "before", np.zeros(24, np.uint8))
    words = make(bundle, language, tmp_path, compiler, command)
    code, out = run(words, bundle)
    assert code == 1
    assert "key_cache: 24 of 64 bytes differ, first at 0: got 0x00, recorded 0x" in out
    assert "value_cache: 0 of 64 bytes differ" in out
    assert out.splitlines()[-1] == "NOT AS RECORDED"


@pytest.mark.parametrize("language", ["c", "python"])
def test_programs_take_the_recorded_files_only(command: Command, tmp_path: Path, compiler: str, language: str) -> None:
    """Nothing is said of the device where a file was changed, before the call or after it."""
    bundle = example(tmp_path)
    words = make(bundle, language, tmp_path, compiler, command)
    for name in ("key-before.bin", "key_cache-after.bin"):
        recorded = (bundle / name).read_bytes()
        for other, what in ((recorded[:-1], "size"), (bytes([recorded[0] ^ 1]) + recorded[1:], "SHA-256")):
            (bundle / name).write_bytes(other)
            code, out = run(words, bundle)
            assert code == 2
            assert f"{name}: is not the recorded one: it has another {what}" in out.replace(".bin is", ".bin: is")
            assert "differ" not in out
        (bundle / name).write_bytes(recorded)
    assert run(words, bundle)[0] == 0


@pytest.mark.parametrize("language", ["c", "python"])
def test_arguments_of_programs(command: Command, tmp_path: Path, compiler: str, language: str) -> None:
    bundle = example(tmp_path)
    words = make(bundle, language, tmp_path, compiler, command)
    devices = ("abc", "1junk", "", "-1", 2**32)
    for arguments in ([], *([bundle, device] for device in devices), [bundle, 0, 0]):
        code, out = run(words, *arguments)
        assert code == 2, arguments
        assert "usage: " in out
        assert "Traceback" not in out
        assert "aclInit" not in out
    assert run(words, bundle, 1)[0] == run(words, bundle)[0] == 0


@pytest.mark.parametrize("language", ["c", "python"])
def test_programs_whose_reader_went_away_say_nothing(
    command: Command, tmp_path: Path, compiler: str, language: str
) -> None:
    bundle = example(tmp_path)
    words = make(bundle, language, tmp_path, compiler, command)
    code, out = run(["sh", "-c", '"$@" | true', "sh", *words], bundle)
    assert (code, out) == (0, "")


def test_hashes_of_the_c_program(command: Command, tmp_path: Path, compiler: str) -> None:
    """Of every length at which padding takes another way."""
    bundle = example(tmp_path / "calls")
    source = command("repro", bundle, "--lang", "c")[1].partition("/* The block's contents from")[0]
    source += """
int main(void)
{
    uint8_t data[130];
    char digits[65];
    for (size_t size = 0; size < sizeof data; size++) {
        data[size] = (uint8_t)(7 * size);
        Sha256(data, size, digits);
        puts(digits);
    }
    (void)BLOCK; (void)TENSOR; (void)FACTS; (void)folder; (void)Must; (void)Gather; (void)Phase1; (void)Allocate;
    return 0;
}
"""
    (tmp_path / "hashes.c").write_text(source)
    library = Path(load("simulator").paths[0]).parent
    libraries = [f"-L{library}", "-lopapi", "-lnnopbase", "-lascendcl"]
    program = str(tmp_path / "hashes")
    subprocess.run([compiler, str(tmp_path / "hashes.c"), f"-I{INCLUDE}", *libraries, "-o", program], check=True)
    code, out = run([program])
    data = bytes(7 * size % 256 for size in range(130))
    assert (code, out.split()) == (0, [hashlib.sha256(data[:size]).hexdigest() for size in range(130)])


@pytest.mark.parametrize("language", ["c", "python"])
def test_programs_notice_another_ending(
    command: Command, recorded: dict[str, Path], tmp_path: Path, compiler: str, language: str
) -> None:
    bundle = copied(
        recorded["decode"],
        tmp_path,
        lambda d: d["outcome"].update(status=561103, error="AclnnInnerError", phase="phase 1"),
    )
    code, out = run(make(bundle, language, tmp_path, compiler, command), bundle)
    assert code == 1
    assert out.splitlines()[-1] == "NOT AS RECORDED: expected status 561103"


def test_what_never_came_to_cann_makes_no_program(command: Command, recorded: dict[str, Path]) -> None:
    code, out, err = command("repro", recorded["a slot out of range"], "--lang", "c")
    assert (code, out) == (2, "")
    assert "AclnnParameterError that did not come from CANN; there is nothing to reproduce" in err


HOSTILE = 'x*/ "; #error \\ ??/ %s \n\x07 \U0001f600'


@pytest.mark.parametrize("language", ["c", "python"])
def test_text_of_a_bundle_stays_text(
    command: Command, recorded: dict[str, Path], tmp_path: Path, compiler: str, language: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["attributes"]["cache_layout"] = HOSTILE
        document["target"]["soc_name"] = HOSTILE.replace("\n", "").replace("\x07", "")
        document["outcome"] |= {"status": 161002, "error": "X", "phase": "phase 1", "message": HOSTILE + "\ud800"}

    bundle = copied(recorded["decode"], tmp_path, change)
    code, out = run(make(bundle, language, tmp_path, compiler, command), bundle)
    assert code == 1  # the call succeeds
    assert HOSTILE + "?" in out
    assert 'on simulator, x*/ "; #error' in out


def test_other_revisions_have_their_own_argument_list(recorded: dict[str, Path], tmp_path: Path) -> None:
    bundle = copied(recorded["qkv-host"], tmp_path, lambda d: d["prototype"].update(revision="C"))
    text = program(read_bundle(bundle), "python")
    arguments = text[text.index("ARGUMENTS = [") :].split("]\n")[0].splitlines()[1:]
    assert len(arguments) == 24 - 2
    kinds = [line.strip().strip("(),").split(",")[0].strip("'") for line in arguments]
    # mropePosition stands behind vScale, then headNums, layouts, epsilon, mropeSection and the two modes.
    assert kinds == [
        *["tensor"] * 12,
        "null",
        "integers",
        "text",
        "text",
        "number",
        *["null"] * 3,
        *["tensor"] * 2,
    ]

    def state(document: dict[str, Any]) -> None:
        document["prototype"].update(revision="B")
        document["attributes"].update(mrope_section=[1, 2, 3], q_quant_mode="PerTokenPerHead")

    text = program(read_bundle(copied(recorded["qkv-host"], tmp_path / "b", state)), "c")
    call = text[text.index("GetWorkspaceSize(\n") :].split("workspaceSize")[0].splitlines()[1:-1]
    assert len(call) == 23 - 2
    assert [line.strip() for line in call[-4:-2]] == [
        "Integers(3, (const int64_t[]){1, 2, 3}),",
        '(char *)"PerTokenPerHead",',
    ]


def test_numbers_of_all_kinds(command: Command, recorded: dict[str, Path], tmp_path: Path) -> None:
    for number, (value, literal) in enumerate({"nan": "NAN", "-inf": "-INFINITY", 0.5: "0x1.0000000000000p-1"}.items()):
        bundle = copied(recorded["qkv-host"], tmp_path / str(number), lambda d: d["attributes"].update(epsilon=value))  # noqa: B023
        assert f"(float){literal}," in program(read_bundle(bundle), "c")


def test_a_program_never_takes_the_place_of_what_it_reads(command: Command, tmp_path: Path) -> None:
    bundle = example(tmp_path / "calls")
    (tmp_path / "link").symlink_to(bundle / "key-before.bin")
    (tmp_path / "second name").hardlink_to(bundle / "key_cache-after.bin")
    places = [*bundle.iterdir(), tmp_path / "link", tmp_path / "second name"]
    contents = {path: path.read_bytes() for path in places}
    for path in places:
        code, out, err = command("repro", bundle, "--lang", "c", "-o", path)
        assert (code, out) == (2, "")
        assert err == f"--output: expected a file of its own, got {path}, which is part of the bundle\n"
    assert {path: path.read_bytes() for path in places} == contents
    # Beside them there is room, also for the same again.
    for _ in range(2):
        assert command("repro", bundle, "--lang", "c", "-o", bundle / "repro.c")[0] == 0
    assert (bundle / "repro.c").read_text().startswith("/* Makes one recorded call")
    code, _, err = command("repro", bundle, "--lang", "c", "-o", tmp_path / "none" / "repro.c")
    assert (code, err) == (2, f"{tmp_path}/none/repro.c: No such file or directory\n")


def test_a_manifest_stands_for_its_bundle(command: Command, recorded: dict[str, Path]) -> None:
    bundle = recorded["decode"]
    assert replayed(command, bundle / "manifest.json", 0)["as_recorded"]
    programs = [command("repro", path, "--lang", "python")[1] for path in (bundle, bundle / "manifest.json")]
    assert programs[0] == programs[1] != ""


def test_programs_go_to_standard_output(command: Command, recorded: dict[str, Path]) -> None:
    code, out, _ = command("repro", recorded["decode"], "--lang", "python")
    assert code == 0
    assert out.startswith("#!/usr/bin/env python3\n")
    assert "import aclnn" not in out
    assert "import numpy" not in out
    compile(out, "repro.py", "exec")
    assert "FLOAT8_E4M3FN" in out
