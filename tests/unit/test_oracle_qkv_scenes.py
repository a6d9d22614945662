# SPDX-License-Identifier: Apache-2.0
"""The scenes M-RoPE and Mx of the fused operator's oracle: values found by hand, and any call read aloud."""

import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache import oracle
from aclnn_kvcache.oracle import qkv_rows

BF16, E4M3FN, E8M0 = (np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu"))
F32 = np.float32
MODES = {"M-RoPE": ("NoQuant", None), "Mx": ("Mx", "Mx")}
BOTH = pytest.mark.parametrize("scene", MODES)


def raw(array):
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def case(scene, x, *, blocks=2, size=4, table=4):
    """A call with gammas, v_scale and cosines 1, sines 0, identity rotation and all positions 0."""
    x = np.asarray(x, F32).astype(BF16)
    tokens, nk = len(x), x.shape[1] // 10
    cos_sin = np.zeros((table, 128), F32)
    cos_sin[:, :64] = 1
    mx = scene == "Mx"
    q_mode, k_mode = MODES[scene]
    return {
        "qkv": x,
        "q_gamma": np.ones(128, F32),
        "k_gamma": np.ones(128, F32),
        "cos_sin": cos_sin,
        "slot_mapping": np.arange(tokens, dtype=np.int32),
        "k_cache": np.full((blocks, nk, size, 128), 0x2A, np.uint8).view(E4M3FN if mx else np.int8),
        "v_cache": np.full((blocks, nk, size, 128), 0x55, np.uint8).view(E4M3FN),
        "k_scale_cache": np.full((blocks, nk, size, 4), 7, np.uint8).view(E8M0)
        if mx
        else np.full((blocks, nk, size, 1), -1, F32),
        "query_start_loc": None,
        "seq_lens": None,
        "rotation": None if mx else np.eye(128, dtype=F32).astype(BF16),
        "v_scale": np.ones((nk, 128), F32),
        "head_nums": (8 * nk, nk, nk),
        "layout_q_out": "TND",
        "mrope_position": np.zeros((tokens, 3), np.int32),
        "mrope_section": [24, 20, 20],
        "q_quant_mode": q_mode,
        "k_quant_mode": k_mode,
    }


def random_case(scene, seed, tokens=3, nk=1, blocks=3, size=4, table=9):
    """Random numbers in all that may differ; two entries a column in the rotation, so that no order of sums shows."""
    r = np.random.default_rng(seed)
    call = case(scene, r.standard_normal((tokens, 10 * nk, 128)) * 3, blocks=blocks, size=size, table=table)
    for name in ("q_gamma", "k_gamma", "v_scale", "cos_sin"):
        call[name] = r.standard_normal(call[name].shape).astype(F32)
    if call["rotation"] is not None:
        rotation = np.zeros((128, 128), F32)
        for column in range(128):
            rotation[r.choice(128, 2, replace=False), column] = r.standard_normal(2)
        call["rotation"] = rotation.astype(BF16)
    call["slot_mapping"] = r.permutation(blocks * size)[:tokens].astype(np.int32)
    call["mrope_position"] = r.integers(0, table, (tokens, 3), np.int32)
    return call


def run(call, **options):
    """Call with warnings as errors; the arguments must keep every byte, the results must be new and dense."""
    call = call | options
    arrays = {name: value for name, value in call.items() if isinstance(value, np.ndarray)}
    before = {name: array.tobytes() for name, array in arrays.items()}
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        result = oracle.qkv_rms_norm_rope_cache_with_k_scale(**call)
    assert {name: array.tobytes() for name, array in arrays.items()} == before
    mx = call["q_quant_mode"] == "Mx"
    dtypes = (E4M3FN, E8M0, E4M3FN, E4M3FN, E8M0) if mx else (BF16, None, np.int8, E4M3FN, F32)
    for array, dtype in zip(result, dtypes, strict=True):
        if dtype is None:
            assert array is None
        else:
            assert array.dtype == dtype
            assert array.flags.c_contiguous
            assert not any(np.shares_memory(array, argument) for argument in arrays.values())
    return result


def same(results, others):
    return all(
        (a is None and b is None) or np.array_equal(raw(a), raw(b)) for a, b in zip(results, others, strict=True)
    )


# --- which position a lane takes


@BOTH
def test_only_height_and_width_of_a_section_count(scene):
    call = random_case(scene, 0)
    results = [run(call, mrope_section=section) for section in ([11, 20, 20], (24, 20, 20), np.array([0, 20, 20]))]
    assert same(results[0], results[1])
    assert same(results[0], results[2])
    assert not same(results[0], run(call, mrope_section=[24, 19, 20]))
    assert not same(results[0], run(call, mrope_section=[24, 20, 19]))


@pytest.mark.parametrize(
    ("section", "height", "width"),
    [
        ([24, 2, 3], [1, 4], [2, 5, 8]),
        ([64, 0, 0], [], []),
        ([0, 0, 1], [], [2]),
        ([22, 21, 21], list(range(1, 62, 3)), list(range(2, 63, 3))),
        ([24, 20, 20], list(range(1, 59, 3)), list(range(2, 60, 3))),
    ],
)
def test_three_rows_of_the_table(section, height, width):
    """Position (1, 2, 3): lanes take 1, 0.5 or 0.25 for cosine, 2, 4 or 8 for sine, of rows that are 1 and 1.

    low' = cos - sin and high' = cos + sin of the lane: -1 and 3, -3.5 and 4.5, -7.75 and 8.25; BF16 has all of them.
    """
    call = case("M-RoPE", np.ones((1, 10, 128)))
    call["cos_sin"][:] = np.nan
    call["cos_sin"][1:4, :64] = [[1], [0.5], [0.25]]
    call["cos_sin"][1:4, 64:] = [[2], [4], [8]]
    call["mrope_position"][0] = 1, 2, 3
    low, high = [-1.0] * 64, [3.0] * 64
    for lane in height:
        low[lane], high[lane] = -3.5, 4.5
    for lane in width:
        low[lane], high[lane] = -7.75, 8.25
    result = run(call, mrope_section=section, epsilon=0)
    assert result.q_out.astype(F32)[0].tolist() == [low + high] * 8


@BOTH
def test_every_token_has_its_own_positions(scene):
    """Tokens in another order are the same rows in another order."""
    call = random_case(scene, 1, tokens=7)
    order = np.random.default_rng(1).permutation(7)
    turned = call | {name: call[name][order] for name in ("qkv", "slot_mapping", "mrope_position")}
    plain, other = run(call), run(turned)
    assert np.array_equal(raw(other.q_out), raw(plain.q_out)[order])
    assert same(other[2:], plain[2:])


# --- M-RoPE


def test_int8_keys_are_rounded_twice():
    """A row whose largest number is 1: scale 1 / 127, and quotients 62.508, 126.504 and 33.486 near ties."""
    call = case("M-RoPE", np.ones((1, 10, 128)))
    call["k_gamma"][:5] = 0.4921875, 0.99609375, 0.263671875, -0.99609375, -1
    result = run(call, epsilon=0)
    assert result.k_scale_cache[0, 0].ravel().tolist() == [F32(1) / F32(127), -1, -1, -1]
    quotients = call["k_gamma"][:5] / (F32(1) / F32(127))
    assert np.rint(quotients).tolist() == [63, 127, 33, -127, -127]  # what one rounding would give
    assert result.k_cache[0, 0, 0].tolist() == [62, 126, 34, -126, -127] + [127] * 123
    assert (raw(result.k_cache)[0, 0, 1:] == 0x2A).all()
    assert (raw(result.k_cache)[1] == 0x2A).all()


def test_q_is_the_rotated_row_in_bf16():
    """3 * 2**-8 + 1 is a tie of BF16: to the even 1 + 2**-6; the matrix adds two lanes of BF16 in float32."""
    call = case("M-RoPE", np.ones((1, 10, 128)))
    call["q_gamma"][:3] = 1, 2.0**-8, 3 * 2.0**-8
    call["rotation"][1, 0] = 1
    call["rotation"][2, 1] = call["rotation"][3, 1] = 1
    call["rotation"][1, 1] = 0
    q = run(call, epsilon=0).q_out.astype(F32)[0, 0]
    assert q[:4].tolist() == [1, 1 + 2.0**-6, 3 * 2.0**-8, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_m_rope_rows_that_are_not_finite(value):
    x = np.ones((2, 10, 128))
    x[0, 3, 5] = x[0, 8, 70] = x[0, 9, 9] = value
    result = run(case("M-RoPE", x), epsilon=0)
    q = result.q_out.astype(F32)
    assert (q[0, 3] == 0).all()
    assert (np.delete(q[0], 3, axis=0) == 1).all()
    assert np.isnan(result.k_scale_cache[0, 0, 0])
    assert (result.k_cache[0, 0, 0] == 0).all()
    assert (result.k_cache[0, 0, 1] == 127).all()
    assert raw(result.v_cache)[0, 0, 0, 9] == {np.inf: 0x7E, -np.inf: 0xFE}.get(value, 0)


def test_m_rope_q_that_overflows_is_the_largest_bf16():
    """Rotation 2**127 in lanes 0 and 1 overflows in the matrix product only."""
    call = case("M-RoPE", np.ones((1, 10, 128)))
    call["q_gamma"][:2] = 4, -4
    call["rotation"][0, 0] = call["rotation"][1, 1] = 2.0**127
    q = run(call, epsilon=0).q_out[0, 0]
    assert raw(q)[:3].tolist() == [0x7F7F, 0xFF7F, 0x3F80]


def test_m_rope_zero_rows():
    result = run(case("M-RoPE", np.zeros((1, 10, 128))))
    assert (raw(result.q_out) == 0).all()
    assert raw(result.k_scale_cache)[0, 0, 0, 0] == 0
    assert (result.k_cache[0, 0, 0] == 0).all()


# --- Mx


@pytest.mark.parametrize(
    ("largest", "byte", "code"),
    [
        (448, 127, 0x7E),
        (np.nextafter(F32(448), F32(500)), 128, 0x76),  # 224
        (7, 121, 0x7E),  # 448 / 64
        (8, 122, 0x78),  # 8 * 32 = 256
        (0, 0, 0x00),
        (2.0**-127, 0, 0x38),  # 1 * 2**-127
        (2.0**-140, 0, 0x00),
        (np.finfo(F32).max, 247, 0x78),
    ],
)
def test_mx_blocks_by_hand(largest, byte, code):
    """Gamma makes the rows: the largest number in lane 40 of block 1 and zeros there, ones in the other blocks."""
    call = case("Mx", np.ones((1, 10, 128)))
    for name, sign in (("q_gamma", 1), ("k_gamma", -1)):
        call[name][32:64] = 0
        call[name][40] = sign * F32(largest)
    result = run(call, epsilon=0)
    # 1 * 2**8 is 256: code 0x78, scale 2**-8.
    assert raw(result.q_scale).tolist() == [[[119, byte, 119, 119]] * 8]
    assert raw(result.k_scale_cache)[0, 0].tolist() == [[119, byte, 119, 119]] + [[7] * 4] * 3
    q, k = raw(result.q_out)[0, 0], raw(result.k_cache)[0, 0, 0]
    assert q[40] == code
    assert k[40] == code | 0x80  # -0 for zero
    assert (np.delete(q[32:64], 8) == 0).all()
    assert (q[:32] == 0x78).all()
    assert (q[64:] == 0x78).all()


def test_an_infinity_makes_zeros_of_its_block_alone():
    """Cosine 2 times gamma 3e38 overflows in lane 40; sine 0 times gamma does not."""
    call = case("Mx", np.ones((1, 10, 128)))
    call["q_gamma"][40] = 3e38
    call["cos_sin"][:, :64] = 2
    result = run(call, epsilon=0)
    assert raw(result.q_scale)[0].tolist() == [[120, 255, 120, 120]] * 8
    assert (raw(result.q_out)[0, :, 32:64] == 0).all()
    assert (raw(result.q_out)[0, :, :32] == 0x78).all()
    assert (raw(result.k_scale_cache)[0, 0, 0] == 120).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_in_a_row_spoils_its_lane_and_the_partner(value):
    """NaN: the norm divides every lane by it. Infinity: finite / Inf is 0, and Inf / Inf NaN in lanes 5 and 69."""
    x = np.ones((2, 10, 128))
    x[0, 2, 5] = x[0, 8, 5] = value
    result = run(case("Mx", x), epsilon=0)
    spoiled = [255] * 4 if np.isnan(value) else [255, 0, 255, 0]
    assert raw(result.q_scale)[0, 2].tolist() == spoiled
    assert raw(result.k_scale_cache)[0, 0, 0].tolist() == spoiled
    assert (raw(result.q_out)[0, 2] == 0).all()
    assert (raw(result.k_cache)[0, 0, 0] == 0).all()
    assert (np.delete(raw(result.q_scale)[0], 2, axis=0) == 119).all()
    assert (raw(result.q_scale)[1] == 119).all()


# --- any call, read aloud


def saturated(values):
    return np.clip(np.where(np.isnan(values), 0, values), F32(-448), F32(448)).astype(E4M3FN)


def read_aloud(call):
    """q_out, q_scale, K rows, K scales and V rows by token and head, in whole arrays and by plain loops."""
    nq, nk, _ = call["head_nums"]
    _, height, width = call["mrope_section"]
    mx = call["q_quant_mode"] == "Mx"
    axes = [1 if n % 3 == 1 and n // 3 < height else 2 if n % 3 == 2 and n // 3 < width else 0 for n in range(64)]
    rows = call["mrope_position"][:, axes]
    cos, sin = (call["cos_sin"][rows, np.arange(64) + shift][:, None] for shift in (0, 64))
    made = []
    for heads, gamma in ((slice(nq), call["q_gamma"]), (slice(nq, nq + nk), call["k_gamma"])):
        x = call["qkv"][:, heads].astype(F32)
        sums = x[..., :64] * x[..., :64] + x[..., 64:] * x[..., 64:]
        while sums.shape[-1] > 1:
            sums = sums[..., ::2] + sums[..., 1::2]
        x = x / np.sqrt(sums * F32(1 / 128) + F32(1e-6))
        low, high = gamma[:64], gamma[64:]
        if mx:
            x, (a, b) = x, (x[..., :64], x[..., 64:])
            turned = [a * (cos * low) - b * (sin * high), b * (cos * high) + a * (sin * low)]
            made.append(np.concatenate(turned, axis=-1))
        else:
            a, b = (x * gamma)[..., :64], (x * gamma)[..., 64:]
            turned = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
            made.append(
                (turned.astype(BF16).astype(F32).reshape(-1, 128) @ call["rotation"].astype(F32)).reshape(x.shape)
            )
    v = saturated(call["qkv"][:, nq + nk :].astype(F32) * call["v_scale"])
    if not mx:
        q, k = made
        scale = np.abs(k).max(axis=-1, keepdims=True) / F32(127)
        codes = [round(float(np.float16(quotient))) for quotient in (k / scale).ravel()]
        return q.astype(BF16), None, np.array(codes, np.int8).reshape(k.shape), scale, v
    results = []
    for z in made:
        blocks = z.reshape(-1, 32)
        exponents = []
        for block in blocks:
            largest, e = Fraction(float(np.abs(block).max())), -127
            while largest > 448 * Fraction(2) ** e:
                e += 1
            exponents.append(e)
        powers = np.array([2.0**-e for e in exponents], F32)
        results.append(saturated(blocks * powers[:, None]).reshape(z.shape))
        results.append((np.array(exponents) + 127).astype(np.uint8).view(E8M0).reshape(*z.shape[:-1], 4))
    return *results, v


@BOTH
@pytest.mark.parametrize("nk", range(1, 9))
def test_any_number_of_heads(scene, nk, monkeypatch):
    monkeypatch.setattr(qkv_rows, "_ROWS", 100)
    call = random_case(scene, nk, tokens=5, nk=nk) | {"mrope_section": [10, nk * 2, 21 - nk]}
    result = run(call)
    q, q_scale, k, k_scale, v = read_aloud(call)
    assert np.array_equal(raw(result.q_out), raw(q))
    assert scene == "M-RoPE" or np.array_equal(raw(result.q_scale), raw(q_scale))
    block, offset = np.divmod(call["slot_mapping"], 4)
    for name, cache, written in zip(("k_cache", "v_cache", "k_scale_cache"), result[2:], (k, v, k_scale), strict=True):
        expected = call[name].copy()
        expected[block, :, offset] = written
        assert np.array_equal(raw(cache), raw(expected)), name


@BOTH
def test_strides_do_not_matter(scene):
    call = random_case(scene, 3)
    strided = dict(call)
    for name, value in call.items():
        if isinstance(value, np.ndarray) and name != "head_nums":
            strided[name] = np.ascontiguousarray(value[..., ::-1])[..., ::-1]
    assert same(run(call), run(strided))


def test_v_is_scaled_by_head_and_channel():
    call = case("Mx", np.ones((1, 20, 128)))
    call["v_scale"][1, 127] = 2
    v = raw(run(call).v_cache)[0, :, 0]
    assert v.tolist() == [[0x38] * 128, [0x38] * 127 + [0x40]]


# --- what is refused


def refused(error, call, message, **options):
    with pytest.raises(error) as raised:
        run(call, **options)
    assert str(raised.value).startswith(message), str(raised.value)


SECTION, POSITION = [24, 20, 20], np.zeros((1, 3), np.int32)


@pytest.mark.parametrize(
    ("scene", "options", "message"),
    [
        ("M-RoPE", {"mrope_section": None}, "mrope_section: expected three counts of lanes [t, h, w] beside mrope_p"),
        ("Mx", {"mrope_section": []}, "mrope_section: expected three counts of lanes [t, h, w] beside mrope_position"),
        ("M-RoPE", {"mrope_position": None}, "mrope_position: expected an array [T, 3] beside mrope_section, got None"),
        (
            "M-RoPE",
            {"q_quant_mode": None},
            "q_quant_mode and k_quant_mode: expected 'NoQuant' with 'PerTokenPerHead' (M-RoPE) or 'Mx' with 'Mx' (Mx) "
            "with mrope_position and mrope_section, got 'PerTokenPerHead' with 'PerTokenPerHead'",
        ),
        ("Mx", {"k_quant_mode": ""}, "q_quant_mode and k_quant_mode: expected 'NoQuant' with 'PerTokenPerHead'"),
        ("Mx", {"q_quant_mode": "MX"}, "q_quant_mode and k_quant_mode: expected "),
        (
            "M-RoPE",
            {"mrope_position": None, "mrope_section": None},
            "q_quant_mode and k_quant_mode: expected 'PerTokenPerHead' with 'PerTokenPerHead' (RoPE) without mrope_",
        ),
        ("M-RoPE", {"seq_lens": np.ones(1, np.int32)}, "seq_lens: expected None, since the scene M-RoPE takes none"),
        ("Mx", {"query_start_loc": np.zeros(2, np.int32)}, "query_start_loc: expected None, since the scene Mx takes "),
        ("Mx", {"rotation": np.eye(128).astype(BF16)}, "rotation: expected None, since the scene Mx takes none"),
        ("Mx", {"head_nums": (2, 4, 4)}, "head_nums: expected Nq = 8 * Nk in this scene, got [2, 4, 4]"),
        ("Mx", {"layout_q_out": None}, "layout_qkv and layout_q_out: expected 'TND' with 'TND', got 'TND' with 'NTD'"),
        ("M-RoPE", {"layout_qkv": "NTD", "layout_q_out": "NTD"}, "layout_qkv and layout_q_out: expected 'TND' with "),
        ("M-RoPE", {"mrope_section": [24, 20]}, "mrope_section: expected three counts of lanes"),
        ("M-RoPE", {"mrope_section": [24, 22, 0]}, "mrope_section: expected three counts of lanes"),
        ("M-RoPE", {"mrope_section": [0, 0, 22]}, "mrope_section: expected three counts of lanes"),
        ("M-RoPE", {"mrope_section": [25, 20, 20]}, "mrope_section: expected three counts of lanes"),
        ("M-RoPE", {"mrope_section": [-1, 20, 20]}, "mrope_section: expected three counts of lanes"),
        (
            "Mx",
            {"mrope_position": np.array([[0, 4, 0]], np.int32)},
            "mrope_position: token 0 holds 4 on axis H; cos_sin has rows 0..3",
        ),
        ("Mx", {"mrope_position": np.array([[0, 3, -1]], np.int32)}, "mrope_position: token 0 holds -1 on axis W; "),
        ("Mx", {"mrope_position": np.zeros((3, 1), np.int32)}, "mrope_position: expected shape [T, 3] = (1, 3), got "),
        ("Mx", {"v_scale": np.ones(1, F32)}, "v_scale: expected 2 axes [Nv, 128], got shape (1,)"),
        ("Mx", {"slot_mapping": np.array([8], np.int32)}, "slot_mapping: row 0 holds slot 8"),
    ],
)
def test_values_that_a_scene_does_not_take(scene, options, message):
    refused(ValueError, case(scene, np.ones((1, 10, 128))), message, **options)


@pytest.mark.parametrize(
    ("scene", "options", "message"),
    [
        ("M-RoPE", {"rotation": None}, "rotation: expected a NumPy array, got NoneType"),
        ("M-RoPE", {"k_cache": np.zeros((2, 1, 4, 128), E4M3FN)}, "k_cache: expected int8, got float8_e4m3fn"),
        ("Mx", {"k_cache": np.zeros((2, 1, 4, 128), np.int8)}, "k_cache: expected float8_e4m3fn, got int8"),
        (
            "Mx",
            {"k_scale_cache": np.zeros((2, 1, 4, 4), np.uint8)},
            "k_scale_cache: expected float8_e8m0fnu, got uint8",
        ),
        ("Mx", {"mrope_position": np.zeros((1, 3), np.int64)}, "mrope_position: expected int32, got int64"),
        ("Mx", {"mrope_section": [24.0, 20, 20]}, "mrope_section: expected integers, got 24.0 of type float"),
        ("Mx", {"mrope_section": 24}, "mrope_section: expected a sequence of integers, got int"),
        ("Mx", {"v_scale": None}, "v_scale: expected a NumPy array, got NoneType"),
    ],
)
def test_types_that_a_scene_does_not_take(scene, options, message):
    refused(TypeError, case(scene, np.ones((1, 10, 128))), message, **options)


@BOTH
def test_slots_have_to_differ(scene):
    call = case(scene, np.ones((2, 10, 128)))
    refused(ValueError, call, "slot_mapping: rows 0 and 1 both hold slot 3", slot_mapping=np.array([3, 3], np.int32))
