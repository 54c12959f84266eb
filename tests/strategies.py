"""
Hypothesis strategies: values of many types, each drawn together with its type.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import struct
import uuid
import zoneinfo
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import attrs
from hypothesis import strategies as st

T = TypeVar("T")


class Colour(enum.Enum):
    """An enum."""

    RED = 1
    BLUE = "blue"


class Right(enum.Flag):
    """Flags."""

    READ = 1
    WRITE = 2
    RUN = 4


@attrs.frozen
class Point:
    """An attrs class with slots."""

    x: int
    label: str = ""


@attrs.define(slots=False)
class Tree:
    """A recursive attrs class with a dict and a private field."""

    name: str
    branches: list[Tree] = attrs.Factory(list)
    _weight: float | None = None


@dataclasses.dataclass
class Reading:
    """A dataclass that computes a field and keeps an attribute that is none."""

    at: datetime.datetime
    values: tuple[float, ...]
    total: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        """Look for the largest."""
        self.total = max(self.values, default=0.0)
        self.count = len(self.values)


@dataclasses.dataclass(frozen=True, slots=True)
class Box(Generic[T]):
    """A generic dataclass with slots."""

    item: T


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: str | None


class Options(TypedDict, total=False):
    """A TypedDict without required keys."""

    depth: int
    tags: set[str]


class Job(TypedDict):
    """A TypedDict with a key that need not be there."""

    name: str
    cost: NotRequired[decimal.Decimal]


Typed = tuple[Any, st.SearchStrategy[Any], bool]
"""A type, its values, and whether these can be in a set."""

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
zones = (
    st.none()
    | st.just(datetime.UTC)
    | st.sampled_from(
        [
            zoneinfo.ZoneInfo("Europe/Berlin"),
            zoneinfo.ZoneInfo("America/New_York"),
            datetime.timezone(datetime.timedelta(hours=5, minutes=30)),
            datetime.timezone(datetime.timedelta(seconds=-1, microseconds=-7)),
            datetime.timezone(datetime.timedelta(0), "named"),
        ]
    )
)
moments = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
    st.datetimes(),
    zones,
    st.integers(0, 1),
)
clocks = st.builds(lambda moment: moment.timetz(), moments)
decimals = st.decimals() | st.sampled_from(
    [decimal.Decimal(one) for one in ("1.00", "-0", "0E+9", "sNaN12", "-NaN", "1E-400", "Infinity")]
)
trees = st.recursive(
    st.builds(Tree, text),
    lambda inner: st.builds(Tree, text, st.lists(inner, max_size=2), st.none() | floats),
    max_leaves=4,
)
options = st.fixed_dictionaries({}, optional={"depth": st.integers(), "tags": st.sets(text, max_size=3)})
jobs = st.fixed_dictionaries({"name": text}, optional={"cost": decimals})

SINGLE: list[Typed] = [
    (None, st.none(), True),
    (bool, st.booleans(), True),
    (int, st.integers() | st.integers(-(10**200), 10**200), True),
    (float, floats, True),
    (str, text, True),
    (Any, json_values, False),
    (bytes, st.binary(max_size=8), True),
    (complex, st.complex_numbers(allow_nan=False, allow_infinity=False), True),
    (datetime.datetime, moments, True),
    (datetime.date, st.dates(), True),
    (datetime.time, clocks, True),
    (datetime.timedelta, st.timedeltas(), True),
    (uuid.UUID, st.uuids(), True),
    (decimal.Decimal, decimals, False),
    (fractions.Fraction, st.fractions(), True),
    (pathlib.PurePosixPath, st.builds(pathlib.PurePosixPath, text), True),
    (range, st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)), True),
    (Literal[1, "1", True] | None, st.sampled_from([1, "1", None, True]), True),
    (Literal[Colour.RED, "RED"], st.sampled_from([Colour.RED, "RED"]), True),
    (Colour, st.sampled_from(Colour), True),
    (Right, st.builds(Right, st.integers(0, 7)), True),
    (Point, st.builds(Point, st.integers(), text), True),
    (Tree, trees, False),
    (Reading, st.builds(Reading, moments, st.lists(floats, max_size=3).map(tuple)), False),
    (Pair, st.builds(Pair, st.integers(), st.none() | text), True),
    (Options, options, False),
    (Job, jobs, False),
    (
        collections.Counter[str],
        st.dictionaries(text, st.integers(0, 9), max_size=3).map(collections.Counter),
        False,
    ),
]


@st.composite
def _containers(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    annotation, values, hashable = draw(inner)
    kinds = ["list", "tuple", "fixed", "dict", "optional", "box", "sequence", "deque"]
    kind = draw(st.sampled_from(kinds + ["set", "frozenset", "pairs"] * hashable))
    lists = st.lists(values, max_size=3)
    if kind == "list":
        return list[annotation], lists, False
    if kind == "tuple":
        return tuple[annotation, ...], lists.map(tuple), hashable
    if kind == "fixed":
        return tuple[annotation, int], st.tuples(values, st.integers()), hashable
    if kind == "dict":
        return dict[str, annotation], st.dictionaries(text, values, max_size=3), False
    if kind == "optional":
        return annotation | None if annotation is not None else None, st.none() | values, hashable
    if kind == "box":
        return Box[annotation], st.builds(Box, values), hashable
    if kind == "sequence":
        return Sequence[annotation], lists | lists.map(tuple), False
    if kind == "deque":
        return collections.deque[annotation], lists.map(collections.deque), False
    if kind == "set":
        return set[annotation], st.sets(values, max_size=3), False
    if kind == "frozenset":
        return frozenset[annotation], st.frozensets(values, max_size=3), True
    return dict[annotation, str], st.dictionaries(values, text, max_size=3), False


@st.composite
def _fielded(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    """Make a class with drawn fields, of a drawn family."""
    fields = draw(st.lists(inner, min_size=1, max_size=3))
    names = ["a", "_b", "c"][: len(fields)]
    annotations = {name: annotation for name, (annotation, _, _) in zip(names, fields, strict=False)}
    family = draw(st.sampled_from(["attrs", "attrs-slots", "dataclass", "dataclass-slots"]))
    cls: Any
    if family.startswith("attrs"):
        made = {name: attrs.field(type=one) for name, one in annotations.items()}
        cls = attrs.make_class("Drawn", made, slots=family.endswith("slots"), eq=False)
    else:
        cls = dataclasses.make_dataclass(
            "Drawn", list(annotations.items()), slots=family.endswith("slots"), eq=False
        )
    return cls, st.builds(cls, *(values for _, values, _ in fields)), True


@st.composite
def _unions(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    one, other = draw(inner), draw(inner)
    left = type(None) if one[0] is None else one[0]
    return left | other[0], one[1] | other[1], False


def types() -> st.SearchStrategy[Typed]:
    """Draw a type, with a strategy for its values."""
    return st.recursive(
        st.sampled_from(SINGLE),
        lambda inner: _containers(inner) | _fielded(inner) | _unions(inner),
        max_leaves=4,
    )


def typed_values() -> st.SearchStrategy[tuple[Any, Any]]:
    """Draw a type and a value of it."""
    return types().flatmap(lambda typed: st.tuples(st.just(typed[0]), typed[1]))


def identical(one: Any, other: Any) -> bool:
    """Say whether two values are the same part by part, type by type, without asking their ``__eq__``."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return struct.pack("d", one) == struct.pack("d", other)
    if kind is complex:
        return identical((one.real, one.imag), (other.real, other.imag))
    if kind is decimal.Decimal:
        return repr(one) == repr(other)
    if kind in (datetime.datetime, datetime.time):
        same_zone = one.tzinfo is other.tzinfo or (
            type(one.tzinfo) is datetime.timezone and repr(one.tzinfo) == repr(other.tzinfo)
        )
        bare = one.replace(tzinfo=None), other.replace(tzinfo=None)
        return same_zone and one.fold == other.fold and bare[0] == bare[1]
    if isinstance(one, dict):
        return identical(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        rest = list(other)
        for item in one:
            match = next((index for index, its in enumerate(rest) if identical(item, its)), None)
            if match is None:
                return False
            del rest[match]
        return not rest
    if isinstance(one, (list, tuple, collections.deque)):
        return len(one) == len(other) and all(map(identical, one, other))
    if attrs.has(kind):
        return all(identical(getattr(one, f.name), getattr(other, f.name)) for f in attrs.fields(kind))
    if dataclasses.is_dataclass(kind):
        same = all(identical(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(kind))
        return same and identical(getattr(one, "__dict__", None), getattr(other, "__dict__", None))
    return bool(one == other)
