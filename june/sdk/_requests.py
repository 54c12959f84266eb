"""
What the requests of all APIs have in common.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from june._text import near
from june.errors import ModelError
from june.messages import Image, Message, Request, Response, ToolResult


def in_call_order(
    messages: Sequence[Message | Response | ToolResult],
) -> list[Message | Response | list[ToolResult]]:
    """Put the results that follow each answer together, in the order of its calls."""
    ordered: list[Message | Response | list[ToolResult]] = []
    places: dict[str, int] = {}
    for message in messages:
        if not isinstance(message, ToolResult):
            ordered.append(message)
            if isinstance(message, Response):
                places = {call.id: place for place, call in enumerate(message.tool_calls)}
        elif ordered and isinstance(ordered[-1], list):
            ordered[-1].append(message)
        else:
            ordered.append([message])
    for results in ordered:
        if isinstance(results, list):
            results.sort(key=lambda result: places.get(result.id, len(places)))
    return ordered


def image_url(image: Image) -> str:
    """Give the address of an image; that of one's bytes holds them."""
    media_type, data = image_data(image)
    return data if media_type is None else f"data:{media_type};base64,{data}"


def image_data(image: Image) -> tuple[str | None, str]:
    """Give the type of an image and its bytes in base64, or None and its address."""
    loaded = image.loaded()
    if isinstance(loaded.source, bytes):
        return loaded.media_type, b64encode(loaded.source).decode()
    return None, str(loaded.source)


def check_assistant(message: Message, label: str) -> None:
    """
    Check that what a model is to have answered is a text.

    Raises:
        ModelError: If it has an image.
    """
    if any(isinstance(part, Image) for part in message.content):
        raise ModelError(
            f"{label} cannot be sent an image as its own answer: a message of role 'assistant' has only texts"
        )


def kept(response: Response, api: str, model: str) -> Any:
    """Give what an API wants back of one of its model's own answers, or None for any other answer."""
    raw = response.raw
    if isinstance(raw, Mapping) and raw.get("api") == api and raw.get("model") == model:
        return raw.get("answer")
    return None


def keep(answer: Any, api: str, model: str) -> dict[str, Any]:
    """Make an answer's `Response.raw` of what an API wants back of it."""
    return {"api": api, "model": model, "answer": answer}


def given(**fields: Any) -> dict[str, Any]:
    """Give those fields of a body that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def tool_choice(request: Request, label: str) -> str | None:
    """
    Give the setting of that name, or None if there is nothing to say of it.

    Raises:
        ModelError: If there is no tool that could be called.
    """
    choice = request.settings.tool_choice
    names = [tool.name for tool in request.tools]
    if choice in (None, "auto", "none"):
        return choice if names else None
    if choice == "required":
        if not names:
            raise ModelError(f"{label} cannot be made to call a tool (tool_choice='required'): it has none")
    elif choice not in names:
        hint = near(choice, names)
        meant = f". Did you mean {hint[0]!r}?" if hint else ""
        raise ModelError(
            f"{label} cannot be made to call {choice!r} (tool_choice): it has no such tool{meant}"
        )
    return choice


def cannot(label: str, setting: str, api: str, instead: str) -> ModelError:
    """Say that an *api* has no such setting, and what to do."""
    return ModelError(
        f"{label} cannot be asked with Settings({setting}=...): {api} has nothing like it. {instead}."
    )
