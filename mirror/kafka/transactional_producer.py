"""Send prepared batches in transactions, and commit a group's offsets with them.

There are two versions of Kafka's transaction protocol (mirror.kafka.transaction_requests). In the first one, each partition is
added before its first batch, and the group before its offsets. EndTxn commits or aborts the whole transaction.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum
from typing import Any

from mirror.kafka import transaction_coordinators as coordinators
from mirror.kafka import transaction_requests as requests
from mirror.kafka.client import CoordinatorType, Purpose
from mirror.kafka.errors import ErrorCode, KafkaError, check, is_code
from mirror.kafka.group_offsets import in_parts
from mirror.kafka.producer import Producer, _Delivery
from mirror.kafka.transaction_coordinators import StuckError, TransactionCoordinators, own_code
from mirror.kafka.transaction_requests import ProducerState
from mirror.model.record_batches import Outgoing
from mirror.model.sequences import NextSequence
from mirror.model.topic_partition import TopicPartition

log = logging.getLogger("mirror")

SPARES = 10
# Between two requests of `await_markers`. The pause before the next transaction is longer, as measured in docs/adr/0013.
AWAIT_MARKERS_S = 0.001

Rotated = Callable[[int], Awaitable[None]]
Confirm = Callable[[], Awaitable[None]]

_FEATURE, _SECOND = "transaction.version", 2
_FIRST, _SECOND_BY_NAME, _SECOND_BY_ID = (3, 11), (12, 12), (12, 13)  # versions of Produce requests


class TransactionStateError(KafkaError):
    """The state of the transaction does not allow the call."""


class TransactionState(Enum):
    """The state of a transaction: NONE -> OPEN (begin) -> ENDING (commit, abort) -> NONE.

    Only an OPEN transaction accepts batches.
    """

    NONE = "no transaction"
    OPEN = "takes batches"
    ENDING = "is committed or aborted"


class TransactionalIds:
    """The transactional id in use, and spare ids if its last transaction does not end.

    A coordinator does not fence the producer of a transaction that does not end. The producer may continue later: see
    TransactionalProducer.commit.
    """

    def __init__(
        self,
        name: str,
        coordinators: TransactionCoordinators,
        *,
        timeout_ms: int,
        identified: Callable[[str, Any], Awaitable[None]],
    ) -> None:
        """Use `name` first. `identified` gets the id and response of each InitProducerId."""
        self.current: str = name
        self._name = name
        self._coordinators = coordinators
        self._timeout_ms = timeout_ms
        self._identified = identified
        self._spare = 0
        self._rotated: Rotated | None = None
        self._fencing: asyncio.Task[None] | None = None

    async def open(self, spare: int, rotated: Rotated | None) -> None:
        """Fence the earlier producer of the id, like TransactionalProducer.open."""
        self._spare, self._rotated = spare, rotated
        await self.renew()

    async def renew(self) -> None:
        """Get a new epoch, which aborts an open transaction, or use a spare id.

        Raises KafkaError.
        """
        try:
            await self._identify()
        except StuckError:
            await self.rotate()

    async def rotate(self) -> None:
        """Use a spare transactional id if the previous transaction does not end; raises KafkaError."""
        for _ in range(SPARES):
            if self._rotated is None:
                raise StuckError(f"{self.current}: its last transaction does not end")
            self._spare = (self._spare + 1) % SPARES
            await self._rotated(self._spare)
            try:
                await self._identify()
            except StuckError:
                continue
            return
        raise StuckError(f"{self._name}: none of its transactions ends")

    def fence_before(self) -> None:
        """Fence the transactional id that was used before.

        It can be used again as soon as its stuck transactions have ended.
        """
        if self._spare:
            before = self._named((self._spare - 1) % SPARES)
            self._fencing = asyncio.get_running_loop().create_task(self._coordinators.fence(before, self._timeout_ms))

    def close(self) -> None:
        """Stop fencing."""
        if self._fencing is not None:
            self._fencing.cancel()

    async def _identify(self) -> None:
        self.current = self._named(self._spare)
        answer, self._timeout_ms = await self._coordinators.identify(self.current, self._timeout_ms)
        await self._identified(self.current, answer)

    def _named(self, spare: int) -> str:
        return f"{self._name}.spare-{spare}" if spare else self._name


class TransactionalProducer(Producer):
    """A producer whose batches count when their transaction is committed."""

    gives_up_uncertain = True  # aborting the transaction undoes the batch
    by_name = by_id = _FIRST  # of the first transaction protocol; see `_agree`
    # A leader may append a batch and move before its replicas have the batch: it responds with this error too. Without
    # transactions, the sequence number reveals that. In a transaction, a commit would make the batch count, and its records
    # would be sent again.
    perhaps_appended = (*Producer.perhaps_appended, ErrorCode.not_leader_or_follower)

    def __init__(
        self,
        *args: Any,
        transactional_id: str,
        transaction_timeout_ms: int,
        has_empty_partitions: bool = False,
        stuck_s: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a Producer whose `open` fences the id's earlier producers.

        `has_empty_partitions`: transactions have partitions without a batch; only the first protocol version allows that.
        `stuck_s`: as in TransactionCoordinators.
        """
        super().__init__(*args, **kwargs)
        self.transactional_id: str = transactional_id
        self._is_first = has_empty_partitions
        self._state = TransactionState.NONE
        self._added: set[TopicPartition] = set()  # partitions in the open transaction
        self._to_add: dict[TopicPartition, _Delivery] = {}
        self._adding: asyncio.Task[None] | None = None
        self._has_group = False
        self._is_uncertain = False  # a batch of the open transaction has no outcome, so it can only be aborted
        self._coordinators = TransactionCoordinators(
            self._client, retry_s=self._retry_s, is_closed=lambda: self.is_closed, stuck_s=stuck_s
        )
        self._ids = TransactionalIds(
            transactional_id, self._coordinators, timeout_ms=transaction_timeout_ms, identified=self._named
        )
        self._is_second = False  # whether the cluster uses the second version of the protocol
        self._held_up: list[_Delivery] = []  # batches that wait for the previous transaction to end, or for another id
        self._rotating: asyncio.Task[None] | None = None
        self._held_up_since_s: float | None = None  # when the open transaction's batches began to wait
        self._has_appended = False  # a batch of the open transaction was appended, so the previous one has ended

    async def open(self, spare: int = 0, rotated: Rotated | None = None) -> None:
        """Fence the earlier producer of this transactional id and abort its open transaction.

        Args:
            spare: Number of the transactional id used last: 0, or the number of a spare id.
            rotated: Called with the number of a spare id before its first use, so that a successor finds the id. None: use no
                spare id.

        Raises:
            KafkaError: the cluster refuses.
        """
        self._state = TransactionState.NONE
        await self._ids.open(spare, rotated)
        await self._agree()
        self._ids.fence_before()

    async def _agree(self) -> None:
        """Find out which version of the protocol the cluster supports."""
        try:
            node = await self._client.coordinator(CoordinatorType.TRANSACTION, self._ids.current)
            level = await self._client.feature(node, _FEATURE, Purpose.COORDINATION)
        except KafkaError as error:
            log.debug("%s: its coordinator does not report its transaction version: %s", self.transactional_id, error)
            return  # use the first version, which every broker supports
        self._is_second = level >= _SECOND and not self._is_first
        self.by_name, self.by_id = (_SECOND_BY_NAME, _SECOND_BY_ID) if self._is_second else (_FIRST, _FIRST)

    async def _named(self, name: str, answer: Any) -> None:
        self.transactional_id = name
        await self._identified(answer)

    @property
    def _who(self) -> ProducerState:
        return ProducerState(self.transactional_id, self._id, self._epoch)

    def begin(self) -> None:
        """Open a transaction."""
        self._expect(TransactionState.NONE)
        self._state = TransactionState.OPEN
        self._added.clear()
        self._has_group = self._has_appended = False
        self._held_up_since_s = None

    async def enter(self, places: Collection[TopicPartition]) -> dict[TopicPartition, KafkaError]:
        """Add partitions without a batch to the open transaction; return the failed ones.

        Each added partition gets the marker that ends the transaction. Raises KafkaError.
        """
        self._expect(TransactionState.OPEN)
        failed = await self._coordinators.add_partitions(self._who, places)
        self._added |= set(places) - failed.keys()
        return failed

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], confirm: Confirm | None = None
    ) -> None:
        """Commit all acknowledged batches, with (offset, metadata) of a group's partitions.

        `confirm` runs after the transaction began and before EndTxn. It raises KafkaError if a successor has the slot.

        Raises:
            KafkaError: nothing of the transaction counts; or its outcome is unknown, and the next `open` of the transactional id
                decides.
        """
        await self._end()
        if self._is_uncertain:
            raise TransactionStateError("a batch of the transaction has no outcome: it can only be aborted")
        if confirm is not None and self._has_appended:
            await asyncio.gather(self._commit_offsets(group, offsets), confirm())
        else:
            await self._commit_offsets(group, offsets)
            if confirm is not None and self._has_group:
                await confirm()  # the transaction began with the offsets at the latest
        if self._added or self._has_group:
            await self._ended(is_committed=True)
        self._state = TransactionState.NONE

    async def abort(self) -> None:
        """Abort all batches of the transaction, including those with unknown outcome; raises KafkaError."""
        await self._end()
        if self._is_uncertain and not (self._is_second and (self._added or self._has_group)):
            # Then the next sequence numbers are unknown too. A new epoch starts at 0, and ends the transaction of the old epoch.
            self._is_uncertain = False
            await self._ids.renew()
            self._added.clear()
        elif self._added or self._has_group:
            self._is_uncertain = False  # in the second version, each transaction ends with a new epoch anyway
            await self._ended(is_committed=False)
        self._state = TransactionState.NONE

    async def await_markers(self) -> None:
        """Wait until all markers of an aborted transaction are written.

        Until then the coordinator may write a marker again. Only for the first version of the protocol. Raises KafkaError.
        """
        self._expect(TransactionState.NONE)
        if self._added:
            # A second abort is accepted as soon as the last marker is written.
            await self._ended(is_committed=False, busy_s=AWAIT_MARKERS_S)

    def send(
        self,
        outgoing: Outgoing,
        topic: str,
        partition: int,
        numbered: NextSequence | None = None,
        topic_id: uuid.UUID | None = None,
    ) -> asyncio.Future[int]:
        """Queue a batch like a Producer; requires an open transaction. The producer always counts."""
        self._expect(TransactionState.OPEN)
        return super().send(outgoing, topic, partition, topic_id=topic_id)

    def close(self) -> None:
        """Close like a Producer; stop fencing."""
        super().close()
        self._ids.close()
        for task in (self._adding, self._rotating):
            if task is not None:
                task.cancel()

    def _refused(self, delivery: _Delivery, error: BaseException) -> None:
        self._is_uncertain |= delivery.may_be_there
        super()._refused(delivery, error)

    def _expect(self, state: TransactionState) -> None:
        if self._state is not state:
            raise TransactionStateError(f"the transaction {self._state.value}")

    async def _end(self) -> None:
        self._expect(TransactionState.OPEN)
        self._state = TransactionState.ENDING
        await self.until_idle()

    # --- partitions enter a transaction before their first batch --------------------------------------------

    def _enter(self, delivery: _Delivery, leader: int) -> None:
        """Add the partition to the transaction first. Its leader must append the marker that ends the transaction."""
        if self._is_second:
            self._added.add(delivery.where)
        if delivery.where in self._added:
            super()._enter(delivery, leader)
            return
        self._to_add[delivery.where] = delivery
        if self._adding is None:
            self._adding = self._loop.create_task(self._add())
            self._adding.add_done_callback(self._on_added)

    async def _add(self) -> None:
        await asyncio.sleep(0)  # partitions of the same loop iteration are added by one request
        while self._to_add:
            adding, self._to_add = self._to_add, {}
            try:
                try:
                    await self._add_to_transaction(adding)
                except StuckError:
                    await self._ids.rotate()
                    await self._add_to_transaction(adding)
            except KafkaError as error:
                for delivery in adding.values():
                    self._refused(delivery, error)

    def _on_added(self, task: asyncio.Task[None]) -> None:
        self._adding = None
        if not task.cancelled():
            task.result()

    async def _add_to_transaction(self, adding: dict[TopicPartition, _Delivery]) -> None:
        """Add partitions to the transaction; an unauthorized or deleted partition does not block the others."""
        failed = await self._coordinators.add_partitions(self._who, adding)
        for where, delivery in adding.items():
            error = failed.get(where)
            if error is None:
                self._added.add(where)
                self._admit(delivery)
            elif error.is_retriable:
                self._put_off(delivery, error)
            else:
                self._refused(delivery, error)

    # --- second version: the first batches of a transaction show that the previous one does not end -------------------

    def _put_off(self, delivery: _Delivery, error: KafkaError) -> None:
        if self._is_second and is_code(error, ErrorCode.concurrent_transactions) and not self.is_closed:
            self._hold_up(delivery)
        else:
            super()._put_off(delivery, error)

    def _hold_up(self, delivery: _Delivery) -> None:
        """Retry a batch soon, or with another id if the earlier transaction does not end.

        No batch of this transaction can be appended before the earlier one has ended.
        """
        now_s = self._loop.time()
        if self._held_up_since_s is None:
            self._held_up_since_s = now_s
        if self._rotating is not None or now_s - self._held_up_since_s > self._coordinators.stuck_s:
            self._held_up.append(delivery)
            if self._rotating is None:
                self._rotating = self._loop.create_task(self._rotate_held_up())
            return
        self._loop.call_later(coordinators.MARKERS_S, self._again, delivery)

    def _appended(self, delivery: _Delivery, base: int) -> None:
        self._has_appended = True
        super()._appended(delivery, base)

    async def _rotate_held_up(self) -> None:
        """Use another transactional id for the whole transaction.

        A batch appended under the old id would not be committed. So nothing is sent meanwhile, and requests in flight finish
        first. If one of their batches was appended after all, the earlier transaction has ended, and the id stays.
        """
        failure: KafkaError | None = None
        await self._pause()
        if not self._has_appended:
            try:
                await self._ids.rotate()
            except KafkaError as error:
                failure = error
            for queue in self._queues.values():
                queue[0].sequence = -1  # the numbers of the new id start at 0
        self._rotating = self._held_up_since_s = None
        held_up, self._held_up = self._held_up, []
        for delivery in held_up:
            if failure is not None:
                self._refused(delivery, failure)
            else:
                self._again(delivery)
        self._resume()

    # --- the coordinators -----------------------------------------------------------------------------------------

    async def _commit_offsets(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        for part in in_parts(offsets):
            if not (self._is_second or self._has_group):
                await self._coordinators.add_group(self._who, group)
            self._has_group = True
            await self._coordinators.commit_offsets(self._who, group, part, is_second=self._is_second)

    async def _ended(self, *, is_committed: bool, busy_s: float | None = None) -> None:
        request = requests.end_transaction(self._who, is_committed=is_committed, is_second=self._is_second)
        answer = await self._coordinators.ask(request, own_code, key=self.transactional_id, busy_s=busy_s)
        check(answer.error_code, self.transactional_id)
        if self._is_second:
            await self._identified(answer)
