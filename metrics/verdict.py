"""Judge whether a topic-partition is broken or just busy, from a window of polls, with the reason in words.

The rules are Burrow's (core/internal/evaluator/caching.go), which need no lag threshold, with four changes: samples
are polls at a steady interval instead of commits, so a flow is stopped when its reports end, not when its commits do; a
lag that stays the same, or is what a few polls copy, is no warning, for positions of a busy partition always trail by a
second or two; lost records are a verdict of their own; and so is it that nobody knows. ABSENT does not come from
polls: the plan reports the partitions that the target lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

WINDOW = 10  # polls that a verdict looks at, as Burrow keeps
USUAL_POLLS = 3  # what so many polls copy is how far a busy partition's committed position trails; more is behind
KNOWN_POLLS = 3  # an answer that is older than so many polls says nothing of now
LONG_AGO_S = 1.0  # epoch seconds: of a position of which nobody knows how old it is


class Status(IntEnum):
    """Burrow's codes; IDLE, UNKNOWN (its group-level ERR), LOST and ABSENT are ours. Larger is worse."""

    IDLE = 0  # a consumer group without a member that reads: nobody's fault; never of a flow
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
    """One poll: epoch seconds, next source offset to replicate, log-end offset, source offsets lost so far, log start.

    `position_s` is when the position was read, where that was before the poll: its cluster did not answer; 0 otherwise.
    """

    time_s: float
    position: int
    end: int
    lost: int = 0
    start: int = 0
    position_s: float = 0.0

    @property
    def lag(self) -> int:
        """Records not yet replicated; a position read before its end is never beyond it but for a truncated log."""
        return max(0, self.end - self.position)

    @property
    def first(self) -> int:
        """Offset of the first record that waits: at the position, or where the log begins now."""
        return max(self.position, self.start)


class Verdict(NamedTuple):
    """What a window shows; not complete while the window has fewer than its polls."""

    status: Status
    reason: str
    is_complete: bool

    def of_hidden(self) -> Verdict:
        """Return what this verdict is worth where the source does not show the topic to this client any more."""
        return Verdict(Status.UNKNOWN, f"this client may not DESCRIBE the topic; {self.reason}", is_complete=True)

    def of_held(self, by: str) -> Verdict:
        """Return this verdict with who holds up the topic-partition: an open transaction; `by` tells whose."""
        return self._replace(reason=f"{self.reason}; it waits for {by}")


def written_by_s(timestamp_s: float, samples: Sequence[Sample], *, before_s: float | None = None) -> float:
    """Return when the first record that waits was written at the latest, epoch seconds.

    That is its timestamp, unless it was seen to wait before that: then the clock that made the timestamp is ahead.

    Args:
        timestamp_s: The record's own.
        samples: The topic-partition's polls, the newest last.
        before_s: The lag in seconds of the poll before.
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
    window: int = WINDOW,
) -> Verdict:
    """Return the verdict of one topic-partition.

    Args:
        samples: Its polls in the order of time, the newest last; only the last `window` count.
        last_report_s: When the flow last reported a finished window, or began, epoch seconds.
        now_s: The present, epoch seconds.
        silence_s: Without a report for longer than this, and than the polls span, the flow has stopped.
        known_s: How old an answer of a cluster may be to say something of now.
        window: Polls that make a complete window.
    """
    if not samples:
        return Verdict(Status.UNKNOWN, "no position or no log end is known", is_complete=False)
    samples = samples[-window:]
    found = _of_known(Seen(samples, last_report_s, now_s, silence_s, window))
    last = samples[-1]
    what, at_s = ("log end", last.time_s) if now_s - last.time_s > known_s else ("position", last.position_s)
    is_old = at_s > 0 and now_s - at_s > known_s
    # What was lost, went back or stands is so all the same; a value that is not read any more may be anything now.
    if is_old and (found.status <= Status.UNKNOWN or what == "log end") and found.status < Status.REWIND:
        seen = "level" if last.lag == 0 else f"{last.lag} records behind"
        since = "since nobody knows when" if at_s == LONG_AGO_S else f"for {now_s - at_s:.0f} s"
        reason = f"its {what} has not been read {since}; it was {seen} by what was known"
        return Verdict(Status.UNKNOWN, reason, found.is_complete)
    return found


class Seen(NamedTuple):
    """What a verdict is made of. Each rule returns its reason in words, None where it does not hold."""

    samples: Sequence[Sample]
    last_report_s: float
    now_s: float
    silence_s: float
    window: int

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
        """True when there are as many polls as a verdict looks at."""
        return len(self.samples) == self.window

    @property
    def span_s(self) -> float:
        """From the oldest poll to the newest one."""
        return self.last.time_s - self.first.time_s

    def lost_records(self) -> str | None:
        """Offsets were deleted at the source before they were replicated."""
        lost = self.last.lost - self.first.lost
        return f"{lost} records were deleted at the source before they were copied" if lost > 0 else None

    def rewound(self) -> str | None:
        """The position is lower than it was."""
        highest = max(sample.position for sample in self.samples)
        if self.last.position >= highest:
            return None
        return f"the position went back from {highest} to {self.last.position}"

    def is_level(self) -> str | None:
        """Nothing waits."""
        return "everything is replicated" if self.last.lag == 0 else None

    def copies_already(self) -> str | None:
        """There are few polls, and the position has moved."""
        if self.is_complete or self.last.position <= self.first.position:
            return None
        return f"{self.last.lag} records behind, and copies"

    def was_polled_too_little(self) -> str | None:
        """There are few polls, and the position has not moved."""
        if self.is_complete:
            return None
        return f"{self.last.lag} records behind; {len(self.samples)} of {self.window} polls seen, too few to judge"

    def was_level(self) -> str | None:
        """Some poll found nothing that waited."""
        if not any(sample.lag == 0 for sample in self.samples):
            return None
        return f"{self.last.lag} records behind, and caught up within the last {self.span_s:.0f} s"

    def stopped(self) -> str | None:
        """The flow has sent no report for longer than the polls span."""
        silent_s = self.now_s - self.last_report_s
        if silent_s <= max(self.span_s, self.silence_s):
            return None
        return f"{self.last.lag} records behind, and the flow has reported nothing for {silent_s:.0f} s"

    def stalled(self) -> str | None:
        """The position stands while records wait."""
        if self.last.position != self.first.position:
            return None
        return f"stands at offset {self.last.position} for at least {self.span_s:.0f} s, {self.last.lag} records behind"

    def falls_behind(self) -> str | None:
        """The lag was never smaller than at the poll before, and is more than a few polls copy."""
        is_never_smaller = all(after.lag >= before.lag for before, after in pairwise(self.samples))
        copied_per_poll = (self.last.position - self.first.position) / (len(self.samples) - 1)
        if not (is_never_smaller and self.last.lag > self.first.lag and self.last.lag > USUAL_POLLS * copied_per_poll):
            return None
        lags = f"lag {self.first.lag} to {self.last.lag} in {self.span_s:.0f} s"
        return f"copies, but falls behind: {lags}, never once smaller"

    def keeps_up(self) -> str | None:
        """None of the other rules holds."""
        return (
            f"{self.last.lag} records behind, {'catching up' if self.last.lag < self.first.lag else 'and keeps pace'}"
        )


# The first that holds makes the verdict.
RULES: tuple[tuple[Callable[[Seen], str | None], Status], ...] = (
    (Seen.lost_records, Status.LOST),
    (Seen.rewound, Status.REWIND),
    (Seen.is_level, Status.OK),
    (Seen.copies_already, Status.OK),
    (Seen.was_polled_too_little, Status.UNKNOWN),
    (Seen.was_level, Status.OK),
    (Seen.stopped, Status.STOP),
    (Seen.stalled, Status.STALL),
    (Seen.falls_behind, Status.WARN),
    (Seen.keeps_up, Status.OK),
)


def _of_known(seen: Seen) -> Verdict:
    """Return the verdict of what is known, however old that is."""
    reasons = ((status, rule(seen)) for rule, status in RULES)
    status, reason = next((status, reason) for status, reason in reasons if reason is not None)
    return Verdict(status, reason, seen.is_complete)
