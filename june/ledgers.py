"""
Ledgers: what a run has finished and dropped so far, from which a snapshot can be taken at any moment.

A run only ever appends to its log. A snapshot is the entries that the run started from, the log, and a
position in it: taking one, and asking for its length, costs the same however much has finished, and may be
done from any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Literal, cast

from june.entries import AnyEntry, Finished
from june.keys import SCHEME
from june.snapshots import Snapshot, SnapshotData

_order = attrgetter("order")
_id = attrgetter("id")

_Event = tuple[Literal["drop", "restore", "unsaved", "forget"], str, str]


class Ledger:
    """
    The log of one run.

    Attributes:
        base: What the run started from.
        dropped: Ids of entries of the base that no longer count.
    """

    def __init__(self, base: SnapshotData, rank: Callable[[str], float]) -> None:
        self.base = base
        self._rank = rank
        self._log: list[Finished | _Event] = []
        # Positions in the log that do not add an entry, in order, and how much all up to each take away
        # from the log's length. Appended to before the log is, so that a reader in another thread that
        # knows of a position in the log finds them here.
        self._odd: list[int] = []
        self._adjusted: list[int] = [0]
        self.dropped: set[str] = set()
        self._forgotten: set[str] = set()

    def finish(self, entry: Finished) -> None:
        """Add an entry; one that the base had under its id has been dropped before."""
        self._log.append(entry)

    def drop(self, id: str) -> None:
        """Drop what the base has under *id*, if anything: the step rendered with another key."""
        if id in self.base.steps and id not in self.dropped:
            self.dropped.add(id)
            self._append(("drop", id, ""), -1)

    def keep(self, id: str) -> None:
        """Take back a `drop`: the step rendered once more, with the entry's key after all."""
        if id in self.dropped:
            self.dropped.discard(id)
            self._append(("restore", id, ""), 1)

    def unsaved(self, id: str, key: str) -> None:
        """Note that the step finished under *key*, but its result could not be saved."""
        self._append(("unsaved", id, key), 0)

    def forget(self, id: str) -> None:
        """Drop the base's note that the step's result could not be saved."""
        if id in self.base.unsaved and id not in self._forgotten:
            self._forgotten.add(id)
            self._append(("forget", id, ""), 0)

    def _append(self, event: _Event, entries: int) -> None:
        self._adjusted.append(self._adjusted[-1] + entries - 1)
        self._odd.append(len(self._log))
        self._log.append(event)

    def snapshot(self) -> Snapshot:
        """Take a snapshot of this moment."""
        return Snapshot.lazy(self, len(self._log))

    def count(self, position: int) -> int:
        """Count the entries as of *position*."""
        return len(self.base.steps) + position + self._adjusted[bisect_left(self._odd, position)]

    def collect(self, position: int) -> SnapshotData:
        """Collect everything as of *position*, in graph order, then by id."""
        steps: dict[str, AnyEntry] = dict(self.base.steps)
        unsaved = dict(self.base.unsaved)
        finished: list[Finished] = []
        for event in self._log[:position]:
            if type(event) is Finished:
                finished.append(event)
                continue
            what, id, key = event  # type: ignore[misc]  # narrowed by the branch above
            if what == "drop":
                del steps[id]
            elif what == "restore":
                steps[id] = self.base.steps[id]
            elif what == "unsaved":
                unsaved[id] = key
            else:
                unsaved.pop(id, None)
        if len({entry.order for entry in finished}) < len(finished):
            # Instances of one each step stand by id.
            finished.sort(key=_id)
        finished.sort(key=_order)
        new = {entry.id: entry for entry in finished}
        if unsaved:
            unsaved = {id: unsaved[id] for id in self._ordered(unsaved) if id not in new}
        if steps:
            steps.update(new)
            steps = {id: steps[id] for id in self._ordered(steps)}
        else:
            steps = cast("dict[str, AnyEntry]", new)
        return SnapshotData(
            steps=steps, unsaved=unsaved, code=self.base.code, scheme=SCHEME, extra=self.base.extra
        )

    def _ordered(self, ids: Iterable[str]) -> list[str]:
        rank = self._rank
        return [id for _, id in sorted([(rank(id), id) for id in ids])]
