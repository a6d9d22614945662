# SPDX-License-Identifier: Apache-2.0
"""The scatter oracle, against values found by hand and against a plain triple loop."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclnn_kvcache import oracle

E4M3FN, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
ORDER = ("key", "value", "key_cache", "value_cache", "slot_mapping", "key_scale", "key_scale_cache")


def raw(array):
    """Bytes as integers of the same width: NaN equals itself, -0 differs from +0."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def case(slots, *, blocks, size, heads=1, dk=8, dv=None, fp8=E4M3FN, slot_dtype=np.int32, seed=0):
    """Random bytes (NaN patterns included) in all tensors, caches on the canary fills."""
    dv = dk if dv is None else dv
    tokens, random = len(slots), np.random.default_rng(seed)
    return {
        "key": random.integers(0, 256, (tokens, heads, dk), np.uint8).view(fp8),
        "value": random.integers(0, 256, (tokens, heads, dv), np.uint8).view(fp8),
        "key_cache": np.full((blocks, heads, size, dk), 0xAA, np.uint8).view(fp8),
        "value_cache": np.full((blocks, heads, size, dv), 0x55, np.uint8).view(fp8),
        "slot_mapping": np.array(slots, slot_dtype),
        "key_scale": random.integers(0, 1 << 32, (tokens, heads), np.uint32).view(np.float32),
        "key_scale_cache": np.full((blocks, heads, size, 1), -1, np.float32),
    }


def plain_loop(key, value, key_cache, value_cache, slot_mapping, key_scale, key_scale_cache):
    """The contract, a token, a head and an element at a time, on integers."""
    caches = [raw(cache).copy() for cache in (key_cache, value_cache, key_scale_cache)]
    sources = [raw(key), raw(value), raw(key_scale)[:, :, None]]
    blocks, heads, size, _ = key_cache.shape
    for t, slot in enumerate(slot_mapping.tolist()):
        if 0 <= slot < blocks * size:
            for n in range(heads):
                for cache, source in zip(caches, sources, strict=True):
                    for d in range(cache.shape[3]):
                        cache[slot // size, n, slot % size, d] = source[t, n, d]
    return caches


def run(arguments, **options):
    """Call with warnings as errors; the arguments must keep every byte."""
    before = {name: array.tobytes() for name, array in arguments.items()}
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        result = oracle.scatter_pa_kv_cache_with_k_scale(*(arguments[name] for name in ORDER), **options)
    assert {name: array.tobytes() for name, array in arguments.items()} == before
    for cache, name in zip(result, ("key_cache", "value_cache", "key_scale_cache"), strict=True):
        assert cache.flags.c_contiguous
        assert cache.dtype == arguments[name].dtype
        assert not np.shares_memory(cache, arguments[name])
    return result


def check(arguments):
    result = run(arguments)
    for cache, expected in zip(result, plain_loop(**arguments), strict=True):
        assert np.array_equal(raw(cache), expected)
    return result


def constant_rows(arguments, rows, scales):
    arguments["key"].view(np.uint8)[...] = np.array(rows, np.uint8)[:, None, None]
    arguments["value"].view(np.uint8)[...] = np.array(rows, np.uint8)[:, None, None]
    arguments["key_scale"][...] = scales


def test_case_d2_padding_slots_are_skipped():
    arguments = case([0, -1, 5], blocks=2, size=4)
    constant_rows(arguments, [0x38, 0x40, 0x44], [[1], [2], [3]])
    result = run(arguments)
    for cache, fill in ((result.key_cache, 0xAA), (result.value_cache, 0x55)):
        rows = [[[0x38] * 8, [fill] * 8, [fill] * 8, [fill] * 8], [[fill] * 8, [0x44] * 8, [fill] * 8, [fill] * 8]]
        assert cache.view(np.uint8)[:, 0].tolist() == rows
    assert result.key_scale_cache[:, 0, :, 0].tolist() == [[1, -1, -1, -1], [-1, 3, -1, -1]]


def test_case_d3_the_slot_after_the_last_is_skipped():
    arguments = case([7, 8], blocks=2, size=4)
    constant_rows(arguments, [0x38, 0x40], [[1], [2]])
    result = run(arguments)
    assert result.key_cache.view(np.uint8)[:, 0, :, 0].tolist() == [[0xAA] * 4, [0xAA, 0xAA, 0xAA, 0x38]]
    assert result.value_cache.view(np.uint8)[:, 0, :, 0].tolist() == [[0x55] * 4, [0x55, 0x55, 0x55, 0x38]]
    assert result.key_scale_cache[:, 0, :, 0].tolist() == [[-1] * 4, [-1, -1, -1, 1]]


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([1, 1], "rows 0 and 1 both hold slot 1 (block 0 of 2, offset 1)"),
        ([2, 7, -1, 6, -1, 7, 2, 7], "rows 1 and 5 both hold slot 7 (block 1 of 2, offset 3)"),
    ],
)
def test_case_d4_duplicates_are_refused(slots, message):
    with pytest.raises(ValueError, match=r"^slot_mapping: ") as error:
        run(case(slots, blocks=2, size=4))
    assert message in str(error.value)
    assert "undefined" in str(error.value)


def test_the_first_pair_of_many_duplicates_is_named():
    slots = [-1, *range(200), 64, *[3] * 50, *[64] * 50]
    with pytest.raises(ValueError, match=r"rows 65 and 201 both hold slot 64 \(block 16 of 50, offset 0\)"):
        run(case(slots, blocks=50, size=4))


def test_equal_slots_out_of_range_are_no_duplicates():
    result = check(case([-1, 8, -1, 8, 3], blocks=2, size=4))
    assert np.count_nonzero(result.key_scale_cache[..., 0].view(np.uint32) != np.float32(-1).view(np.uint32)) == 1


@pytest.mark.parametrize("order", [1, -1])
def test_case_d10_padded_cache_views(order):
    bases = np.full((3, 2, 4, 16), 0xAA, np.uint8), np.full((3, 2, 4, 16), 0x55, np.uint8)
    # The same views with the tokens stored backwards: a negative stride must change nothing.
    rows = np.array([0x38, 0x40], np.uint8)[::order]
    key = np.ascontiguousarray(np.broadcast_to(rows[:, None, None], (2, 2, 8))).view(E4M3FN)[::order]
    arguments = {
        "key": key,
        "value": key,
        "key_cache": bases[0][..., :8].view(E4M3FN),
        "value_cache": bases[1][..., :8].view(E4M3FN),
        "slot_mapping": np.array([0, 11], np.int32),
        "key_scale": np.array([[0.5, 0.25], [2, 4]], np.float32),
        "key_scale_cache": np.full((3, 2, 4, 1), -1, np.float32),
    }
    result = run(arguments)
    for base, cache, fill in zip(bases, result, (0xAA, 0x55), strict=False):
        base[..., :8].view(E4M3FN)[...] = cache
        assert (base[0, :, 0, :8] == 0x38).all()
        assert (base[2, :, 3, :8] == 0x40).all()
        assert [np.count_nonzero(base == byte) for byte in (0x38, 0x40, fill)] == [16, 16, 352]
    changed = {tuple(map(int, index)) for index in np.argwhere(result.key_scale_cache[..., 0] != -1)}
    assert changed == {(0, 0, 0), (0, 1, 0), (2, 0, 3), (2, 1, 3)}
    assert [float(result.key_scale_cache[index]) for index in ((0, 0, 0, 0), (0, 1, 0, 0))] == [0.5, 0.25]
    assert [float(result.key_scale_cache[index]) for index in ((2, 0, 3, 0), (2, 1, 3, 0))] == [2, 4]


@pytest.mark.parametrize("slot_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("fp8", [E4M3FN, E5M2])
def test_a_run_that_only_looks_consecutive(fp8, slot_dtype):
    arguments = case([10, 11, 100, 13], blocks=26, size=4, heads=3, dk=5, dv=7, fp8=fp8, slot_dtype=slot_dtype)
    result = check(arguments)
    for token, (block, offset) in enumerate([(2, 2), (2, 3), (25, 0), (3, 1)]):
        assert np.array_equal(raw(result.key_cache[block, :, offset]), raw(arguments["key"][token]))
        assert np.array_equal(raw(result.value_cache[block, :, offset]), raw(arguments["value"][token]))
        assert np.array_equal(raw(result.key_scale_cache[block, :, offset, 0]), raw(arguments["key_scale"][token]))
    assert (result.key_cache[3, :, 0].view(np.uint8) == 0xAA).all()  # slot 12, the gap


def test_int64_slots_beyond_32_bits_are_skipped():
    slots = [2**32 + 3, 2**32, -(2**32) + 1, 2**63 - 1, -(2**63), 2**31, 6]
    arguments = case(slots, blocks=2, size=4, slot_dtype=np.int64)
    result = check(arguments)
    touched = result.key_scale_cache[:, 0, :, 0].view(np.uint32) != np.float32(-1).view(np.uint32)
    assert touched.tolist() == [[False] * 4, [False, False, True, False]]
    assert (np.delete(result.key_cache.view(np.uint8)[:, 0].reshape(8, 8), 6, axis=0) == 0xAA).all()


def test_int32_extremes_are_skipped():
    result = check(case([-(2**31), 2**31 - 1, 0], blocks=2, size=4))
    assert (result.key_cache.view(np.uint8)[:, 0].reshape(8, 8)[1:] == 0xAA).all()


@pytest.mark.parametrize("fp8", [E4M3FN, E5M2])
def test_every_byte_and_nan_scales_move_unchanged(fp8):
    arguments = case([3], blocks=2, size=2, dk=256, dv=256, fp8=fp8)
    arguments["key"].view(np.uint8)[0, 0] = np.arange(256)
    arguments["value"].view(np.uint8)[0, 0] = np.arange(256)[::-1]
    for pattern in (0x7F800001, 0xFFC01234, 0x80000000, 0x00000001, 0xFF800000):
        arguments["key_scale"].view(np.uint32)[0, 0] = pattern
        result = run(arguments)
        assert result.key_cache.view(np.uint8)[1, 0, 1].tolist() == list(range(256))
        assert result.value_cache.view(np.uint8)[1, 0, 1].tolist() == list(range(255, -1, -1))
        assert result.key_scale_cache.view(np.uint32)[1, 0, 1, 0] == pattern


def test_rows_that_are_not_addressed_keep_nan_payloads():
    arguments = case([0], blocks=1, size=2)
    arguments["key_scale_cache"].view(np.uint32)[0, 0, 1, 0] = 0x7F812345
    arguments["key_cache"].view(np.uint8)[0, 0, 1] = 0xFF
    result = run(arguments)
    assert result.key_scale_cache.view(np.uint32)[0, 0, 1, 0] == 0x7F812345
    assert result.key_cache.view(np.uint8)[0, 0, 1].tolist() == [0xFF] * 8


@pytest.mark.parametrize("size", [1, 2, 16])
def test_lengths_around_block_edges(size):
    """A sequence of consecutive slots whose last block is full, one short of it, or one over."""
    for tokens in sorted({1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1} - {0}):
        for start in (0, size - 1):
            arguments = case(range(start, start + tokens), blocks=4, size=size, heads=2, dk=3, dv=4)
            result = check(arguments)
            written = np.moveaxis(result.key_cache, 1, 2).reshape(4 * size, 2, 3)[start : start + tokens]
            assert np.array_equal(raw(written), raw(arguments["key"]))


@pytest.mark.parametrize("slots", [[], [-1, -1], [99]])
def test_nothing_to_move_gives_copies(slots):
    result = check(case(slots, blocks=2, size=4, heads=2, dk=3))
    assert (result.key_cache.view(np.uint8) == 0xAA).all()
    assert (result.value_cache.view(np.uint8) == 0x55).all()
    assert (result.key_scale_cache == -1).all()


@pytest.mark.parametrize("empty", [{"blocks": 0, "size": 4}, {"blocks": 2, "size": 0}])
def test_a_cache_without_slots_skips_everything(empty):
    result = check(case([0, 1, -1], **empty))
    assert result.key_cache.size == 0


def test_views_of_bigger_storage():
    """Key out of a fused QKV buffer, token-major caches with K and V interleaved, transposed and padded scales."""
    plain = case([9, -1, 0, 14, 3], blocks=4, size=4, heads=2, dk=6, seed=1)
    qkv = np.zeros((5, 10, 6), E4M3FN)
    qkv[:, 4:6], qkv[:, 6:8] = plain["key"], plain["value"]
    storage = np.zeros((4, 4, 2, 2, 6), E4M3FN)  # block, offset, K or V, head, element
    storage[:, :, 0] = np.moveaxis(plain["key_cache"], 1, 2)
    storage[:, :, 1] = np.moveaxis(plain["value_cache"], 1, 2)
    padded = np.zeros((4, 2, 4, 3), np.float32)
    padded[..., 1] = plain["key_scale_cache"][..., 0]
    views = {
        "key": qkv[:, 4:6],
        "value": qkv[:, 6:8],
        "key_cache": np.moveaxis(storage[:, :, 0], 2, 1),
        "value_cache": np.moveaxis(storage[:, :, 1], 2, 1),
        "slot_mapping": np.repeat(plain["slot_mapping"], 3)[::3],
        "key_scale": np.asfortranarray(plain["key_scale"]),
        "key_scale_cache": padded[..., 1][..., None],
    }
    assert not any(views[name].flags.c_contiguous for name in ORDER)
    for cache, expected in zip(check(views), run(plain), strict=True):
        assert np.array_equal(raw(cache), raw(expected))


def test_negative_and_zero_strides():
    plain = case([5, 2, 7], blocks=2, size=4, heads=2, dk=4, seed=2)
    backwards = {name: array[(slice(None, None, -1),) * array.ndim] for name, array in plain.items()}
    check(backwards)
    one = np.array([0x7F], np.uint8).view(E4M3FN)
    same = plain | {
        "key": np.broadcast_to(one, (3, 2, 4)),
        "key_scale": np.broadcast_to(np.float32(2.5), (3, 2)),
        "key_cache": np.broadcast_to(one, (2, 2, 4, 4)),
    }
    result = check(same)
    assert (result.key_cache.view(np.uint8) == 0x7F).all()
    assert (result.key_scale_cache[1, :, 1, 0] == 2.5).all()


@st.composite
def calls(draw):
    extent = st.integers(1, 4)
    blocks, size, heads, dk, dv = (draw(extent) for _ in range(5))
    limit = blocks * size
    fp8, slot_dtype = draw(st.sampled_from([E4M3FN, E5M2])), draw(st.sampled_from([np.int32, np.int64]))
    inside = draw(st.lists(st.integers(0, limit - 1), unique=True, max_size=limit))
    info = np.iinfo(slot_dtype)
    outside = draw(st.lists(st.integers(info.min, -1) | st.integers(limit, info.max) | st.just(-1), max_size=3))
    slots = draw(st.permutations(inside + outside))
    seed = draw(st.integers(0, 99))
    arguments = case(
        slots, blocks=blocks, size=size, heads=heads, dk=dk, dv=dv, fp8=fp8, slot_dtype=slot_dtype, seed=seed
    )
    for name, array in arguments.items():
        # Spread each axis out in a bigger array, in either direction.
        steps = [draw(st.sampled_from([-2, -1, 1, 3])) for _ in array.shape]
        base = np.zeros([extent * abs(step) for extent, step in zip(array.shape, steps, strict=True)], array.dtype)
        view = base[tuple(slice(None, None, step) for step in steps)]
        view[...] = array
        arguments[name] = view
    return arguments


@settings(deadline=None, max_examples=200)
@given(calls())
def test_any_call_equals_the_plain_loop(arguments):
    check(arguments)


def test_many_tokens():
    """One call of serving size; the rows are checked through their index, not with a loop."""
    slots = np.random.default_rng(3).permutation(256 * 128)[:8192]
    arguments = case(slots, blocks=256, size=128, heads=2, dk=64, seed=3)
    result = run(arguments)
    rows = np.moveaxis(raw(result.key_cache), 1, 2).reshape(256 * 128, 2, 64)
    assert np.array_equal(rows[slots], raw(arguments["key"]))
    assert (np.delete(rows, slots, axis=0) == 0xAA).all()


@pytest.mark.parametrize("layout", [None, "", "BNBD", "anything"])
def test_cache_layout_is_ignored(layout):
    arguments = case([1], blocks=1, size=2)
    result = run(arguments, cache_layout=layout)
    assert np.array_equal(raw(result.key_cache), raw(run(arguments).key_cache))


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("key", (3, 8), "3 axes [T, N, Dk], got shape (3, 8)"),
        ("value", (2, 2, 6), "[T, N, Dv] = (3, 2, 6), got (2, 2, 6)"),
        ("value", (3, 1, 6), "[T, N, Dv] = (3, 2, 6), got (3, 1, 6)"),
        ("key_cache", (4, 3, 5, 8), "[B, N, S, Dk] = (4, 2, 5, 8), got (4, 3, 5, 8)"),
        ("key_cache", (4, 2, 5, 7), "[B, N, S, Dk] = (4, 2, 5, 8), got (4, 2, 5, 7)"),
        ("key_cache", (4, 2, 5, 8, 1), "4 axes [B, N, S, Dk], got shape (4, 2, 5, 8, 1)"),
        # Never compared by the host code of CANN: the device would write out of bounds.
        ("value_cache", (3, 2, 5, 6), "[B, N, S, Dv] = (4, 2, 5, 6), got (3, 2, 5, 6)"),
        ("value_cache", (4, 2, 4, 6), "[B, N, S, Dv] = (4, 2, 5, 6), got (4, 2, 4, 6)"),
        ("value_cache", (4, 2, 5, 8), "[B, N, S, Dv] = (4, 2, 5, 6), got (4, 2, 5, 8)"),
        ("slot_mapping", (4,), "[T] = (3,), got (4,)"),
        ("slot_mapping", (3, 1), "1 axes [T], got shape (3, 1)"),
        ("key_scale", (3, 1), "[T, N] = (3, 2), got (3, 1)"),
        ("key_scale_cache", (4, 2, 5), "4 axes [B, N, S, 1], got shape (4, 2, 5)"),
        ("key_scale_cache", (4, 2, 5, 2), "[B, N, S, 1] = (4, 2, 5, 1), got (4, 2, 5, 2)"),
    ],
)
def test_shapes_are_checked(name, shape, expected):
    arguments = case([0, 1, 2], blocks=4, size=5, heads=2, dk=8, dv=6)
    arguments[name] = np.zeros(shape, arguments[name].dtype)
    with pytest.raises(ValueError, match=f"^{name}: expected ") as error:
        run(arguments)
    assert str(error.value).endswith(expected)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("key", np.uint8, "float8_e4m3fn or float8_e5m2, got uint8"),
        ("key", "V1", "float8_e4m3fn or float8_e5m2, got |V1"),
        ("key", ml_dtypes.float8_e4m3fnuz, "float8_e4m3fn or float8_e5m2, got float8_e4m3fnuz"),
        ("value", E5M2, "float8_e4m3fn as key has, got float8_e5m2"),
        ("key_cache", E5M2, "float8_e4m3fn as key has, got float8_e5m2"),
        ("value_cache", np.int8, "float8_e4m3fn or float8_e5m2, got int8"),
        ("slot_mapping", np.int8, "int32 or int64, got int8"),
        ("slot_mapping", np.uint32, "int32 or int64, got uint32"),
        ("slot_mapping", ">i4", "int32 or int64, got >i4"),
        ("key_scale", np.float64, "float32, got float64"),
        ("key_scale_cache", ml_dtypes.bfloat16, "float32, got bfloat16"),
    ],
)
def test_dtypes_are_checked(name, dtype, expected):
    arguments = case([0, 1, 2], blocks=4, size=5)
    arguments[name] = np.zeros(arguments[name].shape, dtype)
    with pytest.raises(TypeError, match=f"^{name}: expected ") as error:
        run(arguments)
    assert expected in str(error.value)


def test_raw_bytes_are_told_how_to_become_fp8():
    arguments = case([0], blocks=1, size=1)
    arguments["value"] = arguments["value"].view(np.uint8)
    with pytest.raises(TypeError, match=r"\.view\(ml_dtypes\.float8_e4m3fn\)"):
        run(arguments)


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("other", [None, [0, 1]])
def test_only_arrays(name, other):
    arguments = case([0, 1], blocks=1, size=2) | {name: other}
    with pytest.raises(TypeError, match=f"^{name}: expected a NumPy array, got {type(other).__name__}$"):
        oracle.scatter_pa_kv_cache_with_k_scale(**arguments)
