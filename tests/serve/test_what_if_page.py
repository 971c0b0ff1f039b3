"""What-ifs on the served page: the model is asked live, by mouse, keyboard and touch."""

import json
from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.explainer.restored import WhatIf
from whymask.serve.history import History

from models.tiny import lit, quadrants
from serve.served import serving
from views.spoken import NUMBERS, answers, spoken, squares
from views.test_what_if import kept, place, press, switch

NAME = "00000000000000aa"
DEVICES = {
    "mouse": {"viewport": {"width": 1000, "height": 800}},
    "touch": {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}},
}
COUNTERS = "Memory.getDOMCounters"


@pytest.fixture(scope="module")
def found():
    return whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=4, fill="black", method="discs+swap")


@pytest.fixture(scope="module")
def server(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("served")
    History(folder).save(NAME, found)
    with serving(folder, {"quadrants": quadrants}) as (url, jobs):
        yield url, jobs


@pytest.fixture(params=["mouse", "touch"])
def page(request, browser, server):
    context = browser.new_context(**DEVICES[request.param])
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.asked = []
    page.on("request", lambda request: request.method == "POST" and page.asked.append(json.loads(request.post_data)))
    page.goto(f"{server[0]}/#{NAME}")
    page.wait_for_selector("[data-ready]")
    press(page, page.get_by_role("button", name="What if"))
    settled(page)
    yield page
    context.close()


def settled(page):
    """Wait until the scores of both pictures are known."""
    page.wait_for_function("() => [...document.querySelectorAll('.wm-score')].every((s) => s.textContent !== '\u2013')")
    page.wait_for_function("() => !document.querySelector('.wm-status').textContent.startsWith('Asking')")


def expected(found, regions):
    shown = WhatIf(found, quadrants()).ask(sorted(regions))
    return f"{shown.score:.2f}", f"the model says “{shown.answers[0]}”"


def test_every_set_is_asked_about(page, found):
    regions = set(found.regions)
    for region in (15, 14, 11, 10, 0, 1):
        switch(page, region)
        regions ^= {region}
        settled(page)
        assert kept(page) == regions
        score, says = expected(found, regions)
        page.locator(".wm-status").filter(has_text=says).filter(has_text=score).wait_for()
        rest = expected(found, {*range(16)} - regions)[0]
        assert page.locator(".wm-score").all_inner_texts() == [score, rest]
    press(page, page.get_by_role("button", name="All but these"))
    score, says = expected(found, {*range(16)} - regions)
    page.locator(".wm-status").filter(has_text=says).filter(has_text=score).wait_for()
    before = len(page.asked)
    for name in ("Only these", "Undo", "Undo", "Redo", "Back to the evidence"):
        press(page, page.get_by_role("button", name=name, exact=True))
    settled(page)
    assert kept(page) == set(found.regions)
    assert len(page.asked) == before  # all of it is known


@pytest.mark.parametrize("page", ["mouse"], indirect=True)
def test_of_a_fast_stroke_only_what_is_still_shown_is_asked(page, server, found):
    page.evaluate("""() => {
      const now = window.fetch;
      window.fetch = async (...what) => { await new Promise((go) => setTimeout(go, 150)); return now(...what); };
    }""")
    before = len(page.asked)
    page.mouse.move(*place(page, 2))
    page.mouse.down()
    for region in (3, 7, 6, 10, 11, 15, 14, 13, 12, 8, 9):
        page.mouse.move(*place(page, region))
    page.mouse.up()
    settled(page)
    page.locator(".wm-status").filter(has_text=expected(found, range(16))[0]).wait_for()
    assert len(page.asked) - before < 12


@pytest.mark.parametrize("page", ["mouse"], indirect=True)
def test_by_keyboard(page, found):
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press(" ")
    settled(page)
    regions = set(found.regions) ^ {found.regions[0]}
    assert kept(page) == regions
    page.locator(".wm-status").filter(has_text=expected(found, regions)[0]).wait_for()
    page.keyboard.press("Control+z")
    assert kept(page) == set(found.regions)


def test_200_toggles_leave_nothing_behind_in_the_page(page):
    session = page.context.new_cdp_session(page)

    def toggle(count):
        for i in range(count):
            page.evaluate(
                """(region) => {
                  const photo = document.querySelector(".wm-photo canvas"), box = photo.getBoundingClientRect();
                  const at = { clientX: box.x + box.width * (0.125 + 0.25 * (region % 4)),
                               clientY: box.y + box.height * (0.125 + 0.25 * (region >> 2)), bubbles: true };
                  photo.setPointerCapture = () => {};
                  photo.dispatchEvent(new PointerEvent("pointerdown", { ...at, buttons: 1 }));
                }""",
                i % 16,
            )
        settled(page)
        session.send("HeapProfiler.collectGarbage")
        counts = session.send(COUNTERS)
        return counts["nodes"], counts["jsEventListeners"]

    nodes, listeners = toggle(20)
    more_nodes, more_listeners = toggle(200)
    assert more_listeners <= listeners + 2
    assert more_nodes <= nodes + 20


@pytest.mark.parametrize("page", ["mouse"], indirect=True)
def test_what_moves_down_leaves_nothing_behind_on_the_screen(page, server):
    """Chromium does not always erase underlines that are set off from words that move; what is drawn anew has none."""
    for _ in range(6):
        page.goto("about:blank")
        page.goto(f"{server[0]}/#{NAME}")
        page.wait_for_selector("[data-ready]")
        page.get_by_role("button", name="What if").click()
        settled(page)
        page.wait_for_timeout(300)
        before = page.screenshot()
        page.evaluate("""() => {
          const { style } = document.documentElement, at = scrollY;
          style.display = "none";
          document.body.offsetHeight;
          style.display = "";
          scrollTo(0, at);
        }""")
        page.wait_for_timeout(300)
        assert page.screenshot() == before


def test_a_server_that_does_not_answer_is_told_and_asked_again(page, found):
    page.route("**/what-if", lambda route: route.fulfill(status=503, body='{"error": "the model is busy."}'))
    switch(page, 13)
    page.locator(".wm-status").filter(has_text="The model is busy.").wait_for()
    assert page.get_by_role("group", name="Sets with known scores").get_by_role("button").count() == 3
    page.unroute("**/what-if")
    switch(page, 9)
    settled(page)
    score, _ = expected(found, {*found.regions, 13, 9})
    page.locator(".wm-status").filter(has_text=score).wait_for()
    assert not page.get_by_role("group", name="Sets with known scores").is_visible()


def test_two_pages_do_not_disturb_each_other(page, browser, server, found):
    other = browser.new_context(viewport={"width": 1000, "height": 800}).new_page()
    other.goto(f"{server[0]}/#{NAME}")
    other.wait_for_selector("[data-ready]")
    other.get_by_role("button", name="What if").click()
    mine, theirs = set(found.regions), set(found.regions)
    for one, two in ((12, 3), (13, 2), (14, 6)):
        switch(page, one)
        switch(other, two)
        mine, theirs = mine ^ {one}, theirs ^ {two}
    for tab, regions in ((page, mine), (other, theirs)):
        settled(tab)
        assert kept(tab) == regions
        tab.locator(".wm-status").filter(has_text=expected(found, regions)[0]).wait_for()
    other.context.close()


def test_what_is_known_from_the_search_is_not_asked(page, found):
    """The search has scored exchanges."""
    differences = [np.flatnonzero(row ^ found.chosen).tolist() for row in found.scored.rows]
    changed = min(filter(None, differences), key=len)
    regions = sorted({*found.regions} ^ {*changed})
    for region in changed:
        switch(page, region)
        settled(page)
    page.locator(".wm-status").filter(has_text=expected(found, regions)[0]).wait_for()
    asked = [question["regions"] for question in page.asked]
    assert sorted({*range(16)} - {*regions}) in asked
    assert regions not in asked


@pytest.mark.parametrize("kind", ["answers", "words"])
def test_each_of_several_masks_has_its_own(browser, tmp_path, kind):
    """After a restart of the server: it knows the results from their files only."""
    several = answers()
    if kind == "words":
        several = replace(spoken(), provenance=several.provenance)  # this model takes no question
    labels = [*NUMBERS, *(f"label {i}" for i in range(9, 16))]
    History(tmp_path).save(NAME, several)
    context = browser.new_context(**DEVICES["mouse"])
    context.set_default_timeout(10_000)
    page = context.new_page()
    model = several.provenance["model"]
    with serving(tmp_path, {model: lambda: whymask.wrap(squares, labels=labels, size=64)}) as (url, _):
        page.goto(f"{url}/#{NAME}")
        page.wait_for_selector("[data-ready]")
        for number in (2, 6):
            page.get_by_role("button", name=NUMBERS[number], exact=True).click()
            page.get_by_role("button", name="What if").filter(visible=True).click()
            settled(page)
            page.locator(".wm-status").filter(has_text=f"scores {several[number].score:.2f}").wait_for()
            switch(page, 15)
            settled(page)
            shown = WhatIf(several[number], whymask.wrap(squares, labels=labels, size=64)).ask([number, 15])
            page.locator(".wm-status").filter(has_text=f"{shown.score:.2f}").wait_for()
            assert page.locator(".wm-score").first.inner_text() == f"{shown.score:.2f}"
            page.get_by_role("button", name=f"Back to all {kind}").click()
            page.get_by_role("button", name=NUMBERS[number], exact=True).wait_for()
    context.close()
