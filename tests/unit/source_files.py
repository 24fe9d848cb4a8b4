"""Read the source files of the packages, for tests that check how the code is written. Each file is parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "dashboards", "metrics", "mirror")


@cache
def files() -> tuple[Path, ...]:
    """Return the Python files of the packages, sorted within each."""
    return tuple(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the dotted names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return frozenset(names)
