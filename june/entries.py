"""
Entries: finished steps, as a snapshot holds them.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from june._digests import digest
from june._text import short_repr
from june.errors import SnapshotError
from june.keys import Recipe, input_parts, rows_of
from june.messages import Usage

_encode = msgspec.json.encode


# Never a field of a file; what a file's fields are called is anybody's choice.
_NOT_A_FIELD = os.urandom(16).hex()


class Entry(
    msgspec.Struct, gc=False, forbid_unknown_fields=True, omit_defaults=True, rename={"extra": _NOT_A_FIELD}
):
    """
    A finished step as a snapshot holds it.

    Attributes:
        cacheKey: The key under which the result counts.
        result: The result's JSON, as it stands in the file.
        digest: The hash of June's own bytes of the result, or empty.
        parts: JSON of the digests of the key's parts, or empty.
        meta: JSON of what else is known, or empty.
        extra: Fields that June does not know, kept as they are.
    """

    cacheKey: str
    result: msgspec.Raw
    digest: str = ""
    parts: msgspec.Raw = msgspec.Raw()
    meta: msgspec.Raw = msgspec.Raw()
    extra: dict[str, msgspec.Raw] | None = None

    def data(self) -> msgspec.Raw:
        """The result's JSON."""
        return self.result

    def hashed(self) -> bytes:
        """The hash of the result's JSON, where that is known good."""
        return bytes.fromhex(self.digest)

    def parts_dict(self) -> dict[str, Any]:
        """The digests of the key's parts by name; empty where the file does not tell."""
        if not bytes(self.parts):
            return {}
        try:
            return msgspec.json.decode(self.parts, type=dict[str, Any])
        except msgspec.DecodeError:
            return {}

    def rows(self) -> list[str]:
        """The digests under which the code table has the pieces of its parts."""
        return rows_of(self.parts_dict())

    def usage(self) -> Usage:
        """What the model calls used that made the result, as far as the file tells."""
        meta = plain(self.meta) if bytes(self.meta) else None
        found = meta.get("usage") if isinstance(meta, dict) else None
        return Usage.from_dict(found) if isinstance(found, dict) else Usage()

    def line(self, id: str) -> bytes:
        """The entry as a line of JSON that goes on with the next."""
        pieces = [
            b"\n",
            _encode(id),
            b':{"cacheKey":',
            _encode(self.cacheKey),
            b',"result":',
            bytes(self.result),
        ]
        if self.digest:
            pieces += [b',"digest":', _encode(self.digest)]
        for name, raw in (("parts", self.parts), ("meta", self.meta), *(self.extra or {}).items()):
            if bytes(raw):
                pieces += [b",", _encode(name), b":", bytes(raw)]
        pieces.append(b"},")
        return b"".join(pieces)


class Finished(msgspec.Struct, gc=False):
    """
    A step that finished in this run, as little as a snapshot needs of it.

    Attributes:
        id: The step's id.
        order: Index in the graph of the step, which all instances of an ``each`` step share.
        cacheKey: Its cache key.
        result: June's own bytes of the result.
        result_digest: Their hash, or None until somebody asks.
        recipe: The parts of its key that no input changed.
        inputs: The parts that its inputs added.
        finished_at: When it finished, in seconds since 1970.
        seconds: How long it took.
        more: What else its ``meta`` says, as JSON fields, each after a comma; or empty.
    """

    id: str
    order: int
    cacheKey: str
    result: bytes
    result_digest: bytes | None
    recipe: Recipe
    inputs: bytes
    finished_at: float
    seconds: float
    more: str = ""

    def data(self) -> bytes:
        """The result's JSON."""
        return self.result

    def hashed(self) -> bytes:
        """The hash of the result's JSON."""
        found = self.result_digest
        if found is None:
            found = self.result_digest = digest(self.result)
        return found

    def parts_dict(self) -> dict[str, Any]:
        """The digests of the key's parts by name."""
        inputs, vary = input_parts(self.inputs)
        found: dict[str, Any] = dict(self.recipe.parts)
        if vary is not None:
            found["vary"] = vary
        if inputs:
            found["inputs"] = inputs
        return found

    def rows(self) -> list[str]:
        """The digests under which the code table has the pieces of its parts."""
        return list(self.recipe.rows)

    def usage(self) -> Usage:
        """What the model calls used that made the result."""
        found = msgspec.json.decode(f"{{{self.more[1:]}}}") if self.more else {}
        return Usage.from_dict(found.get("usage", {}))

    def line(self, id: str) -> bytes:
        """The entry as a line of JSON that goes on with the next."""
        return f"\n{self.text()},".encode()

    def text(self, with_digest: bool = True) -> str:
        """The entry as JSON: its id, a colon, and its fields."""
        # Text is put together faster than bytes are, and a large run has many of these.
        inputs = _inputs_json(self.inputs, self.recipe) if self.inputs else ""
        found = ""
        if with_digest:
            hashed = self.result_digest
            if hashed is None:
                hashed = self.result_digest = digest(self.result)
            found = f'"digest":"{hashed.hex()}",'
        return (
            f'{_encode(self.id).decode()}:{{"cacheKey":"{self.cacheKey}","result":{self.result.decode()},'
            f'{found}"parts":{self.recipe.parts_json}{inputs}}},'
            f'"meta":{{"finishedAt":"{_timestamp(int(self.finished_at))}","seconds":{self.seconds:.6f}{self.more}}}}}'
        )


def _inputs_json(inputs: bytes, recipe: Recipe) -> str:
    if len(inputs) == recipe.layout_size:
        written = inputs.hex()
        rows = '",'.join(
            [f"{name}{inputs[at]:c}:{written[start:end]}" for name, at, start, end in recipe.layout]
        )
        return f',"inputs":{{{rows}"}}'
    found, vary = input_parts(inputs)
    written = f',"vary":"{vary}"' if vary is not None else ""
    if found:
        # Parameters are identifiers, and digests hex: nothing here needs to be escaped.
        rows = ",".join([f'"{name}":"{part}"' for name, part in found.items()])
        written += f',"inputs":{{{rows}}}'
    return written


@lru_cache(maxsize=64)
def _timestamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


AnyEntry = Entry | Finished


def read_entry(where: str, raw: msgspec.Raw) -> Entry:
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        raise SnapshotError(f"{where}: not an object with a cacheKey and a result") from None
    for name in ("cacheKey", "result"):
        if name not in fields:
            raise SnapshotError(f'{where}: no "{name}"')
    key = plain(fields.pop("cacheKey"))
    if not isinstance(key, str):
        raise SnapshotError(f'{where}: "cacheKey" is {short_repr(key)}, not a string')
    result = fields.pop("result")
    written_digest = plain(fields.pop("digest", None))
    return Entry(
        key,
        result,
        written_digest if isinstance(written_digest, str) else "",
        fields.pop("parts", msgspec.Raw()),
        fields.pop("meta", msgspec.Raw()),
        fields or None,
    )


def plain(raw: msgspec.Raw | None) -> Any:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
