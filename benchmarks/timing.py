"""
Timing: one piece of work beside another that serves as its yardstick.

A machine that others use too is fast in one second and slow in the next, so a figure alone says little.
Yardstick and work take turns, each turn of the work is divided by the mean of the yardsticks around it, and
the median of these ratios is what counts. Each turn is timed by two clocks: the processor's time, in which
what else the machine does hardly shows, and the one on the wall, which also sees threads wait.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any

import attrs

__all__ = ["Ratio", "Turn", "Work", "compare"]


def _nothing() -> None:
    """Prepare nothing."""


@attrs.frozen(kw_only=True)
class Work:
    """
    Something to be timed.

    Attributes:
        do: What is timed. It is called with what *prepare* gave; what it returns is kept until the clock has
            stopped, so that freeing it does not count.
        count: How many units (tasks, steps, bytes) it does, by which its time is divided.
        prepare: Makes what one turn needs, outside the clock.
    """

    do: Callable[[Any], object]
    count: int = 1
    prepare: Callable[[], Any] = _nothing

    def turn(self) -> Turn:
        """Do it once, and time it."""
        needed = self.prepare()
        gc.collect()
        wall_began = perf_counter()
        began = process_time()
        kept = self.do(needed)
        ended = process_time()
        wall_ended = perf_counter()
        del kept, needed
        return Turn((ended - began) / self.count, (wall_ended - wall_began) / self.count)


@attrs.frozen
class Turn:
    """
    How long one turn took, a unit.

    Attributes:
        processor: Seconds of processor time, of all threads.
        wall: Seconds that went by.
    """

    processor: float
    wall: float


@attrs.frozen
class Ratio:
    """
    How one piece of work compares with another.

    Attributes:
        work: The turns of the work.
        yardstick: The turns of the yardstick, one more.
    """

    work: tuple[Turn, ...]
    yardstick: tuple[Turn, ...]

    @property
    def processor(self) -> list[float]:
        """The ratio of each turn in processor time."""
        return self._ratios(lambda turn: turn.processor)

    @property
    def wall(self) -> list[float]:
        """The ratio of each turn by the clock on the wall."""
        return self._ratios(lambda turn: turn.wall)

    def _ratios(self, seconds: Callable[[Turn], float]) -> list[float]:
        around = [(seconds(before) + seconds(after)) / 2 for before, after in pairwise(self.yardstick)]
        return [seconds(turn) / beside for turn, beside in zip(self.work, around, strict=True)]


def compare(work: Work, yardstick: Work, rounds: int) -> Ratio:
    """
    Time *work* beside *yardstick*: yardstick, work, yardstick, work, ..., yardstick.

    One turn of each goes before, uncounted, for caches and lazy imports.

    Args:
        work: What is measured.

        yardstick: What it is measured by.

        rounds: Turns of *work* that count, from 1.
    """
    yardstick.turn()
    work.turn()
    turns: list[Turn] = []
    yardsticks = [yardstick.turn()]
    for _ in range(rounds):
        turns.append(work.turn())
        yardsticks.append(yardstick.turn())
    return Ratio(tuple(turns), tuple(yardsticks))
