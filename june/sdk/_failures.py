"""
Failures: what an attempt at an answer met, in whose words, and whether asking again may help.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

import attrs

FIRST_PAUSE = 0.5
"""The longest wait before the second attempt, in seconds. The range of each wait is twice the one before."""

LONGEST_PAUSE = 30.0
"""The longest wait between two attempts, in seconds, where the server asks for none."""

LONGEST_ASKED = 300.0
"""The longest wait that a server may ask for, in seconds."""

_WORDS = 600
"""How many characters of a provider's words are shown."""

QUOTED = 100
"""How many characters are shown of what is no provider's words."""

_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 of what may pass."""

_QUOTAS = frozenset(
    {
        "access_terminated",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_required",
        "credit_balance_exhausted",
        "insufficient_quota",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
    }
)
"""Kinds of a 429 that waiting does not change: somebody has to pay, or to raise a limit."""

_LASTING = _QUOTAS | {
    "authentication_error",
    "bio_policy",
    "context_length_exceeded",
    "data_residency_mismatch",
    "empty_image_file",
    "failed_to_download_image",
    "not_found_error",
    "permission_error",
    "request_too_large",
}
"""Kinds of an error in a stream that the same request would meet again."""

_LASTING_STARTS = ("invalid_", "image_", "unsupported_")


@attrs.frozen(kw_only=True)
class Failure:
    """
    What an attempt came to instead of an answer.

    Attributes:
        said: What happened, as what follows the model's name in a sentence.
        passes: Whether the same request may be answered the next time.
        field: The field of the request's body that is at fault, or ``""``.
        status: The HTTP status, or None where there was none.
        asked: How many seconds the server asks to wait, or None.
        cause: The exception that tells it, or None.
        free: Whether it has cost nothing for certain, as no model has begun to answer.
    """

    said: str
    passes: bool
    field: str = ""
    status: int | None = None
    asked: float | None = None
    cause: Exception | None = attrs.field(default=None, eq=False)
    free: bool = False


class Failed(Exception):
    """An attempt came to a `Failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.said)
        self.failure = failure


def broken(said: str) -> Failed:
    """Say that a stream cannot be used."""
    return Failed(Failure(said=said, passes=True, status=200))


def of_status(status: int, headers: Mapping[str, str], body: str) -> Failure:
    """Judge an answer whose status is not 200."""
    message, kinds, field = words(body)
    if 300 <= status < 400 and "location" in headers:
        message = f"it redirects to {_host(headers['location'])}"
    told = headers.get("x-should-retry", "").strip().lower()
    passes = told == "true" or (told != "false" and _status_passes(status))
    return Failure(
        said=_sentence(f"answered {status}", kinds, message),
        passes=passes and _QUOTAS.isdisjoint(kinds),
        field=field,
        status=status,
        asked=asked_wait(headers),
        free=True,
    )


def proxy_passes(said: str) -> bool:
    """
    Say whether a proxy that connects to nobody may do so the next time.

    Args:
        said: What httpx says of it, which begins with the status that it answered, if it did.

    Example:
        >>> proxy_passes("407 Proxy Authentication Required"), proxy_passes("503 Busy"), proxy_passes("EOF")
        (False, True, True)
    """
    status = _read_status(said[:3])
    return status is None or _status_passes(status)


def _status_passes(status: int) -> bool:
    return status in _PASSING or status >= 500


def _read_status(code: object) -> int | None:
    """Read an error's status, which some servers write as a text."""
    text = str(code) if isinstance(code, (int, str)) else ""
    return int(text) if re.fullmatch(r"[45][0-9]{2}", text) else None


def _host(location: str) -> str:
    """Name the host of an address, whose other parts may have secrets, as a page to log in at has."""
    try:
        parts = urlsplit(location)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "what is no address"
    return (
        f"{parts.scheme or 'http'}://{parts.hostname}{port}"
        if parts.hostname
        else "another place on the same host"
    )


def in_event(data: Mapping[str, Any]) -> Failure | None:
    """Judge an event of a stream: give the failure that it tells, if it does."""
    error = data.get("error")
    if not error and data.get("type") == "error":
        error = {name: value for name, value in data.items() if name != "type"}
    response = data.get("response")
    if not error and data.get("type") == "response.failed" and isinstance(response, Mapping):
        error = response.get("error") or {"message": "the response failed"}
    if not error:
        return None
    message, kinds, _ = words(json.dumps({"error": error}))
    status = None
    if isinstance(error, Mapping):
        status = _read_status(error.get("code")) or _read_status(error.get("status"))
    if status is not None:
        # A gateway that had begun to answer before it knew.
        passes = _status_passes(status) and _QUOTAS.isdisjoint(kinds)
    else:
        passes = not any(kind in _LASTING or kind.startswith(_LASTING_STARTS) for kind in kinds)
    return Failure(
        said=_sentence("reported an error in its answer", kinds, message), passes=passes, status=200
    )


def words(body: str) -> tuple[str, tuple[str, ...], str]:
    """
    Find a provider's own words for an error.

    Returns:
        The message, or ``""``; the kinds of the error, as OpenAI's type and code; and the field at fault, or
        ``""``.

    Example:
        >>> words('{"error": {"message": "Too hot.", "type": "invalid", "param": "temperature"}}')
        ('Too hot.', ('invalid',), 'temperature')
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return " ".join(body.split()), (), ""
    error = data.get("error") or data if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else body), (), ""
    message = error.get("message") or error.get("detail")
    kinds = [str(error[name]) for name in ("type", "code") if isinstance(error.get(name), (str, int))]
    field = error.get("param")
    return (
        message if isinstance(message, str) else json.dumps(message or error, ensure_ascii=False),
        tuple(dict.fromkeys(kind for kind in kinds if kind != "error")),
        field if isinstance(field, str) else "",
    )


def _sentence(what: str, kinds: tuple[str, ...], message: str) -> str:
    kind = f" ({', '.join(kinds)})" if kinds else ""
    return f"{what}{kind}: {message}" if message else what + kind


def shortened(text: str, limit: int = _WORDS) -> str:
    """Cut a text that is longer than *limit*."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """
    Read how many seconds a server asks to wait, from ``retry-after-ms`` or ``retry-after``.

    A date counts from the answer's own ``date``, as the two clocks may differ.

    Example:
        >>> asked_wait({"retry-after": "1.5"}), asked_wait({"retry-after-ms": "20"}), asked_wait({})
        (1.5, 0.02, None)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            then = _timestamp(text)
            if then is None:
                continue
            now = _timestamp(headers.get("date", ""))
            seconds = then - (time.time() if now is None else now)
        if isfinite(seconds):
            return max(0.0, seconds)
    return None


def _timestamp(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def pause(failed: int, asked: float | None) -> float:
    """
    Say how long to wait before another attempt.

    Args:
        failed: How many attempts have failed, from 1.
        asked: How many seconds the server asks to wait, or None.

    Returns:
        Seconds, drawn from a range that is twice as wide after each failure (full jitter). Where the server
        asks for a wait, they come on top of it. Where it does not, each range begins where the one before
        ended: of waits that are drawn from 0 every time, one in four is shorter than the one before.
    """
    width = min(FIRST_PAUSE * 2.0 ** min(failed - 1, 32), LONGEST_PAUSE / 2)
    if asked is not None:
        return asked + random.uniform(0, width)
    least = min(FIRST_PAUSE * (2.0 ** min(failed - 1, 32) - 1), LONGEST_PAUSE / 2)
    return least + random.uniform(0, width)
