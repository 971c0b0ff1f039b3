"""Any multimodal model beside transformers' own forward: images per second of the generic path.

Real architectures with random weights, built on the device, and processors with the published settings: speed does not
depend on the weights. "transformers" is its own forward on inputs that lie ready, "whymask" makes masked images, their
inputs, a forward and the answer's probability, both at their best batch size and measured in turn. "plain loop" masks,
processes and runs one image at a time, "search" is TRACE with its own batches. A model named with /pil or /torchvision
has the image processor that runs on it; transformers chooses one by itself for the others.

Run: python benchmarks/image_text_speed.py --device cuda [--models qwen3_vl gemma3] [--out speed.json] | --tiny
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from mllm_speed import wait
from PIL import Image
from skimage.data import astronaut

import whymask
from whymask.explainer.case import Case
from whymask.methods import Recipe
from whymask.models.batching import is_out_of_memory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from models.families import FAMILIES, Family, awaken, load_processor

QUESTION = "Is there a dog on the sofa ? Answer with Yes or No ."
SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
REAL = {
    "qwen3_vl": {  # Qwen3-VL-4B-Instruct
        "tie_word_embeddings": True, "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>",
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True,
                                "mrope_section": [24, 20, 20]},
        },
        "vision_config": {
            "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "out_hidden_size": 2560,
            "patch_size": 16, "num_position_embeddings": 2304, "deepstack_visual_indexes": [5, 11, 17],
        },
    },
    "internvl": {  # InternVL3-2B
        "image_seq_length": 256, "image_token_id": "<IMG_CONTEXT>",
        "text_config": {
            "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
            "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151674,
        },
        "vision_config": {
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
            "image_size": [448, 448], "patch_size": [14, 14],
        },
    },
    "idefics3": {  # SmolVLM-Instruct, 2.2B
        "scale_factor": 3, "image_token_id": "<image>",
        "text_config": {
            "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
            "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 64, "vocab_size": 49280,
        },
        "vision_config": {"model_type": "idefics3_vision", **SIGLIP, "image_size": 384, "patch_size": 14},
    },
    "gemma3": {  # gemma-3-4b-it
        "mm_tokens_per_image": 256, "image_token_id": "<image_soft_token>",
        "boi_token_id": "<start_of_image>", "eoi_token_id": "<end_of_image>",
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "num_attention_heads": 8,
            "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024, "vocab_size": 262208,
        },
        "vision_config": {"model_type": "siglip_vision_model", **SIGLIP, "image_size": 896, "patch_size": 14},
    },
}  # fmt: skip
TINY = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 32,
    "num_key_value_heads": 2, "depth": 2, "num_heads": 2, "out_hidden_size": 64, "deepstack_visual_indexes": [0, 1],
    "vocab_size": 2000, "mrope_section": [6, 5, 5],
}  # fmt: skip
IMAGES = {
    "qwen3_vl": {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 65536, "longest_edge": 16777216}},
    "internvl": {"size": {"height": 448, "width": 448}, "crop_to_patches": True, "min_patches": 1, "max_patches": 12},
    "idefics3": {"size": {"longest_edge": 1536}, "max_image_size": {"longest_edge": 384}},
    "gemma3": {"size": {"height": 896, "width": 896}},
}
PROCESSORS = {
    "internvl": {"image_seq_length": 256},
    "idefics3": {"image_seq_len": 81},
    "gemma3": {"image_seq_length": 256},
}
ROWS = [f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)]  # of SmolVLM's tiles


def shrunk(config: dict) -> dict:
    """A configuration with small widths, to see the script run; images and tokens keep their number."""
    return {name: shrunk(value) if isinstance(value, dict) else TINY.get(name, value) for name, value in config.items()}


def family(kind: str) -> Family:
    """What the processor is made of: the tiny checkpoint's, with the published settings."""
    tiny = FAMILIES[kind]
    tokens = tiny.tokens | ({"plain": [*tiny.tokens["plain"], *ROWS]} if kind == "idefics3" else {})
    return replace(tiny, tokens=tokens, image=IMAGES[kind], processor=PROCESSORS.get(kind, {}))


class Subject:
    """One architecture, its processor and a photo of 640 x 480 pixels."""

    def __init__(self, name: str, device: str, tiny: bool) -> None:
        kind, _, backend = name.partition("/")
        self.device, parts = device, family(kind)
        words = parts.tokenizer()
        words.chat_template = parts.chat
        config = configuration(kind, words, tiny)
        with TemporaryDirectory() as folder:
            words.save_pretrained(folder)
            config.save_pretrained(folder)  # names the family
            parts._describe(Path(folder))
            self.processor = load_processor(Path(folder))
            if backend:
                self.processor.image_processor = transformers.AutoImageProcessor.from_pretrained(
                    folder, backend=backend
                )
        torch.manual_seed(0)
        with torch.device(device):
            dtype = torch.float32 if device == "cpu" else torch.bfloat16
            self.module = transformers.AutoModelForImageTextToText.from_config(config, dtype=dtype).eval()
            awaken(self.module)  # some projectors begin with zeros
        self.module.generation_config.eos_token_id = words.eos_token_id
        self.photo = Image.fromarray(astronaut()[:384]).resize((640, 480), Image.Resampling.BICUBIC)

    def inputs(self, image: Image.Image) -> dict:
        """The inputs of an image by the family's own processor."""
        content = [{"type": "image", "image": image}, {"type": "text", "text": QUESTION}]
        made = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True, return_dict=True,
            return_tensors="pt",
        )  # fmt: skip
        return dict(made.to(self.device, self.module.dtype))

    def forward(self, inputs: dict) -> torch.Tensor:
        """Logits (B, tokens) at the last position."""
        with torch.inference_mode():
            return self.module(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1]


def configuration(kind: str, words, tiny: bool):
    """The published configuration with the ids of this tokenizer's special tokens."""
    config = shrunk(REAL[kind]) if tiny else REAL[kind]
    config = {name: words.convert_tokens_to_ids(value) if isinstance(value, str) else value
              for name, value in config.items()}  # fmt: skip
    ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    return transformers.CONFIG_MAPPING[kind](**{**config, "text_config": {**config["text_config"], **ends}})


def seconds(function, device: str) -> float:
    """The time of a call, all work of the device included."""
    wait(device)
    start = time.perf_counter()
    function()
    wait(device)
    return time.perf_counter() - start


def beside(subject: Subject, case: Case, one: dict, batches) -> dict[str, float]:
    """Images per second of transformers' forward and of whymask in turn; the first of the batches warms up."""
    size, times = batches.shape[1], []
    ready = {name: torch.cat([part] * size) for name, part in one.items()}
    for rows in batches:

        def ours(rows=rows) -> None:
            case.model.respond(case.inputs(rows), [case.bound] * size)

        times.append([seconds(run, subject.device) for run in (lambda: subject.forward(ready), ours)])
    rates = (size / np.median(times[1:], axis=0)).tolist()
    return dict(zip(("transformers", "whymask"), rates, strict=True))


def measure(kind: str, options: argparse.Namespace) -> dict:
    """Images per second of one model in every way."""
    device, rng = options.device, np.random.default_rng(0)
    subject = Subject(kind, device, options.tiny)
    parameters = sum(part.numel() for part in subject.module.parameters())
    model = whymask.wrap(subject.module, subject.processor)
    case = Case.of(subject.photo, model, target="Yes", question=QUESTION)
    one = subject.inputs(Image.fromarray(case.bound.canvas))
    found = {
        "parameters": parameters, "tokens": one["input_ids"].shape[1], "canvas": list(case.bound.canvas.shape[:2]),
        **case.bound.settings, "processor": str(model.processing.device), "answers": model.settings["answers"],
        "batches": model.settings["batches"], "rates": {},
    }  # fmt: skip

    for size in options.batches:
        rows = rng.random((options.repeats + 1, size, case.partition.n)) < 0.5
        try:
            found["rates"][size] = rates = beside(subject, case, one, rows)
        except Exception as error:  # of any library
            if not is_out_of_memory(error):
                raise
            break
        print(kind, found["processor"], size, {name: round(rate, 2) for name, rate in rates.items()}, flush=True)

    def plain(row) -> float:
        image = np.where(row[case.partition.labels][..., None], case.bound.canvas, case.bound.fill)
        logits = subject.forward(subject.inputs(Image.fromarray(image)))
        return float(logits[0].float().softmax(dim=-1)[list(case.bound.answer.wanted[0])].sum())

    rows = rng.random((8, case.partition.n)) < 0.5
    scores = model.respond(case.inputs(rows), [case.bound] * 8).score
    found["agreement"] = float(np.abs([plain(row) for row in rows] / scores - 1).max())
    found["plain loop"] = 1 / median(seconds(lambda row=row: plain(row), device) for row in rows)
    for name in ("transformers", "whymask"):
        found[name] = max(rates[name] for rates in found["rates"].values())
    found |= {
        "whymask / transformers": found["whymask"] / found["transformers"],
        "whymask / plain loop": found["whymask"] / found["plain loop"],
    }
    if options.search:
        case = Case.of(subject.photo, model, target="Yes", question=QUESTION)
        taken = seconds(lambda: found.update(forwards=case.search(Recipe("trace", {"k": 10}))[0].ledger.mec), device)
        found["search"] = found["forwards"] / taken
    return found


NAMES = [*REAL, *(f"{kind}/{backend}" for kind in REAL for backend in ("pil", "torchvision"))]
COLUMNS = ["transformers", "whymask", "plain loop", "search", "whymask / transformers", "whymask / plain loop"]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=list(REAL), choices=NAMES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batches", nargs="+", type=int, default=[8, 16, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-search", dest="search", action="store_false")
    parser.add_argument("--tiny", action="store_true", help="small models, to see the script run")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU",
        "torch": torch.__version__, "transformers": transformers.__version__, "models": {},
    }  # fmt: skip
    for kind in options.models:
        start = time.perf_counter()
        results["models"][kind] = found = measure(kind, options)
        found["seconds"] = time.perf_counter() - start
        print(kind, {name: round(found[name], 2) for name in COLUMNS if name in found}, found, flush=True)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
        if options.device.startswith("cuda"):
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
