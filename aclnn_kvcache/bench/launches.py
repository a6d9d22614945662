# SPDX-License-Identifier: Apache-2.0
"""What launches cost the host. The work itself is small and waited for outside the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from aclnn_kvcache.bench.loops import Loops, compiled, usual_ctypes, usual_handles
from aclnn_kvcache.bench.measure import Figure, Texts, Timed, figure, missing, timed
from aclnn_kvcache.runtime.descriptor import KEPT
from aclnn_kvcache.session import Session

BATCH = 200
"""Launches in a row, before they are waited for."""
MANY = 100_000

WORKSPACE = 1 << 25

PREPARED = Texts("a prepared launch", "the C calls that it makes, in a loop of C", 1.5)
ORDINARY = Texts(
    "an ordinary launch on seven device arrays, in memory that repeats",
    "the same C calls with descriptors made and destroyed, in a loop of C",
    15,
)
IN_NEW_MEMORY = ORDINARY._replace(
    subject="an ordinary launch on seven device arrays, one of them, the slots, in new memory each time", limit=None
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

        rows = (
            ("prepared launch, two-phase", PREPARED, _batch(session, plan)),
            ("prepared launch, repeatable", PREPARED, _batch(session, repeatable)),
            ("ordinary launch", ORDINARY, _batch(session, ordinary)),
            ("ordinary launch, slot array in new memory", IN_NEW_MEMORY, _batch_in_new_memory(session, device)),
        )
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
                lambda: loops.with_descriptors(BATCH),
            )
            for (name, texts, subject), loop in zip(rows, in_c, strict=True):
                yield figure(name, texts, ABOVE, subject, _c_batch(session, loop), repeats)
        handles = usual_handles(session.library)

        def usual() -> None:
            usual_ctypes(handles, list(device.values()), workspace, stream.handle or 0)

        against: tuple[tuple[str, Callable[[], object], Texts], ...] = (
            ("ordinary launch", ordinary, Texts(ORDINARY.subject, USUAL, 4)),
            ("prepared launch", repeatable, Texts(f"a prepared launch, {repeatable.mode}", USUAL, 25)),
        )
        for name, call, texts in against:
            subject, baseline = _batch(session, call), _batch(session, usual)
            yield figure(f"{name} against usual ctypes", texts, "speed-up", subject, baseline, repeats)


def growth(session: Session, launches: int = MANY) -> Figure:
    """Growth of host and device memory over many prepared launches."""
    texts = Texts(f"{launches:,} prepared launches", "the memory in use before them", 1)
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
    note = f"{host} bytes of host memory and {on_device} of device memory in all"
    return Figure("growth", *texts, "bytes a launch", (host + on_device) / launches, note=note)


def _batch(session: Session, work: Callable[[], object]) -> Timed:
    run = timed(work, BATCH)

    def measured() -> float:
        with session.bound():
            seconds = run()
        session.stream.synchronize()
        return seconds

    return measured


def _batch_in_new_memory(session: Session, arrays: dict[str, Any]) -> Timed:
    """Each launch has a slot array of its own, made outside the time."""
    slots = arrays["slot_mapping"].numpy()
    # Memory that is known from a launch before is not new, so it stays in use for longer than a stream remembers it.
    alive: deque[list[Any]] = deque(maxlen=KEPT // BATCH + 2)

    def measured() -> float:
        alive.append([session.array(slots) for _ in range(BATCH)])
        fresh = iter(alive[-1])
        launch = _batch(
            session, lambda: session.scatter_pa_kv_cache_with_k_scale(**{**arrays, "slot_mapping": next(fresh)})
        )
        return launch()

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
