"""
Random graphs for the engine and for the oracle: plans, edits of them, and plans made real.
"""

from __future__ import annotations

import functools
import itertools
import json
import linecache
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import trio
from hypothesis import assume
from hypothesis import strategies as st
from trio.testing import MockClock

import june
from june import Retry, RunCancelled, RunFailed, Snapshot, Step, current, run_async, step
from tests.oracle import (
    ANNOTATIONS,
    SEQUENCES,
    Card,
    Failures,
    Plan,
    Source,
    StepPlan,
    asked,
    can_be_saved,
    compute,
    varied,
)

LIMIT = 2
"""How much there is of the one named limit, ``few``."""

# -- Plans.

KINDS = ("int", "int", "list", "list", "dict", "float", "text", "pair", "card", "set", "none", "bare", "bare tuple",
         "maybe nan")  # fmt: skip

PARTNERS = {"int": "float", "text": "bare", "list": "bare tuple", "pair": "maybe nan", "card": "set"}
"""What an edit changes a kind to, and back. No step's results ever come by two types that look the same."""
PARTNERS.update({after: before for before, after in PARTNERS.items()})

small = st.integers(0, 3)
INPUTS = {
    "i0": small,
    "i1": small,
    "l0": st.lists(small, max_size=4),
    "m0": st.dictionaries(st.sampled_from("abc/"), small, max_size=3),
}


def inputs_for(draw: Callable[..., Any]) -> dict[str, Any]:
    """Draw all inputs."""
    return {name: draw(strategy) for name, strategy in INPUTS.items()}


@dataclass(frozen=True)
class Taste:
    """What a drawn graph is rich in."""

    most_steps: int = 10
    unsaved: float = 0.25
    asks: float = 0.3
    after: float = 0.2
    inline: float = 0.2
    limited: float = 0.25
    threads: bool = False


def chance(draw: Callable[..., Any], odds: float) -> bool:
    """Draw yes with about these odds; no is the simple answer."""
    return bool(draw(st.integers(0, 99)) >= 100 * (1 - odds))


def drawn_step(draw: Callable[..., Any], unit_id: str, before: list[StepPlan], taste: Taste) -> StepPlan:
    """Draw a step that may take from those before it."""
    sources: list[tuple[str, Source]] = []
    runs_over = [one for one in before if one.item() is not None or one.kind in SEQUENCES]
    if chance(draw, 0.35):
        if runs_over and not chance(draw, 0.3):
            sources.append(("p0", Source("item", draw(st.sampled_from(runs_over)).id)))
        else:
            sources.append(("p0", Source("input item", draw(st.sampled_from(["l0", "m0"])))))
    for number in range(1, 1 + draw(st.integers(0, 3))):
        name = f"p{number}"
        default = draw(small) if chance(draw, 0.3) else None
        if before and chance(draw, 0.8):
            if chance(draw, 0.2):
                chosen = draw(
                    st.lists(st.sampled_from(before), min_size=1, max_size=3, unique_by=lambda one: one.id)
                )
                sources.append((name, Source("list", tuple(one.id for one in chosen), default)))
            else:
                chosen_one = draw(st.sampled_from(before))
                by_label = chosen_one.item() is not None and chance(draw, 0.3)
                sources.append((name, Source("step", chosen_one.id, default, by_label)))
        elif chance(draw, 0.3):
            sources.append((name, Source("value", draw(small))))
        else:
            name = draw(st.sampled_from(["i0", "i1"]))
            if name not in dict(sources):
                sources.append((name, Source("input", name, default)))
    names = [name for name, _ in sources]
    some = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True).map(tuple) if names else None
    when = vary = None
    if some is not None and chance(draw, taste.asks):
        when = (draw(some), draw(st.integers(2, 4)))
    if chance(draw, taste.asks / 2):
        vary = (
            (draw(some), draw(st.integers(1, 3))) if some is not None and draw(st.booleans()) else draw(small)
        )
    is_async = not taste.threads or draw(st.booleans())
    return StepPlan(
        unit_id,
        tuple(sources),
        code=draw(st.integers(0, 5)),
        kind=draw(st.sampled_from(KINDS)),
        is_async=is_async and not chance(draw, taste.inline),
        runs="thread" if taste.threads and draw(st.booleans()) else "inline",
        save=not chance(draw, taste.unsaved),
        when=when,
        vary=vary,
        version="1" if chance(draw, 0.1) else None,
        after=(draw(st.sampled_from(before)).id,) if before and chance(draw, taste.after) else (),
        attempts=draw(st.sampled_from([1, 1, 1, 2, 3])),
        limit="few" if chance(draw, taste.limited) else None,
    )


def drawn_targets(draw: Callable[..., Any], steps: list[StepPlan]) -> tuple[str, ...]:
    """Draw the targets: mostly all that nobody needs."""
    needed = {unit_id for one in steps for unit_id in one.needed()}
    ends = [one.id for one in steps if one.id not in needed]
    if chance(draw, 0.3):
        return tuple(
            draw(st.lists(st.sampled_from([one.id for one in steps]), min_size=1, max_size=3, unique=True))
        )
    return tuple(ends)


@st.composite
def plans(draw: Callable[..., Any], taste: Taste = Taste()) -> Plan:
    """Draw a plan."""
    steps: list[StepPlan] = []
    for number in range(draw(st.integers(1, taste.most_steps))):
        steps.append(drawn_step(draw, f"s{number}", steps, taste))
    return Plan(tuple(steps), drawn_targets(draw, steps))


# -- Edits.


def edited(draw: Callable[..., Any], plan: Plan, taste: Taste, honest: bool) -> Plan:
    """Draw one edit of a plan. An honest one keeps the promise that ``version=`` makes."""
    steps = list(plan.steps)
    at = draw(st.integers(0, len(steps) - 1))
    one = steps[at]

    def changed(**changes: Any) -> Plan:
        return replace(plan, steps=(*steps[:at], replace(one, **changes), *steps[at + 1 :]))

    match draw(st.sampled_from(EDITS)):
        case "code" if one.version is None or not (honest or one.kind == "maybe nan"):
            return changed(code=draw(st.integers(0, 5)))
        case "kind" if (one.version is None or not honest) and one.kind in PARTNERS:
            return changed(kind=PARTNERS[one.kind])
        case "looks":
            return changed(
                spelling=draw(st.integers(0, 3)),
                attempts=draw(st.integers(1, 3)),
                limit=draw(st.sampled_from([None, "few"])),
                runs="thread" if taste.threads and draw(st.booleans()) else "inline",
            )
        case "save":
            return changed(save=not one.save)
        case "when" if one.when is not None:
            return changed(when=draw(st.sampled_from([None, (one.when[0], 2), (one.when[0], 3)])))
        case "vary" if not isinstance(one.vary, tuple):
            return changed(vary=draw(st.sampled_from([None, 0, 1])))
        case "version":
            return changed(version=draw(st.sampled_from(["1", "2"]))) if not honest else plan
        case "default" | "value" if one.sources:
            number = draw(st.integers(0, len(one.sources) - 1))
            name, source = one.sources[number]
            if source.how == "value":
                source = replace(source, of=draw(small))
            elif source.default is not None:
                source = replace(source, default=draw(small))
            return changed(sources=(*one.sources[:number], (name, source), *one.sources[number + 1 :]))
        case "rewire" if one.sources:
            number = draw(st.integers(0, len(one.sources) - 1))
            name, source = one.sources[number]
            if source.how == "step":
                old = plan.step(source.of)
                others = [
                    other.id
                    for other in steps[:at]
                    if other.kind == old.kind and (other.item() is None) == (old.item() is None)
                ]
                if others:
                    source = replace(source, of=draw(st.sampled_from(others)))
            return changed(sources=(*one.sources[:number], (name, source), *one.sources[number + 1 :]))
        case "after" if taste.after:
            before = [other.id for other in steps[:at]]
            return changed(after=(draw(st.sampled_from(before)),) if before and draw(st.booleans()) else ())
        case "rename":
            return renamed(plan, {one.id: next(new for new in _names() if new not in _ids(plan))})
        case "swap":
            other = draw(st.sampled_from(steps))
            return renamed(plan, {one.id: other.id, other.id: one.id})
        case "remove" if len(steps) > 1:
            return removed(plan, one.id)
        case "add":
            new = next(new for new in _names() if new not in _ids(plan))
            more = [*steps, drawn_step(draw, new, steps, taste)]
            return Plan(tuple(more), (*plan.targets, new))
        case "targets":
            return replace(plan, targets=drawn_targets(draw, steps))
    return plan


EDITS = ("code", "code", "code", "kind", "looks", "save", "when", "vary", "version", "default", "value", "rewire",
         "after", "rename", "swap", "remove", "add", "targets")  # fmt: skip


def _names() -> Iterator[str]:
    return (f"s{number}" for number in itertools.count())


def _ids(plan: Plan) -> set[str]:
    return {one.id for one in plan.steps}


def renamed(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Give steps other ids."""

    def of(unit_id: str) -> str:
        return names.get(unit_id, unit_id)

    def source(one: Source) -> Source:
        if one.how in ("step", "item"):
            return replace(one, of=of(one.of))
        return replace(one, of=tuple(map(of, one.of))) if one.how == "list" else one

    return Plan(
        tuple(
            replace(
                one,
                id=of(one.id),
                sources=tuple((name, source(it)) for name, it in one.sources),
                after=tuple(map(of, one.after)),
            )
            for one in plan.steps
        ),
        tuple(map(of, plan.targets)),
    )


def removed(plan: Plan, unit_id: str) -> Plan:
    """Take a step out, if no step runs over it: a fixed value stands in its place."""
    if any(source.how == "item" and source.of == unit_id for one in plan.steps for _, source in one.sources):
        return plan

    def source(one: Source) -> Source:
        if one.how == "step" and one.of == unit_id:
            return Source("value", 1)
        if one.how == "list" and unit_id in one.of:
            rest = tuple(other for other in one.of if other != unit_id)
            return replace(one, of=rest) if rest else Source("value", 1)
        return one

    steps = tuple(
        replace(
            one,
            sources=tuple((name, source(it)) for name, it in one.sources),
            after=tuple(other for other in one.after if other != unit_id),
        )
        for one in plan.steps
        if one.id != unit_id
    )
    targets = tuple(other for other in plan.targets if other != unit_id) or (steps[-1].id,)
    return Plan(steps, targets)


# -- Scenarios.


@dataclass(frozen=True)
class Turn:
    """One round of a scenario."""

    plan: Plan
    inputs: dict[str, Any]
    failures: Failures = field(default_factory=Failures)
    drift: dict[str, int] = field(default_factory=dict)
    through: str = "json"
    concurrency: int = 16
    seed: int = 0
    overrides: dict[str, Any] = field(default_factory=dict)
    refresh: frozenset[str] = frozenset()


@st.composite
def scenarios(
    draw: Callable[..., Any],
    taste: Taste = Taste(),
    honest: bool = True,
    rounds: int = 4,
) -> list[Turn]:
    """Draw a graph and what befalls it: rounds with edits, other inputs and failures."""
    plan = draw(plans(taste))
    inputs = inputs_for(draw)
    turns = []
    for number in range(draw(st.integers(1, rounds))):
        if number:
            for _ in range(draw(st.integers(0, 2))):
                plan = edited(draw, plan, taste, honest)
            if chance(draw, 0.3):
                changed = draw(st.sampled_from(sorted(INPUTS)))
                inputs = {**inputs, changed: draw(INPUTS[changed])}
        if not honest:
            # See `drawn_drift`: under one key, a result must not turn from what cannot be saved to what can.
            assume(all(one.kind != "maybe nan" for one in plan.steps))
        turns.append(
            Turn(
                plan,
                inputs,
                drawn_failures(draw, plan),
                {} if honest else drawn_drift(draw, plan),
                draw(st.sampled_from(["json", "direct", "dict", "indented", "by hand"])),
                draw(st.sampled_from([16, 1, 2, 3])),
                draw(st.integers(0, 2**32 - 1)),
            )
        )
    return turns


@st.composite
def interventions(draw: Callable[..., Any]) -> list[Turn]:
    """Draw three rounds of one graph: a plain one, one with overrides or refreshed steps, and a plain one."""
    plan = draw(plans())
    inputs = inputs_for(draw)
    plain = Turn(plan, inputs)
    ids = plan.order()
    overrides: dict[str, Any] = {}
    refresh: frozenset[str] = frozenset()
    if draw(st.booleans()):
        for unit_id in draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True)):
            one = plan.step(unit_id)
            value = compute(one.kind, draw(st.integers(0, 5)), [draw(small)])
            if one.item() is None and can_be_saved(one.kind, value):
                overrides[unit_id] = value
    else:
        lasting = [unit_id for unit_id in ids if plan.step(unit_id).save]
        some = (
            st.sets(st.sampled_from([*lasting, *(f"{unit_id}[1]" for unit_id in lasting)]))
            if lasting
            else st.just(set())
        )
        refresh = frozenset(draw(some))
    between = replace(
        plain,
        overrides=overrides,
        refresh=refresh,
        drift={} if overrides else drawn_drift(draw, plan),
        failures=drawn_failures(draw, plan) if draw(st.booleans()) else Failures(),
        seed=draw(st.integers(0, 999)),
    )
    return [plain, between, plain]


def drawn_failures(draw: Callable[..., Any], plan: Plan) -> Failures:
    """Draw what fails in a round: mostly little."""
    ids = [one.id for one in plan.steps]
    some = st.dictionaries(st.sampled_from(ids), st.integers(1, 3), max_size=2)
    return Failures(draw(some), draw(some) if chance(draw, 0.5) else {})


def drawn_drift(draw: Callable[..., Any], plan: Plan) -> dict[str, int]:
    """
    Draw which steps answer otherwise this time, though nothing that June can see has changed.

    None of them turns from what cannot be saved to what can, nor can have another step turn so that is keyed by
    its key: whether the consumers then see a key or a value is up to the moment.
    """
    turning = any(one.kind == "maybe nan" for one in plan.steps)
    ids = [one.id for one in plan.steps if one.kind != "maybe nan" and (one.save or not turning)]
    return draw(st.dictionaries(st.sampled_from(ids), st.integers(1, 2), max_size=2)) if ids else {}


# -- Plans made real.


class Boom(Exception):
    """What a failing step raises."""


@dataclass
class Probe:
    """
    Stands beside a run as a resource: it paces the steps, makes some fail, and writes down what they did.

    Attributes:
        began: Id and arguments of every attempt, in the order in which they began.
        events: ``start`` and ``end`` with the id, in order.
        finished: Ids of those that ended well, in order.
        times: When each unit began and ended on trio's clock.
    """

    failures: Failures = field(default_factory=Failures)
    drift: Mapping[str, int] = field(default_factory=dict)
    pause: Callable[[str], float] = lambda unit_id: 0
    limits: Mapping[str, str] = field(default_factory=dict)
    began: list[tuple[str, list[Any]]] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    most: int = 0
    most_limited: int = 0
    problems: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def enter(self, arguments: list[Any]) -> Visit:
        """Note that an attempt begins."""
        me = current()
        visit = Visit(self, me.id, me.attempt, arguments)
        with self.lock:
            if me.id in self.running:
                self.problems.append(f"{me.id} runs twice at once")
            self.began.append((me.id, arguments))
            self.events.append(("start", me.id))
            self.running.add(me.id)
            self.most = max(self.most, len(self.running))
            limited = sum(1 for one in self.running if one.partition("[")[0] in self.limits)
            self.most_limited = max(self.most_limited, limited)
        return visit

    async def begin(self, arguments: list[Any]) -> Visit:
        """Begin an attempt at an async step."""
        visit = self.enter(arguments)
        began = trio.current_time()
        pause = self.pause(visit.id)
        try:
            if isinstance(pause, int):
                for _ in range(pause):
                    await trio.lowlevel.checkpoint()
            else:
                await trio.sleep(pause)
        except BaseException:
            visit.leave(False)
            raise
        self.times[visit.id] = (began, trio.current_time())
        visit.fail_or_go_on()
        return visit

    def begin_now(self, arguments: list[Any]) -> Visit:
        """Begin an attempt at a step that is no coroutine."""
        visit = self.enter(arguments)
        visit.fail_or_go_on()
        return visit


@dataclass
class Visit:
    """One attempt at a step."""

    probe: Probe
    id: str
    attempt: int
    arguments: list[Any]

    def fail_or_go_on(self) -> None:
        """Raise if this attempt is one that fails."""
        step_id, _, rest = self.id.partition("[")
        if self.attempt <= self.probe.failures.of(step_id, rest[:-1] if rest else None):
            self.leave(False)
            raise Boom(self.id)

    def leave(self, well: bool) -> None:
        """Note that the attempt is over."""
        with self.probe.lock:
            self.probe.running.discard(self.id)
            self.probe.events.append(("end", self.id))
            if well:
                self.probe.finished.append(self.id)

    def end(self, kind: str, code: int) -> Any:
        """Do the work."""
        drift = self.probe.drift.get(self.id.partition("[")[0], 0)
        value = compute(kind, code, self.arguments, drift)
        self.leave(True)
        return value


SPELLINGS = (
    "{define} work(*, {parameters}){returns}:\n"
    "    visit = {begin}([{names}])\n"
    "    return visit.end({kind!r}, {code})\n",
    "# A comment.\n"
    "{define} work(*, {parameters}){returns}:\n"
    "    attempt = {begin}([{names}])  # another\n\n"
    "    return attempt.end({kind!r}, {code})\n",
    "{define} work(\n    *,\n    {parameters},\n){returns}:\n"
    '    """What it does."""\n'
    "    visit = ({begin}(  [  {names}  ]  ))\n"
    "    return (visit).end({kind!r}, 0x{code})\n",
    "\n\n{define} work(*, {parameters}){returns}:\n"
    "    the_visit: object = {begin}([{names}])\n"
    "    return the_visit.end({kind!r},\n{code},)\n",
)

_numbers = itertools.count()


@functools.lru_cache(maxsize=5000)
def _function(text: str) -> Callable[..., Any]:
    name = f"<plan {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"Card": Card, "__name__": "plans"}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return names["work"]  # type: ignore[return-value]  # the text defines it


@functools.lru_cache(maxsize=1000)
def _asking(names: tuple[str, ...], modulus: int, answer: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of some parameters by name, for ``when`` and ``vary``."""
    return eval(  # type: ignore[no-any-return]
        f"lambda {', '.join(names)}: answer({modulus}, [{', '.join(names)}])", {"answer": answer}
    )


def function_of(one: StepPlan) -> Callable[..., Any]:
    """Write the function of a step, and compile it."""
    parameters = ["probe"]
    for name, source in one.sources:
        annotation = ": dict[str, object]" if source.as_dict else ""
        default = "" if source.default is None else f" = {source.default}"
        parameters.append(name + annotation + default)
    returns = ANNOTATIONS[one.kind]
    return _function(
        SPELLINGS[one.spelling].format(
            define="async def" if one.is_async else "def",
            parameters=", ".join(parameters),
            names=", ".join(name for name, _ in one.sources),
            returns=f" -> {returns}" if returns else "",
            begin="await probe.begin" if one.is_async else "probe.begin_now",
            kind=one.kind,
            code=one.code,
        )
    )


def real(plan: Plan) -> list[Step[..., Any]]:
    """Make the steps of a plan, and give its targets."""
    made: dict[str, Step[..., Any]] = {}
    for one in plan.steps:
        needs: dict[str, Any] = {}
        each = None
        bound = {}
        for name, source in one.sources:
            match source.how:
                case "step":
                    needs[name] = made[source.of]
                case "list":
                    needs[name] = [made[unit_id] for unit_id in source.of]
                case "item":
                    each = {name: made[source.of]}
                case "input item":
                    each = {name: source.of}
                case "value":
                    bound[name] = source.of
        vary: Any = one.vary
        if isinstance(one.vary, tuple):
            vary = _asking(*one.vary, varied)
        decorated = step(
            id="unbound" if bound else one.id,
            needs=needs,
            each=each,
            when=None if one.when is None else _asking(*one.when, asked),
            vary=vary,
            version=one.version,
            save=one.save,
            after=[made[unit_id] for unit_id in one.after],
            retry=Retry(one.attempts, on=Boom, wait=0) if one.attempts > 1 else None,
            runs_on=None if one.is_async else one.runs,
            limit=one.limit,
        )(function_of(one))
        made[one.id] = decorated.bind(id=one.id, **bound) if bound else decorated
    return [made[unit_id] for unit_id in plan.targets]


# -- Runs of real plans.


@dataclass
class Played:
    """
    A run that is over.

    Attributes:
        ended: The `RunResult`, or the `RunFailed` or `RunCancelled` that was raised.
        warned: Messages of all `june.ResultWarning`.
    """

    ended: Any
    probe: Probe
    warned: list[str]

    @property
    def snapshot(self) -> Snapshot:
        found: Snapshot = self.ended.snapshot()
        return found

    @property
    def statuses(self) -> dict[str, str]:
        """The status of every node by id; ``resumed`` for one that was reused."""
        return {node.id: "resumed" if node.resumed else node.status for node in self.ended.trace.nodes}


@contextmanager
def schedule(seed: int | None) -> Iterator[None]:
    """Have trio take ready tasks in an order that *seed* decides."""
    module = trio._core._run  # type: ignore[attr-defined]  # trio's own tests do this; there is no public way
    before = module._r, module._ALLOW_DETERMINISTIC_SCHEDULING
    if seed is not None:
        module._r, module._ALLOW_DETERMINISTIC_SCHEDULING = random.Random(seed), True
    try:
        yield
    finally:
        module._r, module._ALLOW_DETERMINISTIC_SCHEDULING = before


def paces(seed: int, virtual: bool) -> Callable[[str], float]:
    """Give a pause for every unit that *seed* decides: seconds of virtual time, or a number of checkpoints."""

    def pause(unit_id: str) -> float:
        chosen = random.Random(f"{seed} {unit_id}").choice([0, 0, 1, 2, 5, 9])
        return float(chosen) if virtual else chosen

    return pause


def play(
    plan: Plan,
    inputs: Mapping[str, Any],
    *,
    failures: Failures | None = None,
    drift: Mapping[str, int] | None = None,
    seed: int = 0,
    virtual: bool = True,
    cancel_at: float | None = None,
    **options: Any,
) -> Played:
    """
    Run a plan.

    Args:
        plan: The plan.
        inputs: All inputs; those are given that the plan asks for.
        failures: What fails.
        drift: What answers otherwise.
        seed: Decides the pauses and trio's order.
        virtual: Whether steps sleep in virtual time; else they only pass checkpoints, as threads need.
        cancel_at: When to cancel the handle, in virtual seconds.
        **options: What `june.run` takes.
    """
    targets = real(plan)
    asked_for = plan.inputs()
    probe = Probe(
        failures or Failures(),
        drift or {},
        paces(seed, virtual),
        {one.id: one.limit for one in plan.steps if one.limit is not None},
    )
    options = {
        "inputs": {name: value for name, value in inputs.items() if name in asked_for},
        "resources": {"probe": probe},
        "limits": {"few": LIMIT},
        "on_error": "continue",
        **options,
    }

    async def main() -> Any:
        # With nothing left to happen, virtual time jumps here: a run that hangs fails at once.
        with trio.fail_after(1e6 if virtual else 30):
            try:
                if cancel_at is None:
                    return await run_async(targets, **options)
                async with june.open_run(targets, **options) as handle:
                    await trio.sleep(cancel_at)
                    handle.cancel()
                    return await handle
            except (RunFailed, RunCancelled) as error:
                return error

    with warnings.catch_warnings(record=True) as caught, schedule(seed):
        warnings.simplefilter("always")
        ended = trio.run(main, clock=MockClock(autojump_threshold=0) if virtual else None)
    unexpected = [one for one in caught if not issubclass(one.category, june.ResultWarning)]
    assert not unexpected, [str(one.message) for one in unexpected]
    return Played(ended, probe, [str(one.message) for one in caught])


def without_meta(snapshot: Snapshot) -> str:
    """Give a snapshot's JSON without what tells of time."""
    found = json.loads(snapshot.to_json())
    for entry in found["steps"].values():
        entry.pop("meta", None)
    return json.dumps(found)
