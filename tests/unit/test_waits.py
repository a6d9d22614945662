# SPDX-License-Identifier: Apache-2.0
"""Waits of any length are native waits of at most a second, between which Python handles signals."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aclnn_kvcache.errors import SynchronizeTimeoutError
from aclnn_kvcache.runtime.event import wait


class Hanging:
    """A device whose work is done in the native wait of this number."""

    def __init__(self, done: int) -> None:
        self.done = done
        self.waits: list[int] = []

    def call(self, api: str, handle: int, milliseconds: int) -> None:
        assert (api, handle) == ("aclrtSynchronizeStreamWithTimeout", 7)
        self.waits.append(milliseconds)
        if len(self.waits) < self.done:
            raise SynchronizeTimeoutError(api, 507046)


def waited(done: int, limit: int) -> list[int]:
    device = Hanging(done)
    wait(cast("Any", device), "aclrtSynchronizeStreamWithTimeout", 7, limit)
    return device.waits


@pytest.mark.parametrize("limit", [1, 99, 100])
def test_a_short_limit_is_one_native_wait(limit: int) -> None:
    assert waited(1, limit) == [limit]


def test_the_first_native_waits_are_short_and_later_ones_a_second() -> None:
    assert waited(7, -1) == [100, 200, 400, 1000, 1000, 1000, 1000]
    assert waited(2, -1) == [100, 200]


def test_native_waits_add_up_to_the_limit() -> None:
    assert waited(6, 3000) == [100, 200, 400, 1000, 1000, 300]
    device = Hanging(10)
    with pytest.raises(SynchronizeTimeoutError):
        wait(cast("Any", device), "aclrtSynchronizeStreamWithTimeout", 7, 1700)
    assert device.waits == [100, 200, 400, 1000]
