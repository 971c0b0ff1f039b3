import random
import resource
import signal
import time

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run
from whymask.data.manifest import read_manifest

from bench.toy import METHODS, finish, lines, lines_so_far, photos, results, start, table, toml


def test_one_record_per_sample_method_and_seed(place):
    summary = run(config(table(place)), quiet=True)
    assert (summary.total, summary.done, summary.failed) == (28, 28, [])
    assert str(summary) == "28 of 28 results are there"
    records = lines(place / "run")
    assert len({record["key"] for record in records}) == len(records) == 28
    rows = {row.hash: row for row in Store(place / "run").rows.values()}
    assert {row.names for row in rows.values()} == {("toy", "mine", "greedy"), ("toy", "mine", "trace")}
    for record in records:
        if rows[record["row"]].method == "greedy":
            # The score is linear in the regions, so Greedy's two sides agree and the order is by brightness.
            assert sorted(record["order"]) == list(range(9))
            assert record["mec"] <= 9 * 10
            assert record["insertion_auc"] > record["deletion_auc"]
        else:
            assert len(record["mask"]) == 3
            assert record["score"] + record["removed_score"] == pytest.approx(record["full"])
            assert record["area"] == pytest.approx(3 / 9)
        assert record["seconds"] > 0


def test_records_equal_those_of_explain(place):
    run(config(table(place, seeds=[1])), quiet=True)
    model = whymask.load(f"{place}/toy.py:load")
    for record in results(place / "run").values():
        alone = {"regions": "grid:3x3", "seed": 1}
        if "order" in record:
            ordering = whymask.explain(place / f"{record['sample']}.png", model, method="greedy", **alone)
            assert list(ordering.order) == record["order"]
            assert whymask.replay(ordering, model).insertion_auc == record["insertion_auc"]
            assert ordering.ledger.mec == record["mec"]
        else:
            mask = whymask.explain(
                place / f"{record['sample']}.png", model, method="trace", params=METHODS[1]["params"], **alone
            )
            assert (list(mask.regions), mask.score, mask.area) == (record["mask"], record["score"], record["area"])


def test_what_is_there_is_not_run_again(place):
    first = config(table(place, methods=["greedy"], seeds=[0]))
    run(first, quiet=True)
    before = lines(place / "run")
    assert run(first, quiet=True).done == 7
    assert lines(place / "run") == before
    more = run(config(table(place)), quiet=True)
    assert (more.total, len(lines(place / "run"))) == (28, 28)


def test_shards_make_the_whole(place):
    run(config(table(place)), quiet=True)
    parts = [run(config(table(place, out=str(place / "parts"))), shard=(i, 3), quiet=True) for i in range(3)]
    assert [part.total for part in parts] == [12, 8, 8]
    assert results(place / "parts") == results(place / "run")


def test_numbers_do_not_depend_on_company(place):
    run(config(table(place)), quiet=True)
    run(config(table(place, together=1, out=str(place / "alone"))), quiet=True)
    assert results(place / "alone") == results(place / "run")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"regions": "grid:2x2"}, "another regions \\('grid:3x3', now 'grid:2x2'\\)"),
        (
            {"methods": [{"name": "trace", "method": "trace", "params": {"k": 2}}]},
            "another parameters k \\(3, now 2\\)",
        ),
        ({"budget": 5}, "another budget \\(None, now 5\\)"),
    ],
)
def test_other_settings_are_not_mixed_under_one_name(place, change, told):
    run(config(table(place, seeds=[0])), quiet=True)
    with pytest.raises(WhymaskError, match=told):
        run(config(table(place, seeds=[0], **change)), quiet=True)


def test_a_changed_image_or_target_is_another_result(place):
    run(config(table(place, seeds=[0], methods=["greedy"])), quiet=True)
    Image.new("RGB", (12, 12), "white").save(place / "3.png")
    run(config(table(place, seeds=[0], methods=["greedy"])), quiet=True)
    assert len(results(place / "run")) == 8


def test_the_same_image_under_two_names_has_one_result(place):
    (place / "3.png").write_bytes((place / "2.png").read_bytes())
    summary = run(config(table(place, seeds=[0], methods=["greedy"])), quiet=True)
    assert (summary.total, summary.done, len(lines(place / "run"))) == (6, 6, 6)


def test_a_changed_function_is_another_model(place):
    given = config(table(place, seeds=[0], methods=["greedy"]))
    run(given, quiet=True)
    (place / "toy.py").write_text((place / "toy.py").read_text().replace("/ 255", "/ 256"))
    with pytest.raises(WhymaskError, match=r"with another model fingerprint \('function load.<locals>.score "):
        run(given, quiet=True)


def test_a_failing_sample_is_told_and_tried_again(place):
    (place / "2.png").rename(place / "gone.png")
    (place / "5.png").write_bytes(b"no image")
    summary = run(config(table(place, seeds=[0])), quiet=True)
    assert (summary.total, summary.done, len(summary.failed)) == (14, 10, 4)
    assert str(summary) == "10 of 14 results are there, 4 failed"
    assert f"2, greedy: there is no file {place}/2.png." in summary.failed
    (place / "gone.png").rename(place / "2.png")
    again = run(config(table(place, seeds=[0])), quiet=True)
    assert (again.done, len(again.failed)) == (12, 2)


def test_a_model_that_fails_on_one_image_spares_its_company(place):
    poison = np.asarray(Image.open(place / "4.png"))[0, 0].tolist()

    def score(images):
        if (images[:, 0, 0] == poison).all(axis=1).any():
            raise RuntimeError("I cannot see this")
        return images.mean(axis=(1, 2, 3)) / 255

    model = whymask.wrap(score, labels=["bright"])
    summary = run(config(table(place, seeds=[0], methods=["greedy"])), load=lambda spec: model, quiet=True)
    assert summary.done == 6
    assert summary.failed == ["4, greedy: RuntimeError: I cannot see this"]


def test_a_method_that_cannot_do_an_image_says_why(place):
    methods = [{"method": "trace", "params": {"k": 12}}]
    summary = run(config(table(place, seeds=[0], methods=methods)), quiet=True)
    assert summary.done == 0
    assert summary.failed[0] == "0, trace: k must be between 1 and the number of regions, 9, not 12."


def test_photos_are_split_by_what_the_model_answers(tmp_path):
    """Five shades, the dark ones of class 0; a model that calls only very bright ones 1 is wrong about one of them."""
    for i in range(5):
        Image.new("RGB", (12, 12), (50 * i + 10,) * 3).save(tmp_path / f"{i}.png")
    (tmp_path / "photos.txt").write_text("".join(f"{i}.png {int(i > 2)}\n" for i in range(5)))
    asked = []

    def score(images):
        asked.append(len(images))
        share = images.mean(axis=(1, 2, 3)) / 255
        return np.stack([np.full(len(images), 0.7), share], axis=1) / (0.7 + share)[:, None]

    given = {
        "out": str(tmp_path / "run"),
        "models": ["shade"],
        "methods": ["greedy"],
        "photos": {"source": str(tmp_path / "photos.txt"), "correct": 3, "wrong": 2},
        "regions": "grid:2x2",
    }
    summary = run(config(given), load=lambda spec: whymask.wrap(score, labels=["dark", "bright"]), quiet=True)
    assert (summary.total, summary.failed) == (5, [])
    store, found = Store(tmp_path / "run"), {}
    for record in store.records.values():
        found.setdefault(store.rows[record["row"]].split, {})[record["sample"]] = record["label"]
    assert len(found["correct"]) == 3
    assert found["correct"].items() <= {"0": "dark", "1": "dark", "2": "dark", "4": "bright"}.items()
    assert found["cause"] == {"3": "dark"}
    assert found["repair"] == {"3": "bright"}
    manifest = read_manifest(tmp_path / "run" / "manifests" / "shade-repair.jsonl")
    assert [(sample.id, sample.target) for sample in manifest] == [("3", 1)]
    before = len(asked)
    assert run(config(given), load=lambda spec: whymask.wrap(score, labels=["dark", "bright"]), quiet=True).done == 5
    assert len(asked) == before  # neither the answers nor the results are asked for again


def test_half_a_line_is_dropped(place):
    wanted = config(table(place))
    run(wanted, quiet=True)
    whole = results(place / "run")
    (file,) = (place / "run").glob("records-*.jsonl")
    file.write_bytes(file.read_bytes()[:-20])
    assert len(results(place / "run")) == 27
    run(wanted, quiet=True)
    assert results(place / "run") == whole


def test_killed_twenty_times_none_is_lost_and_none_doubled(place):
    photos(place, 30)
    slow = [{"id": f"{place}/toy.py:load", "name": "toy", "options": {"pause": 0.002}}]
    file = toml(place / "bench.toml", table(place, models=slow, out=str(place / "killed"), seeds=[0]))
    rng = random.Random(0)
    found = []
    for _ in range(20):
        process = start("run", file, "--quiet")
        # Past the imports, where there is something to interrupt.
        before, limit = len(lines_so_far(place / "killed")), time.monotonic() + 60
        wanted = before + rng.choice([0, 1, 1, 2, 3])
        while process.poll() is None and len(lines_so_far(place / "killed")) < wanted and time.monotonic() < limit:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        finish(process)
        found.append(len(lines_so_far(place / "killed")))
    assert len(set(found)) > 5  # they were killed at work
    code, out, _ = finish(start("run", file, "--quiet"))
    assert (code, out) == (0, f"60 of 60 results are there in {place}/killed.\n")
    whole = lines_so_far(place / "killed")
    assert len(whole) == len({record["key"] for record in whole}) == 60
    run(config(table(place, models=slow, out=str(place / "whole"), seeds=[0])), quiet=True)
    assert results(place / "killed") == results(place / "whole")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_of_a_run(place, number, code):
    photos(place, 30)
    slow = [{"id": f"{place}/toy.py:load", "name": "toy", "options": {"pause": 0.01}}]
    given = table(place, models=slow, seeds=[0])
    heard = lambda: signal.signal(number, signal.SIG_DFL)  # noqa: E731 what runs in the background ignores interrupts
    process = start("run", toml(place / "bench.toml", given), "--quiet", preexec_fn=heard)
    while process.poll() is None and not lines_so_far(place / "run"):
        time.sleep(0.005)
    process.send_signal(number)
    stopped = f"whymask: stopped; the same command goes on from the records in {place}/run.\n"
    assert finish(process) == (code, "", stopped)
    assert 0 < len(lines(place / "run")) < 60  # all of them whole
    assert not list(place.rglob("*.part"))
    assert run(config(given), quiet=True).done == 60


def test_two_runners_share_a_folder(place):
    photos(place, 12)
    slow = [{"id": f"{place}/toy.py:load", "name": "toy", "options": {"pause": 0.01}}]
    given = table(place, models=slow, seeds=[0])
    file = toml(place / "bench.toml", given)
    for code, out, _ in [finish(process) for process in [start("run", file, "--quiet"), start("run", file, "--quiet")]]:
        assert (code, out) == (0, f"24 of 24 results are there in {place}/run.\n")
    records = lines(place / "run")
    assert len({record["key"] for record in records}) == len(records) == 24
    assert len(list((place / "run").glob("records-*.jsonl"))) == 2
    run(config({**given, "out": str(place / "alone")}), quiet=True)
    assert results(place / "alone") == results(place / "run")


def test_a_full_disk_loses_nothing(place):
    file = toml(place / "bench.toml", table(place, seeds=[0]))
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))  # noqa: E731
    code, _, err = finish(start("run", file, "--quiet", preexec_fn=small))
    assert code == 2
    assert err == (
        f"whymask: cannot write to {place}/run: File too large; earlier records are kept, and the same command "
        "resumes the run.\n"
    )
    there = len(results(place / "run"))
    assert 0 < there < 14
    code, out, _ = finish(start("run", file, "--quiet"))
    assert (code, out) == (0, f"14 of 14 results are there in {place}/run.\n")
    run(config(table(place, seeds=[0], out=str(place / "whole"))), quiet=True)
    assert results(place / "run") == results(place / "whole")


def test_a_lock_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "locks" / "work.lock").mkdir(parents=True)
    told = rf"^cannot write to {tmp_path}: Is a directory; earlier records are kept, and the same command"
    with pytest.raises(WhymaskError, match=told), Store(tmp_path).claim("work", wait=False):
        pass


def test_the_command_tells_failures_and_progress(place):
    (place / "2.png").unlink()
    code, out, err = finish(start("run", toml(place / "bench.toml", table(place, seeds=[0]))))
    assert (code, out) == (1, f"12 of 14 results are there, 2 failed in {place}/run.\n")
    assert f"failed: 2, greedy: there is no file {place}/2.png." in err
    assert "forwards/s" in err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"modles": []}, "unknown key in the configuration: 'modles'; did you mean 'models'?"),
        ({"methods": ["gredy"]}, "unknown method 'gredy'; did you mean 'greedy'?"),
        ({"models": [{"id": "toy.py:load", "options": {"fault": "load"}}]},
         "toy.py, line 15: RuntimeError: no such weights"),
        ({"models": ["toy.py:lod"]}, "unknown function of toy.py 'lod'; did you mean 'load'?"),
        ({"models": ["no.py:load"]}, "there is no file no.py."),
    ],
)  # fmt: skip
def test_what_cannot_run_is_one_sentence(place, change, told):
    code, out, err = finish(start("run", toml(place / "b.toml", {**table(place), **change}), "--quiet", cwd=place))
    assert (code, out, err) == (2, "", f"whymask: {told}\n")


@pytest.mark.parametrize("shard", ["1", "2/2", "a/b", "-1/2"])
def test_a_wrong_shard_is_refused(place, shard):
    code, _, err = finish(start("run", toml(place / "b.toml", table(place)), f"--shard={shard}"))
    assert code == 2
    assert "--shard takes I/N" in err
