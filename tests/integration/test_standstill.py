"""Topic-partitions that take no writes, or cannot be read, rest alone: everything else of their slot and flow goes on."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.embedded.broker import Broker
from mirror.errors import ClusterUnavailable
from mirror.kafka.cluster import Cluster
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, commit, create, differences, end_offset, load, rows, write
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]

MODES = {"at least once": "", "exactly once": "backup.exactly.once.source.support = enabled\n"}
FLOWING = 2000  # records of the other topic, which gets 100 a second: of more time than a window that never ends is waited for
# In how long they are there. The cluster sees after 4 s that a broker is gone, and then the transactions under way must be
# decided. A leader waits for the marker of one that was just being ended when the broker died for its request.timeout.ms.
WITHIN_S = {"at least once": 32.0, "exactly once": 40.0}
MARKERS_WAIT = {"request.timeout.ms": "10000"}


def place(cluster: Broker, topic: str, replicas: list[int], **config: str) -> None:
    """Create a topic of one partition on some brokers; config keys with `_` for `.`."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(
        topic,
        num_partitions=1,
        replica_assignment=[replicas],
        config={k.replace("_", "."): v for k, v in config.items()},
    )
    admin.create_topics([new])[topic].result(30)


def offsets(cluster: Broker, group: str) -> dict[str, int]:
    """Return where a group stands on the target, by the source's topic."""
    try:
        found = Cluster("target", {"bootstrap.servers": cluster.bootstrap}).group(group)
    except ClusterUnavailable as error:  # a broker that has just died is still listed for some seconds
        raise AssertionError(str(error)) from error
    return {topic.removeprefix("primary."): at for (topic, _), at in found.offsets.items()} if found is not None else {}


@pytest.mark.parametrize("mode", MODES)
def test_a_partition_without_writes_delays_no_other_of_its_slot(tmp_path: Path, primary, topic, mode):
    """Of a target of two brokers one dies: it has the only replica of one topic, and one of the two that another demands."""
    leaderless, short, well = (f"{topic}-{name}" for name in ("leaderless", "short", "well"))
    with Broker.start("one", tmp_path / "one", overrides=MARKERS_WAIT) as one:
        create(primary, well)
        folder = tmp_path / "mirror"
        folder.mkdir()
        appliance = RunningAppliance(
            folder,
            primary=primary.bootstrap,
            backup=one.bootstrap,
            topics=f"{topic}-.*",
            extra=MODES[mode] + "tasks.max = 1\n",
        )
        appliance.file.write_text(appliance.file.read_text().replace("tasks.max = 2\n", ""))
        place(one, f"primary.{well}", [1])
        write(primary, well, rows(10))
        with appliance:  # so that everything internal lies on the broker that stays
            await_replicated(appliance, primary, well, f"primary.{well}")
        with Broker.start("two", tmp_path / "two", joins=one) as two, ExitStack() as running:
            place(one, f"primary.{leaderless}", [2])
            place(one, f"primary.{short}", [1, 2], min_insync_replicas="2")
            for name in (leaderless, short):
                create(primary, name)
                write(primary, name, rows(10))
            running.enter_context(appliance)
            for name in (leaderless, short):
                await_replicated(appliance, primary, name, f"primary.{name}")
            with load(primary, leaderless, partitions=1, rate=100), load(primary, short, partitions=1, rate=100):
                with load(primary, well, partitions=1, rate=100):
                    eventually(
                        lambda: end_offset(one, f"primary.{well}", 0) > 100, within_s=60, because="the load flows"
                    )
                    two.kill()
                    begin = end_offset(one, f"primary.{well}", 0)
                    eventually(
                        lambda: end_offset(one, f"primary.{well}", 0, read_committed=True) > begin + FLOWING,
                        within_s=WITHIN_S[mode],
                        because="the other topic's records flow though the broker stays away",
                    )
                log = appliance.log.read_text()
                assert "partitions paused" in log
                two.restart()
                for name in (leaderless, short):
                    eventually(
                        lambda name=name: end_offset(one, f"primary.{name}", 0, read_committed=True) > 1000,
                        within_s=90,
                        because=f"what stood still goes on by itself: {name}",
                    )
            for name in (leaderless, short, well):
                await_replicated(appliance, primary, name, f"primary.{name}")
                assert differences(primary, one, name, f"primary.{name}") == []


def test_groups_of_partitions_with_leaders_are_moved_while_others_have_none(tmp_path: Path, primary, topic):
    """One topic-partition of a group has no leader on the target: its others are moved all the same."""
    well, stuck, group = f"{topic}-well", f"{topic}-stuck", f"group-{topic}"
    for name in (well, stuck):
        create(primary, name)
        write(primary, name, rows(20))
    with Broker.start("one", tmp_path / "one") as one:
        folder = tmp_path / "mirror"
        folder.mkdir()
        place(one, f"primary.{well}", [1])
        extra = (
            "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 1\nsync.group.offsets.enabled = true\n"
            f"sync.group.offsets.interval.seconds = 1\ngroups = {group}\n"
        )
        given = {"primary": primary.bootstrap, "backup": one.bootstrap, "topics": f"{topic}-.*", "extra": extra}
        with RunningAppliance(
            folder, **{**given, "topics": well}
        ) as first:  # so that everything internal lies on this broker
            await_replicated(first, primary, well, f"primary.{well}")
        with ExitStack() as stack:
            two = stack.enter_context(Broker.start("two", tmp_path / "two", joins=one))
            place(one, f"primary.{stuck}", [2])
            appliance = stack.enter_context(RunningAppliance(folder, **given))
            for name, offset in ((well, 10), (stuck, 10)):
                commit(primary, group, name, offset)
            await_replicated(appliance, primary, stuck, f"primary.{stuck}")
            eventually(lambda: offsets(one, group) == {well: 10, stuck: 10}, within_s=60, because="the group is moved")
            two.kill()
            for name in (well, stuck):
                commit(primary, group, name, 15)
            eventually(
                lambda: offsets(one, group).get(well) == 15,
                within_s=60,
                because="its other topic-partition is moved all the same",
            )
            assert offsets(one, group)[stuck] == 10
            eventually(
                lambda: 'state="unreachable"' in appliance.exposition(),
                within_s=30,
                because="and the log says why that one is not",
            )
            two.restart()
            eventually(lambda: offsets(one, group) == {well: 15, stuck: 15}, within_s=90, because="the rest follows")
