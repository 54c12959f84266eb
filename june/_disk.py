"""
Files: the few system calls by which June changes a disk, each under one name.

Everything that must survive a crash goes through here, so that a test can stand in the way of every single
call. What survives what: a killed process loses nothing that `write` was given; a power cut loses what no
`sync` has covered since, and names of files that no `sync_folder` has.
"""

from __future__ import annotations

import os

_NEW = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)


def create(path: str) -> int:
    """Make a file that is not there yet, for its owner only, and open it to append to."""
    return os.open(path, _NEW, 0o600)


write = os.write
"""Append bytes to an open file, and say how many of them were."""

sync = os.fsync
"""Wait until all of an open file is on the disk."""

cut = os.ftruncate
"""Cut an open file to a length."""

rename = os.replace
"""Give a file another's name, in whose place it is from then on."""

remove = os.unlink
"""Remove a file."""


def sync_folder(path: str) -> None:
    """Wait until the names in a folder are on the disk, where the system can say so."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


# -- Put together from those.


def write_all(descriptor: int, data: bytes) -> None:
    """
    Append all of *data* to an open file.

    Raises:
        OSError: If that cannot be done; some of it may be there.
    """
    written = write(descriptor, data)
    if written < len(data):
        rest = memoryview(data)
        while written < len(data):
            written += write(descriptor, rest[written:])


def remove_if_there(path: str) -> None:
    """Remove a file that may be gone."""
    try:
        remove(path)
    except FileNotFoundError:
        pass


def replace(path: str, data: bytes, temporary: str | None = None) -> None:
    """
    Put *data* in the place of a file, of which a reader finds either the old or the new, at any time.

    Args:
        path: The file; there need be none yet.
        data: Its new contents.
        temporary: A name in the same folder that nobody else uses; None makes one up.

    Raises:
        OSError: If that cannot be done; the file is as it was.
    """
    folder, name = os.path.split(path)
    if temporary is None:
        temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    else:
        remove_if_there(temporary)
    try:
        descriptor = create(temporary)
        try:
            write_all(descriptor, data)
            sync(descriptor)
        finally:
            os.close(descriptor)
        rename(temporary, path)
    except BaseException:
        try:
            remove_if_there(temporary)
        except OSError:
            # What went wrong before says more.
            pass
        raise
    sync_folder(folder)
