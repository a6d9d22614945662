# SPDX-License-Identifier: Apache-2.0
"""The oracle of the fused operator: values found by hand, and any call against a plain loop over float32 scalars."""

import math
import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclnn_kvcache import oracle
from aclnn_kvcache.oracle import qkv_rows
from aclnn_kvcache.oracle.bf16 import round_to_bf16
from aclnn_kvcache.oracle.fp8 import to_e4m3fn
from aclnn_kvcache.oracle.qkv_values import check_epsilon, check_head_nums

BF16, E4M3FN, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn), np.float32
ORDER = (
    "qkv",
    "q_gamma",
    "k_gamma",
    "cos_sin",
    "slot_mapping",
    "k_cache",
    "v_cache",
    "k_scale_cache",
    "query_start_loc",
    "seq_lens",
    "rotation",
    "v_scale",
)
PAIRS = [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD")]


def raw(array):
    """Bytes as integers of the same width: NaN equals itself, -0 differs from +0."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def case(x, heads=(1, 1, 1), *, lengths=None, history=None, slots=None, blocks=2, size=4, table=None):
    """A call that turns and scales nothing: gammas, v_scale and cosines 1, sines 0, identity rotation."""
    x = np.asarray(x, F32).astype(BF16)
    tokens = len(x)
    lengths = [tokens] if lengths is None else lengths
    history = [0] * len(lengths) if history is None else history
    seq_lens = np.array(lengths) + history
    cos_sin = np.zeros((max(seq_lens) if table is None else table, 128), F32)
    cos_sin[:, :64] = 1
    return {
        "qkv": x,
        "q_gamma": np.ones(128, F32),
        "k_gamma": np.ones(128, F32),
        "cos_sin": cos_sin,
        "slot_mapping": np.array(range(tokens) if slots is None else slots, np.int32),
        "k_cache": np.full((blocks, heads[1], size, 128), 0xAA, np.uint8).view(E4M3FN),
        "v_cache": np.full((blocks, heads[2], size, 128), 0x55, np.uint8).view(E4M3FN),
        "k_scale_cache": np.full((blocks, heads[1], size, 1), -1, F32),
        "query_start_loc": np.array([0, *np.cumsum(lengths)], np.int32),
        "seq_lens": seq_lens.astype(np.int32),
        "rotation": np.eye(128, dtype=F32).astype(BF16),
        "v_scale": np.ones(heads[2], F32),
    }


def random_case(seed, heads=(2, 1, 1), **options):
    """The same with random numbers wherever they may stand, and with random bytes in the caches."""
    r = np.random.default_rng(seed)
    tokens = options.pop("tokens", None) or sum(options["lengths"])
    arguments = case(r.standard_normal((tokens, sum(heads), 128)) * 3, heads, **options)
    for name in ("q_gamma", "k_gamma", "v_scale"):
        arguments[name] = r.standard_normal(arguments[name].shape).astype(F32)
    angles = r.uniform(0, 2 * np.pi, (len(arguments["cos_sin"]), 64))
    arguments["cos_sin"] = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(F32)
    arguments["rotation"] = (r.standard_normal((128, 128)) / 8).astype(BF16)
    for name in ("k_cache", "v_cache", "k_scale_cache"):
        shape, dtype = arguments[name].shape, arguments[name].dtype
        bits = r.integers(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), np.uint8)
        arguments[name] = bits.view(dtype)
    return arguments


def run(arguments, head_nums=(1, 1, 1), **options):
    """Call with warnings as errors; the arguments must keep every byte, the results must be new and dense."""
    before = {name: array.tobytes() for name, array in arguments.items()}
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        result = oracle.qkv_rms_norm_rope_cache_with_k_scale(
            *(arguments[name] for name in ORDER), head_nums=head_nums, **options
        )
    assert {name: array.tobytes() for name, array in arguments.items()} == before
    for array, dtype in zip(result, (E4M3FN, F32, E4M3FN, E4M3FN, F32), strict=True):
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert not any(np.shares_memory(array, argument) for argument in arguments.values())
    return result


def bf16_of(value):
    """Nearest bfloat16 to a float32, ties to even, by integers."""
    bits = int(np.asarray(value, F32).view(np.uint32))
    if math.isnan(value):
        return F32("nan")
    return np.asarray((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16, np.uint32).view(F32)[()]


def tree(values):
    return values[0] if len(values) == 1 else tree([a + b for a, b in zip(values[::2], values[1::2], strict=True)])


def plain_row(x, gamma, angles, weights, eps):
    """One head row in float32 scalars, an operation at a time; the matrix product by exactly rounded sums."""
    x = [F32(value) for value in x]
    squares = [x[i] * x[i] + x[i + 64] * x[i + 64] for i in range(64)]
    root = np.sqrt(tree(squares) * F32(1 / 128) + F32(eps))
    y = [x[i] / root * gamma[i] for i in range(128)]
    turned = [y[i] * angles[i] - y[i + 64] * angles[i + 64] for i in range(64)]
    turned += [y[i + 64] * angles[i] + y[i] * angles[i + 64] for i in range(64)]
    row = [float(bf16_of(value)) for value in turned]
    out = [F32(math.fsum(row[i] * float(weights[i][j]) for i in range(128))) for j in range(128)]
    scale = max(abs(value) for value in out) / F32(448)
    return to_e4m3fn(np.array([value / scale for value in out], F32)), scale


def plain_loop(arguments, heads, epsilon=1e-6):
    """q_out and q_scale token-major, and the caches, a token and a head at a time."""
    nq, nk, nv = heads
    qkv, starts = arguments["qkv"].astype(F32), arguments["query_start_loc"].tolist()
    weights = arguments["rotation"].astype(F32).tolist()
    k_cache, v_cache, k_scales = (arguments[name].copy() for name in ("k_cache", "v_cache", "k_scale_cache"))
    q_out, q_scale = np.empty((len(qkv), nq, 128), E4M3FN), np.empty((len(qkv), nq), F32)
    for batch, length in enumerate(arguments["seq_lens"].tolist()):
        history = length - (starts[batch + 1] - starts[batch])
        for t in range(starts[batch], starts[batch + 1]):
            angles = arguments["cos_sin"][history + t - starts[batch]]
            block, offset = divmod(int(arguments["slot_mapping"][t]), k_cache.shape[2])
            for n in range(nq):
                q_out[t, n], q_scale[t, n] = plain_row(qkv[t, n], arguments["q_gamma"], angles, weights, epsilon)
            for n in range(nk):
                row = plain_row(qkv[t, nq + n], arguments["k_gamma"], angles, weights, epsilon)
                k_cache[block, n, offset], k_scales[block, n, offset, 0] = row
            for n in range(nv):
                v_cache[block, n, offset] = to_e4m3fn(qkv[t, nq + nk + n] * arguments["v_scale"][n])
    return oracle.QkvResult(q_out, q_scale, k_cache, v_cache, k_scales)


def agree(result, expected):
    """V exactly. Q and K may differ where the order of the matrix sums shows: scales by 1e-6, codes by one step."""
    assert np.array_equal(raw(result.v_cache), raw(expected.v_cache))
    unequal = 0
    for codes, wanted in ((result.q_out, expected.q_out), (result.k_cache, expected.k_cache)):
        steps = np.abs(raw(codes).astype(int) - raw(wanted))
        assert steps.max() <= 1
        unequal += np.count_nonzero(steps)
    assert unequal <= 1
    for scales, wanted in ((result.q_scale, expected.q_scale), (result.k_scale_cache, expected.k_scale_cache)):
        changed = raw(scales) != raw(wanted)  # what was not written is random bits, NaN among them
        assert np.all(np.abs(scales[changed] - wanted[changed]) <= 1e-6 * np.abs(wanted[changed]))


# --- values by hand


def test_one_hot_rows_with_an_identity_rotation():
    """x = 2 in one lane, eps 0: the root is sqrt(4 / 128) = 2**-2.5, and 2 / 2**-2.5 = 2**3.5 goes to BF16."""
    x = np.zeros((1, 3, 128))
    x[0, 0, 5], x[0, 1, 70], x[0, 2, 127] = 2, -2, 1.5
    result = run(case(x), epsilon=0)
    value = F32(2) / np.sqrt(F32(2.0**-5))
    assert abs(float(value) - 2**3.5) < 1e-6
    scale = F32(11.3125) / F32(448)  # 11.3137 in BF16
    assert result.q_scale.tolist() == [[scale]]
    assert result.q_out.view(np.uint8)[0, 0].tolist() == [0x7E if lane == 5 else 0 for lane in range(128)]
    # The other lanes are 0 / scale, or -0 * 1 + 0 ...: +0, never 0x80.
    assert result.k_cache.view(np.uint8)[0, 0, 0].tolist() == [0xFE if lane == 70 else 0 for lane in range(128)]
    assert result.k_scale_cache[0, 0].tolist() == [[scale], [-1], [-1], [-1]]
    assert result.v_cache.view(np.uint8)[0, 0, 0].tolist() == [0x3C if lane == 127 else 0 for lane in range(128)]
    for cache, fill in ((result.k_cache, 0xAA), (result.v_cache, 0x55)):
        assert (cache.view(np.uint8)[0, 0, 1:] == fill).all()
        assert (cache.view(np.uint8)[1] == fill).all()


def test_a_constant_row_is_its_sign():
    """x = 4 everywhere: mean square 16, root 4, row 1; scale 1 / 448; every code 448."""
    x = np.full((1, 3, 128), 4)
    x[0, 0, ::2] = -4
    result = run(case(x), epsilon=0)
    assert result.q_scale.tolist() == [[F32(1) / F32(448)]]
    assert result.q_out.view(np.uint8)[0, 0].tolist() == [0xFE, 0x7E] * 64
    assert result.v_cache.view(np.uint8)[0, 0, 0].tolist() == [0x48] * 128  # 4.0


def test_epsilon_goes_under_the_root():
    """x = 1, eps 3: root 2, row 0.5."""
    result = run(case(np.ones((1, 3, 128))), epsilon=3)
    assert result.q_scale.tolist() == [[F32(0.5) / F32(448)]]


def test_rope_turns_the_halves_by_the_row_of_the_position():
    """cos 0 and sin 1 exchange the halves: low' = -high, high' = low; the table's other rows would give NaN."""
    x = np.ones((1, 3, 128))
    x[..., 64:] = 0.5
    arguments = case(x, history=[2], table=4)
    arguments["cos_sin"][:] = np.nan
    arguments["cos_sin"][2] = [0] * 64 + [1] * 64
    codes = run(arguments, epsilon=0).q_out.view(np.uint8)[0, 0]
    assert codes.tolist() == [0xF6] * 64 + [0x7E] * 64  # -224 and 448


def test_the_rotation_is_applied_from_the_right():
    """out[j] = sum of row[i] * W[i, j]: lane 3 goes where row 3 of W says."""
    x = np.zeros((1, 3, 128))
    x[..., 3] = 1
    arguments = case(x)
    arguments["rotation"] = np.zeros((128, 128), BF16)
    arguments["rotation"][3, [10, 20]] = 1, 0.5
    codes = run(arguments, epsilon=0).q_out.view(np.uint8)[0, 0]
    assert {lane: code for lane, code in enumerate(codes.tolist()) if code} == {10: 0x7E, 20: 0x76}


def test_gammas_of_q_and_k():
    arguments = case(np.ones((1, 3, 128)))
    arguments["q_gamma"][:] = 2
    arguments["k_gamma"][:] = [0.25] * 127 + [-0.5]
    result = run(arguments, epsilon=0)
    assert result.q_scale.tolist() == [[F32(2) / F32(448)]]
    assert result.k_scale_cache[0, 0, 0, 0] == F32(0.5) / F32(448)
    assert result.k_cache.view(np.uint8)[0, 0, 0].tolist() == [0x76] * 127 + [0xFE]


@pytest.mark.parametrize(
    ("value", "scale", "code"),
    [(256, 1.81640625, 0x7E), (256, -4, 0xFE), (1, 448, 0x7E), (1, -464, 0xFE), (3, 1, 0x44), (1, 2**-10, 0x00)],
)
def test_case_d1_v_saturates(value, scale, code):
    arguments = case(np.full((1, 3, 128), value))
    arguments["v_scale"][:] = scale
    assert (run(arguments).v_cache.view(np.uint8)[0, 0, 0] == code).all()


def test_v_times_its_scale_is_rounded_once_to_float32_for_every_bfloat16():
    """All patterns in 512 rows, NaN and infinities included, and scales whose products round."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(BF16).reshape(512, 1, 128)
    for scale in (1.0, 1 / 3, -1e-30, 3e38, np.inf, np.nan, 0.0):
        arguments = case(np.zeros((512, 3, 128)), blocks=128)
        arguments["qkv"][:, 2:] = bits
        arguments["v_scale"][:] = scale
        result = run(arguments)
        with np.errstate(all="ignore"):
            products = bits.astype(F32) * F32(scale)
        assert np.array_equal(raw(result.v_cache).reshape(512, 1, 128), raw(to_e4m3fn(products)))


def test_v_scale_is_that_of_the_head():
    arguments = case(np.ones((2, 6, 128)), (2, 2, 2))
    arguments["v_scale"][:] = 1, 2
    v = run(arguments, (2, 2, 2)).v_cache.view(np.uint8)
    assert (v[0, 0, :2] == 0x38).all()
    assert (v[0, 1, :2] == 0x40).all()


# --- special rows


def special(row, **options):
    """The row as Q, K and V of one token: Q's and K's codes and scale must agree."""
    result = run(case(np.broadcast_to(np.asarray(row, F32), (1, 3, 128))), **options)
    q, k = result.q_out.view(np.uint8)[0, 0], result.k_cache.view(np.uint8)[0, 0, 0]
    assert np.array_equal(q, k)
    assert raw(result.q_scale).item() == raw(result.k_scale_cache)[0, 0, 0, 0]
    return q, result.q_scale.item(), result.v_cache.view(np.uint8)[0, 0, 0]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_an_all_zero_row(zero):
    codes, scale, v = special([zero] * 128)
    assert scale == 0
    assert not np.signbit(scale)
    assert (codes == 0).all()
    assert (v == (0x80 if np.signbit(zero) else 0)).all()


def test_an_all_zero_row_without_epsilon():
    codes, scale, _ = special([0] * 128, epsilon=0)
    assert math.isnan(scale)
    assert (codes == 0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("lane", [0, 63, 64, 127])
def test_nan_and_infinity_spread_over_the_row(value, lane):
    row = np.ones(128)
    row[lane] = value
    codes, scale, v = special(row)
    assert math.isnan(scale)
    assert (codes == 0).all()
    assert v[lane] == {np.inf: 0x7E, -np.inf: 0xFE}.get(value, 0)
    assert (np.delete(v, lane) == 0x38).all()


def test_a_sum_of_squares_that_overflows_makes_the_row_zero():
    codes, scale, v = special([-3e38] + [1] * 127)
    assert scale == 0
    assert (codes == 0).all()
    assert v[0] == 0xFE


def test_an_infinity_after_the_norm():
    """Gamma makes lane 0 overflow BF16: the infinity times the rotation's zeros is NaN everywhere."""
    arguments = case(np.ones((1, 3, 128)))
    arguments["q_gamma"][0] = 3.4e38
    result = run(arguments)
    assert np.isnan(result.q_scale).all()
    assert (result.q_out.view(np.uint8) == 0).all()


def test_an_infinity_that_first_appears_in_the_matrix_product():
    """Rotation 2**127 in lane 0 overflows there only: scale Inf, finite / Inf is a zero, Inf / Inf NaN."""
    arguments = case(np.ones((1, 3, 128)))
    arguments["q_gamma"][:2] = 4, -1
    arguments["rotation"][0, 0] = 2.0**127
    result = run(arguments)
    assert result.q_scale.tolist() == [[np.inf]]
    assert result.q_out.view(np.uint8)[0, 0].tolist() == [0, 0x80] + [0] * 126


def test_subnormal_scales_divide_by_ieee_rules():
    """gamma 2**-126: amax / 448 is subnormal and kept, so the codes are ordinary ones."""
    arguments = case(np.ones((1, 3, 128)))
    arguments["q_gamma"][:] = 2.0**-126
    arguments["q_gamma"][0] = 2.0**-125
    result = run(arguments, epsilon=0)
    scale = F32(2.0**-125) / F32(448)
    assert 0 < scale < np.finfo(F32).tiny
    assert result.q_scale.tolist() == [[scale]]
    assert result.q_out.view(np.uint8)[0, 0].tolist() == [0x7E] + [0x76] * 127


def test_special_rows_do_not_touch_their_neighbours():
    x = np.random.default_rng(1).standard_normal((4, 6, 128))
    plain = run(case(x, (4, 1, 1)), (4, 1, 1))
    x[1, 2, 5], x[2, 4, 9] = np.nan, np.inf
    result = run(case(x, (4, 1, 1)), (4, 1, 1))
    assert np.argwhere(np.isnan(result.q_scale)).tolist() == [[2, 1]]  # [head, token]
    assert np.argwhere(np.isnan(result.k_scale_cache)).tolist() == [[0, 0, 2, 0]]
    result.q_out[2, 1], result.k_cache[0, 0, 2] = plain.q_out[2, 1], plain.k_cache[0, 0, 2]
    assert np.array_equal(raw(result.q_out), raw(plain.q_out))
    assert np.array_equal(raw(result.k_cache), raw(plain.k_cache))


def test_bfloat16_is_nearest_even_around_every_tie_and_overflows_to_infinity():
    """The rounding that the oracle uses, on each tie of two bfloat16 numbers and on both float32 next to it."""
    low = np.arange(0x7F80)
    for step in (-1, 0, 1):
        bits = (low << 16) + 0x8000 + step
        expected = low + (low & 1 if step == 0 else step == 1)
        for sign in (0, 0x8000):
            values = (bits | sign << 16).astype(np.uint32).view(F32)
            with np.errstate(all="raise"):
                round_to_bf16(values, np.empty_like(values))
            assert np.array_equal(raw(values), (expected | sign) << 16)
    assert bits[-1] == 0x7F7F8001
    assert values[-1] == -np.inf


# --- positions


def test_two_batches_with_history():
    """Three tokens at positions 4, 5, 6 and two at 1, 2; every position has its own cosine, 2**-position."""
    arguments = case(np.ones((5, 3, 128)), lengths=[3, 2], history=[4, 1], slots=[7, 0, 2, 1, 5])
    arguments["cos_sin"][:, :64] = 2.0 ** -np.arange(7)[:, np.newaxis]
    result = run(arguments, epsilon=0, layout_q_out="TND")
    scales = [F32(2.0**-position) / F32(448) for position in (4, 5, 6, 1, 2)]
    assert result.q_scale[:, 0].tolist() == scales
    assert result.k_scale_cache.ravel().tolist() == [
        *(scales[1], scales[3], scales[2], -1),
        *(-1, scales[4], -1, scales[0]),
    ]


def test_batches_without_tokens():
    """Lengths 0, 2, 0, 0, 1, 0: their histories reach behind the table, but nothing is read there."""
    lengths, history = [0, 2, 0, 0, 1, 0], [99, 1, 0, 99, 5, 99]
    arguments = case(np.ones((3, 3, 128)), lengths=lengths, history=history, table=6)
    arguments["cos_sin"][:, :64] = 2.0 ** -np.arange(6)[:, np.newaxis]
    result = run(arguments, epsilon=0)
    assert result.q_scale[0].tolist() == [F32(2.0**-position) / F32(448) for position in (1, 2, 5)]


# --- any call equals the plain loop


def test_a_row_step_by_step():
    arguments = random_case(0, lengths=[2, 1], history=[3, 0], slots=[5, 0, 6])
    agree(run(arguments, (2, 1, 1), layout_q_out="TND"), plain_loop(arguments, (2, 1, 1)))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_call_equals_the_plain_loop(data):
    heads = data.draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 2), (3, 1, 1)]))
    lengths = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=4).filter(any))
    history = data.draw(st.lists(st.integers(0, 5), min_size=len(lengths), max_size=len(lengths)))
    slots = data.draw(st.permutations(range(9)))[: sum(lengths)]
    epsilon = data.draw(st.sampled_from([1e-6, 0.0, 0.5]))
    arguments = random_case(
        data.draw(st.integers(0, 99)), heads, lengths=lengths, history=history, slots=slots, blocks=3, size=3
    )
    result = run(arguments, heads, epsilon=epsilon, layout_q_out="TND")
    agree(result, plain_loop(arguments, heads, epsilon))


def test_the_sum_is_a_tree_over_neighbours():
    """A row whose sum of squares depends on the order: 2**24 + 1 is not a float32, 1 + 1 + 2**24 is."""
    x = np.zeros(128)
    x[0], x[1], x[2], x[3] = 4096, 1, 1, 1
    codes, scale, _ = special(x, epsilon=0)
    # (2**24 + 1 -> 2**24) + (1 + 1); left to right it would be 2**24, pairs at a distance of 32 would give 2**24 + 3.
    root = np.sqrt(F32(2**24 + 2) * F32(1 / 128))
    assert raw(np.array(scale, F32)) == raw(F32(bf16_of(F32(4096) / root)) / F32(448))
    assert codes[0] == 0x7E


# --- layouts, strides, chunks


@pytest.mark.parametrize(("layout_qkv", "layout_q_out"), PAIRS)
def test_layout_pairs(layout_qkv, layout_q_out):
    arguments = random_case(3, (3, 2, 2), lengths=[4, 3], history=[1, 0])
    plain = run(arguments, (3, 2, 2), layout_q_out="TND")
    if layout_qkv == "NTD":
        arguments["qkv"] = np.ascontiguousarray(arguments["qkv"].swapaxes(0, 1))
    result = run(arguments, (3, 2, 2), layout_qkv=layout_qkv, layout_q_out=layout_q_out)
    assert result.q_out.shape == ((7, 3, 128) if layout_q_out == "TND" else (3, 7, 128))
    assert result.q_scale.shape == result.q_out.shape[:2]
    q_out, q_scale = result[:2] if layout_q_out == "TND" else (out.swapaxes(0, 1) for out in result[:2])
    for array, expected in zip((q_out, q_scale, *result[2:]), plain, strict=True):
        assert np.array_equal(raw(array), raw(expected))


@pytest.mark.parametrize("default", [None, ""])
def test_no_layout_is_tnd_to_ntd(default):
    arguments = random_case(3, lengths=[3])
    result = run(arguments, (2, 1, 1), layout_qkv=default, layout_q_out=default)
    assert result.q_out.shape == (2, 3, 128)
    assert np.array_equal(raw(result.q_out), raw(run(arguments, (2, 1, 1)).q_out))


@pytest.mark.parametrize("pair", [("NTD", "TND"), ("tnd", "NTD"), ("TND", "BSH"), (3, "NTD")])
def test_other_layouts_are_refused(pair):
    with pytest.raises(ValueError, match=r"^layout_qkv and layout_q_out: expected 'TND' with 'TND', "):
        run(case(np.ones((1, 3, 128))), layout_qkv=pair[0], layout_q_out=pair[1])


@pytest.mark.parametrize("step", [-1, 2, -3])
def test_strides_do_not_matter(step):
    plain = random_case(4, (2, 1, 1), lengths=[2, 2], history=[0, 3])
    expected = run(plain, (2, 1, 1))
    views = {}
    for name, array in plain.items():
        base = np.zeros([extent * abs(step) for extent in array.shape], array.dtype)
        views[name] = base[(slice(None, None, step),) * array.ndim]
        views[name][...] = array
    assert not any(view.flags.c_contiguous and view.size > 1 for view in views.values())
    for array, wanted in zip(run(views, (2, 1, 1)), expected, strict=True):
        assert np.array_equal(raw(array), raw(wanted))


def test_broadcast_and_interleaved_arguments():
    plain = case(np.full((3, 3, 128), 1.5))
    expected = run(plain)
    same = plain | {
        "qkv": np.broadcast_to(plain["qkv"][0, 0, 0], (3, 3, 128)),
        "cos_sin": np.broadcast_to(plain["cos_sin"][0], (3, 128)),
        "q_gamma": np.broadcast_to(F32(1), 128),
    }
    both = np.empty((2, 1, 4, 2, 128), E4M3FN)
    for part, name in enumerate(("k_cache", "v_cache")):
        both[..., part, :] = plain[name]
        same[name] = both[..., part, :]
    for array, wanted in zip(run(same), expected, strict=True):
        assert np.array_equal(raw(array), raw(wanted))


def test_read_only_arguments():
    arguments = random_case(5, lengths=[2])
    for array in arguments.values():
        array.setflags(write=False)
    run(arguments, (2, 1, 1))


@pytest.mark.parametrize("rows", [1, 5, 12])
def test_chunks_do_not_show(rows, monkeypatch):
    arguments = random_case(6, lengths=[0, 5, 3], history=[2, 0, 4])
    arguments["qkv"][3, 1, 7] = np.inf
    expected = run(arguments, (2, 1, 1))
    monkeypatch.setattr(qkv_rows, "_ROWS", rows)
    result = run(arguments, (2, 1, 1))
    agree(result, expected)
    assert np.array_equal(np.isnan(result.q_scale), np.isnan(expected.q_scale))
    assert (raw(result.q_out)[1, 3] == 0).all()


MEMORY = """
import tracemalloc, ml_dtypes, numpy as np
from aclnn_kvcache import oracle
T = {tokens}
zeros = lambda shape, dtype: np.zeros(shape, dtype)
cache = zeros((T // 64 + 1, 1, 64, 128), ml_dtypes.float8_e4m3fn)
arguments = [
    np.broadcast_to(np.ones((), ml_dtypes.bfloat16), (T, 3, 128)), np.ones(128, np.float32), np.ones(128, np.float32),
    np.broadcast_to(np.float32(1), (T, 128)), np.arange(T, dtype=np.int32)[::-1], cache, cache,
    zeros((*cache.shape[:3], 1), np.float32), np.arange(T + 1, dtype=np.int32), np.ones(T, np.int32),
    np.eye(128, dtype=np.float32).astype(ml_dtypes.bfloat16), np.ones(1, np.float32),
]
tracemalloc.start()
result = oracle.qkv_rms_norm_rope_cache_with_k_scale(*arguments, head_nums=(1, 1, 1))
print(tracemalloc.get_traced_memory()[1] - sum(array.nbytes for array in result))
"""


def test_memory_beside_arguments_and_results_does_not_grow_with_the_tokens():
    """As many batches as tokens. From 2**16 to 2**18 tokens: one megabyte a hundred thousand tokens at the most."""
    peaks = [
        int(
            subprocess.run([sys.executable, "-c", MEMORY.format(tokens=tokens)], check=True, capture_output=True).stdout
        )
        for tokens in (1 << 16, 1 << 18)
    ]
    assert max(peaks) < 64 << 20
    assert peaks[1] - peaks[0] < 64 * ((1 << 18) - (1 << 16))


# --- what is refused


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([0, -1, 5], "row 1 holds slot -1 (block -1 of 2, offset 3), allowed are 0..7"),  # case D2
        ([0, 1, 8], "row 2 holds slot 8 (block 2 of 2, offset 0), allowed are 0..7"),
        ([-(2**31), 1, 2**31 - 1], "row 0 holds slot -2147483648"),
        ([4, 1, 4], "rows 0 and 2 both hold slot 4 (block 1 of 2, offset 0)"),
    ],
)
def test_slots_are_checked(slots, message):
    with pytest.raises(ValueError, match=r"^slot_mapping: ") as error:
        run(case(np.ones((3, 3, 128)), slots=slots))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("starts", "lengths", "message"),
    [
        ([1, 2, 3], [2, 2], "query_start_loc: batch 0 starts at token 1, expected 0"),
        ([0, 2, 1, 3], [2, 2, 2], "query_start_loc: batch 1 starts at token 2 and ends at 1"),
        ([0, 1, 2], [2, 2], "query_start_loc: batch 1 ends at token 2, expected T = 3"),
        ([0, 1, 4], [2, 4], "query_start_loc: batch 1 ends at token 4, expected T = 3"),
        ([0, -(2**31), 3], [2, 4], "query_start_loc: batch 0 starts at token 0 and ends at -2147483648"),
        ([0, 1, 3], [1, 1], "seq_lens: batch 1 has length 1, expected at least its 2 tokens"),
        ([0, 1, 3, 3], [1, 2, -1], "seq_lens: batch 2 has length -1, expected at least its 0 tokens"),
        ([0, 1, 3], [1, 6], "seq_lens: batch 1 has length 6, so that position 5 is reached; cos_sin has rows 0..4"),
        ([0, 1, 3], [2**31 - 1, 2], "seq_lens: batch 0 has length 2147483647, so that position 2147483646"),
        ([0, 3], [3, 3], "seq_lens: expected one entry a batch, 1 since query_start_loc has 2, got 2"),
    ],
)
def test_batches_are_checked(starts, lengths, message):
    arguments = case(np.ones((3, 3, 128)), table=5)
    arguments["query_start_loc"], arguments["seq_lens"] = np.array(starts, np.int32), np.array(lengths, np.int32)
    with pytest.raises(ValueError, match=r"^(query_start_loc|seq_lens): ") as error:
        run(arguments)
    assert message in str(error.value)


@pytest.mark.parametrize("epsilon", [-1e-6, -1e-300, np.nan, np.inf, -np.inf, 1e39])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon: expected a finite float32 that is not negative, got "):
        run(case(np.ones((1, 3, 128))), epsilon=epsilon)


@pytest.mark.parametrize("name", ORDER)
def test_empty_arguments_are_refused(name):
    arguments = case(np.ones((1, 3, 128)))
    shape = list(arguments[name].shape)
    shape[0 if name != "v_scale" else -1] = 0
    arguments[name] = np.zeros(shape, arguments[name].dtype)
    with pytest.raises(ValueError, match=f"^({name}|slot_mapping|k_scale_cache|v_cache): expected "):
        run(arguments)


def test_no_tokens_are_refused():
    arguments = case(np.ones((0, 3, 128)), lengths=[0], table=1)
    with pytest.raises(ValueError, match=r"^qkv: expected no empty axis, got shape \(0, 3, 128\)"):
        run(arguments)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda n: np.array(n, np.uint8), lambda n: map(np.int32, n)])
def test_head_nums_are_any_three_integers(kind):
    arguments = random_case(7, lengths=[2])
    assert np.array_equal(raw(run(arguments, kind([2, 1, 1])).q_out), raw(run(arguments, (2, 1, 1)).q_out))


@pytest.mark.parametrize(
    ("head_nums", "error", "message"),
    [
        ([1, 1], ValueError, "three counts"),
        ([1, 1, 1, 1], ValueError, "three counts"),
        ([0, 1, 1], ValueError, "above 0"),
        ([2, 1, 0], ValueError, "above 0"),
        ([1, 1, 2], ValueError, "Nk = Nv, got [1, 1, 2]"),
        ([1.0, 1, 1], TypeError, "expected integers, got 1.0 of type float"),
        ("111", TypeError, "expected integers, got '1' of type str"),
        (np.ones((3, 1), int), TypeError, "expected integers"),
        ([2, 1, 1], ValueError, "[T, Nq+Nk+Nv, 128] = (1, 4, 128), got (1, 3, 128)"),
    ],
)
def test_head_nums_are_checked(head_nums, error, message):
    with pytest.raises(error, match=r"^(head_nums|qkv): ") as raised:
        run(case(np.ones((1, 3, 128))), head_nums)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("qkv", (1, 3, 64), "[T, Nq+Nk+Nv, 128] = (1, 3, 128), got (1, 3, 64)"),
        ("qkv", (3, 128), "3 axes [T, Nq+Nk+Nv, 128], got shape (3, 128)"),
        ("q_gamma", (64,), "[128] = (128,), got (64,)"),
        ("cos_sin", (1, 64), "[MaxSeqLen, 128] = (1, 128), got (1, 64)"),
        ("slot_mapping", (2,), "[T] = (1,), got (2,)"),
        ("k_cache", (2, 2, 4, 128), "[BlockNum, Nk, BlockSize, 128] = (2, 1, 4, 128), got (2, 2, 4, 128)"),
        ("v_cache", (3, 1, 4, 128), "[BlockNum, Nv, BlockSize, 128] = (2, 1, 4, 128), got (3, 1, 4, 128)"),
        ("k_scale_cache", (2, 1, 4), "4 axes [BlockNum, Nk, BlockSize, 1], got shape (2, 1, 4)"),
        ("rotation", (128, 64), "[128, 128] = (128, 128), got (128, 64)"),
        ("v_scale", (2,), "[Nv] = (1,), got (2,)"),
    ],
)
def test_shapes_are_checked(name, shape, expected):
    arguments = case(np.ones((1, 3, 128)))
    arguments[name] = np.zeros(shape, arguments[name].dtype)
    with pytest.raises(ValueError, match=f"^{name}: expected ") as error:
        run(arguments)
    assert str(error.value).endswith(expected)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("qkv", np.uint16, "bfloat16, got uint16; raw bytes become BF16 by .view(ml_dtypes.bfloat16)"),
        ("qkv", np.float16, "bfloat16, got float16"),
        ("q_gamma", BF16, "float32, got bfloat16"),
        ("cos_sin", ">f4", "float32, got >f4"),
        ("slot_mapping", np.int64, "int32, got int64"),
        ("k_cache", np.int8, "float8_e4m3fn, got int8; raw bytes become FP8 by .view(ml_dtypes.float8_e4m3fn)"),
        ("v_cache", ml_dtypes.float8_e5m2, "float8_e4m3fn, got float8_e5m2"),
        ("query_start_loc", np.int64, "int32, got int64"),
        ("rotation", np.float32, "bfloat16, got float32"),
    ],
)
def test_dtypes_are_checked(name, dtype, expected):
    arguments = case(np.ones((1, 3, 128)))
    arguments[name] = np.zeros(arguments[name].shape, dtype)
    with pytest.raises(TypeError, match=f"^{name}: expected ") as error:
        run(arguments)
    assert expected in str(error.value)


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("other", [None, [0, 1]])
def test_only_arrays(name, other):
    arguments = case(np.ones((1, 3, 128))) | {name: other}
    with pytest.raises(TypeError, match=f"^{name}: expected a NumPy array, got {type(other).__name__}$"):
        oracle.qkv_rms_norm_rope_cache_with_k_scale(**arguments, head_nums=(1, 1, 1))


# --- which rows are not finite


def test_non_finite_rows_are_listed_by_token_branch_and_head():
    qkv = np.ones((3, 8, 128), F32).astype(BF16)
    assert oracle.non_finite_rows(qkv, (4, 2, 2)) == []
    qkv[2, 0, 1], qkv[0, 3, 127], qkv[0, 5, 0], qkv[2, 6, 64] = np.nan, np.inf, -np.inf, -np.nan
    qkv[1, 7, :] = np.inf
    expected = [(0, "q", 3), (0, "k", 1), (1, "v", 1), (2, "q", 0), (2, "v", 0)]
    assert oracle.non_finite_rows(qkv, (4, 2, 2)) == expected
    heads_first = np.ascontiguousarray(qkv.swapaxes(0, 1))
    rows = oracle.non_finite_rows(heads_first, [4, 2, 2], "NTD")
    assert rows == expected
    assert (rows[1].token, rows[1].branch, rows[1].head) == (0, "k", 1)


def test_every_bfloat16_that_is_not_finite_is_found():
    patterns = np.arange(1 << 16, dtype=np.uint16).view(BF16)
    qkv = np.zeros((1 << 16, 3, 128), BF16)
    qkv[:, 1, 77] = patterns
    found = oracle.non_finite_rows(qkv, (1, 1, 1))
    assert [row.token for row in found] == np.flatnonzero(~np.isfinite(patterns.astype(F32))).tolist()
    assert {row[1:] for row in found} == {("k", 0)}


def test_non_finite_rows_checks_its_arguments():
    with pytest.raises(TypeError, match=r"^qkv: expected bfloat16, got float32"):
        oracle.non_finite_rows(np.zeros((1, 3, 128), F32), (1, 1, 1))
    with pytest.raises(
        ValueError, match=r"^qkv: expected shape \[Nq\+Nk\+Nv, T, 128\] = \(3, 1, 128\), got \(4, 1, 128\)"
    ):
        oracle.non_finite_rows(np.zeros((4, 1, 128), BF16), (1, 1, 1), "NTD")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("head_nums", None),
        ("head_nums", 8),
        ("head_nums", (True, 1, 1)),
        ("head_nums", (1.0, 1, 1)),
        ("epsilon", "1e-6"),
        ("epsilon", True),
        ("epsilon", 1j),
        ("epsilon", [1e-6]),
    ],
)
def test_options_of_another_type_are_named(option, value):
    checks = {"head_nums": check_head_nums, "epsilon": check_epsilon}
    with pytest.raises(TypeError, match=f"^{option}: expected "):
        checks[option](value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 10**400])
def test_epsilons_that_are_none(value):
    with pytest.raises(ValueError, match=r"^epsilon: expected a finite float32"):
        check_epsilon(value)
