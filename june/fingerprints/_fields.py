"""
What dataclasses, attrs, pydantic, msgspec, named tuples and enums made of a class's statement.

A default, a converter or a validator may have been computed, so its text does not say what it is; and most
are no attributes of the class. They are read from where each library keeps them, without importing it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from june.fingerprints._objects import own_dict, state_of
from june.fingerprints._origins import library_name
from june.fingerprints._values import Encoder

_DATACLASS_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
_DATACLASS_FIELD = ("init", "repr", "hash", "compare", "kw_only", "default", "default_factory", "metadata")
_ATTRS_FIELD = (
    "init",
    "kw_only",
    "default",
    "validator",
    "converter",
    "metadata",
    "alias",
    "eq",
    "order",
    "hash",
    "eq_key",
    "order_key",
    "repr",
    "on_setattr",
)
_PYDANTIC_FIELD = (
    "default",
    "default_factory",
    "alias",
    "validation_alias",
    "serialization_alias",
    "title",
    "description",
    "exclude",
    "discriminator",
    "json_schema_extra",
    "frozen",
    "validate_default",
    "init",
    "kw_only",
    "metadata",
)
_UNSET = frozenset({"_MISSING_TYPE", "_Nothing", "PydanticUndefinedType"})
# How `enum` keeps a member, which differs between versions.
_MEMBER_INTERNALS = frozenset(
    {"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_", "_hashable_"}
)


def write_fields(cls: type, encoder: Encoder) -> None:
    """
    Write what the class's library made of its fields.

    Args:
        cls: The class.

        encoder: Writes values.
    """
    held = vars(cls)
    options = held.get("__dataclass_params__")
    if options is not None:
        for name in _DATACLASS_OPTIONS:
            encoder.encode(getattr(options, name, None))
    for field in _values_of(held.get("__dataclass_fields__")):
        encoder.content.text(b".", str(field.name))
        _write_parts(field, _DATACLASS_FIELD, encoder)
    for field in held.get("__attrs_attrs__", ()):
        encoder.content.text(b".", field.name)
        _write_parts(field, _ATTRS_FIELD, encoder)
    fields = held.get("__pydantic_fields__", held.get("model_fields"))
    if isinstance(fields, dict) and "__pydantic_core_schema__" in held:
        for name, field in fields.items():
            encoder.content.text(b".", name)
            _write_parts(field, _PYDANTIC_FIELD, encoder)
    if issubclass(cls, tuple):
        encoder.encode(held.get("_field_defaults"))
    if library_name(type(cls)) == "msgspec._core:StructMeta":
        struct: Any = cls
        encoder.encode((struct.__struct_fields__, struct.__struct_encode_fields__))
        encoder.encode((struct.__struct_config__.tag, struct.__struct_config__.tag_field))
        encoder.inside(".__struct_defaults__", struct.__struct_defaults__)


def write_decorators(cls: type, encoder: Encoder) -> None:
    """Write what pydantic noted of the decorators of methods, of a class whose statement was not found."""
    noted = vars(cls).get("__pydantic_decorators__")
    for kind, found in sorted(state_of(noted)):
        for name, decorator in found.items() if isinstance(found, dict) else ():
            encoder.content.text(kind.encode(), str(name))
            encoder.inside(f".{name}", getattr(decorator, "info", None))


def _values_of(fields: object) -> Iterable[Any]:
    return fields.values() if isinstance(fields, dict) else ()


def _write_parts(field: object, names: Iterable[str], encoder: Encoder) -> None:
    """Write the parts of one field that are set."""
    state = dict(state_of(field))
    for name in names:
        value = state.get(name)
        if name not in state or _is_unset(value) or (value is None and name != "default"):
            continue
        encoder.content.text(b"=", name)
        encoder.inside(f".{name}", value)


def _is_unset(value: object) -> bool:
    return type(value).__name__ in _UNSET or (type(value) is MappingProxyType and not value)


def write_members(cls: type[enum.Enum], encoder: Encoder) -> None:
    """Write the members of an enum in their order, with what each holds besides its value."""
    encoder.content.out += b"%d:" % len(cls.__members__)
    for name, member in cls.__members__.items():
        encoder.content.text(b".", name)
        encoder.inside(f".{name}", own_dict(member).get("_value_"))
        encoder.base(member)
        encoder.fields(b"{", _member_state(member))


def _member_state(member: enum.Enum) -> list[tuple[str, object]]:
    return [pair for pair in sorted(state_of(member), key=_name) if pair[0] not in _MEMBER_INTERNALS]


def _name(pair: tuple[str, object]) -> str:
    return pair[0]
