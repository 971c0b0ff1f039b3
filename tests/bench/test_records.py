import json
import random
import string

import pytest

from whymask import WhymaskError
from whymask.bench import records
from whymask.bench.ablations import overlaps
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.render import FORMATS, as_json, as_markdown
from whymask.bench.report import bench_report
from whymask.bench.runner import run
from whymask.bench.table import table as numbers

from bench.made_up import ordering, row, write
from bench.toy import finish, results, start, table, toml

GOOD = {"key": "k", "row": "r", "sample": "s", "seed": 0, **ordering(0.5), "label": "cup", "order": [1, 0], "mask": []}
GARBLED = {
    "half a line": json.dumps(GOOD).encode()[:40],
    "zeros": b"\0" * 512,
    "not UTF-8": json.dumps(GOOD).encode().replace(b"cup", b"c\xff\xfep"),
    "deep": b"[" * 100_000,
    "digits": b"9" * 10_000,
    "a number": b"1",
    "null": b"null",
    "a list": json.dumps([GOOD]).encode(),
    "no key": json.dumps({**GOOD, "key": None}).encode(),
    "a list as key": json.dumps({**GOOD, "key": [1]}).encode(),
    "text as number": json.dumps({**GOOD, "insertion_auc": "0.5"}).encode(),
    "infinite": json.dumps({**GOOD, "insertion_auc": float("inf")}).encode(),
    "huge": json.dumps({**GOOD, "mec": 10**400}).encode(),
    "a number as mask": json.dumps({**GOOD, "mask": 3}).encode(),
    "a number as label": json.dumps({**GOOD, "label": 3}).encode(),
    "a number as error": json.dumps({**GOOD, "error": 3}).encode(),
    "no repair": json.dumps({**GOOD, "repaired": None}).encode(),
}


@pytest.mark.parametrize("line", GARBLED.values(), ids=GARBLED)
def test_one_garbled_line_costs_one_record(place, line):
    wanted = config(table(place, seeds=[0], methods=["greedy"]))
    run(wanted, quiet=True)
    whole = results(place / "run")
    (file,) = (place / "run").glob("records-*.jsonl")
    lines = file.read_bytes().splitlines()
    lines[3] = line
    file.write_bytes(b"\n".join([*lines, b""]))
    assert len(results(place / "run")) == len(whole) - 1
    for make in FORMATS.values():
        assert make(numbers([place / "run"]))
    assert bench_report([place / "run"])
    assert "Skipped lines of the records: 1 " in as_markdown(numbers([place / "run"]))
    summary = run(wanted, quiet=True)
    assert (summary.total, summary.done, summary.skipped) == (7, 7, 1)
    assert results(place / "run") == whole


def test_a_line_that_is_too_long_is_skipped_without_being_held(place, monkeypatch):
    wanted = config(table(place, seeds=[0], methods=["greedy"]))
    run(wanted, quiet=True)
    (file,) = (place / "run").glob("records-*.jsonl")
    longest = max(map(len, file.read_bytes().splitlines()))
    monkeypatch.setattr(records, "LONGEST", longest + 1)
    lines = file.read_bytes().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {"label": "x" * 5 * longest}).encode()
    file.write_bytes(b"\n".join([*lines, b""]))
    store = Store(place / "run")
    assert (len(store.records), store.skipped) == (6, 1)
    file.write_bytes(b"\n".join([*lines, b"y" * 5 * longest]))  # its end has not been written
    store = Store(place / "run")
    assert (len(store.records), store.skipped) == (6, 1)


def test_mutated_records_end_in_a_table_or_one_sentence(tmp_path):
    rng = random.Random(0)
    write(tmp_path, [(row("greedy"), {name: ordering(0.5, label="cup", mask=[1]) for name in string.ascii_lowercase})])
    (file,) = tmp_path.glob("records-*.jsonl")
    good = file.read_bytes()
    for _ in range(15):
        data = bytearray(good)
        for _ in range(rng.randint(1, 40)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(data)
        try:
            made = numbers([tmp_path])
        except WhymaskError:
            continue
        for make in FORMATS.values():
            make(made)
        bench_report([tmp_path])


def test_other_things_in_the_folder_are_no_records(tmp_path):
    write(tmp_path, [(row("greedy"), {"a": ordering(0.5)})])
    (tmp_path / "records-x.jsonl").mkdir()
    (tmp_path / "records-y.jsonl").write_bytes(b"\n\n  \n")
    store = Store(tmp_path)
    assert (len(store.records), store.skipped) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [
        b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000,
        {"place": 3}, {"place": ["a"]}, {"settings": 3}, {"method": 3}, {"emphasis": None}, {"more": 1},
        {"settings": {"k": 9}},  # another row than its name says
    ],
)  # fmt: skip
def test_following_the_advice_on_a_damaged_row_works(place, change):
    file = toml(place / "bench.toml", table(place, seeds=[0]))
    run(config(table(place, seeds=[0])), quiet=True)
    whole = as_json(numbers([place / "run"]))
    damaged = next((place / "run" / "rows").glob("*.json"))
    data = change if isinstance(change, bytes) else json.dumps(json.loads(damaged.read_text()) | change).encode()
    damaged.write_bytes(data)
    told = f"{damaged} is damaged; remove it and repeat the 'whymask bench run', which writes it again."
    for use in (Store, lambda folder: numbers([folder]), lambda folder: bench_report([folder])):
        with pytest.raises(WhymaskError) as caught:
            use(place / "run")
        assert str(caught.value) == told
    damaged.unlink()
    assert numbers([place / "run"]).skipped == 7
    assert "Skipped lines of the records: 7 " in bench_report([place / "run"])
    assert overlaps([place / "run"])
    if change == b"":
        assert finish(start("run", file, "--quiet"))[0] == 0
    else:
        run(config(table(place, seeds=[0])), quiet=True)
    assert as_json(numbers([place / "run"])) == whole


def test_a_folder_instead_of_a_row_is_one_sentence(tmp_path):
    write(tmp_path, [(row("greedy"), {"a": ordering(0.5)})])
    (tmp_path / "rows" / "x.json").mkdir()
    with pytest.raises(WhymaskError, match=r"x.json is damaged; remove it"):
        Store(tmp_path)


def test_the_command_reports_skipped_lines(place):
    file = toml(place / "bench.toml", table(place, seeds=[0], methods=["greedy"]))
    assert finish(start("run", file, "--quiet"))[0] == 0
    (written,) = (place / "run").glob("records-*.jsonl")
    written.write_bytes(written.read_bytes().replace(b'"sample": "3"', b'"sample": 3'))
    code, out, err = finish(start("run", file, "--quiet"))
    assert (code, out) == (0, f"7 of 7 results are there in {place}/run.\n")
    assert err == "whymask: 1 line of earlier records could not be read; what was missing is computed again.\n"
