# SPDX-License-Identifier: Apache-2.0
"""Your tensors or your installation? Statuses that mix both, decided by evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from aclnn_kvcache.errors import Verdict

PRODUCTS = "Ascend950"
"""How the names of the products begin that have kernels of these operators."""

AMBIGUOUS = {*range(561000, 562000), 361001, 161002, 500000, 507033}
"""Statuses that CANN answers to wrong arguments and to a wrong installation or device alike."""

OPENING = {500000, 507033}
"""Those of opening a device: no argument of an operator is involved."""

# "Config_Error(EZ1013)", "Execution_Error(EZ1008)" and their like: a kernel or its description is not in the package.
_NO_KERNEL = re.compile(
    r"\bEZ(1008|1009|1013|1014)\b|binary_info_config\.json|dynamic kernel config|opp_kernel package"
)
_ABOUT_TENSORS = re.compile(r"\bEZ(00\d\d|1001)\b")
_ENVIRONMENT = re.compile(r"\b(?P<code>EE2002|EZ1002)\)?:?(?P<text>[^\n]*)")
_NONE_THERE = re.compile(r"\bno (\w+ )?devices?\b", re.IGNORECASE)
_NO_DEVICE = re.compile(r"aclrtGetDevice|107002")


class Evidence(NamedTuple):
    """What is known of a failure. Empty or None where it is not."""

    status: int
    message: str = ""
    """What the library said."""
    broken: tuple[str, ...] = ()
    """What the rules say of the call."""
    legal: bool = False
    """Whether the rules were asked and found nothing."""
    operator: str = ""
    soc_name: str = ""
    roots: tuple[str, ...] = ()
    """Folders of the CANN installations mapped into the process."""
    kernels_found: bool | None = None
    """Whether the operator's kernels are in the operator package."""
    kernels_searched: tuple[str, ...] = ()
    cann_version: str = ""


def judge(evidence: Evidence) -> Verdict | None:
    """The verdict on an ambiguous status; None for a status that says enough by itself.

    The first clue decides; the others are listed with it.
    """
    if evidence.status not in AMBIGUOUS:
        return None
    clues = [clue for find in _CLUES for clue in find(evidence)]
    facts = tuple(clue.evidence for clue in clues) + tuple(_acquittals(evidence))
    if clues:
        return clues[0].with_all(facts)
    if evidence.status in OPENING:
        return Verdict(
            "device",
            "The device could not be opened; arguments play no part in this",
            facts,
            "check that no other process holds the device, its permissions, the container's device mounts and that the "
            "driver belongs to this CANN: `aclnn-kvcache doctor` looks at all of them",
        )
    if evidence.legal:
        return Verdict(
            "unknown",
            "Nothing points at the arguments, and nothing at the installation",
            facts,
            "read the library's message and its log (`aclnn-kvcache explain --plog`), and run `aclnn-kvcache smoke`: "
            "if that fails too it is the installation. Else record the call (Session(record=...)) and report it with "
            "`aclnn-kvcache repro`",
        )
    return None


class _Clue(NamedTuple):
    blame: str
    headline: str
    evidence: str
    cure: str

    def with_all(self, facts: tuple[str, ...]) -> Verdict:
        return Verdict(self.blame, self.headline, facts, self.cure)


def _broken_rules(evidence: Evidence) -> Iterator[_Clue]:
    if evidence.broken:
        yield _Clue(
            "arguments",
            f"Your arguments: {evidence.broken[0]}",
            f"{len(evidence.broken)} rule{'s are' if len(evidence.broken) > 1 else ' is'} broken",
            "correct the argument; `check_call` lists all that is wrong",
        )


def _wrong_variable(evidence: Evidence) -> Iterator[_Clue]:
    found = _ENVIRONMENT.search(evidence.message)
    if found:
        yield _Clue(
            "installation",
            f"An environment variable is wrong, not your arguments: {found['text'].strip(' .')}",
            f"the library's message is of the code for environment variables ({found['code']})",
            "correct or unset the variable that the message names",
        )


def _no_device_at_all(evidence: Evidence) -> Iterator[_Clue]:
    if evidence.status in OPENING and _NONE_THERE.search(evidence.message):
        yield _Clue(
            "device",
            "The device could not be opened because there is none, or none that this process may see; arguments play "
            "no part in this",
            "the library's message says that there is no device",
            "see that the host has an NPU and the container its /dev/davinci<N>, and that neither "
            "ASCEND_RT_VISIBLE_DEVICES nor a profile of the simulator hides it: `aclnn-kvcache doctor` looks at all of "
            "them",
        )


def _two_roots(evidence: Evidence) -> Iterator[_Clue]:
    if len(evidence.roots) > 1:
        yield _Clue(
            "installation",
            "Your installation, not your arguments: libraries of two CANN installations are mixed in this process",
            f"libraries are mapped from {' and '.join(evidence.roots)}",
            "start Python from a shell in which one set_env.sh alone was sourced; clean LD_LIBRARY_PATH of the other",
        )


def _other_product(evidence: Evidence) -> Iterator[_Clue]:
    if evidence.soc_name and not evidence.soc_name.startswith(PRODUCTS) and evidence.status not in OPENING:
        yield _Clue(
            "device",
            f"Your device, not your arguments: the operator has kernels for Ascend 950PR and 950DT alone, and this is "
            f"{evidence.soc_name}",
            f"the SoC is {evidence.soc_name}",
            'run on an Ascend 950, or with backend="simulator" and no other product in ACLSIM_PROFILE',
        )


def _no_kernels(evidence: Evidence) -> Iterator[_Clue]:
    said = evidence.status not in OPENING and _NO_KERNEL.search(evidence.message)
    if evidence.kernels_found is False:
        fact = f"no kernel of {evidence.operator} in {', '.join(evidence.kernels_searched)}"
    elif said:
        fact = f"the library's message speaks of a missing kernel ({said.group()})"
    else:
        return
    yield _Clue(
        "installation",
        f"Your installation, not your arguments: the kernels of {evidence.operator or 'the operator'} are missing from "
        f"the operator package",
        fact,
        "install the operator package (kernels) of Ascend 950 of the same release as CANN, and check ASCEND_OPP_PATH "
        "and ASCEND_CUSTOM_OPP_PATH; `aclnn-kvcache doctor` shows where was looked",
    )


def _no_device(evidence: Evidence) -> Iterator[_Clue]:
    if 561000 <= evidence.status < 562000 and _NO_DEVICE.search(evidence.message):
        yield _Clue(
            "device",
            "Neither: the calling thread has no device",
            "the library's message speaks of aclrtGetDevice",
            "call aclrtSetDevice in every thread that calls the operator; the session's methods do it",
        )


def _refused_tensors(evidence: Evidence) -> Iterator[_Clue]:
    found = _ABOUT_TENSORS.search(evidence.message)
    if found and evidence.legal:
        yield _Clue(
            "arguments",
            "Your arguments, by the library's message, though the rules known here allow them: the installed operator "
            "is of another revision than these rules",
            f"the library's message names an argument ({found.group()}); CANN is {evidence.cann_version or 'unknown'}",
            "compare the argument in the message with that release's contract; `aclnn-kvcache abi` shows the revision "
            "installed. Please report the call (`aclnn-kvcache repro`)",
        )


_CLUES: tuple[Callable[[Evidence], Iterator[_Clue]], ...] = (
    _broken_rules,
    _wrong_variable,
    _no_device_at_all,
    _two_roots,
    _other_product,
    _no_kernels,
    _no_device,
    _refused_tensors,
)


def _acquittals(evidence: Evidence) -> Iterator[str]:
    """What speaks against a cause."""
    if evidence.legal and not evidence.broken:
        yield f"the rules of {evidence.operator} find nothing wrong with the arguments"
    if evidence.soc_name.startswith(PRODUCTS):
        yield f"the SoC is {evidence.soc_name}, which has the operator"
    if evidence.kernels_found:
        yield f"the operator's kernels are in {', '.join(evidence.kernels_searched)}"
    if len(evidence.roots) == 1:
        yield f"all libraries come from {evidence.roots[0]}"
