import numpy as np
import pytest

from whymask.images.inpaint import LONGEST, NOISE, blocks, imputed, inpainted

RNG = np.random.default_rng(0)
SOME = RNG.random((9, 7)) < 0.3
PIXELS = RNG.integers(0, 256, (9, 7, 3)).astype(float)


def neighbours_mean(picture):
    """(H, W, C) of every pixel, written out: weights 1/6 beside and above, 1/12 across, those that exist."""
    height, width = picture.shape[:2]
    means = np.zeros_like(picture)
    for y in range(height):
        for x in range(width):
            total = 0
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    if (dy or dx) and 0 <= y + dy < height and 0 <= x + dx < width:
                        weight = 1 / 12 if dy and dx else 1 / 6
                        means[y, x] += weight * picture[y + dy, x + dx]
                        total += weight
            means[y, x] /= total
    return means


def test_hidden_pixels_are_the_weighted_means_of_their_neighbours():
    found = imputed(PIXELS, SOME)
    np.testing.assert_array_equal(found[SOME], PIXELS[SOME])
    np.testing.assert_allclose(found[~SOME], neighbours_mean(found)[~SOME], atol=1e-9)


def test_one_hidden_pixel_in_closed_form():
    known = np.ones((3, 3), dtype=bool)
    known[1, 1] = False
    picture = np.arange(9.0).reshape(3, 3, 1) ** 2
    expected = (1 + 9 + 25 + 49) / 6 + (0 + 4 + 36 + 64) / 12
    assert imputed(picture, known)[1, 1, 0] == pytest.approx(expected)


def test_a_ramp_between_two_sides_is_continued():
    ramp = np.broadcast_to(np.arange(12.0)[None, :, None], (8, 12, 3))
    known = np.zeros((8, 12), dtype=bool)
    known[:, [0, 11]] = True
    np.testing.assert_allclose(imputed(ramp, known), ramp, atol=1e-9)


@pytest.mark.parametrize("side", [20, 3 * LONGEST - 5])
def test_one_colour_stays_one_colour_but_for_the_noise(side):
    canvas = np.full((side, side + 4, 3), (90, 120, 150), dtype=np.uint8)
    inside = np.zeros(canvas.shape[:2], dtype=bool)
    inside[5:11, 4:13] = True
    found = inpainted(canvas, inside)
    np.testing.assert_array_equal(found[inside], canvas[inside])
    away = found[~inside].astype(float) - (90, 120, 150)
    assert abs(away.mean()) < 5 * NOISE / np.sqrt(away.size)
    assert away.std() == pytest.approx(NOISE, rel=0.15)  # rounding adds 1/12 to a variance of 6.5
    np.testing.assert_array_equal(found, inpainted(canvas, inside))
    if side == 20:
        assert inpainted(canvas, inside | True).tolist() == canvas.tolist()


def test_blocks_are_means_of_what_they_show():
    canvas = np.zeros((5, 4, 3), dtype=np.uint8)
    canvas[0, 0], canvas[1, 1] = 100, 40
    inside = np.zeros((5, 4), dtype=bool)
    inside[0, 0] = inside[1, 1] = inside[4, 3] = True
    known, values = blocks(canvas, inside, 2)
    assert known.tolist() == [[True, False], [False, False], [False, True]]
    assert values[0, 0].tolist() == [70, 70, 70]
    assert values[2, 1].tolist() == [0, 0, 0]


def test_what_is_hidden_does_not_matter():
    first = RNG.integers(0, 256, (30, 30, 3)).astype(np.uint8)
    inside = np.zeros((30, 30), dtype=bool)
    inside[10:20, 8:22] = True
    second = np.where(inside[..., None], first, 255 - first)
    one, other = (inpainted(picture, inside).astype(float) for picture in (first, second))
    assert abs(one - other).mean() < 4 * NOISE  # the noise has another seed, nothing else differs
    np.testing.assert_allclose(imputed(first, inside), imputed(second, inside))
