# SPDX-License-Identifier: Apache-2.0
"""What only revision C of the fused operator asks: scenes by mode, kernels by dtype, limits of the kernel's copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from aclnn_kvcache.dtypes import FLOAT32, FP8_E8M0, name_of
from aclnn_kvcache.rules import qkv_memory as memory
from aclnn_kvcache.rules import qkv_shapes as shapes
from aclnn_kvcache.rules.families import decision, dtype_rules, has_dtype, rank_rules, wrong_dtype
from aclnn_kvcache.rules.qkv_call import (
    BATCHES,
    CACHES,
    DTYPES,
    MODES,
    POSITION,
    layouts_of,
    token_axis,
    token_count,
)
from aclnn_kvcache.rules.qkv_heads import rule
from aclnn_kvcache.rules.qkv_scenes import (
    MROPE,
    MX,
    ROPE,
    D,
    Scene,
    case_hint,
    has_position,
    intended,
    modes_of,
    only,
    positions_agree,
)
from aclnn_kvcache.rules.rule import Call, Rule, Unanswerable

SCENES = (ROPE, MROPE, MX)

MOST_TOKENS = 262_144
MOST_K_STRIDE, MOST_SCALE_STRIDE = 2**40 + 127, 2**32 + 3

KERNEL_TENSORS = ("k_cache", "q_out", "k_scale_cache")


def scene_of(call: Call) -> Scene:
    scene = intended(SCENES, call.specs, call.attributes)
    if modes_of(call) != scene.modes or positions_agree(call) is not scene.has_positions:
        raise Unanswerable
    return scene


def is_plain(call: Call) -> bool:
    return modes_of(call) == ROPE.modes and not has_position(call)


def scene_rule(number: str) -> Rule:
    expected = "mrope_position, q_quant_mode, k_quant_mode and the other arguments must belong to one scene"
    return rule("scene", (POSITION, *MODES), expected, number, _scene, "EZ0026")


def _scene(call: Call) -> Iterator[str]:
    positions_agree(call)
    scene = intended(SCENES, call.specs, call.attributes)
    wrong = list(_wrong_for(scene, call))
    if wrong:
        yield (
            f"mrope_position, q_quant_mode and k_quant_mode must make one of the scenes RoPE, M-RoPE and Mx with the "
            f"other arguments; for {scene.name} {'; '.join(wrong)}"
        )


def _wrong_for(scene: Scene, call: Call) -> Iterator[str]:
    for name, want, got in zip(MODES, scene.modes, modes_of(call), strict=True):
        if got != want:
            yield f"{name} must be {want!r}, got {got!r}{case_hint(got)}"
    if has_position(call) is not scene.has_positions:
        yield f"{POSITION} must be {'given' if scene.has_positions else 'None'}"
    # Where one of these is missing, an earlier decision says so.
    for name, is_taken in (*((name, not scene.has_positions) for name in BATCHES), ("rotation", scene.has_rotation)):
        if call.specs[name] is not None and not is_taken:
            yield f"{name} must be None"
    layouts = layouts_of(call)
    if scene.has_positions and layouts not in scene.layouts:
        yield f"layout_qkv and layout_q_out must be 'TND' and 'TND', got {layouts[0]!r} and {layouts[1]!r}"


def qkv_shape(call: Call) -> tuple[int, ...]:
    return call.shape("qkv", 3)


def qkv_size(number: str) -> Rule:
    return rule("size.qkv", ("qkv",), f"qkv must have tokens and head size {D}", number, _qkv, "EZ0009")


def _qkv(call: Call) -> Iterator[str]:
    shape = qkv_shape(call)
    tokens = shape[token_axis(call)]
    if tokens <= 0 or shape[2] != D:
        action = "; without tokens do not call the operator" if tokens == 0 else ""
        yield f"qkv must have tokens and head size {D}, got {list(shape)}{action}"


def kernel_rule(number: str) -> Rule:
    expected = "k_cache, q_out and k_scale_cache must have dtypes for which there is a kernel"
    return rule("kernel", KERNEL_TENSORS, expected, number, _kernel, "EZ1009")


def _has_kernel(call: Call) -> bool:
    specs = [call.spec(name) for name in KERNEL_TENSORS]
    return any(
        all(map(has_dtype, specs, ((dtype,) for dtype in kernel))) for kernel in (scene.kernel for scene in SCENES)
    )


def _kernel(call: Call) -> Iterator[str]:
    if _has_kernel(call):
        return
    try:
        scene = scene_of(call)
    except Unanswerable:
        known = "; ".join(f"{', '.join(map(name_of, known.kernel))} ({known.name})" for known in SCENES)
        got = ", ".join(name_of(call.spec(name).dtype) for name in KERNEL_TENSORS)
        yield f"k_cache, q_out and k_scale_cache must have dtypes for which there is a kernel: {known}; got {got}"
    else:
        wrong = "; ".join(
            message
            for name, dtype in zip(KERNEL_TENSORS, scene.kernel, strict=True)
            for message in wrong_dtype(name, (dtype,), call)
        )
        own = ", ".join(map(name_of, scene.kernel))
        yield f"{wrong} (in {scene.name}, where k_cache, q_out and k_scale_cache are {own})"


def _scene_with_kernel(call: Call) -> Scene:
    if not _has_kernel(call):
        raise Unanswerable
    return scene_of(call)


def scene_dtypes(number: str) -> Iterator[Rule]:
    """Tiling asks for k_cache and k_scale_cache once more, for a call that has the kernel of another scene."""
    source = decision(number)
    for name, scenes, dtype in (
        ("k_cache", (ROPE, MX), ROPE.k_cache),
        ("k_cache", (MROPE,), MROPE.k_cache),
        ("k_scale_cache", (ROPE, MROPE), FLOAT32),
        ("k_scale_cache", (MX,), FP8_E8M0),
    ):
        yield from only(_scene_with_kernel, scenes, dtype_rules({name: (dtype,)}, source, "EZ0019"))
    later = ("v_scale", "rotation", POSITION, *BATCHES)
    yield from dtype_rules({name: DTYPES[name] for name in later}, source, "EZ0019")


def scalar_rules(number: str) -> Iterator[Rule]:
    for name in CACHES:
        expected = f"{name} must have dimensions"
        yield rule(f"scalar.{name}", (name,), expected, number, partial(_scalar, name, expected), "EZ0028")


def _scalar(name: str, expected: str, call: Call) -> Iterator[str]:
    if call.spec(name).shape == ():
        yield f"{expected}, got none"


def ranks(by_name: dict[str, int], number: str, ez: str) -> Iterator[Rule]:
    """Of caches without any axis another rule speaks."""
    for row in rank_rules(by_name, number, ez):
        [name] = row.arguments
        yield row if name not in CACHES else row._replace(broken=partial(_axes, name, row.broken))


def _axes(name: str, broken: Callable[[Call], Iterable[str]], call: Call) -> Iterable[str]:
    return broken(call) if call.spec(name).shape else ()


def exact_shapes(rows: Iterable[shapes.Row], number: str, ez: str = "EZ0009") -> Iterator[Rule]:
    for row in rows:
        yield from shapes.shapes((row,), number, ez, partial(of_rank, len(row.extents)))


def of_rank(rank: int, call: Call, name: str) -> tuple[int, ...]:
    return call.shape(name, rank)


def two_starts(number: str) -> Rule:
    expected = "query_start_loc must have two values or more"
    return rule("batches", ("query_start_loc",), expected, number, _starts, "EZ0009")


def _starts(call: Call) -> Iterator[str]:
    shape = call.shape("query_start_loc", 1)
    if shape[0] < 2:
        yield f"query_start_loc must have at least two values, for one batch, got {list(shape)}"


def table_rows(number: str) -> Rule:
    return rule("rows.cos_sin", ("cos_sin",), "cos_sin must have rows", number, _table, "EZ0009")


def _table(call: Call) -> Iterator[str]:
    shape = call.shape("cos_sin", 2)
    if shape[0] <= 0:
        yield f"cos_sin must have rows, got {list(shape)}"


def cache_slots(number: str) -> Rule:
    expected = "k_cache must have blocks, and slots in them"
    return rule("slots.k_cache", ("k_cache",), expected, number, _slots, "EZ0009")


def _slots(call: Call) -> Iterator[str]:
    shape = call.shape("k_cache", 4)
    if shape[0] <= 0 or shape[2] <= 0:
        yield f"k_cache must have blocks, and slots in them, got {list(shape)}"


def few_tokens(number: str) -> Rule:
    expected = f"qkv must have at most {MOST_TOKENS} tokens"
    return rule("tokens.qkv", ("qkv",), expected, number, _tokens, "EZ0024")


def _tokens(call: Call) -> Iterator[str]:
    count = token_count(call)
    if count > MOST_TOKENS:
        yield f"qkv must have at most {MOST_TOKENS} tokens, got {count}; split the call"


def mx_strides(number: str) -> Rule:
    expected = "the head strides of k_cache and k_scale_cache must fit the kernel's copies"
    return rule("head_strides", ("k_cache", "k_scale_cache"), expected, number, _mx_strides, "EZ0027")


def _mx_strides(call: Call) -> Iterator[str]:
    k, scale = (memory.cache_strides(call, name)[1] for name in ("k_cache", "k_scale_cache"))
    if k > MOST_K_STRIDE or not 4 <= scale <= MOST_SCALE_STRIDE:
        yield (
            f"the head strides of k_cache and k_scale_cache must be at most {MOST_K_STRIDE}, and 4 to "
            f"{MOST_SCALE_STRIDE}, got {k} and {scale}"
        )


_B, _S = (partial(lambda axis, call: call.shape("k_cache", 4)[axis], axis) for axis in (0, 2))
_LIKE_K = "with BlockNum and BlockSize of k_cache"
V_CACHE = shapes.Row("v_cache", f"[BlockNum, Nk, BlockSize, D] {_LIKE_K}", (_B, shapes.OF_NK, _S, shapes.OF_D))


def k_scale_cache(scales: int) -> shapes.Row:
    extents = (_B, shapes.OF_NK, _S, shapes.fixed(scales))
    return shapes.Row("k_scale_cache", f"[BlockNum, Nk, BlockSize, {scales}] {_LIKE_K}", extents)
