# SPDX-License-Identifier: Apache-2.0
"""Calls of each scene recorded, checked and made again on the revision that they were made on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scene_calls import REVISION

import aclnn_kvcache as kv
from aclnn_kvcache.bundle.reading import read_bundle
from aclnn_kvcache.replay.checking import check_file
from aclnn_kvcache.replay.replay import replay
from aclnn_kvcache.rules.qkv_scenes import ROPE
from aclnn_kvcache.smoke.cases import names_of
from aclnn_kvcache.smoke.qkv_cases import QKV_CASES

NAMES = [n for n in names_of(REVISION) if n in QKV_CASES and (QKV_CASES[n].scene != ROPE or n == "qkv-padded")]


@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_made_again(name: str, tmp_path: Path) -> None:
    case = QKV_CASES[name]
    prepared = case.prepare(np.random.default_rng(1))
    with kv.Session(backend="simulator", record=tmp_path) as session:
        bases = {n: base if case.on_host else session.array(base) for n, base in prepared.before.items()}
        session.qkv_rms_norm_rope_cache_with_k_scale(**prepared.arguments(bases), **prepared.options)
    (path,) = tmp_path.iterdir()
    checked = check_file(path)
    assert (checked.contract.revision, checked.findings, checked.prediction.risks) == (REVISION, (), ())
    with kv.Session(backend="simulator", record=False) as session:
        report = replay(read_bundle(path), session)
    assert (report.ok, report.same_target, report.as_recorded, report.oracle_refuses) == (True, True, True, "")
    results = {"k_cache", "v_cache", "q_out"}
    together = case.scene.comparison["k_cache"] == "mx"  # scales belong to their numbers
    results |= set() if together else {"k_scale_cache", *(["q_scale"] if case.scene.has_q_scale else [])}
    assert {key for key in report.oracle if ", gaps" not in key} == results
    assert {comparison.rule for comparison in report.oracle.values()} <= {"exact", *case.scene.comparison.values()}
