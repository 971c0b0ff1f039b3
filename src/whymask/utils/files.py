"""Writing files so that nobody ever sees half of one."""

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from whymask.errors import WhymaskError

PART = re.compile(r"\..+\.[0-9a-f]{16}\.part", re.DOTALL)
ABANDONED = 3600.0  # seconds since a temporary file was last written: no writer is as slow, on this host or another


@contextmanager
def atomic(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete, and then survives a crash of the machine."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
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


@cache  # once per process and folder: a folder of thousands of files is not listed for each of them
def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    with suppress(OSError):  # a folder that may be written but not listed
        for file in folder.iterdir():
            if PART.fullmatch(file.name):
                with suppress(OSError):  # another process has removed it
                    if time.time() - file.stat().st_mtime > ABANDONED:
                        file.unlink()
