import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch

from whymask import WhymaskError
from whymask.images.partition import partition
from whymask.interop.captum import EvidenceAttribution, Example
from whymask.methods import run

from models.tiny import Quadrants, lit

QUARTERS = torch.arange(4).reshape(2, 2).repeat_interleave(16, 0).repeat_interleave(16, 1)  # (32, 32)
BLOCKS = torch.arange(16).reshape(4, 4).repeat_interleave(8, 0).repeat_interleave(8, 1)  # (32, 32)


def batch(*quadrants):
    """Images (N, 3, 32, 32) in [0, 1], each with one bright quadrant."""
    return torch.from_numpy(np.stack([lit(quadrant) for quadrant in quadrants])).permute(0, 3, 1, 2) / 255


def quadrant(number):
    """(3, 32, 32) 1 on the quadrant."""
    return (number == QUARTERS).expand(3, -1, -1).float()


def attribute(finder, inputs, *args, **options):
    """With large batches, which only saves time."""
    return finder.attribute(inputs, *args, **{"perturbations_per_eval": 400} | options)


class Recorder:
    """Quadrants that remembers the images it was sent."""

    def __init__(self):
        self.module = Quadrants()
        self.images = []

    def __call__(self, images):
        self.images.append(images.clone())
        return self.module(images)


def noise(count=1, channels=3, seed=0):
    """Images whose values are exactly k / 255 and reach from 0 to 1."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, channels, 32, 32), dtype=np.uint8)
    pixels[:, :, 0, 0], pixels[:, :, 0, 1] = 0, 255
    return torch.from_numpy(pixels) / 255


def test_the_mask_of_each_example_is_the_quadrant_of_its_top_class():
    inputs = batch(2, 0, 3)
    attributions = attribute(EvidenceAttribution(Quadrants(), k=4), inputs, feature_mask=BLOCKS)
    assert attributions.dtype == torch.float32
    torch.testing.assert_close(attributions, torch.stack([quadrant(2), quadrant(0), quadrant(3)]), rtol=0, atol=0)


def test_an_ordering_scores_features_by_rank():
    inputs = (BLOCKS + 1).expand(1, 3, -1, -1) / 16  # blocks grow brighter in reading order
    attributions = attribute(EvidenceAttribution(Quadrants(), "greedy"), inputs, target=1, feature_mask=BLOCKS)
    assert attributions.shape == inputs.shape
    by_block = attributions[0, 0, ::8, ::8].flatten()
    assert sorted(by_block.tolist()) == pytest.approx([(i + 1) / 16 for i in range(16)])
    # Only blocks 7, 6, 3, 2 lie in the top right quadrant, the brightest of them is worth most.
    assert by_block.argsort(descending=True)[:4].tolist() == [7, 6, 3, 2]
    torch.testing.assert_close(attributions, by_block[BLOCKS].expand_as(inputs), rtol=0, atol=0)


@pytest.mark.parametrize("method", ["greedy", "phasewin", "copair", "copair+order"])
def test_agrees_with_the_search_on_the_set_function(method):
    """Methods without random choices, run on an independent numpy reading of the model."""
    x = noise()
    parts = partition((x[0] * 255).byte().permute(1, 2, 0).numpy(), "slico:16")

    def respond(rows):
        grey = rows[:, parts.labels] * x[0].double().mean(dim=0).numpy()
        logits = 6 * grey.reshape(-1, 2, 16, 2, 16).mean(axis=(2, 4)).reshape(-1, 4)
        return np.exp(logits[:, 2]) / np.exp(logits).sum(axis=1)

    found = run(method, respond, parts.n, centroids=parts.centroids, areas=parts.areas)
    expected = found.mask.astype(float) if found.order is None else 1 - np.argsort(found.order) / parts.n
    mask = torch.from_numpy(parts.labels)
    attributions = attribute(EvidenceAttribution(Quadrants(), method), x, target=2, feature_mask=mask)
    np.testing.assert_allclose(attributions[0], np.broadcast_to(expected[parts.labels], (3, 32, 32)), atol=1e-6)


def test_an_example_is_explained_the_same_alone_and_in_company():
    inputs = noise(3)
    finder = EvidenceAttribution(Quadrants(), k=5, seed=3)
    together = attribute(finder, inputs, perturbations_per_eval=7)
    alone = [attribute(finder, inputs[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=0)


@pytest.mark.parametrize("copies", [1, 5])
def test_a_call_gets_at_most_perturbations_per_eval_images_an_example(copies):
    model = Recorder()
    EvidenceAttribution(model, k=4).attribute(batch(0, 1), feature_mask=BLOCKS, perturbations_per_eval=copies)
    sizes = [len(images) for images in model.images[1:]]
    assert len(model.images[0]) == 2  # the inputs themselves, for their top classes
    assert max(sizes) == 2 * copies
    assert sum(sizes) <= 2 * 5 * 32


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (3, [3, 3]),
        (torch.tensor(3), [3, 3]),
        (torch.tensor([3]), [3, 3]),
        (torch.tensor([3, 1]), [3, 1]),
        ([3, 1], [3, 1]),
        (np.array([3, 1]), [3, 1]),
        (None, [0, 2]),
    ],
)
def test_targets(target, wanted):
    attributions = attribute(EvidenceAttribution(Quadrants(), k=1), batch(0, 2), target=target, feature_mask=QUARTERS)
    torch.testing.assert_close(attributions, torch.stack([quadrant(number) for number in wanted]), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("baselines", "shown"),
    [
        (None, torch.zeros(2, 3, 32, 32)),
        (0.25, torch.full((2, 3, 32, 32), 0.25)),
        (torch.tensor([0.1, 0.2, 0.3])[:, None, None], torch.tensor([0.1, 0.2, 0.3])[:, None, None]),
        (0.5 * batch(3, 2), 0.5 * batch(3, 2)),
    ],
)
def test_masked_features_show_the_baseline(baselines, shown):
    model, inputs = Recorder(), batch(0, 1)
    attribute(EvidenceAttribution(model, "random-k", k=4), inputs, baselines, target=0, feature_mask=BLOCKS)
    (images,) = model.images
    masked = (images == shown) & (images != inputs)
    assert (masked | (images == inputs)).all()
    assert masked[:, 0].float().mean(dim=(1, 2)).tolist() == [0.75, 0.75]


@pytest.mark.parametrize(
    "mask",
    [
        QUARTERS,
        QUARTERS[None],
        QUARTERS.expand(1, 1, -1, -1),
        QUARTERS.expand(2, 3, -1, -1),
        7 * QUARTERS - 40,
        QUARTERS.byte(),
    ],
)
def test_feature_masks_are_broadcast_and_may_skip_numbers(mask):
    attributions = attribute(EvidenceAttribution(Quadrants(), k=1), batch(0, 1), feature_mask=mask)
    torch.testing.assert_close(attributions, torch.stack([quadrant(0), quadrant(1)]), rtol=0, atol=0)


def test_each_example_may_have_features_of_its_own():
    halves = (torch.arange(32) // 16).expand(32, 32)
    mask = torch.stack([halves, halves.T + 5])[:, None]
    attributions = attribute(EvidenceAttribution(Quadrants(), k=1), batch(1, 2), feature_mask=mask)
    expected = torch.zeros(2, 3, 32, 32)
    expected[0, :, :, 16:] = 1
    expected[1, :, 16:, :] = 1
    torch.testing.assert_close(attributions, expected, rtol=0, atol=0)


def test_features_have_the_centroids_of_their_pixels_in_any_number_of_channels():
    x = noise()[0]
    parts = partition((x * 255).byte().permute(1, 2, 0).numpy(), "slico:16")
    for channels in (1, 3):
        found = Example.of(x, x, parts.labels[None].repeat(channels, axis=0), target=0).partition
        np.testing.assert_allclose(found.centroids, parts.centroids)
        np.testing.assert_allclose(found.areas, parts.areas)


def test_features_may_be_channels():
    def by_channel(images):
        return 6 * images.mean(dim=(2, 3))

    mask = torch.arange(3)[:, None, None]
    attributions = attribute(EvidenceAttribution(by_channel, k=1), batch(0), target=2, feature_mask=mask)
    assert attributions.mean(dim=(0, 2, 3)).tolist() == [0, 0, 1]


@pytest.mark.parametrize("stretch", [1, 3.7])
def test_the_default_features_are_superpixels_of_the_stretched_image(stretch):
    inputs = noise(2)
    expected = []
    for x in inputs:
        labels = torch.from_numpy(partition((x * 255).byte().permute(1, 2, 0).numpy(), "slico:64").labels)
        finder = EvidenceAttribution(Quadrants(), "copair")
        expected.append(attribute(finder, stretch * x[None], target=1, feature_mask=labels))
    attributions = attribute(EvidenceAttribution(Quadrants(), "copair"), stretch * inputs, target=1)
    torch.testing.assert_close(attributions, torch.cat(expected), rtol=0, atol=0)
    assert 0 < attributions.mean() < 0.5


@pytest.mark.parametrize("inputs", [noise(2, 1), noise(1, 5), torch.full((1, 3, 32, 32), 0.3)], ids=["1", "5", "flat"])
def test_images_that_are_not_photos(inputs):
    attributions = attribute(EvidenceAttribution(Quadrants(), k=2), inputs)
    assert attributions.shape == inputs.shape
    assert set(attributions.unique().tolist()) == {0, 1}


def test_activation_says_how_a_score_follows():
    def probabilities(images):
        return Quadrants()(images).softmax(dim=-1)

    x = noise()
    logits = attribute(EvidenceAttribution(Quadrants(), "greedy"), x, target=0, feature_mask=BLOCKS)
    probs = attribute(EvidenceAttribution(probabilities, "greedy", activation="none"), x, target=0, feature_mask=BLOCKS)
    torch.testing.assert_close(probs, logits, rtol=0, atol=0)
    with pytest.raises(WhymaskError, match=r"\[0, 1\]"):
        attribute(EvidenceAttribution(Quadrants(), activation="none"), 20 * x, target=0)


def test_a_single_logit_decides_between_two_answers():
    """As for a wrapped module: class 1 has the sigmoid of the logit, class 0 the rest."""

    def margin(images):
        logits = Quadrants()(images)
        return logits[:, :1] - logits[:, 1:2]

    def both(images):
        logit = margin(images)
        return torch.cat([torch.zeros_like(logit), logit], dim=1)

    x = noise()
    for target in (None, 0, 1):
        one = EvidenceAttribution(margin, "greedy", activation="sigmoid")
        two = EvidenceAttribution(both, "greedy")
        found = [attribute(finder, x, target=target, feature_mask=BLOCKS) for finder in (one, two)]
        torch.testing.assert_close(*found, rtol=0, atol=0)


def test_the_softmax_is_taken_in_fp32():
    def half(images):
        """Probabilities of class 0 near 4e-9, below the least fp16 number, but larger with more of the image."""
        return torch.stack([images.mean(dim=(1, 2, 3)), torch.full((len(images),), 19.5)], dim=1).half()

    inputs = (BLOCKS + 1).expand(1, 3, -1, -1) / 16
    attributions = attribute(
        EvidenceAttribution(half, "greedy", params={"objective": "sufficiency"}), inputs, target=0, feature_mask=BLOCKS
    )
    assert attributions[0, 0, ::8, ::8].flatten().argsort(descending=True).tolist() == list(range(15, -1, -1))


@pytest.mark.parametrize("training", [True, False])
def test_runs_without_gradients_and_leaves_the_training_mode_alone(training):
    seen = []

    class Watched(Quadrants):
        def forward(self, images):
            seen.append((self.training, torch.is_grad_enabled()))
            self.first = images * 1 if len(seen) == 1 else self.first
            return super().forward(images)

    model = Watched().train(training)
    inputs = batch(0).requires_grad_()
    attributions = attribute(EvidenceAttribution(model, k=1), inputs, feature_mask=QUARTERS)
    assert set(seen) == {(training, False)}
    assert model.training is training
    (attributions * inputs**2).sum().backward()
    torch.testing.assert_close(inputs.grad, 2 * inputs.detach() * attributions)
    (model.sharpness * model.first).sum().backward()  # what it has kept is no inference tensor


def test_a_model_may_overwrite_its_input():
    inputs = batch(2, 1)
    before = inputs.clone()
    module = Quadrants()
    found = [
        attribute(EvidenceAttribution(function, k=1), inputs, feature_mask=QUARTERS)
        for function in (lambda images: module(images.mul_(2).sub_(1)), lambda images: module(images * 2 - 1))
    ]
    assert torch.equal(inputs, before)
    assert torch.equal(*found)


def test_the_progress_bar_is_drawn_on_request(capsys):
    finder = EvidenceAttribution(Quadrants(), "random-k", k=4)
    attribute(finder, batch(0, 1), feature_mask=BLOCKS)
    assert capsys.readouterr() == ("", "")
    attribute(finder, batch(0, 1), feature_mask=BLOCKS, show_progress=True)
    assert "2/2" in capsys.readouterr().err


def test_seed_and_parameters_reach_the_search():
    x = batch(0)
    masks = [
        attribute(EvidenceAttribution(Quadrants(), "random-k", k=4, seed=s), x, feature_mask=BLOCKS) for s in (1, 2, 1)
    ]
    assert torch.equal(masks[0], masks[2])
    assert not torch.equal(masks[0], masks[1])
    model = Recorder()
    attribute(
        EvidenceAttribution(model, "trace", k=4, params={"rounds": 1, "samples": 3}), x, target=0, feature_mask=BLOCKS
    )
    assert sum(map(len, model.images)) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "trce"}, "did you mean 'trace'"),
        ({"activation": "softmin"}, "did you mean 'softmax'"),
        ({"seed": -1}, "a seed must be"),
        ({"params": {"elites": 3}}, r"unknown parameter of discs\+swap"),
    ],
)
def test_bad_settings_are_refused_at_once(options, words):
    with pytest.raises(WhymaskError, match=words):
        EvidenceAttribution(Quadrants(), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": batch(0)[0, 0]}, r"\(N, C, H, W\)"),
        ({"inputs": batch(0).numpy()}, r"\(N, C, H, W\)"),
        ({"inputs": batch(0)[:0]}, "no size may be 0"),
        ({"target": 4}, r"target 4 .* 0 \.\.\. 3"),
        ({"target": -1}, "target -1"),
        ({"target": [0, 1]}, "each of the 1 examples"),
        ({"target": 0.0}, "class number"),
        ({"target": [(0, 1)]}, "class number"),
        ({"target": "zebra"}, "class number"),
        ({"baselines": torch.zeros(4, 32, 32)}, r"baselines of shape \(4, 32, 32\)"),
        ({"feature_mask": BLOCKS[:7]}, r"feature_mask of shape \(7, 32\)"),
        ({"feature_mask": BLOCKS.float()}, "whole numbers"),
        ({"feature_mask": BLOCKS // 4}, "k must be between 1 and the number of regions, 4, not 8"),
        ({"perturbations_per_eval": 0}, "perturbations_per_eval"),
    ],
)
def test_bad_arguments(options, words):
    with pytest.raises(WhymaskError, match=words):
        EvidenceAttribution(Quadrants()).attribute(**{"inputs": batch(0), "feature_mask": BLOCKS} | options)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda images: images.mean(dim=(1, 2, 3)), r"shape \(1, classes\) for 1 images, but returned \(1,\)"),
        (lambda images: images, r"returned \(1, 3, 32, 32\)"),
        (lambda images: Quadrants()(images)[:0], r"returned \(0, 4\)"),
        (lambda images: {"logits": Quadrants()(images)}, "returned dict"),
        (lambda images: images.mean(dim=(2, 3))[:, :1], "one logit"),
        (lambda images: images.mean(dim=(2, 3)) * torch.nan, "NaN"),
    ],
)
def test_bad_models(model, words):
    with pytest.raises(WhymaskError, match=words):
        attribute(EvidenceAttribution(model), batch(0), feature_mask=BLOCKS)


def test_importing_the_package_is_light():
    code = "import sys, whymask.interop; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_is_an_attribution_of_captum():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed: whymask[gradients]")
    finder = EvidenceAttribution(Quadrants())
    assert isinstance(finder, captum.Attribution)
    assert finder.get_name() == "Evidence Attribution"
    assert not finder.multiplies_by_inputs  # no map times the image, as of captum's other perturbation methods
    assert not finder.has_convergence_delta()
    own, theirs = (
        list(inspect.signature(kind.attribute).parameters) for kind in (EvidenceAttribution, captum.FeatureAblation)
    )
    assert own == [name for name in theirs if name != "kwargs"]


def test_further_arguments_follow_their_examples():
    """Each example has a class of its own as an argument: the quadrant that the model is told to look at."""

    def lookup(images, place, sharpness, name):
        assert name == "quadrants"
        assert len(place) == len(images)
        quarter = torch.nn.functional.adaptive_avg_pool2d(images.mean(dim=1, keepdim=True), 2).flatten(1)
        return sharpness * torch.stack([quarter.gather(1, place[:, None])[:, 0], quarter.mean(dim=1)], dim=1)

    places = torch.tensor([3, 0, 2])
    inputs = torch.full((3, 3, 32, 32), 0.8)
    found = EvidenceAttribution(lookup, k=1).attribute(
        inputs, 0, 0, (places, 9.0, "quadrants"), QUARTERS, perturbations_per_eval=3
    )
    torch.testing.assert_close(found, torch.stack([quadrant(int(place)) for place in places]), rtol=0, atol=0)
    one = EvidenceAttribution(lambda images, scale: scale * Quadrants()(images), k=1)
    torch.testing.assert_close(
        attribute(one, batch(1), additional_forward_args=2.0, feature_mask=QUARTERS), quadrant(1)[None]
    )


def test_images_without_channels():
    def grey(images):
        assert images.shape[1:] == (32, 32)
        return Quadrants()(images[:, None])

    inputs = batch(2, 1)[:, 0]
    for mask in (QUARTERS, QUARTERS[None], QUARTERS.expand(2, -1, -1)):
        found = attribute(EvidenceAttribution(grey, k=1), inputs, feature_mask=mask)
        torch.testing.assert_close(found, torch.stack([quadrant(2)[0], quadrant(1)[0]]), rtol=0, atol=0)
    by_superpixel = attribute(EvidenceAttribution(grey, k=4), inputs)
    assert by_superpixel.shape == inputs.shape
    halves = torch.stack([torch.zeros(32, 32), torch.ones(32, 32)]) * 0.5
    found = attribute(EvidenceAttribution(grey, k=1), inputs, halves, feature_mask=QUARTERS)
    torch.testing.assert_close(found, torch.stack([quadrant(2)[0], quadrant(1)[0]]), rtol=0, atol=0)
