# SPDX-License-Identifier: Apache-2.0
"""What all operators do with their arguments: tell host from device, describe them for the rules, raise findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.errors import AclnnParameterError, ArgumentError, ClosedError, Described
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.ops.failure import describe, described
from aclnn_kvcache.rules.contracts import FIRST, contract
from aclnn_kvcache.rules.finding import ND, Finding, TensorSpec, dense_spec
from aclnn_kvcache.rules.predict import NOTHING, predict
from aclnn_kvcache.rules.region import Region
from aclnn_kvcache.rules.rule import Call, Contract
from aclnn_kvcache.runtime.descriptor import ALIGNMENT
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray, empty, upload
from aclnn_kvcache.runtime.stream import Stream

HOST, DEVICE = "host", "device"

Array: TypeAlias = "np.ndarray[Any, Any] | DeviceArray"
Arrays: TypeAlias = "Mapping[str, Array | None]"


def place_of(device: Device, arrays: Arrays, written: Sequence[str]) -> str:
    """Where the arrays of a call are, HOST or DEVICE; never both.

    Raises ArgumentError for anything but arrays, for arrays of both kinds, for a read-only array that the call writes
    and for a device array of another session; ClosedError for a closed one.
    """
    places = {name: _place(device, name, array) for name, array in arrays.items() if array is not None}
    on_host = [name for name, place in places.items() if place == HOST]
    on_device = [name for name, place in places.items() if place == DEVICE]
    if on_host and on_device:
        raise ArgumentError(
            "arguments",
            "all arrays on the host or all on the device",
            f"{', '.join(on_host)} on the host and {', '.join(on_device)} on the device",
            "session.array(...) makes a device copy, .numpy() a host copy",
        )
    for name in written:
        array = arrays[name]
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise ArgumentError(
                name, "an array that can be written, since the operator changes it", "a read-only array"
            )
    return DEVICE if on_device else HOST


def _place(device: Device, name: str, array: object) -> str:
    if isinstance(array, DeviceArray):
        if array.closed:
            raise ClosedError(f"{name} is a device array that was closed")
        if array.buffer.device is not device:
            raise ArgumentError(name, "an array of this session", f"one of another session, {array!r}")
        if array.buffer.pointer % ALIGNMENT:
            raise ArgumentError(
                name,
                f"memory that starts at a multiple of {ALIGNMENT} bytes",
                f"{array.buffer.pointer:#x}",
                "borrow the whole allocation and slice it",
            )
        return DEVICE
    if isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        return HOST
    raise ArgumentError(
        name, "a numpy.ndarray or a DeviceArray", type(array).__name__, "nothing is converted behind your back"
    )


def spec_of(array: Array | None) -> TensorSpec | None:
    """An array as the operator will see it: a host array by its dense device copy."""
    if array is None:
        return None
    if isinstance(array, np.ndarray):
        return dense_spec(array.shape, array.dtype)
    return _device_spec(array.shape, array.dtype, array.strides, array.offset, array.buffer.nbytes)


# Made past the constructor, which checks what an array cannot get wrong.
@lru_cache(maxsize=1024)
def _device_spec(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], offset: int, nbytes: int
) -> TensorSpec:
    size = dtype.itemsize
    steps = layout.canonical_strides(shape, [stride // size for stride in strides])
    return TensorSpec._make((shape, dtype, steps, offset // size, nbytes // size, ND))


def region_of(array: Array) -> Region:
    """The memory of an open array, for overlap arithmetic."""
    if isinstance(array, np.ndarray):
        return Region.of(array)
    return Region(array.buffer.pointer + array.offset, array.shape, array.strides, array.dtype.itemsize)


class Checked(NamedTuple):
    """A call that the rules allow."""

    launches: bool
    """Whether it launches anything."""
    described: Described


def require_valid(
    library: Library,
    rules: Contract,
    place: str,
    specs: Mapping[str, TensorSpec | None],
    arrays: Arrays,
    attributes: Mapping[str, Any],
    in_force: str = "",
) -> Checked:
    """Raises AclnnParameterError for all that the rules find, and for what CANN accepts but goes wrong or costs dearly.

    ``arrays`` are those given, ``specs`` those of all tensors; ``in_force`` says which rules these are, where an
    operator has several.
    """
    revision = rules.revision or FIRST
    found, checked = _check_layout(rules.name, revision, tuple(specs.items()), tuple(attributes.items()), place)
    given = {name: array for name, array in arrays.items() if array is not None}
    values = {name: array for name in rules.values if isinstance(array := given.get(name), np.ndarray)}
    regions = {name: region_of(array) for name, array in given.items()}
    findings = found + rules.check_data(Call(specs, attributes, values, regions))
    if findings:
        status = next((finding.status for finding in findings if finding.status), 0)
        error = AclnnParameterError(rules.api, status, findings=findings)
        error.detail = in_force
        describe(error, library, rules.api, checked.described)
        raise error
    return checked


@lru_cache(maxsize=512)
def _check_layout(
    operator: str,
    revision: str,
    specs: tuple[tuple[str, TensorSpec | None], ...],
    attributes: tuple[tuple[str, Any], ...],
    place: str,
) -> tuple[list[Finding], Checked]:
    """What the rules and the prediction find. Calls in a loop ask the same again and again."""
    call = Call(dict(specs), dict(attributes))
    facts = described(call.specs, attributes, place)
    found = contract(operator, revision).check_layout(call)
    if found:
        return found, Checked(True, facts)
    prediction = predict(operator, call, revision)
    return list(prediction.risks), Checked(prediction.path != NOTHING, facts)


def run_on_host_arrays(
    device: Device,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    written: Sequence[str],
    call: Callable[[Mapping[str, DeviceArray]], None],
    stream: Stream,
    write_only: Sequence[str] = (),
) -> None:
    """Uploads, calls, waits, and writes the results into the caller's arrays, whatever their strides.

    ``write_only`` names those of ``written`` whose contents before the call do not matter.

    If anything fails no array is changed, since all results are fetched before the first is written.
    """
    # The copies free themselves when nothing refers to them: at once, or if a wait was interrupted when the stream has
    # passed the work that uses them.
    copies = {
        name: empty(device, array.shape, array.dtype) if name in write_only else upload(device, array)
        for name, array in arrays.items()
    }
    call(copies)
    stream.synchronize()
    results = [copies[name].numpy() for name in written]
    for name, result in zip(written, results, strict=True):
        arrays[name][...] = result
