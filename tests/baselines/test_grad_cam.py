from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import whymask
from whymask import WhymaskError
from whymask.baselines.grad_cam import feature_maps, patch_grid
from whymask.methods import Recipe

from baselines.plain import every_pixel, planted


def test_a_planted_patch_comes_first():
    model, image = planted()
    result = whymask.explain(image, model, method="grad-cam", target=1, regions="grid:4x4")
    assert result.top(1) == (6,)
    assert not result.flat
    assert "most important first: 6, " in str(result)
    assert result.ledger.mec == 0


def test_agrees_with_captum():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed: whymask[gradients]")
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3), torch.nn.Tanh(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 5),
    )  # fmt: skip
    model = whymask.wrap(net, size=64)
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    (result,) = every_pixel(image, model).search(Recipe("grad-cam"))
    x = model.bind(image, target=0).inputs[None].requires_grad_()
    theirs = captum.LayerGradCam(net, net[3]).attribute(x, target=0, relu_attributions=True)
    theirs = torch.nn.functional.interpolate(theirs, (64, 64), mode="bilinear")[0, 0].detach().numpy()
    np.testing.assert_allclose(result.map, theirs, atol=1e-6)
    assert spearmanr(result.map.ravel(), theirs.ravel()).statistic >= 0.99


class ChannelsLast(torch.nn.Module):
    """The body of a network, its maps as (B, h, w, C), and a head over their mean."""

    def __init__(self, body, head):
        super().__init__()
        self.body, self.norm, self.head = body, torch.nn.LayerNorm(head.in_features), head

    def forward(self, x):
        return self.head(self.norm(self.body(x).permute(0, 2, 3, 1)).mean(dim=(1, 2)))


def test_channels_may_come_last():
    torch.manual_seed(0)
    net = ChannelsLast(torch.nn.Conv2d(3, 16, 8, 8), torch.nn.Linear(16, 3))
    model = whymask.wrap(net, size=32, crop=1.0)
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    result = whymask.explain(image, model, method="grad-cam", target=0, regions="grid:2x2")
    activations = net.norm(net.body(model.bind(image, target=0).inputs[None]).permute(0, 2, 3, 1))
    expected = (activations[0] @ net.head.weight[0] / activations[0, :, :, 0].numel()).relu()
    expected = torch.nn.functional.interpolate(expected[None, None], (32, 32), mode="bilinear")[0, 0]
    np.testing.assert_allclose(result.map, expected.detach().numpy(), atol=1e-6)
    assert result.map.max() > 0


@pytest.mark.parametrize(
    ("sizes", "shape", "last"),
    [
        ((768, 7, 7), (224, 224), False),
        ((7, 7, 768), (224, 224), True),
        ((7, 7, 7), (224, 224), False),
        ((2, 2, 3), (64, 64), True),
        ((256, 2, 2), (48, 64), False),  # rows and columns were rounded
        ((3, 4, 32), (48, 64), True),
        ((512, 1, 1), (224, 224), None),  # pooled
        ((1, 1, 512), (224, 224), None),
        ((1, 49, 768), (224, 224), None),  # a sequence
    ],
)
def test_the_shape_tells_where_channels_are(sizes, shape, last):
    output = torch.arange(float(np.prod(sizes))).view(1, *sizes)
    places = feature_maps(output.shape, shape)
    if last is None:
        assert places is None
    else:
        torch.testing.assert_close(places(output), output[0].permute(2, 0, 1) if last else output[0])


def seen_by(module, shape):
    """What `patch_grid` asks of an image."""
    return SimpleNamespace(module=module, shape=shape)


@pytest.mark.parametrize(
    ("tokens", "shape", "grid"),
    [
        (197, (224, 224), (14, 14)),
        (196, (224, 224), (14, 14)),
        (198, (224, 224), (14, 14)),  # a class token and a distillation token
        (201, (224, 224), (14, 14)),  # a class token and four registers
        (210, (224, 224), (14, 14)),  # not 14 x 15 without any
        (110, (160, 160), (10, 10)),
        (50, (224, 224), (7, 7)),
        (13, (48, 64), (3, 4)),
        (1, (224, 224), None),
        (3, (224, 224), None),
    ],
)
def test_patches_among_tokens(tokens, shape, grid):
    assert patch_grid(tokens, seen_by(torch.nn.Identity(), shape)) == grid


@pytest.mark.parametrize("special", [0, 1, 2, 5, 9])
@pytest.mark.parametrize(("shape", "stride"), [((224, 224), 16), ((224, 300), 16), ((90, 64), 8), ((64, 64), (16, 8))])
def test_the_patch_embedding_tells_the_grid(special, shape, stride):
    embedding = torch.nn.Conv2d(3, 8, stride, stride)
    rows, columns = embedding(torch.zeros(1, 3, *shape)).shape[2:]
    assert patch_grid(rows * columns + special, seen_by(embedding, shape)) == (rows, columns)


def test_a_vision_transformer_without_a_reshape_function():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    vit = transformers.ViTForImageClassification(config)
    from whymask.models.hf_classifier import _Logits

    model = whymask.wrap(_Logits(vit), size=32, crop=1.0)
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    (result,) = every_pixel(image, model).search(Recipe("grad-cam"))
    # The same by hand, at the normalisation before the last attention.
    heard = []
    last = [part for name, part in vit.named_modules() if name.endswith("layernorm_before")][-1]
    last.register_forward_hook(lambda part, inputs, output: heard.append(output))
    logits = model.module(model.bind(image, target=0).inputs[None].requires_grad_())
    (slope,) = torch.autograd.grad(logits[0, 0], heard[0])
    expected = (slope[0, 1:].mean(dim=0) * heard[0][0, 1:]).sum(dim=1).relu().reshape(4, 4)
    expected = torch.nn.functional.interpolate(expected[None, None], (32, 32), mode="bilinear")[0, 0]
    np.testing.assert_allclose(result.map, expected.detach().numpy(), atol=1e-7)
    assert result.map.max() > 0


def test_a_model_without_places_is_refused():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    with pytest.raises(WhymaskError, match="no layer with feature maps"):
        whymask.explain(np.zeros((4, 4, 3), np.uint8), whymask.wrap(net, size=4), method="grad-cam", regions="grid:2x2")
