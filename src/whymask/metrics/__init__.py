"""Numbers that say how good an explanation is."""

from whymask.metrics.curves import Curves
from whymask.metrics.overlap import jaccard, overlap, recurrence, top_overlap
from whymask.metrics.repair import RepairOutcome, Repairs, correction_region, repairs

__all__ = [
    "Curves", "RepairOutcome", "Repairs", "correction_region", "jaccard", "overlap", "recurrence", "repairs",
    "top_overlap",
]  # fmt: skip
