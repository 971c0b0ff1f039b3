import os
import signal
import stat
import subprocess
import sys
import time

from whymask.utils.files import ABANDONED, atomic

WRITER = """
import sys
from pathlib import Path

from whymask.utils.files import atomic

with atomic(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_only_what_killed_writers_left_is_removed(tmp_path):
    """By its age: no lock and no process id is needed, which would not hold between hosts that share a folder."""
    arguments = [sys.executable, "-c", WRITER, str(tmp_path / "killed.npz")]
    with subprocess.Popen(arguments, stdin=-1, stdout=-1, text=True) as killed:
        assert killed.stdout.readline() == "writing\n"
        killed.send_signal(signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".part"
    foreign = [tmp_path / name for name in (".download.part", ".0123456789abcdef.part", "x.0123456789abcdef.part")]
    fresh = tmp_path / ".other.npz.0123456789abcdef.part"  # of a writer that may still be at work
    for file in (*foreign, fresh):
        file.touch()
    for file in (left, *foreign):
        os.utime(file, (0, time.time() - ABANDONED - 60))
    with atomic(tmp_path / "quick.npz") as file:
        file.write(b"whole")
    assert {*tmp_path.iterdir()} == {tmp_path / "quick.npz", fresh, *foreign}


def test_a_private_file_is_never_readable_by_others(tmp_path):
    with atomic(tmp_path / "private.npz", mode=0o600) as file:
        (part,) = tmp_path.iterdir()
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        file.write(b"whole")
    assert stat.S_IMODE((tmp_path / "private.npz").stat().st_mode) == 0o600


def test_data_is_on_disk_before_the_file_has_its_name_and_the_name_after(tmp_path, monkeypatch):
    path, synced, sync = tmp_path / "x.npz", [], os.fsync

    def record(descriptor):
        sync(descriptor)
        status = os.fstat(descriptor)
        synced.append((status.st_ino, status.st_size if status.st_ino != folder else None, path.exists()))

    folder = tmp_path.stat().st_ino
    monkeypatch.setattr(os, "fsync", record)
    with atomic(path) as file:
        file.write(b"whole")
    assert synced == [(path.stat().st_ino, 5, False), (folder, None, True)]
