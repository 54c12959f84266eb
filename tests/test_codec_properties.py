"""
What must hold for the codec of any type and any value.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, reject, settings
from hypothesis import strategies as st

from june.codec import Codec, Inexact, Undecodable, UnsupportedType, codec_for, recode
from tests.strategies import SINGLE, identical, json_values, typed_values, types

quietly = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def codec_of(annotation: Any) -> Codec:
    """Give the codec, and give up on a drawn union whose members nobody could tell apart."""
    try:
        return codec_for(annotation)
    except UnsupportedType as error:
        if "have the name" in str(error):
            reject()
        raise


def strictly(data: bytes) -> Any:
    """Read strict JSON with another reader than msgspec."""

    def refuse(text: str) -> None:
        raise AssertionError(text)

    return json.loads(data, parse_constant=refuse)


@given(typed_values())
@quietly
def test_what_is_encoded_comes_back_exactly(typed: tuple[Any, Any]) -> None:
    """
    A value comes back the same, part by part and type by type, and encodes to the same bytes again.
    """
    annotation, value = typed
    codec = codec_of(annotation)
    data = codec.encode(value)
    again = codec.decode(data)
    assert identical(value, again)
    assert codec.encode(again) == data == recode(codec, data)
    strictly(data)
    assert identical(codec.decode(memoryview(data)), value)


@given(typed_values())
@quietly
def test_a_plain_type_is_what_json_itself_reads(typed: tuple[Any, Any]) -> None:
    """
    Where a codec is plain, any JSON reader gives the value.
    """
    annotation, value = typed
    codec = codec_of(annotation)
    assume(codec.plain)
    assert identical(strictly(codec.encode(value)), value)


@given(typed_values(), typed_values())
@quietly
def test_a_value_is_exact_or_refused_under_any_type(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    """
    A value of another type than the declared one comes back exactly, or is refused.
    """
    codec = codec_of(one[0])
    value = other[1]
    try:
        data = codec.encode(value)
    except Inexact:
        return
    assert identical(codec.decode(data), value)


@given(types(), json_values)
@quietly
def test_any_json_is_a_value_or_undecodable(typed: Any, data: Any) -> None:
    """
    Any JSON ends in a value that encodes again, or in Undecodable.
    """
    codec = codec_of(typed[0])
    try:
        value = codec.decode(json.dumps(data).encode())
    except Undecodable:
        return
    assert identical(codec.decode(codec.encode(value)), value)


@given(st.sampled_from([one[0] for one in SINGLE]), st.binary(max_size=40))
@example(list, b"[" * 100_000)
@example(int, b"9" * 5_000)
@example(Any, b'"\\ud800"')
@example(float, b"1e999")
@quietly
def test_any_bytes_are_a_value_or_undecodable(annotation: Any, data: bytes) -> None:
    """
    Any bytes end in a value or in Undecodable.
    """
    try:
        codec_for(annotation).decode(data)
    except Undecodable:
        pass


@given(typed_values(), st.data())
@quietly
def test_damaged_data_is_a_value_or_undecodable(typed: tuple[Any, Any], data: st.DataObject) -> None:
    """
    Data with a byte changed ends in a value that encodes again, or in Undecodable.
    """
    annotation, value = typed
    codec = codec_of(annotation)
    whole = bytearray(codec.encode(value))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(32, 126))
    try:
        recode(codec, bytes(whole))
    except Undecodable:
        pass


@given(types())
@quietly
def test_a_description_does_not_depend_on_what_was_read_before(typed: Any) -> None:
    """
    Reading a type anew gives equal descriptions, and its classes in the same order.
    """
    from june.codec import _codecs

    codec = codec_of(typed[0])
    again = _codecs._make(typed[0], {})
    assert (codec.description, codec.classes) == (again.description, again.classes)
    strictly(codec.description)


@pytest.mark.parametrize("items", [["b", "a", "c"], ["c", "b", "a"]])
def test_the_order_of_a_set_does_not_count(items: list[str]) -> None:
    """
    Equal sets give equal bytes, whatever order they are in.
    """
    assert codec_for(set[str]).encode(set(items)) == b'["a","b","c"]'
