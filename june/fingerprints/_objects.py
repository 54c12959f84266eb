"""
Reading objects without asking them: a proxy or a mock may answer, or do, anything it likes.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")
_MISSING = object()


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Say whether *value* is of a type, without asking it: `isinstance` also believes its `__class__`."""
    return issubclass(type(value), kind)


def own_dict(value: object) -> dict[str, Any]:
    """The `__dict__` of an object, past anything its class says about attributes."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


def state_of(value: object) -> Iterator[tuple[str, object]]:
    """What an object holds by name: its slots and its `__dict__`, without what is only cached there."""
    kind = type(value)
    for cls in kind.__mro__:
        for name, member in vars(cls).items():
            if type(member) is types.MemberDescriptorType:
                held = _slot(member, value)
                if held is not _MISSING:
                    yield name, held
    for name, held in own_dict(value).items():
        cached = type_attribute(kind, name)
        if type(cached).__name__ != "cached_property":
            yield str(name), held


def _slot(member: types.MemberDescriptorType, value: object) -> object:
    try:
        return member.__get__(value)
    except AttributeError:
        return _MISSING


def type_attribute(kind: type, name: str) -> Any:
    """Look *name* up on a type, without asking its metaclass or any descriptor; `None` if it is not there."""
    for cls in kind.__mro__:
        found = vars(cls).get(name, _MISSING)
        if found is not _MISSING:
            return found
    return None


def local_qualname(cls: type | types.FunctionType) -> str:
    """The qualified name without the functions around: a factory may be renamed."""
    return cls.__qualname__.rpartition("<locals>.")[2]
