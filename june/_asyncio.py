"""
An asyncio event loop in a thread of its own, for steps that need one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import trio

from june._threads import Deliver


class AsyncioThread:
    """
    Runs coroutines on asyncio. All methods are for trio's thread.

    The loop starts with the first coroutine.
    """

    def __init__(self, token: trio.lowlevel.TrioToken, deliver: Deliver) -> None:
        self._token = token
        self._deliver = deliver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tickets: dict[Any, asyncio.Task[Any] | None] = {}
        self._idle = trio.Event()
        self._closed = trio.Event()
        self._closing = False

    def submit(self, ticket: Any, make: Callable[[], Coroutine[Any, Any, Any]], context: Context) -> None:
        """Run the coroutine that *make* makes; *ticket* comes back with its outcome."""
        if self._loop is None:
            runner = asyncio.Runner()
            self._loop = runner.get_loop()
            threading.Thread(target=self._work, args=(runner,), name="june-asyncio", daemon=True).start()
        self._tickets[ticket] = None
        self._idle = trio.Event()
        self._loop.call_soon_threadsafe(self._begin, ticket, make, context)

    def cancel(self, ticket: Any) -> None:
        """Cancel the task of *ticket*; its outcome still comes back, when it has ended."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, ticket)

    async def close(self) -> None:
        """Cancel what still runs, wait until it has ended, and end the loop as `asyncio.run` does."""
        if self._loop is None:
            return
        for ticket in list(self._tickets):
            self.cancel(ticket)
        if self._tickets:
            await self._idle.wait()
        self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        await self._closed.wait()

    def _work(self, runner: asyncio.Runner) -> None:
        try:
            # A step may stop the loop, which is not its own.
            while not self._closing:
                runner.get_loop().run_forever()
        finally:
            # Tasks that steps have left behind are cancelled and waited for.
            runner.close()
            try:
                self._token.run_sync_soon(self._closed.set)
            except trio.RunFinishedError:
                pass

    def _begin(self, ticket: Any, make: Callable[[], Coroutine[Any, Any, Any]], context: Context) -> None:
        assert self._loop is not None  # submit() has started it
        task = self._loop.create_task(_outcome(make), context=context)
        self._tickets[ticket] = task
        task.add_done_callback(lambda task: self._ended(ticket, task))

    def _cancel(self, ticket: Any) -> None:
        task = self._tickets.get(ticket)
        if task is not None:
            task.cancel()

    def _ended(self, ticket: Any, task: asyncio.Task[tuple[Any, BaseException | None]]) -> None:
        value, error = (None, asyncio.CancelledError()) if task.cancelled() else task.result()
        try:
            self._token.run_sync_soon(self._hand_over, ticket, value, error)
        except trio.RunFinishedError:
            pass

    def _hand_over(self, ticket: Any, value: Any, error: BaseException | None) -> None:
        del self._tickets[ticket]
        if not self._tickets:
            self._idle.set()
        self._deliver(ticket, value, error)


async def _outcome(make: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, BaseException | None]:
    """Run a coroutine; give what it raised rather than raise it, as SystemExit would end the loop."""
    try:
        return await make(), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
