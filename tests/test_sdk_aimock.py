"""
The second judge: aimock, a mock server of others, where JUNE_AIMOCK names its command.

    npm install @copilotkit/aimock
    JUNE_AIMOCK=node_modules/.bin/llmock python -m pytest tests/test_sdk_aimock.py
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from june import Agent, ModelError, RunFailed, run, step, tool
from june.models import Model
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai

COMMAND = os.environ.get("JUNE_AIMOCK")

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not COMMAND, reason="JUNE_AIMOCK names no command"),
]

FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "hello"}, "response": {"content": "Hello from aimock"}},
        {
            "match": {"userMessage": "weather"},
            "response": {"toolCalls": [{"name": "get_weather", "arguments": '{"city":"Paris"}'}]},
        },
    ]
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server is, which is stopped after the tests."""
    assert COMMAND is not None  # or the tests are skipped
    path = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    path.write_text(json.dumps(FIXTURES))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([COMMAND, "-p", str(port), "-h", "127.0.0.1", "-f", str(path)])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert server.poll() is None
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def model(address: str, api: str, **options: Any) -> Model:
    if api == "messages":
        return anthropic("claude-3-5-sonnet-latest", base_url=address, api_key="k", **options)
    return openai("gpt-4o", base_url=f"{address}/v1", api_key="k", api=api, **options)  # type: ignore[arg-type]


def ask(model: Model, prompt: str, **options: Any) -> Any:
    @step(id="ask", agent=Agent(model, **options))
    def ask() -> str:
        return prompt

    return run(ask).result


APIS = pytest.mark.parametrize("api", ["chat", "responses", "messages"])


@APIS
def test_it_answers(address: str, api: str) -> None:
    """A plain answer, in each API's shape."""
    assert ask(model(address, api), "hello") == "Hello from aimock"


@APIS
def test_it_calls_tools(address: str, api: str) -> None:
    """A tool call arrives whole, with its arguments."""
    called = []

    @tool
    def get_weather(city: str) -> str:
        """Look at the sky."""
        called.append(city)
        return "sunny"

    # It calls the tool whatever it is told, so a limit ends it.
    with pytest.raises(RunFailed):
        ask(model(address, api), "weather", tools=[get_weather], max_turns=2)
    assert called == ["Paris"]


@APIS
@pytest.mark.parametrize(
    ("chaos", "said"),
    [
        (
            "disconnect",
            "gave no answer in 2 attempts; at the last one it gave no answer: RemoteProtocolError",
        ),
        ("ratelimit", "gave no answer in 2 attempts; at the last one it answered 429 (rate_limit_error"),
        (
            "malformed",
            "gave no answer in 2 attempts; at the last one it answered with application/json (28 bytes) in place",
        ),
    ],
)
def test_its_chaos_is_never_an_answer(address: str, api: str, chaos: str, said: str) -> None:
    """What goes wrong each time is tried again, and then said."""
    headers = {f"x-aimock-chaos-{chaos}": "1"}
    with pytest.raises(RunFailed) as failed:
        ask(model(address, api, headers=headers, retries=1), "hello")
    (error,) = failed.value.exceptions
    assert isinstance(error, ModelError) and said in str(error)
