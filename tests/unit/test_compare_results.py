# SPDX-License-Identifier: Apache-2.0
"""All results of a call at once: each by its rule, numbers and their scales together."""

import ml_dtypes
import numpy as np

from aclnn_kvcache.compare.results import compare_results

E4M3FN, E8M0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)
RULES, SCALES = {"k": "mx", "q": "int8"}, {"k": "k_scale", "q": "q_scale"}


def results():
    return {
        "k": np.full((2, 32), 0x38, np.uint8).view(E4M3FN),
        "k_scale": np.full((2, 1), 127, np.uint8).view(E8M0),
        "q": np.zeros((2, 4), np.int8),
        "q_scale": np.ones((2, 1), np.float32),
    }


def compared(actual, before=None):
    return dict(compare_results(actual, results(), before or {}, RULES, SCALES))


def test_each_has_its_rule_and_scales_of_pairs_are_no_result_of_their_own():
    found = compared(results())
    assert {name: comparison.rule for name, comparison in found.items()} == {"k": "mx", "q": "int8", "q_scale": "exact"}
    assert all(comparison.ok for comparison in found.values())


def test_numbers_and_scales_stand_for_their_products():
    """One doubled scale and halved numbers are the same; a doubled scale alone is not."""
    actual = results()
    actual["k_scale"].view(np.uint8)[1] = 128
    assert not compared(actual)["k"].ok
    actual["k"].view(np.uint8)[1] = 0x30
    assert compared(actual)["k"].ok


def test_what_was_there_before_counts_with_its_scales():
    before = {name: array.copy() for name, array in results().items() if name.startswith("k")}
    before["k_scale"].view(np.uint8)[0] = 7
    found = compared(results(), before)
    assert found["k"].counts == {"right": 1, "missing": 0, "wrong": 0, "stray": 0, "untouched": 1}
    assert set(found["q"].counts) == {"equal", "different"}
    actual = results()
    actual["q"][0, 0], actual["q"][1, 1], actual["q_scale"][0] = 1, -2, np.nextafter(np.float32(1), np.float32(2))
    found = compared(actual, before)
    assert [found[name].ok for name in ("k", "q", "q_scale")] == [True, False, False]
    assert found["q"].counts == {"equal": 1, "different": 1}
