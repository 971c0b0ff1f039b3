"""What explanations return: evidence masks, orderings and repairs."""

from whymask.results.base import ExplainedImage, Explanation
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair

__all__ = ["EvidenceMask", "ExplainedImage", "Explanation", "Ordering", "Repair"]
