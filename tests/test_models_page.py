"""The code of docs/models.md runs, block after block."""

import re
import shutil
from pathlib import Path

from skimage.data import data_dir

PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text()


def test_its_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(f"{data_dir}/rocket.jpg", "photo.jpg")  # 427 x 640
    space = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, space)
    printed = capsys.readouterr().out
    assert "(427, 640)\n(427, 640) (427, 640) [427, 640]\ncat " in printed
    assert printed.endswith("torch.Size([2, 3, 48, 64])\n")
