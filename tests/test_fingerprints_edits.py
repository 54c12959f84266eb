"""
The table of edits, in every setting that user code may live in.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

# `--import-mode=importlib` keeps this folder off the path.
sys.path.insert(0, str(Path(__file__).parent))

from edits import EDITS, Edit
from fingerprint_settings import SETTINGS, as_rewritten, code_of

pytest.register_assert_rewrite("rewritten_flow")
KNOWN = [edit for edit in EDITS if sys.version_info >= (3, edit.since)]


@pytest.mark.parametrize("edit", KNOWN, ids=[edit.name for edit in KNOWN])
def test_an_edit_changes_the_fingerprint_only_if_it_matters(edit: Edit, tmp_path: Path) -> None:
    """
    Each edit keeps or changes the fingerprint, alike in a module, package, script, cell and under pytest.
    """
    digests = {}
    for name, load in {**SETTINGS, "pytest": as_rewritten}.items():
        before = code_of(load, tmp_path / name / "before", edit.before, edit.helper_before)
        after = code_of(load, tmp_path / name / "after", edit.after, edit.helper_after)
        assert all(note.endswith("() does not count") for note in before.notes), (name, before.notes)
        assert (before.digest == after.digest) is (edit.expected == "same"), (name, before, after)
        digests[name] = before.digest
    if "__file__" in edit.before:  # a cell has none
        del digests["cell"]
    assert len(set(digests.values())) == 1, digests


@pytest.mark.slow
def test_formatting_never_matters(tmp_path: Path) -> None:
    """Each text of the table, written anew from its tree by Python itself, keeps its fingerprint."""
    for place, edit in enumerate(KNOWN):
        texts = (edit.before, ast.unparse(ast.parse(edit.before)))
        first, second = (
            code_of(SETTINGS["module"], tmp_path / f"{place}{side}", text, edit.helper_before).digest
            for side, text in zip("ab", texts, strict=True)
        )
        assert first == second, edit.name
