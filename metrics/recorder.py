"""Keep the newest value of every series. Thread-safe; independent of Spark, Kafka and exposition formats.

Series exist as soon as their subject is known, counters at 0: a missing series does not mean a healthy subject.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any

from metrics.as_of import CLOCK, UNTIL, MaxAge, as_of
from metrics.catalogue import BY_NAME, CATALOGUE, FLOW, PARTITION, SLOT
from metrics.lag_row import LagRow
from metrics.partition_status import FLOW_STATUSES
from metrics.reports import CheckpointReport
from metrics.series import Labels, Value
from metrics.store import Store
from metrics.window_recorder import HISTOGRAMS, SPENT_ON, WindowRecorder

_CHECKPOINT_LATENCY = "kafka_mirror_checkpoint_latency_ms"
_CHECKPOINTS_S = 600.0  # for how long a latency counts in min, max and avg
_GROUP_FAMILIES = [spec.name for spec in CATALOGUE if "group" in spec.labels]
_COUNTERS = {
    labels: [
        spec.name
        for spec in CATALOGUE
        if spec.kind == "counter" and spec.labels == labels and spec.reported_by != "all"
    ]
    for labels in (PARTITION, SLOT, FLOW)
}
_BEGINS = ("kafka_mirror_last_progress_timestamp_seconds", "kafka_mirror_last_poll_timestamp_seconds")
_BEATS = "kafka_mirror_last_heartbeat_timestamp_seconds"
_FLOW_GAUGES = [s.name for s in CATALOGUE if s.kind == "gauge" and s.labels[:2] == FLOW and s.reported_by != "all"]
_SLOT_GAUGES = [s.name for s in CATALOGUE if s.kind == "gauge" and s.labels == SLOT]

# Thousands of partitions are checked every few seconds, so the loops over all series run in C: `map` and sets.
_flow_of = itemgetter(slice(len(FLOW)))


class Recorder:
    """Records replication reports, polls and Spark's events; a scrape gets its `snapshot`."""

    def __init__(self, horizon: MaxAge | None = None) -> None:
        """`horizon` limits the age of served values; by default, it is unlimited."""
        self.store = Store()
        self.windows = WindowRecorder(self.store)
        self._horizon = horizon or MaxAge()
        self._ends_s: dict[Labels, float] = {}  # by partition: when its log end was read
        self._judged_s: dict[Labels, float] = {}  # by flow: when its statuses were determined
        self._clocks_s: dict[Labels, float] = {}  # by flow and cluster: when its clock was read
        self._checkpoints: dict[Labels, list[tuple[float, float]]] = {}  # by partition of a group: time, latency in ms

    def snapshot(self, *, now_s: float | None = None) -> dict[str, dict[Labels, Value]]:
        """Return every family's series by name, as known at `now_s` (by default, the current time)."""
        with self.store.lock:
            read_s = {"ends_s": dict(self._ends_s), "judged_s": dict(self._judged_s), "clocks_s": dict(self._clocks_s)}
            copied = copy(self.store.series)
        at_s = time.time() if now_s is None else now_s
        as_of(copied, now_s=at_s, **read_s, horizon=self._horizon)
        return copied

    # --- what to expect ----------------------------------------------------------------------------------------

    def record_flow(self, flow: Labels, *, has_begun: bool) -> None:
        """Record a flow of the settings, which may not have started yet."""
        with self.store.lock:
            self.store.set("kafka_mirror_flow_info", flow, 1.0)
            self.store.set("kafka_mirror_flow_begun", flow, 1.0 if has_begun else 0.0)
            for name in _COUNTERS[FLOW]:
                self.store.begin(name, flow)
            for cluster in flow:
                self.store.begin("kafka_mirror_throttled_seconds_total", (*flow, cluster))

    def record_matched_topics(self, flow: Labels, *, topics: int) -> None:
        """Record how many topics on the source match a flow's settings."""
        with self.store.lock:
            self.store.set("kafka_mirror_matched_topics", flow, topics)

    def record_expected_heartbeats(self, flow: Labels, *, heartbeats: bool, now_s: float) -> None:
        """Record when a flow's reports, polls and, if `heartbeats`, heartbeats are first expected.

        If an earlier time is recorded, it stays.
        """
        with self.store.lock:
            for name in (*_BEGINS, *((_BEATS,) if heartbeats else ())):
                self.store.series[name].setdefault(flow, now_s)

    def record_served_partitions(
        self, flow: Labels, partitions: Collection[Labels], *, expected: int, slots: Collection[int]
    ) -> None:
        """Record a flow's partitions: those that this process serves, and the total number."""
        with self.store.lock:
            self.store.set("kafka_mirror_expected_partitions", flow, expected)
            self.store.series["kafka_mirror_fresh_partitions"].setdefault(flow, 0.0)
            for places, names in (
                (partitions, _COUNTERS[PARTITION]),
                ([(*flow, str(s)) for s in slots], _COUNTERS[SLOT]),
            ):
                for name in names:
                    for labels in places:
                        self.store.begin(name, labels)
            for slot in slots:
                for what in SPENT_ON:
                    self.store.begin("kafka_mirror_slot_seconds_total", (*flow, str(slot), what))
            for topic in {labels[:3] for labels in partitions}:
                for name in HISTOGRAMS.values():
                    self.store.histogram(name, topic)

    # --- what checkpoints report ---------------------------------------------------------------------------------

    def record_checkpoints(self, rows: Sequence[CheckpointReport], *, now_s: float) -> None:
        """Record a round of checkpoints.

        Each flow of the round has its own row without a group. If the round failed, the row has the reason.
        """
        done = [(row.source, row.target) for row in rows if row.group is None and row.failure is None]
        with self.store.lock:
            for row in rows:
                if row.failure is not None:
                    self.store.add("kafka_mirror_checkpoint_errors_total", (row.source, row.target), 1)
            for flow in done:
                self._flow_checkpoints(flow, [row for row in rows if (row.source, row.target) == flow], now_s)

    def _flow_checkpoints(self, flow: Labels, rows: Sequence[CheckpointReport], now_s: float) -> None:
        """Replace the series of a flow's groups; remove the series of former groups."""
        latency = {key: value for key, value in self.store.series[_CHECKPOINT_LATENCY].items() if key[:2] == flow}
        before, self._checkpoints = self._checkpoints, {k: v for k, v in self._checkpoints.items() if k[:2] != flow}
        for name in _GROUP_FAMILIES:
            for labels in [labels for labels in self.store.series[name] if labels[:2] == flow]:
                del self.store.series[name][labels]
        self.store.add("kafka_mirror_checkpoint_errors_total", flow, 0)
        self.store.add("kafka_mirror_checkpoints_total", flow, sum(row.latency_ms is not None for row in rows))
        for row in rows:
            if row.group is None:
                self.store.add("kafka_mirror_foreign_records_total", flow, row.foreign or 0)
                continue
            group = (*flow, row.group)
            place = (*group, str(row.topic), str(row.partition))
            self.store.add("kafka_mirror_group_partitions", (*group, str(row.state)), 1)
            if row.topic is None:  # the group has no checkpoints
                continue
            self.store.set("kafka_mirror_last_checkpoint_timestamp_seconds", group, now_s)
            self.store.add("kafka_mirror_failover_reread_records", group, row.reread or 0)
            took_ms = row.latency_ms if row.latency_ms is not None else latency.get(place)
            if took_ms is not None:
                self.store.set(_CHECKPOINT_LATENCY, place, took_ms)
            recent = [(at_s, ms) for at_s, ms in before.get(place, ()) if at_s > now_s - _CHECKPOINTS_S]
            if row.latency_ms is not None:
                recent.append((now_s, row.latency_ms))
            if recent:
                self._checkpoints[place] = recent
                values = [ms for _, ms in recent]
                parts = {"min": min(values), "max": max(values), "avg": sum(values) / len(values)}
                for part, value in parts.items():
                    self.store.set(f"{_CHECKPOINT_LATENCY}_{part}", place, value)

    def record_phase(self, query: str, phase: str, seconds: float) -> None:
        """Record how long one phase of a query's micro-batch took."""
        with self.store.lock:
            name = "kafka_mirror_batch_duration_seconds"
            histogram = self.store.histogram(name, (query, phase))
            counts = [0] * len(histogram.counts)
            counts[bisect_left(BY_NAME[name].bounds, seconds)] = 1
            histogram.add(counts, seconds)

    def record_query(self, name: str, *, is_active: bool) -> None:
        """Record whether a streaming query runs."""
        with self.store.lock:
            self.store.set("kafka_mirror_query_active", (name,), 1.0 if is_active else 0.0)

    # --- what polls find ---------------------------------------------------------------------------------------

    def record_rows(
        self, flow: Labels, rows: Sequence[LagRow], *, read_s: float, now_s: float, seen_s: float | None = None
    ) -> None:
        """Record one poll of a flow.

        An unknown position leaves no lag, because lag 0 would be wrong; other unknown values stay as they were.

        Args:
            flow: Aliases of source and target.
            rows: One row per partition of the flow.
            read_s: When the log ends were requested, epoch seconds.
            now_s: When the rows got their status, epoch seconds.
            seen_s: Up to when lag 0 means replicated, epoch seconds; None if unknown.
        """
        counts = Counter(row.status for row in rows)
        with self.store.lock:
            for row in rows:
                self._row(row, read_s, seen_s)
            if (errors := self.windows.last_errors).awaits_poll:
                errors.end({row.key for row in rows if row.lag == 0}, now_s)
            self._judged_s[flow] = now_s
            for status in FLOW_STATUSES:
                self.store.set("kafka_mirror_partitions", (*flow, status.name.lower()), counts[status])

    def _row(self, row: LagRow, read_s: float, seen_s: float | None) -> None:
        labels, lag = row.key, row.lag
        if row.log_end is not None:
            self._ends_s[labels] = read_s
            self.store.set("kafka_mirror_source_end_offset", labels, row.log_end)
            if row.log_start is not None:
                self.store.set("kafka_mirror_source_start_offset", labels, row.log_start)
            if row.offset is not None and lag is not None:
                self.store.set("kafka_mirror_replicated_offset", labels, row.offset)
                self.store.set("kafka_mirror_lag_records", labels, lag)
                if (until_s := row.replicated_until_s if lag else seen_s) is not None:
                    self.store.set(UNTIL, labels, until_s)
        self.store.set("kafka_mirror_partition_status", labels, row.status)
        self.store.set("kafka_mirror_partition_behind_open_transaction", labels, int(bool(row.held_by)))

    def record_headroom(self, topic: Labels, seconds: float | None) -> None:
        """Record how long retention will keep a topic's first unreplicated record; None: no limit."""
        with self.store.lock:
            if seconds is None:
                self.store.series["kafka_mirror_retention_headroom_seconds"].pop(topic, None)
            else:
                self.store.set("kafka_mirror_retention_headroom_seconds", topic, seconds)

    def record_poll(self, flow: Labels, *, now_s: float, took_s: float) -> None:
        """Record that a flow's offsets were read."""
        with self.store.lock:
            self.store.set("kafka_mirror_last_poll_timestamp_seconds", flow, now_s)
            self.store.set("kafka_mirror_poll_duration_seconds", flow, took_s)

    def record_config_drift(self, flow: Labels, settings: Mapping[str, int]) -> None:
        """Record how many settings of each remote topic differ; topics not listed are unknown."""
        name = "kafka_mirror_config_drift_settings"
        with self.store.lock:
            others = {labels: value for labels, value in self.store.series[name].items() if labels[:2] != flow}
            self.store.series[name] = others | {(*flow, topic): count for topic, count in settings.items()}

    def record_acl_drift(self, flow: Labels, missing: int) -> None:
        """Record how many ACLs the remote topics lack."""
        with self.store.lock:
            self.store.set("kafka_mirror_acl_drift", flow, missing)

    def record_heartbeat(self, flow: Labels, *, now_s: float) -> None:
        """Record that a flow's target has acknowledged a heartbeat."""
        with self.store.lock:
            self.store.set("kafka_mirror_last_heartbeat_timestamp_seconds", flow, now_s)

    def record_cluster(self, flow: Labels, alias: str, *, is_up: bool) -> None:
        """Record whether a cluster responded to a flow."""
        with self.store.lock:
            self.store.set("kafka_mirror_cluster_up", (*flow, alias), 1.0 if is_up else 0.0)

    def record_cluster_clock(self, flow: Labels, alias: str, skew_s: float | None, *, now_s: float) -> None:
        """Record how far a cluster's clock is ahead of this machine's; None if unknown."""
        with self.store.lock:
            self.store.series[CLOCK].pop((*flow, alias), None)
            if skew_s is not None:
                self._clocks_s[*flow, alias] = now_s
                self.store.set(CLOCK, (*flow, alias), skew_s)

    def record_drill(
        self, flow: Labels, found: Mapping[str, float | None], *, steps: Mapping[tuple[str, str], float]
    ) -> None:
        """Record the results of a flow's drills.

        Args:
            flow: Aliases of source and target.
            found: Values by the part of the family's name after `kafka_mirror_drill_`; None if unknown.
            steps: Durations in seconds, by run and step.
        """
        with self.store.lock:
            for name, value in found.items():
                self.store.series[f"kafka_mirror_drill_{name}"].pop(flow, None)
                if value is not None:
                    self.store.set(f"kafka_mirror_drill_{name}", flow, value)
            family = self.store.series["kafka_mirror_drill_step_seconds"]
            for labels in [labels for labels in family if labels[:2] == flow]:
                del family[labels]
            for step, took_s in steps.items():
                self.store.set("kafka_mirror_drill_step_seconds", (*flow, *step), took_s)

    def record_gaps(
        self, flow: Labels, found: Mapping[str, tuple[int, int]] | None, *, last_s: float | None = None
    ) -> None:
        """Record the totals of a flow's gap ledger.

        Args:
            flow: Aliases of source and target.
            found: Number of entries and of their offsets, by effect; None if the ledger cannot be read.
            last_s: When the last entry was found, epoch seconds; None if there is no entry.
        """
        with self.store.lock:
            for name in ("kafka_mirror_gaps", "kafka_mirror_gap_offsets"):
                for labels in [labels for labels in self.store.series[name] if labels[:2] == flow]:
                    del self.store.series[name][labels]
            self.store.series["kafka_mirror_last_gap_timestamp_seconds"].pop(flow, None)
            for effect, (entries, offsets) in (found or {}).items():
                self.store.set("kafka_mirror_gaps", (*flow, effect), entries)
                self.store.set("kafka_mirror_gap_offsets", (*flow, effect), offsets)
            if last_s is not None:
                self.store.set("kafka_mirror_last_gap_timestamp_seconds", flow, last_s)

    # --- what a comparison finds -----------------------------------------------------------------------------

    def record_verified(self, labels: Labels, *, equal: int, wrong: int) -> None:
        """Add records of a partition: the equal ones, and the different or missing ones."""
        with self.store.lock:
            self.store.add("kafka_mirror_verified_records_total", labels, equal)
            self.store.add("kafka_mirror_verify_differences_total", labels, wrong)

    def record_verify_round(self, flow: Labels, *, left: int, now_s: float) -> None:
        """Record the end of a verification round, and the records left for later rounds."""
        with self.store.lock:
            self.store.set("kafka_mirror_verify_waiting_records", flow, left)
            self.store.set("kafka_mirror_last_verify_timestamp_seconds", flow, now_s)

    # --- what is mirrored --------------------------------------------------------------------------------------

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Remove the series of partitions that left their flow, and of topics without partitions."""
        wanted = set(partitions)
        self.windows.last_errors.keep_only(wanted, time.time())
        with self.store.lock:
            self._ends_s = {labels: at_s for labels, at_s in self._ends_s.items() if labels in wanted}
            series_of = [(BY_NAME[name].labels, series) for name, series in self.store.series.items()]
            for names, series in [*series_of, *self.store.began_s.items()]:
                _keep_partitions(series, names, wanted)

    def record_share(
        self, flow: Labels, *, owned: Collection[int], slots: int, processes: int, has_conflict: bool
    ) -> None:
        """Record this process' share of a flow; remove the series of other slots."""
        with self.store.lock:
            _keep_slots(self.store.series, flow, owned)
            self.store.set("kafka_mirror_slots_owned", flow, len(owned))
            self.store.set("kafka_mirror_slots", flow, slots)
            self.store.set("kafka_mirror_processes", flow, processes)
            self.store.set("kafka_mirror_settings_conflict", flow, 1.0 if has_conflict else 0.0)

    def keep_flows(self, *, served: Set[Labels], led: Set[Labels]) -> None:
        """Remove series of flows that this process does not serve or, for leaders' series, lead."""
        with self.store.lock:
            _keep_flows(self.store.series, served=served, led=led)
            self._judged_s = {flow: at_s for flow, at_s in self._judged_s.items() if flow in served}


def copy(series: Mapping[str, Mapping[Labels, Any]]) -> dict[str, dict[Labels, Value]]:
    """Return every family's series by its name, with copied histograms."""
    copied: dict[str, dict[Labels, Value]] = {name: dict(values) for name, values in series.items()}
    for spec in CATALOGUE:
        if spec.kind == "histogram":
            copied[spec.name] = {labels: histogram.copied() for labels, histogram in series[spec.name].items()}
    return copied


def _keep_partitions(series: dict[Labels, Any], names: tuple[str, ...], partitions: set[Labels]) -> None:
    """Remove series with these label names whose partition, or topic, is not among `partitions`."""
    if "topic" in names:
        present = partitions if "partition" in names else {labels[:3] for labels in partitions}
        place_of = itemgetter(*(names.index(label) for label in PARTITION if label in names))
        # In most families, the labels are the partition itself, so no new tuple is made.
        places = set(series) if names == PARTITION else set(map(place_of, series))
        if gone := places - present:
            for labels in [labels for labels in series if place_of(labels) in gone]:
                del series[labels]


def _keep_slots(families: dict[str, dict[Labels, Any]], flow: Labels, owned: Collection[int]) -> None:
    """Remove gauges of a flow's slots that this process does not serve."""
    kept = set(map(str, owned))
    for name in _SLOT_GAUGES:
        for labels in [labels for labels in families[name] if labels[:2] == flow and labels[2] not in kept]:
            del families[name][labels]


def _keep_flows(families: dict[str, dict[Labels, Any]], *, served: Set[Labels], led: Set[Labels]) -> None:
    """Remove gauges of flows that this process does not serve or, for leaders' gauges, lead."""
    for name in _FLOW_GAUGES:
        wanted = led if BY_NAME[name].reported_by == "leader" else served
        if gone := set(map(_flow_of, families[name])) - wanted:
            for labels in [labels for labels in families[name] if _flow_of(labels) in gone]:
                del families[name][labels]
