"""Every set that a search has asked for, with its responses: what searches learn from."""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.search.objective import SUFFICIENCY, Objective, OverFills, Response, over_fills, pack, unpack

ROOM = 64  # sets, at first


class Archive:
    """Every set a search has asked for, in that order. Searches learn from it; the oracle writes it.

    A set may have been asked for on some of the fills only. Of several targets it holds a response to each; `of` one of
    them it is an archive like any other.
    """

    def __init__(self, fills: int = 1, how: OverFills = "mean", targets: int | None = None) -> None:
        self.fills, self.how = fills, how
        self._places: dict[bytes, int] = {}  # by packed bits
        # With room for more sets: searches read all of this at every step.
        self._responses = np.full((fills, ROOM) if targets is None else (fills, ROOM, targets), np.nan)
        self._answers = np.full((fills, ROOM), np.inf)
        self._rows: Bools = np.empty((0, 0), dtype=bool)
        self._n = self._unpacked = 0

    def add(
        self, fill: int, keys: list[bytes], responses: Sequence[Response], n: int, answers: Sequence[float] = ()
    ) -> None:
        """Note the responses on one fill to sets, by their packed bits.

        Responses that are measured may come again, as they are after more answers.
        """
        places = [self._places.setdefault(key, len(self._places)) for key in keys]
        while len(self._places) > self._answers.shape[1]:
            self._responses = np.concatenate([self._responses, np.full_like(self._responses, np.nan)], axis=1)
            self._answers = np.concatenate([self._answers, np.full_like(self._answers, np.inf)], axis=1)
        if places:
            self._responses[fill, places] = responses
        if answers:
            self._answers[fill, places] = answers
        self._n = n

    @property
    def rows(self) -> Bools:
        """(m, n) kept sets; made when they are read, since most searches never do."""
        count = len(self._places)
        if count > self._unpacked:
            if count > len(self._rows):
                known = self._rows[: self._unpacked].reshape(-1, self._n)
                self._rows = np.empty((self._answers.shape[1], self._n), dtype=bool)
                self._rows[: len(known)] = known
            self._rows[self._unpacked : count] = unpack(islice(self._places, self._unpacked, None), self._n)
            self._unpacked = count
        return self._rows[:count]

    @property
    def responses(self) -> Floats:
        """What the model said to each on each fill, (fills, m) or (fills, m, T); NaN where it was not asked."""
        return self._responses[:, : len(self._places)].copy()

    @property
    def answers(self) -> Floats:
        """How many answers each response is the mean of, (fills, m); infinitely many where it is a probability."""
        return self._answers[:, : len(self._places)].copy()

    def response(self, kept: Bools) -> float:
        """The response to the image that keeps this set (n,), which must have been asked for on every fill."""
        return float(self.score(kept[None], SUFFICIENCY)[0])

    def score(self, rows: Bools, objective: Objective, fills: Sequence[int] | None = None) -> Floats:
        """F (B,) of sets (B, n) on some of the fills, or all; they must have been asked for."""
        places = [self._places[key] for key in pack(objective.images(rows).reshape(-1, rows.shape[1]))]
        sides = (len(objective.sides), len(rows))
        known = self._responses if fills is None else [self._responses[fill] for fill in fills]
        values = [objective.combine(on_fill[places].reshape(*sides, *on_fill.shape[1:])) for on_fill in known]
        return over_fills(np.stack(values), self.how)

    def of(self, target: int) -> "Archive":
        """What it holds of one target, now and later."""
        return OfTarget(self, target)

    def observed(self, objective: Objective) -> tuple[Bools, Floats]:
        """All sets (m, n), and F on each fill (fills, m): NaN where it is not known."""
        rows, responses = self.rows, self.responses
        if objective.alpha == 1:
            return rows, responses
        if objective.alpha == 0:
            return ~rows, 1 - responses
        places = {row.tobytes(): place for place, row in enumerate(rows)}
        rest = np.array([places.get(row.tobytes(), -1) for row in ~rows], dtype=np.intp)
        removed = np.where(rest >= 0, responses[:, rest], np.nan)
        return rows, np.stack([objective.combine(np.stack(both)) for both in zip(responses, removed, strict=True)])

    def known(self, objective: Objective) -> Bools:
        """The sets (m, n) whose F is known on some fill at least."""
        rows, scores = self.observed(objective)
        return rows[~np.isnan(scores).all(axis=0)]

    def scored(self, objective: Objective) -> tuple[Bools, Floats]:
        """The sets (m, n) whose F is known on every fill, and F (m,)."""
        rows, scores = self.observed(objective)
        known = ~np.isnan(scores).any(axis=0)
        return rows[known], over_fills(scores[:, known], self.how)

    def frontier(self, largest: int) -> dict[int, float]:
        """The best response by the size of the kept set, from 1 to `largest`, where any was asked for."""
        rows, responses = self.scored(SUFFICIENCY)
        sizes = rows.sum(axis=1)
        known = (size for size in range(1, largest + 1) if (sizes == size).any())
        return {size: float(responses[sizes == size].max()) for size in known}


class OfTarget(Archive):
    """One target's part of the archive of several."""

    def __init__(self, every: Archive, target: int) -> None:
        super().__init__(every.fills, every.how)
        self.every, self.target = every, target

    @property
    def rows(self) -> Bools:
        """(m, n) kept sets."""
        return self.every.rows

    @property
    def responses(self) -> Floats:
        """What the model said of this target, (fills, m); NaN where it was not asked."""
        responses: Floats = self.every.responses[..., self.target]
        return responses

    @property
    def answers(self) -> Floats:
        """How many answers each response is the mean of, (fills, m)."""
        return self.every.answers

    def score(self, rows: Bools, objective: Objective, fills: Sequence[int] | None = None) -> Floats:
        """F (B,) of sets (B, n) on some of the fills, or all; they must have been asked for."""
        scores: Floats = self.every.score(rows, objective, fills)[:, self.target]
        return scores
