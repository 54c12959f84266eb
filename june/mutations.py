"""
Mutations: steps that change what they were given.

A step's result is saved as it was when it was finished, and a resumed run gives that to its consumers. So
does an uninterrupted run, where a result can change at all: its consumers get what the saved bytes decode
to, and nothing that the step, or a step before it, still holds. They share that one object, and what one
of them does to it the others would see; so where that could show, it is looked for after each attempt, and
undone. Steps that ran beside the one that made the change may have seen half of it: what they gave counts
by nothing that could be recomputed, and is not saved.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from june._digests import digest
from june._text import listed
from june.codec import Inexact
from june.fingerprints import Fingerprinter, KeyFailure
from june.graphs import EXTERNAL, Graph
from june.inputs import IMMUTABLE, Inputs
from june.stepruns import StepRun, name_of
from june.traces import NOTHING

_Source = StepRun | str
"""A step whose result is taken, or the name of an input."""


class Mutations:
    """Looks for changed arguments in one run."""

    def __init__(self, graph: Graph, inputs: Inputs) -> None:
        self._inputs = inputs
        self._copies: dict[str, Any] = {}
        self._copy_shared_inputs(graph)
        # What each attempt that is under way was given that others may see and that can change.
        self._given: dict[StepRun, list[tuple[_Source, Any]]] = {}

    def _copy_shared_inputs(self, graph: Graph) -> None:
        """Copy the inputs that more than one attempt may see and that can change."""
        counts: dict[str, int] = {}
        for node, binding in graph.externals:
            several = node.declaration.retry is not None or node.item is not None
            counts[binding.source] = counts.get(binding.source, 0) + (2 if several else 1)
        for name, count in counts.items():
            value = self._inputs.input(name)
            if count > 1 and value is not NOTHING and type(value) not in IMMUTABLE:
                try:
                    self._copies[name] = copy.deepcopy(value)
                except Exception:  # what cannot be copied is shared, as it would be without June
                    continue

    def begin(self, one: StepRun) -> None:
        """Note what an attempt at a step is given."""
        if type(one) is StepRun and not self._copies:
            nodes = self._inputs.nodes
            for index in one.node.sources:
                if type(nodes[index].value) not in IMMUTABLE:
                    break
            else:
                return
        # Each once, though several parameters may take the same.
        given = dict(self._shared(one))
        if given:
            self._given[one] = list(given.items())

    def _shared(self, one: StepRun) -> Iterator[tuple[_Source, Any]]:
        for source in self._inputs.taken(one):
            for instance in source.instances():
                if instance.entry is not None and type(instance.value) not in IMMUTABLE:
                    yield instance, instance.value
        if self._copies:
            for binding in one.node.bindings:
                if binding.how == EXTERNAL and binding.source in self._copies:
                    yield binding.source, self._inputs.input(binding.source)

    def check(self, one: StepRun) -> tuple[list[str], Inexact | None]:
        """
        Look at what an attempt at a step was given, after it.

        A result that only this step takes is let go: who asks for it later gets what was saved.

        Returns:
            A warning for each argument that changed; why the attempt's result cannot be trusted, or None.
        """
        if not self._given:
            return _NOTHING_FOUND
        warnings: list[str] = []
        tainted: Inexact | None = None
        for source, value in self._given.pop(one, ()):
            name = _named(source)
            if value is not self._current(source):
                tainted = _seen_changing(name)
            elif isinstance(source, StepRun) and source.consumers <= 1:
                source.value = NOTHING
            elif self._changed(source, value):
                beside = self._beside(value)
                tainted = _seen_changing(name) if beside else tainted
                self._undo(source)
                others = f" (or one that ran beside it: {listed(beside)})" if beside else ""
                warnings.append(
                    f"step {name_of(one)}{others} changed its argument, {name}. "
                    "Steps that take it later get it as it was; change a copy instead"
                )
        return warnings, tainted

    def _beside(self, value: Any) -> list[str]:
        """Name the steps under way that were given the same object."""
        return [
            name_of(one) for one, given in self._given.items() if any(other is value for _, other in given)
        ]

    def _current(self, source: _Source) -> Any:
        return self._inputs.input(source) if isinstance(source, str) else source.value

    def _changed(self, source: _Source, value: Any) -> bool:
        """Tell whether a value is no longer what it was when it was hashed or saved."""
        try:
            if isinstance(source, str):
                return Fingerprinter().value(value).digest != self._inputs.input_contribution(source)
            now = digest(source.node.codec.encode(value))
        except (Inexact, KeyFailure):
            return True
        return source.contribute() != source.recipe.result_contribution(now)

    def _undo(self, source: _Source) -> None:
        if isinstance(source, str):
            self._inputs.replace_input(source, copy.deepcopy(self._copies[source]))
        else:
            source.value = NOTHING


_NOTHING_FOUND: tuple[list[str], None] = ([], None)


def _named(source: _Source) -> str:
    return f"the input {source!r}" if isinstance(source, str) else f"the result of step {name_of(source)}"


def _seen_changing(name: str) -> Inexact:
    return Inexact(
        f"was made while another step changed {name}, which both take",
        "Let no step change its arguments; change a copy instead.",
    )
