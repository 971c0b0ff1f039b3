"""Hostile .npz files: crafted ones, then random damage to real saved results."""

import json
import random
import re
import struct
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import whymask

DEEP = 100_000  # levels of brackets
BOMB = 100_000_000  # bytes of zeros, packed into 100 kB


def archives(count: int | None = None, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Names and contents of files: all the crafted ones, then mutations up to `count` files in all."""
    made = 0
    for made, (name, data) in enumerate(crafted(), 1):  # noqa: B007 the last number is used
        yield name, data
    rng = random.Random(seed)
    while count is not None and made < count:
        kind, (header, arrays) = rng.choice(list(results().items()))
        mutation = rng.choice([flipped, truncated, changed, changed, reshaped])
        yield f"{made}-{mutation.__name__}-{kind}", mutation(rng, header, arrays)
        made += 1


@cache
def results():
    """A mask, an ordering with its curves and a map, and a repair, as (header, arrays)."""

    def score(images):
        share = images.mean(axis=(1, 2, 3)) / 255
        return np.stack([share, 1 - share], axis=1)

    model = whymask.wrap(score, labels=["bright", "dark"])
    image = np.random.default_rng(0).integers(100, 256, (12, 16, 3), dtype=np.uint8)
    found = {
        "mask": whymask.explain(image, model, method="trace+swap", k=2, regions="grid:3x3", alternatives=1),
        "ordering": whymask.explain(image, model, method="greedy", regions="grid:3x3"),
        "repair": whymask.repair(image, model, want="dark", method="greedy", regions="grid:3x3"),
    }
    ordering = found["ordering"].with_curves(whymask.replay(found["ordering"], model))
    found["ordering"] = type(ordering)(**vars(ordering) | {"map": np.linspace(0, 1, 192).reshape(12, 16)})
    loaded = {}
    with TemporaryDirectory() as folder:
        for kind, one in found.items():
            with np.load(one.save(Path(folder) / kind)) as stored:
                arrays = dict(stored)
            loaded[kind] = (json.loads(str(arrays.pop("header"))), arrays)
    return loaded


def crafted() -> Iterator[tuple[str, bytes]]:
    """One fault each."""
    for kind, (header, arrays) in results().items():
        yield f"good-{kind}", packed(header, arrays)
        for name, change in HEADERS.items():
            yield f"{name}-{kind}", packed(change(header), arrays)
        for name, change in {**COMMON, **KINDS[kind]}.items():
            yield f"{name}-{kind}", packed(header | change, arrays)
    header, arrays = results()["ordering"]
    for name, change in ARRAYS.items():
        yield name, packed(header, arrays | change(arrays))
    for name in arrays:
        yield f"no-{name}", packed(header, {other: array for other, array in arrays.items() if other != name})
    good = packed(header, arrays)
    yield "empty", b""
    yield "text", b"just text"
    yield "end-of-zip", good[-22:]
    yield "two-headers", rezipped(good, lambda name, data: [(name, data), (name, data)])
    yield "no-header", rezipped(good, lambda name, data: [] if name == "header.npy" else [(name, data)])
    yield "header-number", packed(header, arrays, text=np.array(3))
    yield "header-bytes", packed(header, arrays, text=np.array(b"{}"))
    yield "header-list", packed(header, arrays, text=np.array([json.dumps(header)]))
    yield "json-deep", packed(header, arrays, text=np.array("[" * DEEP))
    yield (
        "json-deep-provenance",
        packed(header, arrays, text=np.array(json.dumps(header).replace('"versions": {', '"deep": ' + "[" * DEEP))),
    )
    yield "json-half", packed(header, arrays, text=np.array(json.dumps(header)[:-9]))
    yield "json-nan", packed(header | {"full_score": float("nan")}, arrays)
    for name, told in {"shape-huge": (10**6, 10**6, 3), "shape-negative": (-1, 16, 3), "shape-text": ("x",)}.items():
        yield name, replaced(good, "canvas", npy(str(told), "'|u1'"))
    yield "shape-deep", replaced(good, "canvas", npy("(" * 4000, "'|u1'"))
    for name, dtype in {"objects": "'|O'", "no-bytes": "'<U0'", "fields": "[('a', '|u1')]", "code": "exit(1)"}.items():
        yield f"dtype-{name}", replaced(good, "canvas", npy("(12, 16, 3)", dtype))
    yield "npy-version", replaced(good, "canvas", b"\x93NUMPY\x09\x00" + b"\0" * 99)
    yield "pickle", replaced(good, "canvas", b"cos\nsystem\n(S'true'\ntR.")
    bomb = npy(f"({BOMB},)", "'|u1'") + b"\0" * BOMB
    yield "bomb", replaced(good, "canvas", bomb)
    yield "bomb-header", replaced(good, "header", npy("()", f"'<U{BOMB // 4}'") + b"\0" * BOMB)
    yield "bomb-lying", lying(replaced(good, "canvas", bomb), len(bomb), 1000)
    for name, method in {"bz2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA}.items():
        yield name, rezipped(good, lambda member, data: [(member, data)], method)
    yield "encrypted", re.sub(rb"(PK\x01\x02....)\0\0", rb"\1\1\0", good, flags=re.DOTALL)


def _in(name, **change):
    """Changes inside of a part of the header."""
    return lambda header: header | {name: header[name] | change}


HEADERS = {
    "label-none": _in("target", label=None),
    "label-long": _in("target", label="x" * 200_000),
    "label-words": _in("target", label="long words " * 300),
    "label-math": _in("target", label=r"$\frac{1}{$"),
    "label-controls": _in("target", label="\0\x1b[31m\u202e\n\n"),
    "label-surrogate": _in("target", label="\ud800"),
    "index-text": _in("target", index="0"),
    "target-more": _in("target", more=1),
    "question-number": _in("provenance", question=3),
    "question-long": _in("provenance", question="x" * 200_000),
    "model-list": _in("provenance", model=["x"]),
    "method-none": _in("provenance", method=None),
    "regions-list": _in("provenance", regions=[]),
    "seconds-text": _in("provenance", seconds="soon"),
    "parameters-none": _in("provenance", parameters=None),
    "ledger-text": _in("ledger", stages={"init": {"suff": {"nominal": "1", "mec": 1}}}),
    "ledger-huge": _in("ledger", stages={"init": {"suff": {"nominal": 10**30, "mec": 1}}}),
    "ledger-list": _in("ledger", stages=[]),
    "nothing": lambda header: {},
    "a-list": lambda header: [header],
}
COMMON = {
    "schema": {"schema": 4},
    "schema-list": {"schema": [1]},
    "kind-none": {"kind": None},
    "kind-list": {"kind": []},
    "kind-other": {"kind": "heat"},
    "target-text": {"target": "bright"},
    "provenance-list": {"provenance": []},
    "box-huge": {"box": [0, 0, 1e9, 1e9]},
    "box-text": {"box": ["a", "b", "c", "d"]},
    "box-empty": {"box": [0.5, 0.5, 0.5, 0.5]},
    "box-turned": {"box": [1, 1, 0, 0]},
    "box-short": {"box": [0, 1]},
    "score-big": {"full_score": 1e300},
    "score-negative": {"blank_score": -1},
    "score-text": {"full_score": "0.5"},
    "score-flag": {"full_score": True},
    "prediction-list": {"prediction": ["x"]},
    "values-short": {"label_values": [1]},
    "values-text": {"label_values": list("abcdefghi")},
    "complete-text": {"complete": "yes"},
    "scored-text": {"scored": "x"},
    "scored-version": {"scored": {"version": [1]}},
    "scored-answers": {"scored": {"version": 1, "answers": "many"}},
    "seeds-text": {"over_seeds": "3"},
    "seeds-short": {"over_seeds": {"count": 3, "held": [1]}},
    "seeds-negative": {"over_seeds": {"count": 3, "held": [-1] * 9}},
}
MASK = {
    "regions-twice": {"regions": [1, 1]},
    "regions-big": {"regions": [99]},
    "regions-negative": {"regions": [-1]},
    "regions-float": {"regions": [0.5]},
    "regions-text": {"regions": "12"},
    "regions-none": {"regions": []},
    "mask-score-big": {"score": 1e300},
    "removed-none": {"removed_score": None},
    "frontier-text": {"frontier": {"x": 1}},
    "frontier-big": {"frontier": {"99": 1}},
    "frontier-score": {"frontier": {"1": 7}},
    "goal-text": {"goal": "much"},
    "goal-without-most": {"goal": 1.0},
    "others-text": {"alternatives": ["x"]},
    "others-regions": {"alternatives": [{"regions": [99], "score": 0.5, "removed_score": 0.5}]},
    "others-many": {"alternatives": [{"regions": [0], "score": 0.5, "removed_score": 0.5}] * 5000},
}
ORDER = {
    "order-big": {"order": [99, *range(8)]},
    "order-short": {"order": [0]},
    "order-float": {"order": [0.5, *range(1, 9)]},
    "order-negative": {"order": [-1, *range(8)]},
    "order-twice": {"order": [0, 0, *range(2, 9)]},
    "order-flag": {"order": [True, 0, *range(2, 9)]},
    "order-none": {"order": None},
}
CURVE = {"areas": [k / 9 for k in range(1, 10)], "insertion": [0.5] * 9, "deletion": [0.5] * 9, "forwards": 1}
KINDS = {
    "mask": MASK,
    "ordering": {
        **ORDER,
        "initial-mask-big": {"initial_mask": [99]},
        "kept-big": {"kept": 99},
        "kept-float": {"kept": 0.5},
        "curves-negative": {"curves": CURVE | {"insertion": [-1.0] * 9}},
        "curves-short": {"curves": CURVE | {"insertion": [0.5]}},
        "curves-empty": {"curves": {name: [] for name in CURVE} | {"forwards": 0}},
        "curves-text": {"curves": CURVE | {"deletion": ["x"] * 9}},
        "curves-nested": {"curves": CURVE | {"deletion": [[0.5]] * 9}},
        "curves-falling": {"curves": CURVE | {"areas": CURVE["areas"][::-1]}},
        "curves-forwards": {"curves": CURVE | {"forwards": None}},
        "curves-list": {"curves": []},
    },
    "repair": {
        **MASK,
        **ORDER,
        "given-none": {"given": None},
        "answer-long": {"answer": "x" * 200_000},
        "answer-math": {"answer": "$x_$"},
        "given-score-big": {"given_score": 2},
        "repaired-none": {"repaired": None},
        "right-short": {"right": [True]},
        "right-text": {"right": ["x"] * 9},
        "scores-short": {"scores": [0.5]},
        "scores-text": {"scores": ["x"] * 9},
    },
}
ARRAYS = {
    "labels-negative": lambda a: {"labels": a["labels"] - 1},
    "labels-3d": lambda a: {"labels": a["labels"][None]},
    "labels-float": lambda a: {"labels": a["labels"].astype(float)},
    "labels-gap": lambda a: {"labels": np.where(a["labels"] > 3, a["labels"] + 1, a["labels"])},
    "labels-far": lambda a: {"labels": a["labels"] + 1000},
    "labels-huge": lambda a: {"labels": np.full((12, 16), 2**62)},
    "labels-unsigned": lambda a: {"labels": np.full((12, 16), 2**64 - 1, dtype=np.uint64)},
    "labels-flags": lambda a: {"labels": a["labels"] > 3},
    "labels-empty": lambda a: {"labels": a["labels"][:0]},
    "labels-other": lambda a: {"labels": np.zeros((12, 16), dtype=np.int32)},
    "labels-big-endian": lambda a: {"labels": a["labels"].astype(">i8")},
    "labels-fragmented": lambda a: {
        "labels": np.indices((2048, 2048)).sum(axis=0) % 2,
        "canvas": np.zeros((2048, 2048, 3), dtype=np.uint8),
        "fill": np.zeros((2048, 2048, 3), dtype=np.uint8),
    },
    "photo-empty": lambda a: {"photo": a["photo"][:0]},
    "photo-float": lambda a: {"photo": a["photo"].astype(float)},
    "photo-text": lambda a: {"photo": a["photo"].astype(str)},
    "photo-1d": lambda a: {"photo": a["photo"].ravel()},
    "photo-grey": lambda a: {"photo": a["photo"][..., :1]},
    "photo-alpha": lambda a: {"photo": np.repeat(a["photo"], 2, axis=2)[..., :4]},
    "photo-huge": lambda a: {"photo": np.zeros((6000, 5000, 3), dtype=np.uint8)},
    "photo-line": lambda a: {"photo": np.zeros((1, 2048, 3), dtype=np.uint8)},
    "photo-pixel": lambda a: {"photo": np.zeros((1, 1, 3), dtype=np.uint8)},
    "photo-fortran": lambda a: {"photo": np.asfortranarray(a["photo"])},
    "canvas-mismatch": lambda a: {"canvas": a["canvas"][:5]},
    "fill-mismatch": lambda a: {"fill": a["fill"][:5]},
    "canvas-signed": lambda a: {"canvas": a["canvas"].astype(np.int8)},
    "map-nan": lambda a: {"map": np.full((12, 16), np.nan)},
    "map-infinite": lambda a: {"map": np.full((12, 16), np.inf)},
    "map-mismatch": lambda a: {"map": np.zeros((5, 5))},
    "map-text": lambda a: {"map": np.full((12, 16), "x")},
    "map-half": lambda a: {"map": a["map"].astype(np.float16)},
    "sets-1d": lambda a: {"sets": a["sets"].ravel()},
    "sets-empty": lambda a: {"sets": a["sets"][:0]},
    "sets-text": lambda a: {"sets": a["sets"].astype(str)},
    "scores-nan": lambda a: {"set_scores": a["set_scores"] * np.float32("nan")},
    "scores-big-endian": lambda a: {"set_scores": a["set_scores"].astype(">f4")},
    "answers-far": lambda a: {"set_answers": a["set_answers"] + np.int16(999)},
    "more": lambda a: {"more": np.zeros(3)},
}


def flipped(rng, header, arrays):
    """A few other bytes."""
    data = bytearray(packed(header, arrays))
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def truncated(rng, header, arrays):
    """Without its end, its beginning or a part in the middle."""
    data = packed(header, arrays)
    start, end = sorted(rng.randrange(len(data)) for _ in range(2))
    return rng.choice([data[:start], data[start:], data[:start] + data[end:]])


def changed(rng, header, arrays):
    """Something else in a place of the header."""
    mutated = json.loads(json.dumps(header))
    for _ in range(rng.randint(1, 3)):
        place = mutated
        while True:
            keys = [*place] if isinstance(place, dict) else [*range(len(place))]
            if not keys:
                break
            key = rng.choice(keys)
            if not isinstance(place[key], dict | list) or rng.random() < 0.3:
                place[key] = deepcopy(rng.choice(ODD))
                break
            place = place[key]
    return packed(mutated, arrays)


ODD = [None, True, -1, 0, 7, 10**30, 0.5, 1e300, "", "x", "$", "\0", "\ud800", "x" * 5000, [], [1], {}, {"a": 1}]


def reshaped(rng, header, arrays):
    """An array of another shape, kind or content."""
    name = rng.choice([*arrays])
    array = arrays[name]
    changes = [
        lambda: array.T,
        lambda: array[:-1],
        lambda: array[..., :-1],
        lambda: array.ravel(),
        lambda: array.astype(rng.choice([np.int8, np.uint8, np.int64, np.float32, np.complex64, bool, "U3"])),
        lambda: rng.choice([*arrays.values()]),
        lambda: np.random.default_rng(rng.randrange(99)).permutation(array),
        lambda: array + 1,
    ]
    return packed(header, arrays | {name: rng.choice(changes)()})


def packed(header, arrays, text=None):
    """The file of a header and its arrays."""
    file = BytesIO()
    np.savez_compressed(file, header=np.array(json.dumps(header)) if text is None else text, **arrays)
    return file.getvalue()


def rezipped(data, change, method=zipfile.ZIP_DEFLATED):
    """The file with every member as `change(name, content)` has it."""
    file = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(file, "w", method) as new:
        for name in old.namelist():
            for other, content in change(name, old.read(name)):
                _add(new, other, content)
    return file.getvalue()


def _add(archive, name, content):
    known = archive.NameToInfo.pop(name, None)  # zipfile warns of a name that comes twice
    archive.writestr(name, content)
    if known is not None:
        archive.NameToInfo[name] = known


def replaced(data, name, content):
    """The file with other bytes in place of an array."""
    return rezipped(data, lambda member, old: [(member, content if member == f"{name}.npy" else old)])


def npy(shape, dtype):
    """The beginning of an array's file."""
    told = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(told)) + told.encode()


def lying(data, size, told):
    """The file with another size of a member in its directory."""
    return data.replace(struct.pack("<L", size), struct.pack("<L", told))
