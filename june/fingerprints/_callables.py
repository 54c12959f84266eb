"""
How functions, methods, classes and modules are written as values, and what may stand in for them.
"""

from __future__ import annotations

import types
from typing import Any

from june.fingerprints._bytecode import shape_bytes
from june.fingerprints._objects import is_a
from june.fingerprints._origins import is_user_function, library_name, public_module
from june.fingerprints._values import ATOMS, BASES, TYPES, Encoder

# What the user may note on a function that a library made: its own notes are counters and caches.
_NOTES = frozenset({bool, int, float, str, bytes})


def _function(encoder: Encoder, value: types.FunctionType) -> None:
    if is_user_function(value):
        encoder.content.refer(encoder.walker.function_piece(value))
        if encoder.signatures:
            encoder.walker.refer_signature(value, encoder.content)
        return
    encoder.content.text(b"L", library_name(value))
    wrapped = value.__dict__.get("__wrapped__")
    if wrapped is not None:
        encoder.inside(".__wrapped__", wrapped)
    for name in sorted(value.__dict__):
        held = value.__dict__[name]
        if type(held) in _NOTES and not name.startswith("__"):
            encoder.content.text(b".", name)
            encoder.encode(held)
    registry = value.__dict__.get("registry")
    if type(registry) is types.MappingProxyType:  # functools.singledispatch
        encoder.unordered(b"R", registry.items())
    elif encoder.may_look():
        for cell in value.__closure__ or ():
            _library_cell(encoder, cell)
    encoder.content.atom(b";")


def _library_cell(encoder: Encoder, cell: types.CellType) -> None:
    """Write what a library's closure holds of the user's: arguments of its decorators, functions."""
    try:
        held = cell.cell_contents
    except ValueError:
        return
    tried = encoder.attempt(lambda: encoder.encode(held))
    if not tried.opaque:
        encoder.content.take(tried)
        return
    encoder.content.opaque += tried.opaque
    for piece in dict.fromkeys(tried.children):
        encoder.content.refer(piece)


def _method(encoder: Encoder, value: types.MethodType) -> None:
    encoder.content.atom(b"M")
    encoder.encode(value.__func__)
    owner = value.__self__
    if library_name(type(owner)) == "random:Random":  # `random.choice`: seeded by the system
        encoder.content.text(b"O", "random:Random")
    else:
        encoder.inside(".__self__", owner)


def _builtin(encoder: Encoder, value: types.BuiltinFunctionType) -> None:
    owner = value.__self__
    if owner is None or is_a(owner, types.ModuleType):
        encoder.content.text(b"L", library_name(value))
        return
    encoder.content.text(b"LM", value.__name__)
    if library_name(type(owner)) == "random:Random":
        encoder.content.text(b"O", "random:Random")
    else:
        encoder.inside(".__self__", owner)


def _descriptor(encoder: Encoder, value: Any) -> None:
    """Write a method of a class in C (`str.lower`)."""
    encoder.content.text(b"LD", value.__name__)
    encoder.type_of(value.__objclass__)


def _class(encoder: Encoder, value: type) -> None:
    encoder.content.atom(b"K")
    encoder.type_of(value)
    if encoder.signatures:
        encoder.walker.refer_method_signature(value, "__init__", encoder.content)


def _module(encoder: Encoder, value: types.ModuleType) -> None:
    piece = encoder.walker.module_piece(value)
    if piece is None:
        encoder.content.text(b"LM", public_module(str(vars(value).get("__name__"))))
    else:
        encoder.content.refer(piece)


def _code(encoder: Encoder, value: types.CodeType) -> None:
    encoder.content.atom(b"code", shape_bytes(value))


def _property(encoder: Encoder, value: property) -> None:
    encoder.items(b"P", (value.fget, value.fset, value.fdel))


def _static(encoder: Encoder, value: Any) -> None:
    encoder.content.text(b"W", type(value).__name__)
    encoder.encode(value.__func__)


ATOMS[types.FunctionType] = _function
TYPES.update(
    {
        type: _class,
        property: _property,
        staticmethod: _static,
        classmethod: _static,
        types.CodeType: _code,
        types.MethodType: _method,
        types.BuiltinFunctionType: _builtin,
        types.MethodWrapperType: _builtin,
        types.MethodDescriptorType: _descriptor,
        types.WrapperDescriptorType: _descriptor,
        types.ClassMethodDescriptorType: _descriptor,
        types.GetSetDescriptorType: _descriptor,
        types.MemberDescriptorType: _descriptor,
        types.ModuleType: _module,
    }
)
BASES.update({property: _property, staticmethod: _static, classmethod: _static})
