"""
Snapshots: finished steps' results and cache keys, as JSON.

An entry's result stays as bytes until somebody asks for it: loading a snapshot decodes no result, and
nothing in a file can name a type to construct.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from errno import ENOENT
from typing import Any, Protocol, cast

import attrs
import msgspec

from june import _disk, records
from june._locks import FileLock, is_locked
from june.entries import AnyEntry, Entry, Finished, plain, read_entry
from june.errors import SnapshotError
from june.graphs import Graph
from june.keys import SCHEME, Recipe, joined, why_changed

__all__ = ["Snapshot", "SnapshotDiff"]

VERSION = 1
"""Version of the file format."""


def journal_of(path: str) -> str:
    """Name the journal that goes with a snapshot file."""
    return path + ".journal"


_encode = msgspec.json.encode
_decode_top = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_steps = msgspec.json.Decoder(dict[str, Entry]).decode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_code = msgspec.json.Decoder(dict[str, dict[str, str]]).decode


class Contents(Protocol):
    """Where a snapshot of a run that is still going finds its entries when somebody looks."""

    def count(self, position: int) -> int:
        """Count the entries as of *position*."""

    def collect(self, position: int) -> SnapshotData:
        """Collect everything as of *position*."""


@attrs.frozen
class SnapshotData:
    """Everything that a snapshot holds."""

    steps: dict[str, AnyEntry]
    unsaved: dict[str, str]
    code: Mapping[str, Mapping[str, str]]
    scheme: int = SCHEME
    extra: Mapping[str, msgspec.Raw] = attrs.field(factory=dict)


EMPTY = SnapshotData(steps={}, unsaved={}, code={})


class NotJSONError(SnapshotError):
    """What should be a snapshot is no JSON at all, as when its file was cut short."""


class Snapshot:
    """
    Finished steps' results and cache keys. It never changes.

    Pass it to a run as ``snapshot=``: every step whose id and recomputed cache key match is reused. It has
    a length (how many steps it holds) and gives their ids when iterated, in graph order.

    Example:
        >>> written = '{"version": 1, "steps": {"a": {"cacheKey": "step:0", "result": 7}}}'
        >>> snapshot = Snapshot.from_json(written)
        >>> len(snapshot), list(snapshot)
        (1, ['a'])
    """

    __slots__ = ("_collected", "_contents", "_position")

    _collected: SnapshotData | None
    _contents: Contents | None
    _position: int

    def __init__(self) -> None:
        raise TypeError("a Snapshot is made by Snapshot.from_json(), Snapshot.load(), or a run's snapshot()")

    @classmethod
    def lazy(cls, contents: Contents, position: int) -> Snapshot:
        """Make a snapshot that collects its entries when somebody looks: for June's own modules."""
        return cls._of(None, contents, position)

    @classmethod
    def of(cls, data: SnapshotData) -> Snapshot:
        """Make a snapshot of entries: for June's own modules."""
        return cls._of(data)

    @classmethod
    def _of(cls, data: SnapshotData | None, contents: Contents | None = None, position: int = 0) -> Snapshot:
        self = object.__new__(cls)
        self._collected = data
        self._contents = contents
        self._position = position
        return self

    @property
    def _data(self) -> SnapshotData:
        data = self._collected
        if data is None:
            assert self._contents is not None  # one of the two is always there
            data = self._collected = self._contents.collect(self._position)
            self._contents = None
        return data

    # -- Reading and writing.

    @classmethod
    def from_json(cls, data: bytes | str) -> Snapshot:
        """
        Read a snapshot from its JSON.

        Args:
            data: The JSON, UTF-8 if bytes.

        Raises:
            SnapshotError: If it is not a snapshot; the text says where.
        """
        try:
            encoded = data.encode() if isinstance(data, str) else bytes(data)
            if not isinstance(data, str):
                encoded.decode()  # msgspec.Raw would let anything through
            top = _decode_top(encoded)
        except UnicodeError as error:
            raise NotJSONError(f"this is not a snapshot: not valid UTF-8 ({error})") from None
        except RecursionError:
            raise SnapshotError("this is not a snapshot: it is nested too deeply") from None
        except msgspec.DecodeError as error:
            where = f" after byte {len(encoded)}" if "truncated" in str(error) else ""
            raise NotJSONError(f"this is not a snapshot: not a JSON object ({error}{where})") from None
        return cls._of(_read(top))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        """
        Read a snapshot from its JSON as Python objects, as `to_dict` gives them.

        Raises:
            SnapshotError: If it is not a snapshot; the text says where.
        """
        import json  # msgspec would write NaN as null

        try:
            encoded = json.dumps(data, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(f"this is not a snapshot: JSON cannot hold it ({error})") from None
        return cls.from_json(encoded)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Snapshot:
        """
        Read a snapshot from a file.

        Where a run saves to the file as it goes, or was killed while it did, what it has finished is read
        from the journal beside.

        Load only what you trust, like any other input: the results in it are used as they are.

        Raises:
            OSError: If the file cannot be read.
            SnapshotError: If it is not a snapshot, or is damaged; the text says where.
        """
        shown = os.fsdecode(path)
        target = os.path.realpath(shown)
        # First, as a run that ends meanwhile puts what it holds into the file before it removes it.
        journal = _read_if_there(journal_of(target))
        data = _read_if_there(target)
        found: records.Records | None = None
        if journal is not None:
            try:
                found = records.read(journal)
            except SnapshotError as error:
                raise SnapshotError(f"{journal_of(shown)}: {error}; {_recovery(shown)}") from None
        if data is None and (found is None or not found.fresh):
            # A journal that went with a file counts for nothing once somebody has removed the file.
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), shown)
        try:
            loaded = cls.of(EMPTY) if data is None else cls.from_json(data)
        except NotJSONError as error:
            raise SnapshotError(f"{shown}: {error}; {_recovery(shown)}") from None
        except SnapshotError as error:
            raise SnapshotError(f"{shown}: {error}") from None
        return loaded if found is None else cls.of(laid_over(of_records(found), loaded._data))

    def to_json(self, indent: int | None = None) -> bytes:
        """
        Give the snapshot as strict JSON: UTF-8, a line an entry.

        Args:
            indent: Spaces to indent by, for people; results then no longer stand as June wrote them, so a
                run that resumes from it decodes and encodes each one anew. None is June's own form.
        """
        data = self._data
        # All of it is joined once: a snapshot may be large.
        pieces = [b'{"version":%d,"scheme":%d,"steps":{' % (VERSION, data.scheme)]
        pieces += [entry.line(id) for id, entry in data.steps.items()]
        if data.steps:
            # Each line ends with a comma, which JSON does not allow after the last.
            pieces[-1] = pieces[-1][:-1] + b"\n"
        pieces.append(b"}")
        if data.unsaved:
            pieces.append(b',\n"unsaved":' + _encode(data.unsaved))
        code = _used_code(data)
        if code:
            lines = b",\n".join([b"%b:%b" % (_encode(name), _encode(code[name])) for name in sorted(code)])
            pieces.append(b',\n"code":{\n%b\n}' % lines)
        for name, raw in data.extra.items():
            pieces.append(b",\n%b:%b" % (_encode(name), bytes(raw)))
        pieces.append(b"}\n")
        encoded = b"".join(pieces)
        return encoded if indent is None else msgspec.json.format(encoded, indent=indent) + b"\n"

    def to_dict(self) -> dict[str, Any]:
        """Give the snapshot as Python objects, as a JSON parser would."""
        found: dict[str, Any] = msgspec.json.decode(self.to_json())
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write the snapshot to a file, readable by its owner only.

        The file is replaced as a whole, so that no reader and no crash finds half of one. What a killed run
        left in the file's journal is replaced with it.

        Raises:
            OSError: If the file cannot be written.
            SnapshotError: If a run saves to it now.
        """
        target = os.path.realpath(os.fsdecode(path))
        journal = journal_of(target)
        if not os.path.lexists(journal) and not is_locked(target):
            _disk.replace(target, self.to_json())
            return
        lock = FileLock(target, os.fsdecode(path))
        try:
            # First, so that the journal is never laid over what it does not belong to.
            _fold(target)
            _disk.replace(target, self.to_json())
        finally:
            lock.release()

    # -- Looking at it.

    def __len__(self) -> int:
        if self._collected is None and self._contents is not None:
            return self._contents.count(self._position)
        return len(self._data.steps)

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.steps)

    def __contains__(self, id: object) -> bool:
        return id in self._data.steps

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # as unhashable as a dict, which it compares like

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} step{'s' * (len(self) != 1)}>"

    def entry(self, id: str) -> AnyEntry | None:
        """Find an entry, or None: for June's own modules."""
        return self._data.steps.get(id)

    @property
    def contents(self) -> SnapshotData:
        """Everything it holds: for June's own modules."""
        return self._data

    # -- Making others of it.

    def diff(self, other: Snapshot) -> SnapshotDiff:
        """Compare with a later snapshot, step by step."""
        mine, theirs = self._data.steps, other._data.steps
        both = [id for id in theirs if id in mine]
        return SnapshotDiff(
            added=tuple(id for id in theirs if id not in mine),
            removed=tuple(id for id in mine if id not in theirs),
            rekeyed=tuple(id for id in both if mine[id].cacheKey != theirs[id].cacheKey),
            changed=tuple(id for id in both if _canonical(mine[id]) != _canonical(theirs[id])),
        )

    def without(self, ids: Iterable[str]) -> Snapshot:
        """
        Make a snapshot without some steps.

        Args:
            ids: Ids to leave out; the id of an ``each`` step stands for all its instances, and that of any
                step for those nested in it.
        """
        if isinstance(ids, str):
            raise TypeError(f"without() takes a list of ids, not the string {ids!r}")
        dropped = frozenset(ids)
        return self._filtered(lambda one: not (one in dropped or base_id(one) in dropped))

    def prune(self, graph: Graph) -> Snapshot:
        """Make a snapshot of those entries only that belong to steps of *graph*."""
        kept = {node.step.id for node in graph.nodes}
        return self._filtered(lambda one: base_id(one) in kept)

    def _filtered(self, keep: Any) -> Snapshot:
        data = self._data
        return Snapshot._of(
            attrs.evolve(
                data,
                steps={id: entry for id, entry in data.steps.items() if keep(id)},
                unsaved={id: key for id, key in data.unsaved.items() if keep(id)},
            )
        )


def _read_if_there(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _fold(path: str) -> None:
    """Put what a journal holds into its file, and remove it; one that cannot be read is removed as it is."""
    journal = journal_of(path)
    if not os.path.lexists(journal):
        return
    try:
        loaded = Snapshot.load(path)
    except (SnapshotError, FileNotFoundError):
        pass
    else:
        _disk.replace(path, loaded.to_json())
    _disk.remove_if_there(journal)
    _disk.sync_folder(os.path.dirname(path))


def _recovery(shown: str) -> str:
    return f"to keep what can still be read: june snapshot recover {shown}"


def of_records(found: records.Records) -> SnapshotData:
    """Give what a journal holds as what a snapshot holds."""
    return SnapshotData(found.steps, found.unsaved, found.code, found.scheme)


def laid_over(top: SnapshotData, below: SnapshotData) -> SnapshotData:
    """Add to one what another holds of steps that the first says nothing of."""
    known = top.steps.keys() | top.unsaved.keys()
    steps = {id: entry for id, entry in below.steps.items() if id not in known}
    steps.update(top.steps)
    return SnapshotData(
        steps=steps,
        unsaved={id: key for id, key in below.unsaved.items() if id not in known} | top.unsaved,
        code={**below.code, **top.code},
        scheme=top.scheme,
        extra={**below.extra, **top.extra},
    )


def base_id(id: str) -> str:
    """
    Give the id of the step that an instance or a nested step belongs to.

    Example:
        >>> base_id("review[a.py]"), base_id("write/critic[1]"), base_id("plan")
        ('review', 'write', 'plan')
    """
    for position, character in enumerate(id):
        if character in "[/":
            return id[:position]
    return id


def _canonical(entry: AnyEntry) -> object:
    try:
        return msgspec.json.decode(entry.data())
    except msgspec.DecodeError:
        return bytes(entry.data())


@attrs.frozen
class SnapshotDiff:
    """
    What is different in a later snapshot; ``str()`` shows it to people, and it is false if nothing is.

    Attributes:
        added: Ids that only the later one has.
        removed: Ids that only the earlier one has.
        rekeyed: Ids in both whose cache keys differ.
        changed: Ids in both whose results differ.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    rekeyed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.rekeyed or self.changed)

    def __str__(self) -> str:
        lines = [f"+ {id}" for id in self.added] + [f"- {id}" for id in self.removed]
        for id in dict.fromkeys((*self.rekeyed, *self.changed)):
            what = "key and result" if id in self.rekeyed and id in self.changed else ""
            lines.append(f"~ {id} ({what or ('key' if id in self.rekeyed else 'result')})")
        return "\n".join(lines) or "no difference"


def _used_code(data: SnapshotData) -> dict[str, Mapping[str, str]]:
    """The rows of the code table that some entry still refers to."""
    found: dict[str, Mapping[str, str]] = {}
    for entry in data.steps.values():
        if type(entry) is Finished:
            found.update(entry.recipe.rows)
        elif data.code:
            found.update((row, data.code[row]) for row in entry.rows() if row in data.code)
    return found


def _read(top: dict[str, msgspec.Raw]) -> SnapshotData:
    """Check the top of a snapshot and its entries, decoding no result."""
    version = plain(top.pop("version", None))
    if type(version) is not int or version < 1:
        raise SnapshotError('this is not a snapshot: no "version": 1')
    if version > VERSION:
        raise SnapshotError(
            f'"version" is {version}, so a newer June wrote it; this one reads version {VERSION}'
        )
    scheme = plain(top.pop("scheme", None))
    raw = top.pop("steps", None)
    if raw is None:
        raise SnapshotError('this is not a snapshot: no "steps"')
    return SnapshotData(
        steps=_read_steps(raw),
        unsaved=_lenient(_decode_texts, top.pop("unsaved", None)),
        code=_lenient(_decode_code, top.pop("code", None)),
        scheme=scheme if type(scheme) is int else SCHEME,
        extra=top,
    )


def _lenient(decode: Any, raw: msgspec.Raw | None) -> Any:
    """Decode what only helps; where it is not as June writes it, do without."""
    if raw is None:
        return {}
    try:
        return decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _read_steps(raw: msgspec.Raw) -> dict[str, AnyEntry]:
    try:
        return cast("dict[str, AnyEntry]", _decode_steps(raw))
    except RecursionError:
        raise SnapshotError("this is not a snapshot: it is nested too deeply") from None
    except msgspec.DecodeError:
        # Either it is wrong, and the message must say where; or it has fields that June does not know.
        pass
    try:
        steps = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(f"steps: not an object of entries ({error})") from None
    return {id: read_entry(f"steps.{id}", entry) for id, entry in steps.items()}


def why_missed(base: Snapshot, id: str, recipe: Recipe, inputs: bytes) -> str:
    """
    Say in one of a few fixed sentences why a saved entry could not be reused.

    Args:
        base: The snapshot that the run started from.
        id: The step's id.
        recipe: The step's recipe as it is now.
        inputs: What its inputs add to its key now.
    """
    data = base.contents
    entry = data.steps.get(id)
    if entry is None:
        return "no saved result"
    if data.scheme != SCHEME:
        return f"the snapshot's keys are of scheme {data.scheme}, and this June computes scheme {SCHEME}"
    if isinstance(entry, Finished):
        records = entry.recipe.records
    else:
        records = joined(data.code[row] for row in entry.rows() if row in data.code)
    return why_changed(entry.parts_dict(), records or None, recipe, inputs)
