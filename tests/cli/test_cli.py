import inspect
import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import get_args
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask import EvidenceMask, cli
from whymask.cli.options import write
from whymask.models import MODELS
from whymask.results.base import Explanation
from whymask.search.theory import paper_tables

from cli.command import whymask_command
from images.test_imaging import bomb
from models.talker import BRIGHT
from models.tiny import lit, quadrants
from search.functions import METHODS


def process(*words):
    return subprocess.run([sys.executable, "-m", "whymask", *words], capture_output=True, text=True, check=False)


def test_theory():
    assert json.loads(whymask_command("theory", "--json").stdout) == paper_tables()
    printed = whymask_command("theory").stdout
    for figure in ("27.41%", "87.79%", "91.69%"):
        assert figure in printed


def test_parameters_are_refused_before_a_model_is_loaded():
    words = ["explain", f"{data_dir}/coffee.png", "--model", "no-such-model", "--method", "trace+greedy"]
    answer = whymask_command(*words, "--param", "gamma=2")
    assert (answer.returncode, answer.stderr) == (2, "whymask: gamma must lie in (0, 1], not 2.\n")


def test_methods():
    listed = json.loads(whymask_command("methods", "--json").stdout)["methods"]
    assert [method["name"] for method in listed] == list(METHODS)
    assert next(m for m in listed if m["name"] == "trace")["parameters"]["k"] == 8
    own, baselines = whymask_command("methods").stdout.split("\nBaselines:\n")
    baselines, more = baselines.split("\n\n")
    names = [[line.split()[0] for line in group.splitlines()] for group in (own, baselines)]
    assert set(names[0] + names[1]) <= set(METHODS)
    assert {"trace", "greedy", "discs+swap", "smallest"} <= set(names[0])
    assert {"rise", "grad-cam", "asn"} <= set(names[1])
    assert "The default is smallest, or, for a given number of regions, discs+swap." in more
    assert next(m for m in listed if m["name"] == "rise")["needs"] == "pixels"


def test_one_method_with_its_parameters():
    printed = whymask_command("methods", "trace").stdout
    assert "rounds             5" in printed
    assert whymask_command("methods", "trece").stderr == "whymask: unknown method 'trece'; did you mean 'trace'?\n"


def test_paragraphs_of_help_are_wrapped_for_the_terminal(monkeypatch):
    """On a wide terminal a paragraph is one line, however long the lines of the docstring are."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 2000)
    for command, words in (
        (["explain"], "Several images are explained one by one, .* the answer depends on\\."),
        (["bench", "run"], "The same command resumes .* was lost\\."),
    ):
        assert re.search(words, whymask_command(*command, "--help").stdout)


def test_each_command_names_its_own_defaults():
    """A repair searches for discs+swap on black, where an explanation searches for the smallest mask on several."""
    from whymask.cli.explain import explain, repair

    helps = [
        {name: get_args(option.annotation)[1].help for name, option in inspect.signature(command).parameters.items()}
        for command in (explain, repair)
    ]
    assert "By default smallest" in helps[0]["method"]
    assert "By default several for smallest" in helps[0]["fill"]
    assert "By default discs+swap" in helps[1]["method"]
    assert helps[1]["fill"].startswith("black (the default)")
    assert "null" not in helps[1]  # it searches for no other answers
    assert helps[0]["seed"] == helps[1]["seed"]


def test_a_baseline_with_its_parameters():
    assert whymask_command("methods", "rise").stdout.splitlines()[1:] == [
        "  masks              1000",
        "  grid               16",
        "  keep               0.5",
    ]
    printed = whymask_command("methods", "ig2").stdout
    assert "(needs gradients)" in printed
    assert "  memory_saving      False" in printed


def test_version():
    assert process("--version").stdout.strip() == whymask.__version__


def test_an_unknown_command_is_exit_code_2_without_a_traceback():
    answer = process("explian")
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("module", ["whymask", "whymask.search", "whymask.methods", "whymask.cli"])
def test_import_is_light(module):
    heavy = ["torch", "matplotlib", "skimage", "transformers", "sklearn"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


lite = pytest.mark.skipif(
    not MODELS["efficientnet-lite0"].installed, reason="the weights are not installed: whymask[lite]"
)
CAMERA = f"{data_dir}/camera.png"


@lite
def test_explain_a_photo(tmp_path):
    answer = process("explain", CAMERA, "--out", str(tmp_path / "out"))
    assert answer.returncode == 0, answer.stderr
    first, picture = answer.stdout.splitlines()
    assert "The model says 'tripod', which scores 0.9" in first
    assert re.search(r"\b\d of 64 regions", first)
    assert picture == f"Picture: {tmp_path}/out/camera-smallest.png"
    with Image.open(tmp_path / "out" / "camera-smallest.png") as image:
        assert image.width > 1000
    evidence = Explanation.load(tmp_path / "out" / "camera-smallest.npz")
    assert first.startswith(str(evidence.verdict))
    assert evidence.verdict.code in ("enough", "one_fill", "redundant")  # never a fault of the search
    assert whymask_command("explain", CAMERA, "--budget", "0", "--out", str(tmp_path / "out")).stdout.endswith(
        "camera-smallest-2.png\n"  # nothing is overwritten
    )
    assert evidence.share > 0.9 - 1e-6
    assert evidence.area < 0.15
    files = [file.name for file in (tmp_path / "out").iterdir()]
    assert sorted(files) == [f"camera-smallest{n}.{kind}" for n in ("-2", "") for kind in ("npz", "png")]


@lite
@pytest.mark.parametrize(("method", "forwards"), [("occlusion", 17), ("hsic", 60), ("grad-cam", 0)])
def test_baselines_explain_a_photo_too(tmp_path, method, forwards):
    answer = whymask_command(
        "explain", CAMERA, "--method", method, "--regions", "grid:4x4", "--budget", "60", "--out", str(tmp_path),
        "--json", "--quiet",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert sorted(report["order"]) == list(range(16))
    assert report["ledger"]["mec"] == forwards
    assert 0 < report["curves"]["insertion_auc"] < 1


@lite
def test_explain_json_with_every_flag(tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(512)[:, None] // 128 * 4 + np.arange(512) // 128)
    answer = whymask_command(
        "explain", CAMERA, "--model", "efficientnet-lite0", "--target", "tripod", "--method", "trace+greedy",
        "--k", "3", "--regions", str(tmp_path / "labels.npy"), "--fill", "mean", "--resize", "squash", "--seed", "5",
        "--seeds", "2",
        "--budget", "60", "--device", "cpu", "--dtype", "fp32", "--batch-size", "8", "--out", str(tmp_path), "--json",
        "--quiet",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    report = json.loads(answer.stdout)
    assert report["kind"] == "ordering"
    assert sorted(report["order"]) == list(range(16))
    assert report["ledger"]["mec"] <= 60
    assert report["provenance"]["seed"] == 5
    assert report["provenance"]["fill"] == "mean"
    assert 0 <= report["curves"]["insertion_auc"] <= 1
    assert set(report["recurrence"].values()) <= {0.5, 1.0}
    assert [one["provenance"]["seed"] for one in report["seeds"]] == [5, 6]
    (saved,) = tmp_path.glob("*.npz")
    over_seeds = Explanation.load(saved).over_seeds
    assert over_seeds.count == 2
    assert {region: times / 2 for region, times in enumerate(over_seeds.held) if times} == {
        int(region): share for region, share in report["recurrence"].items()
    }
    assert len(report["curves"]["insertion"]) == 16
    assert not report["complete"]


@lite
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.png"], "there is no file missing.png"),
        (["folder"], "there is no image in folder"),
        (["empty.png"], "is empty"),
        (["text.png"], "is not an image"),
        (["cut.png"], "broken"),
        (["bomb.png"], "more than 64 megapixels"),
        ([CAMERA, "--k", "65"], "k must be between 1 and the number of regions, 64"),
        ([CAMERA, "--k", "0"], "k must be a whole number of at least 1"),
        ([CAMERA, "--method", "trase"], "did you mean 'trace'"),
        ([CAMERA, "--target", "tripodd"], "did you mean 'tripod'"),
        ([CAMERA, "--target", "qqqqqqqq"], "(1"),
        ([CAMERA, "--model", "efficientnet-light0"], "did you mean 'efficientnet-lite0'"),
        ([CAMERA, "--fill", "blck"], "did you mean 'black'"),
        ([CAMERA, "--regions", "labels.npy"], "the label map has shape (3, 3)"),
        ([CAMERA, "--resize", "crop"], "resize is 'own', 'squash'"),
        ([CAMERA, "--device", "cuda:77"], "not available"),
        ([CAMERA, "--out", "text.png/x", "--method", "greedy"], "cannot write"),
        ([CAMERA, "--method", "greedy", "--seeds", "3"], "pass --k"),
        ([CAMERA, "--model-option", "classes"], "NAME=VALUE"),
        ([CAMERA, "--model-option", "colour=red"], "colour"),
        ([CAMERA, "--fill", "rgb(300,0,0)"], "0 to 255"),
        ([CAMERA, "--seeds", "0"], "--seeds must be at least 1"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("just text")
    (tmp_path / "bomb.png").write_bytes(bomb())
    with open(CAMERA, "rb") as whole:
        (tmp_path / "cut.png").write_bytes(whole.read(2000))
    np.save(tmp_path / "labels.npy", np.eye(3, dtype=int))
    answer = whymask_command("explain", *arguments)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("whymask: ")
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


@lite
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_no_file_and_no_traceback(tmp_path, number, code):
    command = [sys.executable, "-m", "whymask", "explain", CAMERA, "--method", "greedy", "--out", str(tmp_path / "out")]
    # A suite that runs in the background of a shell ignores interrupts, and so would what it starts.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=heard, **pipes) as process:
        while not (tmp_path / "out").exists() and process.poll() is None:
            time.sleep(0.1)
        while process.poll() is None:  # again where a library that was loading swallowed it
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
        stderr = process.stderr.read()
    assert process.returncode == code
    assert stderr == "whymask: explain was interrupted; nothing was written.\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_an_interrupt_between_two_files_leaves_none(tmp_path, monkeypatch):
    def interrupted(*_):
        assert [file.name for file in tmp_path.iterdir()] == ["x.png"]
        raise KeyboardInterrupt

    found = whymask.explain(lit(0), quadrants(), regions="grid:4x4")
    monkeypatch.setattr(EvidenceMask, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(found, tmp_path, "x")
    assert list(tmp_path.iterdir()) == []


def test_models():
    listed = json.loads(whymask_command("models", "--json").stdout)["models"]
    assert [model["name"] for model in listed][:1] == ["efficientnet-lite0"]
    assert "efficientnet-lite2" in whymask_command("models").stdout


def saved(path, method="greedy", image=0):
    model = quadrants()
    found = whymask.explain(lit(image), model, regions="grid:3x3", method=method)
    return str(found.save(path)), model


def test_report(tmp_path):
    mask, _ = saved(tmp_path / "mask.npz", "trace")
    ranking, _ = saved(tmp_path / "ranking.npz")
    answer = whymask_command("report", mask, ranking, "-o", str(tmp_path / "out" / "page.html"))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"Report: {tmp_path}/out/page.html\n"
    page = (tmp_path / "out" / "page.html").read_text()
    assert page.count('"name":"trace"') == page.count('"name":"greedy"') == 1
    # A file may name any model, a server too: only the package's own are loaded for it, and that is said.
    assert "ranking.npz has no curves, as it cannot be replayed: 'quadrants' is not a model of this" in answer.stderr
    assert '"curves":null' in page


def test_tabs_of_one_method_are_named_after_their_files(tmp_path):
    files = [saved(tmp_path / f"photo-{number}.npz", "trace", number)[0] for number in range(2)]
    answer = whymask_command("report", *files, "-o", str(tmp_path / "page.html"))
    assert answer.stderr == ""
    assert '"name":"photo-1"' in (tmp_path / "page.html").read_text()
    twin = saved(tmp_path / "elsewhere" / "photo-1.npz", "trace", 2)[0]
    whymask_command("report", *files, twin, "-o", str(tmp_path / "page.html"))
    assert f'"name":"{twin}"' in (tmp_path / "page.html").read_text()


def test_a_folder_of_results_is_a_report(tmp_path):
    folder = tmp_path / "results"
    files = [saved(folder / f"photo-{number}.npz", "trace", number)[0] for number in range(3)]
    (folder / "index.html").write_text("something else")
    answer = whymask_command("report", str(folder), files[0], "-o", str(tmp_path / "page.html"))
    assert (answer.returncode, answer.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert [page.count(f'"name":"photo-{number}"') for number in range(3)] == [1, 1, 1]


def test_quiet_is_quiet(tmp_path):
    """A checkpoint of transformers is loaded with bars of its own otherwise."""
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    arguments = ["explain", "scene:12", "--model", "tiny-qwen", "--question", "Is there a ball?", "--budget", "2"]
    answer = process(*arguments, "--quiet", "--out", str(tmp_path))
    assert (answer.returncode, answer.stderr) == (0, "")


@lite
def test_an_ordering_without_a_replay_is_replayed_for_its_report(tmp_path):
    model = whymask.load("efficientnet-lite0")
    ranking = whymask.explain(CAMERA, model, regions="grid:3x3", method="trace-seed", k=2)
    ranking.save(tmp_path / "ranking.npz")
    answer = whymask_command("report", str(tmp_path / "ranking.npz"), "-o", str(tmp_path / "page.html"))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert '"insertion_auc":' in (tmp_path / "page.html").read_text()
    other = replace(ranking, provenance={**ranking.provenance, "model_fingerprint": "another"})
    other.save(tmp_path / "other.npz")
    answer = whymask_command("report", str(tmp_path / "other.npz"), "-o", str(tmp_path / "page.html"))
    assert "the weights or the preprocessing of efficientnet-lite0 have changed" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "missing.npz"], "there is no file missing.npz"),
        (["report", "text.npz"], "text.npz is not a saved explanation"),
        (["report", "text.npz", "run"], "about saved results or about folders of runs"),
        (["report", "run"], "holds no records"),
        (["report", "."], "text.npz is not a saved explanation"),
        (["serve", "--port", "70000"], "a port is a number from 0 to 65535, not 70000."),
        (["serve", "--host", "192.0.2.1", "--port", "0"], "cannot listen on 192.0.2.1"),
        (["serve", "--port", "0", "--out", "text.npz/x"], "cannot write"),
        (["serve", "--model", "efficientnet-light0"], "did you mean 'efficientnet-lite0'"),
        (["serve", "--model", "mine.py:load"], "there is no file mine.py"),
    ],
)
def test_mistakes_of_views(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npz").write_text("just text")
    (tmp_path / "run").mkdir()
    named = arguments[0] != "serve" or "--model" in arguments
    answer = whymask_command(*arguments, *([] if named else ["--model", MODEL]))
    assert answer.returncode == 2
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


MODEL = "http://ann:secret@127.0.0.1:9/?key=secret"  # nobody asks it anything


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_serve_and_interrupt(tmp_path, number, code):
    command = [sys.executable, "-m", "whymask", "serve", "--model", MODEL, "--port", "0", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        told = process.stdout.readline()
        url = told.split()[1]
        with urlopen(f"{url}/api/options") as answer:
            assert json.load(answer)["models"] == ["http://127.0.0.1:9/"]
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert told == f"Serving {url} (Ctrl-C ends it).\n"
    assert url.startswith("http://127.0.0.1:")
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", [cli.explain.explain, cli.explain.repair])
def test_every_setting_is_an_option(command):
    """And has the same default, so that the command line and the functions cannot drift apart."""
    options = inspect.signature(command).parameters
    function = inspect.signature(getattr(whymask, command.__name__)).parameters
    names = {"params": "param"}
    python_only = {"null"} if command.__name__ == "repair" else set()  # which is an error there
    for setting in {field.name for field in fields(whymask.Settings)} - python_only:
        assert options[names.get(setting, setting)].default == function[setting].default
    own = {"image", "want"} if command.__name__ == "repair" else {"images", "target", "jobs"}
    own |= {"model", "question"}
    assert own <= options.keys()


def test_repair_takes_the_options_of_explain(tmp_path):
    (tmp_path / "own.py").write_text(TALKER)
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")
    answer = whymask_command(
        "repair", str(tmp_path / "bright.png"), "--model", f"{tmp_path}/own.py:load", "--want", "No", "--question", "?",
        "--method", "discs+swap", "--k", "1", "--param", "tries=20", "--regions", "grid:2x2", "--resize", "squash",
        "--fill", "black", "--budget", "30", "--batch-size", "2",
        "--model-option", "generated=No.", "--out", str(tmp_path), "--json",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert (report["given"], report["repaired"]) == ("Yes", True)
    assert report["provenance"]["parameters"]["tries"] == 20
    assert (report["provenance"]["batch_size"], report["provenance"]["budget"]) == (2, 30)


TALKER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from models.talker import Talker as load
"""


def test_check_prints_a_page(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("whymask.cli.options.load", lambda name, **options: quadrants())
    Image.fromarray(lit(0)).save(tmp_path / "lit.png")
    words = ["check", "quadrants", str(tmp_path / "lit.png"), "--regions", "grid:4x4", "--k", "4", "--param", "tries=8"]
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["whymask", *words, "--seeds", "2", "--null", "2", *more])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 0
    page, report = capsys.readouterr().out.split("would.\n")
    assert page.startswith(
        "# Sanity check of quadrants\n\nThe model's answers to 1 photo, explained by method discs+swap"
    )
    photo = json.loads(report)["photos"][0]
    assert (photo["name"], photo["answer"], len(photo["null"])) == ("lit", "top left", 2)
    assert not (tmp_path / "whymask-out").exists()


def test_check_reads_the_photos_first():
    answer = whymask_command("check", "efficientnet-lite0", "no-such-photo.jpg")
    assert answer.returncode == 2
    assert "no-such-photo.jpg" in answer.stderr


def test_several_answers_on_the_command_line(tmp_path):
    (tmp_path / "own.py").write_text(QUARTERS)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)).save(tmp_path / "a.png")
    own = ["explain", f"{tmp_path}/a.png", "--model", f"{tmp_path}/own.py:load", "--regions", "grid:4x4",
           "--fill", "black", "--k", "4", "--out", str(tmp_path / "out"), "--json"]  # fmt: skip
    top = whymask_command(*own, "--top", "2")
    assert top.returncode == 0, top.stderr
    report = json.loads(top.stdout)
    assert (report["kind"], len(report["each"])) == ("masks", 2)
    assert Path(report["files"]["picture"]).name == "a-answers.png"
    named = json.loads(whymask_command(*own, "--answer", "se", "--answer", "nw").stdout)
    assert [one["target"]["label"] for one in named["each"]] == ["se", "nw"]
    contrast = json.loads(whymask_command(*own, "--target", "se", "--against", "nw").stdout)
    assert contrast["provenance"]["against"] == "nw"
    for wrong, words in (
        (["--top", "2", "--words"], "pass one of them"),
        (["--text", "a cat"], "pass --words too"),
        (["--top", "2", "--target", "se"], "leave --target"),
        (["--words"], "has no words to explain"),
    ):
        answer = whymask_command(*own, *wrong)
        assert (answer.returncode, words in answer.stderr) == (2, True), answer.stderr


def test_words_on_the_command_line(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    asked = ["explain", "described:3", "--model", "tiny-caption", "--question", "Describe the image.", "--words"]
    few = ["--fill", "black", "--budget", "30", "--out", str(tmp_path), "--json"]
    own = json.loads(whymask_command(*asked, *few).stdout)
    assert own["text"] == "a red tree below a yellow plate"
    assert [(word["text"], word["tokens"]) for word in own["words"]] == [
        (word, [number]) for number, word in enumerate(own["text"].split())
    ]
    for word in own["words"]:
        assert (word["mask"] is None) == (word["role"] != "content")
        if word["mask"] is not None:
            assert own["each"][word["mask"]]["rle"]["size"] == [112, 112]
    assert {Path(file).name for file in own["files"].values()} == {"described-3-words.png", "described-3-words.npz"}
    given = json.loads(whymask_command(*asked, "--text", "a blue moon", *few).stdout)
    assert [word["text"] for word in given["words"]] == ["a", "blue", "moon"]


QUARTERS = """
import whymask

def quarters(images):
    return images.reshape(len(images), 2, 16, 2, 16, 3).mean(axis=(2, 4, 5)).reshape(len(images), 4) / 255

def load():
    return whymask.wrap(quarters, labels=["nw", "ne", "sw", "se"], size=32)
"""
