# SPDX-License-Identifier: Apache-2.0
"""The runtime's functions without the ctypes noise: out-parameters become results, addresses stay numbers."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

H2H, H2D, D2H, D2D, DEFAULT, H2BUF2D = range(6)
PINNED_BYTES = 4096
KERNEL_FAULT = 507035


class Runtime:
    """``rt.code("aclrtFree", p)`` is the status; ``rt.out("aclrtMalloc", ctypes.c_void_p, 32, 0)`` what was written."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim

    def code(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.sim, name)(*arguments))

    def ok(self, name: str, *arguments: Any) -> None:
        assert self.code(name, *arguments) == 0, (name, self.message())

    def out(self, name: str, kind: Any, *arguments: Any, first: bool = True) -> Any:
        """The value that a function wrote; its out-parameter is the first or the last."""
        value = kind()
        reference = ctypes.byref(value)
        self.ok(name, *((reference, *arguments) if first else (*arguments, reference)))
        return value.value

    def message(self) -> str | None:
        text = self.sim.aclGetRecentErrMsg()
        return None if text is None else text.decode()

    def malloc(self, size: int) -> int:
        return int(self.out("aclrtMalloc", ctypes.c_void_p, size, 0))

    def malloc_host(self, size: int = PINNED_BYTES) -> int:
        return int(self.out("aclrtMallocHost", ctypes.c_void_p, size))

    def stream(self) -> int:
        return int(self.out("aclrtCreateStream", ctypes.c_void_p))

    def event(self, name: str = "aclrtCreateEvent", *flags: int) -> int:
        return int(self.out(name, ctypes.c_void_p, *flags))

    def write(self, address: int, data: bytes) -> None:
        self.ok("aclrtMemcpy", address, len(data), data, len(data), H2D)

    def read(self, address: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        self.ok("aclrtMemcpy", data, size, address, size, D2H)
        return data.raw

    def drop_everything(self) -> None:
        """Ends device 0 with all that is on it; that a test leaves it to this is no leak."""
        self.sim.aclsim_release_streams()
        self.sim.aclsim_set_checks(b"mem,init,race,sync,api")
        self.ok("aclrtResetDeviceForce", 0)

    def counter(self, name: str) -> int:
        return int(self.sim.counter(name))


class _Task(ctypes.Structure):
    _RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    _RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("run", _RUN),
        ("release", _RELEASE),
        ("arg", ctypes.c_void_p),
        ("uses", ctypes.c_void_p),
        ("use_count", ctypes.c_size_t),
    )


class Kernels:
    """Launches Python functions as kernels, by the door that the operators use."""

    def __init__(self, sim: Any) -> None:
        assert sim.aclsim_version() is not None  # so the core is loaded, from wherever it lies
        core = ctypes.CDLL("libaclsim_core.so")
        self._enqueue = core.sim_stream_enqueue
        self._enqueue.argtypes = [ctypes.c_void_p, _Task, ctypes.c_int]
        self._enqueue.restype = ctypes.c_int
        self._kept: list[_Task] = []
        self.released = 0

    def launch(self, stream: int | None, run: Any) -> int:
        def released(_: Any) -> None:
            self.released += 1

        task = _Task(b"test_kernel", _Task._RUN(run), _Task._RELEASE(released))
        self._kept.append(task)
        return int(self._enqueue(stream, task, 1))

    def fail(self, stream: int | None, code: int = KERNEL_FAULT) -> int:
        return self.launch(stream, lambda _: code)


def run_alone(script: str, init: bool | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, with ``rt`` and ``sim`` in it. It begins with ACL initialised, unless it
    sees to that itself.
    """
    head = """
        import ctypes, os, sys, threading, time
        from runtime_calls import *
        from runtime_calls import Runtime
        from conftest import Sim
        sim = Sim()
        rt = Runtime(sim)
    """
    if init is None:
        init = not re.search("aclInit|Session", script)
    first = "sim.aclInit(None)\n" if init else ""
    code = textwrap.dedent(head) + first + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parent,  # which makes it the first place to import from, and not the checkout
        env={**os.environ, **environ},
    )


def succeed_alone(script: str, init: bool | None = None, reports: Sequence[str] = (), **environ: str) -> str:
    """Like run_alone; must end well and say nothing on standard error but these reports. The result is its output."""
    done = run_alone(script, init, **environ)
    found = re.findall(r"^aclsim: (\w+): (\w+) in .*\n", done.stderr, re.M)
    rest = re.sub(r"^aclsim: (\w+): (\w+) in .*\n", "", done.stderr, flags=re.M)
    assert (done.returncode, rest, [":".join(pair) for pair in found]) == (0, "", list(reports))
    return done.stdout.strip()
