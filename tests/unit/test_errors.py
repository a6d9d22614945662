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
    ArgumentFacts,
    BundleError,
    ClosedError,
    ContextError,
    DeviceFaultError,
    DeviceUnavailableError,
    ExecutorConsumedError,
    ForkedProcessError,
    KvCacheError,
    LaunchFacts,
    LibraryConflictError,
    LibraryNotFoundError,
    OutOfDeviceMemory,
    OutOfHostMemory,
    RecordWarning,
    SymbolNotFoundError,
    SynchronizeTimeoutError,
    Verdict,
    check,
)
from aclnn_kvcache.rules.finding import Finding
from aclnn_kvcache.status import ADVICE

PLAIN = [
    KvCacheError,
    LibraryNotFoundError,
    LibraryConflictError,
    SymbolNotFoundError,
    AbiMismatchError,
    ClosedError,
    ForkedProcessError,
    ExecutorConsumedError,
    OutOfHostMemory,
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

LAUNCH = LaunchFacts(
    7,
    "aclnnScatter",
    (ArgumentFacts("key", "device", "bfloat16", (2, 3), (8, 1), False), ArgumentFacts("value", "NULL")),
    (("cache_layout", "BNBD"),),
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
    error.attach(detail="asked for 1024 bytes", library="/opt/libascendcl.so", cann_version="9.1.0", launches=(LAUNCH,))
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == str(error)
    assert twin.report() == error.report()
    assert str(twin).splitlines()[0].endswith("; asked for 1024 bytes. What to do: " + ADVICE[207001].action)
    assert (twin.detail, twin.status, twin.library_message) == ("asked for 1024 bytes", 207001, "words")
    assert twin.launches == (LAUNCH,)
    assert twin.__notes__ == error.__notes__


def test_report_has_the_arguments_the_launches_the_library_and_the_log():
    error = AclnnInnerError("aclnnScatterGetWorkspaceSize", 561103)
    facts = {"arguments": LAUNCH.arguments, "attributes": LAUNCH.attributes, "launches": (LAUNCH,)}
    error.attach(**facts, library="/opt/libopapi.so", cann_version="9.1.0", log="/var/log/ascend")
    assert (error.operator, error.phase) == ("aclnnScatter", 1)
    assert error.report().splitlines()[-7:] == [
        "the one launch since the last good synchronise of the stream:",
        "aclnnScatter (launch 7)",
        "  key              device bfloat16      [2, 3] strides [8, 1] not contiguous",
        "  value            NULL",
        "  cache_layout     'BNBD'",
        "library: /opt/libopapi.so, CANN 9.1.0",
        "CANN's log: /var/log/ascend",
    ]
    assert "\n".join(error.__notes__) == "\n".join(error.report().splitlines()[-7:])
    # Without that launch the arguments have a table of their own.
    error.attach(launches=())
    assert error.report().splitlines()[-6] == "arguments of aclnnScatter:"


def test_equal_arguments_of_launches_are_shown_once():
    error = AclError("aclrtSynchronizeStream", 507015)
    other = LAUNCH._replace(number=8, attributes=())
    error.attach(launches=(LAUNCH, other, LAUNCH._replace(number=9), LaunchFacts(10, "x"), LaunchFacts(11, "x")))
    lines = "\n".join(error.notes()).splitlines()
    assert lines[0] == "launches since the last good synchronise of the stream (the last 5):"
    assert [line for line in lines if not line.startswith("  ")][1:] == [
        "aclnnScatter (launch 7)",
        "aclnnScatter (launch 8)",
        "aclnnScatter (launch 9): arguments as in launch 7",
        "x (launch 10)",
        "x (launch 11)",
    ]
    assert len(lines) == 6 + 3 + 2


def test_a_recorded_call_is_named():
    for error in (ArgumentError("key", "x", "y"), AclError("aclInit", 500000), LibraryNotFoundError("gone")):
        text = error.report()
        error.attach(bundle="/a b/c")
        note = "the call was recorded; to make it again: aclnn-kvcache replay '/a b/c'"
        assert error.__notes__[-1] == note
        assert error.report() == f"{text}\n{note}"
        assert pickle.loads(pickle.dumps(error)).bundle == "/a b/c"


def test_a_verdict_stands_in_the_first_line():
    error = AclnnInnerError("aclnnScatter", 561000)
    error.attach(
        verdict=Verdict("device", "Your device: it is an Ascend 910", ("the SoC is Ascend910",), "use another")
    )
    assert error.phase == 2
    assert str(error).splitlines()[0].endswith(". Your device: it is an Ascend 910. What to do: use another")
    assert str(error).splitlines()[1:] == ["  evidence: the SoC is Ascend910"]


def test_old_text_that_a_thread_without_a_context_gets_again_is_dropped():
    old, new = (
        b"[PID: 1] 2026-01-02-03:04:05.006.007 Old(EZ0009): a\n",
        b"[PID: 1] 2026-01-02-03:04:06.006.007 New(EZ0026): b\n",
    )
    assert raised(507000, old).library_message == old.decode().strip()
    assert raised(507000, new + old).library_message == new.decode().strip()
    assert raised(507000, new + old).library_message == ""
    assert raised(507000, None).library_message == ""


def test_two_messages_without_a_time_are_two():
    assert [raised(507000, b"EE1001: the same").library_message for _ in range(2)] == ["EE1001: the same"] * 2


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
        (OutOfHostMemory, MemoryError),
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
        "aclrtMalloc answered 107002 ACL_ERROR_RT_CONTEXT_NULL: calling thread has no current context. What to do: "
        + ADVICE[107002].action,
        f"  usual cause: {ADVICE[107002].causes}",
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
