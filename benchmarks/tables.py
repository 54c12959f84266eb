"""The table, line by line, so that each row can be read as soon as it is measured."""

from __future__ import annotations

import os
import platform

from benchmarks.figures import Figure, Row, Sizes

__all__ = ["head", "line"]

_WIDTHS = "{:<22}{:>8} {:<6}{:>8}{:>8}{:>7}  {:<6}{}"


def head(sizes: Sizes) -> str:
    """Say what is measured where, over the names of the columns."""
    return "\n".join(
        [
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
            f"{os.cpu_count()} cores; {sizes.steps:,} steps, median of {sizes.rounds} turns",
            "T is the cost of a bare trio task, measured by turns with the row in the same process.",
            "Medians are of processor time, with the wall clock's beside them; threads go by the wall.",
            "",
            _WIDTHS.format("row", "median", "", "least", "wall", "goal", "holds", "what"),
        ]
    )


def line(row: Row, figure: Figure) -> str:
    """Write a row."""
    goal = "" if row.goal is None else f"{row.goal:g}"
    holds = "" if row.goal is None else "yes" if figure.middle <= row.goal else "NO"
    name = "  " + row.name.partition("/")[2] if "/" in row.name else row.name
    what = f"{row.what} ({figure.note})" if figure.note else row.what
    wall = "" if figure.wall is None else _number(figure.wall)
    return _WIDTHS.format(
        name, _number(figure.middle), row.unit, _number(figure.least), wall, goal, holds, what
    )


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
