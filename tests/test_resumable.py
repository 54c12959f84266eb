"""`run_resumable`: what it starts from, when it writes, and what it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from june import (
    GraphError,
    InputError,
    ResultWarning,
    RunCancelled,
    RunFailed,
    RunInterrupted,
    Snapshot,
    SnapshotError,
    Update,
    run,
    run_async,
    run_resumable,
    run_resumable_async,
    step,
)
from june.journals import Journal

LARGE = 200_000


@step(id="plan")
def plan(service: str) -> str:
    return f"Plan {service}"


@step(id="book")
async def book(plan: str) -> str:
    return plan * LARGE


@step(id="size")
async def size(book: str) -> int:
    return len(book)


@step(id="fragile")
async def fragile(size: int, good: bool) -> int:
    if not good:
        raise ValueError("no good")
    return size + 1


WEB = {"service": "web", "good": True}
BAD = {"service": "web", "good": False}


def statuses(record) -> dict[str, str]:
    return {node.id: "resumed" if node.resumed else node.status for node in record.trace}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A snapshot file that is not there yet, in a folder of its own."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "run.json"


def test_a_run_that_succeeds_leaves_nothing(path: Path) -> None:
    """Its file, journal and lock are gone, and the result is what `run` gives."""
    result = run_resumable(fragile, path=path, inputs=WEB)
    assert result.result == 8 * LARGE + 1
    assert result.steps == run(fragile, inputs=WEB).steps
    assert names(path.parent) == []


def test_keep_leaves_one_valid_file(path: Path) -> None:
    """With ``keep=True`` the file has what the result's snapshot has, and nothing stands beside it."""
    result = run_resumable(fragile, path=path, keep=True, inputs=WEB)
    assert names(path.parent) == ["run.json"]
    assert path.read_bytes() == result.snapshot().to_json()
    again = run_resumable(fragile, path=path, keep=True, inputs=WEB)
    assert set(statuses(again).values()) == {"resumed"}
    assert path.read_bytes() == result.snapshot().to_json()


def test_a_failed_run_leaves_what_finished(path: Path) -> None:
    """The file has everything that finished, the error says where, and the next run goes on from there."""
    with pytest.raises(RunFailed) as failed:
        run_resumable(fragile, path=path, inputs=BAD)
    assert failed.value.message == f"1 step failed: 3 of 4 steps done, saved in {path}"
    assert names(path.parent) == ["run.json"]
    assert path.read_bytes() == failed.value.snapshot().to_json()
    result = run_resumable(fragile, path=path, inputs=WEB)
    assert statuses(result) == {"plan": "resumed", "book": "resumed", "size": "resumed", "fragile": "done"}
    assert names(path.parent) == []


def test_a_line_is_written_before_anybody_hears_of_the_step(path: Path) -> None:
    """When ``on_update`` or a consumer learns that a step is done, a load of the file finds it; so with large ones."""
    heard = []

    @step(id="looks")
    def looks(book: str) -> int:
        heard.append(("looks", "book" in Snapshot.load(path)))
        return 1

    def on_update(update: Update) -> None:
        if update.kind == "status" and update.node.status == "done":
            heard.append((update.node.id, update.node.id in Snapshot.load(path)))

    run_resumable([size, looks], path=path, inputs={"service": "web"}, on_update=on_update)
    assert sorted(heard) == [("book", True), ("looks", True), ("looks", True), ("plan", True), ("size", True)]


def test_large_lines_are_not_written_on_the_event_loop(path: Path, monkeypatch) -> None:
    """While a large result is written, steps go on; what takes it waits, and is given it when it is written."""
    from june import _disk

    threads = {}
    begun, release = threading.Event(), threading.Event()

    def write(descriptor: int, data: bytes, real=_disk.write) -> int:
        threads.setdefault(len(data) > LARGE, threading.get_ident())
        if len(data) > LARGE:
            begun.set()
            assert release.wait(60)
        return real(descriptor, data)

    monkeypatch.setattr(_disk, "write", write)

    @step(id="beside")
    async def beside(clues: dict) -> int:
        await trio.to_thread.run_sync(clues["begun"].wait)
        clues["release"].set()
        return threading.get_ident()

    result = run_resumable(
        [size, beside],
        path=path,
        keep=True,
        inputs={"service": "web"},
        resources={"clues": {"begun": begun, "release": release}},
    )
    assert threads[True] != threads[False] == result.steps["beside"]
    assert set(Snapshot.load(path)) == {"plan", "book", "size", "beside"}


def test_it_goes_on_from_a_journal_alone(path: Path) -> None:
    """What a killed first run leaves is a journal without a file; the next run reuses all of it."""
    seen = []

    def copy(update: Update) -> None:
        if update.node.id == "size" and update.node.status == "done":
            seen.append(Path(f"{path}.journal").read_bytes())

    with pytest.raises(RunFailed):
        run_resumable(fragile, path=path, inputs=BAD, on_update=copy)
    path.unlink()
    Path(f"{path}.journal").write_bytes(seen[0])
    assert list(Snapshot.load(path)) == ["plan", "book", "size"]
    result = run_resumable(fragile, path=path, inputs=WEB)
    assert list(statuses(result).values()) == ["resumed", "resumed", "resumed", "done"]
    assert names(path.parent) == []


def test_the_folded_journal_stands_in_graph_order(path: Path) -> None:
    """Whatever order steps finished in before a kill, the file that the next run writes is in the graph's."""

    @step(id="first")
    async def first() -> int:
        await trio.sleep(0.001)
        return 1

    @step(id="second")
    async def second() -> int:
        return 2

    def copy(update: Update) -> None:
        seen[:] = [Path(f"{path}.journal").read_bytes()]

    seen: list[bytes] = []
    run_resumable([first, second], path=path, on_update=copy)
    Path(f"{path}.journal").write_bytes(seen[0])
    assert list(Snapshot.load(path)) == ["second", "first"]
    with pytest.raises(RunFailed):
        run_resumable([first, second, fragile], path=path, inputs=BAD)
    assert list(Snapshot.load(path)) == ["first", "second", "plan", "book", "size"]


def test_a_dropped_entry_is_gone_from_the_file_at_the_end(path: Path) -> None:
    """A step that rendered with another key and did not finish is not in the file, and what was not reached is."""
    run_resumable(fragile, path=path, keep=True, inputs=WEB)
    with pytest.raises(RunFailed):
        run_resumable(fragile, path=path, inputs=BAD)
    assert list(Snapshot.load(path)) == ["plan", "book", "size"]
    with pytest.raises(RunFailed):
        run_resumable(fragile, plan, path=path, inputs=BAD)


def test_unsaved_steps_are_noted_in_the_journal(path: Path) -> None:
    """After a kill, a step whose result could not be saved runs only if somebody needs it."""

    @step(id="loose")
    def loose() -> float:
        return float("nan")

    @step(id="takes")
    def takes(loose: float) -> int:
        return 1

    seen = []

    def copy(update: Update) -> None:
        seen.append(Path(f"{path}.journal").read_bytes())

    with pytest.warns(ResultWarning):
        run_resumable(takes, path=path, on_update=copy)
    Path(f"{path}.journal").write_bytes(seen[-1])
    result = run_resumable(takes, path=path)
    assert statuses(result) == {"loose": "unneeded", "takes": "resumed"}


def test_a_snapshot_counts_where_the_file_has_no_entry(path: Path) -> None:
    """A run can start from a snapshot that it does not write to; what the file has comes first."""
    other = run(book, inputs={"service": "web"}).snapshot()
    changed = other.to_dict()
    changed["steps"]["plan"] = {**changed["steps"]["plan"], "result": "another"}
    Snapshot.from_dict(changed).save(path)
    result = run_resumable(plan, path=path, keep=True, snapshot=other, inputs={"service": "web"})
    assert result.result == "another"
    assert list(Snapshot.load(path)) == ["plan", "book"]


def test_fields_that_june_does_not_know_are_kept(path: Path) -> None:
    """What somebody added to the file or to an entry survives a run that saves to it."""
    run_resumable(plan, path=path, keep=True, inputs={"service": "web"})
    data = json.loads(path.read_bytes())
    data["note"] = {"by": "hand"}
    data["steps"]["plan"]["mine"] = [1, 2]
    path.write_text(json.dumps(data))
    with pytest.raises(RunFailed):
        run_resumable(fragile, path=path, inputs=BAD)
    kept = json.loads(path.read_bytes())
    assert kept["note"] == {"by": "hand"} and kept["steps"]["plan"]["mine"] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"inputs": {"service": "web", "servce": "x"}}, InputError),
        ({"inputs": {}}, GraphError),
        ({"inputs": {"service": "web"}, "concurrency": 0}, ValueError),
        ({"inputs": {"service": "web"}, "keeep": True}, TypeError),
    ],
)
def test_what_is_wrong_from_the_start_leaves_nothing(path: Path, arguments, error: type[Exception]) -> None:
    """Neither a lock nor a journal stays behind where nothing could run."""
    with pytest.raises(error):
        run_resumable(plan, path=path, **arguments)
    assert names(path.parent) == []


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("no/run.json", "{path} cannot be written: there is no folder {folder}"),
        (".", "{path} is a folder"),
        ("pipe", "{path} is no ordinary file"),
        ("link", "{path} cannot be written: there is no folder {root}/gone (it is a link)"),
    ],
)
def test_a_path_that_cannot_be_is_refused(tmp_path: Path, where: str, message: str) -> None:
    """It is said before anything runs, in a sentence."""
    if where == "pipe":
        os.mkfifo(tmp_path / "pipe")
    if where == "link":
        (tmp_path / "link").symlink_to(tmp_path / "gone" / "run.json")
    path = tmp_path / where
    with pytest.raises(SnapshotError) as refused:
        run_resumable(plan, path=path, inputs={"service": "web"})
    assert str(refused.value) == message.format(path=path, folder=path.parent, root=tmp_path)


def test_paths_are_taken_as_they_were_at_the_start(path: Path, monkeypatch) -> None:
    """A relative path is relative to where the run started, wherever a step goes."""
    monkeypatch.chdir(path.parent)

    @step(id="moves")
    def moves(size: int) -> int:
        os.chdir(path.parent.parent)
        raise ValueError("no")

    with pytest.raises(RunFailed):
        run_resumable(moves, path="run.json", inputs={"service": "web"})
    assert names(path.parent) == ["run.json"] and list(Snapshot.load(path)) == ["plan", "book", "size"]


def test_it_works_where_asyncio_runs(path: Path) -> None:
    """As in a notebook, the loop waits while the run has a thread of its own."""

    async def main() -> int:
        return run_resumable(size, path=path, inputs={"service": "web"}).result

    assert asyncio.run(main()) == 8 * LARGE
    assert names(path.parent) == []


async def test_it_works_in_trio(path: Path) -> None:
    """``await run_resumable_async(...)`` is the same, and `run_resumable` says so."""
    with pytest.raises(RuntimeError, match=r"use: await run_resumable_async\("):
        run_resumable(size, path=path, inputs={"service": "web"})
    with pytest.raises(RunFailed):
        await run_resumable_async(fragile, path=path, inputs=BAD)
    result = await run_resumable_async(fragile, path=path, inputs=WEB)
    assert list(statuses(result).values()) == ["resumed", "resumed", "resumed", "done"]
    assert names(path.parent) == []


def test_outside_of_trio_there_is_run_resumable(path: Path) -> None:
    """The one for trio does not start another loop."""
    with pytest.raises(RuntimeError, match=r"works inside trio only; use run_resumable\(\.\.\.\)"):
        asyncio.run(run_resumable_async(plan, path=path))  # type: ignore[arg-type]
    assert names(path.parent) == []


async def test_a_cancelled_scope_saves(path: Path) -> None:
    """The caller's own cancellation goes on up, once the file has what finished."""

    @step(id="cancels")
    async def cancels(size: int, scope: trio.CancelScope) -> int:
        scope.cancel()
        await trio.sleep_forever()
        return 1

    with trio.CancelScope() as scope:
        await run_resumable_async(cancels, path=path, inputs={"service": "web"}, resources={"scope": scope})
    assert scope.cancelled_caught
    assert names(path.parent) == ["run.json"] and list(Snapshot.load(path)) == ["plan", "book", "size"]


async def test_a_deadline_saves(path: Path, autojump_clock) -> None:
    """A run that took too long says where what had finished is."""

    @step(id="quick")
    async def quick() -> int:
        return 1

    @step(id="for ever")
    async def for_ever(quick: int) -> int:
        await trio.sleep_forever()
        return 1

    with pytest.raises(RunCancelled) as cancelled:
        await run_resumable_async(for_ever, path=path, deadline=10)
    assert str(cancelled.value) == (
        f"the run's deadline of 10.0 s has passed: 1 of 2 steps done, saved in {path}"
    )
    assert list(Snapshot.load(path)) == ["quick"]


def test_an_interrupt_saves(path: Path) -> None:
    """`RunInterrupted` says where what had finished is."""

    @step(id="stops")
    async def stops(size: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(RunInterrupted) as interrupted:
        run_resumable(stops, path=path, inputs={"service": "web"})
    assert str(interrupted.value) == f"interrupted: 3 of 4 steps done, saved in {path}"
    assert list(Snapshot.load(path)) == ["plan", "book", "size"]


def test_an_interrupt_that_comes_too_late_finds_the_file(path: Path, monkeypatch) -> None:
    """Where the file of a run that succeeded is removed already, whoever hears of an interrupt still has it."""
    from june import storage

    def remove(path: str, real=storage._remove) -> None:
        real(path)
        trio.from_thread.run_sync(handle_of_ctrl_c)

    def handle_of_ctrl_c() -> None:
        # As trio's own handler of the signal does where it must not raise on the spot.
        trio.lowlevel.current_task()  # it is a task that is protected
        trio._core._run.GLOBAL_RUN_CONTEXT.runner.deliver_ki()

    monkeypatch.setattr(storage, "_remove", remove)
    with pytest.raises(RunInterrupted):
        run_resumable(size, path=path, inputs={"service": "web"})
    assert names(path.parent) == ["run.json"] and list(Snapshot.load(path)) == ["plan", "book", "size"]


async def test_several_runs_save_to_files_of_their_own(path: Path) -> None:
    """Runs at the same time in one program do not know of each other."""
    results = []

    async def one(number: int) -> None:
        result = await run_resumable_async(
            size, path=f"{path}.{number}", keep=True, inputs={"service": str(number)}
        )
        results.append(result.result)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(one, number)
    assert results == [6 * LARGE] * 5
    assert names(path.parent) == [f"run.json.{number}" for number in range(5)]


async def test_a_step_is_cancelled_while_its_line_is_written(path: Path, monkeypatch) -> None:
    """A large result that is being written when its run is cut off is in the file, and its step done."""
    from june import _disk

    release = threading.Event()
    writing = threading.Event()

    def write(descriptor: int, data: bytes, real=_disk.write) -> int:
        if len(data) > LARGE and not writing.is_set():
            writing.set()
            assert release.wait(60)
        return real(descriptor, data)

    monkeypatch.setattr(_disk, "write", write)
    with trio.move_on_after(60) as scope:
        async with trio.open_nursery() as nursery:

            async def cut_off() -> None:
                await trio.to_thread.run_sync(writing.wait)
                scope.cancel()
                release.set()

            nursery.start_soon(cut_off)
            await run_resumable_async(size, path=path, inputs={"service": "web"})
    assert list(Snapshot.load(path)) == ["plan", "book"]


async def test_all_threads_may_be_taken(path: Path) -> None:
    """Where the program's own threads have taken all that trio gives out, a run begins and ends all the same."""
    release = threading.Event()
    limit = int(trio.to_thread.current_default_thread_limiter().total_tokens)
    async with trio.open_nursery() as nursery:
        for _ in range(limit):
            nursery.start_soon(trio.to_thread.run_sync, release.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert (
            await run_resumable_async(size, path=path, keep=True, inputs={"service": "web"})
        ).result == 8 * LARGE
        release.set()


def test_a_file_that_is_left_is_not_let_go(path: Path, monkeypatch) -> None:
    """While a thread that nobody waits for any more brings the file up to date, nobody else gets it."""
    from june import _disk
    from june.storage import Storage

    storage = Storage(path, keep=True)
    snapshot = run(plan, inputs={"service": "web"}).snapshot()
    storage.begin(snapshot)
    folding, go_on = threading.Event(), threading.Event()

    def sync_folder(folder: str, real=_disk.sync_folder) -> None:
        folding.set()
        assert go_on.wait(60)
        real(folder)

    monkeypatch.setattr(_disk, "sync_folder", sync_folder)
    thread = threading.Thread(target=storage.end, args=(snapshot, True))
    thread.start()
    assert folding.wait(60)
    storage.release()
    with pytest.raises(SnapshotError, match="in use by another run in this process"):
        Storage(path, keep=True)
    go_on.set()
    thread.join()
    Storage(path, keep=True).release()
    assert names(path.parent) == ["run.json"]


def test_a_journal_of_another_run_is_left_alone(path: Path) -> None:
    """Where somebody has removed the lock, and another run has begun, what that one saves stays."""

    @step(id="robbed")
    def robbed(size: int) -> int:
        for name in ("run.json.lock", "run.json.journal"):
            (path.parent / name).unlink()
        (path.parent / "run.json.journal").write_bytes(b"another's")
        return 1

    with pytest.raises(RunFailed) as failed:
        run_resumable(robbed, path=path, inputs={"service": "web"})
    (problem,) = failed.value.exceptions
    assert isinstance(problem, SnapshotError) and "another file has taken its place" in str(problem)
    assert Path(f"{path}.journal").read_bytes() == b"another's" and not path.exists()
    assert set(failed.value.snapshot()) == {"plan", "book", "size", "robbed"}


def test_a_file_in_use_is_not_saved_over(path: Path) -> None:
    """From when a run has loaded the file, nobody else can save to it, though there is no journal yet."""
    from june.storage import Storage

    storage = Storage(path, keep=True)
    with pytest.raises(SnapshotError, match="in use by another run in this process"):
        run(plan, inputs={"service": "web"}).snapshot().save(path)
    storage.release()
    run(plan, inputs={"service": "web"}).snapshot().save(path)
    assert names(path.parent) == ["run.json"]


async def test_plain_runs_write_nothing(path: Path, monkeypatch) -> None:
    """`run` and the others keep nothing."""
    monkeypatch.chdir(path.parent)
    await run_async(size, inputs={"service": "web"})
    assert names(path.parent) == []


def test_files_are_for_their_owner_only(path: Path) -> None:
    """The file, its journal and its lock have mode 0600 while the run is on and after."""
    modes = {}

    @step(id="looks")
    def looks(size: int) -> int:
        modes.update({one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()})
        return 1

    run_resumable(looks, path=path, keep=True, inputs={"service": "web"})
    assert modes == {"run.json.journal": 0o600, "run.json.lock": 0o600}
    assert path.stat().st_mode & 0o777 == 0o600


class TestFsync:
    """fsync is called behind, grouped, by the journal's thread."""

    @pytest.fixture
    def synced(self, monkeypatch) -> list[int]:
        """How long the journal was at each fsync of it; a semaphore tells of each."""
        from june import _disk

        found: list[int] = []

        def sync(descriptor: int, real=_disk.sync) -> None:
            real(descriptor)
            found.append(os.fstat(descriptor).st_size)
            self.happened.release()

        self.happened = threading.Semaphore(0)
        monkeypatch.setattr(_disk, "sync", sync)
        return found

    def test_it_follows_a_line(self, path: Path, monkeypatch, synced: list[int]) -> None:
        """Once its time has come, what is written is on the disk, and the name of the journal with it."""
        monkeypatch.setattr("june.journals.SYNC_SECONDS", 0)
        journal = Journal(f"{path}.journal", "j", fresh=True)
        # The journal, then its folder.
        assert self.happened.acquire(timeout=60) and self.happened.acquire(timeout=60)
        entry = run(plan, inputs={"service": "web"})._run.nodes[0].entry
        for _ in range(3):
            assert journal.finish(None, entry)
            assert self.happened.acquire(timeout=60)
            assert synced[-1] == journal.written
        journal.close(sync=True)
        assert journal.safe == journal.written

    def test_lines_are_grouped(self, path: Path, monkeypatch, synced: list[int]) -> None:
        """Before its time has come nothing is, and then all that was written; the end waits for it."""
        monkeypatch.setattr("june.journals.SYNC_SECONDS", 3600)
        journal = Journal(f"{path}.journal", "j", fresh=True)
        entry = run(plan, inputs={"service": "web"})._run.nodes[0].entry
        for _ in range(100):
            assert journal.finish(None, entry)
        assert synced == []
        journal.close(sync=True)
        assert synced[0] == journal.written
        assert len(synced) == 2

    def test_a_journal_that_is_removed_needs_none(self, path: Path, monkeypatch, synced: list[int]) -> None:
        """The end of a run that succeeded does not wait for a disk."""
        monkeypatch.setattr("june.journals.SYNC_SECONDS", 3600)
        run_resumable(size, path=path, inputs={"service": "web"})
        assert synced == []
