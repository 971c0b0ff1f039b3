"""Closed-form set functions: boolean rows (B, n) -> responses (B,) in [0, 1]."""

from itertools import combinations

import numpy as np

from whymask.methods import methods
from whymask.search import Problem

N = 64
METHODS = {method.name: method for method in methods()}
ON_SETS = [name for name, method in METHODS.items() if method.needs == "sets"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rounded(function):
    """Round the response to float32, as a model's would be: exact ties are part of the reference figures."""
    return lambda rows: function(rows).astype(np.float32)


def _reference():
    linear = np.arange(N, 0, -1) / np.arange(N, 0, -1).sum()
    geometric = 0.8 ** np.arange(N)
    geometric /= geometric.sum()
    halves = 0.5 ** np.arange(1, 9)
    halves /= halves.sum()

    def rand_sigmoid(seed):
        weights = np.random.default_rng(seed).normal(0.3, 1, N)
        return lambda rows: sigmoid(0.3 * (rows @ weights) - 1)

    functions = {
        "modular_linear": lambda rows: rows @ linear,
        "modular_geometric": lambda rows: rows @ geometric,
        "constant_half": lambda rows: np.full(len(rows), 0.5),
        "needle": lambda rows: np.where(rows[:, 0], 0.95, 0.05),
        "sigmoid_linear": lambda rows: sigmoid(12 * (rows @ linear) - 4),
        "blocks8": lambda rows: 0.1 + 0.8 * (rows.reshape(-1, 8, 8).any(axis=2) @ halves),
        "rand_sigmoid_0": rand_sigmoid(0),
        "rand_sigmoid_1": rand_sigmoid(1),
    }
    return {name: rounded(function) for name, function in functions.items()}


REFERENCE = _reference()
"""The functions of the reference figures in reference.json, n = 64."""


def modular(n, seed=0):
    """f = sum of positive weights that add up to 1; also returns the weights."""
    weights = np.random.default_rng(seed).dirichlet(np.ones(n))
    return (lambda rows: rows @ weights), weights


def tangled(n, seed=0):
    """Random main effects and pair interactions under a sigmoid: neither monotone nor submodular, no ties."""
    rng = np.random.default_rng((n, seed))
    main, pairs = rng.normal(0.1, 0.7, n), np.triu(rng.normal(0, 0.5, (n, n)), 1)

    def respond(rows):
        kept = rows.astype(float)
        # A sum per row, so that the value of a set does not depend on the batch it is in.
        return sigmoid(np.array([row @ main + row @ pairs @ row for row in kept]) - 1)

    return respond


def masks_of_size(n, k):
    """All C(n, k) masks of exactly k regions."""
    chosen = list(combinations(range(n), k))
    rows = np.zeros((len(chosen), n), dtype=bool)
    for row, regions in zip(rows, chosen, strict=True):
        row[list(regions)] = True
    return rows


def grid_centroids(rows, cols):
    """Centres of a rows x cols grid, row by row, as (x / W, y / H)."""
    y, x = np.divmod(np.arange(rows * cols), cols)
    return np.stack([(x + 0.5) / cols, (y + 0.5) / rows], axis=1)


def complete(search, respond):
    """Run a search without the driver: its result and the number of sets of every ask."""
    sizes = []
    try:
        ask = next(search)
        while True:
            sizes.append(len(ask.rows))
            sides = [respond(images) for images in ask.objective.images(ask.rows)]
            ask = search.send(ask.objective.combine(np.array(sides, dtype=np.float64)))
    except StopIteration as stop:
        return stop.value, sizes


def problem(n, seed=0, **known):
    return Problem(n, seed, **known)


def spot(n=64, seed=0):
    """Evidence in one place and a few odd weights: a sigmoid of weights that fall off around a centre."""
    rng = np.random.default_rng(seed)
    centroids = grid_centroids(8, 8)[:n]
    weights = 2 * np.exp(-((centroids - rng.random(2)) ** 2).sum(axis=1) / 0.03) + rng.normal(0, 0.3, n)
    return (lambda rows: sigmoid(rows @ weights - 6)), weights, centroids


def scattered(n, rng):
    """Centres of n regions as superpixels have them: on a grid, each moved by up to a third of its spacing."""
    side = int(np.ceil(np.sqrt(n)))
    centres = grid_centroids(side, side) + rng.uniform(-0.35, 0.35, (side * side, 2)) / side
    return centres[np.sort(rng.permutation(side * side)[:n])]


def neighbours(count, centroids, rng):
    """`count` regions that hang together: each next is one of the three nearest to those before it."""
    chosen = [int(rng.integers(len(centroids)))]
    while len(chosen) < count:
        apart = ((centroids[:, None] - centroids[None, chosen]) ** 2).sum(axis=2).min(axis=1)
        apart[chosen] = np.inf
        chosen.append(int(rng.choice(np.argsort(apart)[:3])))
    return chosen
