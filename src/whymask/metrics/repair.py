"""How often, and with how little removed, a wrong answer is repaired by keeping only some regions.

All shares are of all samples: one that no mask repairs counts as a failure everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from whymask.errors import WhymaskError

Mistake: TypeAlias = Literal["false_yes", "false_no"]
SMALL = 0.10  # CSR@10: repaired with at most this share of the area removed
ROUNDING = 1e-9  # areas are sums of shares


@dataclass(frozen=True)
class RepairOutcome:
    """One wrong answer after an attempt to repair it."""

    repaired: bool
    removed: float | None = None  # minimal correction region, where all prefixes of an ordering were asked about
    mec: int | None = None  # distinct masked images the search asked for
    mistake: Mistake | None = None
    kept: float | None = None  # area of the mask, or of the shortest prefix that repairs


@dataclass(frozen=True)
class Repairs:
    """What a method repairs."""

    total: int
    repaired: int
    amcr: float | None  # average minimal correction region, lower is better; None for single masks
    csr: float | None  # CSR@10: the share repaired with at most a tenth of the area removed
    mec: float | None

    @property
    def failed(self) -> int:
        """Wrong answers that stayed wrong."""
        return self.total - self.repaired

    @property
    def rate(self) -> float:
        """Repair Rate."""
        return self.repaired / self.total

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {
            "total": self.total,
            "repaired": self.repaired,
            "failed": self.failed,
            "repair_rate": self.rate,
            "amcr": self.amcr,
            "csr@10": self.csr,
            "mec": self.mec,
        }


def correction_region(areas: ArrayLike, right: ArrayLike) -> float:
    """The smallest share of the area whose removal gives the right answer, over the prefixes t = 1 ... n.

    areas[t - 1] is what prefix t keeps and right[t - 1] whether it is answered rightly: the longest right prefix
    counts, and 1 where there is none. An image that is answered rightly as a whole needs nothing removed.

    >>> correction_region([0.25, 0.5, 0.75, 1.0], [True, False, True, False])
    0.25
    """
    kept, good = np.asarray(areas, dtype=np.float64), np.asarray(right, dtype=bool)
    if kept.shape != good.shape or kept.ndim != 1:
        raise WhymaskError("areas and right answers must be lists of the same length, with one entry per prefix.")
    return float(1 - kept[good].max(initial=0.0))


def small(removed: float) -> bool:
    """Whether a correction region counts for CSR@10."""
    return removed <= SMALL + ROUNDING


def repairs(outcomes: Sequence[RepairOutcome], mistake: Mistake | None = None) -> Repairs:
    """Sum up outcomes; only those of one kind of mistake where that is named.

    >>> repairs([RepairOutcome(True, 0.05), RepairOutcome(True, 0.35), RepairOutcome(False, 1.0)])
    Repairs(total=3, repaired=2, amcr=0.4666666666666666, csr=0.3333333333333333, mec=None)
    """
    some = [outcome for outcome in outcomes if mistake is None or outcome.mistake == mistake]
    if not some:
        raise WhymaskError("there are no wrong answers to summarise.")
    removed = [outcome.removed for outcome in some if outcome.removed is not None]
    costs = [outcome.mec for outcome in some if outcome.mec is not None]
    ordered = len(removed) == len(some)
    return Repairs(
        total=len(some),
        repaired=sum(outcome.repaired for outcome in some),
        amcr=float(np.mean(removed)) if ordered else None,
        csr=float(np.mean([small(one) for one in removed])) if ordered else None,
        mec=float(np.mean(costs)) if costs else None,
    )
