"""Choosing tokens by temperature and top_p, with a random stream for each answer, and reporting the likeliest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from whymask.serve.chat import ChatRequest

COLD = 1e-5  # temperatures up to this are 0, as in vLLM: the likeliest token


@dataclass(frozen=True)
class Place:
    """A token of an answer, and others that could stand there."""

    token: int
    logprob: float
    rank: int  # 1 where no token is likelier
    others: tuple[tuple[int, float, int], ...]  # token, log-probability and rank


@dataclass(frozen=True)
class Choice:
    """One answer to a request."""

    ids: tuple[int, ...]
    text: str
    ended: bool  # with the token that ends an answer
    places: list[Place]


class Sampler:
    """Picks the next token of the rows of several requests, n of each, and keeps what was asked for about them.

    Log-probabilities are the model's own, before temperature and top_p. A row's choices depend on the seed of its
    request and its number among the n alone, so not on what else is in the batch.
    """

    def __init__(self, requests: Sequence[ChatRequest]) -> None:
        self.rows = [(request, i) for request in requests for i in range(request.n)]
        self.streams = [
            np.random.default_rng(None if request.seed is None else (request.seed % 2**64, i))
            for request, i in self.rows
        ]
        self.kept: list[list[Place]] = [[] for _ in self.rows]

    def __call__(self, logits: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """The next tokens (B,) of these rows, from logits (B, tokens) in fp32."""
        requests = [self.rows[row][0] for row in rows]
        chosen = logits.argmax(dim=1)
        drawn = [i for i, request in enumerate(requests) if request.temperature > COLD]
        if drawn:
            numbers = [self.streams[rows[i]].random() for i in drawn]
            some = [requests[i] for i in drawn]
            temperatures = logits.new_tensor([request.temperature for request in some])[:, None]
            shares = (logits[drawn] / temperatures).softmax(dim=1)
            chosen[drawn] = pick(shares, [request.top_p for request in some], numbers)
        for i, (row, request) in enumerate(zip(rows, requests, strict=True)):
            if request.logprobs:
                named = request.logprob_token_ids
                self.kept[row] += places(logits[i : i + 1], chosen[i : i + 1], request.top_logprobs, named)
        return chosen

    def places(self, row: int, count: int) -> list[Place]:
        """The places of a row's answer of `count` tokens."""
        return self.kept[row][:count]


def pick(shares: torch.Tensor, top_p: Sequence[float], numbers: Sequence[float]) -> torch.Tensor:
    """A token (B,) of each distribution (B, tokens), by numbers that are uniform in [0, 1).

    With top_p, from the fewest likeliest tokens that hold this much of the distribution.
    """
    if any(share < 1 for share in top_p):
        ordered, order = shares.sort(dim=1, descending=True)
        before = ordered.cumsum(dim=1) - ordered
        ordered = ordered.masked_fill(before >= shares.new_tensor(list(top_p))[:, None], 0)
        shares = torch.zeros_like(shares).scatter_(1, order, ordered)
    reached = shares.cumsum(dim=1)
    wanted = reached[:, -1:] * shares.new_tensor(list(numbers))[:, None]
    return torch.searchsorted(reached, wanted, right=True)[:, 0].clamp(max=shares.shape[1] - 1)


def places(logits: torch.Tensor, tokens: torch.Tensor, count: int, named: Sequence[int] | None = None) -> list[Place]:
    """What to report about tokens (L,) from the logits (L, tokens) there: the `count` likeliest, or the named ones."""
    logprobs = logits.log_softmax(dim=1)
    if named is None:
        others = logprobs.topk(count, dim=1).indices
    else:
        others = torch.tensor(named, device=logits.device).expand(len(logits), -1)
    ids = torch.cat([tokens.to(logits.device)[:, None], others], dim=1)
    values = logprobs.gather(1, ids)
    # One column at a time: all at once take as much memory as that many copies of the logits.
    ranks = torch.stack([1 + (logprobs > column[:, None]).sum(dim=1) for column in values.T], dim=1)
    rows = zip(ids.tolist(), values.tolist(), ranks.tolist(), strict=True)
    return [
        Place(row[0], value[0], rank[0], tuple(zip(row[1:], value[1:], rank[1:], strict=True)))
        for row, value, rank in rows
    ]
