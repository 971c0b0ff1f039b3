"""F(S) of Eq. 2, the responses known so far, and the ledger of what was asked.

A response is f_y(x_S) in [0, 1] for one masked image. Sufficiency needs the response to the image
that keeps S, necessity the one to the image that keeps everything else.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from whymask.arrays import Bools, Floats, Rows
from whymask.errors import WhymaskError, unknown

LedgerStage = Literal["init", "order", "continue", "probe"]
Side = Literal["suff", "necc"]
APART: tuple[LedgerStage, ...] = ("probe",)
"""Not part of a search: finding the target and the reference scores."""


@dataclass(frozen=True)
class Objective:
    """F(S) = alpha * Suff(S) + (1 - alpha) * Necc(S), with Necc(S) = 1 - f_y(x_{U minus S}) (Eq. 2).

    >>> SUFF_NECC.combine(np.array([[0.75], [0.25]]))
    array([0.75])
    """

    alpha: float

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise WhymaskError(f"an objective's alpha must lie in [0, 1], not {self.alpha}.")

    @classmethod
    def of(cls, which: "AnyObjective") -> "Objective":
        """The objective itself, or the one of that name or alpha."""
        if isinstance(which, Objective):
            return which
        if not isinstance(which, str):
            return cls(float(which))
        if which not in OBJECTIVES:
            raise unknown("objective", which, OBJECTIVES)
        return OBJECTIVES[which]

    def __str__(self) -> str:
        names = {objective: name for name, objective in OBJECTIVES.items()}
        return names.get(self, f"{self.alpha:g}*suff+{1 - self.alpha:g}*necc")

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides F needs; one of weight 0 costs no forward."""
        if self.alpha == 1:
            return ("suff",)
        return ("necc",) if self.alpha == 0 else ("suff", "necc")

    def images(self, rows: Rows) -> Rows:
        """The images (sides, B, ...) whose responses F of `rows` (B, ...) needs."""
        return np.stack([rows if side == "suff" else complement(rows) for side in self.sides])

    def combine(self, responses: Floats) -> Floats:
        """F (B,) from the responses (sides, B)."""
        by_side = dict(zip(self.sides, responses, strict=True))
        zero = np.zeros(responses.shape[1])
        scores: Floats = self.alpha * by_side.get("suff", zero) + (1 - self.alpha) * (1 - by_side.get("necc", zero))
        return scores


AnyObjective: TypeAlias = Objective | str | float
"""An objective, its name in OBJECTIVES, or its alpha."""

SUFFICIENCY = Objective(1.0)
SUFF_NECC = Objective(0.5)
OBJECTIVES = {"sufficiency": SUFFICIENCY, "suff_necc": SUFF_NECC}


@dataclass
class Ledger:
    """The forwards of one search, counted as if it ran alone.

    `nominal` is what would be sent without a cache, the count the paper's identities speak of.
    `mec` is the number of distinct masked images asked for, the figure to report.
    Both are kept by stage and side; a repeated image belongs to the stage that asked first. Probing is
    counted apart: it is an entry, but in neither sum. (The forwards of a replay are reported by its Curves.)
    """

    entries: dict[tuple[LedgerStage, Side], tuple[int, int]] = field(default_factory=dict)

    def add(self, stage: LedgerStage, side: Side, nominal: int, mec: int) -> None:
        """Count `nominal` forwards, `mec` of them for images not asked for before."""
        before = self.entries.get((stage, side), (0, 0))
        self.entries[stage, side] = (before[0] + nominal, before[1] + mec)

    @property
    def nominal(self) -> int:
        """Forwards without a cache."""
        return sum(nominal for (stage, _), (nominal, _) in self.entries.items() if stage not in APART)

    @property
    def mec(self) -> int:
        """Distinct masked images."""
        return sum(mec for (stage, _), (_, mec) in self.entries.items() if stage not in APART)

    def stage(self, stage: LedgerStage) -> tuple[int, int]:
        """(nominal, mec) of one stage."""
        rows = [counts for (which, _), counts in self.entries.items() if which == stage]
        return sum(nominal for nominal, _ in rows), sum(mec for _, mec in rows)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        stages: dict[str, dict[str, dict[str, int]]] = {}
        for (stage, side), (nominal, mec) in self.entries.items():
            stages.setdefault(stage, {})[side] = {"nominal": nominal, "mec": mec}
        return {"nominal": self.nominal, "mec": self.mec, "stages": stages}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The ledger that `as_dict` wrote."""
        ledger = cls()
        for stage, sides in data["stages"].items():
            for side, counts in sides.items():
                ledger.add(stage, side, counts["nominal"], counts["mec"])
        return ledger

    def __str__(self) -> str:
        stages = dict.fromkeys(stage for stage, _ in self.entries)
        search = ", ".join(f"{stage} {self.stage(stage)[1]}" for stage in stages if stage not in APART)
        apart = "".join(f", plus {self.stage(stage)[1]} to {stage}" for stage in stages if stage in APART)
        return f"{self.mec} forwards ({search or 'none'}; {self.nominal} without a cache){apart}"


@dataclass(frozen=True)
class Query:
    """One batch of candidate sets on its way to the model."""

    objective: Objective
    stage: LedgerStage
    keys: list[bytes]  # packed bits of every image F needs, all of one side, then all of the next
    fresh: tuple[int, ...]  # by side, how many of them this search asks for the first time
    send: Rows  # (m, ...) images that need a forward
    send_keys: list[bytes]


class Archive:
    """Every masked image a search has asked for, in that order. Searches learn from it; the oracle writes it."""

    def __init__(self) -> None:
        self._responses: dict[bytes, float] = {}  # by packed bits
        self._n = 0
        self._rows: Bools = np.empty((0, 0), dtype=bool)

    def add(self, keys: list[bytes], responses: list[float], n: int) -> None:
        """Note images not asked for before, by their packed bits."""
        self._responses.update(zip(keys, responses, strict=True))
        self._n = n

    @property
    def rows(self) -> Bools:
        """(m, n) kept sets; made when they are read, since most searches never do."""
        new = list(islice(self._responses, len(self._rows), None))
        if new:
            bits = np.frombuffer(b"".join(new), dtype=np.uint8).reshape(len(new), -1)
            unpacked = np.unpackbits(bits, axis=1, count=self._n).astype(bool)
            self._rows = np.concatenate([self._rows.reshape(-1, self._n), unpacked])
        return self._rows

    @property
    def responses(self) -> Floats:
        """What the model said to each, (m,)."""
        return np.fromiter(self._responses.values(), dtype=np.float64)

    def response(self, kept: Bools) -> float:
        """The response to the image that keeps this set (n,), which must have been asked for."""
        return self._responses[pack(kept[None])[0]]

    def scored(self, objective: Objective) -> tuple[Bools, Floats]:
        """The sets (m, n) whose F is known, and F (m,)."""
        if objective.alpha == 1:
            return self.rows, self.responses
        if objective.alpha == 0:
            return ~self.rows, 1 - self.responses
        rest = np.array([self._responses.get(key, np.nan) for key in pack(~self.rows)])
        known = ~np.isnan(rest)
        return self.rows[known], objective.combine(np.stack([self.responses, rest])[:, known])

    def frontier(self, largest: int) -> dict[int, float]:
        """The best response by the size of the kept set, from 1 to `largest`, where any was asked for."""
        sizes = self.rows.sum(axis=1)
        known = (size for size in range(1, largest + 1) if (sizes == size).any())
        return {size: float(self.responses[sizes == size].max()) for size in known}

    def near(self, objective: Objective, mask: Bools) -> tuple[Bools, Floats]:
        """Of these the sets that are at most twice as large as `mask` (n,): larger sets behave differently."""
        rows, scores = self.scored(objective)
        small = rows.sum(axis=1) <= 2 * mask.sum()
        return rows[small], scores[small]


@dataclass(eq=False)
class Responses:
    """The responses to masked versions of one image, by their packed bits."""

    scores: dict[bytes, float] = field(default_factory=dict)
    answers: dict[bytes, int] = field(default_factory=dict)  # the model's own answer, where it reports one

    def answers_to(self, rows: Rows) -> list[int | None]:
        """The answers to the images that keep these sets (B, n), as far as they are known."""
        return [self.answers.get(key) for key in pack(rows)]

    def clear(self) -> None:
        """Forget everything."""
        self.scores.clear()
        self.answers.clear()


class Oracle:
    """Turns candidate sets into F for one search: what is known, what must be sent, what it cost.

    Oracles over the same image may share `responses`; each still keeps the ledger of its own search. What two of them
    ask for at the very same time is sent for both.
    With `cache=False` every image is sent each time it is asked for, and the ledger stays the same.
    """

    def __init__(self, responses: Responses | None = None, *, cache: bool = True) -> None:
        self.responses = Responses() if responses is None else responses
        self.cache = cache
        self.asked: set[bytes] = set()
        self.archive = Archive()
        self.ledger = Ledger()

    def open(self, rows: Rows, objective: Objective, stage: LedgerStage) -> Query:
        """Work out what F of `rows` (B, ...) still needs."""
        images = objective.images(rows).reshape(-1, *rows.shape[1:])
        keys = pack(images)
        new: set[bytes] = set()
        fresh = []
        for start in range(0, len(keys), len(rows)):
            before = len(new)
            new.update(key for key in keys[start : start + len(rows)] if key not in self.asked)
            fresh.append(len(new) - before)
        if self.cache:
            first = {key: i for i, key in reversed(list(enumerate(keys))) if key not in self.responses.scores}
            index = sorted(first.values())
            return Query(objective, stage, keys, tuple(fresh), images[index], [keys[i] for i in index])
        return Query(objective, stage, keys, tuple(fresh), images, keys)

    def answer(self, query: Query, responses: Floats) -> Floats:
        """Take the responses (m,) to `query.send`, count them, and return F (B,)."""
        return query.objective.combine(self.by_side(query, responses))

    def by_side(self, query: Query, responses: Floats) -> Floats:
        """The same, but return the responses (sides, B) that F is made of."""
        scores = self.responses.scores
        scores.update(zip(query.send_keys, responses.tolist(), strict=True))
        new = [key for key in dict.fromkeys(query.keys) if key not in self.asked]
        self.asked.update(new)
        if query.send.dtype == np.bool_:  # of pixel masks there is nothing to say about regions
            self.archive.add(new, [scores[key] for key in new], query.send.shape[1])
        sides = query.objective.sides
        for side, fresh in zip(sides, query.fresh, strict=True):
            self.ledger.add(query.stage, side, len(query.keys) // len(sides), fresh)
        return np.array([scores[key] for key in query.keys]).reshape(len(sides), -1)


def complement(rows: Rows) -> Rows:
    """The complementary images: what each row hides is shown, and vice versa."""
    return ~rows if rows.dtype == np.bool_ else 1 - rows


def pack(rows: Rows) -> list[bytes]:
    """The identity of each row within one search: the packed bits of a set, a hash of a pixel mask."""
    if rows.dtype != np.bool_:
        return [b"mask" + hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    packed = np.packbits(rows, axis=1)
    return packed.view(f"V{packed.shape[1]}").ravel().tolist()
