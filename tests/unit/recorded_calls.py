# SPDX-License-Identifier: Apache-2.0
"""Recorded calls of CANN's phase 1 as arguments of ``check_call``, and what is wrong in them by other means than the
rules'."""

import gzip
import json
import math
import re
from pathlib import Path

import numpy as np

from aclnn_kvcache import TensorSpec

DATA = Path(__file__).parents[1] / "data"

# What CANN's messages call by other names than those of tensors.
ABOUT = {
    "D": "qkv",
    "totalTokens": "qkv",
    **dict.fromkeys(("Nq", "Nk", "Nv", "Nq+Nk", "Nq+Nk+Nv"), "head_nums"),
    "scene": "mrope_position",
}


DEFINED = {0, 1, 2, 16, 27, 30, 35, 47}
PRIVATE = {3, 4, 12, 29, 32, 33, 50, 51, 52, 53, 54}


def ours(name):
    """This package's name: keyCacheRef is key_cache, rotationOptional is rotation."""
    short = re.sub("(Ref|Optional)$", "", name)
    return ABOUT.get(name) or re.sub("(?<=[a-z])(?=[A-Z])", "_", short).lower().replace("_qout", "_q_out")


def recorded_calls(file):
    with gzip.open(DATA / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    # check_call knows no out-parameters.
    return [row for row in rows if not row["attrs"].keys() & {"nullWorkspaceSize", "nullExecutor"}]


def arguments_of(call):
    tensors = {
        ours(name): tensor
        and TensorSpec(
            tensor["shape"], tensor["dtype"], tensor["strides"], tensor["offset"], tensor["storage"], tensor["format"]
        )
        for name, tensor in call["tensors"].items()
    }
    return {**tensors, **{ours(name): value for name, value in call["attrs"].items()}}


class Line:
    """A tensor of a recorded line."""

    def __init__(self, tensor):
        self.shape, self.offset, self.format = tensor["shape"], tensor["offset"], tensor["format"]
        self.dense = tensor["strides"] is None
        suffixes = [math.prod(max(extent, 1) for extent in self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        self.strides = suffixes if self.dense else tensor["strides"]
        self.storage = math.prod(self.shape if tensor["storage"] is None else tensor["storage"])
        self.filled = all(extent > 0 for extent in self.shape)

    @property
    def places(self):
        """Where each element is."""
        places = np.array([self.offset])
        for extent, stride in zip(self.shape, self.strides, strict=True):
            places = np.add.outer(places, np.arange(extent) * stride)
        return places.ravel()

    @property
    def contiguous(self):
        if self.dense or not self.filled:
            return self.dense or 0 in self.shape
        return bool((np.diff(self.places) == 1).all())

    @property
    def outside(self):
        if not self.filled:
            return False
        if self.dense:
            return self.offset < 0 or self.offset + math.prod(self.shape) > self.storage
        return bool(self.places.min() < 0 or self.places.max() >= self.storage)

    @property
    def repeats(self):
        if self.dense or not self.filled:
            return False
        places = self.places
        return bool(np.bincount(places - places.min()).max() > 1)

    def backwards(self):
        return any(stride < 0 for stride in self.strides)
