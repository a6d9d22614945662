# SPDX-License-Identifier: Apache-2.0
"""Oracle of aclnnQkvRmsNormRopeCacheWithKScale, revision A."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np

from .arguments import Argument, Array, as_bits, check_arrays
from .bf16 import plain_nans
from .fp8 import to_e4m3fn
from .paged import dense_copy, row_numbers, write_rows
from .qkv_rows import LANES, angles_of, multiply, normalise, quantised, turn
from .qkv_values import check_batches, check_epsilon, check_head_nums, check_layouts, check_slots

_BF16 = (np.dtype(ml_dtypes.bfloat16),)
_FP8 = (np.dtype(ml_dtypes.float8_e4m3fn),)
_FP32 = (np.dtype(np.float32),)
_INT32 = (np.dtype(np.int32),)

_QKV_AXES = {"TND": "T Nq+Nk+Nv 128", "NTD": "Nq+Nk+Nv T 128"}
_ARGUMENTS = {
    "q_gamma": Argument("128", _FP32),
    "k_gamma": Argument("128", _FP32),
    "cos_sin": Argument("MaxSeqLen 128", _FP32),
    "slot_mapping": Argument("T", _INT32),
    "k_cache": Argument("BlockNum Nk BlockSize 128", _FP8),
    "v_cache": Argument("BlockNum Nv BlockSize 128", _FP8),
    "k_scale_cache": Argument("BlockNum Nk BlockSize 1", _FP32),
    "query_start_loc": Argument("B+1", _INT32),
    "seq_lens": Argument("B", _INT32),
    "rotation": Argument("128 128", _BF16),
    "v_scale": Argument("Nv", _FP32),
}

# Head rows (of 128 lanes) worked on together: few enough for float32 copies to stay in the CPU's cache, many enough for
# what a call into NumPy costs not to count.
_ROWS = 1024


class QkvResult(NamedTuple):
    """The outputs, and the three caches after the call: new, dense arrays."""

    q_out: Array
    q_scale: Array
    k_cache: Array
    v_cache: Array
    k_scale_cache: Array


class NonFiniteRow(NamedTuple):
    """A head row of qkv that holds a NaN or an infinity: `branch` is "q", "k" or "v", `head` counts within it."""

    token: int
    branch: str
    head: int


def qkv_rms_norm_rope_cache_with_k_scale(
    qkv: Array,
    q_gamma: Array,
    k_gamma: Array,
    cos_sin: Array,
    slot_mapping: Array,
    k_cache: Array,
    v_cache: Array,
    k_scale_cache: Array,
    query_start_loc: Array,
    seq_lens: Array,
    rotation: Array,
    v_scale: Array,
    *,
    head_nums: Sequence[int] | Array,
    layout_qkv: str | None = "TND",
    layout_q_out: str | None = "NTD",
    epsilon: float = 1e-6,
) -> QkvResult:
    """What aclnnQkvRmsNormRopeCacheWithKScale makes of its arguments, which stay as they are.

    ================  ================================  ==================================================
    argument          shape                             dtype and meaning
    ================  ================================  ==================================================
    qkv               [T, H, 128] (layout_qkv "TND")    bfloat16; H = Nq + Nk + Nv heads: all Q, K, V
                      or [H, T, 128] ("NTD")
    q_gamma, k_gamma  [128]                             float32
    cos_sin           [MaxSeqLen, 128]                  float32; columns 0..63 cosines, 64..127 sines
    slot_mapping      [T]                               int32, in tokens: slot = block * BlockSize + offset
    k_cache           [BlockNum, Nk, BlockSize, 128]    float8_e4m3fn
    v_cache           [BlockNum, Nv, BlockSize, 128]    float8_e4m3fn
    k_scale_cache     [BlockNum, Nk, BlockSize, 1]      float32
    query_start_loc   [B + 1]                           int32; batch b holds tokens query_start_loc[b] up to
                                                        query_start_loc[b + 1]
    seq_lens          [B]                               int32; tokens of the batch, history included
    rotation          [128, 128]                        bfloat16
    v_scale           [Nv]                              float32; multiplies
    ================  ================================  ==================================================

    Any strides. head_nums: the three integers Nq, Nk, Nv = Nk. Layouts: TND with TND, TND with NTD or NTD with NTD;
    None and "" stand for the defaults. q_out is float8_e4m3fn [T, Nq, 128] or [Nq, T, 128] and q_scale float32
    [T, Nq] or [Nq, T], by layout_q_out.

    The rule (the operator's documented order of roundings, restated), in float32 with every operation rounded by
    itself, for each token and each Q and K head row x:

    1. x to float32; s[i] = x[i]**2 + x[i + 64]**2 for i < 64; the sum of s as a binary tree over neighbours.
    2. root = sqrt(sum * (1 / 128) + epsilon); y = x / root, then times gamma.
    3. y[i] * cos[i] - y[i + 64] * sin[i] and y[i + 64] * cos[i] + y[i] * sin[i], from the table's row at the token's
       position, seq_lens[b] - L + (t - query_start_loc[b]) where batch b has L tokens.
    4. To bfloat16, nearest even, overflowing to infinity; times the rotation matrix with float32 sums.
    5. scale = max(abs(row)) / 448; the row over the scale, cast to E4M3FN (see `oracle.fp8`).

    V rows are multiplied by v_scale of their head and cast. K and V rows and K scales go to the caches at
    [slot // BlockSize, head, slot % BlockSize]. Nothing is put under the maximum: an all-zero row has scale 0 and
    bytes 0x00; a NaN or an infinity in a Q or K row makes the scale NaN and all bytes 0x00. Subnormals are kept (a
    device may flush them); in step 4 the order of the sums is not defined, so the last bits of a scale may differ.

    What a device leaves undefined is refused: slots out of range (negative ones too: the operator skips none) or
    twice, query_start_loc that does not start at 0, falls or does not end at T, seq_lens below the batch's tokens,
    positions behind the table, epsilon negative or not finite; and empty arguments, which CANN refuses as well.

    Needs less than 256 MiB beside arguments and results, for any T; gives no warnings.
    Raises TypeError for a dtype (or for what is no array), ValueError for the rest.
    """
    heads = check_head_nums(head_nums)
    from_layout, to_layout = check_layouts(layout_qkv, layout_q_out)
    eps = check_epsilon(epsilon)
    arguments = {
        "qkv": qkv,
        "q_gamma": q_gamma,
        "k_gamma": k_gamma,
        "cos_sin": cos_sin,
        "slot_mapping": slot_mapping,
        "k_cache": k_cache,
        "v_cache": v_cache,
        "k_scale_cache": k_scale_cache,
        "query_start_loc": query_start_loc,
        "seq_lens": seq_lens,
        "rotation": rotation,
        "v_scale": v_scale,
    }
    table = {"qkv": Argument(_QKV_AXES[from_layout], _BF16), **_ARGUMENTS}
    extents = check_arrays(
        arguments, table, dict(zip(("Nq", "Nk", "Nv"), heads, strict=True)) | {"Nq+Nk+Nv": sum(heads)}
    )
    for name, array in arguments.items():
        if array.size == 0:
            raise ValueError(
                f"{name}: expected no empty axis, got shape {array.shape}; the operator takes no empty tensor"
            )
    check_slots(slot_mapping, extents["BlockNum"], extents["BlockSize"])
    check_batches(query_start_loc, seq_lens, extents["T"], extents["MaxSeqLen"])

    tokens, (nq, nk, nv) = extents["T"], heads
    shape = (tokens, nq) if to_layout == "TND" else (nq, tokens)
    result = QkvResult(
        np.empty((*shape, LANES), _FP8[0]),
        np.empty(shape, np.float32),
        *(dense_copy(cache) for cache in (k_cache, v_cache, k_scale_cache)),
    )
    # All of these heads first.
    rows = np.asarray(qkv).swapaxes(0, 1) if from_layout == "TND" else np.asarray(qkv)
    q_out, q_scale = (as_bits(out).swapaxes(0, 1) if to_layout == "TND" else as_bits(out) for out in result[:2])
    gammas = plain_nans(q_gamma), plain_nans(k_gamma)
    weights = np.asarray(rotation).astype(np.float32)
    v_scales = np.asarray(v_scale)[:, np.newaxis, np.newaxis]

    slots, block_size = np.asarray(slot_mapping), extents["BlockSize"]

    with np.errstate(all="ignore"):
        for chunk in _chunks(tokens, nq + nk):
            x = rows[: nq + nk, chunk].astype(np.float32, order="C")
            scratch = np.empty_like(x)
            normalise(x, eps, scratch)
            for part, gamma in zip((x[:nq], x[nq:]), gammas, strict=True):
                part *= gamma
            positions = _positions(chunk, query_start_loc, seq_lens)
            turn(x, angles_of(plain_nans(np.asarray(cos_sin)[positions])), scratch)
            codes, scales = quantised(multiply(x, weights, scratch), x)
            q_out[:, chunk], q_scale[:, chunk] = as_bits(codes[:nq]), as_bits(scales[:nq])
            numbers = row_numbers(slots[chunk], nk, block_size)
            write_rows(result.k_cache, numbers, codes[nq:].swapaxes(0, 1))
            write_rows(result.k_scale_cache, numbers, scales[nq:, :, np.newaxis].swapaxes(0, 1))
        for chunk in _chunks(tokens, nv):
            v = to_e4m3fn(rows[nq + nk :, chunk].astype(np.float32) * v_scales)
            write_rows(result.v_cache, row_numbers(slots[chunk], nv, block_size), v.swapaxes(0, 1))
    return result


def non_finite_rows(qkv: Array, head_nums: Sequence[int] | Array, layout_qkv: str | None = "TND") -> list[NonFiniteRow]:
    """The head rows of qkv with a NaN or an infinity in them, by token and then by head.

    Outputs of such Q and K rows are scale NaN and bytes 0x00, those of V rows bytes 0x00, 0x7E or 0xFE; whoever
    compares outputs names these rows, since their agreement says little. Raises as the oracle does.
    """
    heads = check_head_nums(head_nums)
    layout, _ = check_layouts(layout_qkv, "NTD")
    extents = check_arrays({"qkv": qkv}, {"qkv": Argument(_QKV_AXES[layout], _BF16)}, {"Nq+Nk+Nv": sum(heads)})
    bits = as_bits(qkv) if layout == "TND" else as_bits(qkv).swapaxes(0, 1)
    names = [(branch, head) for branch, count in zip("qkv", heads, strict=True) for head in range(count)]
    found = []
    for chunk in _chunks(extents["T"], sum(heads)):
        # bfloat16 has eight exponent bits; all of them set means NaN or infinity.
        bad = ((bits[chunk] & 0x7F80) == 0x7F80).any(axis=-1)
        found += [NonFiniteRow(chunk.start + int(token), *names[head]) for token, head in np.argwhere(bad)]
    return found


def _chunks(tokens: int, heads: int) -> Iterator[slice]:
    step = max(1, _ROWS // heads)
    return (slice(start, min(start + step, tokens)) for start in range(0, tokens, step))


def _positions(chunk: slice, query_start_loc: Array, seq_lens: Array) -> Array:
    starts, lengths = np.asarray(query_start_loc, np.int64), np.asarray(seq_lens, np.int64)
    tokens = np.arange(chunk.start, chunk.stop)
    # The last batch that starts at or before the token: batches without tokens start where the next one does.
    batch = np.searchsorted(starts[:-1], tokens, side="right") - 1
    # Counted from the batch's end, which is history plus tokens.
    return lengths[batch] - (starts[batch + 1] - tokens)
