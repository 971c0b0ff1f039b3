import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.bench.ablations import ABLATIONS, ablated, overlaps
from whymask.bench.config import config
from whymask.bench.runner import run
from whymask.bench.table import table
from whymask.bench.tail import tail

from bench.made_up import ordering, row, write
from bench.toy import finish, photos, start, toml
from bench.toy import table as toy_table

BASE = {"models": ["m"], "methods": ["greedy"], "photos": {"source": "photos"}, "out": "runs/base"}


def test_the_papers_five_tables():
    assert {name: len(ablation.methods) for name, ablation in ABLATIONS.items()} == {
        "initialisers": 9, "budget": 7, "k": 6, "overlap": 6, "k-extension": 5
    }  # fmt: skip
    for ablation in ABLATIONS.values():
        names = [method.name for method in ablation.methods]
        assert len(set(names)) == len(names)
        assert ablation.against in (None, *names)


def test_an_ablation_is_a_configuration():
    made = ablated(config(BASE), "k")
    assert str(made.out) == "runs/base-k"
    assert [(split.name, split.draw, split.emphasis) for split in made.splits] == [("correct", 100, "ins")]
    assert (made.sources["photos"].correct, made.sources["photos"].wrong) == (2000, 0)
    assert [dict(method.recipe.params) for method in made.methods] == [{"k": k} for k in (4, 6, 8, 10, 12, 16)]
    larger = ablated(config(BASE), "k-extension")
    assert [(s.name, s.draw, s.emphasis) for s in larger.splits] == [
        ("correct", 500, "ins"), ("cause", 100, "ins"), ("repair", 100, "high")
    ]  # fmt: skip
    assert (larger.sources["photos"].correct, larger.sources["photos"].wrong) == (5000, 2000)


def test_manifests_are_taken_as_they_are():
    base = {"models": ["m"], "methods": ["greedy"], "splits": {"mine": {"manifest": "cases.jsonl"}}}
    made = ablated(config(base), "budget")
    assert made.splits == config(base).splits
    with pytest.raises(WhymaskError, match="unknown ablation 'budge'; did you mean 'budget'"):
        ablated(config(base), "budge")


@pytest.mark.parametrize("name", ABLATIONS)
def test_each_of_them_runs(tmp_path, name):
    photos(tmp_path, 2)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(400, 3))
    model = whymask.wrap(net, labels=list("abc"), size=12)
    base = config(toy_table(tmp_path, regions="grid:5x5", together=2))
    made = ablated(base, name)
    summary = run(made, load=lambda spec: model, quiet=True)
    assert (summary.done, summary.failed) == (2 * len(made.methods), [])
    lines = table([made.out], ABLATIONS[name].against).lines
    assert [line.row.method for line in lines] == [method.name for method in ABLATIONS[name].methods]
    masks = name == "overlap"
    assert all(("insertion_auc" in line.cells) != masks and ("score" in line.cells) == masks for line in lines)


def test_what_failed_is_told_where_there_is_no_table(place):
    code, out, err = finish(start("ablate", "overlap", toml(place / "b.toml", toy_table(place, regions="grid:1x1"))))
    assert (code, out) == (1, f"0 of 42 results are there, 42 failed in {place}/run-overlap.\n\n")
    assert "failed: 0, k4: k must be between 1 and the number of regions, 1, not 4" in err


def test_overlaps_of_known_masks(tmp_path):
    def masks(*regions):
        return {
            s: {"mask": list(r), "score": 1, "area": 1, "mec": 1, "seconds": 1.0}
            for s, r in zip("ab", regions, strict=True)
        }

    rows = [
        (row("k2", 0, returns="mask"), masks((1, 2), (3, 4))),
        (row("k3", 1, returns="mask"), masks((2, 1, 7), (8, 3, 4))),
        (row("k4", 2, returns="mask"), masks((7, 2, 1, 9), (5, 6, 7, 8))),
    ]
    other = row("k2", 3, split="other", returns="mask"), masks((1, 2), (3, 4))
    lines = overlaps([write(tmp_path / "run", [*rows, other])]).splitlines()
    assert lines[0] == "### net, correct"
    assert lines[4:7] == [
        "| top2_of_k3_vs_k2 | 0.7500 | 0.6667 | 2 |",  # all of a; 3 of (3, 4) in b, a third of their union
        "| top2_of_k4_vs_k2 | 0.2500 | 0.1667 | 2 |",
        "| top3_of_k4_vs_k3 | 0.5000 | 0.5000 | 2 |",
    ]
    assert lines[8] == "### net, other"


def test_a_tail_that_carries_the_gap(tmp_path):
    ahead = {s: ordering(0.8) for s in "abcd"}
    behind = {s: ordering(0.8 - gap) for s, gap in zip("abcd", (0.03, 0.3, -0.2, 0.07), strict=True)}
    run = write(tmp_path / "run", [(row("greedy"), ahead), (row("phasewin", 1), behind)])
    text = tail([run], shown=2)
    assert "greedy leads phasewin by 0.0500 in the mean and 0.0500 in the median of 4 samples" in text
    assert "25.0% of them (gap > 0.1) account for 75.0% of the positive gap" in text
    assert text.splitlines()[-2:] == ["| b | 0.8000 | 0.5000 | +0.3000 |", "| d | 0.8000 | 0.7300 | +0.0700 |"]
    with pytest.raises(WhymaskError, match="unknown row 'phasewi'"):
        tail([run], "phasewi")
