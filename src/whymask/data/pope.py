"""POPE's yes/no questions on what an image shows.

Half of them ask about objects that are there and half about objects that are not: any ("random"), the most frequent
ones ("popular"), or those that come with the ones there most often ("adversarial"). Files hold one JSON object a line,
as the published POPE and RePOPE have them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools
from whymask.errors import WhymaskError, unknown
from whymask.utils.files import atomic

Sampling: TypeAlias = Literal["random", "popular", "adversarial"]
Label: TypeAlias = Literal["yes", "no"]

EACH = 3  # questions of either label about one image


@dataclass(frozen=True)
class Question:
    """A yes/no question about an image file, and its right answer."""

    number: int
    image: str  # file name
    text: str
    label: Label

    @property
    def want(self) -> str:
        """The right answer as a model should begin it."""
        return self.label.capitalize()


def ask(name: str) -> str:
    """POPE's question about an object.

    >>> ask("umbrella")
    'Is there an umbrella in the image?'
    """
    return f"Is there {'an' if name[0] in 'aeiou' else 'a'} {name} in the image?"


def read_questions(path: str | Path) -> list[Question]:
    """The questions of a file: image, text and label of each line; question_id where there is one."""
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        if not file.parent.is_dir():
            raise WhymaskError(f"there is no folder {file.parent} for the question file {file.name}.") from None
        raise unknown(
            f"question file in {file.parent}:", file.name, (f.name for f in file.parent.glob("*.json"))
        ) from None
    except (OSError, ValueError) as error:
        raise WhymaskError(f"the question file {file} cannot be read: {error}.") from None
    if not any(line.strip() for line in lines):
        raise WhymaskError(f"the question file {file} is empty.")
    return [_question(line, f"line {number} of {file}", number) for number, line in enumerate(lines, 1) if line.strip()]


def _question(line: str, where: str, number: int) -> Question:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise WhymaskError(f"{where} is not JSON; POPE's files hold one object a line.") from None
    fields = ("image", "text", "label")
    missing = [name for name in fields if not isinstance(entry, dict) or not isinstance(entry.get(name), str)]
    if missing:
        raise WhymaskError(
            f"{where} has no {' and no '.join(map(repr, missing))}; each line needs {', '.join(fields)}."
        )
    if entry["label"] not in get_args(Label):
        raise WhymaskError(f"{where} has the label {entry['label']!r}; it must be 'yes' or 'no'.")
    known = entry.get("question_id", number)
    if not str(known).isdecimal():
        raise WhymaskError(f"{where} has the question_id {known!r}; it must be a whole number, or left out.")
    return Question(int(known), entry["image"], entry["text"], entry["label"])


def write_questions(path: str | Path, questions: Iterable[Question]) -> Path:
    """A file that `read_questions`, and every other reader of POPE, reads."""
    rows = ({"question_id": q.number, "image": q.image, "text": q.text, "label": q.label} for q in questions)
    with atomic(Path(path)) as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    return Path(path)


def find_images(questions: Iterable[Question], folder: str | Path) -> dict[str, Path]:
    """Where the images of the questions are, by file name."""
    names = dict.fromkeys(question.image for question in questions)
    where = Path(folder)
    if not where.is_dir():
        such = f" that holds {next(iter(names))}" if names else ""
        raise WhymaskError(f"there is no image folder {where}; pass the one{such}.")
    missing = [name for name in names if not isfile(where / name)]
    if missing:
        raise WhymaskError(
            f"the image folder {where} lacks {len(missing)} of {len(names)} images, such as {missing[0]}."
        )
    return {name: where / name for name in names}


def together(there: Bools) -> NDArray[np.int64]:
    """How often objects come together, (objects, objects), from what images show (images, objects).

    Its diagonal holds how often each occurs at all.
    """
    counts: NDArray[np.int64] = there.T.astype(np.int64) @ there.astype(np.int64)
    return counts


def pick(
    there: Bools, counts: NDArray[np.int64], sampling: Sampling, rng: np.random.Generator
) -> list[tuple[int, Label]]:
    """Which objects to ask about, given those there (objects,) and how often they come together."""
    if sampling not in get_args(Sampling):
        raise unknown("sampling", sampling, get_args(Sampling))
    rank = rng.random(len(there))  # decides ties as well
    if sampling == "popular":
        rank = rank + counts.diagonal()
    elif sampling == "adversarial":
        rank = rank + counts[there].sum(axis=0)
    yes = rng.permutation(np.flatnonzero(there))[:EACH].tolist()
    no = sorted(np.flatnonzero(~there).tolist(), key=lambda i: -rank[i])[:EACH]
    labelled: list[list[tuple[int, Label]]] = [[(i, "yes"), (j, "no")] for i, j in zip(yes, no, strict=True)]
    return [pair for pairs in labelled for pair in pairs]


def questions_about(shown: Mapping[str, Sequence[str]], sampling: Sampling, seed: int = 0) -> list[Question]:
    """Questions about images of known content, by file name; objects are counted over these images themselves.

    As in POPE, only images that show at least three kinds of objects are asked about; as many must be missing.
    """
    names = sorted({name for objects in shown.values() for name in objects})
    there = np.array([np.isin(names, list(objects)) for objects in shown.values()]).reshape(len(shown), len(names))
    counts = together(there)
    asked: list[Question] = []
    for number, (image, row) in enumerate(zip(shown, there, strict=True)):
        if row.sum() >= EACH and (~row).sum() >= EACH:
            for i, label in pick(row, counts, sampling, np.random.default_rng((seed, number))):
                asked.append(Question(len(asked) + 1, image, ask(names[i]), label))
    if not asked:
        raise WhymaskError(f"no image shows {EACH} kinds of objects and lacks {EACH} others: there is nothing to ask.")
    return asked
