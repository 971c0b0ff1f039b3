from dataclasses import dataclass

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.data.base import Source
from whymask.data.sources import SOURCES
from whymask.methods import STAGES
from whymask.models.registry import FAMILIES, Family
from whymask.search.protocol import Ask, Selection, mask_of

from models.tiny import lit, quadrants


@pytest.fixture(autouse=True)
def _registries(monkeypatch):
    """What a test registers is gone after it."""
    for registry in (STAGES, FAMILIES, SOURCES):
        _ = [*registry]
        monkeypatch.setattr(registry, "_things", dict(registry))


def test_a_search():
    @whymask.register
    @whymask.stage("mask", "the k regions that score best alone", cost=lambda n, values: n)
    def singles(problem, *, k: int = 8):
        first = Selection(mask_of(range(k), problem.n))
        scores = yield Ask(np.eye(problem.n, dtype=bool), whymask.search.Objective(1.0), "init", first)
        return Selection(mask_of(np.argsort(-scores)[:k], problem.n))

    found = whymask.explain(lit(3), quadrants(), method="singles+swap", k=4, regions="grid:4x4")
    assert set(found.regions) == {10, 11, 14, 15}
    with pytest.raises(WhymaskError, match="already a search called 'trace'"):
        whymask.register(
            whymask.stage("mask", "another", cost=lambda n, values: 0, name="trace")(lambda problem: (yield))
        )


def test_a_model_family():
    family = Family("quarters", "four classes", lambda name: quadrants())
    assert whymask.register(family) is family
    assert whymask.explain(lit(1), "quarters", k=2, regions="grid:4x4").target.label == "top right"


def test_a_data_source():
    @whymask.register
    @dataclass(frozen=True)
    class Scans(Source):
        name = "scans"
        makes = {"scans": "ins"}  # noqa: RUF012 - part of the protocol
        folder: str

        def read(self, place):
            return []

    assert SOURCES["scans"] is Scans


@pytest.mark.parametrize("thing", [quadrants, "trace", Source.read, int])
def test_anything_else_is_an_error(thing):
    with pytest.raises(WhymaskError, match="register takes a stage, a Family or a Source"):
        whymask.register(thing)
