"""Who may import whom: the arrows of docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("app", "dashboards", "metrics", "mirror")
ALLOWED = {
    "app": {"app", "mirror", "metrics"},
    "mirror": {"mirror", "metrics"},
    "dashboards": {"dashboards", "metrics"},
    "metrics": {"metrics"},
}


def imported(path: Path) -> set[str]:
    """Return the dotted names of all modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("package", OURS)
def test_packages_import_downwards_only(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        ours = {name.partition(".")[0] for name in imported(path)} & set(OURS)
        everything = set(OURS) if path == ROOT / "mirror" / "cli.py" else set()  # the rim, which offers all of it
        assert ours <= ALLOWED[package] | everything, path


def test_the_clients_have_one_door_each():
    """aiokafka and Spark are known to few modules, so that a new version of one is a matter of few files."""
    users = {
        client: {
            str(path.relative_to(ROOT))
            for package in OURS
            for path in (ROOT / package).rglob("*.py")
            if any(name.partition(".")[0] == client for name in imported(path))
        }
        for client in ("aiokafka", "pyspark")
    }
    replication = (
        f"mirror/replication/{name}.py"
        for name in (
            "batches",
            "group_offsets",
            "guarded",
            "log_reader",
            "offset_fetch",
            "producer",
            "refusals",
            "runner",
            "spread",
            "tail_match",
            "transactional_producer",
            "wire",
        )
    )
    # aiokafka takes tokens from a class derived from its own only
    other = ("mirror/groups.py", "mirror/checkpoints/reads.py", "mirror/config/oauth.py")
    assert users["aiokafka"] <= {*replication, *other}
    assert users["pyspark"] <= {
        *(f"mirror/replication/{name}.py" for name in ("class_archive", "datasource", "stream", "worker_daemon")),
        "metrics/listener.py",
        "mirror/checkpoints/source.py",
        "mirror/local/jars.py",
    }
