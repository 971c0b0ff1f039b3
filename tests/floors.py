"""Prints what `whymask[dev]` asks for, each at the lowest version it allows: for `make test-floors`."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
others = ("clip", "paper", "peers")
extras = {name: extra for name, extra in project["optional-dependencies"].items() if name not in others}
lines = [*project["dependencies"], *(line for extra in extras.values() for line in extra)]
lowest = {re.split("[>=[]", line)[0]: line.replace(">=", "==") for line in lines}  # an extra may ask for more
print(*(line for name, line in lowest.items() if name != "whymask"), sep="\n")
