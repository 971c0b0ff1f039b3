"""Tables of what image processors make of grey levels."""

import numpy as np
import pytest
import torch

from whymask.models.levels import chart, learn

MEAN, STD = (torch.tensor(values)[:, None, None] for values in ((0.48, 0.46, 0.41), (0.27, 0.26, 0.28)))


def levels(canvas):
    """Of a processor that cuts a canvas (H, W, 3) into halves and halves the second in size, (1, 2, 3, H, W / 2)."""
    tiles = torch.from_numpy(canvas).permute(2, 0, 1).unflatten(2, (2, -1)).movedim(2, 0).clone()
    tiles[1] = tiles[1, :, ::2, ::2].repeat_interleave(2, 1).repeat_interleave(2, 2)
    return tiles[None]


def inputs(canvas):
    """With its last steps."""
    return {"pixel_values": (levels(canvas) * (1 / 255) - MEAN) / STD, "sizes": torch.tensor([canvas.shape[:2]])}


def left_out(canvas, dtype=torch.uint8):
    """Without them."""
    return inputs(canvas) | {"pixel_values": levels(canvas).to(dtype)}


CANVAS = np.random.default_rng(0).integers(0, 256, (64, 128, 3), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(64, 128, 3), (16, 1000, 3), (113, 57, 3)])
def test_a_chart_shows_all_levels(shape):
    assert set(np.unique(chart(np.zeros(shape, np.uint8)))) == set(range(256))
    assert chart(np.zeros(shape, np.uint8)).shape == shape


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_values_are_those_of_the_processor_bit_by_bit(dtype):
    table = learn(inputs(chart(CANVAS)), left_out(chart(CANVAS), dtype))
    packed = table.packed(left_out(CANVAS, dtype))
    assert packed["pixel_values"].dtype == torch.uint8
    found = table.values(packed)
    for name, part in inputs(CANVAS).items():
        assert torch.equal(found[name], part)
        assert found[name].dtype == part.dtype


def test_what_is_no_function_of_the_level_and_channel_has_no_table():
    made, plain = inputs(chart(CANVAS)), left_out(chart(CANVAS))
    values = made["pixel_values"]
    padded = values.clone()
    padded[..., :9] = 0.0
    assert learn(made | {"pixel_values": padded}, plain) is None
    assert learn(made | {"pixel_values": values.flatten(2)}, plain) is None
    assert (
        learn(
            made | {"pixel_values": values.movedim(2, 4)}, plain | {"pixel_values": levels(chart(CANVAS)).movedim(2, 4)}
        )
        is None
    )
    assert learn(made, plain | {"pixel_values": plain["pixel_values"] / 2}) is None  # no whole levels


def test_levels_that_were_not_seen_have_no_table():
    dark = chart(CANVAS) // 2
    assert learn(inputs(dark), left_out(dark)) is None
