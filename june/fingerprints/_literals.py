"""
Constants and f-strings of a syntax tree, alike on every Python.
"""

from __future__ import annotations

import ast


def string_parts(node: ast.JoinedStr) -> list[str | ast.FormattedValue]:
    """What an f-string holds: neighbouring texts joined, empty ones (3.12 adds some) dropped."""
    parts: list[str | ast.FormattedValue] = []
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            parts.append(value)
        elif isinstance(value, ast.JoinedStr):
            parts.extend(string_parts(value))
        elif isinstance(value, ast.Constant) and value.value:
            if parts and isinstance(parts[-1], str):
                parts[-1] += str(value.value)
            else:
                parts.append(str(value.value))
    return parts


def constant_text(value: object) -> str:
    """A constant as text that no other constant has."""
    if isinstance(value, str):
        return f"s{len(value)}:{value}"
    if isinstance(value, bytes):
        return f"b{value.hex()}"
    if isinstance(value, bool) or value is None or value is ...:
        return repr(value)
    if isinstance(value, int):
        return f"i{value:x}"
    if isinstance(value, float):
        return f"f{value.hex()}"
    if isinstance(value, complex):
        return f"c{value.real.hex()},{value.imag.hex()}"
    raise TypeError(f"a syntax tree holds a {type(value).__name__}; this is a bug in june")
