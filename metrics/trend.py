"""Keep the last hour of each flow, one point per minute.

A file keeps the points, so that they survive a restart.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from metrics import whole_file
from metrics.partition_status import Status

TREND_FILE = "trend.json"  # in the state folder
MINUTES = 60
MINUTE_S = 60.0
# If two points are further apart than this, the status between them is unknown.
UNSEEN_S = 3 * MINUTE_S


class Point(NamedTuple):
    """A flow at one time. Unknown values are None, never 0.

    Attributes:
        time_s: Time of the point, epoch seconds.
        status: The worst status of the flow's partitions.
        waits_s: How long the longest-waiting record has waited, as far as known.
        waiting: Number of waiting records, as far as known.
        in_per_s: Records written to the source per second.
        out_per_s: Records replicated per second.
    """

    time_s: float
    status: Status
    waits_s: float | None
    waiting: int | None
    in_per_s: float | None
    out_per_s: float | None

    @property
    def minute(self) -> int:
        """The minute of the point."""
        return int(self.time_s // MINUTE_S)


class UnhealthySince(NamedTuple):
    """The start of a flow's current fault.

    `is_seen` is False if the flow already had the fault when it was first seen.
    """

    time_s: float
    is_seen: bool


class Trend:
    """The last hour of flows, by name. It keeps the worst point of each minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[str, deque[Point]] = {}

    def record(self, flow: str, point: Point) -> None:
        """Record the result of a poll."""
        with self._lock:
            points = self._points.setdefault(flow, deque(maxlen=MINUTES))
            if points and points[-1].minute == point.minute:
                points[-1] = _worse(points[-1], point)
            else:
                points.append(point)

    def of(self, flow: str) -> list[Point]:
        """Return the points of a flow, the oldest first."""
        with self._lock:
            return list(self._points.get(flow, ()))

    def save(self, path: Path) -> None:
        """Write to a file atomically."""
        with self._lock:
            content = {flow: [list(point) for point in points] for flow, points in self._points.items()}
        whole_file.write(path, json.dumps(content, separators=(",", ":")))

    def load(self, path: Path, *, now_s: float) -> None:
        """Read the last hour that an earlier process saved; ignore a missing or damaged file."""
        try:
            content = json.loads(path.read_text())
            found = {str(flow): [_point(fields) for fields in points] for flow, points in content.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return
        for flow, points in found.items():
            for point in points:
                if 0 <= now_s - point.time_s <= MINUTES * MINUTE_S:
                    self.record(flow, point)


def joined(older: Iterable[Point], own: Iterable[Point]) -> list[Point]:
    """Return the points of two sources, one per minute, oldest first.

    If both have a point for a minute, `own` wins.
    """
    by_minute = {point.minute: point for point in (*older, *own)}
    return [point for _, point in sorted(by_minute.items())][-MINUTES:]


def unhealthy_since(points: Iterable[Point]) -> UnhealthySince | None:
    """Return the start of a flow's current fault.

    Return None if it is healthy or was never seen.
    """
    seen = list(points)
    if not seen or seen[-1].status is Status.OK:
        return None
    first, is_seen = seen[0], False
    for before, after in pairwise(seen):
        is_gap = after.time_s - before.time_s > UNSEEN_S
        if before.status is Status.OK or is_gap:
            first, is_seen = after, not is_gap
    return UnhealthySince(first.time_s, is_seen)


def _worse(one: Point, other: Point) -> Point:
    """Return the point with the worse status or, if they are equal, the longer wait."""
    order = (one.status, one.waits_s or 0.0) >= (other.status, other.waits_s or 0.0)
    return one if order else other


def _point(fields: list[float | None]) -> Point:
    time_s, status, waits_s, waiting, in_per_s, out_per_s = fields
    if time_s is None or status is None:
        raise ValueError("a point without a time or a status")
    return Point(
        float(time_s), Status(int(status)), waits_s, None if waiting is None else int(waiting), in_per_s, out_per_s
    )
