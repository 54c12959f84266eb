"""
JSON: writing a request's, and reading what a server sent, which may be of any shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def count(usage: Any, *path: str) -> int:
    """Read a number of tokens from what a provider tells of usage; 0 if it is not there."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    return max(0, number(usage) or 0)


def mapping(value: Any) -> Mapping[str, Any]:
    """Give a JSON object, or an empty one for whatever else a server may have sent in its place."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """Give a JSON list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Give a JSON string, or an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """Give a whole number, which some servers write as a text or with a point, or None."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def written(value: Any) -> str:
    """
    Write JSON.

    Raises:
        TypeError: If a value is none that JSON has.
        ValueError: If a number is none that JSON has.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a value of type {type(value).__qualname__} cannot be written")
    return dict(value)


def whole_characters(text: str) -> str:
    """
    Put halves of characters beyond 16 bits together, and U+FFFD in place of those that are alone.

    JSON and Python's texts may have such halves, and UTF-8 cannot.

    Example:
        >>> whole_characters("\\ud83c\\udfba"), whole_characters("half: \\ud83c")
        ('🎺', 'half: �')
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
