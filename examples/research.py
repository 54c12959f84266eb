"""
Research with tools: questions as structured output, an answer to each by an agent that reads, and a report.

    OPENAI_API_KEY=... june run examples/research.py --input topic="working with dates" --resume research.json

What it reads are the docstrings of Python's standard library. The questions are answered at the same time; if
one fails, the same command asks for that one only. Before the report is written to a file, you are asked.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path
from typing import Annotated

import attrs

from june import Agent, Settings, ToolError, step, tool

sys.path.insert(0, str(Path(__file__).parent))
from models import chosen  # it stands beside this file

LIBRARY = Path(sysconfig.get_path("stdlib"))


def docstring(path: Path) -> str:
    """The text between the first three quotes, where nothing but comments stands before."""
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.match(r'''(?:\s|#.*)*+r?("""|\'\'\')(.*?)\1''', text, re.DOTALL)
    return found[2].strip() if found else ""


@tool
def search(word: str) -> list[str]:
    """
    Find modules of the standard library.

    Args:
        word: A word that the module's docstring must have.
    """
    paths = sorted(LIBRARY.glob("[a-z]*.py"))
    return [path.stem for path in paths if word.lower() in docstring(path).lower()][:20]


@tool
def read(module: str) -> str:
    """
    Read the docstring of a module.

    Args:
        module: Its name, as `search` gives it.
    """
    path = LIBRARY / f"{module}.py"
    if not path.is_file():
        raise ToolError(f"there is no module {module!r}; search for one")
    return docstring(path)[:4000]


@attrs.frozen
class Answer:
    """What was found out."""

    text: Annotated[str, "Two or three sentences."]
    modules: Annotated[list[str], "The modules that this was read in."]


model = chosen()
librarian = Agent(
    model,
    instructions="You know Python's standard library only by the tools. Use them before you answer.",
    tools=[search, read],
    settings=Settings(max_tokens=2000),
)


@step(id="questions", agent=Agent(model), output=list[str])
def questions(topic: str) -> str:
    return f"Write three short questions that a beginner has about {topic} in Python's standard library."


@step(id="answer", agent=librarian, each={"question": questions}, output=Answer)
def answer(question: str) -> str:
    return question


@step(id="report")
def report(topic: str, questions: list[str], answer: list[Answer]) -> str:
    parts = [f"# {topic.capitalize()}"]
    for question, found in zip(questions, answer, strict=True):
        parts.append(f"## {question}\n\n{found.text}\n\nRead in: {', '.join(found.modules) or 'nothing'}")
    return "\n\n".join(parts) + "\n"


@step(id="publish", approval="Write the report to report.md?")
def publish(report: str) -> str:
    Path("report.md").write_text(report, encoding="utf-8")
    return "report.md"
