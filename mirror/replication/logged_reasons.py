"""Remember why topic-partitions are paused, as this process logged it: a window does not repeat what an earlier one logged."""

from __future__ import annotations

from mirror.model.flow_plan import PlannedPartition


class LoggedReasons:
    """The last logged reason of each paused topic-partition."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str, int], str] = {}

    def record(self, flow: str, assigned: PlannedPartition, reason: str) -> bool:
        """Record a reason as logged; return False if it was recorded before."""
        key = (flow, assigned.topic, assigned.partition)
        if self._reasons.get(key) == reason:
            return False
        self._reasons[key] = reason
        return True

    def forget(self, flow: str, assigned: PlannedPartition) -> None:
        """Forget the reason of a topic-partition that is replicated again."""
        self._reasons.pop((flow, assigned.topic, assigned.partition), None)
