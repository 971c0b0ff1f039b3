"""Your own photo: results on its own grid, and in a notebook or a table."""

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.interop.coco import from_coco_rle

QUICK = {"method": "trace", "params": {"rounds": 2}}


def photo(height, width):
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def bright(images):
    return images.mean(axis=(1, 2, 3)) / 255


def classes():
    """A torch module over the mean of each colour."""
    import torch

    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


@pytest.mark.parametrize("crop", [1.0, 0.875, 0.5])
@pytest.mark.parametrize("shape", [(300, 200), (97, 531), (40, 40)])
@pytest.mark.parametrize("size", [32, (24, 40)])
def test_a_pixel_of_the_grid_is_its_rectangle_on_the_photo(shape, size, crop):
    """Pixels of the photo are in the mask where their centres lie in the rectangle that crop and resize give."""
    height, width = shape
    model = whymask.wrap(classes(), size=size, crop=crop)
    rows, columns = np.broadcast_to(size, 2).tolist()
    labels = np.zeros((rows, columns), dtype=int)
    labels[5:9, 7:20] = 1
    found = whymask.explain(photo(*shape), model, regions=labels, k=1, target=0, **QUICK)
    # The largest rectangle of the grid's proportions, times the share, in the centre of the photo.
    scale = crop * min(height / rows, width / columns)
    y = (np.arange(height) + 0.5 - height / 2) / scale + rows / 2 + 1e-9  # a centre on a border is of the second
    x = (np.arange(width) + 0.5 - width / 2) / scale + columns / 2 + 1e-9
    seen = ((y >= 0) & (y < rows))[:, None] & ((x >= 0) & (x < columns))
    inside = ((y >= 5) & (y < 9))[:, None] & ((x >= 7) & (x < 20))
    inside = inside if found.regions == (1,) else seen & ~inside
    mask, heat = found.photo_mask(), found.photo_heatmap()
    assert mask.shape == heat.shape == shape
    np.testing.assert_array_equal(mask, inside)
    np.testing.assert_array_equal(~np.isnan(heat), seen)
    np.testing.assert_array_equal(heat == 1, mask)
    np.testing.assert_array_equal(from_coco_rle(found.to_coco_rle(photo=True)), mask)
    assert from_coco_rle(found.to_coco_rle()).shape == (rows, columns)


def test_a_whole_photo_at_its_own_size_is_unchanged(tmp_path):
    model = whymask.wrap(bright, max_side=None)
    found = whymask.explain(photo(60, 90), model, regions="grid:4x5", k=3, **QUICK)
    np.testing.assert_array_equal(found.photo_mask(), found.mask)
    reduced = whymask.explain(photo(60, 90), whymask.wrap(bright, size=(20, 30)), regions="grid:4x5", k=3, **QUICK)
    np.testing.assert_array_equal(reduced.photo_mask(), np.kron(reduced.mask, np.ones((3, 3), dtype=bool)))
    ordering = whymask.explain(photo(60, 90), model, regions="grid:2x2", method="greedy")
    np.testing.assert_array_equal(ordering.photo_heatmap(), ordering.heatmap())
    loaded = whymask.EvidenceMask.load(reduced.save(tmp_path / "photo.npz"))
    np.testing.assert_array_equal(loaded.photo_mask(), reduced.photo_mask())


def test_a_photo_is_turned_as_its_camera_says(tmp_path):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    Image.fromarray(photo(60, 90)).save(tmp_path / "photo.jpg", exif=exif)
    assert whymask.explain(tmp_path / "photo.jpg", bright, regions="grid:2x2", k=1).photo_mask().shape == (90, 60)


def test_old_results_ask_for_the_photo(tmp_path):
    import json

    found = whymask.explain(photo(60, 90), bright, regions="grid:2x2", k=1)
    with np.load(found.save(tmp_path / "photo.npz")) as arrays:
        parts = dict(arrays)
    header = json.loads(str(parts.pop("header")))
    for size, says in ((None, "saved without the photo's size: explain the photo again"), ([0, 9], "impossible size")):
        text = json.dumps(header | {"photo_size": size})
        np.savez(tmp_path / "other.npz", header=np.array(text), **parts)
        with pytest.raises(WhymaskError, match=says):
            whymask.EvidenceMask.load(tmp_path / "other.npz").photo_mask()


def test_a_result_is_one_short_line_in_a_notebook():
    mask = whymask.explain(photo(60, 90), bright, regions="grid:2x2", k=1)
    assert repr(mask) == (
        f"<EvidenceMask of 'the score' on function: 1 of 4 regions score {mask.score:.2f} of {mask.full_score:.2f}, "
        f"{mask.verdict.code}>"
    )
    ordering = whymask.explain(photo(60, 90), bright, regions="grid:2x2", method="greedy")
    assert repr(ordering) == "<Ordering of 'the score' on function: 4 regions in order, by greedy>"

    def two(images):
        return np.stack([bright(images), 1 - bright(images)], axis=1)

    repaired = whymask.repair(
        photo(60, 90) // 2, whymask.wrap(two, labels=["a" * 60, "b"]), want=0, regions="grid:2x2", k=1
    )
    things = [mask, ordering, repaired, mask.image, mask.image.partition, whymask.replay(ordering, bright)]
    for thing in things:
        assert repr(thing).startswith(f"<{type(thing).__name__} ")
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200


def test_names_can_be_completed():
    assert {"explain", "load", "wrap", "repair", "Explainer"} <= set(dir(whymask))
    assert dir(whymask) == sorted(whymask.__all__)
    assert all(hasattr(whymask, name) for name in dir(whymask))


def test_what_the_json_names_is_an_attribute():
    mask = whymask.explain(photo(60, 90), bright, regions="grid:2x2", k=1)
    values = mask.as_dict()
    for name in ("full_score", "blank_score", "prediction", "score", "removed_score", "area", "share", "n", "complete"):
        assert getattr(mask, name) == values[name]


def test_many_results_are_one_table():
    pytest.importorskip("pandas", reason="pandas is not installed")
    photos = [photo(60, 90), photo(30, 40), photo(20, 20)]
    table = whymask.to_frame(whymask.explain_many(photos, bright, regions="grid:2x2", k=1))
    assert [*table.index] == [0, 1, 2]
    for number, image in enumerate(photos):
        alone = whymask.explain(image, bright, regions="grid:2x2", k=1)
        assert table.loc[number, "score"] == alone.score
        assert table.loc[number, "verdict"] == alone.verdict.code
        assert table.loc[number, "regions"] == [*alone.regions]
        assert table.loc[number, "full_score"] == alone.full_score
    ordering = whymask.explain(photos[0], bright, regions="grid:2x2", method="greedy")
    both = whymask.to_frame([ordering, whymask.explain(photos[0], bright, regions="grid:2x2", k=1)])
    assert [*both.method] == ["greedy", "discs+swap"]
    assert both.score.isna().tolist() == [True, False]
    with pytest.raises(WhymaskError, match="to_frame takes the results of"):
        whymask.to_frame(["photo.jpg"])


def test_a_table_without_pandas_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(WhymaskError, match="pip install pandas"):
        whymask.to_frame([])
