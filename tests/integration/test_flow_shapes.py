"""The flow shapes of Kafka's documentation on real clusters: who gets which topic, under which name, how often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import Broker
from tests.integration.appliance import RunningAppliance
from tests.integration.records import commit, create, end_offset, messages, write
from tests.integration.test_checkpoints import stands
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker.start("third", tmp_path_factory.mktemp("third")) as broker:
        yield broker


class Mesh(RunningAppliance):
    """`kafka-mirror run` for any clusters and flows."""

    def __init__(self, folder: Path, clusters: dict[str, str], flows: list[str], topics: str, extra: str = "") -> None:
        super().__init__(folder, primary="none:1", backup="none:1", topics="none")
        common = [
            line
            for line in self.file.read_text().splitlines()
            if not line.startswith(("clusters", "primary", "backup"))
        ]
        own = [f"clusters = {', '.join(clusters)}", f"topics = {topics}"]
        own += [f"{alias}.bootstrap.servers = {servers}" for alias, servers in clusters.items()]
        own += [f"{flow}.enabled = true" for flow in flows]
        self.file.write_text("\n".join([*common, *own, extra]))


def put(cluster, topic: str, what: str, count: int = 20) -> list[bytes]:
    create(cluster, topic)
    values = [f"{what} {n}".encode() for n in range(count)]
    write(cluster, topic, [(b"k", value, (), n) for n, value in enumerate(values)])
    return values


def values(cluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in messages(cluster, topic)]


def names(cluster, topic: str) -> set[str]:
    """All topics of a cluster that a test's topic has become."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
    return {name for name in found if name.endswith(topic)}


def arrives(cluster, topic: str, count: int = 20) -> None:
    eventually(
        lambda: topic in names(cluster, topic) and end_offset(cluster, topic, 0) == count,
        within_s=60,
        because=f"{topic} arrives",
    )


def test_fan_out_aggregation_and_forwarding_over_three_hops(primary, backup, third, topic, tmp_path):
    """a feeds b and c (fan-out), c collects from a and b (aggregation), b passes on what came from a (forwarding)."""
    clusters = {"a": primary.bootstrap, "b": backup.bootstrap, "c": third.bootstrap}
    from_a, from_b = put(primary, topic, "of a"), put(backup, topic, "of b")
    with Mesh(tmp_path, clusters, ["a->b", "b->c", "a->c"], topics=rf".*{topic}") as running:
        for name in (f"a.{topic}", f"b.{topic}", f"b.a.{topic}"):
            arrives(third, name)
        arrives(backup, f"a.{topic}")
        assert running.stop()[0] == 0
    assert names(third, topic) == {f"a.{topic}", f"b.{topic}", f"b.a.{topic}"}
    assert names(backup, topic) == {topic, f"a.{topic}"}
    assert names(primary, topic) == {topic}
    assert values(third, f"b.a.{topic}") == values(third, f"a.{topic}") == values(backup, f"a.{topic}") == from_a
    assert values(third, f"b.{topic}") == from_b


def test_active_active_copies_nothing_back_and_moves_groups_both_ways(primary, backup, topic, tmp_path):
    from_a, from_b = put(primary, topic, "of a"), put(backup, topic, "of b")
    group = f"group-{topic}"
    commit(primary, group, topic, 7)
    commit(backup, group, topic, 9)
    extra = (
        "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 1\nsync.group.offsets.enabled = true\n"
        f"sync.group.offsets.interval.seconds = 1\ngroups = {group}"
    )
    with Mesh(
        tmp_path, {"a": primary.bootstrap, "b": backup.bootstrap}, ["a->b", "b->a"], rf".*{topic}", extra
    ) as running:
        arrives(backup, f"a.{topic}")
        arrives(primary, f"b.{topic}")
        eventually(lambda: stands(backup, group, f"a.{topic}") == 7, within_s=30, because="a's consumers can go to b")
        eventually(lambda: stands(primary, group, f"b.{topic}") == 9, within_s=30, because="b's consumers can go to a")
        assert running.stop()[0] == 0
    assert names(primary, topic) == {topic, f"b.{topic}"}
    assert names(backup, topic) == {topic, f"a.{topic}"}
    assert (values(backup, f"a.{topic}"), values(primary, f"b.{topic}")) == (from_a, from_b)
    assert (values(primary, topic), values(backup, topic)) == (from_a, from_b)


def test_a_group_is_not_moved_in_a_topic_with_records_of_two_sources(primary, backup, third, topic, tmp_path):
    """Under the identity policy both topics go to one. Each source's group would be moved beyond records of the other."""
    group = f"group-{topic}"
    written = {}
    for source, unread in ((primary, 2), (third, 20)):
        written[source.name] = put(source, topic, source.name)
        commit(source, group, topic, 20 - unread)
    put(primary, f"{topic}-own", "of a alone")
    commit(primary, group, f"{topic}-own", 7)
    extra = (
        "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 1\nsync.group.offsets.enabled = true\n"
        f"sync.group.offsets.interval.seconds = 1\ngroups = {group}\n"
        "replication.policy.class = IdentityReplicationPolicy"
    )
    clusters = {"a": primary.bootstrap, "b": backup.bootstrap, "c": third.bootstrap}
    create(backup, topic)
    with Mesh(tmp_path, clusters, ["c->b", "a->b"], f"{topic}.*", extra) as running:
        arrives(backup, topic, 40)
        eventually(lambda: stands(backup, group, f"{topic}-own") == 7, within_s=30, because="the other topic is moved")
        for source in ("a", "c"):
            line = f'kafka_mirror_group_partitions{{group="{group}",source="{source}",state="shared",target="b"}} 1'
            eventually(lambda line=line: line in running.exposition(), within_s=30, because="it has a status")
        # Before the other flow has a position, a first round may have moved the group. It skips no record of the other source.
        read = values(backup, topic)[: stands(backup, group, topic) or 0]
        assert set(read) <= set(written[primary.name])
    log = running.log.read_text()
    assert f"a->b: groups are not moved on {topic}-0: mirror.c->b write there too" in log
    assert f"c->b: groups are not moved on {topic}-0: mirror.a->b write there too" in log


SIX = ("west-1", "west-2", "east-1", "east-2", "north-1", "north-2")
SIX_FLOWS = [
    *("west-1->west-2", "west-2->west-1", "east-1->east-2", "east-2->east-1", "north-1->north-2", "north-2->north-1"),
    *("west-1->east-1", "west-1->north-1", "east-1->west-1", "east-1->north-1", "north-1->west-1", "north-1->east-1"),
]


@pytest.mark.nightly
def test_the_documentations_six_clusters(topic, tmp_path):
    """Three data centers with two clusters each: pairs within, a mesh of the first ones between."""
    with ExitStack() as stack:
        brokers = {alias: stack.enter_context(Broker.start(alias, tmp_path / alias, heap="160m")) for alias in SIX}
        written = {alias: put(broker, f"{topic}-{alias}", alias) for alias, broker in brokers.items()}
        create(brokers["west-1"], f"east-1.{topic}")
        servers = {alias: broker.bootstrap for alias, broker in brokers.items()}
        mesh = Mesh(tmp_path, servers, SIX_FLOWS, rf".*{topic}.*")
        the_six_are_planned(mesh.file, topic)
        running = stack.enter_context(mesh)
        for flow in SIX_FLOWS:
            source, target = flow.split("->")
            eventually(
                lambda source=source, target=target: (
                    values(brokers[target], f"{source}.{topic}-{source}") == written[source]
                ),
                within_s=90,
                because=f"{flow} replicates",
            )
        # What came into the first cluster of a data center goes on into its second one, and to the other data centers.
        for first, second in (("west-1", "west-2"), ("east-1", "east-2"), ("north-1", "north-2")):
            others = [alias for alias in ("west-1", "east-1", "north-1") if alias != first]
            for other in others:
                eventually(
                    lambda first=first, second=second, other=other: (
                        values(brokers[second], f"{first}.{other}.{topic}-{other}") == written[other]
                    ),
                    within_s=60,
                    because=f"what {other} has comes to {second}",
                )
        for alias in SIX:
            assert values(brokers[alias], f"{topic}-{alias}") == written[alias], "nothing comes back"
        assert running.stop()[0] == 0


def the_six_are_planned(file: Path, topic: str) -> None:
    done = kafka_mirror("plan", file, check=True)
    flows = dict(part.split(": ", 1) for part in done.stdout.split("\n\n") if part.strip())
    assert set(flows) == set(SIX_FLOWS)
    for flow, text in flows.items():
        source, target = flow.split("->")
        copied = [line.split()[0] for line in text.splitlines()[1:] if " -> " in line]
        # What came from east-1 goes from west-1 to every other, never back.
        passed_on = [f"east-1.{topic}"] if source == "west-1" and target != "east-1" else []
        assert sorted(copied) == sorted([f"{topic}-{source}", *passed_on]), flow
        assert f"{source}.{topic}-{source} (is created with 1;" in text
