"""
Peers beside `june.run_resumable`: no-op steps done for the first time, each result kept as it finishes.

Each keeps it in its own way, and waits for the disk in its own way, which their rows tell. LangGraph and DBOS
are measured in a process of their own, with bare tasks beside them there as everywhere: what they import and
the threads that they start are to slow nothing else down.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import attrs

from benchmarks.figures import Figure, Row, Sizes, times
from benchmarks.folders import temporary_folder
from benchmarks.processes import probe
from benchmarks.timing import Work, compare
from benchmarks.yardsticks import bare_tasks

__all__ = ["dbos_first", "langgraph_first", "saving_rows"]


def saving_rows() -> Sequence[Row]:
    """The rows of those that are installed; all stand beside ``resumable``."""
    found: list[Row] = []
    if importlib.util.find_spec("joblib"):
        found.append(_JOBLIB)
    if importlib.util.find_spec("langgraph") and importlib.util.find_spec("langgraph.checkpoint.sqlite"):
        found.append(_LANGGRAPH)
    if importlib.util.find_spec("dbos"):
        found.append(_DBOS)
    return found


def _no_op(number: int) -> int:
    return 1


def _joblib_first(sizes: Sizes) -> Figure:
    import joblib

    with temporary_folder() as folder:
        call = joblib.Memory(folder, verbose=0).cache(_no_op)
        numbers = count()

        def calls(nothing: None) -> None:
            for _ in range(sizes.peer_steps):
                call(next(numbers))

        work = Work(do=calls, count=sizes.peer_steps)
        return times(compare(work, bare_tasks(sizes.steps), min(sizes.rounds, 5)))


def _in_its_process(name: str, sizes: Sizes) -> Figure:
    return Figure(*probe(name, sizes.peer_steps, sizes.steps, min(sizes.rounds, 5)))


def langgraph_first(steps: int, tasks: int, rounds: int) -> tuple[Any, ...]:
    """
    Run an entrypoint that calls *steps* tasks, and then takes their results; each turn is a new thread.

    Args:
        steps: How many steps.

        tasks: How many bare tasks make a turn of the yardstick.

        rounds: How many turns.

    Returns:
        The fields of a `Figure`.
    """
    # Before the import: what it runs is to be told to nobody.
    os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.func import entrypoint, task

    leaf = task(_no_op)
    with temporary_folder() as folder, SqliteSaver.from_conn_string(str(folder / "run.sqlite")) as saver:

        @entrypoint(checkpointer=saver)
        def collect(number: int) -> int:
            futures = [leaf(one) for one in range(number)]
            return sum(future.result() for future in futures)

        def invoke(nothing: None) -> None:
            thread = {"configurable": {"thread_id": str(uuid4())}}
            assert collect.invoke(steps, thread, durability="sync") == steps

        work = Work(do=invoke, count=steps)
        return attrs.astuple(times(compare(work, bare_tasks(tasks), rounds)))


def dbos_first(steps: int, tasks: int, rounds: int) -> tuple[Any, ...]:
    """
    Run a workflow that calls *steps* steps one after another; each turn is a new workflow.

    Takes and gives what `langgraph_first` does.
    """
    from dbos import DBOS

    leaf = DBOS.step()(_no_op)

    @DBOS.workflow()
    def collect(number: int) -> int:
        return sum(leaf(one) for one in range(number))

    def start(nothing: None) -> None:
        assert collect(steps) == steps

    with temporary_folder() as folder:
        # It listens to nobody, and without a key it calls no conductor.
        DBOS(
            config={
                "name": "june-benchmark",
                "system_database_url": f"sqlite:///{folder / 'run.sqlite'}",
                "enable_otlp": False,
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        try:
            work = Work(do=start, count=steps)
            return attrs.astuple(times(compare(work, bare_tasks(tasks), rounds)))
        finally:
            DBOS.destroy()


_JOBLIB = Row(
    name="resumable/joblib",
    what="joblib: a first call through Memory on disk: files without fsync, no graph, fewer calls",
    unit="T",
    measure=_joblib_first,
)

_LANGGRAPH = Row(
    name="resumable/langgraph",
    what="LangGraph: a task of an entrypoint, SqliteSaver with fsync at each commit, fewer tasks",
    unit="T",
    measure=partial(_in_its_process, "langgraph"),
)

_DBOS = Row(
    name="resumable/dbos",
    what="DBOS: a step of a workflow, SQLite with fsync at each commit, fewer steps",
    unit="T",
    measure=partial(_in_its_process, "dbos"),
)
