import re
from itertools import product

import numpy as np
import pytest
from skimage.data import data_dir

import whymask
from whymask.results.masks_figure import COLOURS
from whymask.views.report import VIEWER, asset, compact, report

from models.tiny import lit, quadrants


def test_a_report_of_a_photo_with_64_regions_is_small():
    """A function sees the photo at up to 512 pixels a side: more than most models, so this is a large report."""
    model = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)
    ranking = whymask.explain(f"{data_dir}/coffee.png", model, method="trace-seed", regions="slico:64")
    assert ranking.n >= 60
    page = report([ranking.with_curves(whymask.replay(ranking, model))], ["trace-seed"])
    assert len(page.encode()) <= 2_000_000


def test_a_report_asks_for_nothing():
    page = report([whymask.explain(lit(0), quadrants(), regions="grid:2x2", k=1)], ["trace"])
    markup = re.sub(r'(?s)<script type="application/json".*?</script>', "", page)
    assert "default-src 'none'" in markup
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", markup)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(|@import|url\(", markup)
    assert re.findall(r"https?://[^\"]*", markup) == ["http://www.w3.org/2000/svg"]  # a name, not an address


def test_labels_cannot_break_out():
    model = quadrants()
    model.labels[0] = "</script><script>alert(1)</script><!-- & \u2028"
    page = report([whymask.explain(lit(0), model, regions="grid:2x2", k=1)], ["<b>"])
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def channels(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(colour) / 255]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(scheme):
    """WCAG AA: 4.5 for text, 3 for controls and for what a plot is read by."""
    light, dark, _ = re.findall(r":root \{(.*?)\}", asset("viewer.css"), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", light))
    if scheme == "dark":
        colours |= dict(re.findall(r"--([\w-]+): (#\w{6})", dark))
    for text, ground in product(("ink", "soft", "accent", "bad"), ("paper", "card")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    for mark, ground in product(("control", "insertion", "deletion"), ("paper", "card")):
        assert contrast(colours[mark], colours[ground]) >= 3, (mark, ground)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pinned_word_can_be_read(scheme):
    """Its ground is a share of its colour on the page's."""
    style = asset("viewer.css")
    ink, paper, bad = (
        [*re.findall(rf"--{name}: (#\w{{6}})", style)][scheme == "dark"] for name in ("ink", "paper", "bad")
    )
    share = int(re.findall(r"color-mix\(in srgb, var\(--colour\) (\d+)%", style)[0]) / 100
    for colour in (*COLOURS, bad):
        ground = share * channels(colour) + (1 - share) * channels(paper)
        assert contrast(ink, "#" + "".join(f"{round(value):02x}" for value in ground)) >= 4.5, colour


def test_contrast_formula():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("name", VIEWER)
def test_no_text_of_a_script_goes_over_several_lines(name):
    """Else it would lose its indentation in a report."""
    for line in asset(name).splitlines():
        assert line.lstrip().startswith(("//", "*", "/*")) or line.count("`") % 2 == 0, line
    assert len(compact(asset(name))) < len(asset(name))
