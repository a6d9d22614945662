# SPDX-License-Identifier: Apache-2.0
"""The release of a runtime by the functions that it exports."""

from __future__ import annotations

import pytest

from aclnn_kvcache.runtime.release import SINCE, release_by_functions


class Runtime:
    def __init__(self, *names: str) -> None:
        self.exports = names.__contains__


@pytest.mark.parametrize(
    ("functions", "bounds"),
    [
        (0, ("", "8.5.0")),
        (1, ("8.5.0", "9.0.0")),
        (2, ("9.0.0", "9.1.0")),
        (3, ("9.1.0", "9.2.0-beta.1")),
        (4, ("9.2.0-beta.1", "the release after 9.2.0-beta.1")),
        (5, ("the release after 9.2.0-beta.1", "")),
    ],
)
def test_the_newest_function_decides(functions, bounds):
    assert release_by_functions(Runtime(*(name for _, name in SINCE[:functions]))) == bounds


def test_a_function_that_is_missing_in_between_does_not_count():
    assert release_by_functions(Runtime("aclrtMemsetD32")) == ("9.1.0", "9.2.0-beta.1")
