import json
from functools import partial

import numpy as np
import pytest

import whymask
from whymask import EvidenceMask, Ordering, WhymaskError
from whymask.results.base import Explanation
from whymask.search.objective import Objective
from whymask.utils.files import atomic

from models.tiny import lit, quadrants

TOP_LEFT = {0, 1, 4, 5}


def explain(**options):
    options = {"regions": "grid:4x4", "k": 4, **options}
    return whymask.explain(options.pop("image", lit(0)), options.pop("model", quadrants()), **options)


def test_finds_the_quadrant_that_decides():
    evidence = explain(method="trace", params={"rounds": 10})
    assert isinstance(evidence, EvidenceMask)
    assert set(evidence.regions) == TOP_LEFT
    assert evidence.target.label == "top left"
    assert evidence.area == 0.25
    assert evidence.score > evidence.image.full_score > evidence.removed_score
    assert evidence.image.blank_score == pytest.approx(0.25)
    assert evidence.share == evidence.score / evidence.image.full_score
    np.testing.assert_array_equal(evidence.mask, np.add.outer(np.arange(32) >= 16, np.arange(32) >= 16) == 0)
    np.testing.assert_array_equal(evidence.heatmap(), evidence.mask.astype(float))
    assert evidence.ledger.nominal == 320
    assert evidence.ledger.stage("probe") == (9, 8)  # prediction, full, blank, removed, controls; the mask is known


def test_coco_rle():
    from whymask.interop.coco import from_coco_rle

    evidence = explain()
    np.testing.assert_array_equal(from_coco_rle(evidence.to_coco_rle()), evidence.mask)


def test_orders_the_quadrant_first():
    ranking = explain(method="greedy", k=None)
    assert isinstance(ranking, Ordering)
    assert set(ranking.top(4)) == TOP_LEFT
    assert ranking.ledger.nominal == 16 * 17
    heat = ranking.heatmap()
    assert heat.max() == 1
    assert heat.min() == 1 / 16
    assert heat[:16, :16].min() > heat[16:, 16:].max()
    assert ranking.areas[-1] == pytest.approx(1)
    for k in (0, 17):
        with pytest.raises(WhymaskError, match="k must be between"):
            ranking.top(k)


def test_replay():
    model = quadrants()
    ranking = explain(model=model, method="trace+greedy")
    curves = whymask.replay(ranking, model)
    assert curves.forwards == 32
    assert curves.insertion_auc > 0.5 > curves.deletion_auc
    assert curves.insertion_curve[-1] == pytest.approx(ranking.image.full_score)
    backwards = type(ranking)(**{**ranking.__dict__, "order": ranking.order[::-1]})
    assert whymask.replay(backwards, model).insertion_auc < curves.insertion_auc
    other = whymask.replay(ranking, model, fill="blur")
    assert other.insertion_curve[0] != curves.insertion_curve[0]
    with pytest.raises(WhymaskError, match="replay needs an ordering"):
        whymask.replay(explain(model=model), model)


@pytest.mark.parametrize("method", ["trace", "trace+order", "copair", "greedy", "trace+greedy", "trace-seed"])
def test_saved_is_loaded(tmp_path, method):
    k = None if method in ("copair", "greedy") else 4
    result = explain(method=method, k=k, image=lit(0, 50), model=quadrants(share=0.8))
    path = result.save(tmp_path / "some.folder" / "result")
    assert path == tmp_path / "some.folder" / "result.npz"
    loaded = Explanation.load(path)
    assert type(loaded) is type(result)
    assert json.dumps(loaded.as_dict()) == json.dumps(result.as_dict())
    assert str(loaded) == str(result)
    for name in ("photo", "canvas", "fill"):
        np.testing.assert_array_equal(getattr(loaded.image, name), getattr(result.image, name))
    np.testing.assert_array_equal(loaded.image.partition.labels, result.image.partition.labels)
    assert loaded.image.box == result.image.box
    np.testing.assert_array_equal(loaded.heatmap(), result.heatmap())
    assert [file.name for file in path.parent.iterdir()] == ["result.npz"]


def test_a_replay_is_saved_with_its_ordering(tmp_path):
    model = quadrants()
    ranking = explain(model=model, method="greedy", k=None)
    curves = whymask.replay(ranking, model)
    loaded = Explanation.load(ranking.with_curves(curves).save(tmp_path / "x"))
    assert loaded.curves.as_dict() == curves.as_dict()
    assert loaded.prefix == curves.prefix()
    assert Explanation.load(ranking.save(tmp_path / "y")).curves is None


def test_an_incomplete_result_stays_one(tmp_path):
    assert not Explanation.load(explain(budget=20).save(tmp_path / "x")).complete


def test_another_schema_is_refused(tmp_path):
    path = explain().save(tmp_path / "x")
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(str(arrays.pop("header"))) | {"schema": 4}
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(WhymaskError, match="schema 4"):
        Explanation.load(path)
    np.savez(path, header=np.array("{}"), **arrays)
    with pytest.raises(WhymaskError, match="is not a saved explanation"):
        Explanation.load(path)
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(WhymaskError, match="is not a saved explanation"):
        Explanation.load(tmp_path / "a.npy")


@pytest.mark.parametrize("change", [{"score": float("nan")}, {"score": "x"}, {"regions": "x"}, {"regions": [99]}])
def test_a_file_whose_parts_do_not_fit_together_is_refused(tmp_path, change):
    path = explain().save(tmp_path / "x")
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(str(arrays.pop("header"))) | change
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(WhymaskError, match="is not a saved explanation"):
        Explanation.load(path)


def test_the_initial_mask_of_an_ordering_is_whole():
    ranking = explain(method="trace+greedy", params={"early_stop": True})
    assert len(ranking.initial_mask) == 4
    assert ranking.order[: ranking.kept] == ranking.initial_mask[: ranking.kept]
    assert explain(method="greedy", k=None).initial_mask == ()


def test_what_is_no_result_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"nothing")
    np.savez(tmp_path / "b.npz", x=np.ones(3))
    for name in ("a.npz", "b.npz"):
        with pytest.raises(WhymaskError, match="is not a saved explanation"):
            Explanation.load(tmp_path / name)
    with pytest.raises(WhymaskError, match="no file"):
        Explanation.load(tmp_path / "c.npz")


def test_an_interrupted_write_leaves_no_file(tmp_path):
    def write():
        with atomic(tmp_path / "x.npz") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


def test_provenance_says_how_to_get_it_again():
    first = explain(seed=3, fill="blur", resize="squash", method="trace", params={"rounds": 2}, batch_size=5)
    how = first.provenance
    assert (how["method"], how["seed"], how["fill"], how["resize"]) == ("trace", 3, "blur", "squash")
    assert (how["batch_size"], how["device"], how["dtype"], how["regions"]) == (5, "cpu", "fp32", "grid:4x4")
    assert how["parameters"]["rounds"] == 2
    assert how["parameters"]["k"] == 4
    assert how["versions"]["whymask"] == whymask.__version__
    again = explain(
        seed=how["seed"], fill=how["fill"], resize=how["resize"], method=how["method"], params=how["parameters"]
    )
    assert again.regions == first.regions
    assert explain(budget=40).provenance["budget"] == 40
    odd = explain(method="greedy", k=None, params={"objective": Objective(0.3)})
    same = explain(method="greedy", k=None, params=json.loads(json.dumps(odd.provenance["parameters"])))
    assert same.order == odd.order


@pytest.mark.parametrize(
    ("method", "probes"),
    [
        ("greedy", (3, 1)),  # its first and its last step ask for the blank and the full image; the prediction is left
        ("occlusion", (3, 2)),  # the full image is known
        ("rise", (3, 3)),  # pixel masks are other images
    ],
)
def test_a_probe_that_the_search_has_asked_for_costs_nothing(method, probes):
    ledger = explain(method=method, k=None).ledger
    assert ledger.stage("probe") == probes


def test_a_probe_of_a_mask_whose_rest_is_known_costs_nothing():
    evidence = explain(method="trace", params={"init_objective": "suff_necc"})
    assert evidence.ledger.stage("probe") == (9, 7)  # prediction, full, blank, controls


def test_a_budget_stops_early_and_says_so():
    stopped = explain(budget=40)
    assert not stopped.complete
    assert stopped.ledger.mec <= 40
    assert "budget ended the search" in str(stopped)
    assert 0 <= explain(budget=0).score <= 1
    assert "The budget was too small for the search to begin." in str(explain(budget=0))
    assert "The budget was too small for the search to begin." in str(explain(method="phasewin", k=None, budget=9))
    assert explain(budget=9).ledger.mec == 9


def test_k_is_the_models_unless_given():
    assert len(explain(k=None, method="discs+swap", regions="grid:4x4").regions) == quadrants().default_k
    assert len(explain(k=None, method="discs+swap", params={"k": 2}).regions) == 2
    with pytest.raises(WhymaskError, match="has no mask size"):
        explain(method="greedy")
    with pytest.raises(WhymaskError, match="k must be between 1 and the number of regions, 16, not 17"):
        explain(k=17)
    with pytest.raises(WhymaskError, match="k must be between 1 and the number of regions, 4, not 8"):
        explain(k=None, method="discs+swap", regions="grid:2x2")


def test_by_default_as_few_regions_as_are_enough_on_several_fills():
    found = explain(k=None)
    assert (found.provenance["method"], found.provenance["fill"]) == ("smallest", "black,blur,noise")
    assert found.regions == explain(k="auto", fill="several").regions
    assert found.sufficient
    given = explain(k=1)
    assert (given.provenance["method"], given.provenance["fill"]) == ("discs+swap", "black,blur,noise")
    assert explain(k=1, fill="blur").provenance["fill"] == "blur"
    assert explain(k=1, alternatives=1).provenance["method"] == "discs+swap+others"
    assert explain(k=1, alternatives=1).provenance["fill"] == "black,blur,noise"
    for method in ("trace", "greedy", "discs+swap+lean"):  # the paper's fill
        assert (
            explain(k=None, method=method, params={} if method == "greedy" else {"k": 1}).provenance["fill"] == "black"
        )


@pytest.mark.parametrize("k", ["auto", "AUTO", "Auto"])
def test_auto_in_any_case(k):
    assert explain(k=k).provenance["method"] == "smallest"


def test_parameters_are_refused_before_a_model_is_loaded():
    for call in (whymask.explain, whymask.explain_many, partial(whymask.repair, want="x")):
        with pytest.raises(WhymaskError, match="gamma must lie in"):
            call(lit(0), "no such model", method="trace+greedy", params={"gamma": 2.0})


@pytest.mark.parametrize(
    "image",
    [np.full((1, 1, 3), 9, np.uint8), np.full((40, 40, 3), 77, np.uint8), np.zeros((3, 500, 3), np.uint8), np.eye(30)],
)
def test_odd_images_work(image):
    for regions in ("slico:64", "grid:4x4"):
        result = explain(image=image, regions=regions)
        assert len(result.regions) == 4
        assert 0 <= result.score <= 1


def test_evidence_of_a_given_label_map_and_another_target():
    labels = np.arange(64)[:, None] // 32 * 2 + np.arange(64) // 32
    found = explain(image=lit(0, 64), regions=labels, target="bottom right", k=1)
    assert found.n == 4
    assert found.regions == (3,)
    masks = np.stack([labels == value for value in (3, 0)])
    assert explain(image=lit(0, 64), regions=masks, target=3, k=1).regions == (0,)
    named = explain(image=lit(0, 64), regions=labels + 10, target="bottom right", k=1)
    assert named.names(named.regions) == [13]
    assert "regions (13)" in str(named)


def test_prints_what_matters():
    evidence = explain(method="trace", params={"rounds": 10})
    assert f"score {evidence.score:.2f} alone ({evidence.share:.0%} of the full score)" in str(evidence)
    assert f"the rest of the image scores {evidence.removed_score:.2f}" in str(evidence)
    asked = str(explain(target="se"))
    assert "The model says 'top left'; 'bottom right' scores" in asked
    assert str(evidence).startswith(evidence.verdict.sentence)
    for words in (
        "The model says 'top left', which scores",
        "4 of 16 regions (0, 1, 4, 5)",
        "25.0%",
        "forwards",
        "for reference scores; ",
    ):
        assert words in str(evidence)
    assert "most important first" in str(explain(method="greedy", k=None))


def test_public_names_are_lazy_and_complete():
    for name in whymask.__all__:
        assert getattr(whymask, name) is getattr(whymask, name)
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        _ = whymask.explian
