"""The most memory a CUDA device held while something was explained."""

import gc
from typing import Any

from whymask.models.base import Generates, Model


class PeakMemory:
    """Measures from its construction on; reports nothing on devices other than CUDA.

    For language models, which are large, a clean start is made: recent garbage collected, the cache of freed memory
    emptied. That takes longer than explaining a small model.
    """

    def __init__(self, model: Model) -> None:
        device = str(model.settings.get("device", ""))
        self.device = device if device.startswith("cuda") else None
        if self.device:
            import torch

            if isinstance(model, Generates):
                gc.collect(1)  # what the last explanation left; looking through every module's objects takes 0.2 s
                torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def spent(self) -> dict[str, Any]:
        """For the provenance: peak_memory in bytes."""
        if not self.device:
            return {}
        import torch

        return {"peak_memory": torch.cuda.max_memory_allocated(self.device)}
