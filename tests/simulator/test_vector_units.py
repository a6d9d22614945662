# SPDX-License-Identifier: Apache-2.0
"""The fused operator's arithmetic gives the bytes of plain loops, whatever vector unit it is compiled for."""

from __future__ import annotations

import platform
from pathlib import Path

import compiled

FLAGS = {"baseline": []}
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS |= {"avx2": ["-mavx2"], "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]}


def test_every_unit_agrees_with_plain_loops(tmp_path: Path) -> None:
    opapi = compiled.SIMULATOR / "opapi"
    objects = []
    for unit, flags in FLAGS.items():
        objects.append(tmp_path / f"{unit}.o")
        compiled.compile_c(*flags, f"-DVECTOR_UNIT={unit}", "-c", opapi / "rows" / "arithmetic.c", "-o", objects[-1])
    program = tmp_path / "rows"
    compiled.compile_c(compiled.HERE / "rows.c", opapi / "qkv_rows.c", *objects, "-lm", "-o", program)
    done = compiled.run(program)
    agreed = done.stdout.decode().split("\n")
    assert done.returncode == 0, done.stdout.decode()
    assert agreed[0] == "baseline"
    assert set(agreed) <= {*FLAGS, ""}
