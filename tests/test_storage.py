"""Storage: what a run does when the disk fails it, and what it leaves there."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from errno import EACCES, EFBIG, EIO, ENOENT, ENOSPC, EROFS
from pathlib import Path
from typing import Any

import pytest
import trio

from june import (
    Retry,
    RunCancelled,
    RunFailed,
    RunResult,
    Snapshot,
    SnapshotError,
    Update,
    _disk,
    journals,
    run_resumable,
    run_resumable_async,
    step,
)
from tests.disks import (
    JOURNAL,
    PATH,
    Recorder,
    a_file,
    a_file_and_a_journal,
    a_journal,
    files_in,
    fresh,
    keys,
    nothing,
    ran,
    saved,
    saving,
    scale,
)

ROOT = Path(__file__).parent.parent

posix = pytest.mark.skipif(os.name != "posix", reason="files are as POSIX has them")


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / PATH


class Watch:
    """
    Notes what a run reports.

    Attributes:
        done: Ids of the steps that are done.
        began: Ids of the steps that have begun to run, one for each attempt.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.began: list[str] = []

    def __call__(self, update: Update) -> None:
        if update.kind == "status" and update.node.status == "running":
            self.began.append(update.node.id)
        if update.kind == "status" and update.node.status == "done":
            self.done.append(update.node.id)


def problem_of(failed: BaseExceptionGroup) -> SnapshotError:
    """Find the one error for the file among those of a run."""
    [problem] = [error for error in failed.exceptions if isinstance(error, SnapshotError)]
    return problem


def finished(record: Any) -> set[str]:
    """The ids of the steps that have given a result that can be saved, also if it could not be written."""
    return {
        node.id
        for node in record.trace
        if node.id in keys() and (node.status == "done" or (node.reason or "").startswith("finished, but"))
    }


# -- A failure at any call.

ENDS: dict[str, dict[str, Any]] = {
    "fails": {"breaks": ("report",)},
    "succeeds": {},
    "is kept": {"keep": True},
}


def check_failure(recorder: Recorder, before: set[str], injected: OSError, options: dict[str, Any]) -> str:
    """
    Run on a disk that fails once, and then on one that does not, and check both.

    Args:
        recorder: Makes the disk fail.
        before: Ids of what is there already.
        injected: The error that comes up, if the call is made.
        options: As for `saving`.

    Returns:
        How the first run ended, in a word.
    """
    path = recorder.folder / PATH
    inputs = {name: value for name, value in options.items() if name == "size"}
    watch = Watch()
    outcome: RunResult[Any] | RunFailed | SnapshotError
    try:
        with recorder.recording():
            outcome = saving(path, on_update=watch, **options)
    except (RunFailed, SnapshotError) as error:
        outcome = error
    done = set(watch.done) & set(keys())
    if isinstance(outcome, RunResult):
        assert outcome.result == fresh(**inputs).result
        # A lock that nobody holds does no harm, nor does a journal whose file is gone.
        left = {*os.listdir(path.parent)} - {f"{PATH}.lock"}
        if options.get("keep"):
            assert left == {PATH}
        else:
            assert left <= {JOURNAL}
            with pytest.raises(FileNotFoundError):
                Snapshot.load(path)
    elif isinstance(outcome, SnapshotError):
        check_problem(outcome, path, injected)
        assert watch.began == watch.done == []
        assert set(Snapshot.load(path)) >= before if before else not path.exists()
    else:
        steps_fail = "breaks" in options
        if not steps_fail or len(outcome.exceptions) > 1:
            check_problem(problem_of(outcome), path, injected)
        assert len(set(watch.began)) == len(watch.began)
        assert done <= finished(outcome) <= set(outcome.snapshot())
        assert done <= set(Snapshot.load(path))
    with Recorder(path.parent, {}).recording():
        again = saving(path, keep=True, **inputs)
    assert again.result == fresh(**inputs).result
    if not isinstance(outcome, RunResult) or options.get("keep"):
        assert not ran(again) & (done | before)
    assert os.listdir(path.parent) == [PATH]
    return type(outcome).__name__


def check_problem(problem: SnapshotError, path: Path, cause: OSError) -> None:
    """Check that an error says which file, and holds why."""
    assert problem.__cause__ is cause
    assert said(problem, path) == f"cannot be written: {cause.strerror}"


def said(problem: SnapshotError | str, path: Path | str) -> str:
    """Take from a message the name that it begins with: that of the file, or of one of those beside it."""
    text = str(problem)
    assert text.startswith(str(path))
    end, _, what = text.removeprefix(str(path)).partition(" ")
    assert end in ("", ".journal", ".journal.new", ".lock")
    return what


def copies(folder: Path) -> Iterator[Path]:
    """Make new folders, one after the other."""
    for number in itertools.count():
        new = folder / str(number)
        new.mkdir()
        yield new


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("start", [nothing, a_file, a_journal, a_file_and_a_journal])
def test_a_disk_may_fail_at_any_call(start, end, tmp_path, monkeypatch):
    """
    Whichever call fails, once or from then on, the run succeeds, or fails for that, or begins nothing.

    What was there stays, what is reported done is there, and the next run runs none of it.
    """
    folder = tmp_path / "start"
    folder.mkdir()
    start(folder)
    state = files_in(folder)
    before = set(Snapshot.load(folder / PATH)) if state else set()
    folders = copies(tmp_path)
    tried: dict[str, int] = {}
    errors = itertools.cycle([ENOSPC, EIO, EROFS])

    def attempt(options: dict[str, Any], what: str, number: int) -> None:
        code = next(errors)
        error = OSError(code, os.strerror(code))
        recorder = Recorder(next(folders), state)
        if what == "all":
            recorder.die(number, error)
        else:
            recorder.fail(what, number, error)
        how = check_failure(recorder, before, error, options)
        tried[how] = tried.get(how, 0) + 1

    for variant, options in enumerate([ENDS[end], {**ENDS[end], "size": 70_000}]):
        # Either all fsyncs are at the end, or the journal's thread makes as many as it can.
        monkeypatch.setattr(journals, "SYNC_SECONDS", (1e6, 0.0)[variant])
        healthy = Recorder(next(folders), state)
        check_failure(healthy, before, OSError(), options)
        for what, count in [*healthy.counts.items(), ("all", sum(healthy.counts.values()))]:
            for number in range(1, count + 1, 1 if scale() >= 3 else 1 + 3 * variant):
                for _ in range(3 if scale() >= 3 else 1):
                    attempt(options, what, number)
    assert tried["SnapshotError"] > 4
    assert tried["RunFailed"] > 10


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("start", [nothing, a_file])
def test_an_fsync_may_fail_while_the_run_ends(start, end, path, monkeypatch):
    """Where the journal's thread hears of a failure only as the run ends, a run that fails for it keeps all."""
    start(path.parent)
    ending = threading.Event()
    calls: list[int] = []
    close = journals.Journal.close

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            assert ending.wait(10)
            raise OSError(EIO, os.strerror(EIO))

    def close_now(self: journals.Journal, sync: bool) -> None:
        ending.set()
        close(self, sync)

    monkeypatch.setattr(journals, "SYNC_SECONDS", 0.0)
    monkeypatch.setattr(_disk, "sync", sync)
    monkeypatch.setattr(journals.Journal, "close", close_now)
    watch = Watch()
    try:
        saving(path, on_update=watch, **ENDS[end])
    except RunFailed:
        assert set(watch.done) & set(keys()) <= set(Snapshot.load(path))
    else:
        assert os.listdir(path.parent) == ([] if end == "succeeds" else [PATH])


@pytest.mark.slow
@pytest.mark.parametrize("most", [7, 97])
def test_short_writes_are_gone_on_with(most, tmp_path):
    """A write that takes only a part is gone on with; where the rest cannot be written, nothing is torn."""
    folders = copies(tmp_path)
    recorder = Recorder(next(folders), {})
    recorder.most = most
    assert check_failure(recorder, set(), OSError(), ENDS["is kept"]) == "RunResult"
    for number in range(1, recorder.counts["write"] + 1, 2 if most > 50 else 37):
        error = OSError(ENOSPC, os.strerror(ENOSPC))
        recorder = Recorder(next(folders), {})
        recorder.most = most
        recorder.fail("write", number, error)
        assert check_failure(recorder, set(), error, ENDS["is kept"]) in ("RunFailed", "SnapshotError")


# -- What a step, and whoever watches, can rely on.


def test_what_is_reported_is_on_the_disk(path):
    """When a step is reported done, anybody who loads the file finds it: small, large, or not saved."""
    seen: dict[str, bool] = {}

    def watch(update: Update) -> None:
        if update.kind == "status" and update.node.status == "done":
            contents = Snapshot.load(path).contents
            seen[update.node.id] = update.node.id in contents.steps or update.node.id in contents.unsaved

    saving(path, on_update=watch, size=70_000)
    assert seen == dict.fromkeys([*keys(), "odd"], True)


@pytest.mark.parametrize("size", [10, 200_000])
def test_what_a_step_takes_is_on_the_disk_before_it_begins(path, size):
    """A consumer never runs on what a kill could still lose."""

    @step(id="text", runs_on="inline")
    def text() -> str:
        return "x" * size

    @step(id="look", runs_on="inline")
    def look(text: str) -> list[str]:
        return list(Snapshot.load(path))

    assert run_resumable(look, path=path).result == ["text"]


@pytest.mark.parametrize("runs_on", ["trio", "inline", "asyncio", "thread"])
@pytest.mark.parametrize("size", [10, 200_000])
def test_a_step_is_not_retried_for_the_disk(path, monkeypatch, runs_on, size):
    """Where a result cannot be written, its step does not run again: that is not the step's fault."""
    attempts: list[str] = []

    def text() -> str:
        attempts.append("text")
        return "x" * size

    async def text_async() -> str:
        return text()

    function = text_async if runs_on in ("trio", "asyncio") else text
    declared = step(
        id="text", retry=Retry(5), version="1", **({} if runs_on == "trio" else {"runs_on": runs_on})
    )(function)

    @step(id="then", runs_on="inline")
    def then(text: str) -> int:
        attempts.append("then")
        return len(text)

    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if b'"text"' in data:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(_disk, "write", full)
    with pytest.raises(RunFailed) as caught:
        run_resumable(then, declared, path=path)
    failed = caught.value
    assert attempts == ["text"]
    message = f"{path}.journal cannot be written: No space left on device"
    assert str(problem_of(failed)) == message
    assert str(failed).startswith(message)
    node = failed.trace.node("text")
    assert (node.status, node.attempts) == ("aborted", 1)
    assert node.reason == f"finished, but {message}"
    assert list(failed.snapshot()) == ["text"]
    assert failed.trace.node("then").status == "blocked"
    assert list(Snapshot.load(path)) == []
    monkeypatch.setattr(_disk, "write", write)
    assert run_resumable(then, declared, path=path, snapshot=failed.snapshot()).result == (size, "x" * size)
    assert attempts == ["text", "then"]


async def test_what_runs_meanwhile_finishes_and_is_in_the_snapshot(path, monkeypatch):
    """
    After the disk has failed, steps that run finish; their results are not on it, and not lost.

    None begins any more, whatever ``on_error`` says.
    """
    failed, other = trio.Event(), trio.Event()

    @step(id="early", runs_on="inline")
    def early() -> int:
        return 1

    @step(id="first")
    async def first(early: int) -> str:
        await other.wait()
        failed.set()
        return "first"

    @step(id="second")
    async def second(early: int) -> str:
        other.set()
        await failed.wait()
        return "second"

    @step(id="third", runs_on="inline")
    def third(early: int) -> None:
        raise AssertionError("it has run")

    @step(id="last", after=[first, second], runs_on="inline")
    def last() -> None:
        raise AssertionError("it has run")

    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if b'"first"' in data:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(_disk, "write", full)
    watch = Watch()
    with pytest.raises(RunFailed) as caught:
        await run_resumable_async(last, third, path=path, on_update=watch, on_error="continue", concurrency=2)
    assert watch.done == ["early"]
    assert sorted(caught.value.snapshot()) == ["early", "first", "second"]
    assert list(Snapshot.load(path)) == ["early"]
    assert {node.id: node.status for node in caught.value.trace} == {
        "first": "aborted",
        "second": "aborted",
        "early": "done",
        "last": "blocked",
        "third": "queued",
    }


@pytest.mark.parametrize("how", ["deadline", "scope"])
async def test_a_run_that_is_cancelled_says_that_its_file_could_not_be_written(path, monkeypatch, how):
    """What is raised is the cancellation; that the file could not be brought up to date is noted on it."""

    @step(id="early", runs_on="inline")
    def early() -> int:
        return 1

    scope = trio.CancelScope()

    @step(id="waits")
    async def waits(early: int) -> None:
        if how == "scope":
            scope.cancel()
        await trio.sleep_forever()

    def full(path: str, other: str) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(_disk, "rename", full)
    if how == "scope":
        with scope:
            await run_resumable_async(waits, path=path)
        assert scope.cancelled_caught
    else:
        with pytest.raises(RunCancelled) as caught:
            await run_resumable_async(waits, path=path, deadline=0.001)
        [note] = caught.value.__notes__
        assert said(note, path) == "cannot be written: No space left on device"
    assert sorted(os.listdir(path.parent)) == [JOURNAL]
    assert list(Snapshot.load(path)) == ["early"]


# -- Real disks that are full.

CHILD = """
import json, os, resource, shutil, subprocess, sys
from june import RunFailed, Snapshot, SnapshotError
from tests.disks import PATH, keys, saving

KEYS = keys()  # in a step there can be no other run

def report(path, **options):
    done, began = [], []

    def watch(update):
        if update.kind != "status":
            return
        if update.node.status == "done" and update.node.id in KEYS:
            done.append(update.node.id)
        if update.node.status == "running":
            began.append(update.node.id)

    found = {"done": done, "began": began, "problem": None, "cause": None, "snapshot": None}
    try:
        saving(path, on_update=watch, **options)
    except RunFailed as failed:
        problems = [error for error in failed.exceptions if isinstance(error, SnapshotError)]
        found["snapshot"] = list(failed.snapshot())
    except SnapshotError as problem:
        problems = [problem]
    else:
        return found
    [problem] = problems
    return found | {"problem": str(problem), "cause": problem.__cause__.errno}
"""


def in_child(script: str, *arguments: Any, within: tuple[str, ...] = ()) -> Any:
    """Run a script after `CHILD`, in a process of its own; give the JSON that it prints."""
    ended = subprocess.run(
        [*within, sys.executable, "-c", CHILD + textwrap.dedent(script), *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def own_mounts() -> tuple[str, ...]:
    """Find out how a process here gets mounts of its own; nothing if it cannot."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return ()
    within = ("unshare", "-m") if os.geteuid() == 0 else ("unshare", "-rm")
    tried = subprocess.run([*within, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return within if tried.returncode == 0 else ()


MOUNTS = own_mounts()

FULL = {
    "limit": """
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        found = {}
        for size in map(int, sys.argv[2:]):
            path = os.path.join(sys.argv[1], str(size), PATH)
            os.mkdir(os.path.dirname(path))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            found[size] = report(path, size=70_000)
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        print(json.dumps(found))
    """,
    "tmpfs": """
        found = {}
        for size in map(int, sys.argv[2:]):
            folder = os.path.join(sys.argv[1], str(size))
            mounted = folder + ".mounted"
            os.mkdir(mounted)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", mounted], check=True)
            found[size] = report(os.path.join(mounted, PATH), size=70_000)
            shutil.copytree(mounted, folder)
            subprocess.run(["umount", mounted], check=True)
        print(json.dumps(found))
    """,
}


@pytest.mark.slow
@posix
@pytest.mark.parametrize("how", ["limit", *(["tmpfs"] if MOUNTS else [])])
def test_a_full_disk_fails_the_run(how, tmp_path):
    """A disk that is full: the run fails and says so, and the next one with more room goes on from there."""
    if how == "limit":
        sizes, cause, within = (0, 40, 1000, 1500, 2000, 60_000, 72_000), EFBIG, ()
    else:
        sizes, cause, within = (8192, 12288, 40960, 69632), ENOSPC, MOUNTS
    found = in_child(FULL[how], tmp_path, *sizes, within=within)
    assert [int(size) for size in found] == list(sizes)
    counts = []
    for size, told in found.items():
        folder = tmp_path / size
        place = folder if how == "limit" else f"{folder}.mounted"
        counts.append(len(told["done"]))
        assert told["cause"] == cause
        assert said(told["problem"], f"{place}/{PATH}") == f"cannot be written: {os.strerror(cause)}"
        assert len(set(told["began"])) == len(told["began"])
        if told["snapshot"] is None:
            assert told["began"] == []
        else:
            assert set(told["done"]) <= set(told["snapshot"])
            assert set(told["done"]) <= (set(Snapshot.load(folder / PATH)) if told["done"] else set())
        again = saving(folder / PATH, size=70_000)
        assert again.result == fresh(size=70_000).result
        assert not ran(again) & set(told["done"])
        assert os.listdir(folder) == []
    assert counts == sorted(counts)
    assert counts[-1] > 5


# -- Real folders that may not be written, or are gone.


@pytest.mark.slow
@pytest.mark.skipif(not MOUNTS, reason="mounts need a right, or Linux")
def test_a_read_only_disk_is_an_error_before_anything_runs(tmp_path):
    """On a disk that is mounted read-only, no step begins."""
    saved(tmp_path, ["plan"])
    told = in_child(
        """
        subprocess.run(["mount", "--bind", sys.argv[1], sys.argv[1]], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", sys.argv[1]], check=True)
        print(json.dumps(report(os.path.join(sys.argv[1], PATH))))
        """,
        tmp_path,
        within=MOUNTS,
    )
    assert said(told["problem"], tmp_path / PATH) == "cannot be written: Read-only file system"
    assert (told["cause"], told["began"]) == (EROFS, [])
    assert list(Snapshot.load(tmp_path / PATH)) == ["plan"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may write to, and reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@posix
def test_permissions_that_lack_or_are_lost(open_folder):
    """
    Without the right to write, no step begins; where it is lost meanwhile, the run fails.

    What was done is there, and the next run with the right to write runs none of it.
    """
    found = in_child(
        """
        from tests.disks import ran
        folder = sys.argv[1]
        # While all may be imported.
        saving(os.path.join(folder, "first.json"))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        found = {}

        def look(name, path, mode, **options):
            # Run on something with another mode, and again with the one that it should have.
            os.chmod(path, mode)
            told = report(os.path.join(folder, name, PATH), **options)
            os.chmod(path, 0o700)
            found[name] = told

        def end(name, **options):
            # Run where the folder may not be written any more once something is done.
            os.mkdir(os.path.join(folder, name))
            path = os.path.join(folder, name, PATH)

            def lose(update):
                if update.node.id == "parts" and update.node.status == "done":
                    os.chmod(os.path.dirname(path), 0o500)

            options["on_update"] = lose
            found[name] = told = {}
            try:
                saving(path, **options)
            except RunFailed as failed:
                [problem] = [error for error in failed.exceptions if isinstance(error, SnapshotError)]
                told |= {"problem": str(problem), "cause": problem.__cause__.errno}
                told["done"] = [node.id for node in failed.trace if node.status == "done" and node.id in KEYS]
            told["loaded"] = list(Snapshot.load(path))
            os.chmod(os.path.dirname(path), 0o700)
            told["again"] = sorted(ran(saving(path)))
            told["left"] = os.listdir(os.path.dirname(path))

        os.mkdir(os.path.join(folder, "closed"))
        look("closed", os.path.join(folder, "closed"), 0o500)
        os.mkdir(os.path.join(folder, "unreadable"))
        path = os.path.join(folder, "unreadable", PATH)
        saving(path, keep=True)
        look("unreadable", path, 0)
        os.mkdir(os.path.join(folder, "journal"))
        path = os.path.join(folder, "journal", PATH + ".journal")
        open(path, "w").close()
        look("journal", path, 0)
        end("fails", breaks=("report",))
        end("is kept", keep=True)
        end("succeeds")
        print(json.dumps(found))
        """,
        open_folder,
    )
    for name, problem in [
        ("closed", "cannot be written: Permission denied"),
        ("unreadable", "cannot be read: Permission denied"),
        ("journal", "cannot be read: Permission denied"),
    ]:
        told = found.pop(name)
        assert said(told["problem"], open_folder / name / PATH) == problem
        assert (told["cause"], told["began"], told["done"]) == (EACCES, [], [])
    for name, told in found.items():
        assert said(told["problem"], open_folder / name / PATH) == "cannot be written: Permission denied"
        assert told["cause"] == EACCES
        assert len(told["done"]) >= len(keys()) - 1
        assert set(told["done"]) <= set(told["loaded"])
        assert told["again"] == (["report"] if name == "fails" else [])
        assert told["left"] == []


PATHS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (
        lambda path: path.parent.rmdir(),
        "cannot be written: there is no folder {path.parent}",
    ),
    "a folder": (lambda path: path.mkdir(), "is a folder"),
    "a pipe": (lambda path: os.mkfifo(path), "is no ordinary file"),
    "a file for a folder": (
        lambda path: (path.parent.rmdir(), path.parent.write_text("")),
        "cannot be written: there is no folder {path.parent}",
    ),
    "a folder for a journal": (
        lambda path: path.with_name(JOURNAL).mkdir(),
        "cannot be read: Is a directory",
    ),
    "a folder for what takes its place": (
        lambda path: path.with_name(f"{JOURNAL}.new").mkdir(),
        "cannot be written: Is a directory",
    ),
    "a folder for a lock": (
        lambda path: path.with_name(f"{PATH}.lock").mkdir(),
        "cannot be written: Is a directory",
    ),
}


@posix
@pytest.mark.parametrize("what", PATHS)
def test_a_path_that_cannot_be_saved_to_is_an_error_before_anything_runs(what, tmp_path):
    """What stands where a file should be is named, nothing runs, and nothing is changed."""
    prepare, message = PATHS[what]
    path = tmp_path / "folder" / PATH
    path.parent.mkdir()
    prepare(path)
    before = sorted(tmp_path.rglob("*"))
    watch = Watch()
    with pytest.raises(SnapshotError) as caught:
        saving(path, on_update=watch)
    assert said(caught.value, path) == message.format(path=path)
    assert watch.began == []
    assert sorted(tmp_path.rglob("*")) == before


def dropping(path: Path, remove: Callable[[], object], **options: Any) -> RunResult[Any]:
    """Run with something removed once a part is done, and then every fsync at once."""

    def watch(update: Update) -> None:
        if update.node.id == "part[„web“-1]" and update.node.status == "done":
            remove()
            update.handle._run.journal._make_safe()

    return saving(path, on_update=watch, **options)


@posix
@pytest.mark.parametrize("end", ENDS)
def test_a_folder_that_is_removed_fails_the_run(end, tmp_path):
    """Where the folder goes, the run fails, and its error has what finished; it makes no folder."""
    path = tmp_path / "folder" / PATH
    path.parent.mkdir()
    saved(path.parent, ["plan"])
    with pytest.raises(RunFailed) as caught:
        dropping(path, lambda: shutil.rmtree(path.parent), **ENDS[end])
    problem = problem_of(caught.value)
    assert str(problem) == f"{path}.journal cannot be written: No such file or directory"
    assert problem.__cause__.errno == ENOENT
    assert {"plan", "parts", "part[„web“-1]"} <= finished(caught.value) <= set(caught.value.snapshot())
    assert os.listdir(tmp_path) == []
    path.parent.mkdir()
    assert saving(path, snapshot=caught.value.snapshot()).result == fresh().result


@posix
@pytest.mark.parametrize("end", ENDS)
def test_a_journal_that_is_removed_fails_the_run(end, path):
    """Where the journal goes, the run fails; all that finished is in the file then."""
    with pytest.raises(RunFailed) as caught:
        dropping(path, path.with_name(JOURNAL).unlink, **ENDS[end])
    problem = problem_of(caught.value)
    assert str(problem) == f"{path}.journal cannot be written: No such file or directory"
    assert {"plan", "parts", "part[„web“-1]"} <= finished(caught.value) == set(Snapshot.load(path))
    again = saving(path)
    assert again.result == fresh().result
    assert not ran(again) & finished(caught.value)


@posix
@pytest.mark.parametrize("end", ENDS)
def test_a_journal_that_another_takes_the_place_of_fails_the_run(end, path):
    """Where another file stands in the journal's place, the run fails, and touches nothing that it did not make."""
    saved(path.parent, ["plan"])
    before = path.read_bytes()
    journal = path.with_name(JOURNAL)

    def replace() -> None:
        journal.unlink()
        journal.write_text("mine")

    with pytest.raises(RunFailed) as caught:
        dropping(path, replace, **ENDS[end])
    assert str(problem_of(caught.value)) == f"{journal} cannot be written: another file has taken its place"
    assert {"plan", "parts", "part[„web“-1]"} <= finished(caught.value) <= set(caught.value.snapshot())
    assert journal.read_text() == "mine"
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == [PATH, JOURNAL]


@posix
@pytest.mark.parametrize("end", ENDS)
def test_a_journal_that_is_removed_unnoticed_costs_nothing(end, path, monkeypatch):
    """Where nobody looks at the journal again before the end, the file is written from what the run knows."""
    monkeypatch.setattr(journals, "SYNC_SECONDS", 1e6)

    def watch(update: Update) -> None:
        if update.node.id == "part[„web“-1]" and update.node.status == "done":
            path.with_name(JOURNAL).unlink()

    ended: RunResult[Any] | RunFailed
    try:
        ended = saving(path, on_update=watch, **ENDS[end])
    except RunFailed as failed:
        ended = failed
    if end == "succeeds":
        assert isinstance(ended, RunResult)
    else:
        assert finished(ended) == set(Snapshot.load(path))
    assert os.listdir(path.parent) == ([] if end == "succeeds" else [PATH])


# -- What the files are.


@posix
def test_files_are_for_their_owner_only(path):
    """Snapshot, journal and lock can be read by nobody else, whatever the umask, and mode of a file before."""

    @step(id="modes", runs_on="inline")
    def modes() -> dict[str, int]:
        return {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}

    before = os.umask(0)
    try:
        path.write_bytes(b'{"version": 1, "steps": {}}')
        path.chmod(0o666)
        result = run_resumable(modes, path=path, keep=True).result
    finally:
        os.umask(before)
    assert result == {PATH: 0o666, JOURNAL: 0o600, f"{PATH}.lock": 0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [PATH]


@posix
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one(end, there, tmp_path):
    """A path that is a link stays that, and what it points at is written, or removed."""
    place = tmp_path / "place"
    place.mkdir()
    if there:
        saved(place, ["plan"])
    link = tmp_path / "link.json"
    link.symlink_to(Path("place") / PATH)
    if end == "fails":
        with pytest.raises(RunFailed):
            saving(link, **ENDS[end])
    else:
        saving(link, **ENDS[end])
    assert os.readlink(link) == os.path.join("place", PATH)
    assert os.listdir(place) == ([] if end == "succeeds" else [PATH])
    assert sorted(os.listdir(tmp_path)) == ["link.json", "place"]
    assert not ran(saving(link)) - {"report"} or end == "succeeds"


def test_what_an_earlier_run_left_goes(path):
    """A run that ends leaves none of its other files, nor those of one that was killed."""
    for start in (nothing, a_file, a_journal, a_file_and_a_journal):
        for end, options in ENDS.items():
            start(path.parent)
            path.with_name(f"{JOURNAL}.new").write_bytes(b"half of")
            if end == "fails":
                with pytest.raises(RunFailed):
                    saving(path, **options)
            else:
                saving(path, **options)
            assert os.listdir(path.parent) == ([] if end == "succeeds" else [PATH])
            path.unlink(missing_ok=True)
