"""Exactly once: transactions under load, ended after a kill, shared with a topic that is denied."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from mirror.config.load import load as load_settings
from mirror.embedded.broker import Broker
from mirror.flows.stored_positions import Position, read_positions, write_positions
from mirror.model.topic_partition import TopicPartition
from tests.integration.acls import GUARDED, deny
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, differences, end_offset, flows, load, rows, write
from tests.integration.values import values
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]

ENABLED = "backup.exactly.once.source.support = enabled"


@pytest.fixture
def appliance(primary, backup, topic, tmp_path: Path) -> Iterator[RunningAppliance]:
    """Mirrors one topic of two partitions in transactions."""
    create(primary, topic, 2)
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=ENABLED
    ) as running:
        yield running


def equal(appliance, primary, backup, topic) -> None:
    for partition in (0, 1):
        await_replicated(appliance, primary, topic, f"primary.{topic}", partition, within_s=90)
    assert differences(primary, backup, topic, f"primary.{topic}") == []


def arrived(backup, topic: str) -> int:
    """Log end of the first partition, markers of transactions included."""
    return end_offset(backup, f"primary.{topic}", 0)


def test_a_backlog_and_a_load_are_mirrored_in_transactions(appliance, primary, backup, topic):
    write(primary, topic, rows(20_000))
    with load(primary, topic):
        flows(backup, f"primary.{topic}", more=1_500)
    equal(appliance, primary, backup, topic)
    records = len(values(backup, f"primary.{topic}", 0))
    assert arrived(backup, topic) > records, "the log holds the markers of transactions too"
    code, _ = appliance.stop()
    assert code == 0


@pytest.mark.nightly
def test_a_map_that_the_target_refuses_holds_up_no_record(primary, backup, topic, tmp_path: Path):
    """A topic of the map's name that somebody else made takes no record of the map. It is written once a minute."""
    alias = f"p{time.time_ns()}"
    create(primary, topic)
    create(backup, f"mm2-offset-map.{alias}.internal", max_message_bytes="100")
    write(primary, topic, rows(50))
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=ENABLED
    ).call_source(alias) as running:
        eventually(
            lambda: "the offset map cannot be written" in running.log.read_text(),
            within_s=90,
            because="the map is written once a minute",
        )
        write(primary, topic, rows(50))
        await_replicated(running, primary, topic, f"{alias}.{topic}", 0, within_s=30)
        assert len(values(backup, f"{alias}.{topic}", 0, isolation="read_committed")) == 100
        log = running.log.read_text()
    assert f"mm2-offset-map.{alias}.internal-0: MESSAGE_TOO_LARGE); records are replicated" in log
    assert "the last transaction is taken back" not in log


def test_the_next_start_ends_transactions_of_a_killed_process(appliance, primary, backup, topic):
    """Readers of committed records wait for no transaction that nobody ends."""
    with load(primary, topic):
        flows(backup, f"primary.{topic}")
        appliance.kill_all()
        appliance.start()
        before = end_offset(backup, f"primary.{topic}", 0, read_committed=True)
        eventually(
            lambda: end_offset(backup, f"primary.{topic}", 0, read_committed=True) > before,
            within_s=20,  # the broker itself would end it after a minute
            because="committed records follow",
        )
    equal(appliance, primary, backup, topic)


def test_a_broker_that_returns_with_old_positions_causes_no_duplicates(appliance, primary, backup, topic):
    """As one did after `kill -9`, with a group's offsets of minutes before. Which window was the last, it still knows here."""
    [flow] = load_settings(appliance.file).flows

    def stands() -> dict[TopicPartition, Position]:
        return {place: at for place, at in read_positions(flow).items() if place[0] == f"primary.{topic}"}

    with load(primary, topic):
        flows(backup, f"primary.{topic}", more=1_000)
        eventually(lambda: len(stands()) == 2, within_s=60, because="each slot commits")
        old = stands()
        flows(backup, f"primary.{topic}", more=1_000)
        assert appliance.stop()[0] == 0
    assert len(old) == 2
    write_positions(flow, old)
    with appliance:
        equal(appliance, primary, backup, topic)
    assert "the target has" in appliance.log.read_text()


def test_an_unauthorized_topic_is_paused_alone_despite_shared_transactions(tmp_path, primary, topic):
    names = [f"{topic}-{n}" for n in range(4)]
    with Broker.start("guarded", tmp_path / "guarded", overrides=GUARDED) as guarded:
        denied = f"primary.{names[0]}"
        for name in names:
            create(primary, name)
            write(primary, name, rows(50))
        grant = deny(guarded, denied, AclOperation.WRITE)
        folder = tmp_path / "mirror"
        folder.mkdir()
        with RunningAppliance(
            folder, primary=primary.bootstrap, backup=guarded.bootstrap, topics=f"{topic}.*", extra=ENABLED
        ) as running:
            for name in names[1:]:
                await_replicated(running, primary, name, f"primary.{name}", within_s=60)
            eventually(
                lambda: running.value("kafka_mirror_partition_paused", topic=denied, partition=0) == 1,
                within_s=30,
                because="the denied topic is paused",
            )
            grant()
            await_replicated(running, primary, names[0], denied, within_s=90)
            for name in names:
                assert differences(primary, guarded, name, f"primary.{name}") == []


def test_a_change_of_the_mode_after_a_kill_loses_and_duplicates_no_record(appliance, primary, backup, topic):
    """There and back: what the killed one left open is ended before anybody looks what the target has."""
    settings = appliance.file.read_text()
    with load(primary, topic):
        for text in (settings.replace(ENABLED, ""), settings, settings.replace(ENABLED, "")):
            flows(backup, f"primary.{topic}", more=500)
            appliance.kill_all()
            appliance.file.write_text(text)
            appliance.start()
        flows(backup, f"primary.{topic}", more=500)
    equal(appliance, primary, backup, topic)
    assert appliance.log.read_text().count("its last transaction is ended") >= 2
