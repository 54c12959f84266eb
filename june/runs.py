"""
Runs: what is ready, running and done, as pure state.

Nothing here waits, and nothing knows of trio: the executor asks a `Run` for the next step to start, and
tells it how that step ended.

A step goes through two gates. It *renders* once every input's contribution to its key is known, and it
*starts* once every input's value is there. The two differ for steps whose results are not in a snapshot:
they contribute their own cache keys, which are known before (and perhaps without) running them. So a step
that is reused never makes an unsaved input run, and a step that must run asks for the values it lacks.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from time import perf_counter, time
from typing import Any, cast

import attrs

from june._signatures import MISSING
from june._text import near
from june.codec import Inexact
from june.errors import InputError, ResultError, ResultWarning
from june.fanout import Labels, items_of
from june.fingerprints import Fingerprinter, KeyFailure
from june.graphs import Binding, Graph, GraphNode, named
from june.inputs import Inputs
from june.keys import Recipe, digest, key_contribution
from june.ledgers import EMPTY, Ledger
from june.reuse import Reuse
from june.snapshots import Finished, Snapshot, base_id
from june.stepruns import FAILED, KNOWN, PENDING, SKIPPED, AnyRun, Family, InstanceRun, StepRun
from june.steps import Declaration
from june.traces import NOTHING, SETTLED, Status, TraceNode

PAUSE: Any = type("Pause", (), {"__repr__": lambda self: "PAUSE"})()
"""What `Run.next` returns when it has rendered for a while and others should have a turn."""

_RENDER_SECONDS = 0.01

_LOST = frozenset({"failed", "aborted", "blocked"})
"""Statuses of steps from which no value will come."""

_IMMUTABLE = frozenset({type(None), bool, int, float, complex, str, bytes, range, type(...)})


@attrs.frozen(kw_only=True)
class Options:
    """What a run was asked for, checked; see `june.RunOptions`."""

    inputs: Mapping[str, Any] = attrs.field(factory=dict)
    resources: Mapping[str, Any] = attrs.field(factory=dict)
    snapshot: Snapshot | None = None
    concurrency: int = 16
    limits: Mapping[str, int] = attrs.field(factory=dict)
    refresh: frozenset[str] = frozenset()
    overrides: Mapping[str, Any] = attrs.field(factory=dict)
    strict: bool = False
    on_error: str = "drain"


class Run:
    """
    The state of one run.

    Attributes:
        nodes: For each node of the graph, the step (or ``each`` step) in this run.
        ledger: What a snapshot is taken from.
        failures: The steps that failed, in the order in which they did.
        active: Steps that have begun and not ended, waits between two attempts included.
        stopping: Whether nothing new may be rendered or started.
        cancelled: Whether everything that runs is being cancelled.
        on_change: Called with what changed and its node, or None.
    """

    def __init__(self, graph: Graph, options: Options) -> None:
        """
        Lay a run out.

        Raises:
            InputError: If an option does not fit the graph, or an input cannot be part of a key.
        """
        self.graph = graph
        self.options = options
        self.base = options.snapshot
        self.ledger = Ledger(EMPTY if self.base is None else self.base.contents, self.rank)
        self.failures: list[TraceNode] = []
        self.active = 0
        self.stopping = False
        self.cancelled = False
        self.on_change: Callable[[str, TraceNode], None] | None = None
        self._reuse = Reuse(self.base, self.ledger, options.refresh)
        self._free = options.concurrency
        self._limits = dict(options.limits)
        self._limited: dict[str, list[tuple[int, StepRun]]] = {name: [] for name in self._limits}
        # Steps that can render. Those that could from the start are in graph order as they are; only those
        # that come later need a heap.
        self._first: deque[StepRun] = deque()
        self._ready: list[tuple[int, StepRun]] = []
        # Steps that have rendered, must run, and lack nothing but a slot.
        self._startable: list[tuple[int, StepRun]] = []
        self._settling: deque[AnyRun] = deque()
        self._targets = frozenset(graph.targets)
        session = Fingerprinter()
        contributions = _input_contributions(options.inputs, session)
        self.nodes, self._dependents = self._lay_out(session)
        self._by_id: dict[str, AnyRun] = {one.id: one for one in self.nodes}
        self._inputs = Inputs(self.nodes, {**options.inputs, **options.resources}, contributions, session)
        self._check_options()

    def _lay_out(self, session: Fingerprinter) -> tuple[Sequence[AnyRun], list[list[int]]]:
        """Make a `StepRun` or `Family` for each node, and note who depends on whom."""
        graph_nodes = self.graph.nodes
        nodes: list[AnyRun] = []
        dependents: list[list[int]] = [_NONE] * len(graph_nodes)
        overrides = self.options.overrides
        recipes: dict[Declaration, Recipe] = {}
        for index, node in enumerate(graph_nodes):
            declaration = node.declaration
            recipe = recipes.get(declaration)
            if recipe is None:
                recipe = recipes[declaration] = Recipe(node, session)
                self._check_limit(node)
            new: AnyRun
            if node.item is None or node.step.id in overrides:
                new = StepRun(self, node, recipe, node.step.id, index << 40)
            else:
                new = Family(self, node, recipe, index << 40)
            nodes.append(new)
            if node.sources:
                if isinstance(new, StepRun):
                    new.remaining = len(node.sources)
                for source in node.sources:
                    if dependents[source] is _NONE:
                        dependents[source] = []
                    dependents[source].append(index)
                    nodes[source].consumers += 1
        for index in self._targets:
            # A target's result is asked for by whoever started the run.
            nodes[index].consumers += 1
        return nodes, dependents

    def _check_limit(self, node: GraphNode) -> None:
        limit = node.declaration.limit
        if limit is not None and limit not in self._limits:
            hint = near(limit, self._limits)
            raise InputError(
                f"step {named(node.step)} holds one of limit {limit!r} while it runs, but the run was given "
                "no such limit. " + (f"Did you mean {hint[0]!r}?" if hint else f"Pass limits={{{limit!r}: 4}}.")
            )

    def _check_options(self) -> None:
        options = self.options
        for argument, ids in (("refresh", options.refresh), ("overrides", options.overrides)):
            for id in ids:  # noqa: A001 - the contract's word
                if base_id(id) not in self._by_id:
                    hint = near(id, self._by_id)
                    raise InputError(
                        f"{argument} names {id!r}, but the graph has no such step."
                        + (f" Did you mean {hint[0]!r}?" if hint else "")
                    )

    def begin(self) -> None:
        """Settle what stands in for steps, and find the steps that nothing holds up."""
        needed = self._needed() if self.options.overrides else None
        for index, one in enumerate(self.nodes):
            if needed is not None and index not in needed:
                one.status = "unneeded"
            elif isinstance(one, Family):
                self._begin_family(one)
            elif needed is not None and one.id in self.options.overrides:
                self._override(one)
            elif not one.remaining:
                self._first.append(one)
        self._settle()

    def _needed(self) -> set[int]:
        """Find the nodes that the targets need when overrides stand in for some."""
        found = set(self._targets)
        queue = list(found)
        while queue:
            node = self.graph.nodes[queue.pop()]
            if node.step.id in self.options.overrides:
                continue
            for source in node.sources:
                if source not in found:
                    found.add(source)
                    queue.append(source)
        return found

    def _override(self, one: StepRun) -> None:
        one.value = self.options.overrides[one.id]
        one.status = "done"
        one.outcome = KNOWN
        one.why = "stood in for by overrides"
        one.contribution = self._exact_contribution(one, one.value)
        self._settling.append(one)

    def _exact_contribution(self, one: StepRun, value: Any) -> bytes | None:
        """Give what a value that is in no snapshot adds to a key: itself, if it can be encoded exactly."""
        try:
            return one.recipe.result_contribution(digest(one.node.codec.encode(value)))
        except Inexact:
            return self._inputs.item_contribution(value)

    # -- What the executor asks.

    def next(self) -> Any:
        """
        Find the next step to start, rendering in graph order until there is one.

        Returns:
            A `StepRun` that holds a slot and whose values are all there; None if there is nothing to do
            before something that is under way has ended; or `PAUSE`.
        """
        first, ready, startable = self._first, self._ready, self._startable
        count = 0
        until = 0.0
        while not self.stopping:
            if first and not (ready and ready[0][0] < first[0].order):
                one = first[0]
            elif ready:
                one = ready[0][1]
            else:
                one = None
            if startable and self._free and (one is None or startable[0][0] < one.order):
                one = heappop(startable)[1]
                if self._take_slot(one):
                    return one
                continue
            if one is None:
                return None
            if first and one is first[0]:
                first.popleft()
            else:
                heappop(ready)
            if self._render(one):
                if not self._free or (startable and startable[0][0] < one.order):
                    heappush(startable, (one.order, one))
                elif self._take_slot(one):
                    return one
            if self._settling:
                self._settle()
            count += 1
            if not count & 31:
                now = perf_counter()
                until = until or now + _RENDER_SECONDS
                if now > until:
                    return PAUSE
        return None

    @property
    def has_work(self) -> bool:
        """Whether `next` could find something to do now."""
        return not self.stopping and bool(self._first or self._ready or (self._startable and self._free))

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing is left to do."""
        return not self.active and (
            self.stopping
            or not (self._first or self._ready or self._startable or any(self._limited.values()))
        )

    def _take_slot(self, one: StepRun) -> bool:
        """Take a slot, and one of the step's limit; where the limit has none, line the step up there."""
        limit = one.node.declaration.limit
        if limit is not None:
            if not self._limits[limit]:
                heappush(self._limited[limit], (one.order, one))
                return False
            self._limits[limit] -= 1
        self._free -= 1
        return True

    def release(self, one: StepRun) -> None:
        """Give back the slot, and the limit, that *one* held."""
        self._free += 1
        limit = one.node.declaration.limit
        if limit is not None:
            self._limits[limit] += 1
            if self._limited[limit]:
                heappush(self._startable, heappop(self._limited[limit]))

    def begin_attempt(self, one: StepRun) -> Mapping[str, Any]:
        """Note that *one*, which holds a slot, starts now; give the values of its parameters."""
        one.attempts += 1
        if one.attempts == 1:
            self.active += 1
            one._started = perf_counter()
            one._wall = time()
        one.status = "running"
        if self.on_change is not None:
            self.on_change("status", one)
        return self._inputs.arguments(one)

    def try_again(self, one: StepRun) -> None:
        """Line *one*, which waited after a failed attempt, up for another."""
        heappush(self._startable, (one.order, one))

    # -- How a step ended.

    def finish(self, one: StepRun, value: Any) -> None:
        """Take the result of an attempt: save it if it can be, and let those that wait for it go on."""
        finished = one._finished = perf_counter()
        one.value = value
        key = one.key
        if key is None:
            one.contribution = self._exact_contribution(one, value)
        elif one.node.declaration.save:
            try:
                data = one.node.codec.encode(value)
            except Inexact as inexact:
                problem = self._unsaved(one, key, inexact)
                if problem is not None:
                    self.fail(one, problem)
                    return
            else:
                seconds = finished - one._started
                one.entry = entry = Finished(
                    one.id, one.order, key, data, None, one.recipe, one.inputs, one._wall + seconds, seconds
                )
                if one.lazy:
                    self._saved_after_all(one)
                self.ledger.finish(entry)
        self.active -= 1
        one.status = "done"
        self._deliver(one)
        if self._settling:
            self._settle()

    def _unsaved(self, one: StepRun, key: str, inexact: Inexact) -> Exception | None:
        """A result cannot be saved: warn, or give the error that the step is to fail with."""
        text = (
            f"step {_name(one)} finished, but its result is not saved: "
            f"{inexact.path} {inexact.problem}. {inexact.cure}"
        )
        if self.options.strict:
            return ResultError(text)
        try:
            self._warn(one, text)
        except ResultWarning as warning:
            # Warnings are errors here, as under pytest -W error.
            return warning
        one.contribution = key_contribution(key)
        if not self._reuse.could_not_save(one):
            self.ledger.unsaved(one.id, key)
        one.add_note(f"not saved: {inexact.path} {inexact.problem}")
        return None

    def _saved_after_all(self, one: StepRun) -> None:
        """A result that could not be saved the last time now can: it counts by value from here on."""
        self.ledger.forget(one.id)
        one.contribution = None
        if isinstance(one, InstanceRun):
            one.family.forget_contributions()
        for waiter in one.waiters or ():
            if isinstance(waiter, StepRun) and not waiter.lazy:
                waiter.rendered = False

    @staticmethod
    def _warn(one: StepRun, text: str) -> None:
        place = one.node.declaration.place
        warnings.warn_explicit(text, ResultWarning, place.path, place.line)

    def _deliver(self, one: StepRun) -> None:
        """Tell watchers, and those that wait for the value, that *one* is done."""
        if self.on_change is not None:
            self.on_change("status", one)
        waiters = one.waiters
        if waiters is not None:
            one.waiters = None
            for waiter in waiters:
                if isinstance(waiter, Family):
                    self._items_came(waiter, one)
                else:
                    self._value_came(waiter)
        if one.outcome == PENDING:
            one.outcome = KNOWN
            if type(one) is InstanceRun or self._dependents[one.order >> 40] is not _NONE:
                self._settling.append(one)

    def fail(self, one: StepRun, error: BaseException, status: Status = "failed") -> None:
        """
        Take the failure of a step, its retries included.

        Args:
            one: The step.
            error: What it raised.
            status: ``failed``, or ``aborted`` if it was cancelled.
        """
        one._finished = perf_counter()
        self.active -= 1
        one.value = NOTHING
        one.error = error
        one.status = status
        if status == "failed":
            error.add_note(f"in step {_name(one)}")
            self._failed(one)
        if self.on_change is not None:
            self.on_change("status", one)
        self._lose(one)
        self._settle()

    def _failed(self, one: TraceNode) -> None:
        self.failures.append(one)
        if self.options.on_error != "continue":
            self.stopping = True

    def _lose(self, one: StepRun) -> None:
        """No value will come of *one*: block those that wait for it, and those that wait for these."""
        lost: list[StepRun] = [one]
        while lost:
            source = lost.pop()
            waiters, source.waiters = source.waiters or (), None
            for waiter in waiters:
                if isinstance(waiter, Family):
                    self._end_family(waiter, "blocked", source)
                elif waiter.status == "queued":
                    self._mark_blocked(waiter, source)
                    lost.append(waiter)
            if source.outcome == PENDING:
                source.outcome = FAILED
                self._settling.append(source)

    def _mark_blocked(self, one: StepRun, by: TraceNode) -> None:
        one.status = "blocked"
        one.missing = 0
        one.why = _blocked_by(by)
        if self.on_change is not None:
            self.on_change("status", one)

    def _block(self, one: StepRun, by: TraceNode) -> None:
        self._mark_blocked(one, by)
        self._lose(one)

    # -- Settling: those behind a step learn that its outcome is known.

    def _settle(self) -> None:
        """Work through what has an outcome, without recursion: chains of 100,000 skips are ordinary."""
        settling = self._settling
        nodes = self.nodes
        while settling:
            one = settling.popleft()
            if isinstance(one, InstanceRun):
                self._settle_instance(one)
                continue
            index = one.order >> 40
            for behind in self._dependents[index]:
                dependent = nodes[behind]
                if type(dependent) is StepRun:
                    dependent.remaining -= 1
                    if not dependent.remaining and dependent.status == "queued":
                        heappush(self._ready, (dependent.order, dependent))
                elif not isinstance(dependent, Family):
                    raise AssertionError("only an each step is no step of its own; this is a bug in june")
                elif dependent.status == "unneeded":
                    pass
                elif index in dependent.gated_by:
                    self._open_gate(dependent)
                elif isinstance(one, StepRun):
                    self._items_came(dependent, one)

    def _one_less(self, one: StepRun) -> None:
        one.remaining -= 1
        if not one.remaining and one.status == "queued":
            heappush(self._ready, (one.order, one))

    # -- Families.

    def _begin_family(self, family: Family) -> None:
        node = family.node
        item = cast(Binding, node.item)
        others = {index for one in node.bindings if one is not item for index in one.steps()}
        family.gated_by = frozenset(others.union(node.after))
        if type(item.source) is int and isinstance(self.nodes[item.source], StepRun):
            # Its items are only known once it is over, so as a gate it would be open.
            family.gated_by -= {item.source}
        family.gate = len(family.gated_by)
        if type(item.source) is str:
            given = self.options.inputs if item.source in self.options.inputs else self.options.resources
            self._expand(family, given[item.source])

    def _items_came(self, family: Family, source: StepRun) -> None:
        """The step whose items a family runs over has an outcome, or a value."""
        if source.outcome == SKIPPED:
            self._end_family(family, "skipped", source)
        elif source.status in _LOST:
            self._end_family(family, "blocked", source)
        elif source.has_value:
            self._expand(family, source.get())
        else:
            self._wait_for(source, family)
            self._ask(source)

    def _end_family(self, family: Family, status: Status, source: TraceNode) -> None:
        """A family ends without items, and so do those that run over its results."""
        ended = [(family, source)]
        while ended:
            family, source = ended.pop()
            family.status = status
            family.outcome = SKIPPED if status == "skipped" else FAILED
            if family is not source:
                family.why = f"{source.id!r} was skipped" if status == "skipped" else _blocked_by(source)
            if self.on_change is not None:
                self.on_change("status", family)
            self._settling.append(family)
            ended += [(chained, family) for chained in self._chained(family)]
            status = "blocked" if status == "failed" else status

    def _expand(self, family: Family, source: Any) -> None:
        """Make the instances of a family from the items it runs over."""
        try:
            keys, items = items_of(source)
            contributions = [self._inputs.item_contribution(item) for item in items]
            labels = Labels(family.id, family.node.declaration.label).of(keys, items, contributions)
        except Exception as error:
            family.error = error
            error.add_note(f"in step {_name(family)}, finding its items")
            self._failed(family)
            self._end_family(family, "failed", family)
            return
        self._make(family, labels, list(zip(items, contributions, strict=True)))

    def _make(
        self, family: Family, labels: Sequence[str], of: Sequence[StepRun | tuple[Any, bytes | None]]
    ) -> None:
        """Make the instances of a family, and of those that run over its results item by item."""
        making: list[tuple[Family, Sequence[Any]]] = [(family, of)]
        overrides = self.options.overrides
        while making:
            family, of = making.pop()
            waiting = (1 if family.gate else 0) + (1 if of and isinstance(of[0], StepRun) else 0)
            family.members = [
                InstanceRun(family, number, label, item)
                for number, (label, item) in enumerate(zip(labels, of, strict=True))
            ]
            family.unsettled = len(family.members)
            family.status = "running"
            for one in family.members:
                self._by_id[one.id] = one
                one.consumers = family.consumers
                one.remaining = waiting
                if one.id in overrides:
                    self._override(one)
                elif not waiting:
                    heappush(self._ready, (one.order, one))
            if not family.members:
                self._settle_family(family)
            making += [(chained, family.members) for chained in self._chained(family)]

    def _settle_instance(self, one: InstanceRun) -> None:
        family = one.family
        for chained in self._chained(family):
            if chained.members is not None:
                self._one_less(chained.members[one.number])
        family.unsettled -= 1
        if not family.unsettled:
            self._settle_family(family)

    def _settle_family(self, family: Family) -> None:
        members = family.members or ()
        failed = any(one.outcome == FAILED for one in members)
        family.outcome = FAILED if failed else KNOWN
        family.status = "failed" if failed else "done"
        self._settling.append(family)

    def _chained(self, family: Family) -> Iterator[Family]:
        """The families that run over the results of *family*, item by item."""
        index = family.order >> 40
        for behind in self._dependents[index]:
            dependent = self.nodes[behind]
            if isinstance(dependent, Family) and cast(Binding, dependent.node.item).source == index:
                yield dependent

    def _open_gate(self, family: Family) -> None:
        family.gate -= 1
        if not family.gate:
            for one in family.members or ():
                self._one_less(one)

    # -- Rendering.

    def _render(self, one: StepRun) -> bool:
        """
        Compute a step's key and look for a saved result.

        Returns:
            Whether the step must run and can start: it was not found, and the values it takes are there.
        """
        node = one.node
        recipe = one.recipe
        plain = not (node.bindings or node.sources)
        if not plain and not self._admit(one):
            return False
        if recipe.needs_values and not (self._gather(one) and self._wanted_by_when(one)):
            return False
        if plain and recipe.vary is None:
            one.key = recipe.key
            failure = recipe.failure
        else:
            failure = self._compute_key(one, recipe)
        one.rendered = True
        if failure is not None:
            one.key = None
            one.why = f"no cache key: {failure}"
            self._reuse.drop(one)
            return self._gather(one)
        if self._reuse.anything:
            entry = self._reuse.look_up(one)
            if entry is not None:
                one.entry = entry
                one.resumed = True
                one.status = "done"
                self._deliver(one)
                return False
            if self._reuse.could_not_save(one):
                return self._be_lazy(one, "needed, and its result could not be saved the last time")
        if not node.declaration.save:
            return self._be_lazy(one, "needed, and save=False keeps no result")
        return plain or self._gather(one)

    def _compute_key(self, one: StepRun, recipe: Recipe) -> str | None:
        """Set the key of a step, or say why there is none."""
        try:
            one.inputs = self._inputs.contributions(one, recipe)
        except KeyFailure as problem:
            return recipe.failure or str(problem)
        one.key = recipe.key_of(one.inputs)
        return recipe.failure

    def _admit(self, one: StepRun) -> bool:
        """Tell whether a step's inputs let it go on; where not, skip or block it."""
        nodes = self.nodes
        if type(one) is StepRun:
            for index in one.node.sources:
                if nodes[index].outcome != KNOWN:
                    break
            else:
                return True
        failed: TraceNode | None = None
        for binding in one.node.bindings:
            for source in self._inputs.sources(one, binding):
                outcome = source.outcome
                if outcome == SKIPPED and binding.default is MISSING:
                    self._skip(one, f"{source.id!r} was skipped")
                    return False
                if outcome == FAILED:
                    failed = failed or source
        for index in one.node.after:
            if nodes[index].outcome == FAILED:
                failed = failed or nodes[index]
        if failed is not None:
            self._block(one, failed)
            return False
        return True

    def _skip(self, one: StepRun, why: str) -> None:
        one.status = "skipped"
        one.why = why
        one.outcome = SKIPPED
        if self.on_change is not None:
            self.on_change("status", one)
        self._settling.append(one)

    def _wanted_by_when(self, one: StepRun) -> bool:
        declaration = one.node.declaration
        if declaration.when is None:
            return True
        try:
            if declaration.when(**self._inputs.some_arguments(one, declaration.when_parameters)):
                return True
        except Exception as error:
            self.active += 1
            self.fail(one, error)
            return False
        self._skip(one, "when said no")
        return False

    # -- Unsaved steps: run only if somebody that must run asks for the value.

    def _be_lazy(self, one: StepRun, why: str) -> bool:
        one.lazy = True
        one.why = one.why or why
        one.contribution = key_contribution(cast(str, one.key))
        if one.outcome == PENDING:
            one.outcome = KNOWN
            self._settling.append(one)
        if one.wanted or (one.order >> 40) in self._targets:
            one.wanted = True
            return self._gather(one)
        return False

    def _gather(self, one: StepRun) -> bool:
        """Ask for the values that a step lacks; tell whether they are all there."""
        if type(one) is StepRun:
            nodes = self.nodes
            for index in one.node.sources:
                if nodes[index].value is NOTHING:
                    break
            else:
                return True
        for source in self._inputs.lacking(one):
            if source.status in _LOST:
                self._block(one, source)
                return False
            self._wait_for(source, one)
            one.missing += 1
            self._ask(source)
            if one.status == "blocked":
                return False
        return not one.missing

    @staticmethod
    def _wait_for(source: StepRun, waiter: AnyRun) -> None:
        if source.waiters is None:
            source.waiters = []
        source.waiters.append(waiter)

    def _ask(self, source: StepRun) -> None:
        """Have an unsaved step run, and the unsaved ones that it needs, without recursion."""
        asked = [source]
        while asked:
            one = asked.pop()
            if one.wanted:
                continue
            one.wanted = True
            if not one.lazy:
                continue
            lacking = self._inputs.lacking(one)
            lost = next((other for other in lacking if other.status in _LOST), None)
            if lost is not None:
                self._block(one, lost)
                continue
            for other in lacking:
                self._wait_for(other, one)
            one.missing = len(lacking)
            asked += lacking
            if not lacking:
                heappush(self._startable, (one.order, one))

    def _value_came(self, waiter: StepRun) -> None:
        waiter.missing -= 1
        if waiter.missing or waiter.status != "queued":
            return
        heappush(self._startable if waiter.rendered else self._ready, (waiter.order, waiter))

    # -- Arguments that a step changed.

    def check_arguments(self, one: StepRun) -> None:
        """
        Notice where a step changed what it was given, and keep the change from others.

        A result that only this step takes is let go: who asks for it later gets what was saved.

        Raises:
            ResultWarning: Where warnings are errors.
        """
        if type(one) is StepRun:
            nodes = self.nodes
            for index in one.node.sources:
                if type(nodes[index].value) not in _IMMUTABLE:
                    break
            else:
                return
        for source in self._inputs.behind(one):
            for instance in source.instances():
                self._check_result(one, instance)

    def _check_result(self, one: StepRun, source: StepRun) -> None:
        entry = source.entry
        if entry is None or source.value is NOTHING or type(source.value) in _IMMUTABLE:
            return
        if source.consumers <= 1:
            source.value = NOTHING
            return
        codec = source.node.codec
        try:
            now: bytes | None = codec.encode(source.value)
        except Inexact:
            now = None
        if now is not None and source.contribution == source.recipe.result_contribution(digest(now)):
            return
        source.value = NOTHING
        text = (
            f"step {_name(one)} changed its argument, the result of step {_name(source)}. "
            "Steps that take it later get the saved value; return a changed copy instead"
        )
        one.add_note(text)
        self._warn(one, text)

    # -- The end, and looking from outside.

    def close(self) -> None:
        """Name what became of the steps that did not get to run."""
        for node in self.nodes:
            if isinstance(node, StepRun):
                self._close(node)
                continue
            for one in node.members or ():
                self._close(one)
            if node.status not in SETTLED and node.members is not None:
                failed = any(one.status == "failed" for one in node.members)
                node.status = "failed" if failed else "aborted"
            elif node.status not in SETTLED:
                self._close_lost(node)

    def _close(self, one: StepRun) -> None:
        if one.status in ("running", "waiting"):
            one.status = "aborted"
            one._finished = perf_counter()
            if self.on_change is not None:
                self.on_change("status", one)
        elif one.status == "queued" and one.lazy and not one.wanted:
            one.status = "unneeded"
            one.why = "unsaved, and nobody needed it"
            if self.on_change is not None:
                self.on_change("status", one)
        elif one.status == "queued":
            self._close_lost(one)

    def _close_lost(self, one: AnyRun) -> None:
        for index in one.node.sources:
            source = self.nodes[index]
            if source.status in _LOST:
                one.status = "blocked"
                one.why = _blocked_by(source)
                if self.on_change is not None:
                    self.on_change("status", one)
                return

    def trace_nodes(self) -> list[TraceNode]:
        """The nodes in graph order, instances in place of the step they belong to."""
        found: list[TraceNode] = []
        for one in self.nodes:
            if isinstance(one, Family) and one.members is not None:
                found.extend(one.members)
            else:
                found.append(one)
        return found

    def find(self, id: str) -> TraceNode | None:  # noqa: A002 - the contract's word
        """Find a step, an instance or an ``each`` step by id."""
        return self._by_id.get(id)

    def rank(self, id: str) -> float:  # noqa: A002 - the contract's word
        """Say where in a snapshot an entry stands that this run has not finished."""
        found = self._by_id.get(id)
        if found is not None:
            return found.order
        found = self._by_id.get(base_id(id))
        return float("inf") if found is None else found.order + (1 << 40) - 1

    def results(self) -> dict[str, Any]:
        """Every result by id: an ``each`` step's as a list, and each of its instances'."""
        found: dict[str, Any] = {}
        for one in self.nodes:
            if one.status != "done":
                continue
            if isinstance(one, StepRun):
                found[one.id] = one.get()
            elif one.has_value:
                found[one.id] = one.get()
                for member in one.members or ():
                    if member.status == "done":
                        found[member.id] = member.get()
        return found

    def target_result(self) -> Any:
        """The result of a single target, or a tuple in target order; None for one that was skipped."""
        found = []
        for index in self.graph.targets:
            one = self.nodes[index]
            found.append(None if one.outcome == SKIPPED or not one.has_value else one.get())
        return found[0] if self.graph.single else tuple(found)

    def tell(self, what: str, one: TraceNode) -> None:
        """Tell whoever watches that something changed."""
        if self.on_change is not None:
            self.on_change(what, one)


_NONE: list[int] = []
"""Stands for the dependents of the many nodes that have none."""


def _name(one: AnyRun) -> str:
    return f"{one.id!r} ({one.node.declaration.place})"


def _blocked_by(one: TraceNode) -> str:
    return f"blocked by {one.id!r}, which {'failed' if one.status == 'failed' else 'was ' + one.status}"


def _input_contributions(inputs: Mapping[str, Any], session: Fingerprinter) -> dict[str, bytes]:
    """Hash the run's inputs, before anything starts."""
    found: dict[str, bytes] = {}
    for name, value in inputs.items():
        advice = f"If it is an object to work with rather than a value, pass resources={{{name!r}: ...}}."
        try:
            fingerprint = session.value(value)
        except KeyFailure as failure:
            raise InputError(f"input {name!r} cannot be part of a cache key: {failure}. {advice}") from None
        if fingerprint.opaque:
            seen = fingerprint.opaque[0]
            raise InputError(
                f"input {name!r} cannot be part of a cache key: june cannot see into {seen}. {advice}"
            )
        found[name] = fingerprint.digest
    return found
