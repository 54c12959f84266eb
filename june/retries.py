"""
Retries: whether a step that failed is tried again, and when.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol, cast

import attrs

from june._signatures import is_coroutine_function
from june._text import short_repr

__all__ = ["Retry"]


class RetryStrategy(Protocol):
    """What the run asks of a retry: how long to wait, if at all."""

    def delay(self, error: Exception, attempt: int, elapsed: float) -> float | None:
        """
        Say how long to wait before the next attempt, in seconds, or None to give up.

        Args:
            error: What the last attempt raised.
            attempt: How many attempts were made, from 1.
            elapsed: Seconds since the first attempt began.
        """


@attrs.frozen
class Retry:
    """
    Retries of a whole step.

    Attributes:
        attempts: How often the step is tried at most, the first time included.

        on: Which exceptions are worth another try: a type, a tuple of types, or a function of the
            exception that returns a bool. Cancellation is never retried.

        wait: How long to wait before another attempt: seconds, or a function of the number of attempts
            made (from 1) that returns seconds. None doubles from 0.1 s up to 45 s, plus up to a second at
            random so that many steps do not all come back at once. While it waits, a step holds no slot.

    Example:
        >>> Retry(5, on=(ConnectionError, TimeoutError), wait=2.0).delay(TimeoutError(), 1, 0.0)
        2.0
    """

    attempts: int = 3
    on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] = Exception
    wait: float | Callable[[int], float] | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError(f"attempts must be a whole number from 1, not {self.attempts!r}")
        if isinstance(self.wait, (int, float)) and not 0 <= self.wait < float("inf"):
            raise ValueError(f"wait must be a number of seconds from 0, not {self.wait!r}")

    def delay(self, error: Exception, attempt: int, elapsed: float) -> float | None:
        """Say how long to wait before the next attempt, in seconds, or None to give up."""
        if attempt >= self.attempts:
            return None
        if isinstance(self.on, (type, tuple)):
            if not isinstance(error, self.on):
                return None
        elif not self.on(error):
            return None
        if self.wait is None:
            return float(min(45.0, 0.1 * 2.0 ** (attempt - 1)) + random.random())
        return float(self.wait(attempt)) if callable(self.wait) else float(self.wait)


@attrs.frozen
class _Tenacity:
    """Asks a ``tenacity.Retrying`` (or ``AsyncRetrying``) when to stop and how long to wait."""

    retrying: Any

    def delay(self, error: Exception, attempt: int, elapsed: float) -> float | None:
        import tenacity

        state = tenacity.RetryCallState(self.retrying, None, (), {})
        state.attempt_number = attempt
        state.set_exception((type(error), error, error.__traceback__))
        # `seconds_since_start` is the outcome's time less the start's; only the difference is read.
        state.start_time = 0.0
        state.outcome_timestamp = elapsed
        if not self.retrying.retry(state):
            return None
        wait = float(self.retrying.wait(state)) if self.retrying.wait else 0.0
        # Strategies such as stop_before_delay look at the sleep to come.
        state.upcoming_sleep = wait
        return None if self.retrying.stop(state) else wait


def retry_strategy(retry: Any) -> RetryStrategy | None:
    if retry is None or isinstance(retry, Retry):
        return retry
    if isinstance(retry, int) and not isinstance(retry, bool):
        raise TypeError(f"retry={retry!r} is a number; say retry=Retry({retry}) for so many attempts")
    if any(base.__module__.split(".")[0] == "tenacity" for base in type(retry).__mro__):
        for name in ("retry", "wait", "stop"):
            if is_coroutine_function(getattr(retry, name, len)):
                raise TypeError(f"the {name} of {short_repr(retry)} is async; a step asks it from plain code")
        return _Tenacity(retry)
    if hasattr(type(retry), "delay"):
        return cast(RetryStrategy, retry)
    raise TypeError(
        f"retry={short_repr(retry)} is neither a june.Retry nor a tenacity.Retrying; "
        "a stamina decorator goes on the function itself, below @step"
    )
