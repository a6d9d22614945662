# SPDX-License-Identifier: Apache-2.0
"""Opens a bundle: its manifest, and its contents with their checksums verified."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache.bundle.decoding import manifest, read_json
from aclnn_kvcache.bundle.files import fill, regular_file
from aclnn_kvcache.bundle.manifest import AFTER, BEFORE, MANIFEST, MAX_CONTENTS, Manifest, Tensor
from aclnn_kvcache.errors import BundleError

Bytes = np.ndarray[Any, Any]


class Bundle(NamedTuple):
    folder: Path
    manifest: Manifest

    @property
    def files(self) -> list[Path]:
        """The manifest, and the contents that it names, be they there or not."""
        storages = self.manifest.call.storages.values()
        contents = [content.file for storage in storages for content in (storage.before, storage.after) if content]
        return [self.folder / name for name in (MANIFEST, *contents)]

    def verify(self) -> None:
        """Raises BundleError as ``contents`` does, for both moments that the call has."""
        self.contents(BEFORE)
        if self.manifest.outcome.error is None:
            self.contents(AFTER)

    def contents(self, moment: str) -> dict[str, Bytes]:
        """The bytes "before" the call of all storages that it was given, or those "after" it of all that it wrote.

        Raises BundleError where a file is missing, is no plain file of the stated size in the folder, or has another
        checksum; if arguments reach outside their storage; and if the contents were left out.
        """
        kept = self.manifest
        if kept.omitted:
            raise BundleError(str(self.folder), "omitted", "a call recorded with its contents", ascii(kept.omitted))
        # First everything that costs nothing, then the reading.
        total = 0
        for name, storage in kept.call.storages.items():
            total += storage.nbytes * ((storage.before is not None) + (storage.after is not None))
            if total > MAX_CONTENTS:
                field = f"storages.{name}.nbytes"
                raise BundleError(str(self.folder), field, f"at most {MAX_CONTENTS} bytes in all", f"{total}")
        for name, tensor in kept.tensors.items():
            self._require_inside(name, tensor)
        given = {str(tensor.storage) for name, tensor in kept.tensors.items() if name not in kept.returned}
        written = {str(tensor.storage) for tensor in kept.written.values()}
        wanted = {BEFORE: given, AFTER: written}[moment]
        return {name: self._load(name, moment) for name in kept.call.storages if name in wanted}

    def _require_inside(self, name: str, tensor: Tensor) -> None:
        field = f"arguments.{name}"
        try:
            size = tensor.numpy_dtype.itemsize
        except TypeError as error:
            raise BundleError(str(self.folder), f"{field}.dtype", "a type that arrays have", tensor.dtype) from error
        if tensor.format != "ND":
            raise BundleError(str(self.folder), f"{field}.format", "ND, as all arrays here have", tensor.format)
        storage = self.manifest.call.storages[str(tensor.storage)]
        low, high = tensor.span
        if min(tensor.shape, default=0) < 0 or low < 0 or high * size > storage.nbytes:
            expected = f"elements inside the {storage.nbytes} bytes of storage {tensor.storage}"
            raise BundleError(str(self.folder), field, expected, f"elements {low} to {high - 1} of {size} bytes")
        nbytes = size * math.prod(max(extent, 1) for extent in tensor.shape)  # NumPy's own limit is on this, too
        if nbytes > MAX_CONTENTS:
            raise BundleError(str(self.folder), field, f"at most {MAX_CONTENTS} bytes", f"{nbytes}")

    def _load(self, name: str, moment: str) -> Bytes:
        storage = self.manifest.call.storages[name]
        content = getattr(storage, moment)
        if content is None:
            raise BundleError(str(self.folder), f"storages.{name}.{moment}", "a file", "null")
        with regular_file(str(self.folder), content.file, self.folder / content.file) as (file, size):
            if size != storage.nbytes:
                expected = f"a file of {storage.nbytes} bytes"
                raise BundleError(str(self.folder), content.file, expected, f"{size} bytes")
            data = np.empty(storage.nbytes, np.uint8)
            read = fill(file, data.data)
        if read != storage.nbytes or hashlib.sha256(data.data).hexdigest() != content.sha256:
            raise BundleError(str(self.folder), content.file, f"SHA-256 {content.sha256}", "other contents")
        return data


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """The bundle in a folder, or that of a manifest; the manifest read and checked, the contents not yet.

    Raises BundleError.
    """
    if not os.path.isdir(path):
        file = Path(os.path.realpath(path))
        return Bundle(file.parent, manifest(read_json(file)))
    file = Path(path, MANIFEST)
    if not os.path.lexists(file) and (inside := _bundles_in(path)):
        count = f"{len(inside)} bundles" if len(inside) > 1 else "a bundle"
        got = f"a folder that holds {count}; name one, such as {inside[-1]}"
        raise BundleError(str(path), "", f"a folder with a {MANIFEST}", got)
    return Bundle(file.parent, manifest(read_json(file)))


def _bundles_in(folder: str | os.PathLike[str]) -> list[str]:
    try:
        return [name for name in sorted(os.listdir(folder)) if os.path.lexists(Path(folder, name, MANIFEST))]
    except OSError:
        return []


def views(tensors: Mapping[str, Tensor | None], storages: Mapping[str, Bytes]) -> dict[str, Any]:
    """The arguments as views of their storages; None where there is none."""
    return {name: tensor and tensor.view(storages[str(tensor.storage)]) for name, tensor in tensors.items()}
