"""
Recovery: what can still be read of a damaged snapshot file and its journal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from itertools import pairwise

import attrs
import msgspec

from june import _disk, records
from june._digests import digest
from june._locks import FileLock
from june.entries import AnyEntry, Entry, read_entry
from june.errors import SnapshotError
from june.keys import SCHEME
from june.snapshots import EMPTY, VERSION, Snapshot, SnapshotData, journal_of, laid_over, of_records

_decode_objects = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_code = msgspec.json.Decoder(dict[str, dict[str, str]]).decode
_scan = json.JSONDecoder().raw_decode

_KEY = re.compile(r'\s*("(?:[^"\\\n]|\\.)*+")\s*:\s*')
_JUNE_LINE = re.compile(r'(?m)^"(?:[^"\\\n]|\\.)*+":\{"cacheKey":')
_ENTRY = re.compile(r'("(?:[^"\\\n]|\\.)*+"):\{"cacheKey"')
_DIGEST = re.compile(r'"digest"\s*:\s*"[0-9a-f]{32}"')
_WHOLE = re.compile(r"(.*\}),?.?\r?", re.DOTALL)
_AFTER = re.compile(r"\s*[,}]")
_LINE = re.compile(r'[{}],?(\n[ \t]*)"')
_ENTRY_BEGINS = re.compile(r'\{\s*"(?:cacheKey|result|digest|parts|meta)"')
_GAP = re.compile(r"[\s,]*")
_STEPS = re.compile(r'"steps"\s*:\s*\{')
_HEAD = re.compile(r'\s*\{\s*"version"\s*:\s*(\d{1,9})\s*(?:,\s*"scheme"\s*:\s*(\d{1,9}))?')


@attrs.frozen
class Recovered:
    """
    What came of a recovery.

    Attributes:
        snapshot: All that could be read.
        lost: What could not, a text for each thing; empty if nothing is damaged.
        kept: Where the damaged files are now.
        written: Whether the file was written: it was damaged, or gone, with only its journal left.
    """

    snapshot: Snapshot
    lost: tuple[str, ...]
    kept: tuple[str, ...]
    written: bool


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
    read_files: list[str] = []
    for file in (target, journal):
        try:
            with open(file, "rb") as opened:
                data = opened.read()
        except FileNotFoundError:
            continue
        read_files.append(file)
        read, problems = _salvage_journal(data) if file == journal else salvage(data)
        found = laid_over(read, found)
        lost += [f"{shown if file == target else journal_of(shown)}: {one}" for one in problems]
    if not read_files:
        raise FileNotFoundError(f"there is no file {shown}")
    recovered = Snapshot.of(found)
    if not lost and target in read_files:
        return Recovered(recovered, (), (), written=False)
    if lost and not found.steps:
        afresh = " and ".join(shown + file[len(target) :] for file in read_files)
        raise SnapshotError(f"no entry in {shown} can be read: {lost[0]}; to start afresh, remove {afresh}")
    kept = [(file, _aside(file)) for file in read_files if lost]
    for file, copy in kept:
        shutil.copy2(file, copy)
    _disk.replace(target, recovered.to_json())
    _disk.remove_if_there(journal)
    return Recovered(
        recovered, tuple(lost), tuple(shown + copy[len(target) :] for _, copy in kept), written=True
    )


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
    head = _HEAD.match(text)
    if head is not None and int(head[1]) > VERSION:
        raise SnapshotError(problem)
    scan = _LineScan(text) if _JUNE_LINE.search(text) is not None else _Scan(text)
    scan.run()
    scheme = int(head[2]) if head is not None and head[2] else SCHEME
    return SnapshotData(scan.steps, scan.unsaved, scan.code, scheme), [problem, *scan.lost]


class _Found:
    """What was found of a snapshot in a text."""

    def __init__(self, text: str) -> None:
        self.steps: dict[str, AnyEntry] = {}
        self.unsaved: dict[str, str] = {}
        self.code: dict[str, dict[str, str]] = {}
        self.lost: list[str] = []
        self._text = text

    def _keep(self, id: str, entry: Entry) -> None:
        result = bytes(entry.result)
        if entry.digest:
            # In a file that was indented for people the bytes are others, and the result the same.
            canonical = msgspec.json.encode(msgspec.json.decode(result))
            if entry.digest not in (digest(result).hex(), digest(canonical).hex()):
                raise SnapshotError("its result does not fit its digest")
        elif bytes(entry.parts) or bytes(entry.meta):
            # June writes these never without.
            raise SnapshotError("its digest is missing")
        self.steps.setdefault(id, entry)

    def _lose(self, key: str, position: int, reason: str) -> None:
        at = len(self._text[:position].encode("utf-8", "surrogateescape"))
        self.lost.append(f"the entry {key}, at byte {at}, is damaged: {reason}")


class _LineScan(_Found):
    """Goes through a text as June writes it: a line an entry, which is whole or is not taken."""

    def run(self) -> None:
        position = 0
        for line in self._text.split("\n"):
            if line.startswith('"'):
                problem = self._take(line.removesuffix("\r"))
                if problem is not None:
                    self._take_apart(line, position, problem)
            else:
                self._take_apart(line, position, "it does not begin a line")
            position += len(line) + 1

    def _take(self, line: str, only_sure: bool = False) -> str | None:
        """Take what a line has, or say what is wrong with it."""
        try:
            fields = _decode_objects(f"{{{line.removesuffix(',')}}}".encode())
            [(name, raw)] = fields.items()
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            return _reason(error)
        try:
            entry = read_entry(f"steps.{name}", raw)
            if only_sure and not entry.digest:
                return "its digest is missing"
            self._keep(name, entry)
        except SnapshotError as error:
            return str(error) if only_sure else self._take_other(name, raw, str(error))
        return None

    def _take_other(self, name: str, raw: msgspec.Raw, problem: str) -> str | None:
        try:
            texts = _decode_texts(raw)
        except msgspec.DecodeError:
            return problem
        if "cacheKey" in texts:
            return problem
        if name == "unsaved":
            self.unsaved = texts
        else:
            self.code[name] = texts
        return None

    def _take_apart(self, line: str, position: int, problem: str) -> None:
        """Look for entries in what is no line any more, as where two have become one; name the others."""
        starts = [found.start() for found in _ENTRY.finditer(line)]
        for start, end in pairwise([*starts, len(line)]):
            whole = _WHOLE.fullmatch(line, start, end)
            if len(starts) + (not line.startswith('"')) < 2 or whole is None:
                reason: str | None = problem
            else:
                reason = self._take(whole[1], only_sure=True)
            if reason is not None:
                key = _KEY.match(line, start)
                self._lose(line[start:] if key is None else key[1], position + start, reason)


class _Scan(_Found):
    """Goes through a text that others have written, and where it is damaged looks for where to go on."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # Where any entry has a digest, one without has lost it.
        self._has_digests = _DIGEST.search(text) is not None

    def run(self) -> None:
        steps = _STEPS.search(self._text)
        position = self._entries(0 if steps is None else steps.end() - 1)
        # What stands beside the steps stands behind them, as June writes it.
        for name in ("unsaved", "code"):
            found = [*re.finditer(rf'"{name}"\s*:\s*(?=\{{)', self._text[position:])]
            if found:
                self._table(name, position + found[-1].end())

    def _entries(self, position: int) -> int:
        """Take entries, from where the object begins that has them; give where the last of them ends."""
        text = self._text
        # What begins each entry: where that is a new line, nothing else begins one so.
        line = _LINE.match(text, position) or _LINE.search(text, position)
        separator = "" if line is None else line[1]
        begins = re.compile(re.escape(separator) + r'(?="(?:[^"\\\n]|\\.)*+"\s*:\s*\{)')
        at = position + 1
        while True:
            gap = _GAP.match(text, at)
            key = None if gap is None or separator not in gap[0] else _KEY.match(text, gap.end())
            if key is not None:
                taken = self._entry(key)
                if taken is not None:
                    position = at = taken
                    continue
                at = key.end()
            elif "\n" not in separator and gap is not None and text[gap.end() : gap.end() + 1] == "}":
                return position
            found = begins.search(text, at)
            while found is not None and not self._is_entry(found.end()):
                found = begins.search(text, found.end() + 1)
            if found is None:
                return position
            at = found.start()

    def _is_entry(self, position: int) -> bool:
        """Tell whether an entry begins here, whole or not."""
        key = _KEY.match(self._text, position)
        if key is None:
            return False
        try:
            value, _ = _scan(self._text, key.end())
        except (ValueError, RecursionError):
            # It is damaged itself, which is to be said.
            return _ENTRY_BEGINS.match(self._text, key.end()) is not None
        return isinstance(value, dict) and "cacheKey" in value

    def _entry(self, key: re.Match[str]) -> int | None:
        """Take the entry of a key, or say what is wrong with it; give where it ends, or None."""
        end = None
        try:
            name = json.loads(key[1], strict=False)
            name.encode()
            _, end = _scan(self._text, key.end())
            if _AFTER.match(self._text, end) is None:
                raise SnapshotError("what follows it is no entry")
            entry = read_entry(f"steps.{name}", msgspec.Raw(self._text[key.end() : end].encode()))
            if self._has_digests and not entry.digest:
                raise SnapshotError("its digest is missing")
            self._keep(name, entry)
        except (ValueError, RecursionError, SnapshotError, msgspec.DecodeError) as error:
            self._lose(key[1], key.end(), _reason(error))
        return end

    def _table(self, name: str, position: int) -> None:
        try:
            _, end = _scan(self._text, position)
            raw = self._text[position:end].encode()
            if name == "unsaved":
                self.unsaved = _decode_texts(raw)
            else:
                self.code = _decode_code(raw)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            self.lost.append(f'"{name}" is damaged: {_reason(error)}')


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not valid UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error.msg) if isinstance(error, json.JSONDecodeError) else str(error)
