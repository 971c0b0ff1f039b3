"""What explanations return: evidence masks, orderings and repairs."""

from whymask.results.base import ExplainedImage, Explanation
from whymask.results.mask import EvidenceMask
from whymask.results.masks import EvidenceMasks
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair
from whymask.results.words import Word

__all__ = ["EvidenceMask", "EvidenceMasks", "ExplainedImage", "Explanation", "Ordering", "Repair", "Word"]
