"""Names that somebody else chose: an alias with every odd character, group ids that Kafka does not restrict at all."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from metrics.catalogue import CATALOGUE
from mirror.config.clients import client_options
from mirror.kafka.cluster import Cluster
from mirror.kafka.group_offsets import GroupOffsets, patiently
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, differences, rows, write
from tests.integration.test_checkpoints import checkpoints
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
ALIAS = "../../../B- ._~:/?#[]@!$&'()*+;=\"<>%{}|\\^`618"  # behind the dots, of Kafka's DedicatedMirrorIntegrationTest
GROUPS = ('a"} 1\nup{x="', "<script>alert(1)</script>", "../../up", "`$(id)` %s {0} \\n ünï 鏡", " ", "", "x" * 255)


def escaped(key: str) -> str:
    """Write a key as java.util.Properties stores it."""
    return re.sub(r"([ :=\\#!])", r"\\\1", key)


async def stand(cluster, topic: str, offset: int) -> None:
    """Commit an offset of each group; librdkafka ends the process at a group of no name, which brokers have all the same."""
    offsets = await GroupOffsets.connected(client_options({"bootstrap.servers": cluster.bootstrap}))
    try:
        for group in GROUPS:
            await patiently(lambda group=group: offsets.commit(group, {(topic, 0): (offset, "")}))
    finally:
        await offsets.close()


def a_file(folder, primary, backup, topic) -> RunningAppliance:
    """Return an appliance for a target of the alias, as Kafka's own test configures it."""
    running = RunningAppliance(folder, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic)
    common = [
        line for line in running.file.read_text().splitlines() if not line.startswith(("clusters", "primary", "backup"))
    ]
    own = {
        "clusters": f"primary, {ALIAS}",
        "primary.bootstrap.servers": primary.bootstrap,
        f"{ALIAS}.bootstrap.servers": backup.bootstrap,
        f"primary->{ALIAS}.enabled": "true",
        f"primary->{ALIAS}.topics": topic,
        f"primary->{ALIAS}.offset-syncs.topic.location": "target",
        "emit.checkpoints.enabled": "true",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "groups": "(?s).*",  # a dot alone matches no line break, in Java
        "emit.heartbeats.enabled": "true",
        f"{ALIAS}->primary.emit.heartbeats.enabled": "false",
    }
    common = [line for line in common if not line.startswith("emit.")]
    lines = [f"{escaped(key)} = " + value.replace("\\", "\\\\") for key, value in own.items()]
    running.file.write_text("\n".join([*common, *lines, ""]))
    return running


def served_labels(running: RunningAppliance) -> dict[str, set[str]]:
    """Return the values of each label of our metrics."""
    shown: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(running.exposition()):
        for sample in family.samples if family.name.startswith("kafka_mirror_") else ():
            for label, value in sample.labels.items():
                shown[label].add(value)
    return shown


def test_an_alias_and_groups_of_any_name_are_served_and_shown_as_they_are(primary, backup, topic, tmp_path):
    folder = tmp_path / "deep" / "deeper" / "run"
    folder.mkdir(parents=True)
    create(primary, topic)
    write(primary, topic, rows(50))
    asyncio.run(stand(primary, topic, 20))
    groups = Cluster("backup", {"bootstrap.servers": backup.bootstrap})

    def standing() -> dict[str, int | None]:
        found = {group.name: group for group in groups.groups()}
        return {name: found[name].offsets.get((f"primary.{topic}", 0)) for name in GROUPS if name in found}

    with a_file(folder, primary, backup, topic) as running:
        await_replicated(running, primary, topic, f"primary.{topic}")
        eventually(
            lambda: standing() == dict.fromkeys(GROUPS, 20), within_s=60, because="each group is moved to the target"
        )
        eventually(
            lambda: set(GROUPS) <= served_labels(running)["group"], within_s=30, because="each group has its metrics"
        )
        shown = served_labels(running)
        table = kafka_mirror("lag", running.file, "--topic", f"{topic},primary.{topic}", check=True).stdout
        assert running.stop()[0] == 0
    assert differences(primary, backup, topic, f"primary.{topic}") == []
    assert set(GROUPS) <= set(checkpoints(backup, f"primary.{topic}"))
    assert shown["target"] == {ALIAS}
    ours = {"le", *(label for spec in CATALOGUE for label in spec.labels)}
    assert shown.keys() <= ours  # no group made one up
    headings_and_flow = 2
    assert len(table.splitlines()) == headings_and_flow + 2 * len(GROUPS), table  # each on both clusters
    assert [file for file in tmp_path.rglob("*") if not file.is_relative_to(tmp_path / "deep")] == []
    assert list(folder.parent.iterdir()) == [folder]
