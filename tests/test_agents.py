"""Prompt steps: what is sent, the tools that are called, what counts in the key, and what comes back."""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import threading
from collections.abc import Sequence
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import attrs
import pytest
import trio
import trio.lowlevel

from june import (
    Agent,
    GraphError,
    Image,
    Message,
    ModelError,
    ResultError,
    ResultWarning,
    RunFailed,
    Settings,
    Snapshot,
    ToolError,
    Usage,
    current,
    graph,
    run,
    run_async,
    step,
    tool,
)
from june.messages import Request, Response, ToolCall, ToolResult
from june.testing import ScriptedModel, block_models


def calls(*named: tuple[str, str]) -> list[ToolCall]:
    return [ToolCall(id=str(number), name=name, arguments=text) for number, (name, text) in enumerate(named)]


def asked(agent: Agent, prompt: Any = "go", **options: Any) -> Any:
    """A prompt step of one agent."""

    @step(id="ask", agent=agent, **options)
    def ask() -> Any:
        return prompt

    return ask


def failure(target: Any, **options: Any) -> Exception:
    """What the one step that fails raises."""
    with pytest.raises(RunFailed) as failed:
        run(target, **options)
    (error,) = failed.value.exceptions
    return error


# -- The tour.


def tour(model: ScriptedModel) -> Any:
    writer = Agent(model, instructions="Be brief.")

    @step(id="plan", agent=writer)
    def plan(service: str) -> str:
        return f"Plan the deploy of {service}"

    @step(id="checklist", agent=writer)
    def checklist(plan: str) -> str:
        return f"Write a checklist for:\n{plan}"

    @step(id="count")
    def count(checklist: str) -> int:
        return sum(line.startswith("- ") for line in checklist.splitlines())

    return graph(count, plan)


def test_prompts_are_answered_and_never_asked_twice():
    """A prompt step's result is the model's answer; with the snapshot, no model is asked anything again."""
    model = ScriptedModel(["Deploy web, then api", "- a\n- b"], usage=Usage(requests=1, output_tokens=7))
    first = run(tour(model), inputs={"service": "web"})
    assert first.result == (2, "Deploy web, then api")
    assert [one.messages for one in model.requests] == [
        (Message("Plan the deploy of web"),),
        (Message("Write a checklist for:\nDeploy web, then api"),),
    ]
    assert {one.instructions for one in model.requests} == {"Be brief."}
    assert first.usage == Usage(requests=2, output_tokens=14) and first.reused_usage == Usage()

    saved = Snapshot.from_json(first.snapshot().to_json())
    with block_models():
        second = run(tour(ScriptedModel([])), inputs={"service": "web"}, snapshot=saved)
    assert second.steps == first.steps
    assert second.usage == Usage() and second.reused_usage == first.usage
    node = second.trace.node("plan")
    assert (node.kind, node.resumed, node.model, node.usage, node.children) == (
        "prompt",
        True,
        None,
        None,
        (),
    )


def test_a_failed_prompt_step_resumes_where_it_was():
    """Only what was not answered is asked in the next run."""
    model = ScriptedModel(["Deploy web", ModelError("no")])
    with pytest.raises(RunFailed) as failed:
        run(tour(model), inputs={"service": "web"})
    again = ScriptedModel(["- a"])
    with pytest.raises(RunFailed) as once_more:
        run(
            tour(ScriptedModel([ModelError("no")])),
            inputs={"service": "web"},
            snapshot=failed.value.snapshot(),
        )
    assert failed.value.reused_usage == Usage() and once_more.value.reused_usage == Usage(requests=1)
    result = run(tour(again), inputs={"service": "web"}, snapshot=failed.value.snapshot())
    assert result.result == (1, "Deploy web")
    assert [one.messages[0].text for one in again.requests] == ["Write a checklist for:\nDeploy web"]


def test_what_a_snapshot_says_of_a_prompt_step():
    """The parts of its key are the prompt, the settings, the tools and the output; the model and usage are told."""
    agent = Agent(ScriptedModel(["x"], usage=Usage(requests=1, input_tokens=3)), tools=[add])
    entry = run(asked(agent, output=str)).snapshot().to_dict()["steps"]["ask"]
    assert list(entry["parts"]) == ["prompt", "settings", "tools", "output"]
    assert entry["meta"]["model"] == "scripted"
    assert entry["meta"]["usage"] == {"requests": 1, "input_tokens": 3}


# -- Prompts.


def test_prompts_may_be_messages_with_images(tmp_path):
    """A message has texts and images; files are read when the prompt is rendered, and count by their bytes."""
    png = b"\x89PNG\r\n\x1a\n" + b"x" * 10
    (tmp_path / "a.png").write_bytes(png)
    model = ScriptedModel(["one", "two", "three"])
    prompt = [
        Message(["Look: ", Image(tmp_path / "a.png")]),
        Message("I see.", role="assistant"),
        Message([Image(png), Image("https://example.org/a.png")]),
    ]
    first = run(asked(Agent(model), prompt))
    assert model.requests[0].messages == (
        Message(["Look: ", Image(png, "image/png")]),
        Message("I see.", role="assistant"),
        Message([Image(png, "image/png"), Image("https://example.org/a.png")]),
    )
    (tmp_path / "b.png").write_bytes(png)
    prompt[0] = Message(["Look: ", Image(tmp_path / "b.png")])
    assert run(asked(Agent(model), prompt), snapshot=first).trace.node("ask").resumed
    (tmp_path / "b.png").write_bytes(png + b"y")
    assert run(asked(Agent(model), prompt), snapshot=first).trace.node("ask").reason == "prompt changed"


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (7, "a prompt step's function returns the prompt, a str, a Message or a list of Messages, not 7"),
        ([], "a prompt step's function returned no message"),
        (
            ["a"],
            "a prompt step's function returns the prompt, a str, a Message or a list of Messages, not ['a']; "
            "the texts and images of one message go into Message([...])",
        ),
    ],
)
def test_what_is_no_prompt_fails_the_step(prompt: object, message: str):
    """The step fails before any model is asked."""
    error = failure(asked(Agent(ScriptedModel([])), prompt))
    assert isinstance(error, TypeError) and str(error) == message


def test_a_prompt_that_raises_fails_the_step():
    """What the function raises is the step's failure, with the step's name."""

    @step(id="ask", agent=Agent(ScriptedModel([])))
    def ask() -> str:
        raise KeyError("nothing to ask")

    error = failure(ask)
    assert isinstance(error, KeyError) and error.__notes__[0].startswith("in step 'ask' (test_agents.py:")


@pytest.mark.parametrize("role", ["system", "tool", 7])
def test_roles_are_checked(role: Any):
    """Only users and assistants speak in a prompt."""
    with pytest.raises(ValueError, match="a message's role is 'user' or 'assistant', not "):
        Message("x", role=role)


# -- Structured output.


@attrs.frozen
class Place:
    city: str
    population: int | None


def test_answers_are_read_by_the_type_that_was_asked_for():
    """With ``output`` the model is given a schema, and its JSON becomes a value of the type, also when resumed."""
    model = ScriptedModel([{"city": "Paris", "population": 2}])
    first = run(asked(Agent(model), output=Place))
    assert first.result == Place("Paris", 2)
    schema = model.requests[0].output
    assert schema is not None and schema["type"] == "object" and "city" in schema["properties"]
    assert run(asked(Agent(ScriptedModel([])), output=Place), snapshot=first).result == Place("Paris", 2)


def test_a_list_can_be_asked_for():
    """What is no JSON object is asked for in one."""
    model = ScriptedModel([{"result": [1, 2]}])
    assert run(asked(Agent(model), output=list[int])).result == [1, 2]


def test_a_wrong_answer_is_told_and_asked_for_again():
    """The model hears what was wrong; the second answer counts, and both requests are paid."""
    model = ScriptedModel(['{"city": 7, "population": 1}', '{"city": "Rome", "population": null}'])
    result = run(asked(Agent(model), output=Place))
    assert result.result == Place("Rome", None) and result.usage.requests == 2
    answer, told = model.requests[1].messages[1:]
    assert isinstance(answer, Response) and answer.text.startswith('{"city": 7')
    assert isinstance(told, Message) and told.role == "user"
    assert "7" in told.text and "str" in told.text
    assert [child.id for child in result.trace.node("ask").children] == ["ask/request[1]", "ask/request[2]"]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_wrong_answers_are_not_asked_for_for_ever(retries: int):
    """After ``output_retries`` the step fails, and the error has the last text."""
    model = ScriptedModel(lambda request: f"no json {len(request.messages)}")
    error = failure(asked(Agent(model, output_retries=retries), output=Place))
    assert isinstance(error, ModelError)
    assert error.text == f"no json {2 * retries + 1}"
    assert len(model.requests) == retries + 1
    assert "model 'scripted' gave an answer that is not what was asked for" in str(error)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            "length",
            "model 'scripted' was cut off in the middle of its answer, at the longest that its server or its "
            "context allows",
        ),
        ("refusal", "model 'scripted' refused: half of"),
        ("content_filter", "the answer of model 'scripted' was held back by a content filter"),
    ],
)
def test_half_an_answer_is_none(reason: Any, message: str):
    """What is cut off, refused or held back fails the step, though there is text."""
    error = failure(asked(Agent(ScriptedModel([Response(text="half of", finish_reason=reason)]))))
    assert isinstance(error, ModelError) and (str(error), error.text) == (message, "half of")


def test_an_answer_that_is_cut_off_names_the_setting_that_did_it():
    """One's own limit is what one can raise."""
    cut = Response(text="half of", finish_reason="length")
    error = failure(asked(Agent(ScriptedModel([cut])), settings=Settings(max_tokens=7)))
    assert str(error) == (
        "model 'scripted' was cut off in the middle of its answer, at Settings(max_tokens=7)"
    )


# -- Tools.


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def test_tools_are_called_and_their_results_go_back_in_order():
    """All calls of one answer run at once; the model gets the results in the order of its calls."""
    seen = []
    both = trio.Event()

    @tool
    async def slow(number: int) -> str:
        """Wait for the other."""
        seen.append(number)
        if len(seen) == 2:
            both.set()
        await both.wait()
        return f"was {number}"

    model = ScriptedModel(
        [calls(("slow", '{"number": 1}'), ("add", '{"a": 2}'), ("slow", '{"number": 2}')), "ok"]
    )
    result = run(asked(Agent(model, tools=[add, slow])))
    assert result.result == "ok"
    assert model.requests[1].messages[2:] == (
        ToolResult(id="0", name="slow", content="was 1"),
        ToolResult(id="1", name="add", content="3"),
        ToolResult(id="2", name="slow", content="was 2"),
    )
    children = result.trace.node("ask").children
    assert [(one.id, one.kind, one.status) for one in children] == [
        ("ask/request[1]", "request", "done"),
        ("ask/slow[1]", "tool", "done"),
        ("ask/add[1]", "tool", "done"),
        ("ask/slow[2]", "tool", "done"),
        ("ask/request[2]", "request", "done"),
    ]
    assert children[2].result == 3


def test_what_a_model_gets_wrong_it_is_told():
    """A tool that is not there, arguments that do not fit, and a `ToolError` go back to the model as errors."""

    @tool
    def fails(text: str) -> str:
        """Fail."""
        raise ToolError(f"cannot {text}")

    model = ScriptedModel(
        [calls(("ad", "{}"), ("add", '{"a": "x"}'), ("add", '{"a": 1'), ("fails", '{"text": "go"}')), "ok"]
    )
    result = run(asked(Agent(model, tools=[add, fails])))
    results = model.requests[1].messages[2:]
    assert all(isinstance(one, ToolResult) and one.is_error for one in results)
    texts = [one.content for one in results if isinstance(one, ToolResult)]
    assert texts[0] == "There is no tool 'ad'; did you mean 'add'? There are: add, fails."
    assert texts[1] == "The arguments cannot be used: a: expected an int, found the string 'x'"
    assert texts[2].startswith("The arguments cannot be used: ") and "cut off" in texts[2]
    assert texts[3] == "cannot go"
    assert [one.status for one in result.trace.node("ask").children] == ["done", *["failed"] * 4, "done"]


def test_any_other_exception_of_a_tool_fails_the_step():
    """It is the step's failure as it is; the other tools of the answer are cancelled."""
    cancelled = []

    @tool
    async def waits() -> str:
        """Wait."""
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(True)
        return ""

    @tool
    async def breaks() -> str:
        """Break."""
        raise KeyError("broken")

    error = failure(
        asked(Agent(ScriptedModel([calls(("waits", ""), ("breaks", ""))]), tools=[waits, breaks]))
    )
    assert isinstance(error, KeyError) and cancelled == [True]


def test_tools_fail_with_all_that_they_raise():
    """A group that a tool raises stays one; of two that fail, neither is lost; Cancelled is no way to fail."""

    @tool
    async def group() -> str:
        """Raise a group."""
        raise ExceptionGroup("g", [ValueError("a"), KeyError("b")])

    @tool
    async def first() -> str:
        """Fail, whatever cancels it."""
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("first")

    @tool
    async def second() -> str:
        """Fail."""
        raise KeyError("second")

    @tool
    async def cancels() -> str:
        """Raise what is trio's to raise."""
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                kept = error
        raise kept

    def calling(*tools: Any) -> Any:
        model = ScriptedModel([calls(*((one.name, "") for one in tools))])
        return failure(asked(Agent(model, tools=tools)))

    error = calling(group)
    assert isinstance(error, ExceptionGroup) and [type(one) for one in error.exceptions] == [
        ValueError,
        KeyError,
    ]
    error = calling(first, second)
    assert isinstance(error, ExceptionGroup) and [str(one) for one in error.exceptions] == [
        "first",
        "'second'",
    ]
    assert str(calling(cancels)).startswith(
        "tool 'cancels' raised Cancelled, which would end more than the tool"
    )


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (None, "None, not a Response"),
        (Response(text=None), "a Response whose text or model is not a str"),  # type: ignore[arg-type]
        (Response(finish_reason="error"), "a Response whose finish_reason is 'error'"),  # type: ignore[arg-type]
        (Response(finish_reason="tool_calls"), "a Response that says it calls tools, and calls none"),
        (Response(usage=None), "a Response whose usage is None"),  # type: ignore[arg-type]
        (Response(finish_reason=["stop"]), "a Response whose finish_reason is ['stop']"),  # type: ignore[arg-type]
        (Response(tool_calls=None), "a Response whose tool_calls are no ToolCalls of texts"),  # type: ignore[arg-type]
        (
            Response(tool_calls=(ToolCall(id="1", name="add", arguments=None),)),  # type: ignore[arg-type]
            "a Response whose tool_calls are no ToolCalls of texts",
        ),
    ],
)
def test_a_response_is_checked(response: Any, message: str):
    """Models are anybody's; what is no answer is not taken for one."""

    class Odd:
        name = "odd"
        settings_key = "odd"

        async def respond(self, request: Request) -> Any:
            return response

    with pytest.raises(RunFailed) as failed:
        run(asked(Agent(Odd(), tools=[add])))
    (error,) = failed.value.exceptions
    assert isinstance(error, ModelError) and str(error).startswith(f"model 'odd' gave {message}")
    assert failed.value.usage == Usage(requests=1)  # it was asked all the same


def test_what_a_model_calls_itself_can_be_written():
    """A name that UTF-8 cannot hold is no reason to lose an answer, nor is a usage that forgets its request."""
    answer = Response(text="x", model="\ud800", usage=Usage(input_tokens=5))
    model = ScriptedModel([calls(("\ud800", "{}")), answer])
    result = run(asked(Agent(model)))
    assert result.result == "x" and result.usage == Usage(requests=2, input_tokens=5)
    assert result.trace.to_json() and result.snapshot().to_json()


def test_plain_tools_run_in_threads_and_know_their_step():
    """A ``def`` does not stop the event loop, and `current` is the prompt step."""
    here = threading.get_ident()

    @tool
    def where() -> str:
        """Say where."""
        return f"{threading.get_ident() != here} {current().id}"

    model = ScriptedModel([calls(("where", "")), "ok"])
    run(asked(Agent(model, tools=[where])))
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResult) and result.content == "True ask"


def test_a_tool_is_not_told_to_stop_while_another_waits():
    """A step that waits for a person's answer about one tool is not cancelled for the others."""
    seen = []

    @tool
    def looks() -> str:
        """Look."""
        asked_for.wait(60)
        seen.append(current().cancelled)
        looked.set()
        return ""

    @tool(approval=True)
    def pays() -> str:
        """Pay."""
        return ""

    asked_for, looked = threading.Event(), threading.Event()

    async def on_approval(request: Any) -> bool:
        asked_for.set()
        await trio.to_thread.run_sync(looked.wait)
        return True

    model = ScriptedModel([calls(("looks", ""), ("pays", "")), "ok"])
    run(asked(Agent(model, tools=[looks, pays])), on_approval=on_approval)
    assert seen == [False]


def test_tools_for_ever_are_an_error():
    """A model that only calls tools is stopped at ``max_turns``."""
    model = ScriptedModel(lambda request: calls(("add", '{"a": 1}')))
    error = failure(asked(Agent(model, tools=[add], max_turns=3)))
    assert str(error) == (
        "model 'scripted' called tools in 3 answers, which is all that max_turns allows, and gave no answer"
    )
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("asked_for", "then"), [("required", "auto"), ("add", "auto"), ("none", "none"), (None, None)]
)
def test_a_tool_that_must_be_called_is_called_once(asked_for: str | None, then: str | None):
    """A model that was made to call a tool each time could never answer."""
    model = ScriptedModel([calls(("add", '{"a": 1}')), "2"])
    agent = Agent(model, tools=[add], settings=Settings(tool_choice=asked_for))
    assert run(asked(agent)).result == "2"
    assert [one.settings.tool_choice for one in model.requests] == [asked_for, then]


def test_steps_have_tools_and_settings_of_their_own():
    """They come beside, and over, the agent's."""
    model = ScriptedModel(["ok"])
    agent = Agent(
        model, tools=[add], settings=Settings(temperature=0.5, max_tokens=9, extra={"a": 1, "b": 1})
    )

    def look(path: str) -> str:
        """Look."""
        return path

    run(asked(agent, tools=[look], settings=Settings(temperature=0.0, stop="END", extra={"b": 2})))
    request = model.requests[0]
    assert [one.name for one in request.tools] == ["add", "look"]
    assert request.settings == Settings(temperature=0.0, max_tokens=9, stop=("END",), extra={"a": 1, "b": 2})


def test_an_agent_may_depend_on_parameters():
    """``agent=`` as a function is asked with the step's own values."""
    models = {"short": ScriptedModel(["s"], name="small"), "long": ScriptedModel(["l"], name="large")}

    @step(id="ask", agent=lambda size: Agent(models[size]))
    def ask(size: str, text: str) -> str:
        return text

    first = run(ask, inputs={"size": "short", "text": "x"})
    assert first.result == "s"
    second = run(ask, inputs={"size": "long", "text": "x"}, snapshot=first)
    assert (second.result, second.trace.node("ask").reason) == ("l", "model changed")


# -- Keys.


def base_agent(**changes: Any) -> Agent:
    return Agent(
        **{"model": ScriptedModel(lambda request: "1"), "instructions": "i", "tools": [add], **changes}
    )


@tool
def other() -> str:
    """Do something else."""
    return ""


@tool(name="add")
def add_otherwise(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return b + a


@tool(name="add", description="Add.")
def add_described(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="add")
def add_more(a: int, b: int = 1, c: int = 0) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"prompt": "Go"}, "prompt changed"),
        ({"agent": {"instructions": "j"}}, "prompt changed"),
        ({"agent": {"model": ScriptedModel(lambda request: "1", name="other")}}, "model changed"),
        *[
            ({"agent": {"settings": Settings(**{name: value})}}, f"setting {name!r} changed")
            for name, value in {
                "temperature": 0.1, "top_p": 0.1, "max_tokens": 5, "stop": ["x"], "seed": 1, "reasoning": "low",
                "tool_choice": "auto", "parallel_tools": False, "extra": {"x": 1},
            }.items()
        ],
        ({"settings": Settings(seed=2)}, "setting 'seed' changed"),
        ({"agent": {"tools": []}}, "tool 'add' is gone"),
        ({"agent": {"tools": [add, other]}}, "tool 'other' is new"),
        ({"agent": {"tools": [add_otherwise]}}, "tool 'add' changed: code"),
        ({"agent": {"tools": [add_described]}}, "tool 'add' changed: description"),
        ({"agent": {"tools": [add_more]}}, "tool 'add' changed: schema"),
        ({"agent": {"tools": [other, add]}}, "tool 'other' is new"),
        ({"output": Literal[1, 2]}, "output type changed"),
        ({"vary": 7}, "vary changed"),
    ],
)  # fmt: skip
def test_what_changes_a_key(changed: dict[str, Any], reason: str):
    """Each thing that the model is told, or that a tool does, is in the key; the reason names it."""
    first = run(asked(base_agent()))
    options = {name: value for name, value in changed.items() if name not in ("agent", "prompt")}
    again = asked(base_agent(**changed.get("agent", {})), changed.get("prompt", "go"), **options)
    node = run(again, snapshot=Snapshot.from_json(first.snapshot().to_json())).trace.node("ask")
    assert not node.resumed and node.reason == reason


RATE = 2


@tool
def convert(amount: int) -> int:
    """Convert."""
    return amount * RATE


def test_a_changed_tool_names_what_it_uses(monkeypatch: pytest.MonkeyPatch):
    """Where the tool itself is as it was, the helper or the constant that is not is named."""
    agent = base_agent(tools=[add, convert])
    first = run(asked(agent))
    assert run(asked(agent), snapshot=first).trace.node("ask").resumed
    monkeypatch.setitem(globals(), "RATE", 3)
    saved = Snapshot.from_json(first.snapshot().to_json())
    assert run(asked(agent), snapshot=saved).trace.node("ask").reason == (
        "tool 'convert' changed: code (constant RATE in test_agents.py)"
    )


def test_what_settings_and_tools_are_made_of_is_written_once():
    """A snapshot has the pieces of tools once, however many settings they are asked with."""
    model = ScriptedModel(lambda request: "1")

    @step(
        id="ask",
        agent=lambda n: Agent(model, tools=[add, convert], settings=Settings(seed=n)),
        each={"n": "ns"},
    )
    def ask(n: int) -> str:
        return "go"

    saved = run(ask, inputs={"ns": list(range(20))}).snapshot().to_dict()
    rows = saved["code"].values()
    assert len(rows) == 21 and sum("tool 'convert': schema" in row for row in rows) == 1
    assert sum("setting 'seed'" in row for row in rows) == 20


def test_a_step_of_another_kind_says_so():
    """What was asked of a model is worked out by a function now, or the other way around."""

    @step(id="ask")
    def ask() -> str:
        return "go"

    prompt = asked(Agent(ScriptedModel(["x", "x"])))
    assert run(prompt, snapshot=run(ask)).trace.node("ask").reason == "it is a prompt step now"
    assert run(ask, snapshot=run(prompt)).trace.node("ask").reason == "it is a function step now"


def test_a_snapshot_that_does_not_say_what_settings_are_made_of():
    """A code table may have been cut down by hand; what is not known is not guessed."""
    saved = run(asked(base_agent())).snapshot().to_dict()
    saved["code"] = {name: row for name, row in saved["code"].items() if "model" not in row}
    again = asked(base_agent(settings=Settings(seed=1)))
    assert run(again, snapshot=Snapshot.from_dict(saved)).trace.node("ask").reason == "settings changed"


def test_the_order_of_what_is_sent_counts():
    """A model answers in the order in which a schema says what to answer."""

    def shape(*names: str) -> Settings:
        return Settings(
            extra={"response_format": {"properties": {name: {"type": "string"} for name in names}}}
        )

    first = run(asked(base_agent(settings=shape("reasoning", "answer"))))
    node = run(asked(base_agent(settings=shape("answer", "reasoning"))), snapshot=first).trace.node("ask")
    assert node.reason == "setting 'extra' changed"


def test_of_several_changes_the_model_is_named_first():
    """A setting that is not there any more is named too."""
    first = run(asked(base_agent(settings=Settings(temperature=0.5, seed=1))))
    other = ScriptedModel(lambda request: "1", name="other")

    def reason(**changes: Any) -> str | None:
        return run(asked(base_agent(**changes)), snapshot=first).trace.node("ask").reason

    assert reason(model=other) == "model changed"
    assert reason(settings=Settings(seed=1)) == "setting 'temperature' changed"
    assert reason(settings=Settings(temperature=0.0, seed=1)) == "setting 'temperature' changed"


def test_what_is_sent_alike_counts_alike():
    """A tuple is a list in a request, and a number that is a key is a text."""
    first = run(asked(base_agent(settings=Settings(extra={"bias": {"50256": -100}, "stop": ["a"]}))))
    again = base_agent(settings=Settings(extra={"bias": {50256: -100}, "stop": ("a",)}))
    assert run(asked(again), snapshot=first).trace.node("ask").resumed


def test_a_model_may_change_the_settings_it_is_given():
    """It builds a body of them, say; neither the agent nor the next request sees it."""

    class Builds(ScriptedModel):
        async def respond(self, request: Request) -> Response:
            assert request.settings.extra == {"nested": {"a": 1}}
            request.settings.extra["nested"]["a"] = 2  # type: ignore[index]
            request.settings.extra.clear()  # type: ignore[attr-defined]
            return await super().respond(request)

    agent = Agent(Builds([calls(("add", '{"a": 1}')), "x", "y"]), tools=[add])
    agent = attrs.evolve(agent, settings=Settings(extra={"nested": {"a": 1}}))
    first = run(asked(agent))
    assert agent.settings.extra == {"nested": {"a": 1}}
    assert run(asked(agent), snapshot=first).trace.node("ask").resumed


def test_settings_that_change_while_somebody_is_asked_are_not_sent():
    """What is sent is what the key was made of."""
    extra = {"nested": {"a": 1}}
    model = ScriptedModel(["x"])

    def on_approval(request: Any) -> bool:
        extra["nested"]["a"] = 2
        return True

    run(asked(Agent(model, settings=Settings(extra=extra)), approval=True), on_approval=on_approval)
    assert model.requests[0].settings.extra == {"nested": {"a": 1}}


@pytest.mark.parametrize("strict", [False, True])
def test_what_cannot_be_saved_under_strict_is_not_paid_for(strict: bool):
    """Where a warning is an error, the step fails before its model is asked."""
    model = ScriptedModel(["x"])
    target = asked(Agent(model, settings=Settings(extra={"odd": object()})))
    assert isinstance(failure(target, strict=strict), ResultError if strict else ResultWarning)
    assert not model.requests


def test_an_unsaved_step_needs_no_key():
    """Nobody misses what was not to be saved."""
    target = asked(Agent(ScriptedModel(["x"]), settings=Settings(extra={"odd": object()})), save=False)
    assert run(target, strict=True).result == "x"


@pytest.mark.parametrize("prepare", [None, lambda: 1, lambda: 1 / 0], ids=["none", "not async", "raises"])
def test_a_model_that_cannot_be_made_ready_fails_nothing_else(prepare: Any):
    """What is wrong with it, its own step meets."""
    model = ScriptedModel(["x"])
    model.__june_prepare__ = prepare  # type: ignore[attr-defined]
    assert run(asked(Agent(model))).result == "x"


def test_a_model_that_is_stood_in_for_is_not_waited_for():
    """A step with an override renders nothing."""

    class Slow(ScriptedModel):
        async def __june_prepare__(self) -> None:
            await trio.sleep_forever()

    @step(id="shout")
    def shout(ask: str) -> str:
        return ask + "!"

    assert run([shout, asked(Agent(Slow([])))], overrides={"ask": "hi"}).result == ("hi!", "hi")


async def test_a_model_is_made_ready_before_anything_renders():
    """What its key needs may take its time, which is not the event loop's."""
    told: list[str] = []

    class Slow(ScriptedModel):
        async def __june_prepare__(self) -> None:
            told.append("prepares")
            await trio.lowlevel.checkpoint()
            told.append("ready")

        @property
        def settings_key(self) -> Any:
            told.append("key")
            return "slow"

    assert (await run_async(asked(Agent(Slow(["x"]))))).result == "x"
    assert told[:3] == ["prepares", "ready", "key"]


@pytest.mark.parametrize(
    "changed",
    [
        {"agent": {"output_retries": 7}},
        {"agent": {"max_turns": 3}},
        {"retry": 3},
        {"timeout": 60},
        {"when": lambda: True},
        {"agent": {"model": ScriptedModel([])}},
    ],
)
def test_what_changes_no_key(changed: dict[str, Any]):
    """How often to try, and how long to wait, is in no key, nor is which object the model is."""
    from june import Retry

    first = run(asked(base_agent()))
    options = {name: value for name, value in changed.items() if name != "agent"}
    if "retry" in options:
        options["retry"] = Retry(options["retry"])
    again = asked(base_agent(**changed.get("agent", {})), **options)
    assert run(again, snapshot=first).trace.node("ask").resumed


def test_without_a_key_the_model_is_asked_and_nothing_is_saved():
    """Where a part of the key cannot be computed, there is none: the step runs, and says why it is not saved."""
    target = asked(Agent(ScriptedModel(["x", "y"]), settings=Settings(extra={"odd": object()})))
    with pytest.warns(
        ResultWarning, match=r"^the result of step 'ask' \(.*\) is not saved: it has no cache key: TypeError"
    ):
        result = run(target)
    assert result.result == "x" and len(result.snapshot()) == 0
    assert result.trace.node("ask").reason == (
        "no cache key: TypeError: Object of type object is not JSON serializable"
    )
    with pytest.raises(RunFailed) as raised:
        run(target, strict=True)
    assert isinstance(raised.value.exceptions[0], ResultError)


def test_the_code_that_renders_is_in_no_key():
    """A prompt step is keyed by the prompt it renders."""
    model = ScriptedModel(["x"])

    @step(id="ask", agent=Agent(model))
    def ask(name: str) -> str:
        return f"Hello {name}"

    first = run(ask, inputs={"name": "you"})

    @step(id="ask", agent=Agent(model))
    def ask(name: str, unused: int = 3) -> str:  # type: ignore[no-redef]
        words = ["Hello", name]
        return " ".join(words)

    assert run(ask, inputs={"name": "you"}, snapshot=first).trace.node("ask").resumed


def test_the_return_annotation_of_a_tool_counts():
    """It says in which form the model is told a result."""

    def plain(x: int) -> dict[int, str]:
        """T."""
        return {1: "a"}

    def other(x: int):  # type: ignore[no-untyped-def]
        """T."""
        return {1: "a"}

    other.__name__ = "plain"
    model = ScriptedModel(lambda request: "x")
    first = run(asked(Agent(model, tools=[plain])))
    node = run(asked(Agent(model, tools=[other])), snapshot=first).trace.node("ask")
    assert node.reason == "tool 'plain' changed: code"


def test_what_a_tool_did_to_its_object_is_in_no_key_of_the_run():
    """What a method is bound to is read once for all steps, so a resumed run computes the same keys."""

    class Memory:
        def __init__(self) -> None:
            self.items: list[str] = []

        @tool
        def keep(self, text: str) -> str:
            """Keep it."""
            self.items.append(text)
            return "kept"

    def steps() -> Any:
        memory = Memory()

        @step(
            id="first",
            agent=Agent(ScriptedModel([calls(("keep", '{"text": "a"}')), "1"]), tools=[memory.keep]),
        )
        def first() -> str:
            return "one"

        def with_memory(first: str) -> Agent:
            return Agent(ScriptedModel(["2"]), tools=[memory.keep])

        @step(id="second", agent=Agent(ScriptedModel(["2"]), tools=[memory.keep]))
        def second(first: str) -> str:
            return "two"

        @step(id="third", agent=with_memory)
        def third(first: str) -> str:
            return "three"

        return second, third

    done = run(*steps())
    assert run(*steps(), snapshot=done).reused_usage.requests == 4


def test_a_model_may_change_what_it_is_asked_with():
    """Schemas are its own copies: no key, and no later request, knows of it."""

    class Shim:
        name = "shim"
        settings_key = {"provider": "own"}  # noqa: RUF012 # as a user would write it

        async def respond(self, request: Request) -> Response:
            assert request.output is not None and "title" not in request.output
            request.output["title"] = "changed"
            for one in request.tools:
                assert "title" not in one.schema
                one.schema["title"] = "changed"
            return Response(text='{"x": 1}')

    @attrs.frozen
    class Answer:
        x: int

    target = asked(Agent(Shim(), tools=[add]), output=Answer)
    done = run(target)
    assert run(target, snapshot=done).trace.node("ask").resumed
    assert run(target).result == Answer(1)


def test_a_prompt_is_rendered_after_what_it_comes_after():
    """What `after` names may make what the function reads."""
    order = []

    @step(id="download")
    async def download() -> int:
        await trio.lowlevel.checkpoint()
        order.append("download")
        return 1

    @step(id="ask", agent=Agent(ScriptedModel(["yes"] * 2)), after=[download])
    def ask() -> str:
        order.append("render")
        return "Is it there?"

    done = run(ask)
    assert order == ["download", "render"]
    order.clear()
    resumed = run(ask, snapshot=done)
    assert order == ["render"] and [node.resumed for node in resumed.trace] == [True, True]


def test_settings_have_numbers_for_keys():
    """They are texts in the body of a request, and so in the key; NaN is not None."""
    model = ScriptedModel(lambda request: "x")
    first = run(asked(Agent(model, settings=Settings(extra={"logit_bias": {50256: -100}}))))
    again = asked(Agent(model, settings=Settings(extra={"logit_bias": {"50256": -100}})))
    assert run(again, snapshot=first).trace.node("ask").resumed


def test_caveats_tell_what_a_tool_hides():
    """What cannot be seen into counts by its type only, in a tool's code too."""
    hidden = threading.Lock()

    @tool
    def locked() -> str:
        """Lock."""
        with hidden:
            return ""

    (caveat,) = run(asked(Agent(ScriptedModel(["x"]), tools=[locked]))).trace.node("ask").caveats
    assert "hidden" in caveat and "lock" in caveat


def shouting(convert: Any) -> Any:
    @attrs.frozen
    class Shout:
        text: str = attrs.field(converter=convert)

    return Shout


def test_the_classes_of_the_answer_count():
    """What a class does to the fields makes the value, so its code is in the key; ``version`` vouches for it."""
    agent = Agent(ScriptedModel(lambda request: {"text": "Ab"}))
    loud, quiet = shouting(str.upper), shouting(str.lower)
    first = run(asked(agent, output=loud))
    assert first.result == loud("AB")
    second = run(asked(agent, output=quiet), snapshot=first)
    assert second.result == quiet("ab") and second.trace.node("ask").reason == "output type changed"
    vouched = run(asked(agent, output=loud, version="1"))
    assert run(asked(agent, output=quiet, version="1"), snapshot=vouched).trace.node("ask").resumed


def test_version_stands_in_for_the_code_of_tools():
    """With ``version`` the user vouches for the tools' code; what the model sees of them still counts."""
    first = run(asked(base_agent(), version="1"))
    again = asked(base_agent(tools=[add_otherwise]), version="1")
    assert run(again, snapshot=first).trace.node("ask").resumed
    described = run(asked(base_agent(tools=[add_described]), version="1"), snapshot=first).trace.node("ask")
    assert described.reason == "tool 'add' changed: description"
    for options in ({"version": "2"}, {}):
        assert (
            run(asked(base_agent(), **options), snapshot=first).trace.node("ask").reason == "version changed"
        )


# -- Slots, updates, retries of steps.


class Waits:
    """A model that waits before it answers, as after a 429."""

    name = "waits"
    settings_key = "waits"

    async def respond(self, request: Request) -> Response:
        request.call.spent(Usage(requests=1, input_tokens=5))
        await request.call.wait(100, "it is busy")
        request.call.text("all ")
        request.call.restart()
        request.call.text("well")
        return Response(
            text="well", usage=Usage(requests=1, input_tokens=5, output_tokens=2), model="waits-2"
        )


async def test_a_wait_gives_the_slot_back(autojump_clock):
    """While models wait, others get their slots; each has one again before it goes on."""
    running = []

    @step(id="ask", agent=Agent(Waits()), each={"n": "ns"})
    def ask(n: int) -> str:
        return str(n)

    @step(id="work", each={"n": "ns"})
    async def work(n: int) -> int:
        running.append(n)
        assert len(running) == 1
        await trio.sleep(10)
        running.remove(n)
        return n

    start = trio.current_time()
    result = await run_async([ask, work], inputs={"ns": list(range(10))}, concurrency=1)
    # Ten steps of work one after the other take 100 seconds, in which all the models wait.
    assert trio.current_time() - start == 100
    assert result.usage == Usage(requests=20, input_tokens=100, output_tokens=20)
    node = result.trace.node("ask[3]")
    assert (node.model, node.notes) == ("waits-2", ("waits 1 min 40 s: it is busy",))
    assert node.usage == Usage(requests=2, input_tokens=10, output_tokens=2)


async def test_a_wait_can_be_cancelled(autojump_clock):
    """A deadline ends it, and slots are whole again."""

    @step(id="ask", agent=Agent(Waits()), timeout=10, each={"n": "ns"})
    def ask(n: int) -> str:
        return str(n)

    @step(id="after", after=[ask])
    async def after() -> int:
        await trio.sleep(1)
        return 1

    @step(id="beside", each={"n": "ns"})
    async def beside(n: int) -> int:
        await trio.sleep(50)
        return 1

    with pytest.raises(RunFailed) as failed:
        await run_async([ask, beside], inputs={"ns": [1, 2, 3]}, concurrency=2, on_error="continue")
    statuses = {node.id: node.status for node in failed.value.trace}
    assert statuses == {
        **{f"ask[{n}]": "failed" for n in (1, 2, 3)},
        **{f"beside[{n}]": "done" for n in (1, 2, 3)},
    }
    assert failed.value.usage == Usage(requests=3, input_tokens=15)


async def test_text_reaches_on_update_as_it_comes(autojump_clock):
    """What was told of an answer that is asked for anew is taken back."""
    told = []
    await run_async(
        asked(Agent(Waits())),
        on_update=lambda update: (
            told.append((update.kind, update.text))
            if update.kind != "status" and update.kind != "note"
            else None
        ),
    )
    assert told == [("text", "all "), ("restart", None), ("text", "well")]


def test_a_step_that_is_tried_again_counts_all_it_used():
    """Retries of the whole step add to its usage, and to the run's."""
    from june import Retry

    usage = Usage(requests=1, input_tokens=4)
    model = ScriptedModel(["not json", {"city": "Rome", "population": 3}], usage=usage)
    result = run(asked(Agent(model, output_retries=0), output=Place, retry=Retry(2, wait=0)))
    assert result.result == Place("Rome", 3)
    assert result.usage == Usage(requests=2, input_tokens=8)


def test_an_answer_that_raises_was_a_request():
    """A scripted model that fails has been asked, as a real one has."""
    from june import Retry

    model = ScriptedModel([ModelError("busy"), "x"])
    result = run(asked(Agent(model), retry=Retry(2, wait=0)))
    assert (result.result, result.usage) == ("x", Usage(requests=2))

    def refuse(request: Request) -> str:
        raise ModelError("no")

    with pytest.raises(RunFailed) as failed:
        run(asked(Agent(ScriptedModel(refuse))))
    assert failed.value.usage == Usage(requests=1)


@pytest.mark.parametrize("answers", ["x", b"x", {"a": 1}], ids=repr)
def test_one_answer_is_no_list_of_answers(answers: Any):
    """A text would be given a letter at a time."""
    with pytest.raises(TypeError, match=r"^answers are a list or a function; say ScriptedModel\(\["):
        ScriptedModel(answers)


def test_a_script_that_ends_says_what_the_model_was_told():
    """Mostly that an answer did not fit, which the test's author did not expect."""
    error = failure(asked(Agent(ScriptedModel(['{"city": 1}'])), output=Place))
    assert str(error).startswith(
        "model 'scripted' has no more answers: it was asked 2 times; the last time it was told: Your answer "
        "cannot be used: "
    )


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


def test_a_model_that_gives_no_member_of_an_enum_is_told_them():
    """Without the names it could not do better."""
    model = ScriptedModel([{"result": "lowest"}, {"result": "LOW"}])
    assert run(asked(Agent(model), output=Level)).result is Level.LOW
    told = model.requests[1].messages[-1]
    assert isinstance(told, Message) and "expected a member of Level, found" in told.text
    assert "LOW, HIGH" in told.text


def test_a_text_of_a_class_of_its_own_is_saved_as_a_text():
    """What a model gives may be more than a str; what is saved is one."""

    class Marked(str):
        pass

    first = run(asked(Agent(ScriptedModel([Response(text=Marked("x"))]))))
    assert type(first.result) is str
    assert run(asked(Agent(ScriptedModel([]))), snapshot=first).result == "x"


def test_a_model_that_is_not_async_says_so():
    """Awaiting what it gives would say less."""

    class Plain(Lacking):
        settings_key = "plain"

        def respond(self, request: Request) -> Response:  # type: ignore[override]
            return Response(text="x")

    assert str(failure(asked(Agent(Plain())))) == (
        "model 'lacking' cannot be asked: its respond must be async"
    )


async def test_a_timeout_says_nothing_of_waits_that_are_over(autojump_clock):
    """Neither of one that the model itself cut short, nor of an earlier attempt's."""
    from june import Retry

    class Waits2(Waits):
        name = "waits"
        asked = 0

        async def respond(self, request: Request) -> Response:
            self.asked += 1
            if self.asked == 1:
                await request.call.wait(100, "it is busy")
            with trio.move_on_after(1):
                await request.call.wait(100, "it is busy again")
            await trio.sleep_forever()
            raise AssertionError

    with pytest.raises(RunFailed) as failed:
        await run_async(asked(Agent(Waits2()), timeout=10, retry=Retry(2, wait=0)))
    assert str(failed.value.exceptions[0]).endswith("took longer than its timeout of 10.0 s")


async def test_a_call_that_is_over_has_no_slot_to_give(autojump_clock):
    """A model that goes on in a task of its own cannot let more steps run than may."""
    kept: list[Any] = []

    class Keeps(Waits):
        async def respond(self, request: Request) -> Response:
            kept.append(request.call)
            return Response(text="x")

    @step(id="late")
    async def late(ask: str) -> int:
        await kept[0].wait(50, "late")
        return 1

    running = []

    @step(id="work", each={"n": "ns"}, after=[asked(Agent(Keeps()))])
    async def work(n: int) -> int:
        running.append(n)
        assert len(running) == 1
        await trio.sleep(10)
        running.remove(n)
        return n

    began = trio.current_time()
    await run_async([late, work], inputs={"ns": [1, 2, 3]}, concurrency=1)
    assert trio.current_time() - began == 80


async def test_a_timeout_says_what_the_model_waited_for(autojump_clock):
    """A step whose time went on waiting for a provider is told apart from a slow one."""
    with pytest.raises(RunFailed) as failed:
        await run_async(asked(Agent(Waits()), timeout=10))
    (error,) = failed.value.exceptions
    assert str(error).endswith("took longer than its timeout of 10.0 s, waiting because it is busy")


@pytest.mark.parametrize("message", ["no running event loop", "trio got unrecognized yield message"])
def test_models_and_tools_that_need_asyncio_are_told_how(message: str):
    """They run on trio; a plain function has a thread, where asyncio can run."""

    def answer(request: Request) -> str:
        raise RuntimeError(message)

    error = failure(asked(Agent(ScriptedModel(answer))))
    assert error.__notes__[0] == (
        "models and async tools run on trio; call asyncio.run() in a tool that is a plain def"
    )


def test_models_are_blocked():
    """Under `block_models`, only scripted models answer."""
    with block_models():
        error = failure(asked(Agent(Waits())))
        assert run(asked(Agent(ScriptedModel(["ok"])))).result == "ok"
    assert str(error) == (
        "model 'waits' was about to be asked (no saved result), where june.testing.block_models() forbids it"
    )


# -- What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output": int}, "output is for prompt steps; pass agent= too"),
        ({"tools": [add]}, "tools is for prompt steps; pass agent= too"),
        ({"settings": Settings()}, "settings is for prompt steps; pass agent= too"),
        ({"agent": "gpt"}, "agent must be an Agent, or a function of parameters that gives one, not 'gpt'"),
        ({"agent": Agent}, "agent must be an Agent, or a function of parameters that gives one, not <class 'june.agents.Agent'>"),
        ({"agent": Agent(Waits()), "tools": add}, f"tools: a list of tools is wanted, not {add!r}"),
        ({"agent": Waits()}, "agent must be an Agent, and this is a model; say agent=Agent(model)"),
        ({"agent": lambda nothing: None}, "agent names 'nothing', which is not one of its parameters (a)"),
        ({"agent": Agent(Waits()), "settings": {}}, "settings must be june.Settings, not {}"),
        ({"agent": Agent(Waits()), "runs_on": "thread"}, "runs_on is for function steps; a prompt step waits for its model"),
        ({"approval": 7}, "approval must be True or the question to ask, not 7"),
    ],
)  # fmt: skip
def test_what_a_prompt_step_cannot_be(arguments: dict[str, Any], message: str):
    """It is refused where it is declared."""
    with pytest.raises(TypeError) as refused:

        @step(id="bad", **arguments)
        def bad(a: int) -> str:
            return ""

    assert str(refused.value).partition("): ")[2] == message


def test_a_prompt_is_not_async():
    """The function only says what to ask."""
    with pytest.raises(
        TypeError, match="a prompt step's function only returns the prompt; make it a plain def"
    ):

        @step(id="bad", agent=Agent(Waits()))
        async def bad() -> str:
            return ""


class Lacking:
    """A model that somebody has written in a hurry."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__ = {"name": "lacking", **attributes}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    async def respond(self, request: Request) -> Response:
        return Response(text="x")


class KeyMethod(Lacking):
    def settings_key(self) -> str:
        return "lacking"


NEEDS_KEY = (
    "needs a settings_key, an attribute or a property that says what of it counts in cache keys, in values "
    "that JSON can hold"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": "gpt-5"},
            "an agent's model must be a model, not 'gpt-5'; june.sdk.openai.openai(name) makes one",
        ),
        (
            {"model": Waits(), "tools": [add, add_more]},
            "two tools are called 'add'; give one of them another name=",
        ),
        ({"model": Lacking(name=None)}, "the model of class Lacking has no name, which must be a str"),
        ({"model": Lacking()}, f"the model of class Lacking {NEEDS_KEY}: it has none"),
        (
            {"model": Lacking(settings_key=object)},
            f"the model of class Lacking {NEEDS_KEY}: Object of type type is not JSON serializable",
        ),
        ({"model": KeyMethod()}, f"the model of class KeyMethod {NEEDS_KEY}: it is a method"),
        ({"model": Waits}, "an agent's model must be a model, not the class Waits; make one of it"),
        ({"model": Waits(), "tools": print}, "a list of tools is wanted, not <built-in function print>"),
        ({"model": Waits(), "settings": {"seed": 1}}, "settings must be june.Settings, not {'seed': 1}"),
        ({"model": Waits(), "instructions": 3}, "instructions must be a str, not 3"),
        ({"model": Waits(), "max_turns": 0}, "max_turns must be a whole number from 1, not 0"),
        ({"model": Waits(), "output_retries": -1}, "output_retries must be a whole number from 0, not -1"),
    ],
)
def test_what_an_agent_cannot_be(arguments: dict[str, Any], message: str):
    """It is refused where it is made."""
    with pytest.raises((TypeError, ValueError)) as refused:
        Agent(**arguments)
    assert str(refused.value) == message


T = TypeVar("T")


class Tagged(str, Generic[T]):
    """A prompt with a mark."""


class Talks(list[Message], Generic[T]):
    """Messages with a mark."""


class Named(abc.ABC):
    """What a prompt may be, too."""

    @abc.abstractmethod
    def name(self) -> str: ...


@runtime_checkable
class Shown(Protocol):
    """What a str happens to do."""

    def upper(self) -> str: ...


@pytest.mark.parametrize(
    "hint",
    [
        Tagged[int], Talks[int], Named, Shown, str, Message, Image, list[Message], tuple[Message, ...], "list[Message]", str | list[Message], object,
        Any, Sequence[Message], list[Any], str | None, Annotated[str, "x"], "NotFound", inspect.Parameter.empty,
    ],
    ids=str,
)  # fmt: skip
def test_what_the_function_of_a_prompt_step_may_say_to_return(hint: Any):
    """Hints that a prompt can have are fine, and so is none."""

    def ask():  # type: ignore[no-untyped-def]  # its hint is below
        return "go"

    if hint is not inspect.Parameter.empty:
        ask.__annotations__["return"] = hint
    assert run(step(id="ask", agent=Agent(ScriptedModel(["x"])))(ask)).result == "x"


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (int, "int"),
        (Place, "Place"),
        (None, "None"),
        (dict[str, int], "dict[str, int]"),
        (list[int], "list[int]"),
        (int | None, "int | None"),
        ("Place", "Place"),
        (list[str], "list[str]"),
        (bytes, "bytes"),
    ],
)
def test_a_function_that_says_to_return_the_answer_is_refused(hint: Any, shown: str):
    """Its hint is the prompt's; the answer's type is output, or it would be taken for a str."""

    def ask():  # type: ignore[no-untyped-def]  # its hint is below
        return "go"

    ask.__annotations__["return"] = hint
    with pytest.raises(GraphError) as refused:
        run(step(id="ask", agent=Agent(ScriptedModel(["x"])))(ask))
    assert refused.value.problems[0].endswith(
        f"its function returns the prompt, and is said to return {shown}; for the type of the answer, pass output="
    )


def test_a_function_that_is_wrapped_may_return_something_else():
    """What wraps it makes the prompt of what it gives."""

    def as_prompt(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper() -> str:
            return str(function())

        return wrapper

    @step(id="ask", agent=Agent(ScriptedModel(["x"])))
    @as_prompt
    def ask() -> dict[str, int]:
        return {"a": 1}

    assert run(ask).result == "x"


def test_models_that_stand_for_others_are_models():
    """A model may be handed on by whatever forwards to it, and its key may be any mapping."""

    class Forwards:
        def __init__(self, model: Any) -> None:
            self._model = model

        def __getattr__(self, name: str) -> Any:
            return getattr(self._model, name)

    class Proxied(ScriptedModel):
        settings_key = MappingProxyType({"provider": "x", (1, 2): "y"})

    assert run(asked(Agent(Forwards(ScriptedModel(["x"]))))).result == "x"
    assert run(asked(Agent(Proxied(["x"])))).result == "x"


def test_an_agent_may_have_a_method_of_any_name():
    """What makes a model is not what keeps an agent from being one."""

    class Bot(Agent):
        def respond(self) -> None: ...

    assert run(asked(Bot(ScriptedModel(["x"])))).result == "x"


def test_what_a_model_shows_of_itself_is_in_no_error():
    """Its repr may have its key."""

    @attrs.define
    class Careless:
        api_key: str

        async def respond(self, request: Request) -> Response:
            raise NotImplementedError

    with pytest.raises(TypeError) as refused:
        Agent(Careless("sk-secret"))  # type: ignore[arg-type]
    assert str(refused.value) == "the model of class Careless has no name, which must be a str"


def test_what_cannot_be_asked_for_is_known_before_anything_runs():
    """A type that no schema describes, and tools that clash, are errors of the graph."""

    class Connection:
        pass

    ran = []

    @step(id="dear")
    def dear() -> str:
        ran.append(1)
        return "x"

    @step(id="bad type", agent=Agent(Waits()), output=Connection)
    def bad_type(dear: str) -> str:
        return dear

    @step(id="bad tools", agent=Agent(Waits(), tools=[add]), tools=[add_more])
    def bad_tools(dear: str) -> str:
        return dear

    with pytest.raises(GraphError) as refused:
        run([bad_type, bad_tools])
    first, second = refused.value.problems
    assert (
        first.startswith("step 'bad type' (test_agents.py:")
        and "no model can be asked for its output: " in first
    )
    assert second.endswith("two tools are called 'add'; give one of them another name=")
    assert not ran
