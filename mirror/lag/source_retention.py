"""Keep what the source's topics are deleted by, and ask for it again from time to time."""

from __future__ import annotations

import time
from collections.abc import Mapping

from metrics.headroom import Retention
from mirror.kafka.admin import Admin
from mirror.model.flow_plan import FlowPlan

RETENTION_EVERY_S = 300.0


class SourceRetention:
    """The retention of one flow's source topics."""

    def __init__(self) -> None:
        self._known: dict[str, Retention] = {}
        self._read_s = float("-inf")

    def of(self, plan: FlowPlan, source: Admin) -> Mapping[str, Retention]:
        """Return the retention by source topic; asks when topics appear, and when the last answer is old."""
        topics = {topic for topic, _ in plan.labels}
        is_due = time.monotonic() - self._read_s > RETENTION_EVERY_S
        if is_due or not topics <= self._known.keys():
            # A topic that does not answer keeps what is known of it, and is not asked for at each poll.
            kept = {topic: self._known.get(topic, Retention()) for topic in topics}
            self._known = {**kept, **source.retention(topics)}
            self._read_s = time.monotonic()
        return self._known
