"""Two past results side by side on the served page."""

import pytest

import whymask

from models.tiny import lit, quadrants
from serve.served import Slow, serving

NAMES = ["00000000000000a1", "00000000000000a2", "00000000000000a3"]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    options = {"regions": "grid:4x4", "fill": "black", "k": 4}
    first = whymask.explain(lit(0, 96), quadrants(share=0.5), **options)
    second = whymask.explain(lit(0, 96), quadrants(share=0.5), target="se", **options)
    for name, result in zip(NAMES, (first, second, second), strict=True):
        result.save(folder / f"{name}.npz")
    with serving(folder, {"slow": Slow().model}) as (url, _):
        yield url


def test_a_second_result_is_chosen_and_shown_beside_the_first(tab, url):
    tab.goto(f"{url}/#{NAMES[0]}")
    tab.locator("#viewer[data-ready='0']").wait_for()
    choice = tab.get_by_label("Compare with another result")
    choice.locator("option:not(:disabled)").nth(1).wait_for(state="attached")
    assert choice.locator("option:not(:disabled)").count() == 2
    choice.select_option(NAMES[1])
    tab.locator("#viewer[data-ready='2']").wait_for()
    assert tab.locator(".wm-about h2").all_inner_texts() == ["top left", "bottom right"]
    for side in ("left", "right"):  # the names of the tabs are those of the choice
        names = tab.get_by_label(f"Shown on the {side}").locator("option").all_inner_texts()
        assert names == ["top left", "bottom right"]
    assert tab.title() == "top left, bottom right · whymask"
    tab.get_by_role("tab", name="bottom right").click()
    tab.locator("#viewer[data-ready='1']").wait_for()
    assert (
        tab.get_by_role("link", name="Save the result").get_attribute("href") == f"/api/results/{NAMES[1]}/result.npz"
    )
    tab.go_back()
    tab.locator("#viewer[data-ready='0']").wait_for()
    assert tab.get_by_role("tab").count() == 0


def test_an_address_names_two_results(tab, url):
    tab.goto(f"{url}/#{NAMES[1]},{NAMES[2]}")
    tab.locator("#viewer[data-ready='2']").wait_for()
    first, second, _ = tab.get_by_role("tab").locator("bdi").all_inner_texts()
    assert first != second  # they differ in nothing
    tab.on("dialog", lambda dialog: dialog.accept())
    tab.get_by_role("button", name="Delete the result bottom right").first.click()
    tab.locator("#ask").wait_for()  # one of the two is gone


def test_the_chosen_tab_is_in_sight_on_a_phone(tab, url):
    tab.set_viewport_size({"width": 260, "height": 700})
    tab.goto(f"{url}/#{NAMES[0]},{NAMES[1]}")
    tab.locator("#viewer[data-ready='2']").wait_for()
    box, tabs = tab.get_by_role("tab", name="Side by side").bounding_box(), tab.get_by_role("tablist").bounding_box()
    assert tab.get_by_role("tablist").evaluate("(tabs) => tabs.scrollWidth > tabs.clientWidth")  # not all of them fit
    assert tabs["x"] <= box["x"]
    assert box["x"] + box["width"] <= tabs["x"] + tabs["width"] + 1


@pytest.mark.parametrize("address", ["00000000000000ff,00000000000000a1", "00000000000000a1,..%2Foptions", ",,"])
def test_other_addresses_leave_the_form(tab, url, address):
    tab.goto(f"{url}/#{address}")
    tab.locator("#ask").wait_for()
