# SPDX-License-Identifier: Apache-2.0
"""Calls of revisions B and C as bundles: recorded on a fake of the revision, read, checked, and made into programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bundles import edit
from revision_fakes import INCLUDE, QKV, QKV_HEADER, REVISIONS, declarations, install, names, recorded, run

from aclnn_kvcache.bundle.reading import Bundle, read_bundle
from aclnn_kvcache.replay.checking import check, check_file
from aclnn_kvcache.replay.repro import program

SCENES = [("B", "M-RoPE"), ("C", "M-RoPE"), ("C", "Mx")]
MODES = {
    "M-RoPE": {"mrope_section": (11, 20, 20), "q_quant_mode": "NoQuant", "k_quant_mode": None},
    "Mx": {"mrope_section": (24, 20, 20), "q_quant_mode": "Mx", "k_quant_mode": "Mx"},
}
ABSENT = {"M-RoPE": {"query_start_loc", "seq_lens", "q_out", "q_scale"}}
ABSENT["Mx"] = ABSENT["M-RoPE"] | {"rotation"}
MADE = {
    "M-RoPE": {"q_out": ("BF16", (5, 16, 128))},
    "Mx": {"q_out": ("FLOAT8_E4M3FN", (5, 16, 128)), "q_scale": ("FLOAT8_E8M0", (5, 16, 4))},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], tuple[Path, Path]]:
    """A bundle of each scene, place and revision, and the root of the installation it was recorded on."""
    found = {}
    for revision in ("B", "C"):
        root = tmp_path_factory.mktemp(f"revision_{revision}")
        folder = install(root, REVISIONS[revision], declarations(QKV, REVISIONS[revision]))
        for scene in [scene for r, scene in SCENES if r == revision]:
            for place in ("host", "device"):
                calls = root / f"{scene}-{place}"
                code = f"""
                    with opened(record={str(calls)!r}) as session: answer(**call_scene(session, {scene!r}, {place!r}))
                """
                run(root, folder, code)
                [bundle] = calls.iterdir()
                found[revision, scene, place] = bundle, root
    return found


ALL = [(revision, scene, place) for revision, scene in SCENES for place in ("host", "device")]


@pytest.mark.parametrize("key", ALL, ids="-".join)
def test_what_is_recorded(made: Any, key: tuple[str, str, str]) -> None:
    revision, scene, place = key
    manifest = read_bundle(made[key][0]).manifest
    call = manifest.call
    assert manifest.outcome.error is None
    assert (manifest.prototype.revision, call.revision, call.contract.revision) == (revision, revision, revision)
    assert names((manifest.prototype.declaration or "").partition("(")[2].rstrip(")")) == names(REVISIONS[revision])
    assert {name: call.attributes[name] for name in MODES[scene]} == MODES[scene]
    assert {name for name, tensor in call.arguments.items() if tensor is None} == ABSENT[scene]
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in manifest.returned.items()} == MADE[scene]
    assert {storage.place for name, storage in call.storages.items() if name not in MADE[scene]} == {place}


@pytest.mark.parametrize("key", ALL, ids="-".join)
def test_rules_and_prediction_are_those_of_the_revision(made: Any, key: tuple[str, str, str]) -> None:
    revision, scene, _ = key
    checked = check_file(made[key][0])
    assert checked.findings == ()
    assert checked.values_known
    assert checked.contract.revision == revision
    more = {"M-RoPE": 512, "Mx": 0}[scene]
    assert checked.prediction.workspace == 33_554_944 + more
    bundle = read_bundle(made[key][0])
    older = bundle.manifest.call._replace(revision="A")
    first = check(older, {}).findings[0]
    assert (first.rule, first.status) == ("later.mrope_position", 0)


def test_a_description_by_hand_names_the_revision(made: Any, tmp_path: Path) -> None:
    document = json.loads((made["C", "Mx", "device"][0] / "manifest.json").read_text())
    call = {name: document[name] for name in ("operator", "arguments", "attributes", "storages")}
    path = tmp_path / "call.json"
    path.write_text(json.dumps({**call, "revision": "C"}))
    assert check_file(path).findings == ()
    path.write_text(json.dumps(call))
    assert check_file(path).findings[0].message.startswith("mrope_position must be None with revision A")


def test_a_bundle_from_before_these_arguments_is_read(made: Any, tmp_path: Path) -> None:
    source = made["B", "M-RoPE", "device"][0]
    copy = tmp_path / "bundle"
    copy.mkdir()
    for file in source.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())

    def older(document: dict[str, Any]) -> None:
        del document["arguments"]["mrope_position"], document["storages"]["mrope_position"]
        for name in ("mrope_section", "q_quant_mode", "k_quant_mode"):
            del document["attributes"][name]

    call = read_bundle(edit(copy, older)).manifest.call
    assert call.arguments["mrope_position"] is None
    assert {call.attributes[name] for name in ("mrope_section", "q_quant_mode", "k_quant_mode")} == {None}


def arguments_of(bundle: Bundle) -> list[str]:
    """Those of phase 1 in the C program, without the out-parameters."""
    text = program(bundle, "c")
    call = text[text.index(f"return {QKV}GetWorkspaceSize(\n") :].partition("workspaceSize")[0]
    return [line.strip().rstrip(",") for line in call.splitlines()[1:-1]]


@pytest.mark.parametrize("key", ALL, ids="-".join)
def test_a_c_program_passes_the_arguments_of_the_revision(made: Any, key: tuple[str, str, str], tmp_path: Path) -> None:
    revision, scene, _ = key
    path, root = made[key]
    parameters = names(REVISIONS[revision])[:-2]
    passed = dict(zip(parameters, arguments_of(read_bundle(path)), strict=True))
    section = ", ".join(map(str, MODES[scene]["mrope_section"]))
    assert passed["mropeSectionOptional"] == f"Integers(3, (const int64_t[]){{{section}}})"
    assert passed["qQuantMode"] == f'(char *)"{MODES[scene]["q_quant_mode"]}"'
    if revision == "C":
        assert passed["kQuantMode"] == ('(char *)"Mx"' if scene == "Mx" else "NULL")
    null = {name for name, value in passed.items() if value == "NULL"} - {"kQuantMode"}
    wanted = {"queryStartLocOptional", "seqLensOptional"}
    assert null == wanted | ({"qScaleOptional"} if scene == "M-RoPE" else {"rotationOptional"})
    # It compiles against the header of its revision, and of no other.
    source = tmp_path / "repro.c"
    source.write_text(program(read_bundle(path), "c"))
    include = (root / QKV_HEADER).parents[1]
    done = compiled(source, include)
    assert done.returncode == 0, done.stderr
    done = compiled(source, INCLUDE)
    assert done.returncode != 0
    assert "too many arguments" in done.stderr


def compiled(source: Path, include: Path) -> subprocess.CompletedProcess[str]:
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{include}", f"-I{INCLUDE}"]
    command += ["-include", "aclnn/aclnn_base.h", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("key", ALL, ids="-".join)
def test_a_replay_makes_the_call_of_the_revision(made: Any, key: tuple[str, str, str]) -> None:
    revision, scene, _ = key
    path, root = made[key]
    (root / "record").unlink()
    code = f"""
        from aclnn_kvcache.bundle.reading import read_bundle
        from aclnn_kvcache.replay.replay import replay
        with opened() as session:
            report = replay(read_bundle({str(path)!r}), session)
            answer(alike=report.ends_alike, same=report.same_target, oracle=sorted(report.oracle))
    """
    facts = run(root, root / "lib64", code)
    assert (facts["alike"], facts["same"]) == (True, True)
    [first, _] = recorded(root)
    arguments = first["arguments"]
    assert list(arguments) == names(REVISIONS[revision])
    assert arguments["mropeSectionOptional"] == list(MODES[scene]["mrope_section"])
    assert arguments["qQuantMode"] == MODES[scene]["q_quant_mode"]
    assert arguments["mropePositionOptional"]["shape"] == [5, 3]


def test_another_revision_is_another_target(made: Any, tmp_path: Path) -> None:
    path, _ = made["B", "M-RoPE", "host"]
    folder = install(tmp_path, REVISIONS["C"], declarations(QKV, REVISIONS["C"]))
    code = f"""
        from aclnn_kvcache.bundle.reading import read_bundle
        from aclnn_kvcache.replay.replay import replay
        with opened() as session:
            report = replay(read_bundle({str(path)!r}), session)
            answer(alike=report.ends_alike, same=report.same_target)
    """
    assert run(tmp_path, folder, code) == {"alike": True, "same": False}
