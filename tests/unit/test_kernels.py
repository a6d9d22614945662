# SPDX-License-Identifier: Apache-2.0
"""Whether an operator's kernels are installed: on trees of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aclnn_kvcache.native.kernels import KernelPackage, kernel_package

API = "aclnnScatterPaKvCacheWithKScale"
NAME = "scatter_pa_kv_cache_with_k_scale"
TBE = "op_impl/ai_core/tbe/kernel"


@pytest.fixture
def library(tmp_path: Path) -> str:
    path = tmp_path / "cann/lib64/libopapi_transformer.so"
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path)


def write(path: Path, data: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "place",
    [
        f"ascend950/{NAME}",
        f"ascend950/ops_transformer/{NAME}",
        "ascend950/ops_transformer/ScatterPaKvCacheWithKScale_0123.json",
        f"config/ascend950/{NAME}.json",
        f"config/ascend950/ops_transformer/{NAME}.json",
        f"ascend950pr/{NAME}",
    ],
)
def test_kernels_in_every_layout(tmp_path, library, place):
    kernels = tmp_path / "cann/opp/built-in" / TBE
    path = write(kernels / place / "kernel.o").parent if place.endswith(NAME) else write(kernels / place)
    assert kernel_package(API, library, {}) == KernelPackage(True, str(path), (f"{kernels}: found",))


def test_a_list_of_kernels_that_holds_the_operator(tmp_path, library):
    config = tmp_path / "cann/opp/built-in" / TBE / "config/ascend950/binary_info_config.json"
    write(config, b'{"ScatterPaKvCache": {}}')
    assert kernel_package(API, library, {}).found is False
    write(config, b'{"ScatterPaKvCache": {}, "ScatterPaKvCacheWithKScale": {}}')
    assert kernel_package(API, library, {})[:2] == (True, str(config))


@pytest.mark.parametrize(
    "place",
    [
        f"ascend910b/{NAME}",
        f"config/ascend910_93/{NAME}.json",
        "ascend950/scatter_pa_kv_cache",
        f"tools/{NAME}",
    ],
)
def test_kernels_of_another_product_or_operator(tmp_path, library, place):
    kernels = tmp_path / "cann/opp/built-in" / TBE
    write(kernels / place / "kernel.o")
    searched = (f"{kernels}: nothing of ScatterPaKvCacheWithKScale for Ascend950",)
    assert kernel_package(API, library, {}) == KernelPackage(False, "", searched)


def test_the_product_that_the_device_names(tmp_path, library):
    write(tmp_path / "cann/opp/built-in" / TBE / f"ascend950/{NAME}/kernel.o")
    assert kernel_package(API, library, {}, "Ascend950PR_9599").found is True
    assert kernel_package(API, library, {}, "Ascend910B2").found is False


def test_an_operator_package_without_kernels(tmp_path, library):
    (tmp_path / "cann/opp/built-in").mkdir(parents=True)
    kernels = tmp_path / "cann/opp/built-in" / TBE
    assert kernel_package(API, library, {}) == KernelPackage(False, "", (f"{kernels}: no such folder",))


def test_no_operator_package_is_known(tmp_path, library):
    built_in = tmp_path / "cann/opp/built-in"
    found = kernel_package(API, library, {})
    assert found == KernelPackage(None, "", (f"{built_in}: no such folder",))
    assert str(found) == f"{built_in}: no such folder"
    assert kernel_package(API, "libopapi.so", {}) == KernelPackage(None, "", ())
    assert str(kernel_package(API, "libopapi.so", {})) == "no operator package is known here"


def test_what_is_unreadable_cannot_be_told(tmp_path, library):
    kernels = tmp_path / "cann/opp/built-in" / TBE
    (kernels / "config/ascend950/binary_info_config.json").mkdir(parents=True)
    found = kernel_package(API, library, {})
    assert found.found is None
    assert found.searched[0].endswith("binary_info_config.json: unreadable: Is a directory")


def test_a_folder_that_cannot_be_listed(tmp_path, library, monkeypatch):
    kernels = tmp_path / "cann/opp/built-in" / TBE
    (kernels / "ascend950").mkdir(parents=True)
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("ascend950"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = kernel_package(API, library, {})
    assert (found.found, found.searched[0]) == (None, f"{kernels}/ascend950: unreadable: Permission denied")


def test_custom_packages_come_first_and_the_variables_count(tmp_path, library):
    kernels = tmp_path / "cann/opp/built-in" / TBE
    write(kernels / f"ascend950/{NAME}/kernel.o")
    vendor = tmp_path / "cann/opp/vendors/own"
    write(tmp_path / "cann/opp/vendors/config.ini", b"load_priority=own\n")
    own = write(vendor / TBE / f"ascend950/{NAME}/kernel.o").parent
    environ = {"ASCEND_OPP_PATH": str(tmp_path / "cann/opp"), "ASCEND_CUSTOM_OPP_PATH": f"{tmp_path}/absent:relative"}
    assert kernel_package(API, library, environ) == KernelPackage(
        True, str(own), (f"{tmp_path}/absent: no such folder", f"{vendor / TBE}: found")
    )
    latest = write(tmp_path / "home/opp_latest/built-in" / TBE / f"ascend950/{NAME}/kernel.o").parent
    assert kernel_package(API, "libopapi.so", {"ASCEND_HOME_PATH": str(tmp_path / "home")})[:2] == (True, str(latest))
