"""
What spans say of steps, requests and tool calls, in the words of OpenTelemetry's GenAI conventions.

The names are those of version 0.1.0 of the conventions, which are still in development. What they have no
name for is under ``june.``; so are the sums of steps and runs, as whoever adds up ``gen_ai.usage`` would
count twice what is said of requests and again of those who made them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from june._text import short_repr, writable
from june.agents import Agent, Rendered
from june.errors import ModelError, ToolError
from june.messages import Image, Message, Response, Settings, ToolCall, Usage
from june.stepruns import StepRun
from june.tools import Tool
from june.traces import TraceNode

Attributes = dict[str, Any]
"""Attributes of a span; those that are None are left out."""

_FINISH_REASONS = {"tool_calls": "tool_call"}
"""Finish reasons that the conventions call something else."""


@attrs.frozen(kw_only=True)
class Said:
    """
    What a span says.

    Attributes:
        name: The span's name.
        attributes: Its attributes.
        node: The node that it is made of.
    """

    name: str
    attributes: Attributes
    node: TraceNode


def of_step(node: TraceNode, content: bool) -> Said:
    """
    Say what became of a step.

    Args:
        node: Its node.
        content: Whether prompts and answers may be told.
    """
    said: Attributes = {
        "june.step.id": node.id,
        "june.step.kind": node.kind,
        "june.step.status": node.status,
        "june.step.resumed": node.resumed,
        "june.step.attempts": node.attempts or None,
        "june.step.reason": node.reason,
        "june.step.notes": list(node.notes) or None,
    }
    rendered = _rendered(node)
    if rendered is None or not node.attempts:
        return Said(name=f"step {node.step}", attributes=said, node=node)
    said |= {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": node.step,
        **_of_model(rendered.agent),
        **of_usage(node.usage, "june.usage"),
    }
    if content:
        answers = [one.result for one in node.children if isinstance(one.result, Response)]
        said |= {
            "gen_ai.system_instructions": _instructions(rendered.agent),
            "gen_ai.input.messages": _json(map(_of_message, rendered.messages)),
            "gen_ai.output.messages": _json(map(_of_answer, answers[-1:])),
        }
    return Said(name=f"invoke_agent {node.step}", attributes=said, node=node)


def of_parts(node: TraceNode, content: bool) -> Iterator[Said]:
    """
    Say what a prompt step's model was asked, and which tools it called.

    Args:
        node: The step's node.
        content: Whether prompts and answers may be told.
    """
    rendered = _rendered(node)
    if rendered is None:
        return
    history = [_of_message(message) for message in rendered.messages] if content else []
    # Every call of an answer is noted, in its order, before the next request is made.
    calls: deque[ToolCall] = deque()
    for part in node.children:
        if part.kind == "request":
            yield _of_request(part, rendered, content, history)
            if isinstance(part.result, Response):
                history.append(_of_answer(part.result))
                calls = deque(part.result.tool_calls)
        else:
            yield _of_tool_call(part, calls.popleft(), rendered.agent, content, history)
        if part.status != "done" and not isinstance(part.error, ToolError):
            # It ended the attempt, and another one begins with the prompt.
            history[len(rendered.messages) :] = []


def _of_request(part: TraceNode, rendered: Rendered, content: bool, history: Sequence[Attributes]) -> Said:
    agent = rendered.agent
    answer = part.result if isinstance(part.result, Response) else None
    said: Attributes = {
        "gen_ai.operation.name": "chat",
        **_of_model(agent),
        **_of_settings(agent.settings),
        "gen_ai.output.type": "text" if rendered.output.text else "json",
    }
    if part.usage is not None:
        said |= {
            **_of_tokens(part.usage, "gen_ai.usage"),
            "june.request.attempts": part.usage.requests,
            "june.request.cost": part.usage.cost,
        }
    if answer is not None:
        reason = _FINISH_REASONS.get(answer.finish_reason, answer.finish_reason)
        said |= {
            "gen_ai.response.model": answer.model or None,
            "gen_ai.response.finish_reasons": [reason],
        }
    if content:
        said |= {
            "gen_ai.system_instructions": _instructions(agent),
            "gen_ai.input.messages": _json(history),
            "gen_ai.output.messages": None if answer is None else _json([_of_answer(answer)]),
            "gen_ai.tool.definitions": _json(map(_of_tool, agent.tools)) if agent.tools else None,
        }
    return Said(name=f"chat {agent.model.name}", attributes=said, node=part)


def _of_tool_call(
    part: TraceNode, call: ToolCall, agent: Agent, content: bool, history: list[Attributes]
) -> Said:
    tool = next((one for one in agent.tools if one.name == call.name), None)
    # A name that no tool has is the model's own words.
    name = call.name if tool is not None or content else "unknown"
    said: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": (tool and tool.description) or None,
        "gen_ai.tool.call.id": call.id,
    }
    if content:
        told = _told(part, tool)
        said |= {"gen_ai.tool.call.arguments": call.arguments, "gen_ai.tool.call.result": told}
        answer = {"type": "tool_call_response", "id": call.id, "response": told or ""}
        history.append({"role": "tool", "parts": [answer]})
    return Said(name=f"execute_tool {name}", attributes=said, node=part)


def _rendered(node: TraceNode) -> Rendered | None:
    talk = node.talk if isinstance(node, StepRun) else None
    return None if talk is None else talk.prompt


def _of_model(agent: Agent) -> Attributes:
    try:
        key = agent.model.settings_key
    except Exception:
        # Its weights may be gone; the step's error says so.
        key = None
    provider = key.get("provider") if isinstance(key, Mapping) else None
    return {
        "gen_ai.provider.name": provider if isinstance(provider, str) else "unknown",
        "gen_ai.request.model": agent.model.name,
    }


def _of_settings(settings: Settings) -> Attributes:
    """Say what was asked for; never ``extra``, which may hold anything."""
    return {
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.max_tokens": settings.max_tokens,
        "gen_ai.request.stop_sequences": list(settings.stop) or None,
        "gen_ai.request.seed": settings.seed,
        "gen_ai.request.reasoning.level": settings.reasoning,
    }


def of_usage(usage: Usage | None, prefix: str) -> Attributes:
    """Say what several requests used, under *prefix*."""
    if usage is None or not usage.requests:
        return {}
    return {
        f"{prefix}.requests": usage.requests,
        **_of_tokens(usage, prefix),
        f"{prefix}.cost": usage.cost,
    }


def _of_tokens(usage: Usage, prefix: str) -> Attributes:
    return {
        f"{prefix}.input_tokens": usage.input_tokens,
        f"{prefix}.output_tokens": usage.output_tokens,
        f"{prefix}.cache_read.input_tokens": usage.cached_tokens or None,
        f"{prefix}.reasoning.output_tokens": usage.reasoning_tokens or None,
    }


# -- Errors.


def error_type(error: BaseException) -> str:
    """Name what went wrong: a provider's status that says so, or the exception's type."""
    if isinstance(error, ModelError) and error.status is not None and error.status >= 400:
        return str(error.status)
    return type_name(error)


def type_name(error: BaseException) -> str:
    """Name the type of an exception, with its module unless it is a builtin."""
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def quotes(error: BaseException) -> bool:
    """
    Tell whether the text of an exception, or of one that it comes from, has what a model wrote or is told.

    That is so for a `ToolError`, whose text is for the model, and for a `ModelError` about an answer.
    """
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, ToolError) or (isinstance(one, ModelError) and one.text is not None):
            return True
        queue += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            queue += one.exceptions
    return False


# -- Prompts and answers, as the conventions write messages.


def _json(value: Any) -> str:
    listed = list(value)
    try:
        encoded: bytes = msgspec.json.encode(listed, enc_hook=short_repr)
    except UnicodeEncodeError:
        # Half a character, which UTF-8 cannot hold, would keep the whole from being sent.
        return writable(json.dumps(listed, ensure_ascii=False, default=short_repr))
    return encoded.decode()


def _text(text: str) -> Attributes:
    return {"type": "text", "content": text}


def _instructions(agent: Agent) -> str | None:
    return _json([_text(agent.instructions)]) if agent.instructions else None


def _of_message(message: Message) -> Attributes:
    return {
        "role": message.role,
        "parts": [_text(part) if isinstance(part, str) else _of_image(part) for part in message.content],
    }


def _of_image(image: Image) -> Attributes:
    """Name an image; its bytes are not sent."""
    if isinstance(image.source, str) and not image.source.startswith("data:"):
        return {"type": "uri", "modality": "image", "uri": image.source}
    return {"type": "blob", "modality": "image", "mime_type": image.media_type, "content": ""}


def _of_answer(answer: Response) -> Attributes:
    parts = [_text(answer.text)] if answer.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in answer.tool_calls
    ]
    reason = _FINISH_REASONS.get(answer.finish_reason, answer.finish_reason)
    return {"role": "assistant", "parts": parts, "finish_reason": reason}


def _of_tool(tool: Tool[..., Any]) -> Attributes:
    spec = tool.spec
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
    }


def _told(part: TraceNode, tool: Tool[..., Any] | None) -> str | None:
    """Give what a model was told of a call."""
    if part.error is not None or tool is None:
        return str(part.error) if isinstance(part.error, ToolError) else None
    return tool.encode(part.result)
