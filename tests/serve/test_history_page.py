"""Past results and searches under way on the page, a server that is started again, and two users at once."""

import re
import time
from functools import partial

import pytest

from whymask.serve.history import History

from serve.pages import GONE, SLOW, ask, choose, done, problem, question, shown
from serve.served import Slow, photo, serving, until


@pytest.fixture(scope="module")
def slow():
    return Slow()


@pytest.fixture(scope="module")
def server(tmp_path_factory, slow):
    with serving(tmp_path_factory.mktemp("served"), {"slow": slow.model}, abilities={"slow": ()}) as (url, jobs):
        yield url, jobs


@pytest.fixture
def page(tab, server):
    tab.goto(server[0])
    tab.locator("#ask").wait_for()
    return tab


@pytest.fixture
def other(browser, server):
    """The page of somebody else."""
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(server[0])
    page.locator("#ask").wait_for()
    yield page
    context.close()


def test_a_result_in_the_list(page, server, slow):
    slow.seconds = 0
    name = done(page, k="3")
    card = page.locator(f"#past li:has(a[href='#{name}'])")
    card.wait_for()
    lines = card.inner_text().split("\n")
    found = server[1].history.load(name)
    assert lines[0] == "the score"
    assert any(word in card.locator(".wm-verdict-name").inner_text() for word in ("Enough", "Not enough", "counts"))
    assert any(line.startswith("3 of 16 regions") for line in lines)
    assert f"{found.provenance['method']}, function" in lines
    assert str(time.localtime().tm_year) in card.inner_text()  # its date
    orange = card.locator("img").evaluate("""(img) => {
      const [width, height] = [img.naturalWidth, img.naturalHeight];
      const canvas = Object.assign(document.createElement("canvas"), { width, height });
      const context = canvas.getContext("2d");
      context.drawImage(img, 0, 0);
      const { data } = context.getImageData(0, 0, width, height);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) count += data[i] - data[i + 2] > 110;
      return count;
    }""")
    assert orange > 20  # the evidence is drawn


def test_two_users_do_not_disturb_each_other(page, other, server, slow):
    slow.seconds = 0.02
    ask(page, photo(seed=1), method="greedy")
    page.get_by_role("heading", name="Searching").wait_for()
    ask(other, photo(seed=2), k="2")
    other.locator("#numbers", has_text="One other image is ahead of this one.").wait_for()
    waiting = other.locator("#live-waiting")
    assert waiting.is_visible()  # one's own image meanwhile
    assert waiting.evaluate("(img) => img.src").startswith("blob:")
    first, second = (tab.url.partition("#")[2] for tab in (page, other))
    slow.seconds = 0
    assert shown(page) == first
    assert shown(other) == second
    assert server[1].history.load(first).kind == "ordering"
    assert len(server[1].history.load(second).regions) == 2
    assert "2 of 16 regions" in other.locator(".wm-head").inner_text()
    assert page.get_by_role("slider").is_visible()
    server[1].history.delete(first)
    other.reload()
    assert shown(other) == second  # what one user deletes does not change what another one sees


def test_searches_under_way_are_listed_and_go_on(page, other, server, slow):
    slow.seconds = 0.02
    ask(page, photo(seed=3), **SLOW)
    page.get_by_role("heading", name="Searching").wait_for()
    job = server[1].jobs[page.url.partition("#")[2]]
    page.get_by_role("link", name="New image").click()
    card = page.locator("#running li")
    card.wait_for()
    card.filter(has_text=re.compile(r"Running, about \d+%")).wait_for()
    assert card.locator("img").evaluate("(img) => img.naturalWidth") > 10
    ask(other, photo(seed=4), k="2")
    page.locator("#running li").nth(1).filter(has_text="One other image is ahead").wait_for()
    job.seen -= 15  # seconds of the server's patience: the page still asks
    until(lambda: job.seen > time.monotonic() - 5)
    card.first.get_by_role("link").click()
    page.get_by_role("button", name="Cancel").click()
    assert problem(page) == "Cancelled."
    shown(other)
    slow.seconds = 0
    until(lambda: job.over)
    page.wait_for_function("() => !document.querySelector('#running li')")


def test_lists_that_are_asked_for_twice_are_looked_after_once(page, server, slow):
    """Every timer that is left over would ask the server again and again while anything is under way."""
    slow.seconds = 0.1
    ask(page, photo(seed=7), **SLOW)
    page.get_by_role("heading", name="Searching").wait_for()
    waiting = page.evaluate("""async () => {
      const { showHistory } = await import("/static/history.js");
      const [start, stop] = [globalThis.setTimeout, globalThis.clearTimeout];
      const timers = new Set();
      globalThis.setTimeout = (act, time) => {
        const timer = start(act, time);
        if (time >= 2000) timers.add(timer);
        return timer;
      };
      globalThis.clearTimeout = (timer) => { timers.delete(timer); stop(timer); };
      await Promise.all([showHistory(), showHistory(), showHistory()]);
      [globalThis.setTimeout, globalThis.clearTimeout] = [start, stop];
      return timers.size;
    }""")
    assert waiting == 1
    page.get_by_role("button", name="Cancel").click()
    problem(page)


def test_a_waiting_image_is_shown_also_when_the_page_is_loaded_again(page, other, slow):
    slow.seconds = 0.02
    ask(other, photo(seed=5), **SLOW)
    other.get_by_role("heading", name="Searching").wait_for()
    ask(page, photo(seed=6), k="2")
    page.locator("#live-waiting").wait_for()
    page.reload()
    page.locator("#live-waiting").wait_for()
    assert page.locator("#live-waiting").evaluate("(img) => img.src").startswith("data:image/jpeg")
    slow.seconds = 0
    other.get_by_role("button", name="Cancel").click()
    shown(page)


def elsewhere(url, again, route):
    """Answer a request by a server that was started again, on another port."""
    headers = {name: value for name, value in route.request.headers.items() if name != "origin"}
    route.fulfill(response=route.fetch(url=route.request.url.replace(url, again), headers=headers))


def test_after_a_restart_the_image_is_still_there(browser, tmp_path):
    """The page says what to do, and pressing Explain again is enough."""
    slow = Slow(0.2)
    tab = browser.new_page()
    tab.set_default_timeout(20_000)
    with serving(tmp_path, {"slow": slow.model}, abilities={"slow": ()}) as (url, _):
        tab.goto(url)
        choose(tab, photo(seed=7))
        question(tab, "Exactly k regions")
        tab.locator("[name=k]").fill("5")
        tab.get_by_role("button", name="Explain", exact=True).click()
        tab.get_by_role("heading", name="Searching").wait_for()
    assert problem(tab).startswith("The server cannot be reached. If it was stopped, start it again")
    slow.seconds = 0
    with serving(tmp_path, {"slow": slow.model}, abilities={"slow": ()}) as (again, _):
        tab.route(f"{url}/**", partial(elsewhere, url, again))
        tab.locator("#ask").wait_for()
        kept = "Your image and your settings are still here: press Explain to start again."
        assert problem(tab) == f"{GONE} {kept}"
        assert tab.locator("#preview").evaluate("(img) => img.naturalWidth") == 64
        assert tab.locator("[name=k]").input_value() == "5"
        tab.get_by_role("button", name="Explain", exact=True).click()
        shown(tab)
        assert (
            "5 of 64 regions" in tab.locator(".wm-head").inner_text() or "5 of" in tab.locator(".wm-head").inner_text()
        )
    tab.close()


def test_a_list_says_when_each_result_was_saved(server, slow):
    slow.seconds = 0
    entries = server[1].history.latest()
    assert entries
    for entry in entries:
        assert abs(entry["saved"] - History.path(server[1].history, entry["id"]).stat().st_mtime) < 1
        assert entry["kind"] in ("mask", "ordering", "repair", "masks")
