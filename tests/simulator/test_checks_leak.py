# SPDX-License-Identifier: Apache-2.0
"""The leak check: what is alive when ACL is finalised, or the device reset for the last time."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scatter_calls
from runtime_calls import Runtime, run_alone

import aclnn_kvcache as kv

BEGIN = """
    ok = lambda status: status == 0 or sys.exit(rt.message())
    ok(sim.aclInit(None)); ok(sim.aclrtSetDevice(0))
"""


def leaks(tmp_path: Path, script: str, **environ: str) -> list[tuple[str, str, str]]:
    """Kind, function and text of what a program of its own leaves behind, addresses and numbers left out."""
    done = run_alone(
        textwrap.dedent(BEGIN) + textwrap.dedent(script), ACLSIM_REPORT=str(tmp_path / "reports"), **environ
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in (tmp_path / "reports").read_text().splitlines()[1:]]
    assert {report["check"] for report in found} <= {"leak"}
    numbers = [int(re.search(r"number (\d+)", report["text"])[1]) for report in found]  # type: ignore[index]
    assert numbers == sorted(numbers), "in the order in which they were made"
    return [
        (report["kind"], report["function"], re.sub(r"0x[0-9a-f]+|number \d+", "N", report["text"])) for report in found
    ]


KINDS = {
    "device_memory": ("rt.malloc(20)", "20 bytes of device 0 at N are", "aclrtMalloc", "aclrtFree"),
    "host_memory": ("rt.malloc_host(100)", "100 bytes of the host at N are", "aclrtMallocHost", "aclrtFreeHost"),
    "stream": ("rt.stream()", "a stream, N, is", "aclrtCreateStream", "aclrtDestroyStream"),
    "event": ("rt.event()", "an event, N, is", "aclrtCreateEvent", "aclrtDestroyEvent"),
    "context": (
        'rt.out("aclrtCreateContext", ctypes.c_void_p, 0)',
        "a context, N, is",
        "aclrtCreateContext",
        "aclrtDestroyContext",
    ),
    "stream_config": (
        "sim.aclrtCreateStreamConfigHandle()",
        "a stream configuration, N, is",
        "aclrtCreateStreamConfigHandle",
        "aclrtDestroyStreamConfigHandle",
    ),
    "tensor": (
        "sim.aclCreateTensor(None, 0, 0, None, 0, 2, None, 0, None)",
        "a tensor, N, is",
        "aclCreateTensor",
        "aclDestroyTensor",
    ),
    "int_array": (
        "sim.aclCreateIntArray((ctypes.c_int64 * 1)(), 1)",
        "an int array, N, is",
        "aclCreateIntArray",
        "aclDestroyIntArray",
    ),
    "float_array": (
        "sim.aclCreateFloatArray((ctypes.c_float * 1)(), 1)",
        "a float array, N, is",
        "aclCreateFloatArray",
        "aclDestroyFloatArray",
    ),
    "bool_array": (
        "sim.aclCreateBoolArray((ctypes.c_bool * 1)(), 1)",
        "a bool array, N, is",
        "aclCreateBoolArray",
        "aclDestroyBoolArray",
    ),
    "scalar": (
        "sim.aclCreateScalar(ctypes.byref(ctypes.c_int64()), 9)",
        "a scalar, N, is",
        "aclCreateScalar",
        "aclDestroyScalar",
    ),
    "tensor_list": (
        "sim.aclCreateTensorList(None, 0)",
        "a tensor list, N, is",
        "aclCreateTensorList",
        "aclDestroyTensorList",
    ),
    "scalar_list": (
        "sim.aclCreateScalarList(None, 0)",
        "a scalar list, N, is",
        "aclCreateScalarList",
        "aclDestroyScalarList",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(tmp_path: Path, kind: str) -> None:
    call, what, made_by, ended_by = KINDS[kind]
    found = leaks(tmp_path, f"sim.aclsim_label(b'prompt'); {call}; sim.aclsim_label(None); ok(sim.aclFinalize())")
    text = f'{what} still there: N, made by {made_by} for "prompt"; call {ended_by} before aclFinalize'
    assert found == [(f"leaked_{kind}", "aclFinalize", text)]


def test_one_byte(tmp_path: Path) -> None:
    ((_, _, text),) = leaks(tmp_path, "rt.malloc(1); ok(sim.aclFinalize())")
    assert text.startswith("1 byte of device 0 at N is still there: ")


def test_all_of_them_in_order(tmp_path: Path) -> None:
    found = leaks(tmp_path, "\n".join(["keep = []", *(call for call, *_ in KINDS.values()), "ok(sim.aclFinalize())"]))
    assert [kind for kind, *_ in found] == [f"leaked_{kind}" for kind in KINDS]


def test_a_program_that_gives_everything_back(tmp_path: Path) -> None:
    assert (
        leaks(
            tmp_path,
            """
            stream, memory = rt.stream(), rt.malloc(20)
            ok(sim.aclrtDestroyStream(stream)); ok(sim.aclrtFree(memory))
            ok(sim.aclrtResetDevice(0)); ok(sim.aclFinalize())
            """,
        )
        == []
    )


def test_streams_end_with_their_device(tmp_path: Path) -> None:
    """The last reset ends them unasked; what outlives it is told at the end."""
    assert leaks(
        tmp_path,
        """
        rt.malloc(20); rt.event(); rt.stream()
        ok(sim.aclrtSetDevice(0)); ok(sim.aclrtResetDevice(0)); print("not yet", flush=True)
        ok(sim.aclrtResetDevice(0)); ok(sim.aclsim_set_checks(b"none")); ok(sim.aclFinalize())
        """,
    ) == [
        (
            "leaked_event",
            "aclrtResetDevice",
            "an event, N, is still there: N, made by aclrtCreateEvent; call aclrtDestroyEvent before aclrtResetDevice",
        ),
        (
            "leaked_stream",
            "aclrtResetDevice",
            "a stream, N, is still there: N, made by aclrtCreateStream; call aclrtDestroyStream before "
            "aclrtResetDevice",
        ),
    ]


def test_a_forced_reset_ends_memory_too(tmp_path: Path) -> None:
    assert leaks(tmp_path, "rt.malloc(20); ok(sim.aclrtResetDeviceForce(0)); ok(sim.aclFinalize())") == [
        ("leaked_device_memory", "aclrtResetDeviceForce", "20 bytes of device 0 at N are still there: N, made by "
         "aclrtMalloc; call aclrtFree before aclrtResetDeviceForce")
    ]  # fmt: skip


def test_only_the_last_reference_finalises(tmp_path: Path) -> None:
    script = """
        sim.aclInit(None); count = ctypes.c_uint64(); rt.malloc(20)
        ok(sim.aclFinalizeReference(ctypes.byref(count)))
        before = sim.aclsim_report_count()
        ok(sim.aclFinalizeReference(ctypes.byref(count)))
        assert (before, sim.aclsim_report_count()) == (0, 1)
    """
    assert [kind for kind, *_ in leaks(tmp_path, script, ACLSIM_CHECK="leak")] == ["leaked_device_memory"]


def test_without_the_check_nothing_is_said(tmp_path: Path) -> None:
    assert leaks(tmp_path, "rt.malloc(20); ok(sim.aclFinalize())", ACLSIM_CHECK="mem,init,race,sync,api") == []


def test_an_executor_whose_second_phase_never_came(sim: Any, reports: Any) -> None:
    device = scatter_calls.Device(sim)
    call = scatter_calls.Call(device)
    status, _, executor = device.phase1(call.handles)
    assert status == 0
    assert (sim.aclFinalize(), sim.aclInit(None)) == (0, 0)
    by_kind = {report["kind"]: report for report in reports.take()}
    assert by_kind["leaked_executor"]["text"].endswith(
        "made by aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize; call its phase 2 or aclDestroyAclOpExecutor before "
        "aclFinalize"
    )
    assert set(by_kind) == {"leaked_executor", "leaked_device_memory", "leaked_tensor", "leaked_stream"}
    device.discard(executor)
    device.close()


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (b"x" * 100, ' for "' + "x" * 39 + '"'),
        (b'a"b\\c\n', ' for "a?b?c?"'),
        ("ä".encode(), ' for "??"'),
        (b"", ""),
        (None, ""),
    ],
)
def test_labels(initialised: Any, sim: Any, reports: Any, label: bytes | None, said: str) -> None:
    rt = Runtime(sim)
    rt.ok("aclrtSetDevice", 0)
    sim.aclsim_label(label)
    rt.malloc(20)
    sim.aclsim_label(None)
    rt.ok("aclrtResetDeviceForce", 0)
    (report,) = reports.take()
    assert f"made by aclrtMalloc{said}; call aclrtFree before " in report["text"]


def test_a_session_leaves_nothing(sim: Any) -> None:
    with kv.Session(backend="simulator") as session:
        array = session.array(np.zeros(4, np.float32))
        session.create_stream()
        session.create_event()
        assert array.numpy().tolist() == [0] * 4
    assert sim.live() == {}
