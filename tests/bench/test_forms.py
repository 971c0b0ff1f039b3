"""Files of the wrong form: whatever reads them raises one line."""

import json

import pytest
from PIL import Image

from whymask import WhymaskError
from whymask.bench.config import config, read_config
from whymask.data.base import Place
from whymask.data.coco import coco_objects
from whymask.data.manifest import read_manifest
from whymask.data.objects import Objects
from whymask.data.pope import find_images, read_questions

from bench.toy import table
from models.talker import Talker

NO_TEXT = [b"\xff\xfe", b"\0", b"[" * 100_000, b"9" * 10_000, b"null", b"[]", b"3", b'"\\ud800"']
NO_PATH = ["\0", "\ud800", "a" * 10_000]


def samples(folder):
    return Objects(str(folder)).read(Place(folder))


def refused(read):
    with pytest.raises(WhymaskError) as caught:
        read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", NO_TEXT)
def test_no_text(tmp_path, data):
    file = tmp_path / "instances_x.json"
    file.write_bytes(data)
    refused(lambda: read_manifest(file))
    refused(lambda: read_questions(file))
    refused(lambda: coco_objects(tmp_path))
    refused(lambda: samples(tmp_path))
    file.write_bytes(b"a = " + data)
    refused(lambda: read_config(file))


@pytest.mark.parametrize("name", NO_PATH)
def test_names_that_no_file_has(tmp_path, name):
    refused(lambda: read_manifest(f"{tmp_path}/{name}"))
    refused(lambda: read_questions(f"{tmp_path}/{name}"))
    refused(lambda: read_config(f"{tmp_path}/{name}"))
    refused(lambda: config(table(tmp_path, regions=name)))
    (tmp_path / "cases.jsonl").write_text(json.dumps({"image": name, "id": "a"}))
    (sample,) = read_manifest(tmp_path / "cases.jsonl")
    assert sample.digest() is None
    (tmp_path / "q.json").write_text(json.dumps({"image": name, "text": "Is there a cup?", "label": "yes"}))
    refused(lambda: find_images(read_questions(tmp_path / "q.json"), tmp_path))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("images", {"file_name": 3}),
        ("annotations", {"segmentation": ["polygon"]}),
        ("annotations", {"segmentation": [[0, 0, 1, 1, 2]]}),
        ("annotations", {"segmentation": [[0, 0, 1, 1, 2, float("nan")]]}),
        ("annotations", {"segmentation": 3}),
        ("annotations", {"segmentation": {"counts": [64], "size": [8]}}),
        ("annotations", {"segmentation": {"counts": [5, 4], "size": [3, 3]}}),  # the photo has 8 x 8 pixels
        ("annotations", {"segmentation": {"counts": "x", "size": [8, 8]}}),
    ],
)
def test_outlines_of_the_wrong_form(tmp_path, part, change):
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    data = {
        "images": [{"id": 1, "file_name": "0.png"}],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [{"image_id": 1, "category_id": 1, "segmentation": [[0, 0, 7, 0, 7, 7]]}],
    }
    file = tmp_path / "instances_x.json"
    file.write_text(json.dumps(data))
    assert len(samples(tmp_path)) == 1
    data[part][0] |= change
    file.write_text(json.dumps(data))
    refused(lambda: samples(tmp_path))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000, b"null", b"[1]", b"{}"])
def test_damaged_answers_are_asked_for_again(tmp_path, data):
    def answers():
        return Place(tmp_path).remembered(Talker(), "about", lambda: [[0, 1]])

    answers()
    (file,) = (tmp_path / "splits").iterdir()
    whole = file.read_bytes()
    file.write_bytes(data)
    assert answers() == [[0, 1]]
    assert file.read_bytes() == whole
