"""Temporary folders on a disk, for what is measured with all that a file costs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["is_in_memory", "temporary_folder"]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """
    Make a folder, and remove it with all that is in it.

    It is where temporary files go by default, unless that is known to be in memory and the working directory
    is not.
    """
    default, here = tempfile.gettempdir(), os.getcwd()
    place = here if is_in_memory(default) and not is_in_memory(here) else default
    with tempfile.TemporaryDirectory(prefix="june-benchmark-", dir=place) as folder:
        yield Path(folder)


def is_in_memory(path: str | Path) -> bool:
    """Tell whether a folder is known to be on a file system that has no disk (Linux)."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for mount in mounts.splitlines():
        # "36 35 0:32 / /tmp rw,nosuid shared:5 - tmpfs tmpfs rw": optional fields end with the hyphen.
        before, _, after = mount.partition(" - ")
        if before.split()[2] == number:
            return after.split()[0] in ("tmpfs", "ramfs")
    return False
