"""
Steps' code, run apart: in contexts of their own, with Ctrl-C let in.

The executor's tasks are shared by the steps that they run one after the other. A coroutine is driven by
hand, each time inside its own `contextvars.Context`; most that never wait are over after the first push,
which costs a fraction of a task. June's own code is protected from Ctrl-C, as half a bookkeeping would
lose results; the functions here, below which users' code runs, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import Context, ContextVar
from types import CoroutineType
from typing import Any

import trio

from june.stepruns import StepRun
from june.traces import TraceNode

_current: ContextVar[StepRun] = ContextVar("june.current")

FINISHED: Any = type("Finished", (), {"__repr__": lambda self: "FINISHED"})()
"""Stands for a coroutine that was over at the first push."""


class CurrentStep:
    """
    The step that is running here, as it may see itself: what `current` returns.

    Attributes:
        node: The step's `june.TraceNode`.
    """

    __slots__ = ("_one",)

    def __init__(self, one: StepRun) -> None:
        self._one = one

    @property
    def node(self) -> TraceNode:
        return self._one

    @property
    def id(self) -> str:
        """The step's id; of an instance, with its label."""
        return self._one.id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._one.attempts

    @property
    def cancelled(self) -> bool:
        """
        Whether the run was cancelled or this step timed out, so that a thread step should stop early.

        What the step returns after it was told so counts for nothing.
        """
        run = self._one.run
        if run.cancelled:
            # It may stop half-way now, and what it has by then is no result.
            run.told.add(self._one)
            return True
        # While a tool of it waits for a person, a step that runs is "waiting".
        return self._one.status not in ("running", "waiting")

    def note(self, text: str) -> None:
        """Note something for people: it shows in the trace and reaches ``on_update``."""
        self._one.add_note(str(text))

    def progress(self, done: float, total: float | None = None) -> None:
        """
        Say how far the step is: it shows in the trace and reaches ``on_update``.

        Args:
            done: How much is done, in units of your own.
            total: How much there is, or None if unknown.
        """
        self._one.progress = (done, total)
        self._one.run.tell("progress", self._one)

    def __repr__(self) -> str:
        return f"<CurrentStep {self.id!r}>"


def current() -> CurrentStep:
    """
    Give the step that is running here, also in tasks and threads that it started with its context.

    Raises:
        RuntimeError: Outside of a step.
    """
    try:
        return CurrentStep(_current.get())
    except LookupError:
        raise RuntimeError("current() was called outside of a step") from None


def enter(one: StepRun) -> None:
    """Make *one* the current step of the context that this is called in."""
    _current.set(one)


@trio.lowlevel.disable_ki_protection
def begin(
    one: StepRun, function: Callable[..., Coroutine[Any, Any, Any]], arguments: Mapping[str, Any]
) -> tuple[Any, Any]:
    """
    Start an async step, inside its context.

    Returns:
        `FINISHED` and the result if it did not wait; else the coroutine and what it asks of trio.
    """
    _current.set(one)
    coroutine = call(function, one, arguments)
    try:
        return coroutine, coroutine.send(None)
    except StopIteration as stop:
        return FINISHED, stop.value


@trio.lowlevel.disable_ki_protection
def begin_conversation(one: StepRun, coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, Any]:
    """Start the conversation of a prompt step, inside its context; see `begin`."""
    _current.set(one)
    try:
        return coroutine, coroutine.send(None)
    except StopIteration as stop:
        return FINISHED, stop.value


@trio.lowlevel.disable_ki_protection
def begin_plain(one: StepRun, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Run a plain function, inside its context."""
    _current.set(one)
    value = call(function, one, arguments)
    if type(value) is CoroutineType:
        value.close()
        raise TypeError("the function returned a coroutine; declare it with async def")
    return value


def call(function: Callable[..., Any], one: StepRun, arguments: Mapping[str, Any]) -> Any:
    """Call a step's function; parameters that take no keyword get their values by position."""
    parameters = one.node.declaration.parameters
    if parameters and parameters[0].positional:
        positional = [arguments[one.name] for one in parameters if one.positional]
        named = {one.name: arguments[one.name] for one in parameters if not one.positional}
        return function(*positional, **named)
    return function(**arguments)


@trio.lowlevel.disable_ki_protection
def _push(step: Callable[[Any], Any], value: Any) -> Any:
    return step(value)


class Rest:
    """What is left of a coroutine that has begun to wait: awaiting it goes on in the coroutine's context."""

    __slots__ = ("_context", "_coroutine", "_message")

    def __init__(self, context: Context, coroutine: Coroutine[Any, Any, Any], message: Any) -> None:
        self._context = context
        self._coroutine = coroutine
        self._message = message

    @trio.lowlevel.enable_ki_protection
    def __await__(self) -> Generator[Any, Any, Any]:
        push = self._context.run
        coroutine = self._coroutine
        message = self._message
        while True:
            step: Callable[[Any], Any] = coroutine.send
            try:
                answer = yield message
            except BaseException as error:
                step, answer = coroutine.throw, error
            try:
                message = push(_push, step, answer)
            except StopIteration as stop:
                return stop.value
