# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a call, and what CANN will do with it, without a library or a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aclnn_kvcache.errors import ArgumentError, ClosedError
from aclnn_kvcache.ops import qkv_rms_norm_rope_cache_with_k_scale as qkv
from aclnn_kvcache.ops import scatter_pa_kv_cache_with_k_scale as scatter
from aclnn_kvcache.ops.arguments import place_of, region_of, spec_of
from aclnn_kvcache.rules.contracts import CONTRACTS, FIRST, contract, method
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.predict import Prediction
from aclnn_kvcache.rules.predict import predict as predict_call
from aclnn_kvcache.rules.region import Region
from aclnn_kvcache.rules.rule import Call, Contract
from aclnn_kvcache.runtime.memory import DeviceArray

ATTRIBUTES: Mapping[str, Any] = {
    "scatter_pa_kv_cache_with_k_scale": scatter.Attributes,
    "qkv_rms_norm_rope_cache_with_k_scale": qkv.Attributes,
}

# Host and device addresses are of two spaces; this keeps them apart in overlap arithmetic.
_DEVICE_SPACE = 1 << 64


def check_call(operator: str, /, *, qkv_abi: str = FIRST, **arguments: Any) -> list[Finding]:
    """All that is wrong with a call, in CANN's order of checks; nothing for one that works as documented.

    ``operator``: the method's name or the C function's. ``arguments``: those of the method of Session by keyword. For
    each tensor a NumPy array (looked at as the dense device copy that the operator would see), a device array, a
    TensorSpec, or None for NULL; q_out and q_scale that are left out are made as the session makes them. Values and
    overlaps are checked as well where they are known. ``qkv_abi``: "A", "B" or "C", the revision of the fused operator.

    The first status of the findings that is not 0 is what CANN's phase 1 answers; findings with status 0 are what it
    lets through and the device would do wrong. What CANN does as documented, but copies whole caches for or computes
    in too few bits, is no finding: the session refuses it all the same, and ``preflight.predict`` tells it as a risk.

    Raises ArgumentError for an unknown operator or argument, one that is left out or of another type, and for arrays
    that no session takes: some on the host and some on the device, of two sessions, or read-only where the operator
    writes; ClosedError.
    """
    found = contract_of(operator, qkv_abi)
    return found.check(_call(found, arguments))


def predict(operator: str, /, *, qkv_abi: str = FIRST, **arguments: Any) -> Prediction:
    """What CANN's phase 1 will do with a call: copies, workspace, whether its executor can be repeated, and the risks.

    A call with risks is one that a session refuses, though ``check_call`` may find nothing wrong with it.
    Arguments and errors as for ``check_call``.
    """
    found = contract_of(operator, qkv_abi)
    return predict_call(found.name, _call(found, arguments), qkv_abi)


def contract_of(operator: str, qkv_abi: str = FIRST) -> Contract:
    """The contract of an operator by the name of its method or its C function, in a revision of the fused operator.

    Raises ArgumentError.
    """
    for known in CONTRACTS.values():
        if operator in (known.name, known.api):
            return contract(known.name, qkv_abi)
    allowed = ", ".join(name for known in CONTRACTS.values() for name in (known.name, known.api))
    raise ArgumentError("operator", f"one of {allowed}", repr(operator))


def _call(contract: Contract, arguments: Mapping[str, Any]) -> Call:
    every = method(contract.name)
    for name in arguments:
        if name not in every.tensors and name not in every.attributes:
            allowed = ", ".join((*contract.tensors, *contract.attributes))
            raise ArgumentError(name, f"an argument of {contract.name}: {allowed}", "an unknown name")
    given = {**every.attributes, **arguments}
    attributes = ATTRIBUTES[contract.name].of(**{name: given[name] for name in every.attributes})._asdict()
    specs: dict[str, TensorSpec | None] = {}
    for name in (*contract.tensors, *contract.later):
        if name in arguments and name in every.tensors:
            specs[name] = _spec(name, arguments[name])
        elif name in contract.tensors and name not in (*contract.optional, *contract.outputs):
            raise ArgumentError(name, "an array, a TensorSpec, or None for NULL", "nothing", "it must be given")
    made = contract.made_outputs(specs, attributes)
    specs |= {name: made.get(name) for name in (*contract.optional, *contract.outputs) if name not in arguments}
    arrays = {
        name: argument for name in specs if isinstance(argument := arguments.get(name), (np.ndarray, DeviceArray))
    }
    device = next((array.buffer.device for array in arrays.values() if isinstance(array, DeviceArray)), None)
    # A plan takes tensors whose values are looked at from the host, where the others are on the device.
    rest = {name: array for name, array in arrays.items() if name not in contract.values}
    placed = rest if all(isinstance(array, DeviceArray) for array in rest.values()) and rest else arrays
    place_of(device, placed, [name for name in contract.written if name in arrays])
    values = {name: np.asarray(array) for name in contract.values if isinstance(array := arrays.get(name), np.ndarray)}
    return Call(specs, attributes, values, {name: _region(array) for name, array in arrays.items()})


def _spec(name: str, argument: object) -> TensorSpec | None:
    if argument is None or isinstance(argument, TensorSpec):
        return argument
    if isinstance(argument, DeviceArray) and argument.closed:
        raise ClosedError(f"{name} is a device array that was closed")
    if isinstance(argument, (np.ndarray, DeviceArray)) and not isinstance(argument, np.ma.MaskedArray):
        return spec_of(argument)
    expected = "a numpy.ndarray, a DeviceArray, a TensorSpec, or None for NULL"
    raise ArgumentError(name, expected, type(argument).__name__, "nothing is converted behind your back")


def _region(array: np.ndarray[Any, Any] | DeviceArray) -> Region:
    region = region_of(array)
    return region._replace(address=region.address + _DEVICE_SPACE) if isinstance(array, DeviceArray) else region
