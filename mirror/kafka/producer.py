"""Send prepared record batches to one cluster idempotently, with an outcome for every batch.

Each partition has one batch in flight at a time, which keeps its order. A batch has one of four outcomes: the target appended it;
the target refuses it; the target certainly did not append it in any attempt (`NotAppendedError`); or it was withdrawn before it
was sent (`WithdrawnError`). In the last two cases another batch may use its sequence number.

If a batch gets no response, it is sent again until its outcome is known: its sequence number prevents a second append. If the
records are so old that the broker may have forgotten the number, the batch ends in `UncertainError` instead, and its sender
reads the log.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

from mirror.kafka.client import Purpose
from mirror.kafka.errors import (
    BrokerError,
    ErrorCode,
    KafkaError,
    NotConnectedError,
    UnsupportedError,
    check,
    is_code,
)
from mirror.kafka.messages import Request
from mirror.kafka.produce_request import parts_of, produce_request
from mirror.kafka.protocol import NO_OFFSET
from mirror.kafka.transaction_requests import init_producer_id
from mirror.model.codecs import Bytes
from mirror.model.record_batches import Outgoing, with_producer_state
from mirror.model.sequences import SEQUENCES, NextSequence
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.clock import now_ms

REQUESTS_UNDER_WAY = 5  # per broker: max.in.flight.requests.per.connection of Kafka's client
LEAST_REQUEST_BYTES = 1 << 20  # every broker's socket.request.max.bytes is at least this large
# A broker responds when all batches of a request are on all replicas, or after this time. Until then it sends no other response
# on the connection. So slow replicas of one partition delay others only this long; then its batch moves to another connection.
ANSWER_MS = 2_000
SILENT_S = 2.0  # after this time without a response, the broker hangs, or its connection is half-open
SLOWEST_LINK = 64 << 10  # bytes/s
ID_WITHIN_S = 5.0
TAKE_BACK_S = 2.5  # how long to retry a batch that the target certainly did not append
# How long a cluster takes to detect that a broker is gone: broker.session.timeout.ms is 9 s by default. Until then a leader
# waits for a dead replica. It may wait up to request.timeout.ms (30 s) for data appended in this time, including the marker of
# an aborted transaction. Meanwhile a transaction coordinator has no other marker written to that partition.
DECIDES_S = 10.0
# A broker forgets a producer when the timestamp of the producer's last batch is a day old (producer.id.expiration.ms), even if it
# has just appended the batch. It checks every ten minutes and when it restarts. After that it would append the same batch again.
REMEMBERED_MS = 12 * 3_600_000
_BATCH_OVERHEAD = 16  # of a batch in a request, without the topic name
# After these errors, the batch may still be in the log.
_PERHAPS_APPENDED: tuple[ErrorCode, ...] = (
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.kafka_storage_error,
)


Announced = Callable[[int], Awaitable[None]]

_MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


class NotAppendedError(KafkaError):
    """The target does not append a batch at present, and does not have it. `why` is the last error."""

    def __init__(self, why: KafkaError) -> None:
        super().__init__(f"{why}, for {TAKE_BACK_S:g} s")
        self.why = why


class UncertainError(KafkaError):
    """The target may have appended a batch in an earlier attempt. The log shows whether it has.

    `why`: the last error. The target refuses the batch, or may append it a second time.
    """

    def __init__(self, why: BaseException) -> None:
        super().__init__(str(why) or repr(why))
        self.why = why


class WithdrawnError(KafkaError):
    """A batch was withdrawn before it was sent: the target does not have it."""


class ProducerClosedError(KafkaError):
    """The producer was closed before the outcome of a batch was known."""


class Leaders(Protocol):
    """The part of a client's metadata that a producer uses."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of the leader, None if there is none."""

    def update_leader(self, topic: str, partition: int, refusal: Any, endpoints: Iterable[Any]) -> None:
        """Record the new leader that a refusal reports."""


class Requester(Protocol):
    """The part of mirror.kafka.client.Client that a producer uses."""

    @property
    def metadata(self) -> Leaders:
        """The client's metadata of the cluster."""

    async def ask(
        self,
        node: int,
        request: Request,
        purpose: Purpose = ...,
        *,
        within_s: float | None = ...,
        on_sent: Callable[[], None] = ...,
    ) -> Any:
        """Send a request to a broker and return its response; raises KafkaError."""

    async def ask_any(self, request: Request) -> Any:
        """Send a request to any broker and return its response; raises KafkaError."""

    def refresh_soon(self) -> None:
        """Request new metadata."""

    async def coordinator(self, kind: Any, key: str) -> int:
        """Return the broker that coordinates a group or a transactional id; raises KafkaError."""

    def forget_coordinator(self, kind: Any, key: str) -> None:
        """Make the next call look up the coordinator."""

    async def feature(self, node: int, name: str, purpose: Purpose = ...) -> int:
        """Return the finalized level of a cluster's feature, 0 if it has none; raises KafkaError."""


@dataclass(slots=True, eq=False)
class _Delivery:
    """A batch in flight.

    Attributes:
        numbered: Its sequence numbers, if the caller assigns them.
        topic_id: A broker that supports ids refuses another topic with the same name; None: no check.
        sequence: Its number if the producer counts, -1 before the first attempt.
        may_be_there: An attempt may have appended the batch.
    """

    outgoing: Outgoing
    where: TopicPartition
    future: asyncio.Future[int]
    numbered: NextSequence | None = None
    topic_id: uuid.UUID | None = None
    sequence: int = -1
    began_s: float = 0.0
    may_be_there: bool = False

    @property
    def may_be_forgotten(self) -> bool:
        """Return whether the broker may have forgotten the producer, because the records are old.

        If so, sequence numbers are no fence.
        """
        return self.numbered is not None and now_ms() - self.outgoing.max_timestamp > REMEMBERED_MS

    @property
    def size(self) -> int:
        """Size in a request, in bytes."""
        return len(self.outgoing.data) + len(self.where[0]) + _BATCH_OVERHEAD


@dataclass(slots=True)
class _Node:
    """The batches that wait for one broker, oldest first, and its requests in flight."""

    waiting: deque[_Delivery] = field(default_factory=deque)
    waiting_bytes: int = 0
    under_way: int = 0
    is_due: bool = False

    def add(self, delivery: _Delivery) -> None:
        """Queue a batch."""
        self.waiting.append(delivery)
        self.waiting_bytes += delivery.size

    def next_request(self, most_bytes: int) -> list[_Delivery]:
        """Remove and return the batches of the next request."""
        taken: list[_Delivery] = []
        size = 0
        while self.waiting and (not taken or size + self.waiting[0].size <= most_bytes):
            delivery = self.waiting.popleft()
            size += delivery.size
            taken.append(delivery)
        self.waiting_bytes -= size
        self.under_way += 1
        return taken

    def take_back(self) -> list[_Delivery]:
        """Remove and return all waiting batches."""
        taken = list(self.waiting)
        self.waiting.clear()
        self.waiting_bytes = 0
        return taken


class _Lane(NamedTuple):
    """A broker, and whether its log may already have the batch: such batches have a separate connection."""

    node: int
    is_again: bool


class _Unsent:
    """Requests that are not sent yet: a quota delays them, or their connection is being opened."""

    def __init__(self) -> None:
        self._batches: dict[asyncio.Task[None], list[_Delivery]] = {}

    def begin(self, request: asyncio.Task[None], batches: list[_Delivery]) -> None:
        """Record the batches of a request until it is sent or ends."""
        self._batches[request] = batches
        request.add_done_callback(lambda _: self._batches.pop(request, None))

    def leave(self, request: asyncio.Task[None] | None) -> None:
        """Record that a request is sent now; raises WithdrawnError if its batches were withdrawn."""
        if request is None or self._batches.pop(request, None) is None:
            raise WithdrawnError

    def take_back(self) -> list[_Delivery]:
        """Return the batches that no attempt can have appended. Their requests are never sent."""
        fresh = {one: batches for one, batches in self._batches.items() if not any(b.may_be_there for b in batches)}
        for request in fresh:
            del self._batches[request]
        return [delivery for batches in fresh.values() for delivery in batches]


class Producer:
    """An idempotent producer without transactions."""

    transactional_id: str | None = None
    # True if a batch with an unknown outcome can be undone: then it is not retried endlessly
    gives_up_uncertain = False
    # Versions of Produce requests with topic names, and with topic ids for brokers that support them
    by_name, by_id = (3, 11), (3, 13)
    perhaps_appended = _PERHAPS_APPENDED

    def __init__(
        self,
        client: Requester,
        *,
        request_bytes: int,
        request_timeout_ms: int,
        retry_s: float,
        announced: Announced | None = None,
    ) -> None:
        """Create a producer that sends nothing yet.

        Args:
            client: Connects to the cluster; its metadata must know the topics.
            request_bytes: Largest request; a larger batch is sent alone in a request.
            request_timeout_ms: How long a broker waits for its replicas.
            retry_s: Pause before a batch is sent again.
            announced: Called with each producer id before its first batch is sent; if it raises, nothing is sent.
        """
        self._client = client
        self._request_bytes = request_bytes
        self._request_timeout_ms = request_timeout_ms
        self._retry_s = retry_s
        self._announced = announced
        self._loop = asyncio.get_running_loop()
        self._id = self._epoch = -1
        self._sequences: dict[TopicPartition, int] = defaultdict(int)  # next sequence number
        self._lent_epochs: dict[TopicPartition, int] = {}  # epoch of this producer's id, by partition: see `numbers`
        # Partitions whose first batch is in flight, or waits for a broker.
        self._queues: dict[TopicPartition, deque[_Delivery]] = {}
        self._nodes: dict[_Lane, _Node] = defaultdict(_Node)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsent = _Unsent()
        self._is_paused = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_closed = False

    async def open(self) -> None:
        """Obtain a producer id; raises KafkaError."""
        deadline = self._loop.time() + ID_WITHIN_S
        while True:
            answer = await self._client.ask_any(init_producer_id(None, 0))
            # A broker that has just started has no ids yet, and responds that it is loading.
            if not answer.error_code.retriable or self._loop.time() > deadline:
                break
            await asyncio.sleep(self._retry_s)
        await self._identified(answer)

    async def _identified(self, response: Any) -> None:
        check(response.error_code, "no producer id")
        if self._announced is not None and response.producer_id != self._id:
            await self._announced(response.producer_id)
        self._id, self._epoch = response.producer_id, response.producer_epoch
        self._sequences.clear()

    def numbers(self, topic: str, partition: int) -> NextSequence:
        """Return unused sequence numbers for a partition whose caller assigns them."""
        where = TopicPartition(topic, partition)
        epoch = self._lent_epochs[where] = self._lent_epochs.get(where, self._epoch) + 1
        return NextSequence(self._id, epoch, 0)

    def send(
        self,
        outgoing: Outgoing,
        topic: str,
        partition: int,
        numbered: NextSequence | None = None,
        topic_id: uuid.UUID | None = None,
    ) -> asyncio.Future[int]:
        """Queue a batch.

        Args:
            outgoing: The batch.
            topic: The remote topic.
            partition: Its partition.
            numbered: The batch's sequence numbers; None: the producer counts. Each partition must always use one of the two.
            topic_id: Id of the topic, if known.

        Returns:
            A future with the target offset of the first record, NO_OFFSET if the broker no longer knows it. Otherwise the future
            has the target's refusal, a NotAppendedError, an UncertainError, a WithdrawnError or a ProducerClosedError.
        """
        if self.is_closed:
            raise ProducerClosedError
        delivery = _Delivery(outgoing, TopicPartition(topic, partition), self._loop.create_future(), numbered, topic_id)
        self._idle.clear()
        queue = self._queues.get(delivery.where)
        if queue is not None:
            queue.append(delivery)
        else:
            self._queues[delivery.where] = deque((delivery,))
            self._admit(delivery)
        return delivery.future

    async def until_idle(self) -> None:
        """Wait until every batch has its outcome."""
        await self._idle.wait()

    def withdraw(self) -> None:
        """Withdraw the batches that were never sent: each ends in WithdrawnError.

        Their sequence numbers can be used again. A quota may delay a request for longer than any caller waits (KIP-219).
        """
        if self.is_closed:
            return
        waiting = [node.take_back() for lane, node in self._nodes.items() if not lane.is_again]
        for delivery in (*self._unsent.take_back(), *chain.from_iterable(waiting)):
            queue = self._queues[delivery.where]
            while len(queue) > 1:
                _fail(queue.pop().future, WithdrawnError())
            self._refused(delivery, WithdrawnError())

    def close(self) -> None:
        """Send nothing more; batches with an unknown outcome get ProducerClosedError."""
        self.is_closed = True
        for task in self._tasks:
            task.cancel()
        queues, self._queues = self._queues, {}
        self._nodes.clear()
        for queue in queues.values():
            for delivery in queue:
                _fail(delivery.future, ProducerClosedError())
        self._idle.set()

    # --- from the queues to the brokers -------------------------------------------------------------------------

    def _admit(self, delivery: _Delivery) -> None:
        """Take the first batch of a partition as soon as the partition has a leader."""
        delivery.began_s = delivery.began_s or self._loop.time()
        leader = self._client.metadata.leader(*delivery.where)
        if leader is None:
            self._put_off(delivery, BrokerError(ErrorCode.leader_not_available, _name(delivery.where)))
        else:
            self._enter(delivery, leader)

    def _enter(self, delivery: _Delivery, leader: int) -> None:
        """Queue a batch for its broker."""
        lane = _Lane(leader, delivery.may_be_there)
        node = self._nodes[lane]
        node.add(delivery)
        if not node.is_due:
            node.is_due = True
            self._loop.call_soon(self._dispatch, lane)  # batches of the same loop iteration go into one request

    def _dispatch(self, lane: _Lane) -> None:
        """Send a broker's waiting batches: at once if no request is in flight, else only full requests."""
        if self.is_closed:
            return
        node = self._nodes[lane]
        node.is_due = False
        if self._is_paused:
            return
        while node.waiting and node.under_way < REQUESTS_UNDER_WAY:
            if node.under_way and node.waiting_bytes < self._request_bytes:
                return
            deliveries = node.next_request(self._request_bytes)
            task = self._loop.create_task(self._request(lane, node, deliveries))
            self._tasks.add(task)
            self._unsent.begin(task, deliveries)
            task.add_done_callback(self._tasks.discard)

    async def _pause(self) -> None:
        """Stop sending until `_resume`, and wait for the responses to all sent requests."""
        self._is_paused = True
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _resume(self) -> None:
        self._is_paused = False
        for lane in tuple(self._nodes):
            self._dispatch(lane)

    async def _request(self, lane: _Lane, node: _Node, deliveries: list[_Delivery]) -> None:
        batches = [(delivery.where, self._numbered(delivery)) for delivery in deliveries]
        ids = {delivery.where[0]: delivery.topic_id for delivery in deliveries if delivery.topic_id is not None}
        has_ids = all(delivery.topic_id is not None for delivery in deliveries)
        versions = self.by_id if has_ids else self.by_name
        # A batch that can be undone is sent with short waits, so that the cluster's decision shows at once.
        waits_long = lane.is_again and not self.gives_up_uncertain
        answer_ms = self._request_timeout_ms if waits_long else min(ANSWER_MS, self._request_timeout_ms)
        size = sum(delivery.size for delivery in deliveries)
        try:
            answer = await self._client.ask(
                lane.node,
                produce_request(self.transactional_id, batches, answer_ms, versions, ids),
                Purpose.RETRY if lane.is_again else Purpose.DATA,
                within_s=answer_ms / 1000 + SILENT_S + size / SLOWEST_LINK,
                on_sent=partial(self._unsent.leave, asyncio.current_task()),
            )
        except WithdrawnError:
            pass  # each batch has its outcome already
        except NotConnectedError as error:
            for delivery in deliveries:
                self._put_off(delivery, error)
        except UnsupportedError as error:
            for delivery in deliveries:
                self._refused(delivery, error)
        except KafkaError as error:
            self._heed_limit(size)
            for delivery in deliveries:
                delivery.may_be_there = True
                self._put_off(delivery, error)
        else:
            self._answered(deliveries, answer, {topic_id: topic for topic, topic_id in ids.items()})
        finally:
            node.under_way -= 1
            if not self.is_closed and not node.is_due:
                self._dispatch(lane)

    def _heed_limit(self, size: int) -> None:
        """Halve the request size if a large request closed its connection: the broker's limit may be lower."""
        if size > LEAST_REQUEST_BYTES:
            self._request_bytes = max(LEAST_REQUEST_BYTES, min(self._request_bytes, size // 2))

    def _numbered(self, delivery: _Delivery) -> tuple[Bytes, ...]:
        """Return the bytes of a batch in pieces. They are identical in each attempt."""
        data = delivery.outgoing.data
        if (numbered := delivery.numbered) is not None:
            return with_producer_state(data, numbered.producer_id, numbered.epoch, numbered.next, transactional=False)
        if delivery.sequence < 0:
            delivery.sequence = self._sequences[delivery.where]
            self._sequences[delivery.where] = (delivery.sequence + delivery.outgoing.count) % SEQUENCES
        is_transactional = self.transactional_id is not None
        return with_producer_state(data, self._id, self._epoch, delivery.sequence, transactional=is_transactional)

    # --- outcomes -------------------------------------------------------------------------------------------------

    def _answered(self, deliveries: Iterable[_Delivery], answer: Any, names: Mapping[uuid.UUID, str]) -> None:
        answers = parts_of(answer, names)
        for delivery in deliveries:
            part = answers.get(delivery.where)
            code = part.error_code if part is not None else ErrorCode.request_timed_out
            base = part.base_offset if part is not None else NO_OFFSET
            if code in _MOVED:
                self._client.metadata.update_leader(*delivery.where, part, getattr(answer, "node_endpoints", ()))
            if code is ErrorCode.none:
                self._appended(delivery, base)
            elif code is ErrorCode.duplicate_sequence_number:
                self._appended(delivery, NO_OFFSET)
            elif _may_be_taken_later(code):
                delivery.may_be_there |= code in self.perhaps_appended or (code in _MOVED and delivery.may_be_forgotten)
                self._put_off(delivery, BrokerError(code, _name(delivery.where)))
            else:
                self._refused(delivery, BrokerError(code, _name(delivery.where)))

    def _appended(self, delivery: _Delivery, base: int) -> None:
        if not delivery.future.done():
            delivery.future.set_result(base)
        self._next(delivery)

    def _refused(self, delivery: _Delivery, error: BaseException) -> None:
        """Give up a batch, and free its sequence number, the last one assigned."""
        if delivery.may_be_there:
            error = UncertainError(error)
        elif delivery.sequence >= 0:
            self._sequences[delivery.where] = delivery.sequence
        _fail(delivery.future, error)
        self._next(delivery)

    def _put_off(self, delivery: _Delivery, error: KafkaError) -> None:
        """Retry a batch soon, unless all attempts have certainly failed for long enough."""
        if self.is_closed:
            return
        if error.has_stale_metadata:
            self._client.refresh_soon()
        tried_s = self._loop.time() - delivery.began_s
        is_over = tried_s > TAKE_BACK_S
        if is_over and not delivery.may_be_there:
            self._refused(delivery, NotAppendedError(error))
        elif _gives_up(delivery, error, tried_s, can_undo=self.gives_up_uncertain):
            self._refused(delivery, error)
        else:
            self._loop.call_later(self._retry_s, self._again, delivery)

    def _again(self, delivery: _Delivery) -> None:
        if not self.is_closed:
            self._admit(delivery)

    def _next(self, delivery: _Delivery) -> None:
        """Continue with the next batch of the partition."""
        queue = self._queues.get(delivery.where)
        if queue is None:
            return  # the producer was closed meanwhile
        queue.popleft()
        if queue:
            self._admit(queue[0])
            return
        del self._queues[delivery.where]
        if not self._queues:
            self._idle.set()


def _gives_up(delivery: _Delivery, error: KafkaError, tried_s: float, *, can_undo: bool) -> bool:
    """Return whether to stop retrying a batch that may be in the log.

    A batch that can be aborted is retried for a limited time.
    """
    if can_undo:
        return tried_s > _uncertain_for_s(error)
    return delivery.may_be_there and delivery.may_be_forgotten and _may_be_other_broker(error)


def _may_be_other_broker(error: KafkaError) -> bool:
    """Return whether the next attempt may reach another broker, or a restarted one."""
    return not isinstance(error, BrokerError) or error.code in _MOVED


def _may_be_taken_later(code: ErrorCode) -> bool:
    """Return whether a retry with the same bytes may succeed."""
    # A leader adds all partitions of a request to the transaction (KIP-890). If one is refused, the others are not attempted:
    # they are sent again without the refused one.
    return code is ErrorCode.operation_not_attempted or (code.retriable and code is not ErrorCode.corrupt_message)


def _uncertain_for_s(error: KafkaError) -> float:
    """Return how long to retry a batch before it is undone, by its last error.

    A leader that responds, but waits for its replicas, would let the marker wait for them too.
    """
    return DECIDES_S if is_code(error, ErrorCode.request_timed_out) else TAKE_BACK_S


def _fail(future: asyncio.Future[int], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # retrieved now: otherwise asyncio logs it if the sender no longer waits


def _name(where: TopicPartition) -> str:
    return f"{where[0]}-{where[1]}"
