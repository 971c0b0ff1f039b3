import pytest

import whymask
from whymask import Explainer, Settings, WhymaskError

from models.tiny import lit, quadrants


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Explainer(3), "wrap takes a pipeline, a torch module or a function, not int"),
        (lambda: Explainer(None), "a function, not NoneType"),
        (lambda: Explainer(quadrants(), {"method": "trace"}), "settings are an object of the class Settings"),
        (lambda: Settings(method=3), "a method is named, such as 'smallest', not 3"),
        (lambda: Settings(params=["k"]), "params maps names of parameters to values"),
        (lambda: Explainer(quadrants(), fil="blur"), "unknown setting 'fil'; did you mean 'fill'"),
        (lambda: Settings(method="trace", k="auto"), "k='auto' is the method 'smallest'"),
        (
            lambda: whymask.repair(lit(1), quadrants(), want=2, k="auto", method="trace"),
            "k='auto' is the method 'smallest'",
        ),
        (
            lambda: whymask.repair(lit(1), quadrants(), want=2, alternatives=1, method="trace"),
            "alternatives need a method ending in",
        ),
        (lambda: whymask.explain(lit(1), quadrants(), progress="bar"), "progress is True, False or a function"),
    ],
)
def test_wrong_inputs_are_one_line(make, says):
    with pytest.raises(WhymaskError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_one_explainer_for_many_images():
    explainer = Explainer(quadrants(), k=1, regions="grid:2x2")
    assert [explainer.explain(lit(place)).regions for place in range(4)] == [(0,), (1,), (2,), (3,)]
    results = dict(explainer.many([lit(place) for place in range(4)]))
    assert [results[place].regions for place in range(4)] == [(0,), (1,), (2,), (3,)]
    assert all(result.provenance["seconds"] >= 0 for result in results.values())


def test_settings_can_be_changed_one_by_one():
    start = Settings(k=2, regions="grid:4x4")
    assert Explainer(quadrants(), start, k=1).settings.k == 1
    assert Explainer(quadrants(), start).settings is not None
    assert start.k == 2
