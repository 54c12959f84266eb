"""
Processes to kill: runs that save as they go, in children that SIGKILL ends at a chosen moment.

A `Zygote` is a process of one thread that has imported everything. For each `Job` it forks a child, which runs a
plan and reports on a pipe: every attempt that begins, every step that is done, and every call by which June
changes the disk, just before it. The child kills itself at one of these calls, or the zygote kills it once it
has reported so much. What is on the disk then is for the caller to look at.
"""

from __future__ import annotations

import errno
import functools
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import filelock  # noqa: F401  # June imports it when it first takes a lock, which is late for a zygote

import june
import june._disk
import june.journals
from june import RunFailed, RunResult, Snapshot, SnapshotError, Step, Update, run, run_resumable
from tests.oracle import Failures, Plan
from tests.strategies_graphs import LIMIT, Probe, Visit, paces, real, schedule

ROOT = Path(__file__).parent.parent

CALLS = ("create", "write", "sync", "cut", "rename", "remove", "sync_folder")
"""What `june._disk` changes a disk by."""

HANGS_SECONDS = 60
"""A child that has not ended by itself after so long is ended, and its test fails."""


@dataclass(frozen=True)
class Job:
    """
    A run in a child, and when it is killed.

    Attributes:
        plan: What to run.
        inputs: All inputs; those are given that the plan asks for.
        path: The file to save to.
        failures: What fails.
        options: Options of the run, *keep* among them.
        seed: Decides trio's order, and how long steps take.
        after_lines: How many reported lines the child is to be killed after, or None.
        spin: How many seconds later than that.
        at_call: Which of `CALLS` the child is to be killed at, and which one of these, from 1; or None.
        position: Where at that call: ``before``, ``half`` (of what is to be written) or ``after``.
        full: Numbers of the writes, from 1, for which there is no space on the disk.
        sync_seconds: How long the journal waits for fsync; None leaves it as it is.
        look: Whether the zygote loads the snapshot after every line that it reads.
    """

    plan: Plan
    inputs: Mapping[str, Any]
    path: Path
    failures: Failures = field(default_factory=Failures)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    after_lines: int | None = None
    spin: float = 0
    at_call: tuple[str, int] | None = None
    position: str = "before"
    full: range = range(0)
    sync_seconds: float | None = None
    look: bool = False


@dataclass(frozen=True)
class Look:
    """What the zygote saw when the child had reported some lines: ids of a loaded snapshot, or a problem."""

    lines: int
    ids: frozenset[str] | None
    problem: str | None = None


@dataclass(frozen=True)
class Report:
    """
    What became of a child.

    Attributes:
        lines: What it reported: a word, and what that is about.
        ended: ``killed``; or ``well``, ``failed``, ``refused`` or ``broken`` and why, as its run ended.
        looks: What could be loaded meanwhile.
    """

    lines: tuple[str, ...]
    ended: str
    looks: tuple[Look, ...] = ()

    def told(self, word: str) -> list[str]:
        """What was reported with some word, in order."""
        return [line.partition(" ")[2] for line in self.lines if line.partition(" ")[0] == word]

    @property
    def killed(self) -> bool:
        return self.ended == "killed"

    @property
    def removing(self) -> bool:
        """Whether the removal of the file had begun, as the run had succeeded."""
        return "remove deploy.json" in self.told("disk")


# -- Runs that save, here and in a child.


@functools.lru_cache(maxsize=64)
def steps_of(plan: Plan) -> list[Step[..., Any]]:
    """Make the steps of a plan, once: a child has those that its zygote has made."""
    return real(plan)


def save(
    plan: Plan, inputs: Mapping[str, Any], path: Path, probe: Probe, seed: int, **options: Any
) -> RunResult[Any]:
    """Run a plan, saving to a file. Whatever *seed* is, results are the same."""
    asked_for = plan.inputs()
    probe.pause = paces(seed, virtual=False)
    options = {
        "inputs": {name: value for name, value in inputs.items() if name in asked_for},
        "resources": {"probe": probe},
        "limits": {"few": LIMIT},
        "on_error": "continue",
        **options,
    }
    with warnings.catch_warnings(), schedule(seed):
        warnings.simplefilter("ignore", june.ResultWarning)
        return run_resumable(steps_of(plan), path=path, **options)


# -- The child.


@dataclass
class Reporter(Probe):
    """A probe that reports every attempt before it begins."""

    report: Callable[[str], None] = print

    def enter(self, arguments: list[Any]) -> Visit:
        self.report(f"began {june.current().id}")
        return super().enter(arguments)


def die() -> None:
    """End this process as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # until the signal has come
        pass


def stand_in_the_way(job: Job, report: Callable[[str], None]) -> None:
    """Have every call that changes the disk be reported, and the child be killed at one of them."""

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        numbers = itertools.count(1)

        def instead(*arguments: Any) -> Any:
            number = next(numbers)
            here = (name, number) == job.at_call
            about = f" {os.path.basename(arguments[0])}" if isinstance(arguments[0], str) else ""
            report(f"disk {name}{about}")
            if here and job.position == "before":
                die()
            no_space = name == "write" and number in job.full
            if no_space or (here and job.position == "half"):
                descriptor, data = arguments
                call(descriptor, data[: len(data) // 2])
            if here and job.position == "half":
                die()
            done = None if no_space else call(*arguments)
            if here:
                die()
            if no_space:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return done

        return instead

    for name in CALLS:
        setattr(june._disk, name, watched(name, getattr(june._disk, name)))
    if job.sync_seconds is not None:
        june.journals.SYNC_SECONDS = job.sync_seconds


def live(job: Job, sink: int) -> None:
    """Be the child."""

    def report(text: str) -> None:
        os.write(sink, text.encode() + b"\n")

    def watch(update: Update) -> None:
        if update.kind == "status" and update.node.status == "done":
            report(f"{'resumed' if update.node.resumed else 'done'} {update.node.id}")

    signal.alarm(HANGS_SECONDS)
    stand_in_the_way(job, report)
    try:
        probe = Reporter(job.failures, report=report)
        save(job.plan, job.inputs, job.path, probe, job.seed, on_update=watch, **job.options)
    except RunFailed as failure:
        report("ended failed " + "; ".join(f"{type(one).__name__}: {one}" for one in failure.exceptions))
    except SnapshotError as refusal:
        report(f"ended refused {refusal}")
    except BaseException:
        report("ended broken " + traceback.format_exc().replace("\n", "\\n"))
    else:
        report("ended well")


# -- The zygote.


def warm_up(job: Job) -> None:
    """Make the steps of a plan and run none of them, so that every child finds them made and looked at."""
    if job.plan in _warm:
        return
    _warm.add(job.plan)
    run(
        steps_of(job.plan),
        inputs={name: job.inputs[name] for name in job.plan.inputs()},
        resources={"probe": Probe()},
        limits={"few": LIMIT},
        overrides={step.id: None for step in job.plan.steps if step.id in job.plan.order()},
    )


_warm: set[Plan] = set()


def conduct(job: Job) -> Report:
    """Fork a child for a job, and wait until it has ended, one way or another."""
    warm_up(job)
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(source)
            live(job, sink)
        finally:
            os._exit(0)
    os.close(sink)
    said = b""
    looks = []
    to_kill = job.after_lines is not None
    while True:
        if to_kill and said.count(b"\n") >= (job.after_lines or 0):
            until = perf_counter() + job.spin
            while perf_counter() < until:
                pass
            os.kill(child, signal.SIGKILL)
            to_kill = False
        more = os.read(source, 1 << 16)
        if not more:
            break
        said += more
        if job.look:
            looks.append(look(job.path, said.count(b"\n")))
    os.close(source)
    _, status = os.waitpid(child, 0)
    lines = said.decode().splitlines()
    ended = "broken: it hung, or ended without a word"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        ended = "killed"
    elif lines and lines[-1].startswith("ended "):
        ended = lines.pop().removeprefix("ended ")
    return Report(tuple(lines), ended, tuple(looks))


def look(path: Path, lines: int) -> Look:
    """Do as a reader would who looks at the file while a run saves to it."""
    try:
        try:
            Snapshot.from_json(path.read_bytes())
        except FileNotFoundError:
            pass
        snapshot = Snapshot.load(path)
        return Look(lines, frozenset(snapshot) | frozenset(snapshot.to_dict().get("unsaved", {})))
    except FileNotFoundError:
        return Look(lines, None)
    except SnapshotError as problem:
        return Look(lines, None, str(problem))


def serve() -> None:
    """Be the zygote: do jobs until there are no more."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    # What is there is left alone by the children's collectors, so that its pages stay shared.
    gc.freeze()
    while True:
        try:
            job = pickle.load(source)
        except EOFError:
            return
        pickle.dump(conduct(job), sink)
        sink.flush()


class Zygote:
    """The zygote, as seen from outside. As a context manager it is there inside the block."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.killed import serve; serve()"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(self, *raised: object) -> None:
        with self._process:  # which closes its pipes, and waits
            pass

    def run(self, job: Job) -> Report:
        """Do a job, and say what became of it."""
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None and sink is not None
        pickle.dump(job, sink)
        sink.flush()
        report: Report = pickle.load(source)
        return report
