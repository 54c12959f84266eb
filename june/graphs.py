"""
Graphs: steps joined by their parameters, checked, and put in order.

A graph is plain wiring. It holds no value and no cache key: those belong to a run, which computes them
anew each time, so that a constant rebound between two runs of one graph is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from june._signatures import MISSING, Parameter
from june.codec import Codec
from june.steps import Step, declaration_of

__all__ = ["Graph"]

STEP: Final = 0
"""The value of one step (or the list or dict of an ``each`` step's results)."""
LIST: Final = 1
"""A list of several steps' values."""
EXTERNAL: Final = 2
"""A run input or a resource, or else the default."""
VALUE: Final = 3
"""A bound value."""
ITEM: Final = 4
"""One item of what an ``each`` step runs over."""


class Binding:
    """
    What one parameter of one step is bound to.

    Attributes:
        name: The parameter.
        tag: The parameter's name as it stands in cache keys.
        how: `STEP`, `LIST`, `EXTERNAL`, `VALUE` or `ITEM`.
        source: By *how*: the index of a node; the indices of nodes; the name of an input; a value; the index
            of a node or the name of an input whose items are taken.
        default: The parameter's default, or `MISSING`.
        as_dict: Whether the results of an ``each`` step come as a dict by label.
    """

    __slots__ = ("as_dict", "default", "how", "name", "source", "tag")

    def __init__(self, parameter: Parameter, how: int, source: Any, as_dict: bool = False) -> None:
        self.name = parameter.name
        self.tag = parameter.tag
        self.how = how
        self.source = source
        self.default = parameter.default
        self.as_dict = as_dict

    def steps(self) -> Sequence[int]:
        """The indices of the nodes it takes from."""
        if self.how == STEP or (self.how == ITEM and type(self.source) is int):
            return (self.source,)
        return self.source if self.how == LIST else ()


class GraphNode:
    """
    A step in its place in a graph.

    Attributes:
        step: The step.
        declaration: The step's declaration.
        bindings: What its parameters are bound to, in the order of the parameters.
        after: Indices of nodes that must be over before it starts, though it takes nothing from them.
        sources: Indices of the nodes that it takes from, each once.
        item: The binding whose items an ``each`` step runs over, or None.
        codec: How its results are encoded.
    """

    __slots__ = ("after", "bindings", "codec", "declaration", "item", "sources", "step")

    def __init__(
        self, step: Step[..., Any], bindings: Sequence[Binding], after: Sequence[int], codec: Codec
    ) -> None:
        self.step = step
        self.declaration = declaration_of(step)
        self.bindings = bindings
        self.after = after
        self.codec = codec
        found: list[int] = []
        for binding in bindings:
            how = binding.how
            if how == STEP:
                found.append(binding.source)
            elif how == LIST:
                found += binding.source
            elif how == ITEM and type(binding.source) is int:
                found.append(binding.source)
        self.sources: Sequence[int] = tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)
        self.item = (
            next(binding for binding in bindings if binding.how == ITEM)
            if self.declaration.each is not None
            else None
        )


@attrs.frozen(eq=False, repr=False)
class Graph:
    """
    Steps, what they take from each other, and the order they stand in: what `graph` returns.

    It can be run any number of times.

    Attributes:
        nodes: The steps in graph order: depth first, what is needed before what needs it, in target order.
        targets: Indices of the nodes whose results are asked for.
        single: Whether exactly one step was given as a target, so that a run's result is its value.
        externals: The bindings that only a run can fill, with their nodes.
    """

    nodes: Sequence[GraphNode]
    targets: Sequence[int]
    single: bool
    externals: Sequence[tuple[GraphNode, Binding]]

    @cached_property
    def dependents(self) -> Sequence[Sequence[int]]:
        """For each node, the indices of the nodes that take from it."""
        found: list[Sequence[int]] = [()] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            for source in node.sources:
                behind = found[source]
                if behind:
                    behind.append(index)  # type: ignore[attr-defined]  # the empty one alone is no list
                else:
                    found[source] = [index]
        return found

    @cached_property
    def consumers(self) -> Sequence[int]:
        """For each node, how many others may take its result: 0, 1, or more."""
        found = [0] * len(self.nodes)
        for node in self.nodes:
            # An each step has any number of instances.
            weight = 1 if node.item is None else 2
            for source in node.sources:
                found[source] += weight
        for index in frozenset(self.targets):
            # A target's result is asked for by whoever starts a run.
            found[index] += 1
        return found

    @property
    def steps(self) -> tuple[Step[..., Any], ...]:
        """The steps, in graph order."""
        return tuple(node.step for node in self.nodes)

    @property
    def inputs(self) -> Mapping[str, bool]:
        """Names that a run may be given as inputs or resources, each with whether it must be."""
        found: dict[str, bool] = {}
        for _, binding in self.externals:
            required = binding.how == ITEM or binding.default is MISSING
            found[binding.source] = found.get(binding.source, False) or required
        return found

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} steps>"


def named(step: Step[..., Any]) -> str:
    """Name *step* with its place, as messages do."""
    return f"{step.id!r} ({declaration_of(step).place})"
