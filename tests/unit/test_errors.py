# SPDX-License-Identifier: Apache-2.0
"""Exceptions: which class a status becomes, what the text says, and that they survive pickling."""

import copy
import pickle

import pytest

from aclnn_kvcache import errors
from aclnn_kvcache.errors import (
    AbiMismatchError,
    AclError,
    AclnnInnerError,
    AclnnParameterError,
    ArgumentError,
    BundleError,
    ClosedError,
    ContextError,
    DeviceFaultError,
    DeviceUnavailableError,
    ExecutorConsumedError,
    ForkedProcessError,
    KvCacheError,
    LibraryConflictError,
    LibraryNotFoundError,
    OutOfDeviceMemory,
    RecordWarning,
    SymbolNotFoundError,
    SynchronizeTimeoutError,
    check,
)
from aclnn_kvcache.rules.finding import Finding

PLAIN = [
    KvCacheError,
    LibraryNotFoundError,
    LibraryConflictError,
    SymbolNotFoundError,
    AbiMismatchError,
    ClosedError,
    ForkedProcessError,
    ExecutorConsumedError,
]
OF_STATUS = [
    AclError,
    AclnnParameterError,
    AclnnInnerError,
    OutOfDeviceMemory,
    SynchronizeTimeoutError,
    DeviceFaultError,
    DeviceUnavailableError,
    ContextError,
]
FINDINGS = (
    Finding("dtype", ("key",), "key must be float8_e4m3fn, got uint8", 161002, "EZ1001"),
    Finding("dtype", ("value",), "value must be float8_e4m3fn, got int8", 161002, "EZ1001"),
)

EXAMPLES = [
    *(cls("first line\nsecond line") for cls in PLAIN),
    *(cls("aclrtMalloc", 207001, "the library's words") for cls in OF_STATUS),
    ArgumentError("backend", "one of three", "'npu'", "choose one"),
    AclnnParameterError("aclnnScatter", 161002, findings=FINDINGS),
    BundleError("calls/1", "schema", "1", "2"),
    RecordWarning("not recorded"),
]


def raised(status, message=None, api="aclrtSynchronizeStream"):
    with pytest.raises(KvCacheError) as info:
        check(status, api, None if message is None else lambda: message)
    return info.value


def test_the_examples_are_every_class_of_the_module():
    classes = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)}
    assert classes == {type(example) for example in EXAMPLES}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("clone", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_errors_pickle_with_text_and_attributes(error, clone):
    twin = clone(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert twin.args == error.args
    assert vars(twin) == vars(error)


def test_what_was_added_later_pickles_too():
    error = AclError("aclrtMalloc", 207001, "words")
    error.add_detail("1024 bytes were asked for")
    error.requested = 1024
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == str(error)
    assert str(twin).endswith("\n  1024 bytes were asked for")
    assert (twin.requested, twin.status, twin.library_message) == (1024, 207001, "words")


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (LibraryNotFoundError, OSError),
        (LibraryConflictError, OSError),
        (SymbolNotFoundError, OSError),
        (ClosedError, ValueError),
        (ForkedProcessError, RuntimeError),
        (ExecutorConsumedError, RuntimeError),
        (ArgumentError, ValueError),
        (AclnnParameterError, ValueError),
        (OutOfDeviceMemory, MemoryError),
        (SynchronizeTimeoutError, TimeoutError),
    ],
)
def test_builtin_base(cls, builtin):
    assert issubclass(cls, builtin)
    assert issubclass(cls, KvCacheError)


def test_status_0_is_silent_and_reads_no_message():
    check(0, "aclInit", lambda: pytest.fail("the message was read"))


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (161001, AclnnParameterError),
        (161002, AclnnParameterError),
        (561000, AclnnInnerError),
        (561103, AclnnInnerError),
        (207001, OutOfDeviceMemory),
        (207018, OutOfDeviceMemory),
        (507046, SynchronizeTimeoutError),
        (507047, SynchronizeTimeoutError),
        (107001, DeviceUnavailableError),
        (100039, DeviceUnavailableError),
        (207004, DeviceUnavailableError),
        (500000, DeviceUnavailableError),
        (507033, DeviceUnavailableError),
        (107002, ContextError),
        (107003, ContextError),
        (107017, ContextError),
        (507011, DeviceFaultError),
        (507015, DeviceFaultError),
        (507035, DeviceFaultError),
        (507057, DeviceFaultError),
        (507899, DeviceFaultError),
        (100000, AclError),
        (361001, AclError),
        (507000, AclError),
        (999999, AclError),
    ],
)
def test_class_of_a_status(status, cls):
    error = raised(status)
    assert type(error) is cls
    assert (error.status, error.api) == (status, "aclrtSynchronizeStream")


@pytest.mark.parametrize("status", [-1, -(2**31), 2**31, 2**32 + 161001])
def test_statuses_that_no_table_knows_keep_their_number(status):
    error = raised(status)
    assert type(error) is AclError
    assert (error.status, error.name) == (status, "UNKNOWN")
    assert str(error).startswith(f"aclrtSynchronizeStream answered {status} UNKNOWN: ")


def test_text_has_function_code_name_meaning_cause_and_action():
    text = str(raised(107002, api="aclrtMalloc"))
    assert text.splitlines() == [
        "aclrtMalloc answered 107002 ACL_ERROR_RT_CONTEXT_NULL: calling thread has no current context",
        "  usual cause: the calling thread never set a device",
        "  what to do: use the session's methods, which bind it, in each thread",
    ]


def test_the_library_s_message_is_read_once_and_attached():
    reads = []

    def recent():
        reads.append(1)
        return "[PID: 1] Title(EZ0009): Größe\n  Solution: none\n".encode()

    with pytest.raises(AclnnInnerError) as info:
        check(561103, "aclnnScatter", recent)
    assert len(reads) == 1
    assert info.value.library_message == "[PID: 1] Title(EZ0009): Größe\n  Solution: none"
    assert str(info.value).endswith("  the library says:\n    [PID: 1] Title(EZ0009): Größe\n      Solution: none")


@pytest.mark.parametrize("message", [None, b"", b" \n"])
def test_no_message_is_normal(message):
    with pytest.raises(AclError) as info:
        check(507000, "aclrtMalloc", lambda: message)
    assert info.value.library_message == ""
    assert "the library says" not in str(info.value)


def test_a_message_that_is_not_utf_8_does_not_hide_the_error():
    assert raised(507000, b"caf\xe9").library_message == "caf\N{REPLACEMENT CHARACTER}"


def test_findings_name_argument_expected_got_and_what_cann_would_answer():
    error = AclnnParameterError("aclnnScatter", 161002, findings=FINDINGS)
    assert str(error).splitlines() == [
        "aclnnScatter: key must be float8_e4m3fn, got uint8",
        "  also: value must be float8_e4m3fn, got int8",
        "  CANN would answer 161002 ACLNN_ERR_PARAM_INVALID. Nothing was launched and nothing was changed.",
    ]
    assert error.findings == FINDINGS
    assert (error.api, error.status, error.name) == ("aclnnScatter", 161002, "ACLNN_ERR_PARAM_INVALID")


def test_findings_that_cann_does_not_check_say_so():
    error = AclnnParameterError("aclnnScatter", 0, findings=[Finding("bounds", ("key",), "key reaches too far")])
    assert "CANN does not check this and would go on." in str(error)
    assert error.status == 0


def test_argument_error_names_argument_expected_got_and_action():
    error = ArgumentError("padding", "'error' or 'skip'", "'pad'", "see the documentation")
    assert str(error) == "padding: expected 'error' or 'skip', got 'pad'; see the documentation"
    assert str(ArgumentError("x", "a", "b")) == "x: expected a, got b"
    assert (error.argument, error.expected, error.got, error.action) == (
        "padding",
        "'error' or 'skip'",
        "'pad'",
        "see the documentation",
    )
