"""
OpenAI's Responses API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from june._text import short_repr
from june.messages import FinishReason, Message, Request, Response, ToolResult, Usage
from june.sdk import _strict
from june.sdk._failures import broken
from june.sdk._requests import (
    cannot,
    check_assistant,
    given,
    image_url,
    in_call_order,
    instructions_of,
    keep,
    kept,
    tool_choice,
    with_extra,
)
from june.sdk._streams import Parts
from june.sdk._values import count, items, mapping, number, text

API = "responses"

_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "": "length",
}
"""Why an answer may be incomplete; where no reason is given, there is most likely a limit that it has met."""


@attrs.frozen
class Responses:
    """
    The API, for one model.

    Nothing is stored at the provider (``store`` is false): what a model has thought comes back encrypted, and
    goes back with the next request.

    Attributes:
        model: The model's name.
        label: What messages call it.
    """

    model: str
    label: str

    path = "/responses"
    optional: ClassVar = {
        # Models that do not think refuse it.
        "include": ("encrypted content is not supported", "reasoning.encrypted_content"),
        # Older models cannot be held to a schema.
        "text.format": ("text.format", "json_schema", "structured output"),
    }

    def body(self, request: Request, refused: frozenset[str] = frozenset()) -> dict[str, Any]:
        """
        Make a request's body.

        Raises:
            ModelError: If the API has no way to ask for it.
        """
        settings = request.settings
        for name in ("stop", "seed"):
            if getattr(settings, name) not in (None, ()):
                instead = "Leave it out, or pass api='chat' to openai()"
                raise cannot(self.label, name, "the Responses API", instead)
        body: dict[str, Any] = {"model": self.model, "input": self._input(request)}
        in_words = "text.format" in refused or "format" in mapping(settings.extra.get("text"))
        if instructions := instructions_of(request, schema=in_words):
            body["instructions"] = instructions
        body |= given(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_output_tokens=settings.max_tokens,
            reasoning=None if settings.reasoning is None else {"effort": settings.reasoning},
        )
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": _strict.fits(tool.schema, _strict.OPENAI),
                }
                for tool in request.tools
            ]
            if settings.parallel_tools is not None:
                body["parallel_tool_calls"] = settings.parallel_tools
        choice = tool_choice(request, self.label)
        if choice is not None:
            named = choice not in ("auto", "none", "required")
            body["tool_choice"] = {"type": "function", "name": choice} if named else choice
        if request.output is not None and not in_words:
            strict = _strict.fits(request.output, _strict.OPENAI)
            body["text"] = {
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "schema": request.output,
                    "strict": strict,
                }
            }
        body |= {"store": False, "include": ["reasoning.encrypted_content"]}
        return {**with_extra(body, settings.extra, "text", "reasoning"), "stream": True}

    def _input(self, request: Request) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for message in in_call_order(request.messages):
            if isinstance(message, Message):
                found.append(self._message(message))
            elif isinstance(message, Response):
                # What is stored, the API finds by its id.
                found += self._answer(message, stored=request.settings.extra.get("store") is True)
            else:
                found += map(_result, message)
        return found

    def _message(self, message: Message) -> dict[str, Any]:
        if message.role == "assistant":
            check_assistant(message, self.label)
            return {"role": "assistant", "content": message.text}
        if len(message.content) == 1 and isinstance(message.content[0], str):
            return {"role": "user", "content": message.content[0]}
        parts = [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": image_url(part), "detail": "auto"}
            for part in message.content
        ]
        return {"role": "user", "content": parts}

    def _answer(self, response: Response, stored: bool) -> list[dict[str, Any]]:
        own = kept(response, API, self.model)
        if own is not None:
            return list(own) if stored else _without_empty_thoughts(own)
        found: list[dict[str, Any]] = []
        if response.text:
            found.append({"role": "assistant", "content": response.text})
        for call in response.tool_calls:
            found.append(
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            )
        return found

    def reader(self) -> ResponsesReader:
        """Give what reads an answer."""
        return ResponsesReader(self.model)


def _without_empty_thoughts(answer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    Leave out thoughts that came without what they hold: the API would look for them where nothing is stored.

    It would look for those that belong to the other items, too, if these came with their ids.
    """
    empty = [item for item in answer if item.get("type") == "reasoning" and not item.get("encrypted_content")]
    if not empty:
        return answer
    return [
        item if item.get("type") == "reasoning" else {name: item[name] for name in item if name != "id"}
        for item in answer
        if item not in empty
    ]


def _result(result: ToolResult) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": result.id, "output": result.content}


class ResponsesReader:
    """Reads the events of an answer."""

    def __init__(self, model: str) -> None:
        self.usage = Usage()
        self.over = False
        self._asked = model
        self._model = ""
        self._parts = Parts()
        self._done: dict[int, Any] = {}
        self._final: dict[str, Any] = {}
        self._status = ""

    @property
    def whole(self) -> bool:
        return self.over

    def feed(self, data: dict[str, Any]) -> str:
        event = text(data.get("type"))
        place = number(data.get("output_index"))
        mark = text(data.get("item_id")) or None
        delta = text(data.get("delta"))
        if event in ("response.output_text.delta", "response.refusal.delta"):
            kind = "text" if event == "response.output_text.delta" else "refusal"
            self._parts.add(kind, delta, self._place(place, data.get("content_index")))
            return delta
        if event in ("response.output_text.done", "response.refusal.done"):
            kind = "text" if event == "response.output_text.done" else "refusal"
            if place is None and self._parts.joined(kind):
                return ""
            part = self._parts.add(kind, "", self._place(place, data.get("content_index")))
            if not part.text:
                # A server that does not send it in pieces.
                part.pieces.append(text(data.get("text")) or text(data.get("refusal")))
                return part.text
        elif event == "response.function_call_arguments.delta":
            self._parts.call(index=place, mark=mark, piece=delta)
        elif event == "response.function_call_arguments.done":
            part = self._parts.call(index=place, mark=mark)
            if not part.text.strip():
                part.pieces.append(text(data.get("arguments")))
        elif event == "response.output_item.added":
            _begin_item(self._parts, mapping(data.get("item")), place)
        elif event == "response.output_item.done":
            if place is None or place in self._done:
                place = max(self._done, default=-1) + 1
            self._done[place] = data.get("item")
        elif event.startswith("response."):
            self._response(event, mapping(data.get("response")))
        return ""

    @staticmethod
    def _place(index: int | None, part: Any) -> tuple[int, int] | None:
        return None if index is None else (index, number(part) or 0)

    def _response(self, event: str, response: Any) -> None:
        self._model = text(response.get("model")) or self._model
        usage = mapping(response.get("usage"))
        if usage:
            self.usage = Usage(
                input_tokens=count(usage, "input_tokens"),
                output_tokens=count(usage, "output_tokens"),
                cached_tokens=count(usage, "input_tokens_details", "cached_tokens"),
                reasoning_tokens=count(usage, "output_tokens_details", "reasoning_tokens"),
            )
        if event in ("response.completed", "response.incomplete"):
            self._final = dict(response)
            self._status = text(response.get("status")) or event.removeprefix("response.")
            self.over = True

    def feed_whole(self, answer: Mapping[str, Any]) -> None:
        if text(answer.get("status")) in ("completed", "incomplete"):
            self.feed({"type": f"response.{answer['status']}", "response": answer})

    def response(self) -> Response:
        if self._status not in ("completed", "incomplete"):
            raise broken(f"ended its answer with the status {short_repr(self._status)}")
        output, parts = self._finished()
        calls, refusal = parts.calls(), parts.joined("refusal")
        reason: FinishReason = "tool_calls" if calls else "refusal" if refusal else "stop"
        if self._status == "incomplete":
            why = text(mapping(self._final.get("incomplete_details")).get("reason"))
            cut = _INCOMPLETE.get(why)
            if cut is None:
                raise broken(f"ended its answer as incomplete, with the reason {short_repr(why)}")
            reason = cut
        return Response(
            text=refusal if reason == "refusal" else parts.joined("text"),
            tool_calls=calls,
            finish_reason=reason,
            usage=attrs.evolve(self.usage, requests=1),
            model=self._model or self._asked,
            raw=keep(_with_ids(output, parts), API, self._asked) if output else None,
        )

    def _finished(self) -> tuple[list[Any], Parts]:
        """
        Give the finished items, and the parts that they have.

        What a model has thought is in the events of the single items for certain, and not always in the last
        event, which in turn has all items where a server sends no such events. What is in neither is in the
        deltas; then there are no items that could go back.
        """
        done = [item for _, item in sorted(self._done.items()) if isinstance(item, dict)]
        final = [item for item in items(self._final.get("output")) if isinstance(item, dict)]
        output = done if len(done) >= len(final) else final
        parts = Parts()
        for place, item in enumerate(output):
            _whole_item(parts, item, place)
        streamed = self._parts
        for kind in ("text", "refusal", "call"):
            if len(streamed.ordered(kind)) > len(parts.ordered(kind)):
                return [], streamed
        return output, parts


def _begin_item(parts: Parts, item: Any, place: int | None) -> None:
    if item.get("type") == "function_call":
        parts.call(
            index=place,
            mark=text(item.get("id")) or text(item.get("call_id")) or None,
            id=text(item.get("call_id")) or text(item.get("id")),
            name=text(item.get("name")),
            piece=text(item.get("arguments")),
            begins=True,
        )


def _whole_item(parts: Parts, item: dict[str, Any], place: int) -> None:
    if item.get("type") == "message":
        for number_, content in enumerate(map(mapping, items(item.get("content")))):
            if content.get("type") == "output_text":
                parts.add("text", text(content.get("text")), (place, number_))
            elif content.get("type") == "refusal":
                parts.add("refusal", text(content.get("refusal")), (place, number_))
    elif item.get("type") == "function_call":
        call_id = text(item.get("call_id")) or text(item.get("id"))
        part = parts.begin("call", place)
        part.id, part.name, part.pieces = call_id, text(item.get("name")), [text(item.get("arguments"))]


def _with_ids(output: list[Any], parts: Parts) -> list[Any]:
    """Give the items, with the ids by which the results of the calls will name them."""
    ids = {part.index: part.id for part in parts.ordered("call")}
    return [{**item, "call_id": ids[place]} if place in ids else item for place, item in enumerate(output)]
