"""A drill goes over and comes back on a canary: what it measures, whom it leaves alone, what is left of one that died."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mirror.embedded.broker import Broker
from mirror.kafka.admin import Admin
from mirror.switching.run import STEPS, Kind
from tests.integration.records import await_replicated, load
from tests.integration.test_switch import FLOW, Pair, pair
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
CANARY = "mirror-drill-primary-backup"
EXTRA = "mirror.drill.enabled = true\nmirror.drill.interval.seconds = 3600\n"
FAMILY = "kafka_mirror_drill_"


def test_drills_measure_touch_nobodys_data_and_follow_one_that_was_killed(tmp_path):
    with pair(tmp_path, ["orders"], extra=EXTRA) as clusters:
        before = {broker.name: acls(broker) for broker in (clusters.primary, clusters.backup)}
        with load(clusters.primary, "orders", rate=50):
            scheduled = the_first_is_scheduled(clusters)
            one_that_is_killed_keeps_a_second_one_away(clusters)
            found = eventually(lambda: passed(clusters), within_s=120, because="the one that died has left the group")
        await_replicated(clusters.appliance, clusters.primary, "orders", "primary.orders", within_s=30)
        assert {broker.name: acls(broker) for broker in (clusters.primary, clusters.backup)} == before
        assert found["records"] == sum(written(broker, found["id"]) for broker in (clusters.primary, clusters.backup))
        past = clusters.run("drill", FLOW, "--past")
        assert past.returncode == 0
        for drill in (scheduled, found):
            assert drill["id"] in past.stdout
        what_it_cannot_do_is_said_and_kept(clusters)


def the_first_is_scheduled(clusters: Pair) -> dict[str, Any]:
    """Metrics tell what the first drill has measured."""
    flow = '{source="primary",target="backup"}'
    eventually(
        lambda: f"{FAMILY}passed{flow}" in clusters.appliance.exposition(), within_s=120, because="a drill is due"
    )
    (drill,) = json.loads(clusters.run("drill", FLOW, "--past", "--json").stdout)
    is_whole(drill)
    samples = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in clusters.appliance.exposition().splitlines()
        if line.startswith(FAMILY)
    }
    assert samples[f"{FAMILY}passed{flow}"] == 1
    assert samples[f"{FAMILY}rto_seconds{flow}"] == pytest.approx(drill["rto_s"])
    assert samples[f"{FAMILY}rpo_records{flow}"] == drill["rpo_records"]
    assert samples[f"{FAMILY}last_success_timestamp_seconds{flow}"] == pytest.approx(drill["ended_s"])
    assert samples[f"{FAMILY}due_timestamp_seconds{flow}"] == pytest.approx(drill["ended_s"] + 2 * 3600)
    steps = {name for name in samples if name.startswith(f"{FAMILY}step_seconds")}
    assert len(steps) == len(STEPS[Kind.SWITCH]) + len(STEPS[Kind.SWITCH_BACK])
    return drill


def is_whole(drill: dict[str, Any]) -> None:
    assert drill["failure"] == ""
    assert (drill["lost"], drill["repeated"]) == (0, 0)
    assert drill["records"] > 500  # a hundred a second, for ten seconds and more
    assert drill["rpo_records"] >= 0
    for kind, took_s in ((Kind.SWITCH, drill["rto_s"]), (Kind.SWITCH_BACK, drill["back_s"])):
        steps = drill["steps"][kind.value]
        assert list(steps) == [step.value for step in STEPS[kind]]
        assert sum(steps.values()) <= took_s < 60


def one_that_is_killed_keeps_a_second_one_away(clusters: Pair) -> None:
    with clusters.start("drill", FLOW) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if line.strip() == "fence ...":
                second = clusters.run("drill", FLOW)
                assert second.returncode == 1
                assert "somebody rehearses primary->backup now" in second.stderr
            if line.strip() == "groups ...":
                first.kill()
    assert first.returncode == -9
    assert any(acl.operation == "WRITE" for acl in acls(clusters.primary)), "its fence is left"


def passed(clusters: Pair) -> dict[str, Any]:
    found = clusters.run("drill", FLOW, "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    (drill,) = json.loads(found.stdout)
    is_whole(drill)
    return drill


def what_it_cannot_do_is_said_and_kept(clusters: Pair) -> None:
    clusters.appliance.stop()
    found = clusters.run("drill", FLOW, "--within", "5", "--json")
    assert found.returncode == 1
    (drill,) = json.loads(found.stdout)
    assert "has not crossed in 5 s. Does 'kafka-mirror run' replicate primary->backup" in drill["failure"]
    past = json.loads(clusters.run("drill", FLOW, "--past", "--json").stdout)
    assert past[-1] == drill


def acls(broker: Broker) -> set[Any]:
    return Admin(broker.name, {"bootstrap.servers": broker.bootstrap}).topic_acls()


def written(broker: Broker, drill: str) -> int:
    """How many canary records of a drill a cluster has, as another client counts them."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "oracle", "enable.auto.commit": False})
    partitions = [TopicPartition(CANARY, partition) for partition in range(2)]
    ends = sum(consumer.get_watermark_offsets(partition, timeout=10)[1] for partition in partitions)
    consumer.assign([TopicPartition(CANARY, partition, 0) for partition in range(2)])
    messages: list[Any] = []
    while len(messages) < ends:
        messages += [message for message in consumer.consume(1000, 5) if message.error() is None]
    consumer.close()
    return sum(message.value().decode().startswith(drill) for message in messages)
