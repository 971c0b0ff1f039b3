"""IGOS++: a smooth mask optimised for deletion and insertion by integrated gradients (Khorram et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import interpolate

from whymask.baselines.backward import backward
from whymask.models.differentiable import Differentiable
from whymask.search.limits import Count, Several, Weight

UNIT = 57.6  # grey levels: 1 in ImageNet's usual units
NOISE = 0.2 * UNIT  # added to every image on the way
EDGE = 0.01 * UNIT**2  # squared grey levels over which a step in the image lets the mask change
LONGEST_STEP, SHORTEST_STEP = 1000.0, 1e-5
DECAY, SLOPE = 0.2, 1e-4  # of the backtracking line search


@backward("a smooth mask optimised for deletion and insertion", name="igos++")
def igos_pp(
    image: Differentiable,
    rng: np.random.Generator,
    *,
    size: Several = 28,
    iterations: Count = 15,
    ig_steps: Count = 20,
    area_weight: Weight = 1.0,
    smooth_weight: Weight = 20.0,
) -> torch.Tensor:
    """1 - M_del M_ins of the two masks (size, size), stretched over the image.

    Deletion hides what M_del is low on, insertion shows it; the product must do both. The mask lies on the image plane,
    whatever layout the model takes. Blur, upsampling, weights and steps are those of the authors' code, whose edges
    across the image average over channels later than those down; here both average first.

    EAGLE's code for multimodal models takes another optimiser, other weights and log-probabilities, and passes the
    insertion integral the same pair of images as the deletion integral, so that their gradients cancel.
    """
    mask = Bilateral(image, ig_steps, area_weight, smooth_weight)
    masks = torch.ones(2, size, size, device=image.inputs.device)
    for _ in range(iterations):
        mask.redraw(rng)
        masks = mask.step(masks)
    return mask.up(1 - masks.prod(dim=0))


@dataclass
class Bilateral:
    """The objective over masks (2, size, size) for deletion and insertion, 1 where the image stays as it is."""

    image: Differentiable
    ig_steps: int
    area_weight: float
    smooth_weight: float

    def __post_init__(self) -> None:
        width = kernel(self.image.shape)
        self.blurred = self.image.blurred(width - 1, reach=width // 2)
        self.level = self.image.level
        canvas = torch.from_numpy(self.image.bound.canvas.astype(np.float32)).to(self.blurred.device).mean(dim=2)
        self.down = torch.exp(-(canvas.diff(dim=0) ** 2) / EDGE)
        self.across = torch.exp(-(canvas.diff(dim=1) ** 2) / EDGE)
        self.noise = torch.zeros_like(self.blurred).expand(self.ig_steps, *self.blurred.shape)
        self.longest = LONGEST_STEP

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw the noise anew; it stays the same over one step, so that its line search compares like with like."""
        drawn = torch.from_numpy(rng.standard_normal(self.noise.shape, dtype=np.float32))
        self.noise = NOISE * self.level * drawn.to(self.level)

    def terms(self, masks: torch.Tensor) -> Iterator[torch.Tensor]:
        """The parts of the objective, each to be differentiated on its own, since all graphs together are too many."""
        deletion, insertion = self.up(masks[0]), self.up(masks[1])
        both = deletion * insertion
        for plane, sign in ((deletion, 1), (insertion, -1), (both, 1), (both, -1)):
            for start in range(0, self.ig_steps, self.image.at_once):
                noise = self.noise[start : start + self.image.at_once]
                share = torch.arange(start + 1, start + len(noise) + 1, device=plane.device) / self.ig_steps
                kept = share[:, None, None] * plane  # from the blurred image to the masked one
                images = self.image.blend(kept if sign > 0 else 1 - kept, self.blurred) + noise
                # Halved, so that the four terms weigh as two against the regularisation.
                yield sign * self.image.score(images).sum() / self.ig_steps / 2
        yield self.regularisation(masks.prod(dim=0))

    def up(self, mask: torch.Tensor) -> torch.Tensor:
        """A mask (size, size) on the image plane (H, W): its corners lie on the image's."""
        return interpolate(mask[None, None], self.image.shape, mode="bilinear", align_corners=True)[0, 0]

    def regularisation(self, mask: torch.Tensor) -> torch.Tensor:
        """The area that is hidden, and total variation of the mask, plain and where the image has no edge."""
        up = self.up(mask)
        plain = (mask.diff(dim=0) ** 2).mean() + (mask.diff(dim=1) ** 2).mean()
        edges = (self.down * up.diff(dim=0) ** 2).mean() + (self.across * up.diff(dim=1) ** 2).mean()
        return self.area_weight * (1 - mask).mean() + self.smooth_weight * (plain + edges) / 2

    def value(self, masks: torch.Tensor) -> float:
        """The objective, without gradients."""
        with torch.no_grad():
            return float(sum(self.terms(masks)))

    def step(self, masks: torch.Tensor) -> torch.Tensor:
        """One step down the gradient, as long as the objective falls enough for it (backtracking line search).

        Each search starts two tries above the length the last one found.
        """
        masks = masks.detach().requires_grad_()
        before, gradient = 0.0, torch.zeros_like(masks)
        for term in self.terms(masks):
            (part,) = torch.autograd.grad(term, masks, retain_graph=True)
            gradient += part
            before += float(term.detach())
            del term  # and its graph, before the next one is made
        masks, length = masks.detach(), self.longest
        while length >= SHORTEST_STEP:
            moved = (masks - length * gradient).clamp(0, 1)
            if self.value(moved) <= before - SLOPE * length * float((gradient**2).sum()):
                self.longest = min(LONGEST_STEP, length / DECAY**2)
                return moved
            length *= DECAY
        return masks


def kernel(shape: tuple[int, int]) -> int:
    """How wide the kernel of the blur is, in pixels; its standard deviation is 1 less."""
    return 51 if max(shape) < 500 else 151 if max(shape) < 800 else 201
