"""Keep the last error of each partition for `/errors`, because metrics have no texts."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import asdict, dataclass

from metrics.error_kind import ErrorKind
from metrics.series import Labels

_KINDS = {kind.value: kind for kind in ErrorKind}
MOST = 1_000  # partitions; the ones that were paused longest ago are forgotten first


@dataclass(slots=True)
class LastError:
    """The reason for a partition's last pause, with its start and end (epoch seconds).

    The end is None while the partition is paused.
    """

    source: str
    target: str
    topic: str  # name on the target
    partition: int
    reason: str
    since_s: float
    until_s: float | None = None
    kind: ErrorKind = ErrorKind.OTHER  # an earlier version of the process reports none

    def concerns(self, labels: Labels) -> bool:
        """Return whether the partition has these labels: source, target, topic, partition."""
        return labels == (self.source, self.target, self.topic, str(self.partition))


class LastErrors:
    """The last error of each partition that had one.

    A window may end before it has tried a partition again. So a window without an error ends a pause only if it has copied
    records. If no records wait, the next poll of the lag ends the pause.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Labels, LastError] = {}
        self._paused: dict[Labels, bool] = {}  # by partition that is paused: whether its last window had the error

    def record(self, labels: Labels, reason: str, now_s: float, kind: ErrorKind = ErrorKind.OTHER) -> None:
        """Record why a partition is paused at the end of a window."""
        with self._lock:
            if labels in self._paused:
                last = self._found[labels]
                last.reason, last.kind = reason, kind
            else:
                self._found.pop(labels, None)  # the newest is last
                source, target, topic, partition = labels
                self._found[labels] = LastError(source, target, topic, int(partition), reason, now_s, kind=kind)
                if len(self._found) > MOST:
                    oldest = next(iter(self._found))
                    del self._found[oldest]
                    self._paused.pop(oldest, None)
            self._paused[labels] = True

    def record_none(self, labels: Labels, now_s: float, *, has_copied: bool) -> None:
        """Record that a partition is not paused at the end of a window."""
        with self._lock:
            if labels not in self._paused:
                return
            self._paused[labels] = False
            if has_copied:
                self._end(labels, now_s)

    @property
    def awaits_poll(self) -> bool:
        """Whether a poll may end a pause."""
        with self._lock:
            return not all(self._paused.values())

    def end(self, level: Collection[Labels], now_s: float) -> None:
        """End pauses of partitions without lag, unless their last window still had the error."""
        with self._lock:
            for labels in [labels for labels, was_seen in self._paused.items() if not was_seen and labels in level]:
                self._end(labels, now_s)

    def keep_only(self, partitions: Collection[Labels], now_s: float) -> None:
        """End the pauses of partitions that left their flow, or this process."""
        with self._lock:
            for labels in self._paused.keys() - set(partitions):
                self._end(labels, now_s)

    def _end(self, labels: Labels, now_s: float) -> None:
        del self._paused[labels]
        self._found[labels].until_s = now_s

    def text(self) -> str:
        """Return the errors as JSON, newest first."""
        with self._lock:
            return json.dumps({"errors": [asdict(error) for error in reversed(self._found.values())]}, indent=1)


def parsed(text: str) -> list[LastError]:
    """Parse `text`; raises ValueError if it is not a list of errors."""
    try:
        errors = [LastError(**each) for each in json.loads(text)["errors"]]
        for each in errors:
            each.kind = _KINDS.get(each.kind, ErrorKind.OTHER)  # a later version may have more
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a list of errors: {error!r}") from error
    return errors
