"""
What a tool's function takes and gives, as a model sees it.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any, NotRequired, TypedDict

import attrs

from june._docstrings import read
from june._signatures import MISSING, innermost, is_generator_function
from june.codec import Codec, MistakenType, UnsupportedType, codec_for, schema_for


@attrs.frozen(eq=False, kw_only=True)
class Interface:
    """
    What a tool's hints make of its parameters and its result.

    Attributes:
        codecs: The codec of each parameter.
        required: The names of those that have no default.
        schema: The JSON schema of them all, as one object.
        result: The codec of the result, or None where its annotation says nothing that helps.
    """

    codecs: Mapping[str, Codec]
    required: frozenset[str]
    schema: dict[str, Any]
    result: Codec | None

    @property
    def every_codec(self) -> tuple[Codec, ...]:
        """Those of the parameters, and of the result."""
        return (*self.codecs.values(), *([] if self.result is None else [self.result]))


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """
    Give the parameters that are a model's to fill: a partial has filled its own.

    Raises:
        TypeError: If the function is none whose parameters a model can fill by name.
    """
    if is_generator_function(innermost(function)):
        raise TypeError("it is a generator function, and a model takes one result; return a list")
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise TypeError("it has no signature that could say what it takes; wrap it in a def") from None
    filled = function.keywords if isinstance(function, partial) else {}
    for one in signature.parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            raise TypeError(
                f"it takes '*{one.name}', but a model gives arguments by name; take a list instead"
            )
        if one.kind is one.VAR_KEYWORD:
            raise TypeError(
                f"it takes '**{one.name}', but a model has to know the names; take a dict instead"
            )
        if one.kind is one.POSITIONAL_ONLY:
            raise TypeError(f"it takes {one.name!r} only by position, and a model gives names; drop the '/'")
    return [one for one in signature.parameters.values() if one.name not in filled]


def docstring_of(function: Any) -> str:
    """Give the docstring of a function; of a callable object, what says most about calling it."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    own, kind = getattr(function, "__doc__", None), type(function)
    if own is kind.__doc__ and inspect.isfunction(kind.__call__):
        own = kind.__call__.__doc__ or own
    return inspect.cleandoc(own or "")


def type_names_in(frame: FrameType) -> dict[str, Any]:
    """Give what of the names in a function, or in a class and around it, a hint may mean."""
    locals, outer = frame.f_locals, frame.f_back
    in_class = "__qualname__" in locals and not frame.f_code.co_flags & inspect.CO_OPTIMIZED
    names = {}
    if in_class and outer is not None and outer.f_locals is not outer.f_globals:
        names = type_names_in(outer)
    for name, value in locals.items():
        if isinstance(value, (type, types.ModuleType)) or type(value).__module__ in ("typing", "types"):
            names[name] = value
    return names


def interface_of(function: Callable[..., Any], names: Mapping[str, Any]) -> Interface:
    """
    Read the hints of a function.

    Args:
        function: The function.
        names: What names mean where it stands, beside the global ones.

    Raises:
        TypeError: If a hint cannot be read, or says a type that June cannot read from JSON.
    """
    parameters = parameters_of(function)
    if parameters and _is_unbound(function, parameters[0]):
        cls, name = function.__qualname__.rsplit(".", 1)
        raise TypeError(f"it is a method without its object; give {cls}(...).{name}, not {cls}.{name}")
    known = _names_known_to(function, names)
    texts = read(docstring_of(function)).parameters
    codecs, fields = {}, {}
    for one in parameters:
        hint = Any if one.annotation is MISSING else _hint_of(function, one, known)
        codecs[one.name] = _codec_of(one.name, hint, known)
        # A text of the hint's own comes first, and the first is taken.
        told = typing.Annotated[hint, texts[one.name]] if one.name in texts else hint
        fields[one.name] = told if one.default is MISSING else NotRequired[told]
    schema = schema_for(TypedDict("arguments", fields), known)  # type: ignore[operator]  # made of data
    required = frozenset(one.name for one in parameters if one.default is MISSING)
    return Interface(
        codecs=codecs, required=required, schema=schema, result=_codec_of_result(function, known)
    )


def _is_unbound(function: Callable[..., Any], first: inspect.Parameter) -> bool:
    return (
        inspect.isfunction(function)
        and first.name in ("self", "cls")
        and first.annotation is MISSING
        and function.__qualname__.rpartition(".")[0].rpartition(".")[2] not in ("", "<locals>")
    )


def _names_known_to(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Give all names that a hint may use and that are not global."""
    known = dict(names)
    inner: Any = innermost(function)
    code = getattr(inner, "__code__", None)
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(inner, "__closure__", None) or (), strict=False
    ):
        try:
            known[name] = cell.cell_contents
        except ValueError:
            pass  # not bound yet, as the tool itself is while it is being made
    known.update((one.__name__, one) for one in getattr(inner, "__type_params__", ()))
    return known


def _resolved(hint: Any, function: Callable[..., Any], known: dict[str, Any]) -> Any:
    holder: Any = type("holder", (), {"__annotations__": {"hint": hint}})
    globals = getattr(innermost(function), "__globals__", {})
    return typing.get_type_hints(holder, globals, known, include_extras=True)["hint"]


def _hint_of(function: Callable[..., Any], parameter: inspect.Parameter, known: dict[str, Any]) -> Any:
    hint = parameter.annotation
    try:
        return _resolved(hint, function, known)
    except Exception as error:
        raise TypeError(
            f"the hint {hint!r} of its parameter {parameter.name!r} cannot be read: {error}; define what it "
            "names at the top of the module, or put @tool on the function where that is known"
        ) from error


def _codec_of(name: str, hint: Any, known: dict[str, Any]) -> Codec:
    try:
        return codec_for(hint, known)
    except UnsupportedType as error:
        problem = f"its parameter {error.path.replace('result', name, 1)}: {error.problem}"
        if not isinstance(error, MistakenType):
            problem += "; teach it with june.codec.register(), or fill the parameter with functools.partial"
        raise TypeError(problem) from None


def _codec_of_result(function: Callable[..., Any], known: dict[str, Any]) -> Codec | None:
    hint = inspect.signature(function).return_annotation
    if hint is MISSING:
        return None
    try:
        codec = codec_for(_resolved(hint, function, known), known)
    except Exception:
        return None  # the result is written as any value is
    # What a codec keeps of a pydantic model beside its fields, private values too, is not for a model.
    return None if any(hasattr(cls, "model_dump") for cls in codec.classes) else codec
