"""Published tables are what the published records say."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import whymask
from whymask.bench import worker
from whymask.bench.config import MethodSpec, ModelSpec, SplitSpec, config, read_config
from whymask.bench.runner import run

from bench.test_measurement import shade, wrong

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module", autouse=True)
def _scripts():
    sys.path.insert(0, str(RESULTS))
    yield
    sys.path.remove(str(RESULTS))
    for name in ("pages", "figures"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def pages():
    import pages

    return pages


@pytest.fixture(scope="module")
def packed(pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    pages.unpack(folder)
    return folder


def test_every_page_is_what_the_records_say(pages, packed):
    known = {str(file.relative_to(pages.PAGES_OF).with_suffix("")) for file in pages.PAGES_OF.rglob("*.md")}
    assert known == {"README", *pages.PAGES}
    for name, page in pages.PAGES.items():
        assert (pages.PAGES_OF / f"{name}.md").read_text() == pages.markdown(name, page, packed), name


def test_figures_show_what_the_records_say(packed):
    import figures

    assert {file.stem for file in figures.FOLDER.iterdir()} == figures.FIGURES.keys()
    kept, _ = figures.masks(packed).axes
    rows = figures.block(packed / "masks", "efficientnet-lite0")
    first = kept.containers[0].lines[0].get_xydata()  # the points of discs+swap
    assert [tuple(point) for point in first] == [
        (budget, rows["discs+swap"].cells[f"score@{budget}"].mean) for budget in (80, 160, 320, 450)
    ]
    (axes,) = figures.orderings(packed).axes
    assert {text.get_text() for text in axes.texts} == {name for names in figures.ORDERINGS.values() for name in names}


def test_pages_compare_rows_of_their_configurations(pages):
    for name, page in pages.PAGES.items():
        if page.ablation is None:
            files = [ROOT / "configs" / "small" / f"{folder}.toml" for folder in page.runs if "-cpu" not in folder]
            methods = [method for file in files for method in read_config(file).methods]
            columns = {f"score@{budget}" for method in methods for budget in method.budgets}
            rows = {*page.controls, *([page.against] if page.against else [])}
            for ours, theirs, *compared in page.pairs:
                rows |= {ours, theirs}
                assert {column for column in compared if "@" in column} <= columns, name
            assert rows <= {method.name for method in methods}, name


def test_packing_keeps_every_record(pages, packed, tmp_path):
    runs = [packed / name for name in ("scenes", "coco")]
    pages.pack(tmp_path / "one.tar.gz", runs)
    pages.pack(tmp_path / "two.tar.gz", runs[::-1])
    one, two = ((tmp_path / name).read_bytes() for name in ("one.tar.gz", "two.tar.gz"))
    assert one[20:] == two[20:]  # behind the header, which names the file
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match=r"there are no records in .*empty"):
        pages.pack(tmp_path / "three.tar.gz", [*runs, tmp_path / "empty"])
    assert not (tmp_path / "three.tar.gz").exists()


def test_published_rows_keep_their_hash(packed, monkeypatch):
    """What configurations have learned since is in no row that does not use it."""
    rows = {file.stem: json.loads(file.read_text()) for file in sorted(packed.glob("*/rows/*.json"))}
    complete = {name: stored for name, stored in rows.items() if "versions" in stored["settings"]}  # some are older
    assert len(complete) > 200
    for name, stored in list(complete.items())[::5]:
        settings = stored["settings"]
        monkeypatch.setattr(worker, "versions", lambda known=settings["versions"]: known)
        model = settings["model"]
        fake = type("Fake", (), {"settings": {}, "fingerprint": model["fingerprint"]})()
        options = {key: value for key, value in model.items() if key not in ("id", "fingerprint")}
        spec = ModelSpec(model["id"], stored["model"], options)
        given = {key: settings[key] for key in ("regions", "fill", "resize")}
        given |= {key: settings[key] for key in ("budget", "batch_size", "fills") if settings.get(key) is not None}
        made = config({"models": ["x"], "methods": ["greedy"], "splits": {"x": {"manifest": "x"}}, **given})
        split = SplitSpec(stored["split"], "ins")
        budgets = tuple(settings.get("budgets", ()))
        method = MethodSpec(settings["method"], stored["method"], settings["parameters"], budgets=budgets)
        made = replace(made, models=(spec,), splits=(split,), methods=(method,))
        one = worker.Worker(made, spec, lambda _, fake=fake: fake)
        assert one._row(split, method, method.recipe).hash == name


def test_new_settings_make_other_rows(tmp_path):
    """Where they are used."""
    model = whymask.wrap(shade, labels=["dark", "bright"])
    trace = {"method": "trace", "params": {"k": 2}}
    hashes = set()
    for changes in (
        {"methods": [trace]},
        {"methods": [trace], "fills": ["blur"]},
        {"methods": [{**trace, "budgets": [5]}]},
        {"methods": [{**trace, "target": "given"}]},
    ):
        made = config(wrong(tmp_path, **changes))
        one = worker.Worker(made, made.models[0], lambda _: model)
        hashes.add(one._row(made.splits[0], made.methods[0], made.methods[0].recipe).hash)
    assert len(hashes) == 4


def test_a_page_with_controls_pairs_and_fills(pages, tmp_path):
    model = whymask.wrap(shade, labels=["dark", "bright"])
    methods = [
        {"method": "trace", "params": {"k": 2}, "budgets": [20], "seeds": [0, 1]},
        {"name": "control: blank", "method": "blank"},
        {"name": "control: given", "method": "trace", "params": {"k": 2}, "target": "given"},
    ]
    run(config(wrong(tmp_path, methods=methods, fills=["blur"])), load=lambda spec: model, quiet=True)
    page = pages.Page(
        "A page", ("run",), "About it.", against="trace", controls=("control: blank", "control: given"),
        pairs=(("trace", "control: blank", "score@20", "score"), ("trace", "greedy", "score")),
    )  # fmt: skip
    text = pages.markdown("bench/page", page, tmp_path)
    assert text.startswith("# A page\n\nAbout it.\n\nCommand: `whymask bench run configs/small/run.toml`.")
    assert "- **shade, repair.** Repair Rate: blank" in text
    assert "| method | Score | Score of rest | Area | MEC | MEC without cache |\n" in text
    for columns in ("Area | **Repair Rate** |", "Score@20 | Score |\n", "Score | Score, blur |\n"):
        assert f"| method | {columns}" in text
    (pair,) = [line for line in text.splitlines() if line.startswith("| shade | repair |")]
    assert "| Score@20: trace - control: blank (Score) | " in pair
    assert "standard deviation over seeds" in text
