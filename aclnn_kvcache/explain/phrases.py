# SPDX-License-Identifier: Apache-2.0
"""Phrases in the texts of CANN, of the loader and of frameworks that say more than the code beside them, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class Phrase(NamedTuple):
    words: tuple[str, ...]
    """In lower case. A line that matches has one of them in it; looking for these first makes long texts cheap."""
    pattern: str
    """Of one line, in any case. What it matches is shown."""
    meaning: str
    causes: str
    action: str
    noise: bool = False
    """Whether it usually follows from something else, so that codes on the same line are not the cause either."""


_KERNELS = "install the kernel package of this product and release; aclnn-kvcache doctor shows what is there"
_SET_ENV = "source <CANN root>/set_env.sh before starting Python: the loader reads LD_LIBRARY_PATH once, at the start"
_FAULT = (
    "check slots, positions, seq_lens, rows of cos_sin, strides and buffer sizes of everything queued since the "
    "last synchronise"
)
_RULES = "`aclnn-kvcache explain --rules OPERATOR` prints what the operator takes"

PHRASES = (
    Phrase(
        ("not implemented for dt_",),
        r"(\S{1,80} )?not implemented for DT_\w+(.{0,40}support list \[[^\]]{0,200}\])?",
        "a data type is outside the operator's list for this product",
        "the tensor named before it has the type after DT_; the list in brackets is what the operator takes",
        f"convert that tensor on purpose, or use another operator; {_RULES}",
    ),
    Phrase(
        ("parse dynamic kernel config",),
        r"parse dynamic kernel config fail\w*",
        "the operator's kernels for this product are not installed, or are of another release; not your tensors",
        "the kernel package is missing, is for another SoC, or ASCEND_OPP_PATH names another root",
        _KERNELS,
    ),
    Phrase(
        ("binary_info_config.json",),
        r"\S{0,80}binary_info_config\.json.{0,60}",
        "the list of installed kernels cannot be read: the installation, not your tensors",
        "the kernel package is missing, is for another SoC, or ASCEND_OPP_PATH names another root",
        _KERNELS,
    ),
    Phrase(
        ("libopapi.so",),
        r"(\S{1,80} or )?\S{1,80} not in libopapi\.so(,? or libopapi\.so not found)?|libopapi\.so not found",
        "the operator is not in the installed CANN",
        "the operator is newer than the CANN in use, its package is not installed, or set_env.sh was not sourced",
        "aclnn-kvcache doctor tells the cases apart: no library, a library without the symbol, or another ABI",
    ),
    Phrase(
        ("libascend_hal.so",),
        r"libascend_hal\.so[\w.]*: cannot open shared object file",
        "the NPU driver's library is missing",
        "the host has no NPU driver, or the container does not mount its folder",
        'run on a host with the driver and mount its lib64, or use the simulator (backend="simulator")',
    ),
    Phrase(
        ("cannot open shared object file",),
        r"(?<!\S)(?!\S{0,120}libascend_hal)\S{1,120}: cannot open shared object file",
        "the loader did not find a library, or one that this library needs",
        "set_env.sh was not sourced, or a dependency is missing although the file that was named exists",
        f"{_SET_ENV}; `ldd FILE` names what is missing",
    ),
    Phrase(
        ("undefined symbol",),
        r"undefined symbol:? ?\w{0,120}",
        "a library was loaded that does not fit to the others",
        "two CANN releases in one process: two roots in LD_LIBRARY_PATH, a custom package, or a framework's copy",
        "use one CANN root; aclnn-kvcache doctor prints path and version of each library",
    ),
    Phrase(
        ("not found",),
        r"version .?(GLIBC|GLIBCXX|CXXABI)_[\d.]+.? not found",
        "a library was built for a newer system than this one",
        "an old image, or an old C++ runtime found first (conda brings one)",
        "use an image that this CANN release supports, or put the system's libstdc++ first",
    ),
    Phrase(
        ("unbound variable",),
        r"\w{0,60}: unbound variable",
        "set_env.sh reads variables that are not set, which ends a script under `set -u`",
        "the script was sourced under `set -u` or `set -eu`",
        "put `set +u` before it and `set -u` after it",
    ),
    Phrase(
        ("initialize npu",),
        r"cannot re-?initialize NPU in forked subprocess",
        "the NPU was used before the process forked, and does not survive that",
        "multiprocessing with the fork start method, or a server that forks its workers",
        "use the spawn start method, or touch the device only in the children",
    ),
    Phrase(
        ("mte instruction",),
        r"DDR address of the MTE instruction is out of range",
        "a kernel moved data from or to an address that is not device memory",
        "a slot, stride or size beyond an allocation, in this call or in one queued before it; or freed memory",
        f"{_FAULT}; synchronise after each launch to find the call",
    ),
    Phrase(
        ("exception",),
        r"aivec(tor)?( core)? (error )?exception|vector core exception",
        "a vector kernel failed on the device",
        "a descriptor larger than its buffer is the usual one; the fault may show in a later call",
        f"{_FAULT}; synchronise after each launch to find the call",
    ),
    Phrase(
        ("rtgetdevmsg",),
        r"rtGetDevMsg.{0,80}not support\w*",
        "the runtime cannot ask the device: board, driver and CANN do not belong together; not your arguments",
        "the driver is older than CANN or made for another board",
        "compare driver and CANN with the release notes; aclnn-kvcache doctor prints both versions",
    ),
    Phrase(
        ("null",),
        r"(executor|workspace)\w* is (a )?null(ptr)?\b",
        "phase 2 was called with what a failed phase 1 left behind",
        "the status of phase 1 was not looked at; or the executor or the workspace is missing",
        "explain the status of phase 1, and use its size and executor only if that is 0",
    ),
    Phrase(
        ("more than 1eb",),
        r"tried to allocate more than 1EB memory",
        "a workspace size that phase 1 never wrote was used",
        "phase 1 failed, and the caller went on with an uninitialised size",
        "look at the status of phase 1 before using the size",
    ),
    Phrase(
        ("viewshape overlap",),
        r"ViewShape overlap\w*",
        "a view reaches outside the storage that was declared for it",
        "storage dimensions smaller than offset and strides need, or a wrong offset (it is in elements)",
        "make the storage as large as the allocation, and check offset + (extent - 1) * stride of each axis",
    ),
    Phrase(
        ("aclrtgetdevice",),
        r"aclrtGetDevice\b.{0,80}107002",
        "the calling thread has set no device",
        "phase 1 was called in a thread that never called aclrtSetDevice",
        "set the device, or bind the session, in each thread",
    ),
    Phrase(
        ("tsd",),
        r"(tsd\w* .{0,20}(open|start)\w* fail\w*|(fail\w*|can ?not) .{0,20}open.{0,20}\btsd\w*)",
        "the device's service could not be started",
        "the device is held by another process, is unhealthy, or the operator package does not go with the driver",
        "look at npu-smi info and at other processes on the device; then at versions with aclnn-kvcache doctor",
    ),
    Phrase(
        ("coredim",),
        r"coreDim\W{1,4}0\b",
        "a kernel was to be launched on no core at all",
        "a tensor without elements",
        "do not call the operator with nothing to do",
    ),
    Phrase(
        ("npu out of memory",),
        r"NPU out of memory",
        "device memory is exhausted",
        "caches and workspaces of this process, or other processes on the device",
        "close what is no longer used, or use a smaller cache",
    ),
    Phrase(
        ("ecc",),
        r"multi-?bit ecc\w*|ecc error",
        "memory of the device is defective",
        "a hardware fault",
        "stop using the device and look at npu-smi info",
    ),
    Phrase(
        ("permission denied",),
        r"\bpermission denied\b.{0,60}davinci\w*|davinci\w*.{0,60}\bpermission denied\b",
        "the process may not open the device",
        "the user is not in the device's group, or the container has no access",
        "check the owner and mode of /dev/davinci*",
    ),
    Phrase(
        ("dtype descriptor",),
        r"not a valid dtype descriptor",
        "NumPy cannot read or write FP8 and bfloat16 by name in its own files",
        "np.save or np.load of an ml_dtypes array",
        "store the bytes as uint8 and the name of the dtype beside them; `.view(dtype)` brings it back",
    ),
    Phrase(
        ("null", "getdeverrmsg"),
        r"context (is a |is )?(null pointer|pointer null|null)|ctx is null|GetDevErrMsg",
        "the runtime was asked, in a thread without a device, for the device's message about an earlier failure",
        "it heads or follows many failures; it is the cause only beside 107002 and nothing else",
        "look at the other codes; if there are none, set the device in this thread",
        noise=True,
    ),
)


@lru_cache(maxsize=1)
def compiled() -> tuple[tuple[Phrase, re.Pattern[str]], ...]:
    return tuple((phrase, re.compile(phrase.pattern, re.IGNORECASE)) for phrase in PHRASES)


def matches(line: str) -> Iterator[tuple[Phrase, str]]:
    """The phrases in a line, with what each matches."""
    lower = line.lower()
    for phrase, pattern in compiled():
        if any(word in lower for word in phrase.words) and (match := pattern.search(line)):
            yield phrase, match[0]


def is_noise(line: str) -> bool:
    """Whether a line says nothing but what usually follows from something else."""
    return any(phrase.noise for phrase, _ in matches(line))
