r"""
Records: the lines of a journal, in which a run that saves as it goes notes what has finished.

A line is a checksum, a length, and so many bytes: how much of the journal was safe on the disk when the line
was written, what kind of record it is, and its JSON.

::

    7f1c55ae 47 0 journal {"version":1,"scheme":1,"fresh":true}
    c53a1f02 61 0 code {"fa0db029…":{"step code":"ab77dec62d2a92ae"}}
    0b6e2c94 151 58 entry {"plan":{"cacheKey":"step:1b0e…","result":"Deploy web"}}
    3a90dd17 61 327 unsaved {"frame":"step:8e13…"}

The checksum is the CRC-32 of the bytes that the length counts, in hexadecimal. So a line that was cut
short, as a process does that is killed while it writes, is told from one that was changed. What a power cut
leaves of lines that no fsync had covered is less tidy: any of the disk's blocks may be missing, and read as
zeros, which JSON does not contain. Such a hole is what it looks like only after the point up to which the
lines behind it say that the journal was safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import attrs
import msgspec

from june._digests import digest
from june.entries import AnyEntry, Entry, Finished, read_entry
from june.errors import SnapshotError
from june.keys import SCHEME

VERSION = 1
"""Version of the journal's format."""

_encode = msgspec.json.encode
_decode_entries = msgspec.json.Decoder(dict[str, Entry]).decode
_decode_objects = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_code = msgspec.json.Decoder(dict[str, dict[str, str]]).decode

_START = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) ")
_PART_OF_START = re.compile(rb"[0-9a-f]{0,8}|[0-9a-f]{8} \d{0,15}")
_BODY = re.compile(rb"(\d{1,15}) ([a-z]+) ")


def framed_line(body: bytes) -> bytes:
    """Put the checksum and the length before a line's body, and a newline behind."""
    return b"%08x %d %b\n" % (crc32(body), len(body), body)


def _line(text: str) -> bytes:
    return framed_line(text.encode())


def header(fresh: bool) -> bytes:
    """
    Write a journal's first line.

    Args:
        fresh: Whether there was no snapshot file when the journal was begun. A journal that was begun beside
            one which is gone now has nothing to add to: somebody removed the snapshot.
    """
    fields = {"version": VERSION, "scheme": SCHEME, "fresh": fresh}
    return _line(f"0 journal {_encode(fields).decode()}")


def entry_line(entry: Finished, safe: int) -> bytes:
    """
    Write the line of a step that finished.

    Args:
        entry: The step.
        safe: How many bytes of the journal are safe on the disk by now.
    """
    # The checksum vouches for the result until the line is read, so its digest can wait until then. This is
    # the one line that a run writes for every step, and written out.
    body = f"{safe} entry {{{entry.text(False)}}}".encode()
    return b"%08x %d %b\n" % (crc32(body), len(body), body)


def code_line(rows: Mapping[str, Mapping[str, str]], safe: int) -> bytes:
    """Write the line of what a code table has of a step; `entry_line` says what *safe* is."""
    return _line(f"{safe} code {_encode(rows).decode()}")


def unsaved_line(id: str, key: str, safe: int) -> bytes:
    """Write the line of a step whose result could not be saved; `entry_line` says what *safe* is."""
    return _line(f"{safe} unsaved {_encode({id: key}).decode()}")


@attrs.frozen
class Records:
    """
    What a journal holds.

    Attributes:
        steps: Entries by id, in the order in which they finished.
        unsaved: Ids and keys of steps whose results could not be saved.
        code: Rows for a snapshot's code table.
        scheme: Number of the way in which the keys were computed.
        fresh: Whether the journal goes with no snapshot file.
        lost: What could not be read, a text for each place; empty unless salvaged.
    """

    steps: dict[str, AnyEntry]
    unsaved: dict[str, str]
    code: Mapping[str, Mapping[str, str]]
    scheme: int
    fresh: bool
    lost: tuple[str, ...] = ()


def read(data: bytes, salvage: bool = False) -> Records:
    """
    Read a journal.

    A last line that was cut short is left out, and so is what a power cut tore out of lines that were not
    safe yet.

    Args:
        data: All of it.
        salvage: Whether to leave out what is damaged, and say what that is, rather than raise.

    Raises:
        SnapshotError: If a line is damaged, or a newer June wrote the journal.
    """
    reader = _Reader()
    problems: list[tuple[int, bool, str]] = []
    lost: list[str] = []
    for number, position, text in _lines(data):
        problem = reader.take(number, text)
        if problem is not None:
            problems.append((position, b"\0" in text, f"line {number} {problem}"))
    for position, hole, problem in problems:
        if hole and position >= reader.safe:
            continue
        if not salvage:
            raise SnapshotError(problem)
        lost.append(problem)
    return attrs.evolve(reader.records(), lost=tuple(lost))


def _lines(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Go through the lines: their numbers from 1, where they begin, and their bytes but the newline."""
    position = 0
    number = 0
    while position < len(data):
        number += 1
        end = data.find(b"\n", position)
        if end < 0:
            text = data[position:]
            if not _cut_short(text):
                yield number, position, text
            return
        yield number, position, data[position:end]
        position = end + 1


def _cut_short(text: bytes) -> bool:
    """Tell whether *text*, which no newline follows, is the first part of a line."""
    start = _START.match(text)
    if start is None:
        return _PART_OF_START.fullmatch(text) is not None
    return len(text) - start.end() < int(start[2])


class _NotAnEntry(Exception):
    """A line's JSON is not that of an entry."""


class _Reader:
    """Collects records line by line."""

    def __init__(self) -> None:
        self.safe = 0
        self._steps: dict[str, AnyEntry] = {}
        self._unsaved: dict[str, str] = {}
        self._code: dict[str, Mapping[str, str]] = {}
        self._scheme = SCHEME
        # Where even the first line was never safe, nothing is missing that should be there.
        self._fresh = False

    def records(self) -> Records:
        return Records(self._steps, self._unsaved, self._code, self._scheme, self._fresh)

    def take(self, number: int, text: bytes) -> str | None:
        """Take a line; say what is wrong with it, or None."""
        body = _checked(text)
        problem = None
        if body is None:
            problem = "is damaged: its checksum does not fit"
            # What is there again after a hole may begin within its last line.
            body = _checked(text[text.rfind(b"\0") + 1 :]) if b"\0" in text else None
            if body is None:
                return problem
        fields = _BODY.match(body)
        if fields is None:
            return "is not as June writes it"
        kind, json = fields[2].decode(), body[fields.end() :]
        if number == 1 and kind != "journal" and problem is None:
            return "does not begin a journal"
        try:
            json.decode()  # msgspec.Raw would let anything through
            self._read(kind, json)
        except (UnicodeError, msgspec.DecodeError, RecursionError, _NotAnEntry) as error:
            return f"is not as June writes it ({error})"
        self.safe = max(self.safe, int(fields[1]))
        return problem

    def _read(self, kind: str, json: bytes) -> None:
        if kind == "entry":
            for id, entry in _entries(json).items():
                if not entry.digest:
                    entry.digest = digest(bytes(entry.result)).hex()
                self._steps.pop(id, None)
                self._steps[id] = entry
                self._unsaved.pop(id, None)
        elif kind == "unsaved":
            for id, key in _decode_texts(json).items():
                self._steps.pop(id, None)
                self._unsaved[id] = key
        elif kind == "code":
            self._code.update(_decode_code(json))
        elif kind == "journal":
            fields: dict[str, Any] = msgspec.json.decode(json, type=dict[str, Any])
            version = fields.get("version")
            if version != VERSION:
                raise SnapshotError(
                    f"its version is {version!r}, so a newer June wrote it; this one reads version {VERSION}"
                )
            scheme = fields.get("scheme")
            self._scheme = scheme if type(scheme) is int else SCHEME
            self._fresh = fields.get("fresh") is True
        else:
            raise SnapshotError(f"it has a record of kind {kind!r}, so a newer June wrote it")


def _entries(json: bytes) -> dict[str, Entry]:
    try:
        return _decode_entries(json)
    except msgspec.DecodeError:
        # It has fields that June does not know, or is no entry.
        pass
    try:
        return {id: read_entry(f"steps.{id}", raw) for id, raw in _decode_objects(json).items()}
    except SnapshotError as error:
        raise _NotAnEntry(str(error)) from None


def _checked(text: bytes) -> bytes | None:
    """Give the body of a line whose checksum and length fit, or None."""
    start = _START.match(text)
    if start is None:
        return None
    # An editor may have changed the ends of lines.
    body = text[start.end() :].removesuffix(b"\r")
    if len(body) != int(start[2]) or crc32(body) != int(start[1], 16):
        return None
    return body
