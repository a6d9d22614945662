# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache check``: bundles, manifests and calls described by hand; no library is needed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import edit, example
from hypothesis import given, settings
from hypothesis import strategies as st

import aclnn_kvcache as kv
from aclnn_kvcache.bundle.decoding import described
from aclnn_kvcache.bundle.fields import parse
from aclnn_kvcache.cli import main
from aclnn_kvcache.replay.checking import check
from aclnn_kvcache.rules.contracts import CONTRACTS

FP8 = "FLOAT8_E4M3FN"


def scatter() -> dict[str, Any]:
    """A legal call: T=3, N=8, B=16, S=128, D=128."""
    cache = {"shape": [16, 8, 128, 128], "dtype": FP8}
    return {
        "operator": "scatter_pa_kv_cache_with_k_scale",
        "arguments": {
            "key": {"shape": [3, 8, 128], "dtype": FP8},
            "value": {"shape": [3, 8, 128], "dtype": FP8},
            "key_cache": {**cache, "storage": "k"},
            "value_cache": {**cache, "storage": "v"},
            "slot_mapping": {"shape": [3], "dtype": "INT32"},
            "key_scale": {"shape": [3, 8], "dtype": "FLOAT"},
            "key_scale_cache": {"shape": [16, 8, 128, 1], "dtype": "FLOAT"},
        },
    }


def fused() -> dict[str, Any]:
    shapes = {
        "qkv": ([3, 4, 128], "BF16"),
        "q_gamma": ([128], "FLOAT"),
        "k_gamma": ([128], "FLOAT"),
        "cos_sin": ([8, 128], "FLOAT"),
        "slot_mapping": ([3], "INT32"),
        "k_cache": ([2, 1, 4, 128], FP8),
        "v_cache": ([2, 1, 4, 128], FP8),
        "k_scale_cache": ([2, 1, 4, 1], "FLOAT"),
        "query_start_loc": ([2], "INT32"),
        "seq_lens": ([1], "INT32"),
        "rotation": ([128, 128], "BF16"),
        "v_scale": ([1], "FLOAT"),
    }
    return {
        "operator": "qkv_rms_norm_rope_cache_with_k_scale",
        "arguments": {name: {"shape": shape, "dtype": dtype} for name, (shape, dtype) in shapes.items()},
        "attributes": {"head_nums": [2, 1, 1], "epsilon": 1e-6},
    }


class Checker:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path, self._capsys = folder / "call.json", capsys

    def run(self, call: Any, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error; of a document, or of a path."""
        path = call if isinstance(call, Path) else self._path
        if not isinstance(call, Path):
            path.write_text(json.dumps(call))
        code = main(["check", str(path), *words])
        return (code, *self._capsys.readouterr())

    def findings(self, call: Any) -> list[tuple[str, int, str | None]]:
        code, out, _ = self.run(call, "--json")
        document = json.loads(out)
        assert code == document["exit_code"] == (1 if document["findings"] else 0)
        return [(finding["rule"], finding["status"], finding["ez"]) for finding in document["findings"]]


@pytest.fixture
def checker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checker:
    return Checker(tmp_path, capsys)


@pytest.mark.parametrize("call", [scatter(), fused()], ids=["scatter", "fused"])
def test_a_legal_call(checker: Checker, call: dict[str, Any]) -> None:
    code, out, err = checker.run(call)
    assert (code, err) == (0, "")
    assert out == (
        f"{call['operator']}: nothing is wrong (shapes, strides and attributes; values of slots are not known)\n"
    )


def test_findings_have_status_code_and_source(checker: Checker) -> None:
    call = scatter()
    call["arguments"]["key_scale"]["dtype"] = "FLOAT16"
    code, out, _ = checker.run(call)
    assert code == 1
    first, message, rule = out.splitlines()[:3]
    assert first.endswith("CANN answers 161002")
    assert "key_scale must be float32, got float16" in message
    assert "161002 EZ" in rule
    assert "phase 1 of CANN" in rule


def test_arguments_left_out_are_null(checker: Checker) -> None:
    call = scatter()
    del call["arguments"]["value"]
    assert checker.findings(call)[0][1] == 161001


def test_names_as_everywhere_else(checker: Checker) -> None:
    """NumPy's dtypes, the C function, CANN's prefixes, and dimensions of a storage."""
    call = scatter()
    expected = checker.run(call)[1]
    call["operator"] = "aclnnScatterPaKvCacheWithKScale"
    call["arguments"]["key"] |= {"dtype": "float8_e4m3fn", "storage": [3, 8, 128], "format": "ACL_FORMAT_ND"}
    call["arguments"]["value"] |= {"dtype": "ACL_FLOAT8_E4M3FN", "format": 2}
    call["arguments"]["slot_mapping"]["dtype"] = "int32"
    assert checker.run(call) == (0, expected, "")
    call["arguments"]["key"]["storage"] = [3, 8, 127]
    assert [finding[0] for finding in checker.findings(call)] == ["bounds.key"]
    for storage, text in (
        ([-1], "arguments.key.storage: expected dimensions of at most"),
        ([2**61, 2**61], "arguments.key.storage: expected dimensions of at most"),
        ([1.5], "arguments.key.storage[0]: expected an integer"),
    ):
        call["arguments"]["key"]["storage"] = storage
        assert (checker.run(call)[0], text in checker.run(call)[2]) == (2, True)


@pytest.mark.parametrize("value", ["nd", True, 99, None, []])
def test_a_format_that_is_none(checker: Checker, value: Any) -> None:
    call = scatter()
    call["arguments"]["key"]["format"] = value
    code, _, err = checker.run(call)
    assert (code, "arguments.key.format: expected one of UNDEFINED, NCHW" in err) == (2, True)


def test_names_of_storages_tell_what_shares_memory(checker: Checker) -> None:
    call = scatter()
    # K and V take turns, row by row, in one allocation ...
    for name, offset in (("key_cache", 0), ("value_cache", 128)):
        strides = [8 * 128 * 256, 128 * 256, 256, 1]
        call["arguments"][name] |= {"storage": "kv", "strides": strides, "offset": offset}
    assert checker.findings(call) == []
    # ... and then overlap by a byte.
    call["arguments"]["value_cache"]["offset"] = 127
    assert checker.findings(call) == [("overlap.key_cache.value_cache", 0, None)]


def test_a_number_of_elements_bounds_the_allocation(checker: Checker) -> None:
    call = scatter()
    call["arguments"]["key_cache"]["storage"] = 16 * 8 * 128 * 128
    assert checker.findings(call) == []
    call["arguments"]["key_cache"]["storage"] -= 1
    assert checker.findings(call)


def test_a_storage_can_have_a_size(checker: Checker) -> None:
    call = scatter()
    call["arguments"]["key_cache"] |= {"strides": [2 * 131072, 2 * 16384, 256, 1], "storage": "k"}
    nbytes = 2 * 16 * 131072 - 128
    call["storages"] = {"k": {"nbytes": nbytes}}
    assert checker.findings(call) == []
    call["storages"]["k"]["nbytes"] = nbytes - 1
    assert [finding[0] for finding in checker.findings(call)] == ["bounds.key_cache"]


def test_prediction(checker: Checker) -> None:
    call = scatter()
    call["arguments"]["key_cache"] |= {"strides": [2 * 131072, 2 * 16384, 256, 2]}
    risk = "key_cache would be copied whole (2097152 bytes) into the workspace and back"
    code, plain, _ = checker.run(call)
    assert code == 1
    first, second = plain.splitlines()
    assert first.startswith(
        "scatter_pa_kv_cache_with_k_scale: no rule is broken and CANN goes on, but the session refuses the call on "
        "device arrays ("
    )
    assert second.startswith(f"  risk: {risk}")
    document = json.loads(checker.run(call, "--json")[1])
    assert (document["exit_code"], document["findings"], document["refusal"]) == (1, [], "")
    assert [(risk["rule"], risk["status"]) for risk in document["risks"]] == [("whole_cache_copy.key_cache", 0)]
    code, out, _ = checker.run(call, "--predict")
    assert code == 1
    assert "contiguous copy" in out
    assert out.count(risk) == 1
    assert f"copies: key_cache, {16 * 131072} bytes into the workspace and back" in out
    code, out, _ = checker.run(call, "--predict", "--json")
    prediction = json.loads(out)["prediction"]
    assert prediction["copies"] == [{"name": "key_cache", "nbytes": 16 * 131072, "written_back": True}]
    assert prediction["is_repeatable"] is False
    assert prediction["workspace"] == 16_777_728 + 16 * 131072


def test_a_bundle_is_checked_with_its_values(checker: Checker, tmp_path: Path) -> None:
    bundle = example(tmp_path, "device")
    code, out, _ = checker.run(bundle)
    assert (code, out) == (0, "scatter_pa_kv_cache_with_k_scale: nothing is wrong\n")
    # Slot 8 of caches of 8 slots, written as whoever wrote the bundle would.
    slots = np.array([0, 6, 8], "<i4").tobytes()
    (bundle / "slot_mapping-before.bin").write_bytes(slots)
    digest = hashlib.sha256(slots).hexdigest()
    edit(bundle, lambda d: d["storages"]["slot_mapping"]["before"].update(sha256=digest))
    code, out, _ = checker.run(bundle)
    assert code == 1
    assert "slot_mapping row 2 holds slot 8" in out
    assert "not checked by CANN" in out
    # Its manifest stands for the bundle, by way of a link too.
    (tmp_path / "link.json").symlink_to(bundle / "manifest.json")
    assert checker.run(bundle / "manifest.json")[:2] == checker.run(tmp_path / "link.json")[:2] == (code, out)
    os.remove(bundle / "slot_mapping-before.bin")
    for path in (bundle, bundle / "manifest.json"):
        code, _, err = checker.run(path)
        assert code == 2
        assert "slot_mapping-before.bin: expected a file that can be read, and no symbolic link, got none of" in err


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d["arguments"]["value_cache"].update(writable=False), "value_cache: expected an array that can be"),
        (lambda d: d["storages"]["key"].update(place="device"), "arguments: expected all arrays on the host or all on"),
    ],
    ids=["read-only", "host and device"],
)
def test_arrays_that_no_session_takes(checker: Checker, tmp_path: Path, change: Any, text: str) -> None:
    bundle = edit(example(tmp_path), change)
    code, out, _ = checker.run(bundle)
    first, second = out.splitlines()
    assert (code, first) == (
        1,
        "scatter_pa_kv_cache_with_k_scale: no rule is broken, but the session refuses the call",
    )
    assert second.startswith(f"  refused: {text}")
    assert json.loads(checker.run(bundle, "--json")[1])["refusal"].startswith(text)


def test_one_rule_is_counted_as_one(checker: Checker) -> None:
    call = scatter()
    call["arguments"]["key_scale_cache"] |= {"storage": 5}
    assert ": 1 broken rule (" in checker.run(call)[1]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_bundle_with_other_contents_is_no_bundle(checker: Checker, tmp_path: Path, moment: str) -> None:
    bundle = example(tmp_path)
    (bundle / f"key_cache-{moment}.bin").write_bytes(bytes(128))
    code, out, err = checker.run(bundle)
    assert (code, out) == (2, "")
    assert f"key_cache-{moment}.bin: expected SHA-256" in err


def test_a_folder_of_bundles(checker: Checker, tmp_path: Path) -> None:
    names = sorted(example(tmp_path / "calls").name for _ in range(2))
    code, _, err = checker.run(tmp_path / "calls")
    assert code == 2
    assert err.endswith(
        f"calls: expected a folder with a manifest.json, got a folder that holds 2 bundles; name one, such as "
        f"{names[1]}\n"
    )
    code, _, err = checker.run(tmp_path)
    assert (code, err.endswith("expected a file that can be read, and no symbolic link, got none of that name\n")) == (
        2,
        True,
    )


def test_a_bundle_without_contents_is_checked_by_its_layout(checker: Checker, tmp_path: Path) -> None:
    bundle = edit(example(tmp_path), lambda d: d.update(omitted="too large"))
    code, out, _ = checker.run(bundle)
    assert code == 0
    assert "values of slots are not known" in out


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.update(operator="aclnnAdd"), "operator: expected one of scatter_pa_kv_cache_with_k_scale"),
        (lambda c: c.pop("arguments"), "expected a field 'arguments', got none of that name"),
        (lambda c: c["arguments"].update(query=None), "arguments: expected no fields but key, value"),
        (lambda c: c["arguments"]["key"].pop("dtype"), "arguments.key: expected a field 'dtype'"),
        (lambda c: c["arguments"]["key"].update(dtype="float8"), "arguments.key.dtype: expected one of FLOAT, FLOAT16"),
        (lambda c: c["arguments"]["key"].update(shape="3x8"), "arguments.key.shape: expected a list of at most 25"),
        (lambda c: c.update(attributes={"padding": "no"}), "attributes.padding: expected one of error, skip"),
    ],
)
def test_a_description_that_is_none(checker: Checker, change: Any, text: str) -> None:
    call = scatter()
    change(call)
    code, out, err = checker.run(call)
    assert (code, out) == (2, "")
    assert text in err
    code, out, _ = checker.run(call, "--json")
    assert code == 2
    assert text in json.loads(out)["error"]


def test_no_file(checker: Checker, tmp_path: Path) -> None:
    code, _, err = checker.run(tmp_path / "none.json")
    assert code == 2
    assert err == (
        f"{tmp_path}/none.json: expected a file that can be read, and no symbolic link, got none of that name\n"
    )


def test_a_path_that_the_system_refuses(checker: Checker, tmp_path: Path) -> None:
    code, _, err = checker.run(tmp_path / ("x" * 300))
    assert (code, err.endswith("got File name too long\n")) == (2, True)


NUMBERS = st.integers(-(2**62), 2**62) | st.integers(-3, 200) | st.sampled_from([0, 1, 128, 2**31, 2**32])
TENSORS = st.fixed_dictionaries(
    {"shape": st.lists(NUMBERS, max_size=5), "dtype": st.sampled_from([FP8, "FLOAT", "INT32", "INT4", "BF16"])},
    optional={
        "offset": NUMBERS,
        "storage": NUMBERS | st.just("shared"),
        "format": st.sampled_from(["ND", "FRACTAL_NZ"]),
    },
)


@settings(max_examples=400)
@given(st.sampled_from([scatter, fused]), st.data())
def test_any_description_is_checked_or_refused(legal: Any, data: st.DataObject) -> None:
    call = legal()
    names = CONTRACTS[call["operator"]].tensors
    for name in data.draw(st.lists(st.sampled_from(names), max_size=3)):
        tensor = data.draw(st.none() | TENSORS)
        if tensor is not None and data.draw(st.booleans()):
            tensor["strides"] = data.draw(
                st.lists(NUMBERS, min_size=len(tensor["shape"]), max_size=len(tensor["shape"]))
            )
        call["arguments"][name] = tensor
    if "attributes" in call:
        call["attributes"] |= data.draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "head_nums": st.none() | st.lists(NUMBERS, max_size=4),
                    "epsilon": st.sampled_from(["nan", "inf", -1, 0.5]),
                    "layout_qkv": st.sampled_from([None, "", "NTD", "X"]),
                    "layout_q_out": st.sampled_from([None, "TND", "NTD", "\ud800"]),
                },
            )
        )
    try:
        checked = check(described(parse("x", json.dumps(call).encode())), {})
    except kv.BundleError as error:
        text = str(error)
    else:
        text = f"x{checked.prediction}{checked.findings}"
    assert text.startswith("x")


def test_the_example_of_the_readme(checker: Checker) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    call = json.loads(text.partition("```json\n")[2].partition("```")[0])
    assert checker.findings(call) == []
    call["arguments"]["value_cache"]["offset"] = 0
    assert checker.findings(call) == [("overlap.key_cache.value_cache", 0, None)]
