"""Stages of recipes, declared beside their functions.

@stage("mask", "the k regions that score best alone", cost=lambda n, p: n)
def singles(problem: Problem, *, k: Count = 8) -> Initialiser:
...
"""

import inspect
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar, get_type_hints

from whymask.arrays import Floats
from whymask.errors import WhymaskError, unknown
from whymask.search.protocol import Ask, Needs, Ranking, Selection

P = ParamSpec("P")
G = TypeVar("G", bound=Generator[Ask, Floats, Any], covariant=True)

KindName = Literal["mask", "control", "refinement", "split", "order", "alternatives", "continuation", "ordering"]
Found = Literal[
    "nothing", "a mask", "an empty mask", "a refined mask", "a split mask", "an ordered mask", "masks", "an ordering"
]


class Kind(NamedTuple):
    """What stages of a kind take from the stage before them, and what they give to the next."""

    does: str
    takes: tuple[Found, ...]
    gives: Found


KINDS: dict[KindName, Kind] = {
    "mask": Kind("starts from nothing", ("nothing",), "a mask"),
    "control": Kind("starts from nothing", ("nothing",), "an empty mask"),
    "refinement": Kind("refines a mask", ("a mask", "a refined mask"), "a refined mask"),
    "split": Kind("splits the regions of a mask", ("a mask", "a refined mask"), "a split mask"),
    "order": Kind("orders the regions of a mask", ("a mask", "a refined mask"), "an ordered mask"),
    "alternatives": Kind("adds masks to a refined mask", ("a refined mask",), "masks"),
    "continuation": Kind("continues a mask or starts from nothing", ("nothing", "an ordered mask"), "an ordering"),
    "ordering": Kind("starts from nothing", ("nothing",), "an ordering"),
}


@dataclass(eq=False)
class Stage(Generic[P, G]):
    """A search, or a part of one: called with a problem and, where its kind takes one, the mask found so far.

    Its keyword-only arguments are the parameters; limits are written into their types (`whymask.search.limits`).
    """

    function: Callable[P, G]
    name: str
    kind: KindName
    summary: str  # completes "the ... mask," where the stage takes a mask
    cost: Callable[[int, Mapping[str, Any]], int]
    needs: Needs
    requires: str | None
    further: float
    baseline: bool

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\+*", self.name):
            raise WhymaskError(f"the name of a stage is lower-case words joined by '-', not {self.name!r}.")
        if self.kind not in KINDS:
            raise unknown("kind of stage", self.kind, KINDS)
        if not inspect.isgeneratorfunction(self.function):
            raise WhymaskError(f"{self.name} is not a generator: a search yields the sets to score.")
        for name, default in self.parameters.items():
            if default is inspect.Parameter.empty:
                raise WhymaskError(f"the parameter {name} of {self.name} has no default.")
        update_wrapper(self, self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> G:
        """Start the search."""
        return self.function(*args, **kwargs)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Its parameters and their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of its parameters, with the limits written into them."""
        return get_type_hints(self.function, include_extras=True)


AnyStage: TypeAlias = Stage[..., Generator[Ask, Floats, Selection | Ranking]]


def stage(
    kind: KindName,
    summary: str,
    *,
    cost: Callable[[int, Mapping[str, Any]], int],
    name: str | None = None,
    needs: Needs = "sets",
    requires: str | None = None,
    further: float = 1.0,
    baseline: bool = False,
) -> Callable[[Callable[P, G]], Stage[P, G]]:
    """Declare a generator function as a stage of recipes.

    Args:
        kind: what it takes and gives, one of `KINDS`.
        summary: one line for listings. That of a stage that takes a mask completes "the ... mask,".
        cost: (n, values) -> about how many forwards it takes on n regions. The values are those of all parameters of
            the recipe; "k" is always there, and "placed": about how many regions a continuation finds placed.
        name: what it is called in recipes; by default the function's name with "-" for "_".
        needs: what it works on.
        requires: what else a model must be able to do: "class", "clip" or "question", as its registry entry says.
        further: which share of its sets each fill after the first is asked for, about.
        baseline: whether it is listed among the baselines.
    """
    return lambda function: Stage(
        function, name or function.__name__.replace("_", "-"), kind, summary, cost, needs, requires, further, baseline
    )
