"""
Handles: a run that is going or has ended, as its caller sees it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextvars import copy_context
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import trio

from june._exceptions import see_through, without
from june._text import add_note, duration
from june.approvals import ApprovalRequest, Desk, OnApproval
from june.errors import RunCancelled, RunFailed, RunInterrupted, SnapshotError
from june.executor import Executor
from june.interrupts import ctrl_c
from june.messages import Usage
from june.runs import Run
from june.snapshots import Snapshot
from june.storage import Storage
from june.traces import Trace, TraceNode, Update

__all__ = ["Handle", "RunResult"]

T_co = TypeVar("T_co", covariant=True)


class Record:
    """What can be seen of a run, while it goes and after."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def snapshot(self) -> Snapshot:
        """
        Take a snapshot of the finished steps, at any time and from any thread.

        It costs the same however much has finished; entries are collected when somebody looks at them.
        """
        return self._run.ledger.snapshot()

    @property
    def trace(self) -> Trace:
        """What happened, step by step."""
        return Trace(self._run.outcomes.trace_nodes, self._run.outcomes.find)

    @property
    def usage(self) -> Usage:
        """What this run's model calls used, failed attempts included; resumed steps add nothing."""
        return sum((node.usage for node in self._run.outcomes.trace_nodes() if node.usage), Usage())

    @property
    def reused_usage(self) -> Usage:
        """What the model calls had used that this run did not make, as it found their results saved."""
        return self._run.outcomes.reused_usage()


class RunResult(Record, Generic[T_co]):
    """What a run that succeeded gives."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._steps: dict[str, Any] | None = None

    @property
    def result(self) -> T_co:
        """
        The value of the target.

        For a list or several targets, a tuple in target order; for a target that was skipped, None; for one
        with ``each``, a list in item order.
        """
        return cast(T_co, self._run.outcomes.target_result())

    @property
    def steps(self) -> Mapping[str, Any]:
        """
        Every step's value by id.

        An ``each`` step stands under its id as a list, and each instance under its own. Steps that were
        skipped, or not needed, are absent.
        """
        if self._steps is None:
            self._steps = self._run.outcomes.results()
        return self._steps

    def __repr__(self) -> str:
        return f"<RunResult {self.trace!r}>"


class Handle(Record):
    """
    A run that may still be going.

    ``await handle``, under trio or asyncio, waits for it and gives its `RunResult`.
    """

    def __init__(
        self,
        run: Run,
        deadline: float | None,
        on_update: Callable[[Update], object] | None,
        on_approval: OnApproval | None,
    ) -> None:
        super().__init__(run)

        def watch(what: str, node: TraceNode, text: str | None) -> None:
            on_update(Update(cast(Any, what), node, self, text))  # type: ignore[misc]  # only used where not None

        self._deadline = deadline
        self._desk = Desk(on_approval)
        self._executor = Executor(
            run, copy_context(), None if on_update is None else watch, deadline, self._desk
        )
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self._error: BaseException | None = None
        self._seen = False
        self._in_trio = False
        # Whether the run has begun in a thread of its own.
        self._loose = False
        self._storage: Storage | None = None
        self._saved = False

    @property
    def done(self) -> bool:
        """Whether the run has ended, one way or another."""
        return self._ended.is_set()

    def cancel(self) -> None:
        """
        Cancel the run, from any thread.

        Steps on trio and asyncio are cancelled; threads are left behind. The run then ends with
        `RunCancelled`. A run that has ended stays as it is.
        """
        self._executor.cancel("cancel")

    # -- Approvals, from any thread.

    @property
    def approvals(self) -> tuple[ApprovalRequest, ...]:
        """What waits for an answer now, the oldest first."""
        return self._desk.requests

    def approve(self, request: ApprovalRequest | str) -> None:
        """
        Let a step, or a call of a tool, go on.

        Args:
            request: One of `approvals`, or its id.

        Raises:
            KeyError: If it does not wait, or not any more.
        """
        self._desk.answer(request, True)

    def reject(self, request: ApprovalRequest | str, reason: str = "") -> None:
        """
        Have a step, or the step whose model calls a tool, fail with `june.ApprovalRejected`.

        Args:
            request: One of `approvals`, or its id.
            reason: Why, for the error.

        Raises:
            KeyError: If it does not wait, or not any more.
        """
        self._desk.answer(request, False, reason)

    def wait(self, timeout: float | None = None) -> RunResult[Any]:
        """
        Block until the run has ended.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: If it has not ended by then. It goes on.
            RunFailed: If steps failed.
            RunCancelled: If it was cancelled.
            RunInterrupted: On Ctrl-C, which interrupts the run.
            RuntimeError: Inside trio or asyncio, where ``await handle`` waits without blocking the loop.
        """
        if not self.done and running_loop() is not None and (self._in_trio or running_loop() == "trio"):
            raise RuntimeError("wait() would block the event loop that is running here; use: await handle")
        if not wait_or_interrupt(self, timeout):
            raise TimeoutError(f"the run has not ended within {duration(timeout or 0.0)}; it goes on")
        return self._outcome()

    def __await__(self) -> Generator[Any, Any, RunResult[Any]]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> RunResult[Any]:
        if running_loop() == "asyncio":
            import asyncio  # there already

            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            self._when_ended(lambda: _soon(loop.call_soon_threadsafe, ended.set))
            await ended.wait()
        else:
            token = trio.lowlevel.current_trio_token()
            over = trio.Event()
            self._when_ended(lambda: _soon(token.run_sync_soon, over.set))
            await over.wait()
        return self._outcome()

    def _when_ended(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback()

    def _outcome(self) -> RunResult[Any]:
        self._seen = True
        if self._error is not None:
            raise self._error
        return RunResult(self._run)

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        with self._lock:
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    @property
    def _goes_on(self) -> bool:
        """Whether the run goes on in a thread of its own, whatever becomes of whoever started it."""
        return self._loose and not self.done

    def _save_to(self, storage: Storage) -> None:
        """Have the run, which has not begun, save what finishes."""
        self._storage = storage
        self._run.journal = storage.journal

    @trio.lowlevel.enable_ki_protection
    async def _execute(self) -> None:
        """Run the run, and note how it ended; only the caller's own cancellation is raised."""
        error: BaseException | None = None
        try:
            raised: BaseException | None = None
            try:
                await self._executor.execute()
            except GeneratorExit:
                # The event loop was left, and this coroutine is thrown away.
                error = self.interrupted()
                raise
            except BaseException as caught:
                raised = caught
            if self._storage is not None:
                await self._put_away(self._storage, raised)
            error = self._verdict(raised)
            if raised is not None and _only_cancelled(raised):
                # The caller's own scope was cancelled, and its cancellation goes on up.
                raise raised
        finally:
            self._end(error)

    async def _put_away(self, storage: Storage, raised: BaseException | None) -> None:
        """Bring the file that the run saves to up to date, or remove it."""
        try:
            await see_through(
                lambda: storage.end(self.snapshot(), self._succeeded(raised)), self._executor.note_interrupt
            )
        except SnapshotError as problem:
            self._run.note_unwritten(problem)
        else:
            self._saved = not storage.gone

    def _succeeded(self, raised: BaseException | None) -> bool:
        run, executor = self._run, self._executor
        wrong = raised or executor.broken or executor.error or executor.cause or run.failures or run.unwritten
        return not wrong

    def _bug(self, unexpected: BaseException) -> RunFailed:
        """Let even an error of June's own carry what had finished."""
        inner = unexpected if isinstance(unexpected, Exception) else RuntimeError(repr(unexpected))
        inner.__cause__ = None if inner is unexpected else unexpected
        return RunFailed(f"june failed, which is a bug in june: {self._progress()}", [inner], self)

    def _verdict(self, raised: BaseException | None) -> BaseException | None:
        run, executor = self._run, self._executor
        if raised is not None and not _only_cancelled(raised):
            return self._bug(raised)
        if executor.broken is not None:
            return self._bug(executor.broken)
        failed = self._failure()
        cause = "cancel" if raised is not None else executor.cause
        if cause not in ("cancel", "interrupt", "deadline"):
            return failed
        if cause == "interrupt":
            cancelled: RunCancelled = self.interrupted()
        elif cause == "deadline":
            seconds = duration(self._deadline or 0.0)
            cancelled = RunCancelled(f"the run's deadline of {seconds} has passed: {self._progress()}", self)
        else:
            cancelled = RunCancelled(f"the run was cancelled: {self._progress()}", self)
        cancelled.__cause__ = failed
        if run.unwritten is not None:
            cancelled.add_note(str(run.unwritten))
        return cancelled

    def _failure(self) -> RunFailed | None:
        """Put what failed into one error, if anything did."""
        run, executor = self._run, self._executor
        failures = [cast(Exception, node.error) for node in run.failures]
        if executor.error is not None:
            problem: BaseException = executor.error
            if not isinstance(problem, Exception):
                wrapped = RuntimeError(f"on_update raised {type(problem).__name__}")
                wrapped.__cause__ = problem
                problem = wrapped
            add_note(problem, "raised by on_update, which fails the run")
            failures.append(problem)
        headline = f"{_counted(len(failures))} failed"
        if run.unwritten is None:
            return RunFailed(f"{headline}: {self._progress()}", failures, self) if failures else None
        headline = f"{headline}, and {run.unwritten}" if failures else str(run.unwritten)
        rest = "" if self._saved else "; the error's snapshot() has all that finished"
        failures.append(run.unwritten)
        return RunFailed(f"{headline} ({self._progress()}{rest})", failures, self)

    def interrupted(self) -> RunInterrupted:
        """Give the error for Ctrl-C, also for one that came when the run was over already."""
        return RunInterrupted(f"interrupted: {self._progress()}", self)

    def _progress(self) -> str:
        nodes = self._run.outcomes.trace_nodes()
        done = sum(1 for node in nodes if node.status == "done")
        saved = f", saved in {self._storage.shown}" if self._storage is not None and self._saved else ""
        return f"{done} of {len(nodes)} steps done{saved}"

    # -- As a context manager, as start() gives it.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._executor.cancel("interrupt" if isinstance(error, KeyboardInterrupt) else "cancel")
                self._ended.wait()
                return
            seen = self._seen
            wait_or_interrupt(self)
            if not seen:
                self._outcome()
        except RunInterrupted:
            raise
        except KeyboardInterrupt:
            # It came before the wait that looks out for it.
            self._executor.cancel("interrupt")
            self._ended.wait()
            raise self.interrupted() from None

    def __repr__(self) -> str:
        return f"<Handle {'done' if self.done else 'running'}: {self.trace!r}>"


def _only_cancelled(raised: BaseException) -> bool:
    return without(raised, trio.Cancelled) is None


def _counted(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _soon(schedule: Callable[[Callable[[], object]], object], callback: Callable[[], object]) -> None:
    """Schedule on a loop that may be gone by now, with whoever waited there."""
    try:
        schedule(callback)
    except (RuntimeError, trio.RunFinishedError):
        pass


def running_loop() -> str | None:
    """Name the kind of event loop that runs in this thread, or None."""
    if trio.lowlevel.in_trio_run():
        return "trio"
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        # Nobody has imported it, so no loop of it runs; importing it takes its time.
        return None
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"


def wait_or_interrupt(handle: Handle, timeout: float | None = None) -> bool:
    """
    Wait for a run in another thread; Ctrl-C here interrupts it there.

    Args:
        handle: The run's handle.

        timeout: Seconds to wait at most; None waits for ever.

    Returns:
        Whether the run has ended.

    Raises:
        RunInterrupted: If Ctrl-C came, also if the run was over before it could be interrupted.
    """
    try:
        with ctrl_c():
            return _wait_in_slices(handle._ended, timeout)
    except KeyboardInterrupt:
        handle._executor.cancel("interrupt")
        handle._ended.wait()
        if isinstance(handle._error, RunInterrupted):
            handle._outcome()
        raise handle.interrupted() from None


def _wait_in_slices(event: threading.Event, timeout: float | None) -> bool:
    """
    Wait for an event, looking up now and then.

    A signal that arrives just before a thread falls asleep on a lock is only seen when it wakes.
    """
    until = float("inf") if timeout is None else monotonic() + timeout
    while not event.wait(max(0.0, min(_SLICE_SECONDS, until - monotonic()))):
        if monotonic() >= until:
            return False
    return True


_SLICE_SECONDS = 0.25
