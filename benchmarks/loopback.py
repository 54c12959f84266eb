"""
A server of models on 127.0.0.1, in a process of its own.

It speaks Chat Completions, Responses and Messages as far as a plain prompt needs it. All answers of one API
are the same bytes, made before the first request comes and written in one go: what is measured is who asks,
not who answers.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["PIECES", "answer", "served"]

PIECES = 10
"""In how many pieces an answer's text is streamed, unless said otherwise."""

_WORDS = ("a", " short", " answer", ",", " as", " models", " stream", " them", ";", " ")

_FOLDER = Path(__file__).resolve().parent.parent


def answer(pieces: int = PIECES) -> str:
    """Give the text of every answer."""
    return "".join(_pieces(pieces))


@contextmanager
def served(seconds: float = 0.0, pieces: int = PIECES) -> Iterator[str]:
    """
    Start the server, and stop it.

    Args:
        seconds: How long after a request its answer comes, on average; each takes half of that to one and a
            half. If all took as long, they would soon come in bursts, with nothing to do between.

        pieces: In how many pieces an answer's text comes.

    Yields:
        The server's address, without a path.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.loopback", str(seconds), str(pieces)],
        cwd=_FOLDER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None  # it is a pipe
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def _pieces(count: int) -> Sequence[str]:
    return list(islice(cycle(_WORDS), count))


# -- The answers, with the fields that the providers send.


def _chat_events(pieces: Sequence[str]) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any] | None, reason: str | None = None, usage: Any = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {
            "id": "chatcmpl-CfJt2vQ0Xv8mRkq1n5s9dT3wYbZeL",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": "m",
            "service_tier": "default",
            "system_fingerprint": None,
            "choices": [] if delta is None else [choice],
            "usage": usage,
        }

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in pieces:
        yield chunk({"content": piece})
    yield chunk({}, "stop")
    yield chunk(None, usage=_CHAT_USAGE)


_CHAT_USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 10,
    "total_tokens": 22,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}


def _chat(said: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-CfJt2vQ0Xv8mRkq1n5s9dT3wYbZeL",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": said, "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": _CHAT_USAGE,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _response(said: str | None = None) -> dict[str, Any]:
    """Give what the Responses API calls a response, which is in progress until something is said."""
    whole = said is not None
    return {
        "id": "resp_68cf00000000819c9d2b8f4f1d2b6a50",
        "object": "response",
        "created_at": 1790000000,
        "status": "completed" if whole else "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "m",
        "output": [_item(said)] if whole else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _RESPONSE_USAGE if whole else None,
        "user": None,
        "metadata": {},
    }


_RESPONSE_USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 22,
}

_ITEM = "msg_68cf00000000819c8e1a7e3e0c1a5940"


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _item(said: str | None = None) -> dict[str, Any]:
    return {
        "id": _ITEM,
        "type": "message",
        "status": "in_progress" if said is None else "completed",
        "content": [] if said is None else [_text_part(said)],
        "role": "assistant",
    }


def _responses_events(pieces: Sequence[str]) -> Iterator[dict[str, Any]]:
    place = {"item_id": _ITEM, "output_index": 0, "content_index": 0}
    said = "".join(pieces)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response()},
        {"type": "response.in_progress", "response": _response()},
        {"type": "response.output_item.added", "output_index": 0, "item": _item()},
        {"type": "response.content_part.added", **place, "part": _text_part("")},
    ]
    for piece in pieces:
        events.append({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []})
    events += [
        {"type": "response.output_text.done", **place, "text": said, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": _text_part(said)},
        {"type": "response.output_item.done", "output_index": 0, "item": _item(said)},
        {"type": "response.completed", "response": _response(said)},
    ]
    for number, event in enumerate(events):
        yield {"type": event["type"], "sequence_number": number, **event}


def _messages_events(pieces: Sequence[str]) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": 12,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
        "service_tier": "standard",
    }
    message: dict[str, Any] = {
        "model": "m",
        "id": "msg_01Aq9w938a90dw8q",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "ping"}
    for piece in pieces:
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {**usage, "output_tokens": 10}}
    yield {"type": "message_stop"}


# -- How they go over the wire.


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _streamed(events: Iterable[str]) -> bytes:
    """Write an answer of events, each in a chunk of its own as a server sends them."""
    lines = [
        "HTTP/1.1 200 OK",
        "content-type: text/event-stream; charset=utf-8",
        "transfer-encoding: chunked",
    ]
    chunks = [f"{len(event):x}\r\n{event}\r\n" for event in events]
    return "\r\n".join([*lines, "", "".join([*chunks, "0\r\n\r\n"])]).encode("ascii")


def _named(events: Iterable[dict[str, Any]]) -> bytes:
    return _streamed(f"event: {event['type']}\ndata: {_json(event)}\n\n" for event in events)


def _whole(status: str, value: object) -> bytes:
    body = _json(value)
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", body]).encode("ascii")


class _Answers:
    """All that the server ever says."""

    def __init__(self, pieces: Sequence[str]) -> None:
        said = "".join(pieces)
        chat = [f"data: {_json(event)}\n\n" for event in _chat_events(pieces)]
        self._streamed = {
            b"/v1/chat/completions": _streamed([*chat, "data: [DONE]\n\n"]),
            b"/v1/responses": _named(_responses_events(pieces)),
            b"/v1/messages": _named(_messages_events(pieces)),
        }
        self._whole = {
            b"/v1/chat/completions": _whole("200 OK", _chat(said)),
            b"/v1/responses": _whole("200 OK", _response(said)),
        }
        self._unknown = _whole("404 Not Found", {"error": {"message": "the benchmark has no such answer"}})

    def to(self, path: bytes, body: bytes) -> bytes:
        """Give the answer to a request, streamed if its body asks for that."""
        is_streamed = b'"stream": true' in body or b'"stream":true' in body
        return (self._streamed if is_streamed else self._whole).get(path, self._unknown)


class _Connection(asyncio.Protocol):
    """Answers one request after another; it reads no more of HTTP than the clients here write."""

    _transport: asyncio.Transport

    def __init__(self, answers: _Answers, seconds: Callable[[], float]) -> None:
        self._answers = answers
        self._seconds = seconds
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while True:
            head, end, rest = self._received.partition(b"\r\n\r\n")
            length = _length(head) if end else 0
            if not end or len(rest) < length:
                return
            body, self._received = rest[:length], rest[length:]
            found = self._answers.to(head.split(b" ", 2)[1], body)
            if seconds := self._seconds():
                asyncio.get_running_loop().call_later(seconds, self._transport.write, found)
            else:
                self._transport.write(found)


def _length(head: bytes) -> int:
    _, _, after = head.lower().partition(b"\r\ncontent-length:")
    return int(after.partition(b"\r\n")[0] or 0)


async def _serve(seconds: float, pieces: int) -> None:
    """Listen on a free port, print its number, and go on until whoever started this is gone."""
    loop = asyncio.get_running_loop()
    chosen = partial(Random(0).uniform, seconds / 2, seconds * 3 / 2)
    connection = partial(_Connection, _Answers(_pieces(pieces)), chosen)
    server = await loop.create_server(connection, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2])))
