# SPDX-License-Identifier: Apache-2.0
"""Initialisation, versions, forked children and the end of the process."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from runtime_calls import Runtime, run_alone, succeed_alone


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Runtime:
    return Runtime(sim)


@pytest.mark.parametrize(
    ("calls", "codes", "reports"),
    [
        (
            "init init finalize finalize",
            [0, 100002, 0, 100037],
            ["api:repeated_init", "api:repeated_finalize"],
        ),
        ("finalize finalize init finalize", [0, 100037, 0, 0], ["api:repeated_finalize"]),
        ("init finalize init finalize", [0, 0, 0, 0], []),
        ("init finalize", [0, 0], []),
    ],
)
def test_finalize_ignores_the_count(calls: str, codes: list[int], reports: list[str]) -> None:
    script = f"""
        steps = {{"init": lambda: sim.aclInit(None), "finalize": lambda: sim.aclFinalize()}}
        print([steps[name]() for name in {calls!r}.split()])
    """
    assert succeed_alone(script, reports=reports) == str(codes)


def test_finalize_reference_counts_down() -> None:
    script = """
        left = ctypes.c_uint64(7)
        def down():
            return sim.aclFinalizeReference(ctypes.byref(left)), left.value
        print(down(), sim.aclInit(b""), sim.aclInit(None), down(), down(), down(), sim.aclFinalizeReference(None))
    """
    output = succeed_alone(script, reports=["api:repeated_init"])
    assert output == "(100037, 0) 0 100002 (0, 1) (0, 0) (100037, 0) 100037"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{}", 0),
        ('{"dump": {"a": ["}", 1]}}', 0),
        ("", 100006),
        ("[1]", 100006),
        ('{"a": 1', 100006),
        ('{"a": [}]', 100006),
        ("{} x", 100006),
    ],
)
def test_configuration_files(tmp_path: Path, content: str, code: int) -> None:
    path = tmp_path / "acl.json"
    path.write_text(content)
    assert succeed_alone(f"print(sim.aclInit({str(path)!r}.encode()))") == str(code)


def test_a_missing_configuration_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing.json"
    output = succeed_alone(f"print(sim.aclInit({str(path)!r}.encode()), rt.message())")
    assert output.startswith("100003 [PID: ")
    assert "EH0003" in output
    assert str(path) in output


def test_a_configuration_that_would_change_answers_is_refused_aloud(tmp_path: Path) -> None:
    path = tmp_path / "acl.json"
    path.write_text('{"defaultDevice": {"default_device": "1"}}')
    done = run_alone(f"print(sim.aclInit({str(path)!r}.encode()))")
    assert done.stdout.strip() == "200001"
    assert "aclInit" in done.stderr


def test_a_later_initialisation_needs_the_content_of_the_first(tmp_path: Path) -> None:
    for name, content in (("a", "{}"), ("b", "{}"), ("c", '{"dump": {}}')):
        (tmp_path / name).write_text(content)
    script = f"""
        for path in "a", "b", "c", "a":
            print(sim.aclInit(os.path.join({str(tmp_path)!r}, path).encode()), sim.aclFinalize())
        print(sim.aclInit(None))
    """
    output = succeed_alone(script, reports=["api:repeated_finalize"])
    assert output.split("\n") == ["0 0", "0 0", "100000 100037", "0 0", "100000"]


def test_calls_are_counted() -> None:
    script = """
        sim.aclInit(None); sim.aclInit(None); sim.aclFinalize()
        print(sim.counter("ACLSIM_INIT_CALLS"), sim.counter("ACLSIM_FINALIZE_CALLS"), sim.aclsim_counter(99))
    """
    assert succeed_alone(script, reports=["api:repeated_init"]) == "2 1 -1"


def test_versions(rt: Runtime) -> None:
    parts = [ctypes.c_int32() for _ in range(3)]
    rt.ok("aclrtGetVersion", *map(ctypes.byref, parts))
    assert [part.value for part in parts] == [1, 17, 0]
    assert rt.code("aclrtGetVersion", ctypes.byref(parts[0]), None, ctypes.byref(parts[2])) == 100000
    text = ctypes.create_string_buffer(128)
    for package in b"runtime", b"opbase", b"ops-transformer", b"ops_transformer":
        rt.ok("aclsysGetVersionStr", package, text)
        assert text.value == b"9.1.0"
        assert rt.out("aclsysGetVersionNum", ctypes.c_int32, package, first=False) == 90100000
    assert rt.code("aclsysGetVersionStr", b"hccl", text) == 100003
    record = ctypes.create_string_buffer(512)
    rt.ok("aclsysGetCANNVersion", 0, record)
    assert [record.raw[at:].split(b"\0")[0] for at in (0, 128, 192, 256, 320)] == [b"9.1.0", b"9", b"1", b"0", b"0"]
    assert rt.code("aclsysGetCANNVersion", 3, record) == 100003
    assert rt.code("aclsysGetCANNVersion", 8, record) == 100000
    assert rt.code("aclsysGetCANNVersion", 0, None) == 100000


def test_product(rt: Runtime) -> None:
    assert rt.sim.aclrtGetSocName() == b"Ascend950PR_9599"
    assert rt.out("aclrtGetRunMode", ctypes.c_int) == 1
    assert rt.out("aclrtGetDeviceCount", ctypes.c_uint32) == 2
    for attribute, value in ((102, 36), (201, 72), (601, 3510), (301, 8 << 30), (402, 1)):
        assert rt.out("aclrtGetDeviceInfo", ctypes.c_int64, 1, attribute, first=False) == value
    assert rt.out("aclGetDeviceCapability", ctypes.c_int64, 0, 1, first=False) == 72
    number = ctypes.byref(ctypes.c_int64())
    assert rt.code("aclrtGetDeviceInfo", 2, 102, number) == 107001
    assert rt.code("aclrtGetDeviceInfo", 0, 999, number) == 107000
    assert rt.code("aclrtGetDeviceInfo", 0, 102, None) == 100000


@pytest.mark.parametrize(("devices", "count", "chip"), [("0,1", 2, 1), ("1", 1, 1), ("0", 1, 0)])
def test_visible_devices(devices: str, count: int, chip: int) -> None:
    script = """
        n = rt.out("aclrtGetDeviceCount", ctypes.c_uint32)
        print(n, rt.out("aclrtGetDeviceInfo", ctypes.c_int64, n - 1, 402, first=False), sim.aclrtSetDevice(n))
    """
    assert succeed_alone(script, ASCEND_RT_VISIBLE_DEVICES=devices) == f"{count} {chip} 107001"


@pytest.mark.parametrize("devices", ["x", "1,0", "0,0", "2", "0,", "", "0;1"])
def test_malformed_visible_devices(devices: str) -> None:
    script = "print(sim.aclrtGetDeviceCount(ctypes.byref(ctypes.c_uint32())), 'EE2002' in rt.message())"
    assert succeed_alone(script, ASCEND_RT_VISIBLE_DEVICES=devices) == "207004 True"


def test_what_is_not_simulated_fails_aloud() -> None:
    done = run_alone("""
        buffer = ctypes.create_string_buffer(4096)
        print([sim.aclrtDeviceTaskAbort(0, 0), sim.aclrtStreamAbort(None), sim.aclrtRepairError(0, buffer),
               sim.aclrtGetErrorVerbose(0, buffer), sim.aclrtGetDeviceUtilizationRate(0, buffer)])
    """)
    assert done.stdout.strip() == str([207000] * 5)
    for name in ("aclrtDeviceTaskAbort", "aclrtStreamAbort", "aclrtRepairError", "aclrtGetErrorVerbose"):
        assert sum(name in line for line in done.stderr.splitlines()) == 1


def test_a_forked_child_is_refused_and_does_not_hang() -> None:
    script = """
        sim.aclInit(None); sim.aclrtSetDevice(0)
        stream, memory, host = rt.stream(), rt.malloc(64), rt.malloc_host()
        sim.aclsim_hold_streams()
        rt.ok("aclrtMemcpyAsync", memory, 64, host, 64, H2D, stream)
        codes = lambda: [
            sim.aclInit(None), sim.aclrtSetDevice(0), sim.aclrtSynchronizeStream(stream), sim.aclrtFree(memory),
            sim.aclrtMemcpy(memory, 64, host, 64, H2D), sim.aclrtResetDevice(0), sim.aclrtDestroyStream(stream),
            sim.aclFinalize()]
        child = os.fork()
        if child == 0:
            good = codes() == [507000] * 8 and sim.aclrtGetSocName() is None and "forked" in rt.message()
            sim.aclsim_release_streams()
            os._exit(0 if good else 1)
        print(os.waitpid(child, 0)[1])
        sim.aclsim_release_streams()
        print(sim.aclrtSynchronizeStream(stream))
    """
    assert succeed_alone(script).split() == ["0", "0"]


def test_a_child_of_an_idle_process_may_use_the_runtime() -> None:
    script = """
        sim.aclrtGetSocName()
        child = os.fork()
        if child == 0:
            os._exit(sim.aclrtSetDevice(0))
        print(os.waitpid(child, 0)[1])
    """
    assert succeed_alone(script, init=False, reports=["api:call_before_init"]) == "0"


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "os._exit(3)"])
def test_a_process_ends_with_work_in_flight(end: str) -> None:
    done = run_alone(f"""
        sim.aclInit(None); sim.aclrtSetDevice(0)
        stream, memory, host = rt.stream(), rt.malloc(64), rt.malloc_host()
        sim.aclsim_hold_streams()
        rt.ok("aclrtMemcpyAsync", memory, 64, host, 64, H2D, stream)
        {end}
    """)
    assert done.returncode == (3 if end else 0)
    told = done.stderr.startswith(
        "aclsim: sync: exit_in_flight in exit: stream 1 of device 0 is the stream of aclrtMemcpy"
    )
    assert (told, done.stderr.count("\n")) == ((False, 0) if "_exit" in end else (True, 1))


@pytest.mark.parametrize("touch", ["ctypes.string_at(memory, 1)", "ctypes.memset(memory, 0, 1)"])
def test_host_code_that_touches_a_device_address_dies(touch: str) -> None:
    done = run_alone(f"""
        sim.aclrtSetDevice(0)
        memory = rt.malloc(64)
        print("alive", flush=True)
        {touch}
        print("dead")
    """)
    assert done.stdout.split() == ["alive"]
    assert done.returncode != 0
