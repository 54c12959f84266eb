"""Runs as OpenTelemetry spans: which there are, what they say, and what they never say."""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from socket import socket
from typing import Any

import attrs
import httpx
import pytest
import trio

from june import (
    Agent,
    ModelError,
    Retry,
    RunCancelled,
    RunFailed,
    Settings,
    ToolError,
    Usage,
    run,
    run_async,
    start,
    step,
    tool,
)
from june.messages import Image, Message, Response, ToolCall
from june.sdk.openai import openai
from june.testing import ScriptedModel

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from june.tracing.otel import export, otel


@attrs.frozen
class Sent:
    """What was sent to a provider of spans."""

    provider: TracerProvider = attrs.field(factory=TracerProvider)
    exporter: InMemorySpanExporter = attrs.field(factory=InMemorySpanExporter)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def said(self, name: str) -> Mapping[str, Any]:
        return dict(self.one(name).attributes or {})

    def tree(self) -> list[Any]:
        """The spans' names, each with what is below it, in the order in which they began."""
        below: dict[int, list[ReadableSpan]] = {}
        for span in sorted(self.spans, key=lambda span: span.start_time or 0):
            below.setdefault(0 if span.parent is None else span.parent.span_id, []).append(span)

        def branch(id: int) -> list[Any]:
            return [
                (span.name, branch(span.context.span_id)) if span.context.span_id in below else span.name
                for span in below.get(id, [])
            ]

        return branch(0)

    def text(self) -> str:
        """All that was sent."""
        return "\n".join(span.to_json() for span in self.spans)


@pytest.fixture(name="sent")
def fixture_sent() -> Iterator[Sent]:
    sent = Sent()
    sent.provider.add_span_processor(SimpleSpanProcessor(sent.exporter))
    yield sent
    sent.provider.shutdown()


@tool
def look_up(city: str) -> str:
    """Say what the weather is."""
    if city != "Paris":
        raise ToolError(f"no city {city}")
    return f"sunny in {city}"


def calls(*cities: str) -> list[ToolCall]:
    return [
        ToolCall(id=f"call_{number}", name="look_up", arguments=f'{{"city": "{city}"}}')
        for number, city in enumerate(cities)
    ]


def asked(model: Any, prompt: Any = "What is the weather?", id: str = "ask", **options: Any) -> Any:
    """A prompt step of one model, which has a tool."""
    agent = Agent(model, instructions="Be brief.", tools=[look_up])

    @step(id=id, agent=agent, **options)
    def ask() -> Any:
        return prompt

    return ask


def tour(model: Any) -> Any:
    writer = Agent(model)

    @step(id="plan", agent=writer)
    def plan(service: str) -> str:
        return f"Plan the deploy of {service}"

    @step(id="checklist", agent=writer)
    def checklist(plan: str) -> str:
        return f"Write a checklist for:\n{plan}"

    @step(id="count")
    def count(checklist: str) -> int:
        return checklist.count("- ")

    return count


INPUTS = {"service": "web"}


# -- Which spans there are.


def test_a_run_is_a_tree_of_spans(sent: Sent):
    """The run, its steps, and what was asked for within them, each with its times and its kind."""
    with otel("deploy", tracer_provider=sent.provider) as spans:
        result = run(tour(ScriptedModel(["go", "- a"])), inputs=INPUTS, on_update=spans)
    assert sent.tree() == [
        (
            "invoke_workflow deploy",
            [
                ("invoke_agent plan", ["chat scripted"]),
                ("invoke_agent checklist", ["chat scripted"]),
                "step count",
            ],
        )
    ]
    kinds = {span.name: span.kind.name for span in sent.spans}
    assert kinds["chat scripted"] == "CLIENT" and kinds["invoke_agent plan"] == "INTERNAL"
    node = result.trace.node("plan")
    span = sent.one("invoke_agent plan")
    assert node.started is not None and node.duration is not None
    assert span.start_time == round(node.started.timestamp() * 1e6) * 1000
    assert span.end_time is not None and span.start_time is not None
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(node.duration, abs=2e-6)
    root = sent.one("invoke_workflow deploy")
    assert all((root.start_time or 0) <= (span.start_time or 0) for span in sent.spans)
    assert all((root.end_time or 0) >= (span.end_time or 0) for span in sent.spans)


def test_what_the_spans_of_a_run_and_a_step_say(sent: Sent):
    """The run has sums, a step what its node has; sums are not under the names that requests have."""
    used = Usage(requests=1, input_tokens=10, output_tokens=2)
    with otel("deploy", tracer_provider=sent.provider) as spans:
        run(tour(ScriptedModel(["go", "- a"], usage=used)), inputs=INPUTS, on_update=spans)
    assert sent.said("invoke_workflow deploy") == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": "deploy",
        "june.run.steps": 3,
        "june.run.resumed_steps": 0,
        "june.usage.requests": 2,
        "june.usage.input_tokens": 20,
        "june.usage.output_tokens": 4,
    }
    assert sent.said("invoke_agent plan") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "plan",
        "gen_ai.provider.name": "june.testing",
        "gen_ai.request.model": "scripted",
        "june.step.id": "plan",
        "june.step.kind": "prompt",
        "june.step.status": "done",
        "june.step.resumed": False,
        "june.step.attempts": 1,
        "june.step.reason": "no saved result",
        "june.usage.requests": 1,
        "june.usage.input_tokens": 10,
        "june.usage.output_tokens": 2,
    }
    assert sent.said("step count") == {
        "june.step.id": "count",
        "june.step.kind": "function",
        "june.step.status": "done",
        "june.step.resumed": False,
        "june.step.attempts": 1,
        "june.step.reason": "no saved result",
    }


def test_what_the_spans_of_requests_and_tool_calls_say(sent: Sent):
    """The names are those of the GenAI conventions; usage and cost are on the requests."""
    used = Usage(requests=1, input_tokens=10, output_tokens=2, cached_tokens=4, reasoning_tokens=1, cost=0.5)
    model = ScriptedModel([calls("Paris", "Atlantis"), "Sunny."], usage=used)
    settings = Settings(
        temperature=0.5, top_p=0.9, max_tokens=100, stop=["END"], seed=7, reasoning="low", extra={"k": "v"}
    )
    with otel(tracer_provider=sent.provider) as spans:
        run(asked(model, settings=settings), on_update=spans)
    ((root, [(ask, below)]),) = sent.tree()
    assert (root, ask) == ("invoke_workflow", "invoke_agent ask")
    assert sorted(below) == ["chat scripted", "chat scripted", "execute_tool look_up", "execute_tool look_up"]
    first, second = [dict(span.attributes or {}) for span in sent.spans if span.name == "chat scripted"]
    assert first == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "june.testing",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.seed": 7,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.output.type": "text",
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "june.request.attempts": 1,
        "june.request.cost": 0.5,
    }
    assert second["gen_ai.response.finish_reasons"] == ("stop",)
    paris, atlantis = [span for span in sent.spans if span.name == "execute_tool look_up"]
    assert dict(paris.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look_up",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Say what the weather is.",
        "gen_ai.tool.call.id": "call_0",
    }
    assert paris.status.status_code.name == "UNSET"
    assert (atlantis.attributes or {})["error.type"] == "june.errors.ToolError"
    assert atlantis.status.status_code.name == "ERROR"
    assert sent.said("invoke_workflow")["june.usage.cost"] == 1.0


def test_structured_output_is_said_to_be_json(sent: Sent):
    """What was asked for is known without the answer."""
    with otel(tracer_provider=sent.provider) as spans:
        run(asked(ScriptedModel([{"result": [1]}]), output=list[int]), on_update=spans)
    assert sent.said("chat scripted")["gen_ai.output.type"] == "json"


def test_reused_steps_have_no_length_and_are_marked(sent: Sent):
    """A reused step asked no model: it has no request below it, and its span is nothing but a mark."""
    first = run(tour(ScriptedModel(["go", "- a"])), inputs=INPUTS)
    with otel("deploy", tracer_provider=sent.provider) as spans:
        run(tour(ScriptedModel([])), inputs=INPUTS, snapshot=first, on_update=spans)
    names = ["step plan", "step checklist", "step count"]
    assert sent.tree() == [("invoke_workflow deploy", names)]
    for name in names:
        span = sent.one(name)
        assert span.start_time == span.end_time
        assert sent.said(name)["june.step.resumed"] is True
    assert sent.said("invoke_workflow deploy") == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": "deploy",
        "june.run.steps": 3,
        "june.run.resumed_steps": 3,
        "june.reused_usage.requests": 2,
        "june.reused_usage.input_tokens": 0,
        "june.reused_usage.output_tokens": 0,
    }


def test_a_resumed_run_is_a_trace_of_its_own_with_a_link_to_the_earlier_one(sent: Sent):
    """The earlier run's span is named by a text, so that it can be kept beside a snapshot."""
    with pytest.raises(RunFailed) as failed, otel("deploy", tracer_provider=sent.provider) as spans:
        run(tour(ScriptedModel(["go", ModelError("no")])), inputs=INPUTS, on_update=spans)
    earlier = sent.one("invoke_workflow deploy")
    sent.exporter.clear()
    with otel("deploy", tracer_provider=sent.provider, link=spans.traceparent) as again:
        run(
            tour(ScriptedModel(["- a"])),
            inputs=INPUTS,
            snapshot=failed.value.snapshot(),
            on_update=again,
        )
    later = sent.one("invoke_workflow deploy")
    assert later.parent is None and later.context.trace_id != earlier.context.trace_id
    ((linked),) = later.links
    assert (linked.context.trace_id, linked.context.span_id) == (
        earlier.context.trace_id,
        earlier.context.span_id,
    )
    assert {span.context.trace_id for span in sent.spans} == {later.context.trace_id}


def test_a_link_may_be_a_span_context_and_must_be_one():
    """What is no span's name is refused before anything runs."""
    context = trace.SpanContext(1, 2, is_remote=True)
    assert otel(link=context)._links[0].context == context
    with pytest.raises(ValueError) as wrong:
        otel(link="yesterday")
    assert str(wrong.value) == "link must be what RunSpans.traceparent gives, not 'yesterday'"
    assert otel().traceparent == ""


def test_a_run_within_a_span_is_below_it(sent: Sent):
    """Where somebody traces already, the run is a part of that."""
    tracer = sent.provider.get_tracer("test")
    with tracer.start_as_current_span("request"), otel(tracer_provider=sent.provider) as spans:
        run(tour(ScriptedModel(["go", "- a"])), inputs=INPUTS, on_update=spans)
    ((outer, [(inner, _)]),) = sent.tree()
    assert (outer, inner) == ("request", "invoke_workflow")


def test_each_instance_has_a_span_under_one_name(sent: Sent):
    """Names are few, as backends group by them; the id says which instance it is."""

    @step(id="review", each={"file": "files"})
    def review(file: str) -> str:
        return file.upper()

    @step(id="empty", each={"item": "nothing"})
    def empty(item: str) -> str:
        return item

    with otel(tracer_provider=sent.provider) as spans:
        run(review, empty, inputs={"files": ["a", "b"], "nothing": []}, on_update=spans)
    reviews = [span for span in sent.spans if span.name == "step review"]
    assert {(span.attributes or {})["june.step.id"] for span in reviews} == {"review[a]", "review[b]"}
    assert len(sent.spans) == 3 or sent.said("step empty")["june.step.kind"] == "each"


def test_steps_that_nobody_looked_at_have_no_span(sent: Sent):
    """A skipped step is marked, a step with an override too; one that was blocked or not needed is not there."""

    @step(id="skipped", when=lambda: False)
    def skipped() -> int:
        return 1

    @step(id="frame", save=False)
    def frame() -> int:
        return 1

    @step(id="stood")
    def stood() -> int:
        return 1

    @step(id="fails")
    def fails() -> int:
        raise OSError("no disk")

    @step(id="behind")
    def behind(fails: int) -> int:
        return fails

    @step(id="user")
    def user(frame: int) -> int:
        return frame

    first = run(user)
    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider) as spans:
        run(
            skipped, stood, behind, user, on_update=spans, overrides={"stood": 2}, snapshot=first,
            on_error="continue",
        )  # fmt: skip
    assert {name: sent.said(name)["june.step.status"] for _, below in sent.tree() for name in below} == {
        "step skipped": "skipped",
        "step stood": "done",
        "step fails": "failed",
        "step user": "done",
    }
    assert sent.one("step skipped").start_time == sent.one("step skipped").end_time


def test_what_a_step_sends_itself_is_in_the_runs_trace(sent: Sent):
    """Steps run in a copy of the context that the run is started in, also in threads."""
    tracer = sent.provider.get_tracer("test")

    @step(id="thread")
    def thread() -> None:
        with tracer.start_as_current_span("in a thread"):
            pass

    @step(id="task")
    async def task() -> None:
        with tracer.start_as_current_span("on the loop"):
            await trio.lowlevel.checkpoint()

    with otel(tracer_provider=sent.provider) as spans:
        run(thread, task, on_update=spans)
    ((_, below),) = sent.tree()
    assert set(below) == {"in a thread", "on the loop", "step thread", "step task"}
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_run_inside_trio(sent: Sent):
    """The same within an async program."""
    with otel(tracer_provider=sent.provider) as spans:
        await run_async(tour(ScriptedModel(["go", "- a"])), inputs=INPUTS, on_update=spans)
    assert len(sent.spans) == 6


def test_a_run_that_outlives_the_block(sent: Sent):
    """What has not ended by then is sent when it does, below the run's span."""
    go = threading.Event()

    @step(id="slow")
    def slow() -> int:
        go.wait(10)
        return 1

    with otel(tracer_provider=sent.provider) as spans:
        handle = start(slow, on_update=spans)
    assert sent.tree() == ["invoke_workflow"]
    go.set()
    handle.wait()
    assert sent.tree() == [("invoke_workflow", ["step slow"])]


# -- Errors.


def test_a_failed_step_is_an_error_with_its_exception(sent: Sent):
    """The exception stands where it was raised, and the run says what it came to."""

    @step(id="broken")
    def broken() -> None:
        raise KeyError("gone")

    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider) as spans:
        run(broken, on_update=spans)
    span = sent.one("step broken")
    assert (span.status.status_code.name, span.status.description) == ("ERROR", "'gone'")
    assert sent.said("step broken")["error.type"] == "KeyError"
    (event,) = span.events
    said = dict(event.attributes or {})
    assert event.name == "exception" and event.timestamp == span.end_time
    assert (said["exception.type"], said["exception.message"]) == ("KeyError", "'gone'")
    assert 'raise KeyError("gone")' in str(said["exception.stacktrace"])
    root = sent.one("invoke_workflow")
    assert root.status.status_code.name == "ERROR" and not root.events
    assert root.status.description == "1 step failed: 0 of 1 steps done (1 sub-exception)"
    assert sent.said("invoke_workflow")["error.type"] == "june.errors.RunFailed"


def test_a_request_that_failed_names_the_status(sent: Sent):
    """A provider's status says more than the name of an exception; attempts that came to nothing count."""

    def answer(request: Any) -> Any:
        request.call.spent(Usage(requests=1, input_tokens=3))
        return ModelError("too many requests", 429)

    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider) as spans:
        run(asked(ScriptedModel(answer)), on_update=spans)
    said = sent.said("chat scripted")
    assert said["error.type"] == "429" and "gen_ai.response.model" not in said
    # The one that it told of, and the one that ended it.
    assert (said["gen_ai.usage.input_tokens"], said["june.request.attempts"]) == (3, 2)
    assert sent.one("chat scripted").status.description == "too many requests"
    assert sent.said("invoke_agent ask")["june.usage.input_tokens"] == 3


def test_a_cancelled_run(sent: Sent):
    """What was cut off is aborted, which is no error of its own."""

    async def answer(request: Any) -> Any:
        await trio.sleep_forever()

    with pytest.raises(RunCancelled), otel(tracer_provider=sent.provider) as spans:
        run(asked(ScriptedModel(answer)), on_update=spans, deadline=0.05)
    assert sent.said("invoke_agent ask")["june.step.status"] == "aborted"
    assert sent.one("invoke_agent ask").status.status_code.name == "UNSET"
    assert sent.one("chat scripted").end_time is not None
    assert sent.said("invoke_workflow")["error.type"] == "june.errors.RunCancelled"


def test_what_goes_wrong_in_the_block_beside_the_run_is_an_event_of_its_span(sent: Sent):
    """The exception of somebody else's is told whole: no step has it."""
    with pytest.raises(ZeroDivisionError), otel(tracer_provider=sent.provider):
        print(1 / 0)
    (event,) = sent.one("invoke_workflow").events
    assert (event.attributes or {})["exception.type"] == "ZeroDivisionError"


def test_spans_that_cannot_be_made_fail_no_run(sent: Sent, caplog: pytest.LogCaptureFixture):
    """What watches a run must not be what stops it."""

    class Odd(ScriptedModel):
        @property
        def name(self) -> str:
            if self.requests:
                raise OSError("no more")
            return "odd"

        @name.setter
        def name(self, name: str) -> None:
            pass

    class Uncounted:
        """A handle that says nothing."""

        trace = ()

    with otel(tracer_provider=sent.provider) as spans, caplog.at_level(logging.WARNING):
        result = run(asked(Odd([Response(text="a", model="odd")])), on_update=spans)
        spans._handle = Uncounted()  # type: ignore[assignment]  # what no handle is
    assert result.result == "a"
    assert [record.message for record in caplog.records] == [
        "no span was sent for step 'ask'",
        "the span of a run says less than it should",
    ]
    assert sent.tree() == ["invoke_workflow"]


@pytest.mark.filterwarnings("ignore::june.ResultWarning")
def test_what_no_utf8_can_hold_keeps_nothing_from_being_sent(sent: Sent):
    """Half a character, which a model may write, is sent as a question mark; a batch is sent as a whole."""
    half = "\ud83d"
    call = ToolCall(id=half, name=f"look{half}", arguments=json.dumps({"city": half}))
    right = ToolCall(id=half, name="look_up", arguments=json.dumps({"city": half}))

    class Odd(ScriptedModel):
        settings_key = {"provider": half}  # noqa: RUF012  # nobody changes it

    answers = [[call, right], Response(text=half, model=half), ModelError(half)]
    model = Odd(answers, name=half)
    with pytest.raises(RunFailed), otel(half, tracer_provider=sent.provider, content=True) as spans:
        run(asked(model, half, "a"), asked(model, half, "b"), on_update=spans, concurrency=1)

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            for pair in value.items():
                yield from texts(pair)
        elif isinstance(value, (list, tuple)):
            for one in value:
                yield from texts(one)

    found = [
        text
        for span in sent.spans
        for text in texts(
            [
                span.name,
                span.attributes,
                span.status.description or "",
                [(event.name, event.attributes) for event in span.events],
            ]
        )
    ]
    assert len(sent.spans) == 8 and sum("?" in text for text in found) > 20
    for text in found:
        text.encode()


@pytest.mark.filterwarnings("ignore::june.ResultWarning")
def test_a_model_whose_key_is_gone_has_its_spans(sent: Sent):
    """A file with weights may be removed; the step's error says so, and its spans are there to tell."""

    class Gone(ScriptedModel):
        @property
        def settings_key(self) -> Any:
            raise ModelError("there are no weights")

    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider) as spans:
        run(asked(Gone([ModelError("there are no weights")])), on_update=spans)
    assert sent.tree() == [("invoke_workflow", [("invoke_agent ask", ["chat scripted"])])]
    assert sent.said("chat scripted")["gen_ai.provider.name"] == "unknown"


def test_an_answer_that_broke_off_is_no_status(sent: Sent):
    """A status that says that all is well names no error."""
    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider) as spans:
        run(asked(ScriptedModel([ModelError("it broke off", 200)])), on_update=spans)
    assert sent.said("chat scripted")["error.type"] == "june.errors.ModelError"


# -- What is sent only if asked for.


def test_prompts_answers_arguments_and_results_are_not_sent(sent: Sent):
    """Nothing that was said to a model or by one is sent unless asked for, also not within an error."""
    words = ["what is the weather", "Be brief", "Paris", "Atlantis", "sunny", "swordfish"]
    model = ScriptedModel([calls("Paris", "Atlantis"), "swordfish", "swordfish again"])
    with pytest.raises(RunFailed) as failed, otel(tracer_provider=sent.provider) as spans:
        run(asked(model, "what is the weather", output=int), on_update=spans)
    assert len(sent.spans) == 7
    assert [word for word in words if word in sent.text()] == []
    span = sent.one("invoke_agent ask")
    assert span.status.description == "june.errors.ModelError"
    (event,) = span.events
    assert set(event.attributes or {}) == {"exception.type", "exception.stacktrace"}

    sent.exporter.clear()
    export(failed.value, tracer_provider=sent.provider, content=True)
    assert [word for word in words if word not in sent.text()] == []


def test_the_names_that_a_model_makes_up_are_not_sent(sent: Sent):
    """What a model calls is its own words until a tool has that name."""
    model = ScriptedModel([ToolCall(id="1", name="rm_rf", arguments="{}"), "ok"])
    with otel(tracer_provider=sent.provider) as spans:
        result = run(asked(model), on_update=spans)
    assert sent.said("execute_tool unknown")["gen_ai.tool.name"] == "unknown"
    assert "rm_rf" not in sent.text()
    export(result, tracer_provider=sent.provider, content=True)
    assert sent.one("execute_tool rm_rf")


@pytest.mark.parametrize("where", ["cause", "context", "group"])
def test_an_exception_that_comes_from_an_answer_is_sent_without_its_text(sent: Sent, where: str):
    """A step may put another exception around one that has what a model said."""
    inner = ModelError("it said swordfish", text="swordfish")

    @step(id="wraps")
    def wraps() -> None:
        if where == "group":
            raise ExceptionGroup("swordfish", [inner])
        try:
            raise inner
        except ModelError as error:
            raise ValueError("about swordfish") from (error if where == "cause" else None)

    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider) as spans:
        run(wraps, on_update=spans)
    assert "it said" not in sent.text() and "about swordfish'" not in sent.text()


def test_content_is_written_as_the_conventions_write_messages(sent: Sent):
    """With content=True each request has the conversation so far, and each tool call its arguments and result."""
    picture = b"\x89PNG\r\n\x1a\n picture"
    prompt = [
        Message(["What is this? \ud800", Image(picture), Image("https://example.org/a.png")]),
        Message("A picture.", role="assistant"),
    ]
    model = ScriptedModel([calls("Paris", "Atlantis"), "Sunny."])
    with otel(tracer_provider=sent.provider, content=True) as spans:
        run(asked(model, prompt), on_update=spans)
    first, second = [dict(span.attributes or {}) for span in sent.spans if span.name == "chat scripted"]
    asked_for = [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "What is this? ?"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
                {"type": "uri", "modality": "image", "uri": "https://example.org/a.png"},
            ],
        },
        {"role": "assistant", "parts": [{"type": "text", "content": "A picture."}]},
    ]
    called = {
        "role": "assistant",
        "parts": [
            {"type": "tool_call", "id": "call_0", "name": "look_up", "arguments": '{"city": "Paris"}'},
            {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": '{"city": "Atlantis"}'},
        ],
        "finish_reason": "tool_call",
    }
    told = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": text}]}
        for id, text in (("call_0", "sunny in Paris"), ("call_1", "no city Atlantis"))
    ]
    answered = {
        "role": "assistant",
        "parts": [{"type": "text", "content": "Sunny."}],
        "finish_reason": "stop",
    }
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    assert json.loads(first["gen_ai.input.messages"]) == asked_for
    assert json.loads(first["gen_ai.output.messages"]) == [called]
    assert json.loads(second["gen_ai.input.messages"]) == [*asked_for, called, *told]
    assert json.loads(second["gen_ai.output.messages"]) == [answered]
    (definition,) = json.loads(first["gen_ai.tool.definitions"])
    assert (definition["type"], definition["name"]) == ("function", "look_up")
    agent = sent.said("invoke_agent ask")
    assert json.loads(agent["gen_ai.input.messages"]) == asked_for
    assert json.loads(agent["gen_ai.output.messages"]) == [answered]
    paris, atlantis = [
        dict(span.attributes or {}) for span in sent.spans if span.name == "execute_tool look_up"
    ]
    assert paris["gen_ai.tool.call.arguments"] == '{"city": "Paris"}'
    assert paris["gen_ai.tool.call.result"] == "sunny in Paris"
    assert atlantis["gen_ai.tool.call.result"] == "no city Atlantis"


def test_another_attempt_at_a_step_begins_with_the_prompt(sent: Sent):
    """What an attempt that failed had said is no part of the next one's conversation."""
    tries: list[int] = []

    @tool
    def flaky() -> Any:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise OSError("down")
        return object() if len(tries) == 2 else "up"

    wish = ToolCall(id="1", name="flaky", arguments="{}")
    agent = Agent(ScriptedModel([wish, wish, wish, "fine"]), tools=[flaky])

    @step(id="ask", agent=agent, retry=Retry(attempts=3, on=(OSError, TypeError), wait=0))
    def ask() -> str:
        return "go"

    with otel(tracer_provider=sent.provider, content=True) as spans:
        assert run(ask, on_update=spans).result == "fine"
    requests = [dict(span.attributes or {}) for span in sent.spans if span.name == "chat scripted"]
    roles = [[one["role"] for one in json.loads(said["gen_ai.input.messages"])] for said in requests]
    assert roles[:2] == [["user"], ["user"]]
    assert roles[-1][-2:] == ["assistant", "tool"]
    assert sent.said("invoke_agent ask")["june.step.attempts"] == 3


def test_keys_and_extra_settings_are_never_sent(sent: Sent):
    """A key is in no span, whatever the provider says of it."""

    def refuse(request: httpx.Request) -> httpx.Response:
        said = f"wrong key {request.headers['authorization']}"
        return httpx.Response(401, json={"error": {"message": said}})

    client = httpx.AsyncClient(transport=httpx.MockTransport(refuse))
    model = openai("gpt-4o", api_key="sk-secret-123", client=client)
    with pytest.raises(RunFailed), otel(tracer_provider=sent.provider, content=True) as spans:
        run(asked(model, settings=Settings(extra={"token": "sk-secret-456"})), on_update=spans)
    assert sent.said("chat gpt-4o")["gen_ai.provider.name"] == "openai"
    assert sent.said("chat gpt-4o")["error.type"] == "401"
    assert "wrong key" in sent.text() and "sk-secret" not in sent.text()


# -- All at once.


def test_export_sends_what_a_run_gave(sent: Sent):
    """The same spans as while the run goes, from a result."""
    with otel("deploy", tracer_provider=sent.provider) as spans:
        result = run(tour(ScriptedModel(["go", "- a"])), inputs=INPUTS, on_update=spans)
    live = {(span.name, span.to_json()) for span in sent.spans}
    tree = sent.tree()
    said = [dict(span.attributes or {}) for span in sent.spans]
    sent.exporter.clear()
    traceparent = export(result, "deploy", tracer_provider=sent.provider)
    assert sent.tree() == tree
    assert [dict(span.attributes or {}) for span in sent.spans] == said
    root = sent.one("invoke_workflow deploy")
    assert traceparent.split("-")[1:3] == [f"{root.context.trace_id:032x}", f"{root.context.span_id:016x}"]
    assert root.start_time == min(span.start_time or 0 for span in sent.spans)
    assert root.end_time == max(span.end_time or 0 for span in sent.spans)
    assert len(live) == 6


def test_export_sends_what_a_run_raised_and_what_a_handle_has(sent: Sent):
    """A failed run has its error, and a handle that it failed."""
    target = tour(ScriptedModel(lambda request: ModelError("no")))
    with start(target, inputs=INPUTS) as handle, pytest.raises(RunFailed) as failed:
        handle.wait()
    export(failed.value, "raised", tracer_provider=sent.provider)
    export(handle, "held", tracer_provider=sent.provider)
    raised, held = sent.one("invoke_workflow raised"), sent.one("invoke_workflow held")
    assert raised.status.description == "1 step failed: 0 of 3 steps done (1 sub-exception)"
    assert held.status.status_code.name == "ERROR" and held.status.description is None
    assert sent.tree() == [
        ("invoke_workflow raised", [("invoke_agent plan", ["chat scripted"])]),
        ("invoke_workflow held", [("invoke_agent plan", ["chat scripted"])]),
    ]


def test_export_of_a_run_that_reused_all(sent: Sent):
    """Nothing in it has a time, so it is said to have been now."""
    target = tour(ScriptedModel(["go", "- a"]))
    first = run(target, inputs=INPUTS)
    export(run(target, inputs=INPUTS, snapshot=first), tracer_provider=sent.provider)
    assert len({time for span in sent.spans for time in (span.start_time, span.end_time)}) == 1


def test_a_function_step_without_a_result_type_and_an_answer_without_a_model(sent: Sent):
    """What is not known is left out."""
    model = ScriptedModel([Response(text="a", tool_calls=()), Response(text="")])
    export(run(asked(model), asked(model, id="again")), tracer_provider=sent.provider)
    assert all("gen_ai.response.model" not in (span.attributes or {}) for span in sent.spans)


# -- The package.


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "june.tracing.otel")
    with pytest.raises(ImportError) as missing:
        importlib.import_module("june.tracing.otel")
    assert str(missing.value) == "june.tracing.otel needs OpenTelemetry; pip install june-steps[otel]"


def test_importing_june_loads_no_opentelemetry():
    """It is imported by those who ask for spans."""
    code = "import sys, june, june.tracing; print('opentelemetry' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


# -- A real receiver.


@pytest.fixture(name="receiver")
def fixture_receiver() -> Iterator[tuple[int, Any]]:
    """A receiver of OTLP over HTTP, which prints a span a line."""
    pytest.importorskip("oteltap")
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "oteltap", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert "Listening" in process.stdout.readline()
        yield port, process.stdout
        process.terminate()


@pytest.mark.real
@pytest.mark.slow
def test_a_real_receiver_takes_the_spans(receiver: tuple[int, Any], monkeypatch: pytest.MonkeyPatch):
    """What is sent by OTLP arrives: parents, times, attributes, the error with its exception, and the link."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    port, lines = receiver
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    model = ScriptedModel(["go", ModelError("no", 503)])
    with pytest.raises(RunFailed) as failed, otel("deploy", tracer_provider=provider) as first:
        run(tour(model), inputs=INPUTS, on_update=first)
    with otel("deploy", tracer_provider=provider, link=first.traceparent) as second:
        run(tour(ScriptedModel(["- a"])), inputs=INPUTS, snapshot=failed.value.snapshot(), on_update=second)
    provider.shutdown()
    arrived = [json.loads(lines.readline()) for _ in range(5 + 5)]
    by_id = {span["spanId"]: span for span in arrived}
    parents = [(by_id.get(span["parentSpanId"], {}).get("name"), span["name"]) for span in arrived]
    assert parents == [
        ("invoke_workflow deploy", "invoke_agent plan"),
        ("invoke_agent plan", "chat scripted"),
        ("invoke_workflow deploy", "invoke_agent checklist"),
        ("invoke_agent checklist", "chat scripted"),
        (None, "invoke_workflow deploy"),
        ("invoke_workflow deploy", "step plan"),
        ("invoke_workflow deploy", "invoke_agent checklist"),
        ("invoke_agent checklist", "chat scripted"),
        ("invoke_workflow deploy", "step count"),
        (None, "invoke_workflow deploy"),
    ]
    wrong = arrived[3]
    assert wrong["status"] == {"message": "no", "code": 2} and wrong["events"][0]["name"] == "exception"
    assert arrived[5]["startTimeUnixNano"] == arrived[5]["endTimeUnixNano"]
    (link,) = arrived[-1]["links"]
    assert (link["traceId"], link["spanId"]) == (arrived[4]["traceId"], arrived[4]["spanId"])
    assert len({span["traceId"] for span in arrived}) == 2
