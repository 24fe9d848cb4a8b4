"""Log verdicts when they change, topic-partitions of one flow and verdict in one line."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from metrics.cap import Labels
from metrics.verdict import Status, Verdict
from mirror.runtime.logs import some

log = logging.getLogger("mirror")


class VerdictLog:
    """Knows the verdict that was logged last of each topic-partition; OK where none was."""

    def __init__(self) -> None:
        self._logged: dict[Labels, Status] = {}

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget topic-partitions that left their flow."""
        wanted = set(partitions)
        self._logged = {labels: status for labels, status in self._logged.items() if labels in wanted}

    def log_changes(self, flow: Labels, verdicts: Sequence[tuple[Labels, Verdict]]) -> None:
        """Log what changed since the last time. UNKNOWN for lack of polls is not logged: so every start begins."""
        changes: dict[Status, list[tuple[Labels, str]]] = {}
        for labels, verdict in verdicts:
            is_new = verdict.status is not self._logged.get(labels, Status.OK)
            if is_new and (verdict.is_complete or verdict.status is not Status.UNKNOWN):
                self._logged[labels] = verdict.status
                changes.setdefault(verdict.status, []).append((labels, verdict.reason))
        for status, changed in changes.items():
            _log(flow, status, changed)


def _log(flow: Labels, status: Status, changed: Sequence[tuple[Labels, str]]) -> None:
    write = log.info if status is Status.OK else log.warning
    names = [f"{topic}-{partition}" for (_, _, topic, partition), _ in changed]
    reason = changed[0][1]
    if len(changed) == 1:
        write("%s->%s: %s is %s: %s", *flow, names[0], status.name, reason)
        return
    shown = some(names)
    write("%s->%s: %d topic-partitions are %s (%s); of the first: %s", *flow, len(changed), status.name, shown, reason)
