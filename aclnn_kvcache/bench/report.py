# SPDX-License-Identifier: Apache-2.0
"""A benchmark's surroundings and its figures, as text and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import aclnn_kvcache
from aclnn_kvcache.bench.measure import Figure, Sample
from aclnn_kvcache.session import Session

SCHEMA = 1


class Report(NamedTuple):
    surroundings: Mapping[str, Any]
    figures: Sequence[Figure]
    exit_code: int = 0
    error: str = ""


def surroundings(session: Session | None) -> dict[str, Any]:
    """Machine, libraries and versions, without which a figure means nothing. None where no library is in use."""
    return {
        "backend": session and session.backend,
        "soc_name": session and session.soc_name,
        "cann_version": session and session.cann_version,
        "revision": session and session.qkv_abi,
        "libraries": list(session.libraries) if session else [],
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "aclnn_kvcache": aclnn_kvcache.__version__,
    }


def as_json(report: Report) -> str:
    figures = [
        {
            **item._asdict(),
            "goal": item.goal,
            "met": item.met,
            "subject_seconds": _seconds(item.subject_seconds),
            "baseline_seconds": _seconds(item.baseline_seconds),
        }
        for item in report.figures
    ]
    document = {"schema": SCHEMA, "command": "bench", **report._asdict(), "figures": figures}
    return json.dumps(document, indent=2)


def header(facts: Mapping[str, Any]) -> str:
    used = (
        f"backend {facts['backend']}, {facts['soc_name']}, CANN {facts['cann_version']}, revision "
        f"{facts['revision']} of the fused operator"
    )
    return (
        f"{used if facts['backend'] else 'no backend in use: these figures need none'}\n"
        f"{facts['processor']}, {facts['cores']} cores ({facts['machine']}), load {facts['load']:.1f}, Python "
        f"{facts['python']}, NumPy {facts['numpy']}, ml_dtypes {facts['ml_dtypes']}"
    )


def line(item: Figure) -> str:
    value = "not measured" if item.value is None else f"{item.value:.4g} {item.unit}"
    verdict = "" if item.met is None else ", met" if item.met else ", not met"
    lines = [f"{item.name:42} {value:>24}   goal: {item.goal}{verdict}{'; noisy' if item.noisy else ''}"]
    lines.append(f"{item.subject}; against {item.baseline}" if item.baseline else item.subject)
    if item.subject_seconds and item.baseline_seconds:
        lines.append(" against ".join(_times(sample) for sample in (item.subject_seconds, item.baseline_seconds)))
    lines += [item.note] if item.note else []
    return f"\n{'':42} ".join(lines)


def _times(sample: Sample) -> str:
    return f"{sample.median * 1e6:.4g} µs (± {sample.spread * 50:.0f} %)"


def _seconds(sample: Sample | None) -> dict[str, float] | None:
    return sample._asdict() if sample else None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), "unknown")
    except OSError:
        return "unknown"
