"""
One run at a time saves to a file: processes, threads, names for one file, and what dead processes leave.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from june import RunFailed, Snapshot, SnapshotError, run_resumable, run_resumable_async, step
from june._locks import FileLock

ROOT = Path(__file__).parent.parent

posix = pytest.mark.skipif(os.name != "posix", reason="processes are ended by signals")

HOLDS = """
import sys
from june import run_resumable, step

@step(id="first")
def first() -> int:
    return 1

@step(id="hold")
def hold(first: int) -> int:
    print("holding", flush=True)
    sys.stdin.readline()
    return first + 1

print(run_resumable(hold, path=sys.argv[1]).result)
"""

FORKS = """
import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
from june import run_resumable, step

fork = multiprocessing.get_context("fork")
how = sys.argv[2]

def stay():
    print(os.getpid(), flush=True)
    signal.pause()

@step(id="first")
def first() -> int:
    if how == "process":
        fork.Process(target=stay).start()
    elif how == "pool":
        concurrent.futures.ProcessPoolExecutor(1, mp_context=fork).submit(stay).result()
    elif how == "command":
        print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
    elif how == "brief process":
        child = fork.Process(target=os.getpid)
        child.start()
        child.join()
        print(child.exitcode, flush=True)
    sys.stdin.readline()
    return 1

run_resumable(first, path=sys.argv[1])
"""

TAKES_TURNS = """
import os
import re
import sys
from june import SnapshotError, run_resumable, step

path, marker, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])

@step(id="alone")
def alone() -> int:
    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    os.unlink(marker)
    return 1

while turns:
    try:
        run_resumable(alone, path=path)
        turns -= 1
    except SnapshotError as refused:
        who = r"(process \\d+|another run|others, one after the other)"
        assert re.fullmatch(re.escape(path) + " is in use by " + who + "; .*", str(refused)), refused
"""


@contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a script, and is killed at the end of the block if it is still there."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as found:
        try:
            yield found
        finally:
            found.kill()


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose run saves to a file, has finished a step, and waits in another one for a line."""
    with process(HOLDS, path) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == "holding\n"
        yield found


@step(id="quick")
def quick() -> int:
    return 7


@step(id="broken")
def broken(quick: int) -> int:
    raise RuntimeError("no")


def refused(path: Path | str, *, by: str) -> None:
    """Check that a run cannot save to a file now, nor changes anything beside it."""
    folder = Path(os.path.realpath(path)).parent
    before = sorted(os.listdir(folder))
    with pytest.raises(SnapshotError) as caught:
        run_resumable(quick, path=path)
    assert str(caught.value) == f"{path} is in use by {by}; wait for it, or save to another file"
    assert sorted(os.listdir(folder)) == before


@pytest.mark.slow
def test_a_second_process_is_told_who_has_the_file(tmp_path: Path):
    """A run is refused while another process saves to its file, and that one's goes on undisturbed."""
    path = tmp_path / "deploy.json"
    with holder(path) as first:
        refused(path, by=f"process {first.pid}")
        refused(path, by=f"process {first.pid}")
        assert list(Snapshot.load(path)) == ["first"]
        printed, _ = first.communicate("go on\n")
        assert printed == "2\n"
    assert run_resumable(quick, path=path).result == 7
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@posix
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path):
    """What a killed process leaves of its lock keeps nobody off, and what it had finished is there."""
    path = tmp_path / "deploy.json"
    with holder(path) as first:
        first.kill()
        first.wait()
    assert f"{first.pid} {socket.gethostname()}\n" == (tmp_path / "deploy.json.lock").read_text()
    assert list(Snapshot.load(path)) == ["first"]
    with holder(path) as second:
        refused(path, by=f"process {second.pid}")
        second.communicate("go on\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "left", ["", f"{os.getpid()} {socket.gethostname()}\n", "1 elsewhere\n", "\0" * 1000]
)
def test_what_stands_in_a_lock_that_nobody_holds_does_not_matter(tmp_path: Path, left: str):
    """A lock's file that was left behind is taken over, also if its process id is somebody else's by now."""
    (tmp_path / "deploy.json.lock").write_text(left)
    assert run_resumable(quick, path=tmp_path / "deploy.json").result == 7
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@posix
@pytest.mark.parametrize("how", ["process", "pool", "command"])
def test_what_a_killed_process_has_started_does_not_hold_its_lock(tmp_path: Path, how: str):
    """A process that a step has forked outlives the run's; the file can be used all the same."""
    path = tmp_path / "deploy.json"
    with process(FORKS, path, how) as first:
        assert first.stdout is not None
        outlives = int(first.stdout.readline())
        try:
            refused(path, by=f"process {first.pid}")
            first.kill()
            first.wait()
            os.kill(outlives, 0)  # it is there
            assert run_resumable(quick, path=path).result == 7
            os.kill(outlives, 0)
        finally:
            os.kill(outlives, signal.SIGKILL)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@posix
def test_a_lock_outlives_what_its_process_has_forked(tmp_path: Path):
    """A forked process that ends before the run does takes no lock with it."""
    path = tmp_path / "deploy.json"
    with process(FORKS, path, "brief process") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "0\n"
        refused(path, by=f"process {first.pid}")
        first.communicate("go on\n")
        assert first.returncode == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@posix
def test_processes_take_turns(tmp_path: Path):
    """Of processes that try over and over, never do two save to one file at once, and no file is left."""
    folder = tmp_path / "saved"
    folder.mkdir()
    arguments = (folder / "deploy.json", tmp_path / "marker", 25)
    with (
        process(TAKES_TURNS, *arguments) as first,
        process(TAKES_TURNS, *arguments) as second,
        process(TAKES_TURNS, *arguments) as third,
    ):
        assert [one.wait(60) for one in (first, second, third)] == [0, 0, 0]
    assert os.listdir(folder) == []


@posix
def test_a_lock_that_is_released_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run that comes just as another one lets go of the file is not refused, and leaves no lock."""
    import fcntl

    path = tmp_path / "deploy.json"
    first = FileLock(str(path), str(path))
    real = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        first.release()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert run_resumable(quick, path=path).result == 7
    assert os.listdir(tmp_path) == []


def test_threads_of_one_process_are_kept_apart(tmp_path: Path):
    """A run in another thread of the same process is refused like one in another process."""
    path = tmp_path / "deploy.json"
    begun, go_on = threading.Event(), threading.Event()
    results = []

    @step(id="hold")
    def hold() -> int:
        begun.set()
        assert go_on.wait(60)
        return 3

    thread = threading.Thread(target=lambda: results.append(run_resumable(hold, path=path).result))
    thread.start()
    try:
        assert begun.wait(60)
        refused(path, by=f"another run in this process, {os.getpid()}")
    finally:
        go_on.set()
        thread.join()
    assert results == [3]
    assert run_resumable(quick, path=path).result == 7
    assert os.listdir(tmp_path) == []


@step(id="nested")
def nested(path: Path) -> int:
    refused(path, by=f"another run in this process, {os.getpid()}")
    return 1


@step(id="nested inline", runs_on="inline")
def nested_inline(path: Path) -> int:
    with pytest.raises(RuntimeError, match="await run_resumable_async"):
        run_resumable(quick, path=path)
    return 1


@step(id="nested async")
async def nested_async(path: Path) -> int:
    with pytest.raises(SnapshotError) as caught:
        await run_resumable_async(quick, path=path)
    assert str(caught.value).startswith(f"{path} is in use by another run in this process, {os.getpid()}; ")
    return 1


@step(id="nested in asyncio", runs_on="asyncio")
async def nested_in_asyncio(path: Path) -> int:
    refused(path, by=f"another run in this process, {os.getpid()}")
    return 1


@pytest.mark.parametrize(
    "outer", [nested, nested_inline, nested_async, nested_in_asyncio], ids=lambda one: one.id
)
def test_a_step_cannot_save_to_the_file_of_its_own_run(tmp_path: Path, outer):
    """A run inside a step is refused the outer one's file, at once, and the outer one goes on."""
    path = tmp_path / "deploy.json"
    assert run_resumable(outer, path=path, resources={"path": path}).result == 1
    assert os.listdir(tmp_path) == []


def test_a_step_can_save_to_another_file(tmp_path: Path):
    """Runs with files of their own may be nested."""

    @step(id="outer")
    def outer(folder: Path) -> int:
        return 2 * run_resumable(quick, path=folder / "inner.json").result

    assert run_resumable(outer, path=tmp_path / "outer.json", resources={"folder": tmp_path}).result == 14
    assert os.listdir(tmp_path) == []


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Path]:
    """Names of one file in a folder ``real``, where there is none yet."""
    real = tmp_path / "real"
    real.mkdir()
    links = tmp_path / "links"
    links.mkdir()
    try:
        (links / "folder").symlink_to(real, target_is_directory=True)
        (links / "file.json").symlink_to(real / "deploy.json")
        (links / "again.json").symlink_to("file.json")
    except OSError:
        pytest.skip("links cannot be made here")
    return {
        "itself": real / "deploy.json",
        "a link": links / "file.json",
        "a link to a link": links / "again.json",
        "a linked folder": links / "folder" / "deploy.json",
        "a way round": links / ".." / "real" / "deploy.json",
    }


@pytest.mark.slow
@pytest.mark.parametrize("held", ["itself", "a link", "a linked folder"])
def test_a_file_is_one_under_all_its_names(names: dict[str, Path], held: str):
    """Whichever way a run reached the file, others are refused it whichever way they come."""
    with holder(names[held]) as first:
        for path in names.values():
            refused(path, by=f"process {first.pid}")
            assert list(Snapshot.load(path)) == ["first"]
        printed, _ = first.communicate("go on\n")
        assert printed == "2\n"
    assert os.listdir(names["itself"].parent) == []
    assert sorted(os.listdir(names["a link"].parent)) == ["again.json", "file.json", "folder"]


@pytest.mark.parametrize("name", ["itself", "a link", "a link to a link", "a linked folder", "a way round"])
def test_what_one_name_saves_another_resumes(names: dict[str, Path], name: str):
    """A failed run saves to the file that a link leads to, and the link stays one."""
    with pytest.raises(RunFailed):
        run_resumable(broken, path=names[name])
    assert os.listdir(names["itself"].parent) == ["deploy.json"]
    assert names["a link"].is_symlink() and names["a link to a link"].is_symlink()
    for path in names.values():
        assert list(Snapshot.load(path)) == ["quick"]
        result = run_resumable(quick, path=path, keep=True)
        assert result.result == 7
        assert result.trace.node("quick").resumed
    run_resumable(quick, path=names[name])
    assert os.listdir(names["itself"].parent) == []
    assert sorted(os.listdir(names["a link"].parent)) == ["again.json", "file.json", "folder"]


def test_a_relative_path_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A step that goes to another folder takes no file with it."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    @step(id="goes", runs_on="inline")
    def goes() -> int:
        os.chdir(tmp_path / "there")
        refused(tmp_path / "here" / "deploy.json", by=f"another run in this process, {os.getpid()}")
        return 1

    @step(id="fails")
    def fails(goes: int) -> int:
        raise RuntimeError("no")

    with pytest.raises(RunFailed):
        run_resumable(fails, path="deploy.json")
    assert os.listdir(tmp_path / "here") == ["deploy.json"]
    assert os.listdir(tmp_path / "there") == []
