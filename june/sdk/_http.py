"""
Asking a model over HTTP: one exchange, with as many attempts as it takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import trio

from june._text import duration, short_repr
from june.errors import ModelError
from june.messages import Request, Response
from june.models import Alone, Call
from june.sdk._access import Access, Line
from june.sdk._failures import (
    LONGEST_ASKED,
    Failed,
    Failure,
    broken,
    in_event,
    of_status,
    pause,
    shortened,
)
from june.sdk._streams import Reader, events
from june.sdk._values import written

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
"""How long a connection may take to be made."""


class Api(Protocol):
    """
    What is asked for and answered in which words.

    Attributes:
        label: What messages call the model.
        path: The API's function, below its address.
        optional: Fields of a body that are left out once a server has refused them, and how it says so.
    """

    @property
    def label(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def optional(self) -> Mapping[str, tuple[str, ...]]: ...

    def body(self, request: Request) -> dict[str, Any]:
        """Make a request's body."""

    def reader(self) -> Reader:
        """Give what reads an answer."""


class HttpModel:
    """A model behind an HTTP API. It can be asked by several steps at once."""

    def __init__(
        self,
        name: str,
        api: Api,
        access: Access,
        *,
        timeout: float,
        retries: int,
        client: httpx.AsyncClient | None,
    ) -> None:
        """
        Args:
            name: The provider's name of it.
            api: How it is spoken to.
            access: Where it is, and who asks.
            timeout: How many seconds it may send nothing.
            retries: How many attempts may follow the first one.
            client: The HTTP client to use, or None for the run's.

        Raises:
            TypeError: If an argument is of a wrong type.
            ValueError: If the name is empty, or a number too small.
        """
        if not isinstance(name, str):
            raise TypeError(f"a model's name must be a str, not {short_repr(name)}")
        if not name.strip():
            raise ValueError("a model's name must not be empty")
        if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
            raise TypeError(f"timeout must be a number of seconds, not {short_repr(timeout)}")
        if not timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, not {timeout!r}")
        if not isinstance(retries, int) or isinstance(retries, bool):
            raise TypeError(f"retries must be a whole number, not {short_repr(retries)}")
        if retries < 0:
            raise ValueError(f"retries must be 0 or more, not {retries!r}")
        self._name = name
        self._api = api
        self._access = access
        self._timeout = float(timeout)
        self._retries = retries
        self._client = client
        # Optional fields that the server has refused.
        self._refused: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The provider's name of it."""
        return self._name

    @property
    def settings_key(self) -> dict[str, str]:
        """The provider and the name."""
        return {"provider": self._access.provider.name, "model": self._name}

    def __june_key__(self) -> object:
        return self.settings_key

    def __repr__(self) -> str:
        return self._api.label

    async def respond(self, request: Request) -> Response:
        """
        Answer a request.

        Raises:
            ModelError: If there is no answer, or the request cannot be made.
        """
        line = self._access.line(self._api.label)
        body = self._api.body(request)
        call: Call = Alone() if request.call is None else request.call
        client = self._client or call.client
        try:
            return await _Exchange(self, line, client, call).answer(body)
        finally:
            if request.call is None and client is not self._client:
                with trio.CancelScope(shield=True):
                    await client.aclose()


class _Exchange:
    """A request, and the attempts at having it answered."""

    def __init__(self, model: HttpModel, line: Line, client: httpx.AsyncClient, call: Call) -> None:
        self._model = model
        self._api = model._api
        self._line = line
        self._client = client
        self._call = call
        self._failed = 0
        # Whether a text was told that an attempt has given up.
        self._told = False

    async def answer(self, body: dict[str, Any]) -> Response:
        api, model = self._api, self._model
        body = {name: value for name, value in body.items() if name not in model._refused}
        content = self._encode(body)
        while True:
            outcome = await self._attempt(content)
            if isinstance(outcome, Response):
                return outcome
            refused = {name for name, signs in api.optional.items() if _refuses(outcome, name, signs)}
            if not refused.isdisjoint(body):
                model._refused |= refused
                body = {name: value for name, value in body.items() if name not in refused}
                content = self._encode(body)
                continue
            seconds = self._wait(outcome)
            if self._told:
                self._call.restart()
                self._told = False
            await self._call.wait(seconds, f"{api.label} {outcome.said}")

    def _encode(self, body: dict[str, Any]) -> bytes:
        try:
            return written(body).encode()
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self._api.label} cannot be asked: the request is no JSON: {error}") from None

    def _wait(self, failure: Failure) -> float:
        """
        Say how long to wait before the next attempt.

        Raises:
            ModelError: If there is to be none.
        """
        label, said = self._api.label, failure.said
        self._failed += 1
        if not failure.passes:
            raise ModelError(_sentence(f"{label} {said}"), failure.status) from failure.cause
        if failure.asked is not None and failure.asked > LONGEST_ASKED:
            asked, most = duration(failure.asked), duration(LONGEST_ASKED)
            said = f"{_sentence(said)} It asks to wait {asked}, and a model is waited for {most} at most."
            raise ModelError(f"{label} {said}", failure.status)
        if self._failed > self._model._retries:
            last = failure.cause or ModelError(f"{label} {said}", failure.status)
            times = "1 attempt" if self._failed == 1 else f"{self._failed} attempts"
            said = f"gave no answer in {times}; at the last one it {said}"
            raise ModelError(_sentence(f"{label} {said}"), failure.status) from last
        return pause(self._failed, failure.asked)

    async def _attempt(self, content: bytes) -> Response | Failure:
        """Send the request once; an attempt that comes to nothing is counted."""
        import httpx

        reader = self._api.reader()
        answer: Response | None = None
        begun = False
        try:
            async with self._sent(content) as response:
                if not response.is_success:
                    return self._clean(await self._refusal(response))
                begun = True
                await self._read(response, reader)
                answer = reader.response()
                return answer
        except Failed as failed:
            return self._clean(failed.failure)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return self._clean(self._trouble(error, begun))
        finally:
            if answer is None:
                self._call.spent(attrs.evolve(reader.usage, requests=1))

    def _sent(self, content: bytes) -> AbstractAsyncContextManager[httpx.Response]:
        import httpx

        line = self._line
        return self._client.stream(
            "POST",
            line.url(self._api.path),
            content=content,
            headers={
                "content-type": "application/json",
                "accept": "text/event-stream",
                **line.revealed(),
            },
            # However long the line for a connection is: the run decides how many steps ask at once.
            timeout=httpx.Timeout(self._model._timeout, connect=CONNECT_SECONDS, pool=None),
        )

    async def _read(self, response: httpx.Response, reader: Reader) -> None:
        """
        Read a whole answer.

        Raises:
            Failed: If it is none.
        """
        media_type = response.headers.get("content-type", "no content type")
        if "text/event-stream" not in media_type:
            await response.aread()
            told = _object(response.text)
            failure = None if told is None else in_event(told)
            if failure is not None:
                raise Failed(failure)
            shown = " ".join(response.text.split()) or "nothing"
            raise broken(f"answered with {media_type} in place of a stream of events: {shown}")
        async with events(response) as source:
            async for event in source:
                if not event.data:
                    continue
                if event.data.strip() == "[DONE]":
                    break
                data = _object(event.data)
                if data is None:
                    raise broken(f"sent a chunk that is no JSON object: {event.data}")
                if added := reader.feed(data):
                    self._told = True
                    self._call.text(added)
                if failure := in_event(data):
                    raise Failed(failure)
                if reader.over:
                    break
            if not reader.whole:
                raise broken("ended its answer early, without saying that it is finished")

    async def _refusal(self, response: httpx.Response) -> Failure:
        import httpx

        try:
            await response.aread()
            body = response.text
        except httpx.HTTPError:
            # The status says enough.
            body = ""
        failure = of_status(response.status_code, response.headers, body)
        if failure.status not in (401, 403):
            return failure
        if self._line.key_from is None:
            provider = self._model._access.provider
            hint = f"No key was sent; set the environment variable {provider.key_variable}, or pass api_key="
        else:
            hint = f"The key comes from {self._line.key_from}"
        return attrs.evolve(failure, said=f"{_sentence(failure.said)} {hint}")

    def _trouble(self, error: httpx.HTTPError | httpx.InvalidURL, begun: bool) -> Failure:
        """Judge what kept an answer from coming."""
        import httpx

        if isinstance(error, httpx.HTTPStatusError):
            # A user's client that has a hook which raises.
            return of_status(error.response.status_code, error.response.headers, "")
        text = self._line.hide(str(error))
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
        status = 200 if begun else None
        if isinstance(error, httpx.InvalidURL):
            return Failure(said=f"could not be reached at {self._line.place}: {what}", passes=False)
        # What httpx raises has the request, and so the key, as an attribute and in its traceback.
        known = isinstance(error, httpx.RequestError) and type(error).__module__ == "httpx"
        cause = type(error)(text) if known else ModelError(what)
        if isinstance(error, httpx.ReadTimeout):
            said = f"sent nothing for {duration(self._model._timeout)}"
        elif isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            said = f"could not be reached at {self._line.place}: {what}"
        else:
            said = f"broke off its answer: {what}" if begun else f"gave no answer: {what}"
        passes = not isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError))
        return Failure(said=said, passes=passes, status=status, cause=cause)

    def _clean(self, failure: Failure) -> Failure:
        return attrs.evolve(failure, said=shortened(self._line.hide(failure.said)))


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuses(failure: Failure, name: str, signs: tuple[str, ...]) -> bool:
    if failure.status not in (400, 422):
        return False
    said = failure.said.lower()
    return failure.field.partition(".")[0] == name or any(sign in said for sign in signs)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
