"""
Reading objects without asking them: a proxy or a mock may answer, or do, anything it likes.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")
_MISSING = object()
_HEAP_TYPE = 1 << 9  # set for every class that a `class` statement makes, and for some written in C
_METHODS_IN_C = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)


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


def state_of(value: object, known: type = object) -> Iterator[tuple[str, object]]:
    """
    What an object holds by name: its slots and its `__dict__`, without what is only cached there.

    Slots of the class *known*, and of those above it, are left out.
    """
    kind = type(value)
    for cls in kind.__mro__:
        if issubclass(known, cls):
            continue
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


def is_made_in_c(cls: type) -> bool:
    """Say whether a class was written in C, and may so keep state that nothing shows."""
    if not cls.__flags__ & _HEAP_TYPE:
        return True
    for value in vars(cls).values():
        kind = type(value)
        if kind in _METHODS_IN_C and value.__objclass__ is cls:
            return True
        if kind is types.BuiltinFunctionType and value.__self__ is cls:  # its `__new__`
            return True
    return False


_hiding: dict[tuple[int, int], tuple[weakref.ref[type], bool]] = {}


def hides_state(kind: type, known: type) -> bool:
    """Say whether a class written in C, other than *known* and those above it, adds to what *kind* holds."""
    key = (id(kind), id(known))
    found = _hiding.get(key)
    if found is None or found[0]() is not kind:
        hides = any(
            not issubclass(known, cls)
            and not issubclass(cls, BaseException)
            and cls.__base__ is not tuple  # `time.struct_time` and the like
            and is_made_in_c(cls)
            and (cls.__basicsize__, cls.__itemsize__)
            != (cls.__base__.__basicsize__, cls.__base__.__itemsize__)  # type: ignore[union-attr] # only `object` has none
            for cls in kind.__mro__
        )
        found = _hiding[key] = (weakref.ref(kind, lambda reference: _hiding.pop(key, None)), hides)
    return found[1]
