"""
The rows of prompt steps: what one costs beside the bare request that it makes.

Both send the same bodies to the same server on 127.0.0.1 (`benchmarks.loopback`), and get the same streamed
answers. A prompt step renders, computes its key, reads the events of the answer, counts what was used and
notes it all in the trace. The bare request is posted, and its answer read whole as bytes, without a look at
what it says. The time of the process that asks is what counts; the server's does not.

Bare requests that share one client, as they usually do, pay for its pool of connections, and more so if more
of them are under way. How much more depends on how many begin in the same instant, and so on what else the
machine does. Where answers come at once, few are really under way, so one row has answers that come later.
June's requests have a client each while they last. What a prompt step costs beside a request that has one as
well is in rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from benchmarks.figures import Figure, Row, Sizes, times
from benchmarks.loopback import PIECES, answer, served
from benchmarks.timing import Work, compare
from benchmarks.yardsticks import bare_posts
from june import Agent, run, step
from june.models import Model
from june.sdk.anthropic import anthropic
from june.sdk.openai import openai

__all__ = ["AT_ONCE", "LATER", "PROMPTING", "bare_chats", "prompts"]

AT_ONCE = 32
"""How many requests are under way at once."""

LATER = 0.05
"""After how many seconds, on average, an answer comes where it does not come at once."""


def prompts(count: int) -> list[str]:
    """Give *count* prompts, each another."""
    return [f"Say something short about topic {number}." for number in range(count)]


def _messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _chat_body(prompt: str) -> dict[str, Any]:
    usage = {"include_usage": True}
    return {"model": "m", "messages": _messages(prompt), "stream_options": usage, "stream": True}


def _responses_body(prompt: str) -> dict[str, Any]:
    kept = {"store": False, "include": ["reasoning.encrypted_content"]}
    return {"model": "m", "input": _messages(prompt), **kept, "stream": True}


def _messages_body(prompt: str) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 32_000, "messages": _messages(prompt), "stream": True}


def bare_chats(address: str, count: int, at_once: int = AT_ONCE) -> Work:
    """Give the yardstick: *count* bare requests to the Chat Completions API of the server at *address*."""
    return bare_posts(f"{address}/v1/chat/completions", list(map(_chat_body, prompts(count))), at_once)


@attrs.frozen
class _Api:
    """
    An API, as June and a bare request ask for it.

    Attributes:
        path: Its function, below the server's address.
        body: Makes the body that June sends for a prompt.
        model: Makes the model, of the server's address.
    """

    path: str
    body: Callable[[str], Mapping[str, Any]]
    model: Callable[[str], Model]


_CHAT = _Api(
    "/v1/chat/completions",
    _chat_body,
    lambda address: openai("m", base_url=f"{address}/v1", api_key="none", api="chat"),
)

_RESPONSES = _Api(
    "/v1/responses",
    _responses_body,
    lambda address: openai("m", base_url=f"{address}/v1", api_key="none", api="responses"),
)

_MESSAGES = _Api(
    "/v1/messages", _messages_body, lambda address: anthropic("m", base_url=address, api_key="none")
)


def _prompt(
    api: _Api,
    sizes: Sizes,
    at_once: int = AT_ONCE,
    seconds: float = 0.0,
    pieces: int = PIECES,
    shared: bool = True,
) -> Figure:
    """Run an ``each`` prompt step beside as many bare requests."""
    asked = prompts(sizes.requests)
    expected = [answer(pieces)] * sizes.requests
    with served(seconds, pieces) as address:

        @step(id="say", agent=Agent(api.model(address)), each={"prompt": "prompts"})
        def say(prompt: str) -> str:
            return prompt

        def ask(nothing: None) -> None:
            answers: Any = run(say, inputs={"prompts": asked}, concurrency=at_once).result
            assert answers == expected

        work = Work(do=ask, count=sizes.requests)
        bodies = [api.body(prompt) for prompt in asked]
        bare = bare_posts(address + api.path, bodies, at_once, shared=shared)
        return times(compare(work, bare, min(sizes.rounds, 5) if seconds else sizes.rounds))


PROMPTING: Sequence[Row] = (
    Row(
        name="prompt",
        what="an each prompt step, Chat Completions, 32 at once, over bare httpx POSTs of the same streamed "
        "requests, read whole, nothing parsed; answers of 10 pieces, at once",
        unit="times",
        goal=1.3,
        measure=partial(_prompt, _CHAT),
    ),
    Row(
        name="prompt-later",
        what="the same, each answer 25 to 75 ms after its request, so that 32 are really under way",
        unit="times",
        goal=1.3,
        measure=partial(_prompt, _CHAT, seconds=LATER),
    ),
    Row(
        name="prompt-alone",
        what="the same as prompt, over bare POSTs whose 32 tasks have an AsyncClient each: no pool is shared",
        unit="times",
        measure=partial(_prompt, _CHAT, shared=False),
    ),
    Row(
        name="prompt-alone-later",
        what="the same as prompt-alone, each answer 25 to 75 ms after its request",
        unit="times",
        measure=partial(_prompt, _CHAT, seconds=LATER, shared=False),
    ),
    Row(
        name="prompt-single",
        what="the same as prompt, one at a time",
        unit="times",
        measure=partial(_prompt, _CHAT, at_once=1),
    ),
    Row(
        name="prompt-long",
        what="the same as prompt, answers of 200 pieces",
        unit="times",
        measure=partial(_prompt, _CHAT, pieces=200),
    ),
    Row(
        name="prompt-responses",
        what="the same as prompt, Responses API",
        unit="times",
        measure=partial(_prompt, _RESPONSES),
    ),
    Row(
        name="prompt-messages",
        what="the same as prompt, Anthropic's Messages API",
        unit="times",
        measure=partial(_prompt, _MESSAGES),
    ),
)
"""The rows of prompt steps."""
