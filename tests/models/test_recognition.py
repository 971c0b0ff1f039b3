"""Characters, words and texts as targets, on a planted recogniser: a glyph is read as far as its column is bright."""

import numpy as np
import pytest

import whymask
from whymask.errors import ImageError, WhymaskError

from models.planted import ALPHABET, characters, line


@pytest.fixture
def recogniser():
    return whymask.wrap(characters, task="recognition", alphabet=ALPHABET)


@pytest.mark.parametrize(
    ("target", "label", "columns"),
    [(None, "ab cc", [0, 1, 3, 4, 5, 7]), (0, "a", [0, 1]), ("3", "c", [5]), (4, "c", [7]), ("ab", "ab", [0, 1, 3]),
     ("cc", "cc", [5, 7]), ("b c", "b c", [3, 4, 5])],
)  # fmt: skip
def test_what_is_read_is_found_by_number_or_text(recogniser, target, label, columns):
    """The mean over characters of the best step: hiding the columns of all steps of one takes its share."""
    bound = recogniser.bind(line(), target=target)
    assert bound.target.label == label
    full = recogniser.respond(bound.inputs[None], [bound]).score[0]
    assert full == pytest.approx(250 / 255)
    image = line()
    for column in range(8):
        if column not in columns:
            image[:, 8 * column : 8 * column + 8] = 0
    assert recogniser.respond(image[None], [bound]).score[0] == pytest.approx(full)
    for column in columns:
        image[:, 8 * column : 8 * column + 8] = 0
    assert recogniser.respond(image[None], [bound]).score[0] == 0


def test_the_evidence_of_a_word_is_its_columns(recogniser):
    evidence = whymask.explain(line(), recogniser, target="cc", regions="grid:1x8", k=2, fill="black")
    assert evidence.regions == (5, 7)
    assert evidence.removed_score == 0


def test_one_of_two_steps_is_enough_for_a_character(recogniser):
    assert len(whymask.explain(line(), recogniser, target=0, regions="grid:1x8", k="auto").regions) == 1


def test_a_saved_ordering_finds_its_character_again(recogniser, tmp_path):
    ordering = whymask.explain(line(), recogniser, target=4, regions="grid:1x8", method="greedy")
    again = whymask.Ordering.load(ordering.save(tmp_path / "x.npz"))
    assert again.order[0] == 7
    assert whymask.replay(again, recogniser).insertion == pytest.approx([250 / 255] * 8)


def test_what_is_not_read_is_a_sentence(recogniser):
    for target, words in (
        ("d", "reads 'ab cc', which does not contain 'd'"),
        (5, "its characters have the numbers 0 to 4"),
    ):
        with pytest.raises(ImageError, match=words):
            recogniser.bind(line(), target=target)
    for number in (1.5, True):
        with pytest.raises(WhymaskError, match="a target must be a whole number"):
            recogniser.bind(line(), target=number)
    with pytest.raises(ImageError, match="reads nothing"):
        recogniser.bind(np.zeros((16, 64, 3), np.uint8))
    with pytest.raises(WhymaskError, match="not a point"):
        recogniser.bind(line(), target=(1, 1))
    with pytest.raises(WhymaskError, match="the blank is one of the 5 classes"):
        whymask.wrap(characters, task="recognition", alphabet=ALPHABET, blank=5)
    with pytest.raises(WhymaskError, match=r"must return probabilities \(1, steps, 2\)"):
        whymask.wrap(characters, task="recognition", alphabet="_a").bind(line())
