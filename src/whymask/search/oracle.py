"""The oracle of a search: turns sets into F, by what is known and what must be sent, and keeps the ledger."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf

import numpy as np

from whymask.arrays import Bools, Floats, Rows
from whymask.search.archive import Archive
from whymask.search.objective import Ledger, LedgerStage, Objective, OverFills, Response, over_fills, pack
from whymask.search.protocol import Found


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
        ends = [*accumulate(map(len, self.send_keys), initial=0)]
        return [self.send[start:end] for start, end in pairwise(ends)]


@dataclass(eq=False)
class Responses:
    """The responses to masked versions of one image on one fill, by their packed bits."""

    scores: dict[bytes, Response] = field(default_factory=dict)
    answers: dict[bytes, int] = field(default_factory=dict)  # the model's own answer, where it reports one

    def answers_to(self, rows: Rows) -> list[int | None]:
        """The answers to the images that keep these sets (B, n), as far as they are known."""
        return [self.answers.get(key) for key in pack(rows)]

    def note(self, key: bytes, response: Response) -> None:
        """Take a response."""
        self.scores[key] = response

    def behind(self, key: bytes) -> float:
        """How many answers a response is the mean of; a probability is worth any number."""
        return inf

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
        keys, whole = pack(images), key_of_all(rows)
        nominal, fresh = [], []
        before: set[bytes] = set()
        for start in range(0, len(keys), len(rows)):
            side = keys[start : start + len(rows)]
            once = {*side} - before
            before |= once
            first = [once - self.asked[fill] for fill in fills]
            nominal.append(len(fills) * len(side) - (len(fills) - 1) * (side.count(whole) if whole else 0))
            fresh.append(sum(map(len, first)) - (len(fills) - 1) * (whole in first[0]))
        index: list[int] = []
        send_keys: list[list[bytes]] = []
        for fill, known in enumerate(self.responses):
            wanted: Iterable[int] = range(len(keys)) if fill in fills else ()
            if self.cache:
                unknown: dict[bytes, int] = {}
                for i in wanted:
                    if keys[i] not in known.scores:
                        unknown.setdefault(keys[i], i)
                wanted = unknown.values()
            some = [i for i in wanted if fill == fills[0] or keys[i] != whole]
            index += some
            send_keys.append([keys[i] for i in some])
        return Query(objective, stage, fills, keys, tuple(nominal), tuple(fresh), images[index], tuple(send_keys))

    def answer(self, query: Query, responses: Floats) -> Floats:
        """Take the responses (m,) or (m, T) to `query.send`, count them, and return F (B,) or (B, T)."""
        by_fill = self._take(query, responses)
        return over_fills(np.stack([query.objective.combine(one) for one in by_fill]), self.how)

    def again(self, query: Query, best: Found, most: int | None) -> Query | None:
        """What to ask again before the search goes on, in at most `most` forwards: nothing, if responses are exact."""
        return None

    def by_side(self, query: Query, responses: Floats) -> Floats:
        """The same, but return the responses (sides, B) that F is made of."""
        return over_fills(self._take(query, responses), self.how)

    def asked_for(self, target: int, proposed: Mapping[bytes, Collection[int]]) -> int:
        """How many forwards were made for one of several targets, by the targets that sets were proposed for."""
        if not self.asked[0]:
            return 0
        own = sum(target in proposed.get(key, (target,)) for keys in self.asked for key in keys)
        whole = key_of_all(self.archive.rows[:1])
        return own - (len(self.asked) - 1) * (whole in self.asked[0])

    def score(self, kept: Bools) -> float | None:
        """The response to the image that keeps this set (n,), where any search over it has asked."""
        (key,) = pack(kept[None])
        if self.targets is not None or any(key not in known.scores for known in self.responses):
            return None
        values = np.array([known.scores[key] for known in self.responses])
        return float(over_fills(values, self.how))

    def value(self, known: Responses, key: bytes) -> Response:
        """What a search learns of an image whose response on one fill is known: its score."""
        return known.scores[key]

    def _take(self, query: Query, responses: Floats) -> Floats:
        """Note the responses to `query.send`, count them, and return all that was asked for, (fills, sides, B)."""
        values, whole = iter(responses.tolist()), key_of_all(query.send)
        for known, keys in zip(self.responses, query.send_keys, strict=True):
            for key in keys:
                known.note(key, next(values))
        if whole in query.keys:
            self._share(whole, query.fills[0])
        keys = [*dict.fromkeys(query.keys)]
        for fill, known in enumerate(self.responses):
            sent, asked = {*query.send_keys[fill]}, self.asked[fill]
            here = [key for key in keys if fill in query.fills or key == whole]
            new = [key for key in here if key in sent or key not in asked]
            asked.update(new)
            if query.send.dtype == np.bool_:  # of pixel masks there is nothing to say about regions
                found = [self.value(known, key) for key in new]
                self.archive.add(fill, new, found, query.send.shape[1], [known.behind(key) for key in new])
        for side, nominal, fresh in zip(query.objective.sides, query.nominal, query.fresh, strict=True):
            self.ledger.add(query.stage, side, nominal, fresh)
        scores = np.array([[self.value(self.responses[fill], key) for key in query.keys] for fill in query.fills])
        return scores.reshape(len(query.fills), len(query.fresh), -1, *responses.shape[1:])

    def _share(self, whole: bytes, source: int) -> None:
        """The whole image is the same on all fills: what is known of it on one is known on all."""
        known = self.responses[source]
        for other in self.responses:
            if whole not in other.scores or other.behind(whole) < known.behind(whole):
                other.copy(whole, known)


def key_of_all(rows: Rows) -> bytes | None:
    """The key of the set that keeps every region, for rows that are sets."""
    return _all_of(rows.shape[1]) if rows.dtype == np.bool_ else None


@lru_cache
def _all_of(n: int) -> bytes:
    return pack(np.ones((1, n), dtype=bool))[0]
