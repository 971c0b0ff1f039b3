"""What a model answers, in words, and the case lists that are built from it.

The likeliest first token comes with every score, so a yes or a no costs nothing; any other answer is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from whymask.data.pope import Question, find_images
from whymask.errors import WhymaskError
from whymask.explainer.case import bind
from whymask.images.imaging import ImageSource
from whymask.images.masking import stack
from whymask.metrics.repair import Mistake
from whymask.models.base import Bound, Generates, Model, named

TOKENS = 8  # generated where the first token settles nothing
PLAIN = "{question}"
VQA = (
    "This is visual question answering. Begin your answer with exactly Yes or No; a short explanation may follow.\n"
    "Question: {question}\nAnswer:"
)


def begins(answer: str, word: str) -> bool:
    """Whether an answer begins with this word, in any case.

    >>> begins("No, there is none.", "no"), begins("Nothing.", "no")
    (True, False)
    """
    said, wanted = answer.strip().casefold(), word.strip().casefold()
    return said.startswith(wanted) and not said[len(wanted) : len(wanted) + 1].isalnum()


def yes_or_no(answer: str) -> str | None:
    """What a yes/no question was answered, or None where it was not."""
    return next((word for word in ("Yes", "No") if begins(answer, word)), None)


def mistake(answer: str, want: str) -> Mistake | None:
    """What is wrong with an answer to a yes/no question; None for a right one, and for one that is neither."""
    said = yes_or_no(answer)
    if said is None or said == yes_or_no(want):
        return None
    return "false_yes" if said == "Yes" else "false_no"


def in_words(
    model: Model, tops: Sequence[int | None], inputs: Callable[[list[int]], Any], bounds: Sequence[Bound]
) -> list[str]:
    """The answers that begin with these tokens (or are these classes).

    Those that are neither yes nor no are generated, from the inputs (m, ...) of their rows.
    """
    texts = [text for top in tops if (text := named(model, top)) is not None]
    if len(texts) < len(tops):
        raise WhymaskError(f"{model.name} tells scores but not what it answers; use a model that runs here.")
    if not isinstance(model, Generates):
        return texts
    unsettled = [i for i, text in enumerate(texts) if not yes_or_no(text)]
    for start in range(0, len(unsettled), model.batch_size):
        some = unsettled[start : start + model.batch_size]
        for i, text in zip(some, model.generate(inputs(some), [bounds[i] for i in some], TOKENS), strict=True):
            texts[i] = text
    return texts


@dataclass(frozen=True)
class Answered:
    """A question and what a model said."""

    question: Question
    image: ImageSource
    prompt: str  # the question as the model was asked it
    answer: str

    @property
    def mistake(self) -> Mistake | None:
        """None for a right answer, and for one that is neither yes nor no."""
        return mistake(self.answer, self.question.want)


def answer_all(
    model: Model,
    questions: Sequence[Question],
    images: str | Path | Mapping[str, ImageSource],
    *,
    prompt: str = VQA,
    batch_size: int | None = None,
) -> Iterator[Answered]:
    """Ask a model all questions about the images of a folder, several at a time.

    Args:
        model: one that answers questions.
        questions: see `pope.read_questions`.
        images: the folder that holds their images, or the images by file name.
        prompt: what the model is asked, with {question} in it. Small models know only the plain question.
        batch_size: questions per model batch.
    """
    where = images if isinstance(images, Mapping) else find_images(questions, images)
    asked = ((q, prompt.format(question=q.text)) for q in questions)
    bound = ((q, text, bind(model, where[q.image], target=q.want, question=text)) for q, text in asked)
    for _, alike in groupby(bound, key=lambda item: item[2].key):
        while some := list(islice(alike, batch_size or model.batch_size)):
            bounds = [bound for *_, bound in some]
            inputs = stack([bound.inputs[None] for bound in bounds])
            top = model.respond(inputs, bounds).top
            tops = [None] * len(some) if top is None else top.tolist()
            answers = in_words(model, tops, inputs.__getitem__, bounds)
            for (question, text, _), answer in zip(some, answers, strict=True):
                yield Answered(question, where[question.image], text, answer)


def pope_cases(answered: Iterable[Answered]) -> list[tuple[Answered, str]]:
    """POPE: every yes or no, to be explained by the answer given."""
    return [(one, said) for one in answered if (said := yes_or_no(one.answer))]


def repope_cases(answered: Iterable[Answered]) -> list[tuple[Answered, str]]:
    """RePOPE: every wrong answer, to be explained by the counter token, the right answer."""
    return [(one, one.question.want) for one in answered if one.mistake]
