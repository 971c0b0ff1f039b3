"""Explainer: explain images on one model, search for evidence, repair answers, replay orderings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias, Unpack, cast

from whymask.errors import ImageError, WhymaskError
from whymask.explainer.case import Case, Listener, batching
from whymask.explainer.chance import with_null
from whymask.explainer.costs import costs
from whymask.explainer.forecast import Forecast, forecast
from whymask.explainer.repairing import repair
from whymask.explainer.restored import restored
from whymask.explainer.settings import Settings, SettingsDict, accepts_settings
from whymask.explainer.several import check_several, explain_answers, explain_words, listed, recipe_for
from whymask.explainer.together import search_together
from whymask.explainer.words import TOKENS, check_text, writes
from whymask.images.imaging import ImageSource
from whymask.images.masking import Fills
from whymask.methods import METHOD, OF_SIZE, Recipe
from whymask.metrics.curves import Curves
from whymask.models.base import Model, Wanted
from whymask.models.memory import PeakMemory
from whymask.models.registry import ModelSource, as_model
from whymask.models.spending import account
from whymask.results.mask import EvidenceMask
from whymask.results.masks import EvidenceMasks
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair
from whymask.search.joint import Joint

MODEL = "efficientnet-lite0"  # the default: the only photo model whose weights are a pip package

OnProgress: TypeAlias = bool | Listener
"""None or False: no progress; True: a bar on stderr; or a function that is called with a Progress after each batch."""

OnError: TypeAlias = Callable[[int, ImageError], None]
"""Called with the number of an image that cannot be explained, and the reason."""

CASE = ("regions", "fill", "over_fills", "resize", "batch_size")  # settings that a case is made with


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
        """The model, loaded when it is first used."""
        return as_model(self._model)

    @cached_property
    def recipe(self) -> Recipe:
        """The method with its parameters, among them the model's usual mask size where none was given."""
        recipe = self.settings.recipe
        usual = {} if recipe.method.parameters.get("k") is None else {"k": self.model.default_k}  # asn's is its own
        return Recipe(recipe.name, {**usual, **recipe.params})

    def case(
        self,
        image: ImageSource,
        *,
        target: Wanted = None,
        question: str | None = None,
        against: int | str | None = None,
    ) -> Case:
        """The image on the model, divided into regions."""
        settings = self.settings
        options = {name: getattr(settings, name) for name in CASE}
        options |= {"fill": settings.shown, "keep_answer": settings.keep == "answer"}
        return Case.of(image, self.model, target=target, question=question, against=against, **options)

    def forecast(
        self, image: ImageSource, *, question: str | None = None, searches: int = 1, targets: int | None = None
    ) -> Forecast:
        """Estimate what a number of searches take, each for one answer or several `targets`; no forward is made."""
        recipe = self.recipe if targets is None else recipe_for(self.settings, targets)
        return forecast(self.model, recipe, self.settings, image, question, searches)

    def search(
        self, case: Case, seeds: Sequence[int] | None = None, *, progress: OnProgress = None
    ) -> list[EvidenceMask | Ordering]:
        """Search a case once per seed (by default that of the settings), all of them together; a result per seed."""
        seeds = [self.settings.seed] if seeds is None else seeds
        with self._reporting(progress, case, self.recipe, len(seeds)) as report:
            found = case.search(self.recipe, seeds, budget=self.settings.budget, progress=report)
        return [self._with_null(case, one, seed) for one, seed in zip(found, seeds, strict=True)]

    def _with_null(self, case: Case, found: EvidenceMask | Ordering, seed: int) -> EvidenceMask | Ordering:
        """Add the comparison with other answers where the settings ask for it."""
        settings = self.settings
        if not settings.null or not isinstance(found, EvidenceMask):
            return found
        before = account(case.model)
        found = with_null(case, found, self.recipe, seed, settings.null, budget=settings.budget)
        spent = case.spent + (account(case.model) - before)
        return replace(found, provenance={**found.provenance, **costs(case.model, spent)})

    def explain(
        self,
        image: ImageSource,
        *,
        target: Wanted = None,
        question: str | None = None,
        against: int | str | None = None,
        progress: OnProgress = None,
    ) -> EvidenceMask | Ordering:
        """Find the regions that are enough for the model's answer; see `whymask.explain`."""
        case = self.case(image, target=target, question=question, against=against)
        return self.search(case, progress=progress)[0]

    def answers(
        self,
        image: ImageSource,
        *,
        top: int | None = None,
        answers: Sequence[int | str] | None = None,
        question: str | None = None,
        progress: OnProgress = None,
    ) -> EvidenceMasks:
        """Find a mask for each of several answers by one search; see `whymask.explain`."""
        check_several(self.settings)
        wanted = listed(answers, top)
        case = self.case(image, target=wanted[0] if wanted else None, question=question)
        with self._reporting(progress, case, recipe_for(self.settings, len(wanted) or cast(int, top))) as report:
            return explain_answers(case, wanted, cast(int, top), self.settings, report)

    def words(
        self,
        image: ImageSource,
        *,
        question: str | None = None,
        text: str | None = None,
        progress: OnProgress = None,
    ) -> EvidenceMasks:
        """Find a mask for each word of an answer by one search; see `whymask.explain_words`."""
        case, text = self.text(image, question=question, text=text)
        with self._reporting(progress, case, recipe_for(self.settings, len(text.split()))) as report:
            return explain_words(case, text, self.settings, report)

    def text(self, image: ImageSource, *, question: str | None = None, text: str | None = None) -> tuple[Case, str]:
        """The image with a text, by default the model's own answer, as what is explained; and the text."""
        check_several(self.settings)
        model = writes(self.model)
        if text is None:
            text = model.answer(image, model.asked(question), tokens=TOKENS, resize=self.settings.resize)
        check_text(text)
        return self.case(image, target=text, question=question), text

    def many(
        self,
        images: Iterable[ImageSource],
        *,
        targets: Iterable[Wanted] | None = None,
        questions: Iterable[str | None] | None = None,
        in_flight: int = 16,
        on_error: OnError | None = None,
        progress: OnProgress = None,
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
        self, image: ImageSource, *, want: int | str, question: str | None = None, progress: OnProgress = None
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
        with self._reporting(progress, case, self.recipe) as report:
            return repair(case, self.recipe, settings.seed, budget=settings.budget, progress=report)

    def replay(self, ordering: Ordering, *, fill: Fills | None = None) -> Curves:
        """Insert and delete the regions of an ordering one by one and record the score; see `whymask.replay`."""
        if not isinstance(ordering, Ordering):
            raise WhymaskError("replay needs an ordering: explain with a full search such as 'trace+greedy'.")
        return restored(ordering, self.model, self.settings.batch_size, fill=fill).replay(ordering.order)

    @contextmanager
    def _reporting(
        self, progress: OnProgress, case: Case, recipe: Recipe | Joint, searches: int = 1
    ) -> Iterator[Listener]:
        """The function that searches of a case report to."""
        if not isinstance(progress, bool):
            if not (progress is None or callable(progress)):
                raise WhymaskError(f"progress is True, False or a function, not {progress!r}.")
            yield progress
            return
        from tqdm import tqdm

        estimate = recipe.estimate(case.partition.n, len(case.fills))
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
