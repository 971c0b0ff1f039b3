"""Recipes as the paper writes them: "trace", "greedy", "copair+phasewin", "trace-seed".

A recipe is a chain of stages; each takes what the one before it returned.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_type_hints

from whymask.arrays import Floats
from whymask.errors import unknown
from whymask.search.blank import blank
from whymask.search.copair import copair
from whymask.search.discs import discs
from whymask.search.greedy import greedy
from whymask.search.greedy_k import greedy_k
from whymask.search.lean import lean
from whymask.search.limits import check
from whymask.search.objective import OBJECTIVES, Objective
from whymask.search.order import order_inside, rank_by_logits
from whymask.search.others import others
from whymask.search.phasewin import phasewin
from whymask.search.protocol import Ask, Problem, Ranking, Selection, StageFunction, completed
from whymask.search.random_k import random_k
from whymask.search.rivals import RIVALS, Needs, Rival, cost
from whymask.search.smallest import smallest
from whymask.search.swap import swap
from whymask.search.trace import trace

METHOD = "discs+swap"  # the default, because of docs/results/masks.md
INITIALISERS: dict[str, tuple[StageFunction, str]] = {
    "trace": (trace, "cross-entropy search for the best mask of exactly k regions"),
    "copair": (copair, "the best coarse group or pair of groups of regions"),
    "discs": (discs, "the best of a few compact masks of k regions, spread over the image"),
    "greedy-k": (greedy_k, "a mask grown one region at a time: the control at equal cost"),
    "random-k": (random_k, "k regions drawn blindly: the control"),
    "asn": (Rival("asn", "asn", "gradients"), "a relaxed mask, optimised and hardened"),
}
CONTINUATIONS: dict[str, tuple[StageFunction, str]] = {
    "greedy": (greedy, "places the best region of all that are left, one at a time"),
    "phasewin": (phasewin, "places regions from a window of the best, screening all only now and then"),
    "lean": (lean, "greedy with fewer looks: at the best of the last look, and at one side where the other is settled"),
}


@dataclass(frozen=True)
class Method:
    """A named chain of stages."""

    name: str
    stages: tuple[StageFunction, ...]
    returns: str  # "mask" or "ordering"
    summary: str

    @property
    def needs(self) -> Needs:
        """What it works on; forwards are not the whole cost of a method that needs gradients."""
        return next((stage.needs for stage in self.stages if isinstance(stage, Rival)), "sets")

    @property
    def abilities(self) -> set[str]:
        """What a model must be able to, besides being run forward."""
        rivals = [stage for stage in self.stages if isinstance(stage, Rival)]
        backward = {"gradients"} if self.needs == "gradients" else set()
        return backward | {rival.only for rival in rivals if rival.only}

    @property
    def rival(self) -> bool:
        """Whether it is here to be compared with."""
        return any(isinstance(stage, Rival) for stage in self.stages)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter of its stages with its default."""
        return {name: default for stage in self.stages for name, default in keywords(stage).items()}


def _methods() -> dict[str, Method]:
    methods = []
    masks: dict[str, tuple[tuple[StageFunction, ...], str]] = {}
    for name, (stage, summary) in INITIALISERS.items():
        masks[name] = (stage,), summary
        masks[f"{name}+swap"] = (stage, swap), f"the {name} mask, made better by exchanging regions"
    masks["smallest"] = (smallest,), "the fewest regions that keep 90 % of the whole image's score"
    for name, (stages, summary) in masks.items():
        methods.append(Method(name, stages, "mask", summary))
        methods.append(
            Method(f"{name}+order", (*stages, order_inside), "mask", f"{name}, its regions ordered inside the mask")
        )
        if swap in stages:
            summary = f"{name}, and further masks that share at most half of their regions"
            methods.append(Method(f"{name}+others", (*stages, others), "mask", summary))
    methods.append(Method("blank", (blank,), "mask", "no region at all: the control"))
    for name, (stage, summary) in CONTINUATIONS.items():
        methods.append(Method(name, (stage,), "ordering", summary))
    for start, (first, _) in masks.items():
        for end, (last, _) in CONTINUATIONS.items():
            summary = f"{end} started from the part of the {start} mask that carries its score"
            methods.append(Method(f"{start}+{end}", (*first, order_inside, last), "ordering", summary))
    summary = "the trace mask in its internal order, then all other regions by the logits trace learned"
    methods.append(Method("trace-seed", (trace, order_inside, rank_by_logits), "ordering", summary))
    for name, (stage, summary) in RIVALS.items():
        methods.append(Method(name, (stage,), "ordering", summary))
    return {method.name: method for method in methods}


@cache
def keywords(stage: StageFunction) -> dict[str, Any]:
    """The parameters a stage takes and their defaults; a name that two stages share has one value for both."""
    loaded = stage.load() if isinstance(stage, Rival) else stage
    parameters = inspect.signature(loaded).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


@cache
def types(stage: StageFunction) -> dict[str, Any]:
    """The types of a stage's parameters, with the limits written into them."""
    loaded = stage.load() if isinstance(stage, Rival) else stage
    return get_type_hints(loaded, include_extras=True)


def plain(value: Any) -> Any:
    """A parameter's value as JSON has it; an objective by its name, or by its alpha."""
    if isinstance(value, Objective):
        return str(value) if str(value) in OBJECTIVES else value.alpha
    return value


METHODS = _methods()


@dataclass(frozen=True)
class Recipe:
    """A method and the parameters that differ from its defaults.

    >>> Recipe("trace+greedy", {"k": 4, "gamma": 0.9}).method.returns
    'ordering'
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.name).strip().lower())  # "TRACE+Greedy" is welcome too
        object.__setattr__(self, "params", dict(self.params))
        if self.name not in METHODS:
            raise unknown("method", self.name, METHODS)
        for param, value in self.params.items():
            if param not in self.method.parameters:
                raise unknown(f"parameter of {self.name}", param, self.method.parameters)
            for stage in self.method.stages:
                if param in keywords(stage):
                    check(param, value, types(stage)[param])

    def estimate(self, n: int) -> int:
        """About how many forwards this takes on n regions; PhaseWin's number depends on the function it searches."""
        values = {**self.method.parameters, **self.params}
        if self.name in RIVALS:
            return cost(self.name, n, values)
        seed = int(values.get("k") or 8)
        costs = {
            trace: values.get("rounds", 0) * values.get("samples", 0),
            copair: 107,  # 16 groups and 91 pairs of 14 of them, at n = 61 ... 68
            discs: values.get("centres", 0),
            greedy_k: sum(min(n - t, values.get("candidates") or n) for t in range(seed)),
            blank: 0,
            random_k: values.get("draws", 0),
            swap: values.get("tries", 0),
            smallest: values.get("tries", 0) + 25 + 8 * 36,
            others: n + values.get("alternatives", 0) * values.get("other_tries", 0),
            order_inside: seed * (seed + 1) // 2,
            greedy: n * (n + 1),
            phasewin: n * (n + 1) // 3,
            lean: n * (n + 1) // 4,
            rank_by_logits: 0,
            INITIALISERS["asn"][0]: 2,
        }
        total = sum(int(costs[stage]) for stage in self.method.stages)
        # About half a seed is kept, and Greedy need not place that again.
        return total - 2 * n * (seed // 2) if greedy in self.method.stages and len(self.method.stages) > 1 else total

    @property
    def method(self) -> Method:
        """The method of this name."""
        return METHODS[self.name]

    def search(self, problem: Problem) -> Generator[Ask, Floats, Selection | Ranking]:
        """The stages one after the other, each given what the one before it found (Eq. 3)."""
        names = Counter(name for stage in self.method.stages for name in keywords(stage))
        shared = {name for name, stages in names.items() if stages > 1}  # one value for all, whatever their defaults
        values = self.method.parameters | dict(self.params)
        found: tuple[Selection | Ranking, ...] = ()
        for stage in self.method.stages:
            params = {name: values[name] for name in keywords(stage) if name in self.params or name in shared}
            found = ((yield from stage(problem, *found, **params)),)
        return found[0]

    def settle(self, found: Selection | Ranking) -> Selection | Ranking:
        """What this method promises to return, also from a search that was stopped while it had only a seed."""
        if self.method.returns == "mask" or isinstance(found, Ranking):
            return found
        return completed(found)
