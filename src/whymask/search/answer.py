"""What is enough may be the answer instead of a share of the score: the model's first choice must stay the target.

A search knows scores, not answers. So it is given w f + (1 - w) [the model gives the answer] for each masked image,
with its score f and a small weight w. Sets that keep the answer reach 1 - w, all others stay below it, and on both
sides the score still says which of two sets is better.
"""

from collections.abc import Collection
from typing import Any

from whymask.errors import WhymaskError
from whymask.search.objective import Oracle, Responses


def weight(fills: int) -> float:
    """w, so small that the mean over this many fills reaches 1 - w only where the answer is kept on every one of them.

    Where it is kept on all but one, the mean is at most (1 - w) (1 - 1 / fills) + w, which is less than 1 - w for
    w < 1 / (fills + 1).
    """
    return 1 / (fills + 2)


def goal(fills: int) -> float:
    """What a set that keeps the answer on this many fills reaches, and no other."""
    return 1 - weight(fills)


def score(value: float, fills: int) -> float | None:
    """The score of a set of which a search knows this value, where it keeps the answer; else None."""
    return (value - goal(fills)) / weight(fills) if value >= goal(fills) - 1e-9 else None


class AnswerOracle(Oracle):
    """An oracle for a search that must keep the answer: one of these first choices of the model."""

    def __init__(self, *responses: Responses, answers: Collection[int], **options: Any) -> None:
        super().__init__(*responses, **options)
        self.answers = answers
        self.weight = weight(len(self.responses))

    def value(self, known: Responses, key: bytes) -> float:
        """The score and whether the answer is kept, in one number."""
        if key not in known.answers:
            raise WhymaskError("the model reports scores but not its answers: keep a share of the score, keep=0.9.")
        return self.weight * known.scores[key] + (1 - self.weight) * (known.answers[key] in self.answers)
