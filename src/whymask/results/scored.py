"""Sets of regions that a search has scored, kept with its result: what can be asked of it without its model."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools, Floats
from whymask.images.masking import MOST_FILLS
from whymask.utils.archive import require

VERSION = 1  # of this part of a file; one that is later is left out
MOST = 500  # sets in a result
BYTES = 32_000  # of their bits together
LIMITS = {"sets": BYTES, "set_scores": 4 * MOST, "set_answers": 2 * MOST * MOST_FILLS}
"""Bytes of every array in a file."""
SCALE = 10_000  # steps of a score in the viewer's document


@dataclass(frozen=True, eq=False)
class ScoredSets:
    """Some of the sets that a search has scored: the best of every size, and those nearest to the evidence."""

    rows: Bools  # (m, n) which regions were kept
    scores: NDArray[np.float32]  # (m,) over all fills
    given: NDArray[np.int16]  # (m, fills) the model's answer on each fill, a place in `answers`; -1 where not known
    answers: tuple[str, ...]  # their names

    @classmethod
    def of(
        cls,
        rows: Bools,
        scores: Floats,
        answers: NDArray[np.int64],
        name: Callable[[int], str | None],
        order: Sequence[int],
        prefixes: Collection[int],
    ) -> Self:
        """The most useful of all scored sets, as many as a result may keep.

        Args:
            rows: (m, n) every set of a search.
            scores: (m,) over all fills.
            answers: (m, fills) the number of the model's answer on each fill, -1 where it is not known.
            name: the name of an answer by its number.
            order: regions, the evidence first.
            prefixes: how many regions of `order` are evidence; of an ordering any number of them.
        """
        distance = nearest_prefix(rows, order, prefixes)
        place = _place_among_equals(rows.sum(axis=1), scores)
        most = min(MOST, BYTES // ((rows.shape[1] + 7) // 8))
        best = np.flatnonzero(place == 0)
        best = best[np.argsort(distance[best], kind="stable")][: most // 2]
        nearest = np.lexsort((place, distance))
        chosen = np.array(list(dict.fromkeys([*best.tolist(), *nearest.tolist()]))[:most], dtype=np.intp)
        names: list[str] = []
        given = np.full((len(chosen), answers.shape[1]), -1, dtype=np.int16)
        for number in np.unique(answers[chosen]).tolist():
            label = name(number) if number >= 0 else None
            if label is not None:
                given[answers[chosen] == number] = len(names)
                names.append(label)
        return cls(rows[chosen], scores[chosen].astype(np.float32), given, tuple(names))

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def header(self) -> dict[str, Any]:
        """The plain values of this part of a file."""
        return {"version": VERSION, "answers": list(self.answers)}

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays of this part of a file."""
        return {"sets": np.packbits(self.rows, axis=1), "set_scores": self.scores, "set_answers": self.given}

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, Any], n: int, fills: int) -> Self | None:
        """Load this part of a file, where it has one; raises a `DamagedError` unless it fits the rest."""
        about = header.get("scored")
        if about is None:
            return None
        require(isinstance(about["version"], int), "the version of its scored sets is not a number")
        if about["version"] != VERSION:
            return None
        sets, scores, given, answers = *(arrays[name] for name in LIMITS), about["answers"]
        fits = sets.dtype == np.uint8 and sets.ndim == 2 and sets.shape[1] == (n + 7) // 8
        require(fits and len(sets) <= MOST, "its scored sets do not fit its regions")
        count = len(sets)
        good = scores.dtype == np.float32 and scores.shape == (count,)
        require(good and bool(((scores >= -1e-3) & (scores <= 1 + 1e-3)).all()), "a set has no score")
        named = isinstance(answers, list) and all(isinstance(name, str) for name in answers)
        require(named and given.dtype == np.int16 and given.shape == (count, fills), "its sets have no answers")
        require(bool(((given >= -1) & (given < len(answers))).all()), "a set has an unknown answer")
        return cls(np.unpackbits(sets, axis=1, count=n).astype(bool), scores, given, tuple(answers))

    def as_document(self) -> dict[str, Any]:
        """What the viewer reads: bits, scores in steps of 1 / `SCALE`, and answers, as base64."""
        steps = np.rint(self.scores.clip(0, 1) * SCALE)
        return {
            "sets": _base64(np.packbits(self.rows, axis=1, bitorder="little")),
            "scores": _base64(steps.astype("<u2")),
            "given": _base64(self.given.astype("<i2")),
            "answers": list(self.answers),
        }


def nearest_prefix(rows: Bools, order: Sequence[int], prefixes: Collection[int]) -> NDArray[np.int64]:
    """(m,) in how many regions each set (m, n) differs from the nearest of these prefixes of `order`.

    >>> nearest_prefix(np.array([[1, 0, 1], [0, 1, 1]], dtype=bool), [0, 1, 2], [1, 2])
    array([1, 2])
    """
    lengths = np.array(sorted(prefixes))
    distances = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(rows), 1024):  # of many regions there may be many sets
        some = rows[start : start + 1024]
        shared = np.cumsum(some[:, list(order)], axis=1, dtype=np.int64)
        shared = np.concatenate([np.zeros((len(some), 1), dtype=np.int64), shared], axis=1)[:, lengths]
        distances.append((some.sum(axis=1, dtype=np.int64)[:, None] + lengths - 2 * shared).min(axis=1))
    return np.concatenate(distances)


def _place_among_equals(sizes: NDArray[np.int64], scores: Floats) -> NDArray[np.int64]:
    """(m,) 0 for the best set of its size, 1 for the next one, ..."""
    ranked = np.lexsort((-scores, sizes))
    starts = np.searchsorted(sizes[ranked], sizes[ranked])
    place = np.empty(len(sizes), dtype=np.int64)
    place[ranked] = np.arange(len(sizes)) - starts
    return place


def _base64(values: NDArray[Any]) -> str:
    return b64encode(values.tobytes()).decode()
