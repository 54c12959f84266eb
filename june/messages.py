"""
Records of what models are asked, answer and use.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from math import inf, isfinite
from numbers import Real
from operator import index
from pathlib import Path
from typing import Any, Literal

import attrs

from june._text import short_repr

__all__ = [
    "Image",
    "Message",
    "Request",
    "Response",
    "Settings",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Usage",
]


_COUNTS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def _count(name: str, value: Any) -> int:
    """Take a count, of whichever sort of whole number: what reads a response may give numpy's."""
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be a whole number, not {short_repr(value)}")
    number = index(value)
    if number < 0:
        raise ValueError(f"{name} must be 0 or more, not {number!r}")
    return number


def _dollars(value: Any) -> float:
    if not isinstance(value, Real):
        raise TypeError(f"cost must be a number of dollars or None, not {short_repr(value)}")
    number = float(value)
    if not 0 <= number < inf:
        raise ValueError(f"cost must be 0 or more, not {number!r}")
    return number


@attrs.frozen(kw_only=True)
class Usage:
    """
    Tokens and requests spent by model calls.

    Two usages add up: ``a + b``.

    Attributes:
        requests: Requests sent to models, failed ones too.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        cached_tokens: Those of `input_tokens` that the provider had cached.
        reasoning_tokens: Those of `output_tokens` that were spent on reasoning.
        cost: What that costs, in US dollars, or None where it is not known, as without the ``prices`` extra.

    Example:
        >>> Usage(requests=1, input_tokens=10) + Usage(requests=1, output_tokens=5)
        Usage(requests=2, input_tokens=10, output_tokens=5, cached_tokens=0, reasoning_tokens=0, cost=None)
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    def __attrs_post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                object.__setattr__(self, name, _count(name, value))
        if self.cost is not None:
            object.__setattr__(self, "cost", _dollars(self.cost))

    def to_dict(self) -> dict[str, float]:
        """Give the counts that are not zero, and the cost if it is known, as JSON can hold it."""
        return {
            name: value for name, value in attrs.asdict(self).items() if value or (name, value) == ("cost", 0)
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Usage:
        """Read what `to_dict` gave; whatever else there is does not count."""
        numbers: dict[str, Any] = {}
        for field in attrs.fields(cls):
            value: Any = fields.get(field.name)
            is_number = type(value) in ((int, float) if field.name == "cost" else (int,))
            if is_number and 0 <= value < inf:
                numbers[field.name] = value
        return cls(**numbers)

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        if self == _NOTHING:
            cost = other.cost
        elif other == _NOTHING:
            cost = self.cost
        else:
            # One that is not known makes the sum unknown: a part of it would pass for the whole.
            cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=cost,
        )


_NOTHING = Usage()


def _check_source(image: object, attribute: object, source: Any) -> None:
    if isinstance(source, str):
        if not _ADDRESS.match(source):
            raise ValueError(
                f"an image's address begins with https: or data:, and {short_repr(source)} does not; "
                "for a file, pass a Path"
            )
    elif not isinstance(source, (bytes, bytearray, memoryview, Path)):
        raise TypeError(f"an image is made of bytes, a Path or an address, not {short_repr(source)}")


# A scheme of one letter is a drive.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@attrs.frozen
class Image:
    """
    A picture in a message.

    It counts in cache keys by its bytes, or by its address where it has one.

    Attributes:
        source: Its bytes, the path of its file, which is read when the prompt is rendered, or its address
            (``https:`` or ``data:``).

        media_type: Its type, as ``image/png``; None tells it from the bytes or the file's name.
    """

    source: bytes | Path | str = attrs.field(repr=lambda source: short_repr(source), validator=_check_source)
    media_type: str | None = None

    def loaded(self) -> Image:
        """
        Give the image with its bytes, if it is a file, and its type.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If its type cannot be told.
        """
        if isinstance(self.source, str):
            return self
        data = self.source.read_bytes() if isinstance(self.source, Path) else bytes(self.source)
        media_type = self.media_type or _media_type(data)
        if media_type is None and isinstance(self.source, Path):
            media_type = mimetypes.guess_type(self.source.name)[0]
        if media_type is None:
            raise ValueError(f"the type of {self!r} cannot be told from its bytes; pass media_type=")
        return Image(data, media_type)


def _media_type(data: bytes) -> str | None:
    for start, media_type in _STARTS.items():
        if data.startswith(start):
            return media_type
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}

Role = Literal["user", "assistant"]


def _parts(content: str | Image | Sequence[str | Image]) -> tuple[str | Image, ...]:
    parts = (content,) if isinstance(content, (str, Image)) or not isinstance(content, Sequence) else content
    for part in parts:
        if not isinstance(part, (str, Image)):
            raise TypeError(f"a message is made of texts and images, not {short_repr(part)}")
    return tuple(parts)


def _check_role(message: object, attribute: object, role: object) -> None:
    if role not in ("user", "assistant"):
        hint = "; say what a system message would with an agent's instructions=" if role == "system" else ""
        raise ValueError(f"a message's role is 'user' or 'assistant', not {short_repr(role)}{hint}")


@attrs.frozen
class Message:
    """
    One message of a prompt.

    Attributes:
        content: A text, an image, or a list of both.
        role: ``user``, or ``assistant`` for what a model is to have answered.

    Example:
        >>> Message("Hello")
        Message(content=('Hello',), role='user')
    """

    content: tuple[str | Image, ...] = attrs.field(converter=_parts)
    role: Role = attrs.field(default="user", validator=_check_role)

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "".join(part for part in self.content if isinstance(part, str))


def _texts(texts: str | Sequence[str]) -> tuple[str, ...]:
    found = (texts,) if isinstance(texts, str) or not isinstance(texts, Iterable) else tuple(texts)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"stop is made of texts, not {short_repr(one)}")
    return found


def _fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(extra, Mapping):
        raise TypeError(f"extra must be a dict of fields, not {short_repr(extra)}")
    return dict(extra)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {short_repr(value)}")
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{name} must be finite, not {number!r}")
    return number


def _whole_number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be a whole number, not {short_repr(value)}")
    return index(value)


def _one_of(what: str, kind: type) -> Callable[[object, attrs.Attribute[Any], object], None]:
    """Check that a setting is None or of a type."""

    def check(settings: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{attribute.name} must be {what}, not {short_repr(value)}")

    return check


@attrs.frozen(kw_only=True)
class Settings:
    """
    What a model is asked to do, beside the prompt. All of it is part of a step's cache key.

    None leaves a setting to the provider.

    Attributes:
        temperature: How freely to choose, from 0.

        top_p: Of how much of the probability to choose.

        max_tokens: How long an answer may be.

        stop: Texts at which to stop.

        seed: A number that makes answers repeatable, as far as the provider can.

        reasoning: How much to think before: ``none``, ``minimal``, ``low``, ``medium``, ``high``, or what
            else the provider knows.

        tool_choice: ``auto``, ``none``, ``required``, or the name of the tool to call.

        parallel_tools: Whether one answer may call several tools.

        extra: Fields for the body of the request, as the provider calls them; they go over all others.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    seed: int | None = None
    reasoning: str | None = attrs.field(default=None, validator=_one_of("a str", str))
    tool_choice: str | None = attrs.field(default=None, validator=_one_of("a str", str))
    parallel_tools: bool | None = attrs.field(default=None, validator=_one_of("True or False", bool))
    extra: Mapping[str, Any] = attrs.field(factory=dict, converter=_fields)

    def __attrs_post_init__(self) -> None:
        # Numbers may be of any sort, numpy's too. Of one value, they count as one in keys.
        for take, names in ((_number, ("temperature", "top_p")), (_whole_number, ("max_tokens", "seed"))):
            for name in names:
                if (value := getattr(self, name)) is not None:
                    object.__setattr__(self, name, take(name, value))
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, not {self.max_tokens!r}")

    def copied(self) -> Settings:
        """Give these settings with an `extra` of their own, so that nobody can change it for others."""
        try:
            return attrs.evolve(self, extra=deepcopy(self.extra)) if self.extra else self
        except Exception:
            # What cannot be copied cannot be sent either; whoever sends it says so.
            return self

    def over(self, other: Settings) -> Settings:
        """Give these settings, and those of *other* where these say nothing."""
        said = {field.name: getattr(self, field.name) for field in attrs.fields(Settings)}
        mine = {name: value for name, value in said.items() if value is not None and value != ()}
        return attrs.evolve(other, **{**mine, "extra": {**other.extra, **self.extra}})


@attrs.frozen(kw_only=True)
class ToolSpec:
    """
    A tool as a model sees it.

    Attributes:
        name: Its name.
        description: What it does, for the model.
        schema: JSON schema of its arguments, an object's.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class ToolCall:
    """
    A model's wish to call a tool.

    Attributes:
        id: What names the call among those of one answer.
        name: The tool's name.
        arguments: The arguments' JSON, as the model wrote it.
    """

    id: str
    name: str
    arguments: str


@attrs.frozen(kw_only=True)
class ToolResult:
    """
    What became of a `ToolCall`.

    Attributes:
        id: The call's id.
        name: The tool's name.
        content: What the model is told.
        is_error: Whether the tool failed.
    """

    id: str
    name: str
    content: str
    is_error: bool = False


FinishReason = Literal["stop", "tool_calls", "length", "refusal", "content_filter"]


@attrs.frozen(kw_only=True)
class Response:
    """
    A model's whole answer to one request.

    Attributes:
        text: What it says.

        tool_calls: The tools it wants to be called, in its order.

        finish_reason: ``stop``, ``tool_calls``, ``length`` (cut off at ``max_tokens``), ``refusal``, or
            ``content_filter``.

        usage: What this one request used.

        model: The model that answered, as the provider names it.

        raw: What the provider wants back with the next request of this conversation, or None: its own form of
            this answer, which may hold more (signed reasoning, for instance).
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage(requests=1)
    model: str = ""
    raw: Any = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Request:
    """
    What a model is asked: a conversation so far.

    Attributes:
        messages: The prompt, and after it each answer with the results of the tools that it called.

        instructions: What goes before the conversation, as a system message.

        tools: The tools that it may call.

        output: JSON schema that the answer's text must fit, or None for any text.

        settings: See `Settings`.

        call: What the model may ask of the run; see `june.models.Call`.
    """

    messages: tuple[Message | Response | ToolResult, ...]
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output: Mapping[str, Any] | None = None
    settings: Settings = attrs.field(factory=Settings)
    call: Any = attrs.field(default=None, repr=False, eq=False)
