"""Two explanations side by side, by mouse, keyboard and touch."""

from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.views.report import report

from models.tiny import lit, quadrants
from views.spoken import answers

OPTIONS = {"regions": "grid:4x4", "fill": "black"}
COLOUR = "(c, [x, y]) => [...c.getContext('2d').getImageData(x * c.width, y * c.height, 1, 1).data].slice(0, 3)"


@pytest.fixture(scope="module")
def results():
    """An ordering with its replay and two masks of different answers, all of one photo; a mask of another photo."""
    model = quadrants(share=0.5)
    ranking = whymask.explain(lit(0, 96), model, method="greedy", **OPTIONS)
    first = whymask.explain(lit(0, 96), model, k=4, **OPTIONS)
    second = whymask.explain(lit(0, 96), model, k=4, target="se", **OPTIONS)
    wide = np.concatenate([lit(1, 96), lit(1, 96)], axis=1)
    other = whymask.explain(wide, quadrants(share=0.5), k=4, **OPTIONS)
    return ranking.with_curves(whymask.replay(ranking, model)), first, second, other


@pytest.fixture
def opened(tab, tmp_path, results):
    """Opens a report about some of the results at its last tab."""

    def open_report(*shown, page=tab, names=("greedy", "one", "two", "three")):
        path = tmp_path / "report.html"
        path.write_text(report(shown, names[: len(shown)]))
        page.goto(path.as_uri())
        page.get_by_role("tab", name="Side by side").click()
        page.locator(f"[data-ready='{len(shown)}']").wait_for()
        return page

    return open_report


def place(frame, x, y):
    box = frame.bounding_box()
    return {"x": x * box["width"], "y": y * box["height"]}


def readouts(tab):
    return tab.locator(".wm-beside .wm-readout").all_inner_texts()


def common(tab):
    return tab.locator(".wm-head p").inner_text()


def test_each_side_shows_its_answer_verdict_and_scores(opened, results):
    _, first, second, _ = results
    tab = opened(first, second)
    sides = tab.locator(".wm-about").all()
    assert [side.locator("h2").inner_text() for side in sides] == ["top left", "bottom right"]
    for side, mask in zip(sides, (first, second), strict=True):
        assert mask.verdict.sentence in side.inner_text()
        assert side.locator(".wm-sign").is_visible()
        scores = (mask.full_score, mask.score, mask.removed_score, mask.blank_score)
        assert side.locator("b").all_inner_texts()[:4] == [f"{score:.2f}" for score in scores]
    shared = len({*first.regions} & {*second.regions})
    share = shared / len({*first.regions} | {*second.regions})  # all regions have the same size
    assert f"They share {shared} regions, {100 * share:.0f}% of the area that either shows." in common(tab)


def test_pointing_at_one_photo_shows_the_place_in_the_other(opened, results):
    """The model sees the middle half of the photo; region 5 of the 4 x 4 grid is at (0.4375, 0.4375) of it."""
    _, first, second, _ = results
    tab = opened(first, second)
    left, right = tab.locator(".wm-frame").all()
    left.hover(position=place(left, 0.4375, 0.4375))
    for mask, text in zip((first, second), readouts(tab), strict=True):
        assert text.startswith(f"Region 5 · {'in' if 5 in mask.regions else 'not in'} the evidence")
    box, cursor = right.bounding_box(), right.locator(".wm-cursor").bounding_box()
    assert cursor["x"] + cursor["width"] / 2 - box["x"] == pytest.approx(0.4375 * box["width"], abs=1)
    assert cursor["y"] + cursor["height"] / 2 - box["y"] == pytest.approx(0.4375 * box["height"], abs=1)
    right.hover(position=place(right, 0.02, 0.02))  # not seen by the model
    assert readouts(tab) == ["Point at the photo to see its regions."] * 2
    tab.mouse.move(1, 1)
    assert not tab.locator(".wm-cursor").filter(visible=True).count()


def test_the_keyboard_moves_the_cursor_of_both(opened, results):
    tab = opened(*results[1:3])
    right = tab.locator(".wm-frame").nth(1)
    right.focus()
    tab.keyboard.press("ArrowLeft")
    before = readouts(tab)
    assert before[0].startswith("Region ")
    assert before[0].split(" · ")[0] == before[1].split(" · ")[0]
    for _ in range(6):
        tab.keyboard.press("ArrowUp")
    assert readouts(tab) != before
    tab.keyboard.press("Escape")
    assert readouts(tab) == ["Point at the photo to see its regions."] * 2


def test_the_wipe_shows_the_left_photo_up_to_its_edge(opened, results):
    _, first, second, _ = results
    tab = opened(first, second)
    tab.get_by_role("button", name="Wipe").press("Enter")
    left, right = tab.locator(".wm-frame canvas").all()[::-1]  # the left photo lies on the other
    assert left.bounding_box() == right.bounding_box()
    edge = tab.get_by_role("slider", name="Position of the divider")
    edge.fill("20")
    assert left.evaluate("(c) => getComputedStyle(c).clipPath") == "inset(0px 80% 0px 0px)"
    edge.press("ArrowRight")
    assert left.evaluate("(c) => getComputedStyle(c).clipPath") == "inset(0px 79% 0px 0px)"
    frame = tab.locator(".wm-frame").filter(visible=True)
    frame.hover(position=place(frame, 0.5, 0.5))
    tab.mouse.down()
    box = frame.bounding_box()
    tab.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"])
    tab.mouse.up()
    assert edge.input_value() == "70"
    assert readouts(tab)[0].startswith("Region ")  # the cursor is there as well
    tab.get_by_role("button", name="Next to each other").click()
    assert tab.locator(".wm-frame canvas").count() == 2
    assert tab.locator(".wm-frame").nth(0).locator("canvas").count() == 1


def test_a_finger_points_and_wipes_on_a_phone(opened, browser, results):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    phone = context.new_page()
    tab = opened(*results[1:3], page=phone)
    first, second = tab.locator(".wm-frame").all()
    assert second.bounding_box()["y"] > first.bounding_box()["y"]  # one above the other
    first.tap(position=place(first, 0.4375, 0.4375))
    assert all(text.startswith("Region 5") for text in readouts(tab))
    second.tap(position=place(second, 0.5625, 0.4375))
    assert all(text.startswith("Region 6") for text in readouts(tab))
    tab.get_by_role("button", name="Wipe").tap()
    frame = tab.locator(".wm-frame").filter(visible=True)
    frame.tap(position=place(frame, 0.25, 0.5))
    assert tab.get_by_role("slider", name="Position of the divider").input_value() == "25"
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_another_explanation_can_be_chosen_and_orderings_step(opened, results):
    ranking, first, second, _ = results
    tab = opened(ranking, first, second)
    assert tab.get_by_label("Shown on the left").locator("option").all_inner_texts() == [
        "top left, greedy", "top left, one", "bottom right, two",
    ]  # fmt: skip
    slider = tab.get_by_role("slider", name="Regions kept")
    slider.fill("4")
    left = tab.locator(".wm-about").first
    assert "The first 4 of 16 regions." in left.inner_text()
    assert f"{ranking.curves.insertion_curve[4]:.2f}" in left.locator("b").all_inner_texts()
    same = len({*ranking.order[:4]} & {*first.regions})
    assert f"They share {same} region" in common(tab)
    tab.get_by_label("Shown on the left").select_option("bottom right, two")
    assert tab.locator(".wm-about h2").all_inner_texts() == ["bottom right", "top left"]
    assert slider.count() == 0  # there is no ordering


def test_two_photos_share_no_cursor_and_where_their_shapes_differ_no_wipe(opened, results):
    tab = opened(results[1], results[3])
    assert "They show different photos of different shapes" in common(tab)
    assert tab.get_by_role("button", name="Wipe").is_disabled()
    left = tab.locator(".wm-frame").first
    left.hover(position=place(left, 0.4375, 0.4375))
    pointed, other = readouts(tab)
    assert pointed.startswith("Region 5")
    assert other == "Point at the photo to see its regions."


def test_the_masks_of_one_search_can_be_put_side_by_side(opened):
    tab = opened(answers(3), names=["answers"])
    assert tab.get_by_label("Shown on the right").locator("option").all_inner_texts() == ["One", "two", "three"]
    canvas = tab.locator(".wm-frame canvas").nth(1)
    bright, dimmed = (canvas.evaluate(COLOUR, [(i + 0.5) / 4, 0.125])[0] for i in (1, 0))
    assert bright == pytest.approx(100, abs=6)  # the second square, as it is
    assert dimmed == pytest.approx(0.45 * 90, abs=6)


def test_names_tell_explanations_apart(tab, tmp_path, results):
    """By what differs of them, and where nothing does, by numbers."""
    first = results[1]
    path = tmp_path / "report.html"
    path.write_text(report([first], ["trace"]))
    tab.goto(path.as_uri())
    entry = {"title": "dog", "name": "trace", "provenance": {"model": "a"}}
    names = "(entries) => whymask.distinguished(entries)"
    assert tab.evaluate(names, [entry, {**entry, "name": "lean"}]) == ["trace", "lean"]
    assert tab.evaluate(names, [entry, {**entry, "provenance": {"model": "b"}}]) == ["a", "b"]
    assert tab.evaluate(names, [entry, entry]) == ["(1)", "(2)"]
    assert tab.get_by_role("tab").count() == 0  # there is nothing to compare


def test_labels_of_any_text_are_shown_as_text(opened, results):
    first = results[1]
    label = "<img src=x onerror=alert(1)> \u202e"
    image = replace(first.image, target=replace(first.target, label=label))
    tab = opened(replace(first, image=image), results[2])
    assert "<img src=x" in tab.locator(".wm-about h2").first.inner_text()
    assert tab.locator("img").count() == 0
