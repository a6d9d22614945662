# SPDX-License-Identifier: Apache-2.0
"""For every rule one input that breaks it and no other, and a neighbour that passes.

No rule is left out: of CANN's checks that no input can break alone (the equality of two scale dtypes of which only one
exists, head limits behind Nq + Nk + Nv <= 160) the tables have no row.
"""

import itertools
import math
from collections import Counter
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from good_calls import GOOD, QKV, SCATTER, qkv, respecified, scatter

from aclnn_kvcache import check_call
from aclnn_kvcache.rules.contracts import CONTRACTS
from aclnn_kvcache.rules.region import Region
from aclnn_kvcache.rules.rule import Call

E4M3FN, E5M2 = ml_dtypes.float8_e4m3fn, "float8_e5m2"
FP8_TENSORS = ("key", "value", "key_cache", "value_cache")
ROOM = 1 << 20


class Case(NamedTuple):
    operator: str
    rule: str
    breaking: dict[str, Any]
    text: str
    passing: dict[str, Any]


def changed(operator, name, base=None, **fields):
    """The good call (or ``base``) with some fields of one spec changed."""
    return respecified(GOOD[operator]() if base is None else base, name, **fields)


def shared_cases(operator):
    contract, good = CONTRACTS[operator], GOOD[operator]()
    for name in contract.tensors:
        spec = good[name]
        yield f"required.{name}", {**good, name: None}, f"{name} is None; the operator requires it", good
        dtype = changed(operator, name, dtype="float16")
        yield f"dtype.{name}", dtype, f"{name} must be ", good
        short = changed(operator, name, storage=spec.storage - 1)
        text = f"{name} reaches from element 0 to {spec.storage - 1} of an allocation of {spec.storage - 1} elements"
        yield f"bounds.{name}", short, text, changed(operator, name, offset=5, storage=spec.storage + 5)
        private = changed(operator, name, format=29)
        yield f"format.{name}", private, f"{name} must ", changed(operator, name, format=0)
        if name not in contract.written or operator == SCATTER:
            step = spec.strides[0]
            backwards = changed(operator, name, strides=(-step, *spec.strides[1:]), offset=step * (spec.shape[0] - 1))
            text = f"{name} has negative strides [{-step}, "[: -2 if len(spec.shape) == 1 else None]
            yield f"negative_stride.{name}", backwards, text, good


def shape_cases(operator, shapes):
    for rule, name, shape, text in shapes:
        yield rule, changed(operator, name, shape=shape), text, GOOD[operator]()


def scatter_cases():
    good = scatter()
    for name, rank in {"key": 3, "value": 3, "key_cache": 4, "value_cache": 4, "slot_mapping": 1}.items():
        text = f"{name} must have {rank} dimension{'s' * (rank > 1)}, got "
        yield f"rank.{name}", changed(SCATTER, name, shape=(*good[name].shape, 1)), text, good
    yield "rank.key_scale", changed(SCATTER, "key_scale", shape=(6,)), "must have 2 dimensions, got [6]", good
    cut = changed(SCATTER, "key_scale_cache", shape=(4, 2, 4))
    yield "rank.key_scale_cache", cut, "must have 4 dimensions, got [4, 2, 4]", good
    for name in FP8_TENSORS:
        headless = changed(SCATTER, name, shape=(*good[name].shape[:-1], 0))
        yield f"head_size.{name}", headless, f"{name} must have a head size (its last dimension) other than 0", good
    all_e5m2 = {name: good[name]._replace(dtype=np.dtype(E5M2)) for name in FP8_TENSORS}
    for pair, others in {
        ("key", "key_cache"): ("key_cache",),
        ("value", "value_cache"): ("value_cache",),
        ("key", "value"): ("value", "value_cache"),
    }.items():
        mixed = {**good, **{name: all_e5m2[name] for name in others}}
        text = f"{' and '.join(pair)} must have one dtype, got float8_e4m3fn and float8_e5m2"
        yield f"same_dtype.{'.'.join(pair)}", mixed, text, {**good, **all_e5m2}
    padded = {**good, "key_cache": good["key_cache"]._replace(strides=(128, 64, 16, 1), storage=512)}
    for name in good.keys() - {"slot_mapping"}:
        size = padded[name].storage
        behind = changed(SCATTER, name, padded, offset=size + 1)
        text = f"{name} starts at element {size + 1} of an allocation of {size} elements"
        yield f"offset.{name}", behind, text, changed(SCATTER, name, padded, offset=size + 1, storage=2 * size + 1)
    yield "extent.key", scatter(T=-1), "key must have no negative dimension, got [-1, 2, 8]", good
    # Their strides are those of no dense tensor, so CANN looks at offsets.
    yield "extent.value", roomy(scatter(Dv=-16)), "value must have no negative dimension, got [3, 2, -16]", good
    text = "key_cache must have no negative dimension, got [4, 2, -4, 8]"
    yield "extent.key_cache", roomy(scatter(S=-4)), text, good
    yield from shape_cases(
        SCATTER,
        (
            ("shape.value", "value", (3, 5, 16), "[T, N, Dv] = [any, 2, any], got [3, 5, 16]; T, N and Dk are those"),
            ("shape.key_cache", "key_cache", (4, 2, 4, 9), "[B, N, S, Dk] = [any, 2, any, 8], got [4, 2, 4, 9]"),
            ("shape.value_cache", "value_cache", (4, 2, 4, 9), "[B, N, S, Dv] = [any, 2, any, 16], got [4, 2, 4, 9]"),
            ("shape.slot_mapping", "slot_mapping", (2,), "[T] = [3], got [2]; T, N and Dk are those of key [3, 2, 8]"),
            ("shape.key_scale", "key_scale", (3, 1), "[T, N] = [3, 2], got [3, 1]"),
            (
                "shape.key_scale_cache",
                "key_scale_cache",
                (4, 2, 4, 2),
                "[B, N, S, 1] = [4, 2, 4, 1], got [4, 2, 4, 2]; T, N and Dk are those of key [3, 2, 8], B and S those "
                "of key_cache [4, 2, 4, 8]",
            ),
            ("tokens.value", "value", (2, 2, 16), "with the T of key = [3, any, any], got [2, 2, 16]"),
            ("blocks.value_cache", "value_cache", (3, 2, 4, 16), "key_cache = [4, any, 4, any], got [3, 2, 4, 16]"),
        ),
    )
    text = "cache_layout must be None or 'BNBD' (block, head, block size, head size), got 'bnbd'; CANN ignores the text"
    yield "cache_layout", scatter(cache_layout="bnbd"), text, scatter(cache_layout="BNBD")
    slots = {n: scatter(slot_mapping=np.array(n, np.int32)) for n in ((0, 1, 15), (0, 1, 16), (0, 15, 15))}
    text = "row 2 holds slot 16 (block 4 of 4, offset 0 with block size 4); allowed are 0..15"
    yield "slot_range", slots[0, 1, 16], text, slots[0, 1, 15]
    text = "slot_mapping rows 1 and 2 both hold slot 15 (block 3, offset 3)"
    yield "slot_duplicate", slots[0, 15, 15], text, slots[0, 1, 15]
    for name in CONTRACTS[SCATTER].caches:
        strides = good[name].strides
        twice = changed(SCATTER, name, strides=(strides[1], *strides[1:]))
        text = f"{name} reaches some elements through more than one index"
        yield f"self_overlap.{name}", twice, text, changed(SCATTER, name, strides=strides)


def qkv_cases():
    good = qkv()
    yield "required.head_nums", {**good, "head_nums": None}, "head_nums is None", good
    for name in CONTRACTS[QKV].tensors:
        empty = changed(QKV, name, shape=(0, *good[name].shape[1:]))
        yield f"empty.{name}", empty, f"{name} must not be empty, got [0", good
        unknown = changed(QKV, name, format=-1)
        yield f"undefined_format.{name}", unknown, f"{name} has aclFormat UNDEFINED (-1)", good
    for name in CONTRACTS[QKV].inputs:
        strides = tuple(2 * stride for stride in good[name].strides)
        reach = good[name]._replace(strides=strides).reach[1]
        outside = changed(QKV, name, strides=strides, storage=reach - 1)
        text = f"{name} reaches from element 0 to {reach - 1} of an allocation of {reach - 1} elements"
        yield f"copied_bounds.{name}", outside, text, changed(QKV, name, strides=strides, storage=reach)
    for name in CONTRACTS[QKV].caches:
        size = good[name].storage
        text = f"{name} starts at element {size + 1} of an allocation of {size} elements"
        behind = changed(QKV, name, offset=size + 1)
        yield f"offset.{name}", behind, text, changed(QKV, name, offset=size + 1, storage=2 * size + 1)
    yield "head_nums.length", qkv(head_nums=(4, 2)), "must have three counts, Nq, Nk and Nv, got [4, 2]", good
    yield "head_nums.positive", qkv(head_nums=(4, 0, 0)), "head_nums must have counts above 0, got [4, 0, 0]", good
    uneven = qkv(heads=(4, 2, 3))
    strides = uneven["v_cache"].strides
    uneven = changed(QKV, "k_cache", uneven, strides=strides, storage=ROOM)
    yield "head_nums.equal", uneven, "head_nums must have as many K as V heads, got [4, 2, 3]", qkv(heads=(3, 3, 3))
    text = "layout_qkv must be 'TND' or 'NTD' (None means 'TND'), got 'tnd'"
    yield "layout.layout_qkv", {**good, "layout_qkv": "tnd"}, text, {**good, "layout_qkv": None}
    text = "layout_q_out must be 'TND' or 'NTD' (None means 'NTD'), got 'BSH'"
    yield "layout.layout_q_out", {**good, "layout_q_out": "BSH"}, text, {**good, "layout_q_out": ""}
    text = "layout_q_out must be 'NTD' where layout_qkv is 'NTD', got 'TND'"
    yield "layout_pair", qkv(layout_qkv="NTD", layout_q_out="TND"), text, qkv(layout_qkv="NTD")
    yield from shape_cases(
        QKV,
        (
            ("rank.qkv", "qkv", (5, 1024), "qkv must have 3 dimensions, tokens, heads and head size"),
            ("heads.qkv", "qkv", (5, 7, 128), "the 8 heads of head_nums [4, 2, 2] on axis 1 with layout_qkv 'TND'"),
            ("head_size.qkv", "qkv", (5, 8, 64), "qkv must have head size 128, got [5, 8, 64]"),
            ("shape.q_gamma.k_gamma", "k_gamma", (64,), "must be [D] = [128], got [128] and [64]"),
            ("shape.cos_sin", "cos_sin", (16, 64), "[MaxSeqLen, D] = [any, 128], got [16, 64]"),
            ("shape.slot_mapping", "slot_mapping", (4,), "[T] = [5], got [4]; T is that of qkv [5, 8, 128] with"),
            ("shape.query_start_loc", "query_start_loc", (1,), "with at least one batch = [2], got [1]"),
            ("shape.seq_lens", "seq_lens", (4,), "[B] = [3], got [4]"),
            ("shape.rotation", "rotation", (128, 64), "[D, D] = [128, 128], got [128, 64]"),
            ("shape.v_scale", "v_scale", (1,), "[Nv] = [2], got [1]"),
            ("shape.k_scale_cache", "k_scale_cache", (4, 3, 8, 1), "= [any, 2, any, 1], got [4, 3, 8, 1]"),
            ("blocks.k_cache.k_scale_cache", "k_scale_cache", (4, 2, 9, 1), "got 4 blocks of 8 and 4 of 9"),
            ("blocks.v_cache.k_cache", "v_cache", (3, 2, 8, 128), "got 3 blocks of 8 and 4 of 8"),
            (
                "shape.q_out.q_scale",
                "q_scale",
                (5, 4),
                "must be [4, 5, 128] and [4, 5] with layout_q_out 'NTD', got [4, 5, 128] and [5, 4]",
            ),
        ),
    )
    for name in "k_cache", "v_cache":
        shape, strides = (4, 3, 8, 128), (3072, 1024, 128, 1)
        both = {n: good[n]._replace(strides=strides, storage=ROOM) for n in ("k_cache", "v_cache")}
        wide = changed(QKV, name, {**good, **both}, shape=shape)
        yield f"shape.{name}", wide, "BlockSize, D] = [any, 2, any, 128], got [4, 3, 8, 128]", {**good, **both}
        apart = {n: good[n]._replace(strides=(8192, 4096, 256, 1), storage=ROOM) for n in ("k_cache", "v_cache")}
        stepped = changed(QKV, name, {**good, **apart}, strides=(8192, 4096, 256, 2))
        text = f"{name} must have the last stride 1 and the others above 0, got [8192, 4096, 256, 2]"
        yield f"strides.{name}", stepped, text, {**good, **apart}
    unlike = changed(QKV, "k_cache", strides=(4096, 2048, 256, 1), storage=ROOM)
    text = "must have the same strides, since the kernel uses one set for both, got [4096, 2048, 256, 1] and [2048, "
    yield "strides.k_cache.v_cache", unlike, text, {**unlike, "v_cache": unlike["k_cache"]}
    loose = changed(QKV, "k_scale_cache", strides=(16, 8, 1, 0))
    text = "k_scale_cache must have the last stride 1, though that axis has extent 1, and the others above 0, got [16, "
    yield "strides.k_scale_cache", loose, text, changed(QKV, "k_scale_cache", strides=(64, 32, 4, 1), storage=256)
    yield "extent.cos_sin", qkv(table=-1), "cos_sin must have no negative dimension, got [-1, 128]", qkv(table=1)
    yield "extent.qkv", qkv(T=-1), "qkv must have no negative dimension, got [-1, 8, 128]", qkv(T=1)
    below = qkv(B=-4)
    below.update({name: below[name]._replace(storage=ROOM) for name in CONTRACTS[QKV].caches})
    yield "extent.k_cache", below, "k_cache must have no negative dimension, got [-4, 2, 8, 128]", good
    text = "Nq + Nk of at most 128, got 129 of [121, 8, 8]; split the heads"
    yield "head_limit.qk", qkv(heads=(121, 8, 8)), text, qkv(heads=(120, 8, 8))
    text = "Nq + Nk + Nv of at most 160, got 161 of [1, 80, 80]; split the heads"
    yield "head_limit.qkv", qkv(heads=(1, 80, 80)), text, qkv(heads=(2, 79, 79))
    for name in "q_out", "q_scale":
        spec = good[name]
        strides = tuple(2 * stride for stride in spec.strides)
        text = f"{name} must be contiguous, got strides {list(strides)} for {list(spec.shape)}; CANN ignores them"
        yield f"contiguous.{name}", changed(QKV, name, strides=strides, storage=2 * spec.storage), text, good
    yield "epsilon", qkv(epsilon=-1e-6), "must be a finite float32 that is not negative, got -1e-06", qkv(epsilon=0)
    for rule, texts in {
        ("slot_range", (0, 1, 2, 3, 32)): "row 4 holds slot 32 (block 4 of 4, offset 0 with block size 8)",
        ("slot_duplicate", (0, 1, 2, 3, 1)): "slot_mapping rows 1 and 4 both hold slot 1 (block 0, offset 1)",
    }.items():
        values = qkv(slot_mapping=np.array(rule[1], np.int32))
        yield rule[0], values, texts, qkv(slot_mapping=np.array((0, 1, 2, 3, 31), np.int32))
    for rule, starts, lengths, text in (
        ("query_start", (1, 2, 2, 5), (2, 0, 3), "query_start_loc must start at 0, got 1"),
        ("query_order", (0, 3, 2, 5), (3, 0, 3), "batch 1 starts at token 3 and ends at 2; positions would be wrong"),
        ("query_end", (0, 2, 2, 4), (2, 0, 3), "query_start_loc must end at the number of tokens, 5, got 4"),
        ("seq_lens", (0, 2, 2, 5), (1, 0, 3), "batch 0 has 1 with 2 tokens in this call"),
        ("position", (0, 2, 2, 5), (2, 0, 17), "seq_lens of batch 2, 17, puts its last token at position 16, but"),
    ):
        yield rule, batches(starts, lengths), text, batches((0, 2, 2, 5), (2, 0, 16))
    for name in CONTRACTS[QKV].written:
        array = np.zeros(good[name].shape, good[name].dtype)
        twice = np.lib.stride_tricks.as_strided(array, strides=(array.strides[1], *array.strides[1:]))
        text = f"{name} reaches some bytes through more than one index"
        yield f"self_overlap.{name}", {**good, name: twice}, text, {**good, name: array}


def roomy(call):
    """The call with allocations of as many elements as without the signs of extents."""
    return {name: spec._replace(storage=abs(spec.storage)) for name, spec in call.items()}


def batches(starts, lengths):
    return qkv(query_start_loc=np.array(starts, np.int32), seq_lens=np.array(lengths, np.int32))


CASES = [
    Case(operator, *case)
    for operator, cases in ((SCATTER, scatter_cases), (QKV, qkv_cases))
    for case in itertools.chain(shared_cases(operator), cases())
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.operator[:7]}-{case.rule}" for case in CASES])
def test_a_rule_that_is_broken_alone(case):
    [rule] = [rule for rule in CONTRACTS[case.operator].rules if rule.id == case.rule]
    [finding] = check_call(case.operator, **case.breaking)
    assert finding[:2] == (case.rule, rule.arguments)
    assert finding[3:] == (rule.status, rule.ez)
    assert case.text in finding.message
    assert check_call(case.operator, **case.passing) == []


def apart(operator):
    """The memory of a good call, every tensor in its own place."""
    specs = {name: GOOD[operator]()[name] for name in CONTRACTS[operator].tensors}
    return specs, {
        name: Region(
            position << 40,
            spec.shape,
            tuple(stride * spec.dtype.itemsize for stride in spec.strides),
            spec.dtype.itemsize,
        )
        for position, (name, spec) in enumerate(specs.items())
    }


PAIRS = [(operator, rule.id, *rule.arguments) for operator in CONTRACTS for rule in CONTRACTS[operator].overlap_rules]


@pytest.mark.parametrize(("operator", "rule", "written", "other"), PAIRS, ids=[f"{o[:7]}-{r}" for o, r, *_ in PAIRS])
def test_an_overlap_of_two_tensors_alone(operator, rule, written, other):
    specs, regions = apart(operator)
    size = math.prod(specs[written].shape) * specs[written].dtype.itemsize
    end = regions[written].address + size

    def found(address):
        call = Call(
            specs, CONTRACTS[operator].attributes, {}, {**regions, other: regions[other]._replace(address=address)}
        )
        return CONTRACTS[operator].check_data(call)

    [finding] = found(end - 1)
    assert (finding.rule, finding.arguments, finding.status) == (rule, (written, other), 0)
    assert f"{written}, which is written, shares memory with {other}; the result would depend" in finding.message
    assert found(end) == []


@pytest.mark.parametrize("operator", CONTRACTS)
def test_every_rule_has_a_case(operator):
    tested = [case.rule for case in CASES if case.operator == operator]
    tested += [rule for op, rule, *_ in PAIRS if op == operator]
    assert Counter(tested) == Counter(rule.id for rule in CONTRACTS[operator].rules)


@pytest.mark.parametrize("operator", CONTRACTS)
def test_every_rule_says_what_it_expects_of_which_arguments_and_where_that_is_written(operator):
    contract = CONTRACTS[operator]
    for rule in contract.rules:
        assert rule.arguments
        assert set(rule.arguments) <= {*contract.tensors, *contract.attributes}
        assert " must " in rule.expected or " may " in rule.expected
        assert rule.source.startswith("phase 1 of CANN, decision ") is (rule.status != 0), rule
        assert rule.status or rule.ez is None


@pytest.mark.parametrize("operator", CONTRACTS)
def test_the_pairs_are_each_written_tensor_with_every_other_once(operator):
    contract = CONTRACTS[operator]
    pairs = [frozenset(rule.arguments) for rule in contract.overlap_rules]
    wanted = [pair for pair in itertools.combinations(contract.tensors, 2) if set(pair) & set(contract.written)]
    assert Counter(pairs) == Counter(map(frozenset, wanted))
