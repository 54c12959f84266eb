"""
Inputs: what a step takes from others, as values and as what they add to its cache key.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, cast

from june._signatures import MISSING
from june._text import message_of
from june.fingerprints import Fingerprinter, KeyFailure
from june.graphs import EXTERNAL, ITEM, LIST, STEP, VALUE, Binding
from june.keys import VARY_TAG, Recipe, list_contribution
from june.stepruns import KNOWN, SKIPPED, AnyRun, Family, InstanceRun, StepRun
from june.traces import NOTHING

NO_ARGUMENTS: Mapping[str, Any] = {}

IMMUTABLE: frozenset[type] = frozenset({type(None), bool, int, float, complex, str, bytes, range, type(...)})
"""Types whose values cannot change."""


class Inputs:
    """
    Fills the parameters of the steps of one run.

    Attributes:
        nodes: For each node of the graph, the step in this run.
        session: Hashes bound values, defaults and what else is a part of a key.
    """

    def __init__(
        self,
        nodes: Sequence[AnyRun],
        given: Mapping[str, Any],
        contributions: Mapping[str, bytes],
        session: Fingerprinter,
    ) -> None:
        """
        Args:
            nodes: For each node of the graph, the step in this run.

            given: The run's inputs and resources.

            contributions: What each of the inputs adds to a key; resources have none.

            session: Hashes bound values and defaults.
        """
        self.nodes = nodes
        self.session = session
        self._given = dict(given)
        self._contributions = contributions

    # -- Values.

    def arguments(self, one: StepRun, names: Container[str] | None = None) -> Mapping[str, Any]:
        """
        Collect the values of a step's parameters, which are there.

        Args:
            one: The step.
            names: Only these parameters are wanted; None wants all.
        """
        bindings = one.node.bindings
        if not bindings:
            return NO_ARGUMENTS
        if names is None:
            return {binding.name: self._value(one, binding) for binding in bindings}
        return {binding.name: self._value(one, binding) for binding in bindings if binding.name in names}

    def shown(self, one: StepRun) -> Mapping[str, Any]:
        """
        Collect the values of a step's parameters for a person to look at.

        What is data is copied: what others do to it meanwhile is not what will run. Resources, and what no
        key can be made of, are things to work with, and there is to be one of each.
        """
        found = dict(self.arguments(one))
        for binding in one.node.bindings:
            value = found[binding.name]
            is_resource = (
                binding.how == EXTERNAL
                and binding.source in self._given
                and binding.source not in self._contributions
            )
            if type(value) in IMMUTABLE or is_resource or self.contribution(value) is None:
                continue
            try:
                found[binding.name] = copy.deepcopy(value)
            except Exception:  # it is shared, as it is by all that take it
                continue
        return found

    def _private(self, value: Any) -> Any:
        """
        Copy a bound value, a default or an item that other attempts may be given too and that can change.

        Only plain data is copied: an object may be something to work with, of which there is to be one.
        """
        if type(value) in (list, dict):
            return copy.deepcopy(value) if self.contribution(value, b"j") is not None else value
        return value.copy() if type(value) in (set, bytearray) else value

    def input(self, name: str) -> Any:
        """The run input *name*, or `NOTHING` if there is none."""
        return self._given[name] if name in self._contributions else NOTHING

    def input_contribution(self, name: str) -> bytes:
        """What the run input *name* adds to a key."""
        return self._contributions[name]

    def replace_input(self, name: str, value: Any) -> None:
        """Give *value* for the run input *name* from here on."""
        self._given[name] = value

    def _value(self, one: StepRun, binding: Binding) -> Any:
        how = binding.how
        if how == STEP:
            source = self.nodes[binding.source]
            if source.outcome == SKIPPED:
                return self._private(binding.default)
            value = source.value if type(source) is StepRun else NOTHING
            return source.get(binding) if value is NOTHING else value
        if how == VALUE:
            return self._private(binding.source)
        if how == EXTERNAL:
            if binding.source in self._given:
                return self._given[binding.source]
            return self._private(binding.default)
        sources = self.sources(one, binding)
        if any(source.outcome == SKIPPED for source in sources):
            return self._private(binding.default)
        if how == ITEM:
            item = one.item()[0]
            # Another attempt is to see the item as the first did.
            return self._private(item) if one.node.declaration.retry is not None and not sources else item
        return [source.get(binding) for source in sources]

    # -- Where they come from.

    def sources(self, one: StepRun, binding: Binding) -> Sequence[AnyRun]:
        """The steps that a parameter takes from; for a chained ``each`` parameter, one instance."""
        how = binding.how
        if how == STEP:
            return (self.nodes[binding.source],)
        if how == LIST:
            return [self.nodes[index] for index in binding.source]
        if how == ITEM and isinstance(one, InstanceRun) and isinstance(one.of, StepRun):
            return (one.of,)
        return ()

    def taken(self, one: StepRun, names: Container[str] | None = None) -> Iterator[AnyRun]:
        """The steps that a step's parameters take from, or those parameters' that *names* has."""
        for binding in one.node.bindings:
            if binding.how == VALUE or binding.how == EXTERNAL:
                continue
            if names is None or binding.name in names:
                sources = self.sources(one, binding)
                # Where one of a list was skipped, the parameter gets its default, and takes from none.
                if binding.how != LIST or not any(source.outcome == SKIPPED for source in sources):
                    yield from sources

    def lacking(self, one: StepRun, names: Container[str] | None = None) -> list[AnyRun]:
        """
        Find what a step waits for before it starts: values that are not there, and what it comes after.

        Args:
            one: The step.
            names: Only the values of these parameters are asked for; None asks for all that the step needs.

        Returns:
            Each step once; an ``each`` step stands for itself only while it is not settled.
        """
        found: dict[AnyRun, None] = {}
        sources = list(self.taken(one, names))
        if names is None:
            sources += [self.nodes[index] for index in one.node.after]
        for source in sources:
            if source.outcome == SKIPPED:
                continue
            if isinstance(source, Family) and source.outcome != KNOWN:
                found[source] = None
                continue
            for instance in source.instances():
                if not instance.has_value and instance.outcome != SKIPPED:
                    found[instance] = None
        return list(found)

    # -- What they add to the key.

    def contributions(self, one: StepRun, recipe: Recipe) -> bytes:
        """
        Join what each input adds to the key of a step.

        Raises:
            KeyFailure: If an input cannot be encoded exactly, so that there is no key.
        """
        pieces: list[bytes] = []
        nodes = self.nodes
        # What is rendered stands for what it was rendered from.
        bindings = () if one.node.declaration.kind.reads_values else one.node.bindings
        for binding in bindings:
            how = binding.how
            found: bytes | None
            if how == STEP:
                source = nodes[binding.source]
                if source.outcome == KNOWN:
                    found = source.contribution or source.contribute(binding)
                else:
                    found = self._default(binding)
            elif how == VALUE:
                found = self.session.value(binding.source).digest
            else:
                found = self._other(one, binding)
            if found is None:
                raise KeyFailure(f"input {binding.name!r} cannot be encoded exactly")
            if found:
                pieces += (binding.tag, found)
        if recipe.vary is not None:
            pieces += [VARY_TAG, self._varied(one, recipe)]
        return b"".join(pieces)

    def _other(self, one: StepRun, binding: Binding) -> bytes | None:
        """Give what one input adds to the key; empty for a resource, None if nothing exact can."""
        how = binding.how
        if how == EXTERNAL:
            if binding.source in self._contributions:
                return self._contributions[binding.source]
            return b"" if binding.source in self._given else self._default(binding)
        sources = self.sources(one, binding)
        if any(source.outcome == SKIPPED for source in sources):
            return self._default(binding)
        if how == ITEM:
            return one.item()[1]
        found = [source.contribute(binding) for source in sources]
        return None if None in found else list_contribution(cast("list[bytes]", found))

    def _default(self, binding: Binding) -> bytes:
        if binding.default is MISSING:
            raise AssertionError("a step without its input rendered; this is a bug in june")
        return self.session.value(binding.default).digest

    def _varied(self, one: StepRun, recipe: Recipe) -> bytes:
        assert recipe.vary is not None  # the caller has looked
        try:
            varied = recipe.vary(**self.arguments(one, one.node.declaration.vary_parameters))
        except BaseException as error:
            raise KeyFailure(f"vary raised {type(error).__name__}: {message_of(error)}") from error
        found = self.session.value(varied)
        if found.opaque:
            raise KeyFailure(f"june cannot see into what vary returned: {found.opaque[0]}")
        return found.digest

    def contribution(self, value: Any, kind: bytes = b"") -> bytes | None:
        """
        Give what a value that no step made adds to a key, or None if nothing exact can.

        Args:
            value: The value.
            kind: The letter that the contribution must have; empty for any.
        """
        try:
            found = self.session.value(value)
        except KeyFailure:
            return None
        return None if found.opaque or not found.digest.startswith(kind) else found.digest
