"""What-ifs in a report: regions are switched on and off among the sets that the search has scored."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.results.scored import ScoredSets
from whymask.views.report import report

from models.tiny import lit, quadrants

playwright = pytest.importorskip("playwright.sync_api")
SHOWN = "(c) => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"


@pytest.fixture(scope="module")
def mask():
    """A mask of the four regions of the bright quadrant, 0, 1, 4 and 5, with scored sets of our own."""
    found = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=4, fill="black", method="discs+swap")
    assert set(found.regions) == {0, 1, 4, 5}
    known = {(0, 1, 4, 5): 0.9, (0, 1, 4): 0.7, (0, 1, 4, 5, 15): 0.95, (0, 1): 0.5, (6, 7): 0.25}
    rows = np.array([np.isin(np.arange(16), some) for some in known])
    scores = np.array([*known.values()])
    answers = np.array([[0], [0], [1], [0], [3]])
    order = [*found.regions]
    return replace(found, scored=ScoredSets.of(rows, scores, answers, quadrants().labels.__getitem__, order, [4]))


@pytest.fixture(params=["mouse", "touch"])
def by(request):
    return request.param


def open_report(browser, path, result, **options):
    path.write_text(report([result], ["mask"]))
    context = browser.new_context(**{"viewport": {"width": 1000, "height": 800}, **options})
    context.set_default_timeout(10_000)
    tab = context.new_page()
    tab.goto(path.as_uri())
    tab.wait_for_selector("[data-ready]")
    return tab


@pytest.fixture
def opened(browser, tmp_path, mask, by):
    phone = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    tab = open_report(browser, tmp_path / "report.html", mask, **(phone if by == "touch" else {}))
    press(tab, tab.get_by_role("button", name="What if"))
    yield tab
    tab.context.close()


def touched(tab):
    return tab.evaluate("matchMedia('(hover: none)').matches")


def press(tab, button):
    if not touched(tab):
        return button.click()
    button.evaluate("(b) => b.addEventListener('click', () => (window.pressed = true), { once: true })")
    tab.evaluate("() => (window.pressed = false)")
    for _ in range(5):  # on a busy machine a tap may take so long that it is no click
        button.tap()
        with suppress(playwright.TimeoutError):
            return tab.wait_for_function("() => window.pressed", timeout=2000)
    raise AssertionError("the button was not pressed")


def place(tab, region):
    """Where a region of the 4 x 4 grid is on the screen."""
    box = tab.locator(".wm-photo canvas").bounding_box()
    return (
        box["x"] + box["width"] * (0.125 + 0.25 * (region % 4)),
        box["y"] + box["height"] * (0.125 + 0.25 * (region // 4)),
    )


def switch(tab, region):
    if touched(tab):
        tab.touchscreen.tap(*place(tab, region))
    else:
        tab.mouse.click(*place(tab, region))


def kept(tab, figure=0):
    """The regions of what the model is shown: black is the fill, and nothing of the image is black."""
    canvas = tab.locator(".wm-scored canvas").nth(figure)
    pixels = np.array(canvas.evaluate(SHOWN)).reshape(32, 32, 4)[4::8, 4::8, :3]
    return set(np.flatnonzero(pixels.any(axis=2).ravel()).tolist())


def status(tab):
    return tab.locator(".wm-status").inner_text()


def offers(tab):
    return tab.get_by_role("group", name="Sets with known scores").get_by_role("button").all_inner_texts()


def test_regions_are_switched_among_the_stored_sets(opened, mask):
    tab = opened
    score = f"{mask.score:.2f}"
    assert status(tab) == f"Shown only these 4 regions, the model says “top left”, which scores {score}."
    switch(tab, 5)
    assert tab.locator(".wm-readout").inner_text().endswith(f"{score} with it")
    assert kept(tab) == {0, 1, 4}
    assert kept(tab, 1) == {*range(16)} - {0, 1, 4}
    assert status(tab).endswith(f"the model says “top left”, which scores 0.70 (the evidence: {score}).")
    assert tab.locator(".wm-score").all_inner_texts() == ["0.70", "\u2013"]
    switch(tab, 5)
    switch(tab, 15)
    assert status(tab).endswith(f"the model says “top right”; “top left” scores 0.95 (the evidence: {score}).")
    press(tab, tab.get_by_role("button", name="All but these"))
    assert tab.get_by_role("button", name="All but these").get_attribute("aria-pressed") == "true"
    assert "did not score these regions" in status(tab)
    press(tab, tab.get_by_role("button", name="Only these", exact=True))
    press(tab, tab.get_by_role("button", name="Back to the evidence"))
    assert kept(tab) == {0, 1, 4, 5}


def test_the_nearest_scored_sets_are_offered(opened):
    tab = opened
    assert not tab.get_by_role("group", name="Sets with known scores").is_visible()
    switch(tab, 5)
    switch(tab, 9)  # 0, 1, 4 and 9: no search has scored that
    assert status(tab) == "The search did not score these regions, and no model is available to score them."
    assert tab.locator(".wm-score").first.inner_text() == "\u2013"
    first, *_ = offers(tab)
    assert first == "without 9: 0.70"
    assert len(offers(tab)) == 3
    press(tab, tab.get_by_role("button", name="without 9: 0.70"))
    assert kept(tab) == {0, 1, 4}
    assert not tab.get_by_role("group", name="Sets with known scores").is_visible()
    press(tab, tab.get_by_role("button", name="Undo"))  # an offer is a step like any other
    assert kept(tab) == {0, 1, 4, 9}


def test_undo_and_redo(opened):
    tab = opened
    undo, redo = (tab.get_by_role("button", name=name) for name in ("Undo", "Redo"))
    assert undo.is_disabled()
    assert redo.is_disabled()
    for region in (5, 4):
        switch(tab, region)
    assert kept(tab) == {0, 1}
    press(tab, undo)
    assert kept(tab) == {0, 1, 4}
    press(tab, redo)
    assert kept(tab) == {0, 1}
    assert redo.is_disabled()
    press(tab, undo)
    press(tab, undo)
    assert kept(tab) == {0, 1, 4, 5}
    assert undo.is_disabled()
    switch(tab, 15)  # another way: what was undone is gone
    assert redo.is_disabled()


def test_a_stroke_switches_all_that_it_passes(opened, by):
    tab = opened
    scrolled = tab.evaluate("scrollY")
    if by == "touch":
        session = tab.context.new_cdp_session(tab)

        def touch(kind, *regions):
            points = [dict(zip("xy", place(tab, region), strict=True)) for region in regions]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", 8)
        for region in (9, 10, 6, 5):
            touch("touchMove", region)
        touch("touchEnd")
    else:
        tab.mouse.move(*place(tab, 8))
        tab.mouse.down()
        for region in (9, 10, 6, 5):
            tab.mouse.move(*place(tab, region))
        tab.mouse.up()
        tab.mouse.move(*place(tab, 2))  # the button is up
    assert kept(tab) == {0, 1, 4, 5, 8, 9, 10, 6}  # 5 was on before
    press(tab, tab.get_by_role("button", name="Undo"))
    assert kept(tab) == {0, 1, 4, 5}  # one step
    assert tab.evaluate("scrollY") == scrolled


def test_by_keyboard(browser, tmp_path, mask):
    tab = open_report(browser, tmp_path / "report.html", mask)
    tab.get_by_role("button", name="What if").press("Enter")
    tab.get_by_role("application").focus()
    tab.keyboard.press("ArrowRight")  # the first region of the mask
    here = int(tab.locator(".wm-unseen").inner_text().split()[1])
    assert here == mask.regions[0]
    before = kept(tab)
    tab.keyboard.press(" ")
    assert kept(tab) == before ^ {here}
    tab.keyboard.press("Control+z")
    assert kept(tab) == before
    tab.keyboard.press("Control+Shift+Z")
    assert kept(tab) == before ^ {here}
    tab.keyboard.press("Control+z")
    tab.keyboard.press("Control+y")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert kept(tab) == before ^ {here} ^ {here + 4}
    tab.keyboard.press("Tab")  # past the toggles of the photo, into the panel
    assert tab.evaluate("document.activeElement.textContent") == "mask"
    tab.context.close()


def test_closing_it_shows_the_evidence_again(browser, tmp_path, mask):
    tab = open_report(browser, tmp_path / "report.html", mask)
    button = tab.get_by_role("button", name="What if")
    button.click()
    switch(tab, 5)
    button.click()
    assert kept(tab) == {0, 1, 4, 5}
    assert not tab.locator(".wm-what-if").is_visible()
    switch(tab, 5)  # is looked at, not switched
    assert kept(tab) == {0, 1, 4, 5}
    tab.context.close()


def test_of_an_ordering_any_prefix_is_a_beginning(browser, tmp_path):
    model = quadrants()
    ranking = whymask.explain(lit(0), model, regions="grid:4x4", method="greedy", fill="black")
    ranking = ranking.with_curves(whymask.replay(ranking, model))
    tab = open_report(browser, tmp_path / "report.html", ranking)
    tab.get_by_role("button", name="What if").click()
    tab.get_by_role("slider").fill("3")
    assert kept(tab) == set(ranking.order[:3])
    assert f"scores {ranking.curves.insertion[2]:.2f}" in status(tab)
    switch(tab, ranking.order[3])  # greedy has scored every next region
    assert f"scores {ranking.curves.insertion[3]:.2f}" in status(tab)
    tab.context.close()


def test_a_report_without_stored_sets_knows_its_own_scores(browser, tmp_path, mask):
    tab = open_report(browser, tmp_path / "report.html", replace(mask, scored=None))
    tab.get_by_role("button", name="What if").click()
    assert f"“top left” scores {mask.score:.2f}" in status(tab)
    tab.get_by_role("button", name="All but these").click()
    assert f"“top left” scores {mask.removed_score:.2f}" in status(tab)
    tab.context.close()
