"""Masks behind a server that shows no probabilities, compared with those of a search that sees them.

A model of this machine answers at temperature 1, which is to draw from its probabilities, so the true score of every
mask is known. Every scene is searched with its probabilities by several seeds, then by answers alone.

Run: python benchmarks/samples.py run OUT.jsonl --scenes 50
     python benchmarks/samples.py table OUT.jsonl
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import whymask
from whymask.data.pope import ask
from whymask.data.scenes import tested
from whymask.images.scenes import scene
from whymask.models.base import Bound, Response
from whymask.results.mask import EvidenceMask
from whymask.search.measured import interval

SAMPLES = (16, 8, 4)


class Answering:
    """A model that is asked for answers: each score is the share of `samples` answers that are the target.

    Only where a score is needed, and only the score: drawing texts from the model's probabilities and counting those
    that are the target is drawing from a binomial distribution.
    """

    deterministic = False

    def __init__(self, model: Any, samples: int, seed: int) -> None:
        self.model, self.samples = model, samples
        self.name, self.settings, self.fingerprint = model.name, model.settings, model.fingerprint
        self.batch_size, self.default_k = model.batch_size, model.default_k
        self.reported = 64
        self.rng = np.random.default_rng(seed)
        self.known: dict[bytes, float] = {}  # the probability of the target, by masked image

    def bind(self, *args: Any, **options: Any) -> Bound:
        """Bind as the model does."""
        bound: Bound = self.model.bind(*args, **options)
        return bound

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Shares of answers."""
        keys = [hashlib.sha256(row.numpy().tobytes()).digest() for row in inputs]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            exact = self.model.respond(inputs[new], [bounds[i] for i in new]).score
            self.known.update(zip([keys[i] for i in new], exact.clip(0, 1).tolist(), strict=True))
        chances = [self.known[key] for key in keys]
        return Response(self.rng.binomial(self.samples, chances) / self.samples, None)


def overlap(one: EvidenceMask, other: EvidenceMask) -> float:
    """IoU of two masks by their pixels."""
    return float((one.mask & other.mask).sum() / (one.mask | other.mask).sum())


def true_score(model: Any, found: EvidenceMask, question: str, regions: Sequence[int]) -> float:
    """The model's own probability where only these regions are kept, over the fills of the search."""
    kept = found.image.pixels(regions)[..., None]
    shown = [np.where(kept, found.image.canvas, fill) for fill in found.image.fills]
    bounds = [model.bind(image, target="Yes", question=question, resize="none") for image in shown]
    return float(np.mean([model.respond(bound.inputs[None], [bound]).score[0] for bound in bounds]))


def run(out: Path, scenes: int, name: str) -> None:
    """A line for each scene and way of asking."""
    model = whymask.load(name)
    done = {(row["scene"], row["samples"]) for row in read(out)} if out.exists() else set()
    found = 0
    with out.open("a") as file:
        for number in tested(10 * scenes):
            question = ask(scene("test", number).objects[0])
            options = {"target": "Yes", "question": question, "k": "auto"}
            if found == scenes:
                break
            bound = model.bind(f"scene:{number}", target="Yes", question=question)
            if model.respond(bound.inputs[None], [bound]).score[0] < 0.5:
                continue
            found += 1
            missing = [samples for samples in SAMPLES if (number, samples) not in done]
            if not missing:
                continue
            exact = [whymask.explain(f"scene:{number}", model, seed=seed, **options) for seed in (0, 1, 2)]
            between = float(np.mean([overlap(*pair) for pair in combinations(exact, 2)]))
            known: dict[bytes, float] = {}
            for samples in missing:
                answering = Answering(model, samples, number)
                answering.known = known
                noisy = whymask.explain(f"scene:{number}", answering, seed=0, **options)
                rest = [region for region in range(noisy.n) if region not in noisy.regions]
                everything = [*noisy.regions, *rest]
                pairs = {
                    "mask": (noisy.score, noisy.regions),
                    "rest": (noisy.removed_score, rest),
                    "whole": (noisy.full_score, everything),
                    "blank": (noisy.blank_score, []),
                }
                measured = {
                    what: (score, true_score(model, noisy, question, regions))
                    for what, (score, regions) in pairs.items()
                }
                row = {
                    "scene": number,
                    "samples": samples,
                    "seeds": between,
                    "iou": float(np.mean([overlap(noisy, one) for one in exact])),
                    "requests": noisy.ledger.mec,
                    "probe": noisy.ledger.stage("probe")[1],
                    "exact": float(np.mean([one.ledger.mec for one in exact])),
                    "exact_probe": exact[0].ledger.stage("probe")[1],
                    "size": len(noisy.regions),
                    "exact_size": float(np.mean([len(one.regions) for one in exact])),
                    "answers": noisy.provenance["answers"],
                    "scores": measured,
                }
                file.write(json.dumps(row) + "\n")
                file.flush()


def read(out: Path) -> list[dict[str, Any]]:
    """The lines of a run."""
    return [json.loads(line) for line in out.read_text().splitlines()]


def covered(rows: Sequence[dict[str, Any]], what: str) -> float:
    """How often the interval of a score holds the true one."""
    hits = []
    for row in rows:
        score, truth = row["scores"][what]
        low, high = interval(score, row["answers"])
        hits.append(low <= truth <= high)
    return float(np.mean(hits))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One row for each way of asking."""
    lines = [
        "| answers a request | scenes | IoU | between seeds | requests | with probabilities | ratio | intervals that "
        "hold the true score |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for samples in SAMPLES:
        some = [row for row in rows if row["samples"] == samples]
        if not some:
            continue
        total = [
            np.mean([row[a] + row[b] for row in some]) for a, b in (("requests", "probe"), ("exact", "exact_probe"))
        ]
        iou, seeds = (np.mean([row[name] for row in some]) for name in ("iou", "seeds"))
        asked = f"{total[0]:.0f} | {total[1]:.0f} | {total[0] / total[1]:.2f}"
        lines.append(
            f"| {samples} | {len(some)} | {iou:.3f} | {seeds:.3f} | {asked} | "
            f"{np.mean([covered(some, what) for what in some[0]['scores']]):.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--scenes", type=int, default=50)
    parser.add_argument("--model", default="tiny-qwen")
    given = parser.parse_args()
    if given.what == "run":
        run(given.out, given.scenes, given.model)
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
