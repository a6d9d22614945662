# SPDX-License-Identifier: Apache-2.0
"""Fault plans: their text, what each kind of fault does, and what the package makes of it. See also test_sweep.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from runtime_calls import D2H, Runtime, run_alone, succeed_alone
from scenarios import scatter, scatter_arrays

import aclnn_kvcache as kv
from aclnn_kvcache.native.prototypes import declarations

SCATTER = "aclnnScatterPaKvCacheWithKScale"
POINTER = ctypes.c_void_p
SetPlan = Callable[[str], None]


@pytest.fixture
def rt(sim: Any) -> Runtime:
    return Runtime(sim)


@pytest.fixture
def plan(sim: Any) -> Iterator[SetPlan]:
    def set_plan(text: str) -> None:
        assert sim.aclsim_set_faults(text.encode()) == 0

    yield set_plan
    assert sim.aclsim_set_faults(None) == 0


@pytest.fixture
def device(initialised: Any, rt: Runtime) -> Iterator[Runtime]:
    rt.ok("aclrtSetDevice", 0)
    rt.message()
    yield rt
    rt.sim.aclsim_set_faults(None)
    rt.drop_everything()


def names(sim: Any) -> list[str]:
    return [sim.aclsim_call_name(number).decode() for number in range(1, sim.aclsim_call_count() + 1)]


# --- the text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("aclrtMaloc#1=1", '"aclrtMaloc" is no target; expected a function of the simulator'),
        ("aclrtMalloc", '"aclrtMalloc" is no entry; expected count, message=... or TARGET#N=...'),
        ("aclrtMalloc#1", "aclrtMalloc#1 has nothing to happen; expected = and a failure, or :delay=Nms"),
        ("aclrtMalloc#0=207001", '"0" is no count; expected a number from 1, or *'),
        ("aclrtMalloc#-1=207001", '"-1" is no count'),
        ("aclrtMalloc#1x=207001", '"1x" is no count'),
        ("aclrtMalloc#=207001", '"" is no count'),
        ("aclrtMalloc#1=0", '"0" is no failure; expected a status, which is a number from 1 to 2147483647'),
        ("aclrtMalloc#1=2147483648", '"2147483648" is no failure'),
        ("aclrtMalloc#1=NULL", '"NULL" is no failure; expected a status'),
        ("aclrtMalloc#1=", '"" is no failure'),
        ("aclCreateTensor#1=561000", '"561000" is no failure; expected NULL'),
        ("aclDataTypeSize#1=1", "aclDataTypeSize cannot fail; it can take a delay"),
        ("call#1=207001", '"207001" is no failure; expected fail'),
        ("allocation#1=207001", '"207001" is no failure; expected exhausted'),
        ("allocation#1=exhausted:after", '"after" cannot stand here'),
        ("allocation#1:delay=1ms", '"delay=1ms" cannot stand here'),
        (
            "aclrtMalloc#1=1:rubbish",
            '"rubbish" cannot stand here; expected after behind a failure, rubbish behind',
        ),
        (f"{SCATTER}GetWorkspaceSize#1=1:after:rubbish", '"rubbish" cannot stand here'),
        ("aclrtMalloc#1:after", '"after" cannot stand here'),
        ("aclrtMalloc#1:delay=0ms", '"delay=0ms" cannot stand here'),
        ("aclrtMalloc#1:delay=60001ms", '"delay=60001ms" cannot stand here'),
        ("aclrtMalloc#1:delay=5", '"delay=5" cannot stand here'),
        ("aclrtMalloc#1=1:", '"" cannot stand here'),
        ("kernel:aclrtMalloc#1=1", "aclrtMalloc queues no work that could fail later"),
        ("kernel:aclnnAdd#1=1", '"kernel:aclnnAdd" is no target'),
        ("aclsim_version#1=1", '"aclsim_version" is no target'),
        ("message=loud", 'message is "loud"; expected null, badbytes or stale'),
        ("count;", '"" is no entry'),
        ("count=1", '"count=1" is no entry'),
        ("x" * 5000 + "#1=1", 'xxx" is no target'),
    ],
)
def test_a_wrong_text_is_refused_aloud_and_changes_nothing(
    sim: Any, rt: Runtime, plan: SetPlan, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    plan("aclrtGetRunMode#2=507899")
    kind = ctypes.byref(ctypes.c_int())
    assert rt.code("aclrtGetRunMode", kind) == 0
    assert sim.aclsim_set_faults(text.encode()) != 0
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("aclsim: aclsim_set_faults: ")
    assert complaint in line
    assert rt.code("aclrtGetRunMode", kind) == 507899


def test_a_process_begins_with_the_plan_of_the_environment() -> None:
    script = """
        mode = ctypes.byref(ctypes.c_int())
        print(rt.code("aclrtGetRunMode", mode), sim.aclsim_call_count(), sim.aclsim_fault_count())
        print(sim.aclsim_set_faults(None), rt.code("aclrtGetRunMode", mode))
    """
    assert succeed_alone(script, init=False, ACLSIM_FAULTS=" aclrtGetRunMode#1=507899 ; count ") == "507899 1 1\n0 0"
    assert succeed_alone(script, init=False, ACLSIM_FAULTS="") == "0 0 0\n0 0"


def test_a_wrong_environment_variable_fails_aloud_until_a_plan_is_set() -> None:
    script = """
        print(rt.code("aclInit", None), rt.message().strip())
        print(sim.aclsim_set_faults(b""), sim.aclInit(None))
    """
    done = run_alone(script, ACLSIM_FAULTS="aclrtMalloc#1=oom")
    wrong = '"oom" is no failure; expected a status, which is a number from 1 to 2147483647'
    assert done.stderr.splitlines() == [f"aclsim: ACLSIM_FAULTS: {wrong}"]
    first, repaired = done.stdout.splitlines()
    assert first.startswith("500000 [PID: ")
    assert first.endswith(f"(EE2002): aclInit failed with 500000: ACLSIM_FAULTS is wrong: {wrong}.")
    assert repaired == "0 0"


def test_a_forked_child_sets_no_plan() -> None:
    done = run_alone("""
        sim.aclInit(None)
        child = os.fork()
        if child == 0:
            os._exit(sim.aclsim_set_faults(b"count") == 0)
        print(os.waitpid(child, 0)[1])
    """)
    assert (done.stdout.strip(), done.stderr) == (
        "0",
        "aclsim: aclsim_set_faults: this process was forked from one that uses the runtime\n",
    )


# --- which calls


FUNCTIONS = {name: prototype for name, prototype in declarations().prototypes.items() if not name.startswith("aclsim_")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_counted_and_fails_when_it_can(sim: Any, plan: SetPlan, name: str) -> None:
    prototype, function = FUNCTIONS[name], getattr(sim, name)
    nothing = [getattr(parameter.ctype, "_type_", None) in list("PzZ") for parameter in prototype.parameters]
    arguments = [
        None if is_pointer or isinstance(parameter.ctype, type(ctypes.POINTER(ctypes.c_int))) else parameter.ctype(0)
        for is_pointer, parameter in zip(nothing, prototype.parameters, strict=True)
    ]
    plan("call#1=fail")
    result = function(*arguments)
    assert names(sim) == [name]
    if prototype.result is ctypes.c_int:
        assert (result > 0, sim.aclsim_fault_count()) == (True, 1)
        assert f"{name} failed with {result}: the fault plan has it fail here." in sim.aclGetRecentErrMsg().decode()
        plan(f"{name}#1=424242")
        assert function(*arguments) == 424242
    elif prototype.result in (ctypes.c_void_p, ctypes.c_char_p):
        assert (result, sim.aclsim_fault_count()) == (None, 1)
    else:
        assert (result, sim.aclsim_fault_count()) == (function(*arguments), 0)


def test_calls_count_from_when_the_plan_was_set(device: Runtime, plan: SetPlan) -> None:
    def codes() -> list[int]:
        return [device.code("aclrtGetRunMode", ctypes.byref(ctypes.c_int())) for _ in range(4)]

    plan("aclrtGetRunMode#2=507001; aclrtGetRunMode#4=507002")
    assert codes() == [0, 507001, 0, 507002]
    assert (codes(), device.sim.aclsim_fault_count()) == ([0, 0, 0, 0], 2)
    plan("aclrtGetRunMode#*=507003; aclrtGetRunMode#2=507004")
    assert codes() == [507003] * 4
    plan("call#3=fail")
    assert codes() == [0, 0, 507899, 0]
    assert [device.sim.aclsim_call_name(number) for number in (0, 4, 5)] == [None, b"aclrtGetRunMode", None]
    device.sim.aclsim_set_faults(b"")
    assert (codes(), device.sim.aclsim_call_count(), device.sim.aclsim_fault_count()) == ([0] * 4, 0, 0)


def test_calls_inside_a_call_and_of_workers_are_not_counted(sim: Any, session: kv.Session, plan: SetPlan) -> None:
    members = [sim.aclCreateTensor(None, 0, 0, None, 0, 2, None, 0, None) for _ in range(2)]
    tensors = sim.aclCreateTensorList((POINTER * 2)(*members), 2)
    plan("count")
    assert sim.aclDestroyTensorList(tensors) == 0
    assert names(sim) == ["aclDestroyTensorList"]
    scatter(session, scatter_arrays())
    assert "aclDataTypeSize" not in names(sim)  # the kernels ask for it


# --- what happens


@pytest.mark.parametrize(("manner", "made"), [("", 0), (":after", 1)])
def test_a_failing_call_did_its_work_or_did_not(device: Runtime, plan: SetPlan, manner: str, made: int) -> None:
    plan(f"aclrtMalloc#1=207001{manner}")
    address = POINTER(77)
    assert device.code("aclrtMalloc", ctypes.byref(address), 64, 0) == 207001
    assert device.code("aclrtPeekAtLastError", 0) == 207001
    assert device.counter("ACLSIM_LIVE_DEVICE_ALLOCATIONS") == made
    if made:
        device.ok("aclrtFree", address)
    assert (address.value == 77) == (not made)


def test_memory_runs_out_for_whoever_asks_next(device: Runtime, plan: SetPlan) -> None:
    plan("allocation#2=exhausted")
    first, second = device.malloc(64), POINTER()
    assert device.code("aclrtMallocHost", ctypes.byref(second), 64) == 207001
    third = device.malloc_host()
    plan("allocation#*=exhausted")
    assert device.code("aclrtMallocWithCfg", ctypes.byref(second), 64, 0, None) == 207001
    assert "(EE1021): aclrtMallocWithCfg failed with 207001: size is 64" in (device.message() or "")
    assert second.value is None
    device.ok("aclrtFree", first)
    device.ok("aclrtFreeHost", third)


@pytest.mark.parametrize(("manner", "written"), [("", b"\x11" * 64), (":after", b"\x22" * 64)])
def test_queued_work_fails_when_its_turn_comes(device: Runtime, plan: SetPlan, manner: str, written: bytes) -> None:
    address = device.malloc(64)
    device.write(address, b"\x11" * 64)
    plan(f"kernel:aclrtMemsetAsync#2=507015{manner}")
    device.ok("aclrtMemsetAsync", address, 64, 0x11, 64, None)
    device.ok("aclrtMemsetAsync", address, 64, 0x22, 64, None)
    assert device.code("aclrtSynchronizeStream", None) == 507015
    assert "aclrtMemsetAsync: the fault plan has it fail here" in (device.message() or "")
    device.ok("aclrtSynchronizeStream", None)
    assert device.read(address, 64) == written
    device.ok("aclrtFree", address)


def test_work_takes_its_time(device: Runtime, plan: SetPlan) -> None:
    """The kernel is still asleep when the call has returned; dropping the stream wakes it."""
    address, stream = device.malloc(64), device.stream()
    plan("kernel:aclrtMemsetAsync#1:delay=60000ms")
    device.ok("aclrtMemsetAsync", address, 64, 0, 64, stream)
    assert device.code("aclrtSynchronizeStreamWithTimeout", stream, 1) == 507046
    device.ok("aclrtDestroyStreamForce", stream)
    device.ok("aclrtFree", address)


def test_a_call_takes_its_time_and_then_works(device: Runtime, plan: SetPlan) -> None:
    address = device.malloc(4)
    device.write(address, b"abcd")
    plan("aclrtMemcpy#1:delay=1ms;aclrtMemcpy#2=507899:delay=1ms;aclDataTypeSize#1:delay=1ms")
    assert device.read(address, 4) == b"abcd"
    assert device.code("aclrtMemcpy", ctypes.create_string_buffer(4), 4, address, 4, D2H) == 507899
    assert (device.sim.aclDataTypeSize(0), device.sim.aclsim_fault_count()) == (4, 3)
    device.ok("aclrtFree", address)


@pytest.mark.usefixtures("initialised")
def test_the_message_is_what_the_plan_says(rt: Runtime, sim: Any, plan: SetPlan) -> None:
    def said(function: str) -> bytes | None:
        getattr(sim, function)(None)
        return sim.aclGetRecentErrMsg()

    plan("message=null")
    assert said("aclrtGetRunMode") is None
    plan("message=badbytes")
    bad = said("aclrtGetRunMode")
    assert bad is not None
    with pytest.raises(UnicodeDecodeError):
        bad.decode()
    plan("message=stale")
    first, second, third = said("aclrtGetRunMode"), said("aclrtGetDeviceCount"), sim.aclGetRecentErrMsg()
    assert first is not None and second is not None  # noqa: PT018
    assert second.endswith(b"\n" + first)
    assert b"aclrtGetDeviceCount failed" in second
    assert third == second
    plan("count")
    assert b"aclrtGetRunMode failed" in (said("aclrtGetRunMode") or b"")


# --- what the package makes of it


def test_a_phase_1_that_fails_with_rubbish_leaves_nothing_to_destroy(
    sim: Any, session: kv.Session, plan: SetPlan
) -> None:
    arrays, reported = scatter_arrays(), sim.counter("ACLSIM_REPORTS")
    before = arrays["key_cache"].tobytes()
    plan(f"{SCATTER}GetWorkspaceSize#1=561103:rubbish")
    with pytest.raises(kv.AclnnInnerError) as caught:
        scatter(session, arrays)
    assert (caught.value.status, caught.value.phase, arrays["key_cache"].tobytes()) == (561103, 1, before)
    scatter(session, arrays)
    assert "aclDestroyAclOpExecutor" not in names(sim)
    assert (sim.counter("ACLSIM_REPORTS"), arrays["key_cache"].tobytes() != before) == (reported, True)


def test_out_parameters_of_a_failed_phase_1_are_rubbish(sim: Any, plan: SetPlan) -> None:
    size, executor = ctypes.c_uint64(1), POINTER(1)
    plan(f"{SCATTER}GetWorkspaceSize#*=561103:rubbish")
    phase_1 = getattr(sim, f"{SCATTER}GetWorkspaceSize")
    assert phase_1(*[None] * 8, ctypes.byref(size), ctypes.byref(executor)) == 561103
    assert (size.value, executor.value) == (0xDEADBEEFDEADBEEF, 0xDEADBEEFDEADBEE0)
    assert phase_1(*[None] * 10) == 561103


def test_a_kernel_that_fails_is_told_by_the_call_that_waits(session: kv.Session, plan: SetPlan) -> None:
    arrays = scatter_arrays()
    before = arrays["key_cache"].tobytes()
    plan(f"kernel:{SCATTER}#1=507015")
    with pytest.raises(kv.DeviceFaultError) as caught:
        scatter(session, arrays)
    assert (caught.value.status, caught.value.operator) == (507015, SCATTER)
    assert arrays["key_cache"].tobytes() == before


def test_exhausted_memory_is_told_with_sizes(session: kv.Session, plan: SetPlan) -> None:
    plan("allocation#1=exhausted")
    with pytest.raises(kv.OutOfDeviceMemory, match=r"asked for 12 bytes; device 0 has \d+ free of \d+"):
        session.array(np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("null", ""),
        ("badbytes", "EZ���"),
        ("stale", "aclrtMalloc failed with 207005"),
    ],
)
def test_no_message_hides_an_error(session: kv.Session, plan: SetPlan, message: str, text: str) -> None:
    plan(f"message={message};aclrtMalloc#*=207005")
    for _ in range(2):
        with pytest.raises(kv.AclError) as caught:
            session.empty(3, np.float32)
        error = caught.value
        assert (error.status, error.api) == (207005, "aclrtMalloc")
        assert text in error.library_message
        assert str(error).startswith("aclrtMalloc answered 207005 ACL_ERROR_RT_RESOURCE_ALLOC_FAIL: ")
    if message == "stale":
        assert error.library_message.count("aclrtMalloc failed") == 1
