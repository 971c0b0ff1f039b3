import csv
import json
from io import StringIO

import pytest

from whymask import WhymaskError
from whymask.bench.records import Store
from whymask.bench.render import as_csv, as_json, as_latex, as_markdown
from whymask.bench.table import difference, read, table

from bench.made_up import ordering, row, write


@pytest.fixture
def run(tmp_path):
    return write(
        tmp_path / "run",
        [
            (
                row("trace", 2, returns="mask"),
                {s: {"score": 0.5, "area": 0.12, "mec": 160, "seconds": 1.0} for s in "abcd"},
            ),
            (row("greedy", 0), {s: ordering(x) for s, x in zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True)}),
            (row("trace+greedy", 1), {s: ordering(x) for s, x in zip("abcd", (0.2, 0.3, 0.4, 0.5), strict=True)}),
            (row("grad-cam", 3, needs="gradients"), {"a": ordering(0.1, mec=0), "b": "RuntimeError: no"}),
        ],
    )


def test_the_best_is_found_on_all_samples(tmp_path):
    rows = [(row("greedy", 0), {s: ordering(0.4) for s in "abc"}),
            (row("trace+greedy", 1), {s: ordering(0.5) for s in "abc"}),
            (row("phasewin", 2), {"a": ordering(0.9)})]  # fmt: skip
    text = as_markdown(table([write(tmp_path / "run", rows)]))
    assert "| trace+greedy (3) | **0.500" in text
    assert "| phasewin (1) | 0.900" in text


def test_means_and_differences(run):
    made = table([run], against="greedy")
    lines = {line.row.method: line for line in made.lines}
    assert list(lines) == ["greedy", "trace+greedy", "trace", "grad-cam"]
    assert lines["greedy"].cells["insertion_auc"].mean == pytest.approx(0.25)
    assert lines["greedy"].cells["insertion_auc"].low < 0.25 < lines["greedy"].cells["insertion_auc"].high
    gap = lines["trace+greedy"].differences["insertion_auc"]
    assert (gap.mean, gap.low, gap.high) == pytest.approx((0.1, 0.1, 0.1))
    assert gap.p == pytest.approx(2 / 16, abs=0.015)
    assert not lines["greedy"].differences
    # Only the samples both have: a alone, where they are equal.
    assert lines["grad-cam"].differences["insertion_auc"].mean == pytest.approx(0)
    assert lines["grad-cam"].failed == 1
    assert lines["trace"].cells["area"].mean == pytest.approx(0.12)
    assert "insertion_auc" not in lines["trace"].cells
    assert lines["trace"].differences["mec"].mean == 60


def test_markdown(run):
    text = as_markdown(table([run], against="greedy"))
    lines = text.splitlines()
    assert lines[0] == "### net, correct, 1 to 4 samples"
    assert lines[2] == "| method | **Ins** | Del | @30 | @50 | High | Score | Area | MEC |"
    assert lines[5].startswith("| trace+greedy (4) | **0.350 [")
    mask = [cell.strip() for cell in lines[6].strip("|").split("|")]
    assert mask[0] == "trace (4)"
    assert mask[1:6] == ["—"] * 5
    assert mask[6:] == ["0.500 [0.500, 0.500]", "0.120 [0.120, 0.120]", "160 [160, 160]"]
    backward = [cell.strip() for cell in lines[7].strip("|").split("|")]
    assert backward[0] == "grad-cam (1) (1 failed)"
    assert backward[-1] == "—"
    assert "| trace+greedy - greedy | **+0.100 [+0.100, +0.100]**" in text
    assert "1 results failed and are in no mean." in text
    assert "s |" not in lines[2]
    assert "| s | forwards/s |" in as_markdown(table([run]), profile=True)


def test_stars_stand_outside_of_bold(tmp_path):
    """There they have spaces on both sides, and Markdown leaves them alone."""
    rows = [(row(method, i), {s: ordering(0.1 * (1 + i)) for s in "abcdefghijklmnop"})
            for i, method in enumerate(("greedy", "trace+greedy"))]  # fmt: skip
    text = as_markdown(table([write(tmp_path / "run", rows)], against="greedy"))
    assert "| trace+greedy - greedy | **+0.100 [+0.100, +0.100]** *** | +0.000" in text


def test_forwards_after_gradients_are_marked(tmp_path):
    rows = [
        (row("asn+greedy", needs="gradients"), {"a": ordering(0.1)}),
        (row("gradient", 1, needs="gradients"), {"a": ordering(0.1, mec=0)}),
        (row("greedy", 2), {"a": ordering(0.1)}),
    ]
    text = as_markdown(table([write(tmp_path / "run", rows)]))
    assert [line.split("|")[-2].strip() for line in text.splitlines()[4:7]] == [
        "100 [100, 100]*",
        "—",
        "100 [100, 100]",
    ]
    assert "* uses gradients first" in text
    assert "* uses gradients first" not in as_markdown(table([tmp_path / "run"], methods=["greedy", "gradient"]))


def test_some_rows_beside_the_one_they_are_compared_with(run):
    made = table([run], against="greedy", methods=["trace+greedy"])
    assert [line.row.method for line in made.lines] == ["greedy", "trace+greedy"]
    with pytest.raises(WhymaskError, match="unknown row 'trac'; did you mean 'trace'"):
        table([run], methods=["trac"])


def test_latex(run):
    text = as_latex(table([run]))
    assert text.count(r"\begin{tabular}{lcccccccc}") == text.count(r"\end{tabular}") == 1
    assert r"method & \textbf{Ins} & Del & @30" in text
    assert "trace (4) & -- & --" in text
    assert "—" not in text.replace("% ", "", 1).split(r"\begin")[1]


def test_csv_and_json_hold_every_number(run):
    made = table([run], against="greedy")
    rows = list(csv.DictReader(StringIO(as_csv(made))))
    ours = next(r for r in rows if r["method"] == "trace+greedy" and r["column"] == "insertion_auc")
    assert float(ours["mean"]) == pytest.approx(0.35)
    assert float(ours["difference"]) == pytest.approx(0.1)
    assert (ours["samples"], ours["failed"]) == ("4", "0")
    data = json.loads(as_json(made))
    assert data["records"] == made.hash
    assert [r["method"] for r in data["rows"]] == ["greedy", "trace+greedy", "trace", "grad-cam"]
    assert data["rows"][0]["settings"] == {"k": 8}


def test_seeds_are_averaged_within_a_sample(tmp_path):
    results = {("a", 0): ordering(0.2), ("a", 1): ordering(0.4), ("b", 0): ordering(0.9)}
    (line,) = table([write(tmp_path / "run", [(row("trace+greedy"), results)])]).lines
    assert line.cells["insertion_auc"].mean == pytest.approx((0.3 + 0.9) / 2)
    assert line.seeds == (0, 1)


def test_budgets_fills_and_seeds_have_columns_of_their_own(tmp_path):
    def mask(score):
        early = {"score@80": score / 2, "score@9": score / 4, "score/mean": score / 3, "score/blur": 0.1}
        return {"score": score, "area": 0.1, "mec": 160, "seconds": 1.0, **early}

    seeded = {("a", 0): mask(0.4), ("a", 1): mask(0.6), ("b", 0): mask(0.8), ("b", 1): mask(0.8)}
    rows = [(row("trace", 1, returns="mask"), seeded),
            (row("greedy", 0), {"a": ordering(0.5, **{"insertion_auc/blur": 0.3}), "b": ordering(0.5)})]  # fmt: skip
    made = table([write(tmp_path / "run", rows)])
    text = as_markdown(made)
    assert (
        "| **Ins** | Ins, blur | Del | @30 | @50 | High | Score@9 | Score@80 | Score | Score, blur | Score, mean |"
        in text
    )
    assert "0.300 [0.300, 0.300] of 1" in text
    assert "### net, correct, 2 samples, up to 2 seeds, standard deviation over seeds" in text
    assert made.lines[1].spread["score"] == pytest.approx((0.1 + 0) / 2)
    assert made.lines[0].spread == {}
    for note in ("Score@B is the score", "Columns that name a fill", "up to 2 seeds"):
        assert note in text
    assert "score@80" in as_csv(made)


def test_shares_have_wilson_intervals(tmp_path):
    """Not only of repairs, and of the complement where failures are counted; differences are bootstrapped."""

    def tried(repaired, removed):
        return ordering(0.5, repaired=repaired, mistake="false_no", removed=removed, kept=0.2)

    rows = [(row("greedy", 0), {str(i): tried(i < 8, 0.05) for i in range(10)}),
            (row("trace", 1), {str(i): tried(i < 6, 0.3) for i in range(10)})]  # fmt: skip
    made = table([write(tmp_path / "run", rows)], against="greedy")
    cells, gaps = made.lines[0].cells, made.lines[1].differences
    assert (cells["repaired"].low, cells["repaired"].high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert (cells["false_no"].low, cells["false_no"].high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert (cells["unrepaired"].low, cells["unrepaired"].high) == pytest.approx((0.567, 5.098), abs=1e-3)
    assert (cells["csr@10"].low, cells["csr@10"].high) == pytest.approx((0.7225, 1), abs=1e-4)
    assert (cells["kept"].low, cells["kept"].high) == pytest.approx((0.2, 0.2))
    assert gaps["repaired"].mean == pytest.approx(-0.2)
    assert (gaps["repaired"].low, gaps["repaired"].high) == pytest.approx((-0.5, 0), abs=1e-6)
    assert "Repair Rate | false no | failed | AMCR | CSR@10 | kept | MEC" in as_markdown(made)


def test_two_columns_of_two_rows_are_compared_on_the_samples_of_both(tmp_path):
    masks = [{"score": s, "score@80": s / 2, "area": 0.1, "mec": 160, "seconds": 1.0} for s in (0.4, 0.6, 0.8)]
    rows = [
        (row("trace", 0), dict(zip("abc", masks, strict=True))),
        (row("swap", 1), dict(zip("bcd", masks, strict=True))),
    ]
    trace, swap = table([write(tmp_path / "run", rows)]).lines
    ratio, gap = difference(trace, swap, "score@80", "score")
    assert ratio == pytest.approx(0.35 / 0.5)
    assert (gap.mean, gap.low, gap.high, gap.samples) == pytest.approx((-0.15, -0.2, -0.1, 2), abs=1e-6)
    assert difference(trace, swap, "insertion_auc") is None
    assert difference(trace, trace, "score")[1].mean == 0


def test_the_hash_is_of_the_numbers_and_not_of_the_times(tmp_path):
    def hashed(name, **changes):
        return table([write(tmp_path / name, [(row("greedy"), {"a": ordering(0.5, **changes)})])]).hash

    assert hashed("one") == hashed("two", seconds=9.0)
    assert hashed("one") != hashed("three", high=0.91)


def test_shards_in_several_folders_are_one_run(tmp_path, run):
    a = write(tmp_path / "a", [(row("greedy"), {"a": ordering(0.1), "b": ordering(0.2)})])
    b = write(tmp_path / "b", [(row("greedy"), {"c": ordering(0.6)})])
    (line,) = table([a, b]).lines
    assert line.samples == ("a", "b", "c")
    other = write(tmp_path / "c", [(row("greedy", settings={"k": 9}), {"a": ordering(0.1)})])
    with pytest.raises(WhymaskError, match=r"two runs have a row 'greedy' \(net, correct\) that differs"):
        table([a, other])


def test_a_later_result_mends_an_error(tmp_path):
    one = row("greedy")
    folder = write(tmp_path / "run", [(one, {"a": "there is no file", "b": ordering(0.2)})])
    write(folder, [(one, {"a": ordering(0.4)})])
    (line,) = table([folder]).lines
    assert (line.failed, line.samples) == (0, ("a", "b"))
    # A photo that was not there has another key than when it came.
    store = Store(folder)
    store.append({"key": "no image", "row": one.hash, "sample": "b", "seed": 0, "error": "there is no file"})
    assert table([folder]).lines[0].failed == 0
    assert read([folder]).errors == []


def test_what_cannot_be_shown_is_told(tmp_path, run):
    with pytest.raises(WhymaskError, match="unknown row 'gredy'; did you mean 'greedy'"):
        table([run], against="gredy")
    with pytest.raises(WhymaskError, match="holds no records"):
        table([tmp_path / "none"])
    with pytest.raises(WhymaskError, match="there is no result yet"):
        table([write(tmp_path / "empty", [(row("greedy"), {})])])
    store = Store(run)
    store.append({"key": "other", "row": row("greedy").hash, "sample": "a", "seed": 0, **ordering(0.3)})
    with pytest.raises(WhymaskError, match="two results for the sample a"):
        table([run])
