"""
Small modules on disk, for what a function costs that June sees for the first time.

Each file holds one async step of 20 lines and the five helpers that it calls, as a person would write them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from june import Step

__all__ = ["import_steps"]

_TEXT = '''\
"""Scores lines of text, number {number}."""

from june import step

WEIGHT_{number} = {number} + 3


def cleaned(line):
    """Drop what surrounds the words."""
    return line.strip().lower()


def words(line):
    """Split a line, and leave short words out."""
    return [word for word in cleaned(line).split() if len(word) > {limit}]


def weight(word):
    """Weigh a word by its vowels."""
    return sum(word.count(vowel) for vowel in "aeiou") * WEIGHT_{number}


def score(line):
    """Score a line."""
    return sum(weight(word) for word in words(line)) + {number}


def best(scores):
    """Find the highest score, or zero."""
    return max(scores, default=0)


@step(id="report-{number}")
async def report(lines: int = 2) -> int:
    """Score some lines."""
    text = ["June is a month", "a step is a function", "a graph is plain wiring"]
    kept = []
    for position, line in enumerate(text):
        if position >= lines:
            break
        line = cleaned(line)
        if not words(line):
            continue
        value = score(line)
        if value > WEIGHT_{number}:
            kept.append(value)
        else:
            kept.append(weight(line) + {number})
    total = sum(kept)
    highest = best(kept)
    if highest > total:
        highest = total
    return total - highest
'''


def import_steps(folder: Path, first: int, count: int) -> list[Step[..., Any]]:
    """
    Write *count* modules into *folder*, import them, and give the step of each.

    Args:
        folder: Where the files go.

        first: Number of the first module; no two calls may share a number.

        count: How many modules.
    """
    steps: list[Step[..., Any]] = []
    for number in range(first, first + count):
        name = f"june_benchmark_{number}"
        path = folder / f"{name}.py"
        path.write_text(_TEXT.format(number=number, limit=number % 7), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None  # a path that ends in .py has both
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        steps.append(module.report)
    return steps


def forget_modules() -> None:
    """Take the modules out of `sys.modules` again."""
    for name in [name for name in sys.modules if name.startswith("june_benchmark_")]:
        del sys.modules[name]
