"""One core measures lag: what it holds while clusters are silent, and that poller and inspector say the same."""

from __future__ import annotations

import ast
import time
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from metrics.as_of import MaxAge
from metrics.history import History
from metrics.lag_row import LagRow
from metrics.partition_status import LONG_AGO_S, WINDOW, Sample, Status
from metrics.recorder import Recorder
from mirror.config.load import load
from mirror.errors import ClusterRefuses
from mirror.kafka.cluster import Topic
from mirror.kafka.groups import Group
from mirror.lag.cluster_offsets import log_bounds, positions, shown_positions
from mirror.lag.flow_lag import FlowLag
from mirror.lag.flow_offsets import LogBounds, PartitionOffsets, time_lag_s
from mirror.lag.flow_progress import FlowProgress
from mirror.lag.inspector import InspectedFlow
from mirror.lag.judgement import Judge
from mirror.lag.leader_changes import NO_LEADER, LeaderChange, LeaderChanges
from mirror.lag.poller import Poller
from mirror.lag.polls import BoundedPoll
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.topic_partition import TopicPartition
from tests.unit.fakes import FakeCluster, FakeTimestamps

KEYS = (("t", 0), ("t", 1))
PARTITIONS = tuple(PlannedPartition(topic, f"a.{topic}", partition, "id") for topic, partition in KEYS)
PLAN = FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=PARTITIONS)


def led_by(alias, leader):
    """Return the topic of a cluster."""
    name = "t" if alias == "a" else "a.t"
    return {name: Topic(name=name, partitions=1, topic_id="id", leaders=(leader,))}


def described(alias, **offsets):
    return FakeCluster(alias, led_by(alias, 1), **offsets)


class Clusters:
    """Responds as a poll's clusters do; None is no response. Keeps the requests, in order."""

    def __init__(self, *, positions=None, shown=None, ends=None, starts=None):
        self.committed, self.shown, self.ends, self.starts = positions, shown or {}, ends, starts or {}
        self.stable, self.open = {}, {}
        self.requests: list = []
        self.now_s = 100.0  # when positions are read; log ends are a second later

    def request(self, read, plan, cluster, *, is_optional=False):
        self.requests.append(read)
        assert cluster == ("b" if read is positions else "a")
        assert is_optional == (read is shown_positions)
        if read is positions:
            return None if self.committed is None else (self.committed, self.now_s)
        if read is shown_positions:
            return self.shown, self.now_s
        return None if self.ends is None else self._bounds()

    def _bounds(self):
        return LogBounds(self.starts, self.ends, stable=self.stable, open=self.open), self.now_s + 1


def judge_of(history, **options):
    return Judge(history=history, horizon=MaxAge(), **options)


def lag_of(history=None, *, reader=None):
    """Return what measures the flow, by default with no earlier poll and a source whose records cannot be read."""
    return FlowLag(judge_of(history or History()), reads=lambda _: reader or FakeTimestamps(None))


def read(lag, clusters):
    return lag.keep(PLAN, lag.read(PLAN, "a", "b", clusters))


def polled(inspected, poll):
    inspected.read(poll)
    return inspected.rows(poll)


def lags(found):
    return {key: at.lag for key, at in found.of.items()}


def test_a_positions_are_read_after_log_ends():
    """A. What the target had acknowledged when the positions were read is no lag, and no lag is negative."""
    clusters = Clusters(positions={KEYS[0]: 7, KEYS[1]: 12}, ends=dict.fromkeys(KEYS, 10))
    found = read(lag_of(), clusters)
    assert clusters.requests == [log_bounds, positions]
    assert lags(found) == {KEYS[0]: 3, KEYS[1]: 0}
    assert found.is_target_read
    assert found.seen_s == 100.0


@pytest.mark.parametrize(
    ("committed", "later", "copying", "lag_then"),
    [
        pytest.param(7, 9, True, 1, id="records wait and are copied"),
        pytest.param(7, 30, True, 0, id="the target is ahead of the log ends by then"),
        pytest.param(5, 5, False, 5, id="stalled"),
        pytest.param(10, 10, False, 0, id="caught up"),
    ],
)
def test_a_positions_are_read_once_more_while_records_are_copied(committed, later, copying, lag_then):
    lag, clusters = lag_of(), Clusters(positions={KEYS[0]: 5}, ends={KEYS[0]: 5})
    read(lag, clusters)
    clusters.committed, clusters.ends = {KEYS[0]: committed}, {KEYS[0]: 10}
    found = lag.read(PLAN, "a", "b", clusters)
    assert lag.is_copying(PLAN, found) is copying
    clusters.committed, clusters.ends = {KEYS[0]: later}, {KEYS[0]: 99}
    settled = lag.keep(PLAN, lag.read_settled(PLAN, found, "b", clusters))
    assert lags(settled)[KEYS[0]] == lag_then
    assert settled.of[KEYS[0]].log_end == max(10, later), "the log has grown to the position at least"


def test_a_target_that_does_not_respond_the_second_time_changes_nothing():
    lag, clusters = lag_of(), Clusters(positions={KEYS[0]: 7}, ends={KEYS[0]: 10})
    found = lag.read(PLAN, "a", "b", clusters)
    clusters.committed = None
    assert lag.read_settled(PLAN, found, "b", clusters) == found


def test_b_while_the_target_does_not_answer_the_last_positions_hold():
    """B. While the target does not answer, the last positions hold: nothing can commit there. The lag is seen to grow."""
    lag, clusters = lag_of(), Clusters(positions={KEYS[0]: 7}, ends=dict.fromkeys(KEYS, 10))
    read(lag, clusters)
    clusters.committed, clusters.ends = None, dict.fromkeys(KEYS, 99)
    found = read(lag, clusters)
    assert lags(found) == {KEYS[0]: 92, KEYS[1]: None}
    assert found.positions.read_s == 100.0
    assert not found.is_target_read
    assert shown_positions not in clusters.requests


def test_b_before_the_first_response_positions_are_of_the_last_run_or_the_source_group():
    clusters = Clusters(shown={KEYS[0]: 5, KEYS[1]: 6}, ends=dict.fromkeys(KEYS, 10))
    shown = read(lag_of(), clusters)
    assert lags(shown) == {KEYS[0]: 5, KEYS[1]: 4}
    assert shown.positions.read_s == LONG_AGO_S
    history = History()
    history.add(("a", "b", "a.t", "0"), Sample(50.0, 8, 9, position_s=40.0))
    polled = read(lag_of(history), clusters)
    assert lags(polled) == {KEYS[0]: 2, KEYS[1]: None}
    assert polled.positions.read_s == 40.0


def test_b_only_an_empty_source_group_is_read_again():
    lag, clusters = lag_of(), Clusters(ends=dict.fromkeys(KEYS, 10))
    assert lags(read(lag, clusters)) == dict.fromkeys(KEYS)
    clusters.shown = {KEYS[1]: 6}
    for _ in range(2):
        assert lags(read(lag, clusters)) == {KEYS[0]: None, KEYS[1]: 4}
    assert clusters.requests.count(shown_positions) == 2


def test_c_while_the_source_does_not_answer_nothing_is_known_of_its_logs():
    """C. While the source does not answer, nothing new is known of its logs."""
    found = read(lag_of(), Clusters(positions=dict.fromkeys(KEYS, 7)))
    assert found.logs is None
    assert lags(found) == dict.fromkeys(KEYS)
    assert found.first_unreplicated == {}


def test_replicated_until_is_the_time_of_the_first_waiting_record():
    reader = FakeTimestamps(None)
    lag, clusters = lag_of(reader=reader), Clusters(positions={KEYS[0]: 10}, ends={KEYS[0]: 10})

    def until_s(time_s, *, timestamp_s=None):
        reader.at_ms = timestamp_s and timestamp_s * 1000
        clusters.now_s = time_s
        return read(lag, clusters).replicated_until_s

    assert until_s(100.0) == {KEYS[0]: 100.0}  # level: when its position was read
    clusters.ends = {KEYS[0]: 15}
    assert until_s(109.0) == {KEYS[0]: 100.0}
    assert until_s(119.0, timestamp_s=105.0) == {KEYS[0]: 105.0}
    clusters.committed = {KEYS[0]: 12}
    assert until_s(129.0, timestamp_s=999.0) == {KEYS[0]: 110.0}  # from the future, and seen to wait since then
    assert until_s(139.0) == {KEYS[0]: 110.0}


def test_a_partition_that_never_caught_up_and_was_never_read_has_no_time_lag():
    clusters = Clusters(positions={KEYS[0]: 7}, ends={KEYS[0]: 10})
    assert read(lag_of(), clusters).replicated_until_s == {}


def test_an_answer_that_is_older_than_the_plan_adds_no_topic_partition():
    clusters = Clusters(positions={("gone", 0): 1}, ends={("gone", 0): 5, KEYS[0]: 5})
    assert read(lag_of(), clusters).of.keys() == set(KEYS)


@pytest.mark.parametrize(
    ("at", "lag", "first_unreplicated"),
    [
        pytest.param(PartitionOffsets(7, 0, 10), 3, 7, id="behind"),
        pytest.param(PartitionOffsets(7, 9, 10), 3, 9, id="retention has passed the position"),
        pytest.param(PartitionOffsets(7, None, 10), 3, 7, id="log start unknown"),
        pytest.param(PartitionOffsets(10, 0, 10), 0, None, id="level"),
        pytest.param(PartitionOffsets(12, 0, 10), 0, None, id="log was truncated"),
        pytest.param(PartitionOffsets(None, 0, 10), None, None, id="no position"),
        pytest.param(PartitionOffsets(7, 0, None), None, None, id="log end unknown"),
    ],
)
def test_lag_and_the_first_record_that_waits(at, lag, first_unreplicated):
    assert at.lag == lag
    assert at.first_unreplicated == first_unreplicated


@pytest.mark.parametrize(
    ("lag", "until_s", "seconds"),
    [
        pytest.param(0, None, 0.0, id="level"),
        pytest.param(0, 40.0, 0.0, id="level, whenever the last record was"),
        pytest.param(3, 40.0, 60.0, id="behind"),
        pytest.param(3, 140.0, 0.0, id="written by a clock that is ahead"),
        pytest.param(3, None, None, id="record not read"),
        pytest.param(None, None, None, id="nothing known"),
    ],
)
def test_time_lag(lag, until_s, seconds):
    assert time_lag_s(lag, until_s, 100.0) == seconds


def test_a_record_from_the_future_waits_since_it_was_first_seen(tmp_path):
    reader = FakeTimestamps(None)
    source, target = described("a", end=10), described("b", position=10)
    rows = InspectedFlow(
        flow_of(tmp_path), source, target, judge_of(History(), bridges_polls=False), reads=lambda _: reader
    )

    def lag_seconds(now_s):
        (row,) = polled(rows, BoundedPoll(now_s, owner=""))
        return row.lag_seconds

    assert lag_seconds(1000.0) == 0
    source.end, reader.at_ms = 12, 9_000_000.0
    assert lag_seconds(1005.0) == 0
    assert lag_seconds(1015.0) == 10
    target.position, source.end = 12, 13
    assert lag_seconds(1020.0) == 0  # another record


def test_polls_see_leader_changes_of_both_clusters(tmp_path):
    source, target, leaders = described("a", end=10), described("b", position=10), LeaderChanges()
    judge = judge_of(History(), bridges_polls=False)
    inspected = InspectedFlow(
        flow_of(tmp_path), source, target, judge, leaders=leaders, reads=lambda _: FakeTimestamps(None)
    )
    for now_s, *nodes in ((1.0, 1, 1), (2.0, 2, 1), (3.0, 2, NO_LEADER)):
        for cluster, leader in zip((source, target), nodes, strict=True):
            cluster.looks = [led_by(cluster.alias, leader)]
        polled(inspected, BoundedPoll(now_s, owner=""))
    assert leaders.of("a", "t", 0) == [LeaderChange(2.0, "a", 1, 2)]
    assert leaders.of("b", "a.t", 0) == [LeaderChange(3.0, "b", 1, NO_LEADER)]


def flow_of(tmp_path):
    file = tmp_path / "f"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    (flow,) = (each for each in load(file).flows if each.name == "a->b")
    return flow


def test_the_poller_publishes_the_rows_that_the_inspector_shows(tmp_path):
    """Both read the same clusters by the same code: every number that a row and a metric share is the same."""
    source, target, reader = described("a", start=3, end=10), described("b", position=7), FakeTimestamps(None)
    reader.at_ms = (time.time() - 60) * 1000
    recorder = Recorder()
    poller = Poller(
        recorder,
        tmp_path / "h",
        progress=FlowProgress(),
        horizon=MaxAge(),
        reads=lambda _: reader,
        wait=lambda _: None,
    )
    inspected = InspectedFlow(
        flow_of(tmp_path), source, target, judge_of(History(), bridges_polls=False), reads=lambda _: reader
    )
    for end in range(10, 22):
        source.end = end
        poller.poll(replace(PLAN, partitions=PARTITIONS[:1]), source, target)
        (row,) = polled(inspected, BoundedPoll(time.time(), owner="here"))

    def published(name):
        return recorder.store.value(f"kafka_mirror_{name}", row.key)

    assert (row.topic, row.remote_topic, row.owner, row.status) == ("t", "a.t", "here", Status.STALL)
    assert (row.offset, row.log_start, row.log_end, row.lag) == (7, 3, 21, 14)
    names = ("replicated_offset", "source_start_offset", "source_end_offset", "lag_records", "partition_status")
    assert [published(name) for name in names] == [row.offset, row.log_start, row.log_end, row.lag, row.status]
    assert published("replicated_until_timestamp_seconds") == row.replicated_until_s
    assert row.lag_seconds == pytest.approx(60, abs=5)
    poller.close()


def test_a_position_that_is_not_read_has_no_rate_which_is_not_0():
    """While the target does not respond the log end still moves, and nobody knows whether the position does."""
    lag, clusters = lag_of(), Clusters(positions={KEYS[0]: 7}, ends={KEYS[0]: 10})

    def row_at(now_s):
        clusters.now_s = now_s
        return lag.rows(PLAN, read(lag, clusters), now_s=now_s)[0]

    row_at(100.0)
    clusters.committed, clusters.ends = {KEYS[0]: 9}, {KEYS[0]: 20}
    row = row_at(110.0)
    assert (row.records_per_s, row.written_per_s, row.level_in_s) == (0.2, 1.0, None)
    clusters.committed, clusters.ends = None, {KEYS[0]: 30}
    row = row_at(120.0)
    assert (row.lag, row.records_per_s, row.written_per_s, row.level_in_s) == (21, None, 1.0, None)
    clusters.ends = None
    row = row_at(130.0)
    assert (row.lag, row.lag_seconds, row.records_per_s, row.written_per_s) == (None, None, None, None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([10, 10, 10, 7, 12, None]),  # position
            st.sampled_from([10, 10, 10, 12, None]),  # log end
            st.sampled_from([0.0, 0.0, 5.0, 60.0]),  # age of the responses
            st.sampled_from(["", "", "an owner"]),
            st.integers(1, 12),  # polls that find this
        ),
        max_size=8,
    )
)
def test_a_row_that_is_kept_is_what_a_new_one_would_be(found):
    judge = Judge(history=History(), horizon=MaxAge(known_s=15.0, silence_s=40.0))
    lag, clusters, now_s = FlowLag(judge, reads=lambda _: FakeTimestamps(None)), Clusters(), 1000.0
    kept = 0
    for position, end, age_s, owner, polls in found:
        clusters.committed = None if position is None else {KEYS[0]: position}
        clusters.ends = None if end is None else {KEYS[0]: end}
        before: list[LagRow] = []
        for _ in range(polls):
            now_s += 5.0
            clusters.now_s = now_s - age_s
            offsets = read(lag, clusters)
            rows = lag.rows(PLAN, offsets, now_s=now_s, owner=owner)
            assert rows == FlowLag(judge).rows(PLAN, offsets, now_s=now_s, owner=owner)
            kept += any(row is old for row, old in zip(rows, before, strict=False))
            before = rows
    event("kept" if kept else "none kept")


def test_the_row_of_a_quiet_partition_is_kept():
    lag, clusters = lag_of(), Clusters(positions=dict.fromkeys(KEYS, 10), ends=dict.fromkeys(KEYS, 10))
    rows = [lag.rows(PLAN, read(lag, clusters), now_s=101.0) for _ in range(WINDOW + 1)]
    assert rows[-1][0] is rows[-2][0]
    assert rows[-2][0] is not rows[-3][0]


def test_a_row_names_the_open_transaction_that_its_records_wait_for():
    lag, clusters = lag_of(), Clusters(positions=dict.fromkeys(KEYS, 7), ends=dict.fromkeys(KEYS, 10))
    clusters.stable, clusters.open = {KEYS[0]: 7, KEYS[1]: 10}, {KEYS[0]: "producer 5"}
    held, free = lag.rows(PLAN, read(lag, clusters), now_s=101.0)
    assert (held.held_by, free.held_by) == ("producer 5", "")
    assert held.reason.endswith("it waits for producer 5")
    recorder = Recorder()
    recorder.record_rows(("a", "b"), [held, free], read_s=101.0, now_s=101.0)
    behind = "kafka_mirror_partition_behind_open_transaction"
    assert [recorder.store.value(behind, row.key) for row in (held, free)] == [1, 0]


def test_rows_of_an_unread_source_have_only_the_targets_positions(tmp_path):
    """A remote topic that names its source wins over one with the source topic's name."""
    source, target = described("a", end=10), described("b")
    source.is_up = False
    offsets = {TopicPartition("a.t", 0): 7, TopicPartition("t", 0): 3, TopicPartition("c.t", 0): 5}
    target.group = lambda name: Group(name, "Empty", offsets)
    inspected = InspectedFlow(flow_of(tmp_path), source, target, judge_of(History(), bridges_polls=False))
    poll = BoundedPoll(1000.0, owner="")
    (row,) = polled(inspected, poll)
    assert {alias: str(error) for alias, error in poll.problems.items()} == {"a": "cluster a: no answer"}
    assert (row.topic, row.remote_topic, row.partition, row.offset) == ("t", "a.t", 0, 7)
    assert (row.log_end, row.lag, row.lag_seconds, row.status) == (None, None, None, Status.UNKNOWN)
    inspected.close()


def test_refused_positions_leave_other_numbers_in_the_inspector():
    source = FakeCluster("a", end=10)

    def refuses(plan, cluster):
        raise ClusterRefuses("cluster a: not authorized", cluster="a")

    poll = BoundedPoll(1000.0, owner="")
    assert poll.request(refuses, PLAN, source, is_optional=True) is None
    assert poll.request(log_bounds, PLAN, source) is not None
    assert poll.request(refuses, PLAN, source) is None
    assert {alias: str(error) for alias, error in poll.problems.items()} == {"a": "cluster a: not authorized"}
    assert poll.request(log_bounds, PLAN, source) is None  # it is not asked again in this poll


def test_old_answers_count_for_the_poller_and_not_for_a_row_of_now():
    """The poller bridges a few polls without an answer; a row that was not read now is UNKNOWN at once."""
    history, key = History(), ("a", "b", "a.t", "0")
    poller, inspector = (
        Judge(history=history, horizon=MaxAge(known_s=30.0), bridges_polls=bridges) for bridges in (True, False)
    )
    poller.record(key, PartitionOffsets(10, 0, 10), time_s=100.0, position_s=100.0)
    poller.record(key, PartitionOffsets(10, 0, None), time_s=105.0, position_s=105.0)  # says nothing
    assert poller.status(key, is_read=False, now_s=110.0).status is Status.OK
    assert inspector.status(key, is_read=False, now_s=110.0).status is Status.UNKNOWN
    assert poller.status(key, is_read=False, now_s=131.0).status is Status.UNKNOWN


def _is_method_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
