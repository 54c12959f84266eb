"""Model clients: which schemas a provider can hold a model to."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from june.sdk._strict import ANTHROPIC, OPENAI, fits


def within(**properties: Any) -> dict[str, Any]:
    """Make a schema of an object that has all of *properties*, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


STRING = {"type": "string"}
NODE = {**within(next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})}
POINT = within(x={"type": "number"}, y={"type": "number"})

# Name, schema, whether OpenAI takes it, whether Anthropic does.
CASES: list[tuple[str, Any, bool, bool]] = [
    ("empty object", within(), True, True),
    ("no properties said", {"type": "object", "additionalProperties": False}, True, True),
    ("all types", within(**{t: {"type": t} for t in ("string", "integer", "number", "boolean", "null")}), True, True),
    ("nested object", within(at=POINT), True, True),
    ("array", within(tags={"type": "array", "items": STRING}), True, True),
    ("notes", {**within(a={**STRING, "title": "A", "description": "An a."}), "title": "T"}, True, True),
    ("enum", within(kind={"type": "string", "enum": ["a", "b"]}), True, True),
    ("const", within(kind={"type": "string", "const": "a"}), True, True),
    ("nullable", within(a={"type": ["string", "null"]}), True, True),
    ("any of", within(a={"anyOf": [STRING, {"type": "null"}], "description": "x"}), True, True),
    ("reference", {**within(at={"$ref": "#/$defs/P"}), "$defs": {"P": POINT}}, True, True),
    ("definitions", {**within(at={"$ref": "#/definitions/P"}), "definitions": {"P": POINT}}, True, True),
    ("unused definition", {**within(a=STRING), "$defs": {"P": POINT}}, True, True),
    ("format", within(at={"type": "string", "format": "date-time"}), True, True),
    ("at least one", within(a={"type": "array", "items": STRING, "minItems": 1}), True, True),
    # One takes it, and the other does not.
    ("recursive", {**within(head={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}}, True, False),
    ("the whole within itself", within(children={"type": "array", "items": {"$ref": "#"}}), True, False),
    ("pattern", within(a={"type": "string", "pattern": "^[a-z]+$"}), True, False),
    ("bounds", within(a={"type": "integer", "minimum": 0, "exclusiveMaximum": 9}), True, False),
    ("multiple", within(a={"type": "number", "multipleOf": 0.5}), True, False),
    ("at least two", within(a={"type": "array", "items": STRING, "minItems": 2}), True, False),
    ("at most two", within(a={"type": "array", "items": STRING, "maxItems": 2}), True, False),
    ("17 unions", within(**{f"a{n}": {"type": ["string", "null"]} for n in range(17)}), True, False),
    ("optional", {**within(a=STRING, b=STRING), "required": ["a"]}, False, True),
    ("required not said", {**within(a=STRING), "required": []}, False, True),
    ("24 optional", {**within(**{f"a{n}": STRING for n in range(24)}), "required": []}, False, True),
    ("default", within(a={**STRING, "default": "x"}), False, True),
    ("address", within(a={"type": "string", "format": "uri"}), False, True),
    ("eleven deep", None, False, True),
    # Neither takes it.
    ("25 optional", {**within(**{f"a{n}": STRING for n in range(25)}), "required": []}, False, False),
    ("not closed", {"type": "object", "properties": {"a": STRING}, "required": ["a"]}, False, False),
    ("open", {**within(a=STRING), "additionalProperties": True}, False, False),
    ("any keys", {"type": "object", "additionalProperties": {"type": "integer"}}, False, False),
    ("inner not closed", within(a={"type": "object", "properties": {}}), False, False),
    ("definition not closed", {**within(a=STRING), "$defs": {"P": {"type": "object"}}}, False, False),
    ("required but unknown", {**within(a=STRING), "required": ["a", "b"]}, False, False),
    ("anything", within(a={}), False, False),
    ("true", within(a=True), False, False),
    ("no type", within(a={"enum": ["x"]}), False, False),
    ("unknown type", within(a={"type": "text"}), False, False),
    ("no types", within(a={"type": []}), False, False),
    ("type of no type", within(a={"type": [["string"]]}), False, False),
    ("any of at the root", {"anyOf": [within()]}, False, False),
    ("reference at the root", {"$ref": "#/$defs/P", "$defs": {"P": POINT}}, False, False),
    ("array at the root", {"type": "array", "items": STRING}, False, False),
    ("nullable root", {**within(), "type": ["object", "null"]}, False, False),
    ("one of", within(a={"oneOf": [STRING, {"type": "null"}]}), False, False),
    ("all of", within(a={"allOf": [STRING]}), False, False),
    ("not", within(a={"type": "string", "not": {"const": "x"}}), False, False),
    ("if", {**within(a=STRING), "if": {}, "then": {}}, False, False),
    ("dependent", {**within(a=STRING), "dependentRequired": {"a": []}}, False, False),
    ("lengths", within(a={"type": "string", "minLength": 1, "maxLength": 9}), False, False),
    ("unique", within(a={"type": "array", "items": STRING, "uniqueItems": True}), False, False),
    ("tuple", within(a={"type": "array", "prefixItems": [STRING]}), False, False),
    ("no items", within(a={"type": "array"}), False, False),
    ("patterned properties", {**within(), "patternProperties": {"a": STRING}}, False, False),
    ("number of properties", {**within(), "minProperties": 1}, False, False),
    ("example", within(a={**STRING, "examples": ["x"]}), False, False),
    ("dialect", {**within(), "$schema": "https://json-schema.org/draft/2020-12/schema"}, False, False),
    ("unknown format", within(a={"type": "string", "format": "regex"}), False, False),
    ("format of no text", within(a={"type": "string", "format": ["date"]}), False, False),
    ("lookahead", within(a={"type": "string", "pattern": "^(?=a)b"}), False, False),
    ("reference with more", {**within(a={"$ref": "#/$defs/P", "title": "x"}), "$defs": {"P": POINT}}, False, False),
    ("reference elsewhere", within(a={"$ref": "https://example.org/s.json"}), False, False),
    ("reference into properties", within(a=STRING, b={"$ref": "#/properties/a"}), False, False),
    ("reference to nothing", within(a={"$ref": "#/$defs/P"}), False, False),
    ("reference that is no text", within(a={"$ref": 7}), False, False),
    ("definitions within", within(a={**POINT, "$defs": {}}), False, False),
    ("empty enum", within(a={"type": "string", "enum": []}), False, False),
    ("enum of lists", within(a={"type": "array", "items": STRING, "enum": [["a"]]}), False, False),
    ("properties that are none", {**within(), "properties": ["a"]}, False, False),
    ("definitions that are none", {**within(), "$defs": []}, False, False),
    ("1001 values", within(a={"type": "integer", "enum": list(range(1001))}), False, False),
    ("251 long values", within(a={"type": "string", "enum": [f"{n:060}" for n in range(251)]}), False, False),
    ("long names", within(**{f"{n:0600}": STRING for n in range(201)}), False, False),
    ("5001 properties", within(**{f"a{n}": STRING for n in range(5001)}), False, False),
    ("very deep", None, False, False),
    ("nothing", {}, False, False),
]  # fmt: skip


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = STRING
    for _ in range(levels - 1):
        schema = within(a=schema)
    return schema


DEPTHS = {"eleven deep": 11, "very deep": 900}


@pytest.mark.parametrize(("name", "schema", "openai", "anthropic"), CASES, ids=[case[0] for case in CASES])
def test_schemas_are_judged_by_each_providers_rules(name, schema, openai, anthropic):
    """A schema that is wrongly said to fit is refused by the provider; of one that fits, the answers are sure to."""
    schema = nested(DEPTHS[name]) if name in DEPTHS else schema
    before = copy.deepcopy(schema) if name not in DEPTHS else None
    assert (fits(schema, OPENAI), fits(schema, ANTHROPIC)) == (openai, anthropic)
    assert before is None or schema == before


def test_ten_levels_fit():
    """The deepest that OpenAI takes."""
    assert fits(nested(10), OPENAI)


SCHEMAS: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from(["string", "object", "#"]),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "required",
                    "additionalProperties",
                    "items",
                    "anyOf",
                    "$ref",
                    "$defs",
                    "enum",
                    "const",
                    "format",
                    "pattern",
                    "minItems",
                    "title",
                    "default",
                ]
            ),
            values,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "$defs", "required"]), SCHEMAS))
@settings(max_examples=300)
def test_nothing_that_is_given_as_a_schema_breaks_the_check(schema):
    """Whatever it is, it fits or it does not, and it is left as it was."""
    before = json.dumps(schema)
    assert fits(schema, OPENAI) in (True, False)
    assert fits({**schema, "type": "object"}, ANTHROPIC) in (True, False)
    assert json.dumps(schema) == before
