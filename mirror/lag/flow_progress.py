"""Keep the last report of each flow and the lost source offsets of partitions."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from metrics.reports import WindowReport
from metrics.series import Labels


class FlowProgress:
    """The last report of each flow, and the lost offsets of each partition. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported_s: dict[Labels, float] = {}  # by flow, epoch
        self._lost: dict[Labels, int] = {}  # by partition, since this process serves it

    def record_windows(self, rows: Sequence[WindowReport], *, now_s: float) -> None:
        """Record the reports of finished windows."""
        with self._lock:
            for row in rows:
                self._reported_s[row.source, row.target] = now_s
                if row.lost:
                    labels = row.source, row.target, row.topic, str(row.partition)
                    self._lost[labels] = self._lost.get(labels, 0) + row.lost

    def expect(self, flows: Collection[Labels], *, now_s: float) -> None:
        """Expect reports of exactly these flows; of new flows from now on."""
        with self._lock:
            self._reported_s = {flow: self._reported_s.get(flow, now_s) for flow in flows}

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget partitions that left their flow."""
        wanted = set(partitions)
        with self._lock:
            self._lost = {labels: lost for labels, lost in self._lost.items() if labels in wanted}

    def last_report_s(self, flow: Labels) -> float | None:
        """Return when a flow reported last, or was first expected to, epoch seconds."""
        with self._lock:
            return self._reported_s.get(flow)

    def lost_offsets(self, partition: Labels) -> int:
        """Return how many source offsets of a partition were lost so far."""
        with self._lock:
            return self._lost.get(partition, 0)
