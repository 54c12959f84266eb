"""
Fan-out: the items that an ``each`` step runs over, and the labels that name its instances.

A label never says where an item stands, so that inserting, deleting or moving items leaves the ids of all
others, and their saved results, alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from june._digests import digest
from june._text import short_repr
from june.errors import GraphError

_ENCODED = re.compile(r"[\[\]/%\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_MAX_LABEL = 80


def items_of(source: Any) -> tuple[Sequence[Any] | None, Sequence[Any]]:
    """
    Spell out what an ``each`` step runs over.

    Returns:
        The labels that a mapping's keys suggest (None for anything else), and the items.

    Raises:
        TypeError: If it is neither a mapping, a sequence nor a set; text is refused too.
    """
    if isinstance(source, Mapping):
        return list(source.keys()), list(source.values())
    if isinstance(source, (str, bytes, bytearray)) or not isinstance(source, (Sequence, AbstractSet)):
        raise TypeError(
            f"each runs over a list, tuple, set or mapping, and {short_repr(source)} "
            f"is a {type(source).__name__}"
        )
    return None, list(source)


class Labels:
    """Names the instances of one ``each`` step."""

    def __init__(self, step_id: str, label: Callable[[Any], Any] | None) -> None:
        self._step_id = step_id
        self._label = label

    def of(
        self, keys: Sequence[Any] | None, items: Sequence[Any], contributions: Sequence[bytes | None]
    ) -> list[str]:
        """
        Label the items.

        Args:
            keys: As `items_of` gave them.
            items: The items.
            contributions: What each item adds to a cache key; None where nothing exact can.

        Raises:
            GraphError: If different items have one label.
            TypeError: If an item can be named by nothing.
        """
        found: list[str] = []
        first: dict[str, int] = {}
        counts: dict[str, int] = {}
        for number, item in enumerate(items):
            label = self._one(None if keys is None else keys[number], item, contributions[number])
            other = first.setdefault(label, number)
            if other != number:
                if keys is not None or contributions[other] != contributions[number]:
                    raise self._clash(label, items[other], item)
                counts[label] = counts.get(label, 1) + 1
                label = f"{label}~{counts[label]}"
                if first.setdefault(label, number) != number:
                    raise self._clash(label, items[first[label]], item)
            found.append(label)
        return found

    def _one(self, key: Any, item: Any, contribution: bytes | None) -> str:
        if self._label is not None:
            said = self._label(item)
            if type(said) not in (str, int):
                raise TypeError(f"label must return a string or an int, not {short_repr(said)}")
            return encoded(str(said))
        named = item if key is None else key
        if type(named) is str or type(named) is int:
            return encoded(str(named))
        if contribution is None:
            raise TypeError(
                f"{short_repr(item)} cannot be encoded exactly, so nothing names its instance; "
                "say label=, a function of the item"
            )
        return contribution[1:6].hex()

    def _clash(self, label: str, one: Any, other: Any) -> GraphError:
        return GraphError(
            f"step {self._step_id!r} would have two instances named {label!r}: for {short_repr(one)} and for "
            f"{short_repr(other)}. Say label=, a function of the item that tells them apart."
        )


def encoded(label: str) -> str:
    """
    Make *label* fit to stand in an id.

    Example:
        >>> encoded("src/a.py"), len(encoded("x" * 100))
        ('src%2Fa.py', 80)
    """
    written = _ENCODED.sub(_percent, label)
    if len(written) <= _MAX_LABEL:
        return written
    return f"{written[: _MAX_LABEL - 11]}~{digest(label.encode('utf-8', 'surrogatepass')).hex()[:10]}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogatepass"))
