"""The most memory a CUDA device held while something was explained."""

import gc
from typing import Any

from whymask.models.base import Generates, Model


class PeakMemory:
    """Measures from its construction on; reports nothing on devices other than CUDA.

    The device finishes its work before the peak is reset and before it is read. For language models, which are large, a
    clean start is made: garbage collected, the cache of freed memory emptied. `thorough` collects all garbage, as the
    paper's profiles do; without it only recent one, since all of it takes 0.2 s.
    """

    def __init__(self, model: Model, *, thorough: bool = False) -> None:
        device = str(model.settings.get("device", ""))
        self.device = device if device.startswith("cuda") else None
        if self.device:
            import torch

            if isinstance(model, Generates):
                gc.collect(2 if thorough else 1)
                torch.cuda.empty_cache()
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)

    def spent(self) -> dict[str, Any]:
        """The peak_memory for a result's provenance, in bytes, including the weights."""
        if not self.device:
            return {}
        import torch

        torch.cuda.synchronize(self.device)
        return {"peak_memory": torch.cuda.max_memory_allocated(self.device)}
