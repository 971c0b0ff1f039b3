"""Evidence with the interface of captum's perturbation methods: any forward function, any batch of images."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from whymask.arrays import Bools
from whymask.errors import WhymaskError, whole
from whymask.images.imaging import Canvas
from whymask.images.masking import compose, stack
from whymask.images.partition import Partition, numbered, partition
from whymask.methods import OF_SIZE, Recipe
from whymask.models.outputs import Activation, answers, check_activation, evidence
from whymask.search import Problem, Search, SearchResult, drive
from whymask.search.batches import Piece

try:
    from captum.attr import Attribution  # type: ignore[import-untyped]
except ImportError:  # the class works without captum
    Attribution = object


class EvidenceAttribution(Attribution):  # type: ignore[misc]
    """Finds the features of each input that are enough for a model's answer.

    Args:
        forward_func: images (B, C, H, W) to class scores (B, classes): a module or any function. A module is called as
            it is, so put it in evaluation mode first.
        method: a recipe (see `whymask methods`). A mask method such as "trace" gives masks, a full search such as
            "trace+greedy" orderings.
        k: number of features kept, for methods that have this parameter.
        activation: how a score follows from what forward_func returns, as for `whymask.wrap`: "softmax" or "sigmoid" of
            logits, "none" for probabilities.
        seed: reaches every random choice, together with the image.
        params: the method's other parameters.

    >>> finder = EvidenceAttribution(lambda images: images.flatten(1), k=1)
    >>> finder.attribute(torch.tensor([[[[0.0, 9.0, 0.0]]]]), feature_mask=torch.tensor([5, 6, 7]))
    tensor([[[[0., 1., 0.]]]])
    """

    def __init__(
        self,
        forward_func: Callable[..., torch.Tensor],
        method: str = OF_SIZE,
        *,
        k: int = 8,
        activation: Activation = "softmax",
        seed: int = 0,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        check_activation(activation)
        size = {"k": k} if "k" in Recipe(method).method.parameters else {}
        self.recipe = Recipe(method, {**size, **(params or {})})
        self.forward_func, self.activation = forward_func, activation  # captum's own constructor would do no more
        self.seed = whole("a seed", seed, 0)

    def attribute(
        self,
        inputs: torch.Tensor,
        baselines: float | torch.Tensor | None = None,
        target: int | torch.Tensor | Sequence[int] | None = None,
        additional_forward_args: Any = None,
        feature_mask: torch.Tensor | None = None,
        perturbations_per_eval: int = 1,
        show_progress: bool = False,
    ) -> torch.Tensor:
        """Search the features of all examples together.

        Args:
            inputs: (N, C, H, W) or (N, H, W), on the device of the model.
            baselines: what masked features show, a number or a tensor broadcastable to inputs; 0 by default.
            target: the class to explain, one for all or N of them; by default the model's top class of each example.
            additional_forward_args: what forward_func takes after the images, one argument or a tuple of them. Tensors
                of length N hold a value for each example, and follow its masked copies.
            feature_mask: whole numbers broadcastable to inputs; elements of one example with the same number are one
                feature. By default SLICO with 64 seeds on each example, its values stretched to 0 ... 255.
            perturbations_per_eval: masked copies per example in one call of forward_func; a call gets at most N times
                as many images.
            show_progress: draw a progress bar of the forwards.

        Returns:
            In the shape of inputs, float32: 1 on the features of the mask and 0 elsewhere; for an ordering from 1 on
            the first feature down to 1/n on the last of n: rank, not magnitude.
        """
        if not isinstance(inputs, torch.Tensor) or inputs.ndim not in (3, 4) or not inputs.numel():
            raise WhymaskError("inputs must be one tensor of images (N, C, H, W) or (N, H, W), and no size may be 0.")
        more = additional_forward_args
        more = () if more is None else more if isinstance(more, tuple) else (more,)
        batch_size = len(inputs) * whole("perturbations_per_eval", perturbations_per_eval, 1)
        attributions = torch.zeros(inputs.shape, dtype=torch.float32, device=inputs.device)
        with torch.no_grad():  # not inference_mode: what a module keeps of a forward may be used in training
            fills = torch.as_tensor(0 if baselines is None else baselines, dtype=inputs.dtype, device=inputs.device)
            fills = _broadcast("baselines", fills, inputs)
            features = _features(feature_mask, inputs)
            if target is None:
                target = answers(self._outputs(inputs.clone(), more), self.activation).argmax(dim=1)
            channels = (images if images.ndim == 4 else images[:, None] for images in (inputs, fills))
            parts = zip(*channels, features, _targets(target, len(inputs)), range(len(inputs)), strict=True)
            examples = [Example.of(*part) for part in parts]
            searches = [Search(self.recipe, example.problem(self.seed), example) for example in examples]
            expected = sum(self.recipe.estimate(example.partition.n) for example in examples)
            with tqdm(total=expected, unit="forward", disable=not show_progress) as bar:

                def respond(pieces: Sequence[Piece]) -> list[NDArray[np.float32]]:
                    images = stack([example.masked(rows) for example, rows in pieces])
                    shown = [example for example, rows in pieces for _ in rows]
                    own = _of_examples(more, [example.number for example in shown], len(inputs))
                    images = images.reshape(len(images), *inputs.shape[1:])
                    scores = self._scores(images, [example.target for example in shown], own)
                    bar.update(len(scores))
                    return np.split(scores, np.cumsum([len(rows) for _, rows in pieces])[:-1])

                for number, found in drive(searches, respond, batch_size=batch_size):
                    values = torch.from_numpy(_values(found)).to(inputs.device)
                    attributions[number] = values[found.about.index].reshape(-1, *inputs.shape[-2:]).squeeze(0)
        return attributions

    def _scores(self, images: torch.Tensor, targets: list[int], more: tuple[Any, ...]) -> NDArray[np.float32]:
        outputs = self._outputs(images, more)
        classes = answers(outputs, self.activation).shape[1]
        for target in targets:
            if not 0 <= target < classes:
                raise WhymaskError(f"target {target} is outside the model's classes 0 ... {classes - 1}.")
        return evidence(outputs, targets, self.activation).score.cpu().numpy()

    def _outputs(self, images: torch.Tensor, more: tuple[Any, ...]) -> torch.Tensor:
        """What forward_func returns for images and its other arguments, (B, classes) in fp32."""
        scores = self.forward_func(images, *more)
        shape = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != len(images):
            raise WhymaskError(
                f"forward_func must return class scores of shape ({len(images)}, classes) for {len(images)} images, "
                f"but returned {shape}."
            )
        if self.activation == "softmax" and scores.shape[1] == 1:
            raise WhymaskError("the softmax of one logit is always 1: pass activation='sigmoid', or 'none'.")
        return scores.float()


@dataclass(frozen=True, eq=False)
class Example:
    """One example of a batch, its features and the class to explain."""

    x: torch.Tensor  # (C, H, W)
    x0: torch.Tensor  # (C, H, W) its baseline
    index: torch.Tensor  # (1 or C, H, W) the feature of every element
    partition: Partition
    target: int
    number: int  # of the example in its batch

    @classmethod
    def of(cls, x: torch.Tensor, x0: torch.Tensor, features: NDArray[np.int32], target: int, number: int = 0) -> Self:
        """An example whose features (1 or C, H, W) are numbered 0 ... n - 1."""
        # Channels side by side inside their pixel: so areas and centroids hold for features of single channels too.
        labels = features.transpose(1, 2, 0).reshape(features.shape[1], -1)
        index = torch.from_numpy(features.astype(np.int64)).to(x.device)
        return cls(x, x0, index, Partition(labels, "features"), target, number)

    def masked(self, rows: Bools) -> torch.Tensor:
        """The masked copies (B, C, H, W) of kept sets (B, n)."""
        copies: torch.Tensor = compose(rows, self.index, self.x, self.x0)
        return copies

    def problem(self, seed: int) -> Problem:
        """What a search may know; its random choices depend on the seed and the image, not on the rest of the batch."""
        picture = hashlib.sha256(self.x.float().cpu().numpy().tobytes()).digest()[:8]
        parts = self.partition
        return Problem(parts.n, (seed, int.from_bytes(picture)), parts.centroids, parts.areas)


def _values(found: SearchResult) -> NDArray[np.float32]:
    """The attribution (n,) of every feature."""
    if found.order is None:
        assert found.mask is not None
        return found.mask.astype(np.float32)
    n = len(found.order)
    values = np.empty(n, dtype=np.float32)
    values[found.order] = 1 - np.arange(n) / n
    return values


def _canvas(x: torch.Tensor) -> Canvas:
    """An example (C, H, W) as a picture (H, W, 3), grey unless it has three channels."""
    picture = x.float() if len(x) == 3 else x.float().mean(dim=0).expand(3, -1, -1)
    low, high = picture.aminmax()
    span = (high - low).clamp(min=torch.finfo(torch.float32).tiny)  # a flat image has none
    return ((picture - low) / span * 255).round().byte().permute(1, 2, 0).cpu().numpy()


def _features(feature_mask: torch.Tensor | None, inputs: torch.Tensor) -> list[NDArray[np.int32]]:
    """The features (1 or C, H, W) of each example, numbered 0 ... n - 1 without gaps."""
    if feature_mask is None:
        return [partition(_canvas(x if x.ndim == 3 else x[None])).labels[None] for x in inputs]
    if not isinstance(feature_mask, torch.Tensor) or feature_mask.is_floating_point():
        raise WhymaskError("feature_mask must be a tensor of whole numbers.")
    _broadcast("feature_mask", feature_mask, inputs)
    mask = feature_mask[(None,) * (inputs.ndim - feature_mask.ndim)]
    mask = mask if inputs.ndim == 4 else mask[:, None]
    mask = mask.expand(len(inputs), -1, *inputs.shape[-2:])
    return [numbered(example) for example in mask.cpu().numpy()]


def _of_examples(more: tuple[Any, ...], numbers: list[int], count: int) -> tuple[Any, ...]:
    """Arguments for masked copies of the examples of these numbers: tensors of `count` values follow their example."""
    return tuple(
        one[torch.tensor(numbers, device=one.device)]
        if isinstance(one, torch.Tensor) and one.ndim and len(one) == count
        else one
        for one in more
    )


def _targets(target: int | torch.Tensor | Sequence[int], count: int) -> list[int]:
    """One class for each of `count` examples."""
    try:
        values = torch.as_tensor(target)
        if values.dtype.is_floating_point or values.dtype == torch.bool or values.ndim > 1:
            raise TypeError
        return [int(value) for value in values.expand(count)]
    except (TypeError, ValueError, RuntimeError):
        raise WhymaskError(f"target must be a class number, or one for each of the {count} examples.") from None


def _broadcast(name: str, tensor: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    try:
        return tensor.broadcast_to(inputs.shape)
    except RuntimeError:
        shapes = f"{tuple(tensor.shape)} does not fit inputs of shape {tuple(inputs.shape)}"
        raise WhymaskError(f"{name} of shape {shapes}.") from None
