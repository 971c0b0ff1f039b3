import csv
import json
from io import StringIO

import numpy as np
import pytest

from whymask import Curves, WhymaskError
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
                {s: {"score": 0.5, "removed_score": 0.3, "area": 0.12, "mec": 160, "seconds": 1.0} for s in "abcd"},
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
    assert lines[2] == (
        "| method | **Ins** | Del | @30 | @50 | High | Score | Score of rest | Area | MEC | MEC without cache |"
    )
    greedy = [cell.strip() for cell in lines[4].strip("|").split("|")]
    assert greedy[3:5] == ["0.600 [0.600, 0.600]", "0.500 [0.500, 0.500]"]  # at the area, not the best up to it
    assert greedy[6:] == ["—", "—", "—", "100 [100, 100]", "110 [110, 110]"]
    assert lines[5].startswith("| trace+greedy (4) | **0.350 [")
    mask = [cell.strip() for cell in lines[6].strip("|").split("|")]
    assert mask[0] == "trace (4)"
    assert mask[1:6] == ["—"] * 5
    numbers = ["0.500 [0.500, 0.500]", "0.300 [0.300, 0.300]", "0.120 [0.120, 0.120]", "160 [160, 160]"]
    assert mask[6:] == [*numbers, "—"]  # records of earlier versions have no count without a cache
    backward = [cell.strip() for cell in lines[7].strip("|").split("|")]
    assert backward[0] == "grad-cam (1) (1 failed)"
    assert backward[-2:] == ["—", "—"]
    assert "| trace+greedy - greedy | **+0.100 [+0.100, +0.100]**" in text
    assert "1 results failed and are not part of any mean." in text
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
        (row("gradient", 1, needs="gradients"), {("a", seed): ordering(0.1, mec=0, nominal=0) for seed in (0, 1)}),
        (row("greedy", 2), {"a": ordering(0.1)}),
    ]
    text = as_markdown(table([write(tmp_path / "run", rows)]))
    assert [line.split(" | ")[-2:] for line in text.splitlines()[4:7]] == [
        ["100 [100, 100]*", "110 [110, 110]* |"],
        ["—", "— |"],
        ["100 [100, 100]", "110 [110, 110] |"],
    ]
    assert "| gradient | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |\n" in text  # over seeds, without forwards
    gaps = table([tmp_path / "run"], against="gradient").lines[2].differences
    assert "insertion_auc" in gaps
    assert not {"mec", "nominal"} & gaps.keys()
    assert "A star (*) marks methods that use gradients" in text
    assert "A star (*) marks methods that use gradients" not in as_markdown(
        table([tmp_path / "run"], methods=["greedy", "gradient"])
    )


def test_some_rows_beside_the_one_they_are_compared_with(run):
    made = table([run], against="greedy", methods=["trace+greedy"])
    assert [line.row.method for line in made.lines] == ["greedy", "trace+greedy"]
    with pytest.raises(WhymaskError, match="unknown row 'trac'; did you mean 'trace'"):
        table([run], methods=["trac"])


def test_latex(run):
    text = as_latex(table([run]))
    assert text.count(r"\begin{tabular}{lcccccccccc}") == text.count(r"\end{tabular}") == 1
    assert r"method & \textbf{Ins} & Del & @30 & @50 & High & Score & Score of rest & Area & MEC & MEC without" in text
    assert "trace (4) & -- & --" in text
    assert "—" not in text.replace("% ", "", 1).split(r"\begin")[1]


def test_csv_and_json_hold_every_number(run):
    made = table([run], against="greedy")
    rows = list(csv.DictReader(StringIO(as_csv(made))))
    ours = next(r for r in rows if r["method"] == "trace+greedy" and r["column"] == "insertion_auc")
    assert float(ours["mean"]) == pytest.approx(0.35)
    assert float(ours["difference"]) == pytest.approx(0.1)
    assert (ours["samples"], ours["failed"]) == ("4", "0")
    columns = ["insertion_auc", "deletion_auc", "at@30", "at@50", "high", "mec", "nominal"]
    assert [r["column"] for r in rows if r["method"] == "greedy"] == [*columns, "seconds", "forwards/s"]
    assert "removed_score" in {r["column"] for r in rows if r["method"] == "trace"}
    data = json.loads(as_json(made))
    assert data["rows"][0]["columns"]["at@50"]["mean"] == 0.5
    assert data["records"] == made.hash
    assert [r["method"] for r in data["rows"]] == ["greedy", "trace+greedy", "trace", "grad-cam"]
    assert data["rows"][0]["settings"] == {"k": 8}


def test_seeds_are_averaged_within_a_sample(tmp_path):
    results = {("a", 0): ordering(0.2), ("a", 1): ordering(0.4), ("b", 0): ordering(0.9)}
    (line,) = table([write(tmp_path / "run", [(row("trace+greedy"), results)])]).lines
    assert line.cells["insertion_auc"].mean == pytest.approx((0.3 + 0.9) / 2)
    assert line.seeds == (0, 1)


def test_30_and_50_are_the_score_at_that_area(tmp_path):
    """Between two regions on a line; the maximum up to 30% would be 0.2."""
    areas, insertion, deletion = np.array([[0.25, 0.5, 0.75, 1], [0.2, 0.8, 0.9, 0.7], [0.6, 0.3, 0.2, 0.1]])
    curves = Curves(areas, insertion, deletion).summary()
    text = as_markdown(table([write(tmp_path / "run", [(row("greedy"), {"a": {**curves, "mec": 1}})])]))
    numbers = (0.575, 0.375, 0.32, 0.8, 0.9)
    assert "| **Ins** | Del | @30 | @50 | High |" in text
    assert " | ".join(f"{x:.3f} [{x:.3f}, {x:.3f}]" for x in numbers) in text


def test_columns_are_explained_where_they_are_shown(tmp_path):
    mask = {"score": 0.5, "area": 0.1, "mec": 160, "seconds": 1.0}
    rows = [(row("greedy", 0), {"a": ordering(0.5)}),
            (row("trace", 1), {"a": {**mask, "nominal": 165, "removed_score": 0.3}}),
            (row("swap", 2), {"a": mask})]  # fmt: skip
    folder = write(tmp_path / "run", rows)
    noted = {
        "greedy": ("@30 and @50 are the insertion score at", "MEC without cache"),
        "trace": ("MEC without cache", "Score of rest"),
        "swap": (),
    }
    for method, notes in noted.items():
        text = as_markdown(table([folder], methods=[method]))
        assert "MEC counts distinct masked images" in text
        for note in noted["greedy"] + noted["trace"]:
            assert (note in text) == (note in notes), (method, note)


def test_budgets_fills_and_seeds_have_tables_of_their_own(tmp_path):
    def mask(score):
        early = {"score@80": score / 2, "score@9": score / 4, "score/mean": score / 3, "score/blur": 0.1}
        return {"score": score, "area": 0.1, "mec": 160, "seconds": 1.0, **early}

    seeded = {("a", 0): mask(0.4), ("a", 1): mask(0.6), ("b", 0): mask(0.8), ("b", 1): mask(0.8)}
    rows = [(row("trace", 1, returns="mask"), seeded),
            (row("greedy", 0), {"a": ordering(0.5, **{"insertion_auc/blur": 0.3}), "b": ordering(0.5)})]  # fmt: skip
    made = table([write(tmp_path / "run", rows)])
    text = as_markdown(made)
    tables = {title: lines for title, _, *lines in (part.splitlines() for part in text.split("### ")[1:])}
    title = "net, correct, 2 samples, up to 2 seeds"
    assert list(tables) == [
        title + kind + part
        for kind in ("", ", standard deviation over seeds")
        for part in ("", ", by forwards", ", on other fills")
    ]
    whole, forwards, fills, *_ = ([line for line in lines if line.startswith("|")] for lines in tables.values())
    assert whole[0] == "| method | **Ins** | Del | @30 | @50 | High | Score | Area | MEC | MEC without cache |"
    assert [line.split(" | ")[0] for line in whole[2:]] == ["| greedy", "| trace"]
    # Each has the rows with such a number, and what that is to be compared with.
    assert forwards[0] == "| method | Score@9 | Score@80 | Score |"
    assert [line.split(" | ")[0] for line in forwards[2:]] == ["| trace"]
    assert fills[0] == "| method | **Ins** | Ins, blur | Score | Score, blur | Score, mean |"
    assert fills[2] == "| greedy | 0.500 [0.500, 0.500] | 0.300 [0.300, 0.300] of 1 | — | — | — |"
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
    text = as_markdown(made)
    assert "| method | Repair Rate | false no | failed | AMCR | CSR@10 | kept | MEC | MEC without cache |\n" in text
    assert "| method | **Ins** | Del | @30 | @50 | High | MEC | MEC without cache |\n" in text


def test_where_only_repairs_were_measured_there_is_one_table(tmp_path):
    tried = {"area": 0.1, "mec": 160, "repaired": True, "mistake": "false_no", "kept": 0.1}
    rows = [(row("trace", 0), {"a": tried}), (row("blank", 1), {"a": {**tried, "mec": 0}})]
    made = table([write(tmp_path / "run", rows)], against="blank")
    titles = [line for line in as_markdown(made).splitlines() if line.startswith("#")]
    assert titles == [f"### net, correct, 1 sample{kind}, answers repaired" for kind in ("", ", differences")]


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
