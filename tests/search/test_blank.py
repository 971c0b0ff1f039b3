import numpy as np
import pytest

import whymask
from whymask import EvidenceMask, WhymaskError
from whymask.methods import Recipe, run
from whymask.views.report import report

from models.tiny import quadrants


def test_it_keeps_nothing_and_asks_for_nothing():
    result = run("blank", lambda rows: pytest.fail("it asked"), n=9)
    assert not result.mask.any()
    assert (result.ledger.mec, result.complete, Recipe("blank").estimate(9)) == (0, True, 0)


@pytest.mark.parametrize("name", ["blank+swap", "blank+greedy", "blank+order", "trace+blank"])
def test_nothing_continues_it(name):
    with pytest.raises(WhymaskError, match=name.replace("+", r"\+")):
        Recipe(name)


def test_an_empty_mask_is_a_result_like_others(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    found = whymask.explain(image, quadrants(), method="blank")
    assert found.score == found.image.blank_score
    assert found.removed_score == found.image.full_score
    assert (found.regions, found.area, found.mask.any()) == ((), 0, False)
    assert f"0 of {found.n} regions, 0.0% of what the model sees" in str(found)
    assert report([found], ["blank"])
    found.savefig(tmp_path / "blank.png")
    found.save(tmp_path / "blank.npz")
    assert EvidenceMask.load(tmp_path / "blank.npz").as_dict() == found.as_dict()
