"""
Rounds of any graph, with any edits and failures between, against the naive oracle.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from june import RunFailed, RunResult, Snapshot
from tests.oracle import Plan, Round, Saved, typed
from tests.strategies_graphs import LIMIT, Played, Taste, Turn, play, scenarios

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

    def check(self, id: str, key: object, cache_key: str) -> None:  # noqa: A002 - the contract's word
        """Check that equal keys are equal and different ones differ."""
        assert self.known.setdefault((id, key), cache_key) == cache_key, f"{id}: one key became two"
        assert self.meant.setdefault((id, cache_key), key) == key, f"{id}: two keys became one"


def check_round(told: Round, played: Played, ledger: Ledger, concurrency: int) -> None:
    """Compare a run with what the oracle tells of it."""
    probe = played.probe
    assert probe.problems == []
    assert probe.running == set()
    assert probe.most <= concurrency
    assert probe.most_limited <= LIMIT
    check_executions(told, played)
    check_order(told, played)
    assert {id: said for id, said in statuses_of(told, played).items() if said is not None} == {
        id: said for id, said in told.statuses().items() if said != "overridden"
    }
    check_snapshot(told, played.snapshot, ledger)
    check_ending(told, played)


def statuses_of(told: Round, played: Played) -> dict[str, str | None]:
    """Give the statuses of nodes; None for what was overridden or is not needed for that reason."""
    found: dict[str, str | None] = dict(played.statuses)
    for id in list(found):  # noqa: A001
        base = id.partition("[")[0]
        if base in told.overrides or base not in told.order:
            found[id] = None
        elif base == id and told.is_each(base) and not told.units(base) and found[id] == "done":
            found[id] = None  # an each step without items
    return found


def check_executions(told: Round, played: Played) -> None:
    """Exactly what must run has run, as often as it failed, with the right arguments."""
    counted: dict[str, int] = {}
    for id, arguments in played.probe.began:  # noqa: A001
        counted[id] = counted.get(id, 0) + 1
        if id in told.executions():
            assert typed(arguments) == typed(told.arguments_of(id)), f"arguments of {id}"
    assert counted == told.executions()


def check_order(told: Round, played: Played) -> None:
    """Nothing has started before what it needs was over."""
    over: set[str] = set()
    running: set[str] = set()
    executed = told.executions()
    for event, id in played.probe.events:  # noqa: A001
        if event == "end":
            running.discard(id)
            over.add(id)
            continue
        base, _, rest = id.partition("[")
        step = told.plan.step(base)
        running.add(id)
        needed = {one for one in step.needed() if not (step.item() and step.item()[1].of == one)}  # type: ignore[index]
        for other in executed:
            other_base, _, other_rest = other.partition("[")
            chained = step.item() is not None and step.item()[1].of == other_base and rest == other_rest  # type: ignore[index]
            if other_base in needed or chained:
                assert other in over, f"{id} started before {other} was over"
                assert other not in running, f"{id} started while {other} ran"


def check_snapshot(told: Round, snapshot: Snapshot, ledger: Ledger) -> None:
    """The snapshot holds what the oracle says, in graph order, then by id."""
    after = told.after()
    found = snapshot.to_dict()
    assert sorted(found["steps"]) == sorted(after.entries)
    assert sorted(found.get("unsaved", {})) == sorted(after.unsaved)
    for id, (key, value) in after.entries.items():  # noqa: A001
        ledger.check(id, key, found["steps"][id]["cacheKey"])
        if type(value) in (int, str, float, list, dict):
            assert typed(found["steps"][id]["result"]) == typed(value)
    for id, key in after.unsaved.items():  # noqa: A001
        ledger.check(id, key, found["unsaved"][id])
    places = {id: number for number, id in enumerate(told.plan.order())}  # noqa: A001
    assert list(found["steps"]) == sorted(
        found["steps"],
        key=lambda id: (places.get(id.partition("[")[0], len(places)), id),  # noqa: A006
    )


def check_ending(told: Round, played: Played) -> None:
    """Results are right, also their types; or every failure is told, with a note that names the step."""
    executed = told.executions()
    warned = [id for id in told.after().unsaved if id in executed and told.statuses()[id] == "done"]  # noqa: A001
    assert len(played.warned) == len(warned)
    for id in warned:  # noqa: A001
        assert any(repr(id) in message for message in played.warned)
    failed = sorted(id for id, said in told.statuses().items() if said == "failed")  # noqa: A001
    if failed:
        assert isinstance(played.ended, RunFailed)
        assert sorted(str(one) for one in played.ended.exceptions) == failed
        for one in played.ended.exceptions:
            assert any(repr(str(one)) in note for note in one.__notes__)
        return
    assert isinstance(played.ended, RunResult)
    results = told.results()
    assert {id: typed(value) for id, value in played.ended.steps.items()} == {  # noqa: A001
        id: typed(value) for id, value in results.items()  # noqa: A001
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
        told = Round(turn.plan, turn.inputs, saved, turn.failures, turn.drift)
        played = play(
            turn.plan,
            turn.inputs,
            failures=turn.failures,
            drift=turn.drift,
            seed=turn.seed,
            virtual=virtual,
            snapshot=snapshot,
            concurrency=turn.concurrency,
        )
        check_round(told, played, ledger, turn.concurrency)
        saved = told.after()
        snapshot = carried(played, turn.through)


def carried(played: Played, through: str) -> Any:
    """Give the snapshot of a run to the next one, in one of the ways there are."""
    if through == "json":
        return Snapshot.from_json(played.snapshot.to_json())
    if through == "dict":
        return played.snapshot.to_dict()
    return played.ended if isinstance(played.ended, RunResult) else played.snapshot


@given(scenarios())
@examples(100)
def test_a_round_runs_exactly_what_the_oracle_says(turns: list[Turn]) -> None:
    """Whatever was edited and whatever failed, a run executes what it must, and its results and snapshot are right."""
    play_turns(turns)
