# SPDX-License-Identifier: Apache-2.0
"""The format of bundles: what is written is what is read, and nothing else is believed."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import edit, example, scatter_call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aclnn_kvcache as kv
from aclnn_kvcache.bundle import reading, writing
from aclnn_kvcache.bundle.decoding import manifest as decode
from aclnn_kvcache.bundle.fields import parse
from aclnn_kvcache.bundle.reading import read_bundle
from aclnn_kvcache.bundle.writing import encoded


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return example(tmp_path / "calls")


def read(path: Path) -> Any:
    """Everything that a reader looks at."""
    found = read_bundle(path)
    return found.manifest, found.contents("before"), found.contents("after")


def refused(path: Path, field: str) -> kv.BundleError:
    with pytest.raises(kv.BundleError) as caught:
        read(path)
    error = caught.value
    assert error.field == field, error
    assert str(path) in str(error)
    return error


def test_what_is_written_is_read(bundle: Path) -> None:
    manifest, before, after = read(bundle)
    call = scatter_call()
    assert manifest.call.operator == call.operator
    assert manifest.call.arguments == call.arguments
    assert manifest.call.attributes == {"cache_layout": None, "padding": "error"}
    assert set(before) == set(call.storages)
    assert before["slot_mapping"].view(np.int32).tolist() == [0, 6, 3]
    assert set(after) == {"key_cache", "key_scale_cache"}
    # Slot 6 is block 1, offset 2: K and V rows of 8 bytes each take turns.
    rows = after["key_cache"].reshape(2, 4, 2, 8)
    assert rows[1, 2, 0].tobytes() == before["key"][8:16].tobytes()
    assert rows[1, 2, 1].tobytes() == before["value"][8:16].tobytes()


def test_files_are_private_plain_bytes_with_their_checksums(bundle: Path) -> None:
    document = json.loads((bundle / "manifest.json").read_text())
    named = [c for s in document["storages"].values() for c in (s["before"], s["after"]) if c]
    assert sorted(os.listdir(bundle)) == sorted(["manifest.json", *(content["file"] for content in named)])
    for content in named:
        assert hashlib.sha256((bundle / content["file"]).read_bytes()).hexdigest() == content["sha256"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in bundle.iterdir()} == {0o600}
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o700
    assert (bundle / "slot_mapping-before.bin").read_bytes() == np.array([0, 6, 3], "<i4").tobytes()


def test_names_tell_time_process_and_operator(bundle: Path) -> None:
    time, process, number, operator = bundle.name.split("-")
    assert (time, process, operator) == (
        "20260102T030405.000006Z",
        str(os.getpid()),
        "scatter_pa_kv_cache_with_k_scale",
    )
    assert int(number) > 0


@pytest.mark.parametrize(("value", "text"), [(float("nan"), '"nan"'), (float("-inf"), '"-inf"'), (1e-6, "1e-06")])
def test_numbers_that_json_has_not_are_texts(bundle: Path, value: float, text: str) -> None:
    manifest = read_bundle(bundle).manifest
    call = manifest.call._replace(
        operator="qkv_rms_norm_rope_cache_with_k_scale",
        arguments={},
        attributes={"epsilon": value, "head_nums": (2, 1, 1)},
    )
    data = encoded(manifest._replace(call=call))
    assert f'"epsilon": {text}' in data.decode()
    assert "[2, 1, 1]" in data.decode()
    assert "NaN" not in data.decode()


def test_a_folder_is_never_replaced(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = int(bundle.name.split("-")[2])
    monkeypatch.setattr(writing, "_numbers", iter([number, number, number + 1]))
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    other = example(bundle.parent)
    assert int(other.name.split("-")[2]) == number + 1
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


@pytest.mark.parametrize("failing", ["_write", "_publish"])
def test_what_cannot_be_written_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        example(tmp_path / "calls")
    assert list((tmp_path / "calls").iterdir()) == []


# ---- tampering ----


def flip_a_bit(bundle: Path) -> None:
    path = bundle / "key-before.bin"
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)


def truncate(bundle: Path) -> None:
    os.truncate(bundle / "key-before.bin", 23)


def lengthen(bundle: Path) -> None:
    with open(bundle / "key-before.bin", "ab") as file:
        file.write(b"x")


def remove(bundle: Path) -> None:
    (bundle / "key-before.bin").unlink()


def link(bundle: Path) -> None:
    (bundle / "key-before.bin").rename(bundle.parent / "outside")
    (bundle / "key-before.bin").symlink_to(bundle.parent / "outside")


def pipe(bundle: Path) -> None:
    (bundle / "key-before.bin").unlink()
    os.mkfifo(bundle / "key-before.bin")


def folder(bundle: Path) -> None:
    (bundle / "key-before.bin").unlink()
    (bundle / "key-before.bin").mkdir()


@pytest.mark.parametrize("tamper", [flip_a_bit, truncate, lengthen, remove, link, pipe, folder])
def test_tampered_contents(bundle: Path, tamper: Callable[[Path], None]) -> None:
    tamper(bundle)
    refused(bundle, "key-before.bin")


def put(*place: str | int) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    """Sets a field of the manifest."""

    def to(value: Any) -> Callable[[dict[str, Any]], None]:
        def change(document: Any) -> None:
            for step in place[:-1]:
                document = document[step]
            document[place[-1]] = value

        return change

    return to


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(name)


KEY = ("arguments", "key")
HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another schema": (put("schema")(2), "schema"),
    "a schema that is true": (put("schema")(True), "schema"),
    "no schema": (drop("schema"), ""),
    "no outcome": (drop("outcome"), ""),
    "an unknown field": (put("more")(1), ""),
    "an unknown operator": (put("operator")("aclnnAdd"), "operator"),
    "an operator of another type": (put("operator")(["x"]), "operator"),
    "an unknown argument": (put("arguments", "query")(None), "arguments"),
    "arguments in a list": (put("arguments")([]), "arguments"),
    "an unknown attribute": (put("attributes", "epsilon")(1), "attributes"),
    "an attribute of another type": (put("attributes", "padding")(None), "attributes.padding"),
    "an unknown dtype": (put(*KEY, "dtype")("O"), "arguments.key.dtype"),
    "a dtype of another type": (put(*KEY, "dtype")({}), "arguments.key.dtype"),
    "a dtype without arrays": (put(*KEY, "dtype")("INT4"), "arguments.key.dtype"),
    "a private format": (put(*KEY, "format")("FRACTAL_NZ"), "arguments.key.format"),
    "an unknown format": (put(*KEY, "format")("X"), "arguments.key.format"),
    "26 axes": (put(*KEY, "shape")([1] * 26), "arguments.key.shape"),
    "an extent that is a text": (put(*KEY, "shape")([3, "1", 8]), "arguments.key.shape[1]"),
    "an extent that is true": (put(*KEY, "shape")([3, True, 8]), "arguments.key.shape[1]"),
    "an extent with a fraction": (put(*KEY, "shape")([3, 1.0, 8]), "arguments.key.shape[1]"),
    "a huge extent": (put(*KEY, "shape")([2**62, 1, 8]), "arguments.key.shape[0]"),
    "a negative extent": (put(*KEY, "shape")([3, -1, 8]), "arguments.key"),
    "more elements than the storage": (put(*KEY, "shape")([4, 1, 8]), "arguments.key"),
    "an offset behind the storage": (put(*KEY, "offset")(1), "arguments.key"),
    "an offset before the storage": (put(*KEY, "offset")(-1), "arguments.key"),
    "a stride out of the storage": (put(*KEY, "strides")([9, 8, 1]), "arguments.key"),
    "a negative stride out of the storage": (put(*KEY, "strides")([-8, 8, 1]), "arguments.key"),
    "too few strides": (put(*KEY, "strides")([8, 1]), "arguments.key.strides"),
    "a view of endless size": (
        put(*KEY)({"shape": [2**40], "strides": [0], "dtype": "FLOAT", "storage": "key"}),
        "arguments.key",
    ),
    "an empty view behind the storage": (
        put(*KEY)({"shape": [0], "dtype": "FLOAT8_E4M3FN", "offset": 25, "storage": "key"}),
        "arguments.key",
    ),
    "an empty view that NumPy cannot make": (
        put(*KEY)({"shape": [0, 2**61], "dtype": "INT64", "storage": "key"}),
        "arguments.key",
    ),
    "an unknown storage": (put(*KEY, "storage")("elsewhere"), "arguments"),
    "a storage that is a number": (put(*KEY, "storage")(24), "arguments"),
    "no storage for an argument": (lambda d: d["storages"].pop("key"), "arguments"),
    "a storage with a path for a name": (put("storages", "../x")({"nbytes": 1}), "storages"),
    "a place that is none": (put("storages", "key", "place")("disk"), "storages.key.place"),
    "a negative size": (put("storages", "key", "nbytes")(-1), "storages.key.nbytes"),
    "a huge size": (put("storages", "key", "nbytes")(2**50), "storages.key.nbytes"),
    "another size than the file": (put("storages", "key", "nbytes")(25), "key-before.bin"),
    "an absolute path": (put("storages", "key", "before", "file")("/etc/passwd"), "storages.key.before.file"),
    "a path up": (put("storages", "key", "before", "file")("../secret"), "storages.key.before.file"),
    "the folder above": (put("storages", "key", "before", "file")(".."), "storages.key.before.file"),
    "a path down": (put("storages", "key", "before", "file")("a/b"), "storages.key.before.file"),
    "a name with a NUL": (put("storages", "key", "before", "file")("a\0b"), "storages.key.before.file"),
    "a name with a line break": (put("storages", "key", "before", "file")("a\n"), "storages.key.before.file"),
    "the manifest as contents": (put("storages", "key", "before", "file")("manifest.json"), "storages.key.before.file"),
    "no checksum": (put("storages", "key", "before", "sha256")(None), "storages.key.before.sha256"),
    "no contents": (put("storages", "key", "before")(None), "storages.key.before"),
    "no results": (put("storages", "key_cache", "after")(None), "storages.key_cache.after"),
    "contents left out": (put("omitted")("too large"), "omitted"),
    "a SoC with terminal codes": (put("target", "soc_name")("\x1b[2J"), "target.soc_name"),
    "a backend that is none": (put("target", "backend")("cuda"), "target.backend"),
    "a status out of range": (put("outcome", "status")(2**31), "outcome.status"),
    "an error that is code": (put("outcome", "error")("os.system('x')"), "outcome.error"),
    "findings without end": (put("outcome", "findings")([0] * 1000), "outcome.findings"),
    "a revision that is none": (put("prototype", "revision")("D"), "prototype.revision"),
    "a time that is none": (put("time")("../../x"), "time"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_manifests(bundle: Path, name: str) -> None:
    change, field = HOSTILE[name]
    text = str(refused(edit(bundle, change), field))
    assert len(text) < 700
    assert text.isprintable()


def test_strides_of_axes_that_nobody_walks_do_not_matter(bundle: Path) -> None:
    original = views_of(bundle)["key"].tobytes()
    edit(bundle, put(*KEY, "strides")([8, 2**62 - 1, 1]))
    assert views_of(bundle)["key"].tobytes() == original
    edit(
        bundle,
        put(*KEY)({"shape": [0, 2**20], "strides": [2**62 - 1, -(2**62) + 1], "dtype": "INT64", "storage": "key"}),
    )
    assert views_of(bundle)["key"].shape == (0, 2**20)


def views_of(bundle: Path) -> dict[str, Any]:
    found = read_bundle(bundle)
    return reading.views(found.manifest.call.arguments, found.contents("before"))


RAW: dict[str, bytes] = {
    "no JSON": b"{",
    "empty": b"",
    "not UTF-8": b'{"schema": "\xff"}',
    "UTF-16": '{"schema": 1}'.encode("utf-16"),
    "a key twice": b'{"schema": 1, "schema": 1}',
    "NaN": b'{"schema": NaN}',
    "Infinity": b'{"schema": -Infinity}',
    "a float that is infinite": b'{"schema": 1e999}',
    "a huge integer": b'{"schema": ' + b"9" * 100_000 + b"}",
    "deep lists": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 500_000,
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_manifest(bundle: Path, name: str) -> None:
    (bundle / "manifest.json").write_bytes(RAW[name])
    with pytest.raises(kv.BundleError) as caught:
        read(bundle)
    assert len(str(caught.value)) < 700


def test_a_manifest_too_large_is_not_read(bundle: Path) -> None:
    os.truncate(bundle / "manifest.json", (4 << 20) + 1)
    with pytest.raises(kv.BundleError, match="expected at most 4194304 bytes"):
        read_bundle(bundle)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_a_manifest_that_is_no_file(bundle: Path, kind: str) -> None:
    path = bundle / "manifest.json"
    path.rename(bundle.parent / "outside.json")
    if kind == "link":
        path.symlink_to(bundle.parent / "outside.json")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(kv.BundleError, match=r"manifest\.json"):
        read_bundle(bundle)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(kv.BundleError, match=r"none: expected a file that can be read, .* got none of that name"):
        read_bundle(tmp_path / "none")


def test_total_size_is_bounded_before_anything_is_allocated(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_CONTENTS", 100)
    monkeypatch.setattr(reading.Bundle, "_load", None)
    assert "at most 100 bytes in all" in str(refused(bundle, "storages.key_cache.nbytes"))


def test_messages_carry_no_terminal_codes(bundle: Path) -> None:
    text = str(refused(edit(bundle, put("operator")("\x1b[2J\u202e")), "operator"))
    assert text.isascii()
    assert text.isprintable()


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["key", "INT4", "nan"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner), max_leaves=8
)


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, part in inner for found in places(part, (*place, key)))]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example(tmp_path_factory.mktemp("calls"))


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_a_manifest_is_read_or_refused(original: Path, data: st.DataObject) -> None:
    document = json.loads((original / "manifest.json").read_text())
    manifest = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(manifest)[1:]))
        target = manifest
        for step in place[:-1]:
            target = target[step]
        if data.draw(st.booleans()) or not isinstance(target, dict):
            target[place[-1]] = data.draw(VALUES)
        else:
            del target[place[-1]]
        if not isinstance(manifest, dict) or len(places(manifest)) < 2:
            break
    text = json.dumps(manifest).encode()
    try:
        found = reading.Bundle(original, decode(parse("x", text)))
        for moment in ("before", "after"):
            contents = found.contents(moment)
            for tensor in found.manifest.tensors.values():
                if tensor.storage in contents:
                    tensor.view(contents[tensor.storage]).tobytes()
    except kv.BundleError as error:
        text = str(error)
    else:
        text = ""
    assert len(text) < 1000


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    try:
        text = parse("x", data).bundle
    except kv.BundleError as error:
        text = str(error)
    assert text.startswith("x")
