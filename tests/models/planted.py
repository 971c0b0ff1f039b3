"""Planted detectors, segmenters and recognisers: what they should be explained by is known pixel by pixel."""

import numpy as np

SIDE = 64
OBJECTS = {  # class, score, box in pixels; the object is seen only as far as the pixels of its box are
    "dog": (0.9, (8, 8, 24, 24)),
    "cat": (0.8, (40, 40, 56, 56)),
}
LABELS = ["background", "dog", "cat"]


def photo():
    """Bright squares on a dark ground: the objects."""
    image = np.full((SIDE, SIDE, 3), 40, np.uint8)
    for _, (left, top, right, bottom) in OBJECTS.values():
        image[top:bottom, left:right] = 220
    return image


def boxes(images):
    """Each object's score times the share of its bright pixels that are shown; no box where that is below 0.1."""
    found = []
    for image in images:
        bright = image.mean(axis=2) > 128
        seen = []
        for name, (score, (left, top, right, bottom)) in OBJECTS.items():
            share = bright[top:bottom, left:right].mean()
            if share > 0.1:
                seen.append(((left, top, right, bottom), score * share, LABELS.index(name)))
        found.append(
            {
                "boxes": np.array([box for box, *_ in seen], dtype=float).reshape(-1, 4),
                "scores": np.array([score for _, score, _ in seen]),
                "labels": np.array([label for *_, label in seen], dtype=int),
            }
        )
    return found


def segments(images):
    """Probabilities of ground, bright and dark on cells of 8 pixels, by how bright each cell is."""
    cells = images.mean(axis=3).reshape(len(images), 8, 8, 8, 8).mean(axis=(2, 4)) / 255
    bright = np.clip((cells - 0.5) * 2, 0, 1)
    return np.stack([1 - bright, bright * 0.75, bright * 0.25], axis=-1)


ALPHABET = "_ab c"
GLYPHS = [1, 1, 0, 2, 3, 4, 0, 4]  # by column of 8 pixels: "ab cc", each seen as far as its column is bright


def line():
    """A picture of text: bright columns where there is a glyph, the blank's are dark."""
    image = np.full((16, 64, 3), 20, np.uint8)
    for step, column in enumerate(GLYPHS):
        if column:
            image[:, 8 * step : 8 * step + 8] = 250
    return image


def characters(images):
    """Probabilities (B, 8, 5): that of a column's own glyph is how bright it is."""
    bright = images.mean(axis=(1, 3)).reshape(len(images), 8, 8).mean(axis=2) / 255
    found = np.zeros((len(images), 8, len(ALPHABET)))
    found[:, np.arange(8), GLYPHS] = bright
    found[..., 0] = np.where(np.array(GLYPHS) == 0, 1, 1 - bright)
    return found
