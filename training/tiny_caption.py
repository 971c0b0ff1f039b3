"""Train the small model that describes the scenes of `whymask.images.described` in a sentence.

    python -m training.tiny_caption --device cuda --seconds 250 --out tiny-caption

It is a Qwen2.5-VL like tiny-qwen, and runs through the code that later explains it. Workers draw scenes while it
trains; half of them are mirrored. A linear head on the image tokens learns beside it which nouns and colours each token
shows; it is thrown away. The checkpoint and what it can do are saved every so often, so that a run may be stopped at
any time. Test scenes are never trained on.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn import functional
from training.tiny_mllm import optimiser_of, pixels_to_inputs, qwen, set_rate, shared

from whymask.errors import WhymaskError
from whymask.images.described import COLOURS, NOUNS, SIZE, Plan, described
from whymask.images.sentences import COUNTS, LONGEST, QUESTION, judge, read, sentence
from whymask.models.qwen2_5_vl import Qwen25VL

PATCH = 14  # pixels a side of an image token
CELLS = SIZE // PATCH  # image tokens a side
SHOWN = 6  # pixels: what a token must show of a noun or colour
LOOKS = (*NOUNS, *COLOURS)  # what the head learns of each token
WORDS = ("Describe", "the", "image", ".", "user", "assistant", *COUNTS, *COLOURS, *NOUNS,
         *(f"{noun}s" for noun in NOUNS), "left", "right", "of", "above", "below", "and")  # fmt: skip


class Drawn:
    """Scenes drawn in memory that processes share: `done` counts how many of each worker's are there."""

    def __init__(self, split: str, count: int, workers: int) -> None:
        self.split, self.count, self.workers = split, count, workers
        self.pixels = shared(count, SIZE, SIZE, 3)
        self.looks = shared(count, CELLS * CELLS, len(LOOKS))
        self.texts = shared(count, 80)
        self.done = multiprocessing.get_context("fork").Array("l", workers)
        self.processes = [
            multiprocessing.get_context("fork").Process(target=self._draw, args=(i,), daemon=True)
            for i in range(workers)
        ]
        for process in self.processes:
            process.start()

    def ready(self) -> int:
        """How many scenes, from the first one on, can be used."""
        if any(process.exitcode for process in self.processes):
            raise RuntimeError("a drawing process failed")
        return min(self.count, min(self.done) * self.workers)

    def wait(self, count: int) -> None:
        """Wait until `count` scenes are drawn."""
        while self.ready() < count:
            time.sleep(0.02)

    def sentences(self, first: int, last: int) -> list[str]:
        """The sentences of these scenes."""
        return [bytes(row).rstrip(b"\0").decode() for row in self.texts[first:last]]

    def _draw(self, first: int) -> None:
        for i in range(first, self.count, self.workers):
            scene = described(self.split, i)  # type: ignore[arg-type]
            self.pixels[i], self.looks[i] = scene.pixels, looks(scene.labels, scene.plan)
            text = sentence(scene.plan).encode()
            self.texts[i, : len(text)] = np.frombuffer(text, np.uint8)
            self.done[first] += 1
        self.done[first] = -(-self.count // self.workers)


def looks(labels: NDArray[np.uint8], plan: Plan) -> NDArray[np.bool_]:
    """Which nouns and colours every image token shows, (CELLS², LOOKS)."""
    side = SIZE // CELLS
    shown = np.zeros((CELLS * CELLS, len(LOOKS)), dtype=bool)
    for i, group in enumerate(plan.groups):
        cells = (labels == i + 1).reshape(CELLS, side, CELLS, side).sum(axis=(1, 3)).ravel() >= SHOWN
        shown[:, [LOOKS.index(group.noun), LOOKS.index(group.colour)]] |= cells[:, None]
    return shown


class Describer:
    """A model and its prompt."""

    def __init__(self, model: Qwen25VL, device: str) -> None:
        self.model, self.device, self.module = model, device, model.module
        before, after = model.dialogue.around(model.dialogue.prompt(QUESTION), self.module.config.image_token_id)
        self.before, self.after = (torch.tensor(ids, device=device) for ids in (before, after))
        self.words = model.dialogue.tokenizer
        self.end = self.words.eos_token_id
        left, right = self.words.convert_tokens_to_ids(["left", "right"])
        self.mirror = torch.arange(len(self.words), device=device)
        self.mirror[[left, right]] = self.mirror[[right, left]]
        length = len(before) + CELLS * CELLS + len(after) + LONGEST
        self.positions = model.positions(len(before), (SIZE, SIZE), length)

    def ids(self, texts: list[str]) -> torch.Tensor:
        """The tokens of sentences, filled up with the one that ends them, (B, LONGEST)."""
        rows = [self.words.encode(text, add_special_tokens=False) for text in texts]
        return torch.tensor([row + [self.end] * (LONGEST - len(row)) for row in rows])

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """Image tokens (B, T, D) of pixels (B, H, W, 3)."""
        return self.model.see(pixels_to_inputs(self.model, pixels), (SIZE, SIZE))

    def logits(self, seen: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        """Logits (B, n, words) at every position of sentences (B, n) that begin with `said`."""
        embed = self.module.get_input_embeddings()
        before = embed(self.before).expand(len(seen), -1, -1)
        after = embed(torch.cat([self.after.expand(len(said), -1), said[:, :-1]], dim=1))
        embeds = torch.cat([before, seen.to(before.dtype), after], dim=1)
        positions = self.positions[..., : embeds.shape[1]]
        out = self.module.model.language_model(inputs_embeds=embeds, position_ids=positions, use_cache=False)
        logits: torch.Tensor = self.module.lm_head(out.last_hidden_state[:, -said.shape[1] :])
        return logits.float()

    @torch.no_grad()
    def describe(self, pixels: torch.Tensor) -> list[str]:
        """What it says of each image, greedily."""
        texts = []
        for part in pixels.split(250):
            seen = self.see(part.to(self.device))
            said = torch.full((len(part), LONGEST), self.end, device=self.device)
            for i in range(LONGEST - 1):
                said[:, i] = self.logits(seen, said[:, : i + 1])[:, i].argmax(dim=1)
            for row in said.tolist():
                texts.append(self.words.decode(row[: row.index(self.end)]))
        return texts


def score(texts: list[str], plans: list[Plan]) -> dict[str, Any]:
    """How many words of every kind are right, misread and unsupported, and how many sentences are right as a whole."""
    kinds: dict[str, Counter[str]] = {kind: Counter() for kind in ("noun", "colour", "count", "relation")}
    whole = malformed = 0
    for text, plan in zip(texts, plans, strict=True):
        whole += text == sentence(plan)
        try:
            words = read(text)
        except WhymaskError:
            malformed += 1
            continue
        for judged in judge(words, plan):
            kinds[judged.word.kind][judged.verdict] += 1
    found: dict[str, Any] = {"scenes": len(plans), "sentences_right": whole, "malformed": malformed}
    for kind, counts in kinds.items():
        total = max(1, sum(counts.values()))
        found[kind] = {"words": sum(counts.values()), "accuracy": round(counts["right"] / total, 4),
                       "misread": counts["misread"], "unsupported": counts["unsupported"]}  # fmt: skip
    return found


def brief(found: dict[str, Any]) -> str:
    """One line."""
    kinds = "  ".join(f"{kind} {value['accuracy']:.3f}" for kind, value in found.items() if isinstance(value, dict))
    return f"sentences {found['sentences_right'] / found['scenes']:.3f}  {kinds}  malformed {found['malformed']}"


class Training:
    """A describer, the scenes it learns from, and what is reported with the checkpoint."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.started = options, time.perf_counter()
        self.drawn = Drawn("train", options.scenes, options.workers)  # before the device is touched: cores are forked
        tests = [described("test", number) for number in range(options.images)]
        self.plans = [test.plan for test in tests]
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")  # TF32
        device = options.device
        model = qwen(
            device, options.width, options.depth, known=WORDS, name="tiny-caption",
            patch=PATCH, merge=1, theta=10.0, windowed=options.depth,
        )  # fmt: skip
        self.describer = Describer(model, device)
        self.model, self.module = self.describer.model, self.describer.module
        self.tests = torch.from_numpy(np.stack([test.pixels for test in tests]))
        # The batch's inputs are exactly what the model's own code would make of a scene.
        inputs = pixels_to_inputs(self.model, self.tests[:1].to(device))[0]
        torch.testing.assert_close(inputs, self.model.encode(tests[0].pixels), rtol=1e-4, atol=1e-4)
        self.pixels = torch.empty((options.scenes, SIZE, SIZE, 3), dtype=torch.uint8, device=device)
        self.looks = torch.empty((options.scenes, CELLS**2, len(LOOKS)), dtype=torch.bool, device=device)
        self.texts = torch.empty((options.scenes, LONGEST), dtype=torch.int64, device=device)
        self.here = self.seen = 0

    def fetch(self) -> None:
        """Bring what has been drawn to the device, a few thousand scenes at a time."""
        first, last = self.here, min(self.drawn.ready(), self.here + 4000)
        if last - first < min(1000, self.options.scenes - first) or first == last:
            return
        self.pixels[first:last] = torch.from_numpy(self.drawn.pixels[first:last]).to(self.options.device)
        self.looks[first:last] = torch.from_numpy(self.drawn.looks[first:last]).to(self.options.device) > 0
        self.texts[first:last] = self.describer.ids(self.drawn.sentences(first, last)).to(self.options.device)
        self.here = last

    def batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Pixels, what their tokens show, and sentences of random scenes, mirrored as a whole or not at all."""
        some = torch.randint(self.here, (self.options.batch,), device=self.options.device)
        pixels, shown, texts = self.pixels[some], self.looks[some], self.texts[some]
        if torch.rand(()) < 0.5:
            pixels, texts = pixels.flip(2), self.describer.mirror[texts]
            shown = shown.unflatten(1, (CELLS, CELLS)).flip(2).flatten(1, 2)
        return pixels, shown.float(), texts

    def losses(self, head: torch.nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
        """The losses of the sentence's tokens, without those after its end, and of what the image tokens show."""
        pixels, shown, texts = self.batch()
        seen = self.describer.see(pixels)
        logits, look = self.describer.logits(seen, texts), head(seen)
        ended = (texts == self.describer.end).cumsum(1) > 1
        said = functional.cross_entropy(logits.flatten(0, 1), texts.masked_fill(ended, -100).flatten())
        # Summed over looks: most tokens show none.
        return said, len(LOOKS) * functional.binary_cross_entropy_with_logits(look, shown)

    def run(self) -> None:
        """Train until the time is over."""
        options, module = self.options, self.module.requires_grad_(True)
        head = torch.nn.Linear(options.width, len(LOOKS)).to(options.device)
        torch.nn.init.constant_(head.bias, -4.0)  # few tokens show any one
        weights = [*module.parameters(), *head.parameters()]
        optimiser = optimiser_of(weights, options.lr)
        self.drawn.wait(min(options.scenes, 2000))
        print(f"training starts after {time.perf_counter() - self.started:.0f} s", flush=True)
        step, start, saved = 0, time.perf_counter(), time.perf_counter()
        while (part := (time.perf_counter() - start) / options.seconds) < 1:
            if step % 20 == 0:
                self.fetch()
            set_rate(optimiser, options, step, part)
            said, look = self.losses(head)
            (said + look).backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            step += 1
            self.seen = step * options.batch
            if time.perf_counter() - saved > options.every:
                print(f"{part:4.0%} step {step} of {self.here} scenes: said {said:.3f} look {look:.3f}", flush=True)
                self.save()
                saved = time.perf_counter()
        self.save()

    def save(self) -> None:
        """The checkpoint in fp16 and its report; what is tested is what is saved."""
        options = self.options
        full = {name: value.clone() for name, value in self.module.state_dict().items()}
        with torch.no_grad():
            for weight in self.module.parameters():
                weight.copy_(weight.half())
        found = score(self.describer.describe(self.tests), self.plans)
        elapsed = time.perf_counter() - self.started
        print(f"{elapsed:.0f} s, {self.seen} scenes seen: {brief(found)}", flush=True)
        new = options.out.with_name(f"{options.out.name}.new")  # moved when it is complete
        copy.deepcopy(self.module).half().save_pretrained(new)  # the tables of this one stay in fp32
        self.module.load_state_dict(full)
        for part in (self.model.processor, self.describer.words):
            part.save_pretrained(new)
        report = {
            "family": "qwen", "parameters": sum(w.numel() for w in self.module.parameters()), "scenes": self.here,
            "scenes_seen": self.seen, "seconds": round(elapsed), "device": options.device, "batch": options.batch,
            "lr": options.lr, "torch": torch.__version__, "transformers": transformers.__version__, "test": found,
        }  # fmt: skip
        (new / "training.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        if options.out.exists():
            shutil.rmtree(options.out)
        new.rename(options.out)


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line, or of these words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=250, help="of training, with its tests")
    parser.add_argument("--every", type=float, default=30, help="seconds between two checkpoints")
    parser.add_argument("--scenes", type=int, default=200_000, help="at most, as far as the workers come")
    parser.add_argument("--images", type=int, default=500, help="test scenes")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=144, help="of tower and decoder, a multiple of 48")
    parser.add_argument("--depth", type=int, default=3, help="of each")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    return parser.parse_args(words)


if __name__ == "__main__":
    Training(options()).run()
