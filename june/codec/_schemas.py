"""
JSON schemas (draft 2020-12) of what a type's codec reads and writes, for a model that is asked for a value.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import inspect
import pathlib
import re
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from june.codec import _codecs
from june.codec._containers import (
    _FACTORIES,
    DictShape,
    KindredShape,
    ListShape,
    PairsShape,
    SeriesShape,
    TupleShape,
)
from june.codec._enums import EnumShape, LiteralShape, MemberShape
from june.codec._fields import is_model, own_hints
from june.codec._readings import Reader
from june.codec._records import FieldsShape, ModelShape, RegisteredShape, TypedDictShape
from june.codec._scalars import ScalarShape
from june.codec._shapes import AliasShape, AnyShape, FlatShape, FloatShape, NoneType, Shape, reachable
from june.codec._unions import _OBJECT_TAG, UnionShape, is_natural

Schema = dict[str, Any]
Inner = Callable[[Shape], Schema]


def schema_for(annotation: Any, localns: Mapping[str, Any] | None = None) -> Schema:
    """
    Give the JSON schema of what the codec of a type reads and writes.

    It is the same in every process. First paragraphs of docstrings describe classes; fields are described by
    a text in ``Annotated``, or by the ``description`` of their metadata or of pydantic's ``Field``. A class
    that is needed more than once stands in ``$defs``.

    Some things a schema does not say, so that not all that fits it can be decoded: that a number is written
    with a point where it is a float, and without one where it is an int; that two items of a set, or two
    keys, are equal although they are written differently; that a text of a ``format`` names a day or a zone
    that there is; the bounds of the ints that a duration, a fraction or a range is written as, and the least
    ``maxlen`` of a deque; the order of flags; what a class, or a function given to `register`, refuses. Of a
    pydantic model the schema has the fields with the limits that pydantic checks, and not what a codec writes
    beside them (``_set``, ``_extra`` and ``_private``).

    Args:
        annotation: A type with its strings resolved; MISSING stands for no annotation.

        localns: Names for the strings left in the fields of classes that were declared inside a function.

    Raises:
        UnsupportedType: As `codec_for`.
    """
    names = localns or {}
    _codecs.codec_for(annotation, names)  # it refuses what has no codec, and says why
    schema = _Writer(Reader(_codecs._taught, names).read(annotation), names).whole()
    return _with_text(schema, _described(annotation))


class _Writer:
    """Writes the schema of one type."""

    def __init__(self, root: Shape, localns: Mapping[str, Any]) -> None:
        self._root = root.resolve() if isinstance(root, AliasShape) else root
        self._localns = localns
        self._uses: collections.Counter[int] = collections.Counter()
        self._named: dict[int, str] = {}
        self._definitions: dict[str, Schema] = {}
        self._count(self._root)

    def _count(self, shape: Shape) -> None:
        """Give a name to what is needed more than once, as what holds itself is."""
        if shape.owner is not None or isinstance(shape, AliasShape):
            self._uses[id(shape)] += 1
            if self._uses[id(shape)] == 2:
                self._named[id(shape)] = self._free_name(shape.label)
            if self._uses[id(shape)] > 1:
                return
        for part in _parts(shape):
            self._count(part)

    def _free_name(self, label: str) -> str:
        """Give *label* in characters that need no escape in a reference, and a number if it is taken."""
        name = free = re.sub(r"[^A-Za-z0-9_]+", "_", label).strip("_") or "type"
        number = 1
        while free in self._named.values():
            number += 1
            free = f"{name}_{number}"
        return free

    def whole(self) -> Schema:
        """Give the schema. The root is written out, so that it is an object where it can be."""
        schema = self._written(self._root)
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def _inner(self, shape: Shape) -> Schema:
        name = self._named.get(id(shape))
        if name is None:
            return self._written(shape)
        if name not in self._definitions:
            self._definitions[name] = {}  # it may be asked for again while it is being written
            self._definitions[name] = self._written(shape)
        return {"$ref": f"#/$defs/{name}"}

    def _written(self, shape: Shape) -> Schema:
        if isinstance(shape, FieldsShape):
            return self._fields(shape)
        schema: Schema = _WRITTEN[type(shape)](shape, self._inner)
        text = None if shape.owner is None else _summary(shape.owner)
        return schema if text is None else {"description": text, **schema}

    def _fields(self, shape: FieldsShape) -> Schema:
        notes = dict(_field_notes(shape.cls, shape.names, self._localns))
        properties = {}
        for name, field in zip(shape.names, shape.children, strict=True):
            schema = self._inner(field)
            if isinstance(shape, ModelShape):
                schema = _limited(schema, shape.cls.model_fields[name].metadata)  # type: ignore[attr-defined] # a model
            properties[name] = _with_text(schema, notes.get(name))
        text = _summary(shape.cls)
        return {
            "type": "object",
            **({} if text is None else {"description": text}),
            "properties": properties,
            "required": list(shape.required if isinstance(shape, TypedDictShape) else shape.names),
            "additionalProperties": False,
        }


def _with_text(schema: Schema, text: str | None) -> Schema:
    """Describe *schema*; a reference, beside which many models take nothing, in a union of one."""
    if text is None:
        return schema
    return {**({"anyOf": [schema]} if "$ref" in schema else schema), "description": text}


def _parts(shape: Shape) -> tuple[Shape, ...]:
    if isinstance(shape, AliasShape):
        return (shape.resolve(),)
    return tuple(shape._distinct()) if isinstance(shape, UnionShape) else shape.children


# -- What is written, by the class of the shape.


def _alias(shape: AliasShape, inner: Inner) -> Schema:
    return inner(shape.resolve())


def _anything(shape: Shape, inner: Inner) -> Schema:
    return {}


def _flat(shape: FlatShape, inner: Inner) -> Schema:
    return {"type": _TYPES[shape.cls]}


def _float(shape: FloatShape, inner: Inner) -> Schema:
    return {"type": "number"}


_TYPES = {NoneType: "null", bool: "boolean", int: "integer", str: "string"}


def _literal(shape: LiteralShape, inner: Inner) -> Schema:
    # As typing takes Literals of another order for the same type, the order as written may be another's.
    values = [value for _, value in sorted(shape.values, key=lambda pair: (pair[0].__name__, pair[1]))]
    kinds = sorted({_TYPES[kind] for kind, _ in shape.values})
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _enum(shape: EnumShape, inner: Inner) -> Schema:
    one: Schema = {"type": "string", "enum": list(shape.members)}
    if not shape.flags:
        return one
    single = [member._name_ for member in shape.cls]
    several: list[Schema] = [{"type": "array", "maxItems": 0}]
    if len(single) > 1:
        several.append(
            {"type": "array", "items": {"type": "string", "enum": single}, "minItems": 2, "uniqueItems": True}
        )
    return {"anyOf": [one, *several]}


def _list(shape: ListShape, inner: Inner) -> Schema:
    return {"type": "array", "items": inner(shape.item)}


def _series(shape: SeriesShape, inner: Inner) -> Schema:
    schema = {"type": "array", "items": inner(shape.item)}
    if shape.cls is tuple or any(map(_is_itself_only, reachable(shape.item))):
        return schema
    return {**schema, "uniqueItems": True}


def _is_itself_only(shape: Shape) -> bool:
    """Whether two values that are written alike can both be in a set."""
    if shape.owner is None or issubclass(shape.owner, enum.Enum):
        return False
    return isinstance(shape, RegisteredShape) or shape.owner.__eq__ is object.__eq__


def _fixed(*items: Schema) -> Schema:
    """Give the schema of a list of exactly these items."""
    if items and all(item == items[0] for item in items):
        return {"type": "array", "items": items[0], "minItems": len(items), "maxItems": len(items)}
    several = {"prefixItems": list(items), "minItems": len(items)} if items else {}
    return {"type": "array", **several, "maxItems": len(items)}


def _tuple(shape: TupleShape, inner: Inner) -> Schema:
    return _fixed(*map(inner, shape.children))


def _dict(shape: DictShape, inner: Inner) -> Schema:
    keys = inner(shape.key)
    return {
        "type": "object",
        **({} if keys == {"type": "string"} else {"propertyNames": keys}),
        "additionalProperties": inner(shape.item),
    }


def _pairs(shape: PairsShape, inner: Inner) -> Schema:
    pair = _fixed(*map(inner, shape.children))
    return {"type": "array", "items": {"description": "A key and its value.", **pair}}


def _kindred(shape: KindredShape, inner: Inner) -> Schema:
    inside = inner(shape.inside)
    if shape.cls is collections.deque:
        most = {"type": "integer", "minimum": 0, "maximum": (1 << 62) - 1}
        return _fixed(
            {"description": "How many items it may have.", "anyOf": [most, {"type": "null"}]}, inside
        )
    if shape.cls is collections.defaultdict:
        return _fixed(
            {
                "description": "What makes a new value.",
                "type": ["null", "string"],
                "enum": [None, *_FACTORIES],
            },
            inside,
        )
    return inside


def _scalar(shape: ScalarShape, inner: Inner) -> Schema:
    if issubclass(shape.cls, pathlib.PurePath):
        return {"description": "A path.", "type": "string"}
    # What remains is a fraction, whose class is known only where its module is loaded.
    return copy.deepcopy(_SCALARS.get(shape.cls, _FRACTION))


def _ints(count: int, description: str) -> Schema:
    """
    Give the schema of a list of ints.

    It does not say the bounds of each, which would take a form (``prefixItems``) that few models are held to.
    """
    return _fixed(*[{"description": description, "type": "integer"}] * count)


_BASE64 = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"
_BYTES = {"type": "string", "contentEncoding": "base64", "pattern": f"^{_BASE64}$"}
_NUMERAL = r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
_FRACTION = _ints(2, "The numerator, then the denominator, which is more than 0, in lowest terms.")
_SCALARS: dict[type, Schema] = {
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: _ints(3, "Days, then seconds from 0 to 86399, then microseconds from 0 to 999999."),
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "pattern": f"^[-+]?({_NUMERAL}|Infinity|s?NaN[0-9]*)$"},
    bytes: _BYTES,
    bytearray: _BYTES,
    complex: _fixed({"type": "number"}, {"type": "number"}),
    range: _ints(3, "The start, then the stop, then the step, which is not 0."),
}


def _union(shape: UnionShape, inner: Inner) -> Schema:
    arms = []
    # None goes last, as people write it.
    for member in sorted(shape._distinct(), key=lambda one: one.label == "None"):
        schema = inner(member)
        if not is_natural(member) and member.label in shape.tagged:
            schema = _tagged(member.label, schema)
        elif shape.wraps and isinstance(member, AnyShape):
            arms.append({"type": [one for one in _KINDS if one != "object"]})
            schema = _tagged(_OBJECT_TAG, {"type": "object"})
        elif shape.wraps and "object" in member.kinds:
            schema = _tagged(_OBJECT_TAG, schema)
        arms.append(schema)
    return arms[0] if len(arms) == 1 else {"anyOf": arms}


_KINDS = ("null", "boolean", "number", "string", "array", "object")


def _tagged(tag: str, schema: Schema) -> Schema:
    return {"type": "object", "properties": {tag: schema}, "required": [tag], "additionalProperties": False}


_WRITTEN: dict[type[Shape], Callable[[Any, Inner], Schema]] = {
    AliasShape: _alias,
    AnyShape: _anything,
    DictShape: _dict,
    EnumShape: _enum,
    FlatShape: _flat,
    FloatShape: _float,
    KindredShape: _kindred,
    ListShape: _list,
    LiteralShape: _literal,
    MemberShape: _enum,
    PairsShape: _pairs,
    RegisteredShape: _anything,
    ScalarShape: _scalar,
    SeriesShape: _series,
    TupleShape: _tuple,
    UnionShape: _union,
}


# -- What people wrote beside the types.


def _summary(cls: type) -> str | None:
    """Give the first paragraph of the docstring of *cls* on one line, unless a decorator wrote it."""
    text = cls.__dict__.get("__doc__")
    if not isinstance(text, str) or not text.strip():
        return None
    text = inspect.cleandoc(text)
    generated = dataclasses.is_dataclass(cls) or issubclass(cls, tuple)
    if generated and re.fullmatch(rf"{re.escape(cls.__name__)}\(.*\)", text, re.DOTALL):
        return None
    return " ".join(re.split(r"\n\s*\n", text)[0].split())


def _field_notes(cls: Any, names: tuple[str, ...], localns: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the descriptions of those fields of *cls* that have one; for a field, the last given counts."""
    if is_model(cls):
        for name, field in cls.model_fields.items():
            text = field.description or _text_in(field.metadata)
            if text:
                yield name, text
        return
    told: dict[str, Any] = {}
    hints: dict[str, Any] = {}
    if attrs.has(cls):
        told = {field.name: field.metadata for field in attrs.fields(cls)}
        hints = {field.name: field.type for field in attrs.fields(cls)}
    elif dataclasses.is_dataclass(cls):
        told = {field.name: field.metadata for field in dataclasses.fields(cls)}
        hints = {field.name: field.type for field in dataclasses.fields(cls)}
    for base in reversed(cls.__mro__):
        hints.update(own_hints(cls, base, dict.fromkeys(names), localns))
    for name in names:
        note = told.get(name, {}).get("description")
        text = note if isinstance(note, str) and note else _described(hints.get(name))
        if text is not None:
            yield name, text


def _described(hint: Any) -> str | None:
    """Give the text that ``Annotated`` has for an annotation, also within ``NotRequired`` and the like."""
    while (origin := typing.get_origin(hint)) is not None:
        if hasattr(hint, "__metadata__"):
            text = _text_in(hint.__metadata__)
            if text is not None:
                return text
            hint = hint.__origin__
        elif getattr(origin, "_name", "") in ("Required", "NotRequired", "ReadOnly", "Final"):
            [hint] = typing.get_args(hint)
        else:
            return None
    return None


def _text_in(metadata: Any) -> str | None:
    """Find the description in what stands in ``Annotated``: a text, a ``Doc``, or pydantic's ``Field``."""
    for one in metadata:
        text = one
        if not isinstance(one, str):
            text = getattr(one, "documentation", None) or getattr(one, "description", None)
        if isinstance(text, str) and text.strip():
            return inspect.cleandoc(text)
    return None


def _limited(schema: Schema, metadata: Any) -> Schema:
    """Add to *schema* the limits that pydantic checks of a field, where JSON shows what they limit."""
    limits = {
        name: getattr(one, name)
        for one in metadata
        for name in _LIMITS
        if type(getattr(one, name, None)) in (int, float, str)
    }
    if not limits:
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [_limited(arm, metadata) for arm in schema["anyOf"]]}
    place = 0 if schema.get("type") in ("number", "integer") else 1 if schema == {"type": "string"} else 2
    if place == 2 and not isinstance(schema.get("items"), dict):
        return schema
    keywords = {_LIMITS[name][place]: limit for name, limit in limits.items()}
    return {**schema, **{keyword: limit for keyword, limit in keywords.items() if keyword}}


# The keyword for a number, a text and a list.
_LIMITS = {
    "gt": ("exclusiveMinimum", "", ""),
    "ge": ("minimum", "", ""),
    "lt": ("exclusiveMaximum", "", ""),
    "le": ("maximum", "", ""),
    "multiple_of": ("multipleOf", "", ""),
    "min_length": ("", "minLength", "minItems"),
    "max_length": ("", "maxLength", "maxItems"),
    "pattern": ("", "pattern", ""),
}
