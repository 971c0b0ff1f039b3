"""The report in a real browser."""

from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.views.report import report

from models.tiny import lit, quadrants

PIXELS = "(c) => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"


@pytest.fixture(scope="module")
def results():
    model = quadrants(share=0.5)
    image = lit(0, 96)
    image[40:56, 30:70] = [200, 80, 20]
    ranking = whymask.explain(image, model, regions="grid:4x4", method="greedy", fill="#102030")
    mask = whymask.explain(image, model, regions="grid:4x4", k=4, fill="#102030")
    return ranking.with_curves(whymask.replay(ranking, model)), mask, ranking


@pytest.fixture
def opened(tab, tmp_path, results):
    """Opens a report and waits until it can be used; a request to anywhere else fails the test."""
    outside = []
    tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or outside.append(request.url))

    def open_report(*shown, names=("greedy", "trace", "again")):
        path = tmp_path / "report.html"
        path.write_text(report(shown, names[: len(shown)]))
        tab.goto(path.as_uri())
        tab.wait_for_selector("[data-ready='0']")
        return tab

    yield open_report
    assert outside == []


def shown(tab, number):
    """The pixels (H, W, 3) of the image with only the chosen regions (0), or without them (1)."""
    canvas = tab.locator(".wm-scored canvas").nth(number)
    values = np.array(canvas.evaluate(PIXELS), dtype=np.uint8)
    return values.reshape(32, 32, 4)[..., :3]


def composed(result, t):
    mask = result.scene.partition.pixels(np.isin(np.arange(result.n), result.order[:t]))[..., None]
    return np.where(mask, result.scene.canvas, result.scene.fill), np.where(
        mask, result.scene.fill, result.scene.canvas
    )


def scores(tab):
    return tab.locator(".wm-score").all_inner_texts()


def marker(tab):
    """Where the insertion curve's dot is, in the plot's pixels."""
    dot = tab.locator(".wm-insertion-dot")
    return float(dot.get_attribute("cx")), float(dot.get_attribute("cy"))


def test_the_slider_moves_image_complement_score_and_curves(opened, results):
    ranking = results[0]
    tab = opened(ranking)
    assert tab.get_by_role("heading", name="top left").is_visible()
    slider = tab.get_by_role("slider")
    places = []
    for t in (0, 3, 16):
        slider.fill(str(t))
        for number, expected in enumerate(composed(ranking, t)):
            np.testing.assert_array_equal(shown(tab, number), expected)
        curves = ranking.curves
        assert scores(tab) == [f"{curves.insertion_curve[t]:.2f}", f"{curves.deletion_curve[t]:.2f}"]
        assert f"{t} of 16 regions" in slider.get_attribute("aria-valuetext")
        assert tab.locator(".wm-count").inner_text() == f"{t} of 16 regions"
        places.append(marker(tab))
    x, y = np.array(places).T
    areas, values = ranking.curves.x[[0, 3, 16]], ranking.curves.insertion_curve[[0, 3, 16]]
    np.testing.assert_allclose((x - x[0]) / (x[2] - x[0]), areas, atol=1e-3)
    np.testing.assert_allclose((y - y[0]) / (y[2] - y[0]), (values - values[0]) / (values[2] - values[0]), atol=1e-3)


def test_arrow_keys_step_from_anywhere(opened, results):
    tab = opened(results[0])
    start = results[0].prefix
    tab.locator("body").press("ArrowRight")
    assert tab.locator(".wm-count").inner_text() == f"{start + 1} of 16 regions"
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".wm-count").inner_text() == f"{start - 1} of 16 regions"
    tab.keyboard.press("End")  # the slider has the focus now
    assert tab.locator(".wm-count").inner_text() == "16 of 16 regions"


def test_play_and_pause(opened, results):
    tab = opened(results[0])
    slider = tab.get_by_role("slider")
    slider.fill("13")
    tab.get_by_role("button", name="Play").click()
    tab.get_by_text("16 of 16 regions").wait_for()
    tab.get_by_role("button", name="Play").click()  # from the start again
    tab.get_by_role("button", name="Pause").click()
    stopped = slider.input_value()
    assert int(stopped) < 16
    tab.wait_for_timeout(400)
    assert slider.input_value() == stopped


def test_a_region_tells_its_rank_and_gain(opened, results):
    """The model sees the middle half of the photo; region 5 of the 4 x 4 grid is at (0.4375, 0.4375) of it."""
    ranking = results[0]
    tab = opened(ranking)
    photo = tab.locator(".wm-photo canvas")
    box = photo.bounding_box()
    photo.hover(position={"x": 0.4375 * box["width"], "y": 0.4375 * box["height"]})
    rank = ranking.order.index(5)
    gain = ranking.curves.insertion_curve[rank + 1] - ranking.curves.insertion_curve[rank]
    told = tab.locator(".wm-readout").inner_text()
    assert told.startswith(f"Region 5 · rank {rank + 1} of 16 · 6.3 % of the area")
    sign = "+" if gain > -0.0005 else "\u2212"
    assert f"entering {sign}{abs(gain):.3f}" in told
    photo.hover(position={"x": 3, "y": 3})  # not seen by the model
    assert tab.locator(".wm-readout").inner_text().startswith("Point at a region")
    photo.click(position={"x": 0.4375 * box["width"], "y": 0.4375 * box["height"]})
    assert tab.locator(".wm-count").inner_text() == f"{rank + 1} of 16 regions"


def test_toggles_change_the_photo(opened, results):
    tab = opened(results[0])
    photo = tab.locator(".wm-photo canvas")
    seen = [photo.evaluate("(c) => c.toDataURL()")]
    for name in ("mask", "outline", "heat"):
        button = tab.get_by_role("button", name=name)
        before = button.get_attribute("aria-pressed")
        button.click()
        assert button.get_attribute("aria-pressed") != before
        seen.append(photo.evaluate("(c) => c.toDataURL()"))
        assert seen[-1] != seen[-2]


def test_methods_are_tabs_and_a_mask_has_its_own_view(opened, results):
    tab = opened(*results)
    first, second, third = tab.get_by_role("tab").all()
    assert first.get_attribute("aria-selected") == "true"
    first.press("ArrowRight")
    tab.wait_for_selector("[data-ready='1']")
    assert second.get_attribute("aria-selected") == "true"
    mask = results[1]
    assert scores(tab) == [f"{mask.score:.2f}", f"{mask.removed_score:.2f}"]
    np.testing.assert_array_equal(shown(tab, 0), np.where(mask.mask[..., None], mask.scene.canvas, mask.scene.fill))
    assert tab.get_by_role("slider").count() == 0
    third.click()
    tab.wait_for_selector("[data-ready='2']")
    assert "stored without its replay" in tab.locator(".wm-note").inner_text()
    assert scores(tab) == ["\u2013", "\u2013"]
    tab.get_by_role("slider").fill("16")
    assert scores(tab)[0] == f"{mask.scene.full_score:.2f}"  # the ends are known without a replay


def test_tables_below(opened, results):
    tab = opened(results[0])
    tab.get_by_text("Every region").click()
    rows = tab.locator("details[open] tbody tr")
    rows.nth(15).wait_for()
    assert rows.count() == 16
    assert rows.first.locator("td").nth(1).inner_text() == str(results[0].order[0])
    tab.get_by_text("How to get this again").click()
    assert tab.get_by_role("cell", name="canvas_fingerprint").is_visible()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_screen(opened, results, width):
    tab = opened(*results)
    tab.set_viewport_size({"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.locator(".wm-photo canvas").bounding_box()["width"] > 0.24 * width


def test_a_map_that_tells_nothing_is_told(opened, results):
    flat = replace(results[0], map=np.zeros((32, 32)))
    assert "the order tells nothing" in opened(flat).locator(".wm-head p").inner_text()
    assert "the order tells nothing" not in opened(results[0]).locator(".wm-head p").inner_text()
