"""
Every fault that llmock can make, against every API, judged by llmock.

llmock is a server of others that speaks the APIs of providers, fails as it is told to, and judges what its
client made of that. ``python -m tests.llmock_matrix`` prints its verdicts as a table.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import attrs
import httpx
import trio

from june import ModelError, Usage
from june.messages import Message, Request, Response, Settings, ToolCall, ToolResult, ToolSpec
from june.models import Model
from june.sdk import _failures
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai

APIS = ("responses", "chat", "messages")

KEY = "sk-of-the-matrix-0123456789"

TIMEOUT = 0.4
"""For how many seconds the server may say nothing."""

WEATHER = ToolSpec(
    name="weather",
    description="Tell the weather in a city.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


@contextmanager
def llmock(*flags: str, count: int = 1) -> Iterator[list[str]]:
    """
    Run servers, and give their addresses; they are ended by their process ids.

    They take 10 ms over each chunk. One that writes a whole stream at once cannot tell whether its client has
    stopped reading at a broken chunk.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LLMOCK_")}
    addresses = []
    with ExitStack() as stack:
        for _ in range(count):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            command = [sys.executable, "-m", "llmock.cli", "serve", "--port", port, "--log-level", "warning"]
            command += ["--stream-chunk-delay-ms", "10", *flags]
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet, stdin=quiet)
            stack.callback(_end, process)
            addresses.append((process, f"http://127.0.0.1:{port}"))
        for process, address in addresses:
            _wait_for(process, address)
        yield [address for _, address in addresses]


def _wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(f"{address}/health", timeout=2, trust_env=False).raise_for_status()
            return
        except httpx.HTTPError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def even_waits() -> Iterator[None]:
    """
    Have waits that are shorter than usual, and not drawn.

    Of two drawn ones the second can, very rarely, be hardly longer than the first, which llmock takes for a
    constant interval.
    """
    even = SimpleNamespace(uniform=lambda least, most: least + 0.6 * (most - least))
    with patch.object(_failures, "random", even), patch.object(_failures, "FIRST_PAUSE", 0.2):
        yield


def model_of(api: str, address: str, name: str = "mock-1", **options: Any) -> Model:
    """Make a model that llmock answers for."""
    options = {"api_key": KEY, "timeout": TIMEOUT, **options}
    if api == "messages":
        return anthropic(name, base_url=f"{address}/anthropic", **options)
    return openai(name, base_url=f"{address}/v1", api=api, **options)


class Call:
    """A `june.models.Call` that really waits, and notes what it is told."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.told = ""
        self.used = Usage()
        self.waits: list[float] = []

    def text(self, delta: str) -> None:
        self.told += delta

    def restart(self) -> None:
        self.told = ""

    def spent(self, usage: Usage) -> None:
        self.used += usage

    async def wait(self, seconds: float, why: str) -> None:
        self.waits.append(seconds)
        await trio.sleep(seconds)


@attrs.frozen
class Fault:
    """
    A line of the matrix.

    Attributes:
        name: What it is called.
        behaviors: What llmock is told to do, in its own words.
        attempts: How many requests it is to get.
        raises: The status of the `june.ModelError` that is to come, or None for an answer.
        tools: Whether the model is offered a tool.
        options: Arguments for the model.
    """

    name: str
    behaviors: Sequence[dict[str, Any]] = ()
    attempts: int = 1
    raises: int | None = None
    tools: bool = False
    options: dict[str, Any] = attrs.field(factory=dict)


def _fail(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, **more}


def _broken(kind: str, after: int, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


_TWO_CALLS = {
    "type": "reply",
    "tool_calls": [
        {"name": "weather", "arguments": {"city": "Paris" * 40}},
        {"name": "weather", "arguments": {}},
    ],
    "times": 3,
}


def _text(kind: str) -> list[dict[str, Any]]:
    # Long enough for a busy server to see that its client has stopped reading.
    text = "It is a sunny day, " * 3 + "and it will stay one."
    return [{"type": "reply", "text": text, "times": 4}] if kind == "malformed" else []


FAULTS = (
    Fault("none"),
    Fault("429, Retry-After", [_fail(429, retry_after=0.3)], 2),
    Fault("429, Retry-After, twice", [_fail(429, retry_after=0.3, times=2)], 3),
    Fault("429, Retry-After of 1 s", [_fail(429)], 2),
    Fault("408", [_fail(408)], 2),
    Fault("409", [_fail(409)], 2),
    Fault("500", [_fail(500)], 2),
    Fault("500, twice", [_fail(500, times=2)], 3),
    Fault("501", [_fail(501)], 2),
    Fault("502", [_fail(502)], 2),
    Fault("503, Retry-After", [_fail(503, retry_after=0.1)], 2),
    Fault("504, Retry-After", [_fail(504, retry_after=0.1)], 2),
    Fault("529, Retry-After", [_fail(529, retry_after=0.1)], 2),
    Fault("500, 429, 503", [_fail(500), _fail(429, retry_after=0.1), _fail(503, retry_after=0.1)], 4),
    Fault("outage", [_fail(500, times=None)], 3, raises=500, options={"retries": 2}),
    Fault("slow to answer", [{"type": "delay", "seconds": 0.2}]),
    Fault("too slow to answer", [{"type": "delay", "seconds": 0.7}], 2),
    Fault("slow first token", [{"type": "slow_first_token", "seconds": 0.25}]),
    Fault("too slow first token", [{"type": "slow_first_token", "seconds": 20}], 2),
    *(
        Fault(f"{kind} after {after}", [*_text(kind), _broken(kind, after, stall_seconds=20)], 2)
        for kind in ("disconnect", "truncate", "malformed", "stall")
        for after in (0, 1, 4)
    ),
    *(
        Fault(f"{kind}, twice", [*_text(kind), _broken(kind, 3, times=2)], 3)
        for kind in ("disconnect", "truncate", "malformed")
    ),
    Fault("short stall", [_broken("stall", 2, stall_seconds=0.25)]),
    Fault(
        "all breaks",
        [*_text("malformed"), _broken("disconnect", 2), _broken("truncate", 3), _broken("malformed", 4)],
        4,
    ),
    Fault("tool call", [], tools=True),
    Fault("two tool calls", [_TWO_CALLS], tools=True),
    Fault("tool call, disconnect", [_TWO_CALLS, _broken("disconnect", 4)], 2, tools=True),
    Fault("tool call, truncate", [_TWO_CALLS, _broken("truncate", 5)], 2, tools=True),
    Fault("tool call, malformed", [_TWO_CALLS, _broken("malformed", 4)], 2, tools=True),
    Fault("tool call, stall", [_TWO_CALLS, _broken("stall", 3, stall_seconds=20)], 2, tools=True),
    Fault("arguments are no JSON", [{"type": "tool_fault", "kind": "malformed_arguments"}], tools=True),
    Fault("unknown tool", [{"type": "tool_fault", "kind": "unknown_tool"}], tools=True),
    Fault("cut off", [{"type": "reply", "text": "It is", "finish_reason": "length"}]),
    Fault("held back", [{"type": "reply", "text": "It is", "finish_reason": "content_filter"}]),
    Fault("too long a prompt", [_fail(400, code="context_length_exceeded")], raises=400),
    *(
        Fault(str(status), [_fail(status)], raises=status)
        for status in (400, 401, 402, 403, 404, 405, 410, 413, 415, 418, 422)
    ),
)


@attrs.frozen
class Outcome:
    """
    What came of a fault.

    Attributes:
        answer: The answer, or what was raised.
        told: The text that was told while it came.
        used: What attempts used that came to nothing.
        waits: The waits between the attempts, in seconds.
        requests: The requests as llmock saw them.
        findings: What llmock finds wrong with them.
    """

    answer: Response | ModelError
    told: str
    used: Usage
    waits: list[float]
    requests: list[dict[str, Any]]
    findings: list[dict[str, Any]]


@asynccontextmanager
async def http_client() -> AsyncIterator[httpx.AsyncClient]:
    """Give a client that no setting of the machine reroutes."""
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


async def try_out(fault: Fault, api: str, address: str) -> Outcome:
    """Have a model meet a fault."""
    async with http_client() as client:
        (await client.post(f"{address}/_llmock/reset")).raise_for_status()
        if fault.behaviors:
            behaviors = {"behaviors": list(fault.behaviors)}
            (await client.post(f"{address}/_llmock/scenario", json=behaviors)).raise_for_status()
        call = Call(client)
        request = Request(
            messages=(Message("What is the weather in Paris?"),),
            tools=(WEATHER,) if fault.tools else (),
            settings=Settings(max_tokens=300),
            call=call,
        )
        answer: Response | ModelError
        try:
            answer = await model_of(api, address, **fault.options).respond(request)
        except ModelError as error:
            answer = error
        requests = (await client.get(f"{address}/_llmock/requests", timeout=10)).json()["requests"]
        verdict = (await client.get(f"{address}/_llmock/verdict", timeout=10)).json()
    return Outcome(
        answer=answer,
        told=call.told,
        used=call.used,
        waits=call.waits,
        requests=requests,
        findings=verdict["findings"],
    )


async def converse(api: str, address: str) -> list[Response]:
    """Have a model call a tool, and tell it the result."""
    async with http_client() as client:
        (await client.post(f"{address}/_llmock/reset")).raise_for_status()
        model = model_of(api, address)
        messages: list[Message | Response | ToolResult] = [Message("What is the weather in Paris?")]
        answers: list[Response] = []
        while not answers or answers[-1].tool_calls:
            call = Call(client)
            answers.append(
                await model.respond(Request(messages=tuple(messages), tools=(WEATHER,), call=call))
            )
            messages += [answers[-1], *map(_sunny, answers[-1].tool_calls)]
    return answers


def _sunny(call: ToolCall) -> ToolResult:
    return ToolResult(id=call.id, name=call.name, content="sunny")


def problems(fault: Fault, outcome: Outcome) -> list[str]:
    """Say what is not as it should be."""
    found = [f"{finding['severity']}: {finding['code']}" for finding in outcome.findings]
    seen = len(outcome.requests)
    # llmock writes a request down when it is over, which one that was given up may not be yet.
    if seen != fault.attempts and not (fault.name.startswith("too slow") and seen == fault.attempts - 1):
        found.append(f"{seen} requests, not {fault.attempts}")
    answer = outcome.answer
    if isinstance(answer, ModelError):
        if answer.status != fault.raises:
            found.append(f"raised: {answer}")
        if outcome.used.requests != fault.attempts:
            found.append(f"{outcome.used.requests} requests counted")
    else:
        if fault.raises is not None:
            found.append("did not raise")
        if outcome.used.requests + answer.usage.requests != fault.attempts:
            found.append(f"{outcome.used.requests} requests counted beside the answer's own")
        if outcome.told != answer.text:
            found.append(f"told {outcome.told!r}, not {answer.text!r}")
        if not answer.usage.input_tokens or not answer.usage.output_tokens:
            found.append("no usage")
        if not answer.text and not answer.tool_calls:
            found.append("no answer")
    return found


async def _print_matrix() -> int:
    """Print the matrix, and give how many cells are not as they should be."""
    wrong = 0
    width = max(len(fault.name) for fault in FAULTS)
    with llmock(count=len(APIS)) as servers, even_waits():
        addresses = dict(zip(APIS, servers, strict=True))
        print(f"{'':{width}}  " + "  ".join(f"{api:22}" for api in APIS))
        for fault in FAULTS:
            outcomes: dict[str, Outcome] = {}

            async def one(api: str, fault: Fault = fault, outcomes: dict[str, Outcome] = outcomes) -> None:
                outcomes[api] = await try_out(fault, api, addresses[api])

            async with trio.open_nursery() as nursery:
                for api in APIS:
                    nursery.start_soon(one, api)
            cells = []
            for api in APIS:
                found = problems(fault, outcomes[api])
                wrong += bool(found)
                cells.append("; ".join(found) or _summary(outcomes[api]))
            print(f"{fault.name:{width}}  " + "  ".join(f"{cell:22}" for cell in cells))
    print(f"\n{len(FAULTS) * len(APIS)} cells, {wrong} wrong")
    return wrong


def _summary(outcome: Outcome) -> str:
    answer = outcome.answer
    came = f"raised {answer.status}" if isinstance(answer, ModelError) else answer.finish_reason
    waits = "" if not outcome.waits else " after " + "+".join(f"{seconds:.1f}" for seconds in outcome.waits)
    return came + waits


if __name__ == "__main__":
    sys.exit(1 if trio.run(_print_matrix) else 0)
