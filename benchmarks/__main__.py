"""Measure, and print the table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import attrs

from benchmarks.figures import Row, Sizes
from benchmarks.peers import peer_rows
from benchmarks.rows import ROWS
from benchmarks.tables import head, line

_QUICK = Sizes(rounds=5, functions=20, peer_steps=200, processes=10, requests=300)

_COUNTS = {"steps": "steps of a graph", "requests": "requests to a model", "rounds": "turns of each row"}


def _rows() -> list[Row]:
    """All rows, each with its peers behind it."""
    peers = peer_rows()
    found: list[Row] = []
    for row in ROWS:
        found.append(row)
        found += [peer for peer in peers if peer.name.partition("/")[0] == row.name]
    return found


def _is_wanted(row: Row, names: Sequence[str], quick: bool) -> bool:
    if names:
        return row.name in names or row.name.partition("/")[0] in names
    return not (quick and row.slow)


def main(arguments: Sequence[str] | None = None) -> None:
    """
    Print the table.

    Args:
        arguments: The command line's, or None for those of the process.
    """
    rows = _rows()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What June costs, as a table.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="ROW",
        help="rows to measure, with their peers, or single peers (wide/joblib); all by default",
    )
    parser.add_argument("--quick", action="store_true", help="fewer turns, and no graph of a million steps")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    for name, what in _COUNTS.items():
        parser.add_argument(f"--{name}", type=int, help=what)
    given = parser.parse_args(arguments)
    sizes = _QUICK if given.quick else Sizes()
    known = {row.name for row in rows}
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"no row {unknown[0]!r}; there are {', '.join(sorted(known))}")
    if given.list:
        print(*(row.name for row in rows), sep="\n")
        return
    changes = {name: value for name in _COUNTS if (value := getattr(given, name)) is not None}
    sizes = attrs.evolve(sizes, **changes)
    print(head(sizes))
    for row in rows:
        if _is_wanted(row, given.names, given.quick):
            print(line(row, row.measure(sizes)), flush=True)
    if not peer_rows():
        print('no peers are installed; for these: pip install -e ".[bench]"')


if __name__ == "__main__":
    main()
