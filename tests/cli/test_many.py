"""`whymask explain` for many images, and `whymask report` about their folder."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from whymask.cli.many import images_of, is_one
from whymask.errors import WhymaskError
from whymask.results.base import Explanation

from cli.command import whymask_command
from models.planted import photo
from models.tiny import lit

OWN = "def load(gain=1.0):\n    return lambda images: gain * images[:, :8, :8].mean(axis=(1, 2, 3)) / 255\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three images, a text and a model: how bright the top left corner is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "photos" / "below").mkdir(parents=True)
    for number in range(3):
        Image.fromarray(np.roll(lit(0), number, axis=0)).save(tmp_path / "photos" / f"{number}.png")
    Image.fromarray(lit(1)).save(tmp_path / "photos" / "below" / "3.png")
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path


def explain(*arguments, stdin=""):
    settings = ["--model", "own.py:load", "--regions", "grid:4x4", "--k", "2", "--budget", "20"]
    return whymask_command("explain", *arguments, *settings, stdin=stdin)


def results(folder):
    return {file.name: file.stat().st_mtime_ns for file in (folder / "whymask-out").glob("*.npz")}


@pytest.mark.usefixtures("folder")
def test_files_folders_patterns_and_a_list(tmp_path, monkeypatch):
    out = tmp_path / "out"
    inside = [f"photos/{number}.png" for number in range(3)]
    assert images_of(["photos"], out) == inside
    assert images_of(["photos/[12].png", "photos/1.png", "scene:4"], out) == [*inside[1:], "scene:4"]
    assert images_of(["photos/**/*"], out) == [*inside, "photos/below/3.png"]
    monkeypatch.setattr(sys, "stdin", ["photos/2.png\n", "\n", "photos/0.png"])
    assert images_of(["-"], out) == ["photos/2.png", "photos/0.png"]
    for arguments, words in ((["own.py/*"], "no image matches"), (["."], "there is no image in .")):
        with pytest.raises(WhymaskError, match=words):
            images_of(arguments, out)
    with pytest.raises(WhymaskError, match="the folder of the results"):
        images_of(["photos"], tmp_path / "photos")
    one = [["photos/1.png"], ["scene:4"], ["missing.png"], ["https://x.y/z.jpg"]]
    assert [is_one(arguments) for arguments in one] == [True] * 4
    assert [is_one(arguments) for arguments in (["photos"], ["-"], ["*.png"], ["a", "b"])] == [False] * 4


def test_what_is_done_is_not_done_again(folder):
    answer = explain("photos", "--quiet")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [line.split(":")[0] for line in answer.stdout.splitlines()[:3]] == [f"photos/{n}.png" for n in range(3)]
    assert answer.stdout.splitlines()[3] == "3 explained. Index: whymask-out/index.html"
    first = results(folder)
    assert len(first) == 3
    Image.fromarray(np.roll(lit(0), 9, axis=0)).save(folder / "photos" / "1.png")  # another image of that name
    answer = explain("photos/*.png", "photos/below")
    assert answer.stdout.splitlines()[-1] == "2 explained, 2 explained before. Index: whymask-out/index.html"
    second = results(folder)
    assert len(second) == 5
    assert second.items() >= first.items()
    (folder / "own.py").write_text(OWN.replace("1.0", "0.5"))  # another model of that name
    assert explain("photos").stdout.splitlines()[-1].startswith("3 explained.")


def test_a_file_among_several_fills_or_options_that_has_changed_is_used_anew(folder):
    settings = ["--fill", "black,fill.png", "--model-option", "gain=0.5"]
    for number in (0, 1):
        Image.fromarray(lit(number)).save(folder / "fill.png")
        answer = explain("photos/0.png", "photos/1.png", *settings)
        assert answer.stdout.splitlines()[-1].startswith("2 explained. Index")
    again = explain("photos/0.png", "photos/1.png", *settings)
    assert again.stdout.splitlines()[-1].startswith("2 explained before. Index")


def test_one_unreadable_file_costs_only_itself(folder):
    (folder / "photos" / "1.png").write_text("no image")
    answer = explain("-", stdin="photos/0.png\nmissing.png\nphotos/1.png\nphotos/2.png\n")
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[-1] == "2 explained, 2 failed. Index: whymask-out/index.html"
    errors = answer.stderr.splitlines()
    assert errors[0] == "whymask: there is no file missing.png."
    assert errors[1].startswith("whymask: photos/1.png is not an image")
    assert len(errors) == 2
    page = (folder / "whymask-out" / "index.html").read_text()
    assert page.count('<figure class="wb-case">') == 4
    assert page.count("not explained") == 2
    assert "there is no file missing.png." in page
    for file in (folder / "whymask-out").glob("*.npz"):
        assert f'href="{file.stem}.png"' in page.replace("%2B", "+")


def test_several_processes_find_the_same(folder):
    alone = [json.loads(line) for line in explain("photos", "--json", "--out", "alone").stdout.splitlines()]
    (folder / "photos" / "text.png").write_text("no image")
    answer = explain("photos", "--json", "--jobs", "2", "--out", "together")
    together = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.returncode == 1
    regions = {report["image"]: report.get("regions") for report in together}
    assert regions == {report["image"]: report["regions"] for report in alone} | {"photos/text.png": None}
    assert len(list((folder / "together").glob("*.npz"))) == 3


def test_a_model_that_only_the_other_processes_cannot_load_ends_the_command(folder):
    """As where a GPU has no memory for another one."""
    failing = "    if multiprocessing.parent_process():\n        raise MemoryError('no room')\n    return"
    (folder / "own.py").write_text("import multiprocessing\n" + OWN.replace("    return", failing))
    answer = explain("photos", "--jobs", "2")
    assert answer.returncode == 2
    assert answer.stderr.startswith("whymask: own.py, line 4: MemoryError: no room")
    assert len(answer.stderr.splitlines()) == 1


def test_mistakes_that_concern_all_images_end_the_command(folder):
    answer = explain("photos", "--target", "dog")
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1
    assert results(folder) == {}
    for arguments, words in (
        (["photos", "--seeds", "2"], "--seeds compares the searches of one image"),
        (["photos", "--jobs", "0"], "--jobs must be a whole number of at least 1"),
        (["photos", "--fill", "blck"], "did you mean 'black'"),
    ):
        answer = explain(*arguments)
        assert answer.returncode == 2
        assert words in answer.stderr


def test_orderings_have_their_curves(folder):
    answer = explain("photos/0.png", "photos/1.png", "--method", "trace+greedy")
    assert answer.returncode == 0, answer.stderr
    found = [Explanation.load(file) for file in sorted((folder / "whymask-out").glob("*.npz"))]
    assert len(found) == 2
    assert all(one.curves is not None for one in found)


DETECTOR = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import whymask
from models.planted import LABELS, boxes

def load():
    return whymask.wrap(boxes, task="detection", labels=LABELS)
"""


def test_a_box_by_a_point_and_photos_without_one(folder):
    (folder / "own.py").write_text(DETECTOR)
    Image.fromarray(photo()).save(folder / "objects.png")
    Image.fromarray(np.where(np.arange(64)[:, None, None] < 32, photo(), 40).astype(np.uint8)).save("dog.png")
    answer = explain("objects.png", "--point", "45,50", "--json")
    assert json.loads(answer.stdout)["target"]["label"].startswith("cat at ")
    answer = explain("objects.png", "dog.png", "--target", "cat")
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[-1].startswith("1 explained, 1 failed.")
    assert answer.stderr == "whymask: dog.png: function sees no 'cat' in the image; it sees dog.\n"
    for arguments, words in (
        (["--point", "45"], "--point takes X,Y in pixels"),
        (["--point", "45,50", "--target", "cat"], "pass one of them"),
        (["--point", "450,50"], "lies outside"),
    ):
        answer = explain("objects.png", *arguments)
        assert answer.returncode == 2
        assert words in answer.stderr
