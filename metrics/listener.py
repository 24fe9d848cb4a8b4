"""Pass the reports of Spark's progress events to the recorder.

The listener only parses, records, and counts its own failures.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pyspark.sql.streaming.listener import StreamingQueryListener

from metrics.recorder import Recorder
from metrics.reports import Report, from_columns

log = logging.getLogger("mirror")

Taken = TypeVar("Taken", contravariant=True)


class Take(Protocol[Taken]):
    """Records the rows of a stream's micro-batch."""

    def __call__(self, rows: Sequence[Taken], *, now_s: float) -> None:
        """Record the rows, which arrived at `now_s` (epoch seconds)."""


@dataclass(frozen=True, slots=True)
class Stream(Generic[Report]):
    """The record type of a stream's rows (metrics.reports), and the function that records them."""

    record: type[Report]
    take: Take[Report]


class MirrorQueryListener(StreamingQueryListener):
    """Passes on the reports of each micro-batch.

    Spark swallows a listener's exceptions, so the listener counts them.
    """

    def __init__(
        self, recorder: Recorder, *, streams: Mapping[str, Stream[Any]], on_batch: Callable[[str], None]
    ) -> None:
        """Pass on `streams`, by the name of their observation.

        Call `on_batch` with each query that has progressed.
        """
        self._recorder = recorder
        self._on_batch = on_batch
        self._streams = streams
        self._names: dict[str, str] = {}  # of queries by id: the event of a query's end has no name

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record that a query is running."""
        self._count("started")
        self._names[str(event.id)] = event.name
        self._recorder.record_query(event.name, is_active=True)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Record the reports of one window, and the durations of Spark's phases."""
        self._count("progress")
        try:
            self._on_batch(event.progress.name)
            for name, stream in self._streams.items():
                if rows := reports(event.progress.observedMetrics, name, stream.record):
                    stream.take(rows, now_s=time.time())
            for phase, took_ms in event.progress.durationMs.items():
                self._recorder.record_phase(event.progress.name, phase, took_ms / 1000)
        except Exception:
            self._recorder.store.count("kafka_mirror_listener_errors_total")
            log.exception("a progress event of Spark could not be read; its reports are missing in the metrics")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Record that there was nothing to do, because the process is stopping."""
        self._count("idle")

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Record that a query has ended. The process watches its queries itself, and restarts the query."""
        self._count("terminated")
        self._recorder.record_query(self._names.get(str(event.id), str(event.id)), is_active=False)

    def _count(self, event: str) -> None:
        self._recorder.store.count("kafka_mirror_listener_events_total", (event,))


def reports(observed: Mapping[str, Any], name: str, record: type[Report]) -> list[Report]:
    """Return the rows that one progress event observed under a name, as records."""
    found = observed.get(name)
    return [from_columns(record, row.asDict()) for row in found["reports"]] if found is not None else []
