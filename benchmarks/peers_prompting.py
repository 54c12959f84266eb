"""
Peers beside prompt steps: the same prompts to the same server, as many at once.

Each asks as a plain run of it does: with OpenAI's package, for a whole answer and not a streamed one. They
are measured in a process of their own, beside the same bare requests as June's rows, which are streamed.
Their clients are made once, and one event loop serves all their turns.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs

from benchmarks.figures import Figure, Row, Sizes, times
from benchmarks.loopback import answer, served
from benchmarks.processes import probe
from benchmarks.prompting import AT_ONCE, LATER, bare_chats, prompts
from benchmarks.timing import Work, compare

__all__ = ["langgraph_prompts", "prompting_rows", "pydantic_ai_prompts"]


def prompting_rows() -> Sequence[Row]:
    """The rows of those that are installed."""
    found: list[Row] = []
    if importlib.util.find_spec("pydantic_ai") and importlib.util.find_spec("openai"):
        found += _PYDANTIC_AI
    if importlib.util.find_spec("langgraph") and importlib.util.find_spec("langchain_openai"):
        found += _LANGGRAPH
    return found


def pydantic_ai_prompts(requests: int, rounds: int, seconds: float) -> tuple[Any, ...]:
    """
    Call `Agent.run` for each prompt, from as many tasks as may ask at once.

    Args:
        requests: How many requests.

        rounds: How many turns.

        seconds: How long after a request its answer comes.

    Returns:
        The fields of a `Figure`.
    """
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    asked = prompts(requests)
    with served(seconds) as address, asyncio.Runner() as runner:
        client = AsyncOpenAI(base_url=f"{address}/v1", api_key="none")
        agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))

        async def ask() -> list[str]:
            answers = [""] * requests
            left = iter(enumerate(asked))

            async def go_on() -> None:
                for number, prompt in left:
                    answers[number] = (await agent.run(prompt)).output

            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(go_on())
            return answers

        def run(nothing: None) -> None:
            assert runner.run(ask()) == [answer()] * requests

        compared = compare(Work(do=run, count=requests), bare_chats(address, requests), rounds)
        runner.run(client.close())
    return attrs.astuple(times(compared))


def langgraph_prompts(requests: int, rounds: int, seconds: float) -> tuple[Any, ...]:
    """
    Run an entrypoint that calls a task for each prompt, which awaits ``ChatOpenAI.ainvoke``.

    Takes and gives what `pydantic_ai_prompts` does.
    """
    # Before the import: what it runs is to be told to nobody.
    os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}

    from langchain_openai import ChatOpenAI
    from langgraph.func import entrypoint, task
    from pydantic import SecretStr

    asked = prompts(requests)
    with served(seconds) as address, asyncio.Runner() as runner:
        model = ChatOpenAI(model="m", base_url=f"{address}/v1", api_key=SecretStr("none"))

        @task
        async def say(prompt: str) -> Any:
            return (await model.ainvoke(prompt)).content

        @entrypoint()
        async def collect(topics: list[str]) -> list[Any]:
            return list(await asyncio.gather(*(say(topic) for topic in topics)))

        async def ask() -> Any:
            return await collect.ainvoke(asked, {"max_concurrency": AT_ONCE})

        def run(nothing: None) -> None:
            assert runner.run(ask()) == [answer()] * requests

        compared = compare(Work(do=run, count=requests), bare_chats(address, requests), rounds)
    return attrs.astuple(times(compared))


def _in_its_process(name: str, seconds: float, sizes: Sizes) -> Figure:
    return Figure(*probe(name, sizes.requests, min(sizes.rounds, 5), seconds))


def _rows(peer: str, what: str) -> list[Row]:
    """Give the rows of a peer: answers that come at once, and later."""
    name, probed = what.partition(":")[0], f"{peer}-prompts"
    return [
        Row(
            name=f"prompt/{peer}",
            what=what,
            unit="times",
            measure=partial(_in_its_process, probed, 0.0),
        ),
        Row(
            name=f"prompt-later/{peer}",
            what=f"{name}: the same",
            unit="times",
            measure=partial(_in_its_process, probed, LATER),
        ),
    ]


_PYDANTIC_AI = _rows(
    "pydantic-ai", "Pydantic AI: Agent.run with its OpenAI chat model, from 32 tasks, whole answers"
)

_LANGGRAPH = _rows(
    "langgraph", "LangGraph: a task of an entrypoint awaits ChatOpenAI.ainvoke, 32 at once, whole answers"
)
