"""
Options of a run, and what each of them must fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from june._text import near
from june.errors import InputError
from june.fingerprints import Fingerprinter, KeyFailure
from june.graphs import GraphNode, named
from june.snapshots import Snapshot, base_id


@attrs.frozen(kw_only=True)
class Options:
    """What a run was asked for; see `june.RunOptions`."""

    inputs: Mapping[str, Any] = attrs.field(factory=dict)
    resources: Mapping[str, Any] = attrs.field(factory=dict)
    snapshot: Snapshot | None = None
    concurrency: int = 16
    limits: Mapping[str, int] = attrs.field(factory=dict)
    refresh: frozenset[str] = frozenset()
    overrides: Mapping[str, Any] = attrs.field(factory=dict)
    strict: bool = False
    on_error: str = "drain"

    def check_limit(self, node: GraphNode) -> None:
        """
        Check that a step's limit is among the run's.

        Raises:
            InputError: If it is not.
        """
        limit = node.declaration.limit
        if limit is not None and limit not in self.limits:
            hint = near(limit, self.limits)
            raise InputError(
                f"step {named(node.step)} holds one of limit {limit!r} while it runs, but the run was given "
                "no such limit. "
                + (f"Did you mean {hint[0]!r}?" if hint else f"Pass limits={{{limit!r}: 4}}.")
            )

    def check_ids(self, known: Iterable[str]) -> None:
        """
        Check that the ids in ``refresh`` and ``overrides`` are steps', or instances' of theirs.

        Raises:
            InputError: If one is not.
        """
        known = frozenset(known)
        for argument, ids in (("refresh", self.refresh), ("overrides", self.overrides)):
            for id in ids:
                if base_id(id) not in known:
                    hint = near(id, known)
                    raise InputError(
                        f"{argument} names {id!r}, but the graph has no such step."
                        + (f" Did you mean {hint[0]!r}?" if hint else "")
                    )

    def input_contributions(self, session: Fingerprinter) -> dict[str, bytes]:
        """
        Hash the inputs, before anything starts.

        Raises:
            InputError: If one cannot be part of a key.
        """
        found: dict[str, bytes] = {}
        for name, value in self.inputs.items():
            advice = f"If it is an object to work with rather than a value, pass resources={{{name!r}: ...}}."
            try:
                fingerprint = session.value(value)
            except KeyFailure as failure:
                raise InputError(
                    f"input {name!r} cannot be part of a cache key: {failure}. {advice}"
                ) from None
            if fingerprint.opaque or type(value) is object:
                seen = fingerprint.opaque[0] if fingerprint.opaque else f"{name}: object"
                raise InputError(
                    f"input {name!r} cannot be part of a cache key: june cannot see into {seen}. {advice}"
                )
            found[name] = fingerprint.digest
        return found
