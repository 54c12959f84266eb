"""
The body of a request. Importing this imports httpx.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx


class Content(httpx.AsyncByteStream):
    """
    Bytes to be sent.

    httpx's own are read by a generator, which is left to the garbage collector where a request is given up in
    the middle; of that trio warns.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._data)


class _Once:
    def __init__(self, data: bytes) -> None:
        self._left: bytes | None = data

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> bytes:
        data, self._left = self._left, None
        if data is None:
            raise StopAsyncIteration
        return data
