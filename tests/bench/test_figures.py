"""Figures of a run: what it keeps for them, what they show, and what they say when something is missing."""

import dataclasses
import json
import re
from itertools import cycle

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import whymask
from whymask import WhymaskError
from whymask.bench.config import config
from whymask.bench.evidence import evidence, samples_of
from whymask.bench.figures import Choice, Drawn, _compare, _repair, figures
from whymask.bench.gallery import comparison, repairs
from whymask.bench.layout import Layout
from whymask.bench.lettering import fitted, width
from whymask.bench.records import Store
from whymask.bench.report import bench_report
from whymask.bench.runner import run
from whymask.bench.table import table as made_table
from whymask.cli import app
from whymask.data.manifest import Sample, write_manifest
from whymask.images.partition import Partition
from whymask.results.plotting import WIDTH

from bench.drawn import blocks, check_layout
from bench.toy import METHODS, finish, results, start, table, toml
from models.talker import BRIGHT, Talker

KEPT = ("layout", "insertion", "deletion", "answer", "prefix", "right")


@pytest.fixture
def kept(place):
    """A run of seven photos that kept its masks."""
    run(config(table(place, keep="masks", methods=[*METHODS, "phasewin"])), quiet=True)
    return place / "run"


@pytest.fixture
def repaired(tmp_path):
    """Questions whose wrong answers a run repairs, with an ordering and with a mask."""
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")
    write_manifest(tmp_path / "cases.jsonl", [Sample("q", str(tmp_path / "bright.png"), "No", "Is there a dog?")])
    methods = ["greedy", {"method": "trace", "params": {"k": 1, "rounds": 2, "samples": 4}}, "occlusion"]
    given = table(tmp_path, keep="masks", methods=methods, seeds=[0], regions="grid:2x2")
    run(config(given), load=lambda spec: Talker(), quiet=True)
    return tmp_path / "run"


def without(records):
    return {key: {n: v for n, v in record.items() if n not in KEPT} for key, record in records.items()}


def test_keeping_masks_changes_no_number(place, kept):
    run(config(table(place, methods=[*METHODS, "phasewin"], out=str(place / "plain"))), quiet=True)
    plain = results(place / "plain")
    assert without(results(kept)) == plain  # the keys too
    assert not {*KEPT} & set().union(*plain.values())
    assert not (place / "plain" / "regions").exists()
    assert made_table([kept]).hash == made_table([place / "plain"]).hash


def test_what_is_kept_is_what_explain_finds(place, kept):
    model = whymask.load(f"{place}/toy.py:load")
    for line in blocks(kept)[0]:
        for sample in samples_of([kept], "toy", "mine").values():
            found = evidence([kept], line, sample)
            case = whymask.explain(sample.image, model, method="greedy", regions="grid:3x3")
            np.testing.assert_array_equal(found.image.partition.labels, case.image.partition.labels)
            np.testing.assert_array_equal(found.image.canvas, case.image.canvas)
            np.testing.assert_array_equal(found.image.fill, case.image.fill)
            if line.row.method == "greedy":
                curves = whymask.replay(case, model)
                np.testing.assert_allclose(found.curves.insertion, curves.insertion, atol=5e-7)
                np.testing.assert_allclose(found.curves.deletion, curves.deletion, atol=5e-7)
                assert found.regions == list(case.order[: curves.prefix()])


def test_one_small_file_for_regions_that_are_the_same(kept):
    (file,) = (kept / "regions").iterdir()  # the same grid on every photo
    assert file.stat().st_size < 1000
    with np.load(file) as arrays:
        assert arrays["labels"].dtype == np.uint8


def test_shards_share_the_files(place, kept):
    given = config(table(place, keep="masks", methods=[*METHODS, "phasewin"], out=str(place / "parts")))
    for i in range(2):
        run(given, shard=(i, 2), quiet=True)
    assert results(place / "parts") == results(kept)
    assert [f.name for f in (place / "parts" / "regions").iterdir()] == [f.name for f in (kept / "regions").iterdir()]


def test_results_from_before_are_counted(place):
    run(config(table(place, methods=["greedy"], seeds=[0])), quiet=True)
    summary = run(config(table(place, seeds=[0], keep="masks")), quiet=True)
    assert (summary.done, summary.unkept) == (14, 7)
    file = toml(place / "bench.toml", table(place, seeds=[0], keep="masks"))
    code, _, err = finish(start("run", file, "--quiet"))
    assert code == 0
    assert (
        '7 results were computed without keep = "masks" and cannot be drawn; for their figures, repeat the run in'
        in err
    )
    made = figures([place / "run"], ["compare"], place / "out")  # of the rows that have masks
    assert [file.name for file in made.files] == ["compare-toy-mine.png"]
    with pytest.raises(WhymaskError, match='set keep = "masks"'):
        _compare([place / "run"], blocks(place / "run")[0], Choice(methods=["greedy"]), Drawn())


def test_a_layout_is_read_back_and_a_damaged_one_is_not(tmp_path):
    labels = np.arange(300 * 2).reshape(300, 2) // 2
    layout = Layout(Partition(labels.astype(np.int32), "x"), (0.0, 0.25, 1.0, 0.75))
    name = layout.save(tmp_path)
    again = Layout.read(tmp_path, name)
    np.testing.assert_array_equal(again.partition.labels, labels)
    assert again.box == layout.box
    assert Layout.read(tmp_path, "0" * 16) is None
    assert Layout.read(tmp_path / "regions", f"../regions/{name}") is None
    file = tmp_path / "regions" / f"{name}.npz"
    file.rename(file.with_name(f"{'1' * 16}.npz"))
    with pytest.raises(WhymaskError, match="is damaged"):
        Layout.read(tmp_path, "1" * 16)
    file.write_bytes(b"nonsense")
    with pytest.raises(WhymaskError, match="is damaged"):
        Layout.read(tmp_path, name)


def test_methods_side_by_side(kept):
    figure = _compare([kept], blocks(kept)[0], Choice(samples=["4", "0"]), Drawn())
    lines = {line.row.method: line.firsts for line in blocks(kept)[0]}
    titles = [axes.get_title() for axes in figure.axes[:5]]
    assert titles == ["image", "greedy", "trace", "phasewin", ""]
    for sample, row_ in (("4", figure.axes[:5]), ("0", figure.axes[5:])):
        greedy, trace, phasewin = (lines[name][sample] for name in ("greedy", "trace", "phasewin"))
        texts = [axes.get_xlabel().splitlines() for axes in row_]
        assert texts[1][1:] == [f"AUC {greedy['insertion_auc']:.3f}"]
        assert texts[2] == ["3 of 9 regions (33%)", f"score {trace['score']:.3f}"]
        gain = phasewin["insertion_auc"] - greedy["insertion_auc"]
        assert texts[3][1:] == [
            f"AUC {phasewin['insertion_auc']:.3f}",
            f"\u0394AUC {gain:+.3f}".replace("-", "\u2212"),
        ]
        insertion, point, _ = row_[4].get_lines()
        assert insertion.get_ydata().tolist() == [greedy["deletion"][-1], *greedy["insertion"]]
        assert point.get_xydata().tolist() == [[pytest.approx(3 / 9), trace["score"]]]


def test_picked_samples_run_from_the_largest_gain_to_the_largest_loss(kept):
    block = blocks(kept)[0]
    greedy, _, phasewin = block
    for i, sample in enumerate(["3", "0", "6", "1", "5", "2", "4"]):
        gain = 0.35 - 0.1 * i  # down to -0.25
        phasewin.firsts[sample]["insertion_auc"] = greedy.firsts[sample]["insertion_auc"] + gain

    def gains(choice):
        shown = _compare([kept], block, choice, Drawn()).axes[3::5]
        return [axes.get_xlabel().splitlines()[-1].removeprefix("\u0394AUC ") for axes in shown]

    assert gains(Choice()) == ["+0.350", "+0.050", "\u22120.250"]
    assert gains(Choice(shown=2)) == ["+0.350", "\u22120.250"]
    assert len(gains(Choice(shown=20))) == 7


def test_repairs(repaired):
    figure = _repair([repaired], blocks(repaired)[0], Choice(), Drawn())
    photo, greedy, trace, occlusion, curves = figure.axes
    records = {line.row.method: line.firsts["q"] for line in blocks(repaired)[0]}
    question, says, score = photo.get_xlabel().splitlines()
    assert (question, says) == ("Is there a dog?", 'says "Yes"')
    assert score == f'"No" {records["greedy"]["full"]:.2f}'
    for axes, name in ((greedy, "greedy"), (trace, "trace"), (occlusion, "occlusion")):
        record = records[name]
        size, answer, _ = axes.get_xlabel().splitlines()
        assert size.startswith(f"{record.get('prefix', 1)} of 4 regions")
        assert answer == f'says "{record["answer"]}"'
        assert record["answer"].startswith("No") == record["repaired"]
        assert (axes.xaxis.label.get_color() == "#009E73") == record["repaired"]
    mended = records["greedy"]
    assert mended["prefix"] == mended["right"][0]
    assert mended["kept"] == pytest.approx(mended["prefix"] / 4)
    dots = curves.get_lines()[1]
    assert dots.get_ydata().tolist() == [mended["insertion"][size - 1] for size in mended["right"]]


def test_the_prefix_that_is_shown_where_none_repairs(tmp_path):
    """The one with the highest score of the wanted answer."""
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")
    write_manifest(tmp_path / "cases.jsonl", [Sample("q", str(tmp_path / "bright.png"), "No", "Is there a dog?")])
    given = table(tmp_path, keep="masks", methods=["occlusion"], seeds=[0], regions="grid:2x2", fill="#dcdcdc")
    run(config(given), load=lambda spec: Talker(), quiet=True)
    (record,) = Store(tmp_path / "run").records.values()
    assert (record["repaired"], record["right"], record["answer"]) == (False, [], "Yes")
    assert record["prefix"] == 1 + np.argmax(record["insertion"]) > 1


def test_the_report_shows_the_evidence(place, kept):
    with_evidence = bench_report([kept])
    assert "the evidence: 3 of 9 regions" in with_evidence
    assert "Outlined: the mask" in with_evidence
    for file in (kept / "regions").iterdir():
        file.unlink()
    without = bench_report([kept])
    assert without.count("<img ") == with_evidence.count("<img ")  # the photos alone
    assert "the evidence: " not in without
    for file in place.glob("*.png"):
        file.unlink()
    assert "Its image is not here." in bench_report([kept])


def test_the_marked_photo_of_the_report(kept):
    from whymask.bench.report import _marked

    line = blocks(kept)[0][1]
    found = evidence([kept], line, samples_of([kept], "toy", "mine")["0"])
    marked, inside = _marked(found.image, found.regions), found.image.on_photo(found.image.pixels(found.regions)) > 0
    orange = (marked == (230, 159, 0)).all(axis=2)
    assert orange.any()
    assert not (orange & ~inside).any()
    np.testing.assert_array_equal(marked[inside & ~orange], found.image.photo[inside & ~orange])
    assert marked[~inside].mean() < 0.5 * found.image.photo[~inside].mean()


def command(*words):
    return CliRunner().invoke(app, ["bench", "figure", *map(str, words)])


def test_the_command(tmp_path, kept, plain):
    done = command(kept, "--format", "pdf", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"compare-toy-mine.pdf", "tail-toy-mine.pdf"}
    assert command(plain).exit_code == 0
    assert {file.name for file in (plain / "figures").iterdir()} == {
        f"{kind}-net-correct.png" for kind in ("tail", "budget", "k")
    }
    for file in (plain / "figures").iterdir():
        with Image.open(file) as image:
            assert (np.asarray(image.convert("RGB"))[:3] == 255).all()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--kind", "compare"], 'set keep = "masks" in the configuration and repeat the run in another folder'),
        (["--kind", "repair"], "no repair figure: no answer is wrong."),
        (["--kind", "tale"], "unknown kind of figure 'tale'; did you mean 'tail'?"),
        (["--method", "greed"], "unknown row 'greed'; did you mean 'greedy'?"),
        (["--kind", "tail", "--format", "bmp"], "--format must be png, pdf or svg, not 'bmp'."),
        (
            ["--kind", "tail", "--method", "t4-32", "--method", "t8-32"],
            "no tail figure: it compares one row with another",
        ),
        (["--kind", "tail", "--method", "greedy"], "no tail figure: it compares one row with another"),
        (["--kind", "k", "--method", "greedy"], "no k figure: no two rows differ only in k."),
        (["--split", "corect"], "unknown split 'corect'; did you mean 'correct'?"),
        (["--model", "nett"], "unknown model 'nett'; did you mean 'net'?"),
    ],
)
def test_what_is_missing_is_named(plain, words, told):
    done = command(plain, *words)
    assert isinstance(done.exception, WhymaskError)
    assert told in str(done.exception)


def test_a_sample_or_an_image_that_is_not_there(place, kept, monkeypatch):
    assert figures([kept], ["compare"], place / "out", choice=Choice(samples=["x"])) == Drawn(
        [], ["no sample 'x' that all these rows have."], [], set()
    )
    (place / "0.png").unlink()
    with pytest.raises(WhymaskError, match=re.escape("0.png")):
        _compare([kept], blocks(kept)[0], Choice(samples=["0"]), Drawn())
    many = Choice(methods=["greedy", "trace", "phasewin"], against="other")
    monkeypatch.setattr("whymask.bench.figures.MOST", 3)
    with pytest.raises(WhymaskError, match="room for 3 methods, not 4"):
        _compare([kept], blocks(kept)[0], many, Drawn())


@pytest.mark.parametrize("change", [{"order": [0]}, {"insertion": [0.5]}, {"mask": [99]}, {"layout": "../x"}])
def test_a_record_that_does_not_fit_its_regions(kept, change):
    line = blocks(kept)[0][1 if "mask" in change else 0]
    line.firsts["0"].update(json.loads(json.dumps(change)))
    with pytest.raises(WhymaskError, match=r"is damaged|regions of the sample 0 are missing"):
        evidence([kept], line, samples_of([kept], "toy", "mine")["0"])


LONG = [
    "stochastic greedy, 40 candidates, suff + necc",
    "_hidden",
    "cost $5 of $x^",
    "copair+phasewin+greedy",
    "w" * 40,
]


def named(found, names):
    return [[dataclasses.replace(one, method=name) for one, name in zip(cycle(found), names, strict=False)]]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_panels_and_texts_have_room(repaired, count):
    sample = samples_of([repaired], "toy", "mine")["q"]
    mended = [evidence([repaired], line, sample) for line in blocks(repaired)[0]]
    mended[0].record["answer"] = "No, there is none, as far as I can see, though of course it may be hidden " * 9
    for names in (LONG[:count], LONG[-count:]):
        for figure in (comparison(named(mended, names), names[0]), repairs(named(mended, names))):
            check_layout(figure)
            shown = [text.get_text() for text in figure.legends[0].get_texts()][:count]
            assert [text.strip().replace("\\$", "$") for text in shown] == names
            assert figure.axes[0].get_position().width * WIDTH > 0.75
    sizes = [axes.get_xlabel().splitlines()[0] for axes in figure.axes[1:-1]]
    assert all(("regions" in size) == (count < 4) for size in sizes)


def test_a_repair_figure_where_an_ordering_never_repairs(repaired):
    line = blocks(repaired)[0][0]
    line.firsts["q"].update(right=[], repaired=False)
    figure = _repair([repaired], [line], Choice(), Drawn())
    check_layout(figure)
    curves = figure.axes[-1]
    assert [len(one.get_xdata()) for one in curves.get_lines()] == [5, 2]  # the curve, and the whole image's score
    assert {"prefix that repairs", "whole image", "caption: repaired", "caption: not repaired"} <= {
        text.get_text() for text in figure.legends[0].get_texts()
    }


def test_lines_end_between_words_and_after_a_plus():
    assert fitted("trace+greedy", 0.5, 7.5) == "trace+\ngreedy"
    assert fitted("use igos++", 0.45, 7.5) == "use\nigos++"
    assert fitted("a $b", 3, 7.5) == r"a \$b"
    for line in fitted("What is the colour of the small animal on the left?", 0.9, 6.5).splitlines():
        assert width(line, 6.5) <= 0.9
    assert "".join(fitted("w" * 20, 0.5, 6.5).splitlines()) == "w" * 20
    assert len(fitted("word " * 90, 0.9, 6.5).splitlines()) == 8


def test_the_question_is_shown_without_its_prompt(tmp_path):
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")
    asked = Sample("q", str(tmp_path / "bright.png"), "No", "Look. Is there a dog? Answer:", plain="Is there a dog?")
    write_manifest(tmp_path / "cases.jsonl", [asked])
    assert asked.digest() == dataclasses.replace(asked, plain=None).digest()
    run(config(table(tmp_path, keep="masks", seeds=[0], regions="grid:2x2")), load=lambda spec: Talker(), quiet=True)
    figure = _compare([tmp_path / "run"], blocks(tmp_path / "run")[0], Choice(), Drawn())
    assert figure.axes[0].get_xlabel().splitlines()[:2] == ["Is there a dog?", "No"]
    report = bench_report([tmp_path / "run"])
    assert "Is there a dog?" in report
    assert "Look." not in report


def test_samples_that_cannot_be_drawn_are_left_out(place, kept):
    (place / "3.png").write_bytes(b"nonsense")
    (place / "5.png").unlink()
    made = figures([kept], ["compare"], place / "out", choice=Choice(shown=7))
    assert len(made.files) == 1
    (note,) = made.notes
    assert note.startswith("toy, mine: 2 samples are left out: ")
    assert str(place) in note
    assert ".." not in note
    assert not made.problems


def test_a_missing_label_map_is_written_again(place, kept):
    (file,) = (kept / "regions").iterdir()
    file.write_bytes(b"nonsense")
    made = figures([kept], ["compare"], place / "out")
    assert made.problems == [f"{file} is damaged; remove it and repeat the 'whymask bench run', which writes it again."]
    before = results(kept)
    file.unlink()
    run(config(table(place, keep="masks", methods=[*METHODS, "phasewin"])), quiet=True)
    assert results(kept) == before
    assert figures([kept], ["compare"], place / "out").files


def test_a_list_of_samples_that_is_missing(place, kept):
    (file,) = (kept / "manifests").iterdir()
    file.unlink()
    made = figures([kept], ["compare"], place / "out")
    assert made.problems == [f"{file} is missing or damaged; repeat the 'whymask bench run', which writes it again."]


def test_a_sample_of_one_of_two_splits(place):
    photos = [Sample(str(i), str(place / f"{i}.png")) for i in range(4)]
    for name, some in (("one", photos[:2]), ("two", photos[2:])):
        write_manifest(place / f"{name}.jsonl", some)
    splits = {name: {"manifest": str(place / f"{name}.jsonl")} for name in ("one", "two")}
    run(config(table(place, keep="masks", seeds=[0], splits=splits)), quiet=True)
    runs, out = [place / "run"], place / "out"
    made = figures(runs, ["compare", "compare"], out, choice=Choice(samples=["3"]))
    assert ([file.name for file in made.files], made.problems) == (["compare-toy-two.png"], [])
    made = figures(runs, [], out, "PDF", Choice(split="one", methods=["trace"]))
    assert [file.name for file in made.files] == ["compare-toy-one.pdf"]


def test_what_a_figure_leaves_out_is_reported(place, kept, monkeypatch):
    monkeypatch.setattr("whymask.bench.figures.MOST", 2)
    done = command(kept, "--kind", "compare")
    assert "compare shows the first 2 of 3 rows; choose with --method." in done.output
    for record in (lines := blocks(kept)[0])[2].firsts.values():
        record.clear()
    lines[2].firsts.clear()
    drawn = Drawn()
    assert _compare([kept], lines, Choice(methods=["greedy", "phasewin"]), drawn)
    assert drawn.notes == ["'phasewin' has no result on toy, mine that compare can show."]
