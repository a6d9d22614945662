# SPDX-License-Identifier: Apache-2.0
"""Writes the stand-alone program of a recorded call: a fixed text with the call's tables in it.

Nothing of a bundle comes into the program but numbers, names of our tables, and text as escaped literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aclnn_kvcache.bundle.reading import Bundle
from aclnn_kvcache.errors import PHASE_1
from aclnn_kvcache.native.prototypes import declarations
from aclnn_kvcache.replay.plan import Argument, Block, Descriptor, Plan, plan_of

PROGRAMS = Path(__file__).parent / "programs"


def program(bundle: Bundle, language: str) -> str:
    """The program in "c" or "python". Raises BundleError for a call that no program can make."""
    plan = plan_of(bundle)
    api = plan.manifest.call.contract.api
    header = Path(declarations().prototypes[api + PHASE_1].header).stem
    texts = {"API": api, "HEADER": header, "TABLES": LANGUAGES[language](plan)}
    source = (PROGRAMS / f"repro.{SUFFIXES[language]}.txt").read_text(encoding="utf-8")
    return re.sub("@(API|HEADER|TABLES)@", lambda match: texts[match[1]], source)


def _c(plan: Plan) -> str:
    arguments = [_c_argument(argument) for argument in plan.arguments]
    lines = [
        "static const char *const FACTS[] = {",
        *(f"    {_c_text(fact)}," for fact in plan.facts),
        "};",
        f"enum {{ BLOCKS = {len(plan.blocks)}, TENSORS = {len(plan.tensors)} }};",
        "/* In which step the call fails: 0 in none, 1 phase 1, 2 phase 2, 3 synchronise; and what that answers. */",
        f"enum {{ FAILING_STEP = {plan.failing_phase}, EXPECTED_STATUS = {plan.status} }};",
        "static const Block BLOCK[] = {",
        *(f"    {_c_block(block)}," for block in plan.blocks),
        *([] if plan.blocks else ["    {0},"]),
        "};",
        "static const Tensor TENSOR[] = {",
        *(f"    {_c_tensor(tensor)}," for tensor in plan.tensors),
        *([] if plan.tensors else ["    {0},"]),
        "};",
        "",
        "static aclnnStatus Phase1(aclTensor **tensor, uint64_t *workspaceSize, aclOpExecutor **executor)",
        "{",
        "    (void)tensor;",
        f"    return {plan.manifest.call.contract.api}{PHASE_1}(",
        *(f"        {argument}," for argument in arguments),
        "        workspaceSize, executor);",
        "}",
    ]
    return "\n".join(lines)


def _c_text(text: str) -> str:
    """A literal of any text; question marks could begin a trigraph."""
    encoded = text.encode("utf-8", "surrogatepass")
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in encoded)
    return f'"{"".join(plain)}"'


def _c_integers(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values)) or '0'}}}"


def _c_block(block: Block) -> str:
    files = (f"{{{', '.join(map(_c_text, file))}}}" if file else "{NULL, NULL}" for file in (block.before, block.after))
    names = [_c_text(block.name), *files]
    numbers = [str(block.file_bytes), str(block.itemsize), str(len(block.shape))]
    view = [_c_integers(block.shape), _c_integers(block.strides), str(block.offset)]
    return f"{{{', '.join([*names, *numbers, *view])}}}"


def _c_tensor(tensor: Descriptor) -> str:
    place = [str(tensor.offset), str(tensor.storage), str(tensor.block)]
    axes = [str(len(tensor.shape)), _c_integers(tensor.shape), _c_integers(tensor.strides)]
    return f"{{{', '.join([_c_text(tensor.name), f'ACL_{tensor.dtype}', *axes, *place])}}}"


def _c_argument(argument: Argument) -> str:
    if argument.kind == "tensor":
        return f"tensor[{argument.value}]"
    if argument.kind == "integers":
        return f"Integers({len(argument.value)}, (const int64_t[]){_c_integers(argument.value)})"
    if argument.kind == "text":
        return f"(char *){_c_text(argument.value)}"
    return "NULL" if argument.kind == "null" else f"(float){_c_number(argument.value)}"


def _c_number(value: float) -> str:
    return {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}.get(str(value), value.hex())


def _python(plan: Plan) -> str:
    tables = {
        "FACTS": list(plan.facts),
        "FAILING_STEP": plan.failing_phase,
        "EXPECTED_STATUS": plan.status,
        "BLOCKS": [block._asdict() for block in plan.blocks],
        "TENSORS": [tensor._asdict() for tensor in plan.tensors],
        "ARGUMENTS": [(argument.kind, _python_value(argument)) for argument in plan.arguments],
    }
    return "\n".join(f"{name} = {_python_literal(value)}" for name, value in tables.items())


def _python_value(argument: Argument) -> Any:
    if argument.kind == "text":
        return argument.value.encode("utf-8", "surrogatepass")
    return argument.value.hex() if argument.kind == "number" else argument.value


def _python_literal(value: Any) -> str:
    """With each row of a table in a line of its own."""
    if not isinstance(value, list):
        return ascii(value)
    return "\n".join(["[", *(f"    {row!a}," for row in value), "]"])


LANGUAGES: Mapping[str, Callable[[Plan], str]] = {"c": _c, "python": _python}
SUFFIXES = {"c": "c", "python": "py"}
