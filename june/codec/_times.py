"""
The texts of dates and times, with their zones and folds.
"""

from __future__ import annotations

import datetime
import re
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from june._text import short_repr
from june.codec._problems import Inexact

if TYPE_CHECKING:
    import zoneinfo

_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
_OFFSET = r"(?P<offset>Z|[+-]\d\d:\d\d(?::\d\d(?:\.\d{6})?)?)?"
_TAIL = r"(?:\[(?P<zone>[^\]\[]+)\])?(?P<fold>;fold=1)?"
_DATETIME = re.compile(rf"(?P<local>\d{{4}}-\d\d-\d\dT{_CLOCK}){_OFFSET}{_TAIL}", re.ASCII)
_TIME = re.compile(rf"(?P<local>{_CLOCK}){_OFFSET}{_TAIL}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UTC = datetime.UTC


def write_time(value: datetime.datetime | datetime.time) -> str:
    """
    Write the local time, the offset, the zone's name in brackets as in RFC 9557, and the fold.

    A zone of the ``zoneinfo`` database is written by its key alone: its offset follows from the rest.
    """
    tz = value.tzinfo
    text = value.replace(tzinfo=None).isoformat()
    if tz is None:
        pass
    elif tz is _UTC:
        text += "+00:00"
    elif type(tz) is datetime.timezone:
        offset, *name = tz.__getinitargs__()  # type: ignore[attr-defined] # missing in typeshed
        text += _offset_text(offset)
        if name:
            if not name[0] or re.search(r"[\[\]]", name[0]):
                raise _odd_zone(tz)
            text += f"[{name[0]}]"
    elif _is_shared(tz):
        text += f"[{tz.key}]"
    else:
        raise _odd_zone(tz)
    return text + ";fold=1" if value.fold else text


def _zone_of(key: str) -> datetime.tzinfo:
    import zoneinfo  # takes as long to import as the rest of this package; few results have such a zone

    return zoneinfo.ZoneInfo(key)


def _is_shared(tz: datetime.tzinfo) -> TypeGuard[zoneinfo.ZoneInfo]:
    """Whether its key gives this very object; arithmetic asks whether two zones are one object."""
    loaded = sys.modules.get("zoneinfo")
    if loaded is None or type(tz) is not loaded.ZoneInfo:
        return False
    try:
        key = tz.key  # type: ignore[attr-defined] # what loaded.ZoneInfo is, mypy cannot see
        return re.search(r"[\[\]]", key) is None and _zone_of(key) is tz
    except (TypeError, ValueError, OSError, LookupError):  # made from a file, or unknown here
        return False


def _odd_zone(tz: datetime.tzinfo) -> Inexact:
    return Inexact(
        f"is in the time zone {short_repr(tz)}, which would not come back as it is",
        "Return a time in UTC, with a fixed offset, or in zoneinfo.ZoneInfo(key).",
    )


def _offset_text(offset: datetime.timedelta) -> str:
    """
    Write an offset as ``+05:30``, with seconds where it has any.

    Example:
        >>> _offset_text(datetime.timedelta(hours=-5, minutes=-30))
        '-05:30'
    """
    sign = "-" if offset.days < 0 else "+"
    offset = abs(offset)
    minutes, seconds = divmod(offset.seconds, 60)
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    if seconds or offset.microseconds:
        text += f":{seconds:02}"
    return text + f".{offset.microseconds:06}" if offset.microseconds else text


def _read_zone(match: re.Match[str]) -> datetime.tzinfo | None:
    offset, zone = match["offset"], match["zone"]
    if offset is None:
        return None if zone is None else _zone_of(zone)
    if offset == "Z":
        offset = "+00:00"
    hours, minutes, *seconds = offset[1:].split(":")
    delta = datetime.timedelta(hours=int(hours), minutes=int(minutes))
    if seconds:
        whole, _, part = seconds[0].partition(".")
        delta += datetime.timedelta(seconds=int(whole), microseconds=int(part or 0))
    delta = -delta if offset[0] == "-" else delta
    return datetime.timezone(delta) if zone is None else datetime.timezone(delta, zone)


def read_datetime(text: str) -> datetime.datetime:
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    local = datetime.datetime.fromisoformat(match["local"])
    return local.replace(tzinfo=_read_zone(match), fold=1 if match["fold"] else 0)


def read_time(text: str) -> datetime.time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    local = datetime.time.fromisoformat(match["local"])
    return local.replace(tzinfo=_read_zone(match), fold=1 if match["fold"] else 0)


def read_date(text: str) -> datetime.date:
    if _DATE.fullmatch(text) is None:
        raise ValueError(text)
    return datetime.date.fromisoformat(text)


def read_timedelta(data: list[Any]) -> datetime.timedelta:
    days, seconds, microseconds = ints(data, 3)
    value = datetime.timedelta(days, seconds, microseconds)
    if (value.days, value.seconds, value.microseconds) != (days, seconds, microseconds):
        raise ValueError(data)
    return value


def ints(data: list[Any], count: int) -> list[int]:
    """Check that *data* is *count* ints."""
    if len(data) != count or any(type(one) is not int for one in data):
        raise ValueError(data)
    return data
