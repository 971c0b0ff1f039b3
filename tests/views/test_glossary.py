"""Words that explain themselves, by mouse, keyboard and touch."""

import pytest

import whymask
from whymask.views.report import report

from models.tiny import lit, quadrants

AREA = "The share of what the model sees that the regions cover."


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    model = quadrants(share=0.5)
    ranking = whymask.explain(lit(0, 96), model, regions="grid:4x4", method="greedy")
    mask = whymask.explain(lit(0, 96), model, regions="grid:4x4", k=2, method="trace", null=["ne"])
    path = tmp_path_factory.mktemp("glossary") / "report.html"
    path.write_text(report([ranking.with_curves(whymask.replay(ranking, model)), mask], ["greedy", "trace"]))
    return path.as_uri()


@pytest.fixture
def tab(tab, page):
    tab.goto(page)
    tab.wait_for_selector("[data-ready='0']")
    return tab


def note(tab):
    """The note that is open."""
    found = tab.locator(".wm-meaning").filter(visible=True)
    return found.inner_text() if found.count() else None


def test_a_click_explains_a_word_and_another_click_ends_it(tab):
    tab.get_by_role("button", name="insertion").click()
    assert note(tab).startswith("insertion The score as regions are added to a blank image")
    tab.get_by_role("button", name="deletion").click()  # one at a time
    assert note(tab).startswith("deletion")
    tab.get_by_role("button", name="deletion").click()
    assert note(tab) is None


def test_the_keyboard_explains_a_word(tab):
    button = tab.get_by_role("button", name="whole image")
    button.focus()
    tab.keyboard.press("Enter")
    assert note(tab).startswith("whole image")
    tab.keyboard.press("Escape")
    assert note(tab) is None
    assert tab.evaluate("document.activeElement.textContent") == "whole image"


def test_a_finger_explains_a_word_on_a_phone(browser, page):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    phone = context.new_page()
    phone.goto(page)
    phone.wait_for_selector("[data-ready]")
    phone.get_by_role("button", name="dimmed").tap()
    box = phone.locator(".wm-meaning").filter(visible=True).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert box["y"] + box["height"] <= 740
    context.close()


def test_tables_explain_their_words(tab):
    tab.get_by_text("Every region").click()
    tab.get_by_role("columnheader", name="area").get_by_role("button").click()
    assert note(tab) == f"area {AREA}"
    tab.keyboard.press("Escape")
    tab.get_by_text("Numbers").click()
    tab.get_by_role("button", name="insertion_auc").click()
    assert note(tab).startswith("AUC")


def test_all_words_are_listed_once_and_none_is_without_a_meaning(tab):
    tab.get_by_text("Glossary").click()
    tab.locator(".wm-glossary dt").first.wait_for()
    words, meanings = (tab.locator(f".wm-glossary {name}").all_inner_texts() for name in ("dt", "dd"))
    assert len(words) == len(set(words)) == len(meanings)
    assert AREA in meanings
    asked = [button.inner_text() for button in tab.locator(".wm-curves .wm-term button").all()]
    assert {"insertion", "deletion", "AUC", "whole image"} <= {*asked}


def test_a_mask_of_one_size_shows_the_scores_it_is_judged_by(tab):
    tab.get_by_role("tab", name="trace").click()
    tab.wait_for_selector("[data-ready='1']")
    rows = tab.get_by_role("region", name="Scores").locator("li")
    names = [row.locator("span").first.inner_text() for row in rows.all()]
    assert names[:6] == [
        "whole image", "only these regions", "without them", "blank image", "flat colour", "shuffled pixels",
    ]  # fmt: skip
    assert names[-1] == "top right"
    tab.get_by_role("button", name="top right").click()
    assert note(tab).startswith("another answer")
