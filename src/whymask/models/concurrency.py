"""How many requests are under way at one endpoint: learned from the replies, as batch sizes are."""

from statistics import median

FIRST = 4
GAIN = 0.1  # of the throughput that twice as many requests would have if the server answered them all at once


class Concurrency:
    """Finds the number of requests at once with the most replies per second, from the requests that are made anyway.

    By Little's law, the throughput of `size` requests under way is `size` divided by the seconds that each takes. The
    size doubles as long as that raises the throughput, up to `most`. It halves when the server is overloaded, and then
    grows again by one at a time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = min(FIRST, most)
        self._before: tuple[int, float] | None = None  # a smaller size and its throughput
        self._doubling = True
        self._seconds: list[float] = []  # of the replies at this size

    def replied(self, under_way: int, seconds: float) -> None:
        """Learn from a reply to a request that was sent when `under_way` requests were pending, itself included."""
        if under_way < self.size:  # fewer show nothing of what this size does
            return
        self._seconds.append(seconds)
        if self._doubling and len(self._seconds) >= 2 * self.size:
            self._double()
        elif not self._doubling and len(self._seconds) >= 4 * self.size:
            self.size = min(self.size + 1, self.most)
            self._seconds.clear()

    def overloaded(self) -> None:
        """The server rejected a request or did not answer it in time."""
        self.size = max(1, self.size // 2)
        self._doubling = False
        self._seconds.clear()

    def _double(self) -> None:
        throughput = self.size / median(self._seconds)
        self._seconds.clear()
        if self._before:
            smaller, reached = self._before
            if throughput < reached * (1 + GAIN * (self.size / smaller - 1)):
                self.size = self.most = smaller
        self._doubling = self.size < self.most
        self._before = self.size, throughput
        self.size = min(2 * self.size, self.most)
