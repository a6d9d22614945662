# SPDX-License-Identifier: Apache-2.0
"""Oracle of aclnnScatterPaKvCacheWithKScale."""

from typing import NamedTuple

import ml_dtypes
import numpy as np

from .arguments import Argument, Array, as_bits, check_arrays, refuse_duplicates
from .paged import dense_copy, row_numbers, write_rows

_FP8 = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
_FP32 = (np.dtype(np.float32),)
_SLOTS = (np.dtype(np.int32), np.dtype(np.int64))

_ARGUMENTS = {
    "key": Argument("T N Dk", _FP8),
    "value": Argument("T N Dv", _FP8),
    "key_cache": Argument("B N S Dk", _FP8),
    "value_cache": Argument("B N S Dv", _FP8),
    "slot_mapping": Argument("T", _SLOTS),
    "key_scale": Argument("T N", _FP32),
    "key_scale_cache": Argument("B N S 1", _FP32),
}


class ScatterResult(NamedTuple):
    """The three caches after the call: new, dense arrays of the shapes and dtypes of those passed in."""

    key_cache: Array
    value_cache: Array
    key_scale_cache: Array


def scatter_pa_kv_cache_with_k_scale(
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    slot_mapping: Array,
    key_scale: Array,
    key_scale_cache: Array,
    *,
    cache_layout: str | None = None,
) -> ScatterResult:
    """The caches after aclnnScatterPaKvCacheWithKScale; the arguments stay as they are.

    ================  ============  ==================================================================
    argument          shape         dtype
    ================  ============  ==================================================================
    key               [T, N, Dk]    float8_e4m3fn or float8_e5m2 (of ml_dtypes), one for all four
    value             [T, N, Dv]    as key; Dv may differ from Dk
    key_cache         [B, N, S, Dk] as key
    value_cache       [B, N, S, Dv] as key
    slot_mapping      [T]           int32 or int64, in tokens: slot = block * S + offset
    key_scale         [T, N]        float32
    key_scale_cache   [B, N, S, 1]  float32
    ================  ============  ==================================================================

    T tokens, N heads, B blocks of S tokens, head sizes Dk and Dv. Any strides. cache_layout is ignored, as the
    operator ignores it.

    The rule (the operator's contract, restated): token t with slot s = slot_mapping[t], 0 <= s < B * S, replaces for
    every head n the rows key_cache[s // S, n, s % S], value_cache[s // S, n, s % S] and the entry
    key_scale_cache[s // S, n, s % S, 0]. Any other slot skips the token. Bytes move unchanged, NaN payloads included;
    V has no scale.

    There is no `padding` argument: -1 and every other slot out of range are skipped, as in the kernel, so that
    results can be compared on any slots; refusing them is the task of the session. Two remarks on that:

    * int64 slots of 2**32 and more are skipped, as the contract says, although a device may use their low 32 bits;
    * duplicate slots in range are refused, for the device's answer to them is undefined.

    Raises TypeError for a dtype (or for what is no array), ValueError for a shape or for duplicate slots.
    """
    arguments = {
        "key": key,
        "value": value,
        "key_cache": key_cache,
        "value_cache": value_cache,
        "slot_mapping": slot_mapping,
        "key_scale": key_scale,
        "key_scale_cache": key_scale_cache,
    }
    check_arrays(arguments, _ARGUMENTS)
    for name in ("value", "key_cache", "value_cache"):
        if arguments[name].dtype != key.dtype:
            raise TypeError(f"{name}: expected {key.dtype} as key has, got {arguments[name].dtype}")

    blocks, heads, block_size, _ = key_cache.shape
    slots = np.asarray(slot_mapping, np.int64)
    rows = np.flatnonzero((slots >= 0) & (slots < blocks * block_size))
    slots = slots[rows]
    refuse_duplicates(rows, slots, blocks, block_size)
    numbers = row_numbers(slots, heads, block_size)

    def scattered(cache: Array, tokens: Array) -> Array:
        result = dense_copy(cache)
        write_rows(result, numbers, tokens if rows.size == len(tokens) else as_bits(tokens)[rows])
        return result

    return ScatterResult(
        scattered(key_cache, key),
        scattered(value_cache, value),
        scattered(key_scale_cache, np.asarray(key_scale)[..., np.newaxis]),
    )
