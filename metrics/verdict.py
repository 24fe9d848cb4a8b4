"""Is a topic-partition broken or just busy? A verdict from a window of polls, with its reason in words.

The rules are Burrow's (core/internal/evaluator/caching.go), which need no lag threshold, with four changes: samples
are polls at a steady interval instead of commits, so a flow is stopped when its reports end, not when its commits do; a
lag that stays the same, or is what a few polls copy, is no warning, for positions of a busy partition always trail by a
second or two; lost records are a verdict of their own; and so is it that nobody knows.
"""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from collections.abc import Collection, Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

WINDOW = 10  # polls that a verdict looks at, as Burrow keeps
USUAL_POLLS = 3  # what so many polls copy is how far a busy partition's committed position trails; more is behind
KNOWN_POLLS = 3  # an answer that is older than so many polls says nothing of now
LONG_AGO_S = 1.0  # epoch seconds: of a position of which nobody knows how old it is


class Status(IntEnum):
    """Burrow's codes; UNKNOWN (its group-level ERR) and LOST are ours. Larger is worse."""

    OK = 1
    WARN = 2
    UNKNOWN = 3
    STOP = 4
    STALL = 5
    REWIND = 6
    LOST = 7


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


class Verdict(NamedTuple):
    """What a window shows; not complete while the window has fewer than its polls."""

    status: Status
    reason: str
    is_complete: bool


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
    found = _of_known(samples, last_report_s=last_report_s, now_s=now_s, silence_s=silence_s, window=window)
    last = samples[-1]
    what, at_s = ("log end", last.time_s) if now_s - last.time_s > known_s else ("position", last.position_s)
    is_old = at_s > 0 and now_s - at_s > known_s
    # What was lost, went back or stands is so all the same; and what is not read any more may be anything by now.
    if is_old and (found.status <= Status.UNKNOWN or what == "log end") and found.status < Status.REWIND:
        seen = "level" if last.lag == 0 else f"{last.lag} records behind"
        since = "since nobody knows when" if at_s == LONG_AGO_S else f"for {now_s - at_s:.0f} s"
        reason = f"its {what} has not been read {since}; it was {seen} by what was known"
        return Verdict(Status.UNKNOWN, reason, found.is_complete)
    return found


def _of_known(
    samples: Sequence[Sample], *, last_report_s: float, now_s: float, silence_s: float, window: int
) -> Verdict:
    """Return the verdict of what is known, however old that is."""
    first, last = samples[0], samples[-1]
    is_complete = len(samples) == window
    span_s = last.time_s - first.time_s

    def verdict(status: Status, reason: str) -> Verdict:
        return Verdict(status, reason, is_complete)

    if last.lost > first.lost:
        return verdict(
            Status.LOST, f"{last.lost - first.lost} records were deleted at the source before they were copied"
        )
    highest = max(sample.position for sample in samples)
    if last.position < highest:
        return verdict(Status.REWIND, f"the position went back from {highest} to {last.position}")
    if last.lag == 0:
        return verdict(Status.OK, "everything is replicated")
    if not is_complete:
        if last.position > first.position:
            return verdict(Status.OK, f"{last.lag} records behind, and copies")
        return verdict(
            Status.UNKNOWN, f"{last.lag} records behind; {len(samples)} of {window} polls seen, too few to judge"
        )
    if any(sample.lag == 0 for sample in samples):
        return verdict(Status.OK, f"{last.lag} records behind, and caught up within the last {span_s:.0f} s")
    silent_s = now_s - last_report_s
    if silent_s > max(span_s, silence_s):
        return verdict(
            Status.STOP, f"{last.lag} records behind, and the flow has reported nothing for {silent_s:.0f} s"
        )
    if last.position == first.position:
        return verdict(Status.STALL, f"stands at offset {last.position} for {span_s:.0f} s, {last.lag} records behind")
    is_never_smaller = all(after.lag >= before.lag for before, after in pairwise(samples))
    copied_per_poll = (last.position - first.position) / (len(samples) - 1)
    if is_never_smaller and last.lag > first.lag and last.lag > USUAL_POLLS * copied_per_poll:
        return verdict(
            Status.WARN,
            f"copies, but falls behind: lag {first.lag} to {last.lag} in {span_s:.0f} s, never once smaller",
        )
    return verdict(
        Status.OK, f"{last.lag} records behind, {'catching up' if last.lag < first.lag else 'and keeps pace'}"
    )


Key = tuple[str, ...]


class History:
    """The last polls of every topic-partition; kept in a file, so that a restart is not blind for a window. Thread-safe."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._samples: dict[Key, deque[Sample]] = {}

    def add(self, key: Key, sample: Sample) -> None:
        """Take in one poll."""
        with self._lock:
            self._samples.setdefault(key, deque(maxlen=self._window)).append(sample)

    def of(self, key: Key) -> list[Sample]:
        """Return the polls of one topic-partition, oldest first."""
        with self._lock:
            return list(self._samples.get(key, ()))

    def known(self) -> list[Key]:
        """Return whose polls are kept."""
        with self._lock:
            return list(self._samples)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Forget topic-partitions that left their flow."""
        wanted = set(keys)
        with self._lock:
            self._samples = {key: samples for key, samples in self._samples.items() if key in wanted}

    def save(self, path: Path) -> None:
        """Write to a file, all or nothing."""
        with self._lock:
            rows = [[list(key), [list(sample) for sample in samples]] for key, samples in self._samples.items()]
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(rows, separators=(",", ":")))
        partial.replace(path)

    def load(self, path: Path, *, now_s: float, max_age_s: float) -> None:
        """Read what `save` wrote; polls older than `max_age_s` say nothing about now. A damaged file counts as none."""
        try:
            rows = json.loads(path.read_text())
            for key, samples in rows:
                for time_s, position, end, lost, start, position_s in samples:
                    if now_s - time_s <= max_age_s:
                        sample = Sample(
                            float(time_s), int(position), int(end), int(lost), int(start), float(position_s)
                        )
                        self.add(tuple(key), sample)
        except FileNotFoundError:
            return
        except (ValueError, TypeError):
            self._samples.clear()
