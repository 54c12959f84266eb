"""
Rounds of any graph, with any edits and failures between, against the naive oracle.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from june import RunFailed, RunResult, Snapshot, Update
from tests.oracle import Look, Plan, Round, Saved, typed
from tests.strategies_graphs import LIMIT, Played, Taste, Turn, interventions, play, scenarios

pytestmark = pytest.mark.slow


def examples(count: int) -> Callable[[Any], Any]:
    """Set how many examples are tried; ``JUNE_EXAMPLES=20`` tries twenty times as many."""
    return settings(
        max_examples=max(1, int(count * float(os.environ.get("JUNE_EXAMPLES", "1")))),
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
            HealthCheck.filter_too_much,
        ],
    )


class Ledger:
    """Remembers which of June's cache keys stands for which of the oracle's: one for one, per step."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, object], str] = {}
        self.meant: dict[tuple[str, str], object] = {}

    def check(self, unit_id: str, key: object, cache_key: str) -> None:
        """Check that equal keys are equal and different ones differ."""
        assert self.known.setdefault((unit_id, key), cache_key) == cache_key, f"{unit_id}: one key became two"
        assert self.meant.setdefault((unit_id, cache_key), key) == key, f"{unit_id}: two keys became one"


def check_round(told: Round, played: Played, ledger: Ledger, concurrency: int) -> None:
    """Compare a run with what the oracle tells of it."""
    probe = played.probe
    assert probe.problems == []
    assert probe.running == set()
    assert probe.most <= concurrency
    assert probe.most_limited <= LIMIT
    check_executions(told, played)
    check_order(told, played)
    check_statuses(told, played)
    check_snapshot(told, played.snapshot, ledger)
    check_ending(told, played)


def check_statuses(told: Round, played: Played) -> None:
    """Every node has the status that the oracle says."""
    expected = told.statuses()
    trace = played.ended.trace
    found = {
        unit_id: said
        for unit_id, said in played.statuses.items()
        if unit_id.partition("[")[0] in told.order and unit_id.partition("[")[0] not in told.overrides
    }
    for base in told.order:
        if told.is_each(base) and isinstance(told.instances(base), Look):
            # Where the items could be known all the same, instances stand in the step's place.
            for node in (trace.node(base), *trace.node(base).children):
                assert node.status == expected[base], node
                found.pop(node.id, None)
            del expected[base]
    for unit_id, said in expected.items():
        if said == "overridden":
            continue
        if said.startswith("unneeded, and"):
            # The contract has two words for it: an input failed, and nobody needed it.
            assert found.pop(unit_id) in ("unneeded", "blocked"), unit_id
        else:
            assert found.pop(unit_id) == said, unit_id
    assert found == {}


def check_executions(told: Round, played: Played) -> None:
    """Exactly what must run has run, as often as it failed, with the right arguments."""
    counted: dict[str, int] = {}
    for unit_id, arguments in played.probe.began:
        counted[unit_id] = counted.get(unit_id, 0) + 1
        if unit_id in told.executions():
            assert typed(arguments) == typed(told.arguments_of(unit_id)), f"arguments of {unit_id}"
    assert counted == told.executions()


def check_order(told: Round, played: Played) -> None:
    """Nothing has started before what it needs was over."""
    over: set[str] = set()
    running: set[str] = set()
    executed = told.executions()
    for event, unit_id in played.probe.events:
        if event == "end":
            running.discard(unit_id)
            over.add(unit_id)
            continue
        base, _, rest = unit_id.partition("[")
        step = told.plan.step(base)
        running.add(unit_id)
        needed = set(step.after)
        for _, source in step.sources:
            # Where a default stands in for what was skipped, nothing else in the list is waited for.
            defaulted = source.default is not None and told.is_skipped(step, source)
            if source.how in ("step", "list") and not defaulted:
                needed.update([source.of] if source.how == "step" else source.of)
        for other in executed:
            other_base, _, other_rest = other.partition("[")
            chained = step.item() is not None and step.item()[1].of == other_base and rest == other_rest  # type: ignore[index]
            if other_base in needed or chained:
                assert other in over, f"{unit_id} started before {other} was over"
                assert other not in running, f"{unit_id} started while {other} ran"


def check_snapshot(told: Round, snapshot: Snapshot, ledger: Ledger) -> None:
    """The snapshot holds what the oracle says, in graph order, then by id."""
    after = told.after()
    found = snapshot.to_dict()
    assert sorted(found["steps"]) == sorted(after.entries)
    assert sorted(found.get("unsaved", {})) == sorted(after.unsaved)
    for unit_id, (key, value) in after.entries.items():
        ledger.check(unit_id, key, found["steps"][unit_id]["cacheKey"])
        if type(value) in (int, str, float, list, dict):
            assert typed(found["steps"][unit_id]["result"]) == typed(value)
    for unit_id, key in after.unsaved.items():
        ledger.check(unit_id, key, found["unsaved"][unit_id])
    places = {unit_id: number for number, unit_id in enumerate(told.plan.order())}
    ordered = sorted(
        (places.get(unit_id.partition("[")[0], len(places)), unit_id) for unit_id in found["steps"]
    )
    assert list(found["steps"]) == [unit_id for _, unit_id in ordered]


def check_ending(told: Round, played: Played) -> None:
    """Results are right, also their types; or every failure is told, with a note that names the step."""
    executed = told.executions()
    warned = [
        unit_id
        for unit_id in told.after().unsaved
        if unit_id in executed
        and told.statuses()[unit_id] == "done"
        and told.plan.step(unit_id.partition("[")[0]).save
    ]
    assert len(played.warned) == len(warned)
    for unit_id in warned:
        assert any(repr(unit_id) in message for message in played.warned)
    failed = sorted(unit_id for unit_id, said in told.statuses().items() if said == "failed")
    if failed:
        assert isinstance(played.ended, RunFailed)
        assert sorted(str(one) for one in played.ended.exceptions) == failed
        for one in played.ended.exceptions:
            assert any(repr(str(one)) in note for note in one.__notes__)
        return
    assert isinstance(played.ended, RunResult)
    results = told.results()
    assert {unit_id: typed(value) for unit_id, value in played.ended.steps.items()} == {
        unit_id: typed(value) for unit_id, value in results.items()
    }
    assert typed(played.ended.result) == typed(result_of(told.plan, results))


def result_of(plan: Plan, results: dict[str, Any]) -> tuple[Any, ...]:
    """Give what `june.RunResult.result` is for a list of targets; None stands for a skipped one."""
    return tuple(results.get(target) for target in plan.targets)


def play_turns(turns: list[Turn], virtual: bool = True) -> None:
    """Play the rounds of a scenario, each from the snapshot of the one before, and check each."""
    saved = Saved()
    snapshot: Any = None
    ledger = Ledger()
    for turn in turns:
        told = Round(turn.plan, turn.inputs, saved, turn.failures, turn.drift, turn.overrides, turn.refresh)
        played = play(
            turn.plan,
            turn.inputs,
            failures=turn.failures,
            drift=turn.drift,
            seed=turn.seed,
            virtual=virtual,
            snapshot=snapshot,
            concurrency=turn.concurrency,
            overrides=turn.overrides,
            refresh=turn.refresh,
        )
        check_round(told, played, ledger, turn.concurrency)
        saved = told.after()
        snapshot = carried(played, turn.through)


def carried(played: Played, through: str) -> Any:
    """Give the snapshot of a run to the next one, in one of the ways there are."""
    match through:
        case "json":
            return Snapshot.from_json(played.snapshot.to_json())
        case "indented":
            return Snapshot.from_json(played.snapshot.to_json(indent=2))
        case "dict":
            return played.snapshot.to_dict()
        case "by hand":
            found = played.snapshot.to_dict()
            entries = {
                unit_id: {"result": entry["result"], "cacheKey": entry["cacheKey"]}
                for unit_id, entry in reversed(found["steps"].items())
            }
            return {"steps": entries, "unsaved": found.get("unsaved", {}), "version": 1}
    return played.ended if isinstance(played.ended, RunResult) else played.snapshot


def check_fresh(turn: Turn, played: Played) -> None:
    """A run has the results of one that starts from nothing, also their types."""
    fresh = play(turn.plan, turn.inputs, seed=turn.seed)
    assert isinstance(fresh.ended, RunResult)
    assert isinstance(played.ended, RunResult)
    assert typed(played.ended.result) == typed(fresh.ended.result)
    for unit_id, value in played.ended.steps.items():
        assert typed(value) == typed(fresh.ended.steps[unit_id])


def saved_by(told: Round, played: Played, ledger: Ledger) -> Saved:
    """Check a run that ended early, and tell its snapshot in the oracle's words."""
    probe = played.probe
    assert probe.problems == []
    executed = told.executions()
    for unit_id, arguments in probe.began:
        assert typed(arguments) == typed(told.arguments_of(unit_id))
    counted = Counter(unit_id for unit_id, _ in probe.began)
    assert all(count <= executed[unit_id] for unit_id, count in counted.items())
    return saved_in(told, played.snapshot, set(probe.finished), ledger)


def saved_in(told: Round, snapshot: Snapshot, finished: set[str], ledger: Ledger) -> Saved:
    """
    Check the snapshot of a run that has not gone to its end, and tell it in the oracle's words.

    Whatever finished is there; whatever was saved before is there too, unless its key changed.
    """
    keys, after = told.keys(), told.after()
    found = snapshot.to_dict()
    entries: dict[str, tuple[object, Any]] = {}
    for unit_id, entry in found["steps"].items():
        before = told.saved.entries.get(unit_id)
        entries[unit_id] = after.entries[unit_id] if unit_id in finished or before is None else before
        if before is None:
            assert unit_id in finished, f"{unit_id} has not finished"
        ledger.check(unit_id, entries[unit_id][0], entry["cacheKey"])
    for unit_id in finished:
        assert unit_id in entries or unit_id not in after.entries, f"{unit_id} has finished, and is lost"
    for unit_id, (key, _) in told.saved.entries.items():
        kept = after.entries.get(unit_id, ("",))[0] == key
        assert unit_id in entries or not kept, f"{unit_id} was saved, and is lost"
    unsaved = {}
    for unit_id, cache_key in found.get("unsaved", {}).items():
        unsaved[unit_id] = ledger.meant.setdefault((unit_id, cache_key), keys.get(unit_id))
    return Saved(entries, unsaved)


@given(scenarios())
@examples(200)
def test_a_round_runs_exactly_what_the_oracle_says(turns: list[Turn]) -> None:
    """Whatever was edited and whatever failed, a run executes what it must, and its results and snapshot are right."""
    play_turns(turns)


@given(scenarios(Taste(unsaved=0.6, asks=0.5, most_steps=7)))
@examples(200)
def test_unsaved_steps_run_only_where_somebody_needs_them(turns: list[Turn]) -> None:
    """A step that is not saved runs if a step that must run, or that has to be asked something, needs its value."""
    play_turns(turns)


@given(scenarios(honest=False))
@examples(100)
def test_results_that_change_by_themselves_reach_what_is_below(turns: list[Turn]) -> None:
    """A step that runs again and gives another value makes its consumers run, and one with the same value does not."""
    play_turns(turns)


@given(scenarios(Taste(threads=True)))
@examples(60)
def test_steps_in_threads_follow_the_same_rules(turns: list[Turn]) -> None:
    """Where a step runs changes nothing in what is run, reused and saved."""
    play_turns(turns, virtual=False)


@given(scenarios())
@examples(80)
def test_a_resumed_run_equals_a_fresh_one(turns: list[Turn]) -> None:
    """After any history, a run without failures gives what a run from nothing gives, types included."""
    snapshot: Any = None
    for turn in turns[:-1]:
        played = play(turn.plan, turn.inputs, failures=turn.failures, seed=turn.seed, snapshot=snapshot)
        snapshot = carried(played, turn.through)
    check_fresh(turns[-1], play(turns[-1].plan, turns[-1].inputs, seed=turns[-1].seed, snapshot=snapshot))


@given(scenarios(Taste(most_steps=12)), st.sampled_from(["drain", "cancel"]))
@examples(150)
def test_a_failure_loses_nothing_that_finished(turns: list[Turn], on_error: str) -> None:
    """However a run ends after a failure, its snapshot holds what finished, and the next run goes on from there."""
    saved = Saved()
    snapshot: Any = None
    ledger = Ledger()
    for turn in turns:
        told = Round(turn.plan, turn.inputs, saved, turn.failures)
        played = play(
            turn.plan,
            turn.inputs,
            failures=turn.failures,
            seed=turn.seed,
            snapshot=snapshot,
            concurrency=turn.concurrency,
            on_error=on_error,
        )
        if "failed" in told.statuses().values():
            assert isinstance(played.ended, RunFailed)
        saved = saved_by(told, played, ledger)
        snapshot = carried(played, turn.through)
    told = Round(turn.plan, turn.inputs, saved)
    again = play(turn.plan, turn.inputs, seed=turn.seed, snapshot=snapshot)
    check_round(told, again, ledger, 16)
    check_fresh(turn, again)


@given(scenarios(), st.integers(0, 40))
@examples(100)
def test_a_snapshot_taken_at_any_moment_is_a_place_to_go_on_from(turns: list[Turn], moment: int) -> None:
    """A snapshot taken at any update holds all that is done by then, never changes, and the next run goes on from it."""
    saved = Saved()
    snapshot: Any = None
    ledger = Ledger()
    for turn in turns:
        taken: list[tuple[Snapshot, bytes, set[str]]] = []
        passed = 0

        def look(update: Update) -> None:
            nonlocal passed
            passed += 1
            if passed in (1, moment):
                done = {node.id for node in update.handle.trace if node.status == "done" and not node.resumed}
                now = update.handle.snapshot().to_json()
                taken.append((update.handle.snapshot(), now, done))  # noqa: B023

        told = Round(turn.plan, turn.inputs, saved, turn.failures)
        play(
            turn.plan,
            turn.inputs,
            failures=turn.failures,
            seed=turn.seed,
            snapshot=snapshot,
            concurrency=turn.concurrency,
            on_update=look,
        )
        for snapshot, now, done in taken:
            assert snapshot.to_json() == now
            saved = saved_in(told, snapshot, done, ledger)
    told = Round(turn.plan, turn.inputs, saved)
    again = play(turn.plan, turn.inputs, seed=turn.seed, snapshot=snapshot)
    check_round(told, again, ledger, 16)
    check_fresh(turn, again)


@given(interventions())
@examples(150)
def test_overridden_and_refreshed_steps(turns: list[Turn]) -> None:
    """An overridden step and what only it needs do not run; a refreshed one does, and below it what sees another value."""
    play_turns(turns)
