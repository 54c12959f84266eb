"""
Storage: a snapshot file that a run keeps up to date, with its journal and its lock.

Beside ``deploy.json`` there are, while a run is on,

* ``deploy.json.lock``, which tells other runs to keep off;
* ``deploy.json.journal``, with a line for each step that has finished since the file was written;
* for a moment ``deploy.json.journal.new``, which is about to take the place of the file.

The file is only ever replaced as a whole, by what it and the journal hold together. The journal goes when
that is safe on the disk, so at any time one of the two has every entry.
"""

from __future__ import annotations

import os
import stat
import threading

from june import _disk
from june._locks import FileLock
from june.errors import SnapshotError
from june.journals import Journal, storage_error
from june.snapshots import Snapshot, journal_of


class Storage:
    """
    The file that one run saves to, while it holds the lock on it.

    Attributes:
        shown: What to call the file in messages.
        snapshot: What it held, or None if there was none.
        journal: The run's journal, once it has begun.
        gone: Whether the file has been removed, as the run succeeded.
    """

    def __init__(self, path: str | os.PathLike[str], keep: bool, hold: bool = False) -> None:
        """
        Lock the file, and load it and what a journal that was left behind adds to it.

        Args:
            path: The file; there need be none yet, but the folder that it is to be in.

            keep: Whether the file is to stay when the run has succeeded.

            hold: Whether it is to stay, and nobody else's, until `settle` or `release`.

        Raises:
            SnapshotError: If it is in use, cannot be read or written, is damaged, or is no snapshot.
        """
        self.shown = os.fsdecode(path)
        self.journal: Journal | None = None
        self.gone = False
        self._keep = keep
        self._hold = hold
        # Held while the file is brought up to date at the end, which may go on in a thread that nobody waits
        # for any more.
        self._ending = threading.Lock()
        # Relative to where this process is now; a step may go elsewhere.
        self._path = os.path.realpath(self.shown)
        self._journal_path = journal_of(self._path)
        self._new_path = self._journal_path + ".new"
        self._check()
        try:
            self._lock = FileLock(self._path, self.shown)
        except OSError as error:
            raise storage_error(f"{self.shown}.lock", error) from error
        try:
            self.snapshot = self._load()
        except BaseException:
            self._lock.release()
            raise

    def _check(self) -> None:
        folder = os.path.dirname(self._path)
        if not self.shown:
            raise SnapshotError("path is empty; name the file to save to")
        if not os.path.isdir(folder):
            link = " (it is a link)" if os.path.islink(self.shown) else ""
            raise SnapshotError(f"{self.shown} cannot be written: there is no folder {folder}{link}")
        try:
            mode = os.stat(self._path).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(self.shown, error) from error
        if not stat.S_ISREG(mode):
            raise SnapshotError(f"{self.shown} is {'a folder' if stat.S_ISDIR(mode) else 'no ordinary file'}")

    def _load(self) -> Snapshot | None:
        try:
            return Snapshot.load(self.shown)
        except FileNotFoundError:
            return None
        except OSError as error:
            journal = error.filename == self._journal_path
            shown = journal_of(self.shown) if journal else self.shown
            raise SnapshotError(f"{shown} cannot be read: {error.strerror or error}") from error

    def begin(self, snapshot: Snapshot) -> Journal:
        """
        Begin a journal for a run.

        Args:
            snapshot: What the run starts from: all that the file and a journal left behind hold, in order.

        Raises:
            SnapshotError: If the files cannot be written.
        """
        try:
            if os.path.lexists(self._journal_path):
                if self.snapshot is not None:
                    self._fold(snapshot)
                _disk.remove_if_there(self._journal_path)
            _disk.remove_if_there(self._new_path)
            self.journal = Journal(
                self._journal_path, journal_of(self.shown), fresh=not os.path.exists(self._path)
            )
        except OSError as error:
            raise storage_error(self.shown, error) from error
        return self.journal

    def _fold(self, snapshot: Snapshot) -> None:
        """Replace the file, and wait until that is safe."""
        _disk.replace(self._path, snapshot.to_json(), self._new_path)

    def end(self, snapshot: Snapshot, succeeded: bool) -> None:
        """
        Bring the file up to date, or remove it, and let others have it; nothing happens if that is done.

        Args:
            snapshot: What the run has finished, and what of the file it has left as it is.
            succeeded: Whether all of the run is done.

        Raises:
            SnapshotError: If it cannot be written. The file and the journal are as they were.
        """
        with self._ending:
            try:
                if self.journal is not None:
                    self._end(self.journal, snapshot, succeeded and not self._keep and not self._hold)
            except OSError as error:
                raise storage_error(self.shown, error) from error
            finally:
                if not self._hold:
                    self._let_go()

    def _end(self, journal: Journal, snapshot: Snapshot, remove: bool) -> None:
        try:
            journal.check_place()
        except FileNotFoundError:
            # Somebody has removed it; what it held can still be saved.
            pass
        journal.close(sync=not remove)
        if remove and journal.problem is None:
            # Where something broke at the last moment, the run has failed, and the file is what there is.
            self.gone = True
            was_there = os.path.lexists(self._path)
            try:
                _remove(self._path)
            except OSError:
                # A journal whose file is gone counts for nothing, so all is done; one that never had a file
                # is all that there is.
                if not was_there or os.path.lexists(self._path):
                    self.gone = False
                    raise
        else:
            self._fold(snapshot)
            _disk.remove_if_there(self._journal_path)

    def settle(self) -> None:
        """
        Remove the file of a run that has succeeded, after all, unless it is to stay.

        Raises:
            SnapshotError: If it cannot be removed.
        """
        if self._keep:
            return
        with self._ending:
            try:
                _remove(self._path)
            except OSError as error:
                raise SnapshotError(f"{self.shown} cannot be removed: {error.strerror or error}") from error

    def restore(self, snapshot: Snapshot) -> None:
        """
        Write the file again after all, which a run that succeeded has removed.

        Raises:
            SnapshotError: If it cannot be written, or somebody else has it by now.
        """
        with self._ending:
            try:
                self._lock = FileLock(self._path, self.shown)
                self._fold(snapshot)
            except OSError as error:
                raise storage_error(self.shown, error) from error
            finally:
                self._let_go()

    def release(self) -> None:
        """Let others have the file, and leave what is there as it is; nothing happens if that is done."""
        # Where the end is still under way, it does so itself.
        if self._ending.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._ending.release()

    def _let_go(self) -> None:
        if self.journal is not None:
            self.journal.close(sync=False)
        self._lock.release()


def _remove(path: str) -> None:
    # In this order, and with the wait between: a journal that goes with a file that is gone counts for
    # nothing, while a file without its journal would lack what has finished in this run.
    try:
        _disk.remove(path)
    except FileNotFoundError:
        pass
    else:
        _disk.sync_folder(os.path.dirname(path))
    _disk.remove_if_there(journal_of(path))
