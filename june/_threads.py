"""
Threads for steps that are plain functions.

`trio.to_thread.run_sync` costs a task and two hops for each call. These threads take calls from one queue
and hand results back in batches: while many steps finish, the event loop is woken once for all of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import trio

Deliver = Callable[[Any, Any, BaseException | None], None]


class Threads:
    """
    A pool that grows with the calls that are under way and is never waited for.

    All methods are for the event loop's thread.
    """

    def __init__(self, token: trio.lowlevel.TrioToken, deliver: Deliver) -> None:
        """
        Args:
            token: Names the event loop.

            deliver: Called on the loop with the ticket of a call, and its value or what it raised.
        """
        self._token = token
        self._deliver = deliver
        self._calls: SimpleQueue[tuple[Any, Callable[[], Any]] | None] = SimpleQueue()
        self._outcomes: deque[tuple[Any, Any, BaseException | None]] = deque()
        self._under_way = 0
        self._count = 0
        self._draining = False

    def submit(self, ticket: Any, call: Callable[[], Any]) -> None:
        """
        Have a thread make *call*; *ticket* comes back with its outcome.

        Raises:
            RuntimeError: If no thread can be started.
        """
        if self._under_way >= self._count:
            threading.Thread(target=self._work, name=f"june-{self._count + 1}", daemon=True).start()
            self._count += 1
        self._under_way += 1
        self._calls.put((ticket, call))

    def close(self) -> None:
        """Let the threads end when they have nothing more to do."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            ticket, call = item
            try:
                value, error = call(), None
            except BaseException as raised:
                value, error = None, raised
            self._outcomes.append((ticket, value, error))
            # A thread between two calls must keep nothing alive.
            del item, ticket, call, value, error
            # Appended before the flag is read, and cleared before the outcomes are: none is left behind.
            if not self._draining:
                self._draining = True
                try:
                    self._token.run_sync_soon(self._drain)
                except trio.RunFinishedError:
                    return

    def _drain(self) -> None:
        self._draining = False
        outcomes = self._outcomes
        while outcomes:
            ticket, value, error = outcomes.popleft()
            self._under_way -= 1
            self._deliver(ticket, value, error)
