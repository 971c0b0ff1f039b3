"""Reading replies: numbers are taken for log-probabilities only when they can be."""

import re
from collections.abc import Iterable, Mapping
from math import exp
from typing import Any

from whymask.errors import WhymaskError

ROUNDING = 0.01  # log-probabilities may exceed 0 by this much: some are computed in half precision or cut to two digits
MOST_TOKENS = 10**9
NUMBER = re.compile("[0-9]{1,9}")


class LackingError(WhymaskError):
    """A reply lacks something that was asked for, as from servers that ignore unknown fields."""


class Replies:
    """Takes numbers and texts from the replies of a server; `shown` and `model` name it in errors."""

    def __init__(self, shown: str, model: str) -> None:
        self.shown, self.model = shown, model

    def at(self, reply: Any, *path: str | int) -> Any:
        """What a reply holds at a path, None where there is nothing."""
        for step in path:
            try:
                reply = reply[step]
            except (KeyError, IndexError, TypeError):
                return None
        return reply

    def lacking(self, what: str) -> LackingError:
        """The error for a reply without what was asked for."""
        return LackingError(f"{self.shown} returned no {what} of {self.model}, from which scores are computed.")

    def number(self, token: Any, what: str) -> int:
        """The number of a token, given as a number or as digits."""
        if isinstance(token, str) and NUMBER.fullmatch(token):
            return int(token)
        if type(token) is float and 0 <= token < MOST_TOKENS and token.is_integer():
            return int(token)
        raise self.lacking(what)

    def chance(self, logprob: Any, what: str) -> float:
        """The probability of a token; -inf is allowed, NaN is not at most anything."""
        if type(logprob) is not float:
            raise self.lacking(what)
        if not logprob <= ROUNDING:
            raise self.impossible(what)
        return min(1.0, exp(logprob))

    def chances(self, logprobs: Mapping[Any, Any] | Iterable[tuple[Any, Any]], what: str) -> dict[Any, float]:
        """Probabilities of different tokens in one place."""
        found = [*(logprobs.items() if isinstance(logprobs, Mapping) else logprobs)]
        values = [self.chance(logprob, what) for _, logprob in found]
        if sum(values) > exp(ROUNDING):
            raise self.impossible(what)
        return {token: value for (token, _), value in zip(found, values, strict=True)}

    def impossible(self, what: str) -> WhymaskError:
        """The error for numbers that are something else."""
        return WhymaskError(
            f"{self.shown} returned {what} of {self.model} that are not log-probabilities: each must be a number of at "
            "most 0, and their probabilities must add up to at most 1."
        )
