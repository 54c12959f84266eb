"""
The pieces that a fingerprint is made of, and their sum.

A piece is one function, class, constant, closure cell or default. Its own bytes hold what it is; where it
uses another piece they hold a mark, and the piece stands in `children`. The sum numbers pieces in the order
in which they are reached, so that recursion needs no special care, two uses of one piece differ from uses of
two equal ones, and no address or name gets in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import NamedTuple

STEP_CODE = "step code"


class KeyFailure(Exception):
    """
    A part of a cache key cannot be computed, so there is no key.

    The text says which part failed and why.
    """


class Content:
    """
    What a piece holds, while it is written.

    Attributes:
        out: Its own bytes: self-delimiting items.

        children: The pieces that it uses, in the order of their marks in *out*.

        docs: Hashes of docstrings, which count only if some piece of the sum reads docstrings.

        opaque: What could not be seen into, as text for people.

        notes: What else a person should know.

        reads_docs: Code of the piece names `__doc__`.

        names: Names of functions, which count only if some piece of the sum reads such names.

        reads_names: Code of the piece names `__name__` as an attribute.
    """

    __slots__ = ("children", "docs", "names", "notes", "opaque", "out", "reads_docs", "reads_names")

    def __init__(self) -> None:
        self.out = bytearray()
        self.children: list[Piece] = []
        self.docs = b""
        self.opaque: list[str] = []
        self.notes: list[str] = []
        self.reads_docs = False
        self.names = b""
        self.reads_names = False

    def atom(self, tag: bytes, payload: bytes = b"") -> None:
        """Write an item that holds no others."""
        self.out += b"%b%d:%b" % (tag, len(payload), payload)

    def text(self, tag: bytes, payload: str) -> None:
        """Write an item that holds a text."""
        self.atom(tag, payload.encode("utf-8", "surrogatepass"))

    def refer(self, piece: Piece) -> None:
        """Write the mark of another piece."""
        self.out += b"^"
        self.children.append(piece)

    def take(self, other: Content) -> None:
        """Append all that *other* holds."""
        self.out += other.out
        self.children += other.children
        self.opaque += other.opaque
        self.notes += other.notes
        self.docs += other.docs
        self.reads_docs = self.reads_docs or other.reads_docs
        self.names += other.names
        self.reads_names = self.reads_names or other.reads_names


class Piece:
    """
    A piece, written when it is first looked into.

    Attributes:
        label: What people know it by.

        held: What it is about, kept alive so that its `id` stays its own.
    """

    __slots__ = (
        "_records",
        "_write",
        "children",
        "docs",
        "held",
        "label",
        "names",
        "notes",
        "opaque",
        "own",
        "reads_docs",
        "reads_names",
    )

    def __init__(self, label: str, held: object, write: Callable[[Content], None]) -> None:
        self.label = label
        self.held = held
        self._write: Callable[[Content], None] | None = write
        self.own = b""
        self.docs = b""
        self.children: list[Piece] = []
        self.opaque: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.reads_docs = False
        self.names = b""
        self.reads_names = False
        self._records: dict[tuple[bool, bool], str] = {}

    def record(self, with_docs: bool, with_names: bool) -> str:
        """The hash of the piece on its own, in 16 hex digits."""
        known = self._records.get((with_docs, with_names))
        if known is None:
            whole = self.own + (self.docs if with_docs else b"") + (self.names if with_names else b"")
            known = self._records[with_docs, with_names] = blake2b(whole, digest_size=8).hexdigest()
        return known

    def ensure(self) -> None:
        """
        Write the piece unless that was done.

        Raises:
            KeyFailure: If it cannot be written, whatever the reason.
        """
        write, self._write = self._write, None  # gone at once: a set may be sorted by what leads back here
        if write is None:
            return
        content = Content()
        try:
            self._write_into(content, write)
        except BaseException:
            self._write = write
            raise
        self.own = blake2b(content.out, digest_size=16).digest()
        self.docs = content.docs
        self.children = content.children
        self.opaque = tuple(content.opaque)
        self.notes = tuple(content.notes)
        self.reads_docs = content.reads_docs
        self.names = content.names
        self.reads_names = content.reads_names

    def _write_into(self, content: Content, write: Callable[[Content], None]) -> None:
        try:
            write(content)
        except KeyFailure:
            raise
        except RecursionError as error:
            raise KeyFailure(f"{self.label} is nested too deeply") from error
        except Exception as error:
            raise KeyFailure(f"{self.label}: {type(error).__name__}: {error}") from error


class Sum(NamedTuple):
    """
    A piece together with all that it reaches.

    Attributes:
        digest: Hash of the whole.

        pieces: The pieces in the order in which they are reached, the first one itself.

        with_docs: Docstrings count, since some piece reads them.

        with_names: Names of functions count, since some piece reads them.
    """

    digest: bytes
    pieces: list[Piece]
    with_docs: bool
    with_names: bool

    def records(self, step: Piece) -> dict[str, str]:
        """Label and hash of each piece on its own; *step* is labelled as the step's code."""
        records: dict[str, str] = {}
        for piece in self.pieces:
            label = first = STEP_CODE if piece is step else piece.label
            count = 1
            while label in records:
                count += 1
                label = f"{first} ({count})"
            records[label] = piece.record(self.with_docs, self.with_names)
        return records

    def opaque(self) -> tuple[str, ...]:
        """What could not be seen into, each once."""
        return tuple(dict.fromkeys(text for piece in self.pieces for text in piece.opaque))

    def notes(self) -> tuple[str, ...]:
        """What a person should know about the pieces, each once."""
        return tuple(dict.fromkeys(text for piece in self.pieces for text in piece.notes))


def sum_of(root: Piece) -> Sum:
    """
    Reach every piece from *root*, and hash them with how they are joined.

    Raises:
        KeyFailure: If a piece cannot be written.
    """
    pieces = [root]
    places = {id(root): 0}
    joints: list[str] = []
    with_docs = with_names = False
    for piece in pieces:  # grows as it goes: no recursion, however long a chain of helpers is
        piece.ensure()
        with_docs = with_docs or piece.reads_docs
        with_names = with_names or piece.reads_names
        for child in piece.children:
            place = places.setdefault(id(child), len(pieces))
            if place == len(pieces):
                pieces.append(child)
            joints.append(str(place))
        joints.append(";")
    hasher = blake2b(b"".join(piece.own for piece in pieces), digest_size=16)
    hasher.update(" ".join(joints).encode())
    if with_docs:
        hasher.update(b"docs".join(piece.docs for piece in pieces))
    if with_names:
        hasher.update(b"names".join(piece.names for piece in pieces))
    return Sum(hasher.digest(), pieces, with_docs, with_names)


def explain_records(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Say which pieces differ between two records; see `june.fingerprints.explain`."""
    changed = [label for label in new if label in old and old[label] != new[label]]
    added = [f"{label} is new" for label in new if label not in old]
    gone = [f"{label} is gone" for label in old if label not in new]
    # An edit of the step brings and drops pieces; they follow from it and would only hide it.
    found = changed or [*added, *gone]
    if not found:
        return "how its pieces use each other"
    if len(found) == 1:
        return found[0]
    shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
    return f"{len(found)} pieces: {shown}"
