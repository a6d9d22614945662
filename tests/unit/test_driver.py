# SPDX-License-Identifier: Apache-2.0
"""Device nodes, the driver's library and ASCEND_RT_VISIBLE_DEVICES: on trees of files."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from aclnn_kvcache.native.driver import VisibleDevices, device_nodes, driver_library, visible_devices


def touch(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


def test_device_nodes_in_order(tmp_path):
    for name in ("davinci10", "davinci2", "davinci_manager", "davinci_other", "null", "vdavinci100"):
        touch(tmp_path / "dev" / name)
    (tmp_path / "dev/davinci2").chmod(0o640)
    nodes = device_nodes(tmp_path)
    names = [(Path(node.path).name, node.device) for node in nodes]
    assert names == [("davinci2", 2), ("davinci10", 10), ("vdavinci100", 100), ("davinci_manager", None)]
    assert nodes[0].mode == "-rw-r-----"
    assert nodes[0].owner == pwd.getpwuid(os.geteuid()).pw_name
    assert [node.usable for node in nodes] == [True] * 4


def test_a_node_that_this_user_may_not_use(tmp_path, monkeypatch):
    path = touch(tmp_path / "dev/davinci0")
    asked = []

    def refuse(path, mode):
        asked.append((str(path), mode))
        return False

    monkeypatch.setattr(os, "access", refuse)
    assert [node.usable for node in device_nodes(tmp_path)] == [False]
    assert asked == [(path, os.R_OK | os.W_OK)]


def test_an_owner_without_a_name(tmp_path, monkeypatch):
    path = touch(tmp_path / "dev/davinci0")
    found = os.stat(path)
    fake = os.stat_result([*found[:4], 123456, 234567, *found[6:10]])
    monkeypatch.setattr(Path, "stat", lambda self: fake)
    node = device_nodes(tmp_path)[0]
    assert (node.owner, node.group) == ("123456", "234567")


def test_no_nodes(tmp_path):
    assert device_nodes(tmp_path) == []
    touch(tmp_path / "dev/null")
    assert device_nodes(tmp_path) == []
    (tmp_path / "dev/davinci0").symlink_to(tmp_path / "gone")
    assert device_nodes(tmp_path) == []


def test_the_driver_s_library(tmp_path):
    own = tmp_path / "usr/local/Ascend/driver/lib64"
    folders = (str(own), str(own / "common"), str(own / "driver"))
    assert driver_library({}, tmp_path) == ("", folders)
    path = touch(own / "driver/libascend_hal.so")
    assert driver_library({}, tmp_path) == (path, folders)
    named = touch(tmp_path / "named/libascend_hal.so")
    environ = {"LD_LIBRARY_PATH": "relative::/other:/named"}
    assert driver_library(environ, tmp_path) == (named, (f"{tmp_path}/other", f"{tmp_path}/named", *folders))


def test_without_the_variable_every_device_is_visible():
    assert visible_devices({}, [1, 0]) == VisibleDevices(None, (0, 1), ())


@pytest.mark.parametrize(
    ("text", "physical", "faults"),
    [
        ("0", (0,), ()),
        ("1,3,7", (1, 3, 7), ()),
        ("0,x,1", (0,), ("'x' is not a device's number",)),
        ("-1", (), ("'-1' is not a device's number",)),
        ("0, 1", (0,), ("' 1' is not a device's number",)),
        ("0,", (0,), ("an entry is empty",)),
        ("", (), ("an entry is empty",)),
        ("1,0", (1,), ("0 follows 1: ids must ascend, each once",)),
        ("2,2", (2,), ("2 follows 2: ids must ascend, each once",)),
        ("0,4", (0,), ("there is no device 4: present are 0, 1, 2, 3, 7",)),
        ("x,9", (), ("'x' is not a device's number", "there is no device 9: present are 0, 1, 2, 3, 7")),
        ("9" * 5000, (), (f"'{'9' * 5000}' is not a device's number",)),
    ],
)
def test_the_variable_and_its_faults(text, physical, faults):
    environ = {"ASCEND_RT_VISIBLE_DEVICES": text}
    assert visible_devices(environ, [0, 1, 2, 3, 7]) == VisibleDevices(text, physical, faults)


def test_without_nodes_the_range_is_not_known():
    assert visible_devices({"ASCEND_RT_VISIBLE_DEVICES": "0,9"}) == VisibleDevices("0,9", (0, 9), ())
