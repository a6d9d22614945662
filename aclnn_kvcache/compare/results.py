# SPDX-License-Identifier: Apache-2.0
"""All results of a call at once, each by its rule; numbers and scales that mean something only together as pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aclnn_kvcache.compare import compare
from aclnn_kvcache.compare.report import Comparison
from aclnn_kvcache.compare.rules import Array


def compare_results(
    actual: Mapping[str, Array],
    expected: Mapping[str, Array],
    before: Mapping[str, Array],
    rules: Mapping[str, str],
    scales: Mapping[str, str],
) -> Iterator[tuple[str, Comparison]]:
    """Each of the actual results by name, and how it compares.

    ``before``: results as they were before the call, where they were. ``rules``: where they are not "exact".
    ``scales``: by the name of a result with rule "mx" that of its scales, which are not compared once more.
    """
    pairs = {name: scales[name] for name in actual if rules.get(name) == "mx"}
    for name, array in actual.items():
        if name in pairs.values():
            continue
        options: dict[str, Any] = {}
        if name in pairs:
            sides = [side for side in (actual, expected, before) if name in side]
            options["scale"] = [side[pairs[name]] for side in sides]
        rule = rules.get(name, "exact")
        yield name, compare(array, expected[name], rule, before=before.get(name), **options)
