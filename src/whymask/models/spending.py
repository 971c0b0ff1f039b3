"""What a model behind a server costs: requests, tokens and money, and the limits that a user sets."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, Protocol, Self, runtime_checkable

from whymask.errors import ExhaustedError, WhymaskError, whole

PRICE = re.compile(r"(\d+\.?\d*|\.\d+)/(\d+\.?\d*|\.\d+)", re.ASCII)
MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """What a million tokens cost, in any currency.

    >>> Price.of("0.15/0.60").cost(2_000_000, 500_000)
    0.6
    """

    tokens_in: float
    tokens_out: float

    @classmethod
    def of(cls, text: str) -> Self:
        """The price written as IN/OUT."""
        found = PRICE.fullmatch(str(text).replace(" ", ""))
        if found is None:
            raise WhymaskError(f"price is what a million tokens cost, IN/OUT, such as 0.15/0.60, not {text!r}.")
        return cls(float(found[1]), float(found[2]))

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """The cost of that many tokens."""
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / MILLION

    def __str__(self) -> str:
        return f"{self.tokens_in:g}/{self.tokens_out:g}"


@dataclass(frozen=True)
class Spent:
    """What was sent and received."""

    requests: float = 0  # all that were sent, those below among them; of searches that share requests, a share
    retries: float = 0  # sent again after a failure
    hedges: float = 0  # second copies of late requests
    replies: float = 0
    images: float = 0  # in the requests that were answered
    silent: float = 0  # replies that do not say how many tokens they are
    tokens_in: float = 0
    tokens_out: float = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __sub__(self, other: Spent) -> Spent:
        return self + other * -1

    def __mul__(self, share: float) -> Spent:
        return Spent(*(getattr(self, each.name) * share for each in fields(self)))

    def as_dict(self, price: Price | None) -> dict[str, Any]:
        """Plain values for JSON; tokens are None where not all replies report them, and the cost without a price."""
        known = bool(self.replies) and not self.silent
        cost = price.cost(self.tokens_in, self.tokens_out) if price and known else None
        found: dict[str, Any] = {name: _plain(getattr(self, name)) for name in ("requests", "retries", "hedges")}
        found |= {name: _plain(getattr(self, name)) if known else None for name in ("tokens_in", "tokens_out")}
        return found | {"price": price and str(price), "cost": cost}


@dataclass
class Purse:
    """How many requests searches may still send, and how many images each of them holds."""

    requests: int
    per_request: int = 1

    @property
    def images(self) -> int:
        """How many that are sent together can be paid for."""
        return max(0, self.requests) * self.per_request

    def pay(self, images: int) -> None:
        """Take out what these images cost when they are sent together."""
        self.requests -= -(-images // self.per_request)


@runtime_checkable
class Spends(Protocol):
    """A model whose forwards are requests."""

    spending: Spending

    def tokens_expected(self, height: int, width: int, question: str | None) -> tuple[float, float] | None:
        """About how many tokens the request for an image of this size has, and its reply, where that can be known."""


def account(model: object) -> Spent:
    """What a model has spent so far; nothing where it runs here."""
    return model.spending.spent if isinstance(model, Spends) else Spent()


class Spending:
    """The account of a model: what it has spent, and what it may spend as long as it lives."""

    def __init__(
        self,
        price: str | None = None,
        max_requests: int | None = None,
        max_cost: float | None = None,
        per_request: int = 1,
    ) -> None:
        self.price = None if price is None else Price.of(price)
        self.max_requests = None if max_requests is None else whole("max_requests", max_requests, 1)
        if max_cost is not None:
            if isinstance(max_cost, bool) or not isinstance(max_cost, int | float) or not 0 < max_cost < inf:
                raise WhymaskError(f"max_cost must be a positive number, not {max_cost!r}.")
            if self.price is None:
                raise WhymaskError("max_cost needs the price of a million tokens: pass price='IN/OUT', too.")
        self.max_cost = max_cost
        self.per_request = per_request  # the most images in one
        self.spent = Spent()
        self.of_images = Spent()  # on images that are explained, without what a server is asked about itself
        self._waiting = 0  # images in requests without a reply so far
        self.usual = 1.0  # how many requests take the place of one, before that is known
        self._made, self._full = 0.0, 0  # requests for all forwards, and how many would have held them

    @property
    def left(self) -> int | None:
        """How many more full requests may be sent, as an estimate; None for any number."""
        left = min(self._requests_left, self._images_left // self.per_request)
        return None if left == inf else max(0, int(left))

    @property
    def known(self) -> bool:
        """Whether what a forward costs is known, where that is limited."""
        return self._full > 0 or (self.max_cost is None and self.max_requests is None)

    @property
    def each(self) -> float:
        """How many requests take the place of one: retries count, and scores that need several."""
        return max(1.0, self._made / self._full) if self._full else self.usual

    def responded(self, images: int, requests: float) -> None:
        """Learn from forwards of `images` images, which took `requests` requests."""
        self._made += requests
        self._full += -(-images // self.per_request)

    @property
    def _requests_left(self) -> float:
        return inf if self.max_requests is None else self.max_requests - self.spent.requests

    @property
    def _images_left(self) -> float:
        """How many more images the limit of the cost allows, by their mean cost so far."""
        if self.price is None or self.max_cost is None:
            return inf
        cost, of_images = (self.price.cost(some.tokens_in, some.tokens_out) for some in (self.spent, self.of_images))
        if not of_images:
            return inf if cost < self.max_cost else 0.0
        slack = 1 + 1e-9  # of sums of floats
        return (self.max_cost - cost) / (of_images / self.of_images.images) * slack - self._waiting

    def exhausted(self) -> ExhaustedError:
        """The error that says which limit allows no more."""
        limits = {"max_requests": self.max_requests, "max_cost": self.max_cost}
        given = " and ".join(f"{name}={value:g}" for name, value in limits.items() if value is not None)
        return ExhaustedError(f"the limit {given} is reached: pass a larger one to send more.")

    def send(self, images: int = 1, *, retry: bool = False, hedge: bool = False) -> None:
        """Count a request that is about to be sent, or raise an error where a limit does not allow it."""
        if self._requests_left < 1 or self._images_left < images:
            raise self.exhausted()
        self.spent += Spent(requests=1, retries=int(retry), hedges=int(hedge))
        self._waiting += images

    def ended(self, images: int = 1, reply: Any = None) -> None:
        """A request has ended, with the JSON of a reply or without one.

        The images are those that are explained: none where a server is asked what it can do.
        """
        self._waiting -= images
        if reply is None:
            return
        tokens = usage(reply)
        if tokens is None and self.max_cost is not None:
            raise WhymaskError(
                "the server does not report the tokens of its replies (usage), which max_cost needs: pass max_requests."
            )
        known = Spent(silent=1) if tokens is None else Spent(tokens_in=tokens[0], tokens_out=tokens[1])
        known = replace(known, replies=1, images=images)
        self.spent += known
        if images:
            self.of_images += known


def usage(reply: Any) -> tuple[float, float] | None:
    """The tokens (in, out) that a reply reports, as chat servers or SGLang do."""
    for name in ("usage", "meta_info"):
        found = reply.get(name) if isinstance(reply, dict) else None
        if isinstance(found, dict):
            values = [found.get(name, 0.0) for name in ("prompt_tokens", "completion_tokens")]
            if all(type(value) is float and isfinite(value) and value >= 0 for value in values) and any(values):
                return values[0], values[1]
    return None


def prompt_tokens(height: int, width: int, question: str | None) -> float:
    """About how many tokens a question about an image of this size has: one for 750 pixels, as Claude has them.

    Patches of 28 x 28 pixels, as Qwen has them, come close.
    """
    return height * width // 750 + len(question or "") // 4 + 20


def in_words(spent: dict[str, Any]) -> str:
    """What was spent, from `Spent.as_dict`.

    >>> in_words(Spent(12, 1, 2, 9, tokens_in=4000, tokens_out=9).as_dict(Price.of("0.15/0.60")))
    '12 requests (1 retry, 2 hedges), 4,000 tokens in, 9 out, costing 0.00061'
    """
    extra = [_counted(spent[many], one, many) for one, many in (("retry", "retries"), ("hedge", "hedges"))]
    parts = [_counted(spent["requests"], "request", "requests")]
    if shown := ", ".join(text for text in extra if not text.startswith("0 ")):
        parts[0] += f" ({shown})"
    if spent["tokens_in"] is not None:
        parts += [f"{spent['tokens_in']:,} tokens in", f"{spent['tokens_out']:,} out"]
    if spent["cost"] is not None:
        parts.append(f"costing {money(spent['cost'])}")
    return ", ".join(parts)


def money(cost: float) -> str:
    """An amount with two digits that count, and cents where it has them.

    >>> money(0.0006054), money(3.14159), money(1234.5)
    ('0.00061', '3.14', '1,234.50')
    """
    return f"{cost:,.2f}" if cost >= 0.1 or not cost else f"{float(f'{cost:.2g}'):.10f}".rstrip("0")


def _counted(count: float, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _plain(value: float) -> float:
    """A whole number as an int; a share of requests with one digit."""
    return int(value) if value == int(value) else round(value, 1)
