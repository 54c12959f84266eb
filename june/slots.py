"""
Slots: permission to run, which a step that only waits gives back for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from june.queues import Queues
from june.stepruns import StepRun


class _Share:
    """
    What the tasks of one step do with its slot, and with its limit.

    Attributes:
        tasks: How many tasks of the step there are that could run.
        resting: How many of them wait for something.
        keeping: How many of these hold on to the limit.
        held: Whether the step has its slot: it has, unless all of its tasks rest, or did and found none free.
        limited: Whether it has its limit; where it has not, it has no slot either.
        wanting: How many of its tasks wait to have it again.
        given: Set when it has.
    """

    __slots__ = ("given", "held", "keeping", "limited", "resting", "tasks", "wanting")

    def __init__(self) -> None:
        self.tasks = 1
        self.resting = 0
        self.keeping = 0
        self.held = True
        self.limited = True
        self.wanting = 0
        self.given = trio.Event()


class Slots:
    """Takes slots back from the steps of one run while they only wait, and gives them again."""

    def __init__(self, queues: Queues, wake: Callable[[], object]) -> None:
        """
        Args:
            queues: Counts the slots.

            wake: Called when others may start.
        """
        self._queues = queues
        self._wake = wake
        # The steps that have given theirs back at some time, or have several tasks.
        self._shares: dict[StepRun, _Share] = {}

    async def rest(self, one: StepRun, wait: Callable[[], Awaitable[Any]], *, keep_limit: bool) -> Any:
        """
        Wait for something without holding a slot, once all tasks of the step do.

        Args:
            one: The step.
            wait: What to wait for. Where it raises, and no slot is free, the step goes on without one until
                `regain`.
            keep_limit: Hold on to the step's limit: what is waited for is what the limit is there for.
        """
        share = self._shares.setdefault(one, _Share())
        share.resting += 1
        share.keeping += keep_limit
        self._give_back_if_idle(one, share)
        try:
            found = await wait()
        except BaseException:
            share.resting -= 1
            share.keeping -= keep_limit
            if not share.held and one in self._shares:
                self._take(one, share)
            raise
        share.resting -= 1
        share.keeping -= keep_limit
        await self.regain(one)
        return found

    async def regain(self, one: StepRun) -> None:
        """Wait until the step has its slot and its limit, if it has given them back."""
        share = self._shares.get(one)
        while share is not None and not share.held:
            if self._take(one, share):
                return
            share.wanting += 1
            try:
                await share.given.wait()
            finally:
                share.wanting -= 1

    def split(self, one: StepRun, tasks: int) -> None:
        """Have a step be so many tasks from now on, none of which rests."""
        self._shares.setdefault(one, _Share()).tasks = tasks

    def join(self, one: StepRun) -> None:
        """One of the tasks that a step was split into is over; after the last one it is one task again."""
        share = self._shares[one]
        share.tasks -= 1
        if share.tasks:
            self._give_back_if_idle(one, share)
        else:
            share.tasks = 1

    def release(self, one: StepRun) -> None:
        """Take back what a step held, which has ended."""
        share = self._shares.pop(one, None)
        if share is None or share.held:
            self._queues.release(one)
        elif share.limited:
            self._queues.release_limit(one)
        if self._shares:
            self._hand_out()

    def _give_back_if_idle(self, one: StepRun, share: _Share) -> None:
        if share.resting < share.tasks:
            return
        slot, limit = share.held, share.limited and not share.keeping
        if slot:
            share.held = False
            self._queues.free += 1
        if limit:
            share.limited = False
            self._queues.release_limit(one)
        if slot or limit:
            self._hand_out()
            self._wake()

    def _hand_out(self) -> None:
        """Give what is free to steps that gave theirs back and want it again, before others start."""
        for one, share in self._shares.items():
            if not self._queues.free:
                return
            if share.wanting and not share.held:
                self._take(one, share)

    def _take(self, one: StepRun, share: _Share) -> bool:
        """Take a slot, and the limit if the step gave that back, too; tell whether they were free."""
        if not self._queues.free or not (share.limited or self._queues.take_limit(one)):
            return False
        self._queues.free -= 1
        share.held = share.limited = True
        share.given.set()
        share.given = trio.Event()
        return True
