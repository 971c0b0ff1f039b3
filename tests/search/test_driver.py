import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whymask import WhymaskError
from whymask.methods import Recipe, run
from whymask.search import Oracle, Problem, Search, drive
from whymask.search.copair import coarse_groups
from whymask.search.oracle import Responses

from search.functions import METHODS, ON_SETS, grid_centroids, modular, tangled

sizes = st.integers(2, 14)
seeds = st.integers(0, 2**32 - 1)
names = st.sampled_from(ON_SETS)


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
        assert a.selection.order == b.selection.order
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
        problem = Problem(n, seed, centroids(n, seed))
        searches.append(Search(Recipe(name, params_for(name, n)), problem, tangled(n, seed)))
    largest = 0

    def respond(parts):
        nonlocal largest
        largest = max(largest, sum(len(rows) for _, rows in parts))
        return [function(rows) for function, rows in parts]

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
    known, sent = Responses(), []
    respond = tangled(8)

    def count(parts):
        sent.append(sum(len(rows) for _, rows in parts))
        return [respond(rows) for _, rows in parts]

    ledgers = []
    for _ in range(2):
        search = Search(Recipe("greedy"), Problem(8), oracle=Oracle(known))
        ((_, result),) = drive([search], count)
        ledgers.append(result.ledger)
    assert ledgers[0] == ledgers[1]
    assert sum(sent) == ledgers[0].mec


def test_progress_is_told_after_every_batch():
    told = []
    result = run("trace+greedy", tangled(12), 12, params={"k": 3}, progress=told.append)
    assert [p.forwards for p in told] == sorted(p.forwards for p in told)
    assert told[-1].forwards == result.ledger.mec
    assert len(told) == 5 + 3 + (12 - result.selection.kept)
    assert told[0].forwards > 0
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
        (lambda rows: np.full(len(rows), -0.01), r"\[0, 1\].*-0.01"),
        (lambda rows: np.where(np.arange(len(rows)) == 3, 1.01, -1e-9), r"\[0, 1\].*1.01"),
        (lambda rows: np.full(len(rows), np.inf), "infinity"),
        (lambda rows: np.full(len(rows), 0.5 + 1j), "real numbers"),
        (lambda rows: ["a"] * len(rows), "real numbers"),
        (lambda rows: None, "real numbers"),
        (lambda rows: torch.full((len(rows),), 0.5 + 0j), "real numbers"),
        (lambda rows: [torch.full((2,), 0.5, requires_grad=True)] * len(rows), "real numbers"),
        (lambda rows: [[0.5, 0.5], [0.5]], "real numbers"),
        (lambda rows: [10**400] * len(rows), "real numbers"),
        (lambda rows: {"scores": rows}, "real numbers"),
        (lambda rows: np.full((len(rows), 1), 0.5), "one score per image"),
        (lambda rows: np.full(len(rows) - 1, 0.5), "one score per image"),
        (lambda rows: 0.5, "one score per image"),
    ],
)
def test_a_bad_response_is_one_clear_sentence(respond, words):
    with pytest.raises(WhymaskError, match=words) as error:
        run("trace", respond, 20)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", [lambda x: x.requires_grad_(), lambda x: x.bfloat16(), lambda x: x.float().tolist()])
def test_a_tensor_of_any_kind_is_a_response(change):
    values = torch.tensor([0.25, 0.5, 0.125, 0.75], dtype=torch.float64)  # exact in bf16 too, as are their sums
    result = run("greedy", lambda rows: change(torch.from_numpy(rows).double() @ values / 2), 4)
    assert result.order.tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize("name", [name for name in ON_SETS if "k" in METHODS[name].parameters])
@pytest.mark.parametrize("k", [0, -3, 21])
def test_k_must_fit(name, k):
    words = "k must be between 1 and the number of regions, 20, not 21" if k > 0 else "k must be a whole number"
    with pytest.raises(WhymaskError, match=words):
        run(name, tangled(20), 20, params={"k": k})


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"n": 0}, "number of regions"),
        ({"n": "4"}, "number of regions"),
        ({"budget": -1}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
        ({"areas": [0.5, 0.5]}, "areas"),
        ({"areas": [2500.0] * 4}, "areas"),
        ({"areas": [np.nan] * 4}, "areas"),
        ({"areas": [-0.1, 0.1, 0.1, 0.1]}, "areas"),
        ({"centroids": np.full((4, 2), np.nan)}, "centroids"),
    ],
)
def test_other_bad_input(kwargs, words):
    with pytest.raises(WhymaskError, match=words):
        run("copair", tangled(4), **({"n": 4, "centroids": grid_centroids(2, 2)} | kwargs))


def test_the_wrong_number_of_answers_is_one_clear_sentence():
    with pytest.raises(WhymaskError, match="2 parts of a batch but returned 1"):
        list(drive([Search(Recipe("greedy"), Problem(4)) for _ in range(2)], lambda parts: [np.zeros(8)]))


def test_rounding_beyond_one_is_clipped():
    assert run("trace", lambda rows: np.full(len(rows), 1 + 1e-7), 20).score == 1.0


def test_searches_may_share_a_problem():
    shared, respond = Problem(20), tangled(20)
    searches = [Search(Recipe(name), shared) for name in ("random-k", "trace", "trace")]
    results = dict(drive(searches, lambda parts: [respond(rows) for _, rows in parts]))
    same(results[1], run("trace", respond, 20))
    same(results[2], run("trace", respond, 20))


@pytest.mark.parametrize("name", ["trace", "discs", "copair", "random-k", "discs+swap", "greedy", "lime"])
@pytest.mark.parametrize("budget", [1, 3, 7])
def test_a_budget_below_the_first_batch_is_spent(name, budget):
    sent = []

    def respond(rows):
        sent.append(rows)
        return tangled(64)(rows)

    params = {"draws": 20} if name == "random-k" else {"objective": "sufficiency"} if name == "greedy" else None
    result = run(name, respond, 64, centroids=grid_centroids(8, 8), params=params, budget=budget)
    rows = np.concatenate(sent)
    assert len(rows) == result.ledger.mec == budget
    assert not result.complete
    if result.score is not None:
        assert result.score == tangled(64)(rows).max()
        np.testing.assert_array_equal(result.mask, rows[np.argmax(tangled(64)(rows))])
    if name == "greedy":
        assert result.order[0] == np.argmax(tangled(64)(np.eye(64, dtype=bool)[:budget]))


def test_a_part_of_a_batch_counts_both_sides():
    result = run("trace", tangled(20), 20, params={"init_objective": "suff_necc"}, budget=9)
    assert result.ledger.entries == {("init", "suff"): (4, 4), ("init", "necc"): (4, 4)}


@pytest.mark.parametrize("budget", [31, 63, 64, 100, 127, 159])
def test_stopped_trace_returns_the_best_it_saw(budget):
    seen = {}
    function = tangled(40)

    def respond(rows):
        scores = function(rows)
        seen.update(zip(map(bytes, rows), scores, strict=True))
        return scores

    result = run("trace", respond, 40, budget=budget)
    assert not result.complete
    assert result.score == (max(seen.values()) if seen else None)


def test_stopped_copair_returns_the_best_it_saw():
    centroids = grid_centroids(8, 8)
    respond = tangled(64)
    singles = run("copair", respond, 64, centroids=centroids, budget=16)
    assert singles.score == respond(singles.mask[None])[0] == respond(coarse_groups(centroids, 16)).max()
    weak = {"min_sufficiency": 1.0}
    pairs = run("copair", respond, 64, centroids=centroids, budget=107, params=weak)
    assert not pairs.complete
    assert pairs.score == run("copair", respond, 64, centroids=centroids, params={"max_groups": 2}).score


def test_a_larger_budget_never_orders_worse_where_the_stages_meet():
    """Stopped before Greedy's first answer, the rest follows what TRACE learned, as in trace-seed."""
    respond, weights = modular(64)

    def insertion(**budget):
        order = run("trace+greedy", respond, 64, **budget).order
        return np.cumsum(weights[order]).mean()

    learned = np.cumsum(weights[run("trace-seed", respond, 64).order]).mean()
    assert insertion(budget=196) >= learned - 0.02
    assert insertion(budget=300) >= learned - 0.02


def test_a_stopped_internal_ordering_is_completed_by_last_scores():
    weights = np.arange(1, 21) / 210
    cost = run("trace", lambda rows: rows @ weights, 20).ledger.mec
    result = run("trace+order", lambda rows: rows @ weights, 20, budget=cost + 8)
    assert not result.complete
    assert list(result.selection.order) == sorted(np.flatnonzero(result.mask), reverse=True)


@pytest.mark.parametrize("name", ON_SETS)
def test_prints_itself(name):
    result = solve(name, 9, 0)
    assert str(result).startswith(f"{name}: a")
    assert str(result.ledger.mec) in str(result)
    stopped = name != "blank"  # which needs no forward
    assert ("stopped by the budget" in str(solve(name, 9, 0, budget=0))) == stopped
