"""Model families: anything that binds an image and then responds to masked inputs in batches."""

from whymask.models.base import Bound, Model, Response, Target
from whymask.models.registry import FAMILIES, MODELS, find, load, wrap

__all__ = ["FAMILIES", "MODELS", "Bound", "Model", "Response", "Target", "find", "load", "wrap"]
