"""One core measures lag: what it holds while clusters are silent, and that poller and inspector say the same."""

from __future__ import annotations

import ast
from functools import partial

import pytest

from metrics.as_of import MaxAge
from metrics.history import History
from metrics.verdict import LONG_AGO_S, Sample, Status
from mirror.config.load import load
from mirror.kafka.cluster import Topic
from mirror.lag import inspector_rows
from mirror.lag.cluster_offsets import BoundedPoll
from mirror.lag.flow_lag import FlowLag
from mirror.lag.inspector_rows import FlowRows
from mirror.lag.judgement import Judge
from mirror.lag.partition_offsets import LogBounds, PartitionOffsets, Positions, time_lag_s
from mirror.lag.rows import RowJudge
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from tests.unit.source_files import ROOT, files, nodes
from tests.unit.test_poller import Cluster

KEYS = (("t", 0), ("t", 1))
PARTITIONS = tuple(PlannedPartition(topic, f"a.{topic}", partition, "id") for topic, partition in KEYS)
PLAN = FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=PARTITIONS)


class Reader:
    """Answers as mirror.lag.first_unreplicated.FirstUnreplicated does, with the timestamps it is given; None is silence."""

    timestamps_ms: float | None = None

    def timestamps(self, lagging):
        return {} if self.timestamps_ms is None else dict.fromkeys(lagging, self.timestamps_ms)

    def close(self):
        pass


class Described(Cluster):
    """A cluster whose topic is described, too."""

    def topics(self):
        name = "t" if self.alias == "a" else "a.t"
        return {name: Topic(name=name, partitions=1, topic_id="id")}

    def hidden(self, names):
        return []


class Clusters:
    """Answers as a poll's clusters do; None is no answer. Keeps what it was asked, in order."""

    def __init__(self, *, positions=None, shown=None, ends=None, starts=None):
        self.committed, self.shown, self.ends, self.starts = positions, shown or {}, ends, starts or {}
        self.questions: list[str] = []

    def positions(self, plan):
        self.questions.append("positions")
        return None if self.committed is None else Positions(self.committed, 100.0)

    def shown_positions(self, plan):
        self.questions.append("shown")
        return self.shown

    def log_bounds(self, plan):
        self.questions.append("log bounds")
        return None if self.ends is None else LogBounds(self.starts, self.ends, 101.0)


def lags(found):
    return {key: at.lag for key, at in found.of.items()}


def test_a_positions_are_read_before_log_ends():
    """A. Positions are read before log ends: no lag is negative."""
    clusters = Clusters(positions={KEYS[0]: 7}, ends=dict.fromkeys(KEYS, 10))
    found = FlowLag(History()).read(PLAN, clusters)
    assert clusters.questions == ["positions", "log bounds"]
    assert lags(found) == {KEYS[0]: 3, KEYS[1]: None}
    assert found.is_target_read
    assert found.seen_s == 100.0


def test_b_while_the_target_does_not_answer_the_last_positions_hold():
    """B. While the target does not answer, the last positions hold: nothing can commit there. The lag is seen to grow."""
    lag, clusters = FlowLag(History()), Clusters(positions={KEYS[0]: 7}, ends=dict.fromkeys(KEYS, 10))
    lag.read(PLAN, clusters)
    clusters.committed, clusters.ends = None, dict.fromkeys(KEYS, 99)
    found = lag.read(PLAN, clusters)
    assert lags(found) == {KEYS[0]: 92, KEYS[1]: None}
    assert found.positions.read_s == 100.0
    assert not found.is_target_read
    assert "shown" not in clusters.questions


def test_b_before_its_first_answer_those_of_an_earlier_runs_polls_hold_else_those_that_the_source_shows():
    history, clusters = History(), Clusters(shown={KEYS[0]: 5, KEYS[1]: 6}, ends=dict.fromkeys(KEYS, 10))
    shown = FlowLag(history).read(PLAN, clusters)
    assert lags(shown) == {KEYS[0]: 5, KEYS[1]: 4}
    assert shown.positions.read_s == LONG_AGO_S
    history.add(("a", "b", "a.t", "0"), Sample(50.0, 8, 9, position_s=40.0))
    polled = FlowLag(history).read(PLAN, clusters)
    assert lags(polled) == {KEYS[0]: 2, KEYS[1]: None}
    assert polled.positions.read_s == 40.0


def test_b_a_source_that_shows_nothing_is_asked_again_and_one_that_shows_something_is_not():
    lag, clusters = FlowLag(History()), Clusters(ends=dict.fromkeys(KEYS, 10))
    assert lags(lag.read(PLAN, clusters)) == dict.fromkeys(KEYS)
    clusters.shown = {KEYS[1]: 6}
    for _ in range(2):
        assert lags(lag.read(PLAN, clusters)) == {KEYS[0]: None, KEYS[1]: 4}
    assert clusters.questions.count("shown") == 2


def test_c_while_the_source_does_not_answer_nothing_is_known_of_its_logs():
    """C. While the source does not answer, nothing new is known of its logs."""
    found = FlowLag(History()).read(PLAN, Clusters(positions=dict.fromkeys(KEYS, 7)))
    assert found.logs is None
    assert lags(found) == dict.fromkeys(KEYS)
    assert found.first_unreplicated == {}


def test_replicated_until_when_the_first_record_that_waits_was_written_and_as_before_while_it_is_not_read():
    history, reader = History(), Reader()
    judge, lag = Judge(history, MaxAge()), FlowLag(history, reads=lambda _: reader)
    series, clusters = ("a", "b", "a.t", "0"), Clusters(positions={KEYS[0]: 10}, ends={KEYS[0]: 10})

    def until_s(time_s, *, timestamp_s=None):
        reader.timestamps_ms = timestamp_s and timestamp_s * 1000
        found = lag.read(PLAN, clusters)
        judge.take_in(series, found.of[KEYS[0]], time_s=time_s, position_s=time_s)
        return lag.replicated_until_s(PLAN, found)

    assert until_s(101.0) == {KEYS[0]: 100.0}  # level: when its position was read
    clusters.ends = {KEYS[0]: 15}
    assert until_s(110.0) == {KEYS[0]: 100.0}
    assert until_s(120.0, timestamp_s=105.0) == {KEYS[0]: 105.0}
    clusters.committed = {KEYS[0]: 12}
    assert until_s(130.0, timestamp_s=999.0) == {KEYS[0]: 110.0}  # from the future, and seen to wait since then
    assert until_s(140.0) == {KEYS[0]: 110.0}


def test_of_what_was_never_level_and_never_read_nothing_is_told():
    lag, clusters = FlowLag(History(), reads=lambda _: Reader()), Clusters(positions={KEYS[0]: 7}, ends={KEYS[0]: 10})
    assert lag.replicated_until_s(PLAN, lag.read(PLAN, clusters)) == {}


def test_an_answer_that_is_older_than_the_plan_adds_no_topic_partition():
    clusters = Clusters(positions={("gone", 0): 1}, ends={("gone", 0): 5, KEYS[0]: 5})
    assert FlowLag(History()).read(PLAN, clusters).of.keys() == set(KEYS)


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


def test_a_row_of_a_record_from_the_future_waits_since_it_was_seen_as_in_the_poller(tmp_path, monkeypatch):
    file, history, reader = tmp_path / "f", History(), Reader()
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    (flow,) = (each for each in load(file).flows if each.name == "a->b")
    monkeypatch.setattr(inspector_rows, "FlowLag", partial(FlowLag, reads=lambda _: reader))
    source, target = Described("a", end=10), Described("b", position=10)
    rows = FlowRows(
        flow=flow,
        source=source,
        target=target,
        history=history,
        judge=RowJudge(Judge(history, MaxAge()), history),
    )

    def lag_seconds(now_s):
        (row,) = rows.read(BoundedPoll(now_s, owner=""))
        return row.lag_seconds

    assert lag_seconds(1000.0) == 0
    source.end, reader.timestamps_ms = 12, 9_000_000.0
    assert lag_seconds(1005.0) == 0
    assert lag_seconds(1015.0) == 10
    target.position, source.end = 12, 13
    assert lag_seconds(1020.0) == 0  # another record


def test_old_answers_count_for_the_poller_and_not_for_a_row_of_now():
    """The poller bridges a few polls without an answer; a row that was not read now is UNKNOWN at once."""
    judge, key = Judge(History(), MaxAge(known_s=30.0)), ("a", "b", "a.t", "0")
    judge.take_in(key, PartitionOffsets(10, 0, 10), time_s=100.0, position_s=100.0)
    judge.take_in(key, PartitionOffsets(10, 0, None), time_s=105.0, position_s=105.0)  # says nothing
    verdicts = [
        judge.verdict(key, now_s=110.0, last_report_s=110.0, is_old_known=is_old_known).status
        for is_old_known in (True, False)
    ]
    assert verdicts == [Status.OK, Status.UNKNOWN]
    assert judge.verdict(key, now_s=131.0, last_report_s=131.0).status is Status.UNKNOWN


def test_log_ends_are_read_in_one_place():
    """Outside of the packages that wrap a client or are about a window, one module asks where logs begin and end."""
    callers = set()
    for path in files():
        names = {node.func.attr for node in nodes(path) if _is_method_call(node)}
        if names & {"start_offsets", "end_offsets"}:
            callers.add(str(path.relative_to(ROOT)))
    assert {name for name in callers if not name.startswith("mirror/kafka/")} == {"mirror/lag/cluster_offsets.py"}


def _is_method_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
