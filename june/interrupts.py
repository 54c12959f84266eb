"""
Ctrl-C: what it does while a run is on.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import FrameType
from typing import Any

import trio


@contextmanager
def ctrl_c() -> Iterator[None]:
    """
    See to it that Ctrl-C raises KeyboardInterrupt here.

    `asyncio.run` has it cancel the main task, which does nothing while this thread waits for something else.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.default_int_handler, signal.SIG_IGN, signal.SIG_DFL, None):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Have SIGTERM, which ends a process without a word, do what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # So a script starts things in the background. Ctrl-C stays unheard, but there is now what to call.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def came(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, came)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_SAME_SECONDS = 0.1
"""
What comes so soon after the first is the same one: `timeout` of GNU coreutils, and supervisors, signal a
process and then its group.
"""


class LeftAtOnce(KeyboardInterrupt):
    """Ctrl-C came a second time."""


def run_until_ctrl_c_twice(run: Callable[[], Awaitable[None]], interrupt: Callable[[], object]) -> None:
    """
    Run something on trio. The first Ctrl-C interrupts it; at the second one, all of it is left at once.

    Args:
        run: What to run.

        interrupt: Called on the event loop at the first Ctrl-C. Trio raises KeyboardInterrupt where it comes
            in a task, which may be slow to end by it, and knows of no others.

    Raises:
        LeftAtOnce: On the second Ctrl-C.
        KeyboardInterrupt: On the first, if it came too late for *run*.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        trio.run(run)
        return
    twice = _TwiceClock(interrupt)
    try:
        trio.run(twice.run, run, clock=twice)
    except (trio.TrioInternalError, KeyboardInterrupt):
        if twice.count < 2:
            raise
        raise LeftAtOnce from None
    finally:
        signal.signal(signal.SIGINT, before)


class _TwiceClock(trio.abc.Clock):
    """
    Counts Ctrl-C, and at the second one brings the event loop down, whatever its tasks say.

    It is the loop's clock, as trio asks that at every turn: what it raises there is no task's to catch, and
    trio tidies up after itself.
    """

    def __init__(self, interrupt: Callable[[], object]) -> None:
        self.count = 0
        self._came_at = 0.0
        self._interrupt = interrupt
        # As with trio's own clock, nobody should take its time for another clock's.
        self._offset = random.uniform(10_000, 1_000_000)

    @trio.lowlevel.enable_ki_protection
    async def run(self, run: Callable[[], Awaitable[None]]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._first: Any = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._came)
        await run()

    def _came(self, number: int, frame: FrameType | None) -> None:
        now = perf_counter()
        if self.count == 1 and now - self._came_at < _SAME_SECONDS:
            return
        self._came_at = now
        self.count += 1
        try:
            # This also wakes the loop.
            self._token.run_sync_soon(self._interrupt)
        except trio.RunFinishedError:
            pass
        if self.count == 1:
            self._first(number, frame)
        elif _in_a_task():
            # Or the loop would not come round.
            raise KeyboardInterrupt

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        if self.count > 1:
            raise KeyboardInterrupt
        return self._offset + perf_counter()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


def _in_a_task() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
