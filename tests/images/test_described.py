import hashlib
from dataclasses import replace

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.images import described as world
from whymask.images.imaging import load_image
from whymask.images.scenes import SIZE, VISIBLE
from whymask.images.sentences import sentence

PLANS = [world.plan("test", number) for number in range(120)]
SCENES = [world.draw(plan) for plan in PLANS[:30]]


def middle(scene, i):
    """Row and column of a group, where a board hides nothing."""
    bare = world.draw(replace(scene.plan, boards=()))
    return np.argwhere(bare.mask((i,))).mean(axis=0)


def test_scenes_never_change():
    """The checkpoint that ships was trained on these. Pixels may differ in their last bit between processors."""
    digest, light = hashlib.sha256(), []
    for split in ("train", "test"):
        for number in range(4):
            drawn = world.described(split, number)
            digest.update(drawn.labels.tobytes() + sentence(drawn.plan).encode())
            light.append(drawn.pixels.mean())
    assert digest.hexdigest()[:16] == "7e7c8eb58b1345d7"
    np.testing.assert_allclose(light, [63.59, 108.94, 82.95, 123.9, 137.36, 80.52, 183.91, 86.57], atol=0.05)


def test_splits_share_no_scene():
    assert world.plan("train", 3).groups != world.plan("test", 3).groups
    assert not np.array_equal(world.described("train", 3).pixels, world.described("test", 3).pixels)


def test_every_object_shows():
    for scene in SCENES:
        for i, group in enumerate(scene.plan.groups):
            assert scene.mask((i,)).sum() >= VISIBLE * group.count
        assert scene.mask(tuple(range(3))).sum() == (scene.labels > 0).sum()


def test_a_relation_is_true_of_the_middles_of_its_groups():
    """Squares lie half a scene apart on the axis of the relation, and groups leave their middle by less than that."""
    seen = set()
    for scene in SCENES:
        if relation := scene.plan.relation:
            y, x = middle(scene, 0) - middle(scene, 1)
            found = ("left of" if x < 0 else "right of") if abs(x) > abs(y) else ("above" if y < 0 else "below")
            assert found == relation
            seen.add(relation)
    assert seen == {"left of", "right of", "above", "below"}


def test_habits_are_kept_in_training_and_often_broken_in_tests():
    def kept(split):
        groups = [group for number in range(300) for group in world.plan(split, number).groups]
        usual = [group.colour == world.USUAL[group.noun] for group in groups if group.noun in world.USUAL]
        nouns = [[g.noun for g in world.plan(split, number).groups] for number in range(300)]
        mates = [world.MATES[first[0]] in first for first in nouns if len(first) == 2 and first[0] in world.MATES]
        return np.mean(usual), np.mean(mates)

    (colour, company), (colour_broken, company_broken) = kept("train"), kept("test")
    assert colour > 0.8 > 0.7 > colour_broken
    assert company > company_broken + 0.1


def test_what_an_intervention_leaves_alone_stays_as_it_was():
    """Every pixel outside of the group that changes, in either scene."""
    for scene in SCENES[:12]:
        plan = scene.plan
        other = next(noun for noun in world.NOUNS if noun not in {group.noun for group in plan.groups})
        count = plan.groups[0].count % 3 + 1
        for changed in (plan.without(0), plan.changed(0, noun=other), plan.changed(0, count=count)):
            drawn = world.draw(changed)
            x, y = plan.groups[0].corner
            near = np.zeros((SIZE, SIZE), dtype=bool)
            near[max(0, y - 8) : y + 64, max(0, x - 8) : x + 64] = True  # its square, which objects may leave a little
            np.testing.assert_array_equal(drawn.pixels[~near], scene.pixels[~near])
            assert (drawn.pixels != scene.pixels).any()
    gone = world.draw(replace(PLANS[0], groups=()))
    assert not gone.labels.any()


def test_swapping_reverses_the_relation():
    opposite = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
    for plan in PLANS:
        if plan.relation:
            assert plan.swapped().relation == opposite[plan.relation]


def test_a_scene_has_a_name():
    np.testing.assert_array_equal(np.asarray(load_image("described:7")), world.described("test", 7).pixels)
    with pytest.raises(WhymaskError, match="named by its number"):
        load_image("described:seven")
