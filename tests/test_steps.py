"""Declaring steps: what ``@step`` and ``bind`` take and refuse."""

from __future__ import annotations

import functools
import inspect

import pytest
import tenacity

from june import Retry, Step, run, step


def test_a_step_stays_callable():
    """Calling a step calls the plain function, so that it is unit-tested like any function."""

    @step(id="plan")
    def plan(service: str, loud: bool = False) -> str:
        """Plan it."""
        return service.upper() if loud else service

    assert plan("web") == "web"
    assert plan("web", loud=True) == "WEB"
    assert plan.bind(id="plan-eu", service="eu")(loud=True) == "EU"
    assert inspect.signature(plan) == inspect.signature(plan.__wrapped__)
    assert plan.__name__ == "plan"
    assert plan.__doc__ == "Plan it."
    assert repr(plan).startswith("<Step 'plan' (test_steps.py:")


@pytest.mark.parametrize("id", ["plan", "Plan the deploy", "été", "a:b", "日本", "x" * 300, "1", "a~2", "%"])
def test_an_id_is_any_text(id: str):
    """Ids may hold spaces, punctuation, unicode, and be long."""

    @step(id=id)
    def one() -> int:
        return 1

    assert run(one).steps == {id: 1}


@pytest.mark.parametrize(
    ("id", "message"),
    [
        (
            "a[b",
            "the step id 'a[b' holds '[', which is kept for the ids of instances and nested steps; leave it out",
        ),
        (
            "a]b",
            "the step id 'a]b' holds ']', which is kept for the ids of instances and nested steps; leave it out",
        ),
        (
            "a/b",
            "the step id 'a/b' holds '/', which is kept for the ids of instances and nested steps; leave it out",
        ),
        ("a\nb", "the step id 'a\\nb' holds '\\n', which could not be shown or saved; leave it out"),
        (
            "a\ud800",
            "the step id 'a\\ud800' holds '\\ud800', which could not be shown or saved; leave it out",
        ),
    ],
)
def test_a_bad_id_is_refused(id: str, message: str):
    """An id that is empty, or holds a reserved or control character, is refused where it is given."""
    with pytest.raises(ValueError) as caught:
        step(id=id)
    assert str(caught.value) == message
    with pytest.raises(ValueError) as caught:
        named().bind(id=id)
    assert str(caught.value) == message


def named() -> Step:
    @step(id="named")
    def function(first: int, second: int = 2) -> int:
        return first + second

    return function


def test_an_id_is_needed():
    """@step without parentheses, with a plain string, or without an id says how to write it."""
    for wrong, name in (
        (lambda: step(plain), "plain"),
        (lambda: step("fetch"), "fetch"),
        (lambda: step(), "plan"),
    ):
        with pytest.raises(TypeError) as caught:
            wrong()
        assert str(caught.value) == f"a step needs an id, by name: write @step(id={name!r}) above its def"
    with pytest.raises(ValueError, match="^a step's id must not be empty$"):
        named().bind(id="")


def test_an_id_must_be_a_string():
    """An id of another type is a TypeError."""
    with pytest.raises(TypeError, match="^a step's id must be a string, not 7$"):
        step(id=7)


def generator():
    yield 1


async def async_generator():
    yield 1


def variadic(*paths): ...


def keywords(**options): ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (
            generator,
            "it is a generator function, whose items no snapshot could hold before they are all there; "
            "return a list, and let a step with each= take the items",
        ),
        (
            async_generator,
            "it is a generator function, whose items no snapshot could hold before they are all there; "
            "return a list, and let a step with each= take the items",
        ),
        (
            variadic,
            "it takes '*paths', but a step's dependencies are its parameters by name; name each one, or take "
            "one list with needs={...}",
        ),
        (
            keywords,
            "it takes '**options', but a step's dependencies are its parameters by name; name each one, or "
            "take one list with needs={...}",
        ),
    ],
)
def test_a_function_whose_needs_cannot_be_read_is_refused(function, problem):
    """The decorator refuses generators and variadic parameters, and says why."""
    line = function.__code__.co_firstlineno
    with pytest.raises(TypeError) as caught:
        step(id="one")(function)
    assert str(caught.value) == f"step 'one' (test_steps.py:{line}): {problem}"


def plain(first, second=2):
    return first


async def coroutine(first):
    return first


@pytest.mark.parametrize(
    ("function", "arguments", "error", "problem"),
    [
        (plain, {"needs": {"frist": "a"}}, TypeError,
         "needs names 'frist', which is not one of its parameters (first and second); did you mean 'first'?"),
        (plain, {"needs": {"first": 7}}, TypeError,
         "needs['first'] must be a step, an id, or a list of them, not 7; a fixed value goes in bind()"),
        (plain, {"needs": {"first": plain}}, TypeError, None),
        (plain, {"after": [7]}, TypeError, "after must be a list of steps or ids, not 7"),
        (plain, {"each": {"first": "a", "second": "b"}}, TypeError, None),
        (plain, {"each": {"third": "a"}}, TypeError,
         "each names 'third', which is not one of its parameters (first and second)"),
        (plain, {"each": {"first": [1, 2]}}, TypeError,
         "each['first'] must be a step, an id, or the name of an input, not [1, 2]"),
        (plain, {"label": str}, TypeError,
         "label names the instances of a step with each=, and this one has none"),
        (plain, {"when": lambda third: True}, TypeError,
         "when names 'third', which is not one of its parameters (first and second)"),
        (plain, {"when": coroutine}, TypeError, "when must be a plain function; it is asked on the event loop"),
        (plain, {"version": 2}, TypeError, "version must be a string, not 2"),
        (plain, {"timeout": "5"}, TypeError, "timeout must be a number of seconds, not '5'"),
        (plain, {"timeout": 0}, ValueError, "timeout must be more than 0 seconds, not 0; None is no limit"),
        (plain, {"timeout": float("nan")}, ValueError,
         "timeout must be more than 0 seconds, not nan; None is no limit"),
        (plain, {"runs_on": "gpu"}, ValueError, "runs_on must be 'thread', 'inline' or 'asyncio', not 'gpu'"),
        (plain, {"runs_on": "asyncio"}, TypeError,
         "runs_on='asyncio' is for an async def; leave runs_on out for a thread"),
        (coroutine, {"runs_on": "thread"}, TypeError,
         "it is async, so it cannot run on 'thread'; leave runs_on out for trio, or say runs_on='asyncio'"),
    ],
)  # fmt: skip
def test_an_argument_that_cannot_be_meant_is_refused(function, arguments, error, problem):
    """Each wrong argument is an error of the decorator that names the step, its place and the argument."""
    with pytest.raises(error) as caught:
        step(id="one", **arguments)(function)
    text = str(caught.value)
    head = f"step 'one' (test_steps.py:{function.__code__.co_firstlineno}): "
    assert text.startswith(head)
    if problem is not None:
        assert text == head + problem


def test_a_step_cannot_be_decorated_twice():
    """Two ``@step`` lines on one function are a mistake for ``bind``."""
    with pytest.raises(TypeError, match=r"use bind\(\) to make another of it$"):
        step(id="other")(named())


def test_binding_a_parameter_that_is_not_there_names_the_near_one():
    """``bind`` refuses unknown parameters as a call would."""
    with pytest.raises(TypeError, match=r"has no parameter 'frist' to bind; did you mean 'first'\?$"):
        named().bind(id="other", frist=1)


def test_bound_copies_of_bound_copies_add_up():
    """A copy of a copy keeps what was bound, and may bind it anew."""
    copy = named().bind(id="a", first=1).bind(id="b", second=5)
    assert run(copy).result == 6
    assert run(copy.bind(id="c", first=10)).result == 15


class Adder:
    """A callable instance."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, number: int) -> int:
        return number + self.amount


class AsyncAdder(Adder):
    async def __call__(self, number: int) -> int:
        return number + self.amount


def add(number: int, amount: int) -> int:
    return number + amount


@pytest.mark.parametrize(
    "function",
    [
        Adder(2),
        AsyncAdder(2),
        functools.partial(add, amount=2),
        functools.lru_cache(lambda number: number + 2),
    ],
)
def test_any_callable_can_be_a_step(function):
    """Callable instances, partials and cached functions are steps like any function."""
    assert run(step(id="added")(function), inputs={"number": 4}).result == 6


def test_parameters_may_be_positional_only():
    """A function that takes a parameter by position only gets it so."""

    @step(id="one")
    def one(first: int, /, second: int) -> int:
        return first - second

    assert run(one, inputs={"first": 5, "second": 3}).result == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attempts": 0}, "attempts must be a whole number from 1, not 0"),
        ({"attempts": 1.5}, "attempts must be a whole number from 1, not 1.5"),
        ({"wait": -1}, "wait must be a number of seconds from 0, not -1"),
    ],
)
def test_a_retry_that_cannot_be_meant_is_refused(arguments, message):
    """``Retry`` checks its numbers where it is made."""
    with pytest.raises(ValueError) as caught:
        Retry(**arguments)
    assert str(caught.value) == message


def test_a_retry_says_when_to_give_up():
    """A retry ends after its attempts, and for exceptions that it is not for."""
    retry = Retry(3, on=(OSError,), wait=lambda attempt: attempt * 10)
    assert [retry.delay(OSError(), attempt, 0.0) for attempt in (1, 2, 3)] == [10.0, 20.0, None]
    assert retry.delay(ValueError(), 1, 0.0) is None
    assert Retry(2, on=lambda error: "again" in str(error), wait=1).delay(ValueError("again"), 1, 0.0) == 1.0
    assert 0.1 <= Retry(2).delay(OSError(), 1, 0.0) <= 1.1


def test_retry_takes_a_number_for_a_mistake():
    """``retry=3`` says how to write what is meant."""
    with pytest.raises(TypeError, match=r"^retry=3 is a number; say retry=Retry\(3\) for so many attempts$"):
        step(id="one", retry=3)(plain)


def test_a_tenacity_policy_decides_retries():
    """A ``tenacity.Retrying`` given as ``retry`` is asked which errors, how often, and how long to wait."""
    calls = []

    @step(
        id="flaky",
        retry=tenacity.Retrying(
            stop=tenacity.stop_after_attempt(3),
            wait=tenacity.wait_fixed(0),
            retry=tenacity.retry_if_exception_type(OSError),
        ),
    )
    async def flaky() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("again")
        return len(calls)

    result = run(flaky)
    assert result.result == 3
    assert result.trace.node("flaky").attempts == 3
    calls.clear()
    stopped = step(id="flaky", retry=tenacity.Retrying(stop=tenacity.stop_after_attempt(2)))(
        flaky.__wrapped__
    )
    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="again")):
        run(stopped)
