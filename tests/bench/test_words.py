"""The measures of benchmarks/words.py."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import words

import whymask
from whymask.images.described import described, plan
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


def test_the_table_keeps_misread_words_apart():
    box, other = words.pack(square(0, 0, 8)), words.pack(square(24, 24, 8))
    row = words.Row(0, "cup", "noun", "right", "content", 0.9, 0.1, 0.8, box, box)
    rows = [row, replace(row, mask=other, truth=other), replace(row, verdict="misread", truth=other),
            replace(row, verdict="unsupported", role="prior", blank=0.9, lost=0.0, mask="", truth="00")]  # fmt: skip
    text = words.table(rows)
    assert "| right | noun | 2 | 2 | 100.0% | 0.0% | 1.00 | 1.00 | 100.0% | 100.0% |" in text
    assert "| misread | noun | 1 | 1 | 0.0% |" in text
    assert "| unsupported | noun | 1 | 0 | nan% |" in text
    assert "AUC 1.000" in text


def test_a_run_joins_words_masks_and_interventions(tmp_path, monkeypatch):
    """A model that says what is true of the scene; a word loses everything once what it refers to has changed."""
    scene = described("test", 0)
    text = sentence(scene.plan)

    def explained(image, model, *, question):
        np.testing.assert_array_equal(image, scene.pixels)
        found = [SimpleNamespace(start=one.word.start, end=one.word.end, text=text[one.word.start : one.word.end],
                                 role="content", full_score=0.8, blank_score=0.2,
                                 mask=SimpleNamespace(mask=scene.mask(one.groups)))
                 for one in judge(read(text), scene.plan)]  # fmt: skip
        return SimpleNamespace(text=text, words=[*found, SimpleNamespace(start=0, end=1, role="function")])

    monkeypatch.setattr(whymask, "explain_words", explained, raising=False)
    monkeypatch.setattr(words, "probabilities", lambda model, plans, *_: [0.4, *[0.0] * (len(plans) - 1)])
    words.run(tmp_path / "out.jsonl", None, [0])
    rows = [words.Row(**json.loads(line)) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row.text for row in rows] == [text[w.start : w.end] for w in read(text)]
    for row in rows:
        assert (row.verdict, row.unsupported, row.lost) == ("right", 0.25, 1)
        assert words.iou(words.unpack(row.mask), words.unpack(row.truth)) == 1
