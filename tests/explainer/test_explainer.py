import inspect
from dataclasses import fields
from functools import partial

import numpy as np
import pytest

import whymask
from whymask import Explainer, Settings, WhymaskError
from whymask.explainer.explainer import SettingsDict
from whymask.search.driver import Progress

from models.talker import BRIGHT, Talker
from models.tiny import lit, quadrants

GRID = {"regions": "grid:4x4", "k": 3, "batch_size": 8}
FUNCTIONS = [whymask.explain, whymask.explain_many, whymask.repair, Explainer]


def comparable(result):
    return result.as_dict() | {"provenance": {**result.provenance, "seconds": None}}


def test_the_functions_are_an_explainer():
    explainer = Explainer(quadrants(), **GRID)
    alone = comparable(explainer.explain(lit(1)))
    assert alone == comparable(whymask.explain(lit(1), quadrants(), **GRID))
    ((_, many),) = explainer.many([lit(1)])
    assert comparable(many) == alone
    fixed = Explainer(Talker(), method="trace", regions="grid:2x2").repair(BRIGHT, want="No", question="?")
    same = whymask.repair(BRIGHT, Talker(), want="No", question="?", regions="grid:2x2")
    assert comparable(fixed) == comparable(same)


def test_settings_are_taken_over_and_changed():
    settings = Settings(method="trace", seed=3, **GRID)
    explainer = Explainer(quadrants(), settings, seed=4)
    assert (explainer.settings.method, explainer.settings.seed, settings.seed) == ("trace", 4, 3)
    with pytest.raises(AttributeError):
        settings.seed = 5
    assert [r.provenance["seed"] for r in explainer.search(explainer.case(lit(0)), [1, 2])] == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"method": "trase"}, "did you mean 'trace'"),
        ({"k": "ten"}, "a number of regions or 'auto'"),
        ({"method": "trace", "alternatives": 2}, r"a method ending in \+swap"),
        ({"regions": "grid:0x4"}, "regions is 'slico:64'"),
        ({"fill": "blck"}, "did you mean 'black'"),
        ({"fill": (0, 0, 300)}, "0 to 255"),
        ({"resize": "crop"}, "resize is 'own', 'squash'"),
        ({"seed": -1}, "a seed must be a whole number"),
        ({"budget": 1.5}, "a budget of forwards must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"params": {"trys": 3}}, "did you mean 'tries'"),
        ({"budgt": 3}, "unknown setting 'budgt'; did you mean 'budget'?"),
    ],
)
@pytest.mark.parametrize("call", [whymask.explain, whymask.explain_many, partial(whymask.repair, want="x")])
def test_settings_are_checked_before_a_model_is_loaded(call, wrong, words):
    with pytest.raises(WhymaskError, match=words):
        call(lit(0), "no such model", **({"method": whymask.METHOD} | wrong))


def test_other_arguments_are_suggested_too():
    with pytest.raises(WhymaskError, match="did you mean 'target'"):
        whymask.explain(lit(0), quadrants(), tagret=1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_help_lists_every_setting_with_its_default(function):
    shown = inspect.signature(function).parameters
    text = inspect.getdoc(function.__init__ if function is Explainer else function)
    for setting in fields(Settings):
        own = "trace" if (function, setting.name) == (whymask.repair, "method") else setting.default
        assert shown[setting.name].default == own
        assert f"\n    {setting.name}: " in text


def test_type_checkers_see_the_same_settings():
    assert SettingsDict.__annotations__.keys() == {setting.name for setting in fields(Settings)}


def test_the_model_is_loaded_on_first_use():
    explainer = Explainer("no such model")
    with pytest.raises(WhymaskError, match="unknown model"):
        explainer.many([])


@pytest.mark.parametrize("run", ["explain", "many", "repair"])
def test_progress_has_one_meaning(run, capsys):
    explainer = Explainer(quadrants(), **GRID)

    def call(progress):
        if run == "many":
            return list(explainer.many([lit(0), lit(1)], progress=progress))
        return getattr(explainer, run)(lit(0), progress=progress, **({"want": 3} if run == "repair" else {}))

    seen = []
    call(None)
    call(False)
    call(seen.append)
    assert capsys.readouterr().err == ""
    assert seen
    assert all(isinstance(progress, Progress) for progress in seen)
    call(True)
    assert ("image" if run == "many" else "forward") in capsys.readouterr().err


def test_progress_shows_the_best_so_far():
    seen = []
    mask = Explainer(quadrants(), **GRID).explain(lit(0), progress=seen.append)
    regions, score = seen[-1].standing()
    assert sorted(regions) == sorted(mask.regions)
    assert score == mask.score
    ordering = Explainer(quadrants(), method="greedy", regions="grid:4x4").explain(lit(0), progress=seen.append)
    assert seen[-1].standing() == (ordering.order, pytest.approx(ordering.image.full_score))


def test_a_repair_takes_every_setting():
    fixed = whymask.repair(
        BRIGHT, Talker(), want="No", question="?", method=whymask.METHOD, k=1, alternatives=1, regions="grid:2x2",
        budget=40, batch_size=2, resize="squash", params={"tries": 20},
    )  # fmt: skip
    assert fixed.repaired
    assert (fixed.provenance["budget"], fixed.provenance["batch_size"]) == (40, 2)
    assert len(fixed.alternatives) == 1


def test_replay_keeps_the_fill_of_the_ordering():
    model = quadrants()
    ordering = Explainer(model, method="greedy", regions="grid:4x4", fill="mean").explain(lit(0))
    again = Explainer(model).replay(ordering)
    np.testing.assert_allclose(again.insertion_curve[0], ordering.image.blank_score, atol=1e-6)
