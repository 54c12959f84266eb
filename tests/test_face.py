"""What ``import june`` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import june


def test_all_is_sorted_and_complete():
    """``june.__all__`` names every public name of the package, in order."""
    public = [
        name for name, value in vars(june).items() if name[0] != "_" and not isinstance(value, ModuleType)
    ]
    assert sorted(june.__all__) == june.__all__
    assert set(june.__all__) == set(public)


def test_every_public_name_has_a_docstring():
    """Nobody has to read the source to learn what a public name is for."""
    missing = [name for name in june.__all__ if not getattr(june, name).__doc__]
    assert missing == []


def test_importing_june_loads_no_library_that_only_some_use():
    """httpx, pydantic and the test tools are imported where they are used, not before."""
    code = (
        "import sys, june; print([m for m in "
        "('httpx', 'pydantic', 'pytest', 'hypothesis', 'rich', 'click', 'tenacity') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
