"""
Every error and warning that June raises.

::

    JuneError
    ├── GraphError          the steps do not make a graph (building)
    ├── InputError          what a run was given is wrong (starting)
    ├── SnapshotError       a snapshot cannot be used (loading)
    ├── ResultError         a result cannot be saved exactly (strict runs)
    ├── StepError           a step ended in a way that no exception of its own tells
    │   └── StepTimeoutError    ... it took longer than its timeout (a TimeoutError too)
    ├── ApprovalRejected    a person said no
    ├── ModelError          a model or its server failed
    ├── ToolError           a tool tells its model that it failed
    ├── JobError            a job or its backend failed
    ├── RunCancelled        the run was cancelled
    │   └── RunInterrupted  ... by Ctrl-C (a KeyboardInterrupt too)
    └── RunFailed           steps failed (an ExceptionGroup of their exceptions)

    ResultWarning           a result is not saved, and why (a UserWarning)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

__all__ = [
    "ApprovalRejected",
    "GraphError",
    "InputError",
    "JobError",
    "JuneError",
    "ModelError",
    "ResultError",
    "ResultWarning",
    "RunCancelled",
    "RunFailed",
    "RunInterrupted",
    "SnapshotError",
    "StepError",
    "StepTimeoutError",
    "ToolError",
]


class Record(Protocol):
    """What a run leaves behind, as an error that ends one carries it."""

    def snapshot(self) -> Any:
        """Return the run's snapshot."""

    @property
    def trace(self) -> Any:
        """The run's trace."""

    @property
    def usage(self) -> Any:
        """What the run's models have used."""

    @property
    def reused_usage(self) -> Any:
        """What had been used for the results that were reused."""


class JuneError(Exception):
    """The base of every error that June itself raises."""


class GraphError(JuneError):
    """
    The steps do not make a graph.

    The text lists every problem that was found, not only the first.

    Attributes:
        problems: One text for each problem, in the order in which they were found.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems: tuple[str, ...] = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        listed = "\n".join("- " + problem.replace("\n", "\n  ") for problem in self.problems)
        return f"{len(self.problems)} problems:\n{listed}"


class InputError(JuneError):
    """What a run was given (inputs, resources, overrides, options) does not fit its graph."""


class SnapshotError(JuneError):
    """A snapshot is not one, is damaged, or was written by a newer June."""


class ResultError(JuneError):
    """A step finished, but its result cannot be saved exactly, and the run is strict."""


class ResultWarning(UserWarning):
    """A step finished, but its result is not saved: it would not come back as it was."""


class StepError(JuneError):
    """A step ended in a way that no exception of its own can tell."""


class StepTimeoutError(StepError, TimeoutError):
    """An attempt at a step took longer than the step's ``timeout``."""


class ApprovalRejected(JuneError):
    """A person, or a policy in a person's place, said no to a step or a tool."""


class ModelError(JuneError):
    """
    A model, or the server it runs on, failed or gave an answer that cannot be used.

    Attributes:
        status: The HTTP status of the last answer, or None where there was none.
        text: The last text that the model gave, where that is what cannot be used; else None.
    """

    def __init__(self, message: str, status: int | None = None, text: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.status, self.text)


class ToolError(JuneError):
    """Raised by a tool to tell the model that called it what went wrong."""


class JobError(JuneError):
    """A job, or the backend that owns it, failed."""


class _Ended:
    """What every error that ends a run offers: the run's snapshot, trace and usage."""

    _record: Record

    def snapshot(self) -> Any:
        """
        Return the `june.Snapshot` of the run that ended: all that finished, and all that was not reached.

        Pass it to the next run as ``snapshot=`` to go on from there.
        """
        return self._record.snapshot()

    @property
    def trace(self) -> Any:
        """The `june.Trace` of the run that ended."""
        return self._record.trace

    @property
    def usage(self) -> Any:
        """The `june.Usage` of the run that ended."""
        return self._record.usage

    @property
    def reused_usage(self) -> Any:
        """What had been spent on the results that the run that ended found saved."""
        return self._record.reused_usage


class RunCancelled(_Ended, JuneError):
    """
    The run was cancelled: by `june.Handle.cancel`, by its deadline, or by Ctrl-C.

    The failures of steps that had failed before are its ``__cause__``.
    """

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message)
        self._record = record

    def __reduce__(self) -> tuple[Any, ...]:
        # The record holds live tasks' state and cannot travel; the message can.
        return JuneError, (str(self),)


class RunInterrupted(RunCancelled, KeyboardInterrupt):
    """The run was interrupted by Ctrl-C. It is a `KeyboardInterrupt` too."""


class RunFailed(_Ended, ExceptionGroup[Exception], JuneError):
    """
    One or more steps failed.

    It is an `ExceptionGroup` of the steps' own exceptions, each with a note that names its step, so
    ``except* httpx.HTTPError`` works. What ``except*`` splits off is a `RunFailed` too, and carries the
    same snapshot, trace and usage.
    """

    def __new__(cls, message: str, exceptions: Sequence[Exception], record: Record) -> Self:
        self = super().__new__(cls, message, exceptions)
        self._record = record
        return self

    def __init__(self, message: str, exceptions: Sequence[Exception], record: Record) -> None:
        super().__init__(message, exceptions)

    def derive(self, excs: Sequence[Exception]) -> RunFailed:  # type: ignore[override]  # narrower on purpose
        return RunFailed(self.message, excs, self._record)

    def __reduce__(self) -> tuple[Any, ...]:
        return ExceptionGroup, (self.message, list(self.exceptions))
