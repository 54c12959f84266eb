"""
Models that run on this machine: a GGUF file in a llama.cpp server of June's own.

The server is a process beside this one. Inside this one, loading a file would stop everything for seconds,
the event loop too: llama.cpp's binding holds the interpreter's lock meanwhile. It listens on 127.0.0.1, on a
port that is free, and answers nobody who does not know the key that it was started with.
"""

from __future__ import annotations

import atexit
import errno
import importlib.util
import json
import os
import secrets
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

import attrs
import trio

from june._digests import digest
from june._text import short_repr
from june.errors import ModelError
from june.messages import Request, Response
from june.models import check_allowed
from june.sdk.openai import openai

__all__ = ["LocalModel", "local"]

_SILENCE_SECONDS = 3600.0
"""How long the server may say nothing: others may be before us, and a long prompt takes its time."""

_STOP_SECONDS = 2.0


def local(
    path: str | os.PathLike[str],
    *,
    context: int = 4096,
    parallel: int = 4,
    threads: int | None = None,
    gpu_layers: int | None = None,
    template: str | Path | None = None,
) -> LocalModel:
    """
    Make a model of a GGUF file, to be run on this machine by llama.cpp.

    It needs ``pip install june-steps[local]``. A server is started, in a process of its own, when a model is
    first asked; all models of the same file and arguments share it. It ends with `LocalModel.close`, and with
    this process at the latest.

    Args:
        path: The file with the weights.

        context: How many tokens a conversation may have, the prompt's and the answer's together. llama.cpp
            rounds it up to a multiple of 256, and gives no more than the model was trained with.

        parallel: How many requests are answered at once; others wait their turn.

        threads: How many threads compute; None takes half as many as there are processors. More than cores
            that are free make it slower, as each waits for all others, over and over.

        gpu_layers: How many of the model's layers go to a GPU; None leaves it to llama.cpp.

        template: How a conversation becomes the text that the model goes on with, in Jinja, as a text or the
            `Path` of a file; None takes the template that the file with the weights has.

    Returns:
        The model. In cache keys are the file's name and what it holds, not where it is, and the template. To
        know what the file holds, all of it is read once in each process, beginning now, in a thread. A file
        that changes is loaded anew, and does not answer a step whose key was made before.

    Raises:
        ValueError: If an argument is of no use.
        OSError: If the template cannot be read.
    """
    for what, count, least in (("context", context, 1), ("parallel", parallel, 1), ("threads", threads, 1)):
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < least):
            raise ValueError(f"{what} must be a whole number from {least}, not {short_repr(count)}")
    if isinstance(template, Path):
        template = template.read_text(encoding="utf-8")
    return LocalModel(
        Path(path).absolute(),
        Serving(
            context=context,
            parallel=parallel,
            threads=threads or max(1, (os.cpu_count() or 1) // 2),
            gpu_layers=gpu_layers,
            template=template,
        ),
    )


@attrs.frozen(kw_only=True)
class Serving:
    """How a file is served: see `local`."""

    context: int
    parallel: int
    threads: int
    gpu_layers: int | None
    template: str | None


class LocalModel:
    """A model that runs on this machine; `local` makes it."""

    def __init__(self, path: Path, serving: Serving) -> None:
        self._path = path
        self._serving = serving
        self._server: _Server | None = None
        # What the file held when a key was made of it.
        self._keyed: str | None = None
        try:
            # Most likely it will be asked for, and then it is better known already.
            _weights(path)
        except OSError:
            # It may come yet.
            pass

    @property
    def name(self) -> str:
        """The file's name."""
        return self._path.name

    @property
    def settings_key(self) -> dict[str, str]:
        """
        The file's name, a digest of what it holds, and one of the template if there is one.

        Raises:
            ModelError: If the file cannot be read.
        """
        template = self._serving.template
        try:
            self._keyed = _weights(self._path).result()
        except OSError as error:
            raise ModelError(f"{self!r} has no weights: {error}") from error
        key = {"provider": "local", "model": self.name, "weights": self._keyed}
        if template is not None:
            key["template"] = digest(template.encode("utf-8", "surrogatepass")).hex()
        return key

    def __june_key__(self) -> object:
        return self.settings_key

    async def __june_prepare__(self) -> None:
        """Wait until it is known what the file holds, in a thread; the step's key says it if it cannot be."""
        try:
            weights = _weights(self._path)
        except OSError:
            return
        if not weights.done():
            await trio.to_thread.run_sync(
                wait, [weights], limiter=trio.CapacityLimiter(1), abandon_on_cancel=True
            )

    def __repr__(self) -> str:
        return f"local({self.name!r})"

    async def respond(self, request: Request) -> Response:
        """
        Answer a request.

        Raises:
            ModelError: If there is no answer, or the server cannot be started.
        """
        import httpx

        check_allowed(self, None)
        server = await self._serve()
        complained = server.complained
        # What is asked here goes to no proxy. A client costs next to nothing, and one for all would have to
        # belong to a run.
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            model = openai(
                self.name,
                base_url=f"{server.address}/v1",
                api_key=server.key,
                api="chat",
                timeout=_SILENCE_SECONDS,
                retries=1,
                client=client,
            )
            try:
                with server.answering():
                    return await model.respond(request)
            except ModelError as error:
                said = str(error).replace(repr(model), repr(self), 1)
                if server.ended:
                    why = server.complaint(complained)
                    said = f"{self!r} broke off: its server has ended. {why}".rstrip()
                raise ModelError(said, error.status, error.text) from error.__cause__

    async def _serve(self) -> _Server:
        server = self._server
        if server is None or server.ended or server.outdated or not server.listens:
            # Not one of the threads that trio gives out: as many as wait here may be all of them.
            server = await trio.to_thread.run_sync(
                self._start, limiter=trio.CapacityLimiter(1), abandon_on_cancel=True
            )
        return server

    def _start(self) -> _Server:
        """Find or start a server; this takes as long as loading the weights does."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise ModelError(f"{self!r} needs llama.cpp; pip install june-steps[local]")
        while True:
            try:
                stamp = _stamp(self._path)
                changed = self._keyed is not None and self._keyed != _weights(self._path).result()
            except OSError as error:
                raise ModelError(f"{self!r} has no weights: {error}") from error
            if changed:
                raise ModelError(
                    f"{self!r} has other weights than those in the step's key: the file has changed "
                    "meanwhile. Run it again"
                )
            server = self._join(stamp)
            failed = None
            try:
                server.wait(repr(self))
            except ModelError as error:
                failed = error
            # Otherwise the file has changed meanwhile, and another request has started another server.
            if self._server in (None, server):
                if failed is not None:
                    raise failed
                return server

    def _join(self, stamp: _Stamp) -> _Server:
        """
        Become a user of the server for a file's state, which is started if there is none.

        Raises:
            ModelError: If there can be no process.
        """
        with _lock:
            server = _servers.get((stamp, self._serving))
            if server is None or server.ended:
                try:
                    server = _servers[stamp, self._serving] = _Server(self._path, stamp, self._serving)
                except OSError as error:
                    raise ModelError(f"{self!r} cannot be started: {error}") from error
            server.users.add(self)
            former, self._server = self._server, server
        if former is not None and former is not server:
            former.leave(self, finish=True)
        return server

    def close(self) -> None:
        """
        Stop the server, unless other models use it too; what it answers just now breaks off.

        A model that is asked again starts it anew.
        """
        with _lock:
            server, self._server = self._server, None
        if server is not None:
            server.leave(self)


_Stamp = tuple[str, int, int]
"""A file's path, size, and time of change: as long as they are the same, it holds the same."""

_lock = threading.Lock()
_servers: dict[tuple[_Stamp, Serving], _Server] = {}
_digests: dict[_Stamp, Future[str]] = {}


def _stamp(path: Path) -> _Stamp:
    """
    Look at a file.

    Raises:
        OSError: If there is none.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(code, os.strerror(code), str(path))
    return str(path), found.st_size, found.st_mtime_ns


def _weights(path: Path) -> Future[str]:
    """
    Find out what a file holds, as a digest, in a thread.

    Raises:
        OSError: If there is no such file.
    """
    stamp = _stamp(path)
    with _lock:
        found = _digests.get(stamp)
        if found is not None and not (found.done() and found.exception()):
            return found
        found = _digests[stamp] = Future()
    threading.Thread(target=_digest_file, args=(path, stamp, found), name="june-weights", daemon=True).start()
    return found


def _digest_file(path: Path, stamp: _Stamp, found: Future[str]) -> None:
    try:
        with path.open("rb") as file:
            held = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        if _stamp(path) != stamp:
            raise OSError(f"{str(path)!r} changed while it was read")
        found.set_result(held)
    except BaseException as error:
        found.set_exception(error)


class _Server:
    """
    A llama.cpp server.

    Attributes:
        users: The models that it serves.
        key: What it is asked with.
    """

    def __init__(self, path: Path, stamp: _Stamp, serving: Serving) -> None:
        """Start it; see `wait`."""
        self.users: WeakSet[LocalModel] = WeakSet()
        self.key = secrets.token_urlsafe()
        self._stamp = stamp
        self._path = path
        self._address: str | None = None
        self._waiting = threading.Lock()
        self._ending = threading.Lock()
        self._complaints: bytes | None = None
        # How many answers it is at, and whether it is to stop after them.
        self._answering = 0
        self._retired = False
        # Closed by stop(), when all of it is known. It is appended to: its reader moves the writer's place.
        self._stderr: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115  # the server writes it
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("_llama.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                # Ctrl-C is for this process, which ends the server when nothing needs it any more.
                start_new_session=True,
            )
        except OSError:
            self._stderr.close()
            raise
        self._owner = os.getpid()
        told: dict[str, Any] = {
            **attrs.asdict(serving),
            "path": str(path),
            "name": path.name,
            "key": self.key,
            "sys_path": [str(one) for one in sys.path],
        }
        assert self._process.stdin is not None  # a pipe
        try:
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            # It has ended; wait() says why.
            pass

    @property
    def listens(self) -> bool:
        """Whether it has begun to."""
        return self._address is not None

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._address is not None  # whoever has it has waited for it
        return self._address

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def outdated(self) -> bool:
        """Whether the file has changed since it was loaded."""
        try:
            return _stamp(self._path) != self._stamp
        except OSError:
            # What was loaded is still good.
            return False

    def wait(self, label: str) -> None:
        """
        Wait until it listens.

        Args:
            label: What messages call the model.

        Raises:
            ModelError: If it cannot.
        """
        with self._waiting:
            if self._address is None:
                assert self._process.stdout is not None  # a pipe
                try:
                    self._address = json.loads(self._process.stdout.readline())["address"]
                except ValueError:
                    # Nothing came, or it was ended before.
                    self.stop()
            if self._address is not None:
                return
        raise ModelError(f"{label} cannot be started. {self.complaint()}".rstrip())

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Let it finish an answer, even if another one takes its place meanwhile."""
        with _lock:
            self._answering += 1
        try:
            yield
        finally:
            with _lock:
                self._answering -= 1
                last = self._retired and not self._answering
            if last:
                self.stop()

    @property
    def complained(self) -> int:
        """How many bytes it has written of what went wrong."""
        try:
            return os.fstat(self._stderr.fileno()).st_size
        except ValueError:
            # It was stopped meanwhile.
            return len(self._complaints or b"")

    def complaint(self, since: int = 0) -> str:
        """
        Give what it has told of that went wrong, as a sentence, or nothing.

        Args:
            since: What it had written before; that is not looked at.
        """
        with self._ending:
            written = self._read_complaints() if self._complaints is None else self._complaints
        lines = [line.strip() for line in written[since:].decode("utf-8", "replace").splitlines()]
        # What it tells of a request that it refuses is the answer to that one.
        lines = [line for line in lines if line and "send_error: " not in line]
        # The first error has led to the others. Without one, the last line is a traceback's.
        errors = [line.partition(" E ")[2].strip() for line in lines if " E " in line]
        found = errors[0] if errors else lines[-1] if lines else ""
        return f"llama.cpp says: {found}" if found else ""

    def _read_complaints(self) -> bytes:
        self._stderr.seek(0)
        return self._stderr.read()

    def leave(self, model: LocalModel, *, finish: bool = False) -> None:
        """
        Do without a user, and stop if it was the last one.

        Args:
            model: The user.
            finish: Whether to finish the answers that it is at.
        """
        with _lock:
            self.users.discard(model)
            if self.users:
                return
            for key in [key for key, server in _servers.items() if server is self]:
                del _servers[key]
            self._retired = finish and self._answering > 0
            if self._retired:
                return
        self.stop()

    def stop(self) -> None:
        """Stop it, if it was started in this process and not in one that this is a fork of."""
        if self._owner != os.getpid():
            return
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # both are pipes
        assert stdout is not None
        with self._ending:
            if self._complaints is not None:
                return
            try:
                stdin.close()
            except OSError:
                # It has ended already, and what it was told went nowhere.
                pass
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                # It is still loading.
                self._process.kill()
                self._process.wait()
            # Not before: another thread may be reading it, which has the lock until it is through.
            stdout.close()
            self._complaints = self._read_complaints()
            self._stderr.close()


@atexit.register
def _stop_all() -> None:
    for server in list(_servers.values()):
        server.stop()
