"""The records of a run: one JSON line per sample, method and seed, only ever appended.

Every process writes its own file, so two of them cannot mix their lines, and a line that a killed process left
half-written stays the last of its file, where reading drops it. Any other line that is not a record is skipped: it
costs its own result, which the next run computes again. What the numbers depend on besides the sample and the seed, a
row's settings, stands in rows/HASH.json; the lines name that hash.
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from whymask.bench.layout import Layout
from whymask.errors import WhymaskError
from whymask.utils.digest import digest
from whymask.utils.files import atomic, sync_folder, writable
from whymask.utils.redact import public

Record = dict[str, Any]

LONGEST = 2**24  # bytes of a line; the record of a thousand regions has about ten thousand
LARGEST = 2**63  # no number of a record is larger
TEXTS = ("key", "row", "sample", "error", "label", "given", "mistake", "answer", "layout")
LISTS = ("order", "mask", "right")
POINTS = ("insertion", "deletion")
OPTIONAL = ("mistake", "removed", "kept")  # may be null


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
        """The key of one result, given the digest of its sample."""
        return digest([self.hash, sample, seed])


class Store:
    """The records in a folder, and a file to append to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {}
        self.records: dict[str, Record] = {}  # results by key
        self.errors: dict[str, Record] = {}  # failures by key, where there is no result
        self.skipped = 0  # lines that are no records
        self._read: dict[Path, int] = {}  # how much of each file is known
        self._file: int | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read what has been written since the last call."""
        for file in sorted((self.folder / "rows").glob("*.json")):
            if file.stem not in self.rows:
                self.rows[file.stem] = _row(file)
        for file in sorted(self.folder.glob("records-*.jsonl")):
            if file.is_file():
                try:
                    self._read_on(file)
                except OSError as error:
                    raise WhymaskError(f"{file} cannot be read: {error.strerror}.") from None

    def _read_on(self, file: Path) -> None:
        with file.open("rb") as opened:
            opened.seek(self._read.get(file, 0))
            while line := _whole_line(opened):
                self._read[file] = opened.tell()
                record = _record(line)
                if record is not None:
                    self._know(record)
                elif line.strip():
                    self.skipped += 1

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
        """Write a record; it survives the end of this process, however that comes.

        A layout in it is written first, into a separate file, and the record names it.
        """
        if isinstance(layout := record.get("layout"), Layout):
            record = {**record, "layout": layout.save(self.folder)}
        data = json.dumps(record).encode() + b"\n"
        try:
            if self._file is None:
                name = f"records-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
                self._file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
                sync_folder(self.folder)
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._cannot_write(error) from None
        self._know(record)

    def close(self) -> None:
        """Close the file that this process writes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @contextmanager
    def claim(self, name: str, wait: bool) -> Iterator[bool]:
        """Keep other processes off a piece of work; False where one of them has it. A claim ends with its process."""
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
            f"cannot write to {self.folder}: {error.strerror}; earlier records are kept, and the same command "
            "resumes the run."
        )

    def _know(self, record: Record) -> None:
        key = record["key"]
        if "error" not in record:
            self.records.setdefault(key, record)
            self.errors.pop(key, None)
        elif key not in self.records:
            self.errors[key] = record


def _whole_line(opened: IO[bytes]) -> bytes:
    """The next line, cut off where it is too long; nothing where its end has not been written."""
    line = rest = opened.readline(LONGEST)
    while rest and not rest.endswith(b"\n"):
        rest = opened.readline(LONGEST)
    return line if rest else b""


def _record(line: bytes) -> Record | None:
    """The record of a line, where it has the form of one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not {"key", "row", "sample", "seed"} <= found.keys():
        return None
    complete = "error" in found or "mec" in found
    return found if complete and all(_fits(name, value) for name, value in found.items()) else None


def _fits(name: str, value: Any) -> bool:
    """Whether a record can have this value under this name: a text, a list of regions or scores, or a number."""
    if value is None:
        return name in OPTIONAL
    if name in TEXTS:
        return isinstance(value, str)
    if name in LISTS:
        return isinstance(value, list) and all(type(region) is int for region in value)
    if name in POINTS:
        return isinstance(value, list) and all(map(_is_number, value))
    return _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < LARGEST


def _row(file: Path) -> Row:
    """The row of a file, whose name is its hash."""
    try:
        stored = json.loads(file.read_bytes())
        row = Row(**{**stored, "place": tuple(map(index, stored["place"]))})
        texts = (*row.names, row.emphasis, row.returns, row.needs)
        if row.hash == file.stem and isinstance(row.settings, dict) and all(isinstance(text, str) for text in texts):
            return row
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    raise WhymaskError(f"{file} is damaged; remove it and repeat the 'whymask bench run', which writes it again.")


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first setting in which they differ."""
    for name in sorted({*one, *other}):
        old, new = one.get(name), other.get(name)
        if old != new:
            if isinstance(old, Mapping) and isinstance(new, Mapping):
                return f"{name} {_difference(old, new)}"
            known, now = public({name: old}), public({name: new})
            return f"{name} ({known[name]!r}, now {now[name]!r})" if name in known and name in now else name
    raise AssertionError("they are the same")
