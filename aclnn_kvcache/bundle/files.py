# SPDX-License-Identifier: Apache-2.0
"""Opens files that somebody else put there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from aclnn_kvcache.errors import BundleError


@contextmanager
def regular_file(bundle: str, name: str, path: Path) -> Iterator[tuple[FileIO, int]]:
    """The open file and its size. Raises BundleError for what cannot be read, and for a link, a pipe, a folder."""
    try:
        # A pipe in the place of the file must not block.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise BundleError(bundle, name, "a file that can be read, and no symbolic link", _reason(error)) from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BundleError(bundle, name, "a regular file", "something else")
        with FileIO(handle, "rb", closefd=False) as file:
            yield file, found.st_size
    finally:
        os.close(handle)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "none of that name"
    if isinstance(error, OSError):
        return "a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
    return str(error)


def fill(file: FileIO, data: memoryview) -> int:
    """Reads until the memory is full or the file ends; one read may bring less. Returns the bytes read."""
    total = 0
    while total < len(data) and (count := file.readinto(data[total:])):
        total += count
    return total
