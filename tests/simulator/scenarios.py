# SPDX-License-Identifier: Apache-2.0
"""What programs do with a session, small and the same every time: for tests that do it under hard conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import aclnn_kvcache as kv
from aclnn_kvcache.smoke.runner import run_cases

HEADS = (2, 1, 1)
Arrays = dict[str, Any]


def scatter_arrays() -> Arrays:
    """T=3, N=1, B=2, S=4, D=8."""
    rng = np.random.default_rng(0)
    shapes = {"key": (3, 1, 8), "value": (3, 1, 8), "key_cache": (2, 1, 4, 8), "value_cache": (2, 1, 4, 8)}
    made: Arrays = {
        name: rng.integers(0, 256, shape, np.uint8).view(ml_dtypes.float8_e4m3fn) for name, shape in shapes.items()
    }
    made["slot_mapping"] = np.array([0, 6, 3], np.int32)
    made["key_scale"] = np.arange(3, dtype=np.float32)[:, None]
    return made | {"key_scale_cache": np.full((2, 1, 4, 1), -1, np.float32)}


def fused_arrays() -> Arrays:
    """T=2, heads 2, 1, 1, B=2, S=4; all that is written is given, so that it can be seen to stay as it is."""
    rng, fp8 = np.random.default_rng(0), ml_dtypes.float8_e4m3fn
    angles = np.arange(8)[:, None] / 10000 ** (np.arange(64) / 64)
    return {
        "qkv": rng.standard_normal((2, sum(HEADS), 128)).astype(ml_dtypes.bfloat16),
        "q_gamma": np.ones(128, np.float32),
        "k_gamma": np.ones(128, np.float32),
        "cos_sin": np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32),
        "slot_mapping": np.array([6, 3], np.int32),
        "k_cache": np.full((2, 1, 4, 128), 0xAA, np.uint8).view(fp8),
        "v_cache": np.full((2, 1, 4, 128), 0x55, np.uint8).view(fp8),
        "k_scale_cache": np.full((2, 1, 4, 1), -1, np.float32),
        "query_start_loc": np.array([0, 2], np.int32),
        "seq_lens": np.array([2], np.int32),
        "rotation": np.eye(128).astype(ml_dtypes.bfloat16),
        "v_scale": np.array([1.5], np.float32),
        "q_out": np.full((2, 2, 128), 0x33, np.uint8).view(fp8),
        "q_scale": np.full((2, 2), -1, np.float32),
    }


def scatter(session: kv.Session, arrays: Arrays, **options: Any) -> None:
    session.scatter_pa_kv_cache_with_k_scale(**arrays, **options)


def fused(session: kv.Session, arrays: Arrays, **options: Any) -> None:
    session.qkv_rms_norm_rope_cache_with_k_scale(**arrays, head_nums=HEADS, layout_q_out="TND", **options)


@contextmanager
def on_device(session: kv.Session, arrays: Arrays) -> Iterator[Arrays]:
    """Device copies; what became of them is fetched before any array is changed, if nothing fails."""
    copies = {name: session.array(array) for name, array in arrays.items()}
    yield copies
    results = {name: copy.numpy() for name, copy in copies.items()}
    for name, result in results.items():
        arrays[name][...] = result
    for copy in copies.values():
        copy.close()


def device_scatter(session: kv.Session, arrays: Arrays) -> None:
    with on_device(session, arrays) as copies:
        scatter(session, copies)


def device_fused(session: kv.Session, arrays: Arrays) -> None:
    with on_device(session, arrays) as copies:
        fused(session, copies)


def two_streams(session: kv.Session, arrays: Arrays) -> None:
    """The second stream waits for an event behind the call on the first, and makes the call again."""
    second, start, end = session.create_stream(), session.create_event(), session.create_event()
    with on_device(session, arrays) as copies:
        start.record(session.stream)
        scatter(session, copies)
        end.record(session.stream)
        second.wait(end)
        scatter(session, copies, stream=second)
        second.synchronize()
        end.synchronize()
        assert (end.query(), second.query()) == (True, True)
        assert end.elapsed_ms(start) >= 0
    second.close()
    start.close()
    end.close()


def many_calls(session: kv.Session, arrays: Arrays) -> None:
    """A stream that is not synchronised records an event of its own, and later again."""
    with on_device(session, arrays) as copies:
        for _ in range(2):
            scatter(session, copies)
            scatter(session, copies)
            session.stream.synchronize()


def transfer(session: kv.Session, arrays: Arrays) -> None:
    """Upload, views, read-back."""
    array = session.array(arrays["value"])
    back = array[1:, :, ::2].numpy()
    empty = session.empty((4, 5), np.int32)
    arrays["key_cache"][0, 0, :2, :4] = back[:, 0]
    array.close()
    empty.close()


class Told(kv.KvCacheError):
    """The smoke test says that a case failed, which is all that it says."""


def smoke(session: kv.Session, arrays: Arrays) -> None:
    (result,) = run_cases(session, ["small-heads"], 0, lambda: 60.0, "aclnn-kvcache smoke")
    if result.verdict != "pass":
        raise Told(f"{result.verdict}: {result.detail}")


def left_open(session: kv.Session, arrays: Arrays) -> None:
    """What is left to the close."""
    session.kept = session.array(arrays["key"]), session.create_event(), session.create_stream()  # type: ignore[attr-defined]


class Scenario(NamedTuple):
    act: Callable[[kv.Session, Arrays], None]
    arrays: Callable[[], Arrays] = scatter_arrays
    blocking: bool = False
    records: bool = False
    foreign: bool = False
    """A context of somebody else's is bound to the thread; it must be put back."""


SCENARIOS = {
    "session": Scenario(left_open),
    "host scatter": Scenario(scatter),
    "host fused": Scenario(fused, fused_arrays),
    "device scatter": Scenario(device_scatter),
    "device fused": Scenario(device_fused, fused_arrays),
    "two streams": Scenario(two_streams),
    "many calls": Scenario(many_calls),
    "transfer": Scenario(transfer),
    "foreign context": Scenario(scatter, foreign=True),
    "recording": Scenario(scatter, records=True),
    "blocking": Scenario(device_scatter, blocking=True),
    "smoke": Scenario(smoke),
}
