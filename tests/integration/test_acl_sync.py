"""ACLs of topics follow on real brokers with an authorizer; nothing is widened, nothing taken away."""

from __future__ import annotations

import pytest

from mirror.embedded.broker import Broker
from mirror.kafka.cluster import Cluster
from mirror.policy.topic_acls import Acl
from tests.integration.appliance import RunningAppliance
from tests.integration.records import create
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
EXTRA = """\
sync.topic.acls.enabled = {enabled}
sync.topic.acls.interval.seconds = 1
"""


def acl(topic: str, operation: str = "READ", permission: str = "ALLOW", principal: str = "User:reader") -> Acl:
    return Acl(topic, principal, "*", operation, permission)


def test_acls_to_read_a_topic_are_copied_and_shown_by_plan(tmp_path, topic):
    remote = f"primary.{topic}"
    with (
        Broker.start("guarded-a", tmp_path / "a", overrides=GUARDED) as source,
        Broker.start("guarded-b", tmp_path / "b", overrides=GUARDED) as target,
    ):
        create(source, topic)
        theirs, ours = (Cluster("test", {"bootstrap.servers": end.bootstrap}) for end in (source, target))
        every = [
            acl(topic),
            acl(topic, "ALL", principal="User:all"),
            acl(topic, "WRITE"),
            acl("*"),
            acl("other"),
            acl(topic, "DELETE", "DENY"),
        ]
        assert set(theirs.add_acls(every).values()) == {""}
        ours.add_acls([acl(remote, "DESCRIBE", principal="User:own")])
        running = RunningAppliance(
            tmp_path,
            primary=source.bootstrap,
            backup=target.bootstrap,
            topics=topic,
            extra=EXTRA.format(enabled="true"),
        )
        shown = kafka_mirror("plan", running.file, check=True).stdout
        assert f"ACL that is added: ALLOW User:all from * to READ {remote}" in shown
        assert (
            f"ACL left out: ALLOW User:reader from * to WRITE {topic}: only the mirror writes to a remote topic"
            in shown
        )
        assert "ACL left out: ALLOW User:reader from * to READ *: it applies to every topic" in shown
        assert "other" not in shown
        assert ours.topic_acls() == {acl(remote, "DESCRIBE", principal="User:own")}
        expected = {
            acl(remote),
            acl(remote, principal="User:all"),
            acl(remote, "DELETE", "DENY"),
            acl(remote, "DESCRIBE", principal="User:own"),
        }
        with running:
            eventually(lambda: ours.topic_acls() == expected, within_s=30, because="the ACLs follow at start")
            theirs.add_acls([acl(topic, "DESCRIBE")])
            eventually(
                lambda: ours.topic_acls() == expected | {acl(remote, "DESCRIBE")},
                within_s=30,
                because="and those that come later",
            )
            eventually(
                lambda: 'kafka_mirror_acl_drift{source="primary",target="backup"} 0' in running.exposition(),
                within_s=30,
                because="drift is a metric",
            )


def test_a_target_without_an_authorizer_costs_one_line(tmp_path, backup, topic):
    with Broker.start("guarded", tmp_path / "a", overrides=GUARDED) as source:
        create(source, topic)
        Cluster("test", {"bootstrap.servers": source.bootstrap}).add_acls([acl(topic)])
        with RunningAppliance(
            tmp_path,
            primary=source.bootstrap,
            backup=backup.bootstrap,
            topics=topic,
            extra=EXTRA.format(enabled="true"),
        ) as running:
            eventually(
                lambda: "ACLs cannot be added on backup" in running.log.read_text(), within_s=30, because="it is logged"
            )
            eventually(
                lambda: running.value("kafka_mirror_replicated_offset", topic=f"primary.{topic}", partition=0) == 0,
                within_s=30,
                because="replication goes on",
            )
            assert 'kafka_mirror_acl_drift{source="primary",target="backup"} 1' in running.exposition()
            assert running.stop()[0] == 0
    shown = [line for line in running.log.read_text().splitlines() if "ACL" in line]
    assert [line.split("WARNING ")[1] for line in shown] == [
        "primary->backup: ACLs cannot be added on backup: SECURITY_DISABLED: No Authorizer is configured."
    ]
