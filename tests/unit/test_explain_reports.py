# SPDX-License-Identifier: Apache-2.0
"""Kinds of the simulator's reports: the explanations, the header's list and the sources say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.explain.report_kinds import CHECKS, GROUPS
from aclnn_kvcache.explain.reports import TITLE, known_reports

PACKAGE = Path(kv.__file__).parent
SOURCES = Path(__file__).parents[2] / "aclnn_kvcache" / "simulator"  # what is installed has none
BY_CHECK = {check: {row[0] for group in GROUPS if group.check == check for row in group.rows} for check in CHECKS}
KINDS = set().union(*BY_CHECK.values())


def test_each_kind_stands_once() -> None:
    rows = [row[0] for group in GROUPS for row in group.rows]
    assert len(rows) == len(set(rows)) == len(KINDS)
    assert {group.check for group in GROUPS} == set(CHECKS)
    assert set(known_reports()) == KINDS | {TITLE + check for check in CHECKS}


def test_the_header_lists_them() -> None:
    text = (PACKAGE / "include" / "aclsim" / "aclsim.h").read_text("utf-8")
    listed = text.partition("Kinds of reports;")[2].partition("Limits.")[0]
    found = {part[0]: set(part[1:]) for part in map(str.split, re.split(r"\n     (?=\w)", listed)[1:])}
    assert found == BY_CHECK


def test_the_sources_make_no_others() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in SOURCES.rglob("*.c"))
    calls = re.findall(
        r'(?:sim_report|sim_in_flight_end|sim_report_from_signal)\((?:SIM_CHECK_\w+|function)?,? ?"(\w+)"', sources
    )
    assert len(calls) > 30
    assert set(calls) <= KINDS
    quoted = set(re.findall(r'"(\w+)"', sources))
    assert quoted >= KINDS, "each is a word of the sources"


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    "form",
    [
        "[PID: 7] 2026-01-02-03:04:05.678.901 Simulator_Check_{check}({kind}): aclrtFree: it is so.",
        "aclsim: {check}: {kind} in aclrtFree: it is so",
        '{{"sequence":1,"check":"{check}","kind":"{kind}","function":"aclrtFree","text":"it is so"}}',
    ],
)
def test_a_report_is_found_in_a_text(form: str, kind: str) -> None:
    (check,) = (check for check, kinds in BY_CHECK.items() if kind in kinds)
    explanation = kv.explain("something else\n" + form.format(check=check, kind=kind))
    (cause,) = explanation.causes
    assert (cause.kind, cause.code, cause.name) == ("report", kind, TITLE + check)
    assert kv.explain(kind).causes[0] == cause._replace(line="")


def test_a_report_comes_before_the_status_that_follows_from_it() -> None:
    text = "aclrtSynchronizeStream failed with 507015\nSimulator_Check_mem(out_of_bounds_write): token 1"
    assert [cause.code for cause in kv.explain(text).causes] == ["out_of_bounds_write", "507015"]


@pytest.mark.parametrize("text", ["the data is misaligned", "Simulator_Check_mem(off): it tells", 'kind: "misaligned"'])
def test_other_texts_have_none(text: str) -> None:
    assert kv.explain(text).causes == ()


def test_names_like_a_kind() -> None:
    assert kv.explain("slot_out_of_rnge").similar[0] == "slot_out_of_range"
    assert kv.explain("acl_error_rt_context_nul").similar == ("ACL_ERROR_RT_CONTEXT_NULL",)
