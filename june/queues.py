"""
Queues: which step is next, and who holds a slot or a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import cast

from june.stepruns import StepRun


class Queues:
    """
    The steps that can render, and those that have rendered and lack nothing but a slot, in graph order.

    Attributes:
        free: Slots that nobody holds.
        first: Steps that could render from the start, in order.
        later: A heap of those that came later.
        startable: A heap of steps that have rendered and lack only a slot.
        asking: Steps that have all they take but a person's approval, which is asked for without a slot.
        approved: Steps that have that, too.
    """

    def __init__(self, concurrency: int, limits: Mapping[str, int]) -> None:
        """
        Args:
            concurrency: How many steps may hold a slot at once.

            limits: How many steps that name each limit may run at once.
        """
        self.free = concurrency
        # Steps that could render from the start are in graph order as they are; only those that come later
        # need a heap.
        self.first: deque[StepRun] = deque()
        self.later: list[tuple[int, StepRun]] = []
        self.startable: list[tuple[int, StepRun]] = []
        self.asking: deque[StepRun] = deque()
        self.approved: set[StepRun] = set()
        self._limits = dict(limits)
        self._limited: dict[str, list[tuple[int, StepRun]]] = {name: [] for name in limits}

    def add_first(self, one: StepRun) -> None:
        """Add a step that can render from the start; they come in graph order."""
        self.first.append(one)

    def add_ready(self, one: StepRun) -> None:
        """Add a step that can render now."""
        # Mostly they come in graph order, too; a heap is only for those that do not.
        first = self.first
        if not first or first[-1].order <= one.order:
            first.append(one)
        else:
            heappush(self.later, (one.order, one))

    def add_startable(self, one: StepRun) -> None:
        """Add a step that must run and has all it takes."""
        if one.node.declaration.approval is not None and one not in self.approved:
            self.asking.append(one)
        else:
            heappush(self.startable, (one.order, one))

    def pop(self) -> StepRun | None:
        """
        Take the first step in graph order that something can be done for now.

        Returns:
            A step that has rendered and holds a slot from now on, or is to be approved and holds none; one
            that is to render; or None.
        """
        if self.asking:
            return self.asking.popleft()
        first, ready, startable = self.first, self.later, self.startable
        if first and not ready and not startable:
            return first.popleft()
        while True:
            from_ready = bool(ready) and not (first and first[0].order < ready[0][0])
            one = ready[0][1] if from_ready else first[0] if first else None
            if startable and self.free and (one is None or startable[0][0] < one.order):
                one = heappop(startable)[1]
                if self._take(one):
                    return one
                continue
            if from_ready:
                heappop(ready)
            elif one is not None:
                first.popleft()
            return one

    def start(self, one: StepRun) -> bool:
        """
        Give a slot to a step that has just rendered, if it is its turn; else line it up.

        Returns:
            Whether it holds a slot now.
        """
        declaration = one.node.declaration
        if declaration.approval is not None and one not in self.approved:
            self.asking.append(one)
            return False
        if not self.free or (self.startable and self.startable[0][0] < one.order):
            heappush(self.startable, (one.order, one))
            return False
        if declaration.limit is None:
            self.free -= 1
            return True
        return self._take(one)

    def _take(self, one: StepRun) -> bool:
        """Take a slot, and one of the step's limit; where the limit has none, line the step up there."""
        if not self.take_limit(one):
            heappush(self._limited[cast(str, one.node.declaration.limit)], (one.order, one))
            return False
        self.free -= 1
        return True

    def release(self, one: StepRun) -> None:
        """Give back the slot, and the limit, that *one* held."""
        self.free += 1
        if one.node.declaration.limit is not None:
            self.release_limit(one)

    def release_limit(self, one: StepRun) -> None:
        """Give back the limit that *one* held, if it names one."""
        limit = one.node.declaration.limit
        if limit is not None:
            self._limits[limit] += 1
            if self._limited[limit]:
                heappush(self.startable, heappop(self._limited[limit]))

    def take_limit(self, one: StepRun) -> bool:
        """Take the limit that *one* names, if it is to be had; tell whether it was."""
        limit = one.node.declaration.limit
        if limit is not None:
            if not self._limits[limit]:
                return False
            self._limits[limit] -= 1
        return True

    @property
    def has_work(self) -> bool:
        """Whether `pop` would find something."""
        return bool(self.first or self.later or self.asking or (self.startable and self.free))

    @property
    def empty(self) -> bool:
        """Whether nothing is left, for which there is a slot or not."""
        return not (self.first or self.later or self.asking or self.startable or any(self._limited.values()))
