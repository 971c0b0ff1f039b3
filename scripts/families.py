"""Try every image-text-to-text family of transformers as a tiny random checkpoint (tests/models/families.py).

python scripts/families.py try LABEL [TYPE ...]    writes results/families/LABEL.json
python scripts/families.py page                    writes docs/families.md from those files

A family works when the scores of eight masked images equal those of its own processor and forward (or generation, where
its forward is not what it generates with) within 1e-5 in fp32, in one batch and one by one. Options of `try`: --device
cuda, --half (scores in bf16 too), --processes N, --limit SECONDS for each family, --folder FOLDER for the records.
"""

import argparse
import json
import multiprocessing
import re
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402

from whymask.explainer.case import Case  # noqa: E402
from whymask.models import encoder_decoder, multimodal  # noqa: E402
from whymask.models.hf import decodes  # noqa: E402
from whymask.models.image_text import ImageText  # noqa: E402

from models.families import ABSENT, FAMILIES, inputs, load_processor, prepared  # noqa: E402

RECORDS, PAGE = ROOT / "results" / "families", ROOT / "docs" / "families.md"
QUESTION = "Is there a dog on the sofa ?"
WIDTH = 120  # of a line of the page
TOLERANCE = 1e-5
# Of a score, for a score in bf16. A forward of these checkpoints (two layers of each kind) rounds about 60 times one
# after the other, each time by at most 2**-8 of the value (0.4 * 2**-8 in the mean square), so logits about 1 move by
# sqrt(60) * 0.4 * 2**-8, and the log of a score by sqrt(2) of that: 4.4 * 2**-8, of which this is 3.6 times.
HALF = 16 * 2**-8


def attempt(model_type: str, device: str = "cpu", half: bool = False) -> dict[str, Any]:
    """How a family is run, or why it is not."""
    family = FAMILIES[model_type]
    question = QUESTION if family.chat else (family.prompt or "{question}").format(question=QUESTION)
    tiles = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    photo = Image.fromarray(tiles.repeat(14, 0).repeat(14, 1))
    try:
        with TemporaryDirectory() as folder:
            family.save(Path(folder))
            decoder = decodes(transformers.AutoConfig.from_pretrained(folder))
            load = partial((encoder_decoder if decoder else multimodal).load, folder, device=device)
            model = load(dtype="fp32")
            if decoder:  # the question goes where the family reads it, if it does
                question = None if family.prompt is None else QUESTION
            case = Case.of(photo, model, target="Yes", question=question, regions="grid:4x4", fill="mean")
            rows = np.concatenate([np.random.default_rng(1).random((7, 16)) < 0.5, np.ones((1, 16), bool)])
            together = model.respond(case.inputs(rows), [case.bound] * 8).score
            alone = [model.respond(case.inputs(rows[i : i + 1]), [case.bound]).score[0] for i in range(8)]
            difference = float(np.abs(together - own(Path(folder), model, case, rows)).max())
            batches = float(np.abs(together - alone).max())
            rounded = {"bf16": in_half(load, photo, question, rows, together)} if half else {}
    except Exception as error:  # of any kind: it is the reason
        return {"works": False, "reason": brief(str(error))}
    how = {"composition": case.bound.settings["composition"], **model.settings}
    found = {name: how[name] for name in ("composition", "answers", "batches")}
    found |= {"difference": difference, "between_batches": batches, "spread": float(np.ptp(together)), **rounded}
    if max(difference, batches) > TOLERANCE:
        return {"works": False, "reason": f"scores differ by {max(difference, batches):.0e}", **found}
    return {"works": True, **found}


def in_half(load: Any, photo: Any, question: str | None, rows: Any, scores: Any) -> float | str:
    """By how much scores in bf16 differ from those in fp32, as a share of the largest; or why there are none."""
    try:
        model = load(dtype="bf16")
        case = Case.of(photo, model, target="Yes", question=question, regions="grid:4x4", fill="mean")
        rounded = model.respond(case.inputs(rows), [case.bound] * len(rows)).score
    except Exception as error:  # of any kind: it is the reason
        return brief(str(error))
    return float(np.abs(rounded - scores).max() / scores.max())


def own(folder: Path, model: ImageText, case: Case, rows: Any) -> Any:
    """The scores by the family's own code, one image at a time."""
    module = (
        transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval().to(model.device)
    )
    processor, scores = load_processor(folder), []
    family = FAMILIES[module.config.model_type]
    if model.processing.device.type != "cpu":  # resizing rounds in another way there
        family = replace(family, options={**family.options, "device": model.device})
    (forms,) = case.bound.answer.wanted
    for row in rows:
        image = np.where(row[case.partition.labels][..., None], case.bound.canvas, case.bound.fill)
        with torch.inference_mode():
            if decodes(module.config) or model.settings["answers"] == "step by step":
                given = inputs(processor, Image.fromarray(image), QUESTION, family)
                given = {name: part.to(module.device) for name, part in given.items() if name != "labels"}
                made = module.generate(
                    **given, max_new_tokens=1, do_sample=False, num_beams=1, output_logits=True,
                    return_dict_in_generate=True,
                )  # fmt: skip
                logits = made.logits[0][0]
            else:
                given = prepared(module, processor, Image.fromarray(image), QUESTION, family)
                logits = module(**{name: part.to(module.device) for name, part in given.items()}).logits[0, -1]
        scores.append(float(logits.float().softmax(dim=-1)[list(forms)].sum()))
    return np.array(scores)


def brief(reason: str) -> str:
    """An error without the folder it names, on one line."""
    line = " ".join(reason.split()).replace("|", "/")
    if needed := re.search(
        r"(?:requires the|Package|it needs) `?(\w+)`?(?: library| is required|, which is not)", line
    ):
        return f"needs {needed[1].lower()}"
    if "classes: torchvision" in line or "'NoneType' object" in line:  # of a processor without its part for videos
        return "needs torchvision"
    inner = (
        line.partition("cannot be explained by whymask (")[2].partition("): install")[0].partition("): wrap")[0] or line
    )
    words = [word for word in inner.split() if "/tmp" not in word]
    return " ".join(words)[:160]


def environment() -> dict[str, str]:
    """The versions that matter."""
    found = {}
    for name in ("transformers", "torch", "torchvision"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def page() -> str:
    """docs/families.md from all records."""
    runs = [json.loads(file.read_text()) for file in sorted(RECORDS.glob("*.json"))]
    names = sorted({name for run in runs for name in run["families"]})
    lines = [
        "# Multimodal families",
        "",
        *wrap(
            "Which families of multimodal models in transformers whymask can explain. Each model type of "
            "`AutoModelForImageTextToText` was tried as a tiny checkpoint with random weights. A family works if the "
            "probability of an answer on eight masked images equals, in fp32 and within "
            f"{TOLERANCE:g}, what the family's own processor and forward compute, in one batch and one by one. "
            "[Multimodal models](multimodal.md) describes how to use them.",
            WIDTH,
        ),
        "",
        "| entry | meaning |",
        "|---|---|",
        "| exact | masked inputs are composed on the device, bit by bit equal to processing the masked image |",
        "| pixels | every masked image is processed: as accurate, but slower |",
        "| one image a forward | a batch would change the scores, so images are run one by one |",
        "| first token by one forward, others step by step | one forward would score later tokens differently from "
        "generation, so these are generated |",
        "| no | the family does not work, with the reason |",
        "| (empty) | this version of transformers does not have the family |",
        "",
        *wrap(
            "What this does not show: prompts and weights are made up, so it says nothing about the answers of real "
            "models. `python scripts/families.py` repeats the test.",
            WIDTH,
        ),
        "",
    ]
    for run in runs:
        works = sum(found["works"] for found in run["families"].values())
        about = ", ".join(f"{name} {number}" for name, number in run["environment"].items())
        lines += [f"- {run['label']}: {works} of {len(run['families'])} work ({about})."]
        if "note" in run:
            lines += wrap(run["note"], WIDTH, initial_indent="  ", subsequent_indent="  ")
        half = {name: found["bf16"] for name, found in run["families"].items() if isinstance(found.get("bf16"), float)}
        if half:
            far = ", ".join(f"`{name}`" for name, difference in half.items() if difference > HALF)
            within = f"{sum(difference <= HALF for difference in half.values())} of {len(half)}"
            scores = (
                f"In bf16, scores of {within} families differ from those in fp32 by at most {HALF:g} of the largest, "
            )
            scores += f"which rounding explains. Further off: {far or 'none'}."
            lines += wrap(scores, WIDTH, initial_indent="  ", subsequent_indent="  ")
    lines += ["", "| family | " + " | ".join(run["label"] for run in runs) + " |", "|---" * (len(runs) + 1) + "|"]
    reasons = {}
    for name in names:
        found = [run["families"].get(name) for run in runs]
        lines.append("| " + " | ".join([f"`{name}`", *map(cell, found)]) + " |")
        reasons[name] = dict.fromkeys(one["reason"] for one in found if one and is_long(one))
    lines += ["", "## Families that do not work", "", "With the error message, cut off at 160 characters:", ""]
    lines += [f"- `{name}`: {reason}" for name, some in reasons.items() for reason in some]
    lines += ["", "## Families that were not tried", "", *(f"- `{name}`: {reason}" for name, reason in ABSENT.items())]
    return "\n".join(lines) + "\n"


def is_long(found: dict[str, Any]) -> bool:
    """Whether the reason of a failure is too long for a cell: those are listed below the table."""
    return not found["works"] and len(found["reason"]) > 40


def cell(found: dict[str, Any] | None) -> str:
    """What the table shows for a family."""
    if found is None:
        return ""
    if not found["works"]:
        return "no" if is_long(found) else f"no: {found['reason']}"
    parts = ["exact" if found["composition"] == "exact" else "pixels"]
    parts += [found["answers"]] if found["answers"] != "one forward" else []
    parts += ["one image a forward"] if found["batches"] == "one by one" else []
    return "; ".join(parts)


def prepare() -> None:
    """What every process needs: products in all bits of fp32, no warnings."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.backends.cudnn.allow_tf32 = False


def attempts(names: list[str], processes: int, limit: float, **options: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every family's record, as they come, each within a limit in seconds.

    A process tries one family after the other until one fails: what its kernels do wrong on a GPU fails all that follow
    in the same process.
    """
    spawn = multiprocessing.get_context("spawn")
    pools: SimpleQueue[Any] = SimpleQueue()  # of one process each, which can be ended while it works
    for _ in range(processes):
        pools.put(None)

    def record(name: str) -> dict[str, Any]:
        pool = pools.get() or spawn.Pool(1, prepare)
        try:
            found: dict[str, Any] = pool.apply_async(attempt, (name,), options).get(limit)
        except multiprocessing.TimeoutError:
            found = {"works": False, "reason": f"no result within {limit:g} s"}
        if not found["works"]:
            pool.terminate()
            pool = None
        pools.put(pool)
        return found

    with ThreadPoolExecutor(processes) as threads:
        made = {threads.submit(record, name): name for name in names}
        for future in as_completed(made):
            yield made[future], future.result()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["try", "page"])
    parser.add_argument("label", nargs="?")
    parser.add_argument("types", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--folder", type=Path, default=RECORDS)
    options = parser.parse_args()
    prepare()
    if options.what == "page":
        PAGE.write_text(page())
        return
    known = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    file, found = options.folder / f"{options.label.replace(' ', '-')}.json", {}
    if options.types and file.exists():
        found = json.loads(file.read_text())["families"]
    names = options.types or [name for name in sorted(FAMILIES) if name in known]
    options.folder.mkdir(parents=True, exist_ok=True)
    how = {"device": options.device, "half": options.half}
    for name, record in attempts(names, options.processes, options.limit, **how):
        found[name] = record
        print(name, cell(record), record.get("bf16", ""), flush=True)
        content = {"label": options.label, "environment": environment(), "families": dict(sorted(found.items()))}
        file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
