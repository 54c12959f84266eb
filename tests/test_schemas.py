"""
JSON schemas: what they say of each type, and that they say what codecs read and write.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from june.codec import MISSING, Undecodable, UnsupportedType, codec_for, register, schema_for
from tests.strategies import Box, Colour, Job, Pair, Point, Right, Tree, json_values, typed_values

T = TypeVar("T")

quietly = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def fits(schema: Any, data: Any) -> bool:
    return Draft202012Validator(schema).is_valid(data)


def schema_or_reject(annotation: Any) -> Any:
    """Give the schema, and give up on a drawn union whose members nobody could tell apart."""
    try:
        return schema_for(annotation)
    except UnsupportedType as error:
        if "have the name" in str(error):
            reject()
        raise


@given(typed_values())
@quietly
def test_what_is_encoded_fits_the_schema(typed: tuple[Any, Any]) -> None:
    """
    What a codec writes fits the schema of its type, which is a schema itself, and JSON.
    """
    annotation, value = typed
    schema = schema_or_reject(annotation)
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    data = json.loads(codec_for(annotation).encode(value))
    assert fits(schema, data)


# What a schema cannot say, by the codec's words for it.
UNSAID = re.compile(
    r"expected (?:float|.*\bfloat\b.*), found -?\d+"  # a float without a point
    r"|expected .*\bint\b.*, found -?[\d.]+(?:e\+\d+)?"  # an int with one
    r"|expected Literal\[.*, found .*"  # 1.0, which JSON says is 1
    r"|.* found an item twice|.* found a key twice"  # equal, though written differently
    r"|.* found items that cannot be in a set|.* found a key that cannot be in a dict"
    r"|expected (datetime|date|time|UUID|Fraction|timedelta|range|complex), found .*"
    r"|expected the deque's maxlen, found .*"
    r"|expected names of members of \w+ in their order, found .*"
)


def mutated(draw: Any, data: Any) -> Any:
    """Change one part of JSON data."""
    if isinstance(data, list) and data and draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        return [*data[:at], mutated(draw, data[at]), *data[at + 1 :]]
    if isinstance(data, dict) and data and draw(st.booleans()):
        key = draw(st.sampled_from(list(data)))
        return {**data, key: mutated(draw, data[key])}
    if isinstance(data, list) and data:
        kind = draw(st.sampled_from(["drop", "double", "swap", "replace"]))
        if kind == "drop":
            return data[1:]
        if kind == "double":
            return [*data, data[0]]
        if kind == "swap":
            return data[::-1]
    if isinstance(data, dict):
        kind = draw(st.sampled_from(["drop", "add", "replace"]))
        if kind == "drop":
            return dict(list(data.items())[1:])
        if kind == "add":
            return {**data, draw(st.sampled_from(["a", "x", "dict", "Point"])): draw(json_values)}
    if isinstance(data, str):
        return draw(st.sampled_from([data + "x", data[:-1], data[1:], "", "RED", "1"]) | json_values)
    if type(data) in (int, float):
        return draw(st.sampled_from([data + 1, -data, str(data), [data], 0, 1.5, 10**9]) | json_values)
    return draw(json_values)


@given(typed_values(), st.data())
@quietly
def test_what_fits_the_schema_can_be_decoded(typed: tuple[Any, Any], data: st.DataObject) -> None:
    """
    Data that fits is a value, and data that does not fit is none, but for what a schema cannot say.
    """
    annotation, value = typed
    schema = schema_or_reject(annotation)
    codec = codec_for(annotation)
    changed = mutated(data.draw, json.loads(codec.encode(value)))
    problem = None
    try:
        codec.decode(json.dumps(changed).encode())
    except Undecodable as error:
        problem = error.problem
    if fits(schema, changed):
        assert problem is None or UNSAID.fullmatch(problem), (schema, changed)
    else:
        assert problem is not None, (schema, changed)


def test_what_a_schema_cannot_say() -> None:
    """
    These fit a schema and are no values: they are all that a schema overlooks.
    """
    cases: list[tuple[Any, str]] = [
        (float, "1"),
        (int, "1.0"),
        (Literal[1], "1.0"),
        (set[int | bool], "[1,true]"),
        (dict[int, str], '[[1,"a"],[1,"b"]]'),
        (datetime.date, '"2026-02-30"'),
        (datetime.datetime, '"tomorrow"'),
        (uuid.UUID, '"1"'),
        (datetime.timedelta, "[0,86400,0]"),
        (range, "[1,2,0]"),
        (fractions.Fraction, "[2,4]"),
        (collections.deque[int], "[1,[1,2]]"),
        (Right, '["WRITE","READ"]'),
        (set[Any], "[[]]"),
        (Refusing, '{"n":-1}'),
    ]
    for annotation, text in cases:
        assert fits(schema_for(annotation), json.loads(text))
        with pytest.raises(Undecodable):
            codec_for(annotation).decode(text.encode())


@dataclasses.dataclass
class Refusing:
    """A class that refuses some values."""

    n: int

    def __post_init__(self) -> None:
        """Refuse what is negative."""
        if self.n < 0:
            raise ValueError("n is negative")


class Net:
    """A type that june was taught."""


class Spelt(enum.IntEnum):
    """
    An enum whose docstring
    has two lines.

    And two paragraphs.
    """

    ONE = 1
    TWO = 2
    UNO = 1


class Plain(enum.Enum):
    A = 1


class Single(enum.Flag):
    ONLY = 1


@dataclasses.dataclass
class Undocumented:
    item: int


class Bare(NamedTuple):
    item: int


@dataclasses.dataclass
class Same(Generic[T]):
    """Undocumented(but written by hand)."""

    item: T


@attrs.define(eq=False)
class Alone:
    item: int


def a_fixed(*items: Any) -> Any:
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


def some_ints(count: int, text: str) -> Any:
    return {"type": "array", "items": {"description": text, **INTEGER}, "minItems": count, "maxItems": count}


def an_object(**properties: Any) -> Any:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (None, NULL),
        (bool, {"type": "boolean"}),
        (int, INTEGER),
        (float, NUMBER),
        (str, TEXT),
        (Any, {}),
        (MISSING, {}),
        (object, {}),
        (Net, {"description": "A type that june was taught."}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.PurePosixPath, {"description": "A path.", "type": "string"}),
        (range, some_ints(3, "The start, then the stop, then the step, which is not 0.")),
        (
            bytes,
            {
                "type": "string",
                "contentEncoding": "base64",
                "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
            },
        ),
        (
            decimal.Decimal,
            {
                "type": "string",
                "pattern": r"^[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|Infinity|s?NaN[0-9]*)$",
            },
        ),
        (datetime.timedelta, some_ints(3, "Days, then seconds from 0 to 86399, then microseconds from 0 to 999999.")),
        (fractions.Fraction, some_ints(2, "The numerator, then the denominator, which is more than 0, in lowest terms.")),
        (complex, {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}),
        (list[int], {"type": "array", "items": INTEGER}),
        (list, {"type": "array", "items": {}}),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (frozenset[Colour], {"type": "array", "items": {"description": "An enum.", **TEXT, "enum": ["RED", "BLUE"]}, "uniqueItems": True}),
        (set[Alone], {"type": "array", "items": an_object(item=INTEGER)}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (tuple[int, str], a_fixed(INTEGER, TEXT)),
        (tuple[int, int], {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}),
        (tuple[()], {"type": "array", "maxItems": 0}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (
            dict[Literal["b", "a"], int],
            {"type": "object", "propertyNames": {**TEXT, "enum": ["a", "b"]}, "additionalProperties": INTEGER},
        ),
        (
            dict[int, str],
            {"type": "array", "items": {"description": "A key and its value.", **a_fixed(INTEGER, TEXT)}},
        ),
        (collections.Counter[str], {"type": "object", "additionalProperties": INTEGER}),
        (collections.OrderedDict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (
            collections.defaultdict[str, int],
            a_fixed(
                {
                    "description": "What makes a new value.",
                    "type": ["null", "string"],
                    "enum": [None, "bool", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"],
                },
                {"type": "object", "additionalProperties": INTEGER},
            ),
        ),
        (
            collections.deque[int],
            a_fixed(
                {
                    "description": "How many items it may have.",
                    "anyOf": [{**INTEGER, "minimum": 0, "maximum": (1 << 62) - 1}, NULL],
                },
                {"type": "array", "items": INTEGER},
            ),
        ),
        (Literal["b", "a"], {**TEXT, "enum": ["a", "b"]}),
        (Literal[10, 9], {**INTEGER, "enum": [9, 10]}),
        (Literal["a", 1, True, None], {"type": ["boolean", "integer", "null", "string"], "enum": [None, True, 1, "a"]}),  # noqa: PYI061 # it is what is tested
        (Literal[Colour.RED], {"description": "An enum.", **TEXT, "enum": ["RED"]}),
        (Spelt, {"description": "An enum whose docstring has two lines.", **TEXT, "enum": ["ONE", "TWO"]}),
        (Plain, {**TEXT, "enum": ["A"]}),
        (Single, {"anyOf": [{**TEXT, "enum": ["ONLY"]}, {"type": "array", "maxItems": 0}]}),
        (
            Right,
            {
                "description": "Flags.",
                "anyOf": [
                    {**TEXT, "enum": ["READ", "WRITE", "RUN"]},
                    {"type": "array", "maxItems": 0},
                    {
                        "type": "array",
                        "items": {**TEXT, "enum": ["READ", "WRITE", "RUN"]},
                        "minItems": 2,
                        "uniqueItems": True,
                    },
                ],
            },
        ),
        (Point, {"description": "An attrs class with slots.", **an_object(x=INTEGER, label=TEXT)}),
        (Pair, {"description": "A named tuple.", **an_object(left=INTEGER, right={"anyOf": [TEXT, NULL]})}),
        (Box[int], {"description": "A generic dataclass with slots.", **an_object(item=INTEGER)}),
        (Undocumented, an_object(item=INTEGER)),
        (Bare, an_object(item=INTEGER)),
        (Same[int], {"description": "Undocumented(but written by hand).", **an_object(item=INTEGER)}),
        (
            Job,
            {
                "description": "A TypedDict with a key that need not be there.",
                **an_object(name=TEXT, cost=schema_for(decimal.Decimal)),
                "required": ["name"],
            },
        ),
        (int | None, {"anyOf": [INTEGER, NULL]}),
        (int | float | str, {"anyOf": [NUMBER, INTEGER, TEXT]}),
        (list[int] | dict[str, int], {"anyOf": [{"type": "object", "additionalProperties": INTEGER}, {"type": "array", "items": INTEGER}]}),
        (Undocumented | None, {"anyOf": [an_object(item=INTEGER), NULL]}),
        (
            Undocumented | Bare | int,
            {
                "anyOf": [
                    an_object(Bare=an_object(item=INTEGER)),
                    an_object(Undocumented=an_object(item=INTEGER)),
                    INTEGER,
                ]
            },
        ),
        (
            Undocumented | Bare | dict[str, int],
            {
                "anyOf": [
                    an_object(Bare=an_object(item=INTEGER)),
                    an_object(Undocumented=an_object(item=INTEGER)),
                    an_object(dict={"type": "object", "additionalProperties": INTEGER}),
                ]
            },
        ),
        (
            Sequence[int],
            {
                "anyOf": [
                    {"type": "array", "items": INTEGER},
                    an_object(**{"tuple[int, ...]": {"type": "array", "items": INTEGER}}),
                ]
            },
        ),
        (Annotated[int, 7], INTEGER),
        (Annotated[int, "How many."], {**INTEGER, "description": "How many."}),
        (Annotated[Point, "Where."], {**an_object(x=INTEGER, label=TEXT), "description": "Where."}),
    ],
)  # fmt: skip
def test_the_schema_of_a_type(annotation: Any, schema: Any) -> None:
    """
    Every type that has a codec has the schema of what that writes.
    """
    register(Net, lambda net: None, lambda data: Net())
    assert schema_for(annotation) == schema


def test_anything_beside_classes() -> None:
    """
    Where a union of classes takes any JSON as well, objects of that are told apart by their key.
    """
    schema = schema_for(Any | Undocumented | Bare)
    assert schema["anyOf"] == [
        {"type": ["null", "boolean", "number", "string", "array"]},
        an_object(dict={"type": "object"}),
        an_object(Bare=an_object(item=INTEGER)),
        an_object(Undocumented=an_object(item=INTEGER)),
    ]
    for value in ({"a": 1}, [1], None, Bare(1)):
        assert fits(schema, json.loads(codec_for(Any | Undocumented | Bare).encode(value)))


def test_a_class_that_is_needed_more_than_once_is_defined_once() -> None:
    """
    A class with several uses stands in ``$defs``, under a name that no other has.
    """
    other = dataclasses.make_dataclass("Undocumented", [("word", str)])
    schema = schema_for(tuple[Undocumented, Box[int], other, list[Undocumented], list[other], list[Box[int]]])
    assert schema["prefixItems"] == [
        {"$ref": "#/$defs/Undocumented"},
        {"$ref": "#/$defs/Box_int"},
        {"$ref": "#/$defs/Undocumented_2"},
        {"type": "array", "items": {"$ref": "#/$defs/Undocumented"}},
        {"type": "array", "items": {"$ref": "#/$defs/Undocumented_2"}},
        {"type": "array", "items": {"$ref": "#/$defs/Box_int"}},
    ]
    assert schema["$defs"] == {
        "Undocumented": an_object(item=INTEGER),
        "Box_int": {"description": "A generic dataclass with slots.", **an_object(item=INTEGER)},
        "Undocumented_2": an_object(word=TEXT),
    }


def test_a_recursive_class_is_an_object_at_the_root() -> None:
    """
    The root is written out even where it is referred to, as many models ask of it.
    """
    schema = schema_for(Tree)
    body = {
        "description": "A recursive attrs class with a dict and a private field.",
        **an_object(
            name=TEXT,
            branches={"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            _weight={"anyOf": [NUMBER, NULL]},
        ),
    }
    assert schema == {**body, "$defs": {"Tree": body}}


@attrs.frozen
class Order:
    """An order."""

    count: Annotated[int, "How many."]
    item: Undocumented = attrs.field(metadata={"description": "What of."})
    more: Annotated[list[Order], Spelt.ONE, "Orders\n  behind it."] = attrs.Factory(list)
    next: Annotated[Order | None, "The one after."] = None
    first: Annotated[Order, "The one before all."] = None  # type: ignore[assignment]
    silent: int = attrs.field(default=1, metadata={"description": None})


@dataclasses.dataclass
class Bill(Generic[T]):
    """A bill."""

    total: T = dataclasses.field(metadata={"description": "In cents."})
    note: Annotated[str | None, "For the customer."] = None


class Extended(Bill[int]):
    """A class that inherits its fields."""


class Note(TypedDict):
    """A note."""

    text: Annotated[NotRequired[str], "What it says."]
    by: NotRequired[Annotated[str, "Who wrote it."]]


def test_fields_are_described_where_they_are_declared() -> None:
    """
    A text in Annotated or in the metadata of a field describes it, also in a base, and goes before a class's.
    """
    order = schema_for(Order)
    assert order["properties"] == {
        "count": {**INTEGER, "description": "How many."},
        "item": {**an_object(item=INTEGER), "description": "What of."},
        "more": {
            "type": "array",
            "items": {"$ref": "#/$defs/Order"},
            "description": "Orders\nbehind it.",
        },
        "next": {"anyOf": [{"$ref": "#/$defs/Order"}, NULL], "description": "The one after."},
        "first": {"anyOf": [{"$ref": "#/$defs/Order"}], "description": "The one before all."},
        "silent": INTEGER,
    }
    assert schema_for(Extended) == {
        "description": "A class that inherits its fields.",
        **an_object(
            total={**INTEGER, "description": "In cents."},
            note={"anyOf": [TEXT, NULL], "description": "For the customer."},
        ),
    }
    assert schema_for(Note)["properties"] == {
        "text": {**TEXT, "description": "What it says."},
        "by": {**TEXT, "description": "Who wrote it."},
    }
    made = attrs.make_class("Made", {"n": attrs.field(type=Annotated[int, "A number."])})
    assert schema_for(made)["properties"] == {"n": {**INTEGER, "description": "A number."}}


def test_the_usual_ways_to_say_it() -> None:
    """
    The Doc of typing_extensions, and pydantic's Field, describe a field of any class.
    """
    pydantic = pytest.importorskip("pydantic")
    extensions = pytest.importorskip("typing_extensions")
    made = attrs.make_class(
        "Made",
        {
            "a": attrs.field(type=Annotated[int, extensions.Doc("By Doc.")]),
            "b": attrs.field(type=Annotated[int, pydantic.Field(description="By Field.")]),
        },
    )
    assert [one["description"] for one in schema_for(made)["properties"].values()] == ["By Doc.", "By Field."]


def test_pydantic_models_have_their_fields_and_limits() -> None:
    """
    A pydantic model is described by its fields, with the limits that pydantic checks where JSON can show them.
    """
    pydantic = pytest.importorskip("pydantic")
    extensions = pytest.importorskip("typing_extensions")

    class Review(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        """A review."""

        stars: int = pydantic.Field(ge=1, le=5, description="From worst to best.")
        share: float | None = pydantic.Field(None, gt=0, lt=1)
        name: str = pydantic.Field("x", alias="title", min_length=1, max_length=9, pattern="^[a-z]*$")
        tags: list[str] = pydantic.Field([], max_length=3)
        data: bytes = pydantic.Field(b"", max_length=3)
        wait: datetime.timedelta = pydantic.Field(datetime.timedelta(1), gt=datetime.timedelta(0))
        price: decimal.Decimal = pydantic.Field(decimal.Decimal(1), multiple_of=2)
        said: Annotated[int, extensions.Doc("By Doc.")] = 1
        _seen: int = pydantic.PrivateAttr(0)

    assert schema_for(Review) == {
        "description": "A review.",
        **an_object(
            stars={**INTEGER, "minimum": 1, "maximum": 5, "description": "From worst to best."},
            share={"anyOf": [{**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}, NULL]},
            name={**TEXT, "minLength": 1, "maxLength": 9, "pattern": "^[a-z]*$"},
            tags={"type": "array", "items": TEXT, "maxItems": 3},
            data=schema_for(bytes),
            wait=schema_for(datetime.timedelta),
            price=schema_for(decimal.Decimal),
            said={**INTEGER, "description": "By Doc."},
        ),
    }


def test_a_schema_is_the_callers_own() -> None:
    """
    What somebody does to a schema reaches no other.
    """
    schema = schema_for(datetime.timedelta)
    schema["items"]["description"] = "Weeks."
    schema_for(Tree)["$defs"].clear()
    assert schema_for(datetime.timedelta)["items"]["description"].startswith("Days, ")
    assert list(schema_for(Tree)["$defs"]) == ["Tree"]


def test_local_classes_are_read_with_the_names_around_them() -> None:
    """
    Types that only their function knows are found by the names it gives.
    """

    @attrs.frozen
    class Item:
        n: Annotated[int, "A number."]

    @attrs.frozen
    class Whole:
        items: Annotated[list[Item], "All of them."]

    item = an_object(n={**INTEGER, "description": "A number."})
    items = {"type": "array", "items": item, "description": "All of them."}
    assert schema_for(Whole, {"Item": Item}) == an_object(items=items)
    with pytest.raises(UnsupportedType, match=r"^result: name 'Item' is not defined"):
        schema_for(Whole)


def test_a_type_without_a_codec_has_no_schema() -> None:
    """
    What cannot be encoded is refused, in the words of the codec.
    """
    with pytest.raises(UnsupportedType) as caught:
        schema_for(list[threading.Thread])
    assert str(caught.value) == "result[]: june knows no encoding for Thread"


def test_schemas_are_equal_in_every_process(tmp_path: Any) -> None:
    """
    A schema depends neither on hash seeds, nor on the order in which types were written before.
    """
    (tmp_path / "main.py").write_text(
        textwrap.dedent(
            """
            import enum, json, sys, typing, attrs
            from june.codec import schema_for

            class Kind(enum.Flag):
                B = 1
                A = 2

            @attrs.frozen
            class Part:
                kinds: frozenset[Kind]
                words: set[str] | None
                word: typing.Optional[typing.Literal["b", "a", 1, True]]
                of: "Part | Whole | None"

            @attrs.frozen
            class Whole:
                parts: dict[int, typing.Union[Part, Kind, str]]

            if sys.argv[1] == "2":
                typing.Optional[typing.Literal[True, 1, "a", "b"]]
                schema_for(Part | Whole)
            print(json.dumps(schema_for(typing.Union[Whole, Part])))
            """
        )
    )
    seen = set()
    for seed in "123":
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, str(tmp_path / "main.py"), seed]
        seen.add(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(seen) == 1


def test_aliases_that_hold_themselves() -> None:
    """
    A recursive alias stands in ``$defs`` under its own name, whoever made it.
    """
    extensions = pytest.importorskip("typing_extensions")
    names: dict[str, Any] = {"__name__": __name__}
    names["Nest"] = extensions.TypeAliasType("Nest", "int | list[Nest]")
    names["Deep"] = extensions.TypeAliasType("Deep", "list[Deep]")
    both = [names]
    if sys.version_info >= (3, 12):
        both.append({"__name__": __name__})
        exec("type Nest = int | list[Nest]\ntype Deep = list[Deep]", both[-1])
    nest = {"anyOf": [INTEGER, {"type": "array", "items": {"$ref": "#/$defs/Nest"}}]}
    deep = {"type": "array", "items": {"$ref": "#/$defs/Deep"}}
    for names in both:
        assert schema_for(names["Nest"], names) == {**nest, "$defs": {"Nest": nest}}
        assert schema_for(names["Deep"], names) == {**deep, "$defs": {"Deep": deep}}
