"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from whymask.errors import WhymaskError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there, and nothing is removed
    fcntl = None  # type: ignore[assignment]

PART = re.compile(r"\..+\.[0-9a-f]{16}\.part", re.DOTALL)


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete, and then survives a crash of the machine."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        with _locked(temporary):
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise WhymaskError(f"cannot write {path}: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def writable(folder: Path) -> None:
    """Make the folder, or say at once that nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WhymaskError(f"cannot write to {folder}: {error.strerror}.") from None
    if not os.access(folder, os.W_OK):
        raise WhymaskError(f"cannot write to {folder}.")


@contextmanager
def _locked(temporary: Path) -> Iterator[None]:
    """Create the file and keep it locked.

    The kernel releases a lock when its process ends, for whatever reason. Unlike a process id in the name, that cannot
    be mistaken for another process, and it holds between hosts that share a folder over NFS.
    """
    if fcntl is None:
        yield
        return
    while True:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with suppress(OSError):  # a file system without locks: there, nothing can be found abandoned either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                yield
                return
            # Another process removed the file between its creation and its lock.
        finally:
            os.close(descriptor)


@cache  # a glance per process and folder: a folder of thousands of files is not listed for each of them
def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote: those that nobody has locked."""
    if fcntl is None:
        return
    with suppress(OSError):  # a folder that may be written but not listed
        for file in folder.iterdir():
            if PART.fullmatch(file.name):
                with suppress(OSError), file.open("r+b") as opened:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()
