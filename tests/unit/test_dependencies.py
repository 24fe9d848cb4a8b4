"""The locked packages are those that pyproject.toml allows."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement

from tests.unit.source_files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = dict(
    line.lower().replace("_", "-").replace("cloudcoil.models.", "cloudcoil-models-").split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
)


def test_every_dependency_is_locked_to_an_allowed_version():
    wanted = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    requirements = [Requirement(each) for each in wanted if not each.startswith("kafka-mirror")]
    wrong = [
        f"{each}: {LOCKED.get(each.name)}"
        for each in requirements
        if not each.specifier.contains(LOCKED.get(each.name.lower(), "0"))
    ]
    assert wrong == []


def test_a_dependency_of_users_is_a_range():
    """Exact versions of a library collide with those of other packages in the same environment."""
    exact = [each for each in PROJECT["dependencies"] if "==" in each]
    assert exact == []
