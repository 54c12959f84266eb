"""Journals: what is read of one that is cut, damaged, foreign or left over, and how one is written."""

from __future__ import annotations

import itertools
import json
import os
import stat
import threading
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from june import Snapshot, SnapshotError, _disk, journals, records, run_resumable, step
from june.entries import Finished
from june.journals import LARGE, Journal
from june.records import Records
from june.snapshots import journal_of
from tests.disks import fresh, scale

ENTRIES: list[Finished] = list(fresh(count=3).snapshot().contents.steps.values())
LINES = {entry.id: entry.line(entry.id) for entry in ENTRIES}
EMPTY = Snapshot.from_dict({"version": 1, "steps": {}})


def close(journal: Journal) -> bytes:
    """End a journal, whose thread must not outlive the test; give what is in the file."""
    journal.close(sync=False)
    return Path(journal.path).read_bytes()


@pytest.fixture
def path(tmp_path) -> Path:
    """The file beside which a journal is."""
    return tmp_path / "deploy.json"


def begin(path: Path, fresh: bool = True) -> Journal:
    return Journal(journal_of(str(path)), "deploy.json.journal", fresh)


def written(path: Path, fresh: bool = True, safe: int = 0, count: int = len(ENTRIES)) -> bytes:
    """
    Write a journal of a few steps, and one that could not be saved.

    Args:
        path: The file beside which it stays.
        fresh: Whether it goes with no file.
        safe: How many of the steps are made safe before the next.
        count: How many steps there are.
    """
    journal = begin(path, fresh)
    for number, entry in enumerate(ENTRIES[:count], 1):
        assert journal.finish(None, entry)
        if number == safe:
            journal._make_safe()
    assert journal.unsaved(None, "odd", "step:0")
    return close(journal)


def lines(found: Records) -> dict[str, bytes]:
    """What was read, as it would be written to a snapshot."""
    return {id: entry.line(id) for id, entry in found.steps.items()}


def ids_in(line: bytes) -> list[str]:
    """Read the ids in an entry's line, in the plainest way."""
    kind, text = line.split(b" ", 4)[3:]
    return list(json.loads(text)) if kind == b"entry" else []


# -- Cut short, or damaged.


@pytest.mark.parametrize("fresh", [True, False])
def test_a_journal_cut_short_gives_its_whole_lines(path, fresh):
    """Cut after any byte, a journal gives the steps whose lines are whole, in order, and no error."""
    if not fresh:
        EMPTY.save(path)
    data = written(path, fresh)
    journal = Path(journal_of(str(path)))
    ends = list(itertools.accumulate(len(line) for line in data.splitlines(keepends=True)))
    ids = [ids_in(line) for line in data.splitlines()]
    for size in range(len(data), -1, -1):
        os.truncate(journal, size)
        # The newline itself adds nothing.
        whole = [id for end, found in zip(ends, ids, strict=True) if end - 1 <= size for id in found]
        try:
            loaded = Snapshot.load(path)
        except FileNotFoundError:
            assert fresh and whole == []
        else:
            assert list(loaded) == whole
            assert {id: entry.line(id) for id, entry in loaded.contents.steps.items()} == {
                id: LINES[id] for id in whole
            }


def changes(byte: int) -> set[int]:
    """What a byte may become: with each bit flipped, or all bits alike."""
    return {byte ^ 1 << bit for bit in range(8)} | {0x00, 0xFF} - {byte}


@pytest.mark.slow
@pytest.mark.parametrize("safe", [0, 2])
def test_a_changed_byte_is_noticed(path, safe):
    """
    A byte changed anywhere is an error that names its line, and never another result.

    Only a zero where no later line says that the journal was safe may be a hole that a power cut has left; it
    costs the lines that it is in.
    """
    data = written(path, safe=safe, count=4)
    rows = data.splitlines(keepends=True)
    start = 0
    for number, row in enumerate(rows, 1):
        others = [*rows[: number - 1], *rows[number:]]
        known_safe = max(int(other.split(b" ", 3)[2]) for other in others)
        left = {id: LINES[id] for other in others for id in ids_in(other)}
        for at, byte in enumerate(row, start):
            for changed in changes(byte):
                damaged = data[:at] + bytes([changed]) + data[at + 1 :]
                if changed == 0 and start >= known_safe:
                    assert lines(records.read(damaged)) == left
                    continue
                with pytest.raises(SnapshotError) as caught:
                    records.read(damaged)
                assert str(caught.value).startswith(f"line {number} ")
        start += len(row)


@pytest.mark.slow
@pytest.mark.parametrize("safe", [0, 4])
def test_a_hole_is_damage_only_where_an_fsync_had_covered_it(path, safe):
    """Zeros cost the lines that they are in; below what a later line says was safe, they are an error."""
    data = written(path, safe=safe)
    rows = data.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(len(row) for row in rows)]
    known_safe = int(rows[-1].split(b" ", 3)[2])
    for start, end in itertools.combinations(range(0, len(data) - len(rows[-1]) + 1, 23), 2):
        holed = data[:start] + bytes(end - start) + data[end:]
        hit = [starts[number] < end and start < starts[number + 1] for number in range(len(rows))]
        first = hit.index(True)
        if starts[first] < known_safe:
            with pytest.raises(SnapshotError, match=rf"^line {first + 1} is damaged"):
                records.read(holed)
        else:
            left = {
                id: LINES[id] for row, gone in zip(rows, hit, strict=True) if not gone for id in ids_in(row)
            }
            assert lines(records.read(holed)) == left


def test_a_damaged_line_is_named_with_what_to_do(path):
    """The error of a damaged journal names the file and the line, and says how to go on; nothing runs."""
    data = written(path)
    Path(journal_of(str(path))).write_bytes(data.replace(b"build", b"built", 1))
    message = (
        f"{path}.journal: line 3 is damaged: its checksum does not fit; "
        f"to keep what can still be read: june snapshot recover {path}"
    )

    @step(id="never")
    def never() -> None:
        raise AssertionError("it has run")

    for look in (lambda: Snapshot.load(path), lambda: run_resumable(never, path=path)):
        with pytest.raises(SnapshotError) as caught:
            look()
        assert str(caught.value) == message
    assert sorted(os.listdir(path.parent)) == ["deploy.json.journal"]


def test_salvage_leaves_out_damaged_lines_only(path):
    """What is read for recovery is all but the damaged lines, each of which is named."""
    data = written(path)
    rows = data.splitlines(keepends=True)
    for number, row in enumerate(rows, 1):
        if not ids_in(row):
            continue
        damaged = b"".join([*rows[: number - 1], row.swapcase(), *rows[number:]])
        found = records.read(damaged, salvage=True)
        assert found.lost == (f"line {number} is damaged: its checksum does not fit",)
        assert lines(found) == {id: line for id, line in LINES.items() if id not in ids_in(row)}


# -- Anything at all.


def examples(count: int) -> settings:
    return settings(max_examples=max(1, int(count * scale())), deadline=None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ENTRY = st.fixed_dictionaries(
    {"cacheKey": TEXTS, "result": JSON},
    optional=dict.fromkeys(("digest", "parts", "meta", "more"), JSON),
)
BODIES = st.builds(
    lambda safe, record: f"{safe} {record[0]} {record[1]}",
    st.sampled_from([0, 7, 10**14]),
    st.one_of(
        st.tuples(
            st.sampled_from(["journal", "entry", "unsaved", "code", "drop"]), TEXTS | JSON.map(json.dumps)
        ),
        st.tuples(
            st.just("journal"),
            st.fixed_dictionaries(
                {"version": st.sampled_from([1, 1, 1, 2, True, "1"])},
                optional=dict.fromkeys(("scheme", "fresh", "more"), JSON),
            ).map(json.dumps),
        ),
        st.tuples(st.just("entry"), st.dictionaries(TEXTS, ENTRY | JSON, max_size=2).map(json.dumps)),
        st.tuples(st.just("unsaved"), st.dictionaries(TEXTS, TEXTS, max_size=2).map(json.dumps)),
        st.tuples(
            st.just("code"),
            st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2).map(json.dumps),
        ),
    ),
)


@st.composite
def journals_like(draw: Any) -> bytes:
    """Bytes that begin as a journal does, or as nothing does."""
    pieces = [records.header(draw(st.booleans()))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 4))):
        how = draw(st.integers(0, 3))
        if how == 0:
            pieces.append(draw(st.binary(max_size=30)))
        elif how == 1:
            pieces.append(bytes(draw(st.integers(0, 40))))
        else:
            pieces.append(records._line(draw(BODIES)))
    data = b"".join(pieces)
    return data[draw(st.integers(0, len(data))) if draw(st.booleans()) else 0 :]


@pytest.mark.slow
@examples(300)
@example(data=b"")
@example(data=b"\0" * 100)
@example(data=records.header(True)[:-1])
@example(data=b"0" * 16 + b" 999999999999999 ")
@example(data=b"0" * 16 + b" 9999999999999999 ")
@given(data=st.binary(max_size=200) | journals_like())
def test_any_bytes_are_a_journal_or_an_error(tmp_path_factory, data):
    """Whatever stands in a journal, loading gives a snapshot that can be used, nothing, or a SnapshotError."""
    path = tmp_path_factory.getbasetemp() / "any.json"
    Path(journal_of(str(path))).write_bytes(data)
    try:
        loaded = Snapshot.load(path)
    except (SnapshotError, FileNotFoundError):
        return
    assert Snapshot.from_json(loaded.to_json()) == loaded


IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
RESULTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@examples(100)
@given(steps=st.dictionaries(IDS, RESULTS, max_size=4), unsaved=st.dictionaries(IDS, IDS, max_size=2))
@example(steps={'a"b\\c\nd\te\u2028f\x85g\rh': "\n\0\r\n", "„ü“ 🦆": "\u2029"}, unsaved={"\n": "\0"})
def test_records_round_trip(steps, unsaved):
    """What is written is read as it was, whatever characters are in ids, keys and results."""
    recipe = ENTRIES[0].recipe
    entries = [
        Finished(id, 0, "step:" + "0" * 32, json.dumps(value).encode(), None, recipe, b"", 1e9, 0.25)
        for id, value in steps.items()
    ]
    data = records.header(False) + records.code_line(recipe.rows, 7)
    data += b"".join(records.entry_line(entry, 99) for entry in entries)
    data += b"".join(records.unsaved_line(id, key, 99) for id, key in unsaved.items())
    found = records.read(data)
    assert lines(found) == {entry.id: entry.line(entry.id) for entry in entries if entry.id not in unsaved}
    assert found.unsaved == unsaved
    assert found.code == {recipe.parts["code"]: dict(recipe.records)}
    assert (found.scheme, found.fresh, found.lost) == (1, False, ())
    assert data.count(b"\n") == 2 + len(steps) + len(unsaved)


# -- By others.


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            '0 journal {"version":2,"scheme":1}',
            "its version is 2, so a newer June wrote it; this one reads version 1",
        ),
        ('0 fold {"to":"x"}', "it has a record of kind 'fold', so a newer June wrote it"),
    ],
)
def test_a_newer_journal_says_so(path, body, problem):
    """A journal of another version, or with records of another kind, is not taken for a damaged one."""
    before = b"" if "journal" in body else records.header(True)
    Path(journal_of(str(path))).write_bytes(before + records._line(body) + records.header(True))
    with pytest.raises(SnapshotError) as caught:
        Snapshot.load(path)
    assert problem in str(caught.value)
    assert "damaged" not in str(caught.value)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        b'0 entry {"a":{"cacheKey":"step:0","result":"\xff"}}',
        b'0 entry {"a":{"cacheKey":"step:0"}}',
        b'0 entry {"a":{"result":1}}',
        b'0 entry {"a":{"cacheKey":1,"result":1}}',
        b'0 entry {"a":{"cacheKey":"step:0","result":%b}}' % DEEP,
        b'0 entry {"a":7}',
        b'0 entry {"a":',
        b"0 entry []",
        b'0 unsaved {"a":1}',
        b'0 code {"a":{"b":1}}',
        b"0 entry",
        b"entry {}",
        b"0 Entry {}",
        b"",
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_line_that_june_does_not_write_is_named(body):
    """A line is not believed for its checksum alone."""
    line = records.framed_line(body)
    with pytest.raises(SnapshotError, match=r"^line 2 is not as June writes it"):
        records.read(records.header(True) + line + records.code_line(ENTRIES[0].recipe.rows, 0))


def test_a_file_that_is_no_journal_says_so(path):
    """What is no journal is an error that names it."""
    for data in (b"hello\n", b"# notes\n\nnothing here\n", written(path).split(b"\n", 1)[1]):
        Path(journal_of(str(path))).write_bytes(data)
        with pytest.raises(SnapshotError, match=rf"^{path}\.journal: line 1 "):
            Snapshot.load(path)


# -- With its file, or without.


def test_a_file_and_its_journal_are_one_snapshot(path):
    """Loading gives the file's entries and over them the journal's, with what explains their keys."""
    changed, kept = ENTRIES[0], ENTRIES[1]
    before = {"cacheKey": "step:old", "result": 1}
    by_hand = {"version": 1, "steps": {changed.id: before, "other": before, "odd": before}, "note": [1]}
    Snapshot.from_dict(by_hand | {"unsaved": {kept.id: "step:1", "loose": "step:2"}}).save(path)
    data = written(path, fresh=False)
    loaded = Snapshot.load(path)
    contents = loaded.contents
    assert set(loaded) == {*LINES, "other"}
    assert {id: contents.steps[id].line(id) for id in LINES} == LINES
    assert contents.steps["other"].cacheKey == "step:old"
    assert contents.unsaved == {"odd": "step:0", "loose": "step:2"}
    assert {row for entry in ENTRIES for row in entry.rows()} == set(contents.code)
    assert loaded.to_dict()["note"] == [1]
    assert Snapshot.from_json(loaded.to_json()) == loaded
    # Looking changes nothing.
    assert Path(journal_of(str(path))).read_bytes() == data


def test_a_journal_counts_without_a_file_only_if_there_was_none(path):
    """Who removes the snapshot file has removed the snapshot; a first run's journal is one by itself."""
    written(path, fresh=True)
    assert set(Snapshot.load(path)) == set(LINES)
    EMPTY.save(path.with_name("other.json"))
    written(path, fresh=False)
    with pytest.raises(FileNotFoundError) as caught:
        Snapshot.load(path)
    assert caught.value.filename == str(path)
    EMPTY.save(path)
    assert list(Snapshot.load(path)) == []


def test_saving_over_a_journal_replaces_it_too(path):
    """A snapshot that is saved is what is loaded after, whatever journal was left there."""
    written(path)
    Snapshot.load(path).without(["plan"]).save(path)
    assert os.listdir(path.parent) == ["deploy.json"]
    assert set(Snapshot.load(path)) == set(LINES) - {"plan"}


def test_saving_to_a_file_that_a_run_saves_to_is_an_error(path):
    """Who saves a snapshot where a run does, is told which process has the file; the run goes on."""

    @step(id="saves", runs_on="inline")
    def saves() -> str:
        with pytest.raises(SnapshotError) as caught:
            EMPTY.save(path)
        return str(caught.value)

    result = run_resumable(saves, path=path, keep=True)
    assert (
        result.result
        == f"{path} is in use by another run in this process, {os.getpid()}; wait for it, or save to another file"
    )
    assert list(Snapshot.load(path)) == ["saves"]


# -- How it is written.


def test_lines_stand_in_the_order_in_which_steps_finished(path):
    """Small lines wait behind a large one that is being written, and whoever waits is told in order."""
    large = Finished("large", 0, "step:1", b'"%b"' % (b"x" * LARGE), None, ENTRIES[0].recipe, b"", 1e9, 0.25)
    told: list[tuple[Any, SnapshotError | None]] = []
    going, go = threading.Event(), threading.Event()
    journal = begin(path)
    append = journal._append

    def held(data: bytes) -> None:
        if len(data) > LARGE:
            going.set()
            assert go.wait(10)
        append(data)

    journal._append = held
    journal.attend(lambda ticket, problem: told.append((ticket, problem)), lambda problem: None)
    assert journal.finish("a", ENTRIES[0])
    assert not journal.finish("b", large)
    assert going.wait(10)
    assert not journal.finish("c", ENTRIES[1])
    assert not journal.unsaved("d", "odd", "step:0")
    assert told == []
    go.set()
    journal.flush()
    assert told == [("b", None), ("c", None), ("d", None)]
    assert not journal.busy
    assert journal.finish("e", ENTRIES[2])
    found = records.read(close(journal))
    assert list(found.steps) == [ENTRIES[0].id, "large", ENTRIES[1].id, ENTRIES[2].id]
    assert found.unsaved == {"odd": "step:0"}


def test_every_line_is_made_safe_though_nobody_asks(path, monkeypatch):
    """What is written is covered by an fsync soon, also if it is written during one, and the name too."""
    monkeypatch.setattr(journals, "SYNC_SECONDS", 0.0)
    left = list(ENTRIES)
    begun, safe = threading.Event(), threading.Event()
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        assert begun.wait(10)
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        if left:
            # Who finishes now comes too late for this one.
            assert journal.finish(None, left.pop())
        else:
            safe.set()

    monkeypatch.setattr(_disk, "sync", sync)
    journal = begin(path)
    begun.set()
    assert safe.wait(10)
    close(journal)
    assert journal.safe == journal.written == os.path.getsize(journal.path)
    assert synced.count("folder") == 1


def test_the_end_waits_for_the_last_fsync_unless_the_file_goes(path, monkeypatch):
    """Closing makes all of it safe, or leaves it."""
    monkeypatch.setattr(journals, "SYNC_SECONDS", 1e6)
    for sync in (True, False):
        journal = begin(path)
        for entry in ENTRIES:
            journal.finish(None, entry)
        journal.close(sync)
        assert journal.safe == (os.path.getsize(journal.path) if sync else 0)
        journal.close(sync)  # again, which does nothing


@pytest.mark.parametrize("cuts", [True, False])
@pytest.mark.parametrize("short", [0, 60])
def test_after_a_line_that_could_not_be_written_there_is_none(path, monkeypatch, cuts, short):
    """A write that fails leaves the lines before it, and nothing comes after it, also where it stays torn."""
    journal = begin(path)
    journal.finish(None, ENTRIES[0])
    before = Path(journal.path).read_bytes()
    calls = iter([lambda file, data: os.write(file, data[:short]), None] if short else [None])

    def write(file: int, data: bytes) -> int:
        call = next(calls)
        if call is None:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return call(file, data)

    def cut(file: int, length: int) -> None:
        if not cuts:
            raise OSError(EIO, os.strerror(EIO))
        os.ftruncate(file, length)

    monkeypatch.setattr(_disk, "write", write)
    monkeypatch.setattr(_disk, "cut", cut)
    with pytest.raises(SnapshotError) as caught:
        journal.finish(None, ENTRIES[1])
    assert str(caught.value) == "deploy.json.journal cannot be written: No space left on device"
    assert caught.value.__cause__.errno == ENOSPC
    monkeypatch.setattr(_disk, "write", os.write)
    for again in (lambda: journal.finish(None, ENTRIES[2]), lambda: journal.unsaved(None, "odd", "step:0")):
        with pytest.raises(SnapshotError) as twice:
            again()
        assert twice.value is caught.value
    after = close(journal)
    assert after == (before if cuts else before + after[len(before) :][:short])
    assert list(Snapshot.load(path)) == [ENTRIES[0].id]


def test_who_waits_for_a_large_line_is_told_that_it_failed(path, monkeypatch):
    """Where the thread cannot write a line, whoever waits for it, or behind it, is told why."""
    large = Finished("large", 0, "step:1", b'"%b"' % (b"x" * LARGE), None, ENTRIES[0].recipe, b"", 1e9, 0.25)
    told: list[tuple[Any, SnapshotError | None]] = []
    journal = begin(path)
    journal.attend(lambda ticket, problem: told.append((ticket, problem)), lambda problem: None)
    journal.finish("a", ENTRIES[0])

    def write(file: int, data: bytes) -> int:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(_disk, "write", write)
    journal.finish("b", large)
    journal.flush()
    [(ticket, problem)] = told
    assert ticket == "b"
    assert str(problem) == "deploy.json.journal cannot be written: No space left on device"
    close(journal)
    assert list(Snapshot.load(path)) == [ENTRIES[0].id]


@pytest.mark.skipif(os.name != "posix", reason="links and modes are as POSIX has them")
def test_a_journal_is_its_owners_and_follows_no_link(path, tmp_path):
    """A journal is a new file with mode 0600; a link in its place is replaced, and not written through."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    os.symlink(elsewhere, journal_of(str(path)))
    journal = begin(path)
    close(journal)
    assert elsewhere.read_text() == "mine"
    assert not os.path.islink(journal.path)
    assert stat.S_IMODE(os.stat(journal.path).st_mode) == 0o600
