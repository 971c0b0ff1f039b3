"""The columns of a record, on a model whose score is the brightness of an image."""

import time

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run

from bench.toy import lines, table

GREY = 51  # a fifth of white


def brightness(images):
    return images.mean(axis=(1, 2, 3)) / 255


def test_reference_scores_are_of_the_whole_image_and_of_the_fill(place):
    run(config(table(place, seeds=[0], fill=f"rgb({GREY},{GREY},{GREY})")), quiet=True)
    records = lines(place / "run")
    assert {"order" in record for record in records} == {True, False}
    for record in records:
        image = np.asarray(Image.open(place / f"{record['sample']}.png"))
        assert record["full"] == pytest.approx(image.mean() / 255)
        assert record["blank"] == pytest.approx(0.2)
        if "order" not in record:
            # Every pixel shows the image in one of the two, and the fill in the other.
            assert record["score"] + record["removed_score"] == pytest.approx(record["full"] + record["blank"])


@pytest.mark.parametrize("together", [1, 3])
def test_seconds_are_those_of_the_images_a_search_sent(place, monkeypatch, together):
    """With a clock that only a model moves, one second an image: what shares a batch shares its time."""
    now = 0.0

    def score(images):
        nonlocal now
        now += len(images)
        return brightness(images)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    model = whymask.wrap(score, labels=["bright"])
    methods = ["phasewin", "smallest", "trace"]  # of the first two, some searches end before others
    given = table(place, seeds=[0], together=together, methods=methods, regions="grid:4x4")
    run(config(given), load=lambda spec: model, quiet=True)
    records = lines(place / "run")
    assert len(records) == 21
    for record in records:
        assert record["seconds"] == pytest.approx(record["mec"])  # without replays and reference scores
    assert any(record.get("replay") for record in records)


def test_a_failure_that_passed_is_forgotten(place):
    """A model that was out of order at first; neither the run, its records nor a reader calls the sample failed."""
    broken = True

    def score(images):
        if broken:
            raise RuntimeError("out of order")
        return brightness(images)

    model = whymask.wrap(score, labels=["bright"])
    wanted = config(table(place, seeds=[0], methods=["greedy"]))
    first = run(wanted, load=lambda spec: model, quiet=True)
    assert (first.done, len(first.failed)) == (0, 7)
    assert len(Store(place / "run").errors) == 7
    broken = False
    again = run(wanted, load=lambda spec: model, quiet=True)
    assert (again.done, again.failed) == (7, [])
    reread = Store(place / "run")
    assert (len(reread.records), reread.errors) == (7, {})
    reread.append(next(record for record in lines(place / "run") if "error" in record))  # told late, by another process
    assert reread.errors == {}
    reread.close()
