"""
Traces: the tree of what happened in a run, a node a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from time import perf_counter, time
from typing import Any, Literal

import attrs
import msgspec

from june._text import duration, near, short_repr, writable
from june.messages import Usage

__all__ = ["Status", "Trace", "TraceNode", "Update"]

Status = Literal[
    "queued", "waiting", "running", "done", "failed", "aborted", "skipped", "blocked", "unneeded"
]
"""Where a step stands; see `TraceNode.status`."""

SETTLED: frozenset[str] = frozenset({"done", "failed", "aborted", "skipped", "blocked", "unneeded"})

LOST: frozenset[str] = frozenset({"failed", "aborted", "blocked"})
"""Statuses of steps from which no value will come."""

NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING", "__slots__": ()})()
"""Stands where there is no value, as None is one."""


class TraceNode:
    """
    What happened to one step.

    While the run goes, it shows the present.

    Attributes:
        id: The step's id; of an instance, with its label: ``review[a.py]``.
        step: The id of the step, without a label.
        status: ``queued``, ``waiting`` (for an approval), ``running``, ``done``, ``failed``, ``aborted``
            (cancelled while it ran), ``skipped`` (its ``when`` said no, or an input was skipped),
            ``blocked`` (an input failed), or ``unneeded`` (unsaved, and nobody needed it).
        resumed: Whether the result came from a snapshot.
        attempts: How often the step was started.
        error: What the step raised, or None.
        progress: What ``current().progress(done, total)`` said last, or None.
    """

    __slots__ = (
        "_finished", "_notes", "_started", "_wall", "attempts", "error", "id", "progress", "resumed",
        "status", "step",
    )  # fmt: skip

    id: str
    step: str
    status: Status
    resumed: bool
    attempts: int
    error: BaseException | None
    progress: tuple[float, float | None] | None

    def __init__(self, id: str, step: str) -> None:
        self.id = id
        self.step = step
        self.status = "queued"
        self.resumed = False
        self.attempts = 0
        self.error = None
        self.progress = None
        # Seconds on a monotonic clock, and when that clock's step began by the calendar.
        self._started = 0.0
        self._finished = 0.0
        self._wall = 0.0
        self._notes: list[str] | None = None

    @property
    def kind(self) -> str:
        """
        What sort of step it is: ``function``, ``prompt``, or ``each`` for a step with instances below it;
        within a prompt step, ``request`` and ``tool``.
        """
        return "function"

    @property
    def started(self) -> datetime | None:
        """When the first attempt began (UTC), or None."""
        return datetime.fromtimestamp(self._wall, UTC) if self._wall else None

    @property
    def finished(self) -> datetime | None:
        """When the last attempt ended (UTC), or None."""
        seconds = self.duration
        return None if seconds is None else datetime.fromtimestamp(self._wall + seconds, UTC)

    @property
    def duration(self) -> float | None:
        """Seconds from the start of the first attempt to the end of the last, or None."""
        return self._finished - self._started if self._finished and self._wall else None

    @property
    def result(self) -> Any:
        """The step's result, or None where there is none (yet)."""
        return None

    @property
    def reason(self) -> str | None:
        """Why the step ran, or was skipped or blocked, in one of a few fixed sentences; None if unknown."""
        return None

    @property
    def model(self) -> str | None:
        """The model that answered, or None."""
        return None

    @property
    def usage(self) -> Usage | None:
        """What the step's model calls used, or None where there were none."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What ``current().note(...)`` said, the oldest first."""
        return tuple(self._notes or ())

    @property
    def caveats(self) -> tuple[str, ...]:
        """
        What a reader should know of the step's cache key: objects that June cannot see into and that count by
        their type only, and code that counts as bytecode, because its source is not there or not what runs.
        """
        return ()

    @property
    def children(self) -> Sequence[TraceNode]:
        """What happened inside: an ``each`` step's instances, a prompt step's requests and tool calls."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Give the node as JSON can hold it, without its result."""
        found: dict[str, Any] = {
            "id": self.id,
            "step": self.step,
            "kind": self.kind,
            "status": self.status,
            "resumed": self.resumed,
            "started": _timestamp(self.started),
            "finished": _timestamp(self.finished),
            "seconds": self.duration,
            "attempts": self.attempts,
            "reason": self.reason,
            "error": None if self.error is None else _one_line(self.error),
            "notes": list(self.notes),
        }
        if self.model is not None:
            found["model"] = self.model
        if self.usage is not None:
            found["usage"] = self.usage.to_dict()
        if self.progress is not None:
            found["progress"] = list(self.progress)
        if self.children:
            found["children"] = [child.to_dict() for child in self.children]
        return found

    def __repr__(self) -> str:
        return f"<TraceNode {self.id!r} {self.status}{' resumed' if self.resumed else ''}>"


def _timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return writable(line)


class Part(TraceNode):
    """
    A model request or a tool call within a step.

    Its `TraceNode.id` is the step's, a slash, ``request`` or the tool's name, and a number from 1.
    """

    __slots__ = ("_kind", "_model", "_result", "_usage")

    def __init__(self, id: str, step: str, kind: str) -> None:
        super().__init__(id, step)
        self._kind = kind
        self._model: str | None = None
        self._result: Any = None
        self._usage: Usage | None = None

    @property
    def kind(self) -> str:
        """``request`` or ``tool``."""
        return self._kind

    @property
    def result(self) -> Any:
        """What the model answered, a `june.messages.Response`, or what the tool returned."""
        return self._result

    @property
    def model(self) -> str | None:
        return self._model

    @property
    def usage(self) -> Usage | None:
        return self._usage

    def begin(self) -> None:
        """Note that it begins."""
        self.status = "running"
        self.attempts = 1
        self._started = perf_counter()
        self._wall = time()

    def end(self, result: Any, error: BaseException | None = None, status: Status = "done") -> None:
        """Note how it ended."""
        self._finished = perf_counter()
        self._result = result
        self.error = error
        self.status = status

    def spend(self, usage: Usage, model: str | None = None) -> None:
        """Note what it used, beside what it had used before."""
        self._usage = usage if self._usage is None else self._usage + usage
        self._model = model or self._model


class Talk:
    """
    What a prompt step's conversation has come to.

    Attributes:
        prompt: The prompt, as it was rendered.
        parts: Its requests and tool calls, in the order in which they began.
        usage: What its requests used.
        model: The model that answered last, or None.
        waits: Why models wait just now, or were waiting when the step's time was up.
    """

    __slots__ = ("_counts", "model", "parts", "prompt", "usage", "waits")

    def __init__(self, prompt: Any) -> None:
        self.prompt = prompt
        self.parts: list[Part] = []
        self.usage = Usage()
        self.model: str | None = None
        self.waits: list[str] = []
        self._counts: dict[str, int] = {}

    def begin(self, one: TraceNode, kind: str, name: str) -> Part:
        """Add a part, which begins now."""
        # A model may call things what UTF-8 cannot hold.
        name = writable(name)
        number = self._counts[name] = self._counts.get(name, 0) + 1
        part = Part(f"{one.id}/{name}[{number}]", one.step, kind)
        self.parts.append(part)
        part.begin()
        return part

    def meta(self) -> str:
        """What a snapshot says of it, as JSON fields, each after a comma."""
        found = (
            f',"usage":{msgspec.json.encode(self.usage.to_dict()).decode()}' if self.usage.requests else ""
        )
        return f',"model":{msgspec.json.encode(self.model).decode()}{found}' if self.model else found

    def spend(self, part: Part, usage: Usage, model: str | None = None) -> None:
        """Count what a request used."""
        model = None if model is None else writable(model)
        part.spend(usage, model)
        self.usage += usage
        self.model = model or self.model


class Trace:
    """
    What happened in a run, or is happening: a read-only view.

    ``str(trace)`` is a table for people.
    """

    __slots__ = ("_find", "_nodes")

    def __init__(
        self, nodes: Callable[[], Sequence[TraceNode]], find: Callable[[str], TraceNode | None]
    ) -> None:
        self._nodes = nodes
        self._find = find

    @property
    def nodes(self) -> Sequence[TraceNode]:
        """
        A node for each step, in graph order.

        Where an ``each`` step's items are known, its instances stand in its place, in item order.
        """
        return self._nodes()

    def node(self, id: str) -> TraceNode:
        """
        Find a node by id; the id of an ``each`` step gives a node with its instances as children.

        Raises:
            KeyError: If the run has no such step.
        """
        found = self._find(id)
        if found is None:
            hint = near(id, (node.id for node in self.nodes))
            raise KeyError(f"no step {id!r}" + (f"; did you mean {hint[0]!r}?" if hint else ""))
        return found

    def __iter__(self) -> Iterator[TraceNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def to_json(self, indent: int | None = None) -> bytes:
        """Give the trace as JSON: a list of nodes, without results."""
        encoded = msgspec.json.encode([node.to_dict() for node in self.nodes])
        return encoded if indent is None else msgspec.json.format(encoded, indent=indent)

    def __str__(self) -> str:
        rows = [("step", "status", "time", "")]
        rows += [(node.id, _status(node), _time(node), _remark(node)) for node in self.nodes]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]
            ).rstrip()
            for row in rows
        )

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for node in self.nodes:
            name = _status(node)
            counts[name] = counts.get(name, 0) + 1
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        count = len(self.nodes)
        return f"<Trace of {count} {'step' if count == 1 else 'steps'}: {said}>"


def _status(node: TraceNode) -> str:
    return "resumed" if node.resumed else node.status


def _time(node: TraceNode) -> str:
    return "" if node.duration is None else duration(node.duration)


def _remark(node: TraceNode) -> str:
    if node.error is not None:
        return short_repr(node.error)
    if node.status == "running" and node.progress is not None:
        done, total = node.progress
        return f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return node.reason or ""


@attrs.frozen
class Update:
    """
    One change in a run, as ``on_update`` receives it.

    Attributes:
        kind: ``status``, ``progress`` or ``note``: what changed; ``text`` where a model's answer goes on, and
            ``restart`` where all of the answer so far counts for nothing, as it is asked for anew.
        node: The node that changed, as it is now.
        handle: The run's handle; its ``snapshot()`` may be called.
        text: What was noted, or how the answer goes on; else None.
    """

    kind: Literal["status", "progress", "note", "text", "restart"]
    node: TraceNode
    handle: Any
    text: str | None = None
