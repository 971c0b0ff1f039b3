import re
import tomllib
from pathlib import Path

import pytest

from whymask import WhymaskError
from whymask.bench.config import config, read_config
from whymask.data.photos import Photos

ROOT = Path(__file__).parents[2]
LEAST = {"models": ["efficientnet-lite0"], "methods": ["greedy"], "photos": {"source": "photos"}}


def test_the_least_configuration_is_the_papers():
    made = config(LEAST, name="x")
    assert [split.name for split in made.splits] == ["correct", "cause", "repair"]
    assert [split.emphasis for split in made.splits] == ["ins", "ins", "high"]
    assert made.sources == {"photos": Photos("photos", correct=5000, wrong=2000, seed=0)}
    assert (made.regions, made.fill, made.resize, str(made.out)) == ("slico:64", "black", "own", "runs/x")
    assert made.methods[0].seeds == (0,)


def test_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("""
models = ["efficientnet-lite0", {id = "clip:RN101/openai", name = "RN101", options = {device = "cuda"}}]
methods = ["greedy", {name = "T", method = "trace+greedy", params = {k = 4}, seeds = [3]}]
seeds = [0, 1]
regions = "grid:4x4"

[splits]
mine = {manifest = "cases.jsonl", draw = 10}
repope = {manifest = "wrong.jsonl"}
""")
    made = read_config(file)
    assert [(m.id, m.name, dict(m.options)) for m in made.models] == [
        ("efficientnet-lite0", "efficientnet-lite0", {}),
        ("clip:RN101/openai", "RN101", {"device": "cuda"}),
    ]
    assert [(m.name, m.recipe.name, m.recipe.params, m.seeds) for m in made.methods] == [
        ("greedy", "greedy", {}, (0, 1)),
        ("T", "trace+greedy", {"k": 4}, (3,)),
    ]
    assert [(s.name, s.manifest, s.draw, s.emphasis) for s in made.splits] == [
        ("mine", "cases.jsonl", 10, "ins"),
        ("repope", "wrong.jsonl", None, "high"),
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"region": "grid:4x4"}, "unknown key in the configuration: 'region'; did you mean 'regions'?"),
        ({"models": []}, "the configuration needs a list of models."),
        ({"models": [{"name": "x"}]}, "an entry of models needs 'id'."),
        ({"models": [3]}, "an entry of models must be a table, not 3."),
        ({"methods": [{"method": "trace", "param": {}}]},
         "unknown key in an entry of methods: 'param'; did you mean 'params'?"),
        ({"methods": [{"method": "trace", "params": {"q": 1}}]}, "unknown parameter of trace 'q'; known: "),
        ({"methods": ["greedy", "greedy"]}, "two methods are called 'greedy'; give one another name."),
        ({"seeds": 3}, "seeds in the configuration must be a list of whole numbers, not 3."),
        ({"seeds": [-1]}, "each of seeds must be a whole number of at least 0, not -1."),
        ({"together": 0}, "together must be a whole number of at least 1, not 0."),
        ({"regions": 64}, "regions in the configuration must be text, not 64."),
        ({"regions": "slic:64"}, "regions is 'slico:64', 'grid:8x8' or the path of a label map, not 'slic:64'."),
        ({"fill": "blck"}, "unknown fill 'blck'; did you mean 'black'?"),
        ({"resize": "crop"}, "unknown resize 'crop'"),
        ({"photos": {}}, "[photos] needs 'source'."),
        ({"photos": {"source": "x", "corect": 1}}, "unknown key in [photos]: 'corect'; did you mean 'correct'?"),
        ({"splits": {"mine": {}}}, "the split 'mine' needs a manifest."),
        ({"splits": {"repope": {}}}, "the split 'repope' needs 'questions' or a manifest."),
        ({"objects": 3}, "[objects] must be a table, not 3."),
        ({"questions": {}}, "[questions] needs a file and the folder of its images, or a number of scenes."),
        ({"questions": {"file": "x.json", "scenes": 3}}, "[questions] needs a file and the folder of its images, or"),
        ({"questions": {"scenes": 3, "sampling": "popula"}}, "unknown sampling 'popula'; did you mean 'popular'?"),
        ({"questions": {"scenes": 3, "prompt": "vqa"}}, "the prompt in [questions] must be 'plain' or a text with {"),
        ({"splits": {"cause": {"emphasis": "hig"}}}, "unknown emphasis 'hig'; did you mean 'high'?"),
        ({"splits": {}}, "the configuration names nothing to explain"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change, told):
    with pytest.raises(WhymaskError) as error:
        config({**LEAST, **change})
    assert str(error.value).startswith(told)


def test_a_split_of_photos_needs_photos():
    with pytest.raises(WhymaskError, match=r"the split 'cause' needs 'photos' or a manifest"):
        config({"models": ["m"], "methods": ["greedy"], "splits": {"cause": {}}})


def test_a_file_that_is_no_configuration(tmp_path):
    with pytest.raises(WhymaskError, match="cannot be read: No such file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_text("models = [")
    with pytest.raises(WhymaskError, match="is not TOML"):
        read_config(tmp_path / "x.toml")


@pytest.mark.parametrize("file", sorted((ROOT / "configs").rglob("*.toml")), ids=lambda file: file.stem)
def test_the_configurations_at_hand_are_right(file):
    made = read_config(file)
    assert str(made.out) == f"runs/{file.stem}"
    # The systems the paper follows squash photos; what its multimodal models do is their own.
    assert (made.resize == "squash") == (file.parent.name == "paper" and "photos" in made.sources)


def test_the_configuration_of_the_page_is_right():
    (block,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "bench.md").read_text(), re.DOTALL)
    made = config(tomllib.loads(block))
    assert [split.name for split in made.splits] == ["correct", "repope", "mine"]


@pytest.mark.parametrize("name", ["qwen", "llava", "qwen-profile", "llava-profile"])
def test_the_multimodal_models_of_the_paper_are_asked_as_eagle_asks(name):
    made = read_config(ROOT / "configs" / "paper" / f"{name}.toml")
    assert made.sources["questions"].prompt.format(question="Is there a dog in the image?") == (
        'You are asked a visual question answering task. \nFirst, answer strictly with "Yes" or "No". \n'
        "Then, provide a short explanation if necessary.\n\nQuestion: Is there a dog in the image?\nAnswer:"
    )
    assert made.models[0].options["max_side"] == {"qwen": 448, "llava": 336}[name.partition("-")[0]]
    draws = {"qwen": (300, 270), "llava": (300, 300)}.get(name, (100,))
    assert tuple(split.draw for split in made.splits) == draws


def test_several_fills_are_a_setting_and_one_fill_is_what_it_was():
    """The keys of records hash these settings: those of one fill must not change."""
    assert config(LEAST).case == {"regions": "slico:64", "fill": "black", "resize": "own", "batch_size": None}
    several = config({**LEAST, "fill": "black,blur", "over_fills": "min"}).case
    assert (several["fill"], several["over_fills"]) == ("black,blur", "min")
    with pytest.raises(WhymaskError, match="unknown fill 'blu'"):
        config({**LEAST, "fill": "black,blu"})
