"""The types that users see. It is checked by mypy, and never run."""

from __future__ import annotations

from typing import Any, assert_type

import june
from june import Handle, RunResult, Step, run, run_async, run_resumable, run_resumable_async, start, step
from june.testing import ScriptedModel


@step(id="plan", timeout=5)
def plan(service: str, loud: bool = False) -> str:
    return service


@step(id="count", needs={"plan": plan})
async def count(plan: str) -> int:
    return len(plan)


@june.tool
def plan_tool(text: str) -> str:
    """Plan."""
    return text


# A step keeps the signature of its function, and so does a tool.
assert_type(plan_tool("x"), str)
assert_type(plan("web"), str)
assert_type(plan("web", loud=True), str)
plan(7)  # type: ignore[arg-type]
plan("web", lound=True)  # type: ignore[call-arg]

# A bound copy takes what is left, and gives the same.
assert_type(plan.bind(id="eu", service="eu"), Step[..., str])
assert_type(plan.bind(id="eu", service="eu")(), str)

# A run's result has the type of the step's, what a coroutine gives included.
assert_type(run(plan, inputs={"service": "web"}), RunResult[str])
assert_type(run(plan).result, str)
assert_type(run(count).result, int)
assert_type(run(plan, count).result, Any)
assert_type(start(plan), Handle)
assert_type(run_resumable(count, path="run.json", keep=True).result, int)
assert_type(run_resumable(plan, path="run.json", concurrency=1), RunResult[str])
assert_type(run_resumable(plan, count, path="run.json").result, Any)
run_resumable(plan)  # type: ignore[call-overload]

# Options are known by name and type.
run(plan, concurrency="many")  # type: ignore[call-overload]
run(plan, onerror="drain")  # type: ignore[call-overload]
run(plan, on_error="stop")  # type: ignore[call-overload]


# A prompt step's result is a str, or of the type that was asked for.
agent = june.Agent(ScriptedModel([]), tools=[plan_tool])


@step(id="ask", agent=agent)
def ask(plan: str) -> list[june.Message]:
    return [june.Message(plan)]


@step(id="risks", agent=agent, output=list[int], approval=True, retry=june.Retry(2))
def risks(plan: str) -> str:
    return plan


@step(id="either", agent=lambda plan: agent, output=int | None)
def either(plan: str) -> str:
    return plan


assert_type(run(ask).result, str)
assert_type(run(risks).result, list[int])
assert_type(run(either, on_approval=lambda request: request.tool is None).result, Any)
step(id="x", output=int)  # type: ignore[call-overload]


async def main() -> None:
    assert_type(await count("web"), int)
    assert_type((await run_async(count)).result, int)
    assert_type((await run_async(plan)).result, str)
    assert_type((await run_resumable_async(count, path="run.json")).result, int)
    async with june.open_run(plan) as handle:
        assert_type(await handle, RunResult[Any])
