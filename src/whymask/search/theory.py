"""The recovery bounds of the paper's appendix A: how likely TRACE is to draw a near-optimal mask.

A mask is a hit when F(S) >= mu * opt. All bounds speak of R rounds of `samples` masks each. On a problem small enough
for a table of all masks, `block_part` and `certificate_family` give what the bounds assume (docs/theory.md).

What is rigorous and what is not: for one round from *fixed* logits the certificate bounds (Eqs. 32-34) hold
for any function that has the stated block structure. Across rounds the appendix treats the hit probabilities of later
rounds as given numbers, although the logits that make them are themselves random: Eqs. 22, 36 and 43 are statements
about those numbers, and the tables below show what they would give, not what a run is promised.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb, factorial, inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError, whole
from whymask.search.protocol import check_k

Certificate = Sequence[int]
"""Indices J of the blocks that together certify a near-optimal mask (Eq. 28)."""


Blocks: TypeAlias = tuple[int, ...]
"""A set of blocks, or of coarse groups, by their ascending indices."""

MOST_MASKS = 1_000_000


def k_masks(n: int, k: int) -> Bools:
    """C_k(U), all masks of exactly k of n regions (Eq. 18): (C(n, k), n)."""
    check_k(whole("k", k, 1), n)
    if comb(n, k) > MOST_MASKS:
        raise WhymaskError(f"there are {comb(n, k)} masks of {k} of {n} regions, too many for a table of scores.")
    masks = np.zeros((comb(n, k), n), dtype=bool)
    chosen = np.array(list(combinations(range(n), k)), dtype=np.intp)
    np.put_along_axis(masks, chosen, True, axis=1)
    return masks


def near_optimal(scores: ArrayLike, mu: float) -> Bools:
    """G_mu: which masks of a table of all scores (B,) reach mu * opt (Eqs. 19 and 20)."""
    table = np.asarray(scores, dtype=np.float64)
    return np.asarray(table >= _ratio(mu) * table.max())


def activated(masks: Bools, blocks: ArrayLike) -> Bools:
    """B(S), the blocks that each mask touches (Eq. 24).

    Args:
        masks: (B, n).
        blocks: (n,) block index of every region, 0 ... q - 1.

    Returns:
        (B, q)
    """
    return np.asarray(masks @ _members(blocks, masks.shape[1]))


def block_part(masks: Bools, scores: ArrayLike, blocks: ArrayLike) -> tuple[dict[Blocks, float], float]:
    """Phi of all sets of at most k blocks, and epsilon_Delta: Eq. 25 with the smallest residual there is.

    Phi(J) = min F(S) over the masks that touch all blocks of J. This is the largest monotone function with
    Phi(B(S)) <= F(S), and epsilon_Delta = max (F(S) - Phi(B(S))) / k.

    Args:
        masks: (B, n), all masks of one size k (`k_masks`).
        scores: (B,), F of each.
        blocks: (n,) block index of every region, 0 ... q - 1.
    """
    table = np.asarray(scores, dtype=np.float64)
    n, k = masks.shape[1], int(masks[:1].sum())
    if table.shape != (len(masks),):
        raise WhymaskError(f"block_part needs one score per mask, shape ({len(masks)},), not {table.shape}.")
    if not k or (masks.sum(axis=1) != k).any() or len(np.unique(masks, axis=0)) < comb(n, k):
        raise WhymaskError(f"block_part needs all {comb(n, k)} masks of {k} of the {n} regions (see k_masks).")
    touched = activated(masks, blocks)
    if not touched.any(axis=0).all():
        raise WhymaskError("blocks must be numbered from 0 without gaps: every block has regions.")
    q = touched.shape[1]
    activates = [tuple(np.flatnonzero(row).tolist()) for row in touched]
    phi = {some: inf for size in range(min(k, q) + 1) for some in combinations(range(q), size)}
    for some, score in zip(activates, table.tolist(), strict=True):
        phi[some] = min(phi[some], score)
    for some in reversed(phi):  # a set's masks are also those of every set with one block less
        for i in range(len(some)):
            fewer = some[:i] + some[i + 1 :]
            phi[fewer] = min(phi[fewer], phi[some])
    residual = [score - phi[some] for some, score in zip(activates, table.tolist(), strict=True)]
    return phi, float(max(residual) / k)


def certificate_family(phi: Mapping[Blocks, float], k: int, epsilon: float, mu: float) -> list[Blocks]:
    """A_mu, the sets of at most k blocks with Phi(J) >= mu (Phi*_k + k epsilon) (Eqs. 26-28).

    Assumes a monotone Phi and 0 <= F(S) - Phi(B(S)) <= k epsilon, as `block_part` gives them. Then every mask of k
    regions that touches all blocks of one of the sets is a hit (Eqs. 29 and 30).
    """
    attainable = {some: value for some, value in phi.items() if len(some) <= k}
    enough = _ratio(mu) * (max(attainable.values()) + k * epsilon)
    return [some for some, value in attainable.items() if value >= enough]


def interactions(values: Mapping[Blocks, float]) -> dict[Blocks, float]:
    """phi_J of Eq. 8: what the groups of J add together beyond all smaller sets of them.

    CoPAIR assumes that it is small for three groups and more.

    Args:
        values: F of the union of the coarse groups I, for every I in question and all subsets of it.

    >>> phi = interactions({(): 0.1, (0,): 0.4, (1,): 0.3, (0, 1): 0.8})
    >>> {group: round(value, 3) for group, value in phi.items()}
    {(): 0.1, (0,): 0.3, (1,): 0.2, (0, 1): 0.2}
    """
    phi: dict[Blocks, float] = {}
    for groups in sorted(values, key=len):
        fewer = [some for size in range(len(groups)) for some in combinations(groups, size)]
        if not phi.keys() >= set(fewer):
            raise WhymaskError(f"interactions needs the score of every subset of the groups {groups}.")
        phi[groups] = values[groups] - sum(phi[some] for some in fewer)
    return phi


def _ratio(mu: float) -> float:
    if not 0 < mu < 1:
        raise WhymaskError(f"the approximation ratio mu lies in (0, 1), not {mu}.")
    return mu


def _members(blocks: ArrayLike, n: int) -> Bools:
    """Which of the n regions belongs to which block, (n, q)."""
    labels = np.asarray(blocks)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise WhymaskError(f"blocks must give the number of its block for each of the {n} regions, starting from 0.")
    return np.asarray(labels[:, None] == np.arange(labels.max() + 1))


def hit_bound(round_probabilities: ArrayLike, samples: int) -> float:
    """1 - prod_r (1 - p_r)^samples: the chance of at least one hit (Eqs. 22 and 36).

    Assumes the masks of a round are independent given its distribution and takes p_r, the chance that one mask
    of round r is a hit (or a lower bound of it), as given.

    >>> round(hit_bound([0.01] * 5, samples=32), 3)
    0.8
    """
    whole("samples", samples, 1)
    p = np.asarray(round_probabilities, dtype=np.float64)
    if ((p < 0) | (p > 1)).any():
        raise WhymaskError("a round's hit probability must lie in [0, 1].")
    return float(1 - np.prod((1 - p) ** samples))


def block_mass(logits: ArrayLike, blocks: ArrayLike, temperature: float = 1.0) -> Floats:
    """eta_j, the share of sampling weight exp(theta / T) that lies in each block (Eq. 31).

    Args:
        logits: (n,) or (rounds, n).
        blocks: (n,) block index of every region, 0 ... q - 1.

    Returns:
        (q,) or (rounds, q); every row sums to 1.
    """
    theta = np.asarray(logits, dtype=np.float64) / temperature
    weights = np.exp(theta - theta.max(axis=-1, keepdims=True))
    return np.asarray(weights @ _members(blocks, weights.shape[-1]) / weights.sum(axis=-1, keepdims=True))


def prefix_bound(eta: ArrayLike, certificate: Certificate) -> float:
    """h! prod_j eta_j: the first h draws hit the h blocks of J in some order (Eq. 32).

    Assumes disjoint blocks and k >= h draws without replacement by Gumbel-top-k; eta are shares, so they sum to 1.
    """
    return factorial(len(certificate)) * float(np.prod(_shares(eta)[list(certificate)]))


def union_bound(eta: ArrayLike, certificate: Certificate, k: int) -> float:
    """[1 - sum_j (1 - eta_j)^k]_+: none of the blocks of J is missed by all k draws (Eq. 33).

    Assumes disjoint blocks and k draws without replacement by Gumbel-top-k; eta are shares, so they sum to 1.
    """
    return max(0.0, 1 - float(np.sum((1 - _shares(eta)[list(certificate)]) ** k)))


def _shares(eta: ArrayLike) -> Floats:
    shares = np.asarray(eta, dtype=np.float64)
    if (shares < 0).any() or not np.isclose(shares.sum(), 1):
        raise WhymaskError("the masses of the blocks must be shares that sum to 1 (see block_mass).")
    return shares


def certificate_bound(eta: ArrayLike, certificates: Iterable[Certificate], k: int) -> float:
    """A lower bound of one mask's hit probability, the better of both branches (Eq. 34).

    Assumes that every mask which touches all blocks of some certificate is a hit (Eqs. 25-30: a monotone block part
    plus a bounded residual). Prefix events of different certificates of one size exclude each other, so they add up.
    """
    distinct = {tuple(sorted(set(certificate))) for certificate in certificates}
    if any(len(certificate) > k for certificate in distinct):
        raise WhymaskError(f"a mask of {k} regions cannot touch all blocks of a larger certificate.")
    by_size: dict[int, float] = {}
    for certificate in distinct:
        by_size[len(certificate)] = by_size.get(len(certificate), 0.0) + prefix_bound(eta, certificate)
    unions = (union_bound(eta, certificate, k) for certificate in distinct)
    return max([0.0, *by_size.values(), *unions])


def amplified(mass: float, factors: ArrayLike) -> Floats:
    """z_r for r = 0 ... len(factors): `mass` after its odds were multiplied round by round (Eqs. 38-40, 44).

    Assumes that the update of round r multiplies the odds of the certificate's mass by at least factors[r] (Eq. 38).
    """
    if not 0 <= mass <= 1:
        raise WhymaskError(f"a mass is a share in [0, 1], not {mass}.")
    total = np.concatenate([[1.0], np.cumprod(np.asarray(factors, dtype=np.float64))])
    return total * mass / (1 - mass + total * mass)


def balanced_bound(blocks: int, balance: float, mass: ArrayLike, k: int) -> Floats:
    """A lower bound of the hit probability for a certificate of `blocks` blocks that holds `mass` (Eq. 42).

    Assumes each of its blocks holds at least the share `balance` <= 1 / blocks of that mass (Eq. 41).
    """
    if not 0 < balance <= 1 / blocks + 1e-12:
        raise WhymaskError(f"the balance of {blocks} blocks lies in (0, 1/{blocks}], not {balance}.")
    each = balance * np.asarray(mass, dtype=np.float64)
    prefix = factorial(blocks) * each**blocks
    union = np.maximum(0.0, 1 - blocks * (1 - each) ** k)
    return np.maximum(prefix, union)


def adaptive_hit_bound(certificates: Sequence[tuple[int, float, ArrayLike]], k: int, samples: int) -> float:
    """The chance of at least one hit when the rounds amplify the odds of certificates (Eq. 43).

    Assumes what `amplified` and `balanced_bound` assume of every certificate, and takes the masses as given.

    Args:
        certificates: (number of blocks, balance, mass in every round as `amplified` gives it) of each.
        k: regions of a mask.
        samples: masks a round.
    """
    if not certificates:
        raise WhymaskError("the bound needs at least one certificate.")
    rounds = [balanced_bound(blocks, balance, masses, k) for blocks, balance, masses in certificates]
    return hit_bound(np.max(rounds, axis=0), samples)


def amplification(logits: ArrayLike, blocks: ArrayLike, certificate: Certificate, temperature: float = 1.0) -> Floats:
    """lambda_r that a run realised: the growth of the odds of J's mass from round to round (Eq. 38).

    Args:
        logits: (rounds + 1, n), the logits a TRACE seed keeps.

    Returns:
        (rounds,)
    """
    mass = block_mass(logits, blocks, temperature)[:, list(certificate)].sum(axis=1)
    if (mass >= 1).any():
        raise WhymaskError("a certificate of all blocks always holds all mass: its odds cannot grow.")
    odds = mass / (1 - mass)
    return np.asarray(odds[1:] / odds[:-1])


def balance(logits: ArrayLike, blocks: ArrayLike, certificate: Certificate, temperature: float = 1.0) -> Floats:
    """b_J that a run realised in each round: the smallest share a block has of J's mass (Eq. 41), (rounds + 1,)."""
    mass: NDArray[np.float64] = block_mass(logits, blocks, temperature)[:, list(certificate)]
    return np.asarray(mass.min(axis=1) / mass.sum(axis=1))


ROUNDS, SAMPLES, FACTOR = 5, 32, 1.5


def paper_tables() -> dict[str, list[dict[str, Any]]]:
    """The appendix's three numerical tables: 5 rounds of 32 masks, odds amplified by 1.5 a round."""
    factors = [FACTOR] * (ROUNDS - 1)
    starts = (0.002, 0.005, 0.01, 0.02)
    fixed = [{"p0": p0, "p_hit": hit_bound([p0] * ROUNDS, SAMPLES)} for p0 in starts]
    grown = [{"p0": p0, "p_hit": hit_bound(amplified(p0, factors), SAMPLES)} for p0 in starts]
    blocks = []
    for h, eta0 in ((1, 0.05), (2, 0.05), (2, 0.10), (3, 0.05), (3, 0.10), (3, 0.20)):
        prefix = factorial(h) * (amplified(eta0, factors) / h) ** h  # the appendix uses the first branch of Eq. 42 only
        blocks.append({"h": h, "eta0": eta0, "p_hit": hit_bound(prefix, SAMPLES)})
    return {"fixed": fixed, "amplified": grown, "blocks": blocks}
