"""Where pixels go is learned from a processor alone: closed-form processors, one a property."""

import numpy as np
import pytest
import torch

from whymask.models.layout import learn

SHAPE = (12, 20)


def tensor(canvas):
    return torch.from_numpy(np.asarray(canvas, dtype=np.float32))


def scaled(values):
    """As rescaling and normalising: another scale for every channel."""
    return (tensor(values) / 255 - torch.tensor([0.5, 0.4, 0.3])) / torch.tensor([0.2, -0.3, 0.25])


def plain(canvas):
    return {"pixel_values": scaled(canvas).permute(2, 0, 1)[None], "size": torch.tensor([canvas.shape[:2]])}


def patches(canvas):
    """Patches of 4 x 4 in rows, each pixel twice, as for two frames."""
    parts = scaled(canvas).unfold(0, 4, 4).unfold(1, 4, 4).flatten(0, 1).flatten(1)
    return {"pixel_values": torch.cat([parts, parts], dim=1)}


def cropped(canvas):
    return {"pixel_values": scaled(canvas[2:10, 5:15]).permute(2, 0, 1)[None]}


def padded(canvas):
    square = np.full((20, 20, 3), 128, np.uint8)
    square[4:16] = canvas
    return {"pixel_values": scaled(square).permute(2, 0, 1)[None]}


def two_sizes(canvas):
    """Two tensors that show pixels."""
    return {"high": scaled(canvas)[None], "low": scaled(canvas)[None, ::2, ::2]}


def mixed(canvas):
    """A thumbnail: neighbours are averaged."""
    pixels = scaled(canvas).permute(2, 0, 1)[None]
    return {"pixel_values": pixels, "thumbnail": torch.nn.functional.avg_pool2d(pixels, 2)}


def contrasted(canvas):
    """Scaled by the image's own contrast."""
    values = tensor(canvas)
    return {"pixel_values": (values - values.mean()) / values.std().clamp(min=1)}


def resized_by_content(canvas):
    """A processor that cuts off black borders."""
    return {"pixel_values": scaled(canvas[: max(1, int((canvas.max(axis=(1, 2)) > 0).sum()))])}


def blind(canvas):
    return {"pixel_values": torch.zeros(1, 3, 4, 4)}


@pytest.mark.parametrize("process", [plain, patches, cropped, padded, two_sizes])
def test_composing_equals_processing_the_masked_image(process):
    layout = learn(process, SHAPE)
    rng = np.random.default_rng(3)
    image, fill = rng.integers(0, 256, (2, *SHAPE, 3), dtype=np.uint8)
    labels = rng.integers(0, 9, SHAPE)
    kept = rng.random(9) < 0.5
    index = torch.from_numpy(labels.flatten())[layout.pixel]
    composed = torch.where(torch.from_numpy(kept)[index], layout.join(process(image)), layout.join(process(fill)))
    expected = process(np.where(kept[labels][..., None], image, fill))
    for name, part in layout.split(composed[None]).items():
        assert torch.equal(part, expected[name])


def test_the_layout_of_patches_in_closed_form():
    layout = learn(patches, (4, 8))
    first = torch.tensor([row * 8 + column for row in range(4) for column in range(4)])
    both = torch.cat([torch.cat([first] * 3), torch.cat([first] * 3)])
    assert layout.shapes == {"pixel_values": torch.Size([2, 96])}
    assert torch.equal(layout.pixel.view(2, 96)[0], both)
    assert torch.equal(layout.pixel.view(2, 96)[1], both + 4)


def test_images_follow_each_other_along_the_first_dimension():
    layout = learn(two_sizes, SHAPE)
    images = np.random.default_rng(0).integers(0, 256, (3, *SHAPE, 3), dtype=np.uint8)
    split = layout.split(torch.stack([layout.join(two_sizes(image)) for image in images]))
    for name in ("high", "low"):
        assert torch.equal(split[name], torch.cat([two_sizes(image)[name] for image in images]))


def test_what_a_crop_leaves_out_is_found():
    assert learn(cropped, SHAPE).box(20) == (5, 2, 15, 10)
    assert learn(plain, SHAPE).box(20) == (0, 0, 20, 12)


@pytest.mark.parametrize("process", [mixed, contrasted, resized_by_content, blind])
def test_processors_that_do_more_than_move_pixels_have_no_layout(process):
    assert learn(process, SHAPE) is None


def test_numbers_of_more_than_one_byte():
    """300 x 300 pixels: their numbers take two bytes and a bit of the third."""
    layout = learn(plain, (300, 300))
    assert torch.equal(layout.pixel.view(3, -1)[1], torch.arange(300 * 300))
