"""The wheel works without the checkout, and the oldest packages that it allows pass the unit tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from mirror import __version__

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("packaging")]

ROOT = Path(__file__).resolve().parents[2]
DEMO_S = 20
NOT_INHERITED = ("PYTHONPATH", "VIRTUAL_ENV")


def run(*command: object, folder: Path) -> str:
    """Run a command without the checkout on Python's path; return its output."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory) -> Path:
    """The programs of an environment with what builds and installs packages."""
    folder = tmp_path_factory.mktemp("tools")
    run(sys.executable, "-m", "venv", folder, folder=folder)
    run(folder / "bin" / "pip", "install", "-q", "build", "uv", folder=folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of the files that git has or would add."""
    folder = tmp_path_factory.mktemp("sources")
    for name in run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=ROOT).split("\0")[
        :-1
    ]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def built(tools, sources, tmp_path_factory) -> Path:
    """The folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("built")
    run(tools / "python", "-m", "build", "--outdir", folder, sources, folder=folder)
    return folder


@pytest.fixture(scope="module")
def installed(built, sources, tmp_path_factory) -> Path:
    """The programs of an environment with the wheel, and no checkout near."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder, folder=folder)
    (wheel,) = built.glob("*.whl")
    run(folder / "bin" / "pip", "install", "-q", "-c", sources / "constraints.txt", wheel, folder=folder)
    return folder / "bin"


def test_wheel_and_sdist_have_the_version_and_no_tests(built):
    assert sorted(path.name for path in built.iterdir()) == [
        f"kafka_mirror-{__version__}-py3-none-any.whl",
        f"kafka_mirror-{__version__}.tar.gz",
    ]
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        *("app", "dashboards", "metrics", "mirror"),
        f"kafka_mirror-{__version__}.dist-info",
    }


def test_the_installed_wheel_runs_without_the_checkout(installed, tmp_path):
    program = installed / "kafka-mirror"
    assert run(program, "--version", folder=tmp_path) == f"kafka-mirror {__version__}\n"
    assert "--listen HOST:PORT" in run(program, "app", "--help", folder=tmp_path)
    written = run(program, "dashboards", "build", "--out", tmp_path / "boards", folder=tmp_path).splitlines()
    assert [name for name in written if not Path(name).is_file()] == []
    run(program, "dashboards", "check", "--out", tmp_path / "boards", folder=tmp_path)
    assert "EQUAL: " in run(program, "demo", "--seconds", DEMO_S, folder=tmp_path)


def test_dashboards_without_a_clone_and_a_folder_name_the_option(installed, tmp_path):
    done = subprocess.run(
        [installed / "kafka-mirror", "dashboards", "build"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, "--out" in done.stderr) == (2, True)


@pytest.mark.parametrize("extra", ["kerberos", "msk"])
def test_an_extra_installs_and_imports(installed, built, sources, tmp_path, extra):
    if extra == "kerberos" and shutil.which("krb5-config") is None:
        pytest.skip("krb5-config is not installed")
    (wheel,) = built.glob("*.whl")
    wanted = f"{wheel}[{extra}]"
    run(installed / "pip", "install", "-q", "-c", sources / "constraints.txt", wanted, folder=tmp_path)
    module = {"kerberos": "gssapi", "msk": "aws_msk_iam_sasl_signer"}[extra]
    run(installed / "python", "-c", f"import {module}", folder=tmp_path)


def test_the_oldest_allowed_packages_pass_the_unit_tests(tools, sources, tmp_path):
    folder = tmp_path / "oldest"
    run(sys.executable, "-m", "venv", folder, folder=tmp_path)
    options = ("--python", folder / "bin" / "python", "--resolution", "lowest-direct")
    run(tools / "uv", "pip", "install", "-q", *options, "-e", f"{sources}[dev]", folder=tmp_path)
    wanted = tomllib.loads((sources / "pyproject.toml").read_text())["project"]["dependencies"]
    found = run(folder / "bin" / "pip", "freeze", folder=tmp_path)
    assert "pyarrow==22.0.0" in found, f"not the oldest of {wanted}: {found}"
    python = folder / "bin" / "python"
    run(python, "-m", "pytest", "-q", "-n", "2", "tests/unit", "--deselect", "tests/unit/test_words.py", folder=sources)
