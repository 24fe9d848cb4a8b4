"""Why topic-partitions rest, as this process has said it: a window does not repeat what the one before has logged."""

from __future__ import annotations

from mirror.model.flow_plan import Assigned

_reasons: dict[tuple[str, str, int], str] = {}


def is_news(flow: str, assigned: Assigned, reason: str) -> bool:
    """Tell whether a reason was not said yet, and take it for said."""
    key = (flow, assigned.topic, assigned.partition)
    if _reasons.get(key) == reason:
        return False
    _reasons[key] = reason
    return True


def flows_again(flow: str, assigned: Assigned) -> None:
    """Forget why a topic-partition rested."""
    _reasons.pop((flow, assigned.topic, assigned.partition), None)
