"""Multimodal models beside transformers' own forward: time per masked image, per explanation, and memory.

The real architectures with random weights, built on the device from the configurations below: speed does not depend on
the weights. Every row is warmed up; compiling is timed apart. "bare" is transformers' model on a batch that lies ready,
"plain" a loop over masks, one at a time: mask the pixels, image processor, forward, softmax.

Run: python benchmarks/mllm_speed.py --device cuda [--models qwen llava] [--out mllm.json] | --tiny
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from skimage.data import astronaut
from tokenizers import Tokenizer, models, pre_tokenizers

import whymask
from whymask.explainer.case import Case
from whymask.methods import Recipe
from whymask.models.llava import Llava
from whymask.models.qwen2_5_vl import Qwen25VL

QUESTION = (
    "You are asked a question about the image . Begin your reply strictly with Yes or No , then explain in one short "
    "sentence . Question : is there a dog in the image ? Answer :"
)
SYSTEM = "You are a helpful assistant ."
SLOTS = {"qwen": "<|image_pad|>", "llava": "<image>"}
ASKED = "{{ messages[0]['content'][1]['text'] }}"
TEMPLATES = {
    "qwen": f"<|im_start|> system {SYSTEM} <|im_end|> <|im_start|> user <|vision_start|> <|image_pad|> <|vision_end|> "
    f"{ASKED} <|im_end|> <|im_start|> assistant ",
    "llava": f"USER : <image> {ASKED} ASSISTANT :",
}


def tokenizer(kind: str):
    """Words of the prompt, about as many tokens as the real tokenizers make of it."""
    words = dict.fromkeys(f"<unk> {SYSTEM} {QUESTION} system user assistant USER ASSISTANT Yes No".split())
    bare = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    bare.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="<unk>")
    marks = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<image>"]
    fast.add_special_tokens({"additional_special_tokens": marks})
    fast.chat_template = TEMPLATES[kind]
    return fast


def qwen_config(tiny: bool, image_token: int):
    """Qwen2.5-VL-3B-Instruct."""
    text = {
        "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 128000, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    }  # fmt: skip
    vision = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048}
    if tiny:
        text |= {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2}
        vision |= {"depth": 8, "hidden_size": 64, "intermediate_size": 100, "num_heads": 2, "out_hidden_size": 256}
    return transformers.Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, image_token_id=image_token, tie_word_embeddings=True
    )


def llava_config(tiny: bool, image_token: int):
    """llava-1.5-7b-hf."""
    text = {"vocab_size": 32064, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
    vision = {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "image_size": 336, "patch_size": 14, "projection_dim": 768,
    }  # fmt: skip
    if tiny:
        text |= {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2}
        vision |= {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**text), vision_config=transformers.CLIPVisionConfig(**vision),
        image_token_index=image_token, vision_feature_layer=-2, vision_feature_select_strategy="default",
    )  # fmt: skip


class Subject:
    """One architecture: the stock module first, whymask's model of it afterwards."""

    def __init__(self, kind: str, options: argparse.Namespace) -> None:
        self.kind, self.device, self.batch = kind, options.device, options.batch
        self.words = tokenizer(kind)
        image_token = self.words.convert_tokens_to_ids(SLOTS[kind])
        classes = {
            "qwen": (transformers.Qwen2_5_VLForConditionalGeneration, qwen_config),
            "llava": (transformers.LlavaForConditionalGeneration, llava_config),
        }
        build, config = classes[kind]
        dtype = torch.float32 if self.device == "cpu" else torch.bfloat16 if kind == "qwen" else torch.float16
        torch.manual_seed(0)
        with torch.device(self.device):
            self.module = build._from_config(config(options.tiny, image_token), dtype=dtype).eval()
        self.weights = sum(p.numel() * p.element_size() for p in self.module.parameters())
        size = {"shortest_edge": 336}, {"height": 336, "width": 336}
        self.processor = (
            transformers.Qwen2VLImageProcessorPil()
            if kind == "qwen"
            else transformers.CLIPImageProcessorPil(size=size[0], crop_size=size[1])
        )
        self.photo = astronaut()

    def wrapped(self):
        """whymask's model; the module's norms and widths are replaced from here on."""
        family = Qwen25VL if self.kind == "qwen" else Llava
        name = f"{self.kind}, random weights"
        return family(self.module, self.processor, self.words, name=name, device=self.device, compile=False)

    def stock(self, pixels, **options):
        """transformers' own forward on processed images: logits at the last position."""
        text = self.words.apply_chat_template(
            [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}], tokenize=False
        )
        side = self.photo_size() // 14
        count = (side // 2) ** 2 if self.kind == "qwen" else side**2
        batch = len(pixels)
        ids = self.words.encode(text.replace(SLOTS[self.kind], SLOTS[self.kind] * count), add_special_tokens=False)
        ids = torch.tensor([ids] * batch, device=self.device)
        more = {}
        if self.kind == "qwen":
            pixels = pixels.flatten(0, 1)
            more["image_grid_thw"] = torch.tensor([[1, side, side]] * batch, device=self.device)
            more["mm_token_type_ids"] = (ids == self.module.config.image_token_id).int()
        with torch.inference_mode():
            return self.module(input_ids=ids, pixel_values=pixels, use_cache=False, **more, **options).logits[:, -1]

    def photo_size(self) -> int:
        return 448 if self.kind == "qwen" else 336

    def process(self, image):
        """An image on the grid through the image processor."""
        values = self.processor(images=image, return_tensors="pt")["pixel_values"]
        values = values[None] if self.kind == "qwen" else values
        return values.to(self.device, self.module.dtype)


def wait(device: str) -> None:
    """Let the device finish."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def timed(function, device: str, repeats: int) -> float:
    """Best seconds of some calls after two to warm up: the machine may be shared."""
    times = []
    for _ in range(repeats + 2):
        wait(device)
        start = time.perf_counter()
        function()
        wait(device)
        times.append(time.perf_counter() - start)
    return min(times[2:])


def measure(kind: str, options: argparse.Namespace, report: dict) -> None:
    """All rows of one model, printed as they are known."""
    subject, device, batch = Subject(kind, options), options.device, options.batch
    repeats = 2 if device == "cpu" else 8
    size = subject.photo_size()
    canvas = np.asarray(whymask.images.imaging.load_image(subject.photo).resize((size, size)))
    report["weights_gb"] = subject.weights / 1e9

    def tell(row: str, **values: float) -> None:
        report[row] = values
        cells = [values.get(name) for name in COLUMNS]
        shown = " | ".join("" if v is None else f"{v:.2f}" for v in cells)
        print(f"| {kind} | {row} | {shown} |", flush=True)

    pixels = subject.process(canvas).expand(batch, *[-1] * (3 if kind == "llava" else 2))
    bare = timed(lambda: subject.stock(pixels, logits_to_keep=1), device, repeats) / batch
    tell(f"bare transformers, batch {batch}", ms=bare * 1e3)

    rng = np.random.default_rng(0)
    labels = np.arange(size * size).reshape(size, size) // (size * size // 64 + 1)

    def one_mask() -> None:
        masked = np.where((rng.random(64) < 0.2)[labels][..., None], canvas, 0).astype(np.uint8)
        subject.stock(subject.process(masked)).float().softmax(dim=-1)[:, 0].cpu()

    plain = timed(lambda: [one_mask() for _ in range(4)], device, repeats // 2) / 4
    tell("plain loop, one mask at a time", ms=plain * 1e3, trace_s=160 * plain)

    rows = rng.random((batch, 64)) < 0.3
    stock_logits = subject.stock(pixels_of(subject, canvas, labels, rows), logits_to_keep=1).float()
    model = subject.wrapped()

    def ours(row: str, size: int) -> None:
        case = Case.of(subject.photo, model, target=0, question=QUESTION, batch_size=size)
        masks = np.random.default_rng(1).random((size, case.partition.n)) < 0.2
        bounds = [case.bound] * size
        ms = timed(lambda: model.respond(case.inputs(masks), bounds), device, repeats) / size * 1e3
        for seed in (1, 0):  # the first warms up
            wait(device)
            start = time.perf_counter()
            case = Case.of(subject.photo, model, target=0, question=QUESTION, batch_size=size)
            found = case.search(Recipe("trace", {"k": 10}), [seed])[0]
            seconds = time.perf_counter() - start
            if size == 1:
                break
        peak = found.provenance.get("peak_memory")
        tell(row, ms=ms, trace_s=seconds, forwards=found.ledger.mec, plain=160 * plain / seconds,
             memory=None if peak is None else peak / subject.weights)  # fmt: skip

    ours(f"whymask, batch {batch}", batch)
    logits = {"bf16, ours": ours_logits(model, canvas, labels, rows)}
    if options.compile:
        model.compile()
        case = Case.of(subject.photo, model, target=0, question=QUESTION)
        start = time.perf_counter()
        for count in (batch, batch - 1):  # one batch may be compiled for its very size, the next for any
            masks = np.random.default_rng(2).random((count, case.partition.n)) < 0.2
            model.respond(case.inputs(masks), [case.bound] * count)
        wait(device)
        report["compile_s"] = time.perf_counter() - start
        print(f"| {kind} | compiling took {report['compile_s']:.1f} s | | | | | |", flush=True)
        ours(f"whymask, compiled, batch {batch}", batch)
        logits["bf16, ours, compiled"] = ours_logits(model, canvas, labels, rows)
        model.uncompile()
    ours("whymask, batch 1", 1)
    if kind == "qwen":
        subject.module.float()
        parts = [pixels_of(subject, canvas, labels, some) for some in np.array_split(rows, 4)]
        truth = torch.cat([subject.stock(part, logits_to_keep=1) for part in parts])
        report["scores"] = rounding(truth, {"bf16, transformers": stock_logits, **logits})


def pixels_of(subject: Subject, canvas, labels, rows):
    """Masked images through the image processor, as one batch."""
    masked = [np.where(row[labels][..., None], canvas, 0).astype(np.uint8) for row in rows]
    return torch.cat([subject.process(image) for image in masked])


def ours_logits(model, canvas, labels, rows):
    """Logits of the first answer token for masked images, by whymask's path."""
    case = Case.of(canvas, model, target=0, question=QUESTION, regions=labels, batch_size=len(rows))
    with torch.no_grad():
        bounds = [case.bound] * len(rows)
        hidden, _ = model._read(model.see(case.inputs(rows), canvas.shape[:2]), bounds, [()] * len(rows))
        return model.module.lm_head(hidden[:, -1]).float()


def rounding(truth, others: dict) -> dict:
    """How far scores are from fp32's, once logits are scaled until the likeliest answer has 0.7 on average.

    Random weights answer almost evenly, so their scores as they are would hide every difference.
    """
    low, high = 1.0, 1e4
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if (middle * truth).softmax(-1).max(-1)[0].mean() < 0.7 else (low, middle)
    target = truth.argmax(dim=-1, keepdim=True)
    expected = (low * truth).softmax(-1).gather(1, target)
    found = {}
    for name, logits in others.items():
        error = ((low * logits.float()).softmax(-1).gather(1, target) - expected).abs()
        found[name] = {"mean": error.mean().item(), "max": error.max().item()}
        print(
            f"score error against fp32, {name}: mean {found[name]['mean']:.4f}, max {found[name]['max']:.4f}",
            flush=True,
        )
    return found


COLUMNS = {
    "ms": "ms per masked image", "trace_s": "TRACE, s per image", "forwards": "forwards",
    "plain": "times the plain loop", "memory": "peak memory / weights",
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["qwen", "llava"], choices=["qwen", "llava"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tiny", action="store_true", help="small models, to see the script run")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "batch": options.batch,
    }
    print(f"| model | row | {' | '.join(COLUMNS.values())} |\n|---|---|{'---|' * len(COLUMNS)}", flush=True)
    for kind in options.models:
        measure(kind, options, results.setdefault(kind, {}))
        if options.out:
            options.out.write_text(json.dumps(results, indent=1))
        if options.device.startswith("cuda"):
            torch.cuda.empty_cache()
