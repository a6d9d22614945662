# SPDX-License-Identifier: Apache-2.0
"""The table of statuses agrees with the headers, both ways."""

import re
from pathlib import Path

import pytest

from aclnn_kvcache.native.prototypes import HEADERS, INCLUDE, Declarations
from aclnn_kvcache.status import ADVICE, GROUPS, advice_on, describe, family, named, names, statuses

STATUS_NAME = re.compile(r"ACL_SUCCESS|ACL_RT_SUCCESS|ACL_ERROR_\w+|ACLNN_SUCCESS|ACLNN_ERR_\w+")

ALL = [row for group in GROUPS for row in group.rows]
ROWS = {name: value for value, name, _ in ALL}


def constants(header):
    """The enum members and macros of one header alone."""
    found = Declarations()
    text = (INCLUDE / header).read_text(encoding="utf-8")
    found.read(header, "\n".join(re.findall(r"enum\s*\{[^}]*\};", text)))
    return {name: value for name, value in found.constants.items() if STATUS_NAME.fullmatch(name)}


LAYERS = ("acl/acl_base_rt.h", "acl/error_codes/rt_error_codes.h", "opdev/op_errno.h")


def in_headers():
    return {name: value for header in LAYERS for name, value in constants(header).items()}


def test_every_status_of_our_headers_is_in_the_table_with_its_value():
    headers = in_headers()
    assert len(headers) == 244
    assert {name: ROWS.get(name) for name in headers} == headers


def test_every_status_of_the_table_is_in_our_headers_unless_it_is_the_graph_executor_s():
    headers = in_headers()
    others = {name: value for name, value in ROWS.items() if name not in headers}
    assert all(name.startswith("ACL_ERROR_GE_") for name in others)
    assert all(value // 1000 in (145, 245, 345, 545) for value in others.values())


def test_no_other_header_declares_a_status():
    elsewhere = [header for header in HEADERS if header not in LAYERS]
    for header in elsewhere:
        assert constants(header) == {}


def test_names_are_unique_and_meanings_are_not_empty():
    assert len(ROWS) == len(ALL)
    assert all(meaning.strip() for _, _, meaning in ALL)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (0, "ACLNN_SUCCESS"),
        (100002, "ACL_ERROR_REPEAT_INITIALIZE"),
        (107002, "ACL_ERROR_RT_CONTEXT_NULL"),
        (148051, "ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED"),
        (161001, "ACLNN_ERR_PARAM_NULLPTR"),
        (161002, "ACLNN_ERR_PARAM_INVALID"),
        (207001, "ACL_ERROR_RT_MEMORY_ALLOCATION"),
        (361001, "ACLNN_ERR_RUNTIME_ERROR"),
        (507015, "ACL_ERROR_RT_AICORE_EXCEPTION"),
        (507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION"),
        (561000, "ACLNN_ERR_INNER"),
        (561103, "ACLNN_ERR_INNER_NULLPTR"),
        (561105, "ACLNN_ERR_INNER_KEY_CONFILICT"),  # the spelling that every release has comes first
    ],
)
def test_statuses_that_users_meet(value, name):
    assert describe(value).name == name
    assert statuses()[value] == describe(value)


@pytest.mark.parametrize("value", [-1, 1, 161003, 2**31, -(2**31), 2**40])
def test_an_unknown_code_keeps_its_number(value):
    assert describe(value)[:2] == (value, "UNKNOWN")
    assert describe(value).meaning.startswith("a code that no header of CANN 9.1 lists; ")
    assert value not in statuses()


@pytest.mark.parametrize(
    ("value", "kind", "owner"),
    [
        (100999, "a mistake of the caller", "the acl layer"),
        (148999, "a mistake of the caller", "the acl layer"),
        (107999, "a mistake of the caller", "the runtime"),
        (145999, "a mistake of the caller", "the graph executor"),
        (161999, "a mistake of the caller", "aclnn"),
        (207999, "an exhausted resource or an unsupported feature", "the runtime"),
        (361999, "a condition at run time", "aclnn"),
        (507999, "an internal failure", "the runtime"),
        (545999, "an internal failure", "the graph executor"),
        (561999, "an internal failure", "aclnn"),
    ],
)
def test_the_number_alone_names_the_family(value, kind, owner):
    assert family(value)[:2] == (kind, owner)
    assert all(family(value).advice[:2])
    assert describe(value).meaning == (
        f"a code that no header of CANN 9.1 lists; by its number {kind}, reported by {owner}"
    )


@pytest.mark.parametrize("value", [-161002, 0, 1, 16100, 1610020, 461002, 162002])
def test_other_numbers_are_in_no_family(value):
    assert family(value) is None
    assert value == 0 or describe(value).meaning.endswith("its number is in no family of CANN's")


def chapter():
    lines = (Path(__file__).parents[1] / "data" / "status_codes.txt").read_text(encoding="utf-8").splitlines()
    return [(int(value), name) for value, name in map(str.split, lines[1:])]


def test_every_code_that_cann_documents_has_meaning_causes_and_action():
    codes = chapter()
    assert len(codes) == 282
    for value, name in codes:
        status, advice = named(name), ADVICE[value]
        assert status is not None
        assert status.value == value
        assert name in (status.name, *status.aliases)
        assert len(status.meaning) > 5
        assert len(advice.causes) > 10
        assert len(advice.action) > 10
    assert set(ADVICE) == {value for value, _ in codes}


@pytest.mark.parametrize(
    ("value", "aliases"),
    [
        (0, ("ACL_ERROR_NONE", "ACL_SUCCESS", "ACL_RT_SUCCESS")),
        (561105, ("ACLNN_ERR_INNER_KEY_CONFLICT",)),
        (161002, ()),
    ],
)
def test_a_number_with_several_names_has_all_of_them(value, aliases):
    assert describe(value).aliases == aliases
    assert all(named(name) is describe(value) for name in aliases)


def test_names_are_found_in_any_case():
    assert named("aclnn_err_inner_key_conflict") is named("ACLNN_ERR_INNER_KEY_CONFILICT")
    assert named("ACLNN_ERR_NONE") is None
    assert len(names()) == len(ALL)


def test_no_advice_is_there_twice():
    texts = [group[:2] for group in GROUPS]
    twice = {row[0] for group in GROUPS if texts.count(group[:2]) > 1 for row in group.rows}
    assert twice == {107008, 200003}  # the acl layer and the runtime have a code each for an address not aligned


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (161001, "NULL"),
        (561103, "binary_info_config.json"),
        (561000, "executor"),
        (507033, "/dev/davinci*"),
        (507015, "synchronise after each launch"),
        (507035, "synchronise after each launch"),
        (500000, "rtGetDevMsg"),
        (107002, "in each thread"),
        (145003, "the operators of this package need none"),
    ],
)
def test_advice_that_users_need(value, words):
    assert words in " ".join(ADVICE[value])


@pytest.mark.parametrize("code", [507015, 507035])
def test_a_fault_names_all_that_leads_a_kernel_out_of_memory(code):
    action = advice_on(code).action
    for word in ("slots", "positions", "seq_lens", "rows of cos_sin", "strides", "buffer sizes"):
        assert word in action
