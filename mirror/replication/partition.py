"""Hold the state of one partition inside a window: position, backlog, identity and pause."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from metrics.error_kind import ErrorKind
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.metadata import id_of
from mirror.kafka.protocol import EARLIEST
from mirror.model.flow_plan import PlannedPartition
from mirror.model.gaps import Cause, Effect, Gap, with_gap
from mirror.model.identical_offsets import Fill
from mirror.model.leader_epochs import LeaderEpochs
from mirror.model.offset_map_tail import Tail
from mirror.model.paused_topics import REASON as BY_OPERATOR
from mirror.model.record_batches import Batch, Outgoing, Round
from mirror.model.reports import Tally
from mirror.model.sequences import NextSequence
from mirror.model.topic_partition import TopicPartition
from mirror.policy.recreated import TopicIds
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import first_few

QUEUE_BYTES = 4 << 20  # read-ahead per partition
FIRST_BACK_OFF_S, LAST_BACK_OFF_S = 1.0, 60.0


class Identity(Enum):
    """Whether the topics of a partition are those for which its position was committed.

    ========== ============================ =========================================================
    from       to                           when
    ========== ============================ =========================================================
    (start)    VERIFIED                     plan and position name the same topics
    (start)    UNVERIFIED                   they differ, there is no position, or the last window was not sure
    (start)    REPLACED_BEFORE              they differ, and the flow's policy is to stop
    VERIFIED   UNVERIFIED                   a cluster responds as for another topic, or does not list it
    UNVERIFIED VERIFIED                     the clusters report the same topics, or the policy is to continue
    UNVERIFIED REPLACED                     they report others, and the policy is to stop
    ========== ============================ =========================================================
    """

    VERIFIED = auto()
    UNVERIFIED = auto()  # nothing is fetched; batches already read are still sent
    REPLACED = auto()  # paused until an operator sets its position; the next window verifies it again
    REPLACED_BEFORE = auto()  # the same, and the plan shows the replacement too


class Pause(Enum):
    """The condition that ends the pause of a partition. An operator's pause of the topic applies in addition.

    ================ ======================================================================================
    NONE             it is replicated
    BACK_OFF         it is retried after a time that doubles
    STANDSTILL       it is retried when the target's metadata change
    NEXT_WINDOW      the next window retries it, with another producer or another topic
    OUTCOME_UNKNOWN  the start of a window finds its last batch in the target's log, or that the batch can no longer arrive
    REPLACED         an operator sets its position
    ================ ======================================================================================

    When the target acknowledges a batch, every pause except an operator's ends.
    """

    NONE = auto()
    BACK_OFF = auto()
    STANDSTILL = auto()
    NEXT_WINDOW = auto()
    OUTCOME_UNKNOWN = auto()
    REPLACED = auto()


@dataclass(slots=True, eq=False)
class PauseState:
    """Whether a partition is paused, why, and when it is retried."""

    kind: Pause = Pause.NONE
    is_by_operator: bool = False
    lacks_topic: bool = False  # a cluster does not list its topic
    error: ErrorKind = ErrorKind.OTHER
    _reason: str = ""
    _due_s: float | None = 0.0  # when it is retried, by the loop's clock; None: `kind` shows what ends the pause
    _back_off_s: float = FIRST_BACK_OFF_S

    @property
    def reason(self) -> str:
        """Why it is paused, "" if it is not."""
        return BY_OPERATOR if self.is_by_operator else self._reason

    @property
    def is_topic_in_question(self) -> bool:
        """True if one of its topics was replaced or is not listed: the flow refreshes topics soon."""
        return self.kind is Pause.REPLACED or self.lacks_topic

    def begin(
        self,
        kind: Pause,
        reason: str,
        due_s: float | None = None,
        *,
        lacks_topic: bool = False,
        error: ErrorKind = ErrorKind.OTHER,
    ) -> None:
        """Pause the partition, until a time of the loop's clock if one is given."""
        self.kind, self._reason, self._due_s, self.lacks_topic, self.error = kind, reason, due_s, lacks_topic, error

    def set_by_operator(self, *, is_paused: bool) -> None:
        """Pause or resume the partition at an operator's request."""
        self.is_by_operator = is_paused

    def retry(self, due_s: float = 0.0) -> None:
        """Retry the partition from `due_s` on; its reason stays until a batch is acknowledged."""
        self._due_s = due_s

    def next_back_off_s(self) -> float:
        """Return the length of this pause in seconds; double the next one."""
        pause_s, self._back_off_s = self._back_off_s, min(2 * self._back_off_s, LAST_BACK_OFF_S)
        return pause_s

    def end(self) -> None:
        """End the pause, except an operator's."""
        self.begin(Pause.NONE, "", 0.0)
        self._back_off_s = FIRST_BACK_OFF_S

    def is_due(self, now_s: float) -> bool:
        """Return whether something may be tried with the partition now."""
        return not self.is_by_operator and self._due_s is not None and now_s >= self._due_s


@dataclass(slots=True, eq=False)
class Backlog:
    """The records of a partition between fetch and acknowledgement.

    ReadAhead and Repacking of mirror.replication change it.
    """

    queue: deque[Batch] = field(default_factory=deque)
    ready: deque[Round] = field(default_factory=deque)
    turns: int = 0  # batches so far of a repartitioned topic; determines where records without a key go
    held_bytes: int = 0  # bytes read and not acknowledged
    taken_bytes: int = 0  # bytes of these that were taken out of the queue

    @property
    def is_empty(self) -> bool:
        """True if nothing waits to be sent."""
        return not (self.queue or self.ready)


@dataclass(slots=True, eq=False)
class FetchState:
    """Facts about a partition's log that fetches have shown."""

    high_watermark: int = -1  # the last one that a fetch returned, -1: unknown
    read_replica: int | None = None  # node id of the replica that the leader names
    truncated_to: int | None = None  # end of the common log if it is before the position
    is_hot: bool = True  # it had data lately
    last_data_s: float = 0.0
    _from: FetchPosition | None = None  # of the last fetch, with its topic ids
    _from_ids: str = ""

    def begins(self, offset: int, max_bytes: int, last_epoch: int, ids: str) -> FetchPosition:
        """Return the next fetch position; the same object as before if nothing has changed.

        For idle partitions, fetches then compare objects by identity only.
        """
        at = self._from
        if (
            at is None
            or at.offset != offset
            or at.last_epoch != last_epoch
            or at.max_bytes != max_bytes
            or self._from_ids != ids
        ):
            at = self._from = FetchPosition(offset, max_bytes, id_of(TopicIds.parse(ids).source), last_epoch)
            self._from_ids = ids
        return at

    def follow_replica(self, node: int) -> None:
        """Read from a replica. Its high watermark may be lower."""
        self.read_replica, self.high_watermark = node, -1

    def follow_leader(self) -> None:
        """Read from the leader again. From now on, a lower high watermark is suspicious."""
        self.read_replica = None

    def see(self, high_watermark: int) -> None:
        """Record the high watermark of a fetch."""
        self.high_watermark = high_watermark

    def truncate(self, offset: int) -> None:
        """Record the offset up to which the log agrees with the read records."""
        self.truncated_to = offset

    def warm(self, now_s: float) -> bool:
        """Record that the partition has data; return whether it had none lately."""
        was_cold, self.is_hot, self.last_data_s = not self.is_hot, True, now_s
        return was_cold

    def cool(self) -> None:
        """Record that the partition has been quiet."""
        self.is_hot = False

    def start_over(self) -> None:
        """Forget the state from earlier fetches: the topic was replaced, or the position was set."""
        self.high_watermark, self.truncated_to = -1, None


@dataclass(slots=True, eq=False)
class RemoteLog:
    """The log of a remote partition whose offsets are identical to the source's.

    ================ =================================================================================
    end is None      not compared with the source's log since the last failure: nothing may be written
    end is an offset the next record must have this offset; gaps before it are filled
    ================ =================================================================================
    """

    end: int | None = None
    disposable_before: int = 0  # no record before it must be kept: the source has none, or it was skipped
    is_identical: bool | None = None  # the last result of this window, None without one

    def compared(self, end: int, *, disposable_before: int) -> None:
        """Record that the target's log agrees with the source's, up to the target's log end."""
        self.end, self.disposable_before, self.is_identical = end, disposable_before, True

    def diverged(self) -> None:
        """Record that the logs have different offsets."""
        self.end, self.is_identical = None, False

    def doubt(self) -> None:
        """Forget the log end; it is read again before the next write."""
        self.end = None

    def grow(self, end: int) -> None:
        """Record where the log ends now."""
        self.end = end

    def dispose(self, offset: int) -> None:
        """Record that the source has no records before an offset."""
        self.disposable_before = max(self.disposable_before, offset)


@dataclass(slots=True, eq=False)
class Partition:
    """State of one partition inside a window.

    Offsets are source offsets unless stated otherwise. `committed` is the position in the target's group that has the current
    metadata; None if the position must be written.
    """

    assigned: PlannedPartition
    on_source: TopicPartition = field(init=False)  # as in `assigned`, made once: each fetch and batch needs it
    on_target: TopicPartition = field(init=False)
    position: int = -1  # next offset to fetch
    acked: int = -1  # first offset that the target has not acknowledged
    start: int | None = None  # EARLIEST or LATEST while it has no position
    # First and last source offset of the records that the target lost from its log end; the first is None if unknown.
    hole: tuple[int | None, int] | None = None
    next_target_offset: int = 0  # a lower offset of a batch shows a log that was cut, or another topic
    ids: str = ""  # of its topics; committed with the position
    identity: Identity = Identity.VERIFIED
    committed: int | None = None
    changes: int = 0  # of the metadata: a commit in flight lacks later ones
    outcome_unknown_until_ms: int = 0  # epoch ms; before that a batch may still be appended: nothing is sent
    in_sync: int | None = None  # in-sync replicas when the target appended nothing
    sequence: NextSequence | None = None  # of the record at `acked`; None: not numbered yet, or written in transactions
    announced: NextSequence | None = None  # the one committed in the target's group
    registered: int | None = None  # as PositionMetadata.registered; None: not bidirectional
    # the log end of the remote partition before the first record, if other producers write to the partition too
    target_end: int | None = None
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    tail: Tail = field(default_factory=Tail)
    pause: PauseState = field(default_factory=PauseState)
    backlog: Backlog = field(default_factory=Backlog)
    fetch: FetchState = field(default_factory=FetchState)
    remote_log: RemoteLog | None = field(init=False)  # None: offsets are translated
    in_flight: bool = False
    has_arrived: bool = False  # the target has appended a batch of it in this window
    tally: Tally = field(default_factory=Tally)
    gaps: list[Gap] = field(default_factory=list)  # not in the ledger yet

    def __post_init__(self) -> None:
        self.on_source, self.on_target = self.assigned.on_source, self.assigned.on_target
        self.remote_log = RemoteLog() if self.assigned.is_identical else None

    # --- its position --------------------------------------------------------------------------------------------

    def place(self, offset: int) -> None:
        """Start at an offset; no record before the offset will be copied."""
        begins_at = 0 if self.start == EARLIEST else offset
        self.tail = Tail(begins_at=begins_at)
        if self.target_end is not None:
            self.tail.nothing_before(offset, self.target_end)
        self.moved(offset)
        self.start = None

    def moved(self, offset: int) -> None:
        """Seek to an offset and drop the sequence numbers. For every move that is not an acknowledgement."""
        self.position = self.acked = offset
        self.sequence = None
        self.epochs = LeaderEpochs()

    def forget_epochs(self) -> None:
        """Forget the leader epochs of read records: the log has grown, or diverged."""
        self.epochs = LeaderEpochs()

    def read(self, batch: Batch) -> None:
        """Queue the next batch, and move the position after it."""
        self.backlog.queue.append(batch)
        self.position = batch.last_offset + 1
        self.epochs.read(batch.base_offset, batch.leader_epoch)

    def landed(self, outgoing: Outgoing, base: int) -> None:
        """Record the target offset of a batch.

        The offset is -1 if the broker no longer has it, which can happen for a repeated batch.
        """
        if self.sequence is not None:
            self.sequence = self.sequence.after(outgoing.count)
        if base >= 0 and self.assigned.keeps_partition:
            self.tail.acknowledged(outgoing.runs, base)
            self.next_target_offset = base + 1

    def filled(self, fill: Fill, *, is_mapped: bool) -> None:
        """Record that offsets without a record are occupied on the target.

        `is_mapped`: a consumer at one of these offsets continues at the same offset on the target.
        """
        if is_mapped:
            self.tail.add_equal(fill.start, fill.end)
            self.next_target_offset = fill.end
            self.rewrite_position()  # it may be at this offset already
        self.passed(fill.end)

    def align(self, position: int, log_end: int, appended: int) -> None:
        """Continue at another position, because the target's log ends at `log_end`.

        `appended`: the number of records after the last position on the target, -1 if unknown.
        """
        sequence = self.sequence
        if position <= self.acked:
            self.tail.runs.cut(log_end)
        self.moved(position)
        self.number(sequence.after(appended) if sequence is not None and appended >= 0 else None)
        self.rewrite_position()

    def rewind(self, to: int | None = None) -> None:
        """Read again from the last acknowledgement, or from a committed position."""
        if to is not None:
            self.acked = to
        self.position = self.acked

    def send(self) -> None:
        """Record that a batch is in flight."""
        self.in_flight = True

    def settle(self, *, has_arrived: bool) -> None:
        """Record that no batch is in flight, and whether the target has appended one."""
        self.in_flight = False
        self.has_arrived |= has_arrived

    def find_hole(self) -> None:
        """Record the loss of the target log's end, which a later batch has shown."""
        self.hole = self.tail.last_hole()

    def map_from(self, offset: int) -> None:
        """Start a new tail of the offset map at a source offset."""
        self.tail = Tail(begins_at=offset)

    def restart(self) -> None:
        """Replicate the topic from its start, when the start offset is known."""
        self.start = EARLIEST

    def map_again(self, tail: Tail, target_end: int) -> None:
        """Continue with another tail of the offset map, at the target's log end."""
        self.tail, self.next_target_offset = tail, target_end
        self.rewrite_position()

    def expect(self, target_offset: int) -> None:
        """Expect the next batch at an offset of the target."""
        self.next_target_offset = target_offset

    def place_again(self) -> None:
        """Forget the earlier findings about the log: the partition is at the right position."""
        self.fetch.start_over()
        self.hole = None

    def start_over(self) -> None:
        """Forget all data about the earlier topic, which was replaced."""
        self.place_again()
        self.next_target_offset, self.sequence, self.epochs = 0, None, LeaderEpochs()
        if self.remote_log is not None:
            self.remote_log.doubt()

    def passed(self, offset: int) -> None:
        """Advance `acked` past an offset; never move it back.

        All earlier records are on the target or deliberately skipped.
        """
        self.acked = max(self.acked, offset)

    def record_gap(self, effect: Effect, cause: Cause, first: int | None, last: int | None, said: str) -> None:
        """Record a gap, which the next commit writes into the flow's ledger (mirror.model.gaps)."""
        where, topic_id = self.assigned, TopicIds.parse(self.ids).source
        gap = Gap(where.topic, where.partition, effect, cause, first, last, int(now_ms()), said, topic_id)
        self.gaps = with_gap(self.gaps, gap)

    def forget_gap(self, gap: Gap) -> None:
        """Forget a gap that is in the ledger."""
        self.gaps = [each for each in self.gaps if each != gap]

    @property
    def has_announced_numbers(self) -> bool:
        """True if its sequence numbers are in the target's group: the next window continues them, or is refused.

        Also true for a repartitioned topic, which has no such numbers: the producer counts its batches.
        """
        if not self.assigned.keeps_partition:
            return True
        ours, known = self.sequence, self.announced
        return ours is not None and known is not None and ours[:2] == known[:2]

    @property
    def has_arrived_whole(self) -> bool:
        """True if no batch of it is queued or in flight."""
        return self.backlog.is_empty and not self.in_flight

    @property
    def is_idle(self) -> bool:
        """True if it is not paused and this window has nothing to report.

        Nothing was replicated, lost or rewound.
        """
        return not (self.tally.records or self.tally.lost or self.tally.rewinds or self.pause.reason)

    # --- its position in the target's group ----------------------------------------------------------------------

    def rewrite_position(self) -> None:
        """Make the next commit write the position, even if the offset is the same."""
        self.committed = None
        self.changes += 1

    def record_commit(self, acked: int, changes: int, sequence: NextSequence | None) -> None:
        """Record a committed position; `changes` is the number at the time of the request."""
        self.announced = sequence
        if self.changes == changes:  # otherwise the metadata must be written again
            self.committed = acked

    def hold_back(self, until_ms: int) -> None:
        """Send nothing until the last batch has arrived or can no longer arrive.

        The next window reads this with the position.
        """
        self.outcome_unknown_until_ms = until_ms
        self.rewrite_position()

    def record_outcome(self) -> None:
        """Record that the outcome of its batches is known."""
        if self.outcome_unknown_until_ms:
            self.outcome_unknown_until_ms = 0
            self.rewrite_position()

    def record_in_sync(self, replicas: int | None) -> None:
        """Record, for the next window, the in-sync replicas when the target appended nothing.

        None: the target appends again.
        """
        if replicas is not None or self.in_sync is not None:
            self.in_sync = replicas
            self.rewrite_position()

    def register(self, target_end: int) -> None:
        """Record the remote log end at the time when the flow's producers were registered."""
        self.registered = target_end
        self.rewrite_position()

    def begin_after(self, target_end: int) -> None:
        """Record the remote log end before the first record."""
        self.target_end = target_end

    def number(self, sequence: NextSequence | None) -> None:
        """Set the sequence numbers; None: not numbered yet, or written in transactions."""
        self.sequence = sequence

    def doubt_numbers(self) -> None:
        """Record that the target may no longer have the sequence numbers."""
        if self.sequence is not None:
            self.sequence = self.sequence.doubted()
            self.rewrite_position()

    # --- its identity -------------------------------------------------------------------------------------------

    def doubt(self) -> None:
        """Stop fetching until the clusters have reported its topics; queued batches are still sent."""
        if self.identity is Identity.VERIFIED:
            self.identity = Identity.UNVERIFIED

    def identify(self, ids: str) -> None:
        """Record the ids of its topics. They are committed with the position."""
        self.ids = ids

    def verified(self) -> None:
        """Record that its topics are those of its position, or count as the same."""
        self.identity = Identity.VERIFIED

    def replaced(self, reason: str, *, before: bool) -> None:
        """Pause the partition until an operator sets its position.

        `before`: the plan shows the replacement too.
        """
        self.identity = Identity.REPLACED_BEFORE if before else Identity.REPLACED
        self.pause.begin(Pause.REPLACED, reason, error=ErrorKind.POSITION_REQUIRED)

    def fetched_from(self, max_bytes: int) -> FetchPosition:
        """Return the fetch position, with the topic id of the committed position if known."""
        return self.fetch.begins(self.position, max_bytes, self.epochs.last, self.ids)

    @property
    def remote_id(self) -> uuid.UUID | None:
        """The remote topic's id in the position; None if unknown."""
        return id_of(TopicIds.parse(self.ids).target)

    @property
    def awaits_operator(self) -> bool:
        """True if an operator must set its position: no process may write it."""
        return self.identity in (Identity.REPLACED, Identity.REPLACED_BEFORE)

    @property
    def is_placed(self) -> bool:
        """True if the next offset to fetch is known."""
        return self.start is None and self.identity is Identity.VERIFIED

    def has_room(self, now_s: float) -> bool:
        """Return whether more of it should be fetched now."""
        return self.is_placed and self.backlog.held_bytes < QUEUE_BYTES and self.pause.is_due(now_s)


def named(partitions: Iterable[Partition]) -> str:
    """Return the names of the first few of some partitions, for a log line."""
    return first_few([f"{p.assigned.topic}-{p.assigned.partition}" for p in partitions])
