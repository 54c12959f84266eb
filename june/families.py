"""
Families: how the ``each`` steps of a run get their instances, and what becomes of them together.

A family that runs over the results of another is chained to it: both get their instances at the same
moment, with the same labels, and each instance waits only for its counterpart. What else a family's
parameters take from is its gate: no instance renders before it is open, and if something behind it was
skipped or lost, so is the whole family, whatever its items are.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from june._signatures import MISSING
from june._text import add_note, message_of
from june.errors import InputError
from june.fanout import Labels, items_of
from june.graphs import Binding
from june.inputs import IMMUTABLE, Inputs
from june.queues import Queues
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
)
from june.traces import LOST, NOTHING, SETTLED, Status, TraceNode


class Host(Protocol):
    """What families ask of the run that they are in."""

    nodes: Sequence[AnyRun]
    dependents: Sequence[Sequence[int]]
    by_id: dict[str, AnyRun]
    inputs: Inputs
    queues: Queues

    def tell(self, what: str, one: TraceNode, text: str | None = None) -> None: ...
    def settled(self, one: AnyRun) -> None: ...
    def is_overridden(self, one: StepRun) -> bool: ...
    def skip(self, one: StepRun, why: str) -> None: ...
    def block(self, one: StepRun, by: TraceNode) -> None: ...
    def note_failure(self, one: TraceNode) -> None: ...
    def ask(self, source: AnyRun, waiter: AnyRun) -> None: ...
    def release_waiters(self, one: AnyRun) -> None: ...


def blocked_by(one: TraceNode) -> str:
    """Say why a step is blocked."""
    return f"blocked by {one.id!r}, which {'failed' if one.status == 'failed' else 'was ' + one.status}"


def _private_items(source: Any) -> Any:
    """Copy what a run was given where instances could change items that others take too."""
    items = source.values() if isinstance(source, Mapping) else source
    if isinstance(source, Collection) and any(type(item) not in IMMUTABLE for item in items):
        try:
            return copy.deepcopy(source)
        except Exception:  # what cannot be copied is shared, as it would be without June
            return source
    return source


def lost_sources(sources: Sequence[AnyRun]) -> tuple[AnyRun | None, AnyRun | None]:
    """Find the first of a parameter's sources that was skipped, and the first that failed or was blocked."""
    skipped = next((source for source in sources if source.outcome == SKIPPED), None)
    failed = next((source for source in sources if source.outcome == FAILED), None)
    return skipped, failed


class Families:
    """The ``each`` steps of one run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._checked: dict[Family, tuple[Sequence[str], Sequence[Any]]] = {}

    # -- The beginning.

    def close_gates(self, family: Family) -> None:
        """Note what holds all instances of a family back, before any family has instances."""
        item = cast(Binding, family.node.item)
        gated_by = {index for one in family.node.bindings if one is not item for index in one.steps()}
        if type(item.source) is int and isinstance(self._host.nodes[item.source], StepRun):
            # Its items are only known once it is over, so as a gate it would be open.
            gated_by.discard(item.source)
        family.gated_by = frozenset(gated_by)
        family.gate = len(gated_by)

    def check(self, family: Family, given: Mapping[str, Any]) -> None:
        """
        Check that a family can run over what the run was given for it.

        Raises:
            InputError: If not.
        """
        source = cast(Binding, family.node.item).source
        if type(source) is str:
            try:
                self._checked[family] = self._items(family, _private_items(given[source]))
            except BaseException as error:
                # A label function may raise anything.
                where = f"step {family.id!r} ({family.node.declaration.place})"
                text = message_of(error) or type(error).__name__
                raise InputError(f"input {source!r}, which {where} runs over: {text}") from error

    def begin(self, family: Family) -> None:
        """Make the instances of a family that runs over something that the run was given, and was checked."""
        source = cast(Binding, family.node.item).source
        if type(source) is str:
            self._make(family, *self._checked.pop(family))

    # -- What happens to sources.

    def source_settled(self, family: Family, source: AnyRun) -> None:
        """A step that a family takes from has an outcome."""
        if family.status in SETTLED:
            return
        if source.order >> 40 in family.gated_by:
            family.gate -= 1
            if not family.gate:
                self._open(family)
        elif isinstance(source, StepRun):
            self.items_came(family, source)

    def items_came(self, family: Family, source: StepRun) -> None:
        """The step whose items a family runs over has an outcome, or a value."""
        if family.status in SETTLED or family.members is not None:
            return
        if not family.gate and not self._goes_on(family):
            return
        if source.outcome == KNOWN and source.has_value:
            self._expand(family, source.get())
            if source.entry is not None:
                # The items are this family's now; who else takes the result gets it as it was saved.
                source.value = NOTHING
        elif not family.gate:
            # What is not saved runs for its items only once nothing else can skip or block the family.
            self._host.ask(source, family)

    def _open(self, family: Family) -> None:
        if not self._goes_on(family):
            return
        for one in family.members or ():
            self._one_less(one)
        self._settle_if_empty(family)
        source = self._item_source(family)
        if isinstance(source, StepRun) and source.outcome != PENDING:
            self.items_came(family, source)

    def _item_source(self, family: Family) -> AnyRun | None:
        """The step whose items a family runs over; None where the run was given them."""
        source = cast(Binding, family.node.item).source
        return self._host.nodes[source] if type(source) is int else None

    def _goes_on(self, family: Family) -> bool:
        """
        End a family whose gate is open if something behind it was skipped or lost; tell whether it goes on.

        A skip wins over a failure, whichever came first, so a failure counts only once all else is known.
        """
        ended = self._ends_with(family)
        if ended is None:
            return True
        status, source = ended
        over = self._item_source(family)
        if status == "skipped" or over is None or over.outcome != PENDING:
            self.end(family, status, source)
        return False

    def _ends_with(self, family: Family) -> tuple[Status, AnyRun] | None:
        """Find what ends a family without instances running, going by what is known now."""
        lost: AnyRun | None = None
        for binding in family.node.bindings:
            if binding is family.node.item:
                continue
            skipped, failed = lost_sources([self._host.nodes[index] for index in binding.steps()])
            if skipped is None:
                lost = lost or failed
            elif binding.default is MISSING:
                return "skipped", skipped
        over = self._item_source(family)
        if over is not None and over.outcome == SKIPPED:
            return "skipped", over
        # Where only some instances of a family failed, those of one chained to it are blocked one by one.
        if (isinstance(over, StepRun) and over.status in LOST) or (isinstance(over, Family) and over.ended):
            lost = lost or over
        return None if lost is None else ("blocked", lost)

    def _one_less(self, one: InstanceRun) -> None:
        one.remaining -= 1
        if not one.remaining and one.status == "queued":
            self._host.queues.add_ready(one)

    # -- Making instances.

    def _expand(self, family: Family, source: Any) -> None:
        """Make the instances of a family from the items it runs over."""
        try:
            labels, of = self._items(family, source)
        except BaseException as raised:
            error = as_failure(family, raised)
            family.error = error
            add_note(error, f"in step {family.id!r} ({family.node.declaration.place}), finding its items")
            self._host.note_failure(family)
            self.end(family, "failed", family)
            return
        self._make(family, labels, of)

    def _items(self, family: Family, source: Any) -> tuple[Sequence[str], Sequence[tuple[Any, bytes | None]]]:
        """Spell out what a family runs over: labels, and items with what they add to a key."""
        keys, items = items_of(source)
        contributions = [self._host.inputs.contribution(item) for item in items]
        labels = Labels(family.id, family.node.declaration.label).of(keys, items, contributions)
        return labels, list(zip(items, contributions, strict=True))

    def _make(self, family: Family, labels: Sequence[str], of: Sequence[Any]) -> None:
        """Make the instances of a family, and of those chained to it."""
        host = self._host
        making: list[tuple[Family, Sequence[Any]]] = [(family, of)]
        while making:
            family, of = making.pop()
            if family.status in SETTLED:
                continue
            waiting = (1 if family.gate else 0) + (1 if of and isinstance(of[0], StepRun) else 0)
            family.members = [
                InstanceRun(family, number, label, item)
                for number, (label, item) in enumerate(zip(labels, of, strict=True))
            ]
            family.unsettled = len(family.members)
            family.status = "running"
            for one in family.members:
                host.by_id[one.id] = one
                one.consumers = family.consumers
                one.remaining = waiting
                if not host.is_overridden(one) and not waiting:
                    host.queues.add_ready(one)
            making += [(chained, family.members) for chained in self._chained(family)]
            self._settle_if_empty(family)

    def _chained(self, family: Family) -> Iterator[Family]:
        """The families that run over the results of *family*, item by item."""
        index = family.order >> 40
        for behind in self._host.dependents[index]:
            dependent = self._host.nodes[behind]
            if isinstance(dependent, Family) and cast(Binding, dependent.node.item).source == index:
                yield dependent

    # -- The end.

    def instance_settled(self, one: InstanceRun) -> None:
        """An instance has an outcome."""
        family = one.family
        for chained in self._chained(family):
            if chained.members is not None:
                self._one_less(chained.members[one.number])
        family.unsettled -= 1
        if not family.unsettled:
            self._settle(family)

    def _settle_if_empty(self, family: Family) -> None:
        """Settle a family that has no instances, once it is known that nothing skips or blocks it whole."""
        if family.members is None or family.members or family.gate:
            return
        over = self._item_source(family)
        if not isinstance(over, Family) or over.status in SETTLED:
            self._settle(family)

    def _settle(self, family: Family) -> None:
        settling = [family]
        while settling:
            family = settling.pop()
            if family.status in SETTLED:
                continue
            failed = any(one.outcome == FAILED for one in family.members or ())
            family.outcome = FAILED if failed else KNOWN
            family.status = "failed" if failed else "done"
            family.resumed = bool(family.members) and all(one.resumed for one in family.members or ())
            self._host.settled(family)
            self._host.release_waiters(family)
            for chained in self._chained(family):
                # It may have waited to see whether this one is skipped before a failure counts.
                goes_on = not chained.gate and chained.status not in SETTLED and self._goes_on(chained)
                if goes_on and not family.members and chained.members is not None:
                    settling.append(chained)

    def _end_members(self, family: Family, source: TraceNode) -> None:
        """End the instances of a family that ends as a whole, of which none has begun."""
        host = self._host
        over = self._item_source(family)
        while isinstance(over, Family):
            over = self._item_source(over)
        if over is not None:
            # Whether the step with the items was done by then depends on the schedule.
            for one in family.members or ():
                del host.by_id[one.id]
            family.members = None
        for one in family.members or ():
            if one.status != "queued":
                continue
            if family.status == "skipped":
                host.skip(one, cast(str, family.why))
            else:
                host.block(one, source)

    def end(self, family: Family, status: Status, source: TraceNode) -> None:
        """A family ends without running, and so do those chained to it that nothing holds back."""
        host = self._host
        ended: list[tuple[Family, Status, TraceNode]] = [(family, status, source)]
        while ended:
            family, status, source = ended.pop()
            if family.status in SETTLED:
                continue
            family.status = status
            family.ended = True
            family.outcome = SKIPPED if status == "skipped" else FAILED
            if family is not source:
                family.why = f"{source.id!r} was skipped" if status == "skipped" else blocked_by(source)
            host.tell("status", family)
            self._end_members(family, source)
            host.settled(family)
            host.release_waiters(family)
            for chained in self._chained(family):
                found = self._ends_with(chained)
                if found is not None and (found[0] == "skipped" or not chained.gate):
                    ended.append((chained, *found))
