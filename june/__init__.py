"""
June: workflows whose finished steps are never paid for twice.

Functions decorated with `step` say by their parameters what they need. `run` makes a graph of them, runs it
on trio, and gives results with a snapshot, from which the next run reuses every step whose code and inputs
are still the same.
"""

from june._trampoline import CurrentStep, current
from june.errors import (
    ApprovalRejected,
    GraphError,
    InputError,
    JobError,
    JuneError,
    ModelError,
    ResultError,
    ResultWarning,
    RunCancelled,
    RunFailed,
    RunInterrupted,
    SnapshotError,
    StepError,
    StepTimeoutError,
    ToolError,
)
from june.graphs import Graph, graph
from june.keys import versions
from june.messages import Usage
from june.running import Handle, RunOptions, RunResult, open_run, run, run_async, start
from june.snapshots import Snapshot, SnapshotDiff
from june.steps import Retry, Step, step
from june.traces import Trace, TraceNode, Update

__all__ = [
    "ApprovalRejected",
    "CurrentStep",
    "Graph",
    "GraphError",
    "Handle",
    "InputError",
    "JobError",
    "JuneError",
    "ModelError",
    "ResultError",
    "ResultWarning",
    "Retry",
    "RunCancelled",
    "RunFailed",
    "RunInterrupted",
    "RunOptions",
    "RunResult",
    "Snapshot",
    "SnapshotDiff",
    "SnapshotError",
    "Step",
    "StepError",
    "StepTimeoutError",
    "ToolError",
    "Trace",
    "TraceNode",
    "Update",
    "Usage",
    "current",
    "graph",
    "open_run",
    "run",
    "run_async",
    "start",
    "step",
    "versions",
]
