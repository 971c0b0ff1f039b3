"""What a sanity check of a model found: whether its evidence can be believed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, NamedTuple, TypeAlias

from whymask.metrics.shares import wilson
from whymask.results.verdict import Thresholds
from whymask.utils.text import displayed

AT = Thresholds()
Lines: TypeAlias = list[Sequence[str]]


class Shared(NamedTuple):
    """How much of one mask another one has, and how much a random mask of that size would have."""

    overlap: float
    chance: float


@dataclass(frozen=True)
class PhotoCheck:
    """The evidence for the answer to one photo, and what it was compared with."""

    name: str
    answer: str
    verdict: str  # its code
    full: float  # score of the whole image
    score: float  # of the evidence alone
    area: float
    fills: Mapping[str, float]  # the score on fills that the search did not use
    null: Mapping[str, float]  # other answers, each on the regions the same search found for it
    seeds: Shared  # with the evidence that other seeds find
    searched: Mapping[str, Shared]  # with the evidence that is found on another fill

    @property
    def above_chance(self) -> bool:
        """Whether other answers reach about as high a score no more often than by chance."""
        rivals = sum(score >= AT.share * self.score for score in self.null.values())
        return rivals <= AT.chance * len(self.null)

    @property
    def carried(self) -> float:
        """The least share of its score that the evidence keeps on the fills that the search did not use."""
        claimed = AT.claimed(self.full, self.score)
        return min(self.fills.values(), default=0.0) / claimed if claimed else 0.0


@dataclass(frozen=True)
class ShuffledCheck:
    """The same answers and photos with the weights of some layers shuffled; a value for every photo."""

    layers: int
    of: int
    full: tuple[float, ...]  # score of the old answer on the whole image
    score: tuple[float, ...]  # on the old evidence
    evidence: tuple[Shared, ...]  # the old evidence, with what is found for the old answer now


@dataclass(frozen=True)
class Check:
    """Whether a model's evidence is enough, above chance, the same for other seeds and fills, and about its weights."""

    model: str
    settings: Mapping[str, Any]  # how all of it was searched
    photos: tuple[PhotoCheck, ...]
    shuffled: tuple[ShuffledCheck, ...]  # the last layers first; none where the weights cannot be reached
    forwards: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """A page for reading."""
        about = ", ".join(
            f"{name} {displayed(str(value))}" for name, value in self.settings.items() if value is not None
        )
        parts = [
            f"# Sanity check of {displayed(self.model)}",
            f"The model's answers to {_photos(len(self.photos))}, explained by {about}; {self.forwards} forwards.",
            _table([("question", "finding"), *self._findings()]),
            "## Verdicts",
            _table([("verdict", "photos"), *((f"`{code}`", str(count)) for code, count in self._verdicts())]),
            "## Photos",
            _table(self._by_photo()),
        ]
        if self.shuffled:
            parts += ["## Shuffled weights", SHUFFLED, _table(self._by_layers())]
        return "\n\n".join([*parts, "## What this does not show", CAVEATS]) + "\n"

    def _verdicts(self) -> list[tuple[str, int]]:
        return Counter(photo.verdict for photo in self.photos).most_common()

    def _findings(self) -> Lines:
        """The questions of a reviewer, and what was found."""
        return [
            ("Are the regions enough?", f"{self._enough()}: verdict `enough` or `redundant`."),
            ("More than for any other answer?", self._above_chance()),
            ("The same for other seeds?", f"{_shared([photo.seeds for photo in self.photos])}."),
            ("The same on other fills?", self._on_other_fills()),
            ("Does it change with the weights?", self._with_other_weights()),
        ]

    def _enough(self) -> str:
        return _share([photo.verdict in ("enough", "redundant") for photo in self.photos])

    def _above_chance(self) -> str:
        others = [score for photo in self.photos for score in photo.null.values()]
        if not others:
            return "Not searched: pass other answers."
        return (
            f"{_share([photo.above_chance for photo in self.photos])}: other answers, searched in the same way, score "
            f"less than {AT.share:.0%} of it. In the mean the evidence scores "
            f"{fmean(photo.score for photo in self.photos):.2f}, what is found for other answers {fmean(others):.2f}."
        )

    def _on_other_fills(self) -> str:
        photos = self.photos
        fills = (
            " and ".join(dict.fromkeys(displayed(fill) for photo in photos for fill in photo.fills)) or "other fills"
        )
        found = (
            f"{_share([photo.carried >= AT.carried for photo in photos])} keep at least half of the score on {fills}, "
            f"which the search did not use; in the median they keep {median(photo.carried for photo in photos):.0%}."
        )
        for fill in photos[0].searched:
            found += f" Searched on {displayed(fill)} instead: {_shared([photo.searched[fill] for photo in photos])}."
        return found

    def _with_other_weights(self) -> str:
        if not self.shuffled:
            return "Not tried: the weights cannot be reached, as the model is no torch classifier."
        last = self.shuffled[-1]
        return (
            f"With the weights of all layers shuffled {_shared(last.evidence)}, and the old answers score "
            f"{fmean(last.full):.2f} (before, {fmean(photo.full for photo in self.photos):.2f})."
        )

    def _by_photo(self) -> Lines:
        lines: Lines = [
            ("photo", "answer", "verdict", "whole image", "evidence", "area", "least on other fills",
             "best other answer", "same for other seeds (by chance)"),
        ]  # fmt: skip
        for one in self.photos:
            found = (
                displayed(one.name),
                displayed(one.answer),
                f"`{one.verdict}`",
                f"{one.full:.2f}",
                f"{one.score:.2f}",
            )
            least, best = min(one.fills.values(), default=0.0), max(one.null.values(), default=None)
            others = f"{one.area:.0%}", f"{least:.2f}", "" if best is None else f"{best:.2f}", _overlap([one.seeds])
            lines.append((*found, *others))
        return lines

    def _by_layers(self) -> Lines:
        before, of = [photo.seeds for photo in self.photos], self.shuffled[0].of
        full, score = (fmean(values) for values in zip(*((one.full, one.score) for one in self.photos), strict=True))
        lines: Lines = [
            ("layers shuffled", "old answer, whole image", "old answer, old evidence", "same regions (by chance)"),
            (f"0 of {of}", f"{full:.2f}", f"{score:.2f}", _overlap(before)),
        ]
        for one in self.shuffled:
            scores = f"{fmean(one.full):.2f}", f"{fmean(one.score):.2f}"
            lines.append((f"{one.layers} of {one.of}", *scores, _overlap(one.evidence)))
        return lines


SHUFFLED = (
    "The values of every weight are permuted within their layer, the layers nearest to the output first, and the same "
    "search is run for the old answers. Evidence that is about the model must change. The first row is what another "
    "seed changes."
)
CAVEATS = (
    "Brackets hold 95% intervals (Wilson's); few photos give wide ones, and other photos other numbers. Evidence that "
    "shares few regions from seed to seed need not be wrong: an answer may have several. That regions are enough says "
    "neither that no others are, nor that the model looks at them as a person would."
)


def _photos(count: int) -> str:
    return f"{count} photo{'' if count == 1 else 's'}"


def _share(holds: Sequence[bool]) -> str:
    low, high = wilson(sum(holds) / len(holds), len(holds))
    return f"{sum(holds)} of {_photos(len(holds))} [{low:.0%}, {high:.0%}]"


def _shared(some: Sequence[Shared]) -> str:
    overlap, chance = (fmean(values) for values in zip(*some, strict=True))
    return f"{overlap:.0%} of the regions are the same, by chance {chance:.0%}"


def _overlap(some: Sequence[Shared]) -> str:
    overlap, chance = (fmean(values) for values in zip(*some, strict=True))
    return f"{overlap:.2f} ({chance:.2f})"


def _table(lines: Lines) -> str:
    """The first line is the header."""
    cells = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in cells)
