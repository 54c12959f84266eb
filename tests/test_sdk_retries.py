"""Model clients: what is asked again, after what wait, what an attempt costs, and what the last error says."""

from __future__ import annotations

import email.utils
import gc
import json
import random
import ssl
import statistics
import time
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from june import ModelError, Usage
from june.models import Alone
from june.sdk import _failures, _http, _streams
from tests.sdk_servers import (
    APIS,
    KEY,
    LABELS,
    USED,
    Call,
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


@each_api
async def test_an_answer_is_told_as_it_comes_and_returned_whole(api):
    """The text goes to the run piece by piece; the answer's own usage is in the answer and nowhere else."""
    response, call, server = await asked(api, answered(api, "Hello there, you."))
    assert response.text == call.told == "Hello there, you."
    assert call.noted("text") == ["Hello t", "here, y", "ou."]
    assert (response.finish_reason, response.usage) == ("stop", USED)
    assert response.model.endswith("-2025")
    assert call.noted("spent") == call.noted("wait") == [] and len(server.requests) == 1


FREE = Usage(requests=1, cost=0.0)
"""What a request uses that nobody began to answer."""


def half(api: str) -> list[Any]:
    """Give the events of an answer up to its first text."""
    events = events_of(api, "Hello there.")
    return events[: next(place for place, event in enumerate(events) if "Hello" in json.dumps(event)) + 1]


# What is asked again.

PASSING = [408, 409, 425, 429, 500, 501, 502, 503, 504, 520, 529, 599]


@each_api
@pytest.mark.parametrize("status", PASSING)
async def test_a_status_that_may_pass_is_asked_again(api, status):
    """408, 409, 425, 429 and every 5xx are asked again after a wait, and each attempt is counted."""
    response, call, server = await asked(api, refusal(status), refusal(status), answered(api))
    assert response.text == call.told == "Hello there."
    assert [body == server.bodies[0] for body in server.bodies] == [True] * 3
    assert call.noted("spent") == [FREE] * 2
    assert [why for _, why in call.noted("wait")] == [f"{LABELS[api]} answered {status}"] * 2
    assert not call.noted("restart")


def unreachable(kind: type[httpx.TransportError], text: str = "no route") -> httpx.TransportError:
    return kind(text, request=httpx.Request("POST", "http://x", headers={"authorization": KEY}))


CONNECTIONS = [
    (httpx.ConnectError, "could not be reached at https://api.example.org: ConnectError: no route"),
    (httpx.ConnectTimeout, "could not be reached at https://api.example.org: ConnectTimeout: no route"),
    (httpx.ProxyError, "could not be reached at https://api.example.org: ProxyError: no route"),
    (httpx.ReadTimeout, "sent nothing for 1 min 0 s"),
    (httpx.ReadError, "gave no answer: ReadError: no route"),
    (httpx.WriteError, "gave no answer: WriteError: no route"),
    (httpx.WriteTimeout, "gave no answer: WriteTimeout: no route"),
    (httpx.RemoteProtocolError, "gave no answer: RemoteProtocolError: no route"),
]


@each_api
@pytest.mark.parametrize(("kind", "said"), CONNECTIONS)
async def test_a_connection_that_fails_is_tried_again(api, kind, said):
    """A server that cannot be reached, or that drops or forgets a request, is asked again."""
    response, call, _ = await asked(
        api, unreachable(kind), answered(api), base_url="https://u:p@api.example.org/v1?k=1"
    )
    assert response.text == "Hello there."
    assert [why for _, why in call.noted("wait")] == [f"{LABELS[api]} {said}"]
    unreached = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
    assert call.noted("spent") == [FREE if kind in unreached else Usage(requests=1)]


def raised_from(*errors: BaseException) -> httpx.ConnectError:
    """Make the error that httpx raises where the reason is several causes down."""
    first = outer = httpx.ConnectError("")
    for error in errors:
        outer.__cause__ = error
        outer = error  # type: ignore[assignment]
    return first


def tls_error(text: str, kind: type[ssl.SSLError] = ssl.SSLError) -> httpx.ConnectError:
    return raised_from(trio.BrokenResourceError(), kind(1, text))


TLS: list[tuple[httpx.ConnectError, str]] = [
    (tls_error("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)",
               ssl.SSLCertVerificationError),
     "SSLCertVerificationError: certificate verify failed: self-signed certificate."),
    (tls_error("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"), "SSLError: wrong version number."),
    (tls_error("odd"), "SSLError: odd."),
]  # fmt: skip


@each_api
@pytest.mark.parametrize(("error", "said"), TLS, ids=[said for _, said in TLS])
async def test_a_certificate_that_is_refused_is_not_tried_again(api, error, said):
    """No wait makes it a good one, and the message says what is wrong with it."""
    raised, call, _ = await asked(api, error, base_url="https://api.example.org/v1")
    assert str(raised) == f"{LABELS[api]} could not be reached at https://api.example.org: {said}"
    assert call.notes == [("spent", FREE)] and raised.status is None


PASSING_CAUSES = [
    (tls_error("EOF occurred in violation of protocol", ssl.SSLEOFError), "EOF occurred in violation of protocol"),
    (raised_from(OSError(-2, "Name or service not known")), "[Errno -2] Name or service not known"),
    (raised_from(OSError("all attempts to connect to 127.0.0.1:1 failed")), "all attempts to connect to 127.0.0.1:1 failed"),
]  # fmt: skip


PROXIES = [
    ("407 Proxy Authentication Required", False),
    ("403 Forbidden", False),
    ("404", False),
    ("408 Request Timeout", True),
    ("429 Too Many Requests", True),
    ("502 Bad Gateway", True),
    ("", True),
    ("Proxy Server could not connect: Host unreachable.", True),
]


@pytest.mark.parametrize(("said", "passes"), PROXIES)
def test_a_proxy_that_connects_to_nobody_is_judged_by_its_status(said, passes):
    """A wrong password does not get better; a proxy that says nothing may be busy."""
    assert _failures.proxy_passes(said) == passes


@pytest.mark.parametrize(("error", "said"), PASSING_CAUSES, ids=[said for _, said in PASSING_CAUSES])
async def test_names_that_are_not_found_and_ports_that_are_closed_are_tried_again(error, said):
    """A network may be back in a moment; what led to the error is told where it says nothing itself."""
    response, call, _ = await asked("chat", error, answered("chat"))
    assert response.text == "Hello there."
    ((_, why),) = call.noted("wait")
    assert why.endswith(f"ConnectError: {said}")


@each_api
async def test_what_no_attempt_can_send_is_not_tried_again(api):
    """A request that cannot be sent at all is an error at once."""
    error, call, _ = await asked(api, unreachable(httpx.UnsupportedProtocol, "what is ftp"))
    assert str(error) == f"{LABELS[api]} gave no answer: UnsupportedProtocol: what is ftp."
    assert not call.noted("wait")


BREAKS: list[tuple[str, Any, str]] = [
    ("drops", httpx.ReadError("reset"), "broke off its answer: ReadError: reset"),
    ("drops silently", httpx.ReadError(""), "broke off its answer: ReadError"),
    ("peer closes", httpx.RemoteProtocolError("incomplete"), "broke off its answer: RemoteProtocolError: incomplete"),
    ("stalls", httpx.ReadTimeout("slow"), "sent nothing for 1 min 0 s"),
    ("bad compression", httpx.DecodingError("gzip"), "broke off its answer: DecodingError: gzip"),
    ("ends", None, "ended its answer early, without saying that it is finished"),
]  # fmt: skip


@each_api
@pytest.mark.parametrize(("name", "ends", "said"), BREAKS)
async def test_a_stream_that_breaks_off_is_asked_for_again(api, name, ends, said):
    """However a stream stops before its end, the whole answer is asked for anew, and what was told is taken back."""
    response, call, _ = await asked(api, streamed(*half(api), ends=ends), answered(api))
    assert response.text == call.told == "Hello there."
    assert [why for _, why in call.noted("wait")] == [f"{LABELS[api]} {said}"]
    kinds = [note[0] for note in call.notes]
    assert kinds == ["text", "spent", "restart", "wait", "text", "text"]


@pytest.mark.slow
@each_api
async def test_no_part_of_an_answer_is_ever_taken_for_the_whole(api):
    """Wherever a stream is cut, after any byte, there is either the whole answer or another attempt."""
    whole = sse(*events_of(api, "Hello there.", calls=[]))
    finished = {
        "responses": b"response.completed",
        "chat": b'"finish_reason": "stop"',
        "messages": b'"stop_reason": "end_turn"',
    }
    taken = []
    for length in range(len(whole)):
        headers = {"content-type": "text/event-stream"}
        cut = httpx.Response(200, headers=headers, stream=Stream([whole[:length]]))
        response, call, _ = await asked(api, cut, answered(api, "Second answer."))
        assert response.text == call.told
        assert response.text in ("Hello there.", "Second answer.")
        if response.text == "Hello there.":
            taken.append(length)
    # Only what lacks no more than the end of its last event, or what comes after the reason that it finished.
    assert all(finished[api] in whole[:length] for length in taken)


@each_api
@pytest.mark.parametrize(
    "text", ["{", '{"cut": "of', "[1, 2]", "null", "nonsense", "[DONE", '"text"', "[" * 9999]
)
async def test_a_chunk_that_is_no_json_object_is_not_read_over(api, text):
    """A chunk that cannot be read may have held a part of the answer."""
    events = events_of(api, "Hello there.")
    response, call, _ = await asked(api, streamed(*events[:2], text, *events[2:]), answered(api))
    assert response.text == call.told == "Hello there."
    ((_, why),) = call.noted("wait")
    assert why.startswith(f"{LABELS[api]} sent a chunk that is no JSON object: {text[:9]}")
    assert len(why) < 700


ERROR_EVENTS = {
    "responses": [
        {"type": "error", "code": "server_error", "message": "Oops.", "param": None, "sequence_number": 3},
        {"type": "error", "error": {"type": "server_error", "message": "Oops."}},
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Oops."}}},
    ],
    "chat": [
        {"error": {"type": "server_error", "message": "Oops.", "code": None}},
        {"id": "1", "choices": [], "error": {"message": "Oops.", "type": "server_error"}},
    ],
    "messages": [{"type": "error", "error": {"type": "server_error", "message": "Oops."}}],
}


@pytest.mark.parametrize(("api", "event"), [(api, event) for api in APIS for event in ERROR_EVENTS[api]])
async def test_an_error_in_a_stream_is_asked_again(api, event):
    """A provider may find out in the middle of an answer that it cannot go on."""
    response, call, _ = await asked(api, streamed(*half(api), event), answered(api))
    assert response.text == call.told == "Hello there."
    assert [why for _, why in call.noted("wait")] == [
        f"{LABELS[api]} reported an error in its answer (server_error): Oops."
    ]


LASTING = [
    "invalid_request_error",
    "invalid_prompt",
    "authentication_error",
    "insufficient_quota",
    "image_too_large",
    "empty_image_file",
    "failed_to_download_image",
]


@each_api
@pytest.mark.parametrize("kind", LASTING)
async def test_an_error_in_a_stream_that_will_not_pass_is_final(api, kind):
    """What the same request would meet again is not asked again, though it came after status 200."""
    error, call, _ = await asked(api, streamed({"type": "error", "error": {"type": kind, "message": "No."}}))
    assert str(error) == f"{LABELS[api]} reported an error in its answer ({kind}): No."
    assert error.status == 200 and not call.noted("wait") and call.noted("spent") == [Usage(requests=1)]


@each_api
@pytest.mark.parametrize("field", ["code", "status"])
@pytest.mark.parametrize("written", [int, str])
@pytest.mark.parametrize(
    ("code", "kind", "again"),
    [
        (400, None, False),
        (402, None, False),
        (403, None, False),
        (425, None, True),
        (429, None, True),
        (429, "rate_limit_error", True),
        (429, "insufficient_quota", False),
        (502, None, True),
    ],
)
async def test_a_status_inside_of_an_answer_counts_as_one(api, field, written, code, kind, again):
    """A gateway that has begun to answer tells in its error what it met, as a number or a text."""
    error = {"error": {field: written(code), "type": kind, "message": "Upstream."}}
    for first in (streamed(error), httpx.Response(200, json=error), refusal(code, error)):
        response, call, _ = await asked(api, first, answered(api))
        assert isinstance(response, ModelError) != again
        assert bool(call.noted("wait")) == again


@each_api
async def test_an_answer_that_is_no_stream_is_asked_for_again(api):
    """A page of a gateway that is being repaired is no answer."""
    page = httpx.Response(200, html="<h1>Back  soon</h1>")
    response, call, _ = await asked(api, page, answered(api))
    assert response.text == "Hello there."
    assert [why for _, why in call.noted("wait")] == [
        f"{LABELS[api]} answered with text/html (19 bytes) in place of a stream of events: <h1>Back soon</h1>"
    ]
    error, _, _ = await asked(
        api, httpx.Response(200, json={"error": {"type": "invalid_x", "message": "No."}})
    )
    assert str(error) == f"{LABELS[api]} reported an error in its answer (invalid_x): No."


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
async def test_an_answer_that_says_it_went_wrong_is_asked_for_again(reason):
    """Some servers end an answer that failed with a finish reason of their own."""
    wrong = streamed(*events_of("chat", "Half an", reason=reason))
    response, call, _ = await asked("chat", wrong, answered("chat"))
    assert response.text == call.told == "Hello there."
    assert [why for _, why in call.noted("wait")] == [
        f"openai('gpt-5-mini') ended its answer with the finish reason {reason!r}"
    ]
    assert call.noted("spent") == [USED]


# Whole answers with odd ends.


async def test_a_chat_stream_may_end_without_done_once_it_has_finished():
    """Some servers leave out the last line; the finish reason says that the answer is whole."""
    response, call, _ = await asked("chat", streamed(chunk({"content": "Hi"}), chunk({}, "stop")))
    assert response.text == "Hi" and not call.noted("wait")


async def test_a_messages_stream_needs_a_stop_reason():
    """An end without a reason is none."""
    events = [event for event in events_of("messages", "Hi") if event["type"] != "message_delta"]
    response, call, _ = await asked("messages", streamed(*events), answered("messages"))
    assert response.text == "Hello there." and call.noted("spent")[0].input_tokens == 20


@each_api
async def test_comments_and_empty_events_are_read_over(api):
    """Servers send comments and events without data to keep a connection alive."""
    good = sse(*events_of(api, "Hello there."))
    noise = b": ping\n\nevent: ping\n\nid: 7\n\nretry: 100\n\n"
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    stream = Stream([noise, good.replace(b"\n\n", b"\r\n\r\n" + noise)])
    response, call, _ = await asked(api, httpx.Response(200, headers=headers, stream=stream))
    assert response.text == "Hello there." and not call.noted("wait")


@each_api
async def test_a_character_cut_in_two_comes_out_whole(api):
    """What cuts a stream into pieces knows no characters, and line separators of Unicode end no line."""
    text = "naïve 🎺\u2028 x"
    whole = sse(
        *(json.dumps(event, ensure_ascii=False) for event in events_of(api, text) if event != "[DONE]")
    )
    stream = Stream([whole[start : start + 1] for start in range(len(whole))])
    headers = {"content-type": "text/event-stream"}
    response, call, _ = await asked(api, httpx.Response(200, headers=headers, stream=stream))
    assert response.text == call.told == text


async def test_a_stream_is_read_to_its_end_so_that_its_connection_can_be_used_again():
    """After the last event the rest is read, though not for long."""
    stream = Stream([sse(*events_of("chat", "Hi")), b": bye\n\n", b": bye\n\n"])
    headers = {"content-type": "text/event-stream"}
    server = Server(httpx.Response(200, headers=headers, stream=stream))
    await model_of("chat", server).respond(request_of())
    assert stream.closed and stream._pieces


@each_api
async def test_a_stream_that_does_not_end_is_left(api, autojump_clock):
    """A server that keeps the connection open after the answer's end is not waited for."""
    response, call, _ = await asked(api, streamed(*events_of(api, "Hi"), ends="hang"))
    assert response.text == "Hi" and trio.current_time() < 2 and not call.noted("wait")


@each_api
async def test_what_comes_after_the_end_does_not_count(api):
    """An answer that is whole stays so, whatever happens to its connection."""
    response, call, _ = await asked(api, streamed(*events_of(api, "Hi"), ends=httpx.ReadError("late")))
    assert response.text == "Hi" and not call.noted("wait")


# What is not asked again.


REFUSALS = [
    (400, {"error": {"message": "Too long.", "type": "invalid_request_error", "code": "context_length_exceeded"}},
     "answered 400 (invalid_request_error, context_length_exceeded): Too long."),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too many"}},
     "answered 400 (invalid_request_error): max_tokens: too many."),
    (402, {"error": {"message": "Pay!", "code": 402}}, "answered 402 (402): Pay!"),
    (404, {"detail": "Not Found"}, "answered 404: Not Found."),
    (405, "", "answered 405."),
    (413, "<html>\n  too large</html>", "answered 413: <html> too large</html>."),
    (422, {"detail": [{"loc": ["body", "x"], "msg": "bad"}]}, 'answered 422: [{"loc": ["body", "x"], "msg": "bad"}].'),
    (422, {"object": "error", "message": "No.", "type": "invalid", "code": None}, "answered 422 (invalid): No."),
    (418, {"error": "I am a teapot"}, "answered 418: I am a teapot."),
    (418, {"error": {"message": {"detail": "odd"}}}, 'answered 418: {"detail": "odd"}.'),
    (418, "[1, 2]", "answered 418: [1, 2]."),
    (418, "null", "answered 418: null."),
]  # fmt: skip


@each_api
@pytest.mark.parametrize(("status", "body", "said"), REFUSALS)
async def test_another_4xx_is_an_error_in_the_providers_words(api, status, body, said):
    """The error says which model, the status, and what the provider says, and nothing is asked again."""
    error, call, _ = await asked(api, refusal(status, body))
    assert str(error) == f"{LABELS[api]} {said}"
    assert error.status == status and error.text is None and error.__cause__ is None
    assert call.notes == [("spent", FREE)]


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize(
    ("api", "address"),
    [
        ("chat", "http://host:8000/chat/completions"),
        ("responses", "http://host:8000/responses"),
        ("messages", "http://host:8000/v1/messages"),
    ],
)
async def test_a_server_that_has_no_such_function_is_named_with_it(api, address, status):
    """Mostly, the address lacks its /v1."""
    error, _, _ = await asked(api, refusal(status), base_url="http://host:8000/?key=secret-of-it")
    assert str(error) == f"{LABELS[api]} answered {status}. It was asked at {address}."


@each_api
async def test_an_error_whose_body_breaks_off_is_judged_by_its_status(api):
    """The status says enough."""
    broken = [httpx.Response(status, stream=Stream([b"{"], httpx.ReadError("lost"))) for status in (503, 400)]
    error, call, _ = await asked(api, *broken)
    assert str(error) == f"{LABELS[api]} answered 400."
    assert [why for _, why in call.noted("wait")] == [f"{LABELS[api]} answered 503"]


@each_api
async def test_an_address_that_httpx_does_not_take_is_an_error(api):
    """Some names of hosts cannot be written."""
    error, call, _ = await asked(api, base_url="http://ü..x/v1")
    assert (
        str(error)
        == f"{LABELS[api]} could not be reached at http://ü..x: InvalidURL: Invalid IDNA hostname: 'ü..x'."
    )
    assert not call.noted("wait")


async def test_what_a_users_client_raises_is_judged_as_well():
    """A client may have a hook that raises at a status; a transport may raise errors of its own."""

    async def check(response: httpx.Response) -> None:
        response.raise_for_status()

    class OddError(httpx.TransportError):
        def __init__(self, one: str, two: str) -> None:
            super().__init__(one + two)

    server = Server(refusal(500, retry_after="9"), OddError("od", "d"), refusal(400))
    server.client.event_hooks = {"response": [check]}
    call = Call(server.client)
    model = model_of("chat")
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of(call=call))
    assert str(caught.value) == "openai('gpt-5-mini') answered 400."
    first, second = call.noted("wait")
    assert first[0] >= 9 and first[1] == "openai('gpt-5-mini') answered 500"
    assert second[1] == "openai('gpt-5-mini') gave no answer: OddError: odd"
    server = Server(OddError("od", "d"))
    with pytest.raises(ModelError) as caught:
        await model_of("chat", server, retries=0).respond(request_of())
    assert str(caught.value.__cause__) == "OddError: odd"


@each_api
async def test_a_redirection_is_an_error_that_says_where_to(api):
    """It is not followed: the key would go to an address that nobody gave."""
    error, _, _ = await asked(api, refusal(301, location="https://elsewhere.example/v1"))
    assert str(error) == f"{LABELS[api]} answered 301: it redirects to https://elsewhere.example."


QUOTAS = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_balance_exhausted",
]


@each_api
@pytest.mark.parametrize("code", QUOTAS)
@pytest.mark.parametrize("field", ["type", "code"])
async def test_a_quota_that_is_used_up_is_not_asked_again(api, code, field):
    """It is a 429 like a rate limit, but no wait helps."""
    error, call, _ = await asked(
        api, refusal(429, {"error": {"message": "Pay.", field: code}}, retry_after="1")
    )
    assert str(error) == f"{LABELS[api]} answered 429 ({code}): Pay."
    assert error.status == 429 and not call.noted("wait")


@pytest.mark.parametrize("told", ["false", "False", " FALSE "])
async def test_a_server_that_says_not_to_ask_again_is_not(told):
    """OpenAI and Anthropic send a header that says so, and their own clients obey."""
    error, call, _ = await asked("chat", refusal(503, "Down.", x_should_retry=told))
    assert str(error) == "openai('gpt-5-mini') answered 503: Down." and not call.noted("wait")


@pytest.mark.parametrize("told", ["true", "True", "TRUE"])
async def test_a_server_that_says_to_ask_again_is_asked(told):
    """It knows better than its status, but for a quota that is used up."""
    response, call, _ = await asked("chat", refusal(400, "Odd.", x_should_retry=told), answered("chat"))
    assert response.text == "Hello there."
    assert [why for _, why in call.noted("wait")] == ["openai('gpt-5-mini') answered 400: Odd."]
    used_up = {"error": {"message": "Pay.", "code": "insufficient_quota"}}
    error, call, _ = await asked("chat", refusal(429, used_up, x_should_retry=told))
    assert isinstance(error, ModelError) and not call.noted("wait")


async def test_what_a_server_says_of_asking_again_may_make_no_sense():
    """Then the status counts."""
    error, call, _ = await asked(
        "chat", refusal(500, x_should_retry="maybe"), refusal(400, x_should_retry="maybe")
    )
    assert str(error) == "openai('gpt-5-mini') answered 400." and len(call.noted("wait")) == 1


# The last error.


@each_api
async def test_the_last_error_says_how_many_attempts_there_were_and_what_the_last_one_met(api):
    """The attempts end, and the last one's failure is the cause."""
    error, call, server = await asked(
        api, refusal(500), httpx.ConnectError("no"), refusal(503, {"error": {"message": "Busy."}}), retries=2
    )
    assert str(error) == f"{LABELS[api]} gave no answer in 3 attempts; at the last one it answered 503: Busy."
    assert error.status == 503
    assert (
        isinstance(error.__cause__, ModelError)
        and str(error.__cause__) == f"{LABELS[api]} answered 503: Busy."
    )
    assert len(server.requests) == 3 and len(call.noted("wait")) == 2
    assert call.noted("spent") == [FREE] * 3


@each_api
async def test_the_last_error_after_text_takes_nothing_back(api):
    """Nothing is asked anew after the last attempt, so no restart is told."""
    cut = streamed(*half(api))
    error, call, _ = await asked(api, cut, retries=0)
    assert str(error) == (
        f"{LABELS[api]} gave no answer in 1 attempt; at the last one it ended its answer early, without saying "
        "that it is finished."
    )
    assert error.status == 200 and not call.noted("restart")


async def test_the_cause_of_a_lost_connection_is_what_httpx_raised():
    """It has the type and the text, and neither the request nor a traceback, which have the key."""
    error, _, _ = await asked("chat", unreachable(httpx.ReadError), retries=0)
    cause = error.__cause__
    assert type(cause) is httpx.ReadError and str(cause) == "no route"
    assert cause._request is None and cause.__traceback__ is None and cause.__context__ is None
    assert error.__context__ is None and error.status is None


async def test_a_model_asks_six_times_unless_told_otherwise():
    """The first attempt has five followers."""
    error, _, server = await asked("chat", *[refusal(500) for _ in range(6)])
    assert len(server.requests) == 6 and "in 6 attempts" in str(error)


# Waits.


@each_api
async def test_waits_grow_and_are_drawn(api, monkeypatch):
    """Each wait is drawn from a range that begins where the last one ended and is twice as wide."""
    drawn = []
    monkeypatch.setattr(_failures.random, "uniform", lambda low, high: drawn.append((low, high)) or high)
    _, call, _ = await asked(api, *[refusal(500) for _ in range(8)], answered(api), retries=8)
    assert [seconds for seconds, _ in call.noted("wait")] == [0.5, 1.5, 3.5, 7.5, 15.5, 30.0, 30.0, 30.0]
    assert drawn == [(0, width) for width in (0.5, 1, 2, 4, 8, 15, 15, 15)]


def test_waits_are_spread_over_their_whole_ranges():
    """The jitter is full: waits of many clients do not come together."""
    random.seed(7)
    for failed, low, high in ((1, 0, 0.5), (2, 0.5, 1.5), (3, 1.5, 3.5), (50, 15, 30)):
        waits = [_failures.pause(failed, None) for _ in range(2000)]
        assert (
            low <= min(waits) < low + (high - low) * 0.02 and high - (high - low) * 0.02 < max(waits) <= high
        )
        assert statistics.mean(waits) == pytest.approx((low + high) / 2, rel=0.05)
    assert _failures.pause(10**9, None) <= 30


def date(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


ASKED = [
    ({"retry_after": "2"}, 2),
    ({"retry_after": "0.25"}, 0.25),
    ({"retry_after": " 7 "}, 7),
    ({"retry_after": "0"}, 0),
    ({"retry_after": "-5"}, 0),
    ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
    ({"retry_after_ms": "soon", "retry_after": "2"}, 2),
    ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
    ({"retry_after": "Wed, 21 Oct 2026 07:28:30", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
    ({"retry_after": "Wednesday, 21-Oct-26 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
    ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ({"retry_after": "300"}, 300),
]


@each_api
@pytest.mark.parametrize("status", [429, 503, 500, 408])
@pytest.mark.parametrize(("headers", "least"), ASKED)
async def test_a_wait_that_is_asked_for_is_the_least(api, status, headers, least):
    """Seconds, fractions, dates and milliseconds are understood, and jitter only adds to them."""
    _, call, _ = await asked(api, refusal(status, **headers), answered(api))
    ((seconds, _),) = call.noted("wait")
    assert least <= seconds <= least + 0.5


async def test_a_date_without_the_servers_own_counts_from_here():
    """Where a server does not say what time it is, this machine's clock must do."""
    _, call, _ = await asked("chat", refusal(429, retry_after=date(100)), answered("chat"))
    ((seconds, _),) = call.noted("wait")
    assert 98 <= seconds <= 101


@pytest.mark.parametrize(
    "text", ["soon", "", "nan", "inf", "1e999", "99:99", "Wed, 99 Oct 2015 07:28:00 GMT"]
)
async def test_a_wait_that_cannot_be_understood_is_as_none(text):
    """The usual wait stands in for it."""
    _, call, _ = await asked("chat", refusal(429, retry_after=text), answered("chat"))
    ((seconds, _),) = call.noted("wait")
    assert 0 <= seconds <= 0.5


@each_api
async def test_a_wait_that_is_too_long_is_not_waited_for(api):
    """The error says how long the server asks to wait."""
    error, call, _ = await asked(
        api, refusal(429, {"error": {"message": "Quota per day."}}, retry_after="7200")
    )
    assert str(error) == (
        f"{LABELS[api]} answered 429: Quota per day. It asks to wait 2 h 0 min, and a model is waited for 5 min 0 s "
        "at most."
    )
    assert error.status == 429 and not call.noted("wait") and call.noted("spent") == [FREE]


async def test_jitter_makes_no_wait_too_long():
    """What is asked for counts, not what is added."""
    _, call, _ = await asked("chat", *[refusal(429, retry_after="300") for _ in range(4)], answered("chat"))
    assert all(300 <= seconds <= 304 for seconds, _ in call.noted("wait"))


# What an attempt has used.


USAGE_SO_FAR = {"responses": Usage(requests=1), "chat": Usage(requests=1), "messages": Usage(requests=1, input_tokens=20, output_tokens=1, cached_tokens=4)}  # fmt: skip


@each_api
async def test_an_attempt_that_came_to_nothing_is_counted_with_what_it_told(api):
    """Anthropic says at the start of an answer what its prompt cost."""
    cut = streamed(*half(api))
    response, call, _ = await asked(api, cut, answered(api))
    assert call.noted("spent") == [USAGE_SO_FAR[api]]
    assert response.usage == USED


@each_api
async def test_what_was_refused_before_an_answer_leaves_the_cost_known(api):
    """It cost nothing; an answer that broke off cost nobody knows what."""
    _, call, _ = await asked(api, refusal(429), refusal(500), httpx.ConnectError("no"), answered(api))
    usage = sum(call.noted("spent"), Usage()) + Usage(requests=1, input_tokens=20, cost=0.25)
    assert (usage.requests, usage.cost) == (4, 0.25)
    _, call, _ = await asked(api, streamed(*half(api)), httpx.ReadError("no"), answered(api))
    assert [spent.cost for spent in call.noted("spent")] == [None, None]


async def test_a_failed_response_counts_what_it_used():
    """The Responses API tells the usage of a response that failed."""
    usage = {"input_tokens": 7, "output_tokens": 2}
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error"}, "usage": usage}}
    _, call, _ = await asked("responses", streamed(failed), answered("responses"))
    assert call.noted("spent") == [Usage(requests=1, input_tokens=7, output_tokens=2)]


async def test_usage_that_comes_with_every_chunk_is_not_added_up():
    """Some servers tell the sum so far each time."""
    usages = [{"prompt_tokens": 20, "completion_tokens": count} for count in (1, 2, 3)]
    chunks = [chunk({"content": "x"}, usage=usage) for usage in usages]
    response, _, _ = await asked("chat", streamed(*chunks, chunk({}, "stop"), "[DONE]"))
    assert response.usage == Usage(requests=1, input_tokens=20, output_tokens=3)


@each_api
@pytest.mark.parametrize(
    "usage", [None, {}, [], "many", {"input_tokens": "3 or so", "prompt_tokens": -1}, {"input_tokens": True}]
)
async def test_usage_of_an_odd_shape_counts_nothing(api, usage):
    """A count that is none is 0, and the answer stands."""
    events = events_of(api, "Hi", usage=False)
    places = {"responses": -1, "chat": -2, "messages": -2}
    inside = events[places[api]]
    (inside["response"] if api == "responses" else inside)["usage"] = usage
    if api == "messages":
        del events[0]
    response, _, _ = await asked(api, streamed(*events))
    assert response.text == "Hi" and response.usage == Usage(requests=1)


async def test_a_cache_that_anthropic_counts_apart_is_in_the_input():
    """Usage counts cached tokens as a part of the input, and later counts go over earlier ones."""
    events = events_of("messages", "Hi")
    events[-2]["usage"] = {"input_tokens": 100, "cache_read_input_tokens": None, "output_tokens": 5}
    response, _, _ = await asked("messages", streamed(*events))
    assert response.usage == Usage(requests=1, input_tokens=107, cached_tokens=4, output_tokens=5)


# Fields that some servers refuse.


UNKNOWN_OPTIONS = [
    {"error": {"message": "Unrecognized request argument supplied: stream_options", "type": "invalid_request_error"}},
    {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"]}]},
    {"error": {"message": "No.", "param": "stream_options.include_usage"}},
]  # fmt: skip


@pytest.mark.parametrize("body", UNKNOWN_OPTIONS)
@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_that_refuses_stream_options_is_asked_without_them(status, body):
    """It is asked anew at once, and from then on without them; such an answer has no usage."""
    server = Server(refusal(status, body), answered("chat", usage=False), answered("chat", usage=False))
    model = model_of("chat", server)
    call = Call(server.client)
    response = await model.respond(request_of(call=call))
    await model.respond(request_of(call=call))
    assert response.usage == Usage(requests=1) and call.noted("spent") == [FREE]
    assert not call.noted("wait")
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


async def test_a_model_that_does_not_think_is_asked_without_its_thoughts():
    """OpenAI refuses to send the thoughts of a model that has none."""
    message = "Encrypted content is not supported with this model."
    body = {"error": {"message": message, "type": "invalid_request_error", "param": "include", "code": None}}
    response, call, server = await asked("responses", refusal(400, body), answered("responses"))
    assert response.text == "Hello there." and not call.noted("wait")
    assert ["include" in body for body in server.bodies] == [True, False]


@each_api
async def test_other_400s_are_not_asked_again_without_anything(api):
    """Only what names the field is about it."""
    error, _, server = await asked(api, refusal(400, {"error": {"message": "Bad.", "param": "input"}}))
    assert isinstance(error, ModelError) and len(server.requests) == 1


async def test_a_field_that_is_refused_though_it_is_not_there_ends_in_an_error():
    """A server that makes no sense is not asked for ever."""
    error, _, server = await asked("chat", *[refusal(400, UNKNOWN_OPTIONS[0]) for _ in range(2)])
    assert isinstance(error, ModelError) and len(server.requests) == 2


# Cancelling, and what users raise.


@each_api
async def test_cancelling_passes_at_once_and_closes_the_answer(api, autojump_clock):
    """Nothing is waited for, and the connection is given back; the attempt is counted."""
    stream = Stream([sse(*half(api))], "hang")
    server = Server(httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream))
    call = Call(server.client)
    with trio.move_on_after(5) as scope:
        await model_of(api).respond(request_of(call=call))
    assert scope.cancelled_caught and trio.current_time() == 5
    assert stream.closed and call.noted("spent") == [USAGE_SO_FAR[api]]
    assert not call.noted("restart") and not call.noted("wait")


async def test_cancelling_before_anything_is_sent_sends_nothing():
    """A cancelled step asks nobody."""
    server = Server()
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()
        await model_of("chat", server).respond(request_of())
    assert scope.cancelled_caught and not server.requests


async def test_cancelling_during_a_wait_asks_no_more(autojump_clock):
    """The wait is the run's own, and what it raises passes."""

    class Waits(Call):
        async def wait(self, seconds: float, why: str) -> None:
            await trio.sleep(3600)

    server = Server(refusal(500))
    with trio.move_on_after(1) as scope:
        await model_of("chat").respond(request_of(call=Waits(server.client)))
    assert scope.cancelled_caught and len(server.requests) == 1


@each_api
async def test_what_a_run_raises_at_a_text_passes(api):
    """An exception in on_update fails the step, and leaves no generator behind."""

    class Raises(Call):
        def text(self, delta: str) -> None:
            raise ZeroDivisionError(delta)

    stream = Stream([sse(event) for event in events_of(api, "Hello there.")], "hang")
    server = Server(httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream))
    call = Raises(server.client)
    with pytest.raises(ZeroDivisionError, match="Hello t"):
        await model_of(api).respond(request_of(call=call))
    gc.collect()
    await trio.testing.wait_all_tasks_blocked()
    assert stream.closed and len(call.noted("spent")) == 1


# Clients.


async def test_a_model_without_a_run_brings_a_client_and_closes_it(monkeypatch):
    """A model that is tried by hand leaves nothing open."""
    server = Server(answered("chat"))
    monkeypatch.setattr(Alone, "client", server.client)
    response = await model_of("chat").respond(request_of())
    assert response.text == "Hello there." and server.client.is_closed


async def test_a_users_client_is_used_and_left_open():
    """It goes before the run's, and is the user's to close."""
    server, other = Server(answered("chat"), answered("chat")), Server()
    await model_of("chat", server).respond(request_of(call=Call(other.client)))
    await model_of("chat", server).respond(request_of())
    assert len(server.requests) == 2 and not server.client.is_closed and not other.requests


@each_api
async def test_timeouts_are_those_of_the_model(api):
    """Silence is what is limited, not the whole answer, nor the wait for a free connection."""
    server = Server(answered(api), answered(api))
    await model_of(api, server).respond(request_of())
    await model_of(api, server, timeout=7).respond(request_of())
    assert [request.extensions["timeout"] for request in server.requests] == [
        {"connect": 10.0, "read": 60.0, "write": 60.0, "pool": None},
        {"connect": 10.0, "read": 7.0, "write": 7.0, "pool": None},
    ]


@each_api
async def test_one_model_can_be_asked_by_many_at_once(api):
    """A model keeps nothing of a request."""
    server = Server(*[lambda request: answered(api, json.dumps(len(request.content))) for _ in range(20)])
    model = model_of(api, server)
    answers: dict[int, str] = {}

    async def one(number: int) -> None:
        answers[number] = (await model.respond(request_of("x" * number))).text

    async with trio.open_nursery() as nursery:
        for number in range(1, 21):
            nursery.start_soon(one, number)
    base = int(answers[1]) - 1
    assert answers == {number: str(base + number) for number in range(1, 21)}


def test_limits_are_as_the_documentation_says():
    """The numbers that users are told."""
    assert (_failures.LONGEST_ASKED, _http.CONNECT_SECONDS, _streams.END_SECONDS) == (300, 10, 1)


@each_api
async def test_a_proxy_that_refuses_to_connect_is_not_tried_again(api):
    """As a wrong password does not get better; one that is busy may."""
    busy, refused = httpx.ProxyError("503 Busy"), httpx.ProxyError("407 Proxy Authentication Required")
    error, call, _ = await asked(api, busy, refused, base_url="https://api.example.org/v1")
    unreached = f"{LABELS[api]} could not be reached at https://api.example.org: ProxyError:"
    assert str(error) == f"{unreached} 407 Proxy Authentication Required."
    assert [why for _, why in call.noted("wait")] == [f"{unreached} 503 Busy"]
    assert call.noted("spent") == [FREE] * 2
