import pytest

from whymask.models.concurrency import FIRST, Concurrency


def serve(concurrency, replies, seconds):
    """Replies of a server that takes seconds(under way) for each of as many requests as are allowed."""
    for _ in range(replies):
        concurrency.replied(concurrency.size, seconds(concurrency.size))


def queueing(at_once):
    """A server that works on some requests at once, 50 ms each; the others wait."""
    return lambda under_way: 0.05 * max(1, under_way / at_once)


@pytest.mark.parametrize(("at_once", "learned"), [(1, 4), (4, 4), (8, 8), (30, 32), (1000, 64)])
def test_grows_while_the_throughput_grows(at_once, learned):
    concurrency = Concurrency(64)
    serve(concurrency, 1000, queueing(at_once))
    assert concurrency.size == learned


@pytest.mark.parametrize("most", [1, 3, 4, 5, 9, 100])
def test_never_exceeds_the_bound(most):
    concurrency = Concurrency(most)
    assert concurrency.size == min(FIRST, most)
    serve(concurrency, 5000, queueing(1000))
    assert concurrency.size == most
    concurrency.overloaded()
    serve(concurrency, 100_000, queueing(1000))
    assert concurrency.size == most


def test_requests_with_few_others_under_way_show_nothing():
    concurrency = Concurrency(64)
    for _ in range(1000):
        concurrency.replied(FIRST - 1, 0.05)
    assert concurrency.size == FIRST


def test_halves_when_the_server_is_overloaded_and_grows_again_slowly():
    concurrency = Concurrency(64)
    serve(concurrency, 24, queueing(1000))
    assert concurrency.size == 16
    concurrency.overloaded()
    assert concurrency.size == 8
    serve(concurrency, 31, queueing(1000))
    assert concurrency.size == 8
    serve(concurrency, 1, queueing(1000))
    assert concurrency.size == 9
    for _ in range(9):
        concurrency.overloaded()
    assert concurrency.size == 1


def test_a_settled_size_is_reached_again_after_an_overload():
    concurrency = Concurrency(64)
    serve(concurrency, 1000, queueing(8))
    concurrency.overloaded()
    assert concurrency.size == 4
    serve(concurrency, 1000, queueing(8))
    assert concurrency.size == 8
