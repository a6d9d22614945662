# SPDX-License-Identifier: Apache-2.0
"""What all commands that open libraries have in common: options and exit codes."""

from __future__ import annotations

import argparse

from aclnn_kvcache.errors import (
    ArgumentError,
    BundleError,
    DeviceUnavailableError,
    KvCacheError,
    LibraryConflictError,
    LibraryNotFoundError,
    SymbolNotFoundError,
)
from aclnn_kvcache.native.discovery import BACKENDS
from aclnn_kvcache.native.revisions import QKV, REVISIONS

WRONG_USAGE, NO_BACKEND, RUNTIME_FAILURE = 2, 3, 4
ABSENT = (LibraryNotFoundError, LibraryConflictError, SymbolNotFoundError, DeviceUnavailableError)
"""Errors that mean: no such backend or device."""


def add_backend_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", choices=BACKENDS, default="auto", help="auto takes CANN, never the simulator")
    parser.add_argument("--library-dir", metavar="DIR", help="the one folder to take the libraries from")
    parser.add_argument("--qkv-abi", choices=list(REVISIONS[QKV]), help="revision of the fused operator")


def exit_code(error: KvCacheError) -> int:
    """The exit code of a command that ended with this error."""
    if isinstance(error, (ArgumentError, BundleError)):
        return WRONG_USAGE
    return NO_BACKEND if isinstance(error, ABSENT) else RUNTIME_FAILURE
