# SPDX-License-Identifier: Apache-2.0
"""Rules about memory: what an operator writes shares no byte with anything else it uses, nor with itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aclnn_kvcache.layout import overlaps_itself, share_memory
from aclnn_kvcache.rules.finding import Finding


def check_overlap(arrays: Mapping[str, np.ndarray[Any, Any]], written: Sequence[str]) -> Iterator[Finding]:
    """Findings for the written arrays. The arrays may be phantoms of device memory: no element is read."""
    for position, name in enumerate(written):
        if overlaps_itself(arrays[name]):
            strides = list(arrays[name].strides)
            message = (
                f"{name} reaches some bytes through more than one index (strides of {strides} bytes); pass a real array"
            )
            yield Finding("self_overlap", (name,), message)
        others = [other for other in arrays if other not in written[: position + 1]]
        for other in others:
            if share_memory(arrays[name], arrays[other]):
                message = f"{name}, which is written, shares memory with {other}; the result would depend on the order"
                yield Finding("overlap", (name, other), message)
