"""
OpenAI's Chat Completions API, which many other servers speak too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from june._text import short_repr
from june.messages import FinishReason, Message, Request, Response, Usage
from june.sdk import _strict
from june.sdk._access import Access
from june.sdk._failures import broken
from june.sdk._requests import (
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
from june.sdk._streams import Part, Parts
from june.sdk._values import count, items, mapping, number, text

API = "chat"

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together's
    "eos_token": "stop",  # that of TGI, as is the next
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral's
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "refusal",
}
"""
Finish reasons of whole answers, of OpenAI and of servers that speak its API.

Any other one, as ``error`` or ``abort``, ends an answer that is not whole.
"""


@attrs.frozen
class Chat:
    """
    The API, for one model.

    Attributes:
        model: The model's name.
        label: What messages call it.
        access: Where it is.
    """

    model: str
    label: str
    access: Access

    path = "/chat/completions"
    optional: ClassVar = {
        # Without it a stream has no usage, and Mistral, for one, refuses it.
        "stream_options": ("stream_options", "include_usage"),
        # Many servers know no schemas, or not for all of their models.
        "response_format": ("response_format", "json_schema", "structured output"),
    }

    def body(self, request: Request, refused: frozenset[str] = frozenset()) -> dict[str, Any]:
        """
        Make a request's body.

        Where *refused* has the schema's field, the instructions ask for it.

        Raises:
            ModelError: If the API has no way to ask for it.
        """
        settings = request.settings
        # OpenAI's models that think refuse max_tokens, and many other servers do not know its successor.
        limit = "max_completion_tokens" if self.access.at_home else "max_tokens"
        in_words = "response_format" in refused or "response_format" in settings.extra
        instructions = instructions_of(request, schema=in_words)
        body: dict[str, Any] = {"model": self.model, "messages": self._messages(request, instructions)}
        body |= given(
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=list(settings.stop) or None,
            seed=settings.seed,
            reasoning_effort=settings.reasoning,
            **{limit: settings.max_tokens},
        )
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.schema,
                        # Not said where it is not so: some servers refuse to know it.
                        **({"strict": True} if _strict.fits(tool.schema, _strict.OPENAI) else {}),
                    },
                }
                for tool in request.tools
            ]
            if settings.parallel_tools is not None:
                body["parallel_tool_calls"] = settings.parallel_tools
        choice = tool_choice(request, self.label)
        if choice is not None:
            named = choice not in ("auto", "none", "required")
            body["tool_choice"] = {"type": "function", "function": {"name": choice}} if named else choice
        if request.output is not None and not in_words:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": "answer",
                    "schema": request.output,
                    "strict": _strict.fits(request.output, _strict.OPENAI),
                },
            }
        body["stream_options"] = {"include_usage": True}
        return {**with_extra(body, settings.extra, "stream_options"), "stream": True}

    def _messages(self, request: Request, instructions: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if instructions:
            found.append({"role": "system", "content": instructions})
        for message in in_call_order(request.messages):
            if isinstance(message, Message):
                found.append(self._message(message))
            elif isinstance(message, Response):
                found.append(kept(message, API, self.model) or _answer(message))
            else:
                found += [
                    {"role": "tool", "tool_call_id": result.id, "content": result.content}
                    for result in message
                ]
        return found

    def _message(self, message: Message) -> dict[str, Any]:
        if message.role == "assistant":
            check_assistant(message, self.label)
            return {"role": "assistant", "content": message.text}
        if len(message.content) == 1 and isinstance(message.content[0], str):
            return {"role": "user", "content": message.content[0]}
        parts = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": image_url(part)}}
            for part in message.content
        ]
        return {"role": "user", "content": parts}

    def reader(self) -> ChatReader:
        """Give what reads an answer."""
        return ChatReader(self.model)


def _answer(response: Response) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": response.text or None}
    if response.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in response.tool_calls
        ]
    elif not response.text:
        message["content"] = ""
    return message


class ChatReader:
    """Reads the chunks of an answer."""

    # The usage comes after the finish reason, and the stream's end after the usage.
    over = False

    def __init__(self, model: str) -> None:
        self.usage = Usage()
        self._asked = model
        self._model = ""
        self._parts = Parts()
        self._thought: list[str] = []
        self._reason = ""

    @property
    def whole(self) -> bool:
        return bool(self._reason)

    def feed(self, data: dict[str, Any]) -> str:
        self._model = text(data.get("model")) or self._model
        usage = mapping(data.get("usage"))
        if usage:
            self.usage = Usage(
                input_tokens=count(usage, "prompt_tokens"),
                output_tokens=count(usage, "completion_tokens"),
                cached_tokens=count(usage, "prompt_tokens_details", "cached_tokens"),
                reasoning_tokens=count(usage, "completion_tokens_details", "reasoning_tokens"),
            )
        added = ""
        for choice in map(mapping, items(data.get("choices"))):
            # Others than the first are there if Settings(extra={"n": 2}) asks for them.
            if not number(choice.get("index")):
                added += self._delta(mapping(choice.get("delta")))
                self._reason = text(choice.get("finish_reason")) or self._reason
        return added

    def feed_whole(self, answer: Mapping[str, Any]) -> None:
        choices = []
        for choice in map(mapping, items(answer.get("choices"))):
            message = mapping(choice.get("message"))
            # Here nothing has a number, as nothing comes in pieces.
            calls = [
                {**mapping(call), "index": index}
                for index, call in enumerate(items(message.get("tool_calls")))
            ]
            choices.append({**choice, "delta": {**message, "tool_calls": calls}})
        self.feed({**answer, "choices": choices})

    def _delta(self, delta: Any) -> str:
        content, refusal = _content(delta.get("content")), text(delta.get("refusal"))
        if content:
            self._parts.add("text", content)
        if refusal:
            self._parts.add("refusal", refusal)
        self._thought.append(text(delta.get("reasoning_content")))
        for call in map(mapping, items(delta.get("tool_calls"))):
            self._call(call)
        return content + refusal

    def _call(self, call: Any) -> None:
        function = mapping(call.get("function"))
        arguments = function.get("arguments")
        part = self._parts.call(
            index=number(call.get("index")),
            id=text(call.get("id")),
            name=text(function.get("name")),
            piece=json.dumps(arguments) if isinstance(arguments, dict) else text(arguments),
        )
        # Some providers want more back than the call, as Gemini its signed thoughts.
        part.data |= {
            name: value for name, value in call.items() if name not in ("index", "id", "type", "function")
        }

    def response(self) -> Response:
        reason = _REASONS.get(self._reason.lower())
        if reason is None:
            raise broken(f"ended its answer with the finish reason {short_repr(self._reason)}")
        calls, refusal, content = (
            self._parts.calls(),
            self._parts.joined("refusal"),
            self._parts.joined("text"),
        )
        if reason == "tool_calls" and not (calls or refusal or content):
            raise broken(f"ended its answer with the finish reason {self._reason!r}, and called no tool")
        if reason in ("stop", "tool_calls"):
            # What there is counts: some servers end an answer with calls with "stop", or the other way round.
            reason = "tool_calls" if calls else "refusal" if refusal else "stop"
        message: dict[str, Any] = {"role": "assistant", "content": content or None}
        if refusal:
            message["refusal"] = refusal
        if calls:
            message["tool_calls"] = list(map(_sent_back, self._parts.ordered("call")))
            if thought := "".join(self._thought):
                # Where a model thinks on between calls, as DeepSeek's do, it wants its thoughts back.
                message["reasoning_content"] = thought
        elif not content and not refusal:
            message["content"] = ""
        return Response(
            text=refusal if reason == "refusal" and refusal else content,
            tool_calls=calls,
            finish_reason=reason,
            usage=attrs.evolve(self.usage, requests=1),
            model=self._model or self._asked,
            raw=keep(message, API, self._asked),
        )


def _content(content: Any) -> str:
    """Give the text of a piece of content: Mistral's models that think send lists."""
    return "".join(text(mapping(part).get("text")) for part in items(content)) or text(content)


def _sent_back(part: Part) -> dict[str, Any]:
    function = {"name": part.name, "arguments": part.arguments}
    return {"id": part.id, "type": "function", "function": function, **part.data}
