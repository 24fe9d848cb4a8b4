"""Keep the last error of each partition for `/errors`, because metrics have no texts."""

from __future__ import annotations

import json
import threading
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
    """The last error of each partition that had one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Labels, LastError] = {}

    def record(self, labels: Labels, reason: str, now_s: float, kind: ErrorKind = ErrorKind.OTHER) -> None:
        """Record why a partition is paused in a window; "" if it is not paused."""
        with self._lock:
            last = self._found.get(labels)
            is_paused = last is not None and last.until_s is None
            if last is not None and is_paused and reason:
                last.reason, last.kind = reason, kind
            elif last is not None and is_paused:
                last.until_s = now_s
            elif reason:
                self._found.pop(labels, None)  # re-inserted below, because the newest error is last
                source, target, topic, partition = labels
                self._found[labels] = LastError(source, target, topic, int(partition), reason, now_s, kind=kind)
                if len(self._found) > MOST:
                    del self._found[next(iter(self._found))]

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
