"""
June: workflows whose finished steps are never paid for twice.

Functions decorated with `step` say by their parameters what they need. `run` makes a graph of them, runs it
on trio, and gives results with a snapshot, from which the next run reuses every step whose code and inputs
are still the same.
"""

from june._trampoline import CurrentStep, current
from june.agents import Agent
from june.approvals import ApprovalRequest
from june.declaring import step
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
from june.graphs import Graph
from june.handles import Handle, RunResult
from june.keys import versions
from june.messages import Image, Message, Settings, Usage
from june.retries import Retry
from june.running import RunOptions, open_run, run, run_async, run_resumable, run_resumable_async, start
from june.snapshots import Snapshot, SnapshotDiff
from june.steps import Step
from june.tools import tool
from june.traces import Trace, TraceNode, Update
from june.wiring import graph

__all__ = [
    "Agent",
    "ApprovalRejected",
    "ApprovalRequest",
    "CurrentStep",
    "Graph",
    "GraphError",
    "Handle",
    "Image",
    "InputError",
    "JobError",
    "JuneError",
    "Message",
    "ModelError",
    "ResultError",
    "ResultWarning",
    "Retry",
    "RunCancelled",
    "RunFailed",
    "RunInterrupted",
    "RunOptions",
    "RunResult",
    "Settings",
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
    "run_resumable",
    "run_resumable_async",
    "start",
    "step",
    "tool",
    "versions",
]
