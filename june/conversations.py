"""
Conversations: a prompt, a model's answers, and the tools that it calls, until there is a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

import attrs
import trio

from june._exceptions import without
from june._text import near
from june.agents import Rendered
from june.errors import ModelError, StepError, ToolError
from june.messages import Message, Request, Response, Settings, ToolCall, ToolResult
from june.models import Model
from june.outputs import BadOutput
from june.tools import BadArguments, Tool
from june.traces import Part


class Host(Protocol):
    """The run that a conversation is part of."""

    async def ask(self, model: Model, request: Request) -> Response:
        """Have *model* answer a request; it is noted in the trace, and counted."""

    def note_calls(self, calls: Sequence[ToolCall]) -> list[Part]:
        """Note the calls of one answer in the trace, which are about to be made at the same time."""

    def call_is_over(self) -> None:
        """Hear that one of them is over."""

    async def use(
        self, part: Part, tool: Tool[..., Any], call: ToolCall, arguments: Mapping[str, Any]
    ) -> str:
        """Call a tool, once it is approved if it must be; give what the model is told."""


async def converse(rendered: Rendered, host: Host) -> Any:
    """
    Hold a conversation.

    Args:
        rendered: The prompt, and all that it is sent with.
        host: The run.

    Returns:
        The answer, as a value of the type that was asked for.

    Raises:
        ModelError: If there is no answer, or none of that type.
        ApprovalRejected: If a tool was not approved.
        Exception: Whatever a tool raises that is no `ToolError`.
    """
    agent, output = rendered.agent, rendered.output
    messages: list[Message | Response | ToolResult] = list(rendered.messages)
    request = Request(
        messages=(),
        instructions=agent.instructions,
        tools=tuple(tool.spec for tool in agent.tools),
        output=deepcopy(output.schema),  # what the model does to it stays there
        settings=agent.settings,
    )
    turns = repairs = 0
    while True:
        response = await host.ask(agent.model, attrs.evolve(request, messages=tuple(messages)))
        messages.append(response)
        _check_finished(agent.model, agent.settings, response)
        if response.tool_calls:
            turns += 1
            if turns >= agent.max_turns:
                raise ModelError(
                    f"model {agent.model.name!r} called tools in {turns} answer{'s' * (turns != 1)}, "
                    "which is all that max_turns allows, and gave no answer",
                    text=response.text or None,
                )
            messages += await _call_tools(agent.tools, response.tool_calls, host)
            if request.settings.tool_choice not in (None, "auto", "none"):
                # It has called one. Made to go on, it could never answer.
                request = attrs.evolve(request, settings=attrs.evolve(request.settings, tool_choice="auto"))
            continue
        try:
            return output.decode(response.text)
        except BadOutput as problem:
            if repairs >= agent.output_retries:
                asked = "" if not repairs else f", though it was told so {_times(repairs)}"
                raise ModelError(
                    f"model {agent.model.name!r} gave an answer that is not what was asked for{asked}: "
                    f"{problem}",
                    text=response.text,
                ) from None
            repairs += 1
            messages.append(
                Message(
                    f"Your answer cannot be used: {problem}\nAnswer again, with the whole of it corrected."
                )
            )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _check_finished(model: Model, settings: Settings, response: Response) -> None:
    """Refuse an answer that is not whole, or none."""
    reason = response.finish_reason
    if reason == "length":
        limit = "the longest that its server or its context allows"
        if settings.max_tokens is not None:
            limit = f"Settings(max_tokens={settings.max_tokens})"
        raise ModelError(
            f"model {model.name!r} was cut off in the middle of its answer, at {limit}", text=response.text
        )
    if reason == "refusal":
        raise ModelError(
            f"model {model.name!r} refused: {response.text or 'it did not say why'}", text=response.text
        )
    if reason == "content_filter":
        raise ModelError(
            f"the answer of model {model.name!r} was held back by a content filter", text=response.text
        )


async def _call_tools(
    tools: Sequence[Tool[..., Any]], calls: Sequence[ToolCall], host: Host
) -> list[ToolResult]:
    """Call tools at the same time; the results are in the order of the calls."""
    results: dict[int, ToolResult] = {}
    failures: dict[int, BaseException] = {}
    known = {tool.name: tool for tool in tools}
    parts = host.note_calls(calls)
    begun = [trio.Event() for _ in calls]

    async def one(number: int, call: ToolCall) -> None:
        try:
            if number:
                # As far as it goes without waiting, each is ahead of the next: so people are asked in order.
                await begun[number - 1].wait()
            begun[number].set()
            results[number] = await _call_tool(known, call, parts[number], host)
        except BaseException as error:
            if without(error, trio.Cancelled) is None:
                raise
            failures[number] = error
            # The step fails with it; what the others would give is of no use any more.
            nursery.cancel_scope.cancel()
        finally:
            host.call_is_over()

    async with trio.open_nursery() as nursery:
        for number, call in enumerate(calls):
            nursery.start_soon(one, number, call)
    errors = [failures[number] for number in sorted(failures)]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} tools failed", errors)
    for number, call in enumerate(calls):
        if number not in results:
            raise StepError(
                f"tool {call.name!r} raised Cancelled, which would end more than the tool; "
                "raise an ordinary exception"
            )
    return [results[number] for number in range(len(calls))]


async def _call_tool(
    known: Mapping[str, Tool[..., Any]], call: ToolCall, part: Part, host: Host
) -> ToolResult:
    tool = known.get(call.name)
    problem: Exception
    if tool is None:
        hint = near(call.name, known)
        meant = f"; did you mean {hint[0]!r}?" if hint else "."
        problem = ToolError(f"There is no tool {call.name!r}{meant} There are: {', '.join(known) or 'none'}.")
        part.end(None, problem, "failed")
    else:
        try:
            arguments = tool.decode(call.arguments)
        except BadArguments as bad:
            problem = ToolError(f"The arguments cannot be used: {bad}")
            part.end(None, problem, "failed")
        else:
            try:
                content = await host.use(part, tool, call, arguments)
                return ToolResult(id=call.id, name=call.name, content=content)
            except ToolError as error:
                problem = error
    return ToolResult(id=call.id, name=call.name, content=str(problem), is_error=True)
