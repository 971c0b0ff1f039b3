"""What an image processor makes of the grey levels of each channel, as a table.

The last steps of a processor, rescaling and normalising, take much of its time on a host and make four bytes of one.
Where a table gives the same values bit by bit, the processor leaves them out, and the device looks the values up.
"""

from dataclasses import dataclass

import numpy as np
import torch

from whymask.images.imaging import Canvas
from whymask.models.layout import LEVELS, Inputs

LEFT_OUT = {"do_rescale": False, "do_normalize": False}
"""Options of an image processor, by which its outputs are grey levels."""


@dataclass(frozen=True, eq=False)
class Levels:
    """The values (3, 256) of every channel's levels in tensors (..., 3, H, W), by name."""

    tables: dict[str, torch.Tensor]

    def packed(self, made: Inputs) -> dict[str, torch.Tensor]:
        """What a processor makes with LEFT_OUT, levels as bytes."""
        return {name: part.to(torch.uint8) if name in self.tables else part for name, part in made.items()}

    def values(self, packed: Inputs) -> dict[str, torch.Tensor]:
        """What it makes without LEFT_OUT."""
        return {name: self._value(name, part) if name in self.tables else part for name, part in packed.items()}

    def to(self, device: torch.device) -> "Levels":
        """The same with its tables on a device."""
        return Levels({name: table.to(device) for name, table in self.tables.items()})

    def _value(self, name: str, levels: torch.Tensor) -> torch.Tensor:
        first = (LEVELS + 1) * torch.arange(3, dtype=torch.int32, device=levels.device)  # row of a channel in the table
        return torch.nn.functional.embedding(levels + first[:, None, None], self.tables[name].view(-1, 1))[..., 0]


def chart(canvas: Canvas) -> Canvas:
    """All grey levels in 16 x 16 fields on a canvas of the same shape (H, W, 3)."""
    rows, columns = (np.arange(side) * 16 // side for side in canvas.shape[:2])
    return np.repeat((16 * rows[:, None] + columns).astype(np.uint8)[..., None], 3, axis=2)


def learn(made: Inputs, left_out: Inputs) -> Levels | None:
    """The table of a processor; None where the values of levels are not all that its last steps change.

    Args:
        made: the inputs of a chart.
        left_out: the same with LEFT_OUT.
    """
    tables = {}
    for name, values in made.items():
        levels = left_out[name]
        if torch.equal(levels, values):
            continue
        if levels.shape != values.shape or values.ndim < 3 or values.shape[-3] != 3:
            return None
        packed = levels.to(torch.uint8)
        tables[name] = torch.full((3, LEVELS + 1), torch.nan, dtype=values.dtype)
        for channel in range(3):
            tables[name][channel, packed[..., channel, :, :].long()] = values[..., channel, :, :]
        if tables[name].isnan().any() or not torch.equal(levels, packed.to(levels.dtype)):
            return None
    found = Levels(tables)
    again = found.values(found.packed(left_out))
    return found if all(torch.equal(again[name], made[name]) for name in made) else None
