"""How small the evidence is that other tools find on the same photos, and whether it survives another fill.

Every tool explains the same answers of the same model, on the same canvas with black where it masks; most return a map.
The area is that of the smallest part with the highest values that keeps 90% of the whole image's score on black: in
steps of 1% of the pixels, or of one of whymask's regions by its mean value, whichever is smaller. That mask is then
scored on other fills. Calls are those of the tool alone; reading a map takes some more. The photos are those of
fills.py. The numbers of every photo and tool are appended to a file as they are found, so that a run can be resumed.

Install: pip install 'whymask[peers]'; ReX, which asks for one version of numpy, and what it needs:
         pip install --no-deps rex-xai; pip install anytree fastcache imutils sqlalchemy tabulate toml
Run:     python benchmarks/peers.py FOLDER --out records.jsonl
Publish: python benchmarks/peers.py --out results/peers.jsonl > docs/peers.md
"""

import argparse
import io
import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fills import right_answers
from PIL import Image

import whymask
from whymask.bench.stats import intervals
from whymask.explainer.case import Case, prefixes
from whymask.images.partition import Partition
from whymask.models.base import Response
from whymask.results.ordering import Ordering

OURS = "whymask"  # the row that the others are compared with
SHARE = 0.9  # of the whole image's score, to be kept on black
FILLS = ("black", "mean", "blur", "noise", "dark_defocus")
STEPS = 100  # prefixes of a map

COLUMNS = (
    "tool", "photos", "model calls", "90% kept on black", "area, median", "area, mean", "area less whymask's, mean",
    *(f"kept on {fill}" for fill in FILLS[1:]), "half kept on black, mean and blur", "half kept on all",
)  # fmt: skip

PAGE = """# Comparison with other tools

How small is the evidence that other explanation tools find for the same answers, and does it still hold on another
fill? This page compares lime, shap, ReX and captum's Grad-CAM with whymask. How convenient each of them is to use is
[another page](compare.md).

## What was measured

- The answers of EfficientNet-lite0 for {photos} photos that it classifies correctly and that nothing was tuned on.
  Hidden parts of the image are black.
- The *area* is the share of the image covered by the smallest mask that keeps 90% of the whole image's score on black.
  For a tool that returns a map, masks are made of the highest values, both in steps of 1% of the pixels and in steps
  of whymask's regions; the one with the smaller area counts.
- *Model calls* are masked images sent to the model, in the mean.
- *90% kept on black* is the share of photos on which a mask reaches that goal.
- *Area less whymask's* is the difference in percentage points on the same photos, with bootstrap 95% intervals.
- *Kept on* another fill: the same mask is shown on a fill that replaces black. The number is the median share of the
  whole image's score. *Half kept* is the share of photos on which the mask keeps at least half of the score on each of
  several fills; "all" are black, mean, blur, noise and dark_defocus.

The rows are these methods:

| row | method |
|---|---|
| lime | 1,000 samples, otherwise the defaults |
| shap PartitionExplainer | 500 evaluations, otherwise the defaults |
| ReX | the default of 20 iterations, and the mask that ReX extracts itself for 90% of the score |
| ReX, 10 iterations | its map after 10 iterations |
| captum LayerGradCam | Grad-CAM of the last feature maps |
| whymask | the default: 90% of the score in the mean of black, blur and noise, so perhaps less on black |
| whymask on black | the same search on black alone |
| whymask discs+swap+lean, prefix | the first regions of an ordering, searched on black |

{table}

Versions: {versions}.

The records are in `results/peers.jsonl`; `benchmarks/peers.py` computes them and prints this page.

## What it shows

On black alone, whymask finds the smallest masks of all tools, but few of these keep half of the score on other fills.
The default needs less area than shap, ReX and Grad-CAM, with intervals clear of zero; its difference from lime is
within noise. It keeps half of the score on black, mean and blur more often than every tool but shap.

## What it does not show

- The tools have different aims. Lime, shap and Grad-CAM do not look for the smallest sufficient part: they weigh all
  parts of an image, or show where a class is seen. ReX does look for it, but by default a mask is sufficient if the
  model's first choice stays the same, which takes less than 90% of the score (`keep="answer"` in whymask).
- All other tools see only black. The default of whymask also searches on blur and noise, so only the mean colour and
  dark_defocus are new to all. A smaller mask depends more on what surrounds it, and a mask of three times the area
  keeps more on a new fill: compare what is kept at similar areas.
- The decision to include noise in whymask's default was made after results on these photos had been seen ([which fill
  to search on](fills.md)).
- There is one model, {photos} photos, correct answers only, and one seed: shares of photos are accurate to about 20
  points. Times are omitted, because the machine was shared. ReX requires another version of numpy than whymask; it ran
  with whymask's.
"""

Found = Any
"""What a tool returns: a map (H, W), or growing masks (m, H, W) of booleans, the least area first; or a single one."""


class Calls:
    """The target's score, for tools that want a function of images; counts the images."""

    def __init__(self, case: Case) -> None:
        self.case, self.count = case, 0

    def inputs(self, inputs: torch.Tensor) -> Response:
        """Score inputs (B, 3, H, W) in the model's own layout."""
        self.count += len(inputs)
        return self.case.model.respond(inputs, [self.case.bound] * len(inputs))

    def images(self, images: Any) -> Any:
        """Score pictures (B, H, W, 3) with values from 0 to 255."""
        encoded = [self.case.model.encode(np.asarray(image).round().astype(np.uint8)) for image in images]
        return self.inputs(torch.stack(encoded)).score


def readings(found: Found, partition: Partition) -> list[Any]:
    """Growing masks (m, H, W) each: of a map those by pixels and those by regions."""
    if found.ndim == 3:
        return [found]
    rank = np.argsort(np.argsort(-found.ravel(), kind="stable")).reshape(found.shape)
    pixels = rank[None] < np.linspace(0, found.size, STEPS + 1)[1:, None, None].round()
    means = [found[partition.labels == region].mean() for region in range(partition.n)]
    return [pixels, by_region(np.argsort(means)[::-1], partition)]


def by_region(order: Any, partition: Partition) -> Any:
    """The first 1 ... n regions of an ordering, (n, H, W)."""
    return np.stack([partition.pixels(row) for row in prefixes(order)])


def lime(case: Case, calls: Calls, samples: int = 1000) -> Found:
    """Lime with its own segments and defaults, hidden segments black."""
    from lime.lime_image import LimeImageExplainer

    def chances(images: Any) -> Any:
        score = calls.images(images)
        return np.stack([1 - score, score], axis=1)

    found = LimeImageExplainer(random_state=0).explain_instance(
        case.bound.canvas, chances, labels=(1,), top_labels=None, hide_color=0, num_samples=samples, random_seed=0
    )
    weights = dict(found.local_exp[1])
    return np.vectorize(weights.get)(found.segments)


def shap(case: Case, calls: Calls, evaluations: int = 500) -> Found:
    """The PartitionExplainer of shap, hidden parts black, its values added over the channels."""
    from shap import PartitionExplainer
    from shap.maskers import Image as ImageMasker

    canvas = case.bound.canvas
    explainer = PartitionExplainer(lambda images: calls.images(images)[:, None], ImageMasker(np.zeros_like(canvas)))
    found = explainer(canvas[None], max_evals=evaluations, batch_size=50, silent=True)
    return found.values[0].reshape(*canvas.shape, -1).sum(axis=(2, 3))


def grad_cam(case: Case, calls: Calls) -> Found:
    """LayerGradCam of captum on the last feature maps, those that are pooled, enlarged to the canvas."""
    from captum.attr import LayerAttribution, LayerGradCam

    image = case.differentiable()
    pooling = [part for part in image.module.modules() if isinstance(part, torch.nn.AdaptiveAvgPool2d)][-1]
    calls.count += 1
    found = LayerGradCam(image.module, pooling).attribute(
        image.inputs[None], target=case.bound.target.index, relu_attributions=True, attribute_to_layer_input=True
    )
    enlarged = LayerAttribution.interpolate(found, case.bound.canvas.shape[:2], "bilinear")
    return enlarged[0, 0].detach().numpy()


def rex(case: Case, calls: Calls, iterations: int = 20, extract: float | None = None) -> Found:
    """The responsibility map of ReX, or the mask that it extracts itself for this share of the score."""
    from rex_xai.explanation.explanation import Explanation
    from rex_xai.explanation.rex import calculate_responsibility
    from rex_xai.input.config import CausalArgs
    from rex_xai.input.input_data import Data
    from rex_xai.responsibility.prediction import Prediction

    def predict(inputs: torch.Tensor, target: Any = None) -> list[Any]:
        response = calls.inputs(inputs)
        answers = zip(response.top, response.score, strict=True)
        return [Prediction(int(top), float(score), target=target) for top, score in answers]

    args = CausalArgs()
    args.iters, args.seed, args.progress_bar = iterations, 0, False
    data = Data(Image.fromarray(case.bound.canvas), [1, *case.bound.inputs.shape], "cpu", mode="RGB")
    data.data = case.bound.inputs[None]
    data.mask_value = lambda mask, pixels: torch.where(mask, pixels, case.bound.fill_inputs)
    (data.target,) = predict(data.data)
    maps, stats = calculate_responsibility(data, args, predict)
    if extract is None:
        return maps.get(data.target.classification)
    args.minimum_confidence_threshold = extract
    explanation = Explanation(maps, predict, data, args, stats)
    explanation.extract()
    return explanation.sufficiency_mask.reshape(case.bound.inputs.shape).any(dim=0).numpy()[None]


def ours(case: Case, calls: Calls, **settings: Any) -> Found:
    """The mask of a search, or the prefixes of an ordering."""
    explainer = whymask.Explainer(case.model, **settings)
    searched = case.again(fill=explainer.settings.shown)
    (found,) = explainer.search(searched)
    calls.count += found.ledger.mec
    if isinstance(found, Ordering):
        return by_region(found.order, case.partition)
    return found.mask[None]


Tool = Callable[[Case, Calls], Found]
TOOLS: dict[str, Tool] = {
    "lime": lime,
    "shap PartitionExplainer": shap,
    "ReX, 10 iterations": partial(rex, iterations=10),
    "ReX": partial(rex, extract=SHARE),
    "captum LayerGradCam": grad_cam,
    "whymask": partial(ours, fill="several"),
    "whymask on black": partial(ours, fill="black"),
    "whymask discs+swap+lean, prefix": partial(ours, method="discs+swap+lean", fill="black"),
}


PACKAGES = {
    "lime": "lime", "shap PartitionExplainer": "shap", "ReX, 10 iterations": "rex-xai", "ReX": "rex-xai",
    "captum LayerGradCam": "captum",
}  # fmt: skip


def version_of(tool: str) -> str:
    """The package that a tool belongs to, with its version."""
    package = PACKAGES.get(tool, "whymask")
    return f"{package} {version(package)}"


def measure(case: Case, tool: Tool) -> dict[str, Any]:
    """Numbers of one tool on one photo."""
    case.forget()
    calls, start = Calls(case), time.perf_counter()
    with redirect_stderr(io.StringIO()):  # progress bars
        found = tool(case, calls)
    seconds = time.perf_counter() - start
    ((full,),), _ = case.ask(np.ones((1, case.partition.n), dtype=bool))
    read = [first(case, masks, SHARE * full) for masks in readings(found, case.partition)]
    mask, reached = min(read, key=lambda one: (not one[1], one[0].sum()))
    kept = {}
    for fill in FILLS:
        ((score,),), _ = case.again(fill=fill).ask(mask[None].astype(np.float32))
        kept[fill] = round(float(score / full), 4)
    return {
        "calls": calls.count,
        "reached": reached,
        "area": round(float(mask.mean()), 4),
        "kept": kept,
        "full": round(float(full), 4),
        "seconds": round(seconds, 1),
    }


def first(case: Case, masks: Any, goal: float) -> tuple[Any, bool]:
    """The first of growing masks (m, H, W) that reaches the goal on black, or else the last, and whether it does."""
    (scores,), _ = case.ask(masks.astype(np.float32))
    reached = scores >= goal
    return masks[int(reached.argmax()) if reached.any() else -1], bool(reached.any())


def table(records: list[dict[str, Any]]) -> str:
    """A row for each tool."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    ours_on = {record["photo"]: record["area"] for record in records if record["tool"] == OURS}
    for name in [tool for tool in TOOLS if any(record["tool"] == tool for record in records)]:
        rows = [record for record in records if record["tool"] == name]
        kept = np.array([[row["kept"][fill] for fill in FILLS] for row in rows])
        areas = [row["area"] for row in rows]
        more = [row["area"] - ours_on[row["photo"]] for row in rows if row["photo"] in ours_on and name != OURS]
        numbers = [
            f"{len(rows)}", f"{np.mean([row['calls'] for row in rows]):,.0f}",
            f"{np.mean([row['reached'] for row in rows]):.0%}", f"{np.median(areas):.1%}", f"{np.mean(areas):.1%}",
            gap(more) if more else "",
            *(f"{value:.2f}" for value in np.median(kept, axis=0)[1:]),
            f"{(kept[:, :3] >= 0.5).all(axis=1).mean():.0%}", f"{(kept >= 0.5).all(axis=1).mean():.0%}",
        ]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def gap(differences: list[float]) -> str:
    """Their mean and its interval, in points of a percentage."""
    (low,), (high,) = intervals(100 * np.array(differences)[:, None])
    return f"{100 * np.mean(differences):+.1f} [{low:+.1f}, {high:+.1f}]"


def page(records: list[dict[str, Any]]) -> str:
    """The table and what it shows."""
    versions = ", ".join(dict.fromkeys(record["version"] for record in records))
    return PAGE.format(table=table(records), photos=len({record["photo"] for record in records}), versions=versions)


def read(file: Path) -> list[dict[str, Any]]:
    """The records of earlier runs; half a line at the end is dropped."""
    lines = file.read_text().splitlines(keepends=True) if file.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="photos named by class; without it, the table is printed")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=[*TOOLS], metavar="TOOL")
    parser.add_argument("--half", choices=("even", "odd"), default="odd")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--out", type=Path, required=True, help="a JSON line for every photo and tool")
    options = parser.parse_args()
    options.part = (0, 1)  # all of them
    records = read(options.out)
    done, missing = {(record["photo"], record["tool"]) for record in records}, set()
    photos: list[tuple[int, Path]] = []
    if options.folder:
        model = whymask.load(options.model)
        photos = right_answers(model, options)
    for target, file in photos:
        photo, case = file.stem, Case.of(file, model, target=target)
        for name in options.tools:
            if (photo, name) in done or name in missing:
                continue
            try:
                record = {"photo": photo, "tool": name} | measure(case, TOOLS[name]) | {"version": version_of(name)}
            except ImportError as error:
                missing.add(name)
                print(f"{name} is skipped: {error}.", file=sys.stderr)
                continue
            records.append(record)
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), file=sys.stderr)
    print(page(records), end="")
