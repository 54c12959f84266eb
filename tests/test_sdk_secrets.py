"""Model clients: where keys come from, and that they show nowhere."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
import subprocess
import sys
import time
import traceback
from base64 import b64encode
from typing import Any

import httpx
import pytest
import trio

from june import ModelError
from june.models import Model
from june.sdk._access import Secret
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai
from tests.sdk_servers import (
    APIS,
    KEY,
    LABELS,
    Call,
    Server,
    Stream,
    answered,
    events_of,
    model_of,
    refusal,
    request_of,
    streamed,
)

each_api = pytest.mark.parametrize("api", APIS)

VARIABLES = {"responses": "OPENAI_API_KEY", "chat": "OPENAI_API_KEY", "messages": "ANTHROPIC_API_KEY"}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch) -> None:
    """No test reads this machine's keys."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def key_in(request: httpx.Request) -> str | None:
    return (
        request.headers.get("x-api-key")
        or request.headers.get("authorization", "").removeprefix("Bearer ")
        or None
    )


# Where they come from.


@each_api
async def test_a_key_is_read_when_the_model_is_asked(api, monkeypatch):
    """A model may be made before the environment is set, and a key may change."""
    server = Server(answered(api), answered(api), answered(api))
    model = model_of(api, server, api_key=None)
    for key in ("sk-first-0000", "sk-second-000", " sk-third-0000\n"):
        monkeypatch.setenv(VARIABLES[api], key)
        await model.respond(request_of())
    assert list(map(key_in, server.requests)) == ["sk-first-0000", "sk-second-000", "sk-third-0000"]


@each_api
async def test_a_key_that_is_passed_goes_before_the_environments(api, monkeypatch):
    """The argument is nearer."""
    monkeypatch.setenv(VARIABLES[api], "sk-of-the-environment")
    server = Server(answered(api))
    await model_of(api, server).respond(request_of())
    assert key_in(server.requests[0]) == KEY


@each_api
@pytest.mark.parametrize("value", [None, "", "  "])
async def test_a_key_that_is_missing_is_said_to_be(api, value, monkeypatch):
    """The error says what to do, and nothing is sent."""
    if value is not None:
        monkeypatch.setenv(VARIABLES[api], value)
    server = Server()
    with pytest.raises(ModelError) as caught:
        await model_of(api, server, api_key=None).respond(request_of())
    assert str(caught.value) == (
        f"{LABELS[api]} has no key. Set the environment variable {VARIABLES[api]}, or pass api_key=."
    )
    assert caught.value.status is None and not server.requests


@each_api
async def test_another_server_may_need_no_key(api, monkeypatch):
    """Where there is none, none is sent; the provider's own server always needs one."""
    server = Server(answered(api), answered(api))
    await model_of(api, server, api_key=None, base_url="http://127.0.0.1:8080/v1").respond(request_of())
    await model_of(api, server, api_key="", base_url="http://127.0.0.1:8080/v1").respond(request_of())
    assert list(map(key_in, server.requests)) == [None, None]
    home = {"messages": "https://api.anthropic.com"}.get(api, "https://api.openai.com/v1")
    with pytest.raises(ModelError, match="has no key"):
        await model_of(api, server, api_key=None, base_url=home).respond(request_of())


@each_api
async def test_headers_may_have_the_key(api):
    """A gateway may want it in a form of its own."""
    header = "x-api-key" if api == "messages" else "Authorization"
    server = Server(answered(api), refusal(401, {"error": {"message": "Who?"}}))
    model = model_of(api, server, api_key=None, headers={header: "Basic c2VjcmV0"})
    await model.respond(request_of())
    assert server.requests[0].headers[header] == "Basic c2VjcmV0"
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of())
    assert str(caught.value) == f"{LABELS[api]} answered 401: Who? The key comes from headers=."


@each_api
@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_refused_is_said_where_it_comes_from(api, status, monkeypatch):
    """The error says which argument or variable to look at."""

    async def said(**options: Any) -> str:
        server = Server(refusal(status, {"error": {"message": "Bad key", "code": "invalid_api_key"}}))
        with pytest.raises(ModelError) as caught:
            await model_of(api, server, **options).respond(request_of())
        assert caught.value.status == status
        return str(caught.value)

    start = f"{LABELS[api]} answered {status} (invalid_api_key): Bad key."
    assert await said() == f"{start} The key comes from api_key=."
    assert await said(api_key=None, base_url="http://127.0.0.1:1/v1") == (
        f"{start} No key was sent; set the environment variable {VARIABLES[api]}, or pass api_key=."
    )
    monkeypatch.setenv(VARIABLES[api], "sk-of-the-environment")
    assert (
        await said(api_key=None) == f"{start} The key comes from the environment variable {VARIABLES[api]}."
    )


@each_api
@pytest.mark.parametrize(
    "key", ["sk-new\nline-00000", "sk-a space-0000", "sk-naïve-000000", "sk-\x00-0000000"]
)
async def test_a_key_that_cannot_be_sent_is_not_shown(api, key):
    """An HTTP library's own error would show the whole header."""
    server = Server()
    with pytest.raises(ModelError) as caught:
        await model_of(api, server, api_key=key).respond(request_of())
    assert str(caught.value) == (
        f"{LABELS[api]} cannot be asked: the key from api_key= has a character that no key has, such as a space, a "
        "line break or a letter with an accent"
    )
    assert key not in everything(caught.value) and not server.requests


@each_api
async def test_a_wrong_address_in_the_environment_is_said_to_be(api, monkeypatch):
    """It may have a password in it, and is not shown."""
    variable = "ANTHROPIC_BASE_URL" if api == "messages" else "OPENAI_BASE_URL"
    monkeypatch.setenv(variable, "user:hunter2000@host")
    with pytest.raises(ModelError) as caught:
        await model_of(api, Server()).respond(request_of())
    assert str(caught.value) == (
        f"{LABELS[api]} cannot be asked: the environment variable {variable} is not an address: it must begin with "
        "https:// or http:// and name a host"
    )


# That they show nowhere.


def everything(error: BaseException) -> str:
    """Give all that may be shown of an exception: texts, attributes, and the locals of June's own frames."""
    seen: set[int] = set()
    found: list[str] = []

    def look(value: Any, depth: int) -> None:
        if id(value) in seen or depth > 4:
            return
        seen.add(id(value))
        found.append(repr(value))
        if isinstance(value, BaseException):
            found.extend(map(str, (value, value.args)))
            found.extend(traceback.format_exception(value))
            for linked in (value.__cause__, value.__context__):
                look(linked, depth)
            frame = value.__traceback__
            while frame is not None:
                if "june" in frame.tb_frame.f_globals.get("__name__", ""):
                    for local in frame.tb_frame.f_locals.values():
                        look(local, depth + 1)
                frame = frame.tb_next
        for name, attribute in getattr(value, "__dict__", {}).items():
            # A request on its way has the key, and does not show it.
            if not isinstance(
                value, (httpx.AsyncClient, httpx.Response, httpx.Request, type(sys), Server, Call)
            ):
                found.append(name)
                look(attribute, depth + 1)

    look(error, 0)
    return "\n".join(found)


def _echo(request: httpx.Request) -> httpx.Response:
    return refusal(401, {"error": {"message": f"Incorrect API key provided: {key_in(request)}."}})


def _raise(kind: Any) -> Any:
    def answer(request: httpx.Request) -> httpx.Response:
        raise kind(f"with {key_in(request)}", request=request)

    return answer


def _cut(ends: Any) -> Any:
    def answer(request: httpx.Request) -> httpx.Response:
        return streamed(f"no JSON: {key_in(request)}" if ends is None else ": x", ends=ends)

    return answer


MISHAPS: list[tuple[str, Any]] = [
    ("refused", _echo),
    ("fails", lambda request: refusal(500, f"oops {key_in(request)}")),
    ("asks for too long", lambda request: refusal(429, f"later, {key_in(request)}", retry_after="9999")),
    ("cannot connect", _raise(httpx.ConnectError)),
    ("times out", _raise(httpx.ReadTimeout)),
    ("cannot send", _raise(httpx.LocalProtocolError)),
    ("no JSON", _cut(None)),
    ("broken off", _cut(httpx.ReadError(f"lost {KEY}"))),
    ("an error event", lambda request: streamed({"type": "error", "error": {"message": key_in(request)}})),
    ("no stream", lambda request: httpx.Response(200, text=f"<p>{key_in(request)}")),
    ("redirected", lambda request: refusal(302, location=f"https://x/?k={key_in(request)}")),
]


@each_api
@pytest.mark.parametrize(("name", "answer"), MISHAPS, ids=[name for name, _ in MISHAPS])
async def test_a_key_shows_in_no_error_and_no_log(api, name, answer, caplog):
    """Not in texts, causes, attributes, June's frames, reasons of waits, or what any library logs."""
    caplog.set_level(logging.DEBUG)
    server = Server(*[answer] * 3)
    call = Call(server.client)
    model = model_of(api, headers={"X-Proxy-Token": "tok-0123456789", "Cookie": "session=abcdef"}, retries=1)
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of(call=call))
    shown = [everything(caught.value), repr(call.notes), caplog.text, repr(model), str(model)]
    for secret in (KEY, "tok-0123456789", "abcdef"):
        assert [secret in text for text in shown] == [False] * 5
    if name == "refused":
        expected = f"{LABELS[api]} answered 401: Incorrect API key provided: …. The key comes from api_key=."
        assert str(caught.value) == expected


async def test_secrets_in_headers_are_hidden_too():
    """A token for a gateway is as secret as a key, with its word before it and without."""
    server = Server(refusal(400, "got 'Bearer tok-0123456789' (tok-0123456789), team 7"))
    model = model_of(
        "chat",
        server,
        headers={"Proxy-Authorization": "Bearer tok-0123456789", "OpenAI-Organization": "team 7"},
    )
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of())
    assert str(caught.value) == "openai('gpt-5-mini') answered 400: got '…' (…), team 7."


@pytest.mark.parametrize("name", ["X-Pass", "X-Credential", "X-Custom", "Authorization"])
async def test_a_header_of_any_name_may_be_a_secret(name):
    """Who gives it need not say what it is for."""
    server = Server(lambda request: refusal(400, f"got {request.headers[name]}"))
    with pytest.raises(ModelError) as caught:
        await model_of("chat", server, headers={name: "verysecret99"}).respond(request_of())
    assert str(caught.value) == "openai('gpt-5-mini') answered 400: got …."


async def test_a_header_that_is_plainly_no_secret_is_shown():
    """An error may be about what it says."""
    headers = {
        "Accept": "text/html",
        "User-Agent": "tool/1.0",
        "OpenAI-Project": "proj_1234",
        "anthropic-version": "2023-06-01",
        "Anthropic-Beta": "context-1m",
    }
    server = Server(
        lambda request: refusal(400, " ".join(request.headers[name] for name in headers).replace("/", "-"))
    )
    with pytest.raises(ModelError) as caught:
        await model_of("chat", server, headers=headers).respond(request_of())
    assert str(caught.value).endswith(" 400: text-html tool-1.0 proj_1234 2023-06-01 context-1m.")


@pytest.mark.parametrize(
    ("userinfo", "said"),
    [
        ("user:hunter2000", "user …"),
        (":hunter2000", " …"),
        ("hunter2000:", "… "),
        ("naïve:hünter2000", "naïve …"),
    ],
)
@pytest.mark.parametrize("padding", ["", "="])
async def test_the_password_in_a_header_is_hidden(userinfo, said, padding):
    """A server may tell what it has read there."""
    written = b64encode(userinfo.encode()).decode()
    written = written if padding else written.rstrip("=")
    server = Server(refusal(401, f"Basic {written}: {userinfo} [{userinfo.replace(':', ' ')}]"))
    model = model_of("chat", server, api_key=None, headers={"authorization": f"basic {written}"})
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of())
    assert f"answered 401: Basic …: … [{said}]" in str(caught.value)


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic abcde", "Basic //8=", "", " "])
async def test_a_header_that_says_no_password_hurts_nobody(header):
    """It is sent as it is."""
    server = Server(answered("chat"))
    model = model_of("chat", server, headers={"authorization": header})
    assert (await model.respond(request_of())).text == "Hello there."


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("query-secret-77", "…"),
        ("a=1&query%2Dsecret%2D77", "a=1&…"),
        ("version_token=query-secret-77", "version_token=…"),
        ("api-version=2024-10-21", "api-version=2024-10-21"),
    ],
)
async def test_secrets_in_a_query_need_no_name(query, said):
    """Only a version is none, by whatever name it goes."""
    server = Server(lambda request: refusal(400, f"bad {request.url.query.decode()} query-secret-77"))
    with pytest.raises(ModelError) as caught:
        await model_of("chat", server, base_url=f"http://host/v1?{query}").respond(request_of())
    last = "query-secret-77" if query.startswith("api") else "…"
    assert str(caught.value) == f"openai('gpt-5-mini') answered 400: bad {said} {last}."


async def test_a_sign_in_a_query_is_hidden_however_it_is_read():
    """A plus may be a space."""
    server = Server(refusal(400, "k1+k2/x, k1 k2/x, k1+k2%2Fx"))
    with pytest.raises(ModelError) as caught:
        await model_of("chat", server, base_url="http://host/v1?sig=k1+k2%2Fx").respond(request_of())
    assert str(caught.value) == "openai('gpt-5-mini') answered 400: …, …, …."


ESCAPES = [
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(json.dumps(text))[3:-3],
    lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    lambda text: "".join(one if one.isalnum() else f"\\u{ord(one):04X}" for one in text),
]


@each_api
@pytest.mark.parametrize("key", ["AAAA/BBBB/CCCC", 'AAAA"BBBB', "AAAA\\BBBB", "AA+B=C<D>&E.F"])
@pytest.mark.parametrize("escape", ESCAPES)
async def test_a_key_is_hidden_as_it_stands_in_json(api, key, escape):
    """What is quoted as it came has the escapes that its server writes."""
    detail = f'{{"detail": "key {escape(key)} is bad"}}'
    for answer, said in (
        (httpx.Response(200, headers={"content-type": "application/json"}, text=detail), 'key … is bad"}'),
        (refusal(400, f'{{"error": [{detail}]}}'), 'key … is bad"}]'),
        (refusal(400, f"no JSON: {detail}"), 'key … is bad"}'),
    ):
        with pytest.raises(ModelError) as caught:
            await model_of(api, Server(answer), api_key=key, retries=0).respond(request_of())
        assert said in str(caught.value)


async def test_many_backslashes_are_soon_looked_through():
    """However many stand where a secret might begin."""
    server = Server(refusal(400, "\\" * 65_000))
    begun = time.perf_counter()
    with pytest.raises(ModelError, match="answered 400"):
        await model_of("chat", server, api_key="/AAAA/BBBB").respond(request_of())
    assert time.perf_counter() - begun < 5


@each_api
async def test_a_key_is_hidden_before_a_text_is_cut(api):
    """Else a part of it would be left at the end."""
    for padding in range(500, 620, 3):
        server = Server(refusal(400, "x" * padding + KEY + "y" * 100))
        with pytest.raises(ModelError) as caught:
            await model_of(api, server).respond(request_of())
        assert KEY[:6] not in str(caught.value) and len(str(caught.value)) < 650


async def test_an_address_shows_without_its_password_and_query():
    """Both may be keys."""
    server = Server(httpx.ConnectError("refused"))
    model = openai("m", base_url="https://user:hunter2000@host:8443/v1?key=secret", api_key=KEY, client=server.client, retries=0)  # fmt: skip
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of())
    assert str(caught.value) == (
        "openai('m') gave no answer in 1 attempt; at the last one it could not be reached at https://host:8443: "
        "ConnectError: refused."
    )
    assert "hunter2000" not in repr(model)


@each_api
async def test_a_key_is_hidden_before_what_is_no_answer_is_quoted(api):
    """In a chunk and in a page, whose quotes are shorter."""
    for padding in range(40, 110, 3):
        text = "x" * padding + KEY + "y" * 100
        for answer in (streamed(text), httpx.Response(200, text=text)):
            with pytest.raises(ModelError) as caught:
                await model_of(api, Server(answer), retries=0).respond(request_of())
            assert KEY[:6] not in everything(caught.value)


PASSWORD, QUERY = "hunter2000", "query-secret-77"


@each_api
@pytest.mark.parametrize("key", [None, KEY])
async def test_a_password_in_an_address_is_what_is_sent(api, key, monkeypatch):
    """It says who asks: a key of the environment is not for that server, and one that is passed is."""
    monkeypatch.setenv(VARIABLES[api], "sk-of-the-environment")
    server = Server(answered(api))
    await model_of(api, server, api_key=key, base_url=f"https://us%40er:{PASSWORD}@host/v1").respond(
        request_of()
    )
    headers = server.requests[0].headers
    assert "sk-of-the-environment" not in str(headers.raw)
    basic = "Basic " + b64encode(f"us@er:{PASSWORD}".encode()).decode()
    if key is None:
        assert headers["authorization"] == basic and "x-api-key" not in headers
    else:
        assert key_in(server.requests[0]) == KEY
        assert headers["authorization"] == (basic if api == "messages" else f"Bearer {KEY}")
    assert PASSWORD not in str(server.requests[0].url)


@each_api
async def test_a_password_in_the_environments_address_goes_before_its_key(api, monkeypatch):
    """Where both are in the environment, the address is the nearer one."""
    variable = "ANTHROPIC_BASE_URL" if api == "messages" else "OPENAI_BASE_URL"
    monkeypatch.setenv(variable, f"https://user:{PASSWORD}@host/v1")
    monkeypatch.setenv(VARIABLES[api], "sk-of-the-environment")
    server = Server(refusal(401, {"error": {"message": "Who?"}}))
    with pytest.raises(ModelError) as caught:
        await model_of(api, server, api_key=None).respond(request_of())
    assert "sk-of-the-environment" not in str(server.requests[0].headers.raw)
    assert str(caught.value) == (
        f"{LABELS[api]} answered 401: Who? The key comes from the environment variable {variable}."
    )


def _echo_address(request: httpx.Request) -> httpx.Response:
    basic = request.headers["authorization"].removeprefix("Basic ")
    said = f"{request.url} {PASSWORD} {basic} v=2024-10-21 http://user:{PASSWORD}@host"
    return refusal(400, {"error": {"message": said}})


@each_api
async def test_secrets_of_an_address_show_nowhere(api):
    """Not when a server sends them back, nor when an exception has them."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError(f"{request.url} and https://user:{PASSWORD}@host")

    server = Server(fail, _echo_address)
    call = Call(server.client)
    address = f"https://user:{PASSWORD}@host/v1?api-key={QUERY}&sig=a%2Fb%2Fc%2Fd&api-version=2024-10-21"
    model = model_of(api, api_key=None, base_url=address, retries=1)
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of(call=call))
    basic = b64encode(f"user:{PASSWORD}".encode()).decode()
    shown = [everything(caught.value), repr(call.notes), repr(model), str(vars(model))]
    for secret in (PASSWORD, QUERY, "a%2Fb%2Fc%2Fd", "a/b/c/d", basic):
        assert [secret in text for text in shown] == [False] * 4
    assert "v=2024-10-21" in str(caught.value)


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
async def test_the_password_of_a_proxy_shows_nowhere(variable, monkeypatch):
    """Whether the proxy cannot be used at all, or says it itself."""
    monkeypatch.setenv(variable, f"ftp://user:{PASSWORD}@proxy:1")
    with pytest.raises(ModelError) as caught:
        await model_of("chat").respond(request_of())
    assert str(caught.value) == (
        "openai('gpt-5-mini') cannot be asked: no HTTP client can be made: Unknown scheme for proxy URL "
        "URL('ftp://…@proxy:1')."
    )
    assert PASSWORD not in everything(caught.value)
    server = Server(httpx.ProxyError(f"407 for user:{PASSWORD} at http://other:word@x/"))
    with pytest.raises(ModelError) as caught:
        await model_of("chat", server, retries=0).respond(request_of())
    assert "ProxyError: 407 for … at http://…@x/" in str(caught.value)
    assert PASSWORD not in everything(caught.value)


async def test_a_proxy_that_is_no_address_hides_nothing_and_hurts_nobody(monkeypatch):
    """The environment may have anything."""
    monkeypatch.setenv("FTP_PROXY", "http://[x")
    server = Server(answered("chat"))
    assert (await model_of("chat", server).respond(request_of())).text == "Hello there."


@each_api
async def test_cancelling_shows_no_key_in_junes_frames(api):
    """What a debugger or a pretty traceback shows of June's own frames has none."""
    stream = Stream([], "hang")
    headers = {"content-type": "text/event-stream"}
    server = Server(httpx.Response(200, headers=headers, stream=stream))
    shown = ""
    with trio.move_on_after(0.01):
        try:
            await model_of(api, server).respond(request_of())
        except trio.Cancelled as error:
            shown = everything(error)
            raise
    assert "_Exchange" in shown and KEY not in shown


@pytest.mark.parametrize(
    "model", [openai("gpt-5-mini", api_key=KEY), anthropic("claude-opus-5", api_key=KEY)]
)
def test_a_model_with_a_key_shows_it_nowhere(model: Model):
    """Not by its repr, its attributes, its key, or a pickle."""
    attributes = str({name: getattr(model, name, None) for name in dir(model)})
    deep = repr([vars(value) for value in vars(model).values() if hasattr(value, "__dict__")])
    for text in (repr(model), attributes, deep, json.dumps(model.settings_key), str(vars(model))):
        assert KEY not in text
    assert model.__june_key__() == model.settings_key  # type: ignore[attr-defined]
    for duplicate in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a key stays in its process: it cannot be pickled or copied"):
            duplicate(model)


def test_a_secret_shows_in_no_format():
    """Whatever is done to show it."""
    secret = Secret(KEY)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r}",
        str([secret]),
        str({"a": secret}),
    ]
    assert KEY not in "".join(shown) and secret.reveal() == KEY
    stream = io.StringIO()
    print(secret, file=stream)
    assert stream.getvalue() == "…\n"


async def test_answers_keep_no_key():
    """What a run notes and saves of an answer comes from the provider only."""
    server = Server(streamed(*events_of("chat", "Hi")))
    response = await model_of("chat", server).respond(request_of())
    assert KEY not in repr(response) and KEY not in repr(response.raw)


# What is imported when.


@pytest.mark.slow
def test_making_a_model_imports_no_http_client():
    """httpx takes longer to import than all of June, and only a model that is used needs it."""
    code = (
        "import sys; import june, june.sdk.openai, june.sdk.anthropic; "
        "june.sdk.openai.openai('m', api_key='k', base_url='http://h/v1'); june.sdk.anthropic.anthropic('m'); "
        "print(sorted({'httpx', 'httpcore'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
