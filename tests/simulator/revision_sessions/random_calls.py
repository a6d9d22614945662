# SPDX-License-Identifier: Apache-2.0
"""Random calls of each scene: simulator and oracle, written independently, agree by the scene's rules.

``SCENE_CALLS`` says how many a scene; 300 take half a minute.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import scene_calls as scenes
from scene_calls import REVISION, SCENES

import aclnn_kvcache as kv

CALLS, CHUNKS = int(os.environ.get("SCENE_CALLS", "60")), 10
NUMBERS = ("q_out", "k_cache")


@pytest.mark.parametrize("scene", SCENES[REVISION])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_simulator_and_oracle_agree(session: kv.Session, scene: str, chunk: int) -> None:
    compared = unequal = 0
    for number in range(CALLS // CHUNKS):
        seed = [chunk, number]
        call = scenes.random_call(scene, np.random.default_rng(seed))
        results = scenes.run(session, call, on_device=number % 2 == 0)
        for name, comparison in scenes.compared(call, results).items():
            assert comparison.ok, f"seed {seed}, {name}: {comparison.summary()}"
        expected = scenes.by_oracle(call)
        for name in NUMBERS:
            compared += results[name].size
            got, wanted = (side[name].view(f"u{side[name].itemsize}") for side in (results, expected))
            unequal += int(np.count_nonzero(got != wanted))
    # What the order of sums in the matrix product can change.
    assert unequal <= compared // 10_000
