"""
Fingerprints: a function's code, and any value, as a hash that is equal in every process.

::

    __init__     Fingerprinter, what the rest of June uses
    _walkers     from a function to all that it names in the user's own code
    _imports     which module an import inside a function means
    _functions   a function's canonical tree, remembered by code object
    _classes     what a user's class is
    _fields      what dataclasses, attrs, pydantic and enums made of its statement
    _library     values of the types of libraries
    _callables   functions, classes and modules as values
    _values      values as bytes, injectively
    _pieces      the pieces of a fingerprint, and their sum
    _class_trees the canonical form of a class statement
    _trees       the canonical form of any other syntax tree
    _uses        what a tree says once it is in that form
    _literals    its constants and f-strings
    _sources     the syntax tree that a code object was compiled from
    _bytecode    code objects without their places
    _scopes      Python's scoping rules
    _origins     what is user code
    _objects     reading objects without asking them

Each module imports from those below it only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from types import FunctionType, MethodType
from typing import Any

import attrs
import msgspec

from june.fingerprints._origins import is_user_class, is_user_function
from june.fingerprints._pieces import STEP_CODE, Content, KeyFailure, Piece, explain_records, sum_of
from june.fingerprints._values import Encoder, is_plain
from june.fingerprints._walkers import CodeWalker

__all__ = ["STEP_CODE", "CodeFingerprint", "Fingerprinter", "KeyFailure", "ValueFingerprint", "explain"]

_encode_json = msgspec.json.Encoder().encode


@attrs.frozen
class CodeFingerprint:
    """
    What a function's code is, with all that it names in the user's own code.

    Attributes:
        digest: 32 hex digits: equal if and only if the code does the same, as far as June can see.

        records: Label and 16 hex digits for each piece that counted, to say what changed. Labels hold no
            folders, and are not in the digest.

        opaque: What could not be seen into and counts by its type: `CLIENT in flows.py: Client`.

        notes: What else a person should know: `bytecode of f() in flows.py counts: no source`.
    """

    digest: str
    records: Mapping[str, str]
    opaque: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ValueFingerprint(msgspec.Struct, frozen=True):
    """
    What a value is.

    Attributes:
        digest: 17 bytes: `j` and the hash of its JSON if it is exactly plain JSON, else `v` and the hash
            of an injective encoding.

        opaque: Places that could not be seen into: `value.client: Client`.
    """

    digest: bytes
    opaque: tuple[str, ...] = ()


def explain(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """
    Say what differs between the records of two code fingerprints.

    Pieces that came or went are named only if none changed: an edit of the step's code brings and drops
    pieces, and it is the edit that a person looks for.

    Example:
        >>> explain({"step code": "a1", "helper clean() in text.py": "b1"},
        ...         {"step code": "a1", "helper clean() in text.py": "b2"})
        'helper clean() in text.py'
    """
    return explain_records(old, new)


class Fingerprinter:
    """
    Computes fingerprints for one build of a graph, or one run.

    It reads each value once, so a new one is made for each build. Syntax trees are remembered for as long
    as their code objects live, by all of them together.

    Attributes:
        memo: What others have worked out from fingerprints, by whatever tells it from other things there.
    """

    def __init__(self) -> None:
        self.memo: dict[Any, Any] = {}
        self._walker = CodeWalker()
        self._codes: dict[tuple[object, ...], tuple[object, CodeFingerprint]] = {}

    def code(self, function: Callable[..., Any], *, defaults: bool = True) -> CodeFingerprint:
        """
        Fingerprint a function, or any other callable of the user's.

        Args:
            function: The function.

            defaults: Count the values of its own parameters' defaults. A step's used defaults are inputs,
                which are keyed by themselves.

        Raises:
            KeyFailure: If a part of it cannot be computed.
        """
        # Each access to a method makes another object; what counts is read once all the same.
        of = (function.__func__, function.__self__) if type(function) is MethodType else (function,)
        place = (*map(id, of), defaults)
        known = self._codes.get(place)
        if known is not None:
            return known[1]
        root = self._root(function, defaults)
        found = sum_of(root)
        fingerprint = CodeFingerprint(
            found.digest.hex(), found.records(self._step_piece(root)), found.opaque(), found.notes()
        )
        self._codes[place] = (function, fingerprint)
        return fingerprint

    def _root(self, function: Callable[..., Any], defaults: bool) -> Piece:
        if isinstance(function, FunctionType) and is_user_function(function):
            return self._walker.function_piece(function, defaults)
        return Piece("step object", function, partial(self._write_step_object, function))

    def _step_piece(self, root: Piece) -> Piece:
        """The function that decorators wrap is what a person takes for the step's code."""
        piece = root
        while True:
            held = piece.held
            inner: object = None
            if isinstance(held, FunctionType):
                inner = held.__dict__.get("__wrapped__")
            elif type(held) is MethodType:
                inner = held.__func__
            elif type(held) is partial:
                inner = held.func
            found = [child for child in piece.children if child.held is inner]
            if inner is None or not found:
                return piece
            piece = found[0]

    def classes(self, classes: Iterable[type]) -> bytes:
        """
        Hash the code of those classes that are the user's: methods, attributes, bases, and what they name.

        Args:
            classes: The classes; their order counts.

        Returns:
            16 bytes.

        Raises:
            KeyFailure: If a part of it cannot be computed.
        """
        found = [cls for cls in classes if is_user_class(cls)]

        def write(content: Content) -> None:
            for cls in found:
                content.refer(self._walker.class_piece(cls))

        return sum_of(Piece("classes", found, write)).digest

    def value(self, value: object) -> ValueFingerprint:
        """
        Fingerprint a value: a run input, a bound value, a used default, an item.

        Raises:
            KeyFailure: If a part of it cannot be computed.
        """
        try:
            if is_plain(value):
                return ValueFingerprint(b"j" + blake2b(_encode_json(value), digest_size=16).digest())
        except (UnicodeEncodeError, OverflowError, ValueError, RecursionError):
            pass  # lone surrogates, huge integers, a list in itself
        found = sum_of(Piece("value", value, partial(self._write_value, value, "value")))
        return ValueFingerprint(b"v" + found.digest, found.opaque())

    def _write_step_object(self, function: object, content: Content) -> None:
        encoder = Encoder(content, self._walker, ("step", ""))
        encoder.signatures = False
        encoder.encode(function)

    def _write_value(self, value: object, place: str, content: Content) -> None:
        Encoder(content, self._walker, (place, "")).encode(value)
