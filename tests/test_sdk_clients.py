"""Model clients: the HTTP clients that users give them, and the guard against real models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import trio

from june import Agent, ModelError, RunFailed, run, step
from june.messages import Request, Response
from june.sdk.local import local
from june.testing import block_models
from tests.sdk_servers import APIS, LABELS, Call, Server, answered, events_of, model_of, request_of, sse

each_api = pytest.mark.parametrize("api", APIS)


@each_api
@pytest.mark.parametrize(
    ("client", "said"),
    [
        (httpx.Client(), "httpx.Client"),
        (httpx.AsyncClient, "builtins.type"),
        ("client", "builtins.str"),
    ],
)
def test_what_is_no_async_client_is_refused_where_the_model_is_made(api, client, said):
    """A client for functions that wait cannot be awaited."""
    with pytest.raises(TypeError) as caught:
        model_of(api, client=client)
    assert str(caught.value) == f"client must be an httpx.AsyncClient, not {said}"


@each_api
async def test_a_client_that_was_closed_is_said_to_be(api):
    """It is not asked again, as it stays closed."""
    server = Server()
    await server.client.aclose()
    with pytest.raises(ModelError) as caught:
        await model_of(api, server).respond(request_of())
    assert str(caught.value) == (
        f"{LABELS[api]} cannot be asked: the HTTP client that it was given (client=) has been closed."
    )


class Answers(BaseHTTPRequestHandler):
    """Answers every request, and keeps its connection open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = sse(*events_of("chat", "Hello there."))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(name="address")
def fixture_address() -> Iterator[str]:
    """A server on loopback, in a thread: it outlives event loops."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_client_whose_connections_belong_to_another_event_loop_is_said_to_be_the_trouble(address):
    """As one that was used with asyncio before; the next run of trio's may use the connections of the last."""
    client = httpx.AsyncClient(trust_env=False)
    model = model_of("chat", base_url=address, client=client)

    async def ask() -> str:
        return (await model.respond(request_of())).text

    async def close() -> None:
        await client.aclose()

    assert trio.run(ask) == trio.run(ask) == "Hello there."
    trio.run(close)
    client = httpx.AsyncClient(trust_env=False)
    model = model_of("chat", base_url=address, client=client)

    async def used_before() -> None:
        await client.post(f"{address}/chat/completions", content=b"{}")
        with pytest.raises(ModelError) as caught:
            await asyncio.to_thread(trio.run, ask)
        assert str(caught.value) == (
            "openai('gpt-5-mini') cannot be asked: the HTTP client that it was given (client=) raised RuntimeError: "
            "no running event loop. If it was used in another event loop before, its connections belong to that one; "
            "make a client for each run, or leave client= out."
        )
        await client.aclose()

    asyncio.run(used_before())


async def test_what_the_client_of_a_run_raises_is_a_fault_of_june():
    """It is not told as the user's."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise RuntimeError("odd")

    server = Server(fail)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="odd"):
        await model_of("chat").respond(request_of(call=Call(server.client)))


# The guard.


class Routed:
    """A user's model that asks another one."""

    name = "router"
    settings_key = "router"
    scripted = True

    def __init__(self, model: Any) -> None:
        self._model = model

    async def respond(self, request: Request) -> Response:
        response: Response = await self._model.respond(request)
        return response


@each_api
@pytest.mark.parametrize("wrapped", [False, True])
def test_no_model_is_asked_where_models_are_blocked(api, wrapped, tmp_path):
    """Not through a model of the user's own either, and the error is told once."""
    server = Server(answered(api))
    (tmp_path / "weights.gguf").write_bytes(b"GGUF")
    for model, name in (
        (model_of(api, server), model_of(api).name),
        (local(tmp_path / "weights.gguf"), "weights.gguf"),
    ):
        agent = Agent(Routed(model) if wrapped else model)

        @step(id="ask", agent=agent)
        def ask() -> str:
            return "Hello"

        with block_models(), pytest.raises(RunFailed) as failed:
            run(ask)
        (error,) = failed.value.exceptions
        why = "" if wrapped else " (no saved result)"
        assert str(error) == (
            f"model {name!r} was about to be asked{why}, where june.testing.block_models() forbids it"
        )
    assert not server.requests
