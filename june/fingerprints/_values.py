"""
Values as bytes: equal bytes for equal values of equal types, in every process, and for nothing else.

Every item is tagged with its type and says its length, so no two values share their bytes. Nothing is asked
that an object may answer as it likes: what it holds is read from its type's slots and its own dictionary.
"""

from __future__ import annotations

import enum
import gc
import math
import os
import struct
import types
from collections.abc import Callable, Iterable
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from june.fingerprints._objects import hides_state, local_qualname, own_dict, state_of, type_attribute
from june.fingerprints._origins import (
    is_user_class,
    is_user_function,
    library_kind,
    library_name,
)
from june.fingerprints._pieces import Content, KeyFailure, Piece, sum_of

_encode_json = msgspec.json.Encoder().encode
_MAX_DEPTH = 150
# How far a library's objects are looked into before they are taken for something with a life of its own.
_MAX_OBJECTS = 300
_MAX_OBJECT_DEPTH = 40
_MISSING = object()
_FLOAT = struct.Struct(">d")


class _TooDeep(KeyFailure):
    """A value is nested too deeply to be walked."""


class Walker(Protocol):
    """Gives the pieces that values refer to: functions, classes and modules of the user."""

    def function_piece(self, function: types.FunctionType) -> Piece:
        """The piece of a user's function."""

    def refer_signature(self, function: types.FunctionType, content: Content) -> None:
        """Write the annotations of a user's function, which whoever is given it may read."""

    def refer_method_signature(self, cls: type, name: str, content: Content) -> None:
        """Write the annotations of a method of the user's, if there is one of that name."""

    def class_piece(self, cls: type) -> Piece:
        """The piece of a user's class."""

    def module_piece(self, module: types.ModuleType) -> Piece | None:
        """The piece of a whole module of the user; `None` for a library's."""


class Encoder:
    """
    Writes values into one piece.

    Args:
        content: Where to write.

        walker: Whom to ask for pieces.

        where: The place of the value, for people: `("CLIENT", " in flows.py")`, around what is inside.

        folders: A file's folder by its names, below which paths count as relative ones.

    Attributes:
        signatures: Annotations of functions count.
    """

    __slots__ = (
        "_budget",
        "_depth",
        "_folders",
        "_open",
        "_path",
        "_where",
        "content",
        "signatures",
        "walker",
    )

    def __init__(
        self, content: Content, walker: Walker, where: tuple[str, str], folders: tuple[str, ...] = ()
    ) -> None:
        self.content = content
        self.walker = walker
        self._where = where
        self._folders = folders
        self._path: list[str] = []
        self._open: dict[int, int] = {}
        self._depth = 0
        self._budget: int | None = None
        self.signatures = True

    def encode(self, value: object) -> None:
        """
        Write *value*.

        Raises:
            KeyFailure: If it is nested too deeply, or its `__june_key__` fails.
        """
        kind = type(value)
        writer = ATOMS.get(kind)
        if writer is not None:
            writer(self, value)
            return
        # A value inside itself: how far up it stands says which one it is.
        opened = self._open.get(id(value))
        if opened is not None:
            self.content.atom(b"<", b"%d" % (self._depth - opened))
            return
        if self._depth >= _MAX_DEPTH:
            raise _TooDeep(f"{self.place()} is nested deeper than {_MAX_DEPTH} levels")
        self._open[id(value)] = self._depth
        self._depth += 1
        try:
            _writer_of(kind)(self, value)
        finally:
            self._depth -= 1
            del self._open[id(value)]

    def place(self) -> str:
        """Where the value that is being written stands, for people."""
        return f"{self._where[0]}{''.join(self._path)}{self._where[1]}"

    def inside(self, step: str, value: object) -> None:
        """Write a value held by the one that is being written."""
        self._path.append(step)
        self.encode(value)
        self._path.pop()

    def items(self, tag: bytes, values: Iterable[object]) -> None:
        """Write values in order."""
        found = list(values)
        self.content.out += b"%b%d:" % (tag, len(found))
        for place, value in enumerate(found):
            self.inside(f"[{place}]", value)

    def unordered(self, tag: bytes, values: Iterable[object]) -> None:
        """Write values sorted by their own bytes, since a set has another order in each process."""
        outer, parts = self.content, []
        for value in values:
            self.content = Content()
            self.inside("[...]", value)
            parts.append(self.content)
        self.content = outer
        parts.sort(key=lambda part: bytes(part.out))
        if any(first.out == second.out for first, second in pairwise(parts)):
            # Functions or classes, each behind a mark: told apart by all that they reach.
            parts.sort(key=lambda part: (bytes(part.out), [sum_of(piece).digest for piece in part.children]))
        outer.out += b"%b%d:" % (tag, len(parts))
        for part in parts:
            outer.take(part)

    def mapping(self, tag: bytes, pairs: Iterable[tuple[object, object]]) -> None:
        """Write pairs in order."""
        found = list(pairs)
        self.content.out += b"%b%d:" % (tag, len(found))
        for key, value in found:
            self.encode(key)
            shown = f"[{key!r}]" if type(key) in (str, int) else "[...]"
            self.inside(shown, value)

    def fields(self, tag: bytes, pairs: Iterable[tuple[str, object]]) -> None:
        """Write what an object holds, by name."""
        found = list(pairs)
        self.content.out += b"%b%d:" % (tag, len(found))
        for name, value in found:
            self.content.text(b".", name)
            self.inside(f".{name}", value)

    def type_of(self, kind: type) -> None:
        """Write a class: the user's by its code, a library's by its name."""
        if is_user_class(kind):
            self.content.refer(self.walker.class_piece(kind))
        else:
            self.content.text(b"C", library_name(kind))

    def opaque(self, value: object, pieces: Iterable[Piece] = ()) -> None:
        """
        Write an object that cannot be seen into: its type, and the user's functions that it holds.

        `numpy.vectorize(f)` or a registry object does what `f` does, so an edit of `f` must count.

        Args:
            value: The object.

            pieces: The user's functions and classes that were found in it.
        """
        kind = type(value)
        self.content.text(b"O", library_name(library_kind(kind)))
        self.content.opaque.append(f"{self.place()}: {kind.__name__}")
        found = dict.fromkeys(pieces)
        own = sorted(own_dict(value).items(), key=lambda item: str(item[0]))
        # The latter finds what C hides, such as the function in `functools.cmp_to_key(f)`.
        for held in [*(held for _, held in own), *gc.get_referents(value)]:
            function = held.__func__ if type(held) is types.MethodType else held
            if type(function) is types.FunctionType and is_user_function(function):
                found[self.walker.function_piece(function)] = None
        for piece in found:
            self.content.refer(piece)
        self.content.atom(b";")

    def attempt(self, write: Callable[[], None]) -> Content:
        """Write on the side what may turn out to hold something that cannot be seen into."""
        outer, self.content = self.content, Content()
        budget, length = self._budget, len(self._path)
        if budget is None:
            self._budget = _MAX_OBJECTS
        try:
            write()
        except _TooDeep:
            self.content.opaque.append(self.place())
        finally:
            tried, self.content = self.content, outer
            self._budget = budget if budget is None else self._budget
            del self._path[length:]
        return tried

    # Atoms

    def write_none(self, value: object) -> None:
        self.content.out += b"N"

    def write_bool(self, value: bool) -> None:
        self.content.out += b"T" if value else b"F"

    def write_int(self, value: int) -> None:
        self.content.atom(b"i", b"%x" % value)

    def write_float(self, value: float) -> None:
        self.content.atom(b"f", b"nan" if value != value else _FLOAT.pack(value))

    def write_complex(self, value: complex) -> None:
        self.content.atom(b"c")
        self.write_float(value.real)
        self.write_float(value.imag)

    def write_str(self, value: str) -> None:
        for folder in self._folders:
            if value.startswith(folder) and _is_below(value, folder):
                self.content.text(b"h", value[len(folder) :].replace(os.sep, "/"))
                return
        self.content.text(b"s", value)

    def write_bytes(self, value: bytes) -> None:
        self.content.atom(b"b", value)

    def write_bytearray(self, value: bytearray) -> None:
        self.content.atom(b"ba", bytes(value))

    def write_ellipsis(self, value: object) -> None:
        self.content.out += b"E"

    def write_not_implemented(self, value: object) -> None:
        self.content.atom(b"NI")

    # Containers

    def _write_json(self, value: object) -> bool:
        """Write a large constant the fast way, if it is plain JSON and holds no path to make relative."""
        if self._depth > 1:  # asked once, at the top: asking at every level would cost depth times size
            return False
        try:
            if not is_plain(value):
                return False
            encoded = _encode_json(value)
        except (UnicodeEncodeError, OverflowError, ValueError, RecursionError):
            return False
        if any(_encode_json(folder)[1:-1] in encoded for folder in self._folders):
            return False
        self.content.atom(b"j", encoded)
        return True

    def write_list(self, value: list[object]) -> None:
        if type(value) is list and self._write_json(value):
            return
        self.items(b"l", list.__iter__(value))

    def write_tuple(self, value: tuple[object, ...]) -> None:
        self.items(b"t", tuple.__iter__(value))

    def write_dict(self, value: dict[object, object]) -> None:
        if type(value) is dict and self._write_json(value):
            return
        self.mapping(b"d", dict.items(value))

    def write_set(self, value: set[object]) -> None:
        self.unordered(b"S", set.__iter__(value))

    def write_frozenset(self, value: frozenset[object]) -> None:
        self.unordered(b"Z", frozenset.__iter__(value))

    def write_range(self, value: range) -> None:
        self.items(b"r", (value.start, value.stop, value.step))

    def write_slice(self, value: slice) -> None:
        self.items(b"sl", (value.start, value.stop, value.step))

    def write_buffer(self, value: Any) -> None:
        """Write a memoryview, an array, or a numpy array or scalar: form, type of item, bytes."""
        try:
            view = memoryview(value)
            form, shape, data = view.format, view.shape, view.tobytes()
        except (TypeError, ValueError, BufferError, NotImplementedError):
            self.opaque(value)
            return
        if "O" in form:  # addresses of Python objects
            self.opaque(value)
            return
        self.content.text(b"m", library_name(type(value)))
        self.content.text(b"m", f"{form} {shape}")
        self.content.atom(b"m", data)

    # Objects

    def may_look(self) -> bool:
        """Say whether one more object of a library's may be looked into."""
        if self._budget is not None:
            self._budget -= 1
            return self._budget > 0 and self._depth < _MAX_OBJECT_DEPTH
        return True

    def write_keyed(self, value: Any) -> None:
        """Write an object that says by `__june_key__` what it counts by."""
        kind = type(value)
        method = type_attribute(kind, "__june_key__")
        try:
            key = method.__get__(value, kind)()
        except Exception as error:
            raise KeyFailure(
                f"{self.place()}: {kind.__qualname__}.__june_key__ raised {type(error).__name__}: {error}"
            ) from error
        self.content.text(b"J", local_qualname(kind))
        before, self.signatures = self.signatures, False
        self.inside(".__june_key__()", key)
        self.signatures = before

    def write_enum(self, value: enum.Enum) -> None:
        self.content.atom(b"e")
        self.type_of(type(value))
        held = own_dict(value)
        self.encode(held.get("_name_"))
        self.inside(".value", held.get("_value_"))

    def write_instance(self, value: object) -> None:
        """Write an object by class and state: the builtin that it extends, its slots, its `__dict__`."""
        kind = type(value)
        self.content.atom(b"I")
        self.type_of(kind)
        if self.signatures:
            self.walker.refer_method_signature(kind, "__call__", self.content)
        known = self.base(value)
        if hides_state(kind, known) and not _is_record(kind):
            self.content.opaque.append(f"{self.place()}: {kind.__name__}")
        if library_name(known) not in _SEALED:
            self.fields(b"{", sorted(state_of(value, known), key=itemgetter(0)))

    def base(self, value: object) -> type:
        """Write what an object is by the builtin or known library type that it extends; give that type."""
        for cls in type(value).__mro__[:-1]:
            writer = _base_writer(cls)
            if writer is not None:
                writer(self, value)
                return cls
        return object

    def write_library_instance(self, value: object) -> None:
        """Write an object of a library's class by its state, if all of that can be seen."""
        kind = type(value)
        name = library_name(kind)
        known = next((cls for cls in kind.__mro__[:-1] if _base_writer(cls) is not None), object)
        if _is_record(kind) or name in _CONTAINERS:
            self.write_instance(value)
        elif hides_state(kind, known) or name.startswith("unittest.mock:"):
            self.opaque(value)
        elif known is not object:
            self.write_instance(value)
        elif self.may_look():
            tried = self.attempt(lambda: self.write_instance(value))
            if tried.opaque:
                self.opaque(value, tried.children)
            else:
                self.content.take(tried)
        else:
            self.opaque(value)


if TYPE_CHECKING:
    Writer: TypeAlias = Callable[[Encoder, Any], None]


def _is_below(text: str, folder: str) -> bool:
    return len(text) == len(folder) or text[len(folder)] == os.sep


def _is_record(kind: type) -> bool:
    """Say whether a library's class is plain data: attrs, dataclass, pydantic, msgspec, NamedTuple."""
    marks = ("__attrs_attrs__", "__dataclass_fields__", "__pydantic_fields__", "__struct_fields__")
    return any(type_attribute(kind, mark) is not None for mark in marks)


def _base_writer(cls: type) -> Writer | None:
    """How a value of *cls* is written as a part of one of a class that extends it."""
    writer = BASES.get(cls)
    if writer is None and not is_user_class(cls):
        writer = LIBRARY_TYPES.get(library_name(cls))
    return writer


def _writer_of(kind: type) -> Writer:
    """Choose how values of *kind* are written."""
    writer = TYPES.get(kind)
    if writer is not None:
        return writer
    if issubclass(kind, type):
        return TYPES[type]
    if type_attribute(kind, "__june_key__") is not None:
        return Encoder.write_keyed
    if issubclass(kind, types.ModuleType):
        return TYPES[types.ModuleType]
    if issubclass(kind, enum.Enum):
        return Encoder.write_enum
    if is_user_class(kind):
        return Encoder.write_instance
    return LIBRARY_TYPES.get(library_name(kind), Encoder.write_library_instance)


def is_plain(value: object) -> bool:
    """Say whether *value* is exactly what JSON holds, so that its JSON tells it apart from all others."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type] # it is a float
    if kind is list:
        return all(map(is_plain, value))  # type: ignore[call-overload] # it is a list
    if kind is dict:
        pairs: dict[object, object] = value  # type: ignore[assignment] # it is a dict
        return all(type(key) is str for key in pairs) and all(map(is_plain, pairs.values()))
    return False


# Filled by `_library`: types that are not worth an import, by the name that `library_name` gives them.
LIBRARY_TYPES: dict[str, Writer] = {}
# Loggers lead to all other loggers, and what they do is no result.
_SEALED = frozenset({"logging:Logger"})
# Libraries' containers, which may hold what cannot be seen into beside what can.
_CONTAINERS = frozenset(f"collections:{name}" for name in ("ChainMap", "UserDict", "UserList", "UserString"))
ATOMS: dict[type, Writer] = {
    type(None): Encoder.write_none,
    bool: Encoder.write_bool,
    int: Encoder.write_int,
    float: Encoder.write_float,
    complex: Encoder.write_complex,
    str: Encoder.write_str,
    bytes: Encoder.write_bytes,
    bytearray: Encoder.write_bytearray,
    type(...): Encoder.write_ellipsis,
    type(NotImplemented): Encoder.write_not_implemented,
}
TYPES: dict[type, Writer] = {
    list: Encoder.write_list,
    tuple: Encoder.write_tuple,
    dict: Encoder.write_dict,
    set: Encoder.write_set,
    frozenset: Encoder.write_frozenset,
    range: Encoder.write_range,
    slice: Encoder.write_slice,
    memoryview: Encoder.write_buffer,
}
# What an instance of a subclass is besides its attributes.
BASES: dict[type, Writer] = {
    bool: Encoder.write_bool,
    int: Encoder.write_int,
    float: Encoder.write_float,
    complex: Encoder.write_complex,
    str: lambda encoder, value: encoder.write_str(str.__str__(value)),
    bytes: lambda encoder, value: encoder.write_bytes(bytes.__getitem__(value, slice(None))),
    bytearray: Encoder.write_bytearray,
    list: Encoder.write_list,
    tuple: Encoder.write_tuple,
    dict: Encoder.write_dict,
    set: Encoder.write_set,
    frozenset: Encoder.write_frozenset,
    OSError: lambda encoder, value: encoder.items(b"ox", (value.args, value.filename, value.filename2)),
    BaseException: lambda encoder, value: encoder.items(b"x", BaseException.args.__get__(value)),  # type: ignore[attr-defined] # a getset descriptor
}
