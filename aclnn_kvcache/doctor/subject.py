# SPDX-License-Identifier: Apache-2.0
"""What the checks look at."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aclnn_kvcache.doctor.native_facts import NativeFacts
from aclnn_kvcache.native import discovery
from aclnn_kvcache.native.installation import root_of


class Subject(NamedTuple):
    backend: str
    """As asked for: "auto", "cann" or "simulator"."""
    library_dir: str | None
    device: int
    environ: Mapping[str, str]
    root: Path
    """Stands for the root of the file system."""
    native: NativeFacts

    def stage(self, name: str) -> Mapping[str, Any]:
        """What a stage of the probe found; empty if it failed or never came."""
        facts = self.native.stages.get(name, {})
        return {} if facts.get("error") else facts

    def error(self, name: str) -> str:
        """Why a stage of the probe failed; empty if it did not, or never came."""
        return str(self.native.stages.get(name, {}).get("error", ""))

    @property
    def loaded_backend(self) -> str:
        return str(self.stage("libraries").get("backend", "none"))

    @property
    def simulated(self) -> bool:
        """The simulator is what is examined, be it there or not."""
        return self.loaded_backend == "simulator" or (self.loaded_backend == "none" and self.backend == "simulator")

    @property
    def lacks_the_device(self) -> bool:
        """Whether the libraries see fewer devices than the one that is examined needs."""
        facts = self.stage("devices")
        return bool(facts) and facts["count"] <= self.device

    @property
    def smoke(self) -> str:
        """The command that runs the smoke test on what is examined."""
        words = ["aclnn-kvcache", "smoke", "--backend", self.backend, "--device", str(self.device)]
        return shlex.join([*words, *(["--library-dir", self.library_dir] if self.library_dir else [])])

    @property
    def folders(self) -> list[discovery.Folder]:
        return discovery.folders(self.backend, self.library_dir, self.environ)

    def held(self, folder: discovery.Folder) -> list[str]:
        """The CANN libraries that lie in a folder, whether they can be opened or not."""
        names = [*discovery.RUNTIME, *discovery.SUPPORT, *discovery.OPERATORS, discovery.CUSTOM]
        return [name for name in names if os.path.exists(os.path.join(folder.path, name))] if folder.path else []

    @property
    def cann_root(self) -> str:
        """The root of the CANN that is used, else of the first that was found; empty for the simulator or for none."""
        if self.simulated:
            return ""
        if paths := self.stage("operators").get("paths"):
            return root_of(paths[0])
        found = ((folder, held) for folder in self.folders if not folder.skipped and (held := self.held(folder)))
        return next((root_of(os.path.join(folder.path, held[0])) for folder, held in found), "")
