"""
Tools: functions that a model may call.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from june._answers import shortened, value_of
from june._digests import digest, framed
from june._docstrings import read as read_docstring
from june._interfaces import Interface, docstring_of, interface_of, parameters_of, type_names_in
from june._parsing import BadAnswer, find, unquoted
from june._signatures import (
    Place,
    is_coroutine_function,
    place_of,
)
from june._text import listed, near, short_repr
from june.codec import Codec, Inexact, Undecodable, UnsupportedType, codec_for
from june.messages import ToolSpec

if TYPE_CHECKING:
    from june.fingerprints import Fingerprinter

__all__ = ["Tool", "as_tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_encode_json = msgspec.json.Encoder().encode


class BadArguments(Exception):
    """A model called a tool with arguments that the tool does not take; the text tells the model why."""


class Tool(Generic[P, R]):
    """
    A function that a model may call: what `tool` returns.

    It stays callable: ``search("cats")`` calls the plain function, so a tool is tested like any function. In
    a class, it binds to an instance as a method does.

    Attributes:
        name: What a model calls it.

        description: What it does, for the model.

        function: The plain function.

        approval: Whether a person has to agree to each call.

        is_async: Whether calling the function gives a coroutine.

        place: Where the function stands.
    """

    __slots__ = (
        "__weakref__", "_frame", "_interface", "_names", "approval", "description", "function", "is_async",
        "name", "place",
    )  # fmt: skip

    name: str
    description: str
    function: Callable[P, R]
    approval: bool
    is_async: bool
    place: Place

    def __init__(
        self, function: Callable[P, R], name: str | None, description: str | None, approval: bool
    ) -> None:
        _check_is_function(function)
        inner = _tool_within(function)
        self.function = function
        self.place = place_of(function)
        self.approval = approval or (inner is not None and inner.approval)
        self.is_async = _is_async(function)
        self.name = _checked_name(
            function, name if name is not None or inner is None else inner.name, self.place
        )
        try:
            parameters_of(function)
        except TypeError as error:
            raise _error(self, str(error)) from None
        if description is None and inner is not None:
            description = inner.description
        self.description = _checked_description(self, description)
        self._frame: FrameType | None = None if inner is None else inner._frame
        self._names: Mapping[str, Any] = {} if inner is None else inner._names
        self._interface: Interface | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        if instance is None:
            return self
        bound: Tool[..., R] = Tool(
            types.MethodType(self.function, instance), self.name, self.description, self.approval
        )
        bound._frame, bound._names = self._frame, self._names
        return bound

    @property
    def spec(self) -> ToolSpec:
        """
        The tool as a model sees it; each time a new copy, which may be changed.

        Raises:
            TypeError: If a parameter has a hint that is not found, or that June cannot read from JSON.
        """
        return ToolSpec(name=self.name, description=self.description, schema=deepcopy(self._made().schema))

    def _made(self) -> Interface:
        if self._interface is None:
            names = self._names if self._frame is None else self._frame.f_locals
            try:
                self._interface = interface_of(self.function, names)
            except TypeError as error:
                raise _error(self, str(error)) from error.__cause__
            self._frame = None
        return self._interface

    def _declared_in(self, frame: FrameType) -> None:
        """
        Note what names mean where the tool is declared, if that is in a function or a class.

        A frame keeps alive all that it holds, so it is kept only where a name is not yet bound in it.
        """
        if frame.f_locals is frame.f_globals:
            return
        self._names = type_names_in(frame)
        if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return  # a class, whose methods are made tools once they are bound
        try:
            self._made()
        except TypeError:
            self._frame = frame

    def decode(self, arguments: str) -> dict[str, Any]:
        """
        Give the arguments of a call as values.

        An empty text, or ``null``, stands for no arguments. A ``null`` for a parameter that has a default,
        and does not take None, leaves it at that. Around the JSON, and of ints for floats, `june.outputs` is
        as generous.

        Args:
            arguments: The arguments' JSON, as a model wrote it.

        Returns:
            The arguments that were given, by name.

        Raises:
            BadArguments: If they do not fit the parameters. The text is for the model.
            TypeError: As `spec`.
        """
        interface = self._made()
        try:
            given = _given(arguments)
        except BadAnswer as problem:
            raise BadArguments(shortened(str(problem))) from None
        codecs = interface.codecs
        problems = [_unknown(name, codecs) for name in given if name not in codecs]
        problems += [
            f"the required parameter {name!r} is missing"
            for name in codecs
            if name in interface.required - given.keys()
        ]
        values = {}
        for name, data in given.items():
            if name not in codecs or (data is None and _means_default(interface, name)):
                continue
            schema = interface.schema["properties"][name]
            try:
                values[name] = value_of(codecs[name], schema, data, f".{name}", interface.schema)
            except BadAnswer as problem:
                problems.append(str(problem))
        if problems:
            raise BadArguments(shortened("; ".join(problems)))
        return values

    def encode(self, result: Any) -> str:
        """
        Give the text that a model is told a result by.

        A str is the text itself, and None is no text. Anything else is JSON: in the form that the return
        annotation's codec gives it, or else in the usual forms of JSON writers, in which tuples and sets are
        lists, objects are their fields, and NaN is null.

        Raises:
            TypeError: If JSON cannot hold the result.
        """
        if result is None:
            return ""
        if isinstance(result, str):
            return str.__str__(result)  # the text, also of an enum's member
        codec = self._made().result
        if codec is not None:
            try:
                return codec.encode(result).decode()
            except Inexact:
                pass  # a model needs no exact form
        try:
            return msgspec.json.encode(result, enc_hook=_plain).decode()
        except Exception as error:
            raise _error(self, _untellable(result, error)) from error

    def key(self, session: Fingerprinter) -> dict[str, str]:
        """
        Hash what the tool is, for cache keys.

        Args:
            session: The run's fingerprinter.

        Returns:
            Hex digests of its ``name``, ``description``, ``schema`` and ``code``. In the last, the classes in
            its hints count as well.

        Raises:
            KeyFailure: If a part of the code cannot be fingerprinted.
            TypeError: As `spec`.
        """
        spec, codecs = self.spec, self._made().every_codec
        # A value's methods, validators and converters are the code of its class.
        classes = session.classes(dict.fromkeys(cls for codec in codecs for cls in codec.classes))
        taught = [session.code(function).digest.encode() for codec in codecs for function in codec.taught]
        code = session.code(self.function).digest.encode()
        # What a model is told is written by the type that the result is said to be of.
        result = self._made().result
        told = b"" if result is None else result.description
        return {
            "name": digest(spec.name.encode()).hex(),
            "description": digest(spec.description.encode("utf-8", "surrogatepass")).hex(),
            "schema": digest(_encode_json(spec.schema)).hex(),
            "code": digest(framed(code, classes, told, *taught)).hex(),
        }

    def caveats(self, session: Fingerprinter) -> tuple[str, ...]:
        """Say what a reader should know of the code that counts: see `june.TraceNode.caveats`."""
        code = session.code(self.function)
        return (*code.notes, *(f"cannot see into {one}" for one in code.opaque))

    def records(self, session: Fingerprinter) -> Mapping[str, str]:
        """
        Give the pieces of code that count, by label, for saying what changed.

        Raises:
            KeyFailure: As `key`.
        """
        return session.code(self.function).records

    # What functools.wraps would give, and inspect.signature follows.

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self.function

    @property
    def __name__(self) -> str:
        return _own_name(self.function) or self.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # a property where object has a value
        return self.function.__doc__

    def __june_key__(self) -> object:
        # Code that names a tool calls its function, so that is what counts.
        return self.function

    def __repr__(self) -> str:
        return f"<Tool {self.name!r} ({self.place})>"


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, approval: bool = False
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: bool = False,
) -> Any:
    """
    Make a function a tool, which a model may call.

    The function's hints say what it takes: a parameter without a hint takes any JSON, and one with a default
    may be left out. Its docstring says what it does (all before the sections on parameters, results and
    errors) and what each parameter means (``Args:``, a NumPy ``Parameters`` section, or ``:param x:``); for
    that, a text in ``Annotated`` comes first.

    A tool that raises `june.ToolError` tells the model what went wrong; any other exception fails the step.

    Args:
        function: The function. It may be async.

        name: What models call it, instead of the function's name: letters, digits, ``_`` and ``-``, at most
            64.

        description: What it does, instead of what the docstring says.

        approval: Whether a person has to agree to each call, seeing the arguments.

    Returns:
        The tool, or a decorator that makes one.

    Raises:
        TypeError: If the function cannot be a tool: it says nothing of what it does, has no name (a lambda),
            takes ``*args``, ``**kwargs`` or positional-only parameters, or is a generator.
        ValueError: If the name is not one.

    Example:
        >>> @tool
        ... def add(first: int, second: int = 1) -> int:
        ...     '''
        ...     Add two numbers.
        ...
        ...     Args:
        ...         first: The one.
        ...         second: The other.
        ...     '''
        ...     return first + second
        >>> add(2, 3)
        5
        >>> add.spec.schema["properties"]["first"]
        {'type': 'integer', 'description': 'The one.'}
    """
    frame = sys._getframe(1)

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        made = Tool(function, name, description, bool(approval))
        made._declared_in(frame)
        return made

    return decorate if function is None else decorate(function)


def as_tool(function: Any) -> Tool[..., Any]:
    """
    Give the tool that an agent was given, made of a plain function if need be.

    Args:
        function: A tool, or what `tool` takes.

    Raises:
        TypeError: If it cannot be a tool.
        ValueError: If its name cannot be one's.
    """
    if isinstance(function, types.MethodType) and isinstance(function.__func__, Tool):
        function = function.__func__.__get__(function.__self__)  # from 3.13 on, so classmethods bind
    made = function if isinstance(function, Tool) else Tool(function, None, None, False)
    made._made()  # so that what is wrong with its hints is found before anything runs
    return cast("Tool[..., Any]", made)


def as_tools(tools: Any) -> tuple[Tool[..., Any], ...]:
    """
    Give the tools that an agent or a step was given.

    Raises:
        TypeError: If they are no list, or one cannot be a tool.
        ValueError: If the name of one cannot be a tool's.
    """
    if callable(tools) or isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(f"a list of tools is wanted, not {short_repr(tools)}")
    return tuple(map(as_tool, tools))


# -- What a function must be.


def _error(tool: Tool[..., Any], problem: str) -> TypeError:
    return TypeError(f"tool {tool.name!r} ({tool.place}): {problem}")


def _check_is_function(function: object) -> None:
    if isinstance(function, Tool):
        raise TypeError(f"{function!r} is a tool already; to make another of it, decorate its .function")
    if isinstance(function, (staticmethod, classmethod)):
        raise TypeError("put @tool below @staticmethod or @classmethod")
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"a tool is a function, not {short_repr(function)}")


def _own_name(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def _checked_name(function: Any, name: object, place: Place) -> str:
    if name is None:
        name = _own_name(function)
        if name == "<lambda>":
            raise TypeError(f"the lambda at {place} has no name for a tool; write a def, or pass name=")
    if not isinstance(name, str):
        raise TypeError(f"a tool's name must be a string, not {short_repr(name)}")
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"the tool name {short_repr(name)} ({place}) is none that models take: 1 to 64 letters, digits, "
            "'_' and '-'; pass name="
        )
    return name


def _checked_description(tool: Tool[..., Any], description: object) -> str:
    if description is None:
        description = read_docstring(docstring_of(tool.function)).summary
    if not isinstance(description, str):
        raise _error(tool, f"description must be a string, not {short_repr(description)}")
    if not description.strip():
        raise _error(
            tool,
            "nothing says what it does, and a model chooses its tools by that; write a docstring, or pass "
            "description=",
        )
    return inspect.cleandoc(description).strip()


def _tool_within(function: Any) -> Tool[..., Any] | None:
    """
    Find the tool that *function* stands for, as a partial or a decorator around it does.

    What was said of it, that a person has to approve it above all, must not be lost.
    """
    seen: set[int] = set()
    while function is not None and id(function) not in seen and not isinstance(function, Tool):
        seen.add(id(function))
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        else:
            function = getattr(function, "__wrapped__", None)
    return function if isinstance(function, Tool) else None


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, Tool):
        return function.is_async
    if is_coroutine_function(function):
        return True
    # An object that stands for a function, as a step does.
    wrapped = None if inspect.isroutine(function) else getattr(function, "__wrapped__", None)
    return wrapped is not None and is_coroutine_function(wrapped)


# -- What a model said, and is told.


def _given(arguments: str) -> dict[str, Any]:
    data = unquoted(find(arguments)) if arguments.strip() else {}
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise BadAnswer(f"expected an object with the arguments by name, found {short_repr(data)}")
    return data


def _unknown(name: str, known: Mapping[str, Codec]) -> str:
    meant = near(name, known)
    hint = f"did you mean {meant[0]!r}?" if meant else f"the tool takes {listed(map(repr, known)) or 'none'}"
    return f"there is no parameter {short_repr(name)}; {hint}"


def _means_default(interface: Interface, name: str) -> bool:
    """Whether null for a parameter can only mean that it is left out."""
    if name in interface.required:
        return False
    try:
        interface.codecs[name].decode(b"null")
    except Undecodable:
        return True
    return False


def _plain(value: Any) -> Any:
    """Give what JSON writers know for a value that they do not."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    try:
        return msgspec.Raw(codec_for(type(value)).encode(value))
    except (UnsupportedType, Inexact):
        raise TypeError(f"JSON has no form for a value of type {type(value).__name__}") from None


def _untellable(result: object, error: Exception) -> str:
    if inspect.isawaitable(result):
        hint = "await it, and make the tool an async def"
    else:
        hint = f"{' '.join(str(error).split())}; return text, or what JSON can hold"
    return f"it returned {short_repr(result)}, which a model cannot be told: {hint}"
