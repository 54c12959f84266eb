"""
Steps: functions that say by their parameters what they need.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import attrs

from june._signatures import (
    Parameter,
    Place,
    innermost,
    is_coroutine_function,
    is_generator_function,
    named_parameters,
    parameters_of,
    place_of,
    return_annotation,
)
from june._text import listed, near, short_repr

__all__ = ["Retry", "Step", "step"]

P = ParamSpec("P")
R = TypeVar("R")

Needed: TypeAlias = "Step[..., Any] | str | Sequence[Step[..., Any] | str]"
"""What ``needs=`` binds a parameter to: a step, an id, or a list of them."""

RUNS_ON = ("thread", "inline", "asyncio")

_BAD_IN_ID = re.compile(r"[\[\]/\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class RetryStrategy(Protocol):
    """What the run asks of a retry: how long to wait, if at all."""

    def delay(self, error: Exception, attempt: int, elapsed: float) -> float | None:
        """
        Say how long to wait before the next attempt, in seconds, or None to give up.

        Args:
            error: What the last attempt raised.
            attempt: How many attempts were made, from 1.
            elapsed: Seconds since the first attempt began.
        """


@attrs.frozen
class Retry:
    """
    Retries of a whole step.

    Attributes:
        attempts: How often the step is tried at most, the first time included.

        on: Which exceptions are worth another try: a type, a tuple of types, or a function of the
            exception that returns a bool. Cancellation is never retried.

        wait: How long to wait before another attempt: seconds, or a function of the number of attempts
            made (from 1) that returns seconds. None doubles from 0.1 s up to 45 s, plus up to a second at
            random so that many steps do not all come back at once. While it waits, a step holds no slot.

    Example:
        >>> Retry(5, on=(ConnectionError, TimeoutError), wait=2.0).delay(TimeoutError(), 1, 0.0)
        2.0
    """

    attempts: int = 3
    on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] = Exception
    wait: float | Callable[[int], float] | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError(f"attempts must be a whole number from 1, not {self.attempts!r}")
        if isinstance(self.wait, (int, float)) and not 0 <= self.wait < float("inf"):
            raise ValueError(f"wait must be a number of seconds from 0, not {self.wait!r}")

    def delay(self, error: Exception, attempt: int, elapsed: float) -> float | None:
        """Say how long to wait before the next attempt, in seconds, or None to give up."""
        if attempt >= self.attempts:
            return None
        if isinstance(self.on, (type, tuple)):
            if not isinstance(error, self.on):
                return None
        elif not self.on(error):
            return None
        if self.wait is None:
            return float(min(45.0, 0.1 * 2.0 ** (attempt - 1)) + random.random())
        return float(self.wait(attempt)) if callable(self.wait) else float(self.wait)


@attrs.frozen
class _Tenacity:
    """Asks a ``tenacity.Retrying`` (or ``AsyncRetrying``) when to stop and how long to wait."""

    retrying: Any

    def delay(self, error: Exception, attempt: int, elapsed: float) -> float | None:
        import tenacity

        state = tenacity.RetryCallState(self.retrying, None, (), {})
        state.attempt_number = attempt
        state.set_exception((type(error), error, error.__traceback__))
        # `seconds_since_start` is the outcome's time less the start's; only the difference is read.
        state.start_time = 0.0
        state.outcome_timestamp = elapsed
        if not self.retrying.retry(state):
            return None
        wait = float(self.retrying.wait(state)) if self.retrying.wait else 0.0
        # Strategies such as stop_before_delay look at the sleep to come.
        state.upcoming_sleep = wait
        return None if self.retrying.stop(state) else wait


def _retry_strategy(retry: Any) -> RetryStrategy | None:
    if retry is None or isinstance(retry, Retry):
        return retry
    if isinstance(retry, int) and not isinstance(retry, bool):
        raise TypeError(f"retry={retry!r} is a number; say retry=Retry({retry}) for so many attempts")
    if any(base.__module__.split(".")[0] == "tenacity" for base in type(retry).__mro__):
        return _Tenacity(retry)
    if hasattr(type(retry), "delay"):
        return cast(RetryStrategy, retry)
    raise TypeError(
        f"retry={short_repr(retry)} is neither a june.Retry nor a tenacity.Retrying; "
        "a stamina decorator goes on the function itself, below @step"
    )


class Kind(Protocol):
    """
    What makes a step a function step, a prompt step or a job step: how it renders and executes.

    Attributes:
        name: The word for it in traces: ``function``, ``prompt``, ``job``.
        reads_values: Whether rendering needs the values of the inputs, not only what they add to the key.
    """

    @property
    def name(self) -> str: ...

    @property
    def reads_values(self) -> bool: ...

    def output(self, declaration: Declaration) -> Any:
        """
        Resolve the type of the result, `MISSING` if none is declared.

        Raises:
            Exception: Whatever evaluating the annotation raises.
        """

    def parts(self, declaration: Declaration, session: Any) -> dict[str, str]:
        """
        Hash the parts of the cache key that no input changes.

        Args:
            declaration: The step's declaration.
            session: The run's `june.fingerprints.Fingerprinter`.

        Returns:
            Part name to hex digest, in the order in which they stand in the key.
        """


@attrs.frozen(eq=False, kw_only=True)
class Declaration:
    """What a ``@step`` line and its function say, shared by a step and all its bound copies."""

    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    kind: Kind
    place: Place
    is_async: bool
    needs: Mapping[str, Needed]
    after: tuple[Step[..., Any] | str, ...]
    each: tuple[str, Any] | None
    label: Callable[..., Any] | None
    when: Callable[..., Any] | None
    when_parameters: tuple[str, ...]
    version: str | None
    vary: Any
    vary_parameters: tuple[str, ...]
    save: bool
    retry: RetryStrategy | None
    timeout: float | None
    runs_on: str
    limit: str | None
    scope_steps: Mapping[str, Step[..., Any]]
    scope: Any

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(innermost(self.function), "__name__", type(self.function).__name__)

    def parameter(self, name: str) -> Parameter:
        """Find a parameter by its name."""
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def scope_names(self) -> Mapping[str, Any]:
        """Names of the function in which the step was decorated, as they are now."""
        return {} if self.scope is None else self.scope.f_locals


class Step(Generic[P, R]):
    """
    A decorated function: what `step` returns.

    It stays callable: ``plan("web")`` calls the plain function, so a step is tested like any function.

    Attributes:
        id: The step's identity in snapshots and traces.
        bound: Parameters that `bind` fixed, by name.
    """

    __slots__ = ("__weakref__", "_declaration", "bound", "id")

    id: str
    bound: Mapping[str, Any]
    _declaration: Declaration

    def __init__(self, id: str, declaration: Declaration, bound: Mapping[str, Any]) -> None:
        self.id = id
        self._declaration = declaration
        self.bound = bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.bound:
            return cast(R, self._declaration.function(*args, **{**self.bound, **kwargs}))
        return cast(R, self._declaration.function(*args, **kwargs))

    def bind(self, *, id: str, **bound: Any) -> Step[..., R]:
        """
        Make another step of the same function with some parameters fixed.

        A bound value is an input: it is hashed into the cache key, and `version` does not hide it. A step
        (or a list of steps) given here is a dependency.

        Args:
            id: The new step's id.
            **bound: Values, or steps, by parameter.

        Raises:
            TypeError: If the function has no parameter of that name.
            ValueError: If the id is not one.
        """
        declaration = self._declaration
        check_id(id)
        names = {parameter.name for parameter in declaration.parameters}
        for name in bound:
            if name not in names:
                hint = near(name, names)
                raise TypeError(
                    f"step {self.id!r} ({declaration.place}) has no parameter {name!r} to bind; "
                    + (f"did you mean {hint[0]!r}?" if hint else f"it has {listed(sorted(names)) or 'none'}")
                )
            if declaration.each is not None and declaration.each[0] == name:
                raise TypeError(
                    f"step {self.id!r} ({declaration.place}) runs once per item of its parameter {name!r}, "
                    "so it cannot be bound; bind the others"
                )
        return Step(id, declaration, {**self.bound, **bound} if self.bound else bound)

    # What functools.wraps would give, and inspect.signature follows.

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self._declaration.function

    @property
    def __name__(self) -> str:
        return self._declaration.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # a property where object has a value
        return self._declaration.function.__doc__

    def __june_key__(self) -> object:
        # Code that names a step calls its function, so that is what counts.
        return (self._declaration.function, dict(self.bound)) if self.bound else self._declaration.function

    def __repr__(self) -> str:
        return f"<Step {self.id!r} ({self._declaration.place})>"


def declaration_of(step: Step[..., Any]) -> Declaration:
    """Give the declaration of *step*: for June's own modules, so that users see no machinery on a step."""
    return step._declaration


def check_id(id: object) -> None:
    """
    Check a step id.

    Raises:
        TypeError: If it is not a string.
        ValueError: If it is empty, or holds a control character, ``[``, ``]`` or ``/``.
    """
    if not isinstance(id, str):
        raise TypeError(f"a step's id must be a string, not {short_repr(id)}")
    if not id:
        raise ValueError("a step's id must not be empty")
    bad = _BAD_IN_ID.search(id)
    if bad:
        why = (
            "is kept for the ids of instances and nested steps"
            if bad.group() in "[]/"
            else "could not be shown or saved"
        )
        raise ValueError(f"the step id {id!r} holds {bad.group()!r}, which {why}; leave it out")


def step(
    *,
    id: str,
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
) -> Callable[[Callable[P, R]], Step[P, R]]:
    """
    Make a function a step.

    Its parameters say what it needs: other steps by id or name, run inputs and resources by name, or its
    defaults.

    Args:
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
    check_id(id)
    frame = sys._getframe(1)

    def decorate(function: Callable[P, R]) -> Step[P, R]:
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
            kind=FUNCTION,
            place=fail.place,
            is_async=is_async,
            needs=fail.checked_needs(needs, names),
            after=fail.checked_after(after),
            each=fail.checked_each(each, needs, names),
            label=fail.checked_label(label, each),
            when=when,
            when_parameters=fail.checked_function("when", when, names),
            version=fail.checked_version(version),
            vary=vary,
            vary_parameters=fail.checked_function("vary", vary if callable(vary) else None, names),
            save=bool(save),
            retry=_retry_strategy(retry),
            timeout=fail.checked_timeout(timeout),
            runs_on=fail.checked_runs_on(runs_on, is_async),
            limit=limit,
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

    def checked_version(self, version: Any) -> str | None:
        if version is not None and not isinstance(version, str):
            raise self.type_error(f"version must be a string, not {short_repr(version)}")
        return version

    def checked_timeout(self, timeout: Any) -> float | None:
        if timeout is None:
            return None
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise self.type_error(f"timeout must be a number of seconds, not {short_repr(timeout)}")
        if not timeout > 0:
            raise self.value_error(f"timeout must be more than 0 seconds, not {timeout!r}; None is no limit")
        return float(timeout)

    def checked_runs_on(self, runs_on: Any, is_async: bool) -> str:
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


class _FunctionKind:
    """Function steps: the function is the work."""

    name = "function"
    reads_values = False

    def output(self, declaration: Declaration) -> Any:
        return return_annotation(declaration.function, declaration.scope_names())

    def parts(self, declaration: Declaration, session: Any) -> dict[str, str]:
        return {"code": session.code(declaration.function, defaults=False).digest}

    def __repr__(self) -> str:
        return "<function steps>"


FUNCTION = _FunctionKind()
