"""Determine from a window of polls, with a reason, whether a partition makes progress.

The rules are Burrow's (core/internal/evaluator/caching.go), which need no lag threshold, with four changes:

A. Samples are polls at a steady interval, not commits: a flow counts as stopped when its reports end, not when its commits end.
B. A lag that is constant, or that a few polls can copy, is no warning: positions of a busy partition always trail by a
   second or two.
C. Lost records have their own status.
D. Unknown has its own status.

ABSENT does not come from polls: the plan reports the partitions that the target lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

WINDOW = 10  # number of polls from which a status is derived, as in Burrow
USUAL_POLLS = 3  # a busy partition's committed position trails by what this many polls copy; a larger lag falls behind
KNOWN_POLLS = 3  # a response older than this many polls is outdated
LONG_AGO_S = 1.0  # epoch seconds: for a position of unknown age


class Status(IntEnum):
    """Burrow's codes; IDLE, UNKNOWN (Burrow's group-level ERR), LOST and ABSENT are additions. Larger is worse."""

    IDLE = 0  # a consumer group without a member that reads, which is no fault; never the status of a flow
    OK = 1
    WARN = 2
    UNKNOWN = 3
    STOP = 4
    STALL = 5
    REWIND = 6
    LOST = 7
    ABSENT = 8


FLOW_STATUSES = tuple(status for status in Status if status is not Status.IDLE)


class Sample(NamedTuple):
    """One poll of a partition.

    Attributes:
        time_s: Time of the poll, epoch seconds.
        position: Next source offset to replicate.
        end: Log-end offset.
        lost: Source offsets lost so far.
        start: Log-start offset.
        position_s: When the position was read, if it was read before the poll because its cluster did not respond; else 0.
    """

    time_s: float
    position: int
    end: int
    lost: int = 0
    start: int = 0
    position_s: float = 0.0

    @property
    def lag(self) -> int:
        """Number of records that are not replicated yet.

        A position is read after the log end, so it may be higher than the log end.
        """
        return max(0, self.end - self.position)

    @property
    def first(self) -> int:
        """Offset of the first waiting record: the larger of position and log start."""
        return max(self.position, self.start)


class PartitionStatus(NamedTuple):
    """The status of a partition with its reason.

    `is_complete` is False if the window has fewer polls than it should have.
    """

    status: Status
    reason: str
    is_complete: bool

    def of_hidden(self) -> PartitionStatus:
        """Return the status for a topic that the source does not show to this client."""
        return PartitionStatus(
            Status.UNKNOWN, f"this client is not authorized to DESCRIBE the topic; {self.reason}", is_complete=True
        )

    def of_held(self, by: str) -> PartitionStatus:
        """Return this status with the cause of the wait: `by` is an open transaction."""
        return self._replace(reason=f"{self.reason}; it waits for {by}")


def written_by_s(timestamp_s: float, samples: Sequence[Sample], *, before_s: float | None = None) -> float:
    """Return the time (epoch seconds) by which the first waiting record was written.

    That is the record's timestamp, unless an earlier poll already saw the record wait: then the clock that made the timestamp is
    ahead.

    Args:
        timestamp_s: The record's own timestamp.
        samples: The partition's polls, newest last.
        before_s: The time that the previous poll returned.
    """
    if not samples:
        return timestamp_s
    first, seen_s = samples[-1].first, math.inf
    for sample in reversed(samples):
        if sample.end <= first:
            break
        seen_s = sample.time_s
    if timestamp_s <= seen_s:
        return timestamp_s
    has_waited = len(samples) > 1 and samples[-2].first == first < samples[-2].end
    return min(seen_s, before_s) if has_waited and before_s is not None else seen_s


def judge(
    samples: Sequence[Sample],
    *,
    last_report_s: float,
    now_s: float,
    silence_s: float,
    known_s: float = math.inf,
) -> PartitionStatus:
    """Return the status of one partition.

    Args:
        samples: The polls of the partition in order of time, newest last; only the last WINDOW polls count.
        last_report_s: When the flow last reported a finished window, or started, epoch seconds.
        now_s: The current time, epoch seconds.
        silence_s: A flow has stopped if it reports nothing for longer than this, and for longer than the polls span.
        known_s: The age (seconds) up to which a response of a cluster is current.
    """
    if not samples:
        return PartitionStatus(Status.UNKNOWN, "no position or no log end is known", is_complete=False)
    samples = samples[-WINDOW:]
    found = _of_known(Seen(samples, last_report_s, now_s, silence_s))
    last = samples[-1]
    what, at_s = ("log end", last.time_s) if now_s - last.time_s > known_s else ("position", last.position_s)
    is_old = at_s > 0 and now_s - at_s > known_s
    # Losses, rewinds and stalls stay true; other values that are no longer read may have changed.
    if is_old and (found.status <= Status.UNKNOWN or what == "log end") and found.status < Status.REWIND:
        seen = "lag 0" if last.lag == 0 else _behind(last.lag)
        since = "for an unknown time" if at_s == LONG_AGO_S else f"for {now_s - at_s:.0f} s"
        reason = f"the {what} has not been read {since}; last known: {seen}"
        return PartitionStatus(Status.UNKNOWN, reason, found.is_complete)
    return found


def is_steady(samples: Sequence[Sample]) -> bool:
    """Return whether a whole window of polls has the same offsets at both ends."""
    if len(samples) < WINDOW:
        return False
    first, last = samples[-WINDOW], samples[-1]
    return (first.position, first.end, first.lost) == (last.position, last.end, last.lost)


def _behind(records: int) -> str:
    return f"{records:,} record{'' if records == 1 else 's'} behind"


class Seen(NamedTuple):
    """The polls and times from which a status is derived.

    Each rule returns its reason, or None if it does not apply.
    """

    samples: Sequence[Sample]
    last_report_s: float
    now_s: float
    silence_s: float

    @property
    def first(self) -> Sample:
        """The oldest poll."""
        return self.samples[0]

    @property
    def last(self) -> Sample:
        """The newest poll."""
        return self.samples[-1]

    @property
    def is_complete(self) -> bool:
        """Whether there are enough polls for a status."""
        return len(self.samples) == WINDOW

    @property
    def span_s(self) -> float:
        """Seconds from the oldest poll to the newest one."""
        return self.last.time_s - self.first.time_s

    def lost_records(self) -> str | None:
        """Rule: offsets were deleted at the source before they were replicated."""
        lost = self.last.lost - self.first.lost
        were = "record was" if lost == 1 else "records were"
        return f"{lost} {were} deleted at the source before being copied" if lost > 0 else None

    def rewound(self) -> str | None:
        """Rule: the position is lower than before."""
        highest = max(sample.position for sample in self.samples)
        if self.last.position >= highest:
            return None
        return f"the position went back from {highest} to {self.last.position}"

    def is_caught_up(self) -> str | None:
        """Rule: no record waits."""
        return "everything is replicated" if self.last.lag == 0 else None

    def copies_already(self) -> str | None:
        """Rule: there are few polls, but the position has moved."""
        if self.is_complete or self.last.position <= self.first.position:
            return None
        return f"{_behind(self.last.lag)}; copying"

    def was_polled_too_little(self) -> str | None:
        """Rule: there are few polls, and the position has not moved."""
        if self.is_complete:
            return None
        return f"{_behind(self.last.lag)}; only {len(self.samples)} of {WINDOW} polls so far"

    def was_caught_up(self) -> str | None:
        """Rule: at least one poll found lag 0."""
        if not any(sample.lag == 0 for sample in self.samples):
            return None
        return f"{_behind(self.last.lag)}; was caught up within the last {self.span_s:.0f} s"

    def stopped(self) -> str | None:
        """Rule: the flow has sent no report for longer than the polls span."""
        silent_s = self.now_s - self.last_report_s
        if silent_s <= max(self.span_s, self.silence_s):
            return None
        return f"{_behind(self.last.lag)}; the flow has reported nothing for {silent_s:.0f} s"

    def stalled(self) -> str | None:
        """Rule: the position does not move while records wait."""
        if self.last.position != self.first.position:
            return None
        return f"stalled at offset {self.last.position} for at least {self.span_s:.0f} s; {_behind(self.last.lag)}"

    def falls_behind(self) -> str | None:
        """Rule: the lag never shrank between polls, and is more than a few polls can copy."""
        is_never_smaller = all(after.lag >= before.lag for before, after in pairwise(self.samples))
        copied_per_poll = (self.last.position - self.first.position) / (len(self.samples) - 1)
        if not (is_never_smaller and self.last.lag > self.first.lag and self.last.lag > USUAL_POLLS * copied_per_poll):
            return None
        lags = f"lag {self.first.lag} to {self.last.lag} in {self.span_s:.0f} s"
        return f"copying, but falling behind: {lags}, never smaller"

    def keeps_up(self) -> str | None:
        """Rule: no other rule applies."""
        return f"{_behind(self.last.lag)}, {'catching up' if self.last.lag < self.first.lag else 'keeping pace'}"


# The first rule that applies sets the status.
RULES: tuple[tuple[Callable[[Seen], str | None], Status], ...] = (
    (Seen.lost_records, Status.LOST),
    (Seen.rewound, Status.REWIND),
    (Seen.is_caught_up, Status.OK),
    (Seen.copies_already, Status.OK),
    (Seen.was_polled_too_little, Status.UNKNOWN),
    (Seen.was_caught_up, Status.OK),
    (Seen.stopped, Status.STOP),
    (Seen.stalled, Status.STALL),
    (Seen.falls_behind, Status.WARN),
    (Seen.keeps_up, Status.OK),
)


def _of_known(seen: Seen) -> PartitionStatus:
    """Return the status from the known values, however old they are."""
    reasons = ((status, rule(seen)) for rule, status in RULES)
    status, reason = next((status, reason) for status, reason in reasons if reason is not None)
    return PartitionStatus(status, reason, seen.is_complete)
