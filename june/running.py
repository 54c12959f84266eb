"""
The doors: run, run_async, open_run and start, over one engine.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack, cast, overload

import trio

from june._text import duration, listed, near, short_repr
from june.errors import InputError, RunCancelled, RunFailed, RunInterrupted, SnapshotError
from june.executor import Executor
from june.graphs import build
from june.messages import Usage
from june.options import Options
from june.runs import Run
from june.snapshots import Snapshot
from june.steps import Step
from june.traces import Trace, TraceNode, Update

__all__ = ["Handle", "RunOptions", "RunResult", "open_run", "run", "run_async", "start"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RunOptions(TypedDict, total=False):
    """
    Options of a run, all by keyword.

    Attributes:
        inputs: Values by name for parameters that no step provides. They are part of cache keys.

        resources: Objects by name (clients, connections, loggers) for such parameters; never hashed, never
            saved.

        snapshot: What to reuse: a `Snapshot`, its JSON as a mapping, or the `RunResult` of an earlier run.

        concurrency: How many steps may run at once; 16 if not given.

        limits: Named limits, each with how many steps that name it may run at once.

        refresh: Ids of steps to run again whatever their key.

        overrides: Values that stand in for steps' results, by id; those steps do not run.

        strict: Whether a result that cannot be saved exactly fails its step, rather than warns.

        on_update: Called, on the event loop, with an `Update` for every change of status, progress or notes.
            An exception in it fails the run.

        on_error: What a failed step does to the others. ``"drain"`` (the default) starts nothing new and
            lets running steps finish; ``"cancel"`` cancels them; ``"continue"`` runs all that does not
            depend on the failed step.

        deadline: Seconds for the whole run.
    """

    inputs: Mapping[str, Any]
    resources: Mapping[str, Any]
    snapshot: Snapshot | Mapping[str, Any] | RunResult[Any] | None
    concurrency: int
    limits: Mapping[str, int]
    refresh: Iterable[str]
    overrides: Mapping[str, Any]
    strict: bool
    on_update: Callable[[Update], object] | None
    on_error: Literal["drain", "cancel", "continue"]
    deadline: float | None


class _Record:
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
        return Trace(self._run.trace_nodes, self._run.find)

    @property
    def usage(self) -> Usage:
        """What this run's model calls used; resumed steps add nothing."""
        return sum((node.usage for node in self._run.trace_nodes() if node.usage), Usage())


class RunResult(_Record, Generic[T_co]):
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
        return cast(T_co, self._run.target_result())

    @property
    def steps(self) -> Mapping[str, Any]:
        """
        Every step's value by id.

        An ``each`` step stands under its id as a list, and each instance under its own. Steps that were
        skipped, or not needed, are absent.
        """
        if self._steps is None:
            self._steps = self._run.results()
        return self._steps

    def __repr__(self) -> str:
        return f"<RunResult {self.trace!r}>"


class Handle(_Record):
    """
    A run that may still be going.

    ``await handle``, under trio or asyncio, waits for it and gives its `RunResult`.
    """

    def __init__(
        self, run: Run, deadline: float | None, on_update: Callable[[Update], object] | None
    ) -> None:
        super().__init__(run)

        def watch(what: str, node: TraceNode, text: str | None) -> None:
            on_update(Update(cast(Any, what), node, self, text))  # type: ignore[misc]  # only used where not None

        self._deadline = deadline
        self._executor = Executor(run, copy_context(), None if on_update is None else watch, deadline)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self._error: BaseException | None = None
        self._seen = False
        self._in_trio = False

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

    def wait(self, timeout: float | None = None) -> RunResult[Any]:
        """
        Block until the run has ended.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: If it has not ended by then. It goes on.
            RunFailed: If steps failed.
            RunCancelled: If it was cancelled.
            RuntimeError: Inside trio or asyncio, where ``await handle`` waits without blocking the loop.
        """
        if not self.done and _running_loop() is not None and (self._in_trio or _running_loop() == "trio"):
            raise RuntimeError("wait() would block the event loop that is running here; use: await handle")
        if not self._ended.wait(timeout):
            raise TimeoutError(f"the run has not ended within {duration(timeout or 0.0)}; it goes on")
        return self._outcome()

    def __await__(self) -> Generator[Any, Any, RunResult[Any]]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> RunResult[Any]:
        if _running_loop() == "asyncio":
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

    async def _execute(self) -> None:
        """Run the run, and note how it ended; only the caller's own cancellation is raised."""
        error: BaseException | None = None
        try:
            await self._executor.execute()
            error = self._verdict()
        except trio.Cancelled:
            error = RunCancelled(f"the run was cancelled: {self._progress()}", self)
            raise
        except BaseException as unexpected:
            error = unexpected
        finally:
            self._end(error)

    def _verdict(self) -> BaseException | None:
        run, executor = self._run, self._executor
        failures = [cast(Exception, node.error) for node in run.failures]
        failed: RunFailed | None = None
        if executor.error is not None:
            problem: BaseException = executor.error
            if not isinstance(problem, Exception):
                wrapped = RuntimeError(f"on_update raised {type(problem).__name__}")
                wrapped.__cause__ = problem
                problem = wrapped
            problem.add_note("raised by on_update, which fails the run")
            failures.append(problem)
        if failures:
            failed = RunFailed(f"{_counted(len(failures))} failed: {self._progress()}", failures, self)
        cause = executor.cause
        if cause not in ("cancel", "interrupt", "deadline"):
            return failed
        if cause == "interrupt":
            cancelled: RunCancelled = RunInterrupted(f"interrupted: {self._progress()}", self)
        elif cause == "deadline":
            seconds = duration(self._deadline or 0.0)
            cancelled = RunCancelled(f"the run's deadline of {seconds} has passed: {self._progress()}", self)
        else:
            cancelled = RunCancelled(f"the run was cancelled: {self._progress()}", self)
        cancelled.__cause__ = failed
        return cancelled

    def _progress(self) -> str:
        nodes = self._run.trace_nodes()
        done = sum(1 for node in nodes if node.status == "done")
        return f"{done} of {len(nodes)} steps done"

    # -- As a context manager, as start() gives it.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._executor.cancel("interrupt" if isinstance(error, KeyboardInterrupt) else "cancel")
            self._ended.wait()
            return
        if self._seen:
            self._ended.wait()
            return
        _wait_or_interrupt(self)

    def __repr__(self) -> str:
        return f"<Handle {'done' if self.done else 'running'}: {self.trace!r}>"


def _counted(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _soon(schedule: Callable[[Callable[[], object]], object], callback: Callable[[], object]) -> None:
    """Schedule on a loop that may be gone by now, with whoever waited there."""
    try:
        schedule(callback)
    except (RuntimeError, trio.RunFinishedError):
        pass


def _running_loop() -> str | None:
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


def _prepare(caller: str, targets: tuple[Any, ...], options: RunOptions) -> Handle:
    """Check everything that can be checked before a step starts."""
    unknown = set(options).difference(RunOptions.__annotations__)
    if unknown:
        name = min(unknown)
        hint = near(name, RunOptions.__annotations__)
        meant = f"did you mean {hint[0]!r}?" if hint else f"there are {listed(RunOptions.__annotations__)}"
        raise TypeError(f"{caller}() has no option {name!r}; {meant}")
    inputs = _mapping("inputs", options.get("inputs"))
    resources = _mapping("resources", options.get("resources"))
    for name in inputs:
        if name in resources:
            raise InputError(f"{name!r} is in both inputs and resources; keep one")
    graph = build(targets, caller, (*inputs, *resources))
    wanted = graph.inputs
    for argument, given in (("inputs", inputs), ("resources", resources)):
        for name in given:
            if name not in wanted:
                raise InputError(_surplus(argument, name, wanted, [one.id for one in graph.steps]))
    checked = Options(
        inputs=inputs,
        resources=resources,
        snapshot=_snapshot(options.get("snapshot")),
        concurrency=_whole("concurrency", options.get("concurrency", 16)),
        limits={
            name: _whole(f"limits[{name!r}]", limit)
            for name, limit in _mapping("limits", options.get("limits")).items()
        },
        refresh=_ids(options.get("refresh", ())),
        overrides=_mapping("overrides", options.get("overrides")),
        strict=bool(options.get("strict", False)),
        on_error=_on_error(options.get("on_error", "drain")),
    )
    deadline = options.get("deadline")
    if deadline is not None and not (isinstance(deadline, (int, float)) and deadline > 0):
        raise ValueError(f"deadline must be a number of seconds above 0, not {deadline!r}")
    on_update = options.get("on_update")
    if on_update is not None and not callable(on_update):
        raise TypeError(f"on_update must be a function of an Update, not {short_repr(on_update)}")
    return Handle(Run(graph, checked), deadline, on_update)


def _surplus(argument: str, name: str, wanted: Mapping[str, bool], steps: list[str]) -> str:
    if name in steps:
        return (
            f"{argument} has {name!r}, but step {name!r} provides it; "
            f"to have a value stand in for the step, pass overrides={{{name!r}: ...}}"
        )
    hint = near(name, wanted)
    return f"{argument} has {name!r}, which no step asks for" + (
        f"; did you mean {hint[0]!r}?" if hint else f"; the steps ask for {listed(sorted(wanted)) or 'none'}"
    )


def _mapping(argument: str, given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{argument} must be a mapping from names, not {short_repr(given)}")
    return dict(given)


def _snapshot(given: Any) -> Snapshot | None:
    if given is None or isinstance(given, Snapshot):
        return given
    if isinstance(given, _Record):
        return given.snapshot()
    if isinstance(given, Mapping):
        return Snapshot.from_dict(given)
    if isinstance(given, (str, bytes)):
        raise SnapshotError(
            f"snapshot must be a Snapshot, a mapping or a RunResult, not {short_repr(given)}; "
            "use Snapshot.load(path) for a file, or Snapshot.from_json(text)"
        )
    raise SnapshotError(f"snapshot must be a Snapshot, a mapping or a RunResult, not {short_repr(given)}")


def _whole(argument: str, given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise ValueError(f"{argument} must be a whole number from 1, not {short_repr(given)}")
    return given


def _ids(given: Any) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"refresh must be a list of ids, not {short_repr(given)}")
    ids = [one.id if isinstance(one, Step) else one for one in given]
    for one in ids:
        if not isinstance(one, str):
            raise TypeError(f"refresh must be a list of ids, and {short_repr(one)} is none")
    return frozenset(ids)


def _on_error(given: Any) -> str:
    if given not in ("drain", "cancel", "continue"):
        raise ValueError(f"on_error must be 'drain', 'cancel' or 'continue', not {short_repr(given)}")
    return cast(str, given)


def _in_thread(handle: Handle, daemon: bool) -> None:
    """Start a run in a thread of its own; Ctrl-C that comes meanwhile interrupts the run."""
    context = copy_context()
    thread = threading.Thread(
        target=context.run, args=(trio.run, handle._execute), name="june-run", daemon=daemon
    )
    try:
        thread.start()
    except KeyboardInterrupt:
        handle._executor.cancel("interrupt")
        # start() waits for the thread to say that it runs, so it may be there or not.
        if not handle._ended.wait(1) and thread.ident is not None:
            handle._ended.wait()
        raise


def _wait_or_interrupt(handle: Handle) -> RunResult[Any]:
    """Wait for a run in another thread; Ctrl-C here interrupts it there."""
    try:
        handle._ended.wait()
    except KeyboardInterrupt:
        handle._executor.cancel("interrupt")
        handle._ended.wait()
    return handle._outcome()


@overload
def run(target: Step[..., Coroutine[Any, Any, T]], /, **options: Unpack[RunOptions]) -> RunResult[T]: ...
@overload
def run(target: Step[..., T], /, **options: Unpack[RunOptions]) -> RunResult[T]: ...
@overload
def run(*targets: Any, **options: Unpack[RunOptions]) -> RunResult[Any]: ...
def run(*targets: Any, **options: Unpack[RunOptions]) -> RunResult[Any]:
    """
    Run steps, and everything that they need, and wait for the result.

    It works anywhere but inside trio; where an asyncio loop is running (a notebook cell), that loop waits.

    Args:
        *targets: Steps, lists of steps, modules, or a `Graph`.
        **options: See `RunOptions`.

    Raises:
        GraphError: If the steps do not make a graph.
        InputError: If the inputs or other options do not fit it.
        SnapshotError: If the snapshot is not one.
        RunFailed: If steps failed; it carries the snapshot.
        RunCancelled: If the deadline passed, or something cancelled the run.
        RunInterrupted: On Ctrl-C; it carries the snapshot.
        RuntimeError: Inside trio, where ``await run_async(...)`` is to be used.

    Example:
        >>> from june import step
        >>> @step(id="double")
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> run(double, inputs={"number": 4}).result
        8
    """
    loop = _running_loop()
    if loop == "trio":
        raise RuntimeError("run() blocks, and trio is running here; use: await run_async(...)")
    handle = _prepare("run", targets, options)
    if loop is not None:
        try:
            _in_thread(handle, daemon=True)
        except KeyboardInterrupt:
            if not handle.done:
                raise
        return _wait_or_interrupt(handle)
    trio.run(handle._execute)
    return handle._outcome()


@overload
async def run_async(
    target: Step[..., Coroutine[Any, Any, T]], /, **options: Unpack[RunOptions]
) -> RunResult[T]: ...
@overload
async def run_async(target: Step[..., T], /, **options: Unpack[RunOptions]) -> RunResult[T]: ...
@overload
async def run_async(*targets: Any, **options: Unpack[RunOptions]) -> RunResult[Any]: ...
async def run_async(*targets: Any, **options: Unpack[RunOptions]) -> RunResult[Any]:
    """
    As `run`, inside trio.

    Raises:
        trio.Cancelled: If the task is cancelled; the run's steps are cancelled with it.
        RuntimeError: Outside of trio.
    """
    _require_trio("run_async")
    handle = _prepare("run_async", targets, options)
    await handle._execute()
    return handle._outcome()


@asynccontextmanager
async def open_run(*targets: Any, **options: Unpack[RunOptions]) -> AsyncIterator[Handle]:
    """
    Run steps beside a block of code, inside trio: ``async with open_run(...) as handle``.

    The end of the block waits for the run, and raises what it ended with unless ``await handle`` has. A
    block that raises cancels the run.

    Args:
        *targets: As for `run`.
        **options: See `RunOptions`.

    Raises:
        RuntimeError: Outside of trio.
    """
    _require_trio("open_run")
    handle = _prepare("open_run", targets, options)
    handle._in_trio = True
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle._execute)
        try:
            yield handle
        except BaseException as error:
            # Raised after the nursery, which would wrap it in a group.
            raised = error
            handle.cancel()
    if raised is not None:
        raise raised
    if not handle._seen:
        handle._outcome()


def start(*targets: Any, **options: Unpack[RunOptions]) -> Handle:
    """
    Start a run in a thread of its own, and give its handle at once.

    As a context manager, the handle waits at the end of the block, and cancels the run if the block raises.
    The program does not end before the run has.

    Args:
        *targets: As for `run`.
        **options: See `RunOptions`.

    Raises:
        GraphError: As `run`; so are `InputError` and `SnapshotError`, at once.
    """
    handle = _prepare("start", targets, options)
    _in_thread(handle, daemon=False)
    return handle


def _require_trio(caller: str) -> None:
    if _running_loop() != "trio":
        raise RuntimeError(
            f"{caller}() works inside trio only; use run(...), or start(...) and await its handle"
        )
