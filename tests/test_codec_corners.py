"""
Corners of the codec: odd classes, odd objects, deep data, and annotations that are hard to read.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import sys
import threading
import typing
import uuid
import zoneinfo
from collections.abc import Collection, MutableSequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Generic, Literal, LiteralString, NamedTuple, TypedDict, TypeVar

import attrs
import pytest

from june.codec import Codec, Inexact, Undecodable, UnsupportedType, codec_for, recode, register
from tests.strategies import Box, Colour, Options, Pair, Point, Right, Tree, identical

T = TypeVar("T")
Either = TypeVar("Either", int, str)


def refused(annotation: Any, value: Any) -> str:
    """Give the text of the refusal of *value*."""
    with pytest.raises(Inexact) as caught:
        codec_for(annotation).encode(value)
    return str(caught.value)


def undecodable(annotation: Any, data: str) -> str:
    """Give the text of the refusal of *data*."""
    with pytest.raises(Undecodable) as caught:
        codec_for(annotation).decode(data.encode())
    return str(caught.value)


def unsupported(annotation: Any) -> str:
    """Give the text of the refusal of a type."""
    with pytest.raises(UnsupportedType) as caught:
        codec_for(annotation)
    return str(caught.value)


def returns(annotation: Any, value: Any) -> Codec:
    """Check that *value* comes back."""
    codec = codec_for(annotation)
    assert identical(codec.decode(codec.encode(value)), value)
    return codec


def test_forward_references_inside_generics() -> None:
    """
    A name inside a generic that nobody resolved yet is looked for among the names given.
    """
    names = {"Point": Point}
    assert codec_for(list["Point"], names).encode([Point(1)]) == b'[{"x":1,"label":""}]'
    unknown: Any = typing.ForwardRef("Pint")
    assert unsupported(list[unknown]) == (
        "result[]: name 'Pint' is not defined, as the annotation 'Pint' asks; "
        "define it at the top of a module"
    )
    failing: Any = typing.ForwardRef("1 // 0")
    assert "cannot be read" in unsupported(list[failing])


def test_annotations_that_cannot_be_read() -> None:
    """
    A class whose annotations fail when they are read is refused with the failure.
    """

    @attrs.frozen
    class Wrong:
        n: int[0]  # type: ignore[misc]

    assert unsupported(Wrong) == (
        "result: the annotations of Wrong cannot be read: TypeError(\"type 'int' is not subscriptable\")"
    )


def test_variables_that_nothing_was_put_in_for() -> None:
    """
    A type variable stands for its bound, for what it may be, or for anything that is JSON.
    """

    @dataclasses.dataclass
    class One(Generic[Either]):
        value: Either

    returns(One, One(1))
    returns(One, One("x"))
    refused(One, One(1.5))
    returns(Box, Box({"a": [1]}))
    assert refused(Box, Box((1,))).startswith("result.item is a tuple")


def test_a_generic_class_without_end_is_refused() -> None:
    """
    A class that holds itself with ever new arguments is no type with an end.
    """

    @attrs.frozen
    class Endless(Generic[T]):
        inner: Endless[list[T]] | None

    with pytest.raises(UnsupportedType, match=r"the type has no end$"):
        codec_for(Endless[int], {"Endless": Endless})


def test_interfaces_stand_for_built_in_containers() -> None:
    """
    A value declared by an interface comes back as the container that it was.
    """
    returns(Collection[int], {1, 2})
    returns(Collection[int], (1, 2))
    returns(AbstractSet[int], frozenset({1}))
    returns(MutableSequence[int], [1])
    returns(LiteralString, "x")
    returns(collections.deque, collections.deque([1]))
    returns(collections.Counter, collections.Counter("aab"))
    returns(Literal[1, 2], 2)


def test_a_union_through_names_of_types() -> None:
    """
    Members that stand for the same are one member.
    """
    left = typing.NewType("left", list)
    assert codec_for(list | left).plain
    assert codec_for(typing.Optional[typing.NewType("none", type(None))]).encode(None) == b"null"  # type: ignore[valid-newtype] # noqa: UP045


class WithDict(NamedTuple):
    """A named tuple."""

    a: int


class Richer(WithDict):
    """A named tuple whose instances take attributes."""


def test_a_named_tuple_with_attributes() -> None:
    """
    Attributes beside the fields of a named tuple are not lost without a word.
    """
    returns(Richer, Richer(1))
    value = Richer(1)
    value.note = "x"  # type: ignore[attr-defined]
    assert refused(Richer, value) == (
        "result has attributes beside its fields, which would be lost. Declare them as fields."
    )
    assert (
        refused(Pair, tuple.__new__(Pair, (1,)))
        == "result has 1 items, not one for each field. Fill every field."
    )


def test_untyped_fields_hold_json() -> None:
    """
    A field without an annotation takes what JSON can hold.
    """
    bare = collections.namedtuple("bare", ["a", "b"])  # noqa: PYI024 # untyped on purpose
    returns(bare, bare(1, ["x"]))
    old = attrs.make_class("old", ["a"])
    returns(old, old({"k": None}))
    assert refused(old, old((1,))).startswith("result.a is a tuple")


def test_classes_that_are_no_plain_objects() -> None:
    """
    A class whose objects hold more than fields, or keep a field elsewhere, is refused.
    """

    @dataclasses.dataclass
    class Rows(list):  # type: ignore[type-arg]
        name: str

    @dataclasses.dataclass
    class Kept:
        n: int

    Kept.n = property(lambda self: 1, lambda self, n: None)  # type: ignore[assignment,misc]

    @attrs.define(slots=False)
    class Bare(functools.partial):  # type: ignore[type-arg]
        n: int

    assert "is more than its fields" in unsupported(Rows)
    assert "is more than its fields" in unsupported(Bare)
    assert unsupported(Kept) == "result: the field n of Kept is kept by a property"


def test_an_abstract_class_is_refused() -> None:
    """
    A class of which there are no instances is refused with what to write in its place.
    """
    import abc

    @attrs.define
    class Shape(abc.ABC):
        n: int

        @abc.abstractmethod
        def area(self) -> float: ...

    assert unsupported(list[Shape]) == (
        "result[]: Shape is abstract, so no value is exactly one; name the classes it stands for, e.g. A | B"
    )


def test_objects_that_hide_their_state() -> None:
    """
    Fields are read from where they are stored, whatever a class answers when it is asked.
    """

    @dataclasses.dataclass
    class Hiding:
        n: int
        m: int = 2
        names: ClassVar[list[str]] = []

        def __getattribute__(self, name: str) -> Any:
            return 5

    @dataclasses.dataclass
    class Filling:
        n: int
        m: int

        def __getattr__(self, name: str) -> int:
            return 7

    assert codec_for(Hiding).encode(Hiding(1)) == b'{"n":1,"m":2}'
    value = Filling(1, 2)
    del value.m
    assert (
        refused(Filling, value) == "result has no value in its field m. Set every field before returning it."
    )


def test_cached_properties_of_attrs_classes() -> None:
    """
    What attrs keeps in slots for cached properties is no part of a value.
    """

    @attrs.define
    class Sum:
        a: int
        b: int

        @functools.cached_property
        def total(self) -> int:
            return self.a + self.b

    value = Sum(1, 2)
    assert value.total == 3
    codec = codec_for(Sum)
    assert codec.encode(value) == b'{"a":1,"b":2}'
    assert codec.decode(codec.encode(value)).total == 3


def test_constructors_that_are_not_called() -> None:
    """
    A class is built without its constructor where that was written by hand or takes what is not saved.
    """

    @dataclasses.dataclass
    class Given:
        n: int
        start: dataclasses.InitVar[int]

        def __post_init__(self, start: int) -> None:
            self.n += start

    @dataclasses.dataclass(init=False)
    class Own:
        n: int

        def __init__(self) -> None:
            self.n = 1

        def __post_init__(self) -> None:
            raise AssertionError

    @attrs.define
    class Mine:
        n: int

        def __init__(self) -> None:
            self.__attrs_init__(3)  # type: ignore[attr-defined]

        def __attrs_post_init__(self) -> None:
            self.n += 1

    returns(Given, Given(1, 2))
    returns(Own, Own())
    returns(Mine, Mine())
    assert codec_for(Given).settled


def test_constructors_that_are_called() -> None:
    """
    A class that does more when it is made is made again, so that attributes which are no fields come back.
    """

    @attrs.define(slots=False)
    class Indexed:
        rows: list[str] = attrs.field(converter=list)
        _start: int = 0
        odd: float = attrs.field(init=False, default=0.5)

        def __attrs_post_init__(self) -> None:
            self.index = {row: at + self._start for at, row in enumerate(self.rows)}
            self.seen = {frozenset(self.rows), Colour.RED, Point(1), (1, 1.5)}
            self.when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
            self.zone = datetime.timezone(datetime.timedelta(hours=1))
            self.rest: list[Any] = [decimal.Decimal("1.0"), 1j, range(3), datetime.date(2026, 1, 1)]
            self.rest += [pathlib.Path("a"), fractions.Fraction(1), collections.deque([1], 3)]
            self.rest += [collections.defaultdict(list, a=[1]), threading.Lock, sys, Pair(1, "x")]
            self.rest += [uuid.UUID(int=1)]

    value = Indexed("ab", 3)  # type: ignore[arg-type]
    value.odd = 0.25
    codec = codec_for(Indexed)
    again = codec.decode(codec.encode(value))
    assert vars(again) == vars(value)
    assert (codec.settled, codec.encode(value)) == (False, b'{"rows":["a","b"],"_start":3,"odd":0.25}')
    for change, path in [
        (lambda: value.index.update(z=1), "result.index[key 'z']"),
        (lambda: setattr(value, "index", {"b": 4, "a": 3}), "result.index"),
        (lambda: value.seen.add(2), "result.seen"),
        (lambda: value.rest.append(1), "result.rest"),
        (lambda: setattr(value, "rest", [*value.rest[:6], collections.deque([1])]), "result.rest[6].maxlen"),
        (lambda: setattr(value, "when", value.when.replace(fold=1)), "result.when"),
        (lambda: setattr(value, "more", 1), "result.more"),
    ]:
        value.__attrs_post_init__()
        change()
        assert path in refused(Indexed, value).partition(" would")[0]


@dataclasses.dataclass(eq=False)
class Key:
    """A class whose instances are equal only to themselves."""

    n: int


@dataclasses.dataclass(unsafe_hash=True)
class Mutable:
    """A class whose instances can become equal when they are in a set already."""

    n: int


def test_items_of_sets_that_became_equal() -> None:
    """
    A set is refused if one made anew from its items would be smaller.
    """
    returns(set[Key], {Key(1), Key(1)})
    one, other = Mutable(1), Mutable(2)
    items, keys = {one, other}, {one: "a", other: "b"}
    returns(set[Mutable], items)
    other.n = 1
    assert refused(set[Mutable], items).startswith(
        "result would not come back: expected set[Mutable], found an item"
    )
    assert refused(dict[Mutable, str], keys).startswith(
        "result would not come back: expected dict[Mutable, str]"
    )


def test_the_place_of_a_lone_surrogate() -> None:
    """
    The path to text that is no UTF-8 leads through objects, keys and paths.
    """
    assert refused(Tree, Tree("a", [Tree("\udc80")])).startswith(
        "result.branches[0].name has a lone surrogate"
    )
    assert refused(Any, {"a": {"\udc80": 1}}).startswith("result['a'][key '\\udc80'] has a lone surrogate")
    path = pathlib.PurePosixPath("\udc80")
    assert refused(list[pathlib.PurePosixPath], [path]).startswith("result[0] has a lone surrogate")


def test_the_place_in_sets_and_keys() -> None:
    """
    The path to an item of a set or to a key says so.
    """
    assert refused(list[set[float]], [{float("nan")}]).startswith("result[0]{} is NaN")
    assert refused(dict[float, int], {float("nan"): 1}).startswith("result[key 0] is NaN")
    assert refused(dict[tuple[int, ...], int], {(1,): "x"}).startswith("result[a tuple] is a str")
    assert refused(dict[int, Point], {5: Point("x")}).startswith("result[5].x is a str")  # type: ignore[arg-type]
    assert refused(Any, [{Colour.RED: 1}]).startswith("result[0] has the key <Colour.RED: 1>, of type Colour")
    assert refused(dict[Literal["a"], int], {"b": 1}).startswith(
        "result is 'b', which is not in Literal['a']"
    )
    assert undecodable(dict[Literal["a"], int], '{"b":1}') == "result: expected Literal['a'], found \"b\""


def test_containers_with_attributes_of_their_own() -> None:
    """
    Attributes of a Counter are not lost without a word.
    """
    value: Any = collections.Counter("a")
    value.note = 1
    assert refused(collections.Counter[str], value) == (
        "result has attributes beside its items. Return a plain Counter."
    )


DEEP: list[Any] = [
    list[Any],
    tuple[Any, ...],
    dict[str, Any],
    dict[int, Any],
    set[Any],
    tuple[Any, int],
    Box[Any],
]


@pytest.mark.parametrize("annotation", DEEP)
def test_deep_values_end_in_an_error(annotation: Any) -> None:
    """
    Values and data nested without end are refused, below any kind of container.
    """
    value: Any = []
    for _ in range(20_000):
        value = [value]
    wrap: dict[Any, Any] = {
        list: [value], tuple: (value,), dict: {"a": value}, Box: Box(value), set: {1},
    }  # fmt: skip
    origin = typing.get_origin(annotation)
    whole = (value, 1) if annotation == tuple[Any, int] else wrap[origin]
    if annotation == dict[int, Any]:
        whole = {1: value}
    if origin is not set:
        assert "levels deep" in refused(annotation, whole)
    with pytest.raises(Undecodable):
        codec_for(annotation).decode(b"[" * 50_000)


def test_recursive_types_are_bounded() -> None:
    """
    Values of recursive types come back up to a bound, and are refused beyond it; so is data.
    """

    def tree(levels: int) -> Tree:
        value = Tree("leaf")
        for _ in range(levels):
            value = Tree("t", [value])
        return value

    codec = codec_for(Tree)
    data = codec.encode(tree(140))
    assert codec.encode(codec.decode(data)) == data
    assert "levels deep" in refused(Tree, tree(400))
    one = b'{"name":"t","_weight":null,"branches":['
    assert "levels of nesting" in undecodable(Tree, (one * 200 + b"]}" * 200).decode())


def test_hostile_reprs_and_fields() -> None:
    """
    An object that raises whatever is asked of it is refused like any other.
    """

    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

        def __hash__(self) -> int:
            return 1

    assert refused(Any, {"a": Hostile()}).startswith("result['a'] is a Hostile without a declared type")
    assert refused(Any, {Hostile(): 1}).startswith("result has the key <Hostile")


def test_flags() -> None:
    """
    Flags are read only in the form in which they are written.
    """
    returns(Right, Right.READ | Right.WRITE)
    assert undecodable(Right, '["READ"]').startswith("result: expected names of members of Right")
    assert undecodable(Right, '["WRITE","READ"]').startswith("result: expected names of members of Right")
    assert undecodable(Right, '["READ","FLY"]').startswith("result: expected names of members of Right")
    assert undecodable(Colour, "1") == "result: expected a member of Colour, found 1"

    class Kept(enum.IntFlag):
        A = 1

    assert "which is no member of Kept" in refused(Kept, Kept(9))


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        (datetime.datetime, '"2026-01-02"'),
        (datetime.datetime, '"2026-01-02T03:04:05[No/Where]"'),
        (datetime.datetime, '"2026-01-02T03:04:05+25:00"'),
        (datetime.time, '"24:00"'),
        (datetime.date, '"2026-1-2"'),
        (datetime.timedelta, "[0,90000,0]"),
        (datetime.timedelta, "[0,1]"),
        (decimal.Decimal, '"1_0"'),
        (decimal.Decimal, '"1E9999999999999999999999"'),
        (fractions.Fraction, "[2,4]"),
        (fractions.Fraction, "[2,0]"),
        (complex, "[1,2]"),
        (range, "[1,2,0]"),
        (uuid.UUID, '"5"'),
        (bytes, '"ä"'),
        (bytes, '"YR=="'),
        (set[list[int]], "[[1]]"),
        (dict[list[int], int], "[[[1],1]]"),
        (collections.deque[int], "[1,[1,2]]"),
        (collections.deque[int], "[1]"),
        (collections.defaultdict[str, int], '["eval",{}]'),
        (Literal[1], "2"),
        (Point | int, '"x"'),
        (Point | Tree | dict[str, int], '{"dict":1}'),
        (list[int] | list[str], '[1,"x"]'),
        (Options, "[]"),
        (Pair, "[]"),
        (Options, '{"depth":"x"}'),
    ],
)
def test_odd_data_is_undecodable(annotation: Any, data: str) -> None:
    """
    Data in another form than June's, where reading it would be a guess, is refused.
    """
    undecodable(annotation, data)


def test_odd_times() -> None:
    """
    Time zones that cannot be named are refused.
    """

    class Odd(datetime.tzinfo):
        pass

    for zone in [
        Odd(),
        datetime.timezone(datetime.timedelta(0), "a]"),
        datetime.timezone(datetime.timedelta(0), ""),
        zoneinfo.ZoneInfo.no_cache("Europe/Berlin"),
    ]:
        assert "is in the time zone" in refused(datetime.datetime, datetime.datetime(2026, 1, 1, tzinfo=zone))
    with (pathlib.Path(zoneinfo.TZPATH[0]) / "UTC").open("rb") as file:
        unnamed = zoneinfo.ZoneInfo.from_file(file)
    assert "is in the time zone" in refused(datetime.time, datetime.time(1, tzinfo=unnamed))


def test_what_a_registered_type_may_do() -> None:
    """
    A registered function that raises, goes too deep or gives another class is told from one that works.
    """

    class Odd:
        def __init__(self, data: Any) -> None:
            self.data = data

    register(
        Odd, lambda odd: odd.data if odd.data != 3 else 1 // 0, lambda data: Odd(data) if data != 4 else data
    )
    codec = codec_for(Odd | int | None)
    assert codec.encode(Odd(5)) == b'{"Odd":5}'
    assert codec.decode(b"5") == 5
    assert "made its registered encode raise ZeroDivisionError" in refused(Odd, Odd(3))
    assert refused(Odd, Odd(4)).startswith(
        "result would not come back: expected Odd from its decode, found a int"
    )
    loop: list[Any] = []
    loop.append(loop)
    assert "levels deep" in refused(Odd, Odd(loop))
    assert refused(Odd, 5).startswith("result is an int, but the declared type is Odd")
    with pytest.raises(TypeError, match=r"^register\(\) takes two functions"):
        register(Odd, "encode", "decode")  # type: ignore[arg-type]


def test_unhashable_annotations_have_a_codec() -> None:
    """
    An annotation that cannot be kept by its hash is read each time.
    """
    assert codec_for(typing.Annotated[int, []]).plain


def test_the_kept_codecs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Classes made again and again do not fill the memory with codecs.
    """
    from june.codec import _codecs

    monkeypatch.setattr(_codecs, "_MOST_CODECS", 3)
    for _ in range(5):
        codec_for(attrs.make_class("Again", ["a"]))
    assert len(_codecs._codecs) <= 3


def test_data_too_deep_to_write_again_is_undecodable() -> None:
    """
    Data that others wrote and that June would refuse to write is refused.
    """
    with pytest.raises(Undecodable, match=r"^result: the value read is not exact: "):
        recode(codec_for(Any), b"[" * 400 + b"]" * 400)


class Total(TypedDict):
    """A TypedDict with a required key."""

    a: int


def test_keys_of_typeddicts_that_are_missing() -> None:
    """
    A dict without a required key is refused.
    """
    assert refused(Total, {}) == (
        "result has no key 'a', which Total requires. Set it, or declare it as NotRequired."
    )
    assert refused(Total, {1: 2}).startswith("result[1] is no key of Total")
    assert refused(Total, collections.OrderedDict(a=1)).startswith("result is an OrderedDict")
