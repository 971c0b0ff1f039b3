"""Train the two small multimodal models that ship with the package, on scenes of `whymask.images.scenes`.

    python training/tiny_mllm.py qwen --device cuda --seconds 130 --out tiny-qwen
    python training/tiny_mllm.py llava --device cuda --seconds 140 --out tiny-llava

Everything runs through the code that later explains them: tower, projection and decoder are the parts of a loaded
model. A linear head on the image tokens learns beside them which objects each token shows, in place of the pretraining
that larger towers have had; it is thrown away. Test scenes are never trained on.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn import functional

from whymask.data import scenes as scene_questions
from whymask.data.pope import ask
from whymask.images import scenes
from whymask.models.llava import Llava
from whymask.models.qwen2_5_vl import Qwen25VL
from whymask.models.registry import load
from whymask.models.towers import TowerMllm

Rows: TypeAlias = NDArray[np.int64]  # (questions, 3): image, object, whether it is there
Found: TypeAlias = dict[str, dict[str, float]]

WORDS = ("Is", "there", "a", "in", "the", "image", "?", "Yes", "No", "user", "assistant", "USER", "ASSISTANT", ":",
         *scenes.OBJECTS)  # fmt: skip
SAMPLINGS = ("random", "popular", "adversarial")
QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)
LLAVA_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}ASSISTANT: {% else %}USER: {% endif %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %} {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


def text(width: int, depth: int) -> dict[str, Any]:
    """The configuration of the decoder, for both families."""
    return {
        "hidden_size": width, "intermediate_size": inner(width), "num_hidden_layers": depth,
        "num_attention_heads": width // 48,
        "num_key_value_heads": width // 48, "max_position_embeddings": 512, "bos_token_id": None,
    }  # fmt: skip


def inner(width: int) -> int:
    """The width of an MLP: a multiple of 128, to which Qwen's tower is padded when it is loaded."""
    return -(-width * 8 // 3 // 128) * 128


def tokenizer(specials: list[str], template: str, words: Sequence[str] = WORDS) -> transformers.PreTrainedTokenizerFast:
    """Whole words; the first special token ends an answer."""
    vocabulary = {word: i for i, word in enumerate(["<unk>", *words])}
    bare = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="<unk>", eos_token=specials[0])
    made.add_special_tokens({"additional_special_tokens": specials})
    made.chat_template = template
    return made


def qwen(
    device: str,
    width: int,
    depth: int,
    *,
    known: Sequence[str] = WORDS,
    name: str = "tiny-qwen",
    patch: int = 8,
    merge: int = 2,
    theta: float = 1e4,
    windowed: int = 2,
) -> Qwen25VL:
    """Qwen2.5-VL: by default patches of 8 pixels, 7 x 7 image tokens; windows of 4 x 4 in every other block.

    Args:
        device: where it will be.
        width: of tower and decoder.
        depth: of each.
        known: words.
        name: of the model.
        patch: pixels a side.
        merge: patches a side of an image token.
        theta: of the decoder's rotations. Rows and columns of the image get the slower two thirds of them: by the
            usual value the decoder can hardly tell columns apart.
        windowed: the period of the blocks, starting with the first, that see windows only.
    """
    words = tokenizer(["<|im_end|>", "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"],
                      QWEN_TEMPLATE, known)  # fmt: skip
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            **text(width, depth), "vocab_size": len(words), "eos_token_id": words.eos_token_id,
            "rope_parameters": {"rope_type": "default", "rope_theta": theta, "mrope_section": [8, 8, 8]},
        },
        vision_config={
            "depth": depth, "hidden_size": width, "intermediate_size": inner(width),
            "num_heads": width // 48, "out_hidden_size": width,
            "patch_size": patch, "spatial_merge_size": merge, "window_size": 4 * patch * merge,
            "fullatt_block_indexes": [i for i in range(depth) if i % windowed],
        },
        tie_word_embeddings=False,
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        vision_start_token_id=words.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=words.convert_tokens_to_ids("<|vision_end|>"),
    )  # fmt: skip
    pixels = {"shortest_edge": scenes.SIZE**2, "longest_edge": scenes.SIZE**2}
    processor = transformers.Qwen2VLImageProcessorPil(patch_size=patch, merge_size=merge, size=pixels)
    module = transformers.Qwen2_5_VLForConditionalGeneration(config)
    module.generation_config.eos_token_id = words.eos_token_id
    return Qwen25VL(module, processor, words, name=name, device=device, compile=False)


def llava(device: str, width: int, depth: int) -> Llava:
    """LLaVA-1.5: a CLIP tower over 8 x 8 patches of 14 pixels, read one layer before its last."""
    words = tokenizer(["</s>", "<image>"], LLAVA_TEMPLATE)
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(
            **text(width, depth), vocab_size=len(words), eos_token_id=words.eos_token_id
        ),
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=width, intermediate_size=3 * width, num_hidden_layers=depth + 1,
            num_attention_heads=width // 48,
            image_size=scenes.SIZE, patch_size=14, projection_dim=64, hidden_act="gelu",
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2, vision_feature_select_strategy="default", tie_word_embeddings=False,
    )  # fmt: skip
    side = scenes.SIZE
    processor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    module = transformers.LlavaForConditionalGeneration(config)
    module.generation_config.eos_token_id = words.eos_token_id
    return Llava(module, processor, words, name="tiny-llava", device=device, compile=False)


FAMILIES = {"qwen": (qwen, 7), "llava": (llava, 8)}  # and image tokens a side


def pixels_to_inputs(model: TowerMllm, pixels: torch.Tensor) -> torch.Tensor:
    """`model.encode` for a batch (B, H, W, 3) on the device."""
    mean, std = (torch.tensor(v, device=pixels.device) for v in (model.processor.image_mean, model.processor.image_std))
    x = ((pixels.float() / 255 - mean) / std).permute(0, 3, 1, 2)  # (B, 3, H, W)
    if isinstance(model, Llava):
        return x.contiguous()
    patch, merge, frames = model.patch, model.merge, model.processor.temporal_patch_size
    side = scenes.SIZE // patch // merge
    x = x.reshape(len(x), 3, side, merge, patch, side, merge, patch).permute(0, 2, 5, 3, 6, 1, 4, 7)
    x = x.reshape(len(x), -1, 3, 1, patch**2).expand(-1, -1, -1, frames, -1)
    return x.reshape(len(x), x.shape[1], 3 * frames, patch**2)


def shared(*shape: int) -> NDArray[np.uint8]:
    """An array in memory that processes share."""
    return np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)


def optimiser_of(weights: Sequence[torch.Tensor], lr: float) -> torch.optim.Optimizer:
    """AdamW, which decays matrices only."""
    return torch.optim.AdamW(
        [{"params": [w for w in weights if w.ndim > 1], "weight_decay": 0.05},
         {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0}],
        lr=lr, betas=(0.9, 0.98), fused=True,
    )  # fmt: skip


def set_rate(optimiser: torch.optim.Optimizer, options: argparse.Namespace, step: int, part: float) -> None:
    """Warm up for some steps, then follow a cosine down to 2% as `part` of the training goes from 0 to 1."""
    decay = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * part))
    for group in optimiser.param_groups:
        group["lr"] = options.lr * min(1.0, (step + 1) / options.warmup) * decay


class Generated:
    """Scenes of one split drawn on all cores: pixels (N, H, W, 3) and labels (N, H, W) in memory the cores share."""

    def __init__(self, split: str, numbers: list[int], cores: int) -> None:
        side, count = scenes.SIZE, len(numbers)
        self.split, self.numbers = split, numbers
        self.pixels, self.labels = shared(count, side, side, 3), shared(count, side, side)
        workers = [
            multiprocessing.get_context("fork").Process(target=self._draw, args=(i, cores)) for i in range(cores)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            if worker.exitcode:
                raise RuntimeError("a drawing process failed")

    def _draw(self, first: int, step: int) -> None:
        for i in range(first, len(self.numbers), step):
            drawn = scenes.scene(self.split, self.numbers[i])
            self.pixels[i], self.labels[i] = drawn.pixels, drawn.labels


def shown(labels: torch.Tensor, cells: int) -> torch.Tensor:
    """How many pixels of each object every cell shows, (N, cells, cells, objects)."""
    parts = labels.view(len(labels), cells, scenes.SIZE // cells, cells, scenes.SIZE // cells)
    return torch.stack([(parts == i + 1).sum(dim=(2, 4)) for i in range(len(scenes.OBJECTS))], dim=-1)


class Asked:
    """A model and its prompts about every object."""

    def __init__(self, model: TowerMllm, device: str) -> None:
        self.model, self.device = model, device
        slot = model.module.config.image_token_id
        prompts = [model.dialogue.around(model.dialogue.prompt(ask(name)), slot) for name in scenes.OBJECTS]
        self.before = torch.tensor(prompts[0][0], device=device)
        self.after = torch.tensor([after for _, after in prompts], device=device)  # all of one length
        words = model.dialogue.tokenizer
        self.answers = torch.tensor(words.convert_tokens_to_ids(["No", "Yes"]), device=device)
        self.end = words.eos_token_id
        self.shape = (scenes.SIZE, scenes.SIZE)

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """Image tokens (B, T, D) of pixels (B, H, W, 3)."""
        return self.model.see(pixels_to_inputs(self.model, pixels), self.shape)

    def logits(self, seen: torch.Tensor, objects: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        """Logits (B, 2, words) of the first token of the answer and of the next; `said` (B,) is the first."""
        embed = self.model.module.get_input_embeddings()
        before = embed(self.before).expand(len(seen), -1, -1)
        after = embed(torch.cat([self.after[objects], said[:, None]], dim=1))
        embeds = torch.cat([before, seen.to(before.dtype), after], dim=1)
        positions = self.model.positions(len(self.before), self.shape, embeds.shape[1])
        read = self.model.module.model.language_model(inputs_embeds=embeds, position_ids=positions, use_cache=False)
        logits: torch.Tensor = self.model.module.lm_head(read.last_hidden_state[:, -2:])
        return logits.float()


def score(asked: Asked, pixels: torch.Tensor, sets: dict[str, Rows], batch: int = 500) -> Found:
    """Accuracy and wrong answers by sampling; sets hold rows (image, object, label)."""
    with torch.no_grad():
        seen = torch.cat([asked.see(part) for part in pixels.split(batch)])
        found = {}
        for name, rows in sets.items():
            said = []
            for part in torch.from_numpy(rows).to(asked.device).split(batch):
                first = asked.logits(seen[part[:, 0]], part[:, 1], asked.answers[:1].expand(len(part)))[:, 0]
                said.append(first.argmax(dim=1).cpu().numpy())
            answers, no, yes = np.concatenate(said), *asked.answers.tolist()
            right = answers == np.where(rows[:, 2], yes, no)
            found[name] = {
                "questions": len(rows), "accuracy": round(float(right.mean()), 4),
                "false_yes": int(((answers == yes) & (rows[:, 2] == 0)).sum()),
                "false_no": int(((answers == no) & (rows[:, 2] == 1)).sum()),
                "neither": int(((answers != yes) & (answers != no)).sum()),
            }  # fmt: skip
    return found


def question_sets(numbers: list[int]) -> dict[str, Rows]:
    """Rows (image, object, label) by sampling."""
    images = {scene_questions.file_name(number): i for i, number in enumerate(numbers)}
    names = {ask(name): i for i, name in enumerate(scenes.OBJECTS)}
    return {
        sampling: np.array([
            (images[q.image], names[q.text], q.label == "yes")
            for q in scene_questions.questions(sampling, len(numbers))
        ]) for sampling in SAMPLINGS
    }  # fmt: skip


def train(asked: Asked, cells: int, drawn: Generated, check: Callable[[], Found], options: argparse.Namespace) -> int:
    """Train until the time is over; returns how many scenes were seen, each of them several times."""
    device, module = asked.device, asked.model.module.requires_grad_(True)
    pixels = torch.from_numpy(drawn.pixels).to(device)
    counts = torch.cat([shown(part.to(device), cells) for part in torch.from_numpy(drawn.labels).split(2000)])
    shows, there = counts >= 6, counts.sum(dim=(1, 2)) > 0
    head = torch.nn.Linear(module.config.text_config.hidden_size, len(scenes.OBJECTS)).to(device)
    torch.nn.init.constant_(head.bias, -4.0)  # few cells show any one object
    weights = [*module.parameters(), *head.parameters()]
    optimiser = optimiser_of(weights, options.lr)
    losses = np.zeros(2)
    step, start = 0, time.perf_counter()
    reported = 0.0
    while True:
        part = max((time.perf_counter() - start) / options.seconds, step / options.steps if options.steps else 0)
        if part >= 1:
            return step * options.batch
        set_rate(optimiser, options, step, part)
        some = torch.randint(len(pixels), (options.batch,), device=device)
        image, cell = pixels[some], shows[some]
        if step % 2:
            image, cell = image.flip(2), cell.flip(2)
        present = there[some].float()
        half = options.questions // 2
        objects = torch.cat(
            [torch.multinomial(kind + 1e-6, half, replacement=True) for kind in (present, 1 - present)], 1
        )
        said = asked.answers[present.gather(1, objects).long()].flatten()
        seen = asked.see(image)
        logits = asked.logits(seen.repeat_interleave(2 * half, dim=0), objects.flatten(), said)
        answer = functional.cross_entropy(logits[:, 0], said)
        end = functional.cross_entropy(logits[:, 1], torch.full_like(said, asked.end))
        # Summed over objects: on most cells none shows.
        look = len(scenes.OBJECTS) * functional.binary_cross_entropy_with_logits(head(seen), cell.flatten(1, 2).float())
        (answer + 0.1 * end + look).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        if step % 10 == 0:
            losses = np.array([answer.item(), look.item()])
        if part - reported >= 0.125:
            reported = part
            print(f"{part:4.0%} step {step} answer {losses[0]:.3f} look {losses[1]:.3f} {brief(check())}", flush=True)


def brief(found: Found) -> str:
    """One line."""
    return "  ".join(f"{k} {v['accuracy']:.3f} (yes {v['false_yes']}, no {v['false_no']})" for k, v in found.items())


def main() -> None:
    """Draw, train, test, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder")
    parser.add_argument("--start", help="checkpoint folder to go on from")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=140, help="of training alone")
    parser.add_argument("--steps", type=int, default=0, help="at most this many; 0 leaves it to the time")
    parser.add_argument("--scenes", type=int, default=60_000)
    parser.add_argument("--images", type=int, default=500, help="test scenes, six questions each and sampling")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--questions", type=int, default=4, help="for each scene, half of them with the answer yes")
    parser.add_argument("--width", type=int, default=192, help="of tower and decoder, a multiple of 48")
    parser.add_argument("--depth", type=int, default=4, help="of each")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    options = parser.parse_args()
    started = time.perf_counter()
    numbers = scene_questions.tested(options.images)
    sets = question_sets(numbers)
    held_out = Generated("test", numbers, options.cores)  # before the device is touched: cores are forked
    drawn = Generated("train", list(range(options.scenes)), options.cores)
    print(f"{options.scenes} scenes drawn after {time.perf_counter() - started:.0f} s", flush=True)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")  # TF32
    build, cells = FAMILIES[options.family]
    model = build(options.device, options.width, options.depth)
    if options.start:
        model.module.load_state_dict(load(options.start, device=options.device, dtype="fp32").module.state_dict())
    asked = Asked(model, options.device)
    pixels = torch.from_numpy(held_out.pixels).to(options.device)
    # The batch's inputs are exactly what the model's own code would make of a scene.
    torch.testing.assert_close(
        pixels_to_inputs(model, pixels[:1])[0], model.encode(held_out.pixels[0]), rtol=1e-4, atol=1e-4
    )
    seen = train(asked, cells, drawn, lambda: score(asked, pixels, sets), options)
    with torch.no_grad():
        for weight in model.module.parameters():  # what is tested is what is saved
            weight.copy_(weight.half())
    found = score(asked, pixels, sets)
    print("final", brief(found), flush=True)
    for part in (model.module.half(), model.processor, model.dialogue.tokenizer):
        part.save_pretrained(options.out)
    parameters = sum(weight.numel() for weight in model.module.parameters())
    report = {
        "family": options.family, "parameters": parameters, "scenes": options.scenes, "scenes_seen": seen,
        "seconds": options.seconds, "batch": options.batch, "lr": options.lr, "torch": torch.__version__,
        "transformers": transformers.__version__, "test": found,
    }  # fmt: skip
    (options.out / "training.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{parameters / 1e6:.1f} M parameters in {options.out} after {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
