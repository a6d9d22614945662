# SPDX-License-Identifier: Apache-2.0
"""Direct access to the simulator's C functions, below everything of the package but the prototypes."""

from __future__ import annotations

from typing import Any

import pytest

from aclnn_kvcache.native import library, prototypes


class Sim:
    """``sim.aclrtMalloc(...)``: the typed C function; ``sim.constants["ACL_FLOAT"]``: an enum value or macro."""

    def __init__(self) -> None:
        self._library = library.load("simulator")
        self.constants = prototypes.declarations().constants

    def __getattr__(self, name: str) -> Any:
        return self._library.function(name)


@pytest.fixture(scope="session")
def sim() -> Sim:
    return Sim()
