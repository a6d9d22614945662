# SPDX-License-Identifier: Apache-2.0
"""What users see: programs and commands that fail as in public reports, run as they would be, and the text they print.

Each must name the cause and the cure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aclnn_kvcache.native import library

PROGRAM = """
import sys, threading
import ml_dtypes, numpy as np
import aclnn_kvcache as kv
fp8, bf16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16

def scatter(**changes):
    arguments = dict(
        key=np.ones((3, 2, 16), fp8), value=np.ones((3, 2, 16), fp8), key_cache=np.zeros((4, 2, 4, 16), fp8),
        value_cache=np.zeros((4, 2, 4, 16), fp8), slot_mapping=np.array([0, 5, 15], np.int32),
        key_scale=np.ones((3, 2), np.float32), key_scale_cache=np.zeros((4, 2, 4, 1), np.float32))
    session.scatter_pa_kv_cache_with_k_scale(**{**arguments, **changes})

def fused(**changes):
    arguments = dict(
        qkv=np.ones((2, 12, 128), bf16), q_gamma=np.ones(128, np.float32), k_gamma=np.ones(128, np.float32),
        cos_sin=np.ones((8, 128), np.float32), slot_mapping=np.array([0, 1], np.int32),
        k_cache=np.zeros((4, 2, 4, 128), fp8), v_cache=np.zeros((4, 2, 4, 128), fp8),
        k_scale_cache=np.zeros((4, 2, 4, 1), np.float32), query_start_loc=np.array([0, 2], np.int32),
        seq_lens=np.array([2], np.int32), rotation=np.eye(128).astype(bf16), v_scale=np.ones(2, np.float32),
        head_nums=(8, 2, 2))
    session.qkv_rms_norm_rope_cache_with_k_scale(**{**arguments, **changes})

session = kv.Session(backend=BACKEND)
"""


def run(*command: str, stdin: str = "", **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *command],
        input=stdin,
        env={**os.environ, "ACLNN_KVCACHE_LIB_DIR": str(libraries()), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def libraries() -> Path:
    return Path(library.load("simulator").paths[0]).parent


def failing(call: str, backend: str = "simulator", **environment: str) -> list[str]:
    """The lines that a program prints which makes the call and handles nothing, from the exception's text on."""
    code, text = run("-c", PROGRAM.replace("BACKEND", repr(backend)) + call, **environment)
    assert code == 1, text
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("aclnn_kvcache.errors.")) :]


def explained(*what: str, stdin: str = "") -> str:
    code, text = run("-m", "aclnn_kvcache", "explain", *what, stdin=stdin)
    assert code == 0, text
    return text


# Row 1: a number and nothing else.
def test_a_missing_tensor_is_named_with_all_the_others() -> None:
    lines = failing("scatter(key_scale=None)")
    assert "key_scale is None; the operator requires it" in lines[0]
    assert lines[1] == (
        "  CANN would answer 161001 ACLNN_ERR_PARAM_NULLPTR. Nothing was launched and nothing was changed."
    )
    if sys.version_info >= (3, 11):
        assert "arguments of aclnnScatterPaKvCacheWithKScale:" in lines
        assert "  key_scale        NULL" in lines
        assert "  key              host   float8_e4m3fn [3, 2, 16] strides [32, 16, 1] contiguous" in lines
        assert any(line.startswith("library: ") and line.endswith("libopapi.so, CANN 9.1.0") for line in lines)
        assert any(line.startswith("CANN's log: ") for line in lines)


def test_a_pasted_161001_is_explained() -> None:
    text = explained(stdin="aclnnFooGetWorkspaceSize failed with aclnnStatus=161001.")
    assert "161001 ACLNN_ERR_PARAM_NULLPTR" in text
    assert "pass every tensor that the operator requires" in text


# Row 2: a bare 561002.
def test_561002_says_what_tiling_is_and_how_to_find_the_shape() -> None:
    text = explained("561002")
    assert "561002 ACLNN_ERR_INNER_TILING_ERROR" in text
    assert "tiling" in text
    assert "aclnn-kvcache check" in text
    assert "`aclnn-kvcache replay` makes a recorded call again" in text


# Row 4: a dtype outside the operator's list.
def test_a_wrong_dtype_names_argument_allowed_and_got() -> None:
    assert failing("fused(qkv=np.ones((2, 12, 128), np.float32))")[0].endswith(
        "qkv must be bfloat16, got float32; array.astype('bfloat16') rounds it"
    )
    line = failing("scatter(key=np.ones((3, 2, 16), np.float32))")[0]
    assert "key must be float8_e5m2 or float8_e4m3fn, got float32; quantise it on purpose: array.astype(" in line
    text = explained(
        stdin="EZ1001: Tensor self not implemented for DT_FLOAT, should be in dtype support list [DT_FLOAT16,]."
    )
    assert "dtype" in text


# Row 5: two inputs that disagree.
def test_shapes_that_disagree_name_both_arguments_and_the_axis() -> None:
    line = failing("scatter(key_cache=np.zeros((4, 3, 4, 16), fp8))")[0]
    assert "key_cache must be [B, N, S, Dk] = [any, 2, any, 16], got [4, 3, 4, 16]" in line
    assert "of key [3, 2, 16]" in line


# Row 7: FP32 weights beside a 16-bit input.
def test_a_gamma_of_another_dtype_says_what_converts_it() -> None:
    assert failing("fused(q_gamma=np.ones(128, bf16))")[0].endswith(
        "q_gamma must be float32, got bfloat16; array.astype('float32') converts it"
    )


# Row 8: 561103 for an installation without the operator's kernels.
@pytest.mark.parametrize("call", ["scatter", "fused"])
def test_missing_kernels_blame_the_installation_and_not_the_tensors(call: str) -> None:
    api = {"scatter": "aclnnScatterPaKvCacheWithKScale", "fused": "aclnnQkvRmsNormRopeCacheWithKScale"}[call]
    lines = failing(f"{call}()", ACLSIM_PROFILE=f"no_kernels={api}")
    assert f"{api}GetWorkspaceSize answered 561103 ACLNN_ERR_INNER_NULLPTR" in lines[0]
    assert f"Your installation, not your arguments: the kernels of {api} are missing" in lines[0]
    assert "install the operator package" in lines[0]
    assert "ASCEND_OPP_PATH" in lines[0]
    assert f"  evidence: the rules of {api} find nothing wrong with the arguments" in lines
    assert "  evidence: the SoC is Ascend950PR_9599, which has the operator" in lines
    assert "  the library says:" in lines


def test_another_product_is_named() -> None:
    lines = failing("scatter()", ACLSIM_PROFILE="soc=Ascend910B2")
    assert "Your device, not your arguments: the operator has kernels for Ascend 950PR and 950DT alone" in lines[0]
    assert "this is Ascend910B2" in lines[0]


# Row 11: no library, no symbol, another argument list.
def test_an_older_cann_without_the_operator_says_which_it_is() -> None:
    lines = failing("scatter()", ACLNN_KVCACHE_LIB_DIR=str(libraries() / "cann_8_5"))
    assert lines[0].startswith("aclnn_kvcache.errors.SymbolNotFoundError: aclnnScatterPaKvCacheWithKScale")
    assert "this is CANN 8.5.0" in lines[0]
    assert "install" in lines[0]


def test_an_empty_folder_is_no_library(tmp_path: Path) -> None:
    lines = failing("scatter()", backend="cann", ACLNN_KVCACHE_LIB_DIR=str(tmp_path))
    assert lines[0].startswith("aclnn_kvcache.errors.LibraryNotFoundError: ")
    assert any(f"{tmp_path}/libascendcl.so" in line and "no such file" in line for line in lines)


def test_an_argument_list_that_contradicts_the_header_is_refused() -> None:
    folder = str(libraries() / "rev_c")
    lines = failing("fused()", ACLNN_KVCACHE_LIB_DIR=folder, ACLNN_KVCACHE_QKV_ABI="B")
    assert lines[0].startswith("aclnn_kvcache.errors.AbiMismatchError: ")
    assert "revision 'B' was stated, but the header installed" in lines[0]
    assert any("Drop the statement or correct the installation" in line for line in lines)


# Row 24: a thread without a context. The session's methods bind it; a pasted text is explained.
def test_another_thread_just_works_and_107002_is_explained() -> None:
    code, text = run(
        "-c",
        PROGRAM.replace("BACKEND", "'simulator'")
        + "thread = threading.Thread(target=scatter); thread.start(); thread.join(); session.close(); print('done')",
    )
    assert (code, text) == (0, "done\n")
    text = explained(stdin="EE1001: ... error code 107002, context pointer null")
    assert "107002 ACL_ERROR_RT_CONTEXT_NULL" in text
    assert "in each thread" in text or "every thread" in text


# Row 27: the device cannot be opened; the headline misleads.
def test_a_host_without_devices_blames_the_host() -> None:
    lines = failing("", ACLSIM_PROFILE="devices=0")
    assert lines[0].startswith("aclnn_kvcache.errors.DeviceUnavailableError: aclInit answered 500000")
    assert "The device could not be opened because there is none, or none that this process may see" in lines[0]
    assert "arguments play no part in this" in lines[0]
    assert "ASCEND_RT_VISIBLE_DEVICES" in lines[0]
    assert "aclnn-kvcache doctor" in lines[0]


def test_a_wrong_variable_is_named_and_nothing_else_is_blamed() -> None:
    lines = failing("", ACLSIM_PROFILE="device=0")
    assert lines[0].startswith("aclnn_kvcache.errors.DeviceUnavailableError: aclInit answered 500000")
    assert "An environment variable is wrong, not your arguments" in lines[0]
    assert 'ACLSIM_PROFILE is wrong: "device" is no key' in lines[0]
    assert "correct or unset the variable" in lines[0]
    assert "permissions" not in "\n".join(lines)


def test_507033_is_about_the_device_and_its_headline_is_noise() -> None:
    text = explained(stdin="EE1001: The argument is invalid. Reason: context is a null pointer. ret:507033")
    assert text.startswith("507033 ACL_ERROR_RT_DEV_SETUP_ERROR")
    assert "usual noise, not the cause:\n  EE1001: The argument is invalid. Reason: context is a null pointer" in text
    assert "permission" in text


# Row 34: a library, or one that it needs, is not there.
def test_a_host_without_cann_gets_the_one_command(tmp_path: Path) -> None:
    lines = failing("", backend="auto", ACLNN_KVCACHE_LIB_DIR="", LD_LIBRARY_PATH=str(tmp_path), ASCEND_HOME_PATH="")
    text = "\n".join(lines)
    assert "source <CANN root>/set_env.sh" in text
    assert "too late" in text
    assert "libascendcl.so: cannot open shared object file" in text
    assert f"{tmp_path}/libascendcl.so" in text
    text = explained(stdin="OSError: libascend_dump.so: cannot open shared object file: No such file or directory")
    assert "set_env.sh" in text
