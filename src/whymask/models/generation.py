"""Logits processors by which transformers' own generation says what is given or chosen."""

from collections.abc import Sequence
from typing import TypeAlias

import torch

from whymask.models.mllm import Choose

AnswerIds: TypeAlias = Sequence[tuple[int, ...]]
"""By row, the ids of the tokens that an answer has so far."""


class Forced:
    """Generation says given tokens; afterwards it is free."""

    def __init__(self, said: AnswerIds) -> None:
        self.said, self.step = said, 0

    def __call__(self, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (B, tokens) of which the next given token of each row is left."""
        step, self.step = self.step, self.step + 1
        if step >= len(self.said[0]):
            return scores
        forced = torch.full_like(scores, -torch.inf)
        return forced.scatter_(1, torch.tensor([[row[step]] for row in self.said], device=scores.device), 0.0)


class Chosen:
    """Generation says the tokens that are chosen for its rows."""

    def __init__(self, choose: Choose, rows: Sequence[int]) -> None:
        self.choose, self.rows = choose, rows

    def __call__(self, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (B, tokens) of which the chosen token of each row is left."""
        forced = torch.full_like(scores, -torch.inf)
        return forced.scatter_(1, self.choose(scores.float(), self.rows)[:, None], 0.0)
