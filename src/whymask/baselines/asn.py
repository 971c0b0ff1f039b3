"""ASN: the paper's control of a relaxed mask, optimised by gradients and hardened into a set of regions."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.baselines.backward import differentiable
from whymask.baselines.regions import pixels
from whymask.errors import WhymaskError
from whymask.images.masking import fill_canvas
from whymask.models.differentiable import Differentiable
from whymask.search.limits import Count, NonNegative, Proportion, Weight
from whymask.search.objective import SUFF_NECC, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, check_k
from whymask.search.stage import stage

USUAL = 10  # regions that "fixed" keeps
SIZES = (5, 16)  # between which the knee and the plateau are looked for
PLATEAU = 0.95  # share of the best value that counts as being on it
RATE = 0.1  # of Adam
START = 0.6  # the area budget: every variable starts there


@stage("mask", "a relaxed mask, optimised and hardened", cost=lambda n, p: 2, needs="gradients", baseline=True)
def asn(
    problem: Problem,
    *,
    k: Count | None = None,
    rule: Literal["fixed", "knee", "plateau"] = "fixed",
    steps: NonNegative = 25,
    margin: Proportion = 0.8,
    sparse: Weight = 0.01,
    decided: Weight = 0.05,
    memory_saving: bool = False,
    init_objective: AnyObjective = SUFF_NECC,
) -> Initialiser:
    """The regions with the largest of n continuous variables, optimised for SN = alpha Suff + (1 - alpha) Necc.

    The paper names the parts but not how they fit; this is our reading. Variables m = sigmoid(theta), all 0.6 at first
    (the area budget; its penalty has weight 0), show m x + (1 - m) of a dark defocused image. Adam minimises
    alpha relu(margin f - f(m)) + (1 - alpha) relu(f(1 - m) - (1 - margin) f), plus sparse * mean m (mu) and
    decided * mean 4 m (1 - m) (nu), with f the score of the whole image. "fixed" keeps the top k, by default 10. The
    other rules find the size, and take no k: they score the top 5 ... 16 by SN; "knee" keeps the size farthest above
    the line between the ends, "plateau" the smallest with 95% of the best. Only these forwards are counted.
    """
    if rule != "fixed" and k is not None:
        raise WhymaskError(f"the rule {rule!r} finds the size of the mask: leave k out, or use the rule 'fixed'.")
    size = USUAL if k is None else k
    if rule == "fixed":
        check_k(size, problem.n)
    objective = Objective.of(init_objective)
    with differentiable(problem, memory_saving) as image:
        theta = relaxed(image, pixels(problem), problem.n, objective.alpha, steps, margin, sparse, decided)
    least, most = (size, size) if rule == "fixed" else (min(SIZES[0], problem.n), min(SIZES[1], problem.n))
    ranks = np.argsort(np.argsort(-theta, kind="stable"), kind="stable")
    rows = ranks < np.arange(least, most + 1)[:, None]
    scores = yield Ask(rows, objective, "init", Selection(rows[0], logits=theta[None]))
    chosen = plateau(scores) if rule == "plateau" else knee(scores)
    return Selection(rows[chosen], float(scores[chosen]), logits=theta[None])


def relaxed(
    image: Differentiable,
    labels: NDArray[np.int32],
    n: int,
    alpha: float,
    steps: int,
    margin: float,
    sparse: float,
    decided: float,
) -> Floats:
    """The optimised variables theta (n,)."""
    x0 = image.encode(fill_canvas("dark_defocus", image.bound.canvas))
    region = torch.from_numpy(labels.astype(np.int64)).to(x0.device)
    with torch.no_grad():
        full = image.score(image.inputs[None])[0]
    theta = torch.full((n,), float(np.log(START / (1 - START))), device=x0.device, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=RATE)
    for _ in range(steps):
        m = theta.sigmoid()
        kept, removed = image.score(image.blend(torch.stack([m[region], 1 - m[region]]), x0))
        short, left = (margin * full - kept).relu(), (removed - (1 - margin) * full).relu()
        loss = alpha * short + (1 - alpha) * left + sparse * m.mean() + decided * (4 * m * (1 - m)).mean()
        adam.zero_grad()
        (theta.grad,) = torch.autograd.grad(loss, theta)
        adam.step()
    return theta.detach().double().cpu().numpy()


def knee(scores: Floats) -> int:
    """Where the curve lies farthest above the line between its ends; the first of equals."""
    line = np.linspace(scores[0], scores[-1], len(scores))
    return int(np.argmax(scores - line))


def plateau(scores: Floats) -> int:
    """The first that reaches most of the best."""
    return int(np.argmax(scores >= PLATEAU * scores.max()))
