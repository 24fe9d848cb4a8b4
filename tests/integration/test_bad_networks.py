"""A network that stalls, resets, slows down and forgets connections, on both sides: all arrives, once, in order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirror.local.broker import Broker
from tests.fault_proxy import FaultProxy, proxied
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, differences, flows, load, rows, write

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Cluster = tuple[Broker, FaultProxy, str]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Iterator[Cluster]:
    with proxied("far", tmp_path_factory.mktemp("far")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Iterator[Cluster]:
    with proxied("near", tmp_path_factory.mktemp("near")) as cluster:
        yield cluster


def stalls(proxy: FaultProxy) -> None:
    proxy.is_stalled = True
    time.sleep(10)


def goes_down(proxy: FaultProxy) -> None:
    proxy.is_down = True
    proxy.reset_all()
    time.sleep(10)


def forgets_connections(proxy: FaultProxy) -> None:
    proxy.half_open_all()


def resets(proxy: FaultProxy) -> None:
    dice = random.Random(0)
    for _ in range(8):
        time.sleep(dice.uniform(0.2, 2))
        proxy.reset_all()


def crawls(proxy: FaultProxy) -> None:
    proxy.delay_s, proxy.bytes_per_s = (0.1, 0.2), 128 << 10
    time.sleep(10)


def slices(proxy: FaultProxy) -> None:
    proxy.slice_bytes = 7
    time.sleep(4)


# Forgotten connections one side after the other: what mends the one could mend the other by chance.
FAULTS: tuple[tuple[str, Callable[[FaultProxy], None]], ...] = (
    ("source target", stalls), ("source target", goes_down), ("source", forgets_connections), ("target", forgets_connections),
    ("source target", resets), ("source target", crawls), ("source target", slices),
)  # fmt: skip


def test_whatever_the_network_does_all_arrives_once_and_in_order(source, target, topic, tmp_path: Path):
    links = {"source": source[1], "target": target[1]}
    create(source[0], topic, 2)
    with RunningAppliance(
        tmp_path, primary=source[2], backup=target[2], topics=topic,
        extra="primary.consumer.request.timeout.ms = 10000\nbackup.producer.request.timeout.ms = 10000",
    ) as running:  # fmt: skip
        with load(source[0], topic):
            for sides, fault in FAULTS:
                flows(
                    target[0],
                    f"primary.{topic}",
                    more=50,
                    within_s=60,
                    because=f"all is well before it {fault.__name__}",
                )
                with ThreadPoolExecutor() as both:
                    list(both.map(fault, [links[side] for side in sides.split()]))
                for link in links.values():
                    link.heal()
                flows(
                    target[0],
                    f"primary.{topic}",
                    more=300,
                    within_s=60,
                    because=f"it {fault.__name__} ({sides}) and is well again",
                )
        for partition in (0, 1):
            await_replicated(running, source[0], topic, f"primary.{topic}", partition)
        assert differences(source[0], target[0], topic, f"primary.{topic}") == []


def test_a_source_that_is_down_at_the_start_joins_when_it_answers_and_holds_up_no_other(
    primary, source, target, topic, tmp_path: Path
):
    far, proxy, address = source
    create(primary, topic)
    create(far, topic)
    write(primary, topic, rows(50))
    write(far, topic, rows(70))
    proxy.is_down = True
    try:
        with RunningAppliance(
            tmp_path, primary=primary.bootstrap, backup=target[2], topics=topic,
            extra=f"clusters = primary, backup, far\nfar.bootstrap.servers = {address}\nfar->backup.enabled = true\n"
            f"far->backup.topics = {topic}\n",
        ) as running:  # fmt: skip
            await_replicated(running, primary, topic, f"primary.{topic}")
            assert 'kafka_mirror_cluster_up{cluster="far"} 0' in running.exposition()
            assert "Its flows are tried again" in running.log.read_text()
            proxy.heal()
            await_replicated(running, far, topic, f"far.{topic}")
            assert differences(far, target[0], topic, f"far.{topic}") == []
            assert 'kafka_mirror_cluster_up{cluster="far"} 1' in running.exposition()
    finally:
        proxy.heal()
