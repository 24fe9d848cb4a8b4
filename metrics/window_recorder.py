"""Keep the newest values that workers report about their windows."""

from __future__ import annotations

from collections.abc import Sequence

from metrics.error_kind import ErrorKind
from metrics.last_errors import LastErrors
from metrics.reports import Measured, SlotReport, WindowReport
from metrics.series import Labels, Pairs
from metrics.store import Store

SPENT_ON = ("lease", "source", "target", "packing")
HISTOGRAMS = {"age": "kafka_mirror_record_age_seconds", "latency": "kafka_mirror_replication_latency_seconds"}
LATE_S = 1.0  # a lease that is acquired this long after a window's start is a late handover
_SPREADS = {"age": "kafka_mirror_record_age_ms", "latency": "kafka_mirror_replication_latency_ms"}
_RATES = ("kafka_mirror_record_rate", "kafka_mirror_byte_rate")
_PAUSES = ("kafka_mirror_partition_paused", "kafka_mirror_partition_paused_by_operator")


class WindowRecorder:
    """Records the series of partitions and slots from the reports of windows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.last_errors = LastErrors()
        self._reported: dict[Labels, set[Labels]] = {}  # by slot: the partitions in its last report

    def record(self, rows: Sequence[WindowReport], *, now_s: float) -> None:
        """Record replication reports."""
        for row in rows:
            self._report(row, now_s)
        self._written(rows)
        self._idle(rows, now_s)
        self._clocks(rows)

    def _written(self, rows: Sequence[WindowReport]) -> None:
        """Count the written records of each slot's windows, over all partitions of the slot."""
        written: dict[Labels, int] = {}
        for row in rows:
            slot = _slot_of(row)
            written[slot] = written.get(slot, 0) + row.records
        with self._store.lock:
            for row in rows:
                if row.of_slot is not None:
                    slot = _slot_of(row)
                    self._store.add("kafka_mirror_slot_written_records_total", slot, written[slot])
                    self._store.set("kafka_mirror_slot_write_rate", slot, written.pop(slot) / _seconds(row))

    def _idle(self, rows: Sequence[WindowReport], now_s: float) -> None:
        """Zero the rates of partitions that the slot's previous report had and this one lacks."""
        reported: dict[Labels, set[Labels]] = {}
        for row in rows:
            reported.setdefault(_slot_of(row), set()).add(_place(row))
        with self._store.lock:
            for slot, places in reported.items():
                for labels in self._reported.get(slot, set()) - places:
                    self.last_errors.record_none(labels, now_s, has_copied=False)
                    if labels in self._store.series[_RATES[0]]:  # otherwise the partition has left the flow
                        for name in (*_RATES, *_PAUSES):
                            self._store.set(name, labels, 0.0)
                        for name in _SPREADS.values():
                            self._record_no_measurement(name, labels)
            self._reported |= reported

    def _record_no_measurement(self, name: str, labels: Labels) -> None:
        """Remove min, max and avg, which shows a gap in charts; the last value stays."""
        for part in ("min", "max", "avg"):
            self._store.series[f"{name}_{part}"].pop(labels, None)

    def _clocks(self, rows: Sequence[WindowReport]) -> None:
        with self._store.lock:
            for slot, seconds in clock_skews(rows).items():
                self._store.set("kafka_mirror_clock_skew_seconds", slot, seconds)

    def _report(self, row: WindowReport, now_s: float) -> None:
        labels = _place(row)
        seconds = _seconds(row)
        with self._store.lock:
            self._store.add("kafka_mirror_record_count_total", labels, row.records)
            self._store.add("kafka_mirror_byte_count_total", labels, row.bytes)
            self._store.add("kafka_mirror_records_lost_total", labels, row.lost)
            self._store.add("kafka_mirror_offset_rewinds_total", labels, row.rewinds)
            by_error = bool(row.reason) and not row.is_paused_by_operator
            kind = ErrorKind.PAUSED_BY_OPERATOR if row.is_paused_by_operator else ErrorKind(row.error_kind)
            if row.reason:
                self.last_errors.record(labels, row.reason, now_s, kind)
            else:
                self.last_errors.record_none(labels, now_s, has_copied=row.records > 0)
            for name, value in zip(_RATES, (row.records / seconds, row.bytes / seconds), strict=True):
                self._store.set(name, labels, value)
            for name, is_paused in zip(_PAUSES, (by_error, row.is_paused_by_operator), strict=True):
                self._store.set(name, labels, 1.0 if is_paused else 0.0)
            if row.are_offsets_identical is not None:
                self._store.set("kafka_mirror_offsets_identical", labels, 1.0 if row.are_offsets_identical else 0.0)
            self._store.set("kafka_mirror_last_progress_timestamp_seconds", labels[:2], now_s)
            if row.last_timestamp_ms is not None:
                self._store.set("kafka_mirror_last_record_timestamp_seconds", labels, row.last_timestamp_ms / 1000)
            where = (("partition", str(row.partition)), ("window", str(row.window_id)))
            for measure, measured in (("age", row.age), ("latency", row.latency)):
                self._spread(_SPREADS[measure], labels, measured, row.records)
                self._distribution(HISTOGRAMS[measure], labels[:3], measured, where, now_s)
            if (slot := row.of_slot) is not None:
                self._slot((*labels[:2], str(row.slot)), slot, seconds)

    def _spread(self, name: str, labels: Labels, measured: Measured, records: int) -> None:
        if measured.last_ms is None or measured.min_ms is None or measured.max_ms is None:
            self._record_no_measurement(name, labels)
            return
        self._store.set(name, labels, measured.last_ms)
        self._store.set(f"{name}_min", labels, measured.min_ms)
        self._store.set(f"{name}_max", labels, measured.max_ms)
        self._store.set(f"{name}_avg", labels, measured.sum_ms / records)

    def _distribution(self, name: str, labels: Labels, measured: Measured, where: Pairs, now_s: float) -> None:
        histogram = self._store.histogram(name, labels)
        histogram.add(measured.counts, measured.sum_ms / 1000)
        if measured.max_ms is not None:
            histogram.exemplify(measured.max_ms / 1000, where, now_s)

    def _slot(self, slot: Labels, window: SlotReport, seconds: float) -> None:
        is_late = window.takeovers == 0 and window.lease_wait_ms > LATE_S * 1000
        self._store.add("kafka_mirror_windows_total", slot, 1)
        self._store.add("kafka_mirror_takeovers_total", slot, window.takeovers)
        self._store.add("kafka_mirror_late_handovers_total", slot, 1 if is_late else 0)
        self._store.set("kafka_mirror_turn_wait_seconds", slot, window.lease_wait_ms / 1000)
        self._store.set("kafka_mirror_read_ahead_bytes", slot, window.read_ahead_bytes)
        self._store.set("kafka_mirror_read_ahead_records", slot, window.read_ahead_records)
        self._store.add("kafka_mirror_slot_polled_records_total", slot, window.polled_records)
        self._store.set("kafka_mirror_slot_poll_rate", slot, window.polled_records / seconds)
        if window.polls:
            self._store.set("kafka_mirror_slot_poll_ms_avg", slot, 1000 * window.polling_s / window.polls)
            self._store.set("kafka_mirror_slot_poll_ms_max", slot, 1000 * window.longest_poll_s)
        else:
            for part in ("avg", "max"):  # without series if no fetch returned records
                self._store.series[f"kafka_mirror_slot_poll_ms_{part}"].pop(slot, None)
        for cluster, throttled_s in zip(slot, (window.source_throttled_s, window.target_throttled_s), strict=False):
            self._store.add("kafka_mirror_throttled_seconds_total", (*slot[:2], cluster), throttled_s)
        for what, spent_s in spent(window, seconds).items():
            self._store.add("kafka_mirror_slot_seconds_total", (*slot, what), spent_s)


def _seconds(row: WindowReport) -> float:
    return max(row.duration_ms, 1.0) / 1000


def _slot_of(row: WindowReport) -> Labels:
    return row.source, row.target, str(row.slot)


def _place(row: WindowReport) -> Labels:
    return row.source, row.target, row.topic, str(row.partition)


def spent(window: SlotReport, seconds: float) -> dict[str, float]:
    """Return how a window of `seconds` spent its time: lease, source, target, packing."""
    lease_s = min(window.lease_wait_ms / 1000, seconds)
    busy_s = window.sending_s + window.packing_s
    waited_s = max(0.0, seconds - lease_s - busy_s)
    return dict(zip(SPENT_ON, (lease_s, waited_s, window.sending_s, window.packing_s), strict=True))


def clock_skews(rows: Sequence[WindowReport]) -> dict[Labels, float]:
    """Return how far each slot's newest timestamps are ahead of this machine's clock."""
    ages_ms: dict[Labels, list[float]] = {}
    for row in rows:
        if row.age.min_ms is not None:
            ages_ms.setdefault(_slot_of(row), []).append(row.age.min_ms)
    return {slot: max(0.0, -min(found) / 1000) for slot, found in ages_ms.items()}
