"""
Edits of a step's code, and whether each must change its fingerprint.

Every text defines `step`. `HELPER` stands for the name of a second module, where the row has one.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple


class Edit(NamedTuple):
    """
    One edit.

    Attributes:
        name: What is edited.

        before: The text of the step's module.

        after: The same after the edit.

        expected: `same` or `changes`.

        helper_before: The text of the second module; `""` if there is none.

        helper_after: The same after the edit.

        since: The first Python that can parse it, as a minor version.
    """

    name: str
    before: str
    after: str
    expected: str
    helper_before: str = ""
    helper_after: str = ""
    since: int = 11


EDITS: list[Edit] = []


def read(text: str) -> list[Edit]:
    """Read the rows of a table; its first lines say how they are written."""
    edits = []
    for row in text.split("\n=== ")[1:]:
        head, _, body = row.partition("\n")
        name, expected, since = re.fullmatch(r"(.*): (same|changes)(?: since 3\.(\d+))?", head).groups()
        flow, _, helper_text = body.partition("\n--- HELPER\n")
        before, separator, after = flow.partition("\n---\n")
        if not separator:
            before, after = _side(flow, 1), _side(flow, 2)
        edits.append(
            Edit(
                name, before, after, expected, _side(helper_text, 1), _side(helper_text, 2), int(since or 11)
            )
        )
    return edits


def _side(text: str, side: int) -> str:
    """Choose what stands before or after the edit at every mark."""
    return re.sub(r"⟦(.*?)⇒(.*?)⟧", rf"\{side}", text, flags=re.DOTALL)


def helper(name: str, expected: str, flow: str, before: str, after: str) -> None:
    """Add an edit of the second module."""
    flow = dedent(flow)
    EDITS.append(Edit(name, flow, flow, expected, dedent(before), dedent(after)))


def swap(name: str, text: str, old: str, new: str, expected: str, since: int = 11) -> None:
    """Add an edit that replaces one piece of the text."""
    text = dedent(text)
    assert text.count(old) == 1, (name, old)
    EDITS.append(Edit(name, text, text.replace(old, new), expected, since=since))


# What does not matter

PLAIN = '''
    LIMIT = 3

    def clean(text):
        return text.strip()

    def step(text, count=1):
        """Clean a text."""
        result = clean(text)  # the work
        for place in range(LIMIT):
            result += str(place)
        return result
    '''
swap("a comment", PLAIN, "# the work", "# hard work", "same")
swap("a comment on its own line", PLAIN, "def clean", "# cleans\n\n\ndef clean", "same")
swap("a blank line in the body", PLAIN, "    for place", "\n    for place", "same")
swap("spaces around operators", PLAIN, "result += str(place)", "result  +=  str( place )", "same")
swap("an expression over two lines", PLAIN, "= clean(text)", "= clean(\n        text,\n    )", "same")
swap("parentheses", PLAIN, "return result", "return (result)", "same")
swap("a docstring", PLAIN, "Clean a text.", "Tidy a text.", "same")
swap("a docstring taken away", PLAIN, '"""Clean a text."""', "", "same")
swap("a docstring added to a helper", PLAIN, "def clean(text):", 'def clean(text):\n    "Doc."', "same")
swap("a statement that does nothing", PLAIN, "return text.strip()", "pass; ...; return text.strip()", "same")
swap("an annotation of a local", PLAIN, "result = clean", "result: str = clean", "same")
swap("a bare annotation", PLAIN, "result = clean", "result: str\n    result = clean", "same")
swap("an annotation of a parameter", PLAIN, "def step(text, ", "def step(text: str, ", "same")
swap("an annotation of a result", PLAIN, "def clean(text):", "def clean(text) -> str:", "same")
swap("an unrelated function", PLAIN, "def clean", "def other():\n    return 1\n\ndef clean", "same")
swap("an unrelated constant", PLAIN, "LIMIT = 3", "LIMIT = 3\nOTHER = 5", "same")
swap("an unrelated import", PLAIN, "LIMIT = 3", "import json\nLIMIT = 3", "same")
swap("a future import", PLAIN, "\nLIMIT", "from __future__ import annotations\nLIMIT", "same")
swap("a constant spelled otherwise", PLAIN, "LIMIT = 3", "LIMIT = 1 + 2", "same")

# What does matter

swap("an operator", PLAIN, "+=", "*=", "changes")
swap("a helper", PLAIN, "text.strip()", "text.lstrip()", "changes")
swap("a constant", PLAIN, "LIMIT = 3", "LIMIT = 4", "changes")
swap("the type of a constant", PLAIN, "LIMIT = 3", "LIMIT = 3.0", "changes")
swap("a constant that became true", PLAIN, "LIMIT = 3", "LIMIT = True", "changes")
swap("a constant taken away", PLAIN, "LIMIT = 3", "LIMITS = 3", "changes")
swap("a parameter's name", PLAIN, "def step(text, count=1)", "def step(text, number=1)", "changes")
swap("a default", PLAIN, "count=1", "count=2", "changes")
swap("a new statement", PLAIN, "return result", "print(result)\n    return result", "changes")
CLASS = """
    def outer():
        return 1

    class Base:
        def shared(self):
            return 1

    class Report(Base):
        limit = 3

        def __init__(self, x):
            self.x = x

        def size(self):
            return self.x + self._extra() + outer()

        def _extra(self):
            return 2

        @property
        def wide(self):
            return self.x * 5

        @classmethod
        def make(cls):
            return cls(6)

        @staticmethod
        def unit():
            return "cm"

    def step(x):
        return Report(x).size()
    """
swap("a class's attribute", CLASS, "limit = 3", "limit = 4", "changes")
swap("a class's attribute computed", CLASS, "limit = 3", "limit = 2 + 1", "same")
swap("a method that is called", CLASS, "self.x + self", "self.x - self", "changes")
swap("a method that a method calls", CLASS, "return 2", "return 3", "changes")
swap("a function that a method calls", CLASS, "return 1\n\nclass Base", "return 9\n\nclass Base", "changes")
swap("a property", CLASS, "self.x * 5", "self.x * 6", "changes")
swap("a class method", CLASS, "cls(6)", "cls(7)", "changes")
swap("a static method", CLASS, '"cm"', '"mm"', "changes")
swap("a method of a base", CLASS, "return 1\n\nclass Report", "return 9\n\nclass Report", "changes")
swap("a base", CLASS, "class Report(Base)", "class Report", "changes")
swap("a class's name", CLASS, "def step(x):", "Report.__qualname__ = 'R'\ndef step(x):", "changes")
swap("a method set later", CLASS, "def step(x):", "Report.size = lambda self: 7\ndef step(x):", "changes")
WRAPPED = """
    from functools import wraps

    def twice(times):
        def decorate(function):
            @wraps(function)
            def wrapper(*args):
                return function(*args) * times
            return wrapper
        return decorate

    @twice(2)
    def clean(text):
        return text.strip()

    def step(text):
        return clean(text)
    """
swap("a wrapper", WRAPPED, "* times", "+ times", "changes")
swap("a wrapper's argument", WRAPPED, "@twice(2)", "@twice(3)", "changes")
swap("a wrapped function", WRAPPED, "text.strip()", "text.lstrip()", "changes")
swap("a wrapper's docstring", WRAPPED, "def wrapper(*args):", 'def wrapper(*args):\n            "x"', "same")
swap(
    "a decorated step's wrapper",
    WRAPPED.replace("def step", "@twice(7)\n    def step"),
    "* times",
    "+ times",
    "changes",
)
swap(
    "a decorated step's argument",
    WRAPPED.replace("def step", "@twice(7)\n    def step"),
    "@twice(7)",
    "@twice(8)",
    "changes",
)
swap(
    "a decorated step itself",
    WRAPPED.replace("def step", "@twice(7)\n    def step"),
    "clean(text)\n",
    "clean(text) + '.'\n",
    "changes",
)

# Two modules

CLEAN = "def clean(text):\n    return text.strip()\nLIMIT = 1\nOTHER = 1\n"
OTHER = CLEAN.replace("OTHER = 1", "OTHER = 2")
LIMIT = CLEAN.replace("LIMIT = 1", "LIMIT = 2")
LSTRIP = CLEAN.replace("strip", "lstrip")
FROM = "from HELPER import clean, LIMIT\ndef step(x):\n    return clean(x) * LIMIT"
WHOLE = "import HELPER as h\ndef step(x):\n    return h.clean(x) * h.LIMIT"
INSIDE = "def step(x):\n    from HELPER import clean, LIMIT\n    return clean(x) * LIMIT"
INSIDE_WHOLE = "def step(x):\n    import HELPER as h\n    return h.clean(x) * h.LIMIT"
for _name, _flow in [
    ("from", FROM),
    ("a module", WHOLE),
    ("from inside", INSIDE),
    ("a module inside", INSIDE_WHOLE),
]:
    helper(f"{_name}: a function", "changes", _flow, CLEAN, LSTRIP)
    helper(f"{_name}: a constant", "changes", _flow, CLEAN, LIMIT)
    helper(f"{_name}: what is not named", "same", _flow, CLEAN, OTHER)

EDITS += read((Path(__file__).parent / "data" / "fingerprint_edits.txt").read_text(encoding="utf-8"))
