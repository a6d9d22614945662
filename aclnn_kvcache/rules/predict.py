# SPDX-License-Identifier: Apache-2.0
"""What CANN's phase 1 will do with a call that it accepts, from shapes, strides and attributes alone.

Paths and base sizes are those of CANN 9.1; the size of a copy in the workspace (rounded up to 512 bytes) is that of the
simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from aclnn_kvcache.layout import bounds
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as scatter
from aclnn_kvcache.rules.contracts import FIRST, NEWEST, contract
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.qkv_call import head_counts, token_count
from aclnn_kvcache.rules.rule import Call

QKV = "qkv_rms_norm_rope_cache_with_k_scale"

UNIT = 512
WORKSPACE = {scatter.CONTRACT.name: 16_777_728, QKV: 33_554_944}
"""Bytes that CANN asks for where it copies nothing."""
SCALES_HEAD = 32
"""Bytes that CANN adds to the scales which it keeps itself."""

INDEX_LIMIT = 2**31 - 1
WORD = 2**32

NOTHING, IN_PLACE, COPY = "nothing", "in place", "contiguous copy"


class Risk(NamedTuple):
    """A kind of call that CANN accepts and a session refuses."""

    id: str
    arguments: tuple[str, ...]
    expected: str
    source: str


_COPIES = "phase 1 of CANN copies strided tensors unless every last axis is dense"
_WORDS = "the kernel computes in 32 bits for few tokens"

RISKS: Mapping[str, tuple[Risk, ...]] = {
    scatter.CONTRACT.name: (
        *(
            Risk(f"whole_cache_copy.{name}", (name,), "CANN must not copy the cache whole and back", _COPIES)
            for name in scatter.CACHES
        ),
        Risk("index_width.slots", ("key_cache",), f"the cache must have at most {WORD} slots", _WORDS),
        *(
            Risk(f"index_width.{name}", (name,), f"the tensor must reach over at most {WORD} elements", _WORDS)
            for name in scatter.VIEWS
        ),
    ),
    QKV: (),
}
"""By the name of the method: all that ``Prediction.risks`` can hold."""


class Copy(NamedTuple):
    """A tensor that CANN copies whole into the workspace."""

    name: str
    nbytes: int
    written_back: bool
    """Whether the copy, and not the tensor, is what the kernel changes; it is copied back whole."""


class Prediction(NamedTuple):
    """What phase 1 will do. ``str()`` gives it as text."""

    operator: str
    answer: Finding | None
    """What CANN refuses the call for; then ``path`` is "nothing"."""
    path: str
    """"in place" (tensors are used through their strides), "contiguous copy" (those that are strided are copied, if any
    are), or "nothing" (no launch)."""
    reason: str
    """Why this path."""
    copies: tuple[Copy, ...]
    is_repeatable: bool
    """Whether aclSetAclOpExecutorRepeatable will accept the executor, if no identical call was cached before it."""
    repeatable_reason: str
    workspace: int
    """Bytes."""
    index_bits: int | None
    """In how many bits scatter's kernel computes offsets; None for the fused operator."""
    risks: tuple[Finding, ...]
    """What CANN accepts and goes wrong or costs dearly; status 0."""

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def predict(operator: str, call: Call, revision: str = FIRST) -> Prediction:
    """The prediction for a call of the operator, by the name of its method and the revision of the fused one. It is not
    checked but for CANN's answer."""
    findings = contract(operator, revision).check_layout(call)
    answer = next((finding for finding in findings if finding.status), None)
    if answer:
        return _without_launch(operator, answer, f"CANN answers {answer.status}")
    return _PREDICTORS[operator](operator, call)


def _without_launch(operator: str, answer: Finding | None, reason: str) -> Prediction:
    return Prediction(operator, answer, NOTHING, reason, (), False, "nothing is launched", 0, None, ())


def _scatter(operator: str, call: Call) -> Prediction:
    if scatter.short_cut(call):
        empty = ", ".join(name for name, spec in call.specs.items() if spec is not None and spec.is_empty)
        return _without_launch(operator, None, f"the call is empty ({empty}), so phase 2 launches nothing")
    specs = {name: call.spec(name) for name in scatter.NAMES}
    copies_all = scatter.takes_copy_path(call)
    strided = [name for name, spec in specs.items() if not spec.is_contiguous]
    copied = strided if copies_all else [name for name in strided if name == "slot_mapping"]
    copies = tuple(_copy(name, specs[name], name in scatter.CACHES) for name in copied)
    culprits = [f"{name} ({specs[name].strides[-1]})" for name in scatter.DENSE_LAST if specs[name].strides[-1] != 1]
    if not copies_all:
        reason = f"{' and '.join(name for name in strided if name != 'slot_mapping')} strided, every last axis is dense"
    elif culprits:
        reason = f"the stride of the last axis is not 1: {', '.join(culprits)}"
    else:
        reason = "all tensors are contiguous"
    wide = max(specs["key"].shape[2], specs["value"].shape[2]) * math.prod(specs["key"].shape[:2]) > INDEX_LIMIT
    risks = [*_whole_cache_copies(copies, culprits), *(() if wide else _narrow_indices(specs))]
    return Prediction(
        operator,
        None,
        COPY if copies_all else IN_PLACE,
        reason,
        copies,
        not copies_all,
        "on this path CANN copies the caches onto themselves, which rules it out" if copies_all else "views only",
        _workspace(operator, copies),
        64 if wide else 32,
        tuple(risks),
    )


def _qkv(operator: str, call: Call) -> Prediction:
    inputs = contract(operator, NEWEST).inputs
    specs = {name: spec for name, spec in call.specs.items() if spec is not None and name in inputs}
    copies = tuple(_copy(name, spec, False) for name, spec in specs.items() if not spec.is_contiguous)
    reason = "caches are used through their strides" + (", strided inputs are copied" if copies else "")
    workspace = _workspace(operator, copies)
    if call.specs["q_scale"] is None:  # in M-RoPE; the kernel writes the scales all the same
        workspace += _rounded(4 * token_count(call) * head_counts(call)[0] + SCALES_HEAD)
    return Prediction(operator, None, IN_PLACE, reason, copies, True, "views only", workspace, None, ())


_PREDICTORS: Mapping[str, Callable[[str, Call], Prediction]] = {
    scatter.CONTRACT.name: _scatter,
    QKV: _qkv,
}


def _copy(name: str, spec: TensorSpec, written_back: bool) -> Copy:
    # CANN accepted the call, so the dtype is one of NumPy's.
    return Copy(name, math.prod(max(extent, 0) for extent in spec.shape) * np.dtype(spec.dtype).itemsize, written_back)


def _workspace(operator: str, copies: Iterable[Copy]) -> int:
    return WORKSPACE[operator] + sum(_rounded(copy.nbytes) for copy in copies)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // UNIT) * UNIT


def _whole_cache_copies(copies: Iterable[Copy], culprits: Iterable[str]) -> Iterator[Finding]:
    for copy in copies:
        if copy.written_back:
            message = (
                f"{copy.name} would be copied whole ({copy.nbytes} bytes) into the workspace and back, losing "
                f"concurrent updates, because the stride of the last axis is not 1: {', '.join(culprits)}; make that "
                f"axis dense"
            )
            yield Finding(f"whole_cache_copy.{copy.name}", (copy.name,), message)


def _narrow_indices(specs: Mapping[str, TensorSpec]) -> Iterator[Finding]:
    """The kernel computes in 32 bits when T * N * max(Dk, Dv) is at most 2**31 - 1, whatever the cache's size."""
    blocks, _, block_size, _ = specs["key_cache"].shape
    slots = blocks * block_size
    if slots > WORD:
        message = f"key_cache has {slots} slots; with so few tokens the kernel computes slots in 32 bits"
        yield Finding("index_width.slots", ("key_cache",), f"{message}: use a cache of at most {WORD} slots")
    for name in scatter.VIEWS:
        reach = bounds(specs[name].shape, specs[name].strides)[1]
        if reach > WORD:
            message = (
                f"{name} reaches over {reach} elements; with so few tokens the kernel computes offsets in 32 bits and "
                f"would go to a wrong place. Use at most {WORD} elements, a slice of the cache for instance"
            )
            yield Finding(f"index_width.{name}", (name,), message)


def _lines(prediction: Prediction) -> Iterator[str]:
    path = "nothing to copy" if prediction.path == COPY and not prediction.copies else prediction.path
    yield f"{prediction.operator}: {path}, because {prediction.reason}"
    if prediction.answer:
        yield f"  refused: {prediction.answer.message}"
    for copy in prediction.copies:
        back = " and back" if copy.written_back else ""
        yield f"  copies: {copy.name}, {copy.nbytes} bytes into the workspace{back}"
    if prediction.path != NOTHING:
        verdict = "yes, unless an identical call ran before on the thread" if prediction.is_repeatable else "no"
        yield f"  repeatable executor: {verdict} ({prediction.repeatable_reason})"
    yield f"  workspace: {prediction.workspace} bytes"
    if prediction.index_bits:
        yield f"  kernel computes offsets in {prediction.index_bits} bits"
    for risk in prediction.risks:
        yield f"  risk: {risk.message}"
