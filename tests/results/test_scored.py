"""The scored sets that a result keeps: which, and in its file."""

import json
from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.errors import WhymaskError
from whymask.results.base import Explanation
from whymask.results.scored import BYTES, MOST, ScoredSets, nearest_prefix
from whymask.results.seeds import OverSeeds

from models.tiny import lit, quadrants

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def mask():
    return whymask.explain(lit(0, 96), quadrants(share=0.5), regions="grid:4x4", k="auto")


def chosen(rows, scores, order, prefixes):
    answers = np.zeros((len(rows), 1), dtype=np.int64)
    return ScoredSets.of(rows, scores, answers, {0: "yes"}.get, order, prefixes)


def test_of_many_sets_the_best_of_every_size_and_those_next_to_the_evidence_are_kept():
    rows = np.unique(RNG.random((4000, 14)) < 0.5, axis=0)
    scores = RNG.random(len(rows))
    evidence = rows[7]
    kept = chosen(rows, scores, np.flatnonzero(evidence).tolist(), [int(evidence.sum())])
    assert len(rows) > len(kept) == MOST
    place = {row.tobytes(): i for i, row in enumerate(rows)}
    places = [place[row.tobytes()] for row in kept.rows]
    assert len({*places}) == MOST
    np.testing.assert_allclose(kept.scores, scores[places], rtol=1e-6)  # float32
    sizes = rows.sum(axis=1)
    best = {max(np.flatnonzero(sizes == size), key=lambda i: scores[i]) for size in np.unique(sizes)}
    assert best <= {*places}
    distance = (rows ^ evidence).sum(axis=1)
    others = [i for i in places if i not in best]
    left_out = np.setdiff1d(np.arange(len(rows)), places)
    assert distance[others].max() <= distance[left_out].min()


def test_of_very_many_regions_fewer_sets_are_kept():
    rows = RNG.random((2000, 5000)) < 0.1
    kept = chosen(rows, RNG.random(2000), range(5000), [500])
    assert len(kept) == BYTES // 625
    assert kept.arrays["sets"].nbytes <= BYTES


def test_the_nearest_prefix_of_an_ordering():
    order = RNG.permutation(9).tolist()
    rows = RNG.random((1500, 9)) < 0.5
    prefixes = [np.isin(np.arange(9), order[:t]) for t in range(10)]
    expected = [min((row ^ prefix).sum() for prefix in prefixes) for row in rows]
    np.testing.assert_array_equal(nearest_prefix(rows, order, range(10)), expected)


@pytest.mark.parametrize("method", ["smallest", "discs+swap", "trace", "greedy"])
def test_the_stored_scores_are_those_of_the_model(method):
    model, image = quadrants(share=0.5), lit(0, 96)
    found = whymask.explain(image, model, regions="grid:4x4", method=method)
    assert 0 < len(found.scored) <= found.ledger.mec
    fills, sets = found.image.fills, found.scored
    for row, score, given in zip(sets.rows[::7], sets.scores[::7], sets.given[::7], strict=True):
        keep = found.image.partition.pixels(row)[..., None]
        shown = [np.where(keep, found.image.canvas, fill) for fill in fills]
        bounds = [model.bind(one, resize="none", target=found.target.name) for one in shown]
        responses = [model.respond(bound.inputs[None], [bound]) for bound in bounds]
        assert score == pytest.approx(np.mean([one.score[0] for one in responses]), abs=1e-5)
        assert [sets.answers[place] for place in given] == [model.labels[one.top[0]] for one in responses]


def test_methods_that_mask_pixels_keep_no_sets():
    bright = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255, size=32)
    assert whymask.explain(lit(0, 96), bright, regions="grid:4x4", method="rise", params={"masks": 20}).scored is None


def test_a_file_holds_them(mask, tmp_path):
    held = OverSeeds(3, tuple(range(4)) * 4)
    loaded = Explanation.load(replace(mask, over_seeds=held).save(tmp_path / "mask"))
    assert loaded.over_seeds == held
    assert loaded.as_dict()["over_seeds"] == {"count": 3, "held": [*range(4)] * 4}
    for name in ("rows", "scores", "given"):
        np.testing.assert_array_equal(getattr(loaded.scored, name), getattr(mask.scored, name))
    assert loaded.scored.answers == mask.scored.answers
    assert not {"scored", "over_seeds"} & mask.as_dict().keys()  # what was not asked for is in no table
    plain = replace(mask, scored=None).save(tmp_path / "plain")
    assert Explanation.load(plain).scored is None


def changed(path, change):
    """The file again, its header or arrays changed."""
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    np.savez_compressed(path, header=np.array(json.dumps(header)), **arrays)
    return path


def test_sets_of_a_later_version_are_left_out(mask, tmp_path):
    path = changed(mask.save(tmp_path / "mask"), lambda header, _: header["scored"].update(version=2, more="x"))
    loaded = Explanation.load(path)
    assert loaded.scored is None
    assert loaded.as_dict() == mask.as_dict()


DAMAGE = {
    "too few bits": lambda header, arrays: arrays.update(sets=arrays["sets"][:, :1]),
    "no such answer": lambda header, arrays: header["scored"].update(answers=[]),
    "answers that are no text": lambda header, arrays: header["scored"].update(answers=[3] * 9),
    "a score of 2": lambda header, arrays: arrays.update(set_scores=arrays["set_scores"] + 2),
    "no score": lambda header, arrays: arrays.update(set_scores=arrays["set_scores"] * np.float32("nan")),
    "fewer scores": lambda header, arrays: arrays.update(set_scores=arrays["set_scores"][1:]),
    "other fills": lambda header, arrays: arrays.update(set_answers=arrays["set_answers"][:, :1]),
    "missing": lambda header, arrays: arrays.pop("sets"),
    "too many": lambda header, arrays: arrays.update(
        {name: np.repeat(arrays[name], 1 + MOST, axis=0) for name in ("sets", "set_scores", "set_answers")}
    ),
    "seeds of nobody": lambda header, arrays: header.update(over_seeds={"count": 0, "held": [0] * 16}),
    "more than all seeds": lambda header, arrays: header.update(over_seeds={"count": 2, "held": [3] * 16}),
    "seeds of other regions": lambda header, arrays: header.update(over_seeds={"count": 2, "held": [1] * 15}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_sets_are_an_error(mask, tmp_path, damage):
    path = changed(mask.save(tmp_path / "mask"), DAMAGE[damage])
    with pytest.raises(WhymaskError, match="is not a saved explanation"):
        Explanation.load(path)
