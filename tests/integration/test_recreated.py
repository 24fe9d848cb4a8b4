"""Topics that are deleted and created again under a mirror: the flow's policy decides, and nothing happens in silence."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import Broker
from mirror.kafka.cluster import Cluster
from tests.integration.appliance import WINDOW_S, RunningAppliance
from tests.integration.records import await_replicated, create, end_offset, messages, rows, write
from tests.integration.values import values
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]


def delete(cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, within_s=30, because=f"{topic} is gone")


def read(cluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in messages(cluster, topic)]


def payload(records) -> list[bytes]:
    return [record[1] for record in records]


GONE_S = 1.0  # within it there is no topic of the name; a mirror that hands over looks less often
OLD, NEW = rows(30), rows(12, start=100)
# alias of the source, side -> what the target may have in the end, when 12 more records came after the change
EXPECTED = {
    ("restart", "source"): [payload([*OLD, *NEW])],
    ("stop", "source"): [payload(OLD)],
    # The new log ends before the position, so the mirror goes on at that end: with what was written by then left out.
    ("continue", "source"): [payload(OLD), payload([*OLD, *NEW])],
    ("restart", "target"): [payload([*OLD, *NEW])],  # at least once, as for `continue`: a broker forgets its positions
    ("continue", "target"): [payload(NEW), payload([*OLD, *NEW])],
}
POLICIES = ("restart", "stop", "continue")


def flows(primary, topic: str) -> str:
    """Three flows from the same cluster under three aliases, each with its own policy and topics."""
    lines = [f"clusters = primary, backup, {', '.join(POLICIES)}", "primary->backup.enabled = false"]
    for policy in POLICIES:
        lines += [
            f"{policy}.bootstrap.servers = {primary.bootstrap}",
            f"{policy}->backup.enabled = true",
            f"{policy}->backup.topics = {topic}-{policy}-.*",
            f"{policy}->backup.mirror.recreated.topics = {policy}",
        ]
    return "\n".join(lines)


@contextmanager
def frozen_after_commits(appliance: RunningAppliance) -> Iterator[None]:
    """Freeze a mirror late in a window: all positions are committed a second after its start, and must not be again."""

    def is_late() -> bool:
        return time.time() % WINDOW_S > 0.7 * WINDOW_S

    while True:
        eventually(is_late, within_s=5, because="the window has committed all positions")
        with appliance.frozen():
            if is_late():  # else the next window began meanwhile
                yield
                return


def windows_pass(appliance: RunningAppliance, more: int) -> None:
    """Wait until every slot has served so many windows more of every flow."""
    pattern = rf'kafka_mirror_windows_total{{slot=".",source="({"|".join(POLICIES)})",target="backup"}} (\S+)'

    def fewest() -> float:
        served = re.findall(pattern, appliance.exposition())
        assert len(served) == 2 * len(POLICIES)
        return min(float(count) for _, count in served)

    before = eventually(fewest, within_s=60, because="every slot has served a window of every flow")
    eventually(lambda: fewest() >= before + more, within_s=60, because=f"{more} windows of every flow have passed")


def position(cluster, group: str, remote: str) -> list[int]:
    """Return the offset that a group has in the first partition of a remote topic, if it has one."""
    (found,) = Cluster("a", {"bootstrap.servers": cluster.bootstrap}).groups(lambda one: one == group)
    return [offset for place, offset in found.offsets.items() if place == (remote, 0)]


def treated(found: list[bytes | None], expected: list[list[bytes | None]], *, side: str) -> bool:
    """Tell whether a topic has what it may have; where the target's was deleted, repeats aside."""
    if side == "target":
        found, expected = list(dict.fromkeys(found)), [list(dict.fromkeys(one)) for one in expected]
    assert found in expected, [len(found), *(str(value)[:12] for value in found)]
    return True


def test_a_recreated_topic_is_handled_by_the_policy(tmp_path: Path, primary, backup, topic):
    names = {(policy, side): f"{topic}-{policy}-{side}" for policy in POLICIES for side in ("source", "target")}
    for name in names.values():
        create(primary, name)
        write(primary, name, OLD)
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=flows(primary, topic)
    ) as appliance:
        for (policy, _), name in names.items():
            await_replicated(appliance, primary, name, f"{policy}.{name}")
        for (policy, side), name in names.items():
            if side == "source":
                delete(primary, name)
                create(primary, name)
            else:
                delete(backup, f"{policy}.{name}")
        for (policy, side), name in names.items():
            warning = f"{name} was deleted and created again on the source"
            if side == "target":
                warning = f"{policy}.{name} was deleted on the target"
            eventually(lambda warning=warning: warning in appliance.log.read_text(), within_s=60, because=warning)  # type: ignore[misc]
        windows_pass(appliance, 2)  # the one that runs may go on into a remote topic that is created again
        for name in names.values():
            write(primary, name, NEW)
        for policy, side in EXPECTED:
            name = names[policy, side]
            eventually(
                lambda key=(policy, side), remote=f"{policy}.{name}": treated(
                    values(backup, remote, 0), EXPECTED[key], side=key[1]
                ),  # type: ignore[misc]
                within_s=60,
                because=f"{name} is treated as its flow says",
            )
        assert (
            f"stop.{names['stop', 'target']}"
            not in AdminClient({"bootstrap.servers": backup.bootstrap}).list_topics().topics
        )
        paused = names["stop", "source"]
        eventually(
            lambda: appliance.value("kafka_mirror_partition_paused", topic=f"stop.{paused}", partition=0) == 1,
            within_s=20,
            because="it is shown to rest",
        )
        kafka_mirror(*("positions", "reset", appliance.file, "stop->backup", "--topic", paused, "--force"), check=True)
        await_replicated(appliance, primary, paused, f"stop.{paused}")
        assert values(backup, f"stop.{paused}", 0) == payload([*OLD, *NEW])


def test_a_remote_topic_replaced_between_two_refreshes_is_handled_by_the_policy(tmp_path: Path, primary, backup, topic):
    """The broker forgets the positions with the topic; windows that find none do not begin again where that is not wanted."""
    names = {policy: f"{topic}-{policy}-replaced" for policy in POLICIES}
    for name in names.values():
        create(primary, name, 2)  # one partition for each slot
        write(primary, name, OLD)
    with RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra=flows(primary, topic) + "\nrefresh.topics.interval.seconds = 600",
    ) as appliance:
        for policy, name in names.items():
            await_replicated(appliance, primary, name, f"{policy}.{name}")
        windows_pass(appliance, 2)
        with frozen_after_commits(appliance):
            for policy, name in names.items():
                remote = f"{policy}.{name}"
                delete(backup, remote)
                create(backup, remote, 2)
                eventually(
                    lambda group=f"mirror.{policy}->backup", remote=remote: not position(backup, group, remote),  # type: ignore[misc]
                    within_s=30,
                    because=f"the broker forgets the positions in {remote}",
                )
        windows_pass(appliance, 3)  # without a look at the topics
        for policy in ("stop", "continue"):
            assert values(backup, f"{policy}.{names[policy]}", 0) == []
        appliance.refresh()
        for policy, name in names.items():
            warning = f"{policy}.{name} was deleted and created again on the target"
            eventually(lambda warning=warning: warning in appliance.log.read_text(), within_s=60, because=warning)  # type: ignore[misc]
        windows_pass(appliance, 2)  # of the new plan
        for name in names.values():
            write(primary, name, NEW)
        for policy, expected in {"restart": [*OLD, *NEW], "continue": NEW, "stop": []}.items():
            remote, wanted = f"{policy}.{names[policy]}", payload(expected)
            eventually(
                lambda remote=remote, wanted=wanted: values(backup, remote, 0) == wanted,  # type: ignore[misc]
                within_s=30,
                because=f"{remote} is treated as its flow says",
            )
        windows_pass(appliance, 2)
        stopped = f"stop.{names['stop']}"
        assert values(backup, stopped, 0) == []
        assert appliance.value("kafka_mirror_partition_paused", topic=stopped, partition=0) == 1


EXACTLY = """\
clusters = primary, backup, exactly
exactly.bootstrap.servers = {backup}
exactly.exactly.once.source.support = enabled
primary->exactly.enabled = true
primary->exactly.topics = {topic}-exactly-.*
refresh.topics.interval.seconds = {every_s}
"""


def test_a_recreated_topic_with_more_records_is_mirrored_once_from_its_start(tmp_path: Path, primary, backup, topic):
    """Between two looks at the topics' ids, by windows whose plan is older than the topic, at a position of the one before."""
    names = [f"{topic}-{mode}-{n}" for mode in ("least", "exactly") for n in range(3)]
    written: dict[str, list[bytes | None]] = {name: [] for name in names}
    with RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=f"{topic}-least-.*",
        extra=EXACTLY.format(backup=backup.bootstrap, topic=topic, every_s=600),
    ) as appliance:
        for turn in range(3):
            if turn:
                for name in names:
                    delete(primary, name)
                time.sleep(GONE_S)
            for name in names:
                create(primary, name)
                new = rows(20 + 10 * turn, start=1000 * turn)
                write(primary, name, new)
                written[name] += payload(new)
            if not turn:
                appliance.refresh()
            for name in names:
                eventually(
                    lambda name=name: len(read(backup, f"primary.{name}")) >= len(written[name]),  # type: ignore[misc]
                    within_s=60,
                    because=f"{name} is replicated for the {turn + 1}. time",
                )
        assert {name: read(backup, f"primary.{name}") for name in names} == written


def test_a_remote_topic_deleted_under_load_is_refilled_without_duplicates(tmp_path: Path, primary, backup, topic):
    """Some are created again by somebody else, before the mirror does it: what is on its way comes to lie in those."""
    names = [f"{topic}-{mode}-{n}" for mode in ("least", "exactly") for n in range(3)]
    written: list[bytes | None] = []
    is_over = threading.Event()

    def load() -> None:
        producer = Producer({"bootstrap.servers": primary.bootstrap, "linger.ms": 0})
        while not is_over.wait(0.02):
            written.append(b"%d" % len(written))
            for name in names:
                producer.produce(name, written[-1], partition=0)
            producer.poll(0)
        assert producer.flush(30) == 0

    for name in names:
        create(primary, name)
    loading = threading.Thread(target=load, daemon=True)
    with RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=f"{topic}-least-.*",
        extra=EXACTLY.format(backup=backup.bootstrap, topic=topic, every_s=1),
    ) as appliance:
        loading.start()
        try:
            for name in names:
                eventually(
                    lambda name=name: end_offset(backup, f"primary.{name}", 0) > 50,  # type: ignore[misc]
                    within_s=60,
                    because=f"{name} is replicated",
                )
            for number, name in enumerate(names):
                delete(backup, f"primary.{name}")
                if number % 3:
                    with contextlib.suppress(KafkaException):  # the mirror was first
                        create(backup, f"primary.{name}")
            for name in names:
                eventually(
                    lambda name=name: f"primary.{name} was deleted" in appliance.log.read_text(),  # type: ignore[misc]
                    within_s=60,
                    because=f"it is noticed that primary.{name} was deleted",
                )
        finally:
            is_over.set()
            loading.join()
        for name in names:
            eventually(
                lambda name=name: read(backup, f"primary.{name}")[-1:] == written[-1:],  # type: ignore[misc]
                within_s=60,
                because=f"{name} is replicated again",
            )
        for name in names:
            found = read(backup, f"primary.{name}")
            if "least" in name:
                found = found[len(found) - len(written) :]  # without what was on its way, which came first
            assert found == written, name


def test_a_rebuilt_target_is_logged_and_handled_by_the_policy(tmp_path: Path, primary, backup, topic):
    """What the target does not know any more, the source does: the mirror shows its positions there."""
    names = {policy: f"{topic}-{policy}-all" for policy in ("restart", "continue")}
    for name in names.values():
        create(primary, name)
        write(primary, name, OLD)
    running = RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra=flows(primary, topic).replace("stop->backup.enabled = true", "stop->backup.enabled = false"),
    )
    source = Cluster("primary", {"bootstrap.servers": primary.bootstrap})
    with running:
        for policy, name in names.items():
            await_replicated(running, primary, name, f"{policy}.{name}")
            group, place = f"mirror.{policy}->backup", (name, 0)

            def shown(group: str = group, place: tuple[str, int] = place) -> list[int | None]:
                return [found.offsets.get(place) for found in source.groups(lambda one: one == group)]

            eventually(lambda: shown() == [len(OLD)], within_s=30, because="the source shows the position")
    with Broker.start("rebuilt", tmp_path / "rebuilt") as rebuilt:
        running.file.write_text(running.file.read_text().replace(backup.bootstrap, rebuilt.bootstrap))
        with running:
            for policy, name in names.items():
                write(primary, name, NEW)
                await_replicated(running, primary, name, f"{policy}.{name}")
            assert values(rebuilt, f"restart.{names['restart']}", 0) == payload([*OLD, *NEW])
            assert values(rebuilt, f"continue.{names['continue']}", 0) == payload(NEW)
        text = running.file.read_text()
        had = f"which had replicated {names['restart']}-0 up to offset {len(OLD)} (group"
        warning = f"backup has no positions of this flow, {had}"
        assert warning in running.log.read_text()
    with Broker.start("again", tmp_path / "again") as again:
        running.file.write_text(
            text.replace(rebuilt.bootstrap, again.bootstrap).replace("topics = restart", "topics = stop")
        )
        with pytest.raises(AssertionError, match="Set its positions"):
            running.start()
        assert running.process is not None
        assert running.process.wait(60) == 2
