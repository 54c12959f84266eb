"""Figures that only a fresh process can give: memory, growth, and the time of an import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figure, Sizes
from benchmarks.timing import Turn

__all__ = ["growth", "import_turn", "probe"]

_FOLDER = Path(__file__).resolve().parent.parent

_IMPORT = """
from time import perf_counter, process_time
wall, processor = perf_counter(), process_time()
import {name}
print(process_time() - processor, perf_counter() - wall)
"""


def _fresh(*arguments: str) -> str:
    """Run Python on *arguments*, and give what it printed."""
    # Compiled files are to be there, as they are for a user.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    if ended.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} failed:\n{ended.stderr}")
    return ended.stdout


def probe(name: str, *arguments: object) -> Any:
    """
    Call a function of `benchmarks.probes` in a fresh process.

    Args:
        name: The function's name.

        *arguments: What JSON can hold.

    Returns:
        What the function returned.
    """
    return json.loads(_fresh("-m", "benchmarks.probes", name, json.dumps(arguments)))


def growth(name: str, factor: int, sizes: Sizes) -> Figure:
    """
    Compare the cost of a step in a large graph with that in a small one, in fresh processes by turns.

    Args:
        name: The probe that measures it, by count, repeats and rounds.

        factor: How many times the usual number of steps the large graph has.

        sizes: What the small one has a tenth of.
    """
    small, large = max(1, sizes.steps // 10), sizes.steps * factor
    turns = 3 if factor <= 10 else 1
    small_costs = [probe(name, small, 100, 3)]
    large_costs = []
    for _ in range(turns):
        large_costs.append(probe(name, large, 1, turns))
        small_costs.append(probe(name, small, 100, 3))
    around = [(before + after) / 2 for before, after in pairwise(small_costs)]
    ratios = [one / beside for one, beside in zip(large_costs, around, strict=True)]
    note = f"{median(large_costs):.2f} T at {large:,}, {median(small_costs):.2f} T at {small:,}"
    return Figure(median(ratios), min(ratios), note=note)


def import_turn(name: str) -> Turn:
    """Time ``import name`` inside a fresh process, without the start of Python itself."""
    processor, wall = _fresh("-c", _IMPORT.format(name=name)).split()
    return Turn(float(processor), float(wall))
