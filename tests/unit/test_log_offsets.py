"""Where logs begin and end, of a cluster that answers, moves its leaders, hangs, or is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mirror.errors import ClusterUnavailable
from mirror.kafka.cluster import Cluster
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError, NoAnswerError
from mirror.kafka.kept_client import KeptClient
from mirror.kafka.log_offsets import LogOffsets
from mirror.kafka.messages import answers as answer_kinds
from mirror.kafka.messages import make
from mirror.kafka.protocol import EARLIEST, LATEST
from tests.unit.fake_broker import METADATA, BrokerInAThread, FakeBroker

LIST_OFFSETS = 2
STARTS, ENDS = {("t", 0): 3, ("t", 1): 0, ("u", 0): 7}, {("t", 0): 10, ("t", 1): 0, ("u", 0): 8}
OFTEN = 5
PATIENCE_S = 30.0  # for what is answered at once on a quiet machine


class Logs:
    """Answers for the logs of STARTS and ENDS; `codes` are what it refuses, by topic-partition, each once."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.broker.api_versions[LIST_OFFSETS] = (1, 7)
        self.broker.topics = {"t": 2, "u": 1}
        self.broker.handlers[LIST_OFFSETS] = self._answer
        self.codes: dict[tuple[str, int], ErrorCode] = {}
        self.is_silent = False

    def asked(self, api: int) -> list[Any]:
        return [request for found, _, request in self.broker.asked if found == api]

    def _answer(self, request: Any, version: int) -> Any:
        if self.is_silent:
            return None
        module = answer_kinds(LIST_OFFSETS, version)
        topics = tuple(
            make(
                module.ListOffsetsTopicResponse,
                name=topic.name,
                partitions=tuple(
                    make(
                        module.ListOffsetsPartitionResponse,
                        partition_index=part.partition_index,
                        error_code=self.codes.pop((topic.name, part.partition_index), ErrorCode.none),
                        timestamp=-1,
                        offset=(STARTS if part.timestamp == EARLIEST else ENDS)[topic.name, part.partition_index],
                    )
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return make(module.ListOffsetsResponse, throttle_time=timedelta(0), topics=topics)


@pytest.fixture
def logs() -> Iterator[Logs]:
    with BrokerInAThread() as cluster:
        yield Logs(cluster.broker)


@pytest.fixture
def offsets(logs) -> Iterator[LogOffsets]:
    client = KeptClient({"bootstrap.servers": logs.broker.address})
    yield LogOffsets(client, within_s=PATIENCE_S)
    client.close()


def test_bounds_are_asked_for_in_one_request_over_connections_that_stay_open(logs, offsets):
    for _ in range(OFTEN):
        assert offsets.ask(STARTS, EARLIEST) == STARTS
        assert offsets.ask(ENDS, LATEST, isolation_level=1) == ENDS
    assert len(logs.asked(LIST_OFFSETS)) == 2 * OFTEN
    assert {request.isolation_level for request in logs.asked(LIST_OFFSETS)} == {0, 1}
    assert len(logs.asked(METADATA)) == 1
    assert len(logs.broker.connects_s) == 2, "one to bootstrap, one to the leader"


def test_an_empty_request_opens_no_connection(logs, offsets):
    assert offsets.ask([], LATEST) == {}
    assert logs.broker.connects_s == []


def test_only_partitions_with_a_new_leader_are_requested_again(logs, offsets):
    logs.codes = {("t", 1): ErrorCode.not_leader_or_follower}
    assert offsets.ask(ENDS, LATEST) == ENDS
    again = logs.asked(LIST_OFFSETS)[-1]
    assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in again.topics] == [("t", [1])]


def test_a_refused_partition_affects_no_other(logs, offsets):
    logs.codes = {("t", 0): ErrorCode.topic_authorization_failed}
    found = offsets.ask([*ENDS, ("gone", 0)], LATEST)
    refused, gone = found.pop(("t", 0)), found.pop(("gone", 0))
    assert isinstance(refused, BrokerError)
    assert refused.code is ErrorCode.topic_authorization_failed
    assert isinstance(gone, BrokerError)
    assert found == {("t", 1): 0, ("u", 0): 8}


def test_a_hanging_broker_has_a_time_limit_and_then_a_new_connection(logs, offsets, monkeypatch):
    offsets.ask(ENDS, LATEST)
    logs.is_silent, before, began_s = True, len(logs.broker.connects_s), time.monotonic()
    with monkeypatch.context() as briefly:
        briefly.setattr(offsets, "_within_s", 0.3)
        found = offsets.ask(ENDS, LATEST)
    assert time.monotonic() - began_s < PATIENCE_S
    assert all(isinstance(answer, NoAnswerError) for answer in found.values())
    logs.is_silent = False
    assert offsets.ask(ENDS, LATEST) == ENDS
    assert len(logs.broker.connects_s) > before


def test_threads_that_ask_at_once_for_other_topics_have_their_own_answers(logs, offsets):
    found: list[bool] = []

    def ask(topic: str) -> None:
        wanted = {place: end for place, end in ENDS.items() if place[0] == topic}
        found.extend(offsets.ask(wanted, LATEST) == wanted for _ in range(OFTEN))

    threads = [threading.Thread(target=ask, args=(topic,)) for topic in "tutu"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * OFTEN * len(threads)


def test_it_is_asked_again_after_it_was_closed(logs, offsets):
    offsets.ask(ENDS, LATEST)
    offsets._client.close()
    assert offsets.ask(ENDS, LATEST) == ENDS


def test_a_lost_cluster_is_unavailable_by_alias_until_it_returns(logs):
    admin = Cluster(
        "primary", {"bootstrap.servers": logs.broker.address, "reconnect.backoff.ms": "10"}, within_s=PATIENCE_S
    )
    logs.broker.refuses = True
    with pytest.raises(ClusterUnavailable, match=r"^cluster primary \(127.*\): no answer \(.*\)\. Is it up") as refused:
        admin.end_offsets(ENDS, read_committed=False)
    assert refused.value.cluster == "primary"
    assert isinstance(refused.value.__cause__, KafkaError)
    logs.broker.refuses = False
    assert admin.start_offsets(STARTS) == STARTS
    admin.close()


def test_a_cluster_is_unavailable_only_if_every_response_is_an_error(logs):
    admin = Cluster("primary", {"bootstrap.servers": logs.broker.address}, within_s=PATIENCE_S)
    with pytest.raises(ClusterUnavailable, match=r"no answer \(gone-0: UNKNOWN_TOPIC_OR_PARTITION\)"):
        admin.end_offsets([("gone", 0)], read_committed=False)
    assert admin.end_offsets([("gone", 0), ("u", 0)], read_committed=False) == {("u", 0): 8}
    admin.close()
