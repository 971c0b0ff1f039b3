"""An index page: many results as small pictures with their verdicts, each a link to its picture."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from whymask.results import Explanation
from whymask.utils.text import displayed
from whymask.views.card import evidence
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
    shown = evidence(found, side=300)
    about = [found.title, str(getattr(found, "verdict", ""))]
    return (
        f'<figure class="wb-case"><a href="{escape(quote(entry.picture))}"><img src="{shown}" alt="{name}"></a>'
        f"<figcaption><span>{name}</span><strong>{found.full_score:.2f}</strong>"
        + "".join(f"<span>{escape(displayed(text))}</span>" for text in about if text)
        + "</figcaption></figure>"
    )
