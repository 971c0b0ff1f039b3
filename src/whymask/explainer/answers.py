"""What a model answers, in words.

The likeliest first token comes with every score, so a yes or a no costs nothing; any other answer is generated.
"""

from collections.abc import Callable, Sequence
from typing import Any

from whymask.errors import WhymaskError
from whymask.metrics.repair import Mistake
from whymask.models.base import Bound, Generates, Model, named

TOKENS = 8  # generated where the first token settles nothing


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


def first_choices(bound: Bound) -> frozenset[int]:
    """The first choices of a model (`Response.top`) by which it gives the answer that is explained."""
    if bound.target.is_score:
        raise WhymaskError("a function that returns one number has no answers: keep a share of its score, keep=0.9.")
    if bound.target.numbered:
        return frozenset([bound.target.index])
    answer = getattr(bound, "answer", None)
    if answer is None or answer.forced or len(answer.wanted) > 1:
        raise WhymaskError(
            f"keep='answer' is for classes and words of one token, not {bound.target.label!r}: keep a share, keep=0.9."
        )
    return frozenset(answer.wanted[0])


def in_words(
    model: Model, tops: Sequence[int | None], inputs: Callable[[list[int]], Any], bounds: Sequence[Bound]
) -> list[str]:
    """The answers that begin with these tokens (or are these classes).

    Those that are neither yes nor no are generated, from the inputs (m, ...) of their rows.
    """
    texts = [text for top in tops if (text := named(model, top)) is not None]
    if len(texts) < len(tops):
        raise WhymaskError(f"{model.name} reports scores but not its answers; use a model that runs here.")
    if not isinstance(model, Generates):
        return texts
    unsettled = [i for i, text in enumerate(texts) if not yes_or_no(text)]
    for start in range(0, len(unsettled), model.batch_size):
        some = unsettled[start : start + model.batch_size]
        for i, text in zip(some, model.generate(inputs(some), [bounds[i] for i in some], TOKENS), strict=True):
            texts[i] = text
    return texts
