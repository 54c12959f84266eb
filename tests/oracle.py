"""
A naive oracle: what a run must do, told from plain data by recursion alone.

It knows the contract and nothing of the engine. A `Plan` is a graph as data, a `Round` is one run of it:
which steps run, which are reused, what every step is worth, and what the snapshot holds after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# -- Values.


@dataclass(frozen=True)
class Card:
    """A result that is a class of the user's."""

    count: int
    name: str


def typed(value: object) -> object:
    """Spell out a value with its types, so that ``==`` sees every difference."""
    kind = type(value).__name__
    if isinstance(value, float):
        return kind, repr(value)
    if isinstance(value, Mapping):
        return kind, tuple((typed(key), typed(item)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return kind, tuple(sorted(map(repr, map(typed, value))))
    if isinstance(value, (list, tuple)):
        return kind, tuple(map(typed, value))
    if isinstance(value, Card):
        return kind, value.count, value.name
    return kind, value


def weight(value: Any) -> int:
    """Sum up a value of any kind as one whole number; `NaN` weighs seven."""
    if isinstance(value, float) and math.isnan(value):
        return 7
    if isinstance(value, (int, float)):
        return int(value)
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum((number + 1) * weight(item) for number, item in enumerate(value.values())) + len(value)
    if isinstance(value, (set, frozenset)):
        return sum(weight(item) for item in value)
    if isinstance(value, (list, tuple)):
        return sum((number + 1) * weight(item) for number, item in enumerate(value)) + len(value)
    if isinstance(value, Card):
        return value.count + len(value.name)
    return 0


ANNOTATIONS = {
    "int": "int",
    "float": "float",
    "text": "str",
    "list": "list[int]",
    "dict": "dict[str, int]",
    "pair": "tuple[int, str]",
    "card": "Card",
    "set": "set[int]",
    "none": "int | None",
    "bare": "",
    "long text": "str",
    # What no snapshot can hold exactly: never, and sometimes.
    "bare tuple": "",
    "maybe nan": "float",
}
"""Kinds of results, with the return annotation of a step that gives one."""

LONG = 70_000
"""A result of so many bytes is a large one: a journal's thread writes it."""

SEQUENCES = ("list", "dict", "bare tuple")
"""Kinds that an ``each`` step can run over."""


def compute(kind: str, code: int, arguments: Sequence[Any], drift: int = 0) -> Any:
    """Do the work of a step: small results, so that different work often comes to the same."""
    total = (
        sum((number + 1) * weight(argument) for number, argument in enumerate(arguments)) * (1 + code % 3)
        + code
        + drift
    )
    small = total % 4
    match kind:
        case "int" | "bare":
            return small
        case "float":
            return float(small)
        case "text":
            return "x" * small
        case "long text":
            return "x" * (LONG + small)
        case "list":
            return [(small + number * code) % 3 for number in range(total % 5)]
        case "bare tuple":
            return tuple((small + number * code) % 3 for number in range(total % 5))
        case "dict":
            return {"abcd"[number]: (small + number * code) % 3 for number in range(total % 5)}
        case "pair":
            return small, "p" * (total % 3)
        case "card":
            return Card(small, "c" * (total % 2))
        case "set":
            return {small, code % 3}
        case "none":
            return None if small == 0 else small
        case "maybe nan":
            return float("nan") if small in (0, 1) else float(small)
    raise ValueError(kind)


def can_be_saved(kind: str, value: object) -> bool:
    """Say whether a snapshot can hold a result exactly."""
    return kind != "bare tuple" and not (isinstance(value, float) and math.isnan(value))


# -- Graphs as data.


@dataclass(frozen=True)
class Source:
    """
    What a parameter is bound to.

    Attributes:
        how: ``step``, ``list`` (of steps), ``input``, ``value`` (bound), ``item``, ``input item``.
        of: By *how*: a step's id, ids of steps, the input's name, the value, a step's id, the input's name.
        default: The parameter's default, or None for no default (defaults are whole numbers).
        as_dict: Whether the results of an ``each`` step are wanted by label.
    """

    how: str
    of: Any
    default: int | None = None
    as_dict: bool = False


@dataclass(frozen=True)
class StepPlan:
    """A step as data. *spelling* and *runs* are what no key may depend on."""

    id: str
    sources: tuple[tuple[str, Source], ...] = ()
    code: int = 0
    kind: str = "int"
    is_async: bool = True
    runs: str = "thread"
    save: bool = True
    when: tuple[tuple[str, ...], int] | None = None
    vary: tuple[tuple[str, ...], int] | int | None = None
    version: str | None = None
    after: tuple[str, ...] = ()
    attempts: int = 1
    limit: str | None = None
    spelling: int = 0

    def needed(self) -> Iterator[str]:
        """Give the ids of the steps it names, in the order in which it names them."""
        for _, source in self.sources:
            if source.how in ("step", "item"):
                yield source.of
            elif source.how == "list":
                yield from source.of
        yield from self.after

    def item(self) -> tuple[str, Source] | None:
        """Give the parameter whose items an ``each`` step runs over."""
        return next((pair for pair in self.sources if pair[1].how in ("item", "input item")), None)


@dataclass(frozen=True)
class Plan:
    """A graph as data: steps by id, what they need first; and the ids of the targets."""

    steps: tuple[StepPlan, ...]
    targets: tuple[str, ...]

    def step(self, unit_id: str) -> StepPlan:
        """Find a step."""
        return next(step for step in self.steps if step.id == unit_id)

    def order(self) -> list[str]:
        """Give the ids of what the targets need in graph order: depth first, what is needed before."""
        found: list[str] = []

        def visit(unit_id: str) -> None:
            if unit_id not in found:
                for needed in self.step(unit_id).needed():
                    visit(needed)
                found.append(unit_id)

        for target in self.targets:
            visit(target)
        return found

    def inputs(self) -> set[str]:
        """Give the names of the inputs that its steps ask for."""
        return {
            source.of
            for unit_id in self.order()
            for _, source in self.step(unit_id).sources
            if source.how in ("input", "input item")
        }


# -- Runs.


@dataclass(frozen=True)
class Failures:
    """
    Which executions raise.

    Attributes:
        steps: How many attempts at a step fail, by its id.
        instances: The same for those instances of an ``each`` step whose weight is even.
    """

    steps: Mapping[str, int] = field(default_factory=dict)
    instances: Mapping[str, int] = field(default_factory=dict)

    def of(self, step_id: str, label: str | None) -> int:
        """Say how many attempts fail."""
        failing = self.steps.get(step_id, 0)
        if label is not None and sum(map(ord, label)) % 2 == 0:
            failing = max(failing, self.instances.get(step_id, 0))
        return failing


@dataclass(frozen=True)
class Saved:
    """What a snapshot holds: key and value by id, and keys of what it could not save."""

    entries: Mapping[str, tuple[object, Any]] = field(default_factory=dict)
    unsaved: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What an asker sees of a step: *state* is ``ok``, ``skipped`` or ``blocked``."""

    state: str
    contribution: object = None
    key: object = None
    reused: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of an execution: *state* is ``done``, ``failed`` or ``blocked``."""

    state: str
    value: Any = None


SKIPPED = Look("skipped")
BLOCKED = Look("blocked")

Unit = tuple[str, "str | None"]
"""A step, or one instance of it by its label."""


def id_of(unit: Unit) -> str:
    """Give the id under which snapshots and traces know a unit."""
    return unit[0] if unit[1] is None else f"{unit[0]}[{unit[1]}]"


@dataclass
class Round:
    """One run: a plan with its inputs, what was saved before, and what goes wrong."""

    plan: Plan
    inputs: Mapping[str, Any]
    saved: Saved = field(default_factory=Saved)
    failures: Failures = field(default_factory=Failures)
    drift: Mapping[str, int] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    refresh: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.order = [unit_id for unit_id in self.plan.order() if unit_id in self._wanted()]
        self._looks: dict[Unit, Look] = {}
        self._outcomes: dict[Unit, Outcome] = {}
        self._instances: dict[str, Look | list[str]] = {}
        self._items: dict[Unit, tuple[Any, object]] = {}
        for unit_id in self.order:
            for unit in self.units(unit_id):
                self.look(unit)
                if self.lasting(unit) or unit_id in self.plan.targets:
                    self.value(unit)

    def _wanted(self) -> set[str]:
        """Give the ids of what is needed where overridden steps need nothing."""
        found: set[str] = set()

        def visit(unit_id: str) -> None:
            if unit_id not in found:
                found.add(unit_id)
                if unit_id not in self.overrides:
                    for needed in self.plan.step(unit_id).needed():
                        visit(needed)

        for target in self.plan.targets:
            visit(target)
        return found

    # -- What there is.

    def units(self, unit_id: str) -> list[Unit]:
        """Give the units of a step: itself, or its instances where they can be known."""
        if self.plan.step(unit_id).item() is None or unit_id in self.overrides:
            return [(unit_id, None)]
        labels = self.instances(unit_id)
        return [] if isinstance(labels, Look) else [(unit_id, label) for label in labels]

    def instances(self, unit_id: str) -> Look | list[str]:
        """Give the labels of an ``each`` step's instances, or how it is skipped or blocked as a whole."""
        if unit_id not in self._instances:
            self._instances[unit_id] = self._find_instances(unit_id)
        return self._instances[unit_id]

    def _find_instances(self, unit_id: str) -> Look | list[str]:
        step = self.plan.step(unit_id)
        item = step.item()
        assert item is not None
        others = [self.parameter(step, source, None) for name, source in step.sources if name != item[0]]
        source = item[1]
        if source.how == "item" and self.is_each(source.of):
            labels = self.instances(source.of)
            worst = _worst([labels if isinstance(labels, Look) else Look("ok"), *others])
            if worst is not None:
                return worst
            assert isinstance(labels, list)
            return labels
        if source.how == "item":
            # Items that are not saved are asked for only where the step is not skipped or blocked anyway.
            worst = _worst([self.look((source.of, None)), *others])
            if worst is not None:
                return worst
            outcome = self.value((source.of, None))
            if outcome.state != "done":
                return BLOCKED
            collection = outcome.value
        else:
            worst = _worst(others)
            if worst is not None:
                return worst
            collection = self.inputs[source.of]
        if isinstance(collection, Mapping):
            pairs = [(key.replace("/", "%2F"), value) for key, value in collection.items()]
        else:
            pairs = [(str(value), value) for value in collection]
        labels = []
        counts: dict[str, int] = {}
        for label, value in pairs:
            counts[label] = counts.get(label, 0) + 1
            if counts[label] > 1:
                label = f"{label}~{counts[label]}"
            labels.append(label)
            self._items[unit_id, label] = (value, ("value", typed(value)))
        return labels

    def is_each(self, unit_id: str) -> bool:
        """Say whether a step runs once per item."""
        return self.plan.step(unit_id).item() is not None and unit_id not in self.overrides

    # -- Rendering.

    def parameter(self, step: StepPlan, source: Source, label: str | None) -> Look:
        """Say what a parameter adds to the key, before anybody asks for values that are not saved."""
        look = self._parameter(step, source, label)
        if look.state == "skipped" and source.default is not None:
            return Look("ok", ("value", typed(source.default)))
        return look

    def is_skipped(self, step: StepPlan, source: Source) -> bool:
        """Say whether a parameter that takes from whole steps is left to its default."""
        return source.how in ("step", "list") and self._parameter(step, source, None).state == "skipped"

    def _parameter(self, step: StepPlan, source: Source, label: str | None) -> Look:
        match source.how:
            case "input":
                return Look("ok", ("value", typed(self.inputs.get(source.of, source.default))))
            case "value":
                return Look("ok", ("value", typed(source.of)))
            case "step":
                return self.collected(source)
            case "list":
                looks = [self.collected(Source("step", unit_id)) for unit_id in source.of]
                return _worst(looks) or Look("ok", ("list", tuple(look.contribution for look in looks)))
            case "item" if self.is_each(source.of):
                return self.look((source.of, label))
            case _:
                return Look("ok", self._items[step.id, label][1])

    def collected(self, source: Source) -> Look:
        """Say what a whole step adds to the key of one that takes from it."""
        if not self.is_each(source.of):
            return self.look((source.of, None))
        labels = self.instances(source.of)
        if isinstance(labels, Look):
            return labels
        found = [(label, self.look((source.of, label))) for label in labels]
        if any(look.state == "blocked" for _, look in found):
            return BLOCKED
        kept = [(label, look.contribution) for label, look in found if look.state == "ok"]
        if source.as_dict:
            return Look("ok", ("dict", tuple(kept)))
        return Look("ok", ("list", tuple(contribution for _, contribution in kept)))

    def look(self, unit: Unit) -> Look:
        """Say what a unit adds to the key of one that takes from it; a saved one must be over for that."""
        if unit not in self._looks:
            self._looks[unit] = self._look(unit)
        return self._looks[unit]

    def _look(self, unit: Unit) -> Look:
        if unit[0] in self.overrides:
            return Look("ok", ("value", typed(self.overrides[unit[0]])))
        look = self.render(unit)
        if look.state != "ok":
            return look
        step = self.plan.step(unit[0])
        if not step.save or self.known_unsaved(unit, look.key):
            return replace(look, contribution=("key of", look.key))
        if not look.reused:
            outcome = self._execute(unit, look)
            if outcome.state != "done":
                return replace(look, state="blocked")
            if not can_be_saved(step.kind, outcome.value):
                return replace(look, contribution=("key of", look.key))
            return replace(look, contribution=("value", typed(outcome.value)))
        return replace(look, contribution=("value", typed(self.saved.entries[id_of(unit)][1])))

    def known_unsaved(self, unit: Unit, key: object) -> bool:
        """Say whether the snapshot names a unit as one whose result under this key could not be saved."""
        return id_of(unit) in self.saved.unsaved and self.saved.unsaved[id_of(unit)] == key

    def render(self, unit: Unit) -> Look:
        """Give a unit's key, or say that it is skipped or blocked."""
        step = self.plan.step(unit[0])
        parameters = {name: self.parameter(step, source, unit[1]) for name, source in step.sources}
        worst = _worst(parameters.values())
        if worst is not None:
            return worst
        if step.when is not None:
            given = self.arguments(unit, step.when[0])
            if given is None:
                return BLOCKED
            if not asked(step.when[1], given.values()):
                return SKIPPED
        vary: object = step.vary
        if isinstance(step.vary, tuple):
            given = self.arguments(unit, step.vary[0])
            if given is None:
                return BLOCKED
            vary = varied(step.vary[1], given.values())
        code: object = ("code", step.is_async, step.kind, step.code, tuple(name for name, _ in step.sources))
        if step.version is not None:
            code = ("version", step.version)
        key = (
            code,
            tuple((name, look.contribution) for name, look in parameters.items()),
            ANNOTATIONS[step.kind],
            typed(vary),
        )
        entry = self.saved.entries.get(id_of(unit))
        fresh = {unit[0], id_of(unit)} & self.refresh
        reused = step.save and entry is not None and entry[0] == key and not fresh
        return Look("ok", key=key, reused=reused)

    # -- Values.

    def arguments(self, unit: Unit, names: Sequence[str]) -> dict[str, Any] | None:
        """
        Give a rendered unit's arguments by name; None if one of them failed.

        All are asked for, also where one is known to have failed: what runs does not depend on luck.
        """
        step = self.plan.step(unit[0])
        found = {name: self.argument(step, source, unit[1]) for name, source in step.sources if name in names}
        if any(outcome.state != "done" for outcome in found.values()):
            return None
        return {name: found[name].value for name in names}

    def argument(self, step: StepPlan, source: Source, label: str | None) -> Outcome:
        """Give one argument, which makes what is not saved run."""
        if self._parameter(step, source, label).state == "skipped":
            return Outcome("done", source.default)
        match source.how:
            case "input":
                return Outcome("done", self.inputs.get(source.of, source.default))
            case "value":
                return Outcome("done", source.of)
            case "step":
                return self.collect(source)
            case "list":
                outcomes = [self.collect(Source("step", unit_id)) for unit_id in source.of]
                if any(outcome.state != "done" for outcome in outcomes):
                    return Outcome("blocked")
                return Outcome("done", [outcome.value for outcome in outcomes])
            case "item" if self.is_each(source.of):
                return self.value((source.of, label))
            case _:
                return Outcome("done", self._items[step.id, label][0])

    def collect(self, source: Source) -> Outcome:
        """Give the value of a whole step: of an ``each`` step, of all its instances that are not skipped."""
        if not self.is_each(source.of):
            return self.value((source.of, None))
        labels = self.instances(source.of)
        assert isinstance(labels, list)
        found = {
            label: self.value((source.of, label))
            for label in labels
            if self.look((source.of, label)).state != "skipped"
        }
        if any(outcome.state != "done" for outcome in found.values()):
            return Outcome("blocked")
        values = {label: outcome.value for label, outcome in found.items()}
        return Outcome("done", values if source.as_dict else list(values.values()))

    def value(self, unit: Unit) -> Outcome:
        """Give the value of a unit, which makes it run unless it is reused."""
        if unit[0] in self.overrides:
            return Outcome("done", self.overrides[unit[0]])
        look = self.render(unit)
        if look.state != "ok":
            return Outcome("blocked")
        if look.reused:
            return Outcome("done", self.saved.entries[id_of(unit)][1])
        return self._execute(unit, look)

    def _execute(self, unit: Unit, look: Look) -> Outcome:
        if unit not in self._outcomes:
            self._outcomes[unit] = self._run(unit)
        return self._outcomes[unit]

    def _run(self, unit: Unit) -> Outcome:
        step = self.plan.step(unit[0])
        over = [self.is_over(unit_id) for unit_id in step.after]
        arguments = self.arguments(unit, [name for name, _ in step.sources])
        if arguments is None or not all(over):
            return Outcome("blocked")
        if self.failures.of(*unit) >= step.attempts:
            return Outcome("failed")
        drift = self.drift.get(step.id, 0)
        return Outcome("done", compute(step.kind, step.code, list(arguments.values()), drift))

    def is_over(self, unit_id: str) -> bool:
        """Run a step that another comes after, and say whether that may start."""
        if self.is_each(unit_id):
            labels = self.instances(unit_id)
            if isinstance(labels, Look):
                return labels.state == "skipped"
            units: list[Unit] = [(unit_id, label) for label in labels]
        else:
            units = [(unit_id, None)]
        looks = [self.look(unit) for unit in units]
        outcomes = [
            self.value(unit) for unit, look in zip(units, looks, strict=True) if look.state != "skipped"
        ]
        return all(outcome.state == "done" for outcome in outcomes)

    # -- What is said about it after.

    def lasting(self, unit: Unit) -> bool:
        """Say whether a unit runs without being asked for: it may be saved, and no run found that it cannot."""
        look = self.look(unit)
        step = self.plan.step(unit[0])
        return step.save and look.state == "ok" and not self.known_unsaved(unit, look.key)

    def statuses(self) -> dict[str, str]:
        """Give the status of every unit by id; ``resumed`` for one that was reused."""
        found = {}
        for unit_id in self.order:
            if self.is_each(unit_id):
                labels = self.instances(unit_id)
                if isinstance(labels, Look):
                    found[unit_id] = labels.state
            for unit in self.units(unit_id):
                found[id_of(unit)] = self._status(unit)
        return found

    def _status(self, unit: Unit) -> str:
        if unit[0] in self.overrides:
            return "overridden"
        look = self.render(unit)
        if look.state != "ok":
            return look.state
        if look.reused:
            return "resumed"
        if unit in self._outcomes:
            return self._outcomes[unit].state
        return "unneeded, and it could not have run" if self._doomed(unit) else "unneeded"

    def _doomed(self, unit: Unit) -> bool:
        """Say whether a unit that nobody asked for has an input that failed, or would have."""
        step = self.plan.step(unit[0])
        for _, source in step.sources:
            ids = [source.of] if source.how in ("step", "item") else source.of if source.how == "list" else []
            for unit_id in ids:
                chained = source.how == "item" and self.is_each(unit_id)
                units = [(unit_id, unit[1])] if chained else self.units(unit_id)
                if any(
                    self._status(one) in ("failed", "blocked") or "could not" in self._status(one)
                    for one in units
                ):
                    return True
        return not all(self.has_ended_well(unit_id) for unit_id in step.after)

    def has_ended_well(self, unit_id: str) -> bool:
        """Say whether a step has not failed, and nothing that it needs."""
        return not any(
            said in ("failed", "blocked") or "could not" in said
            for said in map(self._status, self.units(unit_id))
        )

    def executions(self) -> dict[str, int]:
        """Give the number of attempts at every unit that runs, by id."""
        return {
            id_of(unit): min(self.plan.step(unit[0]).attempts, self.failures.of(*unit) + 1)
            for unit, outcome in self._outcomes.items()
            if outcome.state in ("done", "failed")
        }

    def arguments_of(self, executed: str) -> list[Any]:
        """Give the arguments that a unit that ran must have received."""
        unit = next(unit for unit in self._outcomes if id_of(unit) == executed)
        found = self.arguments(unit, [name for name, _ in self.plan.step(unit[0]).sources])
        assert found is not None
        return list(found.values())

    def results(self) -> dict[str, Any]:
        """Give every known value by id; the list of them for an ``each`` step."""
        found: dict[str, Any] = {}
        for unit_id in self.order:
            units = self.units(unit_id)
            if self.is_each(unit_id):
                if isinstance(self.instances(unit_id), Look):
                    continue
                statuses = [self._status(unit) for unit in units]
                if all(status in ("done", "resumed", "skipped") for status in statuses):
                    kept = [unit for unit, said in zip(units, statuses, strict=True) if said != "skipped"]
                    found[unit_id] = [self.value(unit).value for unit in kept]
            for unit in units:
                if self._status(unit) in ("done", "resumed", "overridden"):
                    found[id_of(unit)] = self.value(unit).value
        return found

    def keys(self) -> dict[str, object]:
        """Give the key of every unit that rendered, by id."""
        return {id_of(unit): look.key for unit, look in self._looks.items() if look.key is not None}

    def after(self) -> Saved:
        """Give what the snapshot holds when the run is over."""
        entries = dict(self.saved.entries)
        unsaved = dict(self.saved.unsaved)
        for unit, look in self._looks.items():
            unit_id = id_of(unit)
            step = self.plan.step(unit[0])
            if look.key is None:
                continue
            if not look.reused:
                entries.pop(unit_id, None)
            if unsaved.get(unit_id) != look.key:
                unsaved.pop(unit_id, None)
            outcome = self._outcomes.get(unit)
            if outcome is not None and outcome.state == "done" and step.save:
                if can_be_saved(step.kind, outcome.value):
                    entries[unit_id] = (look.key, outcome.value)
                    unsaved.pop(unit_id, None)
                else:
                    unsaved[unit_id] = look.key
        return Saved(entries, unsaved)


def _worst(looks: Any) -> Look | None:
    """Give what keeps a step from rendering: a skip before a failure, as it is final; None if nothing does."""
    states = {look.state for look in looks}
    return SKIPPED if "skipped" in states else BLOCKED if "blocked" in states else None


def asked(modulus: int, values: Any) -> bool:
    """Answer as the ``when`` of every plan does."""
    return sum(map(weight, values)) % modulus != 0


def varied(modulus: int, values: Any) -> int:
    """Answer as the ``vary`` functions of all plans do."""
    return sum(map(weight, values)) % modulus
