"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from whymask.errors import WhymaskError


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise WhymaskError(f"cannot write {path}: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def writable(folder: Path) -> None:
    """Make the folder, or say at once that nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WhymaskError(f"cannot write to {folder}: {error.strerror}.") from None
    if not os.access(folder, os.W_OK):
        raise WhymaskError(f"cannot write to {folder}.")
