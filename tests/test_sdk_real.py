"""Model clients against a server that others wrote, which fails as it is told to and judges what comes of it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from june import ModelError
from june.messages import Message, Request, Response, Settings
from tests.llmock_matrix import (
    APIS,
    FAULTS,
    KEY,
    WEATHER,
    Call,
    Fault,
    Outcome,
    converse,
    even_waits,
    http_client,
    llmock,
    model_of,
    problems,
    try_out,
)

pytestmark = [pytest.mark.real, pytest.mark.slow]

each_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """One server for each API, so that all three can be tried at once."""
    with llmock(count=len(APIS)) as servers:
        yield dict(zip(APIS, servers, strict=True))


@pytest.fixture(autouse=True)
def short_waits() -> Iterator[None]:
    with even_waits():
        yield


async def of_each(work: Callable[[str], Awaitable[Any]]) -> dict[str, Any]:
    """Do something for each API at once."""
    done: dict[str, Any] = {}

    async def one(api: str) -> None:
        done[api] = await work(api)

    async with trio.open_nursery() as nursery:
        for api in APIS:
            nursery.start_soon(one, api)
    return done


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_fault_is_met_as_the_server_thinks_right(fault: Fault, addresses):
    """The answer is whole or an error, each attempt is counted, and the verdict has no finding, not even a warning."""
    outcomes = await of_each(lambda api: try_out(fault, api, addresses[api]))
    assert {api: problems(fault, outcome) for api, outcome in outcomes.items()} == {api: [] for api in APIS}


async def tried(name: str, addresses: dict[str, str]) -> dict[str, Outcome]:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    return await of_each(lambda api: try_out(fault, api, addresses[api]))


async def test_broken_tool_calls_come_through_as_they_are(addresses):
    """What is wrong with a call is for the model to be told."""
    for api, outcome in (await tried("arguments are no JSON", addresses)).items():
        (call,) = outcome.answer.tool_calls
        assert call.name == "weather" and call.arguments.startswith('{"city": "'), api
        with pytest.raises(ValueError):
            json.loads(call.arguments)
    for api, outcome in (await tried("unknown tool", addresses)).items():
        (call,) = outcome.answer.tool_calls
        assert call.name == "llmock_unknown_tool", api


async def test_several_tool_calls_come_out_whole(addresses):
    """Also after the stream that had them first was cut in the middle of one."""
    for name in ("two tool calls", "tool call, disconnect", "tool call, truncate"):
        for outcome in (await tried(name, addresses)).values():
            calls = [(call.name, json.loads(call.arguments)) for call in outcome.answer.tool_calls]
            assert calls == [("weather", {"city": "Paris" * 40}), ("weather", {})]


async def test_ends_are_told_apart(addresses):
    """As far as the server tells them apart: its Responses API knows no content filter."""
    cut = await tried("cut off", addresses)
    assert {outcome.answer.finish_reason for outcome in cut.values()} == {"length"}
    held = {
        api: outcome.answer.finish_reason for api, outcome in (await tried("held back", addresses)).items()
    }
    assert held == {"responses": "stop", "chat": "content_filter", "messages": "refusal"}


async def test_errors_have_the_providers_words(addresses):
    """The bodies of errors are the providers' own."""
    said = {api: str(outcome.answer) for api, outcome in (await tried("401", addresses)).items()}
    hint = "The key comes from api_key=."
    assert said == {
        "responses": f"openai('mock-1') answered 401 (authentication_error, invalid_api_key): Unauthorized. {hint}",
        "chat": f"openai('mock-1') answered 401 (authentication_error, invalid_api_key): Unauthorized. {hint}",
        "messages": f"anthropic('mock-1') answered 401 (authentication_error): Unauthorized. {hint}",
    }


async def test_a_conversation_with_a_tool_comes_to_its_end(addresses):
    """The server calls an offered tool, and answers once it is told the result."""
    answers = await of_each(lambda api: converse(api, addresses[api]))
    for first, second in answers.values():
        assert [json.loads(call.arguments) for call in first.tool_calls] == [{"city": "mock-city"}]
        assert second.text and not second.tool_calls


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_schema_is_kept_to(api, addresses):
    """The server reads the schema where the provider does; Anthropic's new place for it it does not know."""
    async with http_client() as client:
        request = Request(messages=(Message("Where?"),), output=WEATHER.schema, call=Call(client))
        response = await model_of(api, addresses[api]).respond(request)
    assert json.loads(response.text) == {"city": "mock-city"}


async def test_a_cancelled_request_frees_the_server_at_once(addresses):
    """The connection is closed when the step is cancelled, and the server sees it."""

    async def cancelled(api: str) -> list[Any]:
        async with http_client() as client:
            (await client.post(f"{addresses[api]}/_llmock/reset")).raise_for_status()
            stall = {"type": "stream_fault", "kind": "stall", "after_chunks": 4, "stall_seconds": 60}
            await client.post(f"{addresses[api]}/_llmock/scenario", json={"behaviors": [stall]})
            call = Call(client)
            with trio.move_on_after(0.5):
                await model_of(api, addresses[api], timeout=60).respond(_asking(call))
            assert call.used.requests == 1
            (request,) = (await client.get(f"{addresses[api]}/_llmock/requests")).json()["requests"]
        return [request["completed"], request["duration"] < 1.5]

    assert await of_each(cancelled) == {api: [False, True] for api in APIS}


def _asking(call: Call, **fields: Any) -> Request:
    return Request(messages=(Message("What is the weather in Paris?"),), call=call, **fields)


@asynccontextmanager
async def server_with(*flags: str) -> AsyncIterator[str]:
    """Run a server with settings of its own, which is started beside the loop."""
    server = llmock(*flags)
    (address,) = await trio.to_thread.run_sync(server.__enter__)
    try:
        yield address
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: server.__exit__(None, None, None))


async def findings(address: str) -> list[Any]:
    async with http_client() as client:
        return (await client.get(f"{address}/_llmock/verdict", timeout=10)).json()["findings"]


async def test_a_slow_stream_is_waited_for_as_long_as_it_goes_on_and_a_quota_until_there_is_enough():
    """Silence is limited, and not the whole answer; and the server says how long it takes until it has tokens again."""
    flags = (
        "--stream-chunk-delay-ms",
        "100",
        "--latency-ms",
        "100",
        "--context-window",
        "50",
        "--tpm",
        "6000",
    )
    async with server_with(*flags) as address:

        async def slow(api: str) -> tuple[float, list[float], str]:
            began = trio.current_time()
            model = model_of(api, address, api_key=f"sk-of-{api}-000")
            async with http_client() as client:
                calls = [Call(client), Call(client)]

                async def ask(call: Call, question: str) -> None:
                    settings = Settings(max_tokens=3000)
                    request = Request(messages=(Message(question),), settings=settings, call=call)
                    assert (await model.respond(request)).text == call.told

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask, calls[0], "Is it warm?")
                    nursery.start_soon(ask, calls[1], "Is it late?")
                answered = trio.current_time() - began
                with pytest.raises(ModelError) as caught:
                    await model.respond(Request(messages=(Message("word " * 100),), call=calls[0]))
            return answered, calls[0].waits + calls[1].waits, str(caught.value)

        outcomes = await of_each(slow)
        assert await findings(address) == []
    for seconds, waits, _ in outcomes.values():
        (wait,) = waits
        assert seconds > wait + 0.8 and wait > 0.3
    assert outcomes["chat"][2] == (
        "openai('mock-1') answered 400 (invalid_request_error, context_length_exceeded): This model's maximum context "
        "length is 50 tokens. However, your messages resulted in 125 tokens."
    )
    assert outcomes["messages"][2] == (
        "anthropic('mock-1') answered 400 (invalid_request_error): prompt is too long: 125 tokens > 50 maximum."
    )


async def test_a_server_where_anything_may_happen_is_worn_down():
    """Errors and broken streams by chance, over and over; every answer that comes is whole."""
    flags = ["--response-style", "echo", "--tool-mode", "off"]
    for status, rate in ((429, 0.03), (500, 0.05), (503, 0.02)):
        flags += ["--error-rate", f"{status}={rate}"]
    for kind in ("truncate", "disconnect", "malformed"):
        flags += ["--stream-fault", f"{kind}=0.06"]
    async with server_with(*flags) as address:

        async def often(api: str) -> list[Response]:
            answers: list[Response] = []

            async def one(number: int) -> None:
                prompt = f"Number {number} of those to {api}, with a few words more so that the answer is not over soon"
                async with http_client() as client:
                    call = Call(client)
                    request = Request(messages=(Message(prompt),), tools=(WEATHER,), call=call)
                    response = await model_of(api, address, retries=9).respond(request)
                    assert response.text == call.told == f"Hello! You said: {prompt}"
                    answers.append(response)

            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(one, number)
            return answers

        outcomes = await of_each(often)
        found = await findings(address)
    assert all(len(answers) == 8 for answers in outcomes.values())
    assert found == []


@each_api
async def test_a_server_that_always_fails_is_given_up(api, addresses):
    """A header makes the server answer with a status, whatever it was told."""
    async with http_client() as client:
        (await client.post(f"{addresses[api]}/_llmock/reset")).raise_for_status()
        model = model_of(api, addresses[api], retries=1, headers={"x-llmock-force-status": "502"})
        with pytest.raises(ModelError) as caught:
            await model.respond(_asking(Call(client)))
    assert "gave no answer in 2 attempts; at the last one it answered 502" in str(caught.value)
    assert await findings(addresses[api]) == []


@each_api
async def test_no_library_logs_the_key(api, addresses, caplog):
    """Also not when everything is logged, as with logging.basicConfig(level="DEBUG")."""
    caplog.set_level(logging.DEBUG)
    async with http_client() as client:
        (await client.post(f"{addresses[api]}/_llmock/reset")).raise_for_status()
        response = await model_of(api, addresses[api]).respond(_asking(Call(client)))
        model = model_of(api, addresses[api], headers={"x-llmock-force-status": "401"})
        with pytest.raises(ModelError):
            await model.respond(_asking(Call(client)))
    assert response.text and "httpcore" in caplog.text and KEY not in caplog.text
