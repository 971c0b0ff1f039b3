"""The first screen in a real browser: finished examples and three questions, by mouse, keyboard and touch."""

import pytest

from whymask.explainer.settings import Settings
from whymask.results.base import Explanation
from whymask.serve.examples import EXAMPLES
from whymask.serve.offer import RANKING

from models.tiny import quadrants
from serve.pages import ask, choose, expert, problem, question, shown
from serve.served import Slow, photo, serving

NAMES = {"enough": "Enough", "not_enough": "Not enough"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = {"bright": Slow().model, "talker": Slow().model, "quadrants": quadrants}
    abilities = {"bright": (), "talker": ("question",), "quadrants": ("gradients", "class")}
    with serving(tmp_path_factory.mktemp("served"), models, abilities=abilities) as (url, jobs):
        yield url, jobs


@pytest.fixture
def page(tab, server):
    tab.goto(server[0])
    tab.locator("#gallery a").first.wait_for()
    return tab


@pytest.fixture
def phone(browser, server):
    """A page that is touched."""
    device = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    context = browser.new_context(**device)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(server[0])
    page.locator("#gallery a").first.wait_for()
    yield page
    context.close()


def sent(page, send):
    """The settings that are sent by an action."""
    with page.expect_request(lambda request: request.method == "POST") as request:
        send()
    query = request.value.url.partition("?")[2]
    return dict(pair.split("=") for pair in query.split("&"))


def explained(page):
    return sent(page, page.get_by_role("button", name="Explain", exact=True).click)


def test_the_first_screen_shows_finished_examples(page):
    cards = page.locator("#gallery li")
    assert cards.count() == len(EXAMPLES)
    for number, example in enumerate(EXAMPLES.values()):
        text = cards.nth(number).inner_text()
        assert example.about in text
        if example.verdict:
            name = "Repaired" if "repaired" in example.about else NAMES[example.verdict]
            assert name in text.split("\n")
        assert cards.nth(number).locator("img").evaluate("(img) => img.complete && img.naturalWidth > 100")
    box = page.locator("#drop").bounding_box()
    assert box["y"] < 860  # one's own image can be chosen on the same screen


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_shown_and_leads_to_the_form(page, name):
    page.locator(f"#gallery a[href='#{name}']").click()
    assert shown(page) == name
    assert page.get_by_text("This is a finished example.").is_visible()
    verdict = page.locator(".wm-verdict")
    if EXAMPLES[name].verdict:
        assert verdict.locator(".wm-sign").is_visible()
        assert page.locator(".wm-head h1 + .wm-judged + p").is_visible()  # first the verdict, then the details
    assert page.locator("#next").is_hidden()  # the server does not have its model
    page.locator(".wm-head").get_by_role("link", name="Try your own image").click()
    assert page.locator("#drop").is_visible()
    assert page.evaluate("document.activeElement.id") == "file"
    assert page.url.partition("#")[2] == ""
    page.go_back()
    assert shown(page) == name


def test_what_is_kept_is_said_in_a_number(page):
    page.locator("#gallery a[href='#example-tripod']").click()
    shown(page)
    assert page.locator(".wm-kept").inner_text() == "keeps 96% of the score"


def test_a_mask_that_scores_more_than_the_whole_image_keeps_no_share(page):
    """226% of a score would be no share."""
    page.locator("#gallery a[href='#example-missile']").click()
    shown(page)
    found = Explanation.load(EXAMPLES["example-missile"].path)
    assert found.score > 1.05 * found.full_score
    text = f"scores {found.score:.2f} alone, more than the whole image ({found.full_score:.2f})"
    assert page.locator(".wm-kept").inner_text() == text


def test_an_example_by_keyboard(page):
    page.locator("#gallery a").first.focus()
    page.keyboard.press("Enter")
    assert shown(page) == next(iter(EXAMPLES))
    page.locator(".wm-head").get_by_role("link", name="Try your own image").press("Enter")
    assert page.evaluate("document.activeElement.id") == "file"


def test_an_example_and_the_questions_by_touch(phone):
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    phone.locator("#gallery a").first.tap()
    assert shown(phone) == next(iter(EXAMPLES))
    phone.locator(".bar .again").tap()
    phone.locator("#ask").wait_for()
    choose(phone, photo())
    phone.get_by_text("Exactly k regions").tap()
    assert phone.locator("[name=k]").is_visible()
    phone.locator("[name=k]").fill("3")
    phone.get_by_text("Expert", exact=True).tap()
    phone.locator("[name=regions]").select_option("grid:4x4")
    heights = (
        phone.locator("#ask")
        .locator("label, button, summary")
        .evaluate_all("(all) => all.filter((one) => one.offsetParent).map((one) => one.getBoundingClientRect().height)")
    )
    assert min(heights) >= 24  # all of them can be hit by a finger
    phone.get_by_role("button", name="Explain", exact=True).tap()
    shown(phone)
    assert "3 of 16 regions" in phone.locator(".wm-head").inner_text()
    assert phone.evaluate("document.documentElement.scrollWidth") == 390


def test_three_questions_by_mouse(page):
    choose(page, photo())
    expert(page)
    page.locator("[name=regions]").select_option("grid:4x4")
    asked = explained(page)
    assert asked["keep"] == "0.9"
    assert not asked.keys() & {"k", "method", "alternatives", "target"}
    shown(page)
    page.get_by_role("link", name="New image").click()
    page.locator("[name=keep]").fill("60")
    assert page.locator("#share").inner_text() == "60%"
    assert explained(page)["keep"] == "0.6"
    shown(page)
    page.get_by_role("link", name="New image").click()
    question(page, "Exactly k regions")
    page.locator("[name=k]").fill("4")
    page.locator("[name=alternatives]").select_option("2")
    asked = explained(page)
    assert (asked["k"], asked["alternatives"]) == ("4", "2")
    assert not asked.keys() & {"keep", "method"}
    shown(page)
    page.get_by_role("link", name="New image").click()
    question(page, "Rank all regions")
    asked = explained(page)
    assert asked["method"] == RANKING.replace("+", "%2B")
    assert not asked.keys() & {"k", "keep", "alternatives"}
    shown(page)
    assert page.get_by_role("slider").is_visible()


def test_the_questions_by_keyboard(page):
    choose(page, photo())
    page.get_by_role("radio", name="Which few regions are enough?").focus()
    page.keyboard.press("Tab")
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert page.locator("[name=keep]").input_value() == "85"
    assert page.get_by_role("slider", name="They keep at least").get_attribute("aria-valuetext") == "85% of the score"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.get_by_role("checkbox", name="Only the answer has to stay the same").is_checked()
    assert page.locator("[name=keep]").is_disabled()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowDown")
    assert page.locator("[name=k]").is_visible()
    page.keyboard.press("ArrowDown")
    assert page.get_by_text("From the most to the least important").is_visible()


def test_the_answer_stays(page, server):
    page.locator("[name=model]").select_option("quadrants")
    page.get_by_role("checkbox", name="Only the answer has to stay the same").check()
    ask(page, photo())
    found = server[1].history.load(shown(page))
    assert found.provenance["keep"] == "answer"


def test_methods_are_grouped_and_explained_in_a_line_each(page):
    expert(page)
    names = set()
    for title in ("Which few regions are enough?", "Exactly k regions", "Rank all regions"):
        question(page, title)
        lines = page.locator("#methods label").all_inner_texts()
        assert len(lines) > 2
        for line in lines:
            name, about = line.split("\n")
            assert len(about) > 10
            Settings(method=name)
            names.add(name)
        headings = page.locator("#methods .group").all_inner_texts()
        assert headings[0] == "Default"
        assert len(headings) == len({*headings}) > 1
        assert page.locator("[name=method]:checked").count() == 1
    assert {"smallest", "trace", "copair", "discs+swap", "greedy", "trace+phasewin", "rise"} <= names


def test_a_question_is_required_where_the_model_needs_one(page):
    choose(page, photo())
    page.locator("[name=model]").select_option("talker")
    page.get_by_role("button", name="Explain", exact=True).click()
    assert page.locator("[name=question]").evaluate("(field) => field.validity.valueMissing")
    assert page.evaluate("document.activeElement.name") == "question"
    assert page.locator("#ask").is_visible()


def test_an_image_is_asked_for_first(page):
    page.get_by_role("button", name="Explain", exact=True).click()
    assert problem(page) == "Choose an image first."


def test_messages_of_the_server_keep_their_own_words(page):
    """No letter of a name is changed to begin a sentence."""
    ask(page, photo(), target="dog")
    text = problem(page)
    assert text == "The search failed: unknown target 'dog'; known: the score."
