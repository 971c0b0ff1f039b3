"""Models whose inputs are pixels: what classifiers and models whose answers have a place share."""

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whymask.images.imaging import Canvas
from whymask.models.base import Bound, GridModel, View


@dataclass(frozen=True, eq=False)
class PixelBound(Bound):
    """Inputs are pixels, (3, H, W) or (H, W, 3), in an array or a tensor."""

    channels_first: bool

    def index(self, labels: NDArray[np.int32]) -> Any:
        """The label map as (1, H, W) or (H, W, 1): all channels of a pixel share its region."""
        index = labels.astype(np.int64)[None] if self.channels_first else labels.astype(np.int64)[..., None]
        if isinstance(self.inputs, np.ndarray):
            return index
        import torch

        return torch.from_numpy(index).to(self.inputs.device)


class PixelModel(GridModel):
    """A model whose inputs are pixels; a family implements `encode`."""

    deterministic = True
    default_k = 8
    channels_first = True

    batch_size: int
    settings: dict[str, str]

    @abstractmethod
    def encode(self, canvas: Canvas) -> Any:
        """Pixels (H, W, 3) in the layout of the model's inputs; each element must depend on its own pixel only."""

    def parts(self, view: View, inputs: Any, *besides: Hashable) -> dict[str, Any]:
        """What a bound image holds besides its target: rows share a batch where shape, type and `besides` agree."""
        return vars(view) | {
            "inputs": inputs,
            "fill_inputs": self.encode(view.fill),
            "key": (tuple(inputs.shape), str(inputs.dtype), *besides),
            "channels_first": self.channels_first,
        }
