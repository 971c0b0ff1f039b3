"""What to make of a mask: a verdict from its scores and those of its controls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from whymask.errors import WhymaskError
from whymask.images.masking import fill_names
from whymask.search.measured import interval

AS_THE_REST = {"blur": "blurred", "mean": "one colour", "dark_defocus": "dark and blurred", "image": "another image"}
IN_ITS_PLACE = {
    "blur": "a blur",
    "mean": "the mean colour",
    "dark_defocus": "a dark blur",
    "inpaint": "a smooth continuation of them",
    "image": "another image",
}
ROUNDING = 1e-6  # a goal is reached by a score that differs from it by rounding
Code = Literal["blank_suffices", "shape_only", "not_above_chance", "not_enough", "one_fill", "redundant", "enough"]


@dataclass(frozen=True)
class Kept:
    """Whether the model still gives the answer, where that and not a score must be kept."""

    alone: bool  # to the regions alone
    removed: bool  # to the image without them
    blank: bool  # to the fill alone
    flat: bool
    shuffled: bool
    fills: Mapping[str, bool] = field(default_factory=dict)
    null: Mapping[str, bool] = field(default_factory=dict)  # each other answer, to the regions found for it


@dataclass(frozen=True)
class Controls:
    """Scores of the same answer where the regions should not give it, and where they still should."""

    flat: float  # of one colour inside the same outline
    shuffled: float  # of the regions' own pixels in random order
    fills: Mapping[str, float] = field(default_factory=dict)  # the regions on fills that the search did not use
    null: Mapping[str, float] = field(default_factory=dict)  # other answers, each on the regions a search found for it
    kept: Kept | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {"flat": self.flat, "shuffled": self.shuffled, "fills": dict(self.fills), "null": dict(self.null)}
        if self.kept is None:
            return plain
        kept = {**vars(self.kept), "fills": dict(self.kept.fills), "null": dict(self.kept.null)}
        return plain | {"kept": kept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The controls that `as_dict` wrote."""
        return cls(**{**data, "kept": Kept(**data["kept"]) if data.get("kept") else None})


@dataclass(frozen=True)
class Thresholds:
    """When a score counts as high.

    Args:
        share: of the whole image's score, what is enough; also, of the mask's own score, what is about as high.
        carried: of the mask's score, what it must keep on fills that the search did not use (`claimed`).
        chance: the share of other answers that may score about as high as the mask does.
        least: a lower score is no answer, whatever it is compared with.
        few: the share of the image that a few regions may cover; a mask that is larger shows nothing about them.
    """

    share: float = 0.8
    carried: float = 0.5
    chance: float = 0.05
    least: float = 0.05
    few: float = 0.5

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= 1:
                raise WhymaskError(f"the threshold {name} must lie in [0, 1], not {value}.")

    def claimed(self, full: float, score: float) -> float:
        """The score that a mask must carry to other fills: its own, or the whole image's where that is lower.

        A whole image that hardly supports the answer is no measure, since anything would be enough compared with it:
        it counts for no less than a share of the mask's score.

        >>> [Thresholds().claimed(full, score=0.8) for full in (0.9, 0.6, 0.0)]
        [0.8, 0.6, 0.4]
        """
        return min(score, max(full, self.carried * score))


class Verdict(NamedTuple):
    """What to make of a mask: a code for programs and a sentence for people."""

    code: Code
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def judge(
    *,
    full: float,
    score: float,
    removed: float,
    blank: float,
    area: float = 0.0,
    goal: float | None = None,
    controls: Controls | None = None,
    fill: str = "",
    at: Thresholds | None = None,
    answer: str = "",
) -> Verdict:
    """What to make of a mask: the first of these that holds.

    - blank_suffices: a blank image scores about as high as the mask, or is enough by itself;
    - shape_only: so does a flat colour, or shuffled pixels, inside the same outline;
    - not_above_chance: so do the masks that were found for other answers, where some were searched;
    - not_enough: the mask scores less than it should: `goal`, or by default a share of the whole image's score; or it
      covers most of the image;
    - one_fill: on a fill that the search did not use, less than half of the score is left (`Thresholds.claimed`);
    - redundant: the rest of the image, without the mask, is enough as well;
    - enough: none of these.

    Args:
        full: score of the whole image.
        score: score of the mask alone.
        removed: score of the image without it.
        blank: score of the fill alone.
        area: share of the image that the mask covers.
        goal: the score to reach, where the search had one.
        controls: the scores of the controls, where they are known.
        fill: the name of the fill (or fills) of the search.
        at: when a score counts as high.
        answer: the answer's name. Where it and no score was to be kept (`Controls.kept`), "enough" means that the model
            still gives it, and so for everything that is compared with the mask.
    """
    at = at or Thresholds()
    if controls and controls.kept:
        return _judge_answer(repr(answer), controls.kept, area, fill, at)
    needed = max(at.least, at.share * full if goal is None else goal)
    suffices = score >= needed - ROUNDING
    # What is compared with a mask that is not enough must itself be enough: a failed search says nothing about it.
    high = max(at.least, min(needed, at.share * score)) if suffices else needed
    if blank >= high:
        if any(_is_picture(name) for name in fill_names(fill)):
            what, so = "What is shown in place of the rest gives this answer by itself", "These regions add little."
        else:
            what, so = "A blank image gives this answer too", "It does not come from what the image shows."
        return Verdict("blank_suffices", f"{what}: it scores {blank:.2f}, these regions {score:.2f}. {so}")
    if controls and max(controls.flat, controls.shuffled) >= high:
        what, other = _only_shape(controls.flat >= high)
        scored = controls.flat if controls.flat >= high else controls.shuffled
        return Verdict(
            "shape_only",
            f"The {what} of these regions give the answer, not what they show: with {other} inside the same outline "
            f"the score is {scored:.2f}, with the image {score:.2f}.",
        )
    if controls and controls.null:
        rivals = [value for value in controls.null.values() if value >= (at.share * score if suffices else needed)]
        if len(rivals) > at.chance * len(controls.null):
            return Verdict(
                "not_above_chance",
                f"No better than chance: for {len(rivals)} of {_count(len(controls.null), 'other answer')} the same "
                f"search finds regions that score about as high ({max(rivals):.2f}, here {score:.2f}).",
            )
    if not suffices or area > at.few:
        return Verdict("not_enough", _not_enough(full, score, area, suffices, goal, at))
    if controls and controls.fills:
        worst, left = min(controls.fills.items(), key=lambda item: item[1])
        if left < at.carried * at.claimed(full, score):
            claim, whole = "are enough", ""
            if score > full:  # what is left may be enough too: the whole image can score even less
                claim, whole = "score this high", f"; the whole image scores {full:.2f}"
            return Verdict(
                "one_fill",
                f"These regions {claim} only where the rest is {_listed(fill) or 'filled as in the search'}: with "
                f"{IN_ITS_PLACE.get(worst, worst)} in its place the score falls from {score:.2f} to {left:.2f}{whole}.",
            )
    if removed >= needed:
        return Verdict(
            "redundant",
            f"These regions are enough, but so is the rest of the image: alone they score {score:.2f}, the image "
            f"without them {removed:.2f}. There is other evidence.",
        )
    kept = ""
    if controls and controls.fills:
        kept = (
            f", and at least {min(controls.fills.values()):.2f} with "
            f"{_listed(','.join(controls.fills), IN_ITS_PLACE)} instead"
        )
    elif controls is None:
        kept = " (not checked on other fills)"
    where = f" where the rest is {_listed(fill)}" if controls and fill else ""
    return Verdict(
        "enough", f"These regions are enough: alone they score {score:.2f}{where}{kept}; the whole image {full:.2f}."
    )


def measured(found: Verdict, *, score: float, needed: float, answers: int) -> Verdict:
    """A verdict on scores that are shares of `answers` answers: how far the mask's may be from the true one."""
    low, high = interval(score, answers)
    open_to_doubt = f": it is not certain whether that is at least {needed:.2f}" if low < needed <= high else ""
    return found._replace(
        sentence=f"{found.sentence} Scores are measured from {answers} answers each: with 95% confidence these "
        f"regions score between {low:.2f} and {high:.2f}{open_to_doubt}."
    )


def _not_enough(full: float, score: float, area: float, suffices: bool, goal: float | None, at: Thresholds) -> str:
    """What a mask that is not enough, or not small, falls short of."""
    if suffices:
        return (
            f"A few regions are not enough: it takes {area:.0%} of the image to score {score:.2f}, and the whole image "
            f"scores {full:.2f}."
        )
    if full < at.least:
        return f"There is little to explain: the whole image itself scores only {full:.2f} for this answer."
    missed = "" if goal is None else f", and {goal:.2f} was to be reached"
    return f"These regions are not enough: alone they score {score:.2f}, the whole image {full:.2f}{missed}."


def _judge_answer(answer: str, kept: Kept, area: float, fill: str, at: Thresholds) -> Verdict:
    """The same where the answer is to be kept: what counts is whether the model still gives it."""
    still, no_longer = f"the model still says {answer}", f"the model no longer says {answer}"
    if kept.blank:
        if any(_is_picture(name) for name in fill_names(fill)):
            what = f"Shown only what replaces the rest, {still}: these regions add little"
        else:
            what = f"The model says {answer} of a blank image too: the answer does not come from what the image shows"
        return Verdict("blank_suffices", f"{what}.")
    if kept.flat or kept.shuffled:
        what, other = _only_shape(kept.flat)
        return Verdict(
            "shape_only",
            f"The {what} of these regions give the answer, not what they show: with {other} inside the same outline "
            f"{still}.",
        )
    rivals = sum(kept.null.values())
    if rivals > at.chance * len(kept.null):
        others = _count(len(kept.null), "other answer")
        return Verdict(
            "not_above_chance",
            f"No better than chance: for {rivals} of {others} the same search finds regions of which the model says "
            "that.",
        )
    if not kept.alone:
        return Verdict("not_enough", f"These regions are not enough: shown only these, {no_longer}.")
    if area > at.few:
        return Verdict("not_enough", f"A few regions are not enough: {still} only when shown {area:.0%} of the image.")
    lost = [IN_ITS_PLACE.get(name, name) for name, is_kept in kept.fills.items() if not is_kept]
    if lost:
        where = _listed(fill) or "filled as in the search"
        return Verdict(
            "one_fill",
            f"These regions are enough only where the rest is {where}: with {lost[0]} in its place {no_longer}.",
        )
    if kept.removed:
        return Verdict(
            "redundant",
            f"These regions are enough, but so is the rest of the image: shown either of them, {still}. There is other "
            "evidence.",
        )
    also = f", also with {_listed(','.join(kept.fills), IN_ITS_PLACE)} in place of the rest" if kept.fills else ""
    return Verdict("enough", f"These regions are enough: shown only these, {still}{also}.")


def _only_shape(flat: bool) -> tuple[str, str]:
    """What of the regions is enough for the answer, and what is shown in them instead; shuffled, they keep colours."""
    return ("outlines", "one flat colour") if flat else ("outlines and colours", "shuffled pixels")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _is_picture(fill: str) -> bool:
    """Whether a fill shows something by itself: a blur of the image, or another image."""
    return fill in ("blur", "dark_defocus", "image") or "/" in fill or "." in fill


def _listed(names: str, called: Mapping[str, str] = AS_THE_REST) -> str:
    """Fills as a sentence has them.

    >>> _listed("black,blur,mean")
    'black, blurred or one colour'
    """
    *first, last = (called.get(name, name) for name in fill_names(names))
    return f"{', '.join(first)} or {last}" if first else last
