"""Scores that are measured: a share of some answers, known the better the more answers there are.

A model that shows no probabilities is asked for answers instead. The score of a masked image is the share of them that
are right, or the mean of how right each is, so it comes with the number of answers behind it. Sets whose score decides
something are asked again, and their answers add up.
"""

from dataclasses import dataclass, field, replace
from math import sqrt

from scipy.special import digamma, polygamma

from whymask.arrays import Floats
from whymask.search.objective import Response, unpack
from whymask.search.oracle import Oracle, Query, Responses, key_of_all
from whymask.search.protocol import Found, Selection

NORMAL = 1.959964  # of 95%
SETTLED = 1.2816  # standard deviations, a tenth on each side, after which a set is asked about no more
ASKED = 4  # times, at most, that a search asks about one masked image


def interval(score: float, answers: int, deviations: float = NORMAL) -> tuple[float, float]:
    """Wilson's interval of a share of `answers` answers, by default at 95%.

    For a mean of similarities in [0, 1] it is at least as wide as it must be: none varies more than yes and no do.

    >>> "%.3f %.3f" % interval(1.0, 16)
    '0.806 1.000'
    """
    squared = deviations**2
    centre = (score + squared / (2 * answers)) / (1 + squared / answers)
    half = deviations / (1 + squared / answers) * sqrt(score * (1 - score) / answers + squared / (4 * answers**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def logarithms(scores: Floats, answers: Floats) -> tuple[Floats, Floats]:
    """The mean and the variance of the log of probabilities, each estimated from a number of answers.

    They have the beta distribution that follows from Jeffreys' prior.
    """
    right, wrong = scores * answers + 0.5, (1 - scores) * answers + 0.5
    mean = digamma(right) - digamma(right + wrong)
    return mean, polygamma(1, right) - polygamma(1, right + wrong)


@dataclass(eq=False)
class Measured(Responses):
    """Responses that are means over answers; what is asked again adds to them."""

    samples: int = 1  # answers each time
    times: dict[bytes, int] = field(default_factory=dict)  # that an image has been asked about

    def note(self, key: bytes, response: Response) -> None:
        """Add the mean of some more answers."""
        before = self.times.get(key, 0)
        assert isinstance(response, float)
        self.scores[key] = (before * float(self.scores.get(key, 0.0)) + response) / (before + 1)  # type: ignore[arg-type]
        self.times[key] = before + 1

    def copy(self, key: bytes, source: Responses) -> None:
        """Take what is known of one image from the responses on another fill."""
        super().copy(key, source)
        assert isinstance(source, Measured)
        self.times[key] = source.times[key]

    def behind(self, key: bytes) -> float:
        """How many answers a response is the mean of."""
        return self.samples * self.times[key]

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.times.clear()


class MeasuredOracle(Oracle):
    """An oracle of measured responses, which asks again about sets that its search may have to decide on.

    These are the sets whose score may be on either side of the goal, or, without a goal, of the best score so far, and
    the whole image, by which the goal is set.
    """

    def again(self, query: Query, best: Found, most: int | None) -> Query | None:
        """What to ask again before the search goes on, in at most `most` forwards; None if all is settled."""
        if query.objective.alpha != 1:
            return None
        goal = None
        if isinstance(best, Selection):
            goal = best.score if best.goal is None else best.goal
        whole = key_of_all(query.send)
        keys = [
            [key for key in dict.fromkeys(query.keys) if self._open_to_doubt(fill, key, goal, whole)]
            if fill in query.fills
            else []
            for fill in range(len(self.responses))
        ]
        keys = [[key for key in some if key != whole or fill == query.fills[0]] for fill, some in enumerate(keys)]
        if most is not None:
            keys = [some[: max(0, most - sum(map(len, keys[:fill])))] for fill, some in enumerate(keys)]
        send = [key for some in keys for key in some]
        if not send:
            return None
        rows = unpack(send, query.send.shape[1])
        return replace(query, nominal=(len(send),), fresh=(len(send),), send=rows, send_keys=tuple(keys))

    def _open_to_doubt(self, fill: int, key: bytes, goal: float | None, whole: bytes | None) -> bool:
        known = self.responses[fill]
        assert isinstance(known, Measured)
        if known.times[key] >= ASKED:
            return False
        if key == whole:
            return True
        low, high = interval(float(known.scores[key]), int(known.behind(key)), SETTLED)  # type: ignore[arg-type]
        return goal is not None and low < goal <= high
