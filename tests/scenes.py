"""
Scenes for runs that are killed: graphs of every kind with their inputs, and what the oracle tells of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

from tests.oracle import Plan, Round, Source, StepPlan, id_of
from tests.strategies_graphs import Taste, Turn, scenarios


def takes(*ids: str) -> tuple[tuple[str, Source], ...]:
    return tuple((f"p{number}", Source("step", unit_id)) for number, unit_id in enumerate(ids))


def each(unit_id: str) -> tuple[str, Source]:
    return "item", Source("item", unit_id)


def one(unit_id: str, *sources: tuple[str, Source], **settings: Any) -> StepPlan:
    """A step in a thread; those with *is_async* run on trio."""
    return StepPlan(unit_id, sources, **{"is_async": False, "code": len(unit_id), **settings})


INPUTS: Mapping[str, Any] = {"i0": 2, "i1": 3, "l0": [3, 1, 2, 1], "m0": {"a": 1, "b/": 2}}

CHAIN = Plan(
    (
        one("c0", ("i0", Source("input", "i0"))),
        *(
            one(
                f"c{number}",
                *takes(f"c{number - 1}"),
                is_async=number % 3 == 0,
                runs="inline" if number % 3 == 1 else "thread",
                kind=("int", "text", "list", "card")[number % 4],
                code=number,
            )
            for number in range(1, 14)
        ),
    ),
    ("c13",),
)
"""One after another: in threads, on trio, and inline."""

WIDE = Plan(
    (
        *(one(f"w{number}", is_async=number % 2 == 0, code=number) for number in range(20)),
        one("all", ("p0", Source("list", tuple(f"w{number}" for number in range(20)))), is_async=True),
    ),
    ("all",),
)
"""Many at once, and one that takes them all."""

FAMILIES = Plan(
    (
        one("first", ("item", Source("input item", "l0")), kind="list"),
        one("second", each("first"), is_async=True),
        one("third", each("second"), ("i0", Source("input", "i0")), kind="pair", limit="few"),
        one("named", ("item", Source("input item", "m0")), kind="dict", is_async=True),
        one("all", ("p0", Source("step", "third")), ("p1", Source("step", "named", as_dict=True))),
    ),
    ("all",),
)
"""Steps that run once per item, over each other's."""

LARGE = Plan(
    (
        *(one(f"l{number}", kind="long text", code=number, is_async=number % 2 == 0) for number in range(4)),
        *(one(f"s{number}", *takes(f"l{number}"), code=number, is_async=True) for number in range(4)),
        one("t0", *takes("s0"), kind="long text"),
        one("all", *takes("t0", "s1", "s2", "s3"), is_async=True),
    ),
    ("all",),
)
"""Results that the journal's thread writes, among small ones that queue up behind."""

UNSAVED = Plan(
    (
        one("kept", ("i1", Source("input", "i1")), code=1),
        one("loose", *takes("kept"), save=False, code=2),
        one("nan", *takes("loose"), kind="maybe nan", code=7),
        one("tuple", *takes("kept"), kind="bare tuple", is_async=True, code=5),
        one("over", each("tuple"), is_async=True),
        one("asked", *takes("nan", "loose"), when=(("p0",), 2), is_async=True, code=3),
        one("far", *takes("nan"), code=4),
        one("end", *takes("far", "kept"), after=("loose",), attempts=2, kind="float"),
    ),
    ("end", "asked", "over", "nan"),
)
"""Results that are not kept, that cannot be, and steps that run over them or ask them."""

MIXED = Plan(
    (
        one("a", ("i0", Source("input", "i0")), is_async=True, code=1),
        one("loose", *takes("a"), save=False, code=2),
        one("nan", *takes("loose"), kind="maybe nan", code=2),
        one("long", *takes("a"), kind="long text", code=2),
        one("fan", ("item", Source("input item", "m0")), *takes("long"), is_async=True, code=3),
        one("end", ("p0", Source("step", "fan")), ("p1", Source("step", "nan")), attempts=1),
        one("side", *takes("a"), code=4),
    ),
    ("end", "side"),
)
"""A little of everything; what fails in some runs of it is *end*."""

PLANS = {
    "chain": CHAIN,
    "wide": WIDE,
    "families": FAMILIES,
    "large": LARGE,
    "unsaved": UNSAVED,
    "mixed": MIXED,
}


class Scene:
    """A plan with its inputs, and what the oracle tells of a whole run."""

    def __init__(self, plan: Plan, inputs: Mapping[str, Any] = INPUTS) -> None:
        self.plan = plan
        self.inputs = inputs
        self.whole = Round(plan, inputs)
        self.results = self.whole.results()
        after = self.whole.after()
        self.entries, self.unsaved = dict(after.entries), dict(after.unsaved)
        # The one cache key that June has for each step; it stays the same, in whichever process.
        self.keys: dict[str, str] = {}

    @property
    def lasting(self) -> set[str]:
        """Ids of all that a snapshot notes."""
        return self.entries.keys() | self.unsaved.keys()

    def needs(self, unit_id: str) -> set[str]:
        """Ids of what a step that begins has received, as far as a snapshot notes them."""
        base, _, rest = unit_id.partition("[")
        step = self.plan.step(base)
        found: set[str] = set()
        for _, source in step.sources:
            if source.default is not None and self.whole.is_skipped(step, source):
                continue
            for other in source.of if source.how == "list" else (source.of,):
                if source.how == "item" and self.whole.is_each(other):
                    found.add(f"{other}[{rest}")
                elif source.how in ("step", "list", "item"):
                    found.update(map(id_of, self.whole.units(other)))
        return found & self.lasting


def drawn_turns(count: int, seed: int, rounds: int) -> list[list[Turn]]:
    """Draw scenarios, always the same for a seed: graphs of any shape, rather large, some of their results long."""
    found: list[list[Turn]] = []

    @settings(
        max_examples=count * 4,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis_seed(seed)
    @given(scenarios(Taste(threads=True), rounds=rounds))
    def collect(turns: list[Turn]) -> None:
        found.append([replace(turn, plan=with_long_texts(turn.plan)) for turn in turns])

    collect()
    found.sort(key=lambda turns: -sum(len(turn.plan.order()) for turn in turns))
    return found[:count]


def with_long_texts(plan: Plan) -> Plan:
    steps = (replace(step, kind="long text") if step.kind == "text" else step for step in plan.steps)
    return replace(plan, steps=tuple(steps))


def drawn(count: int, seed: int) -> list[Scene]:
    """Draw scenes, always the same ones for a seed."""
    return [Scene(turns[0].plan, turns[0].inputs) for turns in drawn_turns(count, seed, rounds=1)]
