"""Send requests to transaction coordinators, and retry while they move, load or are busy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

from mirror.kafka.by_topic import codes_by_place
from mirror.kafka.client import CoordinatorType, Purpose
from mirror.kafka.errors import SILENCES, BrokerError, ErrorCode, KafkaError, check
from mirror.kafka.messages import Request
from mirror.kafka.producer import ProducerClosedError, Requester
from mirror.kafka.transaction_requests import (
    ProducerState,
    add_offsets,
    add_partitions,
    added,
    commit_offsets,
    init_producer_id,
)
from mirror.model.topic_partition import TopicPartition

log = logging.getLogger("mirror")

# The broker is still writing the markers of the previous transaction, which takes milliseconds.
MARKERS_S = 0.005
# After this time, a partition of the previous transaction accepts no marker. The transaction is decided, but its id is blocked.
STUCK_S = 2.0
FENCE_AGAIN_S = 1.0
LEAST_TIMEOUT_MS = 5_000  # a transaction lasts less than a second; the rest is for a slow coordinator

_COORDINATOR_MOVED = (ErrorCode.coordinator_not_available, ErrorCode.not_coordinator)
COME_AGAIN = (*_COORDINATOR_MOVED, ErrorCode.coordinator_load_in_progress, ErrorCode.concurrent_transactions)
_FENCED = (ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced)

Codes = Callable[[Any], Collection[ErrorCode]]


class StuckError(KafkaError):
    """A transaction that was decided long ago does not end: one of its partitions accepts no marker."""


class TransactionCoordinators:
    """The coordinators of a transactional id, and of the group whose offsets it commits."""

    def __init__(
        self, client: Requester, *, retry_s: float, is_closed: Callable[[], bool], stuck_s: float | None = None
    ) -> None:
        """Take the client, the pause before retries, and a predicate that stops the retries.

        `stuck_s`: how long a transaction may take to end; None: STUCK_S.
        """
        self._client = client
        self._retry_s = retry_s
        self.stuck_s: float = STUCK_S if stuck_s is None else stuck_s
        self._is_closed = is_closed

    async def ask(
        self,
        request: Request,
        codes: Codes,
        *,
        key: str,
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
        come_again: Collection[ErrorCode] = COME_AGAIN,
        busy_s: float | None = None,
    ) -> Any:
        """Send a request to a coordinator and return its response.

        Args:
            request: The request.
            codes: Returns the error codes in a response.
            key: The transactional id, or the group.
            kind: Which of the two the key is.
            come_again: Errors after which the request is repeated.
            busy_s: Pause while markers of the previous transaction are being written; None: MARKERS_S.

        Raises:
            StuckError: the previous transaction has not ended in time.
            KafkaError: the producer is fenced or was closed.
        """
        began_s = time.monotonic()
        while not self._is_closed():
            try:
                node = await self._client.coordinator(kind, key)
                answer = await self._client.ask(node, request, Purpose.COORDINATION)
                found = codes(answer)
            except SILENCES:
                self._client.refresh_soon()
                found = (ErrorCode.coordinator_not_available,)
            except BrokerError as error:  # the coordinator could not be looked up
                if error.code not in COME_AGAIN:
                    raise
                found = (error.code,)
            if fenced := next((code for code in found if code in _FENCED), None):
                raise BrokerError(fenced, f"another producer has opened {key}")
            again = next((code for code in found if code in come_again), None)
            if again is None:
                return answer
            if again in _COORDINATOR_MOVED:
                self._client.forget_coordinator(kind, key)
            is_busy = again is ErrorCode.concurrent_transactions
            if is_busy and time.monotonic() > began_s + self.stuck_s:
                raise StuckError(f"{key}: its last transaction does not end")
            await asyncio.sleep((busy_s or MARKERS_S) if is_busy else self._retry_s)
        raise ProducerClosedError

    async def add_partitions(
        self, who: ProducerState, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, KafkaError]:
        """Add partitions to a first-version transaction; return the failed ones. Raises KafkaError."""
        failed: dict[TopicPartition, KafkaError] = {}
        wanted = set(places)
        while wanted:
            answer = await self.ask(
                add_partitions(who, wanted), lambda found: codes_of(added(found)), key=who.transactional_id
            )
            for where, code in added(answer):
                if code is ErrorCode.operation_not_attempted:
                    continue  # another partition cannot be added: retry without that one
                wanted.discard(where)
                if code is not ErrorCode.none:
                    failed[where] = BrokerError(code, f"{where[0]}-{where[1]} cannot be added to the transaction")
        return failed

    async def add_group(self, who: ProducerState, group: str) -> None:
        """Add a group to a first-version transaction; raises KafkaError."""
        answer = await self.ask(add_offsets(who, group), own_code, key=who.transactional_id)
        check(answer.error_code, group)

    async def commit_offsets(
        self, who: ProducerState, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], *, is_second: bool
    ) -> None:
        """Commit a group's offsets in a transaction; raises KafkaError."""
        answer = await self.ask(
            commit_offsets(who, group, offsets, is_second=is_second),
            lambda found: codes_of(codes_by_place(found)),
            kind=CoordinatorType.GROUP,
            key=group,
            come_again=(*COME_AGAIN, ErrorCode.request_timed_out),
        )
        for (topic, partition), code in codes_by_place(answer):
            check(code, f"{topic}-{partition}")

    async def identify(self, name: str, timeout_ms: int) -> tuple[Any, int]:
        """Return the response to InitProducerId, and the timeout of the transaction.

        The timeout is shorter than `timeout_ms` if the target does not allow that. Raises KafkaError.
        """
        while True:
            answer = await self.ask(init_producer_id(name, timeout_ms), own_code, key=name)
            shorter_ms = timeout_ms // 2
            if answer.error_code is not ErrorCode.invalid_transaction_timeout or shorter_ms < LEAST_TIMEOUT_MS:
                return answer, timeout_ms
            _tell_of_time_out(name, timeout_ms, shorter_ms)
            timeout_ms = shorter_ms

    async def fence(self, name: str, timeout_ms: int) -> None:
        """Fence the producer of a transactional id as soon as its last transaction has ended."""
        request = init_producer_id(name, timeout_ms)
        while not self._is_closed():
            try:
                node = await self._client.coordinator(CoordinatorType.TRANSACTION, name)
                answer = await self._client.ask(node, request, Purpose.COORDINATION)
                if answer.error_code is ErrorCode.none:
                    return
            except KafkaError as error:
                log.debug("%s cannot be fenced: %s", name, error)
            self._client.forget_coordinator(CoordinatorType.TRANSACTION, name)
            await asyncio.sleep(FENCE_AGAIN_S)


def codes_of(found: Iterable[tuple[TopicPartition, ErrorCode]]) -> list[ErrorCode]:
    """Return the error codes of all partitions."""
    return [code for _, code in found]


def own_code(answer: Any) -> list[ErrorCode]:
    """Return the error code of a response that has one."""
    return [answer.error_code]


@cache  # log it once, because each window opens a producer
def _tell_of_time_out(name: str, asked_ms: int, shorter_ms: int) -> None:
    log.warning(
        "%s: the target allows no transaction of %d ms (transaction.max.timeout.ms of its brokers): using %d ms",
        name,
        asked_ms,
        shorter_ms,
    )
