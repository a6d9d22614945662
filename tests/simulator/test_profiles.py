# SPDX-License-Identifier: Apache-2.0
"""Other installations than the simulator's own: another product, fewer devices, another release, missing kernels."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import qkv_calls
import scatter_calls
from runtime_calls import Runtime, run_alone, succeed_alone

import aclnn_kvcache as kv

SCATTER, QKV = "aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale"
SetProfile = Callable[[str], None]


pytestmark = pytest.mark.usefixtures("reports")
"""Profiles are set before ACL is initialised, and much here goes on without that, which is reported."""


@pytest.fixture
def rt(sim: Any) -> Runtime:
    return Runtime(sim)


@pytest.fixture
def profile(sim: Any) -> Iterator[SetProfile]:
    """Sets a profile for the test, and the default behind it."""

    def set_profile(text: str) -> None:
        assert sim.aclsim_set_profile(text.encode()) == 0

    yield set_profile
    assert sim.aclsim_set_profile(None) == 0
    assert sim.aclrtGetSocName() == b"Ascend950PR_9599"


def count(rt: Runtime) -> tuple[int, int]:
    """The status of aclrtGetDeviceCount, and what it wrote over a 77."""
    number = ctypes.c_uint32(77)
    return rt.code("aclrtGetDeviceCount", ctypes.byref(number)), number.value


def versions(rt: Runtime) -> list[Any]:
    """The version as text, as a number, in its parts, and the runtime's interface."""
    text, record = ctypes.create_string_buffer(128), ctypes.create_string_buffer(512)
    rt.ok("aclsysGetVersionStr", b"runtime", text)
    number = rt.out("aclsysGetVersionNum", ctypes.c_int32, b"opbase", first=False)
    rt.ok("aclsysGetCANNVersion", 1, record)
    parts = [record.raw[at:].split(b"\0")[0] for at in (0, 128, 192, 256, 320)]
    interface = [ctypes.c_int32() for _ in range(3)]
    rt.ok("aclrtGetVersion", *map(ctypes.byref, interface))
    return [text.value, number, parts, [part.value for part in interface]]


# --- the text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("soc=910B2", 'soc is "910B2"; expected the name of a product, such as Ascend910B2'),
        ("soc=Ascend 910B2", 'soc is "Ascend 910B2"; expected the name of a product'),
        ("soc=Ascend" + "9" * 58, f'soc is "Ascend{"9" * 58}"; expected the name of a product'),
        ("soc", 'soc is ""; expected the name of a product'),
        ("devices=9", 'devices is "9"; expected a number from 0 to 8'),
        ("devices=-1", 'devices is "-1"; expected a number from 0 to 8'),
        ("devices=", 'devices is ""; expected a number from 0 to 8'),
        ("devices=1;devices=1", "devices is given twice"),
        ("cann=8.5", 'cann is "8.5"; expected a version, such as 8.5.0'),
        ("cann=8.5.0.0", 'cann is "8.5.0.0"; expected a version'),
        ("cann=8.5.0-beta.1", 'cann is "8.5.0-beta.1"; expected a version'),
        ("cann=100.0.0", 'cann is "100.0.0"; expected a version'),
        (f"no_kernels={SCATTER},", f"expected a comma list of {SCATTER} and {QKV}"),
        (f"no_kernels={SCATTER},aclnnAdd", f'no_kernels is "{SCATTER},aclnnAdd"; expected a comma list'),
        ("memory=1", '"memory" is no key; expected soc, devices, cann or no_kernels'),
        ("devices=1;", '"" is no key'),
        (" devices=1", '" devices" is no key'),
        ("soc=" + "A" * 5000, 'soc is "AAAA'),
    ],
)
def test_a_wrong_text_is_refused_aloud_and_changes_nothing(
    sim: Any, rt: Runtime, profile: SetProfile, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    profile("devices=1;cann=8.5.0")
    assert sim.aclsim_set_profile(text.encode()) != 0
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("aclsim: aclsim_set_profile: ")
    assert complaint in line
    assert (count(rt), versions(rt)[0]) == ((0, 1), b"8.5.0")


@pytest.mark.parametrize("text", [b"", None])
def test_no_text_restores_every_default(sim: Any, rt: Runtime, profile: SetProfile, text: bytes | None) -> None:
    profile("soc=Ascend310P3;devices=1;cann=8.5.0")
    assert sim.aclsim_set_profile(text) == 0
    assert (sim.aclrtGetSocName(), count(rt), versions(rt)[0]) == (b"Ascend950PR_9599", (0, 2), b"9.1.0")


def test_a_profile_replaces_the_one_before(sim: Any, rt: Runtime, profile: SetProfile) -> None:
    profile("soc=Ascend310P3;cann=8.5.0")
    name = sim.aclrtGetSocName
    name.restype = ctypes.c_void_p  # the address, which a caller may keep
    kept = name()
    name.restype = ctypes.c_char_p
    profile("devices=1")
    assert (sim.aclrtGetSocName(), count(rt), versions(rt)[0]) == (b"Ascend950PR_9599", (0, 1), b"9.1.0")
    assert ctypes.string_at(kept) == b"Ascend310P3"


def test_the_profile_stays_while_acl_is_initialised() -> None:
    done = run_alone("""
        def device_count(): return rt.out("aclrtGetDeviceCount", ctypes.c_uint32)
        def set_one(): return sim.aclsim_set_profile(b"devices=1") == 0, device_count()
        sim.aclInit(None); sim.aclInit(None)
        print(set_one(), sim.aclFinalizeReference(None), set_one(), sim.aclFinalizeReference(None), set_one())
        sim.aclInit(None)
        print(sim.aclsim_set_profile(None) == 0, sim.aclFinalize(), sim.aclsim_set_profile(None), device_count())
    """)
    assert done.stdout.splitlines() == ["(False, 2) 0 (False, 2) 0 (True, 1)", "False 0 0 2"]
    lines = [line for line in done.stderr.splitlines() if not line.startswith("aclsim: api: ")]
    assert (
        lines
        == ["aclsim: aclsim_set_profile: ACL is initialised; set the profile before aclInit or after finalising"] * 3
    )


def test_a_failed_initialisation_lets_the_profile_be_set() -> None:
    script = """
        print(sim.aclsim_set_profile(b"devices=0"), sim.aclInit(None), sim.aclsim_set_profile(None), sim.aclInit(None))
    """
    assert succeed_alone(script) == "0 500000 0 0"


def test_a_forked_child_sets_no_profile() -> None:
    done = run_alone("""
        sim.aclrtSetDevice(0)
        child = os.fork()
        if child == 0:
            os._exit(sim.aclsim_set_profile(b"devices=1") == 0)
        print(os.waitpid(child, 0)[1])
    """)
    assert done.stdout.strip() == "0"
    assert "aclsim_set_profile: this process was forked" in done.stderr


# --- the environment variable


def test_a_process_begins_with_the_profile_of_the_environment() -> None:
    script = """
        os.environ["ACLSIM_PROFILE"] = "devices=1"
        first = sim.aclrtGetSocName(), rt.out("aclrtGetDeviceCount", ctypes.c_uint32)
        os.environ["ACLSIM_PROFILE"] = "devices=2"
        print(first, rt.out("aclrtGetDeviceCount", ctypes.c_uint32), sim.aclInit(None))
    """
    for given in "soc=Ascend910B2;devices=8", "":
        assert (
            succeed_alone(script, reports=["api:call_before_init"], ACLSIM_PROFILE=given)
            == "(b'Ascend950PR_9599', 1) 1 0"
        ), "read at the first call"
    script = "print(sim.aclrtGetSocName(), rt.out('aclrtGetDeviceCount', ctypes.c_uint32), sim.aclInit(None))"
    assert (
        succeed_alone(script, reports=["api:call_before_init"], ACLSIM_PROFILE="soc=Ascend910B2;devices=8")
        == "b'Ascend910B2' 8 0"
    )
    assert succeed_alone(script, reports=["api:call_before_init"], ACLSIM_PROFILE="") == "b'Ascend950PR_9599' 2 0"


def test_a_profile_that_was_set_wins_over_the_environment() -> None:
    script = "print(sim.aclsim_set_profile(b'devices=3'), rt.out('aclrtGetDeviceCount', ctypes.c_uint32))"
    assert succeed_alone(script, init=False, reports=["api:call_before_init"], ACLSIM_PROFILE="devices=1") == "0 3"


def test_a_wrong_environment_variable_fails_aloud_until_a_profile_is_set() -> None:
    done = run_alone(
        """
        number, text = ctypes.byref(ctypes.c_uint32()), ctypes.create_string_buffer(128)
        for name, arguments in (
            ("aclInit", [None]), ("aclrtGetDeviceCount", [number]), ("aclrtSetDevice", [0]),
            ("aclsysGetVersionStr", [b"runtime", text]),
        ):
            print(rt.code(name, *arguments), rt.message().splitlines()[0])
        print(sim.aclrtGetSocName(), sim.aclrtPeekAtLastError(0))
        print(sim.aclsim_set_profile(b""), sim.aclInit(None), sim.aclrtGetSocName())
        """,
        ACLSIM_CHECK="none",  # which would say that ACL is not initialised
        ACLSIM_PROFILE="soc=910B2",
    )
    wrong = 'soc is "910B2"; expected the name of a product, such as Ascend910B2'
    assert done.stderr.splitlines() == [f"aclsim: ACLSIM_PROFILE: {wrong}"]
    *answers, name, repaired = done.stdout.splitlines()
    codes = {"aclInit": 500000, "aclrtGetDeviceCount": 207004, "aclrtSetDevice": 207004, "aclsysGetVersionStr": 100003}
    for line, (function, code) in zip(answers, codes.items(), strict=True):
        assert line.startswith(f"{code} [PID: ")
        text = f"Config_Error_Invalid_Environment_Variable(EE2002): {function} failed with {code}: ACLSIM_PROFILE is "
        assert line.endswith(f"{text}wrong: {wrong}.")
    assert (name, repaired) == ("None 507008", "0 0 b'Ascend950PR_9599'")


# --- soc, no_kernels


@pytest.fixture(params=[SCATTER, QKV])
def phase_1(sim: Any, profile: SetProfile, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Operator, device, and a call of it that is legal: handles and attributes of its phase 1."""
    calls: Any = scatter_calls if request.param == SCATTER else qkv_calls
    device = calls.Device(sim, init=False)
    call = calls.Call(device)
    if request.param == QKV:
        call.prepare()
        yield request.param, device, [call.tensors[name] for name in qkv_calls.NAMES], call.attributes
    else:
        yield request.param, device, call.handles, b"BNBD"
    device.close()


def check_missing_kernels(operator: str, soc: str, message: str) -> None:
    """The form is CANN's: a headline with code and title, then the layers above, indented."""
    first, trace, *layers = message.splitlines()
    assert re.fullmatch(
        rf"\[PID: \d+\] [-:.\d]+ Config_Error\(EZ1013\): .*operator package.* kernels of {operator} for {soc}", first
    )
    assert trace == "TraceBack (most recent call last):"
    assert layers
    assert all(line.startswith(f"        {operator}: ") for line in layers)


@pytest.mark.parametrize("soc", ["Ascend910B2", "Ascend910_9391", "Ascend310P3", "Ascend95"])
def test_another_product_has_no_kernels(phase_1: Any, profile: SetProfile, soc: str) -> None:
    operator, device, handles, attributes = phase_1
    profile(f"soc={soc}")
    assert device.sim.aclrtGetSocName() == soc.encode()
    assert device.phase1(handles, attributes)[0] == 561103
    check_missing_kernels(operator, soc, device.message())
    profile("soc=Ascend950DT_9591")
    assert device.workspace_size(handles, attributes) > 0


def test_kernels_that_are_not_installed(phase_1: Any, profile: SetProfile) -> None:
    operator, device, handles, attributes = phase_1
    profile(f"no_kernels={SCATTER if operator == QKV else QKV}")
    assert device.workspace_size(handles, attributes) > 0, "another operator's"
    for text in f"no_kernels={operator}", f"no_kernels={SCATTER},{QKV}":
        profile(text)
        assert device.phase1(handles, attributes)[0] == 561103
        check_missing_kernels(operator, "Ascend950PR_9599", device.message())


def test_a_call_that_ran_before_needs_kernels_all_the_same(phase_1: Any, profile: SetProfile) -> None:
    operator, device, handles, attributes = phase_1
    assert device.run(handles, attributes) == 0
    profile(f"no_kernels={operator}")
    assert device.phase1(handles, attributes)[0] == 561103


def test_kernels_are_looked_up_behind_the_checks_of_the_arguments(phase_1: Any, profile: SetProfile) -> None:
    operator, device, handles, attributes = phase_1
    profile("soc=Ascend910B2")
    strided = device.tensor((2, 1, 4, 128), scatter_calls.E4M3FN, device.alloc(64), (1024, 1024, 256, 2), 0, [2048])
    floats = device.tensor((3,), scatter_calls.FLOAT, device.alloc(64))
    two_slots = device.tensor((2,), scatter_calls.INT32, device.alloc(64))
    wrong = {
        SCATTER: [(0, None, 161001, None), (4, floats, 161002, "EZ1001"), (4, two_slots, 561103, "EZ0015")],
        QKV: [(0, None, 161001, "EZ0026"), (4, floats, 161002, "EZ0020"), (5, strided, 561103, "EZ0028")],
    }
    for position, tensor, status, code in wrong[operator]:
        broken = [*handles[:position], tensor, *handles[position + 1 :]]
        assert device.phase1(broken, attributes)[0] == status
        message = device.message()
        assert re.findall(r"EZ\d{4}", message or "") == ([code] if code else [])


def test_an_empty_call_of_scatter_needs_no_kernels(sim: Any, profile: SetProfile) -> None:
    profile(f"no_kernels={SCATTER}")
    device = scatter_calls.Device(sim)
    call = scatter_calls.Call(device)
    empty = device.tensor((0,), scatter_calls.INT32, None)
    assert device.workspace_size([*call.handles[:4], empty, *call.handles[5:]]) == 0
    device.close()


@pytest.mark.parametrize(
    ("soc", "architecture"),
    [
        ("Ascend950DT_9591", 3510),
        ("Ascend910B2", 2201),
        ("Ascend910_9391", 2201),
        ("Ascend910A", 1001),
        ("Ascend310P3", 2002),
        ("Ascend310B4", 3002),
    ],
)
def test_the_architecture_follows_the_product(rt: Runtime, profile: SetProfile, soc: str, architecture: int) -> None:
    profile(f"soc={soc}")
    assert rt.out("aclrtGetDeviceInfo", ctypes.c_int64, 0, 601, first=False) == architecture


def test_the_architecture_of_an_unknown_product_is_not_made_up(
    rt: Runtime, profile: SetProfile, capfd: pytest.CaptureFixture[str]
) -> None:
    profile("soc=Ascend1000")
    assert rt.code("aclrtGetDeviceInfo", 0, 601, ctypes.byref(ctypes.c_int64())) == 207000
    assert "aclrtGetDeviceInfo" in capfd.readouterr().err


# --- devices


def test_a_host_without_devices(sim: Any, rt: Runtime, profile: SetProfile) -> None:
    profile("devices=0")
    assert count(rt) == (207004, 77)
    assert "there is no device" in (rt.message() or "")
    handle, number = ctypes.c_void_p(), ctypes.c_int32()
    answers = {
        "aclInit": rt.code("aclInit", None),
        "aclrtSetDevice": rt.code("aclrtSetDevice", 0),
        "aclrtCreateContext": rt.code("aclrtCreateContext", ctypes.byref(handle), 0),
        "aclrtGetDeviceInfo": rt.code("aclrtGetDeviceInfo", 0, 102, ctypes.byref(ctypes.c_int64())),
        "aclrtGetDevice": rt.code("aclrtGetDevice", ctypes.byref(number)),
        "aclrtCreateStream": rt.code("aclrtCreateStream", ctypes.byref(handle)),
    }
    assert answers == {
        "aclInit": 500000,
        "aclrtSetDevice": 107001,
        "aclrtCreateContext": 107001,
        "aclrtGetDeviceInfo": 107001,
        "aclrtGetDevice": 107002,
        "aclrtCreateStream": 107002,
    }
    message = rt.message() or ""
    assert "aclInit failed with 500000: there is no device" in message
    assert "EE2002" not in message
    assert sim.aclrtGetSocName() is None
    assert sim.aclrtGetLastError(0) == 507008
    rt.message()


def test_without_devices_phase_1_misses_the_device(sim: Any, profile: SetProfile) -> None:
    profile("devices=0")
    status = ctypes.c_uint64(), ctypes.c_void_p()
    handles = [sim.aclCreateTensor(scatter_calls.int64s([1] * rank), rank, dtype, None, 0, 2,
                                   scatter_calls.int64s([1]), 1, None)
               for rank, dtype in ((3, 36), (3, 36), (4, 36), (4, 36), (1, 3), (2, 0), (4, 0))]  # fmt: skip
    phase_1 = sim.aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize
    assert phase_1(*handles, None, *map(ctypes.byref, status)) == 561103
    message = sim.aclGetRecentErrMsg().decode()
    assert "aclrtGetDevice" in message
    assert "107002" in message
    assert [sim.aclDestroyTensor(handle) for handle in handles] == [0] * 7


def test_eight_devices_have_memory_of_their_own(sim: Any, rt: Runtime, profile: SetProfile) -> None:
    profile("devices=8")
    assert count(rt) == (0, 8)
    assert rt.code("aclrtSetDevice", 8) == 107001
    rt.message()
    written: dict[int, int] = {}
    for device in range(8):
        rt.ok("aclrtSetDevice", device)
        written[device] = rt.malloc(64)
        rt.write(written[device], bytes([device]) * 64)
    for device, address in written.items():
        rt.ok("aclrtSetDevice", device)
        assert rt.read(address, 64) == bytes([device]) * 64
        rt.ok("aclrtFree", address)
        rt.ok("aclrtResetDeviceForce", device)


@pytest.mark.parametrize(
    ("devices", "visible", "answer"),
    [
        (3, "2", "0 1 chip 2"),
        (4, "0,3", "0 2 chip 3"),
        (1, "0", "0 1 chip 0"),
        (1, "0,1", "207004 True"),
        (0, "0", "207004 False"),
    ],
)
def test_visible_devices_are_some_of_the_profile_s(devices: int, visible: str, answer: str) -> None:
    script = """
        n = ctypes.c_uint32()
        code = rt.code("aclrtGetDeviceCount", ctypes.byref(n))
        if code: print(code, "EE2002" in rt.message())
        else: print(code, n.value, "chip", rt.out("aclrtGetDeviceInfo", ctypes.c_int64, n.value - 1, 402, first=False))
    """
    environ = {"ACLSIM_PROFILE": f"devices={devices}", "ASCEND_RT_VISIBLE_DEVICES": visible}
    assert succeed_alone(script, init=False, reports=["api:call_before_init"], **environ) == answer


# --- cann


@pytest.mark.parametrize(
    ("text", "number", "parts", "interface"),
    [
        ("9.1.0", 90100000, [b"9", b"1", b"0", b"0"], 17),
        ("9.0.1", 90001000, [b"9", b"0", b"1", b"0"], 17),
        ("8.5.0", 80500000, [b"8", b"5", b"0", b"0"], 16),
        ("8.3.12", 80312000, [b"8", b"3", b"12", b"0"], 12),
        ("8.0.0", 80000000, [b"8", b"0", b"0", b"0"], 2),
        ("10.0.0", 100000000, [b"10", b"0", b"0", b"0"], 17),
    ],
)
def test_versions(rt: Runtime, profile: SetProfile, text: str, number: int, parts: list[bytes], interface: int) -> None:
    profile(f"cann={text}")
    assert versions(rt) == [text.encode(), number, [text.encode(), *parts], [1, interface, 0]]


# --- through the session


def scatter(session: kv.Session) -> None:
    fp8 = ml_dtypes.float8_e4m3fn
    session.scatter_pa_kv_cache_with_k_scale(
        *(np.ones(shape, fp8) for shape in ((3, 1, 8), (3, 1, 8), (2, 1, 4, 8), (2, 1, 4, 8))),
        np.arange(3, dtype=np.int32),
        *(np.ones(shape, np.float32) for shape in ((3, 1), (2, 1, 4, 1))),
    )


def fused(session: kv.Session) -> None:
    bf16, fp8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
    session.qkv_rms_norm_rope_cache_with_k_scale(
        np.ones((3, 4, 128), bf16),
        *(np.ones(shape, np.float32) for shape in ((128,), (128,), (8, 128))),
        np.arange(3, dtype=np.int32),
        *(np.ones((2, 1, 4, 128), fp8) for _ in range(2)),
        np.ones((2, 1, 4, 1), np.float32),
        *(np.array(values, np.int32) for values in ([0, 3], [3])),
        np.ones((128, 128), bf16),
        np.ones(1, np.float32),
        head_nums=(2, 1, 1),
    )


@pytest.mark.parametrize(("operator", "call"), [(SCATTER, scatter), (QKV, fused)])
@pytest.mark.parametrize("text", ["soc=Ascend910B2", "soc=Ascend950DT_9591;no_kernels={operator}"])
def test_a_session_whose_operator_has_no_kernels(
    profile: SetProfile, operator: str, call: Callable[[kv.Session], None], text: str
) -> None:
    profile(text.format(operator=operator))
    soc = text.partition(";")[0].removeprefix("soc=")
    with kv.Session(backend="simulator") as session:
        assert session.soc_name == soc
        with pytest.raises(kv.AclnnInnerError) as caught:
            call(session)
    assert (caught.value.status, caught.value.api) == (561103, f"{operator}GetWorkspaceSize")
    check_missing_kernels(operator, soc, caught.value.library_message)


def test_a_session_on_a_host_without_devices(profile: SetProfile) -> None:
    profile("devices=0")
    with pytest.raises(kv.DeviceUnavailableError) as caught:
        kv.Session(backend="simulator")
    assert (caught.value.status, caught.value.api) == (500000, "aclInit")
    assert "there is no device" in caught.value.library_message


def test_a_session_on_a_device_that_the_profile_has_or_not(profile: SetProfile) -> None:
    profile("devices=3;cann=9.0.1")
    with kv.Session(backend="simulator", device=2) as session:
        scatter(session)
        assert (session.device, session.cann_version) == (2, "9.0.1")
    with pytest.raises(kv.DeviceUnavailableError) as caught:
        kv.Session(backend="simulator", device=3)
    assert caught.value.status == 107001


def test_a_session_in_a_process_with_a_wrong_variable() -> None:
    done = run_alone("import aclnn_kvcache as kv; kv.Session(backend='simulator')", ACLSIM_PROFILE="devices=many")
    wrong = 'devices is "many"; expected a number from 0 to 8'
    assert done.returncode == 1
    assert done.stderr.startswith(f"aclsim: ACLSIM_PROFILE: {wrong}\n")
    assert "aclnn_kvcache.errors.DeviceUnavailableError: aclInit answered 500000" in done.stderr
    assert f"ACLSIM_PROFILE is wrong: {wrong}." in done.stderr
