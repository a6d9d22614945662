# SPDX-License-Identifier: Apache-2.0
"""A manifest, or a call described by hand, from its JSON; nothing in it is believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aclnn_kvcache.bundle.fields import INTEGER, Field, parse
from aclnn_kvcache.bundle.files import fill, regular_file
from aclnn_kvcache.bundle.manifest import (
    DEVICE,
    DTYPE_NAMES,
    HOST,
    MANIFEST,
    MAX_MANIFEST,
    MAX_RANK,
    PHASES,
    SCHEMA,
    Content,
    Described,
    Manifest,
    Outcome,
    Prototype,
    Storage,
    Target,
    Tensor,
)
from aclnn_kvcache.dtypes import DTYPES, FORMATS, dtype_named, format_named
from aclnn_kvcache.errors import BundleError
from aclnn_kvcache.layout import dense_strides
from aclnn_kvcache.native.revisions import QKV, REVISIONS
from aclnn_kvcache.rules.contracts import CONTRACTS, method
from aclnn_kvcache.rules.finding import Finding

NAME, NAME_MEANING = r"[A-Za-z0-9_]{1,64}", "a name of at most 64 letters, digits and underscores"
FILE, FILE_MEANING = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "the plain name of a file in the bundle"
RULE, RULE_MEANING = r"[!-~]{1,200}", "the id of a rule"
SHA256, SHA256_MEANING = r"[0-9a-f]{64}", "a SHA-256 in 64 hexadecimal digits"
MOST = 64
"""Storages of a call, libraries, findings, versions; more than there can be."""
MOST_INTEGERS = 4096

CALL = ("operator", "arguments")
KEPT = ("returned", "omitted", "outcome", "time", "versions", "target", "prototype")


def _integers(field: Field) -> tuple[int, ...] | None:
    return None if field.is_null else field.integers(MOST_INTEGERS)


def _text(field: Field) -> str | None:
    return None if field.is_null else field.text()


ATTRIBUTES: Mapping[str, Callable[[Field], Any]] = {
    "head_nums": _integers,
    "layout_qkv": _text,
    "layout_q_out": _text,
    "epsilon": Field.number,
    "mrope_section": _integers,
    "q_quant_mode": _text,
    "k_quant_mode": _text,
    "cache_layout": _text,
    "padding": lambda field: field.choice(("error", "skip")),
}
"""How each attribute is read."""


def read_json(path: Path) -> Field:
    """The document in a regular file of a size that a manifest can have. Raises BundleError."""
    with regular_file(str(path), "", path) as (file, size):
        if size > MAX_MANIFEST:
            raise BundleError(str(path), "", f"at most {MAX_MANIFEST} bytes", f"{size}")
        data = bytearray(size)
        read = fill(file, memoryview(data))
    return parse(str(path), bytes(data[:read]))


def is_kept(document: Field) -> bool:
    """Whether this is a manifest as the recorder writes it, and no description by hand."""
    return "schema" in document.mapping()


def described(document: Field) -> Described:
    """A call described by hand, which may name the revision of the fused operator. Raises BundleError."""
    fields = document.object(CALL, ("attributes", "storages", "revision"))
    return _call(fields)._replace(revision=_revision(fields["revision"]) if "revision" in fields else None)


def manifest(document: Field) -> Manifest:
    """A manifest of this schema. Raises BundleError."""
    found = document.mapping()
    if "schema" not in found:
        document.fail("a field 'schema'", f"none; is this a description by hand instead of a {MANIFEST}?")
    if found["schema"].integer() != SCHEMA:
        found["schema"].fail(f"{SCHEMA}, what this version reads")
    fields = document.object(("schema", *CALL, "attributes", "storages", *KEPT))
    prototype = _prototype(fields["prototype"])
    call = _call(fields)._replace(revision=prototype.revision)
    returned = _tensors(fields["returned"], call.contract.outputs)
    kept = Manifest(
        call,
        {name: tensor for name, tensor in returned.items() if tensor is not None},
        fields["omitted"].text(),
        _outcome(fields["outcome"]),
        fields["time"].text(r"[0-9TZ:.-]{1,40}", "a time in UTC"),
        {name: field.text() for name, field in fields["versions"].mapping().items()},
        _target(fields["target"]),
        prototype,
    )
    for name in kept.returned:
        if call.arguments[name] is not None:
            fields["returned"].fail("outputs that were not given", f"{name}, which is among the arguments")
    for name, tensor in kept.tensors.items():
        if tensor.storage not in call.storages:
            fields["arguments"].fail(f"a storage of the bundle for {name}", ascii(tensor.storage))
    return kept


def _call(fields: dict[str, Field]) -> Described:
    apis = {contract.api: contract.name for contract in CONTRACTS.values()}
    named = fields["operator"].value
    operator = apis.get(named) if isinstance(named, str) else None
    contract = method(operator or fields["operator"].choice((*CONTRACTS, *apis)))
    arguments = dict.fromkeys(contract.tensors) | _tensors(fields["arguments"], contract.tensors)
    attributes: dict[str, Any] = dict(contract.attributes)
    if "attributes" in fields:
        for name, field in fields["attributes"].object(optional=tuple(contract.attributes)).items():
            attributes[name] = ATTRIBUTES[name](field)
    storages: dict[str, Storage] = {}
    if "storages" in fields:
        named = fields["storages"].mapping()
        if len(named) > MOST:
            fields["storages"].fail(f"at most {MOST} storages")
        for name, field in named.items():
            Field(field.bundle, fields["storages"].name, name).text(NAME, NAME_MEANING)
            storages[name] = _storage(field)
    return Described(contract.name, arguments, attributes, storages)


def _tensors(field: Field, names: tuple[str, ...]) -> dict[str, Tensor | None]:
    return {name: None if f.is_null else _tensor(f) for name, f in field.object(optional=names).items()}


def _tensor(field: Field) -> Tensor:
    fields = field.object(("shape", "dtype"), ("strides", "offset", "storage", "format", "writable"))
    shape = fields["shape"].integers(MAX_RANK)
    strides = fields["strides"].integers(MAX_RANK) if "strides" in fields else dense_strides(shape)
    if len(strides) != len(shape):
        fields["strides"].fail(f"{len(shape)} strides, one per axis", f"{len(strides)}")
    storage, elements = None, None
    if "storage" in fields and isinstance(fields["storage"].value, str):
        storage = fields["storage"].text(NAME, NAME_MEANING)
    elif "storage" in fields and isinstance(fields["storage"].value, list):
        elements = math.prod(fields["storage"].integers(MAX_RANK))
        if not 0 <= elements < INTEGER:
            fields["storage"].fail(f"dimensions of at most {INTEGER - 1} elements", f"{elements}")
    elif "storage" in fields:
        elements = fields["storage"].integer(0)
    offset = fields["offset"].integer() if "offset" in fields else 0
    layout_format = _format(fields["format"]) if "format" in fields else "ND"
    writable = "writable" not in fields or fields["writable"].flag()
    return Tensor(shape, _dtype(fields["dtype"]), strides, offset, storage, elements, layout_format, writable)


def _dtype(field: Field) -> str:
    """CANN's name of it; NumPy's is taken too."""
    found = dtype_named(field.value) if isinstance(field.value, str) else None
    if found is None:
        return field.choice(DTYPES)  # which says what there is
    return found if isinstance(found, str) else DTYPE_NAMES[found]


def _format(field: Field) -> str:
    found = format_named(field.value) if isinstance(field.value, str) else field.value
    names = [name for name, number in FORMATS.items() if number == found and not isinstance(found, bool)]
    return names[0] if names else field.choice(FORMATS)


def _storage(field: Field) -> Storage:
    fields = field.object(("nbytes",), ("place", "before", "after"))
    place = fields["place"].choice((HOST, DEVICE)) if "place" in fields else DEVICE
    contents = (_content(fields.get(moment)) for moment in ("before", "after"))
    return Storage(place, fields["nbytes"].integer(0), *contents)


def _content(field: Field | None) -> Content | None:
    if field is None or field.is_null:
        return None
    fields = field.object(("file", "sha256"))
    file = fields["file"].text(FILE, FILE_MEANING)
    if file == MANIFEST:
        fields["file"].fail("a file beside the manifest")
    return Content(file, fields["sha256"].text(SHA256, SHA256_MEANING))


def _outcome(field: Field) -> Outcome:
    fields = field.object(("status", "name", "phase", "function", "error", "message", "findings"))
    return Outcome(
        None if fields["status"].is_null else fields["status"].integer(-(2**31), 2**31 - 1),
        fields["name"].text(),
        None if fields["phase"].is_null else fields["phase"].choice(PHASES),
        fields["function"].text(r"\w*", "the name of a C function"),
        None if fields["error"].is_null else fields["error"].text(NAME, NAME_MEANING),
        fields["message"].text(),
        tuple(_finding(item) for item in fields["findings"].items(MOST)),
    )


def _finding(field: Field) -> Finding:
    fields = field.object(("rule", "arguments", "message", "status", "ez"))
    return Finding(
        fields["rule"].text(RULE, RULE_MEANING),
        tuple(item.text(NAME, NAME_MEANING) for item in fields["arguments"].items(MOST)),
        fields["message"].text(),
        fields["status"].integer(0, 2**31 - 1),
        None if fields["ez"].is_null else fields["ez"].text(NAME, NAME_MEANING),
    )


def _target(field: Field) -> Target:
    fields = field.object(("backend", "device", "soc_name", "cann_version", "libraries"))
    return Target(
        fields["backend"].choice(("cann", "simulator")),
        fields["device"].integer(0),
        fields["soc_name"].line(),
        fields["cann_version"].line(),
        tuple(item.text() for item in fields["libraries"].items(MOST)),
    )


def _prototype(field: Field) -> Prototype:
    fields = field.object(("revision", "declaration", "source"))
    return Prototype(
        _revision(fields["revision"]),
        _text(fields["declaration"]),
        fields["source"].text(),
    )


def _revision(field: Field) -> str | None:
    return None if field.is_null else field.choice(REVISIONS[QKV])
