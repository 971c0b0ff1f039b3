"""The records of a run: one JSON line per sample, method and seed, only ever appended.

Every process writes a file of its own, so two of them cannot mix their lines, and a line that a killed process left
half-written stays the last of its file, where reading drops it. What the numbers depend on besides the sample and the
seed, a row's settings, stands in rows/HASH.json; the lines name that hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from whymask.errors import WhymaskError
from whymask.files import atomic, writable

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of a table: a method on a split of a model."""

    model: str
    split: str
    method: str
    settings: Mapping[str, Any]  # everything else that can change its numbers
    emphasis: str
    returns: str  # "mask" or "ordering"
    needs: str  # "sets", "pixels" or "gradients"
    place: tuple[int, ...]  # in the configuration (model, split, method), and so in tables

    @property
    def names(self) -> tuple[str, str, str]:
        """What the row is known by in tables."""
        return self.model, self.split, self.method

    @cached_property
    def hash(self) -> str:
        """Changes with whatever can change its numbers."""
        return digest([*self.names, self.settings])

    def key(self, sample: str, seed: int) -> str:
        """Of one result, given the digest of its sample."""
        return digest([self.hash, sample, seed])


def digest(value: Any) -> str:
    """A short hash of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Store:
    """The records in a folder, and a file to append to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {}
        self.records: dict[str, Record] = {}  # results by key
        self.errors: dict[str, Record] = {}  # failures by key, where there is no result
        self._read: dict[Path, int] = {}  # how much of each file is known
        self._file: int | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read what was written since."""
        for file in sorted((self.folder / "rows").glob("*.json")):
            if file.stem not in self.rows:
                stored = _json(file.read_bytes(), file)
                self.rows[file.stem] = Row(**{**stored, "place": tuple(stored["place"])})
        for file in sorted(self.folder.glob("records-*.jsonl")):
            start = self._read.get(file, 0)
            with file.open("rb") as opened:
                opened.seek(start)
                new = opened.read()
            whole = new[: new.rfind(b"\n") + 1]  # what follows is half a line
            self._read[file] = start + len(whole)
            for line in whole.splitlines():
                self._know(_json(line, file))

    def declare(self, rows: list[Row]) -> None:
        """Name the rows that will be written; one that is there with other settings is not mixed with it."""
        for row in rows:
            for other in self.rows.values():
                if other.names == row.names and other.hash != row.hash:
                    raise WhymaskError(
                        f"{self.folder} holds records of {row.method!r} ({row.model}, {row.split}) with another "
                        f"{_difference(other.settings, row.settings)}; use another folder or name."
                    )
        for row in rows:
            if self.rows.get(row.hash) != row:
                with atomic(self.folder / "rows" / f"{row.hash}.json") as file:
                    file.write(json.dumps(asdict(row), indent=2, sort_keys=True).encode())
                self.rows[row.hash] = row

    def append(self, record: Record) -> None:
        """Write a record; it survives the end of this process, however that comes."""
        data = json.dumps(record).encode() + b"\n"
        try:
            if self._file is None:
                name = f"records-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
                self._file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._cannot_write(error) from None
        self._know(record)

    def close(self) -> None:
        """Done with writing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @contextmanager
    def claim(self, name: str, wait: bool) -> Iterator[bool]:
        """Keep other processes off a piece of work; False where one of them has it. Its end, however, frees it."""
        folder = self.folder / "locks"
        writable(folder)
        lock = FileLock(folder / f"{name}.lock", blocking=wait)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        except OSError as error:
            raise self._cannot_write(error) from None
        try:
            yield True
        finally:
            lock.release()

    def _cannot_write(self, error: OSError) -> WhymaskError:
        return WhymaskError(
            f"cannot write to {self.folder}: {error.strerror}; nothing written before is lost, and the same command "
            "goes on from there."
        )

    def _know(self, record: Record) -> None:
        key = record["key"]
        if "error" not in record:
            self.records.setdefault(key, record)
            self.errors.pop(key, None)
        elif key not in self.records:
            self.errors[key] = record


def _json(data: bytes, file: Path) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError:
        raise WhymaskError(f"{file} is damaged; take it out of the folder to compute its results again.") from None


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first setting in which they differ."""
    for name in sorted({*one, *other}):
        old, new = one.get(name), other.get(name)
        if old != new:
            if isinstance(old, Mapping) and isinstance(new, Mapping):
                return f"{name} {_difference(old, new)}"
            return f"{name} ({old!r}, now {new!r})"
    raise AssertionError("they are the same")
