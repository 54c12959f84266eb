"""
The shapes of single values that JSON has no form for: dates, UUIDs, decimals, paths, bytes.
"""

from __future__ import annotations

import binascii
import datetime
import decimal
import pathlib
import re
import uuid
from collections.abc import Callable
from math import isfinite
from typing import Any

from june.codec._problems import Inexact, expected, not_finite
from june.codec._shapes import KIND_OF, Shape
from june.codec._times import ints, read_date, read_datetime, read_time, read_timedelta, write_time

_STR = frozenset({"str"})


class ScalarShape(Shape):
    """A standard type with an exact text, or an exact short list of numbers."""

    def __init__(
        self,
        label: str,
        cls: type,
        write: Callable[[Any], Any],
        read: Callable[[Any], Any],
        kind: type = str,
    ) -> None:
        super().__init__(label, frozenset({cls}), frozenset({KIND_OF[kind]}))
        self.cls = cls
        self.kind = kind
        self.write = write
        self.read = read
        # A time zone has to be known on the machine that reads it.
        self.settled = cls not in (datetime.datetime, datetime.time)

    def lower(self, value: Any, depth: int) -> Any:
        if type(value) is not self.cls:
            raise self.unlike(value)
        return self.write(value)

    def lift(self, data: Any, depth: int) -> Any:
        if type(data) is not self.kind:
            raise expected(self.label, data)
        try:
            return self.read(data)
        except (ValueError, TypeError, ArithmeticError, LookupError, OSError):
            raise expected(self.label, data) from None


def scalar_for(cls: type) -> ScalarShape | None:
    """Give the shape of *cls* where it is one of the standard types known here."""
    if cls in _PATHS:
        # A declared Path is a PosixPath on one system and a WindowsPath on another.
        try:
            return ScalarShape(cls.__name__, type(cls()), _write_path, cls)
        except NotImplementedError:  # the other system's kind of path
            return None
    if cls.__module__ == "fractions" and cls.__qualname__ == "Fraction":
        return _fractions(cls)
    row = _SCALARS.get(cls)
    return None if row is None else ScalarShape(cls.__name__, cls, *row)


_PATHS = (
    pathlib.Path,
    pathlib.PosixPath,
    pathlib.WindowsPath,
    pathlib.PurePath,
    pathlib.PurePosixPath,
    pathlib.PureWindowsPath,
)


def _write_path(value: pathlib.PurePath) -> str:
    text = str(value)
    again = type(value)(text)
    if str(again) != text or again.parts != value.parts:
        raise Inexact("is a path whose text reads as another path", "Return the text of the path.")
    return text


# Of its own, since the current context may write "e", or read "abc" as NaN without a word.
_DECIMALS = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, capitals=1)
_DECIMALS.traps[decimal.InvalidOperation] = True
_DECIMAL = re.compile(r"[-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|Infinity|s?NaN[0-9]*)")


def _read_decimal(text: str) -> decimal.Decimal:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    return decimal.Decimal(text, _DECIMALS)


def _write_complex(value: complex) -> list[float]:
    for part in (value.real, value.imag):
        if not isfinite(part):
            raise not_finite(part)
    return [value.real, value.imag]


def _read_complex(data: list[Any]) -> complex:
    if len(data) != 2 or any(type(one) is not float for one in data):
        raise ValueError(data)
    return complex(*data)


def _fractions(cls: type) -> ScalarShape:
    def read(data: list[Any]) -> Any:
        numerator, denominator = ints(data, 2)
        value: Any = cls(numerator, denominator)
        if (value.numerator, value.denominator) != (numerator, denominator):
            raise ValueError(data)
        return value

    return ScalarShape("Fraction", cls, lambda value: [value.numerator, value.denominator], read, list)


def _write_bytes(value: bytes | bytearray) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _read_bytes(text: str) -> bytes:
    value = binascii.a2b_base64(text.encode("ascii"), strict_mode=True) if text else b""
    if _write_bytes(value) != text:
        raise ValueError(text)
    return value


_UUID = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?:;(safe|unsafe))?")


def _write_uuid(value: uuid.UUID) -> str:
    safe = value.is_safe
    return str(value) if safe is uuid.SafeUUID.unknown else f"{value};{safe.name}"


def _read_uuid(text: str) -> uuid.UUID:
    match = _UUID.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return uuid.UUID(match[1], is_safe=uuid.SafeUUID[match[2] or "unknown"])


_SCALARS: dict[type, tuple[Any, ...]] = {
    datetime.datetime: (write_time, read_datetime),
    datetime.date: (datetime.date.isoformat, read_date),
    datetime.time: (write_time, read_time),
    datetime.timedelta: (lambda value: [value.days, value.seconds, value.microseconds], read_timedelta, list),
    uuid.UUID: (_write_uuid, _read_uuid),
    decimal.Decimal: (_DECIMALS.to_sci_string, _read_decimal),
    bytes: (_write_bytes, _read_bytes),
    bytearray: (_write_bytes, lambda text: bytearray(_read_bytes(text))),
    complex: (_write_complex, _read_complex, list),
    range: (lambda value: [value.start, value.stop, value.step], lambda data: range(*ints(data, 3)), list),
}
