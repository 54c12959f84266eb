"""
Timing: one piece of work beside another that serves as its yardstick.

A machine that others use too is fast in one second and slow in the next, so a figure alone says little.
Yardstick and work take turns, each turn of the work is divided by the mean of the yardsticks around it, and
the median of these ratios is what counts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import attrs

__all__ = ["Ratio", "Work", "compare"]


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

    def seconds(self) -> float:
        """Do it once, and give the seconds a unit."""
        needed = self.prepare()
        gc.collect()
        began = perf_counter()
        kept = self.do(needed)
        ended = perf_counter()
        del kept, needed
        return (ended - began) / self.count


@attrs.frozen
class Ratio:
    """
    How one piece of work compares with another.

    Attributes:
        ratios: The ratio of each turn, per unit of both.
        seconds: Seconds that each turn of the work took, a unit.
        yardsticks: Seconds that each turn of the yardstick took, a unit.
    """

    ratios: tuple[float, ...]
    seconds: tuple[float, ...]
    yardsticks: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def least(self) -> float:
        """The smallest of the ratios."""
        return min(self.ratios)


def compare(work: Work, yardstick: Work, rounds: int) -> Ratio:
    """
    Time *work* beside *yardstick*: yardstick, work, yardstick, work, ..., yardstick.

    One turn of each goes before, uncounted, for caches and lazy imports.

    Args:
        work: What is measured.

        yardstick: What it is measured by.

        rounds: Turns of *work* that count, from 1.
    """
    yardstick.seconds()
    work.seconds()
    seconds: list[float] = []
    yardsticks = [yardstick.seconds()]
    for _ in range(rounds):
        seconds.append(work.seconds())
        yardsticks.append(yardstick.seconds())
    around = [(before + after) / 2 for before, after in pairwise(yardsticks)]
    ratios = [one / beside for one, beside in zip(seconds, around, strict=True)]
    return Ratio(tuple(ratios), tuple(seconds), tuple(yardsticks))
