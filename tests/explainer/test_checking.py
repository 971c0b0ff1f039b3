"""Sanity checks of models whose faults are known."""

import json
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

import whymask
from whymask.errors import WhymaskError
from whymask.explainer.checking import _shared
from whymask.metrics.overlap import overlap
from whymask.results.check import Check, PhotoCheck, Shared, ShuffledCheck

from models.test_randomised import network

SIDE, CELL = 48, 8
RNG = np.random.default_rng(0)
PICTURES = [RNG.integers(20, 236, (SIDE, SIDE, 3)).astype(np.uint8) for _ in range(3)]
LABELS = ["cup", "pen", "hat", "key", "map", "cap"]
SETTINGS = {"regions": "grid:6x6", "k": 4, "fill": "black"}


def honest(images):
    """A cup is in the upper left corner of every picture; nothing shows anything else."""
    seen = np.max([(images[:, :16, :16] == one[:16, :16]).all(axis=3).mean(axis=(1, 2)) for one in PICTURES], axis=0)
    rest = (1 - 0.95 * seen) / 5
    return np.stack([0.95 * seen, *[rest] * 5], axis=1)


def blind(images):
    """A cup, whatever is shown."""
    return np.tile([0.9, 0.02, 0.02, 0.02, 0.02, 0.02], (len(images), 1))


def check(function, **settings):
    return whymask.check(whymask.wrap(function, labels=LABELS), PICTURES, **SETTINGS | settings)


@pytest.fixture(scope="module")
def good():
    return check(honest)


def test_an_honest_model_passes(good):
    assert [photo.verdict for photo in good.photos] == ["enough"] * 3
    assert all(photo.above_chance for photo in good.photos)
    assert all(len(photo.null) == 3 and "cup" not in photo.null for photo in good.photos)
    for photo in good.photos:
        assert photo.seeds == pytest.approx(Shared(1.0, 4 / 36))  # all seeds find the same four regions
        assert photo.searched == {"blur": Shared(1.0, 4 / 36), "noise": Shared(1.0, 4 / 36)}
        assert photo.carried == pytest.approx(1)
    page = str(good)
    assert "| Are the regions enough? | 3 of 3 photos [44%, 100%]" in page
    assert "| More than for any other answer? | 3 of 3 photos [44%, 100%]" in page
    assert "100% of the regions are the same, by chance 11%" in page
    assert "the model is no torch classifier" in page
    assert "## Shuffled weights" not in page


def test_a_blind_model_does_not_pass():
    found = check(blind)
    assert [photo.verdict for photo in found.photos] == ["blank_suffices"] * 3
    assert "| Are the regions enough? | 0 of 3 photos [0%, 56%]" in str(found)
    assert "| `blank_suffices` | 3 |" in str(found)


def test_seeds_are_compared_pair_by_pair():
    model = whymask.wrap(network(), size=32, labels=list("abcde"))
    settings = {"regions": "grid:6x6", "k": 4, "fill": "black", "params": {"tries": 8}}
    found = whymask.check(model, PICTURES[:1], **settings)
    masks = [whymask.explain(PICTURES[0], model, seed=seed, **settings).regions for seed in range(3)]
    expected = np.mean([overlap(one, other) for one, other in permutations(masks, 2)])
    assert found.photos[0].seeds == pytest.approx(Shared(expected, 4 / 36))


def test_what_a_random_mask_would_share():
    one, other = SimpleNamespace(regions=(1, 2), n=10), SimpleNamespace(regions=(2, 3, 4, 5), n=10)
    assert _shared(one, other) == Shared(1 / 4, 2 / 10)


def test_shuffled_weights_of_a_torch_module():
    model = whymask.wrap(network(), size=32, labels=list("abcde"))
    before = model.fingerprint
    found = whymask.check(model, PICTURES[:2], regions="grid:4x4", k=3, fill="black", params={"tries": 8}, seeds=2)
    assert model.fingerprint == before
    assert [(one.layers, one.of) for one in found.shuffled] == [(1, 4), (3, 4), (4, 4)]
    for one in found.shuffled:
        assert len(one.full) == len(one.score) == len(one.evidence) == 2
        assert all(shared.chance == 3 / 16 for shared in one.evidence)
        assert one.full != tuple(photo.full for photo in found.photos)
    assert "| 4 of 4 |" in str(found)
    assert "With the weights of all layers shuffled" in str(found)
    sent = found.forwards
    assert sent > 2 * (2 + 2 + 3 + 3) * 8


def test_numbers_as_json(good):
    values = json.loads(json.dumps(good.as_dict()))
    assert values["photos"][0]["seeds"] == pytest.approx([1.0, 4 / 36])
    assert values["settings"] == {"method": "discs+swap", "k": 4, "regions": "grid:6x6", "fill": "black", "seeds": 3}
    assert values["forwards"] > 0


def photo(**changes):
    usual = {
        "name": "a|b", "answer": "cup\u202e", "verdict": "enough", "full": 0.9, "score": 0.8, "area": 0.1, "fills": {},
        "null": {}, "seeds": Shared(0.5, 0.1), "searched": {},
    }  # fmt: skip
    return PhotoCheck(**usual | changes)


def test_what_is_above_chance():
    assert photo(null={"pen": 0.63, "hat": 0.1}).above_chance
    assert not photo(null={"pen": 0.65, "hat": 0.1}).above_chance  # 80% of 0.8
    assert photo(null=dict.fromkeys(map(str, range(20)), 0.0) | {"pen": 0.7}).above_chance  # one of 21 is 5%


def test_the_least_on_other_fills_is_compared_with_the_lower_score():
    assert photo(fills={"blur": 0.4, "noise": 0.6}).carried == pytest.approx(0.5)
    assert photo(full=0.5, fills={"blur": 0.4}).carried == pytest.approx(0.8)
    assert photo(full=0.0, fills={"blur": 0.4}).carried == pytest.approx(1.0)
    assert photo(score=0.0).carried == 0


def test_a_page_shows_names_from_anywhere():
    one = ShuffledCheck(1, 3, (0.2,), (0.1,), (Shared(0.25, 0.125),))
    page = Check("my|model", {"method": "trace"}, (photo(fills={"blur": 0.6}),), (one,), 10).markdown()
    assert "| a/b | cup | `enough` |" in page
    assert "| 1 of 3 | 0.20 | 0.10 | 0.25 (0.12) |" in page
    assert "Not searched: pass other answers." in page
    header, _, *rows = [line.count("|") for line in page.split("## Photos")[1].strip().splitlines() if line[:1] == "|"][
        :3
    ]
    assert set(rows) == {header}


def test_models_that_answer_questions_are_not_compared_with_classes():
    found = whymask.check(
        "tiny-qwen", ["scene:3"], question="Is there a ball in the image?", k=2, seeds=2, params={"tries": 4}
    )
    assert found.photos[0].null == {}
    assert found.photos[0].name == "scene:3"
    assert found.shuffled == ()


def test_a_search_on_several_fills_is_compared_with_one_on_the_mean_colour():
    found = check(honest, fill="several", seeds=2)
    for one in found.photos:
        assert [*one.searched] == ["mean"]
        assert not {"black", "blur", "noise"} & {*one.fills}
    assert found.settings["fill"] == "black,blur,noise"


def test_other_answers_can_be_given():
    found = check(honest, null=["pen"])
    assert all([*photo.null] == ["pen"] for photo in found.photos)


@pytest.mark.parametrize(
    ("images", "settings", "message"),
    [
        ([], {}, "at least one photo"),
        (PICTURES, {"seeds": 1}, "seeds must be a whole number of at least 2, not 1"),
        (PICTURES[:1], {"method": "blank", "k": None}, "blank keeps no regions: there is nothing to check"),
        (PICTURES, {"method": "greedy", "k": None}, "about masks, but greedy does not return one"),
    ],
)
def test_errors(images, settings, message):
    with pytest.raises(WhymaskError, match=message):
        whymask.check(whymask.wrap(honest, labels=LABELS), images, **SETTINGS | settings)
