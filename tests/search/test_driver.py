import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.functions import grid_centroids, tangled
from whymask import WhymaskError
from whymask.search import METHODS, Oracle, Problem, Recipe, Search, drive, run

sizes = st.integers(2, 14)
seeds = st.integers(0, 2**32 - 1)
names = st.sampled_from(list(METHODS))


def params_for(name, n):
    """A small k, few samples, so that thousands of runs stay quick."""
    wanted = {"k": max(1, n // 3), "samples": 8, "rounds": 3, "coarse_min": 2, "anneal": True}
    return {key: value for key, value in wanted.items() if key in METHODS[name].parameters}


def centroids(n, seed):
    return np.random.default_rng(seed).random((n, 2))


def solve(name, n, seed, respond=None, **kwargs):
    params = kwargs.pop("params", params_for(name, n))
    return run(name, respond or tangled(n, seed), n, seed=seed, centroids=centroids(n, seed), params=params, **kwargs)


def same(a, b):
    assert (a.order is None) == (b.order is None)
    if a.order is not None:
        np.testing.assert_array_equal(a.order, b.order)
    assert (a.mask is None) == (b.mask is None)
    if a.mask is not None:
        np.testing.assert_array_equal(a.mask, b.mask)
        assert a.seed.order == b.seed.order
    assert a.score == b.score
    assert a.ledger == b.ledger


@given(names, sizes, seeds)
def test_results_are_well_formed(name, n, seed):
    result = solve(name, n, seed)
    assert result.complete
    if METHODS[name].returns == "ordering":
        assert sorted(result.order) == list(range(n))
    else:
        assert result.order is None
        assert result.mask.any()
    if name.startswith(("trace", "random-k")):
        assert result.mask.sum() == max(1, n // 3)
    assert result.ledger.mec <= result.ledger.nominal


@given(names, sizes, seeds, st.integers(1, 40))
def test_batch_size_and_cache_change_nothing(name, n, seed, batch_size):
    alone = solve(name, n, seed)
    same(alone, solve(name, n, seed, batch_size=batch_size))
    same(alone, solve(name, n, seed, cache=False))
    same(alone, solve(name, n, seed))


@settings(max_examples=40)
@given(st.lists(st.tuples(names, sizes, seeds), min_size=1, max_size=5), st.sampled_from([None, 1, 7, 64]))
def test_company_changes_nothing(jobs, batch_size):
    searches = []
    for name, n, seed in jobs:
        problem = Problem(n, np.random.default_rng(seed), centroids(n, seed))
        searches.append(Search(Recipe(name, params_for(name, n)), problem))
    functions = [tangled(n, seed) for _, n, seed in jobs]
    largest = 0

    def respond(parts):
        nonlocal largest
        largest = max(largest, sum(len(rows) for _, rows in parts))
        return [functions[number](rows) for number, rows in parts]

    results = dict(drive(searches, respond, batch_size=batch_size))
    assert set(results) == set(range(len(jobs)))
    assert batch_size is None or largest <= batch_size
    for number, job in enumerate(jobs):
        same(results[number], solve(*job))


@given(st.sampled_from(["greedy", "phasewin"]), sizes, seeds, st.randoms())
def test_relabelling_permutes_the_ordering(name, n, seed, random):
    respond = tangled(n, seed)
    shuffle = np.array(random.sample(range(n), n))
    shuffled = run(name, lambda rows: respond(rows[:, np.argsort(shuffle)]), n)
    np.testing.assert_array_equal(shuffle[shuffled.order], run(name, respond, n).order)


@given(names, sizes, seeds, st.integers(0, 120))
def test_a_budget_is_never_crossed_and_the_best_comes_back(name, n, seed, budget):
    sent = 0
    function = tangled(n, seed)

    def respond(rows):
        nonlocal sent
        sent += len(rows)
        return function(rows)

    capped = solve(name, n, seed, respond, budget=budget)
    full = solve(name, n, seed)
    assert sent == capped.ledger.mec <= budget
    assert capped.complete == (full.ledger.mec <= budget)
    if capped.complete:
        same(capped, full)
    if METHODS[name].returns == "ordering":
        assert sorted(capped.order) == list(range(n))
    else:
        assert capped.mask.any()
    if name.startswith(("trace", "random-k")):
        assert capped.mask.sum() == max(1, n // 3)
    if capped.score is not None and name.startswith("trace"):
        assert capped.score == function(capped.mask[None])[0]


def test_a_stopped_greedy_is_completed_by_last_scores():
    respond = tangled(10)
    full = run("greedy", respond, 10)
    capped = run("greedy", respond, 10, budget=40)  # 20 for the first step, 18 for the second
    assert not capped.complete
    assert capped.order[:2].tolist() == full.order[:2].tolist()
    first = full.order[:1]
    rows = np.zeros((10, 10), dtype=bool)
    rows[:, first] = True
    rows |= np.eye(10, dtype=bool)
    last = respond(rows) + 1 - respond(~rows)
    assert (np.diff(last[capped.order[2:]]) <= 0).all()


def test_searches_over_one_image_may_share_what_is_known():
    known, sent = {}, []
    respond = tangled(8)

    def count(parts):
        sent.append(sum(len(rows) for _, rows in parts))
        return [respond(rows) for _, rows in parts]

    ledgers = []
    for _ in range(2):
        search = Search(Recipe("greedy"), Problem(8, np.random.default_rng(0)), oracle=Oracle(known))
        ((_, result),) = drive([search], count)
        ledgers.append(result.ledger)
    assert ledgers[0] == ledgers[1]
    assert sum(sent) == ledgers[0].mec


def test_progress_is_told_after_every_batch():
    told = []
    result = run("trace+greedy", tangled(12), 12, params={"k": 3}, progress=told.append)
    assert [p.forwards for p in told] == sorted(p.forwards for p in told)
    assert told[-1].forwards <= result.ledger.mec
    assert len(told) == 5 + 3 + (12 - result.seed.kept) - 1
    np.testing.assert_array_equal(told[4].best.mask, result.mask)


def test_an_interrupt_passes_through():
    def respond(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("trace", respond, 20)


@pytest.mark.parametrize(
    ("respond", "words"),
    [
        (lambda rows: np.full(len(rows), np.nan), "NaN"),
        (lambda rows: np.full(len(rows), 1.5), r"\[0, 1\].*1.5"),
        (lambda rows: np.full(len(rows), -0.5), r"\[0, 1\].*-0.5"),
        (lambda rows: np.full((len(rows), 1), 0.5), "one score per image"),
        (lambda rows: np.full(len(rows) - 1, 0.5), "one score per image"),
        (lambda rows: 0.5, "one score per image"),
    ],
)
def test_a_bad_response_is_one_clear_sentence(respond, words):
    with pytest.raises(WhymaskError, match=words) as error:
        run("trace", respond, 20)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "k" in method.parameters])
@pytest.mark.parametrize("k", [0, -3, 21])
def test_k_must_fit(name, k):
    with pytest.raises(WhymaskError, match="k must be between 1 and the number of regions, 20"):
        run(name, tangled(20), 20, params={"k": k})


def test_other_bad_input():
    with pytest.raises(WhymaskError, match="at least one region"):
        run("greedy", tangled(1), 0)
    with pytest.raises(WhymaskError, match="budget"):
        run("greedy", tangled(4), 4, budget=-1)
    with pytest.raises(WhymaskError, match="batch_size"):
        run("greedy", tangled(4), 4, batch_size=0)
    with pytest.raises(WhymaskError, match="areas"):
        run("copair", tangled(4), 4, centroids=grid_centroids(2, 2), areas=[0.5, 0.5])


@pytest.mark.parametrize("name", METHODS)
def test_prints_itself(name):
    result = solve(name, 9, 0)
    assert str(result).startswith(f"{name}: a")
    assert str(result.ledger.mec) in str(result)
    assert "stopped by the budget" in str(solve(name, 9, 0, budget=0))
