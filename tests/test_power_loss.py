"""Power loss: whatever a cut leaves on the disk loads, holds nothing wrong, and all that an fsync covered."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from june import Snapshot, _disk, journals, storage
from tests.disks import PATH, Recorder, a_file_and_a_journal, a_journal, files_in, scale
from tests.power import PLAYS, Folder, Model, Tally, cut, cut_all


@pytest.fixture(scope="module")
def total() -> Iterator[Tally]:
    """Counts; ``pytest -s`` prints what comes of it."""
    counted = Tally()
    yield counted
    print(f"\npower cuts: {counted}")


@pytest.mark.slow
@pytest.mark.parametrize("play", PLAYS)
def test_no_cut_costs_what_an_fsync_has_covered(play: str, total: Tally) -> None:
    """After a cut at any call, what an fsync covered is there, and nothing is wrong or unreadable."""
    tally = cut_all(play)
    total.add(tally)
    assert tally.problems == []
    assert tally.states > 400 * min(1.0, scale())


@pytest.mark.slow
@pytest.mark.parametrize("start", [a_journal, a_file_and_a_journal])
def test_saving_over_a_journal_is_one_change(start, tmp_path):
    """Cut anywhere, what is saved over a journal is there as a whole, or what was before; and in the end it is."""
    folders = [tmp_path / name for name in ("before", "now", "shown")]
    for folder in folders:
        folder.mkdir()
    start(folders[0])
    state = files_in(folders[0])
    before = Snapshot.load(folders[0] / PATH)
    data = before.to_dict()
    del data["steps"]["plan"]
    data["steps"]["parts"]["result"] = ["by hand"]
    after = Snapshot.from_dict(data)
    recorder = Recorder(folders[1], state)
    with recorder.recording():
        after.save(folders[1] / PATH)
    model, shown, rng = Model(state, {}), Folder(folders[2]), random.Random(0)
    for call in recorder.log:
        model.take(call)
        found = [Snapshot.load(shown.show(one)) for one in model.states(rng, 60)]
        assert all(one in (before, after) for one in found)
    assert all(one == after for one in found)


# -- The simulation itself: it would notice.


def no_fsync_before_rename(monkeypatch):
    def replace(path, data, temporary):
        descriptor = _disk.create(temporary)
        _disk.write_all(descriptor, data)
        os.close(descriptor)
        _disk.rename(temporary, path)
        _disk.sync_folder(os.path.dirname(path))

    monkeypatch.setattr(_disk, "replace", replace)


def no_fsync_of_the_folder(monkeypatch):
    replace = _disk.replace

    def without(path, data, temporary):
        sync, _disk.sync_folder = _disk.sync_folder, lambda path: None
        try:
            replace(path, data, temporary)
        finally:
            _disk.sync_folder = sync

    monkeypatch.setattr(_disk, "replace", without)


def no_fold_before_the_journal_goes(monkeypatch):
    fold = storage.Storage._fold

    def folded_late(self, snapshot):
        _disk.remove_if_there(self._journal_path)
        fold(self, snapshot)

    monkeypatch.setattr(storage.Storage, "_fold", folded_late)


def more_said_to_be_safe_than_is(monkeypatch):
    def make_safe(self):
        _disk.sync(self._file)
        _disk.sync_folder(os.path.dirname(self.path))
        self.safe = self.written  # and what came meanwhile

    monkeypatch.setattr(journals.Journal, "_make_safe", make_safe)


def a_journal_without_a_name(monkeypatch):
    def make_safe(self):
        written = self.written
        _disk.sync(self._file)
        self.safe = written

    monkeypatch.setattr(journals.Journal, "_make_safe", make_safe)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "play"),
    [
        (no_fsync_before_rename, "is_resumed"),
        (no_fsync_of_the_folder, "is_resumed"),
        (no_fold_before_the_journal_goes, "is_resumed"),
        (more_said_to_be_safe_than_is, "goes_on_during_fsyncs"),
        (a_journal_without_a_name, "is_driven"),
    ],
)
def test_a_fault_is_noticed(fault, play, tmp_path, monkeypatch):
    """The simulation finds the faults that it is there to find."""
    fault(monkeypatch)
    assert cut(play, tmp_path, limit=20, again=0).problems != []
