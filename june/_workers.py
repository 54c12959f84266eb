"""
Workers: pooled tasks, and what must be the same after each step that one runs.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import trio

from june._exceptions import without
from june.errors import StepError
from june.stepruns import StepRun, name_of


class Worker:
    """
    A pooled task, and what must be the same after each step that it runs.

    Steps that never wait are run by one task one after the other. What else is tied to the task that a step
    ran on (locks, tokens of capacity limiters) ends with the task, so a step that has waited, and could have
    got hold of such things, is the last that its task runs. An open cancel scope would cancel whatever the
    task runs next, and is looked for after every step.

    Attributes:
        task: The task.
        status: Its cancel status between steps: trio's innermost cancel scope around it. Private to trio, and
            the one thing that shows a scope left open without a scope of June's own around each step, which
            costs more than all else that a step costs.
        spoiled: Whether a step may have left something behind.
    """

    __slots__ = ("spoiled", "status", "task")

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.task = task
        self.status: Any = task._cancel_status
        self.spoiled = False

    def mend(self, one: StepRun, status: Any, error: BaseException | None) -> BaseException | None:
        """Leave the scopes that a step left open; give the error that this is, or the step's own."""
        task = self.task
        if task in LOCK_HOLDERS:
            self.spoiled = True
        if task._cancel_status is status and not task._child_nurseries:
            return error
        self.spoiled = True
        task._activate_cancel_status(status)
        if error is None or without(error, trio.Cancelled) is None:
            return StepError(
                f"step {name_of(one)} ended with a cancel scope or a nursery still open; "
                "leave each one before the step returns"
            )
        return error

    async def leave_nurseries(self, status: Any) -> None:
        """Cancel and close the nurseries that a step left open, or trio ends the run when the task ends."""
        for nursery in reversed(list(self.task._child_nurseries)):
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                try:
                    await nursery._nested_child_finished(None)
                except BaseException:
                    # The step has failed for what it left; what the children raised is lost with them.
                    pass
            self.task._activate_cancel_status(status)


def _lock_holders() -> Container[trio.lowlevel.Task]:
    """The tasks that hold a `trio.Lock` now; trio knows them since 0.28, to break locks that end held."""
    try:
        from trio._core._parking_lot import GLOBAL_PARKING_LOT_BREAKER
    except ImportError:
        return ()
    return GLOBAL_PARKING_LOT_BREAKER


LOCK_HOLDERS = _lock_holders()
