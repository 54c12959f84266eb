"""
What a step's function says of itself: its parameters, its hints, and its place in the source.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from june._text import short_path

MISSING: Any = inspect.Parameter.empty
"""Stands where there is no default or no annotation; the same object as `inspect.Parameter.empty`."""


@attrs.frozen
class Parameter:
    """
    One parameter of a step's function.

    Attributes:
        name: Its name.
        default: Its default, or `MISSING`.
        annotation: Its annotation as written (a string under postponed evaluation), or `MISSING`.
        positional: Whether it can only be passed by position.
        tag: Its name, length first, as it stands in cache keys.
    """

    name: str
    default: Any
    annotation: Any
    positional: bool
    tag: bytes
    wants_dict: bool


@attrs.frozen
class Place:
    """Where a function stands: a file (or a notebook cell), and a line, counted from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{short_path(self.path)}:{self.line}"


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Look through partials and ``__wrapped__`` for the function that was written with ``def``."""
    seen = {id(function)}
    inner: Any = function
    while True:
        if isinstance(inner, partial):
            inner = inner.func
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        elif inspect.ismethod(inner):
            inner = inner.__func__
        elif not inspect.isroutine(inner) and not isinstance(inner, type) and callable(inner):
            inner = type(inner).__call__
        else:
            return typing.cast("Callable[..., Any]", inner)
        if id(inner) in seen:
            return typing.cast("Callable[..., Any]", inner)
        seen.add(id(inner))


def place_of(function: Callable[..., Any]) -> Place:
    """Say where *function* stands."""
    code = getattr(innermost(function), "__code__", None)
    return Place(code.co_filename, code.co_firstlineno) if code is not None else Place("<builtin>", 0)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Tell whether calling *function* gives a coroutine, also for partials and callable instances."""
    if inspect.iscoroutinefunction(function):
        return True
    return not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)


def is_generator_function(function: Callable[..., Any]) -> bool:
    """Tell whether calling *function* gives a generator, synchronous or not."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """
    Read the parameters of *function*, in order.

    Raises:
        TypeError: If there is a ``*args`` or ``**kwargs``, whose values no name could say, or if the
            function has no signature.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise TypeError(f"{function!r} has no signature that could say what it needs") from None
    found = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(
                f"it takes {str(parameter)!r}, but a step's dependencies are its parameters by name; "
                "name each one, or take one list with needs={...}"
            )
        name = parameter.name.encode()
        found.append(
            Parameter(
                parameter.name,
                parameter.default,
                parameter.annotation,
                parameter.kind is parameter.POSITIONAL_ONLY,
                len(name).to_bytes(2, "big") + name,
                _is_mapping(parameter.annotation),
            )
        )
    return tuple(found)


def named_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """
    Name the parameters of a ``when``, ``vary`` or ``label`` function.

    Raises:
        TypeError: As `parameters_of`.
    """
    return tuple(parameter.name for parameter in parameters_of(function))


def return_annotation(function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """
    Resolve the return annotation of *function*.

    Args:
        function: A step's function, perhaps wrapped.
        names: Names of the scope in which it was decorated, asked where its globals do not help.

    Returns:
        The type, or `MISSING` where there is none.

    Raises:
        NameError: If a name in it is not found.
        Exception: Whatever evaluating it raises.
    """
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    if not inspect.isroutine(inner) and not isinstance(inner, type):
        inner = type(inner).__call__
    annotations = getattr(inner, "__annotations__", {})
    if "return" not in annotations:
        return MISSING
    written = annotations["return"]
    if not isinstance(written, str):
        return written
    written_in = innermost(inner)
    own: dict[str, Any] = dict(names)
    own.update(inspect.getclosurevars(written_in).nonlocals if inspect.isfunction(written_in) else {})
    holder: Any = type("holder", (), {"__annotations__": {"return": written}})
    hints = typing.get_type_hints(holder, getattr(written_in, "__globals__", {}), own, include_extras=True)
    return hints["return"]


def _is_mapping(annotation: Any) -> bool:
    """Tell whether *annotation* is a dict or another mapping."""
    if isinstance(annotation, str):
        head = annotation.split("[")[0].rpartition(".")[2].strip()
        return head in {"dict", "Dict", "Mapping", "MutableMapping"}
    origin = typing.get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, Mapping)
