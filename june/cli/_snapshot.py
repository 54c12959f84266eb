"""
``june snapshot``.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from june.errors import SnapshotError
from june.recovery import recover


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "snapshot", help="look after snapshot files", description="Look after snapshot files."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    recovering = actions.add_parser(
        "recover",
        help="keep what can be read of a damaged file",
        description="Write a damaged snapshot anew with all that can be read of it and its journal, and "
        "say what is lost. The damaged files are kept beside it.",
    )
    recovering.add_argument("path", metavar="PATH", help="the snapshot file")
    recovering.set_defaults(execute=_recover)


def _recover(arguments: argparse.Namespace) -> int:
    try:
        done = recover(arguments.path)
    except SnapshotError as error:
        print(f"june snapshot recover: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"june snapshot recover: {error.strerror or error}", file=sys.stderr)
        return 2
    steps = "1 step" if len(done.snapshot) == 1 else f"{len(done.snapshot)} steps"
    if not done.written:
        print(f"nothing is damaged: {arguments.path} has {steps}")
        return 0
    for text in done.lost:
        print(text)
    print(f"{arguments.path} has {steps} now" + ("; as it was: " + ", ".join(done.kept) if done.kept else ""))
    return 0
