"""What CONTRIBUTING.md says of style and no linter checks."""

from __future__ import annotations

import ast

from tests.unit.source_files import ROOT, files, nodes

MOST_LINES = 60  # of a function; a row of panels of a board is data, and may have more
PARTITION = "mirror/replication/partition.py"
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


def test_only_a_partition_changes_its_state():
    """The hub of the data path is changed by its own methods, and its backlog by ReadAhead and Repacking."""
    tree = ast.parse((ROOT / PARTITION).read_text())
    parts = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in {"Partition", "PauseState", "FetchState"}
    ]
    fields = {line.target.id for part in parts for line in part.body if isinstance(line, ast.AnnAssign)}
    changed = [
        f"{path.relative_to(ROOT)}:{target.lineno}: .{target.attr}"
        for path in (ROOT / PARTITION).parent.glob("*.py")
        if path != ROOT / PARTITION
        for node in nodes(path)
        for target in targets_of(node)
        if isinstance(target, ast.Attribute) and target.attr in fields and not is_own(target)
    ]
    assert changed == []


def targets_of(node: ast.AST) -> list[ast.expr]:
    found = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return [each for target in found for each in (target.elts if isinstance(target, ast.Tuple) else [target])]


def is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"
