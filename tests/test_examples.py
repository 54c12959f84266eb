"""
The main job, as a user runs it: from a shell, interrupted, resumed, and after an edit.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from june import Message, run
from june.messages import Request, ToolCall, ToolResult
from june.testing import ScriptedModel

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "stdlib_report.py"

pytestmark = pytest.mark.slow  # each test starts other processes

# Ctrl-C is let in again, which a pytest that a shell started in the background hands down as ignored.
JUNE = """
import signal
import sys
from june.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def start_june(*arguments: object, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", JUNE, "run", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def june_run(*arguments: object, folder: Path) -> tuple[str, str]:
    """Run ``june run`` to its end; give what it printed, and its progress."""
    process = start_june(*arguments, folder=folder)
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return printed, said


def done_in(progress: str) -> list[str]:
    """Ids of the steps that a run's progress calls done."""
    return re.findall(r"^(\S+): done in ", progress, flags=re.MULTILINE)


SMALL = {
    "branchy.py": "def look(a, b):\n    if a and b:\n        return a\n    return b\n",
    "long.py": "\n".join(f"LINE_{number} = {number}" for number in range(50)) + "\n",
    "plain.py": "def say():\n    return 1\n",
}


def small_copy(folder: Path) -> Path:
    """Copy the example, and have it measure a few small files."""
    library = folder / "library"
    library.mkdir()
    for name, source in SMALL.items():
        (library / name).write_text(source, encoding="utf-8")
    text = EXAMPLE.read_text(encoding="utf-8")
    edited = text.replace('Path(sysconfig.get_path("stdlib"))', 'Path(__file__).parent / "library"')
    assert edited != text
    path = folder / EXAMPLE.name
    path.write_text(edited, encoding="utf-8")
    return path


def test_the_report_is_printed(tmp_path: Path):
    """The report, and nothing else, is on standard output; ``--quiet`` says nothing beside it."""
    printed, said = june_run(small_copy(tmp_path), "--input", "top=2", "--quiet", folder=tmp_path)
    lines = printed.splitlines()
    assert lines[0] == "# The standard library, measured"
    assert lines[2].startswith("3 modules, ")
    assert len([line for line in lines if line.startswith("| ")]) == 2 + 2
    assert said == ""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_a_run_that_is_interrupted_goes_on_where_it_was(tmp_path: Path):
    """After Ctrl-C half-way, the same command measures exactly the files that are left."""
    command = (EXAMPLE, "--input", "top=3", "--resume", tmp_path / "report.json", "--keep")
    process = start_june(*command, folder=tmp_path)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if said.count("measure[") == 60:
            break
    process.send_signal(signal.SIGINT)
    said += process.stderr.read()
    assert process.wait(timeout=60) == 130
    process.communicate()
    shown = re.search(
        r"^interrupted: \d+ of \d+ steps done; resume with: june run (.*)$", said, flags=re.MULTILINE
    )
    assert shown is not None
    first = done_in(said)
    saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert set(saved["steps"]) == set(first)

    # The command that it shows works as it stands.
    printed, said = june_run(*shlex.split(shown[1]), folder=tmp_path)
    second = done_in(said)
    everything = sorted([*first, *second])
    names = sorted(path.name for path in Path(os.__file__).parent.glob("*.py"))
    assert everything == sorted(
        ["files", *(f"measure[{name}]" for name in names), "ranking", "report", "totals"]
    )
    assert len([one for one in second if one.startswith("measure[")]) == len(names) - (len(first) - 1)
    assert f"\n{len(names)} modules, " in printed

    printed_again, said = june_run(*command, folder=tmp_path)
    assert done_in(said) == []
    assert printed_again == printed


def test_an_edit_of_a_helper_runs_what_uses_it(tmp_path: Path):
    """An edit of ``rank_by`` re-runs the ranking and the report, and measures nothing anew."""
    path = small_copy(tmp_path)
    command = (path, "--input", "top=3", "--resume", "report.json", "--keep")
    first, _ = june_run(*command, folder=tmp_path)
    text = path.read_text(encoding="utf-8")
    edited = text.replace(
        "return measure.branches / max(measure.functions, 1) * measure.longest", "return -measure.lines"
    )
    assert edited != text
    path.write_text(edited, encoding="utf-8")
    second, said = june_run(*command, folder=tmp_path)
    assert done_in(said) == ["ranking", "report"]
    assert "(code changed: helper rank_by() in stdlib_report.py)" in said
    assert "(input 'ranking' changed)" in said
    assert first != second
    assert first.splitlines()[6].startswith("| branchy ")
    assert second.splitlines()[6].startswith("| plain ")


def test_a_changed_file_is_measured_again(tmp_path: Path):
    """What a step reads from disk is in its key through ``vary``: one file changed, one file measured."""
    path = small_copy(tmp_path)
    command = (path, "--input", "top=3", "--resume", "report.json", "--keep")
    june_run(*command, folder=tmp_path)
    with open(tmp_path / "library" / "plain.py", "a", encoding="utf-8") as file:
        file.write("\nif True:\n    pass\n")
    _, said = june_run(*command, folder=tmp_path)
    assert done_in(said) == ["measure[plain.py]", "ranking", "totals", "report"]


# -- The examples that ask a model.


def imported(name: str, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import an example with a model of the test's in place of the one that the environment names."""
    import june.sdk.openai

    monkeypatch.setattr(june.sdk.openai, "openai", lambda name: model)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("MODEL", raising=False)
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_tour(monkeypatch: pytest.MonkeyPatch):
    """Plan, checklist, count."""
    deploy = imported("deploy", ScriptedModel(["First web.", "- web\n- api"]), monkeypatch)
    result = run(deploy.count, inputs={"service": "web"})
    assert result.result == 2 and result.steps["plan"] == "First web."


def test_research(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Questions, an answer to each by an agent that reads, and a report that a person lets be written."""

    def answer(request: Request) -> Any:
        if not request.tools:
            return {"result": ["What is a date?", "What is a zone?"]}
        last = request.messages[-1]
        if isinstance(last, Message):
            return ToolCall(id="1", name="search", arguments='{"word": "date"}')
        assert isinstance(last, ToolResult)
        if last.name == "search":
            assert "datetime" in last.content
            return ToolCall(id="2", name="read", arguments='{"module": "datetime"}')
        return {"text": last.content.splitlines()[0], "modules": ["datetime"]}

    monkeypatch.chdir(tmp_path)
    research = imported("research", ScriptedModel(answer), monkeypatch)
    asked = []
    result = run(
        research.publish,
        inputs={"topic": "dates"},
        on_approval=lambda request: asked.append(request.question) or True,
    )
    assert asked == ["Write the report to report.md?"] and result.usage.requests == 7
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# Dates\n\n## What is a date?\n\n") and "Read in: datetime" in text
