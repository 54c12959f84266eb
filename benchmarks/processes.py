"""Figures that only a fresh process can give: memory, growth, and the time of an import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import Turn

__all__ = ["import_turn", "probe"]

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


def import_turn(name: str) -> Turn:
    """Time ``import name`` inside a fresh process, without the start of Python itself."""
    processor, wall = _fresh("-c", _IMPORT.format(name=name)).split()
    return Turn(float(processor), float(wall))
