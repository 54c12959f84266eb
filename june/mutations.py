"""
Mutations: steps that change what they were given.

A step's result is saved as it was when it was finished, and a resumed run gives that to its consumers. In an
uninterrupted run they share one object, and what one of them does to it the others would see; so where
that could show, it is looked for after each attempt, and undone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from june.codec import Inexact
from june.fingerprints import Fingerprinter, KeyFailure
from june.graphs import EXTERNAL, Graph
from june.inputs import Inputs
from june.keys import digest
from june.stepruns import StepRun, name_of
from june.traces import NOTHING

_IMMUTABLE = frozenset({type(None), bool, int, float, complex, str, bytes, range, type(...)})


class Mutations:
    """Looks for changed arguments in one run."""

    def __init__(self, graph: Graph, inputs: Inputs) -> None:
        self._inputs = inputs
        self._copies: dict[str, Any] = {}
        self._shared = self._shared_inputs(graph)

    def _shared_inputs(self, graph: Graph) -> frozenset[str]:
        """Name the inputs that more than one attempt may see, and keep a copy of each."""
        counts: dict[str, int] = {}
        for node, binding in graph.externals:
            several = node.declaration.retry is not None or node.item is not None
            counts[binding.source] = counts.get(binding.source, 0) + (2 if several else 1)
        for name, count in counts.items():
            value = self._inputs.input(name)
            if count > 1 and value is not NOTHING and type(value) not in _IMMUTABLE:
                try:
                    self._copies[name] = copy.deepcopy(value)
                except Exception:  # what cannot be copied is shared, as it would be without June
                    continue
        return frozenset(self._copies)

    def check(self, one: StepRun) -> Iterator[str]:
        """
        Look at what an attempt at a step was given.

        A result that only this step takes is let go: who asks for it later gets what was saved.

        Returns:
            A warning for each argument that changed and that others get as it was.
        """
        if type(one) is StepRun:
            nodes = self._inputs.nodes
            for index in one.node.sources:
                if type(nodes[index].value) not in _IMMUTABLE:
                    break
            else:
                if not self._shared:
                    return
        for source in list(self._inputs.taken(one)):
            for instance in source.instances():
                if self._changed(instance):
                    yield (
                        f"step {name_of(one)} changed its argument, the result of step {name_of(instance)}. "
                        "Steps that take it later get the saved value; return a changed copy instead"
                    )
        if self._shared:
            yield from self._changed_inputs(one)

    @staticmethod
    def _changed(source: StepRun) -> bool:
        """Tell whether a result is no longer as it was saved; let it go then, or if nobody else takes it."""
        entry = source.entry
        if entry is None or source.value is NOTHING or type(source.value) in _IMMUTABLE:
            return False
        if source.consumers > 1:
            try:
                now = digest(source.node.codec.encode(source.value))
            except Inexact:
                now = b""
            if source.contribute() == source.recipe.result_contribution(now):
                return False
            source.value = NOTHING
            return True
        source.value = NOTHING
        return False

    def _changed_inputs(self, one: StepRun) -> Iterator[str]:
        for binding in one.node.bindings:
            if binding.how != EXTERNAL or binding.source not in self._shared:
                continue
            name = binding.source
            try:
                now = Fingerprinter().value(self._inputs.input(name)).digest
            except KeyFailure:
                now = b""
            if now != self._inputs.input_contribution(name):
                self._inputs.replace_input(name, copy.deepcopy(self._copies[name]))
                yield (
                    f"step {name_of(one)} changed its argument, the input {name!r}. "
                    "Steps that take it later get it as it was; change a copy instead"
                )
