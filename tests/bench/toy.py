"""A small run: photos, a model that tells how bright they are, and what came of it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from whymask.bench.records import Store
from whymask.data.manifest import Sample, write_manifest

TOY = """
import time

import numpy as np


def load(pause=0.0, fault=""):
    def score(images):
        time.sleep(pause)
        if fault == "load":
            raise RuntimeError("no such weights")
        return images.mean(axis=(1, 2, 3)) / 255

    if fault == "load":
        raise RuntimeError("no such weights")
    return score
"""
METHODS = ["greedy", {"method": "trace", "params": {"k": 3, "rounds": 2, "samples": 6}}]


def photos(folder, count):
    rng = np.random.default_rng(0)
    samples = []
    for i in range(count):
        file = folder / f"{i}.png"
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(file)
        samples.append(Sample(str(i), str(file)))
    write_manifest(folder / "cases.jsonl", samples)
    return samples


def table(folder, **changes):
    return {
        "out": str(folder / "run"),
        "models": [{"id": f"{folder}/toy.py:load", "name": "toy", "options": {"pause": 0.0}}],
        "splits": {"mine": {"manifest": str(folder / "cases.jsonl")}},
        "methods": METHODS,
        "seeds": [0, 1],
        "regions": "grid:3x3",
        "together": 3,
        **changes,
    }


def results(folder):
    """Everything but times, by key."""
    records = Store(Path(folder)).records
    return {
        key: {name: value for name, value in record.items() if name != "seconds"} for key, record in records.items()
    }


def lines(folder):
    return [json.loads(line) for file in Path(folder).glob("records-*.jsonl") for line in file.read_text().splitlines()]


def lines_so_far(folder):
    """Of files that are being written."""
    texts = [file.read_text() for file in Path(folder).glob("records-*.jsonl")]
    return [json.loads(line) for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]


def toml(path, given):
    def value(v):
        if isinstance(v, dict):
            return "{" + ", ".join(f'"{k}" = {value(x)}' for k, x in v.items()) + "}"
        return "[" + ", ".join(map(value, v)) + "]" if isinstance(v, list) else json.dumps(v)

    path.write_text("".join(f"{key} = {value(v)}\n" for key, v in given.items()))
    return path


def start(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "whymask", "bench", *map(str, words)], stdout=-1, stderr=-1, text=True, **options
    )


def finish(process):
    out, err = process.communicate()
    return process.returncode, out, err
