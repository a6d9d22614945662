# SPDX-License-Identifier: Apache-2.0
"""Revision C of the fused operator: RoPE, M-RoPE and Mx. Its rules in CANN's order, decisions 2 to 44."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from aclnn_kvcache.dtypes import FLOAT32, FP8_E8M0, name_of
from aclnn_kvcache.rules import qkv_heads as heads
from aclnn_kvcache.rules import qkv_memory as memory
from aclnn_kvcache.rules import qkv_shapes as shapes
from aclnn_kvcache.rules.families import (
    decision,
    dtype_rules,
    format_rules,
    has_dtype,
    rank_rules,
    required_rules,
    where,
)
from aclnn_kvcache.rules.qkv_call import (
    CACHES,
    DTYPES,
    FRONT,
    LAYOUT_NAMES,
    MODES,
    OUTPUTS,
    POSITION,
    layouts_of,
    token_axis,
    token_count,
)
from aclnn_kvcache.rules.qkv_positions import must_be_absent, pair_rule, section_length, section_values
from aclnn_kvcache.rules.qkv_revision_b import BATCHES, INPUTS, TENSORS
from aclnn_kvcache.rules.qkv_scenes import (
    MROPE,
    MX,
    NO_QUANT,
    PER_TOKEN_PER_HEAD,
    ROPE,
    D,
    Scene,
    has_position,
    intended,
    modes_of,
    only,
    positions_agree,
)
from aclnn_kvcache.rules.rule import INVALID, Call, Rule, Unanswerable

SCENES = (ROPE, MROPE, MX)
PARAMETERS = (*TENSORS[:-2], "head_nums", *LAYOUT_NAMES, "epsilon", "mrope_section", *MODES, *OUTPUTS)

MOST_TOKENS = 262_144
MOST_K_STRIDE, MOST_SCALE_STRIDE = 2**40 + 127, 2**32 + 3
FOUR_APART: memory.Least = (1, 1, 4)
"""Strides of a cache with four scales a row."""

KERNELS = tuple((scene.k_cache, scene.q_out, scene.scale) for scene in SCENES)
KERNEL_TENSORS = ("k_cache", "q_out", "k_scale_cache")


def scene_of(call: Call) -> Scene:
    scene = intended(SCENES, call.specs, call.attributes)
    if modes_of(call) != scene.modes or positions_agree(call) is not scene.has_positions:
        raise Unanswerable
    return scene


def _is_plain(call: Call) -> bool:
    return modes_of(call) == ROPE.modes and not has_position(call)


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
            yield f"{name} must be {want!r}, got {got!r}"
    for name, wanted in (
        (POSITION, scene.has_positions),
        *((name, not scene.has_positions) for name in BATCHES),
        ("rotation", scene.has_rotation),
    ):
        if (call.specs[name] is not None) is not wanted:
            yield f"{name} must be {'given' if wanted else 'None'}"
    layouts = layouts_of(call)
    if scene.has_positions and layouts not in scene.layouts:
        yield f"layout_qkv and layout_q_out must be 'TND' and 'TND', got {layouts[0]!r} and {layouts[1]!r}"


def _qkv_shape(call: Call) -> tuple[int, ...]:
    return call.shape("qkv", 3)


def _qkv(call: Call) -> Iterator[str]:
    shape = _qkv_shape(call)
    if shape[token_axis(call)] <= 0 or shape[2] != D:
        yield f"qkv must have tokens and head size {D}, got {list(shape)}; without tokens do not call the operator"


def _has_kernel(call: Call) -> bool:
    specs = [call.spec(name) for name in KERNEL_TENSORS]
    return any(all(map(has_dtype, specs, ((dtype,) for dtype in kernel))) for kernel in KERNELS)


def _kernel(call: Call) -> Iterator[str]:
    if not _has_kernel(call):
        known = "; ".join(
            f"{', '.join(map(name_of, kernel))} ({scene.name})" for scene, kernel in zip(SCENES, KERNELS, strict=True)
        )
        got = ", ".join(name_of(call.spec(name).dtype) for name in KERNEL_TENSORS)
        yield f"k_cache, q_out and k_scale_cache must have dtypes for which there is a kernel: {known}; got {got}"


def _scene_dtypes() -> Iterator[Rule]:
    """Tiling asks for k_cache and k_scale_cache once more, for a call that has the kernel of another scene."""
    source = decision("33")
    for name, scenes, dtype in (
        ("k_cache", (ROPE, MX), ROPE.k_cache),
        ("k_cache", (MROPE,), MROPE.k_cache),
        ("k_scale_cache", (ROPE, MROPE), FLOAT32),
        ("k_scale_cache", (MX,), FP8_E8M0),
    ):
        rules = where(_has_kernel, "by its kernel", dtype_rules({name: (dtype,)}, source, "EZ0019"))
        yield from only(scene_of, scenes, rules)
    later = ("v_scale", "rotation", POSITION, *BATCHES)
    yield from dtype_rules({name: DTYPES[name] for name in later}, source, "EZ0019")


def _scalar_rules() -> Iterator[Rule]:
    for name in CACHES:
        expected = f"{name} must have dimensions"
        yield heads.rule(f"scalar.{name}", (name,), expected, "20", partial(_scalar, name, expected), "EZ0028")


def _scalar(name: str, expected: str, call: Call) -> Iterator[str]:
    if call.spec(name).shape == ():
        yield f"{expected}, got none"


def _ranks(ranks: dict[str, int], number: str, ez: str) -> Iterator[Rule]:
    """Of caches without any axis another rule speaks."""
    for rule in rank_rules(ranks, number, ez):
        [name] = rule.arguments
        yield rule if name not in CACHES else rule._replace(broken=partial(_axes, name, rule.broken))


def _axes(name: str, broken: Callable[[Call], Iterable[str]], call: Call) -> Iterable[str]:
    return broken(call) if call.spec(name).shape else ()


def _shapes(rows: Iterable[shapes.Row], number: str, ez: str = "EZ0009") -> Iterator[Rule]:
    for row in rows:
        yield from shapes.shapes((row,), number, ez, partial(_of_rank, len(row.extents)))


def _of_rank(rank: int, call: Call, name: str) -> tuple[int, ...]:
    return call.shape(name, rank)


def _starts(call: Call) -> Iterator[str]:
    shape = call.shape("query_start_loc", 1)
    if shape[0] < 2:
        yield f"query_start_loc must have at least two values, for one batch, got {list(shape)}"


def _table(call: Call) -> Iterator[str]:
    shape = call.shape("cos_sin", 2)
    if shape[0] <= 0:
        yield f"cos_sin must have rows, got {list(shape)}"


def _slots(call: Call) -> Iterator[str]:
    shape = call.shape("k_cache", 4)
    if shape[0] <= 0 or shape[2] <= 0:
        yield f"k_cache must have blocks, and slots in them, got {list(shape)}"


def _tokens(call: Call) -> Iterator[str]:
    count = token_count(call)
    if count > MOST_TOKENS:
        yield f"qkv must have at most {MOST_TOKENS} tokens, got {count}; split the call"


def _mx_strides(call: Call) -> Iterator[str]:
    k, scale = (memory.cache_strides(call, name)[1] for name in ("k_cache", "k_scale_cache"))
    if k > MOST_K_STRIDE or not 4 <= scale <= MOST_SCALE_STRIDE:
        yield (
            f"the head strides of k_cache and k_scale_cache must be at most {MOST_K_STRIDE}, and 4 to "
            f"{MOST_SCALE_STRIDE}, got {k} and {scale}"
        )


_B, _S = (partial(lambda axis, call: call.shape("k_cache", 4)[axis], axis) for axis in (0, 2))
_LIKE_K = "with BlockNum and BlockSize of k_cache"
_V_CACHE = shapes.Row("v_cache", f"[BlockNum, Nk, BlockSize, D] {_LIKE_K}", (_B, shapes.OF_NK, _S, shapes.OF_D))


def _k_scale_cache(scales: int) -> shapes.Row:
    extents = (_B, shapes.OF_NK, _S, shapes.fixed(scales))
    return shapes.Row("k_scale_cache", f"[BlockNum, Nk, BlockSize, {scales}] {_LIKE_K}", extents)


_QUANTISED = "unless q_quant_mode is NoQuant"
_UNSEEN_Q_OUT = "CANN does not look at outputs here; the kernel would write past one that is too small"
_UNSEEN_Q_SCALE = "CANN does not look, as long as the kernel package calls q_scale optional"

LAYOUT_RULES: tuple[Rule, ...] = (
    *required_rules((*FRONT, "v_scale", "head_nums", "q_out"), "EZ0026"),
    *where(_is_plain, "in RoPE", required_rules(BATCHES, "EZ0026", "3")),
    *where(
        lambda call: _is_plain(call) or modes_of(call)[0] == NO_QUANT,
        "in RoPE and M-RoPE",
        required_rules(("rotation",), "EZ0026", "4"),
    ),
    *where(lambda call: modes_of(call)[0] == NO_QUANT, "in M-RoPE", [must_be_absent(("q_scale",), "5")]),
    *where(
        lambda call: modes_of(call)[0] in (PER_TOKEN_PER_HEAD, MX.q_quant_mode),
        _QUANTISED,
        required_rules(("q_scale",), "EZ0026", "6"),
    ),
    *memory.place_rules(INPUTS, ("7", "8"), memory.copied_outside),
    heads.three_counts("9"),
    heads.counts_in_one("10"),
    heads.known_layout("layout_qkv", "11", "EZ0024"),
    heads.known_layout("layout_q_out", "12", "EZ0024"),
    heads.layout_pair("13"),
    pair_rule("14"),
    heads.rule(
        "scene",
        (POSITION, *MODES),
        "mrope_position, q_quant_mode, k_quant_mode and the other arguments must belong to one scene",
        "15",
        _scene,
        "EZ0026",
    ),
    heads.qkv_rank("16"),
    heads.rule("size.qkv", ("qkv",), f"qkv must have tokens and head size {D}", "17", _qkv, "EZ0009"),
    heads.qkv_heads("18", _qkv_shape),
    *dtype_rules({name: DTYPES[name] for name in FRONT if name in DTYPES}, decision("19"), "EZ1009"),
    heads.rule(
        "kernel",
        KERNEL_TENSORS,
        "k_cache, q_out and k_scale_cache must have dtypes for which there is a kernel",
        "19",
        _kernel,
        "EZ1009",
    ),
    *_scalar_rules(),
    *_ranks({"cos_sin": 2, "query_start_loc": 1}, "21", "EZ0011"),
    heads.rule(
        "batches", ("query_start_loc",), "query_start_loc must have two values or more", "23", _starts, "EZ0009"
    ),
    *_ranks({"seq_lens": 1}, "24", "EZ0011"),
    *_shapes((shapes.SEQ_LENS._replace(others=("query_start_loc",)),), "25", "EZ0010"),
    *_ranks({POSITION: 2}, "26", "EZ0011"),
    *_ranks({"k_cache": 4}, "27", "EZ0011"),
    heads.rule("rows.cos_sin", ("cos_sin",), "cos_sin must have rows", "28", _table, "EZ0009"),
    heads.rule("slots.k_cache", ("k_cache",), "k_cache must have blocks, and slots in them", "29", _slots, "EZ0009"),
    section_length("30"),
    section_values("31", with_length=False),
    heads.rule("tokens.qkv", ("qkv",), f"qkv must have at most {MOST_TOKENS} tokens", "32", _tokens, "EZ0024"),
    *_scene_dtypes(),
    *_ranks({"q_gamma": 1, "k_gamma": 1, "slot_mapping": 1, "rotation": 2}, "34", "EZ0012"),
    *only(scene_of, (ROPE,), _ranks({"v_scale": 1}, "34", "EZ0012")),
    *only(scene_of, (MROPE, MX), _ranks({"v_scale": 2}, "34", "EZ0012")),
    shapes.gammas("35", partial(_of_rank, 1)),
    *_shapes((shapes.COS_SIN, shapes.SLOT_MAPPING, shapes.MROPE_POSITION, shapes.ROTATION), "36"),
    *only(scene_of, (ROPE,), _shapes((shapes.V_SCALE,), "36")),
    *only(scene_of, (MROPE, MX), _shapes((shapes.V_SCALE_BY_CHANNEL,), "36")),
    *_ranks({"v_cache": 4, "k_scale_cache": 4}, "37", "EZ0012"),
    *_shapes((shapes.K_CACHE, _V_CACHE), "38", "EZ0008"),
    *only(scene_of, (ROPE, MROPE), _shapes((_k_scale_cache(1),), "38", "EZ0008")),
    *only(scene_of, (MX,), _shapes((_k_scale_cache(4),), "38", "EZ0008")),
    *memory.stride_rules("k_cache", memory.ROWS_APART, "39", INVALID),
    *memory.stride_rules("v_cache", memory.ROWS_APART, "39", INVALID),
    memory.same_strides("40", INVALID),
    *memory.nested_rules(("k_cache", "v_cache"), "41"),
    *only(scene_of, (ROPE, MROPE), memory.stride_rules("k_scale_cache", memory.ABOVE_0, "42", INVALID)),
    *only(scene_of, (MX,), memory.stride_rules("k_scale_cache", FOUR_APART, "42", INVALID)),
    *memory.nested_rules(("k_scale_cache",), "43"),
    *only(
        scene_of,
        (MX,),
        [
            heads.rule(
                "head_strides",
                ("k_cache", "k_scale_cache"),
                "the head strides of k_cache and k_scale_cache must fit the kernel's copies",
                "44",
                _mx_strides,
                "EZ0027",
            )
        ],
    ),
    *shapes.own_shapes((shapes.Q_OUT,), _UNSEEN_Q_OUT),
    *only(scene_of, (ROPE,), shapes.own_shapes((shapes.Q_SCALE,), _UNSEEN_Q_OUT)),
    *only(scene_of, (MX,), shapes.own_shapes((shapes.Q_SCALE_BY_BLOCK,), _UNSEEN_Q_OUT)),
    *only(scene_of, (ROPE,), dtype_rules({"q_scale": (FLOAT32,)}, _UNSEEN_Q_SCALE, None, 0)),
    *only(scene_of, (MX,), dtype_rules({"q_scale": (FP8_E8M0,)}, _UNSEEN_Q_SCALE, None, 0)),
    *format_rules(TENSORS, "CANN does not look at formats here"),
    *memory.own_rules(INPUTS),
)
