"""The state of one topic-partition inside a window: where it stands, what was read of it, why it rests."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mirror.kafka.protocol import EARLIEST
from mirror.model.flow_plan import Assigned
from mirror.model.offset_map_tail import Tail
from mirror.model.record_batches import Batch, Outgoing
from mirror.model.repartition import Round
from mirror.model.reports import Tally

QUEUE_BYTES = 4 << 20  # read-ahead per topic-partition
FIRST_BACK_OFF_S = 1.0


@dataclass(slots=True, eq=False)
class Partition:
    """State of one topic-partition inside a window."""

    assigned: Assigned
    position: int = -1  # next source offset to fetch
    acked: int = -1  # next source offset that the target has not acknowledged
    begins: int | None = None  # EARLIEST or LATEST while it has no position yet
    ids: str = ""  # of its topic on both sides, as they are kept with the position
    in_doubt: bool = False  # its topic may be another one by now: nothing is read before the source has told
    is_another: bool = False  # topic than that of its position; it rests, as the flow says
    awaits_operator: bool = False  # who is to set its position; nothing writes the old one over that
    ends_at: int | None = None  # the source's log end, where that was found to lie before the position
    high_watermark: int = -1  # the last that the source told
    goes_to: int = 0  # the next batch has no lower offset on the target, or that log is another one by now, or was cut
    committed: int | None = None  # the position that the target's group has, with its note; None: it is to be written
    until_ms: int = 0  # a batch of an earlier window may come into the log until then, epoch ms; nothing is sent before
    in_sync: int | None = None  # so many replicas were in sync when the target appended nothing
    tail: Tail = field(default_factory=Tail)
    queue: deque[Batch] = field(default_factory=deque)
    ready: deque[Outgoing] = field(default_factory=deque)
    rounds: deque[Round] = field(default_factory=deque)  # instead of `ready`, of a topic that is spread
    rounds_end: int = 0  # source offset behind the last of them
    turns: int = 0  # rounds begun, which places records without a key
    held_bytes: int = 0  # read, and not acknowledged
    taken_bytes: int = 0  # of these: taken out of the queue
    in_flight: bool = False
    has_arrived: bool = False  # something of it, in this window
    is_hot: bool = True
    last_data_s: float = 0.0
    resume_s: float = 0.0
    back_off_s: float = FIRST_BACK_OFF_S
    reason: str = ""
    tally: Tally = field(default_factory=Tally)

    def place(self, offset: int) -> None:
        """Begin at a source offset; nothing before it is to come."""
        self.tail = Tail(begins_at=0 if self.begins == EARLIEST else offset)
        self.position = self.acked = offset
        self.begins = None

    def landed(self, outgoing: Outgoing, base: int) -> None:
        """Note where a batch went; a broker that has forgotten a repeated one no longer knows its offset, and says -1."""
        if base >= 0:
            self.tail.acknowledged(outgoing.runs, base)
            self.goes_to = base + 1

    def passed(self, offset: int) -> None:
        """Note that the target has, or is not to have, all before a source offset; that never goes back."""
        self.acked = max(self.acked, offset)

    def has_room(self, now_s: float) -> bool:
        """Tell whether more of it is to be fetched now."""
        is_placed = self.begins is None and not self.in_doubt
        return is_placed and self.held_bytes < QUEUE_BYTES and now_s >= self.resume_s

    @property
    def has_arrived_whole(self) -> bool:
        """True when nothing that was read of it is still on its way to the target."""
        return not (self.queue or self.ready or self.rounds or self.in_flight)
