"""An API key is in nothing that a run says, writes, raises or leaves behind."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import httpx
import pytest

from june import Agent, RunFailed, run, run_resumable, step
from june.models import Model
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai

KEY = "sk-not-to-be-seen-0123456789"


def echoing(request: httpx.Request) -> httpx.Response:
    """A server that tells whoever asks all that it was sent, the key included."""
    said = json.dumps(
        {"error": {"message": f"bad key {KEY}: {dict(request.headers)}", "type": "auth", "code": KEY}}
    )
    return httpx.Response(401, content=said, headers={"x-echo": KEY})


def breaking(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"cannot connect with {request.headers}", request=request)


def models(client: httpx.AsyncClient) -> list[Model]:
    return [
        openai("gpt", api_key=KEY, client=client, retries=0),
        openai("gpt", api="chat", api_key=KEY, client=client, retries=0),
        openai("gpt", base_url=f"http://user:{KEY}@127.0.0.1:1/v1", api_key=KEY, client=client, retries=0),
        anthropic("claude", api_key=KEY, client=client, retries=0),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("serve", [echoing, breaking])
def test_a_key_is_nowhere(tmp_path: Path, caplog: Any, capfd: Any, serve: Any, number: int) -> None:
    """Errors with their causes and tracebacks, traces, snapshots, updates, logs and output: none has the key."""
    caplog.set_level(logging.DEBUG)
    model = models(httpx.AsyncClient(transport=httpx.MockTransport(serve)))[number]
    seen: list[str] = [repr(model), str(model), repr(vars(model)) if hasattr(model, "__dict__") else ""]

    @step(id="first")
    def first() -> str:
        return "hello"

    @step(id="ask", agent=Agent(model, instructions="Be brief."))
    def ask(first: str) -> str:
        return first

    def on_update(update: Any) -> None:
        seen.append(repr(update))
        seen.append(json.dumps(update.node.to_dict()))

    with pytest.raises(RunFailed) as failed:
        run_resumable(ask, path=tmp_path / "run.json", on_update=on_update)
    error = failed.value
    seen.append("".join(traceback.format_exception(error)))
    seen.append("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
    seen.append(error.trace.to_json().decode() + str(error.trace) + repr(error.trace.nodes))
    seen.append(error.snapshot().to_json().decode())
    seen.append(repr(pickle.dumps(error)))
    for one in error.exceptions:
        seen += [
            repr(one),
            str(one),
            repr(vars(one)),
            repr(one.args),
            repr(one.__cause__),
            repr(one.__context__),
        ]
    seen += [path.read_text() for path in tmp_path.iterdir()]
    seen.append(caplog.text)
    seen.append("".join(capfd.readouterr()))
    for text in seen:
        assert KEY not in text


def test_a_key_is_in_no_cache_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever key, address or client a model is made with, what it has answered is reused."""

    def answer(request: httpx.Request) -> httpx.Response:
        events = [
            {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return httpx.Response(200, content=text, headers={"content-type": "text/event-stream"})

    def asked(**options: Any) -> Any:
        @step(id="ask", agent=Agent(openai("gpt", **options)))
        def ask() -> str:
            return "hello"

        return ask

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    first = run(asked(api="chat", api_key=KEY, client=client))
    assert first.result == "hi"
    for options in (
        {"api_key": "another"},
        {"base_url": "http://127.0.0.1:9/v1"},
        {"timeout": 3},
        {"retries": 9},
        {"headers": {"x": "y"}},
        {"client": httpx.AsyncClient()},
    ):
        assert run(asked(**options), snapshot=first).trace.node("ask").resumed, options
