"""Spark's progress events into the recorder. Thin: parse, record, count its own failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from metrics.recorder import Recorder

log = logging.getLogger("mirror")


class Take(Protocol):
    """Takes in the rows of a stream's micro-batch."""

    def __call__(self, rows: Sequence[Mapping[str, Any]], *, now_s: float) -> None:
        """Take them in; `now_s` is when they arrived, epoch seconds."""


class MirrorQueryListener(StreamingQueryListener):
    """Feeds the reports that a micro-batch observed. Spark swallows a listener's exceptions, so they are counted."""

    def __init__(self, recorder: Recorder, *, takes: Mapping[str, Take]) -> None:
        """Give each stream's rows to whom they are for, by the name that they were observed under."""
        self._recorder = recorder
        self._takes = takes
        self._names: dict[str, str] = {}  # of queries by id: the event of an end has no name

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record that a query runs."""
        self._count("started")
        self._names[str(event.id)] = event.name
        self._recorder.query(event.name, is_active=True)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Record the reports of one window, and what Spark took for it."""
        self._count("progress")
        try:
            for name, take in self._takes.items():
                if rows := reports(event.progress.observedMetrics, name):
                    take(rows, now_s=time.time())
            for phase, took_ms in event.progress.durationMs.items():
                self._recorder.phase(event.progress.name, phase, took_ms / 1000)
        except Exception:
            self._recorder.count("kafka_mirror_listener_errors_total")
            log.exception("a progress event could not be read")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Record that there was nothing to do (the appliance is stopping)."""
        self._count("idle")

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Record that a query has ended; the appliance, which watches its queries itself, starts it again."""
        self._count("terminated")
        self._recorder.query(self._names.get(str(event.id), str(event.id)), is_active=False)

    def _count(self, event: str) -> None:
        self._recorder.count("kafka_mirror_listener_events_total", (event,))


def reports(observed: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows that one progress event observed under a name."""
    row = observed.get(name)
    return [report.asDict() for report in row["reports"]] if row is not None else []
