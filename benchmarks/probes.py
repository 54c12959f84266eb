"""Probes: what `benchmarks.processes.probe` runs in a fresh process, one function each."""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import peers_prompting, peers_saving
from benchmarks.folders import temporary_folder
from benchmarks.graphs import wide
from benchmarks.timing import Work, compare
from benchmarks.yardsticks import bare_tasks
from june import RunResult, Snapshot, graph, run, run_resumable

__all__ = ["fresh", "memory", "resumable", "reused"]

_TASKS = 10_000
"""How many bare tasks make a turn of the yardstick, whatever the number of steps."""


def _all_in(steps: list[Any]) -> bytes:
    """Build the graph of *steps*, run it, and write its snapshot."""
    return run(graph(steps)).snapshot().to_json()


def fresh(count: int, repeats: int, rounds: int) -> float:
    """
    Build the graph of *count* steps made beforehand, run it and write its snapshot.

    Args:
        count: How many steps.

        repeats: How often in one turn, so that few steps take long enough to be timed.

        rounds: How many turns.

    Returns:
        The cost of a step in T.
    """
    steps = wide(count)

    def work(nothing: None) -> None:
        for _ in range(repeats):
            _all_in(steps)

    return median(compare(Work(do=work, count=count * repeats), bare_tasks(_TASKS), rounds).processor)


def reused(count: int, repeats: int, rounds: int) -> float:
    """
    Load a snapshot of *count* steps, build their graph, run it, which reuses all, and read every result.

    Takes and gives what `fresh` does.
    """
    steps = wide(count)
    data = _all_in(steps)

    def work(nothing: None) -> None:
        for _ in range(repeats):
            results = run(graph(steps), snapshot=Snapshot.from_json(data)).steps
            assert len(results) == count

    return median(compare(Work(do=work, count=count * repeats), bare_tasks(_TASKS), rounds).processor)


def resumable(count: int, repeats: int, rounds: int) -> float:
    """
    Run the graph of *count* steps, built beforehand, with `run_resumable`, which removes its file at the end.

    Takes and gives what `fresh` does.
    """
    built = graph(wide(count))
    with temporary_folder() as folder:

        def work(nothing: None) -> None:
            for _ in range(repeats):
                run_resumable(built, path=folder / "run.json")

        return median(compare(Work(do=work, count=count * repeats), bare_tasks(_TASKS), rounds).processor)


def memory(count: int, traced: bool) -> float:
    """
    Hold *count* bound copies, their graph, and its finished run with all results read.

    Args:
        count: How many steps.

        traced: Whether to sum up what Python has allocated (`tracemalloc`), rather than the pages of the
            process that are in memory.

    Returns:
        Bytes a step.
    """
    _hold(100)
    gc.collect()
    if traced:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
    else:
        before = _resident()
    held = _hold(count)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if traced else _resident()
    assert len(held[1].snapshot()) == count
    return (after - before) / count


def _hold(count: int) -> tuple[list[Any], RunResult[Any]]:
    steps = wide(count)
    result = run(graph(steps))
    assert len(result.steps) == count
    return steps, result


def _resident() -> int:
    """Give the bytes of this process that are in memory (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def main(name: str, arguments: str) -> None:
    """Call the probe *name* with a JSON list of arguments, and print what it returns as JSON."""
    probes: dict[str, Any] = {
        "dbos": peers_saving.dbos_first,
        "fresh": fresh,
        "langgraph": peers_saving.langgraph_first,
        "langgraph-prompts": peers_prompting.langgraph_prompts,
        "memory": memory,
        "pydantic-ai-prompts": peers_prompting.pydantic_ai_prompts,
        "resumable": resumable,
        "reused": reused,
    }
    print(json.dumps(probes[name](*json.loads(arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
