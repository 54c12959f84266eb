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

import gc
import warnings as python_warnings
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from time import perf_counter, time
from typing import Any, cast

from june._digests import digest
from june._signatures import MISSING
from june._text import add_note
from june.codec import Inexact
from june.entries import Finished
from june.errors import ResultError, ResultWarning, SnapshotError
from june.families import Families, blocked_by, lost_sources
from june.fingerprints import Fingerprinter, KeyFailure
from june.graphs import Graph
from june.inputs import IMMUTABLE, Inputs
from june.journals import Journal
from june.keys import Recipe, key_contribution
from june.ledgers import Ledger
from june.mutations import Mutations
from june.options import Options
from june.outcomes import Outcomes
from june.queues import Queues
from june.reuse import Reuse
from june.snapshots import EMPTY
from june.stepruns import (
    FAILED,
    KNOWN,
    PENDING,
    SKIPPED,
    AnyRun,
    Family,
    InstanceRun,
    StepRun,
    as_failure,
    name_of,
)
from june.steps import Declaration, Kind
from june.traces import LOST, NOTHING, SETTLED, Status, Talk, TraceNode

PAUSE: Any = type("Pause", (), {"__repr__": lambda self: "PAUSE"})()
"""What `Run.next` returns when it has rendered for a while and others should have a turn."""

_RENDER_SECONDS = 0.01


class Run:
    """
    The state of one run.

    Attributes:
        nodes: For each node of the graph, the step (or ``each`` step) in this run.
        ledger: What a snapshot is taken from.
        outcomes: What can be seen of the run from outside.
        failures: The steps that failed, in the order in which they did.
        active: Steps that have begun and not ended, waits between two attempts included.
        stopping: Whether nothing new may be rendered or started.
        cancelled: Whether everything that runs is being cancelled.
        told: Steps that have asked whether that is so, and been told.
        on_change: Called with what changed, its node, and the text of a note; or None.
        journal: Where what finishes is written before anybody hears of it, or None.
        unwritten: Why something could not be written there, or None.
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
        self.failures: list[TraceNode] = []
        self.active = 0
        self.stopping = False
        self.cancelled = False
        self.told: set[StepRun] = set()
        self.on_change: Callable[[str, TraceNode, str | None], None] | None = None
        self.journal: Journal | None = None
        self.unwritten: SnapshotError | None = None
        self.queues = Queues(options.concurrency, options.limits)
        self._settling: deque[AnyRun] = deque()
        # Whether anything was skipped or lost yet; before, a step that can render has all its inputs.
        self._some_lost = False
        # Why the result that is about to be taken cannot be trusted, or None.
        self._tainted: Inexact | None = None
        self._targets = frozenset(graph.targets)
        # Kinds of steps that have to get ready before anything begins.
        self.unprepared: list[Kind] = []
        session = Fingerprinter()
        contributions = options.input_contributions(session)
        self.nodes = self._lay_out(session)
        self.dependents = graph.dependents
        self.by_id: dict[str, AnyRun] = {one.id: one for one in self.nodes}
        self.outcomes = Outcomes(graph, self.nodes, self.by_id)
        self.ledger = Ledger(EMPTY if self.base is None else self.base.contents, self.outcomes.rank)
        self._reuse = Reuse(self.base, self.ledger, options.refresh)
        options.check_ids(self.by_id)
        self.inputs = Inputs(self.nodes, {**options.inputs, **options.resources}, contributions, session)
        self._mutations = Mutations(graph, self.inputs)
        self._families = Families(self)
        given = {**options.inputs, **options.resources}
        for one in self.nodes:
            if isinstance(one, Family):
                self._families.check(one, given)

    def _lay_out(self, session: Fingerprinter) -> Sequence[AnyRun]:
        """Make a `StepRun` or `Family` for each node."""
        nodes: list[AnyRun] = []
        overrides = self.options.overrides
        consumers = self.graph.consumers
        recipes: dict[Declaration, Recipe] = {}
        # All that is made here stays in use, and the collector would look through it over and over.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for index, node in enumerate(self.graph.nodes):
                declaration = node.declaration
                recipe = recipes.get(declaration)
                if recipe is None:
                    self.options.check_limit(node)
                    recipe = recipes[declaration] = Recipe(node, session)
                    if declaration.kind.reads_values and node.step.id not in overrides:
                        self.unprepared.append(declaration.kind)
                new: AnyRun
                if node.item is None or node.step.id in overrides:
                    new = StepRun(self, node, recipe, node.step.id, index << 40)
                    new.remaining = len(node.sources)
                else:
                    new = Family(self, node, recipe, index << 40)
                new.consumers = consumers[index]
                nodes.append(new)
        finally:
            if collecting:
                gc.enable()
        return nodes

    def begin(self) -> None:
        """Settle what stands in for steps, and find the steps that nothing holds up."""
        needed = self._needed() if self.options.overrides else None
        families = []
        for index, one in enumerate(self.nodes):
            if needed is not None and index not in needed:
                one.status = "unneeded"
            elif isinstance(one, Family):
                self._families.close_gates(one)
                families.append(one)
            elif needed is not None and self.is_overridden(one):
                pass
            elif not one.remaining:
                self.queues.add_first(one)
        for family in families:
            self._families.begin(family)
        self._settle()

    def _needed(self) -> set[int]:
        """Find the nodes that the targets need when overrides stand in for some."""
        found = set(self._targets)
        queue = list(found)
        while queue:
            node = self.graph.nodes[queue.pop()]
            if node.step.id in self.options.overrides:
                continue
            for source in (*node.sources, *node.after):
                if source not in found:
                    found.add(source)
                    queue.append(source)
        return found

    def is_overridden(self, one: StepRun) -> bool:
        """Settle a step that a value stands in for; tell whether it is one."""
        if one.id not in self.options.overrides:
            return False
        one.value = self.options.overrides[one.id]
        one.status = "done"
        one.outcome = KNOWN
        one.why = "stood in for by overrides"
        one.contribution = self._exact_contribution(one, one.value)
        self._settling.append(one)
        return True

    def _exact_contribution(self, one: StepRun, value: Any) -> bytes | None:
        """Give what a value that is in no snapshot adds to a key: itself, if it can be encoded exactly."""
        try:
            return one.recipe.result_contribution(digest(one.node.codec.encode(value)))
        except Inexact:
            return self.inputs.contribution(value)

    # -- What the executor asks.

    def next(self) -> Any:
        """
        Find the next step to start, rendering in graph order until there is one.

        Returns:
            A `StepRun` that holds a slot and whose values are all there; None if there is nothing to do
            before something that is under way has ended; or `PAUSE`.
        """
        queues = self.queues
        count = 0
        until = 0.0
        while not self.stopping:
            one = queues.pop()
            if one is None or one.rendered:
                return one
            if self._render(one) and queues.start(one):
                if self._settling:
                    self._settle()
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
        return not self.stopping and self.queues.has_work

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing is left to do."""
        return not self.active and (self.stopping or self.queues.empty)

    def begin_attempt(self, one: StepRun) -> None:
        """Note that *one*, which holds a slot, starts now."""
        one.attempts += 1
        if one.attempts == 1:
            self.active += 1
            one._started = perf_counter()
            one._wall = time()
        one.status = "running"
        if self.on_change is not None:
            self.on_change("status", one, None)

    def arguments(self, one: StepRun) -> Mapping[str, Any]:
        """
        Collect the values of a step's parameters.

        Raises:
            SnapshotError: If a saved result does not decode after all.
        """
        arguments = self.inputs.arguments(one)
        self._mutations.begin(one)
        return arguments

    def check_arguments(self, one: StepRun) -> None:
        """
        Notice where an attempt at a step changed what it was given, and keep the change from others.

        What the attempt gives is taken by `finish` or `fail` right after.

        Raises:
            ResultWarning: Where warnings are errors.
        """
        warnings, self._tainted = self._mutations.check(one)
        for text in warnings:
            one.add_note(text)
            self._warn(one, text)

    # -- How a step ended.

    def finish(self, one: StepRun, value: Any) -> None:
        """Take the result of an attempt: save it if it can be, and let those that wait for it go on."""
        finished = one._finished = perf_counter()
        one.value = value
        tainted, self._tainted = self._tainted, None
        key = one.key
        if key is None:
            one.contribution = self._exact_contribution(one, value)
        elif one.node.declaration.save:
            try:
                if tainted is not None:
                    raise tainted
                data = one.node.codec.encode(value)
            except Inexact as inexact:
                problem = self._unsaved(one, key, inexact)
                if problem is not None:
                    self.fail(one, problem)
                    return
                if self.journal is not None and not self._is_written(one, None):
                    return
            else:
                seconds = finished - one._started
                one.entry = entry = Finished(
                    one.id,
                    one.order >> 40,
                    key,
                    data,
                    None,
                    one.recipe,
                    one.inputs,
                    one._wall + seconds,
                    seconds,
                    "" if one.talk is None else one.talk.meta(),
                )
                if one.lazy:
                    self._saved_after_all(one)
                if type(value) not in IMMUTABLE:
                    # Others may hold on to the object, or parts of it. What was saved is what counts.
                    one.value = NOTHING
                self.ledger.finish(entry)
                if self.journal is not None and not self._is_written(one, entry):
                    return
        self._done(one)

    def _is_written(self, one: StepRun, entry: Finished | None) -> bool:
        """
        Have a step's line written, before the step is done.

        Args:
            one: The step.
            entry: Its entry, or None if its result could not be saved.

        Returns:
            Whether the line is in the journal. If not, `written` is called once it is, or cannot be.
        """
        assert self.journal is not None  # the caller has looked
        try:
            if entry is not None:
                return self.journal.finish(one, entry)
            return self.journal.unsaved(one, one.id, cast(str, one.key))
        except SnapshotError as problem:
            self.written(one, problem)
            return False

    def written(self, one: StepRun, problem: SnapshotError | None) -> None:
        """Go on with a step whose line has been written, or could not be."""
        if problem is None:
            self._done(one)
            return
        # What it gave is in the ledger, and will be in the snapshot that the run's error carries.
        self.note_unwritten(problem)
        one.why = f"finished, but {problem}"
        self._end(one, "aborted")

    def note_unwritten(self, problem: SnapshotError) -> None:
        """Start nothing more: what finishes can be kept no longer."""
        self.unwritten = self.unwritten or problem
        self.stopping = True

    def _done(self, one: StepRun) -> None:
        self.active -= 1
        one.status = "done"
        self._deliver(one)
        if self._settling:
            self._settle()

    def _unsaved(self, one: StepRun, key: str, inexact: Inexact) -> Exception | None:
        """A result cannot be saved: warn, or give the error that the step is to fail with."""
        problem = self._warned(
            one,
            f"step {name_of(one)} finished, but its result is not saved: "
            f"{inexact.path} {inexact.problem}. {inexact.cure}",
        )
        if problem is not None:
            return problem
        one.contribution = key_contribution(key)
        if not self._reuse.could_not_save(one):
            self.ledger.unsaved(one.id, key)
        one.add_note(f"not saved: {inexact.path} {inexact.problem}")
        return None

    def _warned(self, one: StepRun, text: str) -> Exception | None:
        """Warn of what is not saved, or give the error that the step is to fail with."""
        if self.options.strict:
            return ResultError(text)
        try:
            self._warn(one, text)
        except ResultWarning as warning:
            # Warnings are errors here, as under pytest -W error.
            return warning
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
        python_warnings.warn_explicit(text, ResultWarning, place.path, place.line)

    def _deliver(self, one: StepRun) -> None:
        """Tell watchers, and those that wait for the value, that *one* is done."""
        if self.on_change is not None:
            self.on_change("status", one, None)
        if one.waiters is not None:
            self.release_waiters(one)
        if one.outcome == PENDING:
            one.outcome = KNOWN
            if type(one) is InstanceRun or self.dependents[one.order >> 40]:
                self._settling.append(one)

    def release_waiters(self, one: AnyRun) -> None:
        """Tell those that wait for *one* that it has a value, or has ended without."""
        waiters, one.waiters = one.waiters or (), None
        for waiter in waiters:
            if isinstance(waiter, Family):
                self._families.items_came(waiter, cast(StepRun, one))
            elif one.outcome == FAILED:
                self.block(waiter, one)
            else:
                self._came(waiter)

    def _came(self, waiter: StepRun) -> None:
        """One of the things that a step waits for is there."""
        if waiter.status != "queued":
            return
        waiter.missing -= 1
        if waiter.missing:
            return
        if not waiter.rendered:
            self.queues.add_ready(waiter)
        elif self._gather(waiter):
            self.queues.add_startable(waiter)

    def fail(self, one: StepRun, error: BaseException, status: Status = "failed") -> None:
        """
        Take the failure of a step, its retries included.

        Args:
            one: The step.
            error: What it raised.
            status: ``failed``, or ``aborted`` if it was cancelled.
        """
        one._finished = perf_counter()
        self._tainted = None
        one.error = error
        if status == "failed":
            add_note(error, f"in step {name_of(one)}")
            self.note_failure(one)
        self._end(one, status)

    def _end(self, one: StepRun, status: Status) -> None:
        """End a step that no value comes of."""
        self.active -= 1
        one.value = NOTHING
        one.status = status
        if self.on_change is not None:
            self.on_change("status", one, None)
        self._lose(one)
        self._settle()

    def note_failure(self, one: TraceNode) -> None:
        """Count a failure, and stop if the run is to."""
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
                    self._families.items_came(waiter, source)
                elif waiter.status == "queued":
                    self._mark_blocked(waiter, source)
                    lost.append(waiter)
            if source.outcome == PENDING:
                source.outcome = FAILED
                self._some_lost = True
                self._settling.append(source)

    def _mark_blocked(self, one: StepRun, by: TraceNode) -> None:
        one.status = "blocked"
        one.missing = 0
        one.why = blocked_by(by)
        if self.on_change is not None:
            self.on_change("status", one, None)

    def block(self, one: StepRun, by: TraceNode) -> None:
        """End a step that has not run because of one that was lost."""
        if one.status == "queued":
            self._mark_blocked(one, by)
            self._lose(one)

    def skip(self, one: StepRun, why: str) -> None:
        """End a step that is not to run."""
        one.status = "skipped"
        one.why = why
        one.outcome = SKIPPED
        self._some_lost = True
        if self.on_change is not None:
            self.on_change("status", one, None)
        self._settling.append(one)
        if one.waiters is not None:
            self.release_waiters(one)

    # -- Settling: those behind a step learn that its outcome is known.

    def settled(self, one: AnyRun) -> None:
        """Have those that take from *one* learn, soon, that its outcome is known."""
        if one.outcome != KNOWN:
            self._some_lost = True
        self._settling.append(one)

    def _settle(self) -> None:
        """Work through what has an outcome, without recursion: chains of 100,000 skips are ordinary."""
        settling = self._settling
        nodes = self.nodes
        dependents = self.dependents
        add_ready = self.queues.add_ready
        while settling:
            one = settling.popleft()
            if isinstance(one, InstanceRun):
                self._families.instance_settled(one)
                continue
            for index in dependents[one.order >> 40]:
                dependent = nodes[index]
                if isinstance(dependent, Family):
                    self._families.source_settled(dependent, one)
                    continue
                remaining = dependent.remaining = dependent.remaining - 1
                if not remaining and dependent.status == "queued":
                    add_ready(dependent)

    # -- Rendering.

    def _render(self, one: StepRun) -> bool:
        """
        Compute a step's key and look for a saved result.

        Returns:
            Whether the step must run and can start: it was not found, and all that it waits for is there.
        """
        node = one.node
        recipe = one.recipe
        if self._some_lost and node.bindings and not self._admit(one):
            return False
        if recipe.needs_values:
            if not self._ask_first(one, recipe):
                return False
            if node.declaration.kind.reads_values:
                rendered = self._render_prompt(one, recipe)
                if rendered is None:
                    return False
                recipe = one.recipe = rendered
        if not node.bindings and recipe.vary is None:
            one.key = recipe.key
            failure = recipe.failure
        else:
            failure = self._compute_key(one, recipe)
        one.rendered = True
        if failure is not None:
            one.key = None
            one.why = f"no cache key: {failure}"
            self._reuse.drop(one)
            return self._may_go_unsaved(one) and self._gather(one)
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
        return not (node.sources or node.after) or self._gather(one)

    def _may_go_unsaved(self, one: StepRun) -> bool:
        """Warn, before it is paid for, of a step whose result will not be saved; tell whether it may run."""
        if not one.node.declaration.save:
            return True
        problem = self._warned(one, f"the result of step {name_of(one)} is not saved: it has {one.why}")
        if problem is None:
            return True
        self.active += 1
        self.fail(one, problem)
        return False

    def _ask_first(self, one: StepRun, recipe: Recipe) -> bool:
        """Ask ``when``, and get the values that the key needs; tell whether the key can be computed now."""
        declaration = one.node.declaration
        if declaration.when is not None and not one.let_in:
            wanted = frozenset(declaration.when_parameters)
            if not (self._gather(one, wanted) and self._wanted_by_when(one, wanted)):
                return False
            one.let_in = True
        if declaration.kind.reads_values:
            # Its function is about to be called.
            return self._gather(one)
        return recipe.vary is None or self._gather(one, frozenset(declaration.vary_parameters))

    def _render_prompt(self, one: StepRun, recipe: Recipe) -> Recipe | None:
        """Have a step say what it asks for; give the recipe that this makes, or None if it raised."""
        node = one.node
        kind = node.declaration.kind
        try:
            arguments = self.arguments(one)
            try:
                talk = kind.render(node.declaration, arguments, node.codec, self.inputs.session)
            finally:
                self.check_arguments(one)
                self._tainted = None
        except BaseException as raised:
            self.active += 1
            self.fail(one, as_failure(one, raised))
            return None
        one.talk = Talk(talk)
        # A bound copy's own recipe is shared with others; what was rendered is this one's.
        return recipe.rendered(kind.name, talk.parts, talk.rows, talk.failure, talk.notes)

    def _wanted_by_when(self, one: StepRun, parameters: Container[str]) -> bool:
        when = one.node.declaration.when
        assert when is not None  # the caller has looked
        try:
            if when(**self.inputs.arguments(one, parameters)):
                return True
        except BaseException as raised:
            self.active += 1
            self.fail(one, as_failure(one, raised))
            return False
        self.skip(one, "when said no")
        return False

    def _compute_key(self, one: StepRun, recipe: Recipe) -> str | None:
        """Set the key of a step, or say why there is none."""
        try:
            one.inputs = self.inputs.contributions(one, recipe)
        except KeyFailure as problem:
            return recipe.failure or str(problem)
        except BaseException as problem:
            # Whatever a __june_key__ or a user's container raises: no key, and never a partial one.
            return recipe.failure or f"{type(problem).__name__}: {problem}"
        one.key = recipe.key_of(one.inputs)
        return recipe.failure

    def _admit(self, one: StepRun) -> bool:
        """Tell whether a step's inputs let it go on; where not, skip or block it."""
        failed: TraceNode | None = None
        for binding in one.node.bindings:
            skipped, lost = lost_sources(self.inputs.sources(one, binding))
            if skipped is None:
                failed = failed or lost
            elif binding.default is MISSING:
                self.skip(one, f"{skipped.id!r} was skipped")
                return False
        if failed is not None:
            self.block(one, failed)
            return False
        return True

    # -- Waiting for values: an unsaved step runs only if somebody that must run asks for its value.

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

    def _gather(self, one: StepRun, names: Container[str] | None = None) -> bool:
        """
        Ask for what a step lacks, or for the values of some of its parameters; tell whether all is there.
        """
        if names is None and type(one) is StepRun and not one.node.after:
            nodes = self.nodes
            for index in one.node.sources:
                if nodes[index].value is NOTHING:
                    break
            else:
                return True
        asked: list[AnyRun] = []
        there = self._wait_for_lacking(one, names, asked)
        self._ask(asked)
        return there and one.status == "queued"

    def _wait_for_lacking(self, one: StepRun, names: Container[str] | None, asked: list[AnyRun]) -> bool:
        """Have *one* wait for each thing that it lacks, and note those; tell whether it lacks nothing."""
        lacking = self.inputs.lacking(one, names)
        lost = next((source for source in lacking if source.status in LOST), None)
        # Where one is lost the others are asked for all the same: which steps run must not depend on how
        # early that was.
        asked += lacking
        if lost is not None:
            self.block(one, lost)
            return False
        for source in lacking:
            self._wait(source, one)
        one.missing = len(lacking)
        return not lacking

    @staticmethod
    def _wait(source: AnyRun, waiter: AnyRun) -> None:
        if source.waiters is None:
            source.waiters = []
        source.waiters.append(waiter)

    def ask(self, source: AnyRun, waiter: AnyRun) -> None:
        """Have *waiter* wait for *source*, and have that run even if its result is not kept."""
        self._wait(source, waiter)
        self._ask([source])

    def _ask(self, asked: list[AnyRun]) -> None:
        """Have steps run even if their results are not kept, and what these need, without recursion."""
        while asked:
            one = asked.pop()
            if isinstance(one, Family) or one.wanted:
                continue
            one.wanted = True
            if one.lazy and one.status == "queued" and self._wait_for_lacking(one, None, asked):
                self.queues.add_startable(one)

    # -- The end.

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
        if one.status in ("running", "waiting") or (one.status == "queued" and one.attempts):
            one.status = "aborted"
            one._finished = perf_counter()
        elif one.status != "queued":
            return
        elif one.lazy and not one.wanted:
            one.status = "unneeded"
            one.why = "unsaved, and nobody needed it"
        else:
            self._close_lost(one)
            return
        self.tell("status", one)

    def _close_lost(self, one: AnyRun) -> None:
        for index in (*one.node.sources, *one.node.after):
            source = self.nodes[index]
            if source.status in LOST:
                one.status = "blocked"
                one.why = blocked_by(source)
                self.tell("status", one)
                return

    def tell(self, what: str, one: TraceNode, text: str | None = None) -> None:
        """Tell whoever watches that something changed."""
        if self.on_change is not None:
            self.on_change(what, one, text)
