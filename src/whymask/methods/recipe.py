"""Recipes as the paper writes them: "trace", "greedy", "copair+phasewin", "trace-seed"."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whymask.arrays import Floats
from whymask.errors import unknown
from whymask.methods.grammar import Method, parse
from whymask.search.driver import Progress, Respond, Search, SearchResult, drive
from whymask.search.limits import check
from whymask.search.nested import coarse, lifted
from whymask.search.objective import OBJECTIVES, Objective
from whymask.search.oracle import Oracle
from whymask.search.protocol import Ask, Found, Needs, Problem, Ranking, Selection, completed
from whymask.search.stage import AnyStage

METHOD = "smallest"  # the default: the question is which few regions are enough
OF_SIZE = "discs+swap"  # the default where the number of regions is given, because of docs/results/masks.md


@dataclass(frozen=True)
class Recipe:
    """A method and the parameters that differ from its defaults.

    >>> Recipe("trace+greedy", {"k": 4, "gamma": 0.9}).method.returns
    'ordering'
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.name).strip().lower())  # "TRACE+Greedy" is welcome too
        object.__setattr__(self, "params", dict(self.params))
        method = self.method
        for param, value in self.params.items():
            if param not in method.parameters:
                raise unknown(f"parameter of {self.name}", param, method.parameters)
            for stage in method.stages:
                if param in stage.parameters:
                    check(param, value, stage.types[param])

    @property
    def method(self) -> Method:
        """The method of this name."""
        return parse(self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter's value as JSON has it; an objective by its name, or by its alpha."""
        return {name: _plain(value) for name, value in self._values.items()}

    @property
    def _values(self) -> dict[str, Any]:
        return self.method.parameters | dict(self.params)

    def estimate(self, n: int, fills: int = 1) -> int:
        """About how many forwards this takes on n regions; PhaseWin's number depends on the function it searches."""
        method, values = self.method, self._values
        values["k"] = int(values.get("k") or 8)
        values["placed"] = values["k"] // 2 if len(method.stages) > 1 else 0  # about half a mask is kept
        return sum(int(stage.cost(n, values) * (1 + (fills - 1) * stage.further)) for stage in method.stages)

    def search(self, problem: Problem) -> Generator[Ask, Floats, Selection | Ranking]:
        """The stages one after the other, each given what the one before it found (Eq. 3).

        Those before a split search the coarse regions.
        """
        stages = self.method.stages
        split = next((place for place, stage in enumerate(stages) if stage.kind == "split"), 0)
        if not split:
            return (yield from self._chain(stages, problem))
        found = yield from lifted(self._chain(stages[:split], coarse(problem)), problem)
        return (yield from self._chain(stages[split:], problem, found))

    def _chain(
        self, stages: Sequence[AnyStage], problem: Problem, *found: Selection | Ranking
    ) -> Generator[Ask, Floats, Selection | Ranking]:
        values = self._values
        for stage in stages:
            params = {name: values[name] for name in stage.parameters}  # a shared name has one value for all
            found = ((yield from stage(problem, *found, **params)),)
        return found[0]

    @property
    def needs(self) -> Needs:
        """What the method works on."""
        return self.method.needs

    def settle(self, found: Found) -> Found:
        """What this method promises to return, also from a search that was stopped while it had only a mask."""
        if self.method.returns == "mask" or not isinstance(found, Selection):
            return found
        return completed(found)


def _plain(value: Any) -> Any:
    if isinstance(value, Objective):
        return str(value) if str(value) in OBJECTIVES else value.alpha
    return value


def run(
    recipe: str | Recipe,
    respond: Respond,
    n: int,
    *,
    seed: int | Sequence[int] = 0,
    centroids: ArrayLike | None = None,
    areas: ArrayLike | None = None,
    parents: ArrayLike | None = None,
    params: Mapping[str, Any] | None = None,
    budget: int | None = None,
    batch_size: int | None = None,
    cache: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Run a recipe on any set function over n regions.

    Args:
        recipe: a name such as "trace" or "copair+greedy", or a Recipe.
        respond: boolean rows (B, n), True = kept, to responses (B,) in [0, 1].
        n: number of regions.
        seed: reaches every random choice.
        centroids: (n, 2) region centres as (x / W, y / H); copair needs them.
        areas: (n,) shares of the image; equal when not given.
        parents: (n,) the coarse region that each lies in, from 0 on; methods that split regions need it.
        params: parameters that differ from the method's defaults (`whymask methods NAME` lists them). Objectives are
            "sufficiency", "suff_necc" or an Objective.
        budget: the most distinct masked images to ask for.
        batch_size: the most images in one call of `respond`.
        cache: False sends every image each time it is asked for; the result is the same.
        progress: called after every batch of candidates.

    >>> weights = np.array([0.1, 0.4, 0.2, 0.3])
    >>> result = run("greedy", lambda rows: rows @ weights, n=4)
    >>> result.order.tolist(), result.ledger.nominal
    ([1, 3, 2, 0], 20)
    """
    if isinstance(recipe, str):
        recipe = Recipe(recipe)
    recipe = Recipe(recipe.name, {**recipe.params, **(params or {})})
    problem = Problem(
        n=n,
        seed=tuple(seed) if isinstance(seed, Sequence) else seed,
        centroids=None if centroids is None else np.asarray(centroids, dtype=np.float64),
        areas=None if areas is None else np.asarray(areas, dtype=np.float64),
        parents=None if parents is None else np.asarray(parents, dtype=np.intp),
    )
    search = Search(recipe, problem, budget=budget, oracle=Oracle(cache=cache), progress=progress)
    ((_, result),) = drive([search], lambda parts: [respond(rows) for _, rows in parts], batch_size=batch_size)
    return result
