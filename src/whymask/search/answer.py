"""What is enough may be the answer instead of a share of the score: the model's first choice must stay the target.

A search knows scores, not answers. So it is given w f + (1 - w) [the model gives the answer] for each masked image,
with its score f and a small weight w. Sets that keep the answer reach 1 - w, all others stay below it, and on both
sides the score still says which of two sets is better.
"""

from collections.abc import Collection
from typing import Any

from whymask.errors import WhymaskError
from whymask.search.oracle import Oracle, Responses

WEIGHT = 0.1
"""w, so small that the mean over at most eight fills reaches 1 - w only where the answer is kept on every one of them.

Where it is kept on all but one of m fills, the mean is at most (1 - w) (1 - 1 / m) + w, which is less than 1 - w for
w < 1 / (m + 1).
"""
GOAL = 1 - WEIGHT
"""What a set that keeps the answer on every fill reaches, and no other."""


def score(value: float) -> float | None:
    """The score of a set of which a search knows this value, where it keeps the answer; else None."""
    return (value - GOAL) / WEIGHT if value >= GOAL - 1e-9 else None


class AnswerOracle(Oracle):
    """An oracle for a search that must keep the answer: one of these first choices of the model."""

    def __init__(self, *responses: Responses, answers: Collection[int], **options: Any) -> None:
        super().__init__(*responses, **options)
        self.answers = answers

    def value(self, known: Responses, key: bytes) -> float:
        """The score and whether the answer is kept, in one number."""
        if key not in known.answers:
            raise WhymaskError("the model reports scores but not its answers: keep a share of the score, keep=0.9.")
        score = known.scores[key]
        assert isinstance(score, float)
        return WEIGHT * score + GOAL * (known.answers[key] in self.answers)
