"""
What requests cost, by the list prices that the ``genai-prices`` package holds.

Prices are looked up in the package's own data; nothing is fetched. A program that wants newer ones than its
version of the package has can run that package's ``UpdatePrices``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType

import attrs

from june.messages import Usage
from june.models import Model

__all__ = ["cost_of"]

_UNPRICED = frozenset({"local", "june.testing"})
"""Providers of June's own, which no list may come to take for somebody else."""


_unlisted: set[tuple[str, str]] = set()
"""Providers and models of theirs that have no price."""


def cost_of(provider: str, model: str, usage: Usage) -> float | None:
    """
    Say what requests cost.

    Args:
        provider: Who was asked, as ``openai``.

        model: The model, as the provider names it.

        usage: What was used. Tokens written to a provider's cache count as others do, though some providers
            charge more for them.

    Returns:
        US dollars at list price, or None where the price is not known: a model that the list does not have,
        a local or scripted one, or no ``genai-prices`` (``pip install june-steps[prices]``).
    """
    prices = None if provider in _UNPRICED or (provider, model) in _unlisted else _prices()
    if prices is None:
        return None
    try:
        spent = prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
        )
        return float(prices.calc_price(spent, model, provider_id=provider).total_price)
    except LookupError:
        # Looking through all the lists takes its time.
        _unlisted.add((provider, model))
        return None
    except Exception:
        # Counts that do not fit each other. Whatever else it may be, the answer is paid for, and no price is
        # worth losing it.
        return None


def priced(model: Model, usage: Usage, answered_by: str = "") -> Usage:
    """
    Give a usage with what it cost, if that is known and the usage does not say it.

    Args:
        model: The model that was asked.
        usage: What was used.
        answered_by: The name of the model that answered, if that is known: it may say more.
    """
    try:
        key = model.settings_key
    except Exception:
        # It has been computed once, for the step's key.
        return usage
    provider = key.get("provider") if isinstance(key, Mapping) else None
    if usage.cost is not None or not isinstance(provider, str) or not getattr(model, "at_home", True):
        return usage
    if not usage.input_tokens and not usage.output_tokens:
        # It was not told what was used.
        return usage
    for name in dict.fromkeys((answered_by, model.name)):
        cost = cost_of(provider, name, usage) if name else None
        if cost is not None:
            return attrs.evolve(usage, cost=cost)
    return usage


@cache
def _prices() -> ModuleType | None:
    """The package, if it is installed; it is imported when a model first answers."""
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices
