"""
What a user's class is: its statement, its bases, and what it holds at run time.

The statement gives what cannot be read from the class afterwards (decorators, annotations, the order of
fields); everything that the class holds counts by its value, so an attribute set later counts too.
"""

from __future__ import annotations

import enum
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from june._text import short_path
from june.fingerprints._class_trees import class_tree, joined
from june.fingerprints._fields import write_decorators, write_fields, write_members
from june.fingerprints._objects import is_a, local_qualname, type_attribute
from june.fingerprints._origins import is_perhaps_written, is_user_class, is_user_function, is_written
from june.fingerprints._pieces import Content
from june.fingerprints._scopes import Scope
from june.fingerprints._sources import LOCK, class_nodes
from june.fingerprints._uses import Tree
from june.fingerprints._values import Encoder

_SKIPPED = frozenset(
    [
        "__module__",
        "__qualname__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__firstlineno__",
        "__static_attributes__",
        "__type_params__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__conditional_annotations__",
        "_abc_impl",
    ]
)
# Skipped unless the statement itself binds them: attrs and dataclasses make them of the fields.
_MADE = frozenset({"__match_args__", "__slots__"})
_MADE_PREFIXES = ("__attrs_", "__dataclass_", "__pydantic_", "__struct_", "__abstract", "__callable_proto")
_DATA = (bool, int, float, str, bytes)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class ClassForm(NamedTuple):
    """
    What of a class never changes.

    Attributes:
        tree: Its statement without what it holds; `None` if that was not found.

        bound: The names that the statement binds.

        path: The file or cell, `""` if unknown.

        why: Why there is no tree.
    """

    tree: Tree | None
    bound: frozenset[str]
    path: str
    why: str


_forms: dict[int, tuple[weakref.ref[type], ClassForm]] = {}


def class_form(cls: type) -> ClassForm:
    """Give the form of *cls*, found at the first call."""
    key = id(cls)
    known = _forms.get(key)
    if known is not None and known[0]() is cls:
        return known[1]
    with LOCK:
        nodes, path, why = class_nodes(cls)
    form = ClassForm(None, frozenset(), path, why)
    if nodes:
        scope = Scope("class", None)
        for node in nodes:
            scope.collect(node.body)
        trees = [class_tree(node, lambda name: _holds(cls, name)) for node in nodes]
        form = ClassForm(joined(trees), frozenset(scope.bound), path, "")

    def forget(reference: object) -> None:
        _forms.pop(key, None)

    _forms[key] = (weakref.ref(cls, forget), form)
    return form


def _holds(cls: type, name: str) -> bool:
    """Say whether the value of *name* can be read from the class."""
    if name not in vars(cls):
        return name in getattr(cls, "_field_defaults", ())
    return (
        not issubclass(type(vars(cls)[name]), _DESCRIPTORS)
        and type(vars(cls)[name]).__name__ != "_tuplegetter"
    )


def class_label(cls: type) -> str:
    """What people call the class: `class Report in model.py`."""
    path = class_form(cls).path
    return f"class {local_qualname(cls)}{f' in {short_path(path)}' if path else ''}"


def write_class(
    cls: type, content: Content, encoder: Encoder, write_function: Callable[[types.FunctionType], None]
) -> None:
    """
    Write a user's class, but for the names that its statement uses.

    Args:
        cls: The class.

        content: Where to write.

        encoder: Writes values into *content*.

        write_function: Writes a function of the class's own into *content*.
    """
    form = class_form(cls)
    content.text(b"K", local_qualname(cls))
    if form.tree is not None:
        content.atom(b"k", form.tree.digest)
        content.docs += form.tree.docs
    else:
        _write_unseen(cls, encoder)
    doc = vars(cls).get("__doc__")  # it may have been assigned; those of dataclasses and enums are made
    if type(doc) is str and not ("__dataclass_fields__" in vars(cls) or issubclass(cls, enum.Enum)):
        content.docs += " ".join(doc.split()).encode("utf-8", "surrogatepass")
    write_fields(cls, encoder)
    content.out += b"%d:" % len(cls.__bases__)
    for base in cls.__bases__:
        encoder.type_of(base)
    if type(cls) is not type:
        encoder.type_of(type(cls))
    if issubclass(cls, enum.Enum):
        write_members(cls, encoder)
    for name in sorted(vars(cls)):
        value = vars(cls)[name]
        if _counts(cls, name, value, form):
            content.text(b".", name)
            _write_attribute(cls, name, value, encoder, write_function)


def _write_unseen(cls: type, encoder: Encoder) -> None:
    """Write what a class without a statement (`make_dataclass`, `namedtuple`, `type()`) is made of."""
    held = vars(cls)
    encoder.encode(held.get("__annotations__"))
    encoder.encode(held.get("_fields") if issubclass(cls, tuple) else None)
    write_decorators(cls, encoder)


def _counts(cls: type, name: str, value: object, form: ClassForm) -> bool:
    """Say whether an attribute of the class was put there by the user."""
    if name in _SKIPPED or issubclass(type(value), _DESCRIPTORS):
        return False
    if name in form.bound:
        return not (issubclass(cls, enum.Enum) and name in cls.__members__) and _holds(cls, name)
    if issubclass(cls, enum.Enum) and (name.startswith("_") or name in cls.__members__):
        return False
    function: Any = value
    if issubclass(type(value), (staticmethod, classmethod)):
        function = function.__func__
    if form.tree is None and is_a(function, types.FunctionType):
        # Without the statement nothing says who wrote it; too much is better than too little.
        return is_perhaps_written(function, name)
    if issubclass(cls, tuple) and type_attribute(cls, "_fields") is not None:
        return False
    if name.startswith("_is_") and name.endswith("protocol"):
        return False
    if name.startswith("__") and name.endswith("__"):
        # Made by a decorator or a metaclass of a library, unless plain data or a function of the user's.
        if is_a(value, types.FunctionType):
            return is_written(value)
        return name not in _MADE and not name.startswith(_MADE_PREFIXES) and _is_data(value)
    return not is_a(value, types.FunctionType) or is_written(value)


def _is_data(value: object) -> bool:
    if type(value) in (tuple, list):
        return bool(value) and all(map(_is_data, value))  # type: ignore[call-overload] # it is one of these
    if type(value) is dict:
        return bool(value) and all(map(_is_data, value)) and all(map(_is_data, value.values()))
    return type(value) in _DATA


def _write_attribute(
    cls: type,
    name: str,
    value: Any,
    encoder: Encoder,
    write_function: Callable[[types.FunctionType], None],
) -> None:
    """Write one attribute: methods of the class's own as part of it, anything else as a value."""
    if issubclass(type(value), (staticmethod, classmethod)):
        encoder.content.text(b"W", type(value).__name__)
        value = value.__func__
    if is_a(value, property) and type(value) is property:
        encoder.content.atom(b"P")
        for part in (value.fget, value.fset, value.fdel):
            _write_attribute(cls, name, part, encoder, write_function)
        return
    if type(value).__name__ == "cached_property" and not is_user_class(type(value)):
        encoder.content.atom(b"CP")
        value = value.func
    is_own = is_a(value, types.FunctionType) and is_user_function(value)
    if is_own and local_qualname(value).startswith(local_qualname(cls) + "."):
        write_function(value)
    else:
        encoder.inside(f".{name}", value)
