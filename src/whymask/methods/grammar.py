"""The grammar of recipes: stages joined by "+", each of which takes what the one before it gives.

The kinds of stages (`whymask.search.stage.KINDS`) say what fits. A mask is ordered inside before a continuation:
"trace+greedy" is short for "trace+order+greedy".
"""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from whymask.errors import WhymaskError, unknown
from whymask.methods.stages import STAGES
from whymask.search.order import order_inside, rank_by_logits
from whymask.search.protocol import Needs
from whymask.search.stage import KINDS, AnyStage, Found, KindName
from whymask.search.trace import trace

PLUS = re.compile(r"\+(?=[^+])")  # that of "igos++" belongs to its name
SHARED = {"init_objective"}  # a mask and its refinement are scored alike


@dataclass(frozen=True)
class Method:
    """A named chain of stages."""

    name: str
    stages: tuple[AnyStage, ...]
    summary: str

    @property
    def returns(self) -> Literal["mask", "ordering"]:
        """What comes back: a mask, perhaps ordered inside or with alternatives, or an ordering of all regions."""
        return "ordering" if KINDS[self.stages[-1].kind].gives == "an ordering" else "mask"

    @property
    def needs(self) -> Needs:
        """What it works on; forwards are not the whole cost of a method that needs gradients."""
        return next((stage.needs for stage in self.stages if stage.needs != "sets"), "sets")

    @property
    def abilities(self) -> set[str]:
        """What a model must be able to do, besides being run forward."""
        gradients = {"gradients"} if self.needs == "gradients" else set()
        return gradients | {stage.requires for stage in self.stages if stage.requires}

    @property
    def baseline(self) -> bool:
        """Whether it is here to be compared with."""
        return any(stage.baseline for stage in self.stages)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter of its stages with its default."""
        return {name: default for stage in self.stages for name, default in stage.parameters.items()}


ALIASES = {"trace-seed": Method("trace-seed", (trace, order_inside, rank_by_logits), rank_by_logits.summary)}


def parse(name: str) -> Method:
    """The method of this name; an error says what is unknown or does not fit."""
    if name in ALIASES:
        return ALIASES[name]
    stages: list[AnyStage] = []
    given: Found = "nothing"
    order = KINDS["order"]
    for part in PLUS.split(name):
        if part not in STAGES:
            raise unknown("method", name, [method.name for method in methods()])
        stage = STAGES[part]
        kind = KINDS[stage.kind]
        if given in order.takes and order.gives in kind.takes:
            stages, given = [*stages, order_inside], order.gives
        if given not in kind.takes:
            before = f"{stages[-1].name} gives {given}" if stages else "there is none before it"
            raise WhymaskError(f"{name!r}: {part} {kind.does}, but {before}.")
        stages, given = [*stages, stage], kind.gives
    _check_parameters(name, stages)
    return Method(name, tuple(stages), _summary(name, stages[-1]))


def methods() -> list[Method]:
    """The methods to list: each mask, refined or not, and what can follow it, then the orderings.

    Those that split regions are left out: they need nested ones, which are not the default.
    """

    def named(kind: KindName) -> list[str]:
        return [name for name, stage in STAGES.items() if stage.kind == kind]

    def refined(mask: str) -> list[str]:
        return [method.name for method in _fitting(f"{mask}+{name}" for name in named("refinement"))]

    starts = sorted(named("mask"), key=lambda mask: not refined(mask))  # those that nothing can refine are the last
    masks = [mask for start in starts for mask in (start, *refined(start))]
    after = ["", *(f"+{name}" for name in named("order") + named("alternatives"))]
    continuations = named("continuation")
    return _fitting(
        [
            *(mask + end for mask in masks for end in after),
            *named("control"),
            *continuations,
            *(f"{mask}+{end}" for mask in masks for end in continuations),
            *ALIASES,
            *named("ordering"),
        ]
    )


def _fitting(names: Iterable[str]) -> list[Method]:
    """The methods among these names of known stages."""
    found = []
    for name in names:
        with suppress(WhymaskError):
            found.append(parse(name))
    return found


def _check_parameters(name: str, stages: list[AnyStage]) -> None:
    """Raise an error where two stages have a parameter of one name."""
    counts = Counter(parameter for stage in stages for parameter in stage.parameters)
    for parameter, count in counts.items():
        if count > 1 and parameter not in SHARED:
            owners = " and ".join(stage.name for stage in stages if parameter in stage.parameters)
            raise WhymaskError(f"{name!r}: {owners} both have a parameter called {parameter}.")


def _summary(name: str, last: AnyStage) -> str:
    """The summary of a chain, in one line."""
    before = name.removesuffix(last.name).removesuffix("+")
    if not before:
        return last.summary
    if last.kind == "continuation":
        return f"{last.name} started from the part of the {before} mask that carries its score"
    return f"the {before} mask, {last.summary}"
