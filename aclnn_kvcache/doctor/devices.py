# SPDX-License-Identifier: Apache-2.0
"""Checks of the driver and the devices: what the file system shows, and what the libraries see."""

from __future__ import annotations

from collections.abc import Iterator

from aclnn_kvcache.doctor.report import OK, PROBLEM, WARNING, Line
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.doctor.variables import PROFILE
from aclnn_kvcache.native.driver import HAL, MANAGER, VISIBLE, Node, device_nodes, driver_library, visible_devices
from aclnn_kvcache.native.kernels import PRODUCT
from aclnn_kvcache.native.packages import MISSING, driver

MOUNT_DRIVER = (
    "install the NPU driver, or start the container with -v /usr/local/Ascend/driver:/usr/local/Ascend/driver"
)
ASK_THE_DRIVER = "run 'npu-smi info' in this shell: where that fails too, driver or container mounts are at fault"


def check_driver(subject: Subject) -> Iterator[Line]:
    if subject.simulated:
        yield Line("driver", OK, "the simulator needs none")
        return
    found = driver(subject.root)
    if found.version:
        yield Line("driver", OK, f"driver {found.version} ({found.path})")
    elif found.fault == MISSING:
        yield Line("driver", PROBLEM, f"no driver: {found.path}: {found.fault}", MOUNT_DRIVER)
    else:
        yield Line(
            "driver", WARNING, f"{found.path}: {found.fault}", f"let this user read it: sudo chmod a+r {found.path}"
        )
    library = driver_library(subject.environ, subject.root)
    if library.path:
        yield Line("driver", OK, library.path)
    else:
        yield Line("driver", PROBLEM, f"no {HAL} in {', '.join(library.searched)}", MOUNT_DRIVER)


def check_nodes(subject: Subject) -> Iterator[Line]:
    """The device nodes, and whether this user may use them."""
    if subject.simulated:
        yield Line("nodes", OK, "the simulator needs none")
        return
    nodes = device_nodes(subject.root)
    devices = [node for node in nodes if node.device is not None]
    if not devices:
        text = "no NPU: there is no /dev/davinci<N>"
        cure = f"run on an Ascend host; in a container: --device /dev/davinci0 --device /dev/{MANAGER}"
        yield Line("devices", PROBLEM, text, cure)
    elif len(devices) == len(nodes):
        text = f"there is no /dev/{MANAGER} beside the devices"
        yield Line("devices", PROBLEM, text, f"start the container with --device /dev/{MANAGER}")
    for node in nodes:
        yield _permission(node)


def _permission(node: Node) -> Line:
    text = f"{node.path} {node.mode} {node.owner} {node.group}"
    if node.usable:
        return Line("nodes", OK, text)
    cure = f"sudo usermod -aG {node.group} $USER, then log in again"
    return Line("nodes", PROBLEM, f"{text}: this user may not read and write it", cure)


def check_visible(subject: Subject) -> Iterator[Line]:
    """ASCEND_RT_VISIBLE_DEVICES, and which physical device each index stands for."""
    nodes = [] if subject.simulated else device_nodes(subject.root)
    visible = visible_devices(subject.environ, [node.device for node in nodes if node.device is not None])
    if visible.text is None:
        yield Line("visible", OK, f"{VISIBLE} is not set: every device is visible")
    elif visible.faults:
        cure = f"export {VISIBLE}={','.join(map(str, visible.physical))}" if visible.physical else f"unset {VISIBLE}"
        yield Line("visible", PROBLEM, f"{VISIBLE}={visible.text}: {'; '.join(visible.faults)}", cure)
    else:
        order = ", ".join(f"device {index} is physical device {id}" for index, id in enumerate(visible.physical))
        yield Line("visible", OK, f"{VISIBLE}={visible.text}: {order}")


def check_devices(subject: Subject) -> Iterator[Line]:
    """The devices as the libraries count them, and the product."""
    if error := subject.error("devices"):
        cure = f"unset {VISIBLE} {PROFILE}" if subject.simulated else ASK_THE_DRIVER
        yield Line("devices", PROBLEM, error, cure)
        return
    facts = subject.stage("devices")
    if not facts:
        return
    count, name = facts["count"], facts["soc_name"]
    if subject.lacks_the_device:
        visible = f"{count} are visible" if count != 1 else "1 is visible"
        text = f"there is no device {subject.device}: {visible} to the libraries, counted from 0"
        yield Line("devices", PROBLEM, text, f"use --device 0 to {count - 1}" if count else f"unset {VISIBLE}")
    else:
        yield Line("devices", OK, f"{count} visible to the libraries, counted from 0; device {subject.device} is used")
    if name.startswith(PRODUCT):
        yield Line("product", OK, name)
    else:
        text = f"this is {name}, and both operators exist for {PRODUCT} only"
        yield Line(
            "product", PROBLEM, text, f"unset {PROFILE}" if subject.simulated else "run on a host with an Ascend 950"
        )
