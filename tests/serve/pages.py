"""What the tests of the served page do on it."""

import re

from serve.served import photo

SLOW = {"method": "greedy", "regions": "grid:8x8"}
GONE = "The server does not know this search any more: it was restarted, or the result was deleted."


def choose(page, image):
    """Choose an image file."""
    page.set_input_files("#file", {"name": "a photo.jpg", "mimeType": "image/jpeg", "buffer": image})


def question(page, name):
    """Pick one of the three questions."""
    page.get_by_role("radio", name=name, exact=True).check()


def expert(page):
    """Open the settings for experts."""
    if page.locator(".expert[open]").count() == 0:
        page.get_by_text("Expert", exact=True).click()


def ask(page, image, **wish):
    """Fill the form and send it. A method is one that ranks; with k there are exactly so many regions."""
    choose(page, image)
    if "method" in wish:
        question(page, "Rank all regions")
    elif "k" in wish:
        question(page, "Exactly k regions")
    expert(page)
    for name, value in {"regions": "grid:4x4", **wish}.items():
        if name == "method":
            page.locator(f"[name=method][value='{value}']").check()
        elif name in ("regions", "fill", "model", "alternatives"):
            page.locator(f"[name={name}]").select_option(value)
        else:
            page.locator(f"[name={name}]").fill(value)
    page.get_by_role("button", name="Explain", exact=True).click()


def shown(page):
    """Wait for a result; returns its id."""
    page.locator("#viewer[data-ready]").wait_for()
    return page.url.partition("#")[2]


def done(page, image=None, **wish):
    """Explain an image; returns the id of the result."""
    ask(page, image or photo(), **wish)
    return shown(page)


def under_way(page, expected):
    """Wait until the page shows how far the search is."""
    numbers = re.compile(rf"^\d+ of about {expected} forwards · so far \d+ regions score [01]\.\d\d$")
    page.locator("#numbers").filter(has_text=numbers).wait_for()


def forwards(page):
    """How many the page says the search has made."""
    text = page.locator("#numbers").inner_text()
    return int(re.match(r"\d+", text).group()) if text else 0


def problem(page):
    """What the page complains of."""
    page.locator("#problem").wait_for()
    return page.locator("#problem").inner_text()
