"""The graphs that the rows run: bound copies of steps, wide, layered and in a chain."""

from __future__ import annotations

from typing import Any

from june import Step, step

__all__ = ["chain", "layered", "pages", "wide", "wide_threads"]

AnyStep = Step[..., Any]


@step(id="leaf")
async def leaf() -> int:
    """Take nothing."""
    return 1


@step(id="link")
async def link(previous: int) -> int:
    """Take one result; each in a chain returns another int."""
    return previous + 1


@step(id="joint")
async def joint(a: int, b: int, c: int) -> int:
    """Take three results, and return a small int."""
    return max(a, b, c) + 1


@step(id="threaded")
def threaded() -> int:
    """Take nothing, in a worker thread."""
    return 1


@step(id="page")
async def page(number: int) -> str:
    """Take a bound number, and return 10,000 characters."""
    return f"{number:09} " * 1_000


def wide(count: int) -> list[AnyStep]:
    """Make *count* async steps that take nothing."""
    return [leaf.bind(id=f"leaf-{number}") for number in range(count)]


def wide_threads(count: int) -> list[AnyStep]:
    """Make *count* thread steps that take nothing."""
    return [threaded.bind(id=f"threaded-{number}") for number in range(count)]


def layered(count: int, width: int = 100) -> list[AnyStep]:
    """Make *count* async steps in layers of *width*; each takes three results of the layer before."""
    steps: list[AnyStep] = wide(min(width, count))
    layer = list(steps)
    while len(steps) < count:
        layer = [
            joint.bind(
                id=f"joint-{len(steps) + number}",
                a=layer[number],
                b=layer[(number + 1) % len(layer)],
                c=layer[(number + 7) % len(layer)],
            )
            for number in range(min(len(layer), count - len(steps)))
        ]
        steps += layer
    return steps


def chain(count: int) -> list[AnyStep]:
    """Make *count* async steps, each of which takes the result of the one before."""
    steps: list[AnyStep] = [leaf.bind(id="link-0")]
    while len(steps) < count:
        steps.append(link.bind(id=f"link-{len(steps)}", previous=steps[-1]))
    return steps


def pages(count: int) -> list[AnyStep]:
    """Make *count* async steps, each of which returns a text of 10 kB of its own."""
    return [page.bind(id=f"page-{number}", number=number) for number in range(count)]
