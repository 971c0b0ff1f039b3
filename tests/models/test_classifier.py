import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.models.replays import padded

from models.tiny import lit, quadrants


def test_explains_its_own_prediction_by_default():
    bound = quadrants().bind(lit(2))
    assert (bound.target.index, bound.target.label, bound.probes) == (2, "bottom left", 1)


@pytest.mark.parametrize("target", [3, "3", "bottom right", " Bottom Right", "SE"])
def test_targets(target):
    bound = quadrants().bind(lit(0), target=target)
    assert bound.target.index == 3
    assert bound.probes == 0


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (4, "0 ... 3"),
        (-1, "at least 0"),
        ("-1", "0 ... 3"),
        ("²", "unknown target"),
        ("--5", "unknown target"),
        (1.5, "whole number"),
        (True, "whole number"),
        ("bottom rihgt", "did you mean 'bottom right'"),
        ("zebra", "known: "),
    ],
)
def test_bad_targets(target, words):
    with pytest.raises(WhymaskError, match=words):
        quadrants().bind(lit(0), target=target)


def test_scores_are_the_softmax_of_the_module():
    model = quadrants()
    image = lit(1)
    means = [image[:16, :16].mean(), image[:16, 16:].mean(), image[16:, :16].mean(), image[16:, 16:].mean()]
    logits = 6 * np.array(means) / 255
    expected = np.exp(logits) / np.exp(logits).sum()
    rounding = logits.max() * np.sqrt(3 * 16 * 16) * 2**-24  # of a mean over a quadrant, in whatever order
    for target in range(4):
        bound = model.bind(image, target=target)
        response = model.respond(bound.inputs[None], [bound])
        assert response.score[0] == pytest.approx(expected[target], abs=rounding)
        assert response.top[0] == 1
        assert response.score.dtype == np.float64


@pytest.mark.parametrize("fill", ["black", "mean", "blur", "dark_defocus", "#336699"])
def test_masked_inputs_are_bit_identical_to_masking_pixels_first(fill):
    """Masking normalised tensors by label map equals masking the uint8 image and preprocessing it the naive way."""
    rng = np.random.default_rng(0)
    model = quadrants()
    model.mean, model.std = torch.tensor([123.675, 116.28, 103.53]), torch.tensor([58.395, 57.12, 57.375])
    case = Case.of(rng.integers(0, 256, (50, 60, 3), dtype=np.uint8), model, regions="slico:20", fill=fill)
    rows = rng.random((7, case.partition.n)) < 0.5
    composed = case.inputs(rows).numpy()
    for row, got in zip(rows, composed, strict=True):
        pixels = np.where(row[case.partition.labels][..., None], case.bound.canvas, case.bound.fill)
        naive = (torch.from_numpy(pixels).float() - model.mean) / model.std
        np.testing.assert_array_equal(got, naive.permute(2, 0, 1).numpy())


def test_a_classifier_answers_no_questions():
    with pytest.raises(WhymaskError, match="not a question"):
        quadrants().bind(lit(0), question="Is there a dog?")


def test_refuses_devices_and_precisions():
    with pytest.raises(WhymaskError, match="'fp32'"):
        quadrants(dtype="fp23")
    with pytest.raises(WhymaskError, match="not available"):
        quadrants(device="cuda:99")
    with pytest.raises(WhymaskError, match="not available"):
        quadrants(device="gpu")


def test_half_precision_scores_are_close():
    bound = (model := quadrants(dtype="bf16")).bind(lit(0))
    exact = quadrants()
    assert model.respond(bound.inputs[None], [bound]).score == pytest.approx(
        exact.respond(exact.bind(lit(0)).inputs[None], [bound]).score, abs=0.02
    )


def test_few_batch_shapes():
    sizes = {padded(count) for count in range(1, 1025)}
    assert sizes == {*range(16, 129, 16), *range(160, 257, 32), *range(320, 513, 64), *range(640, 1025, 128)}
    assert all(count <= padded(count) < max(count + 16, 1.25 * count) for count in range(1, 1025))


@pytest.mark.parametrize(
    "model",
    [
        quadrants(),
        whymask.wrap(lambda images: images.mean(axis=(1, 2)) / 255 / 3, labels=["red", "green", "blue"], size=16),
    ],
    ids=["torch", "function"],
)
def test_one_forward_scores_every_class(model):
    case = Case.of(lit(2), model, target=1, regions="grid:2x2")
    rows = np.random.default_rng(0).random((5, 4)) < 0.5
    outputs, called = model.outputs, []
    model.outputs = lambda inputs: called.append(len(inputs)) or outputs(inputs)
    bounds = [model.answering(case.bound, label, None) for label in model.labels]
    together = model.respond_each(case.inputs(rows), bounds)
    assert called == [5]
    for column, bound in enumerate(bounds):
        assert bound.target.label == model.labels[column]
        alone = model.respond(case.inputs(rows), [bound] * 5)
        np.testing.assert_array_equal(together.score[:, column], alone.score)
        np.testing.assert_array_equal(together.top, alone.top)
