# SPDX-License-Identifier: Apache-2.0
"""Tests marked ``npu`` run wherever CANN and a device are, and are skipped only where there is none.

No test fails for being slow: Hypothesis' deadlines are off.
"""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("patient", parent=settings.default, deadline=None)
settings.load_profile("patient")

# A shell that runs the tests in the background has them ignore interrupts, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

DEVICE_NODES = ("/dev/davinci[0-9]*", "/dev/vdavinci[0-9]*")

# In a process of its own: with CANN loaded, this one could not load the simulator any more.
PROBE = """
import sys
from aclnn_kvcache.errors import LibraryNotFoundError
from aclnn_kvcache.native.library import load
try:
    load("cann")
except LibraryNotFoundError as error:
    print(error)
    sys.exit(3)
"""


@pytest.fixture(scope="session", autouse=True)
def outside_the_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Python processes that tests start shall find the installed package, not the checkout's: that has no simulator."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield
    os.chdir(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("npu")]
    reason = _absent() if marked else ""
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))


def _absent() -> str:
    """Why there is nothing to test on, or empty: a device that is there but does not work fails the tests."""
    if not any(map(glob.glob, DEVICE_NODES)):
        return f"no NPU: there is no {' or '.join(DEVICE_NODES)}"
    probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    return f"no CANN: {probe.stdout.strip()}" if probe.returncode == 3 else ""
