"""
Journals: files to which a run appends what has finished, and that a thread makes safe meanwhile.

Small lines are written where the step has finished, on the event loop: that takes a microsecond or two, and
then no end of the process can lose them. Large ones are left to the journal's thread, and whatever comes
while one is being written queues up behind it, so that only one thread ever writes. The thread also calls
fsync, for all that has been written since the last time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from errno import EEXIST
from time import monotonic
from typing import Any

from june import _disk
from june.entries import Finished
from june.errors import SnapshotError
from june.keys import Recipe
from june.records import code_line, entry_line, header, unsaved_line

SYNC_SECONDS = 0.02
"""How long a line waits for fsync at most. What is promised is 50 ms, as fsync takes its time too."""

LARGE = 64 * 1024
"""Results of more bytes than this are written by the thread."""

Done = Callable[[Any, SnapshotError | None], object]


def storage_error(shown: str, error: Exception) -> SnapshotError:
    """Say that a file could not be written, and why."""
    reason = error.strerror if isinstance(error, OSError) else None
    problem = SnapshotError(f"{shown} cannot be written: {reason or f'{type(error).__name__}: {error}'}")
    problem.__cause__ = error
    return problem


class Journal:
    """
    A journal that one run appends to. All methods but `close` are for the thread of the run's event loop.

    Attributes:
        path: Its file.
        written: How many bytes it has.
        safe: How many of them are on the disk.
        problem: Why it cannot be written any more, or None.
    """

    def __init__(self, path: str, shown: str, fresh: bool) -> None:
        """
        Begin a journal, in place of one that may be there.

        Args:
            path: Its file.

            shown: What messages call it.

            fresh: Whether there is no snapshot file yet.

        Raises:
            OSError: If it cannot be written.
        """
        self.path = path
        self.written = 0
        self.safe = 0
        self.problem: SnapshotError | None = None
        self._shown = shown
        self._tables: set[str] = set()
        # What the thread has to write: a ticket for whoever waits, and how to make the lines. While there is
        # anything, everything goes there. The event loop counts what it leaves, the thread what it has done.
        self._queue: deque[tuple[Any, Callable[[], bytes] | None]] = deque()
        self._left = 0
        self._taken = 0
        self._dirty = False
        self._folder_safe = False
        self._closing = False
        self._wake = threading.Event()
        self._done: Done = lambda ticket, problem: None
        self._broke: Callable[[SnapshotError], object] = lambda problem: None
        _disk.remove_if_there(path)
        self._file = _disk.create(path)
        try:
            self._append(header(fresh))
        except BaseException:
            os.close(self._file)
            raise
        self._thread = threading.Thread(target=self._work, name="june-journal", daemon=True)
        self._thread.start()

    def attend(self, done: Done, broke: Callable[[SnapshotError], object]) -> None:
        """
        Say whom the thread is to tell, from where it is.

        Args:
            done: Called with the ticket of what has been written, and None or why it could not be.

            broke: Called with the reason once what was written may not have reached the disk.
        """
        self._done = done
        self._broke = broke

    @property
    def busy(self) -> bool:
        """Whether the thread has anything to write."""
        return self._left != self._taken

    # -- For the event loop.

    def finish(self, ticket: Any, entry: Finished) -> bool:
        """
        Write the line of a step that has finished.

        Args:
            ticket: What to name it by if it is written later.
            entry: The step.

        Returns:
            Whether it is written; or else it will be, and whoever attends is told.

        Raises:
            SnapshotError: If it cannot be written.
        """
        if self.problem is not None:
            raise self.problem
        recipe = entry.recipe
        if recipe.table not in self._tables:
            return self._finish_slowly(ticket, entry, self._new_rows(recipe))
        if self._left != self._taken or len(entry.result) > LARGE:
            return self._finish_slowly(ticket, entry, {})
        # What `_append` does, without the call: it is done for every step.
        line = entry_line(entry, self.safe)
        try:
            written = _disk.write(self._file, line)
        except OSError as error:
            raise self._cut_short(error) from error
        if written < len(line):
            self._append_rest(line, written)
        self.written += len(line)
        if not self._dirty:
            self._dirty = True
            self._wake.set()
        return True

    def _new_rows(self, recipe: Recipe) -> Mapping[str, Mapping[str, str]]:
        """Give what of a step's code table has not been written yet; it is, from now on."""
        new = {name: row for name, row in recipe.rows.items() if name not in self._tables}
        self._tables.update((recipe.table, *new))
        return new

    def _finish_slowly(self, ticket: Any, entry: Finished, rows: Mapping[str, Mapping[str, str]]) -> bool:
        if self._left != self._taken or len(entry.result) > LARGE:
            self._leave(ticket, lambda: self._lines(entry, rows))
            return False
        self._append(self._lines(entry, rows))
        return True

    def unsaved(self, ticket: Any, id: str, key: str) -> bool:
        """Write, as `finish` does, that a step has finished and its result could not be saved."""
        if self.problem is not None:
            raise self.problem
        if self.busy:
            self._leave(ticket, lambda: unsaved_line(id, key, self.safe))
            return False
        self._append(unsaved_line(id, key, self.safe))
        return True

    def _lines(self, entry: Finished, rows: Mapping[str, Mapping[str, str]]) -> bytes:
        line = entry_line(entry, self.safe)
        return code_line(rows, self.safe) + line if rows else line

    def _leave(self, ticket: Any, make: Callable[[], bytes]) -> None:
        self._left += 1
        self._queue.append((ticket, make))
        self._wake.set()

    # -- For whichever thread writes.

    def _append(self, lines: bytes) -> None:
        self._append_rest(lines, 0)
        self.written += len(lines)
        if not self._dirty:
            self._dirty = True
            self._wake.set()

    def _append_rest(self, lines: bytes, written: int) -> None:
        try:
            _disk.write_all(self._file, lines[written:] if written else lines)
        except OSError as error:
            raise self._cut_short(error) from error

    def _cut_short(self, error: OSError) -> SnapshotError:
        """Take back what there is of a line that cannot be written."""
        try:
            _disk.cut(self._file, self.written)
        except OSError:
            # It stays as one that was cut short, and nothing is written after it.
            pass
        return self._broken(error)

    def _broken(self, error: Exception) -> SnapshotError:
        self.problem = self.problem or storage_error(self._shown, error)
        return self.problem

    # -- The thread.

    def _work(self) -> None:
        due: float | None = None
        while True:
            self._wake.wait(None if due is None else max(0.0, due - monotonic()))
            self._wake.clear()
            closing = self._closing
            while self._queue:
                self._write_next()
            if not self._dirty:
                due = None
            elif closing or (due is not None and monotonic() >= due):
                due = None
                self._make_safe()
            elif due is None:
                due = monotonic() + SYNC_SECONDS
            if closing:
                return

    def _write_next(self) -> None:
        ticket, make = self._queue.popleft()
        if make is None:
            ticket.set()
            return
        problem = self.problem
        try:
            if problem is None:
                self._append(make())
        except SnapshotError as error:
            problem = error
        except Exception as error:
            # There is no memory for a line, say.
            problem = self._broken(error)
        self._done(ticket, problem)
        self._taken += 1

    def _make_safe(self) -> None:
        self._dirty = False
        written = self.written
        try:
            self.check_place()
            _disk.sync(self._file)
            if not self._folder_safe:
                _disk.sync_folder(os.path.dirname(self.path))
                self._folder_safe = True
        except OSError as error:
            self._broke(self._broken(error))
        else:
            self.safe = written

    def check_place(self) -> None:
        """
        Check that the file is still where it was made.

        Raises:
            FileNotFoundError: If it is gone.
            FileExistsError: If another one is there.
        """
        if not os.path.samestat(os.stat(self.path), os.fstat(self._file)):
            raise FileExistsError(EEXIST, "another file has taken its place")

    # -- The end.

    def flush(self) -> None:
        """Wait until the thread has written what it was left, and told whoever attends."""
        reached = threading.Event()
        self._queue.append((reached, None))
        self._wake.set()
        reached.wait()

    def close(self, sync: bool) -> None:
        """
        Write what is left, end the thread, and close the file, which stays; nothing happens if that is done.

        Args:
            sync: Whether to wait until all of it is on the disk.
        """
        if self._closing:
            return
        self._dirty = self._dirty and sync
        self._closing = True
        self._wake.set()
        self._thread.join()
        os.close(self._file)
