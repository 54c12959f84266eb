"""
Servers for model clients to be tried on: what they answer is scripted, and nothing is sent or waited for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import attrs
import httpx
import trio

from june import ModelError
from june.messages import Message, Request, ToolSpec, Usage
from june.models import Model
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai

APIS = ("responses", "chat", "messages")

KEY = "sk-live-0123456789abcdef"

NAMES = {"responses": "gpt-5-mini", "chat": "gpt-5-mini", "messages": "claude-sonnet-4-6"}

LABELS = {
    "responses": "openai('gpt-5-mini')",
    "chat": "openai('gpt-5-mini')",
    "messages": "anthropic('claude-sonnet-4-6')",
}

WEATHER = ToolSpec(
    name="weather",
    description="Tell the weather.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


class Call:
    """
    A `june.models.Call` that notes what it is told, and does not wait.

    Attributes:
        notes: What it was told, in its order.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.notes: list[tuple[Any, ...]] = []

    def text(self, delta: str) -> None:
        self.notes.append(("text", delta))

    def restart(self) -> None:
        self.notes.append(("restart",))

    def spent(self, usage: Usage) -> None:
        self.notes.append(("spent", usage))

    async def wait(self, seconds: float, why: str) -> None:
        self.notes.append(("wait", seconds, why))
        await trio.lowlevel.checkpoint()

    def noted(self, kind: str) -> list[Any]:
        """Give what it was told of one kind."""
        return [note[1] if len(note) == 2 else note[1:] for note in self.notes if note[0] == kind]

    @property
    def told(self) -> str:
        """The text that counts."""
        text = ""
        for kind, *more in self.notes:
            text = "" if kind == "restart" else text + more[0] if kind == "text" else text
        return text


class Stream(httpx.AsyncByteStream):
    """
    A body that comes in pieces.

    Attributes:
        closed: Whether it was closed.
    """

    def __init__(self, pieces: Iterable[bytes], ends: Exception | str | None = None) -> None:
        """
        Args:
            pieces: The pieces.
            ends: What it ends in: an exception, ``hang``, or None.
        """
        self._pieces = list(pieces)
        self._ends = ends
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await trio.lowlevel.checkpoint()
            yield piece
        if self._ends == "hang":
            await trio.sleep_forever()
        elif isinstance(self._ends, Exception):
            raise self._ends

    async def aclose(self) -> None:
        self.closed = True


Answer = httpx.Response | Exception


class Server:
    """
    Answers requests one after another, as it is told.

    Attributes:
        requests: The requests that it got.
    """

    def __init__(self, *answers: Answer | Callable[[httpx.Request], Answer]) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if not isinstance(answer, (httpx.Response, Exception)):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests."""
        return [json.loads(request.content) for request in self.requests]


def model_of(api: str, server: Server | None = None, **options: Any) -> Model:
    """Make a model of one of the APIs, which *server* answers for."""
    options = {"api_key": KEY, **options}
    if server is not None:
        options["client"] = server.client
    if api == "messages":
        return anthropic(NAMES[api], **options)
    return openai(NAMES[api], api=api, **options)


def request_of(text: str = "Hello", call: Any = None, **fields: Any) -> Request:
    """Make a request of one message."""
    return Request(messages=(Message(text),), call=call, **fields)


# What servers answer.


def refusal(status: int, body: Any = "", **headers: str) -> httpx.Response:
    """Make an answer that is an error; ``retry_after=`` is the header ``retry-after``."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    if isinstance(body, str):
        return httpx.Response(status, text=body, headers=named)
    return httpx.Response(status, json=body, headers=named)


def sse(*events: Any) -> bytes:
    """Write events, each a JSON object, or a text as it is."""
    written = []
    for event in events:
        if isinstance(event, str):
            written.append(f"data: {event}\n\n")
        else:
            kind = f"event: {event['type']}\n" if "type" in event else ""
            written.append(f"{kind}data: {json.dumps(event)}\n\n")
    return "".join(written).encode()


def streamed(*events: Any, ends: Exception | str | None = None) -> httpx.Response:
    """Make an answer that is a stream of *events*, a piece each."""
    stream = Stream([sse(event) for event in events], ends)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)


@attrs.frozen
class Called:
    """A tool call in an answer."""

    id: str = "call_1"
    name: str = "weather"
    arguments: str = '{"city": "Paris"}'


def events_of(
    api: str,
    text: str = "",
    calls: Sequence[Called] = (),
    reason: str | None = None,
    refused: str = "",
    usage: bool = True,
) -> list[Any]:
    """Give the events of an ordinary answer, as the provider sends them."""
    make = {"responses": _responses_events, "chat": _chat_chunks, "messages": _messages_events}[api]
    return make(text, calls, reason, refused, usage)


def pieces_of(text: str) -> list[str]:
    """Split a text as a stream does."""
    return [text[start : start + 7] for start in range(0, len(text), 7)]


USED = Usage(requests=1, input_tokens=20, output_tokens=9, cached_tokens=4, reasoning_tokens=3)
"""What the answers of `events_of` say that they used."""


def _responses_events(
    text: str, calls: Sequence[Called], reason: str | None, refused: str, usage: bool
) -> list[Any]:
    events: list[Any] = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5-mini-2025", "usage": None}}
    ]
    output: list[Any] = []
    for kind, content, field in (("output_text", text, "text"), ("refusal", refused, "refusal")):
        if content:
            place = len(output)
            part = {"type": kind, field: content}
            item = {"type": "message", "id": f"msg_{place}", "role": "assistant", "content": [part]}
            events.append(
                {
                    "type": "response.output_item.added",
                    "output_index": place,
                    "item": {**item, "content": []},
                }
            )
            events += [
                {
                    "type": f"response.{kind}.delta",
                    "item_id": item["id"],
                    "output_index": place,
                    "content_index": 0,
                    "delta": piece,
                }
                for piece in pieces_of(content)
            ]
            events.append({"type": "response.output_item.done", "output_index": place, "item": item})
            output.append(item)
    for call in calls:
        place = len(output)
        item = {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        events.append(
            {"type": "response.output_item.added", "output_index": place, "item": {**item, "arguments": ""}}
        )
        events += [
            {
                "type": "response.function_call_arguments.delta",
                "item_id": item["id"],
                "output_index": place,
                "delta": piece,
            }
            for piece in pieces_of(call.arguments)
        ]
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
        output.append(item)
    final: dict[str, Any] = {"id": "resp_1", "model": "gpt-5-mini-2025", "output": output}
    if usage:
        final["usage"] = {
            "input_tokens": 20,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 29,
        }
    kind = "completed"
    if reason is not None:
        kind = "incomplete"
        final["incomplete_details"] = {"reason": reason}
    return [*events, {"type": f"response.{kind}", "response": {**final, "status": kind}}]


def chunk(delta: Any = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """Make a chunk of the Chat Completions API."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason}
    return {"id": "chatcmpl-1", "model": "gpt-5-mini-2025", "choices": [choice], **more}


def _chat_chunks(
    text: str, calls: Sequence[Called], reason: str | None, refused: str, usage: bool
) -> list[Any]:
    chunks: list[Any] = [chunk({"role": "assistant", "content": "" if text else None})]
    chunks += [chunk({"content": piece}) for piece in pieces_of(text)]
    chunks += [chunk({"refusal": piece}) for piece in pieces_of(refused)]
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        chunks.append(
            chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        )
        chunks += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in pieces_of(call.arguments)
        ]
    chunks.append(chunk({}, reason or ("tool_calls" if calls else "stop")))
    if usage:
        counted = {
            "prompt_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens": 9,
            "completion_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 29,
        }
        chunks.append({"id": "chatcmpl-1", "model": "gpt-5-mini-2025", "choices": [], "usage": counted})
    return [*chunks, "[DONE]"]


def _messages_events(
    text: str, calls: Sequence[Called], reason: str | None, refused: str, usage: bool
) -> list[Any]:
    counted = {"input_tokens": 13, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3}
    message = {"id": "msg_1", "role": "assistant", "content": [], "model": "claude-sonnet-4-6-2025"}
    events: list[Any] = [
        {"type": "message_start", "message": {**message, "usage": {**counted, "output_tokens": 1}}},
        {"type": "ping"},
    ]
    index = 0
    if text:
        events.append(_block_start(index, {"type": "text", "text": ""}))
        events += [_block_delta(index, {"type": "text_delta", "text": piece}) for piece in pieces_of(text)]
        events.append({"type": "content_block_stop", "index": index})
        index += 1
    for call in calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        events.append(_block_start(index, block))
        events += [
            _block_delta(index, {"type": "input_json_delta", "partial_json": piece})
            for piece in ("", *pieces_of(call.arguments))
        ]
        events.append({"type": "content_block_stop", "index": index})
        index += 1
    delta: dict[str, Any] = {"stop_reason": reason or ("tool_use" if calls else "end_turn")}
    if refused:
        delta = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": refused}}
    spent = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}}
    events.append({"type": "message_delta", "delta": delta, "usage": spent if usage else {}})
    return [*events, {"type": "message_stop"}]


def _block_start(index: int | None, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _block_delta(index: int | None, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def answered(api: str, text: str = "Hello there.", **fields: Any) -> httpx.Response:
    """Make an ordinary answer."""
    return streamed(*events_of(api, text, **fields))


async def asked(api: str, *answers: Any, **options: Any) -> tuple[Any, Call, Server]:
    """Ask a model whose server answers as scripted; what it raises is what comes back."""
    server = Server(*answers)
    call = Call(server.client)
    try:
        response = await model_of(api, **options).respond(request_of(call=call))
    except ModelError as error:
        response = error
    return response, call, server
