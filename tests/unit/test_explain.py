# SPDX-License-Identifier: Apache-2.0
"""Explanations of single codes: exact texts, names, families, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.explain.asking import is_code
from aclnn_kvcache.explain.messages import known_messages
from aclnn_kvcache.status import named, names, statuses

CHECKS = (
    "`aclnn-kvcache check` looks at the arguments of a call, `aclnn-kvcache doctor` at the installation; "
    "`aclnn-kvcache replay` makes a recorded call again, on the simulator too"
)


def only(what):
    explanation = kv.explain(what)
    assert len(explanation.causes) == 1
    return explanation.causes[0]


TEXTS = {
    161001: (
        "161001 ACLNN_ERR_PARAM_NULLPTR: a required pointer argument is null\n"
        "  usual cause: a required tensor, array or out-parameter is NULL\n"
        "  what to do:  pass every tensor that the operator requires; `aclnn-kvcache explain --rules OPERATOR` lists "
        "them"
    ),
    107002: (
        "107002 ACL_ERROR_RT_CONTEXT_NULL: calling thread has no current context\n"
        "  usual cause: the calling thread never set a device\n"
        "  what to do:  use the session's methods, which bind it, in each thread"
    ),
    207001: (
        "207001 ACL_ERROR_RT_MEMORY_ALLOCATION: device memory exhausted\n"
        "  usual cause: device memory is exhausted\n"
        "  what to do:  close arrays that are no longer used, or use a smaller cache"
    ),
    100002: (
        "100002 ACL_ERROR_REPEAT_INITIALIZE: already initialised or loaded (second aclInit; treat as success)\n"
        "  usual cause: a framework or another library in this process has initialised ACL before\n"
        "  what to do:  nothing: it counts as success; whoever got 0 from aclInit is the one to finalise"
    ),
    561105: (
        "561105 ACLNN_ERR_INNER_KEY_CONFILICT: kernel hash key conflict\n"
        "  usual cause: the operator library and libnnopbase are of different releases, or the library has a defect\n"
        "  what to do:  check that both come from one CANN root (aclnn-kvcache doctor), then keep the log "
        "(aclnn-kvcache explain --plog) for a report to the vendor\n"
        "  also called: ACLNN_ERR_INNER_KEY_CONFLICT"
    ),
    561107: (
        "561107 ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND: ASCEND_OPP_PATH not set\n"
        "  usual cause: ASCEND_OPP_PATH is not set\n"
        "  what to do:  source set_env.sh before starting Python"
    ),
    0: (
        "0 ACLNN_SUCCESS: success\n"
        "  usual cause: none: the call did what it was asked for\n"
        "  what to do:  nothing; work that is only queued may still fail, and the next synchronise says so\n"
        "  also called: ACL_ERROR_NONE, ACL_SUCCESS, ACL_RT_SUCCESS"
    ),
    561103: (
        "561103 ACLNN_ERR_INNER_NULLPTR: internal null pointer (also null executor/tensor to the "
        "aclSet*/aclDestroyAclOpExecutor calls)\n"
        "  usual cause: tiling refused shapes or strides, no kernel fits this product, the thread has no device, or "
        "executors were kept until none was left\n"
        "  what to do:  read the library's message: it names a tensor if the arguments are at fault, else look at the "
        "installation\n"
        "  your tensors or your installation? yours, if the message has one of EZ0001 to EZ0028 or names a tensor, or "
        "if the checks find a broken rule. The installation, if it has EZ1008, EZ1009, EZ1013 or EZ1014, "
        '"Parse dynamic kernel config fail" or binary_info_config.json, or if the checks find nothing in the call. '
        f"Neither, if it has 107002: the thread has set no device. {CHECKS}"
    ),
    "EZ0028": (
        "EZ0028 Invalid_Argument_Tensor_Stride: a view has strides that the kernel cannot walk\n"
        "  usual cause: a tensor's shape, rank, size or stride is not what the operator takes, or two tensors "
        "disagree\n"
        "  what to do:  correct the tensor that the message names; `aclnn-kvcache explain --rules OPERATOR` prints "
        "what must hold, `aclnn-kvcache check` what is broken"
    ),
    "EZ9999": (
        "EZ9999 AclNN_Inner_Error: an aclnn call failed inside\n"
        "  usual cause: whatever made a step inside fail: status 561xxx; the reason stands in the lines below it\n"
        "  what to do:  read the indented lines under TraceBack; a code EZ00xx there is about a tensor"
    ),
    "EH0007": (
        "EH0007 Invalid_Argument: a value is not among those that the function takes\n"
        "  usual cause: an argument of an acl function is NULL, out of range or of the wrong kind\n"
        "  what to do:  look at the function and the argument that the message names"
    ),
    507777: (
        "507777 UNKNOWN: a code that no header of CANN 9.1 lists; by its number an internal failure, reported by the "
        "runtime\n"
        "  usual cause: arguments that a later step refused, an incomplete installation, or a fault on the device\n"
        "  what to do:  read the library's message and the log: aclnn-kvcache explain --plog"
    ),
    -161002: (
        "-161002 UNKNOWN: a code that no header of CANN 9.1 lists; its number is in no family of CANN's\n"
        "  usual cause: CANN has no negative status: it is what another function returned, or the sign was put there\n"
        "  what to do:  without the sign it is 161002 ACLNN_ERR_PARAM_INVALID: explain that one"
    ),
    "use_after_free": (
        "use_after_free Simulator_Check_mem: memory was used that had been freed before the work was queued\n"
        "  usual cause: memory that is freed while something still needs it, or by two owners\n"
        "  what to do:  keep memory until the host has waited for the last work that uses it, and free it once"
    ),
    "Simulator_Check_race": (
        "Simulator_Check_race: the race check of the simulator found something\n"
        "  usual cause: it looks for work that a device may do in either order, or at once, although the order "
        "matters\n"
        "  what to do:  explain the kind, which stands in brackets behind it, and do what the sentence behind that "
        "ends with"
    ),
    "hello": (
        "nothing known in: hello\n"
        "  explain takes a status (161002), its C name, a message code (EZ0028), a report of the simulator "
        "(use_after_free), or any text that has one of them in it"
    ),
    "ACLNN_ERR_INER_NULLPTR": (
        "nothing known in: ACLNN_ERR_INER_NULLPTR; did you mean ACLNN_ERR_INNER_NULLPTR or ACLNN_ERR_PARAM_NULLPTR or "
        "ACLNN_ERR_INNER?\n"
        "  explain takes a status (161002), its C name, a message code (EZ0028), a report of the simulator "
        "(use_after_free), or any text that has one of them in it"
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text(what):
    assert str(kv.explain(what)) == TEXTS[what]


NUMBERS = [161002, np.int32(161002), "161002", " 161002\n", "+161002", "0x274EA", "0X274ea"]
NAMES = ["ACLNN_ERR_PARAM_INVALID", "aclnn_err_param_invalid"]
PHRASES = ["aclnnStatus=161002", "returned 161002.", "code 0x274ea", "(161002)", "errno[161002]"]


@pytest.mark.parametrize("what", [*NUMBERS, *NAMES, *PHRASES])
def test_spellings_of_one_status(what):
    assert only(what).code == "161002"


@pytest.mark.parametrize("name", names())
def test_every_name_is_found(name):
    cause = only(name.lower())
    assert cause.code == str(named(name).value)
    assert cause.known
    assert name in (cause.name, *cause.aliases)


def test_every_number_is_known():
    for value in statuses():
        assert only(value).known
        assert only(hex(value)).code == str(value)


@pytest.mark.parametrize("value", [561000, 561002, 561103, 507015, 507035, 507033, 500000])
def test_ambiguous_codes_say_how_to_decide(value):
    cause = only(value)
    assert cause.telling
    assert str(cause).endswith(f"your tensors or your installation? {cause.telling}. {CHECKS}")


@pytest.mark.parametrize(
    ("what", "meaning"),
    [
        (2, "its number is in no family of CANN's"),
        (-1, "its number is in no family of CANN's"),
        (4294967295, "its number is in no family of CANN's"),
        ("-0x1", "its number is in no family of CANN's"),
        (161999, "by its number a mistake of the caller, reported by aclnn"),
        ("545999", "by its number an internal failure, reported by the graph executor"),
    ],
)
def test_unknown_numbers_name_their_family(what, meaning):
    cause = only(what)
    assert not cause.known
    assert cause.name == "UNKNOWN"
    assert cause.meaning == f"a code that no header of CANN 9.1 lists; {meaning}"
    assert cause.causes
    assert cause.action


CATALOGUE = (
    [f"EH{n:04}" for n in range(1, 15)]
    + [f"EE{n}" for n in (*range(1001, 1008), *range(1009, 1024), 2002, 4001, 4002, 4004, 9999)]
    + [f"EZ{n:04}" for n in (*range(1, 13), 15, 17, 19, 20, *range(24, 29))]
    + [f"EZ{n}" for n in (*range(1001, 1015), 2001, 9903, 9999)]
    + ["EH9999"]
)


def test_the_catalogue_of_messages_is_complete():
    assert set(known_messages()) == set(CATALOGUE)


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_message_code_says_something(code):
    cause = only(code.lower())
    assert (cause.kind, cause.code, cause.known) == ("message", code, True)
    assert min(map(len, (cause.meaning, cause.causes, cause.action))) > 10


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("EZ0099", "an operator refused an argument"),
        ("EZ7777", "a message of aclnn"),
        ("EE7777", "a message of the runtime"),
        ("EH7777", "a message of the acl layer"),
        ("EI0014", "a message of another module of CANN"),
        ("EL9999", "an internal failure of another module of CANN"),
        ("EE8888", "an internal check of parameters in the runtime"),
    ],
)
def test_unknown_message_codes_name_their_module(code, meaning):
    cause = only(code)
    assert (cause.meaning, cause.known) == (meaning, False)
    assert cause.causes == "this code is in no list of CANN 9.1"


@pytest.mark.parametrize(
    ("what", "similar"),
    [
        ("INNER_NULLPTR", ("ACLNN_ERR_INNER_NULLPTR",)),
        ("acl_error_rt_contxt_null", ("ACL_ERROR_RT_CONTEXT_NULL",)),
        ("it failed: ACLNN_ERR_PARAM_NULPTR", ("ACLNN_ERR_PARAM_NULLPTR",)),
        ("some words", ()),
        ("ACL_ERR", ("ACL_ERROR_NONE",)),
    ],
)
def test_unknown_names_get_similar_ones(what, similar):
    explanation = kv.explain(what)
    assert explanation.causes == ()
    assert explanation.similar[: len(similar) or None] == similar


@pytest.mark.parametrize(
    "what",
    ["", " \n", None, 1.0, True, b"161002", [161002], np.ones(2), 2**64, -(10**5000)],
    ids=lambda what: type(what).__name__,
)
def test_what_cannot_be_explained_is_refused(what):
    with pytest.raises(kv.ArgumentError, match="what: expected a status as a number or C name"):
        kv.explain(what)


@pytest.mark.parametrize(
    ("word", "yes"),
    [("161002", True), ("-1", True), ("ez0028", True), ("ACL_X", True), ("failed", False), ("code=161002", False)],
)
def test_words_that_are_codes(word, yes):
    assert is_code(word) is yes


def test_as_dict_keeps_the_start_of_a_long_text():
    facts = kv.explain("161002 " + "x" * 1000).as_dict()
    assert len(facts["what"]) == 100
    assert facts["causes"][0]["code"] == "161002"
    assert facts["similar"] == ()
