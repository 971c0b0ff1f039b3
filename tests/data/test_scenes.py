import hashlib
from collections import Counter

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.data import scenes as scene_questions
from whymask.data.pope import ask
from whymask.images import scenes
from whymask.images.imaging import load_image

OBJECT = {ask(name): name for name in scenes.OBJECTS}
NUMBER = {scene_questions.file_name(number): number for number in scene_questions.tested(60)}


def test_scenes_never_change():
    """The checkpoints that ship were trained on these. Pixels may differ in their last bit between processors."""
    digest, light = hashlib.sha256(), []
    for split in ("train", "test"):
        for number in range(4):
            drawn = scenes.scene(split, number)
            digest.update(drawn.labels.tobytes())
            light.append(drawn.pixels.mean())
    assert digest.hexdigest()[:16] == "f0d11453a96105e1"
    np.testing.assert_allclose(light, [128.71, 89.11, 159.08, 91.96, 110.68, 101.28, 155.81, 130.63], atol=0.05)
    asked = "".join(f"{q.image} {q.text} {q.label}" for q in scene_questions.questions("adversarial", 40))
    assert hashlib.sha256(asked.encode()).hexdigest()[:16] == "267bebfbe9a101cb"


def test_masks_are_where_the_objects_are():
    drawn = scenes.scene("test", NUMBER[scene_questions.file_name(scene_questions.tested(1)[0])])
    assert drawn.pixels.shape == (scenes.SIZE, scenes.SIZE, 3)
    masks = np.array([drawn.mask(name) for name in scenes.OBJECTS])
    assert masks.sum(axis=0).max() == 1  # a pixel shows one object at most
    np.testing.assert_array_equal(masks.any(axis=0), drawn.labels > 0)
    for name, mask in zip(scenes.OBJECTS, masks, strict=True):
        assert (name in drawn.objects) == mask.any()
        if mask.any():
            assert mask.sum() >= scenes.VISIBLE
    with pytest.raises(WhymaskError, match="did you mean 'spoon'"):
        drawn.mask("spon")


def test_objects_have_the_colours_of_their_themes():
    """Over many scenes, the mean colour under an object's mask is nearest to its theme's of all colours there are."""
    found = {name: [] for name in scenes.OBJECTS}
    for number in range(150):
        drawn = scenes.scene("test", number)
        for name in drawn.objects:
            found[name].append(drawn.pixels[drawn.mask(name)].mean(axis=0))
    for i, colours in enumerate(found.values()):
        gaps = np.linalg.norm(np.mean(colours, axis=0) - np.array(scenes.COLOURS), axis=1)
        assert gaps.argmin() == i // 3


@pytest.mark.parametrize("sampling", ["random", "popular", "adversarial"])
def test_questions_are_balanced_and_true(sampling):
    questions = scene_questions.questions(sampling, 60)
    assert Counter(q.label for q in questions) == {"yes": 180, "no": 180}
    assert Counter(q.image for q in questions) == dict.fromkeys(NUMBER, 6)
    for question in questions:
        there = scenes.scene("test", NUMBER[question.image]).objects
        assert (question.label == "yes") == (OBJECT[question.text] in there)


def test_adversarial_questions_ask_for_the_missing_company():
    """What is asked for and not there shares the theme of what is there more often than chance would have it."""
    theme = {name: theme for theme, names in scenes.THEMES.items() for name in names}

    def company(sampling):
        missing = [q for q in scene_questions.questions(sampling, 60) if q.label == "no"]
        there = [Counter(theme[name] for name in scenes.scene("test", NUMBER[q.image]).objects) for q in missing]
        return np.mean([themes[theme[OBJECT[q.text]]] for q, themes in zip(missing, there, strict=True)])

    assert company("adversarial") > 1.5 * company("random")


def test_training_scenes_keep_company_and_test_scenes_break_it():
    def kept(split):
        """How likely the second object of a theme comes where its first does."""
        there = [scenes.plan(split, scenes.generator(split, number)).tolist() for number in range(600)]
        first = [objects for objects in there if 0 in objects]
        return np.mean([1 in objects for objects in first])

    assert kept("train") > kept("test") + 0.2


def test_a_scene_has_a_name():
    np.testing.assert_array_equal(np.asarray(load_image("scene:7")), scenes.scene("test", 7).pixels)
    with pytest.raises(WhymaskError, match="named by its number"):
        load_image("scene:seven")
