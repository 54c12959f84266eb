"""The rows of the table: what June is to cost, by section 16 of its contract."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import graphs, sources
from benchmarks.figures import Figure, Row, Sizes, in_milliseconds, times, times_on_the_wall
from benchmarks.processes import growth, import_turn, probe
from benchmarks.prompting import PROMPTING
from benchmarks.saving import SAVING
from benchmarks.timing import Work, compare
from benchmarks.yardsticks import bare_tasks, json_decode
from june import Graph, Snapshot, Update, graph, run

__all__ = ["ROWS"]

MakeSteps = Callable[[int], list[graphs.AnyStep]]


def _all_in(make: MakeSteps, sizes: Sizes) -> Figure:
    """Run a graph and write its snapshot."""
    built = graph(make(sizes.steps))
    work = Work(do=lambda _: run(built).snapshot().to_json(), count=sizes.steps)
    return times(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _reuse(make: MakeSteps, sizes: Sizes) -> Figure:
    """Run a graph whose steps are all in a snapshot, and read every result."""
    built = graph(make(sizes.steps))
    data = run(built).snapshot().to_json()

    def reuse(loaded: Snapshot) -> dict[str, Any]:
        results = run(built, snapshot=loaded).steps
        assert len(results) == sizes.steps
        return dict(results)

    # A loaded snapshot keeps what it has once decoded, so each turn loads its own.
    work = Work(do=reuse, prepare=lambda: Snapshot.from_json(data), count=sizes.steps)
    return times(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _bind(make: MakeSteps, sizes: Sizes) -> Figure:
    """Make the bound copies."""
    work = Work(do=lambda _: make(sizes.steps), count=sizes.steps)
    return times(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _build(make: MakeSteps, sizes: Sizes) -> Figure:
    """Build the graph of bound copies, which are new in each turn."""
    work = Work(do=graph, prepare=lambda: make(sizes.steps), count=sizes.steps)
    return times(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _first_seen(sizes: Sizes) -> Figure:
    """Build and run the graph of functions that June has not seen before."""
    numbers = count(0, sizes.functions)
    with tempfile.TemporaryDirectory(prefix="june-benchmark-") as folder:
        work = Work(
            do=lambda steps: run(graph(steps)),
            prepare=lambda: sources.import_steps(Path(folder), next(numbers), sizes.functions),
            count=sizes.functions,
        )
        try:
            return in_milliseconds(compare(work, bare_tasks(sizes.steps), sizes.rounds))
        finally:
            sources.forget_modules()


def _threads(sizes: Sizes) -> Figure:
    """Run no-op thread steps on 16 slots."""
    built = graph(graphs.wide_threads(sizes.steps))
    work = Work(do=lambda _: run(built, concurrency=16), count=sizes.steps)
    return times_on_the_wall(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _updated(built: Graph, on_update: Callable[[Update], object]) -> Work:
    return Work(do=lambda _: run(built, on_update=on_update), count=len(built))


def _updates(sizes: Sizes) -> Figure:
    """Take the length of a snapshot at every update, beside doing nothing there."""
    built = graph(graphs.wide(sizes.steps))
    looking = _updated(built, lambda update: len(update.handle.snapshot()))
    return times(compare(looking, _updated(built, lambda update: None), sizes.rounds))


def _updates_over_tasks(sizes: Sizes) -> Figure:
    """Run with an ``on_update`` that does nothing."""
    built = graph(graphs.wide(sizes.steps))
    return times(compare(_updated(built, lambda update: None), bare_tasks(sizes.steps), sizes.rounds))


def _loading(sizes: Sizes) -> Figure:
    """Load a snapshot, beside msgspec's decoding of the same bytes."""
    data = run(graph(graphs.layered(sizes.steps))).snapshot().to_json()
    work = Work(do=lambda _: Snapshot.from_json(data))
    return times(compare(work, json_decode(data), sizes.rounds))


def _memory(traced: bool, sizes: Sizes) -> Figure:
    """Weigh finished steps in fresh processes."""
    weights = [probe("memory", sizes.steps, traced) / 1024 for _ in range(3)]
    return Figure(median(weights), min(weights))


def _import(sizes: Sizes) -> Figure:
    """Import June and trio by turns, in fresh processes; the first of each writes the compiled files."""
    import_turn("june")
    import_turn("trio")
    pairs = [(import_turn("june"), import_turn("trio")) for _ in range(sizes.processes)]
    more = [(june.processor - trio.processor) * 1e3 for june, trio in pairs]
    wall = [(june.wall - trio.wall) * 1e3 for june, trio in pairs]
    totals = [median(turn.processor for turn in turns) * 1e3 for turns in zip(*pairs, strict=True)]
    return Figure(median(more), min(more), median(wall), "june {:.0f} ms, trio {:.0f} ms".format(*totals))


ROWS: Sequence[Row] = (
    Row(
        name="wide",
        what="a no-op async step through to_json, wide graph",
        unit="T",
        goal=1.0,
        measure=partial(_all_in, graphs.wide),
    ),
    Row(
        name="layered",
        what="the same, each step taking three results of the layer before",
        unit="T",
        measure=partial(_all_in, graphs.layered),
    ),
    Row(
        name="chain",
        what="the same, each step taking the result of the one before",
        unit="T",
        measure=partial(_all_in, graphs.chain),
    ),
    Row(
        name="reuse-wide",
        what="a step reused from a loaded snapshot, results read, without inputs",
        unit="T",
        goal=0.5,
        measure=partial(_reuse, graphs.wide),
    ),
    Row(
        name="reuse-layered",
        what="the same, with three inputs",
        unit="T",
        goal=1.0,
        measure=partial(_reuse, graphs.layered),
    ),
    Row(
        name="reuse-chain",
        what="the same, in a chain",
        unit="T",
        measure=partial(_reuse, graphs.chain),
    ),
    Row(
        name="bind",
        what="making a bound copy: step.bind(id=...)",
        unit="T",
        measure=partial(_bind, graphs.wide),
    ),
    Row(
        name="build-wide",
        what="building the graph, a bound copy made beforehand",
        unit="T",
        goal=1.0,
        measure=partial(_build, graphs.wide),
    ),
    Row(
        name="build-layered",
        what="the same, with three inputs",
        unit="T",
        goal=1.0,
        measure=partial(_build, graphs.layered),
    ),
    Row(
        name="first-seen",
        what="graph() and run() of a new function, 20 lines and 5 helpers in a file; its import not included",
        unit="ms",
        goal=2.0,
        measure=_first_seen,
    ),
    Row(
        name="threads",
        what="a no-op thread step, 16 slots",
        unit="T",
        goal=4.0,
        measure=_threads,
    ),
    Row(
        name="updates",
        what="run with on_update taking len(handle.snapshot()), over one with on_update doing nothing",
        unit="times",
        goal=1.3,
        measure=_updates,
    ),
    Row(
        name="updates-idle",
        what="a step of a wide run whose on_update does nothing, without to_json",
        unit="T",
        measure=_updates_over_tasks,
    ),
    Row(
        name="loading",
        what="Snapshot.from_json over msgspec.json.decode of the same bytes",
        unit="times",
        goal=1.5,
        measure=_loading,
    ),
    *(
        Row(
            name=f"growth-{name}{far}",
            what=what,
            unit="times",
            goal=1.5,
            measure=partial(growth, name, factor),
            slow=bool(far),
        )
        for name, what in (
            ("fresh", "graph, run, to_json: a step in a large graph over one in a small"),
            ("reused", "from_json, graph, run, results read: likewise"),
        )
        for far, factor in (("", 10), ("-far", 100))
    ),
    *SAVING,
    *PROMPTING,
    Row(
        name="memory",
        what="a finished small step, with bound copy, graph and run: allocated (tracemalloc)",
        unit="KB",
        goal=1.5,
        measure=partial(_memory, True),
    ),
    Row(
        name="memory-resident",
        what="the same: growth of the resident pages",
        unit="KB",
        goal=1.5,
        measure=partial(_memory, False),
    ),
    Row(
        name="import",
        what="import june minus import trio, in fresh processes",
        unit="ms",
        goal=40.0,
        measure=_import,
    ),
)
"""All rows but the peers', in the order of the table."""
