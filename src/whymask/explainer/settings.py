"""Settings: how to explain, everything but the image, the model and the answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from os import PathLike
from typing import Any, TypedDict, TypeVar, cast, get_args

import numpy as np

from whymask.errors import WhymaskError, unknown, whole
from whymask.explainer.chance import Null
from whymask.images.imaging import Resize
from whymask.images.masking import Fills, fill_canvas, fills_of
from whymask.images.partition import Regions, check_regions
from whymask.methods import METHOD, OF_SIZE, Recipe
from whymask.search import answer
from whymask.search.objective import OverFills

KEYWORD = inspect.Parameter.KEYWORD_ONLY
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Settings:
    """How to explain: everything but the image, the model and the answer. Checked before a model is loaded.

    Args:
        method: a recipe (see `whymask methods`). A search for a mask, such as "discs+swap" or the paper's "trace",
            returns an EvidenceMask, a full search such as "trace+greedy" an Ordering. By default "smallest", the fewest
            regions that keep 90% of the full score, or "discs+swap", where k or alternatives are given and in a repair.
        k: number of regions of the mask, or "auto", the fewest that are enough. For methods with a given size the
            default is the model's (8 for classifiers, 10 for models that answer questions).
        alternatives: how many further masks to search for, each with at most half of its regions in any before.
        regions: "slico:64", "grid:8x8", "slico:64/4" (nested: each of 64 cut into four, for finer masks), a label-map
            file, a label map (H, W) or masks (m, H, W).
        fill: what masked regions show: "black", "mean", "blur", "dark_defocus", "noise", a colour or an image. With a
            list of them, a mask is scored on each: evidence that does not depend on one fill. "several" stands for
            black, blur and noise, also in a list: "several,mean" has four fills. By default "several" for "smallest"
            and "discs+swap", and "black", the paper's, for all other methods and for repairs.
        over_fills: on several fills, whether a set counts by its "mean" score over them or by its "min", the lowest.
        resize: "own" (the model's preprocessing), "squash" (the whole image to the model's square) or "none".
        seed: seed of every random choice, together with the image.
        budget: maximum number of distinct masked images the search may ask for.
        batch_size: images per model batch; by default learned while searching.
        null: how many other answers to search for with the same budget, to see whether a mask is above chance (classes
            drawn at random), or a list of them, such as ["Yes", "Maybe"].
        keep: what the smallest mask (k="auto") must keep: a share of the whole image's score, by default 0.9, or
            "answer": that the model still gives it as its first choice, on every fill. Other searches for a mask then
            also prefer sets that keep the answer.
        params: the method's other parameters.
    """

    method: str | Recipe | None = None
    k: int | str | None = None
    alternatives: int = 0
    regions: Regions = "slico:64"
    fill: Fills | None = None
    over_fills: OverFills = "mean"
    resize: Resize = "own"
    seed: int = 0
    budget: int | None = None
    batch_size: int | None = None
    null: Null = 0
    keep: float | str | None = None
    params: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _ = self.recipe
        whole("a seed", self.seed, 0)
        if self.budget is not None:
            whole("a budget of forwards", self.budget, 0)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, 1)
        if isinstance(self.regions, str | PathLike):
            check_regions(str(self.regions))
        fills = fills_of(self.shown)
        for fill in fills:
            if isinstance(fill, str | tuple):
                fill_canvas(fill, np.zeros((1, 1, 3), dtype=np.uint8))
        if len(fills) > 1 and self.recipe.method.needs == "gradients":
            raise WhymaskError(f"{self.recipe.name} uses gradients and takes a single fill, not {len(fills)}.")
        if isinstance(self.null, str):
            raise WhymaskError(f"null is a number or a list of other answers, not {self.null!r}.")
        if not isinstance(self.null, Sequence):
            whole("null", self.null, 0)
        if self.null and self.recipe.method.returns != "mask":
            raise WhymaskError(f"null compares masks, but {self.recipe.name} does not return one.")
        if self.over_fills not in get_args(OverFills):
            raise WhymaskError(f"over_fills is 'mean' or 'min', not {self.over_fills!r}.")
        if self.resize not in get_args(Resize):
            raise WhymaskError(f"resize is 'own', 'squash' or 'none', not {self.resize!r}.")

    @cached_property
    def recipe(self) -> Recipe:
        """The method with its parameters."""
        if not isinstance(self.method, str | Recipe | None):
            raise WhymaskError(f"a method is named, such as {METHOD!r}, not {self.method!r}.")
        if not isinstance(self.params, Mapping | None):
            raise WhymaskError(f"params maps names of parameters to values, not {self.params!r}.")
        auto = isinstance(self.k, str) and self.k.lower() == "auto"
        usual = METHOD if auto or (self.k is None and not self.alternatives) else OF_SIZE
        recipe = self.method if isinstance(self.method, Recipe) else Recipe(self.method or usual)
        params = {**recipe.params, **(self.params or {})}
        if auto:
            if recipe.name != METHOD or self.alternatives:
                raise WhymaskError(f"k='auto' is the method {METHOD!r}, without another method or alternatives.")
            return Recipe(METHOD, params | self._to_keep(METHOD))
        if isinstance(self.k, str):
            raise WhymaskError(f"k is a number of regions or 'auto', not {self.k!r}.")
        name = recipe.name
        if self.alternatives:
            if not name.endswith("+swap"):
                raise WhymaskError(f"alternatives need a method ending in +swap, such as {OF_SIZE!r}, not {name!r}.")
            name = f"{name}+others"
            params["alternatives"] = self.alternatives
        if self.k is not None:
            if "k" not in Recipe(name).method.parameters:
                raise WhymaskError(f"{name} has no mask size; leave k out, or use a method such as {OF_SIZE!r}.")
            params["k"] = self.k
        return Recipe(name, params | self._to_keep(name))

    def _to_keep(self, name: str) -> dict[str, float]:
        """The parameters by which a method of this name knows what to keep."""
        method = Recipe(name).method
        if self.keep is None:
            return {}
        if self.keep == "answer":
            if method.returns != "mask" or method.needs == "gradients":
                raise WhymaskError(f"keep='answer' is for searches for a mask, such as {METHOD!r}, not {name!r}.")
            return {"enough": answer.GOAL} if "enough" in method.parameters else {}
        if isinstance(self.keep, str):
            raise WhymaskError(f"keep is a share of the score, such as 0.9, or 'answer', not {self.keep!r}.")
        if not 0 < self.keep <= 1:
            raise WhymaskError(f"keep must be in (0, 1], a share of the score, not {self.keep!r}.")
        if "share" not in method.parameters:
            raise WhymaskError(f"keep is for k='auto', the smallest mask that keeps enough, not for {name!r}.")
        return {"share": self.keep}

    @property
    def shown(self) -> Fills:
        """What masked regions show: the given fill, or the method's default."""
        if self.fill is not None:
            return self.fill
        return "several" if self.recipe.name.removesuffix("+others") in (METHOD, OF_SIZE) else "black"


class SettingsDict(TypedDict, total=False):
    """The fields of `Settings` as keyword arguments, for type checkers."""

    method: str | Recipe | None
    k: int | str | None
    alternatives: int
    regions: Regions
    fill: Fills | None
    over_fills: OverFills
    resize: Resize
    seed: int
    budget: int | None
    batch_size: int | None
    null: Null
    keep: float | str | None
    params: Mapping[str, Any] | None


def accepts_settings(function: F) -> F:
    """Decorates a function that ends in `**settings`.

    Its signature and docstring list every setting; an unknown name raises an error.
    """
    own = inspect.signature(function)
    settings = [
        inspect.Parameter(field.name, KEYWORD, default=field.default, annotation=field.type)
        for field in fields(Settings)
    ]
    shown = own.replace(parameters=[*list(own.parameters.values())[:-1], *settings])

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name in named:
            if name not in shown.parameters:
                raise unknown("setting", name, shown.parameters)
        return function(*args, **named)

    call.__signature__ = shown  # type: ignore[attr-defined]
    about = (inspect.getdoc(Settings) or "").partition("Args:\n")[2]  # nothing where Python runs with -OO
    call.__doc__ = "\n".join([inspect.getdoc(function) or "", about])
    return cast(F, call)
