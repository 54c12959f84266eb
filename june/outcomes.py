"""
Outcomes: what can be seen of a run from outside, while it goes and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from june.graphs import Graph
from june.messages import Usage
from june.snapshots import base_id
from june.stepruns import SKIPPED, AnyRun, Family, StepRun
from june.traces import TraceNode


class Outcomes:
    """Results and trace nodes of one run."""

    def __init__(self, graph: Graph, nodes: Sequence[AnyRun], by_id: Mapping[str, AnyRun]) -> None:
        self._graph = graph
        self._nodes = nodes
        self._by_id = by_id

    def trace_nodes(self) -> list[TraceNode]:
        """The nodes in graph order, instances in place of the step they belong to."""
        found: list[TraceNode] = []
        for one in self._nodes:
            if isinstance(one, Family) and one.members is not None:
                found.extend(one.members)
            else:
                found.append(one)
        return found

    def find(self, id: str) -> TraceNode | None:
        """Find a step, an instance or an ``each`` step by id."""
        return self._by_id.get(id)

    def rank(self, id: str) -> float:
        """Say where in a snapshot an entry stands that this run has not finished."""
        found = self._by_id.get(id) or self._by_id.get(base_id(id))
        return float("inf") if found is None else found.order >> 40

    def reused_usage(self) -> Usage:
        """What the model calls had used whose results were found saved."""
        found = Usage()
        for node in self.trace_nodes():
            if isinstance(node, StepRun) and node.resumed and node.entry is not None:
                found += node.entry.usage()
        return found

    def results(self) -> dict[str, Any]:
        """Every result by id: an ``each`` step's as a list, and each of its instances'."""
        found: dict[str, Any] = {}
        for one in self._nodes:
            if isinstance(one, StepRun):
                if one.status == "done":
                    found[one.id] = one.get()
                continue
            if one.status == "done" and one.has_value:
                found[one.id] = one.get()
            for member in one.members or ():
                if member.status == "done":
                    found[member.id] = member.get()
        return found

    def target_result(self) -> Any:
        """The result of a single target, or a tuple in target order; None for one that was skipped."""
        found = []
        for index in self._graph.targets:
            one = self._nodes[index]
            found.append(None if one.outcome == SKIPPED or not one.has_value else one.get())
        return found[0] if self._graph.single else tuple(found)
