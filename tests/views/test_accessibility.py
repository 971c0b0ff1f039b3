"""axe finds nothing in any state of a report: `make test-axe` installs it, elsewhere this is skipped."""

import os
from pathlib import Path

import pytest

import whymask
from whymask.views.report import report

from models.tiny import lit, quadrants
from views.spoken import spoken

AXE = Path(os.environ.get("WHYMASK_AXE", "build/axe")) / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.skipif(not AXE.is_file(), reason="axe is not installed: make test-axe")

DESKTOP = {"viewport": {"width": 1280, "height": 860}}
SCREENS = {
    "light": DESKTOP,
    "dark": {**DESKTOP, "color_scheme": "dark"},
    "forced": {**DESKTOP, "forced_colors": "active"},
    "forced-dark": {**DESKTOP, "forced_colors": "active", "color_scheme": "dark"},
    "200-percent": {"viewport": {"width": 640, "height": 430}, "device_scale_factor": 2},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with a tab for every kind of result."""
    model, photo = quadrants(share=0.5), lit(0, 96)
    ranking = whymask.explain(photo, model, regions="grid:4x4", method="greedy")
    shown = {
        "ordering": ranking.with_curves(whymask.replay(ranking, model)),
        "mask": whymask.explain(photo, model, regions="grid:4x4", k=2, alternatives=2),
        "sizes": whymask.explain(photo, model, regions="grid:4x4", k="auto"),
        "repair": whymask.repair(photo, model, want="se", method="greedy", regions="grid:4x4"),
        "words": spoken(),
    }
    path = tmp_path_factory.mktemp("axe") / "report.html"
    path.write_text(report([*shown.values()], [*shown]))
    return path.as_uri()


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing(browser, page, screen):
    context = browser.new_context(**SCREENS[screen], bypass_csp=True)  # the report would not let axe in
    tab = context.new_page()
    tab.goto(page)
    tab.evaluate(AXE.read_text())

    def check(state):
        found = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found] == [], state
        assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, state

    for number, tab_of in enumerate(tab.get_by_role("tab").all()):
        tab_of.click()
        tab.locator(f"[data-ready='{number}']").wait_for()
        check(number)
    tab.get_by_role("button", name="Wipe").click()
    check("wipe")
    tab.get_by_text("Glossary").click()
    tab.locator(".wm-glossary").wait_for()
    check("glossary")
    tab.locator("[role=tab]").first.click()
    tab.locator("[data-ready='0']").wait_for()
    for summary in tab.locator("summary").all():
        summary.click()
    check("tables")
    tab.get_by_role("button", name="deletion", exact=True).click()
    check("note")
    tab.locator("[role=tab]").nth(4).click()
    tab.locator("[data-ready='4']").wait_for()
    for word in ("three", "tenth"):
        tab.get_by_role("button", name=word, exact=True).click()
    check("pinned words")
    context.close()
