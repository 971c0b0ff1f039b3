"""What methods that use gradients share: a stage from a function of an image, hooks, and saving memory."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, get_type_hints

import torch
from torch.utils.checkpoint import checkpoint

from whymask.baselines.regions import baseline, by_map
from whymask.errors import WhymaskError
from whymask.models.batching import is_out_of_memory
from whymask.models.differentiable import Differentiable
from whymask.models.packages import required
from whymask.models.torch_module import evaluating
from whymask.search.protocol import Continuation, Problem
from whymask.search.stage import Stage


def backward(
    summary: str, *, name: str | None = None, requires: str | None = None
) -> Callable[[Callable[..., torch.Tensor]], Stage[..., Continuation]]:
    """Declare a function (image, rng, parameters) -> map (H, W) as a stage that asks for no forwards.

    With `memory_saving` images go one at a time, and the activations inside the module's blocks are not kept but
    computed again on the way back. Parameters are frozen meanwhile, and language models keep no cache, in any case.
    """

    def declare(attribute: Callable[..., torch.Tensor]) -> Stage[..., Continuation]:
        def start(problem: Problem, *, memory_saving: bool = False, **params: Any) -> Continuation:
            yield from ()
            with differentiable(problem, memory_saving) as image:
                importance = attribute(image, problem.rng(), **params)
            return by_map(problem, importance.detach().double().cpu().numpy())

        chosen = [p for p in inspect.signature(attribute).parameters.values() if p.kind is p.KEYWORD_ONLY]
        own = list(inspect.signature(start).parameters.values())[:2]
        start.__signature__ = inspect.Signature([own[0], *chosen, own[1]])  # type: ignore[attr-defined]
        start.__annotations__ |= get_type_hints(attribute, include_extras=True)
        start.__name__, start.__doc__ = attribute.__name__, attribute.__doc__
        return baseline(summary, cost=lambda n, p: 0, name=name, needs="gradients", requires=requires)(start)

    return declare


@contextmanager
def differentiable(problem: Problem, memory_saving: bool) -> Iterator[Differentiable]:
    """The image of a problem, its module frozen; with `memory_saving` set up to use less memory."""
    if problem.differentiable is None:
        raise WhymaskError("this method needs gradients: it explains an image on a torch model, not a set function.")
    image = problem.differentiable()
    try:
        with frozen(image.module), saving(image.module) if memory_saving else nullcontext():
            yield replace(image, at_once=1) if memory_saving else image
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        hint = (
            "use a method without gradients, such as 'trace'"
            if memory_saving
            else "pass params={'memory_saving': True}"
        )
        raise WhymaskError(f"the gradients do not fit into the device's memory: {hint}.") from None


@contextmanager
def frozen(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients of parameters inside the block; the module may be in the middle of training."""
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        with evaluating(module):
            yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


@contextmanager
def saving(module: torch.nn.Module) -> Iterator[None]:
    """Checkpoint the blocks of a network inside the block: the members of its lists that have parts themselves."""
    lists = [part for part in module.modules() if isinstance(part, torch.nn.ModuleList | torch.nn.Sequential)]
    blocks = list(dict.fromkeys(block for part in lists for block in part if any(True for _ in block.children())))
    own = [block.__dict__.get("forward") for block in blocks]
    try:
        for block in blocks:
            vars(block)["forward"] = partial(checkpoint, block.forward, use_reentrant=False)
        yield
    finally:
        for block, forward in zip(blocks, own, strict=True):
            del vars(block)["forward"]
            if forward is not None:
                vars(block)["forward"] = forward


def captum() -> Any:
    """captum's attribution methods."""
    return required("captum.attr", "this method needs captum: pip install 'whymask[gradients]'.")


@contextmanager
def hooked(parts: Iterable[torch.nn.Module], hook: Callable[[torch.nn.Module, Any, Any], None]) -> Iterator[None]:
    """Register a forward hook on these parts of a module inside the block."""
    handles = [part.register_forward_hook(hook) for part in parts]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
