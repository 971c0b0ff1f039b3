import threading

import pytest
from PIL import Image

import whymask
from whymask.errors import WhymaskError
from whymask.images.described import described
from whymask.results.base import Explanation
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.serve.history import History
from whymask.serve.jobs import HIDDEN, Jobs, QueueFullError
from whymask.serve.request import Request

from models.tiny import quadrants
from serve.served import Slow, picture, until


def request(**wish):
    return Request.of({"regions": "grid:4x4", **wish}, ["slow", "broken"])


@pytest.fixture
def jobs(tmp_path):
    slow = Slow()
    jobs = Jobs({"slow": slow.model, "broken": Slow(-1).model}, History(tmp_path), waiting=2, patience=60)
    jobs.slow = slow
    yield jobs
    jobs.stop()
    assert not jobs.worker.is_alive()


@pytest.mark.parametrize(("method", "kind"), [("trace", EvidenceMask), ("greedy", Ordering)])
def test_a_job_becomes_a_result(jobs, method, kind):
    job = jobs.submit(request(method=method), picture())
    until(lambda: job.over)
    assert (job.state, job.message) == ("done", "")
    assert job.image is None  # nothing is kept of it but the result
    result = jobs.history.load(job.id)
    assert isinstance(result, kind)
    assert job.forwards == result.ledger.mec
    if kind is Ordering:
        assert result.curves is not None
        assert job.score == pytest.approx(result.image.full_score)  # the last prefix a search scores is everything
    (entry,) = jobs.history.latest()
    assert entry["id"] == job.id
    assert entry["thumbnail"].startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize(("method", "expected"), [("greedy", 4160), ("igos++", 0)])
def test_forwards_are_told_batch_by_batch(tmp_path, method, expected):
    """Also of one question of 128 images, Greedy's first, and of methods that use gradients."""
    model = quadrants()
    model.batch_size = 4
    there, go_on, calls = threading.Event(), threading.Event(), []

    def hold(*_):
        calls.append(1)
        if len(calls) == 3:
            there.set()
            go_on.wait(20)

    hook = model.module.register_forward_hook(hold)
    jobs = Jobs({"slow": lambda: model}, History(tmp_path))
    job = jobs.submit(request(method=method, regions="grid:8x8"), picture())
    assert there.wait(20)
    told = job.as_dict()
    jobs.cancel(job)
    go_on.set()
    jobs.stop()
    hook.remove()
    assert (told["state"], told["expected"]) == ("running", expected)
    assert 1 < told["forwards"] < 128


def test_a_cancelled_job_stops_within_one_batch(jobs):
    jobs.slow.seconds = 0.02
    job = jobs.submit(request(method="greedy", regions="grid:8x8"), picture())
    until(lambda: jobs.slow.batches > 3)  # within the first step, which is 128 images in batches of 4
    jobs.cancel(job)
    at = jobs.slow.batches
    until(lambda: job.over)
    assert job.state == "cancelled"
    assert jobs.slow.batches <= at + 1
    assert jobs.history.latest() == []


def test_a_search_for_words_stops_too(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    model = whymask.load("tiny-caption")
    jobs = Jobs({"caption": lambda: model}, History(tmp_path), patience=60)
    wish = {"words": "yes", "question": "Describe the image.", "fill": "several"}
    job = jobs.submit(Request.of(wish, ["caption"]), Image.fromarray(described("test", 0).pixels))
    until(lambda: job.forwards > 0)
    jobs.cancel(job)
    until(lambda: job.over)
    jobs.stop()
    assert (job.state, job.message) == ("cancelled", "Cancelled.")
    assert job.forwards < job.expected


def test_a_job_nobody_watches_stops(jobs):
    jobs.slow.seconds = 0.02
    job = jobs.submit(request(method="greedy", regions="grid:8x8"), picture())
    until(lambda: jobs.slow.batches > 3)
    job.seen -= jobs.patience - 20  # seconds that are left
    at = jobs.slow.batches
    until(lambda: jobs.slow.batches > at + 3)
    assert job.state == "running"
    job.seen -= 30
    until(lambda: job.over)
    assert (job.state, job.message) == ("cancelled", "The page was closed, so the search was stopped.")


def test_the_job_of_a_hidden_page_goes_on_until_its_next_request(jobs):
    """Browsers let a page that has been hidden for minutes ask once a minute."""
    job = jobs.submit(request(method="greedy", regions="grid:8x8"), picture())
    jobs.watch(job, hidden=True)
    jobs.watch(job)  # a visible page beside it does not end that
    job.seen -= HIDDEN + jobs.patience - 20  # seconds that are left
    until(lambda: job.over)
    assert job.state == "done"


def test_waiting_images_have_a_common_limit(jobs):
    jobs.slow.seconds = 0.05
    running = jobs.submit(request(method="greedy", regions="grid:8x8"), picture())
    until(lambda: running.state == "running")
    jobs.submit(request(), Image.new("RGB", (9_000, 9_000)))
    with pytest.raises(QueueFullError):
        jobs.submit(request(), Image.new("RGB", (5_000, 5_000)))
    jobs.submit(request(), picture())
    jobs.cancel(running)


def test_a_full_queue_refuses_and_a_cancelled_job_makes_room(jobs):
    jobs.slow.seconds = 0.05
    running = jobs.submit(request(method="greedy", regions="grid:8x8"), picture())
    until(lambda: running.state == "running")
    waiting = [jobs.submit(request(), picture()) for _ in range(2)]
    assert jobs.full
    with pytest.raises(QueueFullError):
        jobs.submit(request(), picture())
    jobs.cancel(waiting[0])
    assert waiting[0].state == "cancelled"
    jobs.submit(request(), picture())
    jobs.cancel(running)


def test_whatever_a_model_does_the_worker_goes_on(jobs, caplog):
    broken = jobs.submit(request(model="broken"), picture())
    wrong = jobs.submit(request(target="no such answer"), picture())
    until(lambda: wrong.over)
    assert (broken.state, wrong.state) == ("failed", "failed")
    assert "RuntimeError" in broken.message
    assert "a broken model" in caplog.text
    assert "did you mean" in wrong.message or "unknown target" in wrong.message
    good = jobs.submit(request(), picture())
    until(lambda: good.over)
    assert good.state == "done"


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"model": "/etc/passwd"}, "unknown model"),
        ({"method": "trase"}, "did you mean 'trace'"),
        ({"k": "-1"}, "k must be a whole number"),
        ({"k": "٣"}, "k must be a whole number"),
        ({"k": "17"}, "k must be between 1 and the number of regions, 16, not 17"),
        ({"k": "3", "method": "greedy"}, "unknown parameter of greedy 'k'"),
        ({"seed": "9" * 30}, "seed must be a whole number"),
        ({"regions": "/etc/passwd"}, "regions must be like"),
        ({"regions": "grid:99x99"}, "1 to 400 regions"),
        ({"regions": "slico:0"}, "1 to 400 regions"),
        ({"fill": "/etc/passwd"}, "unknown fill"),
        ({"resize": "none"}, "unknown resize"),
        ({"target": "a" * 1001}, "longer than"),
        ({"path": "x"}, "unknown setting"),
        ({"words": "maybe"}, "unknown words"),
        ({"words": "yes", "method": "trace"}, "leave method and target out"),
    ],
)
def test_a_wish_is_checked(wish, words):
    with pytest.raises(WhymaskError, match=words):
        request(**wish)


@pytest.mark.parametrize("name", ["../secret", "..", "0123456789abcdeF", "0123456789abcdef\n", "", "a/b"])
def test_only_ids_name_files(tmp_path, name):
    (tmp_path / "results").mkdir()
    (tmp_path / "secret.npz").touch()
    assert History(tmp_path / "results").path(name) is None


def test_foreign_files_in_the_folder_are_not_shown(tmp_path, jobs):
    """Text, nothing, a link, a folder: whatever is there, the good results are shown."""
    job = jobs.submit(request(), picture())
    until(lambda: job.over)
    folder = jobs.history.folder
    (folder / "0123456789abcdef.npz").write_text("not a result")
    (folder / "00000000000000aa.npz").touch()
    (folder / "00000000000000bb.npz").mkdir()
    (folder / "00000000000000cc.npz").symlink_to(folder / f"{job.id}.npz")
    (folder / "mine.npz").touch()
    assert [entry["id"] for entry in jobs.history.latest()] == [job.id]


def test_whatever_a_file_does_the_history_is_shown(jobs, monkeypatch):
    job = jobs.submit(request(), picture())
    until(lambda: job.over)
    result = jobs.history.load(job.id)
    load = Explanation.load

    def broken(path):
        if path.stem == job.id:
            return load(path)
        raise errors[int(path.stem, 16)]("a line\nand another")

    errors = [RecursionError, MemoryError, ValueError, WhymaskError, AssertionError, KeyError, OSError]
    for number in range(len(errors)):
        jobs.history.save(f"{number:016x}", result)
    monkeypatch.setattr(Explanation, "load", broken)
    assert [entry["id"] for entry in jobs.history.latest()] == [job.id]


def test_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("private")
    history = History(tmp_path / "results")
    (history.folder / "0123456789abcdef.npz").symlink_to(secret)
    assert history.path("0123456789abcdef") is None
    assert history.read("0123456789abcdef") is None
    assert not history.delete("0123456789abcdef")
    assert secret.exists()


def test_a_link_that_comes_between_is_not_followed(tmp_path, monkeypatch):
    """What `path` has looked at may have been replaced when the file is opened."""
    secret = tmp_path / "secret"
    secret.write_text("private")
    history = History(tmp_path / "results")
    link = history.folder / "0123456789abcdef.npz"
    link.symlink_to(secret)
    monkeypatch.setattr(history, "path", lambda name: link)
    assert history.read("0123456789abcdef") is None


def test_results_are_private(tmp_path):
    jobs = Jobs({"slow": Slow().model, "broken": Slow().model}, History(tmp_path / "deep" / "results"))
    job = jobs.submit(request(), picture())
    until(lambda: job.over)
    jobs.stop()
    assert job.state == "done"
    folder = jobs.history.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    (file,) = folder.iterdir()  # and nothing else was left there
    assert file.stat().st_mode & 0o777 == 0o600
