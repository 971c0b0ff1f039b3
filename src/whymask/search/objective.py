"""F(S) of Eq. 2, the responses known so far, and the ledger of what was asked.

A response is f_y(x_S) in [0, 1] for one masked image. Sufficiency needs the response to the image
that keeps S, necessity the one to the image that keeps everything else. Where a search uses several fills, a set is
one masked image on each of them, and F is the mean or the minimum of its values on the fills.

Where a search is for several answers at once, a response is a row of T numbers, one for each answer, and so is F.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from whymask.arrays import Bools, Floats, Rows
from whymask.errors import WhymaskError, unknown

OverFills = Literal["mean", "min"]
LedgerStage = Literal["init", "order", "continue", "probe", "null"]
Side = Literal["suff", "necc"]
Response: TypeAlias = float | Sequence[float]
"""What a model says to one masked image: f_y, or one for each of several targets."""
APART: tuple[LedgerStage, ...] = ("probe", "null")
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
        return np.stack([rows if side == "suff" else complement(rows) for side in self.sides])

    def combine(self, responses: Floats) -> Floats:
        """F (B,) from the responses (sides, B), or F (B, T) from (sides, B, T)."""
        by_side = dict(zip(self.sides, responses, strict=True))
        zero = np.zeros(responses.shape[1:])
        scores: Floats = self.alpha * by_side.get("suff", zero) + (1 - self.alpha) * (1 - by_side.get("necc", zero))
        return scores


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
        apart = "".join(f", plus {self.stage(stage)[1]} to {stage}" for stage in stages if stage in APART)
        return f"{self.mec} forwards ({search or 'none'}; {self.nominal} without a cache){apart}"


@dataclass(frozen=True)
class Query:
    """One batch of candidate sets on its way to the model."""

    objective: Objective
    stage: LedgerStage
    fills: tuple[int, ...]  # the fills that F is asked for on
    keys: list[bytes]  # packed bits of every set F needs, all of one side, then all of the next
    nominal: tuple[int, ...]  # by side, how many masked images they are
    fresh: tuple[int, ...]  # by side, how many of these this search asks for the first time
    send: Rows  # (m, ...) sets that need a forward: those on the first fill, then those on the next
    send_keys: tuple[list[bytes], ...]  # by fill, for all fills

    @property
    def by_fill(self) -> list[Rows]:
        """`send`, cut into the part of each fill."""
        ends = np.cumsum([len(keys) for keys in self.send_keys])
        return np.split(self.send, ends[:-1])


class Archive:
    """Every set a search has asked for, in that order. Searches learn from it; the oracle writes it.

    A set may have been asked for on some of the fills only. Of several targets it holds a response to each; `of` one of
    them it is an archive like any other.
    """

    def __init__(self, fills: int = 1, how: OverFills = "mean", targets: int | None = None) -> None:
        self.fills, self.how, self.targets = fills, how, targets
        self._sets: dict[bytes, int] = {}  # packed bits -> place
        self._responses: tuple[dict[int, Response], ...] = tuple({} for _ in range(fills))  # place -> response
        self._n = 0
        self._rows: Bools = np.empty((0, 0), dtype=bool)

    def add(self, fill: int, keys: list[bytes], responses: Sequence[Response], n: int) -> None:
        """Note the responses on one fill to sets not asked for on it before, by their packed bits."""
        places = [self._sets.setdefault(key, len(self._sets)) for key in keys]
        self._responses[fill].update(zip(places, responses, strict=True))
        self._n = n

    @property
    def rows(self) -> Bools:
        """(m, n) kept sets; made when they are read, since most searches never do."""
        new = list(islice(self._sets, len(self._rows), None))
        if new:
            bits = np.frombuffer(b"".join(new), dtype=np.uint8).reshape(len(new), -1)
            unpacked = np.unpackbits(bits, axis=1, count=self._n).astype(bool)
            self._rows = np.concatenate([self._rows.reshape(-1, self._n), unpacked])
        return self._rows

    @property
    def responses(self) -> Floats:
        """What the model said to each on each fill, (fills, m) or (fills, m, T); NaN where it was not asked."""
        targets = () if self.targets is None else (self.targets,)
        values = np.full((self.fills, len(self._sets), *targets), np.nan)
        for some, known in zip(values, self._responses, strict=True):
            if known:
                some[list(known)] = list(known.values())
        return values

    def response(self, kept: Bools) -> float:
        """The response to the image that keeps this set (n,), which must have been asked for on every fill."""
        return float(self.score(kept[None], SUFFICIENCY)[0])

    def score(self, rows: Bools, objective: Objective, fills: Sequence[int] | None = None) -> Floats:
        """F (B,) of sets (B, n) on some of the fills, or all; they must have been asked for."""
        places = np.array([self._sets[key] for key in pack(objective.images(rows).reshape(-1, rows.shape[1]))])
        values = []
        for known in self._responses if fills is None else [self._responses[fill] for fill in fills]:
            responses = np.array([known[place] for place in places])
            by_side = responses.reshape(len(objective.sides), len(rows), *responses.shape[1:])
            values.append(objective.combine(by_side))
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

    def near(self, objective: Objective, mask: Bools) -> tuple[Bools, Floats]:
        """What is observed of sets that are at most twice as large as `mask` (n,): larger ones behave differently."""
        rows, scores = self.observed(objective)
        small = (rows.sum(axis=1) <= 2 * mask.sum()) & ~np.isnan(scores).all(axis=0)
        return rows[small], scores[:, small]


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

    def score(self, rows: Bools, objective: Objective, fills: Sequence[int] | None = None) -> Floats:
        """F (B,) of sets (B, n) on some of the fills, or all; they must have been asked for."""
        scores: Floats = self.every.score(rows, objective, fills)[:, self.target]
        return scores


@dataclass(eq=False)
class Responses:
    """The responses to masked versions of one image on one fill, by their packed bits."""

    scores: dict[bytes, Response] = field(default_factory=dict)
    answers: dict[bytes, int] = field(default_factory=dict)  # the model's own answer, where it reports one

    def answers_to(self, rows: Rows) -> list[int | None]:
        """The answers to the images that keep these sets (B, n), as far as they are known."""
        return [self.answers.get(key) for key in pack(rows)]

    def copy(self, key: bytes, source: "Responses") -> None:
        """Take what is known of one image from the responses on another fill."""
        self.scores[key] = source.scores[key]
        if key in source.answers:
            self.answers[key] = source.answers[key]

    def clear(self) -> None:
        """Forget everything."""
        self.scores.clear()
        self.answers.clear()


class Oracle:
    """Turns candidate sets into F for one search: what is known, what must be sent, what it cost.

    Oracles over the same image may share `responses`, one for each fill; each still keeps the ledger of its own search.
    What two of them ask for at the very same time is sent for both. A set costs a forward on every fill, but for the
    whole image, which is the same on all of them.
    With `cache=False` every image is sent each time it is asked for, and the ledger stays the same. For several
    `targets`, every response is a row of as many numbers.
    """

    def __init__(
        self, *responses: Responses, how: OverFills = "mean", cache: bool = True, targets: int | None = None
    ) -> None:
        self.responses = responses or (Responses(),)
        self.how, self.cache, self.targets = how, cache, targets
        self.asked: tuple[set[bytes], ...] = tuple(set() for _ in self.responses)  # by fill
        self.archive = Archive(len(self.responses), how, targets)
        self.ledger = Ledger()

    def open(self, rows: Rows, objective: Objective, stage: LedgerStage, fills: tuple[int, ...] | None = None) -> Query:
        """Work out what F of `rows` (B, ...) on these fills, or all, still needs."""
        fills = tuple(range(len(self.responses))) if fills is None else fills
        images = objective.images(rows).reshape(-1, *rows.shape[1:])
        keys, whole = pack(images), _whole(rows)
        sides = [keys[start : start + len(rows)] for start in range(0, len(keys), len(rows))]
        nominal, fresh = [], []
        before: set[bytes] = set()
        for side in sides:
            first = [{*side} - before - self.asked[fill] for fill in fills]
            before |= {*side}
            nominal.append(sum(1 if key == whole else len(fills) for key in side))
            fresh.append(sum(map(len, first)) - (len(fills) - 1) * (whole in first[0]))
        index: list[int] = []
        send_keys: list[list[bytes]] = []
        for fill, known in enumerate(self.responses):
            wanted = [i for i, key in enumerate(keys) if fill in fills and (fill == fills[0] or key != whole)]
            if self.cache:
                unknown = {keys[i]: i for i in reversed(wanted) if keys[i] not in known.scores}
                wanted = sorted(unknown.values())
            index += wanted
            send_keys.append([keys[i] for i in wanted])
        return Query(objective, stage, fills, keys, tuple(nominal), tuple(fresh), images[index], tuple(send_keys))

    def answer(self, query: Query, responses: Floats) -> Floats:
        """Take the responses (m,) or (m, T) to `query.send`, count them, and return F (B,) or (B, T)."""
        by_fill = self._take(query, responses)
        return over_fills(np.stack([query.objective.combine(one) for one in by_fill]), self.how)

    def by_side(self, query: Query, responses: Floats) -> Floats:
        """The same, but return the responses (sides, B) that F is made of."""
        return over_fills(self._take(query, responses), self.how)

    def score(self, kept: Bools) -> float | None:
        """The response to the image that keeps this set (n,), where any search over it has asked."""
        (key,) = pack(kept[None])
        if any(key not in known.scores for known in self.responses):
            return None
        values = np.array([known.scores[key] for known in self.responses])
        return None if self.targets else float(over_fills(values, self.how))

    def value(self, known: Responses, key: bytes) -> Response:
        """What a search learns of an image whose response on one fill is known: its score."""
        return known.scores[key]

    def _take(self, query: Query, responses: Floats) -> Floats:
        """Note the responses to `query.send`, count them, and return all that was asked for, (fills, sides, B)."""
        values, whole = iter(responses.tolist()), _whole(query.send)
        for known, keys in zip(self.responses, query.send_keys, strict=True):
            known.scores.update((key, next(values)) for key in keys)
        if whole in query.keys:
            self._share(whole, query.fills[0])
        keys = [*dict.fromkeys(query.keys)]
        for fill, known in enumerate(self.responses):
            new = [key for key in keys if key not in self.asked[fill] and (fill in query.fills or key == whole)]
            self.asked[fill].update(new)
            if query.send.dtype == np.bool_:  # of pixel masks there is nothing to say about regions
                self.archive.add(fill, new, [self.value(known, key) for key in new], query.send.shape[1])
        for side, nominal, fresh in zip(query.objective.sides, query.nominal, query.fresh, strict=True):
            self.ledger.add(query.stage, side, nominal, fresh)
        scores = np.array([[self.value(self.responses[fill], key) for key in query.keys] for fill in query.fills])
        return scores.reshape(len(query.fills), len(query.fresh), -1, *responses.shape[1:])

    def _share(self, whole: bytes, source: int) -> None:
        """The whole image is the same on all fills: what is known of it on one is known on all."""
        for known in self.responses:
            if whole not in known.scores:
                known.copy(whole, self.responses[source])


def _whole(rows: Rows) -> bytes | None:
    """The key of the set that keeps every region, for rows that are sets."""
    return pack(np.ones((1, rows.shape[1]), dtype=bool))[0] if rows.dtype == np.bool_ else None


def complement(rows: Rows) -> Rows:
    """The complementary images: what each row hides is shown, and vice versa."""
    return ~rows if rows.dtype == np.bool_ else 1 - rows


def pack(rows: Rows) -> list[bytes]:
    """The identity of each row within one search: the packed bits of a set, a hash of a pixel mask."""
    if rows.dtype != np.bool_:
        return [b"mask" + hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    packed = np.packbits(rows, axis=1)
    return packed.view(f"V{packed.shape[1]}").ravel().tolist()
