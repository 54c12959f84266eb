"""
Small pieces of text for messages: near names, short reprs, durations, places in the source.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 4


def short_repr(value: object) -> str:
    """
    Show *value* on one line of at most about 80 characters.

    An object whose ``__repr__`` raises is shown by its type.
    """
    text = _SHORT.repr(value).replace("\n", " ")
    return text if len(text) <= 80 else text[:77] + "..."


def near(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """
    Name the *candidates* that *name* may be a misspelling of, the nearest first.

    Example:
        >>> near("feautres", ["features", "labels"])
        ['features']
    """
    import difflib  # only wrong names need it

    return difflib.get_close_matches(name, sorted(set(candidates)), n=count, cutoff=0.6)


def listed(items: Iterable[str], last: str = "and") -> str:
    """
    Join *items* as a sentence does.

    Example:
        >>> listed(["a", "b", "c"])
        'a, b and c'
    """
    parts = list(items)
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def duration(seconds: float) -> str:
    """
    Write a duration with the precision that a reader needs.

    Example:
        >>> duration(0.0042), duration(3.25), duration(75)
        ('4 ms', '3.2 s', '1 min 15 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def writable(text: str) -> str:
    """Give a text as UTF-8 can hold it: with a question mark for each half of a character."""
    return text.encode("utf-8", "replace").decode()


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception, unless it takes none: a frozen dataclass does not."""
    try:
        error.add_note(note)
    except Exception:
        pass


def message_of(error: BaseException) -> str:
    """Give the text of an exception, or nothing where its ``__str__`` raises."""
    try:
        return str(error)
    except Exception:
        return ""


def short_path(path: str) -> str:
    """Show the file name of *path* only, or a notebook cell as what it is."""
    if path.startswith("<ipython-input") or "ipykernel_" in path:
        return "a notebook cell"
    return os.path.basename(path)
