"""A flow goes from version 0.1 to this one and back under load, and both versions share a flow. Nothing is lost or repeated."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fork_server import ROOT
from tests.integration.appliance import RunningAppliance
from tests.integration.records import commit, create, differences, end_offset, load
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.nightly]

OLD = "6ca80ca328f9"  # the state of 0.1
PACKAGES = ("mirror", "metrics", "dashboards", "app")
PARTITIONS = 4
EXTRA = "mirror.slots = 2\ntasks.max = 4\nemit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 2\n"
ONCE = "backup.exactly.once.source.support = enabled\n"
modes = pytest.mark.parametrize("mode", ["", ONCE], ids=["at least once", "exactly once"])


@pytest.fixture(scope="module")
def old_code(tmp_path_factory) -> Path:
    """A folder with the packages of version 0.1, from the history of the clone."""
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(["git", "archive", OLD, *PACKAGES], cwd=ROOT, capture_output=True)
    assert archive.returncode == 0, f"the clone must have the commit {OLD}: git fetch --unshallow"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
def start(primary, backup, topic, tmp_path, old_code) -> Iterator[Callable[..., RunningAppliance]]:
    """Starts processes of the flow, of the old version or of this one; all are stopped at the end."""
    create(primary, topic, PARTITIONS)
    with ExitStack() as stack:

        def process(name: str, *, is_old: bool, mode: str) -> RunningAppliance:
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            made = RunningAppliance(
                folder, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=EXTRA + mode
            )
            made.environment["PYTHONPATH"] = str(old_code if is_old else ROOT)
            return stack.enter_context(made)

        yield process


def grows(backup, topic: str, *, within_s: float = 90) -> None:
    """Wait until each partition has a hundred records more on the target."""
    before = [end_offset(backup, f"primary.{topic}", number) for number in range(PARTITIONS)]
    eventually(
        lambda: all(end_offset(backup, f"primary.{topic}", n) > at + 100 for n, at in enumerate(before)),
        within_s=within_s,
        because="each partition is replicated",
    )


def folder_of(process: RunningAppliance) -> Path:
    """Return the folder of the code that a process runs."""
    found = subprocess.run(
        [sys.executable, "-c", "import mirror; print(mirror.__file__)"],
        cwd=process.file.parent,
        env=process.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip()).parents[1]


@modes
def test_a_flow_goes_to_this_version_and_back(start, primary, backup, topic, old_code, mode):
    with load(primary, topic, partitions=PARTITIONS):
        for turn, is_old in enumerate((True, False, True)):
            process = start("one", is_old=is_old, mode=mode)
            assert folder_of(process) == (old_code if is_old else ROOT)
            grows(backup, topic)
            if turn == 0:
                commit(primary, f"readers-{topic}", topic, 50)
            code, _ = process.stop()
            assert code == 0, process.log.read_text()[-3000:]
    process = start("one", is_old=False, mode=mode)
    eventually(lambda: not differences(primary, backup, topic, f"primary.{topic}"), 60, "both logs are equal")
    gaps = eventually(lambda: process.served("gaps"), 30, "the ledger is read")  # until then there are no samples
    assert not any(gaps)
    translated = {"group": f"readers-{topic}", "state": "translated"}
    eventually(lambda: process.served("group_partitions", **translated) == [1.0], 30, "the group is translated")


@modes
def test_two_versions_share_a_flow(start, primary, backup, topic, mode):
    with load(primary, topic, partitions=PARTITIONS):
        old = start("old", is_old=True, mode=mode)
        eventually(lambda: old.slots() == 2, 40, "a single process serves all slots")
        new = start("new", is_old=False, mode=mode)
        eventually(lambda: old.slots() == new.slots() == 1, 60, "the slots are shared")
        grows(backup, topic)
        assert new.gauge("kafka_mirror_settings_conflict") == 0
        assert "another process runs version 0.1, this one" in new.log.read_text()
        old.kill_all()
        eventually(lambda: new.slots() == 2, 60, "this version takes over")
        grows(backup, topic)
        old.start()
        eventually(lambda: old.slots() == new.slots() == 1, 60, "the slots are shared again")
        assert new.stop()[0] == 0
        grows(backup, topic)
    eventually(lambda: not differences(primary, backup, topic, f"primary.{topic}"), 60, "both logs are equal")
