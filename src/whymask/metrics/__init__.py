"""Numbers that say how good an explanation is."""

from whymask.metrics.curves import Curves
from whymask.metrics.overlap import jaccard, overlap, recurrence, top_overlap

__all__ = ["Curves", "jaccard", "overlap", "recurrence", "top_overlap"]
