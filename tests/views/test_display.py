"""The report as it is displayed: on phones, in the dark, in high contrast, with long answers."""

from base64 import b64decode
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask.models.base import Target
from whymask.views.report import report

from models.tiny import lit, quadrants

STYLE = "(e, name) => getComputedStyle(e)[name]"


@pytest.fixture(scope="module")
def results():
    """An ordering with its replay, and a mask, of a photo of which the model sees the middle half."""
    model = quadrants(share=0.5)
    image = lit(0, 96)
    ranking = whymask.explain(image, model, regions="grid:4x4", method="greedy")
    mask = whymask.explain(image, model, regions="grid:4x4", k=4)
    return ranking.with_curves(whymask.replay(ranking, model)), mask


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a report in a context of its own."""
    contexts = []

    def open_report(*shown, **context):
        path = tmp_path / "report.html"
        path.write_text(report(shown, "abc"[: len(shown)]))
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **context}))
        tab = contexts[-1].new_page()
        tab.goto(path.as_uri())
        tab.wait_for_selector("[data-ready='0']")
        return tab

    yield open_report
    for context in contexts:
        context.close()


def phone(**more):
    return {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, **more}


def test_tabs_compare_the_same_quantity_of_every_kind(opened, results):
    ranking, mask = results
    tab = opened(ranking, mask)
    score = ranking.curves.insertion[ranking.prefix - 1]
    assert tab.get_by_role("tab").locator("small").all_inner_texts() == [
        f"{ranking.prefix} of 16 regions: {score:.2f}",
        f"4 of 16 regions: {mask.score:.2f}",
        "two of 2",
    ]


def test_high_contrast_keeps_its_states(opened, results):
    """Forced colours replace those of the page: a state that only they carry is lost."""
    tab = opened(*results, forced_colors="active")
    chosen, other, _ = tab.get_by_role("tab").all()
    assert chosen.evaluate(STYLE, "borderBottomColor") != other.evaluate(STYLE, "borderBottomColor")
    on, off = (tab.get_by_role("button", name=name) for name in ("mask", "heat"))
    assert on.evaluate(STYLE, "backgroundColor") != off.evaluate(STYLE, "backgroundColor")
    filled, bar = (tab.locator(name).first.evaluate(STYLE, "backgroundColor") for name in (".wm-bar-fill", ".wm-bar"))
    assert filled != bar


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_not_seen_does_not_look_dimmed(opened, results, scheme):
    """It is hatched: its brightness varies, that of a dimmed flat region does not."""
    tab = opened(results[1], color_scheme=scheme)
    source = tab.locator(".wm-photo canvas").evaluate("(c) => c.toDataURL()")
    alpha = np.array(Image.open(BytesIO(b64decode(source.partition(",")[2]))))[..., 3]
    height, width = alpha.shape
    unseen = alpha[: height // 8]
    dimmed = alpha[height * 5 // 8 : height * 11 // 16, width * 5 // 8 : width * 11 // 16]
    assert unseen.std() > 20
    assert dimmed.std() == 0
    keys = tab.locator(".wm-photo .wm-key").all_inner_texts()
    assert keys == ["dimmed", "not seen by the model"]


def test_an_image_that_is_seen_whole_needs_no_key_for_the_rest(opened):
    whole = whymask.explain(lit(0), quadrants(), regions="grid:2x2", k=1)
    assert opened(whole).locator(".wm-photo .wm-key").all_inner_texts() == ["dimmed"]


@pytest.mark.parametrize("screen", [phone(), {"viewport": {"width": 1280, "height": 600}}])
def test_the_player_covers_no_score(opened, results, screen):
    tab = opened(results[0], **screen)
    player, *scores = (part.bounding_box() for part in tab.locator(".wm-player, .wm-score").all())
    assert len(scores) == 2
    for score in scores:
        assert score["y"] >= player["y"] + player["height"] or score["y"] + score["height"] <= player["y"]


@pytest.mark.parametrize("screen", [phone(), {}])
def test_a_long_answer_leaves_the_photo_on_the_screen(opened, results, screen):
    answer = "a photograph of a small red lighthouse on a rocky island, seen from a boat in the late afternoon, " * 4
    mask = results[1]
    image = replace(mask.image, target=Target(0, answer), prediction=answer)
    tab = opened(replace(mask, image=image), **screen)
    photo = tab.locator(".wm-photo canvas").bounding_box()
    height = tab.viewport_size["height"]
    assert photo["y"] + photo["height"] / 2 < height
    folded = tab.locator("h1").bounding_box()["height"]
    tab.get_by_role("button", name="Show all of it").click()
    title = tab.locator("h1")
    assert title.bounding_box()["height"] > folded
    assert title.evaluate("(e) => e.scrollHeight - e.clientHeight") <= 1
    tab.get_by_role("button", name="Show less").press("Enter")
    assert title.bounding_box()["height"] == folded
