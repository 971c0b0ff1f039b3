"""From what a module returns to scores: where its logits are, and the activation that makes them probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch.nn.functional import softplus

from whymask.arrays import on_device
from whymask.errors import WhymaskError, unknown
from whymask.models.base import SCORE
from whymask.models.differentiable import Evidence, Softmax

Activation = Literal["softmax", "sigmoid", "none"]
"""How a score follows from logits: among classes that exclude each other, of each label alone, or as they are."""


def check_activation(activation: Activation | None) -> None:
    """Raise an error for an activation that does not exist."""
    if activation is not None and activation not in get_args(Activation):
        raise unknown("activation", str(activation), get_args(Activation))


def logits_in(outputs: Any, name: str, key: str | int | None = None) -> torch.Tensor:
    """The logits (B, classes) in what a module returns: a tensor, or a tuple or dictionary (of transformers) with one.

    Args:
        outputs: what the module returned.
        name: of the module, for errors.
        key: which entry of a tuple or dictionary to take; by default "logits", or the only table among the entries.
    """
    found = outputs
    if not isinstance(outputs, torch.Tensor):
        entries = _entries(outputs)
        tables = [entry for entry, value in entries.items() if isinstance(value, torch.Tensor) and value.ndim == 2]
        if key is None:
            key = "logits" if "logits" in entries else tables[0] if len(tables) == 1 else None
        if key is None and tables:
            raise WhymaskError(
                f"{name} returns several tables: {', '.join(map(repr, tables))}; specify which contains the logits: "
                f"whymask.wrap(model, ..., logits={tables[0]!r})."
            )
        if key is not None and key not in entries:
            raise unknown(f"entry of what {name} returns", str(key), map(str, entries))
        found = None if key is None else entries[key]
    if isinstance(found, torch.Tensor) and found.ndim == 1:  # one logit per image, its last dimension dropped
        found = found[:, None]
    if not isinstance(found, torch.Tensor) or found.ndim != 2:
        seen = tuple(found.shape) if isinstance(found, torch.Tensor) else type(outputs).__name__
        raise WhymaskError(f"{name} must return logits (B, classes), not {seen}.")
    return found


def _entries(outputs: Any) -> dict[Any, Any]:
    """The parts of what a module returns, by name or place."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if isinstance(outputs, tuple | list):
        return {**dict(enumerate(outputs)), **getattr(outputs, "_asdict", dict)()}
    return {"logits": outputs.logits} if hasattr(outputs, "logits") else {}


def names_of(
    name: str,
    outputs: int,
    labels: Sequence[str] | None,
    activation: Activation | None,
    call: str = "whymask.wrap(model",
) -> list[str]:
    """The names of the answers that a module with this many outputs distinguishes; by default their numbers.

    The sigmoid of a single logit is the probability of the second of two answers. `call` is the beginning of the line
    that an error shows.
    """
    if outputs == 1 and activation in (None, "softmax"):
        raise WhymaskError(
            f"{name} returns one number, whose softmax is always 1: pass activation='sigmoid' for a logit, "
            f"{call}, ..., activation='sigmoid'), or activation='none' for a probability."
        )
    given = None if labels is None else list(labels)
    if outputs == 1 and activation == "none":
        return given or [SCORE]
    if outputs == 1:
        given = [f"not {given[0]}", given[0]] if given and len(given) == 1 else given
        outputs = 2
    found = [str(i) for i in range(outputs)] if given is None else given
    if len(found) != outputs:
        raise WhymaskError(f"{name} has {outputs} classes, but labels has {len(found)}.")
    return found


@dataclass(frozen=True, eq=False)
class Probability(Evidence):
    """Targets whose probability the module returns: its logarithm is the logit."""

    chance: torch.Tensor  # (B,)

    @property
    def score(self) -> torch.Tensor:
        """f_y (B,), as the module returned it."""
        return self.chance


def answers(outputs: torch.Tensor, activation: Activation) -> torch.Tensor:
    """(B, answers) from (B, outputs): a single logit z stands for the two answers -z and z."""
    if activation == "sigmoid" and outputs.shape[1] == 1:
        return torch.cat([-outputs, outputs], dim=1)
    return outputs


def evidence(outputs: torch.Tensor, targets: Sequence[int], activation: Activation) -> Evidence:
    """How outputs (B, ...), in fp32, support targets[i] in row i."""
    if activation == "softmax":
        return Softmax.of(outputs, targets)
    column = on_device(targets, outputs.device)[:, None]
    value = answers(outputs, activation).gather(1, column)[:, 0]
    if activation == "sigmoid":
        return Evidence(value, softplus(value))
    return Probability(value.clamp(min=torch.finfo(value.dtype).tiny).log(), torch.zeros_like(value), value)
