"""What requests cost: looked up by provider and model, added up by runs, and never guessed."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import attrs
import pytest

from june import Agent, Usage, graph, run, step
from june import prices as prices_module
from june.messages import Request, Response
from june.prices import cost_of
from june.testing import ScriptedModel

pytest.importorskip("genai_prices")

MILLION = 1_000_000


class Sold(ScriptedModel):
    """A scripted model that passes for one of a provider's."""

    def __init__(self, answers: Any, name: str = "gpt-4o", key: Any = None, **options: Any) -> None:
        super().__init__(answers, name, **options)
        self.key = {"provider": "openai", "model": name} if key is None else key

    @property
    def settings_key(self) -> Any:
        return self.key


def asked(model: Any, id: str = "ask") -> Any:
    """A prompt step of one model."""

    @step(id=id, agent=Agent(model))
    def ask() -> str:
        return f"say something for {id}"

    return ask


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(requests=1, input_tokens=MILLION), 2.5),
        (Usage(requests=1, output_tokens=MILLION), 10.0),
        (Usage(requests=1, input_tokens=MILLION, cached_tokens=MILLION), 1.25),
        (Usage(requests=1, input_tokens=1000, output_tokens=100, reasoning_tokens=50), 0.0035),
        (Usage(requests=1), 0.0),
    ],
)
def test_a_request_costs_what_the_list_says(usage: Usage, dollars: float):
    """Tokens sent, received and cached each have their price; thinking is a part of what was received."""
    assert cost_of("openai", "gpt-4o", usage) == pytest.approx(dollars)


def test_a_model_is_found_by_the_name_that_the_provider_answers_with():
    """A dated name is the same model's."""
    usage = Usage(requests=1, input_tokens=1000)
    assert cost_of("openai", "gpt-4o-2024-08-06", usage) == cost_of("openai", "gpt-4o", usage)
    assert cost_of("anthropic", "claude-sonnet-4-5", usage) == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "no-such-model", Usage(requests=1, input_tokens=10)),
        ("nobody", "gpt-4o", Usage(requests=1, input_tokens=10)),
        ("local", "gpt-4o", Usage(requests=1, input_tokens=10)),
        ("june.testing", "gpt-4o", Usage(requests=1, input_tokens=10)),
        ("openai", "gpt-4o", Usage(requests=1, input_tokens=10, cached_tokens=20)),
    ],
    ids=["model", "provider", "local", "scripted", "counts that do not fit"],
)
def test_what_is_not_known_costs_none(provider: str, model: str, usage: Usage):
    """A cost that is not known is None, never 0."""
    assert cost_of(provider, model, usage) is None


def test_without_the_package_nothing_is_known(monkeypatch: pytest.MonkeyPatch):
    """The package is an extra; a run without it has usage without cost."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    prices_module._prices.cache_clear()
    try:
        assert cost_of("openai", "gpt-4o", Usage(requests=1, input_tokens=10)) is None
        assert run(asked(Sold(["hello"]))).usage == Usage(requests=1)
    finally:
        prices_module._prices.cache_clear()


def test_prices_are_looked_up_without_a_network(monkeypatch: pytest.MonkeyPatch):
    """What the package holds is enough; nothing is fetched."""

    def refuse(*args: Any) -> Any:
        raise AssertionError("a connection was to be made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    prices_module._prices.cache_clear()
    assert cost_of("openai", "gpt-4o", Usage(requests=1, input_tokens=MILLION)) == pytest.approx(2.5)


def test_importing_june_and_a_run_without_models_load_no_prices():
    """The package is imported when a model of a provider answers, not before."""
    code = (
        "import sys; from june import run, step; from june.testing import ScriptedModel; from june import Agent\n"
        "@step(id='ask', agent=Agent(ScriptedModel(['x'])))\n"
        "def ask() -> str:\n"
        "    return 'go'\n"
        "run(ask); print('genai_prices' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


# -- In a run.


def test_a_run_adds_up_what_its_requests_cost():
    """Requests, steps and runs have their costs, and a run that finds all saved costs nothing."""
    used = Usage(requests=1, input_tokens=1000, output_tokens=100)
    target = graph(asked(Sold(["a"], usage=used), "first"), asked(Sold(["b"], usage=used), "second"))
    result = run(target)
    assert result.usage.cost == pytest.approx(0.007)
    node = result.trace.node("first")
    assert node.usage is not None and node.usage.cost == pytest.approx(0.0035)
    assert [part.usage for part in node.children] == [node.usage]
    again = run(target, snapshot=result)
    assert again.usage == Usage()
    assert again.reused_usage.cost == pytest.approx(0.007)


def test_a_cost_that_a_model_tells_itself_is_kept():
    """A provider may know better than a list."""
    model = Sold(["a"], usage=Usage(requests=1, input_tokens=1000, cost=0.5))
    assert run(asked(model)).usage.cost == 0.5


def test_the_model_that_answered_is_the_one_that_is_paid():
    """A provider may answer with another model; where that is not listed, the one asked for counts."""
    used = Usage(requests=1, output_tokens=MILLION)
    cheaper = Response(text="a", usage=used, model="gpt-4o-mini")
    unlisted = Response(text="a", usage=used, model="our-deployment-7")
    assert run(asked(Sold([cheaper]))).usage.cost == pytest.approx(0.6)
    assert run(asked(Sold([unlisted]))).usage.cost == pytest.approx(10.0)


def test_one_cost_that_is_not_known_makes_the_sum_unknown():
    """A part of a cost would pass for the whole."""
    used = Usage(requests=1, output_tokens=1000)
    result = run(asked(Sold(["a"], usage=used), "first"), asked(ScriptedModel(["b"]), "second"))
    assert result.trace.node("first").usage == attrs.evolve(used, cost=0.01)
    assert result.usage == Usage(requests=2, output_tokens=1000)


def test_what_a_provider_does_not_tell_has_no_price():
    """An answer without counts of tokens was not free."""
    result = run(asked(Sold(["a"], usage=Usage(requests=1))))
    assert result.usage == Usage(requests=1)


def test_a_server_that_is_not_the_providers_own_has_no_price():
    """Whoever speaks a provider's API asks what they want, or nothing."""

    class Elsewhere(Sold):
        at_home = False

    used = Usage(requests=1, output_tokens=1000)
    assert run(asked(Elsewhere(["a"], usage=used))).usage == used


def test_a_cost_of_nothing_is_kept_as_known():
    """What is free is told apart from what is not known, in a snapshot too."""
    free = Usage(requests=1, output_tokens=10, cost=0.0)
    target = asked(ScriptedModel(["a"], usage=free))
    assert run(target, snapshot=run(target)).reused_usage == free


@pytest.mark.parametrize("key", ["gpt-4o", {"model": "gpt-4o"}, {"provider": 7}], ids=repr)
def test_a_model_that_names_no_provider_has_no_price(key: Any):
    """Prices are a provider's: the same model may cost more at another."""
    assert run(asked(Sold(["a"], key=key))).usage == Usage(requests=1)


def test_no_price_is_worth_losing_an_answer():
    """What goes wrong with a price that is looked up leaves the cost unknown."""

    class Gone(Sold):
        looked = 0

        @property
        def settings_key(self) -> Any:
            self.looked += 1
            if self.looked > 1:
                raise OSError("the file is gone")
            return self.key

    result = run(asked(Gone(["a"])))
    assert result.result == "a" and result.usage == Usage(requests=1)


def test_an_attempt_that_came_to_nothing_costs_what_it_used():
    """A refused attempt used nothing and leaves the cost known; one that broke off costs its tokens."""

    def answer(request: Request) -> Response:
        request.call.spent(Usage(requests=1, cost=0.0))
        request.call.spent(Usage(requests=1, input_tokens=1000))
        return Response(text="a", usage=Usage(requests=1, input_tokens=1000))

    assert run(asked(Sold(answer))).usage == Usage(requests=3, input_tokens=2000, cost=0.005)
