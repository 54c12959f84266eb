"""
The shape of unions, whose members are told apart by what JSON shows, or by a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from june.codec._problems import Inexact, MistakenType, TooDeep, Undecodable, expected
from june.codec._shapes import ALL_KINDS, KIND_OF, AliasShape, Shape, description, reachable

_OBJECT_TAG = "dict"


class UnionShape(Shape):
    """
    A union.

    Members that are JSON themselves need no tag, as JSON shows which one a value is of. The others are
    written without one where no two members share a kind of JSON, and else as an object with one key, the
    tag: ``{"Dog": ...}``. The tag is the member's label, which for a class is its bare name.
    """

    def __init__(self, members: list[Shape]) -> None:
        members = sorted(members, key=lambda one: one.label)
        accepts = [one.accepts for one in members]
        super().__init__(
            " | ".join(one.label for one in members),
            None if None in accepts else frozenset().union(*(one for one in accepts if one)),
            frozenset().union(*(one.kinds for one in members)),
        )
        self.children = tuple(members)
        self.tagged: dict[str, Shape] = {}
        self.wraps = False
        self.natural_members: list[Shape] = []
        self.by_type: dict[type, list[tuple[Shape, str | None]]] = {}
        self.by_kind: dict[str, list[Shape]] = {}
        self.anything: list[tuple[Shape, str | None]] = []

    @property
    def transparent(self) -> bool:
        return not self.tagged

    def finish(self) -> None:
        members = self._distinct()
        natural = [one for one in members if is_natural(one)]
        others = [one for one in members if not is_natural(one)]
        taken: set[str] = set().union(*(one.kinds for one in natural))
        clash = False
        for one in others:
            clash = clash or not taken.isdisjoint(one.kinds)
            taken |= one.kinds
        if clash:
            self.tagged = {one.label: one for one in others}
            if _OBJECT_TAG in self.tagged:
                raise self._alike(_OBJECT_TAG)
        self.wraps = clash and any("object" in one.kinds for one in natural)
        self.natural_members = natural
        for one in members:
            self._enter(one, one.label if one.label in self.tagged and one in others else None)
        self.kinds = taken_kinds(natural, others, clash)
        flats = [one.flat for one in members]
        if None not in flats:
            self.flat = frozenset().union(*(flat for flat in flats if flat))

    def _distinct(self) -> list[Shape]:
        """Give the members with other names; those with one name must be one type written twice."""
        by_label: dict[str, Shape] = {}
        for one in self._resolved():
            known = by_label.setdefault(one.label, one)
            if known is not one and (owners(known) != owners(one) or description(known) != description(one)):
                raise self._alike(one.label)
        return list(by_label.values())

    def _alike(self, label: str) -> MistakenType:
        return MistakenType(
            f"two members of the union {self.label} have the name {label}, so june could not tell which of "
            f"them a saved value is; rename one of them"
        )

    def _resolved(self) -> Iterator[Shape]:
        """Give the members, those of unions behind an alias too, the same ones once."""
        seen: set[int] = set()
        waiting = list(reversed(self.children))
        while waiting:
            one = waiting.pop()
            if isinstance(one, AliasShape):
                one = one.resolve()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, UnionShape):
                waiting.extend(reversed(one.children))
            else:
                yield one

    def _enter(self, one: Shape, tag: str | None) -> None:
        """Note where to look for *one*: by the type of a value, and by the kind of untagged JSON."""
        if one.accepts is None:
            self.anything.append((one, tag))
        for kind in one.accepts or ():
            self.by_type.setdefault(kind, []).append((one, tag))
        if tag is None:
            for name in one.kinds:
                self.by_kind.setdefault(name, []).append(one)

    def lower(self, value: Any, depth: int) -> Any:
        kind = type(value)
        candidates = self.by_type.get(kind, self.anything)
        if not candidates:
            raise self.unlike(value)
        if len(candidates) == 1 and (not self.anything or candidates is self.anything):
            one, tag = candidates[0]
            data = one.lower(value, depth + 1)
        else:
            one, tag, data = self._first(candidates, value, depth)
        if tag is not None:
            return {tag: data}
        return {_OBJECT_TAG: data} if self.wraps and type(data) is dict else data

    def _first(
        self, candidates: list[tuple[Shape, str | None]], value: Any, depth: int
    ) -> tuple[Shape, str | None, Any]:
        problem: Inexact | None = None
        tried = candidates if candidates is self.anything else [*candidates, *self.anything]
        for one, tag in tried:
            try:
                return one, tag, one.lower(value, depth + 1)
            except TooDeep:
                raise
            except Inexact as error:
                if problem is None or len(error._steps) > len(problem._steps):
                    problem = error
        assert problem is not None
        raise problem

    def lift(self, data: Any, depth: int) -> Any:
        if self.tagged and type(data) is dict:
            if len(data) != 1:
                raise expected(f"an object with one key that names a member of {self.label}", data)
            [(tag, data)] = data.items()
            member = self.tagged.get(tag)
            if member is not None:
                return member.lift(data, depth + 1)
            if not (self.wraps and tag == _OBJECT_TAG and type(data) is dict):
                raise expected(f"a member of {self.label}", tag)
        candidates = self.by_kind.get(KIND_OF[type(data)])
        if not candidates:
            raise expected(self.label, data)
        if len(candidates) == 1:
            return candidates[0].lift(data, depth + 1)
        return self._first_lifted(candidates, data, depth)

    def _first_lifted(self, candidates: list[Shape], data: Any, depth: int) -> Any:
        problem: Undecodable | None = None
        for one in candidates:  # all natural, so the first that takes the data gives what any other would
            try:
                return one.lift(data, depth + 1)
            except Undecodable as error:
                if problem is None or len(error._steps) > len(problem._steps):
                    problem = error
        assert problem is not None
        raise problem

    def describe(self, inner: Callable[[Shape], Any]) -> Any:
        return ["union", *map(inner, self.children)]


def owners(shape: Shape) -> list[type]:
    """Give the classes in *shape* that a user may have defined, each once."""
    return list(dict.fromkeys(one.owner for one in reachable(shape) if one.owner is not None))


def taken_kinds(natural: list[Shape], others: list[Shape], clash: bool) -> frozenset[str]:
    """Give the kinds of JSON of a union's values."""
    kinds = frozenset().union(*(one.kinds for one in natural))
    if clash:
        return kinds | {"object"}
    return kinds.union(*(one.kinds for one in others)) & ALL_KINDS


def is_natural(shape: Shape) -> bool:
    """Whether the JSON of *shape* alone fixes value and type."""
    return all(one.natural or isinstance(one, UnionShape) for one in reachable(shape))
