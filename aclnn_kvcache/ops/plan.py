# SPDX-License-Identifier: Apache-2.0
"""Prepared calls: checked once, launched many times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from aclnn_kvcache.errors import ArgumentError, ClosedError
from aclnn_kvcache.launch import PreparedLaunch
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    HOST,
    Array,
    Arrays,
    Checked,
    c_arguments,
    check_data,
    place_of_array,
    raise_findings,
    spec_of,
)
from aclnn_kvcache.ops.failure import Failing
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import ALIGNMENT, DeviceArray, upload
from aclnn_kvcache.runtime.stream import Stream
from aclnn_kvcache.runtime.unheard import tell_beside

REPEATABLE, TWO_PHASE = "repeatable", "two-phase"


class Plan:
    """A call that was checked and described once: ``plan()`` launches it again, on its stream, and returns at once.

    ``mode`` says how: "repeatable" (one executor serves every launch) or "two-phase" (each launch sizes the call anew,
    with the descriptors made once), and ``reason`` why. Arrays are as they are at the time the launch runs; ``update``
    puts others in their place. Close it, or use it as a context manager; it keeps its arrays alive.
    """

    def __init__(
        self,
        device: Device,
        stream: Stream,
        contract: Contract,
        arguments: Arrays,
        attributes: Mapping[str, Any],
        checked: Checked,
    ) -> None:
        """``arguments`` as ``arguments_of_plan`` gives them, with the outputs that the call makes itself."""
        self._device, self._contract, self._attributes, self._checked = device, contract, attributes, checked
        self.stream = stream
        self._values = {name: a for name, a in arguments.items() if isinstance(a, np.ndarray)}
        """Those that the host knows, where the plan made the device arrays of them."""
        self._may_be_on_host = frozenset(self._values)
        self._arrays = {name: _on_device(device, array) for name, array in arguments.items() if array is not None}
        native = c_arguments(contract, self._arrays, attributes)
        with Failing(device.library, contract.api, checked.described):
            self._launch = PreparedLaunch(device, contract.api, native, stream, checked.described)
        self._launch.returned = self._results(self._arrays)
        self._run: Callable[[], object] = self._launch.run
        self._names = tuple(arguments)
        # One update at a time, and none between the arguments that are recorded and their launch.
        self._updating = threading.RLock()

    def record_by(self, record: Callable[..., object]) -> None:
        """Launches by ``record(operator, attributes, stream, arguments, launch)``."""

        def launch() -> object:
            with Failing(self._device.library, self._contract.api, self._checked.described):
                return self._launch.run()

        def recorded() -> object:
            own = self._checked.made
            with self._updating:
                arguments = {name: None if name in own else self._arrays.get(name) for name in self._names}
                return record(self._contract.name, self._attributes, self.stream, arguments, launch)

        self._run = recorded

    @property
    def mode(self) -> str:
        """ "repeatable" or "two-phase"."""
        return REPEATABLE if self._launch.is_repeatable else TWO_PHASE

    @property
    def reason(self) -> str:
        """Why this mode."""
        if self._launch.is_repeatable:
            return "CANN made the executor repeatable: a launch is phase 2 alone"
        because = self._checked.unrepeatable
        why = f"because {because}" if because else "as it does once an identical call was made on this thread"
        return (
            f"CANN refuses to make the executor repeatable, {why}: a launch is phase 1 and phase 2, with descriptors "
            f"made once"
        )

    def __call__(self) -> Any:
        """Launches the call; returns what the method does, the same arrays each time.

        Raises ClosedError, naming the array that was closed, AclnnInnerError; a fault of the device surfaces at a later
        synchronise.
        """
        if not self._device.is_bound():
            with self._device.bound():
                return self()
        try:
            return self._run()
        except ClosedError:
            closed = [name for name, array in self._arrays.items() if array.closed]
            if not closed or self.closed or self._device.closed:
                raise
            raise ClosedError(
                f"{' and '.join(closed)} of this plan {'were' if closed[1:] else 'was'} closed; plan.update(...) puts "
                f"another array in its place"
            ) from None
        except Exception as error:
            self._explain(error)
            raise

    def update(self, **arrays: Array) -> None:
        """Puts other arrays in the place of arguments, from the next launch on; of any thread, which sees all of them
        or none.

        They must have the shape, dtype and strides of those they replace. slot_mapping, query_start_loc, seq_lens and
        mrope_position may be host arrays if they were when the call was prepared: their values are checked, and copied
        to the device.
        Raises ArgumentError, AclnnParameterError (values, overlaps), OutOfDeviceMemory, ClosedError; nothing is changed
        then.
        """
        with self._device.bound(), self._updating:
            self._launch.require_open()
            for name, array in arrays.items():
                self._require_alike(name, array)
            given = _copied(arrays)
            values = {name: array for name, array in {**self._values, **given}.items() if isinstance(array, np.ndarray)}
            self._require_valid({**self._arrays, **given, **values})
            merged = {**self._arrays, **{name: _on_device(self._device, array) for name, array in given.items()}}
            positions = {self._contract.parameters.index(name): merged[name] for name in given}
            self._launch.point(positions, self._results(merged))
            self._values, self._arrays = values, merged

    def close(self) -> None:
        """Gives descriptors and executor back. Queued launches still run; those of a repeatable plan, which share its
        executor, are waited for: then it raises DeviceFaultError if they failed. Idempotent."""
        self._launch.close()

    @property
    def tensors(self) -> tuple[int, ...]:
        """The aclTensor handles of the call, in the order of the C function."""
        return self._launch.tensors

    @property
    def executor(self) -> int | None:
        """The handle of the executor of a repeatable plan."""
        return self._launch.executor

    @property
    def closed(self) -> bool:
        return self._launch.closed

    def __enter__(self) -> Plan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tell_beside(error, self.close, f"closing {self!r}")

    def __repr__(self) -> str:
        return f"<Plan {self._contract.name} {self.mode}{' closed' if self.closed else ''}>"

    def _results(self, arrays: Mapping[str, DeviceArray]) -> tuple[DeviceArray | None, ...] | None:
        return tuple(arrays.get(name) for name in self._contract.outputs) or None

    def _require_valid(self, arguments: Mapping[str, Array]) -> None:
        """What was closed is the next launch's to tell, if it is still there; its memory may be another's by now."""
        specs = {name: spec_of(arguments.get(name)) for name in self._contract.tensors}
        there = {n: a for n, a in arguments.items() if isinstance(a, np.ndarray) or not a.closed}
        found = check_data(self._contract, specs, there, self._attributes, DEVICE)
        raise_findings(self._device.library, self._contract, found, self._checked.described)

    def _require_alike(self, name: str, array: Array) -> None:
        if name not in self._arrays:
            raise ArgumentError("update", f"names among {', '.join(self._arrays)}", repr(name))
        place_of_array(self._device, name, array)
        old = self._arrays[name]
        if isinstance(array, np.ndarray):
            if name not in self._may_be_on_host:
                raise ArgumentError(name, "a device array", "a host array", "session.array(...) makes one")
            wanted, got = (old.shape, old.dtype), (array.shape, array.dtype)
        else:
            wanted, got = _layout(old), _layout(array)
            if (array.ptr - old.layout.offset) % ALIGNMENT:
                raise ArgumentError(
                    name,
                    f"an array that starts as far from a multiple of {ALIGNMENT} bytes as the one it replaces",
                    f"one at {array.ptr:#x}",
                    "prepare another plan for it",
                )
        if wanted != got:
            raise ArgumentError(name, f"an array like the one it replaces, {wanted}", f"{got}", "prepare another plan")

    def _explain(self, error: Exception) -> None:
        Failing(self._device.library, self._contract.api, self._checked.described).__exit__(type(error), error, None)


def _layout(array: DeviceArray) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.strides


def _on_device(device: Device, array: Array) -> DeviceArray:
    return upload(device, array) if isinstance(array, np.ndarray) else array


def _copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Host arrays as they are now: the caller may use them again."""
    return {name: np.array(array) if isinstance(array, np.ndarray) else array for name, array in arrays.items()}


def arguments_of_plan(device: Device, contract: Contract, arguments: Arrays) -> Arrays:
    """The arguments as a plan keeps them, with copies of its own of host arrays.

    Raises ArgumentError for what a plan cannot use: host arrays, but for those whose values are looked at.
    """
    given = {name: array for name, array in arguments.items() if array is not None}
    on_host = [name for name, array in given.items() if place_of_array(device, name, array) == HOST]
    # Of what the revision does not have its own rules speak.
    wrong = [name for name in on_host if name not in (*contract.values, *contract.later)]
    if wrong:
        raise ArgumentError(
            "arguments",
            f"device arrays: a plan launches on them again and again; only {', '.join(contract.values)} may be on the "
            f"host",
            f"{', '.join(wrong)} on the host",
            "session.array(...) makes a device copy",
        )
    return {**arguments, **_copied(given)}
