"""What an answer of 40 tokens costs: all its words by one search, beside a search for one short answer.

The model of `mllm_speed.py`, with random weights: what its words rest on means nothing, so all are searched for, also
those that the image does not support. Both searches score as many masked images, and so do the controls of one mask;
for every word there are controls, which are counted and timed too. The criterion is at most 1.3 times the time for as
many forwards.

Run: python benchmarks/words_speed.py --device cuda [--out words-speed.json] | --tiny
"""

import argparse
import json
import time
from pathlib import Path

import torch
import transformers
from mllm_speed import QUESTION, Subject, wait

import whymask
from whymask.explainer.case import Case
from whymask.explainer.joint import JointCases
from whymask.explainer.words import marked, spans
from whymask.images.imaging import ImageSource
from whymask.methods import Recipe
from whymask.models.base import Model
from whymask.search.joint import Joint

K = 10
SAYS = [word for word in QUESTION.split() if word.isalpha()]
ANSWER = " ".join((SAYS * 2)[:40])
ONE, ALL = "one short answer", "the words of a long one"


def words(case: Case, answer: str, tries: int) -> tuple[int, int]:
    """Explain the words of an answer; how many masks there are, and the forwards they took."""
    each = [case.answering(marked(answer, span)) for span in spans(answer) if not span.function]
    joint = JointCases(each)
    found = joint.search(Joint(len(each), K, tries=tries), seed=0)
    return len(found), joint.ledger.mec + joint.ledger.stage("probe")[1]


def one(case: Case, answer: str, tries: int) -> tuple[int, int]:
    """Explain the answer that the case has."""
    (found,) = case.search(Recipe("discs+swap", {"k": K, "tries": tries}), [0])
    return 1, found.ledger.mec + found.ledger.stage("probe")[1]


def measure(model: Model, photo: ImageSource, question: str, answer: str, tries: int, batch: int, repeats: int):
    """Masks, forwards, seconds and milliseconds a forward of both, the best of some runs after one to warm up."""
    device = str(model.settings["device"])
    rows = {ONE: (one, 0), ALL: (words, answer)}
    best: dict[str, dict[str, float]] = {}
    for number in range(repeats + 1):  # in turn: the machine may be shared
        for name, (explain, target) in rows.items():
            case = Case.of(photo, model, target=target, question=question, fill="black", batch_size=batch)
            wait(device)
            start = time.perf_counter()
            masks, forwards = explain(case, answer, tries)
            wait(device)
            seconds = time.perf_counter() - start
            if number and seconds < best.get(name, {}).get("seconds", float("inf")):
                best[name] = {"masks": masks, "forwards": forwards, "seconds": seconds, "ms": seconds / forwards * 1e3}
    return best


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="a small model, to see the script run")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    subject, tries = Subject("qwen", options), 8 if options.tiny else Joint(1, K).most
    model = subject.wrapped()
    found = measure(model, subject.photo, QUESTION, ANSWER, tries, options.batch, options.repeats)
    print("| explained | masks | forwards | seconds | ms per forward |\n|---|---:|---:|---:|---:|")
    for name, row in found.items():
        print(f"| {name} | {row['masks']} | {row['forwards']} | {row['seconds']:.2f} | {row['ms']:.2f} |")
    ratio = found[ALL]["ms"] / found[ONE]["ms"]
    print(f"\nFor as many forwards the words take {ratio:.2f} times as long.")
    if options.out:
        versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "whymask": whymask.__version__,
        }
        device = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
        options.out.write_text(json.dumps({"device": device, **versions, "ratio": ratio, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
