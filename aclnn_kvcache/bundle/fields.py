# SPDX-License-Identifier: Apache-2.0
"""JSON from a stranger, field by field: every surprise is a BundleError that names the field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple, NoReturn

from aclnn_kvcache.errors import BundleError

INTEGER = 2**62
"""Integers are below this, and above its negative: sums and products of few of them are no surprise to anybody."""
DIGITS = 19
SHOWN = 80


class Field(NamedTuple):
    """A value of the document, with its place."""

    bundle: str
    name: str
    value: Any

    def fail(self, expected: str, got: str | None = None) -> NoReturn:
        raise BundleError(self.bundle, self.name, expected, _short(self.value) if got is None else got)

    @property
    def is_null(self) -> bool:
        return self.value is None

    def object(self, required: Collection[str] = (), optional: Collection[str] = ()) -> dict[str, Field]:
        """Its fields: all those required, and none but the optional ones beside them."""
        known = (*required, *optional)
        fields = self.mapping()
        for key in fields:
            if key not in known:
                self.fail(f"no fields but {', '.join(known)}", _short(key))
        for key in required:
            if key not in fields:
                self.fail(f"a field {key!r}", "none of that name")
        return fields

    def mapping(self) -> dict[str, Field]:
        """Its fields, whatever their names."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        prefix = f"{self.name}." if self.name else ""
        return {
            key: Field(self.bundle, prefix + (key if key.isidentifier() else _short(key)), value)
            for key, value in self.value.items()
        }

    def items(self, most: int) -> list[Field]:
        if not isinstance(self.value, list) or len(self.value) > most:
            self.fail(f"a list of at most {most}")
        return [Field(self.bundle, f"{self.name}[{i}]", value) for i, value in enumerate(self.value)]

    def text(self, pattern: str = ".*", meaning: str = "text") -> str:
        if not isinstance(self.value, str) or not re.fullmatch(pattern, self.value, re.S):
            self.fail(meaning)
        return str(self.value)

    def line(self) -> str:
        """Text that can be shown as it is."""
        if not self.text().isprintable():
            self.fail("one line of printable text")
        return str(self.value)

    def choice(self, allowed: Collection[str]) -> str:
        if not isinstance(self.value, str) or self.value not in allowed:
            self.fail(f"one of {', '.join(allowed)}")
        return str(self.value)

    def integer(self, low: int = 1 - INTEGER, high: int = INTEGER - 1) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            self.fail(f"an integer from {low} to {high}")
        return int(self.value)

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail("true or false")
        return bool(self.value)

    def integers(self, most: int) -> tuple[int, ...]:
        return tuple(item.integer() for item in self.items(most))

    def number(self) -> float:
        """A finite number; the others are the texts "nan", "inf" and "-inf", since JSON has none."""
        if isinstance(self.value, str) and self.value in ("nan", "inf", "-inf"):
            return float(self.value)
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            self.fail('a number, "nan", "inf" or "-inf"')
        return float(self.value)


def parse(bundle: str, data: bytes) -> Field:
    """The document. Raises BundleError for what is no JSON, not UTF-8, has a key twice or numbers out of bounds."""
    whole = Field(bundle, "", data)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                whole.fail("every key once in an object", f"{_short(key)} twice")
            found[key] = value
        return found

    def integer(text: str) -> int:
        if len(text) > DIGITS + 1:
            whole.fail(f"integers of at most {DIGITS} digits", f"one of {len(text)}")
        return int(text)

    def real(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            whole.fail("numbers that a float holds", _short(text))
        return value

    def constant(text: str) -> NoReturn:
        whole.fail("numbers that JSON has", text)

    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=unique, parse_int=integer, parse_float=real, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise BundleError(bundle, "", "JSON in UTF-8", f"byte {data[error.start]:#x} at {error.start}") from error
    except RecursionError as error:
        raise BundleError(bundle, "", "JSON of moderate depth", "objects or lists nested too deep") from error
    except json.JSONDecodeError as error:
        raise BundleError(bundle, "", "JSON", f"something else in line {error.lineno}: {error.msg}") from error
    return Field(bundle, "", value)


def _short(value: object) -> str:
    """For messages: never long, never anything that a terminal would obey."""
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str) and len(value) > SHOWN:
        value = value[:SHOWN] + "..."
    return ascii(value)
