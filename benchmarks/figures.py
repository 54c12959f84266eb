"""Figures: what a row of the table has measured, and the row itself."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import attrs

from benchmarks.timing import Ratio

__all__ = ["Figure", "Row", "Sizes", "in_milliseconds", "times", "times_on_the_wall"]


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
        requests: Requests to a model.
    """

    steps: int = 10_000
    rounds: int = 11
    functions: int = 40
    peer_steps: int = 1_000
    processes: int = 15
    requests: int = 1_000


@attrs.frozen
class Figure:
    """
    A figure in the unit of its row.

    Attributes:
        middle: The median of what was measured.
        least: The smallest.
        wall: The median by the clock on the wall, where *middle* is processor time; or None.
        note: What a reader should know beside it.
    """

    middle: float
    least: float
    wall: float | None = None
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


def times(ratio: Ratio) -> Figure:
    """Give a cost as a multiple of the yardstick's (T, where that is a bare trio task)."""
    return Figure(median(ratio.processor), min(ratio.processor), median(ratio.wall), _beside(ratio))


def times_on_the_wall(ratio: Ratio) -> Figure:
    """Give a cost as `times` does, but judged by the clock on the wall: for work that waits for threads."""
    note = f"{median(ratio.processor):.2f} in processor time; {_beside(ratio)}"
    return Figure(median(ratio.wall), min(ratio.wall), median(ratio.wall), note)


def in_milliseconds(ratio: Ratio) -> Figure:
    """Give a cost in milliseconds, with T beside it."""
    seconds = [turn.processor for turn in ratio.work]
    wall = median(turn.wall for turn in ratio.work)
    note = f"{median(ratio.processor):.0f} T; {_beside(ratio)}"
    return Figure(median(seconds) * 1e3, min(seconds) * 1e3, wall * 1e3, note)


def _beside(ratio: Ratio) -> str:
    work = median(turn.processor for turn in ratio.work)
    return f"{_time(work)} over {_time(median(turn.processor for turn in ratio.yardstick))}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
