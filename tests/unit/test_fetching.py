"""From which broker topic-partitions are read, and what becomes of them where its log is not what was read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from unittest.mock import create_autospec

import pytest

from mirror.config.clients import fetch_options
from mirror.kafka.client import Purpose
from mirror.kafka.errors import ErrorCode, NotConnectedError
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Fetched, Source
from mirror.model.flow_plan import PlannedPartition
from mirror.model.leader_epochs import LeaderEpochs
from mirror.model.record_batches import CODECS, Packer, with_producer_state
from mirror.model.records import body_of
from mirror.model.topic_partition import TopicPartition
from mirror.replication.fetching import Fetching
from mirror.replication.partition import FetchState, Partition, Pause
from mirror.replication.pauses import Pauses
from mirror.replication.read_ahead import ReadAhead

pytestmark = pytest.mark.usefixtures("virtual_clock")

LEADER, REPLICA = 1, 2
PLACE = ("t", 0)
Answer = Callable[[int], list[Fetched]]


def part(**values: object) -> Fetched:
    plain = Fetched(*PLACE, ErrorCode.none, high_watermark=50, log_start=0, aborted=[], records=b"")
    return plain._replace(**values)  # type: ignore[arg-type]


def fetchers(
    source: Source,
    partitions: Mapping[TopicPartition, Partition],
    *,
    busy: Collection[TopicPartition],
    on_doubt: Callable[[Partition], None] = lambda _: None,
    linger_s: float = 0.0,
) -> Fetching:
    """Return the fetchers of a flow, in a rack, which have not begun."""
    return Fetching(
        name="a->b",
        source=source,
        partitions=partitions,
        options=fetch_options({"client.rack": "here"}),
        linger_s=linger_s,
        read_ahead=ReadAhead(),
        pauses=create_autospec(Pauses, instance=True),
        busy_before=busy,
        on_batches=lambda _: None,
        on_doubt=on_doubt,
    )


class Asked:
    """Plays a source: `answers` are played one after the other for fetches of what has data, then nobody answers any more."""

    def __init__(self, *answers: list[Fetched] | Exception) -> None:
        self.fetches: list[tuple[int, str, FetchPosition]] = []  # node, rack, from where
        self._answers = list(answers)
        self.is_over = asyncio.Event()
        self.doubted: list[Partition] = []
        self.source = create_autospec(Source, instance=True)
        self.source.leader.return_value = LEADER
        self.source.fetch = self._fetch

    async def _fetch(
        self, node: int, wanted: Mapping[TopicPartition, FetchPosition], limits: FetchLimits, purpose: Purpose
    ) -> list[Fetched]:
        if purpose is Purpose.IDLE_FETCH:
            await asyncio.Event().wait()
        self.fetches.append((node, limits.rack, wanted[PLACE]))
        if not self._answers:
            self.is_over.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def play(self, partition: Partition) -> None:
        """Fetch one topic-partition until all answers were played, or it is doubted."""

        def doubt(doubted: Partition) -> None:
            self.doubted.append(doubted)
            doubted.doubt()
            self.is_over.set()

        fetching = fetchers(self.source, {PLACE: partition}, busy=[PLACE], on_doubt=doubt)
        fetching.follow_leaders()
        async with asyncio.timeout(10):
            await self.is_over.wait()
        await fetching.stop()


def partition() -> Partition:
    return Partition(PlannedPartition("t", "a.t", 0, ""), 50, 50, epochs=LeaderEpochs.before_position(50, 3))


def stamped_batch() -> bytes:
    """One record at offset 0, as a source tells it."""
    packer = Packer(CODECS["none"], 1 << 20)
    packer.append(0, body_of(b"k", b"v"), 0)
    return b"".join(with_producer_state(packer.build().data, -1, -1, -1, transactional=False))


def played(*answers: list[Fetched] | Exception) -> tuple[Asked, Partition]:
    async def run() -> tuple[Asked, Partition]:
        asked, one = Asked(*answers), partition()
        await asked.play(one)
        return asked, one

    return asyncio.run(run())


def test_the_replica_that_the_leader_names_is_read():
    asked, _ = played([part(read_replica=REPLICA)], [part(high_watermark=40)])
    assert [(node, rack) for node, rack, _ in asked.fetches] == [(LEADER, "here"), (REPLICA, "here"), (REPLICA, "here")]
    assert asked.doubted == [], "a replica may not know yet what the leader has said"


def test_a_fetch_that_a_replica_refuses_goes_to_the_leader():
    for refusal in ([part(error=ErrorCode.offset_out_of_range)], NotConnectedError("it is gone")):
        asked, one = played([part(read_replica=REPLICA)], refusal, [part()])
        assert [(node, rack) for node, rack, _ in asked.fetches] == [
            (LEADER, "here"),
            (REPLICA, "here"),
            (LEADER, ""),
            (LEADER, ""),
        ]
        assert (one.position, one.fetch.truncated_to) == (50, None)


def test_a_fetch_names_the_epoch_and_goes_back_to_where_the_log_differs():
    for end, back in ((30, 30), (70, 50)):
        asked, one = played([part(diverged_at=end, high_watermark=90)])
        assert asked.fetches[0][2].last_epoch == 3
        assert (asked.doubted, one.fetch.truncated_to) == ([one], back)


def test_an_expired_epoch_is_left_out_of_the_offset_request():
    async def run() -> tuple[Asked, Partition]:
        asked, one = Asked([part(error=ErrorCode.offset_out_of_range)]), partition()
        asked.source.offsets.side_effect = [{PLACE: 50}, {PLACE: 90}]
        await asked.play(one)
        return asked, one

    asked, one = asyncio.run(run())
    assert [at.last_epoch for _, _, at in asked.fetches] == [3, -1]
    assert (one.position, one.fetch.truncated_to, asked.doubted) == (50, None, [])


def test_a_partition_that_has_data_again_is_fetched_at_once():
    """Otherwise its next record would wait for the end of a fetch that does not ask for it, half a second."""
    other = ("t", 1)
    data = stamped_batch()

    async def run() -> list[tuple[Purpose, list[TopicPartition]]]:
        quiet, woken = (
            Partition(PlannedPartition("t", "a.t", 0, ""), 0, 0),
            Partition(PlannedPartition("t", "a.t", 1, ""), 0, 0),
        )
        asked: list[tuple[Purpose, list[TopicPartition]]] = []
        answer_idle, is_over = asyncio.Event(), asyncio.Event()

        async def fetch(
            node: int, wanted: Mapping[TopicPartition, FetchPosition], limits: FetchLimits, purpose: Purpose
        ) -> list[Fetched]:
            asked.append((purpose, sorted(wanted)))
            if purpose is Purpose.IDLE_FETCH and len([1 for which, _ in asked if which is purpose]) == 1:
                await answer_idle.wait()
                return [Fetched(*other, ErrorCode.none, 1, 0, [], data)]
            if len(asked) == 3:
                is_over.set()
            await asyncio.Event().wait()
            raise AssertionError

        source = create_autospec(Source, instance=True)
        source.leader.return_value = LEADER
        source.fetch = fetch
        fetching = fetchers(source, {PLACE: quiet, other: woken}, busy=[PLACE])
        fetching.follow_leaders()
        await asyncio.sleep(0)
        answer_idle.set()
        async with asyncio.timeout(10):
            await is_over.wait()
        assert fetching.busy == {PLACE, other}
        assert woken.position == 1
        await fetching.stop()
        return asked

    asked = asyncio.run(run())
    assert sorted(asked[:2]) == [(Purpose.DATA, [PLACE]), (Purpose.IDLE_FETCH, [other])]
    assert asked[2] == (Purpose.IDLE_FETCH, [other])


@pytest.mark.parametrize(("is_paused", "wait_ms"), [(False, 2_000), (True, 500)])
def test_a_fetch_of_idle_partitions_waits_longer_unless_it_leaves_one_out(is_paused, wait_ms):
    """A partition that is paused for less than that must be in the next fetch."""

    async def run() -> dict[Purpose, int]:
        waits: dict[Purpose, int] = {}

        async def fetch(
            node: int, wanted: Mapping[TopicPartition, FetchPosition], limits: FetchLimits, purpose: Purpose
        ) -> list[Fetched]:
            waits.setdefault(purpose, limits.max_wait_ms)
            return await asyncio.Event().wait()  # type: ignore[func-returns-value]

        source = create_autospec(Source, instance=True)
        source.leader.return_value = LEADER
        source.fetch = fetch
        partitions = {("t", n): Partition(PlannedPartition("t", "a.t", n, ""), 0, 0) for n in range(3)}
        if is_paused:
            partitions["t", 2].pause.begin(Pause.BACK_OFF, "why", asyncio.get_running_loop().time() + 1)
        fetching = fetchers(source, partitions, busy=[PLACE])
        fetching.follow_leaders()
        await asyncio.sleep(0.01)
        assert not fetching.is_silent()
        await asyncio.sleep(wait_ms / 1000 + 1.1)
        assert fetching.is_silent()
        await fetching.stop()
        return waits

    assert asyncio.run(run()) == {Purpose.DATA: 500, Purpose.IDLE_FETCH: wait_ms}


def test_metadata_are_requested_while_a_topic_partition_has_no_leader():
    """No broker is asked for its records, so no refusal names its next leader."""

    async def run() -> None:
        source = create_autospec(Source, instance=True)
        source.leader.return_value = None
        source.knows.return_value = True
        fetching = fetchers(source, {PLACE: partition()}, busy=[PLACE])
        fetching.follow_leaders()
        assert source.learn.call_count == 1
        source.leader.return_value = LEADER
        fetching.follow_leaders()
        await fetching.stop()
        assert source.learn.call_count == 1

    asyncio.run(run())


def test_metadata_are_not_requested_for_a_topic_that_the_source_does_not_show():
    async def run() -> None:
        source = create_autospec(Source, instance=True)
        source.leader.return_value = None
        source.knows.return_value = False
        fetchers(source, {PLACE: partition()}, busy=[PLACE]).follow_leaders()
        assert source.learn.call_count == 0

    asyncio.run(run())


def test_a_leader_must_have_what_a_replica_has_shown():
    """A lower high watermark of the leader raises a doubt; a replica's may be lower."""
    state = FetchState()
    state.see(12)
    state.follow_replica(2)
    assert state.high_watermark == -1
    state.see(9)
    state.follow_leader()
    assert (state.read_replica, state.high_watermark) == (None, 9)
