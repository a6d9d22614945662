# SPDX-License-Identifier: Apache-2.0
"""Installations of CANN whose operator library is a fake with any argument list, which records what it is called with.

The argument lists are written down here once more, so that those of the package are checked against them. The rest of
an installation is the simulator's. Processes with it find it by the environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aclnn_kvcache.native.library import load
from aclnn_kvcache.native.prototypes import INCLUDE

SIMULATOR = Path(__file__).parents[2] / "aclnn_kvcache" / "simulator"

QKV = "aclnnQkvRmsNormRopeCacheWithKScale"
SCATTER = "aclnnScatterPaKvCacheWithKScale"
QKV_HEADER = "include/aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"

CACHES = """
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cosSin,
    const aclTensor *slotMapping, aclTensor *kCacheRef, aclTensor *vCacheRef, aclTensor *kScaleCacheRef,"""
A = f"""{CACHES} const aclTensor *queryStartLoc, const aclTensor *seqLens, const aclTensor *rotationOptional,
    const aclTensor *vScaleOptional, const aclIntArray *headNums, const char *layoutQkv, const char *layoutQOut,
    float epsilon, aclTensor *qOut, aclTensor *qScale, uint64_t *workspaceSize, aclOpExecutor **executor"""
B = f"""{CACHES} const aclTensor *queryStartLocOptional, const aclTensor *seqLensOptional,
    const aclTensor *rotationOptional, const aclTensor *vScaleOptional, const aclTensor *mropePositionOptional,
    const aclIntArray *headNums, const char *layoutQkv, const char *layoutQOut, float epsilon,
    const aclIntArray *mropeSectionOptional, const char *qQuantMode, aclTensor *qOut, aclTensor *qScaleOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor"""
C = B.replace("const char *qQuantMode,", "const char *qQuantMode, const char *kQuantMode,")
REVISIONS = {"A": A, "B": B, "C": C}

SCATTER_PHASE_1 = """
    const aclTensor *key, const aclTensor *value, aclTensor *keyCacheRef, aclTensor *valueCacheRef,
    const aclTensor *slotMapping, aclTensor *keyScale, aclTensor *keyScaleCacheRef, char *cacheLayoutOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor"""
PHASE_2 = "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream"

EXECUTOR, WORKSPACE = 0x5EED, 4096
"""What phase 1 of a fake answers."""


def names(parameters: str) -> list[str]:
    return re.findall(r"(\w+)\s*(?:,|$)", parameters)


def declarations(operator: str, phase_1: str) -> str:
    return f"aclnnStatus {operator}GetWorkspaceSize({phase_1});\naclnnStatus {operator}({PHASE_2});\n"


def simulated() -> Path:
    """The folder of the simulator's libraries."""
    return Path(load("simulator").paths[0]).parent


def copy_libraries(root: Path, *libraries: str) -> Path:
    """A folder ``lib64`` with the simulator's libraries, but none of the operators unless they are named."""
    folder = root / "lib64"
    folder.mkdir(parents=True)
    for library in ("libaclsim_core.so", "libascendcl.so", "libnnopbase.so", *libraries):
        shutil.copy(simulated() / library, folder)
    return folder


def install(root: Path, qkv: str | None, header: str | None = None, *, scatter: bool = True) -> Path:
    """An installation whose library takes the arguments ``qkv``, and whose header, if it has one, has the text.

    Returns the folder of its libraries.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    folder = copy_libraries(root)
    operators = {QKV: qkv, SCATTER: SCATTER_PHASE_1 if scatter else None}
    source = '#include "revision_fakes.h"\n' + "".join(
        _definitions(operator, phase_1) for operator, phase_1 in operators.items() if phase_1
    )
    (root / "fake.c").write_text(source)
    # Sanitizers of this process are none of the compiler's business.
    plain = {n: v for n, v in os.environ.items() if n != "LD_PRELOAD" and not n.endswith("SAN_OPTIONS")}
    command = [compiler, "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", str(root / "fake.c")]
    command += [f"-I{path}" for path in (Path(__file__).parent, SIMULATOR, INCLUDE)]
    command += ["-o", str(folder / "libopapi.so"), f"-L{folder}", "-lnnopbase", "-laclsim_core", "-Wl,-rpath,$ORIGIN"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    assert done.returncode == 0, done.stderr
    if header is not None:
        (root / QKV_HEADER).parent.mkdir(parents=True)
        (root / QKV_HEADER).write_text(header)
    return folder


def _definitions(operator: str, phase_1: str) -> str:
    sizes = {"uint64_t *workspaceSize": "FAKE_WORKSPACE", "aclOpExecutor **executor": "FAKE_EXECUTOR"}
    made = "".join(f" *{names(out)[0]} = {value};" for out, value in sizes.items())
    return _definition(f"{operator}GetWorkspaceSize", phase_1, made) + _definition(operator, PHASE_2, "")


def _definition(function: str, parameters: str, made: str) -> str:
    recorded = " ".join(f"RECORD({name});" for name in names(parameters))
    head = f'__attribute__((visibility("default"))) aclnnStatus {function}({parameters})'
    return f'{head} {{ begin("{function}"); {recorded} end();{made} return 0; }}\n'


HEAD = """
import json, os, sys
import ml_dtypes
import numpy as np
import aclnn_kvcache as kv
LIB = os.environ["REVISION_FAKES_LIB"]
FP8, INT8, BF16, E8M0 = ml_dtypes.float8_e4m3fn, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu
DTYPES = {name: np.float32 for name in ("q_gamma", "k_gamma", "cos_sin", "k_scale_cache", "v_scale", "q_scale")}
DTYPES |= {name: np.int32 for name in ("slot_mapping", "query_start_loc", "seq_lens", "mrope_position")}
DTYPES |= {name: ml_dtypes.float8_e4m3fn for name in ("k_cache", "v_cache", "q_out")}
DTYPES |= {name: ml_dtypes.bfloat16 for name in ("qkv", "rotation")}
def answer(**facts): print(json.dumps(facts))
def opened(**options): return kv.Session(library_dir=LIB, **options)
def shapes(heads=(16, 2, 2), tokens=5):
    q, k, v = heads
    return dict(qkv=(tokens, q + k + v, 128), q_gamma=(128,), k_gamma=(128,), cos_sin=(32, 128),
        slot_mapping=(tokens,), k_cache=(3, k, 4, 128), v_cache=(3, v, 4, 128), k_scale_cache=(3, k, 4, 1),
        query_start_loc=(3,), seq_lens=(2,), rotation=(128, 128), v_scale=(v,))
def arrays(session, heads=(16, 2, 2)):
    return {name: session.array(np.zeros(shape, DTYPES[name])) for name, shape in shapes(heads).items()}
def call(session, heads=(16, 2, 2), **options):
    "One call of the fused operator; where its arrays are."
    given = arrays(session, [int(n) for n in heads])
    options = {"head_nums": heads, "layout_qkv": "TND", "layout_q_out": "NTD", "epsilon": 3e-5, **options}
    given["q_out"], given["q_scale"] = session.qkv_rms_norm_rope_cache_with_k_scale(**given, **options)
    session.stream.synchronize()
    return {name: array.ptr for name, array in given.items()}
SCENES = {
    "M-RoPE": (
        dict(query_start_loc=None, seq_lens=None, mrope_position=(5, 3), v_scale=(2, 128)),
        dict(k_cache=INT8),
        dict(mrope_section=(11, 20, 20), q_quant_mode="NoQuant"),
    ),
    "Mx": (
        dict(query_start_loc=None, seq_lens=None, rotation=None, mrope_position=(5, 3), v_scale=(2, 128),
             k_scale_cache=(3, 2, 4, 4)),
        dict(k_scale_cache=E8M0),
        dict(mrope_section=[24, 20, 20], q_quant_mode="Mx", k_quant_mode="Mx"),
    ),
}
def call_scene(session, scene, place="device", **options):
    "One call of M-RoPE or Mx; where its arrays are, and shape and dtype of what it made."
    changed, dtypes, modes = SCENES[scene]
    wanted = {**shapes(), **changed}
    given = {name: shape and np.zeros(shape, {**DTYPES, **dtypes}[name]) for name, shape in wanted.items()}
    given["slot_mapping"] = np.arange(5, dtype=np.int32)
    if place == "device":
        given = {name: None if array is None else session.array(array) for name, array in given.items()}
    options = {"head_nums": (16, 2, 2), "layout_q_out": "TND", "epsilon": 3e-5, **modes, **options}
    made = dict(zip(("q_out", "q_scale"), session.qkv_rms_norm_rope_cache_with_k_scale(**given, **options)))
    session.stream.synchronize()
    addresses = {name: array.ptr for name, array in {**given, **made}.items() if array is not None} \
        if place == "device" else {}
    facts = {name: array is not None and [list(array.shape), array.dtype.name] for name, array in made.items()}
    return {"addresses": addresses, "made": facts}
def error_of(act):
    try: return {"type": "none", "text": repr(act())}
    except kv.KvCacheError as error:
        return {"type": type(error).__name__, "text": str(error), "status": getattr(error, "status", None),
            "arguments": [name for finding in getattr(error, "findings", ()) for name in finding.arguments]}
"""


def environment(root: Path, folder: Path, **environ: str) -> dict[str, str]:
    """That of a process which is to use the libraries of the folder and no others."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ASCEND", "ACLNN_KVCACHE_")) and name != "LD_LIBRARY_PATH"
    }
    fakes = {"REVISION_FAKES_LIB": str(folder), "REVISION_FAKES_RECORD": str(root / "record")}
    fakes["ACLSIM_CHECK"] = "none"  # which would say that nobody wrote a fake's results
    return {**kept, **fakes, **environ}


def run(root: Path, folder: Path, code: str, **environ: str) -> Any:
    """What the code, run in a process of its own, answers."""
    command = [sys.executable, "-c", HEAD + textwrap.dedent(code)]
    env = environment(root, folder, **environ)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def recorded(root: Path) -> list[dict[str, Any]]:
    """The calls that reached the fake, each with its function and its arguments by name."""
    record = root / "record"
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def seen(address: int, shape: list[int], dtype: int) -> Mapping[str, Any]:
    return {"shape": shape, "dtype": dtype, "address": address}
