"""Makes the pictures of the README anew: python docs/images/make.py (needs whymask[dev] and chromium).

The photos are scikit-image's: camera.png (CC0, Lav Varshney) and coffee.png (CC0, Rachel Michetti).
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from skimage.data import data_dir

import whymask
from whymask.results.plotting import save_figure
from whymask.views.compare import compare_figure
from whymask.views.report import report

HERE = Path(__file__).parent
METHODS = ["phasewin", "copair+phasewin", "trace+phasewin", whymask.METHOD]
DESKTOP, PHONE = (1280, 860), (360, 1500)


def opened(browser: Browser, url: str, size: tuple[int, int], scheme: str = "light") -> Page:
    """A tab of that size and colour scheme; phones have two pixels to a dot."""
    width, height = size
    scale = 2 if width < 500 else 1
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=scale)  # type: ignore[arg-type]
    tab.goto(url)
    return tab


def shoot(tab: Page, name: str, *, all_of_it: bool = False) -> None:
    """Save what the tab shows."""
    tab.wait_for_timeout(400)
    tab.screenshot(path=HERE / f"{name}.png", full_page=all_of_it)
    tab.close()


def reports(browser: Browser, page: Path) -> None:
    """The report on a desktop, in the dark, and on a phone."""
    for name, size, scheme in (
        ("report", DESKTOP, "light"),
        ("report-dark", DESKTOP, "dark"),
        ("report-phone", PHONE, "light"),
    ):
        tab = opened(browser, page.as_uri(), size, scheme)
        tab.get_by_role("tab", name="copair+phasewin").click()
        tab.wait_for_selector("[data-ready='1']")
        if scheme == "dark":
            tab.get_by_role("button", name="mask").click()
            tab.get_by_role("button", name="heat").click()
        shoot(tab, name)


def sentence(browser: Browser, page: Path) -> None:
    """The words of a sentence, two of them pinned and one pointed at."""
    tab = opened(browser, page.as_uri(), (1280, 730))
    tab.wait_for_selector("[data-ready]")
    first, second, third = (tab.get_by_role("button", name=name, exact=True) for name in ("mushroom", "plate", "white"))
    first.click()
    second.click()
    third.hover()
    shoot(tab, "words-page")


def answer(browser: Browser, page: Path) -> None:
    """The words of the model's own sentence, the evidence of two of them and what to make of it."""
    tab = opened(browser, page.as_uri(), (1180, 640))
    tab.wait_for_selector("[data-ready]")
    for word in ("yellow", "white"):
        tab.get_by_role("button", name=word, exact=True).click()
    tab.mouse.move(1, 1)
    tab.locator(".wm-tabs").evaluate("(tabs) => tabs.remove()")  # there is nothing else to choose
    shoot(tab, "sentence")


def pages(browser: Browser, url: str) -> None:
    """The served page: a search under way, the form in the dark, a result on a phone."""
    tab = opened(browser, url, (1280, 540))
    tab.locator("#ask").wait_for()
    tab.set_input_files("#file", f"{data_dir}/coffee.png")
    tab.get_by_role("radio", name="Rank all regions").check()
    tab.get_by_role("button", name="Explain", exact=True).click()
    tab.locator("#numbers").filter(has_text=re.compile(r"^(9|1\d)\d\d of about")).wait_for(timeout=120_000)
    tab.wait_for_timeout(400)
    tab.screenshot(path=HERE / "page.png")
    tab.locator("#viewer[data-ready]").wait_for(timeout=120_000)
    result = tab.url
    tab.close()
    tab = opened(browser, result, (360, 1730))
    tab.locator("#viewer[data-ready]").wait_for()
    shoot(tab, "page-phone")
    tab = opened(browser, url, DESKTOP, "dark")
    tab.locator("#ask").wait_for()
    tab.set_input_files("#file", f"{data_dir}/coffee.png")
    shoot(tab, "page-dark")


def main() -> None:
    """Explain, draw, open, save."""
    model = whymask.load("efficientnet-lite0")
    found = [whymask.explain(f"{data_dir}/camera.png", model, method=method) for method in METHODS]
    found = [one.with_curves(whymask.replay(one, model)) if one.kind == "ordering" else one for one in found]
    found[-1].savefig(HERE / "demo.png")
    save_figure(compare_figure(found), HERE / "compare.png")
    kite = "Is there a kite in the image?"
    whymask.repair("scene:505", "tiny-qwen", question=kite, want="Yes").savefig(HERE / "repair.png")
    options = {"question": "Describe the image.", "fill": ["mean", "blur"]}
    words = whymask.explain_words("described:3", "tiny-caption", **options)
    words.savefig(HERE / "words.png")
    seen = whymask.explain_words("described:15", "tiny-caption", question="Describe the image.", k=8)
    # The plate is yellow, and there is no moon.
    text = "a red mushroom above a blue plate and two white moons"
    wrong = whymask.explain_words("described:0", "tiny-caption", text=text, **options)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = Path(folder) / "words.html"
        page.write_text(report([wrong], ["words"]))
        sentence(browser, page)
        page = Path(folder) / "sentence.html"
        page.write_text(report([seen], ["sentence"]))
        answer(browser, page)
        page = Path(folder) / "report.html"
        page.write_text(report(found, METHODS))
        reports(browser, page)
        command = [sys.executable, "-m", "whymask", "serve", "--port", "0", "--out", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                pages(browser, server.stdout.readline().split()[1])
            finally:
                server.terminate()
        browser.close()


if __name__ == "__main__":
    main()
