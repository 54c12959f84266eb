"""
A workflow that is saved as it goes, and a disk that is watched meanwhile, and made to fail.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from june import ResultWarning, RunResult, Snapshot, Update, _disk, run, run_resumable, step
from june.storage import Storage

PATH = "deploy.json"
JOURNAL = PATH + ".journal"

State = dict[str, bytes]
"""The files of a folder by name."""


def scale() -> float:
    """How many times as many states as usual to try."""
    return float(os.environ.get("JUNE_EXAMPLES", "1"))


# -- A workflow.


@step(id="plan", runs_on="inline")
def plan(service: str) -> str:
    return f"Plan „{service}“\n1. build"


@step(id="parts", runs_on="inline")
def parts(plan: str, count: int) -> list[str]:
    return [f"{plan[5:-9]}-{number}" for number in range(count)]


@step(id="part", each={"part": parts})
async def part(part: str, breaks: set[str]) -> dict[str, str]:
    if "part" in breaks and part.endswith("2"):
        raise ValueError("no part 2")
    return {"name": part, "text": f"all of\t{part}"}


@step(id="big", runs_on="inline")
def big(plan: str, size: int) -> str:
    return "".join([f"{number:07d} " for number in range(size // 8)])


@step(id="odd", runs_on="inline")
def odd(plan: str):
    return (plan, 1)  # no annotation, so it does not come back from JSON as a tuple, and is not saved


@step(id="report", runs_on="inline")
def report(part: list[dict[str, str]], big: str, odd, breaks: set[str]) -> int:
    if "report" in breaks:
        raise ValueError("no report")
    return len(part) + len(big) + len(odd)


INPUTS = {"service": "web", "count": 4, "size": 200}


def saving(
    path: str | os.PathLike[str],
    keep: bool = False,
    breaks: tuple[str, ...] = (),
    on_update: Callable[[Update], object] | None = None,
    snapshot: Snapshot | None = None,
    **inputs: Any,
) -> RunResult[Any]:
    """Run the workflow, saving to *path*; steps named by *breaks* fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultWarning)
        return run_resumable(
            report,
            path=path,
            keep=keep,
            inputs=INPUTS | inputs,
            resources={"breaks": set(breaks)},
            snapshot=snapshot,
            on_update=on_update,
        )


def fresh(**inputs: Any) -> RunResult[Any]:
    """Run the workflow, saving nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultWarning)
        return run(report, inputs=INPUTS | inputs, resources={"breaks": set()})


@functools.cache
def keys(**inputs: Any) -> dict[str, str]:
    """The keys of all steps by id."""
    steps = fresh(**inputs).snapshot().contents.steps
    return {id: entry.cacheKey for id, entry in steps.items()}


def reported(record: Any) -> dict[str, str]:
    """The keys by id of the steps that are reported done, and whose results are saved."""
    snapshot = record.snapshot()
    done = [node.id for node in record.trace if node.status == "done" and node.id in snapshot]
    return {id: snapshot.entry(id).cacheKey for id in done}


def ran(record: Any) -> set[str]:
    """The ids of the steps that ran and finished, with results that can be saved."""
    return {
        node.id
        for node in record.trace
        if node.status == "done" and not node.resumed and node.id not in ("odd", "part")
    }


# -- The disk.


class Call(NamedTuple):
    """
    A call that changed the disk: what it did, to which file (a number) or name, and with what.

    Three are none. ``expects`` says what keys the steps have in the run that begins: entries with others may
    go. ``safe`` says what should be safe by now, with which keys. ``succeeded`` says that all may go.
    """

    what: str
    file: int = 0
    name: str = ""
    data: Any = None


class Recorder:
    """
    Stands in the way of the calls by which June changes the disk, and lets through all but fsync.

    Attributes:
        log: The calls.
        folder: The folder in which they are made.
        most: How many bytes are written at once at most.
        meanwhile: Called within each fsync of a file, when that has been recorded.
        fails_to_sync: Whether some fsync is to fail.
        counts: How many calls of each kind there were.
    """

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.log: list[Call] = []
        self.most = 1 << 30
        self.meanwhile: Callable[[], object] = lambda: None
        self.fails_to_sync = False
        self._lock = threading.RLock()
        self._errors: dict[tuple[str, int], OSError] = {}
        self._death = (1 << 30, OSError())
        self.counts: dict[str, int] = {}
        self._files: dict[int, int] = {}
        self._names = {name: number for number, name in enumerate(state, 1)}
        self._next = len(state) + 1
        for name, data in state.items():
            (folder / name).write_bytes(data)

    def fail(self, what: str, number: int, error: OSError) -> None:
        """Have the call of a kind with that number from now, from 1, raise *error*."""
        self.fails_to_sync = self.fails_to_sync or "sync" in what
        self._errors[what, self.counts.get(what, 0) + number] = error

    def die(self, number: int, error: OSError) -> None:
        """Have the call with that number, of any kind, and all that come after, raise *error*."""
        self._death = (number, error)

    def _count(self, what: str) -> None:
        self.counts[what] = number = self.counts.get(what, 0) + 1
        error = self._errors.get((what, number))
        if sum(self.counts.values()) >= self._death[0]:
            error = self._death[1]
        if error is not None:
            raise error

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Stand in the way."""
        names = ("create", "write", "sync", "cut", "rename", "remove", "sync_folder")
        before = {name: getattr(_disk, name) for name in names}
        for name in names:
            setattr(_disk, name, getattr(self, name))
        try:
            yield
        finally:
            for name, function in before.items():
                setattr(_disk, name, function)

    def create(self, path: str) -> int:
        with self._lock:
            self._count("create")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            file, self._next = self._next, self._next + 1
            self._files[descriptor] = file
            self._names[os.path.basename(path)] = file
            self.log.append(Call("create", file, os.path.basename(path)))
            return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        with self._lock:
            self._count("write")
            written = os.write(descriptor, data[: self.most])
            self.log.append(Call("write", self._files[descriptor], data=bytes(data[:written])))
            return written

    def sync(self, descriptor: int) -> None:
        with self._lock:
            self._count("sync")
            self.log.append(Call("sync", self._files[descriptor]))
        self.meanwhile()

    def cut(self, descriptor: int, length: int) -> None:
        with self._lock:
            self._count("cut")
            os.ftruncate(descriptor, length)
            self.log.append(Call("cut", self._files[descriptor], data=length))

    def rename(self, path: str, other: str) -> None:
        with self._lock:
            self._count("rename")
            os.replace(path, other)
            file = self._names.pop(os.path.basename(path))
            self._names[os.path.basename(other)] = file
            self.log.append(Call("rename", file, os.path.basename(path), os.path.basename(other)))

    def remove(self, path: str) -> None:
        with self._lock:
            self._count("remove")
            os.unlink(path)
            if self._names.pop(os.path.basename(path), None) is not None:
                self.log.append(Call("remove", name=os.path.basename(path)))

    def sync_folder(self, path: str) -> None:
        with self._lock:
            self._count("sync_folder")
            self.log.append(Call("sync_folder"))


# -- What is there before a run.


def saved(folder: Path, ids: list[str]) -> None:
    """Save a snapshot of some steps of the workflow."""
    whole = fresh().snapshot()
    whole.without([id for id in whole if id not in ids]).save(folder / PATH)


def journaled(folder: Path, ids: list[str]) -> None:
    """Leave the journal of a run that was killed when some steps of the workflow had finished."""
    storage = Storage(folder / PATH, keep=True)
    journal = storage.begin(storage.snapshot or Snapshot.from_dict({"version": 1, "steps": {}}))
    for id in ids:
        journal.finish(None, fresh().snapshot().entry(id))
    storage.release()


def nothing(folder: Path) -> None:
    """Leave nothing."""


def a_file(folder: Path) -> None:
    """Leave the file of a run that failed."""
    saved(folder, ["plan", "parts", "part[„web“-1]"])


def a_journal(folder: Path) -> None:
    """Leave what a killed run does that began with nothing."""
    journaled(folder, ["plan", "parts"])


def a_file_and_a_journal(folder: Path) -> None:
    """Leave what a killed run does that began with a file, and something that it was about to write."""
    saved(folder, ["plan", "part[„web“-1]"])
    journaled(folder, ["parts", "part[„web“-2]"])
    (folder / f"{JOURNAL}.new").write_bytes(b'{"version":1,')


def files_in(folder: Path) -> State:
    """Read all files in a folder."""
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}
