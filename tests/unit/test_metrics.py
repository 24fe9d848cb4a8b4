"""Reports in, exposition text out."""

import gzip
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
from pyspark.sql import Row

from metrics.catalogue import CATALOGUE, RECORD_SECONDS
from metrics.error_kind import ErrorKind
from metrics.exporter import PortTakenError, serve
from metrics.exposition import exposition
from metrics.last_errors import parsed
from metrics.listener import MirrorQueryListener, Stream, reports
from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport, Measured, SlotReport, WindowReport, schema_of
from metrics.series import Histogram
from mirror.commands.live_demo import lag_table
from mirror.model.reports import Spread
from tests.lag_rows import record, row_of

BUCKETS = len(RECORD_SECONDS) + 1


def counts(**at):
    """Counts by bucket, given as b0=4, b13=1."""
    return [at.get(f"b{bucket}", 0) for bucket in range(BUCKETS)]


def report(topic="a.t", partition=0, *, records=4, reason="", is_paused_by_operator=False, turn=(None, 0)):
    lease_wait_ms, takeovers = turn
    return WindowReport(
        source="a",
        target="b",
        topic=topic,
        source_topic="t",
        partition=partition,
        window_id=5,
        slot=0,
        duration_ms=2000.0,
        records=records,
        bytes=400,
        last_timestamp_ms=99.0,
        age=Measured(1.0, 1.0, 3.0, 8.0, counts(b0=records)),
        latency=Measured(2.0, 2.0, 4.0, 12.0, counts(b0=records)),
        lost=0,
        rewinds=0,
        reason=reason,
        error_kind="record_too_large" if reason else "other",
        is_paused_by_operator=is_paused_by_operator,
        is_topic_in_question=False,
        of_slot=SlotReport(lease_wait_ms, takeovers) if lease_wait_ms is not None else None,
    )


UNMEASURED = {"age": Measured(None, None, None, 0.0, counts()), "latency": Measured(None, None, None, 0.0, counts())}


def listening(recorder):
    return MirrorQueryListener(
        recorder, streams={"replication": Stream(WindowReport, recorder.windows.record)}, on_batch=lambda _: None
    )


def text(recorder):
    return exposition(recorder.snapshot(), max_series=10**6)


def test_each_series_is_independent():
    """Two partitions and two topics keep their own values; counters add, gauges replace."""
    recorder = Recorder()
    recorder.windows.record([report()], now_s=1.0)
    recorder.windows.record(
        [report(), report(partition=1, records=1), report(topic="a.u", reason="too large")], now_s=2.0
    )
    lines = text(recorder).splitlines()
    place = 'partition="{1}",source="a",target="b",topic="{0}"'
    assert f"kafka_mirror_record_count_total{{{place.format('a.t', 0)}}} 8.0" in lines
    assert f"kafka_mirror_record_count_total{{{place.format('a.t', 1)}}} 1.0" in lines
    assert f"kafka_mirror_record_rate{{{place.format('a.t', 0)}}} 2.0" in lines
    assert f"kafka_mirror_byte_rate{{{place.format('a.t', 0)}}} 200.0" in lines
    assert f"kafka_mirror_record_age_ms_avg{{{place.format('a.t', 0)}}} 2.0" in lines
    assert f"kafka_mirror_replication_latency_ms_max{{{place.format('a.t', 0)}}} 4.0" in lines
    assert f"kafka_mirror_partition_paused{{{place.format('a.u', 0)}}} 1.0" in lines
    assert f"kafka_mirror_partition_paused{{{place.format('a.t', 0)}}} 0.0" in lines


def test_a_pause_by_an_operator_is_not_counted_as_an_error():
    recorder = Recorder()
    by_hand = report(partition=1, reason="by hand", is_paused_by_operator=True)
    recorder.windows.record([report(reason="too large"), by_hand], now_s=1.0)
    paused, by_operator = (
        [recorder.store.value(f"kafka_mirror_{name}", ("a", "b", "a.t", partition)) for partition in "01"]
        for name in ("partition_paused", "partition_paused_by_operator")
    )
    assert (paused, by_operator) == ([1.0, 0.0], [0.0, 1.0])
    kinds = {error.reason: error.kind for error in parsed(recorder.windows.last_errors.text())}
    assert kinds == {"too large": ErrorKind.RECORD_TOO_LARGE, "by hand": ErrorKind.PAUSED_BY_OPERATOR}


def test_a_pause_lasts_until_records_are_copied_or_none_waits():
    """A window that ends before its first attempt has no error, and proves nothing."""
    recorder = Recorder()

    def window(reason: str = "") -> WindowReport:
        return report(records=0, reason=reason)._replace(**UNMEASURED)

    def pause() -> tuple[float, float | None]:
        (found,) = parsed(recorder.windows.last_errors.text())
        return found.since_s, found.until_s

    recorder.windows.record([window("too large")], now_s=1.0)
    recorder.windows.record([window()], now_s=2.0)
    recorder.windows.record([report(partition=1)], now_s=3.0)  # the partition is idle: it has no report
    record(recorder, row_of(("a", "b", "a.t", "0"), offset=5, end=9), now_s=4.0)
    recorder.windows.record([window("too large")], now_s=5.0)
    assert pause() == (1.0, None)
    recorder.windows.record([window()], now_s=6.0)
    record(recorder, row_of(("a", "b", "a.t", "0"), offset=9, end=9), now_s=7.0)
    assert pause() == (1.0, 7.0)


def test_offsets_stay_as_they_were_compared_last_until_they_are_compared_again():
    recorder, place = Recorder(), ("a", "b", "a.t", "0")
    found = []
    for compared in (None, True, None, False, None, True):
        recorder.windows.record([report()._replace(are_offsets_identical=compared)], now_s=1.0)
        found.append(recorder.store.value("kafka_mirror_offsets_identical", place))
    assert found == [None, 1.0, 1.0, 0.0, 0.0, 1.0]


def test_an_idle_window_leaves_a_gap_in_the_window_values_and_keeps_the_last():
    recorder = Recorder()
    recorder.windows.record([report()], now_s=1.0)
    recorder.windows.record([report(records=0)._replace(**UNMEASURED)], now_s=2.0)
    labels = ("a", "b", "a.t", "0")
    assert recorder.store.value("kafka_mirror_record_age_ms", labels) == 1.0
    assert recorder.store.value("kafka_mirror_record_age_ms_max", labels) is None
    assert recorder.store.value("kafka_mirror_record_rate", labels) == 0


def test_lag_is_never_negative_and_unknown_is_not_zero():
    recorder = Recorder()
    one, two = ("a", "b", "t", "0"), ("a", "b", "t", "1")
    unknown = row_of(two, end=5, log_start=None, status=Status.UNKNOWN)
    record(recorder, row_of(one, offset=9, end=5, status=Status.STALL), unknown, now_s=time.time())
    assert recorder.store.value("kafka_mirror_lag_records", one) == 0
    assert recorder.store.value("kafka_mirror_lag_records", two) is None
    first, second = (line.split() for line in lag_table(recorder, [one, two]).splitlines()[1:])
    assert first == ["a->b", "t", "0", "9", "5", "0", "-", "-", "-", "STALL"]
    assert second == ["a->b", "t", "1", "-", "5", "-", "-", "-", "-", "UNKNOWN"]


def as_row(record):
    """Return a record as Spark gives it back: rows in a row."""
    values = (as_row(value) if isinstance(value, tuple) else value for value in record)
    return Row(*record._fields)(*values)


def test_a_row_of_spark_is_the_report_that_the_worker_sent():
    """Spark's schema has a column per field, in their order, and the listener gives the same record on."""
    measured = "struct<last_ms: double, min_ms: double, max_ms: double, sum_ms: double, counts: array<bigint>>"
    assert schema_of(WindowReport).startswith("source string, target string, topic string,")
    assert f", age {measured}, latency {measured}, lost bigint," in schema_of(WindowReport)
    assert ", of_slot struct<lease_wait_ms: double, takeovers: bigint," in schema_of(WindowReport)
    assert [column.split()[0] for column in schema_of(CheckpointReport).split(", ")] == list(CheckpointReport._fields)
    sent = [report(turn=(3.0, 1)), report(partition=1)._replace(**UNMEASURED)]
    rows = [as_row(each) for each in sent]
    taken = []
    stream = Stream(WindowReport, lambda rows, *, now_s: taken.extend(rows))
    progress = SimpleNamespace(name="lane-0", observedMetrics={"replication": {"reports": rows}}, durationMs={})
    MirrorQueryListener(Recorder(), streams={"replication": stream}, on_batch=lambda _: None).onQueryProgress(
        SimpleNamespace(progress=progress)
    )
    assert taken == sent
    assert taken[0].age.max_ms == 3.0
    assert taken[0].of_slot.takeovers == 1
    assert taken[1].of_slot is None


def test_series_of_partitions_that_left_go_away():
    recorder = Recorder()
    recorder.windows.record([report()], now_s=1.0)
    recorder.windows.record([report(partition=1)], now_s=1.0)
    recorder.keep_only([("a", "b", "a.t", "1")])
    assert 'partition="0"' not in text(recorder)
    assert 'partition="1"' in text(recorder)


def test_hostile_label_values_are_escaped():
    recorder = Recorder()
    record(recorder, row_of(("a", "b", 'x"} 1\nup{y="\\', "0"), offset=1, end=1), now_s=time.time())
    assert 'topic="x\\"} 1\\nup{y=\\"\\\\"' in text(recorder)


def test_a_progress_event_that_cannot_be_read_is_counted(caplog):
    event = SimpleNamespace(progress=SimpleNamespace(name="lane-0", observedMetrics={"replication": {"nothing": 1}}))
    recorder = Recorder()
    listening(recorder).onQueryProgress(event)
    assert recorder.store.value("kafka_mirror_listener_errors_total", ()) == 1
    assert reports({}, "replication", WindowReport) == []
    assert "could not be read" in caplog.text


def test_the_listener_records_which_queries_run():
    recorder = Recorder()
    listener = listening(recorder)
    listener.onQueryStarted(SimpleNamespace(id="1", name="lane-0"))
    listener.onQueryStarted(SimpleNamespace(id="2", name="lane-1"))
    listener.onQueryTerminated(SimpleNamespace(id="1"))
    active = [recorder.store.value("kafka_mirror_query_active", (name,)) for name in ("lane-0", "lane-1")]
    assert active == [0, 1]


def test_the_listener_takes_in_the_phases_of_a_batch_and_counts_its_events():
    recorder = Recorder()
    progress = SimpleNamespace(name="lane-0", observedMetrics={}, durationMs={"addBatch": 10_100, "walCommit": 12})
    listener = listening(recorder)
    listener.onQueryProgress(SimpleNamespace(progress=progress))
    listener.onQueryIdle(SimpleNamespace())
    phases = recorder.snapshot()["kafka_mirror_batch_duration_seconds"]
    assert {key: histogram.total for key, histogram in phases.items()} == {
        ("lane-0", "addBatch"): 10.1,
        ("lane-0", "walCommit"): 0.012,
    }
    assert 'kafka_mirror_batch_duration_seconds_bucket{le="12.5",phase="addBatch",query="lane-0"} 1' in text(recorder)
    assert 'kafka_mirror_batch_duration_seconds_bucket{le="10.0",phase="addBatch",query="lane-0"} 0' in text(recorder)
    assert recorder.store.value("kafka_mirror_listener_events_total", ("progress",)) == 1
    assert recorder.store.value("kafka_mirror_listener_events_total", ("idle",)) == 1


def test_spread_keeps_last_lowest_highest_and_sum():
    spread = Spread()
    assert spread.measured() == (None, None, None, 0.0, counts())
    spread.add(5, 9, 14, 2)
    spread.add(-2, 3, 1, 2)
    assert spread.measured()[:4] == (-2, -2, 9, 15)
    # Up to 1 ms: what is 0 or less; 5 and 9 ms have bounds of their own.
    assert [spread.counts[0] + spread.counts[1], spread.counts[2] + spread.counts[3]] == [2, 2]


def test_a_batch_is_spread_evenly_between_its_first_and_last_value():
    spread = Spread()
    spread.add(250, 2250, 0, 100)  # bounds 250, 500, 1000 and 2500 ms
    assert spread.counts == counts(b8=12, b9=26, b10=62)
    spread.add(4_000_000, 4_000_000, 0, 3)
    assert spread.counts == counts(b8=12, b9=26, b10=62, b20=3)
    spread.add(499, 4_000_000, 0, 1)  # one record between two far bounds is still one
    assert sum(spread.counts) == 104


def test_histograms_of_what_is_served_begin_at_0():
    """The first window's records are an increase, too."""
    recorder = Recorder()
    recorder.record_served_partitions(
        ("a", "b"), [("a", "b", "a.t", "0"), ("a", "b", "a.t", "1")], expected=2, slots=(0,)
    )
    for name in ("replication_latency", "record_age"):
        assert recorder.snapshot()[f"kafka_mirror_{name}_seconds"] == {("a", "b", "a.t"): Histogram(counts())}


def test_a_topics_histogram_adds_up_its_partitions():
    recorder = Recorder()
    recorder.windows.record([report()], now_s=1.0)
    recorder.windows.record(
        [report(partition=1)._replace(latency=Measured(2.0, 2.0, 4.0, 16_000_000.0, counts(b20=4)))], now_s=1.0
    )
    found = recorder.snapshot()["kafka_mirror_replication_latency_seconds"]
    assert found == {("a", "b", "a.t"): Histogram(counts(b0=4, b20=4), 16000.012)}
    assert 'latency_seconds_bucket{le="+Inf",source="a",target="b",topic="a.t"} 8' in text(recorder)
    assert 'latency_seconds_bucket{le="3600.0",source="a",target="b",topic="a.t"} 4' in text(recorder)


def test_handovers_are_counted_once_per_window_and_late_ones_separately():
    recorder = Recorder()
    slot = ("a", "b", "0")
    for turn in ((30.0, 0), (None, 0), (1500.0, 0), (15_000.0, 1)):
        recorder.windows.record([report(turn=turn)], now_s=1.0)
    values = [
        recorder.store.value(f"kafka_mirror_{name}_total", slot) for name in ("windows", "late_handovers", "takeovers")
    ]
    assert values == [3, 1, 1]
    assert recorder.store.value("kafka_mirror_turn_wait_seconds", slot) == 15


def test_timestamps_of_the_future_are_shown_per_slot_and_expire():
    recorder = Recorder()
    slot = ("a", "b", "0")
    ahead = report()._replace(age=Measured(1.0, -1500.0, 3.0, 8.0, counts(b0=4)))
    recorder.windows.record([report(partition=1), ahead], now_s=1.0)
    assert recorder.store.value("kafka_mirror_clock_skew_seconds", slot) == 1.5
    recorder.windows.record([report()], now_s=1.0)
    assert recorder.store.value("kafka_mirror_clock_skew_seconds", slot) == 0


def test_names_are_unique_and_end_as_their_kind_wants():
    names = [spec.name for spec in CATALOGUE]
    assert len(names) == len(set(names))
    assert all(spec.name.endswith("_total") == (spec.kind == "counter") for spec in CATALOGUE)


def test_metrics_and_readiness_over_http():
    is_ready = False
    with serve(lambda _: b"up 1\n", "127.0.0.1", 0, is_ready=lambda: is_ready) as port:
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready")
        refused.value.close()
        is_ready = True
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready") as answer:
            assert answer.read() == b"ready\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read() == b"up 1\n"
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked) as answer:
            assert gzip.decompress(answer.read()) == b"up 1\n"
        with (
            pytest.raises(PortTakenError, match=rf"127\.0\.0\.1:{port}"),
            serve(lambda _: b"", "127.0.0.1", port, is_ready=lambda: True),
        ):
            pass


def test_a_failed_scrape_returns_500_and_logs_the_reason(caplog):
    def broken(_):
        raise ValueError("no text today")

    with serve(broken, "127.0.0.1", 0, is_ready=lambda: True) as port:
        with pytest.raises(urllib.error.HTTPError, match="500") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
        refused.value.close()
    assert "no text today" in caplog.text


def test_checkpoint_latencies_cover_ten_minutes():
    recorder, place = Recorder(), ("a", "b", "g", "a.t", "0")

    def rounds(*latencies: tuple[float, float | None]) -> list[float | None]:
        for now_s, latency_ms in latencies:
            row = CheckpointReport("a", "b", "g", "a.t", 0, 5, 5, "exact", 0, latency_ms)
            recorder.record_checkpoints([CheckpointReport("a", "b", foreign=0), row], now_s=now_s)
        return [
            recorder.store.value(f"kafka_mirror_checkpoint_latency_ms{part}", place)
            for part in ("", "_min", "_max", "_avg")
        ]

    assert rounds((0.0, None)) == [None] * 4
    assert rounds((60.0, 10.0), (120.0, 40.0), (180.0, None), (240.0, 25.0)) == [25.0, 10.0, 40.0, 25.0]
    assert rounds((700.0, None)) == [25.0, 25.0, 40.0, 32.5], "the first one is older than ten minutes"
    assert rounds((900.0, None)) == [25.0, None, None, None], "none is younger: the last one stays"
    recorder.record_checkpoints([CheckpointReport("a", "b", foreign=0)], now_s=960.0)
    assert recorder.store.value("kafka_mirror_checkpoint_latency_ms", place) is None


def test_partitions_missing_from_a_slots_report_are_idle_and_unreported_ones_unknown():
    recorder, idle = Recorder(), ("a", "b", "a.t", "1")
    names = ("record_rate", "byte_rate", "partition_paused", "record_age_ms", "record_age_ms_max")

    def values(labels: tuple[str, ...]) -> list[float | None]:
        return [recorder.store.value(f"kafka_mirror_{name}", labels) for name in names]

    recorder.windows.record([report(turn=(0.0, 0)), report(partition=1, reason="too large")], now_s=1.0)
    assert values(idle) == [2.0, 200.0, 1.0, 1.0, 3.0]
    recorder.windows.record([report(topic="a.u")._replace(slot=1)], now_s=2.0)
    assert values(idle) == [2.0, 200.0, 1.0, 1.0, 3.0], "another slot says nothing of it"
    recorder.windows.record([report(turn=(0.0, 0))], now_s=3.0)
    assert values(idle) == [0.0, 0.0, 0.0, 1.0, None], "the last age stays"
    assert values(("a", "b", "a.t", "2")) == [None] * 5
    recorder.windows.record([report(partition=1, turn=(0.0, 0))], now_s=4.0)
    recorder.keep_only([("a", "b", "a.t", "0")])
    recorder.windows.record([report(turn=(0.0, 0))], now_s=5.0)
    assert values(idle) == [None] * 5, "it has left the flow"


def test_the_drift_of_a_topic_whose_settings_are_not_read_any_more_is_unknown():
    recorder, name = Recorder(), "kafka_mirror_config_drift_settings"
    recorder.record_config_drift(("a", "b"), {"a.t": 2, "a.u": 1})
    recorder.record_config_drift(("c", "b"), {"c.t": 3})
    recorder.record_config_drift(("a", "b"), {"a.t": 0})
    found = [recorder.store.value(name, labels) for labels in (("a", "b", "a.t"), ("a", "b", "a.u"), ("c", "b", "c.t"))]
    assert found == [0, None, 3]
