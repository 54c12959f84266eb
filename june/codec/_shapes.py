"""
A type as the codec sees it: a shape, which lowers values to JSON data and lifts them back.

A shape **lowers** a value: it proves, by exact types, that the value is what the type says, and gives the
data that msgspec writes. It **lifts** data: it checks that the data is what lowering gives, coercing
nothing, and builds the value. The shapes of a type form a graph, with cycles where the type is recursive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import isfinite
from typing import Any, ClassVar

from june._text import short_repr
from june.codec._problems import (
    MAX_DEPTH,
    Inexact,
    TooDeep,
    Undecodable,
    expected,
    not_finite,
    undeclared,
    unlike,
)

NoneType = type(None)
ALL_KINDS = frozenset({"null", "bool", "int", "float", "str", "list", "object"})
KIND_OF: dict[type, str] = {
    NoneType: "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "object",
}


class Shape:
    """
    The base of all shapes.

    Attributes:
        label: The type as a person writes it, in one spelling; also a union's tag for it.

        accepts: The exact types of the values it lowers; None when it does not say.

        kinds: The kinds of JSON that lowering gives.

        natural: Whether JSON's own reading of the data is the value (given that it is so for the children).

        transparent: Whether lowering gives the value itself (given that it is so for the children).

        settled: Whether data that June wrote always lifts.

        surprising: Whether only a real round trip proves a value.

        flat: The exact types that are proof enough of a value that lowers and lifts to itself, or None.
    """

    natural: ClassVar[bool] = False
    settled: bool = True
    surprising: bool = False
    flat: frozenset[type] | None = None

    def __init__(self, label: str, accepts: frozenset[type] | None, kinds: frozenset[str]) -> None:
        self.label = label
        self.accepts = accepts
        self.kinds = kinds
        self.children: tuple[Shape, ...] = ()
        self.owner: type | None = None  # the class that a user may have defined

    @property
    def transparent(self) -> bool:
        return self.natural

    def lower(self, value: Any, depth: int) -> Any:
        """
        Prove that *value* is exactly of this type, and give it as JSON data.

        Raises:
            Inexact: If it is not.
        """
        raise NotImplementedError

    def lift(self, data: Any, depth: int) -> Any:
        """
        Build the value that *data* stands for.

        Raises:
            Undecodable: If *data* is not in the form that lowering gives.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Prepare what can be known only once the whole graph of shapes stands."""

    def unlike(self, value: object) -> Inexact:
        """Say why *value* cannot be lowered."""
        return unlike(value, self.label, self.accepts or frozenset())

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        """Give the structure as nested lists of strings and numbers; *inner* describes a child."""
        return [self.label]


def reachable(shape: Shape) -> Iterator[Shape]:
    """Walk *shape* and all that it is made of, each once, parents first."""
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting.extend(reversed(one.children))


def description(shape: Shape) -> Any:
    """
    Give the whole structure of *shape* as nested lists.

    A class or an alias is described where it is met first (in order of description), and by its number after.
    """
    numbers: dict[int, int] = {}

    def inner(one: Shape) -> Any:
        if one.owner is None and not isinstance(one, AliasShape):
            return one.describe(inner)
        number = numbers.get(id(one))
        if number is not None:
            return ["again", number]
        numbers[id(one)] = len(numbers)
        return one.describe(inner)

    return inner(shape)


class AnyShape(Shape):
    """Whatever JSON itself can hold exactly: for ``Any``, ``object`` and results without an annotation."""

    natural = True

    def __init__(self) -> None:
        super().__init__("Any", None, ALL_KINDS)

    def lower(self, value: Any, depth: int) -> Any:
        prove_json(value, depth)
        return value

    def lift(self, data: Any, depth: int) -> Any:
        return data


_FLAT = frozenset({NoneType, bool, int, str})
_FLOAT = frozenset({float})
_FEW = 16


def prove_json(value: Any, depth: int) -> None:
    """
    Prove that *value* is made only of what JSON can hold exactly.

    Raises:
        Inexact: If it is not.
    """
    kind = type(value)
    if kind in _FLAT:
        return
    items: Collection[Any]
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise _odd_key(key)
        items = value.values()
    elif kind is list:
        items = value
    elif kind is float and isfinite(value):
        return
    else:
        raise not_finite(value) if kind is float else undeclared(value)
    if depth > MAX_DEPTH:
        raise TooDeep
    if len(items) > _FEW and _all_flat(items):
        return
    item = None
    try:
        for item in items:
            if type(item) not in _FLAT:
                prove_json(item, depth + 1)
    except Inexact as error:
        places = value.items() if kind is dict else enumerate(value)
        error.under(f"[{short_repr(next(place for place, one in places if one is item))}]")
        raise


def _all_flat(items: Collection[Any]) -> bool:
    """Whether all *items* are flat, or finite floats; seen at the speed of C, which pays off for many."""
    if _FLAT.issuperset(map(type, items)):
        return True
    return _FLOAT.issuperset(map(type, items)) and all(map(isfinite, items))


def _odd_key(key: object) -> Inexact:
    kind = "an enum member that" if isinstance(key, str) else f"of type {type(key).__name__}, which"
    return Inexact(
        f"has the key {short_repr(key)}, {kind} JSON would turn into a string",
        "Annotate the step's result, e.g. -> dict[int, str], or use keys that are strings.",
    )


class FlatShape(Shape):
    """``None``, ``bool``, ``int`` or ``str``: the exact type is the whole proof."""

    natural = True

    def __init__(self, cls: type) -> None:
        super().__init__(
            "None" if cls is NoneType else cls.__name__, frozenset({cls}), frozenset({KIND_OF[cls]})
        )
        self.cls = cls
        self.flat = frozenset({cls})

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is self.cls:
            return value
        raise self.unlike(value)

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is self.cls:
            return data
        raise expected(self.label, data)


class FloatShape(Shape):
    """``float``: finite ones only."""

    natural = True

    def __init__(self) -> None:
        super().__init__("float", frozenset({float}), frozenset({"float"}))

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not float:
            raise self.unlike(value)
        if not isfinite(value):
            raise not_finite(value)
        return value

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is float:
            return data
        raise expected("float", data)


class AliasShape(Shape):
    """A type that mentions itself by a name, met while it is being read."""

    def __init__(self, label: str) -> None:
        super().__init__(label, None, ALL_KINDS)
        self.target: Shape | None = None
        self.used = False

    natural = True  # as its target is, which is its child

    def resolve(self) -> Shape:
        """Give the type that the name stands for, past names of names."""
        shape: Shape = self
        for _ in range(100):
            if not isinstance(shape, AliasShape):
                return shape
            assert shape.target is not None
            shape = shape.target
        raise RecursionError

    def lower(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise TooDeep
        return self.target.lower(value, depth + 1)  # type: ignore[union-attr] # set before anything is lowered

    def lift(self, data: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Undecodable(f"expected at most {MAX_DEPTH} levels of nesting, found more")
        return self.target.lift(data, depth + 1)  # type: ignore[union-attr] # set before anything is lifted

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["alias", inner(self.resolve())]
