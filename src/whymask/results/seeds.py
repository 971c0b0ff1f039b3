"""What several seeds of one search found: how often each region is evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from whymask.results.storage import is_count
from whymask.utils.archive import require


@dataclass(frozen=True)
class OverSeeds:
    """For how many of several seeds each region is evidence.

    >>> OverSeeds.of([[0, 2], [2]], n=3)
    OverSeeds(count=2, held=(1, 0, 2))
    """

    count: int  # of seeds
    held: tuple[int, ...]  # (n,) by how many of them each region is chosen

    @classmethod
    def of(cls, evidence: Sequence[Collection[int]], n: int) -> Self:
        """The regions that each seed has found."""
        return cls(len(evidence), tuple(sum(region in found for found in evidence) for region in range(n)))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"count": self.count, "held": list(self.held)}

    @classmethod
    def load(cls, data: Mapping[str, Any] | None, n: int) -> Self | None:
        """What `as_dict` wrote, where a file has it; raises a `DamagedError` unless it fits the `n` regions."""
        if data is None:
            return None
        count, held = data["count"], data["held"]
        require(is_count(count) and count > 0, "it does not say how many seeds were run")
        fits = isinstance(held, list) and len(held) == n and all(is_count(times) and times <= count for times in held)
        require(fits, "its regions are held by an impossible number of seeds")
        return cls(count, tuple(held))
