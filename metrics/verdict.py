"""Is a topic-partition broken or just busy? A verdict from a window of polls, with its reason in words.

The rules are Burrow's (core/internal/evaluator/caching.go), which need no lag threshold, with three changes: samples
are polls at a steady interval instead of commits, so a flow is stopped when its reports end, not when its commits do; a
lag that stays the same, or is what a few polls copy, is no warning, for positions of a busy partition always trail by a
second or two; and lost records are a verdict of their own.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

WINDOW = 10  # polls that a verdict looks at, as Burrow keeps
USUAL_POLLS = 3  # what so many polls copy is how far a busy partition's committed position trails; more is behind


class Status(IntEnum):
    """Burrow's codes (3, its group-level ERR, has no meaning here); LOST is ours. Larger is worse."""

    OK = 1
    WARN = 2
    STOP = 4
    STALL = 5
    REWIND = 6
    LOST = 7


class Sample(NamedTuple):
    """One poll: epoch seconds, next source offset to replicate, log-end offset, source offsets lost so far, log start."""

    time_s: float
    position: int
    end: int
    lost: int = 0
    start: int = 0

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
    samples: Sequence[Sample], *, last_report_s: float, now_s: float, silence_s: float, window: int = WINDOW
) -> Verdict:
    """Return the verdict of one topic-partition.

    Args:
        samples: Its polls in the order of time, the newest last; only the last `window` count.
        last_report_s: When the flow last reported a finished window, or began, epoch seconds.
        now_s: The present, epoch seconds.
        silence_s: Without a report for longer than this, and than the polls span, the flow has stopped.
        window: Polls that make a complete window.
    """
    if not samples:
        return Verdict(Status.OK, "not polled yet", is_complete=False)
    samples = samples[-window:]
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
        return verdict(Status.OK, f"{last.lag} records behind; {len(samples)} of {window} polls seen, too few to judge")
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
    return verdict(Status.OK, f"{last.lag} records behind, catching up or holding")


Key = tuple[str, ...]


class History:
    """The last polls of every topic-partition; kept in a file, so that a restart is not blind for a window."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self._window = window
        self._samples: dict[Key, deque[Sample]] = {}

    def add(self, key: Key, sample: Sample) -> None:
        """Take in one poll."""
        self._samples.setdefault(key, deque(maxlen=self._window)).append(sample)

    def of(self, key: Key) -> list[Sample]:
        """Return the polls of one topic-partition, oldest first."""
        return list(self._samples.get(key, ()))

    def keep_only(self, keys: Collection[Key]) -> None:
        """Forget topic-partitions that left their flow."""
        wanted = set(keys)
        self._samples = {key: samples for key, samples in self._samples.items() if key in wanted}

    def save(self, path: Path) -> None:
        """Write to a file, all or nothing."""
        rows = [[list(key), [list(sample) for sample in samples]] for key, samples in self._samples.items()]
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(rows, separators=(",", ":")))
        partial.replace(path)

    def load(self, path: Path, *, now_s: float, max_age_s: float) -> None:
        """Read what `save` wrote; polls older than `max_age_s` say nothing about now. A damaged file counts as none."""
        try:
            rows = json.loads(path.read_text())
            for key, samples in rows:
                for time_s, *offsets in samples:
                    if now_s - time_s <= max_age_s:
                        self.add(tuple(key), Sample(float(time_s), *map(int, offsets)))
        except FileNotFoundError:
            return
        except (ValueError, TypeError):
            self._samples.clear()
