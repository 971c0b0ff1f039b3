"""What is left to compute: pieces of work, each claimed by one process at a time."""

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
    """One result, there or not."""

    row: Row
    seed: int
    sample: Sample
    key: str

    @property
    def names(self) -> dict[str, Any]:
        """What its record begins with."""
        return {"key": self.key, "row": self.row.hash, "sample": self.sample.id, "seed": self.seed}


@dataclass(frozen=True)
class Work:
    """Samples that are searched together, and the rows they belong to."""

    samples: list[tuple[Sample, str]]  # with their digests
    rows: list[Planned]

    @property
    def name(self) -> str:
        """The same for every process that would do this work."""
        return digest([self.rows[0].row.names[:2], [sample.id for sample, _ in self.samples]])

    @property
    def items(self) -> Iterator[Item]:
        """Every result."""
        return (item for row, _, seeds in self.rows for seed in seeds for item in self.results(row, seed))

    def results(self, row: Row, seed: int) -> Iterator[Item]:
        """The result of every sample, by one row and seed."""
        return (Item(row, seed, sample, row.key(content, seed)) for sample, content in self.samples)

    def missing(self, store: Store) -> set[str]:
        """The keys of results that are not there."""
        return {item.key for item in self.items if item.key not in store.records}


class Claim(NamedTuple):
    """A piece of work that no other process does until `held` is closed, and the keys that it lacks."""

    work: Work
    missing: set[str]
    held: ExitStack


class Queue:
    """Pieces of work that wait for somebody to do them."""

    def __init__(self, work: Iterable[Work], store: Store) -> None:
        self.store = store
        self.waiting = deque(work)
        self.elsewhere: deque[Work] = deque()  # what other processes have claimed

    def __bool__(self) -> bool:
        return bool(self.waiting or self.elsewhere)

    def claim(self, *, wait: bool = True) -> Claim | None:
        """The next piece that lacks results; None where there is none.

        What other processes do is looked at again when nothing else is left, to do what they leave if they end early:
        then this waits for them, unless `wait` is False.
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
