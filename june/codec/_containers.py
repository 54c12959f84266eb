"""
The shapes of lists, tuples, sets, dicts and their relatives in ``collections``.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

import msgspec

from june._text import short_repr
from june.codec._problems import MAX_DEPTH, Inexact, TooDeep, Undecodable, expected
from june.codec._shapes import FlatShape, FloatShape, Shape, reachable

_LIST = frozenset({"list"})
_OBJECT = frozenset({"object"})
_FLOAT = frozenset({float})
_STR = frozenset({str})
_dumps = msgspec.json.Encoder().encode


def too_deep() -> Undecodable:
    """Say that data is nested more deeply than anything that June writes."""
    return Undecodable(f"expected at most {MAX_DEPTH} levels of nesting, found more")


def lower_items(items: Iterable[Any], lower: Callable[[Any, int], Any], depth: int) -> list[Any]:
    """Lower *items* into a list; an error learns the index of its item."""
    if depth > MAX_DEPTH:
        raise TooDeep
    depth += 1
    out: list[Any] = []
    append = out.append
    try:
        for item in items:
            append(lower(item, depth))
    except Inexact as error:
        error.under(f"[{len(out)}]")
        raise
    return out


def lift_items(data: Any, label: str, lift: Callable[[Any, int], Any], depth: int) -> list[Any]:
    """Lift the items of *data*, which must be a list; an error learns the index of its item."""
    if type(data) is not list:
        raise expected(label, data)
    if depth > MAX_DEPTH:
        raise too_deep()
    depth += 1
    out: list[Any] = []
    append = out.append
    try:
        for item in data:
            append(lift(item, depth))
    except Undecodable as error:
        error.under(f"[{len(out)}]")
        raise
    return out


class ListShape(Shape):
    """``list[T]``."""

    natural = True

    def __init__(self, item: Shape) -> None:
        super().__init__(f"list[{item.label}]", frozenset({list}), _LIST)
        self.children = (item,)
        self.item = item
        self.same = False

    def finish(self) -> None:
        self.same = is_transparent(self.item)

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not list:
            raise self.unlike(value)
        item = self.item
        if item.flat is not None and item.flat.issuperset(map(type, value)):
            return value
        if type(item) is FloatShape and _FLOAT.issuperset(map(type, value)) and all(map(isfinite, value)):
            return value
        data = lower_items(value, item.lower, depth)
        return value if self.same else data

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is list:
            item = self.item
            if item.flat is not None and item.flat.issuperset(map(type, data)):
                return data
            if type(item) is FloatShape and _FLOAT.issuperset(map(type, data)):
                return data
        return lift_items(data, self.label, self.item.lift, depth)

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["list", inner(self.item)]


def is_transparent(shape: Shape) -> bool:
    """Whether lowering a value of *shape* gives the value itself, all the way down."""
    seen = {id(shape)}
    waiting = [shape]
    while waiting:
        one = waiting.pop()
        if not one.transparent:
            return False
        for child in one.children:
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)
    return True


def _hashes_surprise(item: Shape) -> bool:
    """Whether items may be equal in a set or dict made anew, which takes a class of the user's."""
    return any(one.owner is not None for one in reachable(item))


class SeriesShape(Shape):
    """``tuple[T, ...]``, ``set[T]``, ``frozenset[T]``: as a list, sets in the order of their bytes."""

    def __init__(self, cls: type, item: Shape) -> None:
        label = f"tuple[{item.label}, ...]" if cls is tuple else f"{cls.__name__}[{item.label}]"
        super().__init__(label, frozenset({cls}), _LIST)
        self.children = (item,)
        self.cls = cls
        self.item = item

    def finish(self) -> None:
        self.surprising = self.cls is not tuple and _hashes_surprise(self.item)

    @property
    def transparent(self) -> bool:
        return self.cls is tuple

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        if self.cls is tuple:
            if self.item.flat is not None and self.item.flat.issuperset(map(type, value)):
                return value
            return lower_items(value, self.item.lower, depth)
        try:
            data = lower_items(value, self.item.lower, depth)
        except Inexact as error:
            if error._steps:
                error._steps[-1] = "{}"  # an item of a set has no index
            raise
        data.sort(key=_dumps)
        return data

    def lift(self, data: Any, depth: int) -> Any:
        items = lift_items(data, self.label, self.item.lift, depth)
        if self.cls is tuple:
            return tuple(items)
        try:
            value = self.cls(items)
        except TypeError:
            raise Undecodable(f"expected {self.label}, found items that cannot be in a set") from None
        if len(value) != len(items):
            raise Undecodable(f"expected {self.label}, found an item twice")
        return value

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return [self.cls.__name__, inner(self.item)]


class TupleShape(Shape):
    """``tuple[A, B]``: as many items as types."""

    def __init__(self, items: tuple[Shape, ...]) -> None:
        label = ", ".join(item.label for item in items) if items else "()"
        super().__init__(f"tuple[{label}]", frozenset({tuple}), _LIST)
        self.children = items
        flats = [item.flat for item in items]
        self.exact: tuple[type, ...] | None = None
        if all(type(item) is FlatShape for item in items):
            self.exact = tuple(next(iter(flat)) for flat in flats if flat)

    @property
    def transparent(self) -> bool:
        return True

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not tuple:
            raise self.unlike(value)
        if self.exact is not None and tuple(map(type, value)) == self.exact:
            return value
        if len(value) != len(self.children):
            raise Inexact(
                f"has {len(value)} items, but the declared type is {self.label}",
                "Return what the step's annotation says, or correct it (tuple[int, ...] is of any length).",
            )
        if depth > MAX_DEPTH:
            raise TooDeep
        depth += 1
        out: list[Any] = []
        try:
            for item, shape in zip(value, self.children, strict=True):
                out.append(shape.lower(item, depth))
        except Inexact as error:
            error.under(f"[{len(out)}]")
            raise
        return out

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is not list or len(data) != len(self.children):
            raise expected(self.label, data)
        if depth > MAX_DEPTH:
            raise too_deep()
        depth += 1
        out: list[Any] = []
        try:
            for item, shape in zip(data, self.children, strict=True):
                out.append(shape.lift(item, depth))
        except Undecodable as error:
            error.under(f"[{len(out)}]")
            raise
        return tuple(out)

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["tuple", len(self.children), *map(inner, self.children)]


class DictShape(Shape):
    """``dict[str, T]``: written as an object."""

    natural = True

    def __init__(self, key: Shape, item: Shape) -> None:
        super().__init__(f"dict[{key.label}, {item.label}]", frozenset({dict}), _OBJECT)
        self.children = (key, item)
        self.key = key
        self.item = item
        self.same = False

    def finish(self) -> None:
        self.same = is_transparent(self.item)

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise self.unlike(value)
        self._lower_keys(value, depth)
        item = self.item
        if item.flat is not None and item.flat.issuperset(map(type, value.values())):
            return value
        if depth > MAX_DEPTH:
            raise TooDeep
        depth += 1
        lower = item.lower
        out: dict[str, Any] = {}
        key = None
        try:
            for key, one in value.items():
                out[key] = lower(one, depth)
        except Inexact as error:
            error.under(f"[{short_repr(key)}]")
            raise
        return value if self.same else out

    def _lower_keys(self, value: dict[Any, Any], depth: int) -> None:
        if not _STR.issuperset(map(type, value)):
            key = next(one for one in value if type(one) is not str)
            raise Inexact(
                f"has the key {short_repr(key)}, but the declared type is {self.label}",
                f"Annotate the keys as what they are, e.g. dict[{type(key).__name__}, {self.item.label}].",
            )
        if type(self.key) is not FlatShape:
            for key in value:
                self.key.lower(key, depth)

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is not dict:
            raise expected(self.label, data)
        if type(self.key) is not FlatShape:
            for key in data:
                self.key.lift(key, depth)
        item = self.item
        if item.flat is not None and item.flat.issuperset(map(type, data.values())):
            return data
        if depth > MAX_DEPTH:
            raise too_deep()
        depth += 1
        lift = item.lift
        key = None
        try:
            for key, one in data.items():
                data[key] = lift(one, depth)  # in place: msgspec made the dict for us
        except Undecodable as error:
            error.under(f"[{short_repr(key)}]")
            raise
        return data

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["dict", inner(self.key), inner(self.item)]


class PairsShape(Shape):
    """A dict whose keys are not strings: written as a list of pairs, in the dict's order."""

    def __init__(self, key: Shape, item: Shape) -> None:
        super().__init__(f"dict[{key.label}, {item.label}]", frozenset({dict}), _LIST)
        self.children = (key, item)
        self.pair = TupleShape((key, item))

    def finish(self) -> None:
        self.surprising = _hashes_surprise(self.children[0])

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise self.unlike(value)
        key_shape, item_shape = self.children
        if depth > MAX_DEPTH:
            raise TooDeep
        depth += 1
        out: list[Any] = []
        for key, item in value.items():
            try:
                lowered = key_shape.lower(key, depth)
            except Inexact as error:
                error.under(f"[key {len(out)}]")
                raise
            try:
                out.append((lowered, item_shape.lower(item, depth)))
            except Inexact as error:
                error.under(f"[{_key_text(key)}]")
                raise
        return out

    def lift(self, data: Any, depth: int) -> Any:
        pairs = lift_items(data, self.label, self.pair.lift, depth)
        try:
            value = dict(pairs)
        except TypeError:
            raise Undecodable(f"expected {self.label}, found a key that cannot be in a dict") from None
        if len(value) != len(pairs):
            raise Undecodable(f"expected {self.label}, found a key twice")
        return value

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["pairs", *map(inner, self.children)]


def _key_text(key: object) -> str:
    return repr(key) if type(key) in (int, bool, float, bytes) else f"a {type(key).__name__}"


class KindredShape(Shape):
    """
    ``Counter``, ``OrderedDict``, ``defaultdict`` and ``deque``, when declared as such.

    Each is written as the dict or list in it; before it, in a pair, the factory of a ``defaultdict`` and the
    ``maxlen`` of a ``deque``.
    """

    def __init__(self, cls: type, inside: Shape) -> None:
        paired = cls in (collections.defaultdict, collections.deque)
        super().__init__(
            cls.__name__ + inside.label.removeprefix("dict").removeprefix("list"),
            frozenset({cls}),
            _LIST if paired else inside.kinds,
        )
        self.children = (inside,)
        self.inside = inside
        self.cls = cls

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        if getattr(value, "__dict__", None):
            raise Inexact("has attributes beside its items", f"Return a plain {self.cls.__name__}.")
        depth += 1
        if self.cls is collections.deque:
            return [value.maxlen, self.inside.lower(list(value), depth)]
        data = self.inside.lower(dict(value.items()), depth)
        if self.cls is not collections.defaultdict:
            return data
        factory = value.default_factory
        name = None if factory is None else getattr(factory, "__name__", "")
        if name is not None and _FACTORIES.get(name) is not factory:
            raise Inexact(
                "is a defaultdict with a factory that has no name june knows",
                f"Use one of {', '.join(_FACTORIES)}, or return dict(...) and annotate the result as a dict.",
            )
        return [name, data]

    def lift(self, data: Any, depth: int) -> Any:
        depth += 1
        if self.cls is collections.OrderedDict:
            return collections.OrderedDict(self.inside.lift(data, depth))
        if self.cls is collections.Counter:
            counter: collections.Counter[Any] = collections.Counter()
            dict.update(counter, self.inside.lift(data, depth))  # a Counter's own update would add
            return counter
        if type(data) is not list or len(data) != 2:
            raise expected(f"{self.label} as a pair", data)
        first, rest = data
        inside = self.inside.lift(rest, depth)
        if self.cls is collections.deque:
            if first is not None and (type(first) is not int or not len(inside) <= first < 1 << 62):
                raise expected("the deque's maxlen", first)
            return collections.deque(inside, first)
        if first is not None and (type(first) is not str or first not in _FACTORIES):
            raise expected("the name of the defaultdict's factory", first)
        return collections.defaultdict(None if first is None else _FACTORIES[first], inside)

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return [self.cls.__name__, inner(self.inside)]


_FACTORIES: dict[str, type] = {
    one.__name__: one for one in (bool, dict, float, frozenset, int, list, set, str, tuple)
}
