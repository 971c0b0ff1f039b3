import re

import numpy as np
import pytest
from PIL import Image

from whymask import WhymaskError
from whymask.bench.report import Spread, bench_report
from whymask.data.manifest import Sample, manifest_of, write_manifest

from bench.made_up import ordering, row, write

MASK = {"score@80": 0.15, "removed_score": 0.2, "area": 0.1, "mec": 160, "seconds": 1.0}
INSERTION = {"a": 0.1, "b": 0.9, "c": 0.3, "d": 0.8, "e": 0.2}


@pytest.fixture
def run(tmp_path):
    """Five samples; the image of the best one is there, that of the median one is not."""
    folder = write(
        tmp_path / "a <b>run",
        [
            (row("greedy"), {name: ordering(x, label=f"<i>{name}</i>") for name, x in INSERTION.items()}),
            (
                row("trace", 1, returns="mask"),
                {name: {"score": 1 - x, **MASK} for name, x in INSERTION.items()},
            ),
            (row("greedy", split="empty"), {}),
        ],
    )
    Image.fromarray(np.full((30, 40, 3), 200, np.uint8)).save(tmp_path / "best.png")
    samples = [
        Sample(name, str(tmp_path / ("best.png" if name == "b" else "gone.png")), 0, "Is it?") for name in INSERTION
    ]
    write_manifest(manifest_of(folder, "net", "correct"), samples)
    return folder


def test_tables_spreads_and_cases(run):
    page = bench_report([run])
    assert '<th scope="col"><strong>Ins</strong></th>' in page
    assert "<td>0.460 <small>[" in page  # the mean of greedy, and its interval
    for column in ("@30", "Score of rest", "MEC without cache"):
        assert f'<th scope="col">{column}</th>' in page
    assert "<td>0.200 <small>[0.200, 0.200]</small></td>" in page
    assert "<h3>net, correct, 5 samples, by forwards</h3>" in page
    assert "<td>0.150 <small>[0.150, 0.150]</small></td>" in page
    assert "greedy: median 0.30, half of the samples between 0.20 and 0.80" in page
    assert "trace: median 0.70" in page
    greedy = re.findall(r"<details.*?</details>", page)[0]
    told = re.findall(r"<span>(best|median|worst)</span><strong>([\d.]+)</strong>", greedy)
    assert told == [("best", "0.900"), ("median", "0.300"), ("worst", "0.100")]
    assert greedy.count("<img ") == 1
    assert greedy.count("Its image is not here.") == 2
    assert "<span>Is it?</span>" in greedy
    assert "There is no result yet." in page  # of the other split


def test_cases_are_of_samples_that_have_the_number(tmp_path):
    """Of right answers there is nothing to repair; repairs are alike but for what their masks keep."""
    scores = {"a": 0.7, "b": 0.9, "c": 0.8, "d": 0.2}
    wrong = {name: {"repaired": name != "d", "score": score} for name, score in scores.items()}
    results = {name: {"area": 0.1, "mec": 0, "seconds": 1.0, **numbers} for name, numbers in wrong.items()}
    results["right"] = {"area": 0.1, "mec": 0, "seconds": 1.0, "score": 0.1}
    one = row("some", returns="mask", emphasis="repaired", needs="gradients")
    page = bench_report([write(tmp_path / "run", [(one, results)])])
    told = re.findall(r"<span>(best|median|worst)</span><strong>([\d.a-z]+)</strong><span>sample (\w+)</span>", page)
    assert told == [("best", "1.000", "b"), ("median", "1.000", "c"), ("worst", "0.000", "d")]
    assert "MEC 0" not in page  # nothing is counted of what uses gradients


def test_names_cannot_break_out_and_nothing_is_fetched(run):
    page = bench_report([run])
    assert "<b>" not in page
    assert "<i>" not in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", page)


def test_a_histogram_holds_every_sample():
    spread = Spread.of(np.array([0.0, 0.01, 0.5, 1.0, 1.0]))
    assert spread.shares.sum() == pytest.approx(1)
    assert (spread.shares[0], spread.shares[-1]) == pytest.approx((0.4, 0.4))
    assert spread.median == 0.5


def test_a_folder_without_records(tmp_path):
    with pytest.raises(WhymaskError, match="holds no records"):
        bench_report([tmp_path])


@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser(tab, run, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(bench_report([run]))
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto(path.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.get_by_role("img", name="greedy: median 0.30").first.is_visible()
    assert tab.get_by_role("img", name="<i>b</i>").evaluate("(image) => image.naturalWidth") == 40
    tab.get_by_text("trace by Score").click()
    assert tab.get_by_text("best", exact=True).nth(1).is_visible()
