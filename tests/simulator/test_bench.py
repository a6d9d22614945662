# SPDX-License-Identifier: Apache-2.0
"""The benchmark runs, and its report is complete. Nothing is asserted of how fast anything is."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.bench import kernels, launches
from aclnn_kvcache.bench.measure import Figure, Texts, compare, figure, timed
from aclnn_kvcache.bench.report import line
from aclnn_kvcache.native import library

SURROUNDINGS = {
    "backend",
    "soc_name",
    "cann_version",
    "revision",
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
    "ordinary launch, slot array in new memory": "µs above",
    "ordinary launch against usual ctypes": "speed-up",
    "prepared launch against usual ctypes": "speed-up",
    "scatter oracle against rows": "speed-up",
    "scatter oracle against copies": "ratio",
    "fused oracle against plain NumPy": "speed-up",
    "fused oracle against BLAS": "ratio",
    "scatter kernel against memcpy": "ratio",
    "fused kernel against oracle": "speed-up",
    "import": "ms above",
    "growth": "bytes a launch",
}


def bench(*options: str, folder: str = "") -> subprocess.CompletedProcess[str]:
    folder = folder or str(Path(library.load("simulator").paths[0]).parent)
    return subprocess.run(
        [sys.executable, "-m", "aclnn_kvcache", "bench", "--backend", "simulator", *options],
        env={**os.environ, "ACLNN_KVCACHE_LIB_DIR": folder},
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
        assert type(item["met"]) is (bool if item["limit"] is not None else type(None))
        assert type(item["noisy"]) is bool
        assert math.isfinite(item["value"])
        if item["unit"] in ("ratio", "speed-up", "µs above", "ms above"):
            for sample in (item["subject_seconds"], item["baseline_seconds"]):
                assert 0 < sample["lowest"] <= sample["median"]
    by_name = {item["name"]: item for item in document["figures"]}
    assert by_name["ordinary launch"]["subject"].endswith("in memory that repeats")
    assert by_name["ordinary launch, slot array in new memory"]["goal"] == "none"
    assert by_name["prepared launch against usual ctypes"]["subject"] == "a prepared launch, repeatable"
    assert by_name["growth"]["subject"] == "10,000 prepared launches"
    rows, copies = by_name["scatter oracle against rows"], by_name["scatter oracle against copies"]
    bound = rows["baseline_seconds"]["median"] / copies["baseline_seconds"]["median"]
    assert f" {bound:.3g} times faster than the rows" in rows["note"]


def test_kernels_are_measured_in_every_scene_of_the_revision() -> None:
    done = bench("--json", "--only", "kernel", "--repeats", "2", "--qkv-abi", "C")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["surroundings"]["revision"] == "C"
    names = [item["name"] for item in document["figures"]]
    assert names == [
        "scatter kernel against memcpy",
        "fused kernel against oracle",
        "fused kernel in M-RoPE against oracle",
        "fused kernel in Mx against oracle",
    ]
    assert all(math.isfinite(item["value"]) for item in document["figures"])


def test_parts_can_be_chosen_and_the_text_names_the_backend() -> None:
    done = bench("--only", "growth", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("backend simulator, Ascend950PR_9599, CANN 9.1.0, revision A of the fused operator\n")
    assert "10,000 prepared launches; against the memory in use before them" in done.stdout
    assert "goal: at most 1 byte a launch, " in done.stdout
    assert "oracle" not in done.stdout


def test_oracles_and_import_need_no_library() -> None:
    done = bench("--only", "import", "--only", "oracle", "--repeats", "2", "--json", folder="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("no backend in use: these figures need none\n")
    document = json.loads(done.stdout)
    assert set(document["surroundings"]) == SURROUNDINGS
    assert (document["surroundings"]["backend"], document["surroundings"]["libraries"]) == (None, [])
    assert [item["name"] for item in document["figures"]] == [
        "import",
        *[name for name in FIGURES if "oracle ag" in name],
    ]
    assert bench("--only", "growth", "--repeats", "2", folder="/nonexistent").returncode == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--repeats", "1"), "a whole number from 2 to 10000, got '1'"),
        (("--repeats", "10001"), "a whole number from 2 to 10000, got '10001'"),
        (
            ("--repeats", "x"),
            "--repeats: expected the runs of each measurement, a whole number from 2 to 10000, got 'x'",
        ),
        (("--only", "nothing"), "invalid choice: 'nothing'"),
    ],
)
def test_wrong_options(options: tuple[str, ...], text: str) -> None:
    done = bench(*options)
    assert done.returncode == 2
    assert text in done.stderr


def test_the_device_has_a_time_of_its_own_on_cann_alone(session: kv.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv.Session, "backend", "cann")
    work = session.array(np.zeros(4, np.float32))
    [item] = kernels._device_time(session, "nothing", lambda: work.numpy())
    assert (item.name, item.unit, item.goal, item.met) == ("device time of nothing", "µs", "none", None)
    assert line(item).splitlines()[1].strip() == "nothing, on the device, by events around one launch"
    monkeypatch.undo()
    assert list(kernels._device_time(session, "nothing", lambda: work.numpy())) == []


@pytest.mark.parametrize(
    ("unit", "limit", "value", "met", "goal"),
    [
        ("ratio", 2, 2.0, True, "at most 2 times its time"),
        ("ratio", 2, 2.1, False, "at most 2 times its time"),
        ("speed-up", 300, 300.0, True, "at least 300 times faster"),
        ("speed-up", 300, 299.0, False, "at least 300 times faster"),
        ("µs above", 1.5, 1.4, True, "at most 1.5 µs above"),
        ("ms above", 25, 26.0, False, "at most 25 ms above"),
        ("µs above", None, 1.0, None, "none"),
        ("µs above", 1.5, None, None, "at most 1.5 µs above"),
    ],
)
def test_whether_a_goal_is_met(
    unit: str, limit: float | None, value: float | None, met: bool | None, goal: str
) -> None:
    item = Figure("x", "s", "b", limit, unit, value)
    assert (item.met, item.goal) == (met, goal)
    verdict = {True: ", met", False: ", not met", None: ""}[met]
    assert line(item).splitlines()[0].endswith(f"goal: {goal}{verdict}")


def test_a_figure_that_spreads_more_than_it_measures_is_noisy() -> None:
    def measured(*subject: float) -> Figure:
        times = iter([0.0, *subject])
        return figure("x", Texts("s", "b", 1), "ratio", lambda: next(times), lambda: 2.0, len(subject))

    assert not measured(10, 10.1, 10.2).noisy
    assert measured(2, 3, 9).noisy
    assert line(measured(2, 3, 9)).splitlines()[0].endswith(", not met; noisy")


def test_slot_arrays_in_new_memory_are_new(session: kv.Session) -> None:
    """Made outside the time, and at no address that a stream may know."""
    arrays, seen = launches.arrays(session), []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(session, name)

        def scatter_pa_kv_cache_with_k_scale(self, **given: kv.DeviceArray) -> None:
            seen.append(given["slot_mapping"].ptr)

    measured = launches._batch_in_new_memory(cast("kv.Session", Watched()), arrays)
    for _ in range(5):
        assert 0 <= measured() < 60
    assert len(set(seen)) == len(seen) == 5 * launches.BATCH


def test_figures_are_made_of_medians() -> None:
    times = iter([9, 1, 9, 1, 2, 4, 3, 1, 100, 1])  # one uncounted run of each, then (9, 1), (2, 4), (3, 1), (100, 1)
    subject, baseline = compare(lambda: next(times), lambda: next(times), 4)
    assert (subject.median, subject.lowest) == (6, 2)
    assert (baseline.median, baseline.lowest) == (1, 1)
    values = {}
    for unit in ("ratio", "speed-up", "µs above"):
        values[unit] = figure("x", Texts("s", "b"), unit, lambda: 3.0, lambda: 2.0, 3).value
    assert values == {"ratio": 1.5, "speed-up": 2 / 3, "µs above": 1e6}


def test_work_is_timed_by_the_clock_and_divided() -> None:
    calls: list[int] = []
    seconds = timed(lambda: calls.append(1), 5)()
    assert len(calls) == 5
    assert 0 <= seconds < 60
