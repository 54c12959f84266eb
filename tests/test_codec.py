"""
What the codec takes and gives back, what it refuses, and the words it refuses it in.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import pickle
import sys
import threading
import uuid
import zoneinfo
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType

import attrs
import pytest

from june.codec import MISSING, Inexact, Undecodable, codec_for, recode
from tests.strategies import Box, Colour, Options, Pair, Point, Right, Tree, identical

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
UserId = NewType("UserId", int)


class Level(enum.IntEnum):
    """An enum whose members are ints."""

    LOW = 1


class Word(enum.StrEnum):
    """An enum whose members are strings."""

    YES = "yes"


class SubPoint:
    """Holds a subclass of Point under a name of its own."""

    @attrs.frozen
    class Point(Point):
        """A subclass with no more fields."""


@attrs.define(slots=False)
class Loose:
    """A class whose instances take any attribute."""

    a: int
    b: str = "b"


@attrs.frozen(cache_hash=True)
class Hashed:
    """A class that keeps its hash."""

    a: int
    b: str


@attrs.define
class Converted:
    """A class whose converter changes what it is given each time."""

    n: int = attrs.field(converter=lambda given: given + 1)
    _hidden: str = "x"


@dataclasses.dataclass
class Doubled:
    """A class that changes its field each time it is made."""

    n: int

    def __post_init__(self) -> None:
        """Double."""
        self.n *= 2


@dataclasses.dataclass
class Locked:
    """A class that makes itself something that has no value."""

    n: int

    def __post_init__(self) -> None:
        """Make the lock."""
        self.lock = threading.Lock()


@dataclasses.dataclass
class Picky:
    """A class that refuses to be made of what it turned its field into."""

    n: int

    def __post_init__(self) -> None:
        """Check, then change."""
        if self.n < 0:
            raise ValueError("n is negative")
        self.n = -self.n


@dataclasses.dataclass
class Computed:
    """A class with a cached property and a field that only it sets."""

    n: int
    square: int = dataclasses.field(init=False)

    @functools.cached_property
    def cube(self) -> int:
        """The cube of n."""
        return self.n**3


class Liar:
    """An object that says that it is equal to everything and of any class."""

    __class__ = int  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Unequal:
    """A class whose instances equal everything."""

    values: list[float]

    def __eq__(self, other: object) -> bool:
        return True


def computed() -> Computed:
    """Make one that has computed all it can."""
    value = Computed(3)
    value.square = 9
    assert value.cube == 27
    return value


def nested(levels: int) -> list[Any]:
    """Make lists in lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> dict[str, Any]:
    """Make a dict that holds itself."""
    value: dict[str, Any] = {}
    value["me"] = [value]
    return value


def with_attribute() -> Loose:
    """Make an object with an attribute that is no field."""
    value = Loose(1)
    value.extra = 2  # type: ignore[attr-defined]
    return value


def incomplete() -> Computed:
    """Make an object one of whose fields was never set."""
    return Computed(3)


EXACT: list[tuple[Any, Any, str]] = [
    (MISSING, {"a": [1, 1.0, None, True, "x"]}, '{"a":[1,1.0,null,true,"x"]}'),
    (object, [], "[]"),
    (dict, {"b": 1, "a": 2}, '{"b":1,"a":2}'),
    (UserId, 7, "7"),
    (Annotated[list[int], "ids"], [1], "[1]"),
    (int, 10**200, "1" + "0" * 200),
    (float, -0.0, "-0.0"),
    (Point, Point(1, "p"), '{"x":1,"label":"p"}'),
    (Tree, Tree("t", [Tree("u")]), None),
    (Box[int], Box(1), '{"item":1}'),
    (Box[Box[str]], Box(Box("x")), '{"item":{"item":"x"}}'),
    (Pair, Pair(1, None), '{"left":1,"right":null}'),
    (Options, {"tags": {"b", "a"}}, '{"tags":["a","b"]}'),
    (Colour, Colour.BLUE, '"BLUE"'),
    (Level, Level.LOW, '"LOW"'),
    (Word, Word.YES, '"YES"'),
    (Right, Right.READ | Right.RUN, '["READ","RUN"]'),
    (Right, Right(0), "[]"),
    (Hashed, Hashed(1, "b"), '{"a":1,"b":"b"}'),
    (Converted, Converted(1), '{"n":2,"_hidden":"x"}'),
    (Doubled, Doubled(2), '{"n":4}'),
    (dict[int, str], {2: "b", 1: "a"}, '[[2,"b"],[1,"a"]]'),
    (dict[tuple[int, str], int], {(1, "a"): 2}, '[[[1,"a"],2]]'),
    (tuple[()], (), "[]"),
    (tuple[int, ...], (1, 2), "[1,2]"),
    (Sequence[int], (1, 2), '{"tuple[int, ...]":[1,2]}'),
    (Sequence[int], [1, 2], "[1,2]"),
    (Mapping[str, int], {"a": 1}, '{"a":1}'),
    (collections.Counter[str], collections.Counter(aab=2), '{"aab":2}'),
    (collections.OrderedDict[str, int], collections.OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    (collections.defaultdict[str, list[int]], collections.defaultdict(list, a=[1]), '["list",{"a":[1]}]'),
    (collections.deque[int], collections.deque([1], 3), "[3,[1]]"),
    (bytes, b"\x00\xff", '"AP8="'),
    (bytearray, bytearray(b"a"), '"YQ=="'),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("//a/../b"), '"//a/../b"'),
    (pathlib.PureWindowsPath, pathlib.PureWindowsPath("c:/a"), '"c:\\\\a"'),
    (pathlib.Path, pathlib.Path("a"), '"a"'),
    (decimal.Decimal, decimal.Decimal("-0.00"), '"-0.00"'),
    (decimal.Decimal, decimal.Decimal("1E+400"), '"1E+400"'),
    (decimal.Decimal, decimal.Decimal("-sNaN7"), '"-sNaN7"'),
    (uuid.UUID, uuid.UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
    (uuid.UUID, uuid.uuid1(), None),
    (datetime.datetime, datetime.datetime(2026, 1, 2, 3, 4, 5, 6), '"2026-01-02T03:04:05.000006"'),
    (datetime.datetime, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), '"2026-01-02T00:00:00+00:00"'),
    (
        datetime.datetime,
        datetime.datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=1),
        '"2026-11-01T01:30:00[America/New_York];fold=1"',
    ),
    (
        datetime.time,
        datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, seconds=-5), "X")),
        '"01:00:00-03:00:05[X]"',
    ),
    (datetime.timedelta, datetime.timedelta(-1, 5, 7), "[-1,5,7]"),
    (Literal[1, True, "1"] | None, True, "true"),
    (Literal[Colour.RED, "RED"], Colour.RED, '{"Literal[Colour.RED]":"RED"}'),
    (Literal[Colour.RED], Colour.RED, '"RED"'),
    (int | None, None, "null"),
    (Point | None, Point(1), '{"x":1,"label":""}'),
    (Point | Loose, Loose(1), '{"Loose":{"a":1,"b":"b"}}'),
    (Point | dict[str, int], {"Point": 1}, '{"dict":{"Point":1}}'),
    (Point | Any, {"Point": 1}, '{"dict":{"Point":1}}'),
    (str | Colour, "RED", '"RED"'),
    (str | Colour, Colour.RED, '{"Colour":"RED"}'),
    (bytes | str, b"a", '{"bytes":"YQ=="}'),
    (int | float, 1.0, "1.0"),
    (list[int] | list[str], ["a"], '["a"]'),
    (Box[int] | Box[str], Box("x"), '{"Box[str]":{"item":"x"}}'),
    (Unequal, Unequal([0.0]), '{"values":[0.0]}'),
]


@pytest.mark.parametrize(("annotation", "value", "text"), EXACT)
def test_a_value_comes_back_exactly(annotation: Any, value: Any, text: str | None) -> None:
    """
    A value of a supported type comes back the same, from a text that is easy to read.
    """
    codec = codec_for(annotation)
    data = codec.encode(value)
    assert identical(codec.decode(data), value)
    assert recode(codec, data) == data
    assert text is None or data.decode() == text


REFUSED: list[tuple[Any, Any, str]] = [
    (
        MISSING,
        {"rows": [(1, 2)]},
        (
            "result['rows'][0] is a tuple without a declared type, and would come back as a list. "
            "Annotate the step's result, e.g. -> tuple[int, int], or return a list."
        ),
    ),
    (
        MISSING,
        {"a": {1: "x"}},
        (
            "result['a'] has the key 1, of type int, which JSON would turn into a string. "
            "Annotate the step's result, e.g. -> dict[int, str], or use keys that are strings."
        ),
    ),
    (
        MISSING,
        [Point(1)],
        (
            "result[0] is a Point without a declared type, and JSON alone has no form for it. "
            "Annotate the step's "
            "result, e.g. -> Point; if june cannot encode that, teach it with "
            "june.codec.register(Point, encode, "
            "decode), or say save=False."
        ),
    ),
    (
        dict[str, list[float]],
        {"a": [0.5, float("nan")]},
        "result['a'][1] is NaN, which JSON cannot hold. Return None in its place (declared as float | None).",
    ),
    (
        Any,
        float("-inf"),
        "result is -infinity, which JSON cannot hold. Return None in its place (declared as float | None).",
    ),
    (
        dict,
        collections.Counter("a"),
        (
            "result is a Counter, and would come back as the declared dict. "
            "Return a plain dict, or annotate the step's result with Counter."
        ),
    ),
    (
        Tree,
        Tree("a", [Tree("b"), Tree("c", [], 1)]),
        (
            "result.branches[1]._weight is an int, but the declared type is None | float. "
            "Return what the step's annotation says, or correct the annotation."
        ),
    ),
    (
        Point,
        SubPoint.Point(1),
        (
            "result is a SubPoint.Point, and would come back as the declared Point. "
            "Return a plain Point, or annotate the step's result with SubPoint.Point."
        ),
    ),
    (
        list[str],
        ["a", "\ud800"],
        (
            "result[1] has a lone surrogate, a half of a character that UTF-8 has no form for. "
            'Clean the text, e.g. with text.encode("utf-8", "replace").decode().'
        ),
    ),
    (
        Loose,
        with_attribute(),
        (
            "result has the attribute extra, which is no field of Loose and would be lost. "
            "Declare extra as a field of Loose, or do not set it."
        ),
    ),
    (
        Computed,
        incomplete(),
        "result has no value in its field square. Set every field before returning it.",
    ),
    (
        Locked,
        Locked(1),
        (
            "result.lock would not come back as it is: what is built from the saved fields "
            "differs there. Let the "
            "fields alone decide it (in __post_init__, or in the functions given to "
            "register()), or say save=False."
        ),
    ),
    (
        Picky,
        Picky(1),
        (
            "result would not come back: Picky(...) raised ValueError('n is negative') for the saved fields. "
            "Let what makes the value accept its own fields, or say save=False."
        ),
    ),
    (
        Options,
        {"depht": 1},
        "result['depht'] is no key of Options. Declare it there, or leave it out.",
    ),
    (
        tuple[int, int],
        (1, 2, 3),
        (
            "result has 3 items, but the declared type is tuple[int, int]. Return what the "
            "step's annotation says, or "
            "correct it (tuple[int, ...] is of any length)."
        ),
    ),
    (
        Literal[1, 2],
        3,
        (
            "result is 3, which is not in Literal[1, 2]. "
            "Return what the step's annotation says, or correct the annotation."
        ),
    ),
    (
        dict[str, Any],
        cyclic(),
        (
            "result['me'][0]['me'][0]... holds itself or is nested more than 300 levels deep. "
            "Return it flat, e.g. as a list of rows that refer to each other by number."
        ),
    ),
    (
        list[int],
        [1, 10**9000],
        (
            "result[1] is an int of more digits than JSON readers take. "
            "Return it as text, e.g. hex(n), or as bytes."
        ),
    ),
    (
        datetime.datetime,
        datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo.no_cache("Europe/Berlin")),
        (
            "result is in the time zone zoneinfo.ZoneInfo(key='Europe/Berlin'), which would not "
            "come back as it is. "
            "Return a time in UTC, with a fixed offset, or in zoneinfo.ZoneInfo(key)."
        ),
    ),
]


@pytest.mark.parametrize(("annotation", "value", "text"), REFUSED)
def test_a_refusal_says_where_what_and_what_to_do(annotation: Any, value: Any, text: str) -> None:
    """
    A value that would not come back is refused with the path to it, the problem and a cure.
    """
    with pytest.raises(Inexact) as caught:
        codec_for(annotation).encode(value)
    assert str(caught.value) == text
    assert str(caught.value) == f"{caught.value.path} {caught.value.problem}. {caught.value.cure}"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, True),
        (bool, 1),
        (float, 1),
        (int, 1.0),
        (int, Level.LOW),
        (str, Word.YES),
        (Any, Level.LOW),
        (Any, Word.YES),
        (dict[str, int], {Word.YES: 1}),
        (dict, collections.OrderedDict()),
        (dict[str, int], collections.defaultdict(int)),
        (list, collections.UserList([1])),
        (list[int], (1,)),
        (tuple[int, ...], [1]),
        (tuple, Pair(1, "a")),
        (set[int], frozenset({1})),
        (set[int], {True}),
        (list[Point], [SubPoint.Point(1)]),
        (Box[int], Box("x")),
        (Box[int], Box(True)),
        (int, Liar()),
        (Point, Liar()),
        (Any, Liar()),
        (Any, b"bytes"),
        (Any, nested(301)),
        (list, nested(5_000)),
        (Literal[1], True),
        (Literal[Colour.RED], Colour.BLUE),
        (Sequence[str], "text"),
        (datetime.date, datetime.datetime(2026, 1, 1)),
        (collections.defaultdict[str, int], collections.defaultdict(lambda: 1)),
        (complex, complex(0, float("inf"))),
        (bytes, bytearray(b"a")),
        (pathlib.PurePath, pathlib.Path("a")),
        (Any, {"a": {"\udfff": 1}}),
        (Tree, Tree("a", [Tree("b", branches=())])),  # type: ignore[arg-type]
    ],
)
def test_nothing_is_coerced_on_the_way_out(annotation: Any, value: Any) -> None:
    """
    A value that is not exactly of the declared type is refused, even where it is equal to one that is.
    """
    with pytest.raises(Inexact):
        codec_for(annotation).encode(value)


@pytest.mark.parametrize(
    ("annotation", "data", "text"),
    [
        (Box[list[Point]], '{"item":[{"x":"5","label":""}]}', 'result.item[0].x: expected int, found "5"'),
        (int, "true", "result: expected int, found true"),
        (float, "1", "result: expected float, found 1"),
        (int, "1.0", "result: expected int, found 1.0"),
        (str, "null", "result: expected str, found null"),
        (Point, '{"x":1}', "result: expected the fields of Point, found no 'label'"),
        (
            Point,
            '{"x":1,"label":"","y":2,"z":3}',
            "result: expected the fields of Point, found the unknown 'y' and 'z'",
        ),
        (
            Point,
            '{"x":1,"lable":""}',
            "result: expected the fields of Point, found no 'label' and the unknown 'lable'",
        ),
        (Colour, '"GREEN"', 'result: expected a member of Colour, found "GREEN" (there are: RED, BLUE)'),
        (Colour, '"BLU"', 'result: expected a member of Colour, found "BLU" (did you mean BLUE?)'),
        (set[int], "[1,1]", "result: expected set[int], found an item twice"),
        (dict[int, int], "[[1,2],[1,3]]", "result: expected dict[int, int], found a key twice"),
        (dict[str, int], '{"a":[]}', "result['a']: expected int, found a list of 0"),
        (tuple[int, int], "[1]", "result: expected tuple[int, int], found a list of 1"),
        (Point | Loose, '{"Cat":{}}', 'result: expected a member of Loose | Point, found "Cat"'),
        (
            Point | Loose,
            "{}",
            (
                "result: expected an object with one key that names a member of Loose | Point, "
                "found an object with no keys"
            ),
        ),
        (datetime.date, '"2026-13-01"', 'result: expected date, found "2026-13-01"'),
        (decimal.Decimal, '" 1"', 'result: expected Decimal, found " 1"'),
        (bytes, '"YQ"', 'result: expected bytes, found "YQ"'),
        (Picky, '{"n":-1}', "result: Picky(...) raised ValueError('n is negative') for the saved fields"),
        (Options, '{"depth":1,"more":2}', "result: expected the fields of Options, found the unknown 'more'"),
    ],
)
def test_nothing_is_coerced_on_the_way_in(annotation: Any, data: str, text: str) -> None:
    """
    Data that does not fit the type is refused with the path to it.
    """
    with pytest.raises(Undecodable) as caught:
        codec_for(annotation).decode(data.encode())
    assert str(caught.value) == text


def test_a_time_written_by_others_is_read() -> None:
    """
    The usual ways to write a time are read, and written again in June's own.
    """
    codec = codec_for(datetime.datetime)
    assert recode(codec, b'"2026-01-02T03:04Z"') == b'"2026-01-02T03:04:00+00:00"'
    assert recode(codec, b'"2026-01-02T03:04:05.5+01:00"') == b'"2026-01-02T03:04:05.500000+01:00"'


def test_a_cached_property_is_no_part_of_a_value() -> None:
    """
    What a cached property keeps in an object is not saved, and computed again.
    """
    codec = codec_for(Computed)
    data = codec.encode(computed())
    assert data == b'{"n":3,"square":9}'
    assert vars(codec.decode(data)) == {"n": 3, "square": 9}


@pytest.mark.parametrize(
    "value", [10**4299, 10**4300 - 1, -(10**4299) + 1], ids=["least", "most", "negative"]
)
def test_the_longest_ints_come_back(value: int) -> None:
    """
    An int of up to 4,300 characters comes back.
    """
    for annotation, whole in [(int, value), (list[int], [0, value, 1]), (Any, {"a": value})]:
        codec = codec_for(annotation)
        assert codec.decode(codec.encode(whole)) == whole


@pytest.mark.parametrize("value", [10**4300, -(10**4299), -(10**9000)], ids=["more", "sign", "many"])
@pytest.mark.parametrize("limit", [4300, 0])
def test_a_longer_int_is_refused(value: int, limit: int) -> None:
    """
    An int of more than 4,300 characters is refused, also where Python's own limit was lifted.
    """
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        for annotation, whole, path in [(int, value, "result"), (list, [0] * 50 + [value], r"result\[50\]")]:
            with pytest.raises(Inexact, match=rf"^{path} is an int of more digits"):
                codec_for(annotation).encode(whole)
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("value", [{1: 2}, cyclic()])
def test_a_refusal_can_be_pickled_and_copied(value: Any) -> None:
    """
    An Inexact says the same after it went through pickle or copy.
    """
    with pytest.raises(Inexact) as caught:
        codec_for(MISSING).encode({"a": value})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(copy.copy(caught.value)) == str(caught.value)


def test_data_that_is_no_json_is_undecodable() -> None:
    """
    Data that is no JSON at all is refused in the words of the JSON reader.
    """
    with pytest.raises(Undecodable, match=r"^result: expected JSON, but Input data was truncated$"):
        codec_for(int).decode(b"[1")


def test_a_hash_is_not_saved() -> None:
    """
    The hash that an attrs class keeps, which differs from process to process, is computed again.
    """
    value = Hashed(1, "b")
    hash(value)
    again = codec_for(set[Hashed]).decode(codec_for(set[Hashed]).encode({value}))
    assert hash(next(iter(again))) == hash(value)


def test_later_mutation_does_not_reach_what_was_encoded() -> None:
    """
    What is decoded shares nothing with the value that was encoded.
    """
    value = [[1]]
    codec = codec_for(list[list[int]])
    data = codec.encode(value)
    value[0].append(2)
    assert codec.decode(data) == [[1]]
