"""
Peers beside the rows that do the same work, where they are installed (``pip install june-steps[bench]``).

They keep nothing of a run unless a row says so; more that do are in `benchmarks.peers_saving`, and those that
ask models in `benchmarks.peers_prompting`. A chain in Hamilton is as deep as Python's stack lets it be.
"""

from __future__ import annotations

import importlib.util
import linecache
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.figures import Figure, Row, Sizes, times
from benchmarks.peers_prompting import prompting_rows
from benchmarks.peers_saving import saving_rows
from benchmarks.timing import Work, compare
from benchmarks.yardsticks import bare_tasks

__all__ = ["peer_rows"]

_CHAIN = 100


def peer_rows() -> Sequence[Row]:
    """The rows of the peers that are installed; each is named after the row that it stands beside."""
    found: list[Row] = []
    if importlib.util.find_spec("hamilton"):
        found += _HAMILTON
    if importlib.util.find_spec("joblib"):
        found += _JOBLIB
    return [*found, *saving_rows(), *prompting_rows()]


# -- Hamilton: a module of plain functions, one for each step.


def _wide_text(count: int) -> str:
    return "\n\n".join(f"def leaf_{number}() -> int:\n    return 1" for number in range(count))


def _layered_text(count: int, width: int = 100) -> str:
    width = min(width, count)
    texts = [_wide_text(width)]
    names = [f"leaf_{number}" for number in range(width)]
    for first in range(width, count, width):
        layer = []
        for number in range(min(width, count - first)):
            taken = [names[number], names[(number + 1) % width], names[(number + 7) % width]]
            parameters = ", ".join(f"{name}: int" for name in taken)
            layer.append(f"leaf_{first + number}")
            texts.append(f"def {layer[-1]}({parameters}) -> int:\n    return max({', '.join(taken)}) + 1")
        names = layer
    return "\n\n".join(texts)


def _chain_text(count: int) -> str:
    links = [
        f"def leaf_{number}(leaf_{number - 1}: int) -> int:\n    return leaf_{number - 1} + 1"
        for number in range(1, count)
    ]
    return "\n\n".join(["def leaf_0() -> int:\n    return 1", *links])


@contextmanager
def _module(text: str) -> Iterator[ModuleType]:
    """Import a module with *text* from a file, and forget it afterwards."""
    with tempfile.TemporaryDirectory(prefix="june-benchmark-") as folder:
        name = "june_benchmark_peer"
        path = Path(folder) / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None  # a path that ends in .py has both
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            del sys.modules[name]
            linecache.checkcache(str(path))


def _names(count: int) -> list[str]:
    return [f"leaf_{number}" for number in range(count)]


def _hamilton_execute(text: Callable[[int], str], at_most: int | None, sizes: Sizes) -> Figure:
    from hamilton import driver

    count = sizes.steps if at_most is None else min(at_most, sizes.steps)
    repeats = max(1, min(sizes.steps, 10_000) // count)
    with _module(text(count)) as module:
        built = driver.Builder().with_modules(module).build()
        names = _names(count)

        def execute(nothing: None) -> None:
            for _ in range(repeats):
                assert len(built.execute(names)) == count

        work = Work(do=execute, count=count * repeats)
        return times(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _hamilton_build(text: Callable[[int], str], sizes: Sizes) -> Figure:
    from hamilton import driver

    count = sizes.peer_steps
    with _module(text(count)) as module:
        work = Work(do=lambda _: driver.Builder().with_modules(module).build(), count=count)
        return times(compare(work, bare_tasks(sizes.steps), min(sizes.rounds, 5)))


def _hamilton_reuse(text: Callable[[int], str], sizes: Sizes) -> Figure:
    from hamilton import driver

    count = sizes.peer_steps
    logging.getLogger("hamilton").setLevel(logging.ERROR)
    with _module(text(count)) as module, tempfile.TemporaryDirectory(prefix="june-benchmark-") as store:
        names = _names(count)

        def build() -> Any:
            return driver.Builder().with_modules(module).with_cache(path=store).build()

        build().execute(names)
        work = Work(do=lambda built: built.execute(names), prepare=build, count=count)
        return times(compare(work, bare_tasks(sizes.steps), min(sizes.rounds, 5)))


# -- joblib: calls of one memoized function; it has no graph, so a loop stands for it.


def _no_op(number: int) -> int:
    return 1


def _no_op_of_three(a: int, b: int, c: int) -> int:
    return a + 1


def _joblib_call(sizes: Sizes) -> Figure:
    import joblib

    call = joblib.Memory(None, verbose=0).cache(_no_op)
    work = Work(do=lambda _: [call(number) for number in range(sizes.steps)], count=sizes.steps)
    return times(compare(work, bare_tasks(sizes.steps), sizes.rounds))


def _joblib_reuse(function: Callable[..., int], parameters: int, sizes: Sizes) -> Figure:
    import joblib

    store = tempfile.mkdtemp(prefix="june-benchmark-")
    try:
        call = joblib.Memory(store, verbose=0).cache(function)
        arguments = [tuple(range(number, number + parameters)) for number in range(sizes.peer_steps)]

        def calls(nothing: None) -> list[int]:
            return [call(*some) for some in arguments]

        work = Work(do=calls, count=sizes.peer_steps)
        return times(compare(work, bare_tasks(sizes.steps), min(sizes.rounds, 5)))
    finally:
        shutil.rmtree(store)


_HAMILTON = [
    Row(
        name="wide/hamilton",
        what="Hamilton: Driver.execute of as many defs, nothing kept",
        unit="T",
        measure=partial(_hamilton_execute, _wide_text, None),
    ),
    Row(
        name="layered/hamilton",
        what="Hamilton: the same in layers",
        unit="T",
        measure=partial(_hamilton_execute, _layered_text, None),
    ),
    Row(
        name="chain/hamilton",
        what=f"Hamilton: chains of {_CHAIN}, as it recurses",
        unit="T",
        measure=partial(_hamilton_execute, _chain_text, _CHAIN),
    ),
    Row(
        name="reuse-wide/hamilton",
        what="Hamilton: Driver.execute with its cache on disk, fewer defs",
        unit="T",
        measure=partial(_hamilton_reuse, _wide_text),
    ),
    Row(
        name="build-wide/hamilton",
        what="Hamilton: building the driver, a def, fewer of them",
        unit="T",
        measure=partial(_hamilton_build, _wide_text),
    ),
    Row(
        name="build-layered/hamilton",
        what="Hamilton: the same in layers",
        unit="T",
        measure=partial(_hamilton_build, _layered_text),
    ),
]

_JOBLIB = [
    Row(
        name="wide/joblib",
        what="joblib: a call through Memory(None), no graph, nothing kept",
        unit="T",
        measure=_joblib_call,
    ),
    Row(
        name="reuse-wide/joblib",
        what="joblib: a call found in Memory on disk, fewer calls",
        unit="T",
        measure=partial(_joblib_reuse, _no_op, 1),
    ),
    Row(
        name="reuse-layered/joblib",
        what="joblib: the same with three arguments",
        unit="T",
        measure=partial(_joblib_reuse, _no_op_of_three, 3),
    ),
]
