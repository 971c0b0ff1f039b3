"""Settings and Explainer: explain images on one model, search for evidence, repair answers, replay orderings."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from itertools import repeat
from os import PathLike
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args

import numpy as np

from whymask.errors import ImageError, WhymaskError, unknown, whole
from whymask.explainer.case import Case, Listener, batching, bind_fills
from whymask.explainer.chance import Null, with_null
from whymask.explainer.repairing import attempt
from whymask.explainer.together import search_together
from whymask.images.imaging import ImageSource, Resize
from whymask.images.masking import Fills, fill_canvas, fills_of
from whymask.images.panels import cut
from whymask.images.partition import Regions, check_regions
from whymask.methods import METHOD, OF_SIZE, Recipe
from whymask.metrics.curves import Curves
from whymask.models.base import Model, Wanted
from whymask.models.memory import PeakMemory
from whymask.models.registry import ModelSource, as_model
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair
from whymask.search import answer
from whymask.search.objective import OverFills

MODEL = "efficientnet-lite0"  # the default: the only photo model whose weights are a pip package

Report: TypeAlias = bool | Listener
"""None or False: no progress; True: a bar on stderr; or a function that is called with a Progress after each batch."""

OnError: TypeAlias = Callable[[int, ImageError], None]
"""Called with the number of an image that cannot be explained, and the reason."""

CASE = ("regions", "fill", "over_fills", "resize", "batch_size")  # settings that a case is made with
KEYWORD = inspect.Parameter.KEYWORD_ONLY
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Settings:
    """How to explain: everything but the image, the model and the answer. Checked before a model is loaded.

    Args:
        method: a recipe (see `whymask methods`). A search for a mask, such as "discs+swap" or the paper's "trace",
            returns an EvidenceMask, a full search such as "trace+greedy" an Ordering. By default "smallest", the fewest
            regions that keep 90 % of the full score, or, where k or alternatives are given, "discs+swap".
        k: number of regions of the mask, or "auto", the fewest that are enough. For methods with a given size the
            default is the model's (8 for classifiers, 10 for models that answer questions).
        alternatives: how many further masks to search for, each with at most half of its regions in any before.
        regions: "slico:64", "grid:8x8", a label-map file, a label map (H, W) or masks (m, H, W).
        fill: what masked regions show: "black", "mean", "blur", "dark_defocus", "noise", a colour or an image. With a
            list of them, or "several" (black, blur and noise), a mask is scored on each: evidence that does not depend
            on one fill. By default "several" for "smallest" and "discs+swap", and "black", the paper's, for all others.
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
            raise WhymaskError(f"{self.recipe.name} uses gradients, and so one fill: pass one, not {len(fills)}.")
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
        if "share" not in method.parameters:
            raise WhymaskError(f"keep is for k='auto', the smallest mask that keeps enough, not for {name!r}.")
        return {"share": self.keep}

    @property
    def shown(self) -> Fills:
        """What masked regions show."""
        return self._shown(self.recipe.name)

    def _shown(self, method: str) -> Fills:
        """What masked regions show in searches by the method of this name."""
        if self.fill is not None:
            return self.fill
        return "several" if method.removesuffix("+others") in (METHOD, OF_SIZE) else "black"


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


class Explainer:
    """Explains images on one model, all with the same settings."""

    @accepts_settings
    def __init__(
        self, model: ModelSource = MODEL, settings: Settings | None = None, **changes: Unpack[SettingsDict]
    ) -> None:
        """Check the settings; the model is loaded when it is first used.

        Args:
            model: a model, the id of one (see `whymask models`), or anything that `whymask.wrap` takes: a torch
                module, a pipeline, a function over images, a pair of a module and its processor.
            settings: where to start from; each of them can also be given by name.
        """
        if not isinstance(settings, Settings | None):
            raise WhymaskError(f"settings are an object of the class Settings, not {settings!r}.")
        self.settings = replace(settings or Settings(), **changes)
        self._model = model if isinstance(model, str) else as_model(model)

    @cached_property
    def model(self) -> Model:
        """The model itself."""
        return as_model(self._model)

    @cached_property
    def recipe(self) -> Recipe:
        """The method with its parameters, among them the model's usual mask size where none was given."""
        recipe = self.settings.recipe
        usual = {} if recipe.method.parameters.get("k") is None else {"k": self.model.default_k}  # asn's is its own
        return Recipe(recipe.name, {**usual, **recipe.params})

    def case(self, image: ImageSource, *, target: Wanted = None, question: str | None = None) -> Case:
        """The image on the model, divided into regions."""
        settings = self.settings
        options = {name: getattr(settings, name) for name in CASE}
        options |= {"fill": settings.shown, "keep_answer": settings.keep == "answer"}
        return Case.of(image, self.model, target=target, question=question, **options)

    def search(
        self, case: Case, seeds: Sequence[int] | None = None, *, progress: Report = None
    ) -> list[EvidenceMask | Ordering]:
        """Search a case once per seed (by default that of the settings), all of them together; a result per seed."""
        seeds = [self.settings.seed] if seeds is None else seeds
        with self._reporting(progress, case, len(seeds)) as report:
            found = case.search(self.recipe, seeds, budget=self.settings.budget, progress=report)
        return [self._with_null(case, one, seed) for one, seed in zip(found, seeds, strict=True)]

    def _with_null(self, case: Case, found: EvidenceMask | Ordering, seed: int) -> EvidenceMask | Ordering:
        """The same result, compared with searches for other answers where the settings ask for that."""
        settings = self.settings
        if not settings.null or not isinstance(found, EvidenceMask):
            return found
        return with_null(case, found, self.recipe, seed, settings.null, budget=settings.budget)

    def explain(
        self,
        image: ImageSource,
        *,
        target: Wanted = None,
        question: str | None = None,
        progress: Report = None,
    ) -> EvidenceMask | Ordering:
        """Find the regions that are enough for the model's answer; see `whymask.explain`."""
        return self.search(self.case(image, target=target, question=question), progress=progress)[0]

    def many(
        self,
        images: Iterable[ImageSource],
        *,
        targets: Iterable[Wanted] | None = None,
        questions: Iterable[str | None] | None = None,
        in_flight: int = 16,
        on_error: OnError | None = None,
        progress: Report = None,
    ) -> Iterator[tuple[int, EvidenceMask | Ordering]]:
        """Explain many images, several at a time in common batches; see `whymask.explain_many`.

        The model's fingerprint is read once, at the beginning.
        """
        recipe, settings = self.recipe, self.settings  # a model that cannot be loaded is an error now
        if isinstance(images, Sized):
            for name, values in (("targets", targets), ("questions", questions)):
                _check_surplus(name, values, len(images))

        numbers: list[int] = []  # of the images that have a case

        def cases() -> Iterator[Case]:
            answers = zip(_one_each(targets, "targets"), _one_each(questions, "questions"), strict=False)
            number = -1
            for number, image in enumerate(images):
                target, question = next(answers)
                try:
                    case = self.case(image, target=target, question=question)
                except ImageError as error:
                    (on_error or _warn)(number, error)
                    continue
                numbers.append(number)
                yield case
            for name, values in (("targets", targets), ("questions", questions)):
                _check_surplus(name, values, number + 1)

        def results() -> Iterator[tuple[int, EvidenceMask | Ordering]]:
            from tqdm import tqdm

            memory, fingerprint = PeakMemory(self.model), self.model.fingerprint
            searches = search_together(
                cases(),
                recipe,
                settings.seed,
                batching(self.model, settings.batch_size),
                budget=settings.budget,
                in_flight=in_flight,
                progress=progress if callable(progress) else None,
            )
            total = len(images) if isinstance(images, Sized) else None
            for number, found, seconds in tqdm(searches, total=total, unit="image", disable=progress is not True):
                case: Case = found.about
                spent = {"budget": settings.budget, "seconds": seconds, **memory.spent()}
                result = case.result(found, case.provenance(recipe, settings.seed, fingerprint) | spent)
                yield numbers[number], self._with_null(case, result, settings.seed)

        return results()

    def repair(
        self, image: ImageSource, *, want: int | str, question: str | None = None, progress: Report = None
    ) -> Repair:
        """Keep only the regions that support the wanted answer and ask again; see `whymask.repair`.

        By default the method is "discs+swap" and the fill black.
        """
        if self.settings.null:
            raise WhymaskError("repair does not search for other answers: leave null out.")
        method, fill, k = self.settings.method, self.settings.fill, self.settings.k
        if method is None or fill is None:
            # The whole image hardly supports the wanted answer: a share of its score is no goal. Black is the paper's.
            method = method or (METHOD if isinstance(k, str) else OF_SIZE)
            explainer = Explainer(self.model, self.settings, method=method, fill="black" if fill is None else fill)
            return explainer.repair(image, want=want, question=question, progress=progress)
        case, settings = self.case(image, target=want, question=question), self.settings
        with self._reporting(progress, case) as report:
            return attempt(case, self.recipe, settings.seed, budget=settings.budget, progress=report)

    def replay(self, ordering: Ordering, *, fill: Fills | None = None) -> Curves:
        """Insert and delete the regions of an ordering one by one and record the score; see `whymask.replay`."""
        if not isinstance(ordering, Ordering):
            raise WhymaskError("replay needs an ordering: explain with a full search such as 'trace+greedy'.")
        image, provenance = ordering.image, ordering.provenance
        options = {"target": image.target.name, "question": provenance.get("question"), "resize": "none"}
        fills = image.fills if fill is None else fills_of(fill)
        panels = provenance.get("panels")
        bound, *further = bind_fills(
            self.model, cut(image.canvas, panels) if panels else image.canvas, fills, **options
        )
        size, how = batching(self.model, self.settings.batch_size), provenance.get("over_fills", "mean")
        return Case(self.model, bound, image.partition, size, {}, tuple(further), how).replay(ordering.order)

    @contextmanager
    def _reporting(self, progress: Report, case: Case, searches: int = 1) -> Iterator[Listener]:
        """The function that searches of a case report to."""
        if not isinstance(progress, bool):
            if not (progress is None or callable(progress)):
                raise WhymaskError(f"progress is True, False or a function, not {progress!r}.")
            yield progress
            return
        from tqdm import tqdm

        estimate = self.recipe.estimate(case.partition.n, len(case.fills))
        expected = searches * min(estimate, self.settings.budget or sys.maxsize)
        with tqdm(total=expected, unit="forward", leave=False, disable=not progress) as bar:
            yield lambda now: bar.update(now.known - bar.n)  # searches of one case share its responses


def _one_each(values: Iterable[Any] | None, name: str) -> Iterator[Any]:
    """One value per image: those given, or None for all."""
    if values is None:
        yield from repeat(None)
    else:
        yield from values
        raise WhymaskError(f"there are fewer {name} than images.")


def _check_surplus(name: str, values: Iterable[Any] | None, images: int) -> None:
    """Raise an error where there are more values than images; endless ones, such as `repeat("dog")`, are fine."""
    if isinstance(values, Sized) and len(values) > images:
        raise WhymaskError(f"there are more {name} ({len(values)}) than images ({images}).")


def _warn(number: int, error: ImageError) -> None:
    warnings.warn(f"image {number} is left out: {error}", stacklevel=2)
