"""
Outputs: what a model is asked for, and what becomes of whatever it answers.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType

import attrs
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from june.codec import MISSING, UnsupportedType, codec_for, refusing, register
from june.outputs import BadOutput, Output
from tests.strategies import Colour, Reading, Tree, identical, json_values, typed_values

Title = NewType("Title", str)


@attrs.frozen
class Item:
    """A thing to do."""

    name: str
    count: int
    price: float | None = None


@attrs.frozen
class Plan:
    """What to do."""

    title: str
    items: list[Item]
    due: datetime.date | None = None


@attrs.frozen
class Dog:
    age: int


@attrs.frozen
class Bird:
    wings: int


PLAN = '{"title":"t","items":[{"name":"a","count":1,"price":2.5}],"due":"2026-01-31"}'
VALUE = Plan("t", [Item("a", 1, 2.5)], datetime.date(2026, 1, 31))


def output(annotation: Any) -> Output:
    return Output.of(codec_for(annotation))


def refusal(annotation: Any, text: str) -> str:
    """Give what a model is told of a bad answer."""
    with pytest.raises(BadOutput) as caught:
        output(annotation).decode(text)
    return str(caught.value)


# -- What is asked for.


@pytest.mark.parametrize("annotation", [str, Title, Annotated[str, "What to say."]])
def test_a_text_is_the_answer_as_it_is(annotation: Any) -> None:
    """
    For a str no schema is asked for, and whatever the model says is the value.
    """
    found = output(annotation)
    assert (found.text, found.schema, found.wrapped) == (True, None, False)
    for text in ("", '{"result": "x"}', "```json\n1\n```", " as it is\n"):
        assert found.decode(text) == text


def test_an_object_is_asked_for_as_it_is() -> None:
    """
    A type whose JSON is always an object is asked for by its own schema.
    """
    found = output(Plan)
    assert (found.text, found.wrapped) == (False, False)
    assert found.schema is not None
    assert (found.schema["type"], found.schema["description"]) == ("object", "What to do.")
    assert output(dict[str, int]).schema == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("annotation", "inner"),
    [
        (int, {"type": "integer"}),
        (MISSING, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Tree | None, {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}),
    ],
)
def test_what_is_no_object_is_wrapped_in_one(annotation: Any, inner: Any) -> None:
    """
    The root of a schema is an object, as models ask of it, so other types stand under ``"result"``.
    """
    found = output(annotation)
    assert (found.text, found.wrapped) == (False, True)
    schema = dict(found.schema or {})
    assert ("$defs" in schema) == (annotation == Tree | None)
    schema.pop("$defs", None)
    assert schema == {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        "additionalProperties": False,
    }


def test_an_output_is_made_once() -> None:
    """
    A codec has one output, however often it is asked for.
    """
    codec = codec_for(Plan)
    assert Output.of(codec) is Output.of(codec)
    assert repr(output(int)).endswith("text=False, wrapped=True)")


def test_types_that_only_a_function_knows() -> None:
    """
    Local classes that name each other are asked for like any.
    """

    @attrs.frozen
    class Step:
        n: int

    @attrs.frozen
    class Recipe:
        steps: list[Step]

    found = Output.of(codec_for(Recipe, {"Step": Step}))
    assert found.decode('{"steps": [{"n": 1}]}') == Recipe([Step(1)])


def test_a_type_that_no_schema_says() -> None:
    """
    A type that June cannot encode cannot be asked for.
    """
    with pytest.raises(UnsupportedType) as unsupported:
        codec_for(type)
    with pytest.raises(UnsupportedType) as caught:
        Output.of(refusing(type, unsupported.value))
    assert str(caught.value) == "result: june knows no encoding for type"


# -- What stands around the JSON.


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        f"  {PLAN}\n",
        f"\ufeff{PLAN}",
        json.dumps(json.loads(PLAN), indent=2),
        f"```json\n{PLAN}\n```",
        f"```\n{PLAN}\n```",
        f"``` JSON \r\n{PLAN}\r\n```".replace("\r", ""),
        f"Here is the plan:\n\n```json\n{PLAN}\n```\n\nTell me if {{anything}} is wrong [1].",
        f"I was given {{'a': 1}} and [the docs], so:\n```json\n{PLAN}\n```",
        f"```json\n{PLAN}",
        f"Sure! {PLAN} Shall I go on?",
        f"As [1] and [2, 3] say: {PLAN}",
        f'<think>Maybe {{"title": "x"}}?\nNo.</think>\n{PLAN}',
        f"<thinking>Hm.</thinking>{PLAN}",
        f'Let me see: {{"title": 1}}, or so.\n</think>\n\n{PLAN}',
        f"```\nsome.code()\n```\n{PLAN}",
        f"```python\n{{'a': 1}}\n```\nSo it is {PLAN}.",
        f"{PLAN}\n// done",
        json.dumps(PLAN),
        json.dumps(f" {PLAN}"),
    ],
)
def test_what_stands_around_the_json_is_passed_over(text: str) -> None:
    """
    A fence, prose, a passage of thoughts, and quotes around all of it do not count.
    """
    assert output(Plan).decode(text) == VALUE


def test_fences_in_a_value_are_part_of_it() -> None:
    """
    Backquotes, braces and tags inside of a string belong to the value.
    """
    name = "```json\n{}\n``` { </think> {}"
    item = {"name": name, "count": 1, "price": None}
    assert output(Item).decode(json.dumps(item)) == Item(name, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"result": [1, 2]}', [1, 2]),
        ("[1, 2]", [1, 2]),
        ("```json\n[1, 2]\n```", [1, 2]),
        ("The numbers:\n[1, 2]\nGood?", [1, 2]),
        ('As [1] says: {"result": [3]}', [3]),
        (json.dumps('{"result": [1]}'), [1]),
        ("[]", []),
    ],
)
def test_a_list_may_stand_alone(text: str, value: Any) -> None:
    """
    A value that should be wrapped is taken bare as well, if it is of the type.
    """
    assert output(list[int]).decode(text) == value


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "5", 5),
        (int, "```\n5\n```", 5),
        (bool, "true", True),
        (int | None, "null", None),
        (Literal["yes", "no"], '"yes"', "yes"),
        (Colour, '{"result": "RED"}', Colour.RED),
        (str | None, '"a"', "a"),
        # The string is a value, so it is not looked into.
        (str | None, '"{\\"result\\": \\"a\\"}"', '{"result": "a"}'),
        (dict[str, int] | None, '{"a": 1}', {"a": 1}),
        # Both readings are possible; the one that was asked for counts.
        (dict[str, Any] | None, '{"result": {"result": 1}}', {"result": 1}),
        (dict[str, int] | None, '{"result": 1}', {"result": 1}),
        (Dog | Bird, '{"result": {"Dog": {"age": 3}}}', Dog(3)),
        (Dog | Bird, '{"Bird": {"wings": 2}}', Bird(2)),
        (list[Item], '[{"name": "a", "count": 1, "price": null}]', [Item("a", 1)]),
    ],
)
def test_other_values_may_stand_alone_too(annotation: Any, text: str, value: Any) -> None:
    """
    A scalar, an arm of a union or an object in a list is taken bare, and a wrapped one before that.
    """
    assert identical(output(annotation).decode(text), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is nothing; give JSON"),
        ("```json\n\n```", "found no JSON in '```json\\n\\n```'"),
        ("I cannot.", "found no JSON in 'I cannot.'"),
        ("<think>Hm", "there are only thoughts, and no answer after them; give JSON"),
        (PLAN + PLAN, "found 2 JSON values; give only the one that was asked for"),
        (
            f"First: {PLAN}\nThen: {PLAN}\n{{}}",
            "found 3 JSON values; give only the one that was asked for",
        ),
        (
            f"```json\n{PLAN}\n```\nor\n```json\n{PLAN}\n```",
            "found 2 JSON values; give only the one that was asked for",
        ),
        (
            f"Both: [{PLAN}, {PLAN}]",
            "expected a Plan, found a list of 2",
        ),
        (f"[{PLAN}]", "expected a Plan, found a list of 1"),
        ("null", "expected a Plan, found null"),
        ('"{"', "the JSON is cut off; give the whole of it"),
        ('"yes" or "no"', "expected one JSON value and nothing else, found 'or \"no\"' after it"),
    ],
)
def test_no_json_or_too_much_of_it(text: str, message: str) -> None:
    """
    An answer without JSON, or with more than one value, is sent back.
    """
    assert refusal(Plan, text) == message


# -- Broken JSON.


@pytest.mark.parametrize("end", range(1, len(PLAN)))
def test_json_that_is_cut_off_is_never_guessed_at(end: int) -> None:
    """
    Wherever an answer is cut off, the model is told so; nothing is made of the part that is there.
    """
    for text in (PLAN[:end], f"```json\n{PLAN[:end]}", f"So: {PLAN[:end]}"):
        told = refusal(Plan, text)
        assert told.startswith("the JSON is cut off")
        assert told.endswith("; give the whole of it")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"title": "t", "items": [{"name": "a',
            "the JSON is cut off at items[0].name; give the whole of it",
        ),
        ('{"title": "a\\', "the JSON is cut off at title; give the whole of it"),
        ('{"title": "a\\u12', "the JSON is cut off at title; give the whole of it"),
        ('{"title": tru', "the JSON is cut off at title; give the whole of it"),
        ('{"title": -', "the JSON is cut off at title; give the whole of it"),
        ('{"title": 1.', "the JSON is cut off at title; give the whole of it"),
        ('{"title": 1.5e', "the JSON is cut off at title; give the whole of it"),
        ('{"the title": [', "the JSON is cut off at ['the title']; give the whole of it"),
    ],
)
def test_where_json_is_cut_off(text: str, message: str) -> None:
    """
    The model is told where its answer ended.
    """
    assert refusal(Plan, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"title": "t",}', ": there is a comma before the closing }; leave it out"),
        ('{"items": [{}, ]}', " at items: there is a comma before the closing ]; leave it out"),
        ('{"a": 1} "b": 2}', ": expected the end, found '\"b\": 2}'"),
        ('{"a": 1}, "b": 2}', ": expected the end, found ', \"b\": 2}'"),
        ('{"a": {"b": 1}}}', ": expected the end, found '}'"),
        ('{"a": 1,, "b": 2}', ": expected a key in double quotes, found ', \"b\": 2}'"),
        ('{"a": [1,, 2]}', " at a[1]: expected a value, found ', 2]}'"),
        ("{'a': 1}", ": expected a key in double quotes, found \"'a': 1}\""),
        ("{a: 1}", ": expected a key in double quotes, found 'a: 1}'"),
        ('{"a" 1}', ": expected a colon after the key 'a', found '1}'"),
        ('{"a": 1 "b": 2}', ": expected a comma or }, found '\"b\": 2}'"),
        ('{"a": [1 2]}', " at a: expected a comma or ], found '2]}'"),
        ('{"a": \'x\'}', " at a: strings stand in double quotes"),
        ('{"a": 1, "a": 2}', ": the key 'a' stands twice in one object"),
        ('{"a": NaN}', " at a: JSON has no NaN; give a number, or null where that is allowed"),
        ('{"a": -Infinity}', " at a: JSON has no Infinity; give a number, or null where that is allowed"),
        ('{"a": True}', " at a: True is written true"),
        ('{"a": None}', " at a: None is written null"),
        ('{"a": // one\n 1}', " at a: JSON has no comments; leave them out"),
        ('{"a": # one\n 1}', " at a: JSON has no comments; leave them out"),
        ('{"a": 012}', " at a: expected a value, found '012}'"),
        ('{"a": .5}', " at a: expected a value, found '.5}'"),
        ('{"a": ...}', " at a: expected a value, found '...}'"),
        ('{"a": }', " at a: expected a value, found '}'"),
        ('{"a": "x\ny"}', " at a: a string has a raw control character; write it as \\n"),
        ('{"a": "x\x01y"}', " at a: a string has a raw control character; write it as \\u0001"),
        ('{"a": "\\d"}', " at a: a string has '\\\\d', which is no escape; write a backslash twice"),
        ('{"a": "\\ud800"}', f" at a: {'a string has half of a character that takes two escapes'} (a lone surrogate)"),
        ('{"a": 1e999}', " at a: the number 1e999 is too large"),
        ('{"a": ' + "9" * 5000 + "}", " at a: a number has too many digits"),
        ('{"a":' * 300, " at a.a.a.a: it is nested more than 100 levels deep"),
    ],
)  # fmt: skip
def test_broken_json_is_not_repaired(text: str, message: str) -> None:
    """
    The model is told what is wrong with its JSON and where, and no value is made of it.
    """
    assert refusal(dict[str, Any], text) == f"this is not valid JSON{message}"


def test_a_part_of_broken_json_is_no_answer() -> None:
    """
    A whole object inside of a broken one is not taken for the answer.
    """
    assert refusal(Plan, f'Here: {{"plan": {PLAN},}}') == (
        "this is not valid JSON: there is a comma before the closing }; leave it out"
    )
    assert refusal(Plan, f"Here: [{PLAN},]") == (
        "this is not valid JSON: there is a comma before the closing ]; leave it out"
    )


# -- Values of another type.


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (Plan, PLAN.replace(":1,", ':"5",'), "items[0].count: expected an int, found the string '5'"),
        (Plan, PLAN.replace(":1,", ":1.0,"), "items[0].count: expected an int, found 1.0"),
        (Plan, PLAN.replace(":1,", ":true,"), "items[0].count: expected an int, found true"),
        (Plan, PLAN.replace(":1,", ":null,"), "items[0].count: expected an int, found null"),
        (Plan, PLAN.replace(":2.5", ':"2.5"'), "items[0].price: expected None | float, found the string '2.5'"),
        (Plan, PLAN.replace('"t"', "[1]"), "title: expected a str, found a list of 1"),
        (Plan, PLAN.replace('"name"', '"nam"'), "items[0]: expected the fields of Item, found no 'name' and the unknown 'nam'"),
        (Plan, f'{{"plan": {PLAN}}}', "expected the fields of Plan, found no 'title', 'items' and 'due' and the unknown 'plan'"),
        (datetime.date, '{"result": "soon"}', "result: expected a date like \"2026-11-29\", found the string 'soon'"),
        (datetime.timedelta, "[60]", "expected a timedelta like [0, 90, 0], which is days, seconds and microseconds, found a list of 1"),
        (None, "1", "expected null, found 1"),
        (Colour, '"REDD"', "expected a member of Colour, found the string 'REDD' (did you mean RED?)"),
        (Literal["a"], '{"result": "b"}', "result: expected Literal['a'], found the string 'b'"),
        (list[int], '{"result": [1, "2"]}', "result[1]: expected an int, found the string '2'"),
        (list[int], '[1, "2"]', "[1]: expected an int, found the string '2'"),
        (list[int], "5", "expected list[int], found 5"),
        (list[int], '{"numbers": [1]}', "expected an object with the one key 'result', found the keys ['numbers']"),
        (list[int], '"x"', "expected list[int], found the string 'x'"),
        (int, '"5"', "expected an int, found the string '5'"),
        (int, '"{\\"result\\": \\"5\\"}"', "result: expected an int, found the string '5'"),
        (int, '"{\\"result\\""', "the JSON is cut off; give the whole of it"),
        (Dog | Bird, '{"result": {"Cat": {"age": 1}}}', "result: expected a member of Bird | Dog, found the string 'Cat'"),
        (Dog | Bird, '{"result": {"Dog": {"wings": 1}}}', "result: expected the fields of Dog, found no 'age' and the unknown 'wings'"),
        (
            Dog | Bird,
            '{"result": {"kind": "Dog", "age": 1}}',
            "result: expected an object with one key that names a member of Bird | Dog, found an object with the keys ['kind', 'age']",
        ),
        (Dog | Bird, '{"age": 1}', "expected an object with the one key 'result', found the keys ['age']"),
        (dict[str, int], '{"the one": "x"}', "['the one']: expected an int, found the string 'x'"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named_with_its_place(annotation: Any, text: str, message: str) -> None:
    """
    Nothing is coerced; the model is told where the value stands, what was expected and what it gave.
    """
    assert refusal(annotation, text) == message


def test_a_message_is_short() -> None:
    """
    However much is wrong, the model is told no more than 500 characters.
    """
    wide = attrs.make_class("Wide", ["a" * 300 + str(n) for n in range(9)])
    told = refusal(wide, "{}")
    assert len(told) == 500
    assert told.startswith("expected the fields of Wide, found no 'aaa")
    assert told.endswith("...")


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (float, '{"result": 5}', 5.0),
        (float, "-5", -5.0),
        (int | float, "5", 5),
        (Literal[5] | float, "5", 5),
        (Literal[5] | float, "6", 6.0),
        (float | None, '{"result": 2}', 2.0),
        (list[float], "[1, 2.5]", [1.0, 2.5]),
        (tuple[float, int], "[1, 2]", (1.0, 2)),
        (tuple[float, float], "[1, 2]", (1.0, 2.0)),
        (dict[str, float], '{"a": 1}', {"a": 1.0}),
        (dict[str, Any], '{"a": 1}', {"a": 1}),
        (complex, "[1, 2]", 1 + 2j),
        (list[Item | Dog], '[{"Item": {"name": "a", "count": 1, "price": 2}}]', [Item("a", 1, 2.0)]),
        (Tree, '{"name": "a", "branches": [{"name": "b", "branches": [], "_weight": 1}], "_weight": null}', Tree("a", [Tree("b", [], 1.0)])),
        (collections.defaultdict[str, float], '{"result": ["int", {"a": 1}]}', collections.defaultdict(int, a=1.0)),
    ],
)  # fmt: skip
def test_an_int_stands_for_a_float(annotation: Any, text: str, value: Any) -> None:
    """
    JSON knows one kind of number, so an int where only a float fits is one.
    """
    assert identical(output(annotation).decode(text), value)


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (float, str(2**53 + 1), "expected a float, found 9007199254740993"),
        (float, "9" * 309, f"expected a float, found {'9' * 18}...{'9' * 19}"),
        (list[int] | list[float], "[1, 2.5]", "[0]: expected a float, found 1"),
    ],
)
def test_an_int_that_is_no_float(annotation: Any, text: str, message: str) -> None:
    """
    An int stays one where no float is equal to it, or where it might be meant.
    """
    assert refusal(annotation, text) == message


# -- Classes have their say.


@attrs.define
class Checked:
    """A class with a converter, a validator, a private field and one that it computes."""

    name: str = attrs.field(converter=str.strip)
    _size: int = attrs.field(validator=attrs.validators.gt(0))
    label: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Compute the label."""
        self.label = f"{self.name}-{self._size}"


@attrs.define
class ByHand:
    """A class whose constructor takes no fields."""

    n: int
    inner: Checked

    def __init__(self, text: str) -> None:
        """Read a text."""
        self.__attrs_init__(int(text), Checked("a", 1))  # type: ignore[attr-defined]


class Traced(NamedTuple):
    """A named tuple."""

    first: Checked
    rest: tuple[Checked, ...]


@dataclasses.dataclass(frozen=True)
class Even:
    """A class that makes its values even."""

    n: int

    def __post_init__(self) -> None:
        """Change the value."""
        object.__setattr__(self, "n", self.n // 2 * 2)


class Size(Even, enum.Enum):
    """An enum whose members have fields."""

    SMALL = 1


@attrs.frozen
class Strange:
    """A class that raises no ValueError."""

    n: int = attrs.field(validator=lambda self, field, value: {}[value])  # type: ignore[type-var]


class Net:
    """A class that June does not know."""

    def __init__(self, layers: int) -> None:
        self.layers = layers


ONE = '{"name": " a ", "_size": 1, "label": "x"}'
BAD = '{"name": "a", "_size": -1, "label": "x"}'


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Checked, ONE, Checked("a", 1)),
        (list[Checked], f"[{ONE}]", [Checked("a", 1)]),
        (Traced, f'{{"first": {ONE}, "rest": [{ONE}]}}', Traced(Checked("a", 1), (Checked("a", 1),))),
        (dict[str, Checked], f'{{"x": {ONE}}}', {"x": Checked("a", 1)}),
        (collections.deque[Checked], f"[null, [{ONE}]]", collections.deque([Checked("a", 1)])),
        (collections.Counter[Even], '[[{"n": 1}, 5]]', collections.Counter({Even(1): 5})),
        (set[Even], '[{"n": 1}, {"n": 5}]', {Even(1), Even(5)}),
        (Size, '"SMALL"', Size.SMALL),
        (Reading, '{"at": "2026-01-01T00:00:00Z", "values": [1, 2], "total": 9}', Reading(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), (1.0, 2.0))),
    ],
)  # fmt: skip
def test_objects_are_built_by_their_classes(annotation: Any, text: str, value: Any) -> None:
    """
    Converters, validators and ``__post_init__`` have their say, and what a class computes is not the model's.
    """
    assert output(annotation).decode(text) == value


def test_a_constructor_that_takes_other_arguments_is_not_called() -> None:
    """
    Where a constructor does not take the fields, they are put in as they are, built ones too.
    """
    found = output(ByHand).decode(f'{{"n": 7, "inner": {ONE}}}')
    assert (found.n, found.inner) == (7, Checked("a", 1))


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (Checked, BAD, "Checked refuses this: '_size' must be > 0: -1"),
        (list[Checked], f'{{"result": [{BAD}]}}', "result[0]: Checked refuses this: '_size' must be > 0: -1"),
        (Traced, f'{{"first": {ONE}, "rest": [{BAD}]}}', "rest[0]: Checked refuses this: '_size' must be > 0: -1"),
        (dict[int, Checked], f"[[1, {BAD}]]", "[0][1]: Checked refuses this: '_size' must be > 0: -1"),
        (dict[str, Checked], f'{{"the x": {BAD}}}', "['the x']: Checked refuses this: '_size' must be > 0: -1"),
        (set[Even], '{"result": [{"n": 2}, {"n": 3}]}', "result: two items of the set are the same"),
        (dict[Even, int], '{"result": [[{"n": 2}, 1], [{"n": 3}, 1]]}', "result: two keys are the same"),
        (Strange, '{"n": 1}', "Strange refuses this: KeyError: 1"),
    ],
)  # fmt: skip
def test_a_class_that_refuses_a_value_tells_the_model(annotation: Any, text: str, message: str) -> None:
    """
    What a validator raises goes to the model, with the place of the object.
    """
    assert refusal(annotation, text) == message


def test_a_type_that_june_was_taught() -> None:
    """
    What the function given to register() raises goes to the model as well.
    """
    register(Net, lambda net: {"layers": net.layers}, lambda data: Net(data["layers"]))
    assert output(Net).decode('{"result": {"layers": 2}}').layers == 2
    assert output(Net).decode('{"layers": 2}').layers == 2
    assert refusal(Net, '{"result": {}}') == "result: the registered decode of Net raised KeyError('layers')"


def test_pydantic_checks_its_models() -> None:
    """
    The limits and validators of a pydantic model count for what a model answers.
    """
    pydantic = pytest.importorskip("pydantic")

    class Review(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        stars: int = pydantic.Field(ge=1, le=5)
        text: str = pydantic.Field("", alias="comment")
        place: str = pydantic.Field("", validation_alias=pydantic.AliasChoices("where", "at"))

        @pydantic.field_validator("text")
        @classmethod
        def _strip(cls, text: str) -> str:
            return text.strip()

        @pydantic.model_validator(mode="after")
        def _look(self) -> Any:
            if self.text == "bad":
                raise ValueError("no such text")
            return self

    found = output(list[Review])
    [review] = found.decode('[{"stars": 5, "text": " fine ", "place": "here"}]')
    assert review == Review(stars=5, comment="fine", where="here")
    assert review.model_fields_set == {"stars", "text", "place"}
    assert refusal(Review, '{"stars": 9, "text": "x", "place": ""}') == (
        "Review refuses this: stars: Input should be less than or equal to 5"
    )
    assert refusal(list[Review], '{"result": [{"stars": 1, "text": "bad", "place": ""}]}') == (
        "result[0]: Review refuses this: Value error, no such text"
    )


def test_pydantic_models_of_other_kinds() -> None:
    """
    Names, extra values, aliases that are paths, and pydantic's dataclasses are kept as they should be.
    """
    pydantic = pytest.importorskip("pydantic")

    class Loose(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        model_config: ClassVar[Any] = pydantic.ConfigDict(extra="allow", populate_by_name=True)
        n: int = pydantic.Field(alias="number")

    class Pathed(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        n: int = pydantic.Field(gt=0, validation_alias=pydantic.AliasPath("numbers", 0))

    @pydantic.dataclasses.dataclass
    class Bounded:
        n: int = pydantic.Field(gt=0)
        double: int = dataclasses.field(init=False, default=0)

    loose = output(Loose).decode('{"n": 1, "_extra": {"more": 2}}')
    assert (loose.n, loose.more) == (1, 2)
    assert output(Pathed).decode('{"n": -1}').n == -1
    assert output(Bounded).decode('{"n": 1, "double": 7}') == Bounded(1)
    assert refusal(Bounded, '{"n": 0, "double": 0}') == (
        "Bounded refuses this: n: Input should be greater than 0"
    )


def test_a_text_that_no_utf8_holds() -> None:
    """
    Half of a character that reached the answer itself is refused like one that is escaped.
    """
    assert refusal(dict[str, str], '{"a": "\ud800"}') == (
        "a string has half of a character that takes two escapes (a lone surrogate)"
    )


# -- Whatever is said.

quietly = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
around: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: f"Here you are:\n```\n{text}\n```\nThat is all.",
    lambda text: json.dumps(json.loads(text), indent=1),
]


@given(typed_values(), st.sampled_from(around))
@quietly
def test_what_fits_the_schema_is_the_value(typed: tuple[Any, Any], wrap: Callable[[str], str]) -> None:
    """
    A value in the form that was asked for comes out as it is, whatever stands around it.
    """
    annotation, value = typed
    try:
        codec = codec_for(annotation)
    except UnsupportedType:
        reject()
    found = Output.of(codec)
    if found.schema is None:
        return
    data = json.loads(codec.encode(value))
    asked = {"result": data} if found.wrapped else data
    Draft202012Validator(found.schema).validate(asked)
    assert identical(found.decode(wrap(json.dumps(asked))), value)


@given(
    st.sampled_from([Plan, list[int], int, Dog | Bird, dict[str, Any], Any]),
    st.text() | json_values.map(json.dumps),
)
@quietly
def test_any_answer_is_a_value_or_refused(annotation: Any, text: str) -> None:
    """
    Whatever a model says ends in a value or in a message for it.
    """
    try:
        value = output(annotation).decode(text)
    except BadOutput as problem:
        told = str(problem)
        assert told and len(told) <= 500
    else:
        codec_for(annotation).encode(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (int, 'I first thought\n```json\n{"result": 1}\n```\nbut the final answer is {"result": 2}'),
        (Plan, f'Instead of {{"title": 1}} this:\n```json\n{PLAN}\n```'),
        (int, '{"result": 2}\n```json\n{"result": 1}\n```'),
        (list[int], "<think>maybe [1, 2] or not"),
        (list[int], "I could not find it [1]."),
        (list[str], "the set [] is empty; I refuse"),
        (dict[str, int], "use {} here, but I cannot answer"),
    ],
)
def test_what_is_not_the_answer_is_not_taken_for_it(type_, text):
    """A draft beside the answer, thoughts that do not end, and a citation are asked about again."""
    with pytest.raises(BadOutput):
        Output.of(codec_for(type_)).decode(text)
