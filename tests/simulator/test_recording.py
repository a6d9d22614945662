# SPDX-License-Identifier: Apache-2.0
"""Sessions that record: what is kept, and that recording changes nothing else."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.bundle import recorder
from aclnn_kvcache.bundle.reading import Bundle, read_bundle, views
from aclnn_kvcache.cli import main
from aclnn_kvcache.ops.arguments import Checked
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.smoke.qkv_cases import QKV_CASES

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
CACHES = ("key_cache", "value_cache", "key_scale_cache")


def arrays(**changes: Any) -> dict[str, Any]:
    """T=3, N=1, B=2, S=4, D=8, every byte drawn, NaN and all."""
    rng = np.random.default_rng(1)

    def fp8(*shape: int) -> Any:
        return rng.integers(0, 256, shape, np.uint8).view(E4M3)

    call = {
        "key": fp8(3, 1, 8),
        "value": fp8(3, 1, 8),
        "key_cache": fp8(2, 1, 4, 8),
        "value_cache": fp8(2, 1, 4, 8),
        "slot_mapping": np.array([0, 6, 3], np.int32),
        "key_scale": rng.integers(0, 256, (3, 4), np.uint8).view(np.float32),
        "key_scale_cache": np.full((2, 1, 4, 1), np.nan, np.float32),
    }
    call["key"][0, 0, :2] = np.nan
    return {**call, **changes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "calls" / "of today"


def bundles(folder: Path) -> list[Bundle]:
    return [read_bundle(path) for path in sorted(folder.iterdir(), key=lambda path: int(path.name.split("-")[2]))]


def scatter(session: kv.Session, call: dict[str, Any], **options: Any) -> None:
    session.scatter_pa_kv_cache_with_k_scale(**call, **options)


def test_contents_before_and_after(nothing_left_alive: None, folder: Path) -> None:
    call = arrays()
    before = {name: array.copy() for name, array in call.items()}
    with kv.Session("simulator", record=folder) as session:
        scatter(session, call)
    (bundle,) = bundles(folder)
    recorded = views(bundle.manifest.call.arguments, bundle.contents("before"))
    assert {name: array.tobytes() for name, array in recorded.items()} == {n: a.tobytes() for n, a in before.items()}
    after = bundle.contents("after")
    for name in CACHES:
        tensor = bundle.manifest.tensors[name]
        assert tensor.view(after[name]).tobytes() == call[name].tobytes() != before[name].tobytes()
    manifest = bundle.manifest
    assert manifest.outcome == (0, "ACLNN_SUCCESS", None, "", None, "", ())
    assert manifest.target[:4] == ("simulator", 0, "Ascend950PR_9599", "9.1.0")
    assert any(path.endswith("libopapi.so") for path in manifest.target.libraries)
    assert {storage.place for storage in manifest.call.storages.values()} == {"host"}
    assert manifest.versions["numpy"] == np.__version__
    assert manifest.prototype.revision is None
    assert "aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(" in (manifest.prototype.declaration or "")


def test_device_arrays_that_share_an_allocation_share_a_storage(nothing_left_alive: None, folder: Path) -> None:
    host = arrays()
    with kv.Session("simulator", record=folder) as session:
        kv_cache = session.array(np.zeros((3, 2, 1, 4, 2, 8), np.uint8).view(E4M3))
        call = {name: session.array(array) for name, array in host.items()}
        # The second of three layers; rows of K and V take turns.
        call |= {"key_cache": kv_cache[1, ..., 0, :], "value_cache": kv_cache[1, ..., 1, :]}
        scatter(session, call)
    (bundle,) = bundles(folder)
    key, value = (bundle.manifest.tensors[name] for name in ("key_cache", "value_cache"))
    assert key.storage == value.storage == "key_cache"
    assert key.strides == value.strides == (64, 64, 16, 1)
    # The layer begins at byte 128; a storage begins at a multiple of 512, which is the start of the allocation.
    assert (key.offset, value.offset) == (128, 136)
    assert bundle.manifest.call.storages["key_cache"].nbytes == 256
    assert bundle.manifest.call.storages["key_cache"].place == "device"
    assert "value_cache" not in bundle.manifest.call.storages
    after = bundle.contents("after")["key_cache"]
    rows = after[128:].reshape(2, 4, 2, 8)
    assert rows[1, 2].tobytes() == host["key"][1].tobytes() + host["value"][1].tobytes()
    assert not after[:128].any()


def test_borrowed_memory_is_one_storage_by_its_addresses(nothing_left_alive: None, folder: Path) -> None:
    host = arrays()
    with kv.Session("simulator", record=folder) as session:
        call = {name: session.array(array) for name, array in host.items()}
        owner = session.array(np.zeros(32 + 128 + 64, np.uint8))
        start, strides = owner.ptr + 32, (64, 64, 16, 1)
        for name, offset in (("key_cache", 0), ("value_cache", 8)):
            call[name] = session.borrow_array(start, (2, 1, 4, 16), E4M3)[..., offset : offset + 8]
            assert call[name].strides == strides
        # Another allocation right behind it, as far as anybody knows.
        call["key"] = session.borrow_array(start + 128, (3, 1, 8), E4M3)
        scatter(session, call)
        value = owner.numpy()[32:160].reshape(2, 4, 2, 8)[1, 2, 1]
    (bundle,) = bundles(folder)
    key, cache = bundle.manifest.tensors["key"], bundle.manifest.tensors["value_cache"]
    assert (key.storage, key.offset) == ("key", 0)
    assert (cache.storage, cache.offset, bundle.manifest.call.storages["key_cache"].nbytes) == ("key_cache", 8, 128)
    after = bundle.contents("after")["key_cache"].reshape(2, 4, 2, 8)
    assert after[1, 2, 1].tobytes() == value.tobytes() == host["value"][1].tobytes()


def test_host_views_lie_in_what_they_reach(nothing_left_alive: None, folder: Path) -> None:
    base = np.full((2, 1, 4, 20), 0xEE, np.uint8)
    reverse = arrays()["key"][::-1]
    with kv.Session("simulator", record=folder) as session:
        call = arrays(key_cache=base[..., 4:12].view(E4M3), key=reverse)
        scatter(session, call)
    (bundle,) = bundles(folder)
    tensors, after = bundle.manifest.tensors, bundle.contents("after")["key_cache"]
    assert tensors["key"].strides == (-8, 8, 1)
    assert tensors["key_cache"].strides == (80, 80, 20, 1)
    first = tensors["key_cache"].offset
    assert first < 16  # zeros up to a multiple of 16, then what the view reaches
    assert len(after) == first + 7 * 20 + 8
    assert not after[:first].any()
    assert after[first : first + 8].tobytes() == reverse[0].tobytes()
    assert set(after[first + 8 : first + 20]) == {0xEE}


def test_outputs_that_the_call_makes(nothing_left_alive: None, folder: Path) -> None:
    prepared = QKV_CASES["qkv-allocated"].prepare(np.random.default_rng(0))
    with kv.Session("simulator", record=folder) as session:
        call = {name: session.array(array) for name, array in prepared.arguments(prepared.before).items()}
        q_out, q_scale = session.qkv_rms_norm_rope_cache_with_k_scale(**call, **prepared.options)
        expected = {"q_out": q_out.numpy().tobytes(), "q_scale": q_scale.numpy().tobytes()}
    (bundle,) = bundles(folder)
    manifest, after = bundle.manifest, bundle.contents("after")
    assert manifest.call.arguments["q_out"] is None
    assert {n: t.view(after[str(t.storage)]).tobytes() for n, t in manifest.returned.items()} == expected
    assert manifest.prototype.revision == "A"
    assert manifest.call.attributes["head_nums"] == (16, 2, 2)
    assert set(bundle.contents("before")) == set(call)


def test_epsilon_that_is_no_number(nothing_left_alive: None, folder: Path) -> None:
    prepared = QKV_CASES["qkv-host"].prepare(np.random.default_rng(0))
    call = prepared.arguments(prepared.before)
    with kv.Session("simulator", record=folder) as session, pytest.raises(kv.AclnnParameterError, match="epsilon"):
        session.qkv_rms_norm_rope_cache_with_k_scale(**call, **prepared.options, epsilon=float("nan"))
    (bundle,) = bundles(folder)
    assert np.isnan(bundle.manifest.call.attributes["epsilon"])
    assert bundle.manifest.outcome.findings[0].arguments == ("epsilon",)


def test_a_call_that_the_rules_refuse_is_kept_with_its_findings(nothing_left_alive: None, folder: Path) -> None:
    call = arrays(key_scale=np.ones((3, 1), np.float16))
    with kv.Session("simulator", record=folder, record_failing_only=True) as session:
        scatter(session, arrays())
        with pytest.raises(kv.AclnnParameterError) as caught:
            scatter(session, call)
    (bundle,) = bundles(folder)
    outcome = bundle.manifest.outcome
    assert (outcome.status, outcome.name, outcome.phase) == (161002, "ACLNN_ERR_PARAM_INVALID", "checks")
    assert outcome.error == "AclnnParameterError"
    assert str(caught.value).startswith(outcome.message)
    assert outcome.findings == caught.value.findings
    assert caught.value.bundle == str(bundle.folder)
    note = f"the call was recorded; to make it again: aclnn-kvcache replay '{bundle.folder}'"
    assert caught.value.__notes__[-1] == note
    assert caught.value.report().splitlines()[-1] == note
    assert pickle.loads(pickle.dumps(caught.value)).bundle == caught.value.bundle
    assert bundle.manifest.tensors["key_scale"].dtype == "FLOAT16"
    assert bundle.contents("before")["key_cache"].tobytes() == call["key_cache"].tobytes()


def test_what_cann_refuses_is_kept_with_its_phase(
    nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this package's checks the simulator's phase 1 answers, as CANN's does."""
    monkeypatch.setattr(
        "aclnn_kvcache.ops.scatter_pa_kv_cache_with_k_scale.require_valid", lambda *_: Checked(True, ((), ()))
    )
    with kv.Session("simulator", record=folder) as session, pytest.raises(kv.AclnnParameterError, match="EZ"):
        scatter(session, arrays(key_scale=np.ones((3, 1), np.float16)))
    (bundle,) = bundles(folder)
    outcome = bundle.manifest.outcome
    assert (outcome.status, outcome.phase) == (161002, "phase 1")
    assert outcome.function == "aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize"
    assert "EZ" in outcome.message


@pytest.mark.provokes("init:uninitialised_read")
def test_check_says_of_a_refused_call_what_the_session_said(
    nothing_left_alive: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache that CANN would copy whole, a read-only cache, and arrays in both places: no rule speaks of these."""
    read_only = arrays()["value_cache"]
    read_only.flags.writeable = False
    with kv.Session("simulator", record=folder) as session:
        copied = {name: session.array(array) for name, array in arrays().items()}
        copied["key_cache"] = session.empty((2, 1, 4, 16), E4M3)[..., ::2]
        mixed = {**arrays(), "key_cache": session.array(arrays()["key_cache"])}
        for call, error in (
            (copied, kv.AclnnParameterError),
            (arrays(value_cache=read_only), kv.ArgumentError),
            (mixed, kv.ArgumentError),
        ):
            with pytest.raises(error) as caught:
                scatter(session, call)
            (bundle,) = [path for path in folder.iterdir() if (path / "manifest.json").exists()]
            assert str(caught.value).startswith(read_bundle(bundle).manifest.outcome.message)
            assert caught.value.bundle == str(bundle)
            assert caught.value.report().endswith(f"aclnn-kvcache replay '{bundle}'")
            said = str(caught.value).splitlines()[0].removeprefix("aclnnScatterPaKvCacheWithKScale: ")
            assert main(["check", str(bundle)]) == 1
            assert f": {said}" in capsys.readouterr().out
            # Made again, it is refused again.
            assert main(["replay", str(bundle), "--backend", "simulator"]) == 0
            assert capsys.readouterr().out.splitlines()[-1] == "good: refused as recorded"
            shutil.rmtree(bundle)
        # check_call says the same where it is no finding.
        for call in (arrays(value_cache=read_only), mixed):
            with pytest.raises(kv.ArgumentError) as caught:
                scatter(session, call)
            with pytest.raises(kv.ArgumentError) as foretold:
                kv.check_call("scatter_pa_kv_cache_with_k_scale", **call)
            assert str(foretold.value) == str(caught.value)
        [risk] = predict("scatter_pa_kv_cache_with_k_scale", **copied).risks
        assert risk.rule == "whole_cache_copy.key_cache"


def test_a_late_fault_is_the_call_s_own(nothing_left_alive: None, folder: Path, reports: Any) -> None:
    prepared = QKV_CASES["qkv-decode"].prepare(np.random.default_rng(0))
    host = prepared.arguments(prepared.before)
    host["slot_mapping"] = np.full(8, 2**30, np.int32)
    with kv.Session("simulator", record=folder, record_failing_only=True) as session:
        call = {name: session.array(array) for name, array in host.items()}
        with pytest.raises(kv.DeviceFaultError):
            session.qkv_rms_norm_rope_cache_with_k_scale(**call, **prepared.options)
        session.stream.synchronize()  # reported once
    assert "api:slot_out_of_range" in reports.kinds()
    (bundle,) = bundles(folder)
    outcome = bundle.manifest.outcome
    assert (outcome.status, outcome.phase, outcome.error) == (507015, "synchronize", "DeviceFaultError")
    assert outcome.function == "aclrtSynchronizeStreamWithTimeout"


def test_a_fault_of_earlier_work_is_raised_after_the_call(nothing_left_alive: None, folder: Path, reports: Any) -> None:
    prepared = QKV_CASES["qkv-decode"].prepare(np.random.default_rng(0))
    host = prepared.arguments(prepared.before)
    with kv.Session("simulator") as session:
        call = {name: session.array(array) for name, array in host.items()}
        call["slot_mapping"] = session.array(np.full(8, 2**30, np.int32))
        session.qkv_rms_norm_rope_cache_with_k_scale(**call, **prepared.options)  # queued, and fails
        good = {name: session.array(array) for name, array in arrays().items()}
        session._recorder = recorder.Recorder(session._device, folder, False)
        with pytest.raises(kv.DeviceFaultError), pytest.warns(kv.RecordWarning, match="made, but not recorded"):
            session.qkv_rms_norm_rope_cache_with_k_scale(
                **{**call, "slot_mapping": session.array(host["slot_mapping"])}, **prepared.options
            )
        scatter(session, good)
    (bundle,) = bundles(folder)
    assert bundle.manifest.outcome.status == 0


def test_what_cannot_be_described_is_called_all_the_same(nothing_left_alive: None, folder: Path) -> None:
    with kv.Session("simulator", record=folder) as session:
        for name, value, text in (
            ("key", [1, 2], "key is no array but list"),
            ("key", np.zeros((3, 1, 8), "V1"), "key has dtype |V1"),
            ("slot_mapping", np.array([0, 1, 2], ">i4"), "slot_mapping has dtype >i4"),
            ("key", np.ma.masked_array(np.zeros((3, 1, 8))), "key is no array but MaskedArray"),
        ):
            with pytest.raises(ValueError, match=name), pytest.warns(kv.RecordWarning) as caught:
                scatter(session, arrays(**{name: value}))
            assert len(caught) == 1
            assert str(caught[0].message).startswith(f"this call failed, and was not recorded: {text}")
            assert caught[0].filename == __file__
    assert list(folder.iterdir()) == []


def test_an_array_of_another_session(nothing_left_alive: None, folder: Path) -> None:
    with kv.Session("simulator", record=folder) as session, kv.Session("simulator", device=1) as other:
        call = {name: session.array(array) for name, array in arrays().items()}
        call["key"] = other.array(arrays()["key"])
        with (
            pytest.raises(kv.ArgumentError, match="an array of this session"),
            pytest.warns(kv.RecordWarning, match="key is an array of another session"),
        ):
            scatter(session, call)


def test_a_folder_that_goes_away_comes_back(nothing_left_alive: None, folder: Path) -> None:
    with kv.Session("simulator", record=folder) as session:
        folder.rmdir()
        scatter(session, arrays())
    assert len(bundles(folder)) == 1


def test_a_folder_that_cannot_be_written_any_more(nothing_left_alive: None, folder: Path) -> None:
    call, wrong = arrays(), arrays(slot_mapping=np.array([0, 6, 8], np.int32))
    with kv.Session("simulator", record=folder) as session:
        folder.rmdir()
        folder.write_text("a file in its place")
        with pytest.warns(kv.RecordWarning, match="this call was made, but not recorded: .*File exists"):
            scatter(session, call)
        assert call["key_cache"].tobytes() != arrays()["key_cache"].tobytes()
        # Where warnings are errors too, the call's own error comes first.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(kv.AclnnParameterError, match="slot 8"):
                scatter(session, wrong)


def test_a_full_disk_leaves_nothing_behind(
    nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with kv.Session("simulator", record=folder) as session:
        monkeypatch.setattr("aclnn_kvcache.bundle.writing._write", full)
        with pytest.warns(kv.RecordWarning, match="No space left on device"):
            scatter(session, arrays())
    assert list(folder.iterdir()) == []


def test_a_call_too_large_is_kept_without_contents(
    nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_CONTENTS", 300)
    call = arrays()
    with kv.Session("simulator", record=folder) as session:
        scatter(session, call)
    (bundle,) = bundles(folder)
    assert "are more than 300" in bundle.manifest.omitted
    assert [path.name for path in bundle.folder.iterdir()] == ["manifest.json"]
    assert bundle.manifest.tensors["key_cache"].shape == (2, 1, 4, 8)
    assert call["key_scale_cache"][1, 0, 2, 0] == call["key_scale"][1, 0]


def test_outputs_count_too(nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = QKV_CASES["qkv-allocated"].prepare(np.random.default_rng(0))
    call = prepared.arguments(prepared.before)
    total = sum(array.nbytes for array in call.values())
    changed = sum(call[name].nbytes for name in ("k_cache", "v_cache", "k_scale_cache"))
    monkeypatch.setattr(recorder, "MAX_CONTENTS", total + changed + 1000)  # by alignment a few bytes more
    with kv.Session("simulator", record=folder) as session:
        session.qkv_rms_norm_rope_cache_with_k_scale(**call, **prepared.options)
    (bundle,) = bundles(folder)
    assert "are more than" in bundle.manifest.omitted
    assert bundle.manifest.returned["q_scale"].shape == (16, 12)


@pytest.mark.parametrize("kind", ["a file", "below a file", "not a path", "empty", "no name"])
def test_a_folder_that_cannot_be_used_is_refused_at_once(sim: Any, tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("x")
    record: Any = {
        "a file": tmp_path / "file",
        "below a file": tmp_path / "file" / "x",
        "not a path": 5,
        "empty": "",
        "no name": "a\0b",
    }
    with pytest.raises(kv.ArgumentError, match="record"):
        kv.Session("simulator", record=record[kind])
    assert sim.live() == {}


def test_the_environment_is_read_when_the_session_opens(
    nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kv.Session("simulator") as session:
        monkeypatch.setenv("ACLNN_KVCACHE_RECORD", str(folder))
        scatter(session, arrays())
    assert not folder.exists()
    with kv.Session("simulator") as session:
        monkeypatch.delenv("ACLNN_KVCACHE_RECORD")
        scatter(session, arrays())
    assert len(bundles(folder)) == 1


def test_failing_calls_only_by_the_environment(
    nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACLNN_KVCACHE_RECORD", str(folder))
    monkeypatch.setenv("ACLNN_KVCACHE_RECORD_FAILING", "1")
    with kv.Session("simulator") as session:
        scatter(session, arrays())
        with pytest.raises(kv.AclnnParameterError):
            scatter(session, arrays(key=None))
    with kv.Session("simulator", record=folder / "all", record_failing_only=False) as session:
        scatter(session, arrays())
    assert len(bundles(folder / "all")) == 1
    (failed,) = [path for path in folder.iterdir() if path.name != "all"]
    assert json.loads((failed / "manifest.json").read_text())["outcome"]["status"] == 161001
    monkeypatch.setenv("ACLNN_KVCACHE_RECORD_FAILING", "yes")
    with pytest.raises(kv.ArgumentError, match="ACLNN_KVCACHE_RECORD_FAILING: expected 1, 0 or nothing, got 'yes'"):
        kv.Session("simulator")
    with kv.Session("simulator", record=False) as session:  # the environment has no say
        scatter(session, arrays())
    assert [path for path in folder.iterdir() if path.name != "all"] == [failed]
    for record in (None, folder):
        with pytest.raises(kv.ArgumentError, match="record_failing_only: expected True, False, or None"):
            kv.Session("simulator", record=record, record_failing_only="x")  # type: ignore[arg-type]


def test_replay_records_nothing_of_its_own(
    nothing_left_alive: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kv.Session("simulator", record=folder) as session:
        scatter(session, arrays())
    (bundle,) = bundles(folder)
    monkeypatch.setenv("ACLNN_KVCACHE_RECORD", str(folder))
    assert main(["replay", str(bundle.folder), "--backend", "simulator"]) == 0
    assert len(bundles(folder)) == 1


def test_a_session_that_does_not_record_never_asks_the_recorder(
    session: kv.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder.Recorder, "record", None)
    assert session._recorder is None
    scatter(session, arrays())


def test_recorded_device_calls_are_waited_for(nothing_left_alive: None, folder: Path) -> None:
    with kv.Session("simulator", record=folder) as session:
        call = {name: session.array(array) for name, array in arrays().items()}
        stream = session.create_stream()
        scatter(session, call, stream=stream)
        assert stream.query()
        with pytest.raises(kv.ArgumentError, match="stream"):
            scatter(session, call, stream=5)
    assert len(os.listdir(folder)) == 1


# ---- plans ----


def test_each_launch_of_a_plan_is_kept_as_a_call(nothing_left_alive: None, folder: Path) -> None:
    host = arrays()
    with kv.Session("simulator", record=folder) as session:
        device = {name: session.array(array) for name, array in host.items()}
        given = {**device, "slot_mapping": host["slot_mapping"]}
        with session.prepare_scatter_pa_kv_cache_with_k_scale(**given) as plan:
            assert os.listdir(folder) == []  # nothing was launched
            plan()
            plan.update(slot_mapping=np.array([1, 2, 7], np.int32), key=device["value"])
            plan()
            assert session.stream.query()
    first, second = bundles(folder)
    for bundle, slots, key in ((first, [0, 6, 3], "key"), (second, [1, 2, 7], "value")):
        before = views(bundle.manifest.call.arguments, bundle.contents("before"))
        assert before["slot_mapping"].tolist() == slots
        assert before["key"].tobytes() == host[key].tobytes()
        assert bundle.manifest.outcome == recorder.SUCCESS
        assert {storage.place for storage in bundle.manifest.call.storages.values()} == {"device"}
        assert main(["replay", str(bundle.folder), "--backend", "simulator"]) == 0
    after = first.contents("after")
    assert [first.manifest.tensors[n].view(after[n]).tobytes() for n in CACHES] == [
        views(second.manifest.call.arguments, second.contents("before"))[n].tobytes() for n in CACHES
    ]


def test_a_plan_of_the_fused_operator_is_kept_with_the_outputs_that_it_made(
    nothing_left_alive: None, folder: Path
) -> None:
    prepared = QKV_CASES["qkv-allocated"].prepare(np.random.default_rng(0))
    with kv.Session("simulator", record=folder) as session:
        call = {name: session.array(array) for name, array in prepared.arguments(prepared.before).items()}
        with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**call, **prepared.options) as plan:
            q_out, q_scale = plan()
            expected = {"q_out": q_out.numpy().tobytes(), "q_scale": q_scale.numpy().tobytes()}
    (bundle,) = bundles(folder)
    manifest, after = bundle.manifest, bundle.contents("after")
    assert manifest.call.arguments["q_out"] is None
    assert {n: t.view(after[str(t.storage)]).tobytes() for n, t in manifest.returned.items()} == expected
    assert manifest.call.attributes["head_nums"] == (16, 2, 2)
    assert set(bundle.contents("before")) == set(call)
    assert main(["replay", str(bundle.folder), "--backend", "simulator"]) == 0


def test_a_launch_that_fails_names_its_bundle(nothing_left_alive: None, folder: Path, sim: Any) -> None:
    with kv.Session("simulator", record=folder, record_failing_only=True) as session:
        device = {name: session.array(array) for name, array in arrays().items()}
        plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
        plan()
        sim.aclsim_set_faults(b"kernel:aclnnScatterPaKvCacheWithKScale#1=507035")
        with pytest.raises(kv.DeviceFaultError) as caught:
            plan()
        sim.aclsim_set_faults(b"aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize#1=561103")
        with pytest.raises(kv.AclnnInnerError) as refused:
            plan()
        sim.aclsim_set_faults(None)
        plan()
    late, inner = bundles(folder)
    assert (str(late.folder), str(inner.folder)) == (caught.value.bundle, refused.value.bundle)
    assert (late.manifest.outcome.status, late.manifest.outcome.phase) == (507035, "synchronize")
    assert (inner.manifest.outcome.status, inner.manifest.outcome.phase) == (561103, "phase 1")
    assert [launch.number for launch in caught.value.launches] == [2]


def test_a_launch_that_cannot_be_recorded_is_made_with_a_warning_where_it_was_made(
    nothing_left_alive: None, folder: Path
) -> None:
    with kv.Session("simulator", record=folder) as session:
        host = arrays()
        device = {name: session.array(array) for name, array in host.items()}
        plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
        folder.rmdir()
        folder.write_text("a file now")
        for call in (plan, lambda: scatter(session, host)):
            with pytest.warns(kv.RecordWarning, match="was made, but not recorded") as warned:
                call()
            assert [warning.filename for warning in warned] == [__file__]
        assert device["key_scale_cache"].numpy().tobytes() == host["key_scale_cache"].tobytes()
