# SPDX-License-Identifier: Apache-2.0
"""A small bundle made by hand, for what needs no library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aclnn_kvcache import oracle
from aclnn_kvcache.bundle.manifest import Described, Manifest, Prototype, Storage, Target, Tensor
from aclnn_kvcache.bundle.outcome import SUCCESS
from aclnn_kvcache.bundle.reading import views
from aclnn_kvcache.bundle.writing import write_bundle

SCATTER = "scatter_pa_kv_cache_with_k_scale"


def scatter_call(place: str = "host") -> Described:
    """T=3, N=1, B=2, S=4, D=8; K and V rows take turns in one storage."""
    cache = ((2, 1, 4, 8), "FLOAT8_E4M3FN", (64, 64, 16, 1))
    tensors: dict[str, Tensor | None] = {
        "key": Tensor((3, 1, 8), "FLOAT8_E4M3FN", (8, 8, 1), 0, "key"),
        "value": Tensor((3, 1, 8), "FLOAT8_E4M3FN", (8, 8, 1), 0, "value"),
        "key_cache": Tensor(*cache, 0, "key_cache"),
        "value_cache": Tensor(*cache, 8, "key_cache"),
        "slot_mapping": Tensor((3,), "INT32", (1,), 0, "slot_mapping"),
        "key_scale": Tensor((3, 1), "FLOAT", (1, 1), 0, "key_scale"),
        "key_scale_cache": Tensor((2, 1, 4, 1), "FLOAT", (4, 4, 1, 1), 0, "key_scale_cache"),
    }
    sizes = {"key": 24, "value": 24, "key_cache": 128, "slot_mapping": 12, "key_scale": 12, "key_scale_cache": 32}
    storages = {name: Storage(place, nbytes) for name, nbytes in sizes.items()}
    return Described(SCATTER, tensors, {"cache_layout": None, "padding": "error"}, storages)


def example(folder: Path, place: str = "host") -> Path:
    """Writes the call with random bytes and the oracle's results."""
    call, rng = scatter_call(place), np.random.default_rng(0)
    before = {name: rng.integers(0, 256, storage.nbytes, np.uint8) for name, storage in call.storages.items()}
    before["slot_mapping"][...] = np.array([0, 6, 3], np.int32).view(np.uint8)
    after = {name: before[name].copy() for name in ("key_cache", "key_scale_cache")}
    results = oracle.scatter_pa_kv_cache_with_k_scale(**views(call.arguments, before))
    for name in ("key_cache", "value_cache", "key_scale_cache"):
        tensor = call.arguments[name]
        assert tensor is not None
        tensor.view(after[str(tensor.storage)])[...] = getattr(results, name)
    manifest = Manifest(
        call,
        {},
        "",
        SUCCESS,
        "2026-01-02T03:04:05.000006Z",
        {"aclnn_kvcache": "0.1.0"},
        Target("simulator", 0, "Ascend950PR_9599", "9.1.0", ("lib/libascendcl.so",)),
        Prototype(None, "aclnnStatus f(void)", "a header"),
    )
    return write_bundle(folder, manifest, before, after)


def edit(bundle: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Changes the manifest in place."""
    path = bundle / "manifest.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return bundle
