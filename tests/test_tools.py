"""
Tools: what makes a function one, what a model sees of it, and how its calls are read and answered.
"""

from __future__ import annotations

import datetime
import enum
import functools
import importlib.util
import inspect
import json
import math
import textwrap
import threading
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from june import step
from june.codec import UnsupportedType, codec_for
from june.fingerprints import Fingerprinter
from june.messages import ToolSpec
from june.tools import BadArguments, Tool, as_tool, tool
from tests.strategies import Colour, identical, typed_values

T = TypeVar("T")
HERE = "test_tools.py"


@attrs.frozen
class Spot:
    """A place on a map."""

    lat: float
    lon: float


@tool
def search(query: str, limit: int = 10, near: Spot | None = None, extra=None) -> list[Spot]:
    """
    Search the index.

    It knows all languages.

    Args:
        query: What to look for.
        limit: How many to give.

    Returns:
        The hits.
    """
    return [Spot(1.0, 2.0)] * limit


def plain(word: str) -> str:
    """Say a word."""
    return word


def line_of(function: Any) -> int:
    return function.__code__.co_firstlineno


def refusal(found: Tool[..., Any], arguments: str) -> str:
    """Give what a model is told of bad arguments."""
    with pytest.raises(BadArguments) as caught:
        found.decode(arguments)
    return str(caught.value)


# -- What a tool is.


def test_a_tool_stays_callable():
    """
    Calling a tool calls the plain function, so that it is unit-tested like any function.
    """
    assert search("x", limit=1) == [Spot(1.0, 2.0)]
    assert inspect.signature(search) == inspect.signature(search.function)
    assert (search.__name__, search.__doc__) == ("search", search.function.__doc__)
    assert repr(search) == f"<Tool 'search' ({HERE}:{line_of(search.function)})>"
    assert str(search.place) == f"{HERE}:{line_of(search.function)}"
    assert (search.approval, search.is_async) == (False, False)


def test_what_a_model_sees():
    """
    Name, description and parameters come from the function's name, docstring and hints.
    """
    spot = {
        "type": "object",
        "description": "A place on a map.",
        "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
        "required": ["lat", "lon"],
        "additionalProperties": False,
    }
    assert search.spec == ToolSpec(
        name="search",
        description="Search the index.\n\nIt knows all languages.",
        schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "description": "How many to give."},
                "near": {"anyOf": [spot, {"type": "null"}]},
                "extra": {},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )


def test_what_the_decorator_says_goes_before_what_the_function_says():
    """
    A name, a description and the need for approval may be given.
    """
    found = tool(name="say-it", description="  Say\n  it. ", approval=True)(plain)
    assert (found.name, found.description, found.approval) == ("say-it", "Say\nit.", True)
    assert tool()(plain).description == "Say a word."
    assert tool(name="anonymous", description="Do it.")(lambda: 1).name == "anonymous"


def test_a_tool_without_parameters():
    """
    A function that takes nothing has the schema of an empty object.
    """

    @tool
    def now() -> str:
        """Tell the time."""
        return "noon"

    assert now.spec.schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert now.decode("") == now.decode(" \n") == now.decode("{}") == now.decode("null") == {}


@pytest.mark.parametrize(
    "docstring",
    [
        """
        Move it.

        Slowly.

        Args:
            x: Where to, in
                metres.

            y (int, optional): How: fast.
        """,
        """Move it.

        Slowly.

        Arguments:
          x (int): Where to, in metres.
          *y*: How: fast.
        Returns:
          Nothing: it is for the effect.
        """,
        """
        Move it.

        Slowly.

        Parameters
        ----------
        x : int
            Where to, in
            metres.
        y : int, optional
            How: fast.

        Returns
        -------
        y : int
            Something else.
        """,
        """
        Move it.

        Slowly.

        Parameters:
            x:
                Where to, in metres.
            y: How: fast.

        Raises:
            ValueError: If y: is wrong.
        """,
        """
        Move it.

        Slowly.
        :param x: Where to, in
            metres.
        :type x: int
        :param int y: How: fast.
        :returns: y: something else.
        :raises ValueError: if it is.
        """,
    ],
)
def test_docstrings_of_three_styles(docstring: str):
    """
    Google's, NumPy's and Sphinx's sections describe parameters, and are no part of the description.
    """

    def move(x: int, y: int = 1, z: int = 2) -> int:
        return x

    move.__doc__ = docstring
    spec = as_tool(move).spec
    assert spec.description == "Move it.\n\nSlowly."
    assert {name: one.get("description") for name, one in spec.schema["properties"].items()} == {
        "x": "Where to, in metres.",
        "y": "How: fast.",
        "z": None,
    }


@pytest.mark.parametrize(
    ("docstring", "description", "told"),
    [
        ("Move.\n\nNote:\n    Slow.\n\nArgs:\n    x: To.", "Move.\n\nNote:\n    Slow.", "To."),
        ("Move.\n\nArgs: are given by name.", "Move.\n\nArgs: are given by name.", None),
        ("Move.\n\nArgs:\nx: unindented.", "Move.\n\nArgs:\nx: unindented.", None),
        ("Move.\n\nParameters\nare given.", "Move.\n\nParameters\nare given.", None),
        ("Move.\n\nReturns:\n    It.\n\nAfter all.", "Move.", None),
        ("Move.\n\nArgs:", "Move.", None),
        ("Move.\n\nArgs:\n    x:\n    other: Not there.", "Move.", None),
        ("Move.\n\nArgs:\n    stray text\n    x: To.\n", "Move.", "To."),
        ("Move.\n\nParameters\n----------\nx, y : int\n    Both.\n\nNotes\n-----\nx : no.", "Move.", "Both."),
        ("Move.\n\nOther Parameters\n----------------\n**x**\nx\n    To.", "Move.", "To."),
        ("Move.\n\n:param x: To.\n\nAnd on.", "Move.", "To."),
        ("Move.\n\n:param: To.\n:note: x", "Move.", None),
        ("Move :fast: or not.", "Move :fast: or not.", None),
    ],
)
def test_docstrings_on_the_edge(docstring: str, description: str, told: str | None):
    """
    What only looks like a section stays in the description, and what is in none goes nowhere.
    """

    def move(x: int) -> int:
        return x

    move.__doc__ = docstring
    spec = as_tool(move).spec
    assert spec.description == description
    assert spec.schema["properties"]["x"].get("description") == told


def test_a_text_in_the_hint_goes_before_the_docstring():
    """
    Annotated describes a parameter too, and what stands nearest to it counts.
    """

    @tool
    def move(
        x: Annotated[int, "By the hint."],
        y: Annotated[int, 7],
        spot: Spot,
        other: Spot | None = None,
    ) -> None:
        """
        Move.

        Args:
            x: By the docstring.
            y: By the docstring.
            spot: Where to.
        """

    properties = move.spec.schema["properties"]
    assert properties["x"] == {"type": "integer", "description": "By the hint."}
    assert properties["y"] == {"type": "integer", "description": "By the docstring."}
    assert properties["spot"] == {"anyOf": [{"$ref": "#/$defs/Spot"}], "description": "Where to."}
    assert move.spec.schema["$defs"]["Spot"]["description"] == "A place on a map."


# -- What can be a tool.


class Kit:
    """A class with tools."""

    factor: ClassVar[int] = 3

    def __init__(self, factor: int) -> None:
        self.factor = factor

    @tool
    def times(self, number: int) -> int:
        """Multiply."""
        return number * self.factor

    def plus(self, number: int) -> int:
        """Add."""
        return number + self.factor

    @classmethod
    @tool
    def of_class(cls, number: int) -> int:
        """Multiply by the class's factor."""
        return number * cls.factor

    @staticmethod
    @tool
    def alone(number: int) -> int:
        """Give it back."""
        return number

    def __call__(self, number: int) -> int:
        """Apply."""
        return number * self.factor


class Quiet:
    """Do it quietly."""

    def __call__(self, number: int) -> int:
        return number


@functools.lru_cache
def cached(number: int) -> int:
    """Remember."""
    return number


@step(id="a-step")
async def stepped(number: int) -> int:
    """Take a step."""
    return number


async def waiting(number: int) -> int:
    """Wait."""
    return number


@pytest.mark.parametrize(
    ("function", "name", "description", "is_async"),
    [
        (plain, "plain", "Say a word.", False),
        (Kit(2).times, "times", "Multiply.", False),
        (Kit(2).plus, "plus", "Add.", False),
        (Kit.of_class, "of_class", "Multiply by the class's factor.", False),
        (Kit(2).of_class, "of_class", "Multiply by the class's factor.", False),
        (types.MethodType(Kit.times, Kit(2)), "times", "Multiply.", False),
        (Kit.alone, "alone", "Give it back.", False),
        (Kit(2).alone, "alone", "Give it back.", False),
        (Kit(2), "Kit", "Apply.", False),
        (Quiet(), "Quiet", "Do it quietly.", False),
        (cached, "cached", "Remember.", False),
        (stepped, "stepped", "Take a step.", True),
        (waiting, "waiting", "Wait.", True),
        (functools.partial(waiting), "waiting", "Wait.", True),
        (functools.partial(functools.partial(plain)), "plain", "Say a word.", False),
        (functools.partial(search), "search", "Search the index.\n\nIt knows all languages.", False),
    ],
)
def test_functions_of_many_kinds_are_tools(function: Any, name: str, description: str, is_async: bool):
    """
    Methods, callable objects, partials and wrapped functions are named and described as what they call.
    """
    found = as_tool(function)
    assert (found.name, found.description, found.is_async) == (name, description, is_async)
    schema = found.spec.schema
    assert len(schema["required"]) == 1
    if schema["required"] == ["number"]:
        assert schema["properties"] == {"number": {"type": "integer"}}
        assert found.decode('{"number": 4}') == {"number": 4}


def test_a_tool_of_a_class_binds_to_the_object():
    """
    In a class, a tool is bound as a method is: the object is not a model's to give.
    """
    kit = Kit(2)
    assert (kit.times(4), as_tool(kit.times).function(number=4)) == (8, 8)
    assert (Kit.of_class(4), as_tool(kit.of_class).function(number=4)) == (12, 12)
    assert Kit.alone(4) == 4
    assert isinstance(Kit.times, Tool)
    with pytest.raises(TypeError) as caught:
        as_tool(Kit.times)
    assert str(caught.value) == (
        f"tool 'times' ({HERE}:{line_of(Kit.times.function)}): it is a method without its object; give "
        "Kit(...).times, not Kit.times"
    )


def test_a_partial_fills_its_own_parameters():
    """
    What a partial fills is not a model's to give, neither by position nor by name.
    """
    found = as_tool(functools.partial(search, "cats", limit=2))
    assert list(found.spec.schema["properties"]) == ["near", "extra"]
    assert found.decode("{}") == {}
    assert refusal(found, '{"limit": 1}') == (
        "there is no parameter 'limit'; the tool takes 'near' and 'extra'"
    )
    assert found.function() == [Spot(1.0, 2.0)] * 2


def test_what_stands_around_a_tool_keeps_what_was_said_of_it():
    """
    A partial of a tool, or a decorator around it, cannot drop the need for approval, nor the rest.
    """

    @attrs.frozen
    class Item:
        n: int

    @tool(name="buy-it", description="Buy.", approval=True)
    async def buy(item: Item, count: int = 1) -> str:
        return f"{count} of {item.n}"

    @functools.wraps(buy)
    async def wrapper(*args: Any, **kwargs: Any) -> str:
        return await buy(*args, **kwargs)

    def looped(item: Item) -> None:
        """Buy."""

    looped.__wrapped__ = looped  # type: ignore[attr-defined] # nobody sane does this
    for around in (functools.partial(buy, count=2), functools.partial(functools.partial(buy)), wrapper):
        found = as_tool(around)
        assert (found.name, found.description, found.approval, found.is_async) == (
            "buy-it",
            "Buy.",
            True,
            True,
        )
        assert found.decode('{"item": {"n": 1}}') == {"item": Item(1)}
    renamed = tool(name="get", description="Get.")(functools.partial(buy))
    assert (renamed.name, renamed.description, renamed.approval) == ("get", "Get.", True)
    with pytest.raises(
        TypeError, match="it has no signature that could say what it takes; wrap it in a def$"
    ):
        as_tool(looped)


def test_a_tool_is_made_once():
    """
    What is a tool already stays the one it is.
    """
    assert as_tool(search) is search


def variadic(*words: str) -> None:
    """Take all."""


def keywords(**words: str) -> None:
    """Take all."""


def positional(word: str, /) -> None:
    """Take one."""


def generator(word: str):
    """Give many."""
    yield word


async def generating(word: str):
    """Give many."""
    yield word


def undescribed(word: str) -> None: ...


def misdescribed(word: str) -> None:
    """
    Args:
        word: The word.
    """


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (variadic, "it takes '*words', but a model gives arguments by name; take a list instead"),
        (keywords, "it takes '**words', but a model has to know the names; take a dict instead"),
        (positional, "it takes 'word' only by position, and a model gives names; drop the '/'"),
        (generator, "it is a generator function, and a model takes one result; return a list"),
        (generating, "it is a generator function, and a model takes one result; return a list"),
        (undescribed, "nothing says what it does, and a model chooses its tools by that; write a docstring, or pass description="),
        (misdescribed, "nothing says what it does, and a model chooses its tools by that; write a docstring, or pass description="),
    ],
)  # fmt: skip
def test_a_function_that_no_model_could_call_is_refused(function: Callable[..., Any], problem: str):
    """
    The decorator says why a function cannot be a tool, and what to do.
    """
    for make in (tool, tool(approval=True), as_tool):
        with pytest.raises(TypeError) as caught:
            make(function)
        assert str(caught.value) == f"tool {function.__name__!r} ({HERE}:{line_of(function)}): {problem}"


nameless = lambda word: word  # noqa: E731 # a lambda is what is tested


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tool(nameless), TypeError, f"the lambda at {HERE}:{line_of(nameless)} has no name for a tool; write a def, or pass name="),
        (lambda: tool(functools.partial(nameless)), TypeError, f"the lambda at {HERE}:{line_of(nameless)} has no name for a tool; write a def, or pass name="),
        (lambda: tool(Kit), TypeError, f"a tool is a function, not {Kit!r}"),
        (lambda: tool("search"), TypeError, "a tool is a function, not 'search'"),
        (lambda: as_tool(None), TypeError, "a tool is a function, not None"),
        (lambda: tool(Kit.__dict__["of_class"]), TypeError, "put @tool below @staticmethod or @classmethod"),
        (lambda: tool(search), TypeError, f"{search!r} is a tool already; to make another of it, decorate its .function"),
        (lambda: tool(name=7)(plain), TypeError, "a tool's name must be a string, not 7"),
        (lambda: tool(name="no spaces")(plain), ValueError, f"the tool name 'no spaces' ({HERE}:{line_of(plain)}) is none that models take: 1 to 64 letters, digits, '_' and '-'; pass name="),
        (lambda: tool(name="")(plain), ValueError, f"the tool name '' ({HERE}:{line_of(plain)}) is none that models take: 1 to 64 letters, digits, '_' and '-'; pass name="),
        (lambda: tool(description=7)(plain), TypeError, f"tool 'plain' ({HERE}:{line_of(plain)}): description must be a string, not 7"),
        (lambda: tool(description=" ")(plain), TypeError, f"tool 'plain' ({HERE}:{line_of(plain)}): nothing says what it does, and a model chooses its tools by that; write a docstring, or pass description="),
        (lambda: as_tool(max), TypeError, "tool 'max' (<builtin>:0): it has no signature that could say what it takes; wrap it in a def"),
        (lambda: as_tool(math.sqrt), TypeError, "tool 'sqrt' (<builtin>:0): it takes 'x' only by position, and a model gives names; drop the '/'"),
    ],
)  # fmt: skip
def test_what_is_no_tool(make: Callable[[], Any], error: type[Exception], message: str):
    """
    What has no name, or is no function, is refused with the reason.
    """
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["größe", "a.b", "x" * 65])
def test_a_name_must_be_one_that_models_take(name: str):
    """
    Providers take letters, digits, underscores and hyphens, at most 64 of them.
    """
    with pytest.raises(ValueError, match="is none that models take: 1 to 64 letters, digits, '_' and '-'"):
        tool(name=name)(plain)
    assert tool(name="x" * 64)(plain).name == "x" * 64


# -- Hints.


def test_hints_are_read_where_the_tool_is_declared():
    """
    Types that only a function knows are found, also those that are declared later in it.
    """

    @attrs.frozen
    class Early:
        n: int
        later: Later | None = None

    @tool
    def find(early: Early, later: list[Later]) -> Early:
        """Find it."""
        return early

    @tool
    def count(early: list[Literal["a"]]) -> int:
        """Count them."""
        return 1

    @attrs.frozen
    class Later:
        n: int

    assert find._frame is not None
    assert count._frame is None
    arguments = '{"early": {"n": 1, "later": {"n": 2}}, "later": [{"n": 3}]}'
    assert find.decode(arguments) == {"early": Early(1, Later(2)), "later": [Later(3)]}
    assert list(find.spec.schema["$defs"]) == ["Later"]
    assert find._frame is None, "a frame keeps alive all that it holds"


def test_hints_in_a_class_inside_a_function():
    """
    A tool in a local class knows the types around that class.
    """

    @attrs.frozen
    class Part:
        n: int

    class Shop:
        kinds: ClassVar[Any] = Literal["new", "old"]

        @tool
        def order(self, part: Part, kind: kinds) -> str:
            """Order it."""
            return f"{part.n} {kind}"

    found = as_tool(Shop().order)
    arguments = found.decode('{"part": {"n": 1}, "kind": "new"}')
    assert found.function(**arguments) == "1 new"


def test_hints_that_a_closure_knows():
    """
    A plain function made a tool by an agent finds types by its own closure.
    """

    @attrs.frozen
    class Part:
        n: int

    def order(part: Part) -> Part:
        """Order it."""
        return Part(part.n)

    assert as_tool(order).decode('{"part": {"n": 1}}') == {"part": Part(1)}


def test_a_tool_that_calls_itself():
    """
    A local tool may name itself, though that name is not yet bound when it is made.
    """

    @tool
    def down(number: int) -> int:
        """Count down."""
        return down(number - 1) if number else 0

    assert down(3) == 0
    assert down.decode('{"number": 3}') == {"number": 3}


def test_hints_of_wrapped_functions():
    """
    A decorator that uses functools.wraps does not hide what the function takes.
    """

    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def order(spot: Spot, count: int = 1) -> Spot:
        """Order it."""
        return spot

    assert order.decode('{"spot": {"lat": 1, "lon": 2}}') == {"spot": Spot(1.0, 2.0)}
    assert order.encode(Spot(1.0, 2.0)) == '{"lat":1.0,"lon":2.0}'


def test_hints_without_postponed_evaluation():
    """
    Hints that are types, and strings within them, are read the same.
    """
    names: dict[str, Any] = {"__name__": __name__, "tool": tool, "Spot": Spot}
    exec(
        textwrap.dedent(
            """
            @tool
            def order(spot: Spot, others: 'list[Spot]', more: list['Spot'] = ()) -> 'Spot':
                'Order it.'
                return spot
            """
        ),
        names,
    )
    assert names["order"].decode('{"spot": {"lat": 1, "lon": 2}, "others": [], "more": []}') == {
        "spot": Spot(1.0, 2.0),
        "others": [],
        "more": [],
    }


def test_type_variables_take_what_they_may_be():
    """
    A variable that nothing fills takes any JSON.
    """

    @tool
    def same(value: T, others: list[T]) -> T:
        """Give it back."""
        return value

    assert same.spec.schema["properties"] == {"value": {}, "others": {"type": "array", "items": {}}}


def unknown(word: Nowhere) -> None:  # noqa: F821 # it is what is tested
    """Take one."""


def unreadable(spots: list[threading.Thread]) -> None:
    """Take some."""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (unknown, "the hint 'Nowhere' of its parameter 'word' cannot be read: name 'Nowhere' is not defined; define what it names at the top of the module, or put @tool on the function where that is known"),
        (unreadable, "its parameter spots[]: june knows no encoding for Thread; teach it with june.codec.register(), or fill the parameter with functools.partial"),
    ],
)  # fmt: skip
def test_a_hint_that_says_no_json_is_found_before_anything_runs(function: Callable[..., Any], problem: str):
    """
    What is wrong with a hint is said when the tool is given to an agent, or looked at.
    """
    message = f"tool {function.__name__!r} ({HERE}:{line_of(function)}): {problem}"
    for look in (as_tool, lambda function: tool(function).spec, lambda function: tool(function).decode("{}")):
        with pytest.raises(TypeError) as caught:
            look(function)
        assert str(caught.value) == message


def test_two_types_of_one_name():
    """
    A hint whose members nobody could tell apart is refused, without a cure that would not help.
    """
    other = attrs.make_class("Spot", ["n"])

    @tool
    def order(spot: Spot | other) -> None:
        """Order it."""

    with pytest.raises(TypeError) as caught:
        as_tool(order)
    assert str(caught.value) == (
        f"tool 'order' ({HERE}:{line_of(order.function)}): its parameter spot: two members of the union Spot | "
        "Spot have the name Spot, so june could not tell which of them a saved value is; rename one of them"
    )


# -- Calls.


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ('{"query": "a"}', {"query": "a"}),
        (json.dumps('{"query": "a"}'), {"query": "a"}),
        ('```json\n{"query": "a"}\n```', {"query": "a"}),
        ('{"query": "a", "limit": null, "near": null}', {"query": "a", "near": None}),
        ('{"query": "a", "near": {"lat": 1, "lon": 2.5}}', {"query": "a", "near": Spot(1.0, 2.5)}),
        ('{"extra": [1, {"x": null}], "query": ""}', {"query": "", "extra": [1, {"x": None}]}),
    ],
)
def test_arguments_are_values_of_their_types(arguments: str, values: dict[str, Any]):
    """
    A model's arguments become values of the parameters' types; those that were not given stay away.
    """
    assert search.decode(arguments) == values


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the required parameter 'query' is missing"),
        ('{"query": null}', "query: expected a str, found null"),
        ('{"querry": "a"}', "there is no parameter 'querry'; did you mean 'query'?; the required parameter 'query' is missing"),
        ('{"query": "a", "zzz": 1}', "there is no parameter 'zzz'; the tool takes 'query', 'limit', 'near' and 'extra'"),
        ('{"query": 5, "limit": "5"}', "query: expected a str, found 5; limit: expected an int, found the string '5'"),
        ('{"query": "a", "near": {"lat": 1}}', "near: expected the fields of Spot, found no 'lon'"),
        ('{"query": "a", "near": {"lat": 1, "lon": "x"}}', "near.lon: expected a float, found the string 'x'"),
        ("[1]", "expected an object with the arguments by name, found [1]"),
        ("5", "expected an object with the arguments by name, found 5"),
        ("query = 'a'", "found no JSON in \"query = 'a'\""),
        ('{"query": "a"', "the JSON is cut off; give the whole of it"),
        ('{"query": "a",}', "this is not valid JSON: there is a comma before the closing }; leave it out"),
        ('{"query": "a"}{"query": "b"}', "found 2 JSON values; give only the one that was asked for"),
        ('{"query": "a", "query": "b"}', "this is not valid JSON: the key 'query' stands twice in one object"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(arguments: str, message: str):
    """
    The model is told of everything that is wrong at once: what, where, and what was expected.
    """
    assert refusal(search, arguments) == message


def test_a_tool_that_takes_nothing_says_so():
    """
    An argument for a tool without parameters is refused.
    """
    found = tool(name="now", description="Tell the time.")(lambda: "noon")
    assert refusal(found, '{"x": 1}') == "there is no parameter 'x'; the tool takes none"


def test_messages_are_short():
    """
    However much is wrong, the model is told no more than 500 characters.
    """
    told = refusal(search, json.dumps({f"name{n}" * 20: n for n in range(99)}))
    assert len(told) == 500
    assert told.endswith("...")


# -- Results.


class Word(str, enum.Enum):  # noqa: UP042 # a StrEnum would show its value anyway
    YES = "yes"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        ('"quoted"', '"quoted"'),
        (Word.YES, "yes"),
        ("", ""),
        (None, ""),
        (True, "true"),
        ([1, 2.5], "[1,2.5]"),
        ((1, {2}), "[1,[2]]"),
        ({"a": None, 1: "b"}, '{"a":null,"1":"b"}'),
        (float("nan"), "null"),
        (datetime.date(2026, 1, 31), '"2026-01-31"'),
        (Spot(1.0, 2.0), '{"lat":1.0,"lon":2.0}'),
        ([Spot(1.0, 2.0)], '[{"lat":1.0,"lon":2.0}]'),
        (1 + 2j, "[1.0,2.0]"),
        (Counter("aa"), '{"a":2}'),
    ],
)
def test_a_result_without_an_annotation_is_plain_json(result: Any, text: str):
    """
    Text is told as it is, None as nothing, and anything else in the usual forms of JSON.
    """

    @tool
    def give():
        """Give it."""
        return result

    assert give.encode(give()) == text


@pytest.mark.parametrize(
    ("annotation", "result", "text"),
    [
        (list[Spot], [Spot(1.0, 2.0)], '[{"lat":1.0,"lon":2.0}]'),
        (Colour, Colour.RED, '"RED"'),
        (dict[int, str], {1: "a"}, '[[1,"a"]]'),
        # What the annotation does not fit is told all the same.
        (list[Spot], [Spot(1.0, 2.0), None], '[{"lat":1.0,"lon":2.0},null]'),
        (list[float], [float("nan")], "[null]"),
        (threading.Thread, [1], "[1]"),
        ("Nowhere", [1], "[1]"),
    ],
)
def test_a_result_has_the_form_of_its_annotation(annotation: Any, result: Any, text: str):
    """
    A result is written by the return annotation's codec, and where that cannot be, as plain JSON.
    """

    def give():
        """Give it."""

    give.__annotations__["return"] = annotation
    assert as_tool(give).encode(result) == text


def test_pydantic_results_are_what_pydantic_writes():
    """
    A pydantic model is told by its public fields, in pydantic's own form.
    """
    pydantic = pytest.importorskip("pydantic")

    class Report(pydantic.BaseModel):
        text: str = "x"
        at: datetime.date = datetime.date(2026, 1, 31)
        _secret: str = pydantic.PrivateAttr("s3cret")

    def report() -> Report:
        """Report."""
        return Report()

    def several():
        """Report."""
        return [Report(text="y")]

    report.__annotations__["return"] = Report
    assert as_tool(report).encode(report()) == '{"text":"x","at":"2026-01-31"}'
    assert as_tool(several).encode(several()) == '[{"text":"y","at":"2026-01-31"}]'


class Net:
    def __repr__(self) -> str:
        return "<a Net>"


async def nothing() -> None: ...


def endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (Net, "it returned [<a Net>], which a model cannot be told: JSON has no form for a value of type Net; return text, or what JSON can hold"),
        (object, "it returned [<object object at 0x...>], which a model cannot be told: JSON has no form for a value of type object; return text, or what JSON can hold"),
    ],
)  # fmt: skip
def test_a_result_that_json_cannot_hold(result: Any, problem: str):
    """
    A result that no model could read is the tool's mistake, and says which tool.
    """
    found = as_tool(plain)
    with pytest.raises(TypeError) as caught:
        found.encode([result()])
    told = str(caught.value)
    if result is object:
        told = told[: told.index(" at 0x")] + " at 0x..." + told[told.index(">]") :]
    assert told == f"tool 'plain' ({HERE}:{line_of(plain)}): {problem}"


def test_a_result_that_was_not_awaited_or_has_no_end():
    """
    A coroutine is named as what it is, and a list in itself does no harm.
    """
    found = as_tool(plain)
    coroutine = nothing()
    with pytest.raises(
        TypeError, match="which a model cannot be told: await it, and make the tool an async def"
    ):
        found.encode(coroutine)
    coroutine.close()
    with pytest.raises(TypeError, match=r"it returned \[+\.\.\.\]+, which a model cannot be told: "):
        found.encode(endless())


# -- Keys.


def digests(source: str, path: Path) -> dict[str, str]:
    """Give the key of the tool `look` in a module of its own."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.look.key(Fingerprinter())


LOOK = '''
from june.tools import tool

@tool
def look(word: str, count: int = 1) -> str:
    """Look it up."""
    return word * count
'''


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("    return", "\n    return", set()),
        ("@tool\n", "@tool(approval=True)\n", set()),
        ("@tool\n", "@tool(name='seek')\n", {"name"}),
        ("Look it up", "Search for it", {"description"}),
        ("word: str", "word: int", {"schema"}),
        ("word * count", "count * word", {"code"}),
        ("count: int = 1", "count: int = 2", {"code"}),
        ("-> str", "-> object", {"code"}),
    ],
)
def test_which_part_of_a_key_an_edit_changes(old: str, new: str, changed: set[str], tmp_path: Path):
    """
    Name, description, schema and code count each for itself, and the need for approval does not.
    """
    assert LOOK.count(old) == 1
    before = digests(LOOK, tmp_path / "before.py")
    after = digests(LOOK.replace(old, new), tmp_path / "after.py")
    assert list(before) == ["name", "description", "schema", "code"]
    assert all(len(bytes.fromhex(one)) == 16 for one in before.values())
    assert {part for part in before if before[part] != after[part]} == changed


def test_the_code_of_classes_in_hints_counts(tmp_path: Path):
    """
    What a class does with what a model gave, and what its methods do, is part of a tool's code.
    """
    source = """
import attrs
from june.codec import register
from june.tools import tool

class Net:
    pass

register(Net, lambda net: 1, lambda data: Net())

@attrs.frozen
class Spot:
    lat: float = attrs.field(converter=lambda lat: lat)
    net: Net

@tool
def look(spot: Spot) -> str:
    'Look.'
    return spot.net
"""
    before = digests(source, tmp_path / "before.py")
    for number, (old, new) in enumerate([("lat: lat)", "lat: -lat)"), ("data: Net()", "data: Net(*[])")]):
        after = digests(source.replace(old, new), tmp_path / f"after{number}.py")
        assert {part for part in before if before[part] != after[part]} == {"code"}


def test_the_records_name_the_code_that_counts():
    """
    What a tool's function names is listed, so that a miss can be explained.
    """

    @tool
    def look(word: str) -> str:
        """Look it up."""
        return plain(word)

    assert list(look.records(Fingerprinter())) == ["step code", f"helper plain() in {HERE}"]


def helper_through_a_tool(word: str) -> list[Spot]:
    return search(word)


def test_code_that_names_a_tool_counts_its_function():
    """
    A step that calls a tool depends on the function's code, as if it called that.
    """
    assert search.__june_key__() is search.function
    fingerprint = Fingerprinter().code(helper_through_a_tool)
    assert f"helper search() in {HERE}" in fingerprint.records
    assert fingerprint.opaque == ()


# -- Whatever is called.


@given(typed_values())
@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_arguments_of_any_type_come_in(typed: tuple[Any, Any]):
    """
    Whatever has a codec can be a parameter, and a value of it comes in as it is.
    """
    annotation, value = typed

    def take(value) -> None:
        """Take it."""

    take.__annotations__["value"] = annotation
    try:
        data = codec_for(annotation).encode(value)
    except UnsupportedType:
        reject()
    found = as_tool(take).decode(f'{{"value": {data.decode()}}}')
    assert identical(found["value"], value)


@given(st.text() | st.dictionaries(st.text(), st.integers()).map(json.dumps))
@settings(deadline=None)
def test_any_arguments_are_values_or_refused(arguments: str):
    """
    Whatever a model says ends in arguments or in a message for it.
    """
    try:
        values = search.decode(arguments)
    except BadArguments as problem:
        told = str(problem)
        assert told and len(told) <= 500
    else:
        assert "query" in values
