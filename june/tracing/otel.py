"""
Runs as OpenTelemetry spans, with the attributes of its GenAI conventions.

A span stands for the run, and below it one for each step: those that ran, with the requests to models and the
calls of tools within; those that were reused, without length and marked so; and those that were skipped. A
step's spans are sent when it has ended, with the times that the trace has.

`otel` sends them while the run goes. So a process that dies has told of all that finished, and what steps
send themselves (an instrumented HTTP client, spans of one's own) belongs to the run's trace: below its span,
not below a step's, as a run tells what happened and never touches the context that its steps run in.
`export` sends all at once, when a run is over, from what the run gave or raised.

Prompts, answers, and what tools are given and give are only sent if asked for. An exception is told with its
text, unless that has words of a model's or for one.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from june._text import message_of, writable
from june.errors import RunCancelled, RunFailed
from june.handles import Handle, RunResult
from june.messages import Usage
from june.traces import TraceNode, Update
from june.tracing._attributes import (
    Attributes,
    Said,
    error_type,
    of_parts,
    of_step,
    of_usage,
    quotes,
    type_name,
)

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise ImportError("june.tracing.otel needs OpenTelemetry; pip install june-steps[otel]") from missing

__all__ = ["RunSpans", "export", "otel"]

_TOLD = frozenset({"done", "failed", "aborted", "skipped"})
"""Statuses of steps that have ended and that somebody looked at."""

_logger = logging.getLogger(__name__)


def otel(
    name: str | None = None,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    link: str | trace.SpanContext | None = None,
    content: bool = False,
) -> RunSpans:
    """
    Send a run's spans while it goes.

    The result is both a context manager, for as long as the run goes, and what the run takes as
    ``on_update``. What goes wrong with the spans is logged, and never fails the run.

    Args:
        name: What to call the run, the same each time.

        tracer_provider: Where to send the spans; None takes the program's own.

        link: The span of an earlier run that this one goes on from, as `RunSpans.traceparent` gives it. The
            two traces stay apart, and know of each other.

        content: Whether prompts, answers, and what tools are given and give are sent too.

    Example:
        >>> from june import run, step
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> @step(id="answer")
        ... def answer() -> int:
        ...     return 42
        >>> with otel("deploy", tracer_provider=TracerProvider()) as spans:
        ...     run(answer, on_update=spans).result
        42
    """
    return RunSpans(name, tracer_provider, link, content)


def export(
    record: RunResult[Any] | Handle | RunFailed | RunCancelled,
    name: str | None = None,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    link: str | trace.SpanContext | None = None,
    content: bool = False,
) -> str:
    """
    Send the spans of a run that is over.

    Args:
        record: What the run gave, its handle, or what it raised.
        name: As for `otel`.
        tracer_provider: As for `otel`.
        link: As for `otel`.
        content: As for `otel`.

    Returns:
        The run's span, as `RunSpans.traceparent` gives it.
    """
    nodes = list(record.trace.nodes)
    inner = [*nodes, *(child for node in nodes for child in node.children)]
    now = time.time_ns()
    begun = min((_nanoseconds(one.started, now) for one in inner), default=now)
    ended = max((_nanoseconds(one.finished, begun) for one in inner), default=now)
    spans = RunSpans(name, tracer_provider, link, content)
    spans._begin(begun)
    spans._tell(nodes, begun)
    spans._end(record, record if isinstance(record, BaseException) else None, ended)
    return spans.traceparent


class RunSpans:
    """The spans of one run: see `otel`."""

    def __init__(
        self,
        name: str | None,
        tracer_provider: trace.TracerProvider | None,
        link: str | trace.SpanContext | None,
        content: bool,
    ) -> None:
        self._name = name
        self._links = [] if link is None else [trace.Link(_span_context(link))]
        self._content = content
        self._tracer = trace.get_tracer("june", tracer_provider=tracer_provider)
        self._root: trace.Span = trace.INVALID_SPAN
        self._told: set[TraceNode] = set()
        self._handle: Handle | None = None
        self._current = ExitStack()

    @property
    def traceparent(self) -> str:
        """
        The run's span as W3C's ``traceparent`` writes it, for the ``link`` of a later run, in any process.

        It is empty before the run's span has begun.
        """
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(self._root))
        return carrier.get("traceparent", "")

    def __enter__(self) -> Self:
        self._begin(time.time_ns())
        # The context of a run's steps is a copy of the one that it is started in.
        self._current.enter_context(
            trace.use_span(self._root, record_exception=False, set_status_on_exception=False)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._current.close()
        now = time.time_ns()
        if self._handle is not None:
            # Of some steps no update tells: those with overrides, and all after an on_update that raised.
            self._tell(self._handle.trace, now)
        self._end(self._handle, error, now)

    def __call__(self, update: Update) -> None:
        """Send the spans of a step that has ended; this is what a run takes as ``on_update``."""
        self._handle = update.handle
        if update.kind == "status":
            self._tell([update.node], time.time_ns())

    def _begin(self, at: int) -> None:
        """Begin the run's span, below the one that is current here, if one is."""
        operation = "invoke_workflow"
        self._root = self._tracer.start_span(
            operation if self._name is None else writable(f"{operation} {self._name}"),
            attributes=_known({"gen_ai.operation.name": operation, "gen_ai.agent.name": self._name}),
            links=self._links,
            start_time=at,
        )

    def _end(self, record: Any, error: BaseException | None, at: int) -> None:
        """End the run's span."""
        try:
            if record is not None:
                self._root.set_attributes(_known(_of_run(record)))
            if error is not None:
                self._note(self._root, error, at, event=not isinstance(error, (RunFailed, RunCancelled)))
            elif record is not None and any(node.status == "failed" for node in record.trace):
                self._root.set_status(trace.StatusCode.ERROR)
        except Exception:
            _logger.warning("the span of a run says less than it should", exc_info=True)
        self._root.end(at)

    def _tell(self, nodes: Iterable[TraceNode], at: int) -> None:
        """Send the spans of steps, of which those without times are said to have ended *at*."""
        for node in nodes:
            if node in self._told or node.status not in _TOLD or (node.kind == "each" and node.children):
                # The instances of an each step speak for themselves.
                continue
            self._told.add(node)
            try:
                step = self._span(of_step(node, self._content), self._root, trace.SpanKind.INTERNAL, at)
                for part in of_parts(node, self._content) if node.attempts else ():
                    kind = trace.SpanKind.CLIENT if part.node.kind == "request" else trace.SpanKind.INTERNAL
                    self._span(part, step, kind, at)
            except Exception:
                _logger.warning("no span was sent for step %r", node.id, exc_info=True)

    def _span(self, said: Said, parent: trace.Span, kind: trace.SpanKind, at: int) -> trace.Span:
        node = said.node
        begun = _nanoseconds(node.started, at)
        span = self._tracer.start_span(
            writable(said.name),
            context=trace.set_span_in_context(parent),
            kind=kind,
            attributes=_known(said.attributes),
            start_time=begun,
        )
        ended = _nanoseconds(node.finished, at if node.started is not None else begun)
        if node.status == "failed" and node.error is not None:
            self._note(span, node.error, ended)
        span.end(ended)
        return span

    def _note(self, span: trace.Span, error: BaseException, at: int, event: bool = True) -> None:
        """Note in a span what it failed with."""
        untold = not self._content and quotes(error)
        text = "" if untold else message_of(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, writable(text or type_name(error))))
        span.set_attribute("error.type", error_type(error))
        if event:
            frames = traceback.format_tb(error.__traceback__) if untold else traceback.format_exception(error)
            span.add_event(
                "exception",
                _known(
                    {
                        "exception.type": type_name(error),
                        "exception.message": text or None,
                        "exception.stacktrace": "".join(frames),
                    }
                ),
                timestamp=at,
            )


def _of_run(record: Any) -> Attributes:
    """Say what a run came to."""
    reused: Usage | None = getattr(record, "reused_usage", None)
    return {
        "june.run.steps": len(record.trace),
        "june.run.resumed_steps": sum(node.resumed for node in record.trace),
        **of_usage(record.usage, "june.usage"),
        **of_usage(reused, "june.reused_usage"),
    }


def _known(attributes: Attributes) -> Attributes:
    return {name: _sendable(value) for name, value in attributes.items() if value is not None}


def _sendable(value: Any) -> Any:
    """Give a value as UTF-8 can hold it: what it cannot would keep other spans from being sent too."""
    if isinstance(value, str):
        return writable(value)
    return [_sendable(one) for one in value] if isinstance(value, list) else value


def _nanoseconds(moment: datetime | None, otherwise: int) -> int:
    return otherwise if moment is None else round(moment.timestamp() * 1e6) * 1000


def _span_context(link: str | trace.SpanContext) -> trace.SpanContext:
    if isinstance(link, trace.SpanContext):
        return link
    context = TraceContextTextMapPropagator().extract({"traceparent": link})
    found = trace.get_current_span(context).get_span_context()
    if not found.is_valid:
        raise ValueError(f"link must be what RunSpans.traceparent gives, not {link!r}")
    return found
