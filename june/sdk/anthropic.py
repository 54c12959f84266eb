"""
Models of Anthropic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from june.models import Model
from june.sdk._access import Access, Provider
from june.sdk._http import HttpModel
from june.sdk._messages import Messages

if TYPE_CHECKING:
    import httpx

__all__ = ["anthropic"]

_ANTHROPIC = Provider(
    name="anthropic",
    address="https://api.anthropic.com",
    address_variable="ANTHROPIC_BASE_URL",
    key_variable="ANTHROPIC_API_KEY",
    key_header="x-api-key",
    headers={"anthropic-version": "2023-06-01"},
)


def anthropic(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = 60.0,
    retries: int = 5,
    headers: Mapping[str, str] | None = None,
    client: httpx.AsyncClient | None = None,
) -> Model:
    """
    Make a model of Anthropic's, spoken to by its Messages API.

    Attempts that fail are made anew as those of `june.sdk.openai.openai` are.

    The API wants to know how long an answer may be: 32,000 tokens, thoughts included, unless
    ``Settings.max_tokens`` says otherwise. A schema that the API cannot hold a model to is put into the
    instructions.

    Args:
        name: The model's name, as Anthropic has it.

        base_url: The API's address, without ``/v1``. None takes ``ANTHROPIC_BASE_URL`` from the environment,
            or Anthropic's own. Where it has a user and a password, these say who asks, and a key from the
            environment is not sent.

        api_key: The key. None takes ``ANTHROPIC_API_KEY`` from the environment when the model is asked. Where
            there is none, a server other than Anthropic's own is asked without one.

        timeout: How many seconds the server may send nothing, before and within an answer.

        retries: How many attempts may follow one that failed.

        headers: More headers for each request.

        client: The HTTP client to use; it is not closed, and its connections belong to the event loop that
            it was first used in. None takes that of the run. No client follows redirections here.

    Returns:
        The model. Of the above only *name* is in cache keys.

    Raises:
        TypeError: If an argument is of a wrong type.
        ValueError: If an argument is of no use.

    Example:
        >>> anthropic("claude-sonnet-4-6")
        anthropic('claude-sonnet-4-6')
    """
    access = Access(_ANTHROPIC, base_url, api_key, headers)
    api = Messages(name, f"anthropic({name!r})")
    return HttpModel(name, api, access, timeout=timeout, retries=retries, client=client)
