# SPDX-License-Identifier: Apache-2.0
"""The benchmark runs, and its report is complete. Nothing is asserted of how fast anything is."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aclnn_kvcache.bench.measure import compare, figure, timed
from aclnn_kvcache.native import library

SURROUNDINGS = {
    "backend",
    "soc_name",
    "cann_version",
    "libraries",
    "machine",
    "processor",
    "cores",
    "load",
    "system",
    "python",
    "numpy",
    "ml_dtypes",
    "aclnn_kvcache",
}
FIGURES = {
    "prepared launch, two-phase": "µs above",
    "prepared launch, repeatable": "µs above",
    "ordinary launch": "µs above",
    "ordinary launch against usual ctypes": "speed-up",
    "prepared launch against usual ctypes": "speed-up",
    "scatter oracle against rows": "speed-up",
    "scatter oracle against copies": "ratio",
    "fused oracle against plain NumPy": "speed-up",
    "fused oracle against BLAS": "ratio",
    "scatter kernel against memcpy": "ratio",
    "device time of scatter": "µs",
    "fused kernel against oracle": "speed-up",
    "device time of fused operator": "µs",
    "import": "ms above",
    "growth": "bytes of host memory",
}


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    folder = Path(library.load("simulator").paths[0]).parent
    return subprocess.run(
        [sys.executable, "-m", "aclnn_kvcache", "bench", "--backend", "simulator", *options],
        env={**os.environ, "ACLNN_KVCACHE_LIB_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_report_has_every_figure_with_its_baseline_and_its_surroundings() -> None:
    done = bench("--json", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["command"], document["exit_code"], document["error"]) == (1, "bench", 0, "")
    assert set(document["surroundings"]) == SURROUNDINGS
    assert document["surroundings"]["backend"] == "simulator"
    assert {item["name"]: item["unit"] for item in document["figures"]} == FIGURES
    for item in document["figures"]:
        assert item["subject"]
        assert item["baseline"]
        assert item["goal"]
        assert math.isfinite(item["value"])
        if item["unit"] in ("ratio", "speed-up", "µs above", "ms above"):
            for sample in (item["subject_seconds"], item["baseline_seconds"]):
                assert 0 < sample["lowest"] <= sample["median"]


def test_parts_can_be_chosen_and_the_text_names_the_backend() -> None:
    done = bench("--only", "import", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("backend simulator, Ascend950PR_9599, CANN 9.1.0\n")
    assert "import " in done.stdout
    assert "launch" not in done.stdout


@pytest.mark.parametrize("options", [("--repeats", "1"), ("--only", "nothing")])
def test_wrong_options(options: tuple[str, ...]) -> None:
    assert bench(*options).returncode == 2


def test_figures_are_made_of_medians() -> None:
    times = iter([9, 1, 9, 1, 2, 4, 3, 1, 100, 1])  # one uncounted run of each, then (9, 1), (2, 4), (3, 1), (100, 1)
    subject, baseline = compare(lambda: next(times), lambda: next(times), 4)
    assert (subject.median, subject.lowest) == (6, 2)
    assert (baseline.median, baseline.lowest) == (1, 1)
    values = {}
    for unit in ("ratio", "speed-up", "µs above"):
        values[unit] = figure("x", ("s", "b", "g"), unit, lambda: 3.0, lambda: 2.0, 3).value
    assert values == {"ratio": 1.5, "speed-up": 2 / 3, "µs above": 1e6}


def test_work_is_timed_by_the_clock_and_divided() -> None:
    calls: list[int] = []
    seconds = timed(lambda: calls.append(1), 5)()
    assert len(calls) == 5
    assert 0 <= seconds < 60
