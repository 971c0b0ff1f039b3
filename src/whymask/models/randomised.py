"""Cascading randomisation: a model's weights shuffled layer by layer, from the output down (Adebayo et al., 2018).

Evidence that stays the same when all weights are random does not depend on what the model has learned.
"""

from collections.abc import Iterator
from copy import deepcopy

import torch

from whymask.models.base import Model
from whymask.models.onnx import OnnxClassifier
from whymask.models.torch_module import TorchClassifier

STEPS = 4


def weights_of(model: Model) -> TorchClassifier | None:
    """The same model with weights that can be reached, where it is a torch module or was made from one."""
    found = model.source if isinstance(model, OnnxClassifier) else model
    return found if isinstance(found, TorchClassifier) and shuffled_layers(found.module) else None


def cascade(model: TorchClassifier, seed: int = 0) -> Iterator[tuple[int, int, TorchClassifier]]:
    """Yield (layers shuffled, layers, the model with them) for more and more layers: the last one, ..., all of them.

    The weights of a copy are shuffled further at every step, so each model is good until the next one is asked for.
    Shuffling keeps the distribution of the weights of every layer, and so the scale of what passes through it.
    """
    module, generator = deepcopy(model.module), torch.Generator().manual_seed(seed)
    layers = shuffled_layers(module)[::-1]
    counts = sorted({1, *(round(len(layers) * step / (STEPS - 1)) for step in range(1, STEPS))} - {0})
    done = 0
    for count in counts:
        for layer in layers[done:count]:
            shuffle(layer, generator)
        done = count
        yield count, len(layers), model.over(module)


def shuffled_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The parts that have weights of their own which shuffling can change, in the order they were made in."""
    return [part for part in module.modules() if any(one.numel() > 1 for one in part.parameters(recurse=False))]


def shuffle(layer: torch.nn.Module, generator: torch.Generator) -> None:
    """Permute the values of each of a layer's own parameters."""
    with torch.no_grad():
        for parameter in layer.parameters(recurse=False):
            order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
            parameter.copy_(parameter.flatten()[order].view(parameter.shape))
