"""Other questions about the image of a past result, without a second upload."""

from dataclasses import replace
from io import BytesIO

import httpx
import numpy as np
import pytest
from PIL import Image

import whymask
from whymask.images.described import described
from whymask.results.base import Explanation
from whymask.serve.again import on_its_photo

from models.tiny import lit, quadrants
from serve.served import Slow, ended, photo, serving
from views.spoken import spoken

NO_UPLOAD = b""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    models = {"bright": Slow().model, "quadrants": quadrants}
    with serving(tmp_path_factory.mktemp("served"), models) as (url, jobs), httpx.Client(base_url=url) as client:
        client.jobs = jobs
        yield client


def ask(client, content=NO_UPLOAD, **wish):
    answer = client.post("/api/jobs", params=wish, content=content)
    assert answer.status_code == 202, answer.text
    job = ended(client, answer.json()["id"])
    assert job["state"] == "done", job["message"]
    return client.jobs.history.load(job["id"])


def encoded(pixels):
    into = BytesIO()
    Image.fromarray(pixels).save(into, format="PNG")
    return into.getvalue()


@pytest.fixture(scope="module")
def first(client):
    """The id of a result about a photo of which the model sees the middle."""
    content = encoded(lit(0, 80))
    name = client.post("/api/jobs", params={"model": "quadrants", "regions": "grid:4x4"}, content=content).json()["id"]
    assert ended(client, name)["state"] == "done"
    return name


@pytest.mark.parametrize(
    "wish",
    [{"k": "3", "alternatives": "1"}, {"method": "greedy"}, {"keep": "answer"}, {"k": "AUTO", "keep": "0.5"}],
    ids=["others", "ranking", "answer", "share"],
)
def test_the_image_and_the_answer_stay_the_same(client, first, wish):
    before = client.jobs.history.load(first)
    found = ask(client, result=first, **wish)
    for name in ("photo", "canvas"):
        np.testing.assert_array_equal(getattr(found.image, name), getattr(before.image, name))
    np.testing.assert_array_equal(found.image.partition.labels, before.image.partition.labels)
    assert (found.image.box, found.image.photo_size) == (before.image.box, before.image.photo_size)
    assert found.image.full_score == pytest.approx(before.image.full_score, abs=1e-5)
    assert found.target == before.target
    assert found.provenance["model"] == before.provenance["model"]
    for other in getattr(found, "alternatives", ()):
        assert other.image.box == before.image.box


def test_a_wrong_answer_is_repaired_from_its_result(client, first):
    before = client.jobs.history.load(first)
    wanted = next(label for label in quadrants().labels if label != before.prediction)
    found = ask(client, result=first, want=wanted, k="4")
    assert found.kind == "repair"
    assert (found.given, found.target.label) == (before.prediction, wanted)
    assert found.image.box == before.image.box


def test_words_of_a_result_are_shown_on_its_photo(client, first):
    image = replace(client.jobs.history.load(first).image, photo_size=(7, 9))
    found = on_its_photo(spoken(), image)
    assert {mask.image.photo_size for mask in (found, *found.each)} == {(7, 9)}
    assert [word.mask for word in found.words if word.mask] == list(found.each)
    assert found.text == spoken().text


def test_the_words_of_an_answer_from_its_result(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    model = whymask.load("tiny-caption")
    with serving(tmp_path, {"caption": lambda: model}) as (url, jobs), httpx.Client(base_url=url) as client:
        client.jobs = jobs
        wish = {"question": "Describe the image.", "method": "blank"}
        name = client.post("/api/jobs", params=wish, content=encoded(described("test", 2).pixels)).json()["id"]
        assert ended(client, name)["state"] == "done"
        shown = client.get(f"/api/results/{name}").json()
        assert shown["model"] == "caption"  # the name it is offered by, which is not its own
        found = ask(client, result=name, words="yes", k="4", fill="black")
    assert found.text
    assert found.provenance["question"] == "Describe the image."


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"result": "0123456789abcdef"}, "there is no such result"),
        ({"result": "../../etc/passwd"}, "there is no such result"),
        ({"result": "example-tripod"}, "does not offer the model of that result, efficientnet-lite0"),
        ({"result": "FIRST", "regions": "grid:2x2"}, "leave regions and resize out"),
        ({"result": "FIRST", "resize": "squash"}, "leave regions and resize out"),
        ({"result": "FIRST", "want": "x", "target": "y"}, "leave other answers and masks out"),
        ({"result": "FIRST", "k": "17"}, "between 1 and the number of regions, 16"),
    ],
)
def test_what_cannot_be_asked_again(client, first, wish, words):
    wish = {name: first if value == "FIRST" else value for name, value in wish.items()}
    answer = client.post("/api/jobs", params=wish)
    assert answer.status_code in (400, 404)
    assert words in answer.json()["error"]


@pytest.mark.parametrize("keep", ["0", "0.0", "1.1", "-0.5", "nan", "inf", "1e-3", "\u0661", "yes", "." * 3])
def test_what_must_be_kept_is_a_share_or_the_answer(client, keep):
    answer = client.post("/api/jobs", params={"keep": keep}, content=photo())
    assert answer.status_code == 400
    assert "keep is a share of the score" in answer.json()["error"]


@pytest.mark.parametrize("number", ["5", "-1", "1.5", "99999999999"])
def test_further_masks_are_few(client, number):
    answer = client.post("/api/jobs", params={"alternatives": number}, content=photo())
    assert answer.status_code == 400
    assert "alternatives must be a whole number from 0 to 4" in answer.json()["error"]


def test_a_result_of_too_many_regions_is_not_searched_again(client, first):
    result = client.jobs.history.load(first)
    labels = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    image = replace(result.image, partition=replace(result.image.partition, labels=labels))
    Explanation.save(replace(result, image=image, scored=None), client.jobs.history.folder / "00000000000000aa.npz")
    answer = client.post("/api/jobs", params={"result": "00000000000000aa"})
    assert answer.status_code == 400
    assert "1 to 400 regions" in answer.json()["error"]
