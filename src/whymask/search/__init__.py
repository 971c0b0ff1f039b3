"""The searches on any set function: no model, no image."""

from whymask.search.driver import Progress, Search, SearchResult, drive
from whymask.search.objective import Objective
from whymask.search.oracle import Oracle
from whymask.search.protocol import Ask, Problem, Ranking, Selection

__all__ = [
    "Ask", "Objective", "Oracle", "Problem", "Progress", "Ranking", "Search", "SearchResult", "Selection", "drive",
]  # fmt: skip
