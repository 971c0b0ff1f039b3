import copy

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from whymask.models import qwen_vision
from whymask.models.qwen_vision import BatchedTower, agrees, widen

from models.tiny_mllm import qwen


def assert_same(found, expected):
    """Two orders of the same sums, compared in double precision on the scale of what they give.

    transformers rounds to fp32 in its norms and rotary embeddings: dozens of roundings of 2**-24, a few 1e-6.
    """
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


@pytest.fixture(scope="module")
def visual():
    return qwen()[0].model.visual.double()


# In image tokens 4 x 4, 3 x 5 and 2 x 1, with windows of 2 x 2 tokens: the last two are no multiples of the window.
@pytest.mark.parametrize("grid", [(8, 8), (6, 10), (4, 2)])
@torch.no_grad()
def test_equals_the_stock_tower(visual, grid):
    patches = torch.randn(3, grid[0] * grid[1], 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(1)).double()
    expected = visual(patches.flatten(0, 1), grid_thw=torch.tensor([[1, *grid]] * 3)).pooler_output
    found = BatchedTower(copy.deepcopy(visual))(patches, grid)
    assert found.shape == (3, grid[0] * grid[1] // 4, 32)
    assert expected.abs().max() > 0.1
    assert_same(found.flatten(0, 1), expected)


@torch.no_grad()
def test_images_of_a_batch_do_not_mix(visual):
    tower = BatchedTower(copy.deepcopy(visual))
    patches = torch.randn(2, 60, 96).double()
    together = tower(patches, (6, 10))
    assert_same(tower(patches[1:], (6, 10))[0], together[1])
    assert not torch.allclose(together[0], together[1], atol=1e-2)


def test_the_layout_puts_windows_of_one_size_together(visual):
    layout = BatchedTower(copy.deepcopy(visual))._layout((6, 10))
    assert layout.windows == ((0, 2, 16), (32, 3, 8), (56, 1, 4))  # 2 whole windows, 3 halves, 1 quarter
    assert layout.whole == ((0, 1, 60),)
    assert sorted(layout.order[:4].tolist()) == [0, 1, 5, 6]  # rows of 5 tokens: the first window


@torch.no_grad()
def test_widened_layers_compute_the_same(visual):
    mlp = copy.deepcopy(visual.blocks[0].mlp)
    x = torch.randn(5, 32).double()
    before = mlp(x)
    widen(mlp)
    assert mlp.gate_proj.weight.shape == (128, 32)
    assert mlp.down_proj.weight.shape == (32, 128)
    assert_same(mlp(x), before)


def test_a_changed_transformers_is_noticed(monkeypatch):
    assert agrees()
    agrees.cache_clear()
    monkeypatch.setattr(qwen_vision, "_rotated", lambda x, cos, sin: x)
    assert not agrees()
    agrees.cache_clear()
