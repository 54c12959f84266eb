"""The benchmarks run; how long anything takes is not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m benchmarks`` on *arguments*."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
def test_the_benchmarks_print_the_rows_that_are_asked_for():
    """
    One table, a line a row, in the order of the table.
    """
    saving = ["resumable", "resumable-killed", "resumable-bytes", "resumable-growth"]
    prompting = ["prompt", "prompt-later", "prompt-alone", "prompt-responses", "prompt-messages"]
    few = ["--quick", "--steps", "20", "--requests", "40", "--rounds", "1"]
    ended = run_benchmarks(*few, "loading", *prompting, *saving, "reuse-layered", "memory")
    assert (ended.returncode, ended.stderr) == (0, "")
    titles, *lines = ended.stdout.splitlines()[4:]
    if lines[-1].startswith("no peers"):
        lines.pop()
    assert titles.split() == ["row", "median", "least", "wall", "goal", "holds", "what"]
    named = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert named == ["reuse-layered", "loading", *saving, *prompting, "memory"]
    assert {line.split()[2] for line in lines} == {"T", "times", "KB"}


@pytest.mark.slow
def test_a_row_that_does_not_exist_is_refused():
    """
    A name that is no row ends the command before anything is measured.
    """
    ended = run_benchmarks("hurry")
    assert ended.returncode == 2
    assert "error: no row 'hurry'; there are bind, build-layered, " in ended.stderr
    assert ended.stdout == ""
