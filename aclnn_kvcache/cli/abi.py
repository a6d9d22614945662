# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache abi``: the prototype in force of each operator function, where it comes from, how it differs."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from aclnn_kvcache.cli.backend import NO_BACKEND, RUNTIME_FAILURE, add_backend_arguments, exit_code
from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.native.library import load
from aclnn_kvcache.native.operators import operator_functions

HELP = "print the argument lists in force of the operators, where they come from and how they differ from ours"

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def run(options: argparse.Namespace) -> int:
    document: dict[str, Any] = {"schema": SCHEMA, "command": "abi", "backend": "", "functions": [], "libraries": []}
    try:
        library = load(options.backend, options.library_dir, options.qkv_abi)
    except KvCacheError as error:
        print(error, file=sys.stderr)
        if options.json:
            print(json.dumps({**document, "error": str(error), "exit_code": exit_code(error)}, indent=2))
        return exit_code(error)
    functions = [function._asdict() for function in operator_functions(library)]
    code = RUNTIME_FAILURE if any(function["error"] for function in functions) else 0
    code = NO_BACKEND if any(function["missing"] for function in functions) else code
    if options.json:
        document |= {"backend": library.backend, "functions": functions, "libraries": list(library.paths)}
        print(json.dumps({**document, "error": "", "exit_code": code}, indent=2))
    else:
        print(f"backend  {library.backend}")
        print("\n".join(_text(function) for function in functions))
    return code


def _text(function: dict[str, Any]) -> str:
    if function["error"]:
        return f"\n{function['name']}\n  cannot be called: {function['error']}"
    differences = function["differences"] or ["nothing"]
    lines = [f"library    {function['library']}", f"source     {function['source']}"]
    lines += [f"revision   {function['revision']}"] if function["revision"] else []
    lines += [f"in force   {function['prototype']}", *(f"differs    {difference}" for difference in differences)]
    return "\n".join([f"\n{function['name']}", *(f"  {line}" for line in lines)])
