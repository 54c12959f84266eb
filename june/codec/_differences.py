"""
Comparing two values all the way down by what they are made of, and finding a part of a value.

Nothing here trusts ``__eq__``, ``__getattr__`` or a property of a user's class.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import pathlib
import struct
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from june.codec._problems import MAX_DEPTH
from june.codec._states import is_plain_object, state_reader

_EXACT_BY_EQUALITY = frozenset({bool, int, str, bytes, bytearray, type(None), datetime.timedelta})
_LISTS = (list, tuple, collections.deque)
_DICTS = (dict, collections.Counter, collections.OrderedDict, collections.defaultdict)
_SAME_OBJECT = (
    type,
    types.FunctionType,
    types.ModuleType,
    enum.Enum,
)

Recode = Callable[[type], Callable[[Any], Any] | None]


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Give the parts of *value*, each with the step that leads to it; dict keys before their items."""
    kind = type(value)
    if kind in _LISTS or issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        for index, item in enumerate(tuple.__iter__(value) if issubclass(kind, tuple) else value):
            yield (f".{names[index]}" if names and index < len(names) else f"[{index}]"), item
    elif kind in _DICTS:
        for key, item in value.items():
            yield f"[key {key!r}]" if type(key) in (str, int) else "[key]", key
            yield f"[{key!r}]" if type(key) in (str, int) else "[...]", item
    elif kind in (set, frozenset):
        for item in value:
            yield "{}", item
    elif is_plain_object(kind) and kind is not object:
        for name, item in state_reader(kind)(value).items():
            yield f".{name}", item


def find(value: Any, wanted: Callable[[Any], bool], depth: int = 0) -> list[str] | None:
    """Give the path to the first part of *value* that is *wanted*, the last step first."""
    if wanted(value):
        return []
    if depth > MAX_DEPTH:
        return None
    for step, item in parts(value):
        path = find(item, wanted, depth + 1)
        if path is not None:
            path.append(step)
            return path
    return None


def difference(one: Any, other: Any, recode: Recode, depth: int = 0) -> list[str] | None:
    """
    Give the path to the first part in which two values differ, the last step first.

    Args:
        one: A value.

        other: A value that should be the same.

        recode: Gives for a type that users taught june the function that encodes it.

        depth: How deep in the whole these two are.
    """
    kind = type(one)
    if type(other) is not kind or depth > MAX_DEPTH:
        return []
    encode = recode(kind)
    if encode is not None:
        return difference(encode(one), encode(other), recode, depth + 1)
    if one is other:
        return None
    if kind in (set, frozenset):
        return _sets_differ(one, other)
    leaf = _leaf(one)
    if leaf is not None:
        return None if leaf == _leaf(other) else []
    if kind in (collections.deque, collections.defaultdict):
        name = "maxlen" if kind is collections.deque else "default_factory"
        if getattr(one, name) != getattr(other, name):
            return [f".{name}"]
    elif not (kind in _LISTS or kind in _DICTS or issubclass(kind, tuple) or _is_object(kind)):
        return []  # nothing to look into, so nothing to show that the two are the same
    return _parts_differ(one, other, recode, depth)


def _parts_differ(one: Any, other: Any, recode: Recode, depth: int) -> list[str] | None:
    ours, theirs = list(parts(one)), list(parts(other))
    if _is_object(type(one)):  # the order in which attributes were set is no part of the value
        ours.sort(key=lambda part: part[0])
        theirs.sort(key=lambda part: part[0])
    for (step, mine), (other_step, its) in zip(ours, theirs, strict=False):
        if step != other_step:
            return [step]
        path = difference(mine, its, recode, depth + 1)
        if path is not None:
            path.append(step)
            return path
    longer = ours if len(ours) > len(theirs) else theirs
    return None if len(ours) == len(theirs) else [longer[min(len(ours), len(theirs))][0]]


def _is_object(kind: type) -> bool:
    return is_plain_object(kind) and kind is not object and not issubclass(kind, _SAME_OBJECT)


def _leaf(value: Any) -> Any:
    """Give what a value that has no parts is known by; None for other values."""
    kind = type(value)
    if kind in _EXACT_BY_EQUALITY:
        return (value,)
    if kind is float:
        return struct.pack("<d", value)
    if kind is complex:
        return struct.pack("<dd", value.real, value.imag)
    if kind is decimal.Decimal:
        return value.as_tuple()
    if kind in (datetime.datetime, datetime.time):
        return (value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo))
    if kind is range:
        return (value.start, value.stop, value.step)
    if kind is datetime.date:
        return value.isoformat()
    if kind is datetime.timezone:
        return _zone(value)
    if kind is uuid.UUID:
        return (value.int, value.is_safe)
    if issubclass(kind, pathlib.PurePath):
        return (str(value), value.parts)
    return None


def _zone(tz: datetime.tzinfo | None) -> Any:
    return tz.__reduce__() if type(tz) is datetime.timezone else id(tz)


def _sets_differ(one: Any, other: Any) -> list[str] | None:
    """Compare sets by a token of each item, as their order says nothing."""
    ours, theirs = collections.Counter(map(_token, one)), collections.Counter(map(_token, other))
    return None if ours == theirs else ["{}"]


def _token(value: Any) -> Any:
    leaf = _leaf(value)
    if leaf is not None:
        return (type(value), leaf)
    if issubclass(type(value), enum.Enum):
        return (type(value), value._name_)
    if type(value) in (set, frozenset):
        return (type(value), frozenset(collections.Counter(map(_token, value)).items()))
    inner = tuple((step, _token(item)) for step, item in parts(value))
    opaque = not inner and not (_is_object(type(value)) or issubclass(type(value), (tuple, *_LISTS, *_DICTS)))
    return (type(value), id(value) if opaque else inner)
