"""Heat over the photo, and its regions by keyboard and in the table."""

from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.results.seeds import OverSeeds
from whymask.views.report import report

from models.tiny import lit, quadrants

HEAT = """(name) => {
  const doc = JSON.parse(document.getElementById("document").textContent);
  const sets = new whymask.ScoredSets(doc.explanations[0], 16);
  const heat = whymask.heats(doc.explanations[0], sets).find((one) => one.name === name);
  return heat && [...heat.values];
}"""


@pytest.fixture
def opened(tab, tmp_path):
    def open_report(result):
        path = tmp_path / "report.html"
        path.write_text(report([result], ["found"]))
        tab.goto(path.as_uri())
        tab.wait_for_selector("[data-ready]")
        return tab

    return open_report


@pytest.fixture(scope="module")
def mask():
    return whymask.explain(lit(0, 96), quadrants(share=0.5), regions="grid:4x4", k="auto", fill="black")


@pytest.fixture(scope="module")
def ranking():
    return whymask.explain(lit(0, 96), quadrants(share=0.5), regions="grid:4x4", method="greedy", fill="black")


def place(tab, region):
    """Where a region is: the model sees the middle half of the photo."""
    box = tab.locator(".wm-photo canvas").bounding_box()
    x, y = (0.25 + 0.5 * (0.125 + 0.25 * part) for part in (region % 4, region // 4))
    return box["x"] + box["width"] * x, box["y"] + box["height"] * y


def readout(tab):
    return tab.locator(".wm-readout").inner_text()


def test_heat_over_seeds(opened, mask):
    held = [3 * (region in mask.regions) + (region == 15) for region in range(16)]
    tab = opened(replace(mask, over_seeds=OverSeeds(3, tuple(held))))
    np.testing.assert_allclose(tab.evaluate(HEAT, "seeds"), np.array(held) / 3)
    photo = tab.locator(".wm-photo canvas")
    before = photo.evaluate("(c) => c.toDataURL()")
    tab.get_by_role("button", name="seeds").click()
    assert photo.evaluate("(c) => c.toDataURL()") != before
    assert tab.locator(".wm-ramp").inner_text().split("\n") == ["in no seed", "in every seed"]
    tab.mouse.move(*place(tab, 15))
    assert "in 1 of 3 seeds" in readout(tab)
    tab.get_by_role("button", name="seeds").click()
    assert not tab.locator(".wm-ramp").is_visible()
    tab.mouse.move(0, 0)
    assert photo.evaluate("(c) => c.toDataURL()") == before


def test_heat_over_alternatives_and_sizes(opened, mask):
    assert len(mask.frontier) > 1
    found = mask.with_alternatives([([14, 15], 0.5, 0.5), ([15, *mask.regions[:1]], 0.4, 0.5)])
    tab = opened(found)
    masks = [found, *found.alternatives]
    held = [np.mean([region in one.regions for one in masks]) for region in range(16)]
    np.testing.assert_allclose(tab.evaluate(HEAT, "masks"), held)
    rows, scores, sizes = mask.scored.rows, mask.scored.scores, mask.scored.rows.sum(axis=1)
    best = np.array([rows[sizes == size][scores[sizes == size].argmax()] for size in mask.frontier])
    assert [float(scores[sizes == size].max()) for size in mask.frontier] == pytest.approx([*mask.frontier.values()])
    np.testing.assert_allclose(tab.evaluate(HEAT, "sizes"), best.mean(axis=0))
    tab.get_by_role("button", name="sizes").click()
    tab.get_by_role("group", name="Show on the photo").get_by_role("button", name="masks").click()
    buttons = [tab.get_by_role("button", name=name, exact=True) for name in ("sizes", "masks")]
    pressed = [button.get_attribute("aria-pressed") for button in buttons]
    assert pressed == ["false", "true"]  # one at a time


def test_an_ordering_has_the_heat_of_its_ranks(opened, ranking):
    tab = opened(ranking)
    heat = tab.evaluate(HEAT, "heat")
    np.testing.assert_allclose([heat[region] for region in ranking.order], 1 - np.arange(16) / 16)
    assert tab.evaluate(HEAT, "seeds") is None


def test_arrow_keys_move_from_region_to_region(opened, mask):
    tab = opened(mask)
    tab.get_by_role("application").focus()
    spoken = tab.locator(".wm-unseen")
    tab.keyboard.press("ArrowLeft")  # the first press says where one is
    here = mask.regions[0]
    assert spoken.inner_text().startswith(f"Region {here} · in the mask · 6.3% of the area")
    for key, x, y in (("ArrowRight", 1, 0), ("ArrowDown", 0, 1), ("ArrowLeft", -1, 0), ("ArrowUp", 0, -1)) * 5:
        row, column = divmod(here, 4)
        here = 4 * min(max(row + y, 0), 3) + min(max(column + x, 0), 3)
        tab.keyboard.press(key)
        assert spoken.inner_text().startswith(f"Region {here} ·")
        assert readout(tab) == spoken.inner_text()
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
    assert spoken.inner_text().startswith(f"Region {4 * (here // 4) + 3} ·")  # the end of the image
    tab.keyboard.press("Escape")
    assert readout(tab).startswith("Point at a region")


def test_every_region_of_superpixels_is_reached(opened):
    photo = np.kron(np.random.default_rng(0).integers(0, 255, (8, 8, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    found = whymask.explain(photo, quadrants(size=64), regions="slico:30", method="trace", k=3)
    tab = opened(found)
    reached = tab.evaluate("""async () => {
      const doc = JSON.parse(document.getElementById("document").textContent);
      const image = await whymask.ExplainedImage.load(Object.values(doc.pictures)[0]);
      const regions = new whymask.Regions(document.createElement("canvas"), image, { first: 0 });
      const [seen, open] = [new Set([0]), [0]];
      while (open.length) {
        const here = open.pop();
        for (const move of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((key) => whymask.arrow({ key }))) {
          const next = regions.beside(here, move);
          if (!seen.has(next)) { seen.add(next); open.push(next); }
        }
      }
      return seen.size;
    }""")
    assert reached == found.n


def test_the_score_of_a_switched_region_is_announced(opened, mask):
    """Where the search has scored it: an exchange away from the mask."""
    tab = opened(mask)
    evidence, rows = mask.chosen, mask.scored.rows
    near = {int(np.flatnonzero(row ^ evidence)[0]): i for i, row in enumerate(rows) if (row ^ evidence).sum() == 1}
    assert near
    region, place_of = next(iter(near.items()))
    tab.mouse.move(*place(tab, region))
    word = "without it" if evidence[region] else "with it"
    assert readout(tab).endswith(f"{mask.scored.scores[place_of]:.2f} {word}")


def test_enter_picks_a_prefix_of_an_ordering(opened, ranking):
    tab = opened(ranking)
    tab.get_by_role("application").focus()
    tab.keyboard.press("ArrowRight")
    count = tab.locator(".wm-count").inner_text()
    tab.keyboard.press("ArrowRight")  # moves to a region and not the slider
    assert tab.locator(".wm-count").inner_text() == count
    here = int(tab.locator(".wm-unseen").inner_text().split()[1])
    tab.keyboard.press("Enter")
    assert tab.locator(".wm-count").inner_text() == f"{ranking.order.index(here) + 1} of 16 regions"


def test_rows_of_the_table_and_regions_of_the_photo_light_each_other(opened, ranking):
    tab = opened(ranking)
    tab.get_by_text("Every region").click()
    rows = tab.locator("details[open] tbody tr")
    rows.first.wait_for()
    photo = tab.locator(".wm-photo canvas")
    plain = photo.evaluate("(c) => c.toDataURL()")
    preview = tab.locator("details[open] canvas")
    unlit = preview.evaluate("(c) => c.toDataURL()")
    rows.nth(2).hover()
    assert preview.evaluate("(c) => c.toDataURL()") != unlit  # seen where the photo is out of sight
    assert readout(tab).startswith(f"Region {ranking.order[2]} ·")
    assert photo.evaluate("(c) => c.toDataURL()") != plain
    tab.locator(".wm-head").hover()
    assert photo.evaluate("(c) => c.toDataURL()") == plain
    for region in (0, 15):
        tab.mouse.move(*place(tab, region))
        lit_row = tab.locator("tr.wm-lit")
        assert lit_row.locator("td").nth(1).inner_text() == str(region)
        within = lit_row.evaluate("""(row) => {
          const [one, all] = [row, row.closest(".wm-scroll")].map((e) => e.getBoundingClientRect());
          return one.top >= all.top - 1 && one.bottom <= all.bottom + 1;
        }""")
        assert within
    rows.first.focus()
    tab.keyboard.press("ArrowDown")
    assert readout(tab).startswith(f"Region {ranking.order[1]} ·")
    assert tab.locator("tr.wm-lit").evaluate("(row) => row === document.activeElement")
    assert tab.locator(".wm-count").inner_text() == f"{ranking.prefix} of 16 regions"  # the slider stays
