"""A family of models that another package adds."""

import json
import os
import subprocess
import sys

import pytest

import whymask
from whymask import WhymaskError
from whymask.models import FAMILIES, Family, find

from models.tiny import lit, quadrants

MODULE = """
import whymask
from whymask.models import Family


def load(name, *, sharpness=1.0):
    return whymask.wrap(lambda images: images[:, int(name)].mean(axis=(1, 2)) / 255 * sharpness, name=f"row {name}")


FAMILY = Family("row:NUMBER", "how bright a row is", "rows:load", ids="row:([0-9]+)")
"""


@pytest.fixture
def registered(monkeypatch):
    """Registers families for the time of a test."""
    monkeypatch.setattr(FAMILIES, "_things", dict(FAMILIES))
    return FAMILIES.add


def load(name, *, size: int = 32, dtype="fp32"):
    model = quadrants(size, dtype=dtype)
    model.name = f"mine: {name}"
    return model


def test_a_registered_family_is_loaded(registered):
    family = registered(Family("mine:NAME", "my own", load, ids="mine:(.+)", can=("gradients", "class")))
    model = whymask.load("mine:one/two.onnx", size=16)  # neither a checkpoint nor a file
    assert model.name == "mine: one/two.onnx"
    assert find("mine:one/two.onnx") == (family, "one/two.onnx")
    assert whymask.explain(lit(2), model, regions="grid:4x4", method="greedy").order
    assert family in FAMILIES.values()
    assert family.installed


def test_a_family_of_one_model_is_known_by_its_name(registered):
    registered(Family("my-model (32 px)", "my own", load))
    assert whymask.load("my-model (32 px)").name == "mine: my-model (32 px)"
    with pytest.raises(WhymaskError, match=r"unknown model 'my-modl \(32 px\)'; did you mean 'my-model \(32 px\)'"):
        whymask.load("my-modl (32 px)")


def test_a_family_is_known_by_the_type_of_its_checkpoints(registered, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "align"}))
    assert find(str(tmp_path))[0].name == "hf:NAME"
    family = registered(Family("NAME/OF-ALIGN", "my own", load, model_type="align"))
    assert find(str(tmp_path)) == find(f"hf:{tmp_path}") == (family, str(tmp_path))


@pytest.mark.parametrize(
    ("architectures", "known"), [(None, True), (["AlignModel"], True), (["AlignForImageClassification"], False)]
)
def test_a_family_may_be_of_one_class_only(architectures, known, registered, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    config = {"model_type": "align", "architectures": architectures}
    (tmp_path / "config.json").write_text(json.dumps(config))
    family = registered(Family("NAME/OF-ALIGN", "my own", load, model_type="align", architecture="AlignModel"))
    assert find(str(tmp_path))[0] is (family if known else FAMILIES["hf:NAME"])


def test_the_models_of_this_package_come_first(registered):
    registered(Family("everything", "too much", load, ids=".*"))
    assert find("tiny-qwen")[0].name == "tiny-qwen"
    assert find("timm:resnet18")[0].name == "everything"
    with pytest.raises(WhymaskError, match="there is already a model called 'timm:NAME'"):
        registered(Family("timm:NAME", "another", load))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sise": 16}, r"^mine:a: unknown option 'sise'; did you mean 'size'\?$"),
        ({"colour": "red"}, r"^mine:a: unknown option 'colour'; known: dtype, size\.$"),
        ({"name": "b"}, "^mine:a: unknown option 'name'"),
    ],
)
def test_options_are_checked_before_anything_is_loaded(options, words, registered):
    registered(Family("mine:NAME", "my own", load, ids="mine:.+"))
    with pytest.raises(WhymaskError, match=words):
        whymask.load("mine:a", **options)


def test_an_error_of_the_loader_is_its_own(registered):
    def fails(name):
        raise TypeError("a bad argument deep inside")

    registered(Family("mine:NAME", "my own", fails, ids="mine:.+"))
    with pytest.raises(TypeError, match="a bad argument deep inside"):
        whymask.load("mine:a")
    with pytest.raises(WhymaskError, match="mine:a has no options, so 'size' is unknown"):
        whymask.load("mine:a", size=3)


@pytest.mark.parametrize("loader", ["no_such_package:load", "json:no_such_function"])
def test_a_loader_that_is_not_there_is_one_sentence(loader, registered):
    registered(Family("mine", "my own", loader))
    with pytest.raises(WhymaskError, match=r"^the loader of mine cannot be imported: .*no_such_"):
        whymask.load("mine")


def test_what_an_option_is_required_for():
    with pytest.raises(WhymaskError, match=r"^openai:some/model: the option 'base_url' is required\.$"):
        whymask.load("openai:some/model")


def test_how_packages_are_installed():
    assert FAMILIES["clip:ARCH/WEIGHTS"].install == "pip install 'whymask[clip]'"
    assert Family("mine", "my own", load, ("my_net",), pip="my-net").install == "pip install my-net"
    assert FAMILIES["timm:NAME"].install == "pip install timm"
    assert FAMILIES["tiny-qwen"].install == "pip install 'whymask[hf]'"


def test_an_installed_package_adds_a_family(tmp_path):
    """By its entry point, with no line of code in the caller's program."""
    (tmp_path / "rows.py").write_text(MODULE)
    info = tmp_path / "rows-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rows\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[whymask.models]\nrows = rows:FAMILY\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    def command(*words):
        arguments = [sys.executable, "-m", "whymask", *words]
        return subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)

    listed = json.loads(command("models", "--json").stdout)["models"]
    assert {"name": "row:NUMBER", "summary": "how bright a row is", "needs": [], "installed": True} in listed
    options = ["--regions", "grid:2x2", "--method", "greedy", "--json", "--out", str(tmp_path / "out")]
    found = command("explain", "scene:12", "--model", "row:3", "--model-option", "sharpness=0.5", *options)
    assert json.loads(found.stdout)["provenance"]["model"] == "row 3", found.stderr
