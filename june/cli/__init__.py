"""
The command line: ``june``.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from june.cli import _run, _snapshot

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command line.

    Args:
        arguments: Words after the program's name; None takes those of this process.

    Returns:
        The exit code: 0 done, 1 a step failed, 2 wrong usage, 130 interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="june", description="Run workflows whose finished steps are never paid for twice."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _run.add_to(commands)
    _snapshot.add_to(commands)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A result that the terminal cannot show is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        parsed = parser.parse_args(arguments)
    except SystemExit as leaving:
        # argparse has printed what is wrong, or the help that was asked for.
        return int(leaving.code or 0)
    code: int = parsed.execute(parsed)
    return code
