"""Methods by name: the registry of searches, the grammar of recipes, and running one on any set function."""

from whymask.methods.grammar import Method, methods
from whymask.methods.recipe import METHOD, OF_SIZE, Recipe, run
from whymask.methods.stages import STAGES

__all__ = ["METHOD", "OF_SIZE", "STAGES", "Method", "Recipe", "methods", "run"]
