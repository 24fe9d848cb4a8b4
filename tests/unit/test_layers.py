"""Who may import whom: the rooms of docs/architecture.md, from the top floor to the ground."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.source_files import PACKAGES, ROOT, files, imported

# A room may import rooms of lower floors, and none beside it.
FLOORS = (
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
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
LOOSE_FILES = {"__init__.py", "appliance.py", "cli.py", "errors.py"}
OF_EMBEDDED = {"commands", "embedded"}  # production code needs no embedded clusters


def room_of(module: str) -> str:
    """Return the room of a module; of `mirror` itself only the version is of interest."""
    package, _, rest = module.partition(".")
    if package != "mirror":
        return package
    return rest.partition(".")[0] or "version"


def room_at(path: Path) -> str:
    return room_of(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))


def test_every_room_has_a_floor():
    assert {room_at(path) for path in files()} == set(FLOOR)
    assert {path.name for path in (ROOT / "mirror").glob("*.py")} == LOOSE_FILES


@pytest.mark.parametrize("room", FLOOR)
def test_rooms_import_downwards_only(room):
    for path in files():
        if room_at(path) == room:
            for module in imported(path):
                other = room_of(module)
                if module.partition(".")[0] in PACKAGES and other != room:
                    assert FLOOR[other] > FLOOR[room], f"{path.relative_to(ROOT)} imports {module}"


def test_production_code_does_not_import_the_embedded_clusters():
    assert {
        room_at(path) for path in files() if any(room_of(each) == "embedded" for each in imported(path))
    } <= OF_EMBEDDED


def test_few_modules_know_the_clients():
    """A new version of kio or Spark is a matter of few files."""
    users = {
        client: {
            str(path.relative_to(ROOT / "mirror") if path.is_relative_to(ROOT / "mirror") else path.relative_to(ROOT))
            for path in files()
            if any(name.partition(".")[0] == client for name in imported(path))
        }
        for client in ("kio", "pyspark")
    }
    assert {name for name in users["kio"] if not name.startswith("kafka/")} == set()
    outside = {name for name in users["pyspark"] if not name.startswith("spark/")}
    assert outside == {"metrics/listener.py"}
