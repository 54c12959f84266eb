"""
The executor: a pool of trio tasks that take ready steps and run them.

A worker asks the run for the next step, runs it, and tells the run how it ended. Steps that never wait are
run one after the other by a single worker; only when a step is about to wait is another one woken (or
made) for what else there is to do. Slots are counted by the run: a worker is not one, so that steps found
in the snapshot need none, and a wait between two attempts holds none.

Plain functions go to threads, and coroutines that need asyncio to a loop in a thread. No worker waits for
those: what they give comes back by a callback on the loop.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from time import perf_counter
from typing import Any

import trio

from june import _trampoline
from june._exceptions import holds, see_through, without
from june._text import add_note, duration, message_of
from june._threads import Threads
from june._workers import LOCK_HOLDERS, Worker
from june.approvals import ApprovalRequest, Desk, Pending
from june.conversations import converse
from june.errors import ApprovalRejected, ResultWarning, SnapshotError, StepError, StepTimeoutError
from june.hosting import Host, Hosting
from june.inputs import NO_ARGUMENTS
from june.runs import PAUSE, Run
from june.slots import Slots
from june.stepruns import StepRun, as_failure, name_of
from june.traces import TraceNode

_BREATH_SECONDS = 0.01
"""How long a worker goes on with steps that never wait before it lets others have a turn."""

Watcher = Callable[[str, TraceNode, str | None], None]


class _Attempt:
    """
    An attempt at a step that runs in another thread.

    Attributes:
        one: The step.
        abandoned: Whether the step is over without it; it still holds its slot until it really ends.
        watch: The scope of the task that waits for its timeout, if it has one.
    """

    __slots__ = ("abandoned", "one", "watch")

    def __init__(self, one: StepRun) -> None:
        self.one = one
        self.abandoned = False
        self.watch: trio.CancelScope | None = None


class Executor:
    """
    Executes one run.

    Attributes:
        run: The run's state.
        cause: Why the run was cut off: ``failure``, ``cancel``, ``deadline``, ``interrupt``, ``update``
            (a watcher raised), or None.
        error: What the watcher raised, or None.
        broken: What went wrong inside June, or None.
    """

    def __init__(
        self, run: Run, context: Context, watcher: Watcher | None, deadline: float | None, desk: Desk
    ) -> None:
        """
        Args:
            run: The run, not begun.

            context: The context variables that each step is to see.

            watcher: Called on the loop with what changed, its node, and the text of a note; or None.

            deadline: Seconds for the whole run, or None.

            desk: Where requests for approval wait.
        """
        self.run = run
        self.desk = desk
        self._slots = Slots(run.queues, self._wake)
        self._hosting = Hosting(run.tell, self._slots, desk)
        self.cause: str | None = None
        self.error: BaseException | None = None
        self.broken: BaseException | None = None
        self._context = context
        self._watcher = watcher
        self._deadline = deadline
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = 0
        self._idle = trio.lowlevel.ParkingLot()
        # Steps between two attempts: what the last one raised, and the scope of the wait while it lasts.
        self._between: dict[StepRun, tuple[Exception, trio.CancelScope | None]] = {}
        self._drained = False
        self._attempts: set[_Attempt] = set()
        self._cancel_asked = False
        self._asyncio: Any = None
        self._asking: dict[StepRun, trio.CancelScope] = {}
        # The steps whose lines the journal's thread has written, or could not.
        self._written: deque[tuple[StepRun, SnapshotError | None]] = deque()

    # -- From outside, from any thread.

    def cancel(self, cause: str = "cancel") -> None:
        """Cut the run off; one that is over stays as it is."""
        self._cancel_asked = True
        token = self._token
        if token is None:
            self.cause = self.cause or cause
        elif threading.get_ident() == self._thread:
            self._cut(cause)
        else:
            try:
                token.run_sync_soon(self._cut, cause)
            except trio.RunFinishedError:
                pass

    def note_interrupt(self) -> None:
        """Note that Ctrl-C came when there was nothing left to cut off."""
        self.cause = "interrupt"

    # -- The run.

    @trio.lowlevel.enable_ki_protection
    async def execute(self) -> None:
        """
        Run until everything is done, has failed, or is cut off.

        Steps' failures are not raised; they are on the run.

        Raises:
            trio.Cancelled: If the task that called it is cancelled.
        """
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._over = trio.Event()
        self._threads = Threads(self._token, self._delivered)
        if self._watcher is not None:
            self.run.on_change = self._changed
        if self.run.journal is not None:
            self.run.journal.attend(self._line_written, self._journal_broke)
        try:
            await self._execute()
        except BaseException as error:
            # Only now can a second Ctrl-C, or the caller's own cancellation, come through the nursery.
            if holds(error, KeyboardInterrupt):
                self.cause = "interrupt"
            if without(error, KeyboardInterrupt) is not None:
                raise
        finally:
            self.run.cancelled = self.cause is not None or self.run.cancelled
            self._threads.close()
            for attempt in self._attempts:
                attempt.abandoned = True
            try:
                await self._hosting.close()
                if self._asyncio is not None:
                    with trio.CancelScope(shield=True):
                        await self._asyncio.close()
            except KeyboardInterrupt:
                # A second Ctrl-C does not wait for what ignores the first.
                self.cause = "interrupt"
            finally:
                await self._finish_journal()
                self.run.close()

    async def _execute(self) -> None:
        run = self.run
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            scope = nursery.cancel_scope
            if self._deadline is not None:
                scope.deadline = trio.current_time() + self._deadline
            if self._cancel_asked:
                self._cut(self.cause or "cancel")
            finished = False
            try:
                try:
                    for kind in run.unprepared:
                        await kind.prepare()
                finally:
                    run.begin()
                    self._check_failures()
                nursery.start_soon(self._work)
                await self._over.wait()
                finished = True
            except KeyboardInterrupt:
                self.cause = "interrupt"
                self._cut("interrupt")
            except trio.Cancelled:
                run.stopping = run.cancelled = True
                raise
            scope.cancel()
        if not finished and self.cause is None:
            # A scope around this one would have raised. What is left is the deadline, or a step that got hold
            # of the nursery that it runs in.
            self.cause = "deadline" if trio.current_time() >= scope.deadline else "cancel"

    def _cut(self, cause: str) -> None:
        """Cancel everything that runs."""
        if self._over.is_set():
            return
        if self.cause is None or cause == "interrupt":
            self.cause = cause
        self.run.stopping = True
        self.run.cancelled = True
        self._nursery.cancel_scope.cancel()

    def _check_failures(self) -> None:
        """Do what ``on_error`` says about failures that came up since the last look."""
        if not self.run.stopping:
            return
        run = self.run
        if run.options.on_error == "cancel" and (run.failures or run.unwritten) and self.cause is None:
            self._cut("failure")
        if self._drained:
            return
        self._drained = True
        # Nobody need answer what would not start any more.
        for one, scope in self._asking.items():
            scope.cancel()
            self.run.active -= 1
            one.status = "queued"
        self._asking.clear()
        # A step that waits for another attempt, or for a slot for it, gets none.
        for one, (error, between) in list(self._between.items()):
            if between is not None:
                between.cancel()
            elif self.cause is None:
                del self._between[one]
                self.run.fail(one, error)

    def _changed(self, what: str, one: TraceNode, text: str | None) -> None:
        """Tell the watcher; where that raises, the run has failed."""
        assert self._token is not None  # set before the first change
        assert self._watcher is not None  # or nobody would have called
        if threading.get_ident() != self._thread:
            try:
                self._token.run_sync_soon(self._changed, what, one, text)
            except trio.RunFinishedError:
                pass
            return
        if self.error is not None:
            return
        try:
            _let_interrupts_in(self._watcher, what, one, text)
        except BaseException as error:
            if holds(error, KeyboardInterrupt):
                self._cut("interrupt")
            else:
                self.error = error
                self._cut("update")

    # -- The journal.

    def _line_written(self, one: StepRun, problem: SnapshotError | None) -> None:
        """Hear from the journal's thread of a line that it has written, or could not."""
        self._written.append((one, problem))
        self._from_journal(self._take_written)

    def _journal_broke(self, problem: SnapshotError) -> None:
        """Hear from the journal's thread that what has been written may not be safe."""
        self._from_journal(self._stop_writing, problem)

    def _from_journal(self, call: Callable[..., object], *arguments: Any) -> None:
        assert self._token is not None  # set before the first line
        try:
            self._token.run_sync_soon(call, *arguments)
        except trio.RunFinishedError:
            pass

    def _take_written(self) -> None:
        """Go on with the steps whose lines are written, on the loop, which nothing raised here may reach."""
        try:
            while self._written:
                self.run.written(*self._written.popleft())
            self._check_failures()
            self._wake()
        except BaseException as broken:
            self.broken = broken
            self._cut("failure")

    def _stop_writing(self, problem: SnapshotError) -> None:
        self.run.note_unwritten(problem)
        self._check_failures()
        self._wake()

    async def _finish_journal(self) -> None:
        """Wait for the lines that are still being written; steps that wait for nothing else are done."""
        journal = self.run.journal
        if journal is None or not journal.busy:
            return
        await see_through(journal.flush, self.note_interrupt)
        while self._written:
            self.run.written(*self._written.popleft())

    # -- Workers.

    def _wake(self) -> None:
        """See to it that somebody does what there is to do."""
        if self.run.has_work:
            if self._idle:
                self._idle.unpark()
            else:
                self._nursery.start_soon(self._work)
        elif self.run.over:
            self._over.set()

    @trio.lowlevel.enable_ki_protection
    async def _work(self) -> None:
        run = self.run
        worker = Worker(trio.lowlevel.current_task())
        breath = perf_counter() + _BREATH_SECONDS
        while True:
            one = run.next()
            if one is None:
                if run.stopping:
                    self._check_failures()
                if run.over:
                    self._over.set()
                await self._idle.park()
                breath = perf_counter() + _BREATH_SECONDS
                continue
            if one is PAUSE:
                await trio.lowlevel.checkpoint()
                breath = perf_counter() + _BREATH_SECONDS
                continue
            declaration = one.node.declaration
            if declaration.approval is not None and one not in run.queues.approved:
                self._seek_approval(one, declaration.approval)
                continue
            if declaration.runs_on != "trio":
                self._run_elsewhere(one, declaration.runs_on)
                now = perf_counter()
            else:
                if declaration.timeout is not None:
                    await self._run_timed(one, worker, declaration.timeout)
                else:
                    rest = self._begin_here(one, worker)
                    if rest is not None:
                        await self._go_on_here(one, worker, rest)
                if worker.spoiled:
                    await worker.leave_nurseries(worker.status)
                    self._wake()
                    return
                now = one._finished
            if now > breath:
                await trio.lowlevel.checkpoint()
                breath = perf_counter() + _BREATH_SECONDS

    def _begin(self, one: StepRun) -> Context:
        """Note that an attempt begins; give it a context of its own."""
        if one.attempts:
            self._between.pop(one, None)
        self.run.begin_attempt(one)
        return self._context.copy()

    def _start(
        self, one: StepRun, context: Context, clock: trio.CancelScope | None = None
    ) -> tuple[Any, Any]:
        """Start what an attempt does on the event loop; see `june._trampoline.begin`."""
        node = one.node
        if one.talk is not None:
            host = Host(self._hosting, one, clock)
            return context.run(_trampoline.begin_conversation, one, converse(one.talk.prompt, host))
        arguments = self.run.arguments(one) if node.bindings else NO_ARGUMENTS
        return context.run(_trampoline.begin, one, node.declaration.function, arguments)

    def _begin_here(self, one: StepRun, worker: Worker) -> tuple[Context, Any, Any] | None:
        """
        Begin an attempt at an async step.

        Returns:
            None if that was all of it; or its context, its coroutine, and what that asks of trio.
        """
        context = self._begin(one)
        try:
            state, value = self._start(one, context)
        except BaseException as error:
            self._ended(one, None, error, worker)
            return None
        if state is _trampoline.FINISHED:
            self._ended(one, value, None, worker)
            return None
        return context, state, value

    async def _go_on_here(self, one: StepRun, worker: Worker, rest: tuple[Context, Any, Any]) -> None:
        """Go on with an async step that is about to wait."""
        worker.spoiled = True
        self._wake()
        try:
            value = await _trampoline.Rest(*rest)
        except BaseException as error:
            self._ended(one, None, error, worker)
        else:
            self._ended(one, value, None, worker)

    async def _run_timed(self, one: StepRun, worker: Worker, timeout: float) -> None:
        """Run an attempt at an async step that has a timeout."""
        context = self._begin(one)
        error: BaseException | None = None
        value: Any = None
        with trio.move_on_after(timeout) as scope:
            inside = worker.task._cancel_status  # see Worker
            try:
                state, value = self._start(one, context, scope)
                if state is not _trampoline.FINISHED:
                    worker.spoiled = True
                    self._wake()
                    value = await _trampoline.Rest(context, state, value)
            except BaseException as raised:
                error = raised
            error = worker.mend(one, inside, error)
            await worker.leave_nurseries(inside)
            if (
                error is not None
                and without(error, trio.Cancelled) is None
                and trio.current_effective_deadline() == float("-inf")
            ):
                raise error
        if scope.cancelled_caught:
            error = self._timed_out(one)
        self._ended(one, value, error, worker)

    def _ended(self, one: StepRun, value: Any, error: BaseException | None, worker: Worker | None) -> None:
        """An attempt has ended: give back its slot, and take its result or decide what its error means."""
        run = self.run
        self._slots.release(one)
        if worker is not None:
            task = worker.task
            if task._cancel_status is not worker.status or task._child_nurseries or task in LOCK_HOLDERS:
                error = worker.mend(one, worker.status, error)
        if one.node.bindings and one.talk is None:
            try:
                run.check_arguments(one)
            except ResultWarning as warning:
                # Warnings are errors here, as under pytest -W error.
                error = error or warning
        if error is None and run.told and one in run.told:
            run.fail(
                one, StepError(f"step {name_of(one)} stopped early, as the run was cancelled"), "aborted"
            )
        elif error is None:
            run.finish(one, value)
            if run.stopping:
                self._check_failures()
        else:
            self._went_wrong(one, error)

    # -- Attempts that no worker waits for.

    def _run_elsewhere(self, one: StepRun, runs_on: str) -> None:
        """Run a plain function on the spot or in a thread, or a coroutine on asyncio."""
        context = self._begin(one)
        function = one.node.declaration.function
        try:
            arguments = self.run.arguments(one)
        except SnapshotError as error:
            self._ended(one, None, error, None)
            return
        if runs_on == "inline":
            try:
                value = context.run(_trampoline.begin_plain, one, function, arguments)
            except BaseException as error:
                self._ended(one, None, error, None)
            else:
                self._ended(one, value, None, None)
            return
        attempt = _Attempt(one)
        self._attempts.add(attempt)
        try:
            if runs_on == "asyncio":
                context.run(_trampoline.enter, one)
                call = partial(_trampoline.call, function, one, arguments)
                self._on_asyncio().submit(attempt, call, context)
            else:
                self._threads.submit(
                    attempt, partial(context.run, _trampoline.begin_plain, one, function, arguments)
                )
        except RuntimeError as error:
            # There are no more threads to be had.
            self._attempts.discard(attempt)
            self._ended(one, None, error, None)
            return
        if one.node.declaration.timeout is not None:
            attempt.watch = trio.CancelScope()
            self._nursery.start_soon(self._watch, attempt, attempt.watch, one.node.declaration.timeout)

    def _on_asyncio(self) -> Any:
        """The asyncio loop, made at the first step that needs one: importing asyncio takes its time."""
        if self._asyncio is None:
            from june._asyncio import AsyncioThread

            assert self._token is not None  # the run has begun
            self._asyncio = AsyncioThread(self._token, self._delivered)
        return self._asyncio

    async def _watch(self, attempt: _Attempt, scope: trio.CancelScope, timeout: float) -> None:
        """Keep the word of a timeout on an attempt that nothing can stop."""
        with scope:
            await trio.sleep(timeout)
        if attempt not in self._attempts:
            return
        attempt.abandoned = True
        if attempt.one.node.declaration.runs_on == "asyncio":
            self._on_asyncio().cancel(attempt)
        self._went_wrong(attempt.one, self._timed_out(attempt.one))
        self._wake()

    def _delivered(self, attempt: _Attempt, value: Any, error: BaseException | None) -> None:
        """Take what came back from another thread, on the loop, which nothing raised here may reach."""
        self._attempts.discard(attempt)
        if attempt.watch is not None:
            attempt.watch.cancel()
        try:
            if attempt.abandoned:
                self._slots.release(attempt.one)
            else:
                self._ended(attempt.one, value, error, None)
            self._wake()
        except BaseException as broken:
            self.broken = broken
            self._cut("failure")

    # -- Approvals of steps.

    def _seek_approval(self, one: StepRun, question: str) -> None:
        """Ask whether a step may start, which waits without a slot."""
        run = self.run
        run.active += 1
        try:
            arguments = run.inputs.shown(one)
        except SnapshotError as error:
            run.fail(one, error)
            self._check_failures()
            return
        request = ApprovalRequest(
            id=one.id, step=one.id, question=question, arguments=arguments, key=one.key or ""
        )
        self._asking[one] = scope = trio.CancelScope()
        pending = self.desk.open(request)
        one.status = "waiting"
        run.tell("status", one)
        self._nursery.start_soon(self._await_approval, one, pending, scope)

    async def _await_approval(self, one: StepRun, pending: Pending, scope: trio.CancelScope) -> None:
        run = self.run
        failure: BaseException | None = None
        try:
            with scope:
                try:
                    # A drain that came before this began has cancelled the scope.
                    await trio.lowlevel.checkpoint()
                    await self.desk.wait(pending)
                except BaseException as raised:
                    if without(raised, trio.Cancelled) is None:
                        raise
                    failure = raised
        finally:
            self.desk.withdraw(pending)
        if self._asking.pop(one, None) is None:
            return
        if failure is None:
            run.queues.approved.add(one)
            run.active -= 1
            one.status = "queued"
            run.queues.add_startable(one)
        elif holds(failure, KeyboardInterrupt):
            run.fail(one, failure, "aborted")
            self._cut("interrupt")
        else:
            run.fail(one, as_failure(one, failure))
            self._check_failures()
        self._wake()

    # -- What went wrong.

    @staticmethod
    def _timed_out(one: StepRun) -> StepTimeoutError:
        seconds = one.node.declaration.timeout or 0.0
        waits = one.talk.waits if one.talk is not None else ()
        waiting = f", waiting because {waits[-1]}" if waits else ""
        return StepTimeoutError(
            f"step {one.id!r} ({one.node.declaration.place}) took longer than its timeout of "
            f"{duration(seconds)}{waiting}"
        )

    def _went_wrong(self, one: StepRun, error: BaseException) -> None:
        """Decide what an attempt that raised means: another attempt, a failure, or the end of the run."""
        run = self.run
        if holds(error, KeyboardInterrupt):
            run.fail(one, error, "aborted")
            self._cut("interrupt")
            return
        if self._is_cancellation(error):
            # The caller's own scope may be what was cancelled; nothing new may start either way.
            run.stopping = run.cancelled = True
            run.fail(one, error, "aborted")
            return
        failure = as_failure(one, error)
        _hint_at_asyncio(one, failure)
        # A person's no is not asked for again.
        if (
            one.node.declaration.retry is not None
            and not run.stopping
            and not holds(failure, ApprovalRejected)
        ):
            delay, failure = self._retry_delay(one, failure)
            if delay is not None:
                one.status = "queued"
                run.tell("status", one)
                self._nursery.start_soon(self._wait_and_try_again, one, failure, delay)
                return
        run.fail(one, failure)
        self._check_failures()

    @staticmethod
    def _retry_delay(one: StepRun, failure: Exception) -> tuple[float | None, Exception]:
        """Ask a step's retry policy how long to wait, if at all; the step fails with what that raises."""
        retry = one.node.declaration.retry
        assert retry is not None  # the caller has looked
        try:
            delay = retry.delay(failure, one.attempts, perf_counter() - one._started)
            if delay is None or (type(delay) in (int, float) and 0 <= delay < float("inf")):
                return delay, failure
            raise ValueError(f"the retry of step {name_of(one)} says to wait {delay!r} seconds")
        except BaseException as raised:
            problem = as_failure(one, raised)
            problem.__context__ = failure
            return None, problem

    def _is_cancellation(self, error: BaseException) -> bool:
        """Tell whether an attempt ended with what cancelled the run, rather than with its own error."""
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None and isinstance(error, asyncio.CancelledError):
            return self.run.cancelled
        if without(error, trio.Cancelled) is not None:
            return False
        return self.run.cancelled or trio.current_effective_deadline() == float("-inf")

    async def _wait_and_try_again(self, one: StepRun, error: Exception, delay: float) -> None:
        with trio.CancelScope() as scope:
            self._between[one] = error, scope
            if self.run.stopping:
                scope.cancel()
            await trio.sleep(delay)
        if self.run.stopping:
            del self._between[one]
            self.run.fail(one, error)
            self._check_failures()
        else:
            self._between[one] = error, None
            self.run.queues.add_startable(one)
        self._wake()


@trio.lowlevel.disable_ki_protection
def _let_interrupts_in(watcher: Watcher, what: str, one: TraceNode, text: str | None) -> None:
    watcher(what, one, text)


def _hint_at_asyncio(one: StepRun, error: Exception) -> None:
    text = message_of(error) if isinstance(error, (RuntimeError, TypeError)) else ""
    if "no running event loop" in text or "unrecognized yield message" in text:
        add_note(
            error,
            "this step uses asyncio; run it there with @step(..., runs_on='asyncio')"
            if one.talk is None
            else "models and async tools run on trio; call asyncio.run() in a tool that is a plain def",
        )
