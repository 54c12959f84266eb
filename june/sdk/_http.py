"""
Asking a model over HTTP: one exchange, with as many attempts as it takes.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import msgspec
import trio

from june._text import duration, short_repr
from june.errors import ModelError
from june.messages import Request, Response
from june.models import Alone, Call, check_allowed
from june.sdk._access import Access, Line
from june.sdk._failures import (
    LONGEST_ASKED,
    QUOTED,
    Failed,
    Failure,
    broken,
    in_event,
    of_status,
    pause,
    proxy_passes,
    shortened,
)
from june.sdk._streams import (
    END_SECONDS,
    MOST_ANSWERED,
    Events,
    Reader,
    beginning,
    fill,
    is_json,
    is_stream,
    pieces,
)
from june.sdk._values import whole_characters, written

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
"""How long a connection may take to be made."""

_MOST_REFUSED = 65_536
"""How many bytes are read of what is no answer."""

_REFUSED_SECONDS = 10.0
"""How long it is read."""

_decode = msgspec.json.Decoder().decode


class Api(Protocol):
    """
    What is asked for and answered in which words.

    Attributes:
        label: What messages call the model.
        path: The API's function, below its address.
        optional: Fields of a body that are left out once a server has refused them, and how it says so.
            What is within a field stands after a point, and `body` leaves it out.
    """

    @property
    def label(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def optional(self) -> Mapping[str, tuple[str, ...]]: ...

    def body(self, request: Request, refused: frozenset[str]) -> dict[str, Any]:
        """
        Make a request's body.

        Args:
            request: What is asked.
            refused: Those of the optional fields that are to be left out, or said in another way.
        """

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
        if client is not None:
            _check_client(client)
        self._name = name
        self._api = api
        self._access = access
        self._timeout = float(timeout)
        self._retries = retries
        self._client = client
        # Optional fields that the server has refused, with the values that they had.
        self._refused: frozenset[tuple[str, str]] = frozenset()

    @property
    def name(self) -> str:
        """The provider's name of it."""
        return self._name

    @property
    def settings_key(self) -> dict[str, str]:
        """The provider and the name."""
        return {"provider": self._access.provider.name, "model": self._name}

    @property
    def at_home(self) -> bool:
        """Whether the provider itself is asked, whose prices are known."""
        return self._access.at_home

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
        check_allowed(self, None)
        line = self._access.line(self._api.label)
        call: Call = Alone() if request.call is None else request.call
        exchange = _Exchange(self, line, call)
        try:
            return await exchange.answer(request)
        finally:
            if request.call is None and self._client is None:
                with trio.move_on_after(END_SECONDS, shield=True):
                    await call.client.aclose()


def _check_client(client: object) -> None:
    """
    Check that what a user gives as an HTTP client is one.

    Raises:
        TypeError: If it is not.
    """
    import httpx

    if not isinstance(client, httpx.AsyncClient):
        kind = f"{type(client).__module__.partition('.')[0]}.{type(client).__qualname__}"
        raise TypeError(f"client must be an httpx.AsyncClient, not {kind}")


class _Exchange:
    """A request, and the attempts at having it answered."""

    def __init__(self, model: HttpModel, line: Line, call: Call) -> None:
        """
        Raises:
            ModelError: If there is no HTTP client.
        """
        self._model = model
        self._api = model._api
        self._line = line
        self._call = call
        self._client = self._find_client()
        self._failed = 0
        # Whether a text was told that an attempt has given up.
        self._told = False

    def _find_client(self) -> httpx.AsyncClient:
        import httpx

        if self._model._client is not None:
            return self._model._client
        try:
            return self._call.client
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            # What the environment says of proxies.
            said = self._line.hide(str(error))
            label = self._api.label
            raise ModelError(
                _sentence(f"{label} cannot be asked: no HTTP client can be made: {said}")
            ) from None

    async def answer(self, request: Request) -> Response:
        body, content = self._written(request)
        while True:
            outcome = await self._attempt(content)
            if isinstance(outcome, Response):
                return outcome
            if self._learned(outcome, request, body):
                body, content = self._written(request)
                continue
            seconds = self._wait(outcome)
            if self._told:
                self._call.restart()
                self._told = False
            await self._call.wait(seconds, f"{self._api.label} {outcome.said}")
            # Meanwhile the run may have given the one that there was to another request.
            self._client = self._find_client()

    def _written(self, request: Request) -> tuple[dict[str, Any], bytes]:
        """
        Make a request's body, without what the server has refused.

        Raises:
            ModelError: If the API has no way to ask for it.
        """
        api, known = self._api, self._model._refused
        body = api.body(request, frozenset())
        try:
            refused = frozenset(name for name, value in known if _written_at(body, name) == value)
            if refused:
                body = api.body(request, refused)
                body = {name: value for name, value in body.items() if name not in refused}
            return body, whole_characters(written(body)).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{api.label} cannot be asked: the request is no JSON: {error}") from None

    def _learned(self, failure: Failure, request: Request, body: dict[str, Any]) -> bool:
        """Say whether an optional field that the user did not ask for was refused, and keep that in mind."""
        refused = frozenset(
            (name, value)
            for name, signs in self._api.optional.items()
            if (value := _written_at(body, name)) is not None
            and _written_at(request.settings.extra, name) is None
            and _refuses(failure, name, signs)
        )
        self._model._refused |= refused
        return bool(refused)

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
        outcome: Response | Failure | None = None
        begun = False
        try:
            async with self._sent(content) as response:
                if response.is_success:
                    begun = True
                    await self._read(response, reader)
                    outcome = reader.response()
                else:
                    outcome = self._clean(await self._refusal(response))
        except Failed as failed:
            outcome = self._clean(failed.failure)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            outcome = self._clean(self._trouble(error, begun))
        finally:
            if not isinstance(outcome, Response):
                cost = 0.0 if outcome is not None and outcome.free else None
                self._call.spent(attrs.evolve(reader.usage, requests=1, cost=cost))
        return outcome

    @asynccontextmanager
    async def _sent(self, content: bytes) -> AsyncIterator[httpx.Response]:
        """
        Send the request, and close the answer afterwards.

        Raises:
            Failed: If the client that the user gave cannot be used.
            httpx.HTTPError: If there is no answer.
            httpx.InvalidURL: If the address cannot be used.
        """
        import httpx

        from june.sdk._content import Content

        line = self._line
        request = self._client.build_request(
            "POST",
            line.url(self._api.path),
            content=content,
            headers={
                "content-type": "application/json",
                "accept": "text/event-stream",
                # Pieces that are compressed come later, if at all.
                "accept-encoding": "identity",
                **line.revealed(),
            },
            # However long the line for a connection is: the run decides how many steps ask at once.
            timeout=httpx.Timeout(self._model._timeout, connect=CONNECT_SECONDS, pool=None),
        )
        request.stream = Content(content)
        try:
            # Where an answer sends us, nobody gave the key for.
            response = await self._client.send(request, stream=True, follow_redirects=False)
        except (RuntimeError, trio.BusyResourceError, trio.ClosedResourceError) as error:
            if self._client is not self._model._client:
                raise
            raise Failed(self._unusable(error)) from None
        try:
            yield response
        finally:
            await response.aclose()

    def _unusable(self, error: Exception) -> Failure:
        """Judge what the user's own client raised that is no trouble of the connection."""
        if self._client.is_closed:
            said = "cannot be asked: the HTTP client that it was given (client=) has been closed"
        else:
            said = (
                "cannot be asked: the HTTP client that it was given (client=) raised "
                f"{type(error).__name__}: {self._line.hide(str(error))}. If it was used in another event "
                "loop before, its connections belong to that one; make a client for each run, or leave "
                "client= out"
            )
        return Failure(said=said, passes=False, free=True)

    async def _read(self, response: httpx.Response, reader: Reader) -> None:
        """
        Read a whole answer.

        Raises:
            Failed: If it is none.
        """
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        async with pieces(response) as source:
            start = await beginning(source)
            if is_stream(start, media_type):
                await self._follow(start, source, reader)
            else:
                await self._take(start, source, reader, media_type)
        if not reader.whole:
            raise broken("ended its answer early, without saying that it is finished")

    async def _follow(self, start: bytes, source: AsyncIterator[bytes], reader: Reader) -> None:
        """
        Read a stream of events until the answer is whole, and a little longer if more may be said of it.

        Raises:
            Failed: If an event tells of an error, or cannot be read.
        """
        import httpx

        events = Events()
        piece: bytes | None = start
        with trio.CancelScope() as scope:
            while piece is not None:
                if self._heard(events.feed(piece), reader):
                    return
                if reader.whole and scope.deadline == float("inf"):
                    scope.deadline = trio.current_time() + END_SECONDS
                try:
                    piece = await anext(source, None)
                except (httpx.HTTPError, Failed):
                    if reader.whole:
                        # What is missing is how much was used, at most.
                        return
                    raise
            self._heard(events.end(), reader)

    def _heard(self, events: list[str], reader: Reader) -> bool:
        """Let a reader have events; say whether there is nothing more to wait for."""
        for text in events:
            if text.strip() == "[DONE]":
                return True
            if not text.strip():
                continue
            data = _object(text)
            if data is None:
                if reader.whole:
                    continue
                # Hidden before it is cut, or a part of a secret would be left.
                shown = shortened(self._line.hide(text), QUOTED)
                raise broken(f"sent a chunk that is no JSON object: {shown}")
            if added := reader.feed(data):
                self._told = True
                self._call.text(added)
            if failure := in_event(data):
                raise Failed(failure)
            if reader.over:
                return True
        return False

    async def _take(
        self, start: bytes, source: AsyncIterator[bytes], reader: Reader, media_type: str
    ) -> None:
        """
        Read an answer that comes at once.

        Raises:
            Failed: If it is none.
        """
        body = bytearray(start)
        data = None
        if is_json(start):
            most = MOST_ANSWERED
            data = await _read_object(body, source)
        else:
            most = _MOST_REFUSED
            with trio.move_on_after(_REFUSED_SECONDS):
                await fill(body, source, most)
        if data is not None:
            if failure := in_event(data):
                raise Failed(failure)
            reader.feed_whole(data)
            if reader.whole:
                if answer := reader.response().text:
                    self._told = True
                    self._call.text(answer)
                return
        size = f"{len(body):,} bytes" if len(body) <= most else f"more than {most:,} bytes"
        text = body[: 2 * _MOST_REFUSED].decode("utf-8-sig", "replace")
        shown = self._line.hide(" ".join(text.split())) or "nothing"
        raise broken(
            f"answered with {media_type or 'no content type'} ({size}) in place of a stream of events: "
            f"{shortened(shown, QUOTED)}"
        )

    async def _refusal(self, response: httpx.Response) -> Failure:
        import httpx

        body = bytearray()
        async with pieces(response) as source:
            with trio.move_on_after(_REFUSED_SECONDS):
                try:
                    await fill(body, source, _MOST_REFUSED)
                except (httpx.HTTPError, Failed):
                    # The status says enough.
                    body.clear()
        text = body.decode("utf-8-sig", "replace")
        failure = of_status(response.status_code, response.headers, text)
        if failure.status in (404, 405) and not self._model.at_home:
            asked = self._line.url(self._api.path).partition("?")[0]
            return attrs.evolve(failure, said=f"{_sentence(failure.said)} It was asked at {asked}")
        if failure.status not in (401, 403):
            return failure
        if self._line.key_from is None:
            provider = self._model._access.provider
            hint = f"No key was sent; set the environment variable {provider.key_variable}, or pass api_key="
        else:
            hint = f"The key comes from {self._line.key_from}"
        return attrs.evolve(failure, said=f"{_sentence(failure.said)} {hint}")

    def _trouble(self, error: httpx.HTTPError | httpx.InvalidURL | httpx.StreamError, begun: bool) -> Failure:
        """Judge what kept an answer from coming."""
        import httpx

        if isinstance(error, httpx.HTTPStatusError):
            # A user's client that has a hook which raises.
            return of_status(error.response.status_code, error.response.headers, "")
        # Some have only the one that they were raised from to say it.
        text = self._line.hide(next(filter(None, map(str, _causes(error))), ""))
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
        unreached = f"could not be reached at {self._line.place}"
        if isinstance(error, httpx.InvalidURL):
            return Failure(said=f"{unreached}: {what}", passes=False, free=True)
        # What httpx raises has the request, and so the key, as an attribute and in its traceback.
        known = isinstance(error, httpx.RequestError) and type(error).__module__ == "httpx"
        cause = type(error)(text) if known else ModelError(what)
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            problem = _tls_problem(error)
            said = f"{unreached}: {what if problem is None else self._line.hide(problem)}"
            passes = problem is None and (not isinstance(error, httpx.ProxyError) or proxy_passes(text))
            return Failure(said=said, passes=passes, cause=cause, free=True)
        if isinstance(error, httpx.ReadTimeout):
            said = f"sent nothing for {duration(self._model._timeout)}"
        else:
            said = f"broke off its answer: {what}" if begun else f"gave no answer: {what}"
        passes = not isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError))
        status = 200 if begun else None
        return Failure(said=said, passes=passes, status=status, cause=cause, free=not passes and not begun)

    def _clean(self, failure: Failure) -> Failure:
        return attrs.evolve(failure, said=whole_characters(shortened(self._line.hide(failure.said))))


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # It refuses some that json takes, as half of a character whose other half is in the next event.
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


async def _read_object(body: bytearray, source: AsyncIterator[bytes]) -> dict[str, Any] | None:
    """
    Read a body on until it is a whole JSON object, whatever may become of its connection afterwards.

    Returns:
        The object, or None if the body ends before, or is longer than any answer.
    """
    piece: bytes | None = bytes(body)
    while piece is not None and len(body) <= MOST_ANSWERED:
        if piece.rstrip().endswith(b"}"):
            data = _object(body.decode("utf-8-sig", "replace"))
            if data is not None:
                return data
        piece = await anext(source, None)
        body += piece or b""
    return None


def _written_at(body: Mapping[str, Any], name: str) -> str | None:
    """Give what a body has under a name, in which a point leads into a field, as JSON; None is nothing."""
    value: Any = body
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return written(value)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give an exception, and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


def _tls_problem(error: BaseException) -> str | None:
    """Say what was wrong with an encrypted connection that could not be made, if that would stay so."""
    passing = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    for one in _causes(error):
        if isinstance(one, ssl.SSLError) and not isinstance(one, passing):
            reason = re.sub(r"^\[.*?\] | \(_ssl\.c:\d+\)$", "", str(one))
            return f"{type(one).__name__}: {reason}"
    return None


def _refuses(failure: Failure, name: str, signs: tuple[str, ...]) -> bool:
    if failure.status not in (400, 422):
        return False
    said, field = failure.said.lower(), failure.field
    # Of a field, what is within it, or what it is within.
    named = field and (f"{field}.".startswith(f"{name}.") or f"{name}.".startswith(f"{field}."))
    return bool(named) or any(sign in said for sign in signs)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
