"""Print the dependencies of pyproject.toml and of its extras that the first argument lists, for pip install -r."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = [name for name in sys.argv[1].split(",") if name]
print(*project["dependencies"], *(each for name in extras for each in project["optional-dependencies"][name]), sep="\n")
