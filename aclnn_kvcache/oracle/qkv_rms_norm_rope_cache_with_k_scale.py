# SPDX-License-Identifier: Apache-2.0
"""Oracle of aclnnQkvRmsNormRopeCacheWithKScale, revisions A, B and C."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .arguments import Argument, Array, as_bits, check_arrays
from .bf16 import plain_nans
from .fp8 import to_e4m3fn
from .paged import dense_copy, row_numbers, write_rows
from .qkv_positions import by_axes, by_batches
from .qkv_rows import LANES, angles_of, chunks, normalise
from .qkv_scene import BF16, QKV_AXES, Constants
from .qkv_scenes import choose_scene, pick_arguments
from .qkv_values import (
    check_batches,
    check_epsilon,
    check_head_nums,
    check_integers,
    check_layouts,
    check_positions,
    check_section,
    check_slots,
)


class QkvResult(NamedTuple):
    """The outputs, and the three caches after the call: new, dense arrays. q_scale is None in the scene M-RoPE."""

    q_out: Array
    q_scale: Array | None
    k_cache: Array
    v_cache: Array
    k_scale_cache: Array


def qkv_rms_norm_rope_cache_with_k_scale(
    qkv: Array,
    q_gamma: Array,
    k_gamma: Array,
    cos_sin: Array,
    slot_mapping: Array,
    k_cache: Array,
    v_cache: Array,
    k_scale_cache: Array,
    query_start_loc: Array | None,
    seq_lens: Array | None,
    rotation: Array | None,
    v_scale: Array,
    *,
    head_nums: Sequence[int] | Array,
    layout_qkv: str | None = "TND",
    layout_q_out: str | None = "NTD",
    epsilon: float = 1e-6,
    mrope_position: Array | None = None,
    mrope_section: Sequence[int] | Array | None = None,
    q_quant_mode: str | None = None,
    k_quant_mode: str | None = None,
) -> QkvResult:
    """What aclnnQkvRmsNormRopeCacheWithKScale makes of its arguments, which stay as they are.

    The scene follows from mrope_position, mrope_section and the modes: RoPE (every revision), M-RoPE (B and C), Mx (C).

    ================  ===========================  ==============================================================
    argument          RoPE                         M-RoPE, Mx (where it differs)
    ================  ===========================  ==============================================================
    qkv               bfloat16 [T, H, 128] or      [T, H, 128] only
                      [H, T, 128] (layout "NTD")   H = Nq + Nk + Nv heads: all Q, all K, all V
    q_gamma, k_gamma  float32 [128]
    cos_sin           float32 [MaxSeqLen, 128]     columns 0..63 cosines, 64..127 sines
    slot_mapping      int32 [T]                    in tokens: slot = block * BlockSize + offset
    k_cache           float8_e4m3fn                [BlockNum, Nk, BlockSize, 128]; int8 in M-RoPE
    v_cache           float8_e4m3fn                [BlockNum, Nv, BlockSize, 128]
    k_scale_cache     float32 [.., 1]              [BlockNum, Nk, BlockSize, 1]; float8_e8m0fnu [.., 4] in Mx
    query_start_loc   int32 [B + 1]                None; batch b holds tokens query_start_loc[b] up to [b + 1]
    seq_lens          int32 [B]                    None; tokens of the batch, history included
    rotation          bfloat16 [128, 128]          None in Mx
    v_scale           float32 [Nv]                 [Nv, 128]; multiplies
    mrope_position    None                         int32 [T, 3]: rows of cos_sin by time, height and width
    mrope_section     None or empty                [t, h, w], t + h + w <= 64, h and w <= 21
    head_nums         [Nq, Nk, Nv = Nk]            Nq = 8 * Nk
    layouts           TND with TND or NTD,         layout_qkv and layout_q_out both "TND"
                      NTD with NTD
    modes (Q, K)      both "PerTokenPerHead"       M-RoPE: "NoQuant", "PerTokenPerHead"; Mx: both "Mx"
    q_out (result)    float8_e4m3fn                bfloat16 in M-RoPE; [T, Nq, 128] or [Nq, T, 128] by layout_q_out
    q_scale (result)  float32, q_out without 128   M-RoPE: None; Mx: float8_e8m0fnu [T, Nq, 4]
    ================  ===========================  ==============================================================

    Any strides. Layouts None and "" stand for "TND" and "NTD", modes for "PerTokenPerHead".

    The rule (the operator's documented order of roundings, restated), in float32 with every operation rounded by
    itself, for each token and each Q and K head row x:

    1. x to float32; s[i] = x[i]**2 + x[i + 64]**2 for i < 64; the sum of s as a binary tree over neighbours.
    2. root = sqrt(sum * (1 / 128) + epsilon); y = x / root, then times gamma.
    3. y[i] * cos[i] - y[i + 64] * sin[i] and y[i + 64] * cos[i] + y[i] * sin[i], from the table's row at the token's
       position, seq_lens[b] - L + (t - query_start_loc[b]) where batch b has L tokens; in M-RoPE and Mx lane i takes
       the row of one of the token's three positions, for cosine and sine alike (see `oracle.qkv_positions`).
    4. To bfloat16, nearest even, overflowing to infinity; times the rotation matrix with float32 sums.
    5. RoPE: scale = max(abs(row)) / 448; the row over the scale, cast to E4M3FN (see `oracle.fp8`).
       M-RoPE, K: scale = max(abs(row)) / 127; the row over the scale, cast to FP16 and then to INT8 (`oracle.int8`).
       M-RoPE, Q: to bfloat16, nearest even.

    Mx leaves out steps 4 and 5: each block of 32 channels gets the scale 2**e that `oracle.e8m0` says, and its numbers
    times 2**-e are cast to E4M3FN. Step 2 is without gamma, which multiplies the cosines and sines first. The device
    has two orders: this one, row by row, and one for batches of rows that turns x itself and brings 1 / root into the
    maximum and the factor; which rows take which depends on the number of heads. They differ in the last bits of
    float32, hence in single codes, and in a scale where the largest number is next to 448 * 2**e.

    V rows are multiplied by v_scale of their head (M-RoPE, Mx: head and channel) and cast to E4M3FN. K and V rows and
    K scales go to the caches at [slot // BlockSize, head, slot % BlockSize].

    Special rows. Nothing is put under the maximum: an all-zero row has scale 0 (Mx: 2**-127) and zeros. A NaN or an
    infinity in a Q or K row makes scale and row NaN; NaN is cast to 0. In Mx that holds for each block with a NaN or an
    infinity by itself: scale 0xFF, all 32 bytes 0x00. For Q of M-RoPE the specification leaves NaN and infinities open,
    since they depend on a control bit that the kernel does not set; here, as in its default state, NaN becomes 0 and
    what is too large for bfloat16 its largest number. Subnormals are kept (a device may flush them); in step 4 the
    order of the sums is not defined, so the last bits of a scale may differ.

    What a device leaves undefined is refused: slots out of range (negative ones too: the operator skips none) or
    twice, query_start_loc that does not start at 0, falls or does not end at T, seq_lens below the batch's tokens,
    positions that are no row of the table, epsilon negative or not finite; and empty arguments, which CANN refuses as
    well. Other limits of a revision, of head counts say, are not asked for here.

    Needs less than 256 MiB beside arguments and results, for any T; gives no warnings.
    Raises TypeError for a dtype (or for what is no array), ValueError for the rest.
    """
    section = [] if mrope_section is None else check_integers("mrope_section", mrope_section)
    scene = choose_scene(mrope_position, section, q_quant_mode, k_quant_mode)
    nq, nk, nv = check_head_nums(head_nums, scene.q_per_k)
    from_layout, to_layout = check_layouts(layout_qkv, layout_q_out, scene.layouts)
    eps = check_epsilon(epsilon)
    tensors = {
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
        "mrope_position": mrope_position,
        "v_scale": v_scale,
    }
    arguments = {"qkv": qkv, **pick_arguments(scene, tensors)}
    table = {"qkv": Argument(QKV_AXES[from_layout], (BF16,)), **scene.arguments}
    extents = check_arrays(arguments, table, {"Nq": nq, "Nk": nk, "Nv": nv, "Nq+Nk+Nv": nq + nk + nv})
    for name, array in arguments.items():
        if array.size == 0:
            raise ValueError(
                f"{name}: expected no empty axis, got shape {array.shape}; the operator takes no empty tensor"
            )
    given = {name: np.asarray(array) for name, array in arguments.items()}
    tokens, block_size, table_rows = (extents[name] for name in ("T", "BlockSize", "MaxSeqLen"))
    slots = given["slot_mapping"]
    check_slots(slots, extents["BlockNum"], block_size)
    if "mrope_position" in given:
        check_positions(given["mrope_position"], table_rows)
        lookup = by_axes(given["cos_sin"], given["mrope_position"], check_section(section))
    else:
        check_batches(given["query_start_loc"], given["seq_lens"], tokens, table_rows)
        lookup = by_batches(given["cos_sin"], given["query_start_loc"], given["seq_lens"])

    shape = (tokens, nq) if to_layout == "TND" else (nq, tokens)
    result = QkvResult(
        np.empty((*shape, LANES), scene.q_out),
        None if scene.q_scale is None else np.empty((*shape, *scene.q_scale[1]), scene.q_scale[0]),
        *(dense_copy(given[name]) for name in ("k_cache", "v_cache", "k_scale_cache")),
    )
    # From here on the heads come first.
    rows = given["qkv"].swapaxes(0, 1) if from_layout == "TND" else given["qkv"]
    weights = given["rotation"].astype(np.float32) if "rotation" in given else None
    constants = Constants((plain_nans(given["q_gamma"]), plain_nans(given["k_gamma"])), weights, nq)
    v_scales = given["v_scale"].reshape(nv, 1, -1)

    with np.errstate(all="ignore"):
        for chunk in chunks(tokens, nq + nk):
            x = rows[: nq + nk, chunk].astype(np.float32, order="C")
            scratch = np.empty_like(x)
            normalise(x, eps, scratch)
            made = scene.finish(x, angles_of(plain_nans(lookup(chunk))), constants, scratch)
            for out, values in ((result.q_out, made.q), (result.q_scale, made.q_scale)):
                if out is not None and values is not None:
                    out = as_bits(out) if to_layout == "NTD" else as_bits(out).swapaxes(0, 1)
                    out[:, chunk] = as_bits(values)
            numbers = row_numbers(slots[chunk], nk, block_size)
            write_rows(result.k_cache, numbers, made.k.swapaxes(0, 1))
            write_rows(result.k_scale_cache, numbers, made.k_scale.swapaxes(0, 1))
        for chunk in chunks(tokens, nv):
            v = to_e4m3fn(rows[nq + nk :, chunk].astype(np.float32) * v_scales)
            write_rows(result.v_cache, row_numbers(slots[chunk], nv, block_size), v.swapaxes(0, 1))
    return result
