"""
Streams: the events of an answer, and the answer that their parts make.

All APIs send an answer in pieces, and servers that speak them differ in what they say of a piece: some leave
out the number of the tool call that it belongs to, or its id, or give two calls one number. `Parts` takes
them as they come, and is where all three APIs' answers are put together.
"""

from __future__ import annotations

import json
import zlib
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import attrs
import trio

from june.messages import Response, ToolCall, Usage
from june.sdk._failures import Failed, Failure, broken
from june.sdk._values import whole_characters

if TYPE_CHECKING:
    import httpx

END_SECONDS = 1.0
"""How long a stream may go on after the answer's end before its connection is given up."""

MOST_ANSWERED = 64 * 2**20
"""How many bytes an answer that comes at once may have, and a line of one that does not in characters."""

_END_BYTES = 65_536
"""How much of it is read meanwhile."""

_READ = frozenset({"gzip", "x-gzip", "deflate"})

_UNREAD = frozenset({"br", "zstd", "compress"})
"""Compressions that servers may use though nobody asks for them, and that would come again."""

_TELLING = len("retry:")
"""How many characters tell what a body is."""


class Reader(Protocol):
    """
    Reads the events of one answer.

    Attributes:
        usage: What the events have told of tokens so far; it has no requests.
        whole: Whether the whole answer is there.
        over: Whether no more events are to be waited for.
    """

    @property
    def usage(self) -> Usage: ...

    @property
    def whole(self) -> bool: ...

    @property
    def over(self) -> bool: ...

    def feed(self, data: dict[str, Any]) -> str:
        """Take an event, and give the text that it adds to the answer."""

    def feed_whole(self, answer: Mapping[str, Any]) -> None:
        """Take an answer that came at once, as the API sends it where no stream is asked for."""

    def response(self) -> Response:
        """
        Give the answer, which must be whole.

        Raises:
            Failed: If the provider says that it went wrong.
            ModelError: If it is one that June cannot go on from.
        """


@asynccontextmanager
async def pieces(response: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """
    Read the body of an answer, which is left by an exception if it cannot be used.

    A connection whose body has been read to its end can be used again, and is given up otherwise.
    """
    body = _Body(response)
    seconds = 0.0
    try:
        yield body
        seconds = END_SECONDS
    finally:
        await _finish(body.source, seconds)


class _Body:
    """
    The pieces of a body.

    They are decompressed here, as a generator of httpx's that does so and fails would leave those within it.

    Attributes:
        source: The pieces as they came.
    """

    def __init__(self, response: httpx.Response) -> None:
        import httpx

        self._encoding = response.headers.get("content-encoding", "").strip().lower()
        try:
            # A hook of the user's client has read it, and so it is decompressed.
            _ = response.content
            self._encoding = ""
            self.source = response.aiter_bytes()
        except httpx.ResponseNotRead:
            self.source = response.aiter_raw()
        # With a header of either kind.
        self._decompressor = zlib.decompressobj(32 + zlib.MAX_WBITS)

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        """
        Give the next piece.

        Raises:
            Failed: If it cannot be decompressed.
        """
        piece = await anext(self.source)
        if self._encoding in _UNREAD:
            raise Failed(
                Failure(
                    said=f"compressed its answer in a way that cannot be undone ({self._encoding!r}), and "
                    "was asked not to",
                    passes=False,
                    status=200,
                )
            )
        if self._encoding not in _READ:
            # What is none that anybody knows says nothing of what the body is.
            return piece
        try:
            return self._decompressor.decompress(piece)
        except zlib.error:
            raise broken(
                f"compressed its answer in a way that cannot be undone (content-encoding {self._encoding!r})"
            ) from None


async def _finish(source: AsyncIterator[bytes], seconds: float) -> None:
    """
    Run a body's generators to their ends.

    They are nested several deep in httpx and httpcore, and closing the outermost one leaves the others to the
    garbage collector, of which trio warns. What is raised in the innermost one ends them all.
    """
    import httpx

    size = 0
    with trio.move_on_after(seconds) as scope:
        try:
            async for piece in source:
                size += len(piece)
                if size > _END_BYTES:
                    scope.cancel()
        except httpx.HTTPError:
            # What there was to know is known.
            pass


async def fill(body: bytearray, source: AsyncIterator[bytes], most: int) -> None:
    """Read a body on, to its end or until there are more than *most* bytes."""
    while len(body) <= most:
        piece = await anext(source, None)
        if piece is None:
            break
        body += piece


async def beginning(source: AsyncIterator[bytes]) -> bytes:
    """Read as much of a body as tells what it is."""
    start = b""
    async for piece in source:
        start += piece
        told = start.removeprefix(BOM_UTF8).strip()
        if len(told) >= _TELLING or b"\n" in told:
            break
    return start


def is_json(start: bytes) -> bool:
    """Whether a body is a JSON object, by its beginning."""
    return start.removeprefix(BOM_UTF8).lstrip().startswith(b"{")


def is_stream(start: bytes, media_type: str) -> bool:
    """
    Whether a body is a stream of events.

    Some servers send one under another type, or under its type something else.
    """
    if media_type == "text/event-stream":
        return not is_json(start)
    return start.removeprefix(BOM_UTF8).lstrip().startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


class Events:
    """Puts the pieces of a stream of server-sent events together."""

    def __init__(self) -> None:
        # It is UTF-8 whatever its content type says, and may begin with the mark for that.
        self._decoder = getincrementaldecoder("utf-8-sig")("replace")
        # The beginning of the line that has not ended yet, in pieces, and how long it is.
        self._begun: list[str] = []
        self._size = 0
        self._returned = False
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[str]:
        """
        Take a piece, and give the data of the events that end in it; an event without data is none.

        Raises:
            Failed: If a line is longer than any answer.
        """
        text = self._decoder.decode(piece)
        if not text:
            return []
        if self._returned:
            # The other half of a line's end.
            text = text.removeprefix("\n")
        self._returned = text.endswith("\r")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._size += len(text)
        if self._size > MOST_ANSWERED:
            raise broken(f"sent an event of more than {MOST_ANSWERED:,} characters")
        self._begun.append(text)
        if "\n" not in text:
            return []
        *lines, last = "".join(self._begun).split("\n")
        self._begun, self._size = [last], len(last)
        found = []
        for line in lines:
            if not line:
                if self._data:
                    found.append("\n".join(self._data))
                    self._data = []
                continue
            field, _, value = line.partition(":")
            if field == "data":
                self._data.append(value.removeprefix(" "))
        return found

    def end(self) -> list[str]:
        """Give what `feed` has not given yet; some servers leave out the empty line after the last event."""
        return self.feed(b"\n\n")


@attrs.define(eq=False, kw_only=True)
class Part:
    """
    A part of an answer, as far as it has come.

    Attributes:
        kind: ``text``, ``refusal``, ``call``, or what an API calls one of its own.
        index: Its place among the parts, or None where that is not said.
        mark: What later pieces may name it by, or None.
        id: A call's id.
        name: A call's tool.
        pieces: What it is made of.
        data: What else an API keeps of it.
    """

    kind: str
    index: Any = None
    mark: str | None = None
    id: str = ""
    name: str = ""
    pieces: list[str] = attrs.field(factory=list)
    data: dict[str, Any] = attrs.field(factory=dict)

    @property
    def text(self) -> str:
        """Its pieces, joined."""
        # The halves of a character beyond 16 bits may have come in two pieces.
        return whole_characters("".join(self.pieces))

    @property
    def arguments(self) -> str:
        """A call's arguments; none at all are ``{}``."""
        text = self.text
        return text if text.strip() else "{}"

    @property
    def object(self) -> dict[str, Any] | None:
        """What it holds, if that is a whole JSON object."""
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class Parts:
    """An answer's parts."""

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def add(self, kind: str, piece: str, index: Any = None) -> Part:
        """
        Add a piece of what is no tool call.

        Args:
            kind: The part's kind.
            piece: The piece.
            index: The part's place, or None for the last one, if it is of this kind.
        """
        if index is None:
            part = self._parts[-1] if self._parts and self._parts[-1].kind == kind else None
        else:
            part = self._last(kind, index)
        if part is None:
            part = self._begin(Part(kind=kind, index=index))
        part.pieces.append(piece)
        return part

    def call(
        self,
        *,
        index: Any = None,
        mark: str | None = None,
        id: str | None = None,
        name: str | None = None,
        piece: str = "",
        begins: bool = False,
    ) -> Part:
        """
        Add a piece of a tool call.

        Args:
            index: The call's place, if that is said.
            mark: What names the call in the stream, if anything does; its id unless said otherwise.
            id: Its id.
            name: Its tool.
            piece: A piece of its arguments.
            begins: Whether it is known to be the first piece.
        """
        mark = mark or id or None
        part = None if begins else self._match(index, mark, name, piece)
        if part is None:
            part = self._begin(Part(kind="call", index=index, mark=mark))
        elif name and piece and piece == part.text and part.object is not None:
            # The whole call once more, as some servers end one.
            piece = ""
        part.mark = part.mark or mark
        part.id = part.id or id or ""
        if part.index is None:
            part.index = index
        if name and name != part.name:
            # A name may come in pieces, or longer each time.
            part.name = name if name.startswith(part.name) else part.name + name
        if piece:
            part.pieces.append(piece)
        return part

    def _match(self, index: Any, mark: str | None, name: str | None, piece: str) -> Part | None:
        """Find the call that a piece belongs to; None is a new one."""
        last = self._last("call")
        marked = None
        if mark is not None:
            marked = self._last("call", index, mark) or self._last("call", mark=mark)
        part = marked
        if part is None and index is not None:
            part = self._last("call", index)
            if part is not None and mark and part.mark:
                # Two calls under one number.
                return None
            if part is None and not mark and not name and last is not None and last.object is None:
                # The number is wrong: there is no such call, and one that goes on.
                part = last
        elif part is None and (not mark or (last is not None and last.mark is None and not name)):
            part = last
        if part is None or not name or not part.name:
            return part
        if not part.pieces:
            # The rest of a name, if anything says that it is the same call.
            return part if name == part.name or part is marked or index is not None else None
        # A name again, after arguments: of the same call if these go on, or of the next one.
        if name != part.name:
            return None
        if part.object is None or not piece.strip():
            return part
        return part if part is marked and index in (None, part.index) and piece == part.text else None

    def _last(self, kind: str, index: Any = None, mark: str | None = None) -> Part | None:
        for part in reversed(self._parts):
            if part.kind == kind and index in (None, part.index) and mark in (None, part.mark):
                return part
        return None

    def begin(self, kind: str, index: Any = None, data: dict[str, Any] | None = None) -> Part:
        """Begin a part, with what else is to be kept of it."""
        return self._begin(Part(kind=kind, index=index, data=data or {}))

    def _begin(self, part: Part) -> Part:
        self._parts.append(part)
        return part

    def at(self, index: Any) -> Part | None:
        """Find the part at a place, or the last one if *index* is None."""
        for part in reversed(self._parts):
            if index in (None, part.index):
                return part
        return None

    def ordered(self, *kinds: str) -> list[Part]:
        """Give the parts of *kinds*, or all: by their places, if all have one, or else as they came."""
        parts = [part for part in self._parts if not kinds or part.kind in kinds]
        if all(part.index is not None for part in parts):
            parts.sort(key=lambda part: part.index)
        return parts

    def joined(self, kind: str) -> str:
        """Join the texts of all parts of a kind."""
        return "".join(part.text for part in self.ordered(kind))

    def calls(self) -> tuple[ToolCall, ...]:
        """Give the tool calls, each with an id of its own. What has neither a name nor arguments is none."""
        calls = []
        ids: set[str] = set()
        self._parts = [part for part in self._parts if part.kind != "call" or part.name or part.text.strip()]
        for part in self.ordered("call"):
            if not part.id or part.id in ids:
                part.id = f"call_{uuid4().hex[:24]}"
            ids.add(part.id)
            calls.append(ToolCall(id=part.id, name=part.name, arguments=part.arguments))
        return tuple(calls)
