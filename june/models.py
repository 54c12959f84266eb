"""
Models: what June asks of one, and what one may ask of the run that it answers in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import trio

from june.errors import ModelError
from june.messages import Request, Response, Usage

if TYPE_CHECKING:
    import httpx

__all__ = ["Call", "Model"]


@runtime_checkable
class Model(Protocol):
    """
    A model that answers requests; `june.sdk` has those of some providers.

    Attributes:
        name: What to call it: the provider's name of it.

        settings_key: What, together with a step's `june.Settings`, makes it answer as it does, as values that
            JSON can hold: the provider and the name, mostly. It is part of cache keys, so it must not have
            secrets, addresses, timeouts or the like.
    """

    @property
    def name(self) -> str: ...

    @property
    def settings_key(self) -> Any: ...

    async def respond(self, request: Request) -> Response:
        """
        Answer a request.

        Retries of what may pass are the model's own business, as only it knows what may.

        Raises:
            ModelError: If there is no answer; the text says why, in the provider's own words if it has any.
        """


class Call(Protocol):
    """
    What a model may ask of the run, as ``request.call``.

    Attributes:
        client: An HTTP client of the run's, for this request alone until it is answered or in a `wait`. It is
            closed with the run.
    """

    @property
    def client(self) -> httpx.AsyncClient: ...

    def text(self, delta: str) -> None:
        """Say that the answer goes on with *delta*; it reaches ``on_update``."""

    def restart(self) -> None:
        """Say that what `text` was told counts for nothing: the answer is asked for anew."""

    def spent(self, usage: Usage) -> None:
        """Count what an attempt used that came to nothing. The answer's own usage is counted by June."""

    async def wait(self, seconds: float, why: str) -> None:
        """
        Wait before another attempt, without holding the step's slot, which others get meanwhile.

        Where the wait is cut short, as by a timeout of the model's own, the step may be without its slot
        until its next request or tool call.
        """


_blocked = 0


def check_allowed(model: Model, why: str | None) -> None:
    """
    Check that a model may be asked: where `june.testing.block_models` is in force, only scripted ones may.

    Args:
        model: The model.
        why: Why it is asked, though there may be a saved answer; None is not known.

    Raises:
        ModelError: If it may not.
    """
    if _blocked and not getattr(model, "scripted", False):
        because = "" if why is None else f" ({why})"
        raise ModelError(
            f"model {model.name!r} was about to be asked{because}, "
            "where june.testing.block_models() forbids it"
        )


@contextmanager
def blocked() -> Iterator[None]:
    """Let no model be asked meanwhile, in any thread, but scripted ones."""
    global _blocked
    with _lock:
        _blocked += 1
    try:
        yield
    finally:
        with _lock:
            _blocked -= 1


_lock = threading.Lock()


class Alone:
    """A `Call` outside of a run, as where a model is tried by hand."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    @property
    def client(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            self._client = httpx.AsyncClient()
        return self._client

    def text(self, delta: str) -> None:
        """Nobody hears of it."""

    def restart(self) -> None:
        """Nobody heard of it."""

    def spent(self, usage: Usage) -> None:
        """Nobody counts."""

    async def wait(self, seconds: float, why: str) -> None:
        """Wait."""
        await trio.sleep(seconds)
