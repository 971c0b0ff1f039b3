"""The words of a text in a real browser: by mouse, by keyboard, by touch."""

from dataclasses import replace

import numpy as np
import pytest

from whymask.results.masks_figure import COLOURS
from whymask.results.words import Word
from whymask.views.report import report

from views.spoken import LIGHT, NUMBERS, TEXT, answers, spoken

PIXEL = "(c, [x, y]) => [...c.getContext('2d').getImageData(x * c.width, y * c.height, 1, 1).data]"
DIMMED = 0.45  # how much of the photo is left where there is no evidence
JPEG = 6  # how far a grey value of the photo may be off


@pytest.fixture(scope="module")
def found():
    return spoken()


@pytest.fixture
def opened(tab, tmp_path, found):
    """Opens a report, by default about the text, and waits until it can be used."""

    def open_report(*shown, page=tab):
        path = tmp_path / "report.html"
        path.write_text(report(shown or [found], "abc"[: len(shown) or 1]))
        page.goto(path.as_uri())
        page.wait_for_selector("[data-ready='0']")
        return page

    return open_report


def word(tab, name):
    return tab.get_by_role("button", name=name, exact=True)


def lit(tab):
    """The squares that are shown as they are; all others are dimmed."""
    photo = tab.locator(".wm-photo canvas")
    centres = [((i % 4 + 0.5) / 4, (i // 4 + 0.5) / 4) for i in range(16)]
    shown = np.array([photo.evaluate(PIXEL, centre)[0] for centre in centres])
    bright = np.abs(shown - LIGHT) <= JPEG
    assert (np.abs(shown - np.where(bright, 1, DIMMED) * LIGHT) <= JPEG).all()
    return set(np.flatnonzero(bright).tolist())


def outlined(tab, square):
    """The colour in the middle of the upper border of a square."""
    middle = ((square % 4 + 0.5) / 4, square // 4 / 4)
    return "#{:02X}{:02X}{:02X}".format(*tab.locator(".wm-photo canvas").evaluate(PIXEL, middle)[:3])


def told(tab):
    """The words that are told about."""
    return tab.locator(".wm-card h2 bdi").filter(visible=True).all_inner_texts()


def pinned(tab):
    return [one.inner_text() for one in tab.locator(".wm-word[aria-pressed=true]").all()]


ALL = set(range(16))


def test_the_mouse_shows_the_evidence_of_a_word_and_pins_it(opened, found):
    tab = opened()
    assert lit(tab) == ALL  # nothing is dimmed yet
    word(tab, "three").hover()
    assert (lit(tab), told(tab), pinned(tab)) == ({2}, ["three"], [])
    word(tab, "six").hover()
    assert (lit(tab), told(tab)) == ({5}, ["six"])
    scores = "whole image {full_score:.2f}, only its regions {score:.2f}, blank image {blank_score:.2f}"
    assert tab.locator(".wm-readout").inner_text() == f"six: {scores.format(**found['six'].as_dict())}"
    tab.mouse.move(1, 1)
    assert (lit(tab), told(tab)) == (ALL, [])
    word(tab, "seven").click()
    word(tab, "six").click()
    tab.mouse.move(1, 1)
    assert (lit(tab), told(tab), pinned(tab)) == ({5, 6}, ["six", "seven"], ["six", "seven"])
    assert (outlined(tab, 5), outlined(tab, 6)) == (COLOURS[5], COLOURS[6])
    word(tab, "eight").hover()  # beside the pinned ones
    assert (lit(tab), told(tab)) == ({7}, ["six", "seven", "eight"])
    assert [outlined(tab, square) for square in (5, 6, 7)] == [*COLOURS[5:8]]
    word(tab, "six").click()
    tab.mouse.move(1, 1)
    assert (lit(tab), pinned(tab)) == ({6}, ["seven"])


def test_the_keyboard_does_what_the_mouse_does(opened):
    tab = opened()
    word(tab, "nine").focus()
    tab.keyboard.press("Tab")  # past "a", a function word
    assert tab.evaluate("document.activeElement.textContent") == "tenth"
    tab.keyboard.press("Shift+Tab")
    assert (lit(tab), told(tab), pinned(tab)) == ({8}, ["nine"], [])
    tab.keyboard.press("Enter")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Space")
    assert pinned(tab) == ["eight", "nine"]
    tab.keyboard.press("Shift+Tab")
    assert (lit(tab), told(tab)) == ({6}, ["seven", "eight", "nine"])
    tab.keyboard.press("Escape")
    assert (lit(tab), told(tab), pinned(tab)) == (ALL, [], [])


@pytest.fixture
def phone(browser):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def test_a_finger_pins_and_unpins(opened, phone):
    tab = opened(page=phone)
    assert tab.locator(".wm-readout").inner_text().startswith("Tap a word")
    word(tab, "two").tap()
    assert (lit(tab), told(tab), pinned(tab)) == ({1}, ["two"], ["two"])
    word(tab, "five").tap()
    assert (lit(tab), pinned(tab)) == ({1, 4}, ["two", "five"])
    word(tab, "two").tap()
    assert (lit(tab), told(tab), pinned(tab)) == ({4}, ["five"], ["five"])
    word(tab, "five").tap()
    assert (lit(tab), told(tab), pinned(tab)) == (ALL, [], [])


def test_pinned_words_have_different_colours(opened):
    tab = opened()
    for name in NUMBERS[1:]:  # the ninth mask has the colour of the first
        word(tab, name).press("Enter")
    assert len({outlined(tab, square) for square in range(1, 9)}) == len(COLOURS)
    word(tab, "One").press("Enter")  # there is no colour left
    tab.keyboard.press("Escape")
    word(tab, "nine").click()
    assert outlined(tab, 8) == COLOURS[0]
    word(tab, "One").click()
    assert outlined(tab, 0) == COLOURS[1]


def test_the_text_reads_as_it_is(opened):
    tab = opened()
    assert tab.get_by_role("group", name="The text").text_content() == TEXT  # offsets of Python, not of JavaScript
    assert tab.locator(".wm-word").all_inner_texts() == [*NUMBERS, "tenth", "eleventh"]
    assert tab.locator(".wm-question").inner_text() == "Count."
    assert tab.title() == f"{TEXT}: which regions are enough?"


def test_a_bar_over_each_word_shows_its_scores(opened, found):
    tab = opened()
    for one in (found.words[4], found.words[10]):
        whole, only, blank = word(tab, one.text).locator("i").all()
        height = word(tab, one.text).locator(".wm-columns").evaluate("(bar) => bar.clientHeight")
        for column, score in ((whole, one.full_score), (blank, one.blank_score)):
            assert column.bounding_box()["height"] == pytest.approx(max(1, score * height), abs=0.5)
        assert only.is_visible() == (one.mask is not None)
    word(tab, "five").hover()
    card = tab.locator(".wm-card").filter(visible=True)
    mask = found["five"]
    numbers = [f"{score:.2f}" for score in (mask.full_score, mask.score, mask.blank_score)]
    assert card.locator("b").all_inner_texts() == numbers
    assert card.locator("p bdi").inner_text() == mask.verdict.sentence
    assert card.locator(".wm-sign").is_visible()
    assert "1 of 16 regions" in card.inner_text()


def test_words_that_the_image_does_not_support_stand_out(opened, found):
    tab = opened()
    style = "(b) => { const s = getComputedStyle(b.lastChild); return [s.color, s.textDecorationStyle]; }"
    supported, prior, unlikely = (word(tab, name).evaluate(style) for name in ("five", "tenth", "eleventh"))
    assert prior[0] == unlikely[0] != supported[0]
    assert (supported[1], prior[1], unlikely[1]) == ("solid", "wavy", "dotted")  # not by colour alone
    word(tab, "tenth").click()
    assert lit(tab) == set()
    card = tab.locator(".wm-card").filter(visible=True)
    assert card.locator("p").inner_text() == next(one.sentence for one in found.words if one.text == "tenth")
    assert card.locator("b").all_inner_texts() == ["0.50", "0.45"]
    assert "does not support" in tab.locator(".wm-legend").inner_text()
    word(tab, "five").click()
    assert outlined(tab, 4) == COLOURS[4]
    word(tab, "eleventh").hover()
    assert lit(tab) == {4}  # what is pinned stays in sight


def test_the_table_has_every_word(opened, found):
    tab = opened()
    tab.get_by_text("Every word").click()
    tab.locator("details[open] tbody tr").first.wait_for()
    rows = [row.locator("td").all_inner_texts() for row in tab.locator("details[open] tbody tr").all()]
    assert [row[0] for row in rows] == [one.text for one in found.words]
    assert rows[2][-1] == "2"
    assert rows[9][1:4] == ["function", "0.90", "\u2013"]


def test_answers_are_chosen_like_words(opened):
    found = answers(3, ["a <b>", "مرحبا", "c"])
    tab = opened(found)
    assert tab.get_by_role("heading", name="The evidence for each answer").is_visible()
    assert "The model says" in tab.locator(".wm-head").inner_text()
    assert tab.locator(".wm-word").all_inner_texts() == [mask.target.label for mask in found]
    word(tab, "مرحبا").click()
    assert (lit(tab), outlined(tab, 1)) == ({1}, COLOURS[1])


def test_a_tab_of_its_own_is_called_by_what_it_shows(opened):
    """The name of the only result, such as "joint", would say nothing beside "Side by side"."""
    names = [[*opened(one).get_by_role("tab").locator("bdi").all_inner_texts()] for one in (answers(3), spoken())]
    assert names == [["Answers", "Side by side"], ["Words", "Side by side"]]


def test_tabs_of_other_kinds(opened, found):
    tab = opened(found, found[0])
    tab.get_by_role("tab", name="a 9 masks").press("ArrowRight")
    tab.wait_for_selector("[data-ready='1']")
    assert tab.get_by_role("heading", name="One").is_visible()
    assert tab.locator(".wm-word").count() == 0
    tab.keyboard.press("Escape")  # the words are gone
    tab.get_by_role("tab").first.click()
    tab.wait_for_selector("[data-ready='0']")
    word(tab, "six").hover()
    assert lit(tab) == {5}


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_photo_stays_in_sight_of_a_long_text(opened, found, width):
    place = found.words[3]
    text = " ".join(["extraordinarily long"] * 60)
    starts = range(0, len(text), len("extraordinarily long "))
    words = [replace(place, text=text[at : at + 20], start=at, end=at + 20) for at in starts]
    tab = opened(replace(found, text=text, words=tuple(words)))
    tab.set_viewport_size({"width": width, "height": 740})
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    buttons = tab.locator(".wm-word")
    under = "(b) => { window.scrollBy(0, b.getBoundingClientRect().top - 100); b.focus({ preventScroll: true }); }"
    for reach in (
        lambda: buttons.last.focus(),
        lambda: buttons.nth(3).focus(),
        lambda: (buttons.nth(31).evaluate(under), tab.keyboard.press("Shift+Tab")),
    ):
        reach()
        photo, button = (tab.locator(name).bounding_box() for name in (".wm-photo", ":focus"))
        assert photo["y"] >= 0
        assert photo["y"] + photo["height"] <= 740
        beside = button["x"] >= photo["x"] + photo["width"]
        assert beside or button["y"] >= photo["y"] + photo["height"]  # not hidden by the photo


def test_a_text_of_which_nothing_is_supported(opened, found):
    words = (Word("Two", 0, 3, "prior", 0.5, 0.5), Word("of", 4, 6, "function", 0.9, 0.9))
    tab = opened(replace(found, each=(), text="Two of", words=words))
    word(tab, "Two").hover()
    assert (lit(tab), told(tab)) == (set(), ["Two"])
