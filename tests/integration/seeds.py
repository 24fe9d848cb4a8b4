"""Stores for Prometheus as if an appliance had been scraped for an hour and a half: healthy, stalled, its source down.

The series come from the recorder and the exposition themselves, so that no name or label can be other than the real ones.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml

from dashboards.alerts import alerts
from dashboards.recording import recording
from metrics.exposition import exposition
from metrics.partition_status import KNOWN_POLLS, Status
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport, Measured, SlotReport
from metrics.series import Labels
from mirror.checkpoints.rules import State
from mirror.embedded import prometheus_server
from mirror.flows.gaps import by_effect
from mirror.lag.failover import answer_failover
from mirror.lag.judgement import horizon_of
from mirror.model.gaps import Cause, Effect, Gap
from tests.lag_rows import record, row_of
from tests.unit.test_metrics import UNMEASURED, counts, report

Scenario = Literal["healthy", "stalled", "source down"]

STEP_S = 15
DAY_S = 86_400
LENGTH_S = 5400
BROKEN_FOR_S = 1800  # stalled, or without a source, for the last half hour
RATE = 10  # records per second and partition
RETENTION_S = 7200.0
PLACES: tuple[Labels, ...] = tuple(("a", "b", topic, part) for topic in ("a.t", "a.u") for part in ("0", "1"))
STALLED = PLACES[0]
GROUPS = ("billing", "search")
GAP = Gap("t", 0, Effect.LOST, Cause.RETENTION, 40, 74, 0, "deleted")


def _measured(copied: int) -> dict[str, Any]:
    """Ages and latencies of a window, in milliseconds: most near their average, a few slow ones."""
    slow = copied // 20
    by_bound = counts(b5=copied - slow, b7=slow)
    return {
        "age": Measured(24.0, 11.0, 88.0, 26.0 * copied, by_bound),
        "latency": Measured(28.0, 14.0, 95.0, 31.0 * copied, by_bound),
    }


def _of_slot(copied: int) -> SlotReport:
    return SlotReport(12.0, polls=copied, polled_records=copied, polling_s=0.01 * copied, longest_poll_s=0.02)


class World:
    """A mirror of two topics with two partitions each, by the tick."""

    def __init__(self, scenario: Scenario) -> None:
        self.recorder = Recorder(horizon_of(poll_interval_s=STEP_S, window_s=STEP_S))
        self._scenario = scenario
        self._ends = dict.fromkeys(PLACES, 0)
        self._positions = dict.fromkeys(PLACES, 0)
        self.recorder.store.info("kafka_mirror_build_info", ("0.1.0", "3.11", "4.3"))
        for place in PLACES:
            self.recorder.store.info("kafka_mirror_topic_info", (*place[:3], place[2].removeprefix("a.")))
        self.recorder.store.count("kafka_mirror_listener_events_total", ("started",))

    def tick(self, now_s: float, broken_for_s: float) -> None:
        """Pass one step; `broken_for_s` is 0 while all is well."""
        recorder, scenario = self.recorder, self._scenario
        source_up = not (scenario == "source down" and broken_for_s)
        reported, lags = [], []
        for number, place in enumerate(PLACES):
            stands = scenario == "stalled" and place == STALLED and broken_for_s > 0
            self._ends[place] += RATE * STEP_S if source_up else 0
            before = self._positions[place]
            self._positions[place] = before if stands else self._ends[place]
            copied = self._positions[place] - before
            row = report(place[2], int(place[3]), records=copied, reason="too large" if stands else "")
            row = row._replace(
                bytes=100 * copied,
                last_timestamp_ms=now_s * 1000 if copied else None,
                slot=int(place[3]),
                duration_ms=1000.0 * STEP_S,
                of_slot=_of_slot(copied) if number < 2 else None,
                **(_measured(copied) if copied else UNMEASURED),
            )
            reported.append(row)
            waits = broken_for_s if stands else 0.0
            is_known = source_up or broken_for_s < KNOWN_POLLS * STEP_S
            status = Status.STALL if stands else Status.OK if is_known else Status.UNKNOWN
            end = self._ends[place] if source_up else None
            lags.append(
                row_of(place, offset=self._positions[place], end=end, replicated_until_s=now_s - waits, status=status)
            )
            if source_up and place[3] == "0":  # the nearest of the topic's partitions
                recorder.record_headroom(place[:3], RETENTION_S - waits)
        record(recorder, *lags, now_s=now_s)
        recorder.windows.record(reported, now_s=now_s)
        stalled = int(scenario == "stalled" and broken_for_s > 0)
        recorder.record_flow(("a", "b"), has_begun=True)
        recorder.record_served_partitions(("a", "b"), PLACES, expected=len(PLACES), slots=(0, 1))
        recorder.record_verified(STALLED, equal=100, wrong=0)
        recorder.record_verify_round(("a", "b"), left=5, now_s=now_s)
        recorder.record_share(("a", "b"), owned=(0, 1), slots=2, processes=1, has_conflict=False)
        recorder.record_cluster(("a", "b"), "a", is_up=source_up)
        recorder.record_cluster(("a", "b"), "b", is_up=True)
        recorder.record_cluster_clock(("a", "b"), "a", 0.002 if source_up else None, now_s=now_s)
        recorder.record_cluster_clock(("a", "b"), "b", -0.4, now_s=now_s)
        if source_up:
            recorder.record_poll(("a", "b"), now_s=now_s, took_s=0.05)
            recorder.record_config_drift(("a", "b"), {"a.t": stalled, "a.u": 0})
            recorder.record_acl_drift(("a", "b"), 0)
            rows = [CheckpointReport("a", "b", foreign=0), *self._checkpoints(is_stalled=bool(stalled))]
        else:
            recorder.store.count("kafka_mirror_poll_errors_total", ("a", "b"))
            rows = [CheckpointReport("a", "b", failure="a does not answer")]
        recorder.record_checkpoints(rows, now_s=now_s)
        recorder.record_heartbeat(("a", "b"), now_s=now_s)
        found = {"passed": 1.0, "rpo_records": 84, "rto_seconds": 7.1, "due_timestamp_seconds": now_s + DAY_S}
        steps = {("switch", "fence"): 5.2, ("switch", "groups"): 0.4, ("switch-back", "fence"): 5.1}
        recorder.record_gaps(("a", "b"), by_effect([GAP]), last_s=now_s - DAY_S)
        recorder.record_drill(("a", "b"), {**found, "last_success_timestamp_seconds": now_s - 3600}, steps=steps)
        for lane in ("lane-0", "lane-1"):
            recorder.record_query(lane, is_active=True)
            recorder.record_phase(lane, "addBatch", 10.05)
            recorder.record_phase(lane, "walCommit", 0.02)
            recorder.store.count("kafka_mirror_listener_events_total", ("progress",))

    def _checkpoints(self, *, is_stalled: bool) -> Iterator[CheckpointReport]:
        """Groups that read all that is produced; of the stalled partition one is ahead, the other is refused."""
        for group, in_trouble in zip(GROUPS, (State.AHEAD, State.REFUSED), strict=True):
            for place in PLACES:
                state = in_trouble if is_stalled and place == STALLED else State.SYNCED
                upstream, downstream = self._ends[place], self._positions[place]
                yield CheckpointReport(
                    *place[:2], group, place[2], int(place[3]), upstream, downstream, state, RATE * STEP_S, 40.0
                )

    def text(self, now_s: float) -> str:
        families = self.recorder.snapshot(now_s=now_s)
        answer_failover(families, now_s=now_s, flows={("a", "b"): 60.0}, reporting_groups={("a", "b")})
        return exposition(families, max_series=10**6)


def seed(data: Path, scenario: Scenario, *, now_s: float) -> None:
    """Write a store that ends at `now_s`."""
    world = World(scenario)
    lines = []
    for at in range(0, LENGTH_S + 1, STEP_S):
        left_s = LENGTH_S - at
        time_s = now_s - left_s
        world.tick(time_s, max(0, BROKEN_FOR_S - left_s))
        scraped = [line for line in world.text(time_s).splitlines() if not line.startswith("#")]
        # What the client library counts of this very process is as good as any; what Prometheus itself adds is made up.
        made_up = ["up 1", "scrape_duration_seconds 0.02"]
        lines += [f"{_of_the_job(line)} {time_s:.3f}" for line in [*scraped, *made_up]]
    text = data.with_suffix(".txt")
    text.write_text("\n".join([*lines, "# EOF", ""]))
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)], check=True, capture_output=True
    )


def record_the_past(data: Path, file: Path, *, now_s: float) -> None:
    """Add what the rules would have recorded while the store was made, alerts as if they fired at once.

    `file` configures a Prometheus.
    """
    recorded = [[{"record": name, "expr": expr} for name, expr in level.items()] for level in _levels(recording())]
    fired = [
        {
            "record": "ALERTS",
            "expr": alert.expr,
            "labels": {"alertname": alert.name, "alertstate": "firing", "severity": alert.severity},
        }
        for alert in alerts()
    ]
    for number, made in enumerate([*recorded, fired]):
        rules = data.with_name(f"level-{number}.yml")
        rules.write_text(yaml.safe_dump({"groups": [{"name": "past", "rules": made}]}))
        with prometheus_server.running(file, data) as server:
            command = [
                *("promtool", "tsdb", "create-blocks-from", "rules"),
                *("--url", server.url, "--eval-interval", f"{STEP_S}s"),
                *("--start", f"{now_s - LENGTH_S:.0f}", "--end", f"{now_s:.0f}"),
                *("--output-dir", str(data), str(rules)),
            ]
            subprocess.run(command, check=True, capture_output=True)


def _levels(rules: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield rules so that each reads only series of the levels before it: what is backfilled at once does not see each other."""
    done: set[str] = set()
    while left := {name: expr for name, expr in rules.items() if name not in done}:
        level = {name: expr for name, expr in left.items() if not any(other in expr for other in left)}
        assert level, "rules that read each other"
        yield level
        done |= level.keys()


def _of_the_job(line: str) -> str:
    """Add the labels that Prometheus gives to what it scrapes."""
    series, _, value = line.rpartition(" ")
    name, brace, labels = series.partition("{")
    own = 'instance="mirror:9404",job="kafka-mirror"'
    return f"{name}{{{labels[:-1]},{own}}} {value}" if brace else f"{name}{{{own}}} {value}"
