import os
import signal
import subprocess
import sys

from whymask.files import atomic

WRITER = """
import sys
from pathlib import Path

from whymask.files import atomic

with atomic(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


def writer(path):
    """A process in the middle of writing a file; a line on its input lets it finish."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdin=-1, stdout=-1, text=True)
    assert process.stdout.readline() == "writing\n"
    return process


def test_only_what_killed_writers_left_is_removed(tmp_path):
    foreign = [tmp_path / name for name in (".download.part", ".0123456789abcdef.part", "x.0123456789abcdef.part")]
    for file in foreign:
        file.touch()
    with writer(tmp_path / "killed.npz") as killed:
        killed.send_signal(signal.SIGKILL)
    (left,) = set(tmp_path.iterdir()) - {*foreign}
    assert left.suffix == ".part"
    with writer(tmp_path / "slow.npz") as slow:
        assert not left.exists()
        with atomic(tmp_path / "quick.npz") as file:
            file.write(b"whole")
        slow.communicate("\n")
    assert slow.returncode == 0
    assert {file.name for file in tmp_path.iterdir()} == {"quick.npz", "slow.npz", *(file.name for file in foreign)}
    assert (tmp_path / "slow.npz").read_bytes() == b"half"


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
