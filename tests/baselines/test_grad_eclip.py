import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.images.imaging import CentreCrop
from whymask.methods import Recipe
from whymask.models.zero_shot import ZeroShot

from baselines.plain import every_pixel
from models.tiny import lit, quadrants

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")


class Encoder(torch.nn.Module):
    def __init__(self, clip):
        super().__init__()
        self.clip = clip

    def forward(self, pixels):
        return self.clip(pixel_values=pixels).image_embeds


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.manual_seed(0)
    config = transformers.CLIPVisionConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
        projection_dim=16,
    )  # fmt: skip
    clip = transformers.CLIPVisionModelWithProjection(config).eval()
    with torch.no_grad():
        for parameter in clip.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    texts = {"a": 1, "b": 2, "a dog": 3}

    def embed(lines):
        return np.stack([np.random.default_rng(texts[line]).normal(size=16).astype(np.float32) for line in lines])

    return ZeroShot(
        Encoder(clip), embed, 10.0, CentreCrop(32), ["a", "b"], ["{}"],
        mean=(0, 0, 0), std=(255, 255, 255), name="tiny", fingerprint="tiny",
    )  # fmt: skip


def by_hand(model, bound, row):
    """relu(sum_c w_c s_i v_ic), the last block computed step by step."""
    vision = model.module.clip.vision_model
    last = vision.encoder.layers[-1]
    heard = []
    hook = last.register_forward_pre_hook(lambda part, inputs: heard.append(inputs[0]))
    with torch.no_grad():
        model.module(bound.inputs[None])
    hook.remove()
    before = heard[0]
    normed = last.layer_norm1(before)
    attention = last.self_attn
    q, k, v = attention.q_proj(normed), attention.k_proj(normed), attention.v_proj(normed)
    heads = [t.view(1, -1, 4, 8).transpose(1, 2) for t in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(1, -1, 32).detach()
    out.requires_grad_()
    x = before + attention.out_proj(out)
    x = x + last.mlp(last.layer_norm2(x))
    feature = model.module.clip.visual_projection(vision.post_layernorm(x[:, 0]))[0]
    (slope,) = torch.autograd.grad(torch.cosine_similarity(feature, model.texts[row], dim=0), out)
    similar = torch.cosine_similarity(q[0, :1], k[0, 1:], dim=1)
    similar = (similar - similar.min()) / (similar.max() - similar.min())
    return (similar * (v[0, 1:] * slope[0, 0]).sum(dim=1)).relu().detach().numpy()


def test_equals_the_formula(model):
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    for target, row in (("b", 1), ("a dog", 2)):  # a class and a free text
        case = every_pixel(image, model, target=target)
        (result,) = case.search(Recipe("grad-eclip"))
        expected = by_hand(model, case.bound, row)
        assert expected.max() > 0
        cells = torch.nn.functional.interpolate(torch.from_numpy(expected).view(1, 1, 4, 4), (32, 32), mode="bilinear")[
            0, 0
        ].numpy()
        # The logit is the cosine times the scale of 10.
        np.testing.assert_allclose(result.map, 10 * cells, rtol=1e-3, atol=1e-6)


class OpenClip(torch.nn.Module):
    """A vision transformer as open_clip builds it, with torch's own attention."""

    def __init__(self, batch_first):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 32, 8, stride=8, bias=False)
        self.class_embedding = torch.nn.Parameter(torch.randn(32))
        self.positional_embedding = torch.nn.Parameter(torch.randn(17, 32))
        self.blocks = torch.nn.ModuleList(Block(batch_first) for _ in range(2))
        self.ln_post = torch.nn.LayerNorm(32)
        self.proj = torch.nn.Parameter(torch.randn(32, 16))
        self.batch_first = batch_first

    def forward(self, x):
        x = self.before_last(x)
        x = self.blocks[-1](x)
        return self.ln_post(x[:, 0] if self.batch_first else x[0]) @ self.proj

    def before_last(self, x):
        x = self.conv1(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], dim=1) + self.positional_embedding
        x = x if self.batch_first else x.transpose(0, 1)
        return self.blocks[0](x)


class Block(torch.nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(32), torch.nn.LayerNorm(32)
        self.attn = torch.nn.MultiheadAttention(32, 4, batch_first=batch_first)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))

    def forward(self, x):
        normed = self.ln_1(x)
        x = x + self.attn(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


@pytest.mark.parametrize("batch_first", [True, False])
def test_open_clip(batch_first, tmp_path, monkeypatch):
    """The same formula, the last block computed step by step."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.manual_seed(0)
    net = OpenClip(batch_first).eval()
    model = ZeroShot(
        net, lambda lines: np.random.default_rng(1).normal(size=(len(lines), 16)).astype(np.float32), 10.0,
        CentreCrop(32), ["a", "b"], ["{}"], mean=(0, 0, 0), std=(255, 255, 255), name="tiny", fingerprint="tiny",
    )  # fmt: skip
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    case = every_pixel(image, model, target=1)
    (result,) = case.search(Recipe("grad-eclip"))

    last = net.blocks[-1]
    with torch.no_grad():
        before = net.before_last(case.bound.inputs[None])
        before = before[0] if batch_first else before[:, 0]
        weight, bias = last.attn.in_proj_weight.view(3, 32, 32), last.attn.in_proj_bias.view(3, 32)
        q, k, v = (last.ln_1(before) @ w.T + b for w, b in zip(weight, bias, strict=True))
        heads = [t.view(-1, 4, 8).transpose(0, 1) for t in (q, k, v)]
        scores = (heads[0] @ heads[1].transpose(1, 2) / 8**0.5).softmax(dim=2)
        out = (scores @ heads[2]).transpose(0, 1).reshape(-1, 32)
    out.requires_grad_()
    x = before + last.attn.out_proj(out)
    x = x + last.mlp(last.ln_2(x))
    feature = net.ln_post(x[0]) @ net.proj
    (slope,) = torch.autograd.grad(torch.cosine_similarity(feature, model.texts[1], dim=0), out)
    similar = torch.cosine_similarity(q[:1], k[1:], dim=1)
    similar = (similar - similar.min()) / (similar.max() - similar.min())
    expected = (similar * (v[1:] * slope[0]).sum(dim=1)).relu().detach().view(1, 1, 4, 4)
    cells = torch.nn.functional.interpolate(expected, (32, 32), mode="bilinear")[0, 0].numpy()
    assert cells.max() > 0
    np.testing.assert_allclose(result.map, 10 * cells, rtol=1e-3, atol=1e-5 * cells.max())


def test_every_backward_method_takes_clip(model):
    for method in ("gradient", "integrated-gradients", "grad-cam", "ig2", "igos++", "asn"):
        if "gradient" in method:
            pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
        params = {"iterations": 1, "ig_steps": 2} if method == "igos++" else {"k": 2} if method == "asn" else {}
        result = whymask.explain(lit(1), model, method=method, target="a dog", regions="grid:4x4", params=params)
        assert result.n == 16


def test_other_networks_are_refused():
    with pytest.raises(WhymaskError, match="for other networks, use 'grad-cam'"):
        whymask.explain(lit(1), quadrants(), method="grad-eclip", regions="grid:2x2")


def test_a_pooler_is_refused():
    """Its keys are wider than its queries, as in CoCa: none of its tokens is the class token."""

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = torch.nn.Conv2d(3, 8, 4, stride=4)
            self.pool = torch.nn.MultiheadAttention(4, 2, kdim=8, vdim=8, batch_first=True)
            self.query = torch.nn.Parameter(torch.randn(1, 1, 4))

        def forward(self, x):
            tokens = self.stem(x).flatten(2).transpose(1, 2)
            return self.pool(self.query.expand(len(x), -1, -1), tokens, tokens)[0][:, 0]

    with pytest.raises(WhymaskError, match="for other networks, use 'grad-cam'"):
        whymask.explain(lit(1, size=16), whymask.wrap(Pooled(), size=16), method="grad-eclip", regions="grid:2x2")
