"""Our client beside real brokers, of the oldest release that a migration meets and of the newest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.errors import ClusterUnavailable
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Source
from mirror.kafka.group_offsets import patiently
from mirror.kafka.internal_topics import committed, ends, read_topic, starts
from mirror.kafka.log_reader import read_batches, records_from
from mirror.kafka.metadata import id_of
from mirror.kafka.producer import NotAppendedError
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.kafka.remote_logs import RemoteLogs, bounds_of
from mirror.kafka.target import Target
from mirror.model.codecs import CODECS
from mirror.model.identical_offsets import Fill, Log
from mirror.model.record_batches import Outgoing, Packer, batches, records
from mirror.model.record_batches import committed as committed_only
from mirror.model.records import body_of
from mirror.model.sequences import NextSequence
from mirror.model.topic_partition import TopicPartition
from tests.integration.records import create
from tests.integration.zookeeper import broker_with_zookeeper
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

VERSIONS = [
    pytest.param(version, marks=[pytest.mark.xdist_group(f"client of {version}"), *marks])
    for version, marks in {
        "4.1.1": [],
        "4.4.0": [],
        "2.8.2 with ZooKeeper": [],
        "3.3.2": [pytest.mark.nightly],
        "3.9.1": [pytest.mark.nightly],
    }.items()
]
LIMITS = FetchLimits(500, 1, 1 << 20, 0)
BATCH = 1 << 20


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request, tmp_path_factory) -> Iterator[Broker]:
    folder: Path = tmp_path_factory.mktemp("versions")
    if "ZooKeeper" in request.param:
        with broker_with_zookeeper("old", folder) as old:
            yield old
    else:
        with Broker.start("versions", folder / "broker", version=request.param) as plain:
            yield plain


class Ends:
    """A reader and writers of one cluster, closed at the end of a scene."""

    def __init__(self, broker: Broker, stack: AsyncExitStack) -> None:
        self._options = client_options({"bootstrap.servers": broker.bootstrap})
        self._stack = stack

    async def target(self, topic: str, transactional_id: str | None = None) -> Target:
        made = Target(self._options, request_bytes=BATCH, transactional_id=transactional_id)
        self._stack.push_async_callback(made.close)
        await made.open({topic})
        return made

    def logs(self, transactional_id: str) -> RemoteLogs:
        made = RemoteLogs(self._options, transactional_id)
        self._stack.push_async_callback(made.close)
        return made

    async def source(self, topic: str) -> Source:
        made = Source(self._options)
        self._stack.push_async_callback(made.close)
        await made.open({topic})
        return made


def played(broker: Broker, scene: Callable[[Ends], Awaitable[None]]) -> None:
    """Play a scene on the loop that workers have."""

    async def run() -> None:
        async with AsyncExitStack() as stack, asyncio.timeout(90):
            await scene(Ends(broker, stack))

    uvloop.run(run())


def restarted(broker: Broker) -> bool:
    try:
        broker.restart()
    except ClusterUnavailable:
        return False
    return True


def batch(values: Sequence[str], codec: str = "none") -> Outgoing:
    packer = Packer(CODECS[codec], BATCH)
    for index, value in enumerate(values):
        packer.append(1_700_000_000_000 + index, body_of(b"k", value.encode(), (("h", b"1"),)), index)
    return packer.build()


async def log_end(source: Source, topic: str, isolation_level: int) -> int:
    """Return the log-end offset of partition 0; a broker that has just started may not know it yet."""
    while True:
        (end,) = (await source.offsets({(topic, 0): LATEST}, isolation_level=isolation_level)).values()
        if isinstance(end, int):
            return end
        assert end.is_retriable, end
        await asyncio.sleep(0.1)
        await source.refresh()


async def everything(source: Source, topic: str, isolation_level: int = 0) -> list[str]:
    """Return the values of partition 0 as they are read back."""
    end = await log_end(source, topic, isolation_level)
    found: list[str] = []
    offset = 0
    while offset < end:
        node = source.leader(topic, 0)
        (part,) = await source.read(
            node, {(topic, 0): FetchPosition(offset, BATCH)}, LIMITS._replace(isolation_level=isolation_level)
        )
        assert part.error is ErrorCode.none
        fetched = list(batches(part.records))
        for one in committed_only(fetched, part.aborted) if isolation_level else fetched:
            found += [] if one.is_control else [record.value.decode() for record in records(one.data)]
        offset = fetched[-1].last_offset + 1
    return found


def test_batches_of_every_codec_are_read_and_sessions_name_only_changes(broker, topic):
    create(broker, topic, 3)

    async def scene(both: Ends) -> None:
        target, source = await both.target(topic), await both.source(topic)
        for partition, codec in enumerate(("none", "lz4", "zstd")):
            assert await target.send(batch([codec] * 3, codec), topic, partition) == 0
        for codec in ("gzip", "snappy"):
            await target.send(batch([codec] * 2, codec), topic, 0)
        node, topic_id = source.leader(topic, 0), id_of(source.topic_id(topic))
        positions = dict.fromkeys([(topic, n) for n in range(3)], 0)
        seen: dict[int, list[str]] = {n: [] for n in range(3)}
        while any(positions[topic, n] < (7 if n == 0 else 3) for n in range(3)):
            wanted = {place: FetchPosition(offset, BATCH, topic_id) for place, offset in positions.items()}
            for part in await source.fetch(node, wanted, LIMITS):
                assert part.error is ErrorCode.none
                for one in batches(part.records):
                    seen[part.partition] += [record.value.decode() for record in records(one.data)]
                    positions[topic, part.partition] = one.last_offset + 1
        assert seen == {0: ["none"] * 3 + ["gzip"] * 2 + ["snappy"] * 2, 1: ["lz4"] * 3, 2: ["zstd"] * 3}
        wanted = {place: FetchPosition(offset, BATCH, topic_id) for place, offset in positions.items()}
        assert all(not part.records for part in await source.fetch(node, wanted, LIMITS._replace(max_wait_ms=10)))
        fetching = asyncio.create_task(source.fetch(node, wanted, LIMITS._replace(max_wait_ms=20_000)))
        await asyncio.sleep(0.1)
        await target.send(batch(["news"]), topic, 1)
        (news,) = [part for part in await fetching if part.records]
        assert (news.partition, [record.value for record in records(news.records)]) == (1, [b"news"])

    played(broker, scene)


def test_another_connection_continues_the_numbers_and_late_batches_are_refused(broker, topic):
    """The fence of the default mode."""
    create(broker, topic)

    async def scene(both: Ends) -> None:
        first, second, source = await both.target(topic), await both.target(topic), await both.source(topic)
        numbers = first.numbers(topic, 0)
        assert numbers is not None
        ten = [str(n) for n in range(10)]
        assert await first.send(batch(ten), topic, 0, numbers) == 0
        behind = numbers.after(10)
        assert await second.send(batch(["a", "b"]), topic, 0, behind) == 10
        assert await first.send(batch(["a", "b"]), topic, 0, behind) == 10, "the same again: answered, not appended"
        assert await first.send(batch(ten), topic, 0, numbers) == 0
        for late in (NextSequence(*numbers[:2], 5), behind.after(50)):
            with pytest.raises(BrokerError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
                await first.send(batch(["late"]), topic, 0, late)
        others = second.numbers(topic, 0)
        assert await second.send(batch(["c"]), topic, 0, others) == 12, "numbers that nobody has used begin with 0"
        assert await everything(source, topic) == [*ten, "a", "b", "c"]

    played(broker, scene)


def test_transactions_are_visible_after_the_commit_and_fence_earlier_producers(broker, topic):
    create(broker, topic, 2)
    place, group = (topic, 0), f"g-{topic}"

    async def scene(both: Ends) -> None:
        one, source = await both.target(topic, f"id-{topic}"), await both.source(topic)
        await one.fence()
        for n in range(3):
            one.begin_transaction()
            await asyncio.gather(one.send(batch([f"kept {n}"]), *place), one.send(batch([f"kept {n}"]), topic, 1))
            await one.commit_transaction(group, {place: (n, "m")})
        one.begin_transaction()
        await one.send(batch(["taken back"]), *place)
        await one.abort_transaction()
        one.begin_transaction()
        await one.send(batch(["left open"]), *place)
        two = await both.target(topic, f"id-{topic}")
        await two.fence()
        with pytest.raises(KafkaError):
            await one.commit_transaction(group, {place: (99, "")})
        two.begin_transaction()
        await two.send(batch(["kept 3"]), *place)
        await two.commit_transaction(group, {place: (3, "m")})
        assert await two.committed(group, [place], is_stable=True) == {place: (3, "m")}
        assert await everything(source, topic, isolation_level=1) == [f"kept {n}" for n in range(4)]

    played(broker, scene)


def test_logs_are_filled_compared_and_shortened(broker, topic):
    """What identical offsets need: aborted transactions of one partition or several, with filler and without."""
    compacted = f"{topic}-compacted"
    create(broker, topic, 2)
    create(broker, compacted, cleanup_policy="compact")

    async def scene(both: Ends) -> None:
        target, source, logs = await both.target(topic), await both.source(topic), both.logs(f"{topic}.offsets")
        places = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(compacted, 0)]
        await logs.reader.open({topic, compacted})
        assert await logs.settle(places, None) == set(places)
        ends = await asyncio.gather(
            logs.fill(places[0], Fill(0, 50_000), 1),
            logs.fill(places[1], Fill(0, 3), 1),
            logs.fill(places[2], Fill(0, 20), 1),
        )
        assert ends == [50_000, 1, 20], "as much as one transaction does"
        await logs.fill(places[1], Fill(1, 2), 1)
        assert await target.send(batch(["after two markers"]), topic, 1) == 2
        assert await everything(source, topic, 1) == []
        filler = await read_batches(source, places[0], 0, 49_999, 0)
        assert records_from(filler, 0) == 49_999, "uncommitted readers see filler"
        await logs.delete_before(places[0], 50_000)
        assert await bounds_of(logs.reader, places, is_settled=True) == {
            places[0]: Log(50_000, 50_000),
            places[1]: Log(0, 3),
            places[2]: Log(0, 20),
        }
        before = both.logs(f"{topic}.offsets")
        await before.reader.open({topic})
        await before.settle(places, [])
        logs.begin_window()
        await logs.settle(places, None)
        assert await logs.fill(places[1], Fill(3, 4), 1) == 4, "a window opens the id again"
        with pytest.raises(KafkaError):
            await before.fill(places[1], Fill(4, 5), 1)

    played(broker, scene)


def test_a_groups_offsets_and_the_bounds_of_logs_are_returned(broker, topic):
    create(broker, topic, 2)
    group, options = f"g-{topic}", client_options({"bootstrap.servers": broker.bootstrap})

    async def scene(both: Ends) -> None:
        target, source = await both.target(topic), await both.source(topic)
        await patiently(lambda: target.commit(group, {(topic, 0): (5, "m"), (topic, 1): (0, "")}))
        assert await target.committed(group) == {(topic, 0): (5, "m"), (topic, 1): (0, "")}
        assert await target.committed(group, [(topic, 1)], is_stable=True) == {(topic, 1): (0, "")}
        assert await committed(options, group) == await target.committed(group)
        await target.send(batch(["x", "y"]), topic, 1)
        assert await ends(options, [(topic, 0), (topic, 1), ("gone", 0)]) == {(topic, 0): 0, (topic, 1): 2}
        assert await starts(options, [(topic, 1)]) == {(topic, 1): 0}
        found = await source.offsets({(topic, 1): LATEST, ("gone", 0): EARLIEST})
        assert found[topic, 1] == 2
        assert isinstance(found["gone", 0], BrokerError)
        assert [record.value async for _, record in read_topic(options, topic, 0, 1)] == [b"x", b"y"]

    played(broker, scene)


def create_again(broker: Broker, topic: str) -> None:
    """Create a topic that was deleted just now; for a moment it may be hidden, and there."""

    def is_created() -> bool:
        try:
            create(broker, topic)
        except KafkaException as error:
            assert error.args[0].name() != "TOPIC_ALREADY_EXISTS", error
            raise
        return True

    eventually(is_created, within_s=30, because="the topic is gone for good")


def test_brokers_with_topic_ids_refuse_reads_and_writes_of_a_replaced_topic(broker, topic):
    """Fetches go by ids from 3.1 on, batches from 4.0 on; before, a topic of the same name is taken for the same."""
    create(broker, topic)

    async def scene(both: Ends) -> None:
        source, target = await both.source(topic), await both.target(topic)
        node, before = source.leader(topic, 0), id_of(source.topic_id(topic))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        await asyncio.to_thread(admin.delete_topics([topic])[topic].result)
        while source.knows(topic, 0):
            await source.refresh()
            await asyncio.sleep(0.1)
        await asyncio.to_thread(create_again, broker, topic)
        while not (source.knows(topic, 0) and target.knows(topic, 0) and id_of(target.topic_id(topic)) != before):
            await asyncio.gather(source.refresh(), target.refresh())
            await asyncio.sleep(0.1)
        (part,) = await source.fetch(node, {(topic, 0): FetchPosition(0, BATCH, before)}, LIMITS)
        is_read = part.error is ErrorCode.none
        assert is_read or part.error in (ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)
        assert is_read == (broker.version < "3.1")
        sent = target.send(batch(["x"]), topic, 0, target.numbers(topic, 0), before)
        if broker.version < "4":
            assert await sent == 0
        else:
            with pytest.raises(NotAppendedError, match="TOPIC_ID"):
                await sent
            now = id_of(target.topic_id(topic))
            assert await target.send(batch(["y"]), topic, 0, target.numbers(topic, 0), now) == 0

    played(broker, scene)


def test_numbers_outlive_a_broker_that_is_killed(broker, topic):
    create(broker, topic)
    numbers: list[NextSequence] = []

    async def before(both: Ends) -> None:
        target = await both.target(topic)
        numbers.append(target.numbers(topic, 0))
        packer = Packer(CODECS["none"], BATCH)
        packer.append(int(time.time() * 1000), body_of(b"k", b"first"), 0)  # of old records a broker forgets it
        await target.send(packer.build(), topic, 0, numbers[0])

    async def after(both: Ends) -> None:
        target, source = await both.target(topic), await both.source(topic)
        with pytest.raises(BrokerError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await target.send(batch(["gap"]), topic, 0, numbers[0].after(7))
        assert await target.send(batch(["second"]), topic, 0, numbers[0].after(1)) == 1
        assert await everything(source, topic) == ["first", "second"]

    played(broker, before)
    broker.kill()
    eventually(lambda: restarted(broker), within_s=60, because="ZooKeeper has forgotten the one before")
    played(broker, after)
