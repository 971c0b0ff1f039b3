from math import comb

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whymask import WhymaskError
from whymask.methods import run
from whymask.search.trace import gumbel_top_k, trace

from search.functions import complete, masks_of_size, modular, problem, tangled


def test_forwards():
    respond = tangled(64)
    assert run("trace", respond, 64).ledger.nominal == 160
    assert run("trace+order", respond, 64).ledger.nominal == 160 + 36
    assert run("trace-seed", respond, 64).ledger.nominal == 160 + 36
    both = run("trace", respond, 64, params={"init_objective": "suff_necc", "samples": 10, "rounds": 3})
    assert both.ledger.nominal == 60


def test_duplicates_are_asked_but_not_sent():
    result = run("trace", tangled(6), 6, params={"k": 2})
    assert result.ledger.nominal == 160
    assert result.ledger.mec <= 15  # C(6, 2)


def test_best_of_everything_it_saw():
    seen = {}

    def respond(rows):
        scores = tangled(20)(rows)
        seen.update(zip(map(bytes, rows), scores, strict=True))
        return scores

    result = run("trace", respond, 20, params={"k": 5})
    assert result.score == max(seen.values())
    assert seen[bytes(result.mask)] == result.score


def test_one_update_by_hand():
    """Eqs. 16 and 17 from the first round's elite, written out."""
    n, k, samples = 10, 3, 8
    respond, _ = modular(n)
    seed, _ = complete(trace(problem(n), k=k, rounds=1, samples=samples, elite_ratio=0.3), respond)
    masks = gumbel_top_k(np.zeros(n), k, samples, np.random.default_rng(0))
    elite = masks[np.argsort(-respond(masks), kind="stable")[:3]]
    for i in range(n):
        p = 0.95 * sum(mask[i] for mask in elite) / 3 + 0.05 * k / n
        p = min(max(p, 1e-4), 1 - 1e-4)
        assert seed.logits[1, i] == pytest.approx(0.7 * np.log(p / (1 - p)), abs=1e-12)


def test_elite_count_of_the_paper():
    counted = []

    class Spy(np.ndarray):
        def mean(self, *args, **kwargs):
            counted.append(len(self))
            return np.asarray(self).mean(*args, **kwargs)

    import whymask.search.trace as module

    original = module.gumbel_top_k
    module.gumbel_top_k = lambda *args: original(*args).view(Spy)
    try:
        for samples, elite in ((32, 7), (35, 7), (5, 1), (1, 1)):
            counted.clear()
            complete(trace(problem(12), samples=samples, rounds=1), tangled(12))
            assert counted == [elite]
    finally:
        module.gumbel_top_k = original


@given(st.floats(0, 1, exclude_min=True), st.integers(1, 8))
@example(5e-324, 1)
@example(1e-12, 8)
def test_the_elite_is_never_empty(elite_ratio, samples):
    seed, _ = complete(trace(problem(12), k=3, rounds=2, samples=samples, elite_ratio=elite_ratio), tangled(12))
    assert np.isfinite(seed.logits).all()


def test_two_rounds_by_hand_at_another_temperature():
    """The second round samples from logits / T and moves on from the first round's logits (Eqs. 14 and 17)."""
    n, k, samples, temperature = 9, 3, 10, 0.4
    respond = tangled(n)
    seed, _ = complete(trace(problem(n), k=k, rounds=2, samples=samples, temperature=temperature), respond)
    rng, theta, seen = np.random.default_rng(0), np.zeros(n), []
    for _ in range(2):
        masks = gumbel_top_k(theta / temperature, k, samples, rng)
        seen += respond(masks).tolist()
        elite = masks[np.argsort(-respond(masks), kind="stable")[:2]]
        p = np.clip(0.95 * elite.mean(axis=0) + 0.05 * k / n, 1e-4, 1 - 1e-4)
        theta = 0.3 * theta + 0.7 * np.log(p / (1 - p))
    np.testing.assert_allclose(seed.logits[2], theta, atol=1e-12)
    assert seed.score == max(seen)


def test_logits_stay_bounded_and_are_kept_for_every_round():
    seed, _ = complete(trace(problem(12), k=3, rounds=30, logit_bound=1.5), modular(12)[0])
    assert seed.logits.shape == (31, 12)
    assert np.abs(seed.logits).max() == 1.5
    assert (seed.logits[0] == 0).all()


def test_the_first_of_equal_masks_stands():
    seed, _ = complete(trace(problem(12), k=3), lambda rows: np.full(len(rows), 0.5))
    first = gumbel_top_k(np.zeros(12), 3, 32, np.random.default_rng(0))[0]
    np.testing.assert_array_equal(seed.mask, first)


def test_learns_a_modular_optimum():
    respond, weights = modular(14)
    best = np.sort(weights)[-3:].sum()

    def hits(**params):
        scores = [run("trace", respond, 14, seed=seed, params={"k": 3, **params}).score for seed in range(20)]
        assert max(scores) <= best + 1e-12
        return sum(np.isclose(scores, best))

    assert hits(samples=128) == 20
    blind = 20 * (1 - (1 - 1 / comb(14, 3)) ** 160)  # what 160 uniform draws hit on average: 7
    assert hits() > 2 * blind


@pytest.mark.parametrize("seed", range(10))
def test_never_above_the_optimum(seed):
    respond = tangled(12, seed)
    assert run("trace", respond, 12, seed=seed, params={"k": 4}).score <= respond(masks_of_size(12, 4)).max()


def test_gumbel_top_k_draws_without_replacement_by_weight():
    """The first draw of Plackett-Luce: with k = 1, region i comes with probability softmax(logits)_i."""
    logits = np.log([0.5, 0.3, 0.2])
    masks = gumbel_top_k(logits, 1, 100_000, np.random.default_rng(0))
    np.testing.assert_allclose(masks.mean(axis=0), [0.5, 0.3, 0.2], atol=0.01)
    pairs = gumbel_top_k(logits, 2, 100_000, np.random.default_rng(1))
    assert (pairs.sum(axis=1) == 2).all()
    without_last = 0.5 * 0.3 / 0.5 + 0.3 * 0.5 / 0.7
    assert (~pairs[:, 2]).mean() == pytest.approx(without_last, abs=0.01)


def test_leftovers_follow_the_logits():
    result = run("trace-seed", modular(20)[0], 20, params={"k": 4})
    rest = result.order[4:]
    assert set(result.order[:4]) == set(np.flatnonzero(result.mask))
    assert (np.diff(result.selection.logits[-1][rest]) <= 0).all()


def test_is_the_same_mask_alone_and_as_an_initialiser():
    respond = tangled(30)
    alone, start = run("trace", respond, 30, seed=5), run("trace+greedy", respond, 30, seed=5)
    np.testing.assert_array_equal(alone.mask, start.mask)
    kept = start.selection.kept
    assert set(start.order[:kept]) <= set(np.flatnonzero(alone.mask))
    assert start.ledger.nominal == 160 + 36 + (30 - kept) * (30 - kept + 1)


@pytest.mark.parametrize("params", [{"k": 0}, {"k": -1}, {"k": 10}, {"rounds": 0}, {"samples": 0}, {"elite_ratio": 0},
                                    {"temperature": 0}, {"epsilon": 0.5}, {"smoothing": 2}])  # fmt: skip
def test_refuses(params):
    with pytest.raises(WhymaskError):
        run("trace", tangled(9), 9, params=params)
