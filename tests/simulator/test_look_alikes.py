# SPDX-License-Identifier: Apache-2.0
"""Arrays that are nearly right, in place of every argument of both operators: refused by name with what to do, and with
nothing changed, or taken and then right in every byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import good_calls
import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.dtypes import BY_DTYPE, hint_for, name_of
from aclnn_kvcache.rules import qkv_revision_a
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as scatter_rules
from aclnn_kvcache.rules.contracts import CONTRACTS

QKV, SCATTER = good_calls.QKV, good_calls.SCATTER
ALLOWED = {SCATTER: scatter_rules.DTYPES, QKV: qkv_revision_a.ALL_DTYPES}
Array = np.ndarray[Any, Any]


def good(operator: str) -> dict[str, Any]:
    """A good call on host arrays of random bytes, its outputs among them."""
    rng = np.random.default_rng(7)
    specs = good_calls.GOOD[operator](T=5, B=2) if operator == SCATTER else good_calls.qkv(T=5, batches=2, B=2)
    call = {}
    for name, spec in specs.items():
        if not isinstance(spec, kv.TensorSpec):
            call[name] = spec
        elif spec.dtype.itemsize == 1:
            call[name] = rng.integers(0, 0x70, spec.shape, np.uint8).view(spec.dtype)
        else:
            call[name] = rng.uniform(-2, 2, spec.shape).astype(spec.dtype)
    call["slot_mapping"] = rng.permutation(8)[:5].astype(np.int32)
    if operator == QKV:
        call["query_start_loc"], call["seq_lens"] = np.array([0, 2, 5], np.int32), np.array([4, 3], np.int32)
    return call


def run(session: kv.Session, operator: str, call: dict[str, Any]) -> None:
    getattr(session, operator)(**call)


def snapshot(call: dict[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in call.items() if isinstance(array, np.ndarray)}


DTYPES: list[Any] = [
    *("float8_e4m3", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e3m4", "float8_e8m0fnu"),
    *("V1", "u1", "i1", "?", "V2", "u2", "i2", "f2", ">i4", ">f4", "u4", "u8", "f8", "c8", "O", "S1", "U1", "M8[s]"),
    [("code", "u1")],
    *("float8_e4m3fn", "float8_e5m2", "bfloat16", "f4", "i4", "i8"),
]
"""Those that an argument may have are left out for it."""

EXPECTED_HINTS = {
    "float8_e4m3fnuz": "its codes stand for other values: array.astype('f4').astype(ml_dtypes.float8_e4m3fn) converts",
    "float8_e4m3": "its codes stand for other values",
    "float8_e8m0fnu": "its codes stand for other values",
    "V1": "if the bytes are FP8 codes say which: array.view(ml_dtypes.float8_e4m3fn)",
    "u1": "if the bytes are FP8 codes say which: array.view(ml_dtypes.float8_e4m3fn)",
    "i1": "if the bytes are FP8 codes say which: array.view(ml_dtypes.float8_e4m3fn)",
    ">i4": "convert it: array.astype(array.dtype.newbyteorder('='))",
    ">f4": "convert it: array.astype(array.dtype.newbyteorder('='))",
    "f8": "quantise it on purpose: array.astype(ml_dtypes.float8_e4m3fn)",
    "bfloat16": "quantise it on purpose: array.astype(ml_dtypes.float8_e4m3fn)",
}
"""What is said where FP8 is expected; of the rest the operator's table of dtypes is all there is to say."""

SLOT_HINTS = {
    "u8": (
        "int32 or int64, got uint64; array.astype('int64') converts it if its values fit",
        "int32, got uint64; array.astype('int32') converts it if its values fit",
    ),
    "i2": (
        "int32 or int64, got int16; array.astype('int64') converts it",
        "int32, got int16; array.astype('int32') converts it",
    ),
    "f8": ("int32 or int64, got float64", "int32, got float64"),
    "c16": ("int32 or int64, got complex128", "int32, got complex128"),
}
"""For scatter and for the fused operator; nothing that would drop fractions."""

REFUSED = [
    (operator, name, dtype)
    for operator in sorted(ALLOWED)
    for name, dtype in itertools.product(ALLOWED[operator], DTYPES)
    if np.dtype(dtype) not in ALLOWED[operator][name]
]


@pytest.mark.parametrize("operator", sorted(ALLOWED))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype_that_is_nearly_right(session: kv.Session, operator: str, dtype: Any) -> None:
    for name in (name for where, name, wrong in REFUSED if (where, wrong) == (operator, dtype)):
        call = good(operator)
        call[name] = np.zeros(call[name].shape, dtype)
        before = snapshot(call)
        with pytest.raises(kv.AclnnParameterError) as caught:
            run(session, operator, call)
        assert snapshot(call) == before
        wanted = ALLOWED[operator][name]
        finding = caught.value.findings[0]
        text = f"{name} must be {' or '.join(map(name_of, wanted))}, got {name_of(np.dtype(dtype))}"
        hint = hint_for(np.dtype(dtype), wanted)
        assert finding.message == (f"{text}; {hint}" if hint else text)
        assert (finding.rule, finding.status) == (f"dtype.{name}", 161002)
        assert kv.check_call(operator, **call)[0] == finding
        if name not in CONTRACTS[operator].outputs:
            refused_by_the_oracle(operator, call, name, np.dtype(dtype))


def predicted(operator: str, call: dict[str, Any]) -> list[bytes]:
    """What the oracle gives."""
    arguments = {key: value for key, value in call.items() if key not in CONTRACTS[operator].outputs}
    return [array.tobytes() for array in getattr(kv.oracle, operator)(**arguments)]


def refused_by_the_oracle(operator: str, call: dict[str, Any], name: str, dtype: np.dtype[Any]) -> None:
    arguments = {key: value for key, value in call.items() if key not in CONTRACTS[operator].outputs}
    with pytest.raises(TypeError) as caught:
        getattr(kv.oracle, operator)(**arguments)
    # A wrong dtype of key shows at key, and one that key may have too at the others.
    assert str(caught.value).startswith((f"{name}: expected ", "value: expected ", "key_cache: expected "))
    assert str(dtype) in str(caught.value)


@pytest.mark.parametrize("operator", sorted(ALLOWED))
def test_what_is_to_be_done_is_said(operator: str) -> None:
    fp8 = "k_cache" if operator == QKV else "key_cache"
    for dtype, text in EXPECTED_HINTS.items():
        spec = kv.TensorSpec(good(operator)[fp8].shape, dtype)
        assert text in kv.check_call(operator, **{**good(operator), fp8: spec})[0].message
    for dtype, texts in SLOT_HINTS.items():
        found = kv.check_call(operator, **{**good(operator), "slot_mapping": kv.TensorSpec((5,), dtype)})
        assert found[0].message == f"slot_mapping must be {texts[operator == QKV]}"


NO_ARRAYS: list[tuple[Callable[[Array], Any], str]] = [
    (lambda array: array.tolist(), "list"),
    (lambda array: tuple(array), "tuple"),
    (lambda array: np.ma.array(array.astype(np.float32)), "MaskedArray"),
    (lambda array: memoryview(array.tobytes()), "memoryview"),
    (lambda array: array.tobytes(), "bytes"),
    (lambda array: "array", "str"),
    (lambda array: 0, "int"),
    (lambda array: np.float32(0), "float32"),
]


@pytest.mark.parametrize("operator", sorted(ALLOWED))
@pytest.mark.parametrize(("change", "shown"), NO_ARRAYS, ids=[shown for _, shown in NO_ARRAYS])
def test_what_is_no_array(session: kv.Session, operator: str, change: Callable[[Array], Any], shown: str) -> None:
    for name in ALLOWED[operator]:
        call = good(operator)
        call[name] = change(call[name])
        before = snapshot(call)
        with pytest.raises(kv.ArgumentError) as caught:
            run(session, operator, call)
        text = f"{name}: expected a numpy.ndarray or a DeviceArray, got {shown}; nothing is converted behind your back"
        assert str(caught.value) == text
        assert snapshot(call) == before
        with pytest.raises(kv.ArgumentError, match=f"^{name}: expected a numpy.ndarray, .*, got {shown}; nothing is"):
            kv.check_call(operator, **call)
        if name not in CONTRACTS[operator].outputs:
            arguments = {key: value for key, value in call.items() if key not in CONTRACTS[operator].outputs}
            with pytest.raises(TypeError, match=f"^{name}: expected a NumPy array, got {shown}$"):
                getattr(kv.oracle, operator)(**arguments)


@pytest.mark.parametrize("operator", sorted(ALLOWED))
@pytest.mark.parametrize(("change", "shown"), NO_ARRAYS, ids=[shown for _, shown in NO_ARRAYS])
def test_what_is_no_array_in_a_plan(
    session: kv.Session, operator: str, change: Callable[[Array], Any], shown: str
) -> None:
    hosts = good(operator)
    call = {name: session.array(value) if isinstance(value, np.ndarray) else value for name, value in hosts.items()}
    prepare = getattr(session, f"prepare_{operator}")
    values = CONTRACTS[operator].values
    with prepare(**{**call, **{name: hosts[name] for name in values}}) as plan:
        for name in ALLOWED[operator]:
            wrong = {name: change(hosts[name])}
            text = f"{name}: expected a numpy.ndarray or a DeviceArray, got {shown}; nothing is converted"
            for use in (lambda wrong=wrong: prepare(**{**call, **wrong}), lambda wrong=wrong: plan.update(**wrong)):
                with pytest.raises(kv.ArgumentError) as caught:
                    use()
                assert str(caught.value).startswith(text)
        plan()
    plain = good(operator)
    run(session, operator, plain)
    for name in CONTRACTS[operator].written:
        assert call[name].numpy().tobytes() == plain[name].tobytes()


SHAPES: list[Callable[[Array], Array]] = [
    lambda array: np.zeros((), array.dtype),
    lambda array: array[None],
    lambda array: array[..., None],
]


@pytest.mark.parametrize("operator", sorted(ALLOWED))
@pytest.mark.parametrize("change", SHAPES, ids=["0-d", "axis in front", "axis behind"])
def test_another_rank(session: kv.Session, operator: str, change: Callable[[Array], Array]) -> None:
    for name in ALLOWED[operator]:
        call = good(operator)
        call[name] = change(call[name])
        before = snapshot(call)
        with pytest.raises(kv.AclnnParameterError) as caught:
            run(session, operator, call)
        assert snapshot(call) == before
        assert any(name in finding.arguments for finding in caught.value.findings)
        assert str(list(call[name].shape)) in str(caught.value)


@pytest.mark.parametrize("operator", sorted(ALLOWED))
def test_written_arrays_that_cannot_be_written(session: kv.Session, operator: str) -> None:
    for name in CONTRACTS[operator].written:
        call = good(operator)
        call[name].flags.writeable = False
        before = snapshot(call)
        with pytest.raises(kv.ArgumentError) as caught:
            run(session, operator, call)
        wanted = "an array that can be written, since the operator changes it, got a read-only array"
        assert str(caught.value) == f"{name}: expected {wanted}"
        assert snapshot(call) == before


@pytest.mark.parametrize("operator", sorted(ALLOWED))
def test_written_arrays_that_reach_an_element_twice(session: kv.Session, operator: str) -> None:
    for name in CONTRACTS[operator].written:
        call = good(operator)
        array = call[name]
        call[name] = np.lib.stride_tricks.as_strided(array, strides=(0, *array.strides[1:]))
        before = snapshot(call)
        with pytest.raises(kv.AclnnParameterError, match=f"{name} reaches some bytes through more than one index"):
            run(session, operator, call)
        assert snapshot(call) == before


@pytest.mark.parametrize("operator", sorted(ALLOWED))
def test_written_arrays_that_share_memory(session: kv.Session, operator: str) -> None:
    """With any other argument: the bytes of both lie in one block, the second one byte or item further on."""
    for name, other in itertools.product(CONTRACTS[operator].written, ALLOWED[operator]):
        call = good(operator)
        one, two = call[name], call[other]
        if other == name or one.itemsize > two.itemsize or other in CONTRACTS[operator].written:
            continue
        room = np.zeros(one.nbytes + two.nbytes, np.uint8)
        call[other] = room[: two.nbytes].view(two.dtype).reshape(two.shape)
        call[other][...] = two
        call[name] = room[two.nbytes - one.itemsize :][: one.nbytes].view(one.dtype).reshape(one.shape)
        before = snapshot(call)
        with pytest.raises(kv.AclnnParameterError, match=f"{name}, which is written, shares memory with {other}"):
            run(session, operator, call)
        assert snapshot(call) == before


class Subclass(np.ndarray):  # type: ignore[type-arg]
    """An array with manners of its own."""

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("elements are not to be taken one by one")


def fortran(array: Array) -> Array:
    return np.asfortranarray(array)


def spaced(array: Array) -> Array:
    room = np.zeros((*array.shape[:-1], array.shape[-1] * 3), array.dtype)
    room[..., 1::3] = array
    return room[..., 1::3]


def reversed_memory(array: Array) -> Array:
    flipped = np.flip(array).copy()
    return np.flip(flipped)


def misaligned(array: Array) -> Array:
    room = np.zeros(array.nbytes + 1, np.uint8)
    result = room[1:].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


TAKEN = [fortran, spaced, reversed_memory, misaligned, lambda array: array.view(Subclass)]


@pytest.mark.parametrize("operator", sorted(ALLOWED))
@pytest.mark.parametrize("change", TAKEN, ids=["fortran", "spaced", "reversed", "misaligned", "subclass"])
def test_arrays_of_any_memory_are_taken(session: kv.Session, operator: str, change: Callable[[Array], Array]) -> None:
    plain = good(operator)
    expected = predicted(operator, plain)
    run(session, operator, plain)
    for name in ALLOWED[operator]:
        call = good(operator)
        call[name] = change(call[name])
        run(session, operator, call)
        assert {key: value.tobytes() for key, value in call.items() if isinstance(value, np.ndarray)} == snapshot(plain)
        assert kv.check_call(operator, **call) == []
        assert predicted(operator, {**good(operator), name: change(good(operator)[name])}) == expected


@pytest.mark.parametrize("operator", sorted(ALLOWED))
def test_inputs_that_are_read_only_or_broadcast_are_taken(session: kv.Session, operator: str) -> None:
    names = [name for name in CONTRACTS[operator].inputs if name not in CONTRACTS[operator].values]
    for name in names:
        call, plain = good(operator), good(operator)
        call[name] = np.broadcast_to(call[name][:1], call[name].shape)
        plain[name][...] = plain[name][:1]
        assert not call[name].flags.writeable
        run(session, operator, call)
        run(session, operator, plain)
        assert snapshot(call) == snapshot(plain)


def test_a_matrix_is_an_array_of_two_axes(session: kv.Session) -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.asmatrix(good(SCATTER)["key_scale"])
    call, plain = good(SCATTER), good(SCATTER)
    call["key_scale"] = matrix
    run(session, SCATTER, call)
    run(session, SCATTER, plain)
    assert snapshot(call) == snapshot(plain)


NOT_OF_CANN = ["float8_e4m3", "float8_e4m3fnuz", "V1", ">f4", "O", "S1", "U1", "M8[s]", [("a", "u1")]]


@pytest.mark.parametrize("dtype", NOT_OF_CANN, ids=str)
def test_memory_of_a_dtype_that_cann_lacks(session: kv.Session, dtype: Any) -> None:
    kind = np.dtype(dtype)
    hint = hint_for(kind, BY_DTYPE)
    text = f"expected a dtype that CANN has, in native byte order, got {name_of(kind)}" + (f"; {hint}" if hint else "")
    for argument, make in (
        ("host", lambda: session.array(np.zeros(3, kind))),
        ("dtype", lambda: session.empty(3, kind)),
        ("dtype", lambda: session.borrow_array(4096, 3, kind)),
    ):
        with pytest.raises(kv.ArgumentError) as caught:
            make()
        assert str(caught.value) == f"{argument}: {text}"


def test_no_dtype_is_none_that_is_guessed(session: kv.Session) -> None:
    for make in (
        lambda: session.empty(3, None),
        lambda: session.borrow_array(4096, 3, None),
        lambda: kv.TensorSpec((3,), None),
    ):
        with pytest.raises(kv.ArgumentError, match=r"^dtype.*: expected "):
            make()


@pytest.mark.parametrize(("change", "shown"), NO_ARRAYS, ids=[shown for _, shown in NO_ARRAYS])
def test_what_is_no_array_gets_no_device_copy(session: kv.Session, change: Callable[[Array], Any], shown: str) -> None:
    wrong = change(np.ones((2, 2), np.float32))
    with pytest.raises(kv.ArgumentError) as caught:
        session.array(wrong)
    assert str(caught.value) == f"host: expected a numpy.ndarray, got {shown}; nothing is converted behind your back"
    for arrays in ((wrong, np.ones(2)), (np.ones(2), wrong)):
        with pytest.raises(TypeError, match=f"(actual|expected): expected a NumPy array, got {shown}$"):
            kv.compare(*arrays)


@pytest.mark.parametrize("change", TAKEN, ids=["fortran", "spaced", "reversed", "misaligned", "subclass"])
def test_device_copies_and_comparisons_of_any_memory(session: kv.Session, change: Callable[[Array], Array]) -> None:
    plain = good(SCATTER)["key_cache"]
    array = change(plain.copy())
    copy = session.array(array).numpy()
    assert type(copy) is np.ndarray
    assert copy.tobytes() == plain.tobytes()
    assert kv.compare(array, plain).ok
    other = plain.copy()
    other.view(np.uint8)[1, 0, 2, 3] ^= 1
    assert not kv.compare(array, other).ok


@pytest.mark.parametrize("dtype", ["u1", "V1", "float8_e4m3fnuz", "float8_e5m2", "?"])
def test_comparisons_of_two_dtypes_are_refused(dtype: str) -> None:
    plain = np.zeros((2, 3), ml_dtypes.float8_e4m3fn)
    with pytest.raises(TypeError, match="expected dtype float8_e4m3fn as expected has, got "):
        kv.compare(plain.view(dtype), plain)
