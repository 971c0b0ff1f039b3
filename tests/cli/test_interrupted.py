"""`whymask explain FOLDER --jobs 2` and Ctrl-C: what a terminal sends to all of its processes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from models.tiny import lit

OWN = '''
import multiprocessing
import os
import time
from pathlib import Path

replace = os.replace


def wait(where):
    """Where this file names the place, work stops there."""
    while multiprocessing.parent_process() and Path("hold").exists() and Path("hold").read_text() == where:
        Path(f"held-{os.getpid()}").touch()
        time.sleep(0.01)


def patient(source, target):
    """The name under which a result appears; the first half of the photos have theirs at once."""
    if Path(target).name[0] in "13":
        wait("write")
    replace(source, target)


Path.replace = patient


def load():
    wait("load")
    return lambda images: images[:, :8, :8].mean(axis=(1, 2, 3)) / 255
'''


# Python runs this before anything else: before whymask can say what a signal does.
FIRST = """
import os
import sys
import time
from pathlib import Path

started = any("spawn_main" in word for word in sys.orig_argv)
while started and Path("hold").exists() and Path("hold").read_text() == "start":
    Path(f"held-{os.getpid()}").touch()
    time.sleep(0.01)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(FIRST)
    (tmp_path / "photos").mkdir()
    for number in range(4):  # two processes are given two each
        Image.fromarray(np.roll(lit(0), number, axis=0)).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path


def begun(folder):
    """The command in a process group of its own, as a terminal runs it."""

    def heard():  # a suite that runs in the background of a shell ignores interrupts, and so would what it starts
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    settings = ["--model", "own.py:load", "--regions", "grid:4x4", "--k", "2", "--budget", "20"]
    path = os.pathsep.join([str(folder / "first"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "whymask", "explain", "photos", *settings, "--jobs", "2", "--out", "out"], cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard, start_new_session=True,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def held(folder):
    """What processes that wait leave again and again."""
    return set(folder.glob("held-*"))


def over(group):
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def results(folder):
    return {file.name: file.stat().st_mtime_ns for file in (folder / "out").iterdir()}


def interrupted(folder, where, number):
    """What the command has written to stderr when a signal meets its two processes there."""
    (folder / "hold").write_text(where)
    process = begun(folder)
    try:
        until(lambda: len(held(folder)) == 2)
        if number == signal.SIGINT:  # Ctrl-C reaches every process of the terminal; `kill` only the one that is named
            before = held(folder)
            for file in before:
                os.kill(int(file.name.partition("-")[2]), number)
                file.unlink()
            until(lambda: len(held(folder)) == 2)
            assert held(folder) == before
        process.send_signal(number)
        _, err = process.communicate(timeout=120)  # the work would go on for ever
        until(lambda: over(process.pid))
    finally:
        if not over(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 128 + number
    (folder / "hold").unlink()
    return err


SAID = "whymask: interrupted. {} of 4 images have a complete result: run the same command again to continue.\n"


@pytest.mark.parametrize(("where", "number"), [("start", signal.SIGINT), ("load", signal.SIGTERM)])
def test_processes_that_have_only_begun_end_too(folder, where, number):
    assert interrupted(folder, where, number) == SAID.format(0)
    assert results(folder) == {}


def test_an_interrupt_leaves_whole_results_and_the_next_command_goes_on(folder):
    assert interrupted(folder, "write", signal.SIGINT) == SAID.format(2)
    before = results(folder)
    assert sorted(name.partition(".")[2] for name in before) == ["npz", "npz", "png", "png"]
    again = begun(folder)
    out, err = again.communicate(timeout=120)
    assert (again.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "2 explained, 2 explained before. Index: out/index.html"
    assert results(folder).items() >= before.items()
    assert len(results(folder)) == 9
