"""
Finding the JSON in what a model wrote, and reading it.

What stands around the JSON is passed over; in it, nothing is repaired. A trailing comma, a key that stands
twice, NaN, single quotes: each has more than one reading, or shows that the model lost its way, so the model
is told what is wrong and where, and its next answer counts as it is.
"""

from __future__ import annotations

import re
from math import isinf
from typing import Any, Final, Never

import msgspec

from june._text import short_repr

_MOST_LEVELS: Final = 100
_BLANK = re.compile(r"[ \t\n\r]*")
_CHARACTERS = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_decode_text = msgspec.json.Decoder(str).decode
HALF_CHARACTER: Final = "a string has half of a character that takes two escapes (a lone surrogate)"
_WORD = re.compile(r"[-+.\w]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CUT_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.|\.[0-9]+[eE][-+]?|[eE][-+]?))?\Z")
_WORDS = {"true": True, "false": False, "null": None}
_FOREIGN = {"True": "true", "False": "false", "None": "null", "undefined": "null", "nil": "null"}
_NO_NUMBERS = ("NaN", "nan", "Infinity", "-Infinity", "inf", "-inf")


class BadAnswer(Exception):
    """What a model wrote cannot be used; the text tells the model why."""


def place(path: str, problem: str) -> str:
    """
    Put the place of a problem before it.

    Example:
        >>> place(".items[2]", "expected an int"), place("", "expected an int")
        ('items[2]: expected an int', 'expected an int')
    """
    where = path.removeprefix(".")
    return f"{where}: {problem}" if where else problem


def step_to(name: str) -> str:
    """
    Write the step from an object to what its key *name* holds.

    Example:
        >>> step_to("count"), step_to("the count")
        ('.count', "['the count']")
    """
    return f".{name}" if name.isidentifier() else f"[{short_repr(name)}]"


class _Parser:
    """Reads one JSON value from *text*, from *at* on."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at
        self._steps: list[str] = []

    def _fail(self, problem: str) -> Never:
        where = "".join(self._steps).removeprefix(".")
        raise BadAnswer(f"this is not valid JSON{f' at {where}' if where else ''}: {problem}")

    def _next(self) -> str:
        """Pass over blanks, and give the character that follows."""
        if not self.is_more():
            self._cut_off()
        return self.text[self.at]

    def is_more(self) -> bool:
        """Whether anything but blanks follows."""
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr] # it matches nothing too
        return self.at < len(self.text)

    def _cut_off(self) -> Never:
        where = "".join(self._steps).removeprefix(".")
        raise BadAnswer(f"the JSON is cut off{f' at {where}' if where else ''}; give the whole of it")

    def fail_after(self) -> Never:
        """Say that the value should have been over."""
        self.is_more()
        self._fail(f"expected the end, found {self._shown()}")

    def value(self) -> Any:
        """
        Read a value.

        Raises:
            BadAnswer: If there is none, or not the whole of one.
        """
        character = self._next()
        if character == "{":
            return self._object()
        if character == "[":
            return self._list()
        if character == '"':
            return self._string()
        return self._word(character)

    def _deeper(self, step: str) -> Any:
        self._steps.append(step)
        if len(self._steps) > _MOST_LEVELS:
            del self._steps[4:]
            self._fail(f"it is nested more than {_MOST_LEVELS} levels deep")
        value = self.value()
        self._steps.pop()
        return value

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        character = self._next()
        while character != "}":
            if character != '"':
                self._fail(f"expected a key in double quotes, found {self._shown()}")
            name = self._string()
            if self._next() != ":":
                self._fail(f"expected a colon after the key {short_repr(name)}, found {self._shown()}")
            self.at += 1
            if name in found:
                self._fail(f"the key {short_repr(name)} stands twice in one object")
            found[name] = self._deeper(step_to(name))
            character = self._after_item("}")
        self.at += 1
        return found

    def _list(self) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        character = self._next()
        while character != "]":
            found.append(self._deeper(f"[{len(found)}]"))
            character = self._after_item("]")
        self.at += 1
        return found

    def _after_item(self, end: str) -> str:
        """Pass over the comma after an item, if one follows."""
        character = self._next()
        if character == end:
            return character
        if character != ",":
            self._fail(f"expected a comma or {end}, found {self._shown()}")
        self.at += 1
        character = self._next()
        if character == end:
            self._fail(f"there is a comma before the closing {end}; leave it out")
        return character

    def _string(self) -> str:
        start = self.at
        self.at = _CHARACTERS.match(self.text, start + 1).end()  # type: ignore[union-attr] # it matches nothing too
        rest = self.text[self.at : self.at + 6]
        if not rest or (_CUT_ESCAPE.match(rest) and self.at + len(rest) == len(self.text)):
            self._cut_off()
        if rest[0] == "\\":
            self._fail(f"a string has {short_repr(rest[:2])}, which is no escape; write a backslash twice")
        if rest[0] != '"':
            escape = _ESCAPES.get(rest[0], f"\\u{ord(rest[0]):04x}")
            self._fail(f"a string has a raw control character; write it as {escape}")
        self.at += 1
        text = self.text[start : self.at]
        if "\\" not in text:
            return text[1:-1]
        try:
            return _decode_text(text.encode())
        except (msgspec.DecodeError, UnicodeEncodeError):
            self._fail(HALF_CHARACTER)

    def _word(self, character: str) -> Any:
        match = _WORD.match(self.text, self.at)
        word = match.group() if match else ""
        is_last = match is not None and match.end() == len(self.text)
        number = _NUMBER.fullmatch(word)
        if number is not None:
            self.at += len(word)
            return self._number(word, is_float=any(number.groups()))
        if word in _WORDS:
            self.at += len(word)
            return _WORDS[word]
        if is_last and (_CUT_NUMBER.match(word) or any(known.startswith(word) for known in _WORDS)):
            self._cut_off()
        if word in _NO_NUMBERS:
            self._fail(f"JSON has no {word.removeprefix('-')}; give a number, or null where that is allowed")
        if word in _FOREIGN:
            self._fail(f"{word} is written {_FOREIGN[word]}")
        if character == "'":
            self._fail("strings stand in double quotes")
        if character in "/#":
            self._fail("JSON has no comments; leave them out")
        self._fail(f"expected a value, found {self._shown()}")

    def _number(self, word: str, is_float: bool) -> float | int:
        if not is_float:
            try:
                return int(word)
            except ValueError:
                self._fail("a number has too many digits")
        number = float(word)
        if isinf(number):
            self._fail(f"the number {short_repr(word)[1:-1]} is too large")
        return number

    def _shown(self) -> str:
        rest = self.text[self.at : self.at + 20]
        return short_repr(rest.split("\n")[0] or rest)


def parse(text: str) -> Any:
    """
    Read *text*, which must be one JSON value.

    Raises:
        BadAnswer: If it is not.

    Example:
        >>> parse('{"a": [1, 2.0]}')
        {'a': [1, 2.0]}
    """
    parser = _Parser(text)
    value = parser.value()
    if parser.is_more():
        raise BadAnswer(f"expected one JSON value and nothing else, found {parser._shown()} after it")
    return value


# Some models leave out the tag that opens their thoughts, as it was put in their mouths.
_THOUGHTS = re.compile(r'\s*(?![\s{\["`]).*?</think(?:ing)?>', re.DOTALL)
_ONLY_THOUGHTS = re.compile(r"<think(?:ing)?>(?!.*</think)", re.DOTALL)
# No string of JSON has a line break as it is, so a line of backquotes is never inside one.
_FENCED = re.compile(r"^[ \t]*```[ \t]*(?:json\w*)?[ \t\r]*\n(.*?)^[ \t]*```[ \t\r]*$", re.I | re.M | re.S)
_OBJECT = r'\{(?=\s*(?:["}]|\Z))'
_LIST_OF_SEVERAL = r"\[(?=\s*[\[{])"
_LIST = r'\[(?=\s*(?:["\[\]{0-9-]|(?:true|false|null)\b|\Z))'
_OBJECTS_ONLY = re.compile(f"{_OBJECT}|{_LIST_OF_SEVERAL}")
_LISTS_TOO = re.compile(f"{_OBJECT}|{_LIST}")
_GOES_ON = re.compile(r'\s*(?:\}|,?\s*"[^"\n]*"\s*:)')


def find(text: str, wrapper: str | None = None) -> Any:
    """
    Give the one JSON value in what a model wrote.

    It may stand in a fence (three backquotes), and prose or a passage of thoughts may stand around it. In
    prose, an empty object and a list without objects only count where they have their lines for themselves;
    a string, a number or the like must be all that there is.

    Args:
        text: What the model wrote.

        wrapper: The one key of the object that the model was asked for, where it was asked to wrap a value
            in one; lists count then too, and such an object is taken before any other value. None where it
            was asked for an object.

    Raises:
        BadAnswer: If there is no JSON, broken JSON, or more than one value.
    """
    thoughts = _THOUGHTS.match(text)
    text = (text[thoughts.end() :] if thoughts else text).lstrip("\ufeff").strip()
    if not text:
        raise BadAnswer("there is nothing; give JSON")
    if _ONLY_THOUGHTS.match(text):
        raise BadAnswer("there are only thoughts, and no answer after them; give JSON")
    fenced = _FENCED.findall(text)
    found = _values(fenced[0].strip(), wrapper) if len(fenced) == 1 else []
    if found:
        found += _values_beside(_FENCED.sub("\n", text), wrapper)
    found = found or _values(text, wrapper)
    if len(found) > 1 and wrapper is not None:
        found = [one for one in found if isinstance(one, dict) and list(one) == [wrapper]] or found
    if len(found) > 1:
        raise BadAnswer(f"found {len(found)} JSON values; give only the one that was asked for")
    if not found:
        raise BadAnswer(f"found no JSON in {short_repr(text)}")
    return found[0]


def _values_beside(text: str, wrapper: str | None) -> list[Any]:
    """Read what else stands around a fence, where what is no JSON is prose."""
    try:
        return _values(text.strip(), wrapper) if text.strip() else []
    except BadAnswer:
        return []


def _is_no_citation(value: Any) -> bool:
    """Tell whether a value has an object with something in it, which no sentence has by the way."""
    return (
        any(map(_is_no_citation, value))
        if isinstance(value, list)
        else bool(value) and isinstance(value, dict)
    )


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Tell whether nothing else stands on the lines of a value: a list in a sentence may be a citation."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end:].partition("\n")[0]
    return not before.strip() and not after.strip()


def _values(text: str, wrapper: str | None) -> list[Any]:
    """Read all values that stand in *text*; a broken one is an error, as its parts are not values."""
    broken: BadAnswer | None = None
    if text and text[0] != "{":
        try:
            return [parse(text)]
        except BadAnswer as problem:
            broken = problem if text[0] in '["' else None  # else it is prose
    starts = _OBJECTS_ONLY if wrapper is None else _LISTS_TOO
    start = re.match(r"\{", text) or starts.search(text)
    found: list[Any] = []
    while start is not None:
        parser = _Parser(text, start.start())
        value = parser.value()
        if _is_no_citation(value) or _stands_alone(text, start.start(), parser.at):
            found.append(value)
        if _GOES_ON.match(text, parser.at):
            parser.fail_after()
        start = starts.search(text, parser.at)
    if not found and broken is not None:
        raise broken
    return found


def unquoted(data: Any) -> Any:
    """
    Give the object that a string holds as JSON, where *data* is such a string.

    Raises:
        BadAnswer: If the string starts like an object, and is none.
    """
    return parse(data) if isinstance(data, str) and data.lstrip()[:1] == "{" else data
