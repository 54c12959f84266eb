"""Figures: what a row of the table has measured, and the row itself."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import attrs

from benchmarks.timing import Ratio

__all__ = ["Figure", "Row", "Sizes", "in_milliseconds", "in_tasks", "times"]


@attrs.frozen(kw_only=True)
class Sizes:
    """
    How much the rows do.

    Attributes:
        steps: Steps of a graph, and tasks of the yardstick. Growth starts at a tenth of it, and goes to ten
            and a hundred times.
        rounds: Turns that count.
        functions: Functions seen for the first time, a turn.
        peer_steps: Steps of the peers that take much longer for one.
        processes: Fresh processes, for a figure that is noisy even there.
    """

    steps: int = 10_000
    rounds: int = 11
    functions: int = 40
    peer_steps: int = 1_000
    processes: int = 15


@attrs.frozen
class Figure:
    """
    A figure in the unit of its row.

    Attributes:
        middle: The median of what was measured.
        least: The smallest.
        note: What a reader should know beside it.
    """

    middle: float
    least: float
    note: str = ""


@attrs.frozen(kw_only=True)
class Row:
    """
    A row of the table.

    Attributes:
        name: What it is called on the command line; a peer's stands behind the row it belongs to and a slash.
        what: What is measured.
        unit: ``T``, ``times``, ``ms`` or ``KB``.
        measure: Measures it.
        goal: The most that it is to cost, or None.
        slow: Whether it takes minutes, so that ``--quick`` leaves it out.
    """

    name: str
    what: str
    unit: str
    measure: Callable[[Sizes], Figure]
    goal: float | None = None
    slow: bool = False


def in_tasks(ratio: Ratio) -> Figure:
    """Give a cost in T."""
    return Figure(ratio.middle, ratio.least, _beside(ratio, "T"))


def times(ratio: Ratio) -> Figure:
    """Give a cost as a multiple of the yardstick's."""
    return Figure(ratio.middle, ratio.least, _beside(ratio, "yardstick"))


def in_milliseconds(ratio: Ratio) -> Figure:
    """Give a cost in milliseconds, with T beside it."""
    return Figure(
        median(ratio.seconds) * 1e3, min(ratio.seconds) * 1e3, f"{ratio.middle:.0f} T, {_beside(ratio, 'T')}"
    )


def _beside(ratio: Ratio, yardstick: str) -> str:
    return f"{_time(median(ratio.seconds))}, {yardstick} {_time(median(ratio.yardsticks))}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
