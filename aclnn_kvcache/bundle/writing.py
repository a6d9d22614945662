# SPDX-License-Identifier: Apache-2.0
"""Writes a bundle: a private folder that is there whole or not at all, and replaces nothing."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aclnn_kvcache.bundle.decoding import manifest as read_manifest
from aclnn_kvcache.bundle.fields import parse
from aclnn_kvcache.bundle.manifest import (
    AFTER,
    BEFORE,
    MANIFEST,
    MAX_MANIFEST,
    SCHEMA,
    Content,
    Manifest,
    Storage,
    Tensor,
)
from aclnn_kvcache.errors import BundleError

Contents = Mapping[str, np.ndarray[Any, Any]]

UNFINISHED = ".unfinished-"
"""How the names of folders begin that are being written."""

_INTEGERS = re.compile(r"\[\n\s*-?\d+(?:,\n\s*-?\d+)*\n\s*\]")
"""A list of integers over several lines; no text of JSON has a line break in it."""

_numbers = itertools.count(1)


def write_bundle(folder: Path, manifest: Manifest, before: Contents, after: Contents) -> Path:
    """Writes a call, with the bytes of its storages before and after it, and returns the new folder's path.

    ``manifest`` holds its storages without contents; they are filled in. Raises OSError, and BundleError for a call
    that no bundle can hold.
    """
    storages = {
        name: Storage(
            storage.place, storage.nbytes, *(_content(name, m, c) for m, c in ((BEFORE, before), (AFTER, after)))
        )
        for name, storage in manifest.call.storages.items()
    }
    manifest = manifest._replace(call=manifest.call._replace(storages=storages))
    data = encoded(manifest)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        for name, storage in storages.items():
            for content, contents in ((storage.before, before), (storage.after, after)):
                if content is not None:
                    _write(temporary / content.file, contents[name].data)
        _write(temporary / MANIFEST, memoryview(data))
        return _publish(temporary, folder, manifest)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def encoded(manifest: Manifest) -> bytes:
    """The manifest's JSON, which reads back as the same. Raises BundleError if it would not."""
    text = json.dumps(_document(manifest), indent=2, allow_nan=False)
    data = _INTEGERS.sub(lambda match: " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]"), text).encode()
    if len(data) > MAX_MANIFEST:
        raise BundleError(MANIFEST, "", f"at most {MAX_MANIFEST} bytes", f"{len(data)}")
    read_manifest(parse(MANIFEST, data))
    return data


def _content(storage: str, moment: str, contents: Contents) -> Content | None:
    if storage not in contents:
        return None
    return Content(f"{storage}-{moment}.bin", hashlib.sha256(contents[storage].data).hexdigest())


def _write(path: Path, data: memoryview) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "wb", buffering=0) as file:
        while data:
            data = data[file.write(data) :]


def _publish(temporary: Path, folder: Path, manifest: Manifest) -> Path:
    """Renames; a folder that is there already is never empty, and so never replaced."""
    time = manifest.time.replace(":", "").replace("-", "")
    while True:
        target = folder / f"{time}-{os.getpid()}-{next(_numbers):04}-{manifest.call.operator}"
        try:
            temporary.rename(target)
            return target
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise


def _document(manifest: Manifest) -> dict[str, Any]:
    call = manifest.call
    return {
        "schema": SCHEMA,
        "operator": call.operator,
        "arguments": {name: tensor and _tensor(tensor) for name, tensor in call.arguments.items()},
        "attributes": {name: _plain(value) for name, value in call.attributes.items()},
        "storages": {name: _storage(storage) for name, storage in call.storages.items()},
        "returned": {name: _tensor(tensor) for name, tensor in manifest.returned.items()},
        "omitted": manifest.omitted,
        "outcome": {
            **manifest.outcome._asdict(),
            "findings": [finding._asdict() for finding in manifest.outcome.findings],
        },
        "time": manifest.time,
        "versions": dict(manifest.versions),
        "target": manifest.target._asdict(),
        "prototype": manifest.prototype._asdict(),
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {name: value for name, value in tensor._asdict().items() if name != "elements"}


def _storage(storage: Storage) -> dict[str, Any]:
    contents = {
        moment: content and content._asdict() for moment, content in zip((BEFORE, AFTER), storage[2:], strict=True)
    }
    return {"place": storage.place, "nbytes": storage.nbytes, **contents}


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinities: they are texts."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
