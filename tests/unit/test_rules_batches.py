# SPDX-License-Identifier: Apache-2.0
"""Batches, positions and slots of the fused operator: what is refused, and that the oracle refuses the same."""

import itertools

import numpy as np
from good_calls import QKV, qkv

from aclnn_kvcache import oracle
from aclnn_kvcache.rules.contracts import CONTRACTS
from aclnn_kvcache.rules.rule import Call

CONTRACT = CONTRACTS[QKV]


def values(slots=(0, 5, 9, 31, 7), starts=(0, 2, 2, 5), lengths=(2, 0, 16)):
    named = {"slot_mapping": slots, "query_start_loc": starts, "seq_lens": lengths}
    return {name: np.array(value, np.int32) for name, value in named.items()}


def found(known, **numbers):
    good = {**CONTRACT.attributes, **qkv(**numbers)}
    specs = {name: good[name] for name in CONTRACT.tensors}
    return CONTRACT.check_data(Call(specs, {name: good[name] for name in CONTRACT.attributes}, known))


def rules(known, **numbers):
    return [finding.rule for finding in found(known, **numbers)]


def test_good_values():
    assert found(values()) == []
    assert found(values(lengths=(2, 99, 3))) == []  # a batch without tokens reads no position
    assert found({}) == []


def test_the_first_batch_is_named_and_the_others_are_counted():
    [finding] = found(values(lengths=(2, -1, 2)))
    assert "batch 1 has -1 with 0 tokens in this call (2 batches do)" in finding.message
    [finding] = found(values(lengths=(2**31 - 1, 0, 17)))
    assert "seq_lens of batch 0, 2147483647, puts its last token at position 2147483646" in finding.message
    assert "cos_sin has rows 0..15 (2 batches do); pass a table" in finding.message


def test_values_on_a_device_are_left_out():
    bad = values((0, 0, 0, 0, 0), (1, 0, 0, 9), (0, 0, 99))
    wanted = {
        "slot_mapping": ["slot_duplicate"],
        "query_start_loc": ["query_start", "query_order", "query_end"],
        "seq_lens": [],
    }
    for count in range(4):
        for names in itertools.combinations(wanted, count):
            assert rules({name: bad[name] for name in names}) == [rule for name in names for rule in wanted[name]]


def test_int32_extremes_do_not_wrap():
    assert rules(values(starts=(0, 2**31 - 1, -(2**31), 5), lengths=(2, 0, 3))) == ["query_order"]


def test_starts_and_lengths_of_unlike_numbers_are_left_to_the_rules_on_shapes():
    assert rules(values(starts=(0, 5), lengths=(0, 0, 0))) == []
    assert rules(values(starts=(), lengths=())) == []


def test_rules_and_oracle_refuse_the_same_values():
    """Drawn around the limits of T = 2, two batches, 4 slots and a table of 3 rows; each side has its own code."""
    r = np.random.default_rng(0)
    numbers = {"T": 2, "heads": (1, 1, 1), "batches": 2, "B": 2, "S": 2, "table": 3}
    specs = qkv(**numbers)
    arguments = {name: np.zeros(specs[name].shape, specs[name].dtype) for name in (*CONTRACT.inputs, *CONTRACT.caches)}
    verdicts = []
    for _ in range(2000):
        starts = [int(r.integers(20) == 0), r.integers(-1, 4), 2 + int(r.integers(20) == 0)]
        drawn = values(r.permutation(6)[:2] - 1, starts, r.integers(-1, 5, 2))
        try:
            oracle.qkv_rms_norm_rope_cache_with_k_scale(**arguments | drawn, head_nums=(1, 1, 1))
            refused = False
        except ValueError:
            refused = True
        assert bool(found(drawn, **numbers)) == refused, drawn
        verdicts.append(refused)
    assert 100 < sum(verdicts) < 1900
