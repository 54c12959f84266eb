"""
Hosting: what the conversations of one run's prompt steps share, and ask of the run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import trio

from june._digests import digest, framed
from june._text import duration, short_repr
from june.approvals import ApprovalRequest, Desk
from june.errors import ModelError
from june.messages import Request, Response, ToolCall, Usage
from june.models import Model, check_allowed
from june.prices import priced
from june.slots import Slots
from june.stepruns import StepRun
from june.tools import Tool
from june.traces import Part, Talk

_TOOLS_AT_ONCE = 16
"""How many tools of one step run at once."""

_TOOL_THREADS = 64
_CLOSE_SECONDS = 1.0


class Hosting:
    """
    What the models and tools of one run share.

    Attributes:
        tell: Tells whoever watches that something changed: what, the node, and a text.
        slots: Takes slots back while somebody waits.
        desk: Where requests for approval wait.
    """

    def __init__(self, tell: Callable[..., object], slots: Slots, desk: Desk) -> None:
        self.tell = tell
        self.slots = slots
        self.desk = desk
        self._clients: list[Any] = []
        self._free_clients: list[Any] = []
        self._ssl_context: Any = None
        self._tool_limiter: trio.CapacityLimiter | None = None

    def take_client(self) -> Any:
        """
        Give the HTTP client of this run that was given back last, or a new one.

        With one for all, and many requests under way, most of the time would go to finding them connections:
        httpx's pool looks through all it has, with a system call for each idle one, whenever a request begins
        or ends, and gives those that begin at once the same one, of which all but the first try again.
        """
        if self._free_clients:
            return self._free_clients.pop()
        import httpx  # costs as much as trio, and many runs ask no model

        if self._ssl_context is None:
            self._ssl_context = httpx.create_ssl_context()
        # A run has its own bounds; as many connections as it makes are kept.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        client = httpx.AsyncClient(verify=self._ssl_context, limits=limits)
        self._clients.append(client)
        return client

    def give_back(self, client: Any) -> None:
        """Take a client back; whoever still uses it may go on to."""
        self._free_clients.append(client)

    @property
    def tool_limiter(self) -> trio.CapacityLimiter:
        """How many threads the tools of this run may take at once."""
        if self._tool_limiter is None:
            self._tool_limiter = trio.CapacityLimiter(_TOOL_THREADS)
        return self._tool_limiter

    async def close(self) -> None:
        """Close the clients, if there are any."""
        with trio.move_on_after(_CLOSE_SECONDS, shield=True):
            async with trio.open_nursery() as nursery:
                for client in self._clients:
                    nursery.start_soon(_close, client)


async def _close(client: Any) -> None:
    try:
        await client.aclose()
    except Exception:
        # What a connection says on its way out changes nothing for the run.
        pass


class Host:
    """What the conversation of a prompt step asks of its run."""

    def __init__(self, hosting: Hosting, one: StepRun, clock: trio.CancelScope | None) -> None:
        """
        Args:
            hosting: What the run's conversations share.
            one: The step, which has rendered.
            clock: The scope whose deadline is the step's timeout, or None.
        """
        self._hosting = hosting
        self._one = one
        assert one.talk is not None  # it has rendered
        self._talk = one.talk
        self._clock = clock
        self._at_once = trio.Semaphore(_TOOLS_AT_ONCE)
        # How many tools wait for a person, and how much of the timeout is left meanwhile.
        self._waiting = 0
        self._left = 0.0
        one.talk.waits.clear()

    async def ask(self, model: Model, request: Request) -> Response:
        await self._hosting.slots.regain(self._one)
        part = self._talk.begin(self._one, "request", "request")
        call = _Call(self._hosting, self._one, self._talk, part, model, self._clock)
        # What the model does to them stays there.
        settings = request.settings.copied()
        with _noted(part):
            check_allowed(model, self._one.reason)
            answer = model.respond(attrs.evolve(request, settings=settings, call=call))
            if not inspect.isawaitable(answer):
                raise ModelError(f"model {model.name!r} cannot be asked: its respond must be async")
            try:
                response = await answer
            finally:
                call.end()
            problem = _what_is_wrong(response)
            if problem is not None:
                # It has been asked all the same.
                self._talk.spend(part, Usage(requests=1))
                raise ModelError(f"model {model.name!r} gave {problem}")
            usage = response.usage
            if not usage.requests:
                usage = attrs.evolve(usage, requests=1)
            usage = priced(model, usage, response.model)
            self._talk.spend(part, usage, response.model or model.name)
            part.end(response)
        return response

    def note_calls(self, calls: Sequence[ToolCall]) -> list[Part]:
        self._hosting.slots.split(self._one, len(calls))
        return [self._talk.begin(self._one, "tool", call.name) for call in calls]

    def call_is_over(self) -> None:
        self._hosting.slots.join(self._one)

    async def use(
        self, part: Part, tool: Tool[..., Any], call: ToolCall, arguments: Mapping[str, Any]
    ) -> str:
        with _noted(part):
            if tool.approval:
                await self._seek_approval(part, tool, call)
            await self._hosting.slots.regain(self._one)
            async with self._at_once:
                if tool.is_async:
                    result = await tool.function(**arguments)
                else:
                    result = await trio.to_thread.run_sync(
                        partial(tool.function, **arguments),
                        abandon_on_cancel=True,
                        limiter=self._hosting.tool_limiter,
                    )
            content = tool.encode(result)
            part.end(result)
        return content

    async def _seek_approval(self, part: Part, tool: Tool[..., Any], call: ToolCall) -> None:
        """
        Wait, without a slot, until somebody lets a model's call of a tool go on.

        Raises:
            ApprovalRejected: If somebody says no, or there is nobody to ask.
        """
        one, hosting = self._one, self._hosting
        request = ApprovalRequest(
            id=part.id,
            step=one.id,
            question=f"Call {tool.name}?",
            tool=tool.name,
            # Its own: what somebody does to them does not reach the tool.
            arguments=tool.decode(call.arguments),
            key=digest(framed(one.id.encode(), tool.name.encode(), call.arguments.encode())).hex(),
        )
        pending = hosting.desk.open(request)
        part.status = one.status = "waiting"
        try:
            hosting.tell("status", one)
            with self._clock_stopped():
                await hosting.slots.rest(one, partial(hosting.desk.wait, pending), keep_limit=False)
        finally:
            hosting.desk.withdraw(pending)
        part.status = "running"
        if not self._waiting:
            one.status = "running"
            hosting.tell("status", one)

    @contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        """Let no time of the step's timeout pass while a person is asked."""
        clock = self._clock
        if clock is not None and not self._waiting:
            self._left = clock.deadline - trio.current_time()
            clock.deadline = float("inf")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if clock is not None and not self._waiting:
                clock.deadline = trio.current_time() + self._left


_REASONS = frozenset({"stop", "tool_calls", "length", "refusal", "content_filter"})


def _what_is_wrong(response: Any) -> str | None:
    """Say what is wrong with what a model, which anybody may have written, gave; None if it is a response."""
    if not isinstance(response, Response):
        return f"{short_repr(response)}, not a Response"
    # What its hints say, nobody has checked.
    text, calls, reason, usage, model = (
        getattr(response, name) for name in ("text", "tool_calls", "finish_reason", "usage", "model")
    )
    if not isinstance(text, str) or not isinstance(model, str):
        return "a Response whose text or model is not a str"
    if not isinstance(usage, Usage):
        return f"a Response whose usage is {short_repr(usage)}"
    if not isinstance(reason, str) or reason not in _REASONS:
        return f"a Response whose finish_reason is {short_repr(reason)}"
    if not isinstance(calls, (list, tuple)) or not all(map(_is_call, calls)):
        return "a Response whose tool_calls are no ToolCalls of texts"
    if reason == "tool_calls" and not calls:
        return "a Response that says it calls tools, and calls none"
    return None


def _is_call(call: Any) -> bool:
    texts = (getattr(call, name, None) for name in ("id", "name", "arguments"))
    return isinstance(call, ToolCall) and all(isinstance(text, str) for text in texts)


@contextmanager
def _noted(part: Part) -> Iterator[None]:
    """Note in a part of a conversation what it raises."""
    try:
        yield
    except Exception as error:
        part.end(None, error, "failed")
        raise
    except BaseException as error:
        part.end(None, error, "aborted")
        raise


class _Call:
    """What a model may ask of the run: see `june.models.Call`."""

    def __init__(
        self,
        hosting: Hosting,
        one: StepRun,
        talk: Talk,
        part: Part,
        model: Model,
        clock: trio.CancelScope | None,
    ) -> None:
        self._hosting = hosting
        self._one = one
        self._talk = talk
        self._part = part
        self._model = model
        self._clock = clock
        self._client: Any = None
        self._is_over = False

    @property
    def client(self) -> Any:
        if self._client is None:
            self._client = self._hosting.take_client()
        return self._client

    def end(self) -> None:
        """Note that the request is over: whoever still has this has no slot of the step's to give away."""
        self._is_over = True
        self._let_go()

    def _let_go(self) -> None:
        """Give the client back, if there is one."""
        if self._client is not None:
            self._hosting.give_back(self._client)
            self._client = None

    def text(self, delta: str) -> None:
        self._hosting.tell("text", self._one, delta)

    def restart(self) -> None:
        self._hosting.tell("restart", self._one)

    def spent(self, usage: Usage) -> None:
        self._talk.spend(self._part, priced(self._model, usage))

    async def wait(self, seconds: float, why: str) -> None:
        if self._is_over:
            await trio.sleep(seconds)
            return
        self._one.add_note(f"waits {duration(seconds)}: {why}")
        # Many may wait. Whoever goes on with the same client afterwards may share it with another request.
        self._let_go()
        self._talk.waits.append(why)
        try:
            # The limit is most likely the provider's, who is just what is waited for.
            await self._hosting.slots.rest(self._one, partial(trio.sleep, seconds), keep_limit=True)
        finally:
            if self._clock is None or not self._clock.cancel_called:
                # It was not the step's timeout that cut it short, which would say so.
                self._talk.waits.remove(why)
