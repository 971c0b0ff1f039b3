"""The searches on any set function: no model, no image."""

from whymask.search.driver import Progress, Search, SearchResult, drive, run
from whymask.search.objective import Objective, Oracle
from whymask.search.protocol import Ask, Problem, Ranking, Selection
from whymask.search.recipes import METHODS, Recipe

__all__ = [
    "METHODS",
    "Ask",
    "Objective",
    "Oracle",
    "Problem",
    "Progress",
    "Ranking",
    "Recipe",
    "Search",
    "SearchResult",
    "Selection",
    "drive",
    "run",
]
