# SPDX-License-Identifier: Apache-2.0
"""Streams whose work runs in an order that the test states, and that the checks know nothing of."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from runtime_calls import D2D, Kernels, Runtime

SIZE = 256


class Streams:
    """Two streams and two buffers."""

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt
        self.kernels = Kernels(rt.sim)
        self.one, self.two = rt.stream(), rt.stream()
        self.ids = [rt.out("aclrtStreamGetId", ctypes.c_int32, s, first=False) for s in (self.one, self.two)]
        self.memory = rt.malloc(SIZE)
        self.other = rt.malloc(SIZE)

    def fill(self, stream: int | None, offset: int = 0, size: int = SIZE, at: int | None = None) -> None:
        self.rt.ok("aclrtMemsetAsync", (at or self.memory) + offset, size, 1, size, stream)

    def copy(self, stream: int, to: int, origin: int, size: int = SIZE) -> None:
        self.rt.ok("aclrtMemcpyAsync", to, size, origin, size, D2D, stream)

    def block(self, stream: int) -> Callable[[], None]:
        """Holds the stream until the returned function is called; the checks see nothing of it."""
        go = threading.Event()
        assert self.kernels.launch(stream, lambda _: 0 if go.wait(60) else 1) == 0
        return go.set

    def let_pass(self, stream: int) -> None:
        """Waits until the stream has come here; the checks see nothing of it."""
        passed = threading.Event()
        assert self.kernels.launch(stream, lambda _: passed.set() or 0) == 0
        assert passed.wait(60)

    def run(self, first: str, on_one: Callable[[int], None], on_two: Callable[[int], None]) -> None:
        """Queues work on stream one and then on two, and has that of ``first`` run first."""
        if first == "one":
            on_one(self.one)
            self.let_pass(self.one)
            on_two(self.two)
            self.let_pass(self.two)
        else:
            go = self.block(self.one)
            on_one(self.one)
            on_two(self.two)
            self.let_pass(self.two)
            go()
            self.let_pass(self.one)

    def event(self) -> int:
        return self.rt.event("aclrtCreateEventExWithFlag", 0x9)

    def synchronize(self) -> None:
        self.rt.ok("aclrtSynchronizeDevice")
