"""The report of a benchmark run: its tables, how the samples spread, and the best, median and worst of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor, ImageFilter

from whymask.arrays import Floats
from whymask.bench.evidence import evidence, samples_of
from whymask.bench.render import Grid, methods_grids, notes
from whymask.bench.table import COLUMNS, Line, table
from whymask.data.manifest import Sample
from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, load_image
from whymask.results.base import ExplainedImage
from whymask.results.figure import dimmed
from whymask.results.plotting import EVIDENCE
from whymask.views.document import thumbnail
from whymask.views.report import asset, page

SPREAD = {
    "insertion_auc": "area under the insertion curve",
    "deletion_auc": "area under the deletion curve",
    "high": "highest score on the way",
    "score": "what the mask keeps",
}
"""The numbers whose spread over the samples is drawn; all of them lie between 0 and 1."""
BINS = 25
OUTLINED = "Outlined: the mask, or the shortest prefix of an ordering that keeps 80% of the score of the whole image."


def bench_report(runs: Sequence[Path]) -> str:
    """One HTML page about the runs in these folders; it needs nothing else, no script either."""
    made = table(runs)
    names = ", ".join(run.resolve().name for run in runs)
    parts = [f'<h1 class="wb-title">{escape(names)}</h1>']
    for block in made.blocks:
        grids = methods_grids(block)
        parts.append(f"<section><h2>{escape(grids[0].title)}</h2>{_block(block, grids, runs)}</section>")
    parts.append(f'<footer class="wm-small">{"".join(f"<p>{escape(note)}</p>" for note in notes(made))}</footer>')
    body = f'<main class="wm">{"".join(parts)}</main>'
    return page(f"Benchmark: {names}", asset("viewer.css") + asset("bench.css"), body)


@dataclass(frozen=True)
class Spread:
    """How the values (samples,) of one row spread."""

    low: float
    median: float
    high: float
    shares: Floats  # (BINS,) of the samples, over 0 to 1

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Quartiles and a histogram."""
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        counts, _ = np.histogram(values.clip(0, 1), BINS, (0, 1))
        return cls(float(low), float(median), float(high), counts / len(values))


def _block(block: list[Line], grids: list[Grid], runs: Sequence[Path]) -> str:
    """Everything about one split of one model."""
    having = [line for line in block if line.samples]
    if not having:
        return "<p>There is no result yet.</p>"
    spreads = "".join(_spread(name, having) for name in SPREAD if any(name in line.values for line in having))
    known = samples_of(runs, *block[0].row.names[:2])
    cases = "".join(_cases(line, known, runs, first=line is having[0]) for line in having)
    kept = any("layout" in record for line in having for record in line.firsts.values())
    outlined = f'<p class="wm-small">{OUTLINED}</p>' if kept else ""
    more = "".join(f"<h3>{escape(grid.title)}</h3>{_table(grid)}" for grid in grids[1:])
    return (
        f"{_table(grids[0])}{more}<h3>How the samples spread</h3>"
        '<p class="wm-small">Bars: how many samples score that much. Line: the median. Band: the middle half.</p>'
        f'<div class="wb-spreads">{spreads}</div><h3>Best, median and worst</h3>{outlined}{cases}'
    )


def _table(grid: Grid) -> str:
    def cell(tag: str, text: str, strong: bool) -> str:
        mean, bracket, interval = text.partition(" [")
        shown = escape(mean) + (f" <small>[{escape(interval)}</small>" if bracket else "")
        return f"<{tag}>{f'<strong>{shown}</strong>' if strong else shown}</{tag.split()[0]}>"

    head = "".join(cell('th scope="col"', *one) for one in grid.header)
    rows = ["".join([cell('th scope="row"', *row[0]), *(cell("td", *one) for one in row[1:])]) for row in grid.body]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="wm-scroll wb-table" tabindex="0" role="region" aria-label="{escape(grid.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _spread(name: str, block: list[Line]) -> str:
    """A column's histograms, one below the other on common scales."""
    spreads = {line.row.method: Spread.of(line.values[name]) for line in block if name in line.values}
    tallest = max(float(one.shares.max()) for one in spreads.values())
    column = COLUMNS[name]
    better = "higher" if column.higher else "lower"
    rows = "".join(_histogram(method, one, tallest) for method, one in spreads.items())
    return (
        f'<figure class="wb-spread"><figcaption>{escape(column.name)} '
        f'<span class="wm-small">{SPREAD[name]}, {better} is better</span></figcaption>{rows}'
        '<div class="wb-axis" aria-hidden="true"><span>0</span><span>0.5</span><span>1</span></div></figure>'
    )


def _histogram(method: str, spread: Spread, tallest: float) -> str:
    having = f"{method}: median {spread.median:.2f}, half of the samples between {spread.low:.2f} and {spread.high:.2f}"
    width = 100 / BINS
    bars = "".join(
        f'<rect class="wb-bar" x="{i * width:g}" y="{20 - 18 * share / tallest:.2f}" '
        f'width="{width:g}" height="{18 * share / tallest:.2f}"/>'
        for i, share in enumerate(spread.shares)
        if share
    )
    half = max(100 * (spread.high - spread.low), 0.5)  # wide enough to be seen
    band = f'<rect class="wb-half" x="{100 * spread.low:.2f}" y="21" height="3" width="{half:.2f}"/>'
    x = f"{100 * spread.median:.2f}"
    middle = f'<line class="wb-median" x1="{x}" x2="{x}" y1="0" y2="24"/>'
    return (
        f'<div class="wb-row"><span class="wb-name">{escape(method)}</span>'
        f'<svg viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{escape(having)}">'
        f'{bars}{band}{middle}</svg><span class="wb-number" aria-hidden="true">{spread.median:.2f}</span></div>'
    )


def _cases(line: Line, known: Mapping[str, Sample], runs: Sequence[Path], *, first: bool) -> str:
    """Three of the samples that have the number that decides, ranked by it; equal ones by their curve or mask."""
    name = line.row.emphasis if line.row.emphasis in line.values else "score"
    if name not in line.values:
        return ""
    values = line.values[name]
    ties = next(line.values[other] for other in (*SPREAD, name) if other in line.values)
    having = np.flatnonzero(~np.isnan(values))
    ranked = having[np.lexsort((-ties[having], -values[having]))].tolist()
    chosen = {"best": ranked[0], "median": ranked[(len(ranked) - 1) // 2], "worst": ranked[-1]}
    cards = "".join(_case(which, line, at, name, known, runs) for which, at in chosen.items())
    title = f"{escape(line.row.method)} <small>by {escape(COLUMNS[name].name)}</small>"
    state = " open" if first else ""
    return f'<details class="wb-cases"{state}><summary>{title}</summary><div class="wb-cards">{cards}</div></details>'


def _case(which: str, line: Line, at: int, name: str, known: Mapping[str, Sample], runs: Sequence[Path]) -> str:
    sample = line.samples[at]
    found = known.get(sample)
    label = line.firsts[sample].get("label", "")
    asked = (found.plain or found.question or "") if found else ""
    about = [asked, f"\u201c{label}\u201d" if label else "", f"sample {sample}"]
    others = [
        f"{COLUMNS[other].name} {line.values[other][at]:.{COLUMNS[other].digits}f}"
        for other in (*SPREAD, "area", "mec")
        if other in line.cells and other != name
    ]
    lines = "".join(f"<span>{escape(text)}</span>" for text in [*about, ", ".join(others)] if text)
    return (
        f'<figure class="wb-case">{_picture(line, found, runs, label or sample)}<figcaption>'
        f"<span>{which}</span><strong>{line.values[name][at]:.3f}</strong>{lines}</figcaption></figure>"
    )


def _picture(line: Line, sample: Sample | None, runs: Sequence[Path], alt: str) -> str:
    """The photo, where it is still there, with the evidence in it where the run kept that."""
    if sample is not None and "layout" in line.firsts[sample.id]:
        with suppress(WhymaskError):  # what was kept of it may be lost or damaged
            found = evidence(runs, line, sample)
            shown = f"{alt}; the evidence: {len(found.regions)} of {found.image.partition.n} regions"
            return _image(_marked(found.image, found.regions), shown)
    if sample is not None:
        with suppress(WhymaskError):
            return _image(np.asarray(load_image(sample.image)), alt)
    return '<p class="wb-missing">Its image is not here.</p>'


def _image(photo: Canvas, alt: str) -> str:
    return f'<img src="{thumbnail(photo, 240)}" alt="{escape(alt)}">'


def _marked(image: ExplainedImage, regions: Sequence[int]) -> Canvas:
    """The photo with its evidence outlined, and dimmed elsewhere."""
    mask = image.pixels(regions)
    inside = Image.fromarray((image.on_photo(mask) > 0).astype(np.uint8))
    wide = 2 * (max(inside.size) // 120) + 1  # visible in the thumbnail too
    border = np.asarray(inside) > np.asarray(inside.filter(ImageFilter.MinFilter(wide)))
    shown = np.where(border[..., None], ImageColor.getrgb(EVIDENCE), dimmed(image, mask))
    return shown.clip(0, 255).astype(np.uint8)
