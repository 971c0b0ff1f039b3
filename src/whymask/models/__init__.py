"""Model families: anything that binds an image and then responds to masked inputs in batches."""

from whymask.models.base import Bound, Model, Response, Target
from whymask.models.own import wrap
from whymask.models.registry import FAMILIES, MODELS, Family, find, load

__all__ = ["FAMILIES", "MODELS", "Bound", "Family", "Model", "Response", "Target", "find", "load", "wrap"]
