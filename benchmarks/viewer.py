"""How large a report is, how soon it can be used, and how long a what-if takes, in a headless Chromium.

The time of a report is from the start of the navigation to the first frame after the viewer has drawn itself,
the median of five fresh tabs. Sizes and times have limits: 20% more than before reports had what-ifs.
A what-if is a region that is switched on the served page, from the press to the first frame with its score; its
forward is timed beside it, in the same process. It may take 100 ms more than that.
Run: python benchmarks/viewer.py (needs chromium and the packages of whymask[dev])
"""

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from playwright.sync_api import Browser, sync_playwright
from skimage.data import data_dir

import whymask
from whymask.explainer.restored import WhatIf
from whymask.models import Model
from whymask.serve.app import create_app
from whymask.serve.connections import Server
from whymask.serve.history import History
from whymask.views.report import report

BEFORE = {  # kB and ms of each report before there were what-ifs, on the machine of docs/performance.md
    "one ordering, 224 px": (267, 160),
    "one ordering, 512 px": (596, 270),
    "four orderings of one photo, 224 px": (286, 197),
}
MORE = 1.2  # how many times as much is allowed
BESIDE = 100  # ms of a what-if beside its forward
SWITCHES = 30
RESULT = "0" * 16

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

SWITCH = """(region) => new Promise((done) => {
  const photo = document.querySelector(".wm-photo canvas");
  const [x, y] = places[region];
  const box = photo.getBoundingClientRect();
  const shown = document.querySelector(".wm-status");
  const start = performance.now();
  photo.dispatchEvent(new PointerEvent("pointerdown", { clientX: box.x + x * box.width, clientY: box.y + y * box.height,
                                                        buttons: 1, bubbles: true }));
  const score = document.querySelector(".wm-score");
  const look = () => score.textContent === "\u2013" ? setTimeout(look, 1)
    : requestAnimationFrame(() => done(performance.now() - start));
  look();
})"""
SETTLED = """() => new Promise((done) => {
  const known = () => [...document.querySelectorAll(".wm-score")].every((score) => score.textContent !== "\u2013");
  const look = () => known() ? done() : setTimeout(look, 5);
  look();
})"""
PLACES = """async () => {  // a pixel of every region, as shares of the photo
  const [picture] = Object.values((await (await fetch("/api/results/" + location.hash.slice(1))).json()).pictures);
  const image = await whymask.ExplainedImage.load(picture);
  const [left, top, right, bottom] = image.box;
  window.places = [];
  image.labels.forEach((region, i) => (places[region] ??= [
    left + ((i % image.width + 0.5) / image.width) * (right - left),
    top + ((Math.floor(i / image.width) + 0.5) / image.height) * (bottom - top)]));
  HTMLCanvasElement.prototype.setPointerCapture = () => {};  // there is no real pointer
}"""


def explained(photo: str, model: Model, methods: list[str]) -> list[whymask.Ordering]:
    """Orderings of a photo, with their replays."""
    found = [whymask.explain(f"{data_dir}/{photo}", model, method=method) for method in methods]
    return [ranking.with_curves(whymask.replay(ranking, model)) for ranking in found]


@contextmanager
def served(folder: Path, name: str, model: Model) -> Iterator[str]:
    """The address of the served page, with one model."""
    running = Server(create_app({name: lambda: model}, folder, hosts={"127.0.0.1"}))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        running.should_exit = True
        thread.join()


def what_ifs(browser: Browser, url: str, found: whymask.EvidenceMask, model: Model) -> tuple[list[float], list[float]]:
    """Milliseconds of every switched region on the page, and of its forwards alone."""
    tab = browser.new_page()
    tab.goto(f"{url}/#{RESULT}")
    tab.wait_for_selector("[data-ready]")
    tab.get_by_role("button", name="What if").click()
    tab.evaluate(PLACES)
    direct = WhatIf(found, model)
    chosen = found.chosen.copy()
    times, forwards = [], []
    for region in np.random.default_rng(0).integers(0, found.n, SWITCHES + 2).tolist():
        times.append(tab.evaluate(SWITCH, region))
        tab.evaluate(SETTLED)  # the rest of the image is asked about too
        chosen[region] ^= True
        start = time.perf_counter()
        direct.ask(np.flatnonzero(chosen).tolist())
        forwards.append(1000 * (time.perf_counter() - start))
    tab.close()
    return times[2:], forwards[2:]  # the first ones load and plan


def within(value: float, limit: float) -> str:
    """Whether a limit is kept."""
    return "yes" if value <= limit else "no"


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
    print("| report | regions | kB | at most | interactive ms | at most | within limits | ms per slider step |")
    print("|---|---|---|---|---|---|---|---|")
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
            size, ready = page.stat().st_size / 1000, median(times)
            most, latest = (MORE * value for value in BEFORE[name])
            kept = within(max(size / most, ready / latest), 1)
            print(
                f"| {name} | {rankings[0].n} | {size:.0f} | {most:.0f} | {ready:.0f} | {latest:.0f} | {kept} "
                f"| {median(steps):.1f} |",
                flush=True,
            )
        print("\n| what-if | fills | forward ms | page ms | outside the forward, ms | at most | within limits |")
        print("|---|---|---|---|---|---|---|")
        for fill in ("black", "several"):
            found = whymask.explain(f"{data_dir}/coffee.png", lite, fill=fill)
            results = Path(folder) / fill
            History(results).save(RESULT, found)
            with served(results, lite.name, lite) as url:
                answered, forwards = what_ifs(browser, url, found, lite)
            beside = median(answered) - median(forwards)
            print(
                f"| {lite.name}, {found.n} regions | {len(found.image.fills)} | {median(forwards):.1f} "
                f"| {median(answered):.1f} | {beside:.1f} | {BESIDE} | {within(beside, BESIDE)} |",
                flush=True,
            )
        browser.close()
