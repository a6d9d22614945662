# SPDX-License-Identifier: Apache-2.0
"""What a bundle says about a call, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import DTYPES, FORMATS, TABLE
from aclnn_kvcache.rules.contracts import FIRST, contract
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.rule import Contract

SCHEMA = 1
"""Raised when a field changes its meaning or goes."""

MANIFEST = "manifest.json"
MAX_MANIFEST = 4 << 20
"""Bytes of a manifest."""
MAX_CONTENTS = 1 << 30
"""Bytes of all contents of a bundle together; a larger call is kept without them."""
MAX_RANK = 25
"""Axes of a tensor; CANN's own limit."""

HOST, DEVICE = "host", "device"
BEFORE, AFTER = "before", "after"
PHASES = ("checks", "phase 1", "phase 2", "synchronize")
"""Where a call can fail: this package's checks, CANN's two phases, or on the device."""

DTYPE_NAMES: Mapping[np.dtype[Any], str] = {row.dtype: row.acl_name for row in TABLE}


class Tensor(NamedTuple):
    """One argument; offset and strides in elements of its dtype."""

    shape: tuple[int, ...]
    dtype: str
    """CANN's name, such as FLOAT8_E4M3FN."""
    strides: tuple[int, ...]
    offset: int
    storage: str | None
    """The storage that it lies in; None if the manifest does not say."""
    elements: int | None = None
    """Of its allocation, where a number stands for the storage."""
    format: str = "ND"
    writable: bool = True
    """False for an array on the host that is read-only."""

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        dtype = DTYPES[self.dtype]
        if isinstance(dtype, str):
            raise TypeError(f"no array has the type {dtype}")
        return dtype

    @property
    def span(self) -> tuple[int, int]:
        """First element reached, from the start of the storage, and one past the last."""
        return layout.bounds(self.shape, self.strides, self.offset)

    @property
    def steps(self) -> list[int]:
        """Strides in bytes; of axes that nobody walks 0, whatever the manifest says."""
        is_walked = 0 not in self.shape
        size = self.numpy_dtype.itemsize
        return [
            stride * size if is_walked and extent > 1 else 0
            for extent, stride in zip(self.shape, self.strides, strict=True)
        ]

    def view(self, storage: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The argument as a view of its storage's bytes."""
        start = self.offset * self.numpy_dtype.itemsize
        view: np.ndarray[Any, Any] = np.ndarray(self.shape, self.numpy_dtype, storage, start, self.steps)
        return view

    def view_of_bytes(self, storage: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The bytes of the argument as a view of an array that has an element for each byte of the storage."""
        size = self.numpy_dtype.itemsize
        shape, steps = (*self.shape, size), (*self.steps, 1)
        view: np.ndarray[Any, Any] = np.ndarray(shape, storage.dtype, storage, self.offset * size, steps)
        return view


class Content(NamedTuple):
    """Bytes in a file of the bundle; how many says the storage."""

    file: str
    sha256: str


class Storage(NamedTuple):
    """Memory that one argument lies in, or several: on the host what they reach, on the device from a multiple of
    512 bytes of the allocation on."""

    place: str
    nbytes: int
    before: Content | None = None
    after: Content | None = None


class Outcome(NamedTuple):
    """How the call ended. ``status`` is None for an error that has none, such as ArgumentError."""

    status: int | None
    name: str = ""
    phase: str | None = None
    function: str = ""
    """The C function that answered."""
    error: str | None = None
    """The class of the error; None for a call that succeeded."""
    message: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def same_as(self) -> tuple[int | None, str | None]:
        """What two calls that end alike have in common."""
        return self.status, self.error


class Target(NamedTuple):
    """What the call ran on."""

    backend: str
    device: int
    soc_name: str
    cann_version: str
    libraries: tuple[str, ...]


class Prototype(NamedTuple):
    """The argument list in force of the operator's phase 1."""

    revision: str | None
    """Of the fused operator."""
    declaration: str | None
    source: str


class Described(NamedTuple):
    """A call by names, layouts and attributes; what a file written by hand says too."""

    operator: str
    arguments: Mapping[str, Tensor | None]
    attributes: Mapping[str, Any]
    storages: Mapping[str, Storage] = {}
    revision: str | None = None
    """Of the fused operator; None for its first, and for other operators."""

    @property
    def contract(self) -> Contract:
        return contract(self.operator, self.revision or FIRST)

    def spec(self, tensor: Tensor) -> TensorSpec:
        """As the rules see it."""
        dtype = DTYPES[tensor.dtype]
        elements = tensor.elements
        if tensor.storage is not None and tensor.storage in self.storages and not isinstance(dtype, str):
            elements = self.storages[tensor.storage].nbytes // dtype.itemsize
        if elements is None:
            elements = max(tensor.span[1], 0)
        return TensorSpec(tensor.shape, dtype, tensor.strides, tensor.offset, elements, FORMATS[tensor.format])


class Manifest(NamedTuple):
    call: Described
    returned: Mapping[str, Tensor]
    """Outputs that the call made itself."""
    omitted: str
    """Why the contents are not there; empty if they are."""
    outcome: Outcome
    time: str
    versions: Mapping[str, str]
    target: Target
    prototype: Prototype

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All arguments that are there, and what the call returned."""
        given = {name: tensor for name, tensor in self.call.arguments.items() if tensor is not None}
        return {**given, **self.returned}

    @property
    def written(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self.tensors.items() if name in self.call.contract.written}
