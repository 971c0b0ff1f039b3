"""Results in the output of a notebook's cell, in a real browser."""

import re
import subprocess
import sys
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from skimage.data import data_dir

import whymask

from models.tiny import lit, quadrants
from views.spoken import answers

LABEL = 'it\'s <b>bright</b> & "big"'


@pytest.fixture(scope="module")
def ranking():
    model = quadrants(share=0.5)
    model.labels[0] = LABEL
    found = whymask.explain(lit(0, 96), model, regions="grid:4x4", method="greedy")
    return found.with_curves(whymask.replay(found, model))


@pytest.fixture(scope="module")
def cell(ranking, tmp_path_factory):
    """A page with the output of a cell, and nothing else."""
    path = tmp_path_factory.mktemp("notebook") / "cell.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{ranking._repr_html_()}</body>")
    return path.as_uri()


def test_the_viewer_works_in_its_frame(tab, cell, ranking):
    outside = []
    tab.on(
        "request", lambda request: request.url.startswith(("file:", "data:", "about:")) or outside.append(request.url)
    )
    tab.goto(cell)
    frame = tab.frame_locator("iframe")
    frame.locator("[data-ready]").wait_for()
    assert frame.get_by_role("heading", name=LABEL).is_visible()
    frame.get_by_role("slider").fill("3")
    assert f"{ranking.curves.insertion_curve[3]:.2f} alone." in frame.locator(".wm-head").inner_text()
    assert outside == []


def test_the_frame_has_no_access_to_the_notebook(tab, cell):
    tab.goto(cell)
    inner = tab.frames[1]
    inner.wait_for_selector("[data-ready]")
    assert inner.evaluate("window.origin") == "null"
    reached = "() => { try { return parent.document.title; } catch (error) { return error.name; } }"
    assert inner.evaluate(reached) == "SecurityError"


def test_without_scripts_the_figure_is_seen(browser, ranking):
    """And where the frame is taken out, as GitHub does. A report with scripts covers it."""
    html = ranking._repr_html_()
    cells = {
        "scripts": html,
        "none": html.replace('sandbox="allow-scripts"', 'sandbox=""'),
        "no frame": re.sub(r"<iframe.*?</iframe>", "", html, flags=re.DOTALL),
    }
    shots = {}
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    for name, cell in cells.items():
        page.set_content(f"<body>{cell}</body>")
        if name == "scripts":
            page.frame_locator("iframe").locator("[data-ready]").wait_for()
        shots[name] = np.asarray(Image.open(BytesIO(page.screenshot()))).astype(int)
    page.close()
    np.testing.assert_array_equal(shots["none"], shots["no frame"])
    assert (shots["none"] != shots["scripts"]).any()
    assert shots["none"].std() > 10  # there is something


def test_what_a_cell_shows(ranking):
    """The viewer, a picture for notebooks that are printed, and a line for terminals."""
    formatters = pytest.importorskip("IPython.core.formatters")
    shown, _ = formatters.DisplayFormatter().format(ranking)
    assert shown.keys() == {"text/plain", "text/html", "image/png"}
    assert shown["text/plain"] == repr(ranking)
    with Image.open(BytesIO(b64decode(shown["image/png"]))) as picture:
        assert picture.width == pytest.approx(7.2 * 110, abs=1)
    assert shown["text/html"] == ranking._repr_html_()


def test_a_notebook_does_not_grow_large():
    """By the report, and two pictures of the figure."""
    mask = whymask.explain(f"{data_dir}/coffee.png", quadrants(), regions="slico:64", k=4)
    shown = mask._repr_mimebundle_()
    assert sum(map(len, shown.values())) < 700_000


def test_results_of_every_kind_show_themselves():
    found = answers(3)
    for result in (found, found[0]):
        html = result._repr_html_()
        assert html.count("<iframe") == html.count("<img") == 1
        assert not re.search(r"(?:src|href)=[\"'](?!data:)", html.partition("<iframe")[0])


def test_a_loaded_result_shows_itself(ranking, tmp_path):
    """Also where nothing else of the package has been used."""
    path = ranking.save(tmp_path / "ranking.npz")
    command = f"import whymask; print('<iframe' in whymask.Ordering.load({str(path)!r})._repr_html_())"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
