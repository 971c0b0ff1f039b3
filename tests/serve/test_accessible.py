"""axe finds nothing in any state of the page: `make test-axe` installs it, elsewhere this is skipped."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.tiny import quadrants
from serve.pages import SLOW, ask, done, expert, problem, question, shown
from serve.served import Slow, photo, serving

AXE = Path(os.environ.get("WHYMASK_AXE", "build/axe")) / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.skipif(not AXE.is_file(), reason="axe is not installed: make test-axe")

DESKTOP = {"viewport": {"width": 1280, "height": 860}}
LOOKS = {
    "light": DESKTOP,
    "dark": {**DESKTOP, "color_scheme": "dark"},
    "forced colours": {**DESKTOP, "forced_colors": "active"},
    "200%": {"viewport": {"width": 640, "height": 430}},  # what a browser makes of 1280 x 860
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}


@pytest.fixture(scope="module")
def slow():
    return Slow()


@pytest.fixture(scope="module")
def server(tmp_path_factory, slow):
    models = {"slow": slow.model, "quadrants": quadrants}
    abilities = {"slow": ("question", "caption"), "quadrants": ("class",)}
    with serving(tmp_path_factory.mktemp("served"), models, abilities=abilities) as (url, _):
        yield url


@contextmanager
def looking(browser, server, look):
    context = browser.new_context(**LOOKS[look])
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(server)
    page.locator("#gallery a").first.wait_for()
    yield page
    context.close()


def violations(page):
    """What axe finds: the rule, and the elements that break it."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((run) => run.violations)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing is cut off
    return [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize("look", LOOKS)
def test_no_state_of_the_page_breaks_a_rule(browser, server, slow, look):
    slow.seconds = 0
    with looking(browser, server, look) as page:
        states = {"start": violations(page)}
        expert(page)
        question(page, "Exactly k regions")
        states["form"] = violations(page)
        page.locator("[name=model]").select_option("quadrants")
        done(page, k="4", alternatives="1")
        page.locator("#past a").first.wait_for()
        states["result"] = violations(page)
        page.goto(f"{server}/#example-sentence")
        shown(page)
        states["example"] = violations(page)
        page.locator(".bar .again").click()
        slow.seconds = 0.1
        page.locator("[name=model]").select_option("slow")
        ask(page, photo(seed=1), **SLOW)
        page.locator("#live-photo[width]:not([width='0'])").wait_for()
        states["live"] = violations(page)
        page.get_by_role("link", name="whymask").click()
        page.locator("#running li").wait_for()
        states["running"] = violations(page)
        page.locator("#running a").click()
        page.get_by_role("button", name="Cancel").click()
        problem(page)
        states["problem"] = violations(page)
    assert {state: found for state, found in states.items() if found} == {}
