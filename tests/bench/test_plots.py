"""Plots of records: the tail, and curves over k and the budget."""

import numpy as np
import pytest

from whymask.bench.plots import budget_plot, k_plot, tail_plot, varied
from whymask.bench.tail import Gap, tail

from bench.drawn import blocks, check_layout
from bench.made_up import ordering, row, write


def test_the_tail(plain):
    lines = {line.row.method: line for line in blocks(plain)[0]}
    gap = Gap.between(lines["phasewin"], lines["greedy"])
    assert (gap.share, gap.held) == (0.4, pytest.approx(0.75 / 0.77))
    ranked, shares = tail_plot(gap).axes
    assert [bar.get_height() for bar in ranked.patches] == pytest.approx([0.5, 0.25, 0.02, 0.0, -0.1])
    assert len({bar.get_facecolor() for bar in ranked.patches[:2]}) == 1
    assert ranked.patches[1].get_facecolor() != ranked.patches[2].get_facecolor()
    assert "mean 0.1340, median 0.0200" in ranked.get_title()
    assert shares.get_lines()[0].get_ydata() == pytest.approx([0, 0.5 / 0.77, 0.75 / 0.77, 1, 1, 1])
    assert shares.get_lines()[1].get_xydata()[0] == pytest.approx([0.4, 0.75 / 0.77])


def test_curves_over_k_and_over_the_budget(plain):
    block = blocks(plain)[0]
    assert [[line.row.method for line in lines] for lines in varied(block, "k")] == [["t4-32", "t8-32", "t16-32"]]
    insertion, forwards = k_plot(block).axes
    assert insertion.get_lines()[0].get_xydata().tolist() == [[4, 0.2], [8, 0.4], [16, 0.8]]
    assert forwards.get_lines()[0].get_ydata().tolist() == [4, 8, 16]
    assert (insertion.get_xlabel(), insertion.get_ylabel(), forwards.get_ylabel()) == ("k", "Ins", "MEC")
    sampled, _, masks = budget_plot(block).axes
    assert sampled.get_lines()[0].get_xdata().tolist() == [160, 320]
    assert masks.get_lines()[0].get_xydata().tolist() == [[20, pytest.approx(0.3)], [80, pytest.approx(0.7)]]
    assert budget_plot([line for line in block if line.row.method == "greedy"]) is None


def varied_rows(tmp_path, *several):
    """Rows of one split: (name, method, parameters, more settings, returns)."""
    rows = []
    for i, (name, method, parameters, more, returns) in enumerate(several):
        settings = {"method": method, "parameters": parameters, **more}
        k = parameters["k"]
        scores = {"score": k / 20, "mec": k, "seconds": 1.0, "area": 0.1}
        numbers = ordering(k / 20, mec=k) if returns == "ordering" else scores
        rows.append((row(name, i, settings=settings, returns=returns), dict.fromkeys("abc", numbers)))
    return blocks(write(tmp_path / "varied", rows))[0]


def test_no_group_of_rows_is_lost(tmp_path):
    several = [
        (f"k{k} M{m}", "trace", {"k": k, "samples": m}, {"budgets": [k]}, "mask") for m in range(1, 7) for k in (2, 4)
    ]
    several += [(f"g{k}", "trace+greedy", {"k": k, "samples": 1}, {}, "ordering") for k in (2, 4)]
    figure = k_plot(varied_rows(tmp_path, *several))
    check_layout(figure)
    masks, _, forwards = figure.axes
    assert [axes.get_ylabel() for axes in figure.axes] == ["Score", "Ins", "MEC"]
    assert [len(axes.containers) for axes in figure.axes] == [6, 1, 7]
    looks = {(bar[0].get_color(), bar[0].get_marker()) for bar in forwards.containers}
    assert len(looks) == 7
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [*(f"trace, samples = {m}" for m in range(1, 7)), "trace+greedy"]
    assert all(float(tick).is_integer() for tick in masks.get_xticks())


def test_the_titles_of_the_tail(tmp_path):
    def titles(*gains):
        gap = Gap("cost $5 of $x^", "greedy", tuple(map(str, range(len(gains)))), np.array([[x, 0.0] for x in gains]))
        figure = tail_plot(gap)
        check_layout(figure)
        assert all(float(tick).is_integer() for tick in figure.axes[0].get_xticks())
        return [axes.get_title().replace("\n", " ") for axes in figure.axes]

    _, second = titles(0.5, 0.25, -0.00001)
    assert second == "2 of 3 samples (gap > 0.1) hold 100% of the positive gap"
    assert titles(-0.00001, -0.00001) == [
        r"greedy \u2212 cost \$5 of \$x^: mean 0.0000, median 0.0000".replace(r"\u2212", "\u2212"),
        "no gap above 0.1",
    ]
    assert "mean \u22120.2000" in titles(-0.2)[0]
    assert titles(0.2, 0.05)[1] == "1 of 2 samples (gap > 0.1) holds 80% of the positive gap"


def test_a_method_that_leads(tmp_path):
    rows = [(row("greedy"), {"a": ordering(0.5)}), (row("phasewin", 1), {"a": ordering(0.7)})]
    assert "greedy trails phasewin by 0.2000 in the mean and 0.2000 in the median" in tail(
        [write(tmp_path / "x", rows)]
    )
