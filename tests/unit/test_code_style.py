"""What CONTRIBUTING.md says of style and no linter checks."""

from __future__ import annotations

import ast

from tests.unit.source_files import ROOT, files, nodes

MOST_LINES = 60  # of a function; a row of panels of a board is data, and may have more
MOST_LINES_OF_A_CLASS = 300
EXEMPTION = "# fmt" + ":"


def test_the_formatter_lays_out_all_code():
    everything = [*files(), *sorted((ROOT / "tests").rglob("*.py"))]
    assert [str(path.relative_to(ROOT)) for path in everything if EXEMPTION in path.read_text()] == []


def test_a_function_fits_a_screen():
    long = []
    for path in files():
        if path.parent == ROOT / "dashboards" / "boards":
            continue
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno >= MOST_LINES:
                    long.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert long == []


def test_a_class_fits_some_screens():
    large = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in files()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_CLASS
    ]
    assert large == []
