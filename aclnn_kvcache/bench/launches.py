# SPDX-License-Identifier: Apache-2.0
"""What launches cost the host. The work itself is small and waited for outside the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from aclnn_kvcache.bench.loops import Loops, compiled, usual_ctypes, usual_handles
from aclnn_kvcache.bench.measure import Figure, Timed, figure, missing, timed
from aclnn_kvcache.session import Session

BATCH = 200
"""Launches in a row, before they are waited for."""
MANY = 100_000

WORKSPACE = 1 << 25

PREPARED = (
    "a prepared launch",
    "the C calls that it makes, in a loop of C",
    "at most 1.5 µs above",
)
ORDINARY = (
    "an ordinary launch on seven device arrays",
    "the same C calls with descriptors made and destroyed, in a loop of C",
    "at most 15 µs above",
)
ABOVE = "µs above"
USUAL = "a launch written with ctypes in the usual way"


def arrays(session: Session) -> dict[str, Any]:
    """A decode step of four tokens with two heads."""
    fp8 = ml_dtypes.float8_e4m3fn
    host = {
        "key": np.ones((4, 2, 128), fp8),
        "value": np.ones((4, 2, 128), fp8),
        "key_cache": np.zeros((8, 2, 16, 128), fp8),
        "value_cache": np.zeros((8, 2, 16, 128), fp8),
        "slot_mapping": np.array([0, 5, 15, 33], np.int32),
        "key_scale": np.ones((4, 2), np.float32),
        "key_scale_cache": np.zeros((8, 2, 16, 1), np.float32),
    }
    return {name: session.array(array) for name, array in host.items()}


def launch_figures(session: Session, repeats: int) -> Iterator[Figure]:
    device = arrays(session)
    padded = {**device, "key_cache": session.empty((8, 2, 16, 256), ml_dtypes.float8_e4m3fn)[..., :128]}
    workspace = session.empty(WORKSPACE, np.uint8)
    stream = session.stream
    with (
        session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan,
        session.prepare_scatter_pa_kv_cache_with_k_scale(**padded) as repeatable,
    ):

        def ordinary() -> None:
            session.scatter_pa_kv_cache_with_k_scale(**device)

        names = "prepared launch, two-phase", "prepared launch, repeatable", "ordinary launch"
        subjects: tuple[Callable[[], object], ...] = (plan, repeatable, ordinary)
        rows = list(zip(names, (PREPARED, PREPARED, ORDINARY), subjects, strict=True))
        code = compiled()
        if code is None:
            yield from (
                missing(name, texts, ABOVE, "there is no C compiler for the baseline") for name, texts, _ in rows
            )
        else:
            loops = Loops(code, session.library, list(device.values()), workspace, stream.handle)
            in_c = (
                lambda: loops.two_phase(plan.tensors, BATCH),
                lambda: loops.repeatable(repeatable.executor or 0, BATCH),
                lambda: loops.with_descriptors(BATCH),
            )
            for (name, texts, subject), baseline in zip(rows, in_c, strict=True):
                yield figure(name, texts, ABOVE, _batch(session, subject), _c_batch(session, baseline), repeats)
        handles = usual_handles(session.library)

        def usual() -> None:
            usual_ctypes(handles, list(device.values()), workspace, stream.handle or 0)

        for name, subject, goal in (
            ("ordinary launch against usual ctypes", ordinary, "4 times faster"),
            ("prepared launch against usual ctypes", repeatable, "25 times faster"),
        ):
            texts = (name.partition(" against")[0], USUAL, goal)
            yield figure(name, texts, "speed-up", _batch(session, subject), _batch(session, usual), repeats)


def growth(session: Session, launches: int = MANY) -> Figure:
    """Growth of host and device memory over many prepared launches."""
    texts = (f"{launches} prepared launches", "none before", "no growth")
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**arrays(session)) as plan:
        for _ in range(1000):
            plan()
        session.stream.synchronize()
        before = _resident(), session.device_memory[0]
        for start in range(0, launches, BATCH):
            for _ in range(min(BATCH, launches - start)):
                plan()
            session.stream.synchronize()
        after = _resident(), session.device_memory[0]
    host, on_device = after[0] - before[0], before[1] - after[1]
    return Figure("growth", *texts, "bytes of host memory", float(host), note=f"{on_device} bytes of device memory")


def _batch(session: Session, work: Callable[[], object]) -> Timed:
    run = timed(work, BATCH)

    def measured() -> float:
        with session.bound():
            seconds = run()
        session.stream.synchronize()
        return seconds

    return measured


def _c_batch(session: Session, work: Callable[[], object]) -> Timed:
    run = timed(work)

    def measured() -> float:
        with session.bound():
            seconds = run() / BATCH
        session.stream.synchronize()
        return seconds

    return measured


def _resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096
