"""Sanity checks of a model's evidence: other answers, seeds and fills, and shuffled weights."""

from collections.abc import Iterable, Sequence
from itertools import permutations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from whymask.errors import WhymaskError, whole
from whymask.explainer.case import Case
from whymask.explainer.chance import Null, with_null
from whymask.explainer.explainer import Explainer
from whymask.images.imaging import ImageSource
from whymask.images.masking import SEVERAL, Fills, fill_name, fills_name, fills_of
from whymask.metrics.overlap import overlap
from whymask.models.base import Model
from whymask.models.classifier import Classifier
from whymask.results.check import Check, PhotoCheck, Shared, ShuffledCheck
from whymask.results.mask import EvidenceMask

SAMPLES = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
NULL, SEEDS = 3, 3


def check(
    explainer: Explainer,
    images: Iterable[ImageSource] | None = None,
    *,
    question: str | None = None,
    seeds: int = SEEDS,
    progress: bool = False,
) -> Check:
    """Explain a model's answers to some photos, and compare the evidence with what it should and should not equal.

    Args:
        explainer: the model and how it is explained. Of its settings, `null` is by default 3 for classifiers.
        images: by default six sample photos of scikit-image.
        question: for models that answer questions.
        seeds: how many seeds are compared, at least 2.
        progress: whether to show a bar on stderr.
    """
    from whymask.models.randomised import cascade, weights_of

    whole("seeds", seeds, 2)
    if explainer.recipe.method.returns != "mask":
        raise WhymaskError(f"a sanity check is about masks, but {explainer.recipe.name} does not return one.")
    chosen = _samples() if images is None else list(images)
    if not chosen:
        raise WhymaskError("a sanity check needs at least one photo.")
    source = weights_of(explainer.model)
    steps = 1 if source is None else 5
    with tqdm(total=steps * len(chosen), unit="photo", disable=not progress, leave=False) as bar:
        photos, evidence, forwards = [], [], 0
        for number, image in enumerate(chosen, 1):
            photo, found, sent = _photo(explainer, image, number, question, seeds)
            photos.append(photo)
            evidence.append(found)
            forwards += sent
            bar.update()
        shuffled = []
        for layers, of, model in cascade(source) if source else ():
            values = []
            for image, old in zip(chosen, evidence, strict=True):
                *value, sent = _on_other_weights(Explainer(model, explainer.settings, null=0), image, question, old)
                values.append(value)
                forwards += sent
                bar.update()
            shuffled.append(ShuffledCheck(layers, of, *(tuple(column) for column in zip(*values, strict=True))))
    return Check(explainer.model.name, _about(explainer, seeds), tuple(photos), tuple(shuffled), forwards)


def _samples() -> list[ImageSource]:
    from skimage.data import data_dir

    return [Path(data_dir, name) for name in SAMPLES]


def _photo(
    explainer: Explainer, image: ImageSource, number: int, question: str | None, seeds: int
) -> tuple[PhotoCheck, EvidenceMask, int]:
    """The evidence for one photo, by all seeds and on other fills, and the forwards that it took."""
    settings, case = explainer.settings, explainer.case(image, question=question)
    by_seed = _masks(explainer, case, range(settings.seed, settings.seed + seeds))
    found, null = by_seed[0], _null(explainer.model, settings.null)
    if null:
        found = with_null(case, found, explainer.recipe, settings.seed, null, budget=settings.budget)
    if found.controls is None:
        raise WhymaskError(f"{explainer.recipe.name} keeps no regions: there is nothing to check.")
    by_fill = {fill: _masks(explainer, case.again(fill=fill), [settings.seed])[0] for fill in _others(settings.shown)}
    photo = PhotoCheck(
        name=Path(image).stem if isinstance(image, str | PathLike) else f"photo {number}",
        answer=found.target.label,
        verdict=found.verdict.code,
        full=found.image.full_score,
        score=found.score,
        area=found.area,
        fills=dict(found.controls.fills),
        null=dict(found.controls.null),
        seeds=_mean([_shared(one, other) for one, other in permutations(by_seed, 2)]),
        searched={fill: _shared(found, other) for fill, other in by_fill.items()},
    )
    return photo, found, sum(_sent(one) for one in (found, *by_seed[1:], *by_fill.values()))


def _on_other_weights(
    explainer: Explainer, image: ImageSource, question: str | None, old: EvidenceMask
) -> tuple[float, float, Shared, int]:
    """The old answer and its evidence on another model: two scores, what is shared with the new evidence, forwards."""
    case = explainer.case(image, target=old.target.name, question=question)
    (found,) = _masks(explainer, case, [explainer.settings.seed])
    ((full, score),), sent = case.ask(np.stack([np.ones(old.n, dtype=bool), old.chosen]))
    return float(full), float(score), _shared(old, found), _sent(found) + sent


def _masks(explainer: Explainer, case: Case, seeds: Sequence[int]) -> list[EvidenceMask]:
    """The evidence that searches of a case find, without other answers."""
    found = case.search(explainer.recipe, seeds, budget=explainer.settings.budget)
    return [one for one in found if isinstance(one, EvidenceMask)]


def _null(model: Model, given: Null) -> Null:
    """The other answers to search for; a model that cannot name any has none unless they are given."""
    return given or (NULL if isinstance(model, Classifier) and len(model.labels) > NULL else 0)


def _others(shown: Fills) -> list[str]:
    """Fills to search on instead: those of "several" that the search does not use, or else the mean colour."""
    used = {fill_name(one) for one in fills_of(shown)}
    return [name for name in SEVERAL if name not in used] or ["mean"]


def _shared(one: EvidenceMask, other: EvidenceMask) -> Shared:
    """The share of the other mask that the first one has; a random mask of its size has its share of all regions."""
    return Shared(overlap(one.regions, other.regions), len(one.regions) / one.n)


def _mean(some: Sequence[Shared]) -> Shared:
    return Shared(*(float(np.mean(values)) for values in zip(*some, strict=True)))


def _sent(found: EvidenceMask) -> int:
    """All forwards of a result, reference scores and other answers included."""
    return sum(mec for _, mec in found.ledger.entries.values())


def _about(explainer: Explainer, seeds: int) -> dict[str, Any]:
    """How everything was searched."""
    settings, recipe = explainer.settings, explainer.recipe
    about = {"method": recipe.name, **{name: recipe.params[name] for name in ("k", "share") if name in recipe.params}}
    about |= {"regions": str(settings.regions) if isinstance(settings.regions, str | PathLike) else "given"}
    return about | {"fill": fills_name(fills_of(settings.shown)), "seeds": seeds}
