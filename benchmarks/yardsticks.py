"""Yardsticks: what the rows are measured by."""

from __future__ import annotations

import msgspec
import trio

from benchmarks.timing import Work

__all__ = ["bare_tasks", "json_decode"]


async def _nothing() -> None:
    """Do what a no-op step does."""


async def _spawn(count: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(_nothing)


def bare_tasks(count: int) -> Work:
    """
    Start *count* tasks that do nothing in one nursery, and wait for them: one of them is 1 T.

    Starting and ending trio itself counts too, as it does in a row that calls ``june.run``.
    """
    return Work(do=lambda _: trio.run(_spawn, count), count=count)


def json_decode(data: bytes) -> Work:
    """Decode *data* with msgspec, into dicts and lists."""
    return Work(do=lambda _: msgspec.json.decode(data))
