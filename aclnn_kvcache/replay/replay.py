# SPDX-License-Identifier: Apache-2.0
"""Makes a recorded call again, and compares with the oracle and with what was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from aclnn_kvcache import oracle
from aclnn_kvcache.bundle.manifest import AFTER, BEFORE, DEVICE, Described, Manifest, Outcome, Tensor
from aclnn_kvcache.bundle.outcome import SUCCESS, outcome_of
from aclnn_kvcache.bundle.reading import Bundle, Bytes, views
from aclnn_kvcache.compare import compare
from aclnn_kvcache.compare.report import Comparison
from aclnn_kvcache.compare.results import compare_results
from aclnn_kvcache.errors import BundleError, KvCacheError
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.session import Session


@dataclass
class Replay:
    """What came of it."""

    manifest: Manifest
    same_target: bool
    """Whether this is the backend, CANN, SoC and revision of the operator that the call was recorded on: then every
    byte must be as recorded."""
    outcome: Outcome = SUCCESS
    oracle: dict[str, Comparison] = field(default_factory=dict)
    """Each result, and the gaps around the results in each storage, against the oracle's."""
    oracle_refuses: str = ""
    """Why the oracle does not say what must come out."""
    recorded: dict[str, Comparison] = field(default_factory=dict)
    """Each storage, byte by byte, against what was recorded."""

    @property
    def ends_alike(self) -> bool:
        return self.outcome.same_as == self.manifest.outcome.same_as

    @property
    def as_recorded(self) -> bool:
        return self.ends_alike and all(self.recorded.values())

    @property
    def ok(self) -> bool:
        """It ends as recorded, the oracle agrees, and where nothing excuses another byte every byte is as recorded."""
        must_be_equal = self.same_target or bool(self.oracle_refuses)
        return self.ends_alike and all(self.oracle.values()) and (self.as_recorded or not must_be_equal)


def replay(bundle: Bundle, session: Session) -> Replay:
    """Makes the call on the session's device, with arrays where they were: on the host or on the device.

    Raises BundleError for contents that are not there or broken; what the memory for them and the session raise.
    """
    manifest, before = bundle.manifest, bundle.contents(BEFORE)
    recorded = bundle.contents(AFTER) if manifest.outcome.error is None else {}
    target = manifest.target
    here = (session.backend, session.cann_version, session.soc_name)
    same_revision = manifest.call.revision in (None, _revision(session))
    report = Replay(manifest, same_revision and here == (target.backend, target.cann_version, target.soc_name))
    bases = {
        name: session.array(data) if manifest.call.storages[name].place == DEVICE else data.copy()
        for name, data in before.items()
    }
    try:
        after, made = _call(session, manifest.call, bases)
    except KvCacheError as error:
        report.outcome = outcome_of(error, manifest.call.contract)
        return report
    _compare_with_oracle(report, before, after, made)
    for name, content in recorded.items():
        if name in after:
            report.recorded[name] = compare(after[name], content)
    for name, tensor in manifest.returned.items() if recorded else ():
        if (made[name].shape, made[name].dtype) != (tensor.shape, tensor.numpy_dtype):
            got = f"{tensor.dtype} {list(tensor.shape)}"
            raise BundleError(str(bundle.folder), f"returned.{name}", f"{made[name].dtype} {made[name].shape}", got)
        report.recorded[name] = compare(made[name], tensor.view(recorded[str(tensor.storage)]))
    return report


def _revision(session: Session) -> str | None:
    try:
        return session.qkv_abi
    except KvCacheError:  # the call says the same
        return None


def _call(session: Session, call: Described, bases: Mapping[str, Any]) -> tuple[dict[str, Bytes], dict[str, Bytes]]:
    """The storages after the call, and the outputs that it made by name."""
    arguments = {name: tensor and _view(tensor, bases[str(tensor.storage)]) for name, tensor in call.arguments.items()}
    returned = getattr(session, call.operator)(**arguments, **call.attributes)
    session.stream.synchronize()
    made = dict(zip(call.contract.outputs, returned or (), strict=False))
    return (
        {name: _on_host(base) for name, base in bases.items()},
        {n: _on_host(array) for n, array in made.items() if arguments[n] is None and array is not None},
    )


def _view(tensor: Tensor, base: Any) -> Any:
    if not isinstance(base, DeviceArray):
        view = tensor.view(base)
        view.flags.writeable = tensor.writable
        return view
    size = tensor.numpy_dtype.itemsize
    strides = [stride * size for stride in tensor.strides]
    return DeviceArray(base.buffer, tensor.shape, tensor.numpy_dtype, strides, tensor.offset * size)


def _on_host(array: Any) -> Bytes:
    host: Bytes = array.numpy() if isinstance(array, DeviceArray) else array
    return host


def _compare_with_oracle(
    report: Replay, before: Mapping[str, Bytes], after: Mapping[str, Bytes], made: Mapping[str, Bytes]
) -> None:
    """Results by their rules; every byte that no result lies in must be as before."""
    call = report.manifest.call
    function = getattr(oracle, call.operator)
    given = {**views(call.arguments, before), **call.attributes}
    # Defaults of the oracle stand for arguments that the operator has in other revisions only.
    taken = {name: given[name] for name in signature(function).parameters if name in given}
    try:
        expected = function(**taken)
    except (TypeError, ValueError) as error:
        report.oracle_refuses = str(error)
        return
    outside = {name: np.ones(len(data), np.bool_) for name, data in after.items()}
    results = dict(made)
    for name, tensor in call.arguments.items():
        if tensor is not None and name in call.contract.written:
            results[name] = tensor.view(after[str(tensor.storage)])
            tensor.view_of_bytes(outside[str(tensor.storage)])[...] = False
    rules = call.contract.comparison(call.arguments, call.attributes)
    earlier = {name: given[name] for name in call.contract.caches}
    wanted = {name: getattr(expected, name) for name in results}
    report.oracle.update(compare_results(results, wanted, earlier, rules, call.contract.scales))
    for name, gaps in outside.items():
        if gaps.any():
            report.oracle[f"{name}, gaps"] = compare(after[name][gaps], before[name][gaps])
