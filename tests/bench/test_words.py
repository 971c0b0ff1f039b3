"""The measures of benchmarks/words.py."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import words

import whymask
from whymask.images.described import described, draw, plan
from whymask.images.sentences import COUNTS, judge, read, sentence


def square(top, left, side, size=40):
    mask = np.zeros((size, size), dtype=bool)
    mask[top : top + side, left : left + side] = True
    return mask


def test_a_mask_points_at_the_middle_of_its_largest_part():
    assert words.point(square(10, 20, 5) | square(30, 2, 3)) == (12, 22)
    assert words.point(np.ones((5, 5), dtype=bool)) == (2, 2)  # the image's border is outside


def test_a_point_may_miss_by_the_tolerance():
    truth = square(10, 10, 4)
    np.testing.assert_array_equal(words.near(truth, 0), truth)
    assert words.near(truth, 7)[12, 20]  # the object ends in column 13
    assert not words.near(truth, 7)[12, 21]
    assert not words.near(np.zeros_like(truth), 100).any()


def test_chance_is_how_often_masks_hit_the_objects_of_others():
    truths = [square(0, 0, 6), square(20, 20, 6), square(20, 20, 6)]
    masks = [square(0, 0, 3), square(21, 21, 3), square(0, 0, 3)]
    assert words.pointing(masks, truths, 0) == (2 / 3, 2 / 6)


def test_overlaps():
    a, b = square(0, 0, 4), square(0, 2, 4)
    assert words.iou(a, b) == 8 / 24
    assert words.on_object(a, square(0, 0, 8)) == 1
    assert words.on_object(square(0, 0, 8), a) == 1 / 4
    assert words.iou(a & False, b & False) == 0


def test_auc_counts_pairs():
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 6, 60), rng.random(60) < 0.4
    pairs = [(p > n) + (p == n) / 2 for p in scores[labels] for n in scores[~labels]]
    assert words.auc(scores, labels) == pytest.approx(np.mean(pairs), abs=1e-12)
    assert np.isnan(words.auc([1, 2], [True, True]))


def test_explained_words_are_found_in_the_grammar():
    p = next(p for p in (plan("test", n) for n in range(50)) if p.relation == "left of")
    text = sentence(p)
    judged = judge(read(text), p)
    at = text.index("left")
    assert words.referred(at, at + 4, judged).word.kind == "relation"
    noun = text.index(p.groups[0].noun)
    assert words.referred(noun, text.index(" ", noun), judged).groups == (0,)
    assert words.referred(0, len(text), judged) is None


def test_interventions_change_what_the_word_says_and_nothing_else():
    p = next(p for p in (plan("test", n) for n in range(50)) if len(p.groups) == 3)
    for one in judge(read(sentence(p)), p):
        changed = words.interventions(one, p)
        gone, rest = changed[: len(one.groups)], changed[len(one.groups) :]
        assert [len(q.groups) for q in gone] == [2] * len(one.groups)
        assert rest
        for q in rest:
            if one.word.kind == "relation":
                assert q.relation != one.word.says
                continue
            (i,) = one.groups
            says = {"noun": q.groups[i].noun, "colour": q.groups[i].colour, "count": COUNTS[q.groups[i].count - 1]}
            assert says[one.word.kind] != one.word.says
            same = replace(q.groups[i], **{one.word.kind: getattr(p.groups[i], one.word.kind)})
            assert same == p.groups[i]


def test_a_word_about_nothing_is_tried_on_every_group():
    p = next(p for p in (plan("test", n) for n in range(50)) if len(p.groups) == 1)
    noun = "kite" if p.groups[0].noun != "kite" else "ball"
    text = f"{sentence(p)} above a red {noun}"
    lost = next(one for one in judge(read(text), p) if one.verdict == "unsupported" and one.word.kind == "noun")
    assert [len(q.groups) for q in words.interventions(lost, p)] == [0]


def test_masks_as_text():
    mask = np.random.default_rng(0).random((112, 112)) < 0.3
    np.testing.assert_array_equal(words.unpack(words.pack(mask)), mask)


def row(**changes):
    box = words.pack(square(0, 0, 8))
    return replace(
        words.Row(0, "scene", "cup", "noun", "right", "content", 0.9, 0.1, 0.8, box, box, "enough"), **changes
    )


def test_the_table_keeps_misread_words_apart():
    other = words.pack(square(24, 24, 8))
    rows = [row(), row(mask=other, truth=other, code="one_fill"), row(verdict="misread", truth=other),
            row(shown="without a group", verdict="unsupported"), row(role="prior", mask="")]  # fmt: skip
    text = words.table(rows).splitlines()[2:]
    assert text[0] == "| right | noun | 3 | 2 | 100.0% | 0.0% | 100.0% of 1 | 1.00 | 1.00 |"
    assert text[1].startswith("| misread | noun | 1 | 1 | 0.0% | nan% | 0.0% of 1 | 0.00 |")
    assert len(text) == 2


def test_support_is_compared_with_what_changes_do():
    moved, still = row(), row(full=0.9, blank=0.8, lost=0.2)
    unlikely = row(role="unlikely", full=0.01, blank=0.0, lost=1.0)  # it has next to nothing to lose
    guessed = row(role="prior", blank=0.95)  # and yet another object would change it
    rows = [moved, still, unlikely, guessed, row(verdict="misread", lost=0.0)]
    cells = [line.strip("| ").split(" | ") for line in words.support_table(rows).splitlines()[2:]]
    assert cells[0] == ["all", "4", "0.1", "1", "0.667"]
    assert cells[1] == ["all", "4", "0.25", "2", "0.500"]
    assert cells[4] == ["that the model finds likely", "3", "0.25", "1", "0.500"]


def test_roles_are_counted_by_what_the_scene_shows():
    rows = [row(), row(role="prior"), row(shown="without a group", verdict="unsupported", role="unlikely", full=0.01)]
    assert words.roles_table(rows).splitlines()[2:] == [
        "| scene | right | 2 | 50.0% | 50.0% | 0.0% | 100.0% |",
        "| without a group | unsupported | 1 | 0.0% | 0.0% | 100.0% | 0.0% |",
    ]


def test_a_run_joins_words_masks_and_interventions(tmp_path, monkeypatch):
    """A model that says what is true of the scene; a word loses everything once what it refers to has changed."""
    scene = next(one for one in map(partial(described, "test"), range(50)) if len(one.plan.groups) == 2)
    text, number = sentence(scene.plan), scene.plan.number
    fewer = draw(scene.plan.without(number % 2))

    def explained(image, model, *, question, text=None, budget=None):
        np.testing.assert_array_equal(image, scene.pixels if text is None else fewer.pixels)
        assert (text is None) == (budget is None)
        said = sentence(scene.plan)
        enough = SimpleNamespace(code="enough")
        found = [SimpleNamespace(start=one.word.start, end=one.word.end, text=said[one.word.start : one.word.end],
                                 role="content", full_score=0.8, blank_score=0.2,
                                 mask=SimpleNamespace(mask=scene.mask(one.groups), verdict=enough))
                 for one in judge(read(said), scene.plan)]  # fmt: skip
        return SimpleNamespace(text=said, words=[*found, SimpleNamespace(start=0, end=1, role="function")])

    monkeypatch.setattr(whymask, "explain_words", explained)
    monkeypatch.setattr(words, "probabilities", lambda model, plans, *_: [0.4, *[0.0] * (len(plans) - 1)])
    words.run(tmp_path / "out.jsonl.gz", None, [number])
    rows = words.records(tmp_path / "out.jsonl.gz")
    said = [text[w.start : w.end] for w in read(text)]
    assert [row.text for row in rows] == said * 2
    own, others = rows[: len(said)], rows[len(said) :]
    assert {(row.shown, row.verdict, row.code) for row in own} == {("scene", "right", "enough")}
    assert {row.verdict for row in others} == {"right", "unsupported"}
    assert not any(row.mask for row in others)
    for row in own:
        assert (row.fall, row.unsupported) == pytest.approx((0.8, 0.4))
        assert words.iou(words.unpack(row.mask), words.unpack(row.truth)) == 1


def test_true_objects_are_shown_on_every_fill():
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    found = words.fills(whymask.load("tiny-caption"), [1000])
    assert found.keys() == {"mean", "blur", "dark_defocus", "black", "noise"}
    assert found["mean"] > 0.5 > found["noise"]  # it was never trained on noise
