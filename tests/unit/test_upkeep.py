"""A flow's upkeep holds up neither another flow nor the end, and what ends it ends the appliance."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from metrics.recorder import Recorder
from mirror.config.load import load
from mirror.errors import ClusterUnavailable, SettingsError
from mirror.flows.flow import FlowState, state_of
from mirror.flows.topics import flow_plan
from mirror.flows.upkeep import FlowMaintenance
from mirror.kafka.cluster_facts import ClockUnknown
from mirror.lag.judgement import horizon_of
from mirror.policy.java_regex import SlowPattern
from tests.waiting import eventually

PATIENCE_S = 5


class Appliance:
    """What upkeep asks an appliance for: clusters that hang, refuse or answer, by source."""

    def __init__(self, folder, *sources: str) -> None:
        flows = "".join(f"{s}.bootstrap.servers = {s}:1\n{s}->T.enabled = true\n" for s in sources)
        (folder / "f").write_text(f"clusters = {', '.join(sources)}, T\nT.bootstrap.servers = t:1\n{flows}")
        self.states = [state_of(flow) for flow in load(folder / "f").flows]
        for state in self.states:
            for cluster in (state.source, state.target):
                cluster.clock_skew = partial(self.clock_skew, cluster.alias)
        self.hangs: set[str] = set()
        self.raises: dict[str, Exception] = {}
        self.began: list[str] = []
        self.changed = threading.Event()
        self.failures: list[Exception] = []
        self.ends = threading.Event()
        self.answers = threading.Event()
        self.clocks: dict[str, float] = {}  # by alias
        self.recorder = Recorder(horizon_of(poll_interval_s=1, window_s=1))

    def begin(self, state: FlowState) -> None:
        source = state.flow.source.alias
        if source in self.hangs:
            self.answers.wait(60)
        if source in self.raises:
            raise self.raises[source]
        self.began.append(source)
        self.ends.wait(60)  # there is no plan here: it would be begun again

    def discover(self, state: FlowState) -> bool:
        raise self.raises[state.flow.source.alias]

    def clock_skew(self, alias: str) -> float:
        try:
            return self.clocks[alias]
        except KeyError:
            raise ClockUnknown("it does not say") from None

    def start(self) -> list[FlowMaintenance]:
        upkeep = [
            FlowMaintenance(
                state=state,
                recorder=self.recorder,
                begin=self.begin,
                discover=self.discover,
                on_change=self.changed.set,
                on_failure=self.failures.append,
                ends=self.ends,
            )
            for state in self.states
        ]
        for kept in upkeep:
            kept.start()
        return upkeep


@pytest.fixture
def appliance(tmp_path):
    made = Appliance(tmp_path, "A", "B")
    yield made
    made.ends.set()
    made.answers.set()


def test_clusters_that_hang_do_not_hold_up_the_other_flows(appliance):
    appliance.hangs = {"A"}
    appliance.start()
    eventually(lambda: appliance.began == ["B"], within_s=PATIENCE_S, because="B's clusters answer")


def test_a_cluster_that_does_not_respond_is_logged_once_and_retried(appliance, caplog, monkeypatch):
    monkeypatch.setattr("mirror.flows.upkeep.BEGIN_AGAIN_S", 0.0)
    appliance.raises = {"A": ClusterUnavailable("cluster A (a:1): no answer", cluster="A")}
    appliance.start()
    eventually(lambda: "A->T: not begun yet: cluster A" in caplog.text, within_s=PATIENCE_S, because="it is a warning")
    appliance.raises.clear()
    eventually(lambda: sorted(appliance.began) == ["A", "B"], within_s=PATIENCE_S, because="A answers")
    assert caplog.text.count("not begun yet") == 1
    assert appliance.failures == []


def test_a_new_topic_that_an_expression_cannot_be_matched_with_ends_nothing(appliance, caplog):
    appliance.raises = dict.fromkeys(("A", "B"), SlowPattern('"(a+)+" takes more than 1 s to match "aaaa-"'))
    for state in appliance.states:
        state.plan = flow_plan(state.flow, [], {})
        state.refresh_due.hasten(0.0)
    appliance.start()
    told = 'A->T: topics not refreshed: "(a+)+" takes more than 1 s'
    eventually(lambda: told in caplog.text, within_s=PATIENCE_S, because="it is a warning")
    assert appliance.failures == []


def test_a_flow_that_must_not_begin_is_logged_and_the_others_run(appliance, caplog):
    appliance.raises = {"A": SettingsError("a MirrorMaker 2 replicates it")}
    appliance.start()
    eventually(lambda: appliance.began == ["B"], within_s=PATIENCE_S, because="B may begin")
    eventually(lambda: "a MirrorMaker 2 replicates it" in caplog.text, within_s=PATIENCE_S, because="A says why not")
    assert appliance.failures == []


def test_an_unexpected_error_ends_the_process(appliance):
    appliance.raises = {"A": ZeroDivisionError()}
    appliance.start()
    eventually(lambda: len(appliance.failures) == 1, within_s=PATIENCE_S, because="the main thread raises it")
    assert isinstance(appliance.failures[0], ZeroDivisionError)


def test_after_the_end_a_cluster_that_is_gone_too_is_no_news(appliance, caplog):
    appliance.hangs = {"A"}
    appliance.raises = {"A": ClusterUnavailable("cluster A (a:1): no answer", cluster="A")}
    appliance.start()
    eventually(lambda: appliance.began == ["B"], within_s=PATIENCE_S, because="both threads run")
    appliance.ends.set()
    appliance.answers.set()
    eventually(
        lambda: not any(thread.name == "upkeep A->T" for thread in threading.enumerate()),
        within_s=PATIENCE_S,
        because="it ends by itself",
    )
    assert "not begun yet" not in caplog.text


def test_clocks_are_compared_and_what_does_not_tell_its_own_has_no_skew(appliance):
    clock = "kafka_mirror_cluster_clock_skew_seconds"
    appliance.raises = {"A": ClusterUnavailable("down", cluster="A"), "B": ClusterUnavailable("down", cluster="B")}
    appliance.clocks = {"A": 30.5, "T": -2.0}
    appliance.start()
    eventually(lambda: len(appliance.recorder.snapshot()[clock]) == 3, within_s=PATIENCE_S, because="clocks are read")
    shown = {("A", "T", "A"): 30.5, ("A", "T", "T"): -2.0, ("B", "T", "T"): -2.0}
    assert appliance.recorder.snapshot()[clock] == shown
    # What has not been read for three minutes is not exported any more.
    assert appliance.recorder.snapshot(now_s=time.time() + 181)[clock] == {}
