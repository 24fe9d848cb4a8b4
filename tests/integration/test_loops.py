"""Mirrors that would make a loop together are found out by each other, whatever their files call the clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.kafka.internal_topics import committed
from tests.integration.records import create, end_offset, write
from tests.integration.test_flow_shapes import Mesh, put, values
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
ROUND = "its records came from the target"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Broker]:
    with Broker.start("far", tmp_path / "far") as broker:
        yield broker


def mesh(folder: Path, clusters: dict[str, str], flows: list[str], topics: str) -> Mesh:
    folder.mkdir()
    return Mesh(folder, clusters, flows, topics, IDENTITY)


def errors(appliance: Mesh) -> str:
    return appliance.log.read_text()


def metadata(cluster: Broker, group: str, topic: str) -> str:
    """Return what a group keeps with its offset."""
    found = asyncio.run(committed(client_options({"bootstrap.servers": cluster.bootstrap}), group))
    return found[topic, 0][1]


def test_a_ring_of_clusters_is_closed_for_nobodys_records(primary, backup, far, topic, tmp_path):
    """Its last flow knows from the positions of those before it that what it would bring was there first."""
    first = put(primary, topic, "first")
    names = {"a": primary.bootstrap, "b": backup.bootstrap, "c": far.bootstrap}
    with ExitStack() as stack:
        stack.enter_context(mesh(tmp_path / "1", names, ["a->b", "b->c"], topic))
        eventually(lambda: values(far, topic) == first, within_s=60, because="two hops bring them to the third cluster")
        eventually(
            lambda: "from=" in metadata(far, "mirror.b->c", topic),
            within_s=30,
            because="the second flow tells where the records came from that it passes on",
        )
        own = put(far, f"{topic}-own", "own")
        away = {"x": far.bootstrap, "y": primary.bootstrap}
        last = stack.enter_context(mesh(tmp_path / "2", away, ["x->y"], f"{topic}.*"))
        eventually(
            lambda: values(primary, f"{topic}-own") == own, within_s=60, because="what came from nowhere is mirrored"
        )
        write(primary, topic, [(b"k", b"later", (), 99)])
        eventually(
            lambda: values(far, topic) == [*first, b"later"], within_s=60, because="the ring's beginning goes on"
        )
        eventually(lambda: ROUND in errors(last), within_s=30, because="the last flow says why it does not go on")
        assert values(primary, topic) == values(backup, topic) == [*first, b"later"]
        assert f"{topic}-own" not in errors(last).split(ROUND)[0].splitlines()[-1]


def test_records_of_a_mirror_that_has_ended_do_not_return(primary, backup, topic, tmp_path):
    """Nobody has said where the way back begins, and from the start all of it would come twice."""
    first = put(primary, topic, "first")
    with mesh(tmp_path / "1", {"a": primary.bootstrap, "b": backup.bootstrap}, ["a->b"], topic):
        eventually(lambda: values(backup, topic) == first, within_s=60, because="it is mirrored")
    own = put(backup, f"{topic}-own", "own")
    with mesh(tmp_path / "2", {"x": backup.bootstrap, "y": primary.bootstrap}, ["x->y"], f"{topic}.*") as back:
        eventually(lambda: values(primary, f"{topic}-own") == own, within_s=60, because="the other topic is mirrored")
        write(backup, topic, [(b"k", b"new", (), 99)])
        eventually(lambda: ROUND in errors(back), within_s=30, because="it says why")
        assert values(primary, topic) == first
    told = kafka_mirror("plan", back.file, check=True).stdout
    assert told.count(ROUND) == 1, told


def test_two_that_start_at_the_same_time_stop_each_other(primary, backup, topic, tmp_path):
    for cluster in (primary, backup):
        create(cluster, topic)
    one = mesh(tmp_path / "1", {"a": primary.bootstrap, "b": backup.bootstrap}, ["a->b"], topic)
    other = mesh(tmp_path / "2", {"x": backup.bootstrap, "y": primary.bootstrap}, ["x->y"], topic)
    one.launch()
    other.launch()
    with ExitStack() as stack:
        for each in (one, other):
            stack.callback(each.stop)
        for each in (one, other):
            eventually(each.is_ready, within_s=60, because="both begin")
        write(primary, topic, [(b"k", b"v", (), 1)])
        eventually(
            lambda: ROUND in errors(one) or ROUND in errors(other), within_s=60, because="one of them sees the other"
        )
        ends = [0, 0]

        def stands_still() -> bool:
            nonlocal ends
            before, ends = ends, [end_offset(cluster, topic, 0) for cluster in (primary, backup)]
            return min(ends) > 0 and before == ends

        eventually(stands_still, within_s=60, because="no record goes round any more", every_s=5.0)
