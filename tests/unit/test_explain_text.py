# SPDX-License-Identifier: Apache-2.0
"""Explanations of pasted texts: what is recognised, in which order, and what is marked as noise."""

from __future__ import annotations

import random

import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.explain import asking
from aclnn_kvcache.explain import text as searching
from aclnn_kvcache.explain.phrases import PHRASES, compiled, matches
from aclnn_kvcache.explain.text import clean, find

STAMP = "[PID: 4711] 2026-08-01-10:11:12.123.456 "
PLACE = "[FUNC:Check][FILE:op_run.cpp][LINE:99]"


def codes(text):
    return [cause.code for cause in kv.explain(text).causes if not cause.noise]


def noise(text):
    return [cause.code for cause in kv.explain(text).causes if cause.noise]


NOT_FOUND = "aclnnAdd or aclnnAddGetWorkspaceSize not in libopapi.so, or libopapi.so not found"
NO_CONTEXT = f"EE1001: {STAMP}The argument is invalid. Reason: rtGetDevMsg failed, reason=[context pointer null]"
DTYPE = "self not implemented for DT_FLOAT, should be in dtype support list [DT_FLOAT16,]"

CASES = {
    "a number and nothing else": (
        "aclnnRmsNormGetWorkspaceSize failed with aclnnStatus=161001.",
        ["161001"],
        ["a required tensor, array or out-parameter is NULL"],
    ),
    "tiling": ("RuntimeError: aclnnStatus=561002", ["561002"], ["the step of phase 1 that cuts the work"]),
    "a data type": (
        f"{STAMP}AclNN_Parameter_Error(EZ1001): Tensor {DTYPE}.\nret is 161002",
        [DTYPE, "161002", "EZ1001"],
        ["outside the operator's list", "the list in brackets is what the operator takes"],
    ),
    "kernels that are not installed": (
        f"EZ9999: Inner Error!\nEZ9999{STAMP}AclNN_Inner_Error(EZ9999):  Parse dynamic kernel config fail.{PLACE}\n"
        "        TraceBack (most recent call last):\n       error code is 561103",
        ["Parse dynamic kernel config fail", "EZ9999", "561103"],
        ["not your tensors", "install the kernel package of this product"],
    ),
    "the list of kernels": (
        "[ERROR] OP(12,python3):2026-08-01-10:11:12.123.456 [a.cpp:5]Get path of binary_info_config.json failed, "
        "check opp_kernel package",
        ["binary_info_config.json failed, check opp_kernel package"],
        ["the installation, not your tensors"],
    ),
    "an operator that CANN does not have": (
        f"{NOT_FOUND}.",
        [NOT_FOUND],
        ["aclnn-kvcache doctor tells the cases apart"],
    ),
    "a board that does not fit": (
        "aclInit(nullptr) failed: 500000\nEE1001: rtGetDevMsg execute failed, reason is not supported",
        ["rtGetDevMsg execute failed, reason is not supported", "EE1001", "500000"],
        ["board, driver and CANN do not belong together", "not your arguments"],
    ),
    "a thread without a device": (
        "call failed, error code is 107002\n[context pointer null]",
        ["107002"],
        ["the calling thread never set a device"],
    ),
    "a device that cannot be opened": (
        f"{NO_CONTEXT}\naclrtSetDevice failed, ret:507033",
        ["507033"],
        ["busy, no permission, container mount, or version mismatch", "usual noise, not the cause:\n  EE1001: The arg"],
    ),
    "an address out of range": (
        f"EZ9999: {STAMP}The DDR address of the MTE instruction is out of range.\nsynchronize failed: 507015",
        ["DDR address of the MTE instruction is out of range", "507015", "EZ9999"],
        ["synchronise after each launch to find the call"],
    ),
    "a library that is not found": (
        "ImportError: libascendcl.so: cannot open shared object file: No such file or directory",
        ["libascendcl.so: cannot open shared object file"],
        ["source <CANN root>/set_env.sh before starting Python"],
    ),
    "a driver that is not found": (
        "OSError: libascend_hal.so: cannot open shared object file: No such file or directory",
        ["libascend_hal.so: cannot open shared object file"],
        ["the host has no NPU driver"],
    ),
    "mixed releases": (
        "OSError: /opt/x/libopapi.so: undefined symbol: _ZN3opX",
        ["undefined symbol: _ZN3opX"],
        ["use one CANN root; aclnn-kvcache doctor prints path and version of each library"],
    ),
    "a fork": (
        "RuntimeError: Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing",
        ["Cannot re-initialize NPU in forked subprocess"],
        ["use the spawn start method"],
    ),
    "a tensor named beside the general code": (
        f"AclNN_Inner_Error: 561103 ACLNN_ERR_INNER_NULLPTR\n{STAMP}Invalid_Argument_Tensor_Stride(EZ0028): kCache",
        ["EZ0028", "561103"],
        ["in:          Invalid_Argument_Tensor_Stride(EZ0028): kCache"],
    ),
    "an operator called in a thread without a device": (
        f"561103\nEZ9999: {STAMP}aclrtGetDevice failed, errno 107002, context pointer null",
        ["aclrtGetDevice failed, errno 107002", "107002", "561103"],
        ["set the device, or bind the session, in each thread"],
    ),
}
"""Text, codes in the order of the explanation, and words of it."""


@pytest.mark.parametrize("name", CASES)
def test_pasted_text(name):
    text, expected, words = CASES[name]
    assert codes(text) == expected
    explained = str(kv.explain(text))
    for word in words:
        assert word in explained


def test_noise_is_marked_and_last():
    text = f"{NO_CONTEXT}\naclrtSetDevice failed, ret:507033"
    assert noise(text) == ["context pointer null", "EE1001"]
    assert str(kv.explain(text)).count("context pointer null") == 1
    # Alone it is all there is.
    assert noise(NO_CONTEXT) == []
    assert codes(NO_CONTEXT) == ["context pointer null", "EE1001"]


def test_107002_on_a_line_of_noise_gives_way_to_a_clear_status():
    line = "retCode 107002, ctx is NULL"
    assert noise(f"507033\n{line}") == ["107002", "ctx is NULL"]
    assert noise(f"561103\n{line}") == ["ctx is NULL"]
    assert codes(f"561103\n{line}") == ["107002", "561103"]


def test_a_code_that_also_stands_elsewhere_is_no_noise():
    assert noise(f"{NO_CONTEXT}\nEE1001: size 0\n507033") == ["context pointer null"]


def test_one_line_is_ranked_by_what_stands_in_it():
    text = "error code is 561103 EE1001: The argument is invalid. Reason: context is a null pointer, ret 507033"
    assert codes(text) == ["507033", "561103"]
    assert noise(text) == ["context is a null pointer", "EE1001"]
    assert codes("EE1001 context is a null pointer 107002") == ["107002"]
    # A code that names a tensor is never its wording.
    assert codes("EZ0028 561103 context is a null pointer") == ["EZ0028", "561103"]


def test_long_texts_are_looked_at_line_by_different_line(monkeypatch):
    """Times and process numbers make no line another."""
    lines = [f"[ERROR] RUNTIME({n},python3):2026-08-01-10:11:12.{n:03} [api.cc:{n}]{n} ret=507015" for n in range(999)]
    looked_at = []
    monkeypatch.setattr(searching, "matches", lambda line: looked_at.append(line) or [])
    assert [cause.code for cause in find("\n".join(lines))] == ["507015"]
    assert looked_at == ["ret=507015"]


def test_of_a_very_long_text_the_end_counts(monkeypatch):
    monkeypatch.setattr(asking, "LONGEST_TEXT", 20)
    explanation = kv.explain("ret=161002\nret=507015 and more")
    assert (explanation.unread, [cause.code for cause in explanation.causes]) == (10, ["507015"])


def test_repeats_are_told_once_with_their_first_line():
    (cause,) = kv.explain("first: ret=507015\nagain: ret=507015 ACL_ERROR_RT_AICORE_EXCEPTION\n507015").causes
    assert cause.line == "first: ret=507015"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error code is 507015", ["507015"]),
        ("ret:507033,", ["507033"]),
        ("E 507015 507033", ["507015", "507033"]),
        ("the status was 507777", ["507777"]),
        ("507777 tokens", []),
        ("pid 161002, tid=161002, process 161002", []),
        ("it took 507015 us, or 507015ms", []),
        ("507015 bytes, 561103 KiB", []),
        ("pid 7 ret 161002 s", ["161002"]),
        ("rtX answered 507015 us", ["507015"]),
        ("allocated 200000 bytes, then 500000 more", []),
        ("aclInit(nullptr) failed: 500000", ["500000"]),
        ("status 200000", ["200000"]),
        ("1610020 161002x x161002 1.161002 161002.5", []),
        ("at 0x274ea", []),
        ("error code 0x274ea", ["161002"]),
        ("error code 0x7cfff", []),
        ("ACL_SUCCESS ACL_FLOAT ACL_ERROR_NONE", []),
        ("failed with acl_error_rt_no_device", ["207004"]),
        (f"{STAMP}nothing{PLACE}", []),
        ("[PID: 161002] x", []),
        ("[ERROR] OP(161002,python3):2026-08-01-10:11:12.123.456 [a.cc:3]107002 call: it went wrong", []),
        ("[ERROR] OP(12,python3):2026-08-01-10:11:12.123.456 [a.cc:3][NNOP][Run][107002] errno[561103] x", ["561103"]),
    ],
)
def test_which_numbers_are_statuses(text, expected):
    assert codes(f"{text} .") == expected


def test_clean():
    line = "[ERROR] RUNTIME(12,python3):2026-08-01-10:11:12.123.456 [api.cc:12]34 rtX:  went wrong [FUNC:a][LINE:5]"
    assert clean(line) == "rtX: went wrong"
    assert clean(f"EZ9999{STAMP}AclNN_Inner_Error(EZ9999):  x{PLACE}") == "EZ9999 AclNN_Inner_Error(EZ9999): x"


EXAMPLES = [
    DTYPE,
    "Parse dynamic kernel config fail",
    "open binary_info_config.json failed",
    NOT_FOUND,
    "libascend_hal.so: cannot open shared object file",
    "libhccl.so: cannot open shared object file",
    "undefined symbol: aclrtX",
    "libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
    "set_env.sh: line 3: LD_LIBRARY_PATH: unbound variable",
    "Cannot re-initialize NPU in forked subprocess",
    "The DDR address of the MTE instruction is out of range",
    "aivec error exception",
    "rtGetDevMsg is not supported",
    "executor is nullptr",
    "Tried to allocate more than 1EB memory",
    "ViewShape overlap",
    "aclrtGetDevice answered 107002",
    "tsd client open failed",
    "coreDim=0",
    "NPU out of memory. Tried to allocate 2.00 GiB",
    "HBM multi-bit ECC error",
    "open /dev/davinci0: Permission denied",
    "descr is not a valid dtype descriptor: '<f1'",
    "context is a null pointer",
]


def test_every_phrase_has_an_example_that_no_other_matches():
    matched = [[i for i, (_, pattern) in enumerate(compiled()) if pattern.search(text)] for text in EXAMPLES]
    assert matched == [[i] for i in range(len(PHRASES))]
    # The words that are looked for first stand in all that is in these tests, in any case.
    for text in (*EXAMPLES, *(text for text, *_ in CASES.values()), NO_CONTEXT, "GetDevErrMsg", "ctx is null"):
        for line in text.upper().splitlines():
            found = [phrase for phrase, pattern in compiled() if pattern.search(line)]
            assert [phrase for phrase, _ in matches(line)] == found


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.pattern)
def test_every_phrase_says_something(phrase):
    assert min(map(len, (phrase.meaning, phrase.causes, phrase.action))) > 10


@pytest.mark.parametrize(
    "text",
    [
        "executor is fine, workspace is nullified",
        "self is not implemented",
        "libx.so not found",
        "no context was given",
        "the value is out of range",
    ],
)
def test_other_texts_are_not_known(text):
    assert kv.explain(text).causes == ()
    assert str(kv.explain(text)).startswith(f"nothing known in: {text}\n")


def test_any_text_can_be_read():
    noise = random.Random(0)
    pieces = [
        "161002",
        "EZ",
        "0028",
        "\n",
        "[",
        "]",
        "\0",
        "0x",
        "ACL_",
        "ö",
        "[PID: ",
        "so: cannot open",
        "\r",
        " " * 9,
    ]
    for _ in range(300):
        text = "x" + "".join(noise.choice(pieces) for _ in range(40))
        assert str(kv.explain(text))
    assert find("x" * 10**6) == ()
