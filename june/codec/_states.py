"""
What an object holds, read past all that its class may say: the raw slots and instance dict.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import Any

# Kept by typing, attrs and weakref in an object for their own use; no part of its value.
BOOKKEEPING = frozenset({"__orig_class__", "_attrs_cached_hash", "__weakref__", "__dict__"})
_HEAP_TYPE = 1 << 9
_STATELESS = (object, typing.Generic)  # made in C, the latter from 3.12 on, and hold nothing


def slots_of(cls: type) -> dict[str, Any]:
    """Give the descriptors of all slots of *cls* and its bases, by the name under which each is kept."""
    found: dict[str, Any] = {}
    computed: set[str] = set()
    for base in reversed(cls.__mro__):
        # attrs keeps the cached properties of a class with slots in further slots.
        getter = getattr(base.__dict__.get("__getattr__"), "__globals__", {})
        computed.update(getter.get("cached_properties", ()) if "__attrs_attrs__" in base.__dict__ else ())
        for name, attribute in base.__dict__.items():
            if type(attribute) is types.MemberDescriptorType:
                found[name] = attribute
    return {name: slot for name, slot in found.items() if name not in BOOKKEEPING and name not in computed}


def has_dict(cls: type) -> bool:
    """Whether instances of *cls* have a dict of their own."""
    return cls.__dictoffset__ != 0


def is_transient(cls: type, name: str) -> bool:
    """Whether *name* in an instance dict is no part of the value: a cached property computes it again."""
    if name in BOOKKEEPING:
        return True
    for base in cls.__mro__:
        if name in base.__dict__:
            return isinstance(base.__dict__[name], functools.cached_property)
    return False


def state_reader(cls: type) -> Callable[[Any], dict[str, Any]]:
    """Make a function that gives all that an instance of *cls* holds, by name."""
    slots = slots_of(cls)
    with_dict = has_dict(cls)

    def read(value: Any) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for name, slot in slots.items():
            try:
                state[name] = slot.__get__(value, cls)
            except AttributeError:
                pass
        if with_dict:
            for name, item in object.__getattribute__(value, "__dict__").items():
                if not is_transient(cls, name):
                    state[name] = item
        return state

    return read


def is_plain_object(cls: type) -> bool:
    """
    Whether instances of *cls* hold nothing but slots and a dict, and so no list, exception or C structure.

    A class made in C may look like one made in Python; its instances are larger than their slots.
    """
    if not all(base in _STATELESS or _is_made_in_python(base) for base in cls.__mro__):
        return False
    count = sum(
        type(one) is types.MemberDescriptorType for base in cls.__mro__ for one in base.__dict__.values()
    )
    return cls.__basicsize__ <= object.__basicsize__ + 8 * (count + 2)  # two: the dict, the weak references


def _is_made_in_python(cls: type) -> bool:
    if not cls.__flags__ & _HEAP_TYPE:
        return False
    own = cls.__dict__
    if "__slots__" in own or "__dict__" in own or "__weakref__" in own:
        return True
    return cls.__base__ is not None and has_dict(cls.__base__)
