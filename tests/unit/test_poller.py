"""Polls in, lag and verdicts out; the clusters are stand-ins for their answers only."""

from __future__ import annotations

import threading
import time

import pytest

from metrics.headroom import Retention
from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.trend import TREND_FILE, Trend
from mirror.errors import ClusterRefuses
from mirror.lag.flow_progress import FlowProgress
from mirror.lag.judgement import horizon_of
from mirror.lag.poller import Poller as RealPoller
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from tests.unit.fakes import FakeCluster, FakeTimestamps
from tests.unit.test_metrics import report
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("standing_clock")

PLAN = FlowPlan(
    source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=(PlannedPartition("t", "a.t", 0, "id"),)
)
SERIES = ("a", "b", "a.t", "0")


def Poller(recorder, file, *, ago_s=60.0, progress=None, **options):  # noqa: N802 - stands for the class
    """Return a poller of a source whose records were written so long ago."""
    horizon = horizon_of(poll_interval_s=1, window_s=1)
    return RealPoller(
        recorder,
        file,
        reads=lambda _: FakeTimestamps(ago_s=ago_s),
        horizon=horizon,
        progress=progress or FlowProgress(),
        **{"wait": lambda _: None, **options},
    )


@pytest.fixture
def recorder():
    return Recorder()


def poll(poller, source, target, times=1):
    for _ in range(times):
        poller.poll(PLAN, source, target)


def shown(recorder, short, labels, *, after_s=0.0):
    """Return what a scrape shows of a series, so many seconds from now."""
    return recorder.snapshot(now_s=time.time() + after_s)[f"kafka_mirror_{short}"].get(labels)


def test_a_poll_fills_offsets_lag_status_and_clusters(recorder, tmp_path):
    poll(Poller(recorder, tmp_path / "h"), FakeCluster("a", start=3, end=10), FakeCluster("b", position=7))
    found = {
        name: recorder.store.value(f"kafka_mirror_{name}", SERIES)
        for name in ("source_start_offset", "source_end_offset", "replicated_offset", "lag_records", "partition_status")
    }
    assert found == {
        "source_start_offset": 3,
        "source_end_offset": 10,
        "replicated_offset": 7,
        "lag_records": 3,
        "partition_status": Status.UNKNOWN,
    }
    assert recorder.store.value("kafka_mirror_partitions", ("a", "b", "unknown")) == 1
    assert recorder.store.value("kafka_mirror_partitions", ("a", "b", "ok")) == 0
    assert [recorder.store.value("kafka_mirror_cluster_up", ("a", "b", cluster)) for cluster in "ab"] == [1, 1]


def test_a_stalled_partition_and_its_recovery_are_logged_once_each(recorder, tmp_path, caplog):
    caplog.set_level("INFO")
    progress = FlowProgress()
    progress.record_windows([report()], now_s=10**11)
    poller, source, target = (
        Poller(recorder, tmp_path / "h", progress=progress),
        FakeCluster("a", end=10),
        FakeCluster("b", position=7),
    )
    poll(poller, source, target, times=12)
    assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.STALL
    assert [r.message for r in caplog.records] == [
        "a->b: a.t-0 is STALL: stalled at offset 7 for at least 0 s; 3 records behind"
    ]
    target.position = 10
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_partitions", ("a", "b", "stall")) == 0
    assert caplog.records[-1].message == "a->b: a.t-0 is OK: everything is replicated"


def test_a_cluster_without_an_answer_leaves_the_last_offsets_and_is_counted(recorder, tmp_path):
    poller, source, target = (
        Poller(recorder, tmp_path / "h"),
        FakeCluster("a", end=10),
        FakeCluster("b", position=7),
    )
    poll(poller, source, target)
    source.is_up, source.end = False, 99
    poll(poller, source, target)
    assert [recorder.store.value("kafka_mirror_cluster_up", ("a", "b", cluster)) for cluster in "ab"] == [0, 1]
    assert recorder.store.value("kafka_mirror_poll_errors_total", ("a", "b")) == 1
    assert recorder.store.value("kafka_mirror_source_end_offset", SERIES) == 10
    assert poller.polls == 2


def test_while_the_target_is_silent_lag_grows_from_the_last_positions(recorder, tmp_path):
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b", position=7)
    poll(poller, source, target)
    polled_s = recorder.store.value("kafka_mirror_last_poll_timestamp_seconds", ("a", "b"))
    target.is_up, source.end = False, 99
    poll(poller, source, target, times=10)
    assert recorder.store.value("kafka_mirror_lag_records", SERIES) == 92
    assert recorder.store.value("kafka_mirror_cluster_up", ("a", "b", "b")) == 0
    assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.STALL
    assert (
        recorder.store.value("kafka_mirror_last_poll_timestamp_seconds", ("a", "b")) == polled_s
    )  # and the poll is not a good one


def test_a_silent_source_has_no_numbers_and_status_unknown(tmp_path, monkeypatch):
    recorder = Recorder(horizon_of(poll_interval_s=1, window_s=1))
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b", position=10)
    poll(poller, source, target, times=12)
    assert (shown(recorder, "partition_status", SERIES), shown(recorder, "lag_records", SERIES)) == (Status.OK, 0)
    assert shown(recorder, "fresh_partitions", SERIES[:2]) == 1
    # Nobody polls any more, for whatever reason: what is served says so by itself.
    assert shown(recorder, "partition_status", SERIES, after_s=20) == Status.UNKNOWN
    assert shown(recorder, "partitions", (*SERIES[:2], "ok"), after_s=20) == 0
    assert shown(recorder, "fresh_partitions", SERIES[:2], after_s=20) == 0
    assert shown(recorder, "lag_seconds", SERIES, after_s=20) == pytest.approx(20, abs=2)
    source.is_up = False
    began_s = time.time()
    monkeypatch.setattr("mirror.lag.poller.time.time", lambda: began_s + 5)
    poll(poller, source, target)
    assert shown(recorder, "partition_status", SERIES) == Status.UNKNOWN
    assert shown(recorder, "partitions", (*SERIES[:2], "unknown")) == 1
    assert shown(recorder, "lag_records", SERIES) is None
    assert shown(recorder, "source_end_offset", SERIES) is None
    # Up to when it was replicated stays known; how long ago that is grows by itself.
    assert shown(recorder, "lag_seconds", SERIES, after_s=95) == pytest.approx(100, abs=2)
    assert shown(recorder, "fresh_partitions", SERIES[:2], after_s=95) == 0


def test_a_silent_target_is_judged_by_the_last_run_or_the_source_group(tmp_path):
    before = Poller(Recorder(), tmp_path / "h")
    poll(before, FakeCluster("a", end=10), FakeCluster("b", position=7))
    before.save()
    for history, position in ((tmp_path / "h", 7), (tmp_path / "none", 6)):
        recorder = Recorder()
        poller, source, target = Poller(recorder, history), FakeCluster("a", end=20, position=6), FakeCluster("b")
        target.is_up = False
        poller.load()
        poll(poller, source, target)
        assert recorder.store.value("kafka_mirror_replicated_offset", SERIES) == position
        assert recorder.store.value("kafka_mirror_lag_records", SERIES) == 20 - position
        assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.UNKNOWN
        assert recorder.store.value("kafka_mirror_partitions", ("a", "b", "ok")) == 0


def test_a_record_with_unknown_time_is_neither_fresh_nor_within_retention(recorder, tmp_path):
    source = FakeCluster("a", end=10)
    source.keeps = Retention(ms=3_600_000)
    poller, target = Poller(recorder, tmp_path / "h", ago_s=None), FakeCluster("b", position=7)
    poll(poller, source, target)
    recorder.record_served_partitions(SERIES[:2], [SERIES], expected=1, slots=[0])
    assert shown(recorder, "lag_seconds", SERIES) is None
    assert shown(recorder, "retention_headroom_seconds", SERIES[:3]) is None
    assert shown(recorder, "fresh_partitions", SERIES[:2]) == 0
    # It was level before: what waits now was written since then.
    target.position = 10
    poll(poller, source, target)
    target.position, source.end = 10, 12
    poll(poller, source, target)
    assert shown(recorder, "lag_seconds", SERIES, after_s=50) == pytest.approx(50, abs=2)


def test_a_restart_judges_at_once(tmp_path):
    before = Poller(Recorder(), tmp_path / "h")
    poll(before, FakeCluster("a", end=10), FakeCluster("b", position=7), times=9)
    before.save()
    recorder = Recorder()
    after = Poller(recorder, tmp_path / "h")
    after.load()
    poll(after, FakeCluster("a", end=10), FakeCluster("b", position=7))
    assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.STALL


def test_lost_offsets_make_a_partition_lost_and_those_of_another_one_do_not(recorder, tmp_path):
    progress = FlowProgress()
    poller, source, target = (
        Poller(recorder, tmp_path / "h", progress=progress),
        FakeCluster("a"),
        FakeCluster("b", position=9),
    )
    source.end = 10
    poll(poller, source, target)
    progress.record_windows([report(partition=1)._replace(lost=5)], now_s=time.time())
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.UNKNOWN
    progress.record_windows([report()._replace(lost=5)], now_s=time.time())
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.LOST


def test_a_flow_without_reports_has_stopped_unless_just_taken_over(recorder, tmp_path):
    progress, now_s = FlowProgress(), time.time()
    poller, source, target = (
        Poller(recorder, tmp_path / "h", progress=progress),
        FakeCluster("a"),
        FakeCluster("b", position=9),
    )
    source.end = 10

    def status(since_s=0.0):
        poller.poll(PLAN, source, target, since_s=since_s)
        return recorder.store.value("kafka_mirror_partition_status", SERIES)

    progress.expect({("a", "b")}, now_s=now_s - 60)
    poll(poller, source, target, times=10)
    assert status() == Status.STOP
    assert status(since_s=now_s) == Status.STALL
    progress.record_windows([report()], now_s=now_s)
    assert status() == Status.STALL


def test_the_last_hour_of_a_flow_is_made_from_its_rows(recorder, tmp_path):
    poller = Poller(recorder, tmp_path / "h")
    poll(poller, FakeCluster("a", end=10), FakeCluster("b", position=10))
    poller.save()
    trend = Trend()
    trend.load(tmp_path / TREND_FILE, now_s=time.time())
    (point,) = trend.of("a->b")
    assert (point.status, point.waits_s, point.waiting) == (Status.OK, 0.0, 0)


def test_a_partition_with_unknown_position_has_status_unknown(recorder, tmp_path):
    poll(Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b"), times=12)
    assert recorder.store.value("kafka_mirror_lag_records", SERIES) is None
    assert recorder.store.value("kafka_mirror_partition_status", SERIES) == Status.UNKNOWN


def test_positions_are_published_on_the_source_when_they_move(recorder, tmp_path):
    poller = Poller(recorder, tmp_path / "h", publishes=True)
    source, target = FakeCluster("a", end=10), FakeCluster("b", position=7)
    poll(poller, source, target, times=3)
    target.position = 9
    poll(poller, source, target, times=2)
    assert source.commits == [{("t", 0): 7}, {("t", 0): 9}]
    quiet = FakeCluster("a", end=10)
    poll(Poller(recorder, tmp_path / "h"), quiet, target)
    assert quiet.commits == []


def test_a_position_whose_commit_was_lost_is_published_again(recorder, tmp_path):
    poller = Poller(recorder, tmp_path / "h", publishes=True)
    source, target = FakeCluster("a", end=10), FakeCluster("b", position=7)
    source.loses_commits = True
    poll(poller, source, target, times=2)
    source.loses_commits = False
    poll(poller, source, target, times=2)
    assert source.commits == [{("t", 0): 7}] * 3


def test_a_source_that_refuses_the_group_costs_one_warning(recorder, tmp_path, caplog):
    poller = Poller(recorder, tmp_path / "h", publishes=True)
    source, target = FakeCluster("a", end=10), FakeCluster("b", position=7)
    source.may_commit = False
    for position in range(5):
        target.position = position
        poll(poller, source, target)
    assert [r.message for r in caplog.records if "lag tools" in r.message] == [
        "a->b: positions for lag tools cannot be committed on a: Group authorization failed"
    ]
    assert recorder.store.value("kafka_mirror_lag_records", SERIES) == 6


def test_a_full_or_missing_disk_costs_the_history_only(recorder, tmp_path, caplog):
    poller = Poller(recorder, tmp_path / "absent" / "h")
    poll(poller, FakeCluster("a", end=10), FakeCluster("b", position=7))
    poller.save()
    assert "cannot be saved" in caplog.text


def test_time_lag_and_headroom_come_from_the_first_unreplicated_record(recorder, tmp_path):
    source = FakeCluster("a", end=10)
    source.keeps = Retention(ms=3_600_000)
    poll(Poller(recorder, tmp_path / "h"), source, FakeCluster("b", position=7))
    assert shown(recorder, "lag_seconds", SERIES) == pytest.approx(60, abs=2)
    assert recorder.store.value("kafka_mirror_retention_headroom_seconds", SERIES[:3]) == pytest.approx(3540, abs=2)


def test_a_partition_with_lag_0_has_its_whole_retention_as_headroom(recorder, tmp_path):
    source = FakeCluster("a", end=10)
    source.keeps = Retention(ms=3_600_000)
    poll(Poller(recorder, tmp_path / "h"), source, FakeCluster("b", position=10))
    assert shown(recorder, "lag_seconds", SERIES) == 0
    assert recorder.store.value("kafka_mirror_retention_headroom_seconds", SERIES[:3]) == 3600


def test_a_waiting_record_from_the_future_has_waited_since_it_was_seen(recorder, tmp_path):
    """Its timestamp would make a lag of 0, or below, of a topic-partition that stands still."""
    poller, source, target = (
        Poller(recorder, tmp_path / "h", ago_s=-3600.0),
        FakeCluster("a", end=10),
        FakeCluster("b", position=7),
    )
    poll(poller, source, target)
    assert shown(recorder, "lag_seconds", SERIES) == pytest.approx(0, abs=2)
    poll(poller, source, target, times=12)
    assert shown(recorder, "lag_seconds", SERIES, after_s=120) == pytest.approx(120, abs=2)
    assert shown(recorder, "fresh_partitions", SERIES[:2], after_s=120) == 0
    target.position = source.end = 20
    poll(poller, source, target)
    source.end = 25
    poll(poller, source, target)
    assert shown(recorder, "lag_seconds", SERIES) == pytest.approx(0, abs=2)  # another record, seen just now


def test_an_unread_record_leaves_no_time_lag_which_is_not_zero(recorder, tmp_path):
    poll(Poller(recorder, tmp_path / "h", ago_s=None), FakeCluster("a", end=10), FakeCluster("b", position=7))
    assert recorder.store.value("kafka_mirror_lag_records", SERIES) == 3
    assert shown(recorder, "lag_seconds", SERIES) is None
    assert recorder.store.value("kafka_mirror_retention_headroom_seconds", SERIES[:3]) is None


def test_retention_that_cannot_be_read_again_stays_what_it_was(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr("mirror.lag.poller.RETENTION_EVERY_S", 0)
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b", position=10)
    source.keeps = Retention(ms=3_600_000)
    poll(poller, source, target)
    monkeypatch.setattr(source, "retention", lambda topics: {})
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_retention_headroom_seconds", SERIES[:3]) == 3600


def test_a_cluster_that_refuses_is_up_and_its_reason_is_logged(recorder, tmp_path, monkeypatch, caplog):
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b", position=7)

    def refuses(group, wanted):
        raise ClusterRefuses(
            f"cluster b: not authorized. Grant this client DESCRIBE on the group {group}.", cluster="b"
        )

    monkeypatch.setattr(target, "committed", refuses)
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_cluster_up", ("a", "b", "b")) == 1
    assert (
        "a->b: the lag cannot be polled: cluster b: not authorized. Grant this client DESCRIBE on the group mirror.a->b."
        in (record.getMessage() for record in caplog.records)
    )
    target.is_up = False
    monkeypatch.undo()
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_cluster_up", ("a", "b", "b")) == 0


def test_positions_that_the_source_does_not_show_in_time_hold_up_no_log_ends(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr("mirror.lag.polls.PATIENCE_S", 0.05)
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b")
    target.is_up, responds = False, threading.Event()

    def hangs(group, wanted):
        responds.wait(10)
        return dict.fromkeys(wanted, 6)

    monkeypatch.setattr(source, "committed", hangs)
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_source_end_offset", SERIES) == 10
    assert recorder.store.value("kafka_mirror_lag_records", SERIES) is None
    responds.set()
    eventually(
        lambda: poll(poller, source, target) or recorder.store.value("kafka_mirror_lag_records", SERIES) == 4,
        within_s=5,
        because="a later poll gets the response",
    )
    poller.close()


def test_positions_that_the_source_refuses_to_show_are_no_failure_of_the_poll(recorder, tmp_path, monkeypatch):
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b")
    target.is_up = False

    def refuses(group, wanted):
        raise ClusterRefuses("cluster a: not authorized", cluster="a")

    monkeypatch.setattr(source, "committed", refuses)
    poll(poller, source, target)
    assert recorder.store.value("kafka_mirror_source_end_offset", SERIES) == 10
    assert recorder.store.value("kafka_mirror_poll_errors_total", ("a", "b")) == 1  # the target's
    assert [recorder.store.value("kafka_mirror_cluster_up", ("a", "b", cluster)) for cluster in "ab"] == [1, 0]


def test_a_hanging_cluster_delays_neither_the_other_nor_known_values(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr("mirror.lag.polls.PATIENCE_S", 0.05)
    poller, source, target = Poller(recorder, tmp_path / "h"), FakeCluster("a", end=10), FakeCluster("b", position=7)
    poll(poller, source, target)
    answers, asked = threading.Event(), []

    def hangs(group, wanted):
        asked.append(group)
        answers.wait(10)
        return dict.fromkeys(wanted, 9)

    monkeypatch.setattr(target, "committed", hangs)
    for end in (11, 12, 13):
        source.end = end
        poll(poller, source, target)
        assert recorder.store.value("kafka_mirror_source_end_offset", SERIES) == end
        assert recorder.store.value("kafka_mirror_replicated_offset", SERIES) == 7
    assert len(asked) == 1  # no second question while the first one is not answered
    # What the answer was asked about may have left the flow by then.
    fewer = FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=())
    poller.poll(fewer, source, target)
    answers.set()
    eventually(
        lambda: poll(poller, source, target) or recorder.store.value("kafka_mirror_replicated_offset", SERIES) == 9,
        within_s=5,
        because="the answer is taken in when it comes",
    )
    assert recorder.store.value("kafka_mirror_cluster_up", ("a", "b", "b")) == 1
    poller.close()
