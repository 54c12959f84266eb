"""
What no schedule may change, and runs that are cut off at any moment.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from june import RunCancelled, RunResult
from tests.oracle import Plan, Round, Saved, StepPlan, Unit, id_of
from tests.strategies_graphs import LIMIT, Played, Taste, Turn, play, scenarios, without_meta
from tests.test_resume_properties import Ledger, carried, check_fresh, check_round, examples, saved_by

pytestmark = pytest.mark.slow

SCHEDULES = 200


@given(scenarios(rounds=3))
@examples(25)
def test_two_hundred_schedules_give_one_snapshot(turns: list[Turn]) -> None:
    """Whatever order trio and the steps' own pace bring about, snapshots are the same byte for byte, but for ``meta``."""
    snapshot: Any = None
    for turn in turns[:-1]:
        played = play(turn.plan, turn.inputs, failures=turn.failures, seed=turn.seed, snapshot=snapshot)
        snapshot = carried(played, turn.through)
    turn = turns[-1]
    first: Any = None
    for seed in range(SCHEDULES):
        played = play(
            turn.plan,
            turn.inputs,
            failures=turn.failures,
            seed=seed,
            snapshot=snapshot,
            concurrency=random.Random(seed).choice([1, 2, 3, 16]),
        )
        found = (without_meta(played.snapshot), played.statuses, sorted(played.warned))
        first = first or found
        assert found == first, f"schedule {seed} differs"


def cut_off(turns: list[Turn], how: str, moment: float) -> None:
    """Cut off every round, each from the snapshot of the one before; then let one go to its end."""
    saved = Saved()
    snapshot: Any = None
    ledger = Ledger()
    for number, turn in enumerate(turns, 1):
        told = Round(turn.plan, turn.inputs, saved, turn.failures)
        ending: dict[str, Any] = (
            {"cancel_at": number * moment} if how == "cancel" else {"deadline": number * moment}
        )
        played = play(
            turn.plan,
            turn.inputs,
            failures=turn.failures,
            seed=turn.seed,
            snapshot=snapshot,
            concurrency=turn.concurrency,
            **ending,
        )
        assert played.probe.running == set()
        aborted = [unit_id for unit_id, said in played.statuses.items() if said in ("running", "waiting")]
        assert aborted == []
        if isinstance(played.ended, RunCancelled):
            saved = saved_by(told, played, ledger)
        else:
            check_round(told, played, ledger, turn.concurrency)
            saved = told.after()
        snapshot = carried(played, turn.through)
    told = Round(turn.plan, turn.inputs, saved)
    again = play(turn.plan, turn.inputs, seed=turn.seed, snapshot=snapshot)
    check_round(told, again, ledger, 16)
    check_fresh(turn, again)


@given(scenarios(), st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.5, 9.0]))
@examples(100)
def test_a_cancelled_run_goes_on_where_it_was(turns: list[Turn], moment: float) -> None:
    """A run cancelled at any moment leaves what had finished, and the next one runs the rest to a fresh run's results."""
    cut_off(turns, "cancel", moment)


@given(scenarios(), st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 5.5, 9.0]))
@examples(100)
def test_a_run_past_its_deadline_goes_on_where_it_was(turns: list[Turn], moment: float) -> None:
    """A deadline ends a run as a cancellation does."""
    cut_off(turns, "deadline", moment)


# -- When steps start.


class Timetable:
    """When everything is ready at the earliest, told from when what it needs has ended."""

    def __init__(self, told: Round, played: Played) -> None:
        self.told = told
        self.times = played.probe.times
        self.plan: Plan = told.plan

    def known(self, unit_id: str) -> float:
        """Give the moment when a whole step is over."""
        return max([self.listed(unit_id), *(self.times[id_of(unit)][1] for unit in self.told.units(unit_id))])

    def listed(self, unit_id: str) -> float:
        """Give the moment when the items of an ``each`` step are known."""
        step = self.plan.step(unit_id)
        item = step.item()
        if item is None:
            return 0.0
        moments = [self.known(other) for other in self.others(step)]
        if item[1].how == "item":
            moments.append(
                self.listed(item[1].of) if self.told.is_each(item[1].of) else self.known(item[1].of)
            )
        return max(moments, default=0.0)

    def others(self, step: StepPlan) -> list[str]:
        """Give the ids of the steps that all instances take from."""
        item = step.item()
        return [
            needed
            for name, source in step.sources
            if item is None or name != item[0]
            for needed in (source.of if source.how == "list" else [source.of] if source.how == "step" else [])
        ]

    def ready(self, unit: Unit) -> float:
        """Give the moment when a unit can start."""
        step = self.plan.step(unit[0])
        item = step.item()
        moments = [
            self.listed(unit[0]),
            *(self.known(needed) for needed in (*self.others(step), *step.after)),
        ]
        if item is not None and item[1].how == "item" and self.told.is_each(item[1].of):
            moments.append(self.times[id_of((item[1].of, unit[1]))][1])
        return max(moments)


PLAIN = Taste(unsaved=0.0, asks=0.0, after=0.3, most_steps=12, inline=0.0)


@given(scenarios(PLAIN, rounds=1))
@examples(150)
def test_every_step_starts_the_moment_it_can(turns: list[Turn]) -> None:
    """With a slot for everybody, a step starts the moment its inputs are there: nothing waits for a whole level."""
    turn = turns[0]
    played = play(turn.plan, turn.inputs, seed=turn.seed, concurrency=1000, limits={"few": 1000})
    assert isinstance(played.ended, RunResult)
    table = Timetable(Round(turn.plan, turn.inputs), played)
    for unit_id in table.told.order:
        for unit in table.told.units(unit_id):
            assert played.probe.times[id_of(unit)][0] == table.ready(unit), id_of(unit)


@given(scenarios(PLAIN, rounds=1), st.integers(1, 4))
@examples(150)
def test_no_slot_is_idle_while_a_step_could_start(turns: list[Turn], concurrency: int) -> None:
    """A step that is ready waits only while all slots, or all of its limit, are taken."""
    turn = turns[0]
    played = play(turn.plan, turn.inputs, seed=turn.seed, concurrency=concurrency)
    assert isinstance(played.ended, RunResult)
    table = Timetable(Round(turn.plan, turn.inputs), played)
    times = played.probe.times
    limited = {
        id_of(unit)
        for unit_id in table.told.order
        if turn.plan.step(unit_id).limit
        for unit in table.told.units(unit_id)
    }
    moments = sorted({moment for pair in times.values() for moment in pair})
    for unit_id in table.told.order:
        for unit in table.told.units(unit_id):
            ready, started = table.ready(unit), times[id_of(unit)][0]
            for moment, later in itertools.pairwise(moments):
                if ready <= moment and later <= started:
                    running = {one for one, (start, end) in times.items() if start <= moment and later <= end}
                    full = len(running) == concurrency
                    limit_full = id_of(unit) in limited and len(running & limited) == LIMIT
                    assert full or limit_full, f"{id_of(unit)} waited from {moment} to {later}"


@given(scenarios(replace(PLAIN, limited=0.0), rounds=1), st.integers(1, 3))
@examples(100)
def test_ready_steps_start_in_graph_order(turns: list[Turn], concurrency: int) -> None:
    """Of the steps that wait for a slot, the first in graph order starts first; instances in the order of their items."""
    turn = turns[0]
    played = play(turn.plan, turn.inputs, seed=turn.seed, concurrency=concurrency)
    table = Timetable(Round(turn.plan, turn.inputs), played)
    units = [unit for name in table.told.order for unit in table.told.units(name)]
    starts = [(played.probe.times[id_of(unit)][0], table.ready(unit)) for unit in units]
    for place, (started, _) in enumerate(starts):
        for other, (started_later, ready) in enumerate(starts[:place]):
            assert not ready < started < started_later, (
                f"{id_of(units[place])} overtook {id_of(units[other])}"
            )
