"""
The fields of a class, and the annotations they have, wherever these were written.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from june.codec._problems import MistakenType


def is_typeddict(cls: object) -> bool:
    """Whether *cls* is a TypedDict, of ``typing`` or of ``typing_extensions``."""
    return isinstance(cls, type) and type(cls).__name__ == "_TypedDictMeta"


def is_namedtuple(cls: type) -> bool:
    """Whether *cls* is a named tuple."""
    return issubclass(cls, tuple) and type(getattr(cls, "_fields", None)) is tuple


def is_model(cls: type) -> bool:
    """Whether *cls* is a pydantic model; pydantic is not imported to find out."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return isinstance(base, type) and issubclass(cls, base) and cls is not base


def has_fields(cls: type) -> bool:
    """Whether *cls* is of a family whose fields june knows."""
    if is_typeddict(cls) or is_namedtuple(cls) or is_model(cls):
        return True
    return attrs.has(cls) or hasattr(cls, "__dataclass_fields__")


def names_of_object(cls: type) -> tuple[str, ...]:
    """Give the names of the fields of an attrs class or a dataclass, in their order."""
    if attrs.has(cls):
        return tuple(field.name for field in attrs.fields(cls))
    return tuple(field.name for field in dataclasses.fields(cls))


def constructor_of(cls: type) -> dict[str, str] | None:
    """
    Say how the constructor of an attrs class or a dataclass takes its fields.

    Returns:
        The field for each argument; None where the constructor does nothing but set the fields, or where it
        could not be called with them (written by hand, or with an ``InitVar`` that has no default).
    """
    if attrs.has(cls):
        hooked = hasattr(cls, "__attrs_post_init__") or hasattr(cls, "__attrs_pre_init__")
        if not hooked or hasattr(cls, "__attrs_init__"):
            return None
        return {field.alias: field.name for field in attrs.fields(cls) if field.init}
    if not hasattr(cls, "__post_init__"):
        return None
    decorated = next(base for base in cls.__mro__ if "__dataclass_fields__" in base.__dict__)
    initial = next(base for base in cls.__mro__ if "__init__" in base.__dict__)
    if initial is not decorated or not decorated.__dataclass_params__.init:  # type: ignore[attr-defined] # a dataclass
        return None
    for field in decorated.__dataclass_fields__.values():  # type: ignore[attr-defined] # a dataclass
        is_initvar = field._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined] # private
        if is_initvar and field.default is field.default_factory is dataclasses.MISSING:
            return None
    return {field.name: field.name for field in dataclasses.fields(cls) if field.init}


def required_keys(cls: Any, hints: Mapping[str, Any]) -> frozenset[str]:
    """
    Give the keys that a TypedDict's values must have.

    ``__required_keys__`` knows ``total=`` but overlooks ``NotRequired`` in annotations that are strings.
    """
    required = set(cls.__required_keys__)
    for name, hint in hints.items():
        wrappers = set(wrappers_of(hint))
        if "NotRequired" in wrappers:
            required.discard(name)
        elif "Required" in wrappers:
            required.add(name)
    return frozenset(required)


def wrappers_of(hint: Any) -> Iterator[str]:
    """Name the wrappers (``Required``, ``ReadOnly`` and so on) around an annotation, the outermost first."""
    while (origin := typing.get_origin(hint)) is not None:
        if origin is typing.Annotated or isinstance(hint, typing._AnnotatedAlias):  # type: ignore[attr-defined] # private
            hint = hint.__origin__
        elif getattr(origin, "_name", "") in ("Required", "NotRequired", "ReadOnly", "Final"):
            yield origin._name
            [hint] = typing.get_args(hint)
        else:
            return


class Names(dict[str, Any]):
    """Names for an annotation that is a string: those of its own module first."""

    def __init__(self, cls: type | None, localns: Mapping[str, Any]) -> None:
        super().__init__(localns)
        if cls is not None:
            self[cls.__name__] = cls
            self.update(getattr(sys.modules.get(cls.__module__), "__dict__", {}))
            if "<locals>" in cls.__qualname__:
                self.update(localns)
                self[cls.__name__] = cls
            for parameter in getattr(cls, "__type_params__", ()):
                self[parameter.__name__] = parameter


def own_hints(cls: type, base: type, names: Mapping[str, Any], localns: Mapping[str, Any]) -> dict[str, Any]:
    """
    Resolve those annotations of *base*, a base of *cls* or itself, that are for fields *names*.

    Raises:
        UnsupportedType: If one cannot be read, or names something that cannot be found.
    """
    try:
        own = {name: hint for name, hint in inspect.get_annotations(base).items() if name in names}
        if not own:
            return {}
        # The strings of a TypedDict that its bases left there know their own modules.
        is_global_dict = is_typeddict(base) and "<locals>" not in base.__qualname__
        known = Names(None, {}) if is_global_dict else Names(base, localns)
        if cls is not base:
            known.setdefault(cls.__name__, cls)
        holder = type("Holder", (), {"__annotations__": own, "__module__": base.__module__})
        return typing.get_type_hints(holder, None, known, include_extras=True)
    except NameError as error:
        raise MistakenType(
            f"{error}, as the annotations of {base.__name__} ask; define it at the top of a module, or where "
            f"the step is defined"
        ) from None
    except Exception as error:
        raise MistakenType(f"the annotations of {base.__name__} cannot be read: {error!r}") from error


def parameters_by_base(cls: Any) -> Iterator[tuple[type, Any]]:
    """
    Give every generic alias among the bases of *cls*, such as ``Box[int]`` of ``class IntBox(Box[int])``.

    Yields:
        The class with such a base, and the alias.
    """
    for one in cls.__mro__:
        for alias in one.__dict__.get("__orig_bases__", ()):
            if isinstance(typing.get_origin(alias), type):
                yield one, alias
