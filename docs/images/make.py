"""Makes the pictures of the README and of the pages anew: python docs/images/make.py (needs whymask[dev] and chromium).

The photo is scikit-image's camera.png (CC0, Lav Varshney).
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from skimage.data import data_dir

import whymask
from whymask.results import Explanation
from whymask.views.report import report

HERE = Path(__file__).parent


def opened(browser: Browser, found: Explanation, folder: Path, size: tuple[int, int]) -> Page:
    """The report about a result, in a window of this size."""
    page = folder / "report.html"
    page.write_text(report([found], ["result"]))
    width, height = size
    tab = browser.new_page(viewport={"width": width, "height": height})
    tab.goto(page.as_uri())
    tab.wait_for_selector("[data-ready]")
    return tab


def shoot(tab: Page, name: str) -> None:
    """Save what the tab shows."""
    tab.wait_for_timeout(400)
    tab.screenshot(path=HERE / f"{name}.png")
    tab.close()


def sentence(tab: Page) -> None:
    """The words of a sentence, two of them pinned and one pointed at."""
    first, second, third = (tab.get_by_role("button", name=name, exact=True) for name in ("mushroom", "plate", "white"))
    first.click()
    second.click()
    third.hover()
    shoot(tab, "words-page")


def answer(tab: Page) -> None:
    """The words of the model's own sentence, the evidence of two of them and what to make of it."""
    for word in ("tree", "above"):
        tab.get_by_role("button", name=word, exact=True).click()
    tab.mouse.move(1, 1)
    tab.locator(".wm-tabs").evaluate("(tabs) => tabs.remove()")  # there is nothing else to choose
    shoot(tab, "sentence")


def main() -> None:
    """Explain, draw, open, save."""
    whymask.explain(f"{data_dir}/camera.png").savefig(HERE / "demo.png")
    kite = "Is there a kite in the image?"
    whymask.repair("scene:505", "tiny-qwen", question=kite, want="Yes").savefig(HERE / "repair.png")
    options = {"question": "Describe the image.", "fill": ["mean", "blur"]}
    whymask.explain_words("described:3", "tiny-caption", **options).savefig(HERE / "words.png")
    seen = whymask.explain_words("described:19", "tiny-caption", regions="slico:36", k=2, **options)
    # The plate is yellow, and there is no moon.
    text = "a red mushroom above a blue plate and two white moons"
    wrong = whymask.explain_words("described:0", "tiny-caption", text=text, **options)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        sentence(opened(browser, wrong, Path(folder), (1280, 730)))
        answer(opened(browser, seen, Path(folder), (1180, 640)))
        ranking = Explanation.load(HERE.parent / "reports" / "ranking.npz")
        shoot(opened(browser, ranking, Path(folder), (1180, 900)), "report")
        browser.close()


if __name__ == "__main__":
    main()
