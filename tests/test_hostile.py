"""Steps, policies and watchers that behave badly: none hangs a run, or takes from it what had finished."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import trio

from june import (
    InputError,
    ResultWarning,
    Retry,
    RunCancelled,
    RunFailed,
    RunInterrupted,
    StepError,
    open_run,
    run,
    run_async,
    start,
    step,
)


@step(id="good")
async def good() -> int:
    return 1


def statuses(record) -> dict[str, str]:
    return {node.id: node.status for node in record.trace}


def fails(*targets, **options) -> RunFailed:
    """Run *targets* behind a good step, and give how that failed, with what had finished."""
    with pytest.raises(RunFailed) as caught:
        run(good, *targets, **options)
    assert list(caught.value.snapshot()) == ["good"]
    return caught.value


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Takes no notes."""

    code: int


class Mute(RuntimeError):
    def __str__(self) -> str:
        raise LookupError("no text")


@pytest.mark.parametrize("runs_on", ["trio", None, "inline", "asyncio"])
@pytest.mark.parametrize(
    "error",
    [Frozen(1), Mute(), SystemExit(3), GeneratorExit(), BaseExceptionGroup("odd", [SystemExit(1)])],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_is_the_steps_own(error, runs_on):
    """An exception without a text, that takes no notes, or that would end more than the step, fails the step."""
    if runs_on in (None, "inline"):

        @step(id="bad", runs_on=runs_on)
        def bad():
            raise error
    else:

        @step(id="bad", runs_on=None if runs_on == "trio" else runs_on)
        async def bad():
            raise error

    failed = fails(bad)
    [found] = failed.exceptions
    assert found is error or found.__cause__ is error
    assert statuses(failed) == {"good": "done", "bad": "failed"}


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "soon", True])
def test_a_retry_that_says_nonsense_fails_the_step(delay):
    """A wait that is no number of seconds is named, and the run goes on to its end."""

    class Policy:
        def delay(self, error, attempt, elapsed):
            return delay

    @step(id="bad", retry=Policy())
    async def bad() -> None:
        raise OSError

    [error] = fails(bad).exceptions
    assert str(error).startswith("the retry of step 'bad' (test_hostile.py:")
    assert str(error).splitlines()[0].endswith(f" says to wait {delay!r} seconds")


def test_a_retry_that_raises_fails_the_step():
    """The step's own error is the context of what its policy raised."""

    @step(id="bad", retry=Retry(3, wait=lambda attempt: sys.exit(1)))
    async def bad() -> None:
        raise OSError("first")

    [error] = fails(bad).exceptions
    assert isinstance(error, StepError)
    assert str(error.__context__) == "first"


@pytest.mark.parametrize("argument", ["when", "vary"])
def test_a_function_asked_while_rendering_may_raise_anything(argument):
    """SystemExit in ``when`` fails the step; in ``vary`` it means that there is no key."""

    @step(id="bad", **{argument: lambda: sys.exit(1)})
    async def bad() -> int:
        return 1

    if argument == "when":
        assert isinstance(fails(bad).exceptions[0], StepError)
    else:
        with pytest.warns(ResultWarning, match="no cache key"):
            result = run(bad)
        assert result.trace.node("bad").reason == "no cache key: vary raised SystemExit: 1"


def test_a_label_may_raise_anything():
    """What a label function raises over a run's input is an error before anything runs."""

    @step(id="bad", each={"item": "items"}, label=lambda item: sys.exit(1))
    async def bad(item) -> int:
        return 1

    with pytest.raises(InputError, match=r"^input 'items', which step 'bad' .* runs over: 1$"):
        run(bad, inputs={"items": [1]})


def test_a_step_may_stop_the_asyncio_loop():
    """A loop that a step stops goes on for the others."""

    @step(id="stops", runs_on="asyncio")
    async def stops() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 1

    assert run(stops, stops.bind(id="again")).result == (1, 1)


def test_tasks_that_an_asyncio_step_leaves_are_cancelled_and_waited_for():
    """The loop ends as ``asyncio.run`` ends one."""
    log = []

    @step(id="leaves", runs_on="asyncio")
    async def leaves() -> int:
        async def background():
            try:
                await asyncio.sleep(3600)
            finally:
                log.append("tidied")

        log.append(asyncio.create_task(background()))
        await asyncio.sleep(0)
        return 1

    assert run(leaves).result == 1
    assert log[1:] == ["tidied"]


def test_capacity_that_a_step_keeps_is_not_the_next_steps():
    """A token that a step that waited never gives back is gone with its task, and nobody else's."""
    limiter = trio.CapacityLimiter(4)

    @step(id="keeps")
    async def keeps() -> None:
        await limiter.acquire()

    @step(id="takes", after=[keeps])
    async def takes() -> int:
        async with limiter:
            return 1

    assert run(takes, concurrency=1).result == 1


@pytest.mark.parametrize("timeout", [None, 100])
@pytest.mark.parametrize("what", ["nursery", "scope", "cancelled scope"])
async def test_what_a_step_leaves_open_fails_that_step_only(what, timeout, autojump_clock):
    """An open nursery or scope fails the step, and the run goes on."""

    @step(id="leaves", timeout=timeout)
    async def leaves() -> None:
        if what == "nursery":
            nursery = await trio.open_nursery().__aenter__()
            nursery.start_soon(trio.sleep, 5)
        else:
            scope = trio.CancelScope()
            scope.__enter__()
            if what == "cancelled scope":
                scope.cancel()
            await trio.sleep(1)

    @step(id="next")
    async def after_it() -> int:
        await trio.sleep(10)
        return 1

    with pytest.raises(RunFailed) as caught:
        await run_async(good, leaves, after_it, on_error="continue", concurrency=1)
    assert statuses(caught.value) == {"good": "done", "leaves": "failed", "next": "done"}
    assert isinstance(caught.value.exceptions[0], StepError)


async def test_ten_thousand_steps_between_attempts(autojump_clock):
    """A failure elsewhere ends them all at once."""

    @step(id="flaky", retry=Retry(3, wait=1000))
    async def flaky(number: int) -> None:
        raise OSError

    @step(id="bad")
    async def bad() -> None:
        await trio.sleep(1)
        raise ValueError

    many = [flaky.bind(id=str(number), number=number) for number in range(10_000)]
    with pytest.raises(RunFailed) as caught:
        await run_async(many, bad)
    assert len(caught.value.exceptions) == 10_001


def test_a_run_that_cannot_get_a_thread_keeps_what_it_has(monkeypatch):
    """No more threads is that step's failure."""

    def refuse(self):
        raise RuntimeError("can't start new thread")

    @step(id="threaded", after=[good])
    def threaded() -> int:
        return 1

    monkeypatch.setattr(threading.Thread, "start", refuse)
    [error] = fails(threaded).exceptions
    assert isinstance(error, RuntimeError)


def test_an_on_update_that_is_async_is_refused():
    """Its coroutines would never be awaited."""

    async def watch(update): ...

    with pytest.raises(TypeError, match="^on_update must be a plain function of an Update"):
        run(good, on_update=watch)


def test_an_on_update_may_raise_what_takes_no_notes():
    """The run fails with it, and carries what had finished."""

    def watch(update):
        if update.node.status == "done":
            raise Frozen(1)

    with pytest.raises(RunFailed) as caught:
        run(good, on_update=watch)
    assert isinstance(caught.value.exceptions[0], Frozen)
    assert list(caught.value.snapshot()) == ["good"]


async def test_a_step_that_cancels_the_nursery_it_runs_in(autojump_clock):
    """That is a cancellation, not a deadline."""

    @step(id="odd")
    async def odd() -> None:
        trio.lowlevel.current_task().parent_nursery.cancel_scope.cancel()
        await trio.sleep(1)

    with pytest.raises(RunCancelled, match="^the run was cancelled: 0 of 1 steps done$"):
        async with open_run(odd):
            pass


# -- Ctrl-C.


@step(id="hit")
async def hit() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    await trio.sleep_forever()


def test_ctrl_c_while_waiting_for_a_handle_interrupts_its_run():
    """``start()`` and ``wait()`` end as ``run()`` does."""
    with pytest.raises(RunInterrupted) as caught:
        start(good, hit).wait()
    assert list(caught.value.snapshot()) == ["good"]


def test_ctrl_c_under_asyncio_run_interrupts_a_run():
    """asyncio has a handler of its own, which would only cancel a task that waits for the run."""

    async def main() -> None:
        run(good, hit)

    with pytest.raises(RunInterrupted):
        asyncio.run(main())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_a_child_task_of_a_step_is_no_failure_to_retry():
    """A KeyboardInterrupt in a group is still Ctrl-C."""
    calls = []

    @step(id="nursery", retry=Retry(3, wait=0))
    async def nursery() -> None:
        calls.append(1)

        async def child() -> None:
            raise KeyboardInterrupt

        async with trio.open_nursery() as inner:
            inner.start_soon(child)

    with pytest.raises(RunInterrupted):
        run(nursery)
    assert calls == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "door", ["run(slow)", "start(slow).wait()", "with start(slow): pass", "asyncio.run(cell())"]
)
def test_ctrl_c_in_a_real_process(door, tmp_path):
    """A real SIGINT ends a real program at once, whichever door it came through."""
    if door.startswith("with"):
        call = "with start(slow):\n        pass"
    else:
        call = door
    program = f"""
import asyncio, trio
from june import RunInterrupted, run, start, step

@step(id="first")
async def first() -> int:
    return 1

@step(id="slow", after=[first])
async def slow() -> None:
    await trio.sleep(0.3)  # the program is to wait for the run by then
    print("running", flush=True)
    await trio.sleep(60)

async def cell():
    run(slow)

try:
    {call}
except RunInterrupted as error:
    print("interrupted with", list(error.snapshot()))
"""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert out == "interrupted with ['first']\n"
    assert process.returncode == 0
