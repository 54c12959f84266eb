"""
What can be wrong with a type, a value or a file: the codec's three errors and the texts they carry.
"""

from __future__ import annotations

from typing import Any

from june._text import short_repr

# Levels of nesting, counted in calls. Python's own limit is 1,000 calls, and what encodes in a shallow
# stack must still decode in a deep one, so this stays far below it.
MAX_DEPTH = 300


class _Placed(Exception):
    """An error that learns where it happened while it passes through the containers around it."""

    def __init__(self, problem: str, *facts: str) -> None:
        super().__init__(problem, *facts)
        self.problem = problem
        self._steps: list[str] = []

    def under(self, step: str) -> None:
        """Say that the place known so far is at *step* (``.name`` or ``[3]``) of what holds it."""
        self._steps.append(step)

    @property
    def path(self) -> str:
        """Where it happened, such as ``result.items[3].score``."""
        return "result" + "".join(reversed(self._steps))


class Inexact(_Placed):
    """
    A value would not come back as it is, so it must not be saved.

    Attributes:
        path: The first part of the value that would differ, such as ``result.items[3].score``.

        problem: What is wrong there, to be read after the path: ``is NaN``.

        cure: A sentence that says what to do.
    """

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(problem, cure)
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.path} {self.problem}. {self.cure}"


class TooDeep(Inexact):
    """A value holds itself, or is nested too deeply; trying another member of a union is no use."""

    def __init__(self) -> None:
        super().__init__(
            f"holds itself or is nested more than {MAX_DEPTH} levels deep",
            "Return it flat, e.g. as a list of rows that refer to each other by number.",
        )
        self.args = ()  # what pickle and copy call it with

    @property
    def path(self) -> str:
        """The beginning of the way down, as the whole of it helps nobody."""
        steps = self._steps[::-1]
        return "result" + "".join(steps[:4]) + ("..." if len(steps) > 4 else "")


class Undecodable(_Placed):
    """
    Data does not fit the type it is read as.

    Attributes:
        path: Where, such as ``result.items[3].n``.

        problem: What was expected there and what was found.
    """

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class UnsupportedType(_Placed):
    """
    A type can never be encoded, or its values could not be told apart.

    The text is the fragment of a sentence that starts with a place, such as
    ``result.items[].handle: june knows no encoding for Lock``.
    """

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class MistakenType(UnsupportedType):
    """
    A type cannot be meant as it is written: a name in it is not found, or two members have one name.

    No step with such a type makes a graph. One whose type June merely does not know can run all the same.
    """


def expected(label: str, data: object) -> Undecodable:
    """Say that *data* is not what *label* is written as."""
    return Undecodable(f"expected {label}, found {_shown(data)}")


def unlike(value: object, label: str, accepts: frozenset[type]) -> Inexact:
    """Say that *value* is not exactly of the declared type *label*."""
    kind = type(value)
    base = next((one for one in kind.__mro__[1:] if one in accepts), None)
    if base is not None:
        own, name = kind.__name__, base.__name__
        if own == name:
            own, name = kind.__qualname__, base.__qualname__
        return Inexact(
            f"is {article(own)}, and would come back as the declared {name}",
            f"Return a plain {name}, or annotate the step's result with {own}.",
        )
    return Inexact(
        f"is {article(kind.__name__)}, but the declared type is {label}",
        "Return what the step's annotation says, or correct the annotation.",
    )


def undeclared(value: object) -> Inexact:
    """Say that *value*, for which no type is declared, is nothing that JSON can hold exactly."""
    kind = type(value)
    if kind is tuple:
        items: Any = value
        inner = ", ".join(type(one).__name__ for one in items) or "()"
        shown = f"tuple[{inner}]" if len(inner) < 40 else "tuple[int, ...]"
        return Inexact(
            "is a tuple without a declared type, and would come back as a list",
            f"Annotate the step's result, e.g. -> {shown}, or return a list.",
        )
    base = next((one for one in kind.__mro__[1:] if one in _NATURAL), None)
    if base is not None:
        return Inexact(
            f"is {article(kind.__name__)} without a declared type, and would come back as "
            f"{article(base.__name__)}",
            f"Annotate the step's result with {kind.__name__}, or return a plain {base.__name__}.",
        )
    return Inexact(
        f"is {article(kind.__name__)} without a declared type, and JSON alone has no form for it",
        f"Annotate the step's result, e.g. -> {kind.__name__}; if june cannot encode that, teach it with "
        f"june.codec.register({kind.__name__}, encode, decode), or say save=False.",
    )


_NATURAL = (bool, int, float, str, list, dict)


def not_finite(value: float) -> Inexact:
    """Say that JSON has no form for the float *value*."""
    name = "NaN" if value != value else ("infinity" if value > 0 else "-infinity")
    return Inexact(
        f"is {name}, which JSON cannot hold", "Return None in its place (declared as float | None)."
    )


def article(name: str) -> str:
    """
    Put the article before the name of a type.

    Example:
        >>> article("int"), article("str")
        ('an int', 'a str')
    """
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _shown(data: Any) -> str:
    if data is None or type(data) is bool:
        return {None: "null", True: "true", False: "false"}[data]
    if type(data) is str:
        return '"' + short_repr(data)[1:-1] + '"'
    if type(data) is list:
        return f"a list of {len(data)}"
    if type(data) is dict:
        return "an object with " + (f"the keys {short_repr(list(data))}" if data else "no keys")
    return short_repr(data)
