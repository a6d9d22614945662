# SPDX-License-Identifier: Apache-2.0
"""Random damage to bundles: a reader says BundleError and nothing else, and what it still reads can be checked, printed
as a program and called again, or is refused by name."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import example

import aclnn_kvcache as kv
from aclnn_kvcache.bundle.reading import read_bundle
from aclnn_kvcache.replay.checking import check_file
from aclnn_kvcache.replay.replay import replay
from aclnn_kvcache.replay.repro import program

Rng = np.random.Generator
BUNDLES = 400
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        1,
        -1,
        2,
        3,
        8,
        64,
        2**31,
        2**62,
        -(2**63),
        10**30,
        0.5,
        1e400,
        "nan",
        "",
        "key",
        "../key",
        "BF16",
    ),
    *("FLOAT8_E5M2", "INT64", "FRACTAL_NZ", "host", "device", "value_cache", [], [0], [3, 1, 8], [1, 1, 1], {}),
)


def flip(rng: Rng, path: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 4))):
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def cut(rng: Rng, path: Path) -> None:
    path.write_bytes(path.read_bytes()[: int(rng.integers(path.stat().st_size))])


def insert(rng: Rng, path: Path) -> None:
    data, at = path.read_bytes(), int(rng.integers(path.stat().st_size))
    path.write_bytes(data[:at] + data[: int(rng.integers(1, 40))] + data[at:])


def replace(rng: Rng, path: Path) -> None:
    path.unlink()
    kind = int(rng.integers(5))
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        path.symlink_to(rng.choice(["/dev/zero", "/etc/passwd", str(path), "manifest.json"]))
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        path.write_bytes(b"")


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, part in inner for found in places(part, (*place, key)))]


def edit(rng: Rng, path: Path) -> None:
    """Some values of the manifest become others."""
    document = json.loads(path.read_text())
    for _ in range(int(rng.integers(1, 4))):
        found = places(document)[1:]
        if not found:
            break
        place = found[int(rng.integers(len(found)))]
        target = document
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = VALUES[int(rng.integers(len(VALUES)))]
    path.write_text(json.dumps(document))


def new_values(rng: Rng, path: Path) -> None:
    """Other bytes in one content, with the checksum that fits."""
    document = json.loads(path.read_text())
    contents = [content for storage in document["storages"].values() for content in storage.values()]
    content = rng.choice(np.array([content for content in contents if isinstance(content, dict)], object))
    file = path.parent / content["file"]
    file.write_bytes(rng.integers(0, 256, file.stat().st_size, np.uint8).tobytes())
    content["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    path.write_text(json.dumps(document))


MANIFEST: tuple[Callable[[Rng, Path], None], ...] = (flip, cut, insert, replace, edit, edit, edit, edit, new_values)


def damage(rng: Rng, folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.suffix == ".bin")
    if rng.random() < 0.2:
        MANIFEST[int(rng.integers(4))](rng, files[int(rng.integers(len(files)))])
    else:
        MANIFEST[int(rng.integers(len(MANIFEST)))](rng, folder / "manifest.json")


def use(folder: Path, session: kv.Session) -> str:
    """How far it gets."""
    try:
        bundle = read_bundle(folder)
        bundle.contents("before")
        bundle.contents("after")
    except kv.BundleError as error:
        return "refused" if str(folder) in str(error) else "refused without a place"
    check_file(folder)
    for language in ("c", "python"):
        with suppress(kv.BundleError):  # of an outcome that did not come from CANN there is no program
            assert program(bundle, language)
    try:
        replay(bundle, session)
    except kv.KvCacheError:
        return "read"
    return "replayed"


@pytest.mark.parametrize("place", ["host", "device"])
def test_damaged_bundles(session: kv.Session, tmp_path: Path, place: str) -> None:
    original = example(tmp_path / "calls", place)
    ends: Counter[str] = Counter()
    for number in range(BUNDLES):
        folder = tmp_path / "damaged"
        shutil.copytree(original, folder)
        damage(np.random.default_rng([number, len(place)]), folder)
        try:
            ends[use(folder, session)] += 1
        except Exception as error:
            raise AssertionError(f"bundle {number}") from error
        shutil.rmtree(folder)
    session.stream.synchronize()
    assert set(ends) <= {"refused", "read", "replayed"}
    assert ends["refused"] > BUNDLES / 3
    assert ends["replayed"] > BUNDLES / 20
