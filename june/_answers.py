"""
From JSON that a model wrote to a value, with errors in words that a model can act on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from june._instances import Refused, build, said_by
from june._parsing import HALF_CHARACTER, BadAnswer, place
from june.codec import Codec, Undecodable

_LONGEST = 500
_encode = msgspec.json.Encoder().encode


def value_of(codec: Codec, schema: Mapping[str, Any], data: Any, path: str = "", root: Any = None) -> Any:
    """
    Give the value that JSON data stands for.

    An int where only a float fits is one, as JSON knows one kind of number; nothing else is coerced. Objects
    are built by calling their classes.

    Args:
        codec: That of the value's type.
        schema: Its schema.
        data: What the model wrote, as parsed.
        path: Where it stands in what the model wrote.
        root: The schema that has the ``$defs``, if not *schema*.

    Raises:
        BadAnswer: If *data* does not fit the type.
    """
    definitions = (schema if root is None else root).get("$defs", {})
    try:
        raw = _encode(_with_floats(data, schema, definitions))
    except UnicodeEncodeError:
        raise BadAnswer(place(path, HALF_CHARACTER)) from None
    try:
        return build(codec.decode(raw), path)
    except Undecodable as error:
        raised = _RAISED.fullmatch(error.problem)
        if raised is None or error.__cause__ is None:
            problem = _worded(error.problem)
        else:
            problem = f"{raised[1]} refuses this: {said_by(error.__cause__)}"
        raise BadAnswer(place(path + error.path.removeprefix("result"), problem)) from error.__cause__
    except Refused as error:
        raise BadAnswer(place(error.path, error.problem)) from error.__cause__


def shortened(text: str) -> str:
    """Cut a message for a model where it gets too long to help."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


# -- Ints where only a float fits.


def _with_floats(data: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    schema = _arm_for(data, schema, definitions)
    if type(data) is int and schema.get("type") == "number":
        try:
            return float(data) if float(data) == data else data
        except OverflowError:
            return data
    if type(data) is list:
        first = schema.get("prefixItems", ())
        rest = schema.get("items", {})
        return [
            _with_floats(item, first[index] if index < len(first) else rest, definitions)
            for index, item in enumerate(data)
        ]
    if type(data) is dict:
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties") or {}
        return {name: _with_floats(item, known.get(name, rest), definitions) for name, item in data.items()}
    return data


def _arm_for(data: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the one schema that *data* can be meant for, or an empty one if there is more than one."""
    arms = [arm for arm in _arms(schema, definitions) if _may_fit(data, arm)]
    if type(data) is int:
        arms = [arm for arm in arms if arm.get("type") != "number"] or arms
    return arms[0] if len(arms) == 1 else {}


def _arms(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" not in schema:
        yield schema
    for arm in schema.get("anyOf", ()):
        yield from _arms(arm, definitions)


def _may_fit(data: Any, schema: Mapping[str, Any]) -> bool:
    types = schema.get("type", _NAMES[type(data)])
    if not any(name in _NAMES[type(data)] for name in ([types] if isinstance(types, str) else types)):
        return False
    if type(data) is int and "enum" in schema:
        return any(data == one for one in schema["enum"])
    if type(data) is not dict or "properties" not in schema:
        return True
    known: set[str] = set(schema["properties"])
    return set(schema["required"]) <= data.keys() and known.issuperset(data)


_NAMES: dict[type, tuple[str, ...]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
}


# -- The codec's words, for a model.

_RAISED = re.compile(r"(.*)\(\.\.\.\) raised .* for the saved fields", re.DOTALL)
_TEXT_FOUND = re.compile(r'"(.*)"((?: \(did you mean .*\))?)', re.DOTALL)
_LIKE = {
    "datetime": '"2026-11-29T11:12:00+00:00"',
    "date": '"2026-11-29"',
    "time": '"11:12:00"',
    "timedelta": "[0, 90, 0], which is days, seconds and microseconds",
    "UUID": '"8d7a3c1e-5b0f-4f0e-9a53-0c2f6b1d7e42"',
    "Decimal": '"12.50"',
    "bytes": '"aGVsbG8=" (base64)',
    "bytearray": '"aGVsbG8=" (base64)',
    "complex": "[1.0, -2.5]",
    "Fraction": "[2, 3]",
}


def _worded(problem: str) -> str:
    """
    Put what the codec says about data in words for those who wrote it.

    Example:
        >>> _worded('expected int, found "5"')
        "expected an int, found the string '5'"
        >>> _worded('expected date, found "tomorrow"')
        'expected a date like "2026-11-29", found the string \\'tomorrow\\''
    """
    wanted, comma, found = problem.partition(", found ")
    label = wanted.removeprefix("expected ")
    if not comma or label == wanted:
        return problem
    if label == "None":
        label = "null"
    elif label.isidentifier():
        like = f" like {_LIKE[label]}" if label in _LIKE else ""
        label = f"{'an' if label[0].lower() in 'aeio' else 'a'} {label}{like}"
    text = _TEXT_FOUND.fullmatch(found)
    return f"expected {label}, found " + (f"the string '{text[1]}'{text[2]}" if text else found)
