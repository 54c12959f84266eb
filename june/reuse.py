"""
Reuse: whether a saved result counts for a step that has just rendered.
"""

from __future__ import annotations

from typing import Any

from june._digests import digest
from june.codec import Inexact, Undecodable
from june.entries import AnyEntry, Entry
from june.ledgers import Ledger
from june.snapshots import EMPTY, Snapshot
from june.stepruns import StepRun

_SMALL = 2048
"""Results of up to so many bytes are decoded when they are reused."""


class Reuse:
    """Looks saved results up, and drops those that no longer count."""

    def __init__(self, base: Snapshot | None, ledger: Ledger, refresh: frozenset[str]) -> None:
        """
        Args:
            base: What the run was given, or None.

            ledger: Notes what is dropped.

            refresh: Ids of steps, or of instances, whose saved results must not count.
        """
        data = EMPTY if base is None else base.contents
        self._steps = data.steps
        self._unsaved = data.unsaved
        self._ledger = ledger
        self._refresh = refresh
        self.anything = bool(self._steps or self._unsaved)

    def could_not_save(self, one: StepRun) -> bool:
        """Tell whether the last time the step had this key, its result could not be saved."""
        return self._unsaved.get(one.id, "") == one.key

    def drop(self, one: StepRun) -> None:
        """Drop what is saved of a step: it rendered with another key, or with none."""
        self._ledger.drop(one.id)
        if self._unsaved and not self.could_not_save(one):
            self._ledger.forget(one.id)

    def look_up(self, one: StepRun) -> AnyEntry | None:
        """
        Find the saved result of a step under its key; drop one that does not count.

        Sets the step's value and contribution where the result had to be decoded to be trusted.
        """
        entry = self._steps.get(one.id)
        if entry is not None:
            if self._refresh and (one.id in self._refresh or one.step in self._refresh):
                one.why = "refresh asked for it"
            elif entry.cacheKey != one.key:
                pass
            elif not one.node.declaration.save:
                one.why = "save=False keeps no result"
            elif self._is_trusted(one, entry) or self._decodes(one, entry):
                if self._ledger.dropped:
                    self._ledger.keep(one.id)
                return entry
        self.drop(one)
        return None

    @staticmethod
    def _is_trusted(one: StepRun, entry: AnyEntry) -> bool:
        """
        Tell whether a result is as June wrote it, and of the step's type, which its digest does not say.

        A large one is not decoded before somebody asks for it.
        """
        codec = one.node.codec
        if not codec.settled:
            return False
        if type(entry) is Entry:
            data = bytes(entry.result)
            found = digest(data)
            if found.hex() != entry.digest:
                return False
            if len(data) <= _SMALL:
                try:
                    one.value = codec.decode(data)
                except Undecodable:
                    return False
            if one.consumers > 1:
                # Others will ask; where none or one does, it is worked out then.
                one.contribution = one.recipe.result_contribution(found)
        return True

    @staticmethod
    def _decodes(one: StepRun, entry: AnyEntry) -> bool:
        """Tell whether a saved result that its digest does not vouch for decodes; it counts as what it is."""
        codec = one.node.codec
        try:
            value: Any = codec.decode(entry.data())
            canonical = codec.encode(value)
        except (Undecodable, Inexact) as problem:
            one.why = f"the saved result no longer decodes: {problem}"
        except Exception as error:
            # A registered decoder, a validator or a __post_init__ may raise anything.
            one.why = f"the saved result no longer decodes: {type(error).__name__}: {error}"
        else:
            one.value = value
            one.contribution = one.recipe.result_contribution(digest(canonical))
            return True
        return False
