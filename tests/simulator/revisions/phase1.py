# SPDX-License-Identifier: Apache-2.0
"""Phase 1 of the fused operator in this revision against the answers that CANN's host code gave."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import recorded_answers
import revision_calls as calls

COUNTS = {"b": 750, "c": 603}
TITLES = {
    "EZ1001": "AclNN_Parameter_Error",
    "EZ1008": "Execution_Error",
    "EZ1009": "Execution_Error",
    "EZ9999": "AclNN_Inner_Error",
    **dict.fromkeys(("EZ0008", "EZ0009", "EZ0010"), "Invalid_Argument_Tensor_Shape"),
    **dict.fromkeys(("EZ0011", "EZ0012"), "Invalid_Argument_Tensor_Shape_Dim"),
    "EZ0017": "Invalid_Argument_Tensor_Format",
    **dict.fromkeys(("EZ0019", "EZ0020"), "Invalid_Argument_Tensor_Dtype"),
    **dict.fromkeys(("EZ0024", "EZ0025", "EZ0026", "EZ0027"), "Invalid_Argument"),
    "EZ0028": "Invalid_Argument_Tensor_Stride",
}
NAMES = [
    *calls.NAMES,
    *("queryStartLocOptional", "seqLensOptional", "qScaleOptional", "mropeSectionOptional", "mropePosition"),
    *("headNums", "head_nums", "layout_qkv", "layout_q_out", "layoutQkv", "layoutQOut", "epsilon"),
    *("qQuantMode", "kQuantMode", "q_quant_mode", "k_quant_mode", "scene", "mrope_position", "mrope_section"),
    *("rotation", "vScale", "kCache", "vCache", "kScaleCache", "D", "T", "Nq", "Nk", "Nv", "totalTokens", "ubSize"),
]
KNOWN = recorded_answers.names_pattern(NAMES)


def check_text(status: int, code: str, text: str) -> None:
    assert f"{TITLES[code]}({code})" in text
    assert ("Solution:" in text) == code.startswith("EZ00")


def test_every_recorded_answer(device: Any) -> None:
    def ask(line: dict[str, Any], base: int) -> dict[str, Any]:
        attrs = line["attrs"]

        def text(name: str) -> bytes | None:
            return None if attrs.get(name) is None else attrs[name].encode()

        def numbers(name: str) -> int | None:
            return None if attrs[name] is None else device.int_array(attrs[name])

        attributes = calls.Attributes(
            numbers("headNums"),
            text("layoutQkv"),
            text("layoutQOut"),
            attrs["epsilon"],
            numbers("mropeSection"),
            text("qQuantMode"),
            text("kQuantMode"),
        )
        return recorded_answers.answer(device, line, base, calls.NAMES, attributes, KNOWN, check_text)

    assert recorded_answers.differences(device, calls.REVISION, COUNTS[calls.REVISION], ask) == []


SCENES = ["rope", "mrope", *(["mx"] if calls.REVISION == "c" else [])]
INNER = {"b": 561103, "c": 161002}[calls.REVISION]
"""What failures behind the operator's own checks leave as."""


def answer(device: Any, call: Any) -> tuple[int, str | None, list[str]]:
    status, _, executor = call.phase1()
    if status == 0:
        device.discard(executor)
    text = device.message() or ""
    code = recorded_answers.CODE.search(text)
    return status, code[0] if code else None, KNOWN.findall(text)


def retype(
    device: Any, call: Any, name: str, shape: Any, strides: Any = None, offset: int = 0, dtype: Any = None
) -> None:
    """Another descriptor for the tensor, of memory that need not be there: phase 1 does not touch it."""
    storage = None if strides is None else [1 << 40]
    address = call.addresses.get(name, call.addresses["qkv"])
    if name in call.tensors:
        device.destroy(call.tensors[name])
    call.tensors[name] = device.tensor(
        shape, call.dtypes[name] if dtype is None else dtype, address, strides, offset, storage
    )


def up512(count: int) -> int:
    return -(-count // 512) * 512


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("k_heads", [1, 8])
@pytest.mark.parametrize("tokens", [1, 16, 17, 1000])
def test_workspace(device: Any, scene: str, k_heads: int, tokens: int) -> None:
    call = calls.Call(device, scene, tokens=tokens, k_heads=k_heads).prepare()
    scales = up512(4 * tokens * 8 * k_heads + 32) if scene == "mrope" else 0
    assert device.workspace_size(call.handles, call.attributes) == up512(32 * 2**20 + 32) + scales
    retype(device, call, "qkv", (tokens, 10 * k_heads, 128), (10 * k_heads * 256, 256, 2))
    copy = up512(2 * tokens * 10 * k_heads * 128)
    assert device.workspace_size(call.handles, call.attributes) == up512(32 * 2**20 + 32) + scales + copy


@pytest.mark.parametrize("heads", [(8, 1, 1), (64, 8, 8), (72, 9, 9), (16, 4, 4), (8, 1, 2), (12, 1, 1), (0, 0, 0)])
def test_head_counts(device: Any, heads: tuple[int, int, int]) -> None:
    call = calls.Call(device).prepare()
    retype(device, call, "qkv", (3, sum(heads), 128))
    call.attributes = call.attributes._replace(head_nums=device.int_array(heads))
    wanted = {
        "b": {(72, 9, 9): ["Nq"], (16, 4, 4): ["Nq", "Nk"], (8, 1, 2): ["Nv", "Nk"], (12, 1, 1): ["Nq", "Nk"]},
        "c": {h: ["head_nums"] for h in [(72, 9, 9), (16, 4, 4), (8, 1, 2), (12, 1, 1), (0, 0, 0)]},
    }[calls.REVISION]
    status, _, about = answer(device, call)
    if heads in wanted:
        assert (status, about) == (161002, wanted[heads])
    elif heads == (0, 0, 0):
        assert status == 161002
    else:
        assert about != ["head_nums"]
        assert "Nq" not in about


def test_negative_offsets_of_caches(device: Any) -> None:
    call = calls.Call(device).prepare()
    retype(device, call, "kScaleCacheRef", (2, 1, 4, 1), (4, 4, 1, 1), offset=-1)
    assert answer(device, call) == (561103, "EZ9999", [])


def test_inputs_that_leave_their_storage(device: Any) -> None:
    call = calls.Call(device, "mrope").prepare()
    retype(device, call, "mropePositionOptional", (3, 3), (-3, 1))
    assert answer(device, call) == (561103, "EZ1001", [])
    retype(device, call, "mropePositionOptional", (3, 3), (-3, 1), offset=6)
    assert answer(device, call)[0] == 0


def test_empty_inputs_have_nothing_to_copy(device: Any) -> None:
    """Whatever their strides; B asks for emptiness before, C for the shape after."""
    call = calls.Call(device, "mrope").prepare()
    retype(device, call, "cosSin", (0, 128), (-128, 2))
    wanted = (161002, "EZ0026", ["cosSin"]) if calls.REVISION == "b" else (161002, "EZ0009", ["cosSin"])
    assert answer(device, call) == wanted


def test_negative_token_counts(device: Any) -> None:
    """Dense strides over a negative extent are not those of a dense tensor any more."""
    call = calls.Call(device, layouts=("NTD", "NTD")).prepare()
    for name, shape in (("qkv", (10, -3, 128)), ("slotMapping", (-3,)), ("qOut", (8, -3, 128)), ("qScale", (8, -3))):
        retype(device, call, name, shape)
    assert answer(device, call) == (561103, "EZ1001", [])
    call = calls.Call(device).prepare()
    for name, shape in (("qkv", (-3, 10, 128)), ("slotMapping", (-3,)), ("qOut", (-3, 8, 128)), ("qScale", (-3, 8))):
        retype(device, call, name, shape)
    assert answer(device, call) == (INNER, "EZ0009", ["qkv"])


@pytest.mark.parametrize(("tokens", "about"), [(262_144, []), (262_145, ["totalTokens"]), (2**31, ["totalTokens"])])
def test_many_tokens(device: Any, tokens: int, about: list[str]) -> None:
    """Revision C alone has a limit."""
    call = calls.Call(device, tokens=1).prepare()
    for name, shape in (("qkv", (10, 128)), ("slotMapping", ()), ("qOut", (8, 128)), ("qScale", (8,))):
        retype(device, call, name, (tokens, *shape))
    about = about if calls.REVISION == "c" else []
    assert answer(device, call) == ((161002, "EZ0024", about) if about else (0, None, []))


def test_token_major_caches(device: Any) -> None:
    """Revision C refuses what B takes, unless a head or a row is the only one."""
    call = calls.Call(device, k_heads=2).prepare()
    for name in ("kCacheRef", "vCacheRef"):
        retype(device, call, name, (2, 2, 4, 128), (1024, 128, 256, 1))
    assert answer(device, call) == ((161002, "EZ1008", []) if calls.REVISION == "c" else (0, None, []))
    single = calls.Call(device, k_heads=1).prepare()
    for name in ("kCacheRef", "vCacheRef"):
        retype(device, single, name, (2, 1, 4, 128), (1024, 128, 256, 1))
    assert answer(device, single)[0] == 0


@pytest.mark.parametrize(
    ("strides", "name"),
    [((0, 512, 128, 1), "kCache"), ((512, 127, 128, 1), "kCache"), ((512, 512, 127, 1), "kCache")],
)
def test_least_strides(device: Any, strides: Any, name: str) -> None:
    call = calls.Call(device).prepare()
    retype(device, call, "kCacheRef", (2, 1, 4, 128), strides)
    assert answer(device, call) == (INNER, "EZ0028", [name])


@pytest.mark.provokes("api:no_device")
def test_without_a_device(device: Any) -> None:
    """The page leaves it open; here it comes before the tiling, with the status that the tiling has."""
    good, strided = calls.Call(device).prepare(), calls.Call(device).prepare()
    retype(device, strided, "kCacheRef", (2, 1, 4, 128), (1024, 1024, 256, 2))
    answers: list[Any] = []

    def on_a_new_thread() -> None:
        answers.extend((call.phase1()[0], device.message()) for call in (good, strided))

    thread = threading.Thread(target=on_a_new_thread)
    thread.start()
    thread.join()
    for status, text in answers:
        assert status == INNER
        assert "aclrtGetDevice" in text
        assert "107002" in text


def test_identical_calls_hit_the_cache_and_others_do_not(device: Any) -> None:
    """The section is part of what a call is."""
    call = calls.Call(device, "mrope").prepare()
    assert call.run() == 0
    repeatable = device.sim.aclSetAclOpExecutorRepeatable
    _, _, cached = call.phase1()
    assert repeatable(cached) == 561000
    call.attributes = call.attributes._replace(section=device.int_array((24, 20, 19)))
    _, _, fresh = call.phase1()
    assert repeatable(fresh) == 0
    device.discard(cached)
    device.discard(fresh)
    device.message()


@pytest.mark.skipif(calls.REVISION != "c", reason="of revision C")
class TestRevisionC:
    @pytest.mark.usefixtures("cheap_checks")
    def test_outputs_may_have_any_shape(self, device: Any) -> None:
        """Shape inference writes their descriptors; the kernel goes by the call, not by them."""
        call = calls.Call(device, "mx").prepare()
        retype(device, call, "qOut", (1, 1))
        retype(device, call, "qScale", (0,), dtype=calls.FLOAT)
        assert call.run() == 0
        assert (call.result("qOut") == 0x78).all(), "1 is 256 of 2^-8"
        assert (call.result("qScale") == 119).all()

    @pytest.mark.parametrize("shape", [(), (0,), (1,) * 8, (2**40,) * 4])
    def test_and_any_rank(self, device: Any, reports: Any, shape: Any) -> None:
        """What the kernel writes is held against the tensor that the caller has described."""
        call = calls.Call(device, "mx").prepare()
        retype(device, call, "qOut", shape)
        assert call.run() == 0
        found = reports.take()
        is_large = shape == (2**40,) * 4
        assert [r["kind"] for r in found] == [] if is_large else ["out_of_bounds_write"] * 3
        assert all("not all inside tensor qOut" in r["text"] for r in found)
        assert ((call.result("qOut") == 0x78).all(), (call.result("qOut") == 0xCC).all()) == (is_large, not is_large)

    def test_private_formats_are_not_copied(self, device: Any) -> None:
        """They count as contiguous, whatever their strides, and are asked for nothing else."""
        call = calls.Call(device, "mrope").prepare()
        base = call.addresses["mropePositionOptional"]
        for fmt, wanted in ((calls.scatter_calls.ND, (561103, "EZ1001", [])), (29, (0, None, []))):
            call.tensors["mropePositionOptional"] = device.tensor((3, 3), calls.INT32, base, (-3, 1), 0, [9], fmt)
            assert answer(device, call) == wanted

    def test_modes(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        scene = ["scene", "q_quant_mode", "k_quant_mode"]
        for q_mode, k_mode, wanted in (
            (b"", b"", (0, None, [])),
            (b"PerTokenPerHead", None, (0, None, [])),
            (b"pertokenperhead", None, (161002, "EZ0026", scene)),
            (None, b"Mx", (161002, "EZ0026", scene)),
            (b"Mx", b"Mx", (161002, "EZ0026", scene)),
            (b"NoQuant", None, (161002, "EZ0026", ["qScaleOptional"])),
        ):
            call.attributes = call.attributes._replace(q_mode=q_mode, k_mode=k_mode)
            assert answer(device, call) == wanted

    @pytest.mark.parametrize(
        ("name", "strides", "wanted"),
        [
            ("kScaleCacheRef", (64, 16, 3, 1), ("EZ0028", ["kScaleCache"])),
            ("kScaleCacheRef", (16, 3, 4, 1), ("EZ0027", ["totalTokens", "ubSize"])),
            ("kScaleCacheRef", (2**40, 2**32 + 3, 4, 1), None),
            ("kScaleCacheRef", (2**40, 2**32 + 4, 4, 1), ("EZ0027", ["totalTokens", "ubSize"])),
            ("kScaleCacheRef", (15, 16, 4, 1), ("EZ1008", [])),
        ],
    )
    def test_strides_of_exponents(self, device: Any, name: str, strides: Any, wanted: Any) -> None:
        call = calls.Call(device, "mx").prepare()
        retype(device, call, name, (2, 1, 4, 4), strides)
        assert answer(device, call) == ((0, None, []) if wanted is None else (161002, *wanted))

    def test_data_types_of_another_scene(self, device: Any) -> None:
        call = calls.Call(device, "rope").prepare()
        retype(device, call, "kScaleCacheRef", (2, 1, 4, 1), dtype=calls.E8M0)
        assert answer(device, call) == (161002, "EZ0019", ["kScaleCache"])
        retype(device, call, "kScaleCacheRef", (2, 1, 4, 1))
        retype(device, call, "qOut", (3, 8, 128), dtype=calls.BF16)
        assert answer(device, call) == (161002, "EZ1009", [])


@pytest.mark.skipif(calls.REVISION != "b", reason="of revision B")
class TestRevisionB:
    def test_shapes_of_outputs_have_a_rule_each(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        retype(device, call, "qScale", (8, 3))
        assert answer(device, call) == (161002, "EZ0009", ["qScale"])
        retype(device, call, "qOut", (8, 3, 128))
        assert answer(device, call) == (161002, "EZ0009", ["qOut"])

    def test_overlapping_caches_pass(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        for name in ("kCacheRef", "vCacheRef"):
            retype(device, call, name, (2, 1, 4, 128), (1, 128, 128, 1))
        assert answer(device, call)[0] == 0
