import json

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run
from whymask.bench.table import table
from whymask.data.base import Place
from whymask.data.objects import Objects
from whymask.interop.coco import to_coco_rle

TOP = np.zeros((8, 16), dtype=bool)  # of a photo of 16 x 8 pixels
TOP[:4, :8] = True


def samples(folder):
    return Objects(str(folder)).read(Place(folder / "run"))


@pytest.fixture
def photo(tmp_path):
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 100, (8, 16, 3), dtype=np.uint8)
    pixels[:4, :8] += 100  # the object is bright
    Image.fromarray(pixels).save(tmp_path / "images" / "one.png")
    return tmp_path


def polygons(folder):
    (folder / "polygons").mkdir()
    (folder / "polygons" / "one.txt").write_text("3 0 0 0.45 0 0.45 0.4 0 0.4\n")
    (folder / "polygons" / "other.txt").write_text("3 0 0 0.45 0 0.45 0.4 0 0.4\n")


def instances(*segmentations):
    def write(folder):
        (folder / "annotations").mkdir()
        data = {
            "images": [{"id": 7, "file_name": "one.png"}, {"id": 8, "file_name": "elsewhere.png"}],
            "categories": [{"id": 1, "name": "cup"}],
            "annotations": [{"image_id": 7, "category_id": 1, "segmentation": outline} for outline in segmentations],
        }
        (folder / "annotations" / "instances_val.json").write_text(json.dumps(data))

    return write


@pytest.mark.parametrize(
    "annotate",
    [
        polygons,
        instances([[0, 0, 3, 0, 3, 3, 0, 3], [4, 0, 7, 0, 7, 3, 4, 3]]),
        instances(to_coco_rle(TOP)),
        instances({"size": [8, 16], "counts": [0, *[4, 4] * 7, 4, 68]}),
    ],
)
def test_every_form_of_annotations(photo, annotate):
    annotate(photo)
    (sample,) = samples(photo)
    assert (sample.id, sample.image) == ("one", str(photo / "images" / "one.png"))
    np.testing.assert_array_equal(np.asarray(Image.open(sample.mask)) > 0, TOP)


def bright(images):
    return images.mean(axis=(1, 2, 3)) / 255


def test_overlap_is_a_column(photo):
    instances(to_coco_rle(TOP))(photo)
    methods = ["greedy", {"method": "greedy-k", "params": {"k": 4}}]
    given = {
        "out": str(photo / "run"),
        "models": ["m"],
        "methods": methods,
        "objects": str(photo),
        "regions": "grid:4x4",
    }

    def load(spec):
        model = whymask.wrap(bright, labels=["bright"])
        model.default_k = 6
        return model

    run(config(given), load=load, quiet=True)
    ordered, masked = table([photo / "run"]).lines
    # The object is four of the sixteen regions, and the brightest ones.
    assert {name: masked.cells[name].mean for name in ("on_object", "covered", "object")} == {
        "on_object": 1.0, "covered": 1.0, "object": 0.25
    }  # fmt: skip
    assert ordered.cells["on_object"].mean == pytest.approx(4 / 6)
    assert ordered.cells["covered"].mean == 1
    before = set(Store(photo / "run").records)
    (photo / "annotations" / "instances_val.json").unlink()
    (photo / "annotations").rmdir()
    instances([[0, 0, 3, 0, 3, 3, 0, 3]])(photo)
    run(config(given), load=load, quiet=True)
    assert before < set(Store(photo / "run").records)  # another mask is another result


def test_a_mask_of_ones_own(photo):
    Image.fromarray(TOP).save(photo / "mask.png")
    Image.new("L", (3, 3)).save(photo / "small.png")
    lines = [{"image": "images/one.png", "mask": "mask.png"}, {"id": 2, "image": "images/one.png", "mask": "small.png"}]
    (photo / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = {"out": str(photo / "run"), "models": ["m"], "methods": ["greedy"], "regions": "grid:4x4"}
    given["splits"] = {"mine": {"manifest": str(photo / "mine.jsonl")}}
    summary = run(config(given), load=lambda spec: whymask.wrap(bright, labels=["bright"]), quiet=True)
    assert summary.failed == [f"2, greedy: the mask {photo}/small.png has shape (3, 3), but its image has (8, 16)."]
    (record,) = Store(photo / "run").records.values()
    assert record["object"] == 0.25


def test_what_has_no_outlines_is_refused(photo):
    with pytest.raises(WhymaskError, match="has neither instances_"):
        samples(photo)
    polygons(photo)
    (photo / "polygons" / "one.txt").write_text("3 0 0 0.5\n")
    with pytest.raises(WhymaskError, match="must have lines with a class and then pairs x y"):
        samples(photo)
    (photo / "images" / "one.png").write_text("no image")
    with pytest.raises(WhymaskError, match=r"one.png cannot be read as an image"):
        samples(photo)
    (photo / "images" / "one.png").unlink()
    with pytest.raises(WhymaskError, match="holds no photo with outlines"):
        samples(photo)
