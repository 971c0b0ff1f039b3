"""A model on a simulated device: launching a forward returns at once, a thread computes one after the other."""

from concurrent.futures import ThreadPoolExecutor

from whymask.models.base import Launched

from models.tiny import quadrants


class Launching:
    """`quadrants`, launched; the log says when forwards were launched and read.

    `fails` maps the number of a forward to what is raised when it is read. The device has memory for `fits` images.
    A forward of b images takes `seconds(b)` by the device's clock.
    """

    def __init__(self, fails=None, fits=10**6, seconds=lambda count: 1.0):
        self.model, self.log, self.sizes = quadrants(), [], []
        self.fails, self.fits, self.seconds = fails or {}, fits, seconds
        self.device = ThreadPoolExecutor(1)

    def __getattr__(self, name):
        return getattr(self.model, name)

    def respond(self, inputs, bounds):
        number, count = len(self.sizes), len(inputs)
        self.sizes.append(count)
        self.log.append(("launch", number))
        under_way = self.device.submit(self.model.respond, inputs.clone(), bounds)

        def wait():
            self.log.append(("read", number))
            response = under_way.result()
            if count > self.fits:
                raise RuntimeError("CUDA error: out of memory")  # met by a kernel, not by the launch
            if number in self.fails:
                raise self.fails[number]
            return response, self.seconds(count)

        return Launched(wait)

    @property
    def under_way(self):
        """How many forwards had been launched and not read, after each launch."""
        count, counts = 0, []
        for what, _ in self.log:
            count += 1 if what == "launch" else -1
            counts += [count] * (what == "launch")
        return counts
