"""The figures of docs/results, drawn from the records in this folder.

Draw all:  python results/figures.py
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from pages import PAGES_OF, unpack

from whymask.bench.plots import Panel, by_forwards, curves_plot
from whymask.bench.table import Line, table
from whymask.results.plotting import LINES, small_text

FOLDER = PAGES_OF / "images"
MASKS = ("discs+swap", "trace+swap", "trace", "trace, M = 90", "random-k, best of 900")
ORDERINGS = {  # by the stage that ranks
    "greedy": ("greedy", "trace+greedy", "copair+greedy", "discs+swap+greedy"),
    "lean": ("discs+swap+lean, 160", "discs+swap+lean"),
    "phasewin": ("phasewin", "trace+phasewin", "copair+phasewin"),
}


def block(run: Path, model: str, split: str = "correct") -> dict[str, Line]:
    """The rows of a model and split by their names."""
    made = table([run], None)
    (found,) = [lines for lines in made.blocks if lines[0].row.names[:2] == (model, split)]
    return {line.row.method: line for line in found}


def masks(runs: Path) -> Figure:
    """What a mask of 8 regions keeps of the score, by forwards."""
    panels = []
    for model in ("efficientnet-lite0", "ResNet-50"):
        rows = block(runs / "masks", model)
        lines = {name: points for name in MASKS if name in rows and (points := by_forwards(rows[name]))}
        panels.append(Panel("forwards", f"score of the mask, {model}", lines))
    return curves_plot(panels)


@small_text
def orderings(runs: Path) -> Figure:
    """Insertion AUC of an ordering by the forwards it took."""
    rows = block(runs / "orderings-beyond", "efficientnet-lite0")
    figure = Figure(figsize=(4.8, 2.8), layout="constrained")
    axes = figure.add_subplot()
    for (colour, _), marker, (ranked, names) in zip(LINES, "os^", ORDERINGS.items(), strict=False):
        points(axes, [rows[name] for name in names], names, {"color": colour, "marker": marker, "label": ranked})
    axes.set(xlabel="forwards", ylabel="insertion AUC", xlim=(900, 4900), ylim=(0.58, 0.77))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="ranked by", frameon=False, loc="lower right")
    return figure


def points(axes, lines: Sequence[Line], names: Sequence[str], style: Mapping[str, str]) -> None:
    """One point a row, with its name."""
    x = [line.cells["mec"].mean for line in lines]
    y = [line.cells["insertion_auc"].mean for line in lines]
    axes.plot(x, y, linestyle="", markersize=5, **style)
    for name, *place in zip(names, x, y, strict=True):
        side = -8 if name == "copair+phasewin" else 3  # its point and that of trace+phasewin lie side by side
        axes.annotate(name, place, xytext=(5, side), textcoords="offset points", fontsize=6.5)


FIGURES = {"masks": masks, "orderings": orderings}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder))
        for name, draw in FIGURES.items():
            draw(Path(folder)).savefig(FOLDER / f"{name}.png", dpi=160)
