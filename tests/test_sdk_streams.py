"""Model clients: how the parts of a streamed answer are put together, and what an answer ends as."""

from __future__ import annotations

import itertools
import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from june import ModelError
from june.messages import Message, Request, Response, ToolCall
from june.sdk._chat import ChatReader
from june.sdk._failures import Failed, in_event
from june.sdk._messages import MessagesReader
from june.sdk._responses import ResponsesReader
from june.sdk._streams import Parts
from tests.sdk_servers import (
    APIS,
    KEY,
    LABELS,
    Call,
    Called,
    Server,
    answered,
    chunk,
    events_of,
    model_of,
    request_of,
    streamed,
)

each_api = pytest.mark.parametrize("api", APIS)

PARIS = Called("call_a", "weather", '{"city": "Paris"}')
ROME = Called("call_b", "weather", '{"city": "Rome"}')
TIME = Called("call_c", "time", "{}")


def readers() -> dict[str, Any]:
    return {
        "responses": ResponsesReader("gpt-5-mini"),
        "chat": ChatReader("gpt-5-mini"),
        "messages": MessagesReader("claude", "anthropic('claude')"),
    }


def read(api: str, events: list[Any]) -> Response:
    """Read an answer's events, which must tell it whole."""
    reader = readers()[api]
    for event in events:
        if event != "[DONE]":
            reader.feed(event)
    assert reader.whole
    return reader.response()


def called(response: Response) -> list[tuple[str, str]]:
    """Give the calls without their ids, which must differ."""
    ids = [call.id for call in response.tool_calls]
    assert len(set(ids)) == len(ids) and all(ids)
    return [(call.name, call.arguments) for call in response.tool_calls]


@attrs.frozen
class Piece:
    """
    A piece of a tool call, in no API's words.

    Attributes:
        index: The call's number, or None where it is left out.
        id: Its id, or None.
        name: Its name, or None.
        arguments: A piece of the arguments.
    """

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""


def spoken(api: str, *chunks: list[Piece]) -> list[Any]:
    """Say pieces in an API's words; the pieces of one list come at once, where the API has a way to do so."""
    make = {"responses": _responses, "chat": _chat, "messages": _messages}[api]
    return make(chunks)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _chat(chunks: Any) -> list[Any]:
    events: list[Any] = []
    for pieces in chunks:
        calls = [
            _given(
                index=piece.index,
                id=piece.id,
                function=_given(name=piece.name, arguments=piece.arguments),
            )
            for piece in pieces
        ]
        events.append(chunk({"tool_calls": calls}))
    return [*events, chunk({}, "tool_calls")]


def _responses(chunks: Any) -> list[Any]:
    # Here an item has an id of its own beside the call's, and its deltas name that one.
    events: list[Any] = []
    for piece in itertools.chain(*chunks):
        item_id = piece.id and f"item_{piece.id}"
        if piece.name is not None:
            item = _given(type="function_call", id=item_id, call_id=piece.id, name=piece.name, arguments="")
            events.append(_given(type="response.output_item.added", output_index=piece.index, item=item))
        events.append(
            _given(
                type="response.function_call_arguments.delta",
                output_index=piece.index,
                item_id=item_id,
                delta=piece.arguments,
            )
        )
    return [*events, {"type": "response.completed", "response": {"output": []}}]


def _messages(chunks: Any) -> list[Any]:
    events: list[Any] = []
    for piece in itertools.chain(*chunks):
        if piece.name is not None:
            block = _given(type="tool_use", id=piece.id, name=piece.name, input={})
            events.append(_given(type="content_block_start", index=piece.index, content_block=block))
        delta = {"type": "input_json_delta", "partial_json": piece.arguments}
        events.append(_given(type="content_block_delta", index=piece.index, delta=delta))
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    return [*events, stop, {"type": "message_stop"}]


TWO = [("weather", '{"city": "Paris"}'), ("time", "{}")]
TWICE = [("weather", '{"city": "Paris"}'), ("weather", '{"city": "Rome"}')]

# Name, pieces, calls, and the APIs in whose words the pieces can be said so that they still tell them.
SHAPES: list[tuple[str, list[list[Piece]], list[tuple[str, str]], tuple[str, ...]]] = [
    ("one after the other", [
        [Piece(0, "a", "weather")], [Piece(0, arguments='{"city":')], [Piece(0, arguments=' "Paris"}')],
        [Piece(1, "b", "time")], [Piece(1, arguments="{}")],
    ], TWO, APIS),
    ("interleaved", [
        [Piece(0, "a", "weather")], [Piece(1, "b", "weather")],
        [Piece(0, arguments='{"city":')], [Piece(1, arguments='{"city": "R')],
        [Piece(0, arguments=' "Paris"}')], [Piece(1, arguments='ome"}')],
    ], TWICE, APIS),
    ("interleaved within one chunk", [
        [Piece(0, "a", "weather", '{"city":'), Piece(1, "b", "weather", '{"city": "R')],
        [Piece(1, arguments='ome"}'), Piece(0, arguments=' "Paris"}')],
    ], TWICE, APIS),
    ("the last one first", [
        [Piece(1, "b", "weather")], [Piece(1, arguments='{"city": "Rome"}')],
        [Piece(0, "a", "weather")], [Piece(0, arguments='{"city": "Paris"}')],
    ], TWICE, APIS),
    ("an end out of order", [
        [Piece(0, "a", "weather", '{"city":')], [Piece(1, "b", "weather", '{"city": "Rome"')],
        [Piece(1, arguments="}")], [Piece(0, arguments=' "Paris"}')],
    ], TWICE, APIS),
    ("no index, whole calls", [
        [Piece(None, "a", "weather", '{"city": "Paris"}')], [Piece(None, "b", "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("no index, in pieces", [
        [Piece(None, "a", "weather", '{"city":')], [Piece(arguments=' "Paris"}')],
        [Piece(None, "b", "weather")], [Piece(arguments='{"city": "Ro')], [Piece(arguments='me"}')],
    ], TWICE, APIS),
    ("no index, interleaved by id", [
        [Piece(None, "a", "weather", '{"city":')], [Piece(None, "b", "weather", '{"city": "R')],
        [Piece(None, "a", None, ' "Paris"}')], [Piece(None, "b", None, 'ome"}')],
    ], TWICE, ("responses", "chat")),
    ("no id", [
        [Piece(0, None, "weather")], [Piece(0, arguments='{"city": "Paris"}')],
        [Piece(1, None, "weather")], [Piece(1, arguments='{"city": "Rome"}')],
    ], TWICE, APIS),
    ("an empty id", [
        [Piece(0, "", "weather", '{"city":')], [Piece(0, "", None, ' "Paris"}')],
        [Piece(1, "", "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("one id for both", [
        [Piece(0, "x", "weather", '{"city": "Paris"}')], [Piece(1, "x", "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("neither index nor id", [
        [Piece(None, None, "weather", '{"city":')], [Piece(arguments=' "Paris"}')],
        [Piece(None, None, "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("neither, and no arguments", [
        [Piece(None, None, "weather")], [Piece(None, None, "time")],
    ], [("weather", "{}"), ("time", "{}")], APIS),
    ("one index for both", [
        [Piece(0, "a", "weather", '{"city": "Paris"}')], [Piece(0, "b", "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("one index for both, in pieces", [
        [Piece(0, "a", "weather", '{"city":')], [Piece(0, arguments=' "Paris"}')],
        [Piece(0, "b", "weather", '{"city":')], [Piece(0, arguments=' "Rome"}')],
    ], TWICE, APIS),
    ("one index for both, no id", [
        [Piece(0, None, "weather", '{"city": "Paris"}')], [Piece(0, None, "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("one index for both, no id, other names", [
        [Piece(0, None, "weather", '{"city": "Paris"}')], [Piece(0, None, "time", "{}")],
    ], TWO, APIS),
    ("a wrong index at the start", [
        [Piece(0, "a", "weather", '{"city": "Paris"}')],
        [Piece(0, "b", "weather", '{"city":')], [Piece(1, arguments=' "Rome"}')],
    ], TWICE, APIS),
    ("several calls in one chunk", [
        [Piece(0, "a", "weather", '{"city": "Paris"}'), Piece(1, "b", "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("several calls in one chunk, no index", [
        [Piece(None, "a", "weather", '{"city": "Paris"}'), Piece(None, "b", "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("several calls in one chunk, nothing else", [
        [Piece(None, None, "weather", '{"city": "Paris"}'), Piece(None, None, "weather", '{"city": "Rome"}')],
    ], TWICE, APIS),
    ("no arguments", [[Piece(0, "a", "time")], [Piece(1, "b", "time", " ")]], [("time", "{}")] * 2, APIS),
    ("the name each time", [
        [Piece(0, "a", "weather", '{"city":')], [Piece(0, "a", "weather", ' "Paris"}')],
        [Piece(0, "a", "weather", "")],
    ], TWICE[:1], ("chat",)),
    ("the whole call once more at the end", [
        [Piece(0, "a", "weather", '{"city":')], [Piece(0, "a", None, ' "Paris"}')],
        [Piece(0, "a", "weather", '{"city": "Paris"}')],
    ], TWICE[:1], ("chat",)),
    ("a name in pieces", [
        [Piece(0, "a", "wea")], [Piece(0, None, "ther")], [Piece(0, arguments='{"city": "Paris"}')],
    ], TWICE[:1], ("chat",)),
    ("a name that grows", [
        [Piece(0, "a", "wea")], [Piece(0, "a", "weather")], [Piece(0, "a", None, '{"city": "Paris"}')],
    ], TWICE[:1], ("chat",)),
    ("arguments before the name", [
        [Piece(0, "a", None, '{"city":')], [Piece(0, "a", "weather")], [Piece(0, "a", None, ' "Paris"}')],
    ], TWICE[:1], ("chat",)),
    ("the id late", [
        [Piece(0, None, "weather")], [Piece(0, "a", None, '{"city": "Paris"}')],
    ], TWICE[:1], ("chat",)),
    ("the id late, no index", [
        [Piece(None, None, "weather")], [Piece(None, "a", None, '{"city": "Paris"}')],
    ], TWICE[:1], ("chat",)),
    ("indexes with gaps", [
        [Piece(7, "b", "weather", '{"city": "Rome"}')], [Piece(3, "a", "weather", '{"city": "Paris"}')],
    ], TWICE, APIS),
    ("something that is no call", [
        [Piece(0, "a", "time", "{}")], [Piece(5, "", "", "")], [Piece(0)],
    ], [("time", "{}")], APIS),
    ("arguments that are no JSON", [
        [Piece(0, "a", "weather", '{"city": ')], [Piece(1, "b", "time", "{}")],
    ], [("weather", '{"city": '), ("time", "{}")], APIS),
]  # fmt: skip


@pytest.mark.parametrize(
    ("api", "chunks", "calls"),
    [
        pytest.param(api, chunks, calls, id=f"{name}-{api}")
        for name, chunks, calls, apis in SHAPES
        for api in apis
    ],
)
def test_tool_calls_are_put_together(api, chunks, calls):
    """However a server tells of calls, each comes out once, with its own arguments, in order."""
    response = read(api, spoken(api, *chunks))
    assert called(response) == calls
    assert response.finish_reason == "tool_calls"


async def test_arguments_that_are_an_object_are_written_as_json():
    """Some servers send the arguments themselves in place of their JSON."""
    call = {"index": 0, "function": {"name": "weather", "arguments": {"city": "Paris"}}}
    response = read("chat", [chunk({"tool_calls": [call]}), chunk({}, "stop")])
    assert called(response) == TWICE[:1] and response.finish_reason == "tool_calls"


@each_api
def test_ids_are_kept_and_made_where_there_are_none(api):
    """Results name calls by their ids, also what the model is sent back."""
    response = read(api, spoken(api, [Piece(0, "a", "weather", "{}")], [Piece(1, None, "time", "{}")]))
    first, second = response.tool_calls
    assert first.id == "a" and second.id.startswith("call_") and len(second.id) == 29


@each_api
def test_an_ordinary_answer_is_read_whole(api):
    """Text and calls of the provider's own events."""
    response = read(api, events_of(api, "Let me see.", [PARIS, ROME, TIME]))
    assert response.text == "Let me see."
    assert response.tool_calls == tuple(
        ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in (PARIS, ROME, TIME)
    )


# The Responses API tells everything twice or three times.


def test_finished_items_go_before_their_deltas():
    """What is said of a finished item is what it is."""
    events = events_of("responses", "Hello there.", [PARIS])
    thinned = [event for event in events if not event["type"].endswith(".delta")]
    assert read("responses", thinned) == read("responses", events)
    only_the_last = [event for event in events if event["type"] == "response.completed"]
    assert read("responses", only_the_last).text == "Hello there."


def test_deltas_do_where_there_are_no_finished_items():
    """A server that sends no finished items loses nothing, but nothing of it can go back either."""
    events = events_of("responses", "Hello there.", [PARIS, ROME])
    deltas = [event for event in events if event["type"] != "response.output_item.done"]
    deltas[-1]["response"]["output"] = []
    response = read("responses", deltas)
    assert response.text == "Hello there." and called(response) == TWICE and response.raw is None


def test_a_call_that_is_only_in_the_deltas_is_not_lost():
    """Of what a server tells of its answer, the fuller counts."""
    events = events_of("responses", "Hello there.", [PARIS, ROME])
    fewer = [event for event in events if event.get("output_index") != 2 or "done" not in event["type"]]
    del fewer[-1]["response"]["output"][2]
    assert called(read("responses", fewer)) == TWICE


def test_items_of_one_place_are_both_kept():
    """Two finished items may have one number, or none."""
    for place in ({"output_index": 0}, {}):
        items = [
            {"type": "function_call", "id": "i1", "call_id": "a", "name": "weather", "arguments": "{}"},
            {"type": "function_call", "id": "i2", "call_id": "b", "name": "time", "arguments": "{}"},
        ]
        events = [{"type": "response.output_item.done", **place, "item": item} for item in items]
        response = read("responses", [*events, {"type": "response.completed", "response": {}}])
        assert [call.id for call in response.tool_calls] == ["a", "b"]


def test_thoughts_come_from_the_items_where_the_last_event_has_less():
    """OpenAI says that only the single item's event has all of an encrypted thought."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    events = events_of("responses", "Hi")
    for event in events:
        if "output_index" in event:
            event["output_index"] += 1
    events.insert(1, {"type": "response.output_item.done", "output_index": 0, "item": thought})
    events[-1]["response"]["output"].insert(0, {"type": "reasoning", "id": "rs_1", "summary": []})
    assert read("responses", events).raw["answer"][0] == thought


# Texts.


async def test_texts_of_several_blocks_are_joined_by_their_places():
    """Blocks that come out of order are put in order."""
    delta = "content_block_delta"
    events = [
        {"type": delta, "index": 1, "delta": {"type": "text_delta", "text": "there"}},
        {"type": delta, "index": 0, "delta": {"type": "text_delta", "text": "Hello "}},
        {"type": delta, "index": 1, "delta": {"type": "text_delta", "text": "."}},
    ]
    assert read("messages", [*events, *events_of("messages")[-2:]]).text == "Hello there."


async def test_a_block_may_begin_with_text():
    """Some servers put the first text where the block begins."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello "}}
    more = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "there."}}
    server = Server(streamed(start, more, *events_of("messages")[-2:]))
    call = Call(server.client)
    response = await model_of("messages").respond(request_of(call=call))
    assert response.text == call.told == "Hello there."


def test_a_call_may_come_whole_with_its_block():
    """Some servers send a block's input at its beginning."""
    block = {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Paris"}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    assert called(read("messages", [start, *events_of("messages")[-2:]])) == TWICE[:1]


def test_content_of_several_parts_is_joined():
    """Mistral's models that think send lists of parts, of which texts count."""
    content = [{"type": "thinking", "thinking": [{"text": "Hm"}]}, {"type": "text", "text": "Hello"}]
    assert (
        read("chat", [chunk({"content": content}), chunk({"content": " there"}, "stop")]).text
        == "Hello there"
    )


def test_content_of_kinds_that_june_does_not_know_is_left_out():
    """Providers add kinds."""
    content = [{"type": "sticker"}, {"type": "output_text", "text": "Hi"}, "odd"]
    output = [{"type": "message", "content": content}, {"type": "dance"}, "odd"]
    event = {"type": "response.completed", "response": {"output": output}}
    assert read("responses", [event]).text == "Hi"
    more = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "sticker_delta"}},
        {"type": "dance"},
    ]
    assert read("messages", [*more, *events_of("messages", "Hi")]).text == "Hi"


def test_numbers_may_be_written_as_texts_or_with_a_point():
    """Servers in languages that know one sort of number only do it."""

    def piece(index: Any, arguments: str, **more: Any) -> Any:
        call = {"index": index, "function": {"arguments": arguments, **more}}
        return {"choices": [{"index": "0", "delta": {"tool_calls": [call]}}]}

    events = [
        piece("0", "", name="a"), piece(1.0, "", name="b"), piece("1", '{"c": 2}'), piece(0.0, '{"c": 1}'),
        {"choices": [{"index": "1", "delta": {"content": "not this"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 20.0, "completion_tokens": "9"}},
        {"choices": [], "usage": {}},
    ]  # fmt: skip
    response = read("chat", events)
    assert called(response) == [("a", '{"c": 1}'), ("b", '{"c": 2}')] and not response.text
    assert (response.usage.input_tokens, response.usage.output_tokens) == (20, 9)


def test_a_name_that_comes_again_with_a_space_is_no_second_call():
    """Some servers repeat it with each piece, and end a call with an empty one."""
    call = {"index": 0, "id": "call_a", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    again = {"function": {"name": "weather", "arguments": " "}}
    response = read(
        "chat",
        [
            {"choices": [{"delta": {"tool_calls": [call]}}]},
            {"choices": [{"delta": {"tool_calls": [again]}, "finish_reason": "tool_calls"}]},
        ],
    )
    assert [(one.id, one.name) for one in response.tool_calls] == [("call_a", "weather")]


def test_a_response_may_come_without_pieces():
    """What the events at the end of each part hold is the answer, if nothing else has."""
    events = [
        {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hi."},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather"},
        },
        {
            "type": "response.function_call_arguments.done",
            "output_index": 1,
            "item_id": "fc_1",
            "arguments": '{"city": "Paris"}',
        },
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]
    response = read("responses", events)
    assert response.text == "Hi." and called(response) == [("weather", '{"city": "Paris"}')]


def test_the_end_of_a_part_without_a_place_says_nothing_twice():
    """Servers leave out what counts the parts."""
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather", "arguments": "{}"}
    events = [
        {"type": "response.output_text.delta", "delta": "Hi."},
        {"type": "response.output_item.added", "item": item},
        {"type": "response.output_text.done", "text": "Hi."},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]
    assert read("responses", events).text == "Hi."


def test_a_call_that_is_announced_and_does_not_come_is_no_answer():
    """An old way of calling functions, or a server that lost it."""
    with pytest.raises(Failed) as failed:
        read("chat", [{"choices": [{"delta": {}, "finish_reason": "function_call"}]}])
    assert failed.value.failure.said == (
        "ended its answer with the finish reason 'function_call', and called no tool"
    )


def test_what_a_tool_of_the_providers_own_was_called_with_goes_back():
    """Whether it comes in pieces or with its block."""
    block = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "trio"}}
    events = [
        {"type": "message_start", "message": {"model": "claude"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Hi."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    raw = read("messages", events).raw
    assert raw is not None and raw["answer"][0] == block


def test_only_the_first_of_several_choices_counts():
    """Settings(extra={"n": 2}) asks for choices that nobody looks at."""
    chunks = [chunk({"content": "A"}), chunk({"content": "B"}), chunk({}, "stop"), chunk({}, "length")]
    for number in (1, 3):
        chunks[number]["choices"][0]["index"] = 1
    response = read("chat", chunks)
    assert (response.text, response.finish_reason) == ("A", "stop")


def test_halves_of_a_character_are_put_together():
    """A server may cut a text between the two halves of a character, as JavaScript counts them."""
    halves = [
        '{"choices": [{"delta": {"content": "\\ud83c"}}]}',
        '{"choices": [{"delta": {"content": "\\udfba"}}]}',
    ]
    assert read("chat", [*map(json.loads, halves), chunk({}, "stop")]).text == "🎺"
    assert read("chat", [json.loads(halves[0]), chunk({}, "stop")]).text == "�"


# Ends.

REASONS: list[tuple[str, str, str]] = [
    ("chat", "stop", "stop"),
    ("chat", "length", "length"),
    ("chat", "max_tokens", "length"),
    ("chat", "model_length", "length"),
    ("chat", "content_filter", "content_filter"),
    ("chat", "SAFETY", "content_filter"),
    ("chat", "tool_calls", "stop"),
    ("chat", "eos_token", "stop"),
    ("chat", "stop_sequence", "stop"),
    ("responses", "max_output_tokens", "length"),
    ("responses", "content_filter", "content_filter"),
    ("messages", "end_turn", "stop"),
    ("messages", "stop_sequence", "stop"),
    ("messages", "max_tokens", "length"),
    ("messages", "model_context_window_exceeded", "length"),
    ("messages", "refusal", "refusal"),
    ("messages", "tool_use", "stop"),
]


@pytest.mark.parametrize(("api", "reason", "finish"), REASONS)
def test_ends_have_the_names_of_june(api, reason, finish):
    """Each provider's reason to stop is one of five."""
    response = read(api, events_of(api, "It is", reason=reason))
    assert (response.text, response.finish_reason) == ("It is", finish)


UNKNOWN = [
    ("chat", "error", "finish reason 'error'"),
    ("chat", "abort", "finish reason 'abort'"),
    ("chat", "something_new", "finish reason 'something_new'"),
    ("messages", "something_new", "stop reason 'something_new'"),
    ("responses", "something_new", "as incomplete, with the reason 'something_new'"),
]


@pytest.mark.parametrize(("api", "reason", "named"), UNKNOWN)
@pytest.mark.parametrize("calls", [[], [PARIS]])
async def test_a_reason_that_is_not_known_ends_no_whole_answer(api, reason, named, calls):
    """It may say that something went wrong; the answer is asked for anew, and the reason is told."""
    server = Server(streamed(*events_of(api, "Half", calls, reason=reason)), answered(api))
    call = Call(server.client)
    response = await model_of(api).respond(request_of(call=call))
    assert response.text == call.told == "Hello there."
    ((_, why),) = call.noted("wait")
    assert named in why and why.startswith(f"{LABELS[api]} ended its answer")


@pytest.mark.parametrize("status", ["failed", "cancelled", "in_progress", "queued"])
async def test_a_response_that_is_not_completed_is_none(status):
    """What the last event is called is not all that it says."""
    events = events_of("responses", "Half")
    events[-1]["response"]["status"] = status
    server = Server(streamed(*events), answered("responses"))
    call = Call(server.client)
    response = await model_of("responses").respond(request_of(call=call))
    assert response.text == "Hello there."
    assert [why for _, why in call.noted("wait")] == [
        f"openai('gpt-5-mini') ended its answer with the status {status!r}"
    ]


def test_a_response_that_is_incomplete_for_no_reason_was_cut_off():
    """It is no whole answer, and asking again would most likely meet the same limit."""
    events = events_of("responses", "Half", reason="x")
    del events[-1]["response"]["incomplete_details"]
    assert read("responses", events).finish_reason == "length"


@pytest.mark.parametrize("reason", ["", None, 1, {}])
async def test_an_empty_reason_is_none(reason):
    """A server that never says why it ended has not said that it did."""
    chunks = [chunk({"content": "Half"}), chunk({})]
    chunks[-1]["choices"][0]["finish_reason"] = reason
    server = Server(streamed(*chunks, "[DONE]"), answered("chat"))
    call = Call(server.client)
    assert (await model_of("chat").respond(request_of(call=call))).text == "Hello there."
    assert [why for _, why in call.noted("wait")] == [
        "openai('gpt-5-mini') ended its answer early, without saying that it is finished"
    ]


@pytest.mark.parametrize(
    ("api", "reason"),
    [("chat", "stop"), ("chat", "function_call"), ("messages", "end_turn"), ("chat", "eos")],
)
def test_calls_end_an_answer_whatever_the_reason(api, reason):
    """Several servers end an answer with calls with the reason of one without."""
    response = read(api, events_of(api, "", [PARIS], reason=reason))
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("api", "reason"), [("chat", "length"), ("responses", "max_output_tokens"), ("messages", "max_tokens")]
)
def test_an_answer_that_was_cut_off_in_a_call_says_so(api, reason):
    """The call is there as far as it came, and the end says that it may not be whole."""
    cut = Called("call_a", "weather", '{"city": "Pa')
    response = read(api, events_of(api, "", [cut], reason=reason))
    assert (called(response), response.finish_reason) == ([("weather", '{"city": "Pa')], "length")


@each_api
async def test_a_refusal_has_its_text(api):
    """The provider's reason not to answer is the answer's text."""
    server = Server(streamed(*events_of(api, refused="I cannot help with that.")))
    call = Call(server.client)
    response = await model_of(api).respond(request_of(call=call))
    assert (response.text, response.finish_reason) == ("I cannot help with that.", "refusal")
    assert call.told == ("" if api == "messages" else response.text)


def test_a_refusal_without_a_reason_has_what_there_was():
    """Older models of Anthropic do not say why."""
    response = read("messages", events_of("messages", "Hello..", reason="refusal"))
    assert (response.text, response.finish_reason) == ("Hello..", "refusal")


async def test_a_pause_is_not_taken_for_an_end():
    """The provider's own tools make it pause, which is no answer."""
    server = Server(streamed(*events_of("messages", "Let me", reason="pause_turn")))
    call = Call(server.client)
    with pytest.raises(ModelError) as caught:
        await model_of("messages").respond(request_of(call=call))
    assert str(caught.value) == (
        "anthropic('claude-sonnet-4-6') paused in the middle of its answer (stop_reason 'pause_turn'), which only "
        "tools of the provider's own make it do, and June does not go on from there"
    )
    assert call.noted("spent")[0].output_tokens == 9


# What goes back.


@each_api
def test_what_goes_back_is_json(api):
    """An answer's raw form can be written down."""
    response = read(api, events_of(api, "Hello.", [PARIS]))
    assert json.loads(json.dumps(response.raw)) == response.raw
    assert KEY not in json.dumps(response.raw)


# Anything at all.

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(["a", "text", "id"]), values)
    ),
    max_leaves=6,
)

FIELDS = [
    "arguments", "choices", "content", "content_block", "content_index", "delta", "error", "finish_reason", "function",
    "id", "index", "input", "item", "item_id", "call_id", "message", "model", "name", "output", "output_index",
    "partial_json", "response", "signature", "status", "stop_reason", "text", "thinking", "tool_calls", "usage",
]  # fmt: skip

TYPES = [
    "response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta",
    "response.output_item.added", "response.output_item.done", "response.completed", "response.incomplete",
    "response.failed", "response.created", "error", "ping", "message_start", "message_delta", "message_stop",
    "content_block_start", "content_block_delta", "content_block_stop", "text", "tool_use", "thinking",
    "redacted_thinking", "text_delta", "input_json_delta", "thinking_delta", "signature_delta", "function_call",
    "message", "output_text", "refusal", "reasoning", "server_tool_use",
]  # fmt: skip

OBJECTS: Any = st.recursive(
    VALUES,
    lambda values: (
        st.lists(values, max_size=3)
        | st.builds(
            lambda kind, fields: {"type": kind, **fields},
            st.sampled_from(TYPES),
            st.dictionaries(st.sampled_from(FIELDS), values, max_size=5),
        )
        | st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.lists(OBJECTS.filter(lambda value: isinstance(value, dict)), max_size=8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_nothing_that_a_server_sends_breaks_a_reader(events, at_once):
    """Whatever JSON comes, an answer is read or refused, and its parts are of the right types."""
    for reader in readers().values():
        added = ""
        for event in events:
            added += reader.feed(event)
            in_event(event)
            if at_once:
                reader.feed_whole(event)
        try:
            response = reader.response()
        except (Failed, ModelError):
            continue
        assert isinstance(response.text, str) and all(
            isinstance(call, ToolCall) for call in response.tool_calls
        )
        assert reader.usage.requests == 0 and response.usage.requests == 1
        json.dumps(response.raw)
        Request(messages=(Message("x"), response))


PIECES = st.lists(
    st.builds(
        Piece,
        st.none() | st.integers(0, 2),
        st.sampled_from([None, "", "a", "b"]),
        st.sampled_from([None, "", "weather", "time", "wea"]),
        st.sampled_from(["", "{}", '{"a":', "1}", " "]),
    ),
    max_size=10,
)


@pytest.mark.slow
@given(PIECES)
@settings(max_examples=600, deadline=None)
def test_no_piece_of_arguments_is_lost_or_used_twice(pieces):
    """However odd a stream is, what it says of arguments is in some call, but for a call that comes once more."""
    parts = Parts()
    for piece in pieces:
        parts.call(index=piece.index, id=piece.id, name=piece.name, piece=piece.arguments)
    written = sorted("".join(piece.arguments for piece in pieces).replace(" ", ""))
    calls = parts.calls()
    kept = "".join(call.arguments for call in calls).replace(" ", "")
    once_more = sum(piece.arguments == "{}" and piece.name not in (None, "") for piece in pieces)
    made = sum(call.arguments == "{}" for call in calls)
    assert len(kept) - 2 * made <= len(written) <= len(kept) + 2 * once_more
    assert len({call.id for call in calls}) == len(calls)


@pytest.mark.slow
@given(st.permutations([0, 1, 2]), st.lists(st.integers(0, 2), max_size=12))
def test_the_order_of_pieces_of_different_calls_does_not_matter(order, turns):
    """However pieces of calls with numbers are mixed, each call comes out as if it had come alone."""
    texts = ['{"city": "Paris"}', '{"city": "Rome"}', '{"city": "Oslo"}']
    parts = Parts()
    left = {}
    for index in order:
        parts.call(index=index, id=f"id_{index}", name="weather")
        left[index] = list(texts[index])
    for index in [*turns, *[0] * 20, *[1] * 20, *[2] * 20]:
        if left[index]:
            parts.call(index=index, piece=left[index].pop(0))
    assert [(call.id, call.arguments) for call in parts.calls()] == [
        (f"id_{index}", text) for index, text in enumerate(texts)
    ]


@each_api
async def test_an_answer_without_anything_is_an_answer(api):
    """A model may have nothing to say."""
    server = Server(answered(api, ""))
    response = await model_of(api, server).respond(request_of())
    assert (response.text, response.tool_calls, response.finish_reason) == ("", (), "stop")
