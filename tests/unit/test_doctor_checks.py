# SPDX-License-Identifier: Apache-2.0
"""Each check of the doctor by itself: its verdicts and cures, on trees of files and on facts made up here."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import pytest

from aclnn_kvcache.doctor import devices, installation, machine, operators, surroundings
from aclnn_kvcache.doctor.native_facts import NativeFacts
from aclnn_kvcache.doctor.report import Line
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.native.installation import Root

SCATTER, FUSED = "aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale"

LOADED = {"error": "", "backend": "cann", "version": "9.1.0", "since": "9.1.0", "before": "9.2.0-beta.1"}
SIMULATED = {**LOADED, "backend": "simulator"}


@pytest.fixture(autouse=True)
def no_libraries_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the simulator, in the same process, leave its libraries mapped."""
    monkeypatch.setattr(installation, "mapped_roots", list)


def subject(
    stages: dict[str, Any] | None = None, environ: dict[str, str] | None = None, root: Path = Path("/"), **fields: Any
) -> Subject:
    native = NativeFacts(stages or {}, **{name: fields.pop(name) for name in ("stopped", "said") if name in fields})
    given = {"backend": "auto", "library_dir": None, "device": 0, **fields}
    return Subject(**given, environ=environ or {}, root=root, native=native)


def failed(stage: str, error: str, kind: str) -> dict[str, Any]:
    return {stage: {"error": error, "kind": kind}}


def write(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.fixture
def cann(tmp_path: Path) -> Path:
    """A root of CANN 9.1.0 with libraries that nobody opens."""
    root = tmp_path / "cann"
    for name in ("libascendcl", "libnnopbase", "libopapi_transformer"):
        write(root / "lib64" / f"{name}.so")
    for name in ("runtime", "opbase", "ops-transformer"):
        write(root / "share/info" / name / "version.info", "Version=9.1.0\n")
    return root


def opened(root: Path, *names: str, **facts: Any) -> dict[str, Any]:
    """The stages of a probe that opened libraries of that root."""
    paths = [str(root / "lib64" / name) for name in names or ("libascendcl.so", "libnnopbase.so")]
    found = {"error": "", "functions": [], "paths": paths, "attempts": [], "roots": [{"path": str(root)}], **facts}
    return {"libraries": LOADED, "operators": found}


# --- machine


def test_python_and_packages() -> None:
    python, packages = machine.check_python(subject())
    assert python.verdict == packages.verdict == "ok"
    assert python.text.startswith(f"Python {platform.python_version()}, /")
    assert [word.split()[0] for word in packages.text.split(", ")] == ["aclnn_kvcache", "numpy", "ml_dtypes"]


def test_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    [line] = machine.check_platform(subject())
    assert (line.verdict, line.cure) == ("ok", "")
    assert line.text.startswith(f"Linux {platform.release()}, {platform.machine()}, ")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    [line] = machine.check_platform(subject())
    assert (line.verdict, line.cure) == ("problem", "use Linux on x86_64 or aarch64")
    assert ", riscv64, " in line.text
    assert line.text.endswith(": not supported")


def test_the_bundled_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine.discovery.Folder(str(tmp_path), machine.discovery.BUNDLED, exclusive=True)
    monkeypatch.setattr(machine.discovery, "folders", lambda *arguments: [folder])
    [line] = machine.check_simulator(subject())
    assert line == Line(
        "simulator",
        "warning",
        f"the bundled simulator is not there: no libascendcl.so in {tmp_path}",
        "install gcc or clang, then reinstall aclnn-kvcache",
    )
    write(tmp_path / "libascendcl.so")
    assert [*machine.check_simulator(subject())] == [Line("simulator", "ok", f"the bundled simulator is in {tmp_path}")]


# --- the libraries


def test_a_backend_that_opens() -> None:
    assert [*installation.check_backend(subject({"libraries": LOADED}))] == [
        Line("backend", "ok", "cann 9.1.0; by its functions 9.1.0 or later, before 9.2.0-beta.1")
    ]
    assert [*installation.check_backend(subject({"libraries": SIMULATED}))] == [
        Line("backend", "ok", "simulator: it stands for CANN 9.1.0, and no NPU is involved")
    ]


NOT_FOUND = """No CANN libraries could be loaded. Do this
Tried, in this order:
  /a/libascendcl.so (x): no such file
  /b/libascendcl.so (y): the loader says: libruntime.so: cannot open shared object file"""


def test_no_backend() -> None:
    [line] = installation.check_backend(subject(failed("libraries", NOT_FOUND, "LibraryNotFoundError")))
    assert line == Line(
        "backend",
        "problem",
        "No CANN libraries could be loaded. Do this\n"
        "/b/libascendcl.so (y): the loader says: libruntime.so: cannot open shared object file",
        "install CANN for Ascend 950, or use the simulator: aclnn-kvcache doctor --backend simulator",
    )


def test_a_library_whose_dependency_is_missing(cann: Path) -> None:
    script = write(cann / "set_env.sh")
    stages = failed("libraries", NOT_FOUND, "LibraryNotFoundError")
    for given in ({"library_dir": str(cann / "lib64")}, {"environ": {"ASCEND_HOME_PATH": str(cann)}}):
        [line] = installation.check_backend(subject(stages, **given))
        assert line.cure == f"source {script}"


def test_the_script_of_old_releases_lies_higher(tmp_path: Path) -> None:
    write(tmp_path / "ascend-toolkit/8.3/lib64/libascendcl.so")
    script = write(tmp_path / "ascend-toolkit/set_env.sh")
    environ = {"ASCEND_HOME_PATH": str(tmp_path / "ascend-toolkit/8.3")}
    [line] = installation.check_backend(subject(failed("libraries", "no", "LibraryNotFoundError"), environ))
    assert line.cure == f"source {script}"


def test_a_folder_without_libraries(tmp_path: Path) -> None:
    stages = failed("libraries", "The folder named holds nothing", "LibraryNotFoundError")
    [line] = installation.check_backend(subject(stages, library_dir=str(tmp_path)))
    assert (line.topic, line.verdict) == ("backend", "problem")
    assert line.cure == "name the folder of a whole set of libraries, or none: unset ACLNN_KVCACHE_LIB_DIR"


def test_no_simulator() -> None:
    stages = failed("libraries", "The simulator's libraries are not there", "LibraryNotFoundError")
    [line] = installation.check_backend(subject(stages, backend="simulator"))
    assert (line.verdict, line.cure) == ("problem", "install gcc or clang, then reinstall aclnn-kvcache")


def test_a_wrong_setting_is_no_absent_backend() -> None:
    [line] = installation.check_backend(subject(failed("libraries", "qkv_abi: expected A", "ArgumentError")))
    assert line == Line(
        "environment", "problem", "qkv_abi: expected A", "correct or drop the option or variable that the text names"
    )


def test_the_process_that_opens() -> None:
    [line] = installation.check_process(subject())
    assert line.verdict == "ok"
    stages = {"libraries": LOADED, "operators": {"error": ""}}
    [line] = installation.check_process(subject(stages, stopped="was ended by signal 11 (Segmentation fault)"))
    assert line.text == (
        "the process that opens libraries and device was ended by signal 11 (Segmentation fault) while asking for the "
        "devices"
    )
    assert line.verdict == "problem"
    assert line.cure == devices.ASK_THE_DRIVER
    [line] = installation.check_process(subject(stopped="did not end within 1 s", said="abort\nhere"))
    assert line.text.endswith(" did not end within 1 s while opening the libraries\nabort\nhere")
    assert line.cure.startswith("run 'aclnn-kvcache smoke --backend auto --device 0', with a core dump allowed")
    [line] = installation.check_process(subject(stopped="could not be started: no memory"))
    assert line.cure.startswith("free memory")


def test_what_was_searched(tmp_path: Path, cann: Path) -> None:
    environ = {
        "ASCEND_HOME_PATH": str(cann),
        "ASCEND_TOOLKIT_HOME": "relative",
        "LD_LIBRARY_PATH": f"{tmp_path}:{tmp_path}/absent",
    }
    lines = {line.text: line for line in installation.check_search(subject(environ=environ))}
    home, loader = "environment variable ASCEND_HOME_PATH", "an entry of LD_LIBRARY_PATH"
    held = "libascendcl.so, libnnopbase.so, libopapi_transformer.so"
    assert lines[f"{cann}/lib64 ({home}): holds {held}"].verdict == "ok"
    assert lines[f"{tmp_path} ({loader}): none of the libraries"].verdict == "ok"
    assert lines[f"{tmp_path}/absent ({loader}): no such folder"].verdict == "ok"
    assert lines["the system loader: asked last"].verdict == "ok"
    text = "relative/lib64 (environment variable ASCEND_TOOLKIT_HOME): skipped: a relative path is never searched"
    assert lines[text] == Line("search", "warning", text, "name it by its absolute path")


def test_libraries_with_their_versions(cann: Path) -> None:
    said = {"path": f"{cann}/lib64/libopapi.so", "reason": "why", "result": "the loader says: undefined symbol: x"}
    absent = {"path": "/x/libopapi.so", "reason": "why", "result": "no such file"}
    by_name = {"path": "libopapi.so", "reason": "why", "result": "the loader says: no"}
    names = ("libascendcl.so", "libnnopbase.so", "libopapi_transformer.so", "libother.so")
    stages = opened(cann, *names, attempts=[said, absent, by_name])
    assert [*installation.check_libraries(subject(stages))] == [
        Line("libraries", "ok", f"{cann}/lib64/libascendcl.so (runtime 9.1.0)"),
        Line("libraries", "ok", f"{cann}/lib64/libnnopbase.so (opbase 9.1.0)"),
        Line("libraries", "ok", f"{cann}/lib64/libopapi_transformer.so (ops-transformer 9.1.0)"),
        Line("libraries", "ok", f"{cann}/lib64/libother.so"),
        Line(
            "libraries",
            "warning",
            f"{cann}/lib64/libopapi.so (why): the loader says: undefined symbol: x",
            f"source {cann}/set_env.sh",
        ),
    ]


def test_one_root_and_two(cann: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Root] = []
    monkeypatch.setattr(installation, "mapped_roots", lambda: held)
    environ = {"ASCEND_HOME_PATH": str(cann), "ASCEND_OPP_PATH": str(cann / "opp")}
    one = Line("roots", "ok", f"the libraries opened come from one installation: {cann}")
    assert [*installation.check_roots(subject(opened(cann), environ))] == [one]
    mixed = opened(cann, roots=[{"path": str(cann)}, {"path": "/other"}])
    assert [*installation.check_roots(subject(mixed))] == [
        Line(
            "roots",
            "problem",
            f"the libraries opened come from 2 installations: {cann}, /other",
            f"start a new shell, and there only: source {cann}/set_env.sh",
        )
    ]
    held[:] = [Root("/other", ()), Root("/third", ())]
    problem, warning, ok = installation.check_roots(subject(opened(cann)))
    assert problem.text == "the libraries that this process holds come from 2 installations: /other, /third"
    assert (problem.verdict, problem.cure) == (
        "problem",
        "start a new shell, and there only: source /other/set_env.sh",
    )
    assert warning == Line(
        "roots",
        "warning",
        f"this process holds the libraries of /other and cannot open those of {cann}",
        f"start another process for {cann}",
    )
    assert ok == one


def test_variables_of_another_root(cann: Path) -> None:
    _, line = installation.check_roots(subject(opened(cann), {"ASCEND_OPP_PATH": "/old/opp"}))
    assert line == Line(
        "roots",
        "warning",
        f"ASCEND_OPP_PATH=/old/opp names another installation than {cann}, whose libraries are used",
        f"source {cann}/set_env.sh",
    )


def test_versions_that_belong_together(cann: Path) -> None:
    *lines, last = installation.check_versions(subject(opened(cann)))
    assert [line.text for line in lines] == [
        f"{name} 9.1.0 ({cann}/share/info/{name}/version.info)" for name in ("opbase", "ops-transformer", "runtime")
    ]
    assert {line.verdict for line in [*lines, last]} == {"ok"}
    assert last.text == "the packages belong together, as far as they state versions"


def test_versions_that_do_not(cann: Path) -> None:
    write(cann / "share/info/opbase/version.info", "Version=8.5.0\n")
    *_, line = installation.check_versions(subject(opened(cann)))
    assert line == Line(
        "versions",
        "problem",
        "runtime is 9.1.0, but opbase is 8.5.0",
        f"install runtime, opbase, ops-transformer of one release into {cann}",
    )


def test_versions_that_are_not_told(cann: Path, tmp_path: Path) -> None:
    path = cann / "share/info/opbase/version.info"
    path.unlink()
    path.mkdir()
    first, *_ = installation.check_versions(subject(opened(cann)))
    assert first == Line(
        "versions",
        "warning",
        f"opbase: {path}: unreadable: Is a directory",
        f"let this user read it: sudo chmod a+r {path}",
    )
    bare = tmp_path / "bare"
    [line] = installation.check_versions(subject(opened(bare)))
    assert (line.verdict, line.text) == ("warning", f"no package below {bare} states its version")
    assert line.cure == f"see that {bare} is a whole installation: ls {bare}"
    assert [*installation.check_versions(subject({"libraries": SIMULATED}))] == []


def test_versions_of_an_installation_that_does_not_open(cann: Path) -> None:
    stages = failed("libraries", "no", "LibraryNotFoundError")
    lines = [*installation.check_versions(subject(stages, {"ASCEND_HOME_PATH": str(cann)}))]
    assert lines[0].text == f"opbase 9.1.0 ({cann}/share/info/opbase/version.info)"


# --- driver and devices


def test_the_driver(tmp_path: Path) -> None:
    info = tmp_path / "usr/local/Ascend/driver/version.info"
    cure = "install the NPU driver, or start the container with -v /usr/local/Ascend/driver:/usr/local/Ascend/driver"
    none, no_library = devices.check_driver(subject(root=tmp_path))
    assert none == Line("driver", "problem", f"no driver: {info}: no such file", cure)
    folder = info.parent / "lib64"
    assert no_library == Line(
        "driver", "problem", f"no libascend_hal.so in {folder}, {folder}/common, {folder}/driver", cure
    )
    library = write(folder / "libascend_hal.so")
    write(info, "Version=25.0.rc1\n")
    assert [*devices.check_driver(subject(root=tmp_path))] == [
        Line("driver", "ok", f"driver 25.0.rc1 ({info})"),
        Line("driver", "ok", library),
    ]
    info.unlink()
    info.mkdir()
    mute, _ = devices.check_driver(subject(root=tmp_path))
    assert mute == Line(
        "driver", "warning", f"{info}: unreadable: Is a directory", f"let this user read it: sudo chmod a+r {info}"
    )


def test_the_simulator_needs_neither_driver_nor_nodes(tmp_path: Path) -> None:
    for given in ({"stages": {"libraries": SIMULATED}}, {"backend": "simulator"}):
        examined = subject(root=tmp_path, **given)
        assert [*devices.check_driver(examined)] == [Line("driver", "ok", "the simulator needs none")]
        assert [*devices.check_nodes(examined)] == [Line("nodes", "ok", "the simulator needs none")]


def test_device_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [line] = devices.check_nodes(subject(root=tmp_path))
    assert line == Line(
        "devices",
        "problem",
        "no NPU: there is no /dev/davinci<N>",
        "run on an Ascend host; in a container: --device /dev/davinci0 --device /dev/davinci_manager",
    )
    node = write(tmp_path / "dev/davinci0")
    no_manager, _ = devices.check_nodes(subject(root=tmp_path))
    assert no_manager == Line(
        "devices",
        "problem",
        "there is no /dev/davinci_manager beside the devices",
        "start the container with --device /dev/davinci_manager",
    )
    write(tmp_path / "dev/davinci_manager")
    lines = [*devices.check_nodes(subject(root=tmp_path))]
    assert [(line.verdict, line.text.split()[0]) for line in lines] == [("ok", node), ("ok", f"{node[:-1]}_manager")]
    monkeypatch.setattr(os, "access", lambda path, mode: "manager" in str(path))
    refused, allowed = devices.check_nodes(subject(root=tmp_path))
    assert (refused.topic, refused.verdict, allowed.verdict) == ("nodes", "problem", "ok")
    assert refused.text.endswith(": this user may not read and write it")
    assert refused.cure == f"sudo usermod -aG {Path(node).group()} $USER, then log in again"


def test_visible_devices(tmp_path: Path) -> None:
    def check(text: str | None) -> tuple[str, str, str]:
        environ = {} if text is None else {"ASCEND_RT_VISIBLE_DEVICES": text}
        [line] = devices.check_visible(subject(environ=environ, root=tmp_path))
        assert line.topic == "visible"
        return line.verdict, line.text.removeprefix("ASCEND_RT_VISIBLE_DEVICES"), line.cure

    for number in (0, 1, 2):
        write(tmp_path / f"dev/davinci{number}")
    assert check(None) == ("ok", " is not set: every device is visible", "")
    assert check("0,2") == ("ok", "=0,2: device 0 is physical device 0, device 1 is physical device 2", "")
    fault = "=0,2,1: 1 follows 2: ids must ascend, each once"
    assert check("0,2,1") == ("problem", fault, "export ASCEND_RT_VISIBLE_DEVICES=0,2")
    fault = "=8: there is no device 8: present are 0, 1, 2"
    assert check("8") == ("problem", fault, "unset ASCEND_RT_VISIBLE_DEVICES")


def counted(count: int, name: str = "Ascend950PR_9599") -> dict[str, Any]:
    return {"libraries": LOADED, "devices": {"error": "", "count": count, "soc_name": name}}


def test_devices_as_the_libraries_count_them() -> None:
    assert [*devices.check_devices(subject(counted(2), device=1))] == [
        Line("devices", "ok", "2 visible to the libraries, counted from 0; device 1 is used"),
        Line("product", "ok", "Ascend950PR_9599"),
    ]
    missing, _ = devices.check_devices(subject(counted(2), device=2))
    text = "there is no device 2: 2 are visible to the libraries, counted from 0"
    assert missing == Line("devices", "problem", text, "use --device 0 to 1")
    none, _ = devices.check_devices(subject(counted(0)))
    text = "there is no device 0: 0 are visible to the libraries, counted from 0"
    assert none == Line("devices", "problem", text, "unset ASCEND_RT_VISIBLE_DEVICES")
    assert [*devices.check_devices(subject())] == []


def test_another_product() -> None:
    _, line = devices.check_devices(subject(counted(1, "Ascend910B2")))
    text = "this is Ascend910B2, and both operators exist for Ascend950 only"
    assert line == Line("product", "problem", text, "run on a host with an Ascend 950")


def test_devices_that_cannot_be_asked_for() -> None:
    stages = {"libraries": LOADED, **failed("devices", "aclInit answered 500000", "DeviceUnavailableError")}
    cure = "run 'npu-smi info' in this shell: where that fails too, driver or container mounts are at fault"
    assert [*devices.check_devices(subject(stages))] == [Line("devices", "problem", "aclInit answered 500000", cure)]
    [line] = devices.check_devices(subject({**stages, "libraries": SIMULATED}))
    assert line.cure == "unset ASCEND_RT_VISIBLE_DEVICES ACLSIM_PROFILE"


# --- operators


def function(name: str, error: str = "", *, missing: bool = False, library: str = "/x/libopapi.so") -> dict[str, Any]:
    facts = {"name": name, "library": "" if error else library, "prototype": "", "source": "the header"}
    return {**facts, "differences": [], "missing": missing, "error": error}


def test_operators(cann: Path) -> None:
    extra = {**function(SCATTER), "differences": ["one", "two"]}
    reason = "is not exported: old.\nTried, in this order:\n  /x"
    missing = [function(name, f"{name} {reason}", missing=True) for name in (FUSED, f"{FUSED}V2")]
    unsettled = function(f"{FUSED}GetWorkspaceSize", "several argument lists")
    stages = opened(cann, functions=[function(f"{SCATTER}GetWorkspaceSize"), extra, *missing, unsettled])
    assert [*operators.check_operators(subject(stages))] == [
        Line(
            "operators",
            "ok",
            f"{SCATTER}GetWorkspaceSize: /x/libopapi.so\narguments by the header: as expected",
        ),
        Line("operators", "ok", f"{SCATTER}: /x/libopapi.so\narguments by the header: one; two"),
        Line("operators", "problem", "several argument lists", operators.STATE_THE_REVISION),
        Line(
            "operators",
            "problem",
            f"{FUSED} is not exported: old.\nthe same holds for {FUSED}V2",
            operators.INSTALL_OPERATORS,
        ),
    ]
    assert "ops-transformer" in operators.INSTALL_OPERATORS
    assert "--qkv-abi A, B or C" in operators.STATE_THE_REVISION


def test_kernels(cann: Path) -> None:
    library = str(cann / "lib64/libopapi_transformer.so")
    both = [function(SCATTER, library=library), function(f"{SCATTER}GetWorkspaceSize", library=library)]
    stages = opened(cann, functions=[*both, function(f"{FUSED}GetWorkspaceSize", "absent", missing=True)])
    [line] = operators.check_kernels(subject(stages))
    assert line == Line(
        "kernels",
        "warning",
        f"{SCATTER}: cannot be told: {cann}/opp/built-in: no such folder",
        "name the operator package: export ASCEND_OPP_PATH=<CANN root>/opp",
    )
    kernels = cann / "opp/built-in/op_impl/ai_core/tbe/kernel"
    write(kernels / "ascend910b/scatter_pa_kv_cache_with_k_scale/x.o")
    [line] = operators.check_kernels(subject(stages))
    text = f"{kernels}: nothing of ScatterPaKvCacheWithKScale for Ascend950"
    assert line == Line(
        "kernels", "problem", f"{SCATTER} has no kernels for Ascend 950: {text}", operators.INSTALL_KERNELS
    )
    folder = kernels / "ascend950/scatter_pa_kv_cache_with_k_scale"
    write(folder / "x.o")
    assert [*operators.check_kernels(subject(stages))] == [Line("kernels", "ok", f"{SCATTER}: {folder}")]


def test_calls() -> None:
    result = {"operator": "scatter", "verdict": "pass", "detail": "", "rerun": "aclnn-kvcache smoke --case decode"}
    failure = {**result, "verdict": "error", "detail": "561003: no kernel"}
    difference = {**result, "verdict": "differ", "detail": "key_cache: 1 row"}
    stages = {"libraries": LOADED, "calls": {"error": "", "results": [result, failure, difference]}}
    cure = "do what the text says; to repeat this call alone: aclnn-kvcache smoke --case decode"
    assert [*operators.check_calls(subject(stages))] == [
        Line("calls", "ok", "scatter: every byte is as it must be"),
        Line("calls", "problem", "scatter failed: 561003: no kernel", cure),
        Line("calls", "problem", "scatter left other bytes than it must: key_cache: 1 row", cure),
    ]


def test_a_device_that_does_not_open() -> None:
    busy = {"libraries": LOADED, **failed("calls", "507033", "DeviceUnavailableError")}
    assert [*operators.check_calls(subject(busy))] == [Line("devices", "problem", "507033", devices.ASK_THE_DRIVER)]
    other = {"libraries": SIMULATED, **failed("calls", "207000", "AclError")}
    assert [*operators.check_calls(subject(other))] == [
        Line("calls", "problem", "207000", "try it alone: aclnn-kvcache smoke --backend auto --device 0")
    ]


# --- surroundings


def logs(**environ: str) -> list[Line]:
    return [*surroundings.check_logs(subject(environ=environ))]


def test_where_the_logs_go(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    folder = tmp_path / "ascend/log"
    level = Line("logs", "ok", "level ERROR (ASCEND_GLOBAL_LOG_LEVEL=3, the default)")
    assert logs(**home) == [Line("logs", "ok", f"{folder} (by HOME): not there before the first message"), level]
    folder.mkdir(parents=True)
    assert logs(**home)[0] == Line("logs", "ok", f"{folder} (by HOME): no plog yet")
    old = write(folder / "run/plog/plog-1_20260101000000000.log", "older")
    new = write(folder / "debug/plog/plog-2_20260101000000000.log", "newest")
    os.utime(old, (1, 1))
    assert logs(**home)[0].text == f"{folder} (by HOME): newest of 2: {new}, 6 bytes"
    work = {**home, "ASCEND_WORK_PATH": "/w"}
    assert logs(**work)[0].text == "/w/log (by ASCEND_WORK_PATH): not there before the first message"
    process = {**work, "ASCEND_PROCESS_LOG_PATH": "/p"}
    assert logs(**process)[0].text == "/p (by ASCEND_PROCESS_LOG_PATH): not there before the first message"
    assert logs() == [
        Line(
            "logs",
            "warning",
            "where CANN's logs go is not known: HOME is not set",
            "export ASCEND_PROCESS_LOG_PATH=<a folder of yours>",
        ),
        level,
    ]


def test_logs_that_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT"):
        line, _ = logs(ASCEND_PROCESS_LOG_PATH="/p", **{name: "1"})
        text = f"{name}=1: nothing is written to /p (by ASCEND_PROCESS_LOG_PATH)"
        assert line == Line("logs", "warning", text, f"unset {name}")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    line, _ = logs(ASCEND_PROCESS_LOG_PATH=str(tmp_path))
    assert line == Line(
        "logs",
        "warning",
        f"{tmp_path} (by ASCEND_PROCESS_LOG_PATH): this user may not write there, so that CANN's messages are lost",
        "export ASCEND_PROCESS_LOG_PATH=<a folder of yours>",
    )


def test_log_levels() -> None:
    assert logs(ASCEND_GLOBAL_LOG_LEVEL="1")[-1] == Line("logs", "ok", "level INFO (ASCEND_GLOBAL_LOG_LEVEL=1)")
    text = "ASCEND_GLOBAL_LOG_LEVEL=info is no level: 0 (DEBUG) to 4 (none)"
    assert logs(ASCEND_GLOBAL_LOG_LEVEL="info")[-1] == Line("logs", "warning", text, "export ASCEND_GLOBAL_LOG_LEVEL=1")


def test_the_simulator_writes_no_logs() -> None:
    assert [*surroundings.check_logs(subject(backend="simulator"))] == [Line("logs", "ok", "the simulator writes none")]


def environment(library_dir: str | None = None, **environ: str) -> list[Line]:
    return [*surroundings.check_environment(subject(environ=environ, library_dir=library_dir))]


def test_only_variables_that_are_set(tmp_path: Path) -> None:
    assert environment(PATH="/bin", ASCEND_HOME_PATH="") == []
    text = f"ASCEND_HOME_PATH={tmp_path}: root of CANN, searched for libraries first"
    assert environment(ASCEND_HOME_PATH=str(tmp_path)) == [Line("environment", "ok", text)]


@pytest.mark.parametrize("name", ["ASCEND_LAUNCH_BLOCKING", "TASK_QUEUE_ENABLE"])
def test_variables_of_others(name: str) -> None:
    [line] = environment(**{name: "1"})
    assert (line.verdict, line.cure) == ("warning", f"unset {name}, or keep it for others")
    assert line.text.startswith(f"{name}=1: read by torch_npu only: ")


def test_paths_that_are_not_there(tmp_path: Path) -> None:
    value = f"{tmp_path}:{tmp_path}/absent:"
    [line] = environment(ASCEND_CUSTOM_OPP_PATH=value)
    text = f"ASCEND_CUSTOM_OPP_PATH={value}: custom operator packages, before all others; not there: {tmp_path}/absent"
    assert line == Line("environment", "warning", text, "correct ASCEND_CUSTOM_OPP_PATH")


def test_the_loader_s_path() -> None:
    [line] = environment(LD_LIBRARY_PATH="/absent:/cann/lib64")
    assert line.verdict == "ok"
    [line] = environment(LD_LIBRARY_PATH="/cann/lib64:/cann/devlib")
    assert line.verdict == "warning"
    assert line.text.endswith("; devlib holds stubs to link with, whose calls answer 100039")
    assert line.cure == "source set_env.sh again, on a host with the driver"


def test_variables_of_this_package(tmp_path: Path) -> None:
    text = f"ACLNN_KVCACHE_LIB_DIR={tmp_path}: the only folder that libraries are taken from"
    assert environment(ACLNN_KVCACHE_LIB_DIR=str(tmp_path)) == [Line("environment", "ok", text)]
    cure = "unset ACLNN_KVCACHE_LIB_DIR"
    assert environment("/other", ACLNN_KVCACHE_LIB_DIR=str(tmp_path)) == [
        Line("environment", "warning", f"{text}; not used: a folder is given", cure)
    ]
    text = "the revision of the fused operator where no header tells it"
    assert environment(ACLNN_KVCACHE_QKV_ABI="B") == [Line("environment", "ok", f"ACLNN_KVCACHE_QKV_ABI=B: {text}")]
    assert environment(ACLNN_KVCACHE_QKV_ABI="D") == [
        Line(
            "environment",
            "problem",
            f"ACLNN_KVCACHE_QKV_ABI=D: {text}; it must be A or B or C",
            "unset ACLNN_KVCACHE_QKV_ABI",
        )
    ]
    for name in ("ACLNN_KVCACHE_BLOCKING", "ACLNN_KVCACHE_RECORD_FAILING"):
        assert [line.verdict for value in ("0", "1") for line in environment(**{name: value})] == ["ok", "ok"]
        [line] = environment(**{name: "yes"})
        assert (line.verdict, line.cure) == ("problem", f"unset {name}")
        assert line.text.endswith("; it must be 0 or 1")
    text = "ACLNN_KVCACHE_LIBDIR=/x: not a variable of this package, it does nothing"
    assert environment(ACLNN_KVCACHE_LIBDIR="/x") == [
        Line("environment", "warning", text, "unset ACLNN_KVCACHE_LIBDIR")
    ]


def test_the_folder_for_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ACLNN_KVCACHE_RECORD"
    for folder in (tmp_path, tmp_path / "one" / "that is made"):
        assert [line.verdict for line in environment(**{name: str(folder)})] == ["ok"]
    write(tmp_path / "file")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        [line] = environment(**{name: str(path)})
        assert (line.verdict, line.cure) == ("problem", f"unset {name}")
        assert line.text.endswith(f"; {tmp_path}/file is no folder")
    monkeypatch.setattr(surroundings.os, "access", lambda path, mode: False)
    [line] = environment(**{name: str(tmp_path / "one")})
    assert (line.verdict, line.text.endswith(f"; this user may not write to {tmp_path}")) == ("problem", True)


def test_a_device_that_is_not_there_is_said_once() -> None:
    facts = {"error": "", "count": 2, "soc_name": "Ascend950PR_9599"}
    absent = subject({"devices": facts, **failed("calls", "107001", "DeviceUnavailableError")})._replace(device=2)
    assert [*operators.check_calls(absent)] == []
    [line, _] = devices.check_devices(absent)
    assert (line.verdict, line.cure) == ("problem", "use --device 0 to 1")


def test_kernels_of_the_simulator_are_told_by_the_calls() -> None:
    apis = (SCATTER, "aclnnQkvRmsNormRopeCacheWithKScale")
    functions = [{"name": f"{api}GetWorkspaceSize", "error": "", "library": "x"} for api in apis]
    verdicts = {"scatter_pa_kv_cache_with_k_scale": "error", "qkv_rms_norm_rope_cache_with_k_scale": "pass"}
    results = [{"operator": operator, "verdict": verdict} for operator, verdict in verdicts.items()]
    stages = {
        "libraries": SIMULATED,
        "operators": {"error": "", "functions": functions},
        "calls": {"error": "", "results": results},
    }
    assert [*operators.check_kernels(subject(stages))] == [
        Line("kernels", "ok", f"{apis[1]}: part of the simulator's library")
    ]
