"""
Models of OpenAI, and of servers that speak its APIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from june._text import short_repr
from june.models import Model
from june.sdk._access import Access, Provider
from june.sdk._chat import Chat
from june.sdk._http import Api, HttpModel
from june.sdk._responses import Responses

if TYPE_CHECKING:
    import httpx

__all__ = ["openai"]

_OPENAI = Provider(
    name="openai",
    address="https://api.openai.com/v1",
    address_variable="OPENAI_BASE_URL",
    key_variable="OPENAI_API_KEY",
    key_header="authorization",
    key_prefix="Bearer ",
)


def openai(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    api: Literal["responses", "chat"] | None = None,
    timeout: float = 60.0,
    retries: int = 5,
    headers: Mapping[str, str] | None = None,
    client: httpx.AsyncClient | None = None,
) -> Model:
    """
    Make a model of OpenAI's, or of a server that speaks one of its APIs.

    An attempt that fails in a way that may pass is made anew: 408, 409, 425, 429, 5xx, a connection that
    fails or breaks off, an answer that is not whole, silence. The wait before it grows each time, and is
    at least what the server asks for. If that is more than 5 minutes, if a quota is used up, and at any
    other status from 400, there is a `june.ModelError` with the provider's own words.

    Args:
        name: The model's name, as the provider has it.

        base_url: The API's address, up to and with ``/v1``. None takes ``OPENAI_BASE_URL`` from the
            environment, or OpenAI's own. Where it has a user and a password, these say who asks, and a key
            from the environment is not sent.

        api_key: The key. None takes ``OPENAI_API_KEY`` from the environment when the model is asked. Where
            there is none, a server other than OpenAI's own is asked without one.

        api: ``responses``, or ``chat`` for Chat Completions, which is what most other servers speak. None
            takes ``chat`` if *base_url* is given, and else ``responses``.

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
        >>> openai("gpt-5-mini"), openai("gpt-5-mini").settings_key
        (openai('gpt-5-mini'), {'provider': 'openai', 'model': 'gpt-5-mini'})
    """
    access = Access(_OPENAI, base_url, api_key, headers)
    label = f"openai({name!r})"
    spoken: Api
    match api or ("responses" if base_url is None else "chat"):
        case "responses":
            spoken = Responses(name, label)
        case "chat":
            spoken = Chat(name, label, access)
        case other:
            raise ValueError(f"api must be 'responses' or 'chat', not {short_repr(other)}")
    return HttpModel(name, spoken, access, timeout=timeout, retries=retries, client=client)
