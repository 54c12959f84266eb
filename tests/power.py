"""
Power loss by simulation: every state that a disk may show after a cut, at every call that changes it.

As ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI 2018) do it: the calls of real runs are
recorded, and for each prefix of what was recorded the states are built that a disk may be found in. What the
last fsync of a file covered is there. What was written since may be missing, torn, or there without what was
written before it; what is missing before something that is there reads as zeros, and so may a file's end. What
was done to the names in a folder since its last fsync may have happened or not, each on its own.

Run it with ``python -m tests.power``, which prints how many states there were.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from errno import EIO, ENOSPC
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from june import RunFailed, RunResult, Snapshot, SnapshotError, Update, journals
from june.journals import Journal
from june.storage import Storage
from tests.disks import (
    INPUTS,
    JOURNAL,
    PATH,
    Call,
    Recorder,
    State,
    fresh,
    keys,
    ran,
    reported,
    saving,
    scale,
)

# -- What a disk may show.


def holed(view: bytes, holes: list[tuple[int, int]]) -> bytes:
    """Give *view* with zeros from the first to before the second of each pair."""
    data = bytearray(view)
    for start, end in holes:
        data[start:end] = bytes(end - start)
    return bytes(data)


@dataclass
class File:
    """
    A file: what the last fsync covered, and what was done to it since (bytes appended, or a length to cut to).
    """

    safe: bytes = b""
    since: list[bytes | int] = field(default_factory=list)

    def views(self) -> list[tuple[bytes, list[int]]]:
        """What it held before each cut and holds now, each with where its writes since the fsync end."""
        found = []
        view, ends = self.safe, [len(self.safe)]
        for change in self.since:
            if isinstance(change, int):
                found.append((view, ends))
                view, ends = view[:change], [end for end in ends if end < change] + [change]
            else:
                view += change
                ends = [*ends, len(view)]
        return [*found, (view, ends)]

    @property
    def now(self) -> bytes:
        """What it holds for those who look while there is power."""
        return self.views()[-1][0]

    def shapes(self, rng: random.Random, limit: int) -> list[bytes]:
        """List what it may hold after a cut: all of a small number of ways, else *limit* of them."""
        if not self.since:
            return [self.safe]
        found = [self.safe]
        for view, ends in self.views():
            found += [view[:end] for end in ends]
            start = ends[0]
            found += [view[:end] + bytes(len(view) - end) for end in ends]
            for grain in (0, 512, 4096):
                pieces = self._pieces(start, len(view), ends, grain)
                if len(pieces) <= 5:
                    for mask in range(1 << len(pieces)):
                        holes = [piece for bit, piece in enumerate(pieces) if mask >> bit & 1]
                        found.append(holed(view, holes))
            if len(view) > start:
                found += [self._shape(rng, view, ends) for _ in range(limit)]
        found = list(dict.fromkeys(found))
        return found if len(found) <= 2 * limit else rng.sample(found, 2 * limit)

    @staticmethod
    def _pieces(start: int, end: int, ends: list[int], grain: int) -> list[tuple[int, int]]:
        """Take what was written since the fsync apart: into writes, or into blocks of the disk."""
        bounds = ends if grain == 0 else [start, *range((start // grain + 1) * grain, end, grain), end]
        return [(low, min(high, end)) for low, high in pairwise(bounds) if low < end]

    def _shape(self, rng: random.Random, view: bytes, ends: list[int]) -> bytes:
        """Make up one of the ways."""
        start = ends[0]
        end = rng.choice([rng.randint(start, len(view)), rng.choice(ends), len(view)])
        how = rng.randrange(4)
        if how == 0:
            return view[:end]
        pieces = self._pieces(start, end, ends, (0, 0, 512, 4096)[how])
        missing = rng.random()
        holes = []
        for low, high in pieces:
            if rng.random() < missing:
                # Sectors are there or not, as a whole; a write may be there in part.
                holes.append((rng.randint(low, high) if how == 1 and rng.random() < 0.5 else low, high))
        if holes and holes[-1][1] == end and rng.random() < 0.5:
            return holed(view[: holes[-1][0]], holes[:-1])
        return holed(view[:end], holes)


class Model:
    """
    The disk as the calls so far have left it, and what must be there after a cut.

    Attributes:
        covered: Keys by id of what an fsync has covered, and no run has dropped since.
        removing: Whether the last run has begun to remove what it saved: all of it may be gone, or nothing.
        lost: What June takes to be safe, and no fsync has covered.
        wrote: Keys by id that were ever written, in order.
    """

    def __init__(self, state: State, covered: dict[str, str]) -> None:
        self.files = {number: File(data) for number, data in enumerate(state.values(), 1)}
        self.safe_names = {name: number for number, name in enumerate(state, 1)}
        self.names = dict(self.safe_names)
        self.since: list[Call] = []
        self.covered = dict(covered)
        self.wrote = {id: [key] for id, key in covered.items()}
        self.removing = False
        self.lost: frozenset[str] = frozenset()
        self._expected: dict[str, str] = {}
        self._read: dict[int, int] = {}

    def take(self, call: Call) -> None:
        """Take another call into account."""
        if call.what in ("write", "cut"):
            self.files[call.file].since.append(call.data)
            if call.file in self._read:
                self._note_written(call.file)
        elif call.what == "sync":
            self.files[call.file] = File(self.files[call.file].now)
            self._cover()
        elif call.what == "sync_folder":
            self.safe_names, self.since = dict(self.names), []
            self._cover()
        elif call.what == "expects":
            self._expected = call.data
        elif call.what == "succeeded":
            self.removing = True
        elif call.what == "safe":
            self.lost = frozenset(id for id, key in call.data.items() if self.covered.get(id) != key)
        else:
            if call.what == "create":
                self.files[call.file] = File()
                if call.name == JOURNAL:
                    self._read[call.file] = 0
                    if self.removing:
                        self.removing = False
                        self.covered.clear()
            elif call.what == "rename":
                self._note_fold(self.files[call.file].now)
            apply(call, self.names)
            self.since.append(call)

    def _note_written(self, file: int) -> None:
        lines, self._read[file] = lines_of(self.files[file].now, self._read[file])
        for id, key in lines:
            self.wrote.setdefault(id, []).append(key)

    def _note_fold(self, data: bytes) -> None:
        kept = keys_in(data)
        for id, key in kept.items():
            # What could not be written to the journal may still get here.
            written = self.wrote.setdefault(id, [])
            if written[-1:] != [key]:
                written.append(key)
        for id, key in self._expected.items():
            if id not in kept and self.covered.get(id) != key:
                self.covered.pop(id, None)

    def _cover(self) -> None:
        """Find what a disk shows that does nothing but what it must."""
        found: dict[str, str] = {}
        if PATH in self.safe_names:
            found = keys_in(self.files[self.safe_names[PATH]].safe)
        if JOURNAL in self.safe_names:
            data = self.files[self.safe_names[JOURNAL]].safe
            if PATH in self.safe_names or b'"fresh":true' in data[:120]:
                found.update(lines_of(data, 0)[0])
        self.covered.update(found)

    def folders(self, rng: random.Random, limit: int) -> list[dict[str, int]]:
        """List what names there may be after a cut: every order-keeping choice of few, else some."""
        count = len(self.since)
        masks = {(1 << done) - 1 for done in range(count + 1)}
        if count <= 5:
            masks.update(range(1 << count))
        else:
            masks.update(rng.getrandbits(count) for _ in range(limit))
        found = []
        for mask in sorted(masks):
            names = dict(self.safe_names)
            for bit, call in enumerate(self.since):
                if mask >> bit & 1:
                    apply(call, names)
            if names not in found:
                found.append(names)
        return found

    def states(self, rng: random.Random, limit: int) -> Iterator[State]:
        """Go through states in which a disk may be after a cut here."""
        folders = self.folders(rng, limit)
        shapes: dict[int, list[bytes]] = {}
        for names in folders:
            for file in names.values():
                if file not in shapes:
                    shapes[file] = self.files[file].shapes(rng, limit)
            files = list(names.items())
            size = 1
            for _, file in files:
                size *= len(shapes[file])
            if size <= limit:
                picks = range(size)
            else:
                picks = [rng.randrange(size) for _ in range(limit)]
            for pick in picks:
                state = {}
                for name, file in files:
                    pick, one = divmod(pick, len(shapes[file]))
                    state[name] = shapes[file][one]
                yield state


def apply(call: Call, names: dict[str, int]) -> None:
    """Do to the names of a folder what a call did."""
    if call.what == "create":
        names[call.name] = call.file
    elif call.what == "rename":
        names.pop(call.name, None)
        names[call.data] = call.file
    else:
        names.pop(call.name, None)


def keys_in(data: bytes) -> dict[str, str]:
    """Read the keys in a snapshot by id, in the plainest way; one that is not whole has none."""
    try:
        return {id: entry["cacheKey"] for id, entry in json.loads(data)["steps"].items()}
    except ValueError:
        return {}


def lines_of(data: bytes, start: int) -> tuple[list[tuple[str, str]], int]:
    """
    Read the entries of a journal that is whole, in the plainest way.

    Args:
        data: The journal.
        start: Where to begin.

    Returns:
        Ids and keys, and where the last whole line ends.
    """
    end = data.rfind(b"\n") + 1
    found = []
    for line in data[start:end].splitlines():
        if b"\0" in line:
            continue  # an earlier cut has been here
        _, _, _, kind, text = line.split(b" ", 4)
        if kind == b"entry":
            found += [(id, entry["cacheKey"]) for id, entry in json.loads(text).items()]
    return found, max(start, end)


# -- Plays: runs that are recorded, and cut.


class Loaded(NamedTuple):
    """What a state loads as: keys by id, whether each one's code is explained; None if there is nothing."""

    keys: dict[str, str] | None
    unexplained: frozenset[str]
    problem: str | None


@dataclass
class Play:
    """
    Runs that save to one file, recorded.

    Attributes:
        folder: Where they run.
        rng: Where chance comes from.
        known: The lines that each id and key may have in a snapshot.
        unsaved: Ids and keys of results that could not be saved.
        state: What is there before the first run.
        loaded: What that loads as.
        inputs: The inputs of the last run.
    """

    folder: Path
    rng: random.Random
    known: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)
    unsaved: set[tuple[str, str]] = field(default_factory=set)
    state: State = field(default_factory=dict)
    loaded: Loaded | None = None
    inputs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.folder, self.state)

    @property
    def path(self) -> Path:
        return self.folder / PATH

    def learn(self, snapshot: Snapshot) -> None:
        """Note what has been computed, as the run itself holds it."""
        for id, entry in snapshot.contents.steps.items():
            self.known.setdefault((id, entry.cacheKey), set()).add(entry.line(id))
        self.unsaved.update(snapshot.contents.unsaved.items())

    def run(self, syncs: float | None = None, **options: Any) -> None:
        """
        Run the workflow.

        Args:
            syncs: The probability that the journal is made safe after an update. None leaves that to the
                journal's thread, which then does it as often as it can.
            **options: As for `saving`; inputs are those of the last run where not given.
        """
        self.inputs = self.inputs | {name: value for name, value in options.items() if name in INPUTS}
        options |= self.inputs
        self.recorder.log.append(Call("expects", data=keys(**self.inputs)))

        def on_update(update: Update) -> None:
            if syncs is not None and self.rng.random() < syncs:
                self._make_safe(update.handle._run.journal, reported(update.handle))

        before = journals.SYNC_SECONDS
        journals.SYNC_SECONDS = 0.0 if syncs is None else 1e6
        try:
            with self.recorder.recording():
                ended: RunResult[Any] | RunFailed = saving(self.path, on_update=on_update, **options)
            self._note_end(ended, options.get("keep", False))
        except RunFailed as failed:
            self._note_end(failed, kept=True)
        except SnapshotError:
            pass  # nothing has run
        finally:
            journals.SYNC_SECONDS = before

    def _make_safe(self, journal: Journal, keys: dict[str, str]) -> None:
        """Have a journal made safe, which has the lines of steps with *keys*."""
        journal._make_safe()
        if journal.problem is None:
            self.recorder.log.append(Call("safe", data=keys))

    def _note_end(self, ended: RunResult[Any] | RunFailed, kept: bool) -> None:
        self.learn(ended.snapshot())
        if not kept:
            self._note_success()
        elif not self.recorder.fails_to_sync:
            self.recorder.log.append(Call("safe", data=reported(ended)))

    def _note_success(self) -> None:
        """Note that a run has succeeded and removed its file: it may, once it has written the last line."""
        log = self.recorder.log
        last = max(number for number, call in enumerate(log) if call.what == "write")
        log.insert(last + 1, Call("succeeded"))

    def drive(self, size: int, meanwhile: float = 0.0, keep: bool = False, fails: bool = True) -> None:
        """
        Have a journal written without a run, fsyncs wherever chance has it.

        Args:
            size: Input of the workflow, whose steps finish.
            meanwhile: The probability that something finishes while an fsync is under way.
            keep: Whether the file stays in any case.
            fails: Whether the run that this stands for fails.
        """
        self.inputs = {"size": size}
        left = list(fresh(size=size).snapshot().contents.steps.values())
        finished: dict[str, str] = {}
        before = journals.SYNC_SECONDS
        journals.SYNC_SECONDS = 1e6

        def finish() -> None:
            entry = left.pop(0)
            if not journal.finish(None, entry):
                journal.flush()
            finished[entry.id] = entry.cacheKey

        def during_fsync() -> None:
            if left and threading.current_thread() is threading.main_thread():
                while left and self.rng.random() < meanwhile:
                    finish()

        try:
            with self.recorder.recording():
                storage = Storage(self.path, keep)
                journal = storage.begin(storage.snapshot or Snapshot.from_dict({"version": 1, "steps": {}}))
                self.recorder.meanwhile = during_fsync
                while left:
                    if self.rng.random() < 0.4:
                        self._make_safe(journal, dict(finished))
                    else:
                        finish()
                whole = Snapshot.load(self.path)
                self.learn(whole)
                storage.end(whole, succeeded=not fails)
            if fails or keep:
                self.recorder.log.append(Call("safe", data=finished))
            else:
                self._note_success()
        finally:
            journals.SYNC_SECONDS = before
            self.recorder.meanwhile = lambda: None


class Folder:
    """A folder that is put into one state after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shows: State = {}

    def show(self, state: State) -> Path:
        """Put the folder into a state; give the path of the snapshot."""
        for name in self._shows.keys() | state.keys():
            data, before = state.get(name), self._shows.get(name)
            if data == before:
                continue
            if before is not None:
                # Also where it is written anew: a file system may flush what is written over.
                os.unlink(self.path / name)
            if data is not None:
                (self.path / name).write_bytes(data)
        self._shows = dict(state)
        return self.path / PATH


@dataclass
class Tally:
    """
    What came of cutting.

    Attributes:
        cuts: How many prefixes there were.
        states: How many distinct states.
        checks: How many states were looked at, one cut or another.
        reruns: How many were run over.
        problems: What was wrong, in words; the first few.
    """

    cuts: int = 0
    states: int = 0
    checks: int = 0
    reruns: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.cuts += other.cuts
        self.states += other.states
        self.checks += other.checks
        self.reruns += other.reruns
        self.problems += other.problems

    def __str__(self) -> str:
        return (
            f"{self.states} distinct states after {self.cuts} cuts, {self.checks} looked at, "
            f"{self.reruns} run over, {len(self.problems)} problems"
        )


class Cutter:
    """
    Cuts the power at each call of a play, and looks at what may be found then.

    Attributes:
        tally: What came of it.
        found: Some of the states, and what they load as.
    """

    def __init__(self, play: Play, folder: Path, limit: int, rerun: float) -> None:
        """
        Args:
            play: The play.
            folder: An empty folder.
            limit: How many states of one cut and one set of names are looked at, about.
            rerun: The probability that a distinct state is run over.
        """
        self.play = play
        self.tally = Tally()
        self.found: list[tuple[State, Loaded]] = []
        self._folder = folder
        self._limit = limit
        self._rerun = rerun
        self._loaded: dict[int, Loaded] = {}
        (folder / "shown").mkdir()
        self._shown = Folder(folder / "shown")

    def cut(self) -> Tally:
        """Go through all cuts."""
        base = self.play.loaded
        model = Model(self.play.state, (base and base.keys) or {})
        for number, call in enumerate([None, *self.play.recorder.log]):
            if call is not None:
                model.take(call)
                if model.lost:
                    self._note(f"after call {number}, no fsync has covered {sorted(model.lost)}")
            self.tally.cuts += 1
            for state in model.states(self.play.rng, self._limit):
                self.tally.checks += 1
                problem = self._check(state, model)
                if problem is not None:
                    self._note(f"after call {number} ({shown(call)}), {problem}: {sizes(state)}")
        return self.tally

    def _note(self, problem: str) -> None:
        if len(self.tally.problems) < 20:
            self.tally.problems.append(problem)

    def _check(self, state: State, model: Model) -> str | None:
        mark = hash(tuple(sorted(state.items())))
        loaded = self._loaded.get(mark)
        new = loaded is None
        if loaded is None:
            loaded = self._loaded[mark] = self._load(state)
            self.tally.states += 1
        problem = loaded.problem or self._missing(loaded, model)
        if problem is None and new and self.play.rng.random() < self._rerun:
            self.found.append((state, loaded))
            self.tally.reruns += 1
            problem = self._run_over(state, loaded.keys or {})
        return problem

    def _load(self, state: State) -> Loaded:
        path = self._shown.show(state)
        try:
            snapshot = Snapshot.load(path)
        except FileNotFoundError:
            return Loaded(None, frozenset(), None)
        except Exception as error:
            return Loaded({}, frozenset(), f"loading raises {error!r}")
        contents = snapshot.contents
        for id, entry in contents.steps.items():
            if entry.line(id) not in self.play.known.get((id, entry.cacheKey), ()):
                return Loaded({}, frozenset(), f"{id} has a wrong entry, {entry.line(id)[:200]!r}")
        if not self.play.unsaved.issuperset(contents.unsaved.items()):
            return Loaded({}, frozenset(), f"unsaved is wrong, {contents.unsaved}")
        keys = {id: entry.cacheKey for id, entry in contents.steps.items()}
        unexplained = frozenset(
            id for id, entry in contents.steps.items() if not set(entry.rows()) <= contents.code.keys()
        )
        return Loaded(keys, unexplained, None)

    def _missing(self, loaded: Loaded, model: Model) -> str | None:
        """Say what had to be there and is not, or None."""
        if loaded.keys is None:
            gone = model.covered and not model.removing
            return f"there is no file, and {len(model.covered)} entries are lost" if gone else None
        for id, key in model.covered.items():
            found = loaded.keys.get(id)
            wrote = model.wrote[id]
            since = wrote[len(wrote) - 1 - wrote[::-1].index(key) :] if key in wrote else [key]
            if found not in since:
                return f"{id} should be there with key {key} or a later one, and is with {found}"
            if id in loaded.unexplained and not (self.play.loaded and id in self.play.loaded.unexplained):
                return f"the code that {id} came from is not there"
        return None

    def _run_over(self, state: State, keys: dict[str, str]) -> str | None:
        """Run the workflow over a state, and say what is wrong then, or None."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            path = Folder(Path(name)).show(state)
            try:
                with Recorder(Path(name), state).recording():
                    result = saving(path, keep=True, **self.play.inputs)
            except Exception as error:
                return f"a run over it raises {error!r}"
            # What is not saved runs only if it is needed, and else has no result.
            if {**result.steps, "odd": ()} != {**fresh(**self.play.inputs).steps, "odd": ()}:
                return "a run over it gives other results"
            snapshot = result.snapshot()
            again = [id for id in ran(result) if snapshot.entry(id).cacheKey == keys.get(id)]
            if again:
                return f"a run over it runs {again} again"
            # Whoever saved a snapshot by hand may have left what he was about to rename.
            left = {one for one in os.listdir(name) if not one.startswith("." + PATH)}
            if left != {PATH} or Snapshot.load(path) != snapshot:
                return f"a run over it leaves {sorted(left)}"
        return None


def shown(call: Call | None) -> str:
    """Name a call in a message."""
    if call is None:
        return "none"
    size = f" {len(call.data)} bytes" if isinstance(call.data, bytes) else f" {call.data or ''}"
    return f"{call.what} {call.name or call.file}{size}"


def sizes(state: State) -> str:
    """Show a state in a message."""
    return ", ".join(f"{name} of {len(data)} bytes, {data.count(0)} zeros" for name, data in state.items())


# -- The plays.


def _fails(play: Play) -> None:
    play.run(syncs=0.3, breaks=("report",))


def _fails_unsafe(play: Play) -> None:
    play.run(syncs=0.0, breaks=("report",))


def _succeeds(play: Play) -> None:
    play.run(syncs=0.2)


def _is_kept(play: Play) -> None:
    play.run(syncs=1.0, keep=True)


def _is_resumed(play: Play) -> None:
    play.run(syncs=0.3, breaks=("part",))
    play.run(syncs=0.3)


def _is_fixed_in_three_runs(play: Play) -> None:
    play.run(syncs=0.3, breaks=("part",), keep=True)
    play.run(syncs=0.3, breaks=("report",), keep=True)
    play.run(syncs=0.3, keep=True)


def _changes(play: Play) -> None:
    play.run(syncs=0.3, keep=True)
    play.run(syncs=0.3, keep=True, service="api", breaks=("report",))
    play.run(syncs=0.3, keep=True, service="web")
    play.run(syncs=0.3, size=400)


def _is_large(play: Play) -> None:
    play.run(syncs=0.3, size=70_000, breaks=("report",))
    play.run(syncs=0.3, size=70_000, keep=True)


def _is_large_and_slow(play: Play) -> None:
    play.recorder.most = 30_000
    play.run(syncs=0.3, size=100_000, breaks=("report",))
    play.run(syncs=0.3, size=100_000)


def _is_written_in_bits(play: Play) -> None:
    play.recorder.most = 100
    play.run(syncs=0.2, breaks=("report",))
    play.run(syncs=0.2)


def _has_its_thread(play: Play) -> None:
    play.run(breaks=("part",))
    play.run(keep=True, breaks=("report",))
    play.run()


def _is_large_with_its_thread(play: Play) -> None:
    play.run(breaks=("part",), size=90_000)
    play.run(size=90_000)


def _has_a_full_disk(play: Play) -> None:
    play.recorder.most = 150
    full = OSError(ENOSPC, os.strerror(ENOSPC))
    for number in (5, 12, 20):
        play.recorder.fail("write", number, full)
        play.run(syncs=0.3)
    play.recorder.fail("create", 2, full)  # for what is to take the file's place
    play.run(syncs=0.3, size=208, keep=True)
    play.recorder.fail("write", 8, full)
    play.recorder.fail("cut", 1, full)
    play.run(syncs=0.3, size=216, keep=True)
    play.run(syncs=0.3, keep=True)


def _has_a_disk_that_fails(play: Play) -> None:
    play.recorder.fail("sync", 2, OSError(EIO, os.strerror(EIO)))
    play.run(syncs=0.4)
    play.recorder.fail("sync_folder", 2, OSError(EIO, os.strerror(EIO)))
    play.run(syncs=0.4, breaks=("report",))
    play.recorder.fail("rename", 1, OSError(EIO, os.strerror(EIO)))
    play.run(syncs=0.4, breaks=("report",))
    play.run(syncs=0.4, keep=True)


def _is_driven(play: Play) -> None:
    play.drive(size=200)
    play.drive(size=300, keep=True, fails=False)


def _goes_on_during_fsyncs(play: Play) -> None:
    play.drive(size=200, meanwhile=0.7)
    play.drive(size=66_000, meanwhile=0.7)
    play.drive(size=200, meanwhile=0.7, fails=False)


def _is_saved_by_hand(play: Play) -> None:
    play.run(syncs=0.3, breaks=("report",))
    play.recorder.log.append(Call("expects", data={"plan": ""}))
    with play.recorder.recording():
        if play.path.exists():
            Snapshot.load(play.path).without(["plan"]).save(play.path)
    play.run(syncs=0.3, keep=True)


PLAYS: dict[str, Callable[[Play], None]] = {
    function.__name__.strip("_"): function
    for function in (
        _fails,
        _fails_unsafe,
        _succeeds,
        _is_kept,
        _is_resumed,
        _is_fixed_in_three_runs,
        _changes,
        _is_large,
        _is_large_and_slow,
        _is_written_in_bits,
        _has_its_thread,
        _is_large_with_its_thread,
        _has_a_full_disk,
        _has_a_disk_that_fails,
        _is_driven,
        _goes_on_during_fsyncs,
        _is_saved_by_hand,
    )
}

AGAIN: list[Callable[[Play], None]] = [_fails, _succeeds, _is_kept, _is_resumed, _is_saved_by_hand]
"""What is done over what a cut has left, and cut in its turn."""


def cut(name: str, folder: Path, seed: int = 0, limit: int = 100, again: int = 3) -> Tally:
    """
    Play, cut the power everywhere, and do it again over some of what that leaves.

    Args:
        name: A name in `PLAYS`.
        folder: An empty folder.
        seed: Where chance begins.
        limit: As for `Cutter`.
        again: Over how many states to play again.
    """
    rng = random.Random(f"{name} {seed}")
    tally = Tally()
    play = Play(_new_folder(folder), rng)
    PLAYS[name](play)
    cutter = Cutter(play, _new_folder(folder), limit, rerun=0.01)
    tally.add(cutter.cut())
    for state, loaded in rng.sample(cutter.found, min(again, len(cutter.found))):
        second = Play(_new_folder(folder), rng, play.known, play.unsaved, state, loaded, play.inputs)
        rng.choice(AGAIN)(second)
        tally.add(Cutter(second, _new_folder(folder), max(2, limit // 3), rerun=0.01).cut())
    return tally


def cut_all(name: str) -> Tally:
    """Do `cut` as often, or with as many states, as `scale` says."""
    tally = Tally()
    memory = "/dev/shm"  # the disk is made up, so the fastest one will do
    for seed in range(max(1, round(scale()))):
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as place:
            tally.add(cut(name, Path(place), seed, limit=max(2, int(100 * min(1.0, scale())))))
    return tally


def _new_folder(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def main() -> None:
    """Cut everything, and print what came of it."""
    total = Tally()
    began = time.perf_counter()
    for name in PLAYS:
        start = time.perf_counter()
        tally = cut_all(name)
        print(f"{name}: {tally}, {time.perf_counter() - start:.1f} s")
        for problem in tally.problems:
            print(f"    {problem}")
        total.add(tally)
    print(f"all: {total}, {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
