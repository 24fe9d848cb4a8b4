"""Fetch requests of a broker in memory: sessions, long polls, records that transactions have decided."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mirror.kafka.errors import ErrorCode
from mirror.kafka.messages import answers, make
from tests.simulation.log import PartitionLog

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

OK = ErrorCode.none
_NO_SESSION, _FULL, _LAST = -1, 0, (1 << 31) - 1


class _Session:
    """What a client reads: by (topic, partition), its part of the request."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.epoch = 1
        self.parts: dict[tuple[Any, int], Any] = {}


class _Waiting:
    """A fetch that waits for records."""

    def __init__(self, look: Callable[[bool], bool]) -> None:
        self.look = look
        self.is_done = False

    def look_again(self, *, is_due: bool = False) -> None:
        if not self.is_done:
            self.is_done = self.look(is_due)


class Fetches:
    """The sessions and the waiting fetches of one broker."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster = cluster
        self._node = node
        self._sessions: dict[int, _Session] = {}
        self._numbers = 0
        self._waiting: list[_Waiting] = []

    def clear(self) -> None:
        """Forget everything, as a broker does that stops."""
        self._sessions.clear()
        self._waiting.clear()

    def look_again(self, _: PartitionLog) -> None:
        """Answer the fetches for which there are records now."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.look_again()
        self._waiting += [one for one in waiting if not one.is_done]

    def fetch(self, request: Any, version: int, answer: Callable[[Any], None]) -> None:
        """Answer a fetch, when it has something or its time is over."""
        module = answers(1, version)
        session, code = self._session(request)
        if code is not OK:
            answer(self._response(module, code, 0, []))
            return
        wanted = session.parts if session is not None else _named(request)
        number = session.number if session is not None else 0
        is_full = request.session_epoch in (_NO_SESSION, _FULL)

        def look(is_due: bool) -> bool:
            found = [self._part(module, request, key, one) for key, one in wanted.items()]
            has_news = any(part.records or part.error_code is not OK for _, part in found)
            if not (has_news or is_due or request.max_wait.total_seconds() == 0):
                return False
            shown = [(topic, part) for topic, part in found if is_full or part.records or part.error_code is not OK]
            answer(self._response(module, OK, number, shown))
            return True

        waiting = _Waiting(look)
        waiting.look_again()
        if not waiting.is_done:
            self._waiting.append(waiting)
            self._cluster.world.after(request.max_wait.total_seconds(), lambda: waiting.look_again(is_due=True))

    def _session(self, request: Any) -> tuple[_Session | None, ErrorCode]:
        number, epoch = getattr(request, "session_id", 0), getattr(request, "session_epoch", _NO_SESSION)
        if epoch in (_NO_SESSION, _FULL):
            self._sessions.pop(number, None)
            if epoch == _NO_SESSION:
                return None, OK
            self._numbers += 1
            session = self._sessions[self._numbers] = _Session(self._numbers)
            session.parts = _named(request)
            return session, OK
        found = self._sessions.get(number)
        if found is None:
            return None, ErrorCode.fetch_session_id_not_found
        if found.epoch != epoch:
            return None, ErrorCode.invalid_fetch_session_epoch
        found.epoch = 1 if epoch == _LAST else epoch + 1
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                found.parts.pop((_topic_of(topic), partition), None)
        found.parts |= _named(request)
        return found, OK

    def _part(self, module: Any, request: Any, key: tuple[Any, int], one: Any) -> tuple[Any, Any]:
        topic, number = key
        log = self._cluster.log_by(topic, number)
        code, records, aborted, high, stable = OK, b"", (), -1, -1
        if log is None:
            code = ErrorCode.unknown_topic_or_partition
        elif log.leader != self._node:
            code = ErrorCode.not_leader_or_follower
        elif not 0 <= one.fetch_offset <= log.end:
            code = ErrorCode.offset_out_of_range
        else:
            high, stable = log.high_watermark, log.last_stable
            up_to = stable if request.isolation_level == 1 else high
            records = log.read(one.fetch_offset, up_to, min(one.partition_max_bytes, request.max_bytes))
            if request.isolation_level == 1:
                kind = module.AbortedTransaction
                pairs = log.aborted_from(one.fetch_offset)
                aborted = tuple(kind(producer_id=producer_id, first_offset=first) for producer_id, first in pairs)
        part = make(
            module.PartitionData,
            partition_index=number,
            error_code=code,
            high_watermark=high,
            last_stable_offset=stable,
            log_start_offset=0,
            aborted_transactions=aborted,
            preferred_read_replica=-1,
            records=records,
        )
        return topic, part

    def _response(self, module: Any, code: ErrorCode, session: int, parts: list[tuple[Any, Any]]) -> Any:
        by_topic: dict[Any, list[Any]] = {}
        for topic, part in parts:
            by_topic.setdefault(topic, []).append(part)
        kind = module.FetchableTopicResponse
        responses = tuple(
            make(kind, topic=topic, topic_id=topic, partitions=tuple(found)) for topic, found in by_topic.items()
        )
        return make(
            module.FetchResponse,
            throttle_time=timedelta(0),
            error_code=code,
            session_id=session,
            responses=responses,
        )


def _topic_of(topic: Any) -> Any:
    return topic.topic_id if hasattr(topic, "topic_id") else topic.topic


def _named(request: Any) -> dict[tuple[Any, int], Any]:
    return {(_topic_of(topic), part.partition): part for topic in request.topics for part in topic.partitions}
