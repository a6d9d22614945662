# SPDX-License-Identifier: Apache-2.0
"""The repository names no machine: no package registry, nobody's folders."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORBIDDEN = {
    "a package registry": re.compile(
        r"pypi[.]org|pythonhosted[.]org|npmjs[.]org|(deb|security)[.]debian[.]org|archive[.]ubuntu[.]com|crates[.]io"
        r"|proxy[.]golang[.]org|repo[.]maven|anaconda[.](org|com)|index[-]url|find[-]links"
    ),
    # A home of one letter is an example.
    "a folder of one machine": re.compile(r"(?<![\w.>}])/(?:root|work|(?:Users|home)/\w\w+)/(?![<${*])"),
}


def tracked() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_names_no_machine(what: str) -> None:
    lines = []
    for path in tracked():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if FORBIDDEN[what].search(line):
                lines.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert lines == []


@pytest.mark.parametrize(
    "text",
    [
        "https://pypi." + "org/simple",
        "pip install --extra-index" + "-url x",
        "/ho" + "me/someone/x",
        'open("/' + 'root/x")',
    ],
)
def test_violations_are_caught(text: str) -> None:
    assert any(pattern.search(text) for pattern in FORBIDDEN.values())
