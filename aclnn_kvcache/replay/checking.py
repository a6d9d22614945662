# SPDX-License-Identifier: Apache-2.0
"""A recorded or described call as the rules see it: no library, no device."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aclnn_kvcache.bundle.decoding import described, is_kept, read_json
from aclnn_kvcache.bundle.manifest import BEFORE, DEVICE, Described, Tensor
from aclnn_kvcache.bundle.reading import Bytes, read_bundle
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.layout import canonical_strides, dense_strides
from aclnn_kvcache.ops.arguments import one_place
from aclnn_kvcache.rules.contracts import FIRST
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.predict import Prediction, predict
from aclnn_kvcache.rules.region import Region
from aclnn_kvcache.rules.rule import Call, Contract

APART = 2**64
"""Bytes between the synthetic addresses of two storages."""
MOST = 2**60
"""Bytes of an array that overlap arithmetic can handle, with every extent doubled."""


class Checked(NamedTuple):
    contract: Contract
    refusal: str
    """Why the session refuses the call whatever the rules say; empty if it does not."""
    findings: tuple[Finding, ...]
    prediction: Prediction
    values_known: bool
    """Whether slots and batches were looked at."""


def check_file(path: str | os.PathLike[str]) -> Checked:
    """Runs all rules on a bundle, by its folder or its manifest, or on a call described by hand.

    Values are looked at where the call was recorded with contents; all of them must be those recorded. Raises
    BundleError.
    """
    if not os.path.isdir(path):
        document = read_json(Path(os.path.realpath(path)))
        if not is_kept(document):
            return check(described(document), {})
    bundle = read_bundle(path)
    if bundle.manifest.omitted:
        return check(bundle.manifest.call, {})
    bundle.verify()
    return check(bundle.manifest.call, bundle.contents(BEFORE))


def check(call: Described, contents: Mapping[str, Bytes]) -> Checked:
    contract = call.contract
    tensors = {name: tensor for name, tensor in call.arguments.items() if tensor is not None}
    specs: dict[str, TensorSpec | None] = {name: None for name in contract.tensors}
    specs |= {name: _spec(call, tensor) for name, tensor in tensors.items()}
    made = contract.made_outputs(specs, call.attributes)
    specs |= {name: specs[name] or made.get(name) for name in contract.outputs}
    values = {
        name: tensors[name].view(contents[str(tensors[name].storage)])
        for name in contract.values
        if name in tensors and tensors[name].storage in contents
    }
    seen = Call(specs, call.attributes, values, dict(_regions(call, tensors)))
    findings, prediction = tuple(contract.check(seen)), predict(call.operator, seen, call.revision or FIRST)
    return Checked(contract, _refusal(call, tensors), findings, prediction, bool(values))


def _refusal(call: Described, tensors: Mapping[str, Tensor]) -> str:
    storages = {name: call.storages.get(str(tensor.storage)) for name, tensor in tensors.items()}
    places = {name: storage.place for name, storage in storages.items() if storage}
    read_only = [name for name in call.contract.written if name in tensors and not tensors[name].writable]
    try:
        one_place(places, read_only)
    except ArgumentError as error:
        return str(error)
    return ""


def _spec(call: Described, tensor: Tensor) -> TensorSpec:
    """As the operator sees it: an array on the host by its dense device copy."""
    spec = call.spec(tensor)
    storage = call.storages.get(str(tensor.storage))
    if storage is None:
        return spec
    if storage.place == DEVICE:
        strides = canonical_strides(spec.shape, spec.strides)
        return TensorSpec(spec.shape, spec.dtype, strides, spec.offset, spec.storage, spec.format)
    return TensorSpec(spec.shape, spec.dtype, dense_strides(spec.shape), format=spec.format)


def _regions(call: Described, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Region]]:
    """The memory of each tensor whose storage has a name, which others may share."""
    names = list(dict.fromkeys(tensor.storage for tensor in tensors.values() if tensor.storage is not None))
    for name, tensor in tensors.items():
        spec = call.spec(tensor)
        if tensor.storage is None or isinstance(spec.dtype, str):
            continue
        size = spec.dtype.itemsize
        low, high = spec.reach
        elements = math.prod(2 * abs(extent) + 1 for extent in spec.shape)
        if min(spec.shape, default=0) < 0 or max(elements, high - low, abs(low), abs(high)) * size >= MOST:
            continue
        strides = tuple(stride * size for stride in spec.strides)
        yield name, Region(names.index(tensor.storage) * APART + spec.offset * size, spec.shape, strides, size)
