"""Topics of the same names are mirrored both ways: each record is once on each side, whoever dies meanwhile."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.appliance import RunningAppliance
from tests.integration.records import beside, create, flows, messages, write
from tests.integration.test_flow_shapes import Mesh, put, values
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
PARTITIONS = 2
RATE = 200  # records/s of each origin
BOTH_WAYS = """replication.policy.class = IdentityReplicationPolicy
mirror.identity.bidirectional = true
backup->primary.enabled = true
backup->primary.topics = {topic}
"""
EXACTLY_ONCE = "primary.exactly.once.source.support = enabled\nbackup.exactly.once.source.support = enabled\n"
KINDS = {
    "idempotent": {"enable.idempotence": True},
    "plain": {"enable.idempotence": False, "acks": "all", "max.in.flight.requests.per.connection": 1},
}


@contextmanager
def writing(cluster, topic: str, origin: str, *, kind: str) -> Iterator[list[str]]:
    """Write records that say where they are from all the while; yields the values, in order."""
    written, failures = [], []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **KINDS[kind]})

    def run(stop: threading.Event) -> None:
        while not stop.wait(0.05):
            for _ in range(RATE // 20):
                n = len(written)
                written.append(f"{origin}-{kind}-{n}")
                producer.produce(
                    topic,
                    written[-1].encode(),
                    None,
                    n % PARTITIONS,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
            producer.poll(0)
        failures.extend([] if producer.flush(60) == 0 else ["records left"])

    with beside(run, origin):
        yield written
    assert not failures, failures[0]


def on(cluster, topic: str) -> dict[str, list[str]]:
    """Return what each writer's records are on a cluster, partition by partition, in the order of the log."""
    found: dict[str, list[str]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for message in messages(cluster, topic, partition):
            value = message.value().decode()
            found[f"{value.rpartition('-')[0]} {partition}"].append(value)
    return found


def spread(written: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the same of what was written."""
    return {f"{who} {part}": values[part::PARTITIONS] for who, values in written.items() for part in range(PARTITIONS)}


@pytest.mark.parametrize("mode", ["", EXACTLY_ONCE], ids=["at least once", "exactly once"])
def test_each_record_is_once_on_each_side_after_any_kill(primary, backup, topic, tmp_path, mode):
    """Writers on both clusters, before, during and after; all processes are killed twice while everything flows."""
    for cluster in (primary, backup):
        create(cluster, topic, PARTITIONS)
        write(cluster, topic, [(None, f"{cluster.name}-early-{n}".encode(), (), n) for n in range(0, 10, 2)], 0)
        write(cluster, topic, [(None, f"{cluster.name}-early-{n}".encode(), (), n) for n in range(1, 10, 2)], 1)
    extra = BOTH_WAYS.format(topic=topic) + mode
    appliance = RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=extra
    )
    written = {
        f"{cluster.name}-early": [f"{cluster.name}-early-{n}" for n in range(10)] for cluster in (primary, backup)
    }
    with appliance:
        with (
            writing(primary, topic, "primary", kind="idempotent") as first,
            writing(backup, topic, "backup", kind="idempotent") as second,
            writing(backup, topic, "backup", kind="plain") as third,
        ):
            for _ in range(2):
                for cluster in (primary, backup):
                    flows(cluster, topic, more=2 * RATE)
                appliance.kill_all()
                appliance.start()
            for cluster in (primary, backup):
                flows(cluster, topic, more=2 * RATE)
        written |= {"primary-idempotent": first, "backup-idempotent": second, "backup-plain": third}
        expected = spread(written)
        for cluster in (primary, backup):
            eventually(
                lambda cluster=cluster: sum(map(len, on(cluster, topic).values())) >= sum(map(len, written.values())),
                within_s=60,
                because=f"everything is on {cluster.name}",
            )
        for cluster in (primary, backup):
            found = on(cluster, topic)
            assert found == expected, [
                (who, len(found.get(who, ())), len(values))
                for who, values in expected.items()
                if found.get(who) != values
            ]
        eventually(
            lambda: set(appliance.served("lag_records")) == {0.0}, within_s=30, because="nothing waits in either flow"
        )


def mesh(folder: Path, primary, backup, flow: str, topic: str, *, is_bidirectional: bool = True) -> Mesh:
    """One flow in a file of its own, as where each site runs the one that writes to it."""
    folder.mkdir(exist_ok=True)
    identity = "replication.policy.class = IdentityReplicationPolicy\n"
    extra = identity + ("mirror.identity.bidirectional = true\n" if is_bidirectional else "")
    return Mesh(folder, {"a": primary.bootstrap, "b": backup.bootstrap}, [flow], topic, extra)


def test_a_one_way_flow_becomes_bidirectional_at_the_operators_position(primary, backup, topic, tmp_path):
    """What it wrote before its producers were registered cannot be told from other records.

    Nor can anybody tell what the flow back wrote that has never begun: until it has, nothing crosses.
    """
    first = put(primary, topic, "first")
    with mesh(tmp_path / "along", primary, backup, "a->b", topic, is_bidirectional=False):
        eventually(lambda: values(backup, topic) == first, within_s=60, because="it is mirrored one way")
    write(backup, topic, [(b"k", b"own", (), 1)])
    back = mesh(tmp_path / "back", primary, backup, "b->a", topic)
    with mesh(tmp_path / "along", primary, backup, "a->b", topic) as along:
        write(primary, topic, [(b"k", b"second", (), 2)])
        eventually(
            lambda: "mm2-producers.b.internal does not exist" in along.log.read_text(),
            within_s=60,
            because="it says why",
        )
        assert b"second" not in values(backup, topic)
        with back:
            eventually(
                lambda: b"second" in values(backup, topic), within_s=60, because="the one that was first goes on"
            )
            eventually(
                lambda: "would go round in a loop" in back.log.read_text(),
                within_s=60,
                because="the other does not begin by itself",
            )
            assert values(primary, topic) == [*first, b"second"]
        kafka_mirror("positions", "set", back.file, "b->a", "--to", len(first), check=True)
        with back:
            for cluster in (primary, backup):
                write(cluster, topic, [(b"k", f"third {cluster.name}".encode(), (), 3)])
            everything = sorted([*first, b"second", b"own", b"third primary", b"third backup"])
            for cluster in (primary, backup):
                eventually(
                    lambda cluster=cluster: sorted(values(cluster, topic)) == everything,
                    within_s=60,
                    because="from there on it goes both ways",
                )
