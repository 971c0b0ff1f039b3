from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError, repair
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.render import as_markdown
from whymask.bench.runner import run
from whymask.bench.table import table
from whymask.data import scenes as scene_questions
from whymask.data.base import Place
from whymask.data.manifest import Sample, read_manifest, write_manifest
from whymask.data.pope import Question, write_questions
from whymask.data.questions import Questions, answer_all
from whymask.images import scenes
from whymask.metrics.repair import RepairOutcome, repairs

from bench.made_up import ordering, row, write
from models.talker import BRIGHT, Talker

LONG = 'Answer {strictly} with {"Yes"} or {0}.\nQuestion: {question}\nAnswer:'


@pytest.fixture
def base(tmp_path):
    """Two images that mislead the talker to yes and one that does not, each asked about once."""
    calm = BRIGHT.copy()
    calm[16:, 16:] = 0
    folder = tmp_path / "images"
    folder.mkdir()
    for name, image in {"one": BRIGHT, "two": BRIGHT - 40, "calm": calm}.items():
        Image.fromarray(image).save(folder / f"{name}.png")
    asked = [Question(i, f"{name}.png", "Is there a dog?", "no") for i, name in enumerate(("one", "calm", "two"))]
    asked.append(Question(3, "calm.png", "Is there a cat?", "yes"))
    return {
        "out": str(tmp_path / "run"),
        "models": ["talker"],
        "methods": [{"method": "greedy"}, {"method": "trace", "params": {"k": 2}}],
        "questions": {"file": str(write_questions(tmp_path / "q.json", asked)), "images": str(folder)},
        "regions": "grid:2x2",
    }


def listed(folder, split):
    return read_manifest(folder / "run" / "manifests" / f"talker-{split}.jsonl")


def test_case_lists_are_splits(base, tmp_path):
    summary = run(config(base), load=lambda spec: Talker(), quiet=True)
    assert (summary.done, summary.failed) == (14, [])
    pope, repope = (listed(tmp_path, name) for name in ("pope", "repope"))
    assert [(s.id, s.target) for s in pope] == [("0", "Yes"), ("1", "No"), ("2", "Yes"), ("3", "No")]
    assert [(s.id, s.target) for s in repope] == [("0", "No"), ("2", "No"), ("3", "Yes")]
    assert repope[0].question == "Is there a dog?"
    assert repope[0].image.endswith("images/one.png")


def test_records_tell_what_a_repair_does(base, tmp_path):
    run(config(base), load=lambda spec: Talker(), quiet=True)
    store = Store(tmp_path / "run")
    for record in store.records.values():
        told = store.rows[record["row"]]
        if told.split == "pope":
            assert "repaired" not in record
            continue
        (sample,) = [s for s in listed(tmp_path, "repope") if s.id == record["sample"]]
        options = {"method": told.method, "k": {"greedy": None, "trace": 2}[told.method], "regions": "grid:2x2"}
        alone = repair(sample.image, Talker(), want=sample.target, question=sample.question, **options)
        assert (record["repaired"], record["removed"], record["given"]) == (alone.repaired, alone.removed, alone.given)
        assert record["mistake"] == ("false_no" if sample.id == "3" else "false_yes")
        assert record["repaired"] == (sample.id != "3")


def test_answers_are_asked_for_once(base, tmp_path):
    place, model = Place(tmp_path), Talker()
    plain, long = (Questions(**base["questions"], prompt=prompt) for prompt in ("plain", LONG))
    samples = plain.read(place)
    first = plain.splits(samples, model, place)
    forwards = model.forwards
    assert plain.splits(samples, model, place) == first
    assert model.forwards == forwards
    long.splits(samples, model, place)
    assert model.forwards > forwards


@pytest.fixture
def folder(tmp_path):
    """A scene that misleads, one that does not, and one that leaves the talker undecided."""
    calm, odd = BRIGHT.copy(), BRIGHT.copy()
    calm[16:, 16:] = 0
    odd[:16], odd[:, 16:] = 0, 0
    for name, image in {"misleading": BRIGHT, "calm": calm, "odd": odd}.items():
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    return tmp_path


def asked(folder, want):
    names = ("misleading", "calm", "odd", "misleading")
    return [Sample(str(i), str(folder / f"{name}.png"), want, "Is there a dog?") for i, name in enumerate(names)]


def split(folder, want, model, prompt="plain"):
    return Questions(scenes=1, prompt=prompt).splits(asked(folder, want), model, Place(folder))


def test_splits_by_what_the_model_answers(folder):
    model = Talker("well...")
    model.batch_size = 3
    assert list(answer_all(model, asked(folder, "No"))) == ["Yes", "No", "well...", "Yes"]
    made = {name: [(s.id, s.target) for s in some] for name, some in split(folder, "No", model).items()}
    # POPE explains what was said, RePOPE what should have been; what is neither yes nor no is in no split.
    assert made == {
        "pope": [("0", "Yes"), ("1", "No"), ("3", "Yes")],
        "repope": [("0", "No"), ("3", "No")],
        "repope-cause": [("0", "Yes"), ("3", "Yes")],
        "seen": [],  # nobody wants it
    }


def test_false_no(folder):
    made = split(folder, "Yes", Talker())
    assert [(s.id, s.target) for s in made["repope"]] == [("1", "Yes"), ("2", "Yes")]
    assert [(s.id, s.target) for s in made["repope-cause"]] == [("1", "No"), ("2", "No")]


def test_one_image_too_many(folder):
    class Full(Talker):
        def bind(self, *args, **options):
            raise MemoryError

    with pytest.raises(WhymaskError, match="one image does not fit into memory"):
        split(folder, "No", Full())


def test_the_prompt_is_any_text_with_a_slot(folder):
    class Hears(Talker):
        def bind(self, image, *, question=None, **options):
            self.heard = question
            return super().bind(image, question=question, **options)

    model = Hears()
    one = split(folder, "No", model, LONG)["pope"][0]
    assert one.question == model.heard
    assert one.plain == "Is there a dog?"
    (kept,) = read_manifest(write_manifest(folder / "one.jsonl", [one]))
    assert kept.plain == one.plain
    unasked = split(folder, "No", Talker())["pope"]
    assert "plain" not in write_manifest(folder / "all.jsonl", unasked).read_text()
    assert one.question == 'Answer {strictly} with {"Yes"} or {0}.\nQuestion: Is there a dog?\nAnswer:'
    for text in ("vqa", "Question: {}", ""):
        with pytest.raises(WhymaskError, match=r"must be 'plain' or a text with \{question\}, not "):
            Questions(scenes=1, prompt=text)


def test_wrong_answers_are_those_of_the_corrected_labels(base, tmp_path):
    """POPE's own file holds all four questions, the corrected one three of them, one with another label."""
    relabelled = [Question(i, f"{name}.png", "Is there a dog?", label) for i, name, label in
                  [(0, "one", "no"), (1, "calm", "yes"), (2, "two", "yes")]]  # fmt: skip
    questions = {**base["questions"], "corrected": str(write_questions(tmp_path / "r.json", relabelled))}
    splits = {"pope": {"draw": 3}, "repope": {}, "repope-cause": {"draw": 1}}
    model = Talker()
    given = {**base, "questions": questions, "splits": splits, "methods": ["blank"]}
    summary = run(config(given), load=lambda spec: model, quiet=True)
    assert (summary.done, summary.failed) == (6, [])
    place = Place(tmp_path / "other")
    samples = config(given).sources["questions"].read(place)
    assert len({sample.id for sample in samples}) == len(samples) == 7
    pope, repope, cause = (listed(tmp_path, name) for name in splits)
    own = config(given).sources["questions"].splits(samples, model, place)
    assert [(s.id, s.target) for s in own["pope"]] == [("0", "Yes"), ("1", "No"), ("2", "Yes"), ("3", "No")]
    assert len(pope) == 3
    assert {s.id for s in pope} <= {s.id for s in own["pope"]}
    assert [(s.id, s.target) for s in repope] == [("repope-0", "No"), ("repope-1", "Yes")]
    assert len(cause) == 1
    assert {s.id for s in cause} <= {s.id for s in repope}
    with pytest.raises(WhymaskError, match=r"corrected in \[questions\] needs the file"):
        Questions(scenes=1, corrected="r.json")


def test_what_two_files_ask_is_asked_once(base, tmp_path):
    class Counts(Talker):
        bound = 0

        def bind(self, *args, **options):
            self.bound += 1
            return super().bind(*args, **options)

    model, place = Counts(), Place(tmp_path)
    source = Questions(**base["questions"], corrected=base["questions"]["file"])
    source.splits(source.read(place), model, place)
    assert model.bound == 4


def test_missing_images_are_named(base, tmp_path):
    with pytest.raises(WhymaskError, match="there is no image folder"):
        Questions(base["questions"]["file"], images=str(tmp_path / "photos")).read(Place(tmp_path))


def test_scenes_need_no_files(tmp_path):
    samples = Questions(scenes=2).read(Place(tmp_path))
    images = list(dict.fromkeys(sample.image for sample in samples))
    numbers = [int(image.removeprefix("scene:")) for image in images]
    assert (len(samples), numbers) == (12, scene_questions.tested(2))
    there = scenes.named(images[0]).objects
    assert all((sample.target == "Yes") == (sample.question.split()[3] in there) for sample in samples[:6])
    assert not list(tmp_path.iterdir())


def test_right_yeses_about_scenes_come_with_their_object(tmp_path):
    class Sure(Talker):
        def respond(self, inputs, bounds):
            response = super().respond(inputs, bounds)
            return replace(response, top=np.zeros(len(inputs), dtype=int))  # always "Yes"

    given = {
        "out": str(tmp_path / "run"),
        "models": ["talker"],
        "methods": [{"method": "random-k", "params": {"k": 2}}],
        "questions": {"scenes": 2, "prompt": "plain"},
        "splits": {"seen": {}},
        "regions": "grid:2x2",
    }
    assert config(given).splits[0].emphasis == "ins"
    summary = run(config(given), load=lambda spec: Sure(), quiet=True)
    assert (summary.done, summary.failed) == (6, [])
    for sample in listed(tmp_path, "seen"):
        mask = scenes.named(sample.image).mask(sample.question.split()[3])
        assert sample.target == "Yes"
        np.testing.assert_array_equal(np.asarray(Image.open(sample.mask)) > 0, mask)
    for record in Store(tmp_path / "run").records.values():
        assert record["object"] > 0
        assert 0 <= record["on_object"] <= 1


def test_only_scenes_have_masks(base):
    with pytest.raises(WhymaskError, match="the split 'seen' needs questions about scenes"):
        run(config({**base, "splits": {"seen": {}}}), load=lambda spec: Talker(), quiet=True)


def test_more_splits_are_made_where_they_are_named(base):
    assert [split.name for split in config(base).splits] == ["pope", "repope"]
    (split,) = config({**base, "splits": {"repope-cause": {}}}).splits
    assert split.emphasis == "ins"  # what is explained is the model's own answer


def test_a_classifier_that_is_wrong_is_repaired_too(base, tmp_path):
    def corner(images):  # which of two corners is brighter
        left, right = images[:, 0, 0].mean(axis=1) / 255, images[:, -1, -1].mean(axis=1) / 255 + 0.1
        return np.stack([left, right], axis=1) / (left + right)[:, None]

    photos = tmp_path / "list.txt"
    photos.write_text("images/one.png 0\nimages/calm.png 0\n")
    given = {**base, "photos": {"source": str(photos)}, "methods": ["greedy"]}
    del given["questions"]
    run(config(given), load=lambda spec: whymask.wrap(corner, labels=["left", "right"]), quiet=True)
    lines = {line.row.split: line for line in table([tmp_path / "run"]).lines}
    assert {name: len(line.samples) for name, line in lines.items()} == {"correct": 1, "cause": 1, "repair": 1}
    assert {name for name, line in lines.items() if "repaired" in line.cells} == {"repair"}
    assert lines["repair"].cells["repaired"].mean == 1
    assert "false_yes" not in lines["repair"].cells


def test_repair_columns_are_those_of_the_metrics(tmp_path):
    outcomes = [
        RepairOutcome(True, 0.05, 100, "false_yes"),
        RepairOutcome(True, 0.3, 200, "false_no"),
        RepairOutcome(False, 1.0, 300, "false_no"),
        RepairOutcome(True, 0.1, 200, "false_no"),
    ]
    told = [{"repaired": o.repaired, "removed": o.removed, "mistake": o.mistake, "mec": o.mec} for o in outcomes]
    curves = {str(i): ordering(0.5, **one) for i, one in enumerate(told)}
    mask = {"score": 0.5, "area": 0.1, "mec": 160, "seconds": 1.0, "repaired": True, "removed": None}
    masks = {str(i): {**mask, "mistake": o.mistake} for i, o in enumerate(outcomes)}
    about = {"split": "repope", "emphasis": "repaired"}
    run = write(tmp_path / "run", [(row("greedy", **about), curves), (row("trace", 1, returns="mask", **about), masks)])
    made = table([run], against="greedy")
    cells = made.lines[0].cells
    total = repairs(outcomes)
    assert [cells[name].mean for name in ("repaired", "removed", "csr@10", "unrepaired", "mec")] == pytest.approx(
        [total.rate, total.amcr, total.csr, total.failed, total.mec]
    )
    for kind in ("false_yes", "false_no"):
        assert (cells[kind].mean, cells[kind].samples) == (
            pytest.approx(repairs(outcomes, kind).rate),
            repairs(outcomes, kind).total,
        )
    assert made.lines[1].differences["unrepaired"].mean == -1
    assert made.lines[1].differences["false_no"].samples == 3
    text = as_markdown(made).split("### net, repope, 4 samples, answers repaired\n")[1].splitlines()
    head, greedy, trace = ([cell.strip() for cell in text[i].strip("|").split("|")] for i in (1, 3, 4))
    columns = ["false yes", "false no", "failed", "AMCR", "CSR@10", "MEC", "MEC without cache"]
    assert head == ["method", "Area", "**Repair Rate**", *columns]
    start = 2
    assert greedy[start + 1 : start + 3] == ["1.000 [0.207, 1.000] of 1", "0.667 [0.208, 0.939] of 3"]
    assert greedy[start + 3].startswith("1 [")
    assert trace[start : start + 2] == ["**1.000 [0.510, 1.000]**", "1.000 [0.207, 1.000] of 1"]
    assert trace[start + 4 : start + 6] == ["—", "—"]
