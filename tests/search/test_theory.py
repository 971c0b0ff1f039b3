from itertools import combinations

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.methods import run
from whymask.search import theory
from whymask.search.trace import gumbel_top_k

from search.functions import masks_of_size


def test_tables_have_the_papers_digits():
    tables = theory.paper_tables()
    assert [row["p0"] for row in tables["fixed"]] == [0.002, 0.005, 0.01, 0.02]
    percent = {name: [100 * row["p_hit"] for row in rows] for name, rows in tables.items()}
    # One digit as printed; the paper's 56.9 and 96.1 are 56.95 and 96.05, a last digit rounded the other way.
    assert percent["fixed"] == pytest.approx([27.4, 55.2, 80.0, 96.1], abs=0.0551)
    assert percent["amplified"][:3] == pytest.approx([56.9, 87.8, 98.5], abs=0.0551)
    assert percent["amplified"][3] == pytest.approx(99.98, abs=0.005)
    assert [(row["h"], row["eta0"]) for row in tables["blocks"]] == [
        (1, 0.05), (2, 0.05), (2, 0.10), (3, 0.05), (3, 0.10), (3, 0.20),
    ]  # fmt: skip
    assert percent["blocks"] == pytest.approx([100, 75.0, 98.9, 9.8, 43.0, 91.7], abs=0.0551)


def block_masks(labels, masks):
    """Which blocks each mask touches, (B, q)."""
    return np.stack([(masks & (labels == j)).any(axis=1) for j in range(labels.max() + 1)], axis=1)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [3, 6])
def test_one_round_from_fixed_logits_hits_as_often_as_the_bounds_say(seed, k):
    """Eqs. 32-34 by sampling; a bound may fail only by sampling noise (five standard errors)."""
    rng = np.random.default_rng(seed)
    n, draws = 24, 40_000
    labels = np.concatenate([np.arange(5), rng.integers(0, 5, n - 5)])
    logits = rng.normal(0, 1, n)
    eta = theory.block_mass(logits, labels)
    touched = block_masks(labels, gumbel_top_k(logits, k, draws, rng))
    noise = 5 * np.sqrt(0.25 / draws)
    for size in (1, 2, 3):
        for certificate in combinations(range(5), size):
            rate = touched[:, certificate].all(axis=1).mean()
            assert rate + noise >= theory.prefix_bound(eta, certificate)
            assert rate + noise >= theory.union_bound(eta, certificate, k)
        family = list(combinations(range(5), size))
        rate = np.any([touched[:, certificate].all(axis=1) for certificate in family], axis=0).mean()
        assert rate + noise >= theory.certificate_bound(eta, family, k)


def test_bounds_are_not_vacuous():
    eta = np.array([0.5, 0.3, 0.2])
    assert theory.prefix_bound(eta, (0, 1)) == pytest.approx(0.3)
    assert theory.union_bound(eta, (0, 1), k=8) == pytest.approx(1 - 0.5**8 - 0.7**8)
    assert theory.union_bound(eta, (0, 1, 2), k=1) == 0
    family = [(0, 1), (1, 0), (0, 2)]  # the first two are one
    assert theory.certificate_bound(eta, family, k=2) == pytest.approx(2 * 0.5 * 0.3 + 2 * 0.5 * 0.2)
    assert theory.certificate_bound(eta, [(0,)], k=8) == pytest.approx(1 - 0.5**8)


def test_trace_hits_at_least_as_often_as_its_first_round_must():
    """200 seeds on a block function: logits start at 0, so the first round's hit probability is a plain count."""
    n, k, runs = 30, 4, 200
    labels = np.repeat([0, 1, 2, 3], [2, 2, 2, 24])

    def respond(rows):
        return 0.1 + 0.3 * block_masks(labels, rows)[:, :3].sum(axis=1)

    p0 = (respond(masks_of_size(n, k)) >= 0.8).mean()
    must = theory.hit_bound([p0], 32)
    assert theory.certificate_bound(theory.block_mass(np.zeros(n), labels), [(0, 1, 2)], k) <= p0
    hits = np.mean([run("trace", respond, n, seed=seed, params={"k": k}).score >= 0.8 for seed in range(runs)])
    assert hits >= must - 3 * np.sqrt(must * (1 - must) / runs)
    blind = theory.hit_bound([p0] * 5, 32)
    assert hits >= blind + 3 * np.sqrt(blind * (1 - blind) / runs)  # and learning pays: more than 160 blind draws


def test_measured_amplification_and_balance():
    labels = np.repeat([0, 1, 2], 4)
    logits = np.zeros((3, 12))
    logits[1, :4] = np.log(2)
    logits[2, :8] = np.log(4)
    np.testing.assert_allclose(theory.block_mass(logits[1], labels), [0.5, 0.25, 0.25])
    np.testing.assert_allclose(theory.amplification(logits, labels, (0,)), [2, (4 / 5) / 1])
    np.testing.assert_allclose(theory.balance(logits, labels, (0, 1)), [0.5, 1 / 3, 0.5])
    np.testing.assert_allclose(theory.block_mass(logits[1], labels, temperature=0.5), [4 / 6, 1 / 6, 1 / 6])


def test_trace_amplifies_the_planted_blocks():
    labels = np.repeat([0, 1, 2, 3], [3, 3, 3, 21])

    def respond(rows):
        return 0.1 + 0.3 * block_masks(labels, rows)[:, :3].sum(axis=1)

    seed = run("trace", respond, 30, params={"k": 5}).selection
    factors = theory.amplification(seed.logits, labels, (0, 1, 2))
    assert factors.shape == (5,)
    assert np.prod(factors) > 2
    assert (theory.balance(seed.logits, labels, (0, 1, 2)) > 0).all()


def test_amplified_and_balanced():
    z = theory.amplified(0.1, [1.5, 2.0])
    np.testing.assert_allclose(z / (1 - z), np.array([1, 1.5, 3]) * (0.1 / 0.9))
    np.testing.assert_allclose(theory.balanced_bound(2, 0.5, [0.2, 0.9], k=2), [2 * 0.1**2, 2 * 0.45**2])
    np.testing.assert_allclose(theory.balanced_bound(2, 0.5, [0.2, 0.9], k=8), 1 - 2 * np.array([0.9, 0.55]) ** 8)
    bound = theory.adaptive_hit_bound(
        [(1, 1.0, z := theory.amplified(0.01, [1.5] * 4)), (2, 0.5, z / 2)], k=1, samples=32
    )
    assert bound == pytest.approx(theory.hit_bound(z, 32))


def test_refuses():
    with pytest.raises(WhymaskError, match="probability"):
        theory.hit_bound([1.2], 32)
    with pytest.raises(WhymaskError, match="samples"):
        theory.hit_bound([0.1], -3)
    with pytest.raises(WhymaskError, match="sum to 1"):
        theory.prefix_bound([0.9, 0.9], (0, 1))
    with pytest.raises(WhymaskError, match="mass"):
        theory.amplified(1.5, [2.0])
    with pytest.raises(WhymaskError, match="certificate"):
        theory.adaptive_hit_bound([], k=8, samples=32)
    with pytest.raises(WhymaskError, match="all blocks"):
        theory.amplification(np.zeros((2, 4)), [0, 0, 1, 1], (0, 1))
    with pytest.raises(WhymaskError, match="balance"):
        theory.balanced_bound(2, 0.6, 0.1, k=8)
    with pytest.raises(WhymaskError, match="cannot touch"):
        theory.certificate_bound([0.5, 0.5], [(0, 1)], k=1)
