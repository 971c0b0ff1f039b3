"""The report in a real browser."""

from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.views.report import report

from models.tiny import lit, quadrants

LINES = """(c) => {
  const r = document.createRange();
  r.selectNodeContents(c.querySelector("button") ?? c);
  return r.getClientRects().length;
}"""
SMALLER = """(own) => {
  const photo = document.createElement("canvas");
  Object.assign(photo, { width: own.width, height: own.height });
  photo.getContext("2d").drawImage(document.querySelector(".wm-photo canvas"), 0, 0, own.width, own.height);
  return [own, photo].map((canvas) => canvas.toDataURL());
}"""  # a canvas, and the photo at its size
PIXELS = "(c) => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"


@pytest.fixture(scope="module")
def results():
    model = quadrants(share=0.5)
    image = lit(0, 96)
    image[40:56, 30:70] = [200, 80, 20]
    ranking = whymask.explain(image, model, regions="grid:4x4", method="greedy", fill="#102030")
    mask = whymask.explain(image, model, regions="grid:4x4", k=4, fill="#102030")
    return ranking.with_curves(whymask.replay(ranking, model)), mask, replace(ranking, scored=None)


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
    mask = result.image.partition.pixels(np.isin(np.arange(result.n), result.order[:t]))[..., None]
    return np.where(mask, result.image.canvas, result.image.fill), np.where(
        mask, result.image.fill, result.image.canvas
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


def test_the_claim_follows_the_slider(opened, results):
    ranking = results[0]
    tab = opened(ranking)
    claim, photo = tab.locator(".wm-head p").last, tab.locator(".wm-photo canvas")
    for t, which in (
        (1, "The first of 16 regions, 6.3% of what it sees, scores"),
        (3, "The first 3 of 16 regions, 19%"),
    ):
        tab.get_by_role("slider").fill(str(t))
        for text in (claim.inner_text(), photo.get_attribute("aria-label")):
            assert which in text
            assert f"{ranking.curves.insertion_curve[t]:.2f} alone." in text
    tab.get_by_role("slider").fill("0")
    assert f"A blank image scores {ranking.blank_score:.2f}." in claim.inner_text()


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
    tab.get_by_text("16 of 16 regions", exact=True).wait_for()
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
    assert told.startswith(f"Region 5 · rank {rank + 1} of 16 · 6.3% of the area")
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
    first, second, third, _ = tab.get_by_role("tab").all()
    assert first.get_attribute("aria-selected") == "true"
    first.press("ArrowRight")
    tab.wait_for_selector("[data-ready='1']")
    assert second.get_attribute("aria-selected") == "true"
    mask = results[1]
    assert scores(tab) == [f"{mask.score:.2f}", f"{mask.removed_score:.2f}"]
    np.testing.assert_array_equal(shown(tab, 0), np.where(mask.mask[..., None], mask.image.canvas, mask.image.fill))
    assert tab.get_by_role("slider").count() == 0
    third.click()
    tab.wait_for_selector("[data-ready='2']")
    assert "saved without a replay" in tab.locator(".wm-note").inner_text()
    assert scores(tab) == ["\u2013", "\u2013"]
    tab.get_by_role("slider").fill("16")
    assert scores(tab)[0] == f"{mask.image.full_score:.2f}"  # the ends are known without a replay


def test_tables_below(opened, results):
    tab = opened(results[0])
    tab.get_by_text("Every region").click()
    rows = tab.locator("details[open] tbody tr")
    rows.nth(15).wait_for()
    assert rows.count() == 16
    assert rows.first.locator("td").nth(1).inner_text() == str(results[0].order[0])
    tab.get_by_text("Settings to reproduce this").click()
    assert tab.get_by_role("cell", name="canvas_fingerprint").is_visible()


def test_what_keeps_the_answer_is_listed(opened):
    found = whymask.explain(
        lit(0, 96), quadrants(share=0.5), regions="grid:4x4", fill="#102030", keep="answer", null=["ne"]
    )
    tab = opened(found)
    assert tab.locator(".wm-verdict").inner_text().endswith(found.verdict.sentence)
    rows = tab.locator(".wm-folds tr").all_text_contents()
    assert f"answer kept, alone{'yes' if found.controls.kept.alone else 'no'}" in rows
    assert any(row.startswith("answer kept, fill, noise") for row in rows)
    assert any(row.startswith("answer kept, other answer, top right") for row in rows)
    assert any(row.startswith("other answer, top right0.") for row in rows)


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_screen(opened, results, width):
    tab = opened(*results)
    tab.set_viewport_size({"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.locator(".wm-photo canvas").bounding_box()["width"] > 0.24 * width


def test_a_map_that_tells_nothing_is_told(opened, results):
    flat = replace(results[0], map=np.zeros((32, 32)))
    assert "it does not rank" in opened(flat).locator(".wm-head p:not(.wm-verdict)").inner_text()
    assert "it does not rank" not in opened(results[0]).locator(".wm-head p:not(.wm-verdict)").inner_text()


def test_other_masks_are_a_click_away(opened):
    model = quadrants(share=0.5)
    found = whymask.explain(lit(0, 96), model, regions="grid:4x4", k=2, alternatives=2)
    assert found.alternatives
    tab = opened(found)
    first, second, *_ = tab.get_by_role("group", name="Masks").get_by_role("button").all()
    assert scores(tab) == [f"{found.score:.2f}", f"{found.removed_score:.2f}"]
    assert tab.get_by_role("region", name="Scores").is_visible()
    second.click()
    other = found.alternatives[0]
    assert (first.get_attribute("aria-pressed"), second.get_attribute("aria-pressed")) == ("false", "true")
    assert scores(tab) == [f"{other.score:.2f}", f"{other.removed_score:.2f}"]
    np.testing.assert_array_equal(shown(tab, 0), np.where(other.mask[..., None], other.image.canvas, other.image.fill))
    assert f"score {other.score:.2f} alone" in tab.locator(".wm-head").inner_text()
    assert tab.get_by_role("region", name="Scores").is_hidden()  # these bars and the verdict are the first mask's
    assert tab.locator(".wm-judged").is_hidden()
    small = [button.locator("canvas").evaluate(SMALLER) for button in (first, second)]
    assert [own == shown for own, shown in small] == [False, True]  # each shows its own mask, in small
    tab.get_by_text("Regions of the masks").click()
    rows = tab.locator("details[open] tbody tr")
    rows.first.wait_for()
    told = {row.locator("td").first.inner_text(): row.locator("td").last.inner_text() for row in rows.all()}
    masks = [found, *found.alternatives]
    assert told == {
        str(region): ", ".join(str(i) for i, mask in enumerate(masks, 1) if region in mask.regions)
        for region in set().union(*(mask.regions for mask in masks))
    }


def test_the_smallest_mask_shows_its_goal_and_the_other_sizes(opened):
    found = whymask.explain(lit(0, 96), quadrants(share=0.5), regions="grid:4x4", k="auto")
    assert len(found.frontier) > 1
    tab = opened(found)
    plot = tab.get_by_role("img", name=f"{found.goal:.2f} would be enough")
    assert plot.locator(".wm-seen").count() == len(found.frontier)
    sizes = np.array(list(found.frontier))
    x = np.array([float(dot.get_attribute("cx")) for dot in plot.locator(".wm-seen").all()])
    y = np.array([float(dot.get_attribute("cy")) for dot in plot.locator(".wm-seen").all()])
    zero, *_, one = [float(line.get_attribute("y1")) for line in plot.locator(".wm-grid").all()]
    np.testing.assert_allclose((y - zero) / (one - zero), list(found.frontier.values()), atol=1e-3)
    np.testing.assert_allclose(np.diff(x) / (x[-1] - x[0]), np.diff(sizes) / (sizes[-1] - sizes[0]), atol=1e-3)
    goal = float(plot.locator(".wm-goal").get_attribute("y1"))
    assert (goal - zero) / (one - zero) == pytest.approx(found.goal, abs=1e-3)
    chosen = float(plot.locator(".wm-chosen").get_attribute("cx"))
    assert chosen == pytest.approx(x[list(found.frontier).index(len(found.regions))])
    assert "No smaller mask was found that is sufficient." in tab.locator(".wm-head").inner_text()


def test_the_question_stands_above_its_answer(opened, results):
    mask = results[1]
    question = "Is <b>it</b> bright?"
    tab = opened(replace(mask, provenance={**mask.provenance, "question": question}))
    assert tab.locator(".wm-question").inner_text() == question


def test_a_margin_names_both_answers(opened):
    found = whymask.explain(lit(0, 96), quadrants(), regions="grid:4x4", k=4, target="nw", against="se")
    tab = opened(found)
    assert tab.get_by_role("heading", name="top left, not bottom right").is_visible()
    margin = f"On the whole image “top left” scores {found.full_score:.2f} more than “bottom right”."
    assert margin in tab.locator(".wm-head").inner_text()


def test_a_mask_without_an_order_claims_none(opened, results):
    tab = opened(results[1])
    assert "whether it is in the mask" in tab.locator(".wm-readout").inner_text()
    tab.get_by_text("Regions of the mask").click()
    titles = tab.locator("details[open] th")
    titles.first.wait_for()  # a table is made when it is opened
    assert titles.all_inner_texts() == ["region", "area"]


def test_a_function_says_nothing_but_its_score(opened):
    bright = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255, size=32)
    found = whymask.explain(lit(0), bright, regions="grid:2x2", k=1)
    tab = opened(found)
    told = f"The score of the whole image is {found.image.full_score:.2f}."
    assert tab.locator(".wm-head p:not(.wm-verdict)").inner_text().startswith(told)
    assert str(found).startswith(f"{found.verdict} {told}")


def test_tabs_name_their_panel_from_the_start(opened, results):
    tab = opened(*results)
    assert tab.get_by_role("tabpanel", name="greedy").is_visible()


def test_words_in_tables_do_not_break_on_a_phone(opened, results):
    tab = opened(results[0])
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.get_by_text("Cost", exact=True).click()
    words = [title for title in tab.locator("details[open] th").all() if " " not in title.inner_text()]
    assert [word.evaluate(LINES) for word in words] == [1, 1, 1]


def test_a_repair_tells_both_answers_and_plots_its_prefixes(opened):
    fixed = whymask.repair(lit(0, 96), quadrants(), want="se", method="greedy", regions="grid:4x4")
    assert 0 < sum(fixed.right) < 16
    tab = opened(fixed)
    assert tab.get_by_role("heading", name="top left → bottom right").is_visible()
    assert f"and {fixed.image.blank_score:.2f} on a blank image" in tab.locator(".wm-head").inner_text()
    plot = tab.get_by_role("img", name="Score of “bottom right” by the number of regions kept, from 0 to 16.")
    assert plot.locator(".wm-seen").count() == sum(fixed.right)
    path = plot.locator(".wm-frontier").get_attribute("d")
    y = [float(point.split(",")[1]) for point in path[1:].split("L")]
    zero, *_, one = [float(line.get_attribute("y1")) for line in plot.locator(".wm-grid").all()]
    expected = [fixed.image.blank_score, *fixed.scores]
    np.testing.assert_allclose((np.array(y) - zero) / (one - zero), expected, atol=1e-3)
    assert plot.locator(".wm-tick").all_text_contents()[3:] == [str(k) for k in range(0, 17, 2)]
