"""What the models of one run share: its HTTP clients."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import trio

from june import Agent, RunResult, run_async, step
from june.messages import Request, Response
from june.models import Model


class Speaks:
    """A model that has the run's client for some seconds, and notes which."""

    name = "speaks"
    settings_key = "speaks"

    def __init__(self, *seconds: float, wait: float = 0) -> None:
        self.seconds = seconds or (1.0,)
        self.wait = wait
        self.clients: list[httpx.AsyncClient] = []

    async def respond(self, request: Request) -> Response:
        for seconds in self.seconds:
            assert request.call is not None
            client = request.call.client
            assert not client.is_closed and client is request.call.client
            self.clients.append(client)
            await trio.sleep(seconds)
            if self.wait:
                await request.call.wait(self.wait, "it is busy")
        return Response(text="x")


async def asked(model: Model, count: int, **options: Any) -> RunResult[list[str]]:
    @step(id="ask", agent=Agent(model), each={"n": "ns"})
    def ask(n: int) -> str:
        return str(n)

    return await run_async(ask, inputs={"ns": list(range(count))}, **options)


async def test_requests_that_are_under_way_have_a_client_each(autojump_clock):
    """Each takes one that is free, as its connection is open; all are closed with the run."""
    model = Speaks()
    await asked(model, 9, concurrency=3)
    assert len(model.clients) == 9
    assert len(set(map(id, model.clients))) == 3
    assert all(client.is_closed for client in model.clients)


async def test_a_request_that_waits_lets_go_of_its_client(autojump_clock):
    """A thousand requests that wait for a busy provider hold no connections."""
    model = Speaks(1, 1, wait=100)
    await asked(model, 6, concurrency=2)
    assert len(model.clients) == 12
    assert len(set(map(id, model.clients))) == 2


async def test_no_client_is_made_for_a_model_that_asks_for_none(autojump_clock, monkeypatch):
    """Importing httpx takes as long as importing trio."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a client was made")

    monkeypatch.setattr(httpx, "AsyncClient", refuse)

    class Mute(Speaks):
        async def respond(self, request: Request) -> Response:
            return Response(text="x")

    assert (await asked(Mute(), 3)).result == ["x"] * 3


@pytest.mark.parametrize("how", ["hangs", "raises"])
async def test_a_client_that_does_not_close_holds_up_nothing(autojump_clock, monkeypatch, how: str):
    """What a connection does on its way out changes nothing for the run."""
    closed = []

    async def aclose(self: httpx.AsyncClient) -> None:
        closed.append(self)
        if how == "raises":
            raise httpx.CloseError("it is gone")
        await trio.sleep_forever()

    monkeypatch.setattr(httpx.AsyncClient, "aclose", aclose)
    model = Speaks()
    began = trio.current_time()
    assert (await asked(model, 3, concurrency=3)).result == ["x"] * 3
    assert len(closed) == 3
    assert trio.current_time() - began == (1 if how == "raises" else 2)
