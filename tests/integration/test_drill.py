"""A drill goes over and comes back on a canary: what it measures, whom it leaves alone, what is left of one that died."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from mirror.embedded.broker import Broker
from mirror.kafka.cluster import Cluster
from mirror.policy.topic_acls import Acl
from mirror.switching.run import STEPS, Kind
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, commit, create, load, rows, write
from tests.integration.secured import USER, Party, Secured, secured
from tests.integration.secured import canary as secret
from tests.integration.test_switch import FLOW, GROUP, Pair, committed, pair
from tests.token_endpoint import TokenEndpoint
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.kafka
CANARY = "mirror-drill-primary-backup"
EXTRA = "mirror.drill.enabled = true\nmirror.drill.interval.seconds = 3600\nrefresh.topics.interval.seconds = 600\n"
Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]
READS_ORDERS = (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.READ)
EVERYTHING = """backup->primary.enabled = true
backup->primary.topics = orders
sync.topic.acls.enabled = true
sync.topic.configs.enabled = true
emit.checkpoints.enabled = true
emit.heartbeats.enabled = true
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 1
backup.exactly.once.source.support = enabled
mirror.drill.enabled = true
"""
WITHIN_S = PATIENCE * 120  # of each step
FAMILY = "kafka_mirror_drill_"


@pytest.mark.nightly
def test_drills_measure_touch_no_other_data_and_run_after_a_killed_drill(tmp_path):
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
        (other,) = json.loads(clusters.run("drill", "backup->primary", "--past", "--json").stdout)
        is_whole(other)  # it was scheduled beside them, the other way round
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
        assert sum(steps.values()) <= took_s < 2 * WITHIN_S


def one_that_is_killed_keeps_a_second_one_away(clusters: Pair) -> None:
    with clusters.start("drill", FLOW) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if line.strip() == "fence ...":
                second = clusters.run("drill", FLOW)
                assert second.returncode == 1
                assert "another process rehearses primary->backup, or" in second.stderr
            if line.strip() == "groups ...":
                first.kill()
    assert first.returncode == -9
    assert any(acl.operation == "WRITE" for acl in acls(clusters.primary)), "its fence is left"


def passed(clusters: Pair) -> dict[str, Any]:
    found = clusters.run("drill", FLOW, "--within", str(WITHIN_S), "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    (drill,) = json.loads(found.stdout)
    is_whole(drill)
    return drill


def what_it_cannot_do_is_said_and_kept(clusters: Pair) -> None:
    clusters.appliance.stop()
    found = clusters.run("drill", FLOW, "--within", "5", "--json")
    assert found.returncode == 1
    (drill,) = json.loads(found.stdout)
    assert "was not replicated in 5 s: " in drill["failure"]
    assert "are missing. Does 'kafka-mirror run' replicate primary->backup" in drill["failure"]
    past = json.loads(clusters.run("drill", FLOW, "--past", "--json").stdout)
    assert past[-1] == drill


def acls(broker: Broker) -> set[Any]:
    return Cluster(broker.name, {"bootstrap.servers": broker.bootstrap}).topic_acls()


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


def test_a_principal_with_these_permissions_and_no_others_replicates_and_rehearses(tmp_path):
    """Within TLS, by a login; the rights are those of the table in docs/security.md."""
    with ExitStack() as stack:
        secrets = {what: secret(what) for what in ("store", "key", "trust", "plain", "scram", "token")}
        endpoint = stack.enter_context(TokenEndpoint(USER, secrets["token"]))
        party = Party(folder=tmp_path, endpoint=endpoint, secrets=secrets)
        guarded = {
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super_users": "User:ANONYMOUS",
        }
        primary, backup = (
            stack.enter_context(secured(name, tmp_path, party, **guarded)) for name in ("primary", "backup")
        )
        for cluster, here, there in ((primary, "primary", "backup"), (backup, "backup", "primary")):
            create(cluster, "orders", 2, retention_ms="-1")
            grant(cluster, granted("A", A=here, B=there) | granted("B", A=there, B=here))
        grant(primary, {READS_ORDERS}, to="User:reader")
        write(primary, "orders", rows(20))
        commit(primary.broker, GROUP, "orders", 1)
        login = party.trusts() | party.scram() | {"security.protocol": "SASL_SSL"}
        appliance = RunningAppliance(
            tmp_path,
            primary=primary.at("BOTH"),
            backup=backup.at("BOTH"),
            topics="orders",
            extra=EVERYTHING + "".join(f"{key} = {value}\n" for key, value in login.items()),
        )
        clusters = Pair(primary.broker, backup.broker, stack.enter_context(appliance))
        await_replicated(appliance, primary, "orders", "primary.orders")
        carried(backup.broker)
        found = clusters.run("drill", FLOW, "--within", str(WITHIN_S), "--json")
        assert found.returncode == 0, found.stdout + found.stderr
        (drill,) = json.loads(found.stdout)
        is_whole(drill)
        assert not re.search(r"(?i)authoriz|denied", appliance.log.read_text())


def carried(backup: Broker) -> None:
    """What a flow carries beside the records has come, too."""
    admin = AdminClient({"bootstrap.servers": backup.bootstrap})
    remote = ConfigResource(ConfigResource.Type.TOPIC, "primary.orders")
    assert admin.describe_configs([remote])[remote].result(20)["retention.ms"].value == "-1"
    reads = Acl("primary.orders", "User:reader", "*", "READ", "ALLOW")
    eventually(lambda: reads in acls(backup), within_s=30, because="the ACL has come")
    # Behind the first record, and the marker of its transaction where it had one of its own.
    eventually(
        lambda: committed(backup, GROUP, "primary.orders")[0] in (1, 2),
        within_s=30,
        because="the group's offset has come",
    )


def granted(side: str, **aliases: str) -> set[Right]:
    """What the table of docs/security.md grants on one side of a flow."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()
    lines = re.findall(r"^\| [^|]+ \| ([AB]) \| ([\w-]+) \| `(\S+)` \| ([A-Z_, ]+) \|$", page, re.MULTILINE)
    assert len(lines) > 10
    found = set()
    for on, kind, name, operations in lines:
        if on == side:
            is_prefix = name.endswith("*") and name != "*"
            named = re.sub(r"\b[AB]\b", lambda match: aliases[match[0]], name.removesuffix("*") if is_prefix else name)
            pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
            of_kind = {"cluster": ResourceType.BROKER, "transactional-id": ResourceType.TRANSACTIONAL_ID}.get(kind)
            resource = of_kind or ResourceType[kind.upper()]
            found |= {(resource, named, pattern, AclOperation[each]) for each in operations.split(", ")}
    return found


def grant(cluster: Secured, rights: set[Right], *, to: str = f"User:{USER}") -> None:
    bindings = [
        AclBinding(kind, name, pattern, to, "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in sorted(rights, key=str)
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.create_acls(bindings).values():
        done.result(30)
