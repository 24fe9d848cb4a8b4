"""A switch: what is kept of it, who may conduct it, what takes it back, and what it says before and behind."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.lag_row import LagRow
from metrics.partition_status import Sample
from mirror.errors import ClusterUnavailable, MirrorError, SettingsError
from mirror.flows.set_offsets import GroupPlace, SetOffsets
from mirror.kafka.groups import Group
from mirror.model.flow_plan import PlannedPartition
from mirror.model.mm2_records import Checkpoint
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.policy.topic_acls import Acl, allowances, denials, judged
from mirror.switching import conductor, fence, fence_step, group_step, lost, moved_groups, preflight, steps, tail
from mirror.switching.conductor import SwitchOptions, abort, conduct, unfinished
from mirror.switching.group_step import stands_there
from mirror.switching.journal import Entries, TakenOverError
from mirror.switching.moved_groups import Moved
from mirror.switching.preflight import Preflight, TopicAhead, _ahead, _of_other_types, _of_readers, _of_shared
from mirror.switching.readers import LOOK, look
from mirror.switching.run import MOVING, STEPS, Kind, RunState, Step, StepRecord, StepState, SwitchRun
from mirror.switching.text import ahead_text, run_text, took_s
from mirror.switching.work import StepResult
from mirror.verification import pieces as verified
from tests.unit.fakes import FakeGroupOffsets

RUN = SwitchRun(
    id="20260102T030405Z-abc",
    flow="a->b",
    kind=Kind.SWITCH,
    topics="",
    groups="",
    last=100,
    by="sre@host:1",
    version="1",
    began_s=1_767_323_045.0,
)
RECORDS = st.builds(
    StepRecord,
    state=st.sampled_from(StepState),
    began_s=st.none() | st.floats(0, 2e9),
    ended_s=st.none() | st.floats(0, 2e9),
    said=st.lists(st.text()).map(tuple),
    facts=st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers())),
)


class Kept:
    """A journal in memory; another conductor may take over behind so many records."""

    def __init__(self, *runs: SwitchRun, taken_after: int = 10_000, is_conducted: bool = False) -> None:
        self.saved = list(runs)
        self.moved: list[Moved] = []
        self._left = taken_after
        self._is_conducted = is_conducted

    def unfinished(self) -> SwitchRun | None:
        return next((run for run in self.saved if run.state is RunState.OPEN), None)

    def is_conducted(self) -> bool:
        return self._is_conducted

    def taken(self, run: SwitchRun) -> Kept:
        self.saved.append(run)
        return self

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None: ...

    @property
    def kept(self) -> SwitchRun:
        return self.saved[-1]

    def confirm(self) -> None:
        if self._left <= 0:
            raise TakenOverError("another conductor goes on")

    def read(self) -> Entries:
        return Entries()

    def save(self, run: SwitchRun, moves: Any = ()) -> None:
        self.confirm()
        self._left -= 1
        self.saved.append(run)
        self.moved += moves

    def tell(self, sentence: str) -> None: ...


@pytest.fixture
def done(monkeypatch):
    """The steps that were done, in their order; each says its name."""
    found: list[Step] = []

    def do(step: Step) -> Any:
        def one(_: Any) -> StepResult:
            found.append(step)
            return StepResult([f"{step.value} is done"])

        return one

    monkeypatch.setattr(conductor, "does", lambda _, step: do(step))
    return found


def how(**changes: Any) -> SwitchOptions:
    return SwitchOptions(within_s=1.0, window_ms=1000, folder=Path("/nowhere"), say=lambda _: None, **changes)


SCOPE: Any = SimpleNamespace(topics="", groups="", without=frozenset())


@given(steps=st.dictionaries(st.sampled_from(Step), RECORDS), is_aborted=st.booleans(), text=st.text())
def test_a_run_is_read_back_as_it_was(steps, is_aborted, text):
    run = replace(RUN, steps=steps, is_aborted=is_aborted, topics=text, kind=Kind.MIGRATE)
    assert SwitchRun.parse(run.text()) == run


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"state": "done", "steps": {"x": {}}}'])
def test_an_invalid_run_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        SwitchRun.parse(text)


def test_steps_are_done_in_their_order_and_what_is_done_is_not_done_again(done):
    journal: Any = Kept()
    run = conduct(SCOPE, journal, RUN.with_step(Step.FENCE, state=StepState.DONE), how())
    assert done == list(STEPS[Kind.SWITCH])[1:]
    assert run.state is RunState.DONE
    assert journal.saved[-1] == run
    assert [record.state for record in run.steps.values()] == [StepState.DONE] * len(STEPS[Kind.SWITCH])


def test_a_step_that_fails_keeps_what_it_has_kept_itself(monkeypatch):
    """An abort needs it: the ACLs of a fence behind which a writer slipped through."""

    def fences_and_fails(work: Any) -> StepResult:
        work.journal.save(work.run.with_step(Step.FENCE, facts={"acls": ["one"]}))
        raise MirrorError("still written")

    monkeypatch.setattr(conductor, "does", lambda *_: fences_and_fails)
    journal: Any = Kept()
    with pytest.raises(MirrorError, match="still written"):
        conduct(SCOPE, journal, RUN, how())
    record = journal.saved[-1].step(Step.FENCE)
    assert (record.state, record.facts, record.said) == (StepState.FAILED, {"acls": ["one"]}, ("still written",))
    assert journal.saved[-1].next is Step.FENCE


def test_a_conductor_that_was_taken_over_does_nothing_more(done):
    journal: Any = Kept(taken_after=3)  # running, done, running
    with pytest.raises(TakenOverError):
        conduct(SCOPE, journal, RUN, how())
    assert done == [Step.FENCE, Step.DRAIN]


def test_a_hook_runs_after_its_step_and_stops_the_switch_if_it_fails(done):
    journal: Any = Kept()
    run = conduct(SCOPE, journal, RUN, how(hooks={Step.GROUPS: "echo $KAFKA_MIRROR_FLOW $KAFKA_MIRROR_STEP"}))
    assert run.step(Step.GROUPS).said == ("groups is done", "hook: a->b groups")
    with pytest.raises(MirrorError, match="the hook of drain ended with 3: no"):
        conduct(SCOPE, Kept(), RUN, how(hooks={Step.DRAIN: "echo no; exit 3"}))  # type: ignore[arg-type]


def test_a_run_that_has_not_ended_is_gone_on_with_by_the_same_command_only():
    begun = RUN.with_step(Step.FENCE, state=StepState.DONE)
    found = unfinished(Kept(begun), SCOPE, Kind.SWITCH)  # type: ignore[arg-type]
    assert found is not None
    assert found.steps == begun.steps
    with pytest.raises(SettingsError, match="has not ended"):
        unfinished(Kept(begun), SimpleNamespace(topics="x", groups=""), Kind.SWITCH)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="Wait until it ends"):
        unfinished(Kept(begun, is_conducted=True), SCOPE, Kind.SWITCH)  # type: ignore[arg-type]
    assert unfinished(Kept(replace(begun, is_aborted=True)), SCOPE, Kind.SWITCH) is None  # type: ignore[arg-type]


def test_all_is_taken_back_until_a_group_may_have_been_moved(monkeypatch):
    lifted: list[Acl] = []
    monkeypatch.setattr(fence, "lifted", lambda _, acls: lifted.extend(acls) or [])
    acl = Acl("t", "User:*", "*", "WRITE", "DENY")
    begun = RUN.with_step(Step.FENCE, state=StepState.DONE, facts={"acls": [list(acl)]})
    begun = begun.with_step(Step.GROUPS, state=StepState.FAILED)
    scope: Any = SimpleNamespace(source=SimpleNamespace(alias="a"), back=None)
    run = abort(scope, Kept(), begun, how())  # type: ignore[arg-type]
    assert lifted == [acl]
    assert (run.state, run.step(Step.FENCE).state) == (RunState.ABORTED, StepState.UNDONE)
    for moved in ({"facts": {MOVING: True}}, {"state": StepState.DONE}):
        with pytest.raises(SettingsError, match="have been moved"):
            abort(scope, Kept(), begun.with_step(Step.GROUPS, **moved), how())  # type: ignore[arg-type]


def test_partitions_without_an_offset_map_are_not_reported_as_equal(monkeypatch):
    places = tuple(PlannedPartition("t", "a.t", number, "") for number in range(3))
    compared = verified.Scope(places, {("t", 0): OffsetMap([OffsetRun(0, 0, 10)])}, {}, {})

    async def equal(*_: Any) -> Any:
        return {("t", 0): verified.Finding(compared=10)}

    monkeypatch.setattr(steps, "whole_plan", lambda _: None)
    monkeypatch.setattr(steps, "maps_of", lambda *_: None)
    monkeypatch.setattr(steps, "scope_over", lambda *_, **__: compared)
    monkeypatch.setattr(steps, "check_pieces", equal)
    ends = {("a.t", 0): 10, ("a.t", 1): 7, ("a.t", 2): 0}
    target = SimpleNamespace(alias="b", end_offsets=lambda places, **_: {place: ends[place] for place in places})
    scope = SimpleNamespace(flow=None, source=None, target=target, partitions=lambda _: places)
    found = steps.verify(SimpleNamespace(scope=scope, run=RUN))  # type: ignore[arg-type]
    assert found.said == [
        "10 records of 1 partition are equal on both sides",
        "1 partition not compared, because no offset map has its records: t-1",
    ]
    assert found.facts["not_compared"] == [["t", 1]]


def test_a_conductor_that_wakes_up_late_runs_no_hook(monkeypatch, tmp_path):
    """It was suspended behind its step; another one has ended the run since, and has run the hook."""
    journal: Any = Kept()

    def last(_: Any) -> StepResult:
        journal._left = 0
        return StepResult([])

    monkeypatch.setattr(conductor, "does", lambda *_: last)
    mark = tmp_path / "ran"
    with pytest.raises(TakenOverError):
        conduct(SCOPE, journal, RUN, how(hooks={Step.FENCE: f"touch {mark}"}))
    assert not mark.exists()


@pytest.mark.parametrize(
    "act",
    [
        fence_step.undo_fence,
        fence_step.open_left_out,
        steps.carry_settings,
        steps.pause,
        tail.write_tail,
        lost.open_target,
    ],
)
def test_a_conductor_that_wakes_up_late_changes_nothing(monkeypatch, act):
    """It was suspended behind its last look at the journal; another one has ended the run since."""
    changed: list[str] = []
    monkeypatch.setattr(fence, "lifted", lambda *_: changed.append("fence"))
    monkeypatch.setattr(steps, "write_paused", lambda *_: changed.append("paused"))
    monkeypatch.setattr(steps, "read_positions", lambda *_: {})
    monkeypatch.setattr(steps, "sync_configs", lambda *_, **__: changed.append("settings") or {})
    monkeypatch.setattr(steps, "sync_acls", lambda *_: changed.append("ACLs") or {})
    monkeypatch.setattr(tail, "_tails", lambda _: {("t", 0): (1, 2)})
    monkeypatch.setattr(tail, "keep_private", lambda: changed.append("tail"))
    acl = Acl("t", "User:*", "*", "WRITE", "DENY")
    flow = SimpleNamespace(topics=SimpleNamespace(include=("t",)))
    cluster = SimpleNamespace(alias="a", topic_acls=lambda: {acl}, topics=dict)
    scope = SimpleNamespace(
        reversed=lambda: scope,
        matched=list,
        source=cluster,
        target=cluster,
        back=flow,
        flow=flow,
        canary="",
        topics="",
        without={"t"},
        plan=lambda: SimpleNamespace(group="g", paused_key=("p", 0)),
    )
    run = RUN.with_step(Step.FENCE, state=StepState.DONE, facts={"acls": [list(acl)]})
    with pytest.raises(TakenOverError):
        act(SimpleNamespace(scope=scope, run=run, journal=Kept(taken_after=0)))  # type: ignore[arg-type]
    assert changed == []


def test_a_fence_never_blocks_consumers():
    asked: list[list[Acl]] = []
    cluster: Any = SimpleNamespace(
        alias="a",
        topic_acls=set,
        without_acls=lambda topics: [topic for topic in topics if topic != "has"],
        add_acls=lambda acls: asked.append(list(acls)) or dict.fromkeys(acls, ""),
        remove_acls=lambda acls: asked.append(list(acls)) or dict.fromkeys(acls, ""),
    )
    acls = fence.lacking(cluster, ["bare", "has"], keeps_readers=True)
    assert [acl for acl in acls if acl.topic == "has"] == denials(["has"])
    assert {(acl.operation, acl.permission) for acl in acls if acl.topic == "bare"} == {
        ("READ", "ALLOW"),
        ("DESCRIBE_CONFIGS", "ALLOW"),
        ("WRITE", "DENY"),
    }
    assert fence.denied(cluster, acls)
    fence.lifted(cluster, acls)
    added, removed = asked  # in one request each, which a broker takes in at once
    assert [acl.operation for acl in added if acl.topic == "bare"] == ["READ", "DESCRIBE_CONFIGS", "WRITE"]
    assert removed == added[::-1]


def test_a_fence_of_many_topics_comes_in_requests_that_a_controller_takes():
    acls = [*denials(map(str, range(2_500))), *allowances(map(str, range(2_500)))]
    requests = fence._in_order(acls)
    assert [len(request) for request in requests] == [3_000, 3_000, 1_500]
    assert sorted(acl for request in requests for acl in request) == sorted(acls)
    for request in requests:
        topics = {acl.topic for acl in request}
        assert all(sum(acl.topic == topic for acl in request) == 3 for topic in list(topics)[:20]), "none is halved"


def test_a_cluster_without_an_authorizer_has_no_fence_to_put_up_or_to_take_away():
    def refuses(acls):
        return dict.fromkeys(acls, "SECURITY_DISABLED: No Authorizer is configured.")

    cluster: Any = SimpleNamespace(alias="a", add_acls=refuses, remove_acls=refuses)
    assert not fence.denied(cluster, denials(["t"]))
    fence.lifted(cluster, denials(["t"]))  # of a run that was killed before it knew
    cluster.remove_acls = lambda acls: dict.fromkeys(acls, "CLUSTER_AUTHORIZATION_FAILED")
    with pytest.raises(MirrorError, match="cannot be lifted"):
        fence.lifted(cluster, denials(["t"]))


def test_an_existing_deny_acl_is_not_part_of_the_fence():
    cluster: Any = SimpleNamespace(topic_acls=lambda: set(denials(["t"])), without_acls=lambda _: [])
    assert fence.lacking(cluster, ["t", "u"], keeps_readers=True) == denials(["u"])


def test_a_writer_that_does_not_stop_is_named(monkeypatch):
    monkeypatch.setattr(fence, "LOOK_S", 0.001)
    monkeypatch.setattr(fence, "QUIET_S", 0.05)
    ends = iter(range(10_000))
    cluster: Any = SimpleNamespace(alias="a", end_offsets=lambda places: {("t", 0): next(ends), ("t", 1): 5})
    with pytest.raises(fence.StillWrittenError, match=r"still written on a after 0 s: t-0 \(\+1\)"):
        fence.until_quiet(cluster, [("t", 0), ("t", 1)], within_s=0.02, say=lambda _: None)
    cluster.end_offsets = lambda places: {("t", 0): 7}
    with pytest.raises(MirrorError, match="t-1 on a does not report"):
        fence.until_quiet(cluster, [("t", 0), ("t", 1)], within_s=1, say=lambda _: None)
    assert fence.until_quiet(cluster, [("t", 0)], within_s=1, say=lambda _: None) == {("t", 0): 7}


@pytest.mark.parametrize(
    ("asked", "topic", "is_paused"),
    [
        ("", "orders", True),
        ("", "heartbeats", False),
        ("", "b.heartbeats", False),
        ("", "heartbeats.of.ours", False),  # left flowing, which loses nothing
        ("orders|payments", "orders", True),
        ("orders|payments", "users", False),
        ("orders,payments", "payments", True),
    ],
)
def test_a_switch_pauses_its_topics_and_no_heartbeats(asked, topic, is_paused):
    assert _pauses(topic, asked=asked) is is_paused


def test_a_topic_that_was_left_out_is_not_paused():
    left_out = frozenset({"orders", "users.x"})
    assert [name for name in ("orders", "orders2", "users.x", "usersyx") if _pauses(name, without=left_out)] == [
        "orders2",
        "usersyx",
    ]


def _pauses(topic, *, asked="", without=frozenset()):
    flow = SimpleNamespace(topics=SimpleNamespace(include=(".*",)))
    scope: Any = SimpleNamespace(canary="", topics=asked, without=without, flow=flow)
    return any(re.fullmatch(pattern, topic) for pattern in steps.pause_patterns(scope))


def test_only_groups_moved_before_a_crash_may_have_read_on():
    each = Moved("g", "t", 0, 5, "a.t", None, 9)
    for offset, is_there in ((9, True), (12, True), (8, False)):
        assert stands_there(each, {"g": Group("g", "Stable", {("a.t", 0): offset})}) is is_there
    assert not stands_there(each, {"g": Group("g", "Stable", {})})


AHEAD = Preflight(
    topics=(TopicAhead(topic="t", remote="a.t", partitions=2, missing=30, waits_s=1.5, records_per_s=10.0),),
    groups=("billing", "search"),
    active=("billing",),
    blocks=("no process replicates a->b",),
    warnings=("settings of 1 remote topic differ: a.t",),
)


def test_a_dry_run_prints_steps_costs_and_blockers():
    text = ahead_text(RUN, AHEAD)
    assert "switch a->b" in text
    assert re.search(r"t +a\.t +2 +30 +1\.5 s", text)
    assert "2 groups, 1 with members on a" in text
    assert "would be lost if the source failed now: 30 records" in text
    assert "should take: about 18.0 s" in text
    assert [step.value for step in STEPS[Kind.SWITCH]] == re.findall(r"^  - (\w+)", text, re.MULTILINE)
    assert text.endswith("warning: settings of 1 remote topic differ: a.t\nblocked: no process replicates a->b\n")


def test_unknown_costs_are_shown_as_unknown():
    unknown = replace(AHEAD, topics=(replace(AHEAD.topics[0], missing=None, waits_s=None),))
    text = ahead_text(RUN, unknown)
    assert "would be lost if the source failed now: unknown" in text
    assert "should take: unknown" in text
    stuck = replace(AHEAD, topics=(replace(AHEAD.topics[0], records_per_s=0.0),))
    assert stuck.takes_s is None, "what does not move never arrives"


def test_the_report_of_a_switch_has_its_steps_times_and_moves():
    run = RUN
    order = STEPS[Kind.SWITCH]
    for number, step in enumerate(order):
        times = {"began_s": 100.0 + number, "ended_s": 100.5 + number}
        run = run.with_step(step, state=StepState.DONE, said=(f"{step.value} was done", "and told"), **times)
    assert took_s(run) == len(order) - 0.5
    text = run_text(run, [Moved("g\n", "t", 0, 5, "a.t", None, 9)])
    assert text.startswith(
        "switch a->b: done\n  20260102T030405Z-abc, begun 2026-01-02 03:04:05 UTC by sre@host:1, version 1\n"
    )
    assert f"took {len(order) - 0.5} s in all" in text
    assert re.search(r"\* groups +0\.5 s  groups was done\n +and told", text)
    assert re.search(r"g\\n +t +0 +5 +a\.t +- +9", text)
    assert took_s(RUN) is None


def test_offsets_that_a_mirror_has_set_are_left_alone_and_metadata_go_along(monkeypatch):
    maps = SimpleNamespace(maps={("t", 0): SimpleNamespace(translate=lambda offset: offset + 1)})
    plan = SimpleNamespace(partitions=[PlannedPartition("t", "a.t", 0, "")])
    scope: Any = SimpleNamespace(plan_and_maps=lambda: (plan, maps), back=None)
    notes = SetOffsets("mm2-group-offsets.b.internal", {GroupPlace("unread", "t", 0): (5,)})
    monkeypatch.setattr(moved_groups, "set_on_source", lambda _: notes)
    read, unread = (
        Group("read", "Empty", {("t", 0): 5, ("u", 0): 7}, metadata={("t", 0): "theirs"}),
        Group("unread", "Empty", {("t", 0): 5}),
    )
    there = {"read": Group("read", "Empty", {("a.t", 0): 3})}
    assert moved_groups.wanted_moves(scope, [read, unread], there) == [Moved("read", "t", 0, 5, "a.t", 3, 6, "theirs")]


@pytest.mark.parametrize(
    ("stands", "wrong", "ends"),
    [(None, "", 6), (3, "", 6), (6, "", 6), (9, "a.t-0 was set to 9 meanwhile", 9)],
    ids=["nowhere", "as it was", "moved already", "has read on"],
)
def test_a_conductor_that_wakes_up_late_sets_no_group_back(stands, wrong, ends):
    """It saw the group at 3, or nowhere; then it was suspended, and another conductor ended the run."""
    place = ("a.t", 0)
    offsets = FakeGroupOffsets("g", {} if stands is None else {place: (stands, "")})
    known = {} if stands is None else {place: 3}
    assert asyncio.run(moved_groups._commit(offsets, "g", {place: (6, "")}, known)) == wrong  # type: ignore[arg-type]
    assert offsets.kept[place][0] == ends


class Watched:
    """A step that waits for readers: what the groups are at each look, half a second apart."""

    def __init__(self, monkeypatch, *looks: list[Group]) -> None:
        self.now_s, self.said = 0.0, list[str]()
        self._looks = list(looks)
        monkeypatch.setattr(group_step, "time", SimpleNamespace(monotonic=lambda: self.now_s, sleep=self._sleep))
        scope = SimpleNamespace(
            source=SimpleNamespace(alias="a"),
            groups_on_source=self.groups,
            concerns=lambda topic: topic in ("t", "b.u"),
        )
        before = look(self.groups(), scope.concerns)  # when the fence began
        run = RUN.with_step(Step.FENCE, facts={fence_step.ENDS: [["t", 0, 9]], LOOK: before})
        self.work: Any = SimpleNamespace(scope=scope, run=run, within_s=30.0, say=self.said.append)

    def groups(self) -> list[Group]:
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds


def at(offset: int, topic: str = "t", *, name: str = "g", state: str = "Empty") -> list[Group]:
    return [Group(name, state, {(topic, 0): offset}), Group("dead", "Empty", {("t", 0): 1})]


def test_a_group_without_members_is_waited_for_until_its_offsets_are_stable(monkeypatch):
    watched = Watched(monkeypatch, at(3), at(4), at(5))
    assert group_step.left(watched.work) == at(5)
    assert watched.now_s == pytest.approx(group_step.QUIET_S + 1.0, abs=0.6), "counted from the last move"
    assert set(watched.said) == {
        "g read on a without members, so their consumers assign partitions themselves (Flink, Spark, sink connectors). Stop them"
    }


@pytest.mark.parametrize(
    ("looks", "waits_s"),
    [
        pytest.param([at(3), at(3)], 0, id="it rests"),
        pytest.param([at(3), at(9)], 0, id="it has read all that is before the fence"),
        pytest.param([at(3, "other"), at(4, "other")], 0, id="it reads what is not switched"),
        pytest.param([at(3, "b.u"), at(4, "b.u")], 5, id="it reads what came from the target"),
        pytest.param([at(3), at(5, state="Stable"), at(5, state="Stable"), at(6), at(6)], 1, id="it had members"),
    ],
)
def test_a_group_that_cannot_read_on_is_not_waited_for(monkeypatch, looks, waits_s):
    watched = Watched(monkeypatch, *looks)
    assert group_step.left(watched.work) == looks[-1]
    assert watched.now_s == pytest.approx(waits_s, abs=0.6)


def test_a_group_that_reads_for_too_long_is_named(monkeypatch):
    watched = Watched(monkeypatch, *(at(offset % 9) for offset in range(100)))
    with pytest.raises(MirrorError, match=r"^g still read on a after 30 s. Stop them"):
        group_step.left(watched.work)


def test_a_group_that_has_read_on_while_it_was_moved_is_named(monkeypatch):
    watched, ours = Watched(monkeypatch, at(5)), SetOffsets("mm2-group-offsets.b.internal")
    monkeypatch.setattr(group_step, "set_on_source", lambda _: ours)
    group_step.refuse_if_read_on(
        watched.work, [Moved("g", "t", 0, 5, "a.t", None, 5), Moved("gone", "t", 0, 1, "a.t", None, 1)]
    )
    moves = [Moved("g", "t", 0, 4, "a.t", None, 4)]
    with pytest.raises(MirrorError, match=r"^g read on a while they were moved"):
        group_step.refuse_if_read_on(watched.work, moves)
    ours.offsets[GroupPlace("g", "t", 0)] = (5,)
    group_step.refuse_if_read_on(watched.work, moves)  # the reverse flow has set it


def test_the_plan_warns_of_groups_that_are_not_moved_or_lose_records(monkeypatch):
    looks = [at(4)]
    others = [Group("s", "unsupported", kind="streams"), Group("q", "unsupported", kind="share")]
    scope: Any = SimpleNamespace(
        source=SimpleNamespace(alias="a"),
        target=SimpleNamespace(alias="b"),
        flow=SimpleNamespace(target_admin={"bootstrap.servers": "h:1"}),
        concerns=lambda _: True,
        groups_on_source=lambda: looks[0],
        groups_of_other_types=lambda: others,
        partitions=lambda plan: [],
    )

    async def shared(*_: object) -> dict[tuple[str, int], str]:
        return {("t", 0): "mirror.c->b", ("t", 1): "mirror.c->b"}

    monkeypatch.setattr(preflight, "read_shared", shared)
    plan: Any = SimpleNamespace(group="mirror.a->b")
    assert [*_of_shared(scope, plan), *_of_other_types(scope), *_of_readers(scope, at(3))] == [
        "mirror.c->b write to t on b too: a moved group skips their unread records before its place",
        "2 groups of a stay on it, because only consumer groups are moved: s (streams), q (share)",
        "g read on a without members: their consumers assign partitions themselves. Stop them at the step groups; a consumer "
        "that commits rarely is not detected",
    ]
    assert list(_of_readers(scope, at(4))) == []


def test_acls_that_cannot_be_read_are_reported_as_unknown(monkeypatch):
    def refuse(*_: Any) -> Any:
        raise ClusterUnavailable("cluster a: not authorized", cluster="a")

    monkeypatch.setattr(preflight, "config_changes", lambda *_, **__: {})
    monkeypatch.setattr(preflight, "acl_changes", refuse)
    scope: Any = SimpleNamespace(flow=None, matched=list, source=None, target=SimpleNamespace(alias="b"))
    warnings = list(preflight._warnings(scope))
    assert warnings == ["whether ACLs of the source are missing on b is unknown: cluster a: not authorized"]


def test_a_rows_lag_is_what_a_topic_would_lose():
    row = LagRow(
        group="a->b", cluster="a", topic="t", partition=0, offset=5, log_end=9, lag_seconds=2.0, records_per_s=3.0
    )
    assert _ahead("t", "a.t", [row, replace(row, partition=1, lag_seconds=4.0)]) == TopicAhead(
        topic="t", remote="a.t", partitions=2, missing=8, waits_s=4.0, records_per_s=6.0
    )
    half = _ahead("t", "a.t", [row, None])
    assert (half.missing, half.waits_s) == (None, None), "of one partition nobody knows"


SEEN = Sample(time_s=1000.0, position=5, end=9)


def test_a_gap_counts_seen_records_and_names_the_unknown_ones():
    known = lost.gap("t", 0, 5, 999_000, SEEN)
    assert (known["missing"], known["seen_end"], known["replicated_until_ms"]) == (4, 9, 999_000)
    assert lost.gap("t", 1, 12, -1, SEEN)["missing"] == 0, "it crossed after it was seen"
    blind = lost.gap("t", 2, 5, 999_000, None)
    assert (blind["missing"], blind["seen_end"]) == (None, None)
    assert lost.gap("t", 3, None, -1, SEEN)["missing"] is None, "no position is known"
    said = lost.gap_sentences([known, blind], now_s=1010.0)
    assert said == [
        "4 records seen on the source and not on the target: t-0 (+4)",
        "records of the last 10.0 s are unknown, and not counted",
        "unknown for 1 partition: the position, or the end of the log was never seen",
    ]


def test_a_checkpoint_is_translated_by_the_present_map_if_possible():
    at = Checkpoint("g", "a.t", 0, upstream=8, downstream=3)
    assert lost._recovered(at, "t", OffsetMap([OffsetRun(0, 0, 10)]), {("a.t", 0): 5}) == Moved(
        "g", "t", 0, 8, "a.t", 5, 8
    )
    assert lost._recovered(at, "t", None, {}).after == 3
    assert lost._recovered(at, "t", OffsetMap(), {}).after == 3


def test_a_group_with_a_later_offset_on_the_target_is_not_moved_back():
    each = Moved("g", "t", 0, 8, "a.t", None, 8)
    for offset, stays in ((7, False), (8, True), (9, True)):
        assert stands_there(each, {"g": Group("g", "Empty", {("a.t", 0): offset})}) is stays
    assert not stands_there(each, {})


def test_every_kind_pauses_its_flow_after_the_groups():
    for kind, order in STEPS.items():
        assert order.index(Step.PAUSE) == order.index(Step.GROUPS) + 1
        run = replace(RUN, kind=kind)
        for step in order:
            assert run.next is step
            run = run.with_step(step, state=StepState.DONE)
        assert run.state is RunState.DONE
        assert all(steps.does(kind, step) for step in order)


def test_acl_sync_does_not_copy_a_fence_to_the_remote_topic():
    own = Acl("t", "User:reader", "*", "READ", "ALLOW")
    on_source = {own, *denials(["t"]), *allowances(["t", "u"])}
    wanted = {verdict.wanted for verdict in judged(on_source, {"t": "a.t", "u": "a.u"})} - {None}
    # What lets everybody read a topic that is not fenced is its owner's.
    assert wanted == {own._replace(topic="a.t"), *allowances(["a.u"])}


def test_a_lost_source_has_separate_steps_and_costs():
    run = replace(RUN, kind=Kind.FAIL_OVER)
    text = ahead_text(run, replace(AHEAD, is_source_lost=True, warnings=(), blocks=()))
    assert "seen on the source and not on the target: 30 records" in text
    assert "should take" not in text
    assert "move each group to where its last checkpoint leads" in text
    assert text.endswith("remove the fence that an earlier switch-back left on b\n")


def test_a_failover_removes_the_fence_of_a_switch_and_names_other_denies():
    ours, theirs = denials(["orders"]), denials(["users"])
    removed: list[Acl] = []
    forgotten: list[str] = []

    def remove_acls(acls):
        removed.extend(acls)
        return dict.fromkeys(acls, "")

    target = SimpleNamespace(alias="b", topic_acls=lambda: {*ours, *theirs}, remove_acls=remove_acls)
    entries = Entries({"run/1": RUN.text(), "fence/1": json.dumps([list(acl) for acl in ours])})
    back = SimpleNamespace(topics=SimpleNamespace(matches=lambda _: True))
    work: Any = SimpleNamespace(
        scope=SimpleNamespace(back=back, target=target),
        journal=SimpleNamespace(read=lambda: entries, forget=forgotten.extend, confirm=lambda: None),
    )
    found = lost.open_target(work)
    assert removed == ours
    assert forgotten == ["fence/1"]
    assert found.facts == {"opened": ["orders"]}
    assert found.said[-1].startswith("1 topic of b cannot be written, because ACLs ")
    assert found.said[-1].endswith(": users")
