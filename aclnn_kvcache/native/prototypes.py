# SPDX-License-Identifier: Apache-2.0
"""Reads C declarations into ctypes signatures.

The headers in ``aclnn_kvcache/include`` are the one statement of the ABI: the simulator compiles against them and
this module reads the same text. It understands the C that those headers and CANN's operator headers are written in:
typedefs, enums, integer macros and function declarations, with attributes and macros in front; no expressions.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

SCALARS: Mapping[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "int8_t": ctypes.c_int8,
    "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
}

OPAQUE = object()  # a struct that is only ever passed by pointer

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(0[xX][0-9a-fA-F]+|\d+)[uUlL]*[ \t]*$", re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.M)
_LINKAGE = re.compile(r'extern\s+"C"\s*(?:\{|(?=\w))')
_ENUM = re.compile(r"(?:typedef\s+)?enum\s*(?:\w+\s*)?\{(.*?)\}\s*(\w*)\s*;", re.S)
_STRUCT = re.compile(r"typedef\s+(?:struct|union)\s*(?:\w+\s*)?\{(?:[^{}]|\{[^{}]*\})*\}\s*(\w+)\s*;")
_CALLBACK = re.compile(r"typedef\s+[\w\s*]+\(\s*\*\s*(\w+)\s*\)\s*\([^)]*\)\s*;")
_TYPEDEF = re.compile(r"typedef\s+([\w\s*]+?)\b(\w+)\s*;")
_FUNCTION = re.compile(r"([A-Za-z_][\w\s*]*?[\s*])(\w+)\s*\(([^()]*)\)\s*;")
_PARAMETER = re.compile(r"(.*?)(\w+)\s*$", re.S)


class Parameter(NamedTuple):
    name: str
    c_type: str
    """The type as C writes it, without ``const``, one space before the stars."""
    ctype: Any


class Prototype(NamedTuple):
    name: str
    c_result: str
    result: Any
    parameters: tuple[Parameter, ...]
    header: str
    """Include path of the declaring header, such as ``acl/acl_rt.h``."""

    def __str__(self) -> str:
        arguments = ", ".join(_spell(p.c_type, p.name) for p in self.parameters) or "void"
        return f"{_spell(self.c_result, self.name)}({arguments})"


class Declarations:
    """Everything that a set of headers declares."""

    def __init__(self) -> None:
        self.prototypes: dict[str, Prototype] = {}
        self.constants: dict[str, int] = {}
        self._types: dict[str, Any] = dict(SCALARS)

    def read(self, header: str, text: str) -> None:
        """Adds the declarations of one header; types declared earlier are known to it.

        Raises ValueError for a type that no header declared.
        """
        text = _COMMENT.sub(" ", text)
        self.constants.update((name, int(value, 0)) for name, value in _MACRO.findall(text))
        text = _LINKAGE.sub(" ", _DIRECTIVE.sub(" ", text))
        text = _ENUM.sub(self._enum, text)
        text = _STRUCT.sub(self._opaque, text)
        text = _CALLBACK.sub(self._pointer, text)
        text = _TYPEDEF.sub(self._alias, text)
        for result, name, arguments in _FUNCTION.findall(text):
            self.prototypes[name] = self._prototype(header, result, name, arguments)

    def _enum(self, match: re.Match[str]) -> str:
        value = -1
        for member in filter(str.strip, match.group(1).split(",")):
            name, _, number = (part.strip() for part in member.partition("="))
            value = int(number, 0) if number else value + 1
            self.constants[name] = value
        if match.group(2):
            self._types[match.group(2)] = ctypes.c_int
        return " "

    def _opaque(self, match: re.Match[str]) -> str:
        self._types[match.group(1)] = OPAQUE
        return " "

    def _pointer(self, match: re.Match[str]) -> str:
        self._types[match.group(1)] = ctypes.c_void_p
        return " "

    def _alias(self, match: re.Match[str]) -> str:
        target, name = match.groups()
        is_tag = target.split()[0] in ("struct", "union")
        self._types[name] = OPAQUE if is_tag else self._ctype(normalise(target))
        return " "

    def _prototype(self, header: str, result: str, name: str, arguments: str) -> Prototype:
        parameters = []
        if arguments.strip() not in ("", "void"):
            for argument in arguments.split(","):
                match = _PARAMETER.match(argument)
                if match is None:
                    raise ValueError(f"{header}: cannot read parameter {argument.strip()!r} of {name}")
                c_type = normalise(match.group(1))
                parameters.append(Parameter(match.group(2), c_type, self._ctype(c_type)))
        c_result = normalise(result)
        return Prototype(name, c_result, self._ctype(c_result), tuple(parameters), header)

    def _ctype(self, c_type: str) -> Any:
        base, depth = c_type.rstrip("* "), c_type.count("*")
        if base not in self._types:
            raise ValueError(f"no header declares the C type {base!r}")
        ctype = self._types[base]
        if depth and base == "char":
            ctype, depth = ctypes.c_char_p, depth - 1
        elif depth and (ctype is None or ctype is OPAQUE):
            ctype, depth = ctypes.c_void_p, depth - 1
        if ctype is OPAQUE:
            raise ValueError(f"the C type {base!r} can only be passed by pointer")
        for _ in range(depth):
            ctype = ctypes.POINTER(ctype)
        return ctype


def normalise(c_type: str) -> str:
    """A C type without qualifiers and with its stars together: ``const char *`` becomes ``char *``.

    Words in capitals before a type, such as ``ACL_FUNC_VISIBILITY``, are macros of CANN's headers and no part of it.
    """
    words = [word for word in re.findall(r"\w+", c_type) if word not in ("const", "extern", "struct", "enum")]
    names = [word for word in words if not word.isupper()] or words
    return " ".join([*names, "*" * c_type.count("*")]).rstrip()


def _spell(c_type: str, name: str) -> str:
    return f"{c_type}{name}" if c_type.endswith("*") else f"{c_type} {name}"


INCLUDE = Path(__file__).parents[1] / "include"

HEADERS = (
    "acl/error_codes/rt_error_codes.h",
    "acl/acl_base_rt.h",
    "acl/acl_rt.h",
    "acl/acl.h",
    "aclnn/acl_meta.h",
    "aclnn/aclnn_base.h",
    "opdev/op_errno.h",
    "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h",
    "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h",
    "aclsim/aclsim.h",
)
"""Our headers, each after the ones whose types it uses."""


def read_headers(headers: Iterable[str]) -> Declarations:
    """The declarations of the named headers of this package."""
    declarations = Declarations()
    for header in headers:
        declarations.read(header, (INCLUDE / header).read_text(encoding="utf-8"))
    return declarations


@lru_cache(maxsize=1)
def declarations() -> Declarations:
    """The declarations of all our headers, read once."""
    return read_headers(HEADERS)
