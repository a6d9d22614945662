# SPDX-License-Identifier: Apache-2.0
"""Codes in CANN's messages (EZ0028, EE1001, EH0001): two characters for the module and four digits, as data.

A message carries the text that matters after the code; which tensor or function it is about stands there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Message(NamedTuple):
    code: str
    title: str
    meaning: str
    causes: str
    action: str
    vague: bool
    """Whether other codes of the same failure say more."""


class Group(NamedTuple):
    """Codes that one advice serves."""

    causes: str
    action: str
    rows: tuple[tuple[str, str, str], ...]
    """Code, title and meaning of each."""
    vague: bool = False


_RULES = "`aclnn-kvcache explain --rules OPERATOR` prints what must hold, `aclnn-kvcache check` what is broken"

GROUPS = (
    Group(
        causes="a tensor's shape, rank, size or stride is not what the operator takes, or two tensors disagree",
        action=f"correct the tensor that the message names; {_RULES}",
        rows=(
            ("EZ0001", "Invalid_Input_Shape", "the shape of an input is wrong"),
            ("EZ0005", "Invalid_Input_ShapeSize", "an input has the wrong number of elements"),
            ("EZ0008", "Invalid_Argument_Tensor_Shape", "the shape of a tensor is wrong"),
            ("EZ0009", "Invalid_Argument_Tensor_Shape", "the shape of a tensor is wrong, for the reason given"),
            ("EZ0010", "Invalid_Argument_Tensor_Shape", "the shapes of several tensors do not fit together"),
            ("EZ0011", "Invalid_Argument_Tensor_Shape_Dim", "a tensor has the wrong number of dimensions"),
            ("EZ0012", "Invalid_Argument_Tensor_Shape_Dim", "a tensor has the wrong number of dimensions"),
            ("EZ0015", "Invalid_Argument_Tensor_Shape_Size", "a tensor has the wrong number of elements"),
            ("EZ0028", "Invalid_Argument_Tensor_Stride", "a view has strides that the kernel cannot walk"),
            ("EZ1007", "Invalid_Argument_Tensor_Input_Shape", "one extent of an input is wrong"),
        ),
    ),
    Group(
        causes="a private format such as FRACTAL_NZ where the operator takes plain layouts only",
        action="create the tensor with ACL_FORMAT_ND",
        rows=(
            ("EZ0006", "Invalid_Input_Format", "the format of an input is not supported"),
            ("EZ0017", "Invalid_Argument_Tensor_Format", "the format of a tensor is not supported"),
        ),
    ),
    Group(
        causes="a data type outside the operator's list for this product, or two tensors of different types",
        action=f"convert the tensor that the message names, on purpose: nothing is converted silently; {_RULES}",
        rows=(
            ("EZ0007", "Invalid_Input_Dtype", "the data type of an input is not supported"),
            ("EZ0019", "Invalid_Argument_Tensor_Dtype", "the data type of a tensor is not supported"),
            ("EZ0020", "Invalid_Argument_Tensor_Dtype", "the data type of a tensor is not supported"),
            ("EZ1006", "Not_Supported_Data_Type", "the data type is outside the supported range"),
        ),
    ),
    Group(
        causes="an attribute, a list, a head count or a required argument is not what the operator takes",
        action=f"correct the argument that the message names; {_RULES}",
        rows=(
            ("EZ0002", "Invalid_Attr", "the value of an attribute is wrong"),
            ("EZ0003", "Invalid_Attr_Size", "an attribute has the wrong number of values"),
            ("EZ0004", "Invalid_Input", "an input is wrong"),
            ("EZ0024", "Invalid_Argument", "a value is beyond a bound"),
            ("EZ0025", "Invalid_Argument", "a list has the wrong length"),
            ("EZ0026", "Invalid_Argument", "a value is wrong; also said of a tensor that is NULL or empty"),
            ("EZ0027", "Invalid_Argument", "several values do not fit together"),
            ("EZ1010", "Invalid_Argument", "a value is wrong, for the reason given"),
            ("EZ1011", "Invalid_Argument_Null_Pointer", "an argument is NULL"),
            ("EZ1012", "Invalid_Argument", "a value is beyond a limit"),
        ),
    ),
    Group(
        causes="an argument is NULL or wrong; older checks report every status 161xxx under this one code",
        action=f"read which argument the message names; {_RULES}",
        rows=(("EZ1001", "AclNN_Parameter_Error", "an argument of an aclnn call was refused"),),
        vague=True,
    ),
    Group(
        causes="set_env.sh was not sourced, or a variable names a folder that is not there",
        action="source set_env.sh of the CANN root in use, and look at the variable that the message names",
        rows=(
            ("EZ1002", "Config_Error_Invalid_Environment_Variable", "an environment variable is missing or wrong"),
            ("EE2002", "Config_Error_Invalid_Environment_Variable", "an environment variable has a wrong value"),
        ),
    ),
    Group(
        causes="a file of the operator package or a configuration is missing, unreadable or malformed",
        action="look at the file that the message names; if it belongs to CANN, install that package again",
        rows=(
            ("EZ1003", "File_Operation_Error_Open", "a file cannot be opened"),
            ("EZ1004", "File_Operation_Error_Parse", "a file cannot be parsed"),
            ("EZ1005", "File_Operation_Error_Parse", "a file cannot be parsed"),
            ("EH0003", "File_Operation_Error_Invalid_Path", "a path is wrong"),
            ("EH0004", "File_Operation_Error", "a file cannot be used"),
            ("EE1014", "File_Operation_Error_Parse", "a file cannot be parsed"),
        ),
    ),
    Group(
        causes="an inner operator or a kernel is missing from the installed operator package; not your tensors",
        action="install the operator and kernel packages of this product and release (see aclnn-kvcache doctor)",
        rows=(
            ("EZ1008", "Execution_Error", "tiling of an operator could not run"),
            ("EZ1009", "Execution_Error", "an operator could not run"),
            ("EZ1013", "Config_Error", "the description of an operator's kernels was not found"),
            ("EZ1014", "Execution_Error", "shape inference of an operator could not run"),
        ),
    ),
    Group(
        causes="a kernel read or wrote outside memory, here or in an earlier queued call",
        action="check slots, positions, seq_lens, rows of cos_sin, strides and buffer sizes of everything queued since "
        "the last synchronise",
        rows=(("EZ2001", "Execution_Error", "a kernel failed on an AI core"),),
    ),
    Group(
        causes="a runtime call inside the operator failed; status 361xxx",
        action="look for the runtime's own code (EE...., 107xxx, 207xxx, 507xxx) in the same text",
        rows=(("EZ9903", "AclNN_Runtime_Error", "the runtime failed inside an aclnn call"),),
        vague=True,
    ),
    Group(
        causes="whatever made a step inside fail: status 561xxx; the reason stands in the lines below it",
        action="read the indented lines under TraceBack; a code EZ00xx there is about a tensor",
        rows=(("EZ9999", "AclNN_Inner_Error", "an aclnn call failed inside"),),
        vague=True,
    ),
    Group(
        causes="an argument of an acl function is NULL, out of range or of the wrong kind",
        action="look at the function and the argument that the message names",
        rows=(
            ("EH0001", "Invalid_Argument", "a value is wrong, for the reason given"),
            ("EH0002", "Invalid_Argument_Null_Pointer", "an argument is NULL"),
            ("EH0005", "Invalid_Argument", "an argument of image preprocessing (AIPP) is wrong"),
            ("EH0007", "Invalid_Argument", "a value is not among those that the function takes"),
            ("EH0008", "Invalid_Argument_Null_Pointer", "an argument is NULL"),
            ("EH0009", "Invalid_Argument", "a value is wrong, for the reason given"),
            ("EH0012", "Invalid_Argument", "an argument is wrong, for the reason given"),
            ("EH0014", "Invalid_Argument_Null_Pointer", "several arguments are NULL"),
            ("EE1003", "Invalid_Argument", "a value is not among those that the function takes"),
            ("EE1004", "Invalid_Argument_Null_Pointer", "an argument is NULL"),
            ("EE1011", "Invalid_Argument", "a value is wrong, for the reason given"),
            ("EE1012", "Invalid_Argument", "a value is wrong, for the reason given"),
        ),
    ),
    Group(
        causes="the product, the driver or this release does not have the function, or not with these options",
        action="compare product, driver and release of CANN with what the function asks for (aclnn-kvcache doctor)",
        rows=(
            ("EH0006", "Not_Supported", "a feature is not supported"),
            ("EH0011", "Not_Supported", "the function is not supported"),
            ("EE1005", "Not_Supported", "the function is not supported"),
            ("EE1006", "Not_Supported", "the function does not support this kind of object or argument"),
            ("EE1016", "Not_Supported", "the function is not supported, for the reason given"),
        ),
    ),
    Group(
        causes="the host is out of memory, or a call of the operating system failed",
        action="look at the memory of the host, at the limits of the container, and at the errno in the message",
        rows=(
            ("EH0010", "Resource_Error_Insufficient_Host_Memory", "host memory is exhausted"),
            ("EH0013", "Invalid_Argument", "a function of the C library failed"),
            ("EE1013", "Resource_Error_Insufficient_Host_Memory", "host memory is exhausted"),
        ),
    ),
    Group(
        causes=(
            "an argument of a runtime call is wrong; but the same code heads failures that have nothing to do with "
            "arguments, such as a device that cannot be opened"
        ),
        action="look at the status and the other codes first, and at this one only if they say nothing",
        rows=(("EE1001", "Invalid_Argument", "the runtime refused an argument, or so it says"),),
        vague=True,
    ),
    Group(
        causes="queued work did not end in the time given",
        action="raise the timeout, or look for a wait that nothing satisfies",
        rows=(("EE1002", "Execution_Error_Stream_Synchronize_Timeout", "a synchronise timed out"),),
    ),
    Group(
        causes="a stream or event of another device or context, or a handle that was destroyed",
        action="use handles of one session together, and keep them open for as long as they are used",
        rows=(
            ("EE1010", "Execution_Error_Invalid_Context", "the object belongs to another context"),
            ("EE1017", "Invalid_Argument", "the handle is not valid"),
        ),
    ),
    Group(
        causes="the driver is of a release that does not go with this CANN",
        action="install the driver that the release of CANN asks for; aclnn-kvcache doctor prints both versions",
        rows=(("EE1015", "Package_Error_Incorrect_Driver_Version", "driver and CANN do not belong together"),),
    ),
    Group(
        causes="calls in the wrong order: twice, too early, or after the end",
        action="look at what the function named in the message asks to be called before it",
        rows=(("EE1018", "Invalid_Argument_API_Call_Sequence", "the function was called out of order"),),
    ),
    Group(
        causes="the runtime could not do it, for the reason given in the message",
        action="read the reason and the status beside it; the status has the better explanation",
        rows=(
            ("EE1019", "Execution_Error", "a runtime call failed"),
            ("EE1020", "Invalid_Argument", "the runtime refused an argument"),
            ("EE1021", "Resource_Error", "memory, streams, events or other resources are exhausted"),
            ("EE1022", "Invalid_Argument", "the runtime refused an argument"),
            ("EE1023", "Resource_Error", "a resource is exhausted or cannot be used"),
        ),
        vague=True,
    ),
    Group(
        causes="captured graphs, models or a profiler are in use; the operators of this package need none",
        action="look at the component that uses them",
        rows=(
            ("EE1007", "Resource_Error_Bind_Stream", "a stream could not be bound to a model"),
            ("EE1009", "Execution_Error_Model", "a model failed"),
            ("EE4001", "", "a model could not be bound"),
            ("EE4002", "", "a model could not be unbound"),
            ("EE4004", "", "profiling failed"),
        ),
    ),
    Group(
        causes="a failure inside the module, which often follows from one reported elsewhere",
        action="look at the status and at codes that do not end in 9999; else keep the log for the vendor",
        rows=(
            ("EE9999", "", "the runtime failed inside"),
            ("EH9999", "", "the acl layer failed inside"),
        ),
        vague=True,
    ),
)

MODULES = {"EZ": "aclnn", "EE": "the runtime", "EH": "the acl layer"}
"""By the first two characters."""


@lru_cache(maxsize=1)
def known_messages() -> dict[str, Message]:
    """All known codes."""
    return {row[0]: Message(*row, group.causes, group.action, group.vague) for group in GROUPS for row in group.rows}


def describe_message(code: str) -> Message:
    """What a code means; of an unknown one, what its letters and digits alone say."""
    known = known_messages().get(code)
    if known:
        return known
    module = MODULES.get(code[:2], "another module of CANN")
    causes, action = "this code is in no list of CANN 9.1", "read the text behind the code, and the status beside it"
    says = f"a message of {module}"
    if code.startswith("EZ00"):
        says, action = "an operator refused an argument", f"correct what the text names; {_RULES}"
    if code.endswith("9999"):
        says = f"an internal failure of {module}"
    if code.endswith("8888"):
        says = f"an internal check of parameters in {module}"
    return Message(code, "", says, causes, action, vague=True)
