"""Model clients: answers that do not come as the APIs say, or not from a model at all."""

from __future__ import annotations

import gc
import gzip
import json
import warnings
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpcore
import httpx
import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from june import ModelError, Usage
from june.sdk import _http, _streams
from june.sdk._streams import Events
from tests.sdk_servers import (
    APIS,
    LABELS,
    USED,
    Call,
    Called,
    Server,
    Stream,
    answered,
    asked,
    chunk,
    events_of,
    model_of,
    refusal,
    request_of,
    sse,
    streamed,
)

each_api = pytest.mark.parametrize("api", APIS)

PARIS = Called("call_a", "weather", '{"city": "Paris"}')
ROME = Called("call_b", "weather", '{"city": "Rome"}')


def why(call: Call) -> str:
    """Give the reason of the one wait."""
    ((_, said),) = call.noted("wait")
    return str(said)


# Connections that are lost after the answer.


@pytest.mark.parametrize(
    "ends", [httpx.ReadError("reset"), httpx.ReadTimeout(""), httpx.DecodingError("gzip")]
)
@pytest.mark.parametrize(("api", "last"), [("chat", -2), ("chat", -1), ("messages", -1)])
async def test_an_answer_that_has_finished_is_kept_when_its_connection_is_lost(api, last, ends):
    """It has been paid for, and the reason that it finished says that it is whole."""
    response, call, server = await asked(api, streamed(*events_of(api, "Hello there.")[:last], ends=ends))
    assert (response.text, response.finish_reason) == ("Hello there.", "stop")
    assert len(server.requests) == 1 and call.notes[-1][0] == "text"
    assert response.usage == (Usage(requests=1) if (api, last) == ("chat", -2) else USED)


@pytest.mark.parametrize("after", ["{", "[1]", "nonsense"])
async def test_what_cannot_be_read_after_an_answer_is_read_over(after):
    """Nothing of the answer can be in it."""
    response, call, _ = await asked("chat", streamed(*events_of("chat", "Hi")[:-2], after, "[DONE]"))
    assert response.text == "Hi" and not call.noted("wait")


async def test_a_usage_that_does_not_come_is_not_waited_for_long(autojump_clock):
    """A server that keeps the connection open after the finish reason has said all that is needed."""
    response, _, _ = await asked("chat", streamed(*events_of("chat", "Hi", usage=False)[:-1], ends="hang"))
    assert response.text == "Hi" and trio.current_time() <= 2


async def test_an_error_after_the_finish_reason_counts():
    """A server that says that it went wrong knows."""
    error = {"error": {"message": "Oops."}}
    response, call, _ = await asked("chat", streamed(*events_of("chat", "Hi")[:-1], error), answered("chat"))
    assert response.text == "Hello there." and "Oops." in why(call)


@pytest.mark.parametrize("data", ["", " ", "\t"])
async def test_an_event_with_nothing_in_it_says_nothing(data):
    """Some servers send one to keep a connection open."""
    first, *rest = events_of("chat", "Hi")
    response, call, _ = await asked("chat", streamed(first, data, *rest))
    assert response.text == "Hi" and not call.noted("wait")


async def test_a_line_that_goes_on_for_ever_is_given_up(monkeypatch):
    """It is no answer, and must not fill the memory."""
    monkeypatch.setattr(_streams, "MOST_ANSWERED", 1000)
    body = Endless(b"x" * 100, 0.0, b'data: {"a": "')
    error, _, _ = await asked("chat", httpx.Response(200, stream=body), retries=0)
    assert "sent an event of more than 1,000 characters" in str(error) and body.closed


def test_a_long_line_is_not_copied_for_each_of_its_pieces():
    """Its pieces are put together once."""
    events = Events()
    assert not events.feed(b"data: ") and not any(events.feed(b"x" * 10) for _ in range(1000))
    assert len(events._begun) == 1001
    assert events.feed(b"\n\n") == ["x" * 10_000]


@each_api
async def test_half_characters_in_a_providers_words_can_be_written(api):
    """What is told of an attempt can be printed and saved."""
    error = {"type": "error", "error": {"message": "oops \ud83c"}}
    text = json.dumps(error)
    answers = [refusal(500, text), streamed(text), refusal(400, text)]
    failed, call, _ = await asked(api, *answers)
    for said in [str(failed), *(str(why) for _, why in call.noted("wait"))]:
        assert "oops" in said and said.encode()


# Answers that come at once.


@each_api
@pytest.mark.parametrize("ends", [httpx.RemoteProtocolError("no last chunk"), httpx.ReadTimeout(""), "hang"])
async def test_an_answer_at_once_is_kept_when_its_connection_is_lost(autojump_clock, api, ends):
    """All of it came before, and it has been paid for."""
    body = Stream([json.dumps(whole(api, "Hello there.")).encode()], ends)
    response, _, server = await asked(api, httpx.Response(200, stream=body))
    assert response.text == "Hello there." and len(server.requests) == 1
    assert trio.current_time() <= 2


@each_api
async def test_half_an_answer_at_once_is_none(api):
    """One that breaks off in the middle is asked for anew, though it ends with a bracket."""
    text = json.dumps(whole(api, "Hello there.", [PARIS]))
    half = text[: text.rindex("}", 0, -1) + 1].encode()
    body = Stream([half], httpx.ReadError("reset"))
    response, call, _ = await asked(api, httpx.Response(200, stream=body), answered(api, "Well."))
    assert response.text == "Well." and "broke off its answer" in why(call)


def whole(api: str, text: str = "", calls: Any = (), reason: str | None = None, refused: str = "") -> Any:
    """Make an answer as the API sends it where no stream is asked for."""
    events = events_of(api, text, calls, reason, refused)
    if api == "responses":
        return {"object": "response", "error": None, **events[-1]["response"]}
    if api == "messages":
        delta, usage = events[-2]["delta"], {**events[0]["message"]["usage"], **events[-2]["usage"]}
        content: list[Any] = [{"type": "text", "text": text}] if text else []
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
            for call in calls
        ]
        return {**events[0]["message"], "type": "message", "content": content, **delta, "usage": usage}
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": refused or None}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": events[-3]["choices"][0]["finish_reason"]}
    return {
        "object": "chat.completion",
        "model": "gpt-5-mini-2025",
        "choices": [choice],
        "usage": events[-2]["usage"],
    }


ANSWERS: list[dict[str, Any]] = [
    {"text": "Hello there."},
    {"text": "Let me see.", "calls": [PARIS, ROME]},
    {"calls": [PARIS]},
    {"refused": "No."},
]

TYPES = ["application/json", "Application/JSON; charset=utf-8", "text/event-stream", "text/plain", ""]


@each_api
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("media_type", TYPES)
async def test_an_answer_that_comes_at_once_is_the_same_as_in_pieces(api, answer, media_type):
    """Some servers do not know streams; the answer is there nonetheless, and has been paid for."""
    body = json.dumps(whole(api, **answer)).encode()
    headers = {"content-type": media_type} if media_type else {}
    at_once = httpx.Response(
        200, headers=headers, stream=Stream([b"\xef\xbb\xbf \n", body[:9], body[9:], b"\n"])
    )
    response, call, server = await asked(api, at_once)
    expected, _, _ = await asked(api, streamed(*events_of(api, **answer)))
    assert (response.text, response.tool_calls, response.finish_reason, response.usage, response.model) == (
        expected.text, expected.tool_calls, expected.finish_reason, expected.usage, expected.model,
    )  # fmt: skip
    assert call.told == response.text and len(server.requests) == 1
    assert (response.raw == expected.raw) or api == "messages"


@each_api
async def test_two_calls_at_once_that_are_alike_are_two(api):
    """Without numbers and ids only their places tell them apart."""
    alike = attrs.evolve(PARIS, id="")
    response, _, _ = await asked(api, httpx.Response(200, json=whole(api, calls=[alike, alike])))
    assert [call.arguments for call in response.tool_calls] == [PARIS.arguments] * 2
    assert len({call.id for call in response.tool_calls}) == 2


@pytest.mark.parametrize(
    ("api", "reason"), [("chat", "length"), ("responses", "max_output_tokens"), ("messages", "max_tokens")]
)
async def test_an_answer_at_once_that_was_cut_off_says_so(api, reason):
    """Half an answer is none, however it comes."""
    response, _, _ = await asked(api, httpx.Response(200, json=whole(api, "Half", reason=reason)))
    assert (response.text, response.finish_reason) == ("Half", "length")


@pytest.mark.parametrize(("api", "reason"), [("chat", "error"), ("messages", "odd"), ("responses", "odd")])
async def test_a_reason_that_is_not_known_ends_no_answer_at_once(api, reason):
    """It is asked for again, and nothing was told."""
    response, call, _ = await asked(
        api, httpx.Response(200, json=whole(api, "Half", reason=reason)), answered(api)
    )
    assert response.text == call.told == "Hello there." and reason in why(call)


UNFINISHED = {
    "chat": {"choices": [{"message": {"content": "Half"}, "finish_reason": None}]},
    "responses": {"object": "response", "status": "in_progress", "output": []},
    "messages": {"type": "message", "content": [{"type": "text", "text": "Half"}], "stop_reason": None},
}


@each_api
@pytest.mark.parametrize(
    "body", [None, {}, {"ok": True}, {"choices": 7, "content": 7, "output": 7, "status": []}]
)
async def test_an_object_that_is_no_whole_answer_is_none(api, body):
    """It is asked for again."""
    body = UNFINISHED[api] if body is None else body
    response, call, _ = await asked(api, httpx.Response(200, json=body), answered(api))
    assert response.text == call.told == "Hello there."
    size = len(httpx.Response(200, json=body).content)
    assert why(call).startswith(
        f"{LABELS[api]} answered with application/json ({size} bytes) in place of a stream"
    )


@each_api
async def test_an_answer_at_once_that_breaks_off_is_asked_for_again(api):
    """Half an object is none."""
    body = json.dumps(whole(api, "Hello there.")).encode()
    for ends, said in ((httpx.ReadError("lost"), "broke off its answer"), (None, "(40 bytes)")):
        headers = {"content-type": "application/json"}
        cut = httpx.Response(200, headers=headers, stream=Stream([body[:40]], ends))
        response, call, _ = await asked(api, cut, answered(api, "Second."))
        assert response.text == "Second." and said in why(call)


# Streams under other names.


@each_api
@pytest.mark.parametrize(
    "media_type", ["", "text/plain", "application/octet-stream", "TEXT/Event-Stream;x=y"]
)
@pytest.mark.parametrize(
    "first", [b"", b": hello\n\n", b"\n", b"\xef\xbb\xbf", b"id: 1\n\n", b"retry: 9\n\n"]
)
async def test_a_stream_is_read_whatever_it_is_called(api, media_type, first):
    """Some servers do not say what they send."""
    headers = {"content-type": media_type} if media_type else {}
    body = first + sse(*events_of(api, "Hello there."))
    pieces = [body[start : start + 3] for start in range(0, len(body), 3)]
    response, call, _ = await asked(api, httpx.Response(200, headers=headers, stream=Stream(pieces)))
    assert response.text == call.told == "Hello there." and len(call.noted("text")) > 1


@each_api
@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "rot13", "nonsense"])
async def test_a_stream_is_utf_8_whatever_it_says(api, charset):
    """So says what defines such streams, and servers add charsets that are not so."""
    text = "naïve 🎺 雪"
    body = sse(
        *(json.dumps(event, ensure_ascii=False) for event in events_of(api, text) if event != "[DONE]")
    )
    headers = {"content-type": f"text/event-stream; charset={charset}"}
    response, call, _ = await asked(api, httpx.Response(200, headers=headers, stream=Stream([body])))
    assert response.text == call.told == text
    headers["content-type"] = f"application/json; charset={charset}"
    body = json.dumps(whole(api, text), ensure_ascii=False).encode()
    response, _, _ = await asked(api, httpx.Response(200, headers=headers, stream=Stream([body])))
    assert response.text == text
    error, _, _ = await asked(
        api, refusal(400, {"error": {"message": text}}, content_type=headers["content-type"])
    )
    assert str(error) == f"{LABELS[api]} answered 400: {text}."


async def test_the_empty_line_after_the_last_event_may_be_missing():
    """A stream that has ended has no more to say of it."""
    body = sse(*events_of("responses", "Hi")).rstrip(b"\n")
    headers = {"content-type": "text/event-stream"}
    response, _, server = await asked(
        "responses", httpx.Response(200, headers=headers, stream=Stream([body]))
    )
    assert response.text == "Hi" and len(server.requests) == 1


LINES = st.lists(
    st.sampled_from(
        ["data: a", "data:b", "data", "data:  c", "datum: d", ": e", "event: f", "", "", "é🎺", "data: 雪"]
    ),
    max_size=9,
)


@given(LINES, st.sampled_from(["\n", "\r", "\r\n"]), st.data())
@settings(max_examples=200, deadline=None)
def test_events_are_the_same_however_they_are_cut(lines, end, data):
    """In pieces of any size, and with all three ends of lines."""
    expected, held = [], []
    for line in [*lines, "", ""]:
        name, _, value = line.partition(":")
        if name == "data":
            held.append(value.removeprefix(" "))
        elif not line and held:
            expected.append("\n".join(held))
            held = []
    body = "".join(line + end for line in lines).encode()
    events, found = Events(), []
    while body:
        size = data.draw(st.integers(1, len(body)))
        found += events.feed(body[:size])
        body = body[size:]
    assert [*found, *events.end()] == expected


# What is no answer.


@each_api
async def test_a_page_is_named_and_not_quoted_whole(api):
    """A page to log in at tells what it is in its first words."""
    page = "<html><title>Sign in</title>" + "<p>x</p>" * 200
    error, _, _ = await asked(api, httpx.Response(200, html=page), retries=0)
    start = (
        f"{LABELS[api]} gave no answer in 1 attempt; at the last one it answered with text/html (1,628 bytes)"
    )
    assert str(error).startswith(f"{start} in place of a stream of events: <html><title>Sign in</title><p>x")
    assert len(str(error)) < len(start) + 150 and error.status == 200


class Endless(httpx.AsyncByteStream):
    """
    A body that does not end.

    Attributes:
        size: How many bytes of it were read.
    """

    def __init__(self, piece: bytes, seconds: float = 0.0, first: bytes = b"") -> None:
        self._piece, self._seconds, self._first = piece, seconds, first
        self.size = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first
        while True:
            await trio.sleep(self._seconds)
            self.size += len(self._piece)
            yield self._piece

    async def aclose(self) -> None:
        self.closed = True


@each_api
@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize(("piece", "seconds"), [(b"<p>spam</p>" * 999, 0.0), (b"<p>", 9.0)])
async def test_what_is_no_answer_is_not_read_for_ever(api, status, piece, seconds, autojump_clock):
    """Its beginning tells enough, whether the rest comes fast or slowly."""
    body = Endless(piece, seconds)
    error, _, _ = await asked(api, httpx.Response(status, stream=body), retries=0)
    assert isinstance(error, ModelError) and error.status == status and len(str(error)) < 800
    assert body.closed and body.size < 200_000 and trio.current_time() < 60


async def test_the_size_of_a_body_that_goes_on_is_not_known():
    """The message says how much was read."""
    error, _, _ = await asked("chat", httpx.Response(200, stream=Endless(b"<p>spam</p>" * 999)), retries=0)
    assert "answered with no content type (more than 65,536 bytes) in place of a stream" in str(error)


async def test_an_answer_at_once_may_be_long_but_not_endless(monkeypatch):
    """What no model writes is not read to its end."""
    monkeypatch.setattr(_http, "MOST_ANSWERED", 1000)
    body = Endless(b" " * 999, 0.0, b'{"choices": 1')
    error, _, _ = await asked("chat", httpx.Response(200, stream=body), retries=0)
    assert "(more than 1,000 bytes)" in str(error) and body.closed
    text = "x" * 900
    response, _, _ = await asked(
        "chat",
        httpx.Response(200, json={"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
    )
    assert response.text == text


@each_api
async def test_a_refusal_whose_compression_is_broken_is_judged_by_its_status(api):
    """The status says enough."""
    headers = {"content-encoding": "gzip"}
    error, _, _ = await asked(api, httpx.Response(400, headers=headers, stream=Stream([b"plain"])))
    assert str(error) == f"{LABELS[api]} answered 400."


async def test_the_words_of_a_provider_are_found_in_a_body_that_does_not_end(autojump_clock):
    """A refusal is told in its words as far as they have come."""
    body = Endless(b"", 9.0, b'{"error": {"message": "Too hot."}}')
    error, _, _ = await asked("chat", httpx.Response(400, stream=body))
    assert str(error) == "openai('gpt-5-mini') answered 400: Too hot."


# Redirections.


@each_api
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://login.example/?next=secret", "https://login.example"),
        ("https://u:secret@login.example:8443/x", "https://login.example:8443"),
        ("/login?t=secret", "another place on the same host"),
        ("//login.example/x", "http://login.example"),
        ("https://[secret", "what is no address"),
    ],
)
async def test_a_redirection_is_not_followed_even_by_a_client_that_does(api, status, location, shown):
    """The request would come as another one, or the key to another host."""
    server = Server(refusal(status, "moved", location=location))
    client = httpx.AsyncClient(transport=server.client._transport, follow_redirects=True)
    with pytest.raises(ModelError) as caught:
        await model_of(api, client=client).respond(request_of())
    assert str(caught.value) == f"{LABELS[api]} answered {status}: it redirects to {shown}."
    assert caught.value.status == status and len(server.requests) == 1


# Connections: what a request leaves behind.

WIRE = "http://wire/v1"

Serve = Callable[[trio.StapledStream[Any, Any]], Any]


class Wire(httpcore.AsyncNetworkStream):
    """One end of a connection within this process."""

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with trio.move_on_after(timeout or 0):
            return bytes(await self._stream.receive_some(max_bytes))
        raise httpcore.ReadTimeout()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._stream.send_all(buffer)
        except trio.BrokenResourceError as error:
            raise httpcore.WriteError() from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else None


class Wires(httpcore.AsyncNetworkBackend):
    """Connects to what serves each connection, once its request has come."""

    def __init__(self, nursery: trio.Nursery, serve: Serve) -> None:
        self._nursery = nursery
        self._serve = serve

    async def connect_tcp(self, *args: Any, **options: Any) -> Wire:
        here, there = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._one, there)
        return Wire(here)

    async def _one(self, stream: trio.StapledStream[Any, Any]) -> None:
        request = b""
        while not request.endswith(b"}"):
            request += await stream.receive_some()
        try:
            await self._serve(stream)
        except trio.BrokenResourceError:
            # Nobody reads any more.
            pass
        await stream.aclose()


@asynccontextmanager
async def wired(serve: Serve) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client with all of httpx and httpcore but the sockets, so that time is virtual."""
    transport = httpx.AsyncHTTPTransport()
    async with trio.open_nursery() as nursery:
        transport._pool = httpcore.AsyncConnectionPool(network_backend=Wires(nursery, serve))
        async with httpx.AsyncClient(transport=transport) as client:
            yield client
        nursery.cancel_scope.cancel()


def sending(status: int, body: bytes, then: str, **headers: str) -> Serve:
    """Answer with *body*, and then ``close`` the connection, ``hang``, go on (``flood``), or ``end``."""

    async def serve(stream: trio.StapledStream[Any, Any]) -> None:
        head = f"HTTP/1.1 {status} OK\r\ntransfer-encoding: chunked\r\n"
        head += "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items()) + "\r\n"
        await stream.send_all(head.encode())
        if body:
            await stream.send_all(b"%x\r\n%b\r\n" % (len(body), body))
        if then == "end":
            await stream.send_all(b"0\r\n\r\n")
            await trio.sleep_forever()
        while then == "flood":
            await stream.send_all(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            await trio.sleep(0.001)
        if then == "hang":
            await trio.sleep_forever()

    return serve


def _sse(api: str, count: int | None = None) -> bytes:
    return sse(*events_of(api, "Hello there.")[:count])


async def _nothing(stream: trio.StapledStream[Any, Any]) -> None:
    """Close the connection."""


STREAM = {"content_type": "text/event-stream"}
PAGE = {"content_type": "text/html"}

FAILURES: list[tuple[str, Callable[[str], Serve]]] = [
    ("no answer", lambda api: _nothing),
    ("broken off", lambda api: sending(200, _sse(api, 3), "close", **STREAM)),
    ("silent in the middle", lambda api: sending(200, _sse(api, 3), "hang", **STREAM)),
    ("silent at first", lambda api: sending(200, b"", "hang", **STREAM)),
    ("ended early", lambda api: sending(200, _sse(api, 3), "end", **STREAM)),
    ("no JSON", lambda api: sending(200, b"data: x\n\ndata: y\n\n", "hang", **STREAM)),
    ("an error", lambda api: sending(200, sse({"type": "error", "error": {"message": "No."}}), "hang", **STREAM)),
    ("no such compression", lambda api: sending(200, _sse(api), "hang", content_encoding="gzip", **STREAM)),
    ("half a compression", lambda api: sending(200, gzip.compress(_sse(api))[:40], "end", content_encoding="gzip", **STREAM)),
    ("a page", lambda api: sending(200, b"<p>", "end", **PAGE)),
    ("half a page", lambda api: sending(200, b"<p>", "close", **PAGE)),
    ("an endless page", lambda api: sending(200, b"<p>", "flood", **PAGE)),
    ("half an object", lambda api: sending(200, b'{"a', "close", **PAGE)),
    ("refused", lambda api: sending(400, b'{"error": "No."}', "end")),
    ("refused and broken off", lambda api: sending(503, b"{", "close")),
    ("refused for ever", lambda api: sending(503, b"{", "flood")),
    ("redirected", lambda api: sending(307, b"", "end", location="http://127.0.0.1:1/")),
]  # fmt: skip


@each_api
@pytest.mark.parametrize("how", ["whole", "cancelled"])
async def test_no_failure_leaves_anything_behind(api, how, autojump_clock):
    """No generator, coroutine or connection is left to the garbage collector, whatever happens."""
    said: dict[str, str] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, make in FAILURES:
            async with wired(make(api)) as client:
                model = model_of(api, base_url=WIRE, retries=0, timeout=20, client=client)
                with trio.move_on_after(5 if how == "cancelled" else 300):
                    try:
                        await model.respond(request_of())
                    except ModelError as error:
                        said[name] = str(error)
                    else:
                        raise AssertionError(name)
        gc.collect()
        await trio.testing.wait_all_tasks_blocked()
    assert [str(warning.message) for warning in caught] == []
    silent = {name for name, _ in FAILURES if name.startswith("silent")}
    assert said.keys() == {name for name, _ in FAILURES} - (silent if how == "cancelled" else set())
    assert not [text for text in said.values() if "client=" in text]


@each_api
@pytest.mark.parametrize("then", ["close", "hang", "flood"])
async def test_a_whole_answer_is_kept_whatever_becomes_of_its_connection(api, then, autojump_clock):
    """As with a proxy that ends connections after their time."""
    count = {"chat": -2, "messages": -1, "responses": None}[api]
    async with wired(sending(200, _sse(api, count), then, **STREAM)) as client:
        response = await model_of(api, retries=0, base_url=WIRE, client=client).respond(request_of())
    assert response.text == "Hello there." and trio.current_time() < 5


@each_api
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
async def test_an_answer_that_is_compressed_is_read(api, encoding):
    """Nobody asked for it, and some servers do it nonetheless."""
    compress = zlib.compress if encoding == "deflate" else gzip.compress
    serve = sending(200, compress(_sse(api)), "end", content_encoding=encoding, **STREAM)
    async with wired(serve) as client:
        response = await model_of(api, base_url=WIRE, client=client).respond(request_of())
    assert response.text == "Hello there."


async def test_an_answer_that_is_compressed_in_an_unknown_way_is_none():
    """The message names it."""
    async with wired(sending(200, b"\x0b\x02\x80", "end", content_encoding="br", **STREAM)) as client:
        with pytest.raises(ModelError) as caught:
            await model_of("chat", base_url=WIRE, client=client).respond(request_of())
    assert str(caught.value) == (
        "openai('gpt-5-mini') compressed its answer in a way that cannot be undone ('br'), and was asked not to."
    )


@each_api
@pytest.mark.parametrize("encoding", ["utf-8", "", "none", "binary", "identity, identity"])
async def test_an_encoding_that_nobody_knows_says_nothing(api, encoding):
    """Servers write there what does not belong there, and mean none."""
    async with wired(sending(200, _sse(api), "end", content_encoding=encoding, **STREAM)) as client:
        response = await model_of(api, retries=0, base_url=WIRE, client=client).respond(request_of())
    assert response.text == "Hello there."


async def test_a_request_that_is_given_up_while_it_is_sent_leaves_nothing_behind():
    """A server that takes no more of a long prompt, and a step that is cancelled."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    accepted = trio.Event()

    async def take_no_more(stream: trio.SocketStream) -> None:
        accepted.set()
        await trio.sleep_forever()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with trio.open_nursery() as nursery, httpx.AsyncClient(trust_env=False) as client:
            nursery.start_soon(trio.serve_listeners, take_no_more, listeners)
            address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            model = model_of("chat", base_url=address, client=client)
            nursery.start_soon(model.respond, request_of("x" * 20_000_000))
            await accepted.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        gc.collect()
    assert not [one for one in warned if issubclass(one.category, ResourceWarning)]


@each_api
async def test_a_hook_may_have_read_the_answer(api):
    """A user's client may look at what comes."""

    async def look(response: httpx.Response) -> None:
        await response.aread()

    body = gzip.compress(_sse(api))
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    server = Server(
        httpx.Response(200, headers=headers, stream=Stream([body])), refusal(400, {"error": "No."})
    )
    server.client.event_hooks = {"response": [look]}
    assert (await model_of(api, server).respond(request_of())).text == "Hello there."
    with pytest.raises(ModelError, match="answered 400: No."):
        await model_of(api, server).respond(request_of())


async def test_a_chunk_is_quoted_in_part_only():
    """What a message is for is not to hold an answer."""
    error, _, _ = await asked("chat", streamed(chunk({"content": "Hi"}), "x" * 5000), retries=0)
    assert "sent a chunk that is no JSON object: xxx" in str(error) and len(str(error)) < 300
