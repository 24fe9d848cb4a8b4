"""Name what a drill writes and reads: a topic and a group of its own for each flow, which are nobody's data."""

from __future__ import annotations

PREFIX = "mirror-drill-"


def canary(source: str, target: str) -> str:
    """Return the name of the canary topic of a flow's drill, on both clusters, and of its consumer group."""
    return f"{PREFIX}{source}-{target}"


def is_canary(name: str) -> bool:
    """Tell whether a topic, as the cluster that it was written on calls it, or a group is of some drill."""
    return name.startswith(PREFIX)
