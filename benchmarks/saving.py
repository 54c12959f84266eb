"""The rows of `june.run_resumable`: what it costs to save what finishes, and to go on from there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from benchmarks import graphs
from benchmarks.figures import Figure, Row, Sizes, times
from benchmarks.folders import is_in_memory, temporary_folder
from benchmarks.processes import growth
from benchmarks.timing import Work, compare
from benchmarks.yardsticks import bare_tasks
from june import Graph, Update, _disk, graph, run_resumable

__all__ = ["SAVING"]

MakeSteps = Callable[[int], list[graphs.AnyStep]]


def _over_tasks(work: Work, folder: Path, sizes: Sizes) -> Figure:
    """Measure *work*, which writes to *folder*, beside bare tasks."""
    figure = times(compare(work, bare_tasks(sizes.steps), sizes.rounds))
    return attrs.evolve(figure, note=f"{figure.note}; in memory") if is_in_memory(folder) else figure


def _save(make: MakeSteps, keep: bool, sizes: Sizes) -> Figure:
    """Run all of a graph, and save it."""
    built = graph(make(sizes.steps))
    with temporary_folder() as folder:
        path = folder / "run.json"
        work = Work(
            do=lambda _: run_resumable(built, path=path, keep=keep),
            prepare=lambda: path.unlink(missing_ok=True),
            count=sizes.steps,
        )
        return _over_tasks(work, folder, sizes)


def _resume(killed: bool, sizes: Sizes) -> Figure:
    """Go on from files that have all of a run, and read every result."""
    built = graph(graphs.wide(sizes.steps))
    with temporary_folder() as folder:
        left = folder / "left"
        if killed:
            _leave_a_journal(built, folder / "killed.json", left)
        else:
            run_resumable(built, path=left, keep=True)
        path = folder / "run.json"
        put = path.with_name(path.name + ".journal") if killed else path

        def resume(nothing: None) -> dict[str, Any]:
            resumed = run_resumable(built, path=path)
            assert len(resumed.steps) == sizes.steps
            return dict(resumed.steps)

        shutil.copy(left, put)
        assert all(node.resumed for node in run_resumable(built, path=path).trace.nodes)
        work = Work(do=resume, prepare=lambda: shutil.copy(left, put), count=sizes.steps)
        return _over_tasks(work, folder, sizes)


def _leave_a_journal(built: Graph, path: Path, copy: Path) -> None:
    """Run *built*, and copy its journal as it is after the last step, which is what a kill there leaves."""
    missing = len(built)

    def look(update: Update) -> None:
        nonlocal missing
        missing -= update.node.status == "done"
        if not missing and not copy.exists():
            shutil.copy(f"{path}.journal", copy)

    run_resumable(built, path=path, on_update=look)


@attrs.define
class _Writes:
    """What has gone through `june._disk.write`."""

    calls: int = 0
    bytes: int = 0


@contextmanager
def _counted_writes() -> Iterator[_Writes]:
    """Count what June writes meanwhile."""
    counted = _Writes()
    write = _disk.write

    def counting(descriptor: int, data: Any) -> int:
        written = write(descriptor, data)
        counted.calls += 1
        counted.bytes += written
        return written

    _disk.write = counting
    try:
        yield counted
    finally:
        _disk.write = write


def _bytes(sizes: Sizes) -> Figure:
    """Compare all that is written with the file that stays."""
    built = graph(graphs.pages(max(1, sizes.steps // 2)))
    with temporary_folder() as folder, _counted_writes() as counted:
        path = folder / "run.json"
        run_resumable(built, path=path, keep=True)
        size = path.stat().st_size
    ratio = counted.bytes / size
    note = f"{counted.bytes / 1e6:.2f} MB in {counted.calls:,} writes, a file of {size / 1e6:.2f} MB"
    return Figure(ratio, ratio, note=note)


def _writes_alone(sizes: Sizes) -> Figure:
    """Write as many lines of the same size as `_save` does, and nothing else."""
    built = graph(graphs.wide(sizes.steps))
    with temporary_folder() as folder:
        with _counted_writes() as counted:
            run_resumable(built, path=folder / "run.json")
        line = b"x" * (counted.bytes // counted.calls)

        def write(descriptor: int) -> None:
            for _ in range(sizes.steps):
                os.write(descriptor, line)
            os.close(descriptor)

        def prepare() -> int:
            path = folder / "lines"
            path.unlink(missing_ok=True)
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        return _over_tasks(Work(do=write, prepare=prepare, count=sizes.steps), folder, sizes)


SAVING: Sequence[Row] = (
    Row(
        name="resumable",
        what="run_resumable of a no-op async step, wide graph, fsync behind it; no file is kept",
        unit="T",
        goal=1.5,
        measure=partial(_save, graphs.wide, False),
    ),
    Row(
        name="resumable-layered",
        what="the same, each step taking three results of the layer before",
        unit="T",
        measure=partial(_save, graphs.layered, False),
    ),
    Row(
        name="resumable-keep",
        what="the same as resumable with keep=True: at the end all is in the file, and on the disk",
        unit="T",
        measure=partial(_save, graphs.wide, True),
    ),
    Row(
        name="resumable-resume",
        what="run_resumable where the file has every step: loaded, reused, results read, the file removed",
        unit="T",
        measure=partial(_resume, False),
    ),
    Row(
        name="resumable-killed",
        what="the same where a run killed at its last step left a journal with every step, and no file",
        unit="T",
        measure=partial(_resume, True),
    ),
    Row(
        name="resumable-writes",
        what="os.write of as many lines of the size that resumable writes, and nothing else",
        unit="T",
        measure=_writes_alone,
    ),
    Row(
        name="resumable-bytes",
        what="bytes that run_resumable writes over those of the file it keeps, steps of 10 kB",
        unit="times",
        goal=3.0,
        measure=_bytes,
    ),
    *(
        Row(
            name=f"resumable-growth{far}",
            what="run_resumable as in resumable: a step in a large graph over one in a small",
            unit="times",
            goal=1.5,
            measure=partial(growth, "resumable", factor),
            slow=bool(far),
        )
        for far, factor in (("", 10), ("-far", 100))
    ),
)
"""The rows of runs that save."""
