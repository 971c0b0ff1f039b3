import numpy as np
import pytest
import torch
from PIL import Image

from whymask import WhymaskError
from whymask.images.masking import SEVERAL, blend, compose, fill_canvas, fill_name, fills_name, fills_of, stack

CANVAS = np.random.default_rng(0).integers(0, 256, (64, 48, 3), dtype=np.uint8)


def test_flat_fills():
    assert (fill_canvas("black", CANVAS) == 0).all()
    np.testing.assert_array_equal(fill_canvas("mean", CANVAS)[0, 0], np.rint(CANVAS.reshape(-1, 3).mean(axis=0)))
    for colour in ("#ff8000", (255, 128, 0), "rgb(255,128,0)"):
        np.testing.assert_array_equal(fill_canvas(colour, CANVAS)[5, 7], [255, 128, 0])
    assert (fill_canvas("red", CANVAS) == [255, 0, 0]).all()


def test_blurs_keep_the_brightness_or_a_third_of_it():
    blur, dark = fill_canvas("blur", CANVAS), fill_canvas("dark_defocus", CANVAS)
    assert blur.std() < CANVAS.std() / 5
    step = np.zeros((64, 64, 3), dtype=np.uint8)
    step[:, 32:] = 255
    profile = fill_canvas("blur", step)[32, :, 0] / 255  # a Gaussian of standard deviation 4 around the step
    assert profile[32 + 4] == pytest.approx(0.86, abs=0.04)
    assert blur.mean() == pytest.approx(CANVAS.mean(), abs=2)
    assert dark.mean() == pytest.approx(CANVAS.mean() / 3, abs=2)


def test_an_image_as_fill(tmp_path):
    Image.new("RGB", (10, 10), (1, 2, 3)).save(tmp_path / "f.png")
    for fill in (str(tmp_path / "f.png"), tmp_path / "f.png", Image.open(tmp_path / "f.png")):
        assert (fill_canvas(fill, CANVAS) == [1, 2, 3]).all()
        assert fill_canvas(fill, CANVAS).shape == CANVAS.shape


def test_refuses():
    with pytest.raises(WhymaskError, match="did you mean 'black'"):
        fill_canvas("blakc", CANVAS)
    with pytest.raises(WhymaskError, match=r"there is no file missing\.jpg"):
        fill_canvas("missing.jpg", CANVAS)
    with pytest.raises(WhymaskError, match="not list"):
        fill_canvas([1, 2, 3], CANVAS)
    for colour in ((1, 2), (1, 2, 300), (0.5, 0.5, 0.5), "rgb(300,0,0)"):
        with pytest.raises(WhymaskError, match="three whole numbers"):
            fill_canvas(colour, CANVAS)


def test_names():
    assert [fill_name(f) for f in ("blur", (1, 2, 3), CANVAS)] == ["blur", "(1, 2, 3)", "image"]


def test_compose_chooses_by_region():
    rows = np.array([[True, False], [False, True], [True, True], [False, False]])
    index = np.array([[[0, 1], [1, 0]]])
    x, x0 = np.arange(12.0).reshape(3, 2, 2), np.full((3, 2, 2), -1.0)
    expected = np.where(rows[:, index], x, x0)
    assert expected.shape == (4, 3, 2, 2)
    np.testing.assert_array_equal(compose(rows, index, x, x0), expected)
    tensors = compose(rows, torch.from_numpy(index), torch.from_numpy(x), torch.from_numpy(x0))
    np.testing.assert_array_equal(tensors.numpy(), expected)
    room = torch.full((6, 3, 2, 2), 7.0, dtype=torch.float64)
    in_room = compose(rows, torch.from_numpy(index), torch.from_numpy(x), torch.from_numpy(x0), room)
    np.testing.assert_array_equal(in_room.numpy(), expected)
    assert in_room.data_ptr() == room.data_ptr()
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        a, b = (
            torch.randn(3, 2, 2).to(kind),
            torch.tensor([-0.0, float("inf"), 1e-4]).to(kind)[:, None, None].expand(3, 2, 2),
        )
        got = compose(rows, torch.from_numpy(index), a, b)
        assert torch.equal(got, torch.where(torch.from_numpy(rows[:, index]), a, b))
        assert got.dtype == kind
    assert stack([tensors, tensors]).shape == (8, 3, 2, 2)
    assert stack([expected, expected]).shape == (8, 3, 2, 2)
    assert stack([tensors]) is tensors


def test_masked_images_are_made_where_the_image_is():
    """On any device; "meta" stands for those that are not in this machine."""
    rows = np.array([[True, False], [False, True], [True, True]])
    index, x = torch.tensor([[[0, 1], [1, 0]]]), torch.randn(3, 2, 2)
    made = compose(rows, index.to("meta"), x.to("meta"), x.to("meta"))
    assert (made.device.type, made.shape) == ("meta", (3, 3, 2, 2))


def test_soft_masks_show_the_rest_of_the_fill():
    rng = np.random.default_rng(1)
    pixel = np.arange(12).reshape(1, 3, 4)
    masks = rng.random((5, 3, 4)).astype(np.float32)
    x, x0 = rng.random((2, 3, 3, 4)).astype(np.float32)
    expected = np.array([[mask * a + (1 - mask) * b for a, b in zip(x, x0, strict=True)] for mask in masks])
    np.testing.assert_allclose(blend(masks, pixel, x, x0), expected, rtol=1e-6)
    tensors = blend(masks, torch.from_numpy(pixel), torch.from_numpy(x), torch.from_numpy(x0))
    np.testing.assert_allclose(tensors.numpy(), expected, rtol=1e-5)
    whole, fill = (rng.integers(0, 256, (3, 4, 3), dtype=np.uint8) for _ in range(2))  # as functions take images
    index = np.arange(12).reshape(3, 4, 1)
    made = blend(masks, index, whole, fill)
    assert made.dtype == np.uint8
    np.testing.assert_array_equal(made, np.rint(masks[..., None] * whole + (1 - masks[..., None]) * fill))
    hard = masks > 0.5
    chosen = compose(hard.reshape(5, -1), index, whole, fill)
    np.testing.assert_array_equal(blend(hard.astype(np.float32), index, whole, fill), chosen)


def test_noise_has_the_statistics_of_the_image_and_is_the_same_every_time():
    canvas = np.random.default_rng(0).integers(100, 160, (64, 64, 3)).astype(np.uint8)
    noise = fill_canvas("noise", canvas)
    np.testing.assert_array_equal(noise, fill_canvas("noise", canvas))
    assert (noise != fill_canvas("noise", canvas[::-1].copy())).any()
    # 4,096 draws of standard deviation 17.3 per channel: five standard errors are 1.4 for the mean, 1 for the deviation
    np.testing.assert_allclose(noise.mean(axis=(0, 1)), canvas.mean(axis=(0, 1)), atol=1.4)
    np.testing.assert_allclose(noise.std(axis=(0, 1)), canvas.std(axis=(0, 1)), atol=1)


def test_what_a_user_means_by_fills():
    assert fills_of("black") == ("black",)
    assert fills_of((1, 2, 3)) == ((1, 2, 3),)
    assert fills_of([(1, 2, 3), "blur"]) == ((1, 2, 3), "blur")
    assert fills_of(((1, 2, 3), (4, 5, 6))) == ((1, 2, 3), (4, 5, 6))
    assert fills_of("black, hsl(0, 100%, 50%) ,mean") == ("black", "hsl(0, 100%, 50%)", "mean")
    assert fills_of("several") == fills_of(["several"]) == SEVERAL
    assert fills_of("several,mean") == (*SEVERAL, "mean")
    assert fills_of(["#112233", "several"]) == ("#112233", *SEVERAL)
    assert fills_of("blur,several") == ("blur", "black", "noise")  # each of them once
    assert fills_of(["several", "noise"]) == ("black", "blur", "noise")
    assert fills_of("black,blur,noise,several") == SEVERAL
    with pytest.raises(WhymaskError, match="the fill 'blur' is named twice"):
        fills_of("blur,several,blur")
    with pytest.raises(WhymaskError, match="the fill 'several' is named twice"):
        fills_of("several,several")
    (only,) = fills_of(CANVAS)
    assert only is CANVAS
    assert fills_name(("black", (1, 2, 3), CANVAS)) == "black,(1, 2, 3),image"
