"""Wiring: how parameters are bound, and what is wrong with a graph."""

from __future__ import annotations

import types

import pytest

from june import Graph, GraphError, graph, run, step


@step(id="module-level")
def module_level() -> str:
    return "from the module"


@step(id="by-name")
def found_by_name() -> str:
    return "found by name"


def ids(built: Graph) -> list[str]:
    return [one.id for one in built.steps]


def line(one) -> int:
    return one.__wrapped__.__code__.co_firstlineno


def values(**given):
    """Make a step for each name that returns the text given."""

    def make(id: str, value: str):
        @step(id=id)
        def function() -> str:
            return value

        return function

    return {name: make(name, value) for name, value in given.items()}


# -- Levels of binding, the first one first.


def test_needs_beats_everything():
    """Level 1: what ``needs`` says, whatever else has the parameter's name."""
    steps = values(plan="by id", other="by needs")

    @step(id="use", needs={"plan": steps["other"]})
    def use(plan: str) -> str:
        return plan

    assert run(use, steps["plan"]).steps["use"] == "by needs"


def test_bind_beats_everything():
    """Level 1: a bound value, whatever else has the parameter's name."""
    steps = values(plan="by id")

    @step(id="use")
    def use(plan: str) -> str:
        return plan

    assert run(use.bind(id="use2", plan="bound"), steps["plan"]).steps["use2"] == "bound"


def test_an_id_beats_a_function_name():
    """Level 2: among the named steps, the id decides before the name of the function."""
    by_id = values(plan="by id")["plan"]

    @step(id="other")
    def plan() -> str:
        return "by function name"

    @step(id="use")
    def use(plan: str) -> str:
        return plan

    assert run(use, by_id, plan).steps["use"] == "by id"


def test_a_named_step_beats_the_scope():
    """Level 2 before 3: a step among the targets, before one that the name was bound to."""
    named = values(plan="named")["plan"]

    @step(id="scoped")
    def plan() -> str:
        return "scoped"

    @step(id="use")
    def use(plan: str) -> str:
        return plan

    assert run(use).steps["use"] == "scoped"
    assert run(use, named).steps["use"] == "named"


def test_the_scope_of_the_decorator_beats_the_module():
    """Level 3 before 4: a step in the function that decorates, before one in the module's globals."""

    @step(id="inner")
    def module_level() -> str:
        return "from the scope"

    @step(id="use")
    def use(module_level: str) -> str:
        return module_level

    assert run(use).result == "from the scope"


def test_the_modules_globals_are_asked():
    """Level 4: a step that the module binds to the parameter's name, when the graph is built."""

    @step(id="use")
    def use(module_level: str, found_by_name: str) -> str:
        return module_level + ", " + found_by_name

    assert run(use).result == "from the module, found by name"


def test_a_step_redefined_in_the_module_is_the_one_used(tmp_path):
    """As in a notebook: globals are read when the graph is built."""
    names: dict = {"step": step, "__name__": "cells"}
    exec("@step(id='plan')\ndef plan() -> int: return 1", names)
    exec("@step(id='use')\ndef use(plan) -> int: return plan", names)
    assert run(names["use"]).result == 1
    exec("@step(id='plan')\ndef plan() -> int: return 2", names)
    assert run(names["use"]).result == 2


def test_an_input_beats_a_default_and_a_step_beats_an_input():
    """Levels 5 and 6: inputs only where no step has the name; defaults only where nothing has."""

    @step(id="use")
    def use(text: str = "default") -> str:
        return text

    assert run(use).result == "default"
    assert run(use, inputs={"text": "given"}).result == "given"
    assert run(use, resources={"text": "resource"}).result == "resource"


def test_a_list_in_needs_gives_a_list():
    """A parameter that needs a list of steps or ids receives a list."""
    steps = values(a="A", b="B")

    @step(id="join", needs={"parts": [steps["a"], "b", "module-level"]})
    def join(parts: list) -> str:
        return "+".join(parts)

    assert run(join, steps["b"]).steps["join"] == "A+B+from the module"


def test_a_bound_step_is_a_dependency():
    """``bind`` takes a step, or a list of steps, as what the parameter needs."""
    steps = values(a="A", b="B")

    @step(id="join")
    def join(parts: list, last: str) -> str:
        return "+".join([*parts, last])

    copy = join.bind(id="copy", parts=[steps["a"], steps["b"]], last=steps["a"])
    assert run(copy).result == "A+B+A"
    assert ids(graph(copy)) == ["a", "b", "copy"]


def test_after_orders_without_data():
    """A step comes after those that ``after`` names, by step or by id."""
    log = []

    @step(id="first", runs_on="inline")
    def first():
        log.append("first")

    @step(id="second", after=[first, "module-level"], runs_on="inline")
    def second():
        log.append("second")

    run(second, first)
    assert log == ["first", "second"]
    assert ids(graph(second)) == ["first", "module-level", "second"]


def test_a_step_does_not_find_itself():
    """A parameter with its own step's name is not that step."""

    @step(id="clean")
    def clean(clean: str) -> str:
        return clean.strip()

    assert run(clean, inputs={"clean": " a "}).result == "a"


# -- Order and targets.


def test_order_is_depth_first_in_target_order():
    """Dependencies stand before what needs them, and targets in the order given."""
    steps = values(a="A", b="B", c="C")

    @step(id="x", needs={"p": steps["b"], "q": steps["a"]})
    def x(p, q): ...

    assert ids(graph(steps["c"], x)) == ["c", "b", "a", "x"]
    assert ids(graph(x, steps["c"])) == ["b", "a", "x", "c"]


def test_targets_are_steps_lists_modules_and_graphs():
    """All that names steps can be run."""
    steps = values(a="A", b="B")
    module = types.ModuleType("flows")
    vars(module).update(steps)
    assert run([steps["a"], steps["b"]]).result == ("A", "B")
    assert run([steps["a"]]).result == ("A",)
    assert run(steps["a"], steps["b"]).result == ("A", "B")
    assert run(module).result == ("A", "B")
    assert run(graph(steps["a"])).result == "A"
    assert run(graph(module), steps["a"]).result == ("A", "B", "A")


def test_only_what_the_targets_need_is_run():
    """Steps that no target needs are not in the graph."""
    assert ids(graph(module_level)) == ["module-level"]


def test_chains_of_any_length_can_be_built():
    """Graphs are walked without recursion."""

    @step(id="link")
    def link(before: int) -> int:
        return before + 1

    last = link.bind(id="0", before=0)
    for number in range(1, 5000):
        last = link.bind(id=str(number), before=last)
    assert len(graph(last)) == 5000


def test_a_graph_says_what_inputs_it_takes():
    """``Graph.inputs`` names what a run may be given, and what it must."""

    @step(id="use")
    def use(must, may=1): ...

    @step(id="over", each={"item": "items"})
    def over(item): ...

    assert dict(graph(use, over).inputs) == {"must": True, "may": False, "items": True}


# -- What is wrong with a graph.


def test_a_missing_input_names_the_near_step():
    """The error says the step, its place, what was looked for, and what may have been meant."""

    @step(id="features")
    def features() -> int:
        return 1

    @step(id="train")
    def train(feautres: int) -> int:
        return feautres

    with pytest.raises(GraphError) as caught:
        run(train, features)
    assert str(caught.value) == (
        f"step 'train' (test_graphs.py:{line(train)}) asks for 'feautres', but no step has that id and the run "
        f"has no such input.\nDid you mean 'features' (test_graphs.py:{line(features)})? For a value given at "
        "the start, pass inputs={'feautres': ...}."
    )


def test_a_missing_input_without_near_names():
    """Without anything near, the error only says how to give the value."""

    @step(id="train")
    def train(zzz): ...

    with pytest.raises(GraphError) as caught:
        run(train)
    assert str(caught.value) == (
        f"step 'train' (test_graphs.py:{line(train)}) asks for 'zzz', but no step has that id and the run has no "
        "such input.\nFor a value given at the start, pass inputs={'zzz': ...}."
    )


def test_a_cycle_is_shown_whole():
    """Steps that wait for each other are listed with what each needs."""

    @step(id="train", needs={"score": "score"})
    def train(score): ...

    @step(id="score", needs={"train": train})
    def score(train): ...

    with pytest.raises(GraphError) as caught:
        graph(score, train)
    assert str(caught.value) == (
        "these steps wait for each other, so none can start:\n"
        f"  'score' (test_graphs.py:{line(score)}) needs 'train'\n"
        f"  'train' (test_graphs.py:{line(train)}) needs 'score'\n"
        "Drop one of these parameters, or split one of the steps."
    )


def test_two_steps_with_one_id():
    """Two steps cannot share an id, also where one is a copy of the other."""
    one = values(same="A")["same"]
    other = values(same="B")["same"]
    with pytest.raises(GraphError) as caught:
        graph(one, other)
    assert str(caught.value) == (
        f"two steps have the id 'same': test_graphs.py:{line(one)} and test_graphs.py:{line(other)}. "
        "Give one of them another id, also if it is a bound copy."
    )


def test_two_candidates_on_one_level():
    """Where a name could mean two steps, the error asks which."""

    @step(id="plan-eu")
    def plan(): ...

    @step(id="use")
    def use(plan): ...

    us = plan.bind(id="plan-us")
    with pytest.raises(GraphError) as caught:
        graph(use, plan, us)
    assert str(caught.value) == (
        f"step 'use' (test_graphs.py:{line(use)}) asks for 'plan', and that is the function of several steps: "
        f"'plan-eu' (test_graphs.py:{line(plan)}) and 'plan-us' (test_graphs.py:{line(plan)}). "
        "Say which with needs={'plan': ...}."
    )


def test_an_unknown_id():
    """An id in ``needs`` or ``after`` that no step has is named, with the near one."""
    steps = values(features="A")

    @step(id="use", needs={"it": "feature"}, after=["nothing like it"])
    def use(it): ...

    with pytest.raises(GraphError) as caught:
        graph(use, steps["features"])
    assert caught.value.problems == (
        f"step 'use' (test_graphs.py:{line(use)}) names 'feature' in needs, but no step has that id. "
        "Did you mean 'features'?",
        f"step 'use' (test_graphs.py:{line(use)}) names 'nothing like it' in after, but no step has that id. "
        "Name the step itself, or add it to the targets.",
    )


def test_an_annotation_that_cannot_be_resolved():
    """A return annotation must mean something when the graph is built."""

    @step(id="use")
    def use() -> NotDefinedAnywhere: ...  # noqa: F821 - on purpose

    with pytest.raises(GraphError) as caught:
        graph(use)
    assert str(caught.value) == (
        f"step 'use' (test_graphs.py:{line(use)}): its return annotation cannot be resolved "
        "(name 'NotDefinedAnywhere' is not defined). Define or import the name where the step's module can see it."
    )


def test_a_type_may_be_declared_after_the_step_in_the_same_function():
    """The decorator's own frame is asked for names that the module does not have."""

    @step(id="use")
    def use() -> Later:
        return Later(1)

    import attrs

    @attrs.frozen
    class Later:
        number: int

    assert run(use, snapshot=run(use)).result == Later(1)


def test_all_problems_are_reported_together():
    """One error lists everything that is wrong, and numbers it."""

    @step(id="a")
    def a(missing): ...

    @step(id="b", needs={"x": "nope"})
    def b(x, absent): ...

    with pytest.raises(GraphError) as caught:
        run(a, b)
    assert len(caught.value.problems) == 3
    assert str(caught.value).startswith("3 problems:\n- step 'b' ")


async def not_yet_a_step(service): ...


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            lambda: not_yet_a_step("web"),
            "run() takes steps, but argument 2 is a coroutine, the result of calling not_yet_a_step(...).\n"
            "Pass not_yet_a_step, not not_yet_a_step(...): the run makes the call and fills its parameters.",
        ),
        (
            lambda: not_yet_a_step,
            "run() takes steps, but argument 2 is the plain function not_yet_a_step.\n"
            "Put @step(id='not_yet_a_step') above its def.",
        ),
        (
            lambda: "a text",
            "run() takes steps, but argument 2 is 'a text' of type str.\n"
            "If that came from calling a step, pass the step itself: the run makes the call.",
        ),
        (
            lambda: [7],
            "run() takes steps, but argument 2 holds 7 of type int.\n"
            "If that came from calling a step, pass the step itself: the run makes the call.",
        ),
        (lambda: types.ModuleType("empty"), "run() takes steps, but module 'empty' names none"),
    ],
)
def test_a_target_that_is_no_step(target, message):
    """What is passed instead of a step is named, with what was meant."""
    with pytest.raises(TypeError) as caught:
        run(module_level, target())
    assert str(caught.value) == message


def test_nothing_to_run():
    """A run without steps is a mistake."""
    with pytest.raises(TypeError, match=r"^graph\(\) takes at least one step$"):
        graph()
