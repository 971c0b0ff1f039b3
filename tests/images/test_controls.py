import numpy as np

from whymask.images.controls import control_pictures, flat, shuffled, unused_fills
from whymask.images.inpaint import inpainted
from whymask.images.masking import fill_canvas

CANVAS = np.random.default_rng(0).integers(1, 255, (20, 30, 3)).astype(np.uint8)
INSIDE = np.zeros((20, 30), dtype=bool)
INSIDE[5:12, 3:21] = True


def test_flat_and_shuffled_change_the_inside_only():
    for changed in (flat(CANVAS, INSIDE), shuffled(CANVAS, INSIDE)):
        np.testing.assert_array_equal(changed[~INSIDE], CANVAS[~INSIDE])
        assert (changed[INSIDE] != CANVAS[INSIDE]).any()
    assert len(np.unique(flat(CANVAS, INSIDE)[INSIDE], axis=0)) == 1
    mixed = shuffled(CANVAS, INSIDE)
    pixels = [sorted(map(tuple, some[INSIDE].tolist())) for some in (mixed, CANVAS)]
    assert pixels[0] == pixels[1]
    np.testing.assert_array_equal(mixed, shuffled(CANVAS, INSIDE))


def test_fills_are_those_the_search_did_not_use():
    assert [*unused_fills(CANVAS, [fill_canvas("black", CANVAS)], INSIDE)] == ["noise", "blur"]
    several = [fill_canvas(name, CANVAS) for name in ("black", "blur", "mean")]
    found = unused_fills(CANVAS, several, INSIDE)
    assert [*found] == ["noise", "inpaint"]
    np.testing.assert_array_equal(found["inpaint"], inpainted(CANVAS, INSIDE))


def test_pictures_show_the_mask_on_other_fills_and_other_content_on_the_fill():
    black = fill_canvas("black", CANVAS)
    pictures = control_pictures(CANVAS, [black], INSIDE)
    assert [*pictures] == ["flat", "shuffled", "noise", "blur"]
    for name in ("noise", "blur"):
        (picture,) = pictures[name]
        np.testing.assert_array_equal(picture[INSIDE], CANVAS[INSIDE])
        np.testing.assert_array_equal(picture[~INSIDE], fill_canvas(name, CANVAS)[~INSIDE])
    for name in ("flat", "shuffled"):
        (picture,) = pictures[name]
        assert (picture[~INSIDE] == 0).all()
    assert control_pictures(CANVAS, [black], INSIDE & False) == {}


def test_other_content_is_shown_on_every_fill_of_the_search():
    fills = [fill_canvas(name, CANVAS) for name in ("blur", "black")]
    pictures = control_pictures(CANVAS, fills, INSIDE)
    for name, content in (("flat", flat), ("shuffled", shuffled)):
        for picture, fill in zip(pictures[name], fills, strict=True):
            np.testing.assert_array_equal(picture[~INSIDE], fill[~INSIDE])
            np.testing.assert_array_equal(picture[INSIDE], content(CANVAS, INSIDE)[INSIDE])
