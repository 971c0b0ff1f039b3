import json
from pathlib import Path

import pytest

from whymask import WhymaskError
from whymask.data.manifest import Sample, read_manifest, write_manifest


def lines(path, *entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_what_is_written_is_read(tmp_path):
    (tmp_path / "photos").mkdir()
    samples = [
        Sample("a", str(tmp_path / "photos" / "a.png"), 3),
        Sample("b", str(tmp_path / "b.png"), "Yes", "Is there a cup?"),
        Sample("c", "scene:12"),
    ]
    file = write_manifest(tmp_path / "lists" / "cases.jsonl", samples)
    assert json.loads(file.read_text().splitlines()[0]) == {"id": "a", "image": "../photos/a.png", "target": 3}
    back = read_manifest(file)
    assert [(s.id, s.target, s.question) for s in back] == [(s.id, s.target, s.question) for s in samples]
    assert [Path(s.image).resolve() for s in back[:2]] == [Path(s.image).resolve() for s in samples[:2]]
    assert back[2].image == "scene:12"


def test_the_id_is_the_images_name_where_it_is_left_out(tmp_path):
    assert [s.id for s in read_manifest(lines(tmp_path / "m.jsonl", {"image": "x/one.jpg"}))] == ["one"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"target": 3}, "line 1 of {file} names no 'image'."),
        ({"image": "a.png", "taget": 3}, "unknown field in line 1 of {file}: 'taget'; did you mean 'target'?"),
        ({"image": "a.png", "target": 0.5}, "line 1 of {file} has the target 0.5; it must be text or a number."),
        ({"image": "a.png", "question": 1}, "line 1 of {file} has the question 1; it must be text."),
        ([], "line 1 of {file} names no 'image'."),
    ],
)
def test_a_wrong_line_is_named(tmp_path, entry, told):
    file = lines(tmp_path / "m.jsonl", entry)
    with pytest.raises(WhymaskError) as error:
        read_manifest(file)
    assert str(error.value) == told.format(file=file)


def test_a_wrong_file_is_named(tmp_path):
    file = tmp_path / "m.jsonl"
    with pytest.raises(WhymaskError, match="cannot be read: No such file"):
        read_manifest(file)
    file.write_text("\n")
    with pytest.raises(WhymaskError, match="is empty"):
        read_manifest(file)
    file.write_text("image: a.png\n")
    with pytest.raises(WhymaskError, match=r"line 1 of .* is not JSON"):
        read_manifest(file)
    with pytest.raises(WhymaskError, match="two samples with the id 'a'"):
        read_manifest(lines(file, {"image": "a.png"}, {"image": "b/a.png"}))


def test_samples_are_told_apart_by_content(tmp_path):
    photo, copy = tmp_path / "a.png", tmp_path / "b.png"
    photo.write_bytes(b"one")
    copy.write_bytes(b"one")
    sample = Sample("a", str(photo), 1)
    assert sample.digest() == Sample("b", str(copy), 1).digest()
    assert len({sample.digest(), Sample("a", str(photo), 2).digest(), Sample("a", str(photo), 1, "?").digest()}) == 3
    copy.write_bytes(b"two")
    assert sample.digest() != Sample("a", str(copy), 1).digest()
    assert Sample("a", str(tmp_path / "none.png")).digest() is None
