"""
For tests of workflows: models that answer from a script, and a guard against real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import trio

from june._text import short_repr
from june.errors import ModelError
from june.messages import Message, Request, Response, ToolCall, Usage
from june.models import blocked

__all__ = ["ScriptedModel", "block_models"]


class ScriptedModel:
    """
    A model that answers from a list or a function, without any network.

    An answer is a `str`; a `june.messages.Response`; an exception, which is raised; a `ToolCall`, or a list
    of them; or any other value that JSON can hold, which is written as JSON, for structured output.

    Attributes:
        requests: What it was asked, in the order in which it was.

    Example:
        >>> from june import Agent, run, step
        >>> model = ScriptedModel(["Deploy web, then api"])
        >>> @step(id="plan", agent=Agent(model))
        ... def plan(service: str) -> str:
        ...     return f"Plan the deploy of {service}"
        >>> run(plan, inputs={"service": "web"}).result
        'Deploy web, then api'
        >>> model.requests[0].messages[0].text
        'Plan the deploy of web'
    """

    scripted = True

    def __init__(
        self,
        answers: Iterable[Any] | Callable[[Request], Any],
        name: str = "scripted",
        usage: Usage | None = None,
    ) -> None:
        """
        Args:
            answers: The answers, in order; or a function of the request that gives each, plain or async.

            name: The model's name, which is part of cache keys.

            usage: What each answer says it used; one request if not given.
        """
        if isinstance(answers, (str, bytes, dict)):
            raise TypeError(f"answers are a list or a function; say ScriptedModel([{short_repr(answers)}])")
        self.name = name
        self.requests: list[Request] = []
        self._answers = answers if callable(answers) else iter(answers)
        self._usage = usage or Usage(requests=1)

    @property
    def settings_key(self) -> Any:
        return {"provider": "june.testing", "model": self.name}

    async def respond(self, request: Request) -> Response:
        """Give the next answer."""
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        answer: Any = None if callable(self._answers) else next(self._answers, self)
        if answer is self:
            told = request.messages[-1] if len(request.messages) > 1 else None
            # A repair that nobody has thought of, mostly.
            last = f"; the last time it was told: {told.text}" if isinstance(told, Message) else ""
            raise ModelError(
                f"model {self.name!r} has no more answers: it was asked {len(self.requests)} times{last}"
            )
        try:
            if callable(self._answers):
                answer = self._answers(request)
            if hasattr(answer, "__await__"):
                answer = await answer
            if isinstance(answer, BaseException):
                raise answer
        except BaseException:
            # It stands for a request that failed, which counts.
            if request.call is not None:
                request.call.spent(Usage(requests=1))
            raise
        response = self._response(answer)
        if response.text and request.call is not None:
            request.call.text(response.text)
        return response

    def _response(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, ToolCall):
            answer = [answer]
        if isinstance(answer, (list, tuple)) and answer and all(isinstance(one, ToolCall) for one in answer):
            return Response(
                tool_calls=tuple(answer), finish_reason="tool_calls", usage=self._usage, model=self.name
            )
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        return Response(text=text, usage=self._usage, model=self.name)

    def __repr__(self) -> str:
        return f"<ScriptedModel {short_repr(self.name)}, asked {len(self.requests)} times>"


def block_models() -> AbstractContextManager[None]:
    """
    Let no model be asked meanwhile, in any run of this process, but scripted ones.

    As ``with block_models():``; in pytest, around a ``yield`` in a fixture with ``autouse=True``.

    Raises:
        june.ModelError: In the step that would have asked one.
    """
    return blocked()
