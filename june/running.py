"""
The doors: run, run_async, open_run and start, over one engine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, overload

import trio

from june._signatures import is_coroutine_function
from june._text import listed, near, short_repr
from june.approvals import OnApproval
from june.errors import InputError, SnapshotError
from june.handles import Handle, Record, RunResult, running_loop, wait_or_interrupt
from june.interrupts import LeftAtOnce, ctrl_c, run_until_ctrl_c_twice
from june.options import Options
from june.runs import Run
from june.snapshots import Snapshot, laid_over
from june.steps import Step
from june.storage import Storage
from june.traces import Update
from june.wiring import build

__all__ = ["RunOptions", "open_run", "run", "run_async", "run_resumable", "run_resumable_async", "start"]

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

        on_approval: Called, on the event loop, with each `june.ApprovalRequest` of a step or a tool that
            waits for a person. True lets it go on; False, or a text that says why, rejects it; None leaves
            the answer to the run's handle. It may be async.

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
    on_approval: OnApproval | None
    deadline: float | None


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
    if on_update is not None and (not callable(on_update) or is_coroutine_function(on_update)):
        raise TypeError(f"on_update must be a plain function of an Update, not {short_repr(on_update)}")
    on_approval = options.get("on_approval")
    if on_approval is not None and not callable(on_approval):
        raise TypeError(
            f"on_approval must be a function of an ApprovalRequest, not {short_repr(on_approval)}"
        )
    return Handle(Run(graph, checked), deadline, on_update, on_approval)


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
    if isinstance(given, Record):
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


def _loose(handle: Handle) -> None:
    handle._loose = True
    trio.run(handle._execute)


def _in_thread(handle: Handle, daemon: bool) -> None:
    """Start a run in a thread of its own; Ctrl-C that comes meanwhile interrupts the run."""
    context = copy_context()
    thread = threading.Thread(target=context.run, args=(_loose, handle), name="june-run", daemon=daemon)
    try:
        thread.start()
    except KeyboardInterrupt:
        handle._executor.cancel("interrupt")
        # start() waits for the thread to say that it runs, so it may be there or not.
        if not handle._ended.wait(1) and thread.ident is not None:
            handle._ended.wait()
        raise handle.interrupted() from None


def _run_and_wait(handle: Handle) -> None:
    if running_loop() is not None:
        with ctrl_c():
            _in_thread(handle, daemon=True)
            wait_or_interrupt(handle)
        return
    try:
        run_until_ctrl_c_twice(handle._execute, partial(handle._executor.cancel, "interrupt"))
    except LeftAtOnce as left:
        raise handle.interrupted() from left
    except KeyboardInterrupt:
        # It came too late for a step, and trio raises it at its end.
        raise handle.interrupted() from None


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
    _refuse_trio("run")
    handle = _prepare("run", targets, options)
    _run_and_wait(handle)
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


@overload
def run_resumable(
    target: Step[..., Coroutine[Any, Any, T]],
    /,
    *,
    path: str | os.PathLike[str],
    keep: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult[T]: ...
@overload
def run_resumable(
    target: Step[..., T],
    /,
    *,
    path: str | os.PathLike[str],
    keep: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult[T]: ...
@overload
def run_resumable(
    *targets: Any, path: str | os.PathLike[str], keep: bool = False, **options: Unpack[RunOptions]
) -> RunResult[Any]: ...
def run_resumable(
    *targets: Any, path: str | os.PathLike[str], keep: bool = False, **options: Unpack[RunOptions]
) -> RunResult[Any]:
    """
    As `run`, going on from what *path* holds, and saving there as steps finish.

    What finishes is written, to a journal beside the file, before anything else hears of it: however the
    process ends, the next run of the same steps with the same *path* reuses it. Where the run fails or is
    interrupted, the file holds everything that has finished. Once it has succeeded, the file is removed. One
    run at a time can save to a file.

    Args:
        *targets: As for `run`.
        path: The snapshot file. There need be none yet, but the folder that it is to be in.
        keep: Whether the file is to stay when the run has succeeded.
        **options: See `RunOptions`. What *snapshot* holds counts where the file has no entry.

    Raises:
        SnapshotError: If the file is in use, cannot be read or written, or is damaged; before anything runs.
        RunFailed: If steps failed, or something could not be saved: then a `SnapshotError` is among its
            exceptions, and the error's snapshot has what finished all the same.
    """
    return run_resumable_then(None, *targets, path=path, keep=keep, options=options)


def run_resumable_then(
    then: Callable[[RunResult[Any]], object] | None,
    *targets: Any,
    path: str | os.PathLike[str],
    keep: bool,
    options: RunOptions,
) -> RunResult[Any]:
    """
    As `run_resumable`, for the command line: the file stays, and nobody else's, until *then* is done as well.

    Args:
        then: Called with the result, and None for nothing. What it raises leaves the file there.
        *targets: As for `run`.
        path: The snapshot file.
        keep: Whether the file is to stay.
        options: See `RunOptions`.
    """
    _refuse_trio("run_resumable")
    storage = Storage(path, keep, hold=then is not None)
    handle: Handle | None = None
    try:
        try:
            handle = _prepare_to_save("run_resumable", targets, options, storage)
            storage.begin(handle.snapshot())
            handle._save_to(storage)
            _run_and_wait(handle)
            result = handle._outcome()
            if then is not None:
                then(result)
                storage.settle()
            return result
        finally:
            if handle is None or not handle._goes_on:
                storage.release()
    except KeyboardInterrupt:
        if handle is not None and storage.gone:
            # It came when all was done and the file removed; whoever hears of an interrupt must find it.
            storage.restore(handle.snapshot())
        raise


@overload
async def run_resumable_async(
    target: Step[..., Coroutine[Any, Any, T]],
    /,
    *,
    path: str | os.PathLike[str],
    keep: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult[T]: ...
@overload
async def run_resumable_async(
    target: Step[..., T],
    /,
    *,
    path: str | os.PathLike[str],
    keep: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult[T]: ...
@overload
async def run_resumable_async(
    *targets: Any, path: str | os.PathLike[str], keep: bool = False, **options: Unpack[RunOptions]
) -> RunResult[Any]: ...
async def run_resumable_async(
    *targets: Any, path: str | os.PathLike[str], keep: bool = False, **options: Unpack[RunOptions]
) -> RunResult[Any]:
    """
    As `run_resumable`, inside trio.

    Raises:
        trio.Cancelled: If the task is cancelled; the file then holds everything that has finished.
        RuntimeError: Outside of trio.
    """
    _require_trio("run_resumable_async", instead="run_resumable(...)")
    # The caller may have taken all the threads that trio gives out otherwise.
    limiter = trio.CapacityLimiter(1)
    storage = await trio.to_thread.run_sync(Storage, path, keep, limiter=limiter)
    try:
        handle = _prepare_to_save("run_resumable_async", targets, options, storage)
        await trio.to_thread.run_sync(storage.begin, handle.snapshot(), limiter=limiter)
        handle._save_to(storage)
        await handle._execute()
        return handle._outcome()
    finally:
        storage.release()


def _prepare_to_save(caller: str, targets: tuple[Any, ...], options: RunOptions, storage: Storage) -> Handle:
    given = _snapshot(options.get("snapshot"))
    start = storage.snapshot
    if given is not None:
        start = given if start is None else Snapshot.of(laid_over(start.contents, given.contents))
    return _prepare(caller, targets, {**options, "snapshot": start})


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
    handle._desk.attended = True
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
    handle._desk.attended = True
    _in_thread(handle, daemon=False)
    return handle


def _refuse_trio(caller: str) -> None:
    if running_loop() == "trio":
        raise RuntimeError(f"{caller}() blocks, and trio is running here; use: await {caller}_async(...)")


def _require_trio(caller: str, instead: str = "run(...), or start(...) and await its handle") -> None:
    if running_loop() != "trio":
        raise RuntimeError(f"{caller}() works inside trio only; use {instead}")
