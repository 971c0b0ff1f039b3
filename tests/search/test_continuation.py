"""What a continuation starts from: after TRACE, the regions that are left are ranked by its logits (appendix C.3)."""

from dataclasses import dataclass

import numpy as np
import pytest

from whymask.methods import run
from whymask.search import Search, Selection, drive
from whymask.search.greedy import greedy
from whymask.search.lean import lean
from whymask.search.phasewin import phasewin

from search.functions import complete, problem, tangled

N = 15
CONTINUATIONS = {
    "greedy": (greedy, {}),
    "phasewin": (phasewin, {}),
    "phasewin LG": (phasewin, {"policy": "LG", "window": 3}),
    "phasewin T2": (phasewin, {"policy": "T2", "beta_del": 0.7, "alpha_sel": 0.9}),
    "lean": (lean, {}),
}


def coarse(seed, levels=4):
    """Few values, so that many sets tie."""
    respond = tangled(N, seed)
    return lambda rows: np.round(levels * respond(rows)) / levels


@dataclass
class Continued:
    """A continuation of a given selection, for the driver."""

    stage: str
    selection: Selection
    name = "continued"

    def search(self, problem):
        search, params = CONTINUATIONS[self.stage]
        return search(problem, self.selection, **params)

    def settle(self, found):
        return found


def ordered(stage, selection, respond):
    """The order and the number of images asked for."""
    search = Search(Continued(stage, selection), problem(N))
    ((_, result),) = drive([search], lambda pieces: [respond(rows) for _, rows in pieces])
    return result.order.tolist(), result.ledger.nominal


def seeded(rng, logits):
    """Three regions in some order, two of them kept: the third is released."""
    order = tuple(rng.permutation(N)[:3].tolist())
    return Selection(np.isin(np.arange(N), order), order=order, kept=2, logits=logits)


@pytest.mark.parametrize("name", CONTINUATIONS)
@pytest.mark.parametrize("seed", range(20))
def test_ties_go_to_the_highest_logit(name, seed):
    """As without logits on the same problem with its regions numbered by falling logits."""
    rng, respond = np.random.default_rng(seed), coarse(seed)
    logits = np.array([rng.normal(size=N), rng.integers(-2, 3, N)])  # only the last row counts; some of it ties
    selection = seeded(rng, logits)
    numbered = sorted(range(N), key=lambda region: (-logits[-1][region], region))
    place = np.argsort(numbered)

    renumbered = Selection(selection.mask[numbered], order=tuple(place[list(selection.order)].tolist()), kept=2)
    expected, forwards = ordered(name, renumbered, lambda rows: respond(rows[:, place]))
    assert ordered(name, selection, respond) == ([numbered[region] for region in expected], forwards)


@pytest.mark.parametrize("seed", range(10))
def test_greedy_by_its_definition(seed):
    """The arg-max of F; of equal ones the highest final logit; of equal ones the lowest index."""
    rng, respond = np.random.default_rng(seed), coarse(seed)
    selection = seeded(rng, rng.integers(-2, 3, (6, N)).astype(float))
    placed = list(selection.prefix)
    while len(placed) < N:
        value = {}
        for region in set(range(N)) - set(placed):
            row = np.isin(np.arange(N), [*placed, region])[None]
            score = 0.5 * respond(row)[0] + 0.5 * (1 - respond(~row)[0])
            value[region] = (score, selection.logits[-1][region], -region)
        placed.append(max(value, key=value.get))
    assert list(complete(greedy(problem(N), selection), respond)[0].order) == placed


def by_logits(found):
    """The kept prefix, then all other regions by falling final logits."""
    kept = found.selection.prefix
    ranked = np.argsort(-found.selection.logits[-1], kind="stable").tolist()
    assert ranked != sorted(ranked)
    return [*kept, *(region for region in ranked if region not in kept)]


@pytest.mark.parametrize("method", ["trace+greedy", "trace+phasewin", "trace+lean"])
def test_where_nothing_differs_the_rest_follows_the_logits(method):
    found = run(method, lambda rows: np.full(len(rows), 0.5), N, params={"k": 4})
    assert found.order.tolist() == by_logits(found)


def test_a_swapped_mask_keeps_the_logits():
    """Four regions count; trace misses one of them and swap finds it, so that all others tie."""
    respond, params = lambda rows: rows[:, [2, 5, 9, 11]].mean(axis=1), {"k": 4, "rounds": 2, "samples": 8}
    trace, found = run("trace", respond, N, params=params), run("trace+swap+greedy", respond, N, params=params)
    assert trace.score < found.score == 1
    np.testing.assert_array_equal(found.selection.logits, trace.selection.logits)
    assert found.order.tolist() == by_logits(found)


@pytest.mark.parametrize("method", ["greedy", "copair+greedy", "random-k+phasewin", "discs+swap+lean"])
def test_without_logits_the_rest_follows_the_index(method):
    centroids = np.random.default_rng(0).random((N, 2))
    found = run(method, lambda rows: np.full(len(rows), 0.5), N, centroids=centroids)
    kept = found.selection.prefix if found.selection else ()
    assert found.order.tolist() == [*kept, *(region for region in range(N) if region not in kept)]


def test_a_stopped_continuation_ranks_ties_by_the_logits_too():
    logits = np.array([[0.0, 2.0, 1.0, 3.0, -1.0]])
    selection = Selection(np.arange(5) == 0, order=(0,), kept=1, logits=logits)
    search = greedy(problem(5), selection, objective="sufficiency")
    assert next(search).best.order == (0, 3, 1, 2, 4)
    second = search.send(np.array([0.1, 0.1, 0.1, 0.3]))  # of regions 3, 1, 2 and 4
    assert second.best.order == (0, 4, 3, 1, 2)
