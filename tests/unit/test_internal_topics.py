"""Internal topics that were deleted and created again are recognized by their ids."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from mirror.config.clients import client_options
from mirror.errors import ClusterRefuses
from mirror.kafka.errors import BrokerError
from mirror.kafka.internal_topics import TopicsById, _bound, answered, partitions_of, read_checkpoints
from mirror.model.topic_partition import TopicPartition
from tests.unit.fake_broker import FakeBroker


def test_a_topic_is_new_until_registered_and_never_without_an_id(caplog):
    ids = {"t": "first", "u": "u"}
    cluster: Any = SimpleNamespace(topic_id=lambda topic: ids.get(topic, ""))
    topics = TopicsById("a->b")
    assert not topics.is_another(cluster, "t"), "nothing is known of it yet"
    topics.register(cluster, "t")
    topics.register(cluster, "u")
    ids["t"] = ""
    assert not topics.is_another(cluster, "t"), "it is deleted, or its broker knows no ids"
    topics.register(cluster, "t")
    ids["t"] = "second"
    assert topics.is_another(cluster, "t")
    assert topics.is_another(cluster, "t"), "it could not be filled"
    assert "a->b: internal topic t was deleted and created again" in caplog.text
    topics.register(cluster, "t")
    assert not topics.is_another(cluster, "t")
    assert not topics.is_another(cluster, "u")


@pytest.mark.parametrize("read", [read_checkpoints, partitions_of])
def test_a_hidden_topic_is_not_a_missing_topic(read):
    async def ask() -> Any:
        async with FakeBroker() as broker:
            broker.topics["other"] = 1
            options = client_options({"bootstrap.servers": broker.address})
            nothing = await read(options, "nowhere")
            broker.refusals["t"] = ErrorCode.topic_authorization_failed
            assert nothing in ([], ([], []))
            return await read(options, "t")

    with pytest.raises(ClusterRefuses, match="Grant this client DESCRIBE on the topic"):
        answered(ask(), cluster="b", what="checkpoints cannot be read")


@pytest.mark.usefixtures("virtual_clock")
@pytest.mark.parametrize(
    ("code", "times", "expected"),
    [
        pytest.param(ErrorCode.not_leader_or_follower, 3, 7, id="a new topic gets its leader"),
        pytest.param(ErrorCode.not_leader_or_follower, 999, None, id="it gets none"),
        pytest.param(ErrorCode.topic_authorization_failed, 1, None, id="a refusal is final"),
    ],
)
def test_the_bounds_of_a_new_topic_wait_for_its_leader(code, times, expected):
    refusals = [BrokerError(code)] * times

    class Reader:
        async def offsets(self, wanted, *, isolation_level):
            return dict.fromkeys(wanted, refusals.pop() if refusals else 7)

        def learn(self):
            pass

    async def bound() -> int | None:
        try:
            return await _bound(Reader(), TopicPartition("t", 0), -1, patience_s=2)
        except BrokerError:
            return None

    assert asyncio.run(bound()) == expected
