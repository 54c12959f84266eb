"""The doors: run, run_async, open_run, start, their options, and what they give."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import time

import pytest
import trio
import trio.lowlevel

from june import (
    GraphError,
    InputError,
    ResultError,
    ResultWarning,
    RunCancelled,
    RunFailed,
    Snapshot,
    SnapshotError,
    Usage,
    current,
    graph,
    open_run,
    run,
    run_async,
    start,
    step,
)


@step(id="plan")
def plan(service: str) -> str:
    return f"Plan {service}"


@step(id="check")
async def check(plan: str) -> list[str]:
    return plan.split()


@step(id="count", runs_on="inline")
def count(check: list[str]) -> int:
    return len(check)


WEB = {"service": "web"}


def statuses(record) -> dict[str, str]:
    return {node.id: "resumed" if node.resumed else node.status for node in record.trace}


def test_run_gives_results_by_target_and_by_id():
    """A single target's value is the result; every step's value is in ``steps``."""
    result = run(count, inputs=WEB)
    assert result.result == 2
    assert result.steps == {"plan": "Plan web", "check": ["Plan", "web"], "count": 2}
    assert run(count, plan, inputs=WEB).result == (2, "Plan web")
    assert result.usage == Usage()


def test_a_second_run_reuses_everything():
    """A run given the snapshot of the one before runs nothing, and gives the same."""
    first = run(count, inputs=WEB)
    for snapshot in (
        first,
        first.snapshot(),
        Snapshot.from_json(first.snapshot().to_json()),
        first.snapshot().to_dict(),
    ):
        second = run(count, inputs=WEB, snapshot=snapshot)
        assert statuses(second) == dict.fromkeys(("plan", "check", "count"), "resumed")
        assert second.steps == first.steps
        assert second.snapshot() == first.snapshot()
        node = second.trace.node("plan")
        assert (node.started, node.finished, node.duration, node.attempts) == (None, None, None, 0)
        assert node.result == "Plan web"


def test_a_changed_input_runs_only_what_it_touches():
    """Early cutoff: where a step runs again to an equal value, the change stops."""
    first = run(count, inputs=WEB)
    second = run(count, inputs={"service": "api"}, snapshot=first)
    assert statuses(second) == {"plan": "done", "check": "done", "count": "done"}
    assert second.trace.node("plan").reason == "input 'service' changed"

    @step(id="parity")
    def parity(number: int) -> bool:
        return number % 2 == 0

    @step(id="use")
    def use(parity: bool) -> str:
        return "even" if parity else "odd"

    third = run(use, inputs={"number": 2})
    fourth = run(use, inputs={"number": 4}, snapshot=third)
    assert statuses(fourth) == {"parity": "done", "use": "resumed"}


async def test_run_async_inside_trio():
    """Inside trio, run_async is the door, and run() says so."""
    assert (await run_async(count, inputs=WEB)).result == 2
    with pytest.raises(RuntimeError) as caught:
        run(count, inputs=WEB)
    assert str(caught.value) == "run() blocks, and trio is running here; use: await run_async(...)"


def test_run_async_outside_of_trio():
    """The doors that need trio say what to use elsewhere."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"^run_async\(\) works inside trio only; use run"):
            await run_async(count, inputs=WEB)
        with pytest.raises(RuntimeError, match=r"^open_run\(\) works inside trio only; use run"):
            async with open_run(count, inputs=WEB):
                pass

    asyncio.run(main())


def test_run_works_where_asyncio_runs():
    """In a notebook cell a loop is running; run() blocks it and works."""

    async def cell() -> int:
        return run(count, inputs=WEB).result

    assert asyncio.run(cell()) == 2


@pytest.mark.parametrize("run_here", [trio.run, asyncio.run])
def test_a_handle_can_be_awaited_under_trio_and_asyncio(run_here):
    """``await handle`` works on both loops, also for a run that has ended, and any number of times."""

    async def main() -> None:
        handle = start(count, inputs=WEB)
        assert (await handle).result == 2
        assert handle.done
        assert (await handle).result == 2

    run_here(main) if run_here is trio.run else run_here(main())


@pytest.mark.parametrize("run_here", [trio.run, asyncio.run])
def test_an_awaited_handle_raises_what_the_run_ended_with(run_here):
    """A failure reaches whoever awaits."""

    async def main() -> None:
        with pytest.raises(RunFailed):
            await start(failing)

    run_here(main) if run_here is trio.run else run_here(main())


@step(id="failing")
async def failing() -> int:
    raise ValueError("boom")


def test_start_waits_at_the_end_of_its_block():
    """As a context manager, the handle waits for the run."""
    with start(count, inputs=WEB) as handle:
        pass
    assert handle.done
    assert handle.wait().result == 2


def test_start_raises_at_the_end_of_its_block():
    """A run that failed raises there, unless somebody has seen it."""
    with pytest.raises(RunFailed), start(failing):
        pass
    with start(failing) as handle, pytest.raises(RunFailed):
        handle.wait()


def test_a_block_that_raises_cancels_its_run():
    """What a block raises comes out as it is, and the run is over by then."""
    running = threading.Event()
    with pytest.raises(KeyError):  # noqa: PT012, SIM117 - the block is what is tested
        with start(forever, on_update=lambda update: running.set()) as handle:
            assert running.wait(10)
            raise KeyError("mine")
    assert handle.done
    assert statuses(handle) == {"forever": "aborted"}


@step(id="forever")
async def forever() -> None:
    await trio.sleep_forever()


def test_wait_takes_a_timeout_and_leaves_the_run_going():
    """TimeoutError says that the run goes on, and it does."""
    handle = start(forever)
    with pytest.raises(TimeoutError) as caught:
        handle.wait(0.01)
    assert str(caught.value) == "the run has not ended within 10 ms; it goes on"
    assert not handle.done
    handle.cancel()
    with pytest.raises(RunCancelled) as ended:
        handle.wait()
    assert str(ended.value) == "the run was cancelled: 0 of 1 steps done"
    assert list(ended.value.snapshot()) == []


async def test_open_run_is_structured(autojump_clock):
    """The end of the block waits for the run; inside, it can be watched and awaited."""
    async with open_run(count, inputs=WEB) as handle:
        assert not handle.done
    assert handle.done
    async with open_run(count, inputs=WEB) as handle:
        assert (await handle).result == 2
    with pytest.raises(RunFailed):
        async with open_run(failing):
            pass
    async with open_run(failing) as handle:
        with pytest.raises(RunFailed):
            await handle
    with pytest.raises(KeyError):
        async with open_run(forever):
            raise KeyError("mine")


async def test_open_run_is_cancelled_with_its_scope(autojump_clock):
    """A cancelled scope around the run cancels its steps, and no RunCancelled hides that."""
    with trio.move_on_after(1) as scope:
        async with open_run(forever) as handle:
            pass
    assert scope.cancelled_caught
    assert statuses(handle) == {"forever": "aborted"}


async def test_run_async_is_cancelled_with_its_scope(autojump_clock):
    """Steps see the cancellation, and the caller's scope catches it."""
    log = []

    @step(id="tidy")
    async def tidy() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("tidied")

    with trio.move_on_after(3) as scope:
        await run_async(tidy)
    assert scope.cancelled_caught
    assert log == ["tidied"]


async def test_nothing_starts_in_a_cancelled_scope(autojump_clock):
    """A scope that is cancelled while a step runs lets no other step start."""
    log = []

    @step(id="first")
    async def first() -> None:
        scope.cancel()
        await trio.sleep(1)

    @step(id="second")
    async def second() -> None:
        log.append("second")

    with trio.CancelScope() as scope:
        await run_async(first, second, concurrency=1)
    assert scope.cancelled_caught
    assert log == []


# -- Errors.


def test_a_failed_run_is_a_group_of_the_steps_own_exceptions():
    """``except*`` finds them, each noted with its step, and what it splits off carries the snapshot."""

    @step(id="other")
    async def other() -> int:
        raise OSError("disk")

    with pytest.raises(RunFailed) as caught:
        run(plan, failing, other, inputs=WEB, on_error="continue")
    failed = caught.value
    assert [type(error) for error in failed.exceptions] == [ValueError, OSError]
    line = failing.__wrapped__.__code__.co_firstlineno
    assert failed.exceptions[0].__notes__ == [f"in step 'failing' (test_running.py:{line})"]
    assert str(failed) == "2 steps failed: 1 of 3 steps done (2 sub-exceptions)"
    split = failed.subgroup(OSError)
    assert isinstance(split, RunFailed)
    assert list(split.snapshot()) == ["plan"]
    assert statuses(split) == {"plan": "done", "failing": "failed", "other": "failed"}
    assert split.usage == Usage()


def test_drain_lets_running_steps_finish_and_starts_nothing_new():
    """The default: what runs is paid for, so it finishes; nothing else is started."""

    @step(id="bad")
    async def bad() -> int:
        await trio.lowlevel.checkpoint()
        raise ValueError

    @step(id="slow")
    async def slow() -> int:
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        return 1

    @step(id="next")
    async def after_slow(slow: int) -> int:
        return slow

    with pytest.raises(RunFailed) as caught:
        run(after_slow, bad)
    assert statuses(caught.value) == {"slow": "done", "next": "queued", "bad": "failed"}
    assert list(caught.value.snapshot()) == ["slow"]


async def test_cancel_cancels_what_runs(autojump_clock):
    """on_error="cancel" ends running steps at once."""

    @step(id="bad")
    async def bad() -> int:
        await trio.sleep(1)
        raise ValueError

    with pytest.raises(RunFailed) as caught:
        await run_async(bad, forever, on_error="cancel")
    assert statuses(caught.value) == {"bad": "failed", "forever": "aborted"}


def test_continue_runs_all_that_does_not_depend_on_the_failure():
    """on_error="continue" blocks only what needs the failed step."""

    @step(id="needs-it")
    async def needs_it(failing): ...

    with pytest.raises(RunFailed) as caught:
        run(needs_it, count, inputs=WEB, on_error="continue")
    assert statuses(caught.value) == {
        "failing": "failed",
        "needs-it": "blocked",
        "plan": "done",
        "check": "done",
        "count": "done",
    }
    assert caught.value.trace.node("needs-it").reason == "blocked by 'failing', which failed"


async def test_a_deadline_cancels_the_run(autojump_clock):
    """The deadline is for the whole run, in seconds."""
    with pytest.raises(RunCancelled) as caught:
        await run_async(quick, forever, deadline=5)
    assert str(caught.value) == "the run's deadline of 5.0 s has passed: 1 of 2 steps done"
    assert list(caught.value.snapshot()) == ["quick"]


@step(id="quick")
async def quick() -> int:
    return 1


async def test_a_cancelled_run_keeps_the_failures_as_its_cause(autojump_clock):
    """Nothing that went wrong is hidden by a cancellation."""
    with pytest.raises(RunCancelled) as caught:
        await run_async(failing, forever, on_error="continue", deadline=5)
    cause = caught.value.__cause__
    assert isinstance(cause, RunFailed)
    assert isinstance(cause.exceptions[0], ValueError)


def test_a_step_that_exits_fails():
    """SystemExit in a step is that step's failure, with the cause."""

    @step(id="exits")
    def exits() -> None:
        raise SystemExit(3)

    with pytest.raises(RunFailed) as caught:
        run(exits)
    [error] = caught.value.exceptions
    line = exits.__wrapped__.__code__.co_firstlineno
    assert str(error) == (
        f"step 'exits' (test_running.py:{line}) raised SystemExit, which would end more than the step; "
        "raise an ordinary exception"
    )
    assert isinstance(error.__cause__, SystemExit)


# -- Options.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inputs": {**WEB, "servise": 1}}, InputError,
         "inputs has 'servise', which no step asks for; did you mean 'service'?"),
        ({"inputs": {**WEB, "zzz": 1}}, InputError,
         "inputs has 'zzz', which no step asks for; the steps ask for service"),
        ({"inputs": {**WEB, "check": 1}}, InputError,
         "inputs has 'check', but step 'check' provides it; to have a value stand in for the step, pass "
         "overrides={'check': ...}"),
        ({"inputs": WEB, "resources": WEB}, InputError, "'service' is in both inputs and resources; keep one"),
        ({"inputs": ["service"]}, TypeError, "inputs must be a mapping from names, not ['service']"),
        ({"inputs": {"service": threading.Lock()}}, InputError, None),
        ({"inputs": WEB, "refresh": ["chekc"]}, InputError,
         "refresh names 'chekc', but the graph has no such step. Did you mean 'check'?"),
        ({"inputs": WEB, "refresh": "check"}, TypeError, "refresh must be a list of ids, not 'check'"),
        ({"inputs": WEB, "overrides": {"zzz": 1}}, InputError,
         "overrides names 'zzz', but the graph has no such step."),
        ({"inputs": WEB, "concurrency": 0}, ValueError, "concurrency must be a whole number from 1, not 0"),
        ({"inputs": WEB, "limits": {"a": 0}}, ValueError, "limits['a'] must be a whole number from 1, not 0"),
        ({"inputs": WEB, "on_error": "stop"}, ValueError,
         "on_error must be 'drain', 'cancel' or 'continue', not 'stop'"),
        ({"inputs": WEB, "deadline": 0}, ValueError, "deadline must be a number of seconds above 0, not 0"),
        ({"inputs": WEB, "on_update": 7}, TypeError, "on_update must be a plain function of an Update, not 7"),
        ({"inputs": WEB, "onerror": 1}, TypeError, "run() has no option 'onerror'; did you mean 'on_error'?"),
        ({"inputs": WEB, "snapshot": {}}, SnapshotError, 'this is not a snapshot: no "version": 1'),
        ({"inputs": WEB, "snapshot": "a.json"}, SnapshotError,
         "snapshot must be a Snapshot, a mapping or a RunResult, not 'a.json'; use Snapshot.load(path) for a "
         "file, or Snapshot.from_json(text)"),
        ({}, GraphError, None),
    ],
)  # fmt: skip
def test_an_option_that_does_not_fit_is_an_error_before_anything_runs(options, error, message):
    """Options are checked before the first step starts."""
    ran = []

    @step(id="check")
    def watched(plan) -> list[str]:
        ran.append(plan)
        return []

    for door in (run, start):
        with pytest.raises(error) as caught:
            door(watched, **options)
        assert ran == []
        if message is not None:
            assert str(caught.value) == message.replace("run()", f"{door.__name__}()")


def test_an_input_that_cannot_be_encoded_suggests_resources():
    """An object that no key can hold is for resources."""
    with pytest.raises(InputError) as caught:
        run(plan, inputs={"service": threading.Lock()})
    text = str(caught.value)
    assert text.startswith("input 'service' cannot be part of a cache key: ")
    assert text.endswith(
        "If it is an object to work with rather than a value, pass resources={'service': ...}."
    )


def test_resources_are_passed_and_never_hashed():
    """A resource reaches the step as it is, and does not change its key."""

    @step(id="use")
    def use(client, size: int) -> int:
        client.append(size)
        return size

    one, other = [], []
    first = run(use, inputs={"size": 1}, resources={"client": one})
    second = run(use, inputs={"size": 1}, resources={"client": other}, snapshot=first)
    assert (one, other) == ([1], [])
    assert statuses(second) == {"use": "resumed"}


def test_refresh_runs_a_step_again_whatever_its_key():
    """``refresh`` takes ids (or steps); consumers follow their values."""
    first = run(count, inputs=WEB)
    for refresh in (["plan"], [plan]):
        second = run(count, inputs=WEB, snapshot=first, refresh=refresh)
        assert statuses(second) == {"plan": "done", "check": "resumed", "count": "resumed"}
        assert second.trace.node("plan").reason == "refresh asked for it"


def test_overrides_stand_in_for_results():
    """An overridden step does not run, nor what only it needs; nothing of it is saved."""
    result = run(count, inputs=WEB, overrides={"check": ["a", "b", "c"]})
    assert result.result == 3
    assert statuses(result) == {"plan": "unneeded", "check": "done", "count": "done"}
    assert list(result.snapshot()) == ["count"]
    # The value keys its consumers as a result would.
    again = run(count, inputs=WEB, snapshot=result, overrides={"check": ["a", "b", "c"]})
    assert statuses(again)["count"] == "resumed"
    assert statuses(run(count, inputs=WEB, snapshot=result))["count"] == "done"


def test_an_override_leaves_the_saved_entry_alone():
    """A run with overrides does not lose what an earlier one saved."""
    first = run(count, inputs=WEB)
    second = run(count, inputs=WEB, snapshot=first, overrides={"check": ["a"]})
    assert list(second.snapshot()) == ["plan", "check", "count"]


def test_strict_turns_a_result_warning_into_an_error():
    """What would be a warning fails the step."""

    @step(id="pair")
    def pair():
        return (1, 2)

    with pytest.warns(ResultWarning, match="^step 'pair' .* finished, but its result is not saved: result"):
        result = run(pair)
    assert result.result == (1, 2)
    assert list(result.snapshot()) == []
    with pytest.raises(RunFailed) as caught:
        run(pair, strict=True)
    assert isinstance(caught.value.exceptions[0], ResultError)


def test_a_warning_that_is_an_error_fails_the_step():
    """Under -W error the warning is the step's failure, and the run survives it."""

    @step(id="pair")
    def pair():
        return (1, 2)

    with pytest.RaisesGroup(ResultWarning):
        run(pair)


# -- Watching.


def test_on_update_sees_every_change():
    """Each change of status, progress and notes is told, in order, on one thread."""
    seen = []

    @step(id="work")
    def work() -> int:
        current().progress(1, 2)
        current().note("half")
        return current().attempt

    threads = set()

    def watch(update):
        threads.add(threading.get_ident())
        seen.append((update.kind, update.node.id, update.node.status))

    result = run(work, on_update=watch)
    assert seen == [
        ("status", "work", "running"),
        ("progress", "work", "running"),
        ("note", "work", "running"),
        ("status", "work", "done"),
    ]
    assert len(threads) == 1
    node = result.trace.node("work")
    assert node.progress == (1, 2)
    assert node.notes == ("half",)


def test_on_update_may_save_as_steps_finish(tmp_path):
    """The user's own saving loop: when the snapshot has grown, write it."""
    sizes = []

    def save(update):
        snapshot = update.handle.snapshot()
        if not sizes or len(snapshot) != sizes[-1]:
            sizes.append(len(snapshot))
            snapshot.save(tmp_path / "run.json")

    result = run(count, inputs=WEB, on_update=save)
    assert sizes == [0, 1, 2, 3]
    assert Snapshot.load(tmp_path / "run.json") == result.snapshot()


def test_an_exception_in_on_update_fails_the_run():
    """What watches a run must not break unseen."""

    def watch(update):
        raise LookupError("watcher")

    with pytest.raises(RunFailed) as caught:
        run(count, inputs=WEB, on_update=watch)
    [error] = caught.value.exceptions
    assert isinstance(error, LookupError)
    assert error.__notes__ == ["raised by on_update, which fails the run"]


def test_snapshots_can_be_taken_from_any_thread_while_the_run_goes():
    """A snapshot is one moment: its length and its entries agree, and it never changes."""

    @step(id="tick")
    async def tick(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return number

    many = [tick.bind(id=f"t{number}", number=number) for number in range(3000)]
    taken = []
    with start(many) as handle:
        while not handle.done:
            snapshot = handle.snapshot()
            taken.append((snapshot, len(snapshot)))
            with contextlib.suppress(TimeoutError):
                handle.wait(0.001)
    assert [len(list(snapshot)) for snapshot, _ in taken] == [len(snapshot) for snapshot, _ in taken]
    lengths = [length for _, length in taken]
    assert lengths == sorted(lengths)
    assert len(handle.snapshot()) == 3000


# -- What steps see of each other.


def test_context_variables_stay_apart():
    """A step sees what the caller of the run had set, and nothing that another step sets."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller")
    seen = []

    def body(name):
        seen.append((name, variable.get()))
        variable.set(name)

    @step(id="a")
    async def a():
        body("a")

    @step(id="b", after=[a])
    async def b():
        body("b")
        await trio.lowlevel.checkpoint()
        assert variable.get() == "b"

    @step(id="c", after=[b])
    def c():
        body("c")

    @step(id="d", after=[c], runs_on="inline")
    def d():
        body("d")

    @step(id="e", after=[d], runs_on="asyncio")
    async def e():
        body("e")

    run(e)
    assert seen == [(name, "caller") for name in "abcde"]
    assert variable.get() == "caller"


def test_current_is_for_steps():
    """``current()`` says so outside of a step; inside, it knows the step, also in tasks it starts."""
    with pytest.raises(RuntimeError, match=r"^current\(\) was called outside of a step$"):
        current()
    seen = []

    @step(id="parent")
    async def parent():
        async def child():
            seen.append(current().id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
        await trio.to_thread.run_sync(lambda: seen.append(current().id))

    run(parent)
    assert seen == ["parent", "parent"]


def test_runs_do_not_disturb_each_other():
    """Many runs at once, of one graph, in threads of their own."""
    built = graph(count)
    handles = [start(built, inputs={"service": str(number)}) for number in range(8)]
    assert [handle.wait().steps["plan"] for handle in handles] == [f"Plan {number}" for number in range(8)]


def test_a_kept_graph_sees_a_constant_rebound_between_two_runs():
    """Code is hashed for each run, not once for a graph."""
    names: dict = {"step": step, "__name__": "flows", "LIMIT": 1}
    exec("@step(id='one')\ndef one() -> int: return LIMIT", names)
    built = graph(names["one"])
    first = run(built)
    names["LIMIT"] = 2
    second = run(built, snapshot=first)
    assert (first.result, second.result) == (1, 2)


def test_wait_inside_a_loop_that_the_run_needs_is_refused():
    """wait() would stand in the way of the very run that it waits for."""

    async def main():
        async with open_run(count, inputs=WEB) as handle:
            with pytest.raises(RuntimeError, match="use: await handle$"):
                handle.wait()

    trio.run(main)


def test_results_are_typed_as_the_step_returns():
    """A wrapped function's result is what the wrapper returns."""

    def doubled(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return 2 * function(*args, **kwargs)

        return wrapper

    @step(id="one")
    @doubled
    def one(number: int) -> int:
        return number

    assert run(one, inputs={"number": 2}).result == 4


def test_start_returns_at_once():
    """The run of ``start`` is in another thread."""
    gate = threading.Event()

    @step(id="gated")
    def gated() -> int:
        gate.wait(10)
        return 1

    begun = time.monotonic()
    handle = start(gated)
    assert time.monotonic() - begun < 5
    assert not handle.done
    gate.set()
    assert handle.wait(10).result == 1
