"""Makes the finished examples of the served page: python scripts/examples.py [FOLDER] (needs whymask[lite,hf]).

The photos are scikit-image's: camera.png (CC0, Lav Varshney), coffee.png (CC0, Rachel Michetti) and rocket.jpg (public
domain, SpaceX). The scenes are the package's own.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask.results import Explanation
from whymask.serve.examples import EXAMPLES, FOLDER

SIDE = 256  # pixels of the longer side of a photo: it is only looked at
TWO = "black,blur"  # noise would be half of a file
SENTENCE = "a red mushroom above a blue plate and two white moons"  # the plate is yellow, and there is no moon

MAKE: dict[str, Callable[[], Any]] = {
    "example-tripod": lambda: whymask.explain(f"{data_dir}/camera.png"),
    "example-espresso": lambda: whymask.explain(f"{data_dir}/coffee.png", k=8, fill=TWO),
    "example-missile": lambda: whymask.explain(f"{data_dir}/rocket.jpg", k=8, alternatives=2, fill=TWO),
    "example-spoon": lambda: whymask.explain("scene:6", "tiny-qwen", question="Is there a spoon in the image?"),
    "example-leaf": lambda: whymask.repair(
        "scene:19", "tiny-qwen", question="Is there a leaf in the image?", want="Yes"
    ),
    "example-sentence": lambda: whymask.explain_words(
        "described:0", "tiny-caption", text=SENTENCE, question="Describe the image.", k=8, fill="black"
    ),
}


def lighter(found: Explanation) -> Explanation:
    """The same result with a photo that takes less room in its file."""
    picture = Image.fromarray(found.image.photo)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return replace(found, image=replace(found.image, photo=np.asarray(picture) & 0xFC | 2))


def main(folder: Path = FOLDER) -> None:
    """Explain and save all of them."""
    for name in EXAMPLES:
        found = lighter(MAKE[name]())
        path = found.save(folder / name)
        print(path, path.stat().st_size, found)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
