"""Estimates of what explanations cost, before any forward is made."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from whymask.explainer.binding import divided
from whymask.explainer.costs import result_images
from whymask.explainer.settings import Settings
from whymask.images.imaging import ImageSource
from whymask.images.masking import fills_of
from whymask.methods import Recipe
from whymask.models.base import GridModel, Model
from whymask.models.spending import Spending, Spends, money
from whymask.search.joint import Joint


@dataclass(frozen=True)
class Forecast:
    """An estimate of the forwards and, for a served model, of requests, tokens and cost."""

    images: int
    forwards: int
    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    limits: str = ""  # limits of the model that are lower than this

    def __add__(self, other: Forecast) -> Forecast:
        """The sum of two estimates; limits are left out, as they belong to a model."""
        sums: dict[str, Any] = {}
        for name in ("images", "forwards", "requests", "tokens_in", "tokens_out", "cost"):
            one, more = getattr(self, name), getattr(other, name)
            sums[name] = None if one is None or more is None else one + more
        return Forecast(**sums)

    def limited(self, model: Model) -> Forecast:
        """The estimate with those limits of a model that it exceeds."""
        if not isinstance(model, Spends):
            return self
        given = (("requests", model.spending.max_requests), ("cost", model.spending.max_cost))
        lower = [
            f"max_{name}={most:g}" for name, most in given if most is not None and (getattr(self, name) or 0) > most
        ]
        return replace(self, limits=" and ".join(lower))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None where it is not known."""
        return asdict(self)

    def __str__(self) -> str:
        about = f"About {self.forwards:,} forwards for {self.images:,} image{'s' if self.images != 1 else ''}"
        if self.requests is None:
            return f"{about}."
        parts = [f"{about}, in {self.requests:,} requests"]
        if self.tokens_in is not None:
            parts.append(f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out")
        else:
            parts.append("tokens are not known before a reply")
        if self.cost is not None:
            parts.append(f"costing {money(self.cost)}")
        early = f" With {self.limits} the search will end before that." if self.limits else ""
        return f"{'; '.join(parts)}.{early}"


def forecast(
    model: Model,
    recipe: Recipe | Joint,
    settings: Settings,
    image: ImageSource,
    question: str | None,
    searches: int = 1,
) -> Forecast:
    """Estimate the cost of an image, which is only put on the model's grid and divided into regions."""
    if isinstance(model, GridModel):
        view = model.view(image, settings.resize)
    else:
        view = model.bind(image, question=question, resize=settings.resize)
    n, fills = divided(view, settings.regions).n, len(fills_of(settings.shown))
    null = len(settings.null) if isinstance(settings.null, Sized) else settings.null
    each = recipe.estimate(n, fills)
    each = each if settings.budget is None else min(each, settings.budget)
    alternatives = recipe.parameters.get("alternatives", 0)
    targets = recipe.targets if isinstance(recipe, Joint) else 1
    forwards = searches * (each * (1 + null) + targets * result_images(fills, alternatives))
    return priced(model, forwards, view.canvas.shape[:2], question)


def priced(model: Model, forwards: int, shape: Sequence[int], question: str | None) -> Forecast:
    """The estimate for some forwards of images (H, W), by the replies so far or else by the model's own estimate."""
    if not isinstance(model, Spends):
        return Forecast(1, forwards)
    spending: Spending = model.spending
    spent, (height, width) = spending.of_images, shape
    requests = ceil(spending.each * ceil(forwards / spending.per_request))
    images = spending.each * forwards
    known = spent.images and not spent.silent
    tokens = (spent.tokens_in / spent.images, spent.tokens_out / spent.images) if known else None
    tokens = tokens or model.tokens_expected(height, width, question)
    if tokens is None:
        return Forecast(1, forwards, requests)
    tokens_in, tokens_out = (ceil(images * each) for each in tokens)
    cost = spending.price.cost(tokens_in, tokens_out) if spending.price else None
    return Forecast(1, forwards, requests, tokens_in, tokens_out, cost)
