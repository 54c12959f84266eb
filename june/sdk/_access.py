"""
Where a model is asked, and with which key.

Keys and addresses are read from the environment when a model is asked, not before. A key is in no repr, no
text and no exception.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Never
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

import attrs

from june._text import short_repr
from june.errors import ModelError

SHORTEST_HIDDEN = 4
"""A secret of fewer characters is not looked for in texts: it would be found in any."""

_PLAIN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "http-referer",
        "openai-beta",
        "openai-organization",
        "openai-project",
        "user-agent",
        "x-title",
    }
)
"""Headers that are no secrets. Any other may be one: its name need not say so."""

_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_USERINFO = re.compile(r"(?<=://)[^/\s?#]*@")


class Secret:
    """A text that shows nowhere."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Give the text, for where it is sent."""
        return self._text

    @property
    def sendable(self) -> bool:
        """Whether a header may have it."""
        return _sendable(self._text)

    def __repr__(self) -> str:
        return "…"

    def __reduce__(self) -> Never:
        raise TypeError("a key stays in its process: it cannot be pickled or copied")


@attrs.frozen(kw_only=True)
class Provider:
    """
    Who makes an API.

    Attributes:
        name: What the function that makes its models is called.
        address: Where its API is.
        address_variable: The environment variable that says another address.
        key_variable: The environment variable that has the key.
        key_header: The header that the key is sent in.
        key_prefix: What goes before it there.
        headers: Headers that it always wants.
    """

    name: str
    address: str
    address_variable: str
    key_variable: str
    key_header: str
    key_prefix: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)


class Access:
    """What was said when a model was made about where it is and who asks."""

    def __init__(
        self,
        provider: Provider,
        base_url: str | None,
        api_key: str | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        """
        Args:
            provider: Who makes the API.
            base_url: Its address, or None for the environment's or the provider's.
            api_key: The key, or None for the environment's.
            headers: More headers; they go over all others.

        Raises:
            TypeError: If an argument is of a wrong type.
            ValueError: If the address is not one.
        """
        for what, value in (("base_url", base_url), ("api_key", api_key)):
            if value is not None and not isinstance(value, str):
                # Not shown, as a key in a wrong wrapping is still a key.
                raise TypeError(f"{what} must be a str, not {type(value).__name__}")
        if base_url is not None and (problem := _address_problem(base_url)):
            raise ValueError(f"base_url {problem}")
        self.provider = provider
        self._base_url = None if base_url is None else Secret(base_url)
        self._key = None if api_key is None else Secret(api_key)
        self._headers: dict[str, Secret] = {}
        for name, text in dict(headers or {}).items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise TypeError(f"headers must be str to str, and {short_repr(name)} is not")
            if not _sendable(name) or not _sendable(text):
                raise ValueError(f"header {short_repr(name)} has a character that no header may have")
            self._headers[name.lower()] = Secret(text)

    @property
    def at_home(self) -> bool:
        """Whether the API is the provider's own, and not that of another server."""
        home = str(urlsplit(self.provider.address).hostname)
        host = str(urlsplit(self._address()[0].reveal()).hostname)
        # A region may have a host of its own below it.
        return host == home or host.endswith(f".{home}")

    def _address(self) -> tuple[Secret, str]:
        if self._base_url is not None:
            return self._base_url, "base_url"
        variable = self.provider.address_variable
        address = os.environ.get(variable, "").strip() or self.provider.address
        return Secret(address), f"the environment variable {variable}"

    def line(self, label: str) -> Line:
        """
        Find the address and the key.

        Args:
            label: What messages call the model.

        Raises:
            ModelError: If there is no key, or the key or the address cannot be used.
        """
        provider = self.provider
        address, address_from = self._address()
        if problem := _address_problem(address.reveal()):
            raise ModelError(f"{label} cannot be asked: {address_from} {problem}")
        headers = {name: Secret(text) for name, text in provider.headers.items()}
        basic = _basic(address.reveal())
        if basic is not None:
            headers["authorization"] = basic
        headers.update(self._headers)
        key, key_from = self._find_key()
        if provider.key_header in self._headers:
            key_from = "headers="
        elif basic is not None and (key is None or self._key is None):
            # What is in the environment is for the provider, or for whoever asks for a key.
            key, key_from = None, address_from
        elif key is not None:
            if not key.sendable or " " in key.reveal():
                raise ModelError(
                    f"{label} cannot be asked: the key from {key_from} has a character that no key has, "
                    "such as a space, a line break or a letter with an accent"
                )
            headers[provider.key_header] = Secret(provider.key_prefix + key.reveal())
        elif self.at_home:
            raise ModelError(
                f"{label} has no key. Set the environment variable {provider.key_variable}, or pass api_key=."
            )
        return Line(
            address=_without_userinfo(address.reveal()),
            headers=headers,
            key_from=key_from if basic is not None or provider.key_header in headers else None,
            hidden=partial(self._hidden, key, address, headers),
        )

    def _hidden(
        self, key: Secret | None, address: Secret, headers: Mapping[str, Secret]
    ) -> tuple[Secret, ...]:
        texts = [] if key is None else [key.reveal()]
        for name, secret in headers.items():
            if name not in _PLAIN_HEADERS:
                texts += _secrets_in_header(secret.reveal())
        texts += _secrets_in(address.reveal())
        for name in _PROXY_VARIABLES:
            texts += _secrets_in(os.environ.get(name, ""))
        # The longest first: none is left in part because another one is a part of it.
        texts = sorted({text for text in texts if len(text) >= SHORTEST_HIDDEN}, key=len, reverse=True)
        return tuple(map(Secret, texts))

    def _find_key(self) -> tuple[Secret | None, str]:
        text, key_from = self._key and self._key.reveal(), "api_key="
        if text is None:
            text = os.environ.get(self.provider.key_variable)
            key_from = f"the environment variable {self.provider.key_variable}"
        # A key that was read from a file often comes with its line break.
        text = (text or "").strip()
        return (Secret(text) if text else None), key_from


def _userinfo(address: str) -> str:
    """Give an address's user and password, or nothing."""
    return urlsplit(address).netloc.rpartition("@")[0]


def _basic(address: str) -> Secret | None:
    """Give the header that says an address's user and password."""
    userinfo = unquote(_userinfo(address))
    return Secret(f"Basic {b64encode(userinfo.encode()).decode()}") if userinfo else None


def _without_userinfo(address: str) -> str:
    """Give an address as it may be logged, as httpx does."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _secrets_in_header(text: str) -> Iterable[str]:
    """Give what may be a secret in a header: all of it, and the last word of ``Bearer KEY`` by itself."""
    scheme, *words = text.split() or [""]
    yield from (text, *words)
    if scheme.lower() == "basic" and words:
        try:
            yield from _secrets_in_userinfo(b64decode(words[0] + "==").decode("utf-8", "replace"))
        except ValueError:
            # No server can read it either.
            pass


def _secrets_in_userinfo(userinfo: str) -> Iterable[str]:
    """Give what may be a secret in a user and a password: without a password, the user is the key."""
    user, _, password = userinfo.partition(":")
    yield from (userinfo, password or user)


def _secrets_in(address: str) -> Iterable[str]:
    """Give what may be a secret in an address: its password, and what its query says but for a version."""
    try:
        userinfo, query = _userinfo(address), urlsplit(address).query
    except ValueError:
        return
    for written in _secrets_in_userinfo(userinfo):
        yield from (written, unquote(written))
    for field in query.split("&"):
        name, mark, written = field.partition("=")
        if mark and name.lower().endswith("version"):
            continue
        # One without a name may be a key as well.
        written = written if mark else name
        yield from (written, unquote(written), unquote_plus(written))


def _pattern(secret: Secret) -> str:
    """Give a pattern of a secret as it is, and with the escapes that it may have in JSON."""
    pattern = ""
    for one in secret.reveal():
        if one.isascii() and one.isalnum():
            pattern += one
        else:
            units = one.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
            number = "".join(rf"\\{{1,3}}u{unit}" for unit in units)
            # JSON inside of JSON has three.
            pattern += rf"(?:\\{{0,3}}{re.escape(one)}|(?i:{number}))"
    return pattern


def _sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _address_problem(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        fine = fine and address.isprintable() and " " not in address
    except ValueError:
        fine = False
    # What may have a password or a key in it is not shown.
    return None if fine else "is not an address: it must begin with https:// or http:// and name a host"


@attrs.frozen(kw_only=True)
class Line:
    """
    Where and with what one request is sent.

    Attributes:
        address: The API's address.
        headers: The headers, by their names in lower case.
        key_from: Where the key comes from, or None if there is none.
        hidden: Gives what no text may have; it is asked only where there is a text to tell.
    """

    address: str = attrs.field(repr=False)
    headers: Mapping[str, Secret]
    key_from: str | None
    hidden: Callable[[], tuple[Secret, ...]]

    def url(self, path: str) -> str:
        """Give the address of one of the API's functions; what *address* has after a ``?`` stays."""
        base, mark, query = self.address.partition("?")
        # Some give the address of the function itself.
        base = base.rstrip("/").removesuffix(path)
        if path.startswith("/v1/"):
            # Given as an address of OpenAI's is.
            base = base.removesuffix("/v1")
        return base + path + mark + query

    @property
    def place(self) -> str:
        """The address as messages show it, which may have a password or a key in its other parts."""
        parts = urlsplit(self.address)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"

    def revealed(self) -> dict[str, str]:
        """Give the headers as they are sent."""
        return {name: secret.reveal() for name, secret in self.headers.items()}

    def hide(self, text: str) -> str:
        """Put ``…`` in place of each secret in *text*."""
        for secret in self.hidden():
            text = re.sub(_pattern(secret), "…", text)
        # A client of the user's may have a proxy with a password.
        return _USERINFO.sub("…@", text)
