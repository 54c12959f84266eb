"""
The shapes of enums and of ``Literal``: a fixed choice of values.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from june._text import near, short_repr
from june.codec._problems import Inexact, Undecodable, expected
from june.codec._shapes import KIND_OF, Shape

_STR = frozenset({"str"})

_SHOWN = 20
"""How many members a message lists."""


class EnumShape(Shape):
    """An enum, by the names of its members; a combination of flags is the list of their names."""

    def __init__(self, cls: type[enum.Enum]) -> None:
        self.flags = issubclass(cls, enum.Flag)
        super().__init__(cls.__name__, frozenset({cls}), _STR | {"list"} if self.flags else _STR)
        self.owner = self.cls = cls
        self.members = {member._name_: member for member in cls.__members__.values() if member._name_}

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not self.cls:
            raise self.unlike(value)
        name = value._name_
        if self.members.get(name) is value:
            return name
        if self.flags:
            names = [one._name_ for one in iter(value)]
            if self._combined(names) is value:
                return names
        raise Inexact(
            f"is {short_repr(value)}, which is no member of {self.label}",
            "Return a member of the enum, or a combination of its flags.",
        )

    def _combined(self, names: list[Any]) -> Any:
        value: Any = self.cls(0)
        for name in names:
            value |= self.members[name]
        return value

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is str:
            member = self.members.get(data)
            if member is not None:
                return member
            meant = near(data, self.members)
            known = [str(name) for name in self.members][:_SHOWN]
            hint = f" (did you mean {meant[0]}?)" if meant else f" (there are: {', '.join(known)})"
            raise Undecodable(f'expected a member of {self.label}, found "{short_repr(data)[1:-1]}"{hint}')
        if self.flags and type(data) is list:
            if all(type(name) is str and name in self.members for name in data):
                value = self._combined(data)
                if len(data) != 1 and [one._name_ for one in iter(value)] == data:
                    return value
            raise expected(f"names of members of {self.label} in their order", data)
        raise expected(f"a member of {self.label}", data)

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return [
            "enum",
            self.cls.__qualname__,
            [[name, _value_text(one)] for name, one in self.members.items()],
        ]


def _value_text(member: enum.Enum) -> str:
    """Write a member's value where its text is the same in every process."""
    value = member._value_
    return ascii(value) if type(value) in (int, str, bool, float, bytes, type(None)) else type(value).__name__


class MemberShape(EnumShape):
    """Those members of one enum that a ``Literal`` names."""

    def __init__(self, cls: Any, names: frozenset[str]) -> None:
        super().__init__(cls)
        self.members = {name: member for name, member in self.members.items() if name in names}
        self.flags = False
        self.kinds = frozenset({"str"})
        self.label = f"Literal[{', '.join(f'{cls.__name__}.{name}' for name in sorted(names))}]"

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["members", *super().describe(inner)]


class LiteralShape(Shape):
    """``Literal[...]`` of strings, numbers, booleans and None: the values themselves."""

    natural = True

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = {(type(value), value) for value in values}
        # ascii(), as repr() knows more characters in each new Python.
        ordered = sorted(self.values, key=lambda pair: (pair[0].__name__, ascii(pair[1])))
        super().__init__(
            f"Literal[{', '.join(ascii(value) for _, value in ordered)}]",
            frozenset(kind for kind, _ in ordered),
            frozenset(KIND_OF[kind] for kind, _ in ordered),
        )

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in self.accepts and (kind, value) in self.values:  # type: ignore[operator] # never None here
            return value
        if kind in self.accepts:  # type: ignore[operator] # never None here
            raise Inexact(
                f"is {value!r}, which is not in {self.label}",
                "Return what the step's annotation says, or correct the annotation.",
            )
        raise self.unlike(value)

    def lift(self, data: Any, depth: int) -> Any:
        kind = type(data)
        if kind in self.accepts and (kind, data) in self.values:  # type: ignore[operator] # never None here
            return data
        raise expected(self.label, data)
