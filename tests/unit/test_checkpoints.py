"""What becomes of a group's offset, and what MirrorMaker's tools are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.checkpoints.flow import SYNCED_RUNS, FlowCheckpoints, not_followed, offset_syncs
from mirror.checkpoints.moves import _wanted
from mirror.checkpoints.plan import CheckpointPlan
from mirror.checkpoints.rules import State, Translated, moved, translated, translated_of_two
from mirror.config.settings import CheckpointSettings
from mirror.flows.set_offsets import GroupPlace
from mirror.kafka.groups import HIDDEN, UNSUPPORTED, Group, is_idle
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.policy.filters import NameFilter

ROOT = Path(__file__).resolve().parents[2]
MAP = OffsetMap([OffsetRun(10, 100, 10), OffsetRun(22, 110, 5)])


@pytest.mark.parametrize(
    ("upstream", "offsets", "position", "downstream", "state"),
    [
        (10, MAP, 27, 100, State.TRANSLATED),
        (19, MAP, 27, 109, State.TRANSLATED),
        (21, MAP, 27, 110, State.TRANSLATED),  # in a gap: the first record behind it
        (27, MAP, 27, 115, State.TRANSLATED),  # it has read all
        (40, MAP, 27, 115, State.AHEAD),
        (40, MAP, None, 115, State.TRANSLATED),
        (9, MAP, 27, None, State.NO_MAP),
        (9, OffsetMap(), 27, None, State.NOTHING_YET),
        (9, None, None, None, State.NOTHING_YET),
    ],
)
def test_each_offset_gets_its_translation_and_its_state(upstream, offsets, position, downstream, state):
    metadata = "theirs" if state is State.TRANSLATED else ""  # it may be about the exact place
    assert translated(upstream, offsets, position, "theirs") == (upstream, downstream, state, metadata)


@pytest.mark.parametrize(
    ("there", "downstream", "end", "state"),
    [
        (None, 5, 9, None),
        (4, 5, 9, None),
        (5, 5, 5, State.SYNCED),
        (6, 5, 9, State.TARGET_AHEAD),
        (4, 5, 4, State.PAST_END),
        (4, 5, None, State.UNREACHABLE),
    ],
)
def test_an_idle_group_is_moved_forward_and_not_beyond_the_log_end(there, downstream, end, state):
    assert moved(there, downstream, end) is state


def test_only_groups_without_members_are_idle():
    states = ("", "Empty", "Dead", "Stable", "PreparingRebalance", "CompletingRebalance", "Unknown", "Assigning")
    assert [state for state in states if is_idle(state)] == ["", "Empty", "Dead"]


def test_offset_syncs_are_begin_and_end_of_what_came_since():
    def synced(last):
        return [(sync.upstream, sync.downstream) for sync in offset_syncs("t", 0, MAP, last)]

    assert synced(None) == [(22, 110), (26, 114)]  # of the newest run at first, as MirrorMaker's task at its start
    assert synced(15) == [(16, 106), (19, 109), (22, 110), (26, 114)]
    assert synced(25) == [(26, 114)]
    assert synced(26) == []
    assert offset_syncs("t", 0, OffsetMap([OffsetRun(0, 7, 0)]), None) == []  # no record, no sync
    assert offset_syncs("t", 0, OffsetMap(), None) == []


def test_so_many_offset_syncs_are_written_at_a_time_and_they_are_the_newest():
    transactions = OffsetMap(OffsetRun(2 * n, 3 * n, 2) for n in range(10_000))
    synced = offset_syncs("t", 0, transactions, 7)
    assert len(synced) == 2 * SYNCED_RUNS
    assert (synced[-1].upstream, synced[-1].downstream) == (19_999, 29_998)


def checkpoints(*, back=None, **settings):
    flow = FlowPlan(
        source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=(PlannedPartition("t", "a.t", 0, ""),)
    )
    every = {
        "enabled": True,
        "interval_s": 60,
        "groups": NameFilter(include=(".*",), exclude=("x.*",)),
        "replication_factor": 1,
        "lists_new_groups": True,
        "sync_groups": False,
        "sync_interval_s": 60,
    }
    plan = CheckpointPlan(
        flow=flow,
        back=back,
        settings=CheckpointSettings(**{**every, **settings}),
        checkpoints_topic="a.checkpoints.internal",
        offset_syncs_topic=None,
        source_client={},
        target_client={},
        offset_syncs_client={},
    )
    return FlowCheckpoints(plan)


def test_new_groups_are_not_followed_where_they_are_not_to_be():
    flow = checkpoints(lists_new_groups=False)
    assert [name for name in ("g", "new", "xg") if flow._follows(name)] == ["g", "new"]
    flow.groups = frozenset({"g"})  # what the first round has found
    assert [name for name in ("g", "new", "xg") if flow._follows(name)] == ["g"]


def test_the_positions_of_mirrors_are_no_groups_to_follow():
    flow = checkpoints()
    assert [name for name in ("mirror.a->b", "mirror.x->y", "mirror.app", "a->b") if flow._follows(name)] == [
        "mirror.app",
        "a->b",
    ]


def test_between_two_moves_a_group_keeps_what_the_last_one_made_of_it():
    flow = checkpoints(sync_groups=True)
    place, other = ("a.t", 0), ("a.t", 1)
    flow.moves.states = {("g", place): State.REFUSED, ("g", other): State.REFUSED}
    found = {"g": {place: Translated(3, 8, State.TRANSLATED), other: Translated(3, None, State.NO_MAP)}}
    flow.moves._recall(found)
    assert [at.state for at in found["g"].values()] == [State.REFUSED, State.NO_MAP]


def test_group_offsets_are_translated_both_ways_except_those_that_a_mirror_set():
    home = FlowPlan(
        source="b", target="a", tasks_max=1, consumer={}, producer={}, partitions=(PlannedPartition("u", "b.u", 0, ""),)
    )
    flow = checkpoints(back=home)
    flow.maps.maps[("t", 0)] = OffsetMap([OffsetRun(0, 5, 10)])
    flow.back.maps[("u", 0)] = OffsetMap([OffsetRun(30, 0, 10)])
    group = Group("g", "Empty", {("t", 0): 3, ("b.u", 0): 4, ("other", 0): 1}, metadata={("t", 0): "of a reader"})
    along, home = (3, 8, State.TRANSLATED, "of a reader"), (4, 34, State.TRANSLATED, "")
    assert flow._translated(group) == {("a.t", 0): along, ("u", 0): home}
    flow.set_on_source.offsets = {GroupPlace("g", "b.u", 0): (4,), GroupPlace("other", "t", 0): (3,)}
    assert flow._translated(group) == {("a.t", 0): along}
    flow.set_on_source.offsets = {GroupPlace("g", "b.u", 0): (5,)}
    assert flow._translated(group) == {("a.t", 0): along, ("u", 0): home}, "a reader has committed since"
    earlier = Group("g", "Empty", group.offsets, metadata={("b.u", 0): "mirrored"})
    assert set(flow._translated(earlier)) == {("a.t", 0)}, "a version before this one has set it"


TRANSLATED = Translated(3, 8, State.TRANSLATED, "theirs")


def test_group_commits_keep_the_groups_metadata_and_replace_old_marks():
    place = ("a.t", 0)

    def wanted(there, *, at=TRANSLATED, metadata="", state="Empty", end=9, shared=()):
        group = Group("g", state, {place: there}, metadata={place: metadata})
        places = {place: at}
        return _wanted(group, places, {place: end}, shared).get(place), places[place].state

    assert wanted(5) == ((8, "theirs"), State.SYNCED)
    assert wanted(5, at=Translated(3, 8, State.AHEAD)) == ((8, ""), State.AHEAD)
    assert wanted(8, metadata="own") == (None, State.SYNCED)
    assert wanted(8, metadata="mirrored") == ((8, "theirs"), State.SYNCED)
    assert wanted(9, metadata="mirrored") == ((9, ""), State.TARGET_AHEAD)
    assert wanted(5, metadata="mirrored", end=7) == ((5, ""), State.PAST_END)
    assert wanted(5, metadata="mirrored", state="Stable") == (None, State.ACTIVE)
    assert wanted(5, state=HIDDEN) == (None, State.REFUSED)
    assert wanted(5, shared={place}) == (None, State.SHARED)
    assert wanted(5, shared={place}, state="Stable") == (None, State.ACTIVE)


def test_every_state_is_in_the_docs_with_what_to_do():
    page = (ROOT / "docs" / "offsets.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| `")]
    assert set(rows) >= {f"`{state}`" for state in State}


class Two:
    """Two clusters that have the same topic-partition, and a flow each way that leaves out what the other one wrote."""

    def __init__(self) -> None:
        self.logs: dict[str, list[str]] = {"a": [], "b": []}
        self.maps = {"a": OffsetMap(), "b": OffsetMap()}  # of the flow from there
        self.positions = {"a": 0, "b": 0}

    def write(self, at: str) -> None:
        self.logs[at].append(f"{at}{len(self.logs[at])}")

    def cross(self, source: str) -> None:
        """Let the flow from `source` go on by one record."""
        target, position = ("b" if source == "a" else "a"), self.positions[source]
        if position < len(self.logs[source]):
            record = self.logs[source][position]
            if record.startswith(source):
                self.maps[source].add(position, len(self.logs[target]), 1)
                self.logs[target].append(record)
            self.positions[source] += 1

    def there(self, offset: int) -> int | None:
        """Return where a group goes on on b that has read so far on a."""
        along = translated(offset, self.maps["a"], self.positions["a"])
        return translated_of_two(along, self.maps["a"], self.maps["b"].reverse(offset) or 0).downstream


@given(st.lists(st.sampled_from(["write a", "write b", "cross a", "cross b"]), max_size=60))
def test_a_group_that_resumes_on_the_other_cluster_skips_no_record(steps):
    two = Two()
    for what, where in map(str.split, steps):
        (two.write if what == "write" else two.cross)(where)
    for offset in range(len(two.logs["a"]) + 1):
        there = two.there(offset)
        assert there is not None
        skipped = set(two.logs["b"][:there])
        assert skipped <= set(two.logs["a"][:offset])


@given(st.lists(st.sampled_from(["write a", "cross a", "cross b"]), max_size=60))
def test_where_the_other_cluster_writes_nothing_a_group_reads_nothing_again(steps):
    two = Two()
    for what, where in map(str.split, steps):
        (two.write if what == "write" else two.cross)(where)
    for offset in range(two.positions["a"] + 1):
        assert two.there(offset) == offset


def test_a_group_that_the_source_hides_has_a_state_like_one_of_another_type():
    """The failover check answered GO although the group has no offset to go on from."""
    flow = FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=())
    groups = [Group("reads", "Stable"), Group("secret", HIDDEN), Group("streams", UNSUPPORTED, kind="streams")]
    found = {report.group: report.state for report in not_followed(flow, groups)}
    assert found == {"secret": State.REFUSED, "streams": State.UNSUPPORTED}
