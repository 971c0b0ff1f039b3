"""joint: masks for several targets at once. A forward pass scores all of them, so each set is asked for once.

There is one surrogate for each target. Every target proposes sets; of all of them those are scored that are expected
to gain most for some target, first what several of them want.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from whymask.arrays import Bools, Floats
from whymask.search.archive import Archive
from whymask.search.discs import compact_masks
from whymask.search.narrow import GROUPS, cut
from whymask.search.objective import SUFFICIENCY, pack
from whymask.search.protocol import Ask, Found, Masks, Needs, Problem, Selection, check_k
from whymask.search.surrogate import FLOOR, Surrogate
from whymask.search.swap import LARGEST, SPREADS, exchanged, propose

START = 8  # regions of the discs, where the size is not given
DISCS = 24  # scored at first
TOGETHER = 16  # sets scored at once, at least; for more targets one for each
OWN = 24  # sets that each target proposes at a time
HALF = 0.5  # of its regions, at most, that a mask loses at once


@dataclass(frozen=True)
class Joint:
    """A search for a mask for each of several targets: an algorithm for the driver, whose responses are (B, T).

    Args:
        targets: T.
        k: how many regions each mask has; by default as few as keep a share of the target's full score.
        share: this share.
        tries: how many sets are scored after the first ones; by default twice as many as for one target alone.
    """

    targets: int
    k: int | None = None
    share: float = 0.9
    tries: int | None = None

    name = "joint"
    needs: Needs = "sets"

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter's value as JSON has it."""
        own = {"share": self.share} if self.k is None else {"k": self.k}
        return {"targets": self.targets, **own, "tries": self.most}

    @property
    def most(self) -> int:
        """How many sets are scored after the first ones, at most."""
        if self.tries is not None:
            return self.tries
        return 272 if self.k else 544  # discs+swap tries 136 masks, smallest about 270 at 64 regions

    def estimate(self, n: int, fills: int = 1) -> int:
        """About how many forwards it takes on n regions."""
        first = min(n, DISCS) + (0 if self.k else 1 + min(n, GROUPS))
        return int(fills * first + self.most * (1 + (fills - 1) / 2))

    def settle(self, found: Found) -> Found:
        """What to return from a search that was stopped with this as its best."""
        return found

    def search(self, problem: Problem) -> Generator[Ask, Floats, Masks]:
        """Start a search."""
        if self.k is not None:
            check_k(self.k, problem.n)
        size = min(self.k or START, problem.n)
        rows = compact_masks(problem, size, DISCS)
        if self.k is None:
            whole = np.ones(problem.n, dtype=bool)
            rows = np.concatenate([whole[None], rows, whole & ~cut(problem, whole, GROUPS)])
        nothing = Masks((Selection(rows[0]),) * self.targets, {})
        by: dict[bytes, list[int]] = {}  # the targets that proposed a set
        scores = yield Ask(rows, SUFFICIENCY, "init", nothing, divisible=True)
        searches = [_Target(self, problem, target) for target in range(self.targets)]
        rows = rows[: len(scores)]
        for one, own in zip(searches, scores.T, strict=True):
            one.learn(rows, own)
        known = {row.tobytes() for row in rows}
        rng, left, turn = problem.rng(), self.most, 0
        while left > 0:
            best = Masks(tuple(one.best for one in searches), by)
            proposed: dict[bytes, Bools] = {}
            for target, one in enumerate(searches):
                for row, key in _packed(one.propose(known, rng)):
                    proposed.setdefault(row.tobytes(), row)
                    by.setdefault(key, []).append(target)
            if not proposed:
                break
            rows = np.array(list(proposed.values()))
            gains = np.stack([one.expected_gain(rows) for one in searches])
            rows = rows[by_rank(gains, min(left, max(TOGETHER, self.targets)))]
            if not len(rows):
                break
            left -= len(rows)
            known |= {row.tobytes() for row in rows}
            yield from self._race(problem, rows, searches, best, turn)
            turn += 1
        return Masks(tuple(one.best for one in searches), by)

    def _race(
        self, problem: Problem, rows: Bools, searches: Sequence["_Target"], best: Masks, first: int
    ) -> Generator[Ask, Floats, None]:
        """Score sets (B, n) on one fill after the other, while they are ahead for some target."""
        fills = [(first + number) % problem.archive.fills for number in range(problem.archive.fills)]
        for number in range(1, len(fills) + 1):
            scores = yield Ask(rows, SUFFICIENCY, "init", best, divisible=True, fills=(fills[number - 1],))
            rows = rows[: len(scores)]
            scores = problem.archive.score(rows, SUFFICIENCY, fills[:number])
            ahead = np.zeros(len(rows), dtype=bool)
            for one, own in zip(searches, scores.T, strict=True):
                ahead |= one.ahead(rows, own, fills[:number])
            rows, scores = rows[ahead], scores[ahead]
            if not len(rows):
                return
        for one, own in zip(searches, scores.T, strict=True):
            one.learn(rows, own)


def _packed(rows: Bools) -> Iterator[tuple[Bools, bytes]]:
    """Each row with its packed bits."""
    return zip(rows, pack(rows), strict=True)


def by_rank(gains: Floats, count: int) -> list[int]:
    """Up to `count` columns of a table (T, m): those that rank high in any row, and of these what most rows want.

    Every target gets its first choices whatever the others may gain: what they gain cannot be compared. What no row
    gains from is left out.

    >>> by_rank(np.array([[3, 2, 1], [0, 5, 4], [0, 2, 0]]), 2)
    [1, 0]
    """
    ranks = np.argsort(np.argsort(-gains, axis=1, kind="stable"), axis=1)
    wanted = np.where(gains > 0, 10.0**-ranks, 0).sum(axis=0)
    order = np.argsort(-wanted, kind="stable")[:count]
    return [int(column) for column in order if wanted[column] > 0]


class _Target:
    """One target of a joint search: the best mask for it so far, and what all scored sets say about its regions."""

    def __init__(self, search: Joint, problem: Problem, target: int) -> None:
        self.search = search
        self.archive: Archive = problem.archive.of(target)
        self.surrogate = Surrogate(problem, SUFFICIENCY)
        self.best = Selection(np.ones(problem.n, dtype=bool), -1.0)

    def learn(self, rows: Bools, scores: Floats) -> None:
        """Take sets (B, n) with their scores (B,) over all fills."""
        for row, score in zip(rows, scores.tolist(), strict=True):
            if self.best.goal is None and self.search.k is None:  # the whole image comes first
                self.best = Selection(row, score, goal=self.search.share * score)
            elif self._better(int(row.sum()), score):
                self.best = replace(self.best, mask=row, score=score)

    def _better(self, size: int, score: float) -> bool:
        """Whether a set of this size and score is better than the best one."""
        assert self.best.score is not None
        if self.best.goal is None:
            return score > self.best.score
        return score >= self.best.goal and (size, -score) < (int(self.best.mask.sum()), -self.best.score)

    def ahead(self, rows: Bools, scores: Floats, fills: Sequence[int]) -> Bools:
        """Which sets (B, n) are still worth scoring, by their scores (B,) on these fills."""
        if self.best.goal is None:
            return np.asarray(scores > self.archive.score(self.best.mask[None], SUFFICIENCY, fills)[0])
        return np.asarray((scores >= self.best.goal) & (rows.sum(axis=1) < self.best.mask.sum()))

    def propose(self, known: set[bytes], rng: np.random.Generator) -> Bools:
        """Sets (., n) that may be better for this target, drawn from its surrogate."""
        mask = self.best.mask
        self.surrogate.fit(self.archive, mask)
        if self.best.goal is None:
            return propose(mask, self.surrogate, known, OWN, rng)
        size, fresh = int(mask.sum()), dict[bytes, Bools]()
        most = np.log(max(1, HALF * size))
        inside = np.flatnonzero(mask)
        for weights in self.surrogate.draw(4 * OWN, SPREADS[0], rng):
            if size == 1 or len(fresh) == OWN:
                break
            fewer = round(float(np.exp(rng.uniform(0, most))))
            row = mask.copy()
            row[inside[np.argsort(weights[inside], kind="stable")][:fewer]] = False
            if rng.random() < LARGEST / (LARGEST + 1):
                (row,) = exchanged(row, weights[None], rng)
            if row.tobytes() not in known:
                fresh[row.tobytes()] = row
        return np.array(list(fresh.values()), dtype=bool).reshape(-1, len(mask))

    def expected_gain(self, rows: Bools) -> Floats:
        """What scoring each of some sets (m, n) is expected to gain for this target, (m,).

        Of masks of a given size, by how much log F improves; of the smallest masks, how many regions fewer there are
        times the probability that the goal is reached.
        """
        assert self.best.score is not None
        if self.best.goal is None:
            return self.surrogate.expected_gain(rows)
        change, deviation = self.surrogate.predict(rows)
        missing = np.log(self.best.goal + FLOOR) - np.log(self.best.score + FLOOR)  # not above 0
        fewer = self.best.mask.sum() - rows.sum(axis=1)
        return np.asarray(np.maximum(0, fewer) * ndtr((change - missing) / deviation))
