import json

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import Repair, WhymaskError
from whymask.explainer.case import Case, prefixes
from whymask.explainer.repairing import outcome, replies
from whymask.methods import Recipe
from whymask.metrics.repair import RepairOutcome
from whymask.models.base import Response
from whymask.results.base import Explanation
from whymask.views.report import report

from models.talker import BRIGHT, Talker
from models.tiny import lit, quadrants

MISLED = {"question": "Is there a dog?", "want": "No", "regions": "grid:2x2"}


def test_direct_keeps_the_mask_and_asks_again():
    fixed = whymask.repair(BRIGHT, Talker(), k=2, fill="black", **MISLED)
    assert isinstance(fixed, Repair)
    assert (fixed.given, fixed.answer, fixed.repaired) == ("Yes", "No", True)
    assert 3 not in fixed.regions  # what misled it
    assert fixed.given_score == pytest.approx(0.9 / 1.45)
    assert fixed.image.full_score == pytest.approx(0.55 / 1.45)
    assert fixed.score == pytest.approx(1)
    assert fixed.image.blank_score == pytest.approx(1)
    assert (fixed.removed, fixed.order) == (None, ())
    outcome = fixed.outcome("false_yes")
    assert (outcome.repaired, outcome.removed, outcome.mec) == (True, None, fixed.ledger.mec)


def test_ordered_takes_the_first_prefix_that_flips_and_measures_the_longest():
    fixed = whymask.repair(BRIGHT, Talker(), method="greedy", **MISLED)
    assert fixed.right == (True, True, True, False)
    assert fixed.order[3] == 3
    assert (len(fixed.regions), fixed.ordered, fixed.area) == (1, True, 0.25)
    assert fixed.removed == 0.25
    assert fixed.outcome().removed == 0.25


def test_a_repair_curve_costs_no_forward():
    model = Talker()
    case = Case.of(BRIGHT, model, target="No", question="?", regions="grid:2x2")
    (ordering,) = case.search(Recipe("greedy"))
    before = model.forwards
    fixed = whymask.explainer.repairing.repaired(case, ordering)
    assert model.forwards == before + 1 + 4  # the probability of the answer given, for the picture; the controls
    assert fixed.right == (True, True, True, False)
    assert model.generations == 0


def test_every_forward_of_a_repair_can_be_stopped():
    model = Talker()
    case = Case.of(BRIGHT, model, target="No", question="?", regions="grid:2x2")
    announced = []
    case.before_batch = announced.append
    whymask.explainer.repairing.repair(case, Recipe("greedy"))
    assert sum(announced) == model.forwards


def test_what_repairs_with_how_little_removed():
    """A mask repairs or not; of an ordering, the shortest and the longest prefix that repair are measured."""
    case = Case.of(BRIGHT, Talker("Nothing"), target="No", question="?", regions="grid:2x2")
    rows = prefixes([2, 0, 1, 3])
    assert [ok for _, ok in replies(case, rows)] == [False, True, True, False]
    for some, told in (
        (rows, RepairOutcome(True, removed=0.25, kept=0.5)),
        (prefixes([3, 2, 1, 0]), RepairOutcome(False, removed=1.0)),
        (rows[1:2], RepairOutcome(True, kept=0.5)),
        (rows[:1], RepairOutcome(False, kept=0.25)),
    ):
        assert outcome(replies(case, some), some @ case.partition.areas) == told


def test_generates_only_what_is_neither_yes_nor_no():
    model = Talker()
    case = Case.of(BRIGHT, model, target="No", question="?", regions="grid:2x2")
    rows = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
    assert replies(case, rows) == [("No, not really.", True), ("No", True), ("Yes", False), ("No", True)]
    assert model.generations == 1
    evasive = Case.of(BRIGHT, Talker("Nothing I would call one"), target="No", question="?", regions="grid:2x2")
    assert replies(evasive, rows[:1]) == [("Nothing I would call one", False)]


def test_what_cannot_be_repaired_says_so():
    flat = np.zeros((32, 32, 3), dtype=np.uint8)  # all classes tie, so the first wins everywhere
    failed = whymask.repair(flat, quadrants(), want="bottom right", method="greedy", regions="grid:2x2")
    assert not failed.repaired
    assert (failed.removed, failed.right) == (1.0, (False,) * 4)
    assert str(failed).startswith("Not repaired: shown only these regions, the model says 'top left'.")
    assert "0 of 4 prefixes" in str(failed)
    assert failed.verdict.code == "not_enough"


def test_a_classifier_is_repaired_by_its_class():
    image = np.maximum(lit(0), lit(3) - 20)
    fixed = whymask.repair(image, quadrants(), want="se", regions="grid:4x4", k=4, params={"tries": 40}, fill="black")
    assert (fixed.given, fixed.answer, fixed.repaired) == ("top left", "bottom right", True)


def test_refusals():
    with pytest.raises(WhymaskError, match="says 'Yes' of the whole image: there is nothing to repair"):
        whymask.repair(BRIGHT, Talker(), **{**MISLED, "want": "Yes"})
    with pytest.raises(WhymaskError, match="plain words"):
        whymask.repair(BRIGHT, Talker(), **{**MISLED, "want": "a [[dog]]"})
    silent = Talker()
    silent.respond = lambda inputs, bounds: Response(np.full(len(inputs), 0.5), None)
    with pytest.raises(WhymaskError, match="talker reports scores but not its answers"):
        whymask.repair(BRIGHT, silent, **MISLED)


@pytest.mark.parametrize("method", ["trace", "copair", "greedy", "trace+phasewin"])
def test_prints_saves_and_loads(tmp_path, method):
    fixed = whymask.repair(BRIGHT, Talker(), method=method, **MISLED)
    assert str(fixed).startswith(
        "Repaired, but a blank image repairs the answer too: 'No' scores 1.00 on it, 1.00 on these regions."
    )
    assert fixed.verdict.code == "blank_suffices"
    assert "Asked 'Is there a dog?', the model says 'Yes' (0.62). Shown only " in str(fixed)
    assert "it says 'No': 'No' scores 1.00, against 0.38 on the whole image and 1.00 on a blank one." in str(fixed)
    again = Explanation.load(fixed.save(tmp_path / "repair"))
    assert isinstance(again, Repair)
    assert again.as_dict() == fixed.as_dict() == json.loads(json.dumps(fixed.as_dict()))
    assert again.provenance["method"] == method
    np.testing.assert_array_equal(again.mask, fixed.mask)
    assert "Repaired, but a blank image repairs the answer too" in report(
        [again], ["repair"]
    )  # the viewer shows it as the mask it is


def test_before_and_after(tmp_path):
    fixed = whymask.repair(BRIGHT, Talker(), k=2, fill="black", **MISLED)
    figure = fixed.figure()
    before, after = figure.axes
    assert before.get_title() == 'whole image\nsays "Yes" (0.62)'
    assert after.get_title() == 'only 2 of 4 regions, 50% of the image\nsays "No" (1.00)'
    below = '"No" scores 0.38 on the whole image, 1.00 on these regions and 1.00 on a blank image'
    assert figure.get_supxlabel() == below
    shown = np.asarray(after.get_images()[0].get_array())
    np.testing.assert_array_equal(shown[..., 0] > 0, fixed.mask)
    with Image.open(fixed.savefig(tmp_path / "repair.png")) as drawn:
        assert (np.asarray(drawn.convert("RGB"))[:4] == 255).all()  # no title is cut off
