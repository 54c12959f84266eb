"""
Recovery: what can still be read of a damaged snapshot file and its journal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any

import attrs
import msgspec

from june import _disk, records
from june._locks import FileLock
from june.entries import AnyEntry, Entry, read_entry
from june.errors import SnapshotError
from june.keys import SCHEME, digest
from june.snapshots import EMPTY, VERSION, Snapshot, SnapshotData, journal_of, laid_over, of_records

_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_code = msgspec.json.Decoder(dict[str, dict[str, str]]).decode
_scan = json.JSONDecoder().raw_decode

_FIELD = re.compile(r'("(?:[^"\\\n]|\\.)*+")\s*:\s*(?=\{)')
_ENTRY_BEGINS = re.compile(r'\{\s*"cacheKey"')
_NUMBER = {name: re.compile(rf'"{name}"\s*:\s*(\d{{1,9}})') for name in ("version", "scheme")}


@attrs.frozen
class Recovered:
    """
    What came of a recovery.

    Attributes:
        snapshot: All that could be read.
        lost: What could not, a text for each thing; empty if nothing is damaged, and nothing was done.
        kept: Where the damaged files are now.
    """

    snapshot: Snapshot
    lost: tuple[str, ...]
    kept: tuple[str, ...]


def recover(path: str | os.PathLike[str]) -> Recovered:
    """
    Write a snapshot file anew with all that can be read of it and its journal.

    The damaged files are kept beside it. An entry whose result does not fit its digest is left out: in a file
    that is damaged elsewhere, that is damage too, rather than somebody's edit.

    Raises:
        FileNotFoundError: If there is neither.
        OSError: If they cannot be read or written.
        SnapshotError: If a run has the file in use, a newer June wrote it, or nothing in it can be read.
    """
    shown = os.fspath(path)
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(f"there is no folder {os.path.dirname(target)}")
    lock = FileLock(target, shown)
    try:
        return _recover(shown, target)
    finally:
        lock.release()


def _recover(shown: str, target: str) -> Recovered:
    journal = journal_of(target)
    found = EMPTY
    lost: list[str] = []
    damaged: list[str] = []
    for file in (target, journal):
        try:
            with open(file, "rb") as opened:
                data = opened.read()
        except FileNotFoundError:
            continue
        damaged.append(file)
        read, problems = _salvage_journal(data) if file == journal else salvage(data)
        found = laid_over(read, found)
        lost += [f"{shown if file == target else journal_of(shown)}: {one}" for one in problems]
    if not damaged:
        raise FileNotFoundError(f"there is no file {shown}")
    if not lost:
        return Recovered(Snapshot.of(found), (), ())
    if not found.steps:
        raise SnapshotError(f"no entry in {shown} can be read: {lost[0]}")
    kept = [(file, _aside(file)) for file in damaged]
    for file, copy in kept:
        shutil.copy2(file, copy)
    recovered = Snapshot.of(found)
    _disk.replace(target, recovered.to_json())
    _disk.remove_if_there(journal)
    return Recovered(recovered, tuple(lost), tuple(copy for _, copy in kept))


def _aside(path: str) -> str:
    number = 1
    while os.path.lexists(copy := f"{path}.damaged" + (f"-{number}" if number > 1 else "")):
        number += 1
    return copy


def _salvage_journal(data: bytes) -> tuple[SnapshotData, list[str]]:
    found = records.read(data, salvage=True)
    return of_records(found), list(found.lost)


def salvage(data: bytes) -> tuple[SnapshotData, list[str]]:
    """Read what can be read of a snapshot's JSON, and say what cannot: nothing, if it is not damaged."""
    try:
        return Snapshot.from_json(data).contents, []
    except SnapshotError as error:
        problem = str(error)
    # What is not UTF-8 becomes lone surrogates, which no JSON of a snapshot has.
    text = data.decode("utf-8", "surrogateescape")
    numbers = {name: int(match[1]) for name, pattern in _NUMBER.items() if (match := pattern.search(text))}
    if numbers.get("version", VERSION) > VERSION:
        raise SnapshotError(problem)
    scan = _Scan(text)
    scan.run()
    found = SnapshotData(scan.steps, scan.unsaved, scan.code, scheme=numbers.get("scheme", SCHEME))
    return found, [problem, *scan.lost]


class _Scan:
    """Looks through a text for what a snapshot is made of, wherever it stands."""

    def __init__(self, text: str) -> None:
        self.steps: dict[str, AnyEntry] = {}
        self.unsaved: dict[str, str] = {}
        self.code: dict[str, dict[str, str]] = {}
        self.lost: list[str] = []
        self._text = text

    def run(self) -> None:
        position = 0
        while (field := _FIELD.search(self._text, position)) is not None:
            position = self._take(field)

    def _take(self, field: re.Match[str]) -> int:
        """Take what a field holds, if it is any of those; give where to go on."""
        start = field.end()
        name = json.loads(field[1], strict=False)
        is_entry = _ENTRY_BEGINS.match(self._text, start) is not None
        if not is_entry and name not in ("unsaved", "code"):
            return start + 1
        try:
            name.encode()
            _, end = _scan(self._text, start)
            raw = msgspec.Raw(self._text[start:end].encode())
            if is_entry:
                self._keep(name, read_entry(f"steps.{name}", raw))
            elif name == "unsaved":
                self.unsaved.update(_decode_texts(raw))
            else:
                self.code.update(_decode_code(raw))
        except (ValueError, RecursionError, SnapshotError, msgspec.DecodeError) as error:
            if is_entry:
                at = len(self._text[:start].encode("utf-8", "surrogateescape"))
                self.lost.append(f"{name!r}, at byte {at}, is damaged: {_reason(error)}")
            return start + 1
        return end

    def _keep(self, id: str, entry: Entry) -> None:
        result = bytes(entry.result)
        # In a file that was indented for people the bytes are others, and the result the same.
        fits = not entry.digest or entry.digest in (
            digest(result).hex(),
            digest(msgspec.json.encode(msgspec.json.decode(result))).hex(),
        )
        if not fits:
            raise SnapshotError("its result does not fit its digest")
        self.steps[id] = entry


def _reason(error: Any) -> str:
    if isinstance(error, UnicodeError):
        return "it is not valid UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error.msg) if isinstance(error, json.JSONDecodeError) else str(error)
