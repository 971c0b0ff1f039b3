"""The index page as it is displayed."""

import pytest

from whymask.views.index import Entry, index_page

from views.spoken import answers


@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_name_stays_in_its_card(tab, tmp_path, width):
    name = "photos/" + "n01484850_great_white_shark" * 4 + ".jpg"
    mask = answers(1)[0]
    entries = [Entry(name, mask, "a.png"), Entry(name, error="there is no file " + name), Entry("b.png", mask, "b.png")]
    path = tmp_path / "index.html"
    path.write_text(index_page(entries, "3 images"))
    tab.set_viewport_size({"width": width, "height": 860})
    tab.goto(path.as_uri())
    for card in tab.locator("figure").all():
        box = card.bounding_box()
        for part in card.locator("span, strong").all():
            inside = part.bounding_box()
            assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 1  # pixels are rounded
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
