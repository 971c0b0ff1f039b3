"""Replies that come later than they are asked for: searches advance while the device works for others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whymask.errors import ExhaustedError, WhymaskError
from whymask.methods import Recipe
from whymask.models.spending import Purse
from whymask.search import Problem, Search, drive
from whymask.search.batches import in_batches

from search.functions import ON_SETS, tangled
from search.test_driver import centroids, params_for, same

N = 12


class Device:
    """Answers from set functions when it is read, and keeps a log of what was launched and read."""

    def __init__(self, fails=None):
        self.log, self.batches, self.fails = [], 0, fails

    def __call__(self, pieces):
        number, self.batches = self.batches, self.batches + 1
        self.log.append(("launch", number))
        copies = [(function, rows.copy()) for function, rows in pieces]

        def read():
            self.log.append(("read", number))
            if self.fails and number == self.fails[0]:
                raise self.fails[1]
            return [function(rows) for function, rows in copies]

        return read

    @property
    def unread(self):
        """How many batches were under way at the same time, after each launch."""
        under_way, counts = 0, []
        for what, _ in self.log:
            under_way += 1 if what == "launch" else -1
            if what == "launch":
                counts.append(under_way)
        return counts


def at_once(pieces):
    return [function(rows) for function, rows in pieces]


def searches(count, name="discs+swap", **options):
    for seed in range(count):
        recipe = Recipe(name, params_for(name, N))
        yield Search(recipe, Problem(N, seed, centroids(N, seed)), tangled(N, seed), **options)


def test_a_second_half_is_launched_before_the_first_is_read():
    device = Device()
    results = dict(drive(searches(6), device))
    assert len(results) == 6
    first, *later = device.unread
    assert first == 1  # that replies are late is learned from the first
    assert max(later) == 2
    # While two searches or more are left, one half is always under way when the other is read.
    lone = [number for number, count in enumerate(later) if count == 1]
    assert device.log[:5] == [("launch", 0), ("read", 0), ("launch", 1), ("launch", 2), ("read", 1)]
    assert sum(count == 2 for count in later) > len(lone)


def test_a_search_alone_waits_for_its_answers():
    device = Device()
    list(drive(searches(1), device))
    assert set(device.unread) == {1}


def test_replies_that_are_there_are_asked_for_together():
    made, batches = [*searches(6)], []

    def respond(pieces):
        asking = sum(search.result is None and len(search.query.send) > 0 for search in made)
        batches.append((len(pieces), asking))
        return at_once(pieces)

    list(drive(made, respond))
    assert all(pieces == asking for pieces, asking in batches)
    assert max(batches) == (6, 6)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(ON_SETS), st.integers(2, 14), st.integers(0, 99)), min_size=1, max_size=6),
    st.sampled_from([None, 1, 7, 64]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 0, 5, 30]),
)
def test_late_replies_change_no_result(jobs, batch_size, in_flight, budget):
    def started():
        for name, n, seed in jobs:
            problem = Problem(n, seed, centroids(n, seed))
            yield Search(Recipe(name, params_for(name, n)), problem, tangled(n, seed), budget=budget)

    options = {"batch_size": batch_size, "in_flight": in_flight}
    late, now = (dict(drive(started(), respond, **options)) for respond in (Device(), at_once))
    assert late.keys() == now.keys()
    for number, result in now.items():
        same(late[number], result)
        assert late[number].complete == result.complete


def test_no_more_searches_are_under_way_than_allowed():
    begun, ended = 0, 0

    def counted():
        nonlocal begun
        for search in searches(7):
            begun += 1
            assert begun - ended <= 3
            yield search

    for _ in drive(counted(), Device(), in_flight=3):
        ended += 1
    assert ended == 7


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a kernel failed")])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_a_failure_in_flight_passes_through(error, batch):
    device = Device(fails=(batch, error))
    with pytest.raises(type(error)):
        list(drive(searches(4), device))
    assert device.log[-1] == ("read", batch)


def test_exhaustion_in_flight_ends_the_searches_it_concerns():
    device = Device(fails=(2, ExhaustedError("nothing is left")))
    results = dict(drive(searches(4), device))
    full = dict(drive(searches(4), at_once))
    assert sum(not result.complete for result in results.values()) == 2
    for number, result in results.items():
        if result.complete:
            same(result, full[number])
        else:
            assert result.ledger.mec < full[number].ledger.mec


def test_a_purse_is_not_overdrawn_by_what_is_under_way():
    device, left = Device(), 150

    def respond(pieces):
        nonlocal left
        left -= sum(len(rows) for _, rows in pieces)
        assert left >= 0
        return device(pieces)

    results = dict(drive(searches(4), respond, affordable=lambda some: Purse(left)))
    assert max(device.unread) == 2
    assert not all(result.complete for result in results.values())
    assert sum(result.ledger.mec for result in results.values()) == 150 - left


def test_a_search_that_is_stopped_under_way_ends_with_its_best():
    """A limit may leave nothing for a search whose query has been sent."""
    made, asked = [*searches(4)], []

    def affordable(some):
        asked.append(len(some))
        if len(asked) == 3:  # one half has been sent, the other half asks what is left
            some[-1].stop()
        return Purse(10**6)

    results = dict(drive(made, Device(), affordable=affordable))
    assert asked[:3] == [4, 4, 4]
    assert results.keys() == {0, 1, 2, 3}
    assert sum(not result.complete for result in results.values()) == 1


def test_late_replies_are_checked():
    with pytest.raises(WhymaskError, match="one score per image"):
        list(drive(searches(3), lambda pieces: lambda: [np.zeros(1) for _ in pieces]))
    with pytest.raises(WhymaskError, match="3 parts of a batch but returned 1"):
        list(drive(searches(3), lambda pieces: lambda: [np.zeros(len(pieces[0][1]))]))


@pytest.mark.parametrize("size", [1, 3, 5, None])
def test_all_batches_of_a_query_are_launched_before_one_is_read(size):
    device, rows = Device(), np.random.default_rng(0).random((7, N)) < 0.5
    pieces = [(tangled(N, seed), rows[seed:]) for seed in range(3)]
    found = in_batches(pieces, device, size)
    for scores, (function, some) in zip(found, pieces, strict=True):
        np.testing.assert_array_equal(scores, function(some))
    assert [what for what, _ in device.log] == ["launch"] * device.batches + ["read"] * device.batches
