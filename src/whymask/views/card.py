"""A result in small, as lists of results show it: its picture with the evidence, its verdict, one line."""

from typing import Any

import numpy as np
from PIL import Image
from PIL.ImageFilter import MaxFilter, MinFilter

from whymask.arrays import Bools
from whymask.results import EvidenceMask, EvidenceMasks, Explanation, Ordering
from whymask.results.figure import dimmed
from whymask.results.repair import Repair
from whymask.utils.text import all_displayed
from whymask.views.document import thumbnail

EVIDENCE = (0xE6, 0x9F, 0x00)  # as in the viewer


def card(found: Explanation, side: int = 240) -> dict[str, Any]:
    """What a list shows of a result; `verdict` is None where it has none or several."""
    settings = {name: found.provenance.get(name) for name in ("method", "model", "question")}
    verdict = found.verdict.code if isinstance(found, EvidenceMask) else None
    about = {"kind": found.kind, "label": found.title, "verdict": verdict, "summary": summary(found), **settings}
    return {**all_displayed(about), "thumbnail": evidence(found, side)}


def evidence(found: Explanation, side: int) -> str:
    """The photo, its evidence outlined and the rest darker, as a data URI."""
    mask = _pixels(found)
    small = Image.fromarray(np.rint(dimmed(found.image, mask)).astype(np.uint8))
    small.thumbnail((side, side))
    inside = Image.fromarray(found.image.on_photo(mask) > 0).resize(small.size)
    outer, inner = (np.asarray(inside.convert("L").filter(kind)) > 0 for kind in (MaxFilter(3), MinFilter(3)))
    pixels = np.asarray(small).copy()
    pixels[outer & ~inner] = EVIDENCE
    return thumbnail(pixels, side)


def summary(found: Explanation) -> str:
    """The result in a line, without its verdict."""
    if isinstance(found, EvidenceMasks):
        words = [word for word in found.words if word.role != "function"]
        what, many = ("words", len(words)) if found.words else ("answers", len(found.each))
        return f"evidence for {len(found.each)} of {many} {what}"
    if isinstance(found, Ordering):
        return f"{found.n} regions, ranked"
    assert isinstance(found, EvidenceMask)
    some = f"{len(found.regions)} of {found.n} regions"
    if isinstance(found, Repair):
        change = "stays" if found.answer == found.given else f"becomes \u201c{found.answer}\u201d"
        return f"\u201c{found.given}\u201d {change} with {some}"
    others = len(found.alternatives)
    return f"{some} {_kept(found)}" + (f"; {others} other mask{'s' if others > 1 else ''}" if others else "")


def _kept(found: EvidenceMask) -> str:
    """What a mask keeps of the score; a share of next to nothing, or of more than all, would say little."""
    verb = "scores" if len(found.regions) == 1 else "score"
    if found.full_score < 0.05 or found.score > 1.05 * found.full_score:
        return f"{verb} {found.score:.2f}, the whole image {found.full_score:.2f}"
    return f"keep{'s' if len(found.regions) == 1 else ''} {found.score / found.full_score:.0%} of the score"


def _pixels(found: Explanation) -> Bools:
    """(H, W) the pixels of a result's mask, of all its masks, or of the prefix of its ordering."""
    if isinstance(found, EvidenceMasks):
        return found.heatmap() > 0
    regions = found.order[: found.prefix] if isinstance(found, Ordering) else getattr(found, "regions", ())
    return found.image.pixels(regions)
