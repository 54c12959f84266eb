"""Yardsticks: what the rows are measured by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import trio

from benchmarks.timing import Work

__all__ = ["bare_posts", "bare_tasks", "json_decode"]


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


async def _post_all(url: str, bodies: Sequence[Mapping[str, Any]], at_once: int, shared: bool) -> None:
    import httpx  # costs as much as trio, and most rows have no use for it

    context = httpx.create_ssl_context()
    headers = {"accept": "text/event-stream", "authorization": "Bearer none"}
    # By default httpx keeps 20 connections, and with more than these it closes and opens them all the time.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    left = iter(bodies)

    def new_client() -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=context, limits=limits, headers=headers)

    async def post(client: httpx.AsyncClient) -> None:
        for body in left:
            answer = await client.post(url, json=body)
            answer.raise_for_status()
            assert answer.content

    async def post_alone() -> None:
        async with new_client() as client:
            await post(client)

    async with new_client() as client, trio.open_nursery() as nursery:
        for _ in range(at_once):
            if shared:
                nursery.start_soon(post, client)
            else:
                nursery.start_soon(post_alone)


def bare_posts(url: str, bodies: Sequence[Mapping[str, Any]], at_once: int, *, shared: bool = True) -> Work:
    """
    Post *bodies* as JSON, and read each answer whole, without a look at what it says.

    Args:
        url: Where to.

        bodies: What is posted.

        at_once: How many tasks take the next body when they have their answer.

        shared: Whether they share one `httpx.AsyncClient`, as is usual, or have one each, in which no request
            looks for a connection among those of others. They are made anew in each turn, as a run of June's
            makes its own.
    """
    return Work(do=lambda _: trio.run(_post_all, url, bodies, at_once, shared), count=len(bodies))
