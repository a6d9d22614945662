# SPDX-License-Identifier: Apache-2.0
"""Each native call of each scenario fails in turn: a typed error comes that names it, host arrays are as before or as
documented, nothing is left alive, the process lives, the next call gives the right bytes, and no check has a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("sweep.py")

SCENARIOS = (
    *("session", "transfer", "host scatter", "host fused", "device scatter", "device fused", "two streams"),
    *("many calls", "foreign context", "blocking", "recording", "smoke"),
)

HARMLESS = {
    "aclGetRecentErrMsg": "the error that is raised has no text of the library's",
    "aclrtGetSocName": "a bundle says that the product is unknown",
    "aclsysGetVersionStr": "a bundle takes the version from the files of the installation, or says that it is unknown",
}
"""What may fail without an error, and what is then missing."""

SCATTER, FUSED = "aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale"

LEFT = {
    # What destroys, and did not. Of a phase 2 CANN says that it consumes the executor whatever it answers.
    "": {
        "aclDestroyTensor": "ACLSIM_LIVE_TENSORS",
        "aclDestroyIntArray": "ACLSIM_LIVE_HOLDERS",
        "aclrtFree": "ACLSIM_LIVE_DEVICE_ALLOCATIONS",
        "aclrtResetDevice": "ACLSIM_LIVE_CONTEXTS",
        SCATTER: "ACLSIM_LIVE_EXECUTORS",
        FUSED: "ACLSIM_LIVE_EXECUTORS",
    },
    # What makes, and did, but said that it failed: then nobody may look at its out-parameters. (Streams and events go
    # with the device.)
    ":after": {
        "aclCreateTensor": "ACLSIM_LIVE_TENSORS",
        "aclCreateIntArray": "ACLSIM_LIVE_HOLDERS",
        "aclrtMalloc": "ACLSIM_LIVE_DEVICE_ALLOCATIONS",
        "aclrtSetDevice": "ACLSIM_LIVE_CONTEXTS",
        f"{SCATTER}GetWorkspaceSize": "ACLSIM_LIVE_EXECUTORS",
        f"{FUSED}GetWorkspaceSize": "ACLSIM_LIVE_EXECUTORS",
    },
}
"""The object that the library keeps, by the function that failed: one for each time."""

BINDING = ("aclrtSetDevice", "aclrtSetCurrentContext")
"""Where these fail, the thread's context is not what it should be, and an error says so."""

Record = Callable[[str, object], None]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_native_call_fails_in_turn(scenario: str, record_property: Record) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, scenario],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROGRAM.parent,  # which makes it the first place to import from, and not the checkout
        env={**os.environ, "ACLSIM_REPORT": os.devnull},  # the program reads reports itself
    )
    crashes = int(done.returncode < 0)
    results = {} if done.returncode else json.loads(done.stdout)
    left = {manner: unexplained(result["left"], result["failed"], manner) for manner, result in results.items()}
    figures = {
        name: sum(sum(result[name].values()) for result in results.values()) for name in ("failed", "told", "silent")
    }
    leaks = sum(number for kinds in left.values() for number in kinds.values())
    record_property("sweep", {**figures, "leaks": leaks, "crashes": crashes})
    assert (done.returncode, done.stderr) == (0, "")
    assert [what for result in results.values() for what in result["problems"] if not excused(*what)] == []
    assert left == {"": {}, ":after": {}}
    assert {function for result in results.values() for function in result["silent"]} <= set(HARMLESS)
    assert figures["failed"] == sum(result["calls"] for result in results.values())
    assert figures["failed"] == figures["told"] + figures["silent"]


def excused(function: str, problem: str) -> bool:
    """Of what cannot be helped: an aclInit that says that it failed, and did not, is called again."""
    if function == "aclInit":
        return problem.endswith("reported: api:repeated_init in aclInit")
    return function in BINDING and problem.endswith("the thread lost its context")


def unexplained(left: dict[str, int], failed: dict[str, int], manner: str) -> dict[str, int]:
    """What is alive beyond the objects that the library itself kept."""
    kept = {
        f"{function} {LEFT[manner][function]}": times for function, times in failed.items() if function in LEFT[manner]
    }
    return {key: number - kept.get(key, 0) for key, number in left.items() if number != kept.get(key, 0)}
