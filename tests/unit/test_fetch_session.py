"""Fetch sessions: whatever is asked and whatever fails, a broker fetches exactly what was wanted last."""

from __future__ import annotations

import uuid
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.kafka.errors import ErrorCode
from mirror.kafka.fetch_request import FetchLimits, fetch_request
from mirror.kafka.fetch_session import Delta, FetchPosition, FetchSession
from mirror.kafka.fetcher import Fetched, parts_of
from mirror.model.topic_partition import TopicPartition
from tests import wire

IDS = [uuid.UUID(int=n) for n in range(1, 4)]
KEYS = [("t", 0), ("t", 1), ("uu", 0)]
LIMITS = FetchLimits(500, 1, 1 << 20, 0)


class Broker:
    """A broker's side of a session, from FetchSession and FetchManager: topic-partitions by id where it speaks ids."""

    def __init__(self, *, has_ids: bool, has_room: bool = True) -> None:
        self.has_ids = has_ids
        self.has_room = has_room
        self.session: dict[Any, tuple[int, int]] | None = None
        self.session_id = self.epoch = 0
        self.fetches: dict[Any, tuple[int, int]] = {}

    def fetch(self, delta: Delta) -> tuple[ErrorCode, int]:
        """Take a request; return the error, and the session's id."""
        request = fetch_request(delta, LIMITS)
        version = min(request.highest, 17 if self.has_ids else 12)
        message = request.build(wire.request_module(1, version), version)
        named = {
            (topic.topic_id if version > 12 else topic.topic, part.partition): (
                part.fetch_offset,
                part.partition_max_bytes,
            )
            for topic in message.topics
            for part in topic.partitions
        }
        gone = [
            (topic.topic_id if version > 12 else topic.topic, partition)
            for topic in message.forgotten_topics_data
            for partition in topic.partitions
        ]
        if message.session_epoch == 0:
            self.fetches = named
            self.session_id = self.session_id + 1 if self.has_room else 0
            self.session, self.epoch = (dict(named), 1) if self.has_room else (None, 0)
            return ErrorCode.none, self.session_id
        if self.session is None or message.session_id != self.session_id:
            return ErrorCode.fetch_session_id_not_found, 0
        if message.session_epoch != self.epoch:
            return ErrorCode.invalid_fetch_session_epoch, 0
        self.session |= named
        for key in gone:
            self.session.pop(key, None)
        self.epoch += 1
        self.fetches = self.session
        return ErrorCode.none, self.session_id


WANTED = st.dictionaries(st.sampled_from(KEYS), st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1)
STEPS = st.lists(
    st.tuples(WANTED, st.sampled_from(["answer"] * 4 + ["no answer", "forgets", "unknown ids"])), max_size=30
)


@given(STEPS, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_broker_fetches_what_was_wanted_in_the_request_that_it_answers(steps, has_ids, has_room):
    """A and B of FetchSession. Topics are replaced by others of their name now and then, and some have no id for a while."""
    broker, session = Broker(has_ids=has_ids, has_room=has_room), FetchSession()
    for wants, event in steps:
        wanted: dict[TopicPartition, FetchPosition] = {}
        by_topic = {topic: uuid.UUID(int=10 * number + len(topic)) for (topic, _), (_, number) in wants.items()}
        for (topic, partition), (offset, _) in wants.items():
            topic_id = None if event == "unknown ids" else by_topic[topic]
            wanted[topic, partition] = FetchPosition(offset, 100, topic_id)
        if event == "forgets":
            broker.session = None
        for _ in range(3):
            code, session_id = broker.fetch(session.next(wanted))
            if event == "no answer":
                session.reset()
                break
            if code is ErrorCode.none:
                session.answered(session_id)
                uses_ids = has_ids and event != "unknown ids"
                assert not uses_ids or {session.names[at.topic_id] for at in wanted.values()} == {t for t, _ in wanted}
                assert broker.fetches == {
                    ((at.topic_id if uses_ids else topic), partition): (at.offset, 100)
                    for (topic, partition), at in wanted.items()
                }
                break
            session.lost()
        else:
            raise AssertionError("it does not recover")


def test_an_idle_topic_partition_costs_nothing_in_a_request():
    session = FetchSession()
    wanted = {("t", n): FetchPosition(0, 100, IDS[0]) for n in range(1000)}
    assert len(session.next(wanted).wanted) == 1000
    session.answered(7)
    wanted["t", 5] = FetchPosition(1, 100, IDS[0])
    delta = session.next(wanted)
    assert (delta.wanted, delta.forgotten, delta.session_id, delta.epoch) == ({("t", 5): wanted["t", 5]}, {}, 7, 1)


def test_fetch_responses_map_topic_ids_to_names_and_skip_unrequested_topics():
    module = wire.answer_module(1, 17)

    def topic(topic_id: uuid.UUID, partition: int) -> Any:
        part = module.PartitionData(
            partition_index=partition,
            error_code=ErrorCode.none,
            high_watermark=9,
            aborted_transactions=(module.AbortedTransaction(producer_id=4, first_offset=2),),
            records=b"abc",
        )
        return module.FetchableTopicResponse(topic_id=topic_id, partitions=(part,))

    answer = module.FetchResponse(
        throttle_time=timedelta(0), error_code=ErrorCode.none, responses=(topic(IDS[0], 1), topic(IDS[1], 0))
    )
    names = {IDS[0]: "t"}
    assert parts_of(answer, names) == [Fetched("t", 1, ErrorCode.none, 9, -1, [(4, 2)], b"abc")]
    named = SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=answer.responses[0].partitions)])
    assert parts_of(named, names) == parts_of(answer, names)
