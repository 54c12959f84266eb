"""Model clients: what they send, whole; what an API has no way to ask for; and what goes back in a conversation."""

from __future__ import annotations

import itertools
import json
from base64 import b64encode
from types import MappingProxyType
from typing import Any

import attrs
import httpx
import pytest

from june import Image, ModelError
from june.messages import Message, Request, Response, Settings, ToolCall, ToolResult, ToolSpec
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai
from tests.sdk_servers import (
    APIS,
    KEY,
    LABELS,
    WEATHER,
    Call,
    Called,
    Server,
    answered,
    events_of,
    model_of,
    refusal,
    request_of,
    streamed,
)

each_api = pytest.mark.parametrize("api", APIS)

PNG = b"\x89PNG\r\n\x1a\nrest"
PNG_64 = b64encode(PNG).decode()

ANSWER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}

LOOSE = ToolSpec(name="count", description="Count.", schema={"type": "object", "additionalProperties": {}})


async def sent(api: str, request: Request, **options: Any) -> dict[str, Any]:
    """Give the body of a request."""
    server = Server(answered(api))
    await model_of(api, server, **options).respond(request)
    (body,) = server.bodies
    return body


EVERYTHING = Settings(
    temperature=0.2,
    top_p=0.9,
    max_tokens=500,
    reasoning="low",
    tool_choice="weather",
    parallel_tools=False,
    extra={"metadata": {"user_id": "7"}, "top_p": 0.8},
)

PROMPT = (
    Message("What is it like in Paris?"),
    Message("Let me see.", role="assistant"),
    Message(["And", Image(PNG), "here?", Image("https://example.org/a.png")]),
)

WHOLE: dict[str, Any] = {
    "responses": {
        "model": "gpt-5-mini",
        "input": [
            {"role": "user", "content": "What is it like in Paris?"},
            {"role": "assistant", "content": "Let me see."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "And"},
                    {
                        "type": "input_image",
                        "image_url": f"data:image/png;base64,{PNG_64}",
                        "detail": "auto",
                    },
                    {"type": "input_text", "text": "here?"},
                    {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
                ],
            },
        ],
        "instructions": "Be brief.",
        "temperature": 0.2,
        "top_p": 0.8,
        "max_output_tokens": 500,
        "reasoning": {"effort": "low"},
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "Tell the weather.",
                "parameters": WEATHER.schema,
                "strict": True,
            },
            {
                "type": "function",
                "name": "count",
                "description": "Count.",
                "parameters": LOOSE.schema,
                "strict": False,
            },
        ],
        "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "name": "weather"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True}},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "metadata": {"user_id": "7"},
        "stream": True,
    },
    "chat": {
        "model": "gpt-5-mini",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is it like in Paris?"},
            {"role": "assistant", "content": "Let me see."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_64}"}},
                    {"type": "text", "text": "here?"},
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                ],
            },
        ],
        "temperature": 0.2,
        "top_p": 0.8,
        "max_completion_tokens": 500,
        "reasoning_effort": "low",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "Tell the weather.",
                    "parameters": WEATHER.schema,
                    "strict": True,
                },
            },
            {
                "type": "function",
                "function": {"name": "count", "description": "Count.", "parameters": LOOSE.schema},
            },
        ],
        "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": ANSWER, "strict": True},
        },
        "stream_options": {"include_usage": True},
        "metadata": {"user_id": "7"},
        "stream": True,
    },
    "messages": {
        "model": "claude-sonnet-4-6",
        "max_tokens": 500,
        "messages": [
            {"role": "user", "content": "What is it like in Paris?"},
            {"role": "assistant", "content": "Let me see."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PNG_64},
                    },
                    {"type": "text", "text": "here?"},
                    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                ],
            },
        ],
        "system": "Be brief.",
        "temperature": 0.2,
        "top_p": 0.8,
        "thinking": {"type": "adaptive"},
        "output_config": {"format": {"type": "json_schema", "schema": ANSWER}, "effort": "low"},
        "tools": [
            {"name": "weather", "description": "Tell the weather.", "input_schema": WEATHER.schema},
            {"name": "count", "description": "Count.", "input_schema": LOOSE.schema},
        ],
        "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        "metadata": {"user_id": "7"},
        "stream": True,
    },
}


@each_api
async def test_everything_is_sent_in_each_apis_own_words(api):
    """All that a request can say, in one body."""
    request = Request(
        messages=PROMPT,
        instructions="Be brief.",
        tools=(WEATHER, LOOSE),
        output=ANSWER,
        settings=EVERYTHING,
    )
    assert await sent(api, request) == WHOLE[api]


PLAIN: dict[str, Any] = {
    "responses": {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": "Hello"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    },
    "chat": {
        "model": "gpt-5-mini",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream_options": {"include_usage": True},
        "stream": True,
    },
    "messages": {
        "model": "claude-sonnet-4-6",
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
    },
}


@each_api
async def test_nothing_is_sent_of_what_was_not_said(api):
    """A setting of None is the provider's to choose; only Anthropic has to be told how long an answer may be."""
    assert await sent(api, request_of()) == PLAIN[api]


HEADERS = {
    "responses": {"authorization": f"Bearer {KEY}"},
    "chat": {"authorization": f"Bearer {KEY}"},
    "messages": {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
}

URLS = {
    "responses": "https://api.openai.com/v1/responses",
    "chat": "https://api.openai.com/v1/chat/completions",
    "messages": "https://api.anthropic.com/v1/messages",
}


@each_api
async def test_a_request_goes_to_the_providers_address_with_the_key(api):
    """POST, JSON in UTF-8, and a stream is what is wanted."""
    server = Server(answered(api), answered(api))
    await model_of(api, server).respond(request_of("naïve"))
    await model_of(api, server, headers={"X-Team": "7", "Accept": "x/y"}).respond(request_of())
    first, second = server.requests
    assert (first.method, str(first.url)) == ("POST", URLS[api])
    expected = {"content-type": "application/json", "accept": "text/event-stream", **HEADERS[api]}
    assert {name: first.headers[name] for name in expected} == expected
    assert "naïve".encode() in first.content
    assert (second.headers["x-team"], second.headers["accept"]) == ("7", "x/y")


ADDRESSES = [
    ("chat", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions"),
    ("chat", "http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/chat/completions"),
    ("responses", "https://x.azure.com/openai?api-version=3", "https://x.azure.com/openai/responses?api-version=3"),
    ("messages", "https://proxy.example", "https://proxy.example/v1/messages"),
    ("messages", "https://proxy.example/anthropic/", "https://proxy.example/anthropic/v1/messages"),
    ("messages", "https://proxy.example/v1", "https://proxy.example/v1/messages"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "base_url", "url"), ADDRESSES)
async def test_an_address_is_put_before_the_apis_function(api, base_url, url, monkeypatch):
    """Given as an argument or by the environment, with or without a slash at its end."""
    server = Server(answered(api), answered(api))
    await model_of(api, server, base_url=base_url).respond(request_of())
    monkeypatch.setenv("ANTHROPIC_BASE_URL" if api == "messages" else "OPENAI_BASE_URL", base_url)
    await model_of(api, server).respond(request_of())
    assert [str(request.url) for request in server.requests] == [url, url]


async def test_a_given_address_is_spoken_to_by_chat_completions_unless_told_otherwise(monkeypatch):
    """Most servers speak that; an address from the environment says nothing of how to speak."""
    server = Server(answered("chat"), answered("responses"), answered("responses"))
    options: dict[str, Any] = {"api_key": KEY, "client": server.client}
    await openai("m", base_url="http://a/v1", **options).respond(request_of())
    await openai("m", base_url="http://a/v1", api="responses", **options).respond(request_of())
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    await openai("m", **options).respond(request_of())
    assert [str(request.url) for request in server.requests] == [
        "http://a/v1/chat/completions",
        "http://a/v1/responses",
        "http://b/v1/responses",
    ]


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        (None, "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("http://127.0.0.1:8080/v1", "max_tokens"),
    ],
)
async def test_the_longest_answer_is_called_as_the_server_knows_it(base_url, field):
    """OpenAI's models that think refuse the old name, and many other servers do not know the new one."""
    body = await sent("chat", request_of(settings=Settings(max_tokens=7)), base_url=base_url)
    assert body == {**PLAIN["chat"], field: 7}


async def test_chat_and_messages_stop_at_texts_and_chat_takes_a_seed():
    """Settings that not all APIs have."""
    body = await sent("chat", request_of(settings=Settings(stop=("END", "###"), seed=7)))
    assert body == {**PLAIN["chat"], "stop": ["END", "###"], "seed": 7}
    body = await sent("messages", request_of(settings=Settings(stop="END")))
    assert body == {**PLAIN["messages"], "stop_sequences": ["END"]}


CANNOT: list[tuple[str, Settings, str]] = [
    ("responses", Settings(stop="END"), "cannot be asked with Settings(stop=...): the Responses API has nothing like it. Leave it out, or pass api='chat' to openai()."),
    ("responses", Settings(seed=0), "cannot be asked with Settings(seed=...): the Responses API has nothing like it. Leave it out, or pass api='chat' to openai()."),
    ("messages", Settings(seed=0), "cannot be asked with Settings(seed=...): the Messages API has nothing like it. Leave it out."),
    ("responses", Settings(tool_choice="required"), "cannot be made to call a tool (tool_choice='required'): it has none"),
    ("chat", Settings(tool_choice="wether"), "cannot be made to call 'wether' (tool_choice): it has no such tool"),
    ("messages", Settings(tool_choice="weather"), "cannot be made to call 'weather' (tool_choice): it has no such tool"),
    ("chat", Settings(extra={"x": {1}}), "cannot be asked: the request is no JSON: a value of type set cannot be written"),
    ("chat", Settings(extra={"x": float("nan")}), "cannot be asked: the request is no JSON: Out of range float values are not JSON compliant"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "settings", "said"), CANNOT)
async def test_what_an_api_cannot_do_is_said_before_anything_is_sent(api, settings, said):
    """A setting is never dropped in silence: it is in the step's cache key."""
    server = Server()
    call = Call(server.client)
    with pytest.raises(ModelError) as caught:
        await model_of(api).respond(request_of(settings=settings, call=call))
    assert str(caught.value).removesuffix(": nan") == f"{LABELS[api]} {said}"
    assert not server.requests and not call.notes


async def test_a_tool_that_is_misspelt_is_guessed():
    """The error names the nearest."""
    request = request_of(tools=(WEATHER,), settings=Settings(tool_choice="wether"))
    with pytest.raises(ModelError, match="it has no such tool. Did you mean 'weather'?"):
        await model_of("chat", Server()).respond(request)


CHOICES: list[tuple[str, dict[str, Any], Any]] = [
    ("responses", {"tool_choice": "auto"}, "auto"),
    ("responses", {"tool_choice": "none"}, "none"),
    ("responses", {"tool_choice": "required"}, "required"),
    ("chat", {"tool_choice": "auto"}, "auto"),
    ("chat", {"tool_choice": "none"}, "none"),
    ("chat", {"tool_choice": "required"}, "required"),
    ("messages", {"tool_choice": "auto"}, {"type": "auto"}),
    ("messages", {"tool_choice": "none"}, {"type": "none"}),
    ("messages", {"tool_choice": "required"}, {"type": "any"}),
    ("messages", {"tool_choice": "required", "parallel_tools": True}, {"type": "any"}),
    ("messages", {"parallel_tools": False}, {"type": "auto", "disable_parallel_tool_use": True}),
    ("messages", {"tool_choice": "none", "parallel_tools": False}, {"type": "none"}),
    ("messages", {"parallel_tools": True}, None),
]


@pytest.mark.parametrize(("api", "fields", "choice"), CHOICES)
async def test_tool_choices_have_each_apis_shape(api, fields, choice):
    """What of the tools may be called, and how many at once."""
    body = await sent(api, request_of(tools=(WEATHER,), settings=Settings(**fields)))
    assert body.get("tool_choice") == choice
    if api != "messages":
        assert body.get("parallel_tool_calls") == fields.get("parallel_tools")


@each_api
@pytest.mark.parametrize(
    "fields", [{"tool_choice": "auto"}, {"tool_choice": "none"}, {"parallel_tools": False}]
)
async def test_a_choice_among_no_tools_is_not_sent(api, fields):
    """Without tools there is nothing to choose, and providers refuse to be told."""
    assert await sent(api, request_of(settings=Settings(**fields))) == PLAIN[api]


@each_api
async def test_extra_fields_go_over_all_but_the_stream(api):
    """They are the body's own; what cannot be read would be of no use."""
    extra = {"model": "other", "stream": False, "service_tier": "flex"}
    body = await sent(api, request_of(settings=Settings(extra=extra)))
    assert body == {**PLAIN[api], "model": "other", "service_tier": "flex"}


# Thinking.

THINKING: list[tuple[str, str, int | None, dict[str, Any]]] = [
    ("claude-sonnet-4-6", "none", None, {"thinking": {"type": "disabled"}}),
    ("claude-sonnet-4-6", "minimal", None, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    ("claude-opus-5", "max", None, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
    ("my-claude", "high", None, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
    ("claude-sonnet-4-5-20250929", "none", None, {}),
    ("claude-sonnet-4-5-20250929", "low", None, {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
    ("claude-opus-4-1", "high", None, {"thinking": {"type": "enabled", "budget_tokens": 16000}}),
    ("claude-3-7-sonnet-latest", "medium", 5000, {"thinking": {"type": "enabled", "budget_tokens": 2500}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "reasoning", "max_tokens", "fields"), THINKING)
async def test_claude_thinks_as_its_generation_does(name, reasoning, max_tokens, fields):
    """From 4.6 on it is told an effort, and before a budget, which leaves room for the answer."""
    server = Server(answered("messages"))
    settings = Settings(reasoning=reasoning, max_tokens=max_tokens)
    await anthropic(name, api_key=KEY, client=server.client).respond(request_of(settings=settings))
    limit = {} if max_tokens is None else {"max_tokens": max_tokens}
    assert server.bodies == [{**PLAIN["messages"], "model": name, **limit, **fields}]


async def test_a_budget_that_is_too_small_is_said_so():
    """Thoughts count in max_tokens."""
    model = anthropic("claude-sonnet-4-5", api_key=KEY, client=Server().client)
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of(settings=Settings(reasoning="low", max_tokens=2000)))
    assert str(caught.value) == (
        "anthropic('claude-sonnet-4-5') cannot think within 2000 tokens: thoughts count in max_tokens, which must be "
        "at least 2048 with reasoning='low'"
    )
    with pytest.raises(ModelError) as caught:
        await model.respond(request_of(settings=Settings(reasoning="max")))
    assert str(caught.value) == (
        "anthropic('claude-sonnet-4-5') cannot think 'max' (reasoning): it knows 'none', 'minimal', 'low', 'medium', "
        "'high'"
    )


OLD = [
    "claude-2.1", "claude-instant-1", "claude-3-opus-20240229", "claude-3-5-sonnet-latest", "claude-3-7-sonnet-20250219",
    "claude-opus-4-20250514", "claude-sonnet-4-0", "claude-opus-4-1-20250805", "claude-haiku-4-5", "claude-sonnet-4",
    "claude-sonnet-4-5@20250929", "anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-opus-4-v1:0",
]  # fmt: skip

NEW = [
    "claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8-20260301", "claude-opus-5",
    "claude-sonnet-5-20260601", "claude-haiku-5-5", "claude-fable-5", "claude-mythos-5-1", "some-model",
    "anthropic.claude-opus-4-6-v1", "claude-opus-5-4", "claude-opus-40",
]  # fmt: skip


@pytest.mark.parametrize("name", [*OLD, *NEW])
async def test_generations_of_claude_are_told_apart_by_their_names(name):
    """Names with dates, of other clouds, and of models to come."""
    server = Server(answered("messages"))
    settings = Settings(reasoning="low")
    await anthropic(name, api_key=KEY, client=server.client).respond(request_of(settings=settings))
    (body,) = server.bodies
    assert body["thinking"]["type"] == ("enabled" if name in OLD else "adaptive")


# Schemas.


@each_api
async def test_a_schema_that_cannot_be_held_to_is_asked_for_without_a_guarantee(api):
    """It is sent as it is, and nothing is added to it."""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    body = await sent(api, request_of(output=schema, instructions="Be brief."))
    if api == "responses":
        expected: Any = {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}
        assert body["text"] == {"format": expected}
    elif api == "chat":
        expected = {"name": "answer", "schema": schema, "strict": False}
        assert body["response_format"] == {"type": "json_schema", "json_schema": expected}
    else:
        assert "output_config" not in body
        assert body["system"] == (
            "Be brief.\n\nAnswer with one JSON value and nothing else: no text around it, no code fence. It must fit "
            'this JSON schema:\n{"type": "object", "additionalProperties": {"type": "integer"}}'
        )


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("claude-3-5-haiku-latest", False),
        ("claude-opus-4-1", False),
        ("claude-haiku-4-5", True),
        ("claude-x", True),
    ],
)
async def test_older_models_of_anthropic_are_told_the_schema_in_words(name, held):
    """Before 4.5 they cannot be held to one."""
    server = Server(answered("messages"))
    await anthropic(name, api_key=KEY, client=server.client).respond(request_of(output=ANSWER))
    (body,) = server.bodies
    assert ("output_config" in body) == held
    assert body.get("system", "").startswith("Answer with one JSON value") == (not held)


@each_api
async def test_a_schema_of_any_mapping_is_sent(api):
    """A schema need not be a dict."""
    schema = MappingProxyType(
        {"type": "object", "properties": MappingProxyType({}), "additionalProperties": False}
    )
    tool = ToolSpec(name="now", description="", schema=schema)
    plain = {"type": "object", "properties": {}, "additionalProperties": False}
    body = await sent(api, request_of(tools=(tool,), output=schema))
    same = await sent(
        api, request_of(tools=(ToolSpec(name="now", description="", schema=plain),), output=plain)
    )
    assert body == same


# Images.

DATA_URLS = [
    (f"data:image/png;base64,{PNG_64}", "image/png", PNG_64),
    ("data:image/svg+xml,%3Csvg/%3E", "image/svg+xml", b64encode(b"<svg/>").decode()),
]


@pytest.mark.parametrize(("address", "media_type", "data"), DATA_URLS)
async def test_an_address_that_holds_an_image_is_taken_apart_for_anthropic(address, media_type, data):
    """Its API takes addresses of the web only."""
    request = Request(messages=(Message(Image(address)),))
    body = await sent("messages", request)
    source = {"type": "base64", "media_type": media_type, "data": data}
    assert body["messages"] == [{"role": "user", "content": [{"type": "image", "source": source}]}]
    body = await sent("chat", request)
    assert body["messages"][0]["content"] == [{"type": "image_url", "image_url": {"url": address}}]


async def test_an_image_of_a_file_is_read(tmp_path):
    """Mostly that was done when the prompt was rendered."""
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    body = await sent("responses", Request(messages=(Message(Image(path)),)))
    assert body["input"][0]["content"][0]["image_url"] == f"data:image/png;base64,{PNG_64}"


@each_api
async def test_a_models_own_message_can_have_no_image(api):
    """No API takes one."""
    with pytest.raises(ModelError) as caught:
        await model_of(api, Server()).respond(Request(messages=(Message([Image(PNG)], role="assistant"),)))
    assert str(caught.value) == (
        f"{LABELS[api]} cannot be sent an image as its own answer: a message of role 'assistant' has only texts"
    )


# Conversations.

PARIS = Called("call_a", "weather", '{"city": "Paris"}')
TIME = Called("call_b", "time", "")

SUNNY = ToolResult(id="call_a", name="weather", content="sunny")
LATE = ToolResult(id="call_b", name="time", content="no clock", is_error=True)


async def next_body(api: str, *answers: Any) -> Any:
    """Have a model call tools, and give what it is sent with their results, which come in another order."""
    server = Server(*answers, answered(api))
    model = model_of(api, server)
    prompt = Message("Hello")
    response = await model.respond(Request(messages=(prompt,), tools=(WEATHER,)))
    await model.respond(Request(messages=(prompt, response, LATE, SUNNY, Message("Well?")), tools=(WEATHER,)))
    return server.bodies[-1]


async def test_the_responses_api_gets_its_items_back():
    """All of them, thoughts too, and the results in the order of the calls."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    events = events_of("responses", "Let me see.", [PARIS, TIME])
    events[-1]["response"]["output"].insert(0, thought)
    body = await next_body("responses", streamed(events[-1]))
    assert body["input"] == [
        {"role": "user", "content": "Hello"},
        *events[-1]["response"]["output"],
        {"type": "function_call_output", "call_id": "call_a", "output": "sunny"},
        {"type": "function_call_output", "call_id": "call_b", "output": "no clock"},
        {"role": "user", "content": "Well?"},
    ]
    assert body["input"][1] == thought


async def test_an_item_without_an_id_gets_the_one_that_its_result_names():
    """A call's result must find its call."""
    item = {"type": "function_call", "name": "time", "arguments": "{}"}
    server = Server(
        streamed({"type": "response.completed", "response": {"output": [item]}}), answered("responses")
    )
    model = model_of("responses", server)
    response = await model.respond(request_of())
    (call,) = response.tool_calls
    result = ToolResult(id=call.id, name="time", content="now")
    await model.respond(Request(messages=(Message("Hello"), response, result)))
    assert server.bodies[-1]["input"][1:] == [
        {**item, "call_id": call.id},
        {"type": "function_call_output", "call_id": call.id, "output": "now"},
    ]


async def test_chat_completions_gets_its_message_back():
    """With what else a provider put into its calls, and its thoughts if it goes on from them."""
    events = events_of("chat", "Let me see.", [PARIS, TIME])
    events[0]["choices"][0]["delta"]["reasoning_content"] = "Paris is "
    events[1]["choices"][0]["delta"]["reasoning_content"] = "far."
    signed = {"google": {"thought_signature": "abc"}}
    next(event for event in events if "call_a" in str(event))["choices"][0]["delta"]["tool_calls"][0][
        "extra_content"
    ] = signed
    body = await next_body("chat", streamed(*events))
    assert body["messages"] == [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                    "extra_content": signed,
                },
                {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
            ],
            "reasoning_content": "Paris is far.",
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_b", "content": "no clock"},
        {"role": "user", "content": "Well?"},
    ]


async def test_thoughts_do_not_go_back_with_an_answer_that_is_none_of_a_tool_loop():
    """Providers that want them back there refuse them elsewhere."""
    events = events_of("chat", "Hello.")
    events[0]["choices"][0]["delta"]["reasoning_content"] = "Hm."
    body = await next_body("chat", streamed(*events))
    assert body["messages"][1] == {"role": "assistant", "content": "Hello."}


async def test_the_messages_api_gets_its_blocks_back():
    """Signed thoughts unchanged and in their places; all results in one message, marked if the tool failed."""
    start, delta = "content_block_start", "content_block_delta"
    web = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    hidden = {"type": "redacted_thinking", "data": "EmwK"}
    events = [
        {"type": start, "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": delta, "index": 0, "delta": {"type": "thinking_delta", "thinking": "Paris "}},
        {"type": delta, "index": 0, "delta": {"type": "thinking_delta", "thinking": "is far."}},
        {"type": delta, "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}},
        {"type": start, "index": 1, "content_block": hidden},
        {"type": start, "index": 2, "content_block": web},
        {"type": delta, "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"query": "x"}'}},
        {"type": start, "index": 3, "content_block": found},
        {"type": start, "index": 4, "content_block": {"type": "text", "text": ""}},
        {"type": delta, "index": 4, "delta": {"type": "text_delta", "text": "Let me see."}},
        {"type": start, "index": 5, "content_block": {"type": "text", "text": ""}},
    ]
    calls = [event for event in events_of("messages", "", [PARIS, TIME]) if "index" in event]
    events += [{**event, "index": event["index"] + 6} for event in calls]
    body = await next_body("messages", streamed(*events, *events_of("messages", "", [PARIS])[-2:]))
    assert body["messages"] == [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Paris is far.", "signature": "EqQB"},
                hidden,
                {**web, "input": {"query": "x"}},
                found,
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "call_b", "name": "time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_a", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "call_b", "content": "no clock", "is_error": True},
            ],
        },
        {"role": "user", "content": "Well?"},
    ]


ORDINARY: dict[str, list[Any]] = {
    "responses": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call", "call_id": "call_b", "name": "time", "arguments": "{"},
        {"type": "function_call_output", "call_id": "call_a", "output": "sunny"},
        {"type": "function_call_output", "call_id": "call_b", "output": "no clock"},
        {"type": "function_call_output", "call_id": "other", "output": "?"},
    ],
    "chat": [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                },
                {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": "{"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_b", "content": "no clock"},
        {"role": "tool", "tool_call_id": "other", "content": "?"},
    ],
    "messages": [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "call_b", "name": "time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_a", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "call_b", "content": "no clock", "is_error": True},
                {"type": "tool_result", "tool_use_id": "other", "content": "?"},
            ],
        },
    ],
}

FOREIGN = [None, {"api": "other", "model": "gpt-5-mini", "answer": ["x"]}, "raw", {"role": "assistant"}, 7]


@each_api
@pytest.mark.parametrize("raw", FOREIGN)
async def test_an_answer_of_another_model_or_of_a_test_has_the_ordinary_shape(api, raw):
    """What another provider wants back is of no use to this one."""
    response = Response(
        text="Let me see.",
        tool_calls=(
            ToolCall(id="call_a", name="weather", arguments='{"city": "Paris"}'),
            ToolCall(id="call_b", name="time", arguments="{"),
        ),
        finish_reason="tool_calls",
        raw=raw,
    )
    other = ToolResult(id="other", name="?", content="?")
    body = await sent(api, Request(messages=(Message("Hello"), response, other, LATE, SUNNY)))
    assert body["input" if api == "responses" else "messages"] == ORDINARY[api]


@each_api
async def test_an_answer_of_only_text_has_the_ordinary_shape(api):
    """As most are."""
    body = await sent(api, Request(messages=(Message("Hello"), Response(text="Hi."), Message("Well?"))))
    answer: Any = [{"type": "text", "text": "Hi."}] if api == "messages" else "Hi."
    messages = body["input" if api == "responses" else "messages"]
    assert messages[1] == {"role": "assistant", "content": answer}


@each_api
async def test_an_answer_of_another_model_of_the_same_provider_has_the_ordinary_shape(api):
    """What one model has thought, encrypted or signed, is for that model."""
    server = Server(answered(api, "Hi.", calls=[PARIS]))
    response = await model_of(api, server).respond(request_of())
    second = Server(answered(api))
    make = anthropic if api == "messages" else openai
    options: dict[str, Any] = {} if api == "messages" else {"api": api}
    model = make("another", api_key=KEY, client=second.client, **options)
    await model.respond(Request(messages=(Message("Hello"), response)))
    (body,) = second.bodies
    without = Response(text=response.text, tool_calls=response.tool_calls)
    expected = await sent(api, Request(messages=(Message("Hello"), without)))
    field = "input" if api == "responses" else "messages"
    assert body[field] == expected[field]


@each_api
async def test_an_empty_answer_goes_back_as_each_api_takes_it(api):
    """Anthropic refuses a message without content."""
    prompt = (Message("Hello"), Response(), Message("Well?"))
    body = await sent(api, Request(messages=prompt))
    messages = body["input" if api == "responses" else "messages"]
    empty = [{"role": "assistant", "content": ""}] if api == "chat" else []
    expected = [{"role": "user", "content": "Hello"}, *empty, {"role": "user", "content": "Well?"}]
    assert messages == expected
    server = Server(answered(api, ""), answered(api))
    model = model_of(api, server)
    own = await model.respond(request_of())
    await model.respond(Request(messages=(Message("Hello"), own, Message("Well?"))))
    assert server.bodies[-1]["input" if api == "responses" else "messages"] == expected


@each_api
async def test_a_refusal_goes_back(api):
    """A conversation may go on after one."""
    server = Server(streamed(*events_of(api, refused="No.")), answered(api))
    model = model_of(api, server)
    response = await model.respond(request_of())
    await model.respond(Request(messages=(Message("Hello"), response, Message("Please?"))))
    messages = server.bodies[-1]["input" if api == "responses" else "messages"]
    assert messages[-1] == {"role": "user", "content": "Please?"}
    if api == "chat":
        assert messages[1] == {"role": "assistant", "content": None, "refusal": "No."}
    if api == "responses":
        assert messages[1]["content"] == [{"type": "refusal", "refusal": "No."}]


# Characters that are none.

HALF = "half: \ud83c, whole: \ud83c\udfba"
MENDED = "half: \ufffd, whole: 🎺"


@each_api
async def test_halves_of_characters_are_replaced(api):
    """JavaScript cuts texts in the middle of a character, and UTF-8 has no such halves."""
    tool = ToolSpec(
        name="x", description=HALF, schema={"type": "object", "title": HALF, "properties": {HALF: {}}}
    )
    call = ToolCall(id="call_a", name="x", arguments=json.dumps({"a": HALF}, ensure_ascii=False))
    request = Request(
        messages=(
            Message([HALF, HALF]),
            Response(text=HALF, tool_calls=(call,)),
            ToolResult(id="call_a", name="x", content=HALF),
            Message(HALF, role="assistant"),
        ),
        instructions=HALF,
        tools=(tool,),
        output={"type": "string", "description": HALF},
        settings=Settings(extra={"metadata": {"a": HALF}}),
    )
    server = Server(answered(api))
    await model_of(api, server).respond(request)
    content = server.requests[0].content.decode()
    assert "\\ud83c" not in content and content.count("🎺") == content.count("\ufffd") >= 11
    assert server.bodies[0]["metadata"] == {"a": MENDED}


# What Anthropic refuses.

BLANK = ["", " ", "\n\t \u3000"]


async def messages_sent(*messages: Any, **fields: Any) -> Any:
    return (await sent("messages", Request(messages=messages, **fields))).get("messages")


@pytest.mark.parametrize("blank", BLANK)
async def test_blank_texts_are_left_out_for_anthropic(blank):
    """The API refuses them, and whole messages of them."""
    image = Image(b"\x89PNG\r\n\x1a\n")
    call = ToolCall(id="call_a", name="weather", arguments="{}")
    found = await messages_sent(
        Message("Hello"),
        Message(blank, role="assistant"),
        Message([blank, image, blank]),
        Message([blank, blank]),
        Response(text=blank),
        Response(text=blank, tool_calls=(call,)),
        ToolResult(id="call_a", name="weather", content=blank),
        Message(["Well?", blank]),
    )
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(image.source).decode()}
    assert found == [
        {"role": "user", "content": "Hello"},
        {"role": "user", "content": [{"type": "image", "source": source}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_a", "name": "weather", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a"}]},
        {"role": "user", "content": "Well?"},
    ]
    assert "system" not in await sent("messages", Request(messages=(Message("Hello"),), instructions=blank))


@pytest.mark.parametrize("blank", BLANK)
async def test_a_tool_that_fails_without_a_word_says_something_to_anthropic(blank):
    """An error without a text is refused."""
    call = ToolCall(id="call_a", name="weather", arguments="{}")
    result = ToolResult(id="call_a", name="weather", content=blank, is_error=True)
    found = await messages_sent(Message("Hello"), Response(tool_calls=(call,)), result)
    assert found[-1]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "call_a",
            "content": "The tool failed, and did not say why.",
            "is_error": True,
        }
    ]


async def test_what_anthropic_is_to_go_on_with_does_not_end_in_a_space():
    """The API refuses it; a space elsewhere stays."""
    begun = Message("Dear \n", role="assistant")
    assert await messages_sent(Message("Hello "), begun) == [
        {"role": "user", "content": "Hello "},
        {"role": "assistant", "content": "Dear"},
    ]
    found = await messages_sent(Message("Hello"), Response(text="Dear "))
    assert found[-1] == {"role": "assistant", "content": [{"type": "text", "text": "Dear"}]}
    found = await messages_sent(Message("Hello"), begun, Message("Go on"))
    assert found[1]["content"] == "Dear \n"
    call = ToolCall(id="call_a", name="weather", arguments="{}")
    found = await messages_sent(Message("Hello"), Response(text="Dear ", tool_calls=(call,)))
    assert found[-1]["content"][0] == {"type": "text", "text": "Dear "}


async def test_a_blank_block_of_its_own_does_not_go_back_to_anthropic():
    """The API sends such blocks, and takes none."""
    body = await next_body("messages", streamed(*events_of("messages", "\n\n", [PARIS, TIME])))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use", "tool_use"]


# Thoughts of the Responses API.


def thinking(*thoughts: dict[str, Any]) -> Any:
    """Make an answer with thoughts, and a call after them."""
    items = [
        {"type": "reasoning", "id": f"rs_{place}", "summary": [], **thought}
        for place, thought in enumerate(thoughts)
    ]
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather", "arguments": "{}"}
    return streamed({"type": "response.completed", "response": {"output": [*items, call]}})


async def sent_back(answer: Any, **extra: Any) -> Any:
    server = Server(answer, answered("responses"))
    model, options = model_of("responses", server), Settings(extra=extra)
    response = await model.respond(request_of(settings=options))
    messages = (Message("Hello"), response, SUNNY)
    await model.respond(Request(messages=messages, settings=options))
    return server.bodies[-1]["input"][1:-1]


async def test_thoughts_go_back_if_they_are_there():
    """With their ids, and those of the items that they belong to."""
    found = await sent_back(thinking({"encrypted_content": "gAAA"}))
    assert [item["id"] for item in found] == ["rs_0", "fc_1"] and found[0]["encrypted_content"] == "gAAA"


@pytest.mark.parametrize("empty", [{}, {"encrypted_content": None}, {"encrypted_content": ""}])
async def test_thoughts_that_came_without_what_they_hold_do_not_go_back(empty):
    """Nothing is stored, so the API finds them nowhere, nor those that another item's id stands for."""
    call = {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": "{}"}
    assert await sent_back(thinking(empty)) == [call]
    found = await sent_back(thinking(empty, {"encrypted_content": "gAAA"}))
    assert found == [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}, call]


async def test_thoughts_that_are_stored_go_back_by_their_ids():
    """Settings(extra={"store": True}) has the provider keep them."""
    assert [item["id"] for item in await sent_back(thinking({}), store=True)] == ["rs_0", "fc_1"]


# Schemas that a server does not know.

NO_SCHEMA: dict[str, list[Any]] = {
    "chat": [
        {"error": {"message": "'response_format.type' must be 'json_object' or 'text'"}},
        {"error": {"message": "This response_format type is unavailable now"}},
        {"detail": [{"loc": ["body", "response_format", "json_schema"], "msg": "extra"}]},
        {"error": {"message": "No.", "param": "response_format"}},
    ],
    "responses": [
        {"error": {"message": "Invalid parameter: 'text.format' of type 'json_schema' is not supported"}},
        {"error": {"message": "No.", "param": "text.format"}},
    ],
}


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("api", "body"), [(api, body) for api in NO_SCHEMA for body in NO_SCHEMA[api]])
@pytest.mark.parametrize("instructions", ["", "Be brief."])
async def test_a_schema_that_a_server_refuses_is_asked_for_in_words(api, status, body, instructions):
    """At once, and from then on; another schema is tried again, as it may be only that one."""
    other = {"type": "object", "title": "other"}
    server = Server(refusal(status, body), *[answered(api) for _ in range(4)])
    model = model_of(api, server)
    call = Call(server.client)
    asked = Request(messages=(Message("Hello"),), instructions=instructions, output=ANSWER, call=call)
    await model.respond(asked)
    await model.respond(asked)
    await model.respond(attrs.evolve(asked, output=other))
    await model.respond(attrs.evolve(asked, output=None))
    field = "response_format" if api == "chat" else "text"
    assert [field in body for body in server.bodies] == [True, False, False, True, False]
    assert not call.noted("wait")
    words = [
        body["messages"][0]["content"] if api == "chat" else body.get("instructions", "Hello")
        for body in server.bodies
    ]
    start = f"{instructions}\n\n" if instructions else ""
    told = f"{start}Answer with one JSON value and nothing else"
    assert [text.startswith(told) for text in words] == [False, True, True, False, False]
    assert json.loads(words[1].rpartition("schema:\n")[2]) == ANSWER


async def test_what_a_user_asks_for_is_not_left_out():
    """A field of Settings(extra=...) that is refused is an error."""
    body = {"error": {"message": "No.", "param": "response_format"}}
    server = Server(refusal(400, body))
    with pytest.raises(ModelError, match="answered 400: No."):
        await model_of("chat", server).respond(
            request_of(settings=Settings(extra={"response_format": {"type": "json_object"}}))
        )


# Ids of calls.


@each_api
async def test_calls_of_different_answers_that_have_the_same_id_get_others(api):
    """Some servers count calls anew in each answer, and an API may refuse an id that comes twice."""
    server = Server(
        *[answered(api, "", calls=[Called("call_0"), Called("call_1")]) for _ in range(3)], answered(api)
    )
    model = model_of(api, server)
    messages: list[Any] = [Message("Hello")]
    for turn in range(3):
        response = await model.respond(Request(messages=tuple(messages)))
        results = [ToolResult(id=f"call_{n}", name="weather", content=f"{turn}.{n}") for n in (1, 0)]
        messages += [response, *results]
        assert [call.id for call in response.tool_calls] == ["call_0", "call_1"]
    await model.respond(Request(messages=tuple(messages)))
    expected = [f"call_{n}{end}" for end in ("", "_2", "_3") for n in (0, 1)]
    assert calls_in(api, server.bodies[-1]) == (
        expected,
        dict(zip(expected, ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"], strict=True)),
    )
    # A conversation begins as it did, which is what a provider remembers.
    field = "input" if api == "responses" else "messages"
    for before, after in itertools.pairwise(server.bodies):
        assert after[field][: len(before[field])] == before[field]


@each_api
async def test_calls_of_one_answer_that_have_the_same_id_get_others(api):
    """As from a model of the user's own; results are told apart by their order."""
    calls = tuple(ToolCall(id="x", name="weather", arguments="{}") for _ in range(3))
    results = [ToolResult(id="x", name="weather", content=text) for text in "abc"]
    body = await sent(api, Request(messages=(Message("Hello"), Response(tool_calls=calls), *results)))
    assert calls_in(api, body) == (["x", "x_2", "x_3"], {"x": "a", "x_2": "b", "x_3": "c"})


async def test_only_the_ids_of_calls_are_changed():
    """What a tool is called with may have such an id, too."""
    call = Called("call_0", "weather", '{"id": "call_0", "call_id": "call_0"}')
    server = Server(*[answered("messages", "", calls=[call]) for _ in range(2)], answered("messages"))
    model, messages = model_of("messages", server), [Message("Hello")]
    for _ in range(2):
        response = await model.respond(Request(messages=tuple(messages)))
        messages += [response, ToolResult(id="call_0", name="weather", content="x")]
    await model.respond(Request(messages=tuple(messages)))
    (block,) = server.bodies[-1]["messages"][3]["content"]
    assert (block["id"], block["input"]) == ("call_0_2", {"id": "call_0", "call_id": "call_0"})


def calls_in(api: str, body: Any) -> tuple[list[str], dict[str, str]]:
    """Give the ids of a body's calls, and its results by their ids."""
    if api == "responses":
        calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        found = [item for item in body["input"] if item.get("type") == "function_call_output"]
        return calls, {item["call_id"]: item["output"] for item in found}
    if api == "chat":
        calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
        found = [message for message in body["messages"] if message["role"] == "tool"]
        return calls, {message["tool_call_id"]: message["content"] for message in found}
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    found = [block for block in blocks if block["type"] == "tool_result"]
    return calls, {block["tool_use_id"]: block["content"] for block in found}


# Models.


def test_models_are_shown_by_the_call_that_makes_them():
    """And are keyed by the provider and the name only."""
    client = httpx.AsyncClient()
    made = openai(
        "gpt-5-mini",
        base_url="http://a",
        api_key=KEY,
        timeout=3,
        retries=1,
        headers={"a": "b"},
        client=client,
    )
    assert repr(made) == str(made) == "openai('gpt-5-mini')" and made.name == "gpt-5-mini"
    assert (
        made.settings_key
        == openai("gpt-5-mini").settings_key
        == {"provider": "openai", "model": "gpt-5-mini"}
    )
    assert made.settings_key == openai("gpt-5-mini", api="chat").settings_key
    other = anthropic("claude-opus-5", api_key=KEY)
    assert repr(other) == "anthropic('claude-opus-5')"
    assert other.settings_key == {"provider": "anthropic", "model": "claude-opus-5"}


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": 7}, TypeError, "a model's name must be a str, not 7"),
    ({"name": " "}, ValueError, "a model's name must not be empty"),
    ({"base_url": 7}, TypeError, "base_url must be a str, not int"),
    ({"base_url": "localhost:80"}, ValueError, "base_url is not an address: it must begin with https:// or http:// and name a host"),
    ({"base_url": "https://"}, ValueError, "base_url is not an address: it must begin with https:// or http:// and name a host"),
    ({"base_url": "http://h:99999"}, ValueError, "base_url is not an address: it must begin with https:// or http:// and name a host"),
    ({"base_url": "http://h/v1\n"}, ValueError, "base_url is not an address: it must begin with https:// or http:// and name a host"),
    ({"base_url": "http://[::1"}, ValueError, "base_url is not an address: it must begin with https:// or http:// and name a host"),
    ({"api_key": b"sk-bytes-00000"}, TypeError, "api_key must be a str, not bytes"),
    ({"timeout": 0}, ValueError, "timeout must be more than 0 seconds, not 0"),
    ({"timeout": float("nan")}, ValueError, "timeout must be more than 0 seconds, not nan"),
    ({"timeout": "60"}, TypeError, "timeout must be a number of seconds, not '60'"),
    ({"retries": -1}, ValueError, "retries must be 0 or more, not -1"),
    ({"retries": 1.5}, TypeError, "retries must be a whole number, not 1.5"),
    ({"retries": True}, TypeError, "retries must be a whole number, not True"),
    ({"headers": {"a": 7}}, TypeError, "headers must be str to str, and 'a' is not"),
    ({"headers": {"a": "b\nc"}}, ValueError, "header 'a' has a character that no header may have"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "kind", "said"), WRONG)
@pytest.mark.parametrize("make", [openai, anthropic])
def test_wrong_arguments_are_refused_where_the_model_is_made(make, arguments, kind, said):
    """Not when it is first asked."""
    with pytest.raises(kind) as caught:
        make(**{"name": "m", **arguments})
    assert str(caught.value) == said


def test_an_unknown_api_is_refused():
    """There are two."""
    with pytest.raises(ValueError, match="api must be 'responses' or 'chat', not 'messages'"):
        openai("m", api="messages")


@pytest.mark.parametrize(
    ("api", "extra", "expected"),
    [
        ("responses", {"text": {"verbosity": "low"}}, {"text": {"verbosity": "low", "format": True}}),
        (
            "messages",
            {"output_config": {"effort": "low"}},
            {"output_config": {"effort": "low", "format": True}},
        ),
        (
            "responses",
            {"reasoning": {"summary": "auto"}},
            {"reasoning": {"effort": "high", "summary": "auto"}},
        ),
        ("chat", {"stream_options": {"x": 1}}, {"stream_options": {"include_usage": True, "x": 1}}),
    ],
)
async def test_extra_goes_beside_what_a_field_has_already(api, extra, expected):
    """One that has several things in it keeps those that the user does not name."""
    settings = Settings(reasoning="high", extra=extra)
    body = await sent(api, request_of(output=ANSWER, settings=settings))
    for field, holds in expected.items():
        assert {name: True if name == "format" else value for name, value in body[field].items()} == holds


@pytest.mark.parametrize(
    ("api", "extra"),
    [
        ("responses", {"text": {"format": {"type": "json_object"}}}),
        ("chat", {"response_format": {"type": "json_object"}}),
        ("messages", {"output_config": {"format": {"type": "x"}}}),
    ],
)
async def test_a_schema_whose_place_the_user_takes_is_asked_for_in_words(api, extra):
    """The model must know what to answer all the same."""
    body = await sent(api, request_of(output=ANSWER, settings=Settings(extra=extra)))
    (field,) = extra
    assert body[field] == extra[field]
    assert "It must fit this JSON schema" in json.dumps(body)


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ("messages", "output_config.format: Extra inputs are not permitted"),
        ("messages", "Schema is too complex for compilation."),
        ("chat", "Structured outputs are not supported by this model."),
        ("responses", "Invalid parameter: 'text.format' of type 'json_schema' is not supported."),
    ],
)
async def test_a_schema_that_is_refused_is_asked_for_in_words(api, message):
    """With all else as it was, settings too."""
    server = Server(refusal(400, {"error": {"message": message}}), answered(api, '{"a": 1}'))
    settings = Settings(reasoning="high") if api != "chat" else Settings()
    await model_of(api, server).respond(request_of(output=ANSWER, settings=settings))
    first, second = server.bodies
    assert "JSON schema" not in json.dumps(first) and "It must fit this JSON schema" in json.dumps(second)
    assert "format" not in second.get("output_config", {}) and "text" not in second
    if api == "messages":
        assert second["output_config"] == {"effort": "high"}
    if api == "responses":
        assert second["reasoning"] == {"effort": "high"}


async def test_an_effort_that_is_refused_is_an_error():
    """A setting that the user asks for is not left out in silence."""
    error = {"error": {"message": "output_config.effort: Extra inputs are not permitted"}}
    server = Server(refusal(400, error))
    with pytest.raises(ModelError, match="output_config.effort"):
        await model_of("messages", server).respond(request_of(settings=Settings(reasoning="high")))
    assert len(server.requests) == 1


@pytest.mark.parametrize("path", ["", "/chat/completions", "/chat/completions/"])
async def test_the_address_of_the_function_is_as_good_as_the_apis(path):
    """It is what some documentation gives."""
    server = Server(answered("chat"))
    await model_of("chat", server, base_url="https://host/v1" + path).respond(request_of())
    assert str(server.requests[0].url) == "https://host/v1/chat/completions"
