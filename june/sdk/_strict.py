"""
The parts of JSON schema that providers hold their models to.

A model can be kept from writing what does not fit a schema only where the schema stays within a part of the
language, a different one at each provider. A schema is never changed to fit: what that would forbid may be
what the user asks for. One that does not fit is asked for without the guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_NOTES = frozenset({"title", "description"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_NUMBERS = frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_DEFINITIONS = ("$defs", "definitions")
_LOCAL = re.compile(r"#(?:/(?:\$defs|definitions)/[^/~%]+)?")


@attrs.frozen(kw_only=True)
class Subset:
    """
    What of JSON schema a provider takes.

    Attributes:
        notes: Keywords that any schema may have.
        keywords: Further keywords, by the type that they go with.
        formats: Formats of strings.
        all_required: Whether an object must have all of its properties.
        recursive: Whether a schema may refer to itself.
        depth: How deeply schemas may be nested.
        properties: How many properties there may be.
        optional: How many of them need not be there.
        unions: How many unions there may be.
        enum_values: How many values of enums.
        characters: How many characters all names and values of enums may have.
        many: A larger enum is one of more values than this.
        many_characters: How many characters the values of a larger one may have.
    """

    notes: frozenset[str] = _NOTES
    keywords: Mapping[str, frozenset[str]]
    formats: frozenset[str] = _FORMATS
    all_required: bool = False
    recursive: bool = False
    depth: int = 32
    properties: int = 5000
    optional: int = 5000
    unions: int = 5000
    enum_values: int = 1000
    characters: int = 120_000
    many: int = 250
    many_characters: int = 15_000


OPENAI = Subset(
    keywords={
        "object": frozenset({"properties", "required", "additionalProperties"}),
        "array": frozenset({"items", "minItems", "maxItems"}),
        "string": frozenset({"pattern", "format"}),
        "integer": _NUMBERS,
        "number": _NUMBERS,
    },
    all_required=True,
    recursive=True,
    depth=10,
)
"""https://developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas"."""

ANTHROPIC = Subset(
    notes=_NOTES | {"default"},
    keywords={
        "object": frozenset({"properties", "required", "additionalProperties"}),
        "array": frozenset({"items", "minItems"}),
        "string": frozenset({"format"}),
    },
    formats=_FORMATS | {"uri"},
    optional=24,
    unions=16,
)
"""
https://platform.claude.com/docs/en/build-with-claude/structured-outputs, "JSON schema limitations".

It takes some patterns and some ``allOf`` too, but does not say exactly which.
"""


def fits(schema: Mapping[str, Any], subset: Subset) -> bool:
    """
    Say whether a schema of an object is within a provider's part of JSON schema.

    Example:
        >>> fits({"type": "object", "properties": {}, "additionalProperties": False}, OPENAI)
        True
        >>> fits({"type": "object", "additionalProperties": {"type": "integer"}}, OPENAI)
        False
    """
    checked = _Check(subset)
    try:
        checked.root(schema)
    except _Outside:
        return False
    return True


class _Outside(Exception):
    """The schema is not within the subset."""


class _Check:
    def __init__(self, subset: Subset) -> None:
        self._subset = subset
        self._properties = self._optional = self._unions = self._enum_values = self._characters = 0
        self._references: dict[str, set[str]] = {}
        self._piece = "#"

    def root(self, schema: Mapping[str, Any]) -> None:
        definitions: dict[str, Any] = {}
        for where in _DEFINITIONS:
            for name, definition in _mapping(schema.get(where, {})).items():
                definitions[f"#/{where}/{name}"] = definition
                self._count_characters(name)
        top = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
        if top.get("type") != "object":
            raise _Outside
        pieces = {"#": top, **definitions}
        for self._piece, piece in pieces.items():
            self._references[self._piece] = set()
            self._schema(piece, 1)
        if any(not references <= pieces.keys() for references in self._references.values()):
            raise _Outside
        if not self._subset.recursive:
            self._check_not_recursive()
        self._check_size()

    def _check_size(self) -> None:
        subset = self._subset
        if (
            self._properties > subset.properties
            or self._optional > subset.optional
            or self._unions > subset.unions
            or self._enum_values > subset.enum_values
            or self._characters > subset.characters
        ):
            raise _Outside

    def _check_not_recursive(self) -> None:
        left = {piece: set(references) for piece, references in self._references.items()}
        while left:
            ends = {piece for piece, references in left.items() if not references & left.keys()}
            if not ends:
                raise _Outside
            for piece in ends:
                del left[piece]

    def _schema(self, schema: Any, depth: int) -> None:
        schema = _mapping(schema)
        if depth > self._subset.depth:
            raise _Outside
        if "$ref" in schema:
            reference = schema["$ref"]
            if len(schema) > 1 or not _LOCAL.fullmatch(_text(reference)):
                raise _Outside
            self._references[self._piece].add(reference)
        elif "anyOf" in schema:
            self._keywords(schema, {"anyOf"})
            self._unions += 1
            for choice in _list(schema["anyOf"]):
                self._schema(choice, depth + 1)
        else:
            self._typed(schema, depth)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> None:
        named = schema.get("type")
        types = [named] if isinstance(named, str) else _list(named)
        if not types or not all(_text(one) in _TYPES for one in types):
            raise _Outside
        self._unions += len(types) > 1
        known = {"type", "enum", "const"}.union(*(self._subset.keywords.get(one, ()) for one in types))
        self._keywords(schema, known)
        self._values(schema)
        if "object" in types:
            self._object(schema, depth)
        if "array" in types:
            self._schema(schema.get("items"), depth + 1)
            if "maxItems" not in self._subset.keywords["array"] and schema.get("minItems", 0) not in (0, 1):
                raise _Outside
        if _text(schema.get("format", "date")) not in self._subset.formats:
            raise _Outside
        # Of patterns, what looks ahead or behind is not taken.
        if "(?" in _text(schema.get("pattern", "")):
            raise _Outside

    def _object(self, schema: Mapping[str, Any], depth: int) -> None:
        properties = _mapping(schema.get("properties", {}))
        required = set(map(_text, _list(schema.get("required", []))))
        if schema.get("additionalProperties") is not False or not required <= properties.keys():
            raise _Outside
        missing = len(properties) - len(required)
        if missing and self._subset.all_required:
            raise _Outside
        self._optional += missing
        self._properties += len(properties)
        for name, value in properties.items():
            self._count_characters(name)
            self._schema(value, depth + 1)

    def _values(self, schema: Mapping[str, Any]) -> None:
        values = [*_list(schema.get("enum", [])), *_given(schema, "const")]
        if ("enum" in schema and not schema["enum"]) or any(
            isinstance(value, (list, dict)) for value in values
        ):
            raise _Outside
        self._enum_values += len(values)
        self._count_characters(*values)
        subset = self._subset
        if len(values) > subset.many and sum(len(str(value)) for value in values) > subset.many_characters:
            raise _Outside

    def _keywords(self, schema: Mapping[str, Any], known: set[str]) -> None:
        if not schema.keys() <= known | self._subset.notes:
            raise _Outside

    def _count_characters(self, *values: object) -> None:
        self._characters += sum(len(str(value)) for value in values)


def _given(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    if name in schema:
        yield schema[name]


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Outside
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise _Outside
    return list(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Outside
    return value
