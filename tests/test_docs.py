"""
The pages for users: their code runs, prints what they say, and leaves nothing out.

A page is one script. Each ``python`` block runs in the page's own namespace, and the ``text`` block right below
it is what it prints; a block without one prints nothing. A warning is printed as ``Category: text``. Times and
the places of steps, ``(steps.py:12)``, may differ.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import io
import json
import re
import runpy
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

import june
from june.cli import _run as cli_run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

COMING = {"JobError", "Usage"}
"""Public names for steps of kinds that are still to come."""


class Block(NamedTuple):
    """A fenced block: its language, its text, and the lines of its fences, from 1."""

    language: str
    text: str
    opens: int
    closes: int


def blocks_of(page: Path) -> list[Block]:
    found = []
    opened: tuple[str, int] | None = None
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = line[3:], number
        else:
            language, opens = opened
            found.append(Block(language, "\n".join(lines[opens : number - 1]), opens, number))
            opened = None
    assert opened is None, f"{page.name}:{opened[1]} opens a block that never closes"
    return found


def expected_of(page: Path) -> dict[int, str]:
    """What each python block is to print, by the line that closes it."""
    blocks = blocks_of(page)
    lines = page.read_text(encoding="utf-8").splitlines()
    found = {}
    for number, block in enumerate(blocks):
        if block.language == "python":
            below = blocks[number + 1] if number + 1 < len(blocks) else None
            near = below is not None and not any(lines[block.closes : below.opens - 1])
            found[block.closes] = below.text if below and near and below.language == "text" else ""
    return found


def script_of(page: Path, mark: str) -> str:
    """The page as a script with the same line numbers, which calls *mark* where a block closes."""
    lines = [""] * len(page.read_text(encoding="utf-8").splitlines())
    for block in blocks_of(page):
        if block.language == "python":
            lines[block.opens : block.closes - 1] = block.text.splitlines()
            lines[block.closes - 1] = f"{mark}({block.closes})"
    return "\n".join(lines) + "\n"


def alike(text: str) -> str:
    """Take out of an output what may differ from one run to the next."""
    text = re.sub(r"\b\d+(\.\d+)? m?s\b", "TIME", text)
    text = re.sub(r"(\w+\.py):\d+", r"\1:LINE", text)
    lines = [re.sub(r"  +", "  ", line.rstrip()) for line in text.splitlines()]
    return "\n".join(line for line in lines if line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A reader who types in a page, block by block, sees what the page shows."""
    for library in ("stamina", "tenacity"):
        if f"import {library}" in page.read_text(encoding="utf-8"):
            pytest.importorskip(library)
    path = tmp_path / f"{page.stem}.py"
    path.write_text(script_of(page, "block_closes"), encoding="utf-8")
    printed = io.StringIO()
    outputs: dict[int, str] = {}

    def block_closes(line: int) -> None:
        outputs[line] = printed.getvalue()
        printed.seek(0)
        printed.truncate()

    def show(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        printed.write(f"{category.__name__}: {message}\n")

    spec = importlib.util.spec_from_file_location(page.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["block_closes"] = block_closes
    monkeypatch.setitem(sys.modules, page.stem, module)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(), redirect_stdout(printed):
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        spec.loader.exec_module(module)
    expected = {line: alike(text) for line, text in expected_of(page).items()}
    assert {line: alike(text) for line, text in outputs.items()} == expected


def test_a_block_that_prints_something_else_would_be_noticed(tmp_path: Path):
    """The output of a block is the text block right below it, and nothing if there is none."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 1\n```\nSo:\n\n```text\n2\n```\n"
    )
    assert expected_of(page) == {3: "1", 11: ""}
    assert script_of(page, "mark").splitlines()[:3] == ["", "print(1)", "mark(3)"]


def test_each_block_of_the_readme_stands_alone_or_says_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A reader may start with any block of the README; the other pages say at the top that theirs go on."""
    monkeypatch.chdir(tmp_path)
    readme, *others = PAGES
    lines = readme.read_text(encoding="utf-8").splitlines()
    for block in blocks_of(readme):
        if block.language == "python" and "goes on" not in lines[block.opens - 3]:
            path = tmp_path / f"block_{block.opens}.py"
            path.write_text(block.text, encoding="utf-8")
            runpy.run_path(str(path))
    for page in others:
        top = " ".join(prose_of(page).split("\n#")[0].split())
        assert "go on from each other" in top, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_json_block_is_a_snapshot(page: Path):
    """What a page shows as a snapshot can be loaded, and comes out as it went in."""
    for block in blocks_of(page):
        if block.language == "json":
            snapshot = june.Snapshot.from_json(block.text)
            assert snapshot.to_dict() == json.loads(block.text)


def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks_of(page):
        lines[block.opens - 1 : block.closes] = [""] * (block.closes - block.opens + 1)
    return "\n".join(lines)


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path):
    """A link to a file finds the file, and one to a heading the heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors_of(path), f"{page.name} links to {target}"


def words_of(pages: list[Path]) -> set[str]:
    """Every identifier that stands in code, in a block or between backticks."""
    code = []
    for page in pages:
        code += [block.text for block in blocks_of(page)]
        code += re.findall(r"`([^`]+)`", prose_of(page))
    return set(re.findall(r"--[a-z]+|\w+", "\n".join(code)))


def test_every_public_name_is_on_some_page():
    """A user finds every name of ``june``, but for those of what is to come."""
    assert set(june.__all__) - words_of(PAGES) - COMING == set()


def test_the_page_on_steps_names_every_argument_and_option():
    """No argument of ``@step``, and no option of a run, has to be found in the source."""
    words = words_of([ROOT / "docs" / "steps.md"])
    arguments = inspect.signature(june.step).parameters.values()
    named = {one.name for one in arguments if one.kind is not inspect.Parameter.VAR_POSITIONAL}
    assert named - words == set()
    assert set(june.RunOptions.__annotations__) - words == set()


def test_the_pages_name_what_results_handles_and_snapshots_offer():
    """Every public attribute of what a run gives is on some page."""
    words = words_of(PAGES)
    for cls in (june.RunResult, june.Handle, june.Snapshot, june.SnapshotDiff, june.Trace, june.CurrentStep):
        offered = {name for name in dir(cls) if not name.startswith("_")}
        assert offered - {"entry", "lazy", "of", "contents"} - words == set(), cls.__name__


def test_the_pages_name_every_flag_of_june_run():
    """No flag of the command line is left out."""
    parser = argparse.ArgumentParser()
    cli_run.add_to(parser.add_subparsers())
    [commands] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    flags = {
        flag for one in commands.choices["run"]._actions for flag in one.option_strings if flag[:2] == "--"
    }
    assert flags - words_of(PAGES) - {"--help"} == set()
