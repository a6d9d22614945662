# SPDX-License-Identifier: Apache-2.0
"""C declarations become ctypes signatures: those of our headers, and the ways in which CANN's headers write them."""

import ctypes
import re
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from aclnn_kvcache.native.prototypes import HEADERS, INCLUDE, Declarations, declarations, normalise

SIMPLE = {
    c_int,
    c_int32,
    c_int64,
    c_uint32,
    c_uint64,
    ctypes.c_uint16,
    c_size_t,
    c_float,
    c_void_p,
    c_char_p,
}
POINTERS = {
    POINTER(t) for t in (c_int, c_int32, c_int64, c_uint32, c_uint64, c_size_t, c_float, c_bool, c_void_p, c_char_p)
} | {POINTER(POINTER(c_int64))}


def signature(name):
    prototype = declarations().prototypes[name]
    return prototype.result, [parameter.ctype for parameter in prototype.parameters]


def read(text):
    found = Declarations()
    found.read("aclnnop/aclnn_example.h", "typedef int32_t aclnnStatus; typedef struct aclTensor aclTensor;\n" + text)
    return found


# --- our headers


def test_every_function_of_our_headers_is_found():
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (INCLUDE / header).read_text(encoding="utf-8"), flags=re.S)
        names = set(re.findall(r"\b(acl\w+)\(", text, flags=re.I))
        found = {name for name, prototype in declarations().prototypes.items() if prototype.header == header}
        assert names == found, header
    assert len(declarations().prototypes) > 120


@pytest.mark.parametrize("name", sorted(declarations().prototypes))
def test_every_function_has_result_and_argument_types(name):
    prototype = declarations().prototypes[name]
    assert prototype.result in SIMPLE or (prototype.c_result, prototype.result) == ("void", None)
    for parameter in prototype.parameters:
        assert parameter.ctype in SIMPLE | POINTERS | {POINTER(c_void_p)}, parameter
    names = [parameter.name for parameter in prototype.parameters]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", sorted(declarations().prototypes))
def test_statuses_are_signed_32_bit(name):
    result, _ = signature(name)
    if declarations().prototypes[name].c_result in ("aclError", "aclnnStatus"):
        assert result(-1).value == -1
        assert ctypes.sizeof(result) == 4


@pytest.mark.parametrize(
    ("name", "result", "arguments"),
    [
        ("aclInit", c_int, [c_char_p]),
        ("aclFinalize", c_int, []),
        ("aclGetRecentErrMsg", c_char_p, []),
        ("aclFloat16ToFloat", c_float, [ctypes.c_uint16]),
        ("aclrtMalloc", c_int, [POINTER(c_void_p), c_size_t, c_int]),
        ("aclrtMemcpy", c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_int]),
        ("aclrtCreateEvent", c_int, [POINTER(c_void_p)]),
        ("aclrtEventElapsedTime", c_int, [POINTER(c_float), c_void_p, c_void_p]),
        ("aclrtStreamQuery", c_int, [c_void_p, POINTER(c_int)]),
        ("aclrtGetMemInfo", c_int, [c_int, POINTER(c_size_t), POINTER(c_size_t)]),
        ("aclrtPointerGetAttributes", c_int, [c_void_p, c_void_p]),
        ("aclrtSetExceptionInfoCallback", c_int, [c_void_p]),
        ("aclGetViewShape", c_int32, [c_void_p, POINTER(POINTER(c_int64)), POINTER(c_uint64)]),
        ("aclGetRawTensorAddr", c_int32, [c_void_p, POINTER(c_void_p)]),
        ("aclCreateTensorList", c_void_p, [POINTER(c_void_p), c_uint64]),
        ("aclCreateBoolArray", c_void_p, [POINTER(c_bool), c_uint64]),
        ("aclCreateFloatArray", c_void_p, [POINTER(c_float), c_uint64]),
        (
            "aclCreateTensor",
            c_void_p,
            [
                POINTER(c_int64),
                c_uint64,
                c_int,
                POINTER(c_int64),
                c_int64,
                c_int,
                POINTER(c_int64),
                c_uint64,
                c_void_p,
            ],
        ),
        (
            "aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize",
            c_int32,
            [*[c_void_p] * 7, c_char_p, POINTER(c_uint64), POINTER(c_void_p)],
        ),
        ("aclnnScatterPaKvCacheWithKScale", c_int32, [c_void_p, c_uint64, c_void_p, c_void_p]),
        ("aclsim_version", c_char_p, []),
        ("aclsim_hold_streams", None, []),
    ],
)
def test_signature(name, result, arguments):
    assert signature(name) == (result, arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACL_FORMAT_UNDEFINED", -1),
        ("ACL_FORMAT_ND", 2),
        ("ACL_FLOAT8_E4M3FN", 36),
        ("ACL_STREAM_STATUS_RESERVED", 0xFFFF),
        ("ACL_MEM_ACCESS_USER_SPACE_READONLY", 0x100000),
        ("ACL_STREAM_FAST_SYNC", 2),
        ("ACL_HOST_REG_PINNED", 0x10000000),
        ("ACLNN_ERR_PARAM_INVALID", 161002),
        ("ACLSIM_COUNTERS", 13),
    ],
)
def test_constants_of_enums_and_macros(name, value):
    assert declarations().constants[name] == value


def test_prototypes_read_back_as_c():
    prototypes = declarations().prototypes
    assert str(prototypes["aclFinalize"]) == "aclError aclFinalize(void)"
    assert str(prototypes["aclGetRecentErrMsg"]) == "char *aclGetRecentErrMsg(void)"
    assert str(prototypes["aclnnScatterPaKvCacheWithKScale"]) == (
        "aclnnStatus aclnnScatterPaKvCacheWithKScale(void *workspace, uint64_t workspaceSize, "
        "aclOpExecutor *executor, aclrtStream stream)"
    )


# --- the ways of CANN's headers

CANN_HEADER = """\
/**
 * Copyright; aclnnStatus commentedOut(int notThere);
 */
#ifndef ACLNN_EXAMPLE_H_
#define ACLNN_EXAMPLE_H_
#include "aclnn/acl_meta.h" // see aclnn/*.h
#define ACLNN_API __attribute__((visibility("default")))
#define CALL(x) \\
    do_something(x); \\
    something_else(x);
#ifdef __cplusplus
extern "C" {
#endif
static const int ACL_EXAMPLE_NONE = 0;
static const int32_t ACL_EXAMPLE_FAILED = 100000;
typedef enum aclExampleMode {
    ACL_EXAMPLE_A = 0,  // the first, (default);
    ACL_EXAMPLE_B,
    ACL_EXAMPLE_C = 0x10,
    ACL_EXAMPLE_D
} aclExampleMode;
typedef struct aclOpExecutor aclOpExecutor;
typedef struct tagPair { union { int32_t a; float b; } value; void (*release)(void *); } Pair;
typedef void (*aclExampleCallback)(int32_t deviceId, void *args);

%s
#ifdef __cplusplus
}
#endif
#endif  // ACLNN_EXAMPLE_H_
"""


@pytest.mark.parametrize(
    "before",
    [
        "",
        "extern ",
        "ACL_FUNC_VISIBILITY ",
        "ACLNN_API ",
        "ACLNN_API extern ",
        '__attribute__((visibility("default"))) ',
        '__attribute__((visibility("default")))\n',
        'ACL_DEPRECATED_MESSAGE("aclnnOld is deprecated, use aclnnNew instead")\nACL_FUNC_VISIBILITY ',
        "/* aclnnStatus aclnnExample(int); */ ",
        "// aclnnStatus aclnnExample(int);\n",
        'extern "C" ',
        'extern "C" __attribute__((visibility("default"))) ',
    ],
)
def test_what_stands_before_a_declaration_is_no_part_of_its_type(before):
    declaration = "aclnnStatus aclnnExample(const aclTensor *x, aclExampleMode mode,\n    aclOpExecutor **executor);"
    found = read(CANN_HEADER % (before + declaration))
    assert list(found.prototypes) == ["aclnnExample"]
    prototype = found.prototypes["aclnnExample"]
    assert (prototype.result, prototype.c_result) == (c_int32, "aclnnStatus")
    assert [(p.name, p.c_type, p.ctype) for p in prototype.parameters] == [
        ("x", "aclTensor *", c_void_p),
        ("mode", "aclExampleMode", c_int),
        ("executor", "aclOpExecutor **", POINTER(c_void_p)),
    ]
    assert prototype.header == "aclnnop/aclnn_example.h"


def test_constants_count_on_in_enums():
    constants = read(CANN_HEADER % "").constants
    assert {name: constants[f"ACL_EXAMPLE_{name}"] for name in "ABCD"} == {"A": 0, "B": 1, "C": 16, "D": 17}


@pytest.mark.parametrize(
    ("c_type", "ctype"),
    [
        ("aclTensor *", c_void_p),
        ("const aclTensor*", c_void_p),
        ("const aclTensor * const *", POINTER(c_void_p)),
        ("struct aclTensor *", c_void_p),
        ("void *", c_void_p),
        ("void **", POINTER(c_void_p)),
        ("const char *", c_char_p),
        ("char *", c_char_p),
        ("char **", POINTER(c_char_p)),
        ("int64_t **", POINTER(POINTER(c_int64))),
        ("uint64_t *", POINTER(c_uint64)),
        ("bool", c_bool),
        ("float", c_float),
        ("double", ctypes.c_double),
        ("int8_t", ctypes.c_int8),
        ("aclnnStatus", c_int32),
        ("aclExampleMode *", POINTER(c_int)),
        ("aclExampleCallback", c_void_p),
        ("Pair *", c_void_p),
    ],
)
def test_c_type(c_type, ctype):
    found = read(CANN_HEADER % f"aclnnStatus aclnnExample({c_type} x);")
    assert [p.ctype for p in found.prototypes["aclnnExample"].parameters] == [ctype]


@pytest.mark.parametrize("nothing", ["", "void", " void "])
def test_a_function_without_arguments(nothing):
    assert read(f"aclnnStatus aclnnExample({nothing});").prototypes["aclnnExample"].parameters == ()


@pytest.mark.parametrize(
    ("declaration", "named"),
    [
        ("aclnnStatus f(aclMystery *x);", "'aclMystery'"),
        ("aclMystery f(void);", "'aclMystery'"),
        ("aclnnStatus f(unsigned int x);", "'unsigned int'"),
        ("aclnnStatus f(long long x);", "'long long'"),
        ("ACLNN_API aclMystery f(void);", "'aclMystery'"),
        ("aclnnStatus f(aclTensor x);", "'aclTensor' can only be passed by pointer"),
        ("aclnnStatus f(int64_t dims[4]);", "'int64_t dims[4]' of f"),
    ],
)
def test_a_type_that_cannot_be_passed_is_an_error_that_names_it(declaration, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        read(declaration)


def test_types_ignore_const_and_spacing_and_see_everything_else():
    def types(arguments):
        prototype = read(f"aclnnStatus f({arguments});").prototypes["f"]
        return prototype.c_result, [parameter.c_type for parameter in prototype.parameters]

    assert types("const aclTensor *x, int64_t n") == types("aclTensor* y,\n  const int64_t m")
    assert types("aclTensor *x") != types("aclTensor **x")
    assert types("int64_t n") != types("int32_t n")
    assert types("aclTensor *x") != types("aclTensor *x, aclTensor *y")


@pytest.mark.parametrize(
    ("c_type", "normal"),
    [
        ("const char *", "char *"),
        ("const aclTensor *const *", "aclTensor **"),
        ("uint64_t", "uint64_t"),
        ("ACL_FUNC_VISIBILITY const char*", "char *"),
        ("FILE *", "FILE *"),
    ],
)
def test_normalise(c_type, normal):
    assert normalise(c_type) == normal
