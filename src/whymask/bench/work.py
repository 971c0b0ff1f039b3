"""The work that is left: groups of samples, each claimed by one process at a time."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from whymask.bench.records import Row, Store
from whymask.data.manifest import Sample
from whymask.methods import Recipe
from whymask.utils.digest import digest


class Planned(NamedTuple):
    """A row and how its results are computed."""

    row: Row
    recipe: Recipe
    seeds: tuple[int, ...]


class Item(NamedTuple):
    """One result to compute; it may have a record already."""

    row: Row
    seed: int
    sample: Sample
    key: str

    @property
    def names(self) -> dict[str, Any]:
        """The fields that identify its record."""
        return {"key": self.key, "row": self.row.hash, "sample": self.sample.id, "seed": self.seed}


@dataclass(frozen=True)
class Work:
    """Samples that are searched together, and the rows they belong to."""

    samples: list[tuple[Sample, str]]  # with their digests
    rows: list[Planned]

    @property
    def name(self) -> str:
        """A name that is the same in every process."""
        return digest([self.rows[0].row.names[:2], [sample.id for sample, _ in self.samples]])

    @property
    def items(self) -> Iterator[Item]:
        """Every result."""
        return (item for row, _, seeds in self.rows for seed in seeds for item in self.results(row, seed))

    def results(self, row: Row, seed: int) -> Iterator[Item]:
        """The result of every sample, by one row and seed."""
        return (Item(row, seed, sample, row.key(content, seed)) for sample, content in self.samples)

    def missing(self, store: Store) -> set[str]:
        """The keys of results without a record."""
        return {item.key for item in self.items if item.key not in store.records}


class Claim(NamedTuple):
    """Work that no other process does until `held` is closed, and the keys of its missing results."""

    work: Work
    missing: set[str]
    held: ExitStack


class Queue:
    """Work that this process has not claimed."""

    def __init__(self, work: Iterable[Work], store: Store) -> None:
        self.store = store
        self.waiting = deque(work)
        self.elsewhere: deque[Work] = deque()  # what other processes have claimed

    def __bool__(self) -> bool:
        return bool(self.waiting or self.elsewhere)

    def claim(self, *, wait: bool = True) -> Claim | None:
        """Claim the next work with missing results; None where there is none.

        When only the work of other processes is left, this waits for them, unless `wait` is False, and claims what they
        leave if they end early.
        """
        while self.waiting or (self.elsewhere and wait):
            last = not self.waiting
            work = (self.elsewhere if last else self.waiting).popleft()
            if work.missing(self.store):
                held = ExitStack()
                if held.enter_context(self.store.claim(work.name, wait=last)):
                    self.store.refresh()
                    return Claim(work, work.missing(self.store), held)
                self.elsewhere.append(work)
        return None
