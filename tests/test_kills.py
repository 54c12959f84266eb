"""
Runs that save as they go, killed at any moment: nothing that has finished is lost, and nothing runs twice.

``JUNE_EXAMPLES=20`` kills twenty times as often. ``pytest -s`` prints how many kills that were, and how many steps
had been reported as finished by then.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import june._disk
from june import RunFailed, Snapshot, Update
from tests.killed import CALLS, Job, Report, Zygote, save
from tests.oracle import Failures, Plan, Round, Saved, typed
from tests.scenes import MIXED, PLANS, Scene, drawn, drawn_turns
from tests.strategies_graphs import Probe
from tests.test_resume_properties import Ledger

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked, and killed by a signal"),
]

TIMES = float(os.environ.get("JUNE_EXAMPLES", "1"))

# -- What is counted.


@dataclass
class Tally:
    """How much was tried."""

    kills: int = 0
    finished: int = 0
    lost: int = 0
    resumed: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.finished} steps reported finished before them, {self.lost} lost; "
            f"{self.resumed} runs resumed to the end; killed at {dict(sorted(self.calls.items()))}"
        )


TOTAL = Tally()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """The tally of one test, which ``-s`` prints."""
    found = Tally()
    yield found
    for name in ("kills", "finished", "lost", "resumed"):
        setattr(TOTAL, name, getattr(TOTAL, name) + getattr(found, name))
    TOTAL.calls.update(found.calls)
    print(f"\n{request.node.name}: {found}")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as found:
        yield found
    print(f"\nin total: {TOTAL}")


# -- What must hold.


def load(scene: Scene, path: Path) -> Saved | None:
    """Load what is on the disk, check that it is true, and tell it in the oracle's words."""
    if path.exists():
        Snapshot.from_json(path.read_bytes())
        assert json.loads(path.read_bytes())["version"] == 1
    try:
        snapshot = Snapshot.load(path)
    except FileNotFoundError:
        assert not path.exists()
        return None
    found = snapshot.to_dict()
    for unit_id, entry in found["steps"].items():
        value = scene.entries[unit_id][1]
        assert scene.keys.setdefault(unit_id, entry["cacheKey"]) == entry["cacheKey"]
        if type(value) in (int, str, float, list, dict):
            assert typed(entry["result"]) == typed(value)
    unsaved = found.get("unsaved", {})
    for unit_id, key in unsaved.items():
        assert scene.keys.setdefault(unit_id, key) == key
    return Saved(
        {unit_id: scene.entries[unit_id] for unit_id in found["steps"]},
        {unit_id: scene.unsaved[unit_id] for unit_id in unsaved},
    )


def ids(saved: Saved | None) -> set[str]:
    return set() if saved is None else saved.entries.keys() | saved.unsaved.keys()


def check(scene: Scene, job: Job, report: Report, before: Saved | None, tally: Tally) -> Saved | None:
    """
    Look at what a child has left: all that it reported as finished is there, and what was there before.

    Args:
        scene: What it ran.
        job: How.
        report: What became of it.
        before: What was there when it began.
        tally: Counts it.

    Returns:
        What is there now.
    """
    assert not report.ended.startswith("broken"), report.ended
    saved = load(scene, job.path)
    finished = set(report.told("done")) & scene.lasting
    began = set(report.told("began"))
    if report.killed:
        tally.kills += 1
        tally.finished += len(finished)
    told = Round(scene.plan, scene.inputs, before or Saved(), job.failures)
    assert began <= told.executions().keys()
    assert not began & (before.entries.keys() if before else set())
    removed = report.removing if report.killed else report.ended == "well" and not job.options.get("keep")
    if saved is None:
        assert removed or not (finished or ids(before)), f"nothing is left of {finished}"
        return None
    lost = finished - ids(saved)
    tally.lost += len(lost)
    assert not lost, f"{lost} had finished, and are lost"
    assert ids(before) <= ids(saved)
    for unit_id in began:
        assert scene.needs(unit_id) <= ids(saved), f"{unit_id} began before what it takes was saved"
    assert not removed or report.killed, "the run has succeeded, and the file is still there"
    return saved


def finish(scene: Scene, path: Path, saved: Saved | None, tally: Tally, keep: bool = False) -> None:
    """Resume here, to the end: exactly what is not saved runs, results are right, and no file is left."""
    told = Round(scene.plan, scene.inputs, saved or Saved())
    probe = Probe()
    result = save(scene.plan, scene.inputs, path, probe, seed=0, keep=keep)
    assert probe.problems == []
    assert Counter(unit_id for unit_id, _ in probe.began) == told.executions()
    for unit_id, arguments in probe.began:
        assert typed(arguments) == typed(told.arguments_of(unit_id))
    wanted = tuple(scene.results.get(target) for target in scene.plan.targets)
    assert typed(result.result) == typed(wanted)
    for unit_id, value in result.steps.items():
        assert typed(value) == typed(scene.results[unit_id])
    assert result.steps.keys() >= scene.entries.keys() & set(told.statuses())
    if keep:
        assert os.listdir(path.parent) == [path.name]
        assert ids(load(scene, path)) == scene.lasting
    else:
        assert os.listdir(path.parent) == []
    tally.resumed += 1


# -- Random moments.

FAILING = ("drain", "cancel", "continue")


def some_options(rng: random.Random) -> dict[str, Any]:
    return {
        "keep": rng.random() < 0.3,
        "concurrency": rng.choice([1, 3, 16]),
        "on_error": rng.choice(FAILING),
    }


def some_failures(rng: random.Random, plan: Plan) -> Failures:
    if rng.random() < 0.6:
        return Failures()
    return Failures({rng.choice(plan.steps).id: 3})


def test_a_kill_at_any_moment_loses_no_step_that_was_reported(zygote: Zygote, tally: Tally, tmp_path: Path):
    """After SIGKILL at any moment, all that was reported is there, and the next run runs exactly the rest."""
    rng = random.Random(1)
    scenes = [*(Scene(plan) for plan in PLANS.values()), *drawn(int(12 * max(1, TIMES)), seed=1)]
    reports = []
    for number, scene in enumerate(scenes):
        job = Job(scene.plan, scene.inputs, tmp_path / "deploy.json", seed=number)
        report = zygote.run(job)
        assert check(scene, job, report, None, tally) is None
        assert report.ended == "well"
        assert os.listdir(tmp_path) == []
        assert set(report.told("done")) >= scene.lasting
        reports.append(report.lines)
    numbers = itertools.count()
    while tally.kills < 220 * TIMES:
        at = rng.randrange(len(scenes))
        scene = scenes[at]
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        saved: Saved | None = None
        # Sometimes the next run is killed too, and the one after that.
        for _ in range(rng.choice([1, 1, 2, 4])):
            by_time = rng.random() < 0.15
            # Half of the kills that a line sets off come when a step has just finished.
            line = rng.randrange(1, len(reports[at]))
            while rng.random() < 0.5 and not reports[at][line - 1].startswith("done "):
                line = rng.randrange(1, len(reports[at]))
            job = Job(
                scene.plan,
                scene.inputs,
                folder / "deploy.json",
                some_failures(rng, scene.plan),
                some_options(rng),
                seed=rng.randrange(1000),
                after_lines=0 if by_time else line,
                spin=rng.random() * (0.03 if by_time else rng.choice([0, 0.002])),
                sync_seconds=rng.choice([None, 0]),
            )
            saved = check(scene, job, zygote.run(job), saved, tally)
        finish(scene, folder / "deploy.json", saved, tally)
    assert tally.finished > tally.kills
    assert tally.lost == 0


# -- Every call.


@dataclass(frozen=True)
class Stage:
    """
    A run of `MIXED` that is killed at every call, and what is on the disk when it begins.

    Attributes:
        changes: What sets its `Job` apart.
        earlier: The same for each of the runs before it.
        leaves: How the names of what these leave end, after that of the file.
        removed: Whether somebody removes the file then.
        ends: How the run ends if it is not killed.
        calls: Which calls it makes at least, and how often.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    earlier: tuple[Mapping[str, Any], ...] = ()
    leaves: tuple[str, ...] = ()
    ends: str = "well"
    calls: Mapping[str, int] = field(default_factory=dict)
    removed: bool = False


BREAKS = {"failures": Failures({"end": 1})}
BREAKS_SOON = {"failures": Failures({"long": 1})}
KEEPS = {"options": {"keep": True}}
SYNCS = {"sync_seconds": 0}
HALFWAY = {"at_call": ("write", 5), "position": "half"}
HALFWAY_AGAIN = {"at_call": ("write", 3), "position": "after"}
HALF_FOLDED = {"at_call": ("write", 1), "position": "half"}
JUST_FOLDED = {"at_call": ("rename", 1), "position": "after"}

BEGINS = {"create": 1, "write": 1}
FOLDS = {"create": 2, "write": 2, "sync": 3, "rename": 1, "sync_folder": 1}
FOLDS_TWICE = {"create": 3, "write": 3, "sync": 5, "rename": 2, "sync_folder": 2}
NO_SPACE = "cannot be written: No space left on device"

STAGES = {
    "nothing, and success": Stage(calls=BEGINS | {"write": 8}),
    "nothing, and kept": Stage(KEEPS, calls=FOLDS | {"write": 9}),
    "nothing, and failure": Stage(BREAKS, ends="failed", calls=FOLDS | {"write": 8}),
    "nothing, fsync at once, and failure": Stage(
        BREAKS | SYNCS, ends="failed", calls=FOLDS | {"write": 8, "sync": 4}
    ),
    "a journal, and success": Stage({}, (HALFWAY,), (".journal", ".lock"), calls=FOLDS),
    "a journal, fsync at once, and kept": Stage(
        KEEPS | SYNCS, (HALFWAY,), (".journal", ".lock"), calls=FOLDS_TWICE
    ),
    "a file, and success": Stage({}, (BREAKS,), ("",), calls=BEGINS | {"sync_folder": 1, "write": 2}),
    "a file and its journal, and failure": Stage(
        BREAKS, (BREAKS_SOON, HALFWAY_AGAIN), ("", ".journal", ".lock"), "failed", FOLDS
    ),
    "a file that its journal was just folded into": Stage(
        {}, (HALFWAY, JUST_FOLDED), ("", ".journal", ".lock"), calls=FOLDS
    ),
    "a journal, and half of a fold": Stage(
        {}, (HALFWAY, HALF_FOLDED), (".journal", ".journal.new", ".lock"), calls=FOLDS
    ),
    "what goes with a file that somebody has removed": Stage(
        {},
        (BREAKS_SOON, HALFWAY_AGAIN, HALF_FOLDED),
        ("", ".journal", ".journal.new", ".lock"),
        calls=BEGINS | {"write": 8},
        removed=True,
    ),
    "no space for a line": Stage({"full": range(4, 5)}, ends="failed", calls=FOLDS | {"cut": 1}),
    "no space from a line on": Stage(
        {"full": range(2, 1000)}, (BREAKS_SOON,), ("",), "failed", BEGINS | {"cut": 1, "write": 3}
    ),
    "no space for a fold": Stage(
        {"full": range(1, 1000)}, (HALFWAY,), (".journal", ".lock"), "refused", {"create": 1, "write": 1}
    ),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def prepare(
    stage: Stage, scene: Scene, zygote: Zygote, folder: Path, tally: Tally
) -> tuple[Job, Saved | None]:
    """Make what is on the disk before the run of a stage; give its job, and what is saved by then."""
    job = Job(scene.plan, scene.inputs, folder / "deploy.json")
    saved: Saved | None = None
    for changes in stage.earlier:
        earlier = replace(job, **changes)
        saved = check(scene, earlier, zygote.run(earlier), saved, tally)
    assert sorted(contents(folder)) == [f"deploy.json{ending}" for ending in stage.leaves]
    if stage.removed:
        job.path.unlink()
        saved = load(scene, job.path)
        assert saved is None
    return replace(job, **stage.changes), saved


@pytest.mark.parametrize("name", STAGES)
def test_a_kill_at_any_call_that_changes_the_disk(name: str, zygote: Zygote, tally: Tally, tmp_path: Path):
    """Before, in the midst of and after every single call, the disk holds all that was reported."""
    scene, stage = Scene(MIXED), STAGES[name]
    job, before = prepare(stage, scene, zygote, tmp_path, tally)
    there = contents(tmp_path)

    def kill_at(call: str, number: int, position: str) -> Report:
        for left in tmp_path.iterdir():
            left.unlink()
        for other, data in there.items():
            (tmp_path / other).write_bytes(data)
        changed = replace(job, at_call=(call, number), position=position)
        report = zygote.run(changed)
        saved = check(scene, changed, report, before, tally)
        finish(scene, job.path, saved, tally, keep=bool(job.options.get("keep")))
        return report

    whole = kill_at("none", 1, "before")
    assert whole.ended.startswith(stage.ends)
    assert (NO_SPACE in whole.ended) == ("no space" in name)
    made = Counter(call.split()[0] for call in whole.told("disk"))
    for call in CALLS:
        # How often fsync is called while a run goes on is up to the moment.
        for number in itertools.count(1) if call == "sync" else range(1, made[call] + 1):
            if not kill_at(call, number, "before").killed:
                break
            tally.calls[call] += 1
            if call == "write":
                kill_at(call, number, "half")
            kill_at(call, number, "after")
        assert tally.calls[call] >= stage.calls.get(call, 0)
    assert tally.lost == 0


@pytest.mark.parametrize("name", PLANS)
def test_a_kill_at_any_line_of_any_graph(name: str, zygote: Zygote, tally: Tally, tmp_path: Path):
    """Whatever the steps are like, no write leaves out one that was reported, nor lets a consumer begin before."""
    scene = Scene(PLANS[name])
    job = Job(scene.plan, scene.inputs, tmp_path / "deploy.json")
    assert bool(scene.unsaved) == (name in ("unsaved", "mixed"))
    positions = ("before", "half", "after")
    for number in itertools.count(1):
        # Every position of each write takes three times as long, and one finds nearly as much.
        for position in positions if TIMES > 1 else (positions[number % 3],):
            changed = replace(job, at_call=("write", number), position=position, seed=number)
            report = zygote.run(changed)
            finish(scene, job.path, check(scene, changed, report, None, tally), tally)
        if not report.killed:
            break
        tally.calls["write"] += 1
    assert report.ended == "well"
    assert number > len(scene.lasting)
    assert tally.lost == 0


def test_two_kills_in_a_row(zygote: Zygote, tally: Tally, tmp_path: Path):
    """A run that is killed at any call, resumed and killed at any call again goes on from both."""
    rng = random.Random(2)
    scenes = [Scene(plan) for plan in PLANS.values()]
    numbers = itertools.count()
    while tally.kills < 80 * TIMES:
        scene = rng.choice(scenes)
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        path = folder / "deploy.json"
        saved: Saved | None = None
        done: set[str] = set()
        for _ in range(2):
            at_call = rng.choice(
                [
                    ("write", rng.randrange(1, 15)),
                    ("write", rng.randrange(1, 8)),
                    ("remove", rng.randrange(1, 9)),
                    (rng.choice(["create", "rename", "sync_folder"]), rng.randrange(1, 4)),
                    ("sync", rng.randrange(1, 7)),
                ]
            )
            job = Job(
                scene.plan,
                scene.inputs,
                path,
                options={"keep": rng.random() < 0.3},
                seed=rng.randrange(1000),
                at_call=at_call,
                position=rng.choice(
                    ["before", "half", "after"] if at_call[0] == "write" else ["before", "after"]
                ),
                sync_seconds=rng.choice([None, 0]),
            )
            report = zygote.run(job)
            saved = check(scene, job, report, saved, tally)
            assert not done & set(report.told("began"))
            done = set() if saved is None else done | (set(report.told("done")) & scene.entries.keys())
        finish(scene, path, saved, tally)
    assert tally.finished > tally.kills
    assert tally.lost == 0


# -- Edits.


def load_edited(told: Round, path: Path, known: Ledger) -> Saved:
    """Load what is there after a run that was killed, or was not, in the oracle's words."""
    try:
        found = Snapshot.load(path).to_dict()
    except FileNotFoundError:
        return Saved()
    after, keys = told.after(), told.keys()
    entries: dict[str, tuple[object, Any]] = {}
    for unit_id, entry in found["steps"].items():
        before = told.saved.entries.get(unit_id)
        is_old = before is not None and known.known[unit_id, before[0]] == entry["cacheKey"]
        entries[unit_id] = before if is_old and before else after.entries[unit_id]
        known.check(unit_id, entries[unit_id][0], entry["cacheKey"])
    unsaved = {
        unit_id: known.meant.setdefault((unit_id, key), keys.get(unit_id))
        for unit_id, key in found.get("unsaved", {}).items()
    }
    return Saved(entries, unsaved)


def check_edited(told: Round, saved: Saved, report: Report, tally: Tally) -> None:
    """All that was reported is there with its key of now, and all that was there before and still counts."""
    after, keys = told.after(), told.keys()
    finished = set(report.told("done"))
    began = set(report.told("began"))
    if report.killed:
        tally.kills += 1
        tally.finished += len(finished & (after.entries.keys() | after.unsaved.keys()))
    assert began <= told.executions().keys()
    if report.removing or report.ended == "well":
        return
    for mine, all_of_it, before in (
        (saved.entries, after.entries, told.saved.entries),
        (saved.unsaved, after.unsaved, told.saved.unsaved),
    ):
        for unit_id in finished & all_of_it.keys():
            assert unit_id in mine, f"{unit_id} had finished, and is lost"
            assert mine[unit_id] == all_of_it[unit_id], f"{unit_id} is another one's"
        for unit_id in before.keys() & all_of_it.keys():
            if before[unit_id] == all_of_it[unit_id]:
                assert unit_id in mine, f"{unit_id} was saved, and is lost"
    assert keys.keys() >= finished


def test_kills_between_edits(zygote: Zygote, tally: Tally, tmp_path: Path):
    """Graphs that are edited between runs that are killed go on from all that still counts, and nothing else."""
    rng = random.Random(3)
    for number, turns in enumerate(drawn_turns(int(32 * max(1, TIMES)), seed=3, rounds=5)):
        path = tmp_path / str(number) / "deploy.json"
        path.parent.mkdir()
        saved, known = Saved(), Ledger()
        for turn in turns:
            told = Round(turn.plan, turn.inputs, saved, turn.failures)
            job = Job(
                turn.plan,
                turn.inputs,
                path,
                turn.failures,
                {"concurrency": turn.concurrency, "keep": rng.random() < 0.5},
                seed=turn.seed % 1000,
                at_call=rng.choice(
                    [("write", rng.randrange(2, 8)), ("rename", 1), ("remove", rng.randrange(3, 8))]
                ),
                position=rng.choice(["before", "after"]),
            )
            report = zygote.run(job)
            assert report.killed or report.ended.startswith(("well", "failed Boom")), report.ended
            saved = load_edited(told, path, known)
            check_edited(told, saved, report, tally)
        told = Round(turn.plan, turn.inputs, saved)
        probe = Probe()
        result = save(turn.plan, turn.inputs, path, probe, seed=0)
        assert Counter(unit_id for unit_id, _ in probe.began) == told.executions()
        fresh = Round(turn.plan, turn.inputs).results()
        wanted = tuple(fresh.get(target) for target in turn.plan.targets)
        assert typed(result.result) == typed(wanted)
        assert os.listdir(path.parent) == []
        tally.resumed += 1
    assert tally.kills > 60
    assert tally.finished > tally.kills


# -- Readers.


@pytest.mark.parametrize("name", PLANS)
def test_who_looks_while_a_run_saves_finds_a_snapshot(
    name: str, zygote: Zygote, tally: Tally, tmp_path: Path
):
    """At any time another process loads a snapshot with all that is done by then, until the run succeeds."""
    scene = Scene(PLANS[name])
    path = tmp_path / "deploy.json"
    last = scene.plan.steps[-1].id
    first = next(step.id for step in scene.plan.steps[1:] if step.save)
    rounds: list[dict[str, Any]] = [
        {"failures": Failures({first: 3, last: 3}), "sync_seconds": 0},
        {"full": range(4, 5)},
        {"at_call": ("write", 4)},
        {"failures": Failures({last: 3})},
        {"options": {"keep": True}},
        {"options": {"refresh": [first]}},
    ]
    saved: Saved | None = None
    looks = 0
    for changes in rounds:
        job = Job(scene.plan, scene.inputs, path, look=True, **changes)
        report = zygote.run(job)
        for look in report.looks:
            looks += 1
            assert look.problem is None
            by_then = set(replace(report, lines=report.lines[: look.lines]).told("done")) & scene.lasting
            if look.ids is not None:
                assert ids(saved) | by_then <= look.ids
            elif not report.removing:
                assert not ids(saved) | by_then
        if "refresh" in job.options:
            assert report.ended == "well"
            assert not path.exists()
        else:
            saved = check(scene, job, report, saved, tally)
    assert looks > 30


@dataclass(frozen=True)
class State:
    """What was on the disk at some moment, and what had finished by then at least."""

    files: Mapping[str, bytes]
    done: frozenset[str]
    removing: bool


def states(scene: Scene, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """Run a plan here: it fails, then it is kept, then it succeeds; give the states around all calls."""
    found: list[State] = []
    done: set[str] = set()
    removing = False

    def note() -> None:
        by_then = frozenset(done)
        found.append(State(contents(path.parent), by_then, removing))

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any) -> Any:
            nonlocal removing
            note()
            removing = removing or (name, *arguments) == ("remove", str(path))
            result = call(*arguments)
            note()
            return result

        return instead

    def watch(update: Update) -> None:
        if update.node.status == "done":
            done.update({update.node.id} & scene.lasting)

    with monkeypatch.context() as patched:
        for name in CALLS:
            patched.setattr(june._disk, name, noted(name, getattr(june._disk, name)))
        last = scene.plan.steps[-1].id
        for failures, keep in (Failures({last: 3}), False), (Failures(), True), (Failures(), False):
            probe = Probe(failures)
            with contextlib.suppress(RunFailed):
                save(scene.plan, scene.inputs, path, probe, 0, keep=keep, on_update=watch, concurrency=1)
            note()
    return found


def test_who_looks_while_files_change_finds_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever happens between the reading of one file and of the other, what was done before is found."""
    scene = Scene(MIXED)
    folder = tmp_path / "now"
    folder.mkdir()
    seen = states(scene, folder / "deploy.json", monkeypatch)
    for number, state in enumerate(seen):
        (tmp_path / str(number)).mkdir()
        for name, data in state.files.items():
            (tmp_path / str(number) / name).write_bytes(data)
    moments: Iterator[int] = iter(())

    def open_then(path: str, mode: str) -> Any:
        return open(tmp_path / str(next(moments)) / Path(path).name, mode)

    monkeypatch.setattr("june.snapshots.open", open_then, raising=False)
    for first, second in itertools.combinations_with_replacement(range(len(seen)), 2):
        moments = itertools.chain([first], itertools.repeat(second))
        try:
            loaded = Snapshot.load(folder / "deploy.json")
        except FileNotFoundError:
            assert seen[second].removing or not seen[first].done
        else:
            assert seen[first].done <= set(loaded) | loaded.to_dict().get("unsaved", {}).keys()
    assert len(seen) > 40
    assert "deploy.json" not in seen[0].files
    assert seen[-1].files == {}
