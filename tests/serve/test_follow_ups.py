"""Other questions about a result on the page: a repair, other masks, a ranking."""

import pytest

from models.tiny import quadrants
from serve.pages import done, problem, shown
from serve.served import photo, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), {"of quadrants": quadrants}) as (url, jobs):
        yield url, jobs


@pytest.fixture
def page(tab, server):
    tab.goto(server[0])
    tab.locator("#ask").wait_for()
    return tab


def result(page, server, before):
    """The result after this one."""
    page.wait_for_function("(id) => location.hash !== `#${id}`", arg=before)
    return server[1].history.load(shown(page))


def test_a_wrong_answer_is_repaired_by_keyboard(page, server):
    before = done(page)
    given = server[1].history.load(before).prediction
    wanted = next(label for label in quadrants().labels if label != given)
    field = page.get_by_label(f"Is “{given}” wrong? The model should say")
    field.focus()
    page.keyboard.type(wanted)
    page.keyboard.press("Enter")
    found = result(page, server, before)
    assert (found.kind, found.given, found.target.label) == ("repair", given, wanted)
    assert page.get_by_role("heading", level=1).inner_text() == f"{given} → {found.answer}"
    assert page.locator(".wm-kept").inner_text().startswith(f"“{wanted}” goes from ")
    page.locator("#past a").first.wait_for()
    change = "stays" if found.answer == given else f"becomes “{found.answer}”"
    assert f"“{given}” {change} with" in page.locator("#past a").first.inner_text()


def test_an_answer_that_is_right_already(page, server):
    before = done(page)
    given = server[1].history.load(before).prediction
    page.get_by_label(f"Is “{given}” wrong? The model should say").fill(given)
    page.get_by_role("button", name="Repair the answer").click()
    assert "there is nothing to repair" in problem(page)


def test_other_masks_are_browsed(page, server):
    before = done(page, k="3")
    page.get_by_role("button", name="Find other masks").click()
    found = result(page, server, before)
    assert len(found.alternatives) > 0
    masks = page.get_by_role("group", name="Masks").get_by_role("button")
    assert masks.count() == 1 + len(found.alternatives)
    masks.nth(1).click()
    assert masks.nth(1).get_attribute("aria-pressed") == "true"
    assert page.get_by_role("button", name="Find other masks").count() == 0


def test_the_regions_of_a_result_are_ranked_and_back(page, server):
    before = done(page, photo(seed=3))
    labels = server[1].history.load(before).image.partition.labels
    page.get_by_role("button", name="Rank all regions").click()
    found = result(page, server, before)
    assert found.kind == "ordering"
    assert (found.image.partition.labels == labels).all()
    ranked = page.url.partition("#")[2]
    page.get_by_role("button", name="Find the fewest regions").click()
    assert result(page, server, ranked).kind == "mask"


def test_each_question_once(page):
    """A button that has been pressed waits for its answer."""
    done(page)
    page.route("**/api/jobs?*", lambda route: None)
    button = page.get_by_role("button", name="Rank all regions")
    button.click()
    assert button.is_disabled()
    page.unroute_all(behavior="ignoreErrors")
