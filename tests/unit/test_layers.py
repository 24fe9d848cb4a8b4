"""Who may import whom: the packages of docs/architecture.md, from the top layer to the ground."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.source_files import PACKAGES, ROOT, files, imported

# A package may import packages of lower layers, and none of its own.
LAYERS = (
    ("cli",),
    ("commands",),
    ("appliance", "app"),
    ("switching",),
    ("verification",),
    ("spark",),
    ("lag",),
    ("checkpoints",),
    ("replication", "flows"),
    ("handover",),
    ("kafka",),
    ("embedded", "config", "dashboards"),
    ("model", "runtime"),
    ("metrics", "policy"),
    ("errors", "version"),
)
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
LOOSE_FILES = {"__init__.py", "appliance.py", "cli.py", "errors.py"}
OF_EMBEDDED = {"commands", "embedded"}  # production code needs no embedded clusters


def package_of(module: str) -> str:
    """Return the package of a module; of `mirror` itself only the version is of interest."""
    package, _, rest = module.partition(".")
    if package != "mirror":
        return package
    return rest.partition(".")[0] or "version"


def package_at(path: Path) -> str:
    return package_of(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))


def test_every_package_has_a_layer():
    assert {package_at(path) for path in files()} == set(LAYER)
    assert {path.name for path in (ROOT / "mirror").glob("*.py")} == LOOSE_FILES


@pytest.mark.parametrize("package", LAYER)
def test_packages_import_lower_layers_only(package):
    for path in files():
        if package_at(path) == package:
            for module in imported(path):
                other = package_of(module)
                if module.partition(".")[0] in PACKAGES and other != package:
                    assert LAYER[other] > LAYER[package], f"{path.relative_to(ROOT)} imports {module}"


def test_production_code_does_not_import_the_embedded_clusters():
    assert {
        package_at(path) for path in files() if any(package_of(each) == "embedded" for each in imported(path))
    } <= OF_EMBEDDED


def test_few_modules_know_the_clients():
    """A new version of kio, Spark or confluent-kafka is a matter of few files."""
    users = {
        client: {
            str(path.relative_to(ROOT / "mirror") if path.is_relative_to(ROOT / "mirror") else path.relative_to(ROOT))
            for path in files()
            if any(name.partition(".")[0] == client for name in imported(path))
        }
        for client in ("kio", "pyspark", "confluent_kafka")
    }
    assert {name for name in users["kio"] if not name.startswith("kafka/")} == set()
    outside = {name for name in users["pyspark"] if not name.startswith("spark/")}
    assert outside == {"metrics/listener.py"}
    production = {name for name in users["confluent_kafka"] if not name.startswith("embedded/")}
    assert production == {
        "handover/membership.py",
        "kafka/clients.py",
        "kafka/control_plane.py",
        "kafka/group_reader.py",
    }
