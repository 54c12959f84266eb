"""
Declaring: the ``@step`` decorator, and what it refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, Never, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from june._signatures import (
    MISSING,
    innermost,
    is_coroutine_function,
    is_generator_function,
    named_parameters,
    parameters_of,
    place_of,
)
from june._text import listed, near, short_repr
from june.agents import Agent, PromptKind
from june.messages import Settings
from june.retries import retry_strategy
from june.steps import FUNCTION, Declaration, Kind, Needed, Step, check_id
from june.tools import as_tools

__all__ = ["step"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

RUNS_ON = ("thread", "inline", "asyncio")


class _Options(TypedDict, total=False):
    """What all kinds of steps take; see `step`."""

    needs: Mapping[str, Needed] | None
    after: Iterable[Step[..., Any] | str]
    each: Mapping[str, Any] | None
    label: Callable[[Any], str | int] | None
    when: Callable[..., bool] | None
    version: str | None
    vary: Any
    save: bool
    retry: Any
    timeout: float | None
    limit: str | None
    approval: bool | str


# A prompt step's function returns the prompt; the step's own type is that of its result.


@overload
def step(
    *,
    id: str,
    agent: Agent | Callable[..., Agent],
    output: type[T],
    tools: Iterable[Any] = (),
    settings: Settings | None = None,
    **options: Unpack[_Options],
) -> Callable[[Callable[P, Any]], Step[P, T]]: ...
@overload
def step(
    *,
    id: str,
    agent: Agent | Callable[..., Agent],
    tools: Iterable[Any] = (),
    settings: Settings | None = None,
    **options: Unpack[_Options],
) -> Callable[[Callable[P, Any]], Step[P, str]]: ...
@overload
def step(
    *,
    id: str,
    agent: Agent | Callable[..., Agent],
    output: Any,
    tools: Iterable[Any] = (),
    settings: Settings | None = None,
    **options: Unpack[_Options],
) -> Callable[[Callable[P, Any]], Step[P, Any]]: ...
@overload
def step(
    *, id: str, runs_on: str | None = None, **options: Unpack[_Options]
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(
    *mistaken: Never,
    id: str = "",
    needs: Mapping[str, Needed] | None = None,
    after: Iterable[Step[..., Any] | str] = (),
    each: Mapping[str, Any] | None = None,
    label: Callable[[Any], str | int] | None = None,
    when: Callable[..., bool] | None = None,
    version: str | None = None,
    vary: Any = None,
    save: bool = True,
    retry: Any = None,
    timeout: float | None = None,
    runs_on: str | None = None,
    limit: str | None = None,
    agent: Agent | Callable[..., Agent] | None = None,
    output: Any = MISSING,
    tools: Iterable[Any] = (),
    settings: Settings | None = None,
    approval: bool | str = False,
) -> Callable[[Callable[P, Any]], Step[P, Any]]:
    """
    Make a function a step.

    Its parameters say what it needs: other steps by id or name, run inputs and resources by name, or its
    defaults.

    Args:
        *mistaken: Nothing: all arguments are by name.

        id: The step's identity in snapshots and traces: any text without control characters, ``[``,
            ``]`` and ``/``.

        needs: What a parameter is bound to when its name does not say it: a step, an id, or a list of
            them (the parameter then receives a list).

        after: Steps that must be over before this one starts, though it takes nothing from them.

        each: One parameter and what it runs over: a step, or the name of an input. The step then runs once
            per item, as soon as each is known.

        label: A function of the item that names its instance. Without it the item itself is the name if
            it is a string or an int, and a hash of it otherwise.

        when: A function of some of the parameters, by name. Where it returns something false, the step is
            skipped.

        version: A string that stands in for the code in the cache key: you vouch for the code. Change it
            to have the step run again.

        vary: A value, or a function of some of the parameters, that is added to the cache key.

        save: Whether the result may be put in a snapshot. An unsaved step runs only when a step that must
            run needs it.

        retry: A `june.Retry`, or a ``tenacity.Retrying``, for retries of the whole step.

        timeout: Seconds that one attempt may take; None is no limit.

        runs_on: ``"thread"`` (the default for ``def``), ``"inline"`` (on the event loop, for quick
            functions), or ``"asyncio"`` (an ``async def`` that needs asyncio). An ``async def`` runs on trio
            by default.

        limit: Name of a limit that the run is given with ``limits=``; the step holds one of it while it runs.

        agent: Makes it a prompt step: the function returns the prompt, and the answer of the agent's model is
            the result. An `june.Agent`, or a function of some of the parameters that gives one.

        output: The type of a prompt step's result; ``str`` if not given.

        tools: Tools that a prompt step's model may call, beside the agent's.

        settings: Settings that go over the agent's for this step.

        approval: Whether a person must say yes before the step starts: True, or the question to ask.

    Returns:
        A decorator that turns a function into a `Step`.

    Raises:
        TypeError: If an argument is of the wrong kind, or the function is a generator or takes ``*args``
            or ``**kwargs``.
        ValueError: If an argument has a value that cannot be used.

    Example:
        >>> @step(id="double")
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> double(4)
        8
    """
    if mistaken or not id:
        # @step without parentheses, or @step("plan")
        name = getattr(mistaken[0], "__name__", mistaken[0]) if mistaken else "plan"
        raise TypeError(f"a step needs an id, by name: write @step(id={name!r}) above its def")
    check_id(id)
    frame = sys._getframe(1)

    def decorate(function: Callable[P, Any]) -> Step[P, Any]:
        fail = _Complaints(id, function)
        fail.unless_plain_function()
        try:
            parameters = parameters_of(function)
        except TypeError as error:
            raise fail.type_error(str(error)) from None
        names = [parameter.name for parameter in parameters]
        is_async = is_coroutine_function(function)
        scope_steps, scope = _scope_of(frame, function, names)
        declaration = Declaration(
            function=function,
            parameters=parameters,
            kind=fail.checked_kind(agent, output, tools, settings, is_async, names),
            place=fail.place,
            is_async=is_async,
            needs=fail.checked_needs(needs, names),
            after=fail.checked_after(after),
            each=fail.checked_each(each, needs, names),
            label=fail.checked_label(label, each),
            when=when,
            when_parameters=fail.checked_function("when", when, names),
            version=fail.checked_text("version", version),
            vary=vary,
            vary_parameters=fail.checked_function("vary", vary if callable(vary) else None, names),
            save=bool(save),
            retry=retry_strategy(retry),
            timeout=fail.checked_timeout(timeout),
            runs_on=fail.checked_runs_on(runs_on, is_async, agent),
            limit=fail.checked_text("limit", limit),
            approval=fail.checked_approval(approval),
            scope_steps=scope_steps,
            scope=scope,
        )
        return Step(id, declaration, {})

    return decorate


def _scope_of(
    frame: FrameType, function: Callable[..., Any], names: list[str]
) -> tuple[Mapping[str, Step[..., Any]], FrameType | None]:
    """Note the steps that a step's parameters were bound to where it was decorated, if in a function."""
    if frame.f_locals is frame.f_globals:
        return {}, None
    found = {name: frame.f_locals[name] for name in names if isinstance(frame.f_locals.get(name), Step)}
    # A type declared later in the same function can be found only through its frame, and the frame keeps
    # alive all that it holds; so it is kept only where the annotation cannot be resolved yet.
    if not isinstance(getattr(innermost(function), "__annotations__", {}).get("return"), str):
        return found, None
    return found, frame


class _Complaints:
    """Checks the arguments of one ``@step``, and words what is wrong with them."""

    def __init__(self, id: str, function: Callable[..., Any]) -> None:
        self.id = id
        self.function = function
        if isinstance(function, Step):
            raise TypeError(f"step {id!r} decorates a step ({function!r}); use bind() to make another of it")
        if not callable(function):
            raise TypeError(f"@step(id={id!r}) decorates a function, not {short_repr(function)}")
        self.place = place_of(function)

    def type_error(self, problem: str) -> TypeError:
        return TypeError(f"step {self.id!r} ({self.place}): {problem}")

    def value_error(self, problem: str) -> ValueError:
        return ValueError(f"step {self.id!r} ({self.place}): {problem}")

    def unless_plain_function(self) -> None:
        if is_generator_function(self.function):
            raise self.type_error(
                "it is a generator function, whose items no snapshot could hold before they are all there; "
                "return a list, and let a step with each= take the items"
            )
        if isinstance(self.function, (staticmethod, classmethod)):
            raise self.type_error("put @step below @staticmethod or @classmethod, or outside of the class")

    def known(self, argument: str, name: str, names: Sequence[str]) -> None:
        if name not in names:
            hint = near(name, names)
            raise self.type_error(
                f"{argument} names {name!r}, which is not one of its parameters ({listed(names) or 'none'})"
                + (f"; did you mean {hint[0]!r}?" if hint else "")
            )

    def checked_needs(self, needs: Any, names: Sequence[str]) -> Mapping[str, Needed]:
        if needs is None:
            return {}
        if not isinstance(needs, Mapping):
            raise self.type_error(f"needs must be a mapping of parameters to steps, not {short_repr(needs)}")
        for name, needed in needs.items():
            self.known("needs", name, names)
            for one in needed if isinstance(needed, (list, tuple)) else [needed]:
                if not isinstance(one, (Step, str)):
                    raise self.type_error(
                        f"needs[{name!r}] must be a step, an id, or a list of them, not {short_repr(one)}"
                        + ("; put @step on it" if callable(one) else "; a fixed value goes in bind()")
                    )
        return dict(needs)

    def checked_after(self, after: Any) -> tuple[Step[..., Any] | str, ...]:
        steps = (after,) if isinstance(after, (Step, str)) else tuple(after)
        for one in steps:
            if not isinstance(one, (Step, str)):
                raise self.type_error(f"after must be a list of steps or ids, not {short_repr(one)}")
        return steps

    def checked_each(self, each: Any, needs: Any, names: Sequence[str]) -> tuple[str, Any] | None:
        if each is None:
            return None
        if not isinstance(each, Mapping) or len(each) != 1:
            raise self.type_error(
                "each must be a mapping of one parameter to the step or input whose items it takes, "
                f"not {short_repr(each)}"
            )
        [(name, source)] = each.items()
        self.known("each", name, names)
        if needs and name in needs:
            raise self.type_error(f"parameter {name!r} is in both needs and each; keep one")
        if not isinstance(source, (Step, str)):
            raise self.type_error(
                f"each[{name!r}] must be a step, an id, or the name of an input, not {short_repr(source)}"
            )
        return name, source

    def checked_label(self, label: Any, each: Any) -> Callable[..., Any] | None:
        if label is None:
            return None
        if each is None:
            raise self.type_error("label names the instances of a step with each=, and this one has none")
        if not callable(label):
            raise self.type_error(f"label must be a function of the item, not {short_repr(label)}")
        return cast("Callable[..., Any]", label)

    def checked_function(self, argument: str, function: Any, names: Sequence[str]) -> tuple[str, ...]:
        if function is None:
            return ()
        if not callable(function):
            raise self.type_error(f"{argument} must be a function of parameters, not {short_repr(function)}")
        if is_coroutine_function(function) or is_generator_function(function):
            raise self.type_error(f"{argument} must be a plain function; it is asked on the event loop")
        try:
            wanted = named_parameters(function)
        except TypeError as error:
            raise self.type_error(f"{argument}: {error}") from None
        for name in wanted:
            self.known(argument, name, names)
        return wanted

    def checked_text(self, argument: str, text: Any) -> str | None:
        if text is not None and not isinstance(text, str):
            raise self.type_error(f"{argument} must be a string, not {short_repr(text)}")
        return text

    def checked_timeout(self, timeout: Any) -> float | None:
        if timeout is None:
            return None
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise self.type_error(f"timeout must be a number of seconds, not {short_repr(timeout)}")
        if timeout > 1e9:
            raise self.value_error(f"timeout is {short_repr(timeout)} seconds; None is no limit")
        if not timeout > 0:
            raise self.value_error(f"timeout must be more than 0 seconds, not {timeout!r}; None is no limit")
        return float(timeout)

    def checked_kind(
        self, agent: Any, output: Any, tools: Any, settings: Any, is_async: bool, names: Sequence[str]
    ) -> Kind:
        given = {"output": output is not MISSING, "tools": bool(tools), "settings": settings is not None}
        if agent is None:
            for argument, is_given in given.items():
                if is_given:
                    raise self.type_error(f"{argument} is for prompt steps; pass agent= too")
            return FUNCTION
        if is_async:
            raise self.type_error("a prompt step's function only returns the prompt; make it a plain def")
        parameters: tuple[str, ...] = ()
        if not isinstance(agent, Agent):
            if callable(getattr(agent, "respond", None)):
                raise self.type_error("agent must be an Agent, and this is a model; say agent=Agent(model)")
            if not callable(agent) or isinstance(agent, type):
                raise self.type_error(
                    "agent must be an Agent, or a function of parameters that gives one, "
                    f"not {short_repr(agent)}"
                )
            parameters = self.checked_function("agent", agent, names)
        if settings is not None and not isinstance(settings, Settings):
            raise self.type_error(f"settings must be june.Settings, not {short_repr(settings)}")
        try:
            checked = as_tools(tools)
        except (TypeError, ValueError) as error:
            raise self.type_error(f"tools: {error}") from None
        return PromptKind(agent, parameters, output, checked, settings or Settings())

    def checked_approval(self, approval: Any) -> str | None:
        if approval is False or approval is None:
            return None
        if approval is True:
            return f"Run step {self.id}?"
        if not isinstance(approval, str) or not approval:
            raise self.type_error(f"approval must be True or the question to ask, not {short_repr(approval)}")
        return approval

    def checked_runs_on(self, runs_on: Any, is_async: bool, agent: Any) -> str:
        if agent is not None:
            if runs_on is not None:
                raise self.type_error("runs_on is for function steps; a prompt step waits for its model")
            return "trio"
        if runs_on is None:
            return "trio" if is_async else "thread"
        if runs_on not in RUNS_ON:
            raise self.value_error(
                f"runs_on must be {listed(map(repr, RUNS_ON), 'or')}, not {short_repr(runs_on)}"
            )
        if is_async and runs_on != "asyncio":
            raise self.type_error(
                f"it is async, so it cannot run on {runs_on!r}; leave runs_on out for trio, "
                "or say runs_on='asyncio'"
            )
        if runs_on == "asyncio" and not is_async:
            raise self.type_error("runs_on='asyncio' is for an async def; leave runs_on out for a thread")
        return cast(str, runs_on)
