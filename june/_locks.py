"""
Locks: one run at a time for each snapshot file.
"""

from __future__ import annotations

import os
import re
import socket
from typing import Any

from june import _disk
from june.errors import SnapshotError

_TRIES = 100
_HELD = re.compile(rb"\d+ [^\s]+\n")
_CONTENT = re.compile(rb"(?:\d+ [^\s]+\n)?|\d+(?: [^\s]*)?|\0*")


def is_locked(path: str) -> bool:
    """Tell whether a run may have locked a snapshot file: one that it wrote nothing in is somebody else's."""
    try:
        with open(path + ".lock", "rb") as file:
            return _HELD.fullmatch(file.read(300)) is not None
    except FileNotFoundError:
        return False
    except OSError:
        # Windows lets nobody read a file that is locked.
        return os.name == "nt"


class FileLock:
    """
    The lock on a snapshot file, held until released or until the process is gone.

    It is `filelock`'s: an operating system's lock on a file beside, which ends with its process, however
    that ends, and also holds between the threads of one process. The file has the holder's process id in
    it, and is removed when the lock is released.
    """

    def __init__(self, path: str, shown: str) -> None:
        """
        Take the lock.

        Args:
            path: The snapshot file, links resolved.

            shown: What to call it in messages.

        Raises:
            SnapshotError: If somebody else holds it; the text says who.
            OSError: If the lock's file cannot be written, or is no ordinary file.
        """
        import filelock  # not above: it takes longer to import than trio

        self._path = path + ".lock"
        if not self._is_lock():
            raise SnapshotError(
                f"{shown}.lock should be the lock of {shown}, but is another file; "
                "remove it, or save elsewhere"
            )
        lock = filelock.FileLock(self._path, mode=0o600, thread_local=False)
        for _ in range(_TRIES):
            try:
                lock.acquire(blocking=False)
                break
            except filelock.Timeout:
                if os.path.lexists(self._path):
                    raise SnapshotError(
                        f"{shown} is in use by {self._holder()}; wait for it, or save to another file"
                    ) from None
                # Its holder has just released it; or it cannot be made, and this raises why.
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        else:
            raise SnapshotError(f"{shown} is in use by others, one after the other; try again")
        self._lock: Any = lock
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            # Only messages need to know; Windows lets nobody else write to a file that is locked.
            pass

    def _is_lock(self) -> bool:
        """Tell whether the lock's file is not there yet, or one that June has made."""
        try:
            with open(self._path, "rb") as file:
                return _CONTENT.fullmatch(file.read(300)) is not None
        except FileNotFoundError:
            return True
        except PermissionError:
            # Windows lets nobody read a file that is locked.
            return True

    def _holder(self) -> str:
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                pid, host = file.read(300).split()
        except (OSError, ValueError):
            # It has taken the lock just now, and not written yet.
            return "another run"
        if host != socket.gethostname():
            return f"process {pid} on {host}"
        return "another run in this process, " + pid if pid == str(os.getpid()) else f"process {pid}"

    def release(self) -> None:
        """Give the lock back; nothing happens if that is done."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            # While it is held: who waits for a file that is gone notices, and makes another.
            _disk.remove_if_there(self._path)
        except OSError:
            # Windows removes no open file. It stays, which does no harm.
            pass
        finally:
            lock.release()
