"""A source from outside of the package."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from whymask import WhymaskError
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run
from whymask.data.base import Source
from whymask.data.manifest import Sample, read_manifest
from whymask.data.sources import SOURCES
from whymask.utils.registry import Registry

from bench.toy import table


@dataclass(frozen=True)
class Scans(Source):
    """The images of a folder; those that a model scores above a level are bright."""

    name = "scans"
    makes = {"bright": "high", "all": "ins", "none": "ins"}  # noqa: RUF012
    optional = ("none",)

    folder: str
    level: float = 0.0
    endings: tuple[str, ...] = (".png",)
    kind: Literal["grey", "colour"] = "colour"

    def read(self, place):
        with (place.folder / "reads").open("a") as file:
            file.write("once\n")
        files = sorted(file for file in Path(self.folder).iterdir() if file.suffix in self.endings)
        return [Sample(file.stem, str(file)) for file in files]

    def splits(self, samples, model, place):
        assert place.resize == "squash"
        light = {}
        for sample in samples:
            bound = model.bind(sample.image)
            light[sample.id] = float(model.respond(bound.inputs[None], [bound]).score[0])
        bright = [replace(sample, id=f"bright {sample.id}") for sample in samples if light[sample.id] > self.level]
        return {"bright": bright, "all": samples}


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(SOURCES, "_things", dict(SOURCES._things))
    SOURCES.add(Scans)


@pytest.fixture
def given(place, registered):
    made = table(place, methods=["greedy"], seeds=[0], scans={"folder": str(place), "level": 0.5}, resize="squash")
    del made["splits"]
    made["models"].append({**made["models"][0], "name": "again"})
    return made


def test_its_table_makes_its_splits(place, given):
    made = config(given)
    assert made.sources == {"scans": Scans(str(place), 0.5)}
    assert [(split.name, split.emphasis) for split in made.splits] == [("bright", "high"), ("all", "ins")]
    summary = run(made, quiet=True)
    assert summary.failed == []
    found = {row.split: row.emphasis for row in Store(place / "run").rows.values()}
    assert found == {"bright": "high", "all": "insertion_auc"}
    listed = {name: read_manifest(place / "run" / "manifests" / f"toy-{name}.jsonl") for name in found}
    assert [sample.id for sample in listed["all"]] == list("0123456")
    assert 0 < len(listed["bright"]) < 7
    assert (place / "run" / "reads").read_text() == "once\n"  # for two models


def test_a_text_stands_for_what_it_requires(given):
    assert config({**given, "scans": "elsewhere"}).sources["scans"] == Scans("elsewhere")
    assert config({**given, "objects": {"folder": "x"}}).sources == config({**given, "objects": "x"}).sources


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scans": {}}, "[scans] needs 'folder'."),
        ({"scans": {"folder": "x", "leve": 1}}, "unknown key in [scans]: 'leve'; did you mean 'level'?"),
        ({"scans": {"folder": 3}}, "folder in [scans] must be text, not 3."),
        ({"scans": {"folder": "x", "level": "high"}}, "level must be a finite number, not 'high'."),
        ({"scans": {"folder": "x", "kind": "gray"}}, "unknown kind 'gray'; did you mean 'grey'?"),
        ({"scans": {"folder": "x", "endings": 3}}, "endings in [scans] must be a list of values, not 3."),
        ({"scans": {"folder": "x", "endings": [3]}}, "each of endings in [scans] must be text, not 3."),
        ({"scans": 3}, "[scans] must be a table, not 3."),
        ({"scns": "x"}, "unknown key in the configuration: 'scns'; did you mean 'scans'?"),
        ({"splits": {"bright": {"emphasis": "hig"}}}, "unknown emphasis 'hig'; did you mean 'high'?"),
    ],
)
def test_what_is_wrong_is_named(given, change, told):
    with pytest.raises(WhymaskError) as error:
        config({**given, **change})
    assert str(error.value) == told


def test_a_split_has_one_source(given, monkeypatch):
    monkeypatch.setattr(Scans, "makes", {"correct": "ins"})
    with pytest.raises(WhymaskError, match="two splits of sources are called 'correct'"):
        config({**given, "photos": "x"})


def test_a_split_that_needs_a_source(given):
    del given["scans"]
    with pytest.raises(WhymaskError, match="the split 'bright' needs 'scans' or a manifest"):
        config({**given, "splits": {"bright": {}}})


def test_a_split_that_its_source_forgets(given):
    with pytest.raises(WhymaskError, match="the split 'none' was not made by its source"):
        run(config({**given, "splits": {"none": {}}}), quiet=True)


def test_names_are_taken_once(registered):
    with pytest.raises(WhymaskError, match="there is already a data source called 'scans'"):
        SOURCES.add(type("Others", (Scans,), {}))


def test_a_package_offers_it_as_an_entry_point(monkeypatch):
    class Point:
        name, value = "scans", "elsewhere:Scans"

        def load(self):
            return Scans

    monkeypatch.setattr("whymask.utils.registry.entry_points", lambda group: [Point()] * (group == "whymask.sources"))
    fresh = Registry("data source", SOURCES.group)
    assert fresh["scans"] is Scans
