"""Numbers that say how good an explanation is."""

from whymask.metrics.curves import Curves
from whymask.metrics.overlap import jaccard, overlap, recurrence, top_overlap
from whymask.metrics.repair import Outcome, Repairs, correction_region, repairs

__all__ = [
    "Curves",
    "Outcome",
    "Repairs",
    "correction_region",
    "jaccard",
    "overlap",
    "recurrence",
    "repairs",
    "top_overlap",
]
