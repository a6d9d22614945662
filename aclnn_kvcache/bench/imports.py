# SPDX-License-Identifier: Apache-2.0
"""What importing the package costs, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from aclnn_kvcache.bench.measure import Figure, Texts, Timed, figure

NEEDED = "import numpy, ml_dtypes"
TEXTS = Texts("import aclnn_kvcache", "import numpy, ml_dtypes", 25)


def import_figures(repeats: int) -> Iterator[Figure]:
    measured = figure("import", TEXTS, "µs above", _process(f"{NEEDED}, aclnn_kvcache"), _process(NEEDED), repeats)
    yield measured._replace(unit="ms above", value=(measured.value or 0.0) / 1000)


def _process(statement: str) -> Timed:
    program = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"

    def run() -> float:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(done.stdout)

    return run
