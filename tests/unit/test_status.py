# SPDX-License-Identifier: Apache-2.0
"""The table of statuses agrees with the headers, both ways."""

import re

import pytest

from aclnn_kvcache.native.prototypes import HEADERS, INCLUDE, Declarations
from aclnn_kvcache.status import _ROWS, ADVICE, Advice, Status, describe, statuses

STATUS_NAME = re.compile(r"ACL_SUCCESS|ACL_RT_SUCCESS|ACL_ERROR_\w+|ACLNN_SUCCESS|ACLNN_ERR_\w+")

ROWS = {name: value for value, name, _ in _ROWS}


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
    assert len(ROWS) == len(_ROWS)
    assert all(meaning.strip() for _, _, meaning in _ROWS)


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
    assert describe(value) == Status(value, "UNKNOWN", "a code that no header of CANN 9.1 lists")
    assert value not in statuses()


def test_advice_is_about_known_codes_and_says_something():
    assert set(ADVICE) <= set(statuses())
    assert 0 not in ADVICE
    assert all(isinstance(advice, Advice) and all(advice) for advice in ADVICE.values())
