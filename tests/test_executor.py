"""Slots, limits, threads, timeouts, retries, and what a step may leave behind."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest
import trio
import trio.lowlevel

from june import (
    Handle,
    ResultWarning,
    Retry,
    RunCancelled,
    RunFailed,
    RunInterrupted,
    StepError,
    StepTimeoutError,
    current,
    graph,
    open_run,
    run,
    run_async,
    start,
    step,
)


def statuses(record) -> dict[str, str]:
    return {node.id: "resumed" if node.resumed else node.status for node in record.trace}


class Gauge:
    """Counts how many are inside at once, from any thread."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.now -= 1


# -- Slots and limits.


async def test_slots_bound_what_runs_at_once(autojump_clock):
    """A run has ``concurrency`` slots; steps beyond that wait for one."""
    gauge = Gauge()

    @step(id="work")
    async def work(number: int) -> int:
        with gauge:
            await trio.sleep(1)
        return number

    many = [work.bind(id=f"w{number}", number=number) for number in range(10)]
    begun = trio.current_time()
    result = await run_async(many, concurrency=3)
    assert result.result == tuple(range(10))
    assert gauge.most == 3
    assert trio.current_time() - begun == pytest.approx(4)


def test_slots_bound_threads_too():
    """Thread steps hold slots like any other."""
    gauge = Gauge()
    both = threading.Barrier(2)

    @step(id="work")
    def work(number: int) -> int:
        with gauge:
            both.wait(10)
        return number

    run([work.bind(id=f"w{number}", number=number) for number in range(8)], concurrency=2)
    assert gauge.most == 2


async def test_a_limit_bounds_the_steps_that_name_it(autojump_clock):
    """A named limit is held beside a slot, and others do not wait for it."""
    gauge = Gauge()
    log = []

    @step(id="call", limit="api")
    async def call(number: int) -> None:
        with gauge:
            await trio.sleep(1)

    @step(id="free")
    async def free() -> None:
        log.append(trio.current_time() - begun)

    calls = [call.bind(id=f"c{number}", number=number) for number in range(4)]
    begun = trio.current_time()
    await run_async(calls, free, limits={"api": 2})
    assert gauge.most == 2
    assert log == [0]
    assert trio.current_time() - begun == pytest.approx(2)


def test_a_limit_that_the_run_lacks_is_named():
    """A step's limit must be among the run's."""

    @step(id="call", limit="opnai")
    async def call() -> None: ...

    line = call.__wrapped__.__code__.co_firstlineno
    with pytest.raises(Exception) as caught:
        run(call, limits={"openai": 4})
    assert str(caught.value) == (
        f"step 'call' (test_executor.py:{line}) holds one of limit 'opnai' while it runs, but the run was given no "
        "such limit. Did you mean 'openai'?"
    )


async def test_ready_steps_start_in_graph_order(autojump_clock):
    """With one slot, steps run in graph order, whatever became ready first."""
    log = []

    @step(id="work")
    async def work(name: str) -> str:
        log.append(name)
        await trio.sleep(1)
        return name

    first = work.bind(id="first", name="first")
    behind = work.bind(id="behind", name=first)
    others = [work.bind(id=f"other{number}", name=f"other{number}") for number in range(2)]
    await run_async([behind, *others], concurrency=1)
    assert [one.id for one in graph([behind, *others]).steps] == ["first", "behind", "other0", "other1"]
    assert log == ["first", "first", "other0", "other1"]


async def test_reused_steps_take_no_slot(autojump_clock):
    """While every slot is taken, steps found in the snapshot are done, and so are those behind them."""

    @step(id="quick")
    async def quick() -> int:
        return 1

    @step(id="behind")
    async def behind(quick: int) -> int:
        return quick

    before = await run_async(behind)
    seen = {}

    @step(id="slow")
    async def slow() -> None:
        await trio.sleep(5)

    def watch(update):
        seen[update.node.id, update.node.status] = trio.current_time() - begun

    begun = trio.current_time()
    await run_async(slow, behind, snapshot=before, concurrency=1, on_update=watch)
    assert seen["behind", "done"] == 0
    assert seen["slow", "done"] == 5


def test_a_million_waits_are_not_needed_for_a_turn():
    """Steps that never wait let a deadline through every now and then."""

    @step(id="busy")
    async def busy(number: int) -> None:
        time.sleep(0.001)  # noqa: ASYNC251 - on purpose: a step that never gives the loop a turn

    with pytest.raises(RunCancelled):
        run([busy.bind(id=str(number), number=number) for number in range(2000)], deadline=0.05)


# -- Timeouts.


async def test_a_timeout_cancels_an_async_step(autojump_clock):
    """A step that takes too long fails on time."""

    @step(id="slow", timeout=2)
    async def slow() -> None:
        await trio.sleep_forever()

    begun = trio.current_time()
    with pytest.raises(RunFailed) as caught:
        await run_async(slow)
    assert trio.current_time() - begun == pytest.approx(2)
    [error] = caught.value.exceptions
    line = slow.__wrapped__.__code__.co_firstlineno
    assert isinstance(error, StepTimeoutError)
    assert isinstance(error, TimeoutError)
    assert str(error) == f"step 'slow' (test_executor.py:{line}) took longer than its timeout of 2.0 s"


def test_a_timeout_keeps_its_word_on_a_thread():
    """The step fails on time; its thread keeps the slot until it ends, and its late result counts nowhere."""
    gate = threading.Event()
    log = []

    @step(id="stuck", timeout=0.05)
    def stuck() -> str:
        gate.wait(10)
        log.append(("stuck ended", current().cancelled))
        return "late"

    @step(id="next", runs_on="inline")
    def after_it() -> int:
        log.append("next")
        return 1

    def watch(update):
        if update.node.id == "stuck" and update.node.status == "failed":
            log.append("failed")
            # With one slot, the next step waits for the thread; let it end a moment later.
            threading.Timer(0.05, gate.set).start()

    with pytest.raises(RunFailed) as caught:
        run(stuck, after_it, concurrency=1, on_error="continue", on_update=watch)
    assert log == ["failed", ("stuck ended", True), "next"]
    assert statuses(caught.value) == {"stuck": "failed", "next": "done"}
    assert list(caught.value.snapshot()) == ["next"]


def test_a_run_does_not_wait_for_a_thread_left_behind():
    """When nothing else is to be done, the run ends without the thread."""
    gate = threading.Event()

    @step(id="stuck", timeout=0.02)
    def stuck() -> None:
        gate.wait(10)

    begun = time.monotonic()
    with pytest.RaisesGroup(StepTimeoutError):
        run(stuck)
    assert time.monotonic() - begun < 5
    gate.set()


def test_cancelling_leaves_threads_behind_and_tells_them():
    """A cancelled run ends at once; ``current().cancelled`` lets the thread stop early."""
    running = threading.Event()
    stopped = threading.Event()

    @step(id="loop")
    def loop() -> None:
        running.set()
        while not current().cancelled:
            time.sleep(0.001)
        stopped.set()

    handle = start(loop)
    assert running.wait(10)
    handle.cancel()
    with pytest.raises(RunCancelled):
        handle.wait(10)
    assert statuses(handle) == {"loop": "aborted"}
    assert len(handle.snapshot()) == 0
    assert stopped.wait(10)


async def test_what_stops_early_has_no_result():
    """What a step returns after it was told to stop is no result, though the run is still there to take it."""
    stopped = threading.Event()

    @step(id="loop")
    def loop(scope: trio.CancelScope) -> int:
        cancel.set()
        while not current().cancelled:
            time.sleep(0.001)
        stopped.set()
        return 7

    @step(id="holds on")
    async def holds_on(scope: trio.CancelScope) -> int:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(cancel.wait)
            scope.cancel()
            await trio.to_thread.run_sync(stopped.wait)
            while handles[0].trace.node("loop").status == "running":  # noqa: ASYNC110 # it has no event
                await trio.sleep(0.001)
        return 1

    cancel = threading.Event()
    handles: list[Handle] = []
    with trio.CancelScope() as scope:
        async with open_run([loop, holds_on], resources={"scope": scope}) as handle:
            handles.append(handle)
            await trio.sleep_forever()
    assert statuses(handles[0]) == {"loop": "aborted", "holds on": "done"}
    assert "loop" not in handles[0].snapshot()


# -- Retries.


async def test_a_wait_between_attempts_holds_no_slot(autojump_clock):
    """While one step waits for its next attempt, another has the slot."""
    log = []

    @step(id="flaky", retry=Retry(3, wait=10))
    async def flaky() -> int:
        log.append(("flaky", trio.current_time() - begun))
        if len(log) < 4:
            raise OSError
        return current().attempt

    @step(id="other")
    async def other() -> None:
        log.append(("other", trio.current_time() - begun))
        await trio.sleep(5)

    begun = trio.current_time()
    result = await run_async(flaky, other, concurrency=1)
    assert log == [("flaky", 0), ("other", 0), ("flaky", 10), ("flaky", 20)]
    assert result.steps["flaky"] == 3
    assert result.trace.node("flaky").attempts == 3


async def test_a_retry_that_gives_up_raises_the_last_error(autojump_clock):
    """The step's own exception comes out, once."""
    calls = []

    @step(id="flaky", retry=Retry(3, on=OSError, wait=1))
    async def flaky() -> None:
        calls.append(1)
        raise OSError(len(calls))

    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="3")):
        await run_async(flaky)


async def test_a_retry_never_swallows_a_cancellation(autojump_clock):
    """A cancelled step is not tried again, nor is one that waits for its next attempt."""
    calls = []

    @step(id="slow", retry=Retry(5, on=lambda error: True, wait=0))
    async def slow() -> None:
        calls.append("slow")
        await trio.sleep_forever()

    @step(id="flaky", retry=Retry(5, wait=100))
    async def flaky() -> None:
        calls.append("flaky")
        raise OSError

    with pytest.raises(RunCancelled):
        await run_async(slow, flaky, deadline=5)
    assert sorted(calls) == ["flaky", "slow"]


async def test_a_failure_elsewhere_ends_the_wait_for_another_attempt(autojump_clock):
    """When nothing new may start, a step that waits for its next attempt fails with what it has."""

    @step(id="flaky", retry=Retry(5, wait=1000))
    async def flaky() -> None:
        raise OSError("flaky")

    @step(id="bad")
    async def bad() -> None:
        await trio.sleep(1)
        raise ValueError("bad")

    begun = trio.current_time()
    with pytest.raises(RunFailed) as caught:
        await run_async(flaky, bad)
    assert trio.current_time() - begun < 10
    assert sorted(map(str, caught.value.exceptions)) == ["bad", "flaky"]


async def test_each_attempt_has_the_timeout_anew(autojump_clock):
    """``timeout`` is for one attempt, and a timeout is worth another try."""
    calls = []

    @step(id="slow", timeout=1, retry=Retry(3, on=TimeoutError, wait=0))
    async def slow() -> int:
        calls.append(trio.current_time())
        if len(calls) < 3:
            await trio.sleep_forever()
        return len(calls)

    assert (await run_async(slow)).result == 3


# -- asyncio.


def test_an_asyncio_step_has_a_running_loop():
    """A step that needs asyncio runs there, and two of them at once."""

    @step(id="meet", runs_on="asyncio")
    async def meet(number: int) -> str:
        await asyncio.sleep(0)
        return asyncio.current_task().__class__.__module__

    many = [meet.bind(id=str(number), number=number) for number in range(3)]
    assert run(many).result == ("_asyncio",) * 3


def test_cancelling_cancels_the_asyncio_task():
    """The task is cancelled, and the run waits for its cleanup."""
    running = threading.Event()
    log = []

    @step(id="slow", runs_on="asyncio")
    async def slow() -> None:
        running.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            log.append("tidied")

    handle = start(slow)
    assert running.wait(10)
    handle.cancel()
    with pytest.raises(RunCancelled):
        handle.wait(10)
    assert log == ["cancelled", "tidied"]
    assert statuses(handle) == {"slow": "aborted"}


def test_a_timeout_cancels_an_asyncio_step():
    """The timeout holds there too."""

    @step(id="slow", runs_on="asyncio", timeout=0.02)
    async def slow() -> None:
        await asyncio.sleep(3600)

    with pytest.RaisesGroup(StepTimeoutError):
        run(slow)


def test_a_step_that_should_say_asyncio_is_told():
    """A step that meets trio with asyncio's calls gets a note with the cure."""

    @step(id="wrong")
    async def wrong() -> None:
        await asyncio.sleep(1)

    @step(id="wrong2")
    async def wrong2() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RunFailed) as caught:
        run(wrong, wrong2, on_error="continue")
    for error in caught.value.exceptions:
        assert error.__notes__[0] == "this step uses asyncio; run it there with @step(..., runs_on='asyncio')"


def test_another_librarys_cancellation_is_a_failure():
    """asyncio.CancelledError out of a step fails it, with the cause."""

    @step(id="odd")
    async def odd() -> None:
        raise asyncio.CancelledError

    @step(id="odd2", runs_on="asyncio")
    async def odd2() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RunFailed) as caught:
        run(odd, odd2, on_error="continue")
    assert [type(error) for error in caught.value.exceptions] == [StepError, StepError]
    assert all(isinstance(error.__cause__, asyncio.CancelledError) for error in caught.value.exceptions)


# -- What a step may leave behind.


def test_a_scope_left_open_does_not_reach_the_next_step():
    """A step that leaves a cancel scope open fails, and no other step is cancelled by it."""

    @step(id="leaves")
    async def leaves() -> int:
        scope = trio.CancelScope()
        scope.__enter__()
        scope.cancel()
        return 1

    @step(id="next", after=[])
    async def after_it(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return number

    others = [after_it.bind(id=str(number), number=number) for number in range(20)]
    with pytest.raises(RunFailed) as caught:
        run(leaves, others, on_error="continue", concurrency=1)
    [error] = caught.value.exceptions
    line = leaves.__wrapped__.__code__.co_firstlineno
    assert str(error) == (
        f"step 'leaves' (test_executor.py:{line}) ended with a cancel scope or a nursery still open; "
        "leave each one before the step returns"
    )
    assert sum(status == "done" for status in statuses(caught.value).values()) == 20


@pytest.mark.parametrize("timeout", [None, 100])
async def test_a_scope_left_open_after_waiting(timeout, autojump_clock):
    """The same where the step has waited, with and without a timeout."""

    @step(id="leaves", timeout=timeout)
    async def leaves() -> int:
        await trio.sleep(1)
        trio.CancelScope(deadline=trio.current_time() + 1).__enter__()
        return 1

    @step(id="next")
    async def after_it() -> int:
        await trio.sleep(5)
        return 1

    with pytest.raises(RunFailed) as caught:
        await run_async(leaves, after_it, on_error="continue", concurrency=1)
    assert statuses(caught.value) == {"leaves": "failed", "next": "done"}


async def test_a_lock_left_held_is_not_the_next_steps(autojump_clock):
    """A lock that a step leaves held breaks when the step ends, as it would with a task of its own."""
    lock = trio.Lock()
    seen = []

    @step(id="holds")
    async def holds() -> None:
        await lock.acquire()

    @step(id="wants", after=[holds])
    async def wants() -> None:
        try:
            await lock.acquire()
        except (trio.BrokenResourceError, RuntimeError) as error:
            seen.append(type(error))

    await run_async(wants, concurrency=1)
    assert seen == [trio.BrokenResourceError]


def test_a_coroutine_from_a_plain_function_is_named():
    """A plain function that returns a coroutine was meant to be async."""

    async def inner() -> int:
        return 1

    @step(id="forgot")
    def forgot():
        return inner()

    with pytest.RaisesGroup(
        pytest.RaisesExc(TypeError, match="^the function returned a coroutine; declare it with async def\n")
    ):
        run(forgot)


def test_a_changed_argument_is_noticed():
    """A step that changes what it was given is named, and others get the saved value."""

    @step(id="rows")
    def rows() -> list[int]:
        return [1, 2]

    @step(id="changes")
    def changes(rows: list[int]) -> int:
        rows.append(3)
        return len(rows)

    @step(id="reads", after=[changes])
    def reads(rows: list[int]) -> int:
        return len(rows)

    with pytest.warns(match="^step 'changes' .* changed its argument, the result of step 'rows'"):
        result = run(changes, reads)
    assert result.result == (3, 2)
    assert result.steps["rows"] == [1, 2]


def test_a_sole_consumer_may_not_change_what_is_kept():
    """What a step's only consumer does to its result shows nowhere else."""

    @step(id="rows")
    def rows() -> list[int]:
        return [1, 2]

    @step(id="changes")
    def changes(rows: list[int]) -> int:
        rows.append(3)
        return len(rows)

    result = run(changes)
    assert result.steps == {"rows": [1, 2], "changes": 3}


def test_a_second_attempt_gets_its_arguments_unchanged():
    """What a failed attempt did to its arguments, the next does not see."""
    seen = []

    @step(id="rows")
    def rows() -> list[int]:
        return [1, 2]

    @step(id="changes", retry=Retry(2, wait=0))
    def changes(rows: list[int]) -> int:
        seen.append(len(rows))
        rows.append(3)
        if len(seen) < 2:
            raise OSError
        return len(rows)

    assert run(changes).result == 3
    assert seen == [2, 2]


# -- Ctrl-C.


@pytest.mark.parametrize("runs_on", [None, "inline", "async"])
def test_ctrl_c_interrupts_a_run(runs_on):
    """Ctrl-C ends the run with what had finished, whether June or a step had the processor."""

    @step(id="quick")
    async def quick() -> int:
        return 1

    if runs_on == "async":

        @step(id="hit", after=[quick])
        async def hit() -> None:
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
    else:

        @step(id="hit", after=[quick], runs_on=runs_on)
        def hit() -> None:
            if runs_on is None:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                threading.Event().wait(0.2)
            else:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(RunInterrupted) as caught:
        run(hit)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert list(caught.value.snapshot()) == ["quick"]
    assert str(caught.value) == "interrupted: 1 of 2 steps done"


def test_ctrl_c_interrupts_a_run_beside_a_loop():
    """The same where run() blocks a running asyncio loop, and the run has a thread of its own."""

    @step(id="hit")
    async def hit() -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        await trio.sleep_forever()

    async def cell():
        # asyncio.run has a handler of its own; a notebook's loop has Python's.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(hit)

    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(RunInterrupted):
            asyncio.run(cell())
    finally:
        signal.signal(signal.SIGINT, before)


# -- Many.


def test_a_hundred_thousand_links_and_skips():
    """Long chains render, run, skip and block without recursion."""

    @step(id="link")
    async def link(before: int) -> int:
        return before + 1

    last = link.bind(id="0", before=0)
    for number in range(1, 20_000):
        last = link.bind(id=str(number), before=last)
    first = run(last)
    assert first.result == 20_000
    assert run(last, snapshot=first).result == 20_000

    @step(id="no", when=lambda: False)
    async def no() -> int:
        return 1

    last = link.bind(id="s0", before=no)
    for number in range(1, 20_000):
        last = link.bind(id=f"s{number}", before=last)
    assert run(last).result is None


# -- Arguments that change while others look.


async def test_what_was_made_beside_a_change_is_not_saved(autojump_clock):
    """A step that ran while another changed what both take may have seen the change: its result is not kept."""

    @step(id="rows")
    async def rows() -> list[int]:
        return [1]

    @step(id="changes")
    async def changes(rows: list[int]) -> int:
        await trio.sleep(1)
        rows.append(2)
        await trio.sleep(1)
        return 0

    @step(id="reads")
    async def reads(rows: list[int]) -> int:
        await trio.sleep(5)
        return len(rows)

    @step(id="early")
    async def early(rows: list[int]) -> int:
        await trio.sleep(1.5)
        return len(rows)

    @step(id="late", after=[reads])
    async def late(rows: list[int]) -> int:
        return len(rows)

    with pytest.warns(ResultWarning) as caught:
        result = await run_async(changes, reads, early, late)
    assert list(result.snapshot()) == ["rows", "late"]
    assert result.steps["late"] == 1
    texts = [str(warning.message) for warning in caught]
    assert any("'early'" in text and "(or one that ran beside it: 'changes' " in text for text in texts)
    assert any(
        "'reads'" in text and "was made while another step changed the result of step 'rows'" in text
        for text in texts
    )


async def test_a_shared_input_that_changes_is_undone(autojump_clock):
    """The same for what the run was given."""

    @step(id="changes")
    async def changes(rows: list[int]) -> int:
        rows.append(2)
        return len(rows)

    @step(id="reads", after=[changes])
    async def reads(rows: list[int]) -> int:
        return len(rows)

    with pytest.warns(
        match=r"changed its argument, the input 'rows'\. Steps that take it later get it as it was"
    ):
        result = await run_async(changes, reads, inputs={"rows": [1]})
    assert result.result == (2, 1)


async def test_an_argument_that_nobody_changes_is_no_concern(autojump_clock):
    """Steps and instances that take one mutable result, also twice or at the same time, are all saved."""

    @step(id="rows")
    async def rows() -> list[int]:
        return [1]

    @step(id="twice", needs={"one": rows, "two": rows})
    async def twice(one: list, two: list) -> int:
        return len(one) + len(two)

    @step(id="many", each={"number": "numbers"})
    async def many(number: int, rows: list) -> int:
        await trio.sleep(number)
        return number

    result = await run_async(twice, many, inputs={"numbers": [2, 1]})
    assert list(result.snapshot()) == ["rows", "twice", "many[1]", "many[2]"]


# -- What consumers get is what was saved.


def same_resumed(*targets, **options) -> None:
    """A run resumed without its last step gives what the whole run gave."""
    first = run(*targets, **options)
    last = next(reversed(first.steps))
    again = run(*targets, snapshot=first.snapshot().without([last]), **options)
    assert again.steps == first.steps


def test_items_that_an_instance_changes_are_its_own():
    """An ``each`` step that changes its items changes nothing for others."""

    @step(id="rows")
    def rows() -> list[list[int]]:
        return [[1], [2]]

    @step(id="each", each={"row": rows})
    def each(row: list[int]) -> int:
        row.append(0)
        return len(row)

    @step(id="after", after=[each])
    def after(rows: list) -> list[list[int]]:
        return rows

    assert run(after, each).steps["after"] == [[1], [2]]
    same_resumed(each, after)
    given = [[1], [2]]
    over = step(id="over", each={"row": "given"})(each.__wrapped__)
    assert run(over, inputs={"given": given}).result == [2, 2]
    assert given == [[1], [2]]


def test_a_result_that_is_handed_on_is_no_longer_the_same_object():
    """A step that returns its argument, or a part of it, shares nothing with the step it came from."""

    @step(id="rows")
    def rows() -> list[int]:
        return [1]

    @step(id="same")
    def same(rows: list[int]) -> list[int]:
        return rows

    @step(id="changes")
    def changes(same: list[int]) -> int:
        same.append(9)
        return len(same)

    assert run(changes).steps == {"rows": [1], "same": [1], "changes": 2}
    same_resumed(changes)


def test_a_result_that_a_step_holds_on_to_cannot_change_afterwards():
    """What a step keeps in a global and changes later does not reach its consumers."""
    kept: list[list[int]] = []

    @step(id="keeps", version="1")
    def keeps() -> list[int]:
        kept.append([1])
        return kept[-1]

    @step(id="spoils", after=[keeps], version="1")
    def spoils() -> int:
        kept[-1].append(2)
        return 0

    @step(id="reads", after=[spoils], version="1")
    def reads(keeps: list[int]) -> int:
        return len(keeps)

    assert run(reads).result == 1


def test_bound_lists_and_defaults_are_not_shared():
    """A step that changes a bound list, or a default, changes it for no other copy and no later run."""
    shared = [0]

    @step(id="bound")
    def bound(rows: list[int], more: list[int] = []) -> int:  # noqa: B006 - what it is about
        rows.append(1)
        more.append(1)
        return len(rows) + len(more)

    copies = [bound.bind(id=str(number), rows=shared) for number in range(3)]
    first = run(copies)
    assert first.result == (3, 3, 3)
    assert shared == [0]
    assert set(statuses(run(copies, snapshot=first)).values()) == {"resumed"}


async def test_a_result_made_beside_a_change_taints_no_other(autojump_clock):
    """That one result cannot be trusted says nothing of the next that is taken."""

    @step(id="rows")
    async def rows() -> list[int]:
        return [1]

    @step(id="changes", save=False)
    async def changes(rows: list[int]) -> int:
        rows.append(2)
        await trio.sleep(1)
        return 0

    @step(id="beside", save=False)
    async def beside(rows: list[int]) -> int:
        await trio.sleep(2)
        return 0

    @step(id="other")
    async def other() -> int:
        await trio.sleep(3)
        return 1

    with pytest.warns(ResultWarning):
        result = await run_async(changes, beside, other)
    assert list(result.snapshot()) == ["rows", "other"]
