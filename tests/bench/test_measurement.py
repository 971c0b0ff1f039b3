import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run
from whymask.explainer.case import Case

from bench.toy import table

SEARCHES = {
    "trace": {"k": 3, "rounds": 4, "samples": 10},
    "discs+swap": {"k": 3, "tries": 20},
    "random-k": {"k": 3, "draws": 40},
    "greedy-k": {"k": 3},
}


def measured(given, **options):
    """Records by method and sample."""
    assert not run(config(given), quiet=True, **options).failed
    store = Store(config(given).out)
    return {(store.rows[record["row"]].method, record["sample"]): record for record in store.records.values()}


def test_budgets_equal_runs_with_that_budget(place):
    """Also where a budget ends in the middle of a round, and where it is more than the search uses."""
    budgets = [1, 7, 25, 33, 100]
    methods = [{"method": name, "params": params, "budgets": budgets} for name, params in SEARCHES.items()]
    given = {"seeds": [0], "regions": "grid:4x4"}
    together = measured(table(place, **given, methods=methods))
    plain = [{"method": name, "params": params} for name, params in SEARCHES.items()]
    for budget in budgets:
        alone = measured(table(place, **given, methods=plain, budget=budget, out=str(place / f"run{budget}")))
        for key, record in alone.items():
            assert together[key][f"score@{budget}"] == record["score"], (key, budget)
    whole = measured(table(place, **given, methods=plain, out=str(place / "whole")))
    for key, record in whole.items():
        for name in ("score", "mask", "mec", "nominal"):
            assert together[key][name] == record[name]


def test_other_fills_equal_scoring_by_hand(place):
    methods = ["greedy", {"method": "trace", "params": SEARCHES["trace"]}]
    found = measured(table(place, methods=methods, seeds=[0], fills=["blur", "#80b0ff"]))
    model = whymask.load(f"{place}/toy.py:load")
    for (method, sample), record in found.items():
        for fill in ("blur", "#80b0ff"):
            case = Case.of(place / f"{sample}.png", model, regions="grid:3x3", fill=fill)
            if method == "greedy":
                curves = case.replay(record["order"])
                assert record[f"insertion_auc/{fill}"] == curves.insertion_auc
                assert record[f"deletion_auc/{fill}"] == curves.deletion_auc
                assert curves.insertion_auc != record["insertion_auc"]
            else:
                kept = np.isin(np.arange(9), record["mask"])[None]
                assert record[f"score/{fill}"] == case.ask(kept)[0][0, 0]
                assert record[f"score/{fill}"] != record["score"]


def test_a_blank_mask_scores_what_nothing_scores(place):
    found = measured(table(place, methods=["blank"], seeds=[0], fills=["mean"]))
    for record in found.values():
        assert (record["mask"], record["mec"], record["area"]) == ([], 0, 0)
        assert record["score"] == record["blank"]
        assert record["removed_score"] == record["full"]
        assert record["score/mean"] > record["score"]


def shade(images):
    share = images.mean(axis=(1, 2, 3)) / 255
    return np.stack([np.full(len(images), 0.45), share], axis=1) / (0.45 + share)[:, None]


def wrong(folder, **changes):
    """Photos that are said to be dark, and are called bright, with two regions brighter than the rest."""
    rng = np.random.default_rng(0)
    for i in range(4):
        pixels = rng.integers(110, 150, (12, 12, 3), dtype=np.uint8)
        pixels[:4, :8] = 250
        Image.fromarray(pixels).save(folder / f"{i}.png")
    (folder / "photos.txt").write_text("".join(f"{i}.png 0\n" for i in range(4)))
    return {
        "out": str(folder / "run"),
        "models": ["shade"],
        "photos": {"source": str(folder / "photos.txt"), "correct": 0, "wrong": 4},
        "splits": {"repair": {"emphasis": "repair"}},
        "regions": "grid:3x3",
        **changes,
    }


def test_evidence_for_the_given_answer_is_judged_by_the_wanted_one(tmp_path):
    model = whymask.wrap(shade, labels=["dark", "bright"])
    method = {"method": "discs+swap", "params": {"k": 2}}
    controls = [{"name": "given", "target": "given", "budgets": [5], **method}, "blank"]
    found = measured(wrong(tmp_path, methods=[method, *controls]), load=lambda spec: model)
    for sample in map(str, range(4)):
        alone = {"method": "discs+swap", "params": {"k": 2}, "regions": "grid:3x3", "fill": "black"}
        own = whymask.explain(tmp_path / f"{sample}.png", model, **alone)
        stopped = whymask.explain(tmp_path / f"{sample}.png", model, budget=5, **alone)
        record, ours = found["given", sample], found["discs+swap", sample]
        assert own.image.target.label == "bright"
        assert sorted(record["mask"]) == sorted(own.regions)
        assert record["mec"] == own.ledger.mec
        assert record["label"] == ours["label"] == "dark"
        # Two answers: what is evidence of one scores the rest for the other.
        assert record["score"] == pytest.approx(1 - own.score)
        assert record["score"] < ours["score"]
        assert record["score@5"] == pytest.approx(1 - stopped.score)
        assert ours["repaired"]
        blank = found["blank", sample]
        assert (blank["repaired"], blank["kept"], blank["given"]) == (True, 0, "bright")


def test_the_smallest_mask_records_whether_it_is_enough(place):
    methods = ["smallest", {"name": "small", "method": "smallest", "params": {"k_max": 2}}]
    found = measured(table(place, methods=methods, seeds=[0]))
    for (method, _), record in found.items():
        assert record["size"] == len(record["mask"])
        assert record["sufficient"] == (record["score"] >= 0.9 * record["full"] - 1e-6) == (method == "smallest")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"fills": ["blrr"]}, "unknown fill 'blrr'; did you mean 'blur'?"),
        ({"fills": "blur"}, "fills in the configuration must be a list of values."),
        (
            {"methods": [{"method": "greedy", "budgets": [5]}]},
            "'greedy' has budgets, but greedy does not return a mask.",
        ),
        ({"methods": [{"method": "trace", "budgets": []}]}, "budgets in an entry of methods must be a list of whole"),
        ({"methods": [{"method": "trace", "target": "gven"}]}, "unknown target 'gven'; did you mean 'given'?"),
    ],
)
def test_what_is_wrong_is_named(place, change, told):
    with pytest.raises(WhymaskError) as error:
        config(table(place, **change))
    assert str(error.value).startswith(told)
