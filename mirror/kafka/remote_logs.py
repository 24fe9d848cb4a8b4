"""Read, fill and shorten the logs of remote partitions with identical offsets.

Aborted transactions occupy the offsets without a record (mirror.model.identical_offsets). One transaction at a time fills all
waiting partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from mirror.config.clients import ClientOptions
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError, is_code
from mirror.kafka.fetcher import Source
from mirror.kafka.internal_topics import REQUEST_BYTES
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.kafka.target import Target
from mirror.kafka.transaction_coordinators import StuckError
from mirror.model.identical_offsets import FILLER_RECORDS, Fill, Log, filler, filler_of_next_transaction
from mirror.model.topic_partition import TopicPartition

log = logging.getLogger("mirror")

MARKER_S = 5.0  # for the markers of a transaction to appear in all logs
FIRST_LOOK_S, LONGEST_LOOK_S = 0.001, 0.05
LEAST_FILLER = 1_000
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)


class NotSettledError(KafkaError):
    """An earlier transaction may still write a marker."""


class WrongEndError(KafkaError):
    """A log does not end at the offset that filler should have reached."""


@dataclass(slots=True, eq=False)
class _Gap:
    """A part of a log to fill, and a future for the resulting log end."""

    fill: Fill
    timestamp_ms: int
    outcome: asyncio.Future[int]

    def failed(self, error: BaseException) -> None:
        """Raise the error in the waiting coroutine."""
        if not self.outcome.done():
            self.outcome.set_exception(error)


class RemoteLogs:
    """The remote logs of one slot of a flow. `reader` reads them; the caller must open `reader`."""

    def __init__(self, options: ClientOptions, transactional_id: str) -> None:
        self._options = options
        self.name = transactional_id
        self.reader = Source(options)
        self._filler = _filler(options, transactional_id)
        self._waiting: dict[TopicPartition, _Gap] = {}
        self._filling: asyncio.Task[None] | None = None
        self._is_fenced = False
        self._compared: set[TopicPartition] = set()  # compared since the fence: no other process can have filled them
        self._unsettled: set[TopicPartition] = set()  # partitions of a transaction that may not have ended
        self._turn = asyncio.Lock()  # one transaction, or fence, at a time
        self._most = FILLER_RECORDS
        self.is_closed = False

    def begin_window(self) -> None:
        """Fence this slot's earlier transactions before the next comparison.

        Another process may have served the slot meanwhile.
        """
        self._is_fenced = False

    async def settle(
        self, places: Collection[TopicPartition], open_elsewhere: Iterable[str] | None
    ) -> set[TopicPartition]:
        """End earlier transactions before logs are compared, and fence another process of this slot.

        Args:
            places: Partitions that are compared next; only these can be filled.
            open_elsewhere: After an unclean end: other transactional ids that may have open transactions. None after a clean end.

        Returns:
            The partitions that can get no more markers of an earlier transaction. After a clean end, one partition that accepts
            no marker does not delay the others. If a coordinator does not learn that a marker is written, it writes the marker
            again.

        Raises:
            KafkaError: the coordinator refuses, or does not respond.
        """
        async with self._turn:
            if not self._is_fenced:
                try:
                    await self._fence()
                except StuckError:
                    if open_elsewhere is not None:
                        raise
                    return set(places) - self._unsettled
            for name in open_elsewhere or ():
                await self._fence_other(name)
            self._compared.update(places)
            return set(places)

    async def _fence_other(self, name: str) -> None:
        other = _filler(self._options, name)
        try:
            await other.open(())
            await other.fence()
        finally:
            await other.close()

    def fill(self, place: TopicPartition, fill: Fill, timestamp_ms: int) -> asyncio.Future[int]:
        """Occupy the first offsets of a gap, as many as one transaction can occupy.

        Returns:
            A future with the new log end, or with a KafkaError. After an error, the log must be compared again.
        """
        gap = _Gap(fill, timestamp_ms, asyncio.get_running_loop().create_future())
        self._waiting[place] = gap
        if self._filling is None or self._filling.done():
            self._filling = asyncio.get_running_loop().create_task(self._fill_all())
        return gap.outcome

    async def delete_before(self, place: TopicPartition, offset: int) -> None:
        """Move the start of a log to an offset; raises KafkaError."""
        await self._filler.delete_before(place, offset)

    def abort(self) -> None:
        """Stop sending at once."""
        self.is_closed = True
        self._filler.abort()
        if self._filling is not None:
            self._filling.cancel()

    async def close(self) -> None:
        """Close all connections."""
        self.abort()
        await self._filler.close()
        await self.reader.close()

    # --- filling ------------------------------------------------------------------------------------------------

    async def _fill_all(self) -> None:
        await asyncio.sleep(0)  # gaps of the same loop iteration are filled together
        while self._waiting:
            gaps, self._waiting = self._waiting, {}
            try:
                async with self._turn:
                    await self._fill(gaps)
            except (KafkaError, OSError, TimeoutError) as error:
                self._is_fenced = False  # the next fence ends a transaction that is still open
                for gap in gaps.values():
                    gap.failed(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            finally:
                for gap in gaps.values():
                    gap.failed(KafkaError("it was given up"))

    async def _fill(self, gaps: Mapping[TopicPartition, _Gap]) -> None:
        await self._filler.open({topic for topic, _ in gaps})
        gaps = {place: gap for place, gap in gaps.items() if self._is_fillable(place, gap)}
        if not gaps:
            return
        self._unsettled |= gaps.keys()
        self._filler.begin_transaction()
        try:
            filled = await self._write(gaps)
        finally:
            await self._filler.abort_transaction()
        await self._filler.await_markers()
        self._unsettled.clear()
        await self._await_ends(gaps, {place: gaps[place].fill.start + records + 1 for place, records in filled.items()})

    def _is_fillable(self, place: TopicPartition, gap: _Gap) -> bool:
        if self._is_fenced and place in self._compared:
            return True
        gap.failed(NotSettledError(f"an earlier transaction of {self.name} has not ended"))
        return False

    async def _fence(self) -> None:
        await self._filler.open(())
        await self._filler.fence()
        self._is_fenced = True
        self._compared.clear()
        self._unsettled.clear()

    async def _write(self, gaps: Mapping[TopicPartition, _Gap]) -> dict[TopicPartition, int]:
        """Write filler, and return how many records each partition got. Gaps that fail are given up."""
        sizes = {place: filler_of_next_transaction(gap.fill.offsets, self._most) for place, gap in gaps.items()}
        sent = {
            place: [self._filler.send(filler(size, gaps[place].timestamp_ms), *place) for size in found]
            for place, found in sizes.items()
            if found
        }
        refused: Mapping[TopicPartition, BaseException] = await self._filler.enter_transaction(
            [place for place, found in sizes.items() if not found]
        )
        for place, futures in sent.items():
            answers = await asyncio.gather(*futures, return_exceptions=True)
            if (failure := next((each for each in answers if isinstance(each, BaseException)), None)) is not None:
                refused = {**refused, place: failure}
                if is_code(failure, *_TOO_LARGE):
                    self._most = max(LEAST_FILLER, self._most // 2)
        for place, error in refused.items():
            gaps[place].failed(error)
        return {place: sum(found) for place, found in sizes.items() if place not in refused}

    async def _await_ends(self, gaps: Mapping[TopicPartition, _Gap], ends: Mapping[TopicPartition, int]) -> None:
        """Wait until consumers see the markers, and check the markers' offsets."""
        loop = asyncio.get_running_loop()
        deadline_s, pause_s = loop.time() + MARKER_S, FIRST_LOOK_S
        left = dict(ends)
        await self.reader.open({topic for topic, _ in left})
        while left and loop.time() < deadline_s:
            found = await self.reader.offsets(dict.fromkeys(left, LATEST))
            for place, end in found.items():
                if isinstance(end, int) and end >= left[place]:
                    wanted = left.pop(place)
                    if end > wanted:
                        gaps[place].failed(WrongEndError(f"the log ends at {end}, expected {wanted}"))
                    elif not gaps[place].outcome.done():
                        gaps[place].outcome.set_result(end)
            if left:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_LOOK_S)
        for place in left:
            gaps[place].failed(BrokerError(ErrorCode.request_timed_out, "the transaction's marker does not appear"))


async def bounds_of(
    cluster: Source, places: Collection[TopicPartition], *, is_settled: bool
) -> dict[TopicPartition, Log]:
    """Return the bounds of the logs whose leaders respond.

    `is_settled`: leave out logs with records that are not on all replicas yet.
    """
    if not places:
        return {}
    starts, ends, shown = await asyncio.gather(
        cluster.offsets(dict.fromkeys(places, EARLIEST)),
        cluster.offsets(dict.fromkeys(places, LATEST), as_replica=True),
        cluster.offsets(dict.fromkeys(places if is_settled else (), LATEST)),
    )
    found = {}
    for place in places:
        start, end = starts.get(place), ends.get(place)
        if isinstance(start, int) and isinstance(end, int) and (not is_settled or end == shown.get(place)):
            found[place] = Log(start, end)
    if len(found) < len(places):
        cluster.learn()
    return found


def _filler(options: ClientOptions, name: str) -> Target:
    return Target(options, request_bytes=REQUEST_BYTES, transactional_id=name, has_empty_partitions=True)
