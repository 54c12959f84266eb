"""
Cache keys: what of a step counts, hashed part by part, and why two keys differ.

A key is ``step:`` and the hex BLAKE2b-128 of an injective encoding: the parts that no input changes (each
a name and a digest, length first), then for each input its name and its *contribution*. A contribution is
17 bytes, a letter for how the input counts and a digest, so that no two inputs can run into each other:

==  =========================================================================================
j   plain JSON: the digest of its canonical bytes
t   a result of another type: the digest of the type (with its classes' code) and of the bytes
v   a run input, a bound value or a default that is not plain JSON
k   a result that is not in a snapshot: the digest of the cache key of the step that makes it
l   a list of results: the digest of their contributions
d   a dict of results by label: the digest of their labels and contributions
==  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from hashlib import blake2b
from typing import Any

import msgspec

from june._digests import digest, framed
from june._text import listed
from june.codec import Codec
from june.fingerprints import STEP_CODE, Fingerprinter, KeyFailure, explain
from june.graphs import GraphNode
from june.steps import Declaration

__all__ = ["versions"]

SCHEME = 1
"""Number of the way in which keys are computed, written in snapshots."""

CONTRIBUTION_SIZE = 17

_PREFIX = b"june key scheme %d" % SCHEME


class Recipe:
    """
    What of a step's key no input changes, computed once for all bound copies of a function.

    That of a prompt step has all of the key, for one prompt; see `rendered`.

    Attributes:
        parts: Part name to hex digest.
        rows: Digest to the pieces that it stands for, by label, for explaining a miss: what a snapshot's code
            table has of the step.
        table: Names these rows, as one text.
        failure: Why no key can be computed, or None.
        key: The cache key of a copy without any input.
        needs_values: Whether rendering needs the values of the inputs.
        vary: The function whose result is added to the key, or None.
        typed: What a result's type adds to the key of a step that takes it, or None for plain JSON.
        notes: What a reader should know of the code that counts.
    """

    __slots__ = (
        "_hash", "codec", "failure", "key", "layout", "layout_size", "needs_values", "notes", "parts",
        "parts_json", "rows", "table", "typed", "vary",
    )  # fmt: skip

    def __init__(self, node: GraphNode, session: Fingerprinter) -> None:
        declaration = node.declaration
        self.codec: Codec = node.codec
        self.rows: Mapping[str, Mapping[str, str]] = {}
        self.notes: tuple[str, ...] = ()
        self.failure: str | None = None
        self.parts: dict[str, str] = {}
        self.vary = declaration.vary if callable(declaration.vary) else None
        self.needs_values = (
            self.vary is not None or declaration.when is not None or declaration.kind.reads_values
        )
        self.typed: bytes | None = None
        try:
            self.parts = self._static_parts(declaration, session)
            if not self.codec.plain:
                classes = session.classes(self.codec.classes)
                self.typed = digest(framed(self.codec.description, classes, *self._taught(session)))
        except KeyFailure as failure:
            self.failure = str(failure)
        except Exception as failure:
            self.failure = f"{type(failure).__name__}: {failure}"
        self._finish(declaration.kind.name)
        # Where each input's contribution stands if all parameters add one, and the JSON that goes before it.
        self.layout: list[tuple[str, int, int, int]] = []
        position = 0
        for parameter in declaration.parameters:
            start = position + len(parameter.tag)
            position = start + CONTRIBUTION_SIZE
            self.layout.append((f'"{parameter.name}":"', start, 2 * start + 2, 2 * position))
        self.layout_size = position if self.vary is None else -1

    def _finish(self, kind: str) -> None:
        """Put the parts together."""
        pieces = [_PREFIX, kind.encode()]
        for name, part in self.parts.items():
            pieces += [name.encode(), part.encode()]
        self._hash = blake2b(framed(*pieces), digest_size=16)
        self.key = "step:" + self._hash.hexdigest()
        self.parts_json = msgspec.json.encode(self.parts)[:-1].decode()
        self.table = "".join(rows_of(self.parts))

    @property
    def records(self) -> dict[str, str]:
        """All pieces that count, by label."""
        return joined(self.rows.values())

    def rendered(
        self,
        kind: str,
        parts: Mapping[str, str],
        rows: Mapping[str, Mapping[str, str]],
        failure: str | None,
        notes: tuple[str, ...],
    ) -> Recipe:
        """
        Give the recipe of a step whose key is what it renders, rather than what its inputs add.

        Args:
            kind: The step's kind.
            parts: The parts that it rendered.
            rows: Digests of some of them, and the pieces that these stand for, by label.
            failure: Why there can be no key, or None.
            notes: What a reader should know of the code that counts in them.
        """
        new = copy(self)
        new.notes = (*self.notes, *notes)
        new.failure = self.failure or failure
        # What was known before stands behind what was rendered, in the order of the contract.
        new.parts = {
            **{name: part for name, part in self.parts.items() if name == "code"},
            **parts,
            **self.parts,
        }
        new.rows = {**self.rows, **rows}
        new.layout, new.layout_size = [], -1
        new._finish(kind)
        return new

    def _static_parts(self, declaration: Declaration, session: Fingerprinter) -> dict[str, str]:
        if declaration.version is not None:
            parts = {"code": digest(b"version " + declaration.version.encode("utf-8", "surrogatepass")).hex()}
            self.rows = {parts["code"]: {"version": parts["code"][:16]}}
        else:
            parts = declaration.kind.parts(declaration, session)
            if "code" in parts:
                fingerprint = session.code(declaration.function, defaults=False)
                self.rows = {parts["code"]: fingerprint.records}
                self.notes = (*fingerprint.notes, *(f"cannot see into {one}" for one in fingerprint.opaque))
        schema = declaration.kind.schema(self.codec)
        described = [self.codec.description]
        if schema is not None:
            described.append(schema)
            if declaration.version is None:
                # The answer becomes a value by what the classes do.
                described.append(session.classes(self.codec.classes))
        parts["output"] = digest(framed(*described, *self._taught(session))).hex()
        if declaration.vary is not None and self.vary is None:
            varied = session.value(declaration.vary)
            if varied.opaque:
                raise KeyFailure(f"june cannot see into vary: {varied.opaque[0]}")
            parts["vary"] = varied.digest.hex()
        return parts

    def _taught(self, session: Fingerprinter) -> list[bytes]:
        """Hash the functions given to `june.codec.register`, which decide what saved bytes mean."""
        return [session.code(function).digest.encode() for function in self.codec.taught]

    def key_of(self, inputs: bytes) -> str:
        """
        Compute the key of a step from what its inputs add.

        Args:
            inputs: For each input its tag and its contribution, in the order of the parameters.
        """
        hashed = self._hash.copy()
        hashed.update(inputs)
        return "step:" + hashed.hexdigest()

    def result_contribution(self, result_digest: bytes) -> bytes:
        """Give what a saved result adds to the key of a step that takes it."""
        if self.typed is None:
            return b"j" + result_digest
        return b"t" + digest(self.typed + result_digest)


def rows_of(parts: Mapping[str, Any]) -> list[str]:
    """Give the digests under which a snapshot's code table has the pieces of an entry's parts."""
    found = [parts.get(name) for name in ("code", "settings", "tools")]
    return [one for one in found if isinstance(one, str)]


def joined(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Put rows of a code table together: all their pieces, by label."""
    return {label: piece for row in rows for label, piece in row.items()}


def key_contribution(key: str) -> bytes:
    """Give what a result that is not saved adds to the key of a step that takes it: its own key."""
    return b"k" + bytes.fromhex(key[5:])


def list_contribution(contributions: Iterable[bytes]) -> bytes:
    """Give what a list of results adds to a key."""
    return b"l" + digest(b"".join(contributions))


def dict_contribution(contributions: Iterable[tuple[str, bytes]]) -> bytes:
    """Give what a dict of results by label adds to a key."""
    return b"d" + digest(framed(*(part for label, one in contributions for part in (label.encode(), one))))


VARY_TAG = b"\xff\xffvary"
"""Stands for the result of a ``vary`` function among the inputs; no parameter's tag can be equal to it."""


def input_parts(inputs: bytes) -> tuple[dict[str, str], str | None]:
    """
    Take the bytes given to `Recipe.key_of` apart again.

    Returns:
        The letter and the digest of each contribution by parameter, and those of what ``vary`` returned, or
        None.
    """
    found: dict[str, str] = {}
    vary = None
    written = inputs.hex()
    position = 0
    size = len(inputs)
    while position < size:
        start = position + 2 + int.from_bytes(inputs[position : position + 2], "big")
        if start > size:
            start = position + len(VARY_TAG)
        end = start + CONTRIBUTION_SIZE
        text = chr(inputs[start]) + ":" + written[2 * start + 2 : 2 * end]
        if inputs.startswith(VARY_TAG, position):
            vary = text
        else:
            found[inputs[position + 2 : start].decode()] = text
        position = end
    return found, vary


def why_changed(
    old: Mapping[str, Any], old_records: Mapping[str, str] | None, recipe: Recipe, inputs: bytes
) -> str:
    """
    Say in one of a few fixed sentences which part of a key changed.

    Args:
        old: The ``parts`` of the saved entry.
        old_records: The pieces of code that counted then, or None if the snapshot does not say.
        recipe: The recipe of the step as it is now.
        inputs: As for `Recipe.key_of`, as it is now.
    """
    if not old:
        return "the saved cache key differs, and its entry does not say why"
    is_prompt = "prompt" in recipe.parts
    if ("prompt" in old) is not is_prompt:
        return f"it is a {'prompt' if is_prompt else 'function'} step now"
    if "code" in old and "code" not in recipe.parts:
        # Of a prompt step, that is a version.
        return "version changed"
    for name, part in recipe.parts.items():
        if old.get(name) != part:
            if name == "settings" and old_records:
                return _why_settings_changed(old_records, recipe.records)
            if name == "tools" and old_records:
                return _why_tools_changed(old_records, recipe.records)
            if name != "code":
                return {"output": "output type changed", "vary": "vary changed"}.get(name, f"{name} changed")
            if "version" in recipe.records or (old_records and "version" in old_records):
                return "version changed"
            return f"code changed: {explain(old_records, recipe.records)}" if old_records else "code changed"
    if "vary" in old and "vary" not in recipe.parts and recipe.vary is None:
        return "vary changed"
    if "tools" in old and "tools" not in recipe.parts:
        return _why_tools_changed(old_records, {}) if old_records else "tools changed"
    now, vary = input_parts(inputs)
    before = old.get("inputs")
    before = before if isinstance(before, Mapping) else {}
    changed = [repr(name) for name in now if name in before and before[name] != now[name]]
    if changed:
        return f"input {changed[0]} changed" if len(changed) == 1 else f"inputs {listed(changed)} changed"
    for name in now:
        if name not in before:
            return f"input {name!r} is new"
    for name in before:
        if name not in now:
            return f"input {name!r} is gone"
    if old.get("vary") != vary and (vary is not None or recipe.vary is not None):
        return "vary changed"
    return "the saved cache key differs, though all parts that its entry names agree"


def _why_settings_changed(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Name the model, or the first setting, that is another."""
    for label in (*new, *old) if "model" in old else ():
        if label.startswith(("model", "setting")) and old.get(label) != new.get(label):
            return f"{label} changed"
    return "settings changed"


def _why_tools_changed(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Name the first tool that is another, and what of it."""
    tools, before = _by_tool(new), _by_tool(old)
    for name, parts in tools.items():
        if name not in before:
            return f"{name} is new"
        for what, piece in parts.items():
            if before[name].get(what) != piece:
                if what != "code":
                    return f"{name} changed: {what}"
                old_pieces, new_pieces = (
                    {label[5:]: one for label, one in side[name].items() if label.startswith("code ")}
                    for side in (before, tools)
                )
                # What the tool names is worth a word; its own code is what one thinks of anyway.
                beside = old_pieces != new_pieces and old_pieces.get(STEP_CODE) == new_pieces.get(STEP_CODE)
                return f"{name} changed: code" + (f" ({explain(old_pieces, new_pieces)})" if beside else "")
    gone = [name for name in before if name not in tools]
    return f"{gone[0]} is gone" if gone else "the order of the tools changed"


def _by_tool(records: Mapping[str, str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for label, piece in records.items():
        name, colon, what = label.partition(": ")
        if colon and label.startswith("tool "):
            found.setdefault(name, {})[what] = piece
    return found


def versions(*distributions: str) -> dict[str, str]:
    """
    Give the versions of installed distributions, to put them in a cache key.

    Libraries are not followed when a step's code is hashed; where a new version of one may change a result,
    say ``@step(..., vary=versions("pandas"))``.

    Args:
        *distributions: Names as pip knows them.

    Raises:
        importlib.metadata.PackageNotFoundError: If one is not installed.

    Example:
        >>> sorted(versions("attrs", "trio"))
        ['attrs', 'trio']
    """
    from importlib.metadata import version  # not above: it costs a tenth of importing trio

    return {name: version(name) for name in distributions}
