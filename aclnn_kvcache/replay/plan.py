# SPDX-License-Identifier: Apache-2.0
"""What a program must do to make a recorded call: device memory, tensors, arguments, and what must come out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache.bundle.manifest import DEVICE, MANIFEST, Described, Manifest, Outcome, Tensor
from aclnn_kvcache.bundle.reading import Bundle
from aclnn_kvcache.dtypes import BY_DTYPE
from aclnn_kvcache.errors import BundleError
from aclnn_kvcache.layout import canonical_strides, dense_strides
from aclnn_kvcache.rules.finding import TensorSpec

FAILING_PHASES = {"checks": 1, "phase 1": 1, "phase 2": 2, "synchronize": 3}
"""In which step of the program a call fails. What the checks refuse never came to phase 1, where CANN refuses it."""

LINES = 20
"""Of a recorded message, in the program."""


class Block(NamedTuple):
    """A piece of device memory, filled with the elements of a view of a file, in order."""

    name: str
    before: tuple[str, str] | None
    """File with the contents before the call, and its SHA-256; None for zeros."""
    after: tuple[str, str] | None
    """The same with what must come out; None if that does not matter."""
    file_bytes: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Of the view in the file, in elements, as the offset."""
    offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.itemsize


class Descriptor(NamedTuple):
    """An aclTensor."""

    name: str
    dtype: str
    acl_value: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    """Elements of the block."""
    block: int


class Argument(NamedTuple):
    """An argument of phase 1: a "tensor" by its index, "integers", a "text", a "number", or "null"."""

    kind: str
    value: Any = None


class Plan(NamedTuple):
    manifest: Manifest
    facts: tuple[str, ...]
    """About the recorded call, for people."""
    blocks: tuple[Block, ...]
    tensors: tuple[Descriptor, ...]
    arguments: tuple[Argument, ...]
    failing_phase: int
    """0 for a call that succeeds."""
    status: int


def plan_of(bundle: Bundle) -> Plan:
    """Raises BundleError for a call without contents, and for one that failed but not in CANN."""
    manifest = bundle.manifest
    bundle.verify()  # a broken bundle makes no program
    phase, status = _end(bundle, manifest.outcome)
    made = _made(manifest)
    tensors = {name: tensor for name, tensor in manifest.call.arguments.items() if tensor is not None} | made
    blocks: list[Block] = []
    descriptors = [_descriptor(manifest.call, name, tensor, blocks) for name, tensor in tensors.items()]
    arguments = tuple(_arguments(manifest, [descriptor.name for descriptor in descriptors]))
    return Plan(manifest, tuple(_facts(manifest)), tuple(blocks), tuple(descriptors), arguments, phase, status)


def _end(bundle: Bundle, outcome: Outcome) -> tuple[int, int]:
    if outcome.error is None:
        return 0, 0
    if not outcome.status or outcome.phase is None:
        expected = "a call that succeeded, or that CANN refused or failed"
        got = f"{outcome.error} that did not come from CANN; there is nothing to reproduce without this package"
        raise BundleError(str(bundle.folder / MANIFEST), "outcome", expected, got)
    return FAILING_PHASES[outcome.phase], outcome.status


def _made(manifest: Manifest) -> dict[str, Tensor]:
    """Outputs that the caller left to the call: as it made them, or would have made them."""
    call = manifest.call
    missing = [name for name in call.contract.outputs if call.arguments[name] is None]
    if not missing:
        return {}
    specs = {name: tensor and call.spec(tensor) for name, tensor in call.arguments.items()}
    made = {name: _dense(spec) for name, spec in call.contract.made_outputs(specs, call.attributes).items()}
    return {name: manifest.returned.get(name) or made[name] for name in missing if name in made}


def _dense(spec: TensorSpec) -> Tensor:
    return Tensor(spec.shape, BY_DTYPE[np.dtype(spec.dtype)].acl_name, dense_strides(spec.shape), 0, None)


def _descriptor(call: Described, name: str, tensor: Tensor, blocks: list[Block]) -> Descriptor:
    """Adds the tensor's block unless it is there: device memory as it was, a host array as the dense copy CANN saw."""
    dtype = tensor.numpy_dtype
    size = dtype.itemsize
    storage = call.storages.get(str(tensor.storage))
    is_shared = storage is not None and storage.place == DEVICE
    if storage is None:
        block = Block(name, None, None, 0, size, tensor.shape, tensor.strides, 0)
    else:
        files = [content and (content.file, content.sha256) for content in (storage.before, storage.after)]
        view: tuple[Any, ...] = (size, tensor.shape, tensor.strides, tensor.offset)
        if is_shared:
            view = (1, (storage.nbytes,), (1,), 0)
        after = files[1] if is_shared or name in call.contract.written else None
        block = Block(str(tensor.storage) if is_shared else name, files[0], after, storage.nbytes, *view)
    names = [other.name for other in blocks]
    if block.name not in names:
        blocks.append(block)
        names.append(block.name)
    strides = canonical_strides(tensor.shape, tensor.strides) if is_shared else dense_strides(tensor.shape)
    offset = tensor.offset if is_shared else 0
    place = (tensor.shape, strides, offset, block.nbytes // size, names.index(block.name))
    return Descriptor(name, tensor.dtype, BY_DTYPE[dtype].acl_value, *place)


def _arguments(manifest: Manifest, tensors: list[str]) -> Iterator[Argument]:
    """In the order of the recorded revision, without the two out-parameters."""
    call = manifest.call
    for name in call.contract.parameters:
        value = call.attributes.get(name)
        if name in tensors:
            yield Argument("tensor", tensors.index(name))
        elif value is None:
            yield Argument("null")
        else:
            yield Argument({str: "text", float: "number"}.get(type(value), "integers"), value)


def _facts(manifest: Manifest) -> Iterator[str]:
    target, outcome = manifest.target, manifest.outcome
    yield f"{manifest.call.contract.api}, recorded {manifest.time} by aclnn_kvcache"
    yield f"on {target.backend}, {target.soc_name}, CANN {target.cann_version}"
    revision = manifest.prototype.revision
    yield from [f"argument list: revision {revision}"] if revision else []
    if outcome.error is None:
        yield "expected: the call succeeds"
        return
    yield f"expected: status {outcome.status} in {outcome.phase}"
    yield from outcome.message.encode("utf-8", "replace").decode().splitlines()[:LINES]
