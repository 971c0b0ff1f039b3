import re
from itertools import combinations
from pathlib import Path

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


PLANTED = {(): 0.1, (0,): 0.3, (1,): 0.25, (2,): 0.1, (0, 1): 0.7, (0, 2): 0.4, (1, 2): 0.35, (0, 1, 2): 0.75}
BLOCKS = np.repeat([0, 1, 2], 4)


def planted(masks):
    """Phi of the activated blocks, and 0.03 more with region 0: epsilon is 0.03 / k, opt is 0.78."""
    touched = block_masks(BLOCKS, masks)
    return np.array([PLANTED[tuple(np.flatnonzero(row).tolist())] for row in touched]) + 0.03 * masks[:, 0]


def test_the_block_part_of_a_planted_table():
    masks = theory.k_masks(12, 3)
    assert {tuple(np.flatnonzero(mask)) for mask in masks} == set(combinations(range(12), 3))
    np.testing.assert_array_equal(theory.activated(masks, BLOCKS), block_masks(BLOCKS, masks))
    phi, epsilon = theory.block_part(masks, planted(masks), BLOCKS)
    assert phi == pytest.approx(PLANTED)
    assert epsilon == pytest.approx(0.01)


def test_near_optimal_is_at_least_mu_times_the_best():
    """Eqs. 19 and 20; powers of two, so that mu times the best is exact."""
    np.testing.assert_array_equal(theory.near_optimal([0.25, 0.5, 0.24, 0.125], mu=0.5), [True, True, False, False])


@pytest.mark.parametrize(
    ("mu", "family"),
    [
        (0.95, [(0, 1, 2)]),
        (0.9, [(0, 1, 2)]),  # 0.7 is less than 0.9 * 0.78
        (0.89, [(0, 1), (0, 1, 2)]),
        (0.5, [(0, 1), (0, 2), (0, 1, 2)]),
        (0.12, sorted(set(PLANTED), key=lambda blocks: (len(blocks), blocks))),
    ],
)
def test_the_certificates_of_a_planted_table(mu, family):
    """All J with Phi(J) >= mu (0.75 + 3 * 0.01)."""
    assert theory.certificate_family(PLANTED, k=3, epsilon=0.01, mu=mu) == family
    assert theory.certificate_family(PLANTED, k=2, epsilon=0.04, mu=mu) == [
        blocks for blocks in PLANTED if len(blocks) <= 2 and PLANTED[blocks] >= mu * (0.7 + 2 * 0.04)
    ]


@pytest.mark.parametrize("mu", [0.12, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_one_round_hits_the_near_optimal_masks_as_often_as_the_certificates_say(mu, seed):
    """From the table of scores to Eq. 34, then the masks of TRACE's sampler; five standard errors."""
    masks, draws = theory.k_masks(12, 3), 40_000
    scores = planted(masks)
    phi, epsilon = theory.block_part(masks, scores, BLOCKS)
    family = theory.certificate_family(phi, 3, epsilon, mu)
    for blocks in family:  # Eq. 30
        assert theory.near_optimal(scores, mu)[block_masks(BLOCKS, masks)[:, blocks].all(axis=1)].all()
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1, 12)
    bound = theory.certificate_bound(theory.block_mass(logits, BLOCKS), family, 3)
    rate = (planted(gumbel_top_k(logits, 3, draws, rng)) >= mu * 0.78).mean()
    assert 0 < bound <= rate + 5 * np.sqrt(rate * (1 - rate) / draws)


@pytest.mark.parametrize("seed", range(5))
def test_the_block_part_is_the_largest_monotone_function_below_any_table(seed):
    rng = np.random.default_rng(seed)
    n, k = 8, 3
    blocks = np.concatenate([np.arange(4), rng.integers(0, 4, n - 4)])
    masks = theory.k_masks(n, k)
    scores = rng.random(len(masks))
    phi, epsilon = theory.block_part(masks, scores, blocks)
    table = dict(zip(combinations(range(n), k), scores.tolist(), strict=True))
    active = {mask: {int(blocks[region]) for region in mask} for mask in table}
    assert set(phi) == {some for size in range(k + 1) for some in combinations(range(4), size)}
    for some, value in phi.items():
        assert value == min(table[mask] for mask in table if set(some) <= active[mask])
    residual = {mask: table[mask] - phi[tuple(sorted(active[mask]))] for mask in table}
    assert min(residual.values()) >= 0
    assert epsilon == max(residual.values()) / k


def test_interactions_of_coarse_groups():
    """Inclusion and exclusion (Eq. 8); a function of pairs has no higher terms."""
    rng = np.random.default_rng(0)
    sets = [groups for size in range(5) for groups in combinations(range(4), size)]
    values = dict(zip(sets, rng.random(len(sets)).tolist(), strict=True))
    phi = theory.interactions(values)
    for groups in sets:
        subsets = [some for some in sets if set(some) <= set(groups)]
        signed = sum((-1) ** (len(groups) - len(some)) * values[some] for some in subsets)
        assert phi[groups] == pytest.approx(signed, abs=1e-13)
        assert values[groups] == pytest.approx(sum(phi[some] for some in subsets))
    main, pairs = rng.random(4), rng.random((4, 4))
    of_pairs = {
        some: 0.1 + main[list(some)].sum() + sum(pairs[i, j] for i, j in combinations(some, 2)) for some in sets
    }
    phi = theory.interactions(of_pairs)
    assert phi[()] == 0.1
    assert [phi[(i,)] for i in range(4)] == pytest.approx(main)
    assert phi[(1, 3)] == pytest.approx(pairs[1, 3])
    assert [phi[some] for some in sets if len(some) > 2] == pytest.approx([0] * 5, abs=1e-13)


def test_the_page_of_the_theory_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL)
    exec("".join(text for kind, text in blocks if kind == "python"), {})
    assert capsys.readouterr().out == "".join(text for kind, text in blocks if kind == "text")


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
    with pytest.raises(WhymaskError, match="too many"):
        theory.k_masks(64, 8)
    with pytest.raises(WhymaskError, match="the number of regions, 4, not 5"):
        theory.k_masks(4, 5)
    masks = theory.k_masks(6, 2)
    with pytest.raises(WhymaskError, match="all 15 masks of 2 of the 6 regions"):
        theory.block_part(masks[1:], np.zeros(14), [0, 0, 0, 1, 1, 1])
    with pytest.raises(WhymaskError, match="all 15 masks"):
        theory.block_part(masks[[0, *range(14)]], np.zeros(15), [0, 0, 0, 1, 1, 1])
    with pytest.raises(WhymaskError, match="one score per mask"):
        theory.block_part(masks, np.zeros(14), [0, 0, 0, 1, 1, 1])
    with pytest.raises(WhymaskError, match="without gaps"):
        theory.block_part(masks, np.zeros(15), [0, 0, 0, 2, 2, 2])
    for wrong in ([-1, 0, 0, 1, 1, 1], [0.5, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1], [[0, 0, 0, 1, 1, 1]]):
        with pytest.raises(WhymaskError, match="each of the 6 regions"):
            theory.block_part(masks, np.zeros(15), wrong)
        with pytest.raises(WhymaskError, match="each of the 6 regions"):
            theory.block_mass(np.zeros(6), wrong)
    with pytest.raises(WhymaskError, match="all 1 masks of 0"):
        theory.block_part(masks[:0], [], [0, 0, 0, 1, 1, 1])
    with pytest.raises(WhymaskError, match="mu"):
        theory.certificate_family({(): 0.1}, k=2, epsilon=0.0, mu=1.5)
    with pytest.raises(WhymaskError, match="mu"):
        theory.near_optimal([0.1], mu=0.0)
    with pytest.raises(WhymaskError, match="subset"):
        theory.interactions({(): 0.1, (0, 1): 0.3})
    with pytest.raises(WhymaskError, match="cannot touch"):
        theory.certificate_bound([0.5, 0.5], [(0, 1)], k=1)
