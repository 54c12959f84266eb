"""
Steps in a run: where each one stands, and what it offers to those that take its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from june.codec import Undecodable
from june.entries import AnyEntry
from june.errors import SnapshotError, StepError
from june.graphs import Binding, GraphNode
from june.keys import Recipe, dict_contribution, list_contribution
from june.messages import Usage
from june.snapshots import Snapshot, why_missed
from june.traces import NOTHING, Talk, TraceNode

PENDING: Final = 0
"""A source that has not rendered yet, or whose contribution only its value will tell."""
KNOWN: Final = 1
"""A source whose contribution is known (or known not to exist); its value may be there or not."""
SKIPPED: Final = 2
"""A source that was skipped."""
FAILED: Final = 3
"""A source that failed, or was blocked, before its contribution was known."""


class Owner(Protocol):
    """What a step asks of the run that it is in."""

    base: Snapshot | None
    cancelled: bool
    told: set[StepRun]

    def tell(self, what: str, one: TraceNode, text: str | None = None) -> None:
        """Tell whoever watches that something changed."""


class StepRun(TraceNode):
    """
    One step, or one instance of an ``each`` step, in one run.

    Attributes:
        run: The run.
        node: The step's place in the graph.
        recipe: What of its key no input changes.
        order: Where it stands among all steps and instances: the index of its node, 40 bits up, and the
            number of the instance.
        outcome: `PENDING`, `KNOWN`, `SKIPPED` or `FAILED`: what those that take its result are to know.
        remaining: Sources that are still pending.
        missing: Values, and steps that it comes after, that it has asked for and waits for.
        let_in: Whether its ``when`` has been asked and said yes.
        lazy: Whether its result is not kept, so that it runs only if somebody asks for the value.
        wanted: Whether somebody has asked for the value.
        rendered: Whether its key is computed.
        waiters: Who waits for its value, or for its end.
        consumers: How many others take its result.
        key: Its cache key, or None before it rendered, or if none can be computed.
        inputs: What its inputs add to the key.
        value: Its result, or `NOTHING`; a resumed result is decoded when somebody asks.
        entry: What a snapshot holds of it, or None.
        talk: Of a prompt step, the prompt and what has come of it; else None.
    """

    __slots__ = (
        "consumers", "contribution", "entry", "inputs", "key", "lazy", "let_in", "missing", "node", "order",
        "outcome", "recipe", "remaining", "rendered", "run", "talk", "value", "waiters", "wanted", "why",
    )  # fmt: skip

    def __init__(self, run: Owner, node: GraphNode, recipe: Recipe, id: str, order: int) -> None:
        # Spelled out rather than through super(): a run makes one for each step, a million at times.
        self.id = id
        self.step = node.step.id
        self.status = "queued"
        self.resumed = False
        self.attempts = 0
        self.error = None
        self.progress = None
        self._started = self._finished = self._wall = 0.0
        self._notes = None
        self.run = run
        self.node = node
        self.recipe = recipe
        self.order = order
        self.outcome = PENDING
        self.remaining = 0
        self.missing = 0
        self.consumers = 0
        self.key: str | None = None
        self.inputs = b""
        self.value: Any = NOTHING
        self.entry: AnyEntry | None = None
        self.contribution: bytes | None = None
        self.lazy = False
        self.let_in = False
        self.wanted = False
        self.rendered = False
        self.waiters: list[AnyRun] | None = None
        self.why: str | None = None
        self.talk: Talk | None = None

    # -- What a trace shows.

    @property
    def kind(self) -> str:
        return self.node.declaration.kind.name

    @property
    def result(self) -> Any:
        return self.get() if self.status == "done" else None

    @property
    def model(self) -> str | None:
        return None if self.talk is None else self.talk.model

    @property
    def usage(self) -> Usage | None:
        return None if self.talk is None or not self.talk.usage.to_dict() else self.talk.usage

    @property
    def children(self) -> Sequence[TraceNode]:
        return () if self.talk is None else tuple(self.talk.parts)

    @property
    def reason(self) -> str | None:
        if self.why is not None or not self.rendered or self.resumed or not self.attempts:
            return self.why
        base = self.run.base
        return "no saved result" if base is None else why_missed(base, self.id, self.recipe, self.inputs)

    def add_note(self, text: str) -> None:
        """Note something for people."""
        if self._notes is None:
            self._notes = []
        self._notes.append(text)
        self.run.tell("note", self, text)

    @property
    def caveats(self) -> tuple[str, ...]:
        return self.recipe.notes

    # -- What other steps take.

    @property
    def has_value(self) -> bool:
        return self.value is not NOTHING or self.entry is not None

    def get(self, binding: Binding | None = None) -> Any:
        """Give the result, decoding what was saved if need be."""
        value = self.value
        if value is NOTHING and self.entry is not None:
            try:
                value = self.value = self.node.codec.decode(self.entry.data())
            except Undecodable as problem:
                raise SnapshotError(
                    f"the saved result of step {name_of(self)} does not decode, though its digest fits "
                    f"({problem}). Leave it out with snapshot.without([{self.id!r}]), or refresh it"
                ) from None
        return value

    def contribute(self, binding: Binding | None = None) -> bytes | None:
        """Give what the result adds to the key of a step that takes it, or None if nothing exact can."""
        found = self.contribution
        if found is None and self.entry is not None:
            found = self.contribution = self.recipe.result_contribution(self.entry.hashed())
        return found

    def instances(self) -> Sequence[StepRun]:
        return (self,)

    def item(self) -> tuple[Any, bytes | None]:
        """The item that an instance was made for, and its contribution."""
        raise AssertionError("only instances have an item; this is a bug in june")


class InstanceRun(StepRun):
    """
    One instance of an ``each`` step.

    Attributes:
        family: The ``each`` step in this run.
        number: Position among the items, from 0.
        label: What names it among its siblings.
        of: The item and its contribution, or the instance whose result is the item.
    """

    __slots__ = ("family", "label", "number", "of")

    def __init__(
        self, family: Family, number: int, label: str, of: StepRun | tuple[Any, bytes | None]
    ) -> None:
        super().__init__(
            family.run, family.node, family.recipe, f"{family.id}[{label}]", family.order + 1 + number
        )
        self.family = family
        self.number = number
        self.label = label
        self.of = of

    def item(self) -> tuple[Any, bytes | None]:
        if isinstance(self.of, StepRun):
            return self.of.get(), self.of.contribute()
        return self.of


class Family(TraceNode):
    """
    An ``each`` step in one run: the instances it has, once its items are known.

    Attributes:
        members: Its instances in item order, or None before its items are known.
        ended: Whether it was skipped, blocked or failed as a whole.
        gate: How many of *gated_by* are still pending: no instance renders before they are not.
        gated_by: Indices of the nodes that its other parameters take from, or that it comes after.
        unsettled: Instances whose contribution is not known yet.
    """

    __slots__ = (
        "_contributions", "consumers", "contribution", "ended", "gate", "gated_by", "members", "node",
        "order", "outcome", "recipe", "run", "unsettled", "value", "waiters", "why",
    )  # fmt: skip

    def __init__(self, run: Owner, node: GraphNode, recipe: Recipe, order: int) -> None:
        super().__init__(node.step.id, node.step.id)
        self.run = run
        self.node = node
        self.recipe = recipe
        # Both depend on who asks: see contribute() and get().
        self.contribution: bytes | None = None
        self.value: Any = NOTHING
        self.order = order
        self.outcome = PENDING
        self.members: list[InstanceRun] | None = None
        self.ended = False
        self.gate = 0
        self.gated_by: frozenset[int] = frozenset()
        self.unsettled = 0
        self.consumers = 0
        self.waiters: list[AnyRun] | None = None
        self.why: str | None = None
        self._contributions: dict[bool, bytes | None] = {}

    @property
    def kind(self) -> str:
        return "each"

    @property
    def children(self) -> Sequence[TraceNode]:
        return tuple(self.members or ())

    @property
    def reason(self) -> str | None:
        return self.why

    @property
    def result(self) -> Any:
        return None if self.status != "done" or not self.has_value else self.get()

    @property
    def has_value(self) -> bool:
        return self.members is not None and all(
            one.has_value or one.outcome == SKIPPED for one in self.members
        )

    def get(self, binding: Binding | None = None) -> Any:
        """Give the results: a list in item order, or a dict by label."""
        kept = [one for one in self.members or () if one.outcome != SKIPPED]
        if binding is not None and binding.as_dict:
            return {one.label: one.get() for one in kept}
        return [one.get() for one in kept]

    def contribute(self, binding: Binding | None = None) -> bytes | None:
        as_dict = binding is not None and binding.as_dict
        if as_dict not in self._contributions:
            kept = [one for one in self.members or () if one.outcome != SKIPPED]
            each = [one.contribute() for one in kept]
            if None in each:
                found = None
            elif as_dict:
                labels = [one.label for one in kept]
                found = dict_contribution(zip(labels, cast("list[bytes]", each), strict=True))
            else:
                found = list_contribution(cast("list[bytes]", each))
            self._contributions[as_dict] = found
        return self._contributions[as_dict]

    def forget_contributions(self) -> None:
        """An instance contributes something else from now on."""
        self._contributions.clear()

    def instances(self) -> Sequence[StepRun]:
        return self.members or ()


AnyRun = StepRun | Family


def as_failure(one: AnyRun, raised: BaseException) -> Exception:
    """Give what a step fails with: its own exception, or a `StepError` for one that would end more."""
    if isinstance(raised, Exception):
        return raised
    error = StepError(
        f"step {name_of(one)} raised {type(raised).__name__}, which would end more than the step; "
        "raise an ordinary exception"
    )
    error.__cause__ = raised
    return error


def name_of(one: AnyRun) -> str:
    """Name a step with its place, as messages do."""
    return f"{one.id!r} ({one.node.declaration.place})"
