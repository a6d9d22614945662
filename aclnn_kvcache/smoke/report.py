# SPDX-License-Identifier: Apache-2.0
"""What a run prints and writes: the table, the JSON document, the JUnit file."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from xml.etree import ElementTree

import ml_dtypes
import numpy as np

from aclnn_kvcache import __version__
from aclnn_kvcache.session import Session
from aclnn_kvcache.smoke.cases import APIS
from aclnn_kvcache.smoke.runner import Result

SCHEMA = 1


@dataclass
class Report:
    seed: int
    backend: str = ""
    soc_name: str = ""
    device: int = -1
    libraries: tuple[str, ...] = ()
    revision: str = ""
    """Of the fused operator."""
    cann_version: str = ""
    results: list[Result] = field(default_factory=list)
    error: str = ""
    exit_code: int = 0

    def describe(self, session: Session) -> None:
        """Notes what the run is on. Raises SymbolNotFoundError if an operator is missing, AbiMismatchError."""
        for api in APIS:
            session.library_of(f"{api}GetWorkspaceSize")
        self.backend, self.soc_name, self.device = session.backend, session.soc_name, session.device
        self.libraries, self.cann_version = session.libraries, session.cann_version
        self.revision = session.qkv_abi


def header(report: Report) -> str:
    note = " (simulated: no NPU is involved)" if report.backend == "simulator" else ""
    lines = [f"backend    {report.backend}{note}", f"device     {report.device}, {report.soc_name}"]
    lines += [f"CANN       {report.cann_version}", *(f"library    {path}" for path in report.libraries)]
    return "\n".join([*lines, f"revision   {report.revision}, of the fused operator", f"seed       {report.seed}", ""])


def line(result: Result, number: int, total: int) -> str:
    width = len(str(total))
    rows = sum(counts.get("right", 0) for counts in result.counts.values())
    text = f"[{number:{width}}/{total}] {result.verdict:6} {result.name:24} {rows:6} rows moved"
    return f"{text} {result.seconds * 1e3:8.1f} ms" + "".join(
        f"\n    {text}" for text in (*result.note.splitlines(), *result.detail.splitlines())
    )


def summary(report: Report) -> str:
    verdicts = [result.verdict for result in report.results]
    counts = [
        f"{verdicts.count(v)} {word}" for v, word in (("pass", "passed"), ("differ", "differ"), ("error", "failed"))
    ]
    return f"{len(verdicts)} cases on {report.backend or 'no backend'}: {', '.join(counts)}"


def as_json(report: Report) -> str:
    """One document. ``schema`` is raised when a field changes its meaning or goes."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "command": "smoke",
            "backend": report.backend,
            "device": report.device,
            "soc_name": report.soc_name,
            "libraries": list(report.libraries),
            "revision": report.revision,
            "versions": {
                "aclnn_kvcache": __version__,
                "cann": report.cann_version,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "ml_dtypes": ml_dtypes.__version__,
            },
            "seed": report.seed,
            "cases": [result._asdict() for result in report.results],
            "error": report.error,
            "exit_code": report.exit_code,
        },
        indent=2,
    )


def as_junit(report: Report) -> str:
    """One suite per operator and revision; a run that could not start is a suite with one error."""
    root = ElementTree.Element("testsuites")
    kinds = [(result.operator, result.revision) for result in report.results]
    for kind in dict.fromkeys(kinds):
        results = [result for result, other in zip(report.results, kinds, strict=True) if other == kind]
        operator, revision = kind
        name = operator if revision == report.revision else f"{operator}.{revision}"
        suite = _suite(root, f"aclnn-kvcache.{name}", results, report)
        for result in results:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{report.backend}.{name}", name=f"{result.name}[seed={result.seed}]"
            )
            case.set("time", f"{result.seconds:.3f}")
            if result.verdict != "pass":
                kind_of = "failure" if result.verdict == "differ" else "error"
                problem = ElementTree.SubElement(case, kind_of, message=(result.detail.splitlines() or [""])[0])
                problem.text = f"{result.detail}\nrerun: {result.rerun}"
    if report.error:
        suite = _suite(root, "aclnn-kvcache", [], report)
        suite.set("tests", "1")
        suite.set("errors", "1")
        case = ElementTree.SubElement(suite, "testcase", classname="aclnn-kvcache", name="session")
        ElementTree.SubElement(case, "error", message=report.error.splitlines()[0]).text = report.error
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ElementTree.Element, name: str, results: list[Result], report: Report) -> ElementTree.Element:
    verdicts = [result.verdict for result in results]
    suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(results)))
    suite.set("failures", str(verdicts.count("differ")))
    suite.set("errors", str(verdicts.count("error")))
    properties = ElementTree.SubElement(suite, "properties")
    facts = {"backend": report.backend, "soc_name": report.soc_name, "cann": report.cann_version, "seed": report.seed}
    for key, value in facts.items():
        ElementTree.SubElement(properties, "property", name=key, value=str(value))
    return suite
