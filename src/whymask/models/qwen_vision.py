"""Qwen2.5-VL's vision tower for many images of one grid: every window attention is one batched call.

transformers calls attention once per window, because its images may differ in size. All masked versions of one image
share one grid, so their windows stack. The weights stay the module's own; `agrees` checks whether the installed
transformers still computes what this file does, and where it does not, its own forward is used.
"""

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn import functional

Groups: TypeAlias = tuple[tuple[int, int, int], ...]
"""Runs of patches that attend among themselves: (first patch, how many runs of this length follow, their length)."""

WIDTH = 128  # matrix units are fast for multiples of this; the inner width 3420 is not even one of 8


class Weights(NamedTuple):
    """The tensors of one block."""

    norm1: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor
    out: torch.Tensor
    out_bias: torch.Tensor
    norm2: torch.Tensor
    gate: torch.Tensor
    gate_bias: torch.Tensor
    up: torch.Tensor
    up_bias: torch.Tensor
    down: torch.Tensor
    down_bias: torch.Tensor


class Layout(NamedTuple):
    """What all images of one grid share."""

    order: torch.Tensor  # (units,) merge units, window by window, windows of one size together
    back: torch.Tensor  # (units,) its inverse
    cos: torch.Tensor  # (patches, 1, 1, head / 2) rotary tables in that order
    sin: torch.Tensor
    windows: Groups
    whole: Groups


class BatchedTower:
    """Patches (B, N, values) of B images of one grid to features (B, N / merge**2, D)."""

    def __init__(self, visual: Any) -> None:
        self.visual = visual
        for block in visual.blocks:
            widen(block.mlp)
        self.blocks = [_weights(block) for block in visual.blocks]
        self.heads = visual.blocks[0].attn.num_heads
        self.merge = visual.spatial_merge_size
        self.window = visual.window_size // self.merge // visual.patch_size  # in merge units
        self.layouts: dict[tuple[int, int], Layout] = {}
        self.run: Any = run_block

    def __call__(self, patches: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
        """Features of patches that lie in the order of the image processor; `grid` is (rows, columns) of patches."""
        if grid not in self.layouts:
            self.layouts[grid] = self._layout(grid)
        layout = self.layouts[grid]
        batch, unit = len(patches), self.merge**2
        kernel = self.visual.patch_embed.proj.weight
        x = functional.linear(patches, kernel.flatten(1))
        x = x.view(batch, -1, unit, x.shape[-1])[:, layout.order].flatten(1, 2)
        for number, weights in enumerate(self.blocks):
            groups = layout.whole if number in self.visual.fullatt_block_indexes else layout.windows
            x = self.run(x, weights, layout.cos, layout.sin, groups, self.heads)
        merged: torch.Tensor = self.visual.merger(x.flatten(0, 1))
        return merged.view(batch, -1, merged.shape[-1])[:, layout.back]

    def _layout(self, grid: tuple[int, int]) -> Layout:
        rows, columns = (side // self.merge for side in grid)
        y, x = np.divmod(np.arange(rows * columns), columns)
        window = y // self.window * -(-columns // self.window) + x // self.window
        size = np.bincount(window)
        order = np.lexsort((window, -size[window]))  # windows at the edges may be smaller: equal sizes together
        groups, start = [], 0
        for length, count in sorted(zip(*np.unique(size, return_counts=True), strict=True), reverse=True):
            groups.append((start, int(count), int(length) * self.merge**2))
            start += groups[-1][1] * groups[-1][2]
        inner = np.arange(self.merge)
        patch = (order.size, self.merge, self.merge)
        place = [
            np.broadcast_to((side[order] * self.merge)[:, None, None] + step, patch).ravel()
            for side, step in ((y, inner[:, None]), (x, inner[None, :]))
        ]
        device = self.visual.patch_embed.proj.weight.device
        frequencies = self.visual.rotary_pos_emb.inv_freq.to(device).float()
        positions = torch.from_numpy(np.stack(place, axis=1)).to(device)  # (patches, 2)
        angles = (positions[..., None].float() * frequencies).flatten(1)[:, None, None]
        return Layout(
            torch.from_numpy(order).to(device),
            torch.from_numpy(np.argsort(order)).to(device),
            angles.cos(),
            angles.sin(),
            tuple(groups),
            ((0, 1, start),),
        )


def run_block(
    x: torch.Tensor, weights: Weights, cos: torch.Tensor, sin: torch.Tensor, groups: Groups, heads: int
) -> torch.Tensor:
    """One transformer block on (B, N, D). A plain function of tensors, so that all blocks share one compilation."""
    normed = functional.rms_norm(x, (x.shape[-1],), weights.norm1, 1e-6)
    qkv = functional.linear(normed, weights.qkv, weights.qkv_bias).view(*x.shape[:2], 3, heads, -1)
    q, k = _rotated(qkv[:, :, :2], cos, sin).unbind(2)
    x = x + functional.linear(_attention(q, k, qkv[:, :, 2], groups), weights.out, weights.out_bias)
    normed = functional.rms_norm(x, (x.shape[-1],), weights.norm2, 1e-6)
    gate = functional.silu(functional.linear(normed, weights.gate, weights.gate_bias))
    wide = gate * functional.linear(normed, weights.up, weights.up_bias)
    return x + functional.linear(wide, weights.down, weights.down_bias)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, groups: Groups) -> torch.Tensor:
    """Attention inside each run of patches; all runs of one length in one call. (B, N, heads, d) -> (B, N, D)."""
    batch, parts = len(q), []
    for start, count, length in groups:
        some = slice(start, start + count * length)
        a, b, c = (t[:, some].reshape(batch * count, length, *t.shape[2:]).transpose(1, 2) for t in (q, k, v))
        attended = functional.scaled_dot_product_attention(a, b, c)
        parts.append(attended.transpose(1, 2).reshape(batch, count * length, -1))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions, computed in fp32 and rounded once."""
    first, second = x.chunk(2, dim=-1)
    half = first.shape[-1]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    out[..., :half] = torch.addcmul(first * cos, second, sin, value=-1)
    out[..., half:] = torch.addcmul(second * cos, first, sin)
    return out


def widen(mlp: Any) -> None:
    """Pad the inner width of a gated MLP with zeros, in place: it computes the same, faster."""
    missing = -mlp.gate_proj.out_features % WIDTH
    with torch.no_grad():
        for layer in (mlp.gate_proj, mlp.up_proj):
            layer.weight = torch.nn.Parameter(functional.pad(layer.weight, (0, 0, 0, missing)), requires_grad=False)
            layer.bias = torch.nn.Parameter(functional.pad(layer.bias, (0, missing)), requires_grad=False)
            layer.out_features += missing
        down = functional.pad(mlp.down_proj.weight, (0, missing))
        mlp.down_proj.weight = torch.nn.Parameter(down, requires_grad=False)
        mlp.down_proj.in_features += missing


def _weights(block: Any) -> Weights:
    layers = (block.attn.qkv, block.attn.proj, block.mlp.gate_proj, block.mlp.up_proj, block.mlp.down_proj)
    qkv, out, gate, up, down = ((layer.weight, layer.bias) for layer in layers)
    return Weights(block.norm1.weight, *qkv, *out, block.norm2.weight, *gate, *up, *down)


@cache
def agrees() -> bool:
    """Whether the installed transformers still computes what `BatchedTower` does: a small tower, in fp32, on a CPU."""
    try:
        from transformers import Qwen2_5_VLConfig
        from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as stock

        config = Qwen2_5_VLConfig(
            vision_config={
                "depth": 2, "hidden_size": 32, "intermediate_size": 36, "num_heads": 2, "out_hidden_size": 24,
                "patch_size": 2, "window_size": 8, "fullatt_block_indexes": [1],
            }
        ).vision_config  # fmt: skip
        with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.no_grad():
            torch.manual_seed(0)
            tower: Any = stock.Qwen2_5_VisionTransformerPretrainedModel
            visual = tower._from_config(config, dtype=torch.float32).eval()
            for parameter in visual.parameters():
                parameter.normal_(0, 0.2)
            grid = (6, 12)  # in units 3 x 6 with windows of 2 x 2: windows of two sizes
            patches = torch.randn(2, grid[0] * grid[1], 3 * 2 * 2 * 2)
            expected = visual(patches.flatten(0, 1), grid_thw=torch.tensor([[1, *grid]] * 2)).pooler_output
            found = BatchedTower(visual)(patches, grid).flatten(0, 1)
        return bool(torch.allclose(found, expected, rtol=1e-4, atol=1e-5))
    except Exception:  # transformers changed in a way this file does not know
        return False
