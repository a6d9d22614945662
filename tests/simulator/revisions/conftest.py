# SPDX-License-Identifier: Apache-2.0
"""The libraries of another revision of the fused operator, whose folder ``ACLNN_KVCACHE_LIB_DIR`` names.

A process holds one set of libraries: ``test_revision_libraries.py`` runs these files, each in a process of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
import revision_calls as calls

from aclnn_kvcache.native import prototypes


class Sim:
    """The simulator, but for the fused operator's phase 1, which takes what the header beside its library declares."""

    def __init__(self, sim: Any) -> None:
        self._sim = sim

    def __getattr__(self, name: str) -> Any:
        if name != f"{calls.Device.operator}GetWorkspaceSize":
            return getattr(self._sim, name)
        header = "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
        declared = prototypes.read_headers(name for name in prototypes.HEADERS if not name.startswith("aclnnop/"))
        declared.read(header, (calls.FOLDER / "include" / header).read_text(encoding="utf-8"))
        prototype = declared.prototypes[name]
        function = ctypes.CDLL(str(calls.FOLDER / "libopapi.so"))[name]
        function.restype = prototype.result
        function.argtypes = [parameter.ctype for parameter in prototype.parameters]
        return function


@pytest.fixture(scope="session")
def sim(sim: Any) -> Sim:
    return Sim(sim)


@pytest.fixture
def device(sim: Sim) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()
