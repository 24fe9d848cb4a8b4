"""Send to the target: one batch of a partition at a time, the next one after its response."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from mirror.handover.lease import LeaseTerm
from mirror.kafka.errors import KafkaError, knows_no_such_producer, may_be_of_one_record, refusal, target_error_kind
from mirror.kafka.producer import NotAppendedError, ProducerClosedError, UncertainError, WithdrawnError
from mirror.kafka.protocol import NO_OFFSET
from mirror.kafka.target import Target
from mirror.model.identical_offsets import Fill
from mirror.model.record_batches import Outgoing, Round
from mirror.model.transforms import TransformError
from mirror.replication.alignment import Alignment
from mirror.replication.delivery import Acknowledged, Delivery, hold_back
from mirror.replication.partition import Partition, RemoteLog
from mirror.replication.pauses import Pauses
from mirror.replication.read_ahead import ReadAhead
from mirror.replication.repacking import NotIdenticalError, Repacking
from mirror.runtime.clock import Stopwatch, now_ms

log = logging.getLogger("mirror")

TOO_LARGE = "the target's producer.max.request.size in the settings: raise that"
Sent = dict[asyncio.Future[int], Outgoing]


@dataclass(kw_only=True, eq=False, repr=False)
class Sending:
    """The batches of one flow and window that are in flight to the target.

    `needs_new_producer`: the target refuses further batches of this producer.
    """

    name: str  # the flow, for the log
    target: Target  # writes to the target
    read_ahead: ReadAhead  # holds the batches
    repacking: Repacking  # forms rounds from them
    pauses: Pauses  # pauses partitions that the target refuses
    delivery: Delivery  # decides when acknowledged batches count
    # nothing is sent while the lease is not valid; None: the target itself refuses a producer that may not write
    lease: LeaseTerm | None
    on_doubt: Callable[[Partition], None]  # called with a partition whose remote topic may be another one
    alignment: Alignment | None = None  # compares partitions with identical offsets; None: there are none

    def __post_init__(self) -> None:
        self._without_lease: dict[Partition, None] = {}  # partitions that wait for a valid lease, in order
        self._in_flight = 0
        # stops while batches are packed
        self._under_way = Stopwatch(lambda: time.perf_counter() - self.repacking.spent_s)
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_stopping = False
        self.needs_new_producer = False

    @property
    def in_flight(self) -> int:
        """How many partitions have a batch in flight."""
        return self._in_flight

    @property
    def held_bytes(self) -> int:
        """Bytes of read records that are not acknowledged."""
        return self.read_ahead.held_bytes

    @property
    def spent_s(self) -> float:
        """How long batches were in flight, without the time for packing."""
        return self._under_way.total_s

    async def is_quiet(self, within_s: float | None = None) -> bool:
        """Wait until nothing is in flight; return False on a time-out."""
        try:
            await asyncio.wait_for(self._quiet.wait(), within_s)
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopping = True

    def lease_confirmed(self) -> None:
        """Send the batches that were held back while the lease was unconfirmed."""
        waiting, self._without_lease = self._without_lease, {}
        for partition in waiting:
            self.send_next(partition)

    def send_next(self, partition: Partition) -> None:
        """Send the next batch of a partition, unless one is in flight. This keeps the order."""
        if self._is_stopping or partition.in_flight:
            return
        if partition.backlog.is_empty and partition.remote_log is None:
            return  # a remote log with identical offsets may have a gap to fill
        if not self._admit(partition):
            return
        if self.lease is not None and not self.lease.is_valid:
            self._without_lease[partition] = None
            return
        try:
            following = self.repacking.next_round(partition)
        except TransformError as error:
            self.pauses.refused(partition, str(error))
            return
        except NotIdenticalError as error:
            self._stop(partition, f"the next record has offset {partition.acked} on the source, and {error}")
            return
        except Exception as error:  # noqa: BLE001 - after any error of a hostile batch, only its partition stops
            self.pauses.back_off(partition, f"a batch at source offset {partition.acked} cannot be read: {error!r}")
            return
        if isinstance(following, Fill):
            self._fill(partition, following)
        elif following is not None:
            self._send(partition, following)

    def _admit(self, partition: Partition) -> bool:
        """Return whether a batch may be sent now.

        If not, `send_next` is called later, when it may.
        """
        remote_log = partition.remote_log
        if remote_log is not None and self.alignment is not None:
            if not self.alignment.admit(partition):
                return False
            if partition.backlog.is_empty and remote_log.end == partition.acked:
                return False  # there is nothing to send, so no sequence numbers are needed
        return self.delivery.admit(partition)

    def _fill(self, partition: Partition, fill: Fill) -> None:
        """Occupy the offsets of a gap, or some of them; then continue."""
        assert self.alignment is not None
        self._begin(partition)

        def filled(done: asyncio.Future[int]) -> None:
            self._end()
            error = ProducerClosedError() if done.cancelled() else done.exception()
            partition.settle(has_arrived=error is None)
            if error is None:
                self.pauses.end(partition)
                self.send_next(partition)
            elif not self._is_stopping:
                self.pauses.back_off(
                    partition, f"offsets {fill.start} to {fill.end - 1} have no record, and cannot be filled: {error}"
                )

        self.alignment.fill(partition, fill).add_done_callback(filled)

    def _begin(self, partition: Partition) -> None:
        partition.send()
        self._under_way.start()
        self._in_flight += 1
        self._quiet.clear()

    def _end(self) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._quiet.set()
            self._under_way.stop()

    def _stop(self, partition: Partition, reason: str) -> None:
        """Stop a partition whose offsets are no longer identical."""
        assert self.alignment is not None
        self.alignment.stop(partition, reason)

    def _send(self, partition: Partition, sending: Round) -> None:
        remote_topic = partition.assigned.remote_topic
        if not all(self.target.knows(remote_topic, where) for where in sending.batches):
            self.pauses.absent(partition)
            return
        if any(map(self.repacking.is_too_large, sending.batches.values())):
            self.pauses.refused(partition, f"the record at source offset {partition.acked} is larger than {TOO_LARGE}")
            return
        try:
            sent = {
                self.target.send(batch, remote_topic, where, partition.sequence, partition.remote_id): batch
                for where, batch in sending.batches.items()
            }
        except KafkaError as error:
            self._producer_failed(partition, error)
            return
        self._begin(partition)
        self.delivery.sent()
        read_ms, waiting = now_ms(), set(sent)

        def answered(done: asyncio.Future[int]) -> None:
            waiting.discard(done)
            if not waiting:
                self._answered(partition, sending, sent, read_ms)

        for future in sent:
            future.add_done_callback(answered)

    def _answered(self, partition: Partition, sending: Round, sent: Sent, read_ms: float) -> None:
        """Process the responses to a partition's batches in flight; then send the next ones."""
        self._end()
        taken = {done: batch for done, batch in sent.items() if not done.cancelled() and done.exception() is None}
        failed = [done for done in sent if done not in taken]
        if partition.remote_log is not None and not self._check_identical(partition, partition.remote_log, taken):
            return
        expected = partition.next_target_offset
        for done, batch in taken.items():
            self.delivery.acknowledged(Acknowledged(partition, batch, read_ms, done.result()))
        partition.settle(has_arrived=bool(taken))
        if failed and not self._failed(partition, sent, failed):
            return
        if not failed:
            partition.passed(sending.next_offset)
            self.read_ahead.let_go(partition)
            self.pauses.end(partition)
            self._check_offset(partition, min((done.result() for done in taken), default=NO_OFFSET), expected)
        self.send_next(partition)

    def _check_identical(self, partition: Partition, remote_log: RemoteLog, taken: Sent) -> bool:
        """Check that a batch kept its source offsets on the target; record the log end.

        Return False and stop the partition if the offsets differ.
        """
        if not taken:
            remote_log.doubt()
            return True
        ((done, batch),) = taken.items()  # only a partition that keeps its number has identical offsets
        base, expected = done.result(), batch.runs[0].source
        if base == NO_OFFSET:
            remote_log.doubt()  # a repeated batch: the log end shows where it is
        elif base == expected:
            remote_log.grow(base + batch.count)
        else:
            partition.settle(has_arrived=True)
            self._stop(partition, f"source offset {expected} got offset {base} on the target")
            return False
        return True

    def _check_offset(self, partition: Partition, base: int, expected: int) -> None:
        """Stop a partition whose batch was appended before earlier ones, until the clusters explain it."""
        if not (partition.assigned.keeps_partition and NO_OFFSET < base < expected):
            return
        assigned = partition.assigned
        log.error(
            "%s: %s-%d was written up to offset %d, and now at %d: its log was cut, or it is another topic",
            self.name,
            assigned.remote_topic,
            assigned.partition,
            expected,
            base,
        )
        partition.expect(base)
        self.read_ahead.clear(partition)
        partition.rewind()
        if self.delivery.unexpected_offset():
            self.needs_new_producer = True
            self.pauses.until_next_window(partition, f"{assigned.remote_topic} was cut: the next window fills it again")
        else:
            partition.find_hole()
        self.on_doubt(partition)

    def _failed(self, partition: Partition, sent: Sent, failed: list[asyncio.Future[int]]) -> bool:
        """Handle batches that were not acknowledged; return False if the next window finds their outcome."""
        errors = [ProducerClosedError() if done.cancelled() else done.exception() for done in failed]
        if any(isinstance(error, WithdrawnError) for error in errors):
            return False  # the batch was not sent when the window ended: the next window reads it again
        if any(isinstance(error, ProducerClosedError) for error in errors):
            if self._is_stopping:
                return False  # the window was given up with this batch in flight: the next one finds its outcome
            self._producer_failed(partition, ProducerClosedError())
        elif not partition.assigned.keeps_partition:
            # The batches that the other partitions accepted are sent again. The sequence numbers of this producer now have a gap.
            self.needs_new_producer = True
            self.pauses.refused(
                partition,
                f"the target refuses a batch from source offset {partition.acked} on: {errors[0]}",
                target_error_kind(errors[0]),
            )
        else:
            self._refused(partition, sent[failed[0]], errors[0])
        return True

    def _refused(self, partition: Partition, outgoing: Outgoing, error: BaseException | None) -> None:
        if isinstance(error, UncertainError) and self.delivery.uncertain(partition, error):
            return
        if isinstance(error, UncertainError) or knows_no_such_producer(error):
            # The next window compares the target's log, and this process opens another producer for that window.
            self.needs_new_producer = True
            if isinstance(error, UncertainError):
                hold_back(partition)  # an earlier attempt may still be in flight
            if knows_no_such_producer(error):
                partition.doubt_numbers()
            self.pauses.until_next_window(partition, f"the target may have forgotten the producer of ({error})")
        elif isinstance(error, NotAppendedError):
            self.pauses.standstill(partition, error)
        elif outgoing.count > 1 and may_be_of_one_record(error):
            self.repacking.split(partition, outgoing)
        else:
            self.pauses.refused(
                partition,
                f"the target refuses source offset {partition.acked} and on: {refusal(error)}",
                target_error_kind(error),
            )

    def _producer_failed(self, partition: Partition, error: KafkaError) -> None:
        self.needs_new_producer = True
        self.pauses.back_off(partition, f"the producer failed: {error}")
