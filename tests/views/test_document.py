from base64 import b64decode
from io import BytesIO

import numpy as np
from PIL import Image

import whymask
from whymask.images.partition import Partition
from whymask.views.document import document, picture, runs

from models.tiny import lit, quadrants


def decoded(uri):
    kind, data = uri.removeprefix("data:image/").split(";base64,")
    image = Image.open(BytesIO(b64decode(data)))
    assert image.format.lower() == kind
    return np.asarray(image)


def test_runs_hold_the_whole_label_map():
    labels = np.random.default_rng(0).integers(0, 5, (17, 23)).astype(np.int32)
    pairs = np.array(runs(labels)).reshape(-1, 2)
    np.testing.assert_array_equal(np.repeat(pairs[:, 0], pairs[:, 1]).reshape(17, 23), labels)
    assert (np.diff(pairs[:, 0]) != 0).all()


def test_a_document_holds_what_a_viewer_needs():
    model = quadrants(share=0.5)
    ranking = whymask.explain(lit(0, 80), model, regions="grid:4x4", method="greedy", fill="#102030")
    ranking = ranking.with_curves(whymask.replay(ranking, model))
    mask = whymask.explain(lit(0, 80), model, regions="grid:4x4", k=4, fill="#102030")
    found = document([ranking, mask], ["a", "b"])
    (shown,) = found["pictures"].values()  # one image: its pixels are there once
    np.testing.assert_array_equal(decoded(shown["canvas"]), ranking.image.canvas)  # bit for bit
    assert (decoded(shown["fill"]) == [0x10, 0x20, 0x30]).all()
    assert decoded(shown["photo"]).shape == ranking.image.photo.shape
    assert shown["size"] == [32, 32]
    assert shown["box"] == [0.25, 0.25, 0.75, 0.75]
    first, second = found["explanations"]
    assert (first["name"], second["name"]) == ("a", "b")
    assert first["order"] == list(ranking.order)
    assert first["curves"]["insertion"] == ranking.curves.insertion.tolist()
    assert first["prefix"] == ranking.prefix
    assert second["regions"] == list(mask.regions)


def test_other_images_and_other_partitions_have_pictures_of_their_own():
    model = quadrants()
    found = [whymask.explain(lit(q), model, regions=f"grid:{side}x{side}", k=2) for q, side in ((0, 2), (1, 2), (0, 4))]
    assert len(document(found, "abc")["pictures"]) == 3


def test_pixels_too_long_for_webp_are_exact_too():
    canvas = np.random.default_rng(0).integers(0, 255, (1, 17_000, 3)).astype(np.uint8)
    labels = Partition(np.zeros((1, 17_000), dtype=np.int32), "one")
    shown = picture(canvas[:, :100], canvas, canvas, (0, 0, 1, 1), labels)
    np.testing.assert_array_equal(decoded(shown["canvas"]), canvas)
