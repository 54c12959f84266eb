"""Fan-out: steps with ``each``, their instances, labels and consumers."""

from __future__ import annotations

from hashlib import blake2b

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from june import GraphError, InputError, RunFailed, Update, run, run_async, step
from june.fanout import encoded


@step(id="double", each={"number": "numbers"})
async def double(number: int) -> int:
    return 2 * number


@step(id="plus", each={"value": double})
async def plus(value: int, more: int = 1) -> int:
    return value + more


@step(id="total")
def total(plus: list[int]) -> int:
    return sum(plus)


@step(id="table")
def table(plus: dict[str, int]) -> dict[str, int]:
    return plus


def statuses(record) -> dict[str, str]:
    return {node.id: "resumed" if node.resumed else node.status for node in record.trace}


def ran(record) -> list[str]:
    return [node.id for node in record.trace if node.status == "done" and not node.resumed]


def test_an_each_step_runs_once_per_item():
    """Instances are named by their items; a list consumer gets item order, a dict consumer labels."""
    result = run(total, table, double, inputs={"numbers": [3, 1, 2]})
    assert result.result == (15, {"3": 7, "1": 3, "2": 5}, [6, 2, 4])
    assert result.steps["plus"] == [7, 3, 5]
    assert result.steps["plus[1]"] == 3
    assert [node.id for node in result.trace][:6] == [
        "double[3]", "double[1]", "double[2]", "plus[3]", "plus[1]", "plus[2]",
    ]  # fmt: skip
    node = result.trace.node("double")
    assert (node.kind, node.status) == ("each", "done")
    assert [child.id for child in node.children] == ["double[3]", "double[1]", "double[2]"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([3, 1, 2], []),
        ([1, 2, 3], ["total"]),
        ([3, 2], ["total"]),
        ([3, 9, 1, 2], ["double[9]", "plus[9]", "total"]),
        ([3, 1, 2, 1], ["double[1~2]", "plus[1~2]", "total"]),
        ([], ["total"]),
    ],
)
def test_only_what_is_new_runs(numbers, expected):
    """Reordering, inserting, deleting and doubling items re-runs only new instances, and what collects them."""
    first = run(total, inputs={"numbers": [3, 1, 2]})
    again = run(total, inputs={"numbers": numbers}, snapshot=first)
    assert ran(again) == expected
    assert again.result == sum(2 * number + 1 for number in numbers)


async def test_chains_have_no_barrier(autojump_clock):
    """An instance of the second step starts when its own item is there, whatever its siblings do."""
    ended = {}

    @step(id="wait", each={"seconds": "times"})
    async def wait(seconds: int) -> int:
        await trio.sleep(seconds)
        return seconds

    @step(id="next", each={"seconds": wait})
    async def after_it(seconds: int) -> int:
        ended[seconds] = trio.current_time() - begun
        return seconds

    begun = trio.current_time()
    await run_async(after_it, inputs={"times": [5, 1, 3]})
    assert {seconds: round(at) for seconds, at in ended.items()} == {1: 1, 3: 3, 5: 5}


def test_items_of_a_mapping_are_its_values():
    """Over a mapping the labels are its keys, also for a dict that a step returns."""

    @step(id="files")
    def files() -> dict[str, str]:
        return {"src/a.py": "AA", "b": "B"}

    @step(id="size", each={"text": files})
    def size(text: str) -> int:
        return len(text)

    @step(id="sizes")
    def sizes(size: dict) -> dict[str, int]:
        return size

    result = run(sizes)
    assert result.result == {"src%2Fa.py": 2, "b": 1}
    assert list(result.snapshot()) == ["files", "size[b]", "size[src%2Fa.py]", "sizes"]


@pytest.mark.parametrize("items", [(2, 1), {2, 1}, frozenset({1, 2}), range(1, 3), {"x": 1, "y": 2}])
def test_items_come_from_any_collection(items):
    """Tuples, sets, ranges and mappings can be run over."""
    result = run(double, inputs={"numbers": items})
    assert sorted(result.result) == [2, 4]


@pytest.mark.parametrize("items", ["text", b"bytes", 7, None])
def test_what_cannot_be_run_over(items):
    """Text and single values are refused, with the step's place."""
    line = double.__wrapped__.__code__.co_firstlineno
    problem = f"each runs over a list, tuple, set or mapping, and {items!r} is a {type(items).__name__}"
    with pytest.raises(InputError) as caught:
        run(total, inputs={"numbers": items})
    assert str(caught.value) == (
        f"input 'numbers', which step 'double' (test_fanout.py:{line}) runs over: {problem}"
    )

    @step(id="made")
    def made():
        return items

    @step(id="over", each={"item": made}, version="1")
    def over(item) -> int:
        return 1

    @step(id="behind")
    def behind(over) -> int:
        return 1

    with pytest.raises(RunFailed) as failed:
        run(behind, strict=not isinstance(items, bytes), on_error="continue")
    if not isinstance(items, bytes):
        [error] = failed.value.exceptions
        assert str(error) == problem
        assert error.__notes__[0].startswith("in step 'over' (test_fanout.py:")
        assert statuses(failed.value) == {"made": "done", "over": "failed", "behind": "blocked"}


def test_a_label_names_instances():
    """``label`` is a function of the item that returns text or an int."""

    @step(id="grow", each={"row": "rows"}, label=lambda row: row["name"])
    def grow(row: dict) -> int:
        return row["size"] + 1

    rows = [{"name": "a/b", "size": 1}, {"name": "c", "size": 2}]
    result = run(grow, inputs={"rows": rows})
    assert [node.id for node in result.trace] == ["grow[a%2Fb]", "grow[c]"]
    # A renamed item is a new one; another with its name is changed.
    rows[1]["size"] = 5
    assert ran(run(grow, inputs={"rows": rows}, snapshot=result)) == ["grow[c]"]


def test_items_without_a_name_are_named_by_a_hash():
    """An item that is neither text nor an int is named by ten hex digits, the same in every run."""
    rows = [{"a": 1}, {"a": 2}, {"a": 1}]

    @step(id="keep", each={"row": "rows"})
    def keep(row: dict) -> dict:
        return row

    ids = [node.id for node in run(keep, inputs={"rows": rows}).trace]
    one, two = (blake2b(b'{"a":%d}' % number, digest_size=16).hexdigest()[:10] for number in (1, 2))
    assert ids == [f"keep[{one}]", f"keep[{two}]", f"keep[{one}~2]"]
    assert ids == [node.id for node in run(keep, inputs={"rows": rows}).trace]


@pytest.mark.parametrize(
    ("items", "one", "other", "label"),
    [
        ([1, "1"], "1", "'1'", "1"),
        (["a~2", "a", "a"], "'a~2'", "'a'", "a~2"),
        ({1: "x", "1": "y"}, "'x'", "'y'", "1"),
    ],
)
def test_different_items_under_one_label_are_an_error(items, one, other, label):
    """Two instances never share an id; the error names both items."""
    with pytest.raises(InputError) as caught:
        run(double, inputs={"numbers": items})
    error = caught.value.__cause__
    assert isinstance(error, GraphError)
    assert str(error) == (
        f"step 'double' would have two instances named {label!r}: for {one} and for {other}. Say label=, a "
        "function of the item that tells them apart."
    )


@given(st.text(max_size=120))
def test_labels_fit_into_ids(label):
    """A label is one line of at most 80 characters without brackets and slashes, whatever it came from."""
    written = encoded(label)
    assert len(written) <= 80
    assert not set(written) & set("[]/\n\0")
    written.encode()


@given(st.lists(st.text(max_size=100), unique=True, max_size=8))
def test_different_texts_have_different_labels(texts):
    """Encoding a label loses nothing."""
    assert len({encoded(text) for text in texts}) == len(texts)


def test_when_is_asked_per_instance():
    """Skipped instances are left out of what collects them, and chained instances are skipped with them."""

    @step(id="odd", each={"number": "numbers"}, when=lambda number: number % 2)
    def odd(number: int) -> int:
        return number

    @step(id="next", each={"number": odd})
    def after_it(number: int) -> int:
        return number

    @step(id="sum")
    def collect(odd: list, after_it: dict) -> int:
        return sum(odd) + len(after_it)

    result = run(collect, inputs={"numbers": [1, 2, 3]})
    assert result.result == 6
    assert statuses(result)["next[2]"] == "skipped"
    assert result.steps["odd"] == [1, 3]
    assert "odd[2]" not in result.steps


def test_failed_instances_run_again_and_the_others_do_not():
    """After a failure in the middle, only what failed and what was not reached runs."""
    source = """
@step(id="work", each={"number": "numbers"}, version="1")
async def work(number: int) -> int:
    if number in broken:
        raise ValueError(number)
    return number
"""
    names: dict = {"step": step, "__name__": "flows", "broken": {2, 4}}
    exec(source, names)
    with pytest.raises(RunFailed) as caught:
        run(names["work"], inputs={"numbers": [1, 2, 3, 4]}, on_error="continue")
    assert list(caught.value.snapshot()) == ["work[1]", "work[3]"]
    names["broken"] = set()
    again = run(names["work"], inputs={"numbers": [1, 2, 3, 4]}, snapshot=caught.value.snapshot())
    assert ran(again) == ["work[2]", "work[4]"]
    assert again.result == [1, 2, 3, 4]


def test_overrides_and_refresh_take_instances():
    """An instance, or a whole each step, can be stood in for and run again."""
    inputs = {"numbers": [1, 2, 3]}
    first = run(total, inputs=inputs)
    assert run(total, inputs=inputs, snapshot=first, overrides={"double[2]": 40}).steps["plus"] == [3, 41, 7]
    result = run(total, inputs=inputs, overrides={"double": [10, 20]})
    assert result.steps["plus"] == [11, 21]
    assert ran(run(total, inputs=inputs, snapshot=first, refresh=["double[2]"])) == ["double[2]"]
    assert ran(run(total, inputs=inputs, snapshot=first, refresh=["double"])) == [
        "double[1]", "double[2]", "double[3]",
    ]  # fmt: skip


def test_another_input_is_shared_by_all_instances():
    """Parameters besides the item are the same for each instance, and re-run all of them when they change."""

    @step(id="scale", each={"number": "numbers"})
    async def scale(number: int, factor: int) -> int:
        return number * factor

    first = run(scale, inputs={"numbers": [1, 2], "factor": 2})
    again = run(scale, inputs={"numbers": [1, 2], "factor": 3}, snapshot=first)
    assert again.result == [3, 6]
    assert ran(again) == ["scale[1]", "scale[2]"]


def test_a_bound_copy_of_an_each_step():
    """A copy runs over the same items with another parameter fixed."""
    other = plus.bind(id="other", more=10)
    result = run(plus, other, inputs={"numbers": [1]})
    assert result.steps["plus[1]"] == 3
    assert result.steps["other[1]"] == 12


@pytest.mark.slow
def test_a_hundred_thousand_instances_are_ordinary():
    """Wide fan-outs are run, collected and reused."""
    numbers = list(range(100_000))
    first = run(total, inputs={"numbers": numbers})
    assert first.result == sum(numbers) * 2 + 100_000
    assert ran(run(total, inputs={"numbers": numbers}, snapshot=first)) == []


def test_a_chained_step_that_also_takes_what_failed_is_blocked_whole():
    """However the items end, an ``each`` step that takes from a failed step is blocked, not left waiting."""

    @step(id="first", each={"number": "numbers"})
    def first(number: int) -> int:
        raise ValueError

    @step(id="second", each={"number": first})
    def second(number: int) -> int:
        return number

    @step(id="third", each={"number": second})
    def third(number: int, first: list) -> int:
        return number

    with pytest.raises(RunFailed) as caught:
        run(third, inputs={"numbers": [1]}, on_error="continue")
    assert statuses(caught.value) == {"first[1]": "failed", "second[1]": "blocked", "third[1]": "blocked"}
    assert caught.value.trace.node("third").status == "blocked"


@pytest.mark.parametrize("first", ["items", "skip"])
def test_a_step_that_is_skipped_as_a_whole_shows_no_items(first: str):
    """Whether its items were known before is a matter of pace, and must not be seen."""
    known, skipped = trio.Event(), trio.Event()

    @step(id="numbers")
    async def numbers() -> list[int]:
        if first == "skip":
            await skipped.wait()
        return [1, 2]

    @step(id="pace")
    async def pace() -> int:
        if first == "items":
            await known.wait()
        return 1

    @step(id="gate", when=lambda pace: False)
    def gate(pace: int) -> int:
        return pace

    @step(id="work", each={"number": numbers})
    def work(number: int, gate: int) -> int:
        return number

    @step(id="more", each={"work": work})
    def more(work: int) -> int:
        return work

    def watch(update: Update) -> None:
        if (update.node.id, update.node.status) == ("numbers", "done"):
            known.set()
        elif (update.node.id, update.node.status) == ("gate", "skipped"):
            skipped.set()

    result = run([more, numbers], on_update=watch)
    assert statuses(result) == {
        "numbers": "done",
        "pace": "done",
        "gate": "skipped",
        "work": "skipped",
        "more": "skipped",
    }
