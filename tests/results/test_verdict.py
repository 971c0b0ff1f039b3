"""Every verdict at its boundary: a step below it, and a step above."""

import pytest

from whymask.errors import WhymaskError
from whymask.results.verdict import Controls, Thresholds, judge

STEP = 1e-3
GOOD = {"full": 1.0, "score": 0.9, "removed": 0.1, "blank": 0.0, "fill": "black"}


def controls(flat=0.0, shuffled=0.0, fills=(0.9, 0.9), null=()):
    named = dict(zip(("noise", "blur"), fills, strict=True))
    return Controls(flat, shuffled, named, {f"answer {i}": score for i, score in enumerate(null)})


def code(at=None, controls=controls(), **changes):  # noqa: B008 - never changed
    return judge(**{**GOOD, **changes}, controls=controls, at=at).code


def test_enough():
    assert code() == "enough"
    assert code(controls=None) == "enough"


def test_a_blank_image_that_scores_a_share_of_the_mask_or_of_the_whole():
    assert code(blank=0.8 * 0.9 + STEP) == "blank_suffices"  # 80% of the mask's score
    assert code(blank=0.8 * 0.9 - STEP) == "enough"
    assert code(full=0.5, blank=0.4 + STEP) == "blank_suffices"  # enough by itself, though the mask scores more
    assert code(full=0.5, blank=0.4 - STEP) == "enough"
    assert code(score=0.04, full=0.04, blank=0.04) == "not_enough"  # nothing that scores below 0.05 is an answer


@pytest.mark.parametrize("which", ["flat", "shuffled"])
def test_an_outline_that_scores_as_well(which):
    assert code(controls=controls(**{which: 0.72 + STEP})) == "shape_only"
    assert code(controls=controls(**{which: 0.72 - STEP})) == "enough"


def test_other_answers_that_reach_the_same():
    assert code(controls=controls(null=[0.72 - STEP] * 3)) == "enough"
    assert code(controls=controls(null=[0.0, 0.0, 0.72 + STEP])) == "not_above_chance"
    assert code(full=0.2, controls=controls(null=[0.3] * 3)) == "enough"  # more than the whole, but not the same
    assert code(controls=controls(null=[0.0] * 19 + [0.9])) == "enough"  # one of twenty is chance itself
    assert code(controls=controls(null=[0.0] * 18 + [0.9])) == "not_above_chance"


def test_a_share_of_the_whole_or_the_goal():
    assert code(score=0.8 + STEP) == "enough"
    assert code(score=0.8 - STEP) == "not_enough"
    assert code(score=0.85, goal=0.85) == "enough"
    assert code(score=0.85, goal=0.9) == "not_enough"
    assert code(score=0.6, goal=0.6, controls=None) == "enough"


def test_a_mask_of_most_of_the_image_is_no_few_regions():
    assert code(area=0.5) == "enough"
    assert code(area=0.5 + STEP) == "not_enough"
    assert code(area=0.6, at=Thresholds(few=0.7)) == "enough"
    assert code(area=0.6, controls=controls(fills=(0.1, 0.1))) == "not_enough"  # before one_fill
    sentence = judge(**GOOD, area=0.834, controls=controls()).sentence
    assert sentence.startswith("A few regions are not enough: it takes 83% of the image to score 0.90")


def test_half_of_the_score_on_every_fill_that_was_not_searched():
    assert code(controls=controls(fills=(0.9, 0.45 + STEP))) == "enough"
    assert code(controls=controls(fills=(0.45 - STEP, 0.9))) == "one_fill"
    assert code(full=0.6, controls=controls(fills=(0.9, 0.3 + STEP))) == "enough"  # half of the whole image's
    assert code(full=0.6, controls=controls(fills=(0.9, 0.3 - STEP))) == "one_fill"


@pytest.mark.parametrize("full", [0.0, 0.04, 0.06, 0.3, 0.45])
def test_a_whole_image_that_scores_little_is_no_measure_of_what_another_fill_leaves(full):
    """It counts for half of the mask's score, so half of that must be left, however low the whole image scores."""
    assert code(full=full, removed=0.0, controls=controls(fills=(0.9, 0.225 + STEP))) == "enough"
    assert code(full=full, removed=0.0, controls=controls(fills=(0.9, 0.225 - STEP))) == "one_fill"


@pytest.mark.parametrize("full", [0.9, 0.95, 1.0])
def test_a_mask_that_scores_no_more_than_the_whole_image_keeps_half_of_its_own_score(full):
    assert code(full=full, controls=controls(fills=(0.9, 0.45 + STEP))) == "enough"
    assert code(full=full, controls=controls(fills=(0.9, 0.45 - STEP))) == "one_fill"


def test_the_sentence_on_a_mask_above_the_whole_image_has_both_scores():
    found = judge(**GOOD | {"full": 0.0, "score": 0.79}, controls=controls(fills=(0.79, 0.06)))
    assert found.code == "one_fill"
    assert found.sentence == (
        "These regions score this high only where the rest is black: with a blur in its place the score falls from "
        "0.79 to 0.06; the whole image scores 0.00."
    )


def test_the_rest_is_enough_too():
    assert code(removed=0.8 + STEP) == "redundant"
    assert code(removed=0.8 - STEP) == "enough"


def test_the_order_of_precedence():
    everything = {"score": 0.7, "removed": 1.0, "blank": 1.0}
    worst = controls(flat=1.0, fills=(0.0, 0.0), null=[1.0])
    assert code(controls=worst, **everything) == "blank_suffices"
    everything["blank"] = 0.0
    assert code(controls=worst, **everything) == "shape_only"
    assert code(controls=controls(fills=(0.0, 0.0), null=[1.0]), **everything) == "not_above_chance"
    assert code(controls=controls(fills=(0.0, 0.0)), **everything) == "not_enough"
    everything["score"] = 0.9
    assert code(controls=controls(fills=(0.0, 0.0)), **everything) == "one_fill"
    assert code(**everything) == "redundant"


def test_thresholds_are_the_users():
    assert code(Thresholds(share=0.95)) == "not_enough"
    assert code(Thresholds(carried=0.9), controls=controls(fills=(0.9, 0.8))) == "one_fill"
    assert code(Thresholds(chance=0.5), controls=controls(null=[0.9, 0.0])) == "enough"
    assert code(Thresholds(least=0.95)) == "not_enough"
    with pytest.raises(WhymaskError, match=r"share must lie in \[0, 1\]"):
        Thresholds(share=1.5)


def test_sentences_say_what_was_compared():
    sentence = judge(**GOOD, controls=controls(fills=(0.5, 0.2))).sentence
    assert sentence == (
        "These regions are enough only where the rest is black: with a blur in its place the score falls from 0.90 to "
        "0.20."
    )
    blank = judge(**GOOD | {"blank": 0.9}).sentence
    assert blank.startswith("A blank image gives this answer too: it scores 0.90, these regions 0.90.")
    blurred = judge(**GOOD | {"blank": 0.9, "fill": "black,blur"}).sentence
    assert "blank" not in blurred  # a blurred image is not


def test_an_outline_is_blamed_only_where_it_is_enough_by_itself():
    """Shuffled pixels keep the colours: where a flat colour does not give the answer, neither does the outline."""
    outline = judge(**GOOD, controls=controls(flat=0.8, shuffled=0.9)).sentence
    assert outline.startswith("The outlines of these regions give the answer")
    assert "one flat colour" in outline
    assert "the score is 0.80" in outline
    colours = judge(**GOOD, controls=controls(flat=0.0, shuffled=0.8)).sentence
    assert colours.startswith("The outlines and colours of these regions give the answer")
    assert "with shuffled pixels inside the same outline the score is 0.80" in colours


def test_a_search_that_failed_says_nothing_about_the_image():
    """A weak mask is not enough, however a blank image or its outline compare with it."""
    weak = {"full": 0.9, "score": 0.1, "removed": 0.8}
    assert code(**weak, blank=0.09) == "not_enough"
    assert code(**weak, controls=controls(flat=0.1, null=[0.1])) == "not_enough"
    assert code(**weak, blank=0.72 + STEP) == "blank_suffices"  # but a blank image is enough by itself


def test_sentences_name_what_is_meant():
    low = judge(**{**GOOD, "full": 0.04, "score": 0.04}, controls=controls())
    assert "the whole image itself scores only 0.04" in low.sentence
    assert "0.90 was to be reached" in judge(**{**GOOD, "score": 0.5}, goal=0.9).sentence
    one = judge(**{**GOOD, "fill": "(255, 0, 0),blur"}, controls=controls(fills=(0.9, 0.1)))
    assert "where the rest is (255, 0, 0) or blurred: with a blur in its place" in one.sentence
    picture = judge(**{**GOOD, "fill": "photo.png", "blank": 0.9}, controls=controls())
    assert "A blank image" not in picture.sentence
