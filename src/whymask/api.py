"""The functions of `import whymask`: thin layers over Explainer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, Unpack

from whymask.data.sources import SOURCES
from whymask.errors import WhymaskError
from whymask.explainer.checking import SEEDS
from whymask.explainer.checking import check as check_model
from whymask.explainer.explainer import MODEL, Explainer, OnError, OnProgress
from whymask.explainer.settings import SettingsDict, accepts_settings
from whymask.images.imaging import ImageSource
from whymask.images.masking import Fills
from whymask.methods import STAGES
from whymask.metrics.curves import Curves
from whymask.models.base import Wanted
from whymask.models.registry import FAMILIES, Family, ModelSource
from whymask.results.check import Check
from whymask.results.mask import EvidenceMask
from whymask.results.masks import EvidenceMasks
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair
from whymask.search.stage import Stage

T = TypeVar("T")


@accepts_settings
def explain(
    image: ImageSource,
    model: ModelSource = MODEL,
    *,
    target: Wanted = None,
    question: str | None = None,
    against: int | str | None = None,
    top: int | None = None,
    answers: Sequence[int | str] | None = None,
    progress: OnProgress = None,
    **settings: Unpack[SettingsDict],
) -> EvidenceMask | EvidenceMasks | Ordering:
    """Find the regions that are enough for a model's answer.

    Args:
        image: a path, bytes, a PIL image or an array; for multimodal models also a list of them.
        model: a model, the id of one (see `whymask models`), or anything that `whymask.wrap` takes: a torch module, a
            pipeline, a function over images, a pair of a module and its processor.
        target: class index or name, or an answer: a word ("Yes"), a text, or a text with one [[marked]] word; of a
            detector or segmenter also a point (x, y) on the photo, in pixels; by default what the model predicts, or
            the first token of its own answer.
        question: for models that answer questions.
        against: another answer; what is explained is how far the target scores above it (0 where it does not): the
            regions that support the one and not the other.
        top: explain as many of a classifier's likeliest classes, by one search; the result is an EvidenceMasks.
        answers: explain each of these answers, by one search; the result is an EvidenceMasks.
        progress: True for a bar on stderr, or a function that is called with a Progress after every batch.
    """
    explainer = Explainer(model, **settings)
    if top is None and answers is None:
        return explainer.explain(image, target=target, question=question, against=against, progress=progress)
    if target is not None or against is not None:
        raise WhymaskError("several answers are explained at once: leave target and against out.")
    return explainer.answers(image, top=top, answers=answers, question=question, progress=progress)


@accepts_settings
def explain_words(
    image: ImageSource,
    model: ModelSource,
    *,
    question: str | None = None,
    text: str | None = None,
    progress: OnProgress = None,
    **settings: Unpack[SettingsDict],
) -> EvidenceMasks:
    """Find the regions that each word of a model's answer rests on, by one search.

    Function words, words that a blank image makes about as likely, and words that the model finds unlikely on the
    whole image are reported as such instead of being given a mask.

    Args:
        image: a path, bytes, a PIL image or an array, or a list of them.
        model: a multimodal model, the id of one (see `whymask models`), or anything that `whymask.wrap` takes.
        question: what is asked; captioning models take none.
        text: the answer to explain; by default the model's own.
        progress: True for a bar on stderr, or a function that is called with a Progress after every batch.
    """
    return Explainer(model, **settings).words(image, question=question, text=text, progress=progress)


@accepts_settings
def explain_many(
    images: Iterable[ImageSource],
    model: ModelSource = MODEL,
    *,
    targets: Iterable[Wanted] | None = None,
    questions: Iterable[str | None] | None = None,
    in_flight: int = 16,
    on_error: OnError | None = None,
    progress: OnProgress = None,
    **settings: Unpack[SettingsDict],
) -> Iterator[tuple[int, EvidenceMask | Ordering]]:
    """Explain many images, several at a time, their masked versions merged into common batches.

    Yields (number of the image, result) as searches end, so not always in order; each result equals that of `explain`.
    An image that cannot be read is left out with a warning, and the others are explained. Mistakes that concern all
    images, such as an unknown class, are errors.

    Args:
        images: drawn as needed, so a generator over a large folder is fine.
        model: as for `explain`.
        targets: one per image, neither fewer nor more; by default what the model predicts.
        questions: one per image, for models that answer questions.
        in_flight: images searched at the same time.
        on_error: called in place of the warning with the number of an image that cannot be read, and the error.
        progress: True for a bar over the images on stderr, or a function that is called with the Progress of every
            search.
    """
    explainer = Explainer(model, **settings)
    return explainer.many(
        images, targets=targets, questions=questions, in_flight=in_flight, on_error=on_error, progress=progress
    )


@accepts_settings
def repair(
    image: ImageSource,
    model: ModelSource,
    *,
    want: int | str,
    question: str | None = None,
    progress: OnProgress = None,
    **settings: Unpack[SettingsDict],
) -> Repair:
    """Show a model only the regions that support the wanted answer, and ask again.

    The default method is "discs+swap", on black: the whole image hardly supports the wanted answer, so a share of its
    score is no goal. A mask method is tried once, on its mask; of a full search such as "trace+greedy" all prefixes are
    tried, from the scores it has seen anyway.

    Args:
        image: a path, bytes, a PIL image or an array; for multimodal models also a list of them.
        model: as for `explain`; one that reports its answers, such as a multimodal model or a classifier.
        want: the answer that should have been given, such as "No"; for classifiers a class.
        question: for models that answer questions.
        progress: True for a bar on stderr, or a function that is called with a Progress after every batch.
    """
    return Explainer(model, **settings).repair(image, want=want, question=question, progress=progress)


@accepts_settings
def check(
    model: ModelSource = MODEL,
    images: Iterable[ImageSource] | None = None,
    *,
    question: str | None = None,
    seeds: int = SEEDS,
    progress: bool = False,
    **settings: Unpack[SettingsDict],
) -> Check:
    """Check whether a model's evidence can be trusted: other answers, seeds, fills and randomised weights.

    Print the result for a page in Markdown; `as_dict` has its numbers.

    Args:
        model: a model, or the id of one (see `whymask models`).
        images: photos whose answers are explained; by default six sample photos of scikit-image.
        question: for models that answer questions.
        seeds: how many seeds are compared, at least 2.
        progress: whether to show a bar on stderr.
    """
    return check_model(Explainer(model, **settings), images, question=question, seeds=seeds, progress=progress)


def replay(
    ordering: Ordering, model: ModelSource, *, fill: Fills | None = None, batch_size: int | None = None
) -> Curves:
    """Insert and delete the regions of an ordering one by one and record the score.

    Args:
        ordering: what `explain` returned for a full search; it carries the image and the regions.
        model: the model it explains, or another one with the same input grid; as for `explain`.
        fill: replay on another fill than the search used, to see whether the evidence carries over.
        batch_size: images per model batch.
    """
    return Explainer(model, batch_size=batch_size).replay(ordering, fill=fill)


def register(thing: T) -> T:
    """Add something of your own under its name: a search, a model family or a data source.

    It then works wherever a name is given: in Python, on the command line, in benchmarks and on the served page. Also a
    decorator; installed packages need not call it when they have entry points ("whymask.searches", "whymask.models",
    "whymask.sources").

    Args:
        thing: a function decorated with `whymask.stage`, a `Family` (whymask.models.registry), or a class that
            implements `Source` (whymask.data.base).
    """
    added: Any = thing
    if isinstance(added, Stage):
        STAGES.add(added)
    elif isinstance(added, Family):
        FAMILIES.add(added)
    elif isinstance(added, type) and all(hasattr(added, part) for part in ("name", "makes", "read", "splits")):
        SOURCES.add(added)
    else:
        raise WhymaskError(f"register takes a stage, a Family or a Source, not {added!r}.")
    return thing
