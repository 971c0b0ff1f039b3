import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.data.coco import coco_objects
from whymask.data.pope import (
    Question,
    ask,
    find_images,
    pick,
    questions_about,
    read_questions,
    together,
    write_questions,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
LINE = {"question_id": 1, "image": "a.jpg", "text": "Is there a dog in the image?", "label": "yes"}


def written(tmp_path, *lines):
    file = tmp_path / "coco_pope_random.json"
    file.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return file


@pytest.mark.skipif(not (DATA / "pope").is_dir(), reason="the published question files are not here")
def test_the_published_files():
    counts = {}
    for kind in ("pope", "repope"):
        for sampling in ("random", "popular", "adversarial"):
            questions = read_questions(DATA / "pope" / f"coco_{kind}_{sampling}.json")
            counts[kind, sampling] = len(questions)
            if kind == "pope":
                assert Counter(q.label for q in questions) == {"yes": 1500, "no": 1500}
    assert sum(n for (kind, _), n in counts.items() if kind == "pope") == 9000
    assert [n for (kind, _), n in counts.items() if kind == "repope"] == [2774, 2727, 2684]


def test_round_trip(tmp_path):
    questions = [Question(1, "a.jpg", ask("dog"), "yes"), Question(7, "b.jpg", ask("apple"), "no")]
    file = write_questions(tmp_path / "q.json", questions)
    assert read_questions(file) == questions
    assert json.loads(file.read_text().splitlines()[0]) == LINE
    assert (questions[1].text, questions[1].want) == ("Is there an apple in the image?", "No")


def test_an_id_is_not_needed(tmp_path):
    bare = {name: LINE[name] for name in ("image", "text", "label")}
    assert [q.number for q in read_questions(written(tmp_path, bare, "\n", bare))] == [1, 3]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"image": "a.jpg", "label": "yes"}, "line 2 of .* has no 'text'; each line needs image, text, label"),
        ({"image": "a.jpg"}, "has no 'text' and no 'label'"),
        ({**LINE, "label": "Yes"}, "label 'Yes'; it must be 'yes' or 'no'"),
        ({**LINE, "question_id": "a7"}, "question_id 'a7'; it must be a whole number, or left out"),
        ({**LINE, "question_id": None}, "question_id None"),
        ("[1]\n", "has no 'image'"),
        ("{broken\n", "line 2 of .* is not JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, complaint):
    with pytest.raises(WhymaskError, match=complaint):
        read_questions(written(tmp_path, LINE, line))


def test_a_file_without_questions_is_no_question_file(tmp_path):
    with pytest.raises(WhymaskError, match=r"coco_pope_random\.json is empty"):
        read_questions(written(tmp_path, "\n"))


def test_a_missing_file_is_named_with_the_closest(tmp_path):
    written(tmp_path, LINE)
    with pytest.raises(WhymaskError, match=r"'coco_pope_randm.json'; did you mean 'coco_pope_random.json'\?"):
        read_questions(tmp_path / "coco_pope_randm.json")
    with pytest.raises(WhymaskError, match=r"there is no folder .*nowhere"):
        read_questions(tmp_path / "nowhere" / "q.json")


def test_missing_images_are_named(tmp_path):
    questions = [Question(i, f"{i}.jpg", ask("dog"), "yes") for i in (1, 2, 3)]
    with pytest.raises(WhymaskError, match=r"there is no image folder .*photos; pass the one that holds 1\.jpg"):
        find_images(questions, tmp_path / "photos")
    (tmp_path / "2.jpg").touch()
    with pytest.raises(WhymaskError, match=r"lacks 2 of 3 images, such as 1\.jpg"):
        find_images(questions, tmp_path)
    assert find_images(questions[1:2], tmp_path) == {"2.jpg": tmp_path / "2.jpg"}


def test_negatives_by_sampling():
    """Objects 0, 1, 2 are there; 3 comes with them, 4 is frequent elsewhere, and 7 never comes at all."""
    shows = np.zeros((40, 8), dtype=bool)
    shows[:10, [0, 1, 2, 3]] = True
    shows[10:, 4] = True
    shows[10:30, 5] = True
    shows[0, 6] = True
    counts, there = together(shows), np.arange(8) < 3
    assert counts[0, 3] == 10
    assert counts[4, 4] == 30

    def negatives(sampling, seed=0):
        picked = pick(there, counts, sampling, np.random.default_rng(seed))
        assert [label for _, label in picked] == ["yes", "no"] * 3
        assert {i for i, label in picked if label == "yes"} == {0, 1, 2}
        return [i for i, label in picked if label == "no"]

    assert negatives("popular") == [4, 5, 3]
    assert negatives("adversarial")[:2] == [3, 6]
    assert len({tuple(negatives("random", seed)) for seed in range(9)}) > 3
    with pytest.raises(WhymaskError, match="did you mean 'popular'"):
        negatives("poplar")


def test_questions_about_annotated_images():
    shown = {"a.jpg": ["dog", "cat", "sofa"], "b.jpg": ["dog", "cup", "fork", "knife"], "c.jpg": ["bed"]}
    questions = questions_about(shown, "popular")
    assert [q.image for q in questions] == ["a.jpg"] * 6 + ["b.jpg"] * 6  # one kind of object is too few
    for question in questions:
        thing = question.text.removeprefix("Is there a ").removesuffix(" in the image?")
        assert (question.label == "yes") == (thing in shown[question.image])
    assert questions_about(shown, "popular") == questions
    for few in ({"c.jpg": ["bed"]}, {"a.jpg": shown["a.jpg"]}):  # too little there, and too little missing
        with pytest.raises(WhymaskError, match="shows 3 kinds of objects and lacks 3 others: there is nothing to ask"):
            questions_about(few, "random")


def test_coco_annotations_of_both_kinds(tmp_path):
    boxes = tmp_path / "text"
    for name in ("boxes", "images"):
        (boxes / name).mkdir(parents=True)
    (boxes / "names.txt").write_text("person\ndog\n")
    (boxes / "images" / "7.jpg").touch()
    (boxes / "boxes" / "7.txt").write_text("1 0.5 0.5 0.1 0.1\n0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.1 0.1\n")
    assert coco_objects(boxes) == {"7.jpg": ["dog", "person"]}
    instances = {
        "images": [{"id": 3, "file_name": "7.jpg"}, {"id": 4, "file_name": "8.jpg"}],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"image_id": 3, "category_id": 18}],
    }
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "instances_val.json").write_text(json.dumps(instances))
    assert coco_objects(tmp_path) == {"7.jpg": ["dog"], "8.jpg": []}
    with pytest.raises(WhymaskError, match="no COCO annotations"):
        coco_objects(tmp_path / "annotations" / "..." / "elsewhere")
    (boxes / "boxes" / "7.txt").write_text("80 0.5 0.5 0.1 0.1\n")
    with pytest.raises(WhymaskError, match=r"number of a class in names\.txt"):
        coco_objects(boxes)


@pytest.mark.skipif(not (DATA / "coco").is_dir(), reason="the COCO photos are not here")
def test_questions_about_coco_photos():
    shown = coco_objects(DATA / "coco")
    assert len(shown) > 100
    questions = questions_about(shown, "adversarial")
    assert Counter(q.label for q in questions)["yes"] * 2 == len(questions) > 200
    assert len(find_images(questions, DATA / "coco" / "images")) * 6 == len(questions)
