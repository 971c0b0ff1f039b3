import numpy as np
import pytest

from whymask.explainer.case import Case, batching
from whymask.explainer.explainer import Explainer
from whymask.explainer.responder import Responder
from whymask.methods import Recipe
from whymask.search import drive

from models.tiny import lit, quadrants


def case(quadrant=0, **options):
    return Case.of(lit(quadrant), quadrants(), **{"regions": "grid:4x4", **options})


def test_what_is_known_is_shared_and_the_ledgers_are_not():
    shared = case()
    first = shared.search(Recipe("greedy"))[0]
    sent = len(shared.responses.scores)
    again = shared.search(Recipe("greedy"))[0]
    assert len(shared.responses.scores) == sent
    assert first.ledger == again.ledger
    assert shared.replay(first.order).forwards == 0  # Greedy has scored every prefix and its complement


def test_several_seeds_together_equal_each_alone():
    together = case().search(Recipe("trace", {"k": 3, "rounds": 2}), [0, 1, 2])
    for seed, result in enumerate(together):
        alone = case().search(Recipe("trace", {"k": 3, "rounds": 2}), [seed])[0]
        assert result.regions == alone.regions
        assert result.provenance["seed"] == seed
        assert result.ledger.mec == alone.ledger.mec
    assert len({result.regions for result in together}) > 1


def test_time_ends_when_the_device_has_finished(monkeypatch):
    """`spent` waits for the device; here that takes five seconds."""
    late = [0]
    monkeypatch.setattr("whymask.explainer.case.time.perf_counter", lambda: late[0])

    class Slow:
        def __init__(self, model):
            pass

        def spent(self):
            late[0] += 5
            return {}

    monkeypatch.setattr("whymask.explainer.case.PeakMemory", Slow)
    (result,) = case().search(Recipe("random-k", {"k": 2}))
    assert result.provenance["seconds"] == 5


class Counted:
    """A model that counts how often it is asked for its fingerprint, which may take seconds."""

    def __init__(self):
        self.model, self.asked = quadrants(), 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    @property
    def fingerprint(self):
        self.asked += 1
        return "counted"


def test_the_fingerprint_is_read_once_a_call():
    model = Counted()
    results = Case.of(lit(0), model, regions="grid:2x2").search(Recipe("random-k", {"k": 1}), [0, 1, 2])
    assert model.asked == 1
    explainer = Explainer(model, method="random-k", regions="grid:2x2", k=1)
    results += [found for _, found in explainer.many([lit(0), lit(1)])]
    assert model.asked == 2
    assert {result.provenance["model_fingerprint"] for result in results} == {"counted"}


def test_the_picture_is_part_of_the_seed():
    blank = np.full((32, 32, 3), 100, dtype=np.uint8)
    first, second = (Case.of(image, quadrants(), regions="grid:4x4", target=0) for image in (blank, blank + 1))
    recipe = Recipe("random-k", {"k": 5})
    assert first.search(recipe)[0].regions != second.search(recipe)[0].regions


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_images_in_one_batch_do_not_disturb_each_other(batch_size):
    cases = [case(quadrant, target=quadrant) for quadrant in range(4)]
    cases.append(Case.of(lit(0, 16), quadrants(16), regions="grid:4x4", target=0))  # another input shape
    searches = [c.start(Recipe("greedy")) for c in cases]
    found = dict(drive(searches, Responder(), batch_size=batch_size))
    for number, c in enumerate(cases):
        alone = Case(c.model, c.bound, c.partition, batching(c.model), {}).search(Recipe("greedy"))[0]
        assert tuple(found[number].order) == alone.order
        quarter = {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}, 2: {8, 9, 12, 13}, 3: {10, 11, 14, 15}}[number % 4]
        assert set(found[number].order[:4].tolist()) == quarter


def test_models_in_one_drive_keep_their_own_images():
    """Equal shapes, opposite weights: each image must be scored by its own model."""
    bright, dark = quadrants(), quadrants()
    dark.module.sharpness.neg_()
    cases = [Case.of(lit(2), model, regions="grid:4x4", target=2) for model in (bright, dark)]
    searches = [c.start(Recipe("greedy")) for c in cases]
    found = dict(drive(searches, Responder()))
    for number, c in enumerate(cases):
        alone = Case(c.model, c.bound, c.partition, batching(c.model), {}).search(Recipe("greedy"))[0]
        assert tuple(found[number].order) == alone.order
    assert tuple(found[0].order) != tuple(found[1].order)


def test_copair_knows_the_areas():
    labels = np.zeros((32, 32), dtype=int)
    labels[:, 24:] = 1
    labels[:, 28:] = 2
    shapes = Case.of(lit(0), quadrants(), regions=labels).problem(0)
    np.testing.assert_allclose(shapes.areas, [0.75, 0.125, 0.125])
    np.testing.assert_allclose(shapes.centroids[:, 0], [0.375, 26 / 32, 30 / 32])


def test_replay_costs_two_images_a_region_at_most():
    fresh = case()
    curves = fresh.replay(range(16))
    assert curves.forwards == 32
    assert curves.areas[-1] == pytest.approx(1)
    np.testing.assert_allclose(curves.insertion[-1], curves.deletion_curve[0])
    np.testing.assert_allclose(curves.deletion[-1], curves.insertion_curve[0])


def test_before_batch_ends_a_search_between_two_batches():
    case = Case.of(lit(0), quadrants(), regions="grid:4x4", batch_size=4)
    sent = []

    def stop_after_three(images):
        if len(sent) == 3:
            raise KeyError("stopped")
        sent.append(images)

    case.before_batch = stop_after_three
    with pytest.raises(KeyError, match="stopped"):
        case.search(Recipe("greedy"))
    assert sent == [4, 4, 4]


@pytest.mark.parametrize("method", ["igos++", "integrated-gradients", "asn"])
def test_before_batch_ends_a_method_that_goes_backward_too(method):
    model = quadrants()
    case = Case.of(lit(0), model, regions="grid:4x4")
    ran = []
    hook = model.module.register_forward_hook(lambda *_: ran.append(1))
    asked = []

    def stop_at_the_third(_):
        asked.append(len(ran))
        if len(asked) == 3:
            raise KeyError("stopped")

    case.before_batch = stop_at_the_third
    try:
        with pytest.raises(KeyError, match="stopped"):
            case.search(Recipe(method))
    finally:
        hook.remove()
    assert asked == [0, 2, 3]  # before both scores are compared, and before each batch of the method
    assert len(ran) == 3
