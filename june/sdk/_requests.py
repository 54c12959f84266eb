"""
What the requests of all APIs have in common.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import chain, count
from math import inf
from typing import Any

import attrs

from june._text import near
from june.errors import ModelError
from june.messages import Image, Message, Request, Response, ToolResult
from june.sdk._values import items, mapping, text, written

_IN_WORDS = """\
Answer with one JSON value and nothing else: no text around it, no code fence. It must fit this JSON schema:
{schema}"""


def instructions_of(request: Request, *, schema: bool) -> str:
    """
    Give a request's instructions, or nothing if they are blank.

    Args:
        request: The request.
        schema: Whether they are to ask for an answer that fits its schema, if it has one.
    """
    told = [request.instructions]
    if schema and request.output is not None:
        told.append(_IN_WORDS.format(schema=written(request.output)))
    return "\n\n".join(filter(str.strip, told))


def in_call_order(
    messages: Sequence[Message | Response | ToolResult],
) -> list[Message | Response | list[ToolResult]]:
    """
    Put the results that follow each answer together, in the order of its calls.

    Where calls have the same id, as with servers that count them anew in each answer, all but the first get
    others: an API may refuse an id that comes twice.
    """
    ordered: list[Message | Response | list[ToolResult]] = []
    taken: set[str] = set()
    # The calls of the last answer: their places and their ids, by the ids that they came with.
    calls: dict[str, list[tuple[float, str]]] = {}
    results: list[tuple[float, ToolResult]] = []
    for message in messages:
        if not isinstance(message, ToolResult):
            results = []
            if isinstance(message, Response):
                message, calls = _with_own_ids(message, taken)
            ordered.append(message)
            continue
        waiting = calls.get(message.id) or [(inf, message.id)]
        place, id = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if not results:
            ordered.append([])
        results.append((place, attrs.evolve(message, id=id)))
        results.sort(key=lambda result: result[0])
        ordered[-1] = [result for _, result in results]
    return ordered


def _with_own_ids(response: Response, taken: set[str]) -> tuple[Response, dict[str, list[tuple[float, str]]]]:
    """Give an answer whose calls have ids that no other has, and its calls as `in_call_order` wants them."""
    found: dict[str, list[tuple[float, str]]] = {}
    calls = []
    for place, call in enumerate(response.tool_calls):
        # The same each time, so that a conversation begins as it did, which providers remember.
        others = (f"{call.id}_{number}" for number in count(2))
        id = next(id for id in chain([call.id], others) if id not in taken)
        taken.add(id)
        found.setdefault(call.id, []).append((place, id))
        calls.append(attrs.evolve(call, id=id))
    changed = {old: new[0][1] for old, new in found.items() if new[0][1] != old}
    raw = response.raw
    if changed and isinstance(raw, Mapping):
        raw = {**raw, "answer": _renamed(raw.get("answer"), changed)}
    return attrs.evolve(response, tool_calls=tuple(calls), raw=raw), found


def _renamed(answer: Any, ids: Mapping[str, str]) -> Any:
    """Give what an API wants back of an answer, with other ids of calls."""
    if isinstance(answer, Mapping):
        return {**answer, "tool_calls": _renamed(answer.get("tool_calls"), ids)}
    return [
        {**item, **{name: ids[item[name]] for name in ("id", "call_id") if text(item.get(name)) in ids}}
        for item in map(mapping, items(answer))
    ]


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


def with_extra(body: Mapping[str, Any], extra: Mapping[str, Any], *joined: str) -> dict[str, Any]:
    """
    Put a user's own fields over those of a body.

    Args:
        body: The body.
        extra: `june.Settings.extra`.
        joined: Fields that have several things in them, of which the user's own go over those of the body.
    """
    found = {**body, **extra}
    for name in joined:
        if isinstance(body.get(name), Mapping) and isinstance(extra.get(name), Mapping):
            found[name] = {**body[name], **extra[name]}
    return found


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
