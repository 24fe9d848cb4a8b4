"""Hold the state of one topic-partition inside a window: its position, what was read of it, its identity and its pause."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.metadata import id_of
from mirror.kafka.protocol import EARLIEST
from mirror.model.flow_plan import PlannedPartition
from mirror.model.gaps import Cause, Effect, Gap, with_gap
from mirror.model.leader_epochs import LeaderEpochs
from mirror.model.offset_map_tail import Tail
from mirror.model.paused_topics import REASON as BY_OPERATOR
from mirror.model.record_batches import Batch, Outgoing
from mirror.model.repartition import Round
from mirror.model.reports import Tally
from mirror.model.sequences import NextSequence
from mirror.policy.recreated import TopicIds
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import first_few

QUEUE_BYTES = 4 << 20  # read-ahead per topic-partition
FIRST_BACK_OFF_S, LAST_BACK_OFF_S = 1.0, 60.0
NEVER = float("inf")


class Identity(Enum):
    """Whether the topics of a topic-partition are those that its position was committed for.

    ========== ============================ =========================================================
    from       to                           when
    ========== ============================ =========================================================
    (begin)    VERIFIED                     plan and position name the same topics
    (begin)    UNVERIFIED                   they differ, there is no position, or the last window was not sure
    (begin)    REPLACED_BEFORE              they differ, and the flow's policy is to stop
    VERIFIED   UNVERIFIED                   a cluster answers as for another topic, or shows none
    UNVERIFIED VERIFIED                     the clusters name the same topics, or the policy is to go on
    UNVERIFIED REPLACED                     they name others, and the policy is to stop
    ========== ============================ =========================================================
    """

    VERIFIED = auto()
    UNVERIFIED = auto()  # nothing is fetched; batches already read are still sent
    REPLACED = auto()  # paused until an operator sets its position; the next window verifies it again
    REPLACED_BEFORE = auto()  # the same, and the plan says so already


class Pause(Enum):
    """What ends the pause of a topic-partition. An operator's pause of the topic goes on top of it.

    ================ ======================================================================================
    NONE             it is replicated
    BACK_OFF         it is tried again after a time that doubles
    STANDSTILL       it is tried again when the target's metadata show a change
    NEXT_WINDOW      it is tried again by the next window, through another producer or to another topic
    OUTCOME_UNKNOWN  a window's begin finds that its last batch is in the target's log, or will never be
    REPLACED         an operator sets its position
    ================ ======================================================================================

    Each of them ends with a batch that the target acknowledges.
    """

    NONE = auto()
    BACK_OFF = auto()
    STANDSTILL = auto()
    NEXT_WINDOW = auto()
    OUTCOME_UNKNOWN = auto()
    REPLACED = auto()


@dataclass(slots=True, eq=False)
class Partition:
    """State of one topic-partition inside a window.

    Offsets are of the source where nothing else is said. `committed` is the position that the target's group has with the
    present metadata, None where it is to be written.
    """

    assigned: PlannedPartition
    position: int = -1  # next offset to fetch
    acked: int = -1  # next offset that the target has not acknowledged
    start: int | None = None  # EARLIEST or LATEST while it has no position
    truncated_to: int | None = None  # up to where the log has what was read, where that is before the position
    high_watermark: int = -1  # the last that was fetched
    read_replica: int | None = None  # node id of the one that its leader wants asked instead
    # First and last source offset of what the target lost with the end of its log; None for a first one that is not known.
    hole: tuple[int | None, int] | None = None
    next_target_offset: int = 0  # a batch with a lower one means that the target's log was cut, or is another topic's
    ids: str = ""  # of its topics, as they are committed with the position
    identity: Identity = Identity.VERIFIED
    committed: int | None = None
    outcome_unknown_until_ms: int = 0  # epoch ms; until then a batch may come into the target's log: nothing is sent
    in_sync: int | None = None  # replicas that were in sync when the target appended nothing
    sequence: NextSequence | None = None  # of the record behind `acked`; None: not numbered yet, or in transactions
    announced: NextSequence | None = None  # the one that the target's group has with its position
    registered: int | None = None  # as PositionMetadata.registered, where the flow is bidirectional
    target_end: int | None = (
        None  # of a remote topic-partition that others write to: where it ended before the first record
    )
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    tail: Tail = field(default_factory=Tail)
    queue: deque[Batch] = field(default_factory=deque)
    ready: deque[Outgoing] = field(default_factory=deque)
    rounds: deque[Round] = field(default_factory=deque)  # instead of `ready`, of a topic that is repartitioned
    rounds_end: int = 0  # offset behind the last of them
    turns: int = 0  # rounds begun, which places records without a key
    held_bytes: int = 0  # read, and not acknowledged
    taken_bytes: int = 0  # of these: taken out of the queue
    in_flight: bool = False
    has_arrived: bool = False  # something of it, in this window
    is_hot: bool = True
    last_data_s: float = 0.0
    pause: Pause = Pause.NONE
    is_paused_by_operator: bool = False
    lacks_topic: bool = False  # it is paused because a cluster does not show its topic
    back_off_s: float = FIRST_BACK_OFF_S
    tally: Tally = field(default_factory=Tally)
    gaps: list[Gap] = field(default_factory=list)  # that the ledger does not have yet
    _from: FetchPosition | None = None  # of the last fetch, and the ids that it is of
    _from_ids: str = ""
    _reason: str = ""
    _due_s: float = 0.0  # when it is tried again, by the loop's clock

    # --- where it stands ----------------------------------------------------------------------------------------

    def place(self, offset: int) -> None:
        """Start at an offset; nothing before it is to come."""
        begins_at = 0 if self.start == EARLIEST else offset
        self.tail = Tail(begins_at=begins_at)
        if self.target_end is not None:
            self.tail.nothing_before(offset, self.target_end)
        self.moved(offset)
        self.start = None

    def moved(self, offset: int) -> None:
        """Go on at an offset for another reason than that the target has all before it: its sequence numbers end."""
        self.position = self.acked = offset
        self.sequence = None
        self.epochs = LeaderEpochs()

    def read(self, batch: Batch) -> None:
        """Take in the next batch: go on behind it."""
        self.queue.append(batch)
        self.position = batch.last_offset + 1
        self.epochs.read(batch.base_offset, batch.leader_epoch)

    def landed(self, outgoing: Outgoing, base: int) -> None:
        """Note where a batch went; a broker that has forgotten a repeated one does not know its offset, and says -1."""
        if self.sequence is not None:
            self.sequence = self.sequence.behind(outgoing.count)
        if base >= 0:
            self.tail.acknowledged(outgoing.runs, base)
            self.next_target_offset = base + 1

    def passed(self, offset: int) -> None:
        """Note that the target has, or is not to have, all before an offset; that never goes back."""
        self.acked = max(self.acked, offset)

    def record_gap(self, effect: Effect, cause: Cause, first: int | None, last: int | None, said: str) -> None:
        """Record a gap, which the next commit writes into the flow's ledger (mirror.model.gaps)."""
        where, topic_id = self.assigned, TopicIds.parse(self.ids).source
        gap = Gap(where.topic, where.partition, effect, cause, first, last, int(now_ms()), said, topic_id)
        self.gaps = with_gap(self.gaps, gap)

    @property
    def has_announced_numbers(self) -> bool:
        """True when the target's group has its numbers: the next window goes on with them, or is refused."""
        ours, known = self.sequence, self.announced
        return ours is not None and known is not None and ours[:2] == known[:2]

    @property
    def has_arrived_whole(self) -> bool:
        """True when nothing that was read of it is still on its way to the target."""
        return not (self.queue or self.ready or self.rounds or self.in_flight)

    @property
    def is_idle(self) -> bool:
        """True where this window has nothing to tell of it: nothing was replicated, lost or rewound, and it is not paused."""
        return not (self.tally.records or self.tally.lost or self.tally.rewinds or self.reason)

    # --- its identity -------------------------------------------------------------------------------------------

    def doubt(self) -> None:
        """Fetch no more until the clusters have named its topics; batches already read are still sent."""
        if self.identity is Identity.VERIFIED:
            self.identity = Identity.UNVERIFIED

    def verified(self) -> None:
        """Note that its topics are those of its position, or are to be taken for them."""
        self.identity = Identity.VERIFIED

    def replaced(self, reason: str, *, before: bool) -> None:
        """Pause it until an operator sets its position; `before` the window, where the plan says so too."""
        self.identity = Identity.REPLACED_BEFORE if before else Identity.REPLACED
        self.paused(Pause.REPLACED, reason)

    def fetched_from(self, max_bytes: int) -> FetchPosition:
        """Return where to fetch it from: of the topic that its position is of, where that one's id is known.

        The same one as before while nothing has changed: a fetch of many idle ones compares them by their identity first.
        """
        at, place = self._from, (self.position, max_bytes, self.epochs.last, self.ids)
        if at is None or (at.offset, at.max_bytes, at.last_epoch, self._from_ids) != place:
            topic_id = id_of(TopicIds.parse(self.ids).source)
            at = self._from = FetchPosition(self.position, max_bytes, topic_id, self.epochs.last)
            self._from_ids = self.ids
        return at

    @property
    def remote_id(self) -> uuid.UUID | None:
        """The id of the remote topic that its position is of; None where it is not known."""
        return id_of(TopicIds.parse(self.ids).target)

    @property
    def awaits_operator(self) -> bool:
        """True where an operator is to set its position, which nobody else may write."""
        return self.identity in (Identity.REPLACED, Identity.REPLACED_BEFORE)

    @property
    def is_placed(self) -> bool:
        """True when it is known what is to be fetched of it."""
        return self.start is None and self.identity is Identity.VERIFIED

    # --- its pause ----------------------------------------------------------------------------------------------

    @property
    def reason(self) -> str:
        """Why it is paused, "" where it is not."""
        return BY_OPERATOR if self.is_paused_by_operator else self._reason

    @property
    def is_topic_in_question(self) -> bool:
        """True where it is paused because one of its topics is another one, or not to be seen: the flow looks for them soon."""
        return self.pause is Pause.REPLACED or self.lacks_topic

    def paused(self, pause: Pause, reason: str, due_s: float = NEVER, *, lacks_topic: bool = False) -> None:
        """Pause it, for good or up to a time of the loop's clock."""
        self.pause, self._reason, self._due_s, self.lacks_topic = pause, reason, due_s, lacks_topic

    def retried(self, due_s: float = 0.0) -> None:
        """Try it from a time on; its reason stays until a batch is acknowledged."""
        self._due_s = due_s

    def backed_off(self) -> float:
        """Return for how many seconds it pauses now, and double what comes after."""
        pause_s, self.back_off_s = self.back_off_s, min(2 * self.back_off_s, LAST_BACK_OFF_S)
        return pause_s

    def resumed(self) -> None:
        """End its own pause, not an operator's."""
        self.pause, self._reason, self._due_s, self.lacks_topic = Pause.NONE, "", 0.0, False
        self.back_off_s = FIRST_BACK_OFF_S

    def is_due(self, now_s: float) -> bool:
        """Tell whether something may be tried with it now."""
        return not self.is_paused_by_operator and now_s >= self._due_s

    def has_room(self, now_s: float) -> bool:
        """Tell whether more of it is to be fetched now."""
        return self.is_placed and self.held_bytes < QUEUE_BYTES and self.is_due(now_s)


def named(partitions: Iterable[Partition]) -> str:
    """Return the names of the first few of some partitions, for a log line."""
    return first_few([f"{p.assigned.topic}-{p.assigned.partition}" for p in partitions])
