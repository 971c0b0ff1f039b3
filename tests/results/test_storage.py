"""Files that version 0.1 wrote still load."""

import json
from pathlib import Path

import numpy as np
import pytest

from whymask import EvidenceMask, Ordering, Repair
from whymask.results.base import Explanation
from whymask.results.storage import SCHEMA

SAVED = Path(__file__).parent / "saved-0.1"
FILES = {
    "mask": EvidenceMask,
    "smallest": EvidenceMask,
    "alternatives": EvidenceMask,
    "ordering": Ordering,
    "curves": Ordering,
    "map": Ordering,
    "repair-mask": Repair,
    "repair-ordering": Repair,
}


@pytest.mark.parametrize("name", FILES)
def test_old_files_keep_their_contents(name, tmp_path):
    """Everything the file holds is loaded, and saved again under today's names."""
    loaded = Explanation.load(SAVED / f"{name}.npz")
    assert type(loaded) is FILES[name]
    with np.load(SAVED / f"{name}.npz") as arrays:
        header = json.loads(str(arrays["header"]))
        for part in ("photo", "canvas", "fill"):
            np.testing.assert_array_equal(getattr(loaded.image, part), arrays[part])
        np.testing.assert_array_equal(loaded.image.partition.labels, arrays["labels"])
        assert ("map" in arrays) == (name == "map")
        if name == "map":
            np.testing.assert_array_equal(loaded.map, arrays["map"])
    if "seed_regions" in header:
        header["initial_mask"] = header.pop("seed_regions")
    now = json.loads(json.dumps(loaded.as_dict()))
    added = {name: now.pop(name) for name in ("verdict", "controls", "blank_repaired", "photo_size") if name in now}
    assert now == header | {"schema": SCHEMA}
    assert added.get("controls") is added.get("blank_repaired") is added["photo_size"] is None
    assert Explanation.load(loaded.save(tmp_path / name)).as_dict() == loaded.as_dict()


def test_old_values():
    """Each field ends up where it belongs."""
    smallest, several, ordering, curves, repair = (
        Explanation.load(SAVED / f"{name}.npz")
        for name in ("smallest", "alternatives", "ordering", "curves", "repair-ordering")
    )
    assert (smallest.regions, smallest.sufficient, sorted(smallest.frontier)) == ((6, 7), True, [1, 2, 3, 4])
    assert several.regions == (2, 3, 6, 7)
    assert len(several.alternatives) == 2
    assert several.local_optimum
    assert set(ordering.initial_mask) == {2, 3, 6, 7}
    assert ordering.order[: ordering.kept] == ordering.initial_mask[: ordering.kept]
    assert ordering.names([0, 15]) == [7, 52]
    assert curves.curves.insertion_auc == pytest.approx(0.7476508)
    assert (repair.given, repair.answer, repair.regions) == ("top right", "bottom right", (10,))
    assert len(repair.order) == len(repair.scores) == len(repair.right) == 16
