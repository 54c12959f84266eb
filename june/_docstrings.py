"""
What a docstring says of a function and of each of its parameters, in the Google, NumPy and Sphinx styles.
"""

from __future__ import annotations

import re

import attrs


@attrs.frozen
class Docs:
    """
    What a docstring says.

    Attributes:
        summary: All before the first section on parameters, results or errors.
        parameters: The text for each parameter that has one.
    """

    summary: str
    parameters: dict[str, str]


_PARAMETERS = "Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_OTHERS = "Attributes|Returns?|Yields?|Receives?|Raises|Exceptions|Warns|See Also|References|Todo"
_GOOGLE = re.compile(rf"(?:({_PARAMETERS})|{_OTHERS}):[ \t]*", re.I)
_NUMPY = re.compile(rf"(?:({_PARAMETERS})|{_OTHERS})[ \t]*", re.I)
_FIELD = re.compile(r":(\w+)(?:[ \t]+([^:]*?))?[ \t]*:(?:[ \t]+(.*))?")
_PARAMETER_FIELDS = ("param", "parameter", "arg", "argument", "key", "keyword")
_FIELDS = (*_PARAMETER_FIELDS, "type", "return", "returns", "rtype", "raise", "raises", "except", "yields")
_ENTRY = re.compile(r"\*{0,2}`{0,2}\*?(\w+)\*?`{0,2}[ \t]*(?:\(.*?\))?[ \t]*:(?:[ \t]+(.*))?")
_NUMPY_ENTRY = re.compile(r"\*{0,2}\w+(?:[ \t]*,[ \t]*\*{0,2}\w+)*(?=[ \t]*(?::|$))")


def read(docstring: str) -> Docs:
    """
    Read a docstring that `inspect.cleandoc` has cleaned.

    Example:
        >>> read('Say hello.\\n\\nArgs:\\n    name: Whom to greet.')
        Docs(summary='Say hello.', parameters={'name': 'Whom to greet.'})
        >>> read('Say hello.\\n\\n:param str name: Whom to greet.\\n:returns: What was said.')
        Docs(summary='Say hello.', parameters={'name': 'Whom to greet.'})
    """
    lines = docstring.split("\n")
    summary: list[str] = []
    parameters: dict[str, list[str]] = {}
    at = 0
    sections_began = False
    while at < len(lines):
        heading, size = _heading(lines, at)
        if heading is None:
            if not sections_began:
                summary.append(lines[at])
            at += 1
            continue
        sections_began = True
        body = _body(lines, at + size, is_field=heading == "field", is_numpy=size == 2)
        if heading == "field":
            _read_field(lines[at], body, parameters)
        elif heading == "parameters" and size == 2:
            _read_numpy(body, parameters)
        elif heading == "parameters":
            _read_google(body, parameters)
        at += size + len(body)
    texts = {name: " ".join(" ".join(text).split()) for name, text in parameters.items()}
    return Docs("\n".join(summary).strip(), {name: text for name, text in texts.items() if text})


def _heading(lines: list[str], at: int) -> tuple[str | None, int]:
    """Say what begins at a line, and how many lines its heading takes."""
    line = lines[at]
    google = _GOOGLE.fullmatch(line)
    if google is not None and (at + 1 == len(lines) or not lines[at + 1][:1].strip()):
        return ("parameters" if google[1] else "other"), 1
    underline = lines[at + 1].strip() if at + 1 < len(lines) else ""
    numpy = _NUMPY.fullmatch(line)
    if numpy is not None and len(underline) > 2 and set(underline) == {"-"}:
        return ("parameters" if numpy[1] else "other"), 2
    field = _FIELD.fullmatch(line)
    if field is not None and field[1] in _FIELDS:
        return "field", 1
    return None, 0


def _body(lines: list[str], start: int, is_field: bool, is_numpy: bool) -> list[str]:
    """Give the lines that belong to a heading: the indented ones, in NumPy's style all up to the next one."""
    end = start
    while end < len(lines):
        line = lines[end]
        if _heading(lines, end)[0] is not None or (is_field and not line.strip()):
            break
        if not is_numpy and line.strip() and not line[0].isspace():
            break
        if is_numpy and end + 1 < len(lines) and re.fullmatch(r"-{3,}[ \t]*", lines[end + 1]):
            break
        end += 1
    return lines[start:end]


def _read_field(line: str, body: list[str], parameters: dict[str, list[str]]) -> None:
    field = _FIELD.fullmatch(line)
    if field is None or field[1] not in _PARAMETER_FIELDS or not field[2]:
        return
    name = field[2].split()[-1].lstrip("*")  # the type may stand before it
    parameters[name] = [field[3] or "", *body]


def _read_google(body: list[str], parameters: dict[str, list[str]]) -> None:
    indent = min((_indent(line) for line in body if line.strip()), default=0)
    text: list[str] = []
    for line in body:
        entry = _ENTRY.fullmatch(line.strip()) if line.strip() and _indent(line) == indent else None
        if entry is not None:
            text = parameters[entry[1]] = [entry[2] or ""]
        else:
            text.append(line)


def _read_numpy(body: list[str], parameters: dict[str, list[str]]) -> None:
    text: list[str] = []
    for line in body:
        entry = _NUMPY_ENTRY.match(line) if line.strip() and not _indent(line) else None
        if entry is not None:
            text = []
            for name in entry.group().split(","):
                parameters[name.strip().lstrip("*")] = text
        else:
            text.append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
