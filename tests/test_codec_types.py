"""
How the codec reads types: names, generics, unions, recursion, descriptions, and types that changed.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import subprocess
import sys
import textwrap
import threading
import typing
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, NotRequired, Protocol, Required, TypedDict, TypeVar

import attrs
import pytest

from june.codec import MISSING, Undecodable, UnsupportedType, codec_for
from tests.strategies import Box, Colour, Pair, Point, Reading, Tree

T = TypeVar("T")
N = TypeVar("N", bound=int)


class Base(TypedDict):
    """A TypedDict with a required key."""

    a: int


class Derived(Base, total=False):
    """A TypedDict that mixes keys which must and need not be there, all of them strings here."""

    b: Required[str]
    c: int
    d: NotRequired[int]


@attrs.frozen
class Node(Generic[T]):
    """A generic recursive class."""

    value: T
    children: list[Node[T]] = attrs.Factory(list)


class IntNode(Node[int]):
    """A class that fills the variable of its base."""


@dataclasses.dataclass
class Bounded(Generic[N]):
    """A generic class with a bound."""

    value: N


class Labelled(NamedTuple, Generic[T]):
    """A generic named tuple."""

    label: str
    value: T


class Abstract(Protocol):
    """A class that nothing is exactly."""

    value: int


@attrs.frozen
class Failure(Exception):
    """An exception with fields."""

    code: int


@attrs.frozen
class Holder:
    """A class with a field of a type that june does not know."""

    items: list[Wrapped]


@attrs.frozen
class Wrapped:
    """A class further down."""

    handle: threading.Lock


class Hidden:
    """Holds a class with a name that there is twice."""

    @attrs.frozen
    class Point:
        """Has the name of another class."""

        x: int
        label: str


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (threading.Thread, "result: june knows no encoding for Thread"),
        (Holder, "result.items[].handle: june knows no encoding for <built-in function allocate_lock>"),
        (list[Callable[[int], int]], "result[]: june knows no encoding for Callable"),
        (dict[str, tuple[int, type]], "result[][1]: june knows no encoding for type"),
        (Abstract, "result: june knows no encoding for Abstract"),
        (
            Failure,
            (
                "result: Failure is more than its fields, as it derives from a built-in class; teach it with "
                "june.codec.register(Failure, encode, decode)"
            ),
        ),
        (
            Point | Hidden.Point,
            (
                "result: two members of the union Point | Point have the name Point, so june "
                "could not tell which of "
                "them a saved value is; rename one of them"
            ),
        ),
        (
            dict[str, list[Point] | list[Hidden.Point]],
            (
                "result: two members of the union list[Point] | list[Point] have the name "
                "list[Point], so june could "
                "not tell which of them a saved value is; rename one of them"
            ),
        ),
        (Literal[b"x"], "result: june knows no encoding for Literal[b'x']"),
        (3, "result: june knows no encoding for 3"),
    ],
)
def test_a_type_that_cannot_be_encoded_is_found_at_once(annotation: Any, text: str) -> None:
    """
    A type whose values could never be encoded, or not be told apart, is refused with the path to it.
    """
    with pytest.raises(UnsupportedType) as caught:
        codec_for(annotation)
    if sys.version_info < (3, 13):
        assert str(caught.value) == text
    else:  # a lock is a class there
        assert str(caught.value) == text.replace("<built-in function allocate_lock>", "lock")


@pytest.mark.parametrize(
    ("annotation", "plain", "settled", "classes"),
    [
        (MISSING, True, True, ()),
        (dict[str, list[int | None]], True, True, ()),
        (Literal["a", 1], True, True, ()),
        (tuple[int, ...], False, True, ()),
        (dict[int, int], False, True, ()),
        (datetime.datetime, False, False, ()),
        (datetime.date, False, True, ()),
        (list[Point], False, True, (Point,)),
        (Reading, False, False, (Reading,)),
        (Box[Point] | Tree | Colour, False, True, (Box, Point, Colour, Tree)),
        (dict[str, Pair], False, True, (Pair,)),
        (Derived, False, True, (Derived,)),
    ],
)
def test_what_a_codec_says_of_its_type(annotation: Any, plain: bool, settled: bool, classes: Any) -> None:
    """
    A codec says whether its type is plain and settled, and which classes are in it.
    """
    codec = codec_for(annotation)
    assert (codec.plain, codec.settled, codec.classes) == (plain, settled, classes)


def test_a_codec_is_made_once() -> None:
    """
    Equal types have one codec, also in another spelling.
    """
    assert codec_for(list[Point]) is codec_for(list[Point])
    assert codec_for(int | str) is codec_for(typing.Union[str, int])  # noqa: UP007 # the old spelling
    assert codec_for(Literal[1]) is not codec_for(Literal[True])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (list[int], set[int]),
        (tuple[int, int], tuple[int, ...]),
        (tuple[int], tuple[int, ...]),
        (Literal[1], Literal["1"]),
        (Literal[1], Literal[True]),
        (Point, Hidden.Point),
        (Node[int], Node[str]),
        (Node[int], IntNode),
        (dict[str, int], dict[int, str]),
        (Base, Derived),
    ],
)
def test_different_types_have_different_descriptions(one: Any, other: Any) -> None:
    """
    The description tells types apart.
    """
    assert codec_for(one).description != codec_for(other).description


def test_keys_of_a_typeddict() -> None:
    """
    NotRequired and Required count where annotations are strings, and with total=False.
    """
    codec = codec_for(Derived)
    assert codec.decode(b'{"b":"x","a":1}') == {"b": "x", "a": 1}
    assert codec.encode({"d": 1, "b": "x", "a": 1}) == b'{"d":1,"b":"x","a":1}'
    with pytest.raises(Undecodable, match=r"^result: expected the fields of Derived, found no 'b'$"):
        codec.decode(b'{"a":1}')


def test_generic_classes() -> None:
    """
    The variables of a generic class are what they were filled with, through bases and recursion.
    """
    value = Node(1, [Node(2)])
    assert codec_for(Node[int]).decode(codec_for(Node[int]).encode(value)) == value
    assert codec_for(IntNode).encode(IntNode(1)) == b'{"value":1,"children":[]}'
    assert (
        codec_for(Labelled[Point]).encode(Labelled("a", Point(1))).startswith(b'{"label":"a","value":{"x":1')
    )
    assert codec_for(Bounded).encode(Bounded(1)) == b'{"value":1}'
    with pytest.raises(Undecodable, match=r"^result\.children\[0\]\.value: expected int, found \"x\"$"):
        codec_for(IntNode).decode(b'{"value":1,"children":[{"value":"x","children":[]}]}')


def test_a_generic_object_that_knows_its_type() -> None:
    """
    What typing notes in an object that was made as Node[int](...) is no part of its value.
    """

    @dataclasses.dataclass
    class Loose(Generic[T]):
        value: T

    assert codec_for(Loose[int]).encode(Loose[int](1)) == b'{"value":1}'


def test_classes_declared_inside_a_function() -> None:
    """
    Classes of a function that name each other are read with the function's own names.
    """

    @attrs.frozen
    class Item:
        n: int
        parts: list[Item]

    @dataclasses.dataclass
    class Order:
        items: dict[str, Item]
        before: Order | None = None

    with pytest.raises(UnsupportedType, match=r"^result: name 'Item' is not defined"):
        codec_for(Order)
    codec = codec_for(Order, {"Item": Item})
    value = Order({"a": Item(1, [Item(2, [])])}, Order({}))
    assert codec.decode(codec.encode(value)) == value
    assert codec.classes == (Order, Item)


def test_local_classes_are_taken_before_global_ones() -> None:
    """
    A local class that has the name of a global one is the one meant inside the function, and only there.
    """

    @attrs.frozen
    class Wrapped:
        n: int

    @attrs.frozen
    class Local:
        inner: Wrapped

    with pytest.raises(UnsupportedType, match=r"^result\.inner\.handle: "):
        codec_for(Local)
    names = {"Wrapped": Wrapped, "other": 1}
    codec = codec_for(Local, names)
    assert codec.classes == (Local, Wrapped)
    assert codec_for(Local, dict(names)) is codec
    assert codec_for(Tree, names) is codec_for(Tree)


def test_descriptions_are_equal_in_every_process(tmp_path: Any) -> None:
    """
    A description depends neither on the module of a class, nor on hash seeds, nor on the version of Python.
    """
    source = textwrap.dedent(
        """
        from __future__ import annotations
        import attrs, enum, typing

        class Kind(enum.Enum):
            A = 1
            B = 2

        @attrs.frozen
        class Part:
            kinds: frozenset[Kind]
            of: Part | Whole | None
            word: typing.Literal["b", "a", 1, True]

        @attrs.frozen
        class Whole:
            parts: dict[int, typing.Union[Part, Kind, str]]
        """
    )
    (tmp_path / "shop.py").write_text(source)
    (tmp_path / "main.py").write_text(
        source
        + "\nfrom june.codec import codec_for\nprint(codec_for(Whole | Part | Kind).description.decode())\n"
    )
    (tmp_path / "other.py").write_text(
        "import shop, typing\nfrom june.codec import codec_for\n"
        "print(codec_for(typing.Union[shop.Kind, shop.Part, shop.Whole]).description.decode())\n"
    )
    seen = set()
    path = os.pathsep.join([str(tmp_path), *sys.path])
    for name, seed in [("main", "1"), ("other", "2"), ("other", "3")]:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, str(tmp_path / f"{name}.py")]
        seen.add(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    assert seen == {
        (
            '["union",["enum","Kind",[["A","1"],["B","2"]]],["attrs","Part",[["kinds",["frozenset",["again",0]]],'
            '["of",["union",["None"],["again",1],["attrs","Whole",[["parts",["pairs",["int"],["union",["again",0],'
            '["again",1],["str"]]]]]]]],["word",["Literal[True, 1, \'a\', \'b\']"]]]],["again",2]]\n'
        )
    }


OLD = b'{"name":"a","kind":"FAST","parts":[{"n":1}]}'


def schema(parts: dict[str, Any], kinds: dict[str, int], **more: Any) -> Any:
    """Make a class as it was, or as it became."""
    part = attrs.make_class("Part", {name: attrs.field(type=one) for name, one in parts.items()})
    kind = enum.Enum("Kind", kinds)
    fields = {"name": str, "kind": kind, "parts": list[part], **more}
    return attrs.make_class("Job", {name: attrs.field(type=one) for name, one in fields.items()})


@pytest.mark.parametrize(
    ("today", "text"),
    [
        (schema({"n": int}, {"FAST": 1}), None),
        (
            schema({"m": int}, {"FAST": 1}),
            "result.parts[0]: expected the fields of Part, found no 'm' and the unknown 'n'",
        ),
        (schema({}, {"FAST": 1}), "result.parts[0]: expected the fields of Part, found the unknown 'n'"),
        (
            schema({"n": int, "k": int}, {"FAST": 1}),
            "result.parts[0]: expected the fields of Part, found no 'k'",
        ),
        (schema({"n": str}, {"FAST": 1}), "result.parts[0].n: expected str, found 1"),
        (
            schema({"n": int}, {"FASTER": 1}),
            'result.kind: expected a member of Kind, found "FAST" (did you mean FASTER?)',
        ),
        (schema({"n": int}, {"FAST": 1}, more=int), "result: expected the fields of Job, found no 'more'"),
    ],
)
def test_data_of_an_old_type_is_never_filled_up(today: Any, text: str | None) -> None:
    """
    Data that today's type does not fit is refused with a reason, also where only a default is missing.
    """
    codec = codec_for(today)
    if text is None:
        assert codec.encode(codec.decode(OLD)) == OLD
        return
    with pytest.raises(Undecodable) as caught:
        codec.decode(OLD)
    assert str(caught.value) == text


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is new in 3.12")
def test_type_statements() -> None:
    """
    Aliases and variables of the new syntax are read, recursive and generic ones too.
    """
    names: dict[str, Any] = {"__name__": __name__}
    exec(
        textwrap.dedent(
            """
            import dataclasses
            type Json = None | bool | int | float | str | list[Json] | dict[str, Json]
            type Twice[T] = tuple[T, T]
            type Ids = list[int]
            type Nest = list[Nest] | Twice[int]
            type Endless = Endless | Endless

            @dataclasses.dataclass
            class Crate[T]:
                item: T
                inner: "Crate[T] | None" = None
            """
        ),
        names,
    )
    value = {"a": [1, [None, "x", {"b": 1.5}]]}
    json = codec_for(names["Json"])
    assert json.plain
    assert json.decode(json.encode(value)) == value
    with pytest.raises(Undecodable, match=r"levels of nesting"):
        json.decode(b"[" * 500 + b"]" * 500)
    assert codec_for(names["Twice"][str]).encode(("a", "b")) == b'["a","b"]'
    assert codec_for(names["Ids"]).plain
    nest = codec_for(names["Nest"])
    assert nest.decode(nest.encode([(1, 2), [(3, 4)]])) == [(1, 2), [(3, 4)]]
    crate = names["Crate"]
    codec = codec_for(crate[int])
    assert codec.decode(codec.encode(crate(1, crate(2)))) == crate(1, crate(2))
    with pytest.raises(Undecodable, match=r"^result\.inner\.item: expected int"):
        codec.decode(b'{"item":1,"inner":{"item":"x","inner":null}}')
    with pytest.raises(UnsupportedType):
        codec_for(names["Endless"])
