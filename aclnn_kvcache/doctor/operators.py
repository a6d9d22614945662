# SPDX-License-Identifier: Apache-2.0
"""Checks of the operators: their functions, their kernels, one small call of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aclnn_kvcache.doctor.devices import ASK_THE_DRIVER
from aclnn_kvcache.doctor.report import OK, PROBLEM, WARNING, Line
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.errors import PHASE_1
from aclnn_kvcache.native.kernels import kernel_package
from aclnn_kvcache.rules.contracts import CONTRACTS

INSTALL_OPERATORS = (
    "install the operator package (ops-transformer) of CANN 9.1.0 or later for Ascend 950, or name a custom package "
    "in ASCEND_CUSTOM_OPP_PATH"
)
STATE_THE_REVISION = "state the revision: --qkv-abi A, B or C ('aclnn-kvcache abi' prints the argument lists)"
INSTALL_KERNELS = "install the operator package with the kernels for Ascend 950, of the release of the libraries"


def check_operators(subject: Subject) -> Iterator[Line]:
    """Which library has each function, and the argument list in force."""
    missing: dict[str, list[str]] = {}
    for function in _functions(subject):
        if function["missing"]:
            reason = function["error"].partition("Tried, in this order")[0].strip().removeprefix(function["name"])
            missing.setdefault(reason, []).append(function["name"])
        elif function["error"]:
            yield Line("operators", PROBLEM, function["error"], STATE_THE_REVISION)
        else:
            differences = "; ".join(function["differences"]) or "as expected"
            text = f"{function['name']}: {function['library']}\narguments by {function['source']}: {differences}"
            yield Line("operators", OK, text)
    for reason, (first, *others) in missing.items():
        same = f"\nthe same holds for {', '.join(others)}" if others else ""
        yield Line("operators", PROBLEM, f"{first}{reason}{same}", INSTALL_OPERATORS)


def check_kernels(subject: Subject) -> Iterator[Line]:
    """Whether the kernels are installed; the first call would fail without them."""
    for function in _functions(subject):
        api = function["name"].removesuffix(PHASE_1)
        if function["error"] or api == function["name"]:
            continue
        if subject.simulated:  # a profile may leave them out, which the call tells
            if any(CONTRACTS[r["operator"]].api == api and r["verdict"] == "pass" for r in _results(subject)):
                yield Line("kernels", OK, f"{api}: part of the simulator's library")
            continue
        kernels = kernel_package(api, function["library"], subject.environ)
        if kernels.found:
            yield Line("kernels", OK, f"{api}: {kernels}")
        elif kernels.found is None:
            text = f"{api}: cannot be told: {kernels}"
            yield Line("kernels", WARNING, text, "name the operator package: export ASCEND_OPP_PATH=<CANN root>/opp")
        else:
            yield Line("kernels", PROBLEM, f"{api} has no kernels for Ascend 950: {kernels}", INSTALL_KERNELS)


def check_calls(subject: Subject) -> Iterator[Line]:
    """One small call of each operator, compared byte by byte with the oracle."""
    if error := subject.error("calls"):
        kind = subject.native.stages["calls"]["kind"]
        if subject.lacks_the_device:
            return  # said before, with the devices that there are
        cure = f"try it alone: {subject.smoke}" if subject.simulated else ASK_THE_DRIVER
        yield Line("devices" if kind == "DeviceUnavailableError" else "calls", PROBLEM, error, cure)
    for result in _results(subject):
        yield _call(result)


def _call(result: Mapping[str, Any]) -> Line:
    if result["verdict"] == "pass":
        return Line("calls", OK, f"{result['operator']}: every byte is as it must be")
    what = "failed" if result["verdict"] == "error" else "left other bytes than it must"
    text = f"{result['operator']} {what}: {result['detail']}"
    return Line("calls", PROBLEM, text, f"do what the text says; to repeat this call alone: {result['rerun']}")


def _results(subject: Subject) -> list[Mapping[str, Any]]:
    return list(subject.stage("calls").get("results", ()))


def _functions(subject: Subject) -> list[Mapping[str, Any]]:
    return list(subject.stage("operators").get("functions", ()))
