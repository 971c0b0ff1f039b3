"""The methods of `whymask.baselines` as stages of recipes; a module is imported when its method is first used."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from whymask.arrays import Floats
from whymask.search.protocol import Ask, Problem, Ranking, Selection, StageFunction

Needs = Literal["sets", "pixels", "gradients"]
"""What a method works on: any set function, an image, or an image on a model that can be differentiated."""


@dataclass(frozen=True)
class Rival:
    """A stage in `whymask.baselines`; its module is imported when the stage is first used."""

    module: str
    function: str
    needs: Needs = "sets"
    only: str | None = None  # what else a model must be: "class", "clip" or "question", as its registry entry tells

    def load(self) -> StageFunction:
        """The stage itself."""
        stage: StageFunction = getattr(import_module(f"whymask.baselines.{self.module}"), self.function)
        return stage

    def __call__(self, problem: Problem, *found: Any, **params: Any) -> Generator[Ask, Floats, Selection | Ranking]:
        """Start the stage."""
        return self.load()(problem, *found, **params)


RIVALS: dict[str, tuple[Rival, str]] = {
    "eagle-efficient": (Rival("eagle", "eagle_efficient"), "greedy from both ends over a short list of candidates"),
    "lima-bidirectional": (
        Rival("lima", "lima_bidirectional"),
        "greedy from both ends: the best first, the worst last",
    ),
    "rise": (Rival("rise", "rise", "pixels"), "the mean of random smooth masks, weighted by their scores"),
    "hsic": (Rival("hsic", "hsic", "pixels"), "how much the score depends on each cell of a grid"),
    "occlusion": (Rival("occlusion", "occlusion"), "what the score loses without each region"),
    "lime": (Rival("lime", "lime"), "a linear model of the score around the image"),
    "kernelshap": (Rival("kernelshap", "kernelshap"), "the Shapley value of each region"),
    "gradient": (Rival("gradient", "gradient", "gradients"), "the size of the gradient"),
    "integrated-gradients": (
        Rival("integrated_gradients", "integrated_gradients", "gradients"),
        "gradients on the straight way from the fill",
    ),
    "ig2": (Rival("ig2", "ig2", "gradients"), "gradients on a path that takes the features to blurred ones"),
    "igos++": (Rival("igos", "igos_pp", "gradients"), "a smooth mask optimised for deletion and insertion"),
    "grad-cam": (
        Rival("grad_cam", "grad_cam", "gradients", "class"),
        "the last feature maps, weighted by their gradients",
    ),
    "grad-eclip": (
        Rival("grad_eclip", "grad_eclip", "gradients", "clip"),
        "the last attention of a CLIP ViT, by gradients",
    ),
    "llava-cam": (
        Rival("llava_cam", "llava_cam", "gradients", "question"),
        "a multimodal model's image tokens, by gradients",
    ),
}
"""The methods the paper compares with, each a full ordering; asn, which is an initialiser, belongs to them too."""


def cost(name: str, n: int, values: Mapping[str, Any]) -> int:
    """About how many forwards a method the paper compares with takes on n regions; none where it uses gradients."""
    costs = {
        "eagle-efficient": n * (n + 1) // 3,
        "lima-bidirectional": n * (n + 2) // 2,
        "rise": values.get("masks"),
        "hsic": values.get("designs"),
        "occlusion": n + 1,
        "lime": values.get("samples"),
        "kernelshap": values.get("samples"),
    }
    return int(costs.get(name) or 0)
