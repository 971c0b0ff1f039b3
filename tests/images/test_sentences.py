from collections import Counter
from dataclasses import replace

import pytest

from whymask import WhymaskError
from whymask.images.described import plan
from whymask.images.sentences import judge, read, sentence

PLANS = [plan("test", number) for number in range(100)]
PAIR = next(p for p in PLANS if len(p.groups) == 2)
PAIR = replace(PAIR, groups=(
    replace(PAIR.groups[0], noun="cup", colour="red", count=2, corner=(0, 20)),
    replace(PAIR.groups[1], noun="star", colour="blue", count=1, corner=(56, 20)),
))  # fmt: skip


def judged(text, plan=PAIR):
    return {text[j.word.start : j.word.end]: (j.verdict, j.groups) for j in judge(read(text), plan)}


def test_the_sentence_of_a_scene():
    assert sentence(PAIR) == "two red cups left of a blue star"
    assert sentence(replace(PAIR, groups=PAIR.groups[:1])) == "two red cups"
    assert sentence(replace(PAIR, groups=(*PAIR.groups, replace(PAIR.groups[0], noun="kite", count=3)))) == (
        "two red cups left of a blue star and three red kites"
    )


def test_true_sentences_are_read_and_right():
    for p in PLANS:
        text = sentence(p)
        words = read(text)
        assert " ".join(text[w.start : w.end] for w in words) == text.replace(" and", "")
        assert {j.verdict for j in judge(words, p)} == {"right"}
        kinds = Counter(w.kind for w in words)
        assert kinds["noun"] == kinds["colour"] == kinds["count"] == len(p.groups)
        assert kinds["relation"] == (len(p.groups) > 1)


@pytest.mark.parametrize(
    "text",
    ["", "a cup", "a red cups", "two red cup", "a red cup left a blue star", "a red cup and a blue star",
     "a red cup left of a blue star and", "a red cup above a blue star below a green tree", "a  red cup", "A red cup"],
)  # fmt: skip
def test_what_is_no_sentence(text):
    with pytest.raises(WhymaskError, match="not a sentence"):
        read(text)


def test_attributes_that_are_misread():
    found = judged("three green cups above a blue star")
    assert found["three"] == ("misread", (0,))
    assert found["green"] == ("misread", (0,))
    assert found["cups"] == ("right", (0,))
    assert found["above"] == ("misread", (0, 1))
    assert found["star"] == ("right", (1,))


def test_a_misread_object_is_known_by_its_colour_or_as_the_one_that_is_left():
    found = judged("two red plates left of a blue star")
    assert found["plates"] == ("misread", (0,))
    assert found["red"] == ("right", (0,))
    assert found["left of"] == ("right", (0, 1))
    assert judged("two red cups left of a green ball")["ball"] == ("misread", (1,))


def test_what_the_scene_does_not_have_is_unsupported():
    found = judged("two red cups left of a blue star and a white moon")
    assert {found[word] for word in ("white", "moon")} == {("unsupported", ())}
    assert found["star"] == ("right", (1,))
    alone = replace(PAIR, groups=PAIR.groups[:1])
    found = judged("two red cups left of a blue star", alone)
    assert found["left of"] == ("unsupported", (0,))
    assert found["star"][0] == "unsupported"


def test_a_noun_goes_before_a_colour():
    """The star is the star, whatever colour the other phrase has."""
    found = judged("two blue cups left of a red star")
    assert found["cups"] == ("right", (0,))
    assert found["blue"] == ("misread", (0,))


def test_relations_hold_between_the_groups_meant():
    """Named the other way round, the relation is reversed."""
    assert judged("a blue star right of two red cups")["right of"] == ("right", (1, 0))
    assert judged("a blue star left of two red cups")["left of"] == ("misread", (1, 0))
