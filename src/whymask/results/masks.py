"""The result of a search for several answers: a mask for each and, for a text, the word that each belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whymask.arrays import Floats
from whymask.results.base import Explanation
from whymask.results.caption import listed, made, quoted, size
from whymask.results.mask import EvidenceMask
from whymask.results.masks_figure import masks_figure
from whymask.results.plotting import Width
from whymask.results.storage import Arrays, Header, check_ledger
from whymask.results.words import Word
from whymask.utils.archive import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 1000  # masks, or words, in a file
SHARED = ("schema", "box", "photo_size", "label_values", "n", "prediction", "provenance", "complete")


@dataclass(frozen=True, eq=False, repr=False)
class EvidenceMasks(Explanation):
    """Masks for several answers to one image, found by one search: a sequence of `EvidenceMask`.

    If a text was explained, `words` holds its words in order; those that the image supports have a mask.
    """

    each: tuple[EvidenceMask, ...]
    text: str | None = None
    words: tuple[Word, ...] = ()

    kind: ClassVar[str] = "masks"

    def __len__(self) -> int:
        return len(self.each)

    def __bool__(self) -> bool:
        return True  # even if no word has a mask

    def __iter__(self) -> Iterator[EvidenceMask]:
        return iter(self.each)

    def __getitem__(self, which: int | str) -> EvidenceMask:
        """The mask with this number, of the answer with this name, or of the first such word."""
        if isinstance(which, str):
            words = (word.mask for word in self.words if word.text == which and word.mask)
            answers = (mask for mask in self.each if mask.target.label == which)
            found = next(words, None) or next(answers, None)
            if found is None:
                names = [word.text for word in self.words if word.mask] or [mask.target.label for mask in self.each]
                raise KeyError(f"there is no mask for {which!r}; there are masks for {', '.join(names)}")
            return found
        return self.each[which]

    @property
    def title(self) -> str:
        """The text, or the answers."""
        return ", ".join(mask.target.label for mask in self.each) if self.text is None else self.text

    def heatmap(self) -> Floats:
        """(H, W): the share of answers for which a pixel is evidence."""
        masks = [mask.heatmap() for mask in self.each]
        return np.mean(masks, axis=0) if masks else np.zeros(self.image.canvas.shape[:2])

    def figure(self, width: Width = "page") -> Figure:
        """The answers, or the text with coloured words, and the evidence of each."""
        return masks_figure(self.image, self.each, self.text, self.words, width)

    def caption(self) -> str:
        """What the panels of the figure show, row by row, with all numbers."""
        if self.text is None:
            what = f"each answer to the image: {listed([quoted(mask.title) for mask in self])}"
        else:
            what = f"each word of {quoted(self.text)} that the image supports"
        names = {id(word.mask): word.text for word in self.words if word.mask is not None}
        each = [
            f"{quoted(names.get(id(mask), mask.title))}: {size(mask.regions, mask)}; it scores "
            f"{mask.full_score:.2f} on the whole image, {mask.score:.2f} on these regions, "
            f"{mask.removed_score:.2f} without them, {mask.blank_score:.2f} on a blank image "
            f"({mask.verdict.code.replace('_', ' ')})."
            for mask in self
        ]
        without = [
            f"{quoted(word.text)} has none: it scores {word.full_score:.2f} on the whole image and "
            f"{word.blank_score:.2f} on a blank one."
            for word in self.words
            if word.mask is None and word.role != "function"
        ]
        bars = ["The bar under a word is filled as far as its probability is owed to the image."] if self.words else []
        return " ".join([f"The evidence for {what}.", *bars, *each, *without, made(self)])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels: the scores, verdict and COCO RLE of every mask."""
        numbers = {id(mask): number for number, mask in enumerate(self.each)}
        words = [
            word.as_dict() | {"mask": None if word.mask is None else numbers[id(word.mask)]} for word in self.words
        ]
        each = []
        for mask in self.each:
            own = {name: value for name, value in mask.as_dict().items() if name not in SHARED}
            rle = mask.to_coco_rle()
            each.append(own | {"rle": {"size": list(rle["size"]), "counts": rle["counts"]}})
        return super().as_dict() | {"each": each, "text": self.text, "words": words}

    @classmethod
    def _check(cls, header: Header, n: int) -> list[Any]:
        each, words, text = header["each"], header["words"], header["text"]
        require(max(len(each), len(words)) <= MOST, "it has too many masks")
        require(text is None or isinstance(text, str), "a text is missing")
        scores: list[Any] = []
        for one in each:
            scores += [one["full_score"], one["blank_score"], *EvidenceMask._check(_alone(header, one), n)]
            check_ledger(one["ledger"])
            require(type(one["target"]["index"]) is int and isinstance(one["target"]["label"], str), "it has no target")
        for before, word in pairwise([None, *words]):
            scores += Word.check(word, text or "", 0 if before is None else before["end"])
            number = word["mask"]
            require(number is None or (type(number) is int and 0 <= number < len(each)), "a word has another's mask")
        return scores

    @classmethod
    def _fields(cls, header: Header, arrays: Arrays) -> dict[str, Any]:
        each = tuple(EvidenceMask(**EvidenceMask._fields(_alone(header, one), arrays)) for one in header["each"])
        names = ("text", "start", "end", "role", "full_score", "blank_score")
        words = tuple(
            Word(
                **{name: word[name] for name in names},
                mask=None if word["mask"] is None else each[word["mask"]],
                tokens=tuple(word.get("tokens", [])),
            )
            for word in header["words"]
        )
        return super()._fields(header, arrays) | {"each": each, "text": header["text"], "words": words}

    def __str__(self) -> str:
        if not self.words:
            return "\n".join([*(_line(mask.target.label, mask) for mask in self.each), self._end()])
        question = self.provenance.get("question")
        asked = "" if question is None else f"Asked {question!r}, the "
        lines = [f"{asked or 'The '}answer is {self.text!r}."]
        for word in self.words:
            if word.mask is not None:
                lines.append(_line(word.text, word.mask))
            elif word.role != "function":
                scores = f"{word.full_score:.2f} on the whole image, {word.blank_score:.2f} on a blank one"
                lines.append(f"{word.text}: {scores}. {word.sentence}")
        return "\n".join([*lines, self._end()])

    def _brief(self) -> str:
        return f"masks for {len(self.each)} {'answers' if self.text is None else 'words'}"


def _alone(header: Header, one: Header) -> Header:
    """The header of one mask, completed by the fields that all masks share."""
    return header | one | {name: header[name] for name in SHARED if name in header}


def _line(name: str, mask: EvidenceMask) -> str:
    """A mask on one line."""
    return f"{name}: {len(mask.regions)} of {mask.n} regions, {mask.area:.0%} of the image. {mask.verdict}"
