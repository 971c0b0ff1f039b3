"""The registry of searches: those of the package, the baselines, and those that others register."""

from collections.abc import Iterable

from whymask.search.blank import blank
from whymask.search.copair import copair
from whymask.search.discs import discs
from whymask.search.greedy import greedy
from whymask.search.greedy_k import greedy_k
from whymask.search.lean import lean
from whymask.search.order import order_inside
from whymask.search.others import others
from whymask.search.phasewin import phasewin
from whymask.search.random_k import random_k
from whymask.search.smallest import smallest
from whymask.search.split import split
from whymask.search.stage import AnyStage
from whymask.search.swap import swap
from whymask.search.trace import trace
from whymask.utils.registry import Registry

SEARCHES: tuple[AnyStage, ...] = (
    trace, copair, discs, greedy_k, random_k, blank, smallest, swap, split, order_inside, others, greedy, phasewin,
    lean,
)  # fmt: skip


class Stages(Registry[AnyStage]):
    """Stages by name. The baselines take torch: they are imported when a name is not one of `SEARCHES`."""

    def __init__(self) -> None:
        super().__init__("search", "whymask.searches")
        self._things = {stage.name: stage for stage in SEARCHES}

    def add(self, thing: AnyStage) -> AnyStage:
        """Register a stage; a name that another one has raises an error."""
        self._load()  # a baseline may have this name
        return super().add(thing)

    def more(self) -> Iterable[AnyStage]:
        """The baselines."""
        from whymask.methods.baselines import BASELINES

        return BASELINES


STAGES = Stages()
