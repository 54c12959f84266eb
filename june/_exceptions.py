"""
Exceptions: looking into groups of them, and calls that nothing keeps from being made.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


def holds(error: BaseException, kind: type[BaseException]) -> bool:
    """Tell whether an exception is of *kind*, or a group with one that is."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kind) is not None
    return isinstance(error, kind)


def without(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Take the exceptions of *kind* out of a group, or give None if nothing else is there."""
    if isinstance(error, kind):
        return None
    if isinstance(error, BaseExceptionGroup):
        return error.split(kind)[1]
    return error


async def see_through(call: Callable[[], object], interrupted: Callable[[], object]) -> None:
    """
    Make a call in a thread, whatever comes meanwhile.

    Args:
        call: What to call.

        interrupted: Called before it if Ctrl-C came that trio has still to deliver. Trio does so where the
            main task is about to wait, and neither a shield nor its own protection keeps it off.
    """
    # Steps may have taken all the threads that trio gives out otherwise.
    limiter = trio.CapacityLimiter(1)
    with trio.CancelScope(shield=True):
        while True:
            try:
                await trio.to_thread.run_sync(call, limiter=limiter)
                return
            except KeyboardInterrupt:
                interrupted()
