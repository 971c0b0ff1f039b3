"""An index page: many results as small pictures with their verdicts, each a link to its picture."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

import numpy as np

from whymask.arrays import Bools
from whymask.results import EvidenceMasks, Explanation, Ordering
from whymask.results.figure import dimmed
from whymask.utils.text import displayed
from whymask.views.document import thumbnail
from whymask.views.report import asset, page


@dataclass(frozen=True)
class Entry:
    """An image of the index: its result and the file of its picture, or why there is none."""

    name: str
    found: Explanation | None = None
    picture: str = ""  # beside the page
    error: str = ""


def index_page(entries: Iterable[Entry], title: str) -> str:
    """The page; it needs no other file but the pictures it links to."""
    cards = "".join(map(_card, entries))
    body = f'<main class="wm"><h1 class="wb-title">{escape(title)}</h1><div class="wb-cards">{cards}</div></main>'
    return page(title, asset("viewer.css") + asset("bench.css"), body)


def _card(entry: Entry) -> str:
    name, found = escape(displayed(entry.name)), entry.found
    if found is None:
        return (
            f'<figure class="wb-case"><div class="wb-missing">not explained</div>'
            f"<figcaption><span>{name}</span><span>{escape(displayed(entry.error))}</span></figcaption></figure>"
        )
    image = found.image
    shown = thumbnail(np.rint(dimmed(image, _evidence(found))).astype(np.uint8), side=300)
    about = [found.title, str(getattr(found, "verdict", ""))]
    return (
        f'<figure class="wb-case"><a href="{escape(quote(entry.picture))}"><img src="{shown}" alt="{name}"></a>'
        f"<figcaption><span>{name}</span><strong>{image.full_score:.2f}</strong>"
        + "".join(f"<span>{escape(displayed(text))}</span>" for text in about if text)
        + "</figcaption></figure>"
    )


def _evidence(found: Explanation) -> Bools:
    """(H, W) the pixels of a result's mask, of all its masks, or of the prefix of its ordering."""
    if isinstance(found, EvidenceMasks):
        return found.heatmap() > 0
    regions = found.order[: found.prefix] if isinstance(found, Ordering) else getattr(found, "regions", ())
    return found.image.pixels(regions)
