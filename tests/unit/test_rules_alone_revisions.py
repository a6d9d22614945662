# SPDX-License-Identifier: Apache-2.0
"""For every rule of revisions B and C one input that breaks it and no other, and a neighbour that passes."""

import itertools
import math
from collections import Counter
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from good_calls import QKV, SCENES, mrope, mx, respecified, rope

from aclnn_kvcache import TensorSpec, check_call
from aclnn_kvcache.rules.contracts import contract
from aclnn_kvcache.rules.region import Region
from aclnn_kvcache.rules.rule import Call

ROOM = 1 << 20
POSITION = "mrope_position"
CONTRACTS = {revision: contract(QKV, revision) for revision in "BC"}


class Case(NamedTuple):
    revision: str
    rule: str
    breaking: dict[str, Any]
    text: str
    passing: dict[str, Any]


def home(name):
    """A good call that has the tensor."""
    return mrope() if name == POSITION else rope()


def changed(name, base=None, **fields):
    return respecified(home(name) if base is None else base, name, **fields)


def spread(name, base, factor):
    """The call with every stride of a tensor multiplied, and how far the tensor then reaches."""
    strides = tuple(factor * stride for stride in base[name].strides)
    return strides, base[name]._replace(strides=strides).reach[1]


def shared_cases(revision):
    """Of both revisions, under the same ids."""
    known = CONTRACTS[revision]
    for name in known.tensors:
        good, spec = home(name), home(name)[name]
        short = changed(name, storage=spec.storage - 1)
        text = f"{name} reaches from element 0 to {spec.storage - 1} of an allocation of {spec.storage - 1} elements"
        yield f"bounds.{name}", short, text, changed(name, offset=5, storage=spec.storage + 5)
        yield f"format.{name}", changed(name, format=29), f"{name} must ", changed(name, format=0)
    for name in known.inputs:
        good, spec = home(name), home(name)[name]
        strides, reach = spread(name, good, 2)
        outside = changed(name, strides=strides, storage=reach - 1)
        text = f"{name} reaches from element 0 to {reach - 1} of an allocation of {reach - 1} elements"
        yield f"copied_bounds.{name}", outside, text, changed(name, strides=strides, storage=reach)
        step = spec.strides[0]
        backwards = changed(name, strides=(-step, *spec.strides[1:]), offset=step * (spec.shape[0] - 1))
        yield f"negative_stride.{name}", backwards, f"{name} has negative strides [{-step}", good
    for name in known.caches:
        size = rope()[name].storage
        text = f"{name} starts at element {size + 1} of an allocation of {size} elements"
        yield f"offset.{name}", changed(name, offset=size + 1), text, changed(name, offset=size, storage=2 * size)
    for name in known.outputs:
        strides, reach = spread(name, rope(), 2)
        text = f"{name} must be contiguous, got strides {list(strides)}"
        yield f"contiguous.{name}", changed(name, strides=strides, storage=reach), text, rope()
    for name in known.written:
        spec = rope()[name]
        array = np.zeros(spec.shape, spec.dtype)
        twice = np.lib.stride_tricks.as_strided(array, strides=(array.strides[1], *array.strides[1:]))
        text = f"{name} reaches some bytes through more than one index"
        yield f"self_overlap.{name}", {**rope(), name: twice}, text, {**rope(), name: array}
    yield "head_nums.length", rope(head_nums=(16, 2)), "must have three counts, Nq, Nk and Nv, got [16, 2]", rope()
    text = "layout_qkv must be 'TND' or 'NTD' (None means 'TND'), got 'tnd'"
    yield "layout.layout_qkv", {**rope(), "layout_qkv": "tnd"}, text, {**rope(), "layout_qkv": ""}
    text = "layout_q_out must be 'TND' or 'NTD' (None means 'NTD'), got 'BSH'"
    yield "layout.layout_q_out", {**rope(), "layout_q_out": "BSH"}, text, {**rope(), "layout_q_out": None}
    text = "layout_q_out must be 'NTD' where layout_qkv is 'NTD', got 'TND'"
    yield "layout_pair", rope(layout_qkv="NTD", layout_q_out="TND"), text, rope(layout_qkv="NTD")
    text = "mrope_position and mrope_section must be given both or neither, got mrope_position only, without mrope_sect"
    yield "mrope_pair", mrope(mrope_section=()), text, mrope()
    yield "rank.qkv", changed("qkv", shape=(5, 2560)), "qkv must have 3 dimensions, tokens, heads and head size", rope()
    text = "the 20 heads of head_nums [16, 2, 2] on axis 1 with layout_qkv 'TND'"
    yield "heads.qkv", changed("qkv", shape=(5, 19, 128)), text, rope()
    text = "must be [D] = [128], got [128] and [64]"
    yield "shape.q_gamma.k_gamma", changed("k_gamma", shape=(64,)), text, rope()
    for name, shape, text in (
        ("cos_sin", (16, 64), "[MaxSeqLen, D] = [any, 128], got [16, 64]"),
        ("slot_mapping", (4,), "[T] = [5], got [4]; T is that of qkv [5, 20, 128] with"),
        ("seq_lens", (4,), "[B] = [3], got [4]; T is that of qkv [5, 20, 128] with layout_qkv 'TND', Nk and Nv those "),
        (POSITION, (3, 5), "[T, 3] = [5, 3], got [3, 5]"),
        ("rotation", (128, 64), "[D, D] = [128, 128], got [128, 64]"),
    ):
        yield f"shape.{name}", changed(name, shape=shape), text, home(name)
    yield "shape.v_scale.rope", changed("v_scale", shape=(1,)), "[Nv] = [2], got [1]", rope()
    text = "[T, Nq, D], or [Nq, T, D] with layout_q_out NTD = [16, 5, 128], got [5, 16, 128]"
    yield "shape.q_out", changed("q_out", shape=(5, 16, 128)), text, rope()
    unlike = changed("k_cache", strides=(4096, 2048, 256, 1), storage=ROOM)
    text = "must have the same strides, since the kernel uses one set for both, got [4096, 2048, 256, 1] and [2048, "
    yield "strides.k_cache.v_cache", unlike, text, {**unlike, "v_cache": unlike["k_cache"]}
    apart = {n: rope()[n]._replace(strides=(8192, 4096, 256, 1), storage=ROOM) for n in ("k_cache", "v_cache")}
    for name in apart:
        stepped = changed(name, {**rope(), **apart}, strides=(8192, 4096, 256, 2))
        text = f"{name} must have the last stride 1 and the others of at least [1, 128, 128], got [8192, 4096, 256, 2]"
        yield f"strides.{name}", stepped, text, {**rope(), **apart}
        wide = {n: rope()[n]._replace(strides=(3072, 1024, 128, 1), storage=ROOM) for n in apart}
        wider = changed(name, {**rope(), **wide}, shape=(4, 3, 8, 128), storage=ROOM)
        yield f"shape.{name}", wider, "BlockSize, D]", {**rope(), **wide}
    yield "epsilon", rope(epsilon=math.nan), "must be a finite float32 that is not negative, got nan", rope(epsilon=0)
    slots = {
        "slot_range": (
            (0, 1, 2, 3, -1),
            "row 4 holds slot -1 (block -1 of 4, offset 7 with block size 8); allowed are",
        ),
        "slot_duplicate": ((0, 1, 2, 3, 1), "slot_mapping rows 1 and 4 both hold slot 1 (block 0, offset 1)"),
    }
    for rule, (values, text) in slots.items():
        good = mrope(slot_mapping=np.array((0, 1, 2, 3, 31), np.int32))
        yield rule, mrope(slot_mapping=np.array(values, np.int32)), text, good
    for rule, starts, lengths, text in (
        ("query_start", (1, 2, 2, 5), (2, 0, 3), "query_start_loc must start at 0, got 1"),
        ("query_order", (0, 3, 2, 5), (3, 0, 3), "batch 1 starts at token 3 and ends at 2; positions would be wrong"),
        ("query_end", (0, 2, 2, 4), (2, 0, 3), "query_start_loc must end at the number of tokens, 5, got 4"),
        ("seq_lens", (0, 2, 2, 5), (1, 0, 3), "batch 0 has 1 with 2 tokens in this call"),
        ("position", (0, 2, 2, 5), (2, 0, 17), "seq_lens of batch 2, 17, puts its last token at position 16, but"),
    ):
        yield rule, batches(starts, lengths), text, batches((0, 2, 2, 5), (2, 0, 16))
    text = "mrope_position of token 3, axis H, is 16, but cos_sin has rows 0..15; pass a table with a row for"
    yield "mrope_position", positions(16), text, positions(15)


def batches(starts, lengths):
    return rope(query_start_loc=np.array(starts, np.int32), seq_lens=np.array(lengths, np.int32))


def positions(highest):
    values = np.zeros((5, 3), np.int32)
    values[3, 1] = highest
    return mrope(mrope_position=values)


def cases_of_b():
    known = CONTRACTS["B"]
    for name in known.tensors:
        good = home(name)
        empty = changed(name, shape=(0, *good[name].shape[1:]))
        yield f"empty.{name}", empty, f"{name} must not be empty, got [0", good
        yield f"undefined_format.{name}", changed(name, format=999), f"{name} has aclFormat unknown (999)", good
        if name not in ("k_cache", "q_out", "q_scale"):
            yield f"dtype.{name}", changed(name, dtype="float16"), f"{name} must be ", good
        if name != POSITION:
            scene = ".rope" if name in ("query_start_loc", "seq_lens", "q_scale") else ""
            text = f"{name} is None; the operator requires it{' (in RoPE)' if scene else ''}"
            yield f"required.{name}{scene}", {**good, name: None}, text, good
    yield "required.head_nums", rope(head_nums=None), "head_nums is None; the operator requires it", rope()
    text = "query_start_loc and seq_lens must be None, got [2] and None (in M-RoPE)"
    yield "absent.query_start_loc.seq_lens.mrope", mrope(query_start_loc=TensorSpec(2, "int32")), text, mrope()
    scales = TensorSpec((5, 16), "float32")
    yield "absent.q_scale.mrope", mrope(q_scale=scales), "q_scale must be None, got [5, 16] (in M-RoPE)", mrope()
    text = "q_quant_mode must be 'NoQuant' in M-RoPE, which has to be said, got 'PerTokenPerHead'"
    yield "q_quant_mode", mrope(q_quant_mode=None), text, rope(q_quant_mode="PerTokenPerHead")
    for name, fp8, other in (("k_cache", "float8_e4m3fn", "int8"), ("q_out", "float8_e4m3fn", "bfloat16")):
        text = f"{name} must be {fp8}, got {other}"
        yield f"dtype.{name}.rope", changed(name, dtype=other), text, rope()
        text = f"{name} must be {other}, got {fp8}"
        yield f"dtype.{name}.mrope", changed(name, mrope(), dtype=fp8), text, mrope()
    text = "q_scale must be float32, got float16; array.astype('float32') converts it (in RoPE)"
    yield "dtype.q_scale.rope", changed("q_scale", dtype="float16"), text, rope()
    text = "head_nums must have counts above 0, got [16, 0, 0]"
    yield "head_nums.positive", rope(head_nums=(16, 0, 0)), text, rope()
    text = "head_nums must be at most 64 for Q, got [72, 9, 9]; revision A of the operator takes other counts too"
    yield "head_nums.most", rope((72, 9, 9)), text, rope((64, 8, 8))
    text = "head_nums must be (8 * Nk, Nk, Nk), got [32, 8, 8]; revision A of the operator takes other counts too"
    yield "head_nums.ratio", rope((32, 8, 8)), text, rope((8, 1, 1))
    uneven = rope((16, 2, 3))
    uneven = changed("k_cache", uneven, strides=uneven["v_cache"].strides, storage=ROOM)
    yield "head_nums.equal", uneven, "head_nums must have as many K as V heads, got [16, 2, 3]", rope((24, 3, 3))
    text = "layout_qkv and layout_q_out must be 'TND' and 'TND', got 'TND' and 'NTD'"
    yield "token_major.mrope", {**mrope(layout_q_out="NTD"), "layout_q_out": None}, text, mrope()
    yield "head_size.qkv", changed("qkv", shape=(5, 20, 64)), "qkv must have head size 128, got [5, 20, 64]", rope()
    text = "at most 21 for H and for W, and 64 together, got [22, 22, 20]"
    yield "mrope_section", mrope(mrope_section=(22, 22, 20)), text, mrope(mrope_section=np.array((22, 21, 21)))
    text = "with at least one batch = [2], got [1]"
    yield "shape.query_start_loc", changed("query_start_loc", shape=(1,)), text, rope()
    yield "shape.v_scale.mrope", changed("v_scale", mrope(), shape=(2,)), "[Nv, D] = [2, 128], got [2]", mrope()
    text = "= [any, 2, any, 1], got [4, 2, 8, 4]"
    yield "shape.k_scale_cache", changed("k_scale_cache", shape=(4, 2, 8, 4)), text, rope()
    text = "[T, Nq], or [Nq, T] with layout_q_out NTD = [16, 5], got [5, 16]"
    yield "shape.q_scale.rope", changed("q_scale", shape=(5, 16)), text, rope()
    text = "got 4 blocks of 8 and 4 of 9"
    yield "blocks.k_cache.k_scale_cache", changed("k_scale_cache", shape=(4, 2, 9, 1)), text, rope()
    yield "blocks.v_cache.k_cache", changed("v_cache", shape=(3, 2, 8, 128)), "got 3 blocks of 8 and 4 of 8", rope()
    yield "extent.cos_sin", rope(table=-1), "cos_sin must have no negative dimension, got [-1, 128]", rope(table=1)
    yield "extent.qkv", rope(T=-1), "qkv must have no negative dimension, got [-1, 20, 128]", rope(T=1)
    below = rope(B=-4)
    below.update({name: below[name]._replace(storage=ROOM) for name in known.caches})
    yield "extent.k_cache", below, "k_cache must have no negative dimension, got [-4, 2, 8, 128]", rope()
    loose = changed("k_scale_cache", strides=(16, 8, 1, 0))
    text = "k_scale_cache must have the last stride 1, though that axis has extent 1, and the others above 0, got [16, "
    yield "strides.k_scale_cache", loose, text, changed("k_scale_cache", strides=(16, 1, 2, 1))


def cases_of_c():
    known = CONTRACTS["C"]
    for name in known.tensors:
        good = home(name)
        if name not in ("k_cache", "k_scale_cache", "q_out", "q_scale"):
            yield f"dtype.{name}", changed(name, dtype="float16"), f"{name} must be ", good
        if name != POSITION:
            text = f"{name} is None; the operator requires it"
            yield f"required.{name}", {**good, name: None}, text, good
    yield "required.head_nums", rope(head_nums=None), "head_nums is None; the operator requires it", rope()
    scales = TensorSpec((5, 16), "float32")
    yield "absent.q_scale", mrope(q_scale=scales), "q_scale must be None, got [5, 16] (in M-RoPE)", mrope()
    text = "head_nums must be (8 * Nk, Nk, Nk) with 1 to 64 Q heads, got [32, 8, 8]; revision A of the operator takes o"
    yield "head_nums", rope((32, 8, 8)), text, rope((64, 8, 8))
    text = "for M-RoPE layout_qkv and layout_q_out must be 'TND' and 'TND', got 'TND' and 'NTD'"
    yield "scene", mrope(layout_q_out="NTD") | {"layout_q_out": "NTD"}, text, mrope()
    yield "size.qkv", changed("qkv", shape=(5, 20, 64)), "tokens and head size 128, got [5, 20, 64]", rope()
    text = "(in RoPE, where k_cache, q_out and k_scale_cache are float8_e4m3fn, float8_e4m3fn, float32)"
    yield "kernel", changed("k_cache", dtype="int8"), text, rope()
    other = changed("k_cache", rope(q_out=rope()["q_out"]._replace(dtype=np.dtype(ml_dtypes.bfloat16))), dtype="int8")
    yield "dtype.k_cache.rope.mx", other, "k_cache must be float8_e4m3fn, got int8", rope()
    other = changed("q_out", changed("k_cache", mrope(), dtype="FLOAT8_E4M3FN"), dtype="FLOAT8_E4M3FN")
    yield "dtype.k_cache.mrope", other, "k_cache must be int8, got float8_e4m3fn (in M-RoPE)", mrope()
    other = changed("k_scale_cache", dtype="FLOAT8_E8M0")
    yield "dtype.k_scale_cache.rope.mrope", other, "k_scale_cache must be float32, got float8_e8m0fnu", rope()
    other = changed("k_scale_cache", mx(), dtype="FLOAT")
    yield "dtype.k_scale_cache.mx", other, "k_scale_cache must be float8_e8m0fnu, got float32", mx()
    yield (
        "dtype.q_scale.rope",
        changed("q_scale", dtype="FLOAT8_E8M0"),
        "q_scale must be float32, got float8_e8",
        rope(),
    )
    text = "q_scale must be float8_e8m0fnu, got uint8; if the bytes are exponents of base 2 say so"
    yield "dtype.q_scale.mx", changed("q_scale", mx(), dtype="UINT8"), text, mx()
    for name in known.caches:
        yield f"scalar.{name}", changed(name, shape=()), f"{name} must have dimensions, got none", rope()
        flat = changed(name, shape=(4, 2, 1024))
        yield f"rank.{name}", flat, f"{name} must have 4 dimensions, got [4, 2, 1024]", rope()
    for name in ("cos_sin", "query_start_loc", "seq_lens", POSITION, "q_gamma", "k_gamma", "slot_mapping", "rotation"):
        shape = (*home(name)[name].shape, 1)
        text = f"{name} must have {len(shape) - 1} dimension{'s' * (len(shape) > 2)}, got {list(shape)}"
        yield f"rank.{name}", changed(name, shape=shape), text, home(name)
    yield "rank.v_scale.rope", changed("v_scale", shape=(2, 128)), "v_scale must have 1 dimension, got [2, 128]", rope()
    yield "rank.v_scale.mrope.mx", changed("v_scale", mx(), shape=(2,)), "v_scale must have 2 dimensions, got [2]", mx()
    text = "query_start_loc must have at least two values, for one batch, got [1]"
    yield "batches", changed("query_start_loc", shape=(1,)), text, rope(batches=1)
    yield "rows.cos_sin", rope(table=0), "cos_sin must have rows, got [0, 128]", rope(table=1)
    yield "slots.k_cache", rope(B=0), "k_cache must have blocks, and slots in them, got [0, 2, 8, 128]", rope(B=1)
    text = "mrope_section must have three values, for the axes T, H and W, got [24, 20]"
    yield "mrope_section.length", mrope(mrope_section=(24, 20)), text, mrope()
    text = "at most 21 for H and for W, and 64 together, got [25, 20, 20]"
    yield "mrope_section", mx(mrope_section=(25, 20, 20)), text, mx(mrope_section=(0, 0, 0))
    yield "tokens.qkv", rope(T=262145), "qkv must have at most 262144 tokens, got 262145; split", rope(T=262144)
    shape = (1, 128)
    yield "shape.v_scale.mrope.mx", changed("v_scale", mx(), shape=shape), "[Nv, D] = [2, 128], got [1, 128]", mx()
    text = "with BlockNum and BlockSize of k_cache = [4, 2, 8, 1], got [4, 2, 9, 1]"
    yield "shape.k_scale_cache.rope.mrope", changed("k_scale_cache", shape=(4, 2, 9, 1)), text, rope()
    text = "with BlockNum and BlockSize of k_cache = [4, 2, 8, 4], got [4, 2, 8, 5]"
    yield "shape.k_scale_cache.mx", changed("k_scale_cache", mx(), shape=(4, 2, 8, 5)), text, mx()
    text = "[T, Nq], or [Nq, T] with layout_q_out NTD = [16, 5], got [16, 4]"
    yield "shape.q_scale.rope", changed("q_scale", shape=(16, 4)), text, rope()
    text = "[T, Nq, 4] = [5, 16, 4], got [5, 16]"
    yield "shape.q_scale.mx", changed("q_scale", mx(), shape=(5, 16)), text, mx()
    loose = changed("k_scale_cache", strides=(16, 8, 1, 0))
    text = "k_scale_cache must have the last stride 1, though that axis has extent 1, and the others above 0, got [16, "
    yield "strides.k_scale_cache.rope.mrope", loose, text, changed("k_scale_cache", strides=(64, 32, 4, 1), storage=256)
    # In blocks of one slot no row is behind another, so that nothing overlaps.
    tight, good = (changed("k_scale_cache", mx(S=1, **one_slot()), strides=(8, 4, n, 1)) for n in (3, 4))
    text = "k_scale_cache must have the last stride 1 and the others of at least [1, 1, 4], got [8, 4, 3, 1]"
    yield "strides.k_scale_cache.mx", tight, text, good
    major = {name: rope()[name]._replace(strides=(2048, 128, 256, 1)) for name in ("k_cache", "v_cache")}
    text = "with strides [2048, 128, 256, 1]; revisions A and B of the operator take token-major caches, C does not"
    one_head = {name: rope((8, 1, 1))[name]._replace(strides=(2048, 128, 256, 1), storage=ROOM) for name in major}
    yield "nested.k_cache.v_cache", {**rope(), **major}, text, {**rope((8, 1, 1)), **one_head}
    major = changed("k_scale_cache", strides=(16, 1, 2, 1))
    text = "[4, 2, 8, 1] with strides [16, 1, 2, 1]; revisions A and B of the operator take token-major caches"
    yield "nested.k_scale_cache", major, text, changed("k_scale_cache", strides=(16, 8, 1, 1))
    text = "the head strides of k_cache and k_scale_cache must be at most 1099511627903, and 4 to 4294967299, got "
    yield "head_strides.mx", far(2**40 + 128), f"{text}1099511627904 and 32", far(2**40 + 127)


def one_slot():
    call = rope(S=1)
    return {name: call[name] for name in ("k_cache", "v_cache")}


def far(step):
    caches = {n: mx()[n]._replace(strides=(2**42, step, 128, 1), storage=2**50) for n in ("k_cache", "v_cache")}
    return mx(**caches)


CASES = [
    Case(revision, *case)
    for revision, own in (("B", cases_of_b), ("C", cases_of_c))
    for case in itertools.chain(shared_cases(revision), own())
    if case[0] in {rule.id for rule in CONTRACTS[revision].rules}
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.revision}-{case.rule}" for case in CASES])
def test_a_rule_that_is_broken_alone(case):
    [rule] = [rule for rule in CONTRACTS[case.revision].rules if rule.id == case.rule]
    [finding] = check_call(QKV, qkv_abi=case.revision, **case.breaking)
    assert finding[:2] == (case.rule, rule.arguments)
    assert finding[3:] == (rule.status, rule.ez)
    assert case.text in finding.message
    assert check_call(QKV, qkv_abi=case.revision, **case.passing) == []


@pytest.mark.parametrize("revision", CONTRACTS)
def test_every_rule_has_a_case(revision):
    tested = Counter(case.rule for case in CASES if case.revision == revision)
    known = CONTRACTS[revision]
    rules = known.layout_rules + known.value_rules + known.self_overlap_rules
    assert tested == Counter(rule.id for rule in rules)


@pytest.mark.parametrize("revision", CONTRACTS)
def test_every_rule_says_what_it_expects_of_which_arguments_and_where_that_is_written(revision):
    known = CONTRACTS[revision]
    for rule in known.rules:
        assert rule.arguments
        assert set(rule.arguments) <= {*known.tensors, *known.attributes}
        assert " must " in rule.expected or " may " in rule.expected
        assert rule.source.startswith("phase 1 of CANN, decision ") is (rule.status != 0), rule
        assert rule.status or rule.ez is None


@pytest.mark.parametrize("revision", CONTRACTS)
def test_the_decisions_are_numbered_in_order(revision):
    prefix = "phase 1 of CANN, decision "
    numbers = [int(rule.source[len(prefix) :]) for rule in CONTRACTS[revision].rules if rule.status]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(2, {"B": 36, "C": 44}[revision] + 1))


ORDER = {
    # In one decision CANN goes by a list; what is not in a scene is left out.
    ("B", 2): "qkv q_gamma k_gamma cos_sin slot_mapping k_cache v_cache k_scale_cache rotation v_scale head_nums q_out",
    ("B", 5): "query_start_loc seq_lens q_scale",
    ("B", 25): "cos_sin slot_mapping query_start_loc seq_lens rotation v_scale v_scale",
    ("C", 2): "qkv q_gamma k_gamma cos_sin slot_mapping k_cache v_cache k_scale_cache v_scale head_nums q_out",
    ("C", 33): "k_cache k_cache k_scale_cache k_scale_cache v_scale rotation mrope_position query_start_loc seq_lens",
    ("C", 34): "q_gamma k_gamma slot_mapping rotation v_scale v_scale",
    ("C", 36): "cos_sin slot_mapping mrope_position rotation v_scale v_scale",
    ("C", 38): "k_cache v_cache k_scale_cache k_scale_cache",
    **{
        ("B", number): "qkv q_gamma k_gamma cos_sin slot_mapping k_cache v_cache k_scale_cache rotation v_scale q_out "
        "mrope_position query_start_loc seq_lens q_scale"
        for number in (9, 30)
    },
}


@pytest.mark.parametrize(("revision", "number"), ORDER)
def test_the_order_inside_a_decision(revision, number):
    source = f"phase 1 of CANN, decision {number}"
    names = [rule.arguments[0] for rule in CONTRACTS[revision].rules if rule.source == source]
    assert names == ORDER[revision, number].split()


PAIRS = [(revision, rule.id, *rule.arguments) for revision in CONTRACTS for rule in CONTRACTS[revision].overlap_rules]


@pytest.mark.parametrize(("revision", "rule", "written", "other"), PAIRS, ids=[f"{r}-{rule}" for r, rule, *_ in PAIRS])
def test_an_overlap_of_two_tensors_alone(revision, rule, written, other):
    specs = {name: home(name)[name] for name in CONTRACTS[revision].tensors}
    regions = {
        name: Region(n << 40, spec.shape, tuple(s * spec.dtype.itemsize for s in spec.strides), spec.dtype.itemsize)
        for n, (name, spec) in enumerate(specs.items())
    }
    end = regions[written].address + math.prod(specs[written].shape) * specs[written].dtype.itemsize

    def found(address):
        moved = {**regions, other: regions[other]._replace(address=address)}
        return CONTRACTS[revision].check_data(Call(specs, CONTRACTS[revision].attributes, {}, moved))

    [finding] = found(end - 1)
    assert (finding.rule, finding.arguments, finding.status) == (rule, (written, other), 0)
    assert found(end) == []


@pytest.mark.parametrize(("revision", "call"), [(r, call) for r, calls in SCENES.items() for call in calls])
def test_what_a_revision_takes(revision, call):
    assert check_call(QKV, qkv_abi=revision, **call()) == []
