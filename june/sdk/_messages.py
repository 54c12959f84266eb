"""
Anthropic's Messages API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

import attrs

from june._text import short_repr
from june.errors import ModelError
from june.messages import FinishReason, Image, Message, Request, Response, ToolResult, Usage
from june.sdk import _strict
from june.sdk._failures import broken
from june.sdk._requests import (
    cannot,
    check_assistant,
    given,
    image_data,
    in_call_order,
    instructions_of,
    keep,
    kept,
    tool_choice,
    with_extra,
)
from june.sdk._streams import Part, Parts
from june.sdk._values import count, items, mapping, number, text, whole_characters

API = "messages"

MAX_TOKENS = 32_000
"""
How long an answer may be where ``Settings.max_tokens`` does not say it.

The API wants to be told, and this is what every model since Claude 4 can give.
"""


def _before(minor: int) -> re.Pattern[str]:
    """Match the names of models before Claude 4.*minor*, with dates, and as other clouds write them."""
    end = r"$|-latest|-\d{6,}|-v\d|[@:]"
    return re.compile(rf"claude-(?:[0-3]\b|instant|[a-z]+-4(?:-[0-{minor - 1}])?(?={end}))")


_BEFORE_SCHEMAS = _before(5)
"""Models that cannot be held to a schema."""

_BEFORE_EFFORT = _before(6)
"""Models that think with a budget of tokens, and not with an effort."""

_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384}
"""How many tokens these models may think for, by ``Settings.reasoning``."""

_LEAST_BUDGET = 1024

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
"""Stop reasons of whole answers; any other one ends an answer that is not whole."""

_FAILED = "The tool failed, and did not say why."
"""What a failed tool that has nothing to say is made to say, as the API wants it to say something."""


@attrs.frozen
class Messages:
    """
    The API, for one model.

    Attributes:
        model: The model's name.
        label: What messages call it.
    """

    model: str
    label: str

    path = "/v1/messages"
    optional: ClassVar = {
        # Older servers between us and the API do not know it, and not every schema can be held to.
        "output_config.format": (
            "output_config",
            "output format",
            "structured output",
            "schema is too complex",
        ),
    }

    def body(self, request: Request, refused: frozenset[str] = frozenset()) -> dict[str, Any]:
        """
        Make a request's body.

        Raises:
            ModelError: If the API has no way to ask for it.
        """
        settings = request.settings
        if settings.seed is not None:
            raise cannot(self.label, "seed", "the Messages API", "Leave it out")
        max_tokens = MAX_TOKENS if settings.max_tokens is None else settings.max_tokens
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": max_tokens,
            "messages": self._messages(request),
        }
        output_config: dict[str, Any] = {}
        schema = request.output
        new = not _BEFORE_SCHEMAS.search(self.model)
        in_words = "output_config.format" in refused or "format" in mapping(
            settings.extra.get("output_config")
        )
        if schema is not None and new and not in_words and _strict.fits(schema, _strict.ANTHROPIC):
            output_config["format"] = {"type": "json_schema", "schema": schema}
        if instructions := instructions_of(request, schema="format" not in output_config):
            body["system"] = instructions
        body |= given(
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop_sequences=list(settings.stop) or None,
        )
        if settings.reasoning is not None:
            body |= self._thinking(settings.reasoning, max_tokens, output_config)
        if output_config:
            body["output_config"] = output_config
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in request.tools
            ]
        if choice := self._choice(request):
            body["tool_choice"] = choice
        return {**with_extra(body, settings.extra, "output_config"), "stream": True}

    def _thinking(self, reasoning: str, max_tokens: int, output_config: dict[str, Any]) -> dict[str, Any]:
        if _BEFORE_EFFORT.search(self.model):
            if reasoning == "none":
                # They do not think unless told to.
                return {}
            budget = _BUDGETS.get(reasoning)
            if budget is None:
                raise ModelError(
                    f"{self.label} cannot think {reasoning!r} (reasoning): it knows 'none', "
                    + ", ".join(map(repr, _BUDGETS))
                )
            # The answer needs room beside the thoughts.
            budget = min(budget, max_tokens // 2)
            if budget < _LEAST_BUDGET:
                raise ModelError(
                    f"{self.label} cannot think within {max_tokens} tokens: thoughts count in max_tokens, "
                    f"which must be at least {2 * _LEAST_BUDGET} with reasoning={reasoning!r}"
                )
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}
        if reasoning == "none":
            return {"thinking": {"type": "disabled"}}
        output_config["effort"] = "low" if reasoning == "minimal" else reasoning
        return {"thinking": {"type": "adaptive"}}

    def _choice(self, request: Request) -> dict[str, Any] | None:
        choice = tool_choice(request, self.label)
        one = request.settings.parallel_tools is False and bool(request.tools)
        if choice == "none" or (choice is None and not one):
            return {"type": "none"} if choice else None
        kinds = {None: "auto", "auto": "auto", "required": "any"}
        chosen = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
        return {**chosen, "disable_parallel_tool_use": True} if one else chosen

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        """Give the messages; the API refuses texts that are blank, and messages without anything."""
        found: list[dict[str, Any]] = []
        for message in in_call_order(request.messages):
            if isinstance(message, Message):
                role, content = message.role, self._message(message)
            elif isinstance(message, Response):
                role, content = "assistant", kept(message, API, self.model) or _answer(message)
            else:
                role, content = "user", list(map(_result, message))
            content = [block for block in content if block.get("type") != "text" or block["text"].strip()]
            if content:
                plain = isinstance(message, Message) and len(content) == 1 and content[0]["type"] == "text"
                found.append({"role": role, "content": content[0]["text"] if plain else content})
        if found and found[-1]["role"] == "assistant":
            found[-1]["content"] = _to_go_on_with(found[-1]["content"])
        return found

    def _message(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "assistant":
            check_assistant(message, self.label)
            return [_text(message.text)]
        return [_text(part) if isinstance(part, str) else _image(part) for part in message.content]

    def reader(self) -> MessagesReader:
        """Give what reads an answer."""
        return MessagesReader(self.model, self.label)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _to_go_on_with(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Give the beginning of an answer, which must not end in a space."""
    if isinstance(content, str):
        return content.rstrip()
    *others, last = content
    return [*others, _text(last["text"].rstrip())] if last.get("type") == "text" else content


def _image(image: Image) -> dict[str, Any]:
    media_type, data = image_data(image)
    if media_type is None and not data.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": data}}
    if media_type is None:
        # The API takes addresses of https: only.
        head, _, rest = data.removeprefix("data:").partition(",")
        media_type = head.removesuffix(";base64")
        if head == media_type:
            _, data = image_data(Image(unquote_to_bytes(rest), media_type))
        else:
            data = rest
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id, "content": result.content}
    if result.is_error:
        block |= {"content": result.content if result.content.strip() else _FAILED, "is_error": True}
    elif not result.content.strip():
        del block["content"]
    return block


def _answer(response: Response) -> list[dict[str, Any]]:
    content = [_text(response.text)]
    for call in response.tool_calls:
        content.append(_tool_use(Part(kind="call", id=call.id, name=call.name, pieces=[call.arguments])))
    return content


def _tool_use(part: Part) -> dict[str, Any]:
    # Arguments that are no JSON cannot go back; what was wrong with them is in the result.
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.object or {}}


class MessagesReader:
    """Reads the events of an answer."""

    def __init__(self, model: str, label: str) -> None:
        self.over = False
        self._asked = model
        self._label = label
        self._model = ""
        self._parts = Parts()
        self._reason = ""
        self._explanation = ""
        self._usage: dict[str, Any] = {}

    @property
    def whole(self) -> bool:
        # What comes after it says only that the stream ends.
        return bool(self._reason)

    @property
    def usage(self) -> Usage:
        usage = self._usage
        read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
        return Usage(
            # The API counts what was cached apart.
            input_tokens=count(usage, "input_tokens") + read + written,
            output_tokens=count(usage, "output_tokens"),
            cached_tokens=read,
            reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
        )

    def feed(self, data: dict[str, Any]) -> str:
        event, index = data.get("type"), number(data.get("index"))
        if event == "content_block_delta":
            return self._delta(index, mapping(data.get("delta")))
        if event == "content_block_start":
            return self._begin(index, mapping(data.get("content_block")))
        if event == "message_start":
            message = mapping(data.get("message"))
            self._model = text(message.get("model"))
            self._count(message.get("usage"))
        elif event == "message_delta":
            delta = mapping(data.get("delta"))
            self._reason = text(delta.get("stop_reason")) or self._reason
            self._explanation = whole_characters(text(mapping(delta.get("stop_details")).get("explanation")))
            self._count(data.get("usage"))
        elif event == "message_stop":
            self.over = True
        return ""

    def feed_whole(self, answer: Mapping[str, Any]) -> None:
        self.feed({"type": "message_start", "message": answer})
        for index, block in enumerate(items(answer.get("content"))):
            self.feed({"type": "content_block_start", "index": index, "content_block": block})
        self.feed({"type": "message_delta", "delta": answer})
        self.feed({"type": "message_stop"})

    def _count(self, usage: Any) -> None:
        # Later counts are of the whole answer, and leave out what has not changed.
        self._usage |= {name: value for name, value in mapping(usage).items() if value is not None}

    def _begin(self, index: int | None, block: Any) -> str:
        kind = text(block.get("type"))
        if kind == "text":
            self._parts.add("text", text(block.get("text")), index)
            return text(block.get("text"))
        if kind == "tool_use":
            id, name = text(block.get("id")), text(block.get("name"))
            part = self._parts.call(index=index, id=id, name=name, begins=True)
            part.data["input"] = mapping(block.get("input"))
        elif kind:
            self._parts.begin(kind, index, dict(block))
        return ""

    def _delta(self, index: int | None, delta: Any) -> str:
        kind = delta.get("type")
        if kind == "text_delta":
            self._parts.add("text", text(delta.get("text")), index)
            return text(delta.get("text"))
        if kind == "input_json_delta":
            self._input(index, text(delta.get("partial_json")))
        elif kind == "thinking_delta":
            self._parts.add("thinking", text(delta.get("thinking")), index)
        elif kind == "signature_delta":
            part = self._parts.add("thinking", "", index)
            part.data["signature"] = text(part.data.get("signature")) + text(delta.get("signature"))
        return ""

    def _input(self, index: int | None, piece: str) -> None:
        part = self._parts.at(index)
        if part is not None and part.kind not in ("call", "text", "thinking"):
            # What a tool of the provider's own is called with.
            part.pieces.append(piece)
        else:
            self._parts.call(index=index, piece=piece)

    def response(self) -> Response:
        if self._reason == "pause_turn":
            raise ModelError(
                f"{self._label} paused in the middle of its answer (stop_reason 'pause_turn'), which only "
                "tools of the provider's own make it do, and June does not go on from there"
            )
        if self._reason not in _REASONS:
            raise broken(f"ended its answer with the stop reason {short_repr(self._reason)}")
        for part in self._parts.ordered("call"):
            if not part.text.strip() and part.data.get("input"):
                # A whole block at once.
                part.pieces = [json.dumps(part.data["input"])]
        calls, content = self._parts.calls(), self._parts.joined("text")
        reason = _REASONS[self._reason]
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if calls else "stop"
        blocks = [block for part in self._parts.ordered() if (block := _block(part))]
        return Response(
            text=(self._explanation or content) if reason == "refusal" else content,
            tool_calls=calls,
            finish_reason=reason,
            usage=attrs.evolve(self.usage, requests=1),
            model=self._model or self._asked,
            raw=keep(blocks, API, self._asked),
        )


def _block(part: Part) -> dict[str, Any] | None:
    """Give a part as it goes back; a blank text does not."""
    if part.kind == "text":
        return _text(part.text) if part.text.strip() else None
    if part.kind == "call":
        return _tool_use(part)
    if part.kind == "thinking":
        thought = text(part.data.get("thinking")) + part.text
        return {"type": "thinking", "thinking": thought, "signature": text(part.data.get("signature"))}
    if "input" in part.data and part.pieces:
        return {**part.data, "input": part.object or {}}
    return part.data
