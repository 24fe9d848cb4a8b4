"""Where the records of a topic came from, and which topics would go round: told by what mirrors keep on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from mirror.flows.stored_positions import Position
from mirror.flows.upstream import Upstream, going_round, upstreams_of
from mirror.kafka.cluster import Topic
from mirror.model.flow_plan import LEASE_TOPIC, OFFSET_MAP_TOPIC
from mirror.model.position_metadata import PositionMetadata
from mirror.model.slot_lease import LeaseState
from mirror.model.slot_ownership import SlotLayout, layout_key, lease_key, stop_key, with_stop

WINDOW_MS, RUN = 10_000, 7
NOW_MS = 1_000 * WINDOW_MS
HERE = {
    name: Topic(name=name, topic_id=topic_id, partitions=2) for name, topic_id in (("t", "here-t"), ("b.u", "here-u"))
}
LEASES = LEASE_TOPIC.format(source="b")

Offsets = dict[tuple[str, int], Position]


def mirror(
    positions: Mapping[tuple[str, int], Position],
    *,
    window: int = 1_000,
    paused: tuple[str, ...] = (),
    stops: bool = False,
) -> Offsets:
    """Return what the group of a mirror of cluster b holds on this one."""
    kept = {
        (LEASES, layout_key()): Position(0, SlotLayout(1, 1, WINDOW_MS, 2).text()),
        (LEASES, lease_key(0, 0)): Position(*LeaseState(window, RUN, is_released=False).encode()),
        (OFFSET_MAP_TOPIC.format(source="b"), 0): Position(len(paused), json.dumps(paused)),
    }
    if stops:
        kept[LEASES, stop_key()] = Position(*with_stop(RUN, None))
    return kept | dict(positions)


def at(offset: int, ids: str, upstream: tuple[str, ...] = (), *, registered: int | None = None) -> Position:
    return Position(offset, str(PositionMetadata(ids, "0,0,7", upstream=upstream, registered=registered)))


def found(*mirrors: Offsets) -> Mapping[str, Upstream]:
    return upstreams_of(mirrors, HERE, now_ms=NOW_MS)


def test_a_running_mirror_has_its_source_and_that_sources_origins_upstream():
    told = found(mirror({("t", 0): at(5, "there-t:here-t", ("first", "second")), ("b.u", 1): at(2, "there-u:here-u")}))
    assert told == {
        "t": Upstream(frozenset({"there-t", "first", "second"}), frozenset(), 5),
        "b.u": Upstream(frozenset({"there-u"}), frozenset(), 2),
    }
    assert told["t"].ids == ("first", "second", "there-t")


@pytest.mark.parametrize(
    "how",
    [
        {"window": 900},  # its last window was over long ago
        {"stops": True},
        {"paused": ("t",)},
        {"paused": ("no", "t.*")},
    ],
)
def test_one_that_does_not_run_or_has_the_topic_paused_rests(how):
    assert found(mirror({("t", 0): at(5, "there-t:here-t")}, **how)) == {
        "t": Upstream(frozenset(), frozenset({"there-t"}), 5)
    }


def test_a_topic_is_paused_by_its_name_on_the_mirrors_source():
    told = found(mirror({("b.u", 0): at(5, "there-u:here-u")}, paused=("u",)))
    assert told["b.u"].resting == {"there-u"}
    assert found(mirror({("b.u", 0): at(5, "there-u:here-u")}, paused=("t",)))["b.u"].live == {"there-u"}


@pytest.mark.parametrize("ids", ["", "there-t", "there-t:", "there-t:another", ":here-t"])
def test_positions_of_other_topics_of_that_name_tell_nothing(ids):
    assert found(mirror({("t", 0): at(5, ids), ("gone", 0): at(5, "x:y")})) == {}


@pytest.mark.parametrize("layout", ["of another version", "1-2", "1-1-x-2"])
def test_a_mirror_whose_leases_cannot_be_read_is_taken_for_one_that_runs(layout):
    told = mirror({("t", 0): at(5, "there-t:here-t")}, window=1)
    told[LEASES, layout_key()] = Position(0, layout)
    assert found(told)["t"].live == {"there-t"}


def test_a_group_without_leases_is_no_mirror():
    assert found({("t", 0): at(5, "there-t:here-t")}) == {}


def test_upstream_clusters_of_several_mirrors_are_merged():
    first = mirror({("t", 0): at(5, "one:here-t")})
    second = mirror({("t", 0): at(3, "two:here-t")}, window=1)
    assert found(first, second) == {"t": Upstream(frozenset({"one"}), frozenset({"two"}), 8)}


LIVE, RESTING, ELSEWHERE = (
    Upstream(live=frozenset({"theirs"}), progress=5),
    Upstream(resting=frozenset({"theirs"}), progress=5),
    Upstream(live=frozenset({"a third cluster's"}), resting=frozenset({"a fourth's"}), progress=5),
)


@pytest.mark.parametrize(
    ("now", "before", "so_far", "placed", "rounds"),
    [
        (LIVE, None, False, True, True),  # somebody brings its records already: this flow is not to begin
        (LIVE, LIVE, False, True, False),  # the other one was told so too, and does not
        (LIVE, RESTING, False, True, False),  # it runs again, and brings nothing
        (LIVE, LIVE._replace(progress=4), False, True, True),  # it does bring them
        (LIVE, Upstream(), False, True, True),  # for the first time
        (LIVE, LIVE, True, True, True),  # it is not for a topic at rest to begin again beside it
        (RESTING, None, False, False, True),  # all that came from there would go back
        (RESTING, None, False, True, False),  # but it is known where to begin
        (RESTING, LIVE, True, True, False),  # the other one has ended
        (RESTING, LIVE, True, False, True),
        (ELSEWHERE, None, False, False, False),  # a chain of clusters
        (ELSEWHERE, Upstream(), True, False, False),
    ],
)
def test_which_topics_go_round(now, before, so_far, placed, rounds):
    found = going_round(
        {"t": now},
        None if before is None else {"t": before},
        on_target=frozenset({"theirs", "x"}),
        so_far={"t"} if so_far else set(),
        placed={"t"} if placed else set(),
    )
    assert found == ({"t"} if rounds else set())


@pytest.mark.parametrize(
    ("registered", "flow_back", "brought"),
    [
        pytest.param(0, "b", None, id="all that it wrote is told apart"),
        pytest.param(9, "b", Upstream(resting=frozenset({"there-t"}), progress=5), id="what it wrote before is not"),
        pytest.param(
            None, "b", Upstream(live=frozenset({"there-t", "here-t"}), progress=5), id="nothing is registered"
        ),
        pytest.param(0, "other", Upstream(live=frozenset({"there-t", "here-t"}), progress=5), id="not the flow back"),
        pytest.param(0, None, Upstream(live=frozenset({"there-t", "here-t"}), progress=5), id="one way only"),
    ],
)
def test_records_of_the_reverse_flow_have_no_upstream(registered, flow_back, brought):
    mirrors = [mirror({("t", 0): at(5, "there-t:here-t", ("here-t",), registered=registered)})]
    told = upstreams_of(mirrors, HERE, now_ms=NOW_MS, flow_back=flow_back)
    assert told == ({} if brought is None else {"t": brought})
