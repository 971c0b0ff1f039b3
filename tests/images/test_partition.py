import numpy as np
import pytest
from PIL import Image

from whymask import WhymaskError
from whymask.images.partition import Partition, partition

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (96, 96, 3), dtype=np.uint8)


def check(result, canvas=NOISE):
    assert result.labels.shape == canvas.shape[:2]
    assert set(np.unique(result.labels)) == set(range(result.n))
    assert result.areas.sum() == pytest.approx(1)
    assert result.centroids.shape == (result.n, 2)
    assert ((result.centroids > 0) & (result.centroids < 1)).all()
    return result


@pytest.mark.parametrize("canvas", [NOISE, np.zeros_like(NOISE), np.full((8, 8, 3), 200, np.uint8)])
def test_slico(canvas):
    assert 40 <= check(partition(canvas), canvas).n <= 70
    np.testing.assert_array_equal(partition(canvas).labels, partition(canvas, "slico:64").labels)


def test_slico_as_in_the_paper():
    """Compactness 20; on a picture of smooth colours and an edge, others give other regions."""
    from skimage.segmentation import slic

    y, x = np.mgrid[:96, :96] / 96
    canvas = np.stack([x, y, (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.1], axis=2)
    canvas = (255 * canvas).astype(np.uint8)
    found = partition(canvas, "slico:64").labels
    np.testing.assert_array_equal(found, slic(canvas, 64, compactness=20, slic_zero=True, start_label=0))
    for compactness in (10, 19, 21):
        other = slic(canvas, 64, compactness=compactness, slic_zero=True, start_label=0)
        assert (found != other).mean() > 0.01


def test_slico_regions_are_connected():
    from skimage.measure import label

    result = partition(NOISE)
    assert label(result.labels + 1, connectivity=1).max() == result.n


@pytest.mark.parametrize(
    ("spec", "n"), [("grid:8x8", 64), ("grid:3x5", 15), ("grid:64", 64), ("grid:1", 1), ("grid", 64)]
)
def test_grid(spec, n):
    result = check(partition(NOISE, spec))
    assert result.n == n
    if spec == "grid:8x8":
        np.testing.assert_allclose(result.areas, 1 / 64)
        np.testing.assert_allclose(result.centroids[10], [2.5 / 8, 1.5 / 8])  # second row, third column


def test_a_grid_follows_the_shape_of_the_canvas():
    wide = NOISE[:24]  # 24 x 96: four times as wide as high
    assert set(np.unique(partition(wide, "grid:16").labels[:, 0])) == {0, 8}  # two rows of eight


def test_a_finer_grid_than_pixels_drops_empty_cells():
    assert check(partition(NOISE[:4, :4], "grid:8x8"), NOISE[:4, :4]).n == 16


def test_label_maps():
    labels = np.array([[7, 7], [-3, 9]]).repeat(48, axis=0).repeat(48, axis=1)
    result = check(partition(NOISE, labels))
    assert result.n == 3
    np.testing.assert_allclose(result.areas, [0.25, 0.5, 0.25])
    assert check(partition(NOISE, labels > 0)).n == 2


def test_masks_may_overlap_and_leave_gaps():
    masks = np.zeros((2, 96, 96), dtype=bool)
    masks[0, :48] = True
    masks[1, 40:50, 40:50] = True
    result = check(partition(NOISE, masks))
    assert result.n == 3
    assert result.areas[1] == pytest.approx(100 / 96**2)  # the smaller mask wins the overlap
    assert result.labels[95, 95] == 2  # what no mask covers


def test_a_label_map_of_the_whole_image_is_cropped_like_the_image():
    labels = np.arange(200)[:, None] // 100 * 2 + np.arange(300) // 150
    result = check(partition(NOISE, labels, image_shape=(200, 300), box=(0.0, 0.0, 0.5, 1.0)))
    assert result.n == 2  # the right half is not seen
    np.testing.assert_array_equal(result.labels[:, 0], np.repeat([0, 1], 48))


def test_a_map_with_the_shape_of_both_belongs_to_the_image():
    labels = np.arange(96)[None].repeat(96, axis=0) // 48
    left = partition(NOISE, labels, image_shape=(96, 96), box=(0, 0, 0.5, 1))
    assert left.n == 1


def test_numbers_of_a_users_map_are_kept():
    labels = np.array([[107, 100], [120, 127]]).repeat(48, axis=0).repeat(48, axis=1)
    assert partition(NOISE, labels).values == (100, 107, 120, 127)
    assert partition(NOISE, "grid:2x2").values is None


def test_label_map_files(tmp_path):
    labels = partition(NOISE, "grid:4x4").labels
    np.save(tmp_path / "labels.npy", labels)
    Image.fromarray(labels.astype(np.uint16)).save(tmp_path / "labels.png")
    for name in ("labels.npy", "labels.png"):
        result = partition(NOISE, tmp_path / name)
        np.testing.assert_array_equal(result.labels, labels)
        assert result.name == name
    (tmp_path / "bad.png").write_bytes(b"nothing")
    with pytest.raises(WhymaskError, match="is not a label map"):
        partition(NOISE, str(tmp_path / "bad.png"))


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        (np.zeros((10, 10), int), r"shape \(10, 10\), but the image has \(96, 96\)"),
        (np.zeros((96, 96)), "whole numbers"),
        (np.zeros((2, 96, 96), int), "boolean masks"),
        ("slic:64", "'slico:64'"),
        ("slico:0", "'slico:64'"),
        ("grid:8x", "'grid:8x8'"),
        ("missing.png", "path of a label map"),
    ],
)
def test_refuses(regions, words):
    with pytest.raises(WhymaskError, match=words):
        partition(NOISE, regions)


def test_pixels_and_fingerprint():
    grid = Partition(np.array([[0, 1], [2, 2]], dtype=np.int32), "x")
    np.testing.assert_array_equal(grid.pixels(np.array([True, False, True])), [[True, False], [True, True]])
    assert grid.fingerprint != Partition(np.array([[0, 1], [1, 2]], dtype=np.int32), "x").fingerprint
    assert grid.fingerprint != Partition(np.array([[0, 1, 2, 2]], dtype=np.int32), "x").fingerprint


@pytest.mark.parametrize("regions", ["slico:64/4", "grid:4x4/4", "grid:9/3", "slico:30/2", "grid:4/1"])
def test_nested_regions(regions):
    """Each coarse region is cut into parts of equal area, to a pixel or two, and nothing else changes."""
    whole, parts = regions.split("/")
    coarse, fine = partition(NOISE, whole), check(partition(NOISE, regions))
    assert fine.name == regions
    assert fine.n == len(fine.parents) == int(parts) * coarse.n
    np.testing.assert_array_equal(fine.parents[fine.labels], coarse.labels)
    sizes = np.bincount(fine.labels.ravel())
    for region in range(coarse.n):
        inside = sizes[fine.parents == region]
        assert inside.max() <= (2 if parts == "3" else 1) * inside.min() + 2
    assert coarse.parents is None


def test_nested_quarters_of_squares_are_squares():
    fine = partition(np.zeros((32, 32, 3), np.uint8), "grid:4x4/4")
    y, x = np.indices((32, 32))
    square = (y // 4) * 8 + x // 4
    assert all(len(np.unique(fine.labels[square == one])) == 1 for one in range(64))


def test_regions_of_fewer_pixels_than_parts():
    fine = partition(np.zeros((2, 2, 3), np.uint8), "grid:2x2/4")
    assert fine.n == 4
    assert fine.parents.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("regions", ["slico:64/0", "slico:64/", "/4", "grid:8x8/2x2"])
def test_nested_regions_that_are_not(regions):
    with pytest.raises(WhymaskError, match="regions is"):
        partition(NOISE, regions)
