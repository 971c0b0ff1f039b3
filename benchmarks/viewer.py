"""How large a report is, and how soon it can be used, in a headless Chromium.

The time is from the start of the navigation to the first frame after the viewer has drawn itself,
the median of five fresh tabs.
Run: python benchmarks/viewer.py (needs chromium and the packages of whymask[dev])
"""

import shutil
import tempfile
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright
from skimage.data import data_dir

import whymask
from whymask.models import Model
from whymask.views.report import report

READY = """() => new Promise((done) => {
  const look = () => document.querySelector("[data-ready]") ? requestAnimationFrame(() => done(performance.now()))
    : requestAnimationFrame(look);
  look();
})"""
STEP = """() => {
  const slider = document.querySelector("input[type=range]");
  const start = performance.now();
  for (let t = 0; t <= slider.max; t++) { slider.value = t; slider.dispatchEvent(new Event("input")); }
  return (performance.now() - start) / (Number(slider.max) + 1);
}"""


def explained(photo: str, model: Model, methods: list[str]) -> list[whymask.Ordering]:
    """Orderings of a photo, with their replays."""
    found = [whymask.explain(f"{data_dir}/{photo}", model, method=method) for method in methods]
    return [ranking.with_curves(whymask.replay(ranking, model)) for ranking in found]


if __name__ == "__main__":
    lite = whymask.load("efficientnet-lite0")
    bright = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)  # sees photos at up to 512 pixels a side
    cases = {
        "one ordering, 224 px": explained("coffee.png", lite, ["trace-seed"]),
        "one ordering, 512 px": explained("coffee.png", bright, ["trace-seed"]),
        "four orderings of one photo, 224 px": explained(
            "coffee.png", lite, ["trace-seed", "copair+phasewin", "trace+phasewin", "phasewin"]
        ),
    }
    print("| report | regions | kB | interactive ms | ms a slider step |\n|---|---|---|---|---|")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, rankings in cases.items():
            page = Path(folder) / "report.html"
            page.write_text(report(rankings, [ranking.provenance["method"] for ranking in rankings]))
            times, steps = [], []
            for _ in range(5):
                tab = browser.new_page()
                tab.goto(page.as_uri(), wait_until="commit")
                times.append(tab.evaluate(READY))
                steps.append(tab.evaluate(STEP))
                tab.close()
            size = page.stat().st_size / 1000
            print(f"| {name} | {rankings[0].n} | {size:.0f} | {median(times):.0f} | {median(steps):.1f} |", flush=True)
        browser.close()
