"""
Values as bytes: what is equal, what differs, what cannot be seen into.
"""

from __future__ import annotations

import argparse
import array
import collections
import configparser
import contextvars
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import hashlib
import io
import ipaddress
import logging
import math
import operator
import os
import pathlib
import queue
import random
import re
import string
import struct
import subprocess
import sys
import textwrap
import threading
import types
import unittest.mock
import uuid
import weakref
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NewType, Optional, TypeVar
from xml.etree import ElementTree

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from june.fingerprints import Fingerprinter, KeyFailure


def digest(value: object) -> bytes:
    return Fingerprinter().value(value).digest


class Text(str):
    pass


class Number(int):
    pass


class Items(list):  # type: ignore[type-arg] # as users write it
    pass


@attrs.frozen
class Point:
    x: int = 0


@dataclass
class Dot:
    x: int = 0


@dataclass
class Spot:
    x: int = 0


class Pair(NamedTuple):
    x: int = 0


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: int = 0) -> None:
        self.x = x


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Looped:
    def __init__(self) -> None:
        self.me: Any = self


class Keyed:
    def __init__(self, key: object) -> None:
        self.key = key
        self.other = object()

    def __june_key__(self) -> object:
        return self.key


class Struct(msgspec.Struct):
    x: int = 0


def plus(x: int, y: int = 1) -> int:
    return x + y


def nested_list(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def loop(length: int) -> list[Any]:
    """A list that holds itself after *length* steps."""
    first: list[Any] = []
    last = first
    for _ in range(length - 1):
        last.append([])
        last = last[0]
    last.append(first)
    return first


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
PARIS = zoneinfo.ZoneInfo("Europe/Paris")
NIGHT = dt.datetime(2026, 10, 25, 2, 30)

DISTINCT: list[object] = [
    None, True, False, 0, 1, -1, 10**30, 2**64, "1", "", "\ud800", b"1", b"", bytearray(b"1"),
    memoryview(b"1"), 1.0, 0.0, -0.0, math.nan, math.inf, -math.inf, 1j, complex(1, 0), complex(0, -1), ...,
    NotImplemented, [], [1], [True], [1.0], ["1"], [[1]], [[], []], [["a"], "b"], ["a", ["b"]], ["ab"],
    ["a", "b"], (), (1,), ((1,),), {1}, frozenset({1}), set(), frozenset(), {}, {1: 2}, {"1": 2}, {"a": 1,
    "b": 2}, {"b": 2, "a": 1}, {1, "a", None}, range(3), range(0, 3, 2), slice(1), slice(1, 2), Text("1"),
    Number(1), Items([1]), Point(), Point(1), Dot(), Dot(1), Spot(), Pair(), Pair(1), Slotted(), Slotted(1),
    Struct(), Struct(1), Color.RED, Color.BLUE, Level.LOW, Bits.A, Bits.A | Bits.B, Color, Level, Point,
    Dot, int, str, dt.date(2026, 1, 1), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "Z")), NIGHT.replace(tzinfo=BERLIN),
    NIGHT.replace(tzinfo=PARIS), NIGHT.replace(tzinfo=BERLIN, fold=1), NIGHT, NIGHT.replace(fold=1),
    dt.time(1), dt.time(1, fold=1), dt.timedelta(1), dt.timedelta(0, 1), BERLIN, dt.UTC,
    decimal.Decimal("1"), decimal.Decimal("1.0"), decimal.Decimal("1.00"), decimal.Decimal("-0"),
    decimal.Decimal("NaN"), decimal.Decimal("Infinity"), fractions.Fraction(1), fractions.Fraction(1, 2),
    uuid.UUID(int=1), uuid.UUID(int=2), pathlib.PurePosixPath("a"), pathlib.PurePosixPath("a/b"),
    pathlib.PureWindowsPath("a"), Path("a"), re.compile("a"), re.compile("a", re.I), re.compile(b"a"),
    array.array("i", [1]), array.array("d", [1]), memoryview(array.array("i", [1])),
    collections.OrderedDict(a=1), collections.Counter("a"), collections.defaultdict(int),
    collections.defaultdict(list), collections.deque([1]), collections.deque([1], 5),
    types.SimpleNamespace(a=1), types.MappingProxyType({"a": 1}), ipaddress.ip_address("1.1.1.1"),
    ipaddress.ip_address("1.1.1.2"), ipaddress.ip_address("::1"), len, max, str.lower, str.upper, [].append,
    "a".join, "b".join, dict.fromkeys, plus, (lambda: 1), (lambda: 2), functools.partial(plus, 1),
    functools.partial(plus, 2), functools.partial(plus, y=1), operator.itemgetter(1),
    operator.itemgetter(2), operator.attrgetter("a"), operator.methodcaller("a"), operator.methodcaller("a",
    1), Dot(1).__eq__, Dot(2).__eq__, math, re, os.path, list[int], list[str], int | None, int | str,
    ValueError("a"), ValueError("b"), TypeError("a"), Looped(), loop(1), loop(2), [loop(1)], Keyed(1),
    Keyed("1"),
]  # fmt: skip


def test_no_two_values_share_a_digest() -> None:
    """Values that differ in value or type differ in their digest."""
    seen: dict[bytes, object] = {}
    for value in DISTINCT:
        found = digest(value)
        assert found not in seen, (seen[found], value)
        seen[found] = value


@pytest.mark.parametrize(
    "make",
    [
        lambda: math.nan,
        lambda: float("nan") * -1,
        lambda: {1, "a", None, (1, 2), b"x", frozenset({3})},
        lambda: Looped(),
        lambda: loop(3),
        lambda: Keyed({"a": {1, 2}}),
        lambda: lambda x: x + 1,
        lambda: functools.partial(plus, 3),
        lambda: type("Made", (), {"x": 1}),
        lambda: object(),
        lambda: random.choice,
        lambda: Optional[int],  # noqa: UP045 # the spelling is the subject
    ],
)
def test_equal_values_have_equal_digests(make: Callable[[], object]) -> None:
    """A digest knows no addresses, orders of sets, or kinds of NaN."""
    assert digest(make()) == digest(make())


def test_both_spellings_of_a_union_are_one() -> None:
    """`Optional[int]` and `int | None` are one type on Python 3.14, so they are one here."""
    assert digest(Optional[int]) == digest(int | None)  # noqa: UP045 # the spelling is the subject


@pytest.mark.parametrize(
    "value", [None, True, 0, -5, 1.5, "ä", [], {}, {"a": [1, {"b": None}]}, [1e300, "x"]]
)
def test_plain_json_is_hashed_as_its_json(value: object) -> None:
    """For exactly plain JSON, the digest is a hash of msgspec's bytes, marked `j`."""
    expected = b"j" + blake2b(msgspec.json.encode(value), digest_size=16).digest()
    assert digest(value) == expected


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, "\ud800", (1,), {1: 2}, Text("a"), {"a": Number(1)}, [b"x"], {Text("a"): 1}]
)
def test_all_else_is_hashed_by_its_tagged_encoding(value: object) -> None:
    """What JSON cannot hold exactly is marked `v`."""
    assert digest(value)[:1] == b"v"


@pytest.mark.parametrize(
    ("value", "opaque"),
    [
        (threading.Lock(), "value: lock"),
        ({"a": [threading.Event()]}, "value['a'][0]: Event"),
        (Keyed(threading.Event()), "value.__june_key__(): Event"),
        (types.SimpleNamespace(client=unittest.mock.Mock()), "value.client: Mock"),
        ((x for x in ()), "value: generator"),
        (memoryview, ""),
    ],
)
def test_what_cannot_be_seen_into_is_named(value: object, opaque: str) -> None:
    """A place that counts by its type only is listed with its path."""
    assert Fingerprinter().value(value).opaque == ((opaque,) if opaque else ())


class Day(dt.date):
    pass


class Amount(decimal.Decimal):
    pass


class Latest(collections.deque):  # type: ignore[type-arg] # as users write it
    pass


class Numbers(array.array):  # type: ignore[type-arg] # as users write it
    pass


class Where(pathlib.PurePosixPath):
    pass


class Named(property):
    pass


class Options(collections.UserDict):  # type: ignore[type-arg] # as users write it
    pass


def config(value: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read_dict({"a": {"b": value}})
    return parser


def moved(key: str) -> object:
    ordered = collections.OrderedDict(a=1, b=1)
    ordered.move_to_end(key)
    return ordered


def noted(weight: int) -> object:
    made = functools.partial(plus)
    made.weight = weight  # type: ignore[attr-defined] # partials take any attribute
    return made


READABLE: dict[str, Callable[[int], object]] = {
    "template": lambda n: string.Template(f"{n} $x"),
    "user dict": lambda n: collections.UserDict({"a": n}),
    "user's own user dict": lambda n: Options(a=n),
    "user list": lambda n: collections.UserList([n]),
    "chain map": lambda n: collections.ChainMap({"a": n}),
    "function in a chain map": lambda n: collections.ChainMap({"a": (str, plus)[n - 1]}),
    "namespace": lambda n: argparse.Namespace(a=n),
    "config": lambda n: config(str(n)),
    "wrapper of text": lambda n: textwrap.TextWrapper(width=n + 10),
    "network": lambda n: ipaddress.ip_network(f"10.{n}.0.0/16"),
    "format of a struct": lambda n: struct.Struct("<>"[n - 1] + "I"),
    "text stream": lambda n: io.StringIO(str(n)),
    "byte stream": lambda n: io.BytesIO(bytes([n])),
    "element": lambda n: ElementTree.fromstring(f"<a><b x='{n}'/></a>"),
    "context": lambda n: decimal.Context(prec=n),
    "keys": lambda n: {n: 1}.keys(),
    "values": lambda n: {1: n}.values(),
    "items": lambda n: {1: n}.items(),
    "code": lambda n: compile(str(n), "x", "eval"),
    "weak reference": lambda n: weakref.ref((Color, Level)[n - 1]),
    "date": lambda n: Day(2026, 1, n),
    "decimal": lambda n: Amount(n),
    "deque": lambda n: Latest([n]),
    "array": lambda n: Numbers("i", [n]),
    "path": lambda n: Where(str(n)),
    "property": lambda n: Named((plus, digest)[n - 1]),
    "order": lambda n: moved("ab"[n - 1]),
    "file of an error": lambda n: OSError(1, "x", str(n)),
    "annotated": lambda n: Annotated[int, n],
    "new type": lambda n: NewType("X", (int, str)[n - 1]),  # type: ignore[valid-newtype] # made to differ
    "type variable": lambda n: TypeVar("T", bound=(int, str)[n - 1]),  # type: ignore[misc] # made to differ
    "attribute of a partial": noted,
    "comparison": lambda n: functools.cmp_to_key((plus, lambda a, b: 0)[n - 1]),
    "lazy call": lambda n: map((plus, lambda a: 0)[n - 1], [1]),  # type: ignore[arg-type, call-overload] # never called
    "pipe": lambda n: attrs.converters.pipe(int, (plus, lambda a: 0)[n - 1]),
    "default": lambda n: attrs.converters.default_if_none([n]),
    "validator": lambda n: attrs.validators.and_(attrs.validators.in_([n])),
    "made by attrs": lambda n: attrs.make_class("X", {"x": attrs.field(default=n)}),
    "made by dataclasses": lambda n: dataclasses.make_dataclass("X", [("x", int, n)]),
    "made by msgspec": lambda n: msgspec.defstruct("X", [("x", int, n)]),
    "made by msgspec, with another name": lambda n: msgspec.defstruct("X", ["x"], rename={"x": str(n)}),
    "context variable": lambda n: contextvars.ContextVar("v", default=n),
}


@pytest.mark.parametrize("make", READABLE.values(), ids=READABLE)
def test_data_of_library_types_counts_by_value(make: Callable[[int], object]) -> None:
    """What an object of a library's class, or of the user's subclass of one, holds is read from it."""
    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))


HIDDEN: list[object] = [
    random.Random(1),
    hashlib.md5(b"1"),
    iter([1]),
    queue.Queue(),
    collections.UserDict({"a": threading.Lock()}),
    type("Own", (random.Random,), {})(),
]


@pytest.mark.parametrize("value", HIDDEN, ids=lambda value: type(value).__name__)
def test_what_c_hides_is_listed(value: object) -> None:
    """State that a class written in C keeps to itself is not guessed."""
    assert Fingerprinter().value(value).opaque


def test_a_library_object_with_a_life_of_its_own_counts_by_its_type() -> None:
    """A lock anywhere inside makes a client of it: none of its state counts, but the user's functions do."""

    def made(limit: int, work: Callable[..., object]) -> types.SimpleNamespace:
        thread = threading.Thread(target=None, name=str(limit), args=([work],))
        return types.SimpleNamespace(thread=thread)

    assert digest(made(1, plus)) == digest(made(2, plus))
    assert digest(made(1, plus)) != digest(made(1, moved))
    assert Fingerprinter().value(made(1, plus)).opaque == ("value.thread: Thread",)


@pytest.mark.parametrize("value", [logging.getLogger(), os.environ], ids=["logger", "environment"])
def test_what_differs_from_process_to_process_counts_by_its_type(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loggers and the environment are no data, though all they hold can be read."""
    before = digest(value)
    logging.getLogger(f"june.{id(value)}")
    monkeypatch.setenv("JUNE_TEST", "1")
    assert digest(value) == before


def test_equal_sets_of_functions_have_equal_digests() -> None:
    """Functions of one text, told apart by their closures only, have one order in a set."""

    def make(number: int) -> Callable[[], int]:
        return lambda: number

    functions = [make(number) for number in range(6)]
    digests = {digest(set(functions[place:] + functions[:place])) for place in range(6)}
    assert digests == {digest({make(number) for number in range(6)})}


def test_a_library_object_may_be_deep_or_large() -> None:
    """What is too deep or too large to be read is listed, and gives no failure."""
    deep: Any = 1
    for _ in range(200):
        deep = argparse.Namespace(a=deep)
    wide = argparse.Namespace(a=[argparse.Namespace(a=n) for n in range(1000)])
    assert Fingerprinter().value(deep).opaque == ("value: Namespace",)
    assert Fingerprinter().value(wide).opaque == ("value: Namespace",)


def test_objects_that_answer_everything_are_not_asked() -> None:
    """A mock or a proxy is known by its type, and none of its attributes is touched."""

    class Proxy:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    mock = unittest.mock.MagicMock()
    Fingerprinter().value([Proxy(), mock])
    assert mock.mock_calls == []


def test_too_deep_a_value_is_refused() -> None:
    """A value nested beyond what can be walked gives no key, and says so."""
    with pytest.raises(KeyFailure, match="nested deeper than 150 levels"):
        digest([*nested_list(2000), ()])


def test_a_failing_june_key_names_the_place() -> None:
    """What `__june_key__` raises is the reason of the failure."""

    class Bad:
        def __june_key__(self) -> object:
            raise ValueError("no")

    with pytest.raises(KeyFailure) as caught:
        digest({"a": Bad()})
    assert str(caught.value).endswith("['a']: " + Bad.__qualname__ + ".__june_key__ raised ValueError: no")


def test_a_cached_property_is_not_state() -> None:
    """Having looked at a cached property does not change a value."""

    class Lazy:
        @functools.cached_property
        def size(self) -> int:
            return 3

    looked = Lazy()
    assert looked.size == 3
    assert digest(Lazy()) == digest(looked)


def test_the_code_of_a_class_counts_in_its_values() -> None:
    """Two classes of one name and fields, with other methods, make different values."""

    def make(number: int) -> object:
        class Report:
            def size(self) -> int:
                return number

        return Report()

    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.fractions(),
)
hashables = st.recursive(
    scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
values = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.sets(hashables, max_size=3)
    ),
    max_leaves=8,
)


def exact(value: object) -> object:
    """A value with its types, comparable by `==`: the meaning of "equal" here."""
    if isinstance(value, (list, tuple)):
        return (type(value), [exact(item) for item in value])
    if isinstance(value, dict):
        return (dict, [(exact(key), exact(item)) for key, item in value.items()])
    if isinstance(value, (set, frozenset)):
        return (type(value), sorted(repr(exact(item)) for item in value))
    return (type(value), repr(value) if value == value else "nan")


@pytest.mark.slow
@given(values, values)
def test_digests_are_equal_exactly_for_equal_values(first: object, second: object) -> None:
    """Two values share a digest if and only if they are equal in value and type, all the way down."""
    assert (digest(first) == digest(second)) is (exact(first) == exact(second))
    assert digest([first, second]) != digest([[first, second]])


@pytest.mark.slow
def test_digests_are_equal_in_processes_with_other_seeds() -> None:
    """Sets of anything have one digest whatever the process's hash seed."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from june.fingerprints import Fingerprinter\n"
        "print(Fingerprinter().value([{'a', 1, None, (2, 'b'), b'c'}, frozenset('xyz')]).digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parents[1])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1
