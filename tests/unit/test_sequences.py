"""The fence of the default mode: whichever process sleeps and whatever comes late, a broker has each record once and in order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.kafka.errors import DisconnectedError, ErrorCode, KafkaError
from mirror.kafka.messages import Request
from mirror.kafka.producer import Producer
from mirror.model.record_batches import HEADER, Outgoing, of_values, records
from mirror.model.sequences import SEQUENCES, NextSequence
from mirror.runtime.clock import now_ms
from tests.unit.fakes import FakeClient

pytestmark = pytest.mark.usefixtures("virtual_clock")

T = ("t", 0)


@dataclass
class ProducerEntry:
    """What a broker keeps of a producer: epoch, and (first, last, base offset) of its last five batches."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))


class Broker(FakeClient):
    """One topic-partition's leader, by the rules of ProducerStateManager and ProducerAppendInfo."""

    def __init__(self) -> None:
        self.log: list[int] = []  # source offsets, which are the records' values
        self.producers: dict[int, ProducerEntry] = {}
        self.late: list[bytes] = []  # batches of requests that are still on the network
        self.ids = 0
        self.loses = False  # the next request: its connection ends, and it arrives later
        self.metadata = SimpleNamespace(leader=lambda *_: 1, update_leader=lambda *_: None)

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        header = HEADER.unpack_from(data)
        producer_id, epoch, first, count = header[-4:]
        last = (first + count - 1) % SEQUENCES
        entry = self.producers.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch:
                return ErrorCode.invalid_producer_epoch, -1
            if epoch > entry.epoch:
                if first != 0:
                    return ErrorCode.out_of_order_sequence_number, -1
                entry = None
            else:
                for known_first, known_last, base in entry.batches:
                    if (known_first, known_last) == (first, last):
                        return ErrorCode.none, base
                if entry.batches and first != (entry.batches[-1][1] + 1) % SEQUENCES:
                    return ErrorCode.out_of_order_sequence_number, -1
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        base = len(self.log)
        entry.batches.append((first, last, base))
        self.log += [int(record.value or b"") for record in records(data)]
        return ErrorCode.none, base

    def deliver(self) -> None:
        """Let a late batch arrive."""
        if self.late:
            self.append(self.late.pop(0))

    async def ask_any(self, request: Request) -> Any:
        self.ids += 1
        return SimpleNamespace(error_code=ErrorCode.none, producer_id=self.ids, producer_epoch=0)

    async def answered(self, message: Any) -> Any:
        await asyncio.sleep(0)
        data = bytes(message.topic_data[0].partition_data[0].records)
        if self.loses:
            self.late.append(data)
            raise DisconnectedError("the cable is out")
        code, base = self.append(data)
        part = SimpleNamespace(index=0, error_code=code, base_offset=base)
        return SimpleNamespace(responses=[SimpleNamespace(name="t", partition_responses=[part])])


def of_offsets(first: int, count: int) -> Outgoing:
    (batch,) = of_values([(b"", b"%d" % n) for n in range(first, first + count)], timestamp_ms=int(now_ms()))
    return batch


class Committed:
    """The position of the topic-partition, as the target's group has it."""

    def __init__(self) -> None:
        self.acked = 0
        self.sequence: NextSequence | None = None


class Window:
    """A window of the mirror, as far as positions and numbers go (mirror.replication)."""

    def __init__(self, broker: Broker, store: Committed) -> None:
        self.broker, self.store = broker, store
        self.acked, self.sequence = store.acked, store.sequence
        self.is_over = False

    def compare(self) -> None:
        """Go on behind what the target has behind the position: recovery."""
        tail = self.broker.log[self.acked :]
        assert tail == list(range(self.acked, self.acked + len(tail)))
        if tail:
            self.acked += len(tail)
            self.sequence = self.sequence.after(len(tail)) if self.sequence is not None else None
        elif self.sequence is not None and self.sequence.is_doubted:
            self.sequence = None

    async def send(self, producer: Producer, count: int) -> None:
        if self.sequence is None:
            self.sequence = producer.numbers(*T)
            self.commit()  # before the first batch that has them
        sent = producer.send(of_offsets(self.acked, count), *T, self.sequence)
        try:
            await asyncio.wait_for(asyncio.shield(sent), 0.02)
        except TimeoutError:
            self.is_over = True  # it waits for an answer that does not come
            return
        except KafkaError:
            self.sequence = self.sequence.doubted()
            self.is_over = True
            return
        self.acked += count
        self.sequence = self.sequence.after(count)

    def commit(self) -> None:
        self.store.acked, self.store.sequence = self.acked, self.sequence


STEP = st.one_of(
    st.tuples(
        st.sampled_from(["send", "send", "send", "lose", "commit", "arrive", "sleep", "wake"]), st.integers(1, 4)
    ),
    st.tuples(st.just("next"), st.booleans()),
)


@given(st.lists(STEP, max_size=60))
@settings(max_examples=400, deadline=None)
def test_suspended_processes_and_late_batches_leave_each_record_once_and_in_order(steps):
    """Windows follow one another, with a look at the target's log or without; sleepers send on, and commit old positions."""

    async def run() -> None:
        broker, store = Broker(), Committed()

        async def opened() -> Producer:
            made = Producer(broker, request_bytes=1 << 20, request_timeout_ms=1000, retry_s=10)
            await made.open()
            return made

        producer, window = await opened(), Window(broker, store)
        sleeper: tuple[Producer, Window] | None = None
        for step, value in [*steps, ("arrive", 1), ("arrive", 1), ("arrive", 1)]:
            broker.loses = step == "lose"
            if step in ("send", "lose") and not window.is_over:
                await window.send(producer, int(value))
            elif step == "commit":
                window.commit()
            elif step == "arrive":
                broker.deliver()
            elif step == "sleep":
                sleeper = (producer, window)
                producer, window = await opened(), Window(broker, store)
                window.compare()
            elif step == "wake" and sleeper is not None and sleeper[1].sequence is not None:
                # Who has no numbers yet commits them first, and then looks at its lease: it is another's.
                await sleeper[1].send(sleeper[0], int(value))
                sleeper[1].commit()
            if step == "next" or window.is_over:
                if window.is_over:
                    window.commit()
                    producer.close()
                    producer = await opened()
                window = Window(broker, store)
                if value or (window.sequence is not None and window.sequence.is_doubted):
                    window.compare()
            assert broker.log == list(range(len(broker.log)))
        producer.close()

    asyncio.run(run())


@pytest.mark.parametrize("text", ["7.1.42", "7.1.42?"])
def test_numbers_are_read_back(text):
    assert str(NextSequence.parse(text)) == text


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.2.3.4", "-1.2.3", "1.2.x?"])
def test_an_invalid_sequence_number_is_not_parsed(text):
    assert NextSequence.parse(text) is None


def test_sequence_numbers_continue_after_the_largest_on_the_target():
    assert NextSequence(7, 1, SEQUENCES - 2).doubted().after(5) == NextSequence(7, 1, 3)


def test_a_partition_gets_unused_sequence_numbers():
    async def run() -> None:
        broker = Broker()
        producer = Producer(broker, request_bytes=1 << 20, request_timeout_ms=1000, retry_s=1)
        await producer.open()
        found = [producer.numbers("t", 0), producer.numbers("t", 0), producer.numbers("t", 1)]
        assert found == [NextSequence(1, 1, 0), NextSequence(1, 2, 0), NextSequence(1, 1, 0)]

    asyncio.run(run())
