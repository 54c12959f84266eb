"""Cache keys: which argument of a step changes them, and how a miss is explained."""

from __future__ import annotations

import datetime as dt
import runpy
import subprocess
import sys
import textwrap

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from june import ResultWarning, Retry, Snapshot, run, step, versions
from june._digests import framed
from june.keys import VARY_TAG, input_parts


def key(one, **options) -> str:
    return run(one, **options).snapshot().to_dict()["steps"][one.id]["cacheKey"]


def reason(one, before, **options) -> str | None:
    return run(one, snapshot=before, **options).trace.node(one.id).reason


def body(number: int = 1) -> int:
    return number


PLAIN = {"inputs": {"number": 3}}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"retry": Retry(3)}, {}),
        ({"timeout": 5}, {}),
        ({"runs_on": "inline"}, {}),
        ({"limit": "api"}, {"limits": {"api": 1}}),
        ({"when": lambda number: True}, {}),
        ({"after": [step(id="before")(lambda: None)]}, {}),
        ({"save": True}, {}),
        ({}, {"concurrency": 1}),
        ({}, {"strict": True}),
        ({}, {"on_error": "cancel"}),
    ],
    ids=str,
)
def test_what_cannot_change_a_result_does_not_change_its_key(arguments, options):
    """How and when a step runs is not part of its key."""
    assert key(step(id="one", **arguments)(body), **PLAIN, **options) == key(step(id="one")(body), **PLAIN)


@pytest.mark.parametrize(
    "arguments",
    [{"version": "1"}, {"version": ""}, {"vary": "a"}, {"vary": lambda number: number}, {"vary": ""}],
    ids=str,
)
def test_what_a_result_depends_on_changes_its_key(arguments):
    """What the user says about the result is part of its key."""
    changed = key(step(id="one", **arguments)(body), **PLAIN)
    assert changed != key(step(id="one")(body), **PLAIN)
    assert changed == key(step(id="one", **arguments)(body), **PLAIN)


def test_the_id_is_not_in_the_key():
    """The id is matched by itself, so copies without inputs share a key."""
    assert key(step(id="one")(body), **PLAIN) == key(step(id="two")(body), **PLAIN)


def test_version_stands_in_for_the_code_and_nothing_else():
    """Under a version, code may change; inputs and defaults still count."""

    def other(number: int = 1) -> int:
        return number + 0

    first, second = step(id="one", version="1")(body), step(id="one", version="1")(other)
    assert key(first, **PLAIN) == key(second, **PLAIN)
    assert key(first, inputs={"number": 4}) != key(second, **PLAIN)
    assert key(first) != key(second, **PLAIN)
    assert key(first) == key(second)


def test_an_input_a_bound_value_and_a_default_count_alike():
    """A value counts by what it is, wherever it comes from."""

    @step(id="three")
    def three() -> int:
        return 3

    def with_default(number: int = 3) -> int:
        return number

    one = step(id="one", version="1")(body)
    by_input = key(one, **PLAIN)
    assert by_input == key(one.bind(id="bound", number=3))
    assert by_input == key(one.bind(id="from step", number=three))
    assert by_input == key(step(id="default", version="1")(with_default))


VALUES = [
    1,
    True,
    "1",
    1.0,
    [1],
    (1,),
    {"1": 1},
    {1: 1},
    {1},
    frozenset({1}),
    None,
    b"1",
    -0.0,
    0.0,
    0,
    dt.date(1, 1, 1),
]


def test_values_of_different_types_never_share_a_key():
    """1, True, "1", 1.0, [1], (1,) and their like all differ."""
    keys = [key(step(id="one")(lambda number: None), inputs={"number": value}) for value in VALUES]
    assert len(set(keys)) == len(VALUES)


def test_classes_with_equal_fields_differ():
    """Two classes are two types, also where their fields agree."""

    @attrs.frozen
    class Metres:
        value: float

    @attrs.frozen
    class Feet:
        value: float

    one = step(id="one")(lambda number: None)
    assert key(one, inputs={"number": Metres(1.0)}) != key(one, inputs={"number": Feet(1.0)})

    def metres() -> Metres:
        return Metres(1.0)

    def feet() -> Feet:
        return Feet(1.0)

    use = step(id="use", version="1")(lambda length: 1)
    first = key(use.bind(id="use", length=step(id="length")(metres)))
    assert first != key(use.bind(id="use", length=step(id="length")(feet)))


def test_a_method_of_an_inputs_class_counts():
    """A result's class is part of what its consumers depend on: its methods' code too."""
    source = """
    import attrs
    from june import step

    @attrs.frozen
    class Plan:
        text: str
        def words(self): return self.text.split({separator!r})

    @step(id="plan", version="1")
    def plan() -> Plan:
        return Plan("a b")

    @step(id="count")
    def count(plan) -> int:
        return len(plan.words())
    """
    results = []
    snapshot = None
    for separator in (" ", "x"):
        names: dict = {"__name__": "flows"}
        exec(textwrap.dedent(source.format(separator=separator)), names)
        result = run(names["count"], snapshot=snapshot)
        results.append(result.result)
        snapshot = result.snapshot()
    assert results == [2, 1]
    assert result.trace.node("count").reason == "input 'plan' changed"


# -- Why a step ran.


def test_the_reasons():
    """Each kind of miss has its sentence."""

    @step(id="one")
    def one(number: int, other: int = 1) -> int:
        return number

    before = run(one, **PLAIN)
    assert run(one, **PLAIN).trace.node("one").reason == "no saved result"
    assert reason(one, before, **PLAIN) is None
    assert reason(one, before, inputs={"number": 4}) == "input 'number' changed"
    assert reason(one, before, inputs={"number": 4, "other": 5}) == "inputs 'number' and 'other' changed"

    @step(id="one")
    def retyped(number: int, other: int = 1) -> float:
        return float(number)

    assert reason(step(id="one", version="1")(one.__wrapped__), before, **PLAIN) == "version changed"
    assert reason(step(id="one", vary="x")(one.__wrapped__), before, **PLAIN) == "vary changed"
    assert reason(step(id="one")(lambda number: number), before, **PLAIN) == "code changed: step code"
    versioned = run(step(id="one", version="1")(one.__wrapped__), **PLAIN)
    assert (
        reason(step(id="one", version="1")(retyped.__wrapped__), versioned, **PLAIN) == "output type changed"
    )
    fewer = step(id="one", version="1")(lambda number: number)
    more = step(id="one", version="1")(lambda number, extra: number)
    assert reason(more, run(fewer, **PLAIN), inputs={"number": 3, "extra": 1}) == "input 'extra' is new"
    assert reason(fewer, run(more, inputs={"number": 3, "extra": 1}), **PLAIN) == "input 'extra' is gone"


def test_the_helper_that_changed_is_named(tmp_path):
    """A miss names the piece of code that changed, through a file on disk too."""
    source = """
    from june import step

    LIMIT = {limit}

    def clean(text):
        return text{strip}

    @step(id="one")
    def one() -> str:
        return clean(" a ")[:LIMIT]
    """
    snapshot = None
    reasons = []
    for number, (limit, strip) in enumerate([(1, ""), (1, ".strip()"), (2, ".strip()")]):
        path = tmp_path / str(number) / "flows.py"
        path.parent.mkdir()
        path.write_text(textwrap.dedent(source.format(limit=limit, strip=strip)))
        result = run(runpy.run_path(str(path))["one"], snapshot=snapshot)
        reasons.append(result.trace.node("one").reason)
        snapshot = Snapshot.from_json(result.snapshot().to_json())
    assert reasons == [
        "no saved result",
        "code changed: helper clean() in flows.py",
        "code changed: constant LIMIT in flows.py",
    ]


@pytest.mark.filterwarnings("ignore::june.ResultWarning")
def test_a_key_that_cannot_be_computed_is_no_key():
    """Where a part fails, the step runs, its result is not saved, and the reason says which part failed."""

    def fails(number):
        raise LookupError("nothing there")

    one = step(id="one", vary=fails)(body)
    with pytest.warns(ResultWarning, match="is not saved: it has no cache key: vary raised"):
        result = run(one, **PLAIN)
    assert result.result == 3
    assert list(result.snapshot()) == []
    assert result.trace.node("one").reason == "no cache key: vary raised LookupError: nothing there"

    # What takes its result is keyed by the value, and reused.
    @step(id="use")
    def use(one: int) -> int:
        return one + 1

    first = run(use.bind(id="use", one=one), **PLAIN)
    again = run(use.bind(id="use", one=one), **PLAIN, snapshot=first)
    assert [node.resumed for node in again.trace] == [False, True]


def test_vary_as_a_function_sees_what_a_file_holds(tmp_path):
    """A step that reads a file runs again when ``vary`` says that its content changed."""
    path = tmp_path / "data.txt"

    @step(id="size", vary=lambda name: path.read_text())
    def size(name: str) -> int:
        return len(path.read_text())

    path.write_text("one")
    first = run(size, inputs={"name": "data"})
    assert reason(size, first, inputs={"name": "data"}) is None
    path.write_text("three")
    second = run(size, inputs={"name": "data"}, snapshot=first)
    assert second.result == 5
    assert second.trace.node("size").reason == "vary changed"


def test_versions_of_distributions():
    """``versions`` gives what a key needs to know of a library, and refuses what is not installed."""
    assert versions("trio")["trio"].split(".")[0].isdigit()
    with pytest.raises(Exception, match="no-such-thing"):
        versions("no-such-thing")


# -- Unsaved results.


def test_an_unsaved_step_runs_only_for_who_must_run():
    """A reused consumer never makes an unsaved step run; one that must run does."""
    ran: list[str] = []

    @step(id="frame", save=False, version="1")
    def frame():
        ran.append("frame")
        return object()

    @step(id="use", version="1")
    def use(frame, number: int) -> int:
        ran.append("use")
        return number

    first = run(use, inputs={"number": 1})
    assert ran == ["frame", "use"]
    ran.clear()
    second = run(use, inputs={"number": 1}, snapshot=first)
    assert ran == []
    node = second.trace.node("frame")
    assert (node.status, node.reason) == ("unneeded", "unsaved, and nobody needed it")
    assert "frame" not in second.steps
    run(use, inputs={"number": 2}, snapshot=first)
    assert ran == ["frame", "use"]
    ran.clear()
    assert run(frame, snapshot=first).trace.node("frame").reason == "needed, and save=False keeps no result"
    assert ran == ["frame"]


def test_a_result_that_cannot_be_saved_counts_as_unsaved():
    """It is named with its key in the snapshot, and its consumers are reused without it."""

    @step(id="pair")
    def pair():
        return (1, 2)

    @step(id="use")
    def use(pair) -> int:
        return sum(pair)

    with pytest.warns(ResultWarning):
        first = run(use)
    data = first.snapshot().to_dict()
    assert list(data["steps"]) == ["use"]
    assert list(data["unsaved"]) == ["pair"]
    again = run(use, snapshot=Snapshot.from_json(first.snapshot().to_json()))
    assert [node.status for node in again.trace] == ["unneeded", "done"]
    assert again.snapshot().to_dict()["unsaved"] == data["unsaved"]
    assert first.trace.node("pair").notes == (
        "not saved: result is a tuple without a declared type, and would come back as a list",
    )


def test_a_type_that_june_does_not_know_is_said_when_the_result_is_there():
    """Paid work is not thrown away over a type: the value is passed on, and the warning says the cure."""

    class Net:
        pass

    @step(id="train")
    def train() -> Net:
        return Net()

    line = train.__wrapped__.__code__.co_firstlineno
    with pytest.warns(ResultWarning) as caught:
        assert type(run(train).result) is Net
    assert str(caught[0].message) == (
        f"step 'train' (test_keys.py:{line}) finished, but its result is not saved: result is a Net, and june "
        "knows no encoding for Net. Teach it with june.codec.register(Net, encode, decode), or say save=False."
    )


# -- The encoding.


@given(st.lists(st.binary(max_size=5), max_size=4), st.lists(st.binary(max_size=5), max_size=4))
def test_framing_is_injective(one, other):
    """No two lists of pieces are joined to the same bytes."""
    assert (framed(*one) == framed(*other)) == (one == other)


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.binary(min_size=16, max_size=16), max_size=4),
    st.none() | st.binary(min_size=16, max_size=16),
)
def test_inputs_can_be_taken_apart_again(digests, vary):
    """What a key was computed from can be shown part by part."""
    pieces = []
    for name, digest in digests.items():
        pieces += [len(name.encode()).to_bytes(2, "big"), name.encode(), b"j", digest]
    if vary is not None:
        pieces += [VARY_TAG, b"v", vary]
    found, said = input_parts(b"".join(pieces))
    assert found == {name: "j:" + digest.hex() for name, digest in digests.items()}
    assert said == (None if vary is None else "v:" + vary.hex())


PROGRAM = """
import datetime, json, sys
sys.path.insert(0, {folder!r})
import attrs
from june import run, step

@attrs.frozen
class Row:
    name: str
    tags: frozenset[str]

HELPED = {{"b", "a", "c"}}

def helper(row):
    return sorted(row.tags | HELPED)

@step(id="row")
def row(when: datetime.date) -> Row:
    return Row("x", frozenset({{"p", "q", str(when)}}))

@step(id="use", vary=frozenset({{"x", "y"}}))
def use(row: Row, options: dict, sizes=(1, 2.5)) -> list[str]:
    return helper(row)

result = run(use, inputs={{"when": datetime.date(2026, 11, 29), "options": {{1: {{"a", "b"}}, "k": None}}}})
steps = result.snapshot().to_dict()["steps"]
print(json.dumps([{{name: value for name, value in one.items() if name != "meta"}} for one in steps.values()]))
"""


@pytest.mark.slow
def test_keys_are_the_same_in_every_process(tmp_path):
    """Hash seeds, folders and the way of starting Python do not change an entry."""
    said = set()
    for seed in ("0", "1", "77"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "flows.py").write_text(PROGRAM.format(folder=str(folder)))
        for command in (["flows.py"], ["-m", "flows"], ["-c", "import flows"]):
            done = subprocess.run(
                [sys.executable, *command],
                cwd=folder,
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path[1:]), "PATH": ""},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            said.add(done.stdout)
    assert len(said) == 1


def test_the_functions_given_to_register_count():
    """What a saved result means is up to them, so a change in them is a change of the step's output."""
    source = """
    from june import codec, step

    class T:
        def __init__(self, n): self.n = n
        def __eq__(self, other): return type(other) is T and other.n == self.n

    codec.register(T, lambda t: t.n * {factor}, lambda n: T(n // {factor}))

    @step(id="make", version="1")
    def make() -> T:
        return T(2)
    """
    snapshot = None
    reasons = []
    for factor in (1, 2):
        names: dict = {"__name__": "flows"}
        exec(textwrap.dedent(source.format(factor=factor)), names)
        result = run(names["make"], snapshot=snapshot)
        reasons.append(result.trace.node("make").reason)
        assert result.result.n == 2
        snapshot = Snapshot.from_json(result.snapshot().to_json())
    assert reasons == ["no saved result", "output type changed"]
