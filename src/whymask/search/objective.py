"""F(S) of Eq. 2 from the responses of the model, and the ledger of what was asked.

A response is f_y(x_S) in [0, 1] for one masked image. Sufficiency needs the response to the image
that keeps S, necessity the one to the image that keeps everything else. Where a search uses several fills, a set is
one masked image on each of them, and F is the mean or the minimum of its values on the fills.

Where a search is for several answers at once, a response is a row of T numbers, one for each answer, and so is F.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from whymask.arrays import Bools, Floats, Rows
from whymask.errors import WhymaskError, unknown

OverFills = Literal["mean", "min"]
LedgerStage = Literal["init", "order", "continue", "probe", "null"]
Side = Literal["suff", "necc"]
Response: TypeAlias = float | Sequence[float]
"""What a model says to one masked image: f_y, or one for each of several targets."""
APART: dict[LedgerStage, str] = {"probe": "reference scores", "null": "other answers"}
"""Not part of a search: finding the target and the reference scores; searches for other answers."""


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
        if self.alpha == 1:
            return rows[None]
        return complement(rows)[None] if self.alpha == 0 else np.stack([rows, complement(rows)])

    def combine(self, responses: Floats) -> Floats:
        """F (B,) from the responses (sides, B), or F (B, T) from (sides, B, T)."""
        if self.alpha == 1:
            return np.asarray(responses[0])
        if self.alpha == 0:
            return np.asarray(1 - responses[0])
        kept, removed = responses
        return np.asarray(self.alpha * kept + (1 - self.alpha) * (1 - removed))


def over_fills(values: Floats, how: OverFills) -> Floats:
    """What several fills together say, (...), from the values on each of them, (fills, ...).

    The sum is taken fill by fill, so that it does not depend on how many sets there are.
    """
    if how == "min":
        return np.asarray(values.min(axis=0))
    return np.asarray(sum(values[1:], start=values[0]) / len(values))


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
        apart = "".join(f", plus {self.stage(stage)[1]} for {APART[stage]}" for stage in stages if stage in APART)
        return f"{self.mec} forwards ({search or 'none'}; {self.nominal} without a cache){apart}"


PIXEL_MASK = b"mask"  # what the identity of a pixel mask begins with


def complement(rows: Rows) -> Rows:
    """The complementary images: what each row hides is shown, and vice versa."""
    return ~rows if rows.dtype == np.bool_ else 1 - rows


def pack(rows: Rows) -> list[bytes]:
    """The identity of each row within one search: the packed bits of a set, a hash of a pixel mask."""
    if rows.dtype != np.bool_:
        return [PIXEL_MASK + hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    packed = np.packbits(rows, axis=1)
    return packed.view(f"V{packed.shape[1]}").ravel().tolist()


def unpack(keys: Iterable[bytes], n: int) -> Bools:
    """The sets (m, n) of these packed bits."""
    bits = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, (n + 7) // 8)
    return np.unpackbits(bits, axis=1, count=n).astype(bool)
