"""Several processes that run the same file share its slots, take over from one another, and never replicate a record twice."""

from __future__ import annotations

import contextlib
import copy
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.appliance import WINDOW_S, RunningAppliance, signal_all
from tests.integration.records import create, differences, end_offset, load
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]

PARTITIONS = 4
SLOTS = "mirror.slots = 2\ntasks.max = 4\n"
ONCE = "backup.exactly.once.source.support = enabled\n"
TAKEN_OVER_S = PATIENCE * 25.0  # a session of 6 s, the assignment, a runner that is taken for dead


@pytest.fixture
def processes(primary, backup, topic, tmp_path: Path) -> Iterator[Processes]:
    """Starts processes of one flow."""
    create(primary, topic, PARTITIONS)
    with ExitStack() as stack:
        yield Processes(stack, tmp_path, primary.bootstrap, backup.bootstrap, topic)


class Processes:
    """Processes of one flow, each with a state folder and an address of its own; all are stopped at the end."""

    def __init__(self, stack: ExitStack, folder: Path, primary: str, backup: str, topic: str) -> None:
        self._stack = stack
        self._folder = folder
        self._clusters = {"primary": primary, "backup": backup}
        self._topic = topic
        self._count = 0

    def one_more(self, extra: str = "", *, copies: RunningAppliance | None = None) -> RunningAppliance:
        """Start a process, with a copy of the state folder of another one if that is given."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        if copies is not None:
            shutil.copytree(copies.file.parent / "state", folder / "state")
        running = RunningAppliance(folder, **self._clusters, topics=self._topic, extra=SLOTS + extra)
        return self._stack.enter_context(running)


def measured(appliance: RunningAppliance) -> set[str]:
    """The topic-partitions whose lag this process tells."""
    found = re.findall(r'^kafka_mirror_lag_records{.*partition="(\d+)".*} ', appliance.exposition(), re.MULTILINE)
    return set(found)


def arrived(backup, topic: str) -> list[int]:
    return [end_offset(backup, f"primary.{topic}", partition) for partition in range(PARTITIONS)]


def flow(backup, topic: str, *, within_s: float = 60) -> float:
    """Wait until every topic-partition has got a hundred records more; return the seconds that it took."""
    began, before = time.monotonic(), arrived(backup, topic)
    eventually(
        lambda: all(now > then + 100 for now, then in zip(arrived(backup, topic), before, strict=True)),
        within_s=within_s,
        because="every topic-partition is replicated",
    )
    return time.monotonic() - began


def equal(primary, backup, topic: str) -> None:
    """Wait until both logs are the same; what differs for good is shown."""
    found = [""]

    def is_equal() -> bool:
        found[:] = differences(primary, backup, topic, f"primary.{topic}")
        return not found

    with contextlib.suppress(AssertionError):
        eventually(is_equal, within_s=30, because="everything has arrived")
    assert found == []


def shared(first: RunningAppliance, second: RunningAppliance) -> None:
    eventually(lambda: first.slots() == second.slots() == 1, within_s=40, because="the slots are shared")


@pytest.mark.nightly
def test_a_process_with_a_copy_of_the_state_folder_shares_the_slots(processes, primary, backup, topic):
    """As after a machine was cloned. Each of both is to serve its slots, and to take none from the other each second."""
    first = processes.one_more()
    with load(primary, topic, partitions=PARTITIONS):
        eventually(lambda: first.slots() == 2, within_s=30, because="who is alone serves all slots")
        second = processes.one_more(copies=first)
        shared(first, second)
        flow(backup, topic)
        flow(backup, topic)
        turns = [len(re.findall("serves slots", one.log.read_text())) for one in (first, second)]
    equal(primary, backup, topic)
    assert all(turn <= 3 for turn in turns), turns


def test_two_processes_share_the_slots_and_one_continues_if_the_other_stops(processes, primary, backup, topic):
    first = processes.one_more()
    with load(primary, topic, partitions=PARTITIONS):
        eventually(lambda: first.slots() == 2, within_s=30, because="who is alone serves all slots")
        flow(backup, topic)
        second = processes.one_more()
        shared(first, second)
        flow(backup, topic)
        eventually(
            lambda: (
                measured(first) | measured(second) == {"0", "1", "2", "3"} and not measured(first) & measured(second)
            ),
            within_s=30,
            because="each topic-partition is measured by the process that replicates it",
        )
        assert first.gauge("kafka_mirror_processes") == 2
        assert first.gauge("kafka_mirror_settings_conflict") == 0
        code, _ = first.stop()
        assert code == 0
        took_s = flow(backup, topic)
        assert took_s < TAKEN_OVER_S
        assert second.slots() == 2
    equal(primary, backup, topic)


@pytest.mark.parametrize(
    "mode",
    [pytest.param("", id="at least once", marks=pytest.mark.spark), pytest.param(ONCE, id="exactly once")],
)
def test_the_slots_of_a_process_that_was_killed_are_taken_over(processes, primary, backup, topic, mode):
    first, second = processes.one_more(mode), processes.one_more(mode)
    shared(first, second)
    with load(primary, topic, partitions=PARTITIONS):
        flow(backup, topic)
        first.kill_all()
        assert flow(backup, topic) < TAKEN_OVER_S
        first.start()
        shared(first, second)
        flow(backup, topic)
    equal(primary, backup, topic)


@pytest.mark.nightly
@pytest.mark.parametrize("hangs", ["workers", pytest.param("jvm", marks=pytest.mark.spark)])
@pytest.mark.parametrize("mode", ["", ONCE])
def test_the_slots_of_a_process_whose_windows_hang_are_taken_over(processes, primary, backup, topic, mode, hangs):
    first, second = processes.one_more(mode), processes.one_more(mode)
    shared(first, second)
    with load(primary, topic, partitions=PARTITIONS):
        flow(backup, topic)
        frozen = first.workers() if hangs == "workers" else [first.jvm()]
        signal_all(frozen, signal.SIGSTOP)
        try:
            eventually(
                lambda: second.slots() == 2, within_s=120, because="the driver leaves the slots to the other one"
            )
            flow(backup, topic)
        finally:
            signal_all(frozen, signal.SIGCONT)
        shared(first, second)
        flow(backup, topic)
    equal(primary, backup, topic)


@pytest.mark.parametrize("mode", ["", ONCE])
def test_a_suspended_process_writes_no_visible_record_after_a_takeover(processes, primary, backup, topic, mode):
    first, second = processes.one_more(mode), processes.one_more(mode)
    shared(first, second)
    with load(primary, topic, partitions=PARTITIONS):
        flow(backup, topic)
        with first.frozen():
            flow(backup, topic)
        shared(first, second)
        flow(backup, topic)
    equal(primary, backup, topic)


def test_a_process_that_wakes_up_rewinds_no_position(processes, primary, backup, topic):
    """Nothing is under way any more then: old positions would stand, and all since them would come again."""
    first, second = processes.one_more(), processes.one_more()
    shared(first, second)
    with ExitStack() as asleep:
        with load(primary, topic, partitions=PARTITIONS):
            flow(backup, topic)
            asleep.enter_context(first.frozen())
            flow(backup, topic)
        equal(primary, backup, topic)
    shared(first, second)
    time.sleep(2 * WINDOW_S)  # those that begin now read the positions
    with load(primary, topic, partitions=PARTITIONS):
        flow(backup, topic)
    equal(primary, backup, topic)


@pytest.mark.nightly
def test_a_rolling_restart_with_a_new_layout_waits_for_the_last_old_process(processes, primary, backup, topic):
    first, second = processes.one_more(), processes.one_more()
    shared(first, second)
    with load(primary, topic, partitions=PARTITIONS):
        for process in (first, second):
            process.stop()
            process.file.write_text(process.file.read_text().replace("tasks.max = 4", "tasks.max = 3"))
            process.start()
            if process is first:
                eventually(
                    lambda: first.gauge("kafka_mirror_settings_conflict") == 1,
                    within_s=30,
                    because="the settings differ as long as the restart rolls",
                )
                assert first.slots() == 0
            flow(backup, topic)
        shared(first, second)
        assert first.gauge("kafka_mirror_settings_conflict") == 0
    equal(primary, backup, topic)
    assert "waiting for processes that run it with mirror.slots=2, tasks.max=4" in first.log.read_text()


@pytest.mark.nightly
def test_exactly_once_is_turned_on_and_off_by_rolling_restarts_under_load(processes, primary, backup, topic):
    """As Kafka's documentation has it: `preparing` everywhere, then `enabled`. Meanwhile the processes' settings race."""
    support = "backup.exactly.once.source.support = "
    first, second = processes.one_more(f"{support}preparing\n"), processes.one_more(f"{support}preparing\n")
    shared(first, second)
    with load(primary, topic, partitions=PARTITIONS):
        flow(backup, topic)
        for before, after in pairwise(("preparing", "enabled", "disabled")):
            for process in (first, second):
                process.stop()
                process.file.write_text(process.file.read_text().replace(support + before, support + after))
                process.start()
                shared(first, second)
                if process is first:
                    eventually(
                        lambda: second.gauge("kafka_mirror_settings_conflict") == 1,
                        within_s=30,
                        because="the one that is not started again yet sees other settings than its own",
                    )
                flow(backup, topic)
    equal(primary, backup, topic)
    assert "another process runs it with other settings" in second.log.read_text()


@pytest.mark.spark
def test_processes_with_one_file_choose_free_state_folders_and_ports(tmp_path, primary, backup, topic):
    """The same file, the same folder, nothing said of either: the second one takes what is free, and says so in a line each."""
    create(primary, topic, PARTITIONS)
    first = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=SLOTS)
    lines = first.file.read_text().splitlines()
    first.file.write_text(
        "\n".join(one for one in lines if not one.startswith(("mirror.metrics.listen", "mirror.state.dir")))
    )
    second = copy.copy(first)
    second.log = tmp_path / "second.log"
    with ExitStack() as stack:
        for process in (first, second):
            process.launch()
            stack.callback(process.close)
            found = eventually(
                lambda process=process: re.search(r"metrics on http://127.0.0.1:(\d+)/", process.log.read_text()),
                within_s=90,
                because="it says where its metrics are",
            )
            process.port = int(found[1])
        shared(first, second)
        assert second.port > first.port >= 9404
        logged = second.log.read_text()
        assert "mirror.state.dir: state belongs to a running mirror; this one keeps its state in state-2" in logged
        assert f"is taken; metrics are on port {second.port}" in logged
