"""explain and replay: a photo, a model and a method in; evidence and its proof out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import repeat
from typing import Any

from whymask.errors import WhymaskError
from whymask.explainer.case import Case, batching
from whymask.explainer.together import search_together
from whymask.images.imaging import ImageSource, Resize
from whymask.images.masking import Fill
from whymask.images.partition import Regions
from whymask.metrics.curves import Curves
from whymask.models.base import Model
from whymask.models.registry import load
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.search.driver import Progress
from whymask.search.recipes import METHOD, Recipe


def explain(
    image: ImageSource,
    model: Model | str = "efficientnet-lite0",
    *,
    method: str | Recipe = METHOD,
    k: int | str | None = None,
    alternatives: int = 0,
    target: int | str | None = None,
    question: str | None = None,
    regions: Regions = "slico:64",
    fill: Fill = "black",
    resize: Resize = "own",
    seed: int = 0,
    budget: int | None = None,
    batch_size: int | None = None,
    params: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> EvidenceMask | Ordering:
    """Find the regions that are enough for a model's answer.

    Args:
        image: a path, bytes, a PIL image or an array.
        model: a model, or the id of one (see `whymask models`).
        method: a recipe (see `whymask methods`). A search for a mask, such as "discs+swap" or the paper's "trace",
            gives an EvidenceMask, a full search such as "trace+greedy" an Ordering.
        k: size of the mask; by default the model's (8 for classifiers, 10 for models that answer questions). "auto"
            looks for the smallest mask that keeps 90 % of the full score: the method "smallest".
        alternatives: how many further masks to look for, each with at most half of its regions in any before.
        target: class index or name, or an answer: a word ("Yes"), a text, or a text with one [[marked]] word; by
            default what the model predicts, or the first token of its own answer.
        question: for models that answer questions.
        regions: "slico:64", "grid:8x8", a label-map file, a label map (H, W) or masks (m, H, W).
        fill: what masked regions show: "black", "mean", "blur", "dark_defocus", a colour or an image.
        resize: "own" (the model's preprocessing) or "squash" (the whole image to the model's square).
        seed: reaches every random choice, together with the image.
        budget: the most distinct masked images the search may ask for.
        batch_size: images per model batch.
        params: the method's other parameters.
        progress: called after every batch with a Progress.
    """
    recipe = recipe_for(method, k, params, alternatives)  # refused before a model is loaded
    if isinstance(model, str):
        model = load(model)
    recipe = sized(recipe, model)
    case = Case.of(
        image, model, target=target, question=question, regions=regions, fill=fill, resize=resize, batch_size=batch_size
    )
    return case.search(recipe, [seed], budget=budget, progress=progress)[0]


def explain_many(
    images: Iterable[ImageSource],
    model: Model | str = "efficientnet-lite0",
    *,
    method: str | Recipe = METHOD,
    k: int | str | None = None,
    alternatives: int = 0,
    targets: Iterable[int | str | None] | None = None,
    questions: Iterable[str | None] | None = None,
    regions: Regions = "slico:64",
    fill: Fill = "black",
    resize: Resize = "own",
    seed: int = 0,
    budget: int | None = None,
    batch_size: int | None = None,
    params: Mapping[str, Any] | None = None,
    in_flight: int = 16,
    progress: bool = False,
) -> Iterator[tuple[int, EvidenceMask | Ordering]]:
    """Explain many images, several at a time, their masked versions merged into common batches.

    Yields (number of the image, result) as searches end, so not always in order; each result equals that of `explain`.

    Args:
        images: drawn as needed, so a generator over a large folder is fine.
        model: a model or the id of one.
        targets: one per image; by default what the model predicts.
        questions: one per image, for models that answer questions.
        in_flight: images searched at the same time.
        progress: show a bar over the images on stderr.
        method, k, alternatives, regions, fill, resize, seed, budget, batch_size, params: as for `explain`.
    """
    recipe = recipe_for(method, k, params, alternatives)
    if isinstance(model, str):
        model = load(model)
    loaded, recipe, shared = model, sized(recipe, model), batching(model, batch_size)
    settings: dict[str, Any] = {"regions": regions, "fill": fill, "resize": resize, "batch_size": batch_size}

    def cases() -> Iterator[Case]:
        asked = zip(_each(targets, "targets"), _each(questions, "questions"), strict=False)
        for image in images:
            target, question = next(asked)
            yield Case.of(image, loaded, target=target, question=question, **settings)

    def results() -> Iterator[tuple[int, EvidenceMask | Ordering]]:
        from tqdm import tqdm

        searches = search_together(cases(), recipe, seed, shared, budget=budget, in_flight=in_flight)
        total = len(images) if isinstance(images, Sized) else None
        for number, found, seconds in tqdm(searches, total=total, unit="image", disable=not progress):
            case: Case = found.about
            spent = {"budget": budget, "seconds": seconds}
            yield number, case.result(found, case.provenance(recipe, seed) | spent)

    return results()


def _each(values: Iterable[Any] | None, name: str) -> Iterator[Any]:
    """One value per image: those given, or None for all."""
    if values is None:
        yield from repeat(None)
    else:
        yield from values
        raise WhymaskError(f"there are fewer {name} than images.")


def recipe_for(
    method: str | Recipe,
    k: int | str | None = None,
    params: Mapping[str, Any] | None = None,
    alternatives: int = 0,
) -> Recipe:
    """The method with its parameters, all of them checked."""
    recipe = Recipe(method) if isinstance(method, str) else method
    chosen = {**recipe.params, **(params or {})}
    if isinstance(k, str) and k.lower() == "auto":
        if recipe.name not in (METHOD, "smallest") or alternatives:
            raise WhymaskError("k='auto' is a method of its own, 'smallest': leave method and alternatives out.")
        return Recipe("smallest", chosen)
    if isinstance(k, str):
        raise WhymaskError(f"k is a number of regions or 'auto', not {k!r}.")
    if alternatives:
        if not recipe.name.endswith("+swap"):
            raise WhymaskError(f"alternatives need a method ending in +swap, such as {METHOD!r}, not {recipe.name!r}.")
        recipe = Recipe(f"{recipe.name}+others")
        chosen["alternatives"] = alternatives
    if k is not None:
        if "k" not in recipe.method.parameters:
            raise WhymaskError(f"{recipe.name} has no mask size; leave k out, or use a method such as 'trace'.")
        chosen["k"] = k
    return Recipe(recipe.name, chosen)


def sized(recipe: Recipe, model: Model) -> Recipe:
    """The recipe with the model's usual mask size where it has none; asn's is its own."""
    usual = {} if recipe.method.parameters.get("k") is None else {"k": model.default_k}
    return Recipe(recipe.name, {**usual, **recipe.params})


def replay(
    ordering: Ordering, model: Model | str, *, fill: Fill | None = None, batch_size: int | None = None
) -> Curves:
    """Insert and delete the regions of an ordering one by one and watch the score.

    Args:
        ordering: what `explain` returned for a full search; it carries the image and the regions.
        model: the model it explains, or another one with the same input grid.
        fill: replay on another fill than the search used, to see whether the evidence carries over.
        batch_size: images per model batch.
    """
    if not isinstance(ordering, Ordering):
        raise WhymaskError("replay needs an ordering: explain with a full search such as 'trace+greedy'.")
    if isinstance(model, str):
        model = load(model)
    scene = ordering.scene
    backdrop = scene.fill if fill is None else fill
    question = ordering.provenance.get("question")
    case = Case.on_grid(
        scene.canvas,
        model,
        scene.partition,
        target=scene.target.name,
        question=question,
        fill=backdrop,
        batch_size=batch_size,
    )
    return case.replay(ordering.order)
