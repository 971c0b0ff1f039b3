import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.models.function import FunctionModel

from models.tiny import lit


def brightness(images):
    """Probabilities by the mean brightness of each quadrant."""
    assert images.dtype == np.uint8
    half = [s // 2 for s in images.shape[1:3]]
    parts = [images[:, :half[0], :half[1]], images[:, :half[0], half[1]:], images[:, half[0]:, :half[1]],
             images[:, half[0]:, half[1]:]]  # fmt: skip
    raw = np.exp(np.stack([6 * part.mean(axis=(1, 2, 3)) / 255 for part in parts], axis=1))
    return raw / raw.sum(axis=1, keepdims=True)


def test_probabilities_over_classes():
    model = FunctionModel(brightness)
    found = whymask.explain(lit(2), model, regions="grid:4x4", k=4, method="trace", params={"rounds": 10})
    assert found.target.label == "2"
    assert set(found.regions) == {8, 9, 12, 13}
    named = FunctionModel(brightness, labels=["nw", "ne", "sw", "se"])
    assert whymask.explain(lit(0), named, regions="grid:2x2", k=1, target="se").regions == (3,)


def test_one_score_per_image():
    model = FunctionModel(lambda images: brightness(images)[:, 1])
    found = whymask.explain(lit(1), model, regions="grid:2x2", k=1)
    assert found.regions == (1,)
    assert found.target.label == "the score"
    with pytest.raises(WhymaskError, match="unknown target 'cat'"):
        whymask.explain(lit(1), model, target="cat")


def test_sees_the_whole_picture_at_most_512_wide():
    shapes = set()

    def watch(images):
        shapes.add(images.shape[1:])
        return np.full(len(images), 0.5)

    whymask.explain(np.zeros((300, 1024, 3), np.uint8), FunctionModel(watch), regions="grid:2x2", k=1)
    assert shapes == {(150, 512, 3)}
    shapes.clear()
    whymask.explain(np.zeros((30, 40, 3), np.uint8), FunctionModel(watch, size=(8, 16)), regions="grid:2x2", k=1)
    assert shapes == {(8, 16, 3)}


@pytest.mark.parametrize(
    "kind", [{}, {"task": "segmentation", "labels": ["a"]}, {"task": "recognition", "alphabet": ["-", "a"]}], ids=str
)
@pytest.mark.parametrize(
    ("size", "words"),
    [
        ({"size": 0}, "size must be a whole number of at least 1, not 0"),
        ({"size": (8, "16")}, "size must be a whole number of at least 1"),
        ({"size": (8, 16, 3)}, r"size is a number of pixels or \(height, width\)"),
        ({"max_side": 0}, "max_side must be a whole number of at least 1, not 0"),
    ],
    ids=str,
)
def test_a_size_that_no_image_has_is_an_error(kind, size, words):
    with pytest.raises(WhymaskError, match=words):
        whymask.wrap(brightness, **kind, **size)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda scores: ["high"] * len(scores), "plain real numbers, not this list"),
        (lambda scores: [[0.5, 0.5], [0.5]], "plain real numbers, not this list"),
        (lambda scores: {"scores": scores}, "plain real numbers, not this dict"),
        (lambda scores: (scores, scores[:1, None]), "plain real numbers, not this tuple"),
        (lambda scores: scores * 1j, "plain real numbers, not this ndarray"),
        (lambda scores: np.array([None] * len(scores)), "plain real numbers, not this ndarray"),
        (lambda scores: iter(scores), "plain real numbers, not this"),
        (lambda scores: None, "plain real numbers, not this NoneType"),
        (lambda scores: 0.5, r"function must return scores .*, not \(\)"),
        (lambda scores: scores[:-1], r"function must return scores .*, not \(\d+,\)"),
        (lambda scores: np.zeros((len(scores), 0)), r"function must return scores .*, not \(\d+, 0\)"),
        (lambda scores: np.zeros((len(scores), 2, 2)), r"function must return scores .*, not \(\d+, 2, 2\)"),
        (lambda scores: scores * np.nan, "NaN or infinity"),
        (lambda scores: np.stack([scores, scores * np.inf], axis=1), "NaN or infinity"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["from the first", "later"])
def test_what_is_not_a_score_per_image_is_an_error(wrong, words, at_once):
    def function(images):
        scores = brightness(images)[:, 0]
        return wrong(scores) if at_once or len(images) > 1 else scores

    with pytest.raises(WhymaskError, match=words) as error:
        whymask.explain(lit(0), FunctionModel(function), regions="grid:2x2", k=1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "kind",
    [
        lambda scores: torch.tensor(scores, requires_grad=True),
        lambda scores: torch.tensor(scores[:, None]),
        lambda scores: torch.tensor(scores).bfloat16(),
        lambda scores: scores.astype(np.longdouble),
        lambda scores: scores.tolist(),
    ],
)
def test_scores_of_any_kind(kind):
    expected = whymask.explain(lit(1), FunctionModel(lambda images: brightness(images)[:, 1]), regions="grid:2x2", k=1)
    found = whymask.explain(lit(1), FunctionModel(lambda x: kind(brightness(x)[:, 1])), regions="grid:2x2", k=1)
    assert found.regions == expected.regions
    assert found.score == pytest.approx(expected.score, abs=2**-8)


@pytest.mark.parametrize("bad", [lambda images: np.zeros((len(images), 3)), lambda images: np.zeros((1, 2, 3))])
def test_a_wrong_shape_is_one_clear_sentence(bad):
    with pytest.raises(WhymaskError, match="must return scores"):
        whymask.explain(lit(0), FunctionModel(bad, labels=["a", "b"]), regions="grid:2x2", k=1)
    with pytest.raises(WhymaskError, match=r"\[0, 1\]"):
        whymask.explain(lit(0), FunctionModel(lambda images: np.full(len(images), 3.0)), regions="grid:2x2", k=1)


def test_a_function_may_change_its_input():
    def changing(images):
        images //= 2
        return images.mean(axis=(1, 2)) / 255  # of red, green and blue

    def plain(images):
        return (images // 2).mean(axis=(1, 2)) / 255

    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    results = [whymask.explain(image, whymask.wrap(model), regions="grid:4x4", k=4) for model in (changing, plain)]
    assert results[0].regions == results[1].regions
    assert results[0].score == results[1].score
    assert results[0].target == results[1].target
