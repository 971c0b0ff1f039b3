"""README's Python examples and the notebooks, with the whymask that is installed and from an empty folder.

Run: build/wheel/bin/python scripts/installed.py
"""

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from skimage.data import data_dir

import whymask

ROOT = Path(__file__).resolve().parents[1]


def examples() -> dict[str, str]:
    """The code of each, by its name."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    found = {f"README, example {number}": code for number, code in enumerate(blocks, start=1)}
    for file in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        found[file.name] = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return found


def main() -> None:
    """Run all; the first that fails ends it."""
    if Path(whymask.__file__).is_relative_to(ROOT / "src"):
        raise SystemExit("this is the source tree: install the wheel, and run this with its Python.")
    Image.Image.show = lambda *_, **__: None  # there may be no viewer
    for name, code in examples().items():
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            Image.open(f"{data_dir}/camera.png").convert("RGB").save("photo.jpg")
            print(f"== {name}", flush=True)
            exec(code, {})


if __name__ == "__main__":
    main()
