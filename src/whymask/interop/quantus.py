"""An explanation function for Quantus: pass it to a metric as `explain_func`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from whymask.interop.captum import EvidenceAttribution
from whymask.methods import OF_SIZE
from whymask.models.outputs import Activation


def explain_func(
    model: torch.nn.Module,
    inputs: ArrayLike | torch.Tensor,
    targets: ArrayLike | torch.Tensor | None,
    *,
    method: str = OF_SIZE,
    k: int = 8,
    feature_mask: ArrayLike | torch.Tensor | None = None,
    baselines: ArrayLike | torch.Tensor | None = None,
    device: str | torch.device | None = None,
    activation: Activation = "softmax",
    seed: int = 0,
) -> NDArray[np.float32]:
    """Explain a batch the way Quantus asks for it; `explain_func_kwargs` reach the keyword arguments.

    Args:
        model: (B, C, H, W) to class scores (B, classes), in evaluation mode.
        inputs: (N, C, H, W); converted to the type of the model's parameters.
        targets: (N,) classes to explain, or one for all; None for the model's top class of each input.
        method, k, activation, seed: as for EvidenceAttribution.
        feature_mask, baselines: as for its `attribute`.
        device: where the model is; by default the device of its parameters.

    Returns:
        (N, 1, H, W): mask or rank of every pixel as in EvidenceAttribution; where features are single channels, that of
        the pixel's most important one.
    """
    weight = next(model.parameters(), torch.empty(0))
    attributions = EvidenceAttribution(model, method, k=k, activation=activation, seed=seed).attribute(
        _tensor(inputs).to(device or weight.device, weight.dtype),
        None if baselines is None else _tensor(baselines),
        None if targets is None else _tensor(targets),
        feature_mask=None if feature_mask is None else _tensor(feature_mask),
    )
    return attributions.amax(dim=1, keepdim=True).cpu().numpy()


def _tensor(values: Any) -> torch.Tensor:
    # The copy is for arrays torch cannot share: read-only ones, and those with negative strides.
    return values if isinstance(values, torch.Tensor) else torch.from_numpy(np.array(values))
