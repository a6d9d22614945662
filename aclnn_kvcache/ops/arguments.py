# SPDX-License-Identifier: Apache-2.0
"""What all operators do with their arguments: tell host from device, describe them for the rules, raise findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from aclnn_kvcache.errors import PHASE_1, AclnnParameterError, ArgumentError, ClosedError, Described
from aclnn_kvcache.ops.failure import describe, described
from aclnn_kvcache.rules import contracts
from aclnn_kvcache.rules.contracts import FIRST
from aclnn_kvcache.rules.finding import Finding, TensorSpec, dense_spec
from aclnn_kvcache.rules.predict import NOTHING, predict
from aclnn_kvcache.rules.region import Region
from aclnn_kvcache.rules.rule import Call, Contract
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray, empty, upload
from aclnn_kvcache.runtime.stream import Stream

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library

HOST, DEVICE = "host", "device"

Array: TypeAlias = "np.ndarray[Any, Any] | DeviceArray"
Arrays: TypeAlias = "Mapping[str, Array | None]"


def place_of(device: Device | None, arrays: Arrays, written: Sequence[str]) -> str:
    """Where the arrays of a call are, HOST or DEVICE; never both.

    Raises ArgumentError for anything but arrays, for arrays of both kinds, for a read-only array that the call writes
    and for a device array of another session; ClosedError for a closed one.
    """
    places = {name: place_of_array(device, name, array) for name, array in arrays.items() if array is not None}
    given = ((name, arrays[name]) for name in written)
    return one_place(places, [n for n, array in given if isinstance(array, np.ndarray) and not array.flags.writeable])


def one_place(places: Mapping[str, str], read_only: Iterable[str]) -> str:
    """HOST or DEVICE, where all arrays are, by name. ``read_only`` names those that the call could not write.

    Raises ArgumentError.
    """
    on_host = [name for name, place in places.items() if place == HOST]
    on_device = [name for name, place in places.items() if place == DEVICE]
    if on_host and on_device:
        raise ArgumentError(
            "arguments",
            "all arrays on the host or all on the device",
            f"{', '.join(on_host)} on the host and {', '.join(on_device)} on the device",
            "session.array(...) makes a device copy, .numpy() a host copy",
        )
    for name in read_only:
        raise ArgumentError(name, "an array that can be written, since the operator changes it", "a read-only array")
    return DEVICE if on_device else HOST


def place_of_array(device: Device | None, name: str, array: object) -> str:
    """HOST or DEVICE. Raises ArgumentError for anything but an array of this session, ClosedError for a closed one."""
    if isinstance(array, DeviceArray):
        if array.closed:
            raise ClosedError(f"{name} is a device array that was closed")
        if array.buffer.device is not device:
            raise ArgumentError(name, "an array of this session", f"one of another session, {array!r}")
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
    return array.layout.spec


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
    made: Mapping[str, TensorSpec] = {}
    """The outputs that it makes itself."""
    unrepeatable: str = ""
    """Why CANN makes no executor of it repeatable; empty if it does, unless an identical call was cached before."""


def require_valid(
    library: Library,
    contract: Contract,
    place: str,
    specs: Mapping[str, TensorSpec | None],
    arguments: Arrays,
    attributes: Mapping[str, Any],
) -> Checked:
    """Raises AclnnParameterError for all that the rules find, and for what CANN accepts but goes wrong or costs dearly.

    ``arguments`` are those given (tensors with values that are looked at may be on the host where the others are on the
    device), ``specs`` those of all tensors, in the contract's order.
    """
    revision = contract.revision or FIRST
    found, checked = _check_layout(contract.name, revision, tuple(specs.items()), tuple(attributes.items()), place)
    findings = found + check_data(contract, specs, arguments, attributes, place)
    raise_findings(library, contract, findings, checked.described)
    return checked


def check_data(
    contract: Contract,
    specs: Mapping[str, TensorSpec | None],
    arguments: Arrays,
    attributes: Mapping[str, Any],
    place: str,
) -> list[Finding]:
    """What is wrong with the values that are on the host, and with the memory of the arrays that are at the place."""
    given = {name: array for name, array in arguments.items() if array is not None}
    values = {name: np.asarray(array) for name in contract.values if isinstance(array := given.get(name), np.ndarray)}
    there = np.ndarray if place == HOST else DeviceArray
    regions = {name: region_of(array) for name, array in given.items() if isinstance(array, there)}
    return contract.check_data(Call(specs, attributes, values, regions))


def raise_findings(library: Library, contract: Contract, findings: Sequence[Finding], facts: Described) -> None:
    """Raises AclnnParameterError if there are any."""
    if findings:
        status = next((finding.status for finding in findings if finding.status), 0)
        error = AclnnParameterError(contract.api, status, findings=findings)
        if contract.revision:
            _, binding = library.binding(contract.api + PHASE_1)
            error.detail = f"revision {contract.revision} of the operator is in force, by {binding.source}"
        describe(error, library, contract.api, facts)
        raise error


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
    found = contracts.contract(operator, revision).check_layout(call)
    if found:
        return found, Checked(True, facts)
    prediction = predict(operator, call, revision)
    unrepeatable = "" if prediction.is_repeatable else f"{prediction.reason}, and {prediction.repeatable_reason}"
    return list(prediction.risks), Checked(prediction.path != NOTHING, facts, unrepeatable=unrepeatable)


def c_arguments(contract: Contract, arrays: Mapping[str, Array], attributes: Mapping[str, Any]) -> list[Any]:
    """The arguments of phase 1 in front of its out-parameters."""
    named = {**arrays, **attributes}
    values = [named.get(name) for name in contract.parameters]
    return [value.encode() if isinstance(value, str) else value for value in values]


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
        np.asarray(arrays[name])[...] = result
