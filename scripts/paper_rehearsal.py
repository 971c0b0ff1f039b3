"""Run every configuration of configs/paper on stand-ins: random weights, made-up photos and questions.

The configurations name checkpoints and data by relative paths and hub ids. This script makes a folder where those names
lead to stand-ins, and runs there the commands that produce the paper's tables: nothing is downloaded. The weights are
random, but multimodal models answer Yes or No, and half of all questions and photos are labelled against the model's
answer, so that no split is empty. The numbers mean nothing, except for time and memory, which do not depend on weights.

Run: python -m scripts.paper_rehearsal --size full --device cuda                     (the true architectures)
     python -m scripts.paper_rehearsal --only qwen llava clip-vit-l14 --quick  (small ones, on a CPU)
     python -m scripts.paper_rehearsal --size full --device cuda --only qwen-profile --regions slico:64 --draw 3 --show
"""

import argparse
import gc
import io
import json
import os
import re
import sys
import tempfile
import time
import tomllib
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from typing import Any, TextIO

import numpy as np
import torch
import transformers
from benchmarks.mllm_speed import llava_config, qwen_config
from PIL import Image
from tokenizers.pre_tokenizers import Whitespace

import whymask
from whymask.bench.config import Config, read_config
from whymask.bench.table import read
from whymask.cli import app
from whymask.data.pope import Question, ask, write_questions
from whymask.models import Model
from whymask.models.llava import Llava
from whymask.models.qwen2_5_vl import Qwen25VL
from whymask.models.tiny import CHECKPOINTS
from whymask.models.towers import TowerMllm

CONFIGS = Path(__file__).parents[1] / "configs" / "paper"
PHOTOS, QUESTIONS, LABELS = Path("data/coco/val2014"), Path("data/pope"), Path("data/imagenet/val")
CLASSES = ["dog", "cat", "cup", "chair", "car", "bird", "boat", "tree"]  # embedding 80,000 texts would take minutes
QUICK = {  # by method, or by the first stage of one
    "igos++": {"iterations": 1, "ig_steps": 2},  # on language models a graph at a time
    "llava-cam": {"copies": 4},
    "rise": {"masks": 64},
    "hsic": {"designs": 64},
    "trace": {"k": 4, "samples": 8, "rounds": 2},
    "trace-seed": {"k": 4, "samples": 8, "rounds": 2},
}
SMALL = {  # fewer and narrower layers than the checkpoints of the package have
    "qwen": {
        "text_config": {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2, "intermediate_size": 64},
        "vision_config": {"depth": 2, "fullatt_block_indexes": [1], "intermediate_size": 64},
    },
    "llava": {
        "text_config": {"num_hidden_layers": 2, "intermediate_size": 64},
        "vision_config": {"num_hidden_layers": 3, "intermediate_size": 64},
    },
}


def main() -> None:
    """Rehearse the configurations; exits with 1 where one of them fails."""
    names = sorted(file.stem for file in CONFIGS.glob("*.toml"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("tiny", "full"), default="tiny", help="of the models")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--regions", default="slico:25", help="the paper's are slico:64; some masks have 20 regions")
    parser.add_argument("--quick", action="store_true", help="less work for the slowest methods: as much memory")
    parser.add_argument("--draw", type=int, default=2, help="samples per split")
    parser.add_argument("--folder", type=Path, help="keep everything here; by default a folder that is removed")
    parser.add_argument("--show", action="store_true", help="print the commands and what they print")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        failed = rehearse(options.folder or Path(folder), options)
    sys.exit(1 if failed else 0)


def rehearse(folder: Path, options: argparse.Namespace) -> list[str]:
    """The names of configurations that failed; a line is printed for each of all."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"TORCH_HOME": str(folder.resolve()), "XDG_CACHE_HOME": str(folder.resolve() / "cache")}
    failed = []
    with chdir(folder):
        make_photos(2 * options.draw)
        for name in options.only:
            start, printed = time.perf_counter(), sys.stdout if options.show else io.StringIO()
            try:
                rows = Rehearsal(name, options, printed).run()
                outcome = f"ok      {time.perf_counter() - start:6.1f} s  {rows} rows"
            except Exception as error:
                failed.append(name)
                outcome = f"failed  {time.perf_counter() - start:6.1f} s  {type(error).__name__}: {error}"
            print(f"{name:14} {outcome}", flush=True)
            gc.collect()
            if options.device.startswith("cuda"):
                torch.cuda.empty_cache()
    return failed


@dataclass
class Rehearsal:
    """One configuration; everything is relative to the working directory."""

    name: str
    options: argparse.Namespace
    printed: TextIO

    def run(self) -> int:
        """Make what the configuration names, run its commands, count the rows of its table."""
        given = (CONFIGS / f"{self.name}.toml").read_text()
        file, run = f"configs/paper/{self.name}.toml", f"runs/{self.name}"
        table = self.adapted(tomllib.loads(given))
        write(Path(file), "".join(f"{key} = {as_toml(value)}\n" for key, value in table.items()))
        config = read_config(file)
        self.make(config)
        profile = "--profile" in given  # its comments name the commands
        self.whymask("bench", "run", file, "--quiet")
        self.whymask("bench", "table", run, *(["--profile"] if profile else ["--against", "greedy"]))
        named = re.search(r"bench ablate (\S+)", given)
        for ablation in named[1].split("|") if named else ():
            self.whymask("bench", "ablate", ablation, file, "--quiet")
        if not profile:
            self.whymask("bench", "tail", run)
        if "keep" in table:
            self.whymask("bench", "figure", run)
        rows = len(read([run]).lines)
        if rows != len(config.methods) * len(config.splits):
            raise RuntimeError(f"{rows} rows for {len(config.methods)} methods on {len(config.splits)} splits")
        return rows

    def adapted(self, table: dict[str, Any]) -> dict[str, Any]:
        """The configuration with this device, fewer regions and fewer samples."""
        options, (model,) = self.options, table["models"]
        model["options"]["device"] = options.device
        if "clip" in model["id"]:
            model["options"] |= {"classes": CLASSES, "templates": ["a photo of a {}.", "a drawing of a {}."]}
        model["id"] = re.sub("(clip:.*)/.*", r"\1/weights.pt", model["id"])  # open_clip takes the path of a file too
        for split in table.get("splits", {}).values():
            split["draw"] = options.draw
        methods = [{"method": one} if isinstance(one, str) else one for one in table["methods"]]
        for method in methods:
            if options.quick:
                whole, first = method["method"], method["method"].partition("+")[0]
                method["params"] = {**method.get("params", {}), **QUICK.get(whole, QUICK.get(first, {}))}
        return {**table, "regions": options.regions, "methods": methods}

    def make(self, config: Config) -> None:
        """The checkpoint and the questions or labels of a configuration."""
        (model,) = config.models
        torch.manual_seed(0)
        if "questions" in config.sources:
            make_questions(2 * self.options.draw)
            if not Path(model.id).exists():
                make_mllm(Path(model.id), config.sources["questions"].prompt, self.options)
            return
        kind, _, which = model.id.partition(":")
        if kind == "clip":
            make_open_clip(which)
        elif kind == "torchvision":
            make_torchvision(which)
        elif not Path(model.id).exists():
            make_clip(Path(model.id), self.options.size)
        make_labels(whymask.load(model.id, **model.options))

    def whymask(self, *words: str) -> None:
        """A command in this process; whatever is not 0 is an error."""
        print(f"$ whymask {' '.join(words)}", file=self.printed, flush=True)
        with redirect_stdout(self.printed):
            code = app(list(words), standalone_mode=False)
        if code:
            raise RuntimeError(f"whymask {' '.join(words)} ended with {code}")


def as_toml(value: Any) -> str:
    """A value of a TOML file in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {as_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


def write(file: Path, text: str) -> Path:
    """A text file, and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def make_photos(count: int) -> None:
    """Soft patches of colour, 4:3 as most photos."""
    PHOTOS.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        cells = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(cells).resize((640, 480), Image.Resampling.BICUBIC).save(PHOTOS / f"{number}.png")


def make_questions(images: int) -> None:
    """POPE's file and RePOPE's, shorter: about each photo a question whose answer is yes and one whose answer is no."""
    asked = [
        Question(2 * number + right, f"{number}.png", ask(thing), label)
        for number in range(images)
        for right, (thing, label) in enumerate((("dog", "no"), ("cat", "yes")))
    ]
    QUESTIONS.mkdir(parents=True, exist_ok=True)
    write_questions(QUESTIONS / "coco_pope_adversarial.json", asked)
    write_questions(QUESTIONS / "coco_repope_adversarial.json", asked[:-1])


def make_labels(model: Model) -> None:
    """A list of the photos: every second one with the class that the model prefers, the others with another."""
    lines = []
    for number, photo in enumerate(sorted(PHOTOS.iterdir())):
        answer = model.bind(photo, resize="squash").target.index
        lines.append(f"{os.path.relpath(photo, LABELS.parent)} {(answer + number % 2) % len(model.labels)}")
    write(LABELS, "\n".join(lines))


def make_mllm(folder: Path, prompt: str, options: argparse.Namespace) -> None:
    """A checkpoint of Qwen2.5-VL-3B's or LLaVA-1.5-7B's architecture, or of the small one that ships with the package.

    Tokenizer and chat template are the package's own, which know the words of the prompt besides.
    """
    kind = "qwen" if "qwen" in folder.name.lower() else "llava"
    shipped = CHECKPOINTS / f"tiny-{kind}"
    folder.mkdir(parents=True)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        copy(shipped / name, folder)
    words = json.loads((shipped / "tokenizer.json").read_text())
    known = words["model"]["vocab"]
    for word, _ in Whitespace().pre_tokenize_str(f"{prompt} {ask('dog')} {ask('cat')}"):
        known.setdefault(word, len(known))
    size = len(known)
    for mark in words["added_tokens"]:  # they follow the words
        if mark["content"] not in known:
            mark["id"], size = size, size + 1
    write(folder / "tokenizer.json", json.dumps(words))

    family, build, see = {
        "qwen": (Qwen25VL, transformers.Qwen2_5_VLForConditionalGeneration, transformers.Qwen2VLImageProcessorPil),
        "llava": (Llava, transformers.LlavaForConditionalGeneration, transformers.LlavaImageProcessorPil),
    }[kind]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    image = tokenizer.convert_tokens_to_ids("<|image_pad|>" if kind == "qwen" else "<image>")
    processor = see.from_pretrained(shipped)
    config = json.loads((shipped / "config.json").read_text()) | {"image_token_id": image, "image_token_index": image}
    for part, small in SMALL[kind].items():
        config[part] |= small
    config["text_config"]["vocab_size"], config["tie_word_embeddings"] = size, kind == "qwen"  # as the 3B model
    config = build.config_class.from_dict(config)
    if options.size == "full":
        config = {"qwen": qwen_config, "llava": llava_config}[kind](False, image)
        side = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}, "do_pad": False}
        processor = see(**(side if kind == "llava" else {}))
    half = torch.bfloat16 if kind == "qwen" else torch.float16

    def module() -> Any:
        torch.manual_seed(0)
        with torch.device(options.device):  # billions of weights are drawn there in seconds
            return build._from_config(config, dtype=torch.float32 if options.device == "cpu" else half)

    # A model of this package fuses and pads layers of its module, so another one is saved.
    decided = decide(family(module(), processor, tokenizer, name=kind, device=options.device, compile=False), prompt)
    saved = module()
    with torch.no_grad():
        saved.lm_head.weight[tokenizer.convert_tokens_to_ids(["Yes", "No"])] = decided
    for part in (saved, processor):
        part.save_pretrained(folder)


def decide(model: TowerMllm, prompt: str) -> torch.Tensor:
    """Rows of the head (2, D) for Yes and No that make a random model answer one of them, by the image.

    Both are the mean of the hidden states that are read there, so that they beat all other words, plus or minus a
    direction across it, scaled by how much the image moves the hidden states along it.
    """
    read: list[torch.Tensor] = []
    heard = model.module.lm_head.register_forward_pre_hook(lambda head, given: read.append(given[0][:1].float()))
    for photo in sorted(PHOTOS.iterdir()):
        bound = model.bind(photo, target="Yes", question=prompt.replace("{question}", ask("dog")))
        for inputs in (bound.inputs, bound.fill_inputs):
            model.respond(inputs[None], [bound])
    heard.remove()
    states = torch.cat(read)
    mean = states.mean(dim=0)
    across = torch.randn_like(mean)
    across -= mean * (across @ mean) / (mean @ mean)
    both, either = 25 * mean / (mean @ mean), 2 * across / (states @ across).std()
    return torch.stack([both + either, both - either]).to(model.dtype)


def make_clip(folder: Path, size: str) -> None:
    """A checkpoint of CLIP ViT-L/14's architecture, or of a small one, with a tokenizer of single letters."""
    letters = [*"abcdefghijklmnopqrstuvwxyz.,'"]
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True)
    write(folder / "vocab.json", json.dumps({token: i for i, token in enumerate(vocabulary)}))
    write(folder / "merges.txt", "#version: 0.2\n")
    files = str(folder / "vocab.json"), str(folder / "merges.txt")
    end = len(vocabulary) - 1
    marks = {"vocab_size": 49408, "bos_token_id": end - 1, "eos_token_id": end, "pad_token_id": end}
    text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    sides = {"image_size": 224, "patch_size": 14}
    if size == "tiny":
        text = vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        sides = {"image_size": 64, "patch_size": 16}
    side = sides["image_size"]
    for part in (
        transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config={**text, **marks}, vision_config={**vision, **sides}, projection_dim=text["hidden_size"]
            )
        ),
        transformers.CLIPTokenizer(*files, model_max_length=77),
        transformers.CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}),
    ):
        part.save_pretrained(folder)


def make_open_clip(which: str) -> None:
    """A file of weights for open_clip's architecture."""
    import open_clip

    architecture, _, file = which.partition("/")
    torch.save(open_clip.create_model(architecture).state_dict(), file)


def make_torchvision(architecture: str) -> None:
    """The file that torchvision would download, where it looks for it; residual branches are damped as in training."""
    import torchvision

    module = torchvision.models.get_model(architecture)
    for name, parameter in module.named_parameters():
        if name.endswith("bn3.weight"):
            torch.nn.init.constant_(parameter, 0.2)
    url = torchvision.models.get_model_weights(architecture).DEFAULT.url
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(module.state_dict(), folder / url.rpartition("/")[2])


if __name__ == "__main__":
    main()
