"""Prints what pyproject.toml asks for, each at the lowest version it allows: for `make test-floors`."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
lowest = {re.split("[>=[]", line)[0]: line.replace(">=", "==") for line in lines}  # an extra may ask for more
print(*(line for name, line in lowest.items() if name != "whymask"), sep="\n")
